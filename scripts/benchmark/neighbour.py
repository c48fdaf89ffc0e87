"""Baseline: the nearest neighbour among known runs, by features that do not depend on the scale of a model.

Of training: shape of the loss, gradient norm, rate, updates and activations; of a served model: errors, lengths, speed
and repetition. In the pilot such a classifier told .96 of faults in runs of a configuration that it had seen, and
accused 4 of 7 healthy ones of another.
"""

import math

HEALTHY = "(healthy)"


def _log(value):
    """To the base of 10; -12 of zero."""
    if value is None or value < 0 or not math.isfinite(value):
        return None
    return math.log10(value) if value else -12.0


def _ratio(a, b):
    return _log(a / b) if a is not None and b and b > 0 and a >= 0 else None


def _median(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None


def _at(rows, step):
    """Value of the row nearest to a step."""
    return min(rows, key=lambda r: abs(r[0] - step))[1] if rows else None


def _loss(s):
    rows = [(step, v) for step, v in s.of.get(("loss", None), ()) if math.isfinite(v)]
    values = [v for _, v in rows]
    if not values:
        return {}
    first, tail, third = values[0], values[-max(1, len(values) // 10):], max(1, len(values) // 3)
    end = sum(tail) / len(tail)
    val = s.finite("val_loss")
    allv = s.values("loss")
    return {
        "loss_end": _ratio(end, first), "loss_at_100": _ratio(_at(rows, 100), first), "loss_start": _log(first),
        "loss_third": _ratio(_median(values[third:2 * third] or values), first),
        "loss_low": _ratio(min(values), first), "loss_high": _ratio(max(values), first),
        "loss_back": _ratio(end, min(values)), "loss_nonfinite": 1 - len(values) / len(allv),
        "val_to_train": _ratio(val[-1], end) if val else None, "val_back": _ratio(val[-1], min(val)) if val else None,
    }


def _whole(s):
    grad, rate = s.finite("grad_norm"), s.finite("lr")
    times, data = s.finite("step_time"), s.finite("data_time")
    jumps = [b / a for a, b in zip(rate, rate[1:]) if a > 0 and b > 0]
    return {
        "grad_median": _log(_median(grad)), "grad_high": _ratio(max(grad, default=None), _median(grad)),
        "grad_end": _ratio(_median(grad[-max(1, len(grad) // 10):]), _median(grad)),
        "lr_zero": sum(v == 0 for v in rate) / len(rate) if rate else None,
        "lr_jump": _log(max(jumps)) if jumps else None, "lr_drop": _log(min(jumps)) if jumps else None,
        "lr_high": _log(max(rate)) if rate else None,
        "time_high": _ratio(max(times, default=None), _median(times)),
        "data_share": _ratio(_median(data), _median(times)),
        "unchanged": _median(s.finite("unchanged_share")),
    }


def _layers(s):
    def every(metric):
        return [v for rows in s.layers(metric).values() for _, v in rows if math.isfinite(v)]

    def firsts(metric):
        return [rows[0][1] for rows in s.layers(metric).values() if math.isfinite(rows[0][1])]

    update, norms, grads = every("update_ratio"), firsts("activation_rms"), every("grad_norm")
    still = [all(v == 0 for _, v in rows) for rows in s.layers("update_ratio").values()]
    cut = [all(v == 0 for _, v in rows) for rows in s.layers("grad_norm").values()]
    return {
        "update_median": _log(_median(update)), "update_high": _log(max(update, default=None)),
        "update_zero": sum(v == 0 for v in update) / len(update) if update else None,
        "layers_still": sum(still) / len(still) if still else None, "layers_cut": sum(cut) / len(cut) if cut else None,
        "grads_zero": sum(v == 0 for v in grads) / len(grads) if grads else None,
        "zeros_high": max(every("zero_share"), default=None), "saturated": max(every("saturated_share"), default=None),
        "start_high": _log(max(norms, default=None)), "start_low": _log(min(norms, default=None)),
        "act_high": _log(max(every("activation_max"), default=None)),
        "cosine": _median(every("grad_cosine")), "logit": _log(max(every("max_attention_logit"), default=None)),
        "entropy": min(every("attention_entropy_share"), default=None),
        "nonfinite": float(any(v > 0 for v in every("nonfinite"))) if every("nonfinite") else None,
    }


def _distinct(text):
    """Share of different triples of words: 1 without any repetition."""
    words = str(text).split()
    triples = [tuple(words[i:i + 3]) for i in range(len(words) - 2)]
    return len(set(triples)) / len(triples) if triples else None


def _served(s):
    if not s.requests:
        return {}
    status, finish, latency, asked, made, most, correct, texts, prompts, warmth, attempt = (
        [v for v in column if v is not None] for column in zip(*s.requests))
    many = len(s.requests)
    late = sorted(latency)
    full = [r[4] / r[5] for r in s.requests if r[4] is not None and r[5]]
    pace = [r[2] / r[4] for r in s.requests if r[2] is not None and r[4]]
    return {
        "errors": sum(v >= 400 for v in status) / len(status) if status else None,
        "cut": sum(v == "length" for v in finish) / len(finish) if finish else None,
        "late": _ratio(late[int(.95 * (len(late) - 1))], _median(late)) if late else None,
        "pace": _log(_median(pace)), "filled": _median(full), "right": sum(correct) / len(correct) if correct else None,
        "distinct": _median([d for d in map(_distinct, texts) if d is not None]),
        "same_prompt": 1 - len(set(map(str, prompts))) / len(prompts) if prompts else None,
        "prompt_high": _ratio(max(asked, default=None), _median(asked)), "warmth": _median(warmth),
        "retries": sum(v > 1 for v in attempt) / many if attempt else None,
        "silent": sum(not str(t) for t in texts) / len(texts) if texts else None,
    }


def features(series):
    found = {}
    for part in (_loss, _whole, _layers, _served):
        found.update(part(series))
    differs = series.second.get(("loss", None))
    found["pair_differs"] = float(differs != series.of.get(("loss", None))) if differs else None
    return {name: round(value, 6) for name, value in sorted(found.items()) if value is not None}


class Neighbour:
    """Knows labelled runs: [(features, class or None for healthy)]."""

    def __init__(self, known):
        self.known = [(f, c or HEALTHY) for f, c in known]
        self.scale = {}
        for name in sorted({n for f, _ in self.known for n in f}):
            values = sorted(f[name] for f, _ in self.known if name in f)
            spread = values[(3 * len(values)) // 4] - values[len(values) // 4]
            self.scale[name] = spread or (values[-1] - values[0]) / 4 or 1.0

    def distance(self, a, b):
        """Mean over the features that either has, none counted above 3; 1 for one that the other lacks."""
        names = a.keys() | b.keys()
        total = 0.0
        for name in names:
            total += min(3.0, abs(a[name] - b[name]) / self.scale.get(name, 1.0)) if name in a and name in b else 1.0
        return total / len(names) if names else 3.0

    def rank(self, found):
        """Classes by their nearest run, nearest first; a healthy run is one of them."""
        nearest = {}
        for other, name in self.known:
            d = self.distance(found, other)
            if d < nearest.get(name, math.inf):
                nearest[name] = d
        return [name for _, name in sorted((d, name) for name, d in nearest.items())]
