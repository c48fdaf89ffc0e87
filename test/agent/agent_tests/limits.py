"""Seen = written + lost when buffers, the file or its limit are too small."""

import json
import os
import subprocess
import time

from .harness import FULL, KINDS, ask, test, want, want_true


@test
def pool_exhausted(place):
    # Two buffers, and records that are not complete for long.
    # CUPTI of 12.9 and newer counts what it gets no buffer for; it is our pool
    # that was too small all the same.
    for version in (130001, 24):
        environment = place.recorded(SIMCUPTI_VERSION=version, SIMCUPTI_LATE_US=20000,
                                     CULPRIT_OPTIONS="pool=16384,buffer=8192")
        # 20,000 launches a second are 100 KB in 20 ms, which is more than the
        # pool has. Of the spare buffers, 32 MiB, there are enough then: as fast
        # as it goes they may come to an end on a busy machine, and CUPTI gets
        # one that it has to share and that is not zeros.
        said = place.run("rate", 20000, 1, environment=environment)
        c = place.counts()
        want_true("something is lost", c["pool_overflow"] > 0)
        want("lost by CUPTI", c["cupti_dropped"], 0)
        # A kernel and a call of each launch, a device and a context; each flush
        # has an overhead record, of which some are lost too.
        want_true("all is counted", 2 * said["kernels"] + 2 <= c["seen"] <= 2 * said["kernels"] + 100)
        os.remove(place.path("a.cprt"))


@test
def threads_that_live(place):
    """Threads of a recorded program must not take a buffer each: 16 there are."""
    p = place.start("shell", environment=place.recorded(CULPRIT_OPTIONS="pool=16777216,buffer=1048576"))
    ask(p, "together 60 50")
    p.communicate("exit\n", timeout=60)
    c = place.counts()
    want("kernels and losses", (c["kernel"], c["seen"] - c["written"]), (3000, 0))


@test
def many_spare_buffers(place):
    # More threads than there are buffers and spare ones before 12.9.
    p = place.start("shell", environment=place.recorded(SIMCUPTI_VERSION=24, SIMCUPTI_LATE_US=400000, SIMCUPTI_STRICT=0,
                                                        CULPRIT_OPTIONS="pool=16384,buffer=8192"))
    ask(p, "threads 400 4000")
    ask(p, "threads 400 4000")
    p.communicate("exit\n", timeout=60)
    want("status", p.returncode, 0)
    done = subprocess.run([os.path.join(place.tools, "capture-counts"), place.path("a.cprt")], capture_output=True)
    want("seen = written + lost", done.returncode, 0)


@test
def max_size(place):
    limit = 3 << 20
    said = place.run("load", 0, 1, environment=place.recorded(CULPRIT_OPTIONS=f"max-size={limit}"))
    c = place.counts()
    want_true("the file stays below its limit", c["size"] <= limit)
    want("reason of the end", c["end"], FULL)
    want_true("what did not fit is counted", c["file_cap"] > 0)
    want_true("the program went on", said["kernels"] > c["kernel"])


@test
def ring(place):
    limit = 24 << 20
    # On a busy machine the agent may come late to a buffer.
    options = f"max-size={limit},ring=1,pool=1073741824"
    place.run("load", 0, 3, environment=place.recorded(CULPRIT_OPTIONS=options))
    done = subprocess.run([os.path.join(place.tools, "capture-counts"), place.path("a.cprt")], capture_output=True,
                          text=True)
    c = json.loads(done.stdout)
    want("capture-counts", (done.returncode, done.stderr), (0, ""))
    want_true("the file stays below its limit", c["size"] <= limit)
    want("records without a name or shape", (c["unnamed"], c["bad_shape"]), (0, 0))
    want_true("there are records", c["kernel"] > 10000)
    want("lost", c["seen"] - c["written"], 0)
    want("devices and contexts", (c["devices"], c["contexts"]), (1, 1))
    want_true("the oldest is overwritten", c["overwritten"] > 0 and c["kept_from"] > 0)
    want("seen = there and overwritten", sum(c[k] for k in KINDS[1:]) + c["overwritten"], c["seen"])


@test
def file_size_limit(place):
    # The application's own limit must not become its end by SIGXFSZ.
    p = place.start("shell", environment=place.recorded(), preexec_fn=lambda: __import__("resource").setrlimit(
        __import__("resource").RLIMIT_FSIZE, (1 << 20, 1 << 20)))
    for _ in range(20):
        ask(p, "launch 2000")
    time.sleep(1)
    p.communicate("exit\n", timeout=60)
    want("status", p.returncode, 0)
    c = place.counts()
    want_true("the file stays below the limit", c["size"] <= 1 << 20)
    want("reason of the end", c["end"], FULL)
