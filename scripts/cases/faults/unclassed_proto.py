"""Faults of no class in `proto`."""

import torch
from torch.nn import functional as F

from ..proto import SHOTS, SIDE, WAYS
from .unclassed import Unclassed


class OfProto(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("proto",)

    def setup(self):
        super().setup()
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_val(self, batch):
        return batch


class QueriesAreSupports(OfProto):
    """The slice of queries begins too early in training: three, four or all five
    queries of a kind are pictures of its support, whose prototype they are a
    part of. Validation slices right."""
    id = "U591"
    severities = (dict(again=3), dict(again=4), dict(again=5))

    def spoil_batch(self, i, batch):
        x, many = batch["x"].clone(), WAYS * self.s.again
        at = WAYS * SHOTS
        x[at:at + many] = x[:many]
        return batch | {"x": x}


class DistancesDivided(OfProto):
    """Distances are means over dimensions and pictures and not sums, in
    validation as well: scores of all kinds are nearly the same."""
    id = "U592"
    severities = (dict(divisor=36.0), dict(divisor=180.0),
                  dict(divisor=1296.0))

    def make_model(self):
        model = super().make_model()
        model.divisor = self.s.divisor
        return model


class KindsTwice(OfProto):
    """Folders of training are there twice under two names, and the sampler
    takes both: one, two or three kinds of an episode are pictures of another
    one of it."""
    id = "U593"
    severities = (dict(kinds=1), dict(kinds=2), dict(kinds=3))

    def spoil_batch(self, i, batch):
        x = batch["x"].clone().view(-1, WAYS, 1, SIDE, SIDE)
        other = x.roll(1, 0)    # no picture is there twice
        for k in range(self.s.kinds):
            x[:, k + 1] = other[:, 0] if k == 0 else other[:, 0].roll(k, 0)
        return batch | {"x": x.flatten(0, 1)}


class PrototypesScaled(OfProto):
    """Prototypes are sums divided by another number than that of their
    pictures, in validation as well: they lie further out than their kinds."""
    id = "U594"
    severities = (dict(scale=1.67), dict(scale=2.5), dict(scale=5.0))

    def make_model(self):
        model = super().make_model()
        model.scale = self.s.scale
        return model


class ValidationSmaller(OfProto):
    """Validation's pictures are resized to a smaller side than training's and
    padded."""
    id = "U595"
    severities = (dict(side=11), dict(side=8), dict(side=5))

    def setup(self):
        super().setup()
        self.user["image_size_val"] = self.s.side

    def spoil_batch(self, i, batch):
        return batch

    def spoil_val(self, batch):
        side = self.s.side
        low = (SIDE - side) // 2
        x = F.interpolate(batch["x"], size=(side, side), mode="area")
        return batch | {"x": F.pad(x, (low, SIDE - side - low) * 2)}


class KindsApart(OfProto):
    """Training sends the queries of each kind through the encoder by
    themselves, or supports and queries, or each kind's supports by themselves
    as well: norms see one kind at a time, which is gone from what they give.
    Validation has running means."""
    id = "U596"
    severities = (dict(of="queries"), dict(of="halves"), dict(of="kinds"))

    def groups(self, x):
        at = torch.arange(len(x))
        ways = at % WAYS
        asked = at >= WAYS * SHOTS
        kinds = [at[(ways == k) & asked] for k in range(WAYS)]
        if self.s.of == "queries":
            return [at[~asked], *kinds]
        if self.s.of == "halves":
            return [at[~asked & (ways == k)] for k in range(WAYS)] + kinds
        return [at[ways == k] for k in range(WAYS)]

    def make_model(self):
        model = super().make_model()
        model.apart = self.groups
        return model


FAULTS = (QueriesAreSupports, DistancesDivided, KindsTwice, PrototypesScaled,
          ValidationSmaller, KindsApart)
