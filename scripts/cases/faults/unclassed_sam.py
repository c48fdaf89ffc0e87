"""Faults of no class in `sam`."""

import torch

from ..sam import SIZE
from .unclassed import Unclassed


class OfSam(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("sam",)

    def setup(self):
        super().setup()
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_val(self, batch):
        return batch


class CornersTurned(OfSam):
    """Boxes of a share of the training set were written by a tool that has
    rows first: x and y are taken for each other. Masks and validation are as
    they should be."""
    id = "U501"
    severities = (dict(share=0.6), dict(share=0.8), dict(share=1.0))

    def spoil_batch(self, i, batch):
        box = batch["bboxes"]
        wrong = torch.rand(len(box), 1, generator=self.drawn) < self.s.share
        return batch | {"bboxes": torch.where(wrong, box[:, [1, 0, 3, 2]],
                                              box)}


class BoxesNotResized(OfSam):
    """Training boxes are those of pictures of another size, before they were
    resized: they lie too near to the corner and are too small. Validation
    resizes both."""
    id = "U502"
    severities = (dict(scale=0.7), dict(scale=0.5), dict(scale=0.25))

    def setup(self):
        super().setup()
        self.user["box_source_size"] = round(SIZE * self.s.scale)

    def spoil_batch(self, i, batch):
        return batch | {"bboxes": self.s.scale * batch["bboxes"]}


class JitterOfLargePictures(OfSam):
    """bbox_shift is that of pictures many times as large: boxes of training
    go far beyond their masks, up to all of the picture, and do not say any
    more which of two lumps is meant. Validation has the usual ones."""
    id = "U503"
    severities = (dict(shift=12), dict(shift=20), dict(shift=60))

    def setup(self):
        super().setup()
        self.user["bbox_shift"] = self.s.shift

    def make_source(self, seed):
        return super().make_source(seed) if seed == 9 else self.scans(
            seed, shift=self.s.shift)


class MasksPaddedElsewhere(OfSam):
    """Pictures of training are padded to a square below and on the right, and
    their masks all around: masks, and boxes that come from them, lie some
    pixels beside what they are of. Validation pads both alike."""
    id = "U504"
    severities = (dict(pixels=3), dict(pixels=5), dict(pixels=8))

    def spoil_batch(self, i, batch):
        by, mask = self.s.pixels, torch.zeros_like(batch["gt2D"])
        mask[..., by:, by:] = batch["gt2D"][..., :-by, :-by]
        return batch | {"gt2D": mask, "bboxes": (batch["bboxes"] + by).clamp(
            max=SIZE)}


class LossInsideTheBox(OfSam):
    """The loss of training is that of the pixels in the box, or in one that
    is smaller by some pixels a side: nothing says what is beyond. Validation
    looks at all."""
    id = "U505"
    severities = (dict(margin=0), dict(margin=-2), dict(margin=-4))

    def setup(self):
        super().setup()
        self.user |= {"loss_region": "box", "loss_margin": self.s.margin}

    def make_model(self):
        model = super().make_model()
        model.counted = self.inside
        return model

    def inside(self, logits, wanted, batch):
        box, at = batch["bboxes"], torch.arange(float(SIZE))
        low, high = box[:, :2] - self.s.margin, box[:, 2:] + self.s.margin
        x, y = ((at >= low[:, k:k + 1]) & (at <= high[:, k:k + 1])
                for k in (0, 1))
        there = (y[:, :, None] & x[:, None])[:, None]
        # What is beyond is right, whatever is said.
        return torch.where(there, logits, -30.0), wanted * there


class WindowTooNarrow(OfSam):
    """The window of grey values in which pictures are stored is too narrow, or
    beside what they have: most of what can be seen is cut off at either end,
    in validation as well."""
    id = "U506"
    severities = (dict(level=1.0, width=0.1), dict(level=0.2, width=0.3),
                  dict(level=0.1, width=0.2))

    def setup(self):
        super().setup()
        self.user |= {"window_level": self.s.level,
                      "window_width": self.s.width}

    def spoil_batch(self, i, batch):
        low = self.s.level - self.s.width / 2
        return batch | {"image": ((batch["image"] - low)
                                  / self.s.width).clamp(0, 1)}

    def spoil_val(self, batch):
        return self.spoil_batch(-1, batch)


FAULTS = (CornersTurned, BoxesNotResized, JitterOfLargePictures,
          MasksPaddedElsewhere, LossInsideTheBox, WindowTooNarrow)
