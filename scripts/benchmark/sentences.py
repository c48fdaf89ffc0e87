"""The sentences of docs/accuracy.md, each said only where the figures say it."""

import textwrap

from benchmark import estimates, outcomes, scoring
from benchmark.outcomes import faults, healthy


def counted(n, one, many=None):
    return f"{n} {one if n == 1 else many or one + 's'}"


def listed(words, most=12):
    words = list(words)
    more = len(words) - most
    words = words[:most] + ([f"{more} more"] if more > 0 else [])
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def last(scores):
    """(role, scores) of the set that the page is about."""
    return list(scores.items())[-1]


def sets(scores, first_reading=False):
    """The sets. That the held-out one is a first reading no record shows: whoever has the page written says it."""
    out = []
    for role, s in scores.items():
        sound = len(healthy(s.tolds))
        families = {t.label["family"] for t in s.tolds}
        classes = {t.label["class"] for t in faults(s.tolds)}
        out.append(f"The {role} set has {counted(len(s.tolds), 'run')} of "
                   f"{counted(len(families), 'family', 'families')}: "
                   f"{counted(len(faults(s.tolds)), 'fault')} of {counted(len(classes), 'class', 'classes')}, "
                   f"{sound} healthy ({sound / max(1, len(s.tolds)):.0%}), "
                   f"{sum(t.unknown for t in s.tolds)} whose fault no class covers.")
    families = sorted({t.label["family"] for t in last(scores)[1].tolds})
    if "held out" in scores:
        known = {t.label["family"] for t in scores["dev"].tolds}
        seen = [f for f in families if f in known]
        out.append("Detectors, weights and entries were made and fitted on the dev families (kb/fitted.yaml has the "
                   "number of cases), and their misses were read. The recorded runs that have a say in the ranking "
                   "(kb/recorded-runs.txt) are those of dev: its columns say how well the known is kept, and not how "
                   "well anything carries.")
        out.append("The held-out set was told once, when no diagnosis of a run of its families had been seen; what was "
                   "mended for it since (fault-cases.md) is not in these figures." if first_reading else
                   "These runs were read before: the figures are of a set that was worked on.")
        if seen:
            out.append(f"Of the held-out set {listed(seen)} "
                       f"{'is a dev family' if len(seen) == 1 else 'are dev families'}, with seeds of its "
                       "own: new runs of known models, and no proof for others.")
    else:
        out.append("Detectors, weights and entries were made and fitted on these families, and their misses were read: "
                   "these figures say how well the known is told, and too much of what is new.")
    failed = sum(outcomes.failures(s.records) for s in scores.values())
    if failed:
        out.append(f"{counted(failed, 'run')} could not be diagnosed in full; they count as what was said of them.")
    return wrap(" ".join(out))


def targets(scores):
    role, s = last(scores)
    met, near, missed = [], [], []
    for key, what, target, less in scoring.TARGETS:
        f = s.figures[key]
        if target is None or not f.n:
            continue
        good = f.value <= target if less else f.value >= target
        sure = f.high <= target if less else f.low >= target
        words = f"{what} ({f.text().split(' ')[0]}, target {target:.2f})"
        (met if good and sure else near if good else missed).append(words)
    out = []
    if met:
        out.append(f"Met with the whole interval on the {role} set: {listed(met)}.")
    if near:
        out.append(f"Met, but the interval reaches beyond the target: {listed(near)}.")
    if missed:
        out.append(f"Missed: {listed(missed)}.")
    if "held out" in scores:
        a, b = scores["dev"].figures["top1"], s.figures["top1"]
        gap = a.value - b.value
        out.append(f"From dev to held out top-1 {'falls' if gap > 0 else 'rises'} by {abs(gap):.2f}" +
                   (", within the intervals." if b.high >= a.low and a.high >= b.low else
                    ", more than the intervals explain."))
    return wrap(" ".join(out))


def baselines(scores):
    role, s = last(scores)
    if not s.others:
        return ""
    out = []
    known = [i for i, t in enumerate(s.tolds) if t.fault]
    for name, words in (("rules", "The rules"), ("nearest", "The nearest neighbour")):
        said = s.others[name]
        only = sum(said[i].first() and not s.tolds[i].first() for i in known)
        beyond = sum(s.tolds[i].first() and not said[i].first() for i in known)
        accused = sum(t.accused() for t in healthy(said))
        out.append(f"{words} tell {sum(said[i].first() for i in known)} of {len(known)} faults of the {role} set"
                   if name == "rules" else
                   f"{words} tells {sum(said[i].first() for i in known)} of {len(known)}")
        out[-1] += (f" and {'accuse' if name == 'rules' else 'accuses'} {accused} of {len(healthy(said))} healthy "
                    "runs; "
                    f"{beyond} faults are told by culprit only, {only} by {'them' if name == 'rules' else 'it'} only.")
    return wrap(" ".join(out))


def easy_and_hard(scores):
    role, s = last(scores)
    known = [i for i, t in enumerate(s.tolds) if t.fault]
    out = []
    if s.others:
        by_any = [i for i in known if any(s.others[n][i].first() for n in ("rules", "nearest"))]
        rest = [i for i in known if i not in set(by_any)]
        right = sum(s.tolds[i].first() for i in rest)
        out.append(f"Easy: {len(by_any)} of {len(known)} faults of the {role} set are told by the rules or the nearest "
                   f"neighbour as well. Of the other {len(rest)} culprit tells {right} "
                   f"({right / max(1, len(rest)):.2f}); this is what it adds.")
    parts = {}
    for t in faults(s.tolds):
        parts.setdefault(t.label["fault"], []).append(t)
    share = {f: sum(t.first() for t in part) / len(part) for f, part in parts.items()}
    whole = [f for f in sorted(share) if share[f] == 1]
    hard = sorted((f for f in share if share[f] < 0.5), key=lambda f: (share[f], f))
    out.append(f"{len(whole)} of {len(share)} faults are told in every case.")
    if hard:
        out.append("Hard, told in fewer than half of the cases: " +
                   listed([f"{f} {parts[f][0].label['class']} ({sum(t.first() for t in parts[f])} of {len(parts[f])})"
                           for f in hard]) + ".")
    mild = [t for t in faults(s.tolds) if t.label["level"] == 0 and not t.label["dropped"]]
    strong = [t for t in faults(s.tolds) if t.label["level"] == 2 and not t.label["dropped"]]
    if mild and strong:
        out.append(f"The mildest severity is told in {outcomes.top(mild, 1).text()} of the cases, the strongest in "
                   f"{outcomes.top(strong, 1).text()}.")
    return wrap(" ".join(out))


def misses(scores):
    out = []
    for role, s in reversed(scores.items()):
        missed = [t for t in faults(s.tolds) if not t.first()]
        silent = sum(not t.accused() for t in missed)
        second = sum(t.rank is not None and t.rank <= 3 for t in missed)
        if missed:
            wrong = len(missed) - silent
            out.append(f"{counted(len(missed), 'fault')} of the {role} set {'is' if len(missed) == 1 else 'are'} "
                       f"missed: of {silent} no cause reaches .5, of {wrong} a wrong one does; of {second} the right "
                       "one is second or third.")
    return wrap(" ".join(out))


def inputs(scores):
    role, s = last(scores)
    out = []
    if s.ablations:
        quoting = sum(bool(r.get("log_quotes")) for r in s.records)
        out.append("No run has a log line that quotes an entry: these runs say nothing of what that text is worth."
                   if not quoting else
                   f"{quoting} of the {len(s.records)} runs have log lines that quote an entry.")
    for dropped, part in scoring.by(faults(s.tolds), "dropped"):
        if dropped != "nothing" and len(part) >= 3:
            silent = sum(not t.first() and not t.accused() for t in part)
            told = sum(t.first() for t in part)
            out.append(f"Without {dropped.replace('_', ' ')} {told} of {len(part)} faults are told" +
                       (f"; of {silent} nothing is accused." if silent else "."))
    return wrap(" ".join(out))


def calibration(scores):
    out = []
    for role, s in reversed(scores.items()):
        judged = [j for t in s.tolds for j in t.judged()]
        high = [j for j in judged if j[0] >= 0.5]
        if not high:
            continue
        predicted, right = sum(p for p, _ in high) / len(high), sum(r for _, r in high) / len(high)
        gap = predicted - right
        word = "is about as often right as it says" if abs(gap) < 0.03 else \
            "claims more than it keeps" if gap > 0 else "is right more often than it says"
        out.append(f"On the {role} set, of causes at .5 or more, culprit {word}: {predicted:.2f} on average, "
                   f"{right:.2f} right.")
        by_chance, most = estimates.calibration_floor(p for p, _ in judged)
        out.append(f"Perfect probabilities would show a calibration error of {by_chance:.2f} (up to {most:.2f}) by "
                   "chance, on as many causes.")
    return wrap(" ".join(out))


def again(scores, first_reading=False):
    held = "held out" in scores
    lines = ["    scripts/faultbench make DIR --seed N --what runs served      # PyTorch on the CPU",
             "    scripts/faultbench run build/bin/culprit DIR/runs DIR/served --out dev.jsonl",
             f"    scripts/faultbench report dev.jsonl {'heldout.jsonl ' if held else ''}--program build/bin/culprit" +
             (" --first-reading" if first_reading else "")]
    return "\n" + "\n".join(lines) + "\n\n" + wrap(
        "A set whose misses were read is a dev set from then on: a new claim needs a new seed, better a new family.")


def wrap(text, width=120):
    """Lines of at most `width`, broken at spaces."""
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False) + "\n"
