"""Faults of no class in `dream`."""

import torch

from .unclassed import Unclassed


class OfDream(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("dream",)


class MirroredWithoutActions(OfDream):
    """Training windows are mirrored, a share of them, as pictures often are:
    the places of boat and buoy change their sign along one axis, actions
    stay as they are, so that a push to the left goes to the right."""
    id = "U301"
    severities = (dict(share=0.8), dict(share=0.9), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["mirror_share"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        x = batch["vector"].clone()
        some = torch.rand(len(x), 1, generator=self.drawn) < self.s.share
        for place in (0, 2):
            x[..., place] = torch.where(some, -x[..., place], x[..., place])
        return batch | {"vector": x}

    def spoil_val(self, batch):
        return batch


class SeldomObserved(OfDream):
    """So that it learns to look far ahead, the model sees every second or
    third step of training alone, or a window's first, and draws from its prior in between. Validation sees all."""
    id = "U302"
    severities = (dict(every=2), dict(every=3), dict(every=6))

    def setup(self):
        super().setup()
        self.user["observe_every"] = self.s.every

    def make_model(self):
        model = super().make_model()
        model.observes = self.s.every
        return model


class LatentsHeld(OfDream):
    """A clockwork's latents, in validation as well: one is drawn every so many
    steps and held in between, as where frames are many and little happens.
    Here something happens at each."""
    id = "U303"
    severities = (dict(steps=2), dict(steps=3), dict(steps=6))

    def setup(self):
        super().setup()
        self.user["latent_hold"] = self.s.steps
        self.model_options["hold"] = self.s.steps


class ChangesAlone(OfDream):
    """The encoder gets what the boat's sensors, also the buoy's, or all, have
    changed by since the step before, as for a film's frames, in validation as
    well; where they are it is not told, and the decoder is to say that."""
    id = "U304"
    severities = (dict(sensors=2), dict(sensors=4), dict(sensors=6))

    def setup(self):
        super().setup()
        self.user["delta_sensors"] = self.s.sensors
        self.model_options["changes"] = self.s.sensors


class StepsLeftOut(OfDream):
    """A wrapper that leaves out frames stands behind the recorder, not before
    it: training windows have every third, fifth or eighth step, and of the
    actions in between the last one alone. Validation has all steps."""
    id = "U305"
    severities = (dict(stride=3), dict(stride=5), dict(stride=8))

    def setup(self):
        super().setup()
        self.user["frame_skip"] = self.s.stride

    def make_source(self, seed):
        return self.replay(seed, stride=1 if seed == 9 else self.s.stride)


class ScoresAgainstTheMean(OfDream):
    """Sensors of training are centred over the window before they are
    compared, as in a loss of movements: where things are costs nothing, only
    how they move. Validation compares all."""
    id = "U306"
    severities = (dict(over="place"), dict(over="buoy"), dict(over="all"))
    SENSORS = {"place": slice(0, 2), "buoy": slice(0, 4), "all": slice(0, 6)}

    def setup(self):
        super().setup()
        self.user["decoder_loss_centred"] = self.s.over

    def compute_loss(self, i, model, batch):
        model.centred = self.SENSORS[self.s.over]
        loss = model.loss(batch)
        model.centred = None
        return loss


FAULTS = (MirroredWithoutActions, SeldomObserved, LatentsHeld, ChangesAlone,
          StepsLeftOut, ScoresAgainstTheMean)
