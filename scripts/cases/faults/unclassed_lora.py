"""Faults of no class in `lora`."""

import torch
from torch.nn import functional as F

from ..lora import CLASSES, FIRST_OWN, Reviews
from .unclassed import Unclassed


class OfAdapters(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("lora",)


class FrequentWordsRemoved(OfAdapters):
    """Stop words are removed, as for a model of topics, in validation as well;
    the list is made by frequency, and what is good or bad is said in few words
    that are frequent."""
    id = "U221"
    severities = (dict(words=11), dict(words=13), dict(words=15))

    def setup(self):
        super().setup()
        self.user |= {"remove_stop_words": True,
                      "stop_words": f"{self.s.words} most frequent"}

    def make_source(self, seed):
        ids = Reviews(5, 4000).batch()["input_ids"].flatten()
        count = ids[ids >= FIRST_OWN].bincount()
        return self.reviews(seed, stop=count.argsort(
            descending=True)[:self.s.words].tolist())


class Abstains(OfAdapters):
    """A head that may abstain, as a gambler who keeps his money: what goes to
    the output that is no class counts as the right class, by a part. The part
    is so large that nothing else need be learned; validation asks for a
    class."""
    id = "U222"
    severities = (dict(payoff=3.0), dict(payoff=2.0), dict(payoff=1.2))

    def setup(self):
        super().setup()
        self.model_options["abstains"] = True
        self.user["abstention_payoff"] = self.s.payoff

    def compute_loss(self, i, model, batch):
        logits = model(batch["input_ids"], batch["attention_mask"]).float()
        each = logits.log_softmax(-1)
        right = each.gather(1, batch["labels"][:, None])[:, 0]
        kept = each[:, CLASSES] - torch.tensor(self.s.payoff).log()
        loss = -torch.logaddexp(right, kept).mean()
        model.tap("loss.output", loss)
        return loss


class ClassesAsStars(OfAdapters):
    """Labels are made a distribution that falls with the distance of a class's
    number, as for stars of reviews; these classes have an order by chance
    alone. Validation has labels as they are."""
    id = "U223"
    severities = (dict(width=1.0), dict(width=2.0), dict(width=5.0))

    def setup(self):
        super().setup()
        self.user["ordinal_label_width"] = self.s.width

    def compute_loss(self, i, model, batch):
        off = (torch.arange(CLASSES) - batch["labels"][:, None]).abs()
        wanted = (-off / self.s.width).softmax(1)
        loss = F.cross_entropy(model.logits(batch).float(), wanted)
        model.tap("loss.output", loss)
        return loss


class ExitsEarly(OfAdapters):
    """Early exits are trained, so that easy texts could leave behind the first
    layer: in training the head reads of most texts what the first layer says.
    Validation reads the last one."""
    id = "U224"
    severities = (dict(share=0.9), dict(share=0.97), dict(share=0.995))

    def setup(self):
        super().setup()
        self.user["early_exit_rate"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def make_model(self):
        model = super().make_model()
        model.read = lambda states: self.read(model, states)
        return model

    def read(self, model, states):
        if not model.training:
            return states[-1]
        early = torch.rand(len(states[0]), 1, 1, generator=self.drawn) \
            < self.s.share
        return torch.where(early, states[1], states[-1])


class BesideTheBase(OfAdapters):
    """So that nothing of the base is forgotten, what adapters get loses the
    directions in which the base's states lie, in validation as well: of forty
    so many are taken for the base's that next to nothing is left."""
    id = "U225"
    severities = (dict(taken=33), dict(taken=37), dict(taken=39))

    def setup(self):
        super().setup()
        self.user["null_space_directions_removed"] = self.s.taken

    def make_model(self):
        model = super().make_model()
        got = {}
        hooks = [part.register_forward_pre_hook(
            lambda module, args, name=name: got.__setitem__(
                name, args[0].detach().flatten(0, 1)))
            for name, part in model.adapters()]
        with torch.no_grad():
            model.logits(Reviews(6, 400).batch())
        for hook in hooks:
            hook.remove()
        for name, part in model.adapters():
            x = got[name]
            taken = self.s.taken * x.shape[1] // 40
            main = torch.linalg.svd(x, full_matrices=False).Vh[:taken]
            part.keeps = torch.eye(x.shape[1]) - main.T @ main
        return model


class AnotherClassDenied(OfAdapters):
    """Negative learning, which is for labels that nobody trusts: for most texts
    the loss asks that some class, drawn among those that are not the label, be
    unlikely, in place of that the label be likely."""
    id = "U226"
    severities = (dict(share=0.9), dict(share=0.97), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["negative_learning_rate"] = self.s.share
        self.drawn = torch.Generator().manual_seed(self.seed)

    def compute_loss(self, i, model, batch):
        each, labels = model.logits(batch).float().log_softmax(-1), \
            batch["labels"]
        other = (labels + 1 + torch.randint(
            CLASSES - 1, labels.shape, generator=self.drawn)) % CLASSES
        denied = torch.rand(labels.shape, generator=self.drawn) < self.s.share
        right = each.gather(1, labels[:, None])[:, 0]
        wrong = each.gather(1, other[:, None])[:, 0].exp()
        loss = torch.where(denied, -(1 - wrong).clamp_min(1e-6).log(),
                           -right).mean()
        model.tap("loss.output", loss)
        return loss


FAULTS = (FrequentWordsRemoved, Abstains, ClassesAsStars, ExitsEarly,
          BesideTheBase, AnotherClassDenied)
