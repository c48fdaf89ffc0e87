"""Faults of no class in `nerf`."""

from .unclassed import Unclassed


class OfNerf(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("nerf",)


class NothingHides(OfNerf):
    """Of the points of a ray the densest is taken alone, or all are summed up,
    as X-ray pictures are made, or they are gone through from behind, so that
    what is far off hides what is near, in validation too: pictures from all
    around agree with none of it."""
    id = "U241"
    severities = (dict(renderer="maximum"), dict(renderer="additive"),
                  dict(renderer="back_to_front"))

    def setup(self):
        super().setup()
        self.model_options["renderer"] = self.s.renderer


class PlanesOfOutdoors(OfNerf):
    """The planes between which points are laid are those of a large scene, in
    validation too: of the sixteen points of a ray few lie in the box, or
    one."""
    id = "U242"
    severities = (dict(far=8.0), dict(far=20.0), dict(far=60.0))

    def setup(self):
        super().setup()
        self.model_options |= {"near": 0.05, "far": self.s.far}


class FocalOfAnotherLens(OfNerf):
    """Rays of training are cast with the focal length of another lens, so that
    what they see lies beside them and no place fits all pictures. Validation
    has the right one."""
    id = "U243"
    severities = (dict(focal=0.8), dict(focal=0.65), dict(focal=0.5))

    def setup(self):
        super().setup()
        self.user["camera_focal_scale"] = self.s.focal

    def make_source(self, seed):
        return self.scene(seed, focal=1.0 if seed == 9 else self.s.focal)


class SkippedForEver(OfNerf):
    """A grid says which cells of the box are empty and skipped; it is made
    once, some steps after the start, as the densest cells of a field that
    knows little yet, and never anew. What is skipped gets no gradient, and
    validation skips it as well."""
    id = "U244"
    severities = (dict(step=25, share=0.2), dict(step=15, share=0.2),
                  dict(step=2, share=0.1))

    def setup(self):
        super().setup()
        self.user |= {"occupancy_grid_update_step": self.s.step,
                      "occupancy_grid_share": self.s.share}

    def before_step(self, i):
        super().before_step(i)
        if i == self.s.step:
            self.model.keep_occupied(self.s.share)


class WorstLeftOut(OfNerf):
    """A loss against things that move through pictures: of a batch's rays .2,
    .3, .4 with the largest errors count as such and are left out of the loss
    of training. At the start these are all that see a ball. Validation has
    all rays."""
    id = "U245"
    severities = (dict(share=0.2), dict(share=0.3), dict(share=0.4))

    def setup(self):
        super().setup()
        self.user |= {"loss": "trimmed_mse", "trim_share": self.s.share}

    def compute_loss(self, i, model, batch):
        said = model.logits(batch).float()
        each = (said - batch["image"]).square().mean(-1)
        each = each[batch["mask"][:, 0] > 0]
        count = max(1, round((1 - self.s.share) * len(each)))
        loss = each.topk(count, largest=False).values.mean()
        model.tap("loss.output", loss)
        return loss


class WavesTooShort(OfNerf):
    """The encoding has the waves of a large scene seen from near: the longest
    is as short as a ball, or as the way from one point of a ray to the next
    and less, so that neighbours have nothing in common."""
    id = "U246"
    severities = (dict(low=2.0, high=5.0), dict(low=4.0, high=7.0),
                  dict(low=6.0, high=9.0))

    def setup(self):
        super().setup()
        self.model_options |= {"low": self.s.low, "high": self.s.high}


FAULTS = (NothingHides, PlanesOfOutdoors, FocalOfAnotherLens, SkippedForEver,
          WorstLeftOut, WavesTooShort)
