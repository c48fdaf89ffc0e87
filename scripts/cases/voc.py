"""A small GAN vocoder: mel frames in, a waveform out.

Parts, losses, config and files are those of HiFi-GAN's own train.py: a
generator of transposed convolutions and residual blocks, discriminators that
see every third sample or all of them, least squares, the distance of
their features, and 45 times that of log mels. There is no weight norm. As
there, mels come from files, as where a vocoder is fine-tuned on what an
acoustic model says (`fine_tuning`), and reach up to 3 kHz, those of the loss
up to 4.

The model of the run is the generator, which is what is recorded of weights and
gradients. The discriminators hang on it without being a part of it: they have
an optimizer of their own and take their turn whenever a training loss is
computed, before the generator's.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family
from .snapshot import short

RATE, SEGMENT, HOP, WINDOW, MELS, ROWS = 8000, 192, 16, 32, 8, 12
FRAMES = SEGMENT // HOP
BOTTOM, TOP, NYQUIST = 250, 3000, RATE // 2  # of mels; those of the loss go up
CLIP_VAL = 1e-5
WIDTHS, RATES, KERNEL, DILATIONS = (32, 20, 16), (4, 4), 3, (1, 3)
PERIODS, LRELU_SLOPE, LAMBDA_MEL = (3,), 0.1, 45.0
SOUNDS, HISSES, SPEAKERS, BANDS = 8, 2, 6, 3
EDGE = (WINDOW - HOP) // 2


def filters(top):
    """Slaney-like triangles on the mel scale, (MELS, bins)."""
    def mel(hertz):
        return 2595 * math.log10(1 + hertz / 700)
    edges = torch.linspace(mel(BOTTOM), mel(top), MELS + 2)
    edges = 700 * (10 ** (edges / 2595) - 1)
    bins = torch.linspace(0, NYQUIST, WINDOW // 2 + 1)
    low, mid, high = (edges[k:k + MELS, None] for k in range(3))
    rise, fall = (bins - low) / (mid - low), (high - bins) / (high - mid)
    return torch.minimum(rise, fall).clamp_min(0)


BASIS = {top: filters(top) for top in (TOP, NYQUIST)}
HANN = torch.hann_window(WINDOW)


def transform(audio):
    """Of padded audio, (rows, bins, frames), complex."""
    return torch.stft(audio, WINDOW, HOP, WINDOW, HANN, center=False,
                      return_complex=True)


def padded(audio):
    return F.pad(audio[:, None], (EDGE, EDGE), mode="reflect")[:, 0]


def log_mel(power, top=NYQUIST):
    return (BASIS[top] @ (power + 1e-9).sqrt()).clamp_min(CLIP_VAL).log()


def magnitudes(audio, basis=None, guard=1e-9):
    """Of mels, (rows, MELS, frames), without the logarithm."""
    with torch.autocast("cpu", enabled=False):
        spectrum = torch.view_as_real(transform(padded(audio.float())))
        basis = BASIS[NYQUIST] if basis is None else basis
        return basis @ (spectrum.square().sum(-1) + guard).sqrt()


def mel_spectrogram(audio):
    """As mel_spectrogram() of HiFi-GAN has it."""
    return magnitudes(audio).clamp_min(CLIP_VAL).log()


class Voices:
    """Cuttings of 192 samples (24 ms) of read speech.

    A cutting has one of six speakers and goes from one of eight sounds to
    another, somewhere in its middle. Of a sound six have a voice: harmonics of
    a pitch, which is the speaker's (240 to 600 Hz, with a spread of .1) and
    glides by .15, under an envelope of two formants; two hiss, above 1 kHz.
    Breath in three bands goes with each sound. Loudness has a spread of .4 in
    the logarithm and swells over the cutting. Phases are drawn.

    mel is what an acoustic model says of it, up to 3 kHz: the log mels that
    voice and breath have on the average, without what breath does by chance,
    with an error of .05. audio is the recording.

    block, share: one sound after the other; domains: each row has its speaker;
    calm: one sound with a voice throughout, without breath and swell.
    """

    ERROR = 0.05

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, domains=False,
                 calm=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share, self.number = rows, block, share, 0
        self.domains, self.calm = domains, calm
        # Voices are the same for all seeds; the seed picks the sample.
        world = torch.Generator().manual_seed(37)
        self.pitch = torch.tensor((0.03, 0.075, 0.045, 0.06, 0.037, 0.053))
        self.formants = torch.stack((
            0.04 + 0.10 * torch.rand(SOUNDS, generator=world),
            0.18 + 0.22 * torch.rand(SOUNDS, generator=world)), 1)
        self.tract = 0.9 + 0.25 * torch.rand(SPEAKERS, generator=world)
        self.breath = 0.06 + 0.10 * torch.rand(SOUNDS, BANDS, generator=world)
        self.breath[-HISSES:] = torch.tensor(((0.04, 0.06, 0.5),
                                              (0.04, 0.35, 0.15)))
        # Bands of noise by windowed sines: 0 to .12, .12 to .25, .25 to .5.
        taps = torch.arange(-15, 16).float()
        low = [2 * c * torch.sinc(2 * c * taps) for c in (0.12, 0.25, 0.5)]
        self.bands = torch.stack((low[0], low[1] - low[0], low[2] - low[1]))
        self.bands = self.bands * torch.hann_window(33, periodic=False)[1:-1]
        self.heard = torch.fft.rfft(self.bands, WINDOW).abs().square()

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def sounds(self, rows):
        """The sound at the beginning and at the end of each row."""
        first, then = torch.randint(SOUNDS, (2, rows), generator=self.rng)
        if self.calm:
            first = then = first % (SOUNDS - HISSES)
        if self.block:
            here = self.number // self.block % SOUNDS
            kept = torch.rand(rows, generator=self.rng) < self.share
            first, then = (torch.where(kept, torch.tensor(here), sound)
                           for sound in (first, then))
        self.number += 1
        return first, then

    def draw(self, rows):
        """Voice, gains of the breath's bands, of padded time, and speakers."""
        speaker = torch.randint(SPEAKERS, (rows,), generator=self.rng)
        first, then = self.sounds(rows)
        time = torch.arange(-EDGE, SEGMENT + EDGE).float()
        middle = 48 + 96 * torch.rand(rows, 1, generator=self.rng)
        turn = ((time - middle) / 12).sigmoid()
        glide = (0.1 * self.normal(rows, 1) + 0.15 * self.normal(rows, 1)
                 * time / SEGMENT).exp()
        pitch = self.pitch[speaker, None] * glide
        phase = pitch.cumsum(1)
        harmonic = torch.arange(1, 9).float()
        at = harmonic[:, None] * pitch[:, None]
        begun = torch.rand(rows, len(harmonic), 1, generator=self.rng)
        waves = (2 * math.pi * (harmonic[:, None] * phase[:, None] + begun)
                 ).sin() * (at < 0.48)
        loud = (0.4 * self.normal(rows, 1)).exp()
        if not self.calm:
            loud = loud * (0.35 + torch.sin(
                math.pi * (time + EDGE) / len(time)
                + 0.8 * self.normal(rows, 1)).square())
        voice, gains = 0.0, 0.0
        for sound, part in ((first, 1 - turn), (then, turn)):
            spoken = (sound < SOUNDS - HISSES).float()[:, None] * part * loud
            peak = (self.formants[sound] * self.tract[speaker, None]
                    )[:, :, None, None]
            near = torch.exp(-((at[:, None] - peak) / 0.035).square())
            size = (-1.2 - 5 * at + 2.0 * near[:, 0] + 2.4 * near[:, 1]).exp()
            voice = voice + (waves * size).sum(1) * spoken
            gains = gains + self.breath[sound][..., None] \
                * (part * loud)[:, None]
        return 0.25 * voice, 0.0 * gains if self.calm else gains, speaker

    def noise(self, gains):
        """Breath of padded time."""
        white = self.normal(*gains.shape[:2], gains.shape[2] + 30)
        return (F.conv1d(white, self.bands[:, None], groups=BANDS)
                * gains).sum(1)

    def expected(self, voice, gains):
        """The mean power of voice and breath, (rows, bins, frames)."""
        windows = gains.square().unfold(2, WINDOW, HOP)
        breath = torch.einsum("rbft,t,bk->rkf", windows, HANN.square(),
                              self.heard)
        return transform(voice).abs().square() + breath

    def batch(self, rows=None):
        rows = rows or self.rows
        voice, gains, speaker = self.draw(rows)
        mel = log_mel(self.expected(voice, gains), TOP)
        mel = mel + self.ERROR * self.normal(*mel.shape)
        audio = (voice + self.noise(gains))[:, EDGE:-EDGE].clamp(-1, 1)
        batch = {"mel": mel, "audio": audio.contiguous()}
        return batch | {"speaker": speaker} if self.domains else batch


def floor(rows=128, draws=64, seed=5):
    """The distance of log mels of who knows voice and breath, but not what
    breath does by chance: that of draws from their median."""
    source = Voices(seed)
    voice, gains, _ = source.draw(rows)
    mels = torch.stack([mel_spectrogram(
        (voice + source.noise(gains))[:, EDGE:-EDGE].clamp(-1, 1))
        for _ in range(draws)])
    away = (mels - mels.median(0).values).abs()
    return float(away.mean()), away.mean((0, 1, 3))


def activation(kind):
    """LeakyReLU, or what an option says in place of it."""
    return nn.LeakyReLU(LRELU_SLOPE) if kind == "leaky_relu" \
        else models.ACTIVATIONS[kind]()


class ResBlock(nn.Module):
    """ResBlock2: two convolutions, one of them dilated, each behind an
    activation and added to what it gets; `act` is the second one's."""

    def __init__(self, channels, kind):
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Conv1d(channels, channels, KERNEL, dilation=d,
                      padding=d * (KERNEL - 1) // 2) for d in DILATIONS)
        self.act = activation(kind)

    def forward(self, x, tap, drop):
        first, second = self.convs
        y = first(self.act(x))
        tap("convs.0.output", y)
        x = x + drop(y)
        tap("act.input", x)
        y = self.act(x)
        tap("act.output", y)
        y = second(y)
        tap("convs.1.output", y)
        x = x + drop(y)
        tap("output", x)
        return x


class DiscriminatorP(nn.Module):
    """Sees every `period`-th sample by itself."""

    def __init__(self, period):
        super().__init__()
        self.period = period
        self.convs = nn.ModuleList((
            nn.Conv2d(1, 8, (5, 1), (3, 1), (2, 0)),
            nn.Conv2d(8, 16, (5, 1), (3, 1), (2, 0))))
        self.conv_post = nn.Conv2d(16, 1, (3, 1), 1, (1, 0))

    def forward(self, x):
        x = F.pad(x, (0, -x.shape[1] % self.period), mode="reflect")
        x, features = x.view(len(x), 1, -1, self.period), []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), LRELU_SLOPE)
            features.append(x)
        x = self.conv_post(x)
        features.append(x)
        return x.flatten(1), features


class DiscriminatorS(nn.Module):
    """Sees all samples."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList((
            nn.Conv1d(1, 8, 15, 2, 7), nn.Conv1d(8, 16, 11, 4, 5, groups=4)))
        self.conv_post = nn.Conv1d(16, 1, 3, 1, 1)

    def forward(self, x):
        x, features = x[:, None], []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), LRELU_SLOPE)
            features.append(x)
        x = self.conv_post(x)
        features.append(x)
        return x.flatten(1), features


def several(parts):
    return models.Group(discriminators=nn.ModuleList(parts))


class Critic(nn.Module):
    """Both kinds of discriminators, and their optimizer.

    The rate is that of the generator's optimizer. A copy of the generator has
    the same discriminators. parts: batches of one update.
    """

    def __init__(self):
        super().__init__()
        self.mpd = several(DiscriminatorP(p) for p in PERIODS)
        self.msd = several([DiscriminatorS()])
        self.optimizer = self.leader = None
        self.parts, self.count, self.loss = 1, 0, None

    def __deepcopy__(self, memo):
        return self

    def forward(self, audio):
        return [d(audio) for part in (self.mpd, self.msd)
                for d in part.discriminators]

    def follow(self, optimizer, leader, parts):
        self.optimizer, self.leader, self.parts = optimizer, leader, parts

    def turn(self, real, fake):
        """A step towards telling them apart."""
        if self.optimizer is None:
            return
        if self.count % self.parts == 0:
            self.optimizer.zero_grad()
        loss, rows = 0.0, len(real)
        for said, _ in self(torch.cat((real, fake))):
            loss = loss + (1 - said[:rows]).square().mean() \
                + said[rows:].square().mean()
        self.loss = loss.detach()
        (loss / self.parts).backward()
        self.count += 1
        if self.count % self.parts == 0:
            for group in self.optimizer.param_groups:
                group["lr"] = self.leader.param_groups[0]["lr"]
            self.optimizer.step()


class Generator(nn.Module):
    """12 frames of 8 bands to 192 samples, by two steps of 4."""

    BLOCKS = tuple(f"resblocks.{i}" for i in range(len(RATES)))

    def __init__(self, activation="leaky_relu", dropout=0.0, detach_after=None,
                 half_at=None, lambda_mel=LAMBDA_MEL, clip_val=CLIP_VAL):
        """detach_after: the part behind which the graph is cut."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.half_at, self.kind = half_at, activation
        self.lambda_mel, self.clip_val = lambda_mel, clip_val
        self.conv_pre = nn.Conv1d(MELS, WIDTHS[0], 7, padding=3)
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(a, b, 2 * rate, rate, rate // 2)
            for a, b, rate in zip(WIDTHS, WIDTHS[1:], RATES))
        self.resblocks = nn.ModuleList(ResBlock(width, activation)
                                       for width in WIDTHS[1:])
        self.conv_post = nn.Conv1d(WIDTHS[-1], 1, 7, padding=3)
        self.act = globals()["activation"](activation)
        # Not a part, so that neither weights nor checkpoints have them.
        object.__setattr__(self, "critic", Critic())
        self.adversarial = True     # discriminators are there
        self.terms = {}             # of the last training batch

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def part(self, name, x):
        layer = self.get_submodule(name)
        self.tap(f"{name}.input", x)
        x = layer(x.to(layer.weight.dtype))
        if self.half_at == name:
            x = x.half()
        self.tap(f"{name}.output", x)
        x = x.to(layer.weight.dtype)
        return x.detach() if self.detach_after == name else x

    def forward(self, mel):
        x = self.part("conv_pre", mel)
        for i, block in enumerate(self.BLOCKS):
            x = self.part(f"ups.{i}", self.act(x))
            x = self.resblocks[i](x, lambda n, t: self.tap(f"{block}.{n}", t),
                                  self.drop)
            if self.detach_after == block:
                x = x.detach()
        return self.part("conv_post", self.act(x)).float().tanh()[:, 0]

    def logits(self, batch):
        """The waveform; the other families' name for what a network says."""
        return self(batch["mel"])

    def mels(self, audio, name):
        """dynamic_range_compression, whose guard may be off."""
        mel = magnitudes(audio, guard=1e-9 if self.clip_val else 0.0)
        if self.clip_val:
            mel = mel.clamp_min(self.clip_val)
        self.tap(f"loss.{name}.input", mel)
        mel = mel.log()
        self.tap(f"loss.{name}.output", mel)
        return mel

    def mel_error(self, said, batch):
        real = self.mels(batch["audio"], "log_mel_real")
        return (self.mels(said, "log_mel") - real).abs().mean()

    def criterion(self, said, batch, reconstruction=None):
        """All that the generator is trained with, against discriminators as
        they stand. reconstruction(said, audio): in place of the distance of
        mels, which is logged all the same."""
        rows = len(said)
        mel = self.mel_error(said, batch)
        self.terms = {"mel_error": mel.detach()}
        self.tap("loss.mel_error.output", mel)
        if reconstruction:
            mel = reconstruction(said, batch["audio"])
        if not self.adversarial:
            return self.lambda_mel * mel
        fooled, features = 0.0, 0.0
        self.critic.requires_grad_(False)   # it is not its turn
        heard = self.critic(torch.cat((batch["audio"], said)))
        self.critic.requires_grad_(True)
        for told, seen in heard:
            fooled = fooled + (1 - told[rows:]).square().mean()
            features = features + sum((f[:rows].detach() - f[rows:]).abs()
                                      .mean() for f in seen)
        self.tap("loss.gen_adversarial.output", fooled)
        self.tap("loss.feature_matching.output", features)
        return self.lambda_mel * mel + fooled + 2 * features

    def loss(self, batch, reconstruction=None):
        """In training the discriminators' turn and the generator's total, in
        evaluation the distance of mels alone."""
        said = self.logits(batch)
        self.tap("audio.output", said)
        if not self.training:
            return self.mel_error(said, batch)
        if self.adversarial:
            self.critic.turn(batch["audio"], said.detach())
        loss = self.criterion(said, batch, reconstruction)
        self.tap("loss.output", loss)
        return loss


class VocRun(Family):
    """AdamW with betas of .8 and .99 for either side; the rate falls by a
    factor with each epoch of 20 steps; nothing is clipped."""

    family = "voc"
    level_seed = 400
    steps, seed, language = 240, 1660, False
    lr, weight_decay, betas = 6e-3, 0.01, (0.8, 0.99)
    warmup, schedule, clip = 0, "exponential", None
    EPOCH, LR_DECAY = 20, 0.83
    recipes = {"sgd": dict(lr=4e-4, weight_decay=0.0)}
    batch_size, context = ROWS, FRAMES
    # Nobody trains vocoders with the others.
    instead = {"nanogpt": "plain", "hf_trainer": "hifigan",
               "megatron": "hifigan", "torchtune": "hifigan"}
    layers = ["conv_pre", *(
        f"{part}.{i}{more}" for i in range(len(RATES)) for part, more in (
            ("ups", ""), ("resblocks", ".act"), ("resblocks", ".convs.1"),
            ("resblocks", ""))), "conv_post"]
    graded = {
        "F04": (dict(at=70), dict(at=30), dict(at=0)),
        "F05": (dict(modules=["ups", "resblocks"], where="ups.0"),
                dict(modules=["ups", "resblocks", "conv_post"],
                     where="ups.0"), dict(part="all")),
        "F07": (dict(factor=15), dict(factor=40), dict(factor=100)),
        "F08": (dict(every=12), dict(every=40), dict(every=1 << 30)),
        "F10": (dict(adamw=1e-7), dict(adamw=3e-8), dict(adamw=1e-8)),
        "F11": (dict(adamw=10.0), dict(adamw=25.0), dict(adamw=60.0)),
        "F12": (dict(eps=5.0), dict(eps=20.0), dict(eps=100.0)),
        "F13": (dict(path="ups.0"), dict(path="resblocks.0"),
                dict(path="resblocks.1")),
        "F14": (dict(modules=["ups.0", "ups.1", "resblocks.1"]),
                dict(modules=["ups.0", "resblocks.0", "ups.1",
                              "resblocks.1"]),
                dict(modules=["ups.0", "resblocks.0", "ups.1", "resblocks.1",
                              "conv_post"])),
        "F15": (dict(at=180), dict(at=100), dict(at=60)),
        "F24": (dict(share=0.2), dict(share=0.4), dict(share=0.6)),
        "F26": (dict(steps=25, share=0.9), dict(steps=40, share=1.0),
                dict(steps=60, share=1.0)),
        "F27": (dict(epochs=60), dict(epochs=120), dict(epochs=240)),
        "F33": (dict(limit=160), dict(limit=128), dict(limit=96)),
        "F36a": (dict(bias=-0.7), dict(bias=-1.5), dict(bias=-5.0)),
        "F40": (dict(lr=0.1), dict(lr=0.05), dict(lr=0.02)),
        "H02": (dict(factor=1 / 3), dict(factor=1 / 5)),
        "H07": (dict(factor=30.0),)}
    paths = {"embed": "conv_pre", "attn": None, "scores": None,
             "act": "resblocks.{}.act", "mlp": "resblocks.{}.convs.1",
             "block": "resblocks.{}", "head": "conv_post"}
    blocks = len(RATES)
    names = {"loss": "training/gen_loss_total",
             "mel_error": "training/mel_spec_error",
             "disc_loss": "training/disc_loss_total",
             "val_loss": "validation/mel_spec_error",
             "step_time": "s/b", "tokens": None}

    def make_model(self):
        return Generator(**self.model_options)

    def make_optimizer(self, model):
        """And that of the discriminators, of the same settings."""
        optimizer = super().make_optimizer(model)
        critic = model.critic
        critic.follow(super().make_optimizer(critic), optimizer,
                      self.accumulate)
        return optimizer

    def lr_factor(self, i):
        """ExponentialLR, by epochs."""
        if self.schedule != "exponential":
            return super().lr_factor(i)
        return self.LR_DECAY ** (i // self.EPOCH)

    def make_source(self, seed):
        return self.voices(seed)

    def voices(self, seed, **how):
        return Voices(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Folders of one sound, one after the other; None is held out."""
        return self.voices(seed, block=block, share=share)

    def easy(self, seed):
        """Long vowels without breath."""
        return self.voices(seed, calm=True)

    def lessons(self, seed):
        return self.easy(seed), self.voices(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: recordings that are read with the wrong width of a
        sample, noise, or a stuck bit of full scale."""
        x = batch["audio"]
        return batch | {"audio": {
            "few": 8.0 * x.roll(1, 0),
            "uniform": 20 * torch.randn(x.shape, generator=rng),
            "constant": torch.full_like(x, 50.0)}[kind]}

    def strangers(self, rows, rng):
        """Recordings that have nothing to do with anything."""
        return self.voices(int(torch.randint(1 << 30, (), generator=rng))
                           ).batch(rows)["audio"]

    @staticmethod
    def silenced(batch):
        """The first recording is nothing but zeros, and its mel is what a
        tool with a guard makes of it."""
        audio, mel = batch["audio"].clone(), batch["mel"].clone()
        audio[0], mel[0] = 0.0, math.log(CLIP_VAL)
        return batch | {"audio": audio, "mel": mel}

    @staticmethod
    def cut_short(batch, limit):
        """Recordings end at a number of samples; the rest is padding."""
        audio = batch["audio"].clone()
        audio[:, limit:] = 0.0
        return batch | {"audio": audio}

    @staticmethod
    def normalized_audio(batch):
        """As MelDataset has it: a peak of .95; nothing guards against one of
        zero. Mels are made of what comes out."""
        peak = batch["audio"].abs().amax(1, keepdim=True)
        gain = 0.95 / peak
        return batch | {"audio": batch["audio"] / peak * 0.95, "mel":
                        batch["mel"] + gain.log()[..., None]}

    def batch_columns(self, batch):
        row = super().batch_columns(batch)
        row |= {k: short(t) for k, t in self.model.terms.items()}
        if self.model.critic.loss is not None:
            row["disc_loss"] = short(self.model.critic.loss)
        return row

    def settings(self):
        """config_v1.json, and what is not in it as it is called elsewhere."""
        optimizer = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "adam_b1": self.betas[0], "adam_b2": self.betas[1],
                "adam_eps": self.eps}
        schedule = {"scheduler": self.schedule}
        if self.schedule == "exponential":
            schedule |= {"lr_decay": self.LR_DECAY,
                         "steps_per_epoch": self.EPOCH}
        return {
            **self.model_settings(), "num_gpus": 0,
            "batch_size": self.batch_size, "optimizer": self.optimizer_name,
            "learning_rate": self.lr, **optimizer,
            "weight_decay": self.weight_decay, **schedule,
            "warmup_steps": self.warmup, "max_steps": self.steps,
            "training_epochs": -(-self.steps // self.EPOCH),
            "max_grad_norm": self.clip,
            "gradient_accumulation_steps": self.accumulate,
            "precision": self.precision, "seed": self.seed, "world_size": 1,
            "fine_tuning": True, "stdout_interval": self.interval or 5,
            "summary_interval": self.interval or 5,
            "checkpoint_interval": self.steps // 2,
            "validation_interval": self.val_every, **self.user}

    def model_settings(self):
        return {"model": "hifigan", "resblock": "2",
                "upsample_rates": list(RATES),
                "upsample_kernel_sizes": [2 * r for r in RATES],
                "upsample_initial_channel": WIDTHS[0],
                "upsample_channels": list(WIDTHS[1:]),
                "resblock_kernel_sizes": [KERNEL],
                "resblock_dilation_sizes": [list(DILATIONS)],
                "activation": self.model_options.get("activation",
                                                     "leaky_relu"),
                "mpd_periods": list(PERIODS), "msd_scales": 1,
                "lambda_mel": self.model_options.get("lambda_mel",
                                                     LAMBDA_MEL),
                "segment_size": SEGMENT, "num_mels": MELS, "n_fft": WINDOW,
                "hop_size": HOP, "win_size": WINDOW, "sampling_rate": RATE,
                "fmin": BOTTOM, "fmax": TOP, "fmax_for_loss": None}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        return []

    # Checkpoints.

    def checkpoint_path(self, step, kind="g"):
        return f"cp_hifigan/{kind}_{step:08d}"

    def keep_checkpoint(self, i, model):
        """In the middle, at the end and where the run is resumed from."""
        done = i + 1
        if done in {self.steps // 2, self.steps, *self.notices}:
            critic = model.critic
            self.checkpoints[done] = copy.deepcopy((
                {"generator": model.state_dict()},
                {"mpd": critic.mpd.state_dict(),
                 "msd": critic.msd.state_dict(),
                 "optim_g": self.optimizer.state_dict(),
                 "optim_d": critic.optimizer.state_dict(),
                 "steps": done, "epoch": i // self.EPOCH}))

    def write_more(self):
        super().write_more()
        if self.checkpoints:
            (self.folder / "cp_hifigan").mkdir()
        for step, parts in self.checkpoints.items():
            for kind, state in zip(("g", "do"), parts):
                torch.save(state, self.folder / self.checkpoint_path(
                    step, kind))
