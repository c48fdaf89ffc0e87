"""Faults of no class in `stgcn`."""

import math

import torch

from ..stgcn import CLASSES, FRAMES
from .unclassed import Unclassed


class OfStgcn(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("stgcn",)

    def setup(self):
        super().setup()
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_val(self, batch):
        return batch


class PieceOfAction(OfStgcn):
    """UniformSample of training takes its frames from a piece of each clip,
    of 4 frames, 2 or 1, anywhere, as p_interval is far too small: there it
    hardly moves, or not at all, and often nothing is to be seen yet.
    Validation has whole clips."""
    id = "U561"
    severities = (dict(frames=4), dict(frames=2), dict(frames=1))

    def setup(self):
        super().setup()
        self.user["data.train.p_interval"] = self.s.frames / FRAMES

    def spoil_batch(self, i, batch):
        x, wide = batch["keypoint"], self.s.frames
        first = torch.randint(FRAMES - wide + 1, (len(x), 1),
                              generator=self.drawn)
        at = first + torch.arange(FRAMES) * wide // FRAMES
        at = at.view(len(x), 1, 1, FRAMES, 1, 1).expand_as(x)
        return batch | {"keypoint": x.gather(3, at)}


class TurnedTooFar(OfStgcn):
    """RandomRot of training turns skeletons in the picture by any angle up to
    .5, .75 or 1 times pi: to lie is as likely as to stand. Validation is
    upright."""
    id = "U562"
    severities = (dict(theta=0.5), dict(theta=0.75), dict(theta=1.0))

    def setup(self):
        super().setup()
        self.user["data.train.random_rot_theta"] = round(
            math.pi * self.s.theta, 4)

    def spoil_batch(self, i, batch):
        x = batch["keypoint"].clone()
        angle = math.pi * self.s.theta * (2 * torch.rand(
            len(x), 1, 1, 1, 1, generator=self.drawn) - 1)
        cos, sin = angle.cos(), angle.sin()
        x[..., 0], x[..., 1] = x[..., 0] * cos - x[..., 1] * sin, \
            x[..., 0] * sin + x[..., 1] * cos
        return batch | {"keypoint": x}


class OtherJointOrder(OfStgcn):
    """Joints of the training file are in another layout than COCO's, whose
    graph is built: elbows and wrists, knees and ankles changed places, or arms
    and legs, or the order is OpenPose's. Validation is COCO's."""
    id = "U563"
    ARMS_LEGS = (0, 1, 2, 3, 4, 11, 12, 13, 14, 15, 16, 5, 6, 7, 8, 9, 10)
    severities = (
        dict(order=(0, 1, 2, 3, 4, 5, 6, 9, 10, 7, 8, 11, 12, 15, 16, 13, 14)),
        dict(order=ARMS_LEGS),
        dict(order=(0, 6, 8, 10, 5, 7, 9, 12, 14, 16, 11, 13, 15, 2, 1, 4, 3)))

    def spoil_batch(self, i, batch):
        return batch | {"keypoint": batch["keypoint"][
            ..., list(self.s.order), :].contiguous()}


class OtherPictureSize(OfStgcn):
    """PreNormalize2D of validation takes pictures of another size than those
    the keypoints are of: they are smaller, and beside where they were in
    training."""
    id = "U564"
    severities = (dict(img_shape=(1280, 2276)), dict(img_shape=(1440, 2560)),
                  dict(img_shape=(2160, 3840)))

    def setup(self):
        super().setup()
        self.user["data.val.img_shape"] = list(self.s.img_shape)

    def spoil_batch(self, i, batch):
        return batch

    def spoil_val(self, batch):
        x = batch["keypoint"].clone()
        part = 1080 / self.s.img_shape[0]
        there = x[..., 2:] > 0
        x[..., :2] = torch.where(there, part * (x[..., :2] + 1) - 1, 0.0)
        return batch | {"keypoint": x}


class CoarsePlaces(OfStgcn):
    """Keypoints were saved as the cells of a heatmap of 4, 3 or 2 cells a
    side in which they were found, without the offset within one: most of what
    moves is lost, in validation as well."""
    id = "U565"
    severities = (dict(cells=4), dict(cells=3), dict(cells=2))

    def setup(self):
        super().setup()
        self.user["data.heatmap_size"] = [self.s.cells] * 2

    def spoil_batch(self, i, batch):
        x, size = batch["keypoint"].clone(), 2 / self.s.cells
        x[..., :2] = torch.where(
            x[..., 2:] > 0, size * ((x[..., :2] / size).floor() + 0.5), 0.0)
        return batch | {"keypoint": x}

    def spoil_val(self, batch):
        return self.spoil_batch(-1, batch)


class ClassesWithoutWeight(OfStgcn):
    """Classes of training's loss are weighed by counts of an older list of
    labels, in which 3, 5 or 7 of the ten do not occur: these count nothing.
    Validation counts all alike."""
    id = "U566"
    severities = (dict(missing=3), dict(missing=5), dict(missing=7))

    def setup(self):
        super().setup()
        kept = CLASSES - self.s.missing
        self.weights = [CLASSES / kept] * kept + [0.0] * self.s.missing
        self.user["model.cls_head.loss_cls"] = {
            "type": "CrossEntropyLoss",
            "class_weight": [round(w, 3) for w in self.weights]}

    def make_model(self):
        model = super().make_model()
        model.weights = self.weights
        return model


FAULTS = (PieceOfAction, TurnedTooFar, OtherJointOrder, OtherPictureSize,
          CoarsePlaces, ClassesWithoutWeight)
