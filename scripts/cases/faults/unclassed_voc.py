"""Faults of no class in `voc`."""

import torch

from ..voc import MELS, filters, magnitudes, mel_spectrogram
from .unclassed import Unclassed


class OfVoc(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("voc",)


class OfReconstruction(OfVoc):
    """Base: in training something else than the distance of log mels counts 45
    times; the distance is logged all the same, and validation has it."""

    def compute_loss(self, i, model, batch):
        return model.loss(batch, self.reconstruction)

    def reconstruction(self, said, audio):
        raise NotImplementedError


class LoudestCount(OfReconstruction):
    """Mels are compared without their logarithm, by a mean of some power of
    what they are, brought back by its root: what is loudest of a batch counts
    nearly alone, and quiet bands and moments not at all."""
    id = "U251"
    severities = (dict(power=3.0), dict(power=4.0), dict(power=6.0))

    def setup(self):
        super().setup()
        self.user |= {"mel_loss": "power_mean",
                      "mel_loss_power": self.s.power}

    def reconstruction(self, said, audio):
        away = (magnitudes(said) ** self.s.power
                - magnitudes(audio) ** self.s.power).abs()
        return away.mean() ** (1 / self.s.power)


class LossOfLowBands(OfReconstruction):
    """The loss's mels end far below half the sampling rate, as for speech of
    telephones: what is above them the discriminators alone ask for."""
    id = "U252"
    severities = (dict(top=2000), dict(top=1400), dict(top=800))

    def setup(self):
        super().setup()
        self.basis = filters(self.s.top)

    def settings(self):
        return super().settings() | {"fmax_for_loss": self.s.top}

    def reconstruction(self, said, audio):
        said, real = (magnitudes(x, self.basis).clamp_min(1e-5).log()
                      for x in (said, audio))
        return (said - real).abs().mean()


class FramesRepeated(OfVoc):
    """Mels are of an acoustic model that says a frame for several and repeats
    it, in validation as well: what happens in between is not in them."""
    id = "U253"
    severities = (dict(factor=4), dict(factor=6), dict(factor=12))

    def setup(self):
        super().setup()
        self.user["acoustic_model_reduction_factor"] = self.s.factor

    def spoil_batch(self, i, batch):
        mel = batch["mel"][..., self.s.factor // 2::self.s.factor]
        return batch | {"mel": mel.repeat_interleave(self.s.factor, 2)}


class SamplesCompared(OfReconstruction):
    """The loss compares samples, their distance, their square, or a power that
    counts the largest errors alone. Phases are not known, so the best that can
    be said is next to nothing, and what the discriminators ask for."""
    id = "U254"
    severities = (dict(power=1), dict(power=2), dict(power=4))

    def setup(self):
        super().setup()
        self.user |= {"reconstruction_loss": "waveform",
                      "reconstruction_power": self.s.power}

    def reconstruction(self, said, audio):
        return (said - audio).abs().pow(self.s.power).mean()


class Dithered(OfReconstruction):
    """Noise is added to what is said and to the recording before the loss makes
    mels of them, so that silence has no logarithm of its own; it is as loud as
    for samples of 16 bits that nobody has divided."""
    id = "U255"
    severities = (dict(dither=0.1), dict(dither=0.3), dict(dither=1.0))

    def setup(self):
        super().setup()
        self.user["loss_dither"] = self.s.dither
        self.drawn = torch.Generator().manual_seed(self.seed)

    def reconstruction(self, said, audio):
        said, real = (mel_spectrogram(x + self.s.dither * torch.randn(
            x.shape, generator=self.drawn)) for x in (said, audio))
        return (said - real).abs().mean()


class CepstraCut(OfReconstruction):
    """The distance is that of the first cepstral coefficients of the log mels,
    as recognisers of speech have them, and of few of them: bands that differ
    cost nothing where they differ finely."""
    id = "U256"
    severities = (dict(count=3), dict(count=2), dict(count=1))

    def setup(self):
        super().setup()
        self.user |= {"mel_loss": "mfcc", "n_mfcc": self.s.count}
        band = (torch.arange(MELS) + 0.5) / MELS
        self.waves = (torch.pi * torch.arange(self.s.count)[:, None]
                      * band).cos()

    def reconstruction(self, said, audio):
        away = mel_spectrogram(said) - mel_spectrogram(audio)
        return (self.waves @ away).abs().mean() / MELS ** 0.5


FAULTS = (LoudestCount, LossOfLowBands, FramesRepeated, SamplesCompared,
          Dithered, CepstraCut)
