"""What a next check is worth, on a ranker that is worked out by hand."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "scripts"))

from benchmark import evidence, nextcheck


def need(table, *columns):
    return {"table": table, "columns": list(columns), "rows": {}}


def detector(*every, any_of=()):
    return {"needs": {"all": list(every), "any_of": [list(group) for group in any_of]}}


DETECTORS = {"loss": detector(need("scalars", "step")), "dead": detector(need("scalars", "layer")),
             "dump": detector(need("tensors")),
             "either": detector(any_of=[[need("tensors"), need("scalars", "layer")]])}


def seen(*present, unknown=()):
    items = (("spike", "loss"), ("dead", "dead"), ("spread", "dump"))
    return [{"id": i, "detector": d, "state": "present" if i in present else "unknown" if i in unknown else "absent"}
            for i, d in items]


def record(fault, name, items):
    return {"label": {"fault": fault, "family": "gpt", "class": name, "also": []}, "features": {"loss_start": 0},
            "log_quotes": [], "evidence": items}


class NextCheck(unittest.TestCase):
    def test_kinds(self):
        # A detector that can do with either is told by layers as well, so that hiding tensors alone keeps it.
        self.assertEqual([set(nextcheck.kinds_of(d)) for d in DETECTORS.values()],
                         [set(), {"layers"}, {"tensors"}, {"layers"}])
        both = detector(need("tensors"), need("scalars", "layer"))
        self.assertEqual(nextcheck.kinds_of(both), {"tensors", "layers"})
        one = [{"id": "x", "detector": "both", "state": "present"}]
        kinds = {"both": nextcheck.kinds_of(both)}
        self.assertEqual(nextcheck.hidden(one, kinds, ("tensors",))[0]["needs"], ["scalars.layer"])
        self.assertEqual(nextcheck.hidden(one, kinds, ("tensors", "layers")), one)

    def test_hidden(self):
        kinds = {"dead": {"layers"}, "dump": {"tensors"}}
        states = [e["state"] for e in nextcheck.hidden(seen("spike", "dead"), kinds)]
        self.assertEqual(states, ["present", "unknown", "unknown"])
        states = [e["state"] for e in nextcheck.hidden(seen("spike", "dead"), kinds, ("layers",))]
        self.assertEqual(states, ["present", "present", "unknown"])

    def test_measure(self):
        """A spike alone is a bad batch before a dead relu; a dead layer says which. The next check of a case with a
        layer to record is to record it, otherwise the experiment on what is first."""
        def answer(questions):
            out = []
            for items, _, _, without in questions:
                state = {e["id"]: e["state"] for e in items}
                order = ["relu", "batch"] if state["dead"] == "present" else ["batch", "relu"]
                order = [c for c in order if c not in without]
                if state["spike"] != "present":
                    order = []
                recording = any(e["id"] == "dead" and "needs" in e for e in items)
                out.append({"hypotheses": [{"class": c, "probability": 0.4} for c in order],
                            "next_check": order and {"class": order[0], "minutes": 10 if recording else 5,
                                                     "records": "dead" if recording else None} or None})
            return out

        real = evidence.answers, evidence.detectors
        evidence.answers, evidence.detectors = lambda program, questions, options=(): answer(questions), \
            lambda program: DETECTORS
        try:
            value = nextcheck.measure([
                record("F1", "relu", seen("spike", "dead")),                     # second; recorded: first
                record("F2", "relu", seen("spike", unknown=("dead",))),          # second; batch is asked and out: first
                record("F3", "relu", seen())], "")                               # nothing to ask about
        finally:
            evidence.answers, evidence.detectors = real
        self.assertEqual((value.asked.value, value.asked.n), (2 / 3, 3))
        self.assertEqual((value.before.value, value.after.value), (0.5, 1.0))
        # Of F1: batch out 1, relu settled 1, layers 1, tensors 1/2; of F2: 1, 1, 1/2, 1/2. (3.5 + 3) / 8.
        self.assertAlmostEqual(value.any_check.value, 6.5 / 8)
        self.assertEqual((value.first_before.value, value.first_after.value), (0, 1))
        self.assertEqual((value.recordings, value.minutes), (1, 7.5))


unittest.main()
