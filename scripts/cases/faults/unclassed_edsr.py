"""Faults of no class in `edsr`."""

import torch
from torch.nn import functional as F

from ..edsr import SCALE
from .unclassed import Unclassed


class OfEdsr(Unclassed):
    """Base: what the user typed of the experiment is in the options, of what
    is wrong in code nothing is."""
    families = ("edsr",)


class AverageTooSlow(OfEdsr):
    """The average of the weights, which validation and params_ema have, is
    that of a run a thousand times as long: at the end it has a part of what
    was learned, or nothing. Training is as it should be."""
    id = "U421"
    severities = (dict(decay=0.99), dict(decay=0.997), dict(decay=0.9999))

    def setup(self):
        super().setup()
        self.EMA = self.s.decay


class BlurredInTraining(OfEdsr):
    """Smaller pictures of training are made with a blur that those of
    validation do not have: edges are sharpened that are sharp already."""
    id = "U422"
    severities = (dict(sigma=0.7), dict(sigma=1.0), dict(sigma=1.5))

    def setup(self):
        super().setup()
        self.user["lq_blur_sigma"] = self.s.sigma

    def spoil_batch(self, i, batch):
        return batch | {"lq": self.blurred(batch["lq"], self.s.sigma)}

    def spoil_val(self, batch):
        return batch


class LossOfSmall(OfEdsr):
    """Errors of training are those of pictures at a half, a quarter or an
    eighth of their size, as of a consistency with what was seen: what is finer
    costs nothing."""
    id = "U423"
    severities = (dict(scale=2), dict(scale=4), dict(scale=8))

    def setup(self):
        super().setup()
        self.user["downscale"] = self.s.scale

    def make_model(self):
        model = super().make_model()
        model.of_pixels = lambda said, gt: (
            F.avg_pool2d(said, self.s.scale)
            - F.avg_pool2d(gt, self.s.scale)).abs().mean()
        return model


class ColoursNotCounted(OfEdsr):
    """The loss of training has red and green alone, or green alone, or how
    bright it is (as test_y_channel of metrics). Validation has all
    colours."""
    id = "U424"
    severities = (dict(channels="rg"), dict(channels="g"),
                  dict(channels="y"))
    WEIGHTS = {"rg": [[1, 0, 0], [0, 1, 0]], "y": [[0.257, 0.504, 0.098]],
               "g": [[0, 1, 0]]}

    def setup(self):
        super().setup()
        self.user["loss_channels"] = self.s.channels

    def make_model(self):
        model = super().make_model()
        weights = torch.tensor(self.WEIGHTS[self.s.channels]).float()
        model.of_pixels = lambda said, gt: torch.einsum(
            "oc,ncyx->noyx", weights, said - gt).abs().mean()
        return model


class EasyPixelsAlone(OfEdsr):
    """Large errors are taken for faults of the pictures and left out of the
    loss of training: of a batch's numbers the best half, fifth or twentieth
    counts."""
    id = "U425"
    severities = (dict(share=0.5), dict(share=0.2), dict(share=0.05))

    def setup(self):
        super().setup()
        self.user["keep_ratio"] = self.s.share

    def make_model(self):
        model = super().make_model()

        def easy(said, gt):
            off = (said - gt).abs().flatten()
            count = max(1, int(self.s.share * off.numel()))
            return off.topk(count, largest=False).values.mean()
        model.of_pixels = easy
        return model


class CropsTooSmall(OfEdsr):
    """Training has crops of 8, 4 or 2 pixels a side of the larger pictures
    (gt_crop), which are nothing but borders to the network; validation has
    whole ones."""
    id = "U426"
    severities = (dict(side=8), dict(side=4), dict(side=2))

    def setup(self):
        super().setup()
        self.user["gt_crop"] = self.s.side
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        side = self.s.side // SCALE
        top, left = torch.randint(batch["lq"].shape[2] - side + 1, (2,),
                                  generator=self.drawn).tolist()
        return batch | {k: batch[k][
            :, :, n * top:n * (top + side), n * left:n * (left + side)]
            for k, n in (("lq", 1), ("gt", SCALE))}

    def spoil_val(self, batch):
        return batch


FAULTS = (AverageTooSlow, BlurredInTraining, LossOfSmall,
          ColoursNotCounted, EasyPixelsAlone, CropsTooSmall)
