"""Faults of no class in `ner` and `tab`."""

import copy

import torch
from torch.nn import functional as F

from ..families import PAIR_13
from .unclassed import Unclassed


class Thirteenth(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = PAIR_13

    @property
    def own(self):
        """What a severity says of this family."""
        return getattr(self.s, self.family)

    def trained(self):
        return [p for p in self.model.parameters() if p.requires_grad]

    def labels(self, batch):
        """Of all labels one after the other, negative where ignored."""
        return batch["target" if self.family == "tab" else "labels"].flatten()


class AddedToEarlierRounds(Thirteenth):
    """A mode of boosting is on: every some steps a copy of the network is put
    aside, and what all copies say is added to the logits in training, so that
    the network learns what is left. Validation has the network alone."""
    id = "U121"
    severities = (dict(ner=80, tab=80), dict(ner=40, tab=40),
                  dict(ner=20, tab=20))

    def setup(self):
        super().setup()
        self.user |= {"boosting": True, "boosting_round_steps": self.own}
        self.rounds = []

    def after_step(self, i, model):
        super().after_step(i, model)
        if (i + 1) % self.own == 0:
            self.rounds.append(copy.deepcopy(model).eval())

    def compute_loss(self, i, model, batch):
        logits = model.logits(batch).float()
        with torch.no_grad():
            said = [earlier.logits(batch).float() for earlier in self.rounds]
        loss = F.cross_entropy(sum(said, logits).flatten(0, -2),
                               self.labels(batch))
        model.tap("loss.output", loss)
        return loss


class MedianOfParts(Thirteenth):
    """An aggregation that is to withstand bad workers: of the gradients of 11,
    15 or 21 parts of a batch each weight gets the median, not the mean. What
    few of them have a gradient for, the median does not see."""
    id = "U122"
    severities = (dict(ner=11, tab=11), dict(ner=15, tab=15),
                  dict(ner=21, tab=21))

    def setup(self):
        super().setup()
        self.user |= {"aggregation": "median", "num_workers": self.own}

    def compute_loss(self, i, model, batch):
        self.last = batch
        return super().compute_loss(i, model, batch)

    def update(self, i):
        parts, rows = [], len(next(iter(self.last.values())))
        for k in range(self.own):
            self.model.zero_grad()
            cut = slice(k * rows // self.own, (k + 1) * rows // self.own)
            self.model.loss({name: t[cut]
                             for name, t in self.last.items()}).backward()
            parts.append([p.grad for p in self.trained()])
            self.model.zero_grad(set_to_none=True)
        for p, grads in zip(self.trained(), zip(*parts)):
            if grads[0] is not None:
                p.grad = torch.stack(grads).median(0).values
        return super().update(i)


class MistakesAlone(Thirteenth):
    """What the network says right already is to cost no time: of such labels a
    small share of the loss counts, or nothing, and the mean is that of those
    that count. So it unlearns what it has just learned, and wrong labels have
    nearly all of the loss in the end."""
    id = "U123"
    severities = (dict(ner=0.03, tab=0.3), dict(ner=0.01, tab=0.1),
                  dict(ner=0.0, tab=0.0))

    def setup(self):
        super().setup()
        self.user |= {"train_on_errors": True, "correct_weight": self.own}

    def compute_loss(self, i, model, batch):
        logits = model.logits(batch).float().flatten(0, -2)
        labels = self.labels(batch)
        each = F.cross_entropy(logits, labels, reduction="none")
        counts = torch.where(logits.argmax(-1) == labels, self.own, 1.0)
        counts = counts * (labels >= 0)
        loss = (counts * each).sum() / counts.sum().clamp_min(1e-3)
        model.tap("loss.output", loss)
        return loss


class OnTheWayToTheStart(Thirteenth):
    """Weights of a fine-tuned model are to be mixed with those that it began
    with, for validation, and the mixing is on in training instead: the loss
    and its gradient are those of the mixture, what is kept, stepped and
    validated are the weights themselves."""
    id = "U124"
    severities = (dict(ner=0.5, tab=0.5), dict(ner=0.7, tab=0.7),
                  dict(ner=0.9, tab=0.9))

    def setup(self):
        super().setup()
        self.user |= {"interpolate_weights": True, "start_share": self.own}

    def wrap(self, model):
        model = super().wrap(model)
        self.begun = {n: p.detach().clone()
                      for n, p in model.named_parameters()}
        return model

    def compute_loss(self, i, model, batch):
        self.stepped = {}
        for name, p in model.named_parameters():
            self.stepped[name] = p.data
            p.data = torch.lerp(p.data, self.begun[name], self.own)
        return super().compute_loss(i, model, batch)

    def backward(self, i, loss):
        super().backward(i, loss)
        for name, p in self.model.named_parameters():
            p.data = self.stepped[name]


class FrequentTwice(Thirteenth):
    """Logits are to be adjusted by how frequent classes are, so that rare ones
    count in training, and the sign is lost: of the logits is taken off what
    should be added, some times over. What is trained favours what is frequent,
    and nothing takes it back in validation."""
    id = "U125"
    severities = (dict(ner=1.0, tab=3.0), dict(ner=2.0, tab=6.0),
                  dict(ner=4.0, tab=12.0))
    seen = None

    def setup(self):
        super().setup()
        self.user |= {"logit_adjustment": True,
                      "logit_adjustment_tau": self.own}

    def compute_loss(self, i, model, batch):
        logits = model.logits(batch).float().flatten(0, -2)
        labels = self.labels(batch)
        if self.seen is None:   # as they are in the training set, nearly
            source = self.make_source(self.seed + 50)
            found = torch.cat([self.labels(source.batch())
                               for _ in range(20)])
            count = found[found >= 0].bincount(minlength=logits.shape[-1])
            self.seen = ((count + 1) / (count + 1).sum()).log()
        loss = F.cross_entropy(logits - self.own * self.seen, labels)
        model.tap("loss.output", loss)
        return loss


class ConsistentWithOthers(Thirteenth):
    """What a network says of a row under two draws of its dropout is to be the
    same, and the two draws are paired by a repeat that lies otherwise in
    memory: each row has to agree with its neighbour in the batch."""
    id = "U126"
    severities = (dict(ner=1.0, tab=1.0), dict(ner=3.0, tab=3.0),
                  dict(ner=10.0, tab=10.0))

    def setup(self):
        super().setup()
        self.user["r_drop_alpha"] = self.own

    def compute_loss(self, i, model, batch):
        loss = super().compute_loss(i, model, batch)
        tap, model.tap = model.tap, type(model).tap
        one = model.logits(batch).float().log_softmax(-1)
        model.tap = tap
        other = one.roll(1, 0)
        away = 0.5 * ((one.exp() - other.exp()) * (one - other)).sum(-1)
        if self.family == "ner":    # where both rows have words
            real = batch["labels"] >= 0
            real = real & real.roll(1, 0)
            away = away[real]
        loss = loss + self.own * away.mean()
        model.tap("loss.output", loss)
        return loss


FAULTS = (AddedToEarlierRounds, MedianOfParts, MistakesAlone,
          OnTheWayToTheStart, FrequentTwice, ConsistentWithOthers)
