"""The recorded runs as boosted decision trees: kb/recorded-runs.txt (lib/Rank/RecordedRuns.h reads it).

Each tree asks of a run which symptoms are there, how sure, and how its curves go (the report's `shape`), and raises or
lowers the log-odds of one class where the trees before it were wrong about the recorded runs that answer alike
(gradient boosting: Friedman 2001; of some questions drawn by lot at each branch the best is asked). Which files a run
left behind says nothing of its fault and must not be asked: a symptom that nobody could look for counts as one that is
not there, and a figure that is missing as the median.

Needs scikit-learn 1.4 or newer, which the program does not.
"""

import math
import statistics

HEALTHY, UNKNOWN = "healthy", "unknown"

ROUNDS = 120         # of a tree for each class
STEP = 0.06          # of what a tree says, that is added
LEAVES = 15          # of a tree
ASKED = 0.2          # share of the questions that a branch chooses from
LEAST = 10           # runs at the end of a branch
PULL = 1.0           # towards adding nothing (L2)
# A symptom that fewer runs show is not asked about, and the network has the word for what it speaks for (Likeness.cpp):
# hardly a tree asks about what is rare, and then it is told as if it had not been seen.
SEEN_IN = 30


def figures(case):
    """The shape of a case's run. Records from before reports had it carry the same figures for the baselines."""
    return case.get("shape") or case.get("features") or {}


def is_training(case):
    return "loss_end" in figures(case)


def outcome(case):
    """What a tree learns of a case: its class, `unknown` where none covers the fault, `healthy`."""
    label = case["label"]
    return UNKNOWN if label.get("class") == UNKNOWN or label.get("unknown") else label.get("class") or HEALTHY


def _number(value):
    return isinstance(value, (int, float)) and math.isfinite(value)


class Questions:
    """What may be asked: symptoms that some runs show, and figures of shapes with what stands for a missing one."""

    def __init__(self, cases, names):
        shown = {}
        for case in cases:
            for item in case["evidence"]:
                if item["state"] == "present":
                    shown[item["id"]] = shown.get(item["id"], 0) + 1
        self.symptoms = sorted(name for name, count in shown.items() if count >= SEEN_IN)
        self.shapes = []
        for name in names:
            known = [figures(c)[name] for c in cases if _number(figures(c).get(name))]
            if known:
                self.shapes.append((name, round(statistics.median(known), 6)))

    def answers(self, case):
        seen = {item["id"]: item.get("score", 1) for item in case["evidence"] if item["state"] == "present"}
        found = figures(case)
        return [seen.get(name, 0) for name in self.symptoms] + [
            found[name] if _number(found.get(name)) else missing for name, missing in self.shapes]


class Boosted:
    """Grown on cases; `names` are the figures that the program knows."""

    def __init__(self, cases, names):
        from sklearn.ensemble import HistGradientBoostingClassifier

        cases = [case for case in cases if is_training(case)]
        self.count = len(cases)
        self.questions = Questions(cases, names)
        self.model = HistGradientBoostingClassifier(max_iter=ROUNDS, learning_rate=STEP, max_leaf_nodes=LEAVES,
                                                    min_samples_leaf=LEAST, max_features=ASKED, l2_regularization=PULL,
                                                    early_stopping=False, random_state=1)
        self.model.fit([self.questions.answers(c) for c in cases], [outcome(c) for c in cases])
        self.classes = [str(c) for c in self.model.classes_]

    def shares(self, cases):
        """Class -> share for each of the cases; of what is no training run nothing."""
        asked = [case for case in cases if is_training(case)]
        found = iter(self.model.predict_proba([self.questions.answers(c) for c in asked]) if asked else ())
        return [dict(zip(self.classes, map(float, next(found)))) if is_training(case) else {} for case in cases]

    def lines(self):
        """The file, without its remarks."""
        out = [f"ask symptom {name}" for name in self.questions.symptoms]
        out += [f"ask shape {name} {missing:g}" for name, missing in self.questions.shapes]
        # Of two classes the library has trees for the second alone.
        starts = [float(v) for v in self.model._baseline_prediction.ravel()]
        places = range(len(starts)) if len(starts) > 1 else [1]
        starts = dict(zip(places, starts))
        out += [f"class {name} {starts.get(i, 0):.6g}" for i, name in enumerate(self.classes)]
        for round_ in self.model._predictors:
            for place, grown in zip(places, round_):
                nodes = grown.nodes
                if len(nodes) == 1 and nodes[0]["value"] == 0:
                    continue
                out.append(f"tree {place}")
                stack = [0]
                while stack:
                    node = nodes[stack.pop()]
                    if node["is_leaf"]:
                        out.append(f"= {node['value']:.4g} {node['count']}")
                    else:
                        out.append(f"{node['feature_idx']} {node['num_threshold']:.6g}")
                        stack += [int(node["right"]), int(node["left"])]
        return out
