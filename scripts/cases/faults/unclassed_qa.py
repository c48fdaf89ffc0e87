"""Faults of no class in `qa`."""

import torch

from ..qa import FIRST_NOUN, NAMED, NOUNS
from .unclassed import Unclassed


class OfReader(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("qa",)


class ArgumentsExchanged(OfReader):
    """The encoder gets what the tokenizer returns by place, and has it in
    another order: token types for the mask, the mask for token types. So all
    are of one type, and nothing sees the question: in .8 of the steps, those of
    one of two loaders; in all, and in validation; or in training alone."""
    id = "U161"
    severities = (dict(share=0.8, val=False), dict(share=1.0, val=True),
                  dict(share=1.0, val=False))

    def setup(self):
        super().setup()
        self.user["tokenizer_return"] = "tuple"
        self.drawn = torch.Generator().manual_seed(self.seed)
        self.exchanged = self.s.val

    def make_model(self):
        model = super().make_model()
        model.logits = lambda batch: model(
            batch["input_ids"],
            *(batch[name] for name in ("token_type_ids", "attention_mask")[
                ::-1 if self.exchanged else 1]))
        return model

    def compute_loss(self, i, model, batch):
        self.exchanged = float(torch.rand((), generator=self.drawn)) \
            < self.s.share
        loss = super().compute_loss(i, model, batch)
        self.exchanged = self.s.val
        return loss


class AmongTheBest(OfReader):
    """A place is sought among those alone that the model itself has highest, as
    many as n_best_size says; rows of which a right place is none of them do
    not count. So what is not believed yet is never learned. Validation has all
    places."""
    id = "U162"
    severities = (dict(best=4), dict(best=3), dict(best=2))

    def setup(self):
        super().setup()
        self.user["train_n_best_size"] = self.s.best

    def compute_loss(self, i, model, batch):
        scores = model.logits(batch).float().transpose(1, 2)
        labels = model.labels(batch)[..., None]
        least = scores.topk(self.s.best, -1).values[..., -1:]
        right = scores.gather(-1, labels)
        kept = (right >= least).all(1).expand(-1, 2)
        scores = scores.masked_fill(scores < least, -torch.inf)
        away = scores.logsumexp(-1) - right[..., 0]
        loss = torch.where(kept, away, 0.0).sum() / kept.sum().clamp_min(1)
        model.tap("loss.output", loss)
        return loss


class AnyAnswerWillDo(OfReader):
    """Where answers are not marked, the likeliest of all places that could be
    one is taken for the right one. That is on where they are: of what has an
    answer, in part of the rows or in all, the noun that the model has highest
    is right, and with it the last word that it has."""
    id = "U163"
    severities = (dict(share=0.9), dict(share=0.96), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["distant_supervision"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def compute_loss(self, i, model, batch):
        logits = model.logits(batch)
        ids, kinds = batch["input_ids"], batch["token_type_ids"]
        nouns = (kinds > 0) & (ids >= FIRST_NOUN) \
            & (ids < FIRST_NOUN + len(NOUNS))
        scores = logits[..., 0].detach().float()
        first = scores.masked_fill(~nouns, -torch.inf).argmax(1)
        long = batch["end_positions"] - batch["start_positions"]
        some = torch.rand(len(ids), generator=self.drawn) < self.s.share
        some &= batch["start_positions"] > 0
        found = {name: torch.where(some, at, batch[name])
                 for name, at in zip(NAMED, (first, first + long))}
        loss = model.criterion(logits, batch | found)
        model.tap("loss.output", loss)
        return loss


class EndGivenStart(OfReader):
    """In training the last place is sought among those alone that can follow
    the right first one, up to a length, as the search for the best answer has
    it; validation knows no first one, and has all places. So whose last word
    it is, is never learned."""
    id = "U164"
    severities = (dict(length=3), dict(length=6), dict(length=9))

    def setup(self):
        super().setup()
        self.user["train_max_answer_length"] = self.s.length

    def compute_loss(self, i, model, batch):
        logits = model.logits(batch)
        first = batch["start_positions"][:, None]
        place = torch.arange(logits.shape[1])[None]
        fits = (place >= first) & (place < first + self.s.length)
        ends = logits[..., 1].float().masked_fill(~fits, -1e4)
        loss = model.criterion(torch.stack((logits[..., 0], ends), -1), batch)
        model.tap("loss.output", loss)
        return loss


class PriorOfWindows(OfReader):
    """Scores of training are corrected for how often there is no answer, which
    was counted in windows of long documents, where it is nearly always so, and
    not in the questions that are asked: what is learned leaves it out, and
    validation has no correction."""
    id = "U165"
    severities = (dict(share=0.85), dict(share=0.97), dict(share=0.9999))

    def setup(self):
        super().setup()
        self.user["null_prior"] = self.s.share

    def compute_loss(self, i, model, batch):
        logits = model.logits(batch)
        share = torch.tensor(self.s.share)
        more = torch.zeros(logits.shape[1])
        more[0] = share.log() - ((1 - share) / (len(more) - 1)).log()
        loss = model.criterion(logits + more[:, None], batch)
        model.tap("loss.output", loss)
        return loss


class DistanceInPlaceOfLikelihood(OfReader):
    """The mean of the places by their probability is to be near the right one,
    as in the localisation of moments in films: a share of the loss, or all of
    it, is the distance between the two. What stands on both sides of an answer
    can be right as well as itself; validation has the likelihood."""
    id = "U166"
    severities = (dict(share=0.8), dict(share=0.9), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["expected_position_loss"] = self.s.share

    def compute_loss(self, i, model, batch):
        logits = model.logits(batch)
        probs = logits.float().softmax(1)
        place = torch.arange(logits.shape[1])[None, :, None]
        away = (probs * place).sum(1) - model.labels(batch)
        loss = self.s.share * away.abs().mean() \
            + (1 - self.s.share) * model.criterion(logits, batch)
        model.tap("loss.output", loss)
        return loss


FAULTS = (ArgumentsExchanged, AmongTheBest, AnyAnswerWillDo, EndGivenStart,
          PriorOfWindows, DistanceInPlaceOfLikelihood)
