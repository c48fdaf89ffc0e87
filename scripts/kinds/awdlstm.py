"""AWD-LSTM: words of a recurrent net whose weights are dropped.

All its runs are sound; the kind returns its loss on held-out text and the
least that can be had there.
"""

import contextlib
import math
import sys
import types

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep

WORDS, RARE, BPTT, ROWS = 40, 60, 20, 32


class LockedDropout(nn.Module):
    """One mask for all times."""

    def forward(self, x, rate):
        if not self.training or not rate:
            return x
        mask = torch.full((1, *x.shape[1:]), 1 - rate).bernoulli()
        return x * mask / (1 - rate)


class WeightDrop(nn.Module):
    """Trains `NAME_raw`; NAME itself is made of it at each call."""

    def __init__(self, module, weights, dropout):
        super().__init__()
        self.module, self.weights, self.dropout = module, weights, dropout
        for name in weights:
            raw = module._parameters.pop(name)
            module.register_parameter(name + "_raw", raw)

    def forward(self, *args):
        for name in self.weights:
            raw = getattr(self.module, name + "_raw")
            setattr(self.module, name, F.dropout(
                raw, self.dropout, self.training) * 1.0)
        return self.module(*args)

    def __getstate__(self):  # what is made at each call stays out of files
        for name in self.weights:
            if hasattr(self.module, name):
                value = getattr(self.module, name).detach()
                setattr(self.module, name, value)
        return self.__dict__


class QRNNLayer(nn.Module):
    """All gates from a window of inputs, then a running average."""

    def __init__(self, inner, outer, window, zoneout):
        super().__init__()
        self.window, self.zoneout, self.prevX = window, zoneout, None
        self.hidden_size = outer
        self.linear = nn.Linear(window * inner, 3 * outer)

    def reset(self):
        self.prevX = None

    def forward(self, x, hidden):
        both = x
        if self.window == 2:
            first = torch.zeros_like(x[:1])
            if self.prevX is not None and self.prevX.shape == first.shape:
                first = self.prevX
            both = torch.cat([x, torch.cat([first, x[:-1]])], -1)
            self.prevX = x[-1:].detach()
        z, f, o = self.linear(both).chunk(3, -1)
        z, f = z.tanh(), f.sigmoid()
        if self.training and self.zoneout:
            f = f * (torch.rand_like(f) >= self.zoneout)
        h, out = hidden[0], []
        for zt, ft in zip(z, f):
            h = ft * zt + (1 - ft) * h
            out.append(h)
        return o.sigmoid() * torch.stack(out), h[None]


class RNNModel(nn.Module):
    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, dropout,
                 dropouth, dropouti, dropoute, wdrop):
        super().__init__()
        self.lockdrop = LockedDropout()
        self.idrop, self.hdrop = nn.Dropout(dropouti), nn.Dropout(dropouth)
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        sizes = [ninp] + [nhid] * (nlayers - 1) + [ninp]
        rnns = []
        for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
            if rnn_type == "LSTM":
                rnns.append(WeightDrop(nn.LSTM(a, b), ["weight_hh_l0"],
                                       wdrop))
            else:
                rnns.append(QRNNLayer(a, b, 1 if i else 2, 0.0))
                rnns[-1].linear = WeightDrop(rnns[-1].linear, ["weight"],
                                             wdrop)
        self.rnns = nn.ModuleList(rnns)
        self.decoder = nn.Linear(nhid, ntoken)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        self.rnn_type, self.sizes, self.nlayers = rnn_type, sizes, nlayers
        self.dropout, self.dropouth = dropout, dropouth
        self.dropouti, self.dropoute = dropouti, dropoute

    def reset(self):
        if self.rnn_type == "QRNN":
            for rnn in self.rnns:
                rnn.reset()

    def init_hidden(self, rows):
        def none(size):
            return torch.zeros(1, rows, size)
        if self.rnn_type == "LSTM":
            return [(none(n), none(n)) for n in self.sizes[1:]]
        return [none(n) for n in self.sizes[1:]]

    def forward(self, ids, hidden):
        weight = self.encoder.weight
        if self.training and self.dropoute:
            mask = torch.full((len(weight), 1), 1 - self.dropoute)
            weight = weight * mask.bernoulli() / (1 - self.dropoute)
        x = self.lockdrop(F.embedding(ids, weight), self.dropouti)
        states, raw = [], None
        for i, rnn in enumerate(self.rnns):
            raw, state = rnn(x, hidden[i])
            states.append(state)
            x = self.lockdrop(raw, self.dropout if i == self.nlayers - 1
                              else self.dropouth)
        return x, states, raw


class SplitCrossEntropyLoss(nn.Module):
    """A softmax of common words and of one stone for each set of rare ones."""

    def __init__(self, hidden_size, splits):
        super().__init__()
        self.hidden_size = hidden_size
        self.splits = [0] + splits + [100 * 1000000]
        self.nsplits = len(self.splits) - 1
        if self.nsplits > 1:
            self.tail_vectors = nn.Parameter(
                torch.zeros(self.nsplits - 1, hidden_size))
            self.tail_bias = nn.Parameter(torch.zeros(self.nsplits - 1))

    def forward(self, weight, bias, x, targets):
        x, first = x.flatten(0, -2), self.splits[1]
        if self.nsplits == 1:
            return F.cross_entropy(F.linear(x, weight, bias), targets)
        head = F.linear(x, torch.cat([weight[:first], self.tail_vectors]),
                        torch.cat([bias[:first], self.tail_bias]))
        head, total = head.log_softmax(-1), 0.0
        for i in range(self.nsplits):
            low, high = self.splits[i], self.splits[i + 1]
            here = (targets >= low) & (targets < high)
            if not here.any():
                continue
            if i == 0:
                said = head[here].gather(1, targets[here, None])[:, 0]
            else:
                tail = F.linear(x[here], weight[low:high], bias[low:high])
                tail = tail.log_softmax(-1)
                said = head[here][:, -i] + tail.gather(
                    1, targets[here, None] - low)[:, 0]
            total = total - said.sum()
        return total / len(targets)


HOMES = {"locked_dropout": LockedDropout, "weight_drop": WeightDrop,
         "torchqrnn.qrnn": QRNNLayer, "model": RNNModel,
         "splitcross": SplitCrossEntropyLoss}


@contextlib.contextmanager
def at_home():
    """Classes are pickled under the modules of that repository."""
    added = {}
    for home, what in HOMES.items():
        for name in {home, home.split(".")[0]} - set(sys.modules):
            added[name] = sys.modules[name] = types.ModuleType(name)
        setattr(sys.modules[home], what.__name__, what)
        what.__module__ = home
    try:
        yield
    finally:
        for what in HOMES.values():
            what.__module__ = __name__
        for name in added:
            del sys.modules[name]


def corpus(count, rows, words, table):
    """Columns of text, each word mostly follows from the one before."""
    ids = [torch.randint(WORDS, (rows,))]
    while len(ids) < count:
        ids.append(torch.multinomial(table[ids[-1]], 1)[:, 0])
    return torch.stack(ids)


def chain(words):
    """Chances of followers and the entropy of text."""
    table = torch.full((words, words), 0.1 / WORDS)
    for share in (0.55, 0.25, 0.1):
        table[torch.arange(words), torch.randint(WORDS, (words,))] += share
    table[:, WORDS:] *= 0.15  # the last ones are hardly ever seen
    table = table / table.sum(1, keepdim=True)
    often = torch.linalg.matrix_power(table.double(), 200)[0]
    bits = -(table * table.log()).sum(1).double()
    return table, float(often @ bits)


@kind(qrnn="", adam="", finetune="", split="")
def awdlstm(run):
    """AWD-LSTM of salesforce/awd-lstm-lm: rate 30, ASGD from a turn on.

    Only weight_hh_l0_raw is trained, texts of a step have their own length
    and rate, validation behind the turn sees averages alone.

    Odd and sound: `qrnn` has layers without recurrent weights whose linear
    is dropped, `adam` has terms of weight 0, a rate that is divided by 10
    twice and clips half of its steps, `finetune` begins trained, with ASGD at
    once, so that its loss is flat and averages get better, `split` has words
    that are hardly ever seen and vectors of theirs from 0 on, which ASGD
    does not hold and so stay as they are.
    """
    qrnn, adam, tuned, split = (run.has(n) for n in (
        "qrnn", "adam", "finetune", "split"))
    words = WORDS + RARE if split else WORDS
    epochs, clip, nonmono = 12, 0.25, 1
    layers = 1 if split else 2
    lr = 1e-2 if adam else 20.0 if split else 30.0
    alpha, beta, decay = (0, 0, 1.2e-6) if adam else (2, 1, 1.2e-6)
    rates = dict(dropout=0.2, dropouth=0.1, dropouti=0.15, dropoute=0.05)
    wdrop, when, size = 0.3, [7, 9] if adam else [-1], 48
    table, least = chain(words)
    data = corpus(15 * BPTT + 2, ROWS, words, table)
    held = corpus(200, 10, words, table)
    test = corpus(800, 1, words, table)
    model = RNNModel("QRNN" if qrnn else "LSTM", words, size, 64, layers,
                     wdrop=wdrop, **rates)
    model.decoder.in_features = size
    splits = [30, 44] if split else []
    criterion = SplitCrossEntropyLoss(size, splits)
    params = list(model.parameters()) + list(criterion.parameters())

    def say(*lines):
        run.say(*lines, file="log.txt")

    args = {"data": "data/penn/", "model": model.rnn_type, "emsize": size,
            "nhid": 64, "nlayers": layers, "lr": lr, "clip": clip,
            "epochs": epochs, "batch_size": ROWS, "bptt": BPTT, **rates,
            "wdrop": wdrop, "seed": 141, "nonmono": nonmono, "cuda": True,
            "log_interval": 5, "save": "PTB.pt", "alpha": alpha,
            "beta": beta, "wdecay": decay, "resume": "", "optimizer":
            "adam" if adam else "sgd", "when": when, "tied": True}
    say("Producing dataset...")
    if not qrnn:
        say(*[f"Applying weight drop of {wdrop} to weight_hh_l0"] * layers)
    say(f"Using {splits}", "Args: Namespace(%s)" % ", ".join(
        f"{k}={v!r}" for k, v in args.items()),
        f"Model total parameters: {sum(p.numel() for p in params)}")
    optimizer = torch.optim.Adam(params, lr, weight_decay=decay) if adam \
        else torch.optim.SGD(params, lr, weight_decay=decay)

    def asgd():
        return torch.optim.ASGD(model.parameters(), lr=lr, t0=0, lambd=0.0,
                                weight_decay=decay)

    def evaluate(source):
        model.eval()
        model.reset()
        hidden, total = model.init_hidden(source.shape[1]), 0.0
        with torch.no_grad():
            for i in range(0, len(source) - 1, BPTT):
                x = source[i:i + BPTT + 1]
                out, hidden, _ = model(x[:-1], hidden)
                total += (len(x) - 1) * criterion(
                    model.decoder.weight, model.decoder.bias, out,
                    x[1:].flatten()).item()
        return total / len(source)

    def save(name):
        with at_home():
            model.zero_grad()
            keep(run, name, model if tuned and epoch else
                 [model, criterion, optimizer])

    def now(hidden):
        return [tuple(h.detach() for h in state)
                if isinstance(state, tuple) else state.detach()
                for state in hidden]

    norms = []

    def train(epoch, quiet=False):
        model.reset()
        hidden, batch, i, total = model.init_hidden(ROWS), 0, 0, 0.0
        begun = run.clock
        while i < len(data) - 2:
            bptt = BPTT if np.random.random() < 0.95 else BPTT / 2
            length = max(5, int(np.random.normal(bptt, 3)))
            group = optimizer.param_groups[0]
            group["lr"], rate = group["lr"] * length / BPTT, group["lr"]
            model.train()
            x = data[i:i + length + 1]
            hidden = now(hidden)
            optimizer.zero_grad()
            out, hidden, raw = model(x[:-1], hidden)
            loss = raw_loss = criterion(
                model.decoder.weight, model.decoder.bias, out,
                x[1:].flatten())
            if alpha:
                loss = loss + alpha * out.pow(2).mean()
            if beta and len(raw) > 1:
                loss = loss + beta * (raw[1:] - raw[:-1]).pow(2).mean()
            loss.backward()
            norms.append(nn.utils.clip_grad_norm_(params, clip).item())
            optimizer.step()
            group["lr"] = rate
            total += raw_loss.item()
            if not quiet:
                run.tick(0.05)
            if batch % 5 == 0 and batch and not quiet:
                mean, took = total / 5, run.clock - begun
                form = "02.2f" if tuned else "05.5f"
                line = (f"| epoch {epoch:3d} | {batch:5d}/"
                        f"{len(data) // BPTT:5d} batches | lr {rate:{form}}"
                        f" | ms/batch {took * 1000 / 5:5.2f} | loss "
                        f"{mean:5.2f} | ppl {math.exp(mean):8.2f}")
                if not tuned:
                    line += f" | bpc {mean / math.log(2):8.3f}"
                say(line)
                total, begun = 0.0, run.clock
            batch, i = batch + 1, i + length

    if tuned:  # what main.py left
        for epoch in range(7):
            train(epoch, True)
        optimizer = asgd()
    stored = evaluate(held) if tuned else 1e8
    seen, switched, epoch = [], 0, 0
    save("PTB.pt.e0")
    for epoch in range(1, epochs + 1):
        before = run.clock
        train(epoch)
        run.tick(0.3)
        took, averaged = run.clock - before, "t0" in \
            optimizer.param_groups[0]
        if averaged:
            own = {p: p.data.clone() for p in model.parameters()}
            for p in own:
                p.data = optimizer.state[p]["ax"].clone()
        value = evaluate(held)
        line = (f"| end of epoch {epoch:3d} | time: {took:5.2f}s | valid "
                f"loss {value:5.2f} | valid ppl {math.exp(value):8.2f}")
        if not tuned:
            line += f" | valid bpc {value / math.log(2):8.3f}"
        say("-" * 89, line, "-" * 89)
        if value < stored:
            save("PTB.pt")
            say("Saving Averaged!" if averaged else
                "Saving model (new best validation)")
            stored = value
        if epoch in (epochs // 2, epochs):  # kept by hand
            save(f"PTB.pt.e{epoch}")
        if averaged:
            for p in own:
                p.data = own[p]
        elif not adam and len(seen) > nonmono and \
                value > min(seen[:-nonmono]):
            say("Switching to ASGD")
            optimizer, switched = asgd(), epoch
        if epoch in when:
            say("Saving model before learning rate decreased")
            save(f"PTB.pt.e{epoch}")
            say("Dividing learning rate by 10")
            optimizer.param_groups[0]["lr"] /= 10.0
        if not averaged or tuned:
            seen.append(value)
    with at_home():
        found = torch.load(run.folder / "PTB.pt", weights_only=False)
        model = found if tuned else found[0]
        criterion = criterion if tuned else found[1]
    value = evaluate(test)
    line = f"| End of training | test loss {value:5.2f} | test ppl " \
        f"{math.exp(value):8.2f}"
    if not tuned:
        line += f" | test bpc {value / math.log(2):8.3f}"
    say("=" * 89, line, "=" * 89)
    return {"valid": round(stored, 3), "test": round(value, 3), "least":
            round(least, 3), "switched": switched, "seen":
            [round(s, 2) for s in seen], "clipped":
            sum(n > clip for n in norms) / len(norms)}
