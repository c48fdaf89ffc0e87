"""Faults of no class in `yolo`."""

import torch
from torch.nn import functional as F

from .unclassed import Unclassed


class OfYolo(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("yolo",)

    def compute_loss(self, i, model, batch):
        loss = model.criterion(model.logits(batch), batch, **self.how())
        model.tap("loss.output", loss)
        return loss

    def how(self):
        """What the loss of training has that is not usual; that of validation
        is the model's own."""
        return {}


class TargetsNotRaised(OfYolo):
    """How well a place fits an object (the root of its score times a power of
    the overlap) is the score it is to have as it is: nobody divides it by the
    best of the object. What is said sinks, and with it what is to be said.
    Validation has targets as they should be."""
    id = "U341"
    severities = (dict(power=1.0), dict(power=3.0), dict(power=6.0))

    def setup(self):
        super().setup()
        self.user |= {"tal_normalize": False, "tal_beta": self.s.power}

    def how(self):
        return {"plain": self.s.power}


class PeaksAlone(OfYolo):
    """An experiment to do without suppression afterwards: in the head scores
    that are not the highest of a window of 3, 7, 15 places are set low, in
    validation as well. Places beside one of the same class cannot be told to
    be one's."""
    id = "U342"
    severities = (dict(window=3), dict(window=7), dict(window=15))

    def setup(self):
        super().setup()
        self.user["head_peak_window"] = self.s.window
        self.model_options["peaks"] = self.s.window


class BoxesByOneNumber(OfYolo):
    """A loss of boxes that compares one thing about them: where their middles
    are, how large they are, or how wide for their height. All else of a box
    costs nothing in training; validation has the usual terms."""
    id = "U343"
    severities = (dict(kind="center"), dict(kind="area"), dict(kind="aspect"))

    def setup(self):
        super().setup()
        self.user["bbox_loss"] = self.s.kind

    def how(self):
        return {"of_boxes": self.of_boxes}

    def of_boxes(self, found, target):
        size, real = ((b[:, 2:] - b[:, :2]).clamp_min(0.1)
                      for b in (found, target))
        if self.s.kind == "center":
            middle, wanted = ((b[:, 2:] + b[:, :2]) / 2
                              for b in (found, target))
            apart = (middle - wanted).abs().mean(1) / 4
        else:
            way = 1 if self.s.kind == "area" else -1
            size, real = (b.log()[:, 0] + way * b.log()[:, 1]
                          for b in (size, real))
            apart = (size - real).abs() / 2
        return apart, torch.zeros_like(apart)


class TilesApart(OfYolo):
    """Pictures are cut into tiles as for small objects in large pictures, and
    each of them is seen alone, in validation as well: tiles are as large as
    the objects, or smaller, and nothing overlaps."""
    id = "U344"
    severities = (dict(tile=[16, 16]), dict(tile=[16, 8]), dict(tile=[8, 8]))

    def setup(self):
        super().setup()
        self.user |= {"slice_height": self.s.tile[0],
                      "slice_width": self.s.tile[1], "overlap_ratio": 0.0}
        self.model_options["tiles"] = self.s.tile


class SidesTied(OfYolo):
    """Boxes are centred on the places that say them, along one axis or both,
    or are squares at that: sides are the mean of what is said of them, in
    validation as well."""
    id = "U345"
    severities = (dict(tied="x"), dict(tied="xy"), dict(tied="all"))

    def setup(self):
        super().setup()
        self.user["tied_sides"] = self.s.tied
        self.model_options["tied"] = self.s.tied


class PicturesNotPlaces(OfYolo):
    """As for pictures without boxes: the loss of classes asks of a picture
    which ones it has, by the highest score, a soft highest one or the mean of
    all places. Which place it is costs nothing in training; validation asks
    each place."""
    id = "U346"
    severities = (dict(pool="max"), dict(pool="lse"), dict(pool="mean"))

    def setup(self):
        super().setup()
        self.user["cls_loss_pool"] = self.s.pool

    def how(self):
        return {"of_kinds": self.of_kinds}

    def of_kinds(self, logits, wanted):
        said = {"max": lambda x: x.amax(1), "mean": lambda x: x.mean(1),
                "lse": lambda x: x.logsumexp(1)}[self.s.pool](logits)
        return F.binary_cross_entropy_with_logits(
            said, (wanted > 0).any(1).float(), reduction="none")


FAULTS = (TargetsNotRaised, PeaksAlone, BoxesByOneNumber, TilesApart,
          SidesTied, PicturesNotPlaces)
