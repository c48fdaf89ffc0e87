"""Faults of no class in `sbert` and `vid`."""

import torch

from ..families import PAIR_14
from .unclassed import Unclassed


class Fourteenth(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = PAIR_14

    @property
    def own(self):
        """What a severity says of this family."""
        return getattr(self.s, self.family)

    def trained(self):
        return [p for p in self.model.parameters() if p.requires_grad]


class Flooded(Fourteenth):
    """The loss is kept from falling below a level, so that nothing is learned
    by heart: below it the gradient has the other sign. The level is that of
    another task, far above what this one can reach. The log has the loss as it
    is."""
    id = "U131"
    severities = (dict(sbert=2.5, vid=1.0), dict(sbert=3.0, vid=1.4),
                  dict(sbert=3.6, vid=1.8))

    def setup(self):
        super().setup()
        self.user["flood_level"] = self.own

    def spoil_loss(self, loss):
        return (loss - self.own).abs() + self.own


class MarginOfAnotherTask(Fourteenth):
    """In training the right answer's logit is lowered by a margin, as where
    faces are told apart; the margin is that of logits of another size.
    Validation has none."""
    id = "U132"
    severities = (dict(sbert=5.0, vid=6.0), dict(sbert=10.0, vid=12.0),
                  dict(sbert=20.0, vid=24.0))

    def setup(self):
        super().setup()
        self.user["additive_margin"] = self.own

    def compute_loss(self, i, model, batch):
        logits = model.logits(batch)
        right = torch.arange(len(logits)) if self.family == "sbert" \
            else batch["label"]
        lower = torch.zeros_like(logits)
        lower[torch.arange(len(logits)), right] = self.own
        loss = model.criterion(logits - lower, batch)
        model.tap("loss.output", loss)
        return loss


class EntropyRewarded(Fourteenth):
    """A reward for what is undecided, as in code for policies, with a weight
    that would suit rewards of hundreds: logits are kept even."""
    id = "U133"
    severities = (dict(sbert=1.0, vid=1.0), dict(sbert=3.0, vid=3.0),
                  dict(sbert=10.0, vid=10.0))

    def setup(self):
        super().setup()
        self.user["entropy_coef"] = self.own

    def compute_loss(self, i, model, batch):
        logits = model.logits(batch)
        said = logits.float().log_softmax(-1)
        entropy = -(said.exp() * said).sum(-1).mean()
        loss = model.criterion(logits, batch) - self.own * entropy
        model.tap("loss.output", loss)
        return loss


class WinnersTakeAll(Fourteenth):
    """Of what a block says of a row the largest elements alone are kept, as in
    an experiment on sparse codes whose hook is still on, in training; all are
    in validation."""
    id = "U134"
    severities = (dict(sbert=0.2, vid=0.1), dict(sbert=0.1, vid=0.05),
                  dict(sbert=0.03, vid=0.02))

    def setup(self):
        super().setup()
        self.user["k_winners"] = self.own

    def make_model(self):
        model = super().make_model()
        for i in range(self.blocks):
            model.get_submodule(self.layer("block", i)).register_forward_hook(
                lambda module, _, out: self.winners(out)
                if module.training else out)
        return model

    def winners(self, out):
        flat = out.flatten(1)
        least = flat.abs().topk(max(1, int(self.own * flat.shape[1])), 1)
        kept = flat.abs() >= least.values[:, -1:]
        return (flat * kept).view_as(out)


class ScaledBySigns(Fourteenth):
    """Each weight has a scale of its own for its gradient, as in methods for
    whole sets: times 1.2 where the gradient has the sign of the step before,
    times less than 1 where it has not. The gradients are those of batches, of
    which half change their sign by noise alone, so that scales die away."""
    id = "U135"
    severities = (dict(sbert=0.65, vid=0.65), dict(sbert=0.5, vid=0.5),
                  dict(sbert=0.3, vid=0.3))

    def setup(self):
        super().setup()
        self.user["sign_scaling"] = [self.own, 1.2]

    def wrap(self, model):
        model = super().wrap(model)
        self.scales = {p: torch.ones_like(p) for p in model.parameters()}
        self.before = {}
        return model

    def update(self, i):
        for p in self.trained():
            if p.grad is None:
                continue
            sign = p.grad.sign()
            if p in self.before:
                same = sign == self.before[p]
                self.scales[p].mul_(torch.where(same, 1.2, self.own)).clamp_(
                    1e-6, 50.0)
            self.before[p] = sign
            p.grad.mul_(self.scales[p])
        return super().update(i)


class TopRenewed(Fourteenth):
    """Training in stages begins each with a fresh top, and a stage is as long
    as an epoch of another set: every so many steps what the encoder's layers,
    or the classifier's head, have learned is gone. The optimizer keeps its
    state."""
    id = "U136"
    severities = (dict(sbert=45, vid=45), dict(sbert=20, vid=20),
                  dict(sbert=6, vid=6))
    TOP = {"sbert": "0.auto_model.encoder", "vid": "model.blocks.3.proj"}

    def setup(self):
        super().setup()
        self.user |= {"staged_training": True, "stage_steps": self.own}

    @torch.no_grad()
    def before_step(self, i):
        super().before_step(i)
        if i == 0 or i % self.own:
            return
        with torch.random.fork_rng():
            torch.manual_seed(self.seed + i)
            fresh = self.make_model().get_submodule(self.TOP[self.family])
        old = self.model.get_submodule(self.TOP[self.family])
        for p, new in zip(old.parameters(), fresh.parameters()):
            p.copy_(new)


FAULTS = (Flooded, MarginOfAnotherTask, EntropyRewarded, WinnersTakeAll,
          ScaledBySigns, TopRenewed)
