"""What programs do is what is recorded, exactly."""

from .harness import ask, check_workload, test, want


@test
def spin(place):
    check_workload(place, "spin 2000", kernel=2000, call=2001, sync=1)


@test
def loop(place):
    check_workload(place, "loop 0 0.5", kernel=lambda s: s["kernels"], copy=lambda s: s["copies"],
                   set=lambda s: s["sets"], sync=lambda s: s["syncs"], copy_bytes=lambda s: s["copies"] << 20)


@test
def copies(place):
    check_workload(place, "copies 200", copy=400, set=200, sync=1, call=601, copy_bytes=200 * ((1 << 20) + (1 << 19)))


@test
def memory(place):
    check_workload(place, "memory 500", memory=1000, call=1000)


@test
def graph(place):
    check_workload(place, "graph 100", kernel=2000, of_graphs=2000, call=101)


@test
def driver(place):
    said, c = check_workload(place, "driver 1000", kernel=1000, call=1001)
    want("driver launches", c["call cuLaunchKernel"], 1000)


@test
def chatty(place):
    check_workload(place, "chatty 3000", call=0, kernel=0)


@test
def load(place):
    # As fast as it goes: on a busy machine the agent may come late to a buffer.
    check_workload(place, "load 0 1", place.recorded(CULPRIT_OPTIONS="pool=1073741824"),
                   kernel=lambda s: s["kernels"], call=lambda s: s["kernels"], threads=4)


@test
def many_threads(place):
    p = place.start("shell")
    ask(p, "threads 64 500")
    ask(p, "threads 64 500")
    p.communicate("exit\n", timeout=60)
    want("status", p.returncode, 0)
    c = place.counts()
    want("kernels", c["kernel"], 64000)
    want("calls", c["call"], 64000)
    want("unjoined", c["unjoined"], 0)
