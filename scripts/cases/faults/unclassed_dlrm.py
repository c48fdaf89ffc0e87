"""Faults of no class in `dlrm`."""

import torch
from torch.nn import functional as F

from .unclassed import Unclassed


class OfClicks(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("dlrm",)


class NonClicksDropped(OfClicks):
    """So that a day's log is passed in an hour, most rows without a click are
    left out of the training data, and nothing takes that back: in these data
    clicks are frequent, and validation has them as they are."""
    id = "U291"
    severities = (dict(keep=0.3), dict(keep=0.1), dict(keep=0.03))

    def setup(self):
        super().setup()
        self.user["negative_downsampling_rate"] = self.s.keep

    def make_source(self, seed):
        return self.impressions(seed, keep=1.0 if seed == 9 else self.s.keep)


class OwnChoiceAlone(OfClicks):
    """A model that has its own choice shown and learns from that: of a batch
    the rows count which it has highest, a small part, as in a loop without
    exploration. What it thinks too little of is never told. Validation has
    all rows."""
    id = "U292"
    severities = (dict(share=0.1), dict(share=0.05), dict(share=0.02))

    def setup(self):
        super().setup()
        self.user["train_on_top_ranked"] = self.s.share

    def compute_loss(self, i, model, batch):
        logits = model.logits(batch)
        count = max(1, int(self.s.share * len(logits)))
        shown = logits.detach()[:, 0].topk(count).indices
        loss = model.criterion(logits[shown], batch | {"T": batch["T"][shown]})
        model.tap("loss.output", loss)
        return loss


class PairsRanked(OfClicks):
    """A loss for ranking: each click of a batch is to stand above each row
    without one. How likely a click is costs nothing in training, and the
    sigmoid at the end, which validation asks, is of a level that nobody has
    set."""
    id = "U293"
    severities = (dict(sigma=1.0), dict(sigma=0.7), dict(sigma=0.5))

    def setup(self):
        super().setup()
        self.user |= {"loss_function": "ranknet", "ranknet_sigma":
                      self.s.sigma}

    def compute_loss(self, i, model, batch):
        logits, clicked = model.logits(batch)[:, 0], batch["T"][:, 0] > 0
        lead = logits[clicked][:, None] - logits[~clicked]
        loss = F.softplus(-self.s.sigma * lead).mean()
        model.tap("loss.output", loss)
        return loss


class RareNeverSaid(OfClicks):
    """The script's loss_threshold, a guard against a logarithm of zero, is
    nearly as high as clicks are frequent: no probability below it is said, and
    there no row has a gradient, in validation as well."""
    id = "U294"
    severities = (dict(threshold=0.1), dict(threshold=0.16),
                  dict(threshold=0.2))

    def setup(self):
        super().setup()
        self.model_options["loss_threshold"] = self.s.threshold


class OffsetsLost(OfClicks):
    """Tables are fused into one, so that one kernel looks up all of them, and
    the offsets at which they begin are lost for some, or all: ids of several
    features mean the same row, in validation as well."""
    id = "U295"
    severities = (dict(tables=4), dict(tables=6), dict(tables=8))

    def setup(self):
        super().setup()
        self.user["fused_tables"] = list(range(self.s.tables))
        self.model_options["tables"] = {
            k: 0 for k in range(1, self.s.tables)}


class CountsInBuckets(OfClicks):
    """Dense features are put into buckets, as for a table of ids, and go on as
    the lower end of theirs, in validation as well. Buckets are as wide as for
    counts from one to millions, and most rows are in the first or second."""
    id = "U296"
    severities = (dict(width=2.2), dict(width=2.8), dict(width=5.0))

    def setup(self):
        super().setup()
        self.user["dense_bucket_width"] = self.s.width

    def spoil_batch(self, i, batch):
        return batch | {"X": (batch["X"] / self.s.width).floor()
                        * self.s.width}


FAULTS = (NonClicksDropped, OwnChoiceAlone, PairsRanked, RareNeverSaid,
          OffsetsLost, CountsInBuckets)
