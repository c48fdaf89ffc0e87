"""Files that the loggers of the field write, one function a logger.

Each takes a finished `Run` and writes its metrics, log and config into the
case's folder. Layouts follow the projects' own sources; numbers come from the
run. The warnings are ordinary ones that mean nothing, as in any real log.
"""

import json
import math

from . import models
from .recorder import START, short

CORE = ("step", "loss", "grad_norm", "lr", "step_time", "val_loss")


def settings(run):
    """What the user set; the fault is never in here."""
    mlp = run.layers is models.Mlp.LAYERS
    model = ({"type": "mlp", "in_features": models.FEATURES, "hidden": 64,
              "num_classes": models.CLASSES} if mlp else
             {"type": "gpt", "n_layer": 2, "n_head": 4, "n_embd": 64,
              "block_size": models.CONTEXT, "vocab_size": models.VOCAB})
    optimizer = {"name": run.optimizer_name, "lr": run.lr,
                 "weight_decay": run.weight_decay}
    if run.optimizer_name == "sgd":
        optimizer["momentum"] = 0.9
    return {"model": model, "optimizer": optimizer,
            "lr_scheduler": {"name": run.schedule, "warmup_steps": run.warmup},
            "grad_clip": run.clip, "precision": run.precision,
            "batch_size": 64 if mlp else models.BATCH,
            "max_steps": run.steps, "seed": run.seed}


def write_yaml(run, name, value):
    def lines(value, indent):
        for key, item in value.items():
            if isinstance(item, dict):
                yield f"{indent}{key}:"
                yield from lines(item, indent + "  ")
            else:
                yield f"{indent}{key}: {json.dumps(item)}"
    run.write_lines(name, lines(value, ""))


def write_metrics(run, rename=None):
    """metrics.jsonl; json.dumps writes bare NaN and Infinity."""
    rename = rename or {}
    run.write_lines("metrics.jsonl", (
        json.dumps({rename.get(k, k): row[k] for k in CORE if k in row})
        for row in run.history))


def bar(done, total, unit="it/s", rate=41.8, tail=""):
    filled = "█" * (done * 10 // total)
    return (f"{done * 100 // total:3d}%|{filled:<10}| {done}/{total} "
            f"[{done / rate // 60:02.0f}:{done / rate % 60:02.0f}<"
            f"{(total - done) / rate // 60:02.0f}:"
            f"{(total - done) / rate % 60:02.0f}, {rate:.2f}{unit}{tail}]")


def plain(run, progress=False, rename=None):
    """A hand-written trainer: metrics.jsonl and Python's logging."""
    write_metrics(run, rename)
    run.write_json("config.json", settings(run))

    def say(seconds, level, text):
        return f"{run.at(seconds)} {level:<7} train: {text}"

    lines = [say(-2.113, "INFO", "config: config.json"),
             say(-1.874, "INFO", f"parameters: {run.parameters:,}"),
             "train.py:41: UserWarning: 'pin_memory' argument is set as true "
             "but no accelerator is found, then device pinned memory won't be "
             "used.", say(-0.002, "INFO", f"training for {run.steps} steps")]
    pending = ""
    for i, row in enumerate(run.history):
        if progress and i % 10 == 9:
            # tqdm overwrites its line; a redirected log keeps the returns.
            pending += "\r" + bar(i + 1, run.steps)
        bad = not math.isfinite(row["loss"])
        if not (i % 20 == 0 or bad or "val_loss" in row):
            continue
        if pending:
            lines.append(pending)
            pending = ""
        if bad:
            lines.append(say(row["wall"], "WARNING", (
                f"loss is {row['loss']} at step {row['step']}, grad norm "
                f"{row['grad_norm']}")))
        if i % 20 == 0:
            lines.append(say(row["wall"], "INFO", (
                f"step {row['step']} loss {row['loss']:.4f} grad_norm "
                f"{row['grad_norm']:.3f} lr {row['lr']:.3e}")))
        if "val_loss" in row:
            lines.append(say(row["wall"], "INFO", (
                f"step {row['step']} val_loss {row['val_loss']:.4f}")))
    lines.append(say(run.history[-1]["wall"] + 0.3, "INFO", "done"))
    run.write_lines("train.log", lines)


def nanogpt(run):
    """nanoGPT's stdout, with metrics.jsonl beside it: it prints neither
    gradient norm nor learning rate."""
    write_metrics(run)
    run.write_json("config.json", {
        **settings(run)["model"], "learning_rate": run.lr,
        "max_iters": run.steps, "warmup_iters": run.warmup,
        "lr_decay_iters": run.steps, "decay_lr": run.schedule == "cosine",
        "optimizer": run.optimizer_name, "weight_decay": run.weight_decay,
        "grad_clip": run.clip or 0.0, "batch_size": models.BATCH,
        "dtype": "float32", "eval_interval": run.val_every,
        "log_interval": 10, "compile": False, "seed": run.seed})
    lines = [f"tokens per iteration will be: {models.BATCH * models.CONTEXT:,}",
             "Initializing a new model from scratch",
             f"number of parameters: {run.parameters / 1e6:.2f}M",
             "train.py:196: FutureWarning: `torch.cuda.amp.GradScaler(args...)`"
             " is deprecated. Please use `torch.amp.GradScaler('cuda', "
             "args...)` instead.",
             f"[{run.at(0, '%Y-%m-%d %H:%M:%S')}] training started"]
    for i, row in enumerate(run.history):
        if i % 10 == 0:
            mfu = "-100.00" if i < 50 else "0.31"
            lines.append(f"iter {row['step']}: loss {row['loss']:.4f}, time "
                         f"{row['step_time'] * 1000:.2f}ms, mfu {mfu}%")
        if "val_loss" in row:
            lines.append(f"step {row['step']}: train loss {row['loss']:.4f}, "
                         f"val loss {row['val_loss']:.4f}")
    run.write_lines("train.log", lines)


def hf_trainer(run):
    """transformers.Trainer: trainer_state.json, and stdout with Python dicts.

    The Trainer logs the mean loss of `logging_steps` steps and the learning
    rate of the step to come.
    """
    every, epoch_steps = 10, 100
    state, out = [], []
    for i in range(every - 1, run.steps, every):
        row = run.history[i]
        losses = [r["loss"] for r in run.history[i - every + 1:i + 1]]
        state.append({"epoch": row["step"] / epoch_steps,
                      "grad_norm": row["grad_norm"],
                      "learning_rate": row["next_lr"],
                      "loss": round(sum(losses) / every, 4),
                      "step": row["step"]})
        out.append({k: state[-1][k] for k in
                    ("loss", "grad_norm", "learning_rate", "epoch")})
        if "val_loss" in row:
            state.append({"epoch": row["step"] / epoch_steps,
                          "eval_loss": row["val_loss"],
                          "eval_runtime": 0.0613,
                          "eval_samples_per_second": 1044.0,
                          "eval_steps_per_second": 65.25, "step": row["step"]})
            out.append({k: state[-1][k] for k in (
                "eval_loss", "eval_runtime", "eval_samples_per_second",
                "eval_steps_per_second", "epoch")})
    seconds = run.history[-1]["wall"]
    mean = sum(r["loss"] for r in run.history) / run.steps
    totals = {"train_runtime": round(seconds, 4),
              "train_samples_per_second":
                  round(run.steps * models.BATCH / seconds, 3),
              "train_steps_per_second": round(run.steps / seconds, 3),
              "train_loss": short(mean), "epoch": run.steps / epoch_steps}
    out.append(totals)
    state.append({"epoch": run.steps / epoch_steps, "step": run.steps,
                  "total_flos": 0.0, **{k: v for k, v in totals.items()
                                        if k != "epoch"}})
    run.write_json("trainer_state.json", {
        "best_global_step": None, "best_metric": None,
        "best_model_checkpoint": None, "epoch": run.steps / epoch_steps,
        "eval_steps": run.val_every, "global_step": run.steps,
        "is_hyper_param_search": False, "is_local_process_zero": True,
        "is_world_process_zero": True, "log_history": state,
        "logging_steps": every, "max_steps": run.steps,
        "num_input_tokens_seen": 0,
        "num_train_epochs": run.steps // epoch_steps, "save_steps": 500,
        "stateful_callbacks": {}, "total_flos": 0.0,
        "train_batch_size": models.BATCH, "trial_name": None,
        "trial_params": None})
    write_yaml(run, "config.yaml", settings(run))
    day = "%Y-%m-%d %H:%M:%S"
    lines = [f"[{run.at(-3, day)}] [INFO] parameters: {run.parameters:,}",
             "huggingface/tokenizers: The current process just got forked, "
             "after parallelism has already been used. Disabling parallelism "
             "to avoid deadlocks...",
             f"[{run.at(0, day)}] [INFO] ***** Running training *****",
             f"[{run.at(0, day)}] [INFO]   Total optimization steps = "
             f"{run.steps}", *map(repr, out)]
    run.write_lines("train.log", lines)


def lightning(run):
    """Lightning's CSVLogger: one sorted header, blank where not logged."""
    header = ["epoch", "grad_norm", "lr-AdamW", "step", "step_time",
              "train_loss", "val_loss"]
    lines = [",".join(header)]
    for i, row in enumerate(run.history):
        train = {"train_loss": row["loss"], "grad_norm": row["grad_norm"],
                 "step_time": row["step_time"]}
        # Monitor, training step and validation each write a row of their own.
        for part in ({"lr-AdamW": row["lr"]}, train,
                     {"val_loss": row.get("val_loss")}):
            if None in part.values():
                continue
            part |= {"step": row["step"]}
            if "lr-AdamW" not in part:
                part["epoch"] = i // 100
            lines.append(",".join(str(part.get(k, "")) for k in header))
    run.write_lines("metrics.csv", lines)
    write_yaml(run, "config.yaml", settings(run))

    out = [f"{run.at(-2.4)} INFO: GPU available: False, used: False",
           f"{run.at(-2.2)} INFO: {run.parameters / 1e3:.0f} K Trainable "
           "params",
           "lightning/pytorch/trainer/connectors/data_connector.py:433: The "
           "'val_dataloader' does not have many workers which may be a "
           "bottleneck. Consider increasing the value of the `num_workers` "
           "argument to improve performance."]
    for epoch in range(math.ceil(run.steps / 100)):
        rows = run.history[epoch * 100:epoch * 100 + 100]
        line = ""
        for j in range(0, len(rows), 4):
            tail = f", v_num=0, train_loss={rows[j]['loss']:.3f}"
            line += (f"\rEpoch {epoch}: "
                     + bar(j + 1, len(rows), tail=tail))
        out.append(line)
        out.append(f"{run.at(rows[-1]['wall'])} INFO: epoch {epoch}: val_loss "
                   f"{rows[-1]['val_loss']:.4f}")
    out.append(f"{run.at(run.history[-1]['wall'] + 0.1)} INFO: `Trainer.fit` "
               f"stopped: `max_steps={run.steps}` reached.")
    run.write_lines("train.log", out)


def megatron(run):
    """Megatron-LM's stdout of the last rank; it is the only metrics file."""
    config = settings(run)
    write_yaml(run, "config.yaml", config)
    lines = ["using world size: 1, data-parallel size: 1, tensor-model-parallel"
             " size: 1, pipeline-model-parallel size: 1",
             "megatron/training/initialize.py:188: UserWarning: The given NumPy"
             " array is not writable, and PyTorch does not support non-writable"
             " tensors.",
             f"[before the start of training step] datetime: "
             f"{run.at(0, '%Y-%m-%d %H:%M:%S')} "]
    for i in range(4, run.steps, 5):
        row = run.history[i]
        part = run.history[i - 4:i + 1]
        millis = 1000 * sum(r["step_time"] for r in part) / len(part)
        loss = sum(r["loss"] for r in part) / len(part)
        lines.append(
            f" [{run.at(row['wall'], '%Y-%m-%d %H:%M:%S')}] iteration "
            f"{row['step']:8d}/{run.steps:8d} | consumed samples: "
            f"{row['step'] * models.BATCH:12d} | elapsed time per iteration "
            f"(ms): {millis:.1f} | learning rate: {row['lr']:.6E} | global "
            f"batch size: {models.BATCH:5d} | lm loss: {loss:.6E} | loss scale:"
            f" 1.0 | grad norm: {row['grad_norm']:.3f} | number of skipped "
            "iterations:   0 | number of nan iterations:   0 |")
        if "val_loss" in row:
            text = (f" validation loss at iteration {row['step']} | lm loss "
                    f"value: {row['val_loss']:.6E} | lm loss PPL: "
                    f"{math.exp(row['val_loss']):.6E} | ")
            lines += ["-" * len(text), text, "-" * len(text)]
    run.write_lines("train.log", lines)


def torchtune(run):
    """torchtune's DiskLogger: one `Step N | key:value` line a step."""
    write_yaml(run, "config.yaml", settings(run))
    lines = []
    for row in run.history:
        rate = models.BATCH * models.CONTEXT / row["step_time"]
        lines.append(f"Step {row['step']} | loss:{row['loss']} lr:{row['lr']} "
                     f"tokens_per_second_per_gpu:{rate:.1f} "
                     f"grad_norm:{row['grad_norm']}"
                     + (f" val_loss:{row['val_loss']}" if "val_loss" in row
                        else ""))
    run.write_lines(f"log_{int(START.timestamp())}.txt", lines)
    out = [f"{run.at(-1.2)} INFO:torchtune.utils._logging:Optimizer and loss "
           "are initialized.",
           "torchtune/training/_profiler.py:53: UserWarning: Profiler config "
           "not found, profiling is disabled."]
    line = ""
    for i in range(0, run.steps, 20):
        line += "\r1|" + bar(i + 1, run.steps, tail=(
            f", Loss: {run.history[i]['loss']:.4f}"))
    run.write_lines("train.log", [*out, line, (
        f"{run.at(run.history[-1]['wall'])} INFO:torchtune.utils._logging:"
        "Training finished.")])
