"""One step of a run as a recorder in the loop sees it.

`layers()` gives the rows of layers.jsonl, `tensors()` what a dump holds.
"""

import fnmatch
import functools
import math
import zlib

import torch


def short(x, digits=6):
    """Six digits: enough for any detector, a third of the bytes."""
    x = float(x.detach() if torch.is_tensor(x) else x)
    return float(f"{x:.{digits}g}")


def norm(tensors):
    return math.sqrt(sum(float(t.double().square().sum()) for t in tensors))


def rms(tensors):
    tensors = list(tensors)
    return norm(tensors) / math.sqrt(sum(t.numel() for t in tensors))


def cosine(a, b):
    """Of two dicts of tensors, over the names in both; None if undefined."""
    names = [n for n in a if n in b]
    size = norm(a[n] for n in names) * norm(b[n] for n in names)
    if not size or not math.isfinite(size):
        return None
    return sum(float((a[n].double() * b[n].double()).sum())
               for n in names) / size


def checksum(tensor):
    return zlib.crc32(tensor.contiguous().numpy().tobytes())


class Snapshot:
    """Activations in execution order, weights before and after the update,
    gradients before clipping."""

    def __init__(self, number, batch, taps, model):
        self.number, self.batch = number, batch
        self.taps = {name: t.detach() for name, t in taps.items()}
        self.before = {n: p.detach().clone()
                       for n, p in model.named_parameters()}
        self.grads, self.after, self.last_grads, self.state = {}, {}, {}, {}

    @functools.cached_property
    def row(self):
        """The batch row of the first NaN, else of the first Inf, else 0. Inf
        comes second because the causal mask hides half of the scores."""
        for is_bad in (torch.isnan, torch.isinf):
            for t in self.taps.values():
                if t.dim() and is_bad(t).any():
                    return int(is_bad(t).nonzero()[0, 0])
        return 0

    def tensors(self, wanted, one_row, thin=None):
        """Yields (name, tensor) in execution order; of activations one row of
        the batch if asked, the one with the first non-finite value."""
        rows = slice(None)
        if one_row:
            rows = slice(self.row, self.row + 1)
        named = [(f"batch.{n}", t) for n, t in self.batch.items()]
        named += self.before.items()
        named += [(n, t[rows] if t.dim() else t)
                  for n, t in self.taps.items()]
        # Backward runs from the loss to the embedding.
        named += [(f"{n.removesuffix('.weight')}.grad", g)
                  for n, g in reversed(self.grads.items())]
        named += [(f"{n.removesuffix('.weight')}.{key}", t)
                  for n, state in self.state.items()
                  for key, t in state.items() if key != "step"]
        for name, tensor in named:
            if any(fnmatch.fnmatch(name, glob) for glob in wanted):
                # safetensors refuses views of one storage.
                tensor = thin(name, tensor) if thin else tensor
                yield name, tensor.contiguous().clone()

    def own(self, layer, fed_by):
        parts = [layer, *fed_by(layer)]
        return [n for n in self.before
                if any(n.startswith(part + ".") for part in parts)]

    def layers(self, names, fed_by):
        """One row a layer, as a logging hook of a user would compute it."""
        for layer in names:
            act = self.taps[f"{layer}.output"].float()
            own = self.own(layer, fed_by)
            row = {"step": self.number, "layer": layer,
                   "act_rms": act.square().mean().sqrt(),
                   "act_max": act.abs().max(),
                   "zero_frac": (act == 0).float().mean(),
                   "grad_norm": None, "weight_norm": None,
                   "update_ratio": None}
            if own:
                weight = norm(self.before[n] for n in own)
                moved = norm(self.after[n] - self.before[n] for n in own)
                row["grad_norm"] = norm(self.grads[n] for n in own
                                        if n in self.grads)
                row["weight_norm"] = weight
                row["update_ratio"] = moved / weight
            row = {k: short(v) if k not in ("step", "layer") and v is not None
                   else v for k, v in row.items()}
            row["nonfinite"] = int((~act.isfinite()).sum())
            yield row

    def full_layers(self, names, fed_by, saturates):
        """Rows with every column that can be measured, four digits.

        `saturates` maps a layer to the limits (low, high) of its activation;
        a value within 1 % of the range of a limit counts as saturated.
        """
        for layer in names:
            row, act = {}, self.taps.get(f"{layer}.output")
            if act is not None:
                row |= self.activation(act.float(), saturates.get(layer))
            for key in ("attn_entropy_share", "max_logit"):
                if f"{layer}.{key}" in self.taps:
                    row[key] = self.taps[f"{layer}.{key}"]
            own = self.own(layer, fed_by)
            if own:
                row |= self.weights(own)
            row = {k: short(v, 4) for k, v in row.items() if v is not None}
            row = {"step": self.number, "layer": layer, **row}
            if act is not None:
                row["nonfinite"] = int((~act.isfinite()).sum())
                row["dtype"] = str(act.dtype).removeprefix("torch.")
            yield row

    @staticmethod
    def activation(act, limits):
        row = {"act_rms": act.square().mean().sqrt(),
               "act_max": act.abs().max(), "act_mean": act.mean(),
               "zero_frac": (act == 0).float().mean()}
        if limits:
            low, high = limits
            edge = 0.01 * (high - low)
            flat = (act < low + edge) | (act > high - edge)
            row["saturated_frac"] = flat.float().mean()
        return row

    def weights(self, own):
        before = [self.before[n].float() for n in own]
        moved = [self.after[n].float() - b for n, b in zip(own, before)]
        weight = norm(before)
        same = sum(int((self.after[n] == self.before[n]).sum()) for n in own)
        grads = {n: self.grads[n] for n in own if n in self.grads}
        row = {"grad_norm": norm(grads.values()) if grads else None,
               "grad_cos": cosine(grads, self.last_grads),
               "weight_norm": weight,
               "update_ratio": norm(moved) / weight if weight else None,
               "update_rms": rms(moved),
               "unchanged_frac": same / sum(b.numel() for b in before)}
        state = [self.state[n] for n in own if self.state.get(n)]
        if state and "exp_avg_sq" in state[0]:
            row["optimizer_state_step"] = min(float(s["step"]) for s in state)
            row["exp_avg_sq_rms"] = rms(s["exp_avg_sq"] for s in state)
        return row

    def totals(self):
        """Columns of metrics.jsonl that sum over all weights."""
        before = [b.float() for b in self.before.values()]
        moved = [self.after[n].float() - b.float()
                 for n, b in self.before.items()]
        weight = norm(before)
        same = sum(int((self.after[n] == b).sum())
                   for n, b in self.before.items())
        return {"weight_norm": weight,
                "update_ratio": norm(moved) / weight if weight else None,
                "unchanged_share": same / sum(b.numel() for b in before),
                "grad_cosine": cosine(self.grads, self.last_grads)}
