"""A denoiser of small images: the family that is neither text nor classifier.

A diffusion model in miniature. Images of one drawn shape each get noise of a
known strength, and a U-Net with a time embedding predicts that noise. Names of
layers are those of such code, tensors are (rows, channels, height, width), the
loss is a mean squared error of which a fresh model has about 1, and validation
is done twice, with the weights and with their moving average.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family

SIZE, TIMESTEPS = 12, 100


def noise_levels():
    """Cosine schedule: the share of the image in the variance, by timestep."""
    t = torch.arange(1, TIMESTEPS + 1) / TIMESTEPS
    share = ((t + 0.008) / 1.008 * math.pi / 2).cos().square()
    return (share / math.cos(0.008 / 1.008 * math.pi / 2) ** 2).clamp(1e-4, 1)


class Shapes:
    """A rectangle, a disk or a plus, drawn with 1 on -1, wholly inside.

    Sides of rectangles are uniform in 3 to 7, radii and arms in 2 to 4, places
    uniform. So 15.8 % of the pixels are set (17.4, 21.1 and 9.0 % by kind):
    the mean of a pixel is -0.68, its variance 0.53.
    """

    KINDS = 3

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)

    def uniform(self, low, high, rows):
        """Integers of [low, high], (rows, 1, 1); bounds may be tensors."""
        low, high = torch.as_tensor(low), torch.as_tensor(high)
        draw = torch.rand(rows, 1, 1, generator=self.rng)
        return low + (draw * (high - low + 1)).long()

    def images(self, rows):
        kind = self.uniform(0, self.KINDS - 1, rows)
        y, x = torch.arange(SIZE)[None, :, None], torch.arange(SIZE)
        height, width = self.uniform(3, 7, rows), self.uniform(3, 7, rows)
        top = self.uniform(0, SIZE - height, rows)
        left = self.uniform(0, SIZE - width, rows)
        box = ((y >= top) & (y < top + height)
               & (x >= left) & (x < left + width))
        arm = self.uniform(2, 4, rows)
        dy = y - self.uniform(arm, SIZE - 1 - arm, rows)
        dx = x - self.uniform(arm, SIZE - 1 - arm, rows)
        disk = dy ** 2 + dx ** 2 <= arm ** 2
        plus = ((dy == 0) & (dx.abs() <= arm)) | ((dx == 0)
                                                  & (dy.abs() <= arm))
        drawn = torch.where(kind == 0, box, torch.where(kind == 1, disk, plus))
        return drawn[:, None].float() * 2 - 1

    def noise(self, images):
        rows = len(images)
        return {"timestep": torch.randint(TIMESTEPS, (rows,),
                                          generator=self.rng),
                "noise": torch.randn(images.shape, generator=self.rng)}

    def batch(self, rows=16):
        images = self.images(rows)
        return {"image": images, **self.noise(images)}


class FewShapes(sources.Finite):
    """A set of some images; timestep and noise are new in each pass."""

    def __init__(self, data, rows, seed):
        super().__init__(data, rows, seed)
        self.fresh = Shapes(seed + 1)

    def batch(self, rows=None):
        images = super().batch(rows)["image"]
        return {"image": images, **self.fresh.noise(images)}


class ResBlock(nn.Module):
    """Two convolutions behind GroupNorms; the time comes in between."""

    def __init__(self, channels, out, options):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, channels)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.temb = nn.Linear(32, out)
        self.norm2 = nn.GroupNorm(4, out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.shortcut = nn.Identity() if channels == out \
            else nn.Conv2d(channels, out, 1)
        self.act = models.ACTIVATIONS[options["activation"]]()
        self.options = options

    def forward(self, x, time, name, tap, drop):
        y = self.norm1(x)
        tap(f"{name}.norm1.output", y)
        y = self.act(y)
        tap(f"{name}.conv1.input", y)
        y = self.conv1(y)
        if self.options["half_at"] == f"{name}.conv1":
            y = y.half()
        tap(f"{name}.conv1.output", y)
        y = y.to(time.dtype) + self.temb(time)[:, :, None, None]
        y = self.norm2(y)
        tap(f"{name}.act2.input", y)
        y = self.act(y)
        tap(f"{name}.act2.output", y)
        y = self.conv2(drop(y))
        tap(f"{name}.conv2.output", y)
        y = y + self.shortcut(x)
        tap(f"{name}.output", y)
        return y


class Unet(nn.Module):
    """Two levels of 16 and 32 channels, at 12, 6 and 3 pixels a side."""

    BLOCKS = ("down.0", "down.1", "mid", "up.0", "up.1")
    WIDTHS = ((16, 16), (16, 32), (32, 32), (64, 16), (32, 16))

    def __init__(self, activation="silu", dropout=0.0, detach_after=None,
                 half_at=None, skip_shift=0):
        """detach_after: the part behind which the graph is cut. skip_shift:
        pixels by which the upper skip connection is moved."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.skip_shift = skip_shift
        options = {"activation": activation, "half_at": half_at}
        blocks = [ResBlock(*w, options) for w in self.WIDTHS]
        self.time = nn.ModuleDict({"fc1": nn.Linear(16, 32),
                                   "fc2": nn.Linear(32, 32)})
        self.conv_in = nn.Conv2d(1, 16, 3, padding=1)
        self.down = nn.ModuleList(blocks[:2])
        self.mid = blocks[2]
        self.up = nn.ModuleList(blocks[3:])
        self.norm_out = nn.GroupNorm(4, 16)
        self.conv_out = nn.Conv2d(16, 1, 3, padding=1)
        self.register_buffer("levels", noise_levels(), persistent=False)

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def block(self, name, x, time):
        x = self.get_submodule(name)(x, time, name, self.tap, self.drop)
        return x.detach() if name == self.detach_after else x

    def embedded(self, timestep):
        rate = 1000.0 ** (-torch.arange(8) / 8)
        angle = timestep[:, None].float() * rate
        x = torch.cat((angle.sin(), angle.cos()), -1).to(
            self.conv_in.weight.dtype)
        x = self.time["fc2"](F.silu(self.time["fc1"](x)))
        self.tap("time.fc2.output", x)
        return F.silu(x)

    def forward(self, x, timestep):
        time = self.embedded(timestep)
        x = self.conv_in(x.to(self.conv_in.weight.dtype))
        self.tap("conv_in.output", x)
        if self.detach_after == "conv_in":
            x = x.detach()
        upper = self.block("down.0", x, time)
        lower = self.block("down.1", F.avg_pool2d(upper, 2), time)
        x = self.block("mid", F.avg_pool2d(lower, 2), time)
        x = torch.cat((F.interpolate(x, scale_factor=2), lower), 1)
        x = self.block("up.0", x, time)
        if self.skip_shift:
            upper = upper.roll(self.skip_shift, -1)
        x = torch.cat((F.interpolate(x, scale_factor=2), upper), 1)
        x = self.block("up.1", x, time)
        x = self.norm_out(x)
        self.tap("norm_out.output", x)
        x = self.conv_out(F.silu(x))
        self.tap("conv_out.output", x)
        return x

    def noisy(self, batch):
        level = self.levels[batch["timestep"]].float()[:, None, None, None]
        return level.sqrt() * batch["image"] \
            + (1 - level).sqrt() * batch["noise"]

    def logits(self, batch):
        """What the network says; the other families' name for it."""
        return self(self.noisy(batch), batch["timestep"])

    def loss(self, batch):
        predicted = self.logits(batch).float()
        loss = F.mse_loss(predicted, batch.get("target", batch["noise"]))
        self.tap("loss.output", loss)
        return loss


class UnetRun(Family):
    """AdamW at a constant rate behind a short warm-up, an average of the
    weights for validation."""

    family = "unet"
    level_seed = 400
    steps, seed, language = 260, 60, False
    lr, warmup, schedule, clip = 2e-3, 10, "constant", 1.0
    betas, weight_decay = (0.9, 0.99), 0.01
    recipes = {"sgd": dict(lr=0.1, weight_decay=0.0)}
    batch_size, context = 16, SIZE * SIZE
    EMA = 0.98
    layers = ["time.fc2", "conv_in", *(
        f"{block}.{part}" for block in Unet.BLOCKS
        for part in ("conv1", "act2", "conv2")), "norm_out", "conv_out"]
    paths = {"embed": "conv_in", "attn": None, "scores": None,
             "act": "{}.act2", "mlp": "{}.conv2", "block": "{}",
             "head": "conv_out"}
    blocks = len(Unet.BLOCKS)
    names = {"loss": "train_loss", "tokens": None}

    def make_model(self):
        return Unet(**self.model_options)

    def make_source(self, seed):
        return Shapes(seed)

    def finite(self, data, seed):
        return FewShapes(data, self.batch_size, seed)

    def update(self, i):
        """Begins to average at a short memory, as such averages do."""
        total = super().update(i)
        if i == 0:
            self.average = copy.deepcopy(self.model)
            self.average.tap = Unet.tap
        decay = min(self.EMA, (1 + i) / (10 + i))
        with torch.no_grad():
            for a, p in zip(self.average.parameters(),
                            self.model.parameters()):
                a.lerp_(p.detach(), 1 - decay)
        return total

    def held_out_columns(self, batches):
        self.average.eval()
        losses = [self.average.loss(b) for b in batches]
        return {"val_loss_ema": sum(losses) / len(losses)}

    def model_settings(self):
        return {"model": "unet2d", "sample_size": SIZE, "in_channels": 1,
                "block_out_channels": [16, 32], "norm_num_groups": 4,
                "num_train_timesteps": TIMESTEPS, "beta_schedule": "cosine",
                "prediction_type": "epsilon", "ema_decay": self.EMA}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(Unet.BLOCKS[block])

    def fed_by(self, layer):
        block, _, part = layer.rpartition(".")
        return {"conv1": [f"{block}.norm1"],
                "conv2": [f"{block}.norm2", f"{block}.temb"]}.get(part, [])
