"""The steps in the order in which they are done: what tells most comes first,
what could harm the device last."""

from gpucheck import counted, endurance, profilers

# Point of the list, name, what it is about, seconds, record and attach.
COUNTED = [
    (1, "spin", "10,000 kernels of 20 us, joined with their launches, and their time", 25),
    (4, "stream-sync", "5,000 kernels and waits for a stream", 25),
    (2, "pageable", "100 copies of 16 MiB from pageable memory", 25),
    (3, "pinned", "copies both ways beside a kernel on three streams", 25),
    (5, "device-sync", "1,000 waits for the device", 25),
    (6, "events", "1,000 events recorded, waited for, measured", 25),
    (8, "streams", "four streams at once, kernels of 5 ms", 25),
    (9, "sets", "1,000 sets of 1 MiB", 25),
    (10, "memory", "allocations and frees, their bytes and the peak", 25),
    (11, "graph-after", "500 launches of a graph of 20 kernels made after the attach", 25),
    (11, "graph-before", "the same of one made before", 25),
    (13, "ranges", "1,000 nested NVTX ranges; none by an attach", 25),
    (14, "driver", "a program that uses the driver alone", 25),
    (14, "shared", "the CUDA runtime as a shared library; elsewhere it is static", 25),
    (15, "late", "CUDA is initialised 3 s after the attach", 30),
    (16, "forks", "children by fork, and programs by exec that use CUDA too", 25),
    (7, "launches", "1,000,000 empty kernels of four threads", 50),
]
MANAGED = (12, "managed", "256 MiB to and fro by page faults, 20 times", 40)

# Point, name, what it is about, seconds, the step.
OTHERS = [
    ("-", "times", "how long CUPTI takes to be enabled and to finish, by the agent's clock", 30, endurance.times),
    (22, "idle", "no call of CUDA during the detach", 30, endurance.idle),
    (21, "spin-wait", "one thread that spins in its waits (cudaDeviceScheduleSpin)", 30, endurance.spin_wait),
    (11, "graph-twice", "two attaches to one process that launches graphs", 40, endurance.twice),
    (18, "kill-target", "SIGKILL of the program while it is recorded", 30, endurance.kill_target),
    (19, "kill-culprit", "SIGKILL of culprit while it records", 40, endurance.kill_culprit),
    (20, "torch-loop", "an attach to PyTorch", 100, profilers.torch_loop),
    (20, "torch-profiler", "an attach while torch.profiler is on", 100, profilers.torch_profiler),
    (20, "other-tool", "an attach where a simulated tool has CUPTI", 30, profilers.other_tool),
    (7, "slowdown", "time of launches before, during and after an attach", 60, endurance.slowdown),
    (17, "fifty", "50 times attach and detach: memory and open files", 100, endurance.fifty),
]
SAMPLES = ("-", "samples", "small captures with what is in them, for test/Inputs", 60, counted.samples)


def steps(attaches):
    """(point, name, how, about, limit, function of a Step and the Tools)."""
    def alone(step, tool):
        counted.alone(step, tool, [name for _, name, *_ in COUNTED])

    def both(point, name, about, limit):
        yield point, name, "record", about, limit, counted.record
        yield point, name, "attach", about, limit, counted.attach_late if name == "late" else counted.attach

    def fifty(step, tool):
        endurance.fifty(step, tool, attaches)

    yield "-", "alone", "", "the workloads without culprit", 60, alone
    for one in COUNTED:
        yield from both(*one)
    for point, name, about, limit, function in [*OTHERS, SAMPLES]:
        yield point, name, "", about, limit, fifty if name == "fifty" else function
    yield from both(*MANAGED)
