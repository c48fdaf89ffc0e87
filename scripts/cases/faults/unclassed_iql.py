"""Faults of no class in `iql`."""

from ..iql import statistics
from .unclassed import Unclassed


class OfIql(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("iql",)

    def spoil_val(self, batch):
        return batch


class RewardsMultiplied(OfIql):
    """modify_reward() takes the data set for another one and multiplies the
    rewards of training: weights of the policy are at EXP_ADV_MAX or at nothing,
    and Q has far to go. Held-out steps have rewards as they were logged."""
    id = "U571"
    severities = (dict(factor=2.0), dict(factor=10.0), dict(factor=100.0))

    def setup(self):
        super().setup()
        self.user["normalize_reward"] = True

    def spoil_batch(self, i, batch):
        return batch | {"rewards": self.s.factor * batch["rewards"]}


class NextStatesNotNormalized(OfIql):
    """Observations of training are normalised and next observations are not,
    or twice, or their mean and spread are taken the wrong way round: V is asked
    about states that are nowhere. Held-out steps are right."""
    id = "U572"
    severities = (dict(how="not"), dict(how="twice"), dict(how="inverse"))

    def spoil_batch(self, i, batch):
        mean, std = statistics()
        x = batch["next_observations"]
        x = {"not": x * std + mean, "twice": (x - mean) / std,
             "inverse": (x * std + mean - std) / mean.abs().clamp_min(
                 0.02)}[self.s.how]
        return batch | {"next_observations": x}


class ActionsInOtherUnit(OfIql):
    """Actions of training are in the robot's unit and were never divided by
    max_action: the policy's tanh cannot reach them. Those of the held-out steps
    and of the yard are of -1 to 1."""
    id = "U573"
    severities = (dict(unit=2.0), dict(unit=4.0), dict(unit=10.0))

    def spoil_batch(self, i, batch):
        return batch | {"actions": self.s.unit * batch["actions"]}


class ErrorsBroadcast(OfIql):
    """Rewards of training keep their last axis, or V's output does, or both:
    an error is a square of all rows against all, and what is learned is the
    mean of a batch. Held-out losses are computed row by row."""
    id = "U574"
    severities = (dict(of=["v"]), dict(of=["q"]), dict(of=["q", "v"]))

    def compute_loss(self, i, model, batch):
        model.spread_out = self.s.of
        loss = model.loss(batch)
        model.spread_out = ()
        return loss


class TargetTheWrongWayRound(OfIql):
    """soft_update() has its arguments the wrong way round: the network is
    drawn to its target, which stays what it was at the start."""
    id = "U575"
    severities = (dict(tau=0.05), dict(tau=0.2), dict(tau=1.0))

    def make_model(self):
        self.model_options["tau"] = self.s.tau
        model = super().make_model()
        model.swapped = True
        return model


class DiscountOfOneAndMore(OfIql):
    """Later rewards count as much as now or more, as the config says, and no
    episode but of who hits a post has an end: values grow from step to step."""
    id = "U576"
    severities = (dict(discount=1.0, tau=0.3), dict(discount=1.1, tau=0.3),
                  dict(discount=1.5, tau=0.3))

    def setup(self):
        super().setup()
        self.model_options |= self.severity


FAULTS = (RewardsMultiplied, NextStatesNotNormalized, ActionsInOtherUnit,
          ErrorsBroadcast, TargetTheWrongWayRound, DiscountOfOneAndMore)
