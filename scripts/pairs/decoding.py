"""Decoding with a cache of keys and values, against the full forward pass of
every prefix. Both are given the same tokens, so that one wrong token does not
change the next."""

import torch

from .transformer import SIZES, Port

#: tokens of the prompt, tokens decoded
LENGTHS = {"small": (5, 6), "large": (8, 8)}
#: the cache has room for that many more tokens than it gets
ROOM = 2


def full(family, size, weights, ops, ids, tape):
    """The reference: at each token all that came before is computed anew; of
    each prefix the last position is told."""
    prompt, count = LENGTHS[size]
    port = Port(family, size, weights, ops)
    slots = prompt + count + ROOM
    for at in range(prompt, prompt + count):
        tape.at(token=at)

        def tap(name, x):
            parts = name.split(".")
            if parts[-2] in ("q", "k", "v", "qkv", "mixed",
                             "scores") or \
                    parts[-1] == "input":
                return
            if parts[-2] == "probs":
                tape(name, torch.nn.functional.pad(
                    x[:, :, -1:], (0, slots - x.shape[-1])))
            elif parts[-2] in ("q_rope", "k_rope"):
                tape(name, x[:, :, -1:])
            else:
                tape(name, x[:, -1:])

        _forward(port, ids[:, :at + 1], tap, tape, slots)


def _forward(port, ids, tap, tape, slots):
    """The full forward pass with its keys and values as a cache has them."""
    steps = ids.shape[1]
    positions = torch.arange(steps)
    seen = torch.ones(steps, steps, dtype=torch.bool).tril()
    x = port.embed(ids, positions, tap)
    for i in range(port.layers):
        def attention(y, i=i):
            q, k, v = port.queries(y, i, tap)
            q, k = port.positioned(q, k, positions, i, tap)
            name = f"{port.block_name}.{i}.{port.attention_name}"
            for part, kept in (("k", k), ("v", v)):
                tape(f"{name}.{part}_cache", torch.nn.functional.pad(
                    kept, (0, 0, 0, slots - steps)))
            return port.attend(q, k, v, seen, i, tap)
        x = port.block(x, i, tap, attention)
    port.head(x, tap)


def cached(family, size, weights, ops, ids, tape, faults):
    """Prefill, then one token at a time. `faults` act from the first decoded
    token on, or from `after` tokens later."""
    prompt, count = LENGTHS[size]
    _, heads, layers, batch, _ = SIZES[size]
    port = Port(family, size, weights, ops)
    slots = prompt + count + ROOM
    caches = {}
    for at in [None, *range(prompt, prompt + count)]:
        prefill = at is None
        decoded = 0 if prefill else at - prompt
        now = ids[:, :prompt] if prefill else ids[:, at:at + 1]
        positions = torch.arange(prompt) if prefill else torch.tensor([at])
        if "stale" in faults and not prefill:
            positions = torch.tensor([prompt if faults["stale"] == "frozen"
                                      else at - 1])
        first = 0 if prefill else at
        if not prefill:
            tape.at(token=at)
            first += faults.get("append", 0)

        def tap(name, x):
            parts = name.split(".")
            if prefill or parts[-2] in ("q", "k", "v", "qkv", "mixed",
                                        "scores") or parts[-1] == "input":
                return
            tape(name, x)

        x = port.embed(now, positions, tap)
        for i in range(layers):
            def attention(y, i=i):
                q, k, v = port.queries(y, i, tap)
                q, k = port.positioned(q, k, positions, i, tap)
                name = f"{port.block_name}.{i}.{port.attention_name}"
                steps = k.shape[2]
                for part, new in (("k", k), ("v", v)):
                    if faults.get("int8"):
                        new = rounded(new)
                    kept = caches.setdefault((part, i), torch.zeros(
                        batch, heads, slots, new.shape[-1], dtype=new.dtype))
                    kept[:, :, first:first + steps] = new
                    damage(kept, faults, decoded, prefill)
                    if not prefill:
                        tape(f"{name}.{part}_cache", kept)
                last = prompt if prefill else at + 1
                seen = torch.zeros(steps, slots, dtype=torch.bool)
                for row in range(steps):
                    seen[row, :last - steps + row + 1] = True
                mask = None if prefill else faults.get("mask")
                if mask == "later":
                    seen[:, last] = True
                elif mask == "first":
                    seen[:, 0] = False
                elif mask == "itself":
                    seen[:, last - 1] = False
                k, v = caches["k", i], caches["v", i]
                return port.attend(q, k, v, seen, i, tap)
            x = port.block(x, i, tap, attention)
        port.head(x, tap)


def rounded(x):
    """On a grid of 127 steps to each side, one scale a tensor."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    step = wide.abs().max() / 127
    return ((wide / step).round() * step).to(x.dtype)


def damage(kept, faults, decoded, prefill):
    """What happens to a cache behind its request's back."""
    if prefill or decoded != faults.get("after", 2):
        return
    if "reset" in faults:
        begin = 0 if faults["reset"] == "first" else 2
        kept[:, :, begin:begin + 2] = 0
    if "rows" in faults:
        kept.copy_(kept.flip(0) if faults["rows"] == "flip"
                   else kept.roll(1, 0))
