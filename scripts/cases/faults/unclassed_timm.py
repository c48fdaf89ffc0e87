"""Faults of no class in `timm`."""

import torch

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


class PathsDropped(OfTimm):
    """Stochastic depth at a rate for nets of a hundred blocks: the last
    branches are hardly ever there in training, and always in validation."""
    id = "U394"
    severities = (dict(rate=0.8), dict(rate=0.9), dict(rate=0.97))

    def setup(self):
        super().setup()
        self.user["drop_path"] = self.s.rate


class SmoothedAway(OfTimm):
    """Label smoothing of .6 to .95 where .1 was meant: nearly nothing is left
    of the label, in training alone."""
    id = "U395"
    severities = (dict(share=0.6), dict(share=0.8), dict(share=0.95))

    def setup(self):
        super().setup()
        self.user["smoothing"] = self.s.share


class TargetsBinarized(OfTimm):
    """Binary cross-entropy with a threshold for soft targets that those of
    mixed or smoothed labels seldom reach: then a picture is of no class."""
    id = "U396"
    severities = (dict(bound=0.6), dict(bound=0.75), dict(bound=0.9))

    def setup(self):
        super().setup()
        self.user |= {"bce_loss": True, "bce_target_thresh": self.s.bound}


FAULTS = (AverageTooSlow, ErasesAll, ValidationSeesOthers, PathsDropped,
          SmoothedAway, TargetsBinarized)
