"""Faults of no class in `dpolicy`."""

import torch

from ..dpolicy import cumulated
from .unclassed import Unclassed


class OfDpolicy(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is. Validation is as it was."""
    families = ("dpolicy",)

    def spoil_val(self, batch):
        return batch


class ObservationsLate(OfDpolicy):
    """Roll-outs tell the policy what was seen some steps ago, as where a
    buffer of observations is read at its wrong end. Losses know nothing of
    it."""
    id = "U611"
    severities = (dict(steps=2), dict(steps=6), dict(steps=10))

    def make_model(self):
        model = super().make_model()
        model.late = self.s.steps
        return model


class OtherBetas(OfDpolicy):
    """Training adds the noise of another schedule than validation and roll-outs
    take out: its betas are those of another file, so that at a time there is
    less noise, or more."""
    id = "U612"
    severities = (dict(power=4.0), dict(power=12.0), dict(power=0.05))

    def make_model(self):
        model = super().make_model()
        model.own_kept = cumulated("squaredcos_cap_v2",
                                   model.times) ** self.s.power
        return model


class NormalizerTooWide(OfDpolicy):
    """The limits of the normalizer are far beyond what there is, as where a
    lost tracker's code was among the demonstrations: what is normalized fills
    a part of [-1, 1], and noise drowns the actions. In validation too, and so
    the losses are lower: there is less to be found than noise."""
    id = "U613"
    severities = (dict(output_max=0.2), dict(output_max=0.1),
                  dict(output_max=0.03))

    def setup(self):
        super().setup()
        self.model_options |= self.severity


class LaterObservations(OfDpolicy):
    """Training is told observations of later steps of its window than the ones
    that there are when actions are asked for: validation and roll-outs have
    the first two."""
    id = "U614"
    severities = (dict(first=3), dict(first=4), dict(first=6))

    def make_model(self):
        model = super().make_model()
        model.own_first = self.s.first
        return model


class AverageTooSlow(OfDpolicy):
    """The average of the weights hardly follows, as its smallest decay is one
    for runs of a hundred thousand steps (ema.min_value): what is validated by
    roll-outs and saved as ema_model is nearly what the run began with."""
    id = "U615"
    severities = (dict(min_value=0.99), dict(min_value=0.995),
                  dict(min_value=0.9999))

    def setup(self):
        super().setup()
        self.ema_options = self.ema_options | self.severity


class FewTimes(OfDpolicy):
    """Training draws its times below the number of steps that the sampler
    takes, or another small one: of much noise it sees none."""
    id = "U616"
    severities = (dict(times=50), dict(times=20), dict(times=5))

    def setup(self):
        super().setup()
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        return batch | {"timesteps": torch.randint(
            self.s.times, batch["timesteps"].shape, generator=self.drawn)}


FAULTS = (ObservationsLate, OtherBetas, NormalizerTooWide, LaterObservations,
          AverageTooSlow, FewTimes)
