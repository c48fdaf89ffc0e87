"""A small segmentation network: an encoder, a decoder with skip connections.

Parts are named as in segmentation_models_pytorch. Each pixel has a class; the
loss is cross-entropy and half of a dice term, and pixels of class 255 are not
looked at.
"""

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family

SIZE, CHANNELS, CLASSES, VOID, KINDS = 16, 3, 5, 255, 4
WIDTHS = (12, 20, 28)


class Scenes:
    """Things on a ground, and a mask that says for each pixel what it shows.

    A scene has one to three things in front of one another, each a disk or a
    square (3 to 5.5 pixels from its centre to its edge) of stripes in one of
    four directions: four classes, the ground is class 0. Stripes have a period
    of four pixels, colours and phase are drawn, noise of 0.5 lies on each
    pixel.
    Outlines of things are void, and so is the padding (0) on the right and
    below of a third of the images, which are smaller (10 to 15 pixels).

    A fresh model has ln 5 = 1.61 and a dice loss of 0.8; ground is some 60 %
    of the pixels, knowing how frequent classes are leaves 1.22 nats.

    padded: the share of smaller images. noise: see above. things: at most.
    block, share: scenes of one class of things, one class after the other.
    """

    PERIOD = 4

    def __init__(self, seed, rows, padded=0.33, noise=0.5, things=3,
                 smallest=10, block=None, share=1.0):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.padded, self.noise = rows, padded, noise
        self.things, self.smallest = things, smallest
        self.block, self.share, self.number = block, share, 0

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def batch(self, rows=None):
        rows, rng = rows or self.rows, self.rng
        kinds = torch.randint(KINDS, (self.things, rows), generator=rng)
        if self.block:
            here = self.number // self.block % KINDS
            kept = torch.rand(rows, generator=rng) < self.share
            kinds = torch.where(kept, torch.tensor(here), kinds)
        self.number += 1
        count = torch.randint(1, self.things + 1, (rows,), generator=rng)
        y, x = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE),
                              indexing="ij")
        image = self.uniform(-1, 1, rows, CHANNELS, 1, 1).expand(
            -1, -1, SIZE, SIZE).clone()
        mask = torch.zeros(rows, SIZE, SIZE, dtype=torch.int64)
        for n in range(self.things):
            kind = kinds[n, :, None, None]
            size = self.uniform(3, 5.5, rows, 1, 1)
            dy = (y - self.uniform(2, SIZE - 3, rows, 1, 1)).abs()
            dx = (x - self.uniform(2, SIZE - 3, rows, 1, 1)).abs()
            round_one = torch.rand(rows, 1, 1, generator=rng) < 0.5
            far = torch.where(round_one, (dy ** 2 + dx ** 2).sqrt(),
                              torch.maximum(dy, dx) * 1.13)
            shown = (n < count)[:, None, None]
            inside = (far < size) & shown
            angle = kind * (torch.pi / KINDS)
            along = angle.cos() * x + angle.sin() * y + self.uniform(
                0, self.PERIOD, rows, 1, 1)
            wave = (along * (2 * torch.pi / self.PERIOD)).sin()[:, None]
            base = self.uniform(-1, 1, rows, CHANNELS, 1, 1)
            gain = self.uniform(0.7, 1.3, rows, CHANNELS, 1, 1)
            image = torch.where(inside[:, None], base + gain * wave, image)
            outline = shown & ~inside & (far < size + 0.8)
            mask = torch.where(inside, kind + 1, torch.where(
                outline, VOID, mask))
        image = image + self.noise * torch.randn(image.shape, generator=rng)
        side = torch.randint(self.smallest, SIZE, (2, rows, 1, 1),
                             generator=rng)
        small = (torch.rand(rows, 1, 1, generator=rng) < self.padded) & (
            (y >= side[0]) | (x >= side[1]))
        return {"image": image.masked_fill(small[:, None], 0.0),
                "mask": mask.masked_fill(small, VOID)}


def conv_bn_act(channels, out, options, stride=1):
    """Children 0, 1 and 2, as in the library's Conv2dReLU."""
    return nn.Sequential(
        nn.Conv2d(channels, out, 3, stride, 1, bias=False),
        nn.BatchNorm2d(out), models.ACTIVATIONS[options["activation"]]())


class Stage(nn.Module):
    """Two convolutions; `skip` are the channels of what it is joined with."""

    def __init__(self, channels, out, options, stride=1, skip=0):
        super().__init__()
        self.conv1 = conv_bn_act(channels + skip, out, options, stride)
        self.conv2 = conv_bn_act(out, out, options)
        self.half_at = options["half_at"]

    def forward(self, x, name, tap, drop, skip=None):
        if skip is not None:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = torch.cat((x, skip), 1)
        for part in ("conv1", "conv2"):
            conv, norm, act = getattr(self, part)
            tap(f"{name}.{part}.0.input", x)
            y = conv(x)
            if self.half_at == f"{name}.{part}.0":
                y = y.half()
            tap(f"{name}.{part}.0.output", y)
            y = norm(y.to(x.dtype))
            tap(f"{name}.{part}.2.input", y)
            x = act(y)
            tap(f"{name}.{part}.2.output", x)
        x = drop(x)
        tap(f"{name}.output", x)
        return x


class Segmenter(nn.Module):
    """Stages of 12, 20 and 28 channels at 16, 8 and 4 pixels a side, and two
    back up."""

    BLOCKS = ("encoder.stages.0", "encoder.stages.1", "encoder.stages.2",
              "decoder.blocks.0", "decoder.blocks.1")

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None):
        """detach_after: the part behind which the graph is cut."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.counts_void = self.guards = self.squashes = False
        options = {"activation": activation, "half_at": half_at}
        a, b, c = WIDTHS
        self.encoder = nn.Module()
        self.encoder.stages = nn.ModuleList((
            Stage(CHANNELS, a, options), Stage(a, b, options, 2),
            Stage(b, c, options, 2)))
        self.decoder = nn.Module()
        self.decoder.blocks = nn.ModuleList((
            Stage(c, b, options, skip=b), Stage(b, a, options, skip=a)))
        self.segmentation_head = nn.Sequential(nn.Conv2d(a, CLASSES, 1))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight)
        nn.init.xavier_uniform_(self.segmentation_head[0].weight)
        nn.init.zeros_(self.segmentation_head[0].bias)
        self.said = None    # the last classes of training, for the accuracy

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def drop(self, x):
        return F.dropout2d(x, self.dropout, self.training
                           and self.dropout > 0)

    def forward(self, x):
        x, skips = x.to(self.segmentation_head[0].weight.dtype), []
        for name, stage in zip(self.BLOCKS, self.encoder.stages):
            x = self.cut(stage(x, name, self.tap, self.drop), name)
            skips.append(x)
        for name, stage, skip in zip(self.BLOCKS[3:], self.decoder.blocks,
                                     skips[-2::-1]):
            x = self.cut(stage(x, name, self.tap, self.drop, skip), name)
        x = self.segmentation_head(x)
        self.tap("segmentation_head.0.output", x)
        if self.training:
            self.said = x.detach().argmax(1)
        return x

    def logits(self, batch):
        return self(batch["image"])

    def criterion(self, logits, batch, smoothing=0.0):
        """Cross-entropy, and half of one minus the mean dice of classes."""
        logits, mask = logits.float(), batch["mask"]
        if self.squashes:
            logits = logits.softmax(1)
        if self.counts_void:
            mask = torch.where(mask == VOID, 0, mask)
        seen = mask != VOID
        each = F.cross_entropy(logits, mask, reduction="sum",
                               ignore_index=VOID, label_smoothing=smoothing)
        count = seen.sum()
        each = each / (count.clamp_min(1) if self.guards else count)
        return each + 0.5 * self.dice(logits, mask, seen) * seen.any()

    @staticmethod
    def dice(logits, mask, seen):
        probs = logits.softmax(1) * seen[:, None]
        real = F.one_hot(torch.where(seen, mask, 0), CLASSES).permute(
            0, 3, 1, 2) * seen[:, None]
        both = (probs * real).sum((0, 2, 3))
        all_of = probs.sum((0, 2, 3)) + real.sum((0, 2, 3))
        return 1 - ((2 * both + 1) / (all_of + 1)).mean()

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class SegRun(Family):
    """SGD with momentum over five epochs of one set; the rate falls with the
    power 0.9 of what is left; no warm-up, no clipping."""

    family = "seg"
    level_seed = 400
    steps, seed, language, classes = 250, 420, False, CLASSES
    optimizer_name, lr, momentum, weight_decay = "sgd", 0.1, 0.9, 1e-4
    recipes = {"adamw": dict(lr=4e-3, weight_decay=0.01)}
    warmup, schedule, clip, POWER = 0, "poly", None, 0.9
    batch_size, context = 16, SIZE * SIZE
    EPOCH = 50              # steps: 800 images
    layers = [*(f"{block}.{part}" for block in Segmenter.BLOCKS
                for part in ("conv1.0", "conv1.2", "conv2.0")),
              *Segmenter.BLOCKS, "segmentation_head.0"]
    paths = {"embed": "encoder.stages.0.conv1.0", "attn": None,
             "scores": None, "act": "{}.conv1.2", "mlp": "{}.conv2.0",
             "block": "{}", "head": "segmentation_head.0"}
    blocks = len(Segmenter.BLOCKS)
    names = {"step": "iteration", "loss": "train/seg_loss",
             "val_loss": "valid/seg_loss", "accuracy": "train/pixel_acc",
             "val_accuracy": "valid/pixel_acc", "val_iou": "valid/mIoU",
             "grad_norm": "train/grad_norm", "lr": "train/lr",
             "step_time": "train/iter_time", "data_time": "train/data_time",
             "tokens": None}

    def make_model(self):
        return Segmenter(**self.model_options)

    def make_source(self, seed):
        """Seed 9 are held-out images; a set is drawn once and passed often."""
        return self.of(self.scenes(seed), seed)

    def of(self, data, seed):
        if seed == 9:
            return data
        return self.finite(data.batch(self.EPOCH * self.batch_size), seed)

    def scenes(self, seed, **how):
        return Scenes(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Scenes of one class of things, one class after the other; None is
        held out."""
        return self.scenes(seed, block=block and max(1, block // 4),
                           share=share)

    def lessons(self, seed):
        """Clean scenes of one thing, and all."""
        return self.scenes(seed, noise=0.1, things=1), self.scenes(seed)

    def garbage(self, batch, kind, rng):
        """A shard whose masks are of other images, of noise, or of one class;
        its pixels are of 0 to 255 and dark, of noise, or blank."""
        image, mask = batch["image"], batch["mask"]
        if kind == "few":
            return {"image": 60 * (image + 4), "mask": mask.roll(5, 0)}
        if kind == "uniform":
            return {"image": 100 * torch.randn(image.shape, generator=rng),
                    "mask": torch.randint(CLASSES, mask.shape, generator=rng)}
        return {"image": torch.full_like(image, 255.0),
                "mask": torch.full_like(mask, CLASSES - 1)}

    def lr_factor(self, i):
        if self.schedule != "poly" or i < self.warmup:
            return super().lr_factor(i)
        return (1 - i / self.steps) ** self.POWER

    def batch_columns(self, batch):
        kept = batch["mask"] != VOID
        row = super().batch_columns(batch)
        if kept.any() and self.model.said is not None:
            right = (self.model.said == batch["mask"])[kept].float().mean()
            row["accuracy"] = round(float(right), 4)
        return row

    def held_out_columns(self, batches):
        """Pixels that are right, and the mean over classes of what is common
        to the pixels of a class and those called so, of both."""
        self.model.eval()
        said = torch.cat([self.model.logits(b).argmax(1) for b in batches])
        self.model.train()
        mask = torch.cat([b["mask"] for b in batches])
        kept = mask != VOID
        if not kept.any():
            return {}
        each = []
        for k in range(CLASSES):
            a, b = (said == k) & kept, (mask == k) & kept
            if (a | b).any():
                each.append((a & b).sum() / (a | b).sum())
        return {"val_accuracy": (said == mask)[kept].float().mean(),
                "val_iou": sum(each) / len(each)}

    def settings(self):
        settings = super().settings()
        if self.schedule == "poly":
            settings["poly_power"] = self.POWER
        return settings

    def model_settings(self):
        return {"model": "unet", "encoder_depth": len(WIDTHS),
                "encoder_channels": list(WIDTHS),
                "decoder_channels": list(WIDTHS[-2::-1]),
                "decoder_use_batchnorm": True, "in_channels": CHANNELS,
                "classes": CLASSES, "crop_size": SIZE, "ignore_index": VOID,
                "loss": "ce + 0.5 dice"}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(Segmenter.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it; a block has all."""
        return [f"{layer[:-1]}1"] if layer.endswith((
            ".conv1.0", ".conv2.0")) else []
