"""Runs steps one after the other, each in a process of its own.

A step is a function that takes a Step and says by want() what it expected and
what it saw. It runs in a forked child with a session of its own, under a time
limit: when that is over, everything of the session is killed and the rest goes
on. Nothing that a step does can end the others.
"""

import json
import os
import pickle
import select
import signal
import sys
import time
import traceback

AGREES, WRONG, SKIPPED, NOT_RUN = "agrees", "WRONG", "skipped", "not run"


class Skipped(Exception):
    """Cannot be done here; the text says why."""


class Failed(Exception):
    """Ends a step: what was expected, and what was seen in its place."""

    def __init__(self, what, expected, seen):
        super().__init__(f"{what}: expected {expected}, saw {seen}")
        self.failure = {"what": what, "expected": str(expected), "seen": str(seen)}


class Step:
    """What a step says and where it may write."""

    def __init__(self, point, name, how, limit, out):
        self.point, self.name, self.how, self.limit = point, name, how, limit
        self.log_path = os.path.join("logs", f"{self.title()}.log")
        self.out = out
        self.failures, self.measured, self.words = [], {}, []
        self.begin = time.monotonic()

    def title(self):
        return f"{self.name}-{self.how}" if self.how else self.name

    def log(self, text):
        """Into the step's log, with the seconds since its begin."""
        with open(os.path.join(self.out, self.log_path), "a", encoding="utf-8", errors="replace") as f:
            for line in str(text).rstrip("\n").split("\n"):
                f.write(f"{time.monotonic() - self.begin:8.3f} {line}\n")

    def want(self, what, expected, seen):
        self.want_true(what, expected == seen, expected, seen)

    def want_true(self, what, holds, expected, seen):
        self.log(f"{'ok   ' if holds else 'WRONG'} {what}: expected {expected}, saw {seen}")
        if not holds:
            self.failures.append({"what": what, "expected": str(expected), "seen": str(seen)})

    def measure(self, key, value):
        """A number to keep; says nothing of right or wrong."""
        value = round(value, 4) if isinstance(value, float) else value
        self.log(f"      {key} = {value}")
        self.measured[key] = value

    def note(self, words):
        self.log(f"      {words}")
        self.words.append(words)

    def left(self):
        """Seconds until its limit."""
        return max(1.0, self.limit - (time.monotonic() - self.begin))

    def result(self, verdict, words=""):
        return {"point": self.point, "name": self.name, "how": self.how, "verdict": verdict,
                "words": words or "; ".join(self.words), "failures": self.failures, "measured": self.measured,
                "seconds": round(time.monotonic() - self.begin, 2), "log": self.log_path}


def of_session(leader):
    """Processes of the session of \\p leader."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(entry))
    return found


def end_session(leader):
    """Kills what is left of the session; how many that were, and those that
    could not be killed within 5 s."""
    left = of_session(leader)
    count = len(left)
    until = time.monotonic() + 5
    while left and time.monotonic() < until:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.05)
        left = of_session(leader)
    return count, left


def body(step, function, write):
    """In the child."""
    os.setsid()
    try:
        function(step)
        verdict, words = (WRONG if step.failures else AGREES), ""
    except Skipped as reason:
        verdict, words = (WRONG if step.failures else SKIPPED), str(reason)
    except Failed as error:
        step.log(f"WRONG {error}")
        step.failures.append(error.failure)
        verdict, words = WRONG, ""
    except BaseException as error:  # It must not reach the parent's code.
        step.log(traceback.format_exc())
        step.failures.append({"what": "the step", "expected": "to come to its end",
                              "seen": f"{type(error).__name__}: {error}"})
        verdict, words = WRONG, ""
    data = pickle.dumps(step.result(verdict, words))
    while data:
        data = data[os.write(write, data):]
    os._exit(0)


def run(step, function):
    """The result of a step, in at most its limit and some seconds."""
    os.makedirs(os.path.join(step.out, "logs"), exist_ok=True)
    open(os.path.join(step.out, step.log_path), "w").close()
    sys.stdout.flush()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        body(step, function, write)
    os.close(write)
    data, until = b"", time.monotonic() + step.limit
    try:
        while (wait := until - time.monotonic()) > 0:
            if select.select([read], [], [], wait)[0]:
                more = os.read(read, 1 << 16)
                data += more
                if not more:
                    break
    finally:
        # Also at Ctrl-C. What a step left running would disturb the next.
        os.close(read)
        strays, immortal = end_session(child)
    # The child itself may hang in the kernel, then it is left where it is.
    for _ in range(50):
        if os.waitpid(child, os.WNOHANG)[0]:
            break
        time.sleep(0.02)
    try:
        result = pickle.loads(data)
    except (pickle.UnpicklingError, EOFError):
        result = step.result(WRONG)
        result["failures"] = [{"what": "the step", "expected": f"its end within {step.limit:.0f} s",
                               "seen": f"still running, {strays} processes killed"}]
        step.log(f"WRONG not done within {step.limit:.0f} s: killed")
    if immortal:
        result["failures"].append({"what": "what was left of the step", "expected": "to end by SIGKILL",
                                   "seen": f"still there: {immortal}"})
        result["verdict"] = WRONG
    with open(os.path.join(step.out, "steps.jsonl"), "a", encoding="utf-8") as f:
        f.write(json.dumps(result) + "\n")
    return result
