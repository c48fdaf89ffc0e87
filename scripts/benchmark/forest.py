"""The recorded runs as a forest of decision trees: kb/recorded-runs.txt (lib/Rank/RecordedRuns.h reads it).

Each tree asks of a run which symptoms are there, how sure, and how its curves go (the report's `shape`), and tells
from the recorded runs that answer alike what it had. Extremely randomised trees (Geurts, Ernst, Wehenkel 2006): of
some questions drawn by lot, with thresholds drawn by lot, the best is asked, so that no single run decides much. Which
files a run left behind says nothing of its fault and must not be asked: a symptom that nobody could look for counts as
one that is not there, and a figure that is missing as the median.

Needs scikit-learn (Debian: python3-sklearn), which the program does not.
"""

import math
import statistics

HEALTHY, UNKNOWN = "healthy", "unknown"

TREES = 80
LEAST = 4            # runs at the end of a branch
ASKED = 0.1          # share of the questions that a branch chooses from
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


class Forest:
    """Grown on cases; `names` are the figures that the program knows."""

    def __init__(self, cases, names, trees=TREES):
        from sklearn.ensemble import ExtraTreesClassifier

        cases = [case for case in cases if is_training(case)]
        self.count = len(cases)
        self.questions = Questions(cases, names)
        self.model = ExtraTreesClassifier(n_estimators=trees, criterion="entropy", max_features=ASKED,
                                          min_samples_leaf=LEAST, random_state=1)
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
        out += [f"class {name}" for name in self.classes]
        for estimator in self.model.estimators_:
            out.append("tree")
            tree = estimator.tree_
            # The library keeps shares in newer versions and counts in older ones.
            stack = [0]
            while stack:
                node = stack.pop()
                if tree.children_left[node] < 0:
                    counts = tree.value[node][0]
                    whole = tree.n_node_samples[node] / counts.sum()
                    out.append("= " + " ".join(f"{i}*{round(v * whole)}" for i, v in enumerate(counts) if v > 0))
                else:
                    out.append(f"{tree.feature[node]} {tree.threshold[node]:.6g}")
                    stack += [tree.children_right[node], tree.children_left[node]]
        return out
