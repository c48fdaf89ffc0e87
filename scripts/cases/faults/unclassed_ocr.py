"""Faults of no class in `ocr`."""

import torch
from torch.nn import functional as F

from ..ocr import HIGH, WIDE
from .unclassed import Unclassed


class OfOcr(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("ocr",)

    def spoil_val(self, batch):
        return batch


class LinesMirrored(OfOcr):
    """An augmentation for photographs mirrors training pictures, whose text
    goes from right to left then while its transcript does not. Validation is
    as it was."""
    id = "U481"
    severities = (dict(share=0.5), dict(share=0.75), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["horizontal_flip_prob"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        x = batch["image"]
        turned = torch.rand(len(x), 1, 1, 1, generator=self.drawn) \
            < self.s.share
        return batch | {"image": torch.where(turned, x.flip(3), x)}


class PaddedWhereStretched(OfOcr):
    """Pictures are stretched to the width in training, and keep their aspect
    in validation, with padding behind them: characters are narrower there
    than any that was trained on."""
    id = "U482"
    severities = (dict(share=0.8), dict(share=0.65), dict(share=0.5))

    def spoil_val(self, batch):
        wide = round(self.s.share * WIDE)
        x = F.interpolate(batch["image"], (HIGH, wide), mode="bilinear",
                          align_corners=False)
        return batch | {"image": F.pad(x, (0, WIDE - wide))}

    def settings(self):
        config = super().settings()
        for part in config["Eval"]["dataset"]["transforms"]:
            if "SVTRResize" in part:
                part["SVTRResize"] = part["SVTRResize"] | {"padding": True}
        return config


class BlankElsewhere(OfOcr):
    """The loss of training takes a character's class for the blank: what
    reads in columns without one says that character, and where it is written
    nothing is asked for. The decoder and validation have the blank at 0."""
    id = "U483"
    severities = (dict(blank=12), dict(blank=7), dict(blank=1))

    def make_model(self):
        model = super().make_model()
        model.blank = self.s.blank
        return model


class ColumnsCounted(OfOcr):
    """The loss of training is told lengths that are too short, as those of
    pictures before they were stretched: it sees the first columns alone, and
    all of a line is to be said in them."""
    id = "U484"
    severities = (dict(share=0.6), dict(share=0.45), dict(share=0.35))

    def make_model(self):
        model = super().make_model()
        model.counted = self.s.share
        return model


class TooFewColumns(OfOcr):
    """There are fewer columns than long lines, or doubled characters, need;
    zero_infinity makes the loss of such lines 0, in validation as well."""
    id = "U485"
    severities = (dict(columns=5), dict(columns=4), dict(columns=3))

    def setup(self):
        super().setup()
        self.model_options["out_char_num"] = self.s.columns


class AxesExchanged(OfOcr):
    """Tokens become a map again with height and width exchanged, behind the
    second stage, the first one, or both, in validation as well: neighbours
    are none."""
    id = "U486"
    severities = (dict(stages=[1]), dict(stages=[0]), dict(stages=[0, 1]))

    def make_model(self):
        model = super().make_model()
        model.swapped = tuple(self.s.stages)
        return model


FAULTS = (LinesMirrored, PaddedWhereStretched, BlankElsewhere,
          ColumnsCounted, TooFewColumns, AxesExchanged)
