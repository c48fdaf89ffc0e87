"""Writes a hung job as a culprit case: TP x PP x DP ranks, each with the same program of a training step, run until nothing moves.

usage: job.py TP PP DP KIND RANKS [SEED [DEPTH]]   KIND: host | device | dead | none

Hosts call ahead of the device by at most DEPTH operations; a device runs them in order; a collective completes when the device of
every member has come to it, a send when its receive has. A host-stalled rank calls nothing from some operation on, a
device-stalled one calls but never completes it, a dead one is a host-stalled one that leaves no dump.
"""
import json
import random
import sys

tp, pp, dp = map(int, sys.argv[1:4])
kind = sys.argv[4]
bad = {int(r) for r in sys.argv[5].split(",") if r}
rng = random.Random(int(sys.argv[6]) if len(sys.argv) > 6 else 0)
depth = int(sys.argv[7]) if len(sys.argv) > 7 else 12
world = tp * pp * dp


def where(rank):
    return rank % tp, rank // tp % dp, rank // tp // dp  # tensor, data, pipeline


def rank_of(t, d, p):
    return t + tp * (d + dp * p)


def members(axis, rank):
    t, d, p = where(rank)
    if axis == "tp":
        return [rank_of(i, d, p) for i in range(tp)]
    if axis == "dp":
        return [rank_of(t, i, p) for i in range(dp)]
    return list(range(world))


names, groups = {}, {}
for rank in range(world):
    for axis in ("tp", "dp", "world"):
        key = (axis, tuple(members(axis, rank)))
        names.setdefault(key, str(len(names)))
        groups[rank, axis] = (names[key], list(key[1]))
pairs = {}
for rank in range(world):
    t, d, p = where(rank)
    if p + 1 < pp:
        pairs[rank, rank_of(t, d, p + 1)] = str(len(names) + len(pairs))


def step(rank):
    """(op, group name, axis, members, peer) of one step: 3 micro-batches of 2 layers, then gradients, then a norm."""
    t, d, p = where(rank)
    out = []
    for _ in range(3):
        if p > 0:
            peer = rank_of(t, d, p - 1)
            out.append(("recv", pairs[peer, rank], "pp", [peer, rank], peer))
        for _ in range(2):
            out.append(("all_gather", *groups[rank, "tp"][:1], "tp", groups[rank, "tp"][1], None))
            out.append(("reduce_scatter", *groups[rank, "tp"][:1], "tp", groups[rank, "tp"][1], None))
        if p + 1 < pp:
            peer = rank_of(t, d, p + 1)
            out.append(("send", pairs[rank, peer], "pp", [rank, peer], peer))
    for _ in range(2):
        out.append(("all_reduce", groups[rank, "dp"][0], "dp", groups[rank, "dp"][1], None))
    out.append(("all_reduce", groups[rank, "world"][0], "world", groups[rank, "world"][1], None))
    return out


program = [step(r) * 4 for r in range(world)]
seqs = []
for r in range(world):
    count, mine = {}, []
    for op, name, *_ in program[r]:
        count[name] = count.get(name, 0) + 1
        mine.append(count[name])
    seqs.append(mine)
index = [{(n, s): i for i, ((_, n, *_), s) in enumerate(zip(program[r], seqs[r]))} for r in range(world)]
shortest = min(map(len, program))
stop = dict.fromkeys(sorted(bad), rng.randrange(shortest // 4, shortest - 4))
called, done = [0] * world, [0] * world
moved = True
while moved:
    moved = False
    for r in range(world):
        limit = min(len(program[r]), done[r] + depth)
        if r in bad and kind in ("host", "dead"):
            limit = min(limit, stop[r])
        if called[r] < limit:
            called[r], moved = limit, True
    for r in range(world):
        while done[r] < called[r]:
            op, name, _, group, _ = program[r][done[r]]
            key = (name, seqs[r][done[r]])
            if r in bad and kind == "device" and done[r] >= stop[r]:
                break
            # A device that is stuck has put its data in, so that the peers complete, but completes nothing itself.
            if any(called[m] <= index[m][key] or done[m] < index[m][key] for m in group):
                break
            for m in group:
                if done[m] == index[m][key] and not (m in bad and kind == "device" and done[m] >= stop[m]):
                    done[m] += 1
            moved = True
rows, state = [], []
label = {"tp": "TENSOR", "dp": "DATA", "pp": "PIPELINE", "world": "default_pg"}
for r in range(world):
    if r in bad and kind == "dead":
        continue
    for i in range(max(0, called[r] - max(16, depth + 4)), called[r]):
        op, name, axis, group, peer = program[r][i]
        rows.append([r, i, op, name, label[axis], len(group), seqs[r][i], "completed" if i < done[r] else "scheduled",
                     1000 * i + 7 * r, peer])
    last = {}
    for i in range(called[r]):
        _, name, axis, group, _ = program[r][i]
        e, c = last.get(name, (-1, -1, 0, 0))[:2]
        last[name] = (seqs[r][i], seqs[r][i] if i < done[r] else c, axis, group)
    for name, (e, c, axis, group) in last.items():
        state.append([r, name, label[axis], len(group), group, e, -1, c])
print(json.dumps({"culprit_case": 1, "collectives": {"columns": ["rank", "record", "op", "group", "group_name", "group_size", "seq",
      "state", "enqueued", "peer"], "rows": rows}, "process_groups": {"columns": ["rank", "group", "name", "size", "members",
      "last_enqueued", "last_started", "last_completed"], "rows": state}}).replace("null", "~"))
