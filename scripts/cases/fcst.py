"""A small PatchTST on a panel of load series: what are the next twelve hours?

As a user of NeuralForecast trains it: windows of many series, each divided by
its own mean and spread (RevIN), cut into patches that overlap; an encoder
whose layers add to each other's scores and have batch norms; a head that reads
all patches at once. Adam, whose rate is halved some times.
"""

import torch
from torch import nn
from torch.nn import functional as F

from . import lightning_checkpoints, models
from .family import Family

PAST, FUTURE, PATCH, STRIDE = 48, 12, 8, 4
WIDTH, HEADS, HIDDEN, LAYERS = 32, 4, 64, 2
PATCHES = (PAST - PATCH) // STRIDE + 2  # one more, of a padded end
PERIODS = (9, 12, 15, 19)
ROWS = 48
ACTIVATIONS = models.ACTIVATIONS | {"gelu": nn.GELU}
REVIN = "model.revin_layer"


class Panel:
    """Series of a panel, fixed for a seed, passed in an order that is drawn
    anew for each epoch; of each series a window that begins anywhere.

    A series has one of four kinds, each a wave of its own period (9, 12, 15 or
    19 steps) and shape, at a phase and of a size that are the series'; on it
    lies a shape that is the series' alone and comes again with the same
    period (three harmonics), so that what was a period before has to be looked
    up. Its level jumps now and then (once in 150 steps, by a normal value),
    and there is noise that fades by half from step to step. All of it is
    multiplied by the series' unit, a lognormal value. One window in ten runs
    past the end of its series, as NeuralForecast's windows do: what is behind
    is 0 and not available.

    ends: the share of these. calm: factor of noise, jumps and of what is the
    series' alone. block, share: so many batches of a kind, one kind after the
    other. regions: three, with an offset and a gain of their own.
    """

    SIZE, HELD_OUT, LENGTH = 2400, 384, 150
    FADES, NOISE, JUMPS, JUMP, OWN = 0.5, 0.1, 1 / 150, 1.0, 0.5

    def __init__(self, seed, rows=None, ends=0.1, calm=1.0, block=None,
                 share=1.0, regions=False):
        self.rng = torch.Generator().manual_seed(seed)
        held_out = seed == 9
        self.rows, self.ends, self.calm = rows or (
            self.HELD_OUT // 4 if held_out else ROWS), ends, calm
        self.block, self.share, self.number = block, share, 0
        self.size = self.HELD_OUT if held_out else self.SIZE
        self.order = {}
        world = torch.Generator().manual_seed(31)
        self.second = 0.4 + 0.5 * torch.rand(len(PERIODS), generator=world)
        self.turn = 2 * torch.pi * torch.rand(len(PERIODS), generator=world)
        self.draw(regions)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def uniform(self, *shape):
        return torch.rand(shape, generator=self.rng)

    def wave(self, kind, angle):
        """Of series of kinds [n] at angles [n, t]."""
        wave = angle.cos() + self.second[kind, None] * (
            2 * angle + self.turn[kind, None]).cos()
        for k in (1, 2, 3):
            a, b = self.calm * self.OWN * self.normal(2, len(kind), 1)
            wave += a * (k * angle).cos() + b * (k * angle).sin()
        return wave

    def draw(self, regions):
        n, t = self.size, torch.arange(self.LENGTH)
        self.kind = torch.randint(len(PERIODS), (n,), generator=self.rng)
        period = torch.tensor(PERIODS)[self.kind]
        angle = 2 * torch.pi * (t / period[:, None] + self.uniform(n, 1))
        size = 0.7 + 0.6 * self.uniform(n, 1)
        jumps = (self.uniform(n, self.LENGTH) < self.JUMPS) \
            * self.normal(n, self.LENGTH)
        apart = t[:, None] - t
        carry = (self.FADES ** apart.clamp_min(0)).tril()
        noise = self.normal(n, self.LENGTH)
        noise[:, 0] /= (1 - self.FADES ** 2) ** 0.5
        y = size * self.wave(self.kind, angle) \
            + self.calm * self.JUMP * jumps.cumsum(1) \
            + self.calm * self.NOISE * noise @ carry.T
        unit = (0.3 * self.normal(n, 1)).exp()
        self.values = unit * (y + 3 + self.normal(n, 1))
        self.region = None
        if regions:
            self.region = torch.randint(3, (n,), generator=self.rng)
            gain = torch.tensor((0.7, 1.0, 1.3))[self.region, None]
            self.values = gain * self.values \
                + torch.tensor((4.0, 0.0, -4.0))[self.region, None]

    def next(self, kind, count):
        """Numbers of series, of one kind if it is given."""
        picked = []
        while len(picked) < count:
            if not self.order.get(kind):
                fits = torch.arange(self.size) if kind is None \
                    else (self.kind == kind).nonzero()[:, 0]
                self.order[kind] = fits[torch.randperm(
                    len(fits), generator=self.rng)].tolist()
            picked.append(self.order[kind].pop())
        return picked

    def batch(self, rows=None):
        rows = rows or self.rows
        own, here = 0, None
        if self.block:
            own = int(round(self.share * rows))
            here = self.number // self.block % len(PERIODS)
        self.number += 1
        n = torch.tensor(self.next(here, own) + self.next(None, rows - own))
        first = torch.randint(self.LENGTH - PAST - FUTURE, (rows, 1),
                              generator=self.rng)
        y = self.values[n[:, None], first + torch.arange(PAST + FUTURE)]
        length = torch.where(
            self.uniform(rows, 1) < self.ends,
            torch.randint(2, FUTURE, (rows, 1), generator=self.rng), FUTURE)
        seen = (torch.arange(FUTURE) < length).float()
        batch = {"insample_y": y[:, :PAST].contiguous(),
                 "insample_mask": torch.ones(rows, PAST),
                 "outsample_y": y[:, PAST:] * seen, "outsample_mask": seen}
        return batch if self.region is None \
            else batch | {"region": self.region[n]}


class Attention(nn.Module):
    """Scores of the layer before are added to its own."""

    def __init__(self, options):
        super().__init__()
        self.W_Q, self.W_K, self.W_V = (nn.Linear(WIDTH, WIDTH)
                                        for _ in range(3))
        self.sdp_attn = models.Group()
        self.sdp_attn.scale = nn.Parameter(
            torch.tensor((WIDTH // HEADS) ** -0.5 if options["scale"] is None
                         else options["scale"]), requires_grad=False)
        self.to_out = nn.Sequential(nn.Linear(WIDTH, WIDTH))
        self.half = options["half_scores"]

    def forward(self, x, before, name, tap):
        rows, patches = x.shape[:2]
        tap(f"{name}.input", x)
        q, k, v = (part(x).view(rows, patches, HEADS, -1).transpose(1, 2)
                   for part in (self.W_Q, self.W_K, self.W_V))
        if self.half:
            q, k = q.half(), k.half()
        tap(f"{name}.scores.input", torch.stack((q, k), 1))
        scores = q @ k.transpose(-2, -1) * self.sdp_attn.scale.to(q.dtype)
        tap(f"{name}.scores.output", scores)
        if before is not None:
            scores = scores + before
        probs = scores.softmax(-1)
        tap(f"{name}.probs.output", probs)
        x = self.to_out((probs.to(v.dtype) @ v).transpose(1, 2).flatten(2))
        tap(f"{name}.output", x)
        return x, scores


class EncoderLayer(nn.Module):
    """Norms of a batch behind each part."""

    def __init__(self, options):
        super().__init__()
        self.self_attn = Attention(options)
        self.norm_attn = self.norm()
        self.ff = nn.Sequential(
            nn.Linear(WIDTH, HIDDEN), ACTIVATIONS[options["activation"]](),
            nn.Dropout(options["dropout"]), nn.Linear(HIDDEN, WIDTH))
        self.norm_ffn = self.norm()
        self.dropout = options["dropout"]

    @staticmethod
    def norm():
        """The library's lies between two transpositions."""
        return nn.Sequential(nn.Identity(), nn.BatchNorm1d(WIDTH))

    def forward(self, x, before, name, tap, cut):
        def added(x, y, norm):
            y = F.dropout(y, self.dropout, self.training)
            return norm[1]((x + y).transpose(1, 2)).transpose(1, 2)
        y, scores = self.self_attn(x, before, f"{name}.self_attn", tap)
        x = y = cut(added(x, y, self.norm_attn), f"{name}.norm_attn")
        for i in (0, 1, 3):
            if i == 3:
                y = self.ff[2](y)
            tap(f"{name}.ff.{i}.input", y)
            y = self.ff[i](y)
            tap(f"{name}.ff.{i}.output", y)
        x = added(x, y, self.norm_ffn)
        tap(f"{name}.output", x)
        return x, scores


class PatchTST(nn.Module):
    """What a LightningModule of NeuralForecast holds: all is under `model`."""

    BLOCKS = tuple(f"model.backbone.encoder.layers.{i}" for i in range(LAYERS))

    def __init__(self, activation="gelu", dropout=0.0, detach_after=None,
                 scale=None, half_scores=False, positions=True, eps=1e-5,
                 logs=False):
        """detach_after: the part behind which the graph is cut. positions:
        False leaves them out, a number gives all patches one's. eps: of the
        spread that a window is divided by. logs: the loss is the mean over
        windows of the logarithm of their error."""
        super().__init__()
        self.detach_after, self.positions = detach_after, positions
        self.eps, self.dropout, self.logs = eps, dropout, logs
        self.counts_all, self.guards = False, False
        options = {"activation": activation, "dropout": dropout,
                   "scale": scale, "half_scores": half_scores}
        backbone = models.Group(
            W_P=nn.Linear(PATCH, WIDTH),
            encoder=models.Group(layers=nn.ModuleList(
                EncoderLayer(options) for _ in range(LAYERS))))
        backbone.W_pos = nn.Parameter(
            torch.empty(PATCHES, WIDTH).uniform_(-0.02, 0.02))
        self.model = models.Group(
            revin_layer=models.Group(), backbone=backbone,
            head=models.Group(linear=nn.Linear(WIDTH * PATCHES, FUTURE)))

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def statistics(self, past):
        """Mean and spread of each window."""
        return past.mean(1, keepdim=True), (
            past.var(1, keepdim=True, correction=0) + self.eps).sqrt()

    def places(self):
        places = self.model.backbone.W_pos
        if self.positions is True:
            return places
        return 0 * places if self.positions is False \
            else places[self.positions].expand_as(places)

    def encoded(self, x):
        """What the encoder makes of windows without mean and spread."""
        backbone = self.model.backbone
        x = F.pad(x[:, None], (0, STRIDE), mode="replicate")[:, 0]
        x = x.unfold(1, PATCH, STRIDE).to(backbone.W_P.weight.dtype)
        self.tap("model.backbone.W_P.input", x)
        x = backbone.W_P(x)
        self.tap("model.backbone.W_P.output", x)
        x = self.cut(x, "model.backbone.W_P") + self.places()
        x = F.dropout(x, self.dropout, self.training)
        scores = None
        for name, layer in zip(self.BLOCKS, backbone.encoder.layers):
            x, scores = (self.cut(t, name) for t in layer(
                x, scores, name, self.tap, self.cut))
        return x

    def said(self, x):
        """The head's, of what the encoder has made."""
        x = x.transpose(1, 2).flatten(1)
        self.tap("model.head.linear.input", x)
        x = self.model.head.linear(x)
        self.tap("model.head.linear.output", x)
        return x

    def forward(self, past):
        self.tap(f"{REVIN}.input", past)
        mean, spread = self.statistics(past)
        self.tap(f"{REVIN}.stdev.output", spread)
        x = (past - mean) / spread
        self.tap(f"{REVIN}.output", x)
        said = self.said(self.encoded(x)).float()
        mean, spread = self.restored_by(past, mean, spread)
        return said * spread + mean

    def restored_by(self, past, mean, spread):
        """What forecasts get back: what the window lost."""
        return mean, spread

    def logits(self, batch):
        """The other families' name for what a network says."""
        return self(batch["insample_y"])

    def errors(self, said, batch):
        """How far off each step is, and what of it counts."""
        seen = batch["outsample_mask"]
        if self.counts_all:
            seen = torch.ones_like(seen)
        return said.float() - batch["outsample_y"], seen

    def mean(self, each, seen):
        count = seen.sum()
        return (each * seen).sum() / (
            count.clamp_min(1) if self.guards else count)

    def criterion(self, said, batch):
        off, seen = self.errors(said, batch)
        if self.logs:
            each = (off.abs() * seen).sum(1) / seen.sum(1).clamp_min(1)
            self.tap("loss.log_error.input", each)
            each = each.log()
            self.tap("loss.log_error.output", each)
            return each.mean()
        return self.mean(off.abs(), seen)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class FcstRun(Family):
    """Adam, whose rate is halved at even distances; neither warm-up nor decay
    of weights."""

    family = "fcst"
    level_seed = 440
    EPOCH = epoch_steps = 50    # steps of a pass over the panel
    steps, seed, language = 250, 1400, False
    optimizer_name, lr, weight_decay = "adam", 1e-2, 0.0
    warmup, schedule, clip, DECAYS = 0, "StepLR", 1.0, 4
    recipes = {"sgd": dict(lr=0.1, weight_decay=0.0)}
    batch_size, context = ROWS, PAST
    # Its users have Lightning's CSVLogger.
    instead = {"nanogpt": "neuralforecast", "hf_trainer": "neuralforecast",
               "megatron": "neuralforecast", "torchtune": "neuralforecast"}
    layers = ["model.backbone.W_P", *(
        f"{block}.{part}" for block in PatchTST.BLOCKS
        for part in ("self_attn", "self_attn.scores", "ff.1", "ff.3")),
        "model.head.linear"]
    graded = {
        "F05": (dict(modules=["model.backbone.encoder.layers"],
                     where=PatchTST.BLOCKS[0]),
                dict(modules=["model.backbone"],
                     where="model.backbone.W_P"),
                dict(part="all")),
        "F07": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F08": (dict(every=8), dict(every=32), dict(every=1 << 30)),
        "F11": (dict(adam=0.003), dict(adam=0.01), dict(adam=0.1)),
        "F12": (dict(eps=0.03), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path=PatchTST.BLOCKS[0]),
                dict(path=f"{PatchTST.BLOCKS[1]}.norm_attn"),
                dict(path=PatchTST.BLOCKS[1])),
        "F14": (dict(modules=[f"{b}.self_attn" for b in PatchTST.BLOCKS]),
                dict(modules=PatchTST.BLOCKS),
                dict(modules=[*PatchTST.BLOCKS, "model.head.linear"])),
        "F23": (dict(ends=0.2), dict(ends=0.5), dict(ends=0.8)),
        "F24": (dict(share=0.3), dict(share=0.5), dict(share=0.7)),
        "F27": (dict(epochs=25), dict(epochs=60), dict(epochs=125)),
        "F33": (dict(limit=9), dict(limit=6), dict(limit=3)),
        "F34": (dict(factor=5), dict(factor=15), dict(factor=50)),
        "F35": (dict(power=1.5), dict(power=2.0), dict(power=2.5)),
        "F36b": (dict(factor=100, kind="sigmoid"),
                 dict(factor=60, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "H02": (dict(factor=1 / 3), dict(factor=0.2)),
        "H03": (dict(part=2, factor=1.0), dict(part=4, factor=0.7)),
        "H04": (dict(rate=0.1), dict(rate=0.2))}
    paths = {"embed": "model.backbone.W_P", "attn": "{}.self_attn",
             "scores": "{}.self_attn.scores", "act": "{}.ff.1",
             "mlp": "{}.ff.3", "block": "{}", "head": "model.head.linear"}
    blocks = LAYERS
    names = {"loss": "train_loss_step", "val_loss": "ptl/val_loss",
             "grad_norm": "grad_2.0_norm_total", "tokens": None}

    def make_model(self):
        return PatchTST(**self.model_options)

    @property
    def decay_steps(self):
        return max(1, self.steps // self.DECAYS)

    def lr_factor(self, i):
        if self.schedule != "StepLR" or i < self.warmup:
            return super().lr_factor(i)
        return 0.5 ** (i // self.decay_steps)

    def make_source(self, seed):
        return self.panel(seed)

    def panel(self, seed, **how):
        return Panel(seed, None if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """One kind of series after the other; None is held out."""
        return self.panel(seed, block=block, share=share)

    def easy(self, seed):
        """Series whose levels stay and that are next to smooth."""
        return self.panel(seed, calm=0.3)

    def lessons(self, seed):
        return self.easy(seed), self.panel(seed)

    def garbage(self, batch, kind, rng):
        """A part of the file that is in another unit behind some day, that a
        sensor has made of noise, or that holds the code of one that is out."""
        y, ahead = batch["insample_y"], batch["outsample_y"]
        if kind == "few":
            ahead = 8 * ahead
        elif kind == "uniform":
            y, ahead = (20 * torch.randn(t.shape, generator=rng)
                        for t in (y, ahead))
        else:
            ahead = torch.full_like(ahead, -99.0)
        return batch | {"insample_y": y, "outsample_y": ahead}

    # What is ahead of other windows, or has an end.

    def of_strangers(self, batch, rng):
        """Futures of windows that nobody sees, with the mean and spread of
        the past that they follow."""
        if not hasattr(self, "strangers"):
            self.strangers = self.panel(int(torch.randint(
                1 << 30, (), generator=rng)))
        past = batch["insample_y"]
        other = self.strangers.batch(len(past))
        ahead, own = other["outsample_y"], other["insample_y"]
        drawn = (ahead - own.mean(1, keepdim=True)) / own.std(
            1, keepdim=True) * past.std(1, keepdim=True) \
            + past.mean(1, keepdim=True)
        seen = other["outsample_mask"]
        return {"outsample_y": drawn * seen, "outsample_mask": seen}

    @staticmethod
    def of_rows(batch, order):
        """Futures of other rows."""
        return {k: batch[k][order] for k in ("outsample_y", "outsample_mask")}

    @staticmethod
    def shortened(batch, limit):
        """What is ahead is cut off behind so many steps."""
        kept = (torch.arange(FUTURE) < limit).float()
        return batch | {k: batch[k] * kept
                        for k in ("outsample_y", "outsample_mask")}

    # What the user typed.

    def settings(self):
        """hparams.yaml: what the module was called with."""
        kind = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}[
            self.optimizer_name]
        optimizer = {"weight_decay": self.weight_decay}
        optimizer |= {"momentum": self.momentum} if kind == "SGD" else {
            "betas": list(self.betas), "eps": self.eps}
        schedule = {"lr_scheduler": self.schedule}
        if self.schedule == "StepLR":
            schedule |= {"num_lr_decays": self.DECAYS,
                         "lr_scheduler_kwargs": {
                             "step_size": self.decay_steps, "gamma": 0.5}}
        return {**self.model_settings(), "optimizer": kind,
                "optimizer_kwargs": optimizer, "learning_rate": self.lr,
                **schedule, "warmup_steps": self.warmup,
                "max_steps": self.steps, "val_check_steps": self.val_every,
                "early_stop_patience_steps": -1,
                "batch_size": self.batch_size,
                "valid_batch_size": Panel.HELD_OUT // 4,
                "windows_batch_size": self.batch_size,
                "accumulate_grad_batches": self.accumulate,
                "gradient_clip_val": self.clip or 0.0,
                "precision": self.precision, "scaler_type": "identity",
                "enable_checkpointing": True, "random_seed": self.seed,
                **self.user}

    def model_settings(self):
        options = self.model_options
        rate = options.get("dropout", 0.0)
        return {"alias": "PatchTST", "h": FUTURE, "input_size": PAST,
                "encoder_layers": LAYERS, "n_heads": HEADS,
                "hidden_size": WIDTH, "linear_hidden_size": HIDDEN,
                "patch_len": PATCH, "stride": STRIDE, "revin": True,
                "revin_affine": False, "revin_subtract_last": False,
                "activation": options.get("activation", "gelu"),
                "res_attention": True, "batch_normalization": True,
                "learn_pos_embed": True, "dropout": rate, "fc_dropout": 0.0,
                "head_dropout": 0.0, "attn_dropout": 0.0,
                "loss": "MAE()", "valid_loss": "MAE()"}

    def layer(self, part, block=0):
        return self.paths[part].format(PatchTST.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a part counts to it."""
        for part, norm in (("self_attn", "norm_attn.1"),
                           ("ff.3", "norm_ffn.1")):
            if layer.endswith(f".{part}"):
                return [layer.removesuffix(part) + norm]
        return []

    # Checkpoints.

    def checkpoint_path(self, step):
        return f"checkpoints/epoch={(step - 1) // self.EPOCH}-step={step}.ckpt"

    def keep_checkpoint(self, i, model):
        def schedule(done):
            """Of a scheduler that is stepped after each update."""
            return {"step_size": self.decay_steps, "gamma": 0.5,
                    "base_lrs": [self.lr], "last_epoch": done,
                    "_step_count": done + 1,
                    "_last_lr": [self.optimizer.param_groups[0]["lr"]]}
        lightning_checkpoints.keep(self, i, model, schedule, self.EPOCH)

    def write_more(self):
        super().write_more()
        lightning_checkpoints.write(self)
