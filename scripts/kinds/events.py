"""Event files of TensorBoard, as trackers write them."""

import struct


def table():
    out = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        out.append(i)
    return out


TABLE = table()


def crc(data):
    """CRC-32C, masked as records have it."""
    now = 0xFFFFFFFF
    for byte in data:
        now = TABLE[(now ^ byte) & 255] ^ now >> 8
    now ^= 0xFFFFFFFF
    return ((now >> 15 | now << 17) + 0xA282EAD8) & 0xFFFFFFFF


def number(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def part(field, data):
    return number(field << 3 | 2) + number(len(data)) + data


class Events:
    """A writer of scalars."""

    def __init__(self, run, folder):
        place = run.folder / folder
        place.mkdir(parents=True, exist_ok=True)
        self.run = run
        self.path = place / \
            f"events.out.tfevents.{int(run.clock)}.node-1.4242.0"
        self.record(part(3, b"brain.Event:2"))

    def record(self, more):
        data = b"\x09" + struct.pack("<d", self.run.clock) + more
        head = struct.pack("<Q", len(data))
        with open(self.path, "ab") as out:
            out.write(head + struct.pack("<I", crc(head)) + data
                      + struct.pack("<I", crc(data)))

    def scalars(self, step, **values):
        for tag, value in values.items():
            value = part(1, part(1, tag.encode())
                         + b"\x15" + struct.pack("<f", value))
            self.record(b"\x10" + number(step) + part(5, value))
