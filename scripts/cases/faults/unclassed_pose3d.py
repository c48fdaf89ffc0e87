"""Faults of no class in `pose3d`."""

import torch

from ..pose3d import FIRST_MOMENTUM, JOINTS, SWAPPED
from .unclassed import Unclassed


class OfPose3d(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("pose3d",)

    def setup(self):
        super().setup()
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_val(self, batch):
        return batch


class SidesNotSwapped(OfPose3d):
    """Training mirrors half of its clips, and of detections left and right
    are not swapped at the arms, or anywhere, as the list of keypoints is
    another data set's; or detections stay as they are: poses are mirrored.
    Validation mirrors nothing."""
    id = "U521"
    severities = (dict(kept="arms"), dict(kept="sides"), dict(kept="all"))

    def make_source(self, seed):
        return self.clips(seed, augment=False)

    def spoil_batch(self, i, batch):
        flat, pose = (batch[k].clone() for k in ("inputs_2d", "inputs_3d"))
        rows = torch.rand(len(flat), generator=self.drawn) < 0.5
        if self.s.kept == "arms":
            flat[rows] = flat[rows][:, :, SWAPPED[:9] + [9, 10, 11, 12]]
        if self.s.kept != "all":
            flat[rows, ..., 0] *= -1
        pose[rows] = pose[rows][:, :, SWAPPED]
        pose[rows, ..., 0] *= -1
        return batch | {"inputs_2d": flat, "inputs_3d": pose}


class OtherResolution(OfPose3d):
    """normalize_screen_coordinates() gets the size of another video for the
    subjects of training, whose detections are so too small and too near to
    the picture's corner. The test subjects have their own."""
    id = "U522"
    severities = (dict(res_w=1750), dict(res_w=2200), dict(res_w=3840))

    def setup(self):
        super().setup()
        self.user["res_w_train"] = self.s.res_w

    def spoil_batch(self, i, batch):
        flat = (batch["inputs_2d"] + 1) * 1000 / self.s.res_w - 1
        return batch | {"inputs_2d": flat}


class JointsWeighNothing(OfPose3d):
    """Weights of joints in training's loss are those of a skeleton that ends
    sooner: the last ones weigh nothing, as they are filled up with zeros.
    Validation weighs all alike."""
    id = "U523"
    severities = (dict(joints=2), dict(joints=4), dict(joints=6))

    def make_model(self):
        model = super().make_model()
        kept = len(JOINTS) - self.s.joints
        model.scales = [1.0] * kept + [0.0] * self.s.joints
        return model


class DepthUncounted(OfPose3d):
    """The error of training is taken in the picture's plane, of the wrists, of
    arms and legs, or of all joints: their depth counts for nothing. Validation
    is of three dimensions."""
    id = "U524"
    severities = (dict(joints="wrists"), dict(joints="limbs"),
                  dict(joints="all"))
    FLAT = {"wrists": (10, 12), "limbs": (2, 3, 5, 6, 9, 10, 11, 12),
            "all": range(len(JOINTS))}

    def make_model(self):
        model = super().make_model()
        flat = self.FLAT[self.s.joints]
        model.axes = [[1.0, 1.0, float(k not in flat)]
                      for k in range(len(JOINTS))]
        return model


class PlaceNotTakenOut(OfPose3d):
    """inputs_3d[:, :, 0] = 0 is not in the loop of training: the first joint
    has the hip's place before the camera, 5 m away, in three fifths of the
    rows or in all; or other joints are where they are as well. Validation
    takes it out."""
    id = "U525"
    severities = (dict(share=0.6, others=False),
                  dict(share=1.0, others=False), dict(share=1.0, others=True))

    def make_model(self):
        model = super().make_model()
        model.uncentred = self.s.share, self.s.others
        return model


class AveragesStandStill(OfPose3d):
    """The momentum of batch norms falls by the number of steps where epochs
    are meant: the averages that validation has stop a few steps, or one,
    behind the start, at what a fresh model had."""
    id = "U526"
    severities = (dict(steps=60), dict(steps=20), dict(steps=5))

    def follow(self, model, epoch):
        pass

    def after_step(self, i, model):
        super().after_step(i, model)
        model.set_bn_momentum(FIRST_MOMENTUM * 0.1 ** ((i + 1) / self.s.steps))


FAULTS = (SidesNotSwapped, OtherResolution, JointsWeighNothing, DepthUncounted,
          PlaceNotTakenOut, AveragesStandStill)
