"""Writes GGUF files: header, metadata of every type, list of tensors."""

import struct

TYPES = {"u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7, "str": 8, "arr": 9,
         "u64": 10, "i64": 11, "f64": 12}
FORMATS = {"u8": "<B", "i8": "<b", "u16": "<H", "i16": "<h", "u32": "<I", "i32": "<i", "f32": "<f", "bool": "<?",
           "u64": "<Q", "i64": "<q", "f64": "<d"}


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def scalar(kind, value):
    return text(value) if kind == "str" else struct.pack(FORMATS[kind], value)


def entry(key, kind, value):
    """kind: a name of TYPES, or (element kind,) for an array."""
    if isinstance(kind, tuple):
        return (text(key) + struct.pack("<IIQ", TYPES["arr"], TYPES[kind[0]], len(value)) +
                b"".join(scalar(kind[0], v) for v in value))
    return text(key) + struct.pack("<I", TYPES[kind]) + scalar(kind, value)


def tensor(name, dims, number, offset):
    """dims: fastest first, as the file has them."""
    return (text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims) +
            struct.pack("<IQ", number, offset))


def model(entries, tensors, data=b"", version=3, align=32):
    head = struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(entries)) + b"".join(entries) + b"".join(tensors)
    return head + b"\0" * (-len(head) % align) + data
