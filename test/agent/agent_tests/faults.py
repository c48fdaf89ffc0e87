"""What CUPTI or the system does wrong is counted or told, and the program goes on."""

import os
import re
import shutil
import subprocess

from .harness import (DEFAULT_KINDS, EXIT, FAILED, KINDS, Failed, Session, ask, check_workload, test, text_of, truth,
                      want, want_true)


@test
def late_and_out_of_order(place):
    environment = place.recorded(SIMCUPTI_LATE_US=300000, SIMCUPTI_OUT_OF_ORDER=1, CULPRIT_OPTIONS="buffer=65536")
    check_workload(place, "loop 0 1", environment, kernel=lambda s: s["kernels"], copy=lambda s: s["copies"])


@test
def zero_times(place):
    place.run("spin", 1000, environment=place.recorded(SIMCUPTI_ZERO_TIMES=10))
    c = place.counts()
    want("kernels", c["kernel"], 900)
    want("kernels without times", c["zero_time"], 100)
    # The end tells both.
    want("kernels that came", c["seen kernel"], 1000)


@test
def full_buffers(place):
    """Every seventh record finds no room in CUPTI's buffers."""
    said = place.run("spin", 1000, environment=place.recorded(SIMCUPTI_DROP=7))
    c = place.counts()
    want("lost", c["cupti_dropped"], c["seen"] // 7)
    # Kernels, calls, a wait, a device and a context; each flush has an overhead record.
    want_true("all is seen", said["kernels"] + said["calls"] + 3 <= c["seen"] <= said["kernels"] + said["calls"] + 100)
    want("written", c["written"], c["seen"] - c["seen"] // 7)


@test
def refused_kind(place):
    place.run("copies", 50, environment=place.recorded(SIMCUPTI_REFUSE=1))
    c = place.counts()
    want("copies", (c["copy"], c["set"]), (0, 50))
    want_true("the refusal is told", any(s.startswith("4 copies: not recorded, ") for s in c["states"]))


@test
def slow_enable(place):
    # The program waits for the agent, so that nothing is missed.
    _, c = check_workload(place, "spin 100", place.recorded(SIMCUPTI_SLOW_MS=30), kernel=100, call=101)
    want("a word on that", [s for s in c["states"] if s.startswith("9 ")], [])


@test
def too_slow_enable(place):
    """A program that is let go before has calls from then on, and the file says so."""
    p = place.start("rate", 2000, 2, environment=place.recorded(SIMCUPTI_SLOW_MS=40, CULPRIT_OPTIONS="wait=100"))
    said = truth(p.communicate(timeout=60)[0])
    c = place.counts()
    want_true("some calls are missing", 0 < c["call"] < said["kernels"])
    late = [s for s in c["states"] if s.startswith("9 ")]
    want_true(f"it is told: {late}", len(late) == 1 and re.search(r"calls are recorded from \+0\.[5-9] s on", late[0]))


@test
def asked_cupti(place):
    """A libcupti that was asked for and cannot be used is an error, not a reason to take another."""
    for path, words in (("/etc/passwd", "--cupti cannot be used: /etc/passwd: "),
                        (os.path.join(place.tools, "libcuda.so.1"), "--cupti cannot be used: .*/libcuda.so.1 has no cupti")):
        name = os.path.basename(path)
        session = Session(place, name)
        p = place.start("spin", 10, environment=place.recorded(CULPRIT_CONTROL=session.folder + "/control"))
        kind, body = session.start(cupti=path.encode())
        want("answer", kind, FAILED)
        want_true(f"'{text_of(body)}' says '{words}'", re.search(words, text_of(body)))
        p.communicate(timeout=60)
        want("the program's status", p.returncode, 0)


def deep_folder(place, *names):
    """A folder of more than 256 characters, with the libraries of \p names: (file, of the tools)."""
    folder = place.path("/".join(["a" * 60] * 5))
    os.makedirs(folder)
    for name, source in names:
        shutil.copy(os.path.join(place.tools, source), os.path.join(folder, name))
    return folder


def told_path(place):
    with open(place.path("a.cprt"), "rb") as file:
        return file.read(736)[480:].split(b"\0")[0].decode()  # Superblock::CuptiPath


@test
def long_paths(place):
    """Of a library in the process, and of one beside the CUDA runtime."""
    folder = deep_folder(place, ("libcupti.so.13", "libcupti.so.13"), ("libcudart.so.13", "libcupti.so.11.8"))
    for preloaded in ("libcupti.so.13", "libcudart.so.13"):
        environment = place.recorded(LD_PRELOAD=os.path.join(folder, preloaded))
        check_workload(place, "spin 100", environment, kernel=100, cupti=130001)
        want("the libcupti that is used", told_path(place), f"{folder}/libcupti.so.13"[:255])
        os.remove(place.path("a.cprt"))


@test
def full_disk(place):
    """A disk that becomes full, where one can be mounted: the end is there and says why."""
    disk = place.path("disk")
    os.mkdir(disk)
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk],
                                      capture_output=True).returncode:
        return
    try:
        place.run("rate", 50000, 1, environment=place.recorded("disk/a.cprt"))
        c = place.counts("disk/a.cprt")
        want("reason", c["end"], EXIT)
        want_true("some is written", 1000 < c["written"] < c["seen"])
        want("the rest is counted", c["seen"] - c["written"], c["write_error"])
        want_true(f"why is told: {c['states']}",
                  "5 the capture could not be written: no space left on device" in c["states"])
    finally:
        subprocess.run(["umount", disk], check=True)


@test
def external_ids(place):
    kinds = DEFAULT_KINDS | 1 << KINDS.index("external")
    check_workload(place, "spin 100", place.recorded(SIMCUPTI_EXTERNAL=4, CULPRIT_OPTIONS=f"kinds={kinds}"),
                   external=lambda s: 25, kernel=100)


@test
def paging(place):
    kinds = DEFAULT_KINDS | 1 << KINDS.index("paging")
    for version in ("130001", "24"):
        _, c = check_workload(place, "paging 100",
                              place.recorded(SIMCUPTI_VERSION=version, CULPRIT_OPTIONS=f"kinds={kinds}"), kernel=100,
                              paging=100, **{"paging_bytes 1": 100 << 16})
        want("what was refused", [s for s in c["states"] if s.startswith("4 ")], [])
        os.remove(place.path("a.cprt"))


@test
def graphs(place):
    """A launch of a graph as one, without its kernels."""
    kinds = DEFAULT_KINDS | 1 << KINDS.index("graph_launch")
    for version in ("130001", "18"):
        check_workload(place, "graph 100", place.recorded(SIMCUPTI_VERSION=version, CULPRIT_OPTIONS=f"kinds={kinds}"),
                       graph_launch=100, kernel=0, call=101, **{"seen graph_launch": 100})
        os.remove(place.path("a.cprt"))


@test
def events(place):
    kinds = DEFAULT_KINDS | 1 << KINDS.index("event")
    for version in ("130001", "24"):
        check_workload(place, "events 100", place.recorded(SIMCUPTI_VERSION=version, CULPRIT_OPTIONS=f"kinds={kinds}"),
                       event=100, call=100)
        os.remove(place.path("a.cprt"))


def check_failure(place, words, **more):
    session = Session(place, "s")
    p = place.start("spin", 10, environment=place.recorded(CULPRIT_CONTROL=session.folder + "/control", **more))
    kind, body = session.start()
    want("answer", kind, FAILED)
    if not re.search(words, text_of(body)):
        raise Failed(f"'{text_of(body)}' does not say '{words}'")
    p.communicate(timeout=60)
    want("the program's status", p.returncode, 0)
    want("bytes of the capture", os.path.getsize(place.path("s.cprt")) in (0, 4096), True)


@test
def other_subscriber(place):
    check_failure(place, "another tool uses CUPTI in this process: CUPTI for nsys", SIMCUPTI_BUSY="nsys")


@test
def no_driver(place):
    check_failure(place, "CUPTI_ERROR_UNKNOWN: there is no CUDA driver", SIMCUPTI_NO_DEVICE=1, SIMCUDA_DRIVER=0)


@test
def no_file_room(place):
    session = Session(place, "s")
    os.close(session.file)
    session.file = os.open("/dev/full", os.O_RDWR)
    p = place.start("spin", 10, environment=place.recorded(CULPRIT_CONTROL=session.folder + "/control"))
    kind, body = session.start()
    want("answer", (kind, text_of(body)), (FAILED, "the capture file cannot be written, errno 28"))
    p.communicate(timeout=60)
    want("the program's status", p.returncode, 0)
