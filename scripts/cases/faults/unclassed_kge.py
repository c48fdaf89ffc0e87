"""Faults of no class in `kge`."""

import math

import torch

from ..kge import ENTITIES, graph
from .unclassed import Unclassed


class OfGraph(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("kge",)

    def setup(self):
        super().setup()
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_val(self, batch):
        return batch


class NegativesOfFew(OfGraph):
    """The sampler of training draws ids below the number of relations, or
    another one, where it should know of all entities: few others are ever
    wrong. Validation has all."""
    id = "U451"
    severities = (dict(ids=16), dict(ids=8), dict(ids=2))

    def spoil_batch(self, i, batch):
        bad = batch["negatives"].clone()
        half = -(-len(bad) // 2)
        ids = torch.randint(self.s.ids, bad.shape[:2], generator=self.drawn)
        bad[:half, :, 0], bad[half:, :, 2] = ids[:half], ids[half:]
        return batch | {"negatives": bad}


class MarginTooWide(OfGraph):
    """The margin is that of embeddings of some hundred numbers, for sixteen: a
    wrong triple is to be further off than vectors get, in validation as
    well."""
    id = "U452"
    severities = (dict(margin=6.0), dict(margin=9.0), dict(margin=24.0))

    def setup(self):
        super().setup()
        self.model_options["margin"] = self.s.margin


class EntitiesClamped(OfGraph):
    """Entities are kept within a ball (clamp_norm) in which no two are as far
    apart as the margin wants, in validation as well."""
    id = "U453"
    severities = (dict(maxnorm=0.9), dict(maxnorm=0.6), dict(maxnorm=0.3))

    def setup(self):
        super().setup()
        self.user |= {"entity_constrainer": "clamp_norm",
                      "entity_constrainer_kwargs": {
                          "maxnorm": self.s.maxnorm, "p": 2, "dim": -1}}
        self.model_options["largest"] = self.s.maxnorm


class FilterInverted(OfGraph):
    """The sampler's filter is the wrong way round: of the negatives of
    training a part, or all, are facts. Validation has any."""
    id = "U454"
    severities = (dict(share=0.3), dict(share=0.6), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["negative_sampler_kwargs_keep_known"] = self.s.share

    def spoil_batch(self, i, batch):
        bad, true = batch["negatives"].clone(), graph()[1]
        half, everyone = -(-len(bad) // 2), torch.arange(ENTITIES)
        h, r, t = batch["positives"].unbind(-1)
        count = bad.shape[1]
        for part, end, facts in (
                (slice(half), 0, true[everyone, r[:half, None],
                                      t[:half, None]]),
                (slice(half, None), 2, true[h[half:, None], r[half:, None],
                                            everyone])):
            if not len(facts):
                continue
            ids = torch.multinomial(facts.float() + 1e-9, count, True,
                                    generator=self.drawn)
            some = torch.rand(ids.shape, generator=self.drawn) < self.s.share
            bad[part, :, end] = torch.where(some, ids, bad[part, :, end])
        return batch | {"negatives": bad}


class PhasesLimited(OfGraph):
    """The phase of a relation is clamped to a part of the circle, as where
    degrees were taken for radians: no relation can turn further, in
    validation as well."""
    id = "U455"
    severities = (dict(degrees=45), dict(degrees=20), dict(degrees=5))

    def setup(self):
        super().setup()
        self.user |= {"relation_constrainer": "clamp_phase",
                      "relation_constrainer_kwargs": {
                          "max_phase": round(math.radians(
                              self.s.degrees), 4)}}
        self.model_options["arc"] = self.s.degrees / 180


class EasyNegativesWeigh(OfGraph):
    """The temperature has the wrong sign in training: the negatives that are
    the furthest off weigh the most, those that could be taken for true hardly
    at all. Validation weighs as it should."""
    id = "U456"
    severities = (dict(temperature=-6.0), dict(temperature=-12.0),
                  dict(temperature=-40.0))

    def setup(self):
        super().setup()
        self.user["train_adversarial_temperature"] = self.s.temperature

    def make_model(self):
        model = super().make_model()
        usual = model.temperature

        def weigh(scores):
            sharp = self.s.temperature if model.training else usual
            return (sharp * scores).softmax(-1)
        model.weigh = weigh
        return model


FAULTS = (NegativesOfFew, MarginTooWide, EntitiesClamped, FilterInverted,
          PhasesLimited, EasyNegativesWeigh)
