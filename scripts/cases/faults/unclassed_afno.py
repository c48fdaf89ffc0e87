"""Faults of no class in `afno`."""

import torch

from ..afno import LATS, LONS
from .unclassed import Unclassed


class OfAfno(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("afno",)


class OfFields(OfAfno):
    """Base: training has a loss of its own, validation the usual one."""

    def compute_loss(self, i, model, batch):
        loss = self.of_fields(model, model.logits(batch).float(), batch)
        model.tap("loss.output", loss)
        return loss

    def of_fields(self, model, said, batch):
        raise NotImplementedError


class MirroredWithoutSigns(OfAfno):
    """Training rows are mirrored from east to west, as pictures are, to have
    more of them, and the wind that blows along keeps its sign: what is
    carried to the west there goes against what is said of it. Validation is
    not mirrored."""
    id = "U311"
    severities = (dict(share=0.5), dict(share=0.8), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["horizontal_flip_prob"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        some = torch.rand(len(batch["inp"]), 1, 1, 1,
                          generator=self.drawn) < self.s.share
        return batch | {k: torch.where(some, batch[k].flip(-1), batch[k])
                        for k in ("inp", "tar", "mask")}

    def spoil_val(self, batch):
        return batch


class ExtremesAlone(OfFields):
    """A loss for extreme weather: of each variable the places count alone
    where the target is furthest from its mean, above a quantile, so that what
    is said is always more than what comes. Validation counts all."""
    id = "U312"
    severities = (dict(quantile=0.8), dict(quantile=0.9), dict(quantile=0.97))

    def setup(self):
        super().setup()
        self.user["loss_extreme_quantile"] = self.s.quantile

    def of_fields(self, model, said, batch):
        far = batch["tar"].abs()
        least = far.transpose(0, 1).flatten(1).quantile(self.s.quantile, 1)
        counted = (far >= least[:, None, None]).float()
        return model.criterion(said, batch | {"mask": batch["mask"] * counted})


class EnergyOfInput(OfAfno):
    """So that nothing is lost over many steps, what is said is scaled to the
    energy of what was given, of each variable, at each latitude, or in each
    patch, in validation too. What was given is noisy, and energy comes and
    goes."""
    id = "U313"
    severities = (dict(over="variable"), dict(over="latitude"),
                  dict(over="patch"))

    def setup(self):
        super().setup()
        self.user["conserve_energy"] = self.s.over

    def make_model(self):
        model = super().make_model()
        model.register_forward_hook(
            lambda module, args, out: self.scaled(args[0], out))
        return model

    def energy(self, x):
        x = x.float().square()
        if self.s.over == "patch":
            return torch.nn.functional.avg_pool2d(x, 2) \
                .repeat_interleave(2, 2).repeat_interleave(2, 3)
        return x.mean((2, 3) if self.s.over == "variable" else 3, True)

    def scaled(self, given, said):
        return said * (self.energy(given)
                       / (self.energy(said) + 1e-3)).sqrt()


class StreakedBySobolev(OfFields):
    """A Sobolev norm, so that fields come out sharp, of an order that suits a
    solver's smooth solutions: of a field that was observed all is noise at
    the wavenumbers that count, and large waves next to nothing. Validation
    has the usual norm."""
    id = "U314"
    severities = (dict(order=1), dict(order=2), dict(order=4))

    def setup(self):
        super().setup()
        self.user |= {"loss": "h_s", "sobolev_order": self.s.order}

    def sharpened(self, x):
        high = torch.fft.fftfreq(LATS, 1 / LATS)[:, None]
        long = torch.fft.rfftfreq(LONS, 1 / LONS)
        weight = (1 + high.square() + long.square()) ** (self.s.order / 2)
        return torch.fft.irfft2(torch.fft.rfft2(x) * weight, s=(LATS, LONS))

    def of_fields(self, model, said, batch):
        off = self.sharpened((said - batch["tar"]) * batch["mask"])
        size = self.sharpened(batch["tar"])
        return (off.flatten(1).norm(dim=1)
                / size.flatten(1).norm(dim=1)).mean()


class HighQuantile(OfFields):
    """Warnings want what is not exceeded in nine cases of ten, or more: the
    loss of training is a quantile's, of all variables. Validation asks what
    is to be expected."""
    id = "U315"
    severities = (dict(quantile=0.9), dict(quantile=0.97),
                  dict(quantile=0.995))

    def setup(self):
        super().setup()
        self.user |= {"loss": "pinball", "pinball_quantile": self.s.quantile}

    def of_fields(self, model, said, batch):
        off = (batch["tar"] - said) * batch["mask"]
        each = torch.maximum(self.s.quantile * off,
                             (self.s.quantile - 1) * off)
        return each.mean()


class UpperEndKept(OfAfno):
    """What is to be kept of a spectrum is its upper end, not its lower one,
    in validation too: filters have nothing to say of large waves, of which
    all that can be known consists."""
    id = "U316"
    severities = (dict(kept=0.6), dict(kept=0.5), dict(kept=0.3))

    def setup(self):
        super().setup()
        self.model_options |= {"kept": self.s.kept, "upper": True}
        self.user["hard_thresholding_keeps"] = "high"


FAULTS = (MirroredWithoutSigns, ExtremesAlone, EnergyOfInput,
          StreakedBySobolev, HighQuantile, UpperEndKept)
