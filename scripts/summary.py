"""Turns lit's closing table into one line: N passed, N failed, N skipped."""

import re
import sys

counts = {"Passed": 0, "Failed": 0, "Unsupported": 0, "Unresolved": 0,
          "Timed Out": 0, "Unexpectedly Passed": 0}
with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
    for line in log:
        found = re.match(r"\s*([A-Z][A-Za-z ]+?)\s*:\s*(\d+)\b", line)
        if found and found.group(1) in counts:
            counts[found.group(1)] = int(found.group(2))
failed = sum(counts[k] for k in ("Failed", "Unresolved", "Timed Out",
                                 "Unexpectedly Passed"))
print(f"{counts['Passed']} passed, {failed} failed, "
      f"{counts['Unsupported']} skipped")
