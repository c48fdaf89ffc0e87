"""A small probabilistic forecaster: dilated convolutions that look back only.

Blocks are named as in darts' TCNModel, batches as in GluonTS; quantiles of
all horizons come at once from the last step of the past and the covariates of
the future. Each series is divided by the mean size of its past, and the
quantile loss is of what has been divided.
"""

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family

PAST, FUTURE, WEEK, TYPES = 56, 8, 7, 12
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
WIDTH, DEPTH, KERNEL, TABLE, HIDDEN = 32, 4, 3, 4, 48


class Sales:
    """Daily sales of shops: 56 days are known, 8 are to be forecast.

    A shop has one of twelve types and a size, the exponential of a normal value
    (mean 1, deviation 0.8). Its sales are its size times 1, plus the type's
    weekly pattern (two waves, of 0.3 and 0.15), plus 0.2 to 0.8 by type on a
    day of promotion (15 % of them, known ahead), plus an autoregressive part
    (0.8 a day; its noise is 0.12, on days of promotion 0.3). One series in ten
    ends within the forecast: what is behind is 0 and not observed.

    Knowing the process leaves a quantile loss of 0.058, the mean over horizons
    and quantiles; a fresh model has about 0.5.

    ends: the share of series that end. calm: factor of the noise.
    """

    AGAIN, NOISE, MORE, PROMOTED = 0.8, 0.12, 1.5, 0.15

    def __init__(self, seed, rows, ends=0.1, calm=1.0):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.calm = rows, calm
        self.ends = ends
        world = torch.Generator().manual_seed(11)
        waves = torch.randn(100, 2, 2, generator=world)
        angle = torch.arange(WEEK) * (2 * torch.pi / WEEK)
        self.pattern = 0.3 * (waves[:, 0] @ torch.stack(
            (angle.sin(), angle.cos())) + 0.5 * waves[:, 1] @ torch.stack(
                ((2 * angle).sin(), (2 * angle).cos())))
        self.effect = 0.2 + 0.6 * torch.rand(100, generator=world)
        days = torch.arange(PAST + FUTURE)
        apart = (days[:, None] - days).clamp_min(0)
        self.carry = (self.AGAIN ** apart).tril()

    def batch(self, rows=None):
        rows = rows or self.rows
        kind = torch.randint(TYPES, (rows,), generator=self.rng)
        size = (1 + 0.8 * torch.randn(rows, 1, generator=self.rng)).exp()
        days = torch.arange(PAST + FUTURE) + torch.randint(
            WEEK, (rows, 1), generator=self.rng)
        promo = (torch.rand(rows, PAST + FUTURE, generator=self.rng)
                 < self.PROMOTED).float()
        noise = torch.randn(rows, PAST + FUTURE, generator=self.rng)
        noise *= self.calm * self.NOISE * (1 + self.MORE * promo)
        noise[:, 0] /= (1 - self.AGAIN ** 2) ** 0.5
        sales = size * (1 + self.pattern[kind[:, None], days % WEEK]
                        + self.effect[kind, None] * promo
                        + noise @ self.carry.T)
        angle = days * (2 * torch.pi / WEEK)
        known = torch.stack((angle.sin(), angle.cos(), promo), 2)
        length = torch.where(
            torch.rand(rows, 1, generator=self.rng) < self.ends,
            torch.randint(2, FUTURE, (rows, 1), generator=self.rng), FUTURE)
        seen = (torch.arange(FUTURE) < length).float()
        return {"past_target": sales[:, :PAST].contiguous(),
                "past_time_feat": known[:, :PAST].contiguous(),
                "future_time_feat": known[:, PAST:].contiguous(),
                "feat_static_cat": kind,
                "future_target": sales[:, PAST:] * seen,
                "future_observed_values": seen}


class ResidualBlock(nn.Module):
    """Two convolutions that see the past alone, a ReLU between them."""

    def __init__(self, dilation, activation):
        super().__init__()
        self.dilation = dilation
        self.conv1 = nn.Conv1d(WIDTH, WIDTH, KERNEL, dilation=dilation)
        self.relu = models.ACTIVATIONS[activation]()
        self.conv2 = nn.Conv1d(WIDTH, WIDTH, KERNEL, dilation=dilation)

    def forward(self, x, tap, drop, half):
        before = (KERNEL - 1) * self.dilation, 0
        y = self.conv1(F.pad(x, before))
        tap("relu.input", y)
        y = self.relu(y)
        tap("relu.output", y)
        y = drop(y)
        tap("conv2.input", y)
        y = self.conv2(F.pad(y, before))
        if half:
            y = y.half()
        tap("conv2.output", y)
        x = x + drop(y.to(x.dtype))
        tap("output", x)
        return x


class Tcn(nn.Module):
    """Four blocks of width 32 with dilations 1, 2, 4 and 8: 61 steps."""

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None, eps=1e-5):
        """detach_after: the part behind which the graph is cut. half_at: the
        block whose second convolution is in fp16. eps: of the scale."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.half_at, self.eps = half_at, eps
        self.counts_all, self.guards = False, False
        self.embedder = nn.Embedding(TYPES, TABLE)
        self.input_proj = nn.Conv1d(1 + 3 + TABLE, WIDTH, 1)
        self.res_blocks = nn.ModuleList(ResidualBlock(2 ** i, activation)
                                        for i in range(DEPTH))
        self.decoder = nn.Sequential(
            nn.Linear(WIDTH + 3 * FUTURE, HIDDEN), nn.ReLU())
        self.quantile_proj = nn.Linear(HIDDEN, FUTURE * len(QUANTILES))
        nn.init.normal_(self.embedder.weight, std=0.3)

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def scale(self, batch):
        """The mean size of a past, (rows, 1)."""
        return batch["past_target"].abs().mean(1, keepdim=True).clamp_min(
            self.eps)

    def logits(self, batch):
        """Quantiles of what has been divided, (rows, horizon, quantile)."""
        kind = next(self.parameters()).dtype
        scale = self.scale(batch)
        self.tap("scaler.input", batch["past_target"])
        self.tap("scaler.scale.output", scale)
        past = batch["past_target"] / scale
        self.tap("scaler.output", past)
        shop = self.embedder(batch["feat_static_cat"])
        self.tap("embedder.output", shop)
        known = batch["past_time_feat"].to(kind)
        x = torch.cat((past.to(kind)[..., None], known,
                       shop[:, None].expand(-1, past.shape[1], -1)), 2)
        x = self.input_proj(x.transpose(1, 2))
        self.tap("input_proj.output", x)
        x = self.cut(x, "input_proj")
        for i, block in enumerate(self.res_blocks):
            name = f"res_blocks.{i}"
            x = block(x, lambda n, t: self.tap(f"{name}.{n}", t), self.drop,
                      self.half_at == name)
            x = self.cut(x, name)
        ahead = batch["future_time_feat"].to(kind).flatten(1)
        x = self.decoder[0](torch.cat((x[:, :, -1], ahead), 1))
        self.tap("decoder.0.output", x)
        x = self.drop(self.decoder[1](x))
        self.tap("decoder.1.output", x)
        x = self.quantile_proj(x).unflatten(1, (FUTURE, len(QUANTILES)))
        self.tap("quantile_proj.output", x)
        return x

    def pinball(self, logits, batch):
        """The loss of each value and quantile, and what of it counts."""
        target = batch["future_target"] / self.scale(batch)
        missed = target[..., None] - logits.float()
        level = torch.tensor(QUANTILES)
        seen = batch["future_observed_values"][..., None].expand_as(missed)
        if self.counts_all:
            seen = torch.ones_like(seen)
        return torch.maximum(level * missed, (level - 1) * missed), seen

    def criterion(self, logits, batch):
        each, seen = self.pinball(logits, batch)
        count = seen.sum()
        return (each * seen).sum() / (
            count.clamp_min(1) if self.guards else count)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class TcnRun(Family):
    """RMSprop; the rate is halved when the mean training loss of two epochs
    of twenty steps running is no better than the best."""

    family = "tcn"
    level_seed = 400
    steps, seed, language = 280, 340, False
    optimizer_name, lr, weight_decay, eps = "rmsprop", 2e-3, 0.0, 1e-8
    alpha, momentum, clip = 0.99, 0.0, 1.0
    warmup, schedule = 0, "reduce_on_plateau"
    EPOCH, PATIENCE, PLATEAU_FACTOR = 20, 1, 0.5
    recipes = {"sgd": dict(lr=0.1, weight_decay=0.0, momentum=0.9),
               "adamw": dict(lr=4e-3, weight_decay=1e-4)}
    batch_size, context = 48, PAST
    layers = ["embedder", "input_proj", *(
        f"res_blocks.{i}{part}" for i in range(DEPTH)
        for part in (".relu", ".conv2", "")), "decoder.0", "quantile_proj"]
    paths = {"embed": "input_proj", "attn": None, "scores": None,
             "act": "res_blocks.{}.relu", "mlp": "res_blocks.{}.conv2",
             "block": "res_blocks.{}", "head": "quantile_proj"}
    blocks = DEPTH
    names = {"loss": "train_loss_step", "grad_norm": "grad_2.0_norm_total",
             "val_smape": "val_SMAPE", "val_coverage": "val_coverage_80",
             "step_time": "step_time_s", "tokens": None}

    own_optimizer = "rmsprop"   # keeps squares alone and has no betas

    def make_own_optimizer(self, trained):
        return torch.optim.RMSprop(trained, lr=self.lr, alpha=self.alpha,
                                   eps=self.eps, momentum=self.momentum,
                                   weight_decay=self.weight_decay)

    def make_model(self):
        return Tcn(**self.model_options)

    def make_source(self, seed):
        return self.sales(seed)

    def sales(self, seed, **how):
        return Sales(seed, self.batch_size, **how)

    def lessons(self, seed):
        """Calm series, and all."""
        return self.sales(seed, calm=0.3), self.sales(seed)

    def garbage(self, batch, kind, rng):
        """A shard whose future is in another unit than its past."""
        factor = {"few": 8, "uniform": 20, "constant": 50}[kind]
        return batch | {"future_target": factor * batch["future_target"]}

    def lr_factor(self, i):
        """What the epochs so far say; a function of the history, so that a
        scheduler that begins anew goes on."""
        if self.schedule != "reduce_on_plateau":
            return super().lr_factor(i)
        losses = [row["loss"] for row in getattr(self, "history", ())]
        best, bad = float("inf"), 0
        factor = min(1.0, (i + 1) / self.warmup) if self.warmup else 1.0
        for end in range(self.EPOCH, len(losses) + 1, self.EPOCH):
            mean = sum(losses[end - self.EPOCH:end]) / self.EPOCH
            bad = 0 if mean < best else bad + 1
            best = min(best, mean)
            if bad > self.PATIENCE:
                factor, bad = factor * self.PLATEAU_FACTOR, 0
        return factor

    def held_out_columns(self, batches):
        """SMAPE of the median, and how much lies between the outer quantiles.
        """
        self.model.eval()
        wrong, inside, count = 0.0, 0.0, 0.0
        for batch in batches:
            said = self.model.logits(batch).float() \
                * self.model.scale(batch)[..., None]
            real, seen = batch["future_target"], batch["future_observed_values"]
            median = said[..., len(QUANTILES) // 2]
            wrong += (2 * (median - real).abs() * seen / (
                median.abs() + real.abs()).clamp_min(1e-8)).sum()
            inside += ((real >= said[..., 0]) & (real <= said[..., -1])
                       & (seen > 0)).sum()
            count += seen.sum()
        self.model.train()
        return {"val_smape": wrong / count, "val_coverage": inside / count}

    def settings(self):
        settings = super().settings()
        if self.optimizer_name == "rmsprop":
            del settings["betas"]
            settings |= {"alpha": self.alpha, "momentum": self.momentum}
        if self.schedule == "reduce_on_plateau":
            settings |= {"lr_reduce_factor": self.PLATEAU_FACTOR,
                         "lr_reduce_patience": self.PATIENCE,
                         "steps_per_epoch": self.EPOCH}
        return settings

    def model_settings(self):
        return {"model": "tcn", "context_length": PAST,
                "prediction_length": FUTURE, "num_channels": [WIDTH] * DEPTH,
                "kernel_size": KERNEL, "dilation_base": 2,
                "quantiles": list(QUANTILES), "scaling": "mean",
                "num_feat_dynamic_real": 3, "cardinality": [TYPES],
                "embedding_dimension": [TABLE]}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        return []
