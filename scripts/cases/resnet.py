"""A residual classifier of images with BatchNorm: the recipe of vision.

Five directions of a grating times two widths of its stripes are ten classes.
Training passes again and again over one finite set, the rate follows a cosine
that moves once an epoch, and what the norms have learned of their inputs is
no weight: validation uses it, training does not.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family

SIZE, CHANNELS, CLASSES = 12, 3, 10


class Gratings:
    """Stripes in noise, as many images of each class.

    Class c has the direction 36 (c mod 5) degrees and 1.6 or 3 periods over
    the image. The phase is uniform, each channel has an amplitude uniform in
    0.5 to 1.5 and a sign of its own; noise of 0.7 lies on each pixel. So the
    mean of a pixel is 0, its variance 1.03. Of the labels one in twenty is
    drawn anew from all: knowing the process leaves 0.28 nats, knowing nothing
    ln 10 = 2.30.
    """

    PERIODS, NOISE, WRONG = (1.6, 3.0), 0.7, 0.05

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def images(self, kind):
        rows = len(kind)
        angle = (kind % 5) * (math.pi / 5)
        periods = torch.tensor(self.PERIODS)[kind // 5]
        place = torch.arange(SIZE) / SIZE
        along = (angle.cos()[:, None, None] * place[None, None]
                 + angle.sin()[:, None, None] * place[None, :, None])
        phase = self.uniform(0, 2 * math.pi, rows, 1, 1)
        wave = (2 * math.pi * periods[:, None, None] * along + phase).sin()
        gain = self.uniform(0.5, 1.5, rows, CHANNELS, 1, 1)
        sign = self.uniform(-1, 1, rows, CHANNELS, 1, 1).sign()
        noise = torch.randn(rows, CHANNELS, SIZE, SIZE, generator=self.rng)
        return gain * sign * wave[:, None] + self.NOISE * noise

    def batch(self, rows=40):
        kind = torch.randint(CLASSES, (rows,), generator=self.rng)
        return self.of(kind)

    def of(self, kind):
        """Images of these classes, and the labels that they get."""
        images = self.images(kind)
        wrong = torch.rand(len(kind), generator=self.rng) < self.WRONG
        drawn = torch.randint(CLASSES, kind.shape, generator=self.rng)
        return {"pixel_values": images,
                "labels": torch.where(wrong, drawn, kind)}


class SortedGratings(sources.ByClass, Gratings):
    """The set as its folders lie."""
    classes, rows = CLASSES, 40


class BasicBlock(nn.Module):
    """Two convolutions and what goes past them; names as in torchvision."""

    def __init__(self, channels, out, stride, options):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = nn.Identity() if channels == out else nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False),
            nn.BatchNorm2d(out))
        self.act = models.ACTIVATIONS[options["activation"]]()
        self.options = options

    def forward(self, x, name, tap):
        tap(f"{name}.conv1.input", x)
        y = self.conv1(x)
        if self.options["half_at"] == f"{name}.conv1":
            y = y.half()
        tap(f"{name}.conv1.output", y)
        y = self.bn1(y.to(x.dtype))
        tap(f"{name}.relu.input", y)
        y = self.act(y)
        tap(f"{name}.relu.output", y)
        y = self.conv2(y)
        tap(f"{name}.conv2.output", y)
        y = self.bn2(y)
        tap(f"{name}.bn2.output", y)
        y = self.act(y + self.downsample(x))
        tap(f"{name}.output", y)
        return y


class Resnet(nn.Module):
    """A stem and three blocks of 16, 24 and 32 channels, at 12, 6 and 3
    pixels a side."""

    BLOCKS = ("layer1.0", "layer2.0", "layer3.0")

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None):
        """detach_after: the part behind which the graph is cut."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        options = {"activation": activation, "half_at": half_at}
        self.conv1 = nn.Conv2d(CHANNELS, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.act = models.ACTIVATIONS[activation]()
        for i, shape in enumerate(((16, 16, 1), (16, 24, 2), (24, 32, 2))):
            block = BasicBlock(*shape, options)
            setattr(self, f"layer{i + 1}", nn.Sequential(block))
        self.fc = nn.Linear(32, CLASSES)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
        self.said = None    # the last logits of training, for the accuracy

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def forward(self, x):
        x = self.conv1(x.to(self.conv1.weight.dtype))
        self.tap("conv1.output", x)
        if self.detach_after == "conv1":
            x = x.detach()
        x = self.bn1(x)
        self.tap("bn1.output", x)
        x = self.act(x)
        for name in self.BLOCKS:
            x = self.get_submodule(name)(x, name, self.tap)
            if self.detach_after == name:
                x = x.detach()
        x = x.mean((2, 3))
        self.tap("avgpool.output", x)
        x = self.fc(F.dropout(x, self.dropout,
                              self.training and self.dropout > 0))
        self.tap("fc.output", x)
        if self.training:
            self.said = x.detach()
        return x

    def logits(self, batch):
        return self(batch["pixel_values"])

    def loss(self, batch):
        loss = F.cross_entropy(self.logits(batch).float(), batch["labels"])
        self.tap("loss.output", loss)
        return loss


class ResnetRun(Family):
    """SGD with momentum and weight decay over four epochs, a cosine in steps,
    neither warm-up nor clipping."""

    family = "resnet"
    level_seed = 400
    steps, seed, language, classes = 300, 100, False, CLASSES
    optimizer_name, lr, momentum, weight_decay = "sgd", 0.1, 0.9, 5e-4
    recipes = {"adamw": dict(lr=3e-3, weight_decay=0.01)}
    warmup, schedule, clip = 0, "cosine", None
    batch_size, context = 40, SIZE * SIZE
    EPOCH = 75              # steps: 3000 images
    layers = ["conv1", "bn1", *(
        f"{block}.{part}" for block in Resnet.BLOCKS
        for part in ("conv1", "relu", "conv2")), *Resnet.BLOCKS, "fc"]
    paths = {"embed": "conv1", "attn": None, "scores": None,
             "act": "{}.relu", "mlp": "{}.conv2", "block": "{}", "head": "fc"}
    blocks = len(Resnet.BLOCKS)
    names = {"step": "iter", "loss": "loss/train", "val_loss": "loss/val",
             "accuracy": "accuracy/train", "val_accuracy": "accuracy/val",
             "grad_norm": "total_norm", "step_time": "batch_time",
             "tokens": None}

    def make_model(self):
        return Resnet(**self.model_options)

    def make_source(self, seed):
        """Seed 9 are held-out images; a set is drawn once and passed often."""
        data = Gratings(seed)
        if seed == 9:
            return data
        return self.finite(data.batch(self.EPOCH * self.batch_size), seed)

    def in_blocks(self, seed, block, share):
        """Training data that nobody has shuffled."""
        if block is None:
            return Gratings(seed)
        return SortedGratings(seed, max(1, block // 4), share)

    def lr_factor(self, i):
        """Once an epoch, as a scheduler is stepped in most vision code."""
        return super().lr_factor(i // self.EPOCH * self.EPOCH)

    def batch_columns(self, batch):
        said = self.model.said.argmax(-1)
        right = (said == batch["labels"]).float().mean()
        return super().batch_columns(batch) | {
            "accuracy": round(float(right), 4)}

    def held_out_columns(self, batches):
        self.model.eval()
        said = torch.cat([self.model.logits(b).argmax(-1) for b in batches])
        self.model.train()
        right = said == torch.cat([b["labels"] for b in batches])
        return {"val_accuracy": right.float().mean()}

    def model_settings(self):
        return {"model": "resnet", "block": "basic", "layers": [1, 1, 1],
                "widths": [16, 24, 32], "norm_layer": "batch_norm",
                "image_size": SIZE, "in_channels": CHANNELS,
                "num_classes": CLASSES}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(Resnet.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it; a block has all."""
        block, _, part = layer.rpartition(".")
        return [f"{block}.{part.replace('conv', 'bn')}"] \
            if block and part.startswith("conv") else []
