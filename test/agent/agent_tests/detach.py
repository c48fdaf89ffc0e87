"""cuptiFinalize breaks the capture of a graph on any thread: where one goes on, or may, CUPTI stays."""

import os

from .harness import FAILED, STARTED, Session, ask, test, text_of, want, want_true

SOFT, FULL = 6, 7


def attached(place, name="s", **more):
    p = place.start("shell", environment=place.environment(**more))
    session = Session(place, name)
    ask(p, f"attach {session.folder}/libculprit-agent.so {session.folder}")
    return p, session


def launched(place, **more):
    session = Session(place, "s")
    p = place.start("shell", environment=place.recorded(CULPRIT_CONTROL=session.folder + "/control", **more))
    return p, session


def detach(p, session, commands, expected):
    """Stops; the program does the commands again and again until the agent is done."""
    session.stop()
    want("detach", session.done_while(lambda: [ask(p, command) for command in commands])[1], expected)
    p.communicate("exit\n", timeout=60)
    # 77 where the simulated CUPTI saw a capture broken.
    want("status", p.returncode, 0)


@test
def detach_in_capture(place):
    p, session = attached(place)
    want("answer", session.start()[0], STARTED)
    ask(p, "sync")
    ask(p, "capture 5")
    detach(p, session, ["threads 2 1", "sync"], SOFT)


@test
def detach_after_capture(place):
    p, session = attached(place)
    session.start()
    for stream in (5, 6, 5):
        ask(p, f"capture {stream}")
    for stream in (5, 9, 6, 5):  # That of stream 9 began before the attach.
        ask(p, f"captured {stream}" if stream != 9 else "launch 1")
    detach(p, session, ["launch 1", "sync"], FULL)


@test
def detach_from_unknown(place):
    """A program that never waited may have begun a capture before the attach."""
    p, session = attached(place)
    session.start()
    detach(p, session, ["launch 1"], SOFT)


@test
def detach_from_known(place):
    """It waited once without a capture; later it only launches."""
    p, session = attached(place)
    session.start()
    ask(p, "sync")
    detach(p, session, ["launch 1"], FULL)


@test
def detach_from_start(place):
    """Of a launched program every capture is known."""
    p, session = launched(place)
    session.start()
    detach(p, session, ["launch 1"], FULL)


@test
def detach_in_launched_capture(place):
    p, session = launched(place)
    session.start()
    ask(p, "capture 5")
    detach(p, session, ["launch 1"], SOFT)


@test
def bad_cupti(place):
    """CUPTI 13.0 before its update: no attach; a recorded program keeps CUPTI and its kernels switched on."""
    p, session = attached(place, SIMCUPTI_VERSION=130000)
    kind, body = session.start()
    want("answer", kind, FAILED)
    want_true(text_of(body), "update to 13.0 Update 1" in text_of(body) and "--cupti PATH" in text_of(body))
    with open(f"/proc/{p.pid}/maps") as maps:
        want_true("libcupti is gone again, so that another can come", "libcupti" not in maps.read())
    p.communicate("exit\n", timeout=60)
    want("status", p.returncode, 0)

    os.rename(session.folder, session.folder + "-before")
    os.remove(place.path("s.cprt"))
    p, session = launched(place, SIMCUPTI_VERSION=130000)
    session.start()
    ask(p, "launch 100")
    ask(p, "sync")
    detach(p, session, ["launch 1", "sync"], SOFT)
    c = place.counts("s.cprt")
    want_true("kernels", c["kernel"] >= 100)
    want_true(f"it is told: {c['states']}", any(s.startswith("0 CUPTI 13.0 before its Update 1") for s in c["states"]))
