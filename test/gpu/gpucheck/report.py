"""The results as a table, as JSON and as markdown."""

import json
import os
import tarfile

from gpucheck.runner import AGREES, NOT_RUN, SKIPPED, WRONG

TIMES = [("attach_ms", "attach, ms"), ("stopped_us", "a thread stopped, us"),
         ("first_record_ms", "first record in the file, ms"), ("finish_ms", "detach, ms")]


def show(result, out):
    """The lines of one step: a failure names what was expected, what was seen
    and where the log is."""
    numbers = ", ".join(f"{k} {v}" for k, v in result["measured"].items())
    words = "; ".join(filter(None, [numbers, result["words"]]))
    log = os.path.join(out, result["log"])
    print(f"{result['point']:>3} {result['name']:15} {result['how']:7} {result['verdict']:8} "
          f"{result['seconds']:6.1f} s  {words[:240]}", flush=True)
    for failure in result["failures"][:12]:
        print(f"      {failure['what']}: expected {failure['expected']}, saw {failure['seen']}; log: {log}",
              flush=True)
    if len(result["failures"]) > 12:
        print(f"      and {len(result['failures']) - 12} more in {log}", flush=True)


def cell(text):
    return str(text).replace("|", "/").replace("\n", " ")


def markdown(results, machine):
    lines = ["Run on " + "; ".join(f"{k} {cell(v)}" for k, v in machine.items()) + ".", "",
             "| point | what | how | result | seen |", "|---|---|---|---|---|"]
    for r in results:
        numbers = ", ".join(f"{k} {v}" for k, v in r["measured"].items() if k not in dict(TIMES))
        seen = "; ".join(f"{f['what']}: expected {f['expected']}, saw {f['seen']}" for f in r["failures"][:3])
        lines.append(f"| {r['point']} | {r['name']} | {r['how'] or '-'} | {r['verdict']} | "
                     f"{cell('; '.join(filter(None, [seen, r['words'], numbers])))[:400]} |")
    timed = [r for r in results if "attach_ms" in r["measured"]]
    if timed:
        lines += ["", "| attach to | " + " | ".join(words for _, words in TIMES) + " |",
                  "|---|" + "---|" * len(TIMES)]
        for r in timed:
            lines.append(f"| {r['name']} | " + " | ".join(
                f"{r['measured'][key]:.1f}" if key in r["measured"] else "-" for key, _ in TIMES) + " |")
    return "\n".join(lines) + "\n"


def write(results, machine, out):
    """After each step, so that a run that is cut off leaves what it has."""
    for name, text in (("results.json", json.dumps({"machine": machine, "steps": results}, indent=1)),
                       ("results.md", markdown(results, machine))):
        path = os.path.join(out, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(path + ".new", path)


def archive(out):
    """All of it as one file, all.tar.gz."""
    with tarfile.open(os.path.join(out, "all.tar.gz"), "w:gz") as tar:
        for name in ("results.json", "results.md", "steps.jsonl", "threads.tsv", "machine.txt", "logs", "captures"):
            if os.path.exists(os.path.join(out, name)):
                tar.add(os.path.join(out, name), arcname=os.path.join("gpu-check", name))


def count(results):
    return {v: sum(r["verdict"] == v for r in results) for v in (AGREES, WRONG, SKIPPED, NOT_RUN)}
