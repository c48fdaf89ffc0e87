"""What a run logged, as numbers for the baselines: read by `culprit sql`, so that every baseline reads every log that
culprit reads."""

import json
import math
import subprocess

SCALARS = 'select run, metric, layer, step, value from scalars where "primary" order by run, metric, layer, step'
REQUESTS = ("select status, finish_reason, latency, prompt_tokens, completion_tokens, max_tokens, correct, response, "
            "prompt, temperature, attempt from requests limit 5000")


def _number(value):
    """JSON has no NaN; culprit writes it as a string."""
    return float(value) if value is not None else None


def _rows(program, case, query):
    done = subprocess.run([program, "sql", "--format", "json", str(case), query], capture_output=True, text=True,
                          check=False, timeout=120)
    return json.loads(done.stdout)["rows"] if done.stdout else []


class Series:
    """Scalars of a run and of a second one, where the folder holds a pair; requests of a served model.

    `of[metric, layer]` is [(step, value)] in order of steps; layer None is the whole model.
    """

    def __init__(self, scalars=(), requests=()):
        self.of, self.second = {}, {}
        runs = []
        for run, metric, layer, step, value in scalars:
            if run not in runs:
                runs.append(run)
            place = runs.index(run)
            if value is None or step is None or place > 1:
                continue
            (self.second if place else self.of).setdefault((metric, layer), []).append((step, _number(value)))
        self.requests = [list(r) for r in requests]

    @classmethod
    def read(cls, program, case):
        return cls(_rows(program, case, SCALARS), _rows(program, case, REQUESTS))

    def values(self, metric, layer=None):
        return [v for _, v in self.of.get((metric, layer), ())]

    def finite(self, metric, layer=None):
        return [v for v in self.values(metric, layer) if math.isfinite(v)]

    def layers(self, metric):
        """Layer -> [(step, value)] of a metric, without the one of the whole model."""
        return {layer: rows for (name, layer), rows in self.of.items() if name == metric and layer is not None}
