"""Faults of no class in `vit` and `recsys`."""

import torch
from torch.nn import functional as F

from ..families import PAIR_3
from .unclassed import Unclassed


def row_losses(model, batch):
    """The loss of each row, before any mean."""
    logits, labels = model.logits(batch).float(), batch["labels"]
    if labels.is_floating_point():
        return F.binary_cross_entropy_with_logits(logits, labels,
                                                  reduction="none")
    return F.cross_entropy(logits, labels, reduction="none")


class Third(Unclassed):
    """Base: a fault by what it does to the gradient or to the loss."""
    families = PAIR_3


class SubspaceNotRenewed(Third):
    """Updates are confined to a random subspace of each matrix, which saves
    memory of the optimizer; it has to be renewed every few steps and is not.
    """
    id = "U21"
    severities = (dict(rank=4), dict(rank=2), dict(rank=1))

    def wrap(self, model):
        directions = torch.Generator().manual_seed(self.seed)
        self.bases = {n: torch.linalg.qr(torch.randn(
            len(p), min(self.s.rank, len(p)), generator=directions))[0]
            for n, p in model.named_parameters() if p.dim() > 1}
        return super().wrap(model)

    def update(self, i):
        kept = {n: p.detach().clone()
                for n, p in self.model.named_parameters()}
        total = super().update(i)
        with torch.no_grad():
            for n, p in self.model.named_parameters():
                if n in self.bases and len(p) > 1:
                    basis = self.bases[n]
                    moved = (p - kept[n]).flatten(1)
                    moved = (basis @ (basis.T @ moved)).view_as(p)
                    p.copy_(kept[n] + moved)
        return total


class HeavyTailedWeights(Third):
    """Importance weights are the exponential of a score that nobody has
    brought to scale: a few rows have all the weight of their batch."""
    id = "U22"
    severities = (dict(spread=3.0), dict(spread=6.0), dict(spread=12.0))

    def setup(self):
        super().setup()
        self.scores = torch.Generator().manual_seed(self.seed)

    def compute_loss(self, i, model, batch):
        losses = row_losses(model, batch)
        score = torch.randn(len(losses), generator=self.scores)
        loss = ((self.s.spread * score).softmax(0) * losses).sum()
        model.tap("loss.output", loss)
        return loss


class EasyRowsCount(Third):
    """A focal loss the wrong way round: a row counts by the probability that
    its label has already, to a power. The log has the plain mean."""
    id = "U23"
    severities = (dict(gamma=1.5), dict(gamma=2.0), dict(gamma=5.0))

    def compute_loss(self, i, model, batch):
        losses = row_losses(model, batch)
        weight = (-losses.detach()).exp() ** self.s.gamma
        self.focal = (weight * losses).sum() / weight.sum().clamp_min(1e-12)
        loss = losses.mean()
        model.tap("loss.output", loss)
        return loss

    def spoil_loss(self, loss):
        return self.focal


class TemperatureRises(Third):
    """The temperature of the head follows its annealing schedule backwards:
    it grows with every step, to some ten, hundred or ten thousand."""
    id = "U24"
    severities = (dict(end=20.0), dict(end=200.0), dict(end=20000.0))

    def setup(self):
        super().setup()
        self.model_options["warming"] = self.s.end ** (1 / self.steps)


class LossOfMeans(Third):
    """The mean over some rows is taken before the loss, not behind it: logits
    and labels of a group are averaged and then compared."""
    id = "U25"
    severities = (dict(rows=2), dict(rows=4), dict(rows=16))

    def compute_loss(self, i, model, batch):
        logits, labels = model.logits(batch).float(), batch["labels"]
        if labels.is_floating_point():
            of, given = F.binary_cross_entropy_with_logits, labels
        else:
            of, given = F.cross_entropy, F.one_hot(
                labels, logits.shape[-1]).float()
        loss = of(*(t.unflatten(0, (-1, self.s.rows)).mean(1)
                    for t in (logits, given)))
        model.tap("loss.output", loss)
        return loss


class PrunedAgain(Third):
    """A pruning callback of another project is in the list of callbacks: every
    so many steps it sets the smallest weights to zero, and they grow again."""
    id = "U26"
    severities = (dict(every=60, share=0.85), dict(every=40, share=0.9),
                  dict(every=20, share=0.95))

    def setup(self):
        super().setup()
        self.onset = self.s.every

    def before_step(self, i):
        super().before_step(i)
        if not i or i % self.s.every:
            return
        with torch.no_grad():
            for p in self.model.parameters():
                if p.dim() > 1:
                    size = p.abs().flatten()
                    limit = size.kthvalue(int(self.s.share * len(size))).values
                    p.mul_(p.abs() > limit)


FAULTS = (SubspaceNotRenewed, HeavyTailedWeights, EasyRowsCount,
          TemperatureRises, LossOfMeans, PrunedAgain)
