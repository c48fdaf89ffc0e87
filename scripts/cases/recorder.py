"""Trains one case for real and keeps what a user's run would have left.

A `Run` subclass is one case: it changes the loop below in one place (its
fault) and names the files that its logger writes. The recorder keeps every
step in memory for one step longer than needed, so that the last good step can
still be dumped when the first bad one shows up.

Step and data times are the only invented numbers: real ones would differ each
time the script runs. They come from a seeded clock that starts at a fixed
date.
"""

import json
import math
from datetime import datetime, timedelta, timezone

import numpy as np
import torch
from safetensors.torch import save_file

from . import models
from .snapshot import Snapshot, checksum, short

START = datetime(2026, 1, 5, 9, 0, 0, tzinfo=timezone.utc)


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


def save_tensors(path, tensors, metadata):
    """One safetensors file; `order` keeps the order of the dict."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({n: t.contiguous().clone() for n, t in tensors.items()}, path,
              {k: str(v) for k, v in metadata.items()}
              | {"order": json.dumps(list(tensors))})
    sort_metadata(path)


class Run:
    """A healthy run; a fault overrides the place where it sits.

    After `train()`: history (a dict a step), layer_rows, dumps (step number
    to snapshot and globs), onset_step.
    """

    name = None
    seed = 0
    steps = 400
    first_step = 0          # Megatron and the HF Trainer count from 1
    optimizer_name = "adamw"
    lr, warmup, schedule = 3e-3, 20, "cosine"
    betas, eps, momentum = (0.9, 0.999), 1e-8, 0.9
    weight_decay, clip = 0.1, 1.0
    accumulate = 1          # batches of one update
    precision = "fp32"
    val_every = 50
    batch_size = models.BATCH
    model_options = {}
    layers = models.Gpt.LAYERS
    full_columns = False    # all columns that the recorder can measure
    layers_every = 25
    saturates = {}          # layer -> limits of its activation
    dumped = ("batch.*", "embed.output", "blocks.*.attn.input",
              "blocks.*.attn.output", "blocks.*.mlp.output", "head.output",
              "loss.output", "blocks.0.attn.proj.weight",
              "blocks.0.attn.proj.grad")
    dump_first, dump_last, one_row = True, True, True
    extra_dumps = {}        # step index -> globs
    onset = None            # step index, found by is_onset() if not known
    write_files = None      # writes metrics and logs of the finished run
    npy_dumps = False
    rank = None
    interval, dropped = None, ()    # of the log, None is the logger's own
    notices = {}            # step index -> [(level, text)] of the plain log
    verdict, root_class, where, also, note = "diagnosed", None, None, [], ""

    # The places where a fault can sit.

    def make_model(self):
        return models.Gpt(**self.model_options)

    def make_source(self, seed):
        """Something with batch() -> dict of tensors."""
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
        if self.schedule == "linear":
            return 1 - 0.9 * done
        return 0.5 * (1 + math.cos(math.pi * done))

    def make_scheduler(self, optimizer):
        return torch.optim.lr_scheduler.LambdaLR(optimizer, self.lr_factor)

    def next_batch(self, i, source):
        return source.batch()

    def spoil_batch(self, i, batch):
        """A training batch on its way to the model."""
        return batch

    def spoil_val(self, batch):
        """A held-out batch; by default code of the batch path is shared."""
        return self.spoil_batch(-1, batch)

    def before_step(self, i):
        """May replace self.model, self.optimizer and self.scheduler."""

    def compute_loss(self, i, model, batch):
        return model.loss(batch)

    def spoil_loss(self, loss):
        """What backward() gets; the loss of the log is the one before."""
        return loss

    def zero_grad(self, i):
        self.model.zero_grad()

    def backward(self, i, loss):
        (loss / self.accumulate).backward()

    def logged_loss(self, losses):
        return sum(losses) / len(losses)

    def update(self, i):
        """Clips, steps; returns the gradient norm before clipping."""
        total = torch.nn.utils.clip_grad_norm_(self.model.parameters(),
                                               self.clip or math.inf)
        self.optimizer.step()
        return total

    def after_step(self, i, model):
        pass

    def keep_checkpoint(self, i, model):
        """A family's that saves any; apart, as a fault may take the other."""

    def data_seconds(self, i, clock):
        """Part of the step in which the loop waits for its batch."""
        return 0.0009 * math.exp(0.1 * clock.standard_normal())

    def is_onset(self, i, row, now):
        return i == self.onset

    def thin(self, name, tensor):
        """What of a tensor goes into a dump."""
        return tensor

    def fed_by(self, layer):
        """Norms whose weights count to the part that they feed."""
        parts = (layer.replace("attn", "ln_1").replace("mlp", "ln_2"),)
        return [p for p in parts if p != layer]

    def held_out_columns(self, batches):
        """What a validation measures besides the loss."""
        return {}

    def write_more(self):
        """Files of the case beyond those of its logger."""

    # The loop.

    def train(self):
        torch.manual_seed(self.seed)
        clock = np.random.default_rng(self.seed + 7)
        model = self.make_model()
        self.optimizer = self.make_optimizer(model)
        self.model = self.wrap(model)
        self.scheduler = self.make_scheduler(self.optimizer)
        source = self.make_source(self.seed + 100)
        held_out = self.make_source(9)
        val = [self.spoil_val(held_out.batch()) for _ in range(4)]
        self.history, self.layer_rows, self.dumps = [], [], {}
        self.parameters = sum(p.numel() for p in model.parameters())
        wall, before, begun, tokens = 0.0, None, False, 0

        for i in range(self.steps):
            self.before_step(i)
            model = self.model
            self.zero_grad(i)
            losses, taps = [], {}
            for part in range(self.accumulate):
                batch = self.spoil_batch(i, self.next_batch(i, source))
                if part == self.accumulate - 1:
                    model.tap = taps.__setitem__
                losses.append(self.compute_loss(i, model, batch))
                model.tap = type(model).tap
                self.backward(i, self.spoil_loss(losses[-1]))
            now = Snapshot(i + self.first_step, batch, taps, model)
            now.grads = {n: p.grad.clone() for n, p in model.named_parameters()
                         if p.grad is not None}
            now.last_grads = before.grads if before else {}
            lr = self.optimizer.param_groups[0]["lr"]
            total = self.update(i)
            self.scheduler.step()
            self.after_step(i, model)
            self.keep_checkpoint(i, model)
            now.after = {n: p.detach().clone()
                         for n, p in model.named_parameters()}
            if self.full_columns:
                now.state = self.optimizer_state()

            seconds = 0.0238 * math.exp(0.04 * clock.standard_normal())
            row = {"step": now.number, "loss": short(self.logged_loss(losses)),
                   "grad_norm": short(total), "lr": short(lr)}
            if self.full_columns:
                data = self.data_seconds(i, clock)
                seconds += data
                tokens += self.accumulate * next(iter(batch.values())).numel()
                row |= {"data_time": round(data, 5), "tokens": tokens}
                row |= self.batch_columns(batch)
                if i % 10 == 0:
                    row |= {k: short(v, 4) for k, v in now.totals().items()
                            if v is not None}
            row["step_time"] = round(seconds, 5)
            wall += seconds
            last = i == self.steps - 1
            if i % self.val_every == self.val_every - 1 or last:
                model.eval()
                with torch.no_grad():
                    losses = [model.loss(b) for b in val]
                model.train()
                row["val_loss"] = short(sum(losses) / len(losses))
                with torch.no_grad():
                    row |= {k: short(v) for k, v in
                            self.held_out_columns(val).items()}
                wall += 0.061
            row["wall"] = round(wall, 3)
            row["next_lr"] = short(self.optimizer.param_groups[0]["lr"])
            self.history.append(row)

            # Not `self.onset is None`: some cases know their onset beforehand.
            starts = not begun and self.is_onset(i, row, now)
            if starts:
                begun, self.onset = True, i
                if before:
                    before.row = now.row
                    self.keep(before, dump=True)
            after = begun and i == self.onset + 1
            due = (now.number % self.layers_every == 0 or starts or after
                   or last or i == 0)
            dump = (starts or (i == 0 and self.dump_first)
                    or (last and self.dump_last))
            if due or dump:
                self.keep(now, dump)
            if i in self.extra_dumps:
                self.dumps[now.number] = (now, self.extra_dumps[i])
            before = now
        self.onset_step = None if not begun else self.onset + self.first_step

    def optimizer_state(self):
        state = self.optimizer.state
        return {n: {k: v.clone() if torch.is_tensor(v) else v
                    for k, v in state[p].items() if v is not None}
                for n, p in self.model.named_parameters() if p in state}

    def keep(self, snap, dump):
        if not any(r["step"] == snap.number for r in self.layer_rows):
            self.layer_rows += (
                snap.full_layers(self.layers, self.fed_by, self.saturates)
                if self.full_columns else
                snap.layers(self.layers, self.fed_by))
        if dump:
            self.dumps[snap.number] = (snap, self.dumped)

    def batch_columns(self, batch):
        """What a loop can count of a batch: all of it is logged."""
        first = next(iter(batch.values()))
        row = {"batch_hash": checksum(first)}
        if "input_ids" in batch:
            row |= {"distinct_tokens": len(first.unique()),
                    "loss_tokens": int((batch["labels"] != -100).sum())}
        return row

    # The folder.

    def record(self, folder):
        """Trains and writes what the run leaves; the answer is not in it."""
        self.train()
        self.write(folder)

    def write(self, folder):
        folder.mkdir(parents=True)
        self.folder = folder
        for number, (snap, globs) in sorted(self.dumps.items()):
            if globs:
                self.write_dump(number, snap, globs)
        self.write_lines("layers.jsonl", map(json.dumps, self.layer_rows))
        self.write_files()
        self.write_more()

    def expected(self):
        return {"class": self.root_class, "verdict": self.verdict,
                "layer": self.where, "step": self.onset_step,
                "also": self.also, "note": self.note}

    def write_dump(self, number, snap, globs):
        (self.folder / "dumps").mkdir(exist_ok=True)
        tensors = dict(snap.tensors(globs, self.one_row, self.thin))
        if self.npy_dumps:
            for name, tensor in tensors.items():
                np.save(self.folder / f"dumps/{number:06d}_{name}.npy",
                        tensor.numpy())
            return
        # safetensors orders tensors by dtype and name, so the order in which
        # they were computed travels in the metadata.
        rank = "" if self.rank is None else f".rank{self.rank}"
        path = self.folder / f"dumps/step{number:06d}{rank}.safetensors"
        save_tensors(path, tensors, {
            "step": number, "row": snap.row if self.one_row else "all",
            **({} if self.rank is None else {"rank": self.rank})})

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
