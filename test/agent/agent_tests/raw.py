"""CUPTI's buffers, saved as they come: what they decode to, and what a replay of them records."""

import glob
import os
import struct
import subprocess

from .harness import DEFAULT_KINDS, EXIT, KINDS, test, want, want_true

INPUTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "Inputs", "raw")
ALL_KINDS = DEFAULT_KINDS | 1 << KINDS.index("external")


def decoded(place, path):
    """The lines of raw-buffers for a file."""
    done = subprocess.run([os.path.join(place.tools, "raw-buffers"), os.path.join(place.tools, "libcupti.so.13"), path],
                          capture_output=True, text=True, env=place.environment())
    want(f"raw-buffers {path}", (done.returncode, done.stderr), (0, ""))
    return done.stdout.splitlines()


def count(lines):
    """How many of each kind there are."""
    out = {}
    for line in lines[1:]:
        kind = line.split(" ", 1)[0]
        out[kind] = out.get(kind, 0) + 1
    return out


def fields(line):
    """{"start": "12"} of a line; texts with blanks are cut."""
    return dict(word.split("=", 1) for word in line.split(" ") if "=" in word)


def saved(place, *arguments, **more):
    """Runs a workload that saves its buffers; what it said, and the file."""
    folder = place.path("raw")
    os.makedirs(folder, exist_ok=True)
    said = place.run(*arguments, environment=place.recorded(CULPRIT_RAW_BUFFERS=folder, **more))
    return said, glob.glob(folder + "/*.cuptiraw")[0]


@test
def raw_golden(place):
    """A file of each layout, as made by record-captures, and its text."""
    files = sorted(glob.glob(INPUTS + "/*.cuptiraw"))
    want_true("there are files", len(files) >= 2)
    for path in files:
        lines = decoded(place, path)
        with open(path.removesuffix(".cuptiraw") + ".txt") as file:
            want(os.path.basename(path), lines, file.read().splitlines())
        if not os.path.basename(path).startswith("simulated"):
            continue
        # One run of `workload every`, which says this of itself.
        got = count(lines)
        for kind, expected in dict(kernel=5, copy=2, set=1, memory=2, marker=2, sync=2, call=11).items():
            want(f"{kind} of {os.path.basename(path)}", got[kind], expected)
        # 1 MiB and 512 KiB at 10 bytes/ns.
        want("times of copies", [int(f["end"]) - int(f["start"]) for f in map(fields, lines) if "copy_kind" in f],
             [104857, 52428])


@test
def raw_by_hand(place):
    """The decoder against the bytes, read by the offsets of CUPTI's headers."""
    for path in sorted(glob.glob(INPUTS + "/simulated*.cuptiraw")):
        with open(path, "rb") as file:
            data = file.read()
        magic, form, version = struct.unpack_from("<8sII", data)
        want("head", (magic, form), (b"CUPTIRAW", 1))
        sizes = {10: 216 if version >= 130000 else 200, 5: 40, 4: 40, 1: 96 if version >= 26 else 88, 2: 88,
                 38: 56 if version >= 26 else 40, 17: 56 if version >= 24 else 40, 49: 128 if version >= 24 else 120,
                 8: 184 if version >= 24 else 176, 9: 32 if version >= 24 else 16, 12: 56, 39: 24}
        at, texts, kernels, calls = 24, {}, [], []
        while at < len(data):
            what, size, address = struct.unpack_from("<IIQ", data, at)
            at += 16
            if what == 1:
                texts[address] = data[at:at + size].decode()
            record = at
            at += size
            while what == 2 and record < at:
                kind, = struct.unpack_from("<I", data, record)
                if kind == 10:
                    start, end = struct.unpack_from("<QQ", data, record + 16)
                    stream, = struct.unpack_from("<I", data, record + 48)
                    correlation, = struct.unpack_from("<I", data, record + 92)
                    name, = struct.unpack_from("<Q", data, record + 104)
                    kernels.append((start, end, stream, correlation, texts[name].split(" ")[0]))
                if kind in (4, 5):
                    calls.append(struct.unpack_from("<IQQIIII", data, record + 4))
                record += sizes[kind]
        lines = [(line.split(" ", 1)[0], fields(line)) for line in decoded(place, path)[1:]]
        want("kernels", [(int(f["start"]), int(f["end"]), int(f["stream"]), int(f["correlation"]), f["name"].strip('"'))
                         for kind, f in lines if kind == "kernel"], kernels)
        want("calls", [tuple(int(f[k]) for k in ("callback", "start", "end", "process", "thread", "correlation",
                                                 "result")) for kind, f in lines if kind == "call"], calls)


@test
def raw_saved(place):
    """What is saved is what is recorded, also through small buffers and with threads."""
    said, path = saved(place, "load", 0, 0.2, CULPRIT_OPTIONS="buffer=8192")
    c = place.counts()
    got = count(decoded(place, path))
    want_true("there are kernels", said["kernels"] > 100)
    want("kernels saved", got["kernel"], c["kernel"])
    want("calls saved", got["call"], c["call"])
    want("all of them", sum(got.values()), c["written"])


@test
def raw_nowhere(place):
    """A folder that is not there costs the buffers, nothing else."""
    said = place.run("spin", 50, environment=place.recorded(CULPRIT_RAW_BUFFERS=place.path("none")))
    c = place.counts()
    want("kernels", (c["kernel"], c["end"]), (said["kernels"], EXIT))
    want("files", os.listdir(place.folder), ["a.cprt"])


@test
def raw_limit(place):
    """The file stops at the program's limit for files, the program does not."""
    resource = __import__("resource")
    os.makedirs(place.path("raw"))
    p = place.start("spin", 2000, environment=place.recorded(CULPRIT_RAW_BUFFERS=place.path("raw")),
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300000, 300000)))
    p.communicate(timeout=60)
    want("status", p.returncode, 0)
    size = os.path.getsize(glob.glob(place.path("raw") + "/*.cuptiraw")[0])
    want_true(f"{size} bytes are saved", size <= 300000)


@test
def replay(place):
    """A program that does nothing, and whose CUPTI gives the buffers of another."""
    for path in sorted(glob.glob(INPUTS + "/*.cuptiraw")):
        environment = dict(SIMCUPTI_REPLAY=path, CULPRIT_OPTIONS=f"kinds={ALL_KINDS}")
        _, again = saved(place, "idle", 0, 0.5, **environment)
        lines = decoded(place, path)
        c = place.counts()
        for kind, expected in count(lines).items():
            want(f"{kind} of {os.path.basename(path)}", c[kind], expected)
        want("cupti", c["cupti"], int(lines[0].split(" ")[1]))
        # Saved once more it is the same, buffers aside.
        want("what is saved of a replay", decoded(place, again)[1:], lines[1:])
        os.remove(again)
        os.remove(place.path("a.cprt"))
