"""The programs that are recorded, and culprit beside them."""

import glob
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time

from gpucheck.runner import Failed, Skipped

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SUPERBLOCK = 4096  # A capture that is longer has begun.
# By which all waits are multiplied where the machine may be busy with others.
PATIENCE = 1


class Tools:
    """Where everything is. \\p build holds bin/culprit, lib/libculprit-agent.so
    and sim/capture-counts; \\p programs what nvcc made, none when simulated."""

    def __init__(self, build, programs, simulated, cupti=None, divisor=1):
        self.build, self.programs, self.simulated = build, programs, simulated
        self.cupti, self.divisor = cupti, divisor
        self.torch, self.torch_version = None, "none"
        self.culprit = os.path.join(build, "bin", "culprit")
        self.agent = os.path.join(build, "lib", "libculprit-agent.so")
        self.counts = os.path.join(build, "sim", "capture-counts")
        # A packed folder carries libraries that culprit needs; a program that
        # is recorded must not see them.
        self.libraries = os.path.join(build, "deps")

    def command(self, name, divisor=None):
        divisor = str(divisor or self.divisor)
        if name.startswith("torch"):
            return [self.torch, os.path.join(HERE, "torch-loop.py"), name, divisor]
        if self.simulated:
            return [sys.executable, os.path.join(HERE, "simulated.py"), name, divisor]
        program = {"driver": "driver-only", "shared": "workloads-shared"}.get(name, "workloads")
        return [os.path.join(self.programs, program), "spin" if name == "shared" else name, divisor]

    def environment(self, **more):
        """Of a program."""
        out = {k: v for k, v in os.environ.items() if not k.startswith(("CULPRIT_", "CUDA_INJECTION", "GPU_CHECK_"))}
        if self.simulated:
            out["LD_LIBRARY_PATH"] = os.path.join(self.build, "sim")
            out.setdefault("SIMCUPTI_STRICT", "1")
        out.update(more)
        return out

    def own_environment(self):
        """Of culprit and capture-counts."""
        out = self.environment()
        if os.path.isdir(self.libraries):
            out["LD_LIBRARY_PATH"] = ":".join(filter(None, [self.libraries, out.get("LD_LIBRARY_PATH")]))
        return out

    def shielded(self, command):
        """\\p command with the libraries that culprit has, taken away again."""
        if not os.path.isdir(self.libraries):
            return command
        before = self.environment().get("LD_LIBRARY_PATH")
        return ["env", f"LD_LIBRARY_PATH={before}" if before else "-uLD_LIBRARY_PATH", *command]

    def cupti_option(self):
        return [f"--cupti={self.cupti}"] if self.cupti else []


class Program:
    """A program that is told by words what to do; see test/gpu/Main.cu."""

    def __init__(self, step, tools, name, divisor=None, **environment):
        self.step, self.name = step, name
        command = tools.command(name, divisor)
        step.log("$ " + " ".join(command))
        self.errors = open(os.path.join(step.out, step.log_path), "ab")
        self.process = subprocess.Popen(command, env=tools.environment(**environment), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)
        self.pending = b""
        self.pid = self.process.pid

    def line(self, what, limit):
        """Its next line that means something: `ready` or an object."""
        limit *= PATIENCE
        until = time.monotonic() + min(limit, self.step.left())
        while True:
            while b"\n" in self.pending:
                line, self.pending = self.pending.split(b"\n", 1)
                line = line.decode(errors="replace")
                self.step.log("> " + line)
                if line.startswith(("ready", "{")):
                    return line
            wait = until - time.monotonic()
            if wait <= 0 or not select.select([self.process.stdout], [], [], wait)[0]:
                raise Failed(f"{self.name}: {what}", f"an answer within {limit:.0f} s", "none: it hangs")
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                raise Failed(f"{self.name}: {what}", "an answer", f"its end, status {self.process.wait(10)}")
            self.pending += more

    def ready(self, limit=60):
        line = self.line("preparation", limit)
        if line.startswith("{"):
            truth_of(line, self.name)
        return self

    def say(self, word):
        try:
            self.process.stdin.write(word.encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise Failed(self.name, "to be running", f"its end, status {self.process.wait(10)}") from None

    def go(self, limit=120):
        """What it did in a round."""
        self.say("go")
        return truth_of(self.line("a round", limit), self.name)

    def end(self, limit=30):
        """Has it end by itself; a wrong status is a failure."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            status = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name}: its end", f"within {limit} s", "still running") from None
        self.step.want(f"{self.name}: exit status", 0, status)

    def threads(self, path):
        """Appends what its threads wait in; an attach borrows one of them."""
        with open(path, "a", encoding="utf-8") as out:
            for task in sorted(glob.glob(f"/proc/{self.pid}/task/*")):
                try:
                    with open(task + "/comm") as comm, open(task + "/syscall") as call:
                        out.write(f"{self.name}\t{comm.read().strip()}\t{call.read().strip()}\n")
                except OSError:
                    continue

    def resident(self):
        """KiB."""
        with open(f"/proc/{self.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def truth_of(line, name):
    """What a program says that it did."""
    truth = json.loads(line)
    if "skipped" in truth:
        raise Skipped(truth["skipped"])
    if "error" in truth:
        raise Failed(f"{name}: its own calls of CUDA", "no error (see the step `alone`)", truth["error"])
    return truth


class Attached:
    """`culprit attach` to a program, from its start until it records."""

    def __init__(self, step, tools, program, capture, *options, limit=15, until="attached to "):
        self.step, self.capture = step, capture
        self.words_path = capture + ".words"
        command = [tools.culprit, "attach", str(program.pid), "--verbose", *tools.cupti_option(), *options, "-o",
                   capture]
        step.log("$ " + " ".join(command))
        begin = time.monotonic()
        with open(self.words_path, "wb") as words:
            self.process = subprocess.Popen(command, env=tools.own_environment(), stdin=subprocess.DEVNULL,
                                            stdout=words, stderr=words)
        end = begin + min(limit * PATIENCE, step.left())
        self.wait_for(until, limit)
        self.took = time.monotonic() - begin
        if until != "attached to ":
            return  # There need not be a file yet.
        while os.path.getsize(capture) <= SUPERBLOCK and time.monotonic() < end:
            time.sleep(0.002)

    def wait_for(self, words, limit):
        """Until culprit says \\p words."""
        limit *= PATIENCE
        end = time.monotonic() + min(limit, self.step.left())
        while words not in self.words():
            status = self.process.poll()
            if status is not None or time.monotonic() > end:
                self.step.log(self.words())
                raise Failed("culprit attach", f"'{words.strip()}' within {limit} s",
                             f"{'nothing' if status is None else f'exit status {status}'}: {last(self.words())}")
            time.sleep(0.002)

    def words(self):
        with open(self.words_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def stopped_us(self):
        """For how long a thread of the program was stopped; None when not told."""
        found = re.search(r"stopped for ([0-9.]+) (ns|us|ms|s)\b", self.words())
        return found and float(found[1]) * {"ns": 0.001, "us": 1, "ms": 1e3, "s": 1e6}[found[2]]

    def finish(self, limit=40, status=0, interrupt=True):
        """Ctrl-C and its end; seconds that this took."""
        limit *= PATIENCE
        begin = time.monotonic()
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        try:
            seen = self.process.wait(min(limit, self.step.left()))
        except subprocess.TimeoutExpired:
            self.step.log(self.words())
            raise Failed("culprit attach: its end", f"within {limit} s of Ctrl-C", "still running") from None
        took = time.monotonic() - begin
        self.step.log(self.words())
        self.step.want("culprit attach: exit status", status, seen)
        return took

    def detached(self):
        """How it left, in its words."""
        found = re.search(r"detached: (.*)", self.words())
        return found[1] if found else "not told"


def last(text):
    """The last lines of what a program said, as one."""
    return " / ".join(text.strip().split("\n")[-3:])[-400:] or "no word"


def run_culprit(step, tools, *words, status=0, limit=60):
    step.log("$ culprit " + " ".join(words))
    limit *= PATIENCE
    try:
        done = subprocess.run([tools.culprit, *words], env=tools.own_environment(), capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=min(limit, step.left()), errors="replace")
    except subprocess.TimeoutExpired:
        raise Failed(f"culprit {words[0]}", f"its end within {limit} s", "still running") from None
    step.log(done.stderr + done.stdout)
    if status is not None and done.returncode != status:
        raise Failed(f"culprit {words[0]}", f"exit status {status}",
                     f"{done.returncode}: {last(done.stderr or done.stdout)}")
    return done


class Scratch:
    """A folder of a step."""

    def __init__(self, step):
        self.path = os.path.join(step.out, "scratch", step.title())
        shutil.rmtree(self.path, ignore_errors=True)
        os.makedirs(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def __truediv__(self, name):
        return os.path.join(self.path, name)
