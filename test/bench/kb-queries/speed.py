#!/usr/bin/env python3
"""How long `culprit kb search` takes.

    speed.py CULPRIT QUERIES.jsonl [--kb STORE]

Prints the median of 20 runs of the command for one query, and the time of one
query in process: the difference between a run of --batch with all queries ten
times and one with a single query, by the queries.
"""

import json
import statistics
import subprocess
import sys
import time


def seconds(command, text):
    begin = time.perf_counter()
    subprocess.run(command, input=text, text=True, check=True,
                   stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main():
    culprit, queries, *more = sys.argv[1:]
    with open(queries, encoding="utf-8") as file:
        words = [json.loads(line)["query"] for line in file]
    search = [culprit, "kb", "search", *more]
    one = statistics.median(seconds([*search, "--", words[i % len(words)]], "")
                            for i in range(20))
    batch = [*search, "--batch"]
    lines = [json.dumps(w) + "\n" for w in words]
    few = min(seconds(batch, lines[0]) for _ in range(5))
    many = min(seconds(batch, "".join(lines * 10)) for _ in range(5))
    each = (many - few) / (10 * len(lines) - 1)
    print(f"command {one * 1e3:.1f} ms, in process {each * 1e3:.2f} ms a query "
          f"({len(lines)} queries)")


if __name__ == "__main__":
    main()
