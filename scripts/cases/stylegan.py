"""A small StyleGAN2: from a latent and a class to a picture of 8 by 8.

Parts, losses, options, log and snapshots are those of NVLabs'
stylegan2-ada-pytorch: a mapping network, a synthesis network of modulated and
demodulated convolutions with noise and toRGB, a discriminator with a
minibatch deviation and a projection of the class, weights that are scaled at
run time, the non-saturating logistic loss, a lazy R1 penalty, an average of the
generator. Steps up and down are a bilinear one and a mean, not FIR filters.

The model of the run has both networks and one optimizer steps both. The loss of
the run is the generator's; the discriminator's takes its gradient when the
training loss is computed, from pictures that the generator's gradient does not
reach. Held out is the Fréchet distance of the average.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family
from .snapshot import short

SIZE, COLOURS, CLASSES, ROWS, HELD_OUT = 8, 3, 4, 16, 24
Z_DIM = W_DIM = CMAP_DIM = 16
CHANNELS = {4: 16, 8: 12}
MBSTD_GROUP, GAMMA, D_REG_INTERVAL = 4, 0.3, 16
MAPPING_LAYERS, MAPPING_RATE = 2, 0.1
EMA_KIMG, EMA_RAMPUP = 0.3, 0.15
FEATURES, CLASS_WEIGHT = 12, 2.0


class Tiles:
    """Pictures of one of four kinds of lamps before a wall.

    Kinds are an upright tube on the left, a lying one below, a round lamp on
    the upper right and a slanting tube; where exactly, how wide and in which
    colour is drawn, the colour around one of its kind. The wall has a shade and
    is lighter above by a slope, both drawn. Each pixel has an error of .06.

    block, share: one kind after the other; domains: each row has its camera,
    which has a tint; calm: lamps of one colour a kind that do not move;
    classes: more kinds than four, of the same forms in other colours, whose
    number is clamped to the last.
    """

    ERROR = 0.06

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, domains=False,
                 calm=False, classes=CLASSES):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share, self.number = rows, block, share, 0
        self.domains, self.calm, self.classes = domains, calm, classes
        # Lamps are the same for all seeds; the seed picks the sample.
        world = torch.Generator().manual_seed(41)
        hues = torch.tensor(((0.9, 0.1, -0.3), (-0.2, 0.8, 0.3),
                             (0.1, 0.2, 0.9), (0.8, 0.7, -0.2)))
        more = 1.4 * torch.rand(max(0, classes - CLASSES), COLOURS,
                                generator=world) - 0.4
        self.hues = torch.cat((hues, more))
        self.centre = torch.tensor(((-0.4, 0.0), (0.0, 0.4), (0.35, -0.35),
                                    (0.0, 0.0)))
        line = torch.linspace(-1, 1, SIZE)
        self.y, self.x = torch.meshgrid(line, line, indexing="ij")

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def kinds(self, rows):
        kind = torch.randint(self.classes, (rows,), generator=self.rng)
        if self.block:
            here = self.number // self.block % self.classes
            kept = torch.rand(rows, generator=self.rng) < self.share
            kind = torch.where(kept, torch.tensor(here), kind)
        self.number += 1
        return kind

    def lamps(self, kind):
        """How bright a kind's lamp is at each place, (rows, 8, 8)."""
        rows, form = len(kind), kind % CLASSES
        moved = 0.0 if self.calm else 0.22 * self.normal(rows, 2)
        at = self.centre[form] + moved
        wide = 0.32 * torch.ones(rows) if self.calm else \
            0.32 * (0.15 * self.normal(rows)).exp()
        x, y = (place - at[:, k, None, None]
                for k, place in enumerate((self.x, self.y)))
        away = torch.stack((x, y, (x * x + y * y + 1e-9).sqrt(),
                            (x + y) / math.sqrt(2)), 1)
        away = away[torch.arange(rows), form] / wide[:, None, None]
        return torch.exp(-away.square())

    def batch(self, rows=None):
        rows = rows or self.rows
        kind = self.kinds(rows)
        colour = self.hues[kind]
        if not self.calm:
            colour = colour + 0.15 * self.normal(rows, COLOURS)
        lamp = self.lamps(kind)[:, None]
        shade = (-0.5 + 0.12 * self.normal(rows))[:, None, None]
        slope = (0.2 + 0.1 * self.normal(rows))[:, None, None]
        wall = (shade - slope * self.y)[:, None]
        image = wall + lamp * (colour[:, :, None, None] - wall)
        batch = {"image": image, "c": kind.clamp(max=CLASSES - 1)}
        if self.domains:
            camera = torch.randint(3, (rows,), generator=self.rng)
            tint = torch.tensor(((0.1, 0.0, -0.1), (0.0, 0.0, 0.0),
                                 (-0.1, 0.0, 0.1)))
            image, batch["camera"] = image + tint[camera][..., None, None], \
                camera
        noise = self.ERROR * self.normal(*image.shape)
        return batch | {"image": (image + noise).contiguous()}


class Extractor:
    """Fixed features in place of Inception's: random convolutions, rectified,
    their random sums, each with a spread of 1 over pictures as they are; and
    the class, which is taken as it was asked for."""

    def __init__(self):
        world = torch.Generator().manual_seed(43)
        self.filters = torch.randn(24, COLOURS, 3, 3, generator=world) / 5
        places = 24 * 9
        self.sums = torch.randn(places, FEATURES, generator=world,
                                ) / places ** 0.5
        self.mean, self.spread = 0.0, 1.0
        x = self(Tiles(4, 4096).batch()["image"])
        self.mean, self.spread = x.mean(0), x.std(0)

    def __call__(self, image):
        x = F.conv2d(image.float(), self.filters, stride=2).relu()
        return (x.flatten(1) @ self.sums - self.mean) / self.spread

    def moments(self, image, kind):
        x = torch.cat((self(image), CLASS_WEIGHT * F.one_hot(kind, CLASSES)),
                      1).double()
        mean = x.mean(0)
        away = x - mean
        return mean, away.T @ away / (len(x) - 1)


def root(matrix):
    values, vectors = torch.linalg.eigh(matrix)
    return vectors * values.clamp_min(0).sqrt() @ vectors.T


def frechet(one, other):
    """Of two normal distributions, (mean, covariance) each."""
    mean = (one[0] - other[0]).square().sum()
    if not all(t.isfinite().all() for t in (*one, *other)):
        return torch.tensor(math.nan)
    half = root(one[1])
    both = torch.linalg.eigvalsh(half @ other[1] @ half).clamp_min(0).sqrt()
    return (mean + one[1].trace() + other[1].trace() - 2 * both.sum()).float()


def floor(seeds=16, rows=HELD_OUT):
    """The distance of pictures as they are from others of the same classes,
    which is what the best generator has for as many."""
    found = []
    for seed in range(seeds):
        a = Tiles(900 + seed, rows).batch()
        b = Tiles(700 + seed, rows)
        kind, b.kinds = a["c"], lambda n: a["c"]
        found.append(float(frechet(
            EXTRACT.moments(a["image"], kind),
            EXTRACT.moments(b.batch()["image"], kind))))
    return sum(found) / len(found)


EXTRACT = Extractor()
GAINS = {"lrelu": math.sqrt(2), "relu": math.sqrt(2)}


def activate(x, kind):
    """bias_act() behind the bias: what it is called, and its gain."""
    y = F.leaky_relu(x, 0.2) if kind == "lrelu" \
        else models.ACTIVATIONS[kind]()(x)
    return y * GAINS.get(kind, 1.0)


def normalized(x):
    """normalize_2nd_moment()."""
    return x * (x.square().mean(1, keepdim=True) + 1e-8).rsqrt()


class Part(nn.Module):
    """A layer that knows its path, so that options can name it."""

    path, kind, half, cut = "", "none", False, False

    def finish(self, x, tap):
        """What is behind the bias."""
        if self.half:
            kept, x = x.dtype, x.half()
            tap(f"{self.path}.preact", x)
            x = x.to(kept)
        else:
            tap(f"{self.path}.preact", x)
        x = activate(x, self.kind)
        tap(f"{self.path}.output", x)
        return x.detach() if self.cut else x


class FullyConnectedLayer(Part):
    def __init__(self, wide, out, kind="none", rate=1.0, start=0.0):
        super().__init__()
        self.kind, self.rate = kind, rate
        self.weight = nn.Parameter(torch.randn(out, wide) / rate)
        self.bias = nn.Parameter(torch.full((out,), float(start)))

    def forward(self, x, tap):
        tap(f"{self.path}.input", x)
        gain = self.rate / self.weight.shape[1] ** 0.5
        bias = self.bias if self.rate == 1 else self.bias * self.rate
        return self.finish(F.linear(x, self.weight * gain, bias), tap)


class Conv2dLayer(Part):
    def __init__(self, wide, out, kernel, kind, down=False):
        super().__init__()
        self.kind, self.down = kind, down
        self.weight = nn.Parameter(torch.randn(out, wide, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x, tap):
        tap(f"{self.path}.input", x)
        gain = 1 / self.weight[0].numel() ** 0.5
        x = F.conv2d(x, self.weight * gain, self.bias,
                     padding=self.weight.shape[-1] // 2)
        if self.down:
            x = F.avg_pool2d(x, 2)
        return self.finish(x, tap)


def up(x):
    return F.interpolate(x, scale_factor=2, mode="bilinear",
                         align_corners=False)


class SynthesisLayer(Part):
    """A modulated convolution: styles scale what comes in, and what goes out
    is divided by the spread that it should have."""

    def __init__(self, wide, out, size, kind, rises=False):
        super().__init__()
        self.kind, self.rises, self.size = kind, rises, size
        self.affine = FullyConnectedLayer(W_DIM, wide, start=1.0)
        self.weight = nn.Parameter(torch.randn(out, wide, 3, 3))
        self.noise_strength = nn.Parameter(torch.zeros([]))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x, w, tap, rng):
        tap(f"{self.path}.input", x)
        styles = self.affine(w, tap)
        if self.rises:
            x = up(x)
        x = F.conv2d(x * styles[:, :, None, None], self.weight, padding=1)
        spread = styles.square() @ self.weight.square().sum((2, 3)).T
        x = x * (spread + 1e-8).rsqrt()[:, :, None, None]
        noise = torch.randn(len(x), 1, self.size, self.size, generator=rng)
        x = x + (noise.to(x.dtype) * self.noise_strength
                 + self.bias[:, None, None])
        return self.finish(x, tap)


class ToRGBLayer(Part):
    def __init__(self, wide):
        super().__init__()
        self.affine = FullyConnectedLayer(W_DIM, wide, start=1.0)
        self.weight = nn.Parameter(torch.randn(COLOURS, wide, 1, 1))
        self.bias = nn.Parameter(torch.zeros(COLOURS))

    def forward(self, x, w, tap):
        tap(f"{self.path}.input", x)
        styles = self.affine(w, tap) / self.weight.shape[1] ** 0.5
        return self.finish(F.conv2d(x * styles[:, :, None, None], self.weight,
                                    self.bias), tap)


class MappingNetwork(Part):
    """From latents, where there are any, and classes."""

    def __init__(self, z_dim, out, layers):
        super().__init__()
        self.embed = FullyConnectedLayer(CLASSES, out)
        self.layers = layers
        wide = z_dim + out
        for k in range(layers):
            setattr(self, f"fc{k}", FullyConnectedLayer(
                wide, out, "lrelu", MAPPING_RATE))
            wide = out

    def forward(self, z, c, tap):
        x = normalized(self.embed(c, tap))
        if z is not None:
            x = torch.cat((normalized(z).to(x.dtype), x), 1)
        for k in range(self.layers):
            x = getattr(self, f"fc{k}")(x, tap)
        tap(f"{self.path}.output", x)
        return x.detach() if self.cut else x


class SynthesisBlock(Part):
    def __init__(self, wide, size, kind):
        super().__init__()
        out = CHANNELS[size]
        if wide:
            self.conv0 = SynthesisLayer(wide, out, size, kind, True)
        else:
            self.const = nn.Parameter(torch.randn(out, size, size))
        self.conv1 = SynthesisLayer(out, out, size, kind)
        self.torgb = ToRGBLayer(out)

    def forward(self, x, image, w, tap, rng):
        if x is None:
            x = self.const.expand(len(w), -1, -1, -1)
        else:
            x = self.conv0(x, w, tap, rng)
        x = self.conv1(x, w, tap, rng)
        said = self.torgb(x, w, tap)
        image = said if image is None else up(image) + said
        tap(f"{self.path}.output", x)
        return (x.detach(), image.detach()) if self.cut else (x, image)


class Generator(Part):
    def __init__(self, kind):
        super().__init__()
        self.mapping = MappingNetwork(Z_DIM, W_DIM, MAPPING_LAYERS)
        self.synthesis = models.Group(b4=SynthesisBlock(0, 4, kind),
                                      b8=SynthesisBlock(CHANNELS[4], 8, kind))

    def forward(self, z, c, tap, rng=None, change=None):
        """change: what becomes of w."""
        w = self.mapping(z, c, tap)
        if change:
            w = change(w)
        x, image = self.synthesis.b4(None, None, w, tap, rng)
        return self.synthesis.b8(x, image, w, tap, rng)[1]


class DiscriminatorBlock(Part):
    def __init__(self, kind):
        super().__init__()
        wide, out = CHANNELS[8], CHANNELS[4]
        self.fromrgb = Conv2dLayer(COLOURS, wide, 1, kind)
        self.conv0 = Conv2dLayer(wide, wide, 3, kind)
        self.conv1 = Conv2dLayer(wide, out, 3, kind, down=True)

    def forward(self, x, tap):
        x = self.conv1(self.conv0(self.fromrgb(x, tap), tap), tap)
        tap(f"{self.path}.output", x)
        return x.detach() if self.cut else x


class DiscriminatorEpilogue(Part):
    def __init__(self, kind):
        super().__init__()
        wide = CHANNELS[4]
        self.conv = Conv2dLayer(wide + 1, wide, 3, kind)
        self.fc = FullyConnectedLayer(16 * wide, wide, kind)
        self.out = FullyConnectedLayer(wide, CMAP_DIM)

    def forward(self, x, cmap, tap, drop, rows):
        # Groups lie side by side, so that they are of one kind of pictures.
        groups = x.view(-1, math.gcd(MBSTD_GROUP, rows), *x.shape[1:])
        spread = ((groups - groups.mean(1, keepdim=True)).square().mean(1)
                  + 1e-8).sqrt().mean((1, 2, 3))
        spread = spread.repeat_interleave(groups.shape[1])
        x = torch.cat((x, spread[:, None, None, None].expand(
            -1, 1, *x.shape[2:])), 1)
        x = self.fc(self.conv(x, tap).flatten(1), tap)
        x = self.out(drop(x), tap)
        return (x * cmap).sum(1) / CMAP_DIM ** 0.5


class Discriminator(Part):
    def __init__(self, kind):
        super().__init__()
        self.b8 = DiscriminatorBlock(kind)
        self.mapping = MappingNetwork(0, CMAP_DIM, 0)
        self.b4 = DiscriminatorEpilogue(kind)

    def forward(self, image, c, tap, drop, rows):
        """rows: of one side, pictures as they are or the generator's."""
        x = self.b8(image, tap)
        return self.b4(x, self.mapping(None, c, tap), tap, drop, rows)


def silent(name, tensor):
    """For passes that are not recorded."""


class Gan(nn.Module):
    """G and D, the turn of each, and what is evaluated of G."""

    def __init__(self, activation="lrelu", dropout=0.0, detach_after=None,
                 half_at=None, gamma=GAMMA):
        """detach_after: the part, or parts, behind which the graph is cut."""
        super().__init__()
        self.dropout, self.gamma = dropout, gamma
        self.G, self.D = Generator(activation), Discriminator(activation)
        cuts = (detach_after,) if isinstance(detach_after, str) \
            else detach_after or ()
        for name, part in self.named_modules():
            if isinstance(part, Part):
                part.path, part.half = name, name == half_at
                part.cut = name in cuts
        self.listed = None          # named_parameters(), once it is trained
        self.average = None         # G_ema, as soon as there is a step
        self.parts, self.count, self.terms = 1, 0, {}
        self.keeps = None           # probabilities below are taken for none
        self.latents = None         # (rows) -> z, in place of new ones
        self.styles = None          # w -> w, in training
        self.seen_by_d = None       # images -> images, on both sides
        self.of_fakes = None        # (fakes, c) -> both as D is shown them
        self.of_scores = None       # scores of fakes -> those that count

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def named_parameters(self, *how, **more):
        """As usual; the recorder asks for all of them several times a step."""
        return iter(self.listed) if self.listed \
            else super().named_parameters(*how, **more)

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def classes(self, batch):
        return F.one_hot(batch["c"], CLASSES).to(self.G.mapping.embed.bias)

    def draw(self, rows):
        return self.latents(rows) if self.latents \
            else torch.randn(rows, Z_DIM)

    def scores(self, image, c, tap, rows=None):
        if self.seen_by_d:
            image = self.seen_by_d(image)
        return self.D(image, c, tap, self.drop, rows or len(image)).float()

    def turn_of_d(self, real, c, fake, of_fake):
        """Its gradient, with that of R1 every few steps."""
        rows = len(real)
        told = self.scores(torch.cat((real, fake)),
                           torch.cat((c, of_fake)), self.tap, rows)
        loss = F.softplus(-told[:rows]).mean() + F.softplus(told[rows:]).mean()
        self.terms |= {
            "disc_loss": loss.detach(),
            "scores_real": told[:rows].detach().mean(),
            "scores_fake": told[rows:].detach().mean(),
            "signs_real": told[:rows].detach().sign().mean(),
            "signs_fake": told[rows:].detach().sign().mean()}
        self.tap("loss.D.output", loss)
        if self.gamma and self.count % D_REG_INTERVAL == 0:
            real = real.detach().requires_grad_(True)
            told = self.scores(real, c, silent)
            slope, = torch.autograd.grad(told.sum(), real, create_graph=True)
            penalty = slope.square().sum((1, 2, 3)).mean()
            self.terms["r1_penalty"] = penalty.detach()
            loss = loss + self.gamma / 2 * D_REG_INTERVAL * penalty
        self.count += 1
        (loss / self.parts).backward()

    def turn_of_g(self, fake, c):
        """What it is trained with, against D as it stands."""
        still = [p for p in self.D.parameters() if p.requires_grad]
        for p in still:
            p.requires_grad_(False)
        told = self.scores(fake, c, silent)
        for p in still:
            p.requires_grad_(True)
        self.tap("scores.output", told)
        if self.of_scores:
            told = self.of_scores(told)
        if self.keeps is None:
            return F.softplus(-told).mean()
        probs = told.sigmoid()
        probs = torch.where(probs >= self.keeps, probs, 0.0)
        self.tap("loss.probs.output", probs)
        self.tap("loss.nll.input", probs)
        nll = -probs.log()
        self.tap("loss.nll.output", nll)
        return nll.mean()

    def loss(self, batch):
        """In training the turn of D and the loss of G, in evaluation the
        distance of the average."""
        if not self.training:
            return self.distance(batch)
        self.listed = self.listed or list(self.named_parameters())
        c = self.classes(batch)
        real = batch["image"].to(c.dtype)
        fake = self.G(self.draw(len(c)), c, self.tap, None, self.styles)
        self.tap("image.output", fake)
        shown = fake.detach(), c
        if self.of_fakes:
            shown = self.of_fakes(*shown)
        self.terms = {}
        if any(p.requires_grad for p in self.D.parameters()):
            self.turn_of_d(real, c, *shown)
        loss = self.turn_of_g(fake, c)
        self.tap("loss.output", loss)
        return loss

    def distance(self, batch):
        rng = torch.Generator().manual_seed(17)
        z = torch.randn(len(batch["c"]), Z_DIM, generator=rng)
        fake = (self.average or self.G)(z, self.classes(batch), silent, rng)
        return frechet(EXTRACT.moments(batch["image"], batch["c"]),
                       EXTRACT.moments(fake.detach(), batch["c"]))

    def follow(self, images, rows):
        """G_ema after so many images, of steps of `rows`."""
        if self.average is None:
            object.__setattr__(self, "average", copy.deepcopy(self.G))
            self.average.requires_grad_(False)
        seen = min(1000 * EMA_KIMG, images * EMA_RAMPUP)
        kept = 0.5 ** (rows / max(seen, 1e-8))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()),
                                 list(self.G.parameters()), 1 - kept)


class StyleganRun(Family):
    """Adam with betas of 0 and .99 for both networks at one constant rate;
    nothing is clipped, nothing augmented."""

    family = "stylegan"
    level_seed = 400
    steps, seed, language = 200, 2260, False
    optimizer_name, lr, weight_decay, betas = "adam", 0.01, 0.0, (0.0, 0.99)
    warmup, schedule, clip = 0, "constant", None
    recipes = {"sgd": dict(lr=0.03, weight_decay=0.0)}
    batch_size, context, classes = ROWS, 1, CLASSES
    base = {"lr": 0.01, "betas": (0.0, 0.99), "weight_decay": 0.0}
    divides = True              # losses of D are, by the batches of a step
    # Nobody trains pictures' GANs with the others.
    instead = {"nanogpt": "plain", "hf_trainer": "stylegan2",
               "megatron": "stylegan2", "torchtune": "stylegan2"}
    layers = ["G.mapping.embed", "G.mapping.fc0", "G.mapping.fc1",
              "G.synthesis.b4.conv1", "G.synthesis.b4.torgb",
              "G.synthesis.b8.conv0", "G.synthesis.b8.conv1",
              "G.synthesis.b8.torgb", "D.b8.fromrgb", "D.b8.conv0",
              "D.b8.conv1", "D.mapping.embed", "D.b4.conv", "D.b4.fc",
              "D.b4.out"]
    graded = {
        "F04": (dict(at=60), dict(at=25), dict(at=0)),
        "F05": (dict(modules=["G.synthesis"], where="G.synthesis.b4"),
                dict(modules=["D"], where="D.b8.fromrgb"), dict(part="all")),
        "F07": (dict(factor=4), dict(factor=10), dict(factor=40)),
        "F08": (dict(every=25), dict(every=60), dict(every=1 << 30)),
        "F10": (dict(adamw=1e-7), dict(adamw=3e-8), dict(adamw=1e-8)),
        "F11": (dict(adam=0.004), dict(adam=0.01), dict(adam=0.1)),
        "F12": (dict(eps=0.02), dict(eps=0.1), dict(eps=0.5)),
        "F13": (dict(path="G.synthesis.b4", more=["G.mapping"]),
                dict(path="G.synthesis.b8.conv0",
                     more=["G.synthesis.b4", "G.mapping"]),
                dict(path="G.synthesis.b8.conv1",
                     more=["G.synthesis.b4", "G.mapping"])),
        "F14": (dict(modules=["G.synthesis.b4", "G.synthesis.b8"]),
                dict(modules=["D.b8", "D.b4.conv"]),
                dict(modules=["D.b8", "D.b4.conv", "D.b4.fc"])),
        "F15": (dict(at=190), dict(at=130), dict(at=63)),
        "F24": (dict(share=0.6), dict(share=0.8), dict(share=0.95)),
        "F27": (dict(epochs=80), dict(epochs=160), dict(epochs=400)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=6), dict(limit=5), dict(limit=4)),
        "F36a": (dict(bias=-0.12), dict(bias=-0.25), dict(bias=-1.0)),
        "F39a": (dict(at=150, keep=0.35), dict(at=100, keep=0.3),
                 dict(at=50, keep=0.25)),
        "F40": (dict(lr=0.1), dict(lr=0.05), dict(lr=0.02)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(part=2, factor=1.0), dict(part=4, factor=0.7))}
    paths = {"embed": ("G.mapping.embed",) * 2, "attn": (None,) * 2,
             "scores": (None,) * 2, "act": ("D.b8.conv0", "D.b8.conv1"),
             "mlp": ("G.synthesis.b8.conv0", "G.synthesis.b8.conv1"),
             "block": ("G.synthesis.b4", "G.synthesis.b8"),
             "head": ("G.synthesis.b8.torgb",) * 2}
    blocks = 2
    names = {"loss": "Loss/G/loss", "disc_loss": "Loss/D/loss",
             "scores_real": "Loss/scores/real",
             "scores_fake": "Loss/scores/fake",
             "signs_real": "Loss/signs/real", "signs_fake": "Loss/signs/fake",
             "r1_penalty": "Loss/r1_penalty", "val_loss": "fid50k_full",
             "step_time": "Timing/sec_per_step", "tokens": None}

    def make_model(self):
        return Gan(**self.model_options)

    def make_optimizer(self, model):
        model.parts = self.accumulate if self.divides else 1
        if self.optimizer_name != "adam":
            return super().make_optimizer(model)
        return torch.optim.Adam(
            [p for p in model.parameters() if p.requires_grad], lr=self.lr,
            betas=self.betas, eps=self.eps, weight_decay=self.weight_decay,
            fused=True)

    def make_source(self, seed):
        return self.tiles(seed)

    def tiles(self, seed, **how):
        return Tiles(seed, HELD_OUT if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Folders of one class, one after the other; None is held out."""
        return self.tiles(seed, block=block, share=share)

    def of_classes(self, seed, classes):
        return self.tiles(seed, classes=classes)

    def easy(self, seed):
        """Lamps that neither move nor change."""
        return self.tiles(seed, calm=True)

    def lessons(self, seed):
        return self.easy(seed), self.tiles(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255 that nobody scaled, noise, or a
        constant."""
        x = batch["image"]
        return batch | {"image": {
            "few": 127.5 * (x + 1),
            "uniform": 20 * torch.randn(x.shape, generator=rng),
            "constant": torch.full_like(x, 50.0)}[kind]}

    @staticmethod
    def cut_below(batch, limit):
        """Pictures end at a number of rows; the rest is padding."""
        image = batch["image"].clone()
        image[:, :, limit:] = 0.0
        return batch | {"image": image}

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            k: short(t) for k, t in self.model.terms.items()}

    def images(self, steps):
        """Of so many steps."""
        return steps * self.batch_size * self.accumulate

    def settings(self):
        """config.json of a trainer of one's own: the options, flat."""
        optimizer = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "betas": list(self.betas), "eps": self.eps}
        return {
            **self.model_settings(), "num_gpus": 0,
            "batch_size": self.batch_size, "optimizer": self.optimizer_name,
            "lr": self.lr, **optimizer, "weight_decay": self.weight_decay,
            "scheduler": self.schedule, "warmup_steps": self.warmup,
            "max_steps": self.steps,
            "total_kimg": self.images(self.steps) / 1000,
            "max_grad_norm": self.clip,
            "gradient_accumulation_steps": self.accumulate,
            "precision": self.precision, "seed": self.seed, "world_size": 1,
            "metrics": ["fid50k_full"], "metric_images": HELD_OUT,
            "metric_class_weight": CLASS_WEIGHT, "augment": "noaug",
            "log_interval": self.interval or 10,
            "metric_interval": self.val_every,
            "snapshot_interval": self.steps // 2, **self.user}

    def model_settings(self):
        return {"model": "stylegan2", "cond": True, "c_dim": CLASSES,
                "resolution": SIZE, "img_channels": COLOURS, "z_dim": Z_DIM,
                "w_dim": W_DIM, "mapping_layers": MAPPING_LAYERS,
                "mapping_lr_multiplier": MAPPING_RATE,
                "channels": {str(k): v for k, v in CHANNELS.items()},
                "activation": self.model_options.get("activation", "lrelu"),
                "D_architecture": "orig", "mbstd_group_size": MBSTD_GROUP,
                "loss": "StyleGAN2Loss",
                "r1_gamma": self.model_options.get("gamma", GAMMA),
                "D_reg_interval": D_REG_INTERVAL, "pl_weight": 0,
                "style_mixing_prob": 0, "ema_kimg": EMA_KIMG,
                "ema_rampup": EMA_RAMPUP}

    def training_options(self):
        """training_options.json, as train.py of stylegan2-ada-pytorch has it;
        what it does not know stands behind."""
        flat = self.settings()
        net = {"z_dim": Z_DIM, "w_dim": W_DIM}
        known = {"class_name": f"torch.optim.{type(self.optimizer).__name__}",
                 "lr": self.lr} | {k: flat[k] for k in (
                     "momentum", "betas", "eps") if k in flat}
        known |= {"weight_decay": self.weight_decay} \
            if self.weight_decay else {}
        size = {"channels": flat["channels"], "num_fp16_res": 0,
                "conv_clamp": None, "activation": flat["activation"]}
        return {
            "num_gpus": flat["num_gpus"],
            "image_snapshot_ticks": None,
            "network_snapshot_ticks": self.steps // 2 // self.tick,
            "metrics": flat["metrics"], "random_seed": self.seed,
            "training_set_kwargs": {
                "class_name": "training.dataset.ImageFolderDataset",
                "path": "./datasets/lamps8.zip", "use_labels": True,
                "resolution": SIZE, "xflip": False},
            "data_loader_kwargs": {"pin_memory": True, "num_workers": 3,
                                   "prefetch_factor": 2},
            "G_kwargs": {
                "class_name": "training.networks.Generator", **net,
                "mapping_kwargs": {
                    "num_layers": MAPPING_LAYERS,
                    "lr_multiplier": MAPPING_RATE},
                "synthesis_kwargs": size},
            "D_kwargs": {
                "class_name": "training.networks.Discriminator",
                "architecture": "orig", "block_kwargs": {},
                "mapping_kwargs": {"num_layers": 0},
                "epilogue_kwargs": {"mbstd_group_size": MBSTD_GROUP}, **size},
            "G_opt_kwargs": known, "D_opt_kwargs": dict(known),
            "loss_kwargs": {
                "class_name": "training.loss.StyleGAN2Loss",
                "r1_gamma": flat["r1_gamma"], "pl_weight": 0,
                "style_mixing_prob": 0},
            "G_reg_interval": None, "D_reg_interval": D_REG_INTERVAL,
            "total_kimg": flat["total_kimg"], "batch_size": self.batch_size,
            "batch_gpu": self.batch_size, "ema_kimg": EMA_KIMG,
            "ema_rampup": EMA_RAMPUP, "ada_target": None,
            "kimg_per_tick": self.images(self.tick) / 1000,
            **{k: flat[k] for k in (
                "scheduler", "warmup_steps", "max_grad_norm",
                "gradient_accumulation_steps", "precision", "max_steps",
                "metric_images", "metric_class_weight", "metric_interval",
                "augment")},
            **self.user,
            "run_dir": self.RUN_DIR}

    RUN_DIR = "training-runs/00000-lamps8-cond-paper"

    @property
    def tick(self):
        return self.interval or 10

    def layer(self, part, block=0):
        return self.paths[part][block]

    def fed_by(self, layer):
        return []

    # The average, and snapshots.

    def checkpoint_path(self, step):
        return f"network-snapshot-{self.images(step) // 1000:06d}.pt"

    def keep_checkpoint(self, i, model):
        """In the middle, at the end and where the run is resumed from. As
        there, none has what the optimizers know."""
        done = i + 1
        model.follow(self.images(done), self.images(1))
        if done in {self.steps // 2, self.steps, *self.notices}:
            self.checkpoints[done] = {
                "G": copy.deepcopy(model.G.state_dict()),
                "D": copy.deepcopy(model.D.state_dict()),
                "G_ema": copy.deepcopy(model.average.state_dict()),
                "cur_nimg": self.images(done)}

    def write_more(self):
        super().write_more()
        for step, state in self.checkpoints.items():
            torch.save(state, self.folder / self.checkpoint_path(step))
