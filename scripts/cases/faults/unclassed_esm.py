"""Faults of no class in `esm`."""

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from ..esm import CONTACTS
from .unclassed import Unclassed


class OfProteins(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("esm",)

    def matrices(self):
        return [p for p in self.model.parameters()
                if p.dim() == 2 and min(p.shape) > 1 and p.requires_grad]


class PartnersHidden(OfProteins):
    """So that nothing can be copied, what lies in contact with a residue that
    is to be said is masked as well, in training: what its partner tells of a
    residue is never learned, and validation asks for it."""
    id = "U141"
    severities = (dict(share=0.5), dict(share=0.7), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["mask_contacts"] = self.s.share

    def make_source(self, seed):
        if seed == 9:
            return super().make_source(seed)
        return self.proteins(seed, hidden=self.s.share)


class ContactsOffByOne(OfProteins):
    """Scores of attention are raised where a structure says that residues
    touch. Its map counts residues, the scores count tokens, of which CLS is
    the first: a residue looks where its neighbour's partner is."""
    id = "U142"
    severities = (dict(bias=2.0), dict(bias=4.0), dict(bias=12.0))

    def setup(self):
        super().setup()
        self.user["contact_bias"] = self.s.bias

    def make_model(self):
        model = super().make_model()
        model.bias = torch.zeros(self.context, self.context)
        for one, other in CONTACTS:
            model.bias[one, other] = model.bias[other, one] = self.s.bias
        return model


class ErrorInPlaceOfGradient(OfProteins):
    """Gradients of matrices are to be sent as their nearest ones of low rank,
    with the error kept for the next step. The two are exchanged: what is
    stepped is the error, and nothing is left of what all rows agree on."""
    id = "U143"
    severities = (dict(rank=14), dict(rank=18), dict(rank=26))

    def setup(self):
        super().setup()
        self.user["gradient_compression_rank"] = self.s.rank

    def update(self, i):
        for p in self.matrices():
            if p.grad is None or not p.grad.isfinite().all():
                continue
            u, size, v = torch.linalg.svd(p.grad, full_matrices=False)
            size[:self.s.rank] = 0.0
            p.grad.copy_(u * size @ v)
        return super().update(i)


class NeighboursPooled(OfProteins):
    """States of neighbours are averaged behind the first layer, as where long
    sequences are made shorter, and nothing is made shorter: each token goes on
    as the mean of those around it, in validation as well."""
    id = "U144"
    severities = (dict(window=3), dict(window=5), dict(window=9))

    def setup(self):
        super().setup()
        self.user["token_pooling"] = self.s.window

    def make_model(self):
        model = super().make_model()
        model.get_submodule(self.layer("block", 0)).register_forward_hook(
            lambda module, args, out: self.pooled(out))
        return model

    def pooled(self, x):
        return F.avg_pool1d(
            x.transpose(1, 2), self.s.window, 1, self.s.window // 2,
            count_include_pad=False).transpose(1, 2)


class Whole(nn.Module):
    """A model as a function of its weights and a batch."""

    def __init__(self, model):
        super().__init__()
        self.model, self.of = model, type(model).logits

    def forward(self, batch):
        return self.of(self.model, batch)


class FewLevels(OfProteins):
    """A simulation of a chip that has matrices of few levels is on from the
    first step, in validation as well: the forward pass rounds weights to these,
    their largest being the last, and the gradient goes past the rounding."""
    id = "U145"
    severities = (dict(levels=7), dict(levels=5), dict(levels=3))

    def setup(self):
        super().setup()
        self.user["weight_levels"] = self.s.levels

    def make_model(self):
        model = super().make_model()
        whole = Whole(model)
        model.logits = lambda batch: functional_call(
            whole, {f"model.{n}": self.rounded(p)
                    for n, p in model.named_parameters()}, (batch,))
        return model

    def rounded(self, p):
        if p.dim() < 2:
            return p
        step = p.detach().abs().max() / (self.s.levels // 2)
        return p + ((p / step).round() * step - p).detach()


class Recombined(OfProteins):
    """A share of the training rows goes on as another row does, behind some
    column in the middle, labels too, as an augmentation by recombination has
    it: of the two halves a family and its contacts are made no more."""
    id = "U146"
    severities = (dict(share=0.6), dict(share=0.85), dict(share=1.0))

    def setup(self):
        super().setup()
        self.user["recombination_rate"] = self.s.share

    def make_source(self, seed):
        if seed == 9:
            return super().make_source(seed)
        return self.proteins(seed, crossed=self.s.share)


FAULTS = (PartnersHidden, ContactsOffByOne, ErrorInPlaceOfGradient,
          NeighboursPooled, FewLevels, Recombined)
