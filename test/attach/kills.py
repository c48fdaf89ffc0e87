# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kills what attaches to a program at random moments: the injector, and culprit itself."""

import os, random, signal, subprocess, time

from programs import CudaProgram, Program, children, driver, fail, failures, simulated


def kill(args):
    """Each target bears several kills, then one whole injection."""
    waits = os.path.join(args.targets, "waits")
    chooser = random.Random(args.seed)
    per_target, kills, targets, calls, harmed = 10, 0, 0, 0, len(failures)
    while kills < args.count:
        breakpoint = targets % 4 == 3
        kinds = ["--kinds", "finite"] if breakpoint else []
        options = ["--breakpoint"] if breakpoint else ["--parked"]
        program = Program(args, waits, "--busy", "2", *kinds)
        time.sleep(0.1)
        for _ in range(min(per_target, args.count - kills)):
            victim = subprocess.Popen(
                [args.driver, "begin", str(program.pid), program.folder,
                 "--times", "100000", *options],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            # From its first injection on it does nothing but inject.
            victim.stdout.readline()
            time.sleep(chooser.uniform(0.0, 0.02))
            # The tracing helper too, but not while the kernel holds a
            # breakpoint for it, which only the helper can take away.
            if not breakpoint and chooser.random() < 0.5:
                for child in children(victim.pid):
                    try:
                        os.kill(child, signal.SIGKILL)
                    except OSError:
                        pass
            victim.kill()
            victim.communicate()
            kills += 1
            if program.process.poll() is not None:
                break
        if program.process.poll() is None:
            # A helper may still be putting things right.
            for _ in range(200):
                result = driver(args, "begin", program.pid, program.folder, *options)
                if result.returncode == 0 or "another culprit" not in result.stderr:
                    break
                time.sleep(0.05)
            if result.returncode:
                fail(f"after kills: {result.stderr.strip()}")
        calls += program.ran()
        program.end(f"target {targets} after kills")
        targets += 1
    print(f"kills: {kills} on {targets} programs among {calls} injections, "
          f"{len(failures) - harmed} harmed", flush=True)


def verified(args, folder):
    """How many captures in \\p folder are good, and how many are empty; others fail."""
    good = empty = 0
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".cprt"):
            continue
        path = os.path.join(folder, name)
        if os.path.getsize(path) == 0:
            empty += 1  # Killed between making it and the agent's first write.
            continue
        done = subprocess.run([args.culprit, "verify", path], capture_output=True, text=True)
        if done.returncode:
            fail(f"{name}: {done.stdout.strip()} {done.stderr.strip()}")
        good += not done.returncode
    return good, empty


def attach_again(args, program, path):
    """A whole attach after kills: the agent of the last one may still be ending."""
    until = time.monotonic() + 30
    while True:
        done = subprocess.run([args.culprit, "attach", str(program.pid), "--duration", "0.2", "-o", path],
                              capture_output=True, text=True, env=simulated(args))
        if done.returncode == 0 or "already" not in done.stderr or time.monotonic() > until:
            break
        time.sleep(0.05)
    if done.returncode:
        fail(f"after kills: {done.stderr.strip()}")


def attach(args):
    """The real culprit and its agent, killed from the look at the process to the recording and its end."""
    chooser = random.Random(args.seed)
    kills = targets = good = empty = 0
    harmed = len(failures)
    while kills < args.count:
        program = CudaProgram(args)
        for _ in range(min(10, args.count - kills)):
            victim = subprocess.Popen([args.culprit, "attach", str(program.pid), "-o",
                                       f"{program.folder}/{kills}.cprt", "--duration", "0.1"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=simulated(args))
            # Half of them while it is being loaded, half up to the end of the recording.
            time.sleep(chooser.uniform(0.0, chooser.choice((0.05, 0.4))))
            if chooser.random() < 0.5:
                for child in children(victim.pid):  # The tracing helper.
                    try:
                        os.kill(child, signal.SIGKILL)
                    except OSError:
                        pass
            victim.kill()
            victim.wait()
            kills += 1
            if not program.work():
                fail(f"kill {kills}: the program is lost")
                break
        attach_again(args, program, program.folder + "/last.cprt")
        more = verified(args, program.folder)
        good, empty = good + more[0], empty + more[1]
        program.end(f"target {targets} after kills of culprit")
        targets += 1
    print(f"kills of culprit attach: {kills} on {targets} programs, {len(failures) - harmed} harmed; of the files that "
          f"were left {good} are good, {empty} empty", flush=True)
