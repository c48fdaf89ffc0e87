"""The small models of the recorded cases and the data they learn.

Every model hands its intermediate tensors to `self.tap(name, tensor)`, in
execution order, because a dump is only as good as its order: "the first
non-finite tensor" means the first one computed. A batch is a dict: input_ids
(or input) and labels, and position_ids and segments where rows are packed.

Options that are not the default are where faults sit; each says which.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

VOCAB, CONTEXT, BATCH = 64, 48, 16
CLASSES, FEATURES = 8, 16


class MarkovText:
    """Tokens with x_t = x_{t-8} half of the time, else an order-1 Markov step.

    The chain is a weighted sum of three permutations, so every token is
    equally frequent: a fresh model starts at ln 64 = 4.16 nats, knowing the
    previous token alone gives about 2.1, and the entropy is 0.84.
    """

    LAG, WEIGHTS = 8, (0.7, 0.2, 0.1)

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)
        # The language is the same for all seeds; the seed picks the sample.
        language = torch.Generator().manual_seed(1)
        self.next = torch.stack(
            [torch.randperm(VOCAB, generator=language) for _ in self.WEIGHTS])

    def batch(self, rows=BATCH):
        """Returns a batch; labels are the next tokens."""
        weights = torch.tensor(self.WEIGHTS)
        ids = torch.zeros(rows, CONTEXT + 1, dtype=torch.int64)
        ids[:, 0] = torch.randint(VOCAB, (rows,), generator=self.rng)
        for t in range(1, CONTEXT + 1):
            branch = torch.multinomial(weights, rows, True, generator=self.rng)
            ids[:, t] = self.next[branch, ids[:, t - 1]]
            if t >= self.LAG:
                copy = torch.rand(rows, generator=self.rng) < 0.5
                ids[copy, t] = ids[copy, t - self.LAG]
        return {"input_ids": ids[:, :-1].clone(), "labels": ids[:, 1:].clone()}


class ZipfText:
    """Tokens of very unequal frequency: with 0.4 the token of 5 before, else
    one of four successors of the previous token, drawn with Zipf's weights.

    A fresh model starts at ln 96 = 4.56 nats; single tokens have an entropy
    of 3.11, the previous token alone gives 1.92, all there is to know 1.08.
    """

    VOCAB, CONTEXT, BATCH = 96, 64, 8
    LAG, COPY, WEIGHTS = 5, 0.4, (0.6, 0.25, 0.1, 0.05)

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)
        language = torch.Generator().manual_seed(2)
        zipf = 1 / torch.arange(1.0, self.VOCAB + 1)
        self.next = torch.stack(
            [torch.multinomial(zipf, len(self.WEIGHTS), generator=language)
             for _ in range(self.VOCAB)], 1)

    def batch(self, rows=BATCH):
        weights = torch.tensor(self.WEIGHTS)
        length = self.CONTEXT + 1
        ids = torch.zeros(rows, length, dtype=torch.int64)
        ids[:, 0] = torch.randint(self.VOCAB, (rows,), generator=self.rng)
        for t in range(1, length):
            branch = torch.multinomial(weights, rows, True, generator=self.rng)
            ids[:, t] = self.next[branch, ids[:, t - 1]]
            if t >= self.LAG:
                copy = torch.rand(rows, generator=self.rng) < self.COPY
                ids[copy, t] = ids[copy, t - self.LAG]
        return {"input_ids": ids[:, :-1].clone(), "labels": ids[:, 1:].clone()}


class GaussianMixture:
    """Eight overlapping Gaussians in 16 dimensions, one a class."""

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)
        centres = torch.Generator().manual_seed(1)
        self.centres = 0.75 * torch.randn(CLASSES, FEATURES, generator=centres)

    def batch(self, rows=64):
        labels = torch.randint(CLASSES, (rows,), generator=self.rng)
        noise = torch.randn(rows, FEATURES, generator=self.rng)
        return {"input": self.centres[labels] + noise, "labels": labels}


class Group(nn.Module):
    """Submodules by name."""

    def __init__(self, /, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU, "sigmoid": nn.Sigmoid,
               "tanh": nn.Tanh, "silu": nn.SiLU, "none": nn.Identity}


def visible_keys(steps, future, segments):
    """What may be seen, (rows or 1, 1, steps, steps); `future` is how many
    later positions leak (0 is right, None hides nothing)."""
    seen = torch.ones(steps, steps, dtype=torch.bool)
    if future is not None:
        seen = seen.tril(future)
    seen = seen[None, None]
    if segments is not None:
        seen = seen & (segments[:, None, :, None] == segments[:, None, None])
    return seen


def attend(q, k, v, tap, scale, future=0, segments=None, half=False,
           seen=None):
    """Softmax attention over heads, (rows, heads, steps, width); `seen` is
    what may be seen, if not by `future` and `segments`."""
    if half:
        # What autocast does to a matmul. The scale comes after it, as in
        # many hand-written attentions, so the product meets fp16's range.
        q, k = q.half(), k.half()
    if q.shape == k.shape:
        tap("scores.input", torch.stack((q, k), 1))  # rows stay first
    scores = q @ k.transpose(-1, -2)
    tap("scores.output", scores)
    if seen is None:
        seen = visible_keys(q.shape[2], future, segments)
    scores = scores * scale
    probs = scores.masked_fill(~seen, -math.inf).softmax(-1)
    tap("probs.output", probs)
    with torch.no_grad():
        tap("scores.max_logit", scores.masked_fill(~seen, 0).abs().max())
        p = probs.float()
        entropy = -(p * p.clamp_min(1e-30).log()).sum(-1)
        keys = seen.sum(-1).expand(entropy.shape)
        share = entropy[keys > 1] / keys[keys > 1].log()
        tap("scores.attn_entropy_share", share.mean())
    return probs.to(v.dtype) @ v


class Attention(nn.Module):
    def __init__(self, width, heads, half_scores, scale):
        super().__init__()
        self.heads, self.half_scores, self.scale = heads, half_scores, scale
        for name in ("q", "k", "v", "proj"):
            setattr(self, name, nn.Linear(width, width, bias=False))

    def forward(self, x, tap, **seen):
        tap("input", x)
        rows, steps, width = x.shape

        def split(y):
            return y.view(rows, steps, self.heads, -1).transpose(1, 2)

        scale = (width // self.heads) ** -0.5 if self.scale is None \
            else self.scale
        mixed = attend(split(self.q(x)), split(self.k(x)), split(self.v(x)),
                       tap, scale, half=self.half_scores, **seen)
        out = self.proj(mixed.transpose(1, 2).reshape(x.shape))
        tap("output", out)
        return out


class Block(nn.Module):
    def __init__(self, width, heads, half_scores, scale, activation, half_mlp):
        super().__init__()
        self.half_mlp = half_mlp
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, half_scores, scale)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width),
                                 ACTIVATIONS[activation](),
                                 nn.Linear(4 * width, width))

    def forward(self, x, tap, drop, **seen):
        x = x + drop(self.attn(self.ln_1(x), lambda n, t: tap(f"attn.{n}", t),
                               **seen))
        y = self.ln_2(x)
        tap("mlp.input", y)
        y = self.mlp[0](y)
        if self.half_mlp:
            y = y.half()
        tap("mlp.act.input", y)
        y = self.mlp[1](y)
        tap("mlp.act.output", y)
        y = self.mlp[2](y.to(self.mlp[2].weight.dtype))
        tap("mlp.output", y)
        return x + drop(y)


class Language(nn.Module):
    """What the two language models share: loss and the no-op tap."""

    dropout, future = 0.0, 0

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def logits(self, batch):
        return self(batch["input_ids"], batch.get("position_ids"),
                    batch.get("segments"))

    def loss(self, batch):
        loss = F.cross_entropy(self.logits(batch).float().flatten(0, 1),
                               batch["labels"].flatten(), ignore_index=-100)
        self.tap("loss.output", loss)
        return loss


class Gpt(Language):
    """A pre-norm GPT: 2 layers, width 64, 4 heads, untied head."""

    LAYERS = ["embed", "blocks.0.attn", "blocks.0.attn.scores", "blocks.0.mlp",
              "blocks.1.attn", "blocks.1.attn.scores", "blocks.1.mlp", "ln_f",
              "head"]

    def __init__(self, width=64, heads=4, layers=2, half_scores=False,
                 half_mlp=False, detach_after=None, positions=True,
                 future=0, scale=None, activation="gelu", dropout=0.0):
        """detach_after -1 cuts behind the embedding; scale None is right."""
        super().__init__()
        self.detach_after, self.positions = detach_after, positions
        self.future, self.dropout = future, dropout
        self.embed = nn.ModuleDict({"tok": nn.Embedding(VOCAB, width),
                                    "pos": nn.Embedding(CONTEXT, width)})
        self.blocks = nn.ModuleList(
            Block(width, heads, half_scores, scale, activation, half_mlp)
            for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCAB, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                # GPT-2's rule: what writes to the residual stream is scaled.
                residual = "proj" in name or "mlp.2" in name
                std = 0.02 / math.sqrt(2 * layers) if residual else 0.02
                nn.init.normal_(p, std=std if "embed" not in name else 0.1)

    def forward(self, ids, position_ids=None, segments=None):
        x = self.embed["tok"](ids)
        self.tap("embed.tok.output", x)
        if self.positions:
            pos = self.embed["pos"].weight[:ids.shape[1]]
            if position_ids is not None:
                pos = self.embed["pos"](position_ids)
            self.tap("embed.pos.output", pos)
            x = x + pos
        self.tap("embed.output", x)
        if self.detach_after == -1:
            x = x.detach()
        x = self.drop(x)
        for i, block in enumerate(self.blocks):
            x = block(x, lambda n, t, i=i: self.tap(f"blocks.{i}.{n}", t),
                      self.drop, future=self.future, segments=segments)
            if i == self.detach_after:
                x = x.detach()
        x = self.ln_f(x)
        self.tap("ln_f.output", x)
        x = self.head(x)
        self.tap("head.output", x)
        return x


class Mlp(nn.Module):
    """A classifier with two hidden layers of width 64, ReLU by default."""

    LAYERS = ["fc1", "fc2", "out"]

    def __init__(self, width=64, activation="relu", detach_after=None,
                 half_at=None, dropout=0.0):
        super().__init__()
        self.detach_after, self.half_at = detach_after, half_at
        self.dropout = dropout
        self.fc1 = nn.Linear(FEATURES, width)
        self.fc2 = nn.Linear(width, width)
        self.out = nn.Linear(width, CLASSES)
        self.act = ACTIVATIONS[activation]()

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def forward(self, x):
        for name in self.LAYERS:
            layer = getattr(self, name)
            self.tap(f"{name}.input", x)
            x = layer(x.to(layer.weight.dtype))
            if name == self.half_at:
                x = x.half()
            if name != "out":
                self.tap(f"{name}.preact", x)
                x = self.act(x)
            self.tap(f"{name}.output", x)
            if name == self.detach_after:
                x = x.detach()
            if name != "out" and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
        return x

    def logits(self, batch):
        return self(batch["input"])

    def loss(self, batch):
        loss = F.cross_entropy(self.logits(batch).float(), batch["labels"])
        self.tap("loss.output", loss)
        return loss
