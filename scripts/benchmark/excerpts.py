"""Real log excerpts whose cause is known, as run folders of a log alone.

test/logs/excerpts.jsonl has an excerpt a line: `id`; `set` (dev or held-out); `log`, the lines that somebody pasted;
`class`, the cause that the thread established, null for a start-up or a warning that means nothing, "unknown" for a
cause that no class covers; `also`, classes that are as right given the excerpt alone; `url`; `why`, what the thread
established. Accounts, hosts and addresses are masked as `user`, `host` and 10.0.0.1. Entries and detectors are mended
by the dev half only. The halves were drawn before the first diagnosis: within each layer in the order of SHA-256 of
the address, alternately.
"""

import json
import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILE = ROOT / "test" / "logs" / "excerpts.jsonl"
SETS = ("dev", "held-out")
NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
FIELDS = {"id", "set", "log", "class", "also", "url", "why"}
LINES = 12  # Of an excerpt at most, blank ones not counted.
PER_CLASS = 3
HOME = re.compile(r"(?:/home/|[/\\]Users[/\\])([^/\\\s\"':]+)")
ADDRESS = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
MASKS = {"user", "10.0.0.1", "127.0.0.1", "0.0.0.0"}  # The last two name no machine.


def read(path=FILE):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def thread_of(url):
    """One name for a thread, whichever of its addresses is given."""
    return re.sub(r"[#?].*$", "", url).rstrip("/").lower().replace("/pull/", "/issues/")


def unmasked(text):
    """Accounts in paths of home folders, and addresses, that are not masked. Names of hosts have no form to know."""
    return [found for found in HOME.findall(text) + ADDRESS.findall(text) if found not in MASKS]


def layers(kb=ROOT / "kb"):
    """Layer of each class."""
    lines = (kb / "classes.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return {parts[1]: parts[0] for parts in (line.split("\t") for line in lines) if len(parts) > 2}


def referenced(kb=ROOT / "kb"):
    """Threads that an entry of the knowledge base refers to: what was written with a thread in view is no test of it."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(kb.glob("*.md")))
    return {thread_of(url) for url in re.findall(r"https?://[^\s,;)>`]+", text)}


def problems(excerpts, kb=ROOT / "kb"):
    """What is wrong with the set, as sentences."""
    known, taken = layers(kb), referenced(kb)
    ids, threads, per_class = set(), set(), {}
    for one in excerpts:
        name = one.get("id", "?")
        if set(one) != FIELDS:
            yield f"{name} has the fields {sorted(one)}, not {sorted(FIELDS)}"
            continue
        if not NAME.fullmatch(name) or name in ids:
            yield f"{name} is no name of a folder, or there is another"
        thread = thread_of(one["url"])
        if thread in threads:
            yield f"{name} is of a thread that has another excerpt"
        if thread in taken:
            yield f"{name} is of a thread that an entry refers to: {one['url']}"
        if one["set"] not in SETS:
            yield f"{name} is of the set {one['set']}; sets are {', '.join(SETS)}"
        for cause in [one["class"], *one["also"]]:
            if cause not in known and cause not in (None, "unknown"):
                yield f"{name} has the class {cause}, which kb/classes.tsv lacks"
        if not 1 <= sum(bool(line.strip()) for line in one["log"].splitlines()) <= LINES:
            yield f"{name} is not of 1 to {LINES} lines"
        for found in unmasked(one["log"] + one["why"]):
            yield f"{name} names {found}, an account or an address, which is to be masked"
        ids.add(name)
        threads.add(thread)
        if one["class"] in known:
            per_class[one["class"]] = per_class.get(one["class"], 0) + 1
    for cause, count in sorted(per_class.items()):
        if count > PER_CLASS:
            yield f"{cause} has {count} excerpts; {PER_CLASS} at most, or one message decides"


def label(one):
    """The label as scripts/benchmark/cases.py reads it."""
    faulty = one["class"] is not None
    return {"class": one["class"], "verdict": "diagnosed" if faulty else None, "layer": None, "step": None,
            "also": one["also"], "fault": "L", "family": f"logs-{one['set']}", "level": None, "dialect": "log",
            "interval": None, "dropped": []}


def clear(folder, keep):
    """Removes the run folders of an earlier set, of which labels.json tells; what is not named there is not ours."""
    labels = folder / "labels.json"
    if not labels.exists():
        return
    for name in json.loads(labels.read_text(encoding="utf-8")):
        run = folder / name
        if name not in keep and NAME.fullmatch(name) and run.is_dir() and not run.is_symlink():
            shutil.rmtree(run)


def write(out, excerpts):
    """Writes OUT/logs-SET/ID/run.log and OUT/logs-SET/labels.json in place of an earlier set; returns the folders."""
    folders = []
    for name in SETS:
        folder = out / f"logs-{name}"
        ours = sorted((one for one in excerpts if one["set"] == name), key=lambda one: one["id"])
        clear(folder, {one["id"] for one in ours})
        for one in ours:
            (folder / one["id"]).mkdir(parents=True, exist_ok=True)
            (folder / one["id"] / "run.log").write_text(one["log"], encoding="utf-8")
        lines = [f"{json.dumps(one['id'])}: {json.dumps(label(one))}" for one in ours]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "labels.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        folders.append(folder)
    return folders
