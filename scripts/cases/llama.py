"""The second language model: what differs from the first is the point."""

import torch
from torch import nn

from . import models


class RmsNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() \
            * self.weight


def rotate(x, position_ids, base=10000.0):
    """Rotary positions in halves; x is (rows, heads, steps, width)."""
    half = x.shape[-1] // 2
    rate = base ** (-torch.arange(half) / half)
    angle = position_ids[:, None, :, None].float() * rate
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class LlamaBlock(nn.Module):
    """Attention and SwiGLU behind RMSNorms; names as in transformers."""

    class Projections(nn.Module):
        def __init__(self, *shapes):
            super().__init__()
            for name, rows, columns in shapes:
                setattr(self, name, nn.Linear(rows, columns, bias=False))

    def __init__(self, width, heads, eps, options):
        super().__init__()
        self.heads, self.options = heads, options
        self.input_layernorm = RmsNorm(width, eps)
        self.post_attention_layernorm = RmsNorm(width, eps)
        self.self_attn = self.Projections(
            *((f"{n}_proj", width, width) for n in "qkvo"))
        wide = 8 * width // 3
        self.mlp = self.Projections(("gate_proj", width, wide),
                                    ("up_proj", width, wide),
                                    ("down_proj", wide, width))
        self.act = models.ACTIVATIONS[options["activation"]]()

    def forward(self, x, tap, drop, position_ids, **seen):
        tap("input_layernorm.input", x)
        y = self.input_layernorm(x)
        tap("input_layernorm.output", y)
        rows, steps, width = y.shape

        def split(name):
            return getattr(self.self_attn, name)(y).view(
                rows, steps, self.heads, -1).transpose(1, 2)

        q, k, v = split("q_proj"), split("k_proj"), split("v_proj")
        if self.options["positions"]:
            q, k = rotate(q, position_ids), rotate(k, position_ids)
        scale = self.options["scale"]
        if scale is None:
            scale = (width // self.heads) ** -0.5
        mixed = models.attend(q, k, v,
                              lambda n, t: tap(f"self_attn.{n}", t), scale,
                              half=self.options["half_scores"], **seen)
        y = self.self_attn.o_proj(mixed.transpose(1, 2).reshape(x.shape))
        tap("self_attn.output", y)
        x = x + drop(y)
        y = self.post_attention_layernorm(x)
        tap("mlp.input", y)
        gate, up = self.mlp.gate_proj(y), self.mlp.up_proj(y)
        if self.options["half_mlp"]:
            gate, up = gate.half(), up.half()
        tap("mlp.act_fn.input", gate)
        gate = self.act(gate)
        tap("mlp.act_fn.output", gate)
        tap("mlp.up_proj.output", up)
        y = gate * up
        tap("mlp.gated.output", y)
        y = self.mlp.down_proj(y.to(self.mlp.down_proj.weight.dtype))
        tap("mlp.output", y)
        return x + drop(y)


class Llama(models.Language):
    """Rotary positions, RMSNorm, SwiGLU: 3 layers, width 48, 4 heads."""

    VOCAB = models.ZipfText.VOCAB

    def __init__(self, width=48, heads=4, layers=3, eps=1e-5, tied=True,
                 half_scores=False, half_mlp=False, detach_after=None,
                 positions=True, future=0, scale=None, activation="silu",
                 dropout=0.0, pad=None):
        super().__init__()
        self.detach_after, self.future, self.dropout = \
            detach_after, future, dropout
        options = {"half_scores": half_scores, "half_mlp": half_mlp,
                   "positions": positions, "scale": scale,
                   "activation": activation}
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(self.VOCAB, width,
                                               padding_idx=pad)
        self.model.layers = nn.ModuleList(
            LlamaBlock(width, heads, eps, options) for _ in range(layers))
        self.model.norm = RmsNorm(width, eps)
        self.lm_head = nn.Linear(width, self.VOCAB, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.05)
        if tied:
            self.lm_head.weight = self.model.embed_tokens.weight
        if pad is not None:
            with torch.no_grad():
                self.model.embed_tokens.weight[pad] = 0

    def forward(self, ids, position_ids=None, segments=None):
        if position_ids is None:
            position_ids = torch.arange(ids.shape[1])[None]
        x = self.model.embed_tokens(ids)
        self.tap("model.embed_tokens.output", x)
        if self.detach_after == -1:
            x = x.detach()
        x = self.drop(x)
        for i, block in enumerate(self.model.layers):
            x = block(x, lambda n, t, i=i: self.tap(f"model.layers.{i}.{n}",
                                                    t),
                      self.drop, position_ids, future=self.future,
                      segments=segments)
            if i == self.detach_after:
                x = x.detach()
        x = self.model.norm(x)
        self.tap("model.norm.output", x)
        x = self.lm_head(x)
        self.tap("lm_head.output", x)
        return x
