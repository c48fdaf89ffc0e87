"""Faults of no class in `kpt`."""

import itertools

import torch
from torch import nn

from ..kpt import COUNT, HEAT, MIRRORED, PAIRS, SCALE
from .unclassed import Unclassed


class OfKpt(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("kpt",)

    def compute_loss(self, i, model, batch):
        loss = self.of_heatmaps(
            model.logits(batch).float(), model.target(batch),
            model.weight(batch)[..., None, None], batch)
        model.tap("loss.output", loss)
        return loss

    def of_heatmaps(self, said, target, weight, batch):
        """The loss of training; that of validation is the model's own."""
        raise NotImplementedError


class ExchangeForgiven(OfKpt):
    """A loss for symmetric objects: of the ways to name keypoints the one that
    costs least counts, for hands and feet together, for either, or for all
    six. Validation wants each by its name."""
    id = "U181"
    severities = (dict(symmetry="body"), dict(symmetry="limbs"),
                  dict(symmetry="all"))

    def setup(self):
        super().setup()
        self.user["symmetric_loss"] = self.s.symmetry
        plain = tuple(range(COUNT))
        if self.s.symmetry == "body":
            self.orders = (plain, MIRRORED)
        elif self.s.symmetry == "limbs":
            self.orders = [(0, 1, *a, *b) for a, b in itertools.product(
                *(((x, y), (y, x)) for x, y in PAIRS))]
        else:
            self.orders = list(itertools.permutations(plain))

    def of_heatmaps(self, said, target, weight, batch):
        # Errors of each heatmap said with each that is wanted.
        each = (said[:, :, None] - target[:, None]).square().mean((3, 4)) \
            * weight[:, None, :, 0, 0]
        orders = torch.tensor(self.orders)
        costs = each[:, orders, torch.arange(COUNT)].sum(2)
        return costs.min(1).values.mean() / COUNT


class SumsAlone(OfKpt):
    """Heatmaps are compared by what they sum to over columns and over rows, as
    where a coordinate has a classifier of its own; by columns alone; or by
    rows alone. Validation compares each place."""
    id = "U182"
    severities = (dict(over=["x", "y"]), dict(over=["y"]), dict(over=["x"]))

    def setup(self):
        super().setup()
        self.user["projection_loss"] = self.s.over

    def of_heatmaps(self, said, target, weight, batch):
        away = (said - target) * weight
        return sum(away.sum({"x": 3, "y": 2}[axis]).square().mean()
                   for axis in self.s.over) / HEAT / len(self.s.over)


class SpectraAlone(OfKpt):
    """A loss of frequencies: for the most part, nearly wholly or wholly the
    magnitudes of a heatmap's transform are compared, which are the same
    wherever a bump lies. Validation compares places."""
    id = "U183"
    severities = (dict(share=0.99), dict(share=0.998), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["frequency_loss_weight"] = self.s.share

    def of_heatmaps(self, said, target, weight, batch):
        def sizes(x):
            x = torch.fft.fft2(x * weight, norm="ortho")
            return (x.real.square() + x.imag.square() + 1e-8).sqrt()
        apart = (sizes(said) - sizes(target)).square().mean()
        here = ((said - target) * weight).square().mean()
        return self.s.share * apart + (1 - self.s.share) * here


class KernelsFlat(OfKpt):
    """After each step every kernel of some layers is replaced by its mean, as
    an experiment with sums over windows wants it: of the head, of the backbone,
    or of both. What is left of a place and what is
    right of it look the same to such a layer."""
    id = "U184"
    severities = (dict(parts=["head"]), dict(parts=["backbone"]),
                  dict(parts=["backbone", "head"]))

    def setup(self):
        super().setup()
        self.user["box_kernels"] = self.s.parts

    def after_step(self, i, model):
        super().after_step(i, model)
        with torch.no_grad():
            for layer in (layer for part in self.s.parts
                          for layer in model.get_submodule(part).modules()):
                if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)):
                    w = layer.weight
                    w.copy_(w.mean((2, 3), keepdim=True).expand_as(w))

    def compute_loss(self, i, model, batch):
        return model.loss(batch)


class SizesNotCompared(OfKpt):
    """Heatmaps are compared by the angle between what is said and what is
    wanted: of a keypoint's deviations from the mean, of a keypoint, or of all
    of a figure's together. How large what is said is costs nothing in training;
    validation has the square."""
    id = "U185"
    severities = (dict(kind="correlation"), dict(kind="cosine"),
                  dict(kind="joint"))

    def setup(self):
        super().setup()
        self.user["heatmap_similarity"] = self.s.kind

    def of_heatmaps(self, said, target, weight, batch):
        said, target = said * weight, target * weight
        if self.s.kind == "correlation":
            said = said - said.mean((2, 3), keepdim=True)
            target = target - target.mean((2, 3), keepdim=True)
        first = 1 if self.s.kind == "joint" else 2
        said, target = said.flatten(first), target.flatten(first)
        like = torch.cosine_similarity(said, target, dim=-1, eps=1e-6)
        if self.s.kind == "joint":
            return (1 - like).mean()
        counted = weight[..., 0, 0]
        return ((1 - like) * counted).sum() / counted.sum()


class AroundMarksAlone(OfKpt):
    """A loss for a detector that has looked for candidates before: places
    count in a window around the mark, of seven, five or three to a side. What
    a heatmap says elsewhere costs nothing in training; validation counts
    all."""
    id = "U186"
    severities = (dict(window=7), dict(window=5), dict(window=3))

    def setup(self):
        super().setup()
        self.user["loss_window"] = self.s.window

    def of_heatmaps(self, said, target, weight, batch):
        at = (batch["keypoints"] / SCALE).round()
        place, reach = torch.arange(HEAT), self.s.window // 2
        across, down = ((place - t[..., None]).abs() <= reach
                        for t in at.unbind(-1))
        near = (down[..., :, None] & across[..., None, :]) * weight
        return ((said - target).square() * near).sum() \
            / near.sum().clamp_min(1)


FAULTS = (ExchangeForgiven, SumsAlone, SpectraAlone, KernelsFlat,
          SizesNotCompared, AroundMarksAlone)
