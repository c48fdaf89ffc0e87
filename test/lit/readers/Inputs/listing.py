"""Prints name, size and checksum of every file of a folder: listing.py FOLDER"""

import hashlib
import pathlib
import sys

for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    data = path.read_bytes()
    print(path.name, len(data), path.stat().st_mtime_ns, hashlib.sha256(data).hexdigest())
