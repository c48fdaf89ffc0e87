"""A small diffusion transformer that is trained by flow matching.

A network turns noise into images of a class: on the straight line from noise
x_0 to an image x_1, at x_t = (1 - t) x_0 + t x_1, it predicts the velocity
x_1 - x_0. Time and class reach the blocks through adaLN-Zero; a tenth of the
labels is dropped in training, for classifier-free guidance; an average of the
weights is validated too, and its samples are. Parts are named as in the public
code of DiT, and so are checkpoints.
"""

import argparse
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family

SIZE, CHANNELS, PATCH, CLASSES, ROWS = 8, 3, 2, 6, 40
DEPTH, WIDTH, HEADS, HIDDEN, WAVES = 2, 32, 4, 48, 16
DIMS = CHANNELS * SIZE * SIZE


class Patterns:
    """Images that are Gaussian, given their class.

    A class has a mean of its own, of low frequencies (.35 of the variance of a
    pixel), and coloured waves of two directions whose phase and strength are
    drawn, four dimensions of variance 24 (.5); noise of variance .1 lies on
    each pixel. Of a dimension of variance s nobody can know more of the
    velocity than what leaves a mean square of sqrt(s) pi / 2, if t is uniform:
    0.65 a pixel, for who knows the class. A network that says 0 has 1.95.

    count: classes there are; those that the table lacks become its last one.
    waves: their share of the variance. domains: a third of the images is
    inverted, another is grey.
    """

    MEAN, WAVY, NOISE = 0.35, 0.5, 0.1

    def __init__(self, seed, rows=ROWS, count=CLASSES, waves=WAVY,
                 domains=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.count, self.domains = rows, count, domains
        self.strength = (waves * DIMS / 4) ** 0.5
        # The classes are the same for all seeds; the seed picks the sample.
        world = torch.Generator().manual_seed(11)
        y, x = torch.meshgrid(torch.arange(SIZE) + 0.5,
                              torch.arange(SIZE) + 0.5, indexing="ij")
        low = torch.stack([(torch.pi * u * y / SIZE).cos()
                           * (torch.pi * v * x / SIZE).cos()
                           for u in range(3) for v in range(3)])
        means, bases = [], []
        for kind in range(count):
            mean = torch.einsum("kyx,ck->cyx", low, torch.randn(
                CHANNELS, len(low), generator=world)).flatten()
            means.append(mean * (self.MEAN * DIMS) ** 0.5 / mean.norm())
            waves = []
            for period, turn in ((4.0, 0.0), (6.0, 0.5)):
                angle = torch.pi * (kind / CLASSES + turn)
                along = (math.cos(angle) * x + math.sin(angle) * y) \
                    * 2 * torch.pi / period
                colour = torch.randn(CHANNELS, 1, 1, generator=world)
                waves += [(colour * along.cos()).flatten(),
                          (colour * along.sin()).flatten()]
            bases.append(torch.linalg.qr(torch.stack(waves, 1))[0])
        self.means, self.bases = torch.stack(means), torch.stack(bases)

    def images(self, kind):
        rows = len(kind)
        waves = torch.einsum("rdk,rk->rd", self.bases[kind], torch.randn(
            rows, 4, generator=self.rng)) * self.strength
        noise = self.NOISE ** 0.5 * torch.randn(rows, DIMS, generator=self.rng)
        return (self.means[kind] + waves + noise).view(
            rows, CHANNELS, SIZE, SIZE)

    def noise(self, rows):
        return {"t": torch.rand(rows, generator=self.rng),
                "x_0": torch.randn(rows, CHANNELS, SIZE, SIZE,
                                   generator=self.rng)}

    def of(self, kind):
        x, more = self.images(kind), {}
        if self.domains:
            domain = torch.randint(3, kind.shape, generator=self.rng)
            each = domain[:, None, None, None]
            x = torch.where(each == 1, -x, torch.where(
                each == 2, x.mean(1, keepdim=True), x))
            more = {"domain": domain}
        return {"x_1": x, "y": kind.clamp(max=CLASSES - 1),
                **self.noise(len(kind)), **more}

    def batch(self, rows=None):
        return self.of(torch.randint(self.count, (rows or self.rows,),
                                     generator=self.rng))

    def classified(self, images):
        """The likeliest class of each; what no image has counts little."""
        away = images.flatten(1)[:, None] - self.means
        inside = torch.einsum("rkd,kdw->rkw", away, self.bases).square()
        outside = away.square().sum(-1) - inside.sum(-1)
        spread = 5 * self.NOISE
        return (outside / spread + inside.sum(-1) / (
            spread + self.strength ** 2)).argmin(-1)


class ByFolder(sources.ByClass, Patterns):
    """The set as its folders lie."""
    classes = CLASSES


class FewImages(sources.Finite):
    """A set of some images; times and noise are new in each pass."""

    def __init__(self, data, rows, seed):
        super().__init__(data, rows, seed)
        self.fresh = Patterns(seed + 1)

    def batch(self, rows=None):
        batch = super().batch(rows)
        return batch | self.fresh.noise(len(batch["y"]))


def modulated(x, shift, scale):
    return x * (1 + scale[:, None]) + shift[:, None]


class Attention(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.options = options
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, tap):
        rows, steps, _ = x.shape
        heads, scale = self.options["heads"], self.options["scale"]
        tap("input", x)
        q, k, v = self.qkv(x).view(rows, steps, 3, heads, -1).permute(
            2, 0, 3, 1, 4)
        if scale is None:
            scale = (WIDTH // heads) ** -0.5
        y = models.attend(q, k, v, tap, scale, future=None,
                          half=self.options["half_scores"])
        y = self.proj(y.transpose(1, 2).reshape(x.shape))
        tap("output", y)
        return y


class DitBlock(nn.Module):
    """Both branches are shifted, scaled and gated by time and class; as the
    gates start at zero, a fresh block does nothing."""

    def __init__(self, options):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(
            WIDTH, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attn = Attention(options)
        self.mlp = models.Group(
            fc1=nn.Linear(WIDTH, HIDDEN),
            act=models.ACTIVATIONS[options["activation"]](),
            fc2=nn.Linear(HIDDEN, WIDTH))
        self.adaLN_modulation = nn.Sequential(
            nn.SiLU(), nn.Linear(WIDTH, 6 * WIDTH))

    def forward(self, x, c, tap, drop):
        said = self.adaLN_modulation(c)
        tap("adaLN_modulation.1.output", said)
        shift1, scale1, gate1, shift2, scale2, gate2 = said.chunk(6, 1)
        y = self.attn(modulated(self.norm1(x), shift1, scale1),
                      lambda n, t: tap(f"attn.{n}", t))
        x = x + gate1[:, None] * drop(y)
        y = self.mlp.fc1(modulated(self.norm2(x), shift2, scale2))
        tap("mlp.act.input", y)
        y = self.mlp.act(y)
        tap("mlp.act.output", y)
        y = self.mlp.fc2(y)
        tap("mlp.output", y)
        x = x + gate2[:, None] * drop(y)
        tap("output", x)
        return x


class Dit(nn.Module):
    """16 patches of 2 x 2 pixels, two blocks of width 32; classes have a row each
    in a table, and no class has the last one."""

    def __init__(self, activation="gelu", dropout=0.0, detach_after=None,
                 heads=HEADS, scale=None, half_scores=False, positions=None,
                 label_drop=0.1):
        """detach_after: the part behind which the graph is cut. positions: the
        one place whose position all patches get, or False for none."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.label_drop = positions, label_drop
        options = {"activation": activation, "heads": heads, "scale": scale,
                   "half_scores": half_scores}
        self.x_embedder = models.Group(
            proj=nn.Conv2d(CHANNELS, WIDTH, PATCH, PATCH))
        self.t_embedder = models.Group(mlp=nn.Sequential(
            nn.Linear(WAVES, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH)))
        self.y_embedder = models.Group(
            embedding_table=nn.Embedding(CLASSES + 1, WIDTH))
        self.register_buffer("pos_embed", self.grid())
        self.blocks = nn.ModuleList(DitBlock(options) for _ in range(DEPTH))
        self.final_layer = models.Group(
            norm_final=nn.LayerNorm(WIDTH, elementwise_affine=False,
                                    eps=1e-6),
            linear=nn.Linear(WIDTH, PATCH * PATCH * CHANNELS),
            adaLN_modulation=nn.Sequential(nn.SiLU(),
                                           nn.Linear(WIDTH, 2 * WIDTH)))
        self.start()

    def start(self):
        for name, p in self.named_parameters():
            if "adaLN" in name or "final_layer" in name or p.dim() == 1:
                nn.init.zeros_(p)
            elif "embedder" in name and "x_" not in name:
                nn.init.normal_(p, std=0.02)
            else:
                nn.init.xavier_uniform_(p.view(len(p), -1))

    @staticmethod
    def grid():
        """Sines and cosines of row and column, a quarter of the width each."""
        side, part = SIZE // PATCH, WIDTH // 4
        rate = 100.0 ** (-torch.arange(part) / part)
        angle = torch.arange(side)[:, None] * rate
        each = torch.cat((angle.sin(), angle.cos()), 1)
        return torch.cat((each[:, None].expand(-1, side, -1),
                          each[None].expand(side, -1, -1)), 2).flatten(
                              0, 1)[None].clone()

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def condition(self, t, y):
        rate = 1000.0 ** (-torch.arange(WAVES // 2) / (WAVES // 2 - 1))
        angle = 1000 * t[:, None].float() * rate
        x = torch.cat((angle.cos(), angle.sin()), -1).to(
            self.x_embedder.proj.weight.dtype)
        time = self.t_embedder.mlp(x)
        self.tap("t_embedder.mlp.output", time)
        if self.training and self.label_drop:
            dropped = torch.rand(len(y)) < self.label_drop
            y = torch.where(dropped, CLASSES, y)
        kind = self.y_embedder.embedding_table(y)
        self.tap("y_embedder.embedding_table.output", kind)
        return time + kind

    def forward(self, x, t, y):
        x = self.x_embedder.proj(x.to(self.x_embedder.proj.weight.dtype))
        self.tap("x_embedder.proj.output", x)
        x = self.cut(x, "x_embedder.proj").flatten(2).transpose(1, 2)
        pos = self.pos_embed
        if self.positions is not False:
            x = x + (pos if self.positions is None
                     else pos[:, self.positions:self.positions + 1])
        c = self.condition(t, y)
        for i, block in enumerate(self.blocks):
            x = block(x, c, lambda n, t, i=i: self.tap(f"blocks.{i}.{n}", t),
                      self.drop)
            x = self.cut(x, f"blocks.{i}")
        last = self.final_layer
        said = last.adaLN_modulation(c)
        self.tap("final_layer.adaLN_modulation.1.output", said)
        x = last.linear(modulated(last.norm_final(x), *said.chunk(2, 1)))
        self.tap("final_layer.linear.output", x)
        side = SIZE // PATCH
        return x.view(-1, side, side, PATCH, PATCH, CHANNELS).permute(
            0, 5, 1, 3, 2, 4).reshape(-1, CHANNELS, SIZE, SIZE)

    def logits(self, batch):
        """The velocity; the other families' name for what a network says."""
        t = batch["t"][:, None, None, None]
        x = (1 - t) * batch["x_0"] + t * batch["x_1"]
        return self(x, batch["t"], batch["y"])

    def criterion(self, said, batch):
        return F.mse_loss(said.float(), batch["x_1"] - batch["x_0"])

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss

    @torch.no_grad()
    def sample(self, x, y, steps, guidance):
        """Euler's way from noise to images, with guidance by the class."""
        both = torch.cat((y, torch.full_like(y, CLASSES)))
        for k in range(steps):
            t = torch.full((2 * len(x),), k / steps)
            with_class, without = self(torch.cat((x, x)), t, both).float() \
                .chunk(2)
            x = x + (without + guidance * (with_class - without)) / steps
        return x


class DitRun(Family):
    """AdamW; a warm-up, then a rate that stands and falls with the inverse
    root of the steps; hardly any weight decay, a threshold that clips seldom."""

    family = "dit"
    level_seed = 400
    steps, seed, language, classes = 220, 500, False, CLASSES
    lr, warmup, schedule, clip = 2e-2, 20, "inverse_sqrt", 1.0
    STANDS = 80             # steps until the rate falls
    betas, weight_decay = (0.9, 0.99), 0.01
    recipes = {"sgd": dict(lr=0.5, weight_decay=0.0)}
    batch_size, context = ROWS, SIZE * SIZE
    EMA = 0.97
    SAMPLES, EULER, GUIDANCE = 48, 5, 1.5
    layers = ["x_embedder.proj", "t_embedder.mlp",
              "y_embedder.embedding_table", *(
                  f"blocks.{i}.{part}" for i in range(DEPTH)
                  for part in ("adaLN_modulation.1", "attn", "attn.scores",
                               "mlp.act", "mlp")),
              "final_layer.adaLN_modulation.1", "final_layer.linear"]
    paths = {"embed": "x_embedder.proj", "attn": "blocks.{}.attn",
             "scores": "blocks.{}.attn.scores", "act": "blocks.{}.mlp.act",
             "mlp": "blocks.{}.mlp", "block": "blocks.{}",
             "head": "final_layer.linear"}
    blocks = DEPTH
    names = {"step": "train_steps", "loss": "train loss",
             "val_loss": "val loss", "val_loss_ema": "ema val loss",
             "sample_accuracy": "sample class acc",
             "step_time": "sec per step", "data_time": "data sec per step",
             "tokens": None}

    def make_model(self):
        return Dit(**self.model_options)

    def make_source(self, seed):
        return self.images(seed)

    def images(self, seed, **how):
        return Patterns(seed, self.batch_size, **how)

    def of_classes(self, seed, count):
        """A set with more classes than the table has rows."""
        return self.images(seed, count=count)

    def in_blocks(self, seed, block, share):
        """Training data that nobody has shuffled; None is held out."""
        if block is None:
            return self.images(seed)
        return ByFolder(seed, max(1, block // 2), share)

    def easy(self, seed):
        """Class means in noise."""
        return self.images(seed, waves=0.0)

    def lessons(self, seed):
        return self.easy(seed), self.images(seed)

    def finite(self, data, seed):
        return FewImages(data, self.batch_size, seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255, noise, or blank images."""
        x = batch["x_1"]
        return batch | {"x_1": {
            "few": 127.5 * (x + 1),
            "uniform": 100 * torch.randn(x.shape, generator=rng),
            "constant": torch.full_like(x, 255.0)}[kind]}

    def lr_factor(self, i):
        if self.schedule != "inverse_sqrt" or i < self.warmup:
            return super().lr_factor(i)
        return (self.STANDS / max(self.STANDS, i)) ** 0.5

    def update(self, i):
        """The average begins with the fresh weights, as in DiT's code."""
        if i == 0:
            self.average = copy.deepcopy(self.model)
            self.average.tap = Dit.tap
        total = super().update(i)
        with torch.no_grad():
            for a, p in zip(self.average.parameters(),
                            self.model.parameters()):
                a.lerp_(p.detach(), 1 - self.EMA)
        return total

    def held_out_columns(self, batches):
        """Of the average: its loss, and how many of its samples show what
        they were to show."""
        self.average.eval()
        losses = [self.average.loss(b) for b in batches]
        columns = {"val_loss_ema": sum(losses) / len(losses)}
        if "domain" in batches[0]:  # which the classifier does not know
            return columns
        data = Patterns(17)
        y = torch.arange(self.SAMPLES) % CLASSES
        noise = data.noise(self.SAMPLES)["x_0"]
        said = self.average.sample(noise, y, self.EULER, self.GUIDANCE)
        right = data.classified(said) == y
        return columns | {"sample_accuracy": right.float().mean()}

    def keep_checkpoint(self, i, model):
        """Half-way, at the end, and where a job ends that is resumed."""
        done = i + 1
        if done in (self.steps // 2, self.steps, *self.notices):
            self.checkpoints[done] = copy.deepcopy({
                "model": model.state_dict(), "ema": self.average.state_dict(),
                "opt": self.optimizer.state_dict()})

    def write_more(self):
        super().write_more()
        folder = self.folder / "checkpoints"
        folder.mkdir()
        args = argparse.Namespace(**self.settings())
        for done, parts in self.checkpoints.items():
            torch.save(parts | {"args": args}, folder / f"{done:07d}.pt")

    def settings(self):
        settings = super().settings()
        if self.schedule == "inverse_sqrt":
            settings["lr_ref_steps"] = self.STANDS
        return settings | {"ckpt_every": self.steps // 2}

    def model_settings(self):
        return {"model": "DiT-2/2", "input_size": SIZE, "patch_size": PATCH,
                "in_channels": CHANNELS, "hidden_size": WIDTH, "depth": DEPTH,
                "num_heads": self.model_options.get("heads", HEADS),
                "mlp_hidden": HIDDEN, "num_classes": CLASSES,
                "class_dropout_prob": 0.1, "path_type": "Linear",
                "prediction": "velocity", "ema_decay": self.EMA,
                "cfg_scale": self.GUIDANCE}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        return []
