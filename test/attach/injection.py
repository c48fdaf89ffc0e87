#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Injects into running programs and kills the injector, and counts the harm.

    injection.py --driver attach-driver --targets DIR WHAT [options]

DIR holds the built programs of test/attach/targets: waits, plain-static,
bits32, tracer and libculprit-agent.so. --sim names the folder of the simulated
CUDA and its workload: a further kind of target. WHAT is one of

    inject    --count N   N injections in each way; prints their times
    kill      --count N   N SIGKILLs of the injector at random moments
    attach    --count N   the same of `culprit attach` on simulated CUDA
                          programs; every file that is left can be read
    refusals              programs that must be refused, with their reason

Exits with 1 when a program was lost, noticed anything or was not refused.
The long form is `--count 1000` and `--count 300`; the short ones belong to the
ordinary tests.
"""
import argparse, os, re, shutil, signal, subprocess, sys, time

sys.dont_write_bytecode = True
from kills import attach, kill
from programs import CudaProgram, Program, children, driver, fail, failures

HERE = os.path.dirname(os.path.abspath(__file__))
def quantiles(lines, key):
    values = sorted(float(m) / 1e3 for m in re.findall(key + r"=([\d.]+)", lines))
    if not values:
        return "none"
    at = lambda q: values[min(len(values) - 1, int(q * len(values)))]
    return f"{at(.5):.3f}/{at(.95):.3f}/{values[-1]:.3f}"


def report(name, count, lines, extra=""):
    done = lines.count("thread=")
    print(f"{name}: {done} of {count}, stopped {quantiles(lines, 'stopped_us')} ms, "
          f"called {quantiles(lines, 'called_us')} ms (p50/p95/max){extra}",
          flush=True)


def inject_many(args, name, words, count, options=(), user=None, fresh=False):
    prefix = []
    if user is not None:
        prefix = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    program = Program(args, *prefix, *words, folder_user=user) if words else CudaProgram(args)
    time.sleep(0.2)
    lines = ""
    if fresh:
        for i in range(count):
            copy = f"{program.folder}/lib{i}.so"
            shutil.copy(program.folder + "/libculprit-agent.so", copy)
            result = driver(args, "load", program.pid, copy, *options, user=user)
            lines += result.stdout
            if result.returncode:
                fail(f"{name}: {result.stderr.strip()}")
                break
            os.unlink(copy)
    else:
        result = driver(args, "begin", program.pid, program.folder, *options,
                        "--times", count, user=user)
        lines = result.stdout
        if result.returncode:
            fail(f"{name}: {result.stderr.strip()}")
    deadline = time.monotonic() + 5
    while program.ran() < count and time.monotonic() < deadline:
        time.sleep(0.01)
    if program.ran() != count:
        fail(f"{name}: {program.ran()} of {count} agents ran")
    report(name, count, lines, "; " + program.end(name))


def timed(args, waits, count, options=()):
    """Over waits of half a second: begun again each time they would go on as long as this."""
    program = Program(args, waits, "--busy", "0", "--kinds", "timed")
    lines = ""
    for i in range(max(16, count)):
        time.sleep(0.15)
        result = driver(args, "begin", program.pid, program.folder, *options)
        lines += result.stdout
        if result.returncode:
            fail(f"relative timeouts: {result.stderr.strip()}")
    line = program.end("relative timeouts")
    # 2.4 seconds and more: one that is begun again each time never ends, and is not counted as late.
    if int(line.split("steps=")[1].split()[0]) < 2:
        fail("relative timeouts: begun again")
    report("relative timeouts", i + 1, lines, "; " + line)


def inject(args):
    waits = os.path.join(args.targets, "waits")
    n = args.count
    few = max(2, n // 10)
    for kind in "poll", "epoll", "select", "read", "futex", "sleep":
        inject_many(args, kind, [waits, "--kinds", kind], few)
    inject_many(args, "all kinds, 1 busy", [waits], n)
    inject_many(args, "all kinds, 4 busy", [waits, "--busy", "4"], few)
    inject_many(args, "no busy thread", [waits, "--busy", "0"], few)
    inject_many(args, "a new library each", [waits], few, fresh=True)
    inject_many(args, "relies on EINTR", [waits, "--kinds", "signal"], few)
    inject_many(args, "restored by the tracer", [waits], few, ["--trap"])
    inject_many(args, "breakpoint", [waits, "--kinds", "finite", "--busy", "3"],
                few, ["--breakpoint"])
    timed(args, waits, few)
    timed(args, waits, few, ["--trap"])
    inject_many(args, "CPython",
                [sys.executable, os.path.join(HERE, "targets/sleeper.py")], few)
    if args.sim:
        inject_many(args, "simulated CUDA", None, n)
    if os.geteuid() == 0 and shutil.which("setpriv"):
        inject_many(args, "another user, by itself", [waits], few, user=65534)
    namespaces(args)


def namespaces(args):
    """A process with its own mounts, /tmp and pids, as in a container."""
    # By descriptor: the new /tmp may hide the program.
    inner = ("exec 9< \"$1\"; mount -t tmpfs {} none /tmp && "
             "exec /proc/self/fd/9 --kinds poll")
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return
    for name, option in (
            ("own mounts and pids", "-o exec"),
            ("/tmp is noexec", "-o noexec")):
        program = subprocess.Popen(
            ["unshare", "-m", "-p", "-f", "--mount-proc", "sh", "-c",
             inner.format(option), "sh", os.path.join(args.targets, "waits")],
            stdout=subprocess.PIPE, text=True)
        if program.stdout.readline() != "ready\n":
            print(f"{name}: cannot be made here")
            program.wait()
            continue
        pid = children(program.pid)[0]
        result = driver(args, "session", pid,
                        os.path.join(args.targets, "libculprit-agent.so"))
        if result.returncode or "ran=1" not in result.stdout:
            fail(f"{name}: {result.stdout} {result.stderr}")
        left = os.listdir(f"/proc/{pid}/root/tmp")
        if any(entry.startswith("culprit-") for entry in left):
            fail(f"{name}: left {left}")
        os.kill(pid, signal.SIGTERM)
        out, _ = program.communicate(timeout=20)
        if program.returncode:
            fail(f"{name}: {out}")
        print(f"{name}: " + result.stdout.strip() + "; " + out.strip())


def refused(args, name, check, pid, *options, user=None):
    result = driver(args, "examine", pid, *options, user=user)
    if f"error {check}:" not in result.stdout:
        fail(f"{name}: not refused as {check}: {result.stdout.strip()}")
    else:
        print(f"{name}: " + [line for line in result.stdout.splitlines()
                             if check in line][0], flush=True)


def refusals(args):
    target = lambda name: os.path.join(args.targets, name)
    start = lambda *words: subprocess.Popen(words, stdout=subprocess.PIPE)
    for name, check in ("plain-static", "static"), ("bits32", "32-bit"):
        if os.path.exists(target(name)):
            process = start(target(name))
            time.sleep(0.1)
            refused(args, name, check, process.pid)
            process.kill()
            process.wait()
    process = start(target("waits"))
    process.stdout.readline()
    tracer = start(target("tracer"), str(process.pid))
    tracer.stdout.readline()
    refused(args, "traced", "traced", process.pid)
    tracer.kill()
    tracer.wait()
    thread = max(map(int, os.listdir(f"/proc/{process.pid}/task")))
    refused(args, "thread", "thread", thread)
    if os.geteuid() == 0 and shutil.which("setpriv"):
        refused(args, "other user", "other-user", process.pid, user=65534)
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    refused(args, "stopped", "stopped", process.pid)
    process.kill()
    time.sleep(0.1)
    refused(args, "zombie", "zombie", process.pid)
    process.wait()
    refused(args, "gone", "no-process", process.pid)
    refused(args, "kernel thread", "kernel-thread", 2)
    # Never in a safe wait and never in malloc: an error, and nothing else.
    program = Program(args, target("waits"), "--kinds", "none", "--busy", "0")
    result = driver(args, "begin", program.pid, program.folder)
    if "no safe point" not in result.stderr:
        fail(f"no safe point: {result.stdout} {result.stderr}")
    print("no safe point: " + result.stderr.strip().replace("\n", " | "))
    program.end("no safe point")
    # A library that cannot be loaded: dlerror's words, and no later trace.
    program = Program(args, target("waits"))
    result = driver(args, "load", program.pid, "/nonexistent/lib.so")
    if "cannot open shared object file" not in result.stderr:
        fail(f"missing library: {result.stdout} {result.stderr}")
    program.end("missing library")
    # An agent of another version stays where it is: two make no sense.
    program = Program(args, target("waits"))
    if driver(args, "begin", program.pid, program.folder).returncode:
        fail("other agent: cannot inject")
    refused(args, "other agent", "other-agent", program.pid, "--version", "culprit 9")
    program.end("other agent")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--targets", required=True)
    parser.add_argument("--scratch", default=None)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sim", default=None)
    parser.add_argument("--culprit", default=None)
    parser.add_argument("what", choices=["inject", "kill", "attach", "refusals"])
    args = parser.parse_args()
    if args.scratch:
        os.makedirs(args.scratch, exist_ok=True)
    {"inject": inject, "kill": kill, "attach": attach, "refusals": refusals}[args.what](args)
    print("all good" if not failures else f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


main()
