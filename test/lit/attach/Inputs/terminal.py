"""The line on the state of a recording, which a terminal shows. See scenario.py."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

from scenario import *



def watched(target, columns, seconds=2.5, **more):
    """What `culprit attach` writes to a terminal of so many columns."""
    return shown(columns, "attach", str(target.pid), "--duration", str(seconds), "-o", "a.cprt", **more)


def shown(columns, *words, **more):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    running = subprocess.Popen([CULPRIT, *words], env=environment(**more), cwd=FOLDER, stdin=theirs, stdout=theirs,
                               stderr=theirs)
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Nobody has the other end any more.
            break
        if not part:
            break
        text += part
    os.close(ours)
    holds("status 0", running.wait(timeout=LIMIT) == 0)
    return text.decode()


def states(text):
    """The texts that were shown one over the other."""
    parts = re.split(r"[\r\n]+", text)
    return [part.split("\x1b[K")[0] for part in parts if "\x1b[K" in part and not part.startswith("\x1b")]


def wide():
    target = start("loop", "0", "60")
    text = watched(target, 200, 3, TERM="xterm")
    target.kill()
    lines = states(text)
    holds("it is renewed", len(lines) > 2)
    print("\n".join(lines))
    holds("no colour", not re.search(r"\x1b\[[0-9;]*m", text))
    holds("it is wiped away", "\r\x1b[Krecorded workload" in text)


def losses():
    # Kernels without times are lost, and shown as soon as it is known.
    target = start("rate", "5000", "60", SIMCUPTI_ZERO_TIMES="3")
    lines = states(watched(target, 160, TERM="xterm"))
    target.kill()
    print(lines[-1])
    holds("losses are counted", re.search(r" [1-9][0-9,]* lost", lines[-1]))


def narrow():
    target = start("rate", "20000", "60")
    for columns in 40, 12:
        lines = states(watched(target, columns, 1.5, TERM="xterm"))
        os.remove(os.path.join(FOLDER, "a.cprt"))
        holds(f"within {columns} columns", lines and max(map(len, lines)) < columns)
    target.kill()


def recorded():
    # The terminal is the command's: one line before it, the summary after it.
    text = shown(80, "record", "-o", "a.cprt", "--", os.path.join(TOOLS, "workload"), "spin", "5", TERM="xterm")
    holds("no line that is renewed", "\x1b[K" not in text)
    print(text)


def dumb():
    # A terminal that cannot go back is not written over.
    target = start("rate", "20000", "60")
    text = watched(target, 80, 1.5, TERM="dumb")
    target.kill()
    holds("no control characters", "\x1b" not in text and "\r" not in text.replace("\r\n", "\n"))
    print(text)


play(globals())
