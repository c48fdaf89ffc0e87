"""All figures of a set of records, and the report of `faultbench score`."""

import collections
import dataclasses
import pathlib

from benchmark import estimates, evidence, nextcheck, outcomes
from benchmark.baselines import Baselines, shuffled
from benchmark.outcomes import Told

CLASSES = pathlib.Path(__file__).resolve().parent.parent.parent / "kb" / "classes.tsv"

# (key, what, target, whether less is better)
TARGETS = (
    ("top1", "top-1", 0.80, False),
    ("top3", "top-3", 0.95, False),
    ("top1_full", "top-1, all columns recorded", None, False),
    ("top3_full", "top-3, all columns recorded", None, False),
    ("mrr", "mean reciprocal rank", None, False),
    ("alarms", "healthy runs accused at .5", 0.02, True),
    ("alarms_low", "healthy runs accused at .3", None, True),
    ("localised", "place named, numeric faults told right", 0.90, False),
    ("localised_all", "place named, all numeric faults", None, False),
    ("look_alikes", "look-alikes told apart", 0.85, False),
    ("ece", "expected calibration error, all causes", 0.05, True),
    ("ece_first", "expected calibration error, first cause", None, True),
    ("brier", "Brier score", None, True),
    ("abstention", "silent about unseen faults", 0.80, False),
    ("left_out", "silent when the true class is left out", None, False),
)


def layers_of_classes():
    rows = [line.split("\t") for line in CLASSES.read_text().splitlines() if "\t" in line]
    return {row[1]: row[0] for row in rows}


LAYERS = layers_of_classes()


def figures(tolds):
    numeric = [t for t in tolds if outcomes.is_numeric(t, LAYERS)]
    full = [t for t in tolds if not t.label["dropped"]]
    return {
        "top1": outcomes.top(tolds, 1), "top3": outcomes.top(tolds, 3),
        "top1_full": outcomes.top(full, 1), "top3_full": outcomes.top(full, 3), "mrr": outcomes.reciprocal_rank(tolds),
        "alarms": outcomes.alarms(tolds), "alarms_low": outcomes.alarms(tolds, outcomes.LOW_ALARM),
        "localised": outcomes.localised(numeric), "localised_all": outcomes.localised_of_all(numeric),
        "look_alikes": outcomes.look_alikes(tolds), "ece": outcomes.calibration(tolds),
        "ece_first": outcomes.calibration_of_first(tolds), "brier": outcomes.brier(tolds),
        "abstention": outcomes.abstention(tolds), "left_out": estimates.NONE,
    }


# A rule and a neighbour claim no probability, and no baseline names a place.
CLAIMED = ("top1", "top3", "top1_full", "top3_full", "mrr", "alarms", "look_alikes", "abstention")


@dataclasses.dataclass
class Scores:
    """A set of runs as culprit and the baselines see it."""
    records: list    # of runs
    pairs: list      # records of `culprit compare`
    tolds: list      # culprit's, a run each
    figures: dict    # of culprit
    others: dict     # baseline -> [Told]
    floors: dict     # baseline -> figures
    ablations: dict  # ablation -> figures
    agreement: float | None = None  # largest change of a probability when the saved evidence is ranked again
    left_out: list = dataclasses.field(default_factory=list)  # [Told] with the true class out of the knowledge base
    next_checks: nextcheck.Value | None = None


def taken_away(records, program):
    """{ablation: [Told]}, [Told with the true class left out], largest change of a probability on ranking the same."""
    lost = evidence.lost_detectors(evidence.detectors(program))
    usable = [r for r in records if r.get("evidence") is not None]
    names = [name for name, _ in evidence.ABLATIONS]
    questions = [(*evidence.ablate(r, name, lost[name]), ()) for name in names for r in usable]
    questions += [(r["evidence"], r["log_quotes"], r.get("shape", {}), ()) for r in usable]
    faulty = [r for r in usable if r["label"]["class"]]
    questions += [(r["evidence"], r["log_quotes"], r.get("shape", {}), (r["label"]["class"], *r["label"]["also"]))
                  for r in faulty]
    answers = evidence.rank(program, questions)
    told = [Told(r, a) for r, a in zip(usable * (len(names) + 1) + faulty, answers)]
    n = len(usable)
    change = 0.0
    for record, again in zip(usable, answers[len(names) * n:]):
        old = {h["class"]: h["probability"] for h in record["hypotheses"]}
        new = dict(again)
        change = max([change, *(abs(old.get(c, 0) - new.get(c, 0)) for c in old | new
                                if max(old.get(c, 0), new.get(c, 0)) > 2 * outcomes.LISTED)])
    return {name: told[i * n:(i + 1) * n] for i, name in enumerate(names)}, told[(len(names) + 1) * n:], change


def score(records, train=None, program=None):
    runs = [r for r in records if r["kind"] == "run"]
    tolds = [outcomes.ours(r) for r in runs]
    scores = Scores(runs, [r for r in records if r["kind"] == "pair"], tolds, figures(tolds), {}, {}, {})
    base = Baselines([r for r in train or records if r["kind"] == "run"])
    if len({r["label"]["family"] for r in base.train} | {r["label"]["family"] for r in runs}) > 1:
        scores.others = base.all(runs)
    for name, said in scores.others.items():
        scores.floors[name] = {key: value for key, value in figures(said).items() if key in CLAIMED}
    scores.floors["shuffled"] = shuffled(tolds)
    if program and evidence.can_rank(program):
        ablated, scores.left_out, scores.agreement = taken_away(runs, program)
        scores.ablations = {name: figures([t for t in said if t.trained] or said)
                            for name, said in {"everything": tolds, **ablated}.items()}
        scores.figures["left_out"] = estimates.share(not t.accused() for t in scores.left_out)
        scores.next_checks = nextcheck.measure(runs, program)
    return scores


def by(tolds, key):
    """(value, cases) by a field of the label, in order."""
    parts = {}
    for t in tolds:
        values = t.label["dropped"] or ["nothing"] if key == "dropped" else [t.label[key]]
        for value in values:
            parts.setdefault(value, []).append(t)
    return sorted(parts.items(), key=lambda part: str(part[0]))


def stand_ins(scores):
    """[((class, what was accused in its place), n)] where the true class was left out, most frequent first."""
    counts = collections.Counter((t.label["class"], t.called()) for t in scores.left_out if t.accused())
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def part_line(name, tolds):
    known, sound = outcomes.faults(tolds), outcomes.healthy(tolds)
    accused = sum(t.accused() for t in sound)
    return (f"  {name:22} {len(known):4} faults: top-1 {outcomes.top(tolds, 1).text()}, top-3 "
            f"{outcomes.top(tolds, 3).text()}, MRR {outcomes.reciprocal_rank(tolds).text()}; {len(sound)} healthy, "
            f"{accused} accused")


def report(records, train, args):
    """The text of `faultbench score`, and what is below the floors that were asked for."""
    s = score(records, train, args.program)
    f = s.figures
    lines = [f"{len(s.tolds)} runs: {len(outcomes.faults(s.tolds))} faults, {len(outcomes.healthy(s.tolds))} healthy, "
             f"{sum(t.unknown for t in s.tolds)} outside the knowledge base; {outcomes.failures(records)} failed"]
    others = [n for n in ("rules", "nearest", "prior", "shuffled") if n in s.floors]
    lines.append(f"{'':42} {'target':>8} {'culprit':24}" + "".join(f" {n:20}" for n in others))
    for key, what, target, less in TARGETS:
        wanted = "" if target is None else f"{'<=' if less else '>='} {target:.2f}"
        lines.append(f"{what:42} {wanted:>8} {f[key].text(3):24}" +
                     "".join(f" {s.floors[n].get(key, estimates.NONE).text():20}" for n in others))
    for part in ("layer", "step", "position"):
        exact, near, loose = (outcomes.localised(s.tolds, how, part) for how in range(3))
        lines.append(f"evidence names the {part}: exactly {exact.text()}, within one row {near.text()}, as check-cases "
                     f"asks {loose.text()} of {exact.n} told right")
    if s.pairs:
        right = estimates.share(p["right"] for p in s.pairs if not p["error"])
        lines.append(f"pairs against a reference: {right.text()} of {right.n} told right")
    for name, ablated in s.ablations.items():
        lines.append(f"{name}: top-1 {ablated['top1'].text()}, top-3 {ablated['top3'].text()}, healthy accused "
                     f"{ablated['alarms'].text()}, calibration error {ablated['ece'].text()}")
    for (name, other), n in stand_ins(s)[:20]:
        lines.append(f"without {name}, {other} is accused in its place: {n}")
    if s.agreement is not None:
        lines.append(f"ranking the saved evidence again changes no probability by more than {s.agreement:.4f}")
    if not args.quiet:
        for key in ("family", "level", "dialect", "interval", "dropped"):
            lines.append(f"by {key}:")
            lines += [part_line(str(value), part) for value, part in by(s.tolds, key)]
        lines.append("predicted against right, all causes listed:")
        for i, n, predicted, hits in estimates.reliability([j for t in s.tolds for j in t.judged()]):
            lines.append(f"  {i / 10:.1f} to {(i + 1) / 10:.1f}: {n:4} causes, predicted {predicted:.3f}, right "
                         f"{estimates.wilson(hits, n).text()}")
        missed = [t for t in s.tolds if not t.sound()]
        lines.append("missed:" if missed else "no run is missed")
        lines += [f"  {t.name}: {t.called()}; expected " +
                  ("silence" if t.unknown or t.healthy else f"{t.label['class']}, rank {t.rank}") for t in missed]
    problems = []
    if f["top1"].n and f["top1"].value < args.min_top1:
        problems.append(f"top-1 is {f['top1'].value:.3f}, not {args.min_top1} or more")
    if f["top3"].n and f["top3"].value < args.min_top3:
        problems.append(f"top-3 is {f['top3'].value:.3f}, not {args.min_top3} or more")
    accused = sum(t.accused() for t in outcomes.healthy(s.tolds))
    if accused > args.max_alarms:
        problems.append(f"{accused} healthy runs are accused, not {args.max_alarms} or fewer")
    return "\n".join(lines) + "\n", problems
