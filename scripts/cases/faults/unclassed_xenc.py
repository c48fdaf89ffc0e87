"""Faults of no class in `xenc`."""

import math

import torch

from ..xenc import WIDTH, CrossEncoder
from .unclassed import Unclassed

QUESTION = 4            # CLS, what is asked for, SEP


class OfCrossEncoder(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("xenc",)


class PartsApart(OfCrossEncoder):
    """Passages are to be computed beforehand: in some layers question and
    passage do not see each other. That suits a network of many layers, of which
    the first are meant; there are two. In the second the first token alone sees
    both, or nothing does."""
    id = "U171"
    severities = (dict(layers=1, joins=True), dict(layers=2, joins=True),
                  dict(layers=2, joins=False))

    def setup(self):
        super().setup()
        self.user |= {"precomputed_layers": self.s.layers,
                      "cls_joins_last": self.s.joins}

    def make_model(self):
        model = super().make_model()
        model.visible = self.visible
        return model

    def visible(self, block, seen, types):
        number = CrossEncoder.BLOCKS.index(block)
        if number >= self.s.layers:
            return seen
        same = types[:, None, :, None] == types[:, None, None]
        if number and self.s.joins:
            same[:, :, 0] = True
        return seen & same


class PassageInWindows(OfCrossEncoder):
    """Long passages are read in windows, their first token left out as a
    title, and the best one is the score, in validation as well. The window is
    as long as a few words, and nothing in it says where it stood."""
    id = "U172"
    severities = (dict(window=3), dict(window=2), dict(window=1))
    TITLE = 1

    def setup(self):
        super().setup()
        self.user |= {"passage_window": self.s.window,
                      "window_aggregation": "max",
                      "title_tokens": self.TITLE}

    def make_model(self):
        model = super().make_model()
        model.logits = lambda batch: self.best_window(model, batch)
        return model

    def best_window(self, model, batch):
        parts = [batch[k] for k in ("input_ids", "token_type_ids",
                                    "attention_mask")]
        size, end = self.s.window, parts[0].shape[1]
        windows = [[torch.cat((t[:, :QUESTION], t[:, first:first + size]), 1)
                    for t in parts]
                   for first in range(QUESTION + self.TITLE, end - size + 1,
                                      size)]
        scores = model(*(torch.stack(p, 1).flatten(0, 1)
                         for p in zip(*windows))).view(-1, len(windows))
        empty = torch.stack([mask[:, QUESTION:].sum(1) == 0
                             for _, _, mask in windows], 1)
        return scores.masked_fill(empty, -math.inf).amax(1)


class TopDirectionRemoved(OfCrossEncoder):
    """Of the direction in which pooled vectors differ most a part is taken
    out of them, or all, as is done with embeddings that are to be compared, in
    validation as well; it is that of the vectors so far. Here it is what says
    the answer."""
    id = "U173"
    severities = (dict(part=0.6), dict(part=0.8), dict(part=1.0))
    PACE = 0.2

    def setup(self):
        super().setup()
        self.user |= {"remove_principal_components": 1,
                      "removed_share": self.s.part}

    def make_model(self):
        model = super().make_model()
        self.mean, self.spread = torch.zeros(WIDTH), torch.zeros(WIDTH, WIDTH)
        model.pooled = lambda x: self.without(
            model, CrossEncoder.pooled(model, x))
        return model

    def without(self, model, x):
        if model.training:
            with torch.no_grad():
                self.mean.lerp_(x.mean(0), self.PACE)
                away = x - self.mean
                self.spread.lerp_(away.T @ away / len(x), self.PACE)
        top = torch.linalg.eigh(self.spread).eigenvectors[:, -1:]
        return x - self.s.part * (x - self.mean) @ top @ top.T


class LeastAttendedKept(OfCrossEncoder):
    """To save time the second layer gets some tokens alone, those to which the
    first one's attention goes from CLS, and the sort has the wrong order: they
    are those to which least goes. In validation as well."""
    id = "U174"
    severities = (dict(kept=2), dict(kept=1), dict(kept=0))

    def setup(self):
        super().setup()
        self.user |= {"token_pruning_layer": 1, "tokens_kept": self.s.kept}

    def make_model(self):
        model = super().make_model()
        own = model.get_submodule(f"{CrossEncoder.BLOCKS[0]}.attention.self")
        self.looks = {}
        for name in ("query", "key"):
            own.get_submodule(name).register_forward_hook(
                lambda module, args, out, name=name:
                self.looks.__setitem__(name, out.detach()))
        model.visible = self.visible
        return model

    def visible(self, block, seen, types):
        if block == CrossEncoder.BLOCKS[0]:
            return seen
        score = (self.looks["key"] @ self.looks["query"][:, 0, :, None])[..., 0]
        score = score.masked_fill(~seen[:, 0, 0], math.inf)
        score[:, 0] = -math.inf
        order = score.argsort(1)[:, :1 + self.s.kept]
        kept = torch.zeros_like(score, dtype=torch.bool).scatter(1, order, True)
        return seen & kept[:, None, None]


class LabelsAsLists(OfCrossEncoder):
    """Labels are made a distribution over the passages of a list, as a loss of
    lists wants them, for a loss that takes each by itself; and the list is a
    part of the batch, with passages of any question. The more positives it
    has, the less each of them is one. Validation has labels as they are."""
    id = "U175"
    severities = (dict(rows=16), dict(rows=32), dict(rows=64))

    def setup(self):
        super().setup()
        self.user |= {"normalize_labels": True, "list_size": self.s.rows}

    def compute_loss(self, i, model, batch):
        lists = batch["labels"].view(-1, self.s.rows)
        lists = lists / lists.sum(1, keepdim=True).clamp_min(1)
        loss = model.criterion(model.logits(batch),
                               batch | {"labels": lists.flatten()})
        model.tap("loss.output", loss)
        return loss


class TurnedRound(OfCrossEncoder):
    """Pairs go in both orders, as where two questions may say the same: in
    most of the training rows the passage stands first. Whoever asks at
    validation has the question there."""
    id = "U176"
    severities = (dict(share=0.6), dict(share=0.8), dict(share=0.95))

    def setup(self):
        super().setup()
        self.user["reversed_pair_share"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        mask = batch["attention_mask"]
        some = torch.rand(len(mask), 1, generator=self.drawn) < self.s.share
        place, size = torch.arange(mask.shape[1]), mask.sum(1, keepdim=True)
        second = place > size - QUESTION
        old = torch.where(second, place - size + QUESTION,
                          place + QUESTION - 1)
        old = torch.where(place == 0, 0, old)
        old = torch.where(place < size, old, place)
        ids = batch["input_ids"].gather(1, old)
        return batch | {
            "input_ids": torch.where(some, ids, batch["input_ids"]),
            "token_type_ids": torch.where(some, (second & (place < size)
                                                 ).long(),
                                          batch["token_type_ids"])}

    def spoil_val(self, batch):
        return batch


FAULTS = (PartsApart, PassageInWindows, TopDirectionRemoved,
          LeastAttendedKept, LabelsAsLists, TurnedRound)
