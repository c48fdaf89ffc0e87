"""What somebody does, from a skeleton of joints, as PySKL trains ST-GCN.

The trainer is tools/train.py of PySKL with configs/stgcn: keypoints of 2D
poses, of up to two people over a clip of frames, go through a batch norm of
joints times channels and blocks of a convolution over the graph, whose
adjacency is trained (gcn_adaptive 'init'), and one over time; means over
places and people go into a linear head. SGD with Nesterov's momentum, and a
cosine that moves with each step. Names of parameters, keys, lines and files
are the trainer's, on mmcv 1.x; there are four blocks of 16 and 32 channels
where it has ten of 64 to 256.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import EpochFamily
from .recorder import START

FRAMES, ROWS, HELD, PEOPLE = 16, 20, 40, 2
JOINTS, CHANNELS, BASE, KERNEL = 17, 3, 16, 9
STRIDES, WIDTHS = (1, 2, 2, 1), (16, 16, 32, 32)
ACTIONS = ("wave", "drink", "punch", "clap", "raise arms", "kick", "squat",
           "bow", "walk", "jump")
CLASSES, VIEWS, DUMPED = len(ACTIONS), 3, 8
WORK = "work_dirs/stgcn/stgcn_pyskl_daily10_hrnet/j"
# COCO's, from a joint to the one that is nearer to the middle.
BONES = ((15, 13), (13, 11), (16, 14), (14, 12), (11, 5), (12, 6), (9, 7),
         (7, 5), (10, 8), (8, 6), (5, 0), (6, 0), (1, 0), (3, 1), (2, 0),
         (4, 2))
LEFT, RIGHT = (1, 3, 5, 7, 9, 11, 13, 15), (2, 4, 6, 8, 10, 12, 14, 16)


def adjacency():
    """[3, joints, joints] of the mode 'stgcn_spatial': a joint itself, what is
    nearer to the middle, and what is further from it; columns sum to 1."""
    way = torch.zeros(JOINTS, JOINTS)
    for far, near in BONES:
        way[near, far] = 1.0

    def normed(part):
        return part / part.sum(0, keepdim=True).clamp_min(1.0)
    return torch.stack((torch.eye(JOINTS), normed(way), normed(way.T)))


class Skeletons(sources.DrawnAhead):
    """Clips of somebody who does one of ten things, as a detector of poses
    sees them: keypoint [rows, 1, people, frames, joints, 3], x and y of -1 to
    1 and a score, as PreNormalize2D and FormatGCNInput give them, and label.

    How far an action goes (.7 to 1.1 of its size), how fast, where in it the
    clip begins, with which hand or foot, what other limbs do meanwhile, how
    large and where the person is, and which way it faces before one of three
    cameras are drawn. Joints have errors, some are hidden (a low score, and a
    place far off), in .15 of the clips up to six frames have no person, and
    in .25 of them somebody else stands about, who may come first. So what
    is large and seen from the front is learned first, then what is small, or
    seen from the side, or is told by one hand from something else.

    block, share: actions one after the other, in blocks of batches. clean: in
    full size, from the front, alone, without errors. views: told apart.
    """

    SMALL, ERROR, HIDDEN, LOST, OTHERS = 0.7, 0.02, 0.04, 0.15, 0.25

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, clean=False,
                 views=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share = rows, block, share
        self.clean, self.views = clean, views
        self.number, self.ahead = 0, {}

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def kinds(self, each, rows):
        kind = torch.randint(CLASSES, (rows,), generator=self.rng)
        if self.block:
            here = (self.number + torch.arange(rows) // each) \
                // self.block % CLASSES
            kept = torch.rand(rows, generator=self.rng) < self.share
            kind = torch.where(kept, here, kind)
        return kind

    @staticmethod
    def limb(start, side, sizes, pitch, bend, spread):
        """Both joints of an arm or a leg: left, up, forward."""
        found = []
        for size, angle in zip(sizes, (pitch, pitch + bend)):
            start = start + size * torch.stack((
                side * spread.sin() * torch.ones_like(angle),
                -spread.cos() * angle.cos(), spread.cos() * angle.sin()), -1)
            found.append(start)
        return found

    def body(self, kind, moves):
        """Joints of a person, [rows, frames, 17, 3]; who does not move only
        stands about."""
        rows, free = len(kind), float(not self.clean)
        m = {name: ((kind == k) & moves).float()[:, None]
             for k, name in enumerate(ACTIONS)}
        size = self.uniform(self.SMALL, 1.1, rows, 1) if free else 1.0
        times = torch.arange(FRAMES).float()
        phase = 2 * math.pi * (self.uniform(0, 1, rows, 1) + self.uniform(
            0.07, 0.13, rows, 1) * times)
        u, s = size * (1 - phase.cos()) / 2, size * phase.sin()
        hand = (torch.rand(rows, 1, generator=self.rng) < 0.5).float()

        def idle(most):
            own = 2 * math.pi * (self.uniform(0, 1, rows, 1) + self.uniform(
                0.02, 0.08, rows, 1) * times)
            return free * (most * self.normal(rows, 1) + self.uniform(
                0, 1.2 * most, rows, 1) * own.sin())
        zero = torch.zeros_like(phase)
        lean = 0.05 + 0.9 * m["bow"] * u + 0.35 * m["squat"] * u + idle(0.03)

        def at(left, up, forward):
            return torch.stack((zero + left, zero + up, zero + forward), -1)
        chest = at(0.0, 0.5 * lean.cos(), 0.5 * lean.sin())
        nod = lean + idle(0.06)
        nose = chest + 0.22 * at(0.0, nod.cos(), nod.sin()) + at(0, 0, 0.08)
        joints = {0: nose}
        for own, other, side in ((LEFT, RIGHT, 1.0), (RIGHT, LEFT, -1.0)):
            acts = hand if side > 0 else 1 - hand
            eye, ear, shoulder, elbow, wrist, hip, knee, ankle = own
            joints[eye] = nose + at(0.035 * side, 0.035, -0.02)
            joints[ear] = nose + at(0.075 * side, 0.02, -0.09)
            joints[shoulder] = chest + at(0.17 * side, 0.0, 0.0)
            joints[elbow], joints[wrist] = self.limb(
                joints[shoulder], side, (0.28, 0.26),
                acts * (2.5 * m["wave"] + m["drink"] * (0.4 + 0.4 * u)
                        + m["punch"] * (0.3 + 1.1 * u)) + 1.1 * m["clap"]
                - 0.5 * side * m["walk"] * s - 0.5 * m["jump"] * s
                + idle(0.06),
                0.2 + acts * (0.2 * m["wave"] + 1.7 * m["drink"] * u
                              + 1.5 * m["punch"] * (1 - u))
                + 0.4 * m["clap"] + 0.2 * m["walk"] + idle(0.08).abs(),
                0.12 + acts * m["wave"] * (0.1 + 0.6 * s)
                + m["clap"] * (0.4 - 0.8 * u) + 1.8 * m["raise arms"] * u
                + idle(0.04))
            joints[hip] = at(0.11 * side, 0.0, 0.0)
            joints[knee], joints[ankle] = self.limb(
                joints[hip], side, (0.43, 0.42),
                0.45 * side * m["walk"] * s + acts * m["kick"] * 1.1 * u
                + 0.8 * m["squat"] * u + 0.35 * m["jump"] * (1 - u)
                + idle(0.03),
                -(m["walk"] * (0.3 - 0.3 * side * phase.cos())
                  + acts * m["kick"] * 0.4 * (1 - u) + 1.5 * m["squat"] * u
                  + 0.7 * m["jump"] * (1 - u) + idle(0.03).abs()),
                0.08 + zero)
        x = torch.stack([joints[k] for k in range(JOINTS)], 2)
        floor = x[:, :, 15:, 1].amin(2)  # one foot is on it
        x[..., 1] -= (floor - 0.3 * m["jump"] * s.clamp_min(0))[..., None]
        return x

    def filmed(self, x, turn, place, size):
        """x and y of a camera that looks down a little, and scores."""
        rows, free = len(x), float(not self.clean)
        cos, sin = turn.cos()[:, :, None], turn.sin()[:, :, None]
        left, up, ahead = (x - x.new_tensor((0.0, 0.85, 0.0))).unbind(-1)
        across, depth = left * cos + ahead * sin, ahead * cos - left * sin
        down = -(up * math.cos(0.15) + depth * math.sin(0.15))
        flat = torch.stack((across, down), -1) * size[:, :, None, None] \
            + place[:, :, None]
        flat = flat + free * self.ERROR * self.normal(*flat.shape) * \
            self.uniform(0.4, 1.6, rows, 1, 1, 1)
        score = self.uniform(0.7, 1.0, *flat.shape[:3])
        hidden = torch.rand(flat.shape[:3], generator=self.rng) \
            < free * self.HIDDEN
        flat = torch.where(hidden[..., None], flat
                           + 0.15 * self.normal(*flat.shape), flat)
        score = torch.where(hidden, self.uniform(0.05, 0.4, *score.shape),
                            score)
        return torch.cat((flat, score[..., None]), -1)

    def person(self, kind, moves, camera, size):
        rows, free = len(kind), float(not self.clean)
        turn = free * (0.7 * (camera - 1)[:, None]
                       + self.uniform(-0.4, 0.4, rows, 1))
        walks = (0.012 * ((kind == 8) & moves).float())[:, None] \
            * torch.arange(FRAMES)
        place = torch.stack((
            free * self.uniform(-0.15, 0.15, rows, 1) + walks * turn.sin(),
            free * self.uniform(-0.06, 0.06, rows, 1) + 0 * walks), -1)
        return self.filmed(self.body(kind, moves), turn, place, size)

    def draw(self, each):
        rows = sources.AHEAD * each
        kind = self.kinds(each, rows)
        self.number += sources.AHEAD
        camera = torch.randint(VIEWS, (rows,), generator=self.rng)
        every = torch.ones(rows, dtype=torch.bool)
        size = self.uniform(0.7, 0.9, rows, 1)
        x = self.person(kind, every, camera, size)
        if self.clean:
            x = torch.stack((x, x), 1)
        else:
            x = self.peopled(self.lost(x), kind, camera, size)
        batch = {"keypoint": x[:, None].contiguous(), "label": kind}
        if self.views:
            lens = 0.94 + 0.06 * camera
            batch["keypoint"][..., :2] *= lens[:, None, None, None, None, None]
            batch["domain"] = camera
        return batch

    def lost(self, x):
        """Frames in which nobody was found."""
        rows = len(x)
        first = torch.randint(FRAMES, (rows, 1), generator=self.rng)
        count = torch.randint(1, 7, (rows, 1), generator=self.rng)
        some = torch.rand(rows, 1, generator=self.rng) < self.LOST
        frame = torch.arange(FRAMES)
        gone = some & (frame >= first) & (frame < first + count)
        return x.masked_fill(gone[..., None, None], 0.0)

    def peopled(self, x, kind, camera, size):
        """Somebody else stands about, before or behind; where nobody does,
        the one who is there comes twice (mode 'loop')."""
        rows = len(x)
        other = self.person(kind, torch.zeros(rows, dtype=torch.bool), camera,
                            size * self.uniform(0.7, 1.1, rows, 1))
        there = torch.rand(rows, 1, 1, 1, generator=self.rng) < self.OTHERS
        other = torch.where(there, other, x)
        first = there & (torch.rand(rows, 1, 1, 1, generator=self.rng) < 0.3)
        return torch.stack((torch.where(first, other, x),
                            torch.where(first, x, other)), 1)


class unit_gcn(nn.Module):
    """A convolution of each subset's own, then the mean over neighbours."""

    def __init__(self, name, channels, out, options):
        super().__init__()
        A = adjacency()
        self.adaptive = options["gcn_adaptive"]
        if self.adaptive == "init":
            self.A = nn.Parameter(A)
        else:
            self.register_buffer("A", A)
        if self.adaptive == "offset":
            self.PA = nn.Parameter(torch.empty_like(A).uniform_(-1e-6, 1e-6))
        if self.adaptive == "importance":
            self.PA = nn.Parameter(torch.ones_like(A))
        self.bn = nn.BatchNorm2d(out)
        self.act = models.ACTIVATIONS[options["activation"]]()
        self.conv = nn.Conv2d(channels, 3 * out, 1)
        self.down = None if channels == out else nn.Sequential(
            nn.Conv2d(channels, out, 1), nn.BatchNorm2d(out))
        self.name, self.half_at = name, options["half_at"]

    def graph(self):
        return {"offset": lambda: self.A + self.PA,
                "importance": lambda: self.A * self.PA}.get(
                    self.adaptive, lambda: self.A)()

    def forward(self, x, tap):
        name = self.name
        tap(f"{name}.conv.input", x)
        y = self.conv(x)
        if self.half_at == f"{name}.conv":
            y = y.half()
        tap(f"{name}.conv.output", y)
        rows, _, frames, joints = x.shape
        y = y.to(x.dtype).view(rows, 3, -1, frames, joints)
        y = torch.einsum("nkctv,kvw->nctw", y, self.graph().to(y.dtype))
        y = self.bn(y) + (x if self.down is None else self.down(x))
        tap(f"{name}.act.input", y)
        y = self.act(y)
        tap(f"{name}.act.output", y)
        return y


class unit_tcn(nn.Module):
    """A convolution over frames, of each joint for itself."""

    def __init__(self, channels, out, kernel, stride):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, (kernel, 1), (stride, 1),
                              ((kernel - 1) // 2, 0))
        self.bn = nn.BatchNorm2d(out)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out")
        nn.init.zeros_(self.conv.bias)

    def forward(self, x):
        return self.bn(self.conv(x))


class STGCNBlock(nn.Module):
    """Over the graph, then over time, and what goes past both."""

    def __init__(self, k, channels, out, stride, options):
        super().__init__()
        self.name = f"backbone.gcn.{k}"
        self.gcn = unit_gcn(f"{self.name}.gcn", channels, out, options)
        self.tcn = unit_tcn(out, out, options["kernel"], stride)
        self.relu = nn.ReLU()
        self.first = k == 0     # nothing goes past it
        self.residual = None if self.first or (
            channels == out and stride == 1) else unit_tcn(
                channels, out, 1, stride)
        self.half_at = options["half_at"]

    def forward(self, x, tap):
        past = 0 if self.first else x if self.residual is None \
            else self.residual(x)
        y = self.gcn(x, tap)
        name = f"{self.name}.tcn.conv"
        tap(f"{name}.input", y)
        y = self.tcn.conv(y)
        tap(f"{name}.output", y)
        y = self.relu(self.tcn.bn(y) + past)
        tap(f"{self.name}.output", y)
        return y


class STGCN(nn.Module):
    """data_bn and the blocks."""

    def __init__(self, options):
        super().__init__()
        self.kind = options["data_bn_type"]
        self.data_bn = nn.BatchNorm1d(CHANNELS * JOINTS * (
            PEOPLE if self.kind == "MVC" else 1))
        wide, blocks = CHANNELS, []
        for k, (out, stride) in enumerate(zip(WIDTHS, STRIDES)):
            blocks.append(STGCNBlock(k, wide, out, stride, options))
            wide = out
        self.gcn = nn.ModuleList(blocks)
        self.cuts = options["detach_after"]

    def cut(self, x, name):
        return x.detach() if self.cuts == f"backbone.{name}" else x

    def forward(self, x, tap):
        """[rows * people, width, frames, joints] of [rows, people, frames,
        joints, channels]."""
        n, m, t, v, c = x.shape
        x = x.permute(0, 1, 3, 4, 2).contiguous()
        x = self.data_bn(x.view(n, m * v * c, t) if self.kind == "MVC"
                         else x.view(n * m, v * c, t))
        tap("backbone.data_bn.output", x)
        x = self.cut(x, "data_bn")
        x = x.view(n * m, v, c, t).permute(0, 2, 3, 1).contiguous()
        for k, block in enumerate(self.gcn):
            x = self.cut(block(x, tap), f"gcn.{k}")
        return x


class GCNHead(nn.Module):
    """Means over places and people, and a linear map."""

    def __init__(self, dropout):
        super().__init__()
        self.fc_cls = nn.Linear(WIDTHS[-1], CLASSES)
        self.dropout = dropout
        nn.init.normal_(self.fc_cls.weight, std=0.01)
        nn.init.zeros_(self.fc_cls.bias)

    def forward(self, x, rows, tap):
        x = x.mean((2, 3)).view(rows, -1, x.shape[1]).mean(1)
        tap("cls_head.pool.output", x)
        x = self.fc_cls(F.dropout(x, self.dropout,
                                  self.training and self.dropout > 0))
        tap("cls_head.fc_cls.output", x)
        return x


class RecognizerGCN(nn.Module):
    """squashes: the loss makes probabilities of what gets a softmax. weights:
    what classes count in training."""

    BLOCKS = tuple(f"backbone.gcn.{k}" for k in range(len(WIDTHS)))

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None, gcn_adaptive="init", data_bn_type="VC",
                 kernel=KERNEL):
        super().__init__()
        self.backbone = STGCN({
            "activation": activation, "detach_after": detach_after,
            "half_at": half_at, "gcn_adaptive": gcn_adaptive,
            "data_bn_type": data_bn_type, "kernel": kernel})
        self.cls_head = GCNHead(dropout)
        self.squashes, self.weights, self.said = False, None, None

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def logits(self, batch):
        x = batch["keypoint"][:, 0].to(self.cls_head.fc_cls.weight.dtype)
        x = self.cls_head(self.backbone(x, self.tap), len(x), self.tap)
        if self.training:
            self.said = x.detach()
        return x

    def criterion(self, logits, batch, label_smoothing=0.0):
        logits = logits.float()
        if self.squashes:
            logits = logits.softmax(-1)
        weight = None if self.weights is None or not self.training \
            else logits.new_tensor(self.weights)
        return F.cross_entropy(logits, batch["label"], weight,
                               label_smoothing=label_smoothing)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


# What feeds the activations between graph and time.
BEFORE_ACT = tuple(f"{block}.gcn.bn" for block in RecognizerGCN.BLOCKS)


def shares(said, label):
    """top1_acc, top5_acc and mean_class_accuracy."""
    found = said.float().nan_to_num(-9e9).topk(5, -1).indices == label[:, None]
    right = found[:, 0].float()
    seen = label.bincount(minlength=CLASSES)
    each = torch.zeros(CLASSES).index_add_(0, label, right) \
        / seen.clamp_min(1)
    return (float(right.mean()), float(found.any(-1).float().mean()),
            float(each[seen > 0].mean()))


class StgcnRun(EpochFamily):
    """SGD with Nesterov's momentum, ten steps of warm-up, as lr_config has it,
    and a cosine to 0 by steps, from .15; norms above 40 are clipped, as in
    PoseC3D's configs, so that they are logged."""

    family = "stgcn"
    level_seed = 400
    steps, seed, language, classes = 120, 4500, False, CLASSES
    optimizer_name, lr, momentum, weight_decay = "sgd", 0.15, 0.9, 5e-4
    recipes = {"adamw": dict(lr=0.015, weight_decay=0.01)}
    warmup, schedule, clip = 10, "cosine", 40.0
    EPOCH = epoch_steps = 30        # of the trainer, of Lightning
    WORK = WORK
    KEPT = 2                        # epochs between two checkpoints
    batch_size, context = ROWS, FRAMES * JOINTS
    base = {"lr": 0.01}
    # Its users have the trainer's own log.
    instead = {"nanogpt": "pyskl", "hf_trainer": "pyskl",
               "megatron": "pyskl", "torchtune": "pyskl"}
    layers = ["backbone.data_bn", *(
        f"{block}{part}" for block in RecognizerGCN.BLOCKS
        for part in (".gcn.conv", ".gcn.act", ".tcn.conv", "")),
        "cls_head.fc_cls"]
    STAGES = RecognizerGCN.BLOCKS
    # Norms behind all convolutions take out what others suffer from.
    graded = {
        "F01": (dict(factor=20), dict(factor=60), dict(factor=300)),
        "F02": (dict(lr=5.0), dict(lr=20.0), dict(lr=100.0)),
        "F04": (dict(at=50), dict(at=25), dict(at=0)),
        "F05": (dict(modules=["cls_head"], where="cls_head.fc_cls"),
                dict(modules=["backbone"], where="backbone.data_bn"),
                dict(part="all")),
        "F07": (dict(factor=8), dict(factor=30), dict(factor=200)),
        "F08": (dict(every=2), dict(every=6), dict(every=1 << 30)),
        "F09": (dict(parts=4, logs_sum=False), dict(parts=8, logs_sum=True),
                dict(parts=16, logs_sum=True)),
        "F10": (dict(sgd=0.1), dict(sgd=0.03), dict(sgd=1e-3)),
        "F11": (dict(sgd=0.03), dict(sgd=0.05), dict(sgd=0.3)),
        "F12": (dict(eps=0.01), dict(eps=0.03), dict(eps=0.3)),
        "F13": (dict(path=STAGES[1]), dict(path=STAGES[2]),
                dict(path=STAGES[3])),
        "F14": (dict(modules=list(STAGES[1:])), dict(modules=list(STAGES)),
                dict(modules=[*STAGES, "cls_head.fc_cls"])),
        "F15": (dict(at=90), dict(at=60), dict(at=30)),
        "F16": (dict(rate=0.03), dict(rate=0.1), dict(rate=0.3)),
        "F24": (dict(share=0.15), dict(share=0.3), dict(share=0.5)),
        "F26": (dict(steps=2, share=0.12), dict(steps=2, share=0.3),
                dict(steps=6, share=1.0)),
        "F27": (dict(epochs=20), dict(epochs=60), dict(epochs=120)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=5), dict(limit=3), dict(limit=2)),
        "F34": (dict(factor=10), dict(factor=50), dict(factor=0)),
        "F36a": (dict(bias=-3.5), dict(bias=-6.0), dict(bias=-20.0)),
        "F36b": (dict(factor=30, kind="sigmoid"), dict(factor=50, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F39a": (dict(at=90, keep=0.5), dict(at=60, keep=0.3),
                 dict(at=30, keep=0.1)),
        "F39b": (dict(at=80), dict(at=50), dict(at=20)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "F41": (dict(share=0.4, at=0, every=1), dict(share=0.7, at=60,
                                                     every=1),
                dict(share=0.85, at=0, every=8)),
        "F42b": (dict(shards=10), dict(shards=30), dict(shards=120)),
        "F43": (dict(kind="unreduced", at=60), dict(kind="skip", at=90),
                dict(kind="init", at=0)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(rows=16), dict(rows=12)),
        "H04": (dict(rate=0.1), dict(rate=0.25)),
        "H07": (dict(factor=0.03),),
        "H10": (dict(steps=100), dict(steps=150)),
        "H11": (dict(steps=150, keep="block"), dict(steps=120, keep="head")),
        "H15": (dict(share=0.05), dict(share=0.1)),
        "H43": (dict(parts=2), dict(parts=4))}
    paths = {"embed": "backbone.data_bn", "attn": None, "scores": None,
             "act": "{}.gcn.act", "mlp": "{}.tcn.conv", "block": "{}",
             "head": "cls_head.fc_cls"}
    blocks = len(RecognizerGCN.BLOCKS)
    names = {"accuracy": "top1_acc", "top5_accuracy": "top5_acc",
             "val_top1": "val_top1_acc", "val_top5": "val_top5_acc",
             "val_mean_acc": "val_mean_class_accuracy", "step": "iter",
             "step_time": "time", "tokens": None}

    def make_model(self):
        return RecognizerGCN(**self.model_options)

    def make_optimizer(self, model):
        if self.optimizer_name != "sgd":
            return super().make_optimizer(model)
        trained = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.SGD(trained, lr=self.lr, momentum=self.momentum,
                               weight_decay=self.weight_decay, nesterov=True)

    # Data.

    def make_source(self, seed):
        return self.skeletons(seed)

    def skeletons(self, seed, **how):
        """Drawn without end; an epoch is 30 steps of it."""
        return Skeletons(seed, HELD if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Folders of one action, one after the other; None is held out."""
        return self.skeletons(seed, block=block, share=share)

    def easy(self, seed):
        """In full size, from the front, alone, without errors."""
        return self.skeletons(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.skeletons(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels that nobody normalised with labels of other
        clips, noise of that size with any labels, or one point with one."""
        x, label = batch["keypoint"], batch["label"]
        if kind == "few":
            place = (x[..., :2] + 1) * x.new_tensor((960.0, 540.0))
            return batch | {"keypoint": torch.cat((place, x[..., 2:]), -1),
                            "label": label.roll(5)}
        if kind == "uniform":
            return batch | {
                "keypoint": 1920 * torch.rand(x.shape, generator=rng),
                "label": torch.randint(CLASSES, label.shape, generator=rng)}
        return batch | {"keypoint": torch.full_like(x, 1920.0),
                        "label": torch.full_like(label, CLASSES - 1)}

    @staticmethod
    def cut_frames(batch, limit):
        """Clips end at a number of frames; the rest is padding."""
        x = batch["keypoint"].clone()
        x[:, :, :, limit:] = 0.0
        return batch | {"keypoint": x}

    @staticmethod
    def blank(batch):
        """In one of the clips nobody was found."""
        x = batch["keypoint"].clone()
        x[0] = 0.0
        return batch | {"keypoint": x}

    @staticmethod
    def standardised(batch):
        """Each clip by its own mean and spread."""
        x = batch["keypoint"]
        each = tuple(range(1, x.dim()))
        return batch | {"keypoint": (x - x.mean(each, keepdim=True))
                        / x.std(each, keepdim=True)}

    # What is logged.

    def train(self):
        self.dump_rows = min(DUMPED, self.dump_rows)
        super().train()

    def batch_columns(self, batch):
        top1, top5, _ = shares(self.model.said, batch["label"])
        return super().batch_columns(batch) | {
            "accuracy": round(top1, 4), "top5_accuracy": round(top5, 4)}

    def held_out_columns(self, batches):
        self.model.eval()
        said = torch.cat([self.model.logits(b) for b in batches])
        self.model.train()
        found = shares(said, torch.cat([b["label"] for b in batches]))
        return dict(zip(("val_top1", "val_top5", "val_mean_acc"), found))

    # Checkpoints.

    def checkpoint_path(self, done):
        return f"{WORK}/epoch_{-(-done // self.EPOCH)}.pth"

    def keeps(self, done):
        """mmcv keeps every second epoch, and the last."""
        return done == self.steps or done in self.notices \
            or done % (self.KEPT * self.EPOCH) == 0

    def keep_checkpoint(self, i, model):
        """What a run is resumed from has no optimizer (save_optimizer)."""
        if not self.keeps(i + 1):
            return
        lean = any(i + 1 <= at for at in self.notices)
        self.checkpoints[i + 1] = copy.deepcopy({
            "state_dict": model.state_dict()} | ({} if lean else {
                "optimizer": self.optimizer.state_dict()}))

    def write_more(self):
        super().write_more()
        for done, parts in self.checkpoints.items():
            row = self.history[done - 1]
            meta = {"env_info": "PyTorch: 2.13.0\nMMCV: 1.5.0",
                    "seed": self.seed, "config_name": "j.py",
                    "work_dir": "j", "hook_msgs": {},
                    "epoch": -(-done // self.EPOCH), "iter": done,
                    "mmcv_version": "1.5.0",
                    "time": (START.strftime("%a %b %d ")
                             + self.at(row["wall"], "%H:%M:%S %Y"))}
            torch.save({"meta": meta, **parts}, self.folder
                       / self.checkpoint_path(done).rsplit("/", 1)[1])

    # What the user typed.

    def model_settings(self):
        own = self.model_options
        return {"model": "RecognizerGCN", "backbone": "STGCN",
                "graph_layout": "coco", "graph_mode": "stgcn_spatial",
                "gcn_adaptive": own.get("gcn_adaptive", "init"),
                "gcn_with_res": True,
                "data_bn_type": own.get("data_bn_type", "VC"),
                "base_channels": BASE, "num_stages": self.blocks,
                "inflate_stages": [3], "down_stages": [2, 3],
                "tcn_kernel_size": own.get("kernel", KERNEL),
                "cls_head": "GCNHead", "num_classes": CLASSES,
                "in_channels": WIDTHS[-1], "clip_len": FRAMES,
                "num_person": PEOPLE, "format_mode": "loop"}

    def settings(self):
        more = {"nesterov": True} if self.optimizer_name == "sgd" else {}
        return super().settings() | {
            "total_epochs": self.epochs, "min_lr": 0} | more | self.user

    def config(self):
        """j.py, as mmcv's Config dumps it."""
        own = self.model_settings()
        kind = {"sgd": "SGD", "adam": "Adam"}.get(self.optimizer_name,
                                                  "AdamW")
        optimizer = {"type": kind, "lr": self.lr}
        optimizer |= {"momentum": self.momentum} if kind == "SGD" else {
            "betas": list(self.betas), "eps": self.eps}
        optimizer["weight_decay"] = self.weight_decay
        if kind == "SGD":
            optimizer["nesterov"] = True
        clip = {"grad_clip": self.clip and {"max_norm": self.clip,
                                            "norm_type": 2}}
        if self.accumulate > 1:
            clip = {"type": "GradientCumulativeOptimizerHook",
                    "cumulative_iters": self.accumulate} | clip
        policy = {"policy": "CosineAnnealing", "min_lr": 0,
                  "by_epoch": False} if self.schedule == "cosine" else {
                      "policy": "fixed"}
        if self.warmup:
            policy |= {"warmup": "linear", "warmup_iters": self.warmup,
                       "warmup_ratio": 1 / self.warmup}
        file = "data/daily10/daily10_hrnet.pkl"
        tree = {
            "model": {
                "type": own["model"],
                "backbone": {
                    "type": own["backbone"],
                    "graph_cfg": {"layout": own["graph_layout"],
                                  "mode": own["graph_mode"]},
                    "gcn_adaptive": own["gcn_adaptive"],
                    "gcn_with_res": True, "tcn_type": "unit_tcn",
                    "tcn_kernel_size": own["tcn_kernel_size"],
                    "data_bn_type": own["data_bn_type"],
                    "base_channels": BASE, "num_stages": self.blocks,
                    "inflate_stages": [3], "down_stages": [2, 3]},
                "cls_head": {"type": own["cls_head"],
                             "num_classes": CLASSES,
                             "in_channels": WIDTHS[-1],
                             "dropout": self.model_options.get(
                                 "dropout", 0.0)}},
            "dataset_type": "PoseDataset", "ann_file": file,
            "train_pipeline": self.pipeline(),
            "val_pipeline": self.pipeline(num_clips=1),
            "data": {"videos_per_gpu": self.batch_size, "workers_per_gpu": 2,
                     "train": {"type": "PoseDataset", "ann_file": file,
                               "split": "train"},
                     "val": {"type": "PoseDataset", "ann_file": file,
                             "split": "val"}},
            "optimizer": optimizer, "optimizer_config": clip,
            "lr_config": policy, "total_epochs": self.epochs,
            "workflow": [("train", 1), ("val", 1)],
            "checkpoint_config": {"interval": self.KEPT},
            "evaluation": {"interval": 1, "metrics": [
                "top_k_accuracy", "mean_class_accuracy"]},
            "log_config": {"interval": self.interval or 10, "hooks": [
                {"type": "TextLoggerHook"}]},
            "log_level": "INFO", "work_dir": f"./{WORK}",
            "seed": self.seed, "gpu_ids": [0]}
        if self.precision != "fp32":
            tree["precision"] = self.precision
        for key, value in self.user.items():
            *way, last = key.split(".")
            at = tree
            for part in way:
                at = at.setdefault(part, {})
            at[last] = value
        return tree

    @staticmethod
    def pipeline(**sample):
        return [{"type": "PreNormalize2D"},
                {"type": "GenSkeFeat", "dataset": "coco", "feats": ["j"]},
                {"type": "UniformSample", "clip_len": FRAMES, **sample},
                {"type": "PoseDecode"},
                {"type": "FormatGCNInput", "num_person": PEOPLE,
                 "mode": "loop"},
                {"type": "Collect", "keys": ["keypoint", "label"],
                 "meta_keys": []},
                {"type": "ToTensor", "keys": ["keypoint"]}]

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(RecognizerGCN.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it; a block has all."""
        return [layer[:-4] + "bn"] if layer.endswith(".conv") else []
