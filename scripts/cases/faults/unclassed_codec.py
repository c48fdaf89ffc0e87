"""Faults of no class in `codec`."""

import torch
from torch.nn import functional as F

from ..codec import BASES, WINDOWS, distances, filters
from .unclassed import Unclassed


class OfCodec(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("codec",)

    def spoil_val(self, batch):
        return batch


class CodesReplaced(OfCodec):
    """A share of the codes of training is replaced by any others, so that the
    decoder bears what a channel loses, and the share is too large: it learns to
    heed codes little. Validation has codes as they are."""
    id = "U541"
    severities = (dict(share=0.5), dict(share=0.75), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["code_replace_prob"] = self.s.share

    def make_model(self):
        model = super().make_model()
        model.replaced = self.s.share
        return model


class CommitmentCounts(OfCodec):
    """The encoder is to be near its codes above all, as the config says: it
    says little, and codes have little to tell apart."""
    id = "U542"
    severities = (dict(weight=30.0), dict(weight=300.0), dict(weight=3000.0))

    def setup(self):
        super().setup()
        self.model_options["lambdas"] = {
            "vq/commitment_loss": self.s.weight}


class FewBands(OfCodec):
    """Mels of the training loss are of few bands, as the config says: what is
    within a band may lie anywhere. Validation has the bands of always."""
    id = "U543"
    severities = (dict(count=2, windows=2), dict(count=1, windows=2),
                  dict(count=1, windows=1))

    def setup(self):
        super().setup()
        windows = WINDOWS[:self.s.windows]
        self.user |= {
            "MelSpectrogramLoss.n_mels": [self.s.count] * len(windows),
            "MelSpectrogramLoss.window_lengths": list(windows)}
        self.bases = [filters(w, self.s.count) for w in windows]

    def compute_loss(self, i, model, batch):
        return model.loss(batch, lambda said, real: distances(
            said, real, bases=self.bases)[0])


class QuietClamped(OfCodec):
    """What is below a floor in the training loss counts as the floor, which is
    as high as most of a sound is (`clamp_eps` was meant for magnitudes of
    another scale): it can be said in any way. Validation has the usual one."""
    id = "U544"
    severities = (dict(floor=1.0), dict(floor=3.0), dict(floor=10.0))

    def setup(self):
        super().setup()
        self.user["MelSpectrogramLoss.clamp_eps"] = self.s.floor

    def compute_loss(self, i, model, batch):
        return model.loss(batch, lambda said, real: distances(
            said, real, self.s.floor, BASES)[0])


class PlayedFaster(OfCodec):
    """Training recordings are of another rate than the loader believes and
    nobody resamples them: all is played so many times faster and begins anew
    where it ends. Validation is of the right rate."""
    id = "U545"
    severities = (dict(factor=3), dict(factor=5), dict(factor=10))

    def setup(self):
        super().setup()
        self.user["train/AudioDataset.source_rate"] = 16000 * self.s.factor

    def spoil_batch(self, i, batch):
        x, times = batch["signal"], self.s.factor
        short = F.interpolate(x, scale_factor=1 / times, mode="linear",
                              recompute_scale_factor=True)
        again = -(-x.shape[-1] // short.shape[-1])
        return batch | {"signal": short.repeat(1, 1, again)[
            ..., :x.shape[-1]].contiguous()}


class LaterQuantizersUntrained(OfCodec):
    """The bound of the draw of quantizer dropout is too low, and every row is
    dropped: training never has more than the first quantizer, validation has
    all, and the rest says what it began with."""
    id = "U546"
    severities = (dict(most=1, books=3), dict(most=1, books=5),
                  dict(most=1, books=8))

    def setup(self):
        super().setup()
        self.model_options |= {"quantizer_dropout": 1.0,
                               "books": self.s.books}

    def make_model(self):
        model = super().make_model()
        model.most = self.s.most
        return model


FAULTS = (CodesReplaced, CommitmentCounts, FewBands, QuietClamped, PlayedFaster,
          LaterQuantizersUntrained)
