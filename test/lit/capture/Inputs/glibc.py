"""usage: objdump -T LIBRARY | glibc.py NEWEST: fails when a symbol is newer."""

import re
import sys

newest = tuple(map(int, sys.argv[1].split(".")))
found = set(re.findall(r"GLIBC_([0-9.]+)", sys.stdin.read()))
new = sorted(v for v in found if tuple(map(int, v.split("."))) > newest)
if new or not found:
    sys.exit(f"versions of the C library's symbols: {sorted(found)}, newer than {sys.argv[1]}: {new}")
