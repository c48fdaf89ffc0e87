"""Faults of no class in `reid`."""

import torch
from torch.nn import functional as F

from .unclassed import Unclassed


class OfReid(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("reid",)


class HuesTurned(OfReid):
    """Augmentation that changes who it is: the colours of training pictures
    are turned into one another by any angle, in .6, .85 or all of them.
    Validation is as it is."""
    id = "U531"
    severities = (dict(prob=0.6), dict(prob=0.85), dict(prob=1.0))

    def setup(self):
        super().setup()
        self.user |= {"INPUT.CJ.ENABLED": True, "INPUT.CJ.HUE": 0.5,
                      "INPUT.CJ.PROB": self.s.prob}

    def make_model(self):
        model = super().make_model()
        own, share = model.augment, self.s.prob

        def augment(x):
            x = own(x)
            angle = 6.2832 * torch.rand(len(x), 1, 1)
            angle = angle * (torch.rand(len(x), 1, 1) < share)
            # A turn about the axis of greys.
            cross = torch.tensor(((0.0, -1.0, 1.0), (1.0, 0.0, -1.0),
                                  (-1.0, 1.0, 0.0))) / 3 ** 0.5
            turn = angle.cos() * torch.eye(3) + angle.sin() * cross \
                + (1 - angle.cos()) / 3
            return torch.einsum("bij,bjhw->bihw", turn, x).clamp(0, 255)
        model.augment = augment
        return model


class MostErased(OfReid):
    """Random erasing takes 9, 11 or 13 of a training picture's 16 rows, and
    always does: of most people too little is left. Validation is whole."""
    id = "U532"
    severities = (dict(rows=9), dict(rows=11), dict(rows=13))

    def setup(self):
        super().setup()
        share = self.s.rows / 16
        self.user |= {"INPUT.REA.PROB": 1.0, "INPUT.REA.MIN_AREA": share,
                      "INPUT.REA.MAX_AREA": share}

    def make_model(self):
        model = super().make_model()
        own, rows = model.augment, self.s.rows
        model.augment = lambda x: model.erased(own(x), 1.0, rows, 8)
        return model


class OtherPicturesTested(OfReid):
    """Evaluation reads pictures by code of its own: as blue, green and red,
    enlarged from their middle, or as shares of 1 where 255 is meant. Training
    is as it is."""
    id = "U533"
    severities = (dict(how="crop"), dict(how="bgr"), dict(how="unit"))

    def setup(self):
        super().setup()
        self.user |= {"crop": {"INPUT.CROP_TEST.ENABLED": True,
                               "INPUT.CROP_TEST.SIZE": [8, 4]},
                      "bgr": {"INPUT.FORMAT_TEST": "BGR"},
                      "unit": {"INPUT.TO_TENSOR_TEST": True}}[self.s.how]

    def make_model(self):
        model = super().make_model()
        own, how = model.preprocess_image, self.s.how

        def preprocess(batch):
            if model.training:
                return own(batch)
            x = batch["images"]
            if how == "bgr":
                x = x.flip(1)
            elif how == "crop":
                x = F.interpolate(x[:, :, 4:12, 2:6], x.shape[2:])
            else:
                x = x / 255
            return own(batch | {"images": x})
        model.preprocess_image = preprocess
        return model


class NormsForget(OfReid):
    """Averages of the batch norms hardly follow, or never, as where the
    momentum is taken for that of another library: training is right, and
    evaluation has the statistics of a fresh network."""
    id = "U534"
    severities = (dict(momentum=0.005), dict(momentum=0.002),
                  dict(momentum=0.0))

    def setup(self):
        super().setup()
        self.user["MODEL.BACKBONE.NORM_MOMENTUM"] = self.s.momentum

    def make_model(self):
        model = super().make_model()
        for part in model.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.momentum = self.s.momentum
        return model


class CosinesUnscaled(OfReid):
    """The classifier has cosines, as for a softmax with a margin, and their
    scale is left at 2, 1 or .5 where 30 or more is usual: no probability can
    be high, in validation as well."""
    id = "U535"
    severities = (dict(scale=2.0), dict(scale=1.0), dict(scale=0.5))

    def setup(self):
        super().setup()
        self.model_options |= {"cls_layer": "CosSoftmax",
                               "scale": self.s.scale}


class OneCameraEach(OfReid):
    """Of a person training has the pictures of one camera, always or nearly:
    what the camera does to colours tells who it is. Validation has all
    cameras."""
    id = "U536"
    severities = (dict(share=0.9), dict(share=0.96), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["DATASETS.ONE_CAMERA_PER_PID"] = self.s.share

    def make_source(self, seed):
        return self.passers(
            seed, one_camera=0.0 if seed == 9 else self.s.share)


FAULTS = (HuesTurned, MostErased, OtherPicturesTested, NormsForget,
          CosinesUnscaled, OneCameraEach)
