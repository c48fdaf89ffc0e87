"""Faults of no class in `depth`."""

from .unclassed import Unclassed


class OfDepth(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("depth",)


class ParkedCars(OfDepth):
    """A share of the training drives stands still, as where nobody filtered
    frames by the car's speed: three times one picture, from which nothing can
    be told of depth. Those of validation move."""
    id = "U441"
    severities = (dict(share=0.9), dict(share=0.97), dict(share=1.0))

    def make_source(self, seed):
        return super().make_source(seed) if seed == 9 else \
            self.yards(seed, still=self.s.share)


class DepthsTooNear(OfDepth):
    """Depths that can be said lie closer together than those of the scenes,
    of which the largest is six times the smallest, in validation as well."""
    id = "U442"
    severities = (dict(most=0.125), dict(most=0.115), dict(most=0.105))

    def setup(self):
        super().setup()
        self.model_options["max_depth"] = self.s.most


class TooSmooth(OfDepth):
    """Smoothness costs some thousand times what it should, in validation as
    well: the cheapest disparity is one number."""
    id = "U443"
    severities = (dict(weight=1.0), dict(weight=10.0), dict(weight=100.0))

    def setup(self):
        super().setup()
        self.model_options["smoothness"] = self.s.weight


class MaskTooEager(OfDepth):
    """What is not warped is favoured: its error is made smaller before the
    least is taken, so that most pixels count as standing still and teach
    nothing. Validation takes errors as they are."""
    id = "U444"
    severities = (dict(factor=0.3), dict(factor=0.15), dict(factor=0.05))

    def setup(self):
        super().setup()
        self.user["automask_factor"] = self.s.factor

    def make_model(self):
        model = super().make_model()
        model.identity = self.s.factor
        return model


class MotionTooSmall(OfDepth):
    """What the pose decoder says is multiplied by far less than usual, in
    validation as well: the camera hardly moves, whatever is said, and depth
    has to be next to nothing."""
    id = "U445"
    severities = (dict(scale=1e-3), dict(scale=3e-4), dict(scale=1e-5))

    def setup(self):
        super().setup()
        self.user["pose_scale"] = self.s.scale
        self.model_options["pose_scale"] = self.s.scale


class FramesTooFar(OfDepth):
    """Frames that are some steps apart are taken for neighbours, in validation
    as well: what is near moves by more pixels than a wave is long, and what is
    warped does not find it."""
    id = "U446"
    severities = (dict(stride=4), dict(stride=7), dict(stride=12))

    def setup(self):
        super().setup()
        self.user["frame_ids"] = [0, -self.s.stride, self.s.stride]

    def make_source(self, seed):
        return self.yards(seed, stride=self.s.stride)


FAULTS = (ParkedCars, DepthsTooNear, TooSmooth, MaskTooEager, MotionTooSmall,
          FramesTooFar)
