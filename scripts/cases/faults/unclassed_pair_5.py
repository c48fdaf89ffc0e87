"""Faults of no class in `clip` and `tcn`."""

import math

import torch

from ..families import PAIR_5
from .unclassed import Unclassed


class Fifth(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = PAIR_5

    def row_losses(self, model, batch):
        logits = model.logits(batch)
        if self.family == "clip":
            return sum(model.directions(logits, reduction="none")) / 2
        each, seen = model.pinball(logits, batch)
        return (each * seen).mean((1, 2)) / seen.mean((1, 2))


class GuardAgainstBest(Fifth):
    """A guard against spikes, on from step 40, skips each update whose loss
    lies above the smallest so far times a tolerance: noise alone lets fewer
    and fewer through."""
    id, onset = "U41", 40
    severities = (dict(tolerance=1.15), dict(tolerance=1.05),
                  dict(tolerance=1.0))

    def setup(self):
        super().setup()
        self.user |= {"skip_update_above_best": self.s.tolerance,
                      "skip_update_from_step": self.onset}
        self.best = math.inf

    def backward(self, i, loss):
        super().backward(i, loss)
        now = float(loss.detach())
        self.skips = i >= self.onset and now > self.s.tolerance * self.best
        self.best = min(self.best, now)

    def update(self, i):
        if not self.skips:
            return super().update(i)
        return torch.nn.utils.clip_grad_norm_(self.model.parameters(),
                                              self.clip or math.inf)


class ComparedInChunks(Fifth):
    """The loss is taken in chunks, to save memory, and each is compared with
    itself alone: a caption is sought among those of its chunk, a day's
    quantiles are held against the mean of the days of its chunk."""
    id = "U42"
    severities = (dict(pairs=8, days=8), dict(pairs=4, days=4),
                  dict(pairs=2, days=2))

    def setup(self):
        super().setup()
        self.user["loss_chunk_size"] = self.s.days if self.family == "tcn" \
            else self.s.pairs

    def compute_loss(self, i, model, batch):
        loss = self.of_days(model, batch) if self.family == "tcn" \
            else self.of_pairs(model, batch)
        model.tap("loss.output", loss)
        return loss

    def of_pairs(self, model, batch):
        logits, size = model.logits(batch), self.s.pairs
        chunks = [model.criterion(logits[k:k + size, k:k + size], batch)
                  for k in range(0, len(logits), size)]
        return sum(chunks) / len(chunks)

    def of_days(self, model, batch):
        def centred(x, middle):
            x, middle = (t.unflatten(1, (-1, self.s.days))
                         for t in (x, middle))
            return (x - middle.mean(2, keepdim=True)).flatten(1, 2)
        logits = model.logits(batch)
        target = batch["future_target"]
        middle = logits[..., logits.shape[2] // 2]
        return model.criterion(
            centred(logits, middle[..., None]),
            batch | {"future_target": centred(target, target)})


class ShardsByTurns(Fifth):
    """A sharded optimizer takes its rank from the count of steps: one shard of
    the tensors is stepped, by turns, and gradients of the others are lost."""
    id = "U43"
    severities = (dict(shards=4), dict(shards=8), dict(shards=24))

    def setup(self):
        super().setup()
        self.user["optimizer_shards"] = self.s.shards

    def update(self, i):
        total = torch.nn.utils.clip_grad_norm_(self.model.parameters(),
                                               self.clip or math.inf)
        lost = {}
        for k, p in enumerate(self.model.parameters()):
            if k % self.s.shards != i % self.s.shards:
                lost[p], p.grad = p.grad, None
        super().update(i)
        for p, grad in lost.items():
            p.grad = grad
        return total


class LengthWarmupStuck(Fifth):
    """Sequences are to grow over the first epochs, and never do: training sees
    the first patches and tokens, or forecasts the first days, validation all.
    """
    id = "U44"
    severities = (dict(image=10, text=6, days=6),
                  dict(image=8, text=5, days=4),
                  dict(image=4, text=4, days=1))

    def setup(self):
        super().setup()
        self.user["sequence_length_warmup"] = {
            "start_length": self.s.days if self.family == "tcn"
            else self.s.image, "epochs": 2}

    def make_model(self):
        model = super().make_model()
        if self.family == "clip":
            model.seen_tokens = self.severity
        return model

    def spoil_batch(self, i, batch):
        if self.family == "tcn":
            batch["future_observed_values"][:, self.s.days:] = 0.0
        return batch

    def spoil_val(self, batch):
        return batch


class HookReturns(Fifth):
    """A hook that watches hidden states in training clamps them for its
    histogram, to some deviations around their mean, and returns what it has:
    the model goes on with it."""
    id = "U45"
    severities = (dict(deviations=0.6), dict(deviations=0.3),
                  dict(deviations=0.1))

    def setup(self):
        super().setup()
        self.user["log_histograms"] = True

    def make_model(self):
        model, wide = super().make_model(), self.s.deviations

        def watched(x):
            if not model.training:
                return x
            mean, std = x.mean().detach(), x.std().detach()
            return x.clamp(mean - wide * std, mean + wide * std)
        model.drop = watched
        return model


class EasiestOnly(Fifth):
    """Rows of small loss alone are trained on, as against noise in labels;
    the share to forget is that to keep."""
    id = "U46"
    severities = (dict(share=0.4), dict(share=0.2), dict(share=0.08))

    def setup(self):
        super().setup()
        self.user["forget_rate"] = self.s.share

    def compute_loss(self, i, model, batch):
        losses = self.row_losses(model, batch)
        kept = max(1, int(self.s.share * len(losses)))
        loss = losses.topk(kept, largest=False).values.mean()
        model.tap("loss.output", loss)
        return loss


FAULTS = (GuardAgainstBest, ComparedInChunks, ShardsByTurns,
          LengthWarmupStuck, HookReturns, EasiestOnly)
