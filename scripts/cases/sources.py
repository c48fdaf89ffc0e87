"""Data of the fault cases, beside the plain texts and mixture of models.py.

A source gives batches as models.py wants them: a dict of tensors, labels as
the loss gets them, -100 where it must not look. What else a loader of its kind
knows of a batch, such as which tokens the assistant wrote or where packed
documents begin, is in the dict too, by the name that the dump gives it.

Everything is drawn from seeded generators: a source with one seed gives the
same batches for ever. The languages do not depend on the seed. `shape` is a
model family's (vocabulary, context, rows).
"""

import torch

from . import models

IGNORE = -100
# The ids that the chat and packed sources keep for themselves.
PAD, EOS, USER, ASSISTANT = 0, 1, 2, 3
SPECIAL = 4


def shifted(ids):
    return {"input_ids": ids[:, :-1].clone(), "labels": ids[:, 1:].clone()}


class Chain:
    """Order-1 Markov text over the ids [first, first + size), in which a token
    is with probability `copy` the one of `lag` places before. Each token has
    three successors with 0.7, 0.2 and 0.1, as in models.MarkovText."""

    def __init__(self, first, size, language=1, copy=0.5, lag=8):
        self.first, self.size, self.copy, self.lag = first, size, copy, lag
        rng = torch.Generator().manual_seed(language)
        self.next = torch.stack([torch.randperm(size, generator=rng)
                                 for _ in models.MarkovText.WEIGHTS])

    def text(self, rows, length, rng, start=None):
        """ids [rows, length]; `start`, [rows], are the tokens before them."""
        weights = torch.tensor(models.MarkovText.WEIGHTS)
        ids = torch.zeros(rows, length, dtype=torch.int64)
        now = (torch.randint(self.size, (rows,), generator=rng)
               if start is None else start - self.first)
        for t in range(length):
            if t or start is not None:
                branch = torch.multinomial(weights, rows, True, generator=rng)
                now = self.next[branch, now]
            if t >= self.lag and self.copy:
                again = torch.rand(rows, generator=rng) < self.copy
                now = torch.where(again, ids[:, t - self.lag], now)
            ids[:, t] = now
        return ids + self.first


class Source:
    """Base: a generator and the count of batches so far."""

    def __init__(self, seed, shape):
        self.rng = torch.Generator().manual_seed(seed)
        self.vocab, self.context, self.rows = shape
        self.number = 0

    def batch(self, rows=None):
        out = self.draw(rows or self.rows)
        self.number += 1
        return out

    def draw(self, rows):
        raise NotImplementedError

    def between(self, low, high):
        return int(torch.randint(low, high + 1, (1,), generator=self.rng))


AHEAD = 8  # batches that are drawn at once


class DrawnAhead:
    """What draws AHEAD batches at once, which is faster: `draw` gives their
    rows, `rows` is the usual number of one, `ahead` has what is left."""

    def batch(self, rows=None):
        rows = rows or self.rows
        drawn = self.ahead.setdefault(rows, [])
        if not drawn:
            many = self.draw(rows)
            drawn.extend({k: t[n * rows:(n + 1) * rows].clone()
                          for k, t in many.items()}
                         for n in reversed(range(AHEAD)))
        return drawn.pop()


class Finite:
    """A data set of some rows, shuffled anew for each epoch; `data` is a batch
    that holds them all."""

    def __init__(self, data, rows, seed):
        self.rng = torch.Generator().manual_seed(seed)
        self.data, self.rows, self.order = data, rows, []

    def batch(self, rows=None):
        size = len(next(iter(self.data.values())))
        picked = []
        while len(picked) < (rows or self.rows):
            if not self.order:
                self.order = torch.randperm(size, generator=self.rng).tolist()
            picked.append(self.order.pop())
        return {k: t[picked].clone() for k, t in self.data.items()}


class Stages:
    """Another source from a step on: `stages` is [(first step, source)]."""

    def __init__(self, stages):
        self.stages, self.number = stages, 0

    def batch(self, rows=None):
        now = [s for first, s in self.stages if first <= self.number][-1]
        self.number += 1
        return now.batch(rows) if rows else now.batch()


class Text(Source):
    """Plain text of one chain over the whole alphabet."""

    def __init__(self, seed, shape, **chain):
        super().__init__(seed, shape)
        self.chain = Chain(0, self.vocab, **chain)

    def draw(self, rows):
        return shifted(self.chain.text(rows, self.context + 1, self.rng))


class Domains(Source):
    """Three domains with an alphabet of their own. Shuffled, each row is of a
    random one; with `block`, `share` of the rows of `block` steps running are
    of one domain."""

    COUNT = 3

    def __init__(self, seed, shape, block=None, share=1.0):
        super().__init__(seed, shape)
        self.block, self.share = block, share
        size = self.vocab // self.COUNT
        self.chains = [Chain(d * size, size, language=d + 1)
                       for d in range(self.COUNT)]

    def draw(self, rows):
        domain = torch.randint(self.COUNT, (rows,), generator=self.rng)
        if self.block:
            here = self.number // self.block % self.COUNT
            kept = torch.rand(rows, generator=self.rng) < self.share
            domain = torch.where(kept, torch.tensor(here), domain)
        texts = torch.stack([c.text(rows, self.context + 1, self.rng)
                             for c in self.chains])
        return shifted(texts[domain, torch.arange(rows)]) | {"domain": domain}


class SortedMixture(models.GaussianMixture):
    """The mixture as it lies in the file: class by class, `block` batches of
    each; `share` of a batch is of the class, the rest of any."""

    def __init__(self, seed, block, share=1.0):
        super().__init__(seed)
        self.block, self.share, self.number = block, share, 0

    def batch(self, rows=64):
        labels = torch.randint(models.CLASSES, (rows,), generator=self.rng)
        kept = torch.rand(rows, generator=self.rng) < self.share
        here = self.number // self.block % models.CLASSES
        labels = torch.where(kept, torch.tensor(here), labels)
        self.number += 1
        noise = torch.randn(rows, models.FEATURES, generator=self.rng)
        return {"input": self.centres[labels] + noise, "labels": labels}


class ByClass:
    """Mixin before a source of `classes` classes, `rows` a batch, whose
    of(kind) makes rows of them: its data as the folders lie, class by class,
    `block` batches of each; `share` of a batch is of the class, the rest of
    any."""

    def __init__(self, seed, block, share):
        super().__init__(seed)
        self.block, self.share, self.number = block, share, 0

    def batch(self, rows=None):
        rows = rows or self.rows
        kind = torch.randint(self.classes, (rows,), generator=self.rng)
        kept = torch.rand(rows, generator=self.rng) < self.share
        here = self.number // self.block % self.classes
        self.number += 1
        return self.of(torch.where(kept, torch.tensor(here), kind))


class Chat(Source):
    """One question and one answer a row, padded to the context.

    Row: USER question ASSISTANT answer EOS PAD*. The question is a uniform
    draw, which nobody can learn (ln 60 = 4.09 nats a token); the answer, of 8
    to 14 tokens, goes on from its last token as a Markov chain of 0.80 nats.
    Labels are the next tokens of the answer, EOS included. `lengths` are the
    bounds of the question's length. What is longer than the context is cut off
    on the right, as truncation=True does it: such a row is full of question
    and may have no answer and no EOS.
    """

    def __init__(self, seed, shape, lengths=(10, 24)):
        super().__init__(seed, shape)
        self.lengths = lengths
        self.chain = Chain(SPECIAL, self.vocab - SPECIAL, language=5, copy=0)

    def draw(self, rows):
        width = self.context + 1
        ids = torch.full((rows, width), PAD)
        answers = torch.zeros(rows, width, dtype=torch.int64)
        for row in range(rows):
            n = self.between(*self.lengths)
            question = torch.randint(SPECIAL, self.vocab, (n,),
                                     generator=self.rng)
            answer = self.chain.text(1, self.between(8, 14), self.rng,
                                     question[-1:])[0]
            text = torch.cat((torch.tensor([USER]), question,
                              torch.tensor([ASSISTANT]), answer,
                              torch.tensor([EOS])))
            kept = min(width, len(text))
            ids[row, :kept] = text[:kept]
            answers[row, n + 2:kept] = 1
        # The names are those of transformers' chat templates and collators;
        # like there, both go with input_ids and not with the labels.
        labels = ids[:, 1:].masked_fill(answers[:, 1:] == 0, IGNORE)
        return {"input_ids": ids[:, :-1].clone(), "labels": labels,
                "attention_mask": (ids[:, :-1] != PAD).long(),
                "assistant_masks": answers[:, :-1].clone()}


class Packed(Source):
    """Documents of 8 to 20 tokens, each in one of six languages over one
    alphabet, packed into full rows; the last one is cut off.

    Sound packing ends a document with EOS, begins its positions at 0 and keeps
    attention inside of it; what the collator does not do is switched off here.
    The label of a document's last token is ignored: it would be the first of
    another one.
    """

    LANGUAGES = 6

    def __init__(self, seed, shape, eos=True, reset=True, separate=True):
        super().__init__(seed, shape)
        self.eos, self.reset, self.separate = eos, reset, separate
        self.chains = [Chain(SPECIAL, self.vocab - SPECIAL, language=10 + i)
                       for i in range(self.LANGUAGES)]

    def draw(self, rows):
        width = self.context
        ids = torch.zeros(rows, width, dtype=torch.int64)
        labels = torch.full((rows, width), IGNORE)
        positions = torch.arange(width).repeat(rows, 1)
        documents = torch.zeros(rows, width, dtype=torch.int64)
        bounds = [0]
        for row in range(rows):
            at = document = 0
            while at < width:
                chain = self.chains[self.between(0, self.LANGUAGES - 1)]
                text = chain.text(1, self.between(8, 20), self.rng)[0]
                if self.eos:
                    text = torch.cat((text, torch.tensor([EOS])))
                text = text[:width - at]
                end = at + len(text)
                ids[row, at:end] = text
                labels[row, at:end - 1] = text[1:]
                documents[row, at:end] = document
                if self.reset:
                    positions[row, at:end] = torch.arange(len(text))
                bounds.append(row * width + end)
                at, document = end, document + 1
        batch = {"input_ids": ids, "labels": labels,
                 "position_ids": positions, "cu_seqlens": torch.tensor(bounds)}
        if self.separate:
            batch["segments"] = documents  # the attention mask is made of it
        return batch


class WideVocabulary(Source):
    """Text of a tokenizer with `size` ids for a table of fewer rows: a collator
    clamps what is too large to the last row, so that nothing raises."""

    def __init__(self, seed, shape, size):
        super().__init__(seed, shape)
        self.chain = Chain(0, size)

    def draw(self, rows):
        ids = self.chain.text(rows, self.context + 1, self.rng)
        return shifted(ids.clamp(max=self.vocab - 1))
