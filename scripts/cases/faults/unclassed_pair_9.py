"""Faults of no class in `tts` and `dpo`."""

import torch

from ..families import PAIR_9
from .unclassed import Unclassed


class Ninth(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = PAIR_9

    @property
    def own(self):
        """What a severity says of this family."""
        return getattr(self.s, self.family)

    def trained(self):
        return [p for p in self.model.parameters() if p.requires_grad]


class WeightsClamped(Ninth):
    """A callback that was written for the critic of a GAN clamps all weights
    to some small range after each step."""
    id = "U81"
    severities = (dict(tts=0.25, dpo=0.03), dict(tts=0.15, dpo=0.015),
                  dict(tts=0.06, dpo=0.006))

    def setup(self):
        super().setup()
        self.user["clip_value"] = self.own

    def after_step(self, i, model):
        super().after_step(i, model)
        with torch.no_grad():
            for p in self.trained():
                p.clamp_(-self.own, self.own)


class BatchesBelowUnlearned(Ninth):
    """A baseline as of policy gradients, where there is none: a batch's
    gradient is weighed by how far its loss lies above the running mean, in
    part or in whole, so that batches below it are unlearned."""
    id = "U82"
    severities = (dict(tts=0.45, dpo=0.6), dict(tts=0.7, dpo=0.8),
                  dict(tts=1.0, dpo=1.0))

    def setup(self):
        super().setup()
        self.user["loss_baseline"] = self.own
        self.mean = self.size = None

    def spoil_loss(self, loss):
        now = float(loss.detach())
        if self.mean is None:
            self.mean, self.size = now, 0.1 * abs(now)
        above = (now - self.mean) / max(self.size, 1e-6)
        self.mean += 0.1 * (now - self.mean)
        self.size += 0.1 * (abs(now - self.mean) - self.size)
        return loss * (1 - self.own + self.own * above)


class Extrapolated(Ninth):
    """A callback that is to make the run converge sooner moves the weights
    every so many steps once more along all that they have moved since, by a
    multiple of it."""
    id = "U83"
    EVERY = 20
    severities = (dict(tts=1.0, dpo=3.0), dict(tts=2.0, dpo=6.0),
                  dict(tts=4.0, dpo=12.0))

    def setup(self):
        super().setup()
        self.user |= {"extrapolate_every": self.EVERY,
                      "extrapolation_factor": self.own}
        self.onset = self.EVERY

    def before_step(self, i):
        super().before_step(i)
        if i % self.EVERY:
            return
        with torch.no_grad():
            if i:
                for p, old in zip(self.trained(), self.old):
                    p.add_(p - old, alpha=self.own)
            self.old = [p.detach().clone() for p in self.trained()]


class CurvatureWithSign(Ninth):
    """Steps are to be Newton's, with the curvature along each weight taken from
    its last two gradients. Who divides by it keeps its sign, which is mostly
    that of noise: where it is negative a weight moves the other way, in part
    or in whole."""
    id = "U84"
    severities = (dict(tts=0.8, dpo=0.8), dict(tts=1.0, dpo=1.0),
                  dict(tts=1.5, dpo=1.5))

    def setup(self):
        super().setup()
        self.user |= {"diagonal_newton": True, "newton_blend": self.own}
        self.last, self.onset = {}, 1

    def update(self, i):
        for k, p in enumerate(self.trained()):
            if p.grad is None:
                continue
            now = p.grad.clone(), p.detach().clone()
            if k in self.last:
                grad, weight = self.last[k]
                curved = ((now[0] - grad) * (now[1] - weight)).sign()
                p.grad.mul_(1 - self.own + self.own * curved)
            self.last[k] = now
        return super().update(i)


class FewDirections(Ninth):
    """To save memory the gradient of all weights is not kept, but its slopes
    along some random directions, new ones in each step: nearly all that an
    update has is the noise of their drawing."""
    id = "U85"
    severities = (dict(tts=64, dpo=64), dict(tts=8, dpo=8), dict(tts=1, dpo=1))

    def setup(self):
        super().setup()
        self.user["forward_gradient_directions"] = self.own
        self.drawn = torch.Generator().manual_seed(self.seed)

    def update(self, i):
        given = [p for p in self.trained() if p.grad is not None]
        grad = torch.cat([p.grad.flatten() for p in given])
        along = torch.randn(self.own, len(grad), generator=self.drawn)
        along = along.to(grad.dtype)
        grad = along.T @ (along @ grad) / self.own
        for p, part in zip(given, grad.split([p.numel() for p in given])):
            p.grad.copy_(part.view_as(p))
        return super().update(i)


class CoarseSteps(Ninth):
    """Weights are in cells of a memory that moves by whole steps alone: what
    is less is kept aside until it makes one. So a weight stands still for
    long, and then jumps."""
    id = "U86"
    severities = (dict(tts=0.1, dpo=0.15), dict(tts=0.2, dpo=0.3),
                  dict(tts=0.5, dpo=0.6))

    def setup(self):
        super().setup()
        self.user["cell_step"] = self.own

    def update(self, i):
        if not i:
            self.aside = [torch.zeros_like(p) for p in self.trained()]
        old = [p.detach().clone() for p in self.trained()]
        total = super().update(i)
        with torch.no_grad():
            for p, before, rest in zip(self.trained(), old, self.aside):
                rest.add_(p - before)
                jump = (rest / self.own).trunc() * self.own
                rest.sub_(jump)
                p.copy_(before + jump)
        return total


FAULTS = (WeightsClamped, BatchesBelowUnlearned, Extrapolated,
          CurvatureWithSign, FewDirections, CoarseSteps)
