"""A small segmentation of volumes: which voxels are organ, lesion or vessel?

A U-net with instance norms, Dice and cross-entropy at two resolutions, and
SGD with much momentum, as people train it with nnU-Net v2. Parts are named as
in its PlainConvUNet; log, plans and checkpoints are those of nnUNetTrainer.
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family
from .recorder import START

SHAPE, ROWS = (4, 16, 16), 5
WIDTHS = (8, 8, 16, 16)
KERNELS = ((1, 3, 3), (1, 3, 3), (3, 3, 3), (3, 3, 3))
STRIDES = ((1, 1, 1), (1, 2, 2), (1, 2, 2), (2, 2, 2))
NAMES = ("background", "organ", "lesion", "vessel")
CLASSES, IGNORED = len(NAMES), len(NAMES)   # what nobody has annotated
ORGAN, LESION, VESSEL = 1, 2, 3
KINDS, SCANNERS = 4, 3
# By kind of a case: which of organ, lesion and vessel it has.
HAS = torch.tensor(((1, 0, 0), (1, 1, 0), (0, 0, 1), (1, 1, 1))).bool()
SLICE = 2.0     # voxels within a slice to one from slice to slice
ACTIVATIONS = models.ACTIVATIONS | {
    "leaky_relu": lambda: nn.LeakyReLU(0.01, inplace=False)}


class Cases:
    """Patches of volumes of four slices: an organ, a lesion in it, a vessel.

    Tissue has a level and a slope that are drawn. The organ is an ellipsoid
    that is brighter by 1.2, a lesion a ball in it that is darker than tissue
    by .8, the vessel a leaning tube through all slices that is brighter by
    2.2. Three things look like them and are ground: gut is as bright as the
    organ, with stripes; a cyst is as dark as a lesion, and in no organ; a
    stone is as bright as a vessel, and a ball (DECOYS says how often a patch
    has each). Noise lies on each voxel. There are four kinds of cases, see
    HAS.

    Who drew the outlines was OFF by .45 of a voxel (a spread, for each thing),
    and took one lesion in ten for organ. Of .25 of the patches one or two
    slices were not annotated (class 4). Who knows all but this says of each
    voxel what is to be expected, see `best()`.

    The last third of a batch has something in its middle, as nnU-Net draws
    it; the others are taken anywhere.

    oversample: that share. unannotated: see above. clean: neither noise,
    mistakes nor what looks like something else. scanners: three of another
    gain and offset each, whose number is in the batch as domain.
    """

    NOISE, OFF, MISSED, UNANNOTATED = 0.15, 0.45, 0.1, 0.25
    FOLDS = 1.5
    DECOYS = 0.3, 0.1, 0.1  # gut, a cyst, a stone

    def __init__(self, seed, rows=ROWS, oversample=0.33, unannotated=None,
                 clean=False, scanners=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.oversample = rows, oversample
        self.unannotated = self.UNANNOTATED if unannotated is None \
            else unannotated
        self.clean, self.scanners = clean, scanners
        place = [torch.arange(n).float() for n in SHAPE]
        self.z, self.y, self.x = torch.meshgrid(*place, indexing="ij")

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def chance(self, share, rows):
        return torch.rand(rows, generator=self.rng) < share

    def batch(self, rows=None):
        return self.of(torch.randint(KINDS, (rows or self.rows,),
                                     generator=self.rng))

    def anywhere(self, rows):
        return [self.uniform(low, high, rows)
                for low, high in ((-0.5, 3.5), (1.0, 14.0), (1.0, 14.0))]

    def far(self, at):
        """The distance of each voxel from the middle of something."""
        z, y, x = (t[:, None, None, None] for t in at)
        return ((SLICE * (self.z - z)).square() + (self.y - y).square()
                + (self.x - x).square()).sqrt()

    def centred(self, has):
        """Where organ, lesion and vessel of the rows are; the last rows have
        one of what they have in their middle."""
        rows = len(has)
        organ, vessel = self.anywhere(rows), self.anywhere(rows)
        size = self.uniform(4.0, 6.0, rows)
        lean = self.uniform(-1.2, 1.2, 2, rows)
        way = [self.uniform(-0.5, 0.5, rows) * size for _ in range(3)]
        way[0] = way[0] / SLICE
        forced = torch.arange(rows) >= round(rows * (1 - self.oversample))
        keys = torch.rand(rows, 3, generator=self.rng) * has
        which = keys.argmax(1)
        middle = [self.uniform(low, high, rows)
                  for low, high in ((1.0, 2.0), (5.5, 9.5), (5.5, 9.5))]
        here = [m - w * (which == 1) for m, w in zip(middle, way)]
        organ = [torch.where(forced & (which < 2), h, o)
                 for h, o in zip(here, organ)]
        vessel = [torch.where(forced & (which == 2), m, v)
                  for m, v in zip(middle, vessel)]
        lesion = [o + w for o, w in zip(organ, way)]
        return organ, lesion, vessel, size, lean

    def of(self, kind):
        """Patches of cases of these kinds, and how they were annotated."""
        rows, has = len(kind), HAS[kind]
        organ, lesion, vessel, size, lean = self.centred(has)
        wide = lambda t: t[:, None, None, None]
        tall = wide(self.uniform(0.75, 1.3, rows))
        z, y, x = map(wide, organ)
        to_organ = ((SLICE * (self.z - z)).square()
                    + (tall * (self.y - y)).square()
                    + ((self.x - x) / tall).square()).sqrt() - wide(size)
        to_lesion = self.far(lesion) - wide(self.uniform(2.6, 3.6, rows))
        y, x = (wide(v) + wide(a) * (self.z - 1.5)
                for v, a in zip(vessel[1:], lean))
        to_vessel = ((self.y - y).square() + (self.x - x).square()).sqrt() \
            - wide(self.uniform(2.0, 2.8, rows))
        to_gut = self.far(self.anywhere(rows)) - wide(
            self.uniform(3.0, 4.5, rows))
        to_cyst = self.far(self.anywhere(rows)) - wide(
            self.uniform(2.0, 3.2, rows))
        to_stone = self.far(self.anywhere(rows)) - wide(
            self.uniform(1.8, 2.6, rows))
        angle, phase = wide(self.uniform(0, 3.14, rows)), wide(
            self.uniform(0, 6.28, rows))
        folds = torch.sin((angle.cos() * self.x + angle.sin() * self.y) * 1.6
                          + phase)
        shown = [wide(self.chance(share, rows) & (not self.clean))
                 for share in self.DECOYS]
        level, steep = self.uniform(-0.3, 0.3, rows), self.uniform(
            -0.02, 0.02, 2, rows)
        ground = wide(level) + wide(steep[0]) * (self.y - 7.5) \
            + wide(steep[1]) * (self.x - 7.5)
        has = [wide(h) for h in has.T]
        inside = (to_organ < 0) & has[0]
        image = ground
        for far, seen, value in (
                (to_cyst, shown[1], ground - 0.8),
                (to_gut, shown[0], ground + 1.2 + self.FOLDS * folds),
                (to_stone, shown[2], ground + 2.2),
                (to_organ, has[0], ground + 1.2),
                (to_lesion, has[1] & inside, ground - 0.8),
                (to_vessel, has[2], ground + 2.2)):
            image = torch.where((far < 0) & seen, value, image)
        noise = torch.randn(image.shape, generator=self.rng)
        image = image + noise * (0.05 if self.clean else self.NOISE)
        off = torch.randn(3, rows, generator=self.rng) * (
            0.0 if self.clean else self.OFF)
        missed = self.chance(self.MISSED, rows) & (not self.clean)
        o, l, v = (wide(t) for t in off)
        target = torch.where((to_organ < o) & has[0], ORGAN, 0)
        target = torch.where((to_lesion < l) & has[1] & (target == ORGAN)
                             & ~wide(missed), LESION, target)
        target = torch.where((to_vessel < v) & has[2], VESSEL, target)
        # For best(): how likely a voxel was annotated as each.
        drawn = [torch.special.ndtr(-far / self.OFF) * h.float()
                 for far, h in zip((to_organ, to_lesion, to_vessel), has)]
        self.true = drawn
        first, last = self.uniform(0, 2, rows).long(), self.uniform(
            0, 2, rows).long()
        some = self.chance(self.unannotated, rows)
        lost = (self.z < wide(1 + first)) if self.clean else torch.where(
            wide(last > 0), self.z < wide(1 + first),
            self.z >= wide(3 - first))
        target = torch.where(lost & wide(some), IGNORED, target)
        batch = {"data": image[:, None], "target": target[:, None].short()}
        if self.scanners:
            scanner = torch.randint(SCANNERS, (rows,), generator=self.rng)
            each = scanner[:, None, None, None, None] - 1.0
            batch["data"] = (1 + 0.3 * each) * batch["data"] + 0.4 * each
            batch["domain"] = scanner
        return batch

    def best(self, model, batches=40):
        """The loss of who knows all but how outlines were drawn, at both
        resolutions; `model` has the criterion."""
        total = 0.0
        for _ in range(batches):
            batch = self.batch()
            organ, lesion, vessel = self.true
            lesion = (1 - self.MISSED) * lesion
            rest = 1 - vessel
            probs = torch.stack((rest * (1 - organ), rest * organ
                                 * (1 - lesion), rest * organ * lesion,
                                 vessel), 1)
            logits = probs.clamp_min(1e-6).log()
            total += float(model.criterion(
                [logits, logits[..., ::2, ::2]], batch))
        return total / batches


class SortedCases(sources.ByClass, Cases):
    """The cases as their folders lie."""
    classes, rows = KINDS, ROWS


class ConvBlock(nn.Module):
    """conv, norm, nonlin."""

    def __init__(self, channels, out, kernel, stride, options):
        super().__init__()
        self.conv = nn.Conv3d(channels, out, kernel, stride,
                              [(k - 1) // 2 for k in kernel])
        self.norm = nn.InstanceNorm3d(out, eps=1e-5, affine=True)
        self.nonlin = ACTIVATIONS[options["activation"]]()
        self.half_at = options["half_at"]

    def forward(self, x, name, tap):
        tap(f"{name}.conv.input", x)
        y = self.conv(x)
        if self.half_at == f"{name}.conv":
            y = y.half()
        tap(f"{name}.conv.output", y)
        y = self.norm(y.to(x.dtype))
        tap(f"{name}.nonlin.input", y)
        y = self.nonlin(y)
        tap(f"{name}.nonlin.output", y)
        return y


class StackedConvBlocks(nn.Module):
    """One block; it has a list of them by the library's name."""

    def __init__(self, channels, out, kernel, stride, options):
        super().__init__()
        self.convs = nn.Sequential(
            ConvBlock(channels, out, kernel, stride, options))

    def forward(self, x, name, tap):
        for k, conv in enumerate(self.convs):
            x = conv(x, f"{name}.convs.{k}", tap)
        tap(f"{name}.output", x)
        return x


class PlainConvUNet(nn.Module):
    """Four stages of 8, 8, 16 and 16 channels at 16, 8, 4 and 2 voxels a side
    and 4, 4, 4 and 2 slices, three back up, and a map to classes behind each
    of these. The first two stages look within slices alone."""

    BLOCKS = (*(f"encoder.stages.{i}.0" for i in range(4)),
              *(f"decoder.stages.{i}" for i in range(3)))
    HEADS = tuple(f"decoder.seg_layers.{i}" for i in range(3))

    def __init__(self, activation="leaky_relu", dropout=0.0, detach_after=(),
                 half_at=None, deep=True, topk=None):
        """detach_after: the parts behind which the graph is cut. half_at: the
        convolution whose output is in half precision. deep: the loss looks at
        the second finest map as well. topk: per cent of the voxels, those worst
        told, of which the cross-entropy is taken; None for all."""
        super().__init__()
        self.dropout, self.deep, self.topk = dropout, deep, topk
        self.detach_after = (detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)
        self.squashes = self.counts_ignored = False
        self.guards = True
        options = {"activation": activation, "half_at": half_at}
        ways = zip((1, *WIDTHS), WIDTHS, KERNELS, STRIDES)
        self.encoder = models.Group(stages=nn.Sequential(*(
            nn.Sequential(StackedConvBlocks(*way, options))
            for way in ways)))
        up = [(WIDTHS[i], WIDTHS[i - 1], i) for i in (3, 2, 1)]
        self.decoder = models.Group(
            stages=nn.ModuleList(
                StackedConvBlocks(2 * out, out, KERNELS[i - 1], (1, 1, 1),
                                  options) for _, out, i in up),
            transpconvs=nn.ModuleList(
                nn.ConvTranspose3d(a, out, STRIDES[i], STRIDES[i])
                for a, out, i in up),
            seg_layers=nn.ModuleList(
                nn.Conv3d(out, CLASSES, 1) for _, out, _ in up))
        for m in self.modules():
            if isinstance(m, (nn.Conv3d, nn.ConvTranspose3d)):
                nn.init.kaiming_normal_(m.weight, a=1e-2)
                nn.init.zeros_(m.bias)
        self.gate = None    # of what the decoder's last stage gets
        self.parts = {}     # of the last loss of training
        self.said = []      # classes of the batches of a validation

    @property
    def weights(self):
        """Of the maps from fine to coarse: each counts half as much as the
        one before and the last not at all, as nnU-Net has it."""
        return (2 / 3, 1 / 3, 0.0) if self.deep else (1.0, 0.0, 0.0)

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if name in self.detach_after else x

    def drop(self, x):
        return F.dropout3d(x, self.dropout, self.training
                           and self.dropout > 0)

    def forward(self, x):
        """What is said at all resolutions, the finest first."""
        parts, skips, said = self.decoder, [], []
        x = x.to(parts.seg_layers[0].weight.dtype)
        for name, stage in zip(self.BLOCKS, self.encoder.stages):
            x = self.drop(self.cut(stage[0](x, name, self.tap), name))
            skips.append(x)
        for k, name in enumerate(self.BLOCKS[4:]):
            x = parts.transpconvs[k](x)
            x = torch.cat((x, skips[-k - 2]), 1)
            if k == 2 and self.gate is not None:
                x = self.gate(x, said[0])
            x = self.drop(self.cut(parts.stages[k](x, name, self.tap), name))
            out = parts.seg_layers[k](x)
            self.tap(f"{self.HEADS[k]}.output", out)
            said.insert(0, out)
        return said

    def outputs(self, batch):
        return self(batch["data"])

    def logits(self, batch):
        """At full resolution; the other families' name for what is said."""
        return self.outputs(batch)[0]

    def labels(self, batch):
        """By voxel; what was not annotated is IGNORED."""
        labels = batch["target"][:, 0].long()
        if self.counts_ignored:
            labels = torch.where(labels == IGNORED, 0, labels)
        return labels

    def ce_and_dice(self, logits, labels, smoothing=0.0):
        """Cross-entropy by voxel, and minus the mean dice of what is not
        background over the batch."""
        logits = logits.float()
        if self.squashes:
            logits = logits.softmax(1)
        seen = labels != IGNORED
        each = F.cross_entropy(logits, labels, reduction="none",
                               ignore_index=IGNORED,
                               label_smoothing=smoothing)
        if self.topk:
            each = each.flatten().topk(
                each.numel() * self.topk // 100).values
            ce = each.mean()
        else:
            count = seen.sum()
            ce = each.sum() / (count.clamp_min(1) if self.guards else count)
        probs = logits.softmax(1)[:, 1:] * seen[:, None]
        real = torch.stack([labels == k for k in range(1, CLASSES)], 1)
        both = (probs * real).sum((0, 2, 3, 4))
        size = probs.sum((0, 2, 3, 4)) + real.sum((0, 2, 3, 4))
        dice = ((2 * both + 1e-5) / (size + 1e-5)).mean()
        return ce, -dice

    def criterion(self, outputs, batch, smoothing=0.0):
        """DC_and_CE_loss under DeepSupervisionWrapper: the sum of both, so
        that it ends near -1."""
        labels, total, parts = self.labels(batch), 0.0, []
        for out, weight in zip(outputs, self.weights):
            if weight:
                step = labels.shape[-1] // out.shape[-1]
                ce, dice = self.ce_and_dice(
                    out, labels[..., ::step, ::step], smoothing)
                parts.append((ce, dice))
                total = total + weight * (ce + dice)
        if self.training:
            self.parts = {"ce_loss": float(parts[0][0].detach()),
                          "dice_loss": float(parts[0][1].detach())}
            self.said = []
        else:
            self.said.append(outputs[0].argmax(1))
        return total

    def loss(self, batch):
        loss = self.criterion(self.outputs(batch), batch)
        self.tap("loss.output", loss)
        return loss


class NnuRun(Family):
    """SGD with a Nesterov momentum of .9, as .99 averages over more steps than
    there are, and a rate that falls each epoch with the power .9 of what is
    left; norms above 12 are clipped."""

    family = "nnu"
    level_seed = 400
    steps, seed, language, classes = 165, 1600, False, CLASSES
    optimizer_name, lr, momentum, weight_decay = "sgd", 0.5, 0.9, 3e-5
    recipes = {"adamw": dict(lr=1e-2, weight_decay=0.01)}
    warmup, schedule, clip, POWER = 0, "PolyLRScheduler", 12.0, 0.9
    batch_size, context = ROWS, SHAPE[0] * SHAPE[1] * SHAPE[2]
    oversample = 0.33
    EPOCH, epoch_steps = 15, 50     # of nnU-Net, of Lightning
    # Its users have the trainer's own log.
    instead = {"nanogpt": "nnunet", "hf_trainer": "nnunet",
               "megatron": "nnunet", "torchtune": "nnunet"}
    layers = [*(f"{block}.convs.{part}" for block in PlainConvUNet.BLOCKS
                for part in ("0.conv", "0.nonlin")),
              *PlainConvUNet.BLOCKS, *PlainConvUNet.HEADS]
    # Norms behind all convolutions take out what others suffer from.
    INNER = [f"encoder.stages.{i}.0" for i in (1, 2, 3)]
    graded = {
        "F01": (dict(factor=50), dict(factor=200), dict(factor=1000)),
        "F02": (dict(lr=5.0), dict(lr=20.0), dict(lr=100.0)),
        "F04": (dict(at=60), dict(at=25), dict(at=0)),
        "F05": (dict(modules=["decoder.stages"], where="decoder.stages.0"),
                dict(modules=["encoder"], where="encoder.stages.0.0"),
                dict(part="all")),
        "F07": (dict(factor=20), dict(factor=100), dict(factor=500)),
        "F10": (dict(sgd=3e-2), dict(sgd=3e-3), dict(sgd=1e-4)),
        "F11": (dict(sgd=0.01), dict(sgd=0.03), dict(sgd=0.1)),
        "F13": (dict(path="decoder.stages.1"), dict(path="decoder.stages.2"),
                dict(path="decoder.stages.1", more=["decoder.stages.2"])),
        "F14": (dict(modules=[*INNER, "decoder.stages.0",
                              "decoder.stages.1"]),
                dict(modules=[*INNER, "decoder.stages"]),
                dict(modules=[*INNER, "decoder.stages",
                              "decoder.transpconvs"])),
        "F15": (dict(at=135), dict(at=90), dict(at=45)),
        "F22": (dict(onset=90, guard=True), dict(onset=0, guard=True),
                dict(onset=0, guard=False)),
        "F23": (dict(share=0.4), dict(share=0.7), dict(share=1.0)),
        "F24": (dict(share=0.3), dict(share=0.45), dict(share=0.6)),
        "F27": (dict(epochs=25), dict(epochs=60), dict(epochs=160)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F39a": (dict(at=120, keep=0.5), dict(at=90, keep=0.5),
                 dict(at=45, keep=0.25)),
        "F39b": (dict(at=120), dict(at=80), dict(at=45)),
        "H02": (dict(factor=0.5), dict(factor=0.3)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.5)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H07": (dict(factor=0.04),),
        "H43": (dict(parts=2), dict(parts=3))}
    paths = {"embed": "encoder.stages.0.0.convs.0.conv", "attn": None,
             "scores": None, "act": "{}.convs.0.nonlin",
             "mlp": "{}.convs.0.conv", "block": "{}",
             "head": "decoder.seg_layers.2"}
    always_trained = ("decoder.seg_layers",)
    blocks = len(PlainConvUNet.BLOCKS)
    names = {"step": "iteration", "loss": "train_loss",
             "val_dice": "mean_fg_dice", "step_time": "iter_time",
             "tokens": None}

    def make_model(self):
        return PlainConvUNet(**self.model_options)

    def make_optimizer(self, model):
        if self.optimizer_name != "sgd":
            return super().make_optimizer(model)
        trained = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.SGD(trained, lr=self.lr, momentum=self.momentum,
                               weight_decay=self.weight_decay,
                               nesterov=self.momentum > 0)

    @property
    def val_every(self):
        """nnU-Net validates behind each of its epochs."""
        return self.EPOCH if self.dialect == "nnunet" else self._val_every

    @val_every.setter
    def val_every(self, steps):
        self._val_every = steps

    def make_source(self, seed):
        return self.cases(seed)

    def cases(self, seed, **how):
        """Drawn without end, an epoch is 15 steps of it; held-out batches
        always have one size, as dice is that of a batch."""
        rows = ROWS if seed == 9 else self.batch_size
        return Cases(seed, rows, **{"oversample": self.oversample} | how)

    def in_blocks(self, seed, block, share):
        """Folders of one kind, one after the other; None is held out."""
        if block is None:
            return self.cases(seed)
        return SortedCases(seed, block, share)

    def easy(self, seed):
        """Cases without noise, mistakes and what looks like something else."""
        return self.cases(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.cases(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: values of a scanner and outlines of other cases,
        noise with any classes, or air that is all lesion."""
        x, target = batch["data"], batch["target"]
        if kind == "few":
            return batch | {"data": 300.0 * x + 1024.0,
                            "target": target.roll(2, 0)}
        if kind == "uniform":
            return {"data": 100 * torch.randn(x.shape, generator=rng),
                    "target": torch.randint(CLASSES, target.shape,
                                            generator=rng).short()}
        return {"data": torch.full_like(x, -1024.0),
                "target": torch.full_like(target, LESION)}

    @staticmethod
    def classes_renamed(target, wrong, rng):
        """In these rows organ, lesion and vessel have changed names, each the
        same throughout."""
        order = torch.rand(len(target), CLASSES - 1, generator=rng).argsort(1)
        keep = torch.zeros(len(target), 1, dtype=torch.int64)
        table = torch.cat((keep, 1 + order, keep + IGNORED), 1).short()
        names = table.gather(1, target.flatten(1).long()).view(target.shape)
        return torch.where(wrong.view(-1, 1, 1, 1, 1), names, target)

    @staticmethod
    def any_classes(target, rng):
        """Any classes, where something was annotated."""
        any_of = torch.randint(CLASSES, target.shape, generator=rng).short()
        return torch.where(target == IGNORED, target, any_of)

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)

    def lr_factor(self, i):
        """The rate of an epoch is that of its number."""
        if self.schedule != "PolyLRScheduler" or i < self.warmup:
            return super().lr_factor(i)
        return (1 - min(i, self.steps - 1) // self.EPOCH / self.epochs
                ) ** self.POWER

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            k: round(v, 5) for k, v in self.model.parts.items()}

    def held_out_columns(self, batches):
        """Pseudo dice: of each class that is not background, over all voxels
        of validation, and their mean."""
        said = torch.cat(self.model.said[-len(batches):])
        labels = torch.cat([b["target"][:, 0].long() for b in batches])
        kept = labels != IGNORED
        each = {}
        for k in range(1, CLASSES):
            a, b = (said == k) & kept, (labels == k) & kept
            each[f"val_dice_{k}"] = 2 * (a & b).sum() / (a.sum() + b.sum())
        return {"val_dice": torch.stack(list(each.values())).nanmean()} | each

    # What the user typed.

    def settings(self):
        settings = super().settings() | {
            "num_epochs": self.epochs,
            "num_iterations_per_epoch": self.EPOCH,
            "oversample_foreground_percent": self.oversample,
            "nesterov": True} | self.user
        if self.optimizer_name != "sgd":
            del settings["nesterov"]
        if self.schedule == "PolyLRScheduler":
            settings["poly_exponent"] = self.POWER
        return settings

    def model_settings(self):
        options = self.model_options
        return {"model": "PlainConvUNet", "configuration": "3d_fullres",
                "patch_size": list(SHAPE), "spacing": [5.0, 1.0, 1.0],
                "features_per_stage": list(WIDTHS),
                "kernel_sizes": [list(k) for k in KERNELS],
                "strides": [list(s) for s in STRIDES],
                "n_conv_per_stage": [1, 1, 1, 1],
                "n_conv_per_stage_decoder": [1, 1, 1],
                "norm_op": "InstanceNorm3d",
                "nonlin": options.get("activation", "leaky_relu"),
                "normalization_schemes": ["CTNormalization"],
                "labels": {name: k for k, name in enumerate(
                    (*NAMES, "ignore"))},
                "loss": "DC_and_topk_loss" if options.get("topk")
                        else "DC_and_CE_loss",
                "batch_dice": True,
                "enable_deep_supervision": options.get("deep", True),
                "deep_supervision_weights": [
                    round(w, 4) for w in
                    ((2 / 3, 1 / 3, 0.0) if options.get("deep", True)
                     else (1.0, 0.0, 0.0))]}

    def plans(self):
        """plans.json."""
        own = self.model_settings()
        nonlin = {"leaky_relu": "LeakyReLU", "relu": "ReLU", "none":
                  "Identity"}.get(own["nonlin"], own["nonlin"].capitalize())
        return {
            "dataset_name": "Dataset501_Organ", "plans_name": "nnUNetPlans",
            "original_median_spacing_after_transp": own["spacing"],
            "original_median_shape_after_transp": [12, 48, 48],
            "image_reader_writer": "SimpleITKIO",
            "transpose_forward": [0, 1, 2], "transpose_backward": [0, 1, 2],
            "configurations": {own["configuration"]: {
                "data_identifier": "nnUNetPlans_3d_fullres",
                "preprocessor_name": "DefaultPreprocessor",
                "batch_size": self.batch_size,
                "patch_size": own["patch_size"], "spacing": own["spacing"],
                "normalization_schemes": own["normalization_schemes"],
                "use_mask_for_norm": [False],
                "architecture": {
                    "network_class_name": "dynamic_network_architectures"
                                          ".architectures.unet.PlainConvUNet",
                    "arch_kwargs": {
                        "n_stages": len(WIDTHS),
                        **{k: own[k] for k in (
                            "features_per_stage", "kernel_sizes", "strides",
                            "n_conv_per_stage", "n_conv_per_stage_decoder")},
                        "conv_op": "torch.nn.modules.conv.Conv3d",
                        "conv_bias": True,
                        "norm_op": "torch.nn.modules.instancenorm"
                                   ".InstanceNorm3d",
                        "norm_op_kwargs": {"eps": 1e-5, "affine": True},
                        "dropout_op": "torch.nn.modules.dropout.Dropout3d"
                        if self.model_options.get("dropout") else None,
                        "dropout_op_kwargs": {
                            "p": self.model_options["dropout"]}
                        if self.model_options.get("dropout") else None,
                        "nonlin": f"torch.nn.{nonlin}",
                        "nonlin_kwargs": {"inplace": True}
                        if "ReLU" in nonlin else {}}},
                "batch_dice": own["batch_dice"]}},
            "experiment_planner_used": "ExperimentPlanner",
            "label_manager": "LabelManager",
            "foreground_intensity_properties_per_channel": {"0": {
                "max": 4.2, "mean": 1.1, "median": 1.2, "min": -2.1,
                "percentile_00_5": -1.4, "percentile_99_5": 3.1,
                "std": 0.9}}}

    def debug(self):
        """debug.json: what the trainer has, as it prints it; with the names
        of what else the user gave it."""
        kind = {"sgd": "SGD", "adam": "Adam"}.get(self.optimizer_name,
                                                  "AdamW")
        how = {"lr": self.lr, "weight_decay": self.weight_decay}
        how |= {"momentum": self.momentum, "nesterov": True} \
            if kind == "SGD" else {"betas": list(self.betas), "eps": self.eps}
        own = self.model_settings()
        return {
            "trainer_name": "nnUNetTrainer", "fold": 0, "device": "cpu",
            "configuration_name": own["configuration"],
            "initial_lr": self.lr, "weight_decay": self.weight_decay,
            "optimizer": {kind: how}, "lr_scheduler": self.schedule,
            "warmup_steps": self.warmup, "num_epochs": self.epochs,
            "num_iterations_per_epoch": self.EPOCH,
            "num_val_iterations_per_epoch": 4, "max_steps": self.steps,
            "grad_clip_norm": self.clip, "batch_size": self.batch_size,
            "gradient_accumulation_steps": self.accumulate,
            "oversample_foreground_percent": self.oversample,
            "loss": own["loss"], "enable_deep_supervision":
            own["enable_deep_supervision"],
            "deep_supervision_weights": own["deep_supervision_weights"],
            "inference_allowed_mirroring_axes": None,
            "precision": self.precision, "seed": self.seed,
            "save_every": 50, "world_size": 1, **self.user}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(PlainConvUNet.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it; a block has all."""
        return [layer[:-4] + "norm"] if layer.endswith(".conv") else []

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        """At the end of each epoch; which are written is seen at the end."""
        done = i + 1
        if done % self.EPOCH == 0 or done == self.steps:
            self.checkpoints[done] = copy.deepcopy(
                (model.state_dict(), self.optimizer.state_dict()))

    @staticmethod
    def under_all_names(weights):
        """Weights under all the names that the library's modules have for
        them: a block has its parts in a list, too, and the decoder has the
        encoder."""
        part = {"conv": 0, "norm": 1}
        found = {}
        for name, tensor in weights.items():
            names, words = [name], name.split(".")
            if words[-2] in part:
                names.append(".".join((*words[:-2], "all_modules",
                                       str(part[words[-2]]), words[-1])))
            if words[0] == "encoder":
                names += [f"decoder.{n}" for n in names]
            found |= {n: tensor for n in names}
        return found

    def logging(self, done):
        """What nnUNetLogger has of the epochs so far."""
        table = {k: [] for k in (
            "mean_fg_dice", "ema_fg_dice", "dice_per_class_or_region",
            "train_losses", "val_losses", "lrs")}
        for first in range(0, done, self.EPOCH):
            rows = self.history[first:min(first + self.EPOCH, done)]
            table["train_losses"].append(
                sum(r["loss"] for r in rows) / len(rows))
            table["lrs"].append(rows[0]["lr"])
            for row in rows:
                if "val_loss" not in row:
                    continue
                dice, past = row["val_dice"], table["ema_fg_dice"]
                table["val_losses"].append(row["val_loss"])
                table["mean_fg_dice"].append(dice)
                table["dice_per_class_or_region"].append(
                    [row[f"val_dice_{k}"] for k in range(1, CLASSES)])
                past.append(0.9 * past[-1] + 0.1 * dice if past else dice)
        return table

    def write_more(self):
        super().write_more()
        best = None
        for done, (weights, optimizer) in sorted(self.checkpoints.items()):
            logging = self.logging(done)
            average = (logging["ema_fg_dice"] or [0.0])[-1]
            name = []
            if self.dialect == "nnunet" and (best is None or average > best):
                best = average
                name.append("checkpoint_best.pth")
            if done == self.steps:
                name.append("checkpoint_final.pth")
            for path in name:
                torch.save({
                    "network_weights": self.under_all_names(weights),
                    "optimizer_state": optimizer, "grad_scaler_state": None,
                    "logging": logging, "_best_ema": best,
                    "current_epoch": -(-done // self.EPOCH),
                    "init_args": {"plans": self.plans(), "configuration":
                                  "3d_fullres", "fold": 0,
                                  "device": "cpu"},
                    "trainer_name": "nnUNetTrainer",
                    "inference_allowed_mirroring_axes": None},
                    self.folder / path)

    def dataset(self):
        """dataset.json."""
        return {"channel_names": {"0": "CT"},
                "labels": self.model_settings()["labels"],
                "numTraining": 40, "file_ending": ".nii.gz"}

    @property
    def log_name(self):
        return START.strftime("training_log_%Y_%-m_%-d_%H_%M_%S.txt")
