"""Breaks a sample of every input format in many ways and diagnoses it beside a good file.

usage: broken.py PROGRAM CASES_FOLDER WORK_FOLDER FORMAT

For each way of breaking: the program must end normally, say at most a few clear sentences that name the file, and still diagnose
the good file. Empty and cut files must be named. Prints one line a way.
"""

import gzip
import json
import pathlib
import random
import re
import shutil
import sqlite3
import subprocess
import sys

PROGRAM, CASES, WORK, FORMAT = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4]


def kineto():
    events = []
    for i in range(60):
        t = 1000.0 * i
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2, "ts": t, "dur": 5.5,
                       "args": {"correlation": i + 1}})
        events.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": t + 8.25, "dur": 100.5,
                       "args": {"device": 0, "stream": 7, "correlation": i + 1, "grid": [1, 1, 1], "block": [32, 1, 1]}})
    return json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": events}).encode()


def nsys():
    path = WORK / "sample.sqlite"
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.executescript("""
        create table StringIds(id integer, value text);
        insert into StringIds values (1, 'gemm'), (2, 'cudaLaunchKernel_v7000');
        create table META_DATA_EXPORT(name text, value text);
        insert into META_DATA_EXPORT values ('EXPORT_SCHEMA_VERSION', '3.24.0');
        create table CUPTI_ACTIVITY_KIND_KERNEL(start integer, end integer, deviceId integer, contextId integer, streamId integer,
            correlationId integer, globalPid integer, demangledName integer, shortName integer, gridX integer, gridY integer,
            gridZ integer, blockX integer, blockY integer, blockZ integer, registersPerThread integer);
        create table CUPTI_ACTIVITY_KIND_RUNTIME(start integer, end integer, eventClass integer, globalTid integer,
            correlationId integer, nameId integer, returnValue integer);
    """)
    for i in range(60):
        db.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?,?,0,1,7,?,16777216,1,1,1,1,1,32,1,1,16)",
                   (1000 * i + 20, 1000 * i + 900, i))
        db.execute("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?,?,0,16777217,?,2,0)", (1000 * i, 1000 * i + 10, i))
    db.commit()
    db.close()
    return path.read_bytes()


def case_file(pattern):
    return sorted(CASES.glob(pattern))[0].read_bytes()


def torch_dump(script, name):
    folder = WORK / "samples"
    subprocess.run([sys.executable, str(pathlib.Path(__file__).with_name(script)), str(folder)], check=True)
    return (folder / name).read_bytes()


PYSPY = """Process 4242: python train.py
Python v3.11.2 (/usr/bin/python3.11)

""" + "".join(f"""Thread {4242 + i} (idle): "worker {i}"
    wait (threading.py:324)
    run (worker.py:{i})
""" for i in range(40))


def generations():
    lines = []
    for i in range(40):
        content = [{"token": t, "logprob": -0.5, "bytes": list(t.encode()), "top_logprobs": [{"token": t, "logprob": -0.5}]}
                   for t in ("Hi", " \U0001f600", "</s>")]
        lines.append(json.dumps({"request": {"messages": [{"role": "user", "content": f"question {i}"}], "seed": i},
                                 "response": {"id": f"chatcmpl-{i}", "object": "chat.completion", "created": 1767603597 + i, "choices": [
                                     {"index": 0, "message": {"content": "Hi"}, "logprobs": {"content": content}}]}}) + "\n")
    return "".join(lines).encode()


def documents():
    return "".join(json.dumps({"id": i, "text": " ".join(f"word{i * j}" for j in range(40))}) + "\n" for i in range(60)).encode()


def sentencepiece():
    """Pieces with a text, a score and, the first, a kind."""
    pieces = [b"\x0a\x05piece\x15\x00\x00\x80\xbf" + (b"\x18\x02" if i == 0 else b"") for i in range(80)]
    return b"".join(b"\x0a" + bytes([len(p)]) + p for p in pieces) + b"\x12\x04\x18\x02\x20\x50" + b"\x1a\x04\x0a\x02id"


def store_sample(script):
    """The sample() of a script that writes a store."""
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    return __import__(script).sample()


SAMPLES = {
    "tensorboard": (lambda: store_sample("tensorboard"), "events.out.tfevents.1767603597.host.42.0"),
    "wandb": (lambda: store_sample("wandb_run"), "run-abc123.wandb"),
    "mlflow": (lambda: "".join(f"{1767603597600 + 1000 * i} {4.0 - i / 64} {i}\n" for i in range(100)).encode(), "metrics/loss"),
    "kineto": (kineto, "trace.json"),
    "kineto-gz": (lambda: gzip.compress(kineto(), mtime=0), "trace.json.gz"),
    "nsys": (nsys, "profile.sqlite"),
    "flight-recorder": (lambda: torch_dump("flight_recorder.py", "dump_1"), "dump_1"),
    "memory-snapshot": (lambda: torch_dump("memory_snapshot.py", "new_rank3.pickle"), "snapshot_rank3.pickle"),
    "memory-timeline": (lambda: torch_dump("memory_timeline.py", "short.json"), "timeline.raw.json"),
    "stacks": (lambda: PYSPY.encode(), "stacks.txt"),
    "safetensors": (lambda: case_file("fp16-overflow/dumps/*.safetensors"), "dump.safetensors"),
    "npy": (lambda: case_file("detached-block/dumps/*.npy"), "000001_a.output.npy"),
    "jsonl": (lambda: case_file("healthy-gpt/metrics.jsonl"), "metrics.jsonl"),
    "generations": (generations, "answers.jsonl"),
    "generations-json": (lambda: json.dumps([json.loads(line) for line in generations().splitlines()], indent=1).encode(), "answers.json"),
    "documents": (documents, "train.jsonl"),
    "sentencepiece": (sentencepiece, "tokenizer.model"),
    "vocabulary": (lambda: json.dumps({f"w{i}": i for i in range(600)}).encode(), "vocab.json"),
    "access-log": (lambda: "".join(f'10.0.0.1 - - [05/Jan/2026:08:59:{i:02d} +0000] "POST /v1/completions HTTP/1.1" 200 {500 + i} "-" '
                                   f'"curl/8.5" 0.{i}\n' for i in range(60)).encode(), "access.log"),
    "prometheus": (lambda: ("# TYPE vllm:num_requests_running gauge\n" + "".join(
        f'vllm:num_requests_running{{engine="{i}",model_name="m"}} {i}.0\n' for i in range(40))).encode(), "metrics.prom"),
    "csv": (lambda: case_file("bad-batch/metrics.csv"), "metrics.csv"),
    "trainer-state": (lambda: case_file("lr-zero-from-scheduler/trainer_state.json"), "trainer_state.json"),
    "json-config": (lambda: case_file("healthy-gpt/config.json"), "config.json"),
    "yaml-config": (lambda: case_file("bad-batch/config.yaml"), "config.yaml"),
    "log": (lambda: case_file("lr-too-high-sgd/train.log"), "train.log"),
}
GOOD = "".join(json.dumps({"step": i, "loss": 4.0 - i / 100}) + "\n" for i in range(30)) + '{"step": 30, "loss": NaN}\n'


def variants(data):
    """Yields (name, bytes, must_be_named)."""
    yield "empty", b"", True
    for share in (0.1, 0.5, 0.9):
        # A cut text is a shorter text; a cut structure must be noticed.
        yield f"cut at {share:.0%}", data[:int(len(data) * share)], FORMAT not in ("jsonl", "csv", "log", "yaml-config", "stacks", "mlflow", "access-log",
                                                                                     "prometheus")
    yield "wrong format", bytes(range(256)) * 8, False
    yield "text instead", b"dear diary, nothing was recorded today\n" * 20, False
    generator = random.Random(1)
    for number in range(24):
        broken = bytearray(data)
        for _ in range(1 + number % 3):
            at = generator.randrange(len(broken) if number % 2 else min(len(broken), 600))
            broken[at] ^= 1 << generator.randrange(8)
        yield f"bits flipped {number}", bytes(broken), False


def main():
    make, name = SAMPLES[FORMAT]
    WORK.mkdir(parents=True, exist_ok=True)
    data = make()
    for what, content, named in variants(data):
        folder = WORK / "run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "a" / name).parent.mkdir(parents=True)
        (folder / "a" / name).write_bytes(content)
        (folder / "good").mkdir()
        (folder / "good" / "metrics.jsonl").write_text(GOOD)
        before = (folder / "a" / name).read_bytes()
        done = subprocess.run([PROGRAM, "diagnose", "--format", "json", str(folder)], capture_output=True, timeout=60, check=False)
        errors = done.stderr.decode(errors="replace")
        assert done.returncode == 0, f"{what}: exit {done.returncode}\n{errors[:2000]}"
        for line in errors.splitlines():
            assert re.match(r"(error|warning|note): ", line), f"{what}: not in house form: {line!r}"
        assert len(errors.splitlines()) <= 12, f"{what}: {len(errors.splitlines())} lines\n{errors[:2000]}"
        if named:
            assert name in errors, f"{what}: {name} is not named\n{errors}"
            assert "note: " in errors, f"{what}: no remedy\n{errors}"
        result = json.loads(done.stdout)
        seen = {r["symptom"] for o in result["outcomes"] for r in o["reports"]}
        assert "loss-nonfinite" in seen, f"{what}: the good file was not diagnosed: {seen}"
        failed = [o for o in result["outcomes"] if o["outcome"] == "failed"]
        assert not failed, f"{what}: {failed[0]['error']}"
        assert (folder / "a" / name).read_bytes() == before, f"{what}: the input was written to"
        beside = [str(p.relative_to(folder / "a")) for p in (folder / "a").rglob("*") if p.is_file()]
        assert beside == [name], f"{what}: files appeared beside the input"
    print("all ways survived")


main()
