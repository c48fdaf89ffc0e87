"""A small learned image codec, as CompressAI's examples/train.py trains it.

The model is MeanScaleHyperprior (mbt2018-mean) with three stages where it has
four: g_a and g_s with generalised divisive normalisation, h_a and h_s, an
entropy bottleneck for z and a conditional normal for y. Training has uniform
noise in place of rounding; the loss is the rate in bits a pixel and the
squared error times lambda * 255^2. Quantiles of the bottleneck have a loss and
an optimizer of their own, which steps behind the main one. Names of
parameters and buffers, options, lines and checkpoints are those of the
library, of the versions that call a bottleneck's weights _matrix0 and alike.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import EpochFamily
from .sources import AHEAD, DrawnAhead

SIZE, COLOURS, KINDS, ROWS, HELD_OUT = 16, 3, 4, 12, 24
N, M = 12, 12           # channels of the transforms, and of y
LAMBDA = 0.01
GAIN = 20.0             # of g_a's last layer at the start: y is above noise
ENDS = 4                # rounds that a curve of the bottleneck goes through


class Photographs(DrawnAhead):
    """Striped cloth on a wall, with a thing in front of it.

    A picture is one of four kinds: stripes are upright, lying, or slant either
    way, and a kind's wall has a hue of its own. The wall's colour is drawn
    about it, as are two slopes of light, how wide, how strong and where in
    their course the stripes are, and on which side of a line the cloth hangs.
    The thing is a disc or a box of one colour, and in .3 there is none. Each
    number has an error of .03.

    So there is colour to learn, then light, stripes of one direction, and
    edges. The error is below what is worth a bit at lambda = .01, and costs
    .585 of the loss whoever encodes it.

    block, share: one kind after the other; domains: of three cameras, whose
    gain and offset differ; calm: a share with neither stripes nor thing.
    """

    ERROR = 0.03
    HUES = torch.tensor(((0.62, 0.45, 0.35), (0.38, 0.55, 0.42),
                         (0.36, 0.43, 0.62), (0.56, 0.56, 0.34)))
    WAYS = torch.tensor(((1.0, 0.0), (0.0, 1.0), (0.71, 0.71), (0.71, -0.71)))

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, domains=False,
                 calm=0.0):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share, self.number = rows, block, share, 0
        self.domains, self.calm, self.ahead = domains, calm, {}
        line = torch.arange(SIZE) + 0.5
        self.y, self.x = torch.meshgrid(line, line, indexing="ij")

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def kinds(self, each):
        rows = AHEAD * each
        kind = torch.randint(KINDS, (rows,), generator=self.rng)
        if self.block:
            here = (self.number + torch.arange(rows) // each) \
                // self.block % KINDS
            kept = torch.rand(rows, generator=self.rng) < self.share
            kind = torch.where(kept, here, kind)
        self.number += AHEAD
        return kind

    def cloth(self, kind):
        """Stripes within their half of the picture, (rows, 1, y, x)."""
        rows = len(kind)
        way = self.WAYS[kind].T[..., None, None]
        course = 2 * math.pi / self.uniform(5, 8, rows, 1, 1) * (
            way[0] * self.x + way[1] * self.y)
        strong = 0.12 * (0.6 * self.normal(rows, 1, 1)).exp()
        wave = strong * (course + self.uniform(0, 6.3, rows, 1, 1)).sin()
        angle = self.uniform(0, 6.3, rows, 1, 1)
        far = angle.cos() * (self.x - SIZE / 2) \
            + angle.sin() * (self.y - SIZE / 2)
        hung = far > self.uniform(-5, 5, rows, 1, 1)
        return (wave.clamp(-0.3, 0.3) * hung)[:, None]

    def thing(self, image):
        rows = len(image)
        x, y = self.uniform(3, SIZE - 3, 2, rows, 1, 1)
        wide, high = self.uniform(2.5, 5, 2, rows, 1, 1)
        dx, dy = (self.x - x) / wide, (self.y - y) / high
        box = torch.rand(rows, 1, 1, generator=self.rng) < 0.5
        inside = torch.where(box, torch.maximum(dx.abs(), dy.abs()),
                             (dx ** 2 + dy ** 2).sqrt()) < 1
        inside &= torch.rand(rows, 1, 1, generator=self.rng) < 0.7
        colour = self.uniform(0.2, 0.8, rows, COLOURS, 1, 1)
        return torch.where(inside[:, None], colour, image)

    def draw(self, each):
        kind = self.kinds(each)
        rows = len(kind)
        colour = self.HUES[kind] + 0.07 * self.normal(rows, COLOURS)
        slope = 0.01 * self.normal(2, rows, 1, 1, 1)
        image = colour[..., None, None] + slope[0] * (self.x - SIZE / 2) \
            + slope[1] * (self.y - SIZE / 2)
        if self.calm < 1:
            bare = torch.rand(rows, 1, 1, 1, generator=self.rng) < self.calm
            image = torch.where(bare, image,
                                self.thing(image + self.cloth(kind)))
        batch = {"image": image}
        if self.domains:
            camera = torch.randint(3, (rows,), generator=self.rng)
            each = camera[:, None, None, None] - 1.0
            batch = {"image": (1 + 0.05 * each) * image + 0.03 * each,
                     "domain": camera}
        noise = self.ERROR * self.normal(*image.shape)
        batch["image"] = (batch["image"] + noise).clamp(0, 1).contiguous()
        return batch


class LowerBoundFunction(torch.autograd.Function):
    """max(x, bound), whose gradient passes where it goes up to the bound."""

    @staticmethod
    def forward(ctx, x, bound):
        ctx.save_for_backward(x, bound)
        return torch.max(x, bound)

    @staticmethod
    def backward(ctx, grad):
        x, bound = ctx.saved_tensors
        return ((x >= bound) | (grad < 0)) * grad, None


class LowerBound(nn.Module):
    def __init__(self, bound):
        super().__init__()
        self.register_buffer("bound", torch.tensor([float(bound)]))

    def forward(self, x):
        return LowerBoundFunction.apply(x, self.bound.to(x.dtype))


class NonNegativeParametrizer(nn.Module):
    OFFSET = 2 ** -18

    def __init__(self, minimum=0.0):
        super().__init__()
        self.register_buffer("pedestal", torch.tensor([self.OFFSET ** 2]))
        self.lower_bound = LowerBound((minimum + self.OFFSET ** 2) ** 0.5)

    def start(self, x):
        return (x + self.pedestal).clamp_min(0).sqrt()

    def forward(self, x):
        return self.lower_bound(x) ** 2 - self.pedestal.to(x.dtype)


class GDN(nn.Module):
    """Divides a channel by the root of a weighted sum of squares, or, as the
    inverse, multiplies."""

    def __init__(self, channels, inverse=False):
        super().__init__()
        self.inverse = inverse
        self.beta_reparam = NonNegativeParametrizer(1e-6)
        self.beta = nn.Parameter(self.beta_reparam.start(
            torch.ones(channels)))
        self.gamma_reparam = NonNegativeParametrizer()
        self.gamma = nn.Parameter(self.gamma_reparam.start(
            0.1 * torch.eye(channels)))

    def forward(self, x):
        gamma = self.gamma_reparam(self.gamma)[..., None, None]
        norm = F.conv2d(x ** 2, gamma, self.beta_reparam(self.beta))
        return x * (norm.sqrt() if self.inverse else norm.rsqrt())


class EntropyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.likelihood_lower_bound = LowerBound(1e-9)
        for name in ("_offset", "_quantized_cdf", "_cdf_length"):
            self.register_buffer(name, torch.tensor([], dtype=torch.int32))


class EntropyBottleneck(EntropyModel):
    """A curve for each channel of z, through four rounds of three numbers."""

    SCALE, FILTERS, TAIL = 10.0, (3, 3, 3, 3), 1e-9

    def __init__(self, channels):
        super().__init__()
        wide = (1, *self.FILTERS, 1)
        scale = self.SCALE ** (1 / (ENDS + 1))
        for i in range(ENDS + 1):
            start = math.log(math.expm1(1 / scale / wide[i + 1]))
            self.register_parameter(f"_matrix{i}", nn.Parameter(torch.full(
                (channels, wide[i + 1], wide[i]), start)))
            self.register_parameter(f"_bias{i}", nn.Parameter(
                torch.rand(channels, wide[i + 1], 1) - 0.5))
            if i < ENDS:
                self.register_parameter(f"_factor{i}", nn.Parameter(
                    torch.zeros(channels, wide[i + 1], 1)))
        self.quantiles = nn.Parameter(torch.tensor(
            [-self.SCALE, 0.0, self.SCALE]).repeat(channels, 1, 1))
        end = math.log(2 / self.TAIL - 1)
        self.register_buffer("target", torch.tensor([-end, 0.0, end]))

    def cumulative(self, x, still=False):
        """Logits, (channels, 1, values)."""
        def own(name):
            p = getattr(self, name).float()
            return p.detach() if still else p
        for i in range(ENDS + 1):
            x = F.softplus(own(f"_matrix{i}")) @ x + own(f"_bias{i}")
            if i < ENDS:
                x = x + own(f"_factor{i}").tanh() * x.tanh()
        return x

    def loss(self):
        logits = self.cumulative(self.quantiles.float(), still=True)
        return (logits - self.target.float()).abs().sum()

    def forward(self, z, quantize):
        """What is decoded, and the likelihood of each."""
        shape = z.transpose(0, 1).shape
        values = z.float().transpose(0, 1).reshape(shape[0], 1, -1)
        values = quantize(values, self.quantiles[:, :, 1:2].float())
        lower, upper = (self.cumulative(values + half)
                        for half in (-0.5, 0.5))
        likelihood = upper.sigmoid() - lower.sigmoid()
        return (t.reshape(shape).transpose(0, 1) for t in (
            values, self.likelihood_lower_bound(likelihood)))


class GaussianConditional(EntropyModel):
    def __init__(self, bound=0.11):
        super().__init__()
        self.register_buffer("scale_table", torch.tensor([]))
        self.register_buffer("scale_bound", torch.tensor([float(bound)]))
        self.lower_bound_scale = LowerBound(bound)

    def forward(self, y, scales, means, quantize):
        y, scales, means = y.float(), scales.float(), means.float()
        y_hat = quantize(y, means)
        scales = self.lower_bound_scale(scales)
        away = (y_hat - means).abs()
        upper, lower = (0.5 * torch.erfc(-(half - away) / scales
                                         * 0.5 ** 0.5)
                        for half in (0.5, -0.5))
        return y_hat, self.likelihood_lower_bound(upper - lower)


def conv(wide, out, kernel=5, stride=2):
    return nn.Conv2d(wide, out, kernel, stride, kernel // 2)


def deconv(wide, out, kernel=5, stride=2):
    return nn.ConvTranspose2d(wide, out, kernel, stride, kernel // 2,
                              output_padding=stride - 1)


class MeanScaleHyperprior(nn.Module):
    """y is 4 by 4, z one place."""

    BLOCKS = ("g_a.1", "g_a.3")     # what is not linear in g_a
    PARTS = ("g_a", "h_a", "h_s", "g_s")

    def __init__(self, activation="gdn", dropout=0.0, detach_after=(),
                 half_at=None, scale_bound=0.11, lmbda=LAMBDA):
        """activation: in place of GDN in g_a. detach_after: the layers behind
        which the graph is cut. half_at: the convolution whose output is in
        half precision. scale_bound: of y's spread. lmbda: in training as in
        evaluation."""
        super().__init__()
        self.dropout, self.half_at, self.lmbda = dropout, half_at, lmbda
        self.detach_after = (detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)

        def act():
            return GDN(N) if activation == "gdn" \
                else models.ACTIVATIONS[activation]()
        self.entropy_bottleneck = EntropyBottleneck(N)
        self.g_a = nn.Sequential(conv(COLOURS, N), act(), conv(N, N), act(),
                                 conv(N, M, 3, 1))
        self.g_s = nn.Sequential(deconv(M, N, 3, 1), GDN(N, True), deconv(N, N),
                                 GDN(N, True), deconv(N, COLOURS))
        with torch.no_grad():
            self.g_a[4].weight.mul_(GAIN)
            self.g_s[4].bias.fill_(0.5)
        self.h_a = nn.Sequential(conv(M, N, 3, 1), nn.LeakyReLU(),
                                 conv(N, N), nn.LeakyReLU(), conv(N, N))
        self.h_s = nn.Sequential(
            deconv(N, M), nn.LeakyReLU(), deconv(M, M * 3 // 2),
            nn.LeakyReLU(), conv(M * 3 // 2, 2 * M, 3, 1))
        self.gaussian_conditional = GaussianConditional(scale_bound)
        self.terms, self.kept = {}, []  # of the last loss, of a validation
        # What training has instead: noise of its own, by what it is added to
        # and the part; parts that are rounded; how rate and distortion are
        # made; the least likelihood that is not set to zero.
        self.noise, self.straight = None, ()
        self.rate, self.distortion, self.keeps = None, None, None
        self.factor = 1.0       # of lambda, in training

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def through(self, part, x):
        for k, layer in enumerate(getattr(self, part)):
            name = f"{part}.{k}"
            if name == "g_s.4" and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
            self.tap(f"{name}.input", x)
            y = layer(x)
            if name == self.half_at:
                y = y.half()
            self.tap(f"{name}.output", y)
            x = y.to(x.dtype)
            if name in self.detach_after:
                x = x.detach()
        return x

    def quantize(self, part):
        """Noise in training, else rounded as far as it is from the mean."""
        def rounded(x, means):
            return (x - means).round() + means

        def noisy(x, means):
            noise = self.noise(x, part) if self.noise \
                else torch.empty_like(x).uniform_(-0.5, 0.5)
            return x + noise
        return noisy if self.training else rounded

    def forward(self, x):
        """The picture that is decoded, and likelihoods of y and z."""
        x = x.to(self.g_a[0].weight.dtype)
        kind = x.dtype
        y = self.through("g_a", x)
        z = self.through("h_a", y)
        z_hat, z_like = self.entropy_bottleneck(z, self.quantize("z"))
        if "z" in self.straight and self.training:
            means = self.entropy_bottleneck.quantiles[:, 0, 1].detach()
            means = means[:, None, None]
            z_hat = z + ((z - means).round() + means - z).detach()
        self.tap("entropy_bottleneck.output", z_hat)
        scales, means = self.through("h_s", z_hat.to(kind)).chunk(2, 1)
        y_hat, y_like = self.gaussian_conditional(
            y, scales, means, self.quantize("y"))
        if "y" in self.straight and self.training:
            y_hat = y + ((y - means).round() + means - y).detach()
        self.tap("gaussian_conditional.output", y_hat)
        return self.through("g_s", y_hat.to(kind)).float(), {
            "y": y_like, "z": z_like}

    def logits(self, batch):
        return self(batch["image"])

    def bits(self, likelihood):
        """Of a picture's pixel."""
        if self.keeps is not None and self.training:
            likelihood = torch.where(likelihood >= self.keeps, likelihood,
                                     0.0)
        return -likelihood.log().sum() / math.log(2) / (
            len(likelihood) * SIZE ** 2)

    def criterion(self, said, batch):
        """RateDistortionLoss."""
        x_hat, likelihoods = said
        target = batch["image"]
        ours = self.training
        distortion = self.distortion if ours and self.distortion else \
            F.mse_loss
        mse = distortion(x_hat, target)
        bpp = sum(self.bits(like) for like in likelihoods.values())
        if self.keeps is not None and ours:
            probs = torch.cat([like.flatten(1)
                               for like in likelihoods.values()], 1).detach()
            probs = torch.where(probs >= self.keeps, probs, 0.0)
            self.tap("loss.probs.output", probs)
            self.tap("loss.nll.input", probs)
            self.tap("loss.nll.output", -probs.log())
        if ours and self.rate:
            bpp = self.rate(bpp)
        loss = (self.factor if ours else 1.0) * self.lmbda * 255 ** 2 * mse \
            + bpp
        terms = {"mse_loss": mse.detach(), "bpp_loss": bpp.detach()}
        if ours:
            self.terms, self.kept = terms, []
        else:
            self.kept.append(terms)
        return loss

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss

    def aux_loss(self):
        return self.entropy_bottleneck.loss()


# What feeds the activations of g_a.
BEFORE_ACT = ("g_a.0", "g_a.2")


class CompressRun(EpochFamily):
    """Adam at a rate that is halved where a test loss is not a tenth below the
    best, another Adam for quantiles, norms clipped at 1, as all of them are."""

    family = "compress"
    level_seed = 400
    steps, seed, language = 200, 2420, False
    optimizer_name, lr, weight_decay = "adam", 8e-3, 0.0
    AUX_RATE = 0.05
    warmup, schedule, clip = 0, "plateau", 1.0
    PATIENCE, LR_FACTOR, THRESHOLD = 0, 0.5, 0.1   # of ReduceLROnPlateau
    recipes = {"sgd": dict(lr=2e-4, weight_decay=0.0)}
    base = {"lr": 3e-3, "weight_decay": 0.0}
    EPOCH = epoch_steps = 25
    batch_size, context, classes = ROWS, SIZE * SIZE, KINDS
    # Its users have what the example prints.
    instead = {"nanogpt": "compressai", "hf_trainer": "compressai",
               "megatron": "compressai", "torchtune": "compressai"}
    layers = [*(f"g_a.{k}" for k in range(5)), "h_a.0", "h_a.2", "h_a.4",
              "entropy_bottleneck", "h_s.0", "h_s.2", "h_s.4",
              "gaussian_conditional", *(f"g_s.{k}" for k in range(5))]
    graded = {
        "F01": (dict(factor=3), dict(factor=10), dict(factor=100)),
        "F02": (dict(lr=0.002), dict(lr=0.005), dict(lr=0.05)),
        "F04": (dict(at=100), dict(at=50), dict(at=0)),
        "F05": (dict(modules=["g_a"], where="g_a.0"),
                dict(modules=["g_s"], where="g_s.0"), dict(part="all")),
        "F07": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F11": (dict(adam=0.005), dict(adam=0.03), dict(adam=0.3)),
        "F12": (dict(eps=0.01), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path="g_a.2"), dict(path="g_a.4"), dict(path="g_s.2")),
        "F14": (dict(modules=["g_a.2", "g_a.4"]),
                dict(modules=["g_s.0", "g_s.2"]),
                dict(modules=["g_a.2", "g_a.4", "h_a.2", "h_a.4", "h_s.0",
                              "g_s.0", "g_s.2"])),
        "F15": (dict(at=150), dict(at=100), dict(at=50)),
        "F16": (dict(rate=0.01), dict(rate=0.03), dict(rate=0.1)),
        "F26": (dict(steps=12, share=0.8), dict(steps=25, share=1.0),
                dict(steps=100, share=1.0)),
        "F27": (dict(epochs=50), dict(epochs=100), dict(epochs=200)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=14), dict(limit=10), dict(limit=5)),
        "F34": (dict(factor=3), dict(factor=5), dict(factor=0)),
        "F36a": (dict(bias=-0.1), dict(bias=-0.5), dict(bias=-2.5)),
        # A sigmoid does badly whatever its weights are, a tanh does well.
        "F36b": (dict(factor=10, kind="tanh"), dict(factor=30, kind="tanh"),
                 dict(factor=200, kind="tanh")),
        "F39a": (dict(at=150, keep=1e-4), dict(at=100, keep=1e-3),
                 dict(at=50, keep=1e-2)),
        "F39b": (dict(at=150), dict(at=100), dict(at=50)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "H02": (dict(factor=0.6), dict(factor=0.4)),
        "H03": (dict(part=2, factor=1.0), dict(part=4, factor=0.7)),
        "H04": (dict(rate=0.02), dict(rate=0.05)),
        "H11": (dict(steps=200, keep="head"), dict(steps=300, keep="head")),
        "H43": (dict(parts=2), dict(parts=4))}
    paths = {"embed": ("g_a.0",) * 2, "attn": (None,) * 2,
             "scores": (None,) * 2, "act": ("g_a.1", "g_a.3"),
             "mlp": ("g_a.2", "g_s.2"), "block": ("g_a.2", "g_s.2"),
             "head": ("g_s.4",) * 2}
    always_trained = ("entropy_bottleneck", "h_s", "g_s")
    blocks = 2
    names = {"val_loss": "test_loss", "val_mse_loss": "test_mse_loss",
             "val_bpp_loss": "test_bpp_loss",
             "val_aux_loss": "test_aux_loss", "val_psnr": "test_psnr",
             "tokens": None}

    def make_model(self):
        return MeanScaleHyperprior(**self.model_options)

    def make_optimizer(self, model):
        """configure_optimizers(): the quantiles have one of their own, which
        steps behind the other one."""
        quantiles = model.entropy_bottleneck.quantiles
        trained = [p for n, p in sorted(model.named_parameters())
                   if p.requires_grad and p is not quantiles]
        if self.optimizer_name == "sgd":
            main = torch.optim.SGD(trained, lr=self.lr,
                                   momentum=self.momentum,
                                   weight_decay=self.weight_decay)
        else:
            main = {"adam": torch.optim.Adam}.get(
                self.optimizer_name, torch.optim.AdamW)(
                    trained, lr=self.lr, betas=self.betas, eps=self.eps,
                    weight_decay=self.weight_decay)
        main.aux = torch.optim.Adam([quantiles], lr=self.AUX_RATE)

        def follow(*_):
            if quantiles.requires_grad:
                quantiles.grad, = torch.autograd.grad(
                    model.aux_loss(), [quantiles])
                main.aux.step()
            quantiles.grad = None
        main.register_step_post_hook(follow)
        return main

    def train(self):
        idle = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            idle, "min", factor=self.LR_FACTOR, patience=self.PATIENCE,
            threshold=self.THRESHOLD)
        self.fallen, self.best = 1.0, math.inf
        super().train()

    def lr_factor(self, i):
        return self.fallen if self.schedule == "plateau" \
            else super().lr_factor(i)

    # Data.

    def make_source(self, seed):
        return self.photographs(seed)

    def photographs(self, seed, **how):
        return Photographs(seed, HELD_OUT if seed == 9 else self.batch_size,
                           **how)

    def in_blocks(self, seed, block, share):
        """Folders of one kind, one after the other; None is held out."""
        return self.photographs(seed, block=block, share=share)

    def easy(self, seed):
        """Walls alone."""
        return self.photographs(seed, calm=1.0)

    def lessons(self, seed):
        return self.photographs(seed, calm=0.25), self.photographs(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255 that nobody scaled, noise, or
        white pictures of 0 to 255."""
        x = batch["image"]
        return batch | {"image": {
            "few": 255.0 * x,
            "uniform": 20 * torch.randn(x.shape, generator=rng),
            "constant": torch.full_like(x, 255.0)}[kind]}

    @staticmethod
    def cut_below(batch, limit):
        """Pictures end at a number of rows; the rest is padding."""
        image = batch["image"].clone()
        image[:, :, limit:] = 0.0
        return batch | {"image": image}

    @staticmethod
    def standardised(batch):
        """Each picture by its own mean and spread, back to about .5."""
        x = batch["image"]
        each = (1, 2, 3)
        return batch | {"image": 0.5 + 0.16 * (
            x - x.mean(each, keepdim=True)) / x.std(each, keepdim=True)}

    # What is logged.

    def batch_columns(self, batch):
        terms = self.model.terms | {"aux_loss": self.model.aux_loss().detach()}
        return super().batch_columns(batch) | {
            k: float(f"{float(t):.6g}") for k, t in terms.items()}

    def held_out_columns(self, batches):
        """Of the test epoch; then the scheduler steps, and checkpoints are
        written."""
        kept, self.model.kept = self.model.kept, []
        row = {f"val_{k}": sum(t[k] for t in kept) / len(kept)
               for k in kept[0]}
        loss = self.model.lmbda * 255 ** 2 * float(row["val_mse_loss"]) \
            + float(row["val_bpp_loss"])
        if self.schedule == "plateau":
            self.plateau.step(loss)
            self.fallen = self.plateau.optimizer.param_groups[0]["lr"]
            done = len(self.history) + 1
            for group, rate in zip(self.optimizer.param_groups,
                                   self.scheduler.base_lrs):
                group["lr"] = rate * self.lr_factor(done)
        self.save(loss)
        return row | {"val_aux_loss": self.model.aux_loss(),
                      "val_psnr": -10 * torch.log10(row["val_mse_loss"])}

    def save(self, loss):
        state = {"epoch": len(self.history) // self.EPOCH,
                 "state_dict": self.model.state_dict(),
                 "loss": torch.tensor(loss),
                 "optimizer": self.optimizer.state_dict(),
                 "aux_optimizer": self.optimizer.aux.state_dict(),
                 "lr_scheduler": self.plateau.state_dict() | {
                     "_last_lr": [self.lr * self.fallen]}
                 if self.schedule == "plateau" else {
                     "last_epoch": len(self.history) + 1}}
        last = len(self.history) + 1 == self.steps
        if last or loss < self.best:
            state = copy.deepcopy(state)
        if last:
            self.checkpoints["checkpoint.pth.tar"] = state
        if loss < self.best:
            self.best = loss
            self.checkpoints["checkpoint_best_loss.pth.tar"] = state

    def write_more(self):
        super().write_more()
        for name, state in self.checkpoints.items():
            torch.save(state, self.folder / name)

    # What the user typed.

    def settings(self):
        optimizer = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "betas": list(self.betas), "eps": self.eps}
        schedule = {"lr_scheduler": self.schedule}
        if self.schedule == "plateau":
            schedule = {"lr_scheduler": "ReduceLROnPlateau",
                        "lr_factor": self.LR_FACTOR,
                        "lr_patience": self.PATIENCE,
                        "lr_threshold": self.THRESHOLD}
        return {
            **self.model_settings(), "dataset": "photographs",
            "epochs": self.epochs, "steps_per_epoch": self.EPOCH,
            "max_steps": self.steps, "optimizer": self.optimizer_name,
            "learning_rate": self.lr, **optimizer,
            "weight_decay": self.weight_decay, **schedule,
            "warmup_steps": self.warmup,
            "aux_learning_rate": self.AUX_RATE, "num_workers": 4,
            "batch_size": self.batch_size, "test_batch_size": HELD_OUT,
            "gradient_accumulation_steps": self.accumulate,
            "patch_size": [SIZE, SIZE], "cuda": False, "save": True,
            "seed": self.seed, "clip_max_norm": self.clip or 0.0,
            "precision": self.precision, "world_size": 1,
            "checkpoint": None, **self.user}

    def model_settings(self):
        options = self.model_options
        return {"model": "mbt2018-mean", "N": N, "M": M,
                "activation": options.get("activation", "gdn"),
                "lmbda": options.get("lmbda", LAMBDA), "metric": "mse"}

    def layer(self, part, block=0):
        return self.paths[part][block]

    def fed_by(self, layer):
        return []
