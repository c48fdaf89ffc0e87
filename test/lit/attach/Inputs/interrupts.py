"""Ctrl-C and the end of time, in attach and in record. See scenario.py."""

import os
import pty
import signal
import subprocess
import time

from scenario import *

WORKLOAD = os.path.join(TOOLS, "workload")


def agent_is_in(process):
    return "libculprit-agent.so" in open(f"/proc/{process.pid}/maps").read()


def second_at_once():
    # CUPTI takes seconds to begin: the agent cannot answer the first one.
    target = start("loop", "0", "60", SIMCUPTI_SLOW_MS="1000")
    running = attach(target, "-o", "a.cprt")
    until("the agent begins", lambda: agent_is_in(target) and os.path.exists(os.path.join(FOLDER, "a.cprt")))
    running.send_signal(signal.SIGINT)
    time.sleep(0.5)
    holds("the first waits for the agent", running.poll() is None)
    running.send_signal(signal.SIGINT)
    _, words = running.communicate(timeout=LIMIT)
    holds("status 130", running.returncode == 130)
    holds("the program runs", target.poll() is None)
    holds("an empty file is removed", not os.path.exists(os.path.join(FOLDER, "a.cprt")))
    target.kill()
    print(words)


def no_thread():
    # No thread to borrow for seconds: Ctrl-C does not wait for them.
    target = subprocess.Popen([os.path.join(os.path.dirname(TOOLS), "attach", "waits"), "--kinds", "none", "--busy", "0"],
                              stdout=subprocess.PIPE)
    target.stdout.readline()
    running = attach(target, "-o", "a.cprt")
    until("it is looked at", lambda: b"has not loaded libcuda" in os.read(running.stderr.fileno(), 4096))
    time.sleep(0.3)
    running.send_signal(signal.SIGINT)
    _, words = running.communicate(timeout=LIMIT)
    holds("status 130", running.returncode == 130)
    holds("no file", os.listdir(FOLDER) == [])
    holds("the program runs", target.poll() is None)
    holds("nothing was left in it", not agent_is_in(target))
    print(words)
    # Again, at once: nobody of before is in the way. To its end, the search says what there was and what to do.
    print(culprit("attach", str(target.pid), "-o", "b.cprt", check=1).stderr)
    target.kill()


class Terminal:
    """A command with a terminal of its own, where Ctrl-C reaches all of it."""

    def __init__(self, *words):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(FOLDER)
            with open("words", "w") as out:
                os.dup2(out.fileno(), 2)
            os.execve(words[0], words, environment())

    def interrupt(self):
        os.write(self.fd, b"\x03")

    def end(self):
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        with open(os.path.join(FOLDER, "words")) as text:
            return os.waitstatus_to_exitcode(status), text.read()


def record_command_ends():
    # The command ends by Ctrl-C, as ever; what it did until then is there.
    terminal = Terminal(CULPRIT, "record", "-o", "a.cprt", "--", WORKLOAD, "loop", "0", "60")
    recording("a.cprt")
    terminal.interrupt()
    status, words = terminal.end()
    holds("the status of the command", status == 128 + signal.SIGINT)
    holds("the file can be read", counts_of_any("a.cprt") > 0)
    print(words)


def record_command_goes_on():
    # The command ignores it: the recording ends, the command does not.
    terminal = Terminal(CULPRIT, "record", "-o", "a.cprt", "--", "/bin/sh", "-c",
                        f"trap '' INT; {WORKLOAD} loop 0 4; exit 5")
    recording("a.cprt")
    terminal.interrupt()
    until("the recording ends", lambda: has_ended("a.cprt"))
    status, words = terminal.end()
    holds("the status of the command", status == 5)
    holds("the file can be read", counts_of_any("a.cprt") > 0)
    print(words)


def record_second():
    terminal = Terminal(CULPRIT, "record", "-o", "a.cprt", "--", "/bin/sh", "-c",
                        f"trap '' INT; {WORKLOAD} loop 0 20")
    recording("a.cprt")
    begun = time.monotonic()
    terminal.interrupt()
    until("the recording ends", lambda: has_ended("a.cprt"))
    terminal.interrupt()
    status, words = terminal.end()
    holds("status 130", status == 130)
    holds("at once", time.monotonic() - begun < 15)
    holds("the file can be read", counts_of_any("a.cprt") > 0)
    print(words)


def record_duration():
    done = culprit("record", "-o", "a.cprt", "--duration", "0.5", "--", WORKLOAD, "loop", "0", "3")
    words = done.stdout.split()
    truth, got = int(words[words.index("kernels") + 1]), counts("a.cprt")
    holds("recorded a part of what was done", 0 < got["kernel"] < truth)
    holds("the agent was asked to end", got["end"] == 1)
    print(done.stderr)


play(globals())
