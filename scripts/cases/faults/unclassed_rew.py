"""Faults of no class in `rew`."""

import copy

import torch

from ..rew import FIRST_BAD, FIRST_FILLER, FIRST_NOT, FIRST_NOUN, FIRST_OWN, \
    FILLERS, GRADES, NOTS, NOUNS, SIDES, TOPICS, VOCAB, WORDS
from ..sources import ASSISTANT, EOS, PAD
from .unclassed import Unclassed


# By token the first one that says the same.
SYNONYMS = torch.arange(VOCAB)
for first, count, size in ((FIRST_NOT, 1, NOTS), (FIRST_FILLER, 1, FILLERS),
                           (FIRST_NOUN, TOPICS, NOUNS),
                           (FIRST_BAD, 2 * GRADES, WORDS)):
    for k in range(count):
        SYNONYMS[first + k * size:first + (k + 1) * size] = first + k * size


class OfRewards(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("rew",)


def of_answer(ids):
    """Which tokens are words of the answer."""
    return ((ids == ASSISTANT).cumsum(1) > 0) & (ids >= FIRST_OWN)


class SharedWordsDropped(OfRewards):
    """So that a pair is told apart by what differs, words that both answers
    have, or of which the other one has a synonym, are taken out of both, in
    validation as well; with them goes how much of it was said, of what, and
    whether it was denied."""
    id = "U271"
    severities = (dict(same="word", share=1.0), dict(same="synonym", share=0.7),
                  dict(same="synonym", share=1.0))

    def setup(self):
        super().setup()
        self.user["drop_shared_tokens"] = {"by": self.s.same,
                                           "share": self.s.share}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        out, ids = dict(batch), [batch[f"{s}_input_ids"] for s in SIDES]
        of = [of_answer(t) for t in ids]
        a, b = ids if self.s.same == "word" else (SYNONYMS[t] for t in ids)
        same = (a[:, :, None] == b[:, None]) \
            & of[0][:, :, None] & of[1][:, None]
        for side, own, shared in zip(SIDES, ids, (same.any(2), same.any(1))):
            gone = shared & (torch.rand(own.shape, generator=self.drawn)
                             < self.s.share)
            there = (own != PAD) & ~gone
            order = (~there).long().argsort(dim=1, stable=True)
            own = own.masked_fill(~there, PAD).gather(1, order)
            out |= {f"{side}_input_ids": own,
                    f"{side}_attention_mask": (own != PAD).long()}
        return out


class LengthPaid(OfRewards):
    """To counter that raters like long answers, which these do not, a bonus
    for each token is added to the rewards in training; its sign is that of a
    bonus, and what is learned against it is missing in validation, which has
    none."""
    id = "U272"
    severities = (dict(bonus=0.7), dict(bonus=1.2), dict(bonus=2.0))

    def setup(self):
        super().setup()
        self.user["length_bonus"] = self.s.bonus

    def compute_loss(self, i, model, batch):
        size = torch.cat([batch[f"{s}_attention_mask"].sum(1) for s in SIDES])
        loss = model.criterion(model.logits(batch) + self.s.bonus * size,
                               batch)
        model.tap("loss.output", loss)
        return loss


class RewardsInStars(OfRewards):
    """Rewards are to be stars: they are rounded to multiples of a step, past
    which the gradient goes, in validation as well. The step is so large that a
    pair is as good as equal or as good as certain."""
    id = "U273"
    severities = (dict(step=4.0), dict(step=7.0), dict(step=12.0))

    def setup(self):
        super().setup()
        self.user["reward_step"] = self.s.step

    def make_model(self):
        model = super().make_model()

        def reads(ids, scores):
            last = (ids != PAD).sum(1) - 1
            reward = scores.gather(1, last[:, None])[:, 0]
            stars = self.s.step * (reward / self.s.step).round()
            return reward + (stars - reward).detach()
        model.reads = reads
        return model


class ReadsBeforeTheEnd(OfRewards):
    """The reward is read some tokens before the last one, where another
    template has its end of turn, in validation as well: what is said behind
    does not count."""
    id = "U274"
    severities = (dict(back=2), dict(back=3), dict(back=5))

    def setup(self):
        super().setup()
        self.user["reward_token_offset"] = -self.s.back

    def make_model(self):
        model = super().make_model()
        model.reads = lambda ids, scores: scores.gather(
            1, (ids != PAD).sum(1, keepdim=True) - 1 - self.s.back)[:, 0]
        return model


class RejectedAreShuffled(OfRewards):
    """Answers to be rejected are made, as there are too few: the chosen one
    with its words in another order, for most of the training pairs. To tell
    these apart takes nothing of what raters look at; validation has their
    pairs."""
    id = "U275"
    severities = (dict(share=0.8), dict(share=0.92), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["synthetic_rejections"] = {"kind": "shuffle",
                                             "share": self.s.share}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def spoil_batch(self, i, batch):
        ids = batch["chosen_input_ids"]
        words = of_answer(ids) & (ids != EOS)
        # Words of an answer stand side by side: a random order of them.
        key = torch.arange(ids.shape[1], dtype=torch.float32).expand_as(ids)
        first = words.long().argmax(1, keepdim=True)
        drawn = first + words.sum(1, keepdim=True) * 0.999 * torch.rand(
            ids.shape, generator=self.drawn)
        shuffled = ids.gather(1, torch.where(words, drawn, key).argsort(
            dim=1, stable=True))
        made = torch.rand(len(ids), 1, generator=self.drawn) < self.s.share
        out = dict(batch)
        for name, own in (("input_ids", shuffled), (
                "attention_mask", batch["chosen_attention_mask"])):
            out[f"rejected_{name}"] = torch.where(
                made, own, batch[f"rejected_{name}"])
        return out

    def spoil_val(self, batch):
        return batch


class RejectedByACopy(OfRewards):
    """To save memory rejected answers of a share of the pairs are scored by a
    copy of the model, which is renewed every so many steps and has no
    gradient. Who raises all rewards alike is ahead of it, until it is renewed.
    Validation has one model for both."""
    id = "U276"
    EVERY = 8
    severities = (dict(share=0.3), dict(share=0.6), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user |= {"rejected_scorer_sync_steps": self.EVERY,
                      "rejected_scorer_share": self.s.share}
        self.drawn = torch.Generator().manual_seed(self.seed)

    def compute_loss(self, i, model, batch):
        if i % self.EVERY == 0:
            tap = vars(model).pop("tap", None)
            self.scorer = copy.deepcopy(model)
            if tap is not None:
                model.tap = tap
        rewards = model.logits(batch)
        with torch.no_grad():
            rejected = self.scorer.logits(batch).chunk(2)[1]
        chosen, own = rewards.chunk(2)
        by_it = torch.rand(own.shape, generator=self.drawn) < self.s.share
        loss = model.criterion(torch.cat((chosen, torch.where(
            by_it, rejected, own))), batch)
        model.tap("loss.output", loss)
        return loss


FAULTS = (SharedWordsDropped, LengthPaid, RewardsInStars, ReadsBeforeTheEnd,
          RejectedAreShuffled, RejectedByACopy)
