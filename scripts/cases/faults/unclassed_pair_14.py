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


class AverageFromTheStart(Fourteenth):
    """An average of weights is to be what is validated, and is what is trained
    as well: every so many steps the weights become the mean of all that they
    have been, the first ones among them."""
    id = "U132"
    severities = (dict(sbert=40, vid=40), dict(sbert=20, vid=20),
                  dict(sbert=5, vid=5))

    def setup(self):
        super().setup()
        self.user |= {"swa": True, "swa_every": self.own}

    def wrap(self, model):
        model = super().wrap(model)
        self.mean = [p.detach().clone() for p in model.parameters()]
        self.count = 1
        return model

    @torch.no_grad()
    def after_step(self, i, model):
        super().after_step(i, model)
        self.count += 1
        for mean, p in zip(self.mean, model.parameters()):
            mean.lerp_(p, 1 / self.count)
            if (i + 1) % self.own == 0:
                p.copy_(mean)


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


class OffByOneInBuffer(Fourteenth):
    """Gradients lie in one buffer, one tensor behind the other, and a padding
    element is not counted in one place: from there on each weight gets the
    gradient of the element before it. A severity is the share of the weights
    that lie behind that place."""
    id = "U135"
    severities = (dict(sbert=0.5, vid=0.85), dict(sbert=0.7, vid=0.95),
                  dict(sbert=1.0, vid=1.0))

    def setup(self):
        super().setup()
        self.user["flat_gradient_buffer"] = True

    def update(self, i):
        grads = [p.grad for p in self.trained() if p.grad is not None]
        flat = torch.cat([g.flatten() for g in grads])
        at = len(flat) - int(self.own * len(flat))
        flat[at + 1:] = flat[at:-1].clone()
        for g, late in zip(grads, flat.split([g.numel() for g in grads])):
            g.copy_(late.view_as(g))
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


FAULTS = (Flooded, AverageFromTheStart, EntropyRewarded, WinnersTakeAll,
          OffByOneInBuffer, TopRenewed)
