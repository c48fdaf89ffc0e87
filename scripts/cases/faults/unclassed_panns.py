"""Faults of no class in `panns`."""

import math

import numpy as np
import torch

from .unclassed import Unclassed


class OfPanns(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("panns",)

    def spoil_val(self, batch):
        return batch


class OtherGain(OfPanns):
    """Waveforms of validation have another scale than those of training: they
    are 10 or 20 dB louder, or integers that nobody divided by 32767, and so
    are all of their log-mels."""
    id = "U581"
    severities = (dict(gain=10.0), dict(gain=20.0), dict(gain=90.3))

    def spoil_batch(self, i, batch):
        return batch

    def spoil_val(self, batch):
        return batch | {"logmel": batch["logmel"] + self.s.gain}


class TagsNotMixed(OfPanns):
    """Pairs of clips are mixed, and the tags are those of the first of each:
    the other is heard and not told. The larger alpha, the more of it."""
    id = "U582"
    severities = (dict(alpha=1.0), dict(alpha=4.0), dict(alpha=50.0))

    def setup(self):
        super().setup()
        self.augmentation = "mixup"
        self.user["mixup_alpha"] = self.s.alpha
        self.drawn = np.random.default_rng(self.seed)

    def make_model(self):
        model = super().make_model()
        model.own_targets = True
        return model

    def next_batch(self, i, source):
        return self.mixed(source.batch(2 * self.batch_size))

    def spoil_batch(self, i, batch):
        return batch


class StripesTooWide(OfPanns):
    """SpecAugment's stripes are as wide as they are for clips of a thousand
    frames: of these, of 24, most is hidden, or nearly all."""
    id = "U583"
    severities = (dict(time_drop_width=24, freq_drop_width=8),
                  dict(time_drop_width=64, freq_drop_width=16),
                  dict(time_drop_width=64, freq_drop_width=48))

    def setup(self):
        super().setup()
        self.model_options |= self.severity

    def spoil_batch(self, i, batch):
        return batch


class TagsNotIndexed(OfPanns):
    """The index that the sampler draws from was made for an older list of
    tags: of the eight the last 2, 4 or 6 are in no clip of training."""
    id = "U584"
    severities = (dict(missing=2), dict(missing=4), dict(missing=6))

    def make_source(self, seed):
        return super().make_source(seed) if seed == 9 else self.clips(
            seed, without=self.s.missing)

    def spoil_batch(self, i, batch):
        return batch


class LogTooNarrow(OfPanns):
    """top_db of the log-mels is 6, 3 or 1 dB and not None: all that is further
    below a clip's loudest place is raised to there, in validation as well."""
    id = "U585"
    severities = (dict(top_db=6.0), dict(top_db=3.0), dict(top_db=1.0))

    def setup(self):
        super().setup()
        self.user["top_db"] = self.s.top_db

    def spoil_batch(self, i, batch):
        x = batch["logmel"]
        least = x.amax((1, 2, 3), keepdim=True) - self.s.top_db
        return batch | {"logmel": x.maximum(least)}

    def spoil_val(self, batch):
        return self.spoil_batch(-1, batch)


class NoiseTooLoud(OfPanns):
    """Noise is added to the clips of training as an augmentation, 6, 12 or 20
    dB above the loudest place of each: most sounds are not to be heard."""
    id = "U586"
    severities = (dict(snr_db=-6.0), dict(snr_db=-12.0), dict(snr_db=-20.0))

    def setup(self):
        super().setup()
        self.user["noise_snr_db"] = self.s.snr_db
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        x = batch["logmel"]
        level = x.amax((1, 2, 3), keepdim=True) - self.s.snr_db
        noise = level + 10 / math.log(10) * (0.5 * torch.randn(
            x.shape, generator=self.drawn))
        return batch | {"logmel": 10 * (10 ** (x / 10)
                                        + 10 ** (noise / 10)).log10()}


FAULTS = (OtherGain, TagsNotMixed, StripesTooWide, TagsNotIndexed,
          LogTooNarrow, NoiseTooLoud)
