"""Faults of no class in `raft`."""

import torch
from torch.nn import functional as F

from ..raft import ITERS
from .unclassed import Unclassed


class OfRaft(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("raft",)

    def setup(self):
        super().setup()
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_val(self, batch):
        return batch


class LongFlowsExcluded(OfRaft):
    """MAX_FLOW is that of another data set, in units of which most flows here
    are too long: they do not count in training, whose loss leaves out all that
    goes further. Validation has all."""
    id = "U461"
    severities = (dict(most=2.0), dict(most=1.5), dict(most=0.8))

    def setup(self):
        super().setup()
        self.model_options["max_flow"] = self.s.most


class FlowsNotResized(OfRaft):
    """Training frames are made larger, and their flows are taken along without
    being made longer, as where one of the two augmentors was forgotten:
    training learns flows that are too short. Validation is as it was."""
    id = "U462"
    severities = (dict(scale=2.2), dict(scale=3.2), dict(scale=5.0))

    def setup(self):
        super().setup()
        self.user["spatial_scale"] = self.s.scale

    def spoil_batch(self, i, batch):
        def larger(x):
            size = x.shape[-2:]
            cut = [round(n / self.s.scale) for n in size]
            low = [(n - c) // 2 for n, c in zip(size, cut)]
            x = x[..., low[0]:low[0] + cut[0], low[1]:low[1] + cut[1]]
            return F.interpolate(x, size, mode="bilinear",
                                 align_corners=False)
        return batch | {k: larger(batch[k])
                        for k in ("image1", "image2", "flow")}


class FlowsNotMultiplied(OfRaft):
    """Flows in places are made larger without, or with less than, the stride
    by which they become pixels, in validation as well: the places at which
    the volume is looked up lie too far out when flows are right."""
    id = "U463"
    severities = (dict(factor=0.4), dict(factor=0.1), dict(factor=0.02))

    def setup(self):
        super().setup()
        self.model_options["upscale"] = self.s.factor


class LookedUpBeside(OfRaft):
    """Frames are padded and the grid of coordinates is not: the volume is
    looked up some places beside where it should be, in validation as well, so
    that matches are at the edge of what is seen or beyond it."""
    id = "U464"
    severities = (dict(places=3), dict(places=4), dict(places=6))

    def setup(self):
        super().setup()
        self.user["corr_pad"] = self.s.places

    def make_model(self):
        model = super().make_model()
        model.looks = lambda at: at + self.s.places
        return model


class WeightsReversed(OfRaft):
    """The sequence's weights are the wrong way round in training: the first
    prediction counts most and the last one hardly at all, with a gamma that
    is small. Validation weighs as it should."""
    id = "U465"
    severities = (dict(gamma=0.1), dict(gamma=0.03), dict(gamma=0.0))

    def setup(self):
        super().setup()
        self.user["train_gamma"] = self.s.gamma

    def make_model(self):
        model = super().make_model()
        model.weights = [self.s.gamma ** k for k in range(ITERS)]
        return model


class ErasedTooMuch(OfRaft):
    """The eraser of training, which hides a part of the second frame so that
    occlusions are learned, hides most of each; in its place is the frame's
    mean. Validation is whole."""
    id = "U466"
    severities = (dict(share=0.7), dict(share=0.85), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user |= {"eraser_aug_prob": 1.0,
                      "eraser_area": self.s.share}

    def spoil_batch(self, i, batch):
        x = batch["image2"].clone()
        rows, _, high, wide = x.shape
        mean = x.mean((2, 3), keepdim=True)
        tall, broad = (round(n * self.s.share ** 0.5) for n in (high, wide))
        for k in range(rows):
            top, left = (int(torch.randint(n + 1, (), generator=self.drawn))
                         for n in (high - tall, wide - broad))
            x[k, :, top:top + tall, left:left + broad] = mean[k]
        return batch | {"image2": x}


FAULTS = (LongFlowsExcluded, FlowsNotResized, FlowsNotMultiplied,
          LookedUpBeside, WeightsReversed, ErasedTooMuch)
