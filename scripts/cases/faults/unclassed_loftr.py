"""Faults of no class in `loftr`."""

from ..loftr import FINE
from .unclassed import Unclassed


class OfLoftr(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("loftr",)

    def spoil_val(self, batch):
        return batch


class PairsHardlyMove(OfLoftr):
    """Training takes pairs that overlap nearly wholly, as the score that is
    asked for is far too high: nothing turns and little moves, so that a place
    is found where it was. Validation has pairs as they come."""
    id = "U551"
    severities = (dict(far=2.0, score=0.8), dict(far=1.0, score=0.9),
                  dict(far=0.0, score=0.99))

    def setup(self):
        super().setup()
        self.user["DATASET.MIN_OVERLAP_SCORE_TRAIN"] = self.s.score

    def make_source(self, seed):
        return super().make_source(seed) if seed == 9 else self.planes(
            seed, far=self.s.far, tilts=False)


class CropForgotten(OfLoftr):
    """Second pictures of training are cropped on the left by some pixels, and
    homographies are those from before: what is learned is beside what is
    meant. Validation crops nothing."""
    id = "U552"
    severities = (dict(pixels=3), dict(pixels=5), dict(pixels=8))

    def setup(self):
        super().setup()
        self.user["DATASET.CROP_LEFT_TRAIN"] = self.s.pixels

    def spoil_batch(self, i, batch):
        return batch | {"image1": batch["image1"].roll(-self.s.pixels, 3)}


class NegativesOutweigh(OfLoftr):
    """Places that do not match weigh far more than those that do, with a
    NEG_WEIGHT that was meant for a sum and not a mean, in validation as well:
    nothing is said to match any more."""
    id = "U553"
    severities = (dict(weight=3e3), dict(weight=3e4), dict(weight=3e5))

    def setup(self):
        super().setup()
        self.model_options["neg_weight"] = self.s.weight


class SpreadGamed(OfLoftr):
    """The weight of an error in training's fine loss is one over its spread,
    as it is and not detached, to the power 4, 8 or 16: the loss falls as
    windows are sure of nothing. Validation has the trainer's."""
    id = "U554"
    severities = (dict(power=4), dict(power=8), dict(power=16))

    def make_model(self):
        model = super().make_model()
        model.gamed = self.s.power
        return model


class WindowsBeside(OfLoftr):
    """Windows of the second picture are cut some places of the fine map too
    far to the right, as where its padding was counted twice, in validation
    as well: what is looked for is at their edge or beyond it."""
    id = "U555"
    severities = (dict(places=2), dict(places=3), dict(places=5))

    def setup(self):
        super().setup()
        self.user["LOFTR.FINE_WINDOW_PADDING"] = FINE * self.s.places
        self.model_options["beside"] = self.s.places


class SoftmaxTooWarm(OfLoftr):
    """The temperature of the dual softmax is far too high, in validation as
    well: scores are all alike to it."""
    id = "U556"
    severities = (dict(temperature=4.0), dict(temperature=12.0),
                  dict(temperature=50.0))

    def setup(self):
        super().setup()
        self.model_options["temperature"] = self.s.temperature


FAULTS = (PairsHardlyMove, CropForgotten, NegativesOutweigh, SpreadGamed,
          WindowsBeside, SoftmaxTooWarm)
