"""Writes .wandb files as W&B does.

usage: wandb_run.py FOLDER

Framing: wandb/sdk/internal/datastore.py and core/pkg/leveldb/record.go. Messages: wandb/proto/wandb_internal.proto. System metrics:
xpu/src/gpu_nvidia.rs and core/internal/monitor.
"""

import json
import pathlib
import struct
import sys
import zlib

from wire import number, text

START = 1767603597
BLOCK, HEAD = 32768, 7


class Log:
    def __init__(self):
        self.data = bytearray(struct.pack("<4sHB", b":W&B", 0xBEE1, 0))
        self.starts = []

    def chunk(self, kind, piece):
        crc = zlib.crc32(piece, zlib.crc32(bytes([kind])))
        self.data += struct.pack("<IHB", crc, len(piece), kind) + piece

    def record(self, message):
        left = BLOCK - len(self.data) % BLOCK
        if left < HEAD:
            self.data += bytes(left)
            left = BLOCK
        self.starts.append(len(self.data))
        if len(message) + HEAD <= left:
            return self.chunk(1, message)
        kind, room = 2, left - HEAD
        while len(message) > room:
            self.chunk(kind, message[:room])
            message, kind, room = message[room:], 3, BLOCK - HEAD
        return self.chunk(4, message)


def item(key, value, raw=None):
    name = text(1, key) if isinstance(key, str) else b"".join(text(2, k) for k in key)
    return name + text(16, json.dumps(value) if raw is None else raw)


def stamp(seconds, nanos=0):
    return number(1, seconds) + number(2, nanos)


def history(step, values, own_step=True):
    items = [item(k, v) for k, v in values.items()] + ([item("_step", step)] if own_step else [])
    return text(2, b"".join(text(1, i) for i in items) + text(2, number(1, step) if step else b""))


def config(**values):
    return text(5, b"".join(text(1, item(k, v)) for k, v in values.items()))


def stats(second, **values):
    return text(7, text(2, stamp(START + second, 500_000_000)) +
                b"".join(text(3, item(k.replace("__", "."), v)) for k, v in values.items()))


def output(line, stream=1):
    return text(13, (number(1, stream) if stream else b"") + text(3, line))


def run():
    return text(17, text(1, "abc123") + text(3, "project") + text(4, text(1, item("seed", 7))) + text(8, "bright-sun-1"))


def sample(steps=100):
    log = Log()
    log.record(run())
    log.record(config(lr=0.0003, model={"layers": 12, "widths": [1, 2]}, _wandb={"cli_version": "0.17"}))
    for step in range(steps):
        log.record(history(step, {"train/loss": 4.0 - step / 64, "_timestamp": START + step + 0.25, "_runtime": step}))
    return bytes(log.data)


def write(path, log):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(log.data)


def main():
    folder = pathlib.Path(sys.argv[1])
    log = Log()
    log.record(run())
    log.record(config(lr=0.0003, model={"layers": 12, "widths": [1, 2]}, _wandb={"cli_version": "0.17"}))
    log.record(text(5, text(1, item(("optim", "beta"), 0.9))))
    log.record(history(0, {"train/loss": 4.5, "train/grad_norm": 1.5, "_timestamp": START + 0.25, "_runtime": 1.0}))
    # The call counter is 1, the trainer's own step 10.
    log.record(history(1, {"train/loss": "NaN", "train/global_step": 10, "picture": {"_type": "image-file", "width": 8}}))
    log.record(history(2, {"eval": {"loss": 2.5}, "train/global_step": 20, "note": "text", "nothing": None}, own_step=False))
    log.record(text(2, text(1, item(("train", "loss"), 2.0)) + text(1, item("train/global_step", 30)) + text(2, number(1, 3))))
    log.record(stats(0, gpu__0__temp=61.0, gpu__0__gpu=97.0, gpu__1__memoryAllocatedBytes=1048576, gpu__1__memoryAllocated=12.5,
                     cpu=3.5, proc__memory__rssMB=2.0, network__sent=5.0))
    log.record(stats(15, gpu__0__powerWatts=300.5))
    log.record(text(7, text(2, stamp(START + 20)) + text(3, item("gpu.0.smClock/l:node1", 1980))))
    log.record(output("Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    main()\nRuntime", 0))
    log.record(output("step 7"))
    log.record(output("Error: CUDA error: device-side assert triggered\n", 0))
    log.record(output(" is done\nlast words"))
    log.record(text(18, number(1, 1)))
    write(folder / "offline-run-20260105_085957-abc123" / "run-abc123.wandb", log)
    # The same with the file of what was printed, the summary and the settings beside it.
    twin = folder / "offline-run-20260105_095957-def456"
    write(twin / "run-def456.wandb", log)
    (twin / "files").mkdir()
    (twin / "files" / "output.log").write_text("Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    main()\n"
                                               "RuntimeError: CUDA error: device-side assert triggered\n")
    summary = {"_step": 3, "train/loss": 2.0, "train/global_step": 30, "_runtime": 9, "_wandb": {"runtime": 9}}
    (twin / "files" / "wandb-summary.json").write_text(json.dumps(summary))
    (twin / "files" / "config.yaml").write_text(
        "_wandb:\n    value:\n        cli_version: 0.19.1\nlr:\n    value: 0.0003\nmodel:\n    value:\n        layers: 12\n")

    # Records over blocks: 40 kB, so that there are a first and a last piece, and 100 kB, which has middle ones; then exactly to the
    # end of a block, and to 3 bytes before it, which are padding.
    log = Log()
    for step, size in enumerate((40_000, 100_000)):
        log.record(history(step, {"loss": 3.0 - step, "blob": "x" * size}))
    for gap in (0, 3):
        left = BLOCK - len(log.data) % BLOCK - HEAD - gap
        bare = len(history(2, {"loss": 1.0, "blob": ""}))
        # The lengths of five nested fields grow with the text.
        size = left - bare
        while len(history(2, {"loss": 1.0, "blob": "x" * size})) > left:
            size -= 1
        message = history(2, {"loss": 1.0, "blob": "x" * size})
        assert len(message) == left, (len(message), left)
        log.record(message)
    assert len(log.data) % BLOCK == BLOCK - 3
    log.record(history(4, {"loss": 0.5}))
    write(folder / "blocks" / "run-b.wandb", log)

    # Damage.
    log = Log()
    for step in range(1, 6):
        log.record(history(step, {"loss": float(step)}))
    data = bytearray(log.data)
    data[log.starts[2] + HEAD + 6] ^= 1  # data of step 3
    (folder / "damaged").mkdir()
    (folder / "damaged" / "data.wandb").write_bytes(data)
    data = bytearray(log.data)
    data[log.starts[2] + 5] ^= 255  # length of step 3: the rest of the block is lost
    (folder / "damaged" / "length.wandb").write_bytes(data)
    (folder / "damaged" / "growing.wandb").write_bytes(log.data[:-4])
    log = Log()
    log.record(history(1, {"loss": 1.0}))
    log.record(history(2, {"loss": 2.0, "blob": "x" * 80_000}))
    log.record(history(3, {"loss": 3.0}))
    data = bytearray(log.data)
    data[BLOCK + 100] ^= 1  # the middle piece of step 2
    (folder / "damaged" / "middle.wandb").write_bytes(data)
    (folder / "damaged" / "cut-in-middle.wandb").write_bytes(log.data[:BLOCK + 50])
    (folder / "damaged" / "header-only.wandb").write_bytes(Log().data)


if __name__ == "__main__":
    main()
