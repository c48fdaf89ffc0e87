#!/usr/bin/env python3
"""The workloads of scripts/gpu-check on the simulated device of test/sim.

usage: simulated.py NAME [DIVISOR]

Takes the words and gives the answers of Main.cu, so that the check itself can
be tested where there is no GPU. The library path has to hold the simulated
libcuda.so.1. GPU_CHECK_AGENT=LIB: loads LIB before it says that it is ready.
"""

import ctypes
import json
import os
import select
import subprocess
import sys
import threading
import time

NAME = sys.argv[1]
DIVISOR = int(sys.argv[2]) if len(sys.argv) > 2 else 1
DEVICE = None
# The device keeps pointers to the names.
WARM, EMPTY, SPIN, DRIVER, RANGE = b"warm_kernel", b"empty_kernel", b"spin_kernel", b"driver_kernel", b"range"
PACED = [0]


def many(count):
    return max(1, count // DIVISOR)


def begin_cuda():
    global DEVICE
    DEVICE = ctypes.CDLL("libcuda.so.1")
    DEVICE.simMalloc.restype = ctypes.c_uint64
    DEVICE.cuInit(0)


def launch(name, stream=7, duration=1000):
    DEVICE.simLaunch(name, stream, ctypes.c_uint64(duration))


def copy(kind, size, stream):
    DEVICE.simCopy(ctypes.c_uint8(kind), ctypes.c_uint64(size), stream)


def synchronize():
    DEVICE.simDeviceSynchronize()


def spin():
    for _ in range(many(10000)):
        launch(SPIN, 7, 20000)
    synchronize()
    return {"kernel spin": many(10000), "call cudaLaunchKernel": many(10000), "kernel_ns": 20000 * many(10000)}


def pageable():
    for _ in range(many(100)):
        copy(1, 16 << 20, 0)
    return {"copy_bytes 1": many(100) * (16 << 20), "call cudaMemcpy_": many(100)}


def pinned():
    for _ in range(many(20)):
        copy(1, 64 << 20, 1)
        copy(2, 64 << 20, 2)
        launch(SPIN, 3, 2000000)
    synchronize()
    size = many(20) * (64 << 20)
    return {"copy_bytes 1": size, "copy_bytes 2": size, "copy": 2 * many(20), "kernel spin": many(20), "overlap": 1}


def stream_sync():
    for _ in range(many(5000)):
        launch(EMPTY)
        DEVICE.simStreamSynchronize(7)
    return {"kernel empty": many(5000), "sync 3": many(5000), "call cudaStreamSynchronize": many(5000)}


def device_sync():
    for _ in range(many(1000)):
        synchronize()
    return {"least sync 4": many(1000), "least call cudaDeviceSynchronize": many(1000)}


def launch_threads(each):
    def one(stream):
        for _ in range(each):
            launch(EMPTY, stream)
        DEVICE.simStreamSynchronize(stream)

    begin = time.monotonic()
    threads = [threading.Thread(target=one, args=(10 + t,)) for t in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return time.monotonic() - begin


def launches():
    took = launch_threads(many(10000))
    return {"kernel empty": 4 * many(10000), "call cudaLaunchKernel": 4 * many(10000), "log seconds": took}


def slowdown():
    return {"kernel empty": 4 * many(5000), "log seconds": launch_threads(many(5000))}


def streams():
    # Each stream is some calls behind the one before it.
    for _ in range(many(8)):
        for stream in range(4):
            launch(SPIN, 20 + stream, 5000000)
    synchronize()
    return {"kernel spin": 4 * many(8), "streams spin": 4, "concurrency": 4, "kernel_ns": 4 * many(8) * 5000000}


def sets():
    for _ in range(many(1000)):
        DEVICE.simSet(ctypes.c_uint64(1 << 20), 7)
    synchronize()
    return {"set": many(1000), "set_bytes": many(1000) << 20}


def memory():
    size = 256 << 10
    every = [DEVICE.simMalloc(ctypes.c_uint64(size)) for _ in range(many(2000))]
    for address in every:
        DEVICE.simFree(ctypes.c_uint64(address))
    return {"call cudaMalloc_": many(2000), f"memory_of {size} allocated": many(2000),
            f"memory_of {size} freed": many(2000), f"memory_of {size} peak": many(2000) * size}


def graph():
    for _ in range(many(500)):
        DEVICE.simGraphLaunch(3, 20, 7, ctypes.c_uint64(1000))
    synchronize()
    return {"kernel graph": 20 * many(500), "least of_graphs": 20 * many(500), "call cudaGraphLaunch": many(500)}


def ranges():
    for _ in range(many(1000)):
        DEVICE.simRangePush(RANGE)
    for _ in range(many(1000)):
        DEVICE.simRangePop()
    return {"marker": 2 * many(1000)}


def driver():
    for _ in range(many(1000)):
        DEVICE.simDriverLaunch(DRIVER, 7, ctypes.c_uint64(1000))
    synchronize()
    return {"kernel driver": many(1000), "call cuLaunchKernel": many(1000)}


def empties(count):
    for _ in range(count):
        launch(EMPTY)
    synchronize()
    return {"kernel empty": count}


def late():
    if not DEVICE:
        time.sleep(3 / min(DIVISOR, 10))
        begin_cuda()
    return empties(many(1000))


def forks():
    for _ in range(3):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    good = sum(subprocess.run([sys.executable, os.path.abspath(__file__), "child"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, check=False).returncode == 0 for _ in range(2))
    if good != 2:
        return {"error": f"{good} of 2 children ended well"}
    return {**empties(many(1000)), "children": 2}


def pace():
    for _ in range(5):
        launch(EMPTY)
    PACED[0] += 5
    synchronize()


def paced():
    pace()
    return {"log kernels": PACED[0]}


def spin_wait():
    end = time.monotonic() + 3 / min(DIVISOR, 10)
    while time.monotonic() < end:
        pace()
    return {"log kernels": PACED[0]}


def idle():
    return empties(many(100))


def child():
    return empties(50)


BETWEEN = {"paced": pace, "spin-wait": pace, "idle": None, "child": None}
RUN = {"graph-before": graph, "graph-after": graph, "other-tool": idle}


def word(meanwhile):
    """As in Main.cu."""
    out = b""
    while True:
        if not select.select([0], [], [], 0.01 if meanwhile else None)[0]:
            meanwhile()
            continue
        c = os.read(0, 1)
        if c in (b"", b"\n"):
            return out.decode()
        out += c


def main():
    run = RUN.get(NAME) or globals().get(NAME.replace("-", "_"))
    if not run:
        print(json.dumps({"skipped": f"the simulated device has no '{NAME}'"}), flush=True)
        return
    between = BETWEEN.get(NAME, synchronize)
    if NAME != "late":
        begin_cuda()
        launch(WARM)
        synchronize()
    if agent := os.environ.get("GPU_CHECK_AGENT"):
        ctypes.CDLL(agent)
    print(f"ready {os.getpid()}", flush=True)
    said = word(None)
    alone = not said
    while alone or said == "go":
        print(json.dumps(run()), flush=True)
        if alone:
            return
        said = word(between)


main()
