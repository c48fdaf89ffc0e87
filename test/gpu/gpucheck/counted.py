"""Workloads that know exactly what they did: recorded, and attached to."""

import json
import os
import subprocess
import time

from gpucheck.compare import DETACHED, EXIT, compare, counts, keep, keep_raw, total, verify, warm, whole
from gpucheck.programs import Attached, Program, Scratch, last, truth_of
from gpucheck.runner import Failed, Skipped

PAGING = ("--kinds=default,paging",)


def options(name):
    return PAGING if name == "managed" else ()


def alone(step, tools, names):
    """Each workload without culprit: what fails here is none of its doing."""
    for name in names:
        command = tools.command(name, max(tools.divisor, 20))
        step.log("$ " + " ".join(command))
        try:
            done = subprocess.run(command, env=tools.environment(), stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, errors="replace", timeout=min(20, step.left()), check=False)
        except subprocess.TimeoutExpired:
            step.want(f"{name} without culprit", "its end within 20 s", "still running")
            continue
        step.log(done.stdout + done.stderr)
        if '"skipped"' not in done.stdout:
            step.want(f"{name} without culprit: exit status", 0, done.returncode)


def record_once(step, tools, name, capture, divisor=None, raw=None):
    """`culprit record` of a workload; what the program says that it did. With
    \\p raw CUPTI's buffers are saved in that folder."""
    command = [tools.culprit, "record", *tools.cupti_option(), *options(name), "-o", capture, "--",
               *tools.shielded(tools.command(name, divisor))]
    step.log("$ " + " ".join(command))
    try:
        environment = {**tools.own_environment(), **({"CULPRIT_RAW_BUFFERS": raw} if raw else {})}
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=step.left())
    except subprocess.TimeoutExpired as error:
        step.log(str(error.stderr))
        raise
    step.log(done.stdout + done.stderr)
    lines = [line for line in done.stdout.split("\n") if line.startswith("{")]
    if not lines:
        raise Failed(f"culprit record of {name}", "what the program did, on its standard output",
                     f"exit status {done.returncode}: {last(done.stderr)}")
    truth = truth_of(lines[-1], name)
    step.want("culprit record: exit status, that of the program", 0, done.returncode)
    return truth


def record(step, tools):
    """Everything from the first call on."""
    with Scratch(step) as scratch:
        capture = scratch / "a.cprt"
        truth = record_once(step, tools, step.name, capture)
        found = counts(step, tools, capture)
        compare(step, tools, capture, truth, found)
        step.want("reason of the end", EXIT, found["end"])
        verify(step, tools, capture)
        if "children" in truth:
            others = sorted(n for n in os.listdir(scratch.path) if n.endswith(".cprt") and n != "a.cprt")
            step.want("captures of children that use CUDA", truth["children"], len(others))
            for other in others:
                child = counts(step, tools, scratch / other)
                step.want(f"kernels of the child in {other}", 50, child.get("kernel", 0) - warm(child))
        log_seconds(step, truth)


def log_seconds(step, truth):
    for key, value in truth.items():
        if key.startswith("log "):
            step.measure(key[4:], value)


def first_record(program, capture, at_word, limit=3):
    """Seconds from the word to go until records are in the file."""
    until = time.monotonic() + limit
    before = os.path.getsize(capture)
    program.say("go")
    # A heartbeat alone is less.
    while time.monotonic() < until and os.path.getsize(capture) < before + 200:
        time.sleep(0.002)
    return time.monotonic() - at_word


def attach(step, tools):
    """Everything between the attach and the detach."""
    with Scratch(step) as scratch:
        capture = scratch / "a.cprt"
        program = Program(step, tools, step.name).ready()
        program.threads(os.path.join(step.out, "threads.tsv"))
        session = Attached(step, tools, program, capture, "--duration=100", *options(step.name))
        step.measure("attach_ms", 1000 * session.took)
        if stopped := session.stopped_us():
            step.measure("stopped_us", stopped)
        latency = first_record(program, capture, time.monotonic())
        truth = truth_of(program.line("a round", 120), step.name)
        step.measure("first_record_ms", 1000 * latency)
        step.measure("finish_ms", 1000 * session.finish())
        step.note("detached: " + session.detached())
        found = counts(step, tools, capture)
        compare(step, tools, capture, truth, found, attached=True)
        step.want("reason of the end", DETACHED, found["end"])
        verify(step, tools, capture)
        # It works as before, and nothing more is recorded.
        size = os.path.getsize(capture)
        if step.name in ("spin", "stream-sync", "driver"):
            program.go()
            step.want("bytes of the capture after the detach", size, os.path.getsize(capture))
        program.end()
        keep(step, capture, step.title())
        log_seconds(step, truth)


def attach_late(step, tools):
    """A program that has no CUDA yet: the agent waits for it. What the program
    does while CUPTI is being enabled may be missed, what comes then may not."""
    with Scratch(step) as scratch:
        capture = scratch / "a.cprt"
        program = Program(step, tools, "late").ready()
        program.threads(os.path.join(step.out, "threads.tsv"))
        session = Attached(step, tools, program, capture, "--duration=100", until="the agent came in")
        first = program.go()["kernel empty"]
        session.wait_for("attached to ", 10)
        # The words come a moment after the beginning, never before it.
        second = program.go()["kernel empty"]
        session.finish()
        step.note("detached: " + session.detached())
        found = counts(step, tools, capture)
        seen = total(found, "kernel empty")
        step.want_true("kernels once CUDA is there", second <= seen <= first + second,
                       f"{second} of the second round and at most {first} of the first", seen)
        step.measure("of_the_first_round_recorded", seen - second)
        whole(step, found)
        step.want("reason of the end", DETACHED, found["end"])
        verify(step, tools, capture)
        program.end()
        keep(step, capture, step.title())


# Of each a part that fits 64 KiB; of the others a twentieth.
PARTS = {"graph-after": 100, "launches": 5000, "spin": 100, "stream-sync": 100, "memory": 50, "streams": 1, "pinned": 1,
         "managed": 10}


def samples(step, tools):
    """Small whole captures, what is in them, and CUPTI's buffers as they came,
    for test/Inputs."""
    folder = os.path.join(step.out, "captures")
    os.makedirs(folder, exist_ok=True)
    names = ["spin", "pageable", "pinned", "stream-sync", "events", "launches", "streams", "sets", "memory",
             "graph-after", "managed", "ranges", "driver"]
    if tools.simulated:
        names = [n for n in names if n not in ("events", "managed")]
    made = skipped = 0
    with open(os.path.join(folder, "truth.txt"), "w", encoding="utf-8") as said:
        for name in names:
            if step.left() < 15:
                step.note(f"no time left for {name} and those behind it")
                break
            with Scratch(step) as scratch:
                try:
                    truth = record_once(step, tools, name, scratch / "a.cprt", PARTS.get(name, 20), scratch.path)
                except (Skipped, Failed) as error:
                    step.note(f"no sample of {name}: {error}")
                    skipped += isinstance(error, Skipped)
                    continue
                said.write(f"{name}: {json.dumps(truth)}\n")
                keep(step, scratch / "a.cprt", name)
                keep_raw(step, scratch.path, name)
                made += 1
    step.want("samples", len(names) - skipped, made)
