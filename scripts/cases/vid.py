"""A small classifier of clips: which way does a pattern drift?

A residual network over time and space, as people train it with PyTorchVideo:
its slow pathway of bottleneck blocks, in which a convolution over time comes
before one over space, in a LightningModule of its tutorial. Parts are named as
create_resnet() names them.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import lightning_checkpoints, models, sources
from .family import Family
from .models import Group

FRAMES, SIZE, CLASSES, VIEWS = 6, 10, 8, 4
ROWS = 32
# Channels of the stem, then of each stage: in the middle, behind it.
STEM, WIDE = 16, ((16, 32), (24, 48))
IGNORE = -100


class Drifts:
    """Clips of a pattern that moves a pixel a frame, one way of eight.

    A pattern is smooth noise of a deviation of 1 without an edge (what leaves
    on one side comes in on the other), another one in each clip, and moves
    right, down right, down and so on, one pixel a frame along each axis that
    it moves on. So one frame says nothing about the class. Each clip has a
    brightness uniform in -.5 to .5 and a contrast uniform in .6 to 1.4, each
    pixel of each frame noise of .5. A clip stands still with .04, whatever its
    label is; of the labels .06 are drawn anew from all. Who knows the process
    has .38 nats, who knows nothing ln 8 = 2.08.

    Clips are (row, channel, frame, height, width), of one channel.

    block, share: one class after the other, by blocks of so many batches;
    views: a camera's brightness and noise go with the clip, and its number is
    in the batch as domain. clean: no noise, no still clips, no wrong labels.
    """

    NOISE, STILL, WRONG = 0.5, 0.04, 0.06
    WAYS = torch.tensor([(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1),
                         (-1, 0), (-1, 1)])

    def __init__(self, seed, rows=ROWS, views=False, clean=False):
        self.rng, self.rows = torch.Generator().manual_seed(seed), rows
        self.views, self.clean = views, clean

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def patterns(self, rows):
        """Noise that a window of three pixels has made smooth, twice."""
        x = torch.randn(rows, 1, SIZE, SIZE, generator=self.rng)
        x = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="circular"), 3, 1)
        return x / x.std((2, 3), keepdim=True)

    def clips(self, kind):
        rows, base = len(kind), self.patterns(len(kind))
        still = torch.rand(rows, generator=self.rng) < self.STILL
        way = self.WAYS[kind] * ~(still & (not self.clean))[:, None]
        place = torch.arange(SIZE)
        frames = []
        for t in range(FRAMES):
            down = (place - t * way[:, :1]) % SIZE
            along = (place - t * way[:, 1:]) % SIZE
            frames.append(base[torch.arange(rows)[:, None, None], 0,
                               down[:, :, None], along[:, None]])
        x = torch.stack(frames, 1)[:, None]
        shape = (rows, 1, 1, 1, 1)
        x = x * self.uniform(0.6, 1.4, *shape) + self.uniform(-.5, .5, *shape)
        noise = torch.randn(x.shape, generator=self.rng)
        return x, noise

    def batch(self, rows=None):
        kind = torch.randint(CLASSES, (rows or self.rows,), generator=self.rng)
        return self.of(kind)

    def of(self, kind):
        """Clips of these classes, and the labels that they get."""
        x, noise = self.clips(kind)
        wrong = torch.rand(len(kind), generator=self.rng) < self.WRONG
        drawn = torch.randint(CLASSES, kind.shape, generator=self.rng)
        if self.clean:
            return {"video": x, "label": kind}
        batch = {"video": x + self.NOISE * noise,
                 "label": torch.where(wrong, drawn, kind)}
        if self.views:
            view = torch.randint(VIEWS, kind.shape, generator=self.rng)
            at = view[:, None, None, None, None].float()
            batch["video"] = x + (0.4 + 0.07 * at) * noise + 0.2 * at - 0.3
            batch["domain"] = view
        return batch


class SortedDrifts(sources.ByClass, Drifts):
    """The set as its folders lie."""
    classes, rows = CLASSES, ROWS


class Bottleneck(nn.Module):
    """Over time, over space, and to the width behind; names as there."""

    def __init__(self, channels, inner, out, stride, name, options):
        super().__init__()
        self.name, self.options = name, options
        self.branch1_conv = nn.Conv3d(channels, out, 1, (1, stride, stride),
                                      bias=False)
        self.branch1_norm = nn.BatchNorm3d(out)
        act = models.ACTIVATIONS[options["activation"]]
        self.branch2 = Group(
            conv_a=nn.Conv3d(channels, inner, (3, 1, 1), padding=(1, 0, 0),
                             bias=False),
            norm_a=nn.BatchNorm3d(inner), act_a=act(),
            conv_b=nn.Conv3d(inner, inner, (1, 3, 3), (1, stride, stride),
                             (0, 1, 1), bias=False),
            norm_b=nn.BatchNorm3d(inner), act_b=act(),
            conv_c=nn.Conv3d(inner, out, 1, bias=False),
            norm_c=nn.BatchNorm3d(out))
        self.activation = act()

    def forward(self, x, tap):
        y, parts = x, self.branch2
        for k in "abc":
            name = f"{self.name}.branch2.conv_{k}"
            tap(f"{name}.input", y)
            y = getattr(parts, f"conv_{k}")(y)
            if self.options["detach_after"] == name:  # on both ways
                x, y = x.detach(), y.detach()
            if self.options["half_at"] == name:
                y = y.half()
            tap(f"{name}.output", y)
            y = getattr(parts, f"norm_{k}")(y.to(x.dtype))
            if k == "c":
                break
            name = name.replace("conv", "act")
            tap(f"{name}.input", y)
            y = getattr(parts, f"act_{k}")(y)
            tap(f"{name}.output", y)
        y = self.activation(y + self.branch1_norm(self.branch1_conv(x)))
        tap(f"{self.name}.output", y)
        return y


class SlowResnet(nn.Module):
    """A stem over space and two blocks, of 10 and 5 pixels a side."""

    BLOCKS = ("model.blocks.1.res_blocks.0", "model.blocks.2.res_blocks.0")

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None):
        """detach_after: the part behind which the graph is cut. half_at: the
        convolution whose output is in half precision."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.squashes = self.guards = False
        options = {"activation": activation, "half_at": half_at,
                   "detach_after": detach_after}
        blocks, wide = [Group(
            conv=nn.Conv3d(1, STEM, (1, 3, 3), padding=(0, 1, 1), bias=False),
            norm=nn.BatchNorm3d(STEM),
            activation=models.ACTIVATIONS[activation]())], STEM
        for i, (inner, out) in enumerate(WIDE):
            blocks.append(Group(res_blocks=nn.ModuleList([Bottleneck(
                wide, inner, out, 1 + i, self.BLOCKS[i], options)])))
            wide = out
        blocks.append(Group(proj=nn.Linear(wide, CLASSES)))
        self.model = Group(blocks=nn.ModuleList(blocks))
        for m in self.modules():
            if isinstance(m, nn.Conv3d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
        nn.init.normal_(blocks[-1].proj.weight, std=0.01)
        nn.init.zeros_(blocks[-1].proj.bias)
        self.said = None        # the last logits of training

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def forward(self, x):
        stem, *stages, head = self.model.blocks
        x = stem.conv(x.to(stem.conv.weight.dtype))
        self.tap("model.blocks.0.conv.output", x)
        x = self.cut(x, "model.blocks.0.conv")
        x = stem.norm(x)
        self.tap("model.blocks.0.norm.output", x)
        x = stem.activation(x)
        for name, stage in zip(self.BLOCKS, stages):
            x = self.cut(stage.res_blocks[0](x, self.tap), name)
        x = x.mean((2, 3, 4))
        self.tap("model.blocks.3.pool.output", x)
        x = head.proj(F.dropout(x, self.dropout,
                                self.training and self.dropout > 0))
        self.tap("model.blocks.3.proj.output", x)
        if self.training:
            self.said = x.detach()
        return x

    def logits(self, batch):
        return self(batch["video"])

    def criterion(self, logits, batch, label_smoothing=0.0):
        logits, labels = logits.float(), batch["label"]
        if labels.dim() == 2:   # shares of classes
            return -(labels * logits.log_softmax(-1)).sum(-1).mean()
        if self.squashes:
            logits = logits.softmax(-1)
        if self.guards:
            return F.cross_entropy(logits, labels, reduction="sum",
                                   ignore_index=IGNORE) \
                / (labels != IGNORE).sum().clamp_min(1)
        return F.cross_entropy(logits, labels, ignore_index=IGNORE,
                               label_smoothing=label_smoothing)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class VidRun(Family):
    """SGD with momentum and a cosine that moves with each step, as the
    tutorial has it; neither warm-up nor clipping. A set of 2400 clips is
    passed again and again."""

    family = "vid"
    level_seed = 400
    steps, seed, language, classes = 240, 1160, False, CLASSES
    optimizer_name, lr, momentum, weight_decay = "sgd", 0.1, 0.9, 1e-4
    recipes = {"adamw": dict(lr=1e-2, weight_decay=0.01)}
    warmup, schedule, clip = 0, "cosine", None
    batch_size, context = ROWS, FRAMES * SIZE * SIZE
    epoch_steps = 60
    # Its users have Lightning.
    instead = {"hf_trainer": "lightning", "megatron": "lightning",
               "torchtune": "lightning"}
    layers = ["model.blocks.0.conv", "model.blocks.0.norm", *(
        f"{block}.branch2.{part}" for block in SlowResnet.BLOCKS
        for part in ("conv_a", "act_a", "conv_b", "act_b", "conv_c")),
        *SlowResnet.BLOCKS, "model.blocks.3.proj"]
    # Norms behind all convolutions take out what others suffer from.
    STAGES = [f"model.blocks.{i}.res_blocks.0" for i in (1, 2)]
    graded = {
        "F01": (dict(factor=10), dict(factor=20), dict(factor=40)),
        "F04": (dict(at=75), dict(at=30), dict(at=0)),
        "F05": (dict(modules=STAGES), dict(modules=["model.blocks.3.proj"]),
                dict(part="all")),
        "F07": (dict(factor=100), dict(factor=400), dict(factor=2000)),
        "F09": (dict(parts=12, logs_sum=False), dict(parts=16, logs_sum=True),
                dict(parts=24, logs_sum=True)),
        "F11": (dict(sgd=0.06), dict(sgd=0.1), dict(sgd=0.5)),
        "F12": (dict(eps=0.03), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path=f"{STAGES[1]}.branch2.conv_a"),
                dict(path=f"{STAGES[1]}.branch2.conv_b"),
                dict(path=STAGES[1])),
        "F14": (dict(modules=STAGES),
                dict(modules=[*STAGES, "model.blocks.3.proj"]),
                dict(modules=[*STAGES, "model.blocks.0.norm",
                              "model.blocks.3.proj"])),
        "F16": (dict(rate=0.2), dict(rate=0.4), dict(rate=1.0)),
        "F24": (dict(share=0.2), dict(share=0.4), dict(share=0.6)),
        "F27": (dict(epochs=60), dict(epochs=120), dict(epochs=240)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "H02": (dict(factor=0.8), dict(factor=0.65)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7))}
    paths = {"embed": "model.blocks.0.conv", "attn": None, "scores": None,
             "act": "{}.branch2.act_a", "mlp": "{}.branch2.conv_b",
             "block": "{}", "head": "model.blocks.3.proj"}
    blocks = len(SlowResnet.BLOCKS)
    names = {"accuracy": "train_acc", "val_accuracy": "val_acc",
             "grad_norm": "grad_2.0_norm_total", "tokens": None}

    def make_model(self):
        return SlowResnet(**self.model_options)

    def make_source(self, seed):
        """Seed 9 are held-out clips; a set is drawn once and passed often."""
        data = Drifts(seed, self.batch_size)
        if seed == 9:
            return data
        return self.finite(data.batch(self.set_size()), seed)

    def set_size(self):
        return self.epoch_steps * self.batch_size

    def drifts(self, seed, **how):
        """Without end."""
        return Drifts(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Training data that nobody has shuffled."""
        if block is None:
            return self.drifts(seed)
        return SortedDrifts(seed, max(1, block // 3), share)

    def lessons(self, seed):
        return self.drifts(seed, clean=True), self.drifts(seed)

    def easy(self, seed):
        return self.drifts(seed, clean=True)

    def batch_columns(self, batch):
        label = batch["label"]
        label = label.argmax(-1) if label.dim() == 2 else label
        right = (self.model.said.argmax(-1) == label).float().mean()
        return super().batch_columns(batch) | {
            "accuracy": round(float(right), 4)}

    def held_out_columns(self, batches):
        self.model.eval()
        said = torch.cat([self.model.logits(b).argmax(-1) for b in batches])
        self.model.train()
        right = said == torch.cat([b["label"] for b in batches])
        return {"val_accuracy": right.float().mean()}

    def model_settings(self):
        options = self.model_options
        return {"model": "slow_resnet", "input_channel": 1,
                "model_num_class": CLASSES, "norm": "BatchNorm3d",
                "activation": options.get("activation", "relu"),
                "stem_conv_kernel_size": [1, 3, 3],
                "stage_conv_a_kernel_size": [3, 1, 1],
                "stage_conv_b_kernel_size": [1, 3, 3],
                "stage_channels": [out for _, out in WIDE],
                "dropout_rate": options.get("dropout", 0.0),
                "num_frames": FRAMES, "crop_size": SIZE,
                "clip_sampler": "constant_clips_per_video"}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(SlowResnet.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it; a block has all."""
        block, _, part = layer.rpartition(".")
        return [f"{block}.{part.replace('conv', 'norm')}"] \
            if part.startswith("conv") else []

    # Checkpoints.

    def checkpoint_path(self, step):
        return f"checkpoints/epoch={(step - 1) // self.epoch_steps}-" \
            f"step={step}.ckpt"

    def keep_checkpoint(self, i, model):
        lightning_checkpoints.keep(self, i, model, lambda done: {
            "base_lrs": [self.lr], "last_epoch": done,
            "_step_count": done + 1,
            "_last_lr": self.scheduler.get_last_lr()}, self.epoch_steps)

    def write_more(self):
        super().write_more()
        lightning_checkpoints.write(self)
