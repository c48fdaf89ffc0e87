"""Writes memory snapshots as torch.cuda.memory._dump_snapshot does.

usage: memory_snapshot.py FOLDER

A device with a large segment of 20 MiB and a small one of 2 MiB. Before the recorded events began, 1000 bytes were allocated.
Then: a segment of 20 MiB is taken, 5000 bytes allocated, 1000 more allocated and freed, and an allocation of 1 GiB fails.
"""

import json
import pathlib
import pickle
import sys

FOLDER = pathlib.Path(sys.argv[1])
FOLDER.mkdir(parents=True, exist_ok=True)
MIB = 1 << 20
STACK = [{"name": "linear", "filename": "torch/nn.py", "line": 114}, {"name": "forward", "filename": "model.py", "line": 9}]


def segment(address, size, kind, blocks, **more):
    return dict({"device": 0, "address": address, "total_size": size, "allocated_size": 0, "active_size": 0, "requested_size": 0,
                 "stream": 0, "segment_type": kind, "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                 "blocks": blocks}, **more)


def block(address, size, asked, state, frames=()):
    return {"address": address, "size": size, "requested_size": asked, "state": state, "frames": list(frames)}


def event(action, where, size, us, frames=()):
    return {"action": action, "device_free" if action == "oom" else "addr": where, "size": size, "stream": 0,
            "time_us": 1_700_000_000_000_000 + us, "frames": list(frames)}


large, small = 0x7F0000000000, 0x7F1000000000
segments = [
    segment(large, 20 * MIB, "large", [block(large, 5120, 5000, "active_allocated", STACK),
                                       block(large + 5120, 1024, 1000, "active_awaiting_free", STACK),
                                       block(large + 6144, 20 * MIB - 6144, 0, "inactive")]),
    segment(small, 2 * MIB, "small", [block(small, 1024, 1000, "active_allocated"),
                                      block(small + 1024, 2 * MIB - 1024, 0, "inactive")], is_expandable=True)]
trace = [event("segment_alloc", large, 20 * MIB, 0), event("alloc", large, 5000, 1, STACK), event("alloc", large + 5120, 1000, 2, STACK),
         event("free_requested", large + 5120, 1000, 3), event("oom", 12 * MIB, 1 << 30, 4, STACK), event("snapshot", 0, 0, 5)]
settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False}
new = {"segments": segments, "device_traces": [trace, []], "allocator_settings": settings}
(FOLDER / "new_rank3.pickle").write_bytes(pickle.dumps(new))
(FOLDER / "cpp_rank3.pickle").write_bytes(pickle.dumps(new, protocol=2))
(FOLDER / "json_rank3.json").write_text(json.dumps(new))
(FOLDER / "cut.pickle").write_bytes(pickle.dumps(new)[:-200])

# Before 2.1: a history for frames, no addresses in blocks, no times.
old = {"segments": [{"device": 1, "address": 4096, "total_size": 2 * MIB, "allocated_size": 512, "active_size": 512, "stream": 0,
                     "segment_type": "small", "blocks": [
                         {"size": 512, "state": "active_allocated",
                          "history": [{"addr": 4096, "real_size": 100, "frames": STACK}, {"addr": 4096, "real_size": 7, "frames": []}]},
                         {"size": 2 * MIB - 512, "state": "inactive", "history": [{"addr": 4608, "real_size": 9, "frames": STACK}]}]}],
       "device_traces": [[], [{"action": "alloc", "addr": 4096, "size": 100, "stream": 0, "frames": STACK}]]}
(FOLDER / "old.pickle").write_bytes(pickle.dumps(old))
(FOLDER / "segments.pickle").write_bytes(pickle.dumps(old["segments"]))
