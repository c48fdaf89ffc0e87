"""Faults of no class in `unet` and `gru`, and where they make sense in
`resnet` and `s2s`."""

import collections

import torch
from torch.nn import functional as F

from ..families import PAIR_1, PAIR_2
from .unclassed import Unclassed


class StateCleared(Unclassed):
    """The state is set to zero every few tokens: a reset that was meant for
    the beginning of a document."""
    id, families = "U12", ("gru",)
    severities = (dict(every=6), dict(every=3), dict(every=1))

    def setup(self):
        super().setup()
        self.model_options["reset_every"] = self.s.every


class LastTokensOnly(Unclassed):
    """The loss takes the last outputs of a row, as in code that was written
    for one label a row; validation takes all."""
    id, families = "U13", ("gru", "s2s")
    severities = (dict(last=6), dict(last=3), dict(last=1))

    def compute_loss(self, i, model, batch):
        last = self.s.last
        if self.family == "s2s":  # behind the end is padding
            labels = batch["labels"].clone()
            labels[:, last // 2 + 1:] = -100
            return model.loss(batch | {"labels": labels})
        loss = F.cross_entropy(model.logits(batch)[:, -last:].flatten(0, 1),
                               batch["labels"][:, -last:].flatten())
        model.tap("loss.output", loss)
        return loss


class WeightsInOtherLayers(Unclassed):
    """A resume loads the weights by shape and in another order: layers of one
    shape get each other's."""
    id, families = "U14", (*PAIR_1, *PAIR_2)
    severities = (dict(at=180, times=1), dict(at=110, times=2),
                  dict(at=60, times=3))

    def setup(self):
        super().setup()
        self.onset = self.s.at
        # A job that is interrupted again and again resumes so each time.
        self.resumes = [self.onset + 40 * k for k in range(self.s.times)]
        self.notices = {i: [
            ("INFO", f"resuming from checkpoint-{i + self.first_step}"),
            ("INFO", "loaded model.safetensors, optimizer.pt, scheduler.pt")]
            for i in self.resumes}

    def before_step(self, i):
        super().before_step(i)
        if i not in self.resumes:
            return
        shapes = collections.defaultdict(list)
        for p in self.model.parameters():
            shapes[p.shape].append(p)
        with torch.no_grad():
            for same in shapes.values():
                turned = [p.clone() for p in same[-1:] + same[:-1]]
                for p, other in zip(same, turned):
                    p.copy_(other)


class PooledLoss(Unclassed):
    """The training loss compares averages over some pixels, as at a preview's
    resolution; validation compares pixels."""
    id, families = "U15", ("unet", "resnet")
    severities = (dict(pixels=2), dict(pixels=4), dict(pixels=12))

    def compute_loss(self, i, model, batch):
        if self.family == "resnet":
            return self.of_groups(model, batch)
        loss = F.mse_loss(
            F.avg_pool2d(model.logits(batch).float(), self.s.pixels),
            F.avg_pool2d(batch["noise"], self.s.pixels))
        model.tap("loss.output", loss)
        return loss


    def of_groups(self, model, batch):
        """Probabilities of neighbouring classes are added up."""
        size = min(self.s.pixels, 5)
        logits = F.pad(model.logits(batch).float(), (0, -10 % size),
                       value=-100.0).unflatten(-1, (-1, size)).logsumexp(-1)
        loss = F.cross_entropy(logits, batch["labels"] // size)
        model.tap("loss.output", loss)
        return loss


class SkipMisaligned(Unclassed):
    """A crop that is off moves the upper skip connection against what it is
    joined with."""
    id, families = "U16", ("unet", "s2s")
    severities = (dict(shift=3), dict(shift=4), dict(shift=6))

    def setup(self):
        super().setup()
        name = "memory_shift" if self.family == "s2s" else "skip_shift"
        self.model_options[name] = self.s.shift


class OwnGuesses(Unclassed):
    """Scheduled sampling whose share stands at its end from the start: inputs
    of the training are the model's own likeliest tokens."""
    id, families = "U17", ("gru",)
    severities = (dict(share=0.3), dict(share=0.6), dict(share=1.0))

    def setup(self):
        super().setup()
        self.coin = torch.Generator().manual_seed(self.seed)

    def compute_loss(self, i, model, batch):
        ids = batch["input_ids"]
        tap, model.tap = model.tap, type(model).tap
        with torch.no_grad():
            said = model.logits(batch).argmax(-1)
        model.tap = tap
        guesses = torch.cat((ids[:, :1], said[:, :-1]), 1)
        taken = torch.rand(ids.shape, generator=self.coin) < self.s.share
        return model.loss(batch | {"input_ids": torch.where(taken, guesses,
                                                            ids)})


FAULTS = (StateCleared, LastTokensOnly, WeightsInOtherLayers, PooledLoss,
          SkipMisaligned, OwnGuesses)
