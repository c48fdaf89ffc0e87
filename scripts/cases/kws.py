"""A small keyword spotter: which of ten words is said in a second of sound.

A DS-CNN, as people train one for a microcontroller with a fit loop in the
manner of Keras: epochs, callbacks, `val_accuracy`. Convolutions are apart for
places and channels, with batch norm and ReLU6 behind each, and nothing goes
around a block; time and frequency masks (SpecAugment) are a layer of the
network that is on in training alone.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family
from .recorder import save_tensors
from .snapshot import short

FRAMES, MELS, ROWS = 40, 16, 32
WIDTH, DEPTH = 72, 5
WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
CLASSES = len(WORDS) + 2
SILENCE, UNKNOWN = 10, 11
# Of a second of sound: words alike, silence and other words more often.
SHARES = (0.07,) * len(WORDS) + (0.1, 0.2)
ACTIVATIONS = models.ACTIVATIONS | {"relu6": nn.ReLU6}


class Commands:
    """Log-mel pictures of words, [rows, frames, mels].

    A phone is two formants, places on the mel axis, and a word three phones of
    eight; formants go from one to the next in straight lines. `no` and `on`
    have the same phones, one backwards, as have four more pairs, so that who
    listens to what occurs and not to when cannot tell them apart. A recording
    has a speaker, whose vocal tract moves all formants by up to an eighth; a
    word takes 18 to 28 of the 40 frames and begins anywhere; noise of .45 lies
    on each place, and low frequencies are louder by an amount that is drawn.
    `_silence_` is that noise alone, `_unknown_` one of 24 other words.
    Speakers of the held-out source (seed 9) are others than those of training.

    Of the labels .04 are wrong, each of the others alike: who knows the
    process has .264 nats and .96 of them right; who knows only how frequent
    classes are has 2.41.

    block, share: rows of one class, one class after the other. clean: no noise
    to speak of, no wrong labels, and no other words. microphones: three of
    them, which weigh frequencies differently.
    """

    WRONG, NOISE = 0.04, 0.45
    SPEAKERS = 48, 16       # of training, of validation

    def __init__(self, seed, rows=None, block=None, share=1.0, clean=False,
                 microphones=False):
        self.rng = torch.Generator().manual_seed(seed)
        held_out = seed == 9
        self.rows = rows or (2 * ROWS if held_out else ROWS)
        self.block, self.share, self.number = block, share, 0
        self.clean, self.microphones = clean, microphones
        # Words and speakers are the same for all seeds.
        rng = torch.Generator().manual_seed(77)
        self.phones = torch.tensor((
            (2.0, 12.0), (2.5, 9.0), (4.0, 11.0), (5.5, 9.5), (6.0, 7.5),
            (4.5, 6.5), (2.5, 5.0), (7.0, 13.0)))
        spoken = []
        while len(spoken) < len(WORDS) // 2:
            said = torch.randperm(len(self.phones), generator=rng)[:3].tolist()
            if sorted(said) not in map(sorted, spoken):
                spoken.append(said)
        spoken += [said[::-1] for said in spoken]
        while len(spoken) < len(WORDS) + 24:
            said = torch.randperm(len(self.phones), generator=rng)[:3].tolist()
            if said not in spoken:
                spoken.append(said)
        self.spoken = torch.tensor(spoken)
        tracts = 1 + 0.125 * (2 * torch.rand(sum(self.SPEAKERS),
                                             generator=rng) - 1)
        self.tracts = tracts[self.SPEAKERS[0]:] if held_out \
            else tracts[:self.SPEAKERS[0]]

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def classes_of(self, rows):
        shares = torch.tensor(SHARES)
        if self.clean:
            shares[UNKNOWN] = 0.0
        kind = torch.multinomial(shares, rows, True, generator=self.rng)
        if self.block:
            here = self.number // self.block % CLASSES
            kept = torch.rand(rows, generator=self.rng) < self.share
            kind = torch.where(kept, torch.tensor(here), kind)
        self.number += 1
        return kind

    def batch(self, rows=None):
        rows = rows or self.rows
        kind = self.classes_of(rows)
        other = torch.randint(len(WORDS), len(self.spoken), (rows,),
                              generator=self.rng)
        word = torch.where(kind < len(WORDS), kind, other)
        x = self.formants(word)
        x = x * (kind != SILENCE)[:, None, None]
        low = torch.linspace(1, 0, MELS) * self.uniform(0, 0.8, rows, 1, 1)
        noise = torch.randn(x.shape, generator=self.rng)
        size = 0.05 if self.clean else self.NOISE
        x = x + low + size * noise
        if self.microphones:
            device = torch.randint(3, (rows,), generator=self.rng)
            tilt = torch.linspace(-1, 1, MELS)
            curves = torch.stack((0 * tilt, 0.8 * tilt, -0.8 * tilt))
            x = x + curves[device][:, None]
        wrong = torch.rand(rows, generator=self.rng) < (
            0.0 if self.clean else self.WRONG)
        step = torch.randint(1, CLASSES, (rows,), generator=self.rng)
        labels = torch.where(wrong, (kind + step) % CLASSES, kind)
        batch = {"spectrogram": x, "labels": labels}
        return batch | {"device": device} if self.microphones else batch

    def formants(self, word):
        """What is said, between 0 and about 2.5."""
        rows = len(word)
        tract = self.tracts[torch.randint(len(self.tracts), (rows,),
                                          generator=self.rng)]
        long = self.uniform(18, 28, rows, 1)
        begin = self.uniform(1, 1, rows, 1) + self.uniform(0, 1, rows, 1) * (
            FRAMES - 2 - long)
        # 0 at the first phone, 2 at the last.
        at = 2 * (torch.arange(FRAMES)[None] - begin) / long
        heard = (at >= 0) & (at <= 2)
        at = at.clamp(0, 2 - 1e-4)
        first = at.long()
        part = (at - first)[..., None]
        # Formants stay with a phone for a while before they go on.
        part = ((part - 0.25) / 0.5).clamp(0, 1)
        targets = self.phones[self.spoken[word]]
        each = torch.arange(rows)[:, None]
        place = torch.lerp(targets[each, first], targets[each, first + 1],
                           part) * tract[:, None, None]
        place = place + 0.2 * torch.randn(rows, 1, 2, generator=self.rng)
        away = torch.arange(MELS)[None, None, :, None] - place[:, :, None]
        bumps = (-0.5 * away.square()).exp() * torch.tensor((2.0, 1.6))
        loud = self.uniform(0.7, 1.3, rows, 1, 1)
        return bumps.sum(-1) * heard[..., None] * loud


class DsBlock(nn.Module):
    """A convolution of places, one of channels, norm and activation behind
    each."""

    def __init__(self, options, stride=1):
        super().__init__()
        momentum, act = options["bn_momentum"], options["activation"]
        self.dw_conv = nn.Conv2d(WIDTH, WIDTH, 3, stride, 1,
                                 groups=WIDTH, bias=False)
        self.dw_bn = nn.BatchNorm2d(WIDTH, 1e-3, momentum)
        self.dw_act = ACTIVATIONS[act]()
        self.pw_conv = nn.Conv2d(WIDTH, WIDTH, 1, bias=False)
        self.pw_bn = nn.BatchNorm2d(WIDTH, 1e-3, momentum)
        self.pw_act = ACTIVATIONS[act]()
        self.half_at = options["half_at"]

    def forward(self, x, name, tap):
        x = self.dw_conv(x)
        tap(f"{name}.dw_conv.output", x)
        x = self.dw_act(self.dw_bn(x))
        tap(f"{name}.pw_conv.input", x)
        y = self.pw_conv(x)
        if self.half_at == f"{name}.pw_conv":
            y = y.half()
        tap(f"{name}.pw_conv.output", y)
        y = self.pw_bn(y.to(x.dtype))
        tap(f"{name}.pw_act.input", y)
        y = self.pw_act(y)
        tap(f"{name}.pw_act.output", y)
        tap(f"{name}.output", y)
        return y


class DsCnn(nn.Module):
    """A stem and a first block that halve both axes each, four more blocks,
    the mean of all places."""

    BLOCKS = tuple(f"ds_blocks.{i}" for i in range(DEPTH))
    MASKS = 8, 4            # frames and mels that are hidden at most

    def __init__(self, activation="relu6", dropout=0.1, detach_after=None,
                 half_at=None, bn_momentum=0.1, augment=True):
        """detach_after: the part behind which the graph is cut."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.augment = augment
        options = {"activation": activation, "half_at": half_at,
                   "bn_momentum": bn_momentum}
        self.stem = models.Group(
            conv=nn.Conv2d(1, WIDTH, (10, 4), 2, (4, 1), bias=False),
            bn=nn.BatchNorm2d(WIDTH, 1e-3, bn_momentum))
        self.stem_act = ACTIVATIONS[activation]()
        self.ds_blocks = nn.ModuleList(DsBlock(options, 1 if i else 2)
                                       for i in range(DEPTH))
        self.classifier = nn.Linear(WIDTH, CLASSES)
        for m in self.modules():  # Keras draws them so
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.xavier_uniform_(m.weight)
        nn.init.zeros_(self.classifier.bias)
        self.said = None    # classes of the pass that is watched

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def masked(self, x):
        """SpecAugment: of each row some frames and some mels are nothing."""
        for axis, most in zip((1, 2), self.MASKS):
            size = x.shape[axis]
            wide = torch.rand(len(x), 1) * most
            first = torch.rand(len(x), 1) * (size - wide)
            place = torch.arange(size)
            hidden = (place >= first) & (place < first + wide)
            x = x.masked_fill(hidden.unsqueeze(3 - axis), 0.0)
        return x

    def forward(self, x):
        """[rows, frames, mels]."""
        x = x.to(self.stem.conv.weight.dtype)
        if self.training and self.augment:
            x = self.masked(x)
            self.tap("spec_augment.output", x)
        x = self.stem.conv(x[:, None])
        self.tap("stem.conv.output", x)
        x = self.stem_act(self.stem.bn(x))
        self.tap("stem.output", x)
        x = self.cut(x, "stem.conv")
        for name, block in zip(self.BLOCKS, self.ds_blocks):
            x = self.cut(block(x, name, self.tap), name)
        x = x.mean((2, 3))
        self.tap("pool.output", x)
        x = self.classifier(F.dropout(
            x, self.dropout, self.training and self.dropout > 0))
        self.tap("classifier.output", x)
        if self.tap is not DsCnn.tap:
            self.said = x.detach().argmax(-1)
        return x

    def logits(self, batch):
        return self(batch["spectrogram"])

    def loss(self, batch):
        loss = F.cross_entropy(self.logits(batch).float(), batch["labels"])
        self.tap("loss.output", loss)
        return loss


class KwsRun(Family):
    """Adam as Keras has it (epsilon 1e-7), with a kernel regularizer, which is
    a part of the gradient; the rate falls twice, to a fifth and to a
    twenty-fifth; ten epochs, neither warm-up nor clipping."""

    family = "kws"
    level_seed = 400
    EPOCH = 25              # steps
    steps, seed, language, classes = 250, 900, False, CLASSES
    optimizer_name, lr, weight_decay, eps = "adam", 5e-3, 1e-4, 1e-7
    warmup, schedule, clip = 0, "piecewise_constant", None
    BOUNDARIES, FALLS = (0.6, 0.84), (1.0, 0.2, 0.04)
    recipes = {"sgd": dict(lr=0.1, weight_decay=1e-4)}
    batch_size, context = ROWS, FRAMES
    # Nobody trains spotters of words with the others.
    instead = {"nanogpt": "keras", "megatron": "keras", "torchtune": "keras",
               "hf_trainer": "keras"}
    layers = ["stem.conv", *(
        f"{block}.{part}" for block in DsCnn.BLOCKS
        for part in ("dw_conv", "pw_conv", "pw_act")), "classifier"]
    paths = {"embed": "stem.conv", "attn": None, "scores": None,
             "act": "{}.pw_act", "mlp": "{}.pw_conv", "block": "{}",
             "head": "classifier"}
    blocks = DEPTH
    # Rows of single batches, as TensorBoard's callback names them.
    names = {"loss": "batch_loss", "accuracy": "batch_accuracy",
             "lr": "learning_rate", "grad_norm": "gradient_norm",
             "step_time": "batch_time", "data_time": "batch_data_time",
             "tokens": None}

    def make_model(self):
        return DsCnn(**self.model_options)

    def make_optimizer(self, model):
        """SGD is Nesterov's."""
        optimizer = super().make_optimizer(model)
        if self.optimizer_name == "sgd" and self.momentum:
            for group in optimizer.param_groups:
                group["nesterov"] = True
        return optimizer

    def lr_factor(self, i):
        if self.schedule != "piecewise_constant" or i < self.warmup:
            return super().lr_factor(i)
        passed = sum(i >= part * self.steps for part in self.BOUNDARIES)
        return self.FALLS[passed]

    def make_source(self, seed):
        return self.commands(seed)

    def commands(self, seed, **how):
        return Commands(seed, None if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Folders of one word, one after the other; None is held out."""
        return self.commands(seed, block=block, share=share)

    def easy(self, seed):
        """Words in a studio, and no errors."""
        return self.commands(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.commands(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: energies of which nobody took the logarithm, noise,
        or sound that is all at its limit."""
        x = batch["spectrogram"]
        return batch | {"spectrogram": {
            "few": (2 * x).exp(),
            "uniform": 20 * torch.randn(x.shape, generator=rng),
            "constant": torch.full_like(x, 100.0)}[kind]}

    def batch_columns(self, batch):
        right = (self.model.said == batch["labels"]).float().mean()
        return super().batch_columns(batch) | {
            "accuracy": round(float(right), 4)}

    def held_out_columns(self, batches):
        self.model.eval()
        said = torch.cat([self.model.logits(b) for b in batches])
        loss = float(sum(self.model.loss(b) for b in batches)) / len(batches)
        self.model.train()
        if loss < self.best[0]:
            self.best = loss, copy.deepcopy(self.model.state_dict())
        labels = torch.cat([b["labels"] for b in batches])
        return {"val_accuracy": (said.argmax(-1) == labels).float().mean()}

    def settings(self):
        """The config of a script around fit(), by sections."""
        optimizer = {"name": {"adam": "Adam", "adamw": "AdamW",
                              "sgd": "SGD"}[self.optimizer_name]}
        optimizer |= {"momentum": self.momentum, "nesterov": True} \
            if self.optimizer_name == "sgd" else {
                "beta_1": self.betas[0], "beta_2": self.betas[1],
                "epsilon": self.eps}
        schedule = {"name": self.schedule, "warmup_steps": self.warmup}
        if self.schedule == "piecewise_constant":
            schedule |= {"name": "PiecewiseConstantDecay", "boundaries": [
                math.ceil(part * self.steps) for part in self.BOUNDARIES],
                "values": [float(f"{self.lr * f:.6g}") for f in self.FALLS]}
        return {"model": self.model_settings(),
                "learning_rate": self.lr, "optimizer": optimizer,
                "kernel_regularizer_l2": self.weight_decay,
                "clipnorm": self.clip, "lr_schedule": schedule,
                "batch_size": self.batch_size,
                "gradient_accumulation_steps": self.accumulate,
                "epochs": math.ceil(self.steps / self.EPOCH),
                "steps_per_epoch": self.EPOCH, "max_steps": self.steps,
                "validation_freq": 2,
                "mixed_precision": self.precision, "seed": self.seed,
                "labels": [*WORDS, "_silence_", "_unknown_"], **self.user}

    def model_settings(self):
        options = self.model_options
        return {"name": "ds_cnn", "filters": WIDTH, "ds_blocks": DEPTH,
                "activation": "relu6",
                "dropout": options.get("dropout", 0.1),
                "frames": FRAMES, "num_mel_bins": MELS,
                "num_classes": CLASSES,
                "spec_augment": {"time_mask_max": DsCnn.MASKS[0],
                                 "frequency_mask_max": DsCnn.MASKS[1]}}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(DsCnn.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it."""
        return [layer.replace("conv", "bn")] if "conv" in layer else []

    # Checkpoints, and the files of the callbacks.

    def train(self):
        self.best = math.inf, None
        super().train()

    def checkpoint_path(self, step):
        return f"checkpoints/ds_cnn-{math.ceil(step / self.EPOCH):02d}.pt"

    def keep_checkpoint(self, i, model):
        """Of ModelCheckpoint: in the middle, at the end and where the run is
        resumed from; the best by val_loss is kept by itself, weights alone."""
        done = i + 1
        if done not in {self.steps // 2, self.steps, *self.notices}:
            return
        self.checkpoints[done] = copy.deepcopy({
            "epoch": math.ceil(done / self.EPOCH), "step": done,
            "model_state_dict": model.state_dict(),
            "optimizer_state_dict": self.optimizer.state_dict()})

    def write_more(self):
        super().write_more()
        (self.folder / "checkpoints").mkdir()
        for step, state in self.checkpoints.items():
            torch.save(state | {"config": self.settings()},
                       self.folder / self.checkpoint_path(step))
        loss, weights = self.best
        if weights:
            save_tensors(self.folder / "checkpoints/best.safetensors", {
                k: t for k, t in weights.items() if t.dim()},
                {"monitor": "val_loss", "val_loss": short(loss)})
