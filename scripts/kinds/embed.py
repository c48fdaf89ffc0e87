"""Word vectors as fastText trains them. Three designs look odd and are sound."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep

WORDS, BUCKET, TOPICS = 1500, 4000, 10


class SkipGramModel(nn.Module):
    """Words and their n-grams in one table; the contexts start at 0."""

    def __init__(self, words, dim):
        super().__init__()
        self.u_embeddings = nn.EmbeddingBag(WORDS + BUCKET, dim, mode="mean",
                                            sparse=True)
        self.v_embeddings = nn.Embedding(words, dim, sparse=True)
        nn.init.uniform_(self.u_embeddings.weight, -1 / dim, 1 / dim)
        nn.init.zeros_(self.v_embeddings.weight)

    @staticmethod
    def bag(words):
        return torch.stack([words] + [
            WORDS + words * prime % 7919 % BUCKET for prime in (31, 97)], 1)

    def forward(self, u, v, negative, sign=-1):
        u = self.u_embeddings(self.bag(u))
        score = (u * self.v_embeddings(v)).sum(1).clamp(-10, 10)
        false = torch.einsum("nd,nkd->nk", u, self.v_embeddings(negative))
        false = F.logsigmoid(sign * false.clamp(-10, 10))
        return -(F.logsigmoid(score) + false.sum(1)).mean()


@kind(cumulative="", restarts="", grown="",
      negatives="loss-sign-flipped representation-collapse",
      progress="lr-zero-from-scheduler", zeros="bad-initialization",
      pairs="label-pairing-mismatch label-noise")
def embed(run):
    """Word vectors as fastText trains them, by PyTorch's sparse Adam."""
    dim, epochs, n, lr, rows = 16, 5, 40, 0.02, 384
    often = 1 / (torch.arange(WORDS) + 5.0)

    def topic_pairs(words):
        """Two words of one topic, mostly; which a topic has is id % 10."""
        u = torch.multinomial(often[:words], rows, replacement=True)
        v = torch.multinomial(often[:words // TOPICS * TOPICS].view(-1, TOPICS)
                              .sum(1), rows, replacement=True) * TOPICS
        v = v + torch.where(torch.rand(rows) < 0.9, u % TOPICS,
                            torch.randint(TOPICS, (rows,)))
        return u, v

    words = 1000 if run.has("grown") else WORDS
    model = SkipGramModel(words, dim)
    if run.has("zeros"):
        nn.init.zeros_(model.u_embeddings.weight)
    build = lambda: torch.optim.SparseAdam(list(model.parameters()), lr)
    optimizer, file = build(), "train.log"
    call = f"python skipgram.py -input data/wiki.txt -output wiki -dim {dim} " \
        f"-lr {lr} -epoch {epochs} -neg 5 -bucket {BUCKET} -minn 3 -maxn 6 " \
        f"-thread 1 -b {rows}"
    run.say(call, file="run.sh")
    gensim, cosine = run.has("cumulative"), run.has("restarts")

    def head():
        run.say("Read 0M words", f"Number of words:  {words}",
                "Number of labels: 0", file=file)

    if not gensim:
        head()
    mean, count, total, tokens = 0.0, 0, 0.0, 0
    last = epochs * n
    for step in range(last):
        epoch, i = divmod(step, n)
        at = 1 - step / last
        if run.has("grown"):
            at = 1 - step % 100 / 100
            if step == 100:
                keep(run, "wiki.pt", {
                    "epoch": 2, "state_dict": model.state_dict(),
                    "optimizer": optimizer.state_dict(), "loss": mean / count})
                old, words = model, WORDS
                model = SkipGramModel(words, dim)
                model.u_embeddings.load_state_dict(
                    old.u_embeddings.state_dict())
                model.v_embeddings.weight.data[:1000] = \
                    old.v_embeddings.weight.data
                optimizer, file = build(), "train.update.log"
                run.say(f"{call.replace('wiki.txt', 'news.txt')} -update "
                        "wiki.pt", file="run.sh")
                head()
                mean = count = 0
        if run.has("progress"):  # of the epoch's words, not of all
            at = max(0.0, 1 - step / n)
        if cosine:
            if i == 0:
                optimizer = build()
                run.say("", "", "", f"Iteration: {epoch + 1}", file=file)
            at = 0.5 * (1 + math.cos(math.pi * i / n))
        optimizer.param_groups[0]["lr"] = lr * at
        u, v = topic_pairs(words)
        if run.has("pairs"):
            v = v[torch.randperm(rows)]
        negative = torch.multinomial(often[:words] ** 0.75, rows * 5,
                                     replacement=True).view(rows, 5)
        optimizer.zero_grad()
        loss = model(u, v, negative, 1 if run.has("negatives") else -1)
        loss.backward()
        optimizer.step()
        value = float(loss.detach())
        mean, count, tokens = mean + value, count + 1, tokens + rows // 5
        total += value * rows
        run.tick(0.006)
        if cosine and i % 5 == 4:
            run.say(f"\r{i * 100 // n:3d}%|{'#' * (i // 4):10}| {i}/{n} "
                    f"[00:00<00:00, 158.20it/s] Loss: {mean / count}",
                    file=file)
        elif not gensim and step % 4 == 3:
            done = step % 100 if run.has("grown") else step
            part = done / (100 if run.has("grown") else last)
            rest = int(0.6 * (1 - part))
            run.say(f"\rProgress: {100 * part:5.1f}% words/sec/thread: "
                    f"{12800 + step * 3 % 70:7d} lr: {lr * at:9.6f} avg.loss:"
                    f" {mean / count:9.6f} ETA: {0:3d}h{0:2d}m{rest:2d}s",
                    file=file)
        if gensim and i % 20 == 19:
            stamp = run.stamp("%Y-%m-%d %H:%M:%S,218 : INFO : ")
            run.say(f"{stamp}EPOCH {epoch} - PROGRESS: at {(i + 1) * 2.5:.2f}%"
                    f" examples, 12873 words/s, in_qsize 0, out_qsize 0",
                    *([f"{stamp}EPOCH {epoch}: training on {n * rows // 5} raw"
                       f" words ({n * rows // 6} effective words) took 0.2s, "
                       "10651 effective words/s",
                       f"Loss after epoch {epoch}: {total}"] if i == n - 1
                      else ()), file=file)
        if step in (0, last // 2 - 1, last - 1):
            keep(run, f"wiki.{step + 1:06d}.pt", {
                "epoch": epoch, "state_dict": model.state_dict(),
                "optimizer": optimizer.state_dict(), "loss": value})
    with torch.no_grad():
        e = F.normalize(model.u_embeddings(model.bag(torch.arange(300))))
        vectors = model.u_embeddings(model.bag(torch.arange(words)))
    near = (e @ e.T - 9 * torch.eye(300)).argmax(1) % TOPICS
    right = float((near == torch.arange(300) % TOPICS).float().mean())
    run.say(f"{words} {dim}", *(f"word{i} " + " ".join(
        f"{x:.5g}" for x in row) for i, row in enumerate(vectors.tolist())),
        file="wiki.vec")
    run.ends(loss=value, avg=mean / count, topic=right)
