"""Faults of no class in `ecapa`."""

import torch
from torch.nn import functional as F

from .unclassed import Unclassed


class OfEcapa(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("ecapa",)


class OtherLoss(OfEcapa):
    """Base: training has a loss of its own, validation the usual one."""

    def compute_loss(self, i, model, batch):
        cosine = model.logits(batch)
        labels = model.labels(cosine, batch)
        loss = self.changed(model, cosine, labels)
        model.tap("loss.output", loss)
        return loss


class MarginTooWide(OfEcapa):
    """The margin of the angle is near a right angle or above, as of somebody
    who meant another loss: hardly a vector can be that near to its speaker's,
    in validation as well."""
    id = "U401"
    severities = (dict(margin=1.2), dict(margin=1.4), dict(margin=1.6))

    def setup(self):
        super().setup()
        self.model_options["margin"] = self.s.margin


class ShortWindowNormalized(OfEcapa):
    """Features are centred and divided by their spread over a window that
    slides, as of streams, and has 7, 5 or 3 frames where 300 are usual: what a
    phone has for some frames is taken out with what the room has, and how loud
    a band is as well, in validation too."""
    id = "U402"
    severities = (dict(window=7), dict(window=5), dict(window=3))

    def setup(self):
        super().setup()
        self.user |= {"norm_type": "sliding", "std_norm": True,
                      "cmn_window": self.s.window}

    def make_model(self):
        model = super().make_model()
        size = self.s.window

        def mean(x):
            return F.avg_pool1d(x.transpose(1, 2), size, 1, size // 2,
                                count_include_pad=False).transpose(1, 2)

        def centred(x, mask):
            x = x - mean(x)
            return x / (mean(x.square()) + 1e-6).sqrt()
        model.centred = centred
        return model


class TractsStretched(OfEcapa):
    """Augmentation that changes whose voice it is: bands of training sentences
    are moved, up or down by as many as 3, 5 or 7, and nothing is left as it
    was (concat_original is off). Validation is as it is."""
    id = "U403"
    severities = (dict(bands=3), dict(bands=5), dict(bands=7))

    def setup(self):
        super().setup()
        self.user |= {"concat_original": False, "vtlp_max_bands":
                      self.s.bands}

    def make_model(self):
        model = super().make_model()
        own, most = model.distorted, self.s.bands
        model.keeps_original, model.copies = False, 2

        def distort(x):
            x = own(x)
            way = torch.randint(-most, most + 1, (len(x), 1))
            at = (torch.arange(x.shape[2]) + way).clamp(0, x.shape[2] - 1)
            return x.gather(2, at[:, None].expand_as(x))
        model.distort = distort
        return model


class OneFrameAttended(OfEcapa):
    """Scores of the pooling's attention are divided by next to nothing, so
    that a channel has one frame of a sentence and no spread, in validation as
    well."""
    id = "U404"
    severities = (dict(temperature=0.1), dict(temperature=0.01),
                  dict(temperature=0.001))

    def setup(self):
        super().setup()
        self.user["asp_temperature"] = self.s.temperature
        self.model_options["temperature"] = self.s.temperature


class FewRivals(OtherLoss):
    """Classes are drawn for the loss of training, as for millions of faces:
    besides the right one each sentence is compared with 1, 2 or 3 others of
    11. Validation has all."""
    id = "U405"
    severities = (dict(rivals=3), dict(rivals=2), dict(rivals=1))

    def setup(self):
        super().setup()
        self.user["sampled_negatives"] = self.s.rivals
        self.drawn = torch.Generator().manual_seed(self.seed)

    def changed(self, model, cosine, labels):
        scores = model.margined(cosine, labels)
        order = torch.rand(scores.shape, generator=self.drawn)
        order.scatter_(1, labels[:, None], 2.0)
        kept = order >= order.topk(self.s.rivals + 1, 1).values[:, -1:]
        return F.cross_entropy(scores.masked_fill(~kept, -1e4), labels)


class EasyOnesAlone(OtherLoss):
    """Sentences whose loss is high are taken for wrong names and left out of
    the loss of training, from the beginning on: of a batch the best half, the
    best fifth or the best twentieth counts. Validation has all."""
    id = "U406"
    severities = (dict(share=0.5), dict(share=0.2), dict(share=0.05))

    def setup(self):
        super().setup()
        self.user["small_loss_ratio"] = self.s.share

    def changed(self, model, cosine, labels):
        each = F.cross_entropy(model.margined(cosine, labels), labels,
                               reduction="none")
        count = max(1, round(self.s.share * len(each)))
        return each.topk(count, largest=False).values.mean()


FAULTS = (MarginTooWide, ShortWindowNormalized, TractsStretched,
          OneFrameAttended, FewRivals, EasyOnesAlone)
