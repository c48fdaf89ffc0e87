"""Faults whose root cause is in no class of kb/classes.tsv: what is right is
to name none. These are for development; unclassed_pair_1.py has others."""

import collections

import torch
from torch.nn import functional as F

from ..families import ATTENTION, FIRST, UNKNOWN, Fault
from .targets import Dumps


class Unclassed(Dumps, Fault):
    """Base: batches, losses and some logits are dumped, whatever is wrong."""
    root_class, families = UNKNOWN, FIRST

    def setup(self):
        self.watch()


class GradientOfEarlierSteps(Unclassed):
    """An asynchronous pipeline applies the gradient of some steps ago; the
    recorder in the backward pass sees the new one."""
    id = "U01"
    severities = (dict(delay=4), dict(delay=12), dict(delay=40))

    def setup(self):
        super().setup()
        self.queue = collections.deque()

    def update(self, i):
        self.queue.append([p.grad.clone() for p in self.model.parameters()])
        late = self.queue[0]
        if len(self.queue) > self.s.delay:
            self.queue.popleft()
        for p, grad in zip(self.model.parameters(), late):
            p.grad.copy_(grad)
        return super().update(i)


class MomentsOfOtherLayers(Unclassed):
    """The optimizer files its moments by shape: every few steps weights of one
    shape get each other's, by turns."""
    id, needs, families = "U02", "adamw", ATTENTION
    severities = (dict(every=12), dict(every=4), dict(every=1))

    def after_step(self, i, model):
        if i % self.s.every:
            return
        shapes = collections.defaultdict(list)
        for p in model.parameters():
            if p in self.optimizer.state:
                shapes[p.shape].append(self.optimizer.state[p])
        for states in shapes.values():
            for key in ("exp_avg", "exp_avg_sq"):
                turned = [s[key] for s in states[-1:] + states[:-1]]
                for state, moment in zip(states, turned):
                    state[key] = moment


class RolledBack(Unclassed):
    """A guard against spikes restores a snapshot of the weights every so many
    steps, whether there was one or not; the snapshot is never renewed."""
    id = "U03"
    severities = (dict(every=70), dict(every=40), dict(every=15))

    def setup(self):
        super().setup()
        # The classifier has learned most after 40 steps.
        self.every = self.s.every // (1 if self.language else 5)
        self.onset = 2 * self.every

    def before_step(self, i):
        super().before_step(i)
        if i == self.every:
            self.snapshot = [p.detach().clone()
                             for p in self.model.parameters()]
        if i >= self.onset and i % self.every == 0:
            with torch.no_grad():
                for p, old in zip(self.model.parameters(), self.snapshot):
                    p.copy_(old)


class HardestOnly(Unclassed):
    """Hard-example mining on data whose hard examples are its noise: the loss
    is the mean of the highest ones, of a part of the batch."""
    id = "U04"
    severities = (dict(share=0.5), dict(share=0.2), dict(share=0.05))

    def compute_loss(self, i, model, batch):
        logits = model.logits(batch).float().flatten(0, -2)
        losses = F.cross_entropy(logits, batch["labels"].flatten(),
                                 reduction="none")
        kept = max(1, int(self.s.share * len(losses)))
        loss = losses.topk(kept).values.mean()
        model.tap("loss.output", loss)
        return loss


class ShuffledInside(Unclassed):
    """The shuffle works one level too deep: on the tokens of windows of a row
    before labels are made of it, on some columns of the features."""
    id = "U05"
    severities = (dict(window=3, columns=5), dict(window=6, columns=9),
                  dict(window=None, columns=16))

    def setup(self):
        super().setup()
        self.order = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        if not self.language:
            x, wide = batch["input"].clone(), self.s.columns
            keys = torch.rand(len(x), wide, generator=self.order)
            x[:, :wide] = x[:, :wide].gather(1, keys.argsort(1))
            return batch | {"input": x}
        ids = torch.cat((batch["input_ids"], batch["labels"][:, -1:]), 1)
        place = torch.arange(ids.shape[1])
        window = place // (self.s.window or len(place))
        keys = window + torch.rand(ids.shape, generator=self.order)
        ids = ids.gather(1, keys.argsort(1))
        return {"input_ids": ids[:, :-1].clone(), "labels": ids[:, 1:].clone()}

    def spoil_val(self, batch):
        return batch


class MixedWithAnotherRun(Unclassed):
    """A callback averages the weights with the last checkpoint of the folder,
    which another run of the same settings has written."""
    id = "U06"
    severities = (dict(part=0.5, every=60), dict(part=0.5, every=30),
                  dict(part=0.5, every=10))

    def make_model(self):
        other, source = super().make_model(), self.make_source(self.seed + 600)
        optimizer = torch.optim.AdamW(other.parameters(), lr=2e-3)
        for _ in range(80):
            other.zero_grad()
            other.loss(source.batch()).backward()
            optimizer.step()
        self.other, self.onset = other, self.s.every
        return super().make_model()

    def before_step(self, i):
        super().before_step(i)
        if i and i % self.s.every == 0:
            with torch.no_grad():
                for p, q in zip(self.model.parameters(),
                                self.other.parameters()):
                    p.lerp_(q, self.s.part)


FAULTS = (GradientOfEarlierSteps, MomentsOfOtherLayers, RolledBack,
          HardestOnly, ShuffledInside, MixedWithAnotherRun)
