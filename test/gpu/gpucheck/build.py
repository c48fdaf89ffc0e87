"""Compiles the workloads, and packs all that a machine with a GPU needs."""

import glob
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from gpucheck.programs import HERE

# Machine code for A100 and H100, and what newer devices translate.
PORTABLE = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=[sm_90,compute_90]"]
PROGRAMS = ("workloads", "workloads-shared", "driver-only")
# Every machine has these, and must use its own.
SYSTEM = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libstdc++", "libgcc_s", "libpthread", "libdl", "librt")


class CannotBuild(Exception):
    pass


def find_nvcc():
    found = shutil.which("nvcc")
    for place in sorted(glob.glob("/usr/local/cuda*/bin/nvcc"), reverse=True):
        found = found or place
    return found


def run(command, limit=240):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"{command[0]}: {error}") from None
    if done.returncode:
        raise CannotBuild(f"{' '.join(command)}\nended with {done.returncode}: "
                          f"{(done.stderr or done.stdout).strip()[-3000:]}")
    return done.stdout


def toolkit_of(nvcc):
    """The folder of the toolkit: nvcc may be a script that runs the real one."""
    try:
        done = subprocess.run([nvcc, "--dryrun", "-x", "cu", "-c", "/dev/null"], capture_output=True, text=True,
                              timeout=60, check=False)
        tops = [line.partition("TOP=")[2].strip() for line in done.stderr.split("\n") if "TOP=" in line]
    except (OSError, subprocess.TimeoutExpired):
        tops = []
    return os.path.realpath(tops[0]) if tops else os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))


def compile_programs(nvcc, arch, out):
    """Makes PROGRAMS in the folder \\p out; \\p arch is none for PORTABLE."""
    os.makedirs(out, exist_ok=True)
    target = [f"-arch={arch}"] if arch else PORTABLE
    sources = sorted(glob.glob(os.path.join(HERE, "*.cu")))
    objects = [os.path.join(out, os.path.basename(s) + ".o") for s in sources]
    with ThreadPoolExecutor(max_workers=max(1, min(8, os.cpu_count() or 1))) as pool:
        list(pool.map(lambda pair: run([nvcc, "-std=c++17", "-O2", *target, "-c", pair[0], "-o", pair[1]]),
                      zip(sources, objects)))
    link = target if arch else ["-arch=sm_80"]
    run([nvcc, *link, *objects, "-ldl", "-o", os.path.join(out, "workloads")])
    paths = [os.path.join(toolkit_of(nvcc), "lib64"), "/usr/local/cuda/lib64"]
    run([nvcc, *link, "-cudart", "shared", *objects, "-ldl", *(w for p in paths for w in ("-Xlinker", f"-rpath={p}")),
         "-o", os.path.join(out, "workloads-shared")])
    run([nvcc, "-std=c++17", "-O2", "-cudart", "none", os.path.join(HERE, "DriverOnly.cpp"), "-ldl", "-o",
         os.path.join(out, "driver-only")])
    for o in objects:
        os.remove(o)


def needed(program):
    """(name, path) of its libraries that not every machine has."""
    out = []
    for line in run(["ldd", program]).split("\n"):
        name, _, rest = line.strip().partition(" => ")
        if rest and not name.startswith(SYSTEM):
            out.append((name, rest.split(" (")[0]))
    return out


def pack(build, nvcc, folder):
    """What --build wants elsewhere, in \\p folder; its size in bytes."""
    for part in ("bin/culprit", "lib/libculprit-agent.so", "sim/capture-counts"):
        source, target = os.path.join(build, part), os.path.join(folder, part)
        if not os.path.exists(source):
            raise CannotBuild(f"{source} is not there: build culprit first (README.md), "
                              "with the targets culprit, culprit-agent and capture-counts")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(source, target)
        if not part.endswith(".so") and shutil.which("strip"):
            run(["strip", target])
    os.makedirs(os.path.join(folder, "deps"), exist_ok=True)
    for name, path in needed(os.path.join(folder, "bin", "culprit")):
        shutil.copy(path, os.path.join(folder, "deps", name))
    if nvcc:
        compile_programs(nvcc, None, os.path.join(folder, "programs"))
    else:
        print("no nvcc here: the workloads have to be compiled there", file=sys.stderr)
    return sum(os.path.getsize(os.path.join(at, f)) for at, _, files in os.walk(folder) for f in files)

