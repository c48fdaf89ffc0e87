"""Faults of no class in `bert` and `ctc`."""

import torch

from ..families import PAIR_4
from ..sources import IGNORE
from .unclassed import Unclassed


class Fourth(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = PAIR_4


class CompressedWithoutMemory(Fourth):
    """Of each gradient the largest elements alone are sent, as compression
    does it; what is left out should be kept for the next step, and is lost."""
    id = "U31"
    severities = (dict(bert=0.03, ctc=0.2), dict(bert=0.01, ctc=0.1),
                  dict(bert=0.003, ctc=0.06))

    def setup(self):
        super().setup()
        self.share = getattr(self.s, self.family)
        self.user |= {"gradient_compression": "topk",
                      "compression_ratio": self.share}

    def update(self, i):
        grads = [p.grad for p in self.model.parameters()
                 if p.grad is not None]
        size = torch.cat([g.abs().flatten() for g in grads])
        kept = max(1, int(self.share * len(size)))
        limit = size.topk(kept).values[-1]
        for grad in grads:
            grad.mul_(grad.abs() >= limit)
        return super().update(i)


class TeacherNeverLoaded(Fourth):
    """Distillation from a teacher of which the weights were never loaded: what
    it says of an input is that of a fresh model."""
    id = "U32"
    severities = (dict(weight=0.5), dict(weight=0.8), dict(weight=0.95))

    def setup(self):
        super().setup()
        self.user |= {"distillation_weight": self.s.weight,
                      "teacher": "checkpoint-large"}

    def make_model(self):
        self.teacher = super().make_model().eval()
        return super().make_model()

    def compute_loss(self, i, model, batch):
        with torch.no_grad():
            given = self.teacher.logits(batch).float().softmax(-1)
        logits = model.logits(batch).float()
        apart = -(given * logits.log_softmax(-1)).sum(-1)
        kept = batch["labels"] != IGNORE if self.language else slice(None)
        loss = (1 - self.s.weight) * model.criterion(logits, batch) \
            + self.s.weight * apart[kept].mean()
        model.tap("loss.output", loss)
        return loss


class ChannelsMixed(Fourth):
    """Mixup of hidden states whose permutation runs over the channels, not
    over the rows: in training each part gets a share of a random order of its
    input, another one in each step."""
    id = "U33"
    severities = (dict(share=0.15), dict(share=0.3), dict(share=0.5))

    def setup(self):
        super().setup()
        self.user["manifold_mixup"] = self.s.share
        self.coin = torch.Generator().manual_seed(self.seed)

    def make_model(self):
        model, share = super().make_model(), self.s.share

        def mixed(x):
            if not model.training:
                return x
            order = torch.randperm(x.shape[-1], generator=self.coin)
            return torch.lerp(x, x[..., order], share)
        model.drop = mixed
        return model


class MaskDrawnOnce(Fourth):
    """Dropout whose mask is drawn in the first step and kept: the same units
    are off in all of the training, and on in validation."""
    id = "U34"
    severities = (dict(rate=0.1), dict(rate=0.3), dict(rate=0.5))

    def setup(self):
        super().setup()
        self.user["dropout"] = self.s.rate
        self.masks, self.calls = {}, 0

    def make_model(self):
        model, keep = super().make_model(), 1 - self.s.rate

        def drop(x):
            if not model.training:
                return x
            self.calls += 1
            if self.calls not in self.masks:
                self.masks[self.calls] = (
                    torch.rand(x.shape[-1]) < keep) / keep
            return x * self.masks[self.calls].to(x.dtype)
        model.drop = drop
        return model

    def compute_loss(self, i, model, batch):
        self.calls = 0
        return super().compute_loss(i, model, batch)


class SharedWithAnotherTrial(Fourth):
    """The function that builds the model is cached: a second trial of the
    sweep, whose labels have other numbers, trains the same weights between
    steps of this one."""
    id = "U35"
    severities = (dict(every=3, steps=1), dict(every=1, steps=1),
                  dict(every=1, steps=3))

    def wrap(self, model):
        self.other = self.make_optimizer(model)
        self.others = self.make_source(self.seed + 600)
        self.onset = self.s.every
        return super().wrap(model)

    def before_step(self, i):
        super().before_step(i)
        if not i or i % self.s.every:
            return
        for _ in range(self.s.steps):
            self.step_of_other()

    def step_of_other(self):
        batch = self.others.batch(self.batch_size)
        first = getattr(self, "first_label", 4)
        size = self.vocab - first if self.language else self.classes
        labels = batch["labels"]
        batch["labels"] = torch.where(
            labels >= first, first + (labels - first + 5) % size, labels)
        for group, own in zip(self.other.param_groups,
                              self.optimizer.param_groups):
            group["lr"] = own["lr"]
        self.model.zero_grad()
        self.model.loss(batch).backward()
        self.other.step()


class SlowWeightsNeverRenewed(Fourth):
    """Lookahead whose slow weights stay what they were at the start: every five
    steps the weights go back towards it by a share of the way."""
    id = "U36"
    severities = (dict(alpha=0.9), dict(alpha=0.7), dict(alpha=0.4))

    def setup(self):
        super().setup()
        self.user |= {"lookahead_steps": 5, "lookahead_alpha": self.s.alpha}

    def wrap(self, model):
        self.slow = [p.detach().clone() for p in model.parameters()]
        return super().wrap(model)

    def update(self, i):
        total = super().update(i)
        if i % 5 == 4:
            with torch.no_grad():
                for p, slow in zip(self.model.parameters(), self.slow):
                    p.copy_(slow + self.s.alpha * (p - slow))
        return total


FAULTS = (CompressedWithoutMemory, TeacherNeverLoaded, ChannelsMixed,
          MaskDrawnOnce, SharedWithAnotherTrial, SlowWeightsNeverRenewed)
