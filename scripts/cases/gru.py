"""A recurrent language model over a language of brackets."""

import torch
from torch import nn

from . import models, sources
from .family import Family


class Brackets(sources.Source):
    """Six kinds of brackets, nested at most four deep, with text inside.

    At depth 0 one opens. Deeper, one opens with 0.15 (not at depth 4), closes
    with 0.15 (0.3 at depth 4), else a token of text follows, of the innermost
    bracket's own six: one of three successors of the last token of text, with
    0.8, 0.15 and 0.05. Ids: 6 openers, 6 closers, 36 of text.

    With P(depth) of 0.15, 1, 1, 1 and 0.5 parts of 3.65 the entropy is 1.46
    nats; a fresh model starts at ln 48 = 3.87. What to close, and what text
    may follow, has to be remembered.
    """

    KINDS, DEPTH = 6, 4
    WEIGHTS, OFFSETS = (0.8, 0.15, 0.05), (0, 1, 3)

    def __init__(self, seed, shape):
        super().__init__(seed, shape)
        language = torch.Generator().manual_seed(3)
        self.next = torch.stack([torch.randperm(self.KINDS, generator=language)
                                 for _ in range(self.KINDS)])

    def draw(self, rows):
        kinds, at = self.KINDS, torch.arange(rows)
        weights, offsets = map(torch.tensor, (self.WEIGHTS, self.OFFSETS))
        width = self.context + 1
        ids = torch.zeros(rows, width, dtype=torch.int64)
        stack = torch.zeros(rows, self.DEPTH + 1, dtype=torch.int64)
        depth = torch.zeros(rows, dtype=torch.int64)
        drawn = torch.rand(width, rows, generator=self.rng)
        opened = torch.randint(kinds, (width, rows), generator=self.rng)
        branch = torch.multinomial(weights, width * rows, True,
                                   generator=self.rng).view(width, rows)
        last = torch.randint(kinds, (rows,), generator=self.rng)
        for t in range(width):
            opens = (depth == 0) | ((drawn[t] < 0.15) & (depth < self.DEPTH))
            closes = ~opens & (drawn[t] < 0.3)
            top = stack[at, depth]
            text = (self.next[top, last] + offsets[branch[t]]) % kinds
            ids[:, t] = torch.where(opens, opened[t], torch.where(
                closes, kinds + top, 2 * kinds + kinds * top + text))
            last = torch.where(opens | closes, last, text)
            depth = depth + opens.long() - closes.long()
            stack[at[opens], depth[opens]] = opened[t][opens]
        return sources.shifted(ids)


class Cell(nn.Module):
    """A GRU layer as PyTorch defines it, written out so that its parts can be
    watched; reset, update and candidate lie side by side in both weights."""

    def __init__(self, inputs, width, options):
        super().__init__()
        self.wx = nn.Linear(inputs, 3 * width)
        self.wh = nn.Linear(width, 3 * width)
        self.width, self.options = width, options
        self.act = models.ACTIVATIONS[options["activation"]]()

    def forward(self, x, tap):
        gates = self.wx(x).split((2 * self.width, self.width), -1)
        gates, new = (part.unbind(1) for part in gates)
        h = x.new_zeros(len(x), self.width)
        seen = {name: [] for name in ("wh.output", "update.output",
                                      "cand.input", "cand.output")}
        out, every = [], self.options["reset_every"]
        for t in range(len(gates)):
            if every and t and t % every == 0:
                h = torch.zeros_like(h)
            past = self.wh(h)
            gate = torch.sigmoid(gates[t] + past[:, :2 * self.width])
            reset, update = gate.chunk(2, -1)
            before = new[t] + reset * past[:, 2 * self.width:]
            candidate = self.act(before)
            h = torch.lerp(candidate, h, update)
            out.append(h)
            for name, value in zip(seen, (past, update, before, candidate)):
                seen[name].append(value.detach())
        for name, values in seen.items():
            tap(name, torch.stack(values, 1))
        out = torch.stack(out, 1)
        tap("output", out)
        return out


class Gru(models.Language):
    """Two GRU layers of width 56, a head that is not tied."""

    def __init__(self, vocab=48, width=56, activation="tanh", dropout=0.0,
                 detach_after=None, half=False, reset_every=0):
        """detach_after -1 cuts behind the embedding; half: logits are in
        fp16; reset_every: the state is cleared
        every so many tokens."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.embed = nn.Embedding(vocab, width)
        options = {"activation": activation, "reset_every": reset_every}
        self.half_logits = half
        self.rnn = nn.ModuleList(Cell(width, width, options)
                                 for _ in range(2))
        self.head = nn.Linear(width, vocab)
        nn.init.uniform_(self.embed.weight, -0.1, 0.1)

    def forward(self, ids, position_ids=None, segments=None):
        x = self.embed(ids)
        self.tap("embed.output", x)
        if self.detach_after == -1:
            x = x.detach()
        for i, cell in enumerate(self.rnn):
            x = cell(self.drop(x),
                     lambda n, t, i=i: self.tap(f"rnn.{i}.{n}", t))
            if i == self.detach_after:
                x = x.detach()
        self.tap("head.input", x)
        x = self.head(self.drop(x))
        if self.half_logits:
            x = x.half()
        self.tap("head.output", x)
        return x


class GruRun(Family):
    """Adam without decay, a rate in steps, clipping at a norm of 5."""

    family = "gru"
    level_seed = 400
    steps, seed = 260, 80
    optimizer_name, lr, warmup, schedule = "adam", 1.5e-2, 0, "step"
    weight_decay, clip = 0.0, 5.0
    recipes = {"sgd": dict(lr=0.5, weight_decay=0.0)}
    batch_size, context, vocab = 20, 40, 48
    layers = ["embed", "rnn.0.update", "rnn.0.cand", "rnn.0", "rnn.1.update",
              "rnn.1.cand", "rnn.1", "head"]
    paths = {"embed": "embed", "attn": None, "scores": None,
             "act": "rnn.{}.cand", "mlp": "rnn.{}", "block": "rnn.{}",
             "head": "head"}
    blocks = 2
    names = {"step": "global_step", "loss": "train/loss",
             "grad_norm": "train/grad_norm", "lr": "train/learning_rate",
             "step_time": "train/step_time", "val_loss": "valid/loss"}

    def make_model(self):
        return Gru(**self.model_options)

    def make_source(self, seed):
        return Brackets(seed, (self.vocab, self.context, self.batch_size))

    def lr_factor(self, i):
        """Times 0.3 after three fifths of the run and after 85 %."""
        if self.schedule != "step" or i < self.warmup:
            return super().lr_factor(i)
        return 0.3 ** ((i >= 0.6 * self.steps) + (i >= 0.85 * self.steps))

    def model_settings(self):
        return {"model": "gru", "num_layers": 2, "hidden_size": 56,
                "embedding_dim": 56, "vocab_size": self.vocab,
                "seq_len": self.context, "tie_weights": False}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        return []
