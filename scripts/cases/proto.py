"""New kinds from a few examples, as orobix' Prototypical-Networks-for-Few-shot-
Learning-PyTorch trains them: src/train.py with its Conv-4 encoder.

Glyphs of the benchmark's own stand for Omniglot: alphabets of five characters
that share a stroke, drawn by hands that turn, shift and slant them, with thick
and thin pens, on noisy paper. Twelve alphabets are trained on, four others are
held out, so that validation is on kinds that were never seen. A step is an
episode: five kinds, five pictures of each as its support and five as queries.
"""

import copy
import functools

import torch
from torch import nn
from torch.nn import functional as F

from . import logs, models
from .family import EpochFamily

SIDE, HIDDEN = 16, 34
WAYS, SHOTS, QUERIES = 5, 5, 5
ROWS = WAYS * (SHOTS + QUERIES)
ALPHABETS, LETTERS = 16, 5
SEEN = 12 * LETTERS                 # kinds of training; the others are held out
EPISODES = 5                        # of each of the four held-out batches
STROKES = 5                         # segments of a glyph
IGNORE = -100


@functools.lru_cache(maxsize=1)
def glyphs():
    """(kinds, segments, ends, 2): two segments are the alphabet's, three the
    letter's own."""
    rng = torch.Generator().manual_seed(77)
    shared = 1.7 * torch.rand(ALPHABETS, 1, 3, 2, generator=rng) - 0.85
    shared = shared.expand(-1, LETTERS, -1, -1)
    own = 1.7 * torch.rand(ALPHABETS, LETTERS, 4, 2, generator=rng) - 0.85
    ends = torch.stack([torch.stack((line[:, :, k], line[:, :, k + 1]), 2)
                        for line in (shared, own)
                        for k in range(line.shape[2] - 1)], 2)
    return ends.flatten(0, 1)


@functools.lru_cache(maxsize=1)
def grid():
    at = (torch.arange(SIDE) + 0.5) / SIDE * 2.6 - 1.3
    return torch.stack(torch.meshgrid(at, at, indexing="xy"), -1).view(-1, 2)


def drawn(kinds, rng, clean=False, domain=None):
    """[rows, 1, SIDE, SIDE] of 0 (paper) to about 1 (ink). domain: whose
    scanner it was, of three."""
    rows, much = len(kinds), 0.3 if clean else 1.0

    def rand(*size):
        return 2 * torch.rand(rows, *size, generator=rng) - 1

    ends = glyphs()[kinds] + much * 0.08 * torch.randn(
        rows, STROKES, 2, 2, generator=rng)
    turn, slant = much * 0.3 * rand(), much * 0.25 * rand()
    size = 0.85 + 0.15 * much * rand()
    cos, sin = size * turn.cos(), size * turn.sin()
    warp = torch.stack((torch.stack((cos, sin), 1), torch.stack(
        (slant * cos - sin, slant * sin + cos), 1)), 1)
    ends = torch.einsum("nsec,ncd->nsed", ends, warp) \
        + much * 0.15 * rand(1, 1, 2)
    a, b = ends[:, :, 0, None], ends[:, :, 1, None]
    along, away = b - a, grid() - a
    t = (away * along).sum(-1) / along.square().sum(-1).clamp_min(1e-4)
    far = (away - t.clamp(0, 1)[..., None] * along).norm(dim=-1).amin(1)
    pen = (0.13 + 0.05 * much * rand())[:, None]
    ink = (0.85 + 0.15 * much * rand())[:, None]
    noise = 0.18 * much * (1 + 0.6 * rand())[:, None]
    x = ink * (0.5 + (pen - far) / 0.16).clamp(0, 1)
    if domain is not None:
        x = x * torch.tensor([1.0, 0.8, 1.0])[domain, None] + torch.tensor(
            [0.0, 0.1, 0.05])[domain, None]
    x = x + noise * torch.randn(x.shape, generator=rng)
    return x.view(rows, 1, SIDE, SIDE)


class Episodes:
    """PrototypicalBatchSampler with its data: rows go by pictures, and kinds
    within a picture's number, supports first. Pictures are drawn anew.

    block, share: in that share of kinds they are of one alphabet, of the next
    one after so many episodes. turns: a quarter turn is a kind of its own.
    """

    def __init__(self, seed, rows=ROWS, ways=WAYS, count=1, clean=False,
                 domains=False, block=None, share=1.0, turns=1, least=SHOTS):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.ways, self.count = rows, ways, count
        self.clean, self.domains, self.turns = clean, domains, turns
        self.block, self.share, self.number = block, share, 0
        self.least = least
        self.kinds = torch.arange(SEEN) if seed != 9 else \
            torch.arange(SEEN, ALPHABETS * LETTERS)

    def chosen(self):
        """The kinds of an episode, by number and turn."""
        order = self.kinds[torch.randperm(len(self.kinds),
                                          generator=self.rng)][:self.ways]
        if self.block:
            first = self.number // self.block * LETTERS % SEEN
            own = first + torch.randperm(LETTERS, generator=self.rng)
            there = torch.rand(self.ways, generator=self.rng) < self.share
            rest = [k for k in order.tolist() if not first <= k < first
                    + LETTERS] + self.kinds.tolist()
            order = own[there[:LETTERS]].tolist()
            for k in rest:
                if len(order) < self.ways and k not in order:
                    order.append(k)
            order = torch.tensor(order)
        turn = torch.randint(self.turns, (self.ways,), generator=self.rng)
        return order + ALPHABETS * LETTERS * turn

    def episode(self, rows):
        each = max(self.least + 1, rows // self.ways)
        y = self.chosen().repeat(each)
        self.number += 1
        kinds = ALPHABETS * LETTERS
        domain = torch.randint(3, y.shape, generator=self.rng) \
            if self.domains else None
        x = drawn(y % kinds, self.rng, self.clean, domain)
        if self.turns > 1:
            quarter = y // kinds
            x = torch.stack([t.rot90(int(k), (-2, -1)) if k < 4 else
                             t.flip(-1).rot90(int(k), (-2, -1))
                             for t, k in zip(x, quarter)])
        return {"x": x, "y": y} | ({"domain": domain} if self.domains else {})

    def batch(self, rows=None):
        parts = [self.episode(rows or self.rows) for _ in range(self.count)]
        return {k: torch.cat([p[k] for p in parts]) for k in parts[0]}


class Listed:
    """Episodes of some pictures alone, all of which are passed, shuffled,
    before any comes again; what no episode has room for is left over."""

    def __init__(self, data, rows, seed):
        self.rng = torch.Generator().manual_seed(seed)
        self.data, self.each, self.groups = data, rows // WAYS, []

    def refill(self):
        y, groups = self.data["y"], []
        for kind in y.unique().tolist():
            at = (y == kind).nonzero()[:, 0]
            at = at[torch.randperm(len(at), generator=self.rng)]
            groups += [(kind, part) for part in at.split(self.each)
                       if len(part) == self.each]
        order = torch.randperm(len(groups), generator=self.rng).tolist()
        self.groups = [groups[k] for k in order]

    def batch(self, rows=None):
        found = {}
        for _ in range(2):
            left = []
            for kind, part in self.groups:
                if len(found) < WAYS and kind not in found:
                    found[kind] = part
                else:
                    left.append((kind, part))
            self.groups = left
            if len(found) == WAYS:
                break
            self.refill()
        at = torch.stack(list(found.values()), 1).flatten()
        return {k: t[at].clone() for k, t in self.data.items()}


def conv_block(channels, out, activation):
    return nn.Sequential(nn.Conv2d(channels, out, 3, padding=1),
                         nn.BatchNorm2d(out), activation(), nn.MaxPool2d(2))


class ProtoNet(nn.Module):
    """encoder, and prototypical_loss.

    squashes: the loss makes probabilities of what gets a softmax. similar:
    what becomes of scores. Besides: scale, by which prototypes are multiplied,
    divisor of the distances, and apart, which rows go through the encoder by
    themselves.
    """

    BLOCKS = tuple(f"encoder.{k}" for k in range(4))

    def __init__(self, activation="relu", dropout=0.0, detach_after=(),
                 half_at=None, ways=WAYS, shots=SHOTS):
        super().__init__()
        act = models.ACTIVATIONS[activation]
        self.encoder = nn.Sequential(conv_block(1, HIDDEN, act), *(
            conv_block(HIDDEN, HIDDEN, act) for _ in range(3)))
        self.detach_after = (detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)
        self.half_at, self.dropout = half_at, dropout
        self.ways, self.shots = ways, shots
        self.squashes, self.similar, self.said = False, None, None
        self.scale, self.divisor, self.apart = 1.0, 1.0, None
        self.asked = []         # scores of a validation

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def embed(self, x):
        for k, (conv, bn, act, pool) in enumerate(self.encoder):
            name = f"encoder.{k}"
            self.tap(f"{name}.0.input", x)
            x = conv(x)
            if f"{name}.0" == self.half_at:
                x = x.half()
            self.tap(f"{name}.0.output", x)
            x = bn(x.to(bn.weight.dtype))
            self.tap(f"{name}.2.input", x)
            x = act(x)
            self.tap(f"{name}.2.output", x)
            x = pool(x)
            self.tap(f"{name}.output", x)
            if name in self.detach_after:
                x = x.detach()
        return x.flatten(1)

    def embedded(self, x):
        """All rows at once, or some by themselves (apart)."""
        x = x.to(self.encoder[0][0].weight.dtype)
        groups = self.apart(x) if self.apart and self.training else None
        if groups is None:
            return self.embed(x)
        out, tap = x.new_empty(len(x), HIDDEN), self.tap
        with torch.no_grad():   # what is watched is of the whole, once
            bns = [copy.deepcopy(block[1].state_dict())
                   for block in self.encoder]
            self.embed(x)
            for block, state in zip(self.encoder, bns):
                block[1].load_state_dict(state)
        self.tap = type(self).tap
        out = out.index_copy(0, torch.cat(groups), torch.cat(
            [self.embed(x[at]) for at in groups]))
        self.tap = tap
        return out

    def layout(self, y):
        """(episodes, ways, shots)."""
        if self.training:
            return 1, self.ways, self.shots
        return max(1, len(y) // ROWS), WAYS, SHOTS

    def classes(self, y):
        """Of each episode its kinds, the number of each row's, and which rows
        are its support."""
        count, ways, shots = self.layout(y)
        for part in y.view(count, -1):
            kinds, own = part.unique(return_inverse=True)
            yield len(kinds), own, torch.arange(len(part)) < ways * shots

    def labels(self, batch):
        return torch.cat([own.masked_fill(support, IGNORE)
                          for _, own, support in self.classes(batch["y"])])

    def logits(self, batch):
        """Of all rows to the prototypes of their episode."""
        z = self.embedded(batch["x"]).float()
        if self.dropout and self.training:
            z = F.dropout(z, self.dropout)
        count = self.layout(batch["y"])[0]
        scores = []
        for part, (ways, own, support) in zip(z.view(count, -1, HIDDEN),
                                              self.classes(batch["y"])):
            of = F.one_hot(own[support], ways).to(part.dtype)
            sums = of.T @ part[support]
            protos = self.scale * sums / of.sum(0).clamp_min(1)[:, None]
            far = (part[:, None] - protos).square().sum(-1)
            scores.append(-far / self.divisor)
        scores = torch.cat(scores)
        if self.similar is not None:
            scores = self.similar(scores)
        self.tap("scores.output", scores)
        self.said = scores.detach()
        return scores

    def criterion(self, logits, batch, label_smoothing=0.0):
        logits = logits.float()
        if self.squashes:
            logits = logits.softmax(-1)
        return F.cross_entropy(logits, self.labels(batch), ignore_index=IGNORE,
                               label_smoothing=label_smoothing)

    def loss(self, batch):
        logits = self.logits(batch)
        if not self.training:
            self.asked.append(logits)
        loss = self.criterion(logits, batch)
        self.tap("loss.output", loss)
        return loss


# What feeds the activations.
BEFORE_ACT = tuple(f"{block}.1" for block in ProtoNet.BLOCKS)


def right(said, labels):
    """Of each query whether it is told."""
    asked = labels >= 0
    return (said[asked].nan_to_num(-9e9).argmax(-1)
            == labels[asked]).float()


class ProtoRun(EpochFamily):
    """Adam at .001, which StepLR halves behind every second epoch; no decay
    and no clipping. Four epochs of 20 episodes."""

    family = "proto"
    level_seed = 400
    steps, seed, language = 80, 4700, False
    optimizer_name, lr, weight_decay = "adam", 1e-3, 0.0
    warmup, schedule, clip = 0, "step", None
    STEP_SIZE, GAMMA = 2, 0.5
    recipes = {"sgd": dict(lr=0.1, weight_decay=0.0)}
    base = {"lr": 1e-3, "weight_decay": 0.0}
    batch_size, context = ROWS, SIDE * SIDE
    EPOCH = epoch_steps = 20
    ROOT = "../output"
    LAST = f"{ROOT}/last_model.pth"
    logit_name = "scores.output"
    validated = ("val_accuracy",)
    train_options = {}      # of the sampler of training
    # Its users have what the script prints and saves.
    instead = {"nanogpt": "protonet", "hf_trainer": "protonet",
               "megatron": "protonet", "torchtune": "protonet"}
    layers = [f"{block}{part}" for block in ProtoNet.BLOCKS
              for part in (".0", ".2", "")]
    graded = {
        "F01": (dict(factor=1000), dict(factor=3000), dict(factor=30000)),
        "F02": (dict(lr=5.0), dict(lr=20.0), dict(lr=100.0)),
        "F03": (dict(factor=30), dict(factor=100), dict(factor=1000)),
        "F04": (dict(at=10), dict(at=4), dict(at=0)),
        "F05": (dict(modules=["encoder.2", "encoder.3"],
                     where="encoder.2.0"),
                dict(modules=["encoder.1", "encoder.2", "encoder.3"],
                     where="encoder.1.0"), dict(part="all")),
        "F07": (dict(factor=50), dict(factor=200), dict(factor=1000)),
        "F08": (dict(every=20), dict(every=40), dict(every=1 << 30)),
        "F09": (dict(parts=4, logs_sum=False), dict(parts=8, logs_sum=True),
                dict(parts=12, logs_sum=True)),
        "F11": (dict(adam=3.0), dict(adam=10.0), dict(adam=30.0)),
        "F12": (dict(eps=0.5), dict(eps=3.0), dict(eps=30.0)),
        "F13": (dict(path="encoder.0"), dict(path="encoder.1"),
                dict(path="encoder.2")),
        "F14": (dict(modules=["encoder.2"]),
                dict(modules=["encoder.1", "encoder.2"]),
                dict(modules=["encoder.1", "encoder.2", "encoder.3"])),
        "F15": (dict(at=60), dict(at=40), dict(at=20)),
        "F16": (dict(rate=0.1), dict(rate=0.4), dict(rate=1.0)),
        "F24": (dict(share=0.15), dict(share=0.3), dict(share=0.5)),
        "F26": (dict(steps=16, share=1.0), dict(steps=27, share=1.0),
                dict(steps=40, share=1.0)),
        "F27": (dict(epochs=20), dict(epochs=40), dict(epochs=80)),
        "F30": (dict(part="embed", bit=26), dict(part="embed", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=9), dict(limit=6), dict(limit=4)),
        "F34": (dict(factor=10), dict(factor=50), dict(factor=0)),
        "F36a": (dict(bias=-0.7), dict(bias=-1.2), dict(bias=-20.0)),
        "F36b": (dict(factor=15, kind="tanh"), dict(factor=50, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F38": (dict(growth=1.055), dict(growth=1.07), dict(growth=1.1)),
        "F39a": (dict(at=60, keep=0.5), dict(at=40, keep=0.4),
                 dict(at=20, keep=0.2)),
        "F39b": (dict(at=60), dict(at=40), dict(at=20)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "F41": (dict(share=0.4, at=0, every=1), dict(share=0.7, at=40,
                                                     every=1),
                dict(share=0.85, at=0, every=8)),
        "F42b": (dict(shards=20), dict(shards=40), dict(shards=100)),
        "F43": (dict(kind="unreduced", at=40), dict(kind="skip", at=60),
                dict(kind="init", at=0)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(rows=40), dict(rows=30)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H10": (dict(steps=60), dict(steps=100)),
        "H11": (dict(steps=80, keep="block"), dict(steps=80, keep="head")),
        "H15": (dict(share=0.05), dict(share=0.1)),
        "H43": (dict(parts=2), dict(parts=3))}
    paths = {"embed": "encoder.0.0", "attn": None, "scores": None,
             "act": "encoder.{}.2", "mlp": "encoder.{}.0",
             "block": "encoder.{}", "head": "encoder.3.0"}
    blocks = len(ProtoNet.BLOCKS)
    names = {"loss": "train_loss", "accuracy": "train_acc",
             "val_accuracy": "val_acc", "tokens": None}

    def make_model(self):
        return ProtoNet(**self.model_options)

    def lr_factor(self, i):
        """StepLR, which is asked behind each epoch."""
        if self.schedule != "step":
            return super().lr_factor(i)
        return self.GAMMA ** (i // self.EPOCH // self.STEP_SIZE)

    # Data.

    def make_source(self, seed):
        return self.glyphs(seed)

    def glyphs(self, seed, **how):
        """Episodes without end; an epoch is 20 of them."""
        if seed == 9:
            how |= {"block": None, "turns": 1}
            return Episodes(seed, count=EPISODES, **how)
        return Episodes(seed, self.batch_size, **self.train_options | how)

    def finite(self, data, seed):
        return Listed(data, self.batch_size, seed)

    def in_blocks(self, seed, block, share):
        """One alphabet after the other; None is held out."""
        return self.glyphs(seed, block=block, share=share)

    def easy(self, seed):
        """Upright, in one size and pen, on clean paper."""
        return self.glyphs(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.glyphs(seed)

    @staticmethod
    def garbage(batch, kind, rng):
        """A corrupt file: bytes that nobody scaled, the same of a negative, or
        a grey for each kind, and queries that are of other kinds."""
        x, y = batch["x"], batch["y"]
        shift = {"few": 1, "uniform": 2, "constant": 3}[kind]
        if kind == "constant":
            grey = torch.arange(len(x)) % WAYS * 60.0
            x = grey.view(-1, 1, 1, 1).expand_as(x).clone()
        else:
            x = 255 * (x if kind == "few" else 1 - x)
        y = torch.cat((y[:WAYS * SHOTS], y[WAYS * SHOTS:].roll(shift)))
        return batch | {"x": x, "y": y}

    @staticmethod
    def any_of(y, rng):
        """Any of an episode's kinds."""
        return y[torch.randint(len(y), y.shape, generator=rng)]

    @staticmethod
    def exchanged(y, kind, rng):
        """Labels of other pictures of an episode: of all its rows, or of the
        query beside."""
        out = []
        for part in y.split(ROWS if len(y) > ROWS else len(y)):
            if kind == "shuffled":
                part = part[torch.randperm(len(part), generator=rng)]
            else:
                at = WAYS * SHOTS
                part = torch.cat((part[:at], part[at:].roll(1)))
            out.append(part)
        return torch.cat(out)

    @staticmethod
    def cut_below(batch, limit):
        """Pictures end at a row; the rest is paper."""
        x = batch["x"].clone()
        x[:, :, limit:] = 0.0
        return batch | {"x": x}

    @staticmethod
    def blank(batch):
        """One of the pictures is blank."""
        x = batch["x"].clone()
        x[0] = 0.0
        return batch | {"x": x}

    @staticmethod
    def standardised(batch):
        """Each picture by its own mean and spread."""
        x = batch["x"]
        each = (1, 2, 3)
        return batch | {"x": (x - x.mean(each, keepdim=True))
                        / x.std(each, keepdim=True)}

    # What is logged.

    def train(self):
        self.states, self.per_episode = {}, []
        super().train()

    def batch_columns(self, batch):
        found = right(self.model.said, self.model.labels(batch))
        return super().batch_columns(batch) | {
            "accuracy": round(float(found.mean()), 4)}

    def held_out_columns(self, batches):
        """The share of queries that are told; of each episode its loss and
        share, as the script keeps them all."""
        model, losses, shares = self.model, [], []
        model.eval()
        for said, batch in zip(model.asked, batches, strict=True):
            labels = model.labels(batch)
            if model.squashes:
                said = said.softmax(-1)
            for one, of in zip(said.split(ROWS), labels.split(ROWS)):
                losses.append(float(F.cross_entropy(one, of,
                                                    ignore_index=IGNORE)))
                shares.append(float(right(one, of).mean()))
        model.train()
        model.asked = []
        self.per_episode.append((losses, shares))
        return {"val_accuracy": sum(shares) / len(shares)}

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        if (i + 1) % self.EPOCH == 0 or i == self.steps - 1:
            self.states[i] = copy.deepcopy(model.state_dict())

    def write_more(self):
        """The script has the weights alone: of the best epoch and the last."""
        super().write_more()
        scores = {i: self.history[i]["val_accuracy"] for i in self.states}
        best = max(scores, key=lambda i: (scores[i], i))
        torch.save(self.states[best], self.folder / "best_model.pth")
        torch.save(self.states[max(self.states)],
                   self.folder / "last_model.pth")

    # What the user typed, by the names of parser_util.py.

    def settings(self):
        own = self.model_options
        ways, shots = own.get("ways", WAYS), own.get("shots", SHOTS)
        optimizer = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "betas": list(self.betas), "eps": self.eps}
        return {
            "dataset_root": "../dataset", "experiment_root": self.ROOT,
            "epochs": self.epochs, "iterations": self.EPOCH,
            "optimizer": self.optimizer_name, "learning_rate": self.lr,
            **optimizer, "weight_decay": self.weight_decay,
            "lr_scheduler": {"step": "StepLR"}.get(self.schedule,
                                                   self.schedule),
            **({"lr_scheduler_step": self.STEP_SIZE,
                "lr_scheduler_gamma": self.GAMMA}
               if self.schedule == "step" else {}),
            "max_grad_norm": self.clip,
            "gradient_accumulation_steps": self.accumulate,
            "classes_per_it_tr": ways, "num_support_tr": shots,
            "num_query_tr": self.batch_size // ways - shots,
            "classes_per_it_val": WAYS, "num_support_val": SHOTS,
            "num_query_val": QUERIES, "episodes_val": 4 * EPISODES,
            "hid_dim": HIDDEN, "z_dim": HIDDEN,
            "activation": own.get("activation", "relu"),
            "dropout": own.get("dropout", 0.0), "precision": self.precision,
            "world_size": 1, "manual_seed": self.seed, "cuda": False,
            **self.user}

    def model_settings(self):
        return {}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        """The norm behind a convolution counts to it; a block has all."""
        return [layer[:-1] + "1"] if layer.endswith(".0") \
            and layer.count(".") == 2 else []

    def write_files(self):
        super().write_files()
        self.write_lines("packages.txt", (*logs.PACKAGES, "tqdm==4.67.1"))
