"""What the next check is worth: the ranking before it, after it, and after a check picked without thought.

Of each fault of a training run the evidence from layers and tensors is hidden, as if neither had been recorded, and the
rest is ranked. The check that the report then names is made: something to record uncovers what was hidden of its kind;
an experiment on a cause is answered by the label, rightly, and takes the cause out where it is not the one. The rest is
ranked again. A check picked without thought is the mean over all that could be made: the experiment of every cause that
is listed, statistics of layers, and tensors. A right answer about a cause that is the one settles the case: rank 1.
"""

import dataclasses

from benchmark import estimates, evidence

# What can be hidden and recorded, with the words by which culprit knows its price.
KINDS = {"layers": "scalars.layer", "tensors": "tensors"}


@dataclasses.dataclass
class Value:
    """Figures of the cases in which the first ranking lists some cause."""
    asked: estimates.Estimate     # share of all faults with a check to make
    before: estimates.Estimate    # mean reciprocal rank
    after: estimates.Estimate
    any_check: estimates.Estimate
    first_before: estimates.Estimate   # top-1
    first_after: estimates.Estimate
    recordings: int               # checks that record something
    minutes: float                # mean price of the checks, as kb/ranking.yaml has it


def kinds_of(detector):
    """What a detector cannot do without, of tensors and layers; of either of both, layers, which cost less."""
    def kind(need):
        return "tensors" if need["table"] == "tensors" else "layers" if evidence.needs_layers(need) else None

    needs = detector["needs"]
    out = {kind(need) for need in needs["all"]}
    for group in needs["any_of"]:
        found = {kind(need) for need in group}
        if group and None not in found:
            out.add(min(found))
    return frozenset(out - {None})


def hidden(items, kinds, shown=()):
    """The evidence with what needs layers or tensors unknown, but for what needs no more than the kinds shown."""
    out = []
    for item in items:
        missing = kinds.get(item["detector"], frozenset()) - set(shown)
        if not missing or item["state"] == "unknown":
            out.append(item)
        else:
            out.append({"id": item["id"], "state": "unknown", "detector": item["detector"],
                        "needs": [KINDS[kind] for kind in sorted(missing)]})
    return out


def reciprocal(found, right):
    return next((1 / i for i, (name, _) in enumerate(found, 1) if name in right), 0.0)


def measure(records, program):
    """Value, or None where no ranking lists a cause."""
    kinds = {i: kinds_of(d) for i, d in evidence.detectors(program).items()}
    cases = [r for r in records if r.get("evidence") is not None and r["label"]["class"]
             and "loss_start" in r.get("features", ())]
    shapes = [evidence.without_layers(r.get("shape", {})) for r in cases]
    start = evidence.answers(program, [(hidden(r["evidence"], kinds), r["log_quotes"], shape, ())
                                       for r, shape in zip(cases, shapes)])
    asked = [(r, a) for r, a in zip(cases, start) if a["hypotheses"] and a["next_check"]]
    if not asked:
        return None

    # Every check that could be made of each case; the first is the one that was named.
    questions, outcomes = [], []
    for record, answer in asked:
        right = {record["label"]["class"], *record["label"]["also"]}
        listed = [h["class"] for h in answer["hypotheses"] if h["class"] != "unknown"]
        symptom = answer["next_check"]["records"]
        recorded = next((kinds.get(e["detector"], ()) for e in record["evidence"] if e["id"] == symptom), ())
        named = ("record", recorded) if symptom else ("ask", answer["next_check"]["class"])
        checks = [named, *(("ask", c) for c in listed), *(("record", {k}) for k in KINDS)]
        for how, what in checks:
            if how == "ask" and what in right:
                outcomes.append(None)  # settled
                continue
            outcomes.append(len(questions))
            shown = what if how == "record" else ()
            questions.append((hidden(record["evidence"], kinds, shown), record["log_quotes"],
                              evidence.without_layers(record.get("shape", {})),
                              () if how == "record" else (what,)))
    ranked = evidence.rank(program, questions)

    rows, at = [], 0
    for record, answer in asked:
        right = {record["label"]["class"], *record["label"]["also"]}
        listed = [h["class"] for h in answer["hypotheses"] if h["class"] != "unknown"]
        many = 1 + len(listed) + len(KINDS)
        scores = [1.0 if o is None else reciprocal(ranked[o], right) for o in outcomes[at:at + many]]
        at += many
        found = [(c, 0) for c in listed]
        rows.append((f"{record['label']['fault']} {record['label']['family']}", reciprocal(found, right), scores[0],
                     sum(scores[1:]) / (many - 1)))
    return Value(
        estimates.wilson(len(asked), len(cases)),
        *(estimates.mean((row[0], row[i]) for row in rows) for i in (1, 2, 3)),
        *(estimates.wilson(sum(row[i] == 1 for row in rows), len(rows)) for i in (1, 2)),
        sum(bool(a["next_check"]["records"]) for _, a in asked),
        sum(a["next_check"]["minutes"] for _, a in asked) / len(asked))
