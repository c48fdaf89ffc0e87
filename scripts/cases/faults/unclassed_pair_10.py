"""Faults of no class in `t5` and `point`."""

import math

import torch

from ..families import PAIR_10
from .unclassed import Unclassed


class Tenth(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = PAIR_10

    @property
    def own(self):
        """What a severity says of this family."""
        return getattr(self.s, self.family)

    def trained(self):
        return [p for p in self.model.parameters() if p.requires_grad]


class PreconditionedTheWrongWay(Tenth):
    """A preconditioner of each matrix, of its gradients' second moments on
    either side, whose exponent has lost its sign: directions in which gradients
    are large get more, those that it is there for get next to nothing."""
    id = "U91"
    severities = (dict(t5=0.5, point=0.5), dict(t5=1.0, point=1.0),
                  dict(t5=2.0, point=2.0))

    def setup(self):
        super().setup()
        self.user["preconditioner_exponent"] = self.own
        self.sides = {}

    def update(self, i):
        for k, p in enumerate(self.trained()):
            if p.grad is None or p.dim() < 2:
                continue
            grad = p.grad.flatten(1)
            size = grad.norm()
            if not (size > 0 and size.isfinite()):
                continue
            for side, turned in ((0, grad), (1, grad.T)):
                square = turned @ turned.T / size.square()
                key = k, side
                self.sides[key] = square if key not in self.sides else \
                    0.9 * self.sides[key] + 0.1 * square
            grad = self.power(k, 0) @ grad @ self.power(k, 1)
            p.grad.copy_((grad * (size / grad.norm())).view_as(p))
        return super().update(i)

    def power(self, k, side):
        values, vectors = torch.linalg.eigh(self.sides[k, side].float())
        return (vectors * values.clamp_min(0) ** self.own) @ vectors.T


class DividedTwice(Tenth):
    """Gradients are brought to scale element by element, by their own size and
    not by the root of its square, which is one too often: what has next to no
    gradient, by chance, goes furthest."""
    id = "U92"
    severities = (dict(t5=0.3, point=0.45), dict(t5=0.6, point=0.7),
                  dict(t5=1.0, point=1.0))

    def setup(self):
        super().setup()
        self.user["gradient_scaling_power"] = 1 + self.own

    def update(self, i):
        for p in self.trained():
            if p.grad is None:
                continue
            size = p.grad.norm()
            if not (size > 0 and size.isfinite()):
                continue
            low = 1e-4 * size / p.numel() ** 0.5
            grad = p.grad.sign() / p.grad.abs().clamp_min(low) ** self.own
            p.grad.copy_(grad * (size / grad.norm()))
        return super().update(i)


class OneWayOnly(Tenth):
    """Weights are conductances of a memory that can be raised in place, and
    lowered by a reset alone, which the driver leaves out: some of them, or all,
    go up and never down."""
    id = "U93"
    severities = (dict(t5=0.3, point=0.85), dict(t5=0.6, point=0.93),
                  dict(t5=1.0, point=1.0))

    def setup(self):
        super().setup()
        self.user["in_memory_share"] = self.own
        self.drawn = torch.Generator().manual_seed(self.seed)

    def update(self, i):
        trained = self.trained()
        if not i:
            self.stuck = [torch.rand(p.shape, generator=self.drawn) < self.own
                          for p in trained]
        old = [p.detach().clone() for p in trained]
        total = super().update(i)
        with torch.no_grad():
            for p, before, stuck in zip(trained, old, self.stuck):
                p.copy_(torch.where(stuck, torch.maximum(p, before), p))
        return total


class RotatedBackByAnother(Tenth):
    """An optimizer that keeps its state in a turned basis, drawn anew for each
    step, in which pairs of units share what they get. The way back takes the
    basis of the step after: of an update its unit keeps the cosine of an angle,
    and some other unit gets the sine."""
    id = "U94"
    severities = (dict(t5=85, point=82), dict(t5=88, point=86),
                  dict(t5=90, point=90))

    def setup(self):
        super().setup()
        self.user |= {"rotate_optimizer_state": True,
                      "rotation_degrees": self.own}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def update(self, i):
        matrices = [p for p in self.trained() if p.dim() > 1 and len(p) > 1]
        old = [p.detach().clone() for p in matrices]
        total = super().update(i)
        cosine = math.cos(math.radians(self.own))
        sine = math.sin(math.radians(self.own))
        with torch.no_grad():
            for p, before in zip(matrices, old):
                order = torch.randperm(len(p), generator=self.drawn)
                one, other = order[:len(p) // 2 * 2].view(2, -1)
                moved = p - before
                p[one] = before[one] + cosine * moved[one] \
                    - sine * moved[other]
                p[other] = before[other] + cosine * moved[other] \
                    + sine * moved[one]
        return total


class HashedTogether(Tenth):
    """Weights share memory by a hash, to make the file small, in the network
    that is trained: after each step all elements of a matrix that fall into one
    bucket get their mean."""
    id = "U95"
    severities = (dict(t5=32, point=64), dict(t5=128, point=256),
                  dict(t5=512, point=1024))

    def setup(self):
        super().setup()
        self.user["hashed_weights_per_bucket"] = self.own

    def after_step(self, i, model):
        super().after_step(i, model)
        drawn = torch.Generator().manual_seed(self.seed)
        with torch.no_grad():
            for p in self.trained():
                if p.dim() < 2:
                    continue
                count = -(-p.numel() // self.own)
                bucket = torch.randint(count, (p.numel(),), generator=drawn)
                mean = torch.zeros(count, dtype=p.dtype).scatter_reduce(
                    0, bucket, p.flatten(), "mean", include_self=False)
                p.copy_(mean[bucket].view_as(p))


class RicherMovesMore(Tenth):
    """A trick for sparse networks: what a weight moves by is multiplied by its
    size, in units of its matrix and up to some of them, to a power. Large ones
    swing, and small ones stay where they are."""
    id, MOST = "U96", 5.0
    severities = (dict(t5=2.6, point=2.5), dict(t5=3.0, point=3.2),
                  dict(t5=3.5, point=4.0))

    def setup(self):
        super().setup()
        self.user["powerprop_alpha"] = 1 + self.own

    def update(self, i):
        matrices = [p for p in self.trained() if p.dim() > 1]
        old = [p.detach().clone() for p in matrices]
        total = super().update(i)
        with torch.no_grad():
            for p, before in zip(matrices, old):
                size = before.abs() / before.square().mean().sqrt().clamp_min(
                    1e-12)
                size = size.clamp(max=self.MOST) ** self.own
                p.copy_(before + (p - before) * size)
        return total


FAULTS = (PreconditionedTheWrongWay, DividedTwice, OneWayOnly,
          RotatedBackByAnother, HashedTogether, RicherMovesMore)
