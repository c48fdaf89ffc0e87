"""A picture classifier, as timm's train.py trains a small ConvNeXt.

A stem of patches, two stages of blocks (a depthwise convolution, a norm, two
maps, a layer scale) and a head behind a mean; whole branches are dropped at
random. Pictures are erased in part, mixed by pairs or pasted into each other
before the model sees them, so that targets of training are soft and its loss
lies above that of validation, which has pictures as they are and the averaged
weights. Parts, arguments, lines, summary.csv and checkpoints are named as in
timm.
"""

import argparse
import copy
import math
import os

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family

SIZE, CHANNELS, CLASSES, ROWS = 16, 3, 12, 32
HELD_OUT = 64           # rows of a batch of validation, whatever training has
DIMS, DEPTHS, PATCH, KERNEL, RATIO = (16, 32), (1, 2), 2, 3, 2
AHEAD = 10              # batches that are drawn at once
CAMERAS = 3
NAME = "convnext_tiny_signs"
# Of signs: red, green, blue.
COLOURS = torch.tensor([[1.3, -0.6, -0.6], [-0.6, 1.3, -0.6],
                        [-0.6, -0.6, 1.3]])


class Signs:
    """Round road signs on grey ground, one a picture.

    Class c has of three colours one for the rim (c // 4) and one of the other
    two for the middle (c // 2 % 2), and is small or large (c % 2): a radius of
    3.4 to 4.6 pixels, or of 5.4 to 6.6, of which the middle has .55 to .63.
    Signs lie anywhere; about its kind's colours those of a sign are drawn
    (.25), and how light it is (.3). The ground has a level and a slope; noise
    of .3 lies on all numbers. Of the labels .06 are drawn anew from all:
    knowing the process leaves .34 nats, knowing nothing ln 12 = 2.48.

    clean: neither noise nor wrong labels, and small ones alone. cameras: three
    of another gain and offset, whose number is in the batch as domain.
    """

    NOISE, WRONG, SPREAD, LIGHT = 0.3, 0.06, 0.25, 0.3

    def __init__(self, seed, rows=ROWS, clean=False, cameras=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.clean, self.cameras = rows, clean, cameras
        self.ahead = {}
        place = torch.arange(SIZE) + 0.5
        self.y, self.x = torch.meshgrid(place, place, indexing="ij")

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def images(self, kind):
        rows = len(kind)
        large = (kind % 2)[:, None, None]
        half = 3.4 + 2.0 * large + self.uniform(0, 1.2, rows, 1, 1)
        middle = half + (SIZE - 2 * half) * torch.rand(
            2, rows, 1, 1, generator=self.rng)
        dx, dy = ((at - m) / half for at, m in zip((self.x, self.y), middle))
        far = (dx.square() + dy.square()).sqrt()
        rim, core = kind // 4, kind // 2 % 2
        core = core + (core >= rim)
        rim, core = (COLOURS[c] + self.SPREAD * torch.randn(
            rows, CHANNELS, generator=self.rng) for c in (rim, core))
        light = self.LIGHT * torch.randn(rows, 1, 1, generator=self.rng)
        inside = far < self.uniform(0.55, 0.63, rows, 1, 1)
        sign = torch.where(inside[:, None], core[..., None, None],
                           rim[..., None, None])
        steep = self.uniform(-0.03, 0.03, 2, rows, 1, 1)
        ground = self.uniform(-0.5, 0.5, rows, 1, 1) \
            + steep[0] * (self.x - SIZE / 2) + steep[1] * (self.y - SIZE / 2)
        image = torch.where((far < 1)[:, None],
                            sign + light[:, None], ground[:, None])
        noise = torch.randn(image.shape, generator=self.rng)
        return image + (0.05 if self.clean else self.NOISE) * noise

    def batch(self, rows=None):
        """One of those that were drawn ahead, which is faster."""
        rows = rows or self.rows
        drawn = self.ahead.setdefault(rows, [])
        if not drawn:
            many = self.of(torch.randint(
                CLASSES, (AHEAD * rows,), generator=self.rng))
            drawn.extend({k: t[n * rows:(n + 1) * rows].clone()
                          for k, t in many.items()}
                         for n in reversed(range(AHEAD)))
        return drawn.pop()

    def of(self, kind):
        """Pictures of these classes, and the labels that they get."""
        if self.clean:
            kind = kind // 2 * 2
        image = self.images(kind)
        wrong = torch.rand(len(kind), generator=self.rng) < self.WRONG
        drawn = torch.randint(CLASSES, kind.shape, generator=self.rng)
        batch = {"input": image, "target": kind if self.clean else
                 torch.where(wrong, drawn, kind)}
        if self.cameras:
            camera = torch.randint(CAMERAS, kind.shape, generator=self.rng)
            each = camera[:, None, None, None] - 1.0
            batch["input"] = (1 + 0.3 * each) * image + 0.4 * each
            batch["domain"] = camera
        return batch


class ByFolder(sources.ByClass, Signs):
    """The set as its folders lie."""
    classes = CLASSES


class Mixup:
    """timm's Mixup of batches with its own generator, behind RandomErasing;
    `of` gives pictures and soft targets."""

    def __init__(self, seed, told):
        self.rng, self.told = np.random.default_rng(seed), told
        self.off = False    # behind mixup_off_epoch

    def erased(self, x):
        told = self.told
        some = self.rng.random(len(x)) < told["reprob"]
        if not some.any():
            return x
        x, low, high = x.clone(), told["re_min_area"], told["re_max_area"]
        for row in np.flatnonzero(some):
            area = SIZE * SIZE * self.rng.uniform(low, high)
            aspect = math.exp(self.rng.uniform(math.log(0.3),
                                               -math.log(0.3)))
            h, w = (min(SIZE, round(math.sqrt(area * a)))
                    for a in (aspect, 1 / aspect))
            top, left = (self.rng.integers(0, SIZE - s + 1) for s in (h, w))
            x[row, :, top:top + h, left:left + w] = torch.from_numpy(
                self.rng.standard_normal((x.shape[1], h, w))).to(x.dtype)
        return x

    def of(self, x, labels):
        told, rng, lam, box = self.told, self.rng, 1.0, None
        x = self.erased(x)
        mixes, cuts = told["mixup"], told["cutmix"]
        if (mixes or cuts) and not self.off \
                and rng.random() < told["mixup_prob"]:
            pastes = cuts and (not mixes
                               or rng.random() < told["mixup_switch_prob"])
            alpha = cuts if pastes else mixes
            lam = float(rng.beta(alpha, alpha))
            if pastes:
                side = int(SIZE * math.sqrt(1 - lam))
                cy, cx = rng.integers(0, SIZE, 2)
                (yl, yh), (xl, xh) = (np.clip(
                    (c - side // 2, c + side // 2), 0, SIZE)
                    for c in (cy, cx))
                box = (yl, yh, xl, xh)
                lam = 1 - (yh - yl) * (xh - xl) / SIZE ** 2
                x = x.clone()
                x[..., yl:yh, xl:xh] = x.flip(0)[..., yl:yh, xl:xh]
            else:
                x = lam * x + (1 - lam) * x.flip(0)
        low = told["smoothing"] / CLASSES
        soft = low + (1 - told["smoothing"]) * F.one_hot(labels, CLASSES)
        return x, lam * soft + (1 - lam) * soft.flip(0)


class LayerNorm2d(nn.LayerNorm):
    """Over channels, which come second."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Mlp(nn.Module):
    def __init__(self, options, width):
        super().__init__()
        self.fc1 = nn.Linear(width, RATIO * width)
        self.act = models.ACTIVATIONS[options["activation"]]()
        self.fc2 = nn.Linear(RATIO * width, width)


class ConvNeXtBlock(nn.Module):
    def __init__(self, options, width, drop_path):
        super().__init__()
        self.conv_dw = nn.Conv2d(width, width, KERNEL, padding=KERNEL // 2,
                                 groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp = Mlp(options, width)
        self.gamma = nn.Parameter(options["ls_init_value"]
                                  * torch.ones(width))
        self.drop_path, self.half_at = drop_path, options["half_at"]

    def dropped(self, x):
        if not self.training or not self.drop_path:
            return x
        kept = torch.rand(len(x), 1, 1, 1) >= self.drop_path
        return x * kept.to(x.dtype) / (1 - self.drop_path)

    def forward(self, x, name, tap):
        y = self.conv_dw(x)
        tap(f"{name}.conv_dw.output", y)
        y = self.norm(y.permute(0, 2, 3, 1))
        tap(f"{name}.mlp.fc1.input", y)
        y = self.mlp.fc1(y)
        if self.half_at == f"{name}.mlp.fc1":
            y = y.half()
        tap(f"{name}.mlp.fc1.output", y)
        y = y.to(x.dtype)
        tap(f"{name}.mlp.act.input", y)
        y = self.mlp.act(y)
        tap(f"{name}.mlp.act.output", y)
        y = self.mlp.fc2(y)
        tap(f"{name}.mlp.output", y)
        y = (y * self.gamma).permute(0, 3, 1, 2)
        x = x + self.dropped(y)
        tap(f"{name}.output", x)
        return x


class ConvNeXtStage(nn.Module):
    def __init__(self, options, width, out, drop_paths, first):
        super().__init__()
        self.downsample = nn.Identity() if first else nn.Sequential(
            LayerNorm2d(width, eps=1e-6), nn.Conv2d(width, out, 2, 2))
        self.blocks = nn.Sequential(*(ConvNeXtBlock(options, out, rate)
                                      for rate in drop_paths))


class Head(nn.Module):
    """NormMlpClassifierHead: a mean, a norm, a map."""

    def __init__(self, width):
        super().__init__()
        self.norm = LayerNorm2d(width, eps=1e-6)
        self.fc = nn.Linear(width, CLASSES)


class ConvNeXt(nn.Module):
    """A block of 16 channels at 8 pixels a side, two of 32 at 4."""

    BLOCKS = tuple(f"stages.{i}.blocks.{k}" for i, depth in enumerate(DEPTHS)
                   for k in range(depth))
    INIT = 0.25             # .02 is for widths of hundreds

    def __init__(self, activation="gelu", dropout=0.0, detach_after=(),
                 half_at=None, drop_path=0.1, ls_init_value=1.0):
        """detach_after: the parts behind which the graph is cut. half_at: the
        map whose output is in half precision."""
        super().__init__()
        self.dropout = dropout
        self.detach_after = (detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)
        options = {"activation": activation, "half_at": half_at,
                   "ls_init_value": ls_init_value}
        rates = torch.linspace(0, drop_path, sum(DEPTHS)).split(DEPTHS)
        self.stem = nn.Sequential(
            nn.Conv2d(CHANNELS, DIMS[0], PATCH, PATCH),
            LayerNorm2d(DIMS[0], eps=1e-6))
        self.stages = nn.Sequential(*(
            ConvNeXtStage(options, DIMS[max(0, i - 1)], DIMS[i],
                          rates[i].tolist(), i == 0)
            for i in range(len(DIMS))))
        self.head = Head(DIMS[-1])
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(m.weight, std=self.INIT)
                nn.init.zeros_(m.bias)
        nn.init.trunc_normal_(self.head.fc.weight, std=0.02)
        self.mixup, self.squashes = None, False
        self.averaged = ()  # in evaluation it speaks for this one

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if name in self.detach_after else x

    def forward(self, x):
        x = self.stem[0](x.to(self.stem[0].weight.dtype))
        self.tap("stem.0.output", x)
        x = self.cut(self.stem[1](x), "stem")
        for i, stage in enumerate(self.stages):
            x = stage.downsample(x)
            if i:
                self.tap(f"stages.{i}.downsample.1.output", x)
            for k, block in enumerate(stage.blocks):
                name = f"stages.{i}.blocks.{k}"
                x = self.cut(block(x, name, self.tap), name)
            x = self.cut(x, f"stages.{i}")
        x = self.head.norm(x.mean((2, 3), keepdim=True)).flatten(1)
        self.tap("head.norm.output", x)
        x = F.dropout(x, self.dropout, self.training and self.dropout > 0)
        x = self.head.fc(x)
        self.tap("head.fc.output", x)
        return x

    def logits(self, batch):
        """In training of what is mixed of the batch, which it becomes."""
        if self.training and self.mixup \
                and not batch["target"].is_floating_point():
            batch["input"], batch["target"] = self.mixup.of(
                batch["input"], batch["target"])
        return self(batch["input"])

    def criterion(self, logits, batch, of_probs=None):
        """SoftTargetCrossEntropy; validation has the plain one. of_probs:
        what the loss is of probabilities and targets instead."""
        logits, target = logits.float(), batch["target"]
        if self.squashes:
            logits = logits.softmax(-1)
        if of_probs:
            return of_probs(logits.softmax(-1), target)
        if not target.is_floating_point():
            return F.cross_entropy(logits, target)
        return -(target * logits.log_softmax(-1)).sum(-1).mean()

    def loss(self, batch):
        if self.averaged and not self.training:
            return self.averaged[0].loss(batch)
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


# What feeds the activations of a block.
BEFORE_ACT = tuple(f"{block}.mlp.fc1" for block in ConvNeXt.BLOCKS)


class TimmRun(Family):
    """AdamW, a warm-up of two epochs from warmup_lr and a cosine to min_lr,
    stepped with updates; decay of weights alone, norms above a threshold
    clipped, an average of the weights."""

    family = "timm"
    level_seed = 400
    steps, seed, language, classes = 200, 2700, False, CLASSES
    lr, warmup, schedule, clip = 1.6e-2, 20, "cosine", 2.0
    WARMUP_LR, MIN_LR = 1e-6, 1e-6
    weight_decay, base = 0.05, {"lr": 4e-3}
    recipes = {"sgd": dict(lr=0.1, weight_decay=1e-4)}
    EPOCH, epoch_steps = 20, 50             # of train.py, of Lightning
    OUTPUT = f"./output/train/20260105-090000-{NAME}-{SIZE}"
    _val_every = 50
    batch_size, context = ROWS, SIZE * SIZE
    # Its users have the trainer's own log.
    instead = {"nanogpt": "timm", "hf_trainer": "timm", "megatron": "timm",
               "torchtune": "timm"}
    TOLD = {"mixup": 0.2, "cutmix": 0.4, "mixup_prob": 0.6,
            "mixup_switch_prob": 0.5, "mixup_off_epoch": 0, "smoothing": 0.1,
            "reprob": 0.2, "re_min_area": 0.02, "re_max_area": 1 / 3,
            "drop_path": 0.1, "layer_decay": None, "model_ema_decay": 0.95}
    layers = ["stem.0", *(f"{block}{part}" for block in ConvNeXt.BLOCKS
                          for part in (".conv_dw", ".mlp.act", ".mlp", "")),
              "stages.1.downsample.1", "head.norm", "head.fc"]
    graded = {
        "F01": (dict(factor=30), dict(factor=100), dict(factor=1000)),
        "F04": (dict(at=100), dict(at=40), dict(at=0)),
        "F05": (dict(modules=["stages"], where="stages.0.blocks.0.conv_dw"),
                dict(modules=["stages", "head"],
                     where="stages.0.blocks.0.conv_dw"), dict(part="all")),
        "F07": (dict(factor=20), dict(factor=40), dict(factor=100)),
        "F12": (dict(eps=0.01), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path="stages.0"), dict(path="stages.1.blocks.0"),
                dict(path="stages.1")),
        "F14": (dict(modules=["stages.0.blocks.0.mlp", "stages.1"]),
                dict(modules=["stages"]),
                dict(modules=["stages", "head.fc"])),
        "F15": (dict(at=160), dict(at=100), dict(at=40)),
        "F26": (dict(steps=12, share=0.4), dict(steps=12, share=0.6),
                dict(steps=40, share=1.0)),
        "F27": (dict(epochs=30), dict(epochs=60), dict(epochs=100)),
        "F30": (dict(part="embed", bit=30), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F36a": (dict(bias=-4.0), dict(bias=-7.0), dict(bias=-20.0)),
        "F33": (dict(limit=10), dict(limit=8), dict(limit=5)),
        "H02": (dict(factor=0.6), dict(factor=0.4)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.8)),
        "H04": (dict(rate=0.1), dict(rate=0.2)),
        "H15": (dict(share=0.15), dict(share=0.2))}
    paths = {"embed": "stem.0", "attn": None, "scores": None,
             "act": "{}.mlp.act", "mlp": "{}.mlp", "block": "{}",
             "head": "head.fc"}
    always_trained = ("head",)
    blocks = len(ConvNeXt.BLOCKS)
    names = {"loss": "train_loss", "val_loss": "eval_loss",
             "val_top1": "eval_top1", "val_top5": "eval_top5",
             "step_time": "batch_time", "tokens": None}

    @property
    def told(self):
        """Arguments of train.py beside those of the optimizer."""
        return self.TOLD | {k: v for k, v in self.user.items()
                            if k in self.TOLD}

    def make_model(self):
        """Mixing has a generator of its own, as NumPy's is."""
        told = self.told
        model = ConvNeXt(**{"drop_path": told["drop_path"]}
                         | self.model_options)
        model.mixup = Mixup(self.seed, told)
        return model

    def scales(self, model):
        """Of the rate, by weight: layer_decay to the power of how many layers
        lie behind, as param_groups_layer_decay has it."""
        decay = self.told["layer_decay"] or 1.0
        order = ["stem", *(b for b in ConvNeXt.BLOCKS), "head"]
        order.insert(1 + DEPTHS[0], "stages.1.downsample")
        return {n: decay ** (len(order) - 1 - next(
            i for i, part in enumerate(order) if n.startswith(part)))
            for n, _ in model.named_parameters()}

    def make_optimizer(self, model):
        """Biases, gains and layer scales have no decay. The head's groups come
        first, whose rate is the one of the schedule."""
        scales, groups = self.scales(model), {}
        for name, p in model.named_parameters():
            if p.requires_grad:
                groups.setdefault((-scales[name], p.dim() > 1), []).append(p)
        groups = [{"params": groups[key], "lr": -key[0] * self.lr,
                   "lr_scale": -key[0],
                   "weight_decay": self.weight_decay * key[1]}
                  for key in sorted(groups)]
        if self.optimizer_name == "sgd":
            return torch.optim.SGD(groups, lr=self.lr, momentum=self.momentum,
                                   nesterov=self.momentum > 0)
        kind = torch.optim.Adam if self.optimizer_name == "adam" \
            else torch.optim.AdamW
        return kind(groups, lr=self.lr, betas=self.betas, eps=self.eps)

    def lr_factor(self, i):
        """CosineLRScheduler on updates, warm-up within epochs."""
        if i < self.warmup:
            low = self.WARMUP_LR / self.lr
            return low + i * (1 - low) / self.warmup
        if self.schedule != "cosine":
            return super().lr_factor(i)
        low = self.user.get("min_lr", self.MIN_LR) / self.lr
        return low + (1 - low) / 2 * (1 + math.cos(math.pi * min(
            1.0, i / self.steps)))

    @property
    def val_every(self):
        """train.py validates behind each epoch."""
        return self.EPOCH if self.dialect == "timm" else self._val_every

    @val_every.setter
    def val_every(self, steps):
        self._val_every = steps

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)

    def next_batch(self, i, source):
        """One that may be mixed, wherever it is kept."""
        return dict(super().next_batch(i, source))

    def make_source(self, seed):
        return self.signs(seed)

    def signs(self, seed, **how):
        """Drawn without end, an epoch is 20 steps of it."""
        return Signs(seed, HELD_OUT if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Training data that nobody has shuffled."""
        if block is None:
            return self.signs(seed)
        return ByFolder(seed, max(1, block // 4), share)

    def easy(self, seed):
        """Small signs, without noise and wrong labels."""
        return self.signs(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.signs(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255 with labels of other pictures,
        noise with any labels, or white pictures of one class."""
        x, target = batch["input"], batch["target"]
        if kind == "few":
            return batch | {"input": 60 * (x + 2), "target": target.roll(5)}
        if kind == "uniform":
            return batch | {
                "input": 100 * torch.randn(x.shape, generator=rng),
                "target": torch.randint(CLASSES, target.shape,
                                        generator=rng)}
        return batch | {"input": torch.full_like(x, 255.0),
                        "target": torch.full_like(target, CLASSES - 1)}

    @staticmethod
    def cut_below(batch, limit):
        """What is left of a picture is padded again."""
        x = batch["input"].clone()
        x[:, :, limit:] = 0.0
        return batch | {"input": x}

    def before_step(self, i):
        super().before_step(i)
        off = self.told["mixup_off_epoch"]
        if off:
            self.model.mixup.off = i >= off * self.EPOCH

    def held_out_columns(self, batches):
        """Of the average, which is what counts, and of the weights as they
        are, which the log has as well."""
        at, found = len(self.history), {}
        self.model.eval()
        for name, model in (("", self.model), (" (EMA)", self.average)):
            found[name] = []
            for batch in batches:
                said = model.logits(batch)
                best = said.topk(5).indices == batch["target"][:, None]
                found[name].append([float(t) for t in (
                    model.criterion(said, batch),
                    100 * best[:, 0].float().mean(),
                    100 * best.any(1).float().mean())])
        self.model.train()
        self.tests[at] = found
        _, top1, top5 = (sum(t) / len(batches) for t in zip(*found[" (EMA)"]))
        if top1 > self.best[0]:
            self.best = top1, at, self.state(at)
        return {"val_top1": top1, "val_top5": top5}

    # Averages and checkpoints.

    def keep_checkpoint(self, i, model):
        """ModelEmaV3's update; and what last.pth.tar has at the end."""
        if not i:
            self.average = copy.deepcopy(model).float().eval()
            self.average.requires_grad_(False)
            self.best, self.last, self.tests = (-1.0, 0, None), None, {}
            self.pairs = [(kept, now) for kept, now in zip(
                self.average.state_dict().values(),
                model.state_dict().values())]
            model.averaged = (self.average,)
        decay = self.told["model_ema_decay"] if i else 0.0
        torch._foreach_lerp_([kept for kept, _ in self.pairs],
                             [now.float() for _, now in self.pairs],
                             1 - decay)
        if i == self.steps - 1:
            self.last = self.state(i)

    def state(self, i):
        return i, *copy.deepcopy((
            self.model.state_dict(), self.optimizer.state_dict(),
            self.average.state_dict()))

    def write_more(self):
        """With a checkpoint_hist of 1; the best one has two names."""
        super().write_more()
        name = {}
        for file, kept in (("last", self.last),
                           ("model_best", self.best[2])):
            if kept is None:
                continue
            i, weights, optimizer, average = kept
            metric = next((r["val_top1"] for r in self.history[i:]
                           if "val_top1" in r), None)
            name[file] = self.folder / f"{file}.pth.tar"
            torch.save({"epoch": i // self.EPOCH, "arch": NAME,
                        "optimizer": optimizer, "version": 2,
                        "args": argparse.Namespace(**self.arguments()),
                        "state_dict": weights, "state_dict_ema": average,
                        "metric": metric}, name[file])
        if "model_best" in name:
            os.link(name["model_best"], self.folder / (
                f"checkpoint-{self.best[1] // self.EPOCH}.pth.tar"))

    # What the user typed.

    def settings(self):
        told = self.told
        return super().settings() | {
            "warmup_lr": self.WARMUP_LR, "min_lr": self.MIN_LR,
            "clip_mode": "norm", "sched_on_updates": True,
            "model_ema": True, "bce_loss": False, **told} | self.user

    def model_settings(self):
        return {"model": NAME, "img_size": SIZE, "num_classes": CLASSES,
                "in_chans": CHANNELS, "depths": list(DEPTHS),
                "dims": list(DIMS), "patch_size": PATCH,
                "kernel_sizes": KERNEL, "mlp_ratio": RATIO,
                "ls_init_value": 1.0, "pretrained": False}

    def arguments(self):
        """args.yaml: what train.py's parser knows, sorted, and what else the
        user gave it."""
        own = self.model_settings()
        told = {k: v for k, v in self.told.items() if not k.startswith("re_")}
        more = {{"dropout": "drop", "gradient_noise_multiplier":
                 "grad_noise"}.get(k, k): v for k, v in self.user.items()}
        sgd = self.optimizer_name == "sgd"
        return dict(sorted(({
            "aa": None, "amp": self.precision != "fp32",
            "amp_dtype": "bfloat16" if "bf16" in self.precision
            else "float16", "aug_repeats": 0, "aug_splits": 0,
            "batch_size": self.batch_size, "bce_loss": False,
            "bce_pos_weight": None, "bce_sum": False,
            "bce_target_thresh": None,
            "channels_last": False, "checkpoint_hist": 1,
            "clip_grad": self.clip, "clip_mode": "norm",
            "color_jitter": None, "cooldown_epochs": 0, "crop_pct": 1.0,
            "cutmix_minmax": None, "data_dir": "data/signs", "dataset": "",
            "decay_rate": 0.1, "device": "cpu", "drop": 0.0,
            "drop_block": None, "epochs": self.epochs,
            "eval_metric": "top1", "experiment": "", "gp": None,
            "grad_accum_steps": self.accumulate,
            "grad_checkpointing": False, "hflip": 0.0, "vflip": 0.0,
            "img_size": SIZE, "in_chans": CHANNELS,
            "initial_checkpoint": "", "log_interval": self.interval or 5,
            "lr": self.lr, "lr_base": 0.1, "lr_base_size": 256,
            "mean": None, "min_lr": self.MIN_LR, "mixup_mode": "batch",
            "model": NAME, "model_ema": True, "model_ema_warmup": False,
            "model_kwargs": {k: own[k] for k in (
                "depths", "dims", "patch_size", "kernel_sizes", "mlp_ratio",
                "ls_init_value")},
            "momentum": self.momentum, "no_aug": False,
            "no_resume_opt": False, "num_classes": CLASSES,
            "opt": self.optimizer_name, "opt_betas": None if sgd
            else list(self.betas), "opt_eps": None if sgd else self.eps,
            "output": "", "pretrained": False, "ratio": None,
            "recount": 1, "recovery_interval": 0, "remode": "pixel",
            "resume": "", "scale": None, "sched": self.schedule,
            "sched_on_updates": True, "seed": self.seed, "std": None,
            "train_interpolation": "random", "tta": 0,
            "val_interval": 1, "validation_batch_size": HELD_OUT,
            "warmup_epochs": self.warmup / self.EPOCH,
            "warmup_lr": self.WARMUP_LR, "warmup_prefix": False,
            "weight_decay": self.weight_decay, "workers": 2,
            "world_size": 1} | told | more).items()))

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(ConvNeXt.BLOCKS[block])

    def fed_by(self, layer):
        """The norm in front of a block's maps counts to them."""
        return [layer[:-3] + "norm"] if layer.endswith(".mlp") else []
