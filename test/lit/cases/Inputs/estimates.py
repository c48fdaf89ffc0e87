"""The arithmetic of scripts/faultbench, on numbers that were worked out by hand."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "scripts"))

from benchmark import baselines, calibration, cases, drawing, estimates, evidence, neighbour, outcomes, rules, series


def record(fault, name, found, family="gpt", also=(), features=None, fired=(), **label):
    """One diagnosed run; `found` is [(class, probability)]."""
    label.update({"class": name, "fault": fault, "family": family, "also": list(also)})
    whole = cases.whole_label(fault.lower(), label)
    return {"set": "hand", "name": fault, "kind": "run", "label": whole, "error": None, "features": features or {},
            "rules": list(fired), "log_quotes": [], "evidence": [],
            "hypotheses": [{"class": c, "probability": p, "layer": "training", "located": {}, "places": []}
                           for c, p in found]}


def told(*args, **options):
    return outcomes.ours(record(*args, **options))


class Intervals(unittest.TestCase):
    def test_wilson(self):
        # z^2 = 3.841459. 8 of 10: middle (.8 + 3.841459/20) / 1.3841459 = .716740,
        # half 1.959964 / 1.3841459 * sqrt(.8 * .2 / 10 + 3.841459/400) = .226577
        e = estimates.wilson(8, 10)
        self.assertAlmostEqual(e.low, 0.490163, 4)
        self.assertAlmostEqual(e.high, 0.943317, 4)
        # 0 of 10: from 0 to z^2 / (10 + z^2) = .277533; 10 of 10 is its mirror.
        self.assertEqual(estimates.wilson(0, 10).low, 0)
        self.assertAlmostEqual(estimates.wilson(0, 10).high, 0.277533, 5)
        self.assertAlmostEqual(estimates.wilson(10, 10).low, 0.722467, 5)
        self.assertEqual(estimates.wilson(0, 0).text(), "-")

    def test_bootstrap(self):
        # All clusters alike: no resampling can change the mean. Two that differ: from one's to the other's.
        self.assertEqual(estimates.mean([("a", 0.5), ("b", 0.5)]).text(), "0.50 (0.50 to 0.50)")
        e = estimates.mean([("a", 0.0), ("b", 1.0)])
        self.assertEqual((e.value, e.low, e.high), (0.5, 0.0, 1.0))
        self.assertEqual(e, estimates.mean([("b", 1.0), ("a", 0.0)]))

    def test_quantile(self):
        self.assertEqual(estimates.quantile([0, 10], 0.25), 2.5)


class Ranks(unittest.TestCase):
    def setUp(self):
        self.all = [
            told("F01", "lr-too-high", [("lr-too-high", 0.9)]),                                        # first
            told("F02", "lr-too-high", [("label-noise", 0.6), ("lr-too-high", 0.3)]),                  # second
            told("F03", "lr-too-low", []),                                                             # silence
            told("F04", "dead-relu", [("vanishing-gradient", 0.8)], also=["vanishing-gradient"]),      # right as well
            told("H01", None, [("label-noise", 0.4)]), told("H02", None, []),
            told("U01", "unknown", [("label-noise", 0.5)]), told("U02", "unknown", [("label-noise", 0.45)]),
        ]

    def test_top(self):
        # Right first: F01, F04 of 4 faults; among three: F02 too. 1 + 1/2 + 0 + 1 = 2.5 of 4.
        self.assertEqual(outcomes.top(self.all, 1).value, 0.5)
        self.assertEqual(outcomes.top(self.all, 3).value, 0.75)
        self.assertEqual(outcomes.reciprocal_rank(self.all).value, 0.625)

    def test_healthy_and_unseen(self):
        # .4 accuses one of two at .3 and none at .5; of the unseen faults U02 is not accused of anything.
        self.assertEqual(outcomes.alarms(self.all).value, 0)
        self.assertEqual(outcomes.alarms(self.all, 0.3).value, 0.5)
        self.assertEqual(outcomes.abstention(self.all).value, 0.5)
        self.assertEqual([t.sound() for t in self.all], [True, False, False, True, True, True, False, True])

    def test_brier(self):
        # F01 .1^2; F02 .6^2 + .7^2; F03 1; F04 .2^2; H01 .4^2; U01 .25; U02 .2025
        wanted = [0.01, 0.85, 1, 0.04, 0.16, 0, 0.25, 0.2025]
        for one, value in zip(self.all, wanted):
            self.assertAlmostEqual(one.brier(), value)
        self.assertAlmostEqual(outcomes.brier(self.all).value, sum(wanted) / 8)

    def test_look_alikes(self):
        # F03 / H16 is a pair: F03 is missed, and H16 must be silent.
        both = [self.all[2], told("H16", None, []), told("H02", None, [("label-noise", 0.9)])]
        self.assertEqual(outcomes.look_alikes(both).value, 0.5)


class Calibration(unittest.TestCase):
    def test_error(self):
        # Bin 9: .9 and .9, one right: |1.8 - 1| = .8. Bin 2: .2 and .2, none right: .4. (.8 + .4) / 4 = .3
        triples = [("a", 0.9, True), ("b", 0.9, False), ("c", 0.2, False), ("d", 0.2, False)]
        self.assertAlmostEqual(estimates.calibration_error(triples).value, 0.3)
        # Half of the causes at .5 right: no error, though every single one is off by .5.
        self.assertAlmostEqual(estimates.calibration_error([("a", 0.5, True), ("b", 0.5, False)]).value, 0)

    def test_floor(self):
        # One cause at .5 is off by .5, right or wrong; causes at 1 are always right.
        self.assertEqual(estimates.calibration_floor([0.5]), (0.5, 0.5))
        self.assertEqual(estimates.calibration_floor([1.0, 1.0]), (0.0, 0.0))
        # 400 at .5: the count right has a deviation of 10, the mean distance is sqrt(2/pi) * 10 = 7.98 of 400 = .020.
        self.assertAlmostEqual(estimates.calibration_floor([0.5] * 400)[0], 0.020, 2)

    def test_bins(self):
        self.assertEqual([estimates.bin_of(p) for p in (0.05, 0.1, 0.3, 0.1 + 0.2, 0.99, 1.0)], [0, 1, 3, 3, 9, 9])
        self.assertEqual(estimates.reliability([(0.5, True), (0.58, False), (1.0, True)]),
                         [(5, 2, 0.54, 1), (9, 1, 1.0, 1)])

    def test_listed(self):
        # A cause below .05 is not listed.
        self.assertEqual(told("F01", "lr-too-high", [("a", 0.06), ("b", 0.04)]).judged(), [(0.06, False)])

    def test_drawing(self):
        # The plot is 320 wide from 60 and goes down from 30: .5 predicted, .5 right is its middle.
        self.assertIn('cx="220.0" cy="190.0"', drawing.reliability({"dev": [(5, 2, 0.5, 1)]}))


class Curve(unittest.TestCase):
    """Of the log-odds x the slope of large ones takes softplus(x), that of small ones -softplus(-x).

    softplus(2) = 2.126928, softplus(0) = .693147, softplus(-2) = .126928.
    """

    def curve(self, *points, low, high, offset, digits=5):
        found = calibration.fit(points)
        for value, wanted in zip(found, (low, high, offset)):
            self.assertAlmostEqual(value, wanted, digits)

    def test_through_shares(self):
        # Three places and three parameters, and so many points that the pull is little: the curve goes through the
        # shares, 5/6 (log-odds 1.609438) at 2, 1/2 (0) at 0, 1/9 (-2.079442) at -2. They rise by 1.433781 high +
        # .566219 low from 0 to 2, by .566219 high + 1.433781 low from -2 to 0: with the determinant 1.735124
        # high = 0.651344, low = 1.193096. At 0 they are .693147 (high - low) + offset = 0.
        many = 2000
        self.curve(*[(2, 1)] * 5 * many, *[(2, 0)] * many, *[(0, 1)] * many, *[(0, 0)] * many, *[(-2, 1)] * many,
                   *[(-2, 0)] * 8 * many, low=1.193096, high=0.651344, offset=0.375514, digits=2)

    def test_mirrored(self):
        # n at 2, k of them right, and the mirror of it at -2: both slopes are one s, of which the derivative of the
        # misfit is s - 1 + 2 (n / (1 + exp(-2 s)) - k) = 0. Of n = 5, k = 2 s = 0.
        self.curve(*[(2, 0)] * 3, *[(2, 1)] * 2, *[(-2, 1)] * 3, *[(-2, 0)] * 2, low=0, high=0, offset=0)

    def test_apart(self):
        # Of n = k = 4 as above s = 1.431833: finite, and not far from 1.
        self.curve(*[(2, 1)] * 4, *[(-2, 0)] * 4, low=1.431833, high=1.431833, offset=0)

    def test_nothing_seen(self):
        self.curve(low=1, high=1, offset=0)

    def test_far(self):
        # No power overflows.
        self.assertEqual([value > 0 for value in calibration.fit([(700, 1), (-700, 0)] * 5)[:2]], [True, True])
        self.assertEqual([value < 0.01 for value in calibration.fit([(700, 0), (-700, 1)] * 5)[:2]], [True, True])
        self.assertEqual((calibration.sigmoid(800), calibration.sigmoid(-800)), (1, 0))


class Places(unittest.TestCase):
    def met(self, step, interval=10):
        label = cases.whole_label("f", {"class": "a", "fault": "F", "family": "gpt", "step": 100, "interval": interval})
        return cases.localisation(label, [{"step": step}])["step"]

    def test_steps(self):
        # Rows every 10: the first at 100 or after is exact, one row before or after is near, 20 steps are let pass.
        wanted = {100: (1, 1, 1), 109: (1, 1, 1), 110: (0, 1, 1), 90: (0, 1, 1), 89: (0, 0, 1), 119: (0, 1, 1),
                  120: (0, 0, 1), 121: (0, 0, 0), 79: (0, 0, 0)}
        for step, parts in wanted.items():
            self.assertEqual(tuple(map(int, self.met(step))), parts, step)
        self.assertEqual(self.met(101, 1), [False, True, True])

    def test_layers_and_tokens(self):
        label = cases.whole_label("f", {"class": "a", "fault": "F", "family": "gpt", "layer": "blocks.0",
                                        "tokens": {"r1": 7}})
        met = cases.localisation(label, [{"layer": "blocks.0.attn"}, {"name": "r1", "token": 8}])
        self.assertEqual(met, {"layer": [False, True, True], "position": [False, True, True]})


    def test_parts(self):
        # A checkpoint has no name for what wraps the model, and what an activation is fed is of its module.
        wanted = {("blocks.0", "blocks.0.attn"): True, ("blocks.0", "blocks.1.attn"): False,
                  ("model.bert.layer.0", "bert.layer.0.dense"): True, ("model.layer", "layer"): False,
                  ("blocks.0.mlp.act", "blocks.0.mlp.fc1"): True, ("blocks.0.mlp.act", "blocks.0.attn"): False,
                  ("model.blocks.0.mlp.act_fn", "blocks.0.mlp.fc1"): True, ("mlp.act", "mlp.fc1"): False,
                  ("blocks.0.mlp.fc2", "blocks.0.mlp.fc1"): False, ("blocks.1", "blocks.10.attn"): False,
                  ("model.bert.layer.1", "bert.layer.10.dense"): False, ("blocks.0.extract", "blocks.0.attn"): False}
        for (label, named), right in wanted.items():
            self.assertEqual(cases.is_part(label, named), right, (label, named))


class Evidence(unittest.TestCase):
    known = {
        "tensors": {"symptoms": ["a"], "needs": {"all": [
            {"table": "tensors", "columns": [], "rows": {}}], "any_of": []}},
        "layers": {"symptoms": ["b"], "needs": {"all": [
            {"table": "scalars", "columns": ["layer"], "rows": {"metric": ["grad_norm"]}}], "any_of": []}},
        "loss": {"symptoms": ["c", "d"], "needs": {"all": [
            {"table": "scalars", "columns": ["step"], "rows": {"metric": ["loss"]}}], "any_of": []}},
        "either": {"symptoms": ["e"], "needs": {"all": [], "any_of": [[
            {"table": "tensors", "columns": [], "rows": {}},
            {"table": "scalars", "columns": [], "rows": {"metric": ["batch_hash"]}}]]}},
        "log": {"symptoms": ["f"], "needs": {"all": [{"table": "log_lines", "columns": [], "rows": {}}], "any_of": []}},
    }

    def test_ablations(self):
        lost = evidence.lost_detectors(self.known)
        self.assertEqual(lost["no text of the knowledge base"], set())
        self.assertEqual(lost["no tensors, no layers"], {"tensors", "layers"})
        self.assertEqual(lost["metrics only"], {"tensors", "layers", "log"})
        one = {"evidence": [{"id": "a", "state": "present", "score": 1, "detector": "tensors"},
                            {"id": "c", "state": "absent", "detector": "loss"}], "log_quotes": [{"entry": "x"}]}
        left, quotes, _ = evidence.ablate(one, "no tensors, no layers", lost["no tensors, no layers"])
        self.assertEqual([e["state"] for e in left], ["unknown", "absent"])
        self.assertEqual(len(quotes), 1)
        self.assertEqual(evidence.ablate(one, "no text of the knowledge base", set())[1], [])

    def test_derived(self):
        report = {"symptom": "c", "score": 0.9, "severity": "error"}
        result = {"outcomes": [
            {"detector": "loss", "outcome": "matched", "reports": [report], "unjudged": [], "missing": []},
            {"detector": "tensors", "outcome": "skipped", "reports": [], "unjudged": [], "missing": ["tensors"]}]}
        states = {e["id"]: e["state"] for e in evidence.derive(result, self.known)}
        self.assertEqual(states, {"a": "unknown", "c": "present", "d": "absent"})


class Baselines(unittest.TestCase):
    def test_rules(self):
        def run(*rows):
            return series.Series([("r", *row) for row in rows])
        self.assertEqual(rules.fired(run(("loss", None, 0, 1.0), ("loss", None, 1, "nan"))), ["ExplodingTensor"])
        # Norm 6e-6 over 4096 weights is a mean of 9.4e-8, below 1e-7; 7e-6 is 1.1e-7.
        self.assertEqual(rules.fired(run(("grad_norm", "fc", 0, 6e-6))), ["VanishingGradient"])
        self.assertEqual(rules.fired(run(("grad_norm", "fc", 0, 7e-6))), [])
        # Validation .12 above training of 1: more than a tenth. At .08 it is less.
        self.assertEqual(rules.fired(run(("loss", None, 0, 1.0), ("val_loss", None, 0, 1.12))), ["Overfit"])
        self.assertEqual(rules.fired(run(("loss", None, 0, 1.0), ("val_loss", None, 0, 1.08))), [])
        # Ten times the start or not: means of ten rows that do not fall in any of two checks.
        self.assertEqual(rules.fired(run(*(("loss", None, i, 2.0) for i in range(30)))), ["LossNotDecreasing"])
        self.assertEqual(rules.fired(run(*(("loss", None, i, 0.9 ** i) for i in range(30)))), [])

    def test_neighbour(self):
        near = neighbour.Neighbour([({"a": 0.0}, "x"), ({"a": 10.0}, None), ({"a": 2.0}, "y")])
        self.assertEqual(near.rank({"a": 1.5}), ["y", "x", neighbour.HEALTHY])
        self.assertEqual(near.rank({"a": 9.0})[0], neighbour.HEALTHY)

    def test_families_apart(self):
        # The twin in the same family must not be asked; the other family knows only label-noise.
        known = [record("F01", "lr-too-high", [], features={"a": 1.0}),
                 record("F24", "label-noise", [], family="mlp", features={"a": 9.0}),
                 record("H01", None, [], family="mlp", features={"a": 5.0})]
        base = baselines.Baselines(known)
        self.assertFalse(base.by_neighbour(known[0]).first())
        self.assertIsNone(base.by_neighbour(known[0]).rank)
        # One of the two runs of the other family is a fault of that class.
        self.assertEqual(base.by_prior(known[0]).found, [(frozenset({"label-noise"}), 0.5)])

    def test_rules_are_right_with_any_class(self):
        one = record("F38", "fp16-overflow", [], fired=["ExplodingTensor"])
        self.assertTrue(baselines.Baselines([one]).by_rules(one).first())
        self.assertTrue(baselines.Baselines([one]).by_rules(record("H01", None, [], fired=["DeadRelu"])).accused())

    def test_shuffled(self):
        # Two faults, both right: dealt anew the labels stay or change places, so that both or none is right.
        both = [told("F01", "lr-too-high", [("lr-too-high", 1)]), told("F24", "label-noise", [("label-noise", 1)])]
        e = baselines.shuffled(both)["top1"]
        self.assertTrue(0.35 < e.value < 0.65)
        self.assertEqual((e.low, e.high), (0, 1))


if __name__ == "__main__":
    unittest.main()
