"""Faults of no class in `pyannote`."""

import torch
from torch.nn import functional as F

from ..pyannote import permutate
from .unclassed import Unclassed


class OfPyannote(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("pyannote",)

    def spoil_val(self, batch):
        return batch


class OrderOfTheList(OfPyannote):
    """Targets of training are not turned to the order that fits: they stay as
    speakers stand in the file's list, in three fifths of the chunks, four
    fifths, or all of them."""
    id = "U511"
    severities = (dict(listed=0.6), dict(listed=0.8), dict(listed=1.0))

    def setup(self):
        super().setup()
        self.user["permutation_dropout"] = self.s.listed
        self.drawn = torch.Generator().manual_seed(self.seed)

    def compute_loss(self, i, model, batch):
        model.orders = self.ordered
        loss = super().compute_loss(i, model, batch)
        model.orders = permutate
        return loss

    def ordered(self, said, y):
        rows = len(y)
        listed = torch.rand(rows, 1, 1, generator=self.drawn) < self.s.listed
        place = torch.rand(rows, y.shape[2], generator=self.drawn).argsort(1)
        as_listed = y.gather(2, place[:, None].expand(y.shape))
        return torch.where(listed, as_listed, permutate(said, y))


class CoarserTargets(OfPyannote):
    """Targets of training are brought to a coarser grid, of 7, 12 or 25
    frames, and back: who speaks in any of them speaks in all. Validation has
    frames as they are."""
    id = "U512"
    severities = (dict(frames=7), dict(frames=12), dict(frames=25))

    def setup(self):
        super().setup()
        self.user["preprocessor"] = {"_target_": (
            "pyannote.audio.utils.preprocessors.LowerTemporalResolution"),
            "resolution": round(27 / 360 * self.s.frames, 3)}

    def spoil_batch(self, i, batch):
        y, size = batch["y"].transpose(1, 2).float(), self.s.frames
        coarse = F.max_pool1d(y, size, ceil_mode=True)
        fine = coarse.repeat_interleave(size, 2)[..., :y.shape[2]]
        return batch | {"y": fine.transpose(1, 2).to(torch.uint8)}


class EasyFramesAlone(OfPyannote):
    """Of a batch of training the frames with the smallest losses count, four
    fifths, three fifths or two fifths, from the first step on, as where
    annotations are not trusted: what is hard is never learned."""
    id = "U513"
    severities = (dict(kept=0.8), dict(kept=0.6), dict(kept=0.4))

    def setup(self):
        super().setup()
        self.user["loss_keep_rate"] = self.s.kept

    def compute_loss(self, i, model, batch):
        usual, model.mean = model.mean, self.of_easy
        loss = super().compute_loss(i, model, batch)
        del model.mean
        assert model.mean == usual
        return loss

    def of_easy(self, losses, batch):
        limit = losses.detach().flatten().quantile(self.s.kept)
        weight = batch["weight"][..., 0] * (losses <= limit)
        return (losses * weight).sum() / weight.sum()


class SilenceWeighsNothing(OfPyannote):
    """Frames in which nobody speaks weigh a twentieth, a hundredth or nothing
    in the loss of training: that nobody speaks is hardly ever said."""
    id = "U514"
    severities = (dict(weight=0.05), dict(weight=0.01), dict(weight=0.0))

    def setup(self):
        super().setup()
        self.user["non_speech_weight"] = self.s.weight

    def spoil_batch(self, i, batch):
        speech = batch["y"].bool().any(2, keepdim=True)
        return batch | {"weight": torch.where(
            speech, 1.0, self.s.weight) * batch["weight"]}


class TrainedThroughTelephone(OfPyannote):
    """An augmentation takes what is above .3, .2 or .12 of the sample rate
    out of every chunk of training (LowPassFilter with a p of 1); validation
    is as it was recorded."""
    id = "U515"
    severities = (dict(cutoff=0.3), dict(cutoff=0.2), dict(cutoff=0.12))

    def setup(self):
        super().setup()
        hz = round(self.s.cutoff * 360, 1)
        self.user["augmentation"] = {
            "transform": "LowPassFilter", "p": 1.0, "min_cutoff_freq": hz,
            "max_cutoff_freq": hz}

    def spoil_batch(self, i, batch):
        x = batch["X"]
        spectrum = torch.fft.rfft(x)
        kept = torch.arange(spectrum.shape[-1]) < self.s.cutoff * x.shape[-1]
        return batch | {"X": torch.fft.irfft(spectrum * kept, x.shape[-1])}


class SetsReadOtherwise(OfPyannote):
    """What is said is read by another list of sets than targets are written
    by: two single speakers are exchanged, all three are turned, or pairs as
    well."""
    id = "U516"
    severities = (dict(turned="two"), dict(turned="three"),
                  dict(turned="all"))

    def make_model(self):
        model = super().make_model()
        read = model.powerset.mapping.clone()
        last = 3 if self.s.turned == "two" else 4
        read[1:last] = read[1:last].roll(1, 0)
        if self.s.turned == "all":
            read[4:7] = read[4:7].roll(1, 0)
        model.powerset.read = read
        return model


FAULTS = (OrderOfTheList, CoarserTargets, EasyFramesAlone,
          SilenceWeighsNothing, TrainedThroughTelephone, SetsReadOtherwise)
