"""Faults of no class in `compress`."""

from torch.nn import functional as F

from .unclassed import Unclassed


class OfCompress(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("compress",)


class NarrowNoise(OfCompress):
    """The noise of training is narrower than a step of rounding: latents are
    told finer than anybody will round them, and the rate is that of whole
    steps. Evaluation rounds."""
    id = "U381"
    severities = (dict(width=0.35), dict(width=0.1), dict(width=0.02))

    def setup(self):
        super().setup()
        self.user["quantization_noise_width"] = self.s.width

    def make_model(self):
        model = super().make_model()
        model.noise = lambda x, part: x.new_empty(x.shape).uniform_(
            -self.s.width / 2, self.s.width / 2)
        return model


class NoiseShared(OfCompress):
    """The noise is drawn once for a picture, for all channels of a place, or
    for each channel at the start of the run, and not for each latent: what is
    the same in all can be told and taken off again. Evaluation rounds each."""
    id = "U382"
    severities = (dict(over="picture"), dict(over="channels"),
                  dict(over="run"))

    def make_model(self):
        model = super().make_model()
        model.noise, self.kept = self.noise, {}
        return model

    def noise(self, x, part):
        """z comes as (channels, 1, values) and is left as it is."""
        shape = list(x.shape)
        if part == "y":
            for axis in {"picture": (1, 2, 3), "channels": (1,),
                         "run": (0, 2, 3)}[self.s.over]:
                shape[axis] = 1
        noise = x.new_empty(shape).uniform_(-0.5, 0.5)
        if part == "y" and self.s.over == "run":
            noise = self.kept.setdefault(part, noise)
        return noise.expand_as(x)


class RateByLatents(OfCompress):
    """Bits of training are divided by the number of places at which a feature
    map has them, not by that of pixels: 4, 16, 64 times as dear as lambda was
    chosen for. So it is logged; evaluation has bits of a pixel."""
    id = "U383"
    severities = (dict(stride=2), dict(stride=4), dict(stride=8))

    def make_model(self):
        model = super().make_model()
        model.rate = lambda bpp: self.s.stride ** 2 * bpp
        return model


class DistortionOfSmall(OfCompress):
    """Squared errors of training are those of pictures at a half, a quarter,
    an eighth of their size, as of a cheap preview: what is finer costs
    nothing. Evaluation has them as they are."""
    id = "U384"
    severities = (dict(scale=2), dict(scale=4), dict(scale=8))

    def setup(self):
        super().setup()
        self.user["distortion_downscale"] = self.s.scale

    def make_model(self):
        model = super().make_model()
        model.distortion = lambda x_hat, x: F.mse_loss(
            *(F.avg_pool2d(t, self.s.scale) for t in (x_hat, x)))
        return model


class ScalesTooWide(OfCompress):
    """The conditional's spread cannot go below 6, 20, 60 steps, in evaluation
    as well: a latent that says nothing costs bits all the same."""
    id = "U385"
    severities = (dict(bound=6.0), dict(bound=20.0), dict(bound=60.0))

    def setup(self):
        super().setup()
        self.user["scale_bound"] = self.s.bound
        self.model_options["scale_bound"] = self.s.bound


class DraftsRead(OfCompress):
    """Training pictures are decoded at a half, a quarter or an eighth of their
    size, as a reader's draft mode does it to be quick, and enlarged again.
    Those of the test are read as they are."""
    id = "U386"
    severities = (dict(scale=2), dict(scale=4), dict(scale=8))

    def spoil_batch(self, i, batch):
        small = F.avg_pool2d(batch["image"], self.s.scale)
        return batch | {"image": F.interpolate(
            small, scale_factor=self.s.scale, mode="bilinear",
            align_corners=False)}

    def spoil_val(self, batch):
        return batch


FAULTS = (NarrowNoise, NoiseShared, RateByLatents, DistortionOfSmall,
          ScalesTooWide, DraftsRead)
