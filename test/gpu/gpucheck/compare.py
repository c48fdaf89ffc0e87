"""Holds a capture against what the program says that it did."""

import glob
import json
import os
import shutil
import struct
import subprocess

from gpucheck.programs import last, run_culprit
from gpucheck.runner import Failed

SMALL = 64 << 10
DETACHED, EXIT, LOST = 1, 3, 5  # Reasons of an end; see lib/Capture/Format.h.


def counts(step, tools, capture):
    """What the capture holds; fails when it contradicts itself."""
    if not os.path.exists(capture):
        raise Failed("the capture", os.path.basename(capture), "no such file")
    done = subprocess.run([tools.counts, capture], env=tools.own_environment(), capture_output=True, text=True,
                          timeout=step.left())
    step.log(done.stdout + done.stderr)
    if not done.stdout:
        raise Failed("the capture", "one that can be read", last(done.stderr))
    step.want("capture-counts: exit status", 0, done.returncode)
    return json.loads(done.stdout)


def verify(step, tools, *captures):
    """culprit's own check; the notes of all."""
    done = run_culprit(step, tools, "verify", "--format=json", *captures, status=None)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise Failed("culprit verify", "its JSON", last(done.stderr)) from None
    for one in found:
        step.want(f"culprit verify {os.path.basename(one['path'])}: broken", [], one["broken"])
    return [note for one in found for note in one["notes"]]


def total(found, key):
    """The count of \\p key; of kernels and calls by a part of their names."""
    kind, _, name = key.partition(" ")
    if kind in ("kernel", "call", "streams") and name:
        return sum(v for k, v in found.items() if k.startswith(kind + " ") and name in k)
    return found.get(key, 0)


def warm(found):
    """Kernels of the preparation."""
    return total(found, "kernel warm")


def memory_of(step, tools, capture, size):
    """Allocations, frees and the peak of those of \\p size bytes."""
    done = run_culprit(step, tools, "sql", "--format=csv", capture,
                       "select sum(bytes > 0), sum(bytes < 0), max(live) from (select bytes, sum(bytes) over "
                       "(order by at rows unbounded preceding) as live from memory_events "
                       f"where abs(bytes) = {size})")
    cells = done.stdout.strip().split("\n")[-1].split(",")
    return dict(zip(("allocated", "freed", "peak"), (int(c) if c.isdigit() else 0 for c in cells)))


def compare(step, tools, capture, truth, found, attached=False):
    """Says of each thing that the program did whether the capture has it."""
    kernels = sum(v for k, v in truth.items() if k.startswith("kernel "))
    for key, value in truth.items():
        if key.startswith("log ") or key == "children":
            continue
        least = key.startswith("least ")
        key = key.removeprefix("least ")
        seen = total(found, key)
        if key == "call cudaLaunchKernel" and not attached:
            value += warm(found)  # The preparation launches, too.
        if key == "marker" and attached:
            # NVTX looks for a tool by the environment alone: docs/capture.md says so.
            step.want("NVTX marks by an attach", 0, seen)
        elif key.startswith("paging_bytes") and not seen and any("activity kind" in s for s in found["states"]):
            step.note("page migrations are not supported here, and the capture says so: " + "; ".join(found["states"]))
        elif key.startswith("memory_of"):
            _, size, what = key.split()
            seen = memory_of(step, tools, capture, size)[what]
            step.want(f"memory in blocks of {size} bytes, {what}", value, seen)
        elif key == "kernel_ns":
            more = (seen - value) / max(kernels, 1)
            step.measure("longer_than_measured_percent", 100 * (seen - value) / value)
            # CUPTI's time has the start and the end of a kernel in it, which
            # its own clock cannot see: a constant, so 2 % of a long one.
            step.want_true("time of the kernels, ns a kernel above what the device measured",
                           -0.01 * value / kernels <= more <= max(4000, 0.02 * value / kernels),
                           f"-1 % to {max(4000, 0.02 * value / kernels):.0f}", f"{more:.0f}")
        elif key == "overlap":
            step.want_true("time of copies and kernels at once", found.get("overlap_ns", 0) > 0, "above 0 ns",
                           found.get("overlap_ns", 0))
        elif key == "concurrency":
            times = found["kernel_ns"] / max(found["kernel_union_ns"], 1)
            step.measure("kernels_at_once", times)
            if kernels >= 16:
                step.want_true("kernels at once", 0.9 * value <= times <= 1.001 * value, f"{0.9 * value} to {value}",
                               f"{times:.3f}")
        elif least:
            step.want_true(key, seen >= value, f"at least {value}", seen)
        else:
            step.want(key, value, seen)
    if found["copy"]:
        step.measure("copies", found["copy"])  # One may be told in pieces.
    whole(step, found)


def whole(step, found, under_way=0):
    """Nothing is lost, nameless or without its call; but for the launches that
    were \p under_way when the recording of a busy program began."""
    step.want("records lost", 0, found["seen"] - found["written"] - found["unwanted"])
    if under_way:
        step.measure("kernels_without_their_call", found["unjoined"])
        step.want_true("kernels without their call", found["unjoined"] <= under_way,
                       f"at most {under_way}, under way when it began", found["unjoined"])
    else:
        step.want("kernels without their call", 0, found["unjoined"])
    step.want("records without a name", 0, found["unnamed"])
    step.want("records that end before they begin", 0, found["bad_time"])
    step.note(f"{found['written']} records")
    if found["doubled"]:
        step.measure("launches_with_the_correlation_of_another", found["doubled"])
    for state in found["states"]:
        code, _, words = state.partition(" ")
        if code not in ("6", "7"):  # How it detached; culprit tells that.
            step.note("agent: " + words)


def thin(source, target, size=SMALL):
    """Copies whole frames up to \\p size bytes: as the file of a program that
    was killed there. Whether it was cut."""
    if os.path.getsize(source) <= size:
        shutil.copy(source, target)
        return False
    with open(source, "rb") as f:
        data = f.read(size)
    at = 4096
    while at + 32 <= len(data) and data[at:at + 4] == b"CPRF":
        payload = struct.unpack_from("<I", data, at + 8)[0]
        after = at + 32 + (payload + 7) // 8 * 8
        if after > len(data):
            break
        at = after
    with open(target, "wb") as f:
        f.write(data[:at])
    return True


def keep(step, capture, name):
    """Puts a small form of the capture into the folder of captures."""
    folder = os.path.join(step.out, "captures")
    os.makedirs(folder, exist_ok=True)
    if os.path.exists(capture):
        cut = thin(capture, os.path.join(folder, name + ".cprt"))
        step.log(f"kept as captures/{name}.cprt{', the first 64 KiB' if cut else ''}")


def keep_raw(step, folder, name):
    """Puts the buffers that the agent saved in \\p folder beside the capture:
    whole chunks of lib/Agent/RawDump.h, as many as are small."""
    for found in sorted(glob.glob(os.path.join(folder, "*.cuptiraw"))):
        with open(found, "rb") as f:
            data = f.read(SMALL)
        at = 24
        while at + 16 <= len(data):
            size = struct.unpack_from("<I", data, at + 4)[0]
            if at + 16 + size > len(data):
                break
            at += 16 + size
        step.log(f"kept {at} of {os.path.getsize(found)} bytes of CUPTI's buffers as captures/{name}.cuptiraw")
        if at == os.path.getsize(found) or at > 4096:
            with open(os.path.join(step.out, "captures", name + ".cuptiraw"), "wb") as f:
                f.write(data[:at])
