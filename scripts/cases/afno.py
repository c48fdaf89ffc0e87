"""A small weather model of Fourier operators: what is the next state?

As FourCastNet is trained: fields of three variables on a periodic grid are cut
into patches, blocks mix them in the spectrum (AFNO: one small complex network
for all wavenumbers) and by a network at each place, and a head says the fields
of the next time. Parts, columns, log, config and checkpoints are those of
NVlabs' train.py.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family
from .models import Group

LATS, LONS, PATCH, ROWS = 12, 24, 2, 12
HEIGHT, WIDE = LATS // PATCH, LONS // PATCH
VARIABLES = ("u10", "v10", "t2m")
COUNT = len(VARIABLES)
WIDTH, HIDDEN, PARTS, DEPTH = 32, 64, 4, 2
SEASONS, CENTRES = 4, 3


def latitude_weights(power=1.0):
    """Cosines of the rows' latitudes, of a mean of 1."""
    at = math.pi * ((torch.arange(LATS) + 0.5) / LATS - 0.5)
    weights = at.cos() ** power
    return (weights / weights.mean())[:, None]


class Flow:
    """A flow of large waves, seen through noise, and what comes of it.

    Wind (two components) and temperature are sums of the 21 waves of the grid
    that are at most 3 long and 1 high; their strength is drawn, large waves
    have more of it. To these comes the mean of one of four seasons, which are
    warm or cold (1, .3, -.3, -1) and have waves of their own. In a step wind
    turns by an angle that is its latitude's (up to F0), all is carried one
    cell to the east, wind loses .05, temperature .3 and gets .4 of what the
    wind's energy is above its mean, and what its season adds (.6 to -.6); and
    there is a forcing of large waves that nobody can know (.03 of the
    variance). So places matter, and a product of what is seen.

    The input is an analysis made in time, with noise on each number (.5 of the
    waves' variance), the target a better one (.1). All is divided by the
    root of 2, so that inputs have a variance of about 1. A strip of the target
    was not observed (mask 0, of a tenth on average) and is filled with 0.
    Given its season the input is Gaussian, so that who knows the process can
    say what is to be expected (`best()`).

    calm: without noise of the input, heating and all seasons but one. block,
    share: so many batches of a season, one after the other. gaps: the share
    that is not observed. centres: three that have another gain and offset,
    whose number is in the batch as domain. second: what comes after the next.
    """

    LONG, HIGH, F0, CARRIED = 3, 1, 1.0, 1
    NOISE, BETTER, FORCING, SEASON = 0.5, 0.1, 0.03, 0.5
    WIND, WARM, HEAT, SCALE = 0.95, 0.7, 0.4, 0.5 ** 0.5
    LEVEL, TREND = (1.0, 0.3, -0.3, -1.0), (0.6, 0.2, -0.2, -0.6)

    def __init__(self, seed, rows=ROWS, calm=False, block=None, share=1.0,
                 gaps=0.1, centres=False, second=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.calm, self.gaps = rows, calm, gaps
        self.block, self.share, self.number = block, share, 0
        self.centres, self.second = centres, second
        y, x = torch.meshgrid(torch.arange(LATS) / LATS,
                              torch.arange(LONS) / LONS, indexing="ij")
        waves, size = [torch.ones(LATS, LONS)], [0.3]
        for long in range(self.LONG + 1):
            for high in range(-self.HIGH, self.HIGH + 1):
                if long == 0 and high <= 0:
                    continue
                at = 2 * math.pi * (long * x + high * y)
                waves += [2 ** 0.5 * at.cos(), 2 ** 0.5 * at.sin()]
                size += 2 * [1 / (1 + 0.2 * (long ** 2 + high ** 2))]
        self.waves, size = torch.stack(waves).flatten(1), torch.tensor(size)
        self.size = size / size.sum()   # variances of the waves' strengths
        world = torch.Generator().manual_seed(41)
        self.means = self.SEASON ** 0.5 * self.size.sqrt() * torch.randn(
            SEASONS, COUNT, len(size), generator=world)
        self.means[:, 2, 0] = torch.tensor(self.LEVEL)
        self.turn = self.F0 * (2 * math.pi * (
            torch.arange(LATS) + 0.5) / LATS).sin()[:, None]

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def fields(self, strength):
        return (strength @ self.waves).unflatten(-1, (LATS, LONS))

    def drawn(self, rows):
        """Strengths of waves, without their mean."""
        return self.size.sqrt() * self.normal(rows, COUNT, len(self.size))

    def expected(self, x, season, spread=0.0):
        """The next fields, but for the forcing, of fields that have this
        variance about what is given."""
        u, v, t = x.unbind(1)
        energy = (u.square() + v.square()) / 2 + spread
        if self.calm:
            energy = torch.full_like(energy, 1 + self.SEASON)
        cos, sin = self.turn.cos(), self.turn.sin()
        x = torch.stack((
            self.WIND * (cos * u + sin * v), self.WIND * (cos * v - sin * u),
            self.WARM * t + self.HEAT * (energy - 1 - self.SEASON)
            + torch.tensor(self.TREND)[season, None, None]), 1)
        return x.roll(self.CARRIED, -1)

    def following(self, x, season):
        return self.expected(x, season) + self.FORCING ** 0.5 * self.fields(
            self.drawn(len(x)))

    def season(self, rows):
        season = torch.randint(1 if self.calm else SEASONS, (rows,),
                               generator=self.rng)
        if self.block:
            kept = torch.rand(rows, generator=self.rng) < self.share
            here = self.number // self.block % SEASONS
            season = torch.where(kept, torch.tensor(here), season)
        self.number += 1
        return season

    def seen(self, x, noise):
        return self.SCALE * (x + noise ** 0.5 * self.normal(*x.shape))

    def observed(self, rows):
        """0 in a strip of meridians, 1 elsewhere."""
        wide = (2 * self.gaps * LONS * torch.rand(
            rows, 1, generator=self.rng)).round()
        first = torch.randint(LONS, (rows, 1), generator=self.rng)
        away = (torch.arange(LONS) - first) % LONS
        mask = (away >= wide.clamp(max=LONS - 2)).float()
        return mask[:, None, None].expand(-1, 1, LATS, -1).contiguous()

    def batch(self, rows=None):
        rows = rows or self.rows
        season = self.season(rows)
        x = self.fields(self.means[season] + self.drawn(rows))
        y = self.following(x, season)
        batch = {"inp": self.seen(x, 0.0 if self.calm else self.NOISE),
                 "tar": self.seen(y, self.BETTER),
                 "mask": self.observed(rows)}
        if self.second:
            batch["tar_two"] = self.seen(
                self.following(y, season), self.BETTER)
        if self.centres:
            centre = torch.randint(CENTRES, (rows,), generator=self.rng)
            each = centre[:, None, None, None] - 1.0
            for name in ("inp", "tar"):
                batch[name] = (1 + 0.2 * each) * batch[name] + 0.5 * each
            batch["domain"] = centre
        batch["tar"] = batch["tar"] * batch["mask"]
        self.last = season
        return batch

    def told(self, batch):
        """What who knows the process, and the last batch's seasons, says."""
        each = self.NOISE / (LATS * LONS)
        mean = self.means[self.last]
        found = (batch["inp"] / self.SCALE).flatten(2) @ self.waves.T \
            / (LATS * LONS)
        gain = self.size / (self.size + each)
        left = float((each * gain).sum())
        return self.SCALE * self.expected(self.fields(
            mean + gain * (found - mean)),
            self.last, left)

    def best(self, batches=60):
        """The loss of who knows the process."""
        model, total = WeatherModel(), 0.0
        for _ in range(batches):
            batch = self.batch()
            total += float(model.criterion(self.told(batch), batch))
        return total / batches


class Spectral(nn.Module):
    """AFNO2D: a complex network of two layers in blocks of channels, the same
    for all wavenumbers, and a soft shrinkage of what it says."""

    SCALE = 0.02

    def __init__(self, options):
        super().__init__()
        block = WIDTH // PARTS
        self.options = options
        for name, shape in (("w1", (block, block)), ("b1", (block,)),
                            ("w2", (block, block)), ("b2", (block,))):
            self.register_parameter(name, nn.Parameter(
                self.SCALE * torch.randn(2, PARTS, *shape)))

    def kept(self, shape):
        """1 where a wavenumber is kept, of a spectrum (height, width)."""
        share, upper = self.options["kept"], self.options["upper"]
        high = torch.minimum(torch.arange(shape[0]),
                             shape[0] - torch.arange(shape[0]))
        high = high[:, None] / (shape[0] // 2)
        long = torch.arange(shape[1]) / (shape[1] - 1)
        far = torch.maximum(high, long)
        kept = far > 1 - share if upper else far <= share
        return kept.float()[..., None]

    @staticmethod
    def layer(x, weight, bias):
        """Of (block, row, real parts and then imaginary ones); a complex map
        is one of real numbers that is twice as wide."""
        real, imag = weight.float()
        whole = torch.cat((torch.cat((real, imag), 2),
                           torch.cat((-imag, real), 2)), 1)
        return torch.baddbmm(torch.cat(tuple(bias.float()), 1)[:, None],
                             x, whole)

    def forward(self, x):
        bias, dtype = x, x.dtype
        x = torch.fft.rfft2(x.float(), dim=(1, 2), norm="ortho")
        shape = x.shape
        x = torch.view_as_real(x).reshape(-1, PARTS, WIDTH // PARTS, 2)
        x = x.permute(1, 0, 3, 2).flatten(2)
        x = self.layer(self.layer(x, self.w1, self.b1).relu(),
                       self.w2, self.b2)
        x = F.softshrink(x, self.options["sparsity"])
        x = x.unflatten(2, (2, -1)).permute(1, 0, 3, 2).contiguous()
        x = torch.view_as_complex(x).view(shape)
        if self.options["kept"] < 1:
            x = x * self.kept(shape[1:3])
        x = torch.fft.irfft2(x, s=(HEIGHT, WIDE), dim=(1, 2), norm="ortho")
        return x.to(dtype) + bias


class Block(nn.Module):
    """Norm and filter, norm and network, both gone around."""

    def __init__(self, name, options):
        super().__init__()
        self.name, self.options = name, options
        self.norm1 = nn.LayerNorm(WIDTH, 1e-6)
        self.filter = Spectral(options)
        self.norm2 = nn.LayerNorm(WIDTH, 1e-6)
        self.mlp = Group(
            fc1=nn.Linear(WIDTH, HIDDEN),
            act=models.ACTIVATIONS[options["activation"]](),
            fc2=nn.Linear(HIDDEN, WIDTH))

    def forward(self, x, tap, drop, cut):
        name, half = self.name, self.options["half_at"]
        y = self.filter(self.norm1(x))
        tap(f"{name}.filter.output", y)
        x = x + cut(y, f"{name}.filter")
        y, part = self.norm2(x), f"{name}.mlp.fc1"
        if half == part:
            tap(f"{part}.input", y)
        y = self.mlp.fc1(y)
        if half == part:
            y = y.half()
        tap(f"{part}.output", y)
        tap(f"{name}.mlp.act.input", y)
        y = self.mlp.act(y)
        tap(f"{name}.mlp.act.output", y)
        y = self.mlp.fc2(drop(y).to(self.mlp.fc2.weight.dtype))
        tap(f"{name}.mlp.fc2.output", y)
        x = x + drop(y)
        tap(f"{name}.output", x)
        return cut(x, name)


class WeatherModel(nn.Module):
    """AFNONet: two blocks of a width of 40 over 6 by 12 patches."""

    BLOCKS = tuple(f"blocks.{i}" for i in range(DEPTH))
    EMBED = "patch_embed.proj"

    def __init__(self, activation="gelu", dropout=0.0, detach_after=None,
                 half_at=None, positions=True, sparsity=0.01, kept=1.0,
                 upper=False, kind="l2", logs=False):
        """detach_after: the part, or parts, behind which the graph is cut.
        half_at: the map whose output is in half precision. positions: False
        leaves them out, a number gives all patches one's. sparsity: of the
        shrinkage. kept: the share of wavenumbers that filters keep, the lower
        ones, or the upper ones if `upper`. kind: of the loss. logs: the loss
        is the mean over fields of the logarithm of their error."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.kind, self.logs = positions, kind, logs
        self.weighs, self.guards = True, True
        options = {"activation": activation, "half_at": half_at,
                   "sparsity": sparsity, "kept": kept, "upper": upper}
        self.patch_embed = Group(proj=nn.Conv2d(COUNT, WIDTH, PATCH, PATCH))
        self.pos_embed = nn.Parameter(torch.empty(1, HEIGHT * WIDE, WIDTH))
        self.blocks = nn.ModuleList(
            Block(name, options) for name in self.BLOCKS)
        # The library's has it as well and does not use it.
        self.norm = nn.LayerNorm(WIDTH, 1e-6)
        self.head = nn.Linear(WIDTH, COUNT * PATCH ** 2, bias=False)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def cut(self, x, name):
        cuts = self.detach_after
        cuts = (cuts,) if isinstance(cuts, str) else cuts or ()
        return x.detach() if name in cuts else x

    def places(self):
        if self.positions is True:
            return self.pos_embed
        return 0 * self.pos_embed if self.positions is False \
            else self.pos_embed[:, self.positions:self.positions + 1]

    def forward(self, inp):
        x = self.patch_embed.proj(inp.to(self.pos_embed.dtype))
        self.tap(f"{self.EMBED}.output", x)
        x = self.cut(x, self.EMBED)
        x = x.flatten(2).transpose(1, 2) + self.places()
        x = self.drop(x).unflatten(1, (HEIGHT, WIDE))
        for block in self.blocks:
            x = block(x, self.tap, self.drop, self.cut)
        x = self.head(x)
        self.tap("head.output", x)
        x = x.unflatten(-1, (PATCH, PATCH, COUNT)).permute(0, 5, 1, 3, 2, 4)
        return x.reshape(len(x), COUNT, LATS, LONS)

    def logits(self, batch):
        """The other families' name for what a network says."""
        return self(batch["inp"])

    def criterion(self, said, batch, target="tar"):
        """LpLoss: the norm of a row's error by that of its target, where this
        was observed; or the mean square, weighed by latitude."""
        wanted, said = batch[target], said.float()
        mask = batch["mask"] if self.weighs else torch.ones_like(batch["mask"])
        off = (said - wanted) * mask
        if self.logs:
            each = off.square().mean((2, 3))
            self.tap("loss.log_error.input", each)
            each = each.log()
            self.tap("loss.log_error.output", each)
            return each.mean()
        if self.kind == "weighted_mse":
            each = off.square() * latitude_weights()
            return each.sum() / (COUNT * mask.sum()).clamp_min(1)
        power = {"l1": 1, "l2": 2}[self.kind]
        size = (wanted * mask).flatten(1).norm(power, dim=1)
        off = off.flatten(1).norm(power, dim=1)
        self.tap("loss.diff_norms.output", off)
        self.tap("loss.y_norms.output", size)
        if self.guards:  # of a row in which nothing was observed
            size = torch.where(mask.flatten(1).sum(1) > 0, size, 1.0)
        each = off / size
        self.tap("loss.rel.output", each)
        return each.mean()

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class AfnoRun(Family):
    """Adam with a rate that is an epoch's and falls as a cosine; nothing is
    clipped."""

    family, EXPERIMENT = "afno", "afno_backbone"
    level_seed = 400
    EPOCH = epoch_steps = 50
    steps, seed, language = 200, 2300, False
    optimizer_name, lr, weight_decay = "adam", 3e-2, 0.0
    warmup, schedule, clip = 0, "cosine", None
    recipes = {"sgd": dict(lr=0.1, weight_decay=0.0)}
    batch_size, context = ROWS, LATS * LONS
    # Its users have FourCastNet's script.
    instead = {"nanogpt": "fourcastnet", "hf_trainer": "fourcastnet",
               "megatron": "fourcastnet", "torchtune": "fourcastnet"}
    layers = [WeatherModel.EMBED, *(
        f"{block}.{part}" for block in WeatherModel.BLOCKS
        for part in ("filter", "mlp.fc1", "mlp.act", "mlp.fc2")), "head"]
    FILTERS = [f"{b}.filter" for b in WeatherModel.BLOCKS]
    graded = {
        "F04": (dict(at=80), dict(at=40), dict(at=0)),
        "F05": (dict(modules=["blocks"], where="blocks.0"),
                dict(modules=["blocks", "head"], where="blocks.0"),
                dict(part="all")),
        "F13": (dict(path=FILTERS[0], more=FILTERS[1:]),
                dict(path="blocks.0"), dict(path="blocks.1")),
        "F14": (dict(modules=FILTERS), dict(modules=WeatherModel.BLOCKS),
                dict(modules=[*WeatherModel.BLOCKS, "head"])),
        "F15": (dict(at=150), dict(at=100), dict(at=50)),
        "F16": (dict(rate=0.01), dict(rate=0.05), dict(rate=0.3)),
        "F23": (dict(gaps=0.1), dict(gaps=0.3), dict(gaps=0.6)),
        "F24": (dict(share=0.2), dict(share=0.35), dict(share=0.5)),
        "F26": (dict(steps=25, share=1.0), dict(steps=40, share=1.0),
                dict(steps=50, share=1.0)),
        "F27": (dict(epochs=25), dict(epochs=60), dict(epochs=125)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F36a": (dict(bias=-3.5), dict(bias=-5.0), dict(bias=-20.0)),
        "H02": (dict(factor=0.6), dict(factor=1 / 3)),
        "H03": (dict(part=2, factor=1.0), dict(part=3, factor=0.7)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H07": (dict(factor=0.3),)}
    paths = {"embed": WeatherModel.EMBED, "attn": "{}.filter", "scores": None,
             "act": "{}.mlp.act", "mlp": "{}.mlp.fc2", "block": "{}",
             "head": "head"}
    blocks = DEPTH
    names = {"val_loss": "valid_loss", "tokens": None, "val_l1": "valid_l1",
             "val_rmse_two": "valid_rmse_step_two", **{
                 f"val_{what}_{name}": f"valid_{what}_{name}"
                 for what in ("rmse", "acc") for name in VARIABLES}}

    def make_model(self):
        return WeatherModel(**self.model_options)

    def make_optimizer(self, model):
        """Adam in one kernel, as the script has it from apex."""
        if self.optimizer_name != "adam":
            return super().make_optimizer(model)
        return torch.optim.Adam(
            [p for p in model.parameters() if p.requires_grad], lr=self.lr,
            betas=self.betas, eps=self.eps, weight_decay=self.weight_decay,
            fused=True)

    def lr_factor(self, i):
        """CosineAnnealingLR, stepped behind each epoch."""
        if self.schedule != "cosine" or i < self.warmup:
            return super().lr_factor(i)
        epochs = math.ceil(self.steps / self.EPOCH)
        return 0.5 * (1 + math.cos(math.pi * (i // self.EPOCH) / epochs))

    def make_source(self, seed):
        return self.flow(seed)

    def flow(self, seed, **how):
        """Held-out rows have what comes after the next as well."""
        return Flow(seed, self.batch_size, **{"second": seed == 9} | how)

    def in_blocks(self, seed, block, share):
        """One season after the other; None is held out."""
        return self.flow(seed, block=block, share=share)

    def easy(self, seed):
        """One season without noise in what is seen, and without heating."""
        return self.flow(seed, calm=True)

    def lessons(self, seed):
        return self.easy(seed), self.flow(seed)

    def garbage(self, batch, kind, rng):
        """A part of the file whose input nobody standardised, that is noise,
        or that holds the value for what is missing."""
        x = batch["inp"]
        return batch | {"inp": {
            "few": 8.0 * x + 10.0,
            "uniform": 20 * torch.randn(x.shape, generator=rng),
            "constant": torch.full_like(x, -99.0)}[kind]}

    def of_strangers(self, rows, rng):
        """Targets of states that nobody sees."""
        if not hasattr(self, "strangers"):
            self.strangers = self.flow(int(torch.randint(
                1 << 30, (), generator=rng)))
        other = self.strangers.batch(rows)
        return {k: other[k] for k in ("tar", "mask")}

    @staticmethod
    def of_rows(batch, order):
        """Targets of other rows."""
        return {k: batch[k][order] for k in ("tar", "mask")}

    def held_out_columns(self, batches):
        """The script's: the mean distance, and of each variable RMSE and
        anomaly correlation, weighed by latitude; RMSE of a second step that
        begins with what the first one has said."""
        model, weight = self.model, latitude_weights()
        model.eval()
        off, said, wanted, later, kept = [], [], [], [], []
        for batch in batches:
            mask, one = batch["mask"], model(batch["inp"]).float()
            off.append((one - batch["tar"]) * mask)
            said.append(one * mask)
            wanted.append(batch["tar"])
            kept.append(mask * weight)
            if "tar_two" in batch:
                two = model(one).float() - batch["tar_two"]
                later.append((two.square() * weight).mean())
        model.train()
        off, said, wanted, kept = map(torch.cat, (off, said, wanted, kept))
        total = kept.sum((0, 2, 3)).clamp_min(1e-9)

        def mean(x):
            return (x * kept).sum((0, 2, 3)) / total
        rmse = mean(off.square()).sqrt()
        acc = mean(said * wanted) / (mean(said.square())
                                     * mean(wanted.square())).sqrt()
        row = {"val_l1": off.abs().mean()}
        for k, name in enumerate(VARIABLES):
            row |= {f"val_rmse_{name}": rmse[k], f"val_acc_{name}": acc[k]}
        if later:
            row["val_rmse_two"] = torch.stack(later).mean().sqrt()
        return row

    # What the user typed.

    def settings(self):
        """The parameters of an experiment in AFNO.yaml, by their names."""
        kind = {"sgd": "SGD", "adam": "Adam"}.get(self.optimizer_name, "AdamW")
        optimizer = {"momentum": self.momentum} if kind == "SGD" else {
            "betas": list(self.betas), "eps": self.eps}
        scheduler = {"cosine": "CosineAnnealingLR",
                     "constant": "ConstantLR"}.get(self.schedule,
                                                   self.schedule)
        return {**self.model_settings(), "loss": "l2", "dt": 1,
                "n_history": 0, "optimizer_type": kind, "lr": self.lr,
                **optimizer, "weight_decay": self.weight_decay,
                "scheduler": scheduler, "warmup_steps": self.warmup,
                "max_epochs": math.ceil(self.steps / self.EPOCH),
                "iters_per_epoch": self.EPOCH, "max_steps": self.steps,
                "max_grad_norm": self.clip, "batch_size": self.batch_size,
                "gradient_accumulation_steps": self.accumulate,
                "enable_amp": "mixed" in self.precision,
                "precision": self.precision, "seed": self.seed,
                "world_size": 1, "two_step_training": False,
                "add_noise": False, "noise_std": 0, "roll": False,
                **self.user}

    def model_settings(self):
        options = self.model_options
        return {"nettype": "afno", "img_shape_x": LATS, "img_shape_y": LONS,
                "patch_size": PATCH, "embed_dim": WIDTH, "depth": DEPTH,
                "mlp_ratio": HIDDEN / WIDTH, "num_blocks": PARTS,
                "activation": options.get("activation", "gelu"),
                "drop_rate": options.get("dropout", 0.0),
                "sparsity_threshold": options.get("sparsity", 0.01),
                "hard_thresholding_fraction": options.get("kept", 1.0),
                "in_channels": list(range(COUNT)),
                "out_channels": list(range(COUNT)),
                "channel_names": list(VARIABLES), "normalization": "zscore",
                "masked_loss": True}

    def yaml(self):
        """Lines of AFNO.yaml: what all experiments have, and this one."""
        common = {
            "num_data_workers": 2, "prediction_type": "iterative",
            "prediction_length": 2, "save_raw_forecasts": True,
            "save_channel": False, "masked_acc": True, "maskpath": None,
            "add_grid": False, "N_grid_channels": 0,
            "gridtype": "sinusoidal", "target": "default",
            "train_data_path": "data/train", "valid_data_path": "data/test",
            "inf_data_path": "data/out_of_sample", "exp_dir": "runs",
            "time_means_path": "data/time_means.npy",
            "global_means_path": "data/global_means.npy",
            "global_stds_path": "data/global_stds.npy", "orography": False,
            "orography_path": None, "log_to_screen": True,
            "log_to_wandb": False, "save_checkpoint": True,
            "enable_nhwc": False, "crop_size_x": None, "crop_size_y": None,
            "plot_animations": False}

        def scalar(value):
            if isinstance(value, bool):
                return f"!!bool {value}"
            return repr(value)
        lines = ["### base config ###", "full_field: &FULL_FIELD"]
        lines += [f"  {k}: {scalar(v)}" for k, v in common.items()]
        lines += ["", "#" * 48, f"{self.EXPERIMENT}: &backbone",
                  "  <<: *FULL_FIELD", "  log_to_wandb: !!bool True"]
        return lines + [f"  {k}: {scalar(v)}"
                        for k, v in self.settings().items()]

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(WeatherModel.BLOCKS[block])

    def fed_by(self, layer):
        """The norm before a part counts to it."""
        for part, norm in (("filter", "norm1"), ("mlp.fc1", "norm2")):
            if layer.endswith(f".{part}"):
                return [layer.removesuffix(part) + norm]
        return []

    # Checkpoints.

    LAST, BEST = (f"training_checkpoints/{name}.tar"
                  for name in ("ckpt", "best_ckpt"))

    def keep_checkpoint(self, i, model):
        """Behind each epoch, of which two are left in the end, and where a
        job ends that is resumed."""
        done = i + 1
        if done % self.EPOCH and done not in {self.steps, *self.notices}:
            return
        epoch = -(-done // self.EPOCH)
        self.checkpoints[i] = copy.deepcopy({
            "iters": done, "epoch": epoch, "model_state": model.state_dict(),
            "optimizer_state_dict": self.optimizer.state_dict(),
            "scheduler_state_dict": {
                "T_max": math.ceil(self.steps / self.EPOCH), "eta_min": 0,
                "base_lrs": [self.lr], "last_epoch": epoch,
                "_step_count": epoch + 1,
                "_last_lr": [self.optimizer.param_groups[0]["lr"]]}})

    def write_more(self):
        super().write_more()
        kept = [i for i in self.checkpoints if "val_loss" in self.history[i]]
        if not kept:
            return
        best, least = None, 1e6
        for i in kept:
            if self.history[i]["val_loss"] <= least:
                best, least = i, self.history[i]["val_loss"]
        (self.folder / self.LAST).parent.mkdir()
        torch.save(self.checkpoints[kept[-1]], self.folder / self.LAST)
        if best is not None:
            torch.save(self.checkpoints[best], self.folder / self.BEST)
