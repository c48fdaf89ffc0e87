"""Faults of no class in `nnu`."""

import torch
from torch.nn import functional as F

from ..nnu import CLASSES, IGNORED
from .unclassed import Unclassed


class OfNnu(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("nnu",)


class OfMaps(OfNnu):
    """Base: the maps of all resolutions are changed before the loss sees
    them, in validation as well."""

    def make_model(self):
        model = super().make_model()
        own = model.outputs
        model.outputs = lambda batch: self.of_outputs(own(batch), own, batch)
        return model

    def of_outputs(self, outputs, own, batch):
        return [self.changed(out) for out in outputs]

    def changed(self, out):
        raise NotImplementedError


class OfLoss(OfNnu):
    """Base: training has a loss of its own, of probabilities and of what is
    annotated, at the resolutions that count; validation has the usual one."""

    def compute_loss(self, i, model, batch):
        labels, loss = model.labels(batch), 0.0
        for out, weight in zip(model.outputs(batch), model.weights):
            if weight:
                step = labels.shape[-1] // out.shape[-1]
                at = labels[..., ::step, ::step]
                seen = (at != IGNORED)[:, None]
                real = torch.stack([at == k for k in range(CLASSES)], 1)
                loss = loss + weight * self.of_maps(
                    out.float().softmax(1), real.float(), seen)
        model.tap("loss.output", loss)
        return loss

    def of_maps(self, probs, real, seen):
        raise NotImplementedError


class WindowWeighsLogits(OfMaps):
    """The weights by which overlapping windows are put together, which fall
    from a window's middle to its edges, are multiplied to the logits of single
    patches, in validation as well: what lies near an edge cannot be told."""
    id = "U231"
    severities = (dict(sigma_scale=0.25), dict(sigma_scale=0.18),
                  dict(sigma_scale=0.125))

    def setup(self):
        super().setup()
        self.user |= {"use_gaussian": True, "sigma_scale": self.s.sigma_scale}

    def changed(self, out):
        weight = torch.ones(())
        for size in out.shape[2:]:
            place = torch.arange(size) - (size - 1) / 2
            wide = max(self.s.sigma_scale * size, 0.5)
            weight = weight[..., None] * torch.exp(
                -0.5 * (place / wide).square())
        return out * (weight / weight.max())


class MirroredNotTurnedBack(OfMaps):
    """What is said of a patch is averaged with what is said of its mirror
    image, and that is not mirrored back, in validation as well: each thing
    has a ghost on the other side."""
    id = "U232"
    severities = (dict(share=0.42), dict(share=0.46), dict(share=0.5))

    def setup(self):
        super().setup()
        self.user |= {"mirror_axes": [2], "mirrored_share": self.s.share}

    def of_outputs(self, outputs, own, batch):
        other = own(batch | {"data": batch["data"].flip(-1)})
        return [(1 - self.s.share) * a + self.s.share * b
                for a, b in zip(outputs, other)]


class SlabsOfSlices(OfMaps):
    """What is shown of a volume are slabs of some slices, projected by their
    mean or their highest value, and the projection is on in the network, in
    validation as well: all slices of a slab are told to be the same."""
    id = "U233"
    severities = (dict(slab=2, kind="mean"), dict(slab=4, kind="mean"),
                  dict(slab=4, kind="max"))

    def setup(self):
        super().setup()
        self.user |= {"slab_slices": self.s.slab, "projection": self.s.kind}

    def changed(self, out):
        slabs = out.unflatten(2, (-1, self.s.slab))
        flat = slabs.mean(3, keepdim=True) if self.s.kind == "mean" \
            else slabs.amax(3, keepdim=True)
        return flat.expand_as(slabs).flatten(2, 3)


class DistancesAlone(OfLoss):
    """A boundary loss that is to go with others is on alone: probabilities
    times the distance from a class's outline, which is negative within it. It
    is least where everything is certain, what is near an outline costs next to
    nothing, and validation has likelihood and Dice."""
    id = "U234"
    severities = (dict(power=1.0), dict(power=2.0), dict(power=3.0))
    MOST = 6

    def setup(self):
        super().setup()
        self.user |= {"loss": "BoundaryLoss", "distance_power": self.s.power}

    def of_maps(self, probs, real, seen):
        far, grown, left = torch.zeros_like(real), real, 1 - real
        for _ in range(self.MOST):  # in steps of one voxel
            far = far + (1 - grown) - (1 - left)
            grown = F.max_pool3d(grown, (1, 3, 3), 1, (0, 1, 1))
            left = F.max_pool3d(left, (1, 3, 3), 1, (0, 1, 1))
        far = far / self.MOST
        far = far.sign() * far.abs() ** self.s.power * seen
        axes = (0, 2, 3, 4)     # within and without each count once
        each = [(probs * far * side).sum(axes) / side.sum(axes).clamp_min(1)
                for side in (real * seen, (1 - real) * seen)]
        return (each[0] + each[1]).mean()


class CoarseMapShuts(OfNnu):
    """A cascade in one network: what the coarse map is not sure to be
    something is not looked at any more, its features are made 0 before the
    last stage, in validation as well. The bound is so high that little
    passes."""
    id = "U235"
    severities = (dict(bound=0.9), dict(bound=0.97), dict(bound=0.995))

    def setup(self):
        super().setup()
        self.user["roi_threshold"] = self.s.bound

    def make_model(self):
        model = super().make_model()
        model.gate = self.gated
        return model

    def gated(self, x, coarse):
        sure = 1 - coarse.detach().float().softmax(1)[:, :1] > self.s.bound
        scale = x.shape[-1] // coarse.shape[-1]
        return x * sure.float().repeat_interleave(scale, -1) \
            .repeat_interleave(scale, -2)


class SkeletonsAlone(OfLoss):
    """A loss for thin vessels: skeletons of what is said are to lie in what
    is annotated, and the other way round. How thick something is costs nothing
    in training, and most of what there is here is thick."""
    id = "U236"
    severities = (dict(iterations=2), dict(iterations=4), dict(iterations=8))

    def setup(self):
        super().setup()
        self.user |= {"loss": "soft_clDice", "iter_": self.s.iterations}

    @staticmethod
    def dilated(x):
        return F.max_pool3d(x, (1, 3, 3), 1, (0, 1, 1))

    def skeleton(self, x):
        def ridge(x):
            return (x - self.dilated(-self.dilated(-x))).relu()
        found = ridge(x)
        for _ in range(self.s.iterations):
            x = -self.dilated(-x)
            more = ridge(x)
            found = found + (more - found * more).relu()
        return found

    def of_maps(self, probs, real, seen):
        probs, real = (probs * seen)[:, 1:], (real * seen)[:, 1:]
        axes = (0, 2, 3, 4)
        said, drawn = self.skeleton(probs), self.skeleton(real)
        within = ((said * real).sum(axes) + 1) / (said.sum(axes) + 1)
        found = ((drawn * probs).sum(axes) + 1) / (drawn.sum(axes) + 1)
        return -(2 * within * found / (within + found)).mean()


FAULTS = (WindowWeighsLogits, MirroredNotTurnedBack, SlabsOfSlices,
          DistancesAlone, CoarseMapShuts, SkeletonsAlone)
