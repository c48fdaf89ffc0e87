"""Sessions one after the other, and a culprit that goes away or does not read."""

import os
import socket
import struct
import time

from .harness import DETACHED, EXIT, LOST, STARTED, Session, ask, names, test, wait_for, want, want_true


@test
def attach_again(place):
    """Sessions one after the other in a process that was not launched so."""
    p = place.start("shell", environment=place.environment())
    ask(p, "launch 10")
    memory, files = [], []
    for i in range(12):
        session = Session(place, f"s{i}")
        ask(p, f"attach {session.folder if i == 0 else place.path('s0')}/libculprit-agent.so {session.folder}")
        kind, body = session.start()
        want("answer", kind, STARTED)
        want("sessions before", struct.unpack_from("<I", session.hello, 16)[0], i)
        ask(p, "launch 777")
        ask(p, "sync")
        ask(p, "setuid")
        session.stop()
        soft = i % 3 == 2
        more = 0

        def work():
            nonlocal more
            more += 1
            ask(p, "launch 1")
            ask(p, "sync")

        reason, detach = session.done() if soft else session.done_while(work)
        want("reason", reason, DETACHED)
        want("detach", detach, 6 if soft else 7)
        c = place.counts(f"s{i}.cprt")
        want_true(f"kernels of session {i}: {c['kernel']}", 777 <= c["kernel"] <= 777 + more)
        # A call that is under way while its kind is switched off.
        want_true(f"kernels without a call: {c['unjoined']}", c["unjoined"] <= 1)
        # The thread closes its files when it has said that it is done.
        wait_for("the agent's thread ends", lambda: "culprit" not in names(p))
        memory.append(ask(p, "memory", None))
        files.append(ask(p, "usage", None))
    p.communicate("exit\n", timeout=60)
    want("status", p.returncode, 0)
    want("descriptors", files[-1], files[0])
    want_true(f"memory does not grow: {memory}", memory[-1] - memory[2] < 4096)


@test
def two_at_once(place):
    p = place.start("shell", environment=place.environment())
    first, second = Session(place, "s0"), Session(place, "s1")
    ask(p, f"attach {first.folder}/libculprit-agent.so {first.folder}")
    want("answer", first.start()[0], STARTED)
    ask(p, f"attach {first.folder}/libculprit-agent.so {second.folder}", 1)
    first.stop()
    first.done()
    p.communicate("exit\n", timeout=60)
    want("status", p.returncode, 0)


@test
def culprit_goes_away(place):
    p = place.start("shell", environment=place.environment())
    session = Session(place, "s")
    ask(p, f"attach {session.folder}/libculprit-agent.so {session.folder}")
    session.start()
    ask(p, "launch 300")
    wait_for("kernels in the file", lambda: place.counts("s.cprt", broken=True)["kernel"] >= 300)
    session.peer.close()
    time.sleep(0.5)
    ask(p, "launch 100")

    def is_over():
        ask(p, "sync")
        return place.counts("s.cprt", broken=True)["end"]

    wait_for("the end of the capture", is_over)
    c = place.counts("s.cprt")
    want("reason", c["end"], LOST)
    want_true(f"kernels: {c['kernel']}", 300 <= c["kernel"] <= 400)
    p.communicate("exit\n", timeout=60)
    want("status", p.returncode, 0)


@test
def culprit_does_not_read(place):
    """A culprit that is stopped must not stop the capture."""
    p = place.start("shell", environment=place.environment())
    session = Session(place, "s")
    ask(p, f"attach {session.folder}/libculprit-agent.so {session.folder}")
    session.peer = None
    session.start()
    session.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    begin = time.time()
    while time.time() < begin + 25:
        ask(p, "launch 100")
        time.sleep(0.2)
    written = os.path.getsize(place.path("s.cprt"))
    ask(p, "launch 20000")
    wait_for("the file still grows", lambda: os.path.getsize(place.path("s.cprt")) > written)
    session.stop()
    session.done()
    p.communicate("exit\n", timeout=60)


@test
def exit_while_attached(place):
    p = place.start("shell", environment=place.environment())
    session = Session(place, "s")
    ask(p, f"attach {session.folder}/libculprit-agent.so {session.folder}")
    session.start()
    ask(p, "launch 300")
    p.communicate("exit\n", timeout=60)
    want("status", p.returncode, 0)
    want("reason", session.done()[0], EXIT)
    want("kernels", place.counts("s.cprt")["kernel"], 300)


@test
def many_idle_threads(place):
    """With over 64 threads buffers are common to them."""
    p = place.start("shell", environment=place.environment())
    ask(p, "park 80")
    session = Session(place, "s")
    ask(p, f"attach {session.folder}/libculprit-agent.so {session.folder}")
    session.start()
    ask(p, "threads 30 200")
    session.stop()
    session.done()
    p.communicate("exit\n", timeout=60)
    want("kernels", place.counts("s.cprt")["kernel"], 6000)


@test
def files_of_the_program(place):
    """The agent closes its files; a program that opens and forks in between must not lose its own in the child."""
    p = place.start("shell", environment=place.environment())
    session = Session(place, "s")
    ask(p, f"attach {session.folder}/libculprit-agent.so {session.folder}")
    want("answer", session.start()[0], STARTED)
    ask(p, "launch 10")
    ask(p, "guard")
    session.stop()
    session.done_while(lambda: ask(p, "sync"))
    wait_for("the agent's thread ends", lambda: "culprit" not in names(p))
    ask(p, "lost", 0)
    p.communicate("exit\n", timeout=60)
    want("status", p.returncode, 0)
