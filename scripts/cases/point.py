"""A small PointNet++ that says of each point of a cloud which part it is of.

Parts are named as in OpenPCDet, and so are the columns, the settings and the
checkpoints; its Adam goes through one cycle, in which the rate rises and falls
and the first beta falls and rises. A cloud is one thing with clutter around it
that nobody has annotated. Set abstraction takes some of the points as centres
and the largest value of their neighbours; propagation hands what the centres
know back to the points.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family

ROWS, POINTS, CHANNELS = 16, 96, 4
SHAPES, CLASSES, UNKNOWN = 4, 10, -1    # of a point that nobody has annotated
NAMES = ("mug_body", "mug_handle", "table_top", "table_leg", "lamp_base",
         "lamp_pole", "lamp_shade", "rocket_body", "rocket_nose", "rocket_fin")
# Of each shape: its first part, and how often its points are of each.
FIRST = torch.tensor((0, 2, 4, 7, 10))
SHARES = torch.tensor(((0.75, 0.25, 0.0), (0.6, 0.4, 0.0), (0.25, 0.25, 0.5),
                       (0.45, 0.2, 0.35)))


def ring(angle, radius, z):
    """Points around the vertical axis."""
    return torch.stack((radius * angle.cos(), radius * angle.sin(), z), -1)


class Clouds:
    """Points on the surfaces of things, and which part each is of.

    A thing is a mug, a table, a lamp or a rocket of two or three parts, ten in
    all: cylinders, cones, disks, plates, a torus. Its width and its height are
    .7 to 1.3 of the usual, it stands upright, turned anyhow, and .15 of the 96
    points are clutter in the space around it, of class -1. Coordinates have
    noise of .02; a fourth number, the intensity, is one of the part (a spread
    of 1) under noise of 1. Annotators took .06 of the points for another part
    of the same thing. A batch has as many things of each shape, as resampling
    by class sees to it: norms of batches depend on it.

    Who knows the process is left with .25 nats at least, as parts meet and
    clutter lies among them; who knows how frequent parts are, with 2.2. A
    fresh model has ln 10 = 2.30.

    block, share: things of one shape, one shape after the other. calm: without
    noise, clutter and errors, and never turned. domains: one of three sensors
    for each cloud, the second with half of the intensity, the third with thrice
    the noise. clutter: the share of it.
    """

    WRONG, NOISE, SENSORS = 0.06, 0.02, 3

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, calm=False,
                 domains=False, clutter=0.15):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.points, self.clutter = rows, POINTS, clutter
        self.block, self.share, self.number = block, share, 0
        self.calm, self.domains = calm, domains
        # Materials are the same for all seeds; the seed picks the sample.
        world = torch.Generator().manual_seed(71)
        self.hint = torch.randn(CLASSES, generator=world)

    def rand(self, *shape):
        return torch.rand(shape, generator=self.rng)

    def shapes(self, rows):
        shape = torch.randperm(rows, generator=self.rng) % SHAPES
        if self.block:
            here = self.number // self.block % SHAPES
            kept = self.rand(rows) < self.share
            shape = torch.where(kept, torch.tensor(here), shape)
        self.number += 1
        return shape

    def surfaces(self, rows):
        """A point on each part, (parts, rows, points, 3)."""
        u, v, w = self.rand(3, rows, self.points)
        wide, high = 0.7 + 0.6 * self.rand(2, rows, 1)
        turn, half = 2 * math.pi * u, math.pi * (u - 0.5)
        corner = (4 * u).long()
        fin = (3 * u).long() * (2 * math.pi / 3)
        bar = 0.07 * wide
        tube = 2 * math.pi * w
        grip = 0.5 * wide + 0.35 * half.cos() + bar * tube.cos()
        return torch.stack((
            ring(turn, 0.5 * wide, high * (1.2 * v - 0.6)),
            torch.stack((grip, bar * tube.sin(), 0.4 * high * half.sin()), -1),
            torch.stack((0.8 * wide * (2 * v - 1), 0.8 * wide * (2 * w - 1),
                         (0.5 * high).expand_as(u)), -1),
            torch.stack((0.7 * wide * (2 * (corner % 2) - 1),
                         0.7 * wide * (2 * (corner // 2) - 1),
                         high * (1.2 * v - 0.7)), -1),
            ring(turn, 0.4 * wide * w.sqrt(), (-0.8 * high).expand_as(u)),
            ring(turn, 0.03 + 0 * u, high * (1.1 * v - 0.8)),
            ring(turn, wide * (0.6 - 0.3 * v), high * (0.3 + 0.6 * v)),
            ring(turn, 0.25 * wide, high * (v - 0.6)),
            ring(turn, 0.25 * wide * (1 - v), high * (0.4 + 0.5 * v)),
            ring(fin, wide * (0.25 + 0.35 * w),
                 high * (-0.6 + 0.4 * v * (1 - w)))))

    def turned(self, xyz):
        angle = 2 * math.pi * self.rand(len(xyz), 1)
        x, y, z = xyz.unbind(-1)
        return torch.stack((x * angle.cos() - y * angle.sin(),
                            x * angle.sin() + y * angle.cos(), z), -1)

    def batch(self, rows=None):
        rows, rng, count = rows or self.rows, self.rng, self.points
        shape = self.shapes(rows)
        part = FIRST[shape][:, None] + torch.multinomial(
            SHARES[shape], count, True, generator=rng)
        xyz = self.surfaces(rows).gather(0, part[None, ..., None].expand(
            -1, -1, -1, 3))[0]
        told = part
        intensity = self.hint[part]
        if not self.calm:
            xyz = self.turned(xyz)
            xyz = xyz + self.NOISE * torch.randn(xyz.shape, generator=rng)
            stray = self.rand(rows, count) < self.clutter
            xyz = torch.where(stray[..., None],
                              2 * self.rand(rows, count, 3) - 1, xyz)
            size = (FIRST[shape + 1] - FIRST[shape])[:, None]
            other = 1 + (self.rand(rows, count) * (size - 1)).long()
            wrong = self.rand(rows, count) < self.WRONG
            first = FIRST[shape][:, None]
            told = torch.where(wrong, first + (part - first + other) % size,
                               part)
            told = told.masked_fill(stray, UNKNOWN)
            intensity = intensity.masked_fill(stray, 0.0)
        intensity = intensity + torch.randn(part.shape, generator=rng)
        batch = {"points": torch.cat((xyz, intensity[..., None]), -1),
                 "point_part_labels": told}
        return self.sensed(batch) if self.domains else batch

    def sensed(self, batch):
        """As three kinds of sensors see it."""
        rows = len(batch["points"])
        domain = torch.randint(self.SENSORS, (rows,), generator=self.rng)
        points = batch["points"].clone()
        points[domain == 1, :, 3] *= 0.5
        blur = 3 * self.NOISE * torch.randn(points.shape, generator=self.rng)
        points[..., :3] += blur[..., :3] * (domain == 2)[:, None, None]
        return batch | {"points": points, "domain": domain}


class FewClouds(sources.Finite):
    """A set of some things, of which a batch has as many of each shape."""

    def __init__(self, data, rows, seed):
        super().__init__(data, rows, seed)
        part = data["point_part_labels"].amax(1)
        shape = (part[:, None] >= FIRST[1:-1]).sum(1)
        self.groups = [(shape == k).nonzero()[:, 0] for k in shape.unique()]
        self.orders = [[] for _ in self.groups]

    def batch(self, rows=None):
        picked = []
        for n in range(rows or self.rows):
            k = n % len(self.groups)
            if not self.orders[k]:
                order = torch.randperm(len(self.groups[k]), generator=self.rng)
                self.orders[k] = self.groups[k][order].tolist()
            picked.append(self.orders[k].pop())
        return {k: t[picked].clone() for k, t in self.data.items()}


def picked(x, index):
    """(rows, some, width) of (rows, points, width), or with one dimension
    more where the indices have one."""
    rows = torch.arange(len(x)).view(-1, *[1] * (index.dim() - 1))
    return x[rows, index]


@torch.no_grad()
def farthest(xyz, count):
    """Indices of points of which each is as far as can be from those before."""
    rows = torch.arange(len(xyz))
    chosen = [torch.zeros(len(xyz), dtype=torch.int64)]
    away = torch.full(xyz.shape[:2], torch.inf)
    for _ in range(count - 1):
        last = xyz[rows, chosen[-1]][:, None]
        away = torch.minimum(away, (xyz - last).square().sum(-1))
        chosen.append(away.argmax(-1))
    return torch.stack(chosen, 1)


@torch.no_grad()
def near(centres, xyz, count, radius):
    """Indices of the points in a ball around each centre; the nearest one
    again where there are fewer."""
    away, index = torch.cdist(centres, xyz).topk(count, largest=False)
    return torch.where(away <= radius, index, index[..., :1])


def shared_mlp(widths, options):
    """Two convolutions over single places, each with a norm and an
    activation; children 0 to 5."""
    parts = []
    for a, b in zip(widths, widths[1:]):
        parts += [nn.Conv2d(a, b, 1, bias=False),
                  nn.BatchNorm2d(b, momentum=options["bn_momentum"]),
                  models.ACTIVATIONS[options["activation"]]()]
    return nn.Sequential(*parts)


class Module(nn.Module):
    """Base: runs a shared MLP and lets the recorder see what is in it."""

    def through(self, mlp, x, name, tap):
        x = x.to(mlp[0].weight.dtype)
        tap(f"{name}.0.input", x)
        for k in (0, 3):
            conv, norm, act = mlp[k:k + 3]
            y = conv(x)
            if self.half_at == f"{name}.{k}":
                y = y.half()
            tap(f"{name}.{k}.output", y)
            y = norm(y.to(x.dtype))
            tap(f"{name}.{k + 2}.input", y)
            x = act(y)
            tap(f"{name}.{k + 2}.output", x)
        return x


class SetAbstraction(Module):
    """Centres, and the largest of what their neighbours say."""

    def __init__(self, count, radius, samples, widths, options):
        super().__init__()
        self.count, self.radius, self.samples = count, radius, samples
        self.half_at = options["half_at"]
        self.mlps = nn.ModuleList([shared_mlp(
            (widths[0] + 3, *widths[1:]), options)])

    def forward(self, xyz, features, name, tap):
        centres = picked(xyz, farthest(xyz, self.count))
        index = near(centres, xyz, self.samples, self.radius)
        around = picked(xyz, index) - centres[:, :, None]
        x = torch.cat((around, picked(features, index).float()), -1)
        x = self.through(self.mlps[0], x.permute(0, 3, 1, 2),
                         f"{name}.mlps.0", tap)
        x = x.amax(-1).transpose(1, 2)
        tap(f"{name}.output", x)
        return centres, x


class Propagation(Module):
    """What the three nearest centres know, beside what a point has."""

    def __init__(self, widths, options):
        super().__init__()
        self.half_at = options["half_at"]
        self.mlp = shared_mlp(widths, options)

    def forward(self, xyz, features, centres, known, name, tap):
        away, index = torch.cdist(xyz, centres).topk(3, largest=False)
        weight = 1 / (away + 1e-8)
        weight = weight / weight.sum(-1, keepdim=True)
        handed = (picked(known, index).float() * weight[..., None]).sum(2)
        x = torch.cat((handed, features.float()), -1)
        x = self.through(self.mlp, x.transpose(1, 2)[..., None],
                         f"{name}.mlp", tap)
        x = x[..., 0].transpose(1, 2)
        tap(f"{name}.output", x)
        return x


class PointNet2(nn.Module):
    """Of 96 points 24 centres, of these 8, and back."""

    BLOCKS = ("backbone_3d.SA_modules.0", "backbone_3d.SA_modules.1",
              "backbone_3d.FP_modules.1", "backbone_3d.FP_modules.0")
    HEAD = "point_head.cls_layers"

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None, bn_momentum=0.1, class_weights=None):
        """detach_after: the part behind which the graph is cut.
        class_weights: of the loss, none if None."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.guards, self.counts_unknown, self.squashes = True, False, False
        options = {"activation": activation, "half_at": half_at,
                   "bn_momentum": bn_momentum}
        self.backbone_3d = models.Group(
            SA_modules=nn.ModuleList((
                SetAbstraction(24, 0.5, 10, (1, 24, 40), options),
                SetAbstraction(8, 1.0, 8, (40, 56, 96), options))),
            FP_modules=nn.ModuleList((
                Propagation((64 + 1, 56, 48), options),
                Propagation((96 + 40, 80, 64), options))))
        self.point_head = models.Group(cls_layers=nn.Sequential(
            nn.Linear(48, 48, bias=False),
            nn.BatchNorm1d(48, momentum=bn_momentum), nn.ReLU(),
            nn.Linear(48, CLASSES)))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight)
        nn.init.normal_(self.point_head.cls_layers[3].weight, std=0.01)
        self.register_buffer(
            "class_weights", None if class_weights is None
            else torch.tensor(class_weights), persistent=False)
        self.said = None    # the last parts of training, for the accuracy

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def forward(self, points):
        xyz, features = points[..., :3].contiguous(), points[..., 3:]
        levels = [(xyz, features)]
        modules = self.backbone_3d
        for name, module in zip(self.BLOCKS, modules.SA_modules):
            xyz, x = module(*levels[-1], name, self.tap)
            levels.append((xyz, self.cut(x, name)))
        centres, x = levels.pop()
        for name, module in zip(self.BLOCKS[2:],
                                reversed(modules.FP_modules)):
            xyz, features = levels.pop()
            x = self.cut(module(xyz, features, centres, x, name, self.tap),
                         name)
            centres = xyz
        x = self.head(x)
        if self.training:
            self.said = x.detach().argmax(-1)
        return x

    def head(self, x):
        first, norm, act, last = self.point_head.cls_layers
        x = first(x)
        self.tap(f"{self.HEAD}.0.output", x)
        x = act(norm(x.flatten(0, 1)).view_as(x))
        x = F.dropout(x, self.dropout, self.training and self.dropout > 0)
        x = last(x)
        self.tap(f"{self.HEAD}.3.output", x)
        return x

    def logits(self, batch):
        """(rows, points, parts)."""
        return self(batch["points"])

    def criterion(self, logits, batch, smoothing=0.0):
        """Cross-entropy of the points that are annotated."""
        logits = logits.float().flatten(0, 1)
        labels = batch["point_part_labels"].flatten()
        if self.squashes:
            logits = logits.softmax(-1)
        if self.counts_unknown:
            labels = labels.clamp_min(0)
        weight = self.class_weights
        each = F.cross_entropy(logits, labels, weight, ignore_index=UNKNOWN,
                               reduction="sum", label_smoothing=smoothing)
        seen = labels != UNKNOWN
        count = seen.sum() if weight is None else weight[labels[seen]].sum()
        return each / (count.clamp_min(1) if self.guards else count)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class OneCycleAdam(torch.optim.AdamW):
    """Its first beta moves against the rate: from the first of `moms`, when
    the cycle begins and ends, to the second, when the rate is highest."""

    def __init__(self, parameters, peak, moms, low, **options):
        super().__init__(parameters, **options)
        self.peak, self.moms, self.low = peak, moms, low

    def step(self, closure=None):
        first, second = self.moms
        for group in self.param_groups:
            high = (group["lr"] / self.peak - self.low) / (1 - self.low)
            beta = first + (second - first) * min(1.0, max(0.0, high))
            group["betas"] = (beta, group["betas"][1])
        return super().step(closure)


class PointRun(Family):
    """Adam with decoupled decay through one cycle: the rate rises over .4 of
    the run to ten times its first value, and falls to nothing; gradients are
    clipped at 10."""

    family = "point"
    level_seed = 400
    EPOCH = 25              # steps: 400 clouds
    steps, seed, language, classes = 250, 720, False, CLASSES
    lr, weight_decay, betas, clip = 0.01, 0.01, (0.9, 0.99), 10.0
    warmup, schedule = 0, "onecycle"
    RISE, DIVIDED, MOMS = 0.4, 10, (0.95, 0.85)
    recipes = {"sgd": dict(lr=1.0, weight_decay=1e-4)}
    batch_size, context = ROWS, POINTS
    # Nobody trains on point clouds with the others.
    instead = {"nanogpt": "plain", "megatron": "plain", "hf_trainer": "plain",
               "torchtune": "lightning"}
    layers = [*(f"{block}.{'mlps.0' if 'SA' in block else 'mlp'}.{part}"
                for block in PointNet2.BLOCKS for part in (0, 2, 3)),
              *PointNet2.BLOCKS, f"{PointNet2.HEAD}.0", f"{PointNet2.HEAD}.3"]
    paths = {"embed": "backbone_3d.SA_modules.0.mlps.0.0", "attn": None,
             "scores": None, "act": "{}.2", "mlp": "{}.3", "block": "{}",
             "head": f"{PointNet2.HEAD}.3"}
    always_trained = ("point_head",)
    blocks = len(PointNet2.BLOCKS)
    names = {"loss": "train/loss", "val_loss": "eval/loss",
             "accuracy": "train/point_acc", "val_accuracy": "eval/point_acc",
             "val_iou": "eval/mIoU", "point_pos_num": "train/point_pos_num",
             "grad_norm": "train/grad_norm", "lr": "meta_data/learning_rate",
             "step_time": "meta_data/batch_time",
             "data_time": "meta_data/data_time", "tokens": None}

    def make_model(self):
        return PointNet2(**self.model_options)

    def make_optimizer(self, model):
        if self.moments != "adamw" or self.schedule != "onecycle":
            return super().make_optimizer(model)
        trained = [p for p in model.parameters() if p.requires_grad]
        return OneCycleAdam(trained, self.lr, self.MOMS, 1 / self.DIVIDED,
                            lr=self.lr, betas=self.betas, eps=self.eps,
                            weight_decay=self.weight_decay)

    def lr_factor(self, i):
        if self.schedule != "onecycle":
            return super().lr_factor(i)
        rise = int(self.RISE * self.steps)
        low = 1 / self.DIVIDED
        if i < rise:
            return low + (1 - low) * 0.5 * (1 - math.cos(math.pi * i / rise))
        done = (i - rise) / (self.steps - rise)
        low = low / 1e4
        return low + (1 - low) * 0.5 * (1 + math.cos(math.pi * done))

    def make_source(self, seed):
        return self.clouds(seed)

    def clouds(self, seed, **how):
        return Clouds(seed, self.batch_size, **how)

    def finite(self, data, seed):
        return FewClouds(data, self.batch_size, seed)

    def in_blocks(self, seed, block, share):
        """Things of one shape, one shape after the other; None is held out."""
        return self.clouds(seed, block=block, share=share)

    def easy(self, seed):
        """Clean scans of things that all stand alike."""
        return self.clouds(seed, calm=True)

    def lessons(self, seed):
        return self.easy(seed), self.clouds(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: clouds in millimetres under the labels of others,
        noise under labels of noise, or all points at one place."""
        points, labels = batch["points"], batch["point_part_labels"]
        if kind == "few":
            scale = torch.tensor((1000.0, 1000.0, 1000.0, 1.0))
            return {"points": points * scale,
                    "point_part_labels": labels.roll(5, 0)}
        if kind == "uniform":
            return {"points": 20 * torch.randn(points.shape, generator=rng),
                    "point_part_labels": torch.randint(
                        CLASSES, labels.shape, generator=rng)}
        return {"points": torch.full_like(points, 255.0),
                "point_part_labels": torch.full_like(labels, CLASSES - 1)}

    def batch_columns(self, batch):
        labels = batch["point_part_labels"]
        kept = labels != UNKNOWN
        row = super().batch_columns(batch) | {"point_pos_num": int(kept.sum())}
        if kept.any():
            right = (self.model.said == labels)[kept].float().mean()
            row["accuracy"] = round(float(right), 4)
        return row

    def held_out_columns(self, batches):
        """Points that are right, and the mean over parts of what is common to
        the points of a part and those called so, of both."""
        self.model.eval()
        said = torch.cat([self.model.logits(b).argmax(-1) for b in batches])
        self.model.train()
        labels = torch.cat([b["point_part_labels"] for b in batches])
        kept = labels != UNKNOWN
        if not kept.any():
            return {}
        each = []
        for k in range(CLASSES):
            a, b = (said == k) & kept, (labels == k) & kept
            if (a | b).any():
                each.append((a & b).sum() / (a | b).sum())
        return {"val_accuracy": (said == labels)[kept].float().mean(),
                "val_iou": sum(each) / len(each)}

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)

    def settings(self):
        """config: what OpenPCDet's experiment file has, as it calls it."""
        cycle = self.schedule == "onecycle" and self.moments == "adamw"
        optimization = {
            "BATCH_SIZE_PER_GPU": self.batch_size, "NUM_EPOCHS": self.epochs,
            "OPTIMIZER": "adam_onecycle" if cycle else self.optimizer_name,
            "LR": self.lr, "WEIGHT_DECAY": self.weight_decay}
        if self.optimizer_name == "sgd":
            optimization["MOMENTUM"] = self.momentum
        else:
            optimization |= {"BETAS": list(self.betas), "EPS": self.eps}
        if cycle:
            optimization["MOMS"] = list(self.MOMS)
        if self.schedule == "onecycle":
            optimization |= {"PCT_START": self.RISE,
                             "DIV_FACTOR": self.DIVIDED}
        optimization |= {"LR_SCHEDULER": self.schedule, "LR_WARMUP": False,
                         "GRAD_NORM_CLIP": self.clip,
                         "GRADIENT_ACCUMULATION_STEPS": self.accumulate}
        return {"CLASS_NAMES": list(NAMES), **self.model_settings(),
                "OPTIMIZATION": optimization, "precision": self.precision,
                "seed": self.seed, "world_size": 1, **self.user}

    def model_settings(self):
        return {"DATA_CONFIG": {"DATASET": "PartDataset",
                                "NUM_POINTS": POINTS,
                                "NUM_POINT_FEATURES": CHANNELS,
                                "IGNORE_LABEL": UNKNOWN,
                                "BALANCED_RESAMPLING": True},
                "MODEL": {"NAME": "PointNet2", "BACKBONE_3D": {
                    "NAME": "PointNet2Backbone", "NPOINTS": [24, 8],
                    "RADIUS": [0.5, 1.0], "NSAMPLE": [10, 8],
                    "SA_MLPS": [[24, 40], [56, 96]],
                    "FP_MLPS": [[56, 48], [80, 64]]},
                    "POINT_HEAD": {"NAME": "PointSegHead", "CLS_FC": [48],
                                   "LOSS": "CrossEntropyLoss",
                                   "DP_RATIO": self.model_options.get(
                                       "dropout", 0.0)}}}

    def layer(self, part, block=0):
        block = PointNet2.BLOCKS[block]
        if part in ("act", "mlp"):
            block += ".mlps.0" if "SA" in block else ".mlp"
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        """The norm behind a map counts to it; a block has all."""
        if layer.endswith((".mlps.0.0", ".mlp.0", ".mlp.3", ".mlps.0.3",
                           "cls_layers.0")):
            return [f"{layer[:-1]}{int(layer[-1]) + 1}"]
        return []

    # Checkpoints.

    @staticmethod
    def checkpoint_path(epoch):
        return f"ckpt/checkpoint_epoch_{epoch}.pth"

    def keep_checkpoint(self, i, model):
        """After the epoch that is half-way, at the end of the run, and where a
        job ends that is resumed."""
        done = i + 1
        if done in (max(1, self.epochs // 2) * self.EPOCH, self.steps,
                    *self.notices):
            self.checkpoints[-(-done // self.EPOCH)] = copy.deepcopy({
                "it": done, "model_state": model.state_dict(),
                "optimizer_state": self.optimizer.state_dict(),
                "version": "pcdet+0.6.0"})

    def write_more(self):
        super().write_more()
        (self.folder / "ckpt").mkdir()
        for epoch, state in self.checkpoints.items():
            torch.save({"epoch": epoch} | state,
                       self.folder / self.checkpoint_path(epoch))
