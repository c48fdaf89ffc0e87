"""Faults of no class in `gnn` and `det`."""

import copy

import torch

from ..families import PAIR_8
from .unclassed import Unclassed


class Eighth(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = PAIR_8

    @property
    def own(self):
        """What a severity says of this family."""
        return getattr(self.s, self.family)

    def trained(self):
        return [p for p in self.model.parameters() if p.requires_grad]


class BuffersByTurns(Eighth):
    """Weights are kept in some buffers, so that a server can read one while
    another is trained, and nothing copies them over: each step goes on with
    the next buffer, whose weights have seen its steps alone."""
    id = "U71"
    severities = (dict(gnn=3, det=3), dict(gnn=6, det=6), dict(gnn=16, det=16))

    def setup(self):
        super().setup()
        self.user["weight_buffers"] = self.own
        self.buffers = {}

    def before_step(self, i):
        super().before_step(i)
        if not i:
            self.start = [p.detach().clone() for p in self.trained()]
        else:
            self.buffers[(i - 1) % self.own] = [p.detach().clone()
                                                for p in self.trained()]
        kept = self.buffers.get(i % self.own, self.start)
        with torch.no_grad():
            for p, buffer in zip(self.trained(), kept):
                p.copy_(buffer)


class SmoothedAlongMemory(Eighth):
    """Gradients are smoothed before the step, along the order in which a
    tensor lies in memory: weights get the mean of what their neighbours were
    to get, which have nothing to do with them."""
    id = "U72"
    severities = (dict(gnn=9, det=9), dict(gnn=33, det=33),
                  dict(gnn=129, det=129))

    def setup(self):
        super().setup()
        self.user["gradient_smoothing_window"] = self.own

    def update(self, i):
        half = self.own // 2
        for p in self.trained():
            if p.grad is None or p.numel() <= self.own:
                continue
            flat = p.grad.flatten()
            round_about = torch.cat((flat[-half:], flat, flat[:half]))
            p.grad.copy_(round_about.unfold(0, self.own, 1).mean(1).view_as(p))
        return super().update(i)


class GradientsKept(Eighth):
    """A buffer between backward pass and optimizer is read anew every so many
    steps: in between, the optimizer gets the gradients of the last reading
    again, whatever the new batches say."""
    id = "U73"
    severities = (dict(gnn=6, det=6), dict(gnn=15, det=15),
                  dict(gnn=50, det=50))

    def setup(self):
        super().setup()
        self.user["gradient_sync_interval"] = self.own
        self.kept = {}

    def update(self, i):
        for k, p in enumerate(self.trained()):
            if p.grad is None:
                continue
            if i % self.own == 0 or k not in self.kept:
                self.kept[k] = p.grad.clone()
            p.grad.copy_(self.kept[k])
        return super().update(i)


class AnchorTakenOff(Eighth):
    """Variance reduction whose second half is missing: from each gradient goes
    that of a snapshot of the weights for the same batch, and the snapshot's
    mean over all data, which should be added, is not. So nothing moves where
    the snapshot is, and it is renewed every so many steps."""
    id = "U74"
    severities = (dict(gnn=60, det=60), dict(gnn=20, det=20),
                  dict(gnn=6, det=6))

    def setup(self):
        super().setup()
        self.user |= {"svrg": True, "svrg_snapshot_every": self.own}
        self.onset = self.own

    def before_step(self, i):
        super().before_step(i)
        if i and i % self.own == 0:
            self.anchor = copy.deepcopy(self.model)
            self.anchor.tap = type(self.model).tap

    def compute_loss(self, i, model, batch):
        if i >= self.own:
            self.anchor.zero_grad()
            self.anchor.loss(batch).backward()
        return super().compute_loss(i, model, batch)

    def update(self, i):
        if i >= self.own:
            for p, a in zip(self.model.parameters(),
                            self.anchor.parameters()):
                if p.grad is not None:
                    p.grad.sub_(a.grad)
        return super().update(i)


class ChannelsSorted(Eighth):
    """A callback that is to make a network easy to prune sorts the channels of
    each layer by their norm every so many steps, and what reads them does not
    know: it goes on with the order of before."""
    id = "U75"
    severities = (dict(gnn=60, det=60), dict(gnn=24, det=24),
                  dict(gnn=8, det=8))

    def setup(self):
        super().setup()
        self.user["sort_channels_every"] = self.onset = self.own

    def before_step(self, i):
        super().before_step(i)
        if not i or i % self.own:
            return
        with torch.no_grad():
            for p in self.trained():
                if p.dim() > 1:
                    size = p.flatten(1).norm(dim=1)
                    p.copy_(p[size.argsort(descending=True, stable=True)])


class SignsMustAgree(Eighth):
    """A filter against noise lets the gradient of a weight through once its
    sign has been the same for some steps running; most never are."""
    id = "U76"
    severities = (dict(gnn=7, det=4), dict(gnn=9, det=6), dict(gnn=12, det=9))

    def setup(self):
        super().setup()
        self.user["gradient_agreement_steps"] = self.own
        self.signs, self.counts = {}, {}

    def update(self, i):
        for k, p in enumerate(self.trained()):
            if p.grad is None:
                continue
            sign = p.grad.sign()
            same = sign == self.signs.get(k, sign)
            count = torch.where(same, self.counts.get(k, 0) + 1, 1)
            p.grad.mul_(count >= self.own)
            self.signs[k], self.counts[k] = sign, count
        return super().update(i)


FAULTS = (BuffersByTurns, SmoothedAlongMemory, GradientsKept, AnchorTakenOff,
          ChannelsSorted, SignsMustAgree)
