"""Programs that are recorded, in part or to their end. See scenario.py."""

import os
import signal
import subprocess
import sys
import time

from scenario import *


def duration():
    target = start("loop", "0", "5")
    done = culprit("attach", str(target.pid), "--duration", "1", "-o", "a.cprt")
    holds("the folder is gone", no_session_left(target))
    truth, got = said(target), counts("a.cprt")
    holds("recorded a part of what was done", 0 < got["kernel"] < truth["kernels"])
    holds("nothing lost", got["seen"] == got["written"] + got["unwanted"])
    holds("detached", got["end"] == 1)
    holds("the program went on", target.returncode == 0)
    print(done.stderr)
    print(culprit("verify", "a.cprt").stdout)


def exact():
    # Between two words to it, the program does nothing: the counts are exact.
    target = start("shell")
    ask(target, "launch 7")
    running = attach(target, "-o", "a.cprt")
    recording("a.cprt")
    ask(target, "launch 500")
    ask(target, "sync")
    ask(target, "range 3")
    running.send_signal(signal.SIGINT)
    _, words = running.communicate(timeout=LIMIT)
    holds("status 0", running.returncode == 0)
    ask(target, "launch 9")
    got = counts("a.cprt")
    holds("kernels", got["kernel"] == 503)
    holds("waits", got["sync"] == 1)
    # Again, with the agent that is there.
    running = attach(target, "-o", "b.cprt")
    recording("b.cprt")
    ask(target, "launch 40")
    running.send_signal(signal.SIGTERM)
    _, words = running.communicate(timeout=LIMIT)
    holds("kernels again", counts("b.cprt")["kernel"] == 40)
    print(words)
    target.communicate("exit\n", timeout=LIMIT)
    holds("the program went on", target.returncode == 0)


def second_interrupt():
    target = start("loop", "0", "20")
    running = attach(target, "-o", "a.cprt")
    recording("a.cprt")
    # As long as the first is being followed, or it is over already.
    while running.poll() is None:
        running.send_signal(signal.SIGINT)
        time.sleep(0.001)
    _, words = running.communicate(timeout=LIMIT)
    holds("status", running.returncode in (0, 130))
    holds("a word", running.returncode == 0 or "left at once" in words)
    until("the agent ends", lambda: has_ended("a.cprt"))
    holds("the file can be read", counts_of_any("a.cprt") > 0)
    holds("the program runs", target.poll() is None)
    target.kill()


def killed():
    target = start("loop", "0", "20")
    running = attach(target, "-o", "a.cprt")
    recording("a.cprt")
    running.kill()
    running.wait()
    until("the agent ends", lambda: has_ended("a.cprt"))
    got = counts("a.cprt")
    holds("the agent ended by itself", got["end"] == 5)
    holds("the file can be read", counts_of_any("a.cprt") > 0)
    holds("the program runs", target.poll() is None)
    # What was left behind is no hindrance, and is removed.
    culprit("attach", str(target.pid), "--duration", "0.3", "-o", "b.cprt")
    holds("attached again", counts("b.cprt")["kernel"] > 0)
    holds("the folder is gone", no_session_left(target))
    target.kill()


def target_ends():
    target = start("shell")
    running = attach(target, "-o", "a.cprt")
    recording("a.cprt")
    ask(target, "launch 5")
    target.communicate("exit\n", timeout=LIMIT)
    _, words = running.communicate(timeout=LIMIT)
    holds("status 0", running.returncode == 0)
    holds("kernels", counts("a.cprt")["kernel"] == 5)
    print(words)


def target_dies():
    target = start("loop", "0", "20")
    running = attach(target, "-o", "a.cprt")
    recording("a.cprt")
    target.kill()
    target.wait()
    _, words = running.communicate(timeout=LIMIT)
    holds("status 0", running.returncode == 0)
    holds("the file can be read", counts_of_any("a.cprt") > 0)
    print(words)


def no_cuda():
    sleeper = subprocess.Popen([sys.executable, "-c", "import signal; print('ready', flush=True); signal.pause()"],
                               stdout=subprocess.PIPE)
    sleeper.stdout.readline()
    done = culprit("attach", str(sleeper.pid), "--duration", "0.5", "-o", "a.cprt", check=1)
    holds("no file", not os.path.exists(os.path.join(FOLDER, "a.cprt")))
    holds("it runs", sleeper.poll() is None)
    sleeper.kill()
    print(done.stderr)


def busy():
    target = start("loop", "0", "20", SIMCUPTI_BUSY="Some Profiler")
    done = culprit("attach", str(target.pid), "-o", "a.cprt", check=1)
    holds("no file", not os.path.exists(os.path.join(FOLDER, "a.cprt")))
    holds("the program runs", target.poll() is None)
    target.kill()
    print(done.stderr)


def dry_run():
    target = start("shell")
    print(culprit("attach", str(target.pid), "--dry-run").stdout)
    holds("no agent", "culprit" not in open(f"/proc/{target.pid}/maps").read().replace(TOOLS, ""))
    holds("no file", os.listdir(FOLDER) == [])
    target.kill()
    print(culprit("attach", "1", "--dry-run", check=None).stdout.splitlines()[0])


def command_signals():
    # A signal to culprit is one to the command, whose status is culprit's.
    running = subprocess.Popen([CULPRIT, "record", "-o", "a.cprt", "--", os.path.join(TOOLS, "workload"), "loop", "0",
                                "60"], env=environment(), cwd=FOLDER, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    recording("a.cprt")
    running.send_signal(signal.SIGTERM)
    _, words = running.communicate(timeout=LIMIT)
    holds("status of the signal", running.returncode == 128 + signal.SIGTERM)
    holds("the file can be read", counts_of_any("a.cprt") > 0)
    print(words)


def many_children():
    code = f"for i in $(seq 30); do {os.path.join(TOOLS, 'workload')} spin 3; done"
    done = subprocess.run(["/bin/sh", "-c", 'ulimit -n 25; exec "$@"', "sh", CULPRIT, "record", "-o", "a.cprt", "--",
                           "/bin/sh", "-c", code], env=environment(), cwd=FOLDER, capture_output=True, text=True,
                          timeout=LIMIT)
    holds("status 0", done.returncode == 0)
    holds("a file each", len([name for name in os.listdir(FOLDER) if name.endswith(".cprt")]) == 30)
    holds("a summary each", done.stderr.count("  records: 3 kernels") == 30 and "Too many" not in done.stderr)


def default_name():
    culprit("record", "--quiet", "--", os.path.join(TOOLS, "workload"), "spin", "3")
    print(os.listdir(FOLDER))


play(globals())
