"""What an attach may not do to a program, and what it stands."""

import json
import os
import statistics
import struct
import sys
import time

from gpucheck import programs
from gpucheck.compare import DETACHED, LOST, compare, counts, keep, verify, whole
from gpucheck.programs import Attached, Program, Scratch, run_culprit
from gpucheck.runner import Failed


def twice(step, tools):
    """Two attaches to one process, each exact: CUPTI 13.0 gives wrong
    correlations of graph launches from the second on."""
    with Scratch(step) as scratch:
        program = Program(step, tools, "graph-before").ready()
        for i in (1, 2):
            capture = scratch / f"{i}.cprt"
            session = Attached(step, tools, program, capture, "--duration=100")
            truth = program.go()
            session.finish()
            step.note(f"{i}: {session.detached()}")
            compare(step, tools, capture, truth, counts(step, tools, capture), attached=True)
            verify(step, tools, capture)
            keep(step, capture, f"{step.name}-{i}")
        program.end()


def fifty(step, tools, times=50):
    """Memory and descriptors stay as they are after the first some."""
    with Scratch(step) as scratch:
        program = Program(step, tools, "paced").ready()
        program.go()
        resident, descriptors, captures, took = [], [], [], []
        settled = min(10, times // 2)
        for i in range(times):
            if step.left() < 10:
                step.want("attaches within the time of this step", times, i)
                break
            captures.append(scratch / f"{i}.cprt")
            begin = time.monotonic()
            run_culprit(step, tools, "attach", str(program.pid), "--duration=0.2", *tools.cupti_option(), "-o",
                        captures[-1])
            took.append(time.monotonic() - begin)
            resident.append(program.resident())
            descriptors.append(program.descriptors())
        step.log(f"resident, KiB: {resident}")
        step.log(f"descriptors: {descriptors}")
        verify(step, tools, *captures)
        kernels = [counts(step, tools, c).get("kernel", 0) for c in captures[:: max(1, len(captures) // 5)]]
        step.want_true("kernels in each fifth capture", all(kernels), "some in each", kernels)
        step.measure("attach_and_detach_s", statistics.median(took))
        step.measure("resident_first_kib", resident[0])
        step.measure("resident_last_kib", resident[-1])
        if len(resident) > settled:
            grown = resident[-1] - resident[settled]
            # A quarter of a MiB each would be 12 MiB a day of one an hour.
            bound = 256 * (len(resident) - settled)
            step.want_true(f"memory from attach {settled + 1} to {len(resident)}", grown <= bound,
                           f"at most {bound} KiB more", f"{grown} KiB more")
            step.want("open files of the program at the end", descriptors[settled], descriptors[-1])
        program.end()


def kill_target(step, tools):
    """SIGKILL of the program while it is recorded: the file can be read."""
    with Scratch(step) as scratch:
        capture = scratch / "a.cprt"
        program = Program(step, tools, "paced").ready()
        session = Attached(step, tools, program, capture, "--duration=100")
        program.go()
        time.sleep(1)
        program.process.kill()
        program.process.wait(30)
        step.measure("finish_ms", 1000 * session.finish(interrupt=False))
        found = counts(step, tools, capture)
        step.want_true("kernels in the capture", found["kernel"] > 0, "some", found["kernel"])
        notes = verify(step, tools, capture)
        step.want_true("culprit verify's word on the end", any("no end" in n for n in notes), "'no end ...'", notes)
        run_culprit(step, tools, "inspect", capture)
        keep(step, capture, step.name)


def kill_culprit(step, tools):
    """SIGKILL of culprit: the program goes on, the agent ends by itself."""
    with Scratch(step) as scratch:
        capture = scratch / "a.cprt"
        program = Program(step, tools, "paced").ready()
        session = Attached(step, tools, program, capture, "--duration=100")
        before = program.go()["log kernels"]
        time.sleep(0.5)
        begin = time.monotonic()
        session.process.kill()
        session.process.wait(30)
        notes, ended = [], False
        while not ended and time.monotonic() - begin < min(20 * programs.PATIENCE, step.left()):
            time.sleep(0.2)
            done = run_culprit(step, tools, "verify", "--format=json", capture, status=None)
            try:
                notes = json.loads(done.stdout)[0]["notes"]
            except (ValueError, IndexError):
                pass
            ended = any(n.startswith("ended:") for n in notes)
        step.want_true("the agent's last word after culprit's death", ended, "'ended: ...' within 20 s", notes)
        step.measure("agent_ended_s", time.monotonic() - begin)
        found = counts(step, tools, capture)
        step.want("reason of the end", LOST, found["end"])
        time.sleep(0.2)
        after = program.go()["log kernels"]
        step.want_true("kernels of the program since then", after > before + 5, f"more than {before + 5}", after)
        # What was left behind is no hindrance.
        again = scratch / "b.cprt"
        run_culprit(step, tools, "attach", str(program.pid), "--duration=0.5", *tools.cupti_option(), "-o", again)
        step.want_true("kernels of another attach", counts(step, tools, again)["kernel"] > 0, "some", 0)
        program.end()
        keep(step, capture, step.name)


def spin_wait(step, tools):
    """A program whose only thread spins in its waits when it is attached to."""
    with Scratch(step) as scratch:
        capture = scratch / "a.cprt"
        program = Program(step, tools, "spin-wait").ready()
        program.threads(os.path.join(step.out, "threads.tsv"))
        program.say("go")  # It is busy for 3 s from here on.
        session = Attached(step, tools, program, capture, "--duration=100")
        step.measure("attach_ms", 1000 * session.took)
        if stopped := session.stopped_us():
            step.measure("stopped_us", stopped)
        truth = json.loads(program.line("a round", 60))
        step.measure("finish_ms", 1000 * session.finish())
        step.note("detached: " + session.detached())
        found = counts(step, tools, capture)
        # It was running before; what it launched since its round, too.
        step.want_true("kernels", found["kernel"] > 0, f"some, as of {truth['log kernels']} in its round",
                       found["kernel"])
        whole(step, found, under_way=10)
        step.want("reason of the end", DETACHED, found["end"])
        verify(step, tools, capture)
        program.end()
        keep(step, capture, step.title())


def idle(step, tools):
    """No call of CUDA while it is detached from: CUPTI has to stay, idle."""
    with Scratch(step) as scratch:
        capture = scratch / "a.cprt"
        program = Program(step, tools, "idle").ready()
        session = Attached(step, tools, program, capture, "--duration=100")
        truth = program.go()
        took = session.finish()
        step.measure("finish_ms", 1000 * took)
        if not tools.simulated:
            step.want_true("seconds of the detach", took <= 10, "at most 10", f"{took:.1f}")
        found = counts(step, tools, capture)
        compare(step, tools, capture, truth, found, attached=True)
        step.want_true("how it was left", "stays in the process" in session.detached(),
                       "'CUPTI stays in the process, idle'", session.detached())
        verify(step, tools, capture)
        size = os.path.getsize(capture)
        program.go()
        step.want("bytes of the capture after the detach", size, os.path.getsize(capture))
        program.end()
        keep(step, capture, step.title())


def slowdown(step, tools):
    """A program that does nothing but launch: before, during and after, once
    with CUPTI taken out at the end and once with CUPTI left in it."""
    for left, options in (("", ()), ("_with_cupti_left", ("--no-finalize",))):
        with Scratch(step) as scratch:
            program = Program(step, tools, "slowdown").ready()
            program.go()  # The first round pays for the streams.

            def best(rounds):
                return min(program.go()["log seconds"] for _ in range(rounds))

            off = best(7)
            capture = scratch / "a.cprt"
            session = Attached(step, tools, program, capture, "--duration=100", *options)
            attached = best(5)
            session.finish()
            step.note(f"detached{left.replace('_', ' ')}: {session.detached()}")
            whole(step, counts(step, tools, capture))
            after = best(7)
            program.end()
        step.measure(f"off_s{left}", off)
        step.measure(f"attached_ratio{left}", attached / off)
        step.measure(f"after_ratio{left}", after / off)
        if not left and not tools.simulated:
            step.want_true("time of a round after the detach, of one before the attach", after / off <= 1.02,
                           "at most 1.02", f"{after / off:.3f}")


def agent_tests():
    """The tests of the agent, which speak its protocol."""
    folder = os.path.join(os.path.dirname(programs.HERE), "agent")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    from agent_tests import harness
    return harness


def times(step, tools):
    """How long the agent takes to enable CUPTI and to finish, as it says: by
    its protocol, in a program that loads it itself."""
    agent = agent_tests()
    with Scratch(step) as scratch:
        place = type("Place", (), {"tools": os.path.dirname(tools.agent), "path": lambda _, n: scratch / n})()
        session = agent.Session(place, "s")
        program = Program(step, tools, "stream-sync",
                          GPU_CHECK_AGENT=os.path.join(session.folder, "libculprit-agent.so")).ready()
        kind, message = session.start(cupti=(tools.cupti or default_cupti(step, tools)).encode())
        if kind != agent.STARTED:
            raise Failed("the agent", "to begin", agent.text_of(message))
        cupti, driver, enable, kinds = struct.unpack_from("<IIQQ", message)
        step.measure("cupti", cupti)
        step.measure("driver", driver)
        step.measure("enable_ms", enable / 1e6)
        step.note(f"kinds that could not be enabled: {agent.DEFAULT_KINDS & ~kinds:#x}")
        step.note("libcupti: " + message[24:].split(b"\0")[0].decode(errors="replace"))
        program.say("go")
        program.line("a round", 60)
        session.stop()
        while True:
            kind, message = session.receive()
            if kind == agent.DONE:
                break
        reason, detach, finish = struct.unpack_from("<IIQ", message)
        step.measure("agent_finish_ms", finish / 1e6)
        step.note("detached: " + {6: "CUPTI stays, idle", 7: "cuptiFinalize was called"}.get(detach, str(detach)))
        step.want("reason of the end", DETACHED, reason)
        program.end()


def default_cupti(step, tools):
    """The libcupti that culprit finds; the simulated one is found by its name."""
    if tools.simulated:
        return ""
    done = run_culprit(step, tools, "doctor", "--format=json", status=None)
    for check in json.loads(done.stdout)["checks"]:
        if check["check"] == "cupti" and check["state"] == "good":
            return check["what"].partition(": CUPTI")[0]
    return ""
