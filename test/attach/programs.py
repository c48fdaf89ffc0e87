# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that tests attach to, each of which tells what it noticed."""

import os, shutil, signal, subprocess, tempfile

failures = []


def fail(text):
    failures.append(text)
    print("FAILED: " + text, flush=True)


class Program:
    """A running target, with a folder for its agent."""

    def __init__(self, args, *words, folder_user=None, **how):
        self.folder = tempfile.mkdtemp(prefix="attach-", dir=args.scratch)
        if folder_user is not None:
            os.chown(self.folder, folder_user, folder_user)
        shutil.copy(os.path.join(args.targets, "libculprit-agent.so"), self.folder)
        os.chmod(self.folder + "/libculprit-agent.so", 0o755)
        os.chmod(self.folder, 0o755)
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **how)
        self.pid = self.process.pid
        line = self.process.stdout.readline()
        if line not in ("ready\n", f"pid {self.pid}\n"):
            fail(f"{words[0]} did not start: {line!r}")

    def ran(self):
        try:
            return os.path.getsize(self.folder + "/ran")
        except OSError:
            return 0

    def end(self, name):
        """Asks for the program's own account of what it noticed."""
        alive = self.process.poll() is None
        if alive:
            self.process.send_signal(signal.SIGTERM)
        try:
            out, _ = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, _ = self.process.communicate()
            fail(f"{name}: does not end by itself")
        line = (out.strip().splitlines() or [""])[-1]
        if not alive:
            fail(f"{name}: was lost, status {self.process.returncode}")
        elif self.process.returncode != 0:
            fail(f"{name}: noticed something, status "
                 f"{self.process.returncode}: {line}")
        shutil.rmtree(self.folder, ignore_errors=True)
        return line


class CudaProgram(Program):
    """One that uses the simulated CUDA, which ends it when rules are broken. It does what it is told."""

    def __init__(self, args):
        super().__init__(args, os.path.join(args.sim, "workload"), "shell", stdin=subprocess.PIPE, bufsize=1,
                         env=simulated(args))

    def work(self):
        """Whether it lives and launches as before."""
        try:
            self.process.stdin.write("launch 3\n")
            return self.process.stdout.readline().startswith("ok ")
        except OSError:
            return False

    def end(self, name):
        """Whether it lived on, worked to the last and ended as it was told to."""
        alive = self.work() and self.process.poll() is None
        try:
            self.process.communicate("exit\n", timeout=20)
        except (subprocess.TimeoutExpired, OSError):
            self.process.kill()
            self.process.wait()
        if not alive or self.process.returncode:
            fail(f"{name}: was lost, status {self.process.returncode}")
        shutil.rmtree(self.folder, ignore_errors=True)
        return f"status {self.process.returncode}"


def simulated(args):
    return {**os.environ, "LD_LIBRARY_PATH": args.sim, "SIMCUPTI_STRICT": "1"}


def driver(args, *words, user=None):
    command = [args.driver, *map(str, words)]
    if user is not None:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}",
                   "--clear-groups", *command]
    return subprocess.run(command, capture_output=True, text=True)


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(word) for word in f.read().split()]
    except OSError:
        return []
