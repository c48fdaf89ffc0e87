"""Trains one case for real and keeps what a user's run would have left.

A `Run` subclass is one case: it changes the loop below in one place (its
fault) and names the files that its logger writes. The recorder keeps every
step in memory for one step longer than needed, so that the last good step can
still be dumped when the first bad one shows up.

Step times are the only invented numbers: real ones would differ each time the
script runs. They come from a seeded clock that starts at a fixed date.
"""

import fnmatch
import json
import math
from datetime import datetime, timedelta, timezone

import numpy as np
import torch
from safetensors.torch import save_file

from . import models

START = datetime(2026, 1, 5, 9, 0, 0, tzinfo=timezone.utc)


def short(x):
    """Six digits: enough for any detector, a third of the bytes."""
    return float(f"{x:.6g}")


def norm(tensors):
    return math.sqrt(sum(float(t.double().square().sum()) for t in tensors))


def sort_metadata(path):
    """safetensors writes its metadata in the order of a hash map; sorted, the
    same run gives the same bytes."""
    data = bytearray(path.read_bytes())
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode().ljust(end - 8)
    assert len(text) == end - 8
    data[8:end] = text
    path.write_bytes(data)


class Snapshot:
    """One step: activations in execution order, weights before and after the
    update, gradients before clipping."""

    def __init__(self, number, batch, taps, model):
        self.number = number
        self.batch = dict(zip(("input_ids", "labels"), batch))
        if batch[0].is_floating_point():
            self.batch = {"input": batch[0], "labels": batch[1]}
        self.taps = {name: t.detach() for name, t in taps.items()}
        self.before = {n: p.detach().clone()
                       for n, p in model.named_parameters()}
        self.grads, self.after = {}, {}
        self.row = self.first_bad_row()

    def first_bad_row(self):
        """The batch row of the first NaN, else of the first Inf, else 0. Inf
        comes second because the causal mask hides half of the scores."""
        for is_bad in (torch.isnan, torch.isinf):
            for t in self.taps.values():
                if t.dim() and is_bad(t).any():
                    return int(is_bad(t).nonzero()[0, 0])
        return 0

    def tensors(self, wanted, one_row):
        """Yields (name, tensor) in execution order; of activations one row of
        the batch if asked, the one with the first non-finite value."""
        rows = slice(None)
        if one_row:
            rows = slice(self.row, self.row + 1)
        named = [(f"batch.{n}", t) for n, t in self.batch.items()]
        named += self.before.items()
        named += [(n, t[rows] if t.dim() else t)
                  for n, t in self.taps.items()]
        # Backward runs from the loss to the embedding.
        named += [(f"{n.removesuffix('.weight')}.grad", g)
                  for n, g in reversed(self.grads.items())]
        for name, tensor in named:
            if any(fnmatch.fnmatch(name, glob) for glob in wanted):
                # safetensors refuses views of one storage.
                yield name, tensor.contiguous().clone()

    def layers(self, names):
        """One row a layer, as a logging hook of a user would compute it."""
        for layer in names:
            act = self.taps[f"{layer}.output"].float()
            # A block's norm counts to the part that it feeds.
            fed_by = layer.replace("attn", "ln_1").replace("mlp", "ln_2")
            parts = [layer, fed_by]
            own = [n for n in self.before
                   if any(n.startswith(part + ".") for part in parts)]
            row = {"step": self.number, "layer": layer,
                   "act_rms": act.square().mean().sqrt(),
                   "act_max": act.abs().max(),
                   "zero_frac": (act == 0).float().mean(),
                   "grad_norm": None, "weight_norm": None,
                   "update_ratio": None}
            if own:
                weight = norm(self.before[n] for n in own)
                moved = norm(self.after[n] - self.before[n] for n in own)
                row["grad_norm"] = norm(self.grads[n] for n in own
                                        if n in self.grads)
                row["weight_norm"] = weight
                row["update_ratio"] = moved / weight
            row = {k: short(v) if k not in ("step", "layer") and v is not None
                   else v for k, v in row.items()}
            row["nonfinite"] = int((~act.isfinite()).sum())
            yield row


class Run:
    """A healthy GPT run; a case overrides the place where its fault sits."""

    name = None
    seed = 0
    steps = 400
    first_step = 0          # Megatron and the HF Trainer count from 1
    optimizer_name = "adamw"
    lr, warmup, schedule = 3e-3, 20, "cosine"
    weight_decay, clip = 0.1, 1.0
    precision = "fp32"
    val_every = 50
    model_options = {}
    layers = models.Gpt.LAYERS
    dumped = ("batch.*", "embed.output", "blocks.*.attn.input",
              "blocks.*.attn.output", "blocks.*.mlp.output", "head.output",
              "loss.output", "blocks.0.attn.proj.weight",
              "blocks.0.attn.proj.grad")
    dump_first, dump_last, one_row = True, True, True
    extra_dumps = {}        # step index -> globs
    onset = None            # step index, found by is_onset() if not known
    write_files = None      # writes metrics and logs of the finished run
    npy_dumps = False
    verdict, root_class, where, also, note = "diagnosed", None, None, [], ""

    # The places where a fault can sit.

    def make_model(self):
        return models.Gpt(**self.model_options)

    def make_source(self, seed):
        return models.MarkovText(seed)

    def wrap(self, model):
        """What happens to the model after the optimizer was built."""
        return model

    def make_optimizer(self, model):
        return torch.optim.AdamW(model.parameters(), lr=self.lr,
                                 weight_decay=self.weight_decay)

    def lr_factor(self, i):
        """Linear warm-up, then what `schedule` names; cosine ends at 0."""
        if i < self.warmup:
            return (i + 1) / self.warmup
        if self.schedule == "constant":
            return 1.0
        done = (i - self.warmup) / (self.steps - 1 - self.warmup)
        return 0.5 * (1 + math.cos(math.pi * done))

    def make_scheduler(self, optimizer):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, self.lr_factor)

    def spoil_batch(self, i, inputs, labels):
        return inputs, labels

    def spoil_loss(self, loss):
        return loss

    def after_step(self, i, model):
        pass

    def is_onset(self, i, row, now):
        return i == self.onset

    # The loop.

    def train(self):
        torch.manual_seed(self.seed)
        clock = np.random.default_rng(self.seed + 7)
        model = self.make_model()
        optimizer = self.make_optimizer(model)
        model = self.wrap(model)
        scheduler = self.make_scheduler(optimizer)
        source = self.make_source(self.seed + 100)
        held_out = self.make_source(9)
        val = [self.spoil_batch(-1, *held_out.batch()) for _ in range(4)]
        self.history, self.layer_rows, self.dumps = [], [], {}
        self.parameters = sum(p.numel() for p in model.parameters())
        wall, before, begun = 0.0, None, False

        for i in range(self.steps):
            batch = self.spoil_batch(i, *source.batch())
            taps = {}
            model.tap = taps.__setitem__
            loss = model.loss(*batch)
            model.tap = lambda name, tensor: None
            model.zero_grad()
            self.spoil_loss(loss).backward()
            now = Snapshot(i + self.first_step, batch, taps, model)
            now.grads = {n: p.grad.clone() for n, p in model.named_parameters()
                         if p.grad is not None}
            total = torch.nn.utils.clip_grad_norm_(model.parameters(),
                                                   self.clip or math.inf)
            lr = optimizer.param_groups[0]["lr"]
            optimizer.step()
            scheduler.step()
            self.after_step(i, model)
            now.after = {n: p.detach().clone()
                         for n, p in model.named_parameters()}

            seconds = 0.0238 * math.exp(0.04 * clock.standard_normal())
            row = {"step": now.number, "loss": short(loss),
                   "grad_norm": short(total), "lr": short(lr),
                   "step_time": round(seconds, 5)}
            wall += seconds
            last = i == self.steps - 1
            if i % self.val_every == self.val_every - 1 or last:
                with torch.no_grad():
                    losses = [model.loss(*b) for b in val]
                row["val_loss"] = short(sum(losses) / len(losses))
                wall += 0.061
            row["wall"] = round(wall, 3)
            row["next_lr"] = short(optimizer.param_groups[0]["lr"])
            self.history.append(row)

            # Not `self.onset is None`: some cases know their onset beforehand.
            starts = not begun and self.is_onset(i, row, now)
            if starts:
                begun, self.onset = True, i
                if before:
                    before.row = now.row
                    self.keep(before, dump=True)
            after = begun and i == self.onset + 1
            due = now.number % 25 == 0 or starts or after or last or i == 0
            dump = (starts or (i == 0 and self.dump_first)
                    or (last and self.dump_last))
            if due or dump:
                self.keep(now, dump)
            if i in self.extra_dumps:
                self.dumps[now.number] = (now, self.extra_dumps[i])
            before = now
        self.onset_step = None if not begun else self.onset + self.first_step

    def keep(self, snap, dump):
        if not any(r["step"] == snap.number for r in self.layer_rows):
            self.layer_rows += snap.layers(self.layers)
        if dump:
            self.dumps[snap.number] = (snap, self.dumped)

    # The folder.

    def record(self, folder):
        self.train()
        folder.mkdir(parents=True)
        (folder / "dumps").mkdir()
        self.folder = folder
        for number, (snap, globs) in sorted(self.dumps.items()):
            self.write_dump(number, snap, globs)
        self.write_lines("layers.jsonl", map(json.dumps, self.layer_rows))
        self.write_files()
        self.write_json("expected.json", {
            "class": self.root_class, "verdict": self.verdict,
            "layer": self.where, "step": self.onset_step, "also": self.also,
            "note": self.note})

    def write_dump(self, number, snap, globs):
        tensors = dict(snap.tensors(globs, self.one_row))
        if self.npy_dumps:
            for name, tensor in tensors.items():
                np.save(self.folder / f"dumps/{number:06d}_{name}.npy",
                        tensor.numpy())
            return
        # safetensors orders tensors by dtype and name, so the order in which
        # they were computed travels in the metadata.
        path = self.folder / f"dumps/step{number:06d}.safetensors"
        save_file(tensors, path, {
            "step": str(number), "order": json.dumps(list(tensors)),
            "row": str(snap.row) if self.one_row else "all"})
        sort_metadata(path)

    def write_lines(self, name, lines):
        # newline="" keeps the \r of progress bars.
        with open(self.folder / name, "w", encoding="utf-8", newline="") as f:
            f.writelines(line + "\n" for line in lines)

    def write_json(self, name, value):
        self.write_lines(name, [json.dumps(value, indent=2)])

    def at(self, seconds, form="%Y-%m-%d %H:%M:%S,%f"):
        """The time of the run's fixed clock, milliseconds if it has %f."""
        text = (START + timedelta(seconds=seconds)).strftime(form)
        return text[:-3] if form.endswith("%f") else text
