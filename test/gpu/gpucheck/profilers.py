"""Other users of CUPTI: PyTorch, its profiler, and one that is simulated."""

import json
import os

from gpucheck.compare import counts, keep, verify, whole
from gpucheck.programs import Attached, Program, Scratch, last, run_culprit
from gpucheck.runner import Skipped


def want_torch(tools):
    if tools.simulated:
        raise Skipped("a simulated device has no PyTorch")
    if not tools.torch:
        raise Skipped("no Python with torch and CUDA; name one by --torch")


def torch_loop(step, tools):
    """An attach to a training loop."""
    want_torch(tools)
    with Scratch(step) as scratch:
        capture = scratch / "a.cprt"
        program = Program(step, tools, "torch-loop").ready(90)
        program.threads(os.path.join(step.out, "threads.tsv"))
        session = Attached(step, tools, program, capture, "--duration=100", limit=60)
        step.measure("attach_ms", 1000 * session.took)
        if stopped := session.stopped_us():
            step.measure("stopped_us", stopped)
        truth = program.go()
        step.measure("finish_ms", 1000 * session.finish())
        step.note("detached: " + session.detached())
        found = counts(step, tools, capture)
        # A step has a product forward and two back, and an update, at least.
        step.want_true("kernels", found["kernel"] >= truth["log least kernels"],
                       f"at least {truth['log least kernels']}", found["kernel"])
        step.want_true("copies, one loss.item() a step", found["copy"] >= truth["log items"],
                       f"at least {truth['log items']}", found["copy"])
        whole(step, found)
        verify(step, tools, capture)
        program.go()
        # torch.profiler, for the first time after an attach: docs/capture.md
        # says that it may see no device. Told, not judged.
        program.say("profile")
        events = json.loads(program.line("a profile", 60))["log events"]
        step.measure("gpu_events_of_a_first_profile_afterwards", events)
        program.end()
        keep(step, capture, step.name)


def refusal(step, done, capture, name):
    step.want("culprit attach: exit status", 1, done.returncode)
    step.want_true("the name of who has CUPTI, in culprit's words", name.lower() in done.stderr.lower(),
                   f"'{name}'", last(done.stderr))
    step.want("a file of what was not recorded", False, os.path.exists(capture))


def torch_profiler(step, tools):
    """An attach while torch.profiler is on is refused, with its name, and the
    profiler works then and afterwards."""
    want_torch(tools)
    with Scratch(step) as scratch:
        capture = scratch / "a.cprt"
        program = Program(step, tools, "torch-profiler").ready(90)
        alone = program.go()["log events"]
        step.want_true("GPU events of a profile before the attach", alone > 0, "some", alone)
        program.say("start")
        program.line("the start of a profile", 60)
        done = run_culprit(step, tools, "attach", str(program.pid), "--duration=3", *tools.cupti_option(), "-o",
                           capture, status=None)
        program.say("stop")
        during = json.loads(program.line("the end of a profile", 60))["log events"]
        step.measure("gpu_events_alone", alone)
        step.measure("gpu_events_during_the_attach", during)
        if os.path.exists(capture):
            step.note("it recorded: " + str(counts(step, tools, capture)["kernel"]) + " kernels")
            keep(step, capture, step.name)
        refusal(step, done, capture, "profiler")
        step.want_true("GPU events of the profile that was on", during > 0, "some", during)
        after = program.go()["log events"]
        step.measure("gpu_events_after", after)
        step.want_true("GPU events of a profile after the attach", after > 0, "some", after)
        program.end()


def other_tool(step, tools):
    """The same with a simulated tool, on the simulated device alone."""
    with Scratch(step) as scratch:
        capture = scratch / "a.cprt"
        program = Program(step, tools, "other-tool", SIMCUPTI_BUSY="Some Profiler").ready()
        done = run_culprit(step, tools, "attach", str(program.pid), "--duration=3", "-o", capture, status=None)
        refusal(step, done, capture, "Some Profiler")
        program.go()
        program.end()
