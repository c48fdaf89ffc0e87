"""Ranges come only by the way that NVTX itself has: its library calls the agent, which calls libcupti."""

import os

from .harness import Session, ask, check_workload, test, truth, want, want_true


def early(place, markers, **more):
    """Ranges before cuInit, which are not recorded, and as many behind it."""
    said = place.run("early", 50, environment=place.recorded(**more))
    want("ranges of the program", said["ranges"], 100)
    c = place.counts()
    want("markers", c["marker"], markers)
    return c


@test
def ranges(place):
    p = place.start("shell")
    ask(p, "range 300")
    p.communicate("exit\n", timeout=60)
    want("markers", place.counts()["marker"], 600)


@test
def ranges_before_cuda(place):
    early(place, 100)


@test
def ranges_not_injected(place):
    early(place, 0, NVTX_INJECTION64_PATH="")
    os.remove(place.path("a.cprt"))
    # Nor after an attach.
    p = place.start("shell", environment=place.environment())
    session = Session(place, "s")
    ask(p, f"attach {session.folder}/libculprit-agent.so {session.folder}")
    session.start()
    ask(p, "range 20")
    session.stop()
    session.done()
    p.communicate("exit\n", timeout=60)
    c = place.counts("s.cprt")
    want("markers and kernels of an attach", (c["marker"], c["kernel"]), (0, 20))


@test
def ranges_without_driver(place):
    """A range where CUPTI does not work must not end the program."""
    p = place.start("early", 50, environment=place.recorded(SIMCUPTI_NO_DEVICE=1, SIMCUDA_DRIVER=0))
    said = truth(p.communicate(timeout=60)[0])
    want("status and ranges", (p.returncode, said["ranges"]), (0, 100))


@test
def ranges_with_asked_cupti(place):
    """NVTX takes the libcupti that is asked for, so that the agent does not come to another one."""
    c = early(place, 100, CULPRIT_CUPTI=os.path.join(place.tools, "libcupti.so.11.8"))
    want("version of CUPTI", c["cupti"], 18)
    os.remove(place.path("a.cprt"))
    # With none that can be used NVTX stays off, and so does the session.
    place.run("early", 50, environment=place.recorded(CULPRIT_CUPTI="/etc/passwd"))
    want("bytes of the capture", os.path.getsize(place.path("a.cprt")), 0)


@test
def ranges_of_threads(place):
    check_workload(place, "threads-of-ranges 40", marker=4 * 2 * 40, kernel=0)


@test
def ranges_of_bad_cupti(place):
    """CUPTI 13.0 crashes when NVTX comes first: that NVTX stays off."""
    c = early(place, 0, SIMCUPTI_VERSION=130000)
    want_true(f"it is told: {c['states']}", any(s.startswith("0 CUPTI 13.0 before its Update 1") for s in c["states"]))
