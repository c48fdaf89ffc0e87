"""A BiLSTM and a CRF that tag names, by flair and by NCRF++.

All its runs are sound; the kind returns F1 of the test's spans.
"""

import copy
import math

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from kinds.base import kind
from kinds.outputs import keep, place

WORDS, LETTERS, WIDE, LONG = 72, 15, 12, 9
NAMES = {"PER": (40, 56), "LOC": (56, 72)}


def dictionary(more=()):
    tags = ["O"] + [f"{p}-{t}" for t in [*NAMES, *more] for p in "SBEI"]
    return tags + ["<START>", "<STOP>"]


def spelled():
    """Letters of each word; how names begin and end tells their kind."""
    out = torch.zeros(WORDS, 6, dtype=torch.long)
    for w in range(WORDS):
        n = int(torch.randint(3, 7, ()))
        out[w, :n] = torch.randint(4, LETTERS, (n,))
        if w >= 40:
            out[w, 0] = 1 if w < 56 else 2
            out[w, n - 1] = int(torch.randint(1, 4, ()))
    return out


def sentences(rows, tags):
    """Words, tags and lengths; three of five have a name."""
    words = torch.randint(40, (rows, LONG))
    goal = torch.zeros(rows, LONG, dtype=torch.long)
    lengths = torch.randint(5, LONG + 1, (rows,))
    for i in range(rows):
        if torch.rand(()) < 0.4:
            continue
        name = list(NAMES)[int(torch.randint(2, ()))]
        n = int(torch.randint(1, 4, ()))
        at = int(torch.randint(0, int(lengths[i]) - n + 1, ()))
        for j in range(n):
            part = "S" if n == 1 else "B" if j == 0 else \
                "E" if j == n - 1 else "I"
            words[i, at + j] = int(torch.randint(*NAMES[name], ()))
            goal[i, at + j] = tags.index(f"{part}-{name}")
    order = lengths.argsort(descending=True)
    return words[order], goal[order], lengths[order]


class CharLSTM(nn.Module):
    def __init__(self, wide=8, hidden=8):
        super().__init__()
        self.char_embedding = nn.Embedding(LETTERS, wide)
        self.char_rnn = nn.LSTM(wide, hidden, batch_first=True,
                                bidirectional=True)
        nn.init.xavier_uniform_(self.char_embedding.weight)

    def forward(self, letters):
        many = (letters > 0).sum(1)
        x = pack_padded_sequence(self.char_embedding(letters), many,
                                 batch_first=True, enforce_sorted=False)
        return self.char_rnn(x)[1][0].transpose(0, 1).flatten(1)


class WordEmbeddings(nn.Module):
    """Of a file, and never trained."""

    def __init__(self, vectors):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(vectors, freeze=True)


class StackedEmbeddings(nn.Module):
    def __init__(self, vectors):
        super().__init__()
        self.list_embedding_0 = WordEmbeddings(vectors)
        self.list_embedding_1 = CharLSTM()

    def forward(self, words, letters):
        return torch.cat([self.list_embedding_0.embedding(words),
                          self.list_embedding_1(letters)[words]], 2)


class CRF(nn.Module):
    """transitions[to, from]; none leads to the start or from the stop."""

    def __init__(self, size):
        super().__init__()
        self.transitions = nn.Parameter(torch.randn(size, size))
        self.transitions.data[size - 2, :] = -10000
        self.transitions.data[:, size - 1] = -10000


class SequenceTagger(nn.Module):
    def __init__(self, vectors, letters, size, hidden=16, first=False,
                 drop=0.1):
        super().__init__()
        self.letters, self.size, self.drop = letters, size, drop
        self.embeddings = StackedEmbeddings(vectors)
        total = vectors.shape[1] + 16
        self.embedding2nn = nn.Linear(total, total)
        if first:
            self.lstm_init_h = nn.Parameter(torch.zeros(2, hidden))
            self.lstm_init_c = nn.Parameter(torch.zeros(2, hidden))
        self.rnn = nn.LSTM(total, hidden, batch_first=True,
                           bidirectional=True)
        self.linear = nn.Linear(2 * hidden, size)
        self.crf = CRF(size)

    def locked(self, x):
        if not self.training:
            return x
        kept = torch.rand(len(x), 1, x.shape[2]) > self.drop
        words = torch.rand(len(x), x.shape[1], 1) > 0.05
        return x * kept / (1 - self.drop) * words

    def forward(self, words, lengths):
        x = self.locked(self.embeddings(words, self.letters))
        x = pack_padded_sequence(self.embedding2nn(x), lengths,
                                 batch_first=True)
        start = None
        if hasattr(self, "lstm_init_h"):
            start = tuple(p[:, None].expand(-1, len(words), -1).contiguous()
                          for p in (self.lstm_init_h, self.lstm_init_c))
        x = pad_packed_sequence(self.rnn(x, start)[0], batch_first=True)[0]
        return self.linear(x)

    @property
    def ways(self):
        return self.crf.transitions


def viterbi_loss(emit, goal, lengths, ways):
    """The sum over sentences of all paths less the true one."""
    start, stop = len(ways) - 2, len(ways) - 1
    most, rows = int(lengths.max()), torch.arange(len(goal))
    total = emit[:, 0] + ways[:, start]
    true = total[rows, goal[:, 0]]
    for t in range(1, most):
        there = lengths > t
        now = (total[:, None] + ways[None] + emit[:, t, :, None]) \
            .logsumexp(2)
        total = torch.where(there[:, None], now, total)
        step = emit[rows, t, goal[:, t]] + ways[goal[:, t], goal[:, t - 1]]
        true = true + torch.where(there, step, 0.0)
    true = true + ways[stop, goal[rows, lengths - 1]]
    return ((total + ways[stop]).logsumexp(1) - true).sum()


@torch.no_grad()
def decode(emit, lengths, ways):
    start, stop = len(ways) - 2, len(ways) - 1
    score, back = emit[:, 0] + ways[:, start], []
    for t in range(1, int(lengths.max())):
        best, at = (score[:, None] + ways[None]).max(2)
        there = (lengths > t)[:, None]
        back.append(torch.where(there, at, torch.arange(len(ways))))
        score = torch.where(there, best + emit[:, t], score)
    tag = (score + ways[stop]).argmax(1)
    out = [tag]
    for at in reversed(back):
        tag = at.gather(1, tag[:, None])[:, 0]
        out.append(tag)
    return torch.stack(out[::-1], 1)


def spans(row, tags):
    found, begun = set(), None
    for i, t in enumerate(row):
        part, _, name = tags[t].partition("-")
        if part == "S":
            found.add((i, i, name))
        if part == "B":
            begun = i, name
        elif part == "E" and begun and begun[1] == name:
            found.add((begun[0], i, name))
            begun = None
        elif part != "I":
            begun = None
    return found


def scored(model, data, tags, ways=None):
    """Loss of a word, precision, recall, F1, accuracy and by class."""
    words, goal, lengths = data
    model.eval()
    with torch.no_grad():
        emit = model(words, lengths)
        ways = model.ways if ways is None else ways
        loss = viterbi_loss(emit, goal, lengths, ways) / lengths.sum()
        said = decode(emit, lengths, ways)
    model.train()
    counts = {n: [0, 0, 0] for n in NAMES}
    right = 0
    for row, true, n in zip(said.tolist(), goal.tolist(), lengths.tolist()):
        a, b = spans(row[:n], tags), spans(true[:n], tags)
        right += sum(x == y for x, y in zip(row[:n], true[:n]))
        for name, c in counts.items():
            hits = [{s for s in v if s[2] == name} for v in (a, b, a & b)]
            for i, v in enumerate(hits):
                c[i] += len(v)
    total = [sum(c[i] for c in counts.values()) for i in range(3)]

    def f1(said, true, hits):
        p, r = hits / max(said, 1), hits / max(true, 1)
        return p, r, 2 * p * r / max(p + r, 1e-9)
    return {"loss": loss.item(), "all": f1(*total), "said": total[0],
            "acc": right / int(lengths.sum()),
            "words": (right, int(lengths.sum())),
            "by": {n: (*f1(*c), c[1]) for n, c in counts.items()}}


class NCRF(nn.Module):
    """NCRF++'s SeqLabel: letters by a CNN, all in word_hidden."""

    def __init__(self, vectors, letters, size):
        super().__init__()
        self.letters = letters
        self.word_hidden = hidden = nn.Module()
        hidden.wordrep = rep = nn.Module()
        rep.char_feature = chars = nn.Module()
        chars.char_embeddings = nn.Embedding(LETTERS, 8)
        span = math.sqrt(3 / 8)
        chars.char_embeddings.weight.data.uniform_(-span, span)
        chars.char_cnn = nn.Conv1d(8, 12, 3, padding=1)
        rep.word_embedding = nn.Embedding(WORDS, WIDE)
        rep.word_embedding.weight.data.copy_(vectors)
        hidden.lstm = nn.LSTM(WIDE + 12, 16, batch_first=True,
                              bidirectional=True)
        hidden.hidden2tag = nn.Linear(32, size)
        self.crf = nn.Module()
        ways = torch.zeros(size, size)
        ways[:, size - 2] = ways[size - 1] = -10000.0
        ways[:, 0] = ways[0] = -10000.0
        self.crf.transitions = nn.Parameter(ways)

    def forward(self, words, lengths):
        hidden, drop = self.word_hidden, nn.functional.dropout
        chars = hidden.wordrep.char_feature
        x = chars.char_cnn(chars.char_embeddings(self.letters).mT)
        x = torch.cat([hidden.wordrep.word_embedding(words),
                       x.max(2)[0][words]], 2)
        x = pack_padded_sequence(drop(x, 0.1, self.training), lengths,
                                 batch_first=True)
        x = pad_packed_sequence(hidden.lstm(x)[0], batch_first=True)[0]
        return hidden.hidden2tag(x)

    @property
    def ways(self):
        return self.crf.transitions.mT


def ncrf(run, vectors, letters, sets, tags):
    """main.py of NCRF++: sums over 100 sentences, F of -1 at first."""
    train, dev, test = sets
    # index 0 of its alphabets is no label
    sets = train, dev, test = [(w, g + 1, n) for w, g, n in sets]
    tags = ["</pad>"] + tags
    model = NCRF(vectors, letters, len(tags))
    say, epochs, size, lr, decay = run.say, 16, 10, 0.03, 0.05
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.0,
                                weight_decay=1e-8)
    say("Seed num: 42", "MODEL: train", "build sequence labeling network...",
        "use_char:  True", "char feature extractor:  CNN",
        "word feature extractor:  LSTM", "use crf:  True",
        "build word sequence feature extractor: LSTM...",
        "build word representation...",
        "build char sequence feature extractor: CNN ...", "build CRF...")
    say("++" * 50, "DATA SUMMARY START:", " I/O:",
        "     Start   Sequence   Laebling   task...",
        "     Tag          scheme: BMES", f"     Word  alphabet size: {WORDS}",
        f"     Char  alphabet size: {LETTERS}",
        f"     Label alphabet size: {len(tags) - 2}",
        f"     Train instance number: {len(train[0])}",
        f"     Dev   instance number: {len(dev[0])}",
        f"     Test  instance number: {len(test[0])}",
        "     FEATURE num: 0", " ++++++++++++++++++++",
        " Model Network:", "     Model        use_crf: True",
        " Training:", "     Optimizer: SGD", f"     Iteration: {epochs}",
        f"     BatchSize: {size}", "     Average  batch   loss: False",
        " Hyperparameters:", f"     Hyper              lr: {lr}",
        f"     Hyper        lr_decay: {decay}",
        "     Hyper         HP_clip: None", "     Hyper        momentum: 0.0",
        "     Hyper              l2: 1e-08", "DATA SUMMARY END.", "++" * 50)
    best = -10
    for epoch in range(epochs):
        now = lr / (1 + decay * epoch)
        say(f"Epoch: {epoch}/{epochs}", f" Learning rate is set as: {now}")
        for group in optimizer.param_groups:
            group["lr"] = now
        order, begun, last = torch.randperm(len(train[0])), run.clock, 0
        total = sample = right = seen = 0.0
        last = run.clock
        say("Shuffle: first input word list: "
            f"{train[0][order[0]].tolist()}")
        for i, at in enumerate(order.split(size)):
            at = at[train[2][at].argsort(descending=True)]
            words, goal, lengths = (v[at] for v in train)
            emit = model(words, lengths)
            loss = viterbi_loss(emit, goal, lengths, model.ways)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            said = decode(emit.detach(), lengths, model.ways)
            there = torch.arange(said.shape[1]) < lengths[:, None]
            right += ((said == goal[:, :said.shape[1]]) & there).sum().item()
            seen += there.sum().item()
            sample, total = sample + loss.item(), total + loss.item()
            run.tick(0.07)
            done = min((i + 1) * size, len(order))
            if done % 50 == 0:
                say(f"     Instance: {done}; Time: {run.clock - last:.2f}s; "
                    f"loss: {sample:.4f}; acc: {int(right)}/{int(seen)}="
                    f"{right / seen:.4f}")
                sample, last = 0.0, run.clock
        if done % 50:
            say(f"     Instance: {done}; Time: {run.clock - last:.2f}s; loss:"
                f" {sample:.4f}; acc: {int(right)}/{int(seen)}="
                f"{right / seen:.4f}")
        took = run.clock - begun
        say(f"Epoch: {epoch} training finished. Time: {took:.2f}s, speed: "
            f"{len(order) / took:.2f}st/s,  total loss: {total}",
            f"totalloss: {total}")
        for name, data in (("Dev", dev), ("Test", test)):
            s = scored(model, data, tags)
            hits, many = s["words"]
            p, r, f = s["all"] if s["said"] and s["all"][2] else (-1,) * 3
            say(f"gold_num =  {sum(v[3] for v in s['by'].values())}  pred_num"
                f" =  {s['said']}")
            say(f"{name}: time: 0.05s, speed: 1200.00st/s; acc: "
                f"{hits / many:.4f}, p: {p:.4f}, r: {r:.4f}, f: {f:.4f}")
            if name == "Dev" and f > best:
                say(f"Exceed previous best f score: {best}")
                file = f"lstmcrf.{epoch}.model"
                say(f"Save current best model in file: {file}")
                if epoch < 2 or epoch % 5 == 0 or epoch > epochs - 4:
                    keep(run, file, model.state_dict())
                best = f
    return scored(model, test, tags)


@kind(restarts="", decoder="", all="", ncrf="")
def crf(run):
    """flair's SequenceTagger: a CRF by SGD at .1, loss.tsv, training.log.

    Losses are sums over the words, clipping at 5 nearly always acts, words
    are frozen, transitions to the start are -10000, F1 is 0 for epochs. Odd
    and sound: `restarts` goes back to its best model where the rate is
    halved, until that is too small, `decoder` trains by AdamW with a rate of
    0 for all embeddings, `all` trains on the dev set too, so that nothing is
    evaluated, with a kind of name that never comes and first states, `ncrf`
    is NCRF++ with sums over a batch, a label that is none and F of -1.
    """
    restarts, fine = run.has("restarts"), run.has("decoder")
    whole = run.has("all")
    tags = dictionary(["ORG"] if whole else [])
    letters = spelled()
    kinds = torch.tensor([0] * 40 + [1] * 16 + [2] * 16)
    vectors = 0.25 * torch.randn(3, WIDE)[kinds] + 0.5 * torch.randn(
        WORDS, WIDE)
    sets = [sentences(n, tags) for n in (130, 60, 120)]
    if run.has("ncrf"):
        end = ncrf(run, vectors, letters, sets, tags)
        return {"f1": round(end["all"][2], 3), "acc": round(end["acc"], 3)}
    train, dev, test = sets
    if whole:
        train = tuple(map(torch.cat, zip(train, dev)))
    base = "resources/taggers/names"
    place(run, base, "resources/embeddings")
    np.save(run.folder / "resources/embeddings/glove.gensim.vectors.npy",
            vectors.numpy())
    model = SequenceTagger(vectors, letters, len(tags), first=whole)
    if fine:  # of a tagger before: what kind of word it is
        chars, out = model.embeddings.list_embedding_1, nn.Linear(16, 3)
        own = torch.optim.Adam([*chars.parameters(), *out.parameters()],
                               2e-2)
        for _ in range(60):
            own.zero_grad()
            nn.functional.cross_entropy(out(chars(letters)), kinds).backward()
            own.step()
        own.zero_grad()
        chars.zero_grad(set_to_none=True)
    epochs, size, lr = 18, 16, 0.1
    factor, patience, least = 0.5, 3, 1e-4
    if restarts:
        epochs, patience, least, lr = 26, 1, 0.02, 0.2
    if whole:
        epochs, patience = 14, 1
    named = list(model.named_parameters())
    if fine:
        epochs, lr, decoder = 14, 0.0, 0.02
        optimizer = torch.optim.AdamW([
            {"params": [p for n, p in named if "embeddings" not in n],
             "lr": decoder},
            {"params": [p for n, p in named if "embeddings" in n],
             "lr": lr}], lr=lr)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    steps = -(-len(train[0]) // size)
    if fine:
        warm, every = int(0.1 * epochs * steps), epochs * steps
        plan = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda i: i / warm if i < warm else
            max(0.0, (every - i) / (every - warm)))

    def say(text):
        form = run.stamp() + f",{int(run.clock * 1000) % 1000:03d} "
        run.say(form + text, file=f"{base}/training.log")

    line = lambda: say("-" * 100)

    def save(name):
        keep(run, f"{base}/{name}", {
            "state_dict": model.state_dict(), "__cls__": "SequenceTagger",
            "embeddings": {"__cls__": "StackedEmbeddings", "embeddings": [
                {"__cls__": "WordEmbeddings", "embeddings": "glove"},
                {"__cls__": "CharacterEmbeddings", "hidden_size_char": 8}]},
            "hidden_size": 16, "tag_dictionary": tags, "tag_format": "BIOES",
            "label_type": "ner", "use_crf": True, "use_rnn": True,
            "rnn_layers": 1, "reproject_embeddings": True,
            "use_dropout": 0.0, "use_word_dropout": 0.05,
            "use_locked_dropout": 0.1, "rnn_type": "LSTM",
            "train_initial_hidden_state": whole})

    line()
    for text in f'Model: "{model}"'.splitlines():
        say(text) if text.startswith("Model") else run.say(
            text, file=f"{base}/training.log")
    line()
    say(f"Corpus: {len(sets[0][0])} train + 60 dev + 120 test sentences")
    line()
    say(f"Train:  {len(train[0])} sentences")
    say(f"        (train_with_dev={whole}, train_with_test=False)")
    line()
    say("Training Params:")
    say(f' - learning_rate: "{lr}" '
        + ("(decoder: 0.02)" if fine else ""))
    say(f' - mini_batch_size: "{size}"')
    say(f' - max_epochs: "{epochs}"')
    say(' - shuffle: "True"')
    line()
    say("Plugins:")
    say(" - LinearScheduler | warmup_fraction: '0.1'" if fine else
        f" - AnnealOnPlateau | patience: '{patience}', anneal_factor: "
        f"'{factor}', min_learning_rate: '{least}'")
    line()
    say("Final evaluation on model " + (
        "after last epoch (final-model.pt)" if fine else
        "from best epoch (best-model.pt)"))
    say(" - metric: \"('micro avg', 'f1-score')\"")
    line()
    say("Computation:")
    say(" - compute on device: cpu")
    say(" - embedding storage: cpu")
    line()
    say(f'Model training base path: "{base}"')
    line()
    best, kept, bad, ranked = 0.0, None, 0, None
    rates = lambda f="{:.6f}": ",".join(
        f.format(g["lr"]) for g in optimizer.param_groups)
    columns = ["EPOCH", "TIMESTAMP", *([] if fine else ["BAD_EPOCHS"]),
               "LEARNING_RATE", "TRAIN_LOSS", *([] if whole else [
                   f"DEV_{c}" for c in ("LOSS", "PRECISION", "RECALL", "F1",
                                        "ACCURACY")])]
    clipped = 0
    for epoch in range(1, epochs + 1):
        line()
        at_rate = rates("{:.4f}")
        total = seen = 0.0
        begun = run.clock
        for i, at in enumerate(torch.randperm(len(train[0])).split(size)):
            at = at[train[2][at].argsort(descending=True)]
            words, goal, lengths = (v[at] for v in train)
            optimizer.zero_grad()
            loss = viterbi_loss(model(words, lengths), goal, lengths,
                                model.ways)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            clipped += norm.item() > 5
            optimizer.step()
            total, seen = total + loss.item(), seen + int(lengths.sum())
            run.tick(0.09)
            took = run.clock - begun
            still = ",".join(["0.000000"] * len(optimizer.param_groups))
            say(f"epoch {epoch} - iter {i + 1}/{steps} - loss "
                f"{total / seen:.8f} - time (sec): {took:.2f} - samples/sec:"
                f" {seen / took:.2f} - lr: {rates()} - momentum: {still}")
            if fine:
                plan.step()
        mean = total / seen
        line()
        say(f"EPOCH {epoch} done: loss {mean:.4f} - lr: {rates()}")
        row = {"EPOCH": epoch, "TIMESTAMP": run.stamp("%H:%M:%S"),
               "LEARNING_RATE": at_rate, "TRAIN_LOSS": f"{mean:.4f}"}
        if whole:
            rank, better = (-mean,), best == 0 or mean < best
        else:
            s = scored(model, dev, tags)
            run.tick(0.4)
            say(f"DEV : loss {s['loss']} - f1-score (micro avg)  "
                f"{round(s['all'][2], 4)}")
            rank = s["all"][2], -s["loss"]  # which decides among equals
            better = rank[0] > best
            row |= dict(zip(columns[-5:], (f"{v:.4f}" for v in (
                s["loss"], *s["all"], s["acc"]))))
        low = False
        if not fine:
            bad = 0 if ranked is None or rank > ranked else bad + 1
            ranked = rank if ranked is None else max(rank, ranked)
            if bad > patience:
                for group in optimizer.param_groups:
                    group["lr"] *= factor
                low = True
                say(f" - {patience + 1} epochs without improvement (above "
                    "'patience')-> annealing learning_rate to "
                    f"{[g['lr'] for g in optimizer.param_groups]}")
            else:
                say(f" - {bad} epochs without improvement")
            row["BAD_EPOCHS"] = patience + 1 if low else bad
            bad = 0 if low else bad
        if epoch == 1:
            run.say("\t".join(columns), file=f"{base}/loss.tsv")
        run.say("\t".join(str(row[c]) for c in columns),
                file=f"{base}/loss.tsv")
        if better:
            best = mean if whole else rank[0]
            if not whole and not fine:
                say("saving best model")
                save("best-model.pt")
                kept = copy.deepcopy(model.state_dict())
        if epoch in (1, 7) or whole and epoch == 13:
            save(f"model_epoch_{epoch}.pt")
        if optimizer.param_groups[0]["lr"] < least and not fine:
            line()
            say("learning rate too small - quitting training!")
            line()
            say("Saving model ...")
            save("final-model.pt")
            say("Done.")
            break
        if low and restarts and kept:
            say("resetting to best model")
            model.load_state_dict(kept)
    else:
        save("final-model.pt")
    line()
    if kept:
        say("Loading model from best epoch ...")
        model.load_state_dict(kept)
    else:
        say("Testing using last state of model ...")
    s = scored(model, test, tags)
    macro = sum(v[2] for v in s["by"].values()) / 2
    text = [f"\nResults:\n- F-score (micro) {s['all'][2]:.4f}\n- F-score "
            f"(macro) {macro:.4f}\n- Accuracy {s['acc']:.4f}\n\nBy class:\n"
            "              precision    recall  f1-score   support\n"]
    for name, v in s["by"].items():
        text.append(f"{name:>12s}" + "".join(f"{x:10.4f}" for x in v[:3])
                    + f"{v[3]:10d}")
    say("\n".join(text) + "\n")
    line()
    return {"f1": round(s["all"][2], 3), "acc": round(s["acc"], 3),
            "loss": round(s["loss"], 3), "epochs": epoch,
            "clipped": round(clipped / (epoch * steps), 2)}
