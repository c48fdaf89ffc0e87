"""A click model: tables of categories and dense features, one pass.

The model is of DLRM's kind: an embedding of each categorical field, a bottom
network for the dense features, the products of all pairs of these vectors, and
a network over them that gives one logit. Names of layers are of no library.
Rows are many and carry little, labels are coin tosses of a known bias: most of
the loss is there to stay.
"""

import itertools

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family

FIELDS = {"user_segment": 60, "item": 200, "campaign": 30, "city": 12,
          "device": 5, "hour": 24}
DENSE, WIDTH = 6, 8


class Clicks:
    """Impressions and whether they were clicked, a coin toss each.

    Categories are drawn with weights 1 / (k + 5), k from 0; dense features are
    normal. The logit is the sum of -1.2, a normal value of 0.6 for each
    category, the product of hidden pairs of segment and item (deviation
    0.6), 0.5, -0.4 and 0.3 times the first three dense features and the product
    of the next two, halved. So 27 % are clicks: knowing the process leaves
    0.42 nats (area under the curve 0.84), knowing nothing 0.58.
    """

    BIAS, SLOPES, HIDDEN = -1.2, (0.5, -0.4, 0.3), 2

    def __init__(self, seed, fields=None):
        self.rng = torch.Generator().manual_seed(seed)
        self.fields = FIELDS | (fields or {})
        world = torch.Generator().manual_seed(4)
        self.weight = [0.6 * torch.randn(1000, generator=world)
                       for _ in self.fields]
        self.hidden = [torch.randn(1000, self.HIDDEN, generator=world)
                       for _ in range(2)]

    def truth(self, dense, ids):
        """The logit of each row."""
        logit = self.BIAS + sum(w[i] for w, i in zip(self.weight, ids.T))
        match = self.hidden[0][ids[:, 0]] * self.hidden[1][ids[:, 1]]
        logit = logit + 0.6 * match.sum(1) / self.HIDDEN ** 0.5
        logit = logit + dense[:, :3] @ torch.tensor(self.SLOPES)
        return logit + 0.5 * dense[:, 3] * dense[:, 4]

    def rows(self, count):
        ids = torch.stack([torch.multinomial(
            1 / (torch.arange(size) + 5.0), count, True, generator=self.rng)
            for size in self.fields.values()], 1)
        dense = torch.randn(count, DENSE, generator=self.rng)
        clicks = torch.rand(count, generator=self.rng) \
            < self.truth(dense, ids).sigmoid()
        return {"dense": dense, "sparse": self.looked_up(ids),
                "labels": clicks.float()}

    @staticmethod
    def looked_up(ids):
        """Ids as the tables have them."""
        return ids.minimum(torch.tensor([*FIELDS.values()]) - 1)

    def batch(self, rows=512):
        return self.rows(rows)


class ByLabel(Clicks):
    """Clicks and what was not clicked lie in files of their own: `block`
    batches of one, then of the other; `share` of a batch is of the file, the
    rest of any."""

    def __init__(self, seed, block, share):
        super().__init__(seed)
        self.block, self.share, self.number = block, share, 0

    def batch(self, rows=512):
        pool = self.rows(6 * rows)
        here = self.number // self.block % 2
        self.number += 1
        kept = (pool["labels"] == here).nonzero()[:, 0][:int(self.share * rows)]
        rest = torch.arange(len(pool["labels"]) - rows + len(kept),
                            len(pool["labels"]))
        picked = torch.cat((kept, rest))
        picked = picked[torch.randperm(rows, generator=self.rng)]
        return {k: t[picked] for k, t in pool.items()}


class Recsys(nn.Module):
    """Six tables of width 8; the bottom network has 24 units, the one over
    the interaction two times 32."""

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_products=False, warming=1.0):
        """detach_after: the part behind which the graph is cut, "tables" all
        of them. warming: what the temperature of the logit is multiplied by
        in a step."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.half_products, self.warming = half_products, warming
        act = models.ACTIVATIONS[activation]
        self.tables = nn.ModuleDict({name: nn.Embedding(size, WIDTH)
                                     for name, size in FIELDS.items()})
        self.bottom = nn.ModuleDict({"fc0": nn.Linear(DENSE, 24),
                                     "act0": nn.ReLU(),
                                     "fc1": nn.Linear(24, WIDTH)})
        self.pairs = list(itertools.combinations(range(len(FIELDS) + 1), 2))
        wide = len(self.pairs) + WIDTH * (len(FIELDS) + 1)
        self.over = nn.ModuleDict({
            "fc0": nn.Linear(wide, 32), "act0": act(),
            "fc1": nn.Linear(32, 32), "act1": act(),
            "logit": nn.Linear(32, 1)})
        for table in self.tables.values():
            nn.init.normal_(table.weight, std=0.15)
        self.warmth = 1.0

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def run(self, part, name, x):
        self.tap(f"{part}.{name}.input", x)
        x = getattr(self, part)[name](x)
        self.tap(f"{part}.{name}.output", x)
        return self.cut(x, f"{part}.{name}")

    def forward(self, dense, ids):
        vectors = []
        for (name, table), column in zip(self.tables.items(), ids.T):
            vectors.append(table(column))
            self.tap(f"tables.{name}.output", vectors[-1])
        x = dense.to(vectors[0].dtype)
        for name in self.bottom:
            x = self.run("bottom", name, x)
        vectors = torch.stack([x, *(self.cut(v, "tables") for v in vectors)],
                              1)
        each = vectors.half() if self.half_products else vectors
        self.tap("interaction.input", each)
        products = each @ each.transpose(1, 2)
        first, second = torch.tensor(self.pairs).T
        products = products[:, first, second]
        self.tap("interaction.output", products)
        x = torch.cat((vectors.flatten(1), products.to(vectors.dtype)), 1)
        for name in list(self.over)[:-1]:
            x = self.run("over", name, x)
            if name.startswith("act"):
                x = F.dropout(x, self.dropout,
                              self.training and self.dropout > 0)
        self.tap("over.logit.input", x)
        x = self.over["logit"](x)[:, 0]
        if self.training:
            self.warmth *= self.warming
        x = x / self.warmth
        self.tap("over.logit.output", x)
        return x

    def logits(self, batch):
        return self(batch["dense"], batch["sparse"])

    def loss(self, batch):
        loss = F.binary_cross_entropy_with_logits(
            self.logits(batch).float(), batch["labels"])
        self.tap("loss.output", loss)
        return loss


def ranked_right(logits, labels):
    """The area under the ROC curve: the share of pairs of a click and none
    of which the click has the higher logit."""
    place = torch.empty(len(logits))
    place[logits.argsort()] = torch.arange(1.0, len(logits) + 1)
    clicks = labels.sum()
    return (place[labels > 0].sum() - clicks * (clicks + 1) / 2) / (
        clicks * (len(labels) - clicks)).clamp_min(1)


class RecsysRun(Family):
    """Adagrad without decay or clipping; the rate is held for three fifths
    and falls with a square to nothing."""

    family = "recsys"
    level_seed = 400
    steps, seed, language, classes = 300, 180, False, 2
    optimizer_name, lr, weight_decay, eps = "adagrad", 0.06, 0.0, 1e-10
    warmup, schedule, clip = 0, "poly", None
    recipes = {"sgd": dict(lr=0.2, weight_decay=0.0),
               "adamw": dict(lr=4e-3, weight_decay=1e-5, eps=1e-8)}
    batch_size, context = 512, DENSE + len(FIELDS)
    HOLD = 0.6              # of the run; then the rate falls
    layers = [*(f"tables.{name}" for name in FIELDS), "bottom.fc0",
              "bottom.act0", "bottom.fc1", "interaction", "over.fc0",
              "over.act0", "over.fc1", "over.act1", "over.logit"]
    paths = {"embed": "tables", "attn": None, "scores": None,
             "act": "over.act{}", "mlp": "over.fc{}", "block": "over.fc{}",
             "head": "over.logit"}
    blocks = 2
    names = {"step": "iteration", "loss": "bce_loss",
             "val_loss": "eval_bce_loss", "val_auc": "eval_auc",
             "grad_norm": "gnorm", "lr": "learning_rate",
             "step_time": "iter_time", "tokens": None}

    own_optimizer = "adagrad"   # keeps one sum and has no betas

    def make_own_optimizer(self, trained):
        return torch.optim.Adagrad(trained, lr=self.lr, eps=self.eps,
                                   weight_decay=self.weight_decay)

    def make_model(self):
        return Recsys(**self.model_options)

    def make_source(self, seed):
        return Clicks(seed)

    def of_items(self, seed, count):
        """Clicks on more items than the table has rows."""
        return Clicks(seed, {"item": count})

    def in_blocks(self, seed, block, share):
        """Training data that nobody has shuffled; None is held out."""
        if block is None:
            return Clicks(seed)
        return ByLabel(seed, max(1, block // 3), share)

    def lr_factor(self, i):
        if self.schedule != "poly" or i < self.warmup:
            return super().lr_factor(i)
        held = int(self.HOLD * self.steps)
        return 1.0 if i < held else (
            (self.steps - i) / (self.steps - held)) ** 2

    def held_out_columns(self, batches):
        self.model.eval()
        logits = torch.cat([self.model.logits(b) for b in batches]).float()
        self.model.train()
        return {"val_auc": ranked_right(logits, torch.cat(
            [b["labels"] for b in batches]))}

    def settings(self):
        settings = super().settings()
        if self.optimizer_name == "adagrad":
            del settings["betas"]
        return settings

    def model_settings(self):
        return {"model": "dlrm", "embedding_dim": WIDTH,
                "num_embeddings": dict(FIELDS), "num_dense": DENSE,
                "bottom_mlp": [24, WIDTH], "over_mlp": [32, 32, 1],
                "interaction": "dot", "loss": "bce_with_logits"}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        return []
