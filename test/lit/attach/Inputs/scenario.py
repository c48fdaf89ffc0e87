"""What the scenarios of `culprit attach` and `culprit record` have in common.

Each file of scenarios is called as

    FILE.py CULPRIT TOOLS FOLDER SCENARIO

starts a program on the simulated device in TOOLS, does to it what the scenario's
name says, and prints what held, a line each. FOLDER is emptied first. Waits are
generous limits, never measures.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

CULPRIT, TOOLS, FOLDER, SCENARIO = sys.argv[1:]
LIMIT = 120


def environment(**more):
    out = {k: v for k, v in os.environ.items() if not k.startswith(("SIMCU", "CUDA_INJECTION", "CULPRIT_A"))}
    out.update(LD_LIBRARY_PATH=TOOLS, SIMCUPTI_STRICT="1", **more)
    return out


def start(*words, **more):
    """A workload that runs and has said its number."""
    process = subprocess.Popen([os.path.join(TOOLS, "workload"), *words], env=environment(**more), text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1)
    assert process.stdout.readline() == f"pid {process.pid}\n"
    return process


def ask(process, command):
    process.stdin.write(command + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line.startswith("ok "), line


def culprit(*words, check=0):
    done = subprocess.run([CULPRIT, *words], env=environment(), cwd=FOLDER, capture_output=True, text=True,
                          timeout=LIMIT)
    if check is not None and done.returncode != check:
        sys.exit(f"culprit {' '.join(words)} ended with {done.returncode}: {done.stderr}{done.stdout}")
    return done


def attach(process, *words):
    return subprocess.Popen([CULPRIT, "attach", str(process.pid), *words], env=environment(), cwd=FOLDER, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def until(what, holds):
    end = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"not within {LIMIT} s: {what}")
        time.sleep(0.02)


def size(name):
    path = os.path.join(FOLDER, name)
    return os.path.getsize(path) if os.path.exists(path) else 0


def recording(name):
    """Waits until records are being written: a superblock comes first."""
    until("the recording begins", lambda: size(name) > 4096)


def counts(name):
    """What the capture holds; fails when it contradicts itself."""
    done = subprocess.run([os.path.join(TOOLS, "capture-counts"), os.path.join(FOLDER, name)], capture_output=True,
                          text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def said(process):
    out, _ = process.communicate(timeout=LIMIT)
    words = out.split()
    return {k: int(v) for k, v in zip(words[::2], words[1::2])}


def holds(what, is_so):
    print("yes" if is_so else "NO", what)


def no_session_left(process):
    """The folder that the process has its agent from is gone."""
    lines = [line for line in open(f"/proc/{process.pid}/maps") if "libculprit-agent.so" in line]
    return lines and all("(deleted)" in line for line in lines)


def has_ended(name):
    """Whether the agent has written its last word."""
    done = subprocess.run([CULPRIT, "verify", name], cwd=FOLDER, capture_output=True, text=True, timeout=LIMIT)
    return "ended: " in done.stdout


def counts_of_any(name):
    return culprit("verify", name).stdout.count("good")


def play(scenarios):
    """Runs the scenario that the command line names out of those of a file."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    scenarios[SCENARIO.replace("-", "_")]()
