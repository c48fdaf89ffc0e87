"""Flow matching, as facebookresearch/flow_matching trains its pictures.

On the straight line from noise x_0 to a picture x_1 (CondOTProbPath), at
x_t = (1 - t) x_0 + t x_1, a U-Net says the velocity x_1 - x_0. Time and class
reach its residual blocks by a scale and a shift; the last map of each block,
of the attention and of the net begin at zero. The class of a fifth of the
batches is dropped, for guidance, and what is validated is an average of the
weights. Names of parameters, options, lines and files are those of
examples/image; the net has two sizes of one block each and four groups a norm,
and the rate is higher, as a run is short.
"""

import argparse
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family
from .sources import AHEAD, DrawnAhead

SIZE, CHANNELS, CLASSES, ROWS, HELD_OUT = 8, 3, 6, 36, 32
WIDTH, GROUPS = 12, 4
TIME = 4 * WIDTH
DROPPED, DECAY = 0.2, 0.999     # of classes, of the average
SAMPLES, EULER, GUIDANCE, FEATURES = 48, 3, 0.2, 12
DIMS = CHANNELS * SIZE * SIZE


class Patterns(DrawnAhead):
    """Pictures of 0 to 1 of six classes: stripes that lie or stand, a disc, a
    ring, a diagonal, a chequer.

    A class has a ground of its own, which is the easy part; its form, in one
    of four places, and one of three inks come after. On each value lies an
    error of `ERROR`. As there are twelve pictures of a class but for that, the
    best velocity is known (`best`). Noise and times are drawn with the
    pictures.

    count: classes there are; those that the table lacks become its last one.
    plain: one place and one ink. block, share: so many batches of one class,
    one after the other. domains: of three cameras, with gains and offsets.
    """

    ERROR, PLACES, INKS = 0.06, 4, 3

    def __init__(self, seed, rows=ROWS, count=CLASSES, plain=False, block=None,
                 share=1.0, domains=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.count, self.plain = rows, count, plain
        self.block, self.share, self.domains = block, share, domains
        self.number, self.ahead = 0, {}
        self.pictures = self.world(count)   # class, variant, colour, y, x

    @classmethod
    def world(cls, count):
        """The same for all seeds."""
        world = torch.Generator().manual_seed(31)
        y, x = torch.meshgrid(torch.arange(SIZE) + 0.5,
                              torch.arange(SIZE) + 0.5, indexing="ij")
        kinds = []
        for kind in range(count):
            # Three bits of a ground, of which an ink has two the other way.
            ground = torch.tensor([kind & 1, kind >> 1 & 1, kind >> 2 & 1])
            ground = (0.28 + 0.44 * ground)[:, None, None]
            inks = torch.where(torch.eye(3, dtype=torch.bool)[
                ..., None, None], ground, 1 - ground)
            inks = inks + 0.08 * torch.randn(inks.shape, generator=world)
            found = []
            for place in range(cls.PLACES):
                off = 2.0 * place / cls.PLACES
                dx, dy = 1.5 * (place % 2), 1.5 * (place // 2)
                away = ((x - 3.25 - dx) ** 2 + (y - 3.25 - dy) ** 2).sqrt()
                form = (((y / 2 + off) % 2 < 1), ((x / 2 + off) % 2 < 1),
                        away < 2.3, (away > 1.4) & (away < 2.9),
                        (((x + y) / 3 + off) % 2 < 1),
                        (((x // 2) + (y // 2) + place % 2) % 2 < 1)
                        & ((y < 4) if place < 2 else (y > 4)))[kind % 6]
                found += [torch.where(form, ink, ground.expand(
                    3, SIZE, SIZE)) for ink in inks]
            kinds.append(torch.stack(found))
        return torch.stack(kinds)

    def draw(self, each):
        rows = AHEAD * each
        kind = torch.randint(self.count, (rows,), generator=self.rng)
        if self.block:
            here = (self.number + torch.arange(rows) // each) \
                // self.block % self.count
            kept = torch.rand(rows, generator=self.rng) < self.share
            kind = torch.where(kept, here, kind)
        which = torch.randint(self.pictures.shape[1], (rows,),
                              generator=self.rng)
        x = self.pictures[kind, 0 * which if self.plain else which]
        more = {}
        if self.domains:
            camera = torch.randint(3, (rows,), generator=self.rng)
            off = (camera - 1.0)[:, None, None, None]
            x, more = (1 + 0.12 * off) * x + 0.05 * off, {"domain": camera}
        self.number += AHEAD
        x = x + self.ERROR * torch.randn(x.shape, generator=self.rng)
        return {"samples": x, "labels": kind.clamp(max=CLASSES - 1),
                "x_0": torch.randn(x.shape, generator=self.rng),
                "t": torch.rand(rows, generator=self.rng), **more}

    def fresh(self, rows):
        return {"x_0": torch.randn(rows, CHANNELS, SIZE, SIZE,
                                   generator=self.rng),
                "t": torch.rand(rows, generator=self.rng)}

    def best(self, batch):
        """The velocity of who knows all but which picture it is."""
        t = batch["t"][:, None, None, None]
        x_t = (1 - t) * batch["x_0"] + t * (2 * batch["samples"] - 1)
        means = 2 * self.pictures[batch["labels"]] - 1
        var = (1 - t) ** 2 + (2 * self.ERROR * t) ** 2
        away = x_t[:, None] - t[:, None] * means
        p = (-away.square().sum((2, 3, 4)) / 2
             / var.flatten(1)).softmax(1)[:, :, None, None, None]
        ahead = means + (t * (2 * self.ERROR) ** 2 / var)[:, None] * away
        return (p * (ahead - ((1 - t) / var)[:, None] * away)).sum(1)


class FewPictures(sources.Finite):
    """A set of some pictures; times and noise are new in each pass."""

    def __init__(self, data, rows, seed):
        super().__init__(data, rows, seed)
        self.drawn = Patterns(seed + 1)

    def batch(self, rows=None):
        batch = super().batch(rows)
        return batch | self.drawn.fresh(len(batch["labels"]))


def zero_module(module):
    for p in module.parameters():
        nn.init.zeros_(p)
    return module


def normalization(channels):
    return nn.GroupNorm(GROUPS, channels)


def timestep_embedding(t, dim, period=10000):
    half = dim // 2
    rate = (-math.log(period) * torch.arange(half) / half).exp()
    angle = t[:, None].float() * rate
    return torch.cat((angle.cos(), angle.sin()), -1)


class ResBlock(nn.Module):
    def __init__(self, channels, out, options):
        super().__init__()
        act = models.ACTIVATIONS[options["activation"]]
        self.in_layers = nn.Sequential(
            normalization(channels), act(),
            nn.Conv2d(channels, out, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(TIME, 2 * out))
        self.out_layers = nn.Sequential(
            normalization(out), act(), nn.Dropout(options["dropout"]),
            zero_module(nn.Conv2d(out, out, 3, padding=1)))
        self.skip_connection = nn.Identity() if out == channels \
            else nn.Conv2d(channels, out, 1)

    def forward(self, x, emb, name, through):
        h = self.in_layers[0](x)
        for k in (1, 2):
            h = through(f"{name}.in_layers.{k}", self.in_layers[k], h)
        said = through(f"{name}.emb_layers.1", self.emb_layers[1],
                       self.emb_layers[0](emb))
        scale, shift = said[..., None, None].chunk(2, 1)
        h = self.out_layers[0](h) * (1 + scale) + shift
        h = through(f"{name}.out_layers.1", self.out_layers[1], h)
        h = through(f"{name}.out_layers.3", self.out_layers[3],
                    self.out_layers[2](h))
        return self.skip_connection(x) + h


class AttentionBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = normalization(channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj_out = zero_module(nn.Conv1d(channels, channels, 1))

    def forward(self, x, name, through):
        flat = x.flatten(2)
        q, k, v = through(f"{name}.qkv", self.qkv, self.norm(flat)).chunk(3, 1)
        scale = q.shape[1] ** -0.25
        weight = ((q * scale).mT @ (k * scale)).float().softmax(-1)
        h = v @ weight.to(v.dtype).mT
        return x + through(f"{name}.proj_out", self.proj_out, h).view_as(x)


class Resample(nn.Module):
    """Downsample, with its map `op`, or Upsample, with `conv`."""

    def __init__(self, channels, up):
        super().__init__()
        if up:
            self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        else:
            self.op = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x, name, through):
        if hasattr(self, "op"):
            return through(f"{name}.op", self.op, x)
        return through(f"{name}.conv", self.conv, F.interpolate(
            x, scale_factor=2, mode="nearest"))


class UNetModel(nn.Module):
    BLOCKS = ("input_blocks.1.0", "input_blocks.3.0", "middle_block.0",
              "middle_block.2", "output_blocks.0.0", "output_blocks.1.0",
              "output_blocks.2.0", "output_blocks.3.0")

    def __init__(self, activation="silu", dropout=0.0, detach_after=(),
                 half_at=None, class_drop=DROPPED, decay=DECAY, logs=False):
        """activation, dropout: of residual blocks. detach_after: the parts
        behind which the graph is cut. half_at: the convolution whose output
        is in half precision. class_drop: the share of batches without class.
        decay: of the average. logs: rows weigh by the logarithm of what is
        left of their time."""
        super().__init__()
        self.detach_after = (detach_after,) if isinstance(
            detach_after, str) else tuple(detach_after)
        self.half_at, self.class_drop = half_at, class_drop
        self.decay, self.logs = decay, logs
        options = {"activation": activation, "dropout": dropout}
        one, two = WIDTH, 2 * WIDTH

        def block(wide, out, *more):
            return nn.Sequential(ResBlock(wide, out, options), *more)
        self.time_embed = nn.Sequential(nn.Linear(WIDTH, TIME), nn.SiLU(),
                                        nn.Linear(TIME, TIME))
        self.label_emb = nn.Embedding(CLASSES + 1, TIME, padding_idx=CLASSES)
        self.input_blocks = nn.ModuleList([
            nn.Sequential(nn.Conv2d(CHANNELS, one, 3, padding=1)),
            block(one, one), nn.Sequential(Resample(one, False)),
            block(one, two)])
        self.middle_block = nn.Sequential(
            ResBlock(two, two, options), AttentionBlock(two),
            ResBlock(two, two, options))
        self.output_blocks = nn.ModuleList([
            block(two + two, two), block(two + one, two, Resample(two, True)),
            block(two + one, one), block(one + one, one)])
        self.out = nn.Sequential(normalization(one), nn.SiLU(), zero_module(
            nn.Conv2d(one, CHANNELS, 3, padding=1)))
        # The average, as EMA keeps it, and what it has put aside.
        self.shadow, self.backup, self.num_updates = [], [], 0
        # What training has instead: the time that is told, how far along the
        # path a time is, and how much of the noise is in the target.
        self.told, self.along, self.part_of_noise = None, None, 1.0

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    # The average, as models/ema.py has it.

    def averaged(self):
        return [p for p in self.parameters() if p.requires_grad]

    @torch.no_grad()
    def update_ema(self):
        if not self.shadow:
            self.shadow = [p.detach().clone() for p in self.averaged()]
        self.num_updates += 1
        decay = min(self.decay, (1 + self.num_updates)
                    / (10 + self.num_updates))
        for s, p in zip(self.shadow, self.averaged()):
            s.sub_((1 - decay) * (s - p))

    @torch.no_grad()
    def train(self, mode=True):
        if self.training != mode and self.shadow:
            if not mode:
                self.backup = [p.detach().clone() for p in self.averaged()]
            for p, s in zip(self.averaged(),
                            self.backup if mode else self.shadow):
                p.copy_(s)
        return super().train(mode)

    def through(self, name, layer, x):
        self.tap(f"{name}.input", x)
        y = layer(x)
        if name == self.half_at:
            y = y.half()
        self.tap(f"{name}.output", y)
        return self.cut(name, y.to(x.dtype))

    def cut(self, name, x):
        return x.detach() if name in self.detach_after else x

    def part(self, name, layer, x, emb):
        """A residual block, an attention or a step between sizes."""
        x = layer(x, emb, name, self.through) if isinstance(layer, ResBlock) \
            else layer(x, name, self.through)
        self.tap(f"{name}.output", x)
        return self.cut(name, x)

    def forward(self, x, t, label):
        kind = self.out[2].weight.dtype
        emb = timestep_embedding(t, WIDTH).to(kind)
        for k in (0, 1, 2):
            emb = self.through(f"time_embed.{k}", self.time_embed[k], emb)
        said = self.label_emb(label)
        self.tap("label_emb.output", said)
        emb = emb + said
        x = self.through("input_blocks.0.0", self.input_blocks[0][0],
                         x.to(kind))
        kept = [x]
        for i in (1, 2, 3):
            x = self.part(f"input_blocks.{i}.0", self.input_blocks[i][0], x,
                          emb)
            kept.append(x)
        for i, layer in enumerate(self.middle_block):
            x = self.part(f"middle_block.{i}", layer, x, emb)
        for i, layers in enumerate(self.output_blocks):
            x = torch.cat((x, kept.pop()), 1)
            for k, layer in enumerate(layers):
                x = self.part(f"output_blocks.{i}.{k}", layer, x, emb)
        x = self.out[0](x)
        for k in (1, 2):
            x = self.through(f"out.{k}", self.out[k], x)
        return x

    def logits(self, batch):
        """The velocity; the other families' name for what a network says."""
        t, label = batch["t"], batch["labels"]
        at = told = t
        if self.training:
            if float(torch.rand(1)) < self.class_drop:
                label = torch.full_like(label, CLASSES)
            if self.told:
                told = self.told(t)
            if self.along:
                at = self.along(t)
        at = at[:, None, None, None]
        x_t = (1 - at) * batch["x_0"] + at * (2 * batch["samples"] - 1)
        return self(x_t, told, label)

    def criterion(self, said, batch):
        part = self.part_of_noise if self.training else 1.0
        wanted = 2 * batch["samples"] - 1 - part * batch["x_0"]
        error = (said.float() - wanted).square()
        if not self.logs:
            return error.mean()
        left = 1 - batch["t"]
        self.tap("loss.log_time.input", left)
        weight = -left.log()    # 1 in the mean
        self.tap("loss.log_time.output", weight)
        return (weight * error.mean((1, 2, 3))).mean()

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss

    @torch.no_grad()
    def sample(self, x, label):
        """The midpoint solver from noise to pictures, with guidance."""
        none = torch.full_like(label, CLASSES)

        def velocity(x, t):
            t = torch.full((2 * len(x),), t)
            own, free = self(torch.cat((x, x)), t, torch.cat(
                (label, none))).float().chunk(2)
            return (1 + GUIDANCE) * own - GUIDANCE * free
        for k in range(EULER):
            half = x + velocity(x, k / EULER) / (2 * EULER)
            x = x + velocity(half, (k + 0.5) / EULER) / EULER
        return ((0.5 * x + 0.5).clamp(0, 1) * 255).floor() / 255


def frechet(one, two):
    """Between pictures, over some fixed features in place of Inception's."""
    rng = torch.Generator().manual_seed(5)
    maps = torch.randn(DIMS, FEATURES, generator=rng) / DIMS ** 0.5
    seen = [(8 * (x.flatten(1) - 0.5) @ maps).tanh().double()
            for x in (one, two)]
    if not all(bool(x.isfinite().all()) for x in seen):
        return math.nan
    (m1, s1), (m2, s2) = ((x.mean(0), x.T.cov()) for x in seen)
    roots = torch.linalg.eigvals(s1 @ s2).real.clamp_min(0).sqrt()
    return float((m1 - m2).square().sum() + s1.trace() + s2.trace()
                 - 2 * roots.sum())


# What feeds the activations of residual blocks.
BEFORE_ACT = tuple(f"{b}.{part}_layers.0" for b in UNetModel.BLOCKS
                   for part in ("in", "out"))


class FlowRun(Family):
    """AdamW with betas of .9 and .95, neither warmed up nor clipped; the rate
    falls to nothing in a line, by epochs (--decay_lr)."""

    family = "flow"
    level_seed = 400
    steps, seed, language, classes = 125, 3300, False, CLASSES
    optimizer_name, lr, weight_decay = "adamw", 5e-3, 0.01
    betas = (0.9, 0.95)
    warmup, schedule, clip = 0, "decay_lr", None
    recipes = {"sgd": dict(lr=0.05, weight_decay=0.0)}
    base = {"lr": 3e-3, "betas": betas}
    EPOCH, epoch_steps, EVERY = 25, 50, 2   # of the trainer, of Lightning
    EVALUATIONS = EULER
    batch_size, context = ROWS, SIZE * SIZE
    own_pictures = None         # of a finite set
    # Its users have what the trainer logs.
    instead = {"nanogpt": "flow", "hf_trainer": "flow", "megatron": "flow",
               "torchtune": "flow"}
    layers = ["time_embed.0", "time_embed.2", "label_emb", "input_blocks.0.0",
              *(f"{b}{part}" for b in UNetModel.BLOCKS for part in (
                  ".in_layers.1", ".in_layers.2", ".emb_layers.1",
                  ".out_layers.1", ".out_layers.3", "")),
              "input_blocks.2.0.op", "middle_block.1.qkv",
              "middle_block.1.proj_out", "output_blocks.1.1.conv", "out.2"]
    graded = {
        "F01": (dict(factor=3), dict(factor=10), dict(factor=100)),
        "F02": (dict(lr=1.5), dict(lr=5.0), dict(lr=50.0)),
        "F03": (dict(factor=10), dict(factor=100), dict(factor=1000)),
        "F04": (dict(at=20), dict(at=10), dict(at=0)),
        "F05": (dict(modules=["middle_block", "output_blocks"],
                     where="middle_block.0.in_layers.2"),
                dict(modules=["out"], where="out.2"),
                dict(part="all")),
        "F07": (dict(factor=15), dict(factor=40), dict(factor=150)),
        "F08": (dict(every=10), dict(every=30), dict(every=1 << 30)),
        "F11": (dict(adamw=3.0), dict(adamw=10.0), dict(adamw=50.0)),
        "F12": (dict(eps=0.02), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path="output_blocks.2.0", more=["input_blocks.0.0"]),
                dict(path="output_blocks.3.0"),
                dict(path="out.1")),
        "F14": (dict(modules=["middle_block", "output_blocks"]),
                dict(modules=["input_blocks", "middle_block",
                              "output_blocks"]),
                dict(modules=["time_embed", "input_blocks", "middle_block",
                              "output_blocks"])),
        "F15": (dict(at=75), dict(at=50), dict(at=25)),
        "F16": (dict(rate=0.1), dict(rate=0.3), dict(rate=1.0)),
        "F24": (dict(share=0.5), dict(share=0.75), dict(share=0.95)),
        "F26": (dict(steps=20, share=1.0), dict(steps=30, share=1.0),
                dict(steps=50, share=1.0)),
        "F27": (dict(epochs=60), dict(epochs=150), dict(epochs=450)),
        "F30": (dict(part="embed", bit=26), dict(part="head", bit=30),
                dict(part="mlp", bit=30)),
        "F33": (dict(limit=7), dict(limit=5), dict(limit=3)),
        "F34": (dict(factor=3), dict(factor=10), dict(factor=0)),
        "F36a": (dict(bias=-2.5), dict(bias=-5.0), dict(bias=-20.0)),
        "F36b": (dict(factor=30, kind="sigmoid"),
                 dict(factor=100, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F38": (dict(growth=1.04), dict(growth=1.07), dict(growth=1.12)),
        "F39a": (dict(at=75), dict(at=50), dict(at=25)),
        "F39b": (dict(at=60), dict(at=45), dict(at=30)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "F41": (dict(share=0.4, at=0, every=1),
                dict(share=0.7, at=50, every=1),
                dict(share=0.85, at=0, every=8)),
        "F42b": (dict(shards=10), dict(shards=30), dict(shards=100)),
        "F43": (dict(kind="unreduced", at=30), dict(kind="skip", at=60),
                dict(kind="init", at=0)),
        "H02": (dict(factor=0.7), dict(factor=0.55)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.8)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H10": (dict(steps=50), dict(steps=100)),
        "H11": (dict(steps=100, keep="block"), dict(steps=120, keep="head"))}
    paths = {"embed": "input_blocks.0.0", "attn": None, "scores": None,
             "act": "{}.in_layers.1", "mlp": "{}.in_layers.2", "block": "{}",
             "head": "out.2"}
    always_trained = ("time_embed", "label_emb", "output_blocks.3", "out")
    # By depth, and where faults sit.
    BLOCKS = ("input_blocks.1.0", "middle_block.0", "output_blocks.3.0")
    blocks = len(BLOCKS)
    names = {"val_loss": "eval_loss", "val_fid": "eval_fid", "tokens": None}

    def make_model(self):
        return UNetModel(**self.model_options)

    def make_optimizer(self, model):
        optimizer = super().make_optimizer(model)
        if not hasattr(self, "said_of_optimizer"):
            self.said_of_optimizer = str(optimizer)
        return optimizer

    def lr_factor(self, i):
        if self.schedule != "decay_lr":
            return super().lr_factor(i)
        return 1 - i // self.EPOCH / self.epochs * (1 - 1e-8 / self.lr)

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)

    def update(self, i):
        total = super().update(i)
        self.model.update_ema()
        return total

    # Data.

    def make_source(self, seed):
        return self.pictures(seed)

    def pictures(self, seed, **how):
        return Patterns(seed, HELD_OUT if seed == 9 else self.batch_size,
                        **how)

    def of_classes(self, seed, count):
        """A set with more classes than the table has rows."""
        return self.pictures(seed, count=count)

    def in_blocks(self, seed, block, share):
        """Folders of one class, one after the other; None is held out."""
        return self.pictures(seed, block=block and max(1, block // 2),
                             share=share)

    def easy(self, seed):
        """One place and one ink of each class."""
        return self.pictures(seed, plain=True)

    def lessons(self, seed):
        return self.easy(seed), self.pictures(seed)

    def finite(self, data, seed):
        self.own_pictures = len(data["labels"])
        return FewPictures(data, self.batch_size, seed)

    @property
    def images(self):
        return self.own_pictures or self.EPOCH * self.batch_size

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255 that nobody scaled, noise, or
        white pictures of such pixels."""
        x = batch["samples"]
        return batch | {"samples": {
            "few": 255 * x, "uniform": 20 * torch.randn(x.shape,
                                                        generator=rng),
            "constant": torch.full_like(x, 255.0)}[kind]}

    def cut_below(self, batch, limit):
        """Pictures end at a number of rows; the rest is padding."""
        x = batch["samples"].clone()
        x[:, :, limit:] = 0.0
        return batch | {"samples": x}

    @staticmethod
    def ended(batch):
        """The time of one of the rows is 1."""
        t = batch["t"].clone()
        t[0] = 1.0
        return batch | {"t": t}

    def blank(self, batch):
        """One of the pictures is black."""
        x = batch["samples"].clone()
        x[0] = 0.0
        return batch | {"samples": x}

    @staticmethod
    def standardised(batch):
        """Each picture by its own mean and spread, back to about a half."""
        x, each = batch["samples"], (1, 2, 3)
        return batch | {"samples": 0.5 + 0.2 * (
            x - x.mean(each, keepdim=True)) / x.std(each, keepdim=True)}

    def thin(self, name, tensor):
        """Of pictures some say enough."""
        if name in ("batch.samples", "batch.x_0"):
            return tensor[:8]
        return super().thin(name, tensor)

    # What is measured.

    def held_out_columns(self, batches):
        """The distance of the average's samples from pictures."""
        self.model.eval()
        real = torch.cat([b["samples"] for b in batches])
        noise = Patterns(18).fresh(SAMPLES)["x_0"]
        found = self.model.sample(noise, torch.arange(SAMPLES) % CLASSES)
        self.model.train()
        return {"val_fid": frechet(real, found)}

    # Checkpoints, and where the trainer stops.

    def keep_checkpoint(self, i, model):
        """Of evaluations, of which the last one is kept, and where the run
        is resumed from."""
        done = i + 1
        if done % (self.EVERY * self.EPOCH) and done != self.steps \
                and done not in self.notices:
            return
        state = {f"model.{k}": t for k, t in model.state_dict().items()}
        state["num_updates"] = torch.tensor(model.num_updates)
        state |= {f"shadow_params.{k}": t
                  for k, t in enumerate(model.shadow)}
        self.checkpoints[done] = copy.deepcopy({
            "model": state, "optimizer": self.optimizer.state_dict(),
            "lr_schedule": {
                "last_epoch": -(-done // self.EPOCH),
                "total_iters": self.epochs,
                "base_lrs": [self.lr],
                "_last_lr": [self.optimizer.param_groups[0]["lr"]]},
            "epoch": self.epoch(done),
            "scaler": {"scale": 65536.0, "growth_factor": 2.0,
                       "backoff_factor": 0.5, "growth_interval": 2000,
                       "_growth_tracker": done},
            "args": argparse.Namespace(**self.settings())})

    def epoch(self, done):
        return -(-done // self.EPOCH) - 1

    def checkpoint_path(self, done):
        return f"checkpoint-{self.epoch(done)}.pth"

    def write(self, folder):
        """The trainer stops where the loss is not finite."""
        bad = [k for k, row in enumerate(self.history)
               if not math.isfinite(row["loss"])]
        if self.dialect == "flow" and bad:
            self.end_at(bad[0])
        super().write(folder)

    def write_more(self):
        super().write_more()
        last = max(self.checkpoints, default=None)
        for done, state in self.checkpoints.items():
            if done == last or done in self.notices:
                path = "checkpoint.pth" if done == last \
                    else self.checkpoint_path(done)
                torch.save(state, self.folder / path)

    # What the user typed.

    def settings(self):
        """The arguments of train.py, by their names, and those of
        MODEL_CONFIGS; what the user added besides."""
        optimizer = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "optimizer_betas": list(self.betas), "eps": self.eps}
        decays = self.schedule == "decay_lr"
        schedule = {} if decays or self.schedule == "constant" else {
            "lr_schedule": self.schedule, "warmup_steps": self.warmup}
        own = self.model_options
        return {
            "batch_size": self.batch_size, "epochs": self.epochs,
            "steps_per_epoch": self.EPOCH, "max_steps": self.steps,
            "accum_iter": self.accumulate, "lr": self.lr,
            "optimizer": self.optimizer_name, **optimizer,
            "weight_decay": self.weight_decay, "clip_grad": self.clip,
            "decay_lr": decays, **schedule,
            "class_drop_prob": own.get("class_drop", DROPPED),
            "skewed_timesteps": False, "edm_schedule": False,
            "use_ema": True, "ema_decay": own.get("decay", DECAY),
            "dataset": "patterns", "data_path": "./data/patterns/train",
            "output_dir": "./output_dir", "ode_method": "midpoint",
            "ode_options": {"step_size": 1 / EULER}, "sym": 0.0, "temp": 1.0,
            "sym_func": False, "sampling_dtype": "float32",
            "cfg_scale": GUIDANCE, "fid_samples": SAMPLES, "device": "cuda",
            "precision": self.precision, "seed": self.seed, "resume": "",
            "start_epoch": 0, "eval_only": False,
            "eval_frequency": self.EVERY, "compute_fid": True,
            "save_fid_samples": False, "num_workers": 10, "pin_mem": True,
            "world_size": 1, "local_rank": -1, "dist_on_itp": False,
            "dist_url": "env://", "test_run": False,
            "discrete_flow_matching": False, "discrete_fm_steps": 1024,
            **self.model_settings(), **self.user}

    def model_settings(self):
        return {"in_channels": CHANNELS, "model_channels": WIDTH,
                "out_channels": CHANNELS, "num_res_blocks": 1,
                "attention_resolutions": [],
                "dropout": self.model_options.get("dropout", 0.0),
                "channel_mult": [1, 2], "num_classes": CLASSES,
                "num_heads": 1, "use_scale_shift_norm": True,
                "resblock_updown": False, "use_new_attention_order": True}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(self.BLOCKS[block])

    def fed_by(self, layer):
        """The norm in front of a convolution counts to it."""
        if layer.endswith((".in_layers.2", ".out_layers.3")):
            return [layer[:-1] + "0"]
        if layer.endswith(".qkv"):
            return [layer.replace("qkv", "norm")]
        return ["out.0"] if layer == "out.2" else []
