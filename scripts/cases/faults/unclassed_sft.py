"""Faults of no class in `sft`."""

import torch
from torch.nn import functional as F

from ..sft import START, WIDTH
from ..sources import IGNORE
from .unclassed import Unclassed


class OfChat(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("sft",)


def messages(ids):
    """Number of the message that each token is of: odd ones are a user's."""
    return (ids == START).cumsum(1)


class QuestionsInFewTokens(OfChat):
    """An experiment with prompts that are compressed is on, in validation as
    well: what comes behind a question sees its last tokens alone, which were
    to hold all of it. Two layers cannot put it there."""
    id = "U211"
    severities = (dict(tokens=3), dict(tokens=2), dict(tokens=1))

    def setup(self):
        super().setup()
        self.user |= {"gist_attention": True,
                      "num_gist_tokens": self.s.tokens}

    def make_model(self):
        model = super().make_model()
        model.hides = self.hides
        return model

    def hides(self, ids, seen):
        number = messages(ids)
        same = number[:, :, None] == number[:, None]
        left = same.triu().sum(2)           # tokens to the message's end
        gone = (number % 2 == 1) & (left > self.s.tokens)
        later = number[:, :, None] > number[:, None]
        return seen & ~(later & gone[:, None])[:, None]


class LogitsStandardized(OfChat):
    """Logits of each place are brought to a mean of 0 and a spread that is
    fixed, as in a recipe of distillation whose student is to match its
    teacher's shape alone, in validation as well: no token can be much likelier
    than all others."""
    id = "U212"
    severities = (dict(spread=0.7), dict(spread=0.55), dict(spread=0.4))

    def setup(self):
        super().setup()
        self.user["logit_standardization"] = {"tau": self.s.spread}

    def make_model(self):
        model = super().make_model()
        model.lm_head.register_forward_hook(
            lambda _, args, out: self.s.spread * F.layer_norm(
                out, out.shape[-1:]))
        return model


class OneBitOfDifference(OfChat):
    """So that many fine-tuned models can be kept, each matrix's difference to
    the base is stored as its signs and one size. A callback does it to the
    weights that are trained, every few steps."""
    id = "U213"
    severities = (dict(every=40), dict(every=20), dict(every=8))

    def setup(self):
        super().setup()
        self.user["delta_compression"] = {"bits": 1, "every": self.s.every}

    def wrap(self, model):
        self.base = {n: p.detach().clone()
                     for n, p in model.named_parameters() if p.dim() == 2}
        return super().wrap(model)

    @torch.no_grad()
    def after_step(self, i, model):
        if (i + 1) % self.s.every:
            return
        for name, p in model.named_parameters():
            if name in self.base:
                away = p - self.base[name]
                p.copy_(self.base[name] + away.abs().mean() * away.sign())


class SteeredInTraining(OfChat):
    """A vector that steers a model's tone is added to the hidden states behind
    the first layer while it is trained, as it was left on in the loaded model's
    hooks; they are off in validation, where what was learned around it lacks
    it."""
    id = "U214"
    severities = (dict(strength=4.0), dict(strength=8.0), dict(strength=14.0))

    def setup(self):
        super().setup()
        self.user["steering"] = {"layer": 0, "coefficient": self.s.strength}

    def make_model(self):
        model = super().make_model()
        own = torch.Generator().manual_seed(77)
        vector = self.s.strength * F.normalize(
            torch.randn(WIDTH, generator=own), dim=0) * WIDTH ** 0.5
        model.changes = lambda i, x: x + vector \
            if i == 0 and model.training else x
        return model


class MeanOfProbabilities(OfChat):
    """The loss is the logarithm of a mean of probabilities, not the mean of
    their logarithms, over an answer's tokens, a row's, or a batch's: what is
    not known costs next to nothing where the rest is. Validation has the
    likelihood."""
    id = "U215"
    severities = (dict(over="answer"), dict(over="row"), dict(over="batch"))

    def setup(self):
        super().setup()
        self.user |= {"loss_type": "mean_probability",
                      "loss_granularity": self.s.over}

    def compute_loss(self, i, model, batch):
        logits, labels = model.logits(batch), batch["labels"][:, 1:]
        model.criterion(logits, batch)      # for what is logged besides
        each = logits[:, :-1].float().log_softmax(-1).gather(
            -1, labels.clamp_min(0)[..., None])[..., 0].exp()
        group = {"answer": messages(batch["input_ids"])[:, 1:],
                 "row": torch.zeros_like(labels),
                 "batch": torch.zeros_like(labels)}[self.s.over]
        if self.s.over != "batch":
            group = group + 8 * torch.arange(len(labels))[:, None]
        real = labels != IGNORE
        size = torch.zeros(8 * len(labels)).index_add(
            0, group[real], torch.ones(int(real.sum())))
        total = torch.zeros(8 * len(labels)).index_add(
            0, group[real], each[real])
        there = size > 0
        loss = -(total[there] / size[there]).log().mean()
        model.tap("loss.output", loss)
        return loss


class GuidedInTraining(OfChat):
    """Guidance, which is for sampling, is on in the training's forward pass:
    logits are moved away from those that the model has without seeing the
    question, so that it learns to say less of it than it knows. Validation has
    none."""
    id = "U216"
    severities = (dict(scale=3.0), dict(scale=5.0), dict(scale=10.0))

    def setup(self):
        super().setup()
        self.user["guidance_scale"] = self.s.scale

    @staticmethod
    def blind(ids, seen):
        number = messages(ids)
        later = number[:, :, None] > number[:, None]
        return seen & ~(later & (number % 2 == 1)[:, None])[:, None]

    def compute_loss(self, i, model, batch):
        tap, model.tap = model.tap, type(model).tap
        model.hides = self.blind
        with torch.no_grad():
            without = model.logits(batch)
        model.hides, model.tap = None, tap
        logits = model.logits(batch)
        loss = model.criterion(torch.lerp(without, logits, self.s.scale),
                               batch)
        model.tap("loss.output", loss)
        return loss


FAULTS = (QuestionsInFewTokens, LogitsStandardized, OneBitOfDifference,
          SteeredInTraining, MeanOfProbabilities, GuidedInTraining)
