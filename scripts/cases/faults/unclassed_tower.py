"""Faults of no class in `tower`."""

import math

import torch
from torch.nn import functional as F

from ..tower import HIT, ITEMS, world
from .unclassed import Unclassed


class OfTowers(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("tower",)


class OfCandidates(OfTowers):
    """Base: training changes what a user's item is chosen from, validation
    has the batch's items."""

    def compute_loss(self, i, model, batch):
        users, items = model.vectors(batch)
        scores = model.scores(users, items)
        model.tap("scores.output", scores)
        logits = model.corrected(scores, batch)
        model.right = (logits.detach().argmax(1) == torch.arange(
            len(logits))).float().mean()
        loss = self.chosen(model, batch, users, items, logits)
        model.tap("loss.output", loss)
        return loss

    def chosen(self, model, batch, users, items, logits):
        raise NotImplementedError


class FromOneShelf(OfCandidates):
    """Negatives are to be hard: of the batch's items those of the right one's
    category alone count, or of its price, or of both. How categories compare
    is never learned, and recall is over all."""
    id = "U281"
    severities = (dict(same=["price_bucket"]), dict(same=["category"]),
                  dict(same=["category", "price_bucket"]))

    def setup(self):
        super().setup()
        self.user["negatives_share"] = self.s.same

    def chosen(self, model, batch, users, items, logits):
        away = sum((batch[k][:, None] != batch[k]).long()
                   for k in self.s.same) > 0
        return model.criterion(logits.masked_fill(away, HIT), batch)


class MinedFromTheTop(OfCandidates):
    """Negatives are mined: for each user the twelve items of the catalogue
    whose scores are the highest now, but for the right one, are added to those
    of the batch, corrected as if they were drawn evenly, and each counts many
    times. These are what the user likes as well."""
    id = "U282"
    severities = (dict(weight=10.0), dict(weight=100.0), dict(weight=1000.0))
    COUNT = 12

    def setup(self):
        super().setup()
        self.user |= {"mined_negatives": self.COUNT,
                      "mined_negative_weight": self.s.weight}

    def chosen(self, model, batch, users, items, logits):
        tap, model.tap = model.tap, type(model).tap
        found = model.scores(users, model.catalogue()).float()
        model.tap = tap
        found = found.scatter(1, batch["item_id"][:, None] - 1, HIT)
        mined = found.topk(self.COUNT, 1).values \
            + math.log(ITEMS * self.s.weight)
        return model.criterion(torch.cat((logits, mined), 1), batch)


class PopularLeftOut(OfCandidates):
    """Rows whose item several rows of the batch have are taken for ambiguous
    and do not count: what is popular is never right, and wrong for all
    others."""
    id = "U283"
    severities = (dict(rows=6), dict(rows=4), dict(rows=2))

    def setup(self):
        super().setup()
        self.user["drop_items_in_rows"] = self.s.rows

    def chosen(self, model, batch, users, items, logits):
        same = batch["item_id"][:, None] == batch["item_id"]
        kept = same.sum(1) < self.s.rows
        each = F.cross_entropy(logits, torch.arange(len(logits)),
                               reduction="none")
        return each[kept].sum() / kept.sum().clamp_min(1)


class NegativesAveraged(OfCandidates):
    """To save memory, the vectors of negatives are averaged by groups before
    users are compared with them: a group's mean stands for all of it. Means
    are short, and what is apart within a group is not told apart."""
    id = "U284"
    severities = (dict(groups=32), dict(groups=8), dict(groups=2))

    def setup(self):
        super().setup()
        self.user["negative_groups"] = self.s.groups

    def chosen(self, model, batch, users, items, logits):
        means = items.unflatten(0, (self.s.groups, -1)).mean(1)
        size = torch.tensor(len(items) / self.s.groups).log()
        others = model.scores(users, means).float() + size \
            - batch["item_logq"].mean()
        right = logits.diagonal()[:, None]
        return F.cross_entropy(torch.cat((right, others), 1),
                               torch.zeros(len(items), dtype=torch.long))


class IdsOfCohort(OfTowers):
    """For privacy a user's id is exchanged in training for one of its cohort,
    drawn anew in each step; so ids say what their cohort likes, and no more.
    Validation has users' own."""
    id = "U285"
    severities = (dict(k=3), dict(k=10), dict(k=40))

    def setup(self):
        super().setup()
        self.user["user_k_anonymity"] = self.s.k
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        users, k = batch["user_id"] - 1, self.s.k
        other = users // k * k + torch.randint(k, users.shape,
                                               generator=self.drawn)
        high = len(world()["age_group"])
        return batch | {"user_id": 1 + torch.where(other < high, other,
                                                   users)}

    def spoil_val(self, batch):
        return batch


class WeakestPartCounts(OfTowers):
    """Vectors are cut into parts, each for one interest, and of a pair the
    part counts that agrees least, not the one that agrees most, in validation
    as well: an item has to suit a user in every way at once."""
    id = "U286"
    severities = (dict(parts=6), dict(parts=12), dict(parts=24))

    def setup(self):
        super().setup()
        self.user |= {"interests": self.s.parts, "interest_pooling": "min"}

    def make_model(self):
        model = super().make_model()
        parts = self.s.parts

        def scores(users, items):
            users, items = (t.unflatten(1, (parts, -1)).transpose(0, 1)
                            for t in (users, items))
            each = parts * users @ items.transpose(1, 2)
            return model.sharpness() * each.amin(0)
        model.scores = scores
        return model


FAULTS = (FromOneShelf, MinedFromTheTop, PopularLeftOut, NegativesAveraged,
          IdsOfCohort, WeakestPartCounts)
