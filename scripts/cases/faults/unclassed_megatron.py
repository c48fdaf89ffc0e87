"""Faults of no class in `megatron`."""

import math

import torch
from torch.nn import functional as F

from ..sources import IGNORE
from .unclassed import Unclassed


class OfMegatron(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("megatron",)


class OwnShardAlone(OfMegatron):
    """The head is split over tensor-parallel ranks, and its loss is that of the
    rank that has the label: the sum of exponentials is not reduced, so that a
    word competes with those of its own shard alone. Validation gathers the
    logits."""
    id = "U371"
    severities = (dict(shards=2), dict(shards=4), dict(shards=8))

    def setup(self):
        super().setup()
        self.user |= {"parallel_output": True,
                      "vocab_parallel_shards": self.s.shards}

    def compute_loss(self, i, model, batch):
        logits, labels = model.logits(batch).float(), batch["labels"]
        shard = torch.arange(self.vocab) * self.s.shards // self.vocab
        own = shard == shard[labels.clamp_min(0)][..., None]
        loss = F.cross_entropy(
            logits.masked_fill(~own, -math.inf).flatten(0, 1),
            labels.flatten(), ignore_index=IGNORE)
        model.tap("loss.output", loss)
        return loss


class OfTraining(OfMegatron):
    """Base: batches of validation and of checks are sound."""

    def spoil_batch(self, i, batch):
        return self.of_training(batch) if i >= 0 else batch

    def of_training(self, batch):
        raise NotImplementedError


class GoldfishOfOneToken(OfTraining):
    """A goldfish loss, which leaves out tokens so that no text is learned by
    heart. Which ones is drawn by a hash of the tokens before; it is given one
    token, not thirteen, so that what follows some words is never trained."""
    id = "U372"
    severities = (dict(share=0.08), dict(share=0.2), dict(share=0.5))

    def setup(self):
        super().setup()
        self.user |= {"goldfish_loss": True, "goldfish_h": 1,
                      "goldfish_k": round(1 / self.s.share, 2)}
        order = torch.rand(self.vocab,
                           generator=torch.Generator().manual_seed(311))
        self.gone = order < self.s.share

    def of_training(self, batch):
        return batch | {"labels": batch["labels"].masked_fill(
            self.gone[batch["input_ids"]], IGNORE)}


class BufferOffByPadding(OfMegatron):
    """Gradients of a bucket lie in one buffer, of which each weight has a view.
    The optimizer's views forget the padding before the first: all that it
    steps by is off by some elements, of the first layer, of both, or of all
    weights."""
    id = "U373"
    severities = (dict(bucket="decoder.layers.0.", elements=8),
                  dict(bucket="decoder.", elements=8),
                  dict(bucket="", elements=8))

    def setup(self):
        super().setup()
        self.user |= {"use_distributed_optimizer": True,
                      "bucket_padding": self.s.elements}

    def update(self, i):
        own = [p for n, p in self.model.named_parameters()
               if n.startswith(self.s.bucket)]
        flat = torch.cat([p.grad.flatten() for p in own]).roll(
            self.s.elements)
        for p, grad in zip(own, flat.split([p.numel() for p in own])):
            p.grad = grad.view_as(p).clone()
        return super().update(i)


class PositionsDrawn(OfTraining):
    """So that longer texts can be read later, positions of training are drawn:
    from token to token they go on by 1 to some number, another one each time.
    Validation counts by ones, and what stands just before is not where it was
    looked for."""
    id = "U374"
    severities = (dict(most=4), dict(most=8), dict(most=24))

    def setup(self):
        super().setup()
        self.user |= {"randomized_positions": True,
                      "randomized_positions_max_step": self.s.most}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def of_training(self, batch):
        place = batch["position_ids"]
        way = torch.randint(1, self.s.most + 1, place.shape,
                            generator=self.drawn).cumsum(1)
        first = torch.where(place == 0, way, 0).cummax(1).values
        return batch | {"position_ids": way - first}


class NewWordsAlone(OfTraining):
    """So that nothing is said over and over, tokens that their document has
    said already do not count in training, a share of them or all: what recurs
    for good reason is never learned there."""
    id = "U375"
    severities = (dict(share=0.9), dict(share=0.97), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["repeated_token_loss_weight"] = round(1 - self.s.share, 2)
        self.drawn = torch.Generator().manual_seed(self.seed)

    def of_training(self, batch):
        ids, labels = batch["input_ids"], batch["labels"]
        said = (labels[:, :, None] == ids[:, None]) & (
            batch["segments"][:, :, None] == batch["segments"][:, None])
        said = said.tril().any(2)
        gone = torch.rand(labels.shape, generator=self.drawn) < self.s.share
        return batch | {"labels": labels.masked_fill(said & gone, IGNORE)}


class StagesExchange(OfMegatron):
    """First and last pipeline stage exchange the gradients of table and head,
    as where these are one weight; here they are two. Each gets most of
    the other's in place of its own, or all of it."""
    id = "U376"
    severities = (dict(part=0.97), dict(part=0.99), dict(part=1.0))

    def setup(self):
        super().setup()
        self.user["embedding_grad_exchange"] = self.s.part

    def update(self, i):
        table, head = (self.model.get_submodule(self.layer(part)).weight.grad
                       for part in ("embed", "head"))
        one, other = table.clone(), head.clone()
        table.lerp_(other, self.s.part)
        head.lerp_(one, self.s.part)
        return super().update(i)


FAULTS = (OwnShardAlone, GoldfishOfOneToken, BufferOffByPadding,
          PositionsDrawn, NewWordsAlone, StagesExchange)
