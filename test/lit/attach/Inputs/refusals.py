"""Processes that cannot be attached to. See scenario.py; beside TOOLS lies the
folder of the programs that are refused."""

import os
import shutil
import signal
import subprocess
import sys

from scenario import *

TARGETS = os.path.join(os.path.dirname(TOOLS), "attach")


def refused(name, pid, *before):
    done = subprocess.run([*before, CULPRIT, "attach", str(pid), "-o", "a.cprt"], env=environment(), cwd=FOLDER,
                          capture_output=True, text=True, timeout=LIMIT)
    print(f"{name}: status {done.returncode}: {done.stderr.strip()}")
    holds("no file", not os.path.exists(os.path.join(FOLDER, "a.cprt")))


def program(name):
    process = subprocess.Popen([os.path.join(TARGETS, name)], stdout=subprocess.PIPE, text=True)
    until(f"{name} runs", lambda: name in os.readlink(f"/proc/{process.pid}/exe"))
    return process


def programs():
    """Those that can load no library of ours."""
    for name in "plain-static", "bits32", "musl":
        if not os.path.exists(os.path.join(TARGETS, name)):
            print(f"{name}: not built here")
            continue
        process = program(name)
        refused(name, process.pid)
        process.kill()
        process.wait()


def states():
    """Those that are no running program, or another's."""
    process = start("loop", "0", "300")
    refused("thread", max(map(int, os.listdir(f"/proc/{process.pid}/task"))))
    tracer = subprocess.Popen([os.path.join(TARGETS, "tracer"), str(process.pid)], stdout=subprocess.PIPE)
    tracer.stdout.readline()
    refused(f"traced by {tracer.pid}", process.pid)
    tracer.kill()
    tracer.wait()
    process.send_signal(signal.SIGSTOP)
    until("it stops", lambda: "\nState:\tT" in open(f"/proc/{process.pid}/status").read())
    refused("stopped", process.pid)
    process.kill()
    until("it ends", lambda: "\nState:\tZ" in open(f"/proc/{process.pid}/status").read())
    refused("zombie", process.pid)
    process.wait()
    refused("gone", process.pid)
    # The shell's number becomes culprit's.
    done = subprocess.run(["/bin/sh", "-c", f'exec "{CULPRIT}" attach $$'], env=environment(), cwd=FOLDER,
                          capture_output=True, text=True, timeout=LIMIT)
    print(f"itself: status {done.returncode}: {done.stderr.strip()}")
    if "\nVmSize" not in open("/proc/2/status").read() if os.path.exists("/proc/2") else False:
        refused("kernel", 2)
    else:
        print("kernel: none to be seen here")


def other_user():
    process = start("loop", "0", "300")
    if os.geteuid() == 0 and shutil.which("setpriv"):
        os.chmod(FOLDER, 0o777)
        refused("other user", process.pid, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    else:
        print("other user: wants root and setpriv")
    process.kill()


def hidden():
    """Where users do not see the processes of others."""
    if os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("unshare"):
        return print("hidden: wants root, setpriv and unshare")
    process = start("loop", "0", "300")
    inner = (f"mount -t proc -o hidepid=2 none /proc && echo mounted && exec setpriv --reuid=65534 --regid=65534 "
             f"--clear-groups {CULPRIT} attach {process.pid}")
    os.chmod(FOLDER, 0o777)
    done = subprocess.run(["unshare", "-m", "/bin/sh", "-c", inner], env=environment(), cwd=FOLDER,
                          capture_output=True, text=True, timeout=LIMIT)
    hides = done.stdout == "mounted\n"
    print(f"hidden: status {done.returncode}: {done.stderr.strip()}" if hides else "hidden: no mounts here")
    process.kill()


def strict():
    """Strict seccomp: the process may only read and write."""
    # All that takes memory comes before: to ask for more is forbidden.
    code = ("import ctypes; libc = ctypes.CDLL(None); room = ctypes.create_string_buffer(1); "
            "prctl, write, read = libc.prctl, libc.write, libc.read; read(-1, room, 1); write(-1, b'.', 1); "
            "prctl(22, 1, 0, 0, 0); write(1, b'.', 1); read(0, room, 1)")
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if process.stdout.read(1) == b"." and "\nSeccomp:\t1\n" in open(f"/proc/{process.pid}/status").read():
        refused("strict", process.pid)
    else:
        print("strict: cannot be made here")
    process.kill()
    process.wait()


play(globals())
