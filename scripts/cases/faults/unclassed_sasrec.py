"""Faults of no class in `sasrec`."""

import math

import torch
from torch.nn import functional as F

from ..sasrec import LONGEST, world
from .unclassed import Unclassed


class OfLists(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("sasrec",)

    def setup(self):
        super().setup()
        self.drawn = torch.Generator().manual_seed(self.seed)


class OfScores(OfLists):
    """Base: training changes the scores that its loss gets, validation has
    them as they are."""

    def compute_loss(self, i, model, batch):
        logits = self.changed(model.logits(batch).float(), batch)
        loss = model.criterion(logits, batch)
        model.tap("loss.output", loss)
        return loss

    def changed(self, logits, batch):
        raise NotImplementedError

    @staticmethod
    def only(logits, kept, batch):
        """Scores of some items, and always that of the right one."""
        kept = kept.scatter(1, batch["item_id"][:, None], True)
        return logits.masked_fill(~kept, -math.inf)


class PopularityTakenOut(OfScores):
    """Against the bias to what is popular, scores of training get a part of
    the logarithm of how popular an item is, three, six or twelve times, so that
    they need not know it themselves; and who serves them, as validation does,
    gets them without: what is rare stands too high."""
    id = "U321"
    severities = (dict(tau=3.0), dict(tau=6.0), dict(tau=12.0))

    def setup(self):
        super().setup()
        self.user["popularity_debias_tau"] = self.s.tau

    def changed(self, logits, batch):
        return logits + self.s.tau * F.pad(world()["popular"].log(), (1, 0),
                                           value=-8.0)


class ComparedWithOwnList(OfScores):
    """Negatives are to be hard: the right item is compared with those of the
    user's own list and with a few that are drawn, or with none. Others never
    are wrong."""
    id = "U322"
    severities = (dict(more=4), dict(more=2), dict(more=0))

    def setup(self):
        super().setup()
        self.user["train_neg_sample_args"] = {
            "distribution": "history", "uniform_num": self.s.more}

    def changed(self, logits, batch):
        kept = torch.zeros_like(logits, dtype=torch.bool).scatter(
            1, batch["item_id_list"], True)
        if self.s.more:
            kept.scatter_(1, torch.randint(
                1, logits.shape[1], (len(logits), self.s.more),
                generator=self.drawn), True)
        kept[:, 0] = False
        return self.only(logits, kept, batch)


class CosineWithoutTemperature(OfLists):
    """Scores are cosines of users and items times a number that is far too
    small, in validation as well: the softmax over all items cannot be sure of
    any."""
    id = "U323"
    severities = (dict(scale=3.0), dict(scale=2.0), dict(scale=1.0))

    def setup(self):
        super().setup()
        self.user |= {"score_function": "cosine",
                      "score_scale": self.s.scale}

    def make_model(self):
        model = super().make_model()
        model.scores = lambda users: self.s.scale * F.normalize(
            users, dim=1) @ F.normalize(model.item_embedding.weight, dim=1).T
        return model


class ListsTurnedRound(OfLists):
    """As an augmentation lists of training begin with what was taken last, in
    a share of the rows: what comes next is asked at their oldest item.
    Validation has lists as they are."""
    id = "U324"
    severities = (dict(share=0.7), dict(share=0.9), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["reverse_ratio"] = self.s.share

    def spoil_batch(self, i, batch):
        ids, length = batch["item_id_list"], batch["item_length"][:, None]
        place = torch.arange(LONGEST)
        turned = ids.gather(1, torch.where(place < length,
                                           length - 1 - place, place))
        some = torch.rand(len(ids), 1, generator=self.drawn) < self.s.share
        return batch | {"item_id_list": torch.where(some, turned, ids)}

    def spoil_val(self, batch):
        return batch


class ListsMixed(OfLists):
    """Mixup of inputs alone: the vectors of a training list's items are mixed
    with those of another list, drawn anew, and what comes next is the one's
    item as if nothing were mixed."""
    id = "U325"
    severities = (dict(part=0.6), dict(part=0.75), dict(part=0.9))

    def setup(self):
        super().setup()
        self.user["input_mixup_lambda"] = self.s.part

    def make_model(self):
        model = super().make_model()

        def mixed(x):
            if not model.training:
                return x
            other = x[torch.randperm(len(x), generator=self.drawn)]
            return (1 - self.s.part) * x + self.s.part * other
        model.mixed = mixed
        return model


class SeenLeftOut(OfScores):
    """As an evaluator leaves out what a user has taken, training does so: the
    last items of a list, or all, are no wrong answers. Nothing says that what
    was just taken seldom comes again, and validation has it."""
    id = "U326"
    severities = (dict(last=1), dict(last=3), dict(last=6))

    def setup(self):
        super().setup()
        self.user["mask_history_in_training"] = self.s.last

    def changed(self, logits, batch):
        ids, length = batch["item_id_list"], batch["item_length"][:, None]
        place = torch.arange(LONGEST)
        some = (place < length) & (place >= length - self.s.last)
        seen = torch.zeros_like(logits, dtype=torch.bool).scatter(
            1, torch.where(some, ids, 0), True)
        seen[:, 0] = False
        return self.only(logits, ~seen, batch)


FAULTS = (PopularityTakenOut, ComparedWithOwnList, CosineWithoutTemperature,
          ListsTurnedRound, ListsMixed, SeenLeftOut)
