"""Faults of no class in `timm`."""

import torch
from torch.nn import functional as F

from .unclassed import Unclassed


class OfTimm(Unclassed):
    """Base: what the user typed is in the config."""
    families = ("timm",)


class AverageTooSlow(OfTimm):
    """model_ema_decay is that of runs of a hundred thousand updates, without
    warm-up: the average, which validation and the best checkpoint have, still
    is what the run began with. The weights themselves do well."""
    id = "U391"
    severities = (dict(decay=0.99), dict(decay=0.997), dict(decay=0.9998))

    def setup(self):
        super().setup()
        self.user["model_ema_decay"] = self.s.decay


class ErasesAll(OfTimm):
    """Random erasing at each picture, of half of it, of two thirds or of
    nearly all: often nothing is left of a sign that has a label."""
    id = "U392"
    severities = (dict(low=0.4, high=0.6), dict(low=0.6, high=0.8),
                  dict(low=0.85, high=1.0))

    def setup(self):
        super().setup()
        self.user |= {"reprob": 1.0, "re_min_area": self.s.low,
                      "re_max_area": self.s.high}


class ValidationSeesOthers(OfTimm):
    """The loader of validation is another one than that of training: it does
    not turn BGR round, gives grey pictures, or none that are normalized."""
    id = "U393"
    severities = (dict(kind="mean"), dict(kind="grey"), dict(kind="bgr"))

    def spoil_val(self, batch):
        x = batch["input"]
        if self.s.kind == "mean":
            x = x + torch.tensor([2.1, 2.0, 1.8]).view(1, -1, 1, 1)
        elif self.s.kind == "grey":
            x = x.mean(1, keepdim=True).expand_as(x).clone()
        else:
            x = x.flip(1)
        return batch | {"input": x}


class GreyedOut(OfTimm):
    """grayscale_prob of .4 to .8, as for pictures whose colours say nothing:
    here they say most, and of many pictures training does not see them."""
    id = "U394"
    severities = (dict(prob=0.4), dict(prob=0.6), dict(prob=0.8))

    def setup(self):
        super().setup()
        self.user["grayscale_prob"] = self.s.prob
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        x = batch["input"]
        some = torch.rand(len(x), 1, 1, 1,
                          generator=self.drawn) < self.s.prob
        return batch | {"input": torch.where(
            some, x.mean(1, keepdim=True), x)}

    def spoil_val(self, batch):
        return batch


class SmoothedAway(OfTimm):
    """Label smoothing of .6 to .95 where .1 was meant: nearly nothing is left
    of the label, in training alone."""
    id = "U395"
    severities = (dict(share=0.6), dict(share=0.8), dict(share=0.95))

    def setup(self):
        super().setup()
        self.user["smoothing"] = self.s.share


class CropsTooSmall(OfTimm):
    """RandomResizedCrop takes a third of a picture, a fifth, or less, and makes
    it as large as the whole: training has parts of signs, too large ones, or
    none. Validation has whole pictures."""
    id = "U396"
    severities = (dict(scale=[0.25, 0.45]), dict(scale=[0.15, 0.25]),
                  dict(scale=[0.04, 0.1]))

    def setup(self):
        super().setup()
        self.user["scale"] = self.s.scale
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        x = batch["input"]
        low, high = self.s.scale
        area = low + (high - low) * torch.rand(len(x), generator=self.drawn)
        side = area.sqrt()
        at = (1 - side) * (2 * torch.rand(2, len(x), generator=self.drawn)
                           - 1)
        zero = torch.zeros_like(side)
        grid = F.affine_grid(torch.stack((
            torch.stack((side, zero, at[0]), -1),
            torch.stack((zero, side, at[1]), -1)), 1), x.shape,
            align_corners=False)
        return batch | {"input": F.grid_sample(x, grid, align_corners=False)}

    def spoil_val(self, batch):
        return batch


FAULTS = (AverageTooSlow, ErasesAll, ValidationSeesOthers, GreyedOut,
          SmoothedAway, CropsTooSmall)
