"""Faults of no class in `bc` and `kws`."""

import torch

from ..families import PAIR_12
from .unclassed import Unclassed


class Twelfth(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = PAIR_12

    @property
    def own(self):
        """What a severity says of this family."""
        return getattr(self.s, self.family)

    def trained(self):
        return [p for p in self.model.parameters() if p.requires_grad]


class NoiseOfTheGradient(Twelfth):
    """A monitor of the gradient's noise takes the gradient of half of each
    batch, and what it leaves in .grad is the half's distance from the whole,
    with a small share of the whole or none: what all rows agree on is gone."""
    id = "U111"
    severities = (dict(bc=0.9, kws=0.9), dict(bc=0.97, kws=0.97),
                  dict(bc=1.0, kws=1.0))

    def setup(self):
        super().setup()
        self.user |= {"log_gradient_noise_scale": True,
                      "gradient_noise_weight": self.own}

    def compute_loss(self, i, model, batch):
        self.last = batch
        return super().compute_loss(i, model, batch)

    def update(self, i):
        whole = [None if p.grad is None else p.grad.clone()
                 for p in self.trained()]
        self.model.zero_grad()
        self.model.loss({k: t[:len(t) // 2]
                         for k, t in self.last.items()}).backward()
        for p, grad in zip(self.trained(), whole):
            if grad is not None and p.grad is not None:
                p.grad.sub_(grad).mul_(self.own).add_(grad,
                                                      alpha=1 - self.own)
        return super().update(i)


class ReducedByMaximum(Twelfth):
    """The gradients of parts of a batch are reduced by their largest element,
    not by their mean: of each weight the part counts that would move it
    furthest down."""
    id = "U112"
    severities = (dict(bc=4, kws=4), dict(bc=8, kws=8), dict(bc=12, kws=12))

    def setup(self):
        super().setup()
        self.user |= {"micro_batches": self.own, "reduce_op": "max"}

    def compute_loss(self, i, model, batch):
        self.last = batch
        return super().compute_loss(i, model, batch)

    def update(self, i):
        parts, rows = [], len(next(iter(self.last.values())))
        for k in range(self.own):
            self.model.zero_grad()
            cut = slice(k * rows // self.own, (k + 1) * rows // self.own)
            self.model.loss({name: t[cut]
                             for name, t in self.last.items()}).backward()
            parts.append([p.grad for p in self.trained()])
            self.model.zero_grad(set_to_none=True)
        for p, grads in zip(self.trained(), zip(*parts)):
            if grads[0] is not None:
                p.grad = torch.stack(grads).amax(0)
        return super().update(i)


class MatchedWithAnyRow(Twelfth):
    """Sets of predictions are matched with sets of targets, as detectors do
    it, and the matching runs over rows of the batch: what is said of a row is
    compared with the target that suits it best, among some rows or all."""
    id = "U113"
    severities = (dict(bc=4, kws=4), dict(bc=8, kws=8), dict(bc=24, kws=64))

    def setup(self):
        super().setup()
        self.user |= {"matcher": "nearest", "match_group": self.own}

    def costs(self, model, batch):
        """What each row would cost under each target, and what else there is
        of the loss."""
        if self.family == "kws":
            said = model.logits(batch).float().log_softmax(-1)
            return -said[:, batch["labels"]], 0.0
        said, mean, spread = model(batch)
        wanted = model.normal("action", batch["action"]).float()
        real = (~batch["action_is_pad"]).float()
        away = (said.float()[:, None] - wanted).abs().mean(-1)
        cost = (away * real).sum(-1) / real.sum(-1)
        kld = 0.5 * (mean.square() + spread.exp() - 1 - spread).sum(-1).mean()
        return cost, model.kl_weight * kld

    def compute_loss(self, i, model, batch):
        cost, more = self.costs(model, batch)
        group = torch.arange(len(cost)) // self.own
        cost = cost.masked_fill(group[:, None] != group, float("inf"))
        best = cost.amin(1).mean()
        if self.family == "bc":
            model.parts = model.parts | {
                "l1_loss": best.detach(),
                "kld_loss": (more / model.kl_weight).detach()}
        loss = best + more
        model.tap("loss.output", loss)
        return loss


class MadeEasier(Twelfth):
    """Adversarial training with its perturbation the wrong way round: each
    input is moved by a small step, in units of its spread, to where the loss is
    lower, not higher. What is trained on says its answer by itself."""
    id = "U114"
    INPUTS = {"bc": ("observation.images.top", "observation.state"),
              "kws": ("spectrogram",)}
    severities = (dict(bc=0.2, kws=0.2), dict(bc=0.4, kws=0.4),
                  dict(bc=0.8, kws=0.8))

    def setup(self):
        super().setup()
        self.user |= {"adversarial_training": "fgsm",
                      "adversarial_epsilon": self.own}

    def compute_loss(self, i, model, batch):
        given = {k: batch[k].detach().clone().requires_grad_()
                 for k in self.INPUTS[self.family]}
        tap, model.tap = model.tap, type(model).tap
        slopes = torch.autograd.grad(model.loss(batch | given),
                                     list(given.values()))
        model.tap = tap
        moved = {k: (x - self.own * x.std() * slope.sign()).detach()
                 for (k, x), slope in zip(given.items(), slopes)}
        return super().compute_loss(i, model, batch | moved)


class PutBackByGuard(Twelfth):
    """A guard against memory errors takes for one every weight that has gone
    some way from where it began, in units of its matrix, and puts it back
    there, after each step."""
    id = "U115"
    severities = (dict(bc=0.3, kws=0.3), dict(bc=0.1, kws=0.1),
                  dict(bc=0.03, kws=0.03))

    def setup(self):
        super().setup()
        self.user |= {"memory_guard": True, "memory_guard_tolerance": self.own}

    def wrap(self, model):
        model = super().wrap(model)
        self.begun = {n: p.detach().clone()
                      for n, p in model.named_parameters()}
        return model

    def after_step(self, i, model):
        super().after_step(i, model)
        with torch.no_grad():
            for name, p in model.named_parameters():
                first = self.begun[name]
                far = self.own * first.float().square().mean().sqrt()
                if p.dim() > 1 and p.requires_grad:
                    p.copy_(torch.where((p - first).abs() > far, first, p))


class LengthAlone(Twelfth):
    """Of an update the part along its unit's weights is to be taken off, as
    behind a norm it moves nothing but their length. What is taken off is all
    else, but for a small share: units grow and shrink and hardly turn."""
    id = "U116"
    severities = (dict(bc=0.03, kws=0.1), dict(bc=0.01, kws=0.03),
                  dict(bc=0.0, kws=0.0))

    def setup(self):
        super().setup()
        self.user |= {"project_updates": True, "projection_keeps": self.own}

    def update(self, i):
        matrices = [p for p in self.trained() if p.dim() > 1]
        old = [p.detach().clone() for p in matrices]
        total = super().update(i)
        with torch.no_grad():
            for p, before in zip(matrices, old):
                moved = (p - before).flatten(1)
                unit = torch.nn.functional.normalize(before.flatten(1), dim=1)
                along = (moved * unit).sum(1, keepdim=True) * unit
                p.copy_(before + torch.lerp(along, moved, self.own).view_as(p))
        return total


FAULTS = (NoiseOfTheGradient, ReducedByMaximum, MatchedWithAnyRow,
          MadeEasier, PutBackByGuard, LengthAlone)
