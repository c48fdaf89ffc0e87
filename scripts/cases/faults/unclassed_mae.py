"""Faults of no class in `mae`."""

import torch

from ..mae import CHANNELS, MASKED, PATCHES, SIDE
from .unclassed import Unclassed


class OfMae(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("mae",)

    def compute_loss(self, i, model, batch):
        loss = self.of_errors(model.logits(batch).float(),
                              model.target(batch), model.hidden)
        model.tap("loss.output", loss)
        return loss

    def of_errors(self, said, target, hidden):
        """The loss of training; that of validation is the model's own."""
        raise NotImplementedError


class HiddenBelow(OfMae):
    """An image is to be continued: what is hidden of most training images is
    the lower part, always the same patches, as in an experiment on
    outpainting. In validation it is any."""
    id = "U151"
    severities = (dict(share=0.9), dict(share=0.95), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user |= {"mask_strategy": "bottom",
                      "bottom_mask_share": self.s.share}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        some = torch.rand(len(batch["noise"]), 1,
                          generator=self.drawn) < self.s.share
        return batch | {"noise": torch.where(
            some, torch.arange(PATCHES) / PATCHES, batch["noise"])}

    def spoil_val(self, batch):
        return batch

    def compute_loss(self, i, model, batch):
        return model.loss(batch)


class LevelsNotCompared(OfMae):
    """A loss of contrast: errors are counted from their mean over an image's
    hidden pixels, those of a patch, or those of a channel, so that a level
    that is wrong costs nothing in training. Validation counts all."""
    id = "U152"
    severities = (dict(over="image"), dict(over="patch"),
                  dict(over="channel"))

    def setup(self):
        super().setup()
        self.user |= {"pixel_loss": "contrast", "contrast_over": self.s.over}

    def of_errors(self, said, target, hidden):
        away, weight = said - target, hidden[..., None]
        away = away.unflatten(2, (-1, CHANNELS))
        weight = weight[..., None].expand_as(away)
        over = {"image": (1, 2, 3), "patch": (2, 3),
                "channel": (1, 2)}[self.s.over]
        mean = (away * weight).sum(over, keepdim=True) \
            / weight.sum(over, keepdim=True).clamp_min(1)
        return ((away - mean).square() * weight).sum() / weight.sum()


class OutliersAll(OfMae):
    """A robust loss, to which all that is far away is one outlier as another,
    with the scale of another sensor's noise: nearly every pixel is one, and
    says next to nothing about where to go. Validation has the square."""
    id = "U153"
    severities = (dict(scale=0.15), dict(scale=0.1), dict(scale=0.05))

    def setup(self):
        super().setup()
        self.user |= {"pixel_loss": "welsch", "welsch_scale": self.s.scale}

    def of_errors(self, said, target, hidden):
        far = ((said - target) / self.s.scale).square()
        each = (1 - (-0.5 * far).exp()).mean(-1)
        return (each * hidden).sum() / hidden.sum()


class PixelsSorted(OfMae):
    """A loss of histograms: of a patch, of three patches or of all that is
    hidden of an image the values are sorted before they are compared, so that
    where a value stands costs nothing in training. Validation compares by
    place."""
    id = "U154"
    severities = (dict(patches=1), dict(patches=3), dict(patches=19))

    def setup(self):
        super().setup()
        self.user |= {"pixel_loss": "histogram",
                      "histogram_patches": self.s.patches}

    def of_errors(self, said, target, hidden):
        rows, places = hidden.nonzero(as_tuple=True)
        count = int(hidden[0].sum()) // self.s.patches * self.s.patches

        def values(x):
            x = x[rows, places].view(len(x), -1, x.shape[-1])
            return x[:, :count].reshape(
                len(x), -1, self.s.patches * x.shape[-1]).sort(-1).values
        return (values(said) - values(target)).square().mean()


class OnlyNeighbours(OfMae):
    """The decoder's attention has the window of a network for large images,
    in which it is one of many layers: a place sees the eight around it, the
    four beside it, or itself. There is one layer."""
    id = "U155"
    severities = (dict(window="3x3"), dict(window="cross"),
                  dict(window="1x1"))

    def setup(self):
        super().setup()
        self.user["decoder_attention_window"] = self.s.window

    def make_model(self):
        model = super().make_model()
        at = torch.arange(PATCHES)
        down = (at[:, None] // SIDE - at // SIDE).abs()
        along = (at[:, None] % SIDE - at % SIDE).abs()
        near = {"3x3": torch.maximum(down, along) <= 1,
                "cross": down + along <= 1,
                "1x1": down + along == 0}[self.s.window]
        seen = torch.eye(1 + PATCHES, dtype=torch.bool)
        seen[1:, 1:] = near
        for layer in model.decoder.decoder_layers:
            layer.register_forward_pre_hook(
                lambda _, args, how: (args, how | {"seen": seen[None, None]}),
                with_kwargs=True)
        return model

    def compute_loss(self, i, model, batch):
        return model.loss(batch)


class AllHidden(OfMae):
    """The share that is hidden rises in training, so that it stays hard, and
    does not stop: in the end nothing can be seen. Validation hides what it
    always does."""
    id = "U156"
    severities = (dict(steps=140), dict(steps=80), dict(steps=40))

    @property
    def pace(self):
        """What the share rises by in a step."""
        return round((1 - MASKED) / self.s.steps, 5)

    def setup(self):
        super().setup()
        self.user |= {"mask_ratio_schedule": "linear",
                      "mask_ratio_step": self.pace}

    def compute_loss(self, i, model, batch):
        usual = model.masked
        model.masked = min(1.0, usual + i * self.pace)
        loss = model.loss(batch)
        model.masked = usual
        return loss


FAULTS = (HiddenBelow, LevelsNotCompared, OutliersAll, PixelsSorted,
          OnlyNeighbours, AllHidden)
