"""A small student that follows its own average, as facebookresearch/dino does.

A vision transformer sees crops of a picture, large and small, and is to say
what the average of its own weights says of the other large crop. Nobody gives
it labels. Parts, arguments, log.txt and checkpoints are named as main_dino.py
has them; what the user evaluates with is eval_knn.py's vote of neighbours.
"""

import argparse
import copy
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family
from .sources import AHEAD, DrawnAhead

SIZE, LARGE, SMALL, PATCH, CHANNELS = 24, 16, 8, 4, 3
ROWS, HELD_OUT, LOCAL = 24, 32, 2
SIDE = LARGE // PATCH
WIDTH, HEADS, HIDDEN, DEPTH = 32, 2, 64, 2
HEAD_WIDTH, NECK, OUT = 48, 16, 32
TINTS, WAYS = 6, 2
CLASSES = TINTS * WAYS
GLOBAL_SCALE, LOCAL_SCALE = (0.4, 1.0), (0.12, 0.4)
CAMERAS = 3
NEIGHBOURS, VOTE = 10, 0.07         # of eval_knn.py


class Swatches(DrawnAhead):
    """Striped swatches of cloth, and crops of them.

    A swatch has one of six tints, a hue each, and stripes that lie or stand:
    twelve classes. The stripes' phase, length (5.5 to 6.5 of 24 pixels),
    strength and exact angle, a tint about the usual one and a little light
    are drawn, and noise lies on each number. Tints are told apart by what
    their channels say of each other, stripes by what patches have inside; both
    are the same in all crops of a swatch, and little else is. Pictures with a
    label, for validation and for comparison, are of another light and contrast
    each, and .05 of them may have any class's name, which nobody can know.

    A batch has image, the swatch, and two large and some small crops of it,
    each with its own place, scale, mirror, light, contrast, grey, blur and, of
    the second large one, solarization, as DataAugmentationDINO has them.

    local: small crops. scales: of large and small crops. kinds: how many
    classes there are. quiet: neither noise nor light. cameras: three of
    another gain and offset each, whose number is in the batch as domain.
    block, share: swatches of one class, one class after the other. labelled:
    the batch has the label as well. twin: in this share of the rows both large
    crops are one.
    """

    NOISE, LIGHT, MISTAKEN = 0.1, 3.0, 0.05
    TINT, STRIPES, JITTER = 1.5, 3.0, 0.8

    def __init__(self, seed, rows=ROWS, local=LOCAL, large=GLOBAL_SCALE,
                 small=LOCAL_SCALE, kinds=CLASSES, quiet=False,
                 cameras=False, block=None, share=1.0, labelled=False,
                 twin=0.0):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.local, self.large, self.small = \
            rows, local, large, small
        self.kinds, self.quiet, self.cameras = kinds, quiet, cameras
        self.block, self.share, self.number = block, share, 0
        self.labelled, self.twin, self.ahead = labelled, twin, {}
        place = torch.linspace(-1, 1, SIZE)
        self.y, self.x = torch.meshgrid(place, place, indexing="ij")

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def chance(self, share, *shape):
        return torch.rand(shape, generator=self.rng) < share

    def draw(self, each):
        rows = AHEAD * each
        kind = torch.randint(self.kinds, (rows,), generator=self.rng)
        if self.block:
            here = (self.number + torch.arange(rows) // each) \
                // self.block % self.kinds
            kind = torch.where(self.chance(self.share, rows), here, kind)
        self.number += AHEAD
        image = self.of(kind)
        batch = {"image": image}
        if self.cameras:
            camera = torch.randint(CAMERAS, (rows,), generator=self.rng)
            far = camera[:, None, None, None] - 1.0
            batch = {"image": (1 + 0.2 * far) * image + 0.2 * far}
        batch |= self.crops(batch["image"])
        if self.cameras:
            batch["domain"] = camera
        if self.labelled:
            other = torch.randint(self.kinds, (rows,), generator=self.rng)
            batch["label"] = torch.where(
                self.chance(self.MISTAKEN, rows), other, kind)
            light = self.normal(2, rows, 1, 1, 1)
            batch["image"] = (0.25 * light[0]).exp() * image \
                + self.LIGHT * light[1]
        return batch

    def of(self, kind):
        """Swatches of these classes."""
        rows = len(kind)
        tint, way = kind % TINTS, kind // TINTS
        angle = torch.tensor([0.5, 0.0])[way] * math.pi \
            + 0.08 * self.normal(rows)
        wave = math.pi * SIZE / self.uniform(5.5, 6.5, rows)
        along = angle.cos()[:, None, None] * self.x \
            + angle.sin()[:, None, None] * self.y
        stripes = (wave[:, None, None] * along
                   + self.uniform(0, 2 * math.pi, rows, 1, 1)).cos()
        stripes = stripes * self.STRIPES * self.uniform(0.9, 1.1, rows, 1, 1)
        hue = 2 * math.pi * (tint / TINTS)[:, None] \
            + 2 * math.pi / CHANNELS * torch.arange(CHANNELS)
        colour = self.TINT * hue.cos() + 0.05 * self.normal(rows, CHANNELS)
        image = stripes[:, None] + colour[..., None, None]
        if self.quiet:
            return image + 0.05 * self.normal(*image.shape)
        slope = 0.1 * self.normal(2, rows, 1, 1)
        light = 0.05 * self.normal(rows, 1, 1) \
            + slope[0] * self.x + slope[1] * self.y
        return image + light[:, None] + self.NOISE * self.normal(*image.shape)

    # DataAugmentationDINO.

    def crops(self, image):
        first = self.crop(image, LARGE, self.large, 1, blurred=1.0)
        second = self.crop(image, LARGE, self.large, 1, blurred=0.1,
                           solarized=0.2)
        if self.twin:
            same = self.chance(self.twin, len(image), 1, 1, 1, 1)
            second = torch.where(same, first, second)
        batch = {"global_crops": torch.cat((first, second), 1)}
        if self.local:
            batch["local_crops"] = self.crop(image, SMALL, self.small,
                                             self.local, blurred=0.5)
        return batch

    def crop(self, image, size, scales, count, blurred, solarized=0.0):
        """(rows, count, channels, size, size)"""
        rows = len(image)
        image = image.repeat_interleave(count, 0)
        many = len(image)
        part = self.uniform(*scales, many).sqrt()
        shift = self.uniform(-1, 1, 2, many) * (1 - part)
        way = 1 - 2.0 * self.chance(0.5, many)
        zero = torch.zeros(many)
        theta = torch.stack((
            torch.stack((part * way, zero, shift[0]), 1),
            torch.stack((zero, part, shift[1]), 1)), 1)
        grid = F.affine_grid(theta, (many, CHANNELS, size, size),
                             align_corners=False)
        x = F.grid_sample(image, grid, mode="bilinear",
                          padding_mode="reflection", align_corners=False)
        each = (many, 1, 1, 1)
        jitter = self.chance(0.8, *each)
        light = self.uniform(-self.JITTER, self.JITTER, *each) * jitter
        strong = 1 + self.uniform(-0.5, 0.6, *each) * jitter
        mean = x.mean((1, 2, 3), keepdim=True)
        x = (x - mean) * strong + mean + light
        grey = x.mean(1, keepdim=True).expand_as(x)
        x = torch.where(self.chance(0.2, *each), grey, x)
        soft = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1)
        x = torch.where(self.chance(blurred, *each), 0.5 * (x + soft), x)
        if solarized:
            x = torch.where(self.chance(solarized, *each) & (x > 0.5), 1 - x,
                            x)
        return x.view(rows, count, CHANNELS, size, size)


class Recropped(sources.Finite):
    """A finite set of swatches, of which other crops are taken each time."""

    def __init__(self, data, rows, seed, cropper):
        super().__init__(data, rows, seed)
        self.cropper = cropper

    def batch(self, rows=None):
        out = super().batch(rows)
        return out | self.cropper.crops(out["image"])


@functools.cache
def compared():
    """The pictures with labels that neighbours are looked for among."""
    drawn = Swatches(10, 45, labelled=True).draw(45)
    return {k: drawn[k] for k in ("image", "label")}


def neighbours(bank, labels, found, k=NEIGHBOURS):
    """Order of the classes for each of `found`, as knn_classifier() has it."""
    near, at = (F.normalize(found, dim=1)
                @ F.normalize(bank, dim=1).t()).nan_to_num(0.0).topk(k)
    votes = F.one_hot(labels[at], CLASSES) * (near / VOTE).exp()[..., None]
    return votes.sum(1).argsort(1, descending=True)


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(CHANNELS, WIDTH, PATCH, PATCH)


class Block(nn.Module):
    """Attention and a network of two maps, a norm before each."""

    def __init__(self, name, options, path):
        super().__init__()
        self.name, self.options, self.path = name, options, path
        self.norm1 = nn.LayerNorm(WIDTH, 1e-6)
        self.attn = models.Group(qkv=nn.Linear(WIDTH, 3 * WIDTH),
                                 proj=nn.Linear(WIDTH, WIDTH))
        self.norm2 = nn.LayerNorm(WIDTH, 1e-6)
        self.mlp = models.Group(
            fc1=nn.Linear(WIDTH, HIDDEN),
            act=models.ACTIVATIONS[options["activation"]](),
            fc2=nn.Linear(HIDDEN, WIDTH))

    def drop_path(self, y):
        """Whole rows are left out (stochastic depth)."""
        if not self.training or not self.path:
            return y
        kept = torch.rand(len(y), 1, 1) >= self.path
        return y * kept / (1 - self.path)

    def drop(self, y):
        rate = self.options["dropout"]
        return F.dropout(y, rate, self.training) if rate else y

    def forward(self, x, tap):
        rows, heads = len(x), self.options["heads"]
        scale = self.options["scale"]
        if scale is None:
            scale = (WIDTH // heads) ** -0.5
        qkv = self.attn.qkv(self.norm1(x)).view(rows, -1, 3, heads,
                                                WIDTH // heads)
        y = models.attend(
            *qkv.permute(2, 0, 3, 1, 4),
            lambda n, t: tap(f"{self.name}.attn.{n}", t), scale, future=None,
            half=self.options["half_scores"])
        y = self.attn.proj(y.transpose(1, 2).reshape(x.shape))
        tap(f"{self.name}.attn.output", y)
        x = x + self.drop_path(self.drop(y))
        y = self.mlp.fc1(self.norm2(x))
        tap(f"{self.name}.mlp.act.input", y)
        y = self.mlp.act(y)
        tap(f"{self.name}.mlp.act.output", y)
        y = self.mlp.fc2(self.drop(y))
        tap(f"{self.name}.mlp.fc2.output", y)
        x = x + self.drop_path(self.drop(y))
        tap(f"{self.name}.output", x)
        return x


class Backbone(nn.Module):
    """The class token behind the last norm."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.zeros(1, SIDE ** 2 + 1, WIDTH))
        self.patch_embed = PatchEmbed()
        self.blocks = nn.ModuleList(
            Block(f"module.backbone.blocks.{i}", options,
                  options["drop_path"] * i / (DEPTH - 1))
            for i in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH, 1e-6)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.trunc_normal_(self.cls_token, std=0.02)

    def cut(self, x, name):
        return x.detach() if name in self.options["detach_after"] else x

    def places(self, side):
        """Those of the patches of a crop, between those of a large one."""
        table, positions = self.pos_embed[:, 1:], self.options["positions"]
        if positions is False:
            return torch.zeros_like(table[:, :1])
        if positions is not True:
            return table[:, positions:positions + 1]
        if side == SIDE:
            return table
        grid = table.view(1, SIDE, SIDE, WIDTH).permute(0, 3, 1, 2)
        grid = F.interpolate(grid.float(), size=(side, side), mode="bicubic",
                             align_corners=False).to(table.dtype)
        return grid.flatten(2).transpose(1, 2)

    def forward(self, x, tap):
        x = self.patch_embed.proj(x.to(self.cls_token.dtype))
        tap("module.backbone.patch_embed.proj.output", x)
        x = self.cut(x, "module.backbone.patch_embed")
        x = x.flatten(2).transpose(1, 2) + self.places(x.shape[-1])
        first = self.cls_token + self.pos_embed[:, :1]
        x = torch.cat((first.expand(len(x), -1, -1), x), 1)
        for block in self.blocks:
            x = self.cut(block(x, tap), block.name)
        x = self.norm(x)[:, 0]
        tap("module.backbone.norm.output", x)
        return self.cut(x, "module.backbone.norm")


class LastLayer(nn.Module):
    """A linear map under weight_norm."""

    def __init__(self, width, out, fixed):
        super().__init__()
        self.weight_g = nn.Parameter(torch.ones(out, 1),
                                     requires_grad=not fixed)
        self.weight_v = nn.Parameter(
            torch.empty(out, width).uniform_(-1, 1) * width ** -0.5)

    def forward(self, x):
        long = self.weight_v.norm(dim=1, keepdim=True)
        return F.linear(x, self.weight_g * self.weight_v / long)


class DINOHead(nn.Module):
    def __init__(self, options):
        super().__init__()
        act = models.ACTIVATIONS[options["activation"]]
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, HEAD_WIDTH), act(),
            nn.Linear(HEAD_WIDTH, HEAD_WIDTH), act(),
            nn.Linear(HEAD_WIDTH, NECK))
        self.last_layer = LastLayer(NECK, options["out_dim"],
                                    options["norm_last_layer"])
        self.cut = "module.head.mlp" in options["detach_after"]

    def forward(self, x, tap):
        for k, part in enumerate(self.mlp):
            x = part(x)
            tap(f"module.head.mlp.{k}.output", x)
        x = F.normalize(x.detach() if self.cut else x, dim=-1)
        x = self.last_layer(x)
        tap("module.head.last_layer.output", x)
        return x


class MultiCropWrapper(nn.Module):
    """Crops of one size go through the backbone together, all through the
    head."""

    def __init__(self, options):
        super().__init__()
        self.backbone, self.head = Backbone(options), DINOHead(options)

    def forward(self, crops, tap):
        """crops: (rows, count, channels, side, side), by size; what is said
        of each, (crops, rows, prototypes)."""
        rows, found = len(crops[0]), []
        for k, x in enumerate(crops):
            x = x.transpose(0, 1).flatten(0, 1)
            found.append(self.backbone(x, nothing if k else tap))
        y = self.head(torch.cat(found), tap)
        return y.view(-1, rows, y.shape[-1])


def nothing(name, tensor):
    """What watches a network that is not watched."""


class Dino(nn.Module):
    """The student as DDP wraps it; its teacher, and the loss with its centre.
    The teacher is made of the student when it is first asked, and follows it
    when a step has been made."""

    TEMPERATURES = (0.03, 0.04)     # the teacher's, before and behind
    WARMUP = 2                      # epochs
    STUDENT, FOLLOWS, CENTRE = 0.1, 0.95, 0.7

    def __init__(self, activation="gelu", dropout=0.0, detach_after=(),
                 heads=HEADS, scale=None, half_scores=False, positions=True,
                 out_dim=OUT, norm_last_layer=True, drop_path=0.1,
                 temperature=None, momentum=None, centred=1.0, total=1):
        """detach_after: the parts behind which the graph is cut. positions:
        the place that all patches have if a number, none if False.
        temperature: the teacher's. momentum: of its average, at the start.
        centred: how much of the centre is taken away. total: steps of the
        run."""
        super().__init__()
        if isinstance(detach_after, str):
            detach_after = (detach_after,)
        self.module = MultiCropWrapper({
            "activation": activation, "dropout": dropout, "heads": heads,
            "scale": scale, "half_scores": half_scores, "out_dim": out_dim,
            "positions": positions, "drop_path": drop_path,
            "norm_last_layer": norm_last_layer,
            "detach_after": tuple(detach_after)})
        for part in self.module.modules():
            if isinstance(part, nn.Linear):
                nn.init.trunc_normal_(part.weight,
                                      std=part.in_features ** -0.5)
                nn.init.zeros_(part.bias)
        self.temperatures = self.TEMPERATURES if temperature is None \
            else (self.TEMPERATURES[0], temperature)
        self.follows = self.FOLLOWS if momentum is None else momentum
        self.centred = centred
        self.center = torch.zeros(1, out_dim)
        self.teachers, self.behind = (), False
        self.done, self.total = 0, total
        self.squashes, self.keeps, self.entropy = False, None, 0.0

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    @property
    def teacher(self):
        if not self.teachers:
            self.teachers = (copy.deepcopy(self.module).eval()
                             .requires_grad_(False),)
        return self.teachers[0]

    def momentum(self):
        """Of the average: a cosine to 1."""
        share = max(0, self.done - 1) / self.total
        return 1 - (1 - self.follows) * (1 + math.cos(math.pi * share)) / 2

    @torch.no_grad()
    def follow(self):
        """The teacher's update, once behind each step."""
        if self.behind:
            m = self.momentum()
            for own, kept in zip(self.module.parameters(),
                                 self.teacher.parameters()):
                kept.mul_(m).add_(own, alpha=1 - m)
        self.behind = False

    def temperature(self):
        epoch, (first, last) = self.done // DinoRun.EPOCH, self.temperatures
        return first + (last - first) * min(1.0, epoch / self.WARMUP)

    def logits(self, batch):
        """What the student says of all crops."""
        return self.module([batch[k] for k in ("global_crops", "local_crops")
                            if k in batch], self.tap)

    @torch.no_grad()
    def targets(self, batch):
        """What is to be said: the teacher's, centred and sharpened."""
        said = self.teacher([batch["global_crops"]], nothing).float()
        probs = ((said - self.centred * self.center)
                 / self.temperature()).softmax(-1)
        self.entropy = -torch.special.xlogy(probs, probs).sum(-1).mean()
        if self.training:
            mean = said.flatten(0, 1).mean(0, keepdim=True)
            self.center = self.center * self.CENTRE \
                + mean * (1 - self.CENTRE)
        return probs

    def criterion(self, said, wanted):
        """DINOLoss: cross-entropy of each crop with each large one that is
        another."""
        said = said.float()
        if self.squashes:
            said = said.softmax(-1)
        logs = (said / self.STUDENT).log_softmax(-1) if self.keeps is None \
            else self.logs_of_some(said)
        pairs = -torch.einsum("qbk,vbk->qv", wanted, logs) / said.shape[1]
        return self.mean_of_pairs(pairs)

    @staticmethod
    def mean_of_pairs(pairs):
        other = torch.arange(len(pairs))[:, None] != torch.arange(
            pairs.shape[1])
        return pairs[other].mean()

    def logs_of_some(self, said):
        """Written by hand, of probabilities of which the small ones are 0."""
        probs = (said / self.STUDENT).softmax(-1)
        kept = max(1, int(self.keeps * probs.shape[-1]))
        probs = torch.where(probs >= probs.topk(kept, -1).values[..., -1:],
                            probs, 0.0)
        for name in ("probs.output", "nll.input"):
            self.tap(f"loss.{name}", probs[0])
        self.tap("loss.nll.output", -probs[0].log())
        return probs.log()

    def loss(self, batch):
        self.follow()
        wanted = self.targets(batch)
        loss = self.criterion(self.logits(batch), wanted)
        self.behind = self.training
        self.tap("loss.output", loss)
        return loss


# What feeds the activations.
BEFORE_ACT = (*(f"module.backbone.blocks.{i}.mlp.fc1" for i in range(DEPTH)),
              "module.head.mlp.0", "module.head.mlp.2")


class DinoRun(Family):
    """AdamW without decay of biases and norms, whose decay of all else rises
    by a cosine to ten times; a linear warm-up from 0, then a cosine; the last
    layer stands still in the first epoch; each weight's gradient is clipped by
    itself."""

    family = "dino"
    level_seed = 400
    steps, seed, language, classes = 150, 2900, False, CLASSES
    lr, warmup, schedule, clip = 4e-3, 25, "cosine", 3.0
    betas, weight_decay = (0.9, 0.999), 0.04
    recipes = {"sgd": dict(lr=0.3, weight_decay=1e-4)}
    base = {"lr": 3e-3}
    FINAL, DECAYS = 2.5e-4, 10.0    # min_lr and weight_decay_end, by shares
    EPOCH, epoch_steps = 25, 50     # of main_dino.py, of Lightning
    FREEZE = 1                      # freeze_last_layer, epochs
    _val_every = 50
    batch_size, context = ROWS, LARGE * LARGE
    crop_options = {}               # of the training crops
    standardised = False            # crops, by themselves
    own_images = None               # of a finite set
    # Its users have the trainer's own log.
    instead = {"nanogpt": "dino", "hf_trainer": "dino", "megatron": "dino",
               "torchtune": "dino"}
    B = "module.backbone"
    BLOCKS = tuple(f"module.backbone.blocks.{i}" for i in range(DEPTH))
    layers = [f"{B}.patch_embed.proj", *(
        f"module.backbone.blocks.{i}{part}" for i in range(DEPTH)
        for part in (".attn", ".attn.scores", ".mlp.act", ".mlp.fc2", "")),
        f"{B}.norm", *(f"module.head.mlp.{k}" for k in (0, 2, 4)),
        "module.head.last_layer"]
    graded = {
        "F01": (dict(factor=30), dict(factor=100), dict(factor=1000)),
        "F02": (dict(lr=10.0), dict(lr=100.0), dict(lr=1000.0)),
        "F04": (dict(at=40), dict(at=20), dict(at=0)),
        "F05": (dict(modules=["module.backbone"], where=layers[0]),
                dict(modules=["module.backbone", "module.head.mlp"],
                     where=layers[0]),
                dict(part="all")),
        "F06": (dict(factor=8), dict(factor=16), dict(factor=32)),
        "F07": (dict(factor=50), dict(factor=150), dict(factor=500)),
        "F08": (dict(every=12), dict(every=40), dict(every=1 << 30)),
        "F10": (dict(adamw=1e-8), dict(adamw=3e-9), dict(adamw=1e-9)),
        "F12": (dict(eps=1.0), dict(eps=3.0), dict(eps=10.0)),
        "F13": (dict(path=BLOCKS[1]), dict(path="module.backbone.norm"),
                dict(path="module.head.mlp")),
        "F14": (dict(modules=[*BLOCKS]),
                dict(modules=[*BLOCKS, "module.head.mlp.0"]),
                dict(modules=[*BLOCKS, "module.head.mlp"])),
        "F15": (dict(at=100), dict(at=75), dict(at=50)),
        "F24": (dict(share=0.6), dict(share=0.8), dict(share=0.95)),
        "F27": (dict(epochs=50), dict(epochs=75), dict(epochs=150)),
        "F30": (dict(part="mlp", bit=26), dict(part="mlp", bit=30),
                dict(part="embed", bit=30)),
        "F35": (dict(power=2.0), dict(power=2.5), dict(power=3.0)),
        "F36b": (dict(factor=50, kind="sigmoid"),
                 dict(factor=100, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F39a": (dict(at=110, keep=0.5), dict(at=90, keep=0.5),
                 dict(at=45, keep=0.25)),
        "F39b": (dict(at=110), dict(at=80), dict(at=40)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7)),
        "H04": (dict(rate=0.02), dict(rate=0.05)),
        "H07": (dict(factor=0.05),),
        "H10": (dict(steps=60), dict(steps=120)),
        "H43": (dict(parts=2), dict(parts=3))}
    paths = {"embed": f"{B}.patch_embed.proj", "attn": "{}.attn",
             "scores": "{}.attn.scores", "act": "{}.mlp.act",
             "mlp": "{}.mlp.fc2", "block": "{}",
             "head": "module.head.last_layer"}
    always_trained = ("module.head.mlp",)
    blocks = DEPTH
    names = {"entropy": "teacher_entropy", "tokens": None}

    def make_model(self):
        return Dino(total=self.steps, **self.model_options)

    def make_optimizer(self, model):
        """Two groups, as get_params_groups() makes them."""
        trained = [p for p in model.parameters() if p.requires_grad]
        groups = [{"params": [p for p in trained if p.dim() > 1]},
                  {"params": [p for p in trained if p.dim() < 2],
                   "weight_decay": 0.0}]
        groups = [g for g in groups if g["params"]]
        if self.optimizer_name == "sgd":
            return torch.optim.SGD(groups, lr=self.lr, momentum=self.momentum,
                                   weight_decay=self.weight_decay)
        kind = torch.optim.Adam if self.optimizer_name == "adam" \
            else torch.optim.AdamW
        return kind(groups, lr=self.lr, betas=self.betas, eps=self.eps,
                    weight_decay=self.weight_decay)

    def lr_factor(self, i):
        """The warm-up begins at 0, as cosine_scheduler() has it."""
        if i < self.warmup:
            return i / max(1, self.warmup - 1)
        if self.schedule != "cosine":
            return super().lr_factor(i)
        share = (i - self.warmup) / (self.steps - self.warmup)
        return self.FINAL + (1 - self.FINAL) * 0.5 * (
            1 + math.cos(math.pi * share))

    def decay(self, i):
        last = self.DECAYS * self.weight_decay
        return last + 0.5 * (self.weight_decay - last) * (
            1 + math.cos(math.pi * i / self.steps))

    def prepare(self, model, optimizer, i):
        """What lies between the gradient and the step; the gradient's norm."""
        total = torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf)
        for name, p in model.named_parameters():
            if p.grad is None:
                continue
            if self.clip:
                part = self.clip / (p.grad.norm() + 1e-6)
                if part < 1:
                    p.grad.mul_(part)
            if i < self.FREEZE * self.EPOCH and "last_layer" in name:
                p.grad = None
        optimizer.param_groups[0]["weight_decay"] = self.decay(i)
        model.done = i + 1
        return total

    def update(self, i):
        total = self.prepare(self.model, self.optimizer, i)
        self.optimizer.step()
        return total

    @property
    def val_every(self):
        """The vote is taken behind each epoch where there is one."""
        return self.EPOCH if self.dialect == "dino" else self._val_every

    @val_every.setter
    def val_every(self, steps):
        self._val_every = steps

    # Data.

    def make_source(self, seed):
        return self.swatches(seed)

    def swatches(self, seed, **how):
        """Drawn without end, an epoch is 25 steps of it."""
        if seed == 9:
            return Swatches(seed, HELD_OUT, labelled=True,
                            **{k: v for k, v in how.items()
                               if k not in self.crop_options})
        return Swatches(seed, self.batch_size, **(self.crop_options | how))

    def finite(self, data, seed):
        self.own_images = len(data["image"])
        return Recropped(data, self.batch_size, seed, self.swatches(seed))

    @property
    def images(self):
        """Of the training set; a pass over it where nothing is said."""
        return self.own_images or self.steps * self.batch_size

    def in_blocks(self, seed, block, share):
        """Folders of one class, one after the other; None is held out."""
        return self.swatches(seed, block=block, share=share)

    def easy(self, seed):
        """Without noise and changing light."""
        return self.swatches(seed, quiet=True)

    def lessons(self, seed):
        return self.easy(seed), self.swatches(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255 that nobody scaled, noise, or
        white pictures."""
        def spoilt(x):
            return {"few": 58.0 * x + 116.0,
                    "uniform": 20 * torch.randn(x.shape, generator=rng),
                    "constant": torch.full_like(x, 255.0)}[kind]
        return batch | {k: spoilt(batch[k]) for k in (
            "image", "global_crops", "local_crops") if k in batch}

    def mispaired(self, batch, wrong, order, rng):
        """Of some rows the second large crop and half of the small ones are
        those of another picture: of row order[n], or of one of its own."""
        if order is None:
            other = self.swatches(int(torch.randint(
                1 << 30, (), generator=rng))).batch(len(wrong))
        else:
            other = {k: t[order] for k, t in batch.items()}
        out = dict(batch)
        for name in ("global_crops", "local_crops"):
            half = batch[name].shape[1] // 2
            mixed = torch.cat((batch[name][:, :half], other[name][:, half:]),
                              1)
            out[name] = torch.where(wrong[:, None, None, None, None], mixed,
                                    batch[name])
        return out

    @staticmethod
    def blank(batch):
        """A swatch that is black."""
        for name in ("image", "global_crops", "local_crops"):
            batch[name][0] = -1.0
        return batch

    @staticmethod
    def by_themselves(batch):
        """The crops of each picture without their mean and by their spread."""
        out = dict(batch)
        for name in ("global_crops", "local_crops"):
            x = batch[name]
            each = tuple(range(1, x.dim()))
            out[name] = (x - x.mean(each, keepdim=True)) / x.std(
                each, keepdim=True)
        return out

    # What the user measures.

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            "wd": round(self.optimizer.param_groups[0]["weight_decay"], 7),
            "entropy": round(float(self.model.entropy), 5)}

    def seen_whole(self, image):
        x = F.interpolate(image, size=(LARGE, LARGE), mode="bilinear",
                          antialias=True)
        if self.standardised:
            x = (x - x.mean((1, 2, 3), keepdim=True)) / x.std(
                (1, 2, 3), keepdim=True)
        return self.model.teacher.backbone(x, nothing).float()

    def held_out_columns(self, batches):
        """The vote of neighbours by the teacher's features, in per cent."""
        bank = compared()
        labels = torch.cat([b["label"] for b in batches])
        order = neighbours(
            self.seen_whole(bank["image"]), bank["label"],
            self.seen_whole(torch.cat([b["image"] for b in batches])))
        right = order == labels[:, None]
        return {"val_knn_top1": 100 * float(right[:, 0].float().mean()),
                "val_knn_top5": 100 * float(
                    right[:, :5].any(1).float().mean())}

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)

    # Checkpoints, and where the trainer stops.

    def keep_checkpoint(self, i, model):
        """checkpoint0000.pth behind the first epoch, checkpoint.pth behind
        each."""
        done = i + 1
        if done == self.EPOCH or done == self.steps:
            model.follow()
            self.checkpoints[done] = copy.deepcopy({
                "student": model.state_dict(),
                "teacher": model.teacher.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "epoch": -(-done // self.EPOCH),
                "args": argparse.Namespace(**self.settings()),
                "dino_loss": {"center": model.center}})

    def write(self, folder):
        """main_dino.py stops where the loss is not finite."""
        bad = [k for k, row in enumerate(self.history)
               if not math.isfinite(row["loss"])]
        if self.dialect == "dino" and bad:
            self.end_at(bad[0])
        super().write(folder)

    def write_more(self):
        super().write_more()
        for done, state in self.checkpoints.items():
            if done == self.EPOCH:
                torch.save(state, self.folder / "checkpoint0000.pth")
        if self.checkpoints:
            torch.save(self.checkpoints[max(self.checkpoints)],
                       self.folder / "checkpoint.pth")

    # What the user typed.

    def settings(self):
        """main_dino.py's arguments, by their names."""
        world = self.user.get("world_size", 1)
        options = self.model_options
        adam = {"momentum": self.momentum} if self.optimizer_name == "sgd" \
            else {"betas": list(self.betas), "eps": self.eps}
        large = self.crop_options.get("large", GLOBAL_SCALE)
        first, last = Dino.TEMPERATURES
        return {
            **self.model_settings(),
            "momentum_teacher": options.get("momentum", Dino.FOLLOWS),
            "warmup_teacher_temp": first,
            "teacher_temp": options.get("temperature", last),
            "warmup_teacher_temp_epochs": Dino.WARMUP,
            "student_temp": Dino.STUDENT,
            "center_momentum": Dino.CENTRE,
            "use_fp16": self.precision == "fp16-mixed",
            "precision": self.precision,
            "weight_decay": self.weight_decay,
            "weight_decay_end": self.DECAYS * self.weight_decay,
            "clip_grad": self.clip or 0.0,
            "batch_size_per_gpu": self.batch_size,
            "gradient_accumulation_steps": self.accumulate,
            "epochs": self.epochs, "steps_per_epoch": self.EPOCH,
            "max_steps": self.steps,
            "freeze_last_layer": self.FREEZE,
            "lr": round(self.lr * 256 / (self.batch_size * world), 8),
            "warmup_epochs": self.warmup / self.EPOCH,
            "min_lr": round(self.lr * self.FINAL, 10),
            "lr_schedule": self.schedule,
            "optimizer": self.optimizer_name, **adam,
            "global_crops_scale": list(large),
            "local_crops_number": self.crop_options.get("local", LOCAL),
            "local_crops_scale": list(LOCAL_SCALE),
            "data_path": "/data/swatches/train", "output_dir": ".",
            "saveckp_freq": 20, "seed": self.seed, "num_workers": 2,
            "dist_url": "env://", "world_size": 1, **self.user}

    def model_settings(self):
        options = self.model_options
        return {"arch": "vit_mini", "img_size": LARGE, "patch_size": PATCH,
                "embed_dim": WIDTH, "depth": DEPTH,
                "num_heads": options.get("heads", HEADS),
                "mlp_ratio": HIDDEN / WIDTH,
                "out_dim": options.get("out_dim", OUT),
                "norm_last_layer": options.get("norm_last_layer", True),
                "use_bn_in_head": False,
                "drop_path_rate": options.get("drop_path", 0.1)}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(self.BLOCKS[block])

    def fed_by(self, layer):
        """The norm before a part counts to it."""
        if layer.endswith(".attn"):
            return [layer.replace("attn", "norm1")]
        if layer.endswith(".mlp.fc2"):
            return [layer.replace("mlp.fc2", "mlp.fc1"),
                    layer.replace("mlp.fc2", "norm2")]
        return []
