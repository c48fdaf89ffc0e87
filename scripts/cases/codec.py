"""A small neural audio codec: sound in, few bits, sound out.

Parts, losses, config and files are those of descript-audio-codec's
scripts/train.py: an encoder of strided, weight-normed convolutions with Snakes,
residual vector quantizers whose codes are looked up by cosine in a space of few
dimensions, a decoder that mirrors the encoder, and a discriminator that
sees every third sample; those of spectrograms are left out. 15 times the
distance of log mels, 2 times that of the discriminator's features, least
squares, and the two losses of the quantizers train it; distances of spectra and
of samples are logged. In training a half of the rows may have fewer quantizers.

The model of the run is DAC, which is what is recorded of weights and gradients.
The discriminator hangs on it without being a part of it: it has an optimizer of
its own and takes its turn whenever a training loss is computed, before DAC's.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family
from .snapshot import short

RATE, LENGTH, ROWS = 16000, 256, 6
WIDTH, STRIDES, DILATIONS = 8, (4, 4), (1, 3)
CODEBOOKS, CODES, CODE_DIM = 3, 32, 4
PERIODS = (3,)
WINDOWS, N_MELS, CLAMP = (32, 128), (5, 16), 1e-5
LAMBDAS = {"mel/loss": 15.0, "adv/feat_loss": 2.0, "adv/gen_loss": 1.0,
           "vq/commitment_loss": 0.25, "vq/codebook_loss": 1.0}
QUANTIZER_DROPOUT = 0.5
CLIP_D = 10.0
KINDS, LOUD = 6, 0.15
SAVED = "runs/baseline"


def filters(window, count):
    """Triangles on the mel scale, (count, bins)."""
    def mel(hertz):
        return 2595 * math.log10(1 + hertz / 700)
    edges = torch.linspace(0, mel(RATE / 2), count + 2)
    edges = 700 * (10 ** (edges / 2595) - 1)
    bins = torch.linspace(0, RATE / 2, window // 2 + 1)
    low, mid, high = (edges[k:k + count, None] for k in range(3))
    rise, fall = (bins - low) / (mid - low), (high - bins) / (high - mid)
    return torch.minimum(rise, fall).clamp_min(0)


HANN = {w: torch.hann_window(w) for w in WINDOWS}
BASES = [filters(w, n) for w, n in zip(WINDOWS, N_MELS)]


def stft(audio, window):
    """Of (rows, samples), complex (rows, bins, frames)."""
    with torch.autocast("cpu", enabled=False):
        return torch.stft(audio.float(), window, window // 4, window,
                          HANN[window], return_complex=True)


def loudness(x, to=LOUD):
    """VolumeNorm, with a guard: each row is as loud as any."""
    size = x.square().mean(-1, keepdim=True).sqrt()
    return (to * x / size.clamp_min(1e-5)).clamp(-1, 1)


class Sounds(sources.DrawnAhead):
    """Cuttings of 256 samples (16 ms) of recordings, all as loud (VolumeNorm).

    A cutting is of one of six kinds: a voice, harmonics of a pitch of 150 to
    600 Hz under an envelope of two formants; a plucked string, whose upper
    harmonics fall sooner; a chord of three pure tones of 300 to 3000 Hz; a
    chirp that goes up or down by up to an octave; hiss in a band, whose
    loudness swells; and clicks, two to four bursts that ring at 1 to 5 kHz. In
    each there is noise besides, of .04 to .12 of its size, which nobody can
    say in a few bits; nor can what hisses do by chance.

    block, share: one kind after the other; domains: each row has its kind;
    calm: chords alone, in noise that is always as loud.
    """

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, domains=False,
                 calm=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share = rows, block, share
        self.domains, self.calm = domains, calm
        self.ahead, self.number = {}, 0

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def kinds(self, rows):
        kind = torch.randint(KINDS, (rows,), generator=self.rng)
        if self.calm:
            return torch.full_like(kind, 2)
        if self.block:
            at = self.number + torch.arange(rows) // self.rows
            here = at // self.block % KINDS
            kept = torch.rand(rows, generator=self.rng) < self.share
            kind = torch.where(kept, here, kind)
        self.number += sources.AHEAD
        return kind

    def waves(self, hertz, size):
        """Sines with a phase that is drawn; (rows, parts, samples) each."""
        phase = 2 * math.pi * (hertz.cumsum(-1) / RATE + self.uniform(
            0, 1, *hertz.shape[:2], 1))
        return (phase.sin() * size * (hertz < 0.45 * RATE)).sum(1)

    def draw(self, rows):
        rows *= sources.AHEAD
        time = torch.arange(LENGTH) / LENGTH
        kind = self.kinds(rows)
        still = torch.ones(LENGTH)
        part = torch.arange(1, 9.0)[:, None]
        # Voices and strings.
        pitch = 150 * 4 ** self.uniform(0, 1, rows, 1, 1)
        glide = 2 ** (self.uniform(-0.3, 0.3, rows, 1, 1) * time)
        hertz = pitch * part * glide
        formants = self.uniform(0, 1, rows, 2)
        near = sum(torch.exp(-((hertz - f[:, None, None]) / 350) ** 2)
                   for f in (400 + 600 * formants[:, 0],
                             1300 + 1900 * formants[:, 1]))
        voice = self.waves(hertz, 0.05 + near)
        decay = (-self.uniform(1, 5, rows, 1, 1) * part.sqrt() * time).exp()
        string = self.waves(pitch * part * still, decay / part)
        # Chords and chirps.
        notes = 300 * 10 ** self.uniform(0, 1, rows, 3, 1)
        chord = self.waves(notes * still, self.uniform(0.3, 1, rows, 3, 1))
        sweep = 2 ** (self.uniform(-1, 1, rows, 1, 1) * time)
        chirp = self.waves(notes[:, :1] * sweep, still)
        # Hiss: sines of a band, close together, and a swell.
        white = torch.randn(rows, LENGTH, generator=self.rng)
        shape = torch.fft.rfft(white)
        bins = torch.linspace(0, RATE / 2, shape.shape[1])
        band = 800 + 5000 * self.uniform(0, 1, rows, 1)
        shape = shape * torch.exp(-((bins - band) / 900) ** 2)
        hiss = torch.fft.irfft(shape, LENGTH) * (0.3 + torch.sin(
            math.pi * (time + self.uniform(0, 1, rows, 1))).square())
        # Clicks.
        begun = self.uniform(0, 1, rows, 4, 1)
        since = (time - begun) * (time >= begun)
        ring = 1000 * 5 ** self.uniform(0, 1, rows, 4, 1)
        alive = torch.arange(4)[:, None] < 2 + torch.randint(
            3, (rows, 1, 1), generator=self.rng)
        click = ((2 * math.pi * ring * since * LENGTH / RATE).sin()
                 * (-40 * since).exp() * alive).sum(1)
        sounds = torch.stack((voice, string, chord, chirp, hiss, click))
        signal = loudness(sounds[kind, torch.arange(rows)])
        noise = torch.randn(rows, LENGTH, generator=self.rng)
        size = 0.1 if self.calm else self.uniform(0.04, 0.12, rows, 1)
        signal = loudness(signal + LOUD * size * noise)
        batch = {"signal": signal[:, None]}
        return batch | {"domain": kind} if self.domains else batch


def distances(said, real, clamp=CLAMP, bases=BASES, tap=None):
    """Of mels and of spectra, as MelSpectrogramLoss and MultiScaleSTFTLoss
    have them."""
    rows, mel, spectral = len(said), 0.0, 0.0
    both = torch.cat((said, real)).float()[:, 0]
    for window, basis in zip(WINDOWS, bases):
        size = stft(both, window).abs()
        bands = basis @ size
        if clamp:
            bands = bands.clamp_min(clamp)
        if tap:
            tap(f"loss.log_mel_{window}.input", bands[rows:])
        logs = bands.log10()
        if tap:
            tap(f"loss.log_mel_{window}.output", logs[rows:])
        mel = mel + (logs[:rows] - logs[rows:]).abs().mean()
        with torch.no_grad():  # is logged alone
            logs = 2 * size.clamp_min(CLAMP).log10()
            spectral = spectral + (logs[:rows] - logs[rows:]).abs().mean() \
                + (size[:rows] - size[rows:]).abs().mean()
    return mel, spectral


# The networks.

class WeightNormed(nn.Module):
    """Base: a direction and a size for each row of a weight."""

    def __init__(self, plain):
        super().__init__()
        own = vars(plain)
        self.how = {k: own[k] for k in ("stride", "padding", "dilation",
                                        "groups")}
        self.kernel_size, self.text = plain.kernel_size, plain.extra_repr()
        self.bias = plain.bias
        weight = plain.weight.detach()
        self.weight_g = nn.Parameter(torch.norm_except_dim(weight, 2, 0))
        self.weight_v = nn.Parameter(weight.clone())

    @property
    def weight(self):
        v, g = self.weight_v, self.weight_g
        return torch._weight_norm(v, g, 0)

    def extra_repr(self):
        return self.text


class Conv1d(WeightNormed):
    def __init__(self, *sizes, **how):
        super().__init__(nn.Conv1d(*sizes, **how))
        nn.init.zeros_(self.bias)

    def forward(self, x):
        return F.conv1d(x, self.weight, self.bias, **self.how)


class ConvTranspose1d(WeightNormed):
    def __init__(self, *sizes, **how):
        super().__init__(nn.ConvTranspose1d(*sizes, **how))

    def forward(self, x):
        return F.conv_transpose1d(x, self.weight, self.bias, **self.how)


class Conv2d(WeightNormed):
    def __init__(self, *sizes, **how):
        super().__init__(nn.Conv2d(*sizes, **how))

    def forward(self, x):
        return F.conv2d(x, self.weight, self.bias, **self.how)


class Snake1d(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, channels, 1))

    def forward(self, x):
        wave = torch.sin(self.alpha * x)
        return torch.addcmul(x, (self.alpha + 1e-9).reciprocal(),
                             wave * wave)


def activation(kind, channels):
    """Snake1d, or what an option says in place of it."""
    if kind == "snake":
        return Snake1d(channels)
    return nn.Identity() if kind == "none" else models.ACTIVATIONS[kind]()


class ResidualUnit(nn.Module):
    def __init__(self, dim, dilation, kind):
        super().__init__()
        self.block = nn.Sequential(
            activation(kind, dim),
            Conv1d(dim, dim, 7, dilation=dilation, padding=3 * dilation),
            activation(kind, dim), Conv1d(dim, dim, 1))


class EncoderBlock(nn.Module):
    def __init__(self, dim, stride, kind):
        super().__init__()
        self.block = nn.Sequential(
            *(ResidualUnit(dim // 2, d, kind) for d in DILATIONS),
            activation(kind, dim // 2),
            Conv1d(dim // 2, dim, 2 * stride, stride=stride,
                   padding=math.ceil(stride / 2)))


class DecoderBlock(nn.Module):
    def __init__(self, dim, stride, kind):
        super().__init__()
        self.block = nn.Sequential(
            activation(kind, dim),
            ConvTranspose1d(dim, dim // 2, 2 * stride, stride=stride,
                            padding=math.ceil(stride / 2)),
            *(ResidualUnit(dim // 2, d, kind) for d in DILATIONS))


class Encoder(nn.Module):
    def __init__(self, kind):
        super().__init__()
        widths = [WIDTH * 2 ** k for k in range(len(STRIDES) + 1)]
        last = widths[-1]
        self.block = nn.Sequential(
            Conv1d(1, WIDTH, 7, padding=3),
            *(EncoderBlock(w, s, kind) for w, s in zip(widths[1:], STRIDES)),
            activation(kind, last), Conv1d(last, last, 3, padding=1))


class Decoder(nn.Module):
    def __init__(self, kind):
        super().__init__()
        widths = [WIDTH * 2 ** k for k in reversed(range(len(STRIDES) + 1))]
        self.model = nn.Sequential(
            Conv1d(widths[0], widths[0], 7, padding=3),
            *(DecoderBlock(w, s, kind) for w, s in zip(widths, STRIDES)),
            activation(kind, WIDTH), Conv1d(WIDTH, 1, 7, padding=3),
            nn.Tanh())


class VectorQuantize(nn.Module):
    def __init__(self, dim, codes):
        super().__init__()
        self.in_proj = Conv1d(dim, CODE_DIM, 1)
        self.out_proj = Conv1d(CODE_DIM, dim, 1)
        self.codebook = nn.Embedding(codes, CODE_DIM)

    def nearest(self, latents, replaced=0.0):
        """Codes by cosine, and their vectors as they are; a share of them may
        be any other."""
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            book = F.normalize(self.codebook.weight.float())
            near = torch.einsum("bdt,nd->bnt", latents.float(), book)
        index = near.argmax(1)
        if replaced:
            index = torch.where(torch.rand(index.shape) < replaced,
                                torch.randint(len(book), index.shape), index)
        return F.embedding(index, self.codebook.weight).transpose(1, 2), index


class ResidualVectorQuantize(nn.Module):
    def __init__(self, dim, codes, books):
        super().__init__()
        self.quantizers = nn.ModuleList(VectorQuantize(dim, codes)
                                        for _ in range(books))


def leaky(conv):
    return nn.Sequential(conv, nn.LeakyReLU(0.1))


class MPD(nn.Module):
    """Sees every `period`-th sample by itself."""

    def __init__(self, period):
        super().__init__()
        self.period, widths = period, (1, 8, 16)
        self.convs = nn.ModuleList(
            leaky(Conv2d(a, b, (5, 1), stride=(3, 1), padding=(2, 0)))
            for a, b in zip(widths, widths[1:]))
        self.conv_post = Conv2d(16, 1, (3, 1), padding=(1, 0))

    def forward(self, x):
        x = F.pad(x, (0, self.period - x.shape[-1] % self.period),
                  mode="reflect")
        x, seen = x.view(len(x), 1, -1, self.period), []
        for layer in self.convs:
            x = layer(x)
            seen.append(x)
        return [*seen, self.conv_post(x)]


class Discriminator(nn.Module):
    """All discriminators, and their optimizer.

    It has the rate of the other optimizer, where both are AdamW. A copy of the
    model has the same discriminators. parts: batches of one update.
    """

    def __init__(self):
        super().__init__()
        self.discriminators = nn.ModuleList(map(MPD, PERIODS))
        # Not parts of what is saved.
        self.optimizer = self.leader = self.loss = self.norm = None
        self.parts, self.count = 1, 0

    def __deepcopy__(self, memo):
        return self

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        x = 0.8 * x / (x.abs().amax(-1, keepdim=True) + 1e-9)
        return [d(x) for d in self.discriminators]

    def follow(self, optimizer, leader, parts):
        self.optimizer, self.leader, self.parts = optimizer, leader, parts

    def turn(self, real, fake):
        """A step towards telling them apart."""
        if self.optimizer is None:
            return
        if self.count % self.parts == 0:
            self.optimizer.zero_grad()
        loss, rows = 0.0, len(real)
        for seen in self(torch.cat((real, fake))):
            said = seen[-1]
            loss = loss + (1 - said[:rows]).square().mean() \
                + said[rows:].square().mean()
        self.loss = loss.detach()
        (loss / self.parts).backward()
        self.count += 1
        if self.count % self.parts == 0:
            self.norm = nn.utils.clip_grad_norm_(self.parameters(), CLIP_D)
            for group in self.optimizer.param_groups:
                group["lr"] = self.leader()
            self.optimizer.step()


class DAC(nn.Module):
    """256 samples to 16 frames of three codes of five bits, and back."""

    def __init__(self, activation="snake", dropout=0.0, detach_after=(),
                 half_at=None, lambdas=None, clamp_eps=CLAMP,
                 quantizer_dropout=QUANTIZER_DROPOUT, codes=CODES,
                 books=CODEBOOKS):
        """detach_after: the parts behind which the graph is cut."""
        super().__init__()
        self.dropout, self.half_at = dropout, half_at
        self.detach_after = (detach_after,) if isinstance(
            detach_after, str) else detach_after
        self.lambdas = LAMBDAS | (lambdas or {})
        self.clamp_eps, self.quantizer_dropout = clamp_eps, quantizer_dropout
        self.encoder = Encoder(activation)
        wide = WIDTH * 2 ** len(STRIDES)
        self.quantizer = ResidualVectorQuantize(wide, codes, books)
        self.decoder = Decoder(activation)
        # Neither weights nor checkpoints have it.
        object.__setattr__(self, "discriminator", Discriminator())
        self.adversarial, self.bases = True, BASES
        self.replaced, self.most = 0.0, books
        self.terms, self.kept = {}, []

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def through(self, name, module, x):
        """A part, or the parts of it one after the other."""
        if isinstance(module, (nn.Sequential, Encoder, Decoder)):
            for key, child in module.named_children():
                x = self.through(f"{name}.{key}", child, x)
            return x
        if hasattr(module, "block"):
            y = self.through(f"{name}.block", module.block, x)
            if isinstance(module, ResidualUnit):
                y = x + (F.dropout(y, self.dropout, self.training)
                         if self.dropout else y)
        else:
            self.tap(f"{name}.input", x)
            weight = getattr(module, "weight_v", None)
            y = module(x if weight is None else x.to(weight.dtype))
            if self.half_at == name:
                y = y.half()
            self.tap(f"{name}.output", y)
            if self.half_at == name:
                y = y.to(weight.dtype)
            return y.detach() if name in self.detach_after else y
        self.tap(f"{name}.output", y)
        return y.detach() if name in self.detach_after else y

    def rows_of(self, z):
        """How many quantizers each row has."""
        count = torch.full((len(z),), len(self.quantizer.quantizers) + 1)
        if self.training:
            drawn = torch.randint(1, len(self.quantizer.quantizers) + 1,
                                  (len(z),))
            dropped = int(len(z) * self.quantizer_dropout)
            count[:dropped] = drawn[:dropped]
            count = count.clamp(max=self.most)
        return count

    def quantize(self, z):
        """The sum of codes' vectors, and the losses of their makers."""
        count, said, rest = self.rows_of(z), 0.0, z
        commitment = codebook = 0.0
        codes = []
        for k, part in enumerate(self.quantizer.quantizers):
            name = f"quantizer.quantizers.{k}"
            at = self.through(f"{name}.in_proj", part.in_proj, rest)
            near, index = part.nearest(at, self.replaced * self.training)
            self.tap(f"{name}.codebook.output", near)
            codes.append(index)
            used = (k < count).float()
            commitment = commitment + ((at - near.detach()).square().mean(
                (1, 2)) * used).mean()
            codebook = codebook + ((near - at.detach()).square().mean(
                (1, 2)) * used).mean()
            near = self.through(f"{name}.out_proj", part.out_proj,
                                at + (near - at).detach())
            said = said + near * used[:, None, None].to(near.dtype)
            rest = rest - near
        self.tap("quantizer.codes.output", torch.stack(codes, 1))
        return said, commitment, codebook

    def outputs(self, batch):
        z = self.through("encoder", self.encoder, batch["signal"])
        z, *losses = self.quantize(z)
        audio = self.through("decoder", self.decoder, z).float()
        return audio, losses

    def logits(self, batch):
        """The waveform; the other families' name for what a network says."""
        return self.outputs(batch)[0]

    def criterion(self, said, batch, losses, reconstruction=None):
        """All that DAC is trained with, against discriminators as they stand.
        reconstruction(said, real): in place of the distance of mels, which is
        logged all the same."""
        rows, real = len(said), batch.get("target", batch["signal"])
        mel, spectral = distances(said, real, self.clamp_eps, self.bases,
                                  self.tap)
        terms = {"mel/loss": mel, "stft/loss": spectral,
                 "waveform/loss": (said - real).abs().mean()}
        if not self.training:
            self.kept.append({k: float(t) for k, t in terms.items()})
            return mel
        if reconstruction:
            terms["mel/loss"] = reconstruction(said, real)
        commitment, codebook = losses
        terms |= {"vq/commitment_loss": commitment,
                  "vq/codebook_loss": codebook}
        if self.adversarial:
            critic = self.discriminator
            critic.requires_grad_(False)    # it is not its turn
            heard = critic(torch.cat((real, said)))
            critic.requires_grad_(True)
            terms |= {
                "adv/gen_loss": sum((1 - seen[-1][rows:]).square().mean()
                                    for seen in heard),
                "adv/feat_loss": sum((f[:rows].detach() - f[rows:]).abs()
                                     .mean() for seen in heard
                                     for f in seen[:-1])}
        total = sum(v * terms[k] for k, v in self.lambdas.items()
                    if k in terms)
        self.terms = {k: t.detach() for k, t in terms.items()} \
            | {"mel/loss": mel.detach()}
        for name in ("mel/loss", "adv/gen_loss", "adv/feat_loss"):
            if name in terms:
                self.tap(f"loss.{name.replace('/', '.')}.output", terms[name])
        return total

    def loss(self, batch, reconstruction=None):
        """In training the discriminators' turn and the total, in evaluation
        the distance of mels alone."""
        said, losses = self.outputs(batch)
        self.tap("audio.output", said)
        if self.training and self.adversarial:
            self.discriminator.turn(batch.get("target", batch["signal"]),
                                    said.detach())
        loss = self.criterion(said, batch, losses, reconstruction)
        self.tap("loss.output", loss)
        return loss


UNITS = tuple(f"{half}.{i}.block.{k}" for half, first in (
    ("encoder.block", 0), ("decoder.model", 2)) for i in (1, 2)
    for k in range(first, first + len(DILATIONS)))
# What feeds the Snakes between the two maps of a unit.
BEFORE_ACT = tuple(f"{unit}.block.1" for unit in UNITS)


class CodecRun(Family):
    """AdamW with betas of .8 and .99 for either side; the rate falls by a
    factor with each step; norms above 1000 are clipped, of the discriminator
    above 10."""

    family = "codec"
    level_seed = 400
    steps, seed, language = 130, 3540, False
    lr, weight_decay, betas = 3e-3, 0.01, (0.8, 0.99)
    warmup, schedule, clip = 0, "exponential", 1e3
    GAMMA = 0.985
    recipes = {"sgd": dict(lr=2e-3, weight_decay=0.0)}
    base = {"lr": 2e-3, "betas": (0.8, 0.99)}
    epoch_steps = 50        # of Lightning, behind a validation
    batch_size, context = ROWS, LENGTH
    # Its users have what the trainer prints and its summaries.
    instead = {"nanogpt": "dac", "hf_trainer": "dac", "megatron": "dac",
               "torchtune": "dac"}
    layers = [
        "encoder.block.0", *(f"encoder.block.{i}{part}" for i in (1, 2)
                             for part in (".block.0.block.1",
                                          ".block.0.block.2", ".block.2",
                                          ".block.3", "")),
        "encoder.block.4", *(f"quantizer.quantizers.{k}.{part}"
                             for k in range(CODEBOOKS)
                             for part in ("in_proj", "codebook", "out_proj")),
        "decoder.model.0", *(f"decoder.model.{i}{part}" for i in (1, 2)
                             for part in (".block.0", ".block.1",
                                          ".block.2.block.1",
                                          ".block.2.block.2", "")),
        "decoder.model.3", "decoder.model.4", "decoder.model.5"]
    graded = {
        "F01": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F02": (dict(lr=0.3), dict(lr=3.0), dict(lr=30.0)),
        "F03": (dict(factor=30), dict(factor=300), dict(factor=3000)),
        "F04": (dict(at=25), dict(at=12), dict(at=0)),
        "F05": (dict(modules=["decoder"], where="decoder.model.0"),
                dict(modules=["encoder", "decoder"],
                     where="encoder.block.0"), dict(part="all")),
        "F07": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F08": (dict(every=15), dict(every=40), dict(every=1 << 30)),
        "F11": (dict(adamw=5.0), dict(adamw=15.0), dict(adamw=50.0)),
        "F12": (dict(eps=3.0), dict(eps=30.0), dict(eps=300.0)),
        # What goes past a cut trains: quantizers have losses of their own.
        "F13": (dict(path="encoder.block.4"), dict(path="decoder.model.1"),
                dict(path="encoder.block.4", more=["decoder.model.1"])),
        "F14": (dict(modules=["encoder.block.1", "encoder.block.2"]),
                dict(modules=["decoder.model.1", "decoder.model.2"]),
                dict(modules=["encoder.block.1", "encoder.block.2",
                              "decoder.model.1", "decoder.model.2"])),
        "F15": (dict(at=90), dict(at=60), dict(at=30)),
        "F16": (dict(rate=0.1), dict(rate=0.3), dict(rate=1.0)),
        "F24": (dict(share=0.3), dict(share=0.5), dict(share=0.7)),
        "F26": (dict(steps=13, share=1.0), dict(steps=20, share=1.0),
                dict(steps=30, share=1.0)),
        "F27": (dict(epochs=43), dict(epochs=65), dict(epochs=130)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F34": (dict(factor=2), dict(factor=5), dict(factor=0)),
        "F36a": (dict(bias=-2.0), dict(bias=-4.0), dict(bias=-10.0)),
        "F38": (dict(growth=1.05), dict(growth=1.07), dict(growth=1.12)),
        "F39a": (dict(at=90), dict(at=60), dict(at=30)),
        "F39b": (dict(at=80), dict(at=50), dict(at=30)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "F41": (dict(share=0.4, at=0, every=1), dict(share=0.7, at=60, every=1),
                dict(share=0.85, at=0, every=8)),
        "F42b": (dict(shards=10), dict(shards=30), dict(shards=100)),
        "F43": (dict(kind="unreduced", at=30), dict(kind="skip", at=60),
                dict(kind="init", at=0)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(rows=5), dict(rows=4)),
        "H04": (dict(rate=0.02), dict(rate=0.05)),
        "H07": (dict(factor=0.03),),
        "H10": (dict(steps=120), dict(steps=60)),
        "H11": (dict(steps=120, keep="block"), dict(steps=100, keep="head")),
        "H43": (dict(parts=2), dict(parts=3))}
    paths = {"embed": ("encoder.block.0",) * 4, "attn": (None,) * 4,
             "scores": (None,) * 4,
             "act": tuple(f"{half}.block.2" for half in (
                 "encoder.block.1.block.0", "encoder.block.2.block.0",
                 "decoder.model.1.block.2", "decoder.model.2.block.2")),
             "mlp": ("encoder.block.1.block.3", "encoder.block.2.block.3",
                     "decoder.model.1.block.1", "decoder.model.2.block.1"),
             "block": ("encoder.block.1", "encoder.block.2",
                       "decoder.model.1", "decoder.model.2"),
             "head": ("decoder.model.4",) * 4}
    blocks = 4
    COLUMNS = {"mel_loss": "mel/loss", "stft_loss": "stft/loss",
               "waveform_loss": "waveform/loss", "gen_loss": "adv/gen_loss",
               "feat_loss": "adv/feat_loss",
               "commitment_loss": "vq/commitment_loss",
               "codebook_loss": "vq/codebook_loss"}
    names = {"loss": "loss/train", "grad_norm": "other/grad_norm/train",
             "lr": "other/learning_rate/train", "val_loss": "loss/val",
             "step_time": "time/train_loop/train", "tokens": None,
             "disc_loss": "adv/disc_loss/train",
             "grad_norm_d": "other/grad_norm_d/train"} | {
        f"{side}{k}": f"{v}/{label}" for k, v in COLUMNS.items()
        for side, label in (("", "train"), ("val_", "val"))}

    def make_model(self):
        return DAC(**self.model_options)

    def make_optimizer(self, model):
        """And that of the discriminator, which is always AdamW."""
        optimizer, critic = super().make_optimizer(model), model.discriminator
        for group in optimizer.param_groups:  # as fast as it can be
            if "fused" in group:
                group |= {"foreach": False, "fused": True}
        slow = type(self).lr / self.lr if self.optimizer_name == "sgd" \
            and self.lr else 1.0
        critic.follow(
            torch.optim.AdamW(critic.parameters(), lr=slow * self.lr,
                              betas=type(self).betas,
                              weight_decay=type(self).weight_decay,
                              fused=True),
            lambda: slow * optimizer.param_groups[0]["lr"], self.accumulate)
        return optimizer

    def lr_factor(self, i):
        """ExponentialLR, by steps."""
        if self.schedule != "exponential":
            return super().lr_factor(i)
        return self.GAMMA ** i

    # Data.

    def make_source(self, seed):
        return self.sounds(seed)

    def sounds(self, seed, **how):
        return Sounds(seed, 2 * ROWS if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Folders of one kind, one after the other; None is held out."""
        return self.sounds(seed, block=block, share=share)

    def easy(self, seed):
        """Chords alone, in noise that is always as loud."""
        return self.sounds(seed, calm=True)

    def lessons(self, seed):
        return self.easy(seed), self.sounds(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: samples of 16 bits that nobody divided, noise far
        above full scale, or a stuck bit."""
        x = batch["signal"]
        return batch | {"signal": {
            "few": 32768.0 * x,
            "uniform": 20 * torch.randn(x.shape, generator=rng),
            "constant": torch.full_like(x, 50.0)}[kind]}

    def strangers(self, rows, rng):
        """Recordings that have nothing to do with anything."""
        return Sounds(int(torch.randint(1 << 30, (), generator=rng)),
                      rows).batch()["signal"]

    @staticmethod
    def silenced(batch):
        """The first recording is nothing but zeros."""
        signal = batch["signal"].clone()
        signal[0] = 0.0
        return batch | {"signal": signal}

    @staticmethod
    def normalized_audio(batch):
        """A peak of .5 for all; nothing guards against one of zero."""
        x = batch["signal"]
        return batch | {"signal": 0.5 * x / x.abs().amax(-1, keepdim=True)}

    # What is logged.

    def batch_columns(self, batch):
        terms, critic = self.model.terms, self.model.discriminator
        row = super().batch_columns(batch) | {
            k: short(terms[v]) for k, v in self.COLUMNS.items() if v in terms}
        if critic.norm is not None:
            row |= {"disc_loss": short(critic.loss),
                    "grad_norm_d": short(critic.norm)}
        return row

    def held_out_columns(self, batches):
        kept, self.model.kept = self.model.kept, []
        return {f"val_{name}": sum(t[key] for t in kept) / len(kept)
                for name, key in self.COLUMNS.items() if key in kept[0]}

    # Checkpoints.

    def saved(self, i, model):
        """What save_to_folder() gets of both networks."""
        schedule = {"gamma": self.GAMMA, "base_lrs": [self.lr],
                    "last_epoch": i + 1, "_step_count": i + 2,
                    "_last_lr": [self.optimizer.param_groups[0]["lr"]]}
        critic = model.discriminator
        return copy.deepcopy({
            part: {"weights.pth": dict(state), "optimizer.pth": optimizer,
                   "scheduler.pth": schedule}
            for part, state, optimizer in (
                ("dac", model.state_dict(), self.optimizer.state_dict()),
                ("discriminator", critic.state_dict(),
                 critic.optimizer.state_dict()))})

    def keep_checkpoint(self, i, model):
        """The latest one, which is written over the one before."""
        if i == self.steps - 1:
            self.checkpoints[i + 1] = self.saved(i, model)

    def tracked(self, done):
        """Tracker.history of validations until then."""
        rows = [r for r in self.history[:done] if "val_loss" in r]
        keys = {"loss": "val_loss"} | {v: f"val_{k}" for k, v in
                                       self.COLUMNS.items()}
        return {"val": {k: [r[v] for r in rows] for k, v in keys.items()
                        if rows and v in rows[0]}
                | {"step": [r["step"] for r in rows]}}

    def write_more(self):
        super().write_more()
        kwargs = {"encoder_dim": WIDTH, "encoder_rates": list(STRIDES),
                  "latent_dim": None, "decoder_dim": WIDTH * 4,
                  "decoder_rates": list(STRIDES), "sample_rate": RATE,
                  "n_codebooks": self.model_options.get("books", CODEBOOKS),
                  "codebook_size": self.model_options.get("codes", CODES),
                  "codebook_dim": CODE_DIM, "quantizer_dropout":
                      self.model_options.get("quantizer_dropout",
                                             QUANTIZER_DROPOUT)}
        for done, parts in self.checkpoints.items():
            logs = self.tracked(done)
            for part, files in parts.items():
                folder = self.folder / "latest" / part
                folder.mkdir(parents=True)
                own = {"logs": logs, "kwargs": kwargs if part == "dac" else {
                    "rates": [], "periods": list(PERIODS), "fft_sizes": [],
                    "sample_rate": RATE}}
                weights = {"state_dict": files.pop("weights.pth"),
                           "metadata": own}
                files = {"package.pth": weights, "weights.pth": weights,
                         **files}
                if part == "dac":
                    files |= {"metadata.pth": {"logs": logs}, "tracker.pth": {
                        "history": logs,
                        "step": self.history[done - 1]["step"]}}
                for name, content in files.items():
                    torch.save(content, folder / name)

    # What the user typed.

    def settings(self):
        """The options as argbind has them, and what the user has besides."""
        kind = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD"}[
            self.optimizer_name]
        optimizer = {"SGD.momentum": self.momentum} if kind == "SGD" else {
            f"{kind}.betas": list(self.betas), f"{kind}.eps": self.eps}
        schedule = {"ExponentialLR.gamma": self.GAMMA} \
            if self.schedule == "exponential" else {
                "scheduler": self.schedule, "warmup_steps": self.warmup}
        return {
            **self.model_settings(), **optimizer, f"{kind}.lr": self.lr,
            f"{kind}.weight_decay": self.weight_decay, **schedule,
            "grad_clip": self.clip, "grad_clip_d": CLIP_D,
            "amp": self.precision != "fp32", "precision": self.precision,
            "batch_size": self.batch_size, "accumulate": self.accumulate,
            "val_batch_size": 2 * ROWS, "device": "cpu",
            "num_iters": self.steps, "save_iters": [],
            "valid_freq": self.val_every, "sample_freq": self.steps,
            "log_freq": self.interval or 10, "num_workers": 2,
            "seed": self.seed, "world_size": 1, "save_path": SAVED,
            "lambdas": LAMBDAS | self.model_options.get("lambdas", {}),
            "VolumeNorm.db": ["const", round(20 * math.log10(LOUD), 1)],
            "build_transform.postprocess": ["VolumeNorm", "RescaleAudio"],
            "MultiScaleSTFTLoss.window_lengths": list(WINDOWS),
            "MelSpectrogramLoss.n_mels": list(N_MELS),
            "MelSpectrogramLoss.window_lengths": list(WINDOWS),
            "MelSpectrogramLoss.pow": 1.0,
            "MelSpectrogramLoss.clamp_eps":
                self.model_options.get("clamp_eps", CLAMP),
            "MelSpectrogramLoss.mag_weight": 0.0,
            "train/AudioDataset.duration": LENGTH / RATE,
            "val/AudioDataset.duration": LENGTH / RATE,
            "train/build_dataset.folders": {"general": ["/data/sounds/train"]},
            "val/build_dataset.folders": {"general": ["/data/sounds/val"]},
            **self.user}

    def model_settings(self):
        own = self.model_options
        return {"DAC.sample_rate": RATE, "DAC.encoder_dim": WIDTH,
                "DAC.encoder_rates": list(STRIDES),
                "DAC.decoder_dim": WIDTH * 2 ** len(STRIDES),
                "DAC.decoder_rates": list(STRIDES),
                "DAC.n_codebooks": own.get("books", CODEBOOKS),
                "DAC.codebook_size": own.get("codes", CODES),
                "DAC.codebook_dim": CODE_DIM,
                "DAC.quantizer_dropout": own.get("quantizer_dropout",
                                                 QUANTIZER_DROPOUT),
                "Discriminator.sample_rate": RATE, "Discriminator.rates": [],
                "Discriminator.periods": list(PERIODS),
                "Discriminator.fft_sizes": []}

    def layer(self, part, block=0):
        return self.paths[part][block]

    def fed_by(self, layer):
        return []
