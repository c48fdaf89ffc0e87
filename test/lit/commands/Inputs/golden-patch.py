"""Copies a safetensors file with one change.

usage: golden-patch.py FROM TO add NAME INDEX NUMBER | reverse NAME | rename OLD NEW
add: element INDEX of a float32 or int64 tensor becomes NUMBER more; reverse: its elements come in
the other order; rename: of a tensor, to a name of the same length.
"""

import json
import os
import struct
import sys


def main():
    source, target, what, name = sys.argv[1:5]
    with open(source, "rb") as file:
        data = bytearray(file.read())
    (size,) = struct.unpack("<Q", data[:8])
    if what == "rename":
        data[8 : 8 + size] = data[8 : 8 + size].replace(name.encode(), sys.argv[5].encode())
    else:
        entry = json.loads(data[8 : 8 + size])[name]
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        form = {"F32": "<%df", "I64": "<%dq"}[entry["dtype"]] % ((end - begin) // (4 if entry["dtype"] == "F32" else 8))
        values = list(struct.unpack(form, data[begin:end]))
        if what == "add":
            number = float(sys.argv[6])
            values[int(sys.argv[5])] += number if entry["dtype"] == "F32" else int(number)
        else:
            values.reverse()
        data[begin:end] = struct.pack(form, *values)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as file:
        file.write(data)


main()
