"""Faults of no class in `flow`."""

import torch

from .unclassed import Unclassed


class OfFlow(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is. Validation is as it was."""
    families = ("flow",)

    def setup(self):
        super().setup()
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_val(self, batch):
        return batch


class TimesInOtherUnits(OfFlow):
    """The training loop tells the network times in other units than the
    solver does, as where one of them counts steps: what is made of a time in
    training has nothing to do with what it is asked for later."""
    id = "U491"
    severities = (dict(scale=3.0), dict(scale=10.0), dict(scale=1000.0))

    def make_model(self):
        model = super().make_model()
        model.told = lambda t: self.s.scale * t
        return model


class TargetHasLessNoise(OfFlow):
    """The target of training is what a net that predicts pictures has, or lies
    between that and a velocity: the picture less a part of its noise, or none
    of it. Validation and solver take what is said for a velocity."""
    id = "U492"
    severities = (dict(part=0.7), dict(part=0.4), dict(part=0.0))

    def make_model(self):
        model = super().make_model()
        model.part_of_noise = self.s.part
        return model


class OtherPathsVelocity(OfFlow):
    """Pictures are mixed along a polynomial path (t to a power, as the config
    says), with the velocity of the straight one as the target."""
    id = "U493"
    severities = (dict(power=3.0), dict(power=6.0), dict(power=12.0))

    def setup(self):
        super().setup()
        self.user["path_scheduler"] = f"polynomial_n{self.s.power:g}"

    def make_model(self):
        model = super().make_model()
        model.along = lambda t: t ** self.s.power
        return model


class TimesAtTheNoise(OfFlow):
    """Skewed timesteps with a mean of the wrong sign, and little spread:
    training hardly sees times beyond the first ones."""
    id = "U494"
    severities = (dict(mean=2.0), dict(mean=3.5), dict(mean=6.0))

    def setup(self):
        super().setup()
        self.user |= {"skewed_timesteps": True, "p_mean": self.s.mean,
                      "p_std": 0.3}

    def spoil_batch(self, i, batch):
        t = batch["t"]
        drawn = torch.randn(t.shape, generator=self.drawn)
        return batch | {"t": 1 / (1 + (0.3 * drawn + self.s.mean).exp())}


class ClassesDropped(OfFlow):
    """The class of nearly all batches is dropped: what the network is told of
    one is hardly ever trained, and validation and samples have it always."""
    id = "U495"
    severities = (dict(share=0.9), dict(share=0.95), dict(share=0.98))

    def setup(self):
        super().setup()
        self.model_options["class_drop"] = self.s.share


class OtherNoise(OfFlow):
    """Training starts from noise of another size than the solver does, which
    has the usual one: rand_like, or a standard deviation that is too small."""
    id = "U496"
    severities = (dict(std=0.5), dict(std=0.2), dict(std=None))

    def spoil_batch(self, i, batch):
        x = batch["x_0"]
        return batch | {"x_0": torch.rand(x.shape, generator=self.drawn)
                        if self.s.std is None else self.s.std * x}


FAULTS = (TimesInOtherUnits, TargetHasLessNoise, OtherPathsVelocity,
          TimesAtTheNoise, ClassesDropped, OtherNoise)
