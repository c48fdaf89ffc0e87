"""Faults of no class in `ppo`."""

from .unclassed import Unclassed


class OfBoats(Unclassed):
    """Base: what the user typed of the experiment is in the config, of what is
    wrong in code nothing is."""
    families = ("ppo",)

    def spoil_val(self, batch):
        return batch


class DonesIgnored(OfBoats):
    """The mask of `done` is left out for values, or for advantages as well:
    who drifts over the edge gets what the next boat is worth; or it is the
    wrong way round, so that returns are those of one step, but for the last."""
    id = "U471"
    severities = (dict(carries=["values"]),
                  dict(carries=["advantages", "values"]),
                  dict(carries=["all"]))

    def setup(self):
        super().setup()
        self.source_options = dict(self.severity)


class RolloutsStale(OfBoats):
    """A rollout is used for some iterations, or for all: how likely actions
    were is of the policy that tried them, and the surrogate is soon clipped
    everywhere."""
    id = "U472"
    severities = (dict(every=5), dict(every=9), dict(every=25))

    def setup(self):
        super().setup()
        self.user["rollout_every"] = self.s.every
        self.source_options = {"every": self.s.every}


class RewardsTooLarge(OfBoats):
    """Rewards are hundreds and not ones: the critic's error has all of the
    clipped norm, and the actor next to nothing."""
    id = "U473"
    severities = (dict(scale=10.0), dict(scale=100.0), dict(scale=1000.0))

    def setup(self):
        super().setup()
        self.source_options = {"scale": self.s.scale}


class ActionsLate(OfBoats):
    """A wrapper of the training environments gives them the action of some
    steps before, as of a real boat's engine; those of the evaluation have
    none."""
    id = "U474"
    severities = (dict(steps=1), dict(steps=2), dict(steps=4))

    def setup(self):
        super().setup()
        self.user["action_delay"] = self.s.steps
        self.source_options = {"late": self.s.steps}


class EntropyTooDear(OfBoats):
    """The bonus of entropy is far larger than what is to be earned: the best
    policy is to try anything."""
    id = "U475"
    severities = (dict(weight=0.6), dict(weight=2.0), dict(weight=10.0))

    def setup(self):
        super().setup()
        self.model_options["ent_coef"] = self.s.weight


class ClippedTooTightly(OfBoats):
    """Ratios, and the critic's changes, are clipped at next to nothing: of an
    iteration's minibatches the first one alone counts."""
    id = "U476"
    severities = (dict(clip=0.01), dict(clip=0.003), dict(clip=0.0005))

    def setup(self):
        super().setup()
        self.model_options["clip_coef"] = self.s.clip


FAULTS = (DonesIgnored, RolloutsStale, RewardsTooLarge, ActionsLate,
          EntropyTooDear, ClippedTooTightly)
