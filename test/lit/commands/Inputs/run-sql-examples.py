"""Runs every ```sql block of a page over a case; each must succeed and give rows.

usage: run-sql-examples.py CULPRIT PAGE CASE
"""

import json
import pathlib
import re
import subprocess
import sys

culprit, page, case = sys.argv[1:]
blocks = re.findall(r"```sql\n(.*?)```", pathlib.Path(page).read_text(encoding="utf-8"), flags=re.S)
assert len(blocks) >= 5, "the page has lost its examples"
for block in blocks:
    done = subprocess.run([culprit, "sql", case, "-", "--format", "json"], input=block, capture_output=True, text=True)
    assert done.returncode == 0, f"{block}\n{done.stderr}"
    assert json.loads(done.stdout)["rows"], f"no rows:\n{block}"
print(len(blocks), "examples run")
