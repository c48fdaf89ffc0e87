"""Faults of no class in `moe` and `seg`."""

import collections

import torch
from torch.nn import functional as F

from ..families import PAIR_6
from ..seg import VOID
from ..sources import IGNORE
from .unclassed import Unclassed


class Sixth(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = PAIR_6

    def labels(self, batch):
        """Of each place, IGNORE where there is none."""
        if self.family == "moe":
            return batch["labels"]
        return torch.where(batch["mask"] == VOID, IGNORE, batch["mask"])

    def with_labels(self, batch, labels):
        if self.family == "moe":
            return batch | {"labels": labels}
        return batch | {"mask": torch.where(labels == IGNORE, VOID, labels)}

    @property
    def classes_at(self):
        """The axis of the logits on which classes lie."""
        return -1 if self.family == "moe" else 1


class PerturbationStays(Sixth):
    """Sharpness-aware minimisation whose way back is missing: weights climb
    along the gradient by rho, the optimizer steps from there, and nothing
    takes the climb back."""
    id = "U51"
    severities = (dict(moe=0.1, seg=0.05), dict(moe=0.2, seg=0.15),
                  dict(moe=0.6, seg=0.4))

    def setup(self):
        super().setup()
        self.rho = getattr(self.s, self.family)
        self.user |= {"sam": True, "sam_rho": self.rho}

    def update(self, i):
        grads = [p.grad for p in self.model.parameters()
                 if p.grad is not None]
        size = torch.cat([g.flatten() for g in grads]).norm() + 1e-12
        with torch.no_grad():
            for p in self.model.parameters():
                if p.grad is not None:
                    p.add_(p.grad, alpha=float(self.rho / size))
        return super().update(i)


class OwnAnswersAsLabels(Sixth):
    """Bootstrapping against noise in labels, with the two shares the wrong way
    round: a label is the model's own likeliest class, but for some."""
    id = "U52"
    severities = (dict(share=0.6), dict(share=0.8), dict(share=0.95))

    def setup(self):
        super().setup()
        self.user["bootstrap_beta"] = round(1 - self.s.share, 2)
        self.coin = torch.Generator().manual_seed(self.seed)

    def compute_loss(self, i, model, batch):
        logits, labels = model.logits(batch), self.labels(batch)
        own = logits.detach().argmax(self.classes_at)
        taken = torch.rand(labels.shape, generator=self.coin) < self.s.share
        labels = torch.where(taken & (labels != IGNORE), own, labels)
        loss = model.criterion(logits, self.with_labels(batch, labels))
        model.tap("loss.output", loss)
        return loss


class SoupOfLayers(Sixth):
    """Averaging of checkpoints whose mean runs over the wrong axis, not over
    files: every so many steps matrices of one shape become more alike, or the
    filters of a convolution."""
    id = "U53"
    severities = (dict(every=30), dict(every=10), dict(every=3))
    PART = 0.7

    def setup(self):
        super().setup()
        self.user["average_weights_every"] = self.onset = self.s.every

    def before_step(self, i):
        super().before_step(i)
        if not i or i % self.s.every:
            return
        shapes = collections.defaultdict(list)
        for p in self.model.parameters():
            if p.dim() > 1:
                if self.family == "seg" and len(p) > 5:
                    shapes[p] += p.unbind()
                elif self.family == "moe":
                    shapes[p.shape].append(p)
        with torch.no_grad():
            for alike in shapes.values():
                mean = sum(alike) / len(alike)
                for p in alike:
                    p.lerp_(mean, self.PART)


class PresentClassesAlone(Sixth):
    """The loss of a window has only the classes that occur in its labels, to
    save memory of the logits: what does not occur is never pushed down."""
    id = "U54"
    severities = (dict(moe=64, seg=16), dict(moe=16, seg=8),
                  dict(moe=4, seg=4))

    def setup(self):
        super().setup()
        self.window = getattr(self.s, self.family)
        self.user["loss_window"] = self.window

    def compute_loss(self, i, model, batch):
        logits, labels = model.logits(batch).float(), self.labels(batch)
        if self.family == "seg":  # windows as rows
            logits = logits.movedim(1, -1)
            n, wide = logits.shape[1] // self.window, self.window

            def windows(t):
                t = t.unflatten(1, (n, wide)).unflatten(3, (n, wide))
                return t.movedim(3, 2).flatten(3, 4).flatten(0, 2)
        else:
            def windows(t):
                return t.unflatten(1, (-1, self.window)).flatten(0, 1)
        logits, labels = windows(logits), windows(labels)
        count = logits.shape[-1]
        kept = F.one_hot(labels.clamp_min(0), count) \
            * (labels != IGNORE)[..., None]
        absent = kept.sum(1, keepdim=True) == 0
        loss = F.cross_entropy(
            logits.masked_fill(absent, -1e4).flatten(0, 1), labels.flatten(),
            ignore_index=IGNORE)
        model.tap("loss.output", loss)
        return loss


class JigsawLeftOn(Sixth):
    """A pretext task is still on in training: tiles of an image, or chunks of
    a row, are put together anew, and their labels with them."""
    id = "U55"
    severities = (dict(moe=8, seg=4), dict(moe=4, seg=2), dict(moe=2, seg=1))

    def setup(self):
        super().setup()
        self.size = getattr(self.s, self.family)
        self.user |= {"jigsaw": True, "jigsaw_size": self.size}
        self.order = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        if i < 0:
            return batch
        if self.family == "moe":  # positions and documents stay
            order = self.shuffled(len(batch["input_ids"]),
                                  self.context // self.size)
            return batch | {
                name: batch[name].unflatten(1, (-1, self.size)).gather(
                    1, order[..., None].expand(-1, -1, self.size)).flatten(1)
                for name in ("input_ids", "labels", "completion_mask")}
        image, mask = batch["image"], batch["mask"]
        n = image.shape[-1] // self.size
        order = self.shuffled(len(image), n * n)

        def mixed(x):
            tiles = F.unfold(x, self.size, stride=self.size)
            tiles = tiles.gather(2, order[:, None].expand(
                -1, tiles.shape[1], -1))
            return F.fold(tiles, image.shape[-2:], self.size,
                          stride=self.size)
        return {"image": mixed(image),
                "mask": mixed(mask[:, None].float())[:, 0].long()}

    def shuffled(self, rows, parts):
        return torch.rand(rows, parts, generator=self.order).argsort(1)

    def spoil_val(self, batch):
        return batch


class SlowGradientsAmplified(Sixth):
    """A filter from an experiment on grokking is left in the loop: the mean
    of gradients over many steps is added to each, times a factor."""
    id = "U56"
    severities = (dict(moe=2, seg=1, alpha=0.98),
                  dict(moe=8, seg=3, alpha=0.98),
                  dict(moe=30, seg=10, alpha=0.99))

    def setup(self):
        super().setup()
        self.factor, self.means = getattr(self.s, self.family), {}
        self.user |= {"grokfast_alpha": self.s.alpha,
                      "grokfast_lamb": self.factor}

    def update(self, i):
        for p in self.model.parameters():
            if p.grad is None:
                continue
            mean = self.means.setdefault(p, p.grad.clone())
            mean.mul_(self.s.alpha).add_(p.grad, alpha=1 - self.s.alpha)
            p.grad.add_(mean, alpha=self.factor)
        return super().update(i)


FAULTS = (PerturbationStays, OwnAnswersAsLabels, SoupOfLayers,
          PresentClassesAlone, JigsawLeftOn, SlowGradientsAmplified)
