"""A click model as DLRM's script trains it: tables of ids and dense counts.

As a user of dlrm_s_pytorch.py trains one on logs of impressions: an embedding
of each id feature, a bottom network for the dense features, the products of
all pairs of these vectors, and a top network over them that ends in a sigmoid.
Clicks are rare, each row is seen once, and Adagrad's rate is raised at first
and falls in the end. Most of the loss is there to stay.
"""

import copy
import itertools
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family

# Id feature -> rows of its table, which is emb_l.<place>.
FIELDS = {"user": 160, "item": 120, "campaign": 80, "site": 48, "city": 30,
          "hour": 24, "slot": 8, "device": 5}
DENSE, WIDTH, BOTTOM, TOP = 9, 16, 32, (48, 24)
TABLES = [f"emb_l.{k}" for k in range(len(FIELDS))]
ACTIVATIONS = models.ACTIVATIONS


class Impressions:
    """What was shown, and whether it was clicked, a coin toss each.

    Ids are drawn with weights 1 / (k + 2), k from 0; dense features are
    logarithms of 1 and a count, as the script makes them, and two of them go
    together. The logit of a click is a constant, a value of each id (deviation
    EFFECT), slopes of five dense features and a bend of two, and what two
    pairs of ids have in common, user with item and campaign with site
    (deviation MATCH, of two hidden numbers an id).

    sharp: how far logits lie apart; plain: no ids match. factor: how many
    times as many ids there are, of tables that have as many rows as ever.
    sites: three kinds of site, of which each has counts of its own. keep: the
    share of rows without a click that are not left out.
    """

    BIAS, EFFECT, MATCH, HIDDEN = -3.4, 0.55, 1.0, 2
    SLOPES = (0.9, -0.8, 0.7, 0.5, -0.5)

    def __init__(self, seed, rows=512, sharp=1.0, plain=False, factor=1.0,
                 sites=False, keep=1.0):
        self.rng = torch.Generator().manual_seed(seed)
        self.size = 1024 if seed == 9 else rows
        self.sharp, self.plain = sharp, plain
        self.sites, self.keep = sites, keep
        self.fields = {k: math.ceil(factor * n) for k, n in FIELDS.items()}
        self.often = [1 / (torch.arange(size) + 2.0)
                      for size in self.fields.values()]
        world = torch.Generator().manual_seed(22)
        self.effects = [self.EFFECT * torch.randn(1000, generator=world)
                        for _ in FIELDS]
        self.hidden = [torch.randn(1000, self.HIDDEN, generator=world)
                       for _ in range(4)]

    def truth(self, z, ids):
        """The logit of each row; z: dense features, standardised."""
        logit = sum(w[i] for w, i in zip(self.effects, ids.T))
        logit = logit + z[:, :5] @ torch.tensor(self.SLOPES)
        logit = logit + 0.5 * (z[:, 5] * z[:, 6]) + 0.6 * (z[:, 7].abs() - 0.8)
        if not self.plain:
            for k in (0, 2):
                match = self.hidden[k][ids[:, k]] \
                    * self.hidden[k + 1][ids[:, k + 1]]
                logit = logit + self.MATCH * match.sum(1) / self.HIDDEN ** 0.5
        return self.BIAS + self.sharp * logit

    def rows(self, count):
        ids = torch.stack([torch.multinomial(
            weights, count, True, generator=self.rng)
            for weights in self.often], 1)
        z = torch.randn(count, DENSE, generator=self.rng)
        z[:, 1] = 0.8 * z[:, 1] + 0.6 * z[:, 0]
        more = {}
        if self.sites:
            more["domain"] = torch.randint(3, (count,), generator=self.rng)
            z[:, 2] += torch.tensor((-0.7, 0.0, 0.7))[more["domain"]]
            ids[:, 3] = ids[:, 3] // 3 * 3 + more["domain"]
        logit = self.truth(z, ids)
        clicks = torch.rand(count, generator=self.rng) < logit.sigmoid()
        # What is beyond a table is its last row.
        ids = ids.minimum(torch.tensor([*FIELDS.values()]) - 1)
        return {"X": self.counted(z), "lS_i": ids,
                "T": clicks.float()[:, None]} | more

    @staticmethod
    def counted(z):
        """log(1 + count) of a count that is log-normal; not far from z + 1.2
        but for the smallest."""
        return (1 + (z + 0.9).exp()).log()

    def batch(self, rows=None):
        rows = rows or self.size
        if self.keep == 1.0:
            return self.rows(rows)
        pool = self.rows(int(1.4 * rows / (0.13 + self.keep)))
        kept = (pool["T"][:, 0] > 0) | (torch.rand(
            len(pool["T"]), generator=self.rng) < self.keep)
        return {k: t[kept][:rows] for k, t in pool.items()}


class ByLabel(Impressions):
    """Clicks and what was not clicked lie in files of their own: `block`
    batches of one, then of the other; `share` of a batch is of the file, the
    rest of any."""

    def __init__(self, seed, rows, block, share):
        super().__init__(seed, rows)
        self.block, self.share, self.number = block, share, 0
        self.pool = self.rows(16384)
        clicked = self.pool["T"][:, 0] > 0
        self.files = [(clicked == k).nonzero()[:, 0] for k in (False, True)]

    def batch(self, rows=None):
        rows = rows or self.size
        own = self.files[self.number // self.block % 2]
        self.number += 1
        kept = torch.rand(rows, generator=self.rng) < self.share
        picked = torch.where(
            kept, own[torch.randint(len(own), (rows,), generator=self.rng)],
            torch.randint(len(self.pool["T"]), (rows,), generator=self.rng))
        return {k: t[picked] for k, t in self.pool.items()}


class DlrmNet(nn.Module):
    """DLRM_Net by its names; weights start as there."""

    BLOCKS = ("top_l.0", "top_l.2")

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_products=False, tables=None,
                 loss_threshold=0.0, loss_weights=None, odds=1.0):
        """detach_after: the part behind which the graph is cut, "emb_l" all
        tables, or several. loss_threshold, loss_weights: the script's. tables:
        table -> the one that is looked up in its place. odds: what those of a
        click are multiplied by in training, as rows without one were left
        out."""
        super().__init__()
        self.dropout, self.half_products = dropout, half_products
        self.cuts = (detach_after,) if isinstance(detach_after, str) \
            else detach_after or ()
        self.loss_threshold, self.loss_weights = loss_threshold, loss_weights
        self.odds, self.squashes = odds, False
        self.emb_l = nn.ModuleList()
        for size in FIELDS.values():
            self.emb_l.append(nn.EmbeddingBag(size, WIDTH, mode="sum"))
            bound = size ** -0.5
            nn.init.uniform_(self.emb_l[-1].weight, -bound, bound)
        for k, other in (tables or {}).items():
            self.emb_l[k] = self.emb_l[other]
        count = len(FIELDS) + 1
        self.pairs = torch.tril_indices(count, count, -1)
        self.bot_l = self.network((DENSE, BOTTOM, WIDTH), activation)
        self.top_l = self.network((WIDTH + self.pairs.shape[1], *TOP, 1),
                                  activation)
        self.top_l[-1] = nn.Sigmoid()

    @staticmethod
    def network(sizes, activation):
        parts = []
        for n, m in itertools.pairwise(sizes):
            layer = nn.Linear(n, m)
            nn.init.normal_(layer.weight, std=(2 / (m + n)) ** 0.5)
            nn.init.normal_(layer.bias, std=(1 / m) ** 0.5)
            parts += [layer, ACTIVATIONS[activation]()]
        return nn.Sequential(*parts)

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if name in self.cuts else x

    def run(self, part, x):
        layers = getattr(self, part)
        for i, layer in enumerate(layers):
            name = f"{part}.{i}"
            if part == "top_l" and i == len(layers) - 1:
                break       # its sigmoid is the criterion's
            self.tap(f"{name}.input", x)
            x = self.cut(layer(x), name)
            self.tap(f"{name}.output", x)
            if part == "top_l" and i % 2:
                x = F.dropout(x, self.dropout, self.training)
        return x

    def interact(self, x, vectors):
        each = torch.stack([x, *vectors], 1)
        each = each.half() if self.half_products else each
        self.tap("interact_features.input", each)
        first, second = self.pairs
        flat = (each @ each.transpose(1, 2))[:, first, second]
        self.tap("interact_features.output", flat)
        return self.cut(torch.cat((x, flat.to(x.dtype)), 1),
                        "interact_features")

    def logits(self, batch):
        """What the sigmoid at the end gets, a number a row."""
        x = self.run("bot_l", batch["X"].to(self.bot_l[0].weight.dtype))
        vectors = []
        for k, table in enumerate(self.emb_l):
            vectors.append(table(batch["lS_i"][:, k:k + 1]))
            self.tap(f"emb_l.{k}.output", vectors[-1])
            vectors[-1] = self.cut(self.cut(vectors[-1], f"emb_l.{k}"),
                                   "emb_l")
        return self.run("top_l", self.interact(x, vectors))

    def criterion(self, logits, batch, label_smoothing=0.0):
        """nn.BCELoss of what the sigmoid says, with the script's bound."""
        labels = (1 - label_smoothing) * batch["T"] + label_smoothing / 2
        logits = logits.float()
        if self.training and self.odds != 1.0:
            logits = logits + math.log(self.odds)
        said = self.top_l[-1](logits)
        if self.squashes:
            said = self.top_l[-1](said)
        self.tap(f"top_l.{len(self.top_l) - 1}.output", said)
        if not said.isfinite().all():   # BCELoss would raise
            return F.binary_cross_entropy_with_logits(logits, labels)
        if self.loss_threshold:
            said = said.clamp(self.loss_threshold, 1 - self.loss_threshold)
        weight = None
        if self.loss_weights:
            none, click = self.loss_weights
            weight = torch.where(batch["T"] > 0, click, none)
        return F.binary_cross_entropy(said, labels, weight)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


def ranked_right(scores, labels):
    """The area under the ROC curve: the share of pairs of a click and none
    of which the click has the higher score."""
    place = torch.empty(len(scores))
    place[scores.argsort()] = torch.arange(1.0, len(scores) + 1)
    clicks = labels.sum()
    return (place[labels > 0].sum() - clicks * (clicks + 1) / 2) / (
        clicks * (len(labels) - clicks)).clamp_min(1)


def average_precision(scores, labels):
    """The mean over clicks of the share of clicks among what is ranked as
    high."""
    hits = labels[scores.argsort(descending=True)]
    share = hits.cumsum(0) / torch.arange(1.0, len(hits) + 1)
    return (share * hits).sum() / hits.sum().clamp_min(1)


class RWSAdagrad(torch.optim.Optimizer):
    """Adagrad with one sum for each row of a table, as the script has it; of
    all else one for each weight."""

    def __init__(self, params, lr, eps, weight_decay):
        super().__init__(params, dict(lr=lr, eps=eps,
                                      weight_decay=weight_decay))
        self.tables = set()

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad + group["weight_decay"] * p
                rows = p in self.tables
                size = grad.square()
                size = size.mean(1) if rows else size
                state = self.state[p]
                if not state:
                    state["step"] = torch.tensor(0.0)
                    state["momentum" if rows else "sum"] = \
                        torch.zeros_like(size)
                state["step"] += 1
                total = state["momentum" if rows else "sum"].add_(size)
                root = total.sqrt().add_(group["eps"])
                p.addcdiv_(grad, root[:, None] if rows else root,
                           value=-group["lr"])


class DlrmRun(Family):
    """Adagrad without decay or clipping; LRPolicyScheduler's warm-up and, from
    half of the run on, its fall with a square."""

    family = "dlrm"
    level_seed = 430
    steps, seed, language, classes = 280, 1940, False, 2
    optimizer_name, lr, weight_decay, eps = "adagrad", 0.08, 0.0, 1e-10
    momentum = 0.0
    warmup, schedule, clip = 20, "LRPolicyScheduler", None
    recipes = {"sgd": dict(lr=1.5, weight_decay=0.0),
               "adamw": dict(lr=6e-3, weight_decay=0.0, eps=1e-8)}
    batch_size, context = 512, DENSE + len(FIELDS)
    HOLD = 0.5              # of the run; then the rate falls
    # Nobody trains click models with the others.
    instead = {"nanogpt": "plain", "hf_trainer": "dlrm", "megatron": "dlrm",
               "torchtune": "dlrm"}
    layers = [*TABLES, "bot_l.0", "bot_l.1", "bot_l.2", "bot_l.3",
              "interact_features", "top_l.0", "top_l.1", "top_l.2", "top_l.3",
              "top_l.4"]
    blocks = 2
    paths = {"embed": "emb_l", "attn": None, "scores": None,
             "act": ("top_l.1", "top_l.3"), "mlp": DlrmNet.BLOCKS,
             "block": DlrmNet.BLOCKS, "first": "top_l.0", "head": "top_l.4"}
    names = {"loss": "Train/Loss", "val_loss": "Test/Loss",
             "val_auc": "Test/AUC", "val_accuracy": "Test/Acc",
             "val_precision": "Test/Precision", "val_recall": "Test/Recall",
             "val_f1": "Test/F1", "val_ap": "Test/AP",
             "grad_norm": "Train/GradNorm", "lr": "Train/LR",
             "step_time": "Train/IterTime", "data_time": "Train/DataTime",
             "tokens": None}
    # Judged by loss, validation and what is logged.
    graded = {
        "F01": (dict(factor=30), dict(factor=100), dict(factor=1000)),
        "F02": (dict(lr=5.0), dict(lr=8.0), dict(lr=20.0)),
        "F04": (dict(at=70), dict(at=35), dict(at=0)),
        "F07": (dict(factor=5), dict(factor=10), dict(factor=40)),
        "F08": (dict(every=32), dict(every=80), dict(every=1 << 30)),
        "F16": (dict(rate=0.01), dict(rate=0.1), dict(rate=1.0)),
        "F05": (dict(modules=TABLES, where="emb_l.0"),
                dict(modules=["top_l"], where="top_l.0"), dict(part="all")),
        "F13": (dict(path="emb_l"), dict(path="interact_features"),
                dict(path="top_l.3")),
        "F14": (dict(modules=TABLES[:4]), dict(modules=TABLES),
                dict(modules=[*TABLES[1:], "top_l"])),
        "F30": (dict(part="head", bit=26), dict(part="first", bit=26),
                dict(part="first", bit=30)),
        "F31": (dict(factor=1.5), dict(factor=3.0), dict(factor=6.0)),
        "F36c": (dict(lr=0.7), dict(lr=1.0), dict(lr=1.4)),
        "H02": (dict(factor=0.6), dict(factor=0.35)),
        "H03": (dict(part=2, factor=0.7), dict(part=4, factor=1.0)),
        "H07": (dict(factor=0.1),),
    }

    sizes = tuple(FIELDS.values())
    own_optimizer = "adagrad"   # keeps one sum and has no betas

    def make_own_optimizer(self, trained):
        return torch.optim.Adagrad(trained, lr=self.lr, eps=self.eps,
                                   weight_decay=self.weight_decay)

    def rowwise_optimizer(self, model):
        """rwsadagrad of the script."""
        optimizer = RWSAdagrad(model.parameters(), self.lr, self.eps,
                               self.weight_decay)
        optimizer.tables = {t.weight for t in model.emb_l}
        return optimizer

    def make_model(self):
        return DlrmNet(**self.model_options)

    def make_source(self, seed):
        return self.impressions(seed)

    def impressions(self, seed, **how):
        return Impressions(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Training data that nobody has shuffled; None is held out."""
        if block is None:
            return self.impressions(seed)
        return ByLabel(seed, self.batch_size, max(1, block // 3), share)

    def easy(self, seed):
        """Clicks that features decide, each by itself."""
        return self.impressions(seed, sharp=2.0, plain=True)

    def lessons(self, seed):
        return self.easy(seed), self.impressions(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: counts of which nobody took logarithms, noise and
        any ids, or a code for "missing" everywhere."""
        x, ids = batch["X"], batch["lS_i"]
        if kind == "few":
            return batch | {"X": x.exp() - 1}
        if kind == "uniform":
            return batch | {
                "X": 20 * torch.randn(x.shape, generator=rng),
                "lS_i": (torch.rand(ids.shape, generator=rng) * torch.tensor(
                    [*FIELDS.values()])).long()}
        return batch | {"X": torch.full_like(x, -99.0),
                        "lS_i": torch.zeros_like(ids)}

    def lr_factor(self, i):
        if self.schedule != "LRPolicyScheduler" or i < self.warmup:
            return super().lr_factor(i)
        start = int(self.HOLD * self.steps)
        return 1.0 if i < start else (
            (self.steps - i) / (self.steps - start)) ** 2

    def held_out_columns(self, batches):
        """What the script has of a test: areas, and what is right where a
        half is the bound."""
        self.model.eval()
        scores = torch.cat([self.model.logits(b) for b in batches]).float()
        self.model.train()
        scores, labels = scores[:, 0], torch.cat(
            [b["T"] for b in batches])[:, 0]
        said = (scores > 0).float()
        right = (said * labels).sum()
        precision = right / said.sum().clamp_min(1)
        recall = right / labels.sum().clamp_min(1)
        return {"val_auc": ranked_right(scores, labels),
                "val_accuracy": (said == labels).float().mean(),
                "val_precision": precision, "val_recall": recall,
                "val_f1": 2 * precision * recall
                / (precision + recall).clamp_min(1e-9),
                "val_ap": average_precision(scores, labels)}

    # What the user typed.

    def settings(self):
        """The script's arguments, and those of a copy of it that has more."""
        start = int(self.HOLD * self.steps)
        decays = self.schedule == "LRPolicyScheduler"
        kept = {"momentum": self.momentum} if self.optimizer_name == "sgd" \
            else {"eps": self.eps} if "adagrad" in self.optimizer_name \
            else {"betas": list(self.betas), "eps": self.eps}
        return {**self.model_settings(), "data_generation": "dataset",
                "data_set": "impressions", "round_targets": True,
                "mini_batch_size": self.batch_size,
                "test_mini_batch_size": 1024, "num_batches": self.steps,
                "nepochs": 1, "learning_rate": self.lr,
                "optimizer": self.optimizer_name, **kept,
                "weight_decay": self.weight_decay,
                "lr_policy": self.schedule,
                "lr_num_warmup_steps": self.warmup,
                "lr_decay_start_step": start if decays else 0,
                "lr_num_decay_steps": self.steps - start if decays else 0,
                "max_grad_norm": self.clip or 0.0,
                "gradient_accumulation_steps": self.accumulate,
                "precision": self.precision, "mlperf_logging": True,
                "print_freq": self.interval or 10,
                "test_freq": self.val_every, "print_time": True,
                "save_model": "models/dlrm.pt", "load_model": "",
                "numpy_rand_seed": self.seed, "world_size": 1, **self.user}

    def model_settings(self):
        options = self.model_options
        weights = options.get("loss_weights")
        kind = options.get("activation", "relu")
        return {"arch_sparse_feature_size": WIDTH,
                "arch_embedding_size": "-".join(map(str, FIELDS.values())),
                "arch_mlp_bot": f"{DENSE}-{BOTTOM}-{WIDTH}",
                "arch_mlp_top": "-".join(map(str, (*TOP, 1))),
                "arch_interaction_op": "dot",
                "arch_interaction_itself": False,
                "activation_function": "relu" if kind == "none" else kind,
                "qr_flag": False,
                "md_flag": False, "max_ind_range": -1,
                "loss_function": "wbce" if weights else "bce",
                "loss_weights": "-".join(map(str, weights or (1.0, 1.0))),
                "loss_threshold": options.get("loss_threshold", 0.0)}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path[block] if isinstance(path, tuple) else path

    def fed_by(self, layer):
        return []

    # Checkpoints.

    @staticmethod
    def checkpoint_path(step):
        return f"models/dlrm_it{step}.pt"

    def keep_checkpoint(self, i, model):
        """Half-way, at the end, and where a job ends that is resumed."""
        done = i + 1
        if done in {self.steps // 2, self.steps, *self.notices}:
            self.checkpoints[done] = copy.deepcopy({
                "state_dict": model.state_dict(),
                "opt_state_dict": self.optimizer.state_dict()})

    def write_more(self):
        super().write_more()
        if not self.checkpoints:
            return
        (self.folder / "models").mkdir()
        for done, parts in self.checkpoints.items():
            rows = self.history[max(0, done - 10):done]
            tested = [r for r in self.history[:done] if "val_loss" in r]
            torch.save({
                "epoch": 0, "nepochs": 1, "nbatches": self.steps,
                "nbatches_test": 4, "iter": done,
                "train_loss": sum(r["loss"] for r in rows) / len(rows),
                "total_loss": 0, "total_accu": 0,
                "test_acc": tested[-1]["val_accuracy"] if tested else 0.0,
                "test_auc": tested[-1]["val_auc"] if tested else 0.0,
                **parts}, self.folder / self.checkpoint_path(done))
