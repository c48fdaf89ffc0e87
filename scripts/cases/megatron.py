"""A GPT as Megatron-LM pretrains it on short documents.

A decoder of Megatron-Core's kind (LayerNorm before attention and network, one
matrix for queries, keys and values, rotary positions, GELU with biases, a head
of its own) reads documents that are packed to the sequence length; positions
and attention begin anew behind an end-of-document token, whose own prediction
of what follows does not count. Parts are named as in Megatron-Core's GPTModel
with its local layer spec, arguments, columns and checkpoints as in Megatron-LM.
"""

import argparse
import copy
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources, trainer_arguments
from .family import Family
from .models import Group
from .snapshot import checksum, short
from .sources import IGNORE, PAD

EOD = 1
PREFIX, MIDDLE, SUFFIX = 2, 3, 4        # of text that is asked for its middle
PERIOD, THE = 5, 6
KINDS = 4                               # of names
TOPICS, NAMES, VERBS, NOUNS, ADJECTIVES, ADVERBS = 4, 12, 16, 20, 8, 4
FIRST_TITLE = THE + 1
FIRST_NAME = FIRST_TITLE + TOPICS
FIRST_VERB = FIRST_NAME + NAMES
FIRST_NOUN = FIRST_VERB + VERBS
FIRST_ADJECTIVE = FIRST_NOUN + NOUNS
FIRST_ADVERB = FIRST_ADJECTIVE + ADJECTIVES
WORDS = FIRST_ADVERB + ADVERBS          # 71 words
VOCAB = 72                              # padded, as Megatron pads it
LEAST, MOST, SLOTS = 3, 5, 7            # sentences, tokens of a sentence
CONTEXT, ROWS, WIDTH, HEADS, HIDDEN, DEPTH = 40, 8, 40, 2, 80, 2
AHEAD = 8                               # batches that are made at once
THETA, INITIAL = 10000.0, 0.1           # rotary base, deviation of weights


class Documents(sources.Source):
    """Packed documents of three to five sentences of a small grammar.

    A document begins with its title, one of four topics, and speaks of two of
    twelve names by turns, with .1 of the other one. A sentence is name, verb,
    noun and full stop, with an article before the noun (.6), an adjective
    (.4), and an adverb behind it (.5). Verbs go by topic and the name's kind,
    which is one of four (three of 16: .7, .2, .1), nouns by the verb (three of
    20), adjectives by topic (two of 8: .7, .3), the adverb by kind. Of verbs
    and nouns .03 are any. So there is something to learn of frequencies, of
    what stands before, of the title, and of names that were said.

    Who knows the process has the loss that best() computes, 1.05 nats a label;
    an even guess has ln 72 = 4.28.

    eos, reset, separate: documents end with EOD, positions begin anew, and
    attention as well. limit: tokens that are kept of a document. pieces: of
    the tokenizer, what is too large becomes the last row of the table.
    domains: a row has one topic, which is in the batch; block, share: one
    topic after the other. easy: one topic, three sentences, names by turns,
    the likeliest verbs and nouns. single: documents of a row, the rest of
    which is padding. middle: share of documents that are asked for their
    middle. bounds: where documents begin is in the batch.
    """

    CHOICE, SLIP, TURN = (0.7, 0.2, 0.1), 0.03, 0.1
    ARTICLE, ADJECTIVE, ADVERB = 0.6, 0.4, 0.5

    def __init__(self, seed, rows, context=CONTEXT, eos=True, reset=True,
                 separate=True, limit=None, pieces=None, domains=False,
                 block=None, share=1.0, easy=False, single=None, middle=0.0,
                 bounds=False):
        super().__init__(seed, (VOCAB, context, rows))
        self.eos, self.reset, self.separate = eos, reset, separate
        self.limit, self.domains, self.easy = limit, domains, easy
        self.block, self.share, self.single = block, share, single
        self.middle, self.bounds, self.pool = middle, bounds, []
        world = torch.Generator().manual_seed(301)

        def table(size, count, *shape):
            """`count` different ones of `size` for each cell."""
            return torch.rand(*shape, size, generator=world).argsort(
                -1)[..., :count]

        self.verbs = table(VERBS, 3, TOPICS, KINDS)
        self.nouns = table(NOUNS, 3, VERBS)
        self.adjectives = torch.arange(ADJECTIVES).view(TOPICS, 2)
        self.ids = None if pieces is None else torch.tensor([
            *range(PERIOD), *(min(k, VOCAB - 1) for k in (torch.randperm(
                pieces - PERIOD, generator=torch.Generator().manual_seed(302))[
                    :VOCAB - PERIOD] + PERIOD).tolist())])

    def any(self, *shape, high):
        return torch.randint(high, shape, generator=self.rng)

    def chance(self, *shape, share):
        return torch.rand(shape, generator=self.rng) < share

    def picked(self, table, *at, size, slip):
        """One of three by CHOICE, or any of `size`; and what each costs."""
        three = table[at]
        if self.easy:
            return three[..., 0], torch.zeros(three.shape[:-1])
        way = torch.multinomial(
            torch.tensor(self.CHOICE), three[..., 0].numel(), True,
            generator=self.rng).view(three.shape[:-1])
        said = three.gather(-1, way[..., None])[..., 0]
        if slip:
            said = torch.where(self.chance(*said.shape, share=slip),
                               self.any(*said.shape, high=size), said)
        share = ((three == said[..., None]).float()
                 @ torch.tensor(self.CHOICE)) * (1 - slip) + slip / size
        return said, -share.log()

    def documents(self, count, topic):
        """Slots of documents: ids, which are there, what each costs."""
        slip = self.SLIP
        turn = torch.arange(MOST).expand(count, -1) % 2
        names = torch.rand(count, NAMES, generator=self.rng).argsort(1)[:, :2]
        other = self.chance(count, MOST, share=0.0 if self.easy else self.TURN)
        other[:, 0] = False
        name = names.gather(1, torch.where(other, 1 - turn, turn))
        price = torch.where(other, -math.log(self.TURN),
                            -math.log(1 - self.TURN)).float()
        price[:, 0] = math.log(NAMES)
        price[:, 1] += torch.where(other[:, 1], 0.0, math.log(NAMES - 1))
        kind, about = name % KINDS, topic[:, None].expand(-1, MOST)
        verb, verb_price = self.picked(self.verbs, about, kind, size=VERBS,
                                       slip=slip)
        noun, noun_price = self.picked(self.nouns, verb, size=NOUNS, slip=slip)
        second = self.chance(count, MOST, share=0.3).long()
        parts = torch.zeros(count, MOST, SLOTS, dtype=torch.int64)
        there = torch.ones_like(parts, dtype=torch.bool)
        cost = torch.zeros(parts.shape)
        for slot, words in enumerate((
                FIRST_NAME + name, FIRST_VERB + verb, THE,
                FIRST_ADJECTIVE + self.adjectives[about, second],
                FIRST_NOUN + noun, FIRST_ADVERB + kind,
                PERIOD)):
            parts[..., slot] = words
        cost[..., 0], cost[..., 1], cost[..., 4] = price, verb_price, noun_price
        # Whether something stands there is paid by what always does.
        for slot, share, pays in ((2, self.ARTICLE, 4), (3, self.ADJECTIVE, 4),
                                  (5, self.ADVERB, 6)):
            here = self.chance(count, MOST, share=share)
            there[..., slot] = here
            cost[..., pays] -= torch.where(
                here, math.log(share), math.log(1 - share))
        cost[..., 3] = -torch.where(second > 0, math.log(0.3), math.log(0.7))
        size = LEAST + (torch.zeros(count, dtype=torch.int64) if self.easy
                        else self.any(count, high=MOST - LEAST + 1))
        there &= (torch.arange(MOST) < size[:, None])[..., None]

        def around(title, inner, end):
            return torch.cat((title, inner.flatten(1), end), 1)

        ones = torch.ones(count, 1, dtype=torch.int64)
        ids = around(FIRST_TITLE + topic[:, None], parts, EOD * ones)
        there = around(ones > 0, there, (ones > 0) & self.eos)
        cost = around(0.0 * ones, cost, 0.0 * ones if self.easy
                      else math.log(MOST - LEAST + 1) * ones)
        return ids, there, cost

    def asked_for_middle(self, ids, there, cost):
        """Some documents as prefix, suffix and then what is between."""
        count = len(ids)
        place = there.cumsum(1) - 1
        length = there.sum(1, keepdim=True) - 1     # EOD stays the last
        cut = torch.rand(count, 2, generator=self.rng).sort(1).values
        first, last = (1 + cut * (length - 1)).long().split(1, 1)
        some = self.chance(count, 1, share=self.middle)
        key = torch.where(place < first, place, torch.where(
            place < last, 2000 + place, 1000 + place))
        key = torch.where(place >= length, 9000, key)
        key = torch.where(some, key, place).masked_fill(~there, 10000)
        marks = torch.tensor((PREFIX, SUFFIX, MIDDLE)).expand(count, -1)
        keys = torch.tensor((-1, 999, 1999)).expand(count, -1)
        ids, key = torch.cat((ids, marks), 1), torch.cat((key, keys), 1)
        there = torch.cat((there, some.expand(-1, 3)), 1)
        order = key.masked_fill(~there, 10000).argsort(dim=1, stable=True)
        cost = torch.cat((cost, torch.zeros(count, 3)), 1)
        return tuple(t.gather(1, order) for t in (ids, there, cost))

    def topics(self, rows, each):
        """Topics of documents, (rows, each), and those of rows if they have
        one."""
        if not (self.block or self.domains):
            return (torch.zeros(rows, each, dtype=torch.int64) if self.easy
                    else self.any(rows, each, high=TOPICS)), None
        kind = self.any(rows, high=TOPICS)
        if self.block:
            number = self.number + torch.arange(rows) // (rows // AHEAD)
            here = number // self.block % TOPICS
            kind = torch.where(self.chance(rows, share=self.share), here, kind)
        return kind[:, None].expand(-1, each), kind

    def draw(self, rows):
        """Some batches are made at once, as that costs little more than one.
        """
        if not self.pool or len(self.pool[-1]["input_ids"]) != rows:
            whole = self.sequences(AHEAD * rows)
            self.pool = [{k: t[first:first + rows] for k, t in whole.items()}
                         for first in range(0, AHEAD * rows, rows)][::-1]
        batch = {k: t.clone() for k, t in self.pool.pop().items()}
        if self.bounds:
            begins = batch["begins"].flatten().nonzero()[:, 0]
            batch["cu_seqlens"] = torch.cat((
                begins, torch.tensor([rows * self.context])))
            del batch["begins"]
        return batch

    def sequences(self, rows):
        width = self.context + 1
        shortest = min(self.limit or width, 2 + 4 * LEAST - (not self.eos))
        each = self.single or -(-width // shortest)
        topic, kind = self.topics(rows, each)
        parts = self.documents(rows * each, topic.flatten())
        if self.middle:
            parts = self.asked_for_middle(*parts)
        ids, there, cost = parts
        if self.limit:
            there = there & (there.cumsum(1) <= self.limit)
        number = torch.arange(each)[:, None].expand(-1, ids.shape[1])
        ids, there, cost = (t.reshape(rows, -1) for t in (ids, there, cost))
        number = number.reshape(1, -1).expand(rows, -1)
        order = (~there).long().argsort(dim=1, stable=True)
        if order.shape[1] < width:
            order = F.pad(order, (0, width - order.shape[1]), value=0)
        order = order[:, :width]
        ids, cost, number = (t.gather(1, order) for t in (ids, cost, number))
        real = torch.arange(width) < there.sum(1, keepdim=True)
        ids = ids.masked_fill(~real, PAD)
        number = number.masked_fill(~real, each)
        if self.ids is not None:
            ids = self.ids[ids]
        same = number[:, 1:] == number[:, :-1]
        counts = (same | (not self.eos)) & real[:, 1:]
        self.likely = cost[:, 1:][counts & same]    # of all that are made
        place = torch.arange(width).expand(rows, -1)
        if self.reset:
            begins = F.pad(~same, (1, 0), value=True)
            place = place - torch.where(begins, place, 0).cummax(1).values
        batch = {"input_ids": ids[:, :-1].clone(),
                 "labels": ids[:, 1:].masked_fill(~counts, IGNORE),
                 "position_ids": place[:, :-1].clone()}
        if self.bounds:
            batch["begins"] = F.pad(~same, (1, 0), value=True)[:, :-1]
        if self.separate:
            batch["segments"] = number[:, :-1].clone()
        return batch | ({} if kind is None else {"domain": kind})

    def best(self, batches=60):
        """The loss of who knows the process."""
        found = []
        for _ in range(batches):
            self.batch()
            found.append(self.likely)
        return float(torch.cat(found).mean())


def waves(position_ids, width):
    """Cosines and sines of rotary positions, which both layers have."""
    half = width // 2
    rate = THETA ** (-torch.arange(half) / half)
    angle = position_ids[:, None, :, None].float() * rate
    return angle.cos(), angle.sin()


def turned(x, cos, sin):
    """As llama.rotate, of waves that are there."""
    a, b = x.chunk(2, -1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class SelfAttention(nn.Module):
    """One matrix whose rows are, head by head, those of query, key, value."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.linear_qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.linear_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, tap, rotary, seen):
        options = self.options
        heads = options["heads"]
        q, k, v = (t.transpose(1, 2) for t in self.linear_qkv(x).unflatten(
            -1, (heads, -1)).chunk(3, -1))
        if options["positions"]:
            q, k = (turned(t, *rotary) for t in (q, k))
        scale = options["scale"]
        if scale is None:
            scale = (WIDTH // heads) ** -0.5
        mixed = models.attend(q, k, v, tap, scale, seen=seen,
                              half=options["half_scores"])
        y = self.linear_proj(mixed.transpose(1, 2).flatten(2))
        tap("output", y)
        return y


class TransformerLayer(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(WIDTH, options["eps"])
        self.self_attention = SelfAttention(options)
        self.pre_mlp_layernorm = nn.LayerNorm(WIDTH, options["eps"])
        self.mlp = Group(
            linear_fc1=nn.Linear(WIDTH, HIDDEN),
            activation_func=models.ACTIVATIONS[options["activation"]](),
            linear_fc2=nn.Linear(HIDDEN, WIDTH))

    def forward(self, x, tap, drop, rotary, visible, future):
        seen = visible(future)
        tap("input_layernorm.input", x)
        y = self.input_layernorm(x)
        tap("input_layernorm.output", y)
        x = x + drop(self.self_attention(
            y, lambda n, t: tap(f"self_attention.{n}", t), rotary, seen))
        y = self.pre_mlp_layernorm(x)
        tap("mlp.input", y)
        y = self.mlp.linear_fc1(y)
        tap("mlp.activation_func.input", y)
        y = self.mlp.activation_func(y)
        tap("mlp.activation_func.output", y)
        y = self.mlp.linear_fc2(y)
        tap("mlp.output", y)
        return x + drop(y)


class GPTModel(models.Language):
    """Two layers of width 40, two heads.

    detach_after: module behind which the graph is cut.
    """

    def __init__(self, heads=HEADS, eps=1e-5, half_scores=False,
                 detach_after=None, positions=True, future=0, scale=None,
                 activation="gelu", dropout=0.0, pad=None):
        super().__init__()
        self.detach_after, self.future, self.dropout = \
            detach_after, future, dropout
        self.heads = heads
        options = {"heads": heads, "eps": eps, "half_scores": half_scores,
                   "positions": positions, "scale": scale,
                   "activation": activation}
        self.embedding = Group(word_embeddings=nn.Embedding(
            VOCAB, WIDTH, padding_idx=pad))
        self.decoder = Group(
            layers=nn.ModuleList(TransformerLayer(options)
                                 for _ in range(DEPTH)),
            final_layernorm=nn.LayerNorm(WIDTH, eps))
        self.output_layer = nn.Linear(WIDTH, VOCAB, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                # What writes to the residual stream is scaled by depth.
                deep = name.endswith(("linear_proj.weight",
                                      "linear_fc2.weight"))
                nn.init.normal_(p, std=INITIAL / (
                    math.sqrt(2 * DEPTH) if deep else 1))
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        if pad is not None:
            with torch.no_grad():
                self.embedding.word_embeddings.weight[pad] = 0

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def forward(self, ids, position_ids=None, segments=None):
        steps = ids.shape[1]
        if position_ids is None:
            position_ids = torch.arange(steps)[None]
        rotary = waves(position_ids, WIDTH // self.heads)

        @functools.cache
        def visible(future):
            return models.visible_keys(steps, future, segments)

        x = self.embedding.word_embeddings(ids)
        self.tap("embedding.word_embeddings.output", x)
        x = self.drop(self.cut(x, "embedding.word_embeddings"))
        for i, layer in enumerate(self.decoder.layers):
            path = f"decoder.layers.{i}"
            x = layer(x, lambda n, t, p=path: self.tap(f"{p}.{n}", t),
                      self.drop, rotary, visible, future=self.future)
            x = self.cut(x, path)
        x = self.decoder.final_layernorm(x)
        self.tap("decoder.final_layernorm.output", x)
        x = self.output_layer(self.cut(x, "decoder.final_layernorm"))
        self.tap("output_layer.output", x)
        return x


class MegatronRun(Family):
    """Adam with decoupled decay, but for biases and norms; warm-up, a cosine
    to a tenth of the rate, a norm of 1 is clipped."""

    family = "megatron"
    beside = "whisper"      # they were written side by side
    level_seed = 400
    steps, seed = 210, 3140
    lr, warmup, schedule, clip = 1e-2, 20, "cosine", 1.0
    LEAST_RATE = 0.1        # share of the rate that is left at the end
    betas, weight_decay = (0.9, 0.95), 0.1
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, CONTEXT, VOCAB
    # What Megatron-LM prints is the only log that it has; NeMo trains with
    # Lightning.
    instead = {"nanogpt": "megatron_lm", "hf_trainer": "megatron_lm",
               "megatron": "megatron_lm", "torchtune": "megatron_lm"}
    layers = ["embedding.word_embeddings", *(
        f"decoder.layers.{i}.{part}" for i in range(DEPTH)
        for part in ("self_attention", "self_attention.scores",
                     "mlp.activation_func", "mlp")),
        "decoder.final_layernorm", "output_layer"]
    paths = {"embed": "embedding.word_embeddings",
             "attn": "decoder.layers.{}.self_attention",
             "scores": "decoder.layers.{}.self_attention.scores",
             "act": "decoder.layers.{}.mlp.activation_func",
             "mlp": "decoder.layers.{}.mlp", "block": "decoder.layers.{}",
             "head": "output_layer"}
    blocks = DEPTH
    graded = {
        "F04": (dict(at=70), dict(at=40), dict(at=0)),
        "F05": (dict(modules=["decoder.layers"], where="decoder.layers.0"),
                dict(modules=["decoder", "output_layer"],
                     where="decoder.layers.0"),
                dict(part="all")),
        "F07": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F13": (dict(path="decoder.layers.0"), dict(path="decoder.layers.1"),
                dict(path="decoder.final_layernorm")),
        "F14": (dict(modules=["decoder.layers.0.self_attention",
                              "decoder.layers.1.self_attention"]),
                dict(modules=["decoder.layers.0", "decoder.layers.1"]),
                dict(modules=["decoder.layers.0", "decoder.layers.1",
                              "output_layer"])),
        "F23": (dict(pad=True, prompt=False, width=40),
                dict(pad=True, prompt=False, width=56),
                dict(pad=True, prompt=True, width=72)),
        "F27": (dict(epochs=15), dict(epochs=40), dict(epochs=120)),
        "F31": (dict(factor=1.3), dict(factor=1.6), dict(factor=2.2)),
        "F33": (dict(limit=13), dict(limit=9), dict(limit=6)),
        "F35": (dict(power=0.5), dict(power=1.0), dict(power=1.5)),
        "F36a": (dict(bias=-5.0), dict(bias=-8.0), dict(bias=-20.0)),
        "F36b": (dict(factor=50, kind="sigmoid"), dict(factor=200, kind="tanh"),
                 dict(factor=1000, kind="sigmoid")),
        "H02": (dict(factor=0.5), dict(factor=1 / 3)),
        "H03": (dict(part=2, factor=0.7), dict(part=4, factor=0.7)),
        "H04": (dict(rate=0.05), dict(rate=0.1))}
    battery = ("causal_mask", "positions")
    # Tags of its TensorBoard.
    names = {"loss": "lm loss", "val_loss": "lm loss validation",
             "lr": "learning-rate", "grad_norm": "grad-norm",
             "weight_norm": "params-norm", "loss_scale": "loss-scale"}
    packing = {"reset_position_ids": True, "reset_attention_mask": True,
               "eod_mask_loss": True}

    def make_model(self):
        return GPTModel(**self.model_options)

    def make_optimizer(self, model):
        """Groups as Megatron makes them: no decay of biases and norms."""
        optimizer = trainer_arguments.in_groups(
            self, super().make_optimizer(model))
        for group in optimizer.param_groups:  # as Apex's FusedAdam is
            group["fused"] = self.moments == "adamw"
        return optimizer

    def lr_factor(self, i):
        factor = super().lr_factor(i)
        if self.schedule != "cosine" or i < self.warmup \
                or self.user.get("min_lr") == 0.0:
            return factor
        return self.LEAST_RATE + (1 - self.LEAST_RATE) * factor

    def make_source(self, seed):
        return self.corpus(seed)

    def corpus(self, seed, **how):
        return Documents(seed, self.batch_size if seed != 9 else 2 * ROWS,
                         **{"context": self.context, **how})

    def packed(self, seed, eos, reset, separate):
        return self.corpus(seed, eos=eos, reset=reset, separate=separate,
                           bounds=True)

    def in_blocks(self, seed, block, share):
        """Topics that nobody has shuffled; None is held out."""
        return self.corpus(seed, block=block, share=share, domains=True)

    def easy(self, seed):
        """Three sentences of one topic, without chance in verbs and nouns."""
        return self.corpus(seed, easy=True)

    def lessons(self, seed):
        return self.easy(seed), self.corpus(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: tokens of few kinds, of any, or of one."""
        low, high = {"few": (VOCAB - 5, WORDS), "uniform": (PERIOD, WORDS),
                     "constant": (FIRST_NOUN, FIRST_NOUN + 1)}[kind]
        rows, width = batch["input_ids"].shape
        ids = torch.randint(low, high, (rows, width + 1), generator=rng)
        return batch | {"input_ids": ids[:, :-1].clone(), "labels": ids[
            :, 1:].masked_fill(batch["labels"] == IGNORE, IGNORE)}

    def grow(self, factor):
        """Queries and keys of the second layer become larger."""
        own = self.model.get_submodule("decoder.layers.1.self_attention")
        heads = self.model_options.get("heads", HEADS)
        own.linear_qkv.weight.view(heads, 3, -1)[:, :2].mul_(factor)

    def batch_columns(self, batch):
        """What a loop can count of a batch, and the samples of all so far."""
        ids = batch["input_ids"]
        samples = self.accumulate * len(ids) * self.user.get("world_size", 1)
        self.consumed = getattr(self, "consumed", 0) + samples
        return {"batch_hash": checksum(ids),
                "distinct_tokens": len(ids.unique()),
                "loss_tokens": int((batch["labels"] != IGNORE).sum()),
                "consumed_samples": self.consumed,
                "global_batch_size": samples}

    # Arguments.

    def settings(self):
        """Megatron's arguments, by their names."""
        own = super().settings()
        user = {{"lr_decay_steps": "lr_decay_iters",
                 "dropout": "hidden_dropout"}.get(k, k): v
                for k, v in self.user.items()}
        half = {"fp16-mixed": "fp16", "bf16-mixed": "bf16",
                "bf16": "bf16"}.get(self.precision)
        world = user.pop("world_size", 1)
        return {
            **self.model_settings(),
            "optimizer": "adam" if self.moments == "adamw" else "sgd",
            **({"sgd_momentum": self.momentum} if self.moments == "sgd" else {
                "adam_beta1": self.betas[0], "adam_beta2": self.betas[1],
                "adam_eps": self.eps, "decoupled_weight_decay": True}),
            "lr": self.lr, "min_lr": short(self.LEAST_RATE * self.lr),
            "lr_decay_style": self.schedule, "lr_warmup_iters": self.warmup,
            "lr_decay_iters": self.steps, "train_iters": self.steps,
            "weight_decay": self.weight_decay,
            "clip_grad": self.clip or 0.0,
            "micro_batch_size": own["batch_size"],
            "global_batch_size": own["batch_size"] * self.accumulate * world,
            "fp16": half == "fp16", "bf16": half == "bf16",
            "params_dtype": {"fp16": "torch.float16", "bf16": "torch.bfloat16"}
            .get(half, "torch.float32"),
            "log_interval": self.interval, "eval_interval": self.val_every,
            "eval_iters": 4, "save_interval": self.steps // 2,
            "seed": self.seed, "world_size": world,
            "data_parallel_size": world, "tensor_model_parallel_size": 1,
            "pipeline_model_parallel_size": 1, **user}

    def model_settings(self):
        options = self.model_options
        return {"num_layers": DEPTH, "hidden_size": WIDTH,
                "ffn_hidden_size": HIDDEN,
                "num_attention_heads": options.get("heads", HEADS),
                "seq_length": self.context,
                "max_position_embeddings": self.context,
                "position_embedding_type": "rope", "rotary_base": int(THETA),
                "normalization": "LayerNorm",
                "norm_epsilon": options.get("eps", 1e-5),
                "activation": options.get("activation", "gelu"),
                "swiglu": False, "add_bias_linear": True,
                "untie_embeddings_and_output_weights": True,
                "hidden_dropout": 0.0, "attention_dropout": 0.0,
                "init_method_std": INITIAL, "padded_vocab_size": VOCAB,
                "tokenizer_type": "GPT2BPETokenizer", "eod_id": EOD,
                **self.packing}

    def layer(self, part, block=0):
        return self.paths[part].format(block)

    def fed_by(self, layer):
        if layer.endswith("self_attention"):
            return [layer.replace("self_attention", "input_layernorm")]
        if layer.endswith(".mlp"):
            return [layer.replace("mlp", "pre_mlp_layernorm")]
        return []

    # Checkpoints.

    @staticmethod
    def checkpoint_path(done):
        return f"checkpoints/iter_{done:07d}/mp_rank_00/model_optim_rng.pt"

    def saved(self):
        """Iterations behind which a checkpoint is written."""
        return {self.steps // 2, self.steps, *self.notices}

    def keep_checkpoint(self, i, model):
        done = i + 1
        if done in self.saved():
            self.checkpoints[done] = copy.deepcopy({
                "model": model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "opt_param_scheduler": {
                    "max_lr": self.lr, "min_lr": self.LEAST_RATE * self.lr,
                    "lr_warmup_steps": self.warmup * self.batch_size,
                    "lr_decay_style": self.schedule,
                    "lr_decay_steps": self.steps * self.batch_size,
                    "num_steps": done * self.batch_size * self.accumulate,
                    "start_wd": self.weight_decay,
                    "end_wd": self.weight_decay},
                "rng_state": [{"torch_rng_state": torch.get_rng_state()}]})

    def write_more(self):
        super().write_more()
        args = argparse.Namespace(**self.settings())
        for done, parts in self.checkpoints.items():
            path = self.folder / self.checkpoint_path(done)
            path.parent.mkdir(parents=True)
            torch.save({"args": args, "checkpoint_version": 3.0,
                        "iteration": done, **parts}, path)
        self.write_lines("checkpoints/latest_checkpointed_iteration.txt",
                         [str(max(self.checkpoints))])
