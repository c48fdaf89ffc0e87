"""Faults of no class in `tasnet`."""

import torch
from torch.nn import functional as F

from .unclassed import Unclassed


class OfTasnet(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("tasnet",)


class OtherLoss(OfTasnet):
    """Base: training has a loss of its own, validation the usual one."""

    def compute_loss(self, i, model, batch):
        loss = self.changed(model, model.separated(batch), batch["sources"])
        model.tap("loss.output", loss)
        return loss


class OrderOfTheList(OtherLoss):
    """The order of the outputs is not looked for in each mixture of a training
    batch: it is the better one of a batch, that of the list in three quarters
    of the mixtures, or always that of the list, in which voices stand as they
    were drawn."""
    id = "U431"
    severities = (dict(pit="batch"), dict(pit=0.75), dict(pit="none"))

    def setup(self):
        super().setup()
        self.user["pit_from"] = {"batch": "batch_avg", "none": None}.get(
            self.s.pit, "pw_mtx")
        self.drawn = torch.Generator().manual_seed(self.seed)
        if self.level == 1:
            self.user["pit_dropout"] = self.s.pit

    def changed(self, model, said, sources):
        loss = model.orders(model.pairwise(said, sources)).mean(2)
        if self.s.pit == "batch":
            return loss.mean(0).min()
        if self.s.pit == "none":
            return loss[:, 0].mean()
        listed = torch.rand(len(loss), generator=self.drawn) < self.s.pit
        return torch.where(listed, loss[:, 0], loss.min(1).values).mean()


class BetterVoiceAlone(OtherLoss):
    """Of the two outputs of a mixture the better one counts in training, the
    other a twentieth, a hundredth of it or nothing (a reduction that takes the
    least where the mean was meant)."""
    id = "U432"
    severities = (dict(rest=0.05), dict(rest=0.01), dict(rest=0.0))

    def setup(self):
        super().setup()
        self.user |= {"perm_reduce": "min", "worst_source_weight":
                      self.s.rest}

    def changed(self, model, said, sources):
        loss = model.orders(model.pairwise(said, sources))
        low, high = loss.min(2).values, loss.max(2).values
        loss = (low + self.s.rest * high) / (1 + self.s.rest)
        return loss.min(1).values.mean()


class WindowsApart(OfTasnet):
    """Windows of the filters stand further apart than they are wide: what is
    between them neither gets in nor out, in validation as well."""
    id = "U433"
    severities = (dict(stride=19), dict(stride=22), dict(stride=28))

    def setup(self):
        super().setup()
        self.model_options["stride"] = self.s.stride


class RatioHeld(OtherLoss):
    """The ratio of training is held at a ceiling of some decibels, each voice
    for itself: what is above has no gradient, though it is far from clean."""
    id = "U434"
    severities = (dict(ceiling=4.0), dict(ceiling=0.0), dict(ceiling=-6.0))

    def setup(self):
        super().setup()
        self.user["sisdr_max"] = self.s.ceiling

    def changed(self, model, said, sources):
        pairs = model.pairwise(said, sources).clamp_min(-self.s.ceiling)
        return model.orders(pairs).mean(2).min(1).values.mean()


class MasksNeverShut(OfTasnet):
    """A mask goes from a floor to 1 and never below, as where musical noise is
    to be kept low: most of the other voice stays, in validation as well."""
    id = "U435"
    severities = (dict(floor=0.6), dict(floor=0.8), dict(floor=0.95))

    def setup(self):
        super().setup()
        self.user["mask_floor"] = self.s.floor

    def make_model(self):
        model = super().make_model()
        low = self.s.floor
        model.of_masks = lambda masks: low + (1 - low) * masks.clamp(max=1)
        return model


class PhaseNotHeard(OtherLoss):
    """The ratio of training is that of magnitudes of short spectra: how waves
    lie in time is nothing to it. Validation is of waves."""
    id = "U436"
    severities = (dict(share=0.9), dict(share=0.97), dict(share=1.0))
    WINDOW = 32

    def setup(self):
        super().setup()
        self.user |= {"loss": "spectral", "stft_window": self.WINDOW,
                      "time_loss_weight": round(1 - self.s.share, 3)}

    def magnitudes(self, x):
        frames = F.pad(x, (0, self.WINDOW)).unfold(-1, self.WINDOW,
                                                   self.WINDOW // 4)
        wave = frames * torch.hann_window(self.WINDOW)
        return torch.view_as_real(torch.fft.rfft(wave)).square().sum(-1) \
            .add(1e-8).sqrt().flatten(2)

    def changed(self, model, said, sources):
        pairs = self.s.share * model.pairwise(
            self.magnitudes(said.float()), self.magnitudes(sources)) \
            + (1 - self.s.share) * model.pairwise(said, sources)
        return model.orders(pairs).mean(2).min(1).values.mean()


FAULTS = (OrderOfTheList, BetterVoiceAlone, WindowsApart, RatioHeld,
          MasksNeverShut, PhaseNotHeard)
