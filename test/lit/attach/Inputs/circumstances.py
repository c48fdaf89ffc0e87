"""Programs and machines that are in the way of a recording. See scenario.py."""

import os
import subprocess
import sys

from scenario import *

WORKLOAD = os.path.join(TOOLS, "workload")


def diagnose():
    target = start("loop", "0", "8")
    done = culprit("attach", str(target.pid), "--duration", "1", "-o", "a.cprt", "--diagnose")
    target.kill()
    print(done.stderr)
    print(done.stdout)


def twice():
    target = start("loop", "0", "60")
    running = attach(target, "-o", "a.cprt")
    recording("a.cprt")
    print(culprit("attach", str(target.pid), "-o", "b.cprt", check=1).stderr)
    holds("no second file", not os.path.exists(os.path.join(FOLDER, "b.cprt")))
    running.terminate()
    running.communicate(timeout=LIMIT)
    holds("the first is unharmed", running.returncode == 0 and counts_of_any("a.cprt") > 0)
    target.kill()


def closed_stderr():
    target = start("loop", "0", "60")
    line = f"exec {CULPRIT} attach {target.pid} --duration 0.5 -o a.cprt 2>&-"
    done = subprocess.run(["/bin/sh", "-c", line], env=environment(), cwd=FOLDER, timeout=LIMIT)
    holds("status 0", done.returncode == 0)
    holds("the file is good", counts("a.cprt")["kernel"] > 0 and counts_of_any("a.cprt") > 0)
    target.kill()


def forks():
    # The child has no agent: what it does is not the parent's.
    target = start("shell")
    running = attach(target, "-o", "a.cprt")
    recording("a.cprt")
    ask(target, "launch 5")
    ask(target, "fork 100")
    ask(target, "launch 6")
    running.terminate()
    _, words = running.communicate(timeout=LIMIT)
    holds("status 0", running.returncode == 0)
    holds("the parent's kernels", counts("a.cprt")["kernel"] == 11)
    target.communicate("exit\n", timeout=LIMIT)
    holds("the program went on", target.returncode == 0)


def executes():
    code = ("import ctypes, os, sys; ctypes.CDLL('libcuda.so.1').cuInit(0); print('ready', flush=True); "
            "sys.stdin.readline(); os.execvp('sleep', ['sleep', '300'])")
    target = subprocess.Popen([sys.executable, "-c", code], env=environment(), text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    target.stdout.readline()
    running = attach(target, "-o", "a.cprt")
    recording("a.cprt")
    target.stdin.write("\n")
    target.stdin.flush()
    _, words = running.communicate(timeout=LIMIT)
    holds("status 0", running.returncode == 0)
    holds("the file can be read", counts_of_any("a.cprt") > 0)
    target.kill()
    print(words)


def named():
    target = start("loop", "0", "60")
    done = culprit("attach", "workload", check=2)
    print(done.stderr)
    holds("its number is told", f" {target.pid} (has libcuda)" in done.stderr)
    target.kill()


def places():
    """Files that cannot be made are told before the process is touched."""
    target = start("loop", "0", "60")
    open(os.path.join(FOLDER, "there.cprt"), "w").close()
    for place in "there.cprt", "/proc/a.cprt", "none/a.cprt", ".":
        done = culprit("attach", str(target.pid), "-o", place, check=2)
        print(f"{place}: {done.stderr.strip()}")
    holds("the process was not touched", "libculprit-agent" not in open(f"/proc/{target.pid}/maps").read())
    done = culprit("record", "-o", "/proc/a.cprt", "--", "/bin/sh", "-c", "echo it ran", check=2)
    holds("the command was not started", "it ran" not in done.stdout)
    target.kill()


def full():
    """A disk of 64 KiB."""
    target = start("loop", "0", "60")
    # The full path: "." is still the folder below the new mount.
    inner = (f"mount -t tmpfs -o size=64k none {FOLDER} && "
             f"exec {CULPRIT} attach {target.pid} --duration 1 -o {FOLDER}/a.cprt")
    done = subprocess.run(["unshare", "-m", "/bin/sh", "-c", inner], env=environment(), cwd=FOLDER,
                          capture_output=True, text=True, timeout=LIMIT)
    print(f"full: status {done.returncode}: {done.stderr}")
    lost = "records could not be written" in done.stderr
    holds("what was lost is told", lost and "write failed: No space left on device" in done.stderr)
    holds("what to do is told", "note: make room, name a file on another disk" in done.stderr)
    holds("the program runs", target.poll() is None)
    target.kill()


def in_own_mounts(option, folder):
    """A program whose folders that can be written all have \\p option."""
    inner = " && ".join(f"mount -t tmpfs -o {option} none {place}" for place in ("/tmp", "/dev/shm"))
    # By descriptor: the new /tmp may hide the program and its libraries.
    inner = (f"exec 8<{WORKLOAD} 9<{TOOLS} && export LD_LIBRARY_PATH=/proc/self/fd/9 && {inner} && cd {folder} && "
             "exec /proc/self/fd/8 loop 0 60")
    process = subprocess.Popen(["unshare", "-m", "/bin/sh", "-c", inner], env=environment(), text=True,
                               stdout=subprocess.PIPE)
    if process.stdout.readline() != f"pid {process.pid}\n":
        sys.exit("no program in mounts of its own")
    return process


def descriptors(process):
    return sorted(os.listdir(f"/proc/{process.pid}/fd"))


def no_code():
    """No folder that code may be loaded from: a file in memory."""
    target = in_own_mounts("noexec", "/tmp")
    before = descriptors(target)
    for name in "a.cprt", "b.cprt":
        done = culprit("attach", str(target.pid), "--duration", "0.5", "-o", name)
        holds("recorded", counts(name)["kernel"] > 0 and counts(name)["end"] == 1)
    holds("the second time by the agent that is there", "has the agent already" in done.stderr)
    code = [line for line in open(f"/proc/{target.pid}/maps") if "r-xp" in line and "/memfd:libculprit-agent" in line]
    holds("one agent in memory", len(code) == 1)
    holds("no descriptor is left", descriptors(target) == before)
    holds("no folder is left", os.listdir(f"/proc/{target.pid}/root/tmp") == [])
    holds("the program runs", target.poll() is None)
    target.kill()


def no_folder():
    target = in_own_mounts("ro", "/proc")
    print(culprit("attach", str(target.pid), "-o", "a.cprt", check=1).stderr)
    holds("the program runs", target.poll() is None)
    target.kill()


play(globals())
