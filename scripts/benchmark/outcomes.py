"""How a diagnosis came out against its label: the same for culprit and for every baseline."""

from benchmark import estimates
from benchmark.cases import check_cases
from benchmark.neighbour import HEALTHY

ALARM = 0.5
LOW_ALARM = 0.3
LISTED = 0.05  # probability from which culprit lists a cause


class Told:
    """One case and the causes that were named, best first: [(names, probability)], where a baseline may name several
    classes at once and be right with any of them. HEALTHY among them is no accusation, and takes its place."""

    def __init__(self, record, found, located=None):
        self.label = label = record["label"]
        self.name = f"{record['set']}/{record['name']}"
        self.found = [(frozenset([c]) if isinstance(c, str) else frozenset(c), p) for c, p in found]
        self.unknown = label["unknown"]
        self.healthy = label["class"] is None and not self.unknown
        self.fault = not self.healthy and not self.unknown
        self.right = frozenset({label["class"], *label["also"]} - {None}) if self.fault else frozenset()
        self.rank = next((i for i, (c, _) in enumerate(self.found, 1) if c & self.right), None)
        self.located = located or {}
        # A training run, not a served model, a cache or lines of a log.
        self.trained = "loss_start" in record.get("features", ()) and label["dialect"] != "log"
        self.cluster = f"{label['fault']} {label['family']}"

    def first(self):
        return self.rank == 1

    def accused(self, at=ALARM):
        return any(p >= at and HEALTHY not in c for c, p in self.found)

    def sound(self):
        """Told right: a fault by its cause, anything else by silence."""
        return self.first() if self.fault else not self.accused()

    def called(self):
        """The first cause in words."""
        if not self.found or HEALTHY in self.found[0][0]:
            return "nothing"
        return "/".join(sorted(self.found[0][0])) + ("" if self.found[0][1] >= ALARM else " (below .5)")

    def judged(self):
        """(probability, right) of every cause that is listed."""
        return [(p, bool(c & self.right)) for c, p in self.found if p >= LISTED and HEALTHY not in c]

    def brier(self):
        """Squared error over the causes: 0 is right and sure of it; 1 is silence about a fault, or a sure accusation
        that is wrong, and 2 both."""
        wrong = sum(p * p for p, right in self.judged() if not right)
        if not self.fault:
            return wrong
        return wrong + (1 - max((p for p, right in self.judged() if right), default=0)) ** 2


def ours(record):
    """culprit's own diagnosis of a record."""
    found = [h for h in record.get("hypotheses") or [] if h["class"] != "unknown"]
    told = Told(record, [(h["class"], h["probability"]) for h in found])
    if told.rank:
        told.located = found[told.rank - 1]["located"]
    return told


def faults(tolds):
    return [t for t in tolds if t.fault]


def healthy(tolds):
    return [t for t in tolds if t.healthy]


def top(tolds, k):
    return estimates.share(t.rank is not None and t.rank <= k for t in faults(tolds))


def reciprocal_rank(tolds):
    return estimates.mean((t.cluster, 1 / t.rank if t.rank else 0.0) for t in faults(tolds))


def alarms(tolds, at=ALARM):
    """Share of the healthy runs in which some cause reaches `at`."""
    return estimates.share(t.accused(at) for t in healthy(tolds))


def brier(tolds):
    return estimates.mean((t.cluster, t.brier()) for t in tolds)


def calibration(tolds):
    """Over all listed causes of all runs."""
    return estimates.calibration_error((t.cluster, p, right) for t in tolds for p, right in t.judged())


def calibration_of_first(tolds):
    return estimates.calibration_error((t.cluster, *t.judged()[0]) for t in tolds if t.judged())


def abstention(tolds):
    """Share of the faults outside the knowledge base of which no cause is accused."""
    return estimates.share(not t.accused() for t in tolds if t.unknown)


def pairs(tolds):
    """(what, one's cases, other's cases) of the look-alike pairs of which both sides are there."""
    for what, ones, others in check_cases.LOOK_ALIKES:
        sides = [[t for t in tolds if t.label["fault"] in ids] for ids in (ones, others)]
        if all(sides):
            yield what, sides[0], sides[1]


def look_alikes(tolds):
    """Share of the cases on either side of a pair that are told right; a case of two pairs counts in both."""
    return estimates.share(t.sound() for _, one, other in pairs(tolds) for t in one + other)


def is_numeric(told, layer_of_class):
    """A fault of numbers: of the layer numerics, or one whose label names the layer of the model where it sits."""
    return told.fault and (told.label["layer"] is not None or layer_of_class.get(told.label["class"]) == "numerics")


EXACT, NEAR, LOOSE = range(3)


def localised(tolds, how=NEAR, part=None):
    """Share of the faults told right whose evidence names every place that the label names (or one part of it: layer,
    step, position)."""
    known = [t.located for t in tolds if t.first() and t.located and (part is None or part in t.located)]
    return estimates.share(all(where[how] for name, where in met.items() if part in (None, name)) for met in known)


def localised_of_all(tolds, how=NEAR):
    """The same over all faults whose label names a place: a cause that is missed is not located."""
    known = [t for t in faults(tolds) if t.label["layer"] or t.label["step"] is not None or t.label.get("tokens")]
    return estimates.share(t.first() and t.located and all(m[how] for m in t.located.values()) for t in known)


def failures(records):
    return sum(bool(r.get("error")) for r in records)
