"""Faults of no class in `stylegan`."""

import collections

import torch
from torch.nn import functional as F

from ..stylegan import SIZE, W_DIM, Z_DIM
from .unclassed import Unclassed


class OfStylegan(Unclassed):
    """Base: what the user typed of the experiment is in the config; chance
    that is the experiment's own is drawn from its own generator."""
    families = ("stylegan",)

    def setup(self):
        super().setup()
        self.user |= self.typed()
        self.drawn = torch.Generator().manual_seed(self.seed)

    def typed(self):
        return {f"experiment_{k}": v for k, v in self.severity.items()}


class CuttingsSeen(OfStylegan):
    """So that few pictures are many, the discriminator gets square cuttings of
    both sides, enlarged, and not where they were cut: how the parts of a
    picture lie to each other nobody asks for."""
    id = "U351"
    severities = (dict(side=3), dict(side=2), dict(side=1))

    def typed(self):
        return {"d_patch_size": self.s.side}

    def make_model(self):
        model = super().make_model()
        model.seen_by_d = self.cut
        return model

    def cut(self, image):
        side = self.s.side
        parts = image.unfold(2, side, 1).unfold(3, side, 1)
        parts = parts.flatten(2, 3)     # rows, colours, places, side, side
        place = torch.randint(parts.shape[2], (len(image),),
                              generator=self.drawn)
        parts = parts[torch.arange(len(image)), :, place]
        return F.interpolate(parts, size=SIZE, mode="bilinear",
                             align_corners=False)


class OldPicturesShown(OfStylegan):
    """A pool of the generator's pictures, against oscillation: what the
    discriminator is shown of it are those of some steps ago, and none that
    are new."""
    id = "U352"
    severities = (dict(steps=12), dict(steps=18), dict(steps=25))

    def typed(self):
        return {"fake_pool_delay": self.s.steps}

    def make_model(self):
        model = super().make_model()
        self.pool = collections.deque(maxlen=self.s.steps + 1)
        model.of_fakes = self.pooled
        return model

    def pooled(self, fake, c):
        self.pool.append((fake, c))
        return self.pool[0]


class TurnedAnyhow(OfStylegan):
    """Pictures of both sides are turned and mirrored before the discriminator
    sees them, nearly always or always, and any way up is as likely: the
    generator cannot be told which is right."""
    id = "U353"
    severities = (dict(p=0.9), dict(p=0.97), dict(p=1.0))

    def typed(self):
        return {"augment": "fixed", "augpipe": "rotate90,xflip",
                "augment_p": self.s.p}

    def make_model(self):
        model = super().make_model()
        model.seen_by_d = self.turned
        return model

    def turned(self, image):
        way = torch.randint(8, (len(image), 1, 1, 1), generator=self.drawn)
        kept = torch.rand(way.shape, generator=self.drawn) >= self.s.p
        out = image
        for k in range(8):
            x = image.rot90(k % 4, (2, 3))
            out = torch.where((way == k) & ~kept,
                              x.flip(3) if k > 3 else x, out)
        return out


class BestPicturesCount(OfStylegan):
    """Of the generator's pictures those alone count in its loss that the
    discriminator takes most for real: what it does badly has no gradient."""
    id = "U354"
    severities = (dict(count=3), dict(count=2), dict(count=1))

    def typed(self):
        return {"top_k": self.s.count}

    def make_model(self):
        model = super().make_model()
        model.of_scores = lambda told: told.topk(
            min(self.s.count, len(told))).values
        return model


class LatentsListed(OfStylegan):
    """Latents of training are of a list that was drawn once, so that a picture
    can be followed over the run, and the list is short: there is no more to
    map. Evaluation draws them."""
    id = "U355"
    severities = (dict(count=4), dict(count=2), dict(count=1))

    def typed(self):
        return {"latent_bank": self.s.count}

    def make_model(self):
        model = super().make_model()
        bank = torch.randn(self.s.count, Z_DIM, generator=self.drawn)
        model.latents = lambda rows: bank[torch.randint(
            self.s.count, (rows,), generator=self.drawn)]
        return model


class StylesBlended(OfStylegan):
    """Style mixing adds where it should exchange: in training a picture's w is
    moved towards the mean of the batch's, by a part, whatever class they are
    of. Evaluation has them as they are."""
    id = "U356"
    severities = (dict(part=0.3), dict(part=0.5), dict(part=0.8))

    def typed(self):
        return {"style_mixing": "blend", "style_mixing_part": self.s.part}

    def make_model(self):
        model = super().make_model()
        model.styles = lambda w: w.lerp(
            w.mean(0, keepdim=True).expand(-1, W_DIM), self.s.part)
        return model


FAULTS = (CuttingsSeen, OldPicturesShown, TurnedAnyhow, BestPicturesCount,
          LatentsListed, StylesBlended)
