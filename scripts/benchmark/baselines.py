"""What a diagnosis by other means would have said of the same runs.

All that learns does so from the records it is given, never from runs of the family it is asked about: a case of the dev
set is told by the other families of that set.
"""

import random

from benchmark import estimates, neighbour, rules
from benchmark.outcomes import Told, faults

PERMUTATIONS = 200


def _runs(records):
    return [r for r in records if r["kind"] == "run" and not r["label"]["unknown"] and "features" in r]


class Learned:
    """Everything that the baselines take from labelled runs of some families."""

    def __init__(self, records):
        known = _runs(records)
        self.neighbour = neighbour.Neighbour([(r["features"], r["label"]["class"]) for r in known])
        counts, hits, shots = {}, {}, {}
        for r in known:
            name = r["label"]["class"] or neighbour.HEALTHY
            counts[name] = counts.get(name, 0) + 1
            right = {r["label"]["class"], *r["label"]["also"]}
            for rule in r["rules"]:
                shots[rule] = shots.get(rule, 0) + 1
                hits[rule] = hits.get(rule, 0) + bool(rules.CLASSES[rule] & right)
        self.prior = sorted(((n / len(known), c) for c, n in counts.items()), key=lambda pair: (-pair[0], pair[1]))
        # The rule that is right most often when it fires goes first.
        self.order = sorted(rules.CLASSES, key=lambda r: (-hits.get(r, 0) / shots.get(r, 1), r))


class Baselines:
    def __init__(self, train):
        self.train = train
        self.learned = {}

    def _of(self, record):
        family = record["label"]["family"]
        if family not in self.learned:
            self.learned[family] = Learned([r for r in self.train if r["label"].get("family") != family])
        return self.learned[family]

    def by_rules(self, record):
        order = self._of(record).order
        return Told(record, [(rules.CLASSES[r], 1.0) for r in order if r in record.get("rules", ())])

    def by_neighbour(self, record):
        """The nearest run is believed; the others come after it without a claim."""
        names = self._of(record).neighbour.rank(record.get("features", {}))
        return Told(record, [(n, 0.0 if i else 1.0) for i, n in enumerate(names)])

    def by_prior(self, record):
        return Told(record, [(c, p) for p, c in self._of(record).prior if c != neighbour.HEALTHY])

    def all(self, records):
        """Name -> what it said of each run."""
        return {"rules": [self.by_rules(r) for r in records], "nearest": [self.by_neighbour(r) for r in records],
                "prior": [self.by_prior(r) for r in records]}


def shuffled(tolds):
    """{top1, top3, mrr}: culprit's answers against labels that were dealt anew among the faults; the interval is that
    of the deals."""
    known = faults(tolds)
    draw = random.Random(estimates.SEED)
    figures = {"top1": [], "top3": [], "mrr": []}
    rights = [t.right for t in known]
    for _ in range(PERMUTATIONS if known else 0):
        draw.shuffle(rights)
        ranks = [next((i for i, (c, _) in enumerate(t.found, 1) if c & right), None) for t, right in zip(known, rights)]
        figures["top1"].append(sum(r == 1 for r in ranks) / len(known))
        figures["top3"].append(sum(r is not None and r <= 3 for r in ranks) / len(known))
        figures["mrr"].append(sum(1 / r for r in ranks if r) / len(known))
    return {name: estimates.Estimate(sum(v) / len(v), estimates.quantile(sorted(v), 0.025),
                                     estimates.quantile(sorted(v), 0.975), len(known)) if v else estimates.NONE
            for name, v in figures.items()}
