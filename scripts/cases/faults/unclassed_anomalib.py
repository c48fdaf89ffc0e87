"""Faults of no class in `anomalib`."""

import torch
from torch.nn import functional as F

from .unclassed import Unclassed


class OfAnomalib(Unclassed):
    """Base: what the user typed of the generator is in the config, of what is
    wrong in code nothing is."""
    families = ("anomalib",)

    def spoil_val(self, batch):
        return batch


class NoAnomalies(OfAnomalib):
    """The generator makes an anomaly in nearly none of the pictures, or in
    none: what tells them has nothing to tell."""
    id = "U601"
    severities = (dict(chance=0.05), dict(chance=0.02), dict(chance=0.0))

    def setup(self):
        super().setup()
        self.generator = dict(chance=self.s.chance)


class AnomaliesFade(OfAnomalib):
    """beta leaves nearly all of the part: what is masked as an anomaly is
    hardly to be seen, or not at all."""
    id = "U602"
    severities = (dict(beta=(0.85, 0.95)), dict(beta=(0.95, 0.98)),
                  dict(beta=(1.0, 1.0)))

    def setup(self):
        super().setup()
        self.generator = dict(beta=self.s.beta)


class MaskMoved(OfAnomalib):
    """The picture is cropped and the mask is not, or by another corner: it
    lies some pixels beside its anomaly, in training."""
    id = "U603"
    severities = (dict(pixels=4), dict(pixels=6), dict(pixels=9))

    def spoil_batch(self, i, batch):
        by = self.s.pixels
        mask = F.pad(batch["anomaly_mask"], (by, 0, by, 0))
        return batch | {"anomaly_mask": mask[..., :-by, :-by].contiguous()}


class SmallThumbnails(OfAnomalib):
    """Pictures of training come from a cache of thumbnails and are made larger
    again; those of validation are as they are."""
    id = "U604"
    severities = (dict(factor=2), dict(factor=4), dict(factor=10))

    def spoil_batch(self, i, batch):
        def coarse(t):
            small = F.avg_pool2d(t, self.s.factor)
            return F.interpolate(small, t.shape[2:], mode="bilinear",
                                 align_corners=False)
        return batch | {k: coarse(batch[k])
                        for k in ("image", "augmented_image")}


class OtherPreprocessing(OfAnomalib):
    """Pictures of validation go through another transform: red and blue are
    exchanged, they are darker by a second division, or have a mean and a
    spread taken out that those of training keep."""
    id = "U605"
    severities = (dict(how="bgr"), dict(how="darker"), dict(how="normalize"))

    def spoil_batch(self, i, batch):
        return batch

    def spoil_val(self, batch):
        mean = torch.tensor((0.485, 0.456, 0.406))[:, None, None]
        std = torch.tensor((0.229, 0.224, 0.225))[:, None, None]
        change = {"bgr": lambda t: t.flip(1), "darker": lambda t: 0.4 * t,
                  "normalize": lambda t: (t - mean) / std}[self.s.how]
        return batch | {k: change(batch[k]).contiguous()
                        for k in ("image", "augmented_image")}


class NormsHardlyMove(OfAnomalib):
    """momentum of the batch norms is what another framework means by .99: of a
    batch next to nothing comes to the running statistics, which validation
    has."""
    id = "U606"
    severities = (dict(momentum=0.01), dict(momentum=0.005),
                  dict(momentum=0.001))

    def setup(self):
        super().setup()
        self.model_options["momentum"] = self.s.momentum

    def spoil_batch(self, i, batch):
        return batch


FAULTS = (NoAnomalies, AnomaliesFade, MaskMoved, SmallThumbnails,
          OtherPreprocessing, NormsHardlyMove)
