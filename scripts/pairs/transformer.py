"""The GPT and the Llama of the cases as a port would write them, layer by
layer, with every intermediate tensor tapped.

The weights are those of the models of cases/, trained for a few steps on their
data; `check` holds the right port against the model's own forward pass. A
fault sits where it would in a port; FAULTS says which are of which family.
"""

import functools
import math

import torch
from torch.nn import functional as F

from cases import llama, models

from .arithmetic import Arithmetic

#: width, heads, layers, batch, length
SIZES = {"small": (16, 2, 2, 2, 12), "large": (96, 4, 3, 4, 40)}
EPS = {"gpt": 1e-5, "llama": 1e-6}


@functools.lru_cache(maxsize=None)
@torch.enable_grad()
def trained(family, size, seed):
    """(weights by name in float32, ids [batch, length])."""
    width, heads, layers, batch, length = SIZES[size]
    torch.manual_seed(1000 * seed + 17)
    if family == "gpt":
        model = models.Gpt(width=width, heads=heads, layers=layers)
        text = models.MarkovText(seed)
    else:
        model = llama.Llama(width=width, heads=heads, layers=layers,
                            eps=EPS["llama"])
        text = models.ZipfText(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(80):
        optimizer.zero_grad()
        model.loss(text.batch()).backward()
        optimizer.step()
    ids = text.batch(batch)["input_ids"][:, :length]
    weights = {n: w.detach().clone() for n, w in model.named_parameters()}
    with torch.no_grad():
        logits = model(ids)
    port = Port(family, size, weights, Arithmetic())
    taps = {}
    port(ids, taps.__setitem__)
    worst = (taps[port.logits_name] - logits).abs().max()
    if worst > 1e-4 * logits.abs().max():
        raise AssertionError(f"the {family} port is off by {worst}")
    return weights, ids


def turn(x, positions, interleaved=False, base=10000.0):
    """Rotary positions; x is (rows, heads, steps, width), in halves or in
    neighbouring pairs."""
    half = x.shape[-1] // 2
    rate = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = positions.double()[:, None] * rate
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin),
                           -1).flatten(-2)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Port:
    """The forward pass; `faults` is a dict from a fault to its setting, at
    block `at`. `weights` are cast to the dtype once."""

    def __init__(self, family, size, weights, arithmetic, faults=None, at=1):
        self.family, self.ops = family, arithmetic
        _, self.heads, self.layers, _, _ = SIZES[size]
        self.weights = {n: arithmetic.cast(w) for n, w in weights.items()}
        self.faults, self.at = faults or {}, at
        gpt = family == "gpt"
        self.logits_name = "head.output" if gpt else "lm_head.output"
        self.block_name = "blocks" if gpt else "model.layers"
        self.attention_name = "attn" if gpt else "self_attn"

    def fault(self, name, block=None):
        """The setting of a fault, None where it does not act."""
        if block is not None and block != self.at:
            return None
        return self.faults.get(name)

    def linear(self, x, name):
        return self.ops.linear(x, self.weights[f"{name}.weight"],
                               self.weights.get(f"{name}.bias"))

    def norm(self, x, name, tap, block):
        tap(f"{name}.input", x)
        eps = self.fault("epsilon", block) or EPS[self.family]
        weight = self.weights[f"{name}.weight"]
        if self.family == "gpt":
            y = self.ops.layer_norm(x, weight, self.weights[f"{name}.bias"],
                                    eps, bool(self.fault("variance", block)))
        else:
            y = self.ops.rms_norm(x, weight, eps)
        tap(f"{name}.output", y)
        return y

    def split(self, x):
        rows, steps, width = x.shape
        return x.view(rows, steps, self.heads, -1).transpose(1, 2)

    def queries(self, x, block, tap):
        """q, k and v in heads, before their positions."""
        name = f"{self.block_name}.{block}.{self.attention_name}"
        parts = ("q", "k", "v") if self.family == "gpt" else \
            ("q_proj", "k_proj", "v_proj")
        fused = torch.cat([self.linear(x, f"{name}.{p}") for p in parts], -1)
        tap(f"{name}.qkv.output", fused)
        order = self.fault("qkv", block)
        if order == "heads":
            # Split as (heads, 3, width) where it is (3, heads, width).
            rows, steps, width = fused.shape
            fused = fused.view(rows, steps, self.heads, 3, -1)
            out = [part.transpose(1, 2) for part in fused.unbind(3)]
        else:
            out = [self.split(part) for part in fused.chunk(3, -1)]
        if order == "kqv":
            out = [out[1], out[0], out[2]]
        for part, y in zip("qkv", out):
            tap(f"{name}.{part}.output", y)
        return out

    def positioned(self, q, k, positions, block, tap):
        if self.family == "gpt":
            return q, k
        name = f"{self.block_name}.{block}.{self.attention_name}"
        shift = self.fault("position") or 0
        wrong = self.fault("rope", block) == "rotation"
        out = []
        for part, x in (("q", q), ("k", k)):
            tap(f"{name}.{part}_rope.input", x)
            x = turn(x, positions + shift, interleaved=wrong)
            tap(f"{name}.{part}_rope.output", x)
            out.append(x)
        return out

    def attend(self, q, k, v, seen, block, tap):
        """Attention over keys that `seen` (queries, keys) lets through."""
        name = f"{self.block_name}.{block}.{self.attention_name}"
        scores = self.ops.product(q, k.transpose(-1, -2))
        if not self.fault("scale", block):
            scores = scores * q.shape[-1] ** -0.5
        tap(f"{name}.scores.output", scores)
        wide = torch.promote_types(scores.dtype, torch.float32)
        probs = scores.to(wide).masked_fill(~seen, -math.inf).softmax(-1)
        probs = probs.to(v.dtype)
        tap(f"{name}.probs.output", probs)
        mixed = self.ops.product(probs, v).transpose(1, 2).flatten(-2)
        tap(f"{name}.mixed.output", mixed)
        out = self.linear(mixed, f"{name}.proj" if self.family == "gpt"
                          else f"{name}.o_proj")
        tap(f"{name}.output", out)
        return out

    def activation(self, x, block):
        form = self.fault("activation", block)
        if form == "tanh":
            return F.gelu(x, approximate="tanh")
        if form == "gelu" or self.family == "gpt":
            return F.gelu(x)
        return F.silu(x)

    def mlp(self, x, block, tap):
        name = f"{self.block_name}.{block}.mlp"
        tap(f"{name}.input", x)
        first = f"{name}.0" if self.family == "gpt" else f"{name}.gate_proj"
        y = self.linear(x, first)
        tap(f"{name}.act.input", y)
        y = self.activation(y, block)
        tap(f"{name}.act.output", y)
        if self.family == "llama":
            up = self.linear(x, f"{name}.up_proj")
            tap(f"{name}.up_proj.output", up)
            y = y * up
            tap(f"{name}.gated.output", y)
        y = self.linear(y, f"{name}.2" if self.family == "gpt"
                        else f"{name}.down_proj")
        tap(f"{name}.output", y)
        return y

    def embed(self, ids, positions, tap):
        if self.family == "llama":
            x = F.embedding(ids, self.weights["model.embed_tokens.weight"])
            tap("model.embed_tokens.output", x)
            return x
        token = F.embedding(ids, self.weights["embed.tok.weight"])
        tap("embed.tok.output", token)
        shift = self.fault("position") or 0
        place = F.embedding(positions + shift,
                            self.weights["embed.pos.weight"])
        x = token + place
        tap("embed.output", x)
        return x

    def block(self, x, block, tap, attention):
        """One block; `attention(y)` mixes positions."""
        name = f"{self.block_name}.{block}"
        gpt = self.family == "gpt"
        tap(f"{name}.input", x)
        y = self.norm(x, f"{name}.ln_1" if gpt
                      else f"{name}.input_layernorm", tap, block)
        y = attention(y)
        x = y if self.fault("residual", block) == "attention" else x + y
        tap(f"{name}.middle.output", x)
        y = self.norm(x, f"{name}.ln_2" if gpt
                      else f"{name}.post_attention_layernorm", tap, block)
        y = self.mlp(y, block, tap)
        x = y if self.fault("residual", block) == "mlp" else x + y
        tap(f"{name}.output", x)
        return x

    def head(self, x, tap):
        x = self.norm(x, "ln_f" if self.family == "gpt" else "model.norm", tap,
                      -1)
        weight = self.weights.get("head.weight")
        if weight is None:
            weight = self.weights.get("lm_head.weight",
                                      self.weights["model.embed_tokens.weight"]
                                      if self.family == "llama" else None)
        x = self.ops.linear(x, weight)
        tap(self.logits_name, x)
        return x

    def __call__(self, ids, tap):
        steps = ids.shape[1]
        positions = torch.arange(steps)
        seen = torch.ones(steps, steps, dtype=torch.bool).tril()
        x = self.embed(ids, positions, tap)
        for i in range(self.layers):
            def attention(y, i=i):
                q, k, v = self.queries(y, i, tap)
                q, k = self.positioned(q, k, positions, i, tap)
                return self.attend(q, k, v, seen, i, tap)
            x = self.block(x, i, tap, attention)
        return self.head(x, tap)
