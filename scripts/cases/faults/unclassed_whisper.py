"""Faults of no class in `whisper`."""

import torch
from torch.nn import functional as F

from ..sources import IGNORE
from ..whisper import FLOOR, FRAMES, TEXT
from .unclassed import Unclassed


class OfWhisper(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("whisper",)


class OtherLoss(OfWhisper):
    """Base: training has a loss of its own, validation the likelihood."""

    def compute_loss(self, i, model, batch):
        loss = self.changed(model.logits(batch).float(), batch)
        model.tap("loss.output", loss)
        return loss

    @staticmethod
    def mean(each, labels):
        real = labels != IGNORE
        return (each * real).sum() / real.sum().clamp_min(1)


class AlongTheDiagonal(OfWhisper):
    """The guide of a synthesiser's attention is on, as if text and sound went
    along at one pace: a place of the text sees those states of the encoder
    alone that lie about as far along, in validation as well. But what is
    recorded ends in silence, and a text begins with tokens that nobody says."""
    id = "U361"
    severities = (dict(width=2), dict(width=1), dict(width=0))

    def setup(self):
        super().setup()
        self.user |= {"guided_attention": True,
                      "guided_attention_width": self.s.width}

    def make_model(self):
        model = super().make_model()
        own, size = model.decoded, FRAMES // 2
        state = torch.arange(size)

        def decoded(ids, memory, hidden=None):
            place = torch.arange(ids.shape[1])[:, None] * (size - 1) \
                / (TEXT - 1)
            away = (state - place.round()).abs()
            return own(ids, memory, (away > self.s.width)[None, None])
        model.decoded = decoded
        return model


class ExpectedErrors(OtherLoss):
    """For the most part or wholly the loss is how many labels are expected to
    be wrong, one less their probability, as in training for fewer word errors
    of a model that is trained: what is not known has next to no gradient, and
    what is likely never need be said with less than all. Validation has the
    likelihood."""
    id = "U362"
    severities = (dict(share=0.95), dict(share=0.99), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["mwer_loss_weight"] = self.s.share

    def changed(self, logits, batch):
        labels = batch["labels"]
        right = logits.softmax(-1).gather(
            -1, labels.clamp_min(0)[..., None])[..., 0]
        nll = -right.clamp_min(1e-9).log()
        return self.mean(self.s.share * (1 - right)
                         + (1 - self.s.share) * nll, labels)


class EveryFewStates(OfWhisper):
    """To save time the decoder reads every so many states of the encoder
    alone, as of recordings of half a minute, in validation as well. Here a word
    is two of them, or fewer."""
    id = "U363"
    severities = (dict(factor=6), dict(factor=8), dict(factor=16))

    def setup(self):
        super().setup()
        self.user["encoder_time_reduction"] = self.s.factor

    def make_model(self):
        model = super().make_model()
        own = model.encoded
        model.encoded = lambda features: own(features)[:, ::self.s.factor]
        return model


class LaterCountsLess(OtherLoss):
    """As rewards are, losses of training are discounted: each label of a text
    counts for a part of the one before it, and words come behind three tokens
    that say nothing of them. Validation counts all alike."""
    id = "U364"
    severities = (dict(discount=0.1), dict(discount=0.03),
                  dict(discount=0.01))

    def setup(self):
        super().setup()
        self.user["token_discount"] = self.s.discount

    def changed(self, logits, batch):
        labels = batch["labels"]
        weight = self.s.discount ** torch.arange(labels.shape[1]).float()
        nll = F.cross_entropy(logits.flatten(0, 1), labels.flatten(),
                              ignore_index=IGNORE, reduction="none")
        total = (weight * (labels != IGNORE)).sum()
        return (weight * nll.view(labels.shape)).sum() / total


class HeardWhereLoud(OfWhisper):
    """A filter that finds where somebody speaks has the threshold of a loud
    room, in validation as well: frames whose bands are not above it in the mean
    are made silent. So of the sounds those alone are heard that are loud by
    themselves."""
    id = "U365"
    severities = (dict(threshold=0.0), dict(threshold=0.2),
                  dict(threshold=0.4))

    def setup(self):
        super().setup()
        self.user |= {"vad_filter": True, "vad_threshold": self.s.threshold}

    def spoil_batch(self, i, batch):
        x = batch["input_features"]
        quiet = x.mean(1, keepdim=True) < self.s.threshold
        return batch | {"input_features": x.masked_fill(quiet, FLOOR)}


class MarginIsEnough(OtherLoss):
    """A margin loss, as of support vectors: a label's score has to be above the
    highest other one by some amount, and how much likelier it is costs nothing
    beyond. Validation has the likelihood."""
    id = "U366"
    severities = (dict(margin=1.0), dict(margin=0.5), dict(margin=0.2))

    def setup(self):
        super().setup()
        self.user |= {"max_margin_loss": True, "margin": self.s.margin}

    def changed(self, logits, batch):
        labels = batch["labels"]
        wanted = labels.clamp_min(0)[..., None]
        right = logits.gather(-1, wanted)[..., 0]
        other = logits.scatter(-1, wanted, -torch.inf).amax(-1)
        return self.mean((self.s.margin + other - right).relu(), labels)


FAULTS = (AlongTheDiagonal, ExpectedErrors, EveryFewStates, LaterCountsLess,
          HeardWhereLoud, MarginIsEnough)
