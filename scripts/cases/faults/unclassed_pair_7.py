"""Faults of no class in `ssm` and `dit`."""

import torch
from torch.nn import functional as F

from .. import sources
from ..families import PAIR_7
from ..sources import IGNORE
from .unclassed import Unclassed


class Seventh(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = PAIR_7

    @property
    def own(self):
        """What a severity says of this family."""
        return getattr(self.s, self.family)

    def matrices(self):
        return [p for p in self.model.parameters()
                if p.dim() == 2 and p.requires_grad]


class NoiseStays(Seventh):
    """Weights are disturbed before each step, to find a flat minimum, and
    nothing takes the noise back: they wander off."""
    id = "U61"
    severities = (dict(ssm=0.05, dit=0.06), dict(ssm=0.1, dit=0.09),
                  dict(ssm=0.15, dit=0.14))

    def setup(self):
        super().setup()
        self.user["weight_noise_std"] = self.own
        self.noise = torch.Generator().manual_seed(self.seed)

    def before_step(self, i):
        super().before_step(i)
        with torch.no_grad():
            for p in self.matrices():
                size = p.square().mean().sqrt()
                p.add_(torch.randn(p.shape, generator=self.noise),
                       alpha=float(self.own * size))


class MomentumInFewBits(Seventh):
    """The optimizer's first moments are kept in whole numbers of -7 to 7 and
    less, with one scale a tensor: what is small is rounded to zero in each
    step and never adds up."""
    id, needs = "U62", "adamw"
    severities = (dict(ssm=7, dit=4), dict(ssm=3, dit=3), dict(ssm=2, dit=1))

    def setup(self):
        super().setup()
        self.user["optimizer_state_levels"] = 2 * self.own + 1

    def update(self, i):
        total = super().update(i)
        for state in self.optimizer.state.values():
            moment = state["exp_avg"]
            scale = moment.abs().max() / self.own
            if scale > 0:
                moment.div_(scale).round_().mul_(scale)
        return total


class ProjectedOffMemory(Seventh):
    """A projection against forgetting, whose memory was filled with this very
    task: of each gradient goes what lies in the directions that gradients had
    in the first steps, up to a share of their squares."""
    id, onset = "U63", 20
    severities = (dict(ssm=0.8, dit=0.97), dict(ssm=0.95, dit=0.99),
                  dict(ssm=0.999, dit=0.999))

    def setup(self):
        super().setup()
        self.user |= {"gradient_projection_memory": True,
                      "gpm_threshold": self.own}
        self.squares, self.bases = {}, {}

    def update(self, i):
        for k, p in enumerate(self.matrices()):
            if p.grad is None:
                continue
            if i < self.onset:
                self.squares[k] = self.squares.get(k, 0) + p.grad.T @ p.grad
                continue
            if k not in self.bases:
                self.bases[k] = self.leading(self.squares[k])
            basis = self.bases[k]
            p.grad.sub_(p.grad @ basis @ basis.T)
        return super().update(i)

    def leading(self, squares):
        """Directions that hold the share of the squares, one at least."""
        values, vectors = torch.linalg.eigh(squares)
        held = values.flip(0).cumsum(0) / values.sum().clamp_min(1e-30)
        count = int((held < self.own).sum()) + 1
        return vectors.flip(1)[:, :count].contiguous()


class ShrinkAndPerturb(Seventh):
    """A trick of warm starts is left on inside the run: every so many steps
    weights go part of the way to those of a fresh model."""
    id = "U64"
    severities = (dict(every=50), dict(every=20), dict(every=8))
    KEPT = 0.6

    def setup(self):
        super().setup()
        self.onset = self.s.every
        self.user |= {"shrink_perturb_every": self.s.every,
                      "shrink_factor": self.KEPT}

    def before_step(self, i):
        super().before_step(i)
        if not i or i % self.s.every:
            return
        fresh = self.make_model()
        with torch.no_grad():
            for p, new in zip(self.model.parameters(), fresh.parameters()):
                p.lerp_(new, 1 - self.KEPT)


class DiscountedPlaces(Seventh):
    """The loss counts places by a discount that is meant for rewards: the
    further to the right a token is, or the later a pixel in its image, the
    less it counts."""
    id = "U65"
    severities = (dict(ssm=0.9, dit=0.95), dict(ssm=0.7, dit=0.9),
                  dict(ssm=0.4, dit=0.8))

    def setup(self):
        super().setup()
        self.user["gamma"] = self.own

    def compute_loss(self, i, model, batch):
        said = model.logits(batch).float()
        if self.family == "ssm":
            each = F.cross_entropy(said.flatten(0, 1),
                                   batch["labels"].flatten(),
                                   ignore_index=IGNORE, reduction="none")
            each = each.view(batch["labels"].shape)
        else:
            each = (said - batch["x_1"] + batch["x_0"]).square().mean(
                1).flatten(1)
        weight = self.own ** torch.arange(each.shape[1])
        loss = (each * weight).mean(0).sum() / weight.sum()
        model.tap("loss.output", loss)
        return loss


class RowsReversed(Seventh):
    """An augmentation that does not fit these data is on in training: a share
    of the rows runs backwards, or of the images stands on its head."""
    id = "U66"
    severities = (dict(share=0.5), dict(share=0.8), dict(share=0.95))

    def setup(self):
        super().setup()
        self.user["reverse_prob" if self.family == "ssm" else "vflip_prob"] \
            = self.s.share
        self.coin = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        if i < 0:
            return batch
        rows = len(next(iter(batch.values())))
        turned = torch.rand(rows, generator=self.coin) < self.s.share
        if self.family == "dit":
            x = batch["x_1"]
            return batch | {"x_1": torch.where(turned[:, None, None, None],
                                               x.flip(2), x)}
        text = torch.cat((batch["input_ids"], batch["labels"][:, -1:]), 1)
        return batch | sources.shifted(torch.where(turned[:, None],
                                                   text.flip(1), text))

    def spoil_val(self, batch):
        return batch


FAULTS = (NoiseStays, MomentumInFewBits, ProjectedOffMemory, ShrinkAndPerturb,
          DiscountedPlaces, RowsReversed)
