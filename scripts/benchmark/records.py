"""Files of recorded diagnoses: one JSON object a line, compressed where the name ends in .xz.

Most of a record is the state of a thousand symptoms, which is nearly the same in every run: xz makes a hundredth of it.
"""

import json
import lzma


def _open(path, mode):
    if str(path).endswith(".xz"):
        return lzma.open(path, mode + "t", encoding="utf-8", **({"preset": 9} if mode == "w" else {}))
    return open(path, mode, encoding="utf-8")


def read(path):
    """The records of one file, in order."""
    with _open(path, "r") as file:
        return [json.loads(line) for line in file if line.strip()]


def write(path, records):
    """Writes each record as it comes; keys are sorted, so that the same records give the same bytes."""
    with _open(path, "w") as out:
        for record in records:
            out.write(json.dumps(record, sort_keys=True) + "\n")
