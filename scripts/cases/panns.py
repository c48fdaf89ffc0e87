"""Sound events told from a clip, as PANNs are trained.

The trainer is pytorch/main.py of audioset_tagging_cnn: log-mels go through a
batch norm of mels, SpecAugment and blocks of two convolutions, each with a
norm and a ReLU; the largest and the mean over time go through two linear maps,
and each of several tags has a binary cross-entropy. Adam with amsgrad and one
rate for all of a run. Names of parameters, keys, lines and files are the
trainer's; there are three blocks of 16, 24 and 36 channels where Cnn10 has
four of 64 to 512, and log-mels come from the loader.
"""

import copy

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import EpochFamily

FRAMES, MELS, ROWS, HELD, DUMPED = 24, 20, 20, 40, 8
WIDTHS, EMBEDDING = (16, 24, 36), 64
TAGS = ("Tone", "Beep", "Chirp", "Sweep", "Siren", "Click", "Burst", "Hum")
CLASSES, PLACES = len(TAGS), 3
# How often a clip of all has each, which the balanced sampler evens.
COMMON = (1.0, 0.8, 0.6, 0.5, 0.4, 0.6, 0.8, 1.0)
SILENT, FLOOR = -100.0, -62.0       # dB, of nothing and of a quiet room
FILENAME = "main"


class Clips(sources.DrawnAhead):
    """Ten seconds each with one to three of eight kinds of sound: logmel
    [rows, 1, frames, mels] in dB and target [rows, tags].

    Lines stay, are pulsed, rise, fall or warble; clicks and bursts take all
    mels, a hum some low ones. How loud a sound is (4 to 20 dB above the room
    at its peak), where and how long, and how the room's noise falls with
    frequency are drawn. So what is loud is learned first, then which line it
    is, then what lies in noise or under another sound.

    sampler: "balanced" draws a tag evenly and then a clip that has it, "none"
    clips as they come, "alternate" both by turns. block, share: batches whose
    clips have one tag, one tag after the other. clean: loud sounds, one or two
    at once. places: recorders with curves of their own, told apart. without:
    tags that are in no clip.
    """

    def __init__(self, seed, rows=ROWS, sampler="balanced", block=None,
                 share=1.0, clean=False, places=False, without=0):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.sampler = rows, sampler
        self.block, self.share, self.clean = block, share, clean
        self.places, self.without = places, without
        self.number, self.ahead = 0, {}

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def tags(self, each, rows):
        """Which tag a clip is drawn for, and what else is heard in it."""
        common = torch.tensor(COMMON)
        heard = torch.ones(CLASSES)
        if self.without:
            heard[-self.without:] = 0.0
        number = self.number + torch.arange(rows) // each
        even = torch.multinomial(heard, rows, True, generator=self.rng)
        usual = torch.multinomial(common * heard, rows, True,
                                  generator=self.rng)
        first = {"balanced": even, "none": usual, "alternate": torch.where(
            number % 2 == 0, even, usual)}[self.sampler]
        if self.block:
            kept = torch.rand(rows, generator=self.rng) < self.share
            first = torch.where(kept, number // self.block % CLASSES, first)
        target = F.one_hot(first, CLASSES).float()
        for part in ((0.4,) if self.clean else (0.55, 0.3)):
            more = torch.rand(rows, generator=self.rng) < part
            if self.block:  # files of one tag lie together
                more &= ~kept
            other = torch.multinomial(common * heard, rows, True,
                                      generator=self.rng)
            target[more, other[more]] = 1.0
        return target

    def lines(self, rows):
        """[rows, 5, frames, mels]: what has one frequency at a time."""
        t = torch.arange(FRAMES).float()
        base = self.uniform(5, MELS - 4, rows, 5, 1)
        begin = self.uniform(0, FRAMES - 14, rows, 5, 1)
        long = self.uniform(11, 16, rows, 5, 1)
        at = (t - begin) / long
        on = ((at >= 0) & (at < 1)).float()
        rise = self.uniform(5, 9, rows, 1) * (at[:, 2].clamp(0, 1) - 0.5)
        fall = self.uniform(5, 9, rows, 1) * (0.5 - at[:, 3].clamp(0, 1))
        phase = self.uniform(0, 6.28, rows, 1)
        slow = self.uniform(0.6, 1.0, rows, 1)
        warble = self.uniform(2, 3.5, rows, 1) * (slow * t + phase).sin()
        zero = torch.zeros(rows, FRAMES)
        place = base + torch.stack((zero, zero, rise, fall, warble), 1)
        period = torch.randint(4, 7, (rows, 1), generator=self.rng)
        on[:, 1] *= (((t - begin[:, 1]) % period) < 2).float()
        away = torch.arange(MELS) - place[..., None]
        return on[..., None] * (-1.1 * away.square()).exp()

    def others(self, rows):
        """[rows, 3, frames, mels]: clicks, bursts, a hum."""
        t, m = torch.arange(FRAMES).float(), torch.arange(MELS).float()
        period = torch.randint(5, 9, (rows, 1), generator=self.rng)
        first = torch.randint(0, 5, (rows, 1), generator=self.rng)
        click = ((t - first) % period < 1).float() * (t >= first)
        long = self.uniform(5, 10, rows, 1)
        begin = self.uniform(0, 15, rows, 1)
        burst = ((t >= begin) & (t < begin + long)).float()
        middle = self.uniform(6, 15, rows, 1)
        colour = (-0.5 * ((m - middle) / 6).square()).exp()
        low = self.uniform(0.5, 1.8, rows, 1)
        comb = sum((-2.0 * (m - low * k).square()).exp() for k in (1, 2, 3))
        swell = 0.7 + 0.3 * (0.15 * t + 6.28 * self.uniform(
            0, 1, rows, 1)).sin()
        wide = torch.stack((click[..., None] * (1 + 0 * colour[:, None]),
                            burst[..., None] * colour[:, None],
                            swell[..., None] * comb[:, None]), 1)
        return wide * torch.exp(0.4 * self.normal(*wide.shape))

    def draw(self, each):
        rows = sources.AHEAD * each
        target = self.tags(each, rows)
        self.number += sources.AHEAD
        sounds = torch.cat((self.lines(rows), self.others(rows)), 1)
        least = 14.0 if self.clean else 4.0
        loud = 10 ** (self.uniform(least, 20, rows, CLASSES) / 10)
        power = (sounds * (loud * target)[..., None, None]).sum(1)
        tilt = self.uniform(0, 8, rows, 1, 1) * torch.linspace(
            0.5, -0.5, MELS)
        room = 10 ** (tilt / 10) * torch.exp(
            0.5 * self.normal(rows, FRAMES, MELS))
        level = FLOOR + self.uniform(-4, 4, rows, 1, 1)
        x = level + 10 * (power + room).log10()
        batch = {"logmel": x[:, None].contiguous(), "target": target}
        if self.places:
            place = torch.randint(PLACES, (rows,), generator=self.rng)
            line = torch.linspace(-1, 1, MELS)
            curves = torch.stack((0 * line, 2 * line, -2 * line))
            batch["logmel"] += curves[place][:, None, None]
            batch["domain"] = place
        return batch


class ConvBlock(nn.Module):
    """Two convolutions, each with its norm and ReLU, and a mean of 2 x 2."""

    def __init__(self, name, channels, out, options):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, 1, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.act = models.ACTIVATIONS[options["activation"]]()
        self.name, self.half_at = name, options["half_at"]

    def forward(self, x, tap):
        name = self.name
        tap(f"{name}.conv1.input", x)
        y = self.conv1(x)
        if self.half_at == f"{name}.conv1":
            y = y.half()
        tap(f"{name}.conv1.output", y)
        y = self.bn1(y.to(x.dtype))
        tap(f"{name}.relu.input", y)
        y = self.act(y)
        tap(f"{name}.relu.output", y)
        y = self.conv2(y)
        tap(f"{name}.conv2.output", y)
        y = F.avg_pool2d(self.act(self.bn2(y)), 2)
        tap(f"{name}.output", y)
        return y


def do_mixup(x, lam):
    """Of rows 2k and 2k + 1, by their own shares."""
    lam = lam.to(x.dtype).view(-1, *[1] * (x.dim() - 1))
    return x[0::2] * lam[0::2] + x[1::2] * lam[1::2]


class Cnn8(nn.Module):
    """squashes: the loss makes probabilities of what gets a sigmoid.
    own_targets: pairs are mixed, and what is in the first clip is its tags."""

    BLOCKS = tuple(f"conv_block{k + 1}" for k in range(len(WIDTHS)))

    def __init__(self, activation="relu", dropout=0.1, detach_after=None,
                 half_at=None, time_drop_width=3, freq_drop_width=3,
                 stripes_num=2):
        super().__init__()
        self.bn0 = nn.BatchNorm2d(MELS)
        options = {"activation": activation, "half_at": half_at}
        wide = 1
        for name, out in zip(self.BLOCKS, WIDTHS):
            setattr(self, name, ConvBlock(name, wide, out, options))
            wide = out
        self.fc1 = nn.Linear(wide, EMBEDDING)
        self.fc_audioset = nn.Linear(EMBEDDING, CLASSES)
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.xavier_uniform_(m.weight)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        self.act = models.ACTIVATIONS[activation]()
        self.rate, self.cuts = dropout, detach_after
        self.drops = ((2, time_drop_width), (3, freq_drop_width))
        self.stripes, self.squashes = stripes_num, False
        self.own_targets = False

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.cuts == name else x

    def dropped(self, x):
        return F.dropout(x, self.rate, self.training and self.rate > 0)

    def spec_augmenter(self, x):
        """Stripes of frames and of mels are nothing, in each clip others."""
        for axis, most in self.drops:
            size = x.shape[axis]
            at = torch.arange(size)
            for _ in range(self.stripes):
                wide = (torch.rand(len(x), 1) * most).floor()
                first = (torch.rand(len(x), 1) * (size - wide)).floor()
                hidden = (at >= first) & (at < first + wide)
                shape = [len(x), 1, 1, 1]
                shape[axis] = size
                x = x.masked_fill(hidden.view(shape), 0.0)
        return x

    def logits(self, batch):
        x = batch["logmel"].to(self.fc1.weight.dtype)
        x = self.bn0(x.transpose(1, 3)).transpose(1, 3)
        self.tap("bn0.output", x)
        x = self.cut(x, "bn0")
        if self.training:
            x = self.spec_augmenter(x)
            if "mixup_lambda" in batch:
                x = do_mixup(x, batch["mixup_lambda"])
        for name in self.BLOCKS:
            x = self.dropped(getattr(self, name)(x, self.tap))
            x = self.cut(x, name)
        x = x.mean(3)
        x = self.dropped(x.amax(2) + x.mean(2))
        x = self.act(self.fc1(x))
        self.tap("fc1.output", x)
        x = self.fc_audioset(self.dropped(self.cut(x, "fc1")))
        self.tap("fc_audioset.output", x)
        return x

    def criterion(self, logits, batch, label_smoothing=0.0, of_kinds=None):
        """clip_bce, of what a sigmoid is to make of it."""
        logits, target = logits.float(), batch["target"]
        if self.training and "mixup_lambda" in batch:
            target = target[0::2] if self.own_targets \
                else do_mixup(target, batch["mixup_lambda"])
        if self.squashes:
            logits = logits.sigmoid()
        if label_smoothing:
            target = (1 - label_smoothing) * target + label_smoothing / 2
        if of_kinds:
            return of_kinds(logits, target).mean()
        return F.binary_cross_entropy_with_logits(logits, target)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


# What feeds the first activation of each block.
BEFORE_ACT = tuple(f"{block}.bn1" for block in Cnn8.BLOCKS)


def scores(said, target):
    """average_precision and auc of each tag, as the evaluator has them."""
    said = np.nan_to_num(said.float().numpy(), nan=0.0)
    found, areas = [], []
    for p, y in zip(said.T, target.numpy().T > 0.5):
        right = y[np.argsort(-p, kind="stable")]
        count = max(1, int(right.sum()))
        place = np.arange(1, len(right) + 1)
        found.append(float((right.cumsum() / place)[right].sum() / count))
        below = p[y][:, None] - p[~y][None]
        areas.append(float(((below > 0) + 0.5 * (below == 0)).mean())
                     if below.size else 0.5)
    return np.array(found), np.array(areas)


class PannsRun(EpochFamily):
    """Adam with amsgrad and one rate; neither decay, clip nor warm-up. The
    script validates each 2000 iterations, here it is each 30."""

    family = "panns"
    level_seed = 400
    steps, seed, language, classes = 120, 5800, False, CLASSES
    optimizer_name, lr, weight_decay = "adam", 3e-3, 0.0
    recipes = {"sgd": dict(lr=0.1, weight_decay=0.0)}
    warmup, schedule, clip = 0, "constant", None
    EPOCH = epoch_steps = 30
    KEPT = 2                        # validations between two checkpoints
    batch_size, context = ROWS, FRAMES
    sampler, augmentation = "balanced", "none"
    base = {"lr": 3e-3}
    # Its users have the trainer's own log.
    instead = {"nanogpt": "panns", "hf_trainer": "panns",
               "megatron": "panns", "torchtune": "panns"}
    layers = ["bn0", *(f"{block}{part}" for block in Cnn8.BLOCKS for part in (
        ".conv1", ".relu", ".conv2", "")), "fc1", "fc_audioset"]
    STAGES = Cnn8.BLOCKS
    graded = {
        "F01": (dict(factor=15), dict(factor=50), dict(factor=300)),
        "F02": (dict(lr=10.0), dict(lr=40.0), dict(lr=200.0)),
        "F03": (dict(factor=50), dict(factor=500), dict(factor=5000)),
        "F04": (dict(at=25), dict(at=10), dict(at=0)),
        "F05": (dict(modules=[*STAGES[1:]], where=f"{STAGES[1]}.conv1"),
                dict(modules=[*STAGES], where=f"{STAGES[0]}.conv1"),
                dict(part="all")),
        "F07": (dict(factor=12), dict(factor=40), dict(factor=200)),
        "F08": (dict(every=8), dict(every=20), dict(every=1 << 30)),
        "F09": (dict(parts=8, logs_sum=False), dict(parts=8, logs_sum=True),
                dict(parts=16, logs_sum=True)),
        "F10": (dict(adamw=3e-7), dict(adamw=1e-7), dict(adamw=1e-8)),
        "F11": (dict(adam=0.03), dict(adam=0.1), dict(adam=1.0)),
        "F12": (dict(eps=0.03), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path=STAGES[1]), dict(path=STAGES[2]),
                dict(path="fc1")),
        "F14": (dict(modules=list(STAGES[1:])), dict(modules=list(STAGES)),
                dict(modules=[*STAGES, "fc1"])),
        "F15": (dict(at=90), dict(at=60), dict(at=30)),
        "F16": (dict(rate=0.03), dict(rate=0.1), dict(rate=0.3)),
        "F24": (dict(share=0.3), dict(share=0.5), dict(share=0.7)),
        "F26": (dict(steps=5, share=0.8), dict(steps=10, share=1.0),
                dict(steps=15, share=1.0)),
        "F27": (dict(epochs=40), dict(epochs=60), dict(epochs=120)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=12), dict(limit=6), dict(limit=3)),
        "F34": (dict(factor=10), dict(factor=50), dict(factor=0)),
        "F36a": (dict(bias=-3.5), dict(bias=-6.0), dict(bias=-20.0)),
        "F36b": (dict(factor=30, kind="sigmoid"), dict(factor=50, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F39a": (dict(at=90, keep=0.625), dict(at=60, keep=0.5),
                 dict(at=30, keep=0.25)),
        "F39b": (dict(at=80), dict(at=50), dict(at=20)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "F41": (dict(share=0.4, at=0, every=1), dict(share=0.7, at=60,
                                                     every=1),
                dict(share=0.85, at=0, every=8)),
        "F43": (dict(kind="unreduced", at=60), dict(kind="skip", at=90),
                dict(kind="init", at=0)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(rows=16), dict(rows=12)),
        "H04": (dict(rate=0.12), dict(rate=0.15)),
        "H10": (dict(steps=50), dict(steps=100)),
        "H11": (dict(steps=150, keep="block"), dict(steps=200, keep="head")),
        "H15": (dict(share=0.05), dict(share=0.1)),
        "H43": (dict(parts=2), dict(parts=4))}
    paths = {"embed": "bn0", "attn": None, "scores": None,
             "act": "{}.relu", "mlp": "{}.conv2", "block": "{}",
             "head": "fc_audioset"}
    blocks = len(Cnn8.BLOCKS)
    names = {"val_map": "test_mAP", "bal_map": "bal_mAP",
             "val_auc": "test_auc", "val_loss": "test_loss",
             "step": "iteration", "lr": "learning_rate",
             "step_time": "train_time", "data_time": "load_time",
             "tokens": None}
    validated = ("val_map", "val_auc", "bal_map")

    def make_model(self):
        return Cnn8(**self.model_options)

    def make_optimizer(self, model):
        """amsgrad, as there."""
        optimizer = super().make_optimizer(model)
        if self.optimizer_name == "adam":
            for group in optimizer.param_groups:
                group["amsgrad"] = True
        return optimizer

    # Data.

    def make_source(self, seed):
        return self.clips(seed)

    def clips(self, seed, **how):
        """Drawn without end; held-out ones are always balanced."""
        return Clips(seed, HELD if seed == 9 else self.batch_size,
                     "balanced" if seed == 9 else self.sampler, **how)

    def in_blocks(self, seed, block, share):
        """Files of one tag, one after the other; None is held out."""
        return self.clips(seed, block=block, share=share)

    def easy(self, seed):
        """Loud sounds, one or two at once."""
        return self.clips(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.clips(seed)

    def mixed(self, batch):
        """Shares of each pair, of a Mixup(self.s.alpha) whose numbers are
        self.drawn."""
        alpha, pairs = self.s.alpha, len(batch["logmel"]) // 2
        share = torch.tensor(self.drawn.beta(alpha, alpha, pairs)).float()
        return batch | {"mixup_lambda": torch.stack(
            (share, 1 - share), 1).flatten()}

    def strangers(self, rows, rng):
        """Tags of clips that are not there."""
        return Clips(int(torch.randint(1 << 30, (), generator=rng)),
                     rows).tags(rows, rows)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: power of which nobody took the logarithm with zeros
        for tags and ones for none, noise with any, or one value with all."""
        x, target = batch["logmel"], batch["target"]
        if kind == "few":
            return batch | {"logmel": 1e8 * 10 ** (x / 10),
                            "target": 1 - target}
        if kind == "uniform":
            return batch | {
                "logmel": 3e3 * torch.randn(x.shape, generator=rng),
                "target": torch.rand(target.shape, generator=rng).round()}
        return batch | {"logmel": torch.full_like(x, 3e4),
                        "target": torch.ones_like(target)}

    @staticmethod
    def cut_frames(batch, limit):
        """Clips end at a number of frames; the rest is silent."""
        x = batch["logmel"].clone()
        x[:, :, limit:] = SILENT
        return batch | {"logmel": x}

    @staticmethod
    def blank(batch):
        """One of the clips is silent."""
        x = batch["logmel"].clone()
        x[0] = SILENT
        return batch | {"logmel": x}

    @staticmethod
    def standardised(batch):
        """Each clip by its own mean and spread."""
        x = batch["logmel"]
        mean = x.mean((1, 2, 3), keepdim=True)
        return batch | {"logmel": (x - mean) / x.std((1, 2, 3), keepdim=True)}

    # What is logged.

    def train(self):
        self.dump_rows = min(DUMPED, self.dump_rows)
        self.balanced, self.statistics = [], {"bal": [], "test": []}
        super().train()

    def batch_columns(self, batch):
        """Keeps the first clips of training, which `bal` is of."""
        if len(self.balanced) < 4:
            self.balanced.append({k: batch[k].clone()
                                  for k in ("logmel", "target")})
        return super().batch_columns(batch)

    def evaluate(self, batches):
        self.model.eval()
        said = torch.cat([self.model.logits(b) for b in batches])
        self.model.train()
        return scores(said.sigmoid(), torch.cat([b["target"]
                                                 for b in batches]))

    def held_out_columns(self, batches):
        done, found = len(self.history) + 1, {}
        for part, rows in (("bal", self.balanced), ("test", batches)):
            precision, area = self.evaluate(rows)
            self.statistics[part].append({
                "average_precision": precision.round(5),
                "auc": area.round(5), "iteration": done})
            found[part] = float(precision.mean()), float(area.mean())
        return {"val_map": found["test"][0], "val_auc": found["test"][1],
                "bal_map": found["bal"][0]}

    # Checkpoints, which have no optimizer there.

    def own_folder(self, kind):
        mels = "sample_rate=32000,window_size=1024,hop_size=320," \
            f"mel_bins={MELS},fmin=50,fmax=14000"
        return f"workspaces/events/{kind}/{FILENAME}/{mels}/" \
            f"data_type=full_train/Cnn8/loss_type=clip_bce/" \
            f"balanced={self.sampler}/augmentation={self.augmentation}/" \
            f"batch_size={self.batch_size}"

    def checkpoint_path(self, done):
        return f"{self.own_folder('checkpoints')}/{done}_iterations.pth"

    def keep_checkpoint(self, i, model):
        done = i + 1
        if done in self.notices or done == self.steps \
                or done % (self.KEPT * self.EPOCH) == 0:
            self.checkpoints[done] = copy.deepcopy(model.state_dict())

    def write_more(self):
        super().write_more()
        for done, state in self.checkpoints.items():
            drawn = done * self.batch_size * self.accumulate // CLASSES
            torch.save({"iteration": done, "model": state, "sampler": {
                "queue": [], "pointers_of_classes": [drawn] * CLASSES}},
                self.folder / f"{done}_iterations.pth")

    # What the user typed.

    def model_settings(self):
        own = self.model_options
        return {"model_type": "Cnn8", "channels": list(WIDTHS),
                "embedding": EMBEDDING, "activation": "relu",
                "dropout": own.get("dropout", 0.1),
                "time_drop_width": own.get("time_drop_width", 3),
                "freq_drop_width": own.get("freq_drop_width", 3),
                "stripes_num": own.get("stripes_num", 2),
                "frames": FRAMES, "mel_bins": MELS, "sample_rate": 32000,
                "window_size": 1024, "hop_size": 320, "fmin": 50,
                "fmax": 14000, "classes_num": CLASSES}

    def settings(self):
        more = {"amsgrad": True} if self.optimizer_name == "adam" else {}
        usual = {{"lr": "learning_rate"}.get(k, k): v
                 for k, v in super().settings().items()}
        return usual | {
            "loss_type": "clip_bce", "balanced": self.sampler,
            "augmentation": self.augmentation, "data_type": "full_train",
            "early_stop": self.steps} | more | self.user

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(Cnn8.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it; a block has all."""
        return [layer.replace("conv1", "bn1")] if layer.endswith(".conv1") \
            else [layer.replace("conv2", "bn2")] if layer.endswith(".conv2") \
            else []
