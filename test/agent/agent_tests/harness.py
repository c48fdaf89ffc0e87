"""What the tests of the agent share: programs on the simulated device, culprit's
end of the control socket, and counts of what a capture holds."""

import glob
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time

TESTS = {}


class Settings:
    """Of this run."""
    seed, kills = 1, 20


# lib/Capture/Protocol.h and Records.def.
MAGIC = 0x4D525043
HELLO, START, STARTED, FAILED, STATUS, STOP, DONE = range(1, 8)
KINDS = ["", "kernel", "copy", "peer_copy", "set", "call", "sync", "memory", "overhead", "graph_launch", "marker",
         "external", "event", "device", "context", "stream", "name", "paging"]
DEFAULT_KINDS = (1 << 18) - 2 & ~sum(1 << KINDS.index(k) for k in ("graph_launch", "external", "event", "paging"))
DETACHED, EXIT, FULL, LOST = 1, 3, 4, 5
LOSSES = ["cupti_dropped", "pool_overflow", "zero_time", "file_cap", "write_error"]


def test(function):
    TESTS[function.__name__.replace("_", "-")] = function
    return function


class Failed(Exception):
    pass


def want(name, got, expected):
    if got != expected:
        raise Failed(f"{name}: {got}, expected {expected}")


def want_true(name, holds):
    if not holds:
        raise Failed(name)


class Place:
    """A folder for one test, and how programs are run in it."""

    def __init__(self, tools):
        self.tools = os.path.abspath(tools)
        self.folder = tempfile.mkdtemp(prefix="culprit-agent-test-")

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self, **more):
        out = {k: v for k, v in os.environ.items()
               if not k.startswith(("SIMCU", "CULPRIT_", "CUDA_INJECTION", "NVTX_INJECTION"))}
        out["LD_LIBRARY_PATH"] = self.tools
        out["SIMCUPTI_STRICT"] = "1"
        out.update({k: str(v) for k, v in more.items()})
        return out

    def recorded(self, capture="a.cprt", **more):
        """The environment of a program whose agent writes by itself."""
        more.setdefault("CUDA_INJECTION64_PATH", os.path.join(self.tools, "libculprit-agent.so"))
        more.setdefault("NVTX_INJECTION64_PATH", more["CUDA_INJECTION64_PATH"])
        return self.environment(CULPRIT_CAPTURE=self.path(capture), **more)

    def run(self, *arguments, status=0, environment=None):
        done = subprocess.run([os.path.join(self.tools, "workload"), *map(str, arguments)],
                              env=environment or self.recorded(), capture_output=True, text=True, timeout=120)
        if done.returncode != status:
            raise Failed(f"workload {arguments} ended with {done.returncode}: {done.stderr.strip()}")
        return truth(done.stdout)

    def start(self, *arguments, environment=None, **options):
        return subprocess.Popen([os.path.join(self.tools, "workload"), *map(str, arguments)],
                                env=environment or self.recorded(), text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, bufsize=1, **options)

    def counts(self, capture="a.cprt", broken=False):
        done = subprocess.run([os.path.join(self.tools, "capture-counts"), self.path(capture)],
                              capture_output=True, text=True)
        if done.returncode and not broken:
            raise Failed(f"capture-counts: {done.stderr.strip()}")
        c = json.loads(done.stdout)
        whole = sum(c[k] for k in KINDS[1:])
        if not broken and c["end"]:
            want("records in the file", whole, c["written"])
            want("bytes that are no frame", c["gap_bytes"], 0)
        for zero in ("unnamed", "bad_shape", "doubled", "bad_time", "parse_stop"):
            want(zero, c[zero], 0)
        return c


def truth(text):
    """{"kernels": 10} of a workload's "kernels 10"."""
    out = {}
    for line in text.splitlines():
        words = line.split()
        for key, value in zip(words[::2], words[1::2]):
            out[key] = float(value) if "." in value else int(value)
    return out


def ask(process, command, answer=0):
    """Has a `workload shell` do a command."""
    process.stdin.write(command + "\n")
    process.stdin.flush()
    ready, _, _ = select.select([process.stdout], [], [], 60)
    if not ready:
        raise Failed(f"no answer to '{command}': a deadlock")
    line = process.stdout.readline().split()
    while line and line[0] != "ok":
        line = process.stdout.readline().split()
    if not line:
        raise Failed(f"'{command}' ended the program with {process.wait()}")
    if answer is not None:
        want(command, int(line[2]), answer)
    return int(line[2])


class Session:
    """culprit's end of the control socket, of one session."""

    def __init__(self, place, name):
        self.folder = place.path(name)
        os.mkdir(self.folder)
        shutil.copy(os.path.join(place.tools, "libculprit-agent.so"), self.folder)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.folder + "/control")
        self.listener.listen(1)
        self.listener.settimeout(30)
        self.capture = name + ".cprt"
        self.file = os.open(place.path(self.capture), os.O_RDWR | os.O_CREAT | os.O_EXCL)

    def start(self, kinds=DEFAULT_KINDS, max_size=0, pool=128 << 20, buffer=1 << 20, ring=0, driver=0, finalize=1,
              cupti=b""):
        """Waits for the agent and has it begin; (message, body) of its answer."""
        try:
            self.peer, _ = self.listener.accept()
        except TimeoutError:
            raise Failed("the agent does not connect") from None
        self.peer.settimeout(30)
        kind, self.hello = self.receive()
        want("first message", kind, HELLO)
        body = struct.pack("<QQQQIIII256s", kinds, max_size, pool, buffer, ring, driver, finalize, 2000, cupti)
        socket.send_fds(self.peer, [struct.pack("<IHH", MAGIC, START, len(body)) + body], [self.file])
        os.close(self.file)
        return self.receive()

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.peer.recv(size - len(data))
            if not more:
                raise Failed("the agent closed the connection")
            data += more
        return data

    def receive(self):
        magic, kind, size = struct.unpack("<IHH", self.exactly(8))
        want("magic of a message", magic, MAGIC)
        return kind, self.exactly(size)

    def stop(self):
        self.peer.sendall(struct.pack("<IHH", MAGIC, STOP, 0))

    def done(self):
        """(reason, detach) of the Done message."""
        while True:
            try:
                kind, body = self.receive()
            except TimeoutError:
                raise Failed("the agent does not say that it is done") from None
            if kind == DONE:
                self.peer.close()
                return struct.unpack("<II", body[:8])
            want("message", kind, STATUS)

    def done_while(self, work):
        """done() of an agent that waits for the program, which works until then."""
        said = []

        def hear():
            try:
                said.append(self.done())
            except Exception as error:  # to be raised where it is seen
                said.append(error)

        hearer = threading.Thread(target=hear)
        hearer.start()
        try:
            while hearer.is_alive():
                work()
                time.sleep(0.02)
        finally:
            hearer.join()
        if isinstance(said[0], Exception):
            raise said[0]
        return said[0]


def wait_for(name, holds, seconds=60):
    """Until it holds. A busy machine takes its time, which is no failure."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise Failed(f"after {seconds} s not: {name}")
        time.sleep(0.02)


def names(process):
    """What the threads of a program are called, in order; one may end while they are read."""
    out = []
    for path in glob.glob(f"/proc/{process.pid}/task/*/comm"):
        try:
            out.append(open(path).read().strip())
        except OSError:
            pass
    return sorted(out)


def text_of(body):
    """What a Failed message says."""
    return body[8:].split(b"\0")[0].decode()


def check_workload(place, name, environment=None, **expected):
    said = place.run(*name.split(), environment=environment)
    c = place.counts()
    want("lost", {k: c[k] for k in LOSSES if c[k]}, {})
    for key, value in expected.items():
        want(key, c[key.replace("__", " ")], value(said) if callable(value) else value)
    want("kernels without a call", c["unjoined"], 0)
    want("reason of the end", c["end"], EXIT)
    return said, c
