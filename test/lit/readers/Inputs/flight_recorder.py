"""Writes dumps as PyTorch's flight recorder does (FlightRecorderDetail.hpp), one a rank.

usage: flight_recorder.py FOLDER

A job of four ranks. Group "7" is two groups of one name, [0,2] and [1,3], as split_group makes them. Rank 3 never called the
all-reduce number 5 of the default group. Times are Unix times; rank 1 called for its last collective 2 ms after rank 0.
"""

import json
import pathlib
import pickle
import sys

FOLDER = pathlib.Path(sys.argv[1])
FOLDER.mkdir(parents=True, exist_ok=True)
NOW = 1_758_580_155_000_000_000


def entry(number, rank, name, group, seq, p2p, shapes, state, pair=False, started=None, completed=None):
    frames = [{"name": "all_reduce", "filename": "torch/distributed.py", "line": 2696},
              {"name": "main", "filename": "train.py", "line": 31}]
    return {"frames": frames, "record_id": number, "pg_id": {"0": 0, "7": 3}[group],
            "process_group": (group, {"0": "default_pg", "7": "undefined"}[group]), "collective_seq_id": seq, "p2p_seq_id": p2p,
            "op_id": seq + p2p, "profiling_name": "nccl:" + name, "time_created_ns": NOW + 1_000_000 * number + 2_000_000 * rank,
            "input_sizes": shapes[0], "input_dtypes": ["BFloat16"] * len(shapes[0]), "output_sizes": shapes[1],
            "output_dtypes": ["BFloat16"] * len(shapes[1]), "state": state, "time_discovered_started_ns": started,
            "time_discovered_completed_ns": completed, "retired": completed is not None, "timeout_ms": 600000, "is_p2p": pair}


def dump(rank):
    pair = [rank % 2, rank % 2 + 2]
    entries = [entry(0, rank, "_all_gather_base", "0", 4, 0, ([[2, 8]], [[8, 8]]), "completed", False, NOW, NOW + 700),
               entry(1, rank, "send 0->1" if rank < 2 else "recv 1<-0", "7", 0, 1, ([[3, 5]], [[3, 5]]), "started", True, NOW)]
    entries[0]["duration_ms"] = 0.25
    if rank != 3:
        entries.append(entry(2, rank, "all_reduce", "0", 5, 0, ([[10], [4]], [[10], [4]]), "scheduled"))
    status = {"0": {"last_enqueued_collective": 5 if rank != 3 else 4, "last_started_collective": 4, "last_completed_collective": 4},
              "3": {"last_enqueued_collective": 1, "last_started_collective": -1, "last_completed_collective": 0}}
    return {"version": "2.9", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
                                            "7": {"name": "7", "desc": "undefined", "ranks": str(pair)}},
            "nccl_version": "2.27.3", "pg_status": status, "entries": entries,
            "nccl_comm_state": {"0x12": {"rank": "0", "nRanks": "4"}}}


for rank in range(4):
    (FOLDER / f"dump_{rank}").write_bytes(pickle.dumps(dump(rank), protocol=2))
(FOLDER / "json").mkdir(exist_ok=True)
whole = dump(1)
for one in whole["entries"]:
    del one["frames"]
    for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
        one[key] = one[key] or 0
for one in whole["pg_status"].values():
    one.update({key: str(value) for key, value in one.items()})
(FOLDER / "json" / "rank_1.json").write_text(json.dumps(whole, sort_keys=True))

# Version 1: no pg_config, one counter, groups by number.
old = {"version": "1.1", "entries": [{"record_id": 7, "pg_id": 0, "seq_id": 3, "profiling_name": "nccl:all_reduce", "input_sizes": [[4]],
                                      "output_sizes": [[4]], "state": "scheduled", "time_created_ns": NOW, "frames": []}]}
(FOLDER / "old").mkdir(exist_ok=True)
(FOLDER / "old" / "nccl_trace_rank_2").write_bytes(pickle.dumps(old, protocol=2))


class Code:
    def __reduce__(self):
        import os
        return os.system, ("touch was-run",)


(FOLDER / "bad").mkdir(exist_ok=True)
(FOLDER / "bad" / "dump_0").write_bytes(pickle.dumps(dict(dump(0), more=Code())))
(FOLDER / "bad" / "dump_1").write_bytes(pickle.dumps(dump(1), protocol=2)[:-300])
(FOLDER / "bad" / "dump_2").write_bytes(pickle.dumps(dump(3), protocol=2))
