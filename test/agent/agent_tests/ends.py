"""However a program ends, its capture can be read."""

import os
import random
import signal
import time

from .harness import EXIT, Settings, ask, test, wait_for, want, want_true


@test
def killed(place):
    rng = random.Random(Settings.seed)
    for i in range(Settings.kills):
        p = place.start("loop", 0, 60, environment=place.recorded(f"{i}.cprt"))
        time.sleep(0.05 + rng.random() * 0.8)
        p.send_signal(signal.SIGKILL)
        p.communicate()
        if not os.path.exists(place.path(f"{i}.cprt")):
            continue  # It did not come as far.
        size = os.path.getsize(place.path(f"{i}.cprt"))
        if size < 4096:
            want("bytes of a capture that was not begun", size, 0)
            continue
        c = place.counts(f"{i}.cprt", broken=True)
        want("frames that are missing", c["missing_frames"], 0)
        want_true("at most the last frame is torn", c["gap_bytes"] < 300000)
        want("end", c["end"], 0)


def check_end(place, command, status, lost):
    p = place.start("shell")
    ask(p, "launch 500")
    wait_for("kernels in the file", lambda: place.counts(broken=True)["kernel"] >= 500)
    ask(p, "launch 100")
    p.communicate(command + "\n", timeout=60)
    want("status", p.returncode, status)
    c = place.counts(broken=lost)
    want_true("what was flushed is there", c["kernel"] >= 500)
    if not lost:
        want("kernels", c["kernel"], 600)
    return c


@test
def ends_by_exit(place):
    want("reason", check_end(place, "exit", 0, False)["end"], EXIT)


@test
def ends_by__exit(place):
    check_end(place, "quit", 3, True)


@test
def ends_by_abort(place):
    check_end(place, "abort", -signal.SIGABRT, True)


@test
def ends_at_once(place):
    """The agent's thread is woken up by the end: it costs no tenth of a second, for which it sleeps at a time."""
    least = {}
    for i in range(60):
        for with_agent in (False, True):
            environment = place.recorded(f"{i}.cprt") if with_agent else place.environment()
            began = time.monotonic()
            place.run("spin", 10, environment=environment)
            took = time.monotonic() - began
            least[with_agent] = min(took, least.get(with_agent, took))
        want("kernels", place.counts(f"{i}.cprt")["kernel"], 10)
        # The quickest of some, as the machine may have more to do.
        if i >= 5 and least[True] - least[False] < 0.06:
            return
    want_true(f"{least[True]:.3f} s with the agent, {least[False]:.3f} s without", False)


@test
def raw_fork(place):
    """A child that was made without the handlers of fork does not wait for a thread that it has not."""
    p = place.start("shell")
    ask(p, "launch 200")
    took = [ask(p, "rawfork", None) for _ in range(3)]
    want_true(f"{took} ms", min(took) < 1000)
    ask(p, "launch 200")
    p.communicate("exit\n", timeout=60)
    c = place.counts()
    want("kernels", c["kernel"], 400)
    want("reason", c["end"], EXIT)


@test
def fork(place):
    p = place.start("shell")
    for _ in range(20):
        ask(p, "launch 200")
        ask(p, "fork 300")
    ask(p, "launch 200")
    p.communicate("exit\n", timeout=60)
    c = place.counts()
    want("kernels of the parent", c["kernel"], 4200)
    want_true("none of a child", "kernel child_kernel" not in c)
    want("reason", c["end"], EXIT)
