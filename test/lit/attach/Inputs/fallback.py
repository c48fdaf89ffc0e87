"""Processes of a recorded command that culprit does not hear of. See scenario.py."""

import glob
import os
import subprocess
import sys
import time

from scenario import *

WORKLOAD = os.path.join(TOOLS, "workload")
# For those, as in another container, there is no socket.
NO_SOCKET = "export CULPRIT_CONTROL=/nowhere/control; "


def record(line, *options):
    return culprit("record", "-o", "a.cprt", *options, "--", "/bin/sh", "-c", line)


def captures():
    return sorted(name for name in os.listdir(FOLDER) if name.endswith(".cprt"))


def no_sign_left():
    return glob.glob(FOLDER + "/.culprit-*") == []


def orphan():
    # A process of the command that begins when the command has ended, and culprit with it.
    gone = os.path.join(FOLDER, "gone")
    line = (f"(while ! test -e {gone}; do sleep 0.05; done; {WORKLOAD} spin 5; echo $? > {gone}.status) "
            "> /dev/null 2>&1 & exit 0")
    print(record(line, "--duration", "1").stderr)
    open(gone, "w").close()
    until("the orphan has ended", lambda: size("gone.status") > 0)
    holds("it was well", open(gone + ".status").read() == "0\n")
    holds("it is not recorded", captures() == [])
    holds("nothing is left", no_sign_left())


def killed():
    # Killed, culprit leaves its socket and its sign: neither answers.
    gone = os.path.join(FOLDER, "gone")
    line = (f"echo $$ > {gone}.shell; while ! test -e {gone}; do sleep 0.05; done; {NO_SOCKET} {WORKLOAD} spin 5; "
            f"echo $? > {gone}.status")
    running = subprocess.Popen([CULPRIT, "record", "-o", "a.cprt", "--", "/bin/sh", "-c", line], env=environment(),
                               cwd=FOLDER, stderr=subprocess.DEVNULL)
    until("the command runs", lambda: size("gone.shell") > 0)
    running.kill()
    running.wait()
    open(gone, "w").close()
    until("the command has ended", lambda: size("gone.status") > 0)
    holds("it was well", open(gone + ".status").read() == "0\n")
    holds("it is not recorded", captures() == [])
    # The next one clears up, once nobody can be about to lock it.
    for sign in glob.glob(FOLDER + "/.culprit-*"):
        os.utime(sign, (0, 0))
    record(f"{WORKLOAD} spin 3")
    holds("nothing is left", no_sign_left() and captures() == ["a.cprt"])


def unreachable():
    done = record(NO_SOCKET + f"{WORKLOAD} spin 5", "--kinds=kernels")
    holds("its file is told", "recorded by a process that could not reach culprit" in done.stderr)
    holds("one file", len(captures()) == 1 and captures()[0] != "a.cprt")
    holds("as asked for", counts(captures()[0])["kernel"] == 5 and counts(captures()[0])["call"] == 0)
    holds("nothing is left", no_sign_left())


def timed():
    # The shell holds culprit here: the end is the agent's own.
    process = f"{WORKLOAD} loop 0 4"
    done = record(f"({NO_SOCKET}{process}) & sleep 6; wait", "--duration", "1")
    name = next(name for name in captures() if name != "a.cprt")
    holds("it ends by the time", counts(name)["end"] == 2)
    holds("its file is told", name in done.stderr)


def left():
    # The first kernels stand in the file before culprit is killed.
    line = f"{NO_SOCKET} {WORKLOAD} loop 0 6; echo $? > {os.path.join(FOLDER, 'status')}"
    running = subprocess.Popen([CULPRIT, "record", "-o", "a.cprt", "--", "/bin/sh", "-c", line], env=environment(),
                               cwd=FOLDER, stderr=subprocess.DEVNULL)
    until("the process is recorded", lambda: any(size(name) > 4096 for name in captures() if name != "a.cprt"))
    running.kill()
    running.wait()
    until("the command has ended", lambda: size("status") > 0)
    name = next(name for name in captures() if name != "a.cprt")
    holds("it was well", open(os.path.join(FOLDER, "status")).read() == "0\n")
    holds("it ends without culprit", counts(name)["end"] == 5)


def again():
    # One process, two programs that use CUDA.
    code = ("import ctypes, os; ctypes.CDLL('libcuda.so.1').cuInit(0); "
            f"os.execv('{WORKLOAD}', ['workload', 'spin', '7'])")
    done = record(NO_SOCKET + f'exec {sys.executable} -c "{code}"')
    names = captures()
    holds("two files", len(names) == 2)
    first, second = sorted(names, key=lambda name: ("-2." in name, name))
    holds("the second has a number", second == first.replace(".cprt", "-2.cprt"))
    holds("both are told", first in done.stderr and second in done.stderr)
    holds("the second is whole", counts(second)["kernel"] == 7 and counts(second)["end"] == 3)


def asked():
    # A libcupti that is none ends the attempt, rather than that another one is taken.
    record(NO_SOCKET + f"{WORKLOAD} spin 5", "--cupti", "/etc/passwd")
    holds("the CUPTI that was asked for is taken", all(size(name) == 0 for name in captures()))


play(globals())
