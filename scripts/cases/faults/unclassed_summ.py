"""Faults of no class in `summ`."""

import itertools

import torch
from torch.nn import functional as F

from ..summ import EOS, FIRST_OWN, FIRST_VERB, PAD, WIDTH
from .unclassed import Unclassed


class OfSummariser(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("summ",)


class HearsAsItSpeaks(OfSummariser):
    """A policy of simultaneous translation is on, in validation as well: the
    decoder's word at a place sees the source up to some tokens further on, as
    if it were still being spoken. What is main need not have been said."""
    id = "U191"
    severities = (dict(wait=6), dict(wait=3), dict(wait=1))

    def setup(self):
        super().setup()
        self.user |= {"simul_type": "waitk_fixed_pre_decision",
                      "waitk_lagging": self.s.wait}

    def make_model(self):
        model = super().make_model()
        model.hides = self.hides
        return model

    def hides(self, ids, inputs, hidden):
        said = (ids != PAD).cumsum(1)[:, None, None]
        now = torch.arange(inputs.shape[1])[:, None]
        return hidden | (said > now + self.s.wait)


class SaidIsHidden(OfSummariser):
    """So that nothing is said twice, source tokens that the decoder has said
    already are hidden from it, in validation as well, and those around them,
    which was made for subwords: what belongs to a word is gone with it."""
    id = "U192"
    severities = (dict(window=1), dict(window=2), dict(window=4))

    def setup(self):
        super().setup()
        self.user |= {"coverage_mask": True, "coverage_window": self.s.window}

    def make_model(self):
        model = super().make_model()
        model.hides = self.hides
        return model

    def hides(self, ids, inputs, hidden):
        same = (inputs[:, :, None] == ids[:, None]) \
            & (inputs >= FIRST_OWN)[:, :, None]
        said = same.float().cummax(1).values
        size = 2 * self.s.window + 1
        near = F.max_pool1d(said, size, 1, self.s.window) > 0
        return hidden | (near & (ids != EOS)[:, None])[:, None]


class TailInFewDimensions(OfSummariser):
    """An adaptive softmax, which is to save memory of rare words, with the
    cutoff and the factor of a large dictionary: all verbs and objects are the
    tail, and are told apart by a few units of the state, in validation too."""
    id = "U193"
    severities = (dict(units=4), dict(units=2), dict(units=1))

    def setup(self):
        super().setup()
        self.user |= {"adaptive_softmax_cutoff": str(FIRST_VERB),
                      "adaptive_softmax_factor": WIDTH // self.s.units}

    def make_model(self):
        model = super().make_model()

        def split(module, args, out):
            tail = args[0][..., :self.s.units] \
                @ module.weight[FIRST_VERB:, :self.s.units].T
            return torch.cat((out[..., :FIRST_VERB], tail), -1)

        model.decoder.output_projection.register_forward_hook(split)
        return model


class InAnyOrder(OfSummariser):
    """The loss of a decoder that says all words at once is on: in training
    the words of a window are put into that order which the model likes best
    before they are compared. Validation compares by place."""
    id = "U194"
    severities = (dict(window=2), dict(window=3), dict(window=4))

    def setup(self):
        super().setup()
        self.user |= {"order_agnostic_loss": True,
                      "order_agnostic_window": self.s.window}

    def compute_loss(self, i, model, batch):
        each = model.logits(batch).float().log_softmax(-1)
        target = batch["target"]
        real = target != PAD
        share = model.smoothing
        even = share / (each.shape[-1] - 1)
        places = each.shape[1]
        # cost[row, place, j]: of the place for the word of another one.
        nll = -each.gather(-1, target[:, None].expand(-1, places, -1))
        cost = (1 - share - even) * nll - even * each.sum(-1, keepdim=True)
        never = 1e4 * (~torch.eye(places, dtype=torch.bool)
                       & ~(real[:, :, None] & real[:, None]))
        cost = cost * real[:, :, None] + never
        total = 0.0
        for first in range(0, places, self.s.window):
            size = min(self.s.window, places - first)
            here = torch.arange(first, first + size)
            ways = [cost[:, here, first + torch.tensor(way)].sum(1)
                    for way in itertools.permutations(range(size))]
            total = total + torch.stack(ways, 1).amin(1).sum()
        loss = total / real.sum()
        own = nll.diagonal(dim1=1, dim2=2)
        model.nll = (own * real).sum().detach() / real.sum()
        model.tap("loss.output", loss)
        return loss


class Rotated(OfSummariser):
    """The noise of the pretraining is left on: most of the training reports
    begin at any of their tokens, and what stood before comes behind. So the
    order in which facts are said cannot be known, and a fact is torn."""
    id = "U195"
    severities = (dict(share=0.8), dict(share=0.95), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["rotate"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        ids, size = batch["src_tokens"], batch["src_lengths"][:, None]
        rows, width = ids.shape
        some = torch.rand(rows, 1, generator=self.drawn) < self.s.share
        by = torch.rand(rows, 1, generator=self.drawn) * (size - 1)
        by = torch.where(some, by.long(), 0)
        place, first = torch.arange(width), width - size
        turned = first + (place - first + by) % (size - 1)
        order = torch.where((place >= first) & (place < width - 1), turned,
                            place)
        return batch | {"src_tokens": ids.gather(1, order)}

    def spoil_val(self, batch):
        return batch


class TokensMerged(OfSummariser):
    """To save time tokens are merged in pairs: of those at even places some go
    into the ones at odd places that they are most like, and both are their
    mean from there on, in validation as well. There are few tokens, and none
    is like another one."""
    id = "U196"
    severities = (dict(merged=4), dict(merged=6), dict(merged=7))

    def setup(self):
        super().setup()
        self.user |= {"token_merging": True,
                      "token_merging_r": self.s.merged}

    def make_model(self):
        model = super().make_model()
        own = model.embedded
        model.embedded = lambda name, ids: own(name, ids) \
            if name == "decoder" else self.merged(own(name, ids))
        return model

    def merged(self, x):
        even, odd = x[:, ::2], x[:, 1::2]
        like = F.normalize(even, dim=-1) @ F.normalize(odd, dim=-1).mT
        score, other = like.max(2)
        picked = score.argsort(1, descending=True)[:, :self.s.merged]
        goes = torch.zeros_like(score).scatter(1, picked, 1.0)
        pairs = F.one_hot(other, odd.shape[1]) * goes[..., None]
        mean = (odd + pairs.mT @ even) / (1 + pairs.sum(1))[..., None]
        even = torch.lerp(even, mean.gather(
            1, other[..., None].expand_as(even)), goes[..., None])
        return torch.stack((even, mean), 2).flatten(1, 2)


FAULTS = (HearsAsItSpeaks, SaidIsHidden, TailInFewDimensions, InAnyOrder,
          Rotated, TokensMerged)
