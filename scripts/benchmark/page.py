"""docs/accuracy.md: every figure of the page and every sentence that depends on one comes from the records."""

import collections

from benchmark import drawing, estimates, evidence, outcomes, scoring, sentences
from benchmark.outcomes import faults, healthy

HEAD = """# Accuracy

How often culprit names the right cause of runs whose fault is known, how sure it is, and how simpler means do on the
same runs. `scripts/faultbench` makes this page from recorded diagnoses; do not edit it.

Each case is a run of a small model on a CPU with one fault, or none, and holds what such a run leaves behind: a log
in the style of one of the field's loggers, metrics, statistics of layers, dumps, config; of a served model requests
and server logs. The label lies outside what culprit reads. [fault-cases.md](fault-cases.md) says what each fault is
and how it is injected. Small models are no large ones: the figures say how well causes are told apart by what runs
record, not how often your run will be told right.

Every figure stands with its 95 % interval: of shares Wilson's, which takes the cases as independent; of means and
calibration errors a bootstrap over fault and family, since cases of one fault in one family resemble each other.
"""

MEANING = """
- **top-1, top-3**: share of the faults whose class, or one that the label accepts as well, is the first, or among the
  first three causes. **Mean reciprocal rank**: 1 for first, 1/2 for second, 0 for a cause that is not listed.
  **All columns recorded**: without the cases that are recorded once more without statistics of layers or without the
  gradient norm. What shows in those alone is then in no file, and silence is all that is left to say.
- **accused**: a healthy run, or one with a fault that no class covers, in which a cause reaches the probability.
- **place named**: of numeric faults (class of the layer numerics, or a label that names a layer of the model) the
  evidence names the layer or a part of it (for an activation, its module), the step within one logged row and the
  position within one token, as far as the label has them.
- **look-alikes**: cases on either side of a pair that a naive rule confuses, told right; silence is right for a
  healthy one.
- **calibration error**: how far the share right is from the probability, over ten bins, weighted by causes. Chance
  alone makes it larger than 0, and resampling makes it larger still, so that its interval lies high.
- **Brier score**: squared error over all causes of a run; 0 is right and sure, 1 is silence about a fault.
- **silent about unseen faults**: no cause reaches .5 where no class covers the fault; **when the true class is left
  out**: the same, with the entries of the right class taken out of the knowledge base.
"""

BASELINES = """## Baselines

- **rules**: the rules of SageMaker Debugger with their published thresholds. They name sights, so that each gets all
  classes that may look like it and is right with any of them; those that fire are ordered by how often they are right
  on the dev families; `scripts/benchmark/rules.py` has all of it. No probability, so that any rule that fires on a
  healthy run accuses.
- **nearest**: the class of the most similar labelled run, by {features} scale-free features of loss, gradients, rate,
  updates, activations and requests. It has seen all dev runs but those of the same family.
- **prior**: the classes by how frequent they are among the dev runs, whatever the run looks like.
- **shuffled**: culprit's own answers against labels dealt anew among the faults: what agreement by chance amounts to.
"""


def table(head, rows, left=1):
    """A markdown table; the first `left` columns are text, the others numbers."""
    out = [f"| {' | '.join(head)} |", "|" + "---|" * left + "--:|" * (len(head) - left)]
    return "\n".join(out + [f"| {' | '.join(map(str, row))} |" for row in rows]) + "\n"


def last(scores):
    """Of the set that the page is about."""
    return list(scores.values())[-1]


def sets(scores):
    rows = []
    for role, s in scores.items():
        for family, part in scoring.by(s.tolds, "family"):
            known = faults(part)
            rows.append((role, family, len(part), len(known), len({t.label["class"] for t in known}),
                         len(healthy(part)), sum(t.unknown for t in part), len({t.label["dialect"] for t in part})))
    return table(("set", "family", "runs", "faults", "of classes", "healthy", "unseen faults", "loggers"), rows, 2)


def targets(scores):
    main = list(scores)[-1]
    names = [n for n in ("rules", "nearest", "prior", "shuffled") if n in scores[main].floors]
    rows = []
    for key, what, target, less in scoring.TARGETS:
        wanted = "" if target is None else f"{'at most' if less else 'at least'} {target:.2f}"
        values = [scores[role].figures[key] for role in reversed(scores)]
        if not any(v.n for v in values):
            continue
        rows.append((what, wanted, *(v.text() for v in values),
                     *(scores[main].floors[n].get(key, estimates.NONE).text().split(" ")[0] for n in names)))
    return table(("figure", "target", *reversed(scores), *(f"{n}, {main}" for n in names)), rows)


def by_layer(scores):
    rows = []
    s = last(scores)
    layers = collections.defaultdict(list)
    for i, t in enumerate(s.tolds):
        if t.fault:
            layers[scoring.LAYERS.get(t.label["class"], "?")].append(i)
    for layer, places in sorted(layers.items()):
        part = [s.tolds[i] for i in places]
        others = [f"{sum(s.others[n][i].first() for i in places) / len(places):.2f}" for n in ("rules", "nearest")
                  if n in s.others]
        rows.append((layer, len(part), outcomes.top(part, 1).text(), outcomes.top(part, 3).text(), *others))
    heads = [f"{n}, top-1" for n in ("rules", "nearest") if n in s.others]
    return table(("layer", "faults", "top-1", "top-3", *heads), rows)


def name_of(told):
    return told.label["class"] or ("(unseen)" if told.unknown else "(healthy)")


def by_fault(scores):
    """Right of all, by fault; a healthy run is right when it is not accused."""
    rows = []
    for fault in sorted({t.label["fault"] for s in scores.values() for t in s.tolds}):
        cells, names = [], set()
        for s in reversed(scores.values()):
            places = [i for i, t in enumerate(s.tolds) if t.label["fault"] == fault]
            names |= {name_of(s.tolds[i]) for i in places}
            for said in (s.tolds, *(s.others[n] for n in ("rules", "nearest") if n in s.others)):
                cells.append(f"{sum(said[i].sound() for i in places)}/{len(places)}" if places else "")
        rows.append((fault, " or ".join(sorted(names)), *cells))
    said = [n for n in ("rules", "nearest") if n in last(scores).others]
    head = [f"{role}{tail}" for role in reversed(scores) for tail in ("", *(f", {n}" for n in said))]
    return table(("fault", "class", *head), rows, 2)


def confusions(scores):
    """What the cases that were missed were called instead."""
    rows = []
    for role, s in reversed(scores.items()):
        called = collections.defaultdict(collections.Counter)
        for t in s.tolds:
            if not t.sound():
                called[t.label["fault"], name_of(t)][t.called()] += 1
        for (fault, name), counts in sorted(called.items()):
            every = sum(t.label["fault"] == fault for t in s.tolds)
            words = [f"{c} {n}" if n > 1 else c for c, n in sorted(counts.items(), key=lambda c: (-c[1], c[0]))]
            rows.append((role, fault, name, f"{sum(counts.values())} of {every}", ", ".join(words)))
    return table(("set", "fault", "class", "missed", "called"), rows, 5) if rows else "No run was missed.\n"


def look_alikes(scores):
    rows = []
    s = last(scores)
    for what, one, other in outcomes.pairs(s.tolds):
        sides = [f"{sum(t.sound() for t in side)}/{len(side)}" for side in (one, other)]
        ids = ["+".join(sorted({t.label["fault"] for t in side})) for side in (one, other)]
        rows.append((what, f"{ids[0]} {sides[0]}", f"{ids[1]} {sides[1]}"))
    return table(("look-alikes", "one", "other"), rows) if rows else ""


def parts(scores, keys):
    s = last(scores)
    rows = []
    for key, words in keys:
        for value, part in scoring.by(s.tolds, key):
            if value is None:  # the first cases have no severity, served models no steps
                continue
            if key == "level":  # a missing column is a matter of its own
                part = [t for t in part if not t.label["dropped"]]
            known, sound = faults(part), healthy(part)
            if part:
                rows.append((words.format(value), len(known), outcomes.top(part, 1).text(),
                             outcomes.top(part, 3).text(), len(sound), sum(t.accused() for t in sound)))
    return table(("runs", "faults", "top-1", "top-3", "healthy", "accused"), rows)


def ablations(scores):
    s = last(scores)
    if not s.ablations:
        return ""
    words = {"everything": "", **dict(evidence.ABLATIONS)}
    rows = [(name, words[name], f["top1"].text(), f["top3"].text(), f["alarms"].text(), f["ece"].text())
            for name, f in s.ablations.items()]
    return ("\nEvidence taken away from the training runs, and the rest ranked again:\n\n" +
            table(("left", "meaning", "top-1", "top-3", "healthy accused", "calibration error"), rows, 2))


def stand_ins(scores):
    """What is accused when the entries of the true class are not there."""
    found = scoring.stand_ins(last(scores))
    if not found:
        return ""
    return ("\nWith the true class left out of the knowledge base these stand in for it most often:\n\n" +
            table(("class", "accused in its place", "runs"), [(a, b, n) for (a, b), n in found[:15]], 2))


def next_checks(scores):
    """What following the `next` line is worth."""
    rows = [(role, v.asked.text(), v.before.text(), v.after.text(), v.any_check.text(), v.first_before.text(),
             v.first_after.text(), f"{v.recordings / v.before.n:.2f}", f"{v.minutes:.0f}")
            for role, s in reversed(scores.items()) if (v := s.next_checks)]
    if not rows:
        return ""
    return ("\n## The next check\n\nLayers and tensors are hidden, the rest is ranked, and the check of the report's "
            "next line is made: a recording\nuncovers what it is of, an experiment on a cause is answered by the label. "
            "*Picked without thought* is the mean over all\nchecks that could be made.\n\n" +
            table(("set", "faults with a next check", "reciprocal rank before", "after it", "picked without thought",
                   "top-1 before", "top-1 after", "recordings", "minutes"), rows))


def places(scores):
    rows = []
    for role, s in reversed(scores.items()):
        for part in ("layer", "step", "position"):
            exact, near = (outcomes.localised(s.tolds, how, part) for how in (outcomes.EXACT, outcomes.NEAR))
            if exact.n:
                rows.append((role, part, exact.n, exact.text(), near.text()))
    return table(("set", "what", "faults told right", "exactly", "within one row, part or token"), rows, 2)


def reliability(scores):
    rows = []
    curves = {role: estimates.reliability([j for t in s.tolds for j in t.judged()]) for role, s in scores.items()}
    for role, bins in reversed(curves.items()):
        for i, n, predicted, hits in bins:
            right = estimates.wilson(hits, n).text()
            rows.append((role, f"{i / 10:.1f} to {(i + 1) / 10:.1f}", n, f"{predicted:.2f}", right))
    return table(("set", "probability", "causes", "mean probability", "right"), rows, 2), drawing.reliability(curves)


def reference_pairs(scores):
    rows = [(role, right.n, right.text()) for role, s in reversed(scores.items())
            for right in [estimates.share(p.get("right") for p in s.pairs)] if right.n]
    if not rows:
        return ""
    return ("\n## Against a reference\n\nFaults of formulation and of samplers are told by `culprit compare` on "
            "dumps of both sides; such pairs have no ranking.\n\n" +
            table(("set", "pairs", "told right"), rows))


EXCERPTS = """
## Log lines alone

Of `test/logs/excerpts.jsonl`: one to twelve lines that people pasted into public threads, and the cause that the thread
established; nothing else is there to read. Entries and detectors were mended by one half. The other was drawn before;
its author had read both, so that it measures wording and ranking, not memory of causes. When it was read first the
right cause came first in 0.85 of its faults (0.31 without the text of the knowledge base) and nothing was accused where
there was nothing. Since then the weight of a quote was set by how often quotes of both halves were right, and one entry
lost a fragment that it shared with sound runs: neither half is held out any more.

"""


def log_excerpts(records, program):
    """A row a half, with the text of the knowledge base and without."""
    rows = []
    for family in ("logs-held-out", "logs-dev"):
        part = [r for r in records if r["label"]["family"] == family]
        if not part:
            continue
        s = scoring.score(part, None, program)
        for name, f in {"everything": s.figures, **{k: v for k, v in s.ablations.items() if "text" in k}}.items():
            rows.append(("that mended" if family == "logs-dev" else "the other", name, f["top1"].n, f["top1"].text(),
                         f["top3"].text(), f["alarms"].text(), f["abstention"].text()))
    return EXCERPTS + table(("half", "evidence", "faults", "top-1", "top-3", "healthy accused",
                             "silent about unseen faults"), rows, 2) if rows else ""


def write(dev, heldout=None, program=None, excerpts=(), first_reading=False):
    """(page, diagram). The held-out set, if there is one, is what the page is about; the dev set is beside it, and is
    not ranked anew: the recorded runs know its cases."""
    scores = {"dev": scoring.score(dev, None, None if heldout else program)}
    if heldout:
        scores["held out"] = scoring.score(heldout, dev, program)
    tables, diagram = reliability(scores)
    known = {n for s in scores.values() for r in s.records for n in r.get("features", ())}
    out = [HEAD, "\n## The sets\n", sentences.sets(scores, first_reading), sets(scores),
           "\n## Targets and figures\n", targets(scores), sentences.targets(scores), MEANING,
           BASELINES.format(features=len(known)), sentences.baselines(scores),
           "\n## By layer of the cause\n", by_layer(scores),
           "\n## What is easy and what is hard\n", sentences.easy_and_hard(scores),
           "\n## By fault\n", "Told right of all; a healthy run or an unseen fault is right when nothing is accused.\n",
           by_fault(scores), "\n## What the misses were called\n", sentences.misses(scores), confusions(scores),
           stand_ins(scores), "\n## Look-alikes\n", look_alikes(scores) or "No pair has both sides in the set.\n",
           "\n## Families, severity, loggers, missing inputs\n",
           parts(scores, (("family", "family {}"), ("level", "severity {}, nothing missing"), ("dialect", "log of {}"),
                          ("interval", "logged every {}"), ("dropped", "missing: {}"))),
           ablations(scores), sentences.inputs(scores), next_checks(scores), "\n## Where\n", places(scores),
           reference_pairs(scores), log_excerpts(excerpts, program),
           "\n## Reliability\n", "![Predicted probability against the share right](accuracy.svg)\n",
           sentences.calibration(scores), tables, "\n## Again\n", sentences.again(scores, first_reading)]
    text = "\n".join(part.strip("\n") if part.startswith("|") else part.rstrip("\n") for part in out if part)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return space_tables(text) + "\n", diagram


def kind(line):
    """Of what a line is: | a table, - a list, # a heading, ! a picture, p a paragraph."""
    return "-" if line.startswith(("- ", "  ")) else line[0] if line[:1] in ("|", "#", "!") else "p"


def space_tables(text):
    """An empty line around tables, lists, pictures and headings."""
    out = []
    for line in text.splitlines():
        before = out[-1] if out else ""
        kinds = [kind(before), kind(line)]
        if before and line and (kinds[0] != kinds[1] or kinds[1] in "#!"):
            out.append("")
        out.append(line)
        if line.startswith("#"):
            out.append("")
    return "\n".join(l for i, l in enumerate(out) if l or i and out[i - 1])
