#!/usr/bin/env python3
"""How often `culprit kb search` names the confirmed class of a real complaint.

    measure.py CULPRIT QUERIES.jsonl [--log] [--misses]

Each line of QUERIES is an object with `query`, `log` and `class`. With --log
the log excerpt is pasted behind the query. Prints the share of queries whose
class is first, among the first three and the first five, and the mean
reciprocal rank, for all queries and for those whose class has an entry.
"""

import json
import subprocess
import sys


def rank(culprit, query, wanted):
    out = subprocess.run(
        [culprit, "kb", "search", "--format", "json", "--limit", "10", "--", query],
        capture_output=True, text=True, check=True).stdout
    for hit in json.loads(out)["results"]:
        if hit["class"] == wanted:
            return hit["rank"]
    return 0


def has_entry(culprit, name):
    out = subprocess.run([culprit, "kb", "show", "--format", "json", name],
                         capture_output=True, text=True).stdout
    return any(not e["entry"].startswith("classes/") for e in json.loads(out or "[]"))


def summary(name, ranks):
    n = max(len(ranks), 1)
    hit = lambda k: sum(0 < r <= k for r in ranks) / n
    mrr = sum(1 / r for r in ranks if r) / n
    print(f"{name:12} n={len(ranks):3} hit@1 {hit(1):.3f} hit@3 {hit(3):.3f} "
          f"hit@5 {hit(5):.3f} MRR {mrr:.3f}")


def main():
    flags = {a for a in sys.argv[1:] if a.startswith("--")}
    culprit, queries = [a for a in sys.argv[1:] if not a.startswith("--")]
    every, covered, known = [], [], {}
    for line in open(queries, encoding="utf-8"):
        q = json.loads(line)
        text, wanted = q["query"], q["class"]
        if "--log" in flags and q.get("log"):
            text += "\n" + q["log"]
        if wanted not in known:
            known[wanted] = has_entry(culprit, wanted)
        found = rank(culprit, text, wanted)
        every.append(found)
        if known[wanted]:
            covered.append(found)
        if "--misses" in flags and found != 1:
            print(f"{q.get('id', '')} rank {found} want {wanted}: {q['query']}")
    summary("all", every)
    summary("with entry", covered)


if __name__ == "__main__":
    main()
