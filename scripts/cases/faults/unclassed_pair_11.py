"""Faults of no class in `vlm` and `vq`."""

import math

import torch

from ..families import PAIR_11
from .unclassed import Unclassed


class Eleventh(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = PAIR_11

    @property
    def own(self):
        """What a severity says of this family."""
        return getattr(self.s, self.family)

    def trained(self):
        return [p for p in self.model.parameters() if p.requires_grad]


class WeightsOfLowRank(Eleventh):
    """An optimizer that is to keep the moments of gradients in few directions,
    which saves memory, gets the weights instead: after each step a matrix is
    replaced by the nearest one of so small a rank."""
    id = "U101"
    severities = (dict(vlm=6, vq=4), dict(vlm=3, vq=2), dict(vlm=1, vq=1))

    def setup(self):
        super().setup()
        self.user["low_rank_projection"] = self.own

    def after_step(self, i, model):
        super().after_step(i, model)
        with torch.no_grad():
            for p in self.trained():
                if p.dim() < 2 or not p.isfinite().all():
                    continue
                left, size, right = torch.linalg.svd(p.flatten(1).float(),
                                                     full_matrices=False)
                size[self.own:] = 0.0
                p.copy_((left * size @ right).view_as(p))


class RefusedIfBetter(Eleventh):
    """A Metropolis test of each step whose exponent has lost its sign: the
    more a step lowers the loss of its batch, in units of the temperature, the
    likelier it is taken back."""
    id = "U102"
    severities = (dict(vlm=0.02, vq=0.002), dict(vlm=0.01, vq=0.001),
                  dict(vlm=0.001, vq=0.0001))

    def setup(self):
        super().setup()
        self.user |= {"metropolis_test": True, "temperature": self.own}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def compute_loss(self, i, model, batch):
        loss = super().compute_loss(i, model, batch)
        self.last = batch, float(loss.detach())
        return loss

    def update(self, i):
        old = [p.detach().clone() for p in self.trained()]
        total = super().update(i)
        batch, before = self.last
        with torch.no_grad():
            gained = before - float(self.model.loss(batch))
            chance = math.exp(-max(gained, 0.0) / self.own)
            if float(torch.rand((), generator=self.drawn)) >= chance:
                for p, was in zip(self.trained(), old):
                    p.copy_(was)
        return total


class Differenced(Eleventh):
    """A filter against drift, which was made for a sensor: from each gradient
    goes that of the step before, in part or in whole, so that little is left of
    what all batches agree on."""
    id = "U103"
    severities = (dict(vlm=0.8, vq=0.8), dict(vlm=0.95, vq=0.95),
                  dict(vlm=1.0, vq=1.0))

    def setup(self):
        super().setup()
        self.user["gradient_high_pass"] = self.own
        self.before = {}

    def update(self, i):
        for k, p in enumerate(self.trained()):
            if p.grad is None:
                continue
            now = p.grad.clone()
            if k in self.before:
                p.grad.sub_(self.before[k], alpha=self.own)
            self.before[k] = now
        return super().update(i)


class CautiousTheWrongWay(Eleventh):
    """A cautious optimizer, which moves a weight only where its momentum and
    the newest gradient agree, with the two cases changed about: where they
    agree a weight gets little of its move, or none."""
    id = "U104"
    severities = (dict(vlm=0.9, vq=0.9), dict(vlm=0.97, vq=0.97),
                  dict(vlm=1.0, vq=1.0))

    def setup(self):
        super().setup()
        self.user |= {"cautious": True, "cautious_damping": self.own}

    def update(self, i):
        trained = [p for p in self.trained() if p.grad is not None]
        old = [p.detach().clone() for p in trained]
        grads = [p.grad.clone() for p in trained]
        total = super().update(i)
        with torch.no_grad():
            for p, before, grad in zip(trained, old, grads):
                moved = p - before
                agrees = moved * grad < 0
                p.copy_(before + torch.where(agrees, (1 - self.own) * moved,
                                             moved))
        return total


class StageGoesOn(Eleventh):
    """The optimizer of a first stage is not taken away when the second begins:
    it gets no new gradients and goes on with the step that it made last, times
    what is left of its rate, behind each step of the new one."""
    id, BEGINS = "U105", 30
    severities = (dict(vlm=0.3, vq=0.3), dict(vlm=1.0, vq=1.0),
                  dict(vlm=3.0, vq=3.0))

    def setup(self):
        super().setup()
        self.user["stages"] = [{"start_step": 0, "name": "warm-up"},
                               {"start_step": self.BEGINS, "name": "main"}]
        self.onset = self.BEGINS

    def update(self, i):
        old = [p.detach().clone() for p in self.trained()]
        total = super().update(i)
        with torch.no_grad():
            if i == self.BEGINS - 1:
                self.last = [p - was for p, was in zip(self.trained(), old)]
            if i >= self.BEGINS:
                for p, moved in zip(self.trained(), self.last):
                    p.add_(moved, alpha=self.own)
        return total


class PredictedTooFar(Eleventh):
    """Weight prediction of a pipeline: gradients are taken where the weights
    will be when they arrive, some steps ahead along the last move. The count
    of these steps is that of small batches, and there is no pipeline."""
    id = "U106"
    severities = (dict(vlm=30, vq=20), dict(vlm=60, vq=40),
                  dict(vlm=150, vq=100))

    def setup(self):
        super().setup()
        self.user["weight_prediction_steps"] = self.own
        self.moved = None

    def before_step(self, i):
        super().before_step(i)
        self.real = [p.detach().clone() for p in self.trained()]
        if self.moved is None:
            return
        with torch.no_grad():
            for p, moved in zip(self.trained(), self.moved):
                p.add_(moved, alpha=self.own)

    def update(self, i):
        with torch.no_grad():
            for p, real in zip(self.trained(), self.real):
                p.copy_(real)
        total = super().update(i)
        self.moved = [p.detach() - real
                      for p, real in zip(self.trained(), self.real)]
        return total


FAULTS = (WeightsOfLowRank, RefusedIfBetter, Differenced,
          CautiousTheWrongWay, StageGoesOn, PredictedTooFar)
