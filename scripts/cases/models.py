"""The two small models of the recorded cases and the data they learn.

Both models hand every intermediate tensor to `self.tap(name, tensor)`, in
execution order, because a dump is only as good as its order: "the first
non-finite tensor" means the first one computed.
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
        """Returns (input_ids, labels); labels are the next tokens."""
        weights = torch.tensor(self.WEIGHTS)
        ids = torch.zeros(rows, CONTEXT + 1, dtype=torch.int64)
        ids[:, 0] = torch.randint(VOCAB, (rows,), generator=self.rng)
        for t in range(1, CONTEXT + 1):
            branch = torch.multinomial(weights, rows, True, generator=self.rng)
            ids[:, t] = self.next[branch, ids[:, t - 1]]
            if t >= self.LAG:
                copy = torch.rand(rows, generator=self.rng) < 0.5
                ids[copy, t] = ids[copy, t - self.LAG]
        return ids[:, :-1].clone(), ids[:, 1:].clone()


class GaussianMixture:
    """Eight overlapping Gaussians in 16 dimensions, one a class."""

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)
        centres = torch.Generator().manual_seed(1)
        self.centres = 0.75 * torch.randn(CLASSES, FEATURES, generator=centres)

    def batch(self, rows=64):
        labels = torch.randint(CLASSES, (rows,), generator=self.rng)
        noise = torch.randn(rows, FEATURES, generator=self.rng)
        return self.centres[labels] + noise, labels


class Attention(nn.Module):
    def __init__(self, width, heads, half_scores):
        super().__init__()
        self.heads, self.half_scores = heads, half_scores
        for name in ("q", "k", "v", "proj"):
            setattr(self, name, nn.Linear(width, width, bias=False))

    def forward(self, x, tap):
        tap("input", x)
        rows, steps, width = x.shape

        def split(y):
            return y.view(rows, steps, self.heads, -1).transpose(1, 2)

        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        if self.half_scores:
            # What autocast does to a matmul. The scale comes after it, as in
            # many hand-written attentions, so the product meets fp16's range.
            q, k = q.half(), k.half()
        tap("scores.input", torch.stack((q, k), 1))  # rows stay first
        scores = q @ k.transpose(-1, -2)
        tap("scores.output", scores)
        future = torch.ones(steps, steps, dtype=torch.bool).triu(1)
        scores = scores * (width // self.heads) ** -0.5
        probs = scores.masked_fill(future, -math.inf).softmax(-1)
        tap("probs.output", probs)
        mixed = (probs.to(v.dtype) @ v).transpose(1, 2).reshape(x.shape)
        out = self.proj(mixed)
        tap("output", out)
        return out


class Block(nn.Module):
    def __init__(self, width, heads, half_scores):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, half_scores)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, x, tap):
        x = x + self.attn(self.ln_1(x), lambda n, t: tap(f"attn.{n}", t))
        y = self.ln_2(x)
        tap("mlp.input", y)
        y = self.mlp(y)
        tap("mlp.output", y)
        return x + y


class Gpt(nn.Module):
    """A pre-norm GPT: 2 layers, width 64, 4 heads, untied head."""

    LAYERS = ["embed", "blocks.0.attn", "blocks.0.attn.scores", "blocks.0.mlp",
              "blocks.1.attn", "blocks.1.attn.scores", "blocks.1.mlp", "ln_f",
              "head"]

    def __init__(self, width=64, heads=4, layers=2, half_scores=False,
                 detach_after=None):
        super().__init__()
        self.detach_after = detach_after
        self.embed = nn.ModuleDict({"tok": nn.Embedding(VOCAB, width),
                                    "pos": nn.Embedding(CONTEXT, width)})
        self.blocks = nn.ModuleList(
            Block(width, heads, half_scores) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCAB, bias=False)
        self.tap = lambda name, tensor: None
        for name, p in self.named_parameters():
            if p.dim() == 2:
                # GPT-2's rule: what writes to the residual stream is scaled.
                residual = "proj" in name or "mlp.2" in name
                std = 0.02 / math.sqrt(2 * layers) if residual else 0.02
                nn.init.normal_(p, std=std if "embed" not in name else 0.1)

    def forward(self, ids):
        x = self.embed["tok"](ids) + self.embed["pos"].weight
        self.tap("embed.output", x)
        for i, block in enumerate(self.blocks):
            x = block(x, lambda n, t, i=i: self.tap(f"blocks.{i}.{n}", t))
            if i == self.detach_after:
                x = x.detach()
        x = self.ln_f(x)
        self.tap("ln_f.output", x)
        x = self.head(x)
        self.tap("head.output", x)
        return x

    def loss(self, ids, labels):
        loss = F.cross_entropy(self(ids).flatten(0, 1), labels.flatten(),
                               ignore_index=-100)
        self.tap("loss.output", loss)
        return loss


class Mlp(nn.Module):
    """A classifier with two hidden ReLU layers of width 64."""

    LAYERS = ["fc1", "fc2", "out"]

    def __init__(self, width=64):
        super().__init__()
        self.fc1 = nn.Linear(FEATURES, width)
        self.fc2 = nn.Linear(width, width)
        self.out = nn.Linear(width, CLASSES)
        self.tap = lambda name, tensor: None

    def forward(self, x):
        for name in self.LAYERS:
            self.tap(f"{name}.input", x)
            x = getattr(self, name)(x)
            if name != "out":
                x = F.relu(x)
            self.tap(f"{name}.output", x)
        return x

    def loss(self, x, labels):
        loss = F.cross_entropy(self(x), labels)
        self.tap("loss.output", loss)
        return loss
