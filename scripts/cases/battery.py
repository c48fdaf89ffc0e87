"""Checks that a user asks the recorder for, on the trained model.

Each writes files under battery/ from which a detector decides; the tensor
names are those of `scripts/culprit_recorder.py`.
"""

import torch

from .recorder import save_tensors
from .snapshot import norm, short


def causal_mask(run):
    """Logits of one row, and of the row with one later token changed. Half
    precision rounds both alike, so what was equal stays equal."""
    ids = run.probe_rows()[:1] if hasattr(run, "probe_rows") else \
        run.make_source(run.seed + 300).batch(1)["input_ids"][:1]
    at = ids.shape[1] // 2
    changed = ids.clone()
    changed[0, at] = (changed[0, at] + 1) % run.vocab
    for variant, row in (("base", ids), ("changed", changed)):
        with torch.no_grad():
            logits = run.model(row)
        save_tensors(run.folder / f"battery/causal_mask.{variant}.safetensors",
                     {"battery.causal_mask.input_ids": row,
                      "battery.causal_mask.logits": logits.half()},
                     {"probe": "causal_mask", "variant": variant, "step": 0})


def positions(run):
    """The first attention's output and the logits at the end of a row, and
    of the row with all tokens but the last in another order."""
    ids = run.make_source(run.seed + 300).batch(1)["input_ids"][:1]
    order = torch.randperm(ids.shape[1] - 1,
                           generator=torch.Generator().manual_seed(3))
    permuted = torch.cat((ids[:, order], ids[:, -1:]), 1)
    for variant, row in (("base", ids), ("permuted", permuted)):
        taps = {}
        run.model.tap = taps.__setitem__
        with torch.no_grad():
            logits = run.model.logits(run.spoil_batch(
                -1, {"input_ids": row, "labels": row}))
        run.model.tap = type(run.model).tap
        first = taps[f"{run.layer('attn')}.output"]
        save_tensors(run.folder / f"battery/positions.{variant}.safetensors",
                     {"battery.positions.input_ids": row,
                      "battery.positions.first_block": first[:, -4:],
                      "battery.positions.logits": logits[:, -4:]},
                     {"probe": "positions", "variant": variant})


def overfit(run, steps=60):
    """One training batch again and again, without weight decay."""
    batch = run.spoil_batch(0, run.make_source(run.seed + 400).batch())
    torch.manual_seed(run.seed)
    model = run.make_model()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0)
    rows = []
    for i in range(steps):
        loss = run.compute_loss(0, model, batch)
        model.zero_grad()
        run.spoil_loss(loss).backward()
        size = norm(p.grad for p in model.parameters() if p.grad is not None)
        optimizer.step()
        rows.append(f'{{"step": {i}, "overfit_loss": {short(loss)}, '
                    f'"overfit_grad_norm": {short(size)}}}')
    (run.folder / "battery").mkdir(exist_ok=True)
    run.write_lines("battery/metrics.jsonl", rows)


def heads(tensors, count=8):
    """The first elements of every tensor, in one vector."""
    return torch.cat([t.detach().flatten()[:count].float() for t in tensors])


class Determinism:
    """What two runs of one command are compared by, taken in the first step.
    """

    def __init__(self):
        self.tensors, self.losses = {}, []

    def init(self, model):
        self.put("init", heads(model.parameters()))

    def put(self, name, tensor):
        self.tensors.setdefault(name, tensor.detach().clone())

    def save(self, folder, variant):
        tensors = self.tensors | {"loss": torch.tensor(self.losses)}
        save_tensors(folder / f"battery/determinism.{variant}.safetensors",
                     {f"battery.determinism.{n}": t
                      for n, t in tensors.items()},
                     {"probe": "determinism", "variant": variant})


def evaluated(check):
    def run_check(run):
        run.model.eval()
        check(run)
        run.model.train()
    return run_check


CHECKS = {"causal_mask": evaluated(causal_mask),
          "positions": evaluated(positions), "overfit": overfit}
