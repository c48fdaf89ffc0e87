"""Opens every evidence reference of a diagnosis by SQL: all rows that it lists are there.

usage: open-evidence.py CULPRIT PATH
"""

import json
import subprocess
import sys

culprit, path = sys.argv[1:]


def run(*words):
    return json.loads(subprocess.run([culprit, *words, "--format", "json"], capture_output=True, text=True, check=True).stdout)


opened = 0
for outcome in run("diagnose", path)["outcomes"]:
    for report in outcome["reports"]:
        for evidence in report["evidence"]:
            if not evidence["rows"]:
                continue
            rows = ", ".join(map(str, evidence["rows"]))
            found = run("sql", path, f"SELECT rowid, path FROM {evidence['table']} WHERE rowid IN ({rows})")["rows"]
            assert sorted(r[0] for r in found) == sorted(set(evidence["rows"])), evidence
            opened += 1
assert opened, "no evidence to open"
print("opened", opened)
