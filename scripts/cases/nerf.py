"""A small radiance field: what colour does a ray of a camera see?

A network says density and colour of a point, and the points of a ray are put
together, as people train it with nerfstudio. Parts are named as in its
NeRFField; columns, config, log and checkpoints are its trainer's.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family
from .recorder import short

RAYS, SAMPLES, SIZE = 128, 16, 24
NEAR, FAR, BOX = 1.3, 3.7, 1.2      # planes of a ray, half of the scene box
WIDTH, DEPTH, INNER = 64, 4, 32
SECTORS, EXPOSURES, SHAPES = 4, 3, 5
BASE, TOP = "field.mlp_base", "field.mlp_head"


class Scene:
    """Five soft balls of a colour each before a white ground, some striped.

    A ball's density falls from its middle as a normal density. The first two
    have stripes, and a ball is lighter from the side of its lamp, which shifts
    as one goes round. It was filmed by a camera that went round it, always
    looking at the middle (60 pictures for training, others held out, of 24 x
    24 pixels): a row is a ray of a pixel. Noise of `NOISE` is on each number.
    Through .1 of the pixels of a picture, columns side by side, somebody walks
    by; these are masked (`mask` is 0) and do not count. Who knows the scene is
    left with the square of the noise, see `best()`.

    balls: how many there are. plain: neither stripes nor lamps. passing: see
    above. exposures: three of another gain each, whose number is in the batch
    as domain. background: the share of the rays that are set before a ground
    of a colour of their own. focal: length by which rays are said to be cast,
    in that of the lens.
    """

    NOISE, PASSING, PICTURES = 0.12, 0.1, 60
    CENTRES = ((0.0, 0.0, 0.1), (0.6, 0.15, -0.2), (-0.5, 0.4, 0.0),
               (-0.2, -0.6, 0.25), (0.25, 0.5, 0.45))
    WIDE = (0.30, 0.22, 0.20, 0.24, 0.17)
    COLOURS = ((0.85, 0.25, 0.2), (0.2, 0.45, 0.85), (0.2, 0.7, 0.3),
               (0.9, 0.7, 0.15), (0.5, 0.2, 0.6))
    DENSITY, STRIPES, LAMP, FINE = 14.0, 0.35, 0.15, 40

    def __init__(self, seed, rows=RAYS, balls=SHAPES, plain=False,
                 passing=None, exposures=False, background=None, focal=1.0):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.balls, self.plain = rows, balls, plain
        self.passing = self.PASSING if passing is None else passing
        self.exposures, self.background = exposures, background
        self.pictures, self.focal = self.PICTURES, focal
        draw = torch.rand(self.pictures, 4, generator=self.rng)
        order = torch.arange(self.pictures)
        self.round = 2 * math.pi * (order + draw[:, 0]) / self.pictures
        self.high = 0.15 + 0.7 * draw[:, 1]
        self.walker = (draw[:, 2] * SIZE).long()
        self.clothes = 0.1 + 0.3 * draw[:, 3]
        self.centres = torch.tensor(self.CENTRES[:balls])
        self.wide = torch.tensor(self.WIDE[:balls])
        self.colours = torch.tensor(self.COLOURS[:balls])

    def batch(self, rows=None):
        return self.of(torch.randint(self.pictures, (rows or self.rows,),
                                     generator=self.rng))

    def cast(self, camera, pixel, focal=1.0):
        """(origins, directions) of rays, as the cameras stand."""
        angle, high = self.round[camera], self.high[camera]
        origins = 2.5 * torch.stack((high.cos() * angle.cos(),
                                     high.cos() * angle.sin(), high.sin()), -1)
        ahead = F.normalize(-origins, dim=-1)
        up = torch.tensor((0.0, 0.0, 1.0)).expand_as(ahead)
        right = F.normalize(torch.linalg.cross(ahead, up, dim=-1), dim=-1)
        up = torch.linalg.cross(right, ahead, dim=-1)
        at = 0.42 / focal * (2 * (pixel + 0.5) / SIZE - 1)
        directions = ahead + at[:, :1] * right - at[:, 1:] * up
        return origins, F.normalize(directions, dim=-1)

    def seen(self, origins, directions):
        """(colour, share of the ray that something stops)."""
        step = (FAR - NEAR) / self.FINE
        t = NEAR + step * (torch.arange(self.FINE) + 0.5)
        x = origins[:, None] + t[:, None] * directions[:, None]
        off = x[:, :, None] - self.centres
        each = self.DENSITY * (-0.5 * off.square().sum(-1)
                               / self.wide.square()).exp()
        colours = self.colours.expand(*each.shape, 3)
        if not self.plain:
            stripes = self.STRIPES * (2 * math.pi * off[:, :, :2, 2]
                                      / 0.45).sin()
            stripes = F.pad(stripes, (0, self.balls - stripes.shape[2]))
            lamp = self.LAMP * torch.stack((
                directions[:, 0], directions[:, 1]), -1).sum(-1)
            colours = colours + stripes[..., None] + lamp[:, None, None, None]
        total = each.sum(-1)
        colour = (each[..., None] * colours).sum(2) \
            / total[..., None].clamp_min(1e-6)
        alpha = 1 - (-total * step).exp()
        left = torch.cat((torch.ones(len(x), 1),
                          (1 - alpha + 1e-10).cumprod(1)[:, :-1]), 1)
        weight = (alpha * left)[..., None]
        return (weight * colour).sum(1).clamp(0, 1), weight.sum(1)

    def of(self, camera):
        """Rays of these pictures, of any of their pixels."""
        rows = len(camera)
        pixel = torch.randint(SIZE, (rows, 2), generator=self.rng)
        origins, directions = self.cast(camera, pixel)
        colour, share = self.seen(origins, directions)
        ground = torch.ones(rows, 3)
        if self.background:
            some = torch.rand(rows, 1, generator=self.rng) < self.background
            ground = torch.where(some, torch.rand(rows, 3, generator=self.rng),
                                 ground)
        image = colour + (1 - share) * ground
        if self.focal != 1:
            directions = self.cast(camera, pixel, focal=self.focal)[1]
        width = self.passing * SIZE
        place = (pixel[:, 0] - self.walker[camera]) % SIZE
        edge = torch.rand(rows, generator=self.rng)
        masked = place + edge < width
        clothes = self.clothes[camera, None].expand(-1, 3)
        image = torch.where(masked[:, None], clothes, image)
        if self.exposures:
            domain = camera % EXPOSURES
            image = image * (0.92 + 0.08 * domain[:, None])
        image = image + self.NOISE * torch.randn(rows, 3, generator=self.rng)
        batch = {"directions": directions, "origins": origins,
                 "camera_indices": camera[:, None], "image": image,
                 "mask": (~masked).float()[:, None]}
        if self.background:
            batch["background"] = ground
        if self.exposures:
            batch["domain"] = domain
        return batch

    def best(self):
        """The loss of who knows the scene."""
        return self.NOISE ** 2


class BySector(sources.ByClass, Scene):
    """Pictures as they were filmed, a quarter of the way round after the
    other."""
    classes, rows = SECTORS, RAYS

    def of(self, kind):
        """Rays of pictures of these quarters."""
        each = self.pictures // SECTORS
        return super().of(kind * each + torch.randint(
            each, kind.shape, generator=self.rng))


class FewPictures(Scene):
    """A batch is of few pictures, others each time."""

    def __init__(self, seed, count, **how):
        super().__init__(seed, **how)
        self.count = count

    def batch(self, rows=None):
        some = torch.randperm(self.pictures, generator=self.rng)[:self.count]
        return self.of(some[torch.randint(self.count, (rows or self.rows,),
                                          generator=self.rng)])


def encoded(x, count, low, high):
    """NeRFEncoding: x itself, and sines and cosines of ever shorter waves."""
    rate = 2 * math.pi * 2.0 ** torch.linspace(low, high, count)
    angle = (x[..., None] * rate).flatten(-2)
    return torch.cat((torch.cat((angle, angle + math.pi / 2), -1).sin(), x),
                     -1)


class Mlp(nn.Module):
    """nerfstudio's MLP: maps, and an activation behind each."""

    def __init__(self, widths, options):
        super().__init__()
        self.layers = nn.ModuleList(map(nn.Linear, widths, widths[1:]))
        self.activation = models.ACTIVATIONS[options["activation"]]()
        self.options = options

    def forward(self, x, name, tap, drop):
        for k, layer in enumerate(self.layers):
            part = f"{name}.layers.{k}"
            if self.options["half_at"] == part:
                tap(f"{part}.input", x)
            x = layer(x.to(layer.weight.dtype))
            if self.options["half_at"] == part:
                x = x.half()
            tap(f"{part}.output", x)
            tap(f"{name}.activation.{k}.input", x)
            x = self.activation(x)
            tap(f"{name}.activation.{k}.output", x)
            x = drop(x)
            if self.options["detach_after"] == part:
                x = x.detach()
        return x


class RadianceField(nn.Module):
    """A network of four layers of width 64 for the density, one of width 32
    that is told the direction for the colour, and 16 points of a ray."""

    BLOCKS = (*(f"{BASE}.layers.{k}" for k in range(DEPTH)), f"{TOP}.layers.0")
    DENSE, HEAD = "field.field_output_density.net", "field.field_heads.0.net"

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None, positions=True, near=NEAR, far=FAR,
                 low=0.0, high=3.0, renderer="rgb", eps=None, weighs=True,
                 logs=False):
        """detach_after: the part behind which the graph is cut. half_at: the
        map whose output is in half precision. positions: the place that all
        points have if a number, none if False. near, far: planes between
        which points lie. low, high: exponents of the encoding's waves.
        renderer: how points are put together. eps: of the length by which
        directions are divided, which are not if None. weighs: what is masked
        does not count. logs: the loss is the mean logarithm of rays'
        errors."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.planes = positions, (near, far)
        self.waves, self.renderer, self.eps = (4, low, high), renderer, eps
        self.weighs, self.logs, self.guards = weighs, logs, True
        options = {"activation": activation, "half_at": half_at,
                   "detach_after": detach_after}
        wide = 3 + 3 * 2 * 4
        self.field = models.Group(
            mlp_base=Mlp([wide] + DEPTH * [WIDTH], options),
            field_output_density=models.Group(net=nn.Linear(WIDTH, 1)),
            mlp_head=Mlp([WIDTH + 15, INNER], options),
            field_heads=nn.ModuleList([
                models.Group(net=nn.Linear(INNER, 3))]))
        self.occupied = None    # cells of the box that are not skipped
        self.opened = None      # weights of the encoding's waves
        self.said = None        # the last colours of training

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def part(self, name, x):
        layer = self.get_submodule(name)
        x = layer(x.to(layer.weight.dtype))
        self.tap(f"{name}.output", x)
        return x.detach() if self.detach_after == name else x

    def encode(self, x):
        """The encoding of points, in the box's own units."""
        if self.positions is not True and self.positions is not False:
            x = torch.full_like(x, self.positions / 10)
        x = encoded(x / (2 * BOX) + 0.5, *self.waves)
        if self.opened is not None:
            x = x * self.opened
        return x * 0.0 if self.positions is False else x

    def open_waves(self, share):
        """Lets in this share of the encoding's waves, the long ones first."""
        count = self.waves[0]
        each = (share * count - torch.arange(count)).clamp(0, 1)
        each = (0.5 * (1 - (math.pi * each).cos())).repeat(6)
        self.opened = torch.cat((each, torch.ones(3)))

    def keep_occupied(self, share, side=12):
        """Skips from now on all cells of the box but this share of them, the
        densest ones at present."""
        self.occupied = None
        at = (torch.arange(side) + 0.5) / side * 2 * BOX - BOX
        x = torch.stack(torch.meshgrid(at, at, at, indexing="ij"), -1)
        tap, self.tap = self.tap, RadianceField.tap
        training = self.training
        self.eval()
        with torch.no_grad():
            density = self.density(x.view(-1, 1, 3))[0].flatten()
        self.train(training)
        self.tap = tap
        kept = density.topk(int(share * len(density))).indices
        self.occupied = torch.zeros(len(density)).index_fill(
            0, kept, 1.0).view(side, side, side)

    def density(self, x):
        """(density, what the colour is made of)."""
        features = self.field.mlp_base(self.encode(x), BASE, self.tap,
                                       self.drop)
        density = F.softplus(self.part(self.DENSE, features)[..., 0].float())
        if self.occupied is not None:
            side = self.occupied.shape[0]
            cell = ((x / (2 * BOX) + 0.5) * side).long().clamp(0, side - 1)
            density = density * self.occupied[cell.unbind(-1)]
        return density, features

    def points(self, origins, directions):
        """Middles of as many bins, in training anywhere within."""
        near, far = self.planes
        step = (far - near) / SAMPLES
        place = torch.rand(len(origins), SAMPLES) if self.training \
            else torch.full((len(origins), SAMPLES), 0.5)
        t = near + step * (torch.arange(SAMPLES) + place)
        return origins[:, None] + t[..., None] * directions[:, None], step

    def weights(self, density, step):
        """What each point has in its ray."""
        alpha = 1 - (-density * step).exp()
        if self.renderer == "additive":
            return alpha
        if self.renderer == "back_to_front":
            left = (1 - alpha + 1e-10).flip(1).cumprod(1)
            return alpha * F.pad(left[:, :-1], (1, 0), value=1.0).flip(1)
        if self.renderer == "maximum":
            return alpha * F.one_hot(alpha.argmax(1), SAMPLES)
        left = (1 - alpha + 1e-10).cumprod(1)
        return alpha * F.pad(left[:, :-1], (1, 0), value=1.0)

    def forward(self, directions, origins, background=1.0):
        if self.eps is not None:
            size = directions.norm(dim=-1)
            self.tap("normalize.input", directions)
            self.tap("normalize.std.output", size)
            directions = directions / (size[:, None] + self.eps)
            self.tap("normalize.output", directions)
        x, step = self.points(origins, directions)
        density, features = self.density(x)
        told = encoded(directions, 2, 0.0, 1.0)[:, None].expand(
            -1, SAMPLES, -1)
        features = torch.cat((features, told.to(features.dtype)), -1)
        y = self.field.mlp_head(features, TOP, self.tap, self.drop)
        colour = self.part(self.HEAD, y).float().sigmoid()
        weight = self.weights(density, step)[..., None]
        said = (weight * colour).sum(1) + (1 - weight.sum(1)) * background
        self.tap("renderer_rgb.output", said)
        if self.training:
            self.said = said.detach()
        return said

    def logits(self, batch):
        """Colours of rays; the other families' name for what a network
        says."""
        return self(batch["directions"], batch["origins"],
                    batch.get("background", 1.0))

    def weight(self, batch):
        return batch["mask"] if self.weighs else torch.ones_like(batch["mask"])

    def criterion(self, said, batch):
        """MSELoss over what is not masked."""
        weight = self.weight(batch)[:, 0]
        each = (said.float() - batch["image"]).square().mean(-1)
        self.tap("loss.rays.output", each)
        if self.logs:
            each = each * weight
            self.tap("loss.log_error.input", each)
            each = each.log()
            self.tap("loss.log_error.output", each)
            return each.mean()
        count = weight.sum()
        return (each * weight).sum() / (
            count.clamp_min(1) if self.guards else count)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class NerfRun(Family):
    """Adam with a tiny epsilon and a rate that falls exponentially from the
    first step on; nothing is clipped."""

    family = "nerf"
    level_seed = 400
    steps, seed, language = 251, 1700, False
    optimizer_name, lr, warmup, schedule = "adam", 1.5e-2, 0, "exponential"
    LAST = 0.1              # of the rate, at the end
    betas, eps, weight_decay, clip = (0.9, 0.999), 1e-15, 0.0, None
    recipes = {"sgd": dict(lr=5.0, weight_decay=0.0)}
    batch_size, context = RAYS, SAMPLES
    epoch_steps = 50
    # Its users have nerfstudio.
    instead = {"nanogpt": "nerfstudio", "hf_trainer": "nerfstudio",
               "megatron": "nerfstudio", "torchtune": "nerfstudio"}
    layers = [*(f"{BASE}.{part}.{k}" for k in range(DEPTH)
                for part in ("layers", "activation")), RadianceField.DENSE,
              f"{TOP}.layers.0", f"{TOP}.activation.0", RadianceField.HEAD]
    MAPS = [f"{BASE}.layers.{k}" for k in range(DEPTH)]
    graded = {
        "F02": (dict(lr=20.0), dict(lr=50.0), dict(lr=200.0)),
        "F04": (dict(at=80), dict(at=35), dict(at=0)),
        "F05": (dict(modules=[TOP, "field.field_heads"],
                     where=f"{TOP}.layers.0"),
                dict(modules=[BASE], where=MAPS[0]), dict(part="all")),
        "F07": (dict(factor=30), dict(factor=100), dict(factor=400)),
        "F11": (dict(adam=3e-4), dict(adam=1e-3), dict(adam=1e-2)),
        "F12": (dict(eps=3e-4), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path=MAPS[1]), dict(path=MAPS[2]), dict(path=MAPS[3])),
        "F14": (dict(modules=MAPS[1:]),
                dict(modules=[*MAPS[1:], f"{TOP}.layers.0"]),
                dict(modules=[*MAPS[1:], f"{TOP}.layers.0",
                              RadianceField.HEAD])),
        "F15": (dict(at=176), dict(at=101), dict(at=51)),
        "F16": (dict(rate=0.01), dict(rate=0.05), dict(rate=0.4)),
        "F23": (dict(passing=0.15), dict(passing=0.4), dict(passing=0.7)),
        "F26": (dict(steps=25, share=0.9), dict(steps=40, share=1.0),
                dict(steps=62, share=1.0)),
        "F27": (dict(epochs=30), dict(epochs=60), dict(epochs=120)),
        "F34": (dict(factor=3), dict(factor=10), dict(factor=0)),
        "F36a": (dict(bias=-0.2), dict(bias=-0.5), dict(bias=-2.5)),
        "F36b": (dict(factor=20, kind="sigmoid"), dict(factor=50, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "H02": (dict(factor=0.5), dict(factor=1 / 3)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.5)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H07": (dict(factor=0.03),)}
    paths = {"embed": f"{BASE}.layers.0", "attn": None, "scores": None,
             "act": "{}", "mlp": "{}", "block": "{}",
             "head": RadianceField.HEAD}
    logit_name = "renderer_rgb.output"
    always_trained = (RadianceField.DENSE,)
    blocks = len(RadianceField.BLOCKS)
    names = {"loss": "Train Loss", "val_loss": "Eval Loss",
             "psnr": "Train Metrics Dict/psnr",
             "val_psnr": "Eval Images Metrics/psnr",
             "grad_norm": "Train Metrics Dict/Gradients/Total",
             "lr": "learning_rate/fields", "step_time": "Train Iter (time)",
             "data_time": "Train Data (time)", "tokens": None}

    def make_model(self):
        return RadianceField(**self.model_options)

    def lr_factor(self, i):
        if self.schedule != "exponential":
            return super().lr_factor(i)
        return self.LAST ** min(1.0, i / (self.steps - 1))

    def make_source(self, seed):
        return self.scene(seed)

    def scene(self, seed, **how):
        return Scene(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """A quarter of the way round after the other; None is held out."""
        if block is None:
            return self.scene(seed)
        return BySector(seed, block, share)

    def of_few(self, seed, count):
        return FewPictures(seed, count, rows=self.batch_size)

    def easy(self, seed):
        """Balls without stripes and lamps, and nobody walks by."""
        return self.scene(seed, plain=True, passing=0.0)

    def lessons(self, seed):
        return self.easy(seed), self.scene(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels that were standardised as for a classifier,
        noise, or black pictures."""
        image = batch["image"]
        return batch | {"mask": torch.ones_like(batch["mask"]), "image": {
            "few": (image - 0.45) / 0.225,
            "uniform": 20 * torch.randn(image.shape, generator=rng),
            "constant": torch.zeros_like(image)}[kind]}

    def others(self, rows, rng):
        """Colours that other rays see."""
        return self.scene(int(torch.randint(1 << 30, (), generator=rng))
                          ).batch(rows)["image"]

    def batch_columns(self, batch):
        """PSNR of the batch, as the model's get_metrics_dict() has it."""
        row = super().batch_columns(batch)
        counted = batch["mask"][:, 0] > 0
        if self.model.said is None or not counted.any():
            return row
        error = float((self.model.said - batch["image"])[counted]
                      .square().mean())
        if error > 0:
            row["psnr"] = short(-10 * math.log10(error))
        return row

    def held_out_columns(self, batches):
        self.model.eval()
        error = torch.cat([
            (self.model.logits(b).float() - b["image"]).square()
            .mean(-1)[b["mask"][:, 0] > 0] for b in batches])
        self.model.train()
        return {"val_psnr": -10 * error.mean().log10()} if len(error) else {}

    # What the user typed.

    def settings(self):
        """What a script of one's own has; config() is nerfstudio's."""
        own = super().settings() | {"train_num_rays_per_batch":
                                    self.batch_size}
        if self.schedule == "exponential":
            own |= {"lr_final": short(self.lr * self.LAST)}
        return own

    def model_settings(self):
        options = self.model_options
        return {"model": "vanilla-nerf", "num_samples": SAMPLES,
                "near_plane": options.get("near", NEAR),
                "far_plane": options.get("far", FAR), "num_frequencies": 4,
                "min_freq_exp": options.get("low", 0.0),
                "max_freq_exp": options.get("high", 3.0),
                "base_mlp_num_layers": DEPTH,
                "base_mlp_layer_width": WIDTH, "head_mlp_num_layers": 1,
                "head_mlp_layer_width": INNER,
                "activation": options.get("activation", "relu"),
                "background_color": "white",
                "renderer": options.get("renderer", "rgb"),
                "loss": "MSELoss"}

    @property
    def save_every(self):
        return self.steps // 2

    def config(self):
        """config.yml of nerfstudio; a key "!" is the class of what has it."""
        own = self.model_settings()
        base = self.user.copy()
        kind = {"sgd": "SGD", "adam": "Adam"}.get(self.optimizer_name, "AdamW")
        optimizer = {"!": f"nerfstudio.engine.optimizers.{kind}"
                          "OptimizerConfig", "lr": self.lr}
        optimizer |= {"momentum": self.momentum} if kind == "SGD" else {
            "betas": list(self.betas), "eps": self.eps}
        optimizer |= {"max_norm": self.clip,
                      "weight_decay": self.weight_decay}
        schedule = None
        if self.schedule == "exponential":
            schedule = {"!": "nerfstudio.engine.schedulers."
                             "ExponentialDecaySchedulerConfig",
                        "lr_final": short(self.lr * self.LAST),
                        "lr_pre_warmup": 1e-8, "max_steps": self.steps - 1,
                        "ramp": "cosine", "warmup_steps": self.warmup}
        elif self.schedule == "cosine":
            schedule = {"!": "nerfstudio.engine.schedulers."
                             "CosineDecaySchedulerConfig",
                        "learning_rate_alpha": 0.0, "max_steps": self.steps,
                        "warm_up_end": self.warmup}
        return {
            "!": "nerfstudio.engine.trainer.TrainerConfig",
            "experiment_name": "balls", "method_name": "vanilla-nerf",
            "gradient_accumulation_steps": {"fields": self.accumulate},
            "load_checkpoint": None, "load_dir": None, "load_step": None,
            "log_gradients": True,
            "logging": {"!": "nerfstudio.configs.base_config.LoggingConfig",
                        "steps_per_log": self.interval or 10},
            "machine": {"!": "nerfstudio.configs.base_config.MachineConfig",
                        "device_type": "cpu", "num_devices":
                        base.pop("world_size", 1), "seed": self.seed},
            "max_num_iterations": self.steps,
            "mixed_precision": "mixed" in self.precision,
            **({} if self.precision == "fp32" else {
                "precision": self.precision}),
            "optimizers": {"fields": {"optimizer": optimizer,
                                      "scheduler": schedule}},
            "pipeline": {
                "!": "nerfstudio.pipelines.base_pipeline."
                     "VanillaPipelineConfig",
                "datamanager": {
                    "!": "nerfstudio.data.datamanagers.base_datamanager."
                         "VanillaDataManagerConfig",
                    "eval_num_rays_per_batch": self.batch_size,
                    "train_num_images_to_sample_from": base.pop(
                        "train_num_images_to_sample_from", -1),
                    "train_num_rays_per_batch": self.batch_size},
                "model": {
                    "!": "nerfstudio.models.vanilla_nerf."
                         "VanillaModelConfig", **own, **{
                             k: base.pop(k) for k in list(base)
                             if k in own}}},
            "save_only_latest_checkpoint": False,
            "steps_per_eval_batch": self.val_every,
            "steps_per_save": self.save_every, "vis": "wandb", **base}

    def layer(self, part, block=0):
        path = self.paths[part]
        if path is None:
            return None
        name = RadianceField.BLOCKS[block]
        return path.format(name.replace("layers", "activation")
                           if part == "act" else name)

    def fed_by(self, layer):
        return []

    # Checkpoints.

    @staticmethod
    def checkpoint_path(step):
        """Of the last step that was done."""
        return f"nerfstudio_models/step-{step:09d}.ckpt"

    def keep_checkpoint(self, i, model):
        """Half-way, at the end of the run, and where a job ends that is
        resumed."""
        if i not in (self.save_every, self.steps - 1,
                     *(done - 1 for done in self.notices)):
            return
        # One that was made anew goes on where the old one was.
        schedule = self.scheduler.state_dict() | {
            "last_epoch": i + 1, "_step_count": i + 2}
        self.checkpoints[i] = copy.deepcopy({
            "pipeline": {f"_model.{n}": t
                         for n, t in model.state_dict().items()},
            "optimizers": {"fields": self.optimizer.state_dict()},
            "schedulers": {"fields": schedule},
            "scalers": {}})

    def write_more(self):
        super().write_more()
        if not self.checkpoints:
            return
        (self.folder / "nerfstudio_models").mkdir()
        for step, parts in self.checkpoints.items():
            torch.save({"step": step} | parts,
                       self.folder / self.checkpoint_path(step))
