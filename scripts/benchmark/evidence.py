"""What the ranking saw of a run, taking parts of it away, and ranking it again.

The report of `culprit diagnose --format json` lists the state of every symptom in `evidence` and the quoted log lines
in `log_quotes`. An ablation turns evidence of some detectors into "unknown", as if their input had not been recorded,
and has `culprit rank` judge what is left. What a detector needs comes from `culprit list detectors --format json`; of
one that can do with either of two inputs the evidence stays while one of the two does.
"""

import json
import os
import re
import subprocess
import tempfile

# Metrics that only statistics of layers can give, whatever the column says.
LAYER_METRICS = {"activation_rms", "activation_max", "activation_mean", "zero_share", "saturated_share",
                 "max_attention_logit", "attention_entropy_share", "grad_cosine"}

ABLATIONS = (
    ("no text of the knowledge base", "quoted log lines do not count"),
    ("no tensors, no layers", "only metrics of the whole model, config, logs, requests"),
    ("metrics only", "only what comes of logged scalars of the whole model"),
)


def detectors(program):
    done = subprocess.run([program, "list", "detectors", "--format", "json"], capture_output=True, text=True,
                          check=True)
    return {d["id"]: d for d in json.loads(done.stdout)}


def needs_layers(need):
    return need["table"] == "tensors" or need["table"] == "scalars" and (
        "layer" in need["columns"] or bool(set(need["rows"].get("metric", ())) & LAYER_METRICS))


def _needs_more_than_metrics(need):
    return need["table"] != "scalars" or needs_layers(need)


def _lost(detector, taken):
    needs = detector["needs"]
    return any(map(taken, needs["all"])) or any(group and all(map(taken, group)) for group in needs["any_of"])


_TAKEN = {"no tensors, no layers": needs_layers, "metrics only": _needs_more_than_metrics}


def loses(detector, ablation):
    """Whether an ablation takes the evidence of a detector away."""
    return ablation in _TAKEN and _lost(detector, _TAKEN[ablation])


def lost_detectors(known):
    """Ablation -> ids of the detectors whose evidence it takes away."""
    return {name: {i for i, d in known.items() if loses(d, name)} for name, _ in ABLATIONS}


def shape_figures():
    """Figure of a run's shape -> whether statistics of layers give it, as lib/Case/RunShape.def lists them."""
    path = os.path.join(os.path.dirname(__file__), "..", "..", "lib", "Case", "RunShape.def")
    with open(path, encoding="utf-8") as file:
        return {name: bool(layer) for layer, name in re.findall(r"^(LAYER_)?SHAPE\((\w+)", file.read(), re.MULTILINE)}


def without_layers(shape):
    of_layers = shape_figures()
    return {name: value for name, value in shape.items() if not of_layers.get(name)}


def ablate(record, ablation, lost):
    """(evidence, log quotes, shape) of a record that are left."""
    shape = record.get("shape", {})
    if ablation == "no text of the knowledge base":
        return record["evidence"], [], shape
    shape = without_layers(shape)
    evidence = [{"id": e["id"], "state": "unknown", "detector": e["detector"], "needs": ["taken away"]}
                if e["detector"] in lost and e["state"] != "unknown" else e for e in record["evidence"]]
    # The log is an input of its own: it goes with everything that is no metric.
    return evidence, [] if ablation == "metrics only" else record["log_quotes"], shape


def derive(result, known):
    """The evidence of a report that does not list it, from the outcomes of its detectors. Symptoms that several
    detectors look for are there once: what was seen counts before what was found clear, and that before what was not
    checked."""
    found = {}
    order = {"unknown": 0, "absent": 1, "present": 2}

    def add(one):
        old = found.get(one["id"])
        key = (order[one["state"]], one.get("score", 0))
        if old is None or key > (order[old["state"]], old.get("score", 0)):
            found[one["id"]] = one

    for outcome in result["outcomes"]:
        who = outcome["detector"]
        seen = set()
        for report in outcome["reports"]:
            seen.add(report["symptom"])
            add({"id": report["symptom"], "state": "present", "score": report["score"], "detector": who,
                 "informational": report["severity"] == "info", "recoverable_ns": report.get("recoverable_ns")})
        unjudged = {u["symptom"] if isinstance(u, dict) else u for u in outcome["unjudged"]}
        for symptom in known.get(who, {"symptoms": []})["symptoms"]:
            if symptom not in seen:
                checked = outcome["outcome"] in ("clear", "matched") and symptom not in unjudged
                add({"id": symptom, "state": "absent" if checked else "unknown", "detector": who,
                     **({} if checked else {"needs": outcome["missing"]})})
    return [found[s] for s in sorted(found)]


def can_rank(program):
    done = subprocess.run([program, "rank", "--help"], capture_output=True, text=True, check=False)
    return done.returncode == 0


def causes(result):
    """Hypotheses and leads of a report in one order: as they are ranked, leads where their probability has them. Causes
    that cost device time are ordered by time and come first."""
    hypotheses, leads = result["hypotheses"], result.get("leads", [])
    if any(h.get("recoverable_ns") for h in hypotheses):
        return hypotheses + leads
    return sorted(hypotheses + leads, key=lambda h: -h["probability"])


def answers(program, questions, options=()):
    """What `culprit rank` prints for each (evidence, log quotes, shape, classes left out)."""
    if not questions:
        return []
    handle, path = tempfile.mkstemp(suffix=".jsonl")
    try:
        with os.fdopen(handle, "w") as out:
            for evidence, quotes, shape, without in questions:
                out.write(json.dumps({"evidence": evidence, "log_quotes": quotes, "shape": shape,
                                      "without": sorted(without)}) + "\n")
        done = subprocess.run([program, "rank", *options, path], capture_output=True, text=True, check=False)
    finally:
        os.unlink(path)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
    if done.returncode or len(found) != len(questions):
        raise RuntimeError(f"culprit rank gave {len(found)} answers to {len(questions)} questions: "
                           f"{done.stderr.strip()[:500]}")
    return found


def rank(program, questions, options=()):
    """Causes [(class, probability)] for each (evidence, log quotes, shape, classes left out), best first."""
    return [[(h["class"], h["probability"]) for h in causes(a)] for a in answers(program, questions, options)]


def rerank(records, program, options=()):
    """The records with the hypotheses that the program would give now, with other weights for instance. The places of a
    cause are those of its old evidence; one that was not listed has none."""
    usable = [r for r in records if r["kind"] == "run" and r.get("evidence")]
    ranked = rank(program, [(r["evidence"], r["log_quotes"], r.get("shape", {}), ()) for r in usable], options)
    for record, found in zip(usable, ranked):
        old = {h["class"]: h for h in record["hypotheses"]}
        blank = {"layer": "", "located": {}, "places": []}
        record["hypotheses"] = [{**old.get(c, blank), "class": c, "probability": p} for c, p in found]
    return records
