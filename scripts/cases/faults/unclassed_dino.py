"""Faults of no class in `dino`."""

import torch

from .unclassed import Unclassed


class OfDino(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("dino",)


class CentreNotTakenAway(OfDino):
    """Of what the teacher says the centre is not taken away, or it is added,
    in half or whole: what one prototype is ahead of others grows, and it takes
    all. In validation as well."""
    id = "U411"
    severities = (dict(weight=0.0), dict(weight=-0.5), dict(weight=-1.0))

    def setup(self):
        super().setup()
        self.user["center_weight"] = self.s.weight
        self.model_options["centred"] = self.s.weight


class TargetsNotSharp(OfDino):
    """The teacher's temperature rises to that of the student or above, so that
    what is to be said is ever more even: all prototypes alike."""
    id = "U412"
    severities = (dict(temperature=0.1), dict(temperature=0.2),
                  dict(temperature=0.5))

    def setup(self):
        super().setup()
        self.model_options["temperature"] = self.s.temperature


class OneCropTwice(OfDino):
    """A worker's generator is seeded by the picture, so that the second large
    crop of some pictures, or all, is the first again; training takes no small
    crops. What is the same pixel by pixel is told by anything; held-out
    pictures have two crops."""
    id = "U413"
    severities = (dict(share=0.8), dict(share=0.95), dict(share=1.0))

    def setup(self):
        super().setup()
        self.crop_options = {"twin": self.s.share, "local": 0}


class CropsTooSmall(OfDino):
    """Large crops show a few pixels of a picture, as with the bounds of small
    ones typed in the wrong place; held-out pictures have the usual ones."""
    id = "U414"
    severities = (dict(scale=(0.02, 0.06)), dict(scale=(0.01, 0.03)),
                  dict(scale=(0.002, 0.01)))

    def setup(self):
        super().setup()
        self.crop_options = {"large": self.s.scale}


class TeacherIsTheStudent(OfDino):
    """The momentum of the average is typed as the share of what is new, or
    nearly so: the teacher is the student of a step ago, and both run after
    each other. What is to be said changes faster than it is learned."""
    id = "U415"
    severities = (dict(momentum=0.5), dict(momentum=0.2), dict(momentum=0.0))

    def setup(self):
        super().setup()
        self.model_options["momentum"] = self.s.momentum


class MeanMadeSharp(OfDino):
    """A user's regularizer is to keep the mean of a batch's outputs even, and
    has the wrong sign: its entropy is made small, so that all pictures are to
    say one thing. Validation has the usual loss."""
    id = "U416"
    severities = (dict(weight=1.0), dict(weight=2.0), dict(weight=5.0))

    def setup(self):
        super().setup()
        self.user["me_max_weight"] = self.s.weight

    def make_model(self):
        model = super().make_model()
        own = model.criterion

        def criterion(said, wanted):
            loss = own(said, wanted)
            if not model.training:
                return loss
            mean = (said.float() / model.STUDENT).softmax(-1).mean((0, 1))
            entropy = -torch.special.xlogy(mean, mean).sum()
            return loss + self.s.weight * entropy

        model.criterion = criterion
        return model


FAULTS = (CentreNotTakenAway, TargetsNotSharp, OneCropTwice, CropsTooSmall,
          TeacherIsTheStudent, MeanMadeSharp)
