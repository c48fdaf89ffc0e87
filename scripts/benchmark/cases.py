"""Labelled cases and what culprit says of them, one record a case.

A record has `name`, `set` (the folder), `kind` (run: `culprit diagnose`; pair: `culprit compare`), the label, the
verdict, all `hypotheses` with the leads among them, `evidence`, `log_quotes` and `shape` as the ranking saw them, and
for the baselines `features` and `rules`. All that is scored later comes from the records, so that scoring needs no
case and no second diagnosis.
"""

import concurrent.futures
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import subprocess
import sys

from benchmark import evidence, neighbour, rules, series

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent


def script(name):
    """A script of this folder as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(SCRIPTS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


check_cases = script("check-cases")
check_pairs = script("check-pairs")


# Formats of served models' logs, which have no steps.
SERVED = ("vllm", "tgi", "mixed")


def whole_label(name, label):
    """A label with every field: those of expected.json have no fault and no family."""
    fault = label.get("fault") or re.sub(r"-?(gpt|mlp)$", "", name)
    full = {"fault": fault, "family": "first", "level": None, "dialect": "first", "interval": 1, "dropped": [],
            "also": [], "layer": None, "step": None, "verdict": None, "class": None, **label}
    full["also"] = list(full["also"] or ())
    if full["dialect"] in SERVED:
        full["interval"] = None
    full["unknown"] = "unknown" in (label.get("class"), label.get("root_class")) or bool(label.get("unseen"))
    if full["unknown"]:
        full["class"] = None
    return full


def place_of(at):
    return {k: at[k] for k in ("step", "layer", "layers", "token", "name", "rank") if at.get(k) is not None}


ACTIVATION = re.compile(r"(^|_)(act|act_?fn|relu|gelu|silu|tanh|sigmoid|activation)\d*$")


def has_part(layer, named):
    """Whether the names of `layer` follow each other in `named`, whole ones: "layer.1" is not in "layer.10"."""
    return f".{layer}." in f".{named}."


def is_part(label, named):
    """Whether the layer that evidence names is the label's or a part of it. Checkpoints lack the name of what wraps the
    model ("model.bert.encoder" is "bert.encoder" there), and what an activation makes of its inputs is set by a layer
    of the same module ("mlp.act" and "mlp.fc1")."""
    if has_part(label, named):
        return True
    module, _, last = label.rpartition(".")
    if module.count(".") >= 1 and ACTIVATION.search(last):
        return is_part(module, named)
    _, _, rest = label.partition(".")
    return rest.count(".") >= 1 and f"{named}.".startswith(f"{rest}.")


def localisation(label, places):
    """Whether the evidence of a hypothesis names what the label names: {part: [exactly, within one logged row or token,
    as check-cases asks]}; only parts that the label names. A step is met exactly by the first logged row at it or
    after."""
    met = {}
    if label["layer"]:
        named = [layer for p in places for layer in check_cases.layers_of(p)]
        met["layer"] = [label["layer"] in named, any(is_part(label["layer"], n) for n in named),
                        any(label["layer"] in n for n in named)]
    if label["step"] is not None:
        rows = label["interval"] or 1
        off = [p["step"] - label["step"] for p in places if "step" in p]
        met["step"] = [any(0 <= d < rows for d in off), any(-rows <= d < 2 * rows for d in off),
                       check_cases.step_is_met(label, places)]
    if label.get("tokens"):
        exact = any(p.get("token") == label["tokens"].get(p.get("name"), -1) for p in places)
        near = check_cases.token_is_met(label, places)
        met["position"] = [exact, near, near]
    return met


def run_record(program, known, folder, name, label):
    result = check_cases.diagnose(program, folder / name)
    record = {"set": folder.name, "name": name, "kind": "run", "label": whole_label(name, label),
              "error": result.get("error")}
    if record["error"]:
        return record
    record["error"] = "; ".join(f"{o['detector']}: {o['error']}" for o in result["outcomes"]
                                if o["outcome"] == "failed") or None
    record["verdict"], record["unknown"] = result["verdict"], result.get("unknown")
    record["hypotheses"] = []
    for h in evidence.causes(result):
        places = []
        for at in check_cases.places(result, h):
            place = place_of(at)
            if place and place not in places:
                places.append(place)
        record["hypotheses"].append({"class": h["class"], "probability": h["probability"], "layer": h["layer"],
                                     "located": localisation(record["label"], places), "places": places[:40]})
    record["evidence"] = result["evidence"] if "evidence" in result else evidence.derive(result, known)
    root = str(folder / name)
    record["log_quotes"] = [{**q, "file": q["file"].removeprefix(root).lstrip("/")} if "file" in q else q
                            for q in result.get("log_quotes", [])]
    record["shape"] = result.get("shape", {})
    logged = series.Series.read(program, folder / name)
    record["features"] = neighbour.features(logged)
    record["rules"] = rules.fired(logged)
    return record


def pair_record(program, folder, name, label):
    score = check_pairs.Score(name, label, check_pairs.compare(program, folder / name, label))
    return {"set": folder.name, "name": name, "kind": "pair", "label": label, "error": score.error, "told": score.told,
            "right": score.right(), "class_met": score.class_met, "layer_met": score.layer_met,
            "control": score.control, "decidable": label["decidable"]}


def is_pairs(folder):
    path = folder / "labels.json"
    return path.exists() and any("decidable" in label for label in json.loads(path.read_text()).values())


def run(program, folders, names, jobs):
    """Records of all labelled cases of the folders, in order."""
    known = evidence.detectors(program)
    tasks = []
    for folder in map(pathlib.Path, folders):
        if is_pairs(folder):
            labels = json.loads((folder / "labels.json").read_text())
            tasks += [(pair_record, (program, folder, n, label)) for n, label in sorted(labels.items())
                      if (folder / n).is_dir() and (not names or n in names)]
        else:
            cases = check_cases.read_cases(folder, names)
            if not cases and not names:
                sys.exit(f"faultbench: {folder} has no labelled cases: labels.json or */expected.json is missing")
            tasks += [(run_record, (program, known, folder, n, label)) for n, label, _ in cases]
    def attempt(task):
        """One case that cannot be read must not end the run."""
        make, (*_, folder, name, label) = task
        try:
            return make(*task[1])
        except (OSError, subprocess.SubprocessError, ValueError) as problem:
            return {"set": folder.name, "name": name, "kind": "run" if make is run_record else "pair",
                    "label": whole_label(name, label) if make is run_record else label, "error": str(problem)}

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done, record in enumerate(pool.map(attempt, tasks), 1):
            if done % 50 == 0 or done == len(tasks):
                print(f"{done} of {len(tasks)} cases", file=sys.stderr)
            yield record
