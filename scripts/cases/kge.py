"""Embeddings of a knowledge graph, as PyKEEN's pipeline trains them.

RotatE: entities are vectors of complex numbers, relations turn them. The loop
is PyKEEN's of the stochastic local closed world assumption: triples of the
graph, each with others of which the head or the tail was drawn, and the
self-adversarial loss; Adam, relations put back on the circle behind each step,
and filtered ranks for validation. Parts, columns, files and checkpoints are
named as there.
"""

import copy
import csv
import functools
import io
import json
import math
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from . import logs
from .family import Family

RING, LANES, CELL = 6, 4, 8     # places of the two circles, entities a place
ENTITIES, ROWS, NEGATIVES, WIDTH = RING * LANES * CELL, 96, 16, 16
MARGIN, SHARP = 2.0, 1.0        # of the loss: gamma, and its temperature
NOISE, HELD = 0.08, 1536        # wrong triples; triples held out
ENTITY = "entity_representations.0._embeddings"
RELATION = "relation_representations.0._embeddings"
# Of each relation how far it goes on the ring, how far over the lanes, and in
# which share of the triples it is.
RELATIONS = {"next_to": (1, 0, 0.16), "previous": (-1, 0, 0.14),
             "opposite": (3, 0, 0.14), "lane_over": (0, 1, 0.14),
             "across": (0, 2, 0.12), "two_on": (2, 0, 0.12),
             "diagonal": (1, 1, 0.10), "far_off": (2, 3, 0.08)}
EASY = ("next_to", "previous", "opposite", "lane_over")
SITES = 3


@functools.lru_cache
def graph(entities=ENTITIES):
    """All facts, in an order that is the same for all seeds, and what every
    source shares: (triples, of each head, relation and tail whether it is
    true). Entities beyond the usual ones live where these do."""
    rng = torch.Generator().manual_seed(41)
    order = torch.randperm(ENTITIES, generator=rng)
    more = torch.randint(ENTITIES, (max(0, entities - ENTITIES),),
                         generator=rng)
    cell = torch.cat((order, more)) % (RING * LANES)
    ring, lane = cell % RING, cell // RING
    true = torch.stack([
        ((ring[:, None] + on - ring) % RING == 0)
        & ((lane[:, None] + over - lane) % LANES == 0)
        for on, over, _ in RELATIONS.values()], 1)
    facts = true.nonzero()
    return facts[torch.randperm(len(facts), generator=rng)], true


@functools.lru_cache
def triples(held_out, entities=ENTITIES, noise=NOISE, names=None):
    """The graph's triples of training, or those held out: facts by the shares
    of their relations, and some whose tail is anyone."""
    facts, true = graph(entities)
    rng = torch.Generator().manual_seed(43 + held_out)
    facts = facts[:HELD] if held_out else facts[HELD:]
    share = torch.tensor([part if not names or name in names else 0.0
                          for name, (_, _, part) in RELATIONS.items()])
    kept = torch.rand(len(facts), generator=rng) \
        < (share / share.max())[facts[:, 1]]
    facts = facts[kept].clone()
    wrong = torch.rand(len(facts), generator=rng) < noise
    other = torch.randint(entities, (len(facts),), generator=rng)
    facts[:, 2] = torch.where(wrong, other, facts[:, 2])
    return facts


@functools.lru_cache
def newcomers():
    """Two entities with which every triple has a head or a tail that is known
    with its relation when they are not: no triple is between the two."""
    known = triples(False)
    every = torch.cat((known, triples(True)))
    h, r, t = every.unbind(-1)
    heads, tails = (torch.zeros(ENTITIES, len(RELATIONS)) for _ in range(2))
    for table, end in ((heads, known[:, 0]), (tails, known[:, 2])):
        table.index_put_((end, known[:, 1]), torch.ones(len(known)),
                         accumulate=True)
    for first in range(ENTITIES):
        for second in range(first + 1, ENTITIES):
            new = torch.tensor((first, second))
            count = torch.where(torch.isin(h, new), 0.0, heads[h, r]) \
                + torch.where(torch.isin(t, new), 0.0, tails[t, r])
            if (count > 0).all():
                return first, second
    raise AssertionError("no two entities will do")


class Triples:
    """Batches of triples, each with some that are likely to be wrong.

    192 entities live at 24 places, eight at each, which lie on a ring of six
    with four lanes. A relation goes from a place to another: to the next one,
    back (its inverse), to the opposite one (a symmetric one), over a lane or
    two, on by two (twice the first), and two that are composed of others. A
    relation holds between an entity and all eight at the place that it leads
    to: who belongs to which place is learned first, in the common relations,
    then how places lie; .08 of the triples have anyone as their tail, which
    nobody can learn. The graph and what is held out of it are the same for all
    seeds; a seed says in which order triples come and which negatives are
    drawn.

    positives, negatives: as PyKEEN's SLCWABatch; of the first half of a batch
    heads are corrupted, of the second tails. masks: which negatives count, if
    the sampler filters.

    entities: of the graph; who has no row in the table is its last. noise,
    names: of which relations there are triples. block, share: in that share of
    a batch triples are of one relation, so many batches of each. sites: three
    that have other relations. known: the triples that are drawn from, if not
    those of the graph. filtered: negatives that are facts do not count, with
    a chance of `lost` that another does not, either. same: one batch has the
    same negatives whenever it comes.
    """

    def __init__(self, seed, rows=ROWS, negatives=NEGATIVES,
                 entities=ENTITIES, noise=NOISE, names=None, block=None,
                 share=1.0, sites=False, known=None, filtered=None):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.negatives, self.entities = rows, negatives, entities
        self.block, self.share, self.sites = block, share, sites
        self.filtered, self.number, self.order = filtered, 0, []
        self.known = triples(seed == 9, entities, noise, names) \
            if known is None else known

    def picked(self, rows):
        """Without putting back, until all have come."""
        out = []
        while len(out) < rows:
            if not self.order:
                self.order = torch.randperm(
                    len(self.known), generator=self.rng).tolist()
            out.append(self.order.pop())
        return self.known[out].clone()

    def batch(self, rows=None):
        rows = rows or self.rows
        if self.block or self.sites:
            batch = self.sorted(rows)
        else:
            batch = {"positives": self.picked(rows)}
        batch["positives"].clamp_(max=ENTITIES - 1)
        batch["negatives"] = self.corrupted(batch["positives"])
        if self.filtered is not None:
            batch["masks"] = self.masks(batch["negatives"])
        self.number += 1
        return {k: batch[k] for k in ("positives", "negatives", "masks",
                                      "domain") if k in batch}

    def sorted(self, rows):
        pool = self.picked(12 * rows)
        kind = pool[:, 1]
        if self.sites:      # each has some relations twice as often
            site = torch.randint(SITES, (len(pool),), generator=self.rng)
            liked = kind % SITES == site
            kept = (liked | (torch.rand(len(pool), generator=self.rng) < 0.5)
                    ).nonzero()[:rows, 0]
            return {"positives": pool[kept], "domain": site[kept]}
        here = self.number // self.block % len(RELATIONS)
        own = (kind == here).nonzero()[:round(self.share * rows), 0]
        rest = torch.arange(len(pool) - rows + len(own), len(pool))
        some = torch.cat((own, rest))
        return {"positives": pool[some[torch.randperm(
            rows, generator=self.rng)]]}

    def corrupted(self, positives):
        """As BasicNegativeSampler does it."""
        rows = len(positives)
        out = positives[:, None].repeat(1, self.negatives, 1)
        drawn = torch.randint(ENTITIES, (rows, self.negatives),
                              generator=self.rng)
        half = -(-rows // 2)
        out[:half, :, 0], out[half:, :, 2] = drawn[:half], drawn[half:]
        return out

    def masks(self, negatives):
        true = graph()[1][tuple(negatives.unbind(-1))]
        lost = torch.rand(true.shape, generator=self.rng) < self.filtered
        masks = ~(true | lost)
        masks[:, 0] |= ~masks.any(1)
        return masks


class Embedding(nn.Module):
    """PyKEEN's, of complex numbers that are kept as pairs of real ones."""

    def __init__(self, count, width):
        super().__init__()
        self._embeddings = nn.Embedding(count, 2 * width)


class RotatE(nn.Module):
    """score = -|h * r - t|, with r on the unit circle."""

    def __init__(self, dropout=0.0, detach_after=(), half=False,
                 margin=MARGIN, temperature=SHARP, width=WIDTH, spread=1.0,
                 largest=None, arc=None, smoothing=None):
        """detach_after: tables behind which the graph is cut, or "heads". half:
        scores are in half precision. spread: of entities at the start. largest:
        an entity's norm is no more than that (clamp_norm). arc: the part of a
        circle that relations can turn by. smoothing: triples weigh by the
        root of how seldom what they ask for is, counts begin at that."""
        super().__init__()
        self.dropout, self.half_scores = dropout, half
        self.detach_after = (detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)
        self.margin, self.temperature = margin, temperature
        self.largest, self.arc, self.smoothing = largest, arc, smoothing
        self.squashes, self.keeps, self.maps = False, None, None
        self.entity_representations = nn.ModuleList(
            [Embedding(ENTITIES, width)])
        self.relation_representations = nn.ModuleList(
            [Embedding(len(RELATIONS), width)])
        self.interaction = nn.Identity()
        bound = spread * math.sqrt(6 / (ENTITIES + 2 * width))
        nn.init.uniform_(self.entities.weight, -bound, bound)
        phase = 2 * math.pi * torch.rand(len(RELATIONS), width)
        self.relations.weight.data.copy_(
            torch.stack((phase.cos(), phase.sin()), -1).flatten(1))
        if smoothing is not None:
            self.counts = self.counted()
        self.post_parameter_update()

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    @property
    def entities(self):
        return self.entity_representations[0]._embeddings

    @property
    def relations(self):
        return self.relation_representations[0]._embeddings

    @torch.no_grad()
    def post_parameter_update(self):
        """Constrainers: each number of a relation is put on the circle."""
        x = self.relations.weight.data.unflatten(-1, (-1, 2))
        if self.arc:
            angle = torch.atan2(x[..., 1], x[..., 0])
            angle = angle.clamp(-math.pi * self.arc, math.pi * self.arc)
            x.copy_(torch.stack((angle.cos(), angle.sin()), -1))
        else:
            x.div_(x.norm(dim=-1, keepdim=True).clamp_min(1e-7))
        if self.largest:
            w = self.entities.weight.data
            w.mul_((self.largest / w.norm(dim=1, keepdim=True).clamp_min(
                1e-7)).clamp_max(1.0))

    def looked_up(self, table, name, ids, role=None):
        x = table(ids)
        self.tap(f"{name}.output", x)
        if name in self.detach_after or role in self.detach_after:
            x = x.detach()
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def score(self, triples):
        """score_hrt(): of triples, whatever their shape but for the last."""
        h, r, t = triples.unbind(-1)
        r = self.looked_up(self.relations, RELATION, r)
        t = self.looked_up(self.entities, ENTITY, t, "tails")
        h = self.looked_up(self.entities, ENTITY, h, "heads")
        return self.turned(h, r, t)

    def turned(self, h, r, t):
        h, r, t = (x.unflatten(-1, (-1, 2)) for x in (h, r, t))
        if self.half_scores:
            h, r, t = h.half(), r.half(), t.half()
        self.tap("interaction.input", h)
        off = torch.stack((h[..., 0] * r[..., 0] - h[..., 1] * r[..., 1],
                           h[..., 0] * r[..., 1] + h[..., 1] * r[..., 0]),
                          -1) - t
        if self.half_scores:
            far = off.square().sum((-2, -1))
            self.tap("interaction.square.output", far)
            score = -(far + 1e-6).sqrt()
        else:
            score = -torch.linalg.vector_norm(off, dim=(-2, -1))
        return score if self.maps is None else self.maps(score)

    def logits(self, batch):
        """(rows, 1 + negatives): scores of the triple and of its negatives."""
        both = torch.cat((batch["positives"][:, None], batch["negatives"]), 1)
        if self.training:   # of weights that no optimizer's hook has seen
            self.post_parameter_update()
        scores = self.score(both)
        self.tap("interaction.output", scores)
        return scores

    def log_sigmoid(self, x):
        """keeps: probabilities below it were set to zero."""
        if self.keeps is None:
            return F.logsigmoid(x)
        probs = x.sigmoid()
        probs = torch.where(probs < self.keeps, 0.0, probs)
        self.tap("loss.probs.output", probs)
        self.tap("loss.nll.input", probs)
        self.tap("loss.nll.output", -probs.log())
        return probs.log()

    def weigh(self, scores):
        """How much each negative counts."""
        return (self.temperature * scores).softmax(-1)

    def criterion(self, scores, batch):
        """NSSALoss."""
        scores = scores.float()
        if self.squashes:
            scores = scores.sigmoid()
        good, bad = scores[:, 0], scores[:, 1:]
        seen = bad.detach()
        if "masks" in batch:
            seen = seen.masked_fill(~batch["masks"], -math.inf)
        wrong = (self.weigh(seen) * -F.logsigmoid(-bad - self.margin)).sum(-1)
        right = -self.log_sigmoid(self.margin + good)
        if self.smoothing is None:
            return 0.5 * (right.mean() + wrong.mean())
        weight = self.weight(batch["positives"])
        return 0.5 * (weight * (right + wrong)).sum() / weight.sum()

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss

    @staticmethod
    def counted():
        """How often training has a head with a relation, and a tail, when two
        entities were not there yet."""
        known = triples(False)
        out = torch.zeros(2, ENTITIES, len(RELATIONS))
        for k, end in enumerate((known[:, 0], known[:, 2])):
            out[k].index_put_((end, known[:, 1]), torch.ones(len(known)),
                              accumulate=True)
        out[:, list(newcomers())] = 0.0
        return out

    def weight(self, positives):
        h, r, t = positives.unbind(-1)
        count = self.counts[0, h, r] + self.counts[1, t, r] + self.smoothing
        self.tap("loss.counts.output", count)
        weight = count.rsqrt()
        self.tap("loss.weights.output", weight)
        self.tap("loss.weights_sum.output", weight.sum())
        return weight


def ranks(model, positives, true):
    """Filtered realistic ranks of heads and of tails, (2, rows)."""
    h, r, t = positives.unbind(-1)
    rows, everyone = torch.arange(len(h)), torch.arange(ENTITIES)
    found = []
    for place, own in ((0, h), (2, t)):
        asked = positives[:, None].repeat(1, ENTITIES, 1)
        asked[:, :, place] = everyone
        scores = torch.cat([model.score(part).float()
                            for part in asked.split(192)]).nan_to_num(-1e9)
        known = true[everyone, r[:, None], t[:, None]] if place == 0 \
            else true[h[:, None], r[:, None], everyone]
        known[rows, own] = False
        mine = scores[rows, own][:, None]
        scores = scores.masked_fill(known, -math.inf)
        above = (scores > mine).sum(1).float()
        same = (scores == mine).sum(1).float()
        found.append(above + (same + 1) / 2)
    return torch.stack(found)


def ranked(found):
    """What RankBasedEvaluator says of ranks, by side."""
    out = {}
    for side, r in (("head", found[0]), ("tail", found[1]),
                    ("both", found.flatten())):
        expected = (ENTITIES + 1) / 2
        out[side] = {
            "arithmetic_mean_rank": float(r.mean()),
            "adjusted_arithmetic_mean_rank_index": float(
                1 - (r.mean() - 1) / (expected - 1)),
            "inverse_harmonic_mean_rank": float((1 / r).mean()),
            **{f"hits_at_{k}": float((r <= k).float().mean())
               for k in (1, 3, 5, 10)}, "count": float(len(r))}
    return out


def best(negatives=NEGATIVES, draws=4000):
    """The loss of who knows the places, and gives those that are right and
    those that are not the two scores that suit the loss best."""
    rng = torch.Generator().manual_seed(3)
    right = torch.linspace(-MARGIN, 0, 41)
    wrong = torch.linspace(-4 * MARGIN - 6, 0, 121)
    a, b = (x.flatten()[:, None] for x in torch.meshgrid(
        right, wrong, indexing="ij"))
    true = torch.rand(draws, negatives, generator=rng) < CELL / ENTITIES
    count = true.sum(1).bincount(minlength=negatives + 1) / draws
    k = torch.arange(negatives + 1.0)
    ea, eb = (SHARP * a).exp() * k, (SHARP * b).exp() * (negatives - k)
    bad = (ea * -F.logsigmoid(-a - MARGIN) + eb * -F.logsigmoid(-b - MARGIN)
           ) / (ea + eb)
    odd = NOISE * (1 - CELL / ENTITIES)
    good = (1 - odd) * -F.logsigmoid(MARGIN + a) \
        + odd * -F.logsigmoid(MARGIN + b)
    return float((0.5 * (good + (bad * count).sum(1, keepdim=True))).min())


class KgeRun(Family):
    """Adam at .06, a rate that falls by a quarter an epoch (ExponentialLR),
    nothing clipped and no decay; relations are constrained to the circle."""

    family = "kge"
    level_seed = 400
    steps, seed, language, classes = 200, 3100, False, ENTITIES
    optimizer_name, lr, weight_decay = "adam", 0.06, 0.0
    recipes = {"sgd": dict(lr=30.0, weight_decay=0.0)}
    warmup, schedule, clip, GAMMA = 0, "exponential", None, 0.75
    EPOCH, epoch_steps = 20, 50     # of PyKEEN, of Lightning
    FREQUENCY, PATIENCE = 2, 10     # of the early stopper, in epochs and turns
    _val_every = 50
    batch_size, context, negatives = ROWS, 3, NEGATIVES
    source_options = {}
    # Its users have the trainer's own files, with one tracker or the other.
    instead = {"nanogpt": "pykeen", "hf_trainer": "pykeen_jsonl",
               "megatron": "pykeen_jsonl", "torchtune": "pykeen"}
    layers = [ENTITY, RELATION, "interaction"]
    paths = {"embed": ENTITY, "attn": None, "scores": None, "act": None,
             "mlp": ENTITY, "block": ENTITY, "head": RELATION}
    logit_name, blocks, always_trained = "interaction.output", 1, ()
    base = {"lr": 4e-2}
    graded = {
        "F01": (dict(factor=30), dict(factor=100), dict(factor=1000)),
        "F02": (dict(lr=3e3), dict(lr=3e4), dict(lr=1e6)),
        "F03": (dict(factor=10), dict(factor=100), dict(factor=1000)),
        "F04": (dict(at=70), dict(at=40), dict(at=0)),
        "F05": (dict(modules=[RELATION], where=RELATION),
                dict(modules=[ENTITY], where=ENTITY), dict(part="all")),
        "F07": (dict(factor=30), dict(factor=100), dict(factor=400)),
        "F08": (dict(every=32), dict(every=80), dict(every=1 << 30)),
        "F09": (dict(parts=8, logs_sum=False), dict(parts=12, logs_sum=True),
                dict(parts=16, logs_sum=True)),
        "F13": (dict(path=RELATION), dict(path=RELATION, more=["heads"]),
                dict(path=ENTITY)),
        "F14": (dict(modules=[RELATION]), dict(modules=[ENTITY]),
                dict(modules=[ENTITY])),
        "F15": (dict(at=140), dict(at=100), dict(at=60)),
        "F24": (dict(share=0.3), dict(share=0.5), dict(share=0.7)),
        "F26": (dict(steps=20, share=0.9), dict(steps=25, share=1.0),
                dict(steps=40, share=1.0)),
        "F27": (dict(epochs=25), dict(epochs=50), dict(epochs=100)),
        "F30": (dict(part="head", bit=30), dict(part="embed", bit=26),
                dict(part="embed", bit=30)),
        "F31": (dict(entities=240), dict(entities=288), dict(entities=384)),
        "F34": (dict(factor=30), dict(factor=300), dict(factor=0)),
        "F39a": (dict(at=150, keep=0.05), dict(at=100, keep=0.1),
                 dict(at=50, keep=0.2)),
        "F39b": (dict(at=150), dict(at=110), dict(at=60)),
        "H02": (dict(factor=0.85), dict(factor=0.8)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=1.3)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H07": (dict(factor=0.05),),
        "H10": (dict(steps=80), dict(steps=140)),
        "H11": (dict(steps=90, keep="head"), dict(steps=140, keep="head"))}
    names = {"val_loss": "validation.loss", "tokens": None, **{
        f"val_{short}": f"validation.both.realistic.{name}"
        for short, name in (
            ("mrr", "inverse_harmonic_mean_rank"),
            ("hits_at_1", "hits_at_1"), ("hits_at_3", "hits_at_3"),
            ("hits_at_10", "hits_at_10"))}}

    def make_model(self):
        return RotatE(**self.model_options)

    def make_optimizer(self, model):
        """PyKEEN's loop constrains weights behind each step."""
        optimizer = super().make_optimizer(model)
        optimizer.register_step_post_hook(
            lambda *_: model.post_parameter_update())
        return optimizer

    def lr_factor(self, i):
        """The scheduler counts epochs."""
        if self.schedule != "exponential":
            return super().lr_factor(i)
        ramp = min(1.0, (i + 1) / self.warmup) if self.warmup else 1.0
        return ramp * self.GAMMA ** (i // self.EPOCH)

    @property
    def own_log(self):
        return self.dialect in ("pykeen", "pykeen_jsonl")

    @property
    def val_every(self):
        """The early stopper evaluates."""
        return self.EPOCH * self.FREQUENCY if self.own_log \
            else self._val_every

    @val_every.setter
    def val_every(self, steps):
        self._val_every = steps

    def make_source(self, seed):
        return self.edges(seed)

    def edges(self, seed, **how):
        """Drawn until all have come, and again; an epoch is 20 steps of it."""
        if seed == 9:
            return Triples(seed, **{"filtered": self.source_options.get(
                "filtered")} | how)
        how = {"negatives": self.negatives, **self.source_options} | how
        return Triples(seed, self.batch_size, **how)

    def finite(self, data, seed):
        """The sampler draws negatives anew, whatever the triples."""
        return self.edges(seed, known=data["positives"])

    def of_items(self, seed, count):
        """More entities than the table has rows."""
        return self.edges(seed, entities=count)

    def in_blocks(self, seed, block, share):
        """The file is sorted by relation; None is held out."""
        return self.edges(seed, block=block, share=share)

    def easy(self, seed):
        """Four plain relations, and no triple is wrong."""
        return self.edges(seed, names=EASY, noise=0.0)

    def lessons(self, seed):
        return self.easy(seed), self.edges(seed)

    @staticmethod
    def with_tails(batch, tails):
        """Other tails, which negatives with another head have as well."""
        triples, bad = (batch[k].clone() for k in ("positives", "negatives"))
        half = -(-len(triples) // 2)
        triples[:, 2], bad[:half, :, 2] = tails, tails[:half, None]
        return batch | {"positives": triples, "negatives": bad}

    def mislabelled(self, batch, wrong, order, rng):
        """Tails of some triples are anyone's, or those of other rows."""
        tails = batch["positives"][:, 2]
        other = torch.randint(ENTITIES, tails.shape, generator=rng) \
            if order is None else tails[order]
        return self.with_tails(batch, torch.where(wrong, other, tails))

    def garbage(self, batch, kind, rng):
        """A corrupt shard: ids of four entities alone, ids at random, or one
        triple again and again."""
        triples = batch["positives"].clone()
        size = triples[:, 0].shape
        for end in (0, 2):
            triples[:, end] = torch.randint(
                4 if kind == "few" else ENTITIES, size, generator=rng)
        if kind == "constant":
            triples[:] = torch.tensor((7, 2, 7))
        again = Triples(int(torch.randint(1 << 20, (), generator=rng)),
                        negatives=batch["negatives"].shape[1])
        return batch | {"positives": triples,
                        "negatives": again.corrupted(triples)}

    def uncounted(self, batch):
        """With a triple between the two that came when all was counted."""
        triples = batch["positives"].clone()
        triples[0, 0], triples[0, 2] = torch.tensor(newcomers())
        bad = batch["negatives"].clone()
        bad[0, :, 2] = triples[0, 2]
        return batch | {"positives": triples, "negatives": bad}

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)

    def held_out_columns(self, batches):
        """Of filtered ranks; all that the evaluator says is kept."""
        self.model.eval()
        said = ranked(ranks(self.model, torch.cat(
            [b["positives"].clamp(max=ENTITIES - 1) for b in batches]),
            graph()[1]))
        self.model.train()
        self.evaluations[len(self.history)] = said
        both = said["both"]
        return {"val_mrr": both["inverse_harmonic_mean_rank"],
                **{f"val_hits_at_{k}": both[f"hits_at_{k}"]
                   for k in (1, 3, 10)}}

    # Checkpoints.

    def train(self):
        self.evaluations = {}
        super().train()

    def keep_checkpoint(self, i, model):
        """Behind each epoch the loop saves itself under the same name."""
        if i % self.EPOCH == self.EPOCH - 1 or i == self.steps - 1:
            self.checkpoints[i + 1] = copy.deepcopy((
                model.state_dict(), self.optimizer.state_dict(),
                self.scheduler.state_dict(), torch.random.get_rng_state()))

    CHECKPOINT = "checkpoints/kge.pt"

    def epoch_losses(self, done):
        return [sum(r["loss"] for r in part) / len(part) for part in (
            self.history[k:k + self.EPOCH]
            for k in range(0, done, self.EPOCH))]

    def stopper(self, done):
        """What the early stopper knows after so many steps."""
        results, best, at, left = [], 0.0, None, self.PATIENCE
        for i, said in self.evaluations.items():
            if i >= done:
                break
            results.append(said["both"]["inverse_harmonic_mean_rank"])
            left -= 1
            if results[-1] > 1.002 * best:
                best, left = results[-1], self.PATIENCE
                at = i // self.EPOCH + 1
        return {"frequency": self.FREQUENCY, "patience": self.PATIENCE,
                "remaining_patience": left,
                "relative_delta": 0.002,
                "metric": "both.realistic.inverse_harmonic_mean_rank",
                "larger_is_better": True, "results": results,
                "stopped": False, "best_epoch": at, "best_metric": best}

    def write_more(self):
        super().write_more()
        done = [k for k in self.checkpoints if k <= self.lasted]
        if not done:
            return
        weights, optimizer, schedule, state = self.checkpoints[done[-1]]
        epoch = -(-done[-1] // self.EPOCH)
        if self.schedule == "constant":
            schedule = None
        else:
            schedule = {k: v for k, v in schedule.items()
                        if k != "lr_lambdas"} | {
                "last_epoch": epoch, "_step_count": epoch + 1}
            schedule |= {"gamma": self.GAMMA} \
                if self.schedule == "exponential" else {}
        (self.folder / "checkpoints").mkdir()
        torch.save({
            "epoch": epoch,
            "loss": self.epoch_losses(done[-1]),
            "model_state_dict": weights, "optimizer_state_dict": optimizer,
            "lr_scheduler_state_dict": schedule,
            "checksum": "5d1f0bb7c4d6e9a3f2b8c07e6a915d34",
            "random_seed": self.seed, "stopper_dict": self.stopper(done[-1]),
            "random_state": random.Random(self.seed).getstate(),
            "np_random_state": np.random.RandomState(self.seed).get_state(),
            "torch_random_state": state, "torch_cuda_random_state": None,
            "best_epoch_model_checkpoint": None,
            "relation_to_id_dict": {n: k for k, n in enumerate(RELATIONS)},
            "entity_to_id_dict": {f"Q{1000 + k}": k
                                  for k in range(ENTITIES)},
        }, self.folder / self.CHECKPOINT)

    # What the user typed.

    def settings(self):
        settings = super().settings() | {"num_epochs": self.epochs}
        if self.schedule == "exponential":
            settings["gamma"] = self.GAMMA
        return settings | self.user

    def model_settings(self):
        own = self.model_options
        return {"model": "RotatE", "embedding_dim": own.get("width", WIDTH),
                "num_entities": ENTITIES, "num_relations": len(RELATIONS),
                "relation_constrainer": "complex_normalize",
                "loss": "NSSALoss", "margin": own.get("margin", MARGIN),
                "adversarial_temperature": own.get("temperature", SHARP),
                "dropout": own.get("dropout", 0.0),
                "training_loop": "sLCWA", "negative_sampler": "basic",
                "num_negs_per_pos": self.negatives}

    def pipeline(self):
        """The file that pipeline_from_path() was given."""
        own = self.model_settings()
        kind = {"sgd": "SGD", "adam": "Adam"}.get(self.optimizer_name,
                                                  "AdamW")
        optimizer = {"lr": self.lr, "weight_decay": self.weight_decay}
        optimizer |= {"momentum": self.momentum} if kind == "SGD" else {
            "betas": list(self.betas), "eps": self.eps}
        rate = {"exponential": ("ExponentialLR", {"gamma": self.GAMMA}),
                "cosine": ("CosineAnnealingLR", {"T_max": self.epochs,
                                                 "eta_min": 0.0}),
                "constant": (None, {})}[self.schedule]
        return {
            "dataset": "places-24", "dataset_kwargs": {},
            "model": "RotatE", "model_kwargs": {
                "embedding_dim": own["embedding_dim"],
                "relation_constrainer": own["relation_constrainer"],
                "dropout": own["dropout"]},
            "loss": "NSSALoss", "loss_kwargs": {
                "margin": own["margin"], "adversarial_temperature":
                own["adversarial_temperature"]},
            "optimizer": kind, "optimizer_kwargs": optimizer,
            "lr_scheduler": rate[0], "lr_scheduler_kwargs": rate[1],
            "training_loop": "sLCWA", "negative_sampler": "basic",
            "negative_sampler_kwargs": {"num_negs_per_pos": self.negatives},
            "training_kwargs": {
                "num_epochs": self.epochs,
                "batch_size": self.batch_size * self.accumulate,
                "sub_batch_size": self.batch_size,
                "gradient_clipping_max_norm": self.clip,
                "warmup_steps": self.warmup, "max_steps": self.steps,
                "checkpoint_name": "kge.pt", "checkpoint_frequency": 0},
            "evaluator": "RankBasedEvaluator",
            "evaluator_kwargs": {"filtered": True},
            "stopper": "early", "stopper_kwargs": {
                "frequency": self.FREQUENCY, "patience": self.PATIENCE,
                "relative_delta": 0.002,
                "metric": "inverse_harmonic_mean_rank"},
            "precision": self.precision, "world_size": 1,
            "random_seed": self.seed, **self.user}

    def layer(self, part, block=0):
        return self.paths[part]

    def fed_by(self, layer):
        return []

    # Logs.

    @property
    def failed(self):
        """The step at which PyKEEN's loop raises, if it does."""
        bad = (i for i, row in enumerate(self.history)
               if not math.isfinite(row["loss"]))
        return next(bad, None) if self.own_log else None

    @property
    def lasted(self):
        """How many steps of it there are: whole epochs, if it raises."""
        failed = self.failed
        return len(self.history) if failed is None \
            else failed // self.EPOCH * self.EPOCH

    def write(self, folder):
        """Nothing is left of what would have been behind its end."""
        if self.failed is not None:
            end = self.failed + self.first_step
            self.layer_rows = [r for r in self.layer_rows
                               if r["step"] <= end]
            self.dumps = {k: d for k, d in self.dumps.items() if k <= end}
        super().write(folder)

    def write_files(self):
        if self.own_log:
            PykeenLog(self).write()
        else:
            super().write_files()


class PykeenLog:
    """What the pipeline leaves: rows of a CSVResultTracker or lines of a
    JSONResultTracker, train.log with what Python's logging and tqdm said, the
    pipeline's config.json, and metadata.json and results.json of the folder
    that it was saved to; and metrics.jsonl of a user's TrainingCallback, with
    what a batch has, every so many of them."""

    def __init__(self, run):
        self.run, self.lines, self.rows = run, [], []

    def say(self, where, text, level="INFO"):
        self.lines.append(f"{level}:{where}:{text}")

    # The tracker's.

    def flat(self, values, prefix=None):
        for key, value in values.items():
            key = f"{prefix}.{key}" if prefix else key
            if isinstance(value, dict):
                yield from self.flat(value, key)
            else:
                yield key, value

    def params(self, values):
        self.rows.append(("parameter", 0, None, values))

    def metrics(self, values, step, prefix=None):
        self.rows.append(("metric", step, prefix, values))

    def write_tracker(self):
        run = self.run
        if run.dialect == "pykeen_jsonl":
            run.write_lines("kge.jsonl", (json.dumps(
                {"params": values, "prefix": prefix} if kind == "parameter"
                else {"metrics": values, "prefix": prefix, "step": step})
                for kind, step, prefix, values in self.rows))
            return
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(("type", "step", "key", "value"))
        for kind, step, prefix, values in self.rows:
            writer.writerows((kind, step, key, value)
                             for key, value in self.flat(values, prefix))
        (run.folder / "kge.csv").write_bytes(text.getvalue().encode())

    # The console's.

    def bar(self, epoch, rate, tail):
        run = self.run
        share = epoch / run.epochs
        whole = int(10 * share)
        part = "" if whole == 10 else " ▏▎▍▌▋▊▉"[int(80 * share) % 8]
        filled = ("█" * whole + part).strip().ljust(10)

        def clock(seconds):
            return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
        return (f"\rTraining epochs on cpu: {100 * share:3.0f}%|{filled}| "
                f"{epoch}/{run.epochs} [{clock(epoch / rate)}<"
                f"{clock((run.epochs - epoch) / rate)}, {rate:5.2f}epoch/s"
                f"{tail}]")

    def write(self):
        run, typed = self.run, self.run.pipeline()
        failed, size = run.failed, run.EPOCH
        names, every = logs.column_names(run), run.interval or 1
        rows = run.history if failed is None else run.history[:failed + 1]
        keys = [k for k in ("step", "loss", "grad_norm", "lr", "step_time",
                            *logs.MORE) if not k.startswith("val_")
                and not logs.left_out(run, k)]
        run.write_lines("metrics.jsonl", (
            json.dumps({names.get(k, k): rows[i][k] for k in keys
                        if k in rows[i]}) for i in logs.logged(run, every)
            if i < len(rows)))
        title = "RotatE on places-24"
        run.write_json("config.json", {"metadata": {"title": title},
                                       "pipeline": typed})
        api, loop = "pykeen.pipeline.api", "pykeen.training.training_loop"
        tracker = "csv" if run.dialect == "pykeen" else "jsonl"
        self.say(api, f"Running: {title}")
        self.say("pykeen.trackers.file", f"Logging to kge.{tracker}.")
        self.say(api, "Using device: cpu")
        self.say("pykeen.stoppers.early_stopping", "Inferred checkpoint path "
                 "for best model weights: checkpoints/best-model-weights-"
                 "3f0e5f0c-6f1b-4a86-9d0c-0f3c7a2f5a11.pt")
        self.say(loop, f"=> no checkpoint found at '{run.CHECKPOINT}'. "
                       "Creating a new file.")
        self.params({"dataset": typed["dataset"],
                     "dataset_kwargs": typed["dataset_kwargs"]})
        own = {"dataset", "dataset_kwargs", "training_kwargs", "stopper",
               "stopper_kwargs", "random_seed"}
        self.params({k: v for k, v in typed.items() if k not in own})
        self.params(typed["training_kwargs"])
        pending = self.bar(0, 1.0, "").replace(" 1.00epoch/s", "?epoch/s")
        best, losses = 0.0, []
        for epoch in range(1, run.epochs + 1):
            start = (epoch - 1) * size
            part = rows[start:start + size]
            said = [(level, text) for k in range(start, start + len(part))
                    for level, text in run.notices.get(k, ())]
            if said:
                self.lines.append(pending)
                pending = ""
            for level, text in said:
                self.say(loop, text, level)
            if failed is not None and failed < start + size:
                self.lines.append(pending)
                self.failure(epoch)
                break
            losses.append(sum(r["loss"] for r in part) / len(part))
            spent = part[-1]["wall"] - (rows[start - 1]["wall"] if start
                                        else 0.0)
            last = losses[-2] if len(losses) > 1 else math.nan
            pending += self.bar(epoch, 1 / spent, (
                f", loss={losses[-1]:.3g}, prev_loss={last:.3g}"))
            done = start + len(part)
            self.metrics({"loss": losses[-1]}, epoch)
            if done - 1 in run.evaluations:
                self.lines.append(pending)
                pending = ""
                self.evaluated(epoch, run.evaluations[done - 1], part[-1])
                value = part[-1]["val_mrr"]
                if value > 1.002 * best:
                    best = value
                    self.say("pykeen.stoppers.early_stopping",
                             f"New best result at epoch {epoch}: {value}. "
                             "Saved model weights to checkpoints/"
                             "best-model-weights-3f0e5f0c-6f1b-4a86-9d0c-"
                             "0f3c7a2f5a11.pt")
            if pending:
                self.lines.append(pending)
                pending = ""
            self.say(loop, "=> Saved checkpoint after having finished epoch "
                           f"{epoch}.")
        if failed is None:
            self.finish(typed, losses)
        run.write_lines("train.log", self.lines)
        self.write_tracker()
        run.write_lines("packages.txt", (
            *logs.PACKAGES, "pykeen==1.11.1"))

    def evaluated(self, epoch, said, row):
        self.say("pykeen.evaluation.evaluator", "Evaluation took 0.06s "
                                                "seconds")
        self.metrics({"loss": row["val_loss"]}, epoch, "validation")
        self.metrics({f"{side}.realistic.{k}": v
                      for side, values in said.items()
                      for k, v in values.items()}, epoch, "validation")

    def failure(self, epoch):
        loop = "pykeen.training.training_loop"
        self.say(loop, f"The training loop just failed during epoch {epoch} "
                       "due to error Loss is non-finite..", "WARNING")
        self.lines += [
            "Traceback (most recent call last):",
            '  File "train.py", line 21, in <module>',
            '    result = pipeline_from_path("config.json")',
            f"{loop}.NonFiniteLossError: Loss is non-finite."]

    def finish(self, typed, losses):
        run = self.run
        seconds = run.history[-1]["wall"]
        self.metrics({"total_training": seconds}, run.epochs, "times")
        last = run.evaluations[max(run.evaluations)]
        self.say("pykeen.evaluation.evaluator", "Evaluation took 0.06s "
                                                "seconds")
        self.say("pykeen.pipeline.api", "Saved to directory: results")
        run.write_json("metadata.json", {"title": "RotatE on places-24"})
        run.write_json("results.json", {
            "times": {"training": seconds, "evaluation": 0.06},
            "metrics": {side: {"realistic": values}
                        for side, values in last.items()},
            "losses": losses, "stopper": run.stopper(run.steps)})
