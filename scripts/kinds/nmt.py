"""Translation by OpenNMT-py. Three designs look odd and are sound."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, watched

BLANK, BOS, EOS = 1, 2, 3
WORDS, FIRST = 20, 4
LETTERS = "bdfgklmnprstvz"


def word(i, end):
    return LETTERS[i % 14] + "aeiou"[i % 5] + LETTERS[(3 * i + 1) % 14] + end


class PositionalEncoding(nn.Module):
    def __init__(self, dim, off, longest=40):
        super().__init__()
        at = torch.arange(longest)[:, None].float()
        rate = (torch.arange(0, dim, 2) * -(math.log(1e4) / dim)).exp()
        pe = torch.zeros(longest, dim)
        pe[:, 0::2], pe[:, 1::2] = (at * rate).sin(), (at * rate).cos()
        self.register_buffer("pe", pe[:, None])
        self.dim, self.off = dim, off

    def forward(self, x):
        x = x * math.sqrt(self.dim)
        return x if self.off else x + self.pe[:x.shape[1], 0]


class Embeddings(nn.Module):
    def __init__(self, words, dim, off):
        super().__init__()
        lut = nn.Embedding(words, dim, padding_idx=BLANK)
        self.make_embedding = nn.Sequential()
        self.make_embedding.add_module("emb_luts", nn.ModuleList([lut]))
        self.make_embedding.add_module("pe", PositionalEncoding(dim, off))

    def forward(self, x):
        return self.make_embedding.pe(self.make_embedding.emb_luts[0](x))


class MultiHeadedAttention(nn.Module):
    def __init__(self, heads, dim):
        super().__init__()
        self.heads = heads
        self.linear_keys = nn.Linear(dim, dim)
        self.linear_values = nn.Linear(dim, dim)
        self.linear_query = nn.Linear(dim, dim)
        self.final_linear = nn.Linear(dim, dim)

    def forward(self, key, query, mask):
        n, _, dim = query.shape
        split = lambda x: x.view(n, -1, self.heads, dim // self.heads) \
            .transpose(1, 2)
        k, v = split(self.linear_keys(key)), split(self.linear_values(key))
        q = split(self.linear_query(query)) / math.sqrt(dim // self.heads)
        score = (q @ k.mT).masked_fill(mask[:, None], -1e18)
        out = (score.softmax(-1) @ v).transpose(1, 2).reshape(n, -1, dim)
        return self.final_linear(out)


class FeedForward(nn.Module):
    def __init__(self, dim, wide):
        super().__init__()
        self.w_1, self.w_2 = nn.Linear(dim, wide), nn.Linear(wide, dim)
        self.layer_norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x):
        return x + self.w_2(self.w_1(self.layer_norm(x)).relu())


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.self_attn = MultiHeadedAttention(heads, dim)
        self.feed_forward = FeedForward(dim, 2 * dim)
        self.layer_norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x, mask):
        normed = self.layer_norm(x)
        return self.feed_forward(x + self.self_attn(normed, normed, mask))


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.self_attn = MultiHeadedAttention(heads, dim)
        self.context_attn = MultiHeadedAttention(heads, dim)
        self.feed_forward = FeedForward(dim, 2 * dim)
        self.layer_norm_1 = nn.LayerNorm(dim, eps=1e-6)
        self.layer_norm_2 = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x, memory, mask, own):
        normed = self.layer_norm_1(x)
        x = x + self.self_attn(normed, normed, own)
        x = x + self.context_attn(memory, self.layer_norm_2(x), mask)
        return self.feed_forward(x)


class Coder(nn.Module):
    def __init__(self, layer, words, dim, off):
        super().__init__()
        self.embeddings = Embeddings(words, dim, off)
        self.transformer = nn.ModuleList([layer(dim, 2)])
        self.layer_norm = nn.LayerNorm(dim, eps=1e-6)


class NMTModel(nn.Module):
    def __init__(self, words, dim=32, tied=False, off=False, leak=False):
        super().__init__()
        self.encoder = Coder(EncoderLayer, words, dim, off)
        self.decoder = Coder(DecoderLayer, words, dim, off)
        self.generator = nn.Linear(dim, words)
        self.leak = leak
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        if tied:
            self.decoder.embeddings = self.encoder.embeddings
            luts = self.encoder.embeddings.make_embedding.emb_luts
            self.generator.weight = luts[0].weight

    def forward(self, src, tgt):
        mask = (src == BLANK)[:, None]
        x = self.encoder.embeddings(src)
        for layer in self.encoder.transformer:
            x = layer(x, mask)
        memory = self.encoder.layer_norm(x)
        n = tgt.shape[1]
        own = torch.ones(n, n, dtype=torch.bool).triu(1)[None]
        if self.leak:
            own = own & False
        y = self.decoder.embeddings(tgt)
        for layer in self.decoder.transformer:
            y = layer(y, memory, mask, own)
        return self.generator(self.decoder.layer_norm(y))


def pairs(rows, order):
    """Sentences and their translation: other words, every two swapped."""
    out = []
    for _ in range(rows):
        n = 2 * int(torch.randint(1, 5, ()))
        src = torch.randint(WORDS, (n,))
        tgt = order[src].view(-1, 2).flip(1).flatten()
        out.append((src + FIRST, tgt + FIRST))
    return out


def padded(rows):
    """Sentences of a batch, side by side with blanks behind."""
    pad = lambda xs: nn.utils.rnn.pad_sequence(xs, True, BLANK)
    edge = torch.tensor([BOS]), torch.tensor([EOS])
    return pad([s for s, _ in rows]), \
        pad([torch.cat([edge[0], t, edge[1]]) for _, t in rows])


@kind(tied="", resumed="", sorted="", leak="causal-mask-leak",
      shuffled="label-pairing-mismatch label-noise",
      zero="gradients-not-zeroed", noam="lr-too-low lr-zero-from-scheduler")
def nmt(run):
    """Transformer by OpenNMT-py: its log, Noam's rates, step_N.pt.

    Odd and sound: `tied` has one table for both languages and the generator,
    `resumed` goes on with train_from, `sorted` begins with the short
    sentences, so that its loss stands still while they grow."""
    total, warm, dim, factor = 240, 40, 32, 0.5
    order = torch.randperm(WORDS)
    corpus, valid = pairs(1500, order), pairs(96, order)
    if run.has("shuffled"):  # "onmt sort by length" of one side alone
        other = sorted((t for _, t in corpus), key=len)
        corpus = [(s, other[i]) for i, (s, _) in enumerate(corpus)]
    words = FIRST + WORDS
    if run.has("tied"):  # one list of words for both languages
        corpus, valid = ([(s, t + WORDS) for s, t in part]
                         for part in (corpus, valid))
        words += WORDS
    model = NMTModel(words, dim, run.has("tied"), False, run.has("leak"))
    optimizer = torch.optim.Adam(model.parameters(), 0.0, (0.9, 0.998), 1e-9)
    listed = [word(i, "a") for i in range(WORDS)]
    listed = {"src": listed, "tgt": [w + "n" for w in listed]}
    if run.has("tied"):
        listed = dict.fromkeys(listed, listed["src"] + listed["tgt"])
    vocab = {side: ["<unk>", "<blank>", "<s>", "</s>", *its]
             for side, its in listed.items()}
    opt = {"save_model": "run/model", "encoder_type": "transformer",
           "decoder_type": "transformer", "layers": 1, "heads": 2,
           "hidden_size": dim, "word_vec_size": dim, "transformer_ff": 64,
           "position_encoding": True, "dropout": 0.0, "optim": "adam",
           "adam_beta2": 0.998, "decay_method": "noam",
           "warmup_steps": warm, "learning_rate": factor,
           "label_smoothing": 0.1, "max_grad_norm": 0, "batch_size": 16,
           "batch_type": "sents", "normalization": "tokens",
           "train_steps": total, "valid_steps": 40, "report_every": 10,
           "save_checkpoint_steps": 80, "param_init": 0.0,
           "param_init_glorot": True, "share_vocab": run.has("tied"),
           "share_embeddings": run.has("tied"),
           "share_decoder_embeddings": run.has("tied"), "seed": 1234}
    (run.folder / "config.yaml").write_text(
        "data:\n  corpus_1:\n    path_src: data/train.src\n    path_tgt: "
        "data/train.tgt\n  valid:\n    path_src: data/valid.src\n"
        "    path_tgt: data/valid.tgt\n" + "".join(
            f"{k}: {str(v).lower() if isinstance(v, bool) else v}\n"
            for k, v in opt.items()))
    file = "train.log"

    def info(*lines):
        stamp = run.stamp("%Y-%m-%d %H:%M:%S")
        ms = int(run.clock % 1 * 1000)
        run.say(*(f"[{stamp},{ms:03d} INFO] {t}" for t in lines), file=file)

    def begin(start=None):
        if start:
            info(f"Loading checkpoint from {start}")
        info("Parsed 2 corpora from -data.",
             "Building model...", *repr(model).splitlines(),
             f"* src vocab size = {words}", f"* tgt vocab size = {words}")
        info(f"encoder: {sum(p.numel() for p in model.encoder.parameters())}",
             f"decoder: {sum(p.numel() for p in model.decoder.parameters())}",
             f"* number of parameters: "
             f"{sum(p.numel() for p in model.parameters())}",
             "Start training on CPU, could be very slow",
             "Start training loop and validate every 40 steps...")

    def save(step):
        state = model.state_dict()
        keep(run, f"run/model_step_{step}.pt", {
            "model": {k: v for k, v in state.items() if "generator" not in k},
            "generator": model.generator.state_dict(), "vocab": vocab,
            "opt": opt, "optim": {
                "training_step": step + 1, "decay_step": step + 1,
                "optimizer": optimizer.state_dict()}})
        info(f"Saving checkpoint run/model_step_{step}.pt")

    def losses(src, tgt):
        out, goal = model(src, tgt[:, :-1]), tgt[:, 1:]
        log, real = out.log_softmax(-1), goal != BLANK
        n = int(real.sum())
        nll = -log.gather(2, goal[..., None])[..., 0]
        even = -log.sum(-1) / (words - 2)
        smooth = ((0.9 * nll + 0.1 * even) * real).sum()
        right = ((out.argmax(-1) == goal) & real).sum()
        return smooth / n, float((nll.detach() * real).sum()), n, int(right)

    def check():
        with torch.no_grad():
            _, nll, n, right = losses(*padded(valid))
        return nll / n, 100 * right / n

    def free(rows):
        """Share of words that are right where it hears itself alone."""
        src, tgt = padded(rows)
        said = torch.full((len(src), 1), BOS)
        with torch.no_grad():
            for _ in range(tgt.shape[1] - 1):
                said = torch.cat([said, model(src, said)[:, -1:].argmax(-1)],
                                 1)
        real = tgt[:, 1:] != BLANK
        return 100 * float((said[:, 1:] == tgt[:, 1:])[real].float().mean())

    info("Missing transforms field for corpus_1 data, set to default: [].")
    begin()
    save(0)
    rec = watched(run, model, optimizer, every=60, first_step=1,
                  max_dump_bytes=1 << 20)
    if run.has("sorted"):
        shown = sorted(corpus, key=lambda p: len(p[0]))
    heard = lambda: {"nll": 0.0, "n": 0, "right": 0, "src": 0, "sents": 0}
    stats, start = heard(), run.clock
    step, kept = 1, None
    while step <= total:
        rate = dim ** -0.5 * min(step ** -0.5, step * warm ** -1.5) * factor
        if run.has("noam"):  # an epoch counter reaches the scheduler
            late = 1 + step // 94
            rate = dim ** -0.5 * min(late ** -0.5, late * 4000 ** -1.5)
        rate = run.rate(rate)
        for group in optimizer.param_groups:
            group["lr"] = rate
        if run.has("sorted") and step <= 90:
            rows = [shown[i] for i in range(16 * (step - 1), 16 * step)]
        else:
            rows = [corpus[i] for i in torch.randint(1500, (16,)).tolist()]
        src, tgt = padded(rows)
        loss, nll, n, right = losses(src, tgt)
        if not run.has("zero"):
            optimizer.zero_grad()
        loss.backward()
        rec.batch(src=src, tgt=tgt)
        optimizer.step()
        rec.step(loss.detach(), step=step)
        for k, v in zip(stats, (nll, n, right, int((src != BLANK).sum()),
                                len(rows))):
            stats[k] += v
        run.tick(0.12)
        if step % 10 == 0:
            xent, s = stats["nll"] / stats["n"], stats
            info(f"Step {step:2d}/{total:5d}; acc: "
                 f"{100 * s['right'] / s['n']:2.1f}; ppl: "
                 f"{math.exp(min(xent, 100)):5.2f}; xent: {xent:2.2f}; "
                 f"lr: {rate:7.5f}; sents: {s['sents']:7.0f}; bsz: "
                 f"{s['src'] / 10:4.0f}/{s['n'] / 10:4.0f}/"
                 f"{s['sents'] / 10:2.0f}; {s['src'] / 1.2:3.0f}/"
                 f"{s['n'] / 1.2:3.0f} tok/s; {run.clock - start:6.0f} sec;")
            stats = heard()
        if step % 40 == 0:
            xent, acc = check()
            info("valid stats calculation", f"Train perplexity: "
                 f"{math.exp(min(nll / n, 100)):g}",
                 f"Train accuracy: {100 * right / n:g}",
                 f"Validation perplexity: {math.exp(min(xent, 100)):g}",
                 f"Validation accuracy: {acc:g}")
        if step % 80 == 0:
            save(step)
            if run.has("resumed") and step == 80:
                kept = copy.deepcopy((model.state_dict(),
                                      optimizer.state_dict()))
        step += 1
        if kept and step == 101:
            model.load_state_dict(kept[0])
            optimizer.load_state_dict(kept[1])
            run.tick(500)
            rec.close()
            step, kept, file, stats = 81, None, "train_2.log", heard()
            start = run.clock
            begin("run/model_step_80.pt")
            rec = watched(run, model, optimizer, every=60, first_step=81,
                          max_dump_bytes=1 << 20)
    rec.close()
    xent, acc = check()
    run.ends(xent=xent, acc=acc, free_acc=free(valid))
