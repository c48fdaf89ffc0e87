"""Files that the loggers of the field write, one function a logger.

Each takes a finished `Run` and writes its metrics, log and config into the
case's folder. Layouts follow the projects' own sources; numbers come from the
run. The warnings are ordinary ones that mean nothing, as in any real log.
"""

import json
import math
import pickle
import pprint
from datetime import timedelta

import numpy as np

from . import models
from .recorder import START, short

DTYPES = {"bf16": "bfloat16", "fp16-mixed": "float16"}
CORE = ("step", "loss", "grad_norm", "lr", "step_time", "val_loss")
MORE = ("data_time", "tokens", "batch_hash", "distinct_tokens", "loss_tokens",
        "weight_norm", "update_ratio", "unchanged_share", "grad_cosine",
        "loss_scale", "skipped_steps", "val_loss_ema", "accuracy",
        "val_accuracy", "val_auc", "val_cer", "logit_scale",
        "val_image_recall", "val_text_recall", "val_smape", "val_coverage",
        "val_iou", "balance_loss", "expert_share_max", "delta_mean",
        "state_rms", "sample_accuracy", "val_mae", "val_r2",
        "num_nodes", "num_edges", "cls_loss", "reg_loss", "ctr_loss",
        "val_ap", "val_ap50", "mel_loss", "postnet_loss", "pitch_loss",
        "point_pos_num", "rec_loss", "quant_loss", "perplexity",
        "cluster_usage", "val_rec_loss", "val_quant_loss", "val_perplexity",
        "val_psnr", "val_ssim",
        "psnr",
        "l1_loss", "kld_loss", "val_action_l1", "val_precision",
        "val_recall", "val_f1", "val_ndcg", "val_mrr",
        "val_exact", "val_has_ans_exact", "val_has_ans_f1", "val_no_ans_exact",
        "duration_loss", "val_mel_loss", "val_postnet_loss", "val_pitch_loss",
        "entropy", "val_entropy",
        "val_l1", "val_rmse_u10", "val_acc_u10", "val_rmse_v10", "val_acc_v10", "val_rmse_t2m", "val_acc_t2m", "val_rmse_two", "kl", "dyn_loss", "rep_loss", "vector_loss", "reward_loss", "cont_loss", "prior_ent", "post_ent", "actor_loss", "value_loss", "actor_entropy", "imag_reward", "imag_return", "actor_grad_norm", "value_grad_norm", "eval_return",
        "ce_loss", "dice_loss", "val_dice", "mel_error", "disc_loss",
        "scores_real", "scores_fake", "signs_real", "signs_fake", "r1_penalty",
        "val_duration_loss", *(prefix + name for prefix in ("", "val_")
                               for name in (
            "reward_chosen", "reward_rejected", "reward_accuracy",
            "reward_margin", "logps_chosen", "logps_rejected",
            "logits_chosen", "logits_rejected", "nll_loss",
            "reward_min", "reward_mean", "reward_max",
            "loss_f", "loss_e", "f_mae", "f_rmse", "e_mae")),
        "box_loss", "dfl_loss", "instances", "val_box_loss", "val_cls_loss",
        "val_dfl_loss", "val_map50", "val_map", "val_top1", "val_top5",
        "mse_loss", "bpp_loss", "aux_loss", "val_mse_loss", "val_bpp_loss",
        "val_aux_loss", "val_error_rate", "val_eer", "wd", "val_knn_top1",
        "val_knn_top5", "val_hits_at_1", "val_hits_at_3", "val_hits_at_10",
        "val_3d_eval", "val_n_mpjpe", "val_si_sdr_imp", "val_der",
        "val_der_confusion", "val_der_miss", "val_der_false_alarm",
        *(side + name for side in ("", "val_") for name in (
            "loss_0", "loss_1", "loss_2", "loss_3", "abs_rel", "sq_rel",
            "rms", "log_rms", "a1", "a2", "a3",
            "epe", "1px", "3px", "5px",
            "acc", "norm_edit_dis")), "policy_loss",
        "old_approx_kl", "approx_kl", "clipfrac", "explained_variance",
        "episodic_return", "episodic_length", "global_step", "val_return",
        "stft_loss", "waveform_loss", "gen_loss", "feat_loss",
        "commitment_loss", "codebook_loss", "grad_norm_d", "val_stft_loss",
        "val_waveform_loss", "val_fid", "triplet_loss", "val_top10",
        "val_minp", "val_metric",
        "loss_c", "bin_score", "val_loss_c", "val_loss_f", "val_auc5",
        "val_auc10", "val_auc20", "val_prec",
        "q_loss", "val_q_loss", "val_value_loss", "val_actor_loss",
        "val_score",
        "top5_accuracy", "val_mean_acc", "bal_map",
        "l2_loss", "ssim_loss", "focal_loss", "val_pixel_auc", "val_pixel_f1",
        "val_action_mse_error")
PACKAGES = ("numpy==2.3.4", "safetensors==0.7.0", "torch==2.13.0")


def logged(run, usual):
    """Indices of the steps that are logged, every `run.interval` of them. A
    trainer that counts from 1 logs at multiples, one that counts from 0 too.
    """
    every = run.interval or usual
    return range(every - 1 if run.first_step else 0, len(run.history), every)


def column_names(run):
    """What a family's users call the columns; None is not logged."""
    return getattr(run, "names", {})


def left_out(run, name):
    return name in run.dropped or column_names(run).get(name, name) is None


def mean_loss(run, i, usual):
    """The mean since the last logged step, as trainers that average log it."""
    every = run.interval or usual
    rows = run.history[max(0, i - every + 1):i + 1]
    return sum(r["loss"] for r in rows) / len(rows)


def settings(run):
    """What the user set; the fault is never in here."""
    if run.full_columns:
        return run.settings()
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
    rename = rename or column_names(run)
    keys = [k for k in CORE + (MORE if run.full_columns else ())
            if not left_out(run, k)]
    steps = set(logged(run, 1))
    run.write_lines("metrics.jsonl", (
        json.dumps({rename.get(k, k): row[k] for k in keys if k in row})
        for i, row in enumerate(run.history)
        if i in steps or "val_loss" in row))


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
        if not (i % 20 == 0 or bad or "val_loss" in row or i in run.notices):
            continue
        if pending:
            lines.append(pending)
            pending = ""
        lines += [say(row["wall"], *notice)
                  for notice in run.notices.get(i, ())]
        if bad:
            lines.append(say(row["wall"], "WARNING", (
                f"loss is {row['loss']} at step {row['step']}, grad norm "
                f"{row['grad_norm']}")))
        if i % 20 == 0:
            size = "" if left_out(run, "grad_norm") else (
                f"grad_norm {row['grad_norm']:.3f} ")
            lines.append(say(row["wall"], "INFO", (
                f"step {row['step']} loss {row['loss']:.4f} {size}"
                f"lr {row['lr']:.3e}")))
        if "val_loss" in row:
            lines.append(say(row["wall"], "INFO", (
                f"step {row['step']} val_loss {row['val_loss']:.4f}")))
    lines.append(say(run.history[-1]["wall"] + 0.3, "INFO", "done"))
    run.write_lines("train.log", lines)


def nanogpt(run):
    """nanoGPT's stdout, with metrics.jsonl beside it: it prints neither
    gradient norm nor learning rate."""
    write_metrics(run)
    config = settings(run)
    model = config["model"] if isinstance(config["model"], dict) else {
        {"context": "block_size", "d_model": "n_embd",
         "model": "model_type"}.get(k, k): v
        for k, v in run.model_settings().items()}
    more = {} if not run.full_columns else {
        "beta1": run.betas[0], "beta2": run.betas[1],
        "gradient_accumulation_steps": run.accumulate, **run.user}
    run.write_json("config.json", {
        **model, "learning_rate": run.lr,
        "max_iters": run.steps, "warmup_iters": run.warmup,
        "lr_decay_iters": run.steps, "decay_lr": run.schedule == "cosine",
        "optimizer": run.optimizer_name, "weight_decay": run.weight_decay,
        "grad_clip": run.clip or 0.0, "batch_size": run.batch_size,
        "dtype": DTYPES.get(run.precision, "float32"),
        "eval_interval": run.val_every,
        "log_interval": run.interval or 10, "compile": False,
        "seed": run.seed, **more})
    tokens = run.batch_size * getattr(run, "context", models.CONTEXT)
    lines = [f"tokens per iteration will be: {tokens:,}",
             "Initializing a new model from scratch",
             f"number of parameters: {run.parameters / 1e6:.2f}M",
             "train.py:196: FutureWarning: `torch.cuda.amp.GradScaler(args...)`"
             " is deprecated. Please use `torch.amp.GradScaler('cuda', "
             "args...)` instead.",
             f"[{run.at(0, '%Y-%m-%d %H:%M:%S')}] training started"]
    for i, row in enumerate(run.history):
        if i % (run.interval or 10) == 0:
            mfu = "-100.00" if i < 50 else "0.31"
            lines.append(f"iter {row['step']}: loss {row['loss']:.4f}, time "
                         f"{row['step_time'] * 1000:.2f}ms, mfu {mfu}%")
        if "val_loss" in row:
            lines.append(f"step {row['step']}: train loss {row['loss']:.4f}, "
                         f"val loss {row['val_loss']:.4f}")
    run.write_lines("train.log", lines)


def own_columns(run, rows, held_out=False):
    """What a subclass of the Trainer has besides, of some rows."""
    return run.state_columns(rows, held_out) \
        if hasattr(run, "state_columns") else {}


def trainer_state(run, done):
    """trainer_state.json of a checkpoint after `done` updates."""
    every, state = max(run.interval or 10, 5), []
    for i, row in enumerate(run.history[:done]):
        at = {"epoch": (i + 1) / 100, "step": i + 1}
        if not (i + 1) % every:
            size = {} if left_out(run, "grad_norm") else {
                "grad_norm": row["grad_norm"]}
            rows = run.history[i + 1 - every:i + 1]
            loss = sum(r["loss"] for r in rows) / every
            state.append(at | size | {
                "learning_rate": row["next_lr"], "loss": round(loss, 4),
                **own_columns(run, rows)})
        if "val_loss" in row:
            state.append(at | {"eval_loss": row["val_loss"],
                               **own_columns(run, [row], True)})
    return {"epoch": done / 100, "eval_steps": run.val_every,
            "global_step": done, "logging_steps": every,
            "max_steps": run.steps, "save_steps": run.steps // 2,
            "train_batch_size": run.batch_size,
            "log_history": [dict(sorted(r.items())) for r in state]}


def hf_trainer(run):
    """transformers.Trainer: trainer_state.json, and stdout with Python dicts.

    The Trainer logs the mean loss of `logging_steps` steps and the learning
    rate of the step to come.
    """
    every, epoch_steps = run.interval or 10, 100
    state, out = [], []
    steps = set(logged(run, 10))
    for i, row in enumerate(run.history):
        if i in steps:
            more = own_columns(run, run.history[max(0, i - every + 1):i + 1])
            state.append({"epoch": row["step"] / epoch_steps,
                          "grad_norm": row["grad_norm"],
                          "learning_rate": row["next_lr"],
                          "loss": round(mean_loss(run, i, 10), 4), **more,
                          "step": row["step"]})
            if left_out(run, "grad_norm"):
                del state[-1]["grad_norm"]
            out.append({k: state[-1][k] for k in
                        ("loss", "grad_norm", "learning_rate", *more, "epoch")
                        if k in state[-1]})
        if "val_loss" in row:
            state.append({"epoch": row["step"] / epoch_steps,
                          "eval_loss": row["val_loss"],
                          "eval_runtime": 0.0613,
                          "eval_samples_per_second": 1044.0,
                          "eval_steps_per_second": 65.25,
                          **own_columns(run, [row], True),
                          "step": row["step"]})
            out.append({k: v for k, v in state[-1].items()
                        if k not in ("epoch", "step")}
                       | {"epoch": state[-1]["epoch"]})
    seconds = run.history[-1]["wall"]
    mean = sum(r["loss"] for r in run.history) / run.steps
    totals = {"train_runtime": round(seconds, 4),
              "train_samples_per_second":
                  round(run.steps * run.batch_size / seconds, 3),
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
        "train_batch_size": run.batch_size, "trial_name": None,
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


def monitored_rate(run):
    """What Lightning's monitor of rates calls the one of the optimizer."""
    return "lr-" + {"sgd": "SGD", "adam": "Adam", "adagrad": "Adagrad",
                    "rmsprop": "RMSprop", "radam": "RAdam",
                    "rwsadagrad": "RWSAdagrad"}.get(run.optimizer_name,
                                                    "AdamW")


def lightning(run):
    """Lightning's CSVLogger: one sorted header, blank where not logged."""
    rate = monitored_rate(run)
    names = {"loss": "train_loss"} | column_names(run) | {"step": "step"}
    more = [k for k in MORE if k in run.history[0] and not left_out(run, k)]
    size = getattr(run, "epoch_steps", 100)
    besides = getattr(run, "validated", ())  # what a validation logs, too
    header = sorted(["epoch", rate, *(names.get(k, k) for k in (
        "grad_norm", "step", "step_time", "loss", "val_loss", *more,
        *besides))])
    lines = [",".join(header)]
    steps, held_out = set(logged(run, 1)), names.get("val_loss", "val_loss")
    for i, row in enumerate(run.history):
        train = {k: row[k] for k in ("loss", "grad_norm", "step_time", *more)
                 if k in row}
        if left_out(run, "grad_norm"):
            del train["grad_norm"]
        train = {names.get(k, k): v for k, v in train.items()}
        # Monitor, training step and validation each write a row of their own.
        found = {names.get(k, k): row[k] for k in besides if k in row}
        for part in ({rate: row["lr"]}, train,
                     {held_out: row.get("val_loss"), **found}):
            if None in part.values() or (i not in steps
                                         and held_out not in part):
                continue
            part |= {"step": row["step"]}
            if rate not in part:
                part["epoch"] = i // size
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
    for epoch in range(math.ceil(run.steps / size)):
        rows = run.history[epoch * size:epoch * size + size]
        line = ""
        for j in range(0, len(rows), 4):
            tail = f", v_num=0, train_loss={rows[j]['loss']:.3f}"
            line += (f"\rEpoch {epoch}: "
                     + bar(j + 1, size, tail=tail))
        out.append(line)
        held_out = [r["val_loss"] for r in rows if "val_loss" in r]
        out.append(f"{run.at(rows[-1]['wall'])} INFO: epoch {epoch}: val_loss "
                   f"{held_out[-1]:.4f}")
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
    every, batch = run.interval or 5, run.batch_size * run.accumulate
    steps = set(logged(run, 5))
    for i, row in enumerate(run.history):
        part = run.history[max(0, i - every + 1):i + 1]
        millis = 1000 * sum(r["step_time"] for r in part) / len(part)
        loss = mean_loss(run, i, 5)
        size = "" if left_out(run, "grad_norm") else (
            f" grad norm: {row['grad_norm']:.3f} |")
        if i in steps:
            lines.append(
                f" [{run.at(row['wall'], '%Y-%m-%d %H:%M:%S')}] iteration "
                f"{row['step']:8d}/{run.steps:8d} | consumed samples: "
                f"{row['step'] * batch:12d} | elapsed time per "
                f"iteration (ms): {millis:.1f} | learning rate: "
                f"{row['lr']:.6E} | global batch size: {batch:5d} | lm loss: "
                f"{loss:.6E} | loss scale: 1.0 |{size} number of skipped "
                "iterations:   0 | number of nan iterations:   0 |")
        if "val_loss" in row:
            text = (f" validation loss at iteration {row['step']} | lm loss "
                    f"value: {row['val_loss']:.6E} | lm loss PPL: "
                    f"{math.exp(min(row['val_loss'], 709.0)):.6E} | ")
            lines += ["-" * len(text), text, "-" * len(text)]
    run.write_lines("train.log", lines)


def megatron_lm(run):
    """Megatron-LM's stdout: its arguments, a line and the times of each
    interval, validation between rules, checkpoints. It has no other file but
    the YAML that its arguments came from."""
    config = dict(sorted(settings(run).items()))
    write_yaml(run, "config.yaml", config)
    size = config["world_size"]
    lines = [f"using world size: {size}, data-parallel size: {size}, "
             "context-parallel size: 1, tensor-model-parallel size: 1, "
             "pipeline-model-parallel size: 1",
             f"using {config['params_dtype']} for parameters ...",
             "-" * 24 + " arguments " + "-" * 24,
             *(f"  {k} {'.' * (48 - len(k))} {v}" for k, v in config.items()),
             "-" * 20 + " end of arguments " + "-" * 21,
             "> building GPT2BPETokenizer tokenizer ...",
             "> setting random seeds to "
             f"{config['seed']} ...",
             " > number of parameters on (tensor, pipeline) model parallel rank"
             f" (0, 0): {run.parameters}",
             "WARNING: could not find the metadata file checkpoints/"
             "latest_checkpointed_iteration.txt",
             "    will not load any checkpoints and will start from random",
             "> building train, validation, and test datasets for GPT ...",
             "done with setup ...", "training ...",
             f"[before the start of training step] datetime: "
             f"{run.at(0, '%Y-%m-%d %H:%M:%S')} "]
    every, steps = run.interval or 5, set(logged(run, 5))
    for i, row in enumerate(run.history):
        lines += [text for _, text in run.notices.get(i, ())]
        part = run.history[max(0, i - every + 1):i + 1]
        sound = [r for r in part if not r.get("skipped")]
        if i in steps:
            norm = "" if left_out(run, "grad_norm") or row.get("skipped") \
                else f" grad norm: {row['grad_norm']:.3f} |"
            # A step that is skipped has no loss.
            loss = sum(r["loss"] for r in sound) / max(1, len(sound))
            nan = sum(not math.isfinite(r["loss"]) for r in part)
            millis = 1000 * sum(r["step_time"] for r in part) / len(part)
            lines.append(
                f" [{run.at(row['wall'], '%Y-%m-%d %H:%M:%S')}] iteration "
                f"{row['step']:8d}/{run.steps:8d} | consumed samples: "
                f"{row['consumed_samples']:12d} | elapsed time per iteration "
                f"(ms): {millis:.1f} | learning rate: {row['lr']:.6E} | global"
                f" batch size: {row['global_batch_size']:5d} | "
                + (f"lm loss: {loss:.6E} | " if sound else "")
                + f"loss scale: {row.get('loss_scale', 1.0):.1f} |{norm} "
                f"number of skipped iterations: {len(part) - len(sound):3d} | "
                f"number of nan iterations: {nan:3d} |")
            wait = 1000 * sum(r["data_time"] for r in part) / len(part)
            lines.append("(min, max) time across ranks (ms):")
            lines += [f"    {k} {'.' * (48 - len(k))}: ({v:.2f}, {v:.2f})"
                      for k, v in (
                          ("forward-backward", 0.86 * (millis - wait) + wait),
                          ("batch-generator", wait),
                          ("optimizer", 0.11 * (millis - wait)))]
        if "val_loss" in row:
            text = (f" validation loss at iteration {row['step']} | lm loss "
                    f"value: {row['val_loss']:.6E} | lm loss PPL: "
                    f"{math.exp(min(row['val_loss'], 20.0)):.6E} | ")
            lines += ["-" * len(text), text, "-" * len(text)]
        if i + 1 in run.saved():
            lines += [f"{verb} checkpoint {at} iteration {i + 1:7d} to "
                      f"checkpoints{tail}" for verb, at, tail in (
                          ("saving", "at", " in torch format"),
                          ("  successfully saved", "from",
                           " [ t 1/1, p 1/1 ]"))]
    lines.append(f"[after training is done] datetime: "
                 f"{run.at(run.history[-1]['wall'], '%Y-%m-%d %H:%M:%S')} ")
    run.write_lines("train.log", lines)


def torchtune(run):
    """torchtune's DiskLogger: one `Step N | key:value` line a step."""
    write_yaml(run, "config.yaml", settings(run))
    lines, steps = [], set(logged(run, 1))
    tokens = run.batch_size * getattr(run, "context", models.CONTEXT)
    for i, row in enumerate(run.history):
        if i not in steps and "val_loss" not in row:
            continue
        rate = tokens * run.accumulate / row["step_time"]
        size = "" if left_out(run, "grad_norm") else (
            f" grad_norm:{row['grad_norm']}")
        size += "".join(f" {k}:{v}" for k, v in own_columns(run, [row]).items())
        lines.append(f"Step {row['step']} | loss:{row['loss']} lr:{row['lr']} "
                     f"tokens_per_second_per_gpu:{rate:.1f}{size}"
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


def keras(run):
    """A script around Keras' fit(): rows of single batches as a callback of
    TensorBoard has them, training.log of CSVLogger, a row an epoch, and the
    stdout of its progress bars."""
    write_metrics(run)
    run.write_json("config.json", settings(run))
    table = ["epoch,accuracy,learning_rate,loss,val_accuracy,val_loss"]
    epochs = math.ceil(run.steps / run.EPOCH)
    out = ["WARNING: All log messages before absl::InitializeLog() is called "
           "are written to STDERR",
           f"Trainable params: {run.parameters:,} "
           f"({run.parameters * 4 / 1024:.2f} KB)"]
    for epoch in range(epochs):
        first = epoch * run.EPOCH
        rows = run.history[first:first + run.EPOCH]
        out += [text for i in range(first, first + run.EPOCH)
                for _, text in run.notices.get(i, ())]
        means = {k: sum(r[k] for r in rows) / len(rows)
                 for k in ("accuracy", "loss")}
        # Validated within an epoch, it is reported with that epoch.
        held_out = ([r for r in rows if "val_loss" in r] or [{}])[-1]
        means |= {k: held_out[k] for k in ("val_accuracy", "val_loss")
                  if k in held_out}
        means["learning_rate"] = rows[-1]["lr"]
        table.append(",".join([str(epoch), *(
            str(short(means[k])) if k in means else "NA"
            for k in table[0].split(",")[1:])]))
        millis = 1000 * sum(r["step_time"] for r in rows) / len(rows)
        seconds = round(millis * len(rows) / 1000)
        shown = " - ".join(
            f"{k}: {means[k]:.4e}" if k == "learning_rate"
            else f"{k}: {means[k]:.4f}" for k in sorted(means))
        count = f"{len(rows)}/{len(rows)}"
        out += [f"Epoch {epoch + 1}/{epochs}",
                f"{count} {'━' * 20} {seconds}s {millis:.0f}ms/step - {shown}"]
    run.write_lines("training.log", table)
    run.write_lines("train.log", out)


def big(count):
    """As LeRobot shortens the counts of its console."""
    for suffix in ("", "K", "M", "B"):
        if abs(count) < 1000:
            return f"{count:.0f}{suffix}"
        count /= 1000
    return f"{count:.0f}T"


def lerobot(run):
    """LeRobot's trainer: its console, and the history that Weights & Biases
    has of the run. Loss, norm, rate and times are means since the last line,
    the parts of the loss those of the last batch."""
    every, names = run.interval or 10, column_names(run)
    steps, rows, lines = set(logged(run, 10)), [], []

    def say(seconds, text, place="ts/train.py:232", level="INFO"):
        lines.append(f"{level} {run.at(seconds, '%Y-%m-%d %H:%M:%S')} "
                     f"{place} {text}")

    batch, frames = run.batch_size * run.accumulate, run.frames()
    say(-3.4, "Creating dataset", "ts/train.py:141")
    say(-1.9, "Creating policy", "ts/train.py:157")
    say(-1.2, "Creating optimizer and scheduler", "ts/train.py:163")
    say(-0.9, f"cfg.steps={run.steps} ({big(run.steps)})", "ts/train.py:178")
    say(-0.9, f"dataset.num_frames={frames} ({big(frames)})",
        "ts/train.py:179")
    say(-0.9, f"dataset.num_episodes={run.EPISODES}", "ts/train.py:180")
    say(-0.9, f"num_learnable_params={run.parameters} "
              f"({big(run.parameters)})", "ts/train.py:181")
    say(-0.1, "Start offline training on a fixed dataset", "ts/train.py:210")
    for i, row in enumerate(run.history):
        for level, text in run.notices.get(i, ()):
            say(row["wall"], text, "s/utils.py:118 ", level)
        done = i + 1
        if i in steps:
            part = run.history[max(0, done - every):done]
            mean = {k: sum(r[k] for r in part) / len(part)
                    for k in ("loss", "grad_norm", "lr", "data_time")}
            mean["step_time"] = sum(r["step_time"] - r["data_time"]
                                    for r in part) / len(part)
            if left_out(run, "grad_norm"):
                del mean["grad_norm"]
            seen = {"train/steps": done, "train/samples": done * batch,
                    "train/episodes": done * batch * run.EPISODES / frames,
                    "train/epochs": done * batch / frames}
            rows.append({"_step": row["step"], **seen, **{
                names[k]: short(v) for k, v in mean.items()}, **{
                names[k]: row[k] for k in ("l1_loss", "kld_loss")
                if k in row}})
            size = "" if "grad_norm" not in mean else (
                f"grdn:{mean['grad_norm']:.3f} ")
            say(row["wall"], (
                f"step:{big(done)} smpl:{big(seen['train/samples'])} "
                f"ep:{big(seen['train/episodes'])} "
                f"epch:{seen['train/epochs']:.2f} loss:{mean['loss']:.3f} "
                f"{size}lr:{mean['lr']:0.1e} updt_s:{mean['step_time']:.3f} "
                f"data_s:{mean['data_time']:.3f}"))
        if "val_loss" in row:
            say(row["wall"], f"Eval policy at step {done}", "ts/train.py:251")
            say(row["wall"], f"step:{big(done)} eval_loss:"
                             f"{row['val_loss']:.4f}", "ts/train.py:262")
            rows.append({"_step": row["step"], **{
                names[k]: row[k] for k in ("val_loss", "val_action_l1")}})
        if done in run.checkpoints:
            say(row["wall"], f"Checkpoint policy after step {done}",
                "ts/train.py:241")
    say(run.history[-1]["wall"] + 0.2, "End of training", "ts/train.py:283")
    run.write_lines("metrics.jsonl", map(json.dumps, rows))
    run.write_lines("train.log", lines)
    write_yaml(run, "config.yaml", settings(run))  # as W&B keeps it


def pytorch_tabular(run):
    """PyTorch Tabular: its console with Lightning's table of a rich bar, the
    history that Weights & Biases has of the run, and config.yml. Accuracy is
    of whole epochs."""
    names, size = column_names(run), run.epoch_steps
    names = names | {"lr": monitored_rate(run)}
    keys = [k for k in CORE + MORE if k != "step" and not left_out(run, k)
            and "accuracy" not in k and k != "val_loss"]
    steps, rows = set(logged(run, 10)), []

    def say(seconds, place, text):
        return f"{run.at(seconds)} - {{pytorch_tabular.{place}}} - {text}"

    out = ["Seed set to %d" % run.seed,
           say(-2.9, "tabular_model:549", "INFO - Preparing the DataLoaders"),
           say(-2.8, "tabular_datamodule:527", "INFO - Setting up the "
               "datamodule for classification task"),
           say(-2.1, "tabular_model:600", "INFO - Preparing the Model: "
               "FTTransformerModel"),
           say(-1.2, "tabular_model:343", "INFO - Preparing the Trainer"),
           "GPU available: False, used: False",
           say(-0.4, "tabular_model:679", "INFO - Training Started"),
           f"Trainable params: {run.parameters / 1e3:.1f} K"]
    epochs = math.ceil(run.steps / size)
    for i, row in enumerate(run.history):
        at = {"trainer/global_step": row["step"], "epoch": i // size}
        out += [text for _, text in run.notices.get(i, ())]
        if i in steps:
            rows.append(at | {names.get(k, k): row[k]
                              for k in keys if k in row})
        part = run.history[i // size * size:i + 1]
        right = sum(r["accuracy"] for r in part) / len(part)
        if "val_loss" in row:
            rows.append(at | {names[k]: row[k]
                              for k in ("val_loss", "val_accuracy")})
        if len(part) < size and i < run.steps - 1:
            continue
        rows.append(at | {names["accuracy"]: short(right)})
        seconds = sum(r["step_time"] for r in part)
        held_out = ([r for r in part if "val_loss" in r] or [{}])[-1]
        shown = {"train_loss": row["loss"]} | {
            names[k]: held_out[k] for k in ("val_loss", "val_accuracy")
            if k in held_out} | {"train_accuracy": right}
        out.append(
            f"Epoch {i // size}/{epochs - 1} {'━' * 30} {len(part)}/{size} "
            f"0:00:{seconds:02.0f} • 0:00:00 {len(part) / seconds:.2f}it/s "
            + " ".join(f"{k}: {v:.3f}" for k, v in shown.items()))
    end = run.history[-1]["wall"]
    out += [f"`Trainer.fit` stopped: `max_steps={run.steps}` reached.",
            say(end + 0.1, "tabular_model:692",
                "INFO - Training the model completed")]
    run.write_lines("metrics.jsonl", map(json.dumps, rows))
    run.write_lines("train.log", out)
    write_yaml(run, "config.yml", settings(run))


def python_lines(value):
    """A config as MMEngine dumps it: an assignment a key, dicts as calls."""
    def text(item):
        if isinstance(item, dict):
            if all(isinstance(k, str) and k.isidentifier() for k in item):
                return "dict({})".format(", ".join(
                    f"{k}={text(v)}" for k, v in item.items()))
            return "{{{}}}".format(", ".join(
                f"{k!r}: {text(v)}" for k, v in item.items()))
        if isinstance(item, (list, tuple)):
            return "[{}]".format(", ".join(map(text, item)))
        return repr(item)
    return [f"{key} = {text(value[key])}" for key in sorted(value)]


def mmengine(run):
    """MMEngine's LoggerHook: vis_data/scalars.json with rows of training and
    of validation, whose step is the epoch, the config as Python, and a log.
    What is logged of training are means since the last line but for the rate
    and what a hook counts of a batch."""
    every, names, size = run.interval or 10, column_names(run), run.EPOCH
    day = START.strftime("%Y%m%d_%H%M%S")
    rows, lines = [], []
    held_out = [k for k in MORE if k.startswith("val_")]
    more = [k for k in MORE if k not in held_out and not left_out(run, k)]

    def say(seconds, text, level="INFO"):
        lines.append(f"{run.at(seconds, '%Y/%m/%d %H:%M:%S')} - mmengine - "
                     f"{level} - {text}")

    config = python_lines(run.config())
    say(-3.1, "Config:")
    lines.extend(config)
    if "world_size" not in run.user:
        say(-2.0, "Distributed training is not used, all SyncBatchNorm "
            "(SyncBN) layers in the model will be automatically reverted to "
            "BatchNormXd layers if they are used.")
    say(-0.4, "\"FileClient\" will be deprecated in future. Please use io "
        "functions in https://mmengine.readthedocs.io/en/latest/api/"
        "fileio.html#file-io", "WARNING")
    say(-0.1, "Checkpoints will be saved to work_dirs/kpt.")
    end = run.history[-1]["wall"]
    for i, row in enumerate(run.history):
        done = i + 1
        epoch, inner = divmod(i, size)
        for level, text in run.notices.get(i, ()):
            say(row["wall"], text, level)
        if not (inner + 1) % every:  # counted anew in each epoch
            part = run.history[max(0, done - every):done]
            mean = {k: sum(r[k] for r in part) / len(part)
                    for k in ("data_time", "grad_norm", "loss", "accuracy",
                              "step_time") if all(k in r for r in part)
                    and not left_out(run, k)}
            mean = {names.get(k, k): short(v) for k, v in mean.items()}
            mean["loss_kpt"] = mean["loss"]
            rows.append({"lr": row["lr"], **mean, **{
                names.get(k, k): row[k] for k in more
                if k in row and names.get(k, k) not in mean},
                "epoch": epoch + 1, "iter": done, "memory": 63,
                "step": done})
            left = int((end - row["wall"]))
            shown = {k: mean[k] for k in ("grad_norm", "loss", "loss_kpt",
                                          "acc_pose") if k in mean}
            say(row["wall"], (
                f"Epoch(train) {epoch + 1:>3}"
                f"[{inner + 1}/{size}]  lr: {row['lr']:.6e}  eta: 0:00:"
                f"{left:02d}  time: {mean['time']:.6f}  data_time: "
                f"{mean['data_time']:.6f}  memory: 63  "
                + "  ".join(f"{k}: {v:.6f}" for k, v in shown.items())))
        if done % size == 0 and done in run.checkpoints:
            say(row["wall"], f"Saving checkpoint at {epoch + 1} epochs")
        if "val_loss" in row:
            found = {names.get(k, k): row[k] for k in held_out if k in row}
            found["val_loss"] = found["val_loss_kpt"] = row["val_loss"]
            rows.append({**found, "data_time": 0.0041, "time": 0.0153,
                         "step": epoch + 1})
            say(row["wall"], f"Epoch(val) [{epoch + 1}][4/4]    " + "  ".join(
                f"{k}: {v:.6f}" for k, v in found.items())
                + "  data_time: 0.004100  time: 0.015300")
    (run.folder / "vis_data").mkdir()
    run.write_lines("vis_data/scalars.json", map(json.dumps, rows))
    run.write_lines("vis_data/config.py", config)
    run.write_lines(f"{day}.log", lines)


def neuralforecast(run):
    """What NeuralForecast leaves of fit() with Lightning's CSVLogger: a row of
    metrics.csv for the rate, one for the step, one for an epoch's mean and one
    for a validation, whose loss has two names; hparams.yaml, and stdout."""
    rate, size = monitored_rate(run), run.epoch_steps
    names = column_names(run) | {"step": "step"}
    more = [k for k in MORE if k in run.history[0] and not left_out(run, k)]
    keys = [k for k in ("loss", "grad_norm", "step_time", *more)
            if not left_out(run, k)]
    epoch_loss, held_out = "train_loss_epoch", names["val_loss"]
    header = sorted({"epoch", "step", rate, epoch_loss, held_out, "valid_loss",
                     *(names.get(k, k) for k in keys)})
    lines, steps = [",".join(header)], set(logged(run, 10))

    def add(part):
        lines.append(",".join(str(part.get(k, "")) for k in header))

    def said(means):
        return "".join(f", {k}={v:.3f}" for k, v in means.items())

    weights = run.parameters
    fixed = sum(p.numel() for p in run.model.parameters()
                if not p.requires_grad)
    out = [f"[rank: 0] Seed set to {run.seed}",
           "GPU available: False, used: False",
           "TPU available: False, using: 0 TPU cores", "",
           "  | Name         | Type              | Params | Mode ",
           "-" * 55,
           "0 | loss         | MAE               | 0      | train",
           "1 | padder_train | ConstantPad1d     | 0      | train",
           "2 | scaler       | TemporalNorm      | 0      | train",
           f"3 | model        | PatchTST_backbone | {weights / 1e3:.1f} K "
           "| train",
           "-" * 55, f"{(weights - fixed) / 1e3:.1f} K    Trainable params",
           f"{fixed}         Non-trainable params",
           f"{weights / 1e3:.1f} K    Total params",
           "lightning/pytorch/trainer/connectors/data_connector.py:433: The "
           "'val_dataloader' does not have many workers which may be a "
           "bottleneck. Consider increasing the value of the `num_workers` "
           "argument to improve performance."]
    shown, pending = {}, ""
    for i, row in enumerate(run.history):
        at = {"step": row["step"]}
        epoch, behind = divmod(i, size)
        out += [text for _, text in run.notices.get(i, ())]
        if i in steps:
            add(at | {rate: row["lr"]})
            add(at | {"epoch": epoch} | {names.get(k, k): row[k]
                                         for k in keys if k in row})
        if "val_loss" in row:
            add(at | {"epoch": epoch, held_out: row["val_loss"],
                      "valid_loss": row["val_loss"]})
            shown["valid_loss"] = row["val_loss"]
        last = behind == size - 1
        if last:
            mean = short(sum(r["loss"] for r in run.history[
                i - size + 1:i + 1]) / size)
            add(at | {"epoch": epoch, epoch_loss: mean})
        if behind % 10 == 9 or i == run.steps - 1:
            now = {"train_loss_step": row["loss"]} | shown
            if last:
                now[epoch_loss] = shown[epoch_loss] = mean
            pending += f"\rEpoch {epoch}: " + bar(
                behind + 1, size, tail=", v_num=0" + said(now))
        if last or i == run.steps - 1:
            out.append(pending)
            pending = ""
    out.append(f"`Trainer.fit` stopped: `max_steps={run.steps}` reached.")
    run.write_lines("metrics.csv", lines)
    run.write_lines("train.log", out)
    write_yaml(run, "hparams.yaml", settings(run))


def nnunet(run):
    """nnU-Net's trainer: its training log, of which all rows are epochs, with
    means of training, and plans.json, dataset.json and debug.json. It has no
    norms of gradients."""
    lines, best, average = [], None, None
    size, names = run.EPOCH, list(run.dataset()["labels"])[1:-1]

    def say(seconds, *words):
        lines.append(f"{run.at(seconds, '%Y-%m-%d %H:%M:%S')}."
                     f"{int(seconds % 1 * 1e6):06d}: "
                     + "".join(f"{w} " for w in words))

    def rounded(value):
        return f"np.float32({round(value, 4)})"

    plans, line = run.plans(), "#" * 71
    configuration = run.model_settings()["configuration"]
    lines += ["", line, "Please cite the following paper when using nnU-Net:",
              "Isensee, F., Jaeger, P. F., Kohl, S. A., Petersen, J., & "
              "Maier-Hein, K. H. (2021). nnU-Net: a self-configuring method "
              "for deep learning-based biomedical image segmentation. Nature "
              "methods, 18(2), 203-211.", line, " ", "",
              "This is the configuration used by this training:",
              f"Configuration name: {configuration}",
              f" {plans['configurations'][configuration]} ", "",
              "These are the global plan.json settings:",
              f" { {k: v for k, v in plans.items() if k != 'configurations'} }"
              " ", ""]
    say(0.1, "Using splits from existing split file: splits_final.json")
    say(0.1, "The split file contains 5 splits.")
    say(0.1, "Desired fold for training: 0")
    say(0.1, "This split has 32 training and 8 validation cases.")
    before = 0.2
    for epoch in range(math.ceil(run.steps / size)):
        first = epoch * size
        rows = run.history[first:first + size]
        say(before, "")
        for i in range(first, first + len(rows)):
            for _, text in run.notices.get(i, ()):
                say(before, text)
        say(before, f"Epoch {epoch}")
        say(before, f"Current learning rate: {round(rows[0]['lr'], 5)}")
        end = rows[-1]["wall"]
        mean = sum(r["loss"] for r in rows) / len(rows)
        say(end, "train_loss", round(mean, 4))
        row = rows[-1]
        if "val_loss" in row:
            say(end, "val_loss", round(row["val_loss"], 4))
            say(end, "Pseudo dice", "[{}]".format(", ".join(
                rounded(row[f"val_dice_{k + 1}"])
                for k in range(len(names)))))
        say(end, f"Epoch time: {round(end - before, 2)} s")
        if "val_loss" in row:
            dice = row["val_dice"]
            average = dice if average is None else \
                0.9 * average + 0.1 * dice
            if best is None or average > best:
                best = average
                say(end, "Yayy! New best EMA pseudo Dice: "
                    f"{round(best, 4)}")
        before = end
    say(before + 0.2, "Training done.")
    run.write_lines(run.log_name, lines)
    run.write_json("plans.json", plans)
    run.write_json("dataset.json", run.dataset())
    run.write_json("debug.json", run.debug())
def yaml_objects(value, indent=""):
    """Lines of a config of dataclasses as PyYAML dumps it: the class of a
    dict that has one, under "!", is a tag, and floats have a point."""
    def scalar(item):
        text = json.dumps(item) if not isinstance(item, str) else item
        if isinstance(item, float) and "e" in text and "." not in text:
            text = text.replace("e", ".0e")
        return text
    for key, item in sorted(value.items()):
        if key == "!":
            continue
        if isinstance(item, dict) and item:
            tag = f" !!python/object:{item['!']}" if "!" in item else ""
            yield f"{indent}{key}:{tag}"
            yield from yaml_objects(item, indent + "  ")
        elif isinstance(item, (list, tuple)) and item:
            yield f"{indent}{key}:"
            for part in item:
                lines = list(yaml_objects(part, indent + "  ")) \
                    if isinstance(part, dict) else [indent + scalar(part)]
                lines[0] = f"{indent}- {lines[0].lstrip()}"
                yield from lines
        else:
            yield f"{indent}{key}: {scalar(item)}"


def nerfstudio(run):
    """nerfstudio's trainer: its console, which has times alone, the history
    that Weights & Biases has of the run, and config.yml. The rate is that of
    the step to come, as schedulers step before it is logged."""
    names, steps = column_names(run), set(logged(run, 10))
    more = [k for k in MORE if not k.startswith("val_")
            and not left_out(run, k)]
    keys = [k for k in ("loss", "grad_norm", "step_time", *more)
            if not left_out(run, k)]
    rays, end = run.batch_size * run.accumulate, run.history[-1]["wall"]
    folder = f"outputs/balls/vanilla-nerf/{START.strftime('%Y-%m-%d_%H%M%S')}"
    rows = []
    lines = [f"[{run.at(-2.6, '%H:%M:%S')}] Saving config to: "
             f"{folder}/config.yml", f"Saving checkpoints to: {folder}/"
             "nerfstudio_models", "Auto image downscale factor of 1",
             "logging events to: wandb",
             *(["No Nerfstudio checkpoint to load, so training from scratch."]
               if "init_from" not in run.user else [
                   "Done loading Nerfstudio checkpoint from "
                   f"{run.user['init_from']}"]),
             "".join(
                 f"{t:<20} " for t in ("Step (% Done)", "Train Iter (time)",
                                       "ETA (time)", "Train Rays / Sec")),
             "-" * 83]
    for i, row in enumerate(run.history):
        lines += [text for _, text in run.notices.get(i, ())]
        at = {"_step": row["step"]}
        if i in steps:
            left = (end - row["wall"])
            speed = rays / row["step_time"]
            at |= {names.get(k, k): row[k] for k in keys if k in row}
            at |= {"Train Loss Dict/rgb_loss": row["loss"],
                   names["lr"]: row["next_lr"], "ETA (time)": round(left, 3),
                   "Train Rays / Sec": round(speed, 1)}
            done = f"{i} ({100 * i / run.steps:.2f}%)"
            left = f"{int(left)} s, {1000 * (left % 1):.3f} ms"
            lines.append("".join(f"{t:<20} " for t in (
                done, f"{1000 * row['step_time']:.3f} ms", left,
                f"{speed / 1000:.2f} K")))
        if "val_loss" in row:
            at |= {names[k]: row[k] for k in ("val_loss", "val_psnr")
                   if k in row}
            at["Eval Loss Dict/rgb_loss"] = row["val_loss"]
        if len(at) > 1:
            rows.append(at)
    lines += ["Training Finished", f"Config File         {folder}/config.yml",
              f"Checkpoint Directory {folder}/nerfstudio_models"]
    run.write_lines("metrics.jsonl", map(json.dumps, rows))
    run.write_lines("train.log", lines)
    config = run.config()
    run.write_lines("config.yml", [f"!!python/object:{config['!']}",
                                   *yaml_objects(config)])
def hifigan(run):
    """HiFi-GAN's train.py: what it prints, config.json, and the scalars of its
    TensorBoard, one row a step."""
    write_metrics(run)
    run.write_json("config.json", settings(run))
    steps, lines = set(logged(run, 5)), [
        "Initializing Training Process..",
        f"Batch size per GPU : {run.batch_size}",
        *repr(run.model).splitlines(),
        "checkpoints directory :  cp_hifigan",
        "train.py:41: UserWarning: 'pin_memory' argument is set as true but no "
        "accelerator is found, then device pinned memory won't be used."]
    size = run.EPOCH
    for i, row in enumerate(run.history):
        lines += [text for _, text in run.notices.get(i, ())]
        epoch, behind = divmod(i, size)
        if not behind:
            begun = row["wall"] - row["step_time"]
            lines.append(f"Epoch: {epoch + 1}")
        if i in steps:
            lines.append(
                f"Steps : {row['step']:d}, Gen Loss Total : "
                f"{row['loss']:4.3f}, Mel-Spec. Error : "
                f"{row['mel_error']:4.3f}, s/b : {row['step_time']:4.3f}")
        if i + 1 in run.checkpoints:
            for kind in ("g", "do"):
                lines += ["Saving checkpoint to "
                          + run.checkpoint_path(i + 1, kind), "Complete."]
        if behind == size - 1 or i == run.steps - 1:
            lines += [f"Time taken for epoch {epoch + 1} is "
                      f"{int(row['wall'] - begun)} sec", ""]
    run.write_lines("train.log", lines)


def stylegan2(run):
    """stylegan2-ada-pytorch's training loop: log.txt with a line a tick,
    stats.jsonl with what a tick has collected, training_options.json, and
    metric-fid50k_full.jsonl. Steps, norms and rates are the user's reports."""
    options, steps = run.training_options(), set(logged(run, 10))
    names = column_names(run) | {
        "grad_norm": "Grad/norm", "lr": "Progress/lr", "val_loss": None,
        "batch_hash": None, "step_time": None}
    keys = [k for k in CORE[1:] + MORE if k not in run.dropped
            and names.get(k, k) is not None and not k.startswith("val_")]
    run.write_json("training_options.json", options)
    lines = ["", "Training options:",
             *json.dumps(options, indent=2).splitlines(), "",
             f"Output directory:   {run.RUN_DIR}",
             f"Training duration:  {options['total_kimg']:.1f} kimg",
             f"Number of GPUs:     {options['num_gpus']}",
             "Conditional model:  True", "Dataset x-flips:    False", "",
             "Creating output directory...", "Launching processes...",
             "Loading training set...",
             "torch/utils/data/dataloader.py:666: UserWarning: 'pin_memory' "
             "argument is set as true but no accelerator is found, then device "
             "pinned memory won't be used.", "",
             "Constructing networks...",
             f"Generator and Discriminator: {run.parameters} parameters",
             "Setting up augmentation...", "Distributing across 0 GPUs...",
             "Setting up training phases...", "Initializing logs...",
             f"Training for {options['total_kimg']:.1f} kimg...", ""]
    rows, found, metrics = [], [], []
    tick, begun, nimg = 0, 0.0, 0
    for i, row in enumerate(run.history):
        lines += [text for _, text in run.notices.get(i, ())]
        found.append(row)
        if i in steps or i == run.steps - 1:
            stats, done = {}, run.images(i + 1)
            for key in keys:
                got = [r[key] for r in found if key in r]
                mean = sum(got) / max(1, len(got))
                if got:
                    stats[names.get(key, key)] = {
                        "num": len(got), "mean": short(mean), "std": short(
                            math.sqrt(sum((x - mean) ** 2 for x in got)
                                      / len(got)) if math.isfinite(mean)
                            else math.nan)}
            took, kimg = row["wall"] - begun, done / 1000
            for name, value in (
                    ("Progress/tick", tick), ("Progress/kimg", kimg),
                    ("Progress/step", row["step"]),
                    ("Timing/total_sec", row["wall"]),
                    ("Timing/sec_per_tick", took),
                    ("Timing/sec_per_kimg", 1000 * took / (done - nimg)),
                    ("Progress/augment", 0.0)):
                stats[name] = {"num": 1, "mean": short(value), "std": 0.0}
            rows.append(stats | {"timestamp": round(
                START.timestamp() + row["wall"], 3)})
            lines.append(" ".join((
                f"tick {tick:<5d}", f"kimg {kimg:<8.1f}",
                "time " + (f"{row['wall'] // 60:.0f}m "
                           f"{row['wall'] % 60:02.0f}s").ljust(12),
                f"sec/tick {took:<7.1f}",
                f"sec/kimg {1000 * took / (done - nimg):<7.2f}",
                "maintenance 0.0   ", "cpumem 0.61  ", "gpumem 0.00  ",
                "augment 0.000")))
            tick, begun, nimg, found = tick + 1, row["wall"], done, []
        if "val_loss" in row:
            metrics.append({
                "results": {"fid50k_full": row["val_loss"]},
                "metric": "fid50k_full", "total_time": 0.061,
                "total_time_str": "0.1s", "num_gpus": 0, "snapshot_pkl": None,
                "kimg": run.images(i + 1) / 1000,
                "timestamp": round(START.timestamp() + row["wall"], 3)})
            lines += ["Evaluating metrics...", json.dumps(metrics[-1])]
    lines += ["", "Exiting..."]
    run.write_lines("stats.jsonl", map(json.dumps, rows))
    run.write_lines("metric-fid50k_full.jsonl", map(json.dumps, metrics))
    run.write_lines("log.txt", lines)


def lightning_csv(run):
    """Lightning's CSVLogger as a LightningModule of its own fills it: rows of
    the monitor of rates, of steps, of validations and of an epoch's means;
    hparams.yaml, and stdout with the table of modules and the bars."""
    rate, size = monitored_rate(run), run.epoch_steps
    names = column_names(run) | {"step": "step"}
    keys = [k for k in ("loss", "grad_norm", "step_time", *MORE)
            if not left_out(run, k) and k in run.history[0]]
    means = {names[k]: names[k].replace("_step", "_epoch")
             for k in ("loss", "accuracy") if k in run.history[0]}
    held_out = [k for k in ("val_loss", *MORE) if k.startswith("val_")
                and k in run.history[-1] and not left_out(run, k)]
    header = sorted({"epoch", "step", rate, *means.values(), *(
        names.get(k, k) for k in (*keys, *held_out))})
    lines, steps = [",".join(header)], set(logged(run, 10))

    def add(part):
        lines.append(",".join(str(part.get(k, "")) for k in header))

    weights = run.parameters
    fixed = sum(p.numel() for p in run.model.parameters()
                if not p.requires_grad)
    out = [f"Seed set to {run.seed}",
           "GPU available: False, used: False",
           "TPU available: False, using: 0 TPU cores",
           "HPU available: False, using: 0 HPUs", "",
           "  | Name       | Type  | Params | Mode ", "-" * 42]
    for k, (name, part) in enumerate(run.model.named_children()):
        count = sum(p.numel() for p in part.parameters())
        out.append(f"{k} | {name:<10} | {type(part).__name__:<5} | "
                   f"{count / 1e3:.1f} K  | train")
    out += ["-" * 42, f"{(weights - fixed) / 1e3:.1f} K    Trainable params",
            f"{fixed / 1e3:.1f} K    Non-trainable params",
            f"{weights / 1e3:.1f} K    Total params",
            f"{4 * weights / 1e6:.3f}     Total estimated model params size "
            "(MB)",
            "lightning/pytorch/trainer/connectors/data_connector.py:433: The "
            "'train_dataloader' does not have many workers which may be a "
            "bottleneck. Consider increasing the value of the `num_workers` "
            "argument to improve performance."]
    shown, pending = {}, ""
    for i, row in enumerate(run.history):
        at = {"step": row["step"]}
        epoch, behind = divmod(i, size)
        out += [text for _, text in run.notices.get(i, ())]
        if i in steps:
            add(at | {rate: row["lr"]})
            add(at | {"epoch": epoch} | {names.get(k, k): row[k]
                                         for k in keys if k in row})
        if "val_loss" in row:
            found = {names.get(k, k): row[k] for k in held_out}
            add(at | {"epoch": epoch} | found)
            shown |= {k: found[k] for k in list(found)[:2]}
        last = behind == size - 1
        if last:
            rows = run.history[i - size + 1:i + 1]
            mean = {means[names[k]]: short(sum(r[k] for r in rows) / size)
                    for k in ("loss", "accuracy") if names[k] in means}
            add(at | {"epoch": epoch} | mean)
        if behind % 10 == 9 or i == run.steps - 1:
            now = {names["loss"]: row["loss"]} | shown
            if last:
                shown |= mean
                now |= mean
            pending += f"\rEpoch {epoch}: " + bar(
                behind + 1, size, tail=", v_num=0" + "".join(
                    f", {k}={v:.3f}" for k, v in now.items()))
        if last or i == run.steps - 1:
            out.append(pending)
            pending = ""
    out.append(f"`Trainer.fit` stopped: `max_steps={run.steps}` reached.")
    run.write_lines("metrics.csv", lines)
    run.write_lines("train.log", out)
    write_yaml(run, "hparams.yaml", settings(run))


def dlrm(run):
    """dlrm_s_pytorch.py: what it prints, its arguments and MLPerf's lines
    among it, and the scalars of its TensorBoard, which has means of the loss
    since the last line."""
    every, names = run.interval or 10, column_names(run)
    steps, config = set(logged(run, 10)), settings(run)
    keys = [k for k in CORE + MORE if not k.startswith("val_")
            and not left_out(run, k)]
    held_out = [k for k in CORE + MORE if k.startswith("val_")]
    rows, best, best_auc, total = [], 0.0, 0.0, run.steps

    def mark(seconds, key, value, kind="POINT_IN_TIME", **more):
        return ":::MLLOG " + json.dumps({
            "namespace": "", "time_ms": round(
                1000 * (START.timestamp() + seconds)), "event_type": kind,
            "key": key, "value": value, "metadata": {
                "file": "dlrm_s_pytorch.py", "lineno": 1714, **more}})

    lines = ["command line args:  " + json.dumps(config),
             mark(-2.4, "submission_benchmark", "dlrm"),
             mark(-2.4, "seed", run.seed),
             mark(-2.4, "global_batch_size", run.batch_size * run.accumulate),
             "Using CPU...",
             "torch/utils/data/dataloader.py:666: UserWarning: 'pin_memory' "
             "argument is set as true but no accelerator is found, then device "
             "pinned memory won't be used.",
             mark(-0.1, "run_start", None, "INTERVAL_START"),
             "time/loss/accuracy (if enabled):"]
    for i, row in enumerate(run.history):
        lines += [text for _, text in run.notices.get(i, ())]
        done, found = i + 1, {}
        at = f"{done}/{total} of epoch 0,"
        if i in steps:
            part = run.history[max(0, done - every):done]
            found = {k: row[k] for k in keys if k in row}
            found["loss"] = short(sum(r["loss"] for r in part) / len(part))
            millis = 1000 * sum(r["step_time"] for r in part) / len(part)
            lines.append(f"Finished training it {at} {millis:.2f} ms/it, "
                         f"loss {found['loss']:.6f}")
        if "val_loss" in row:
            found |= {k: row[k] for k in held_out if k in row}
            best = max(best, row["val_accuracy"])
            best_auc = max(best_auc, row["val_auc"])
            lines += [
                mark(row["wall"], "eval_start", None, "INTERVAL_START",
                     epoch_num=done / total),
                f"Testing at - {at} loss {row['val_loss']:.6f}, recall "
                f"{row['val_recall']:.4f}, precision "
                f"{row['val_precision']:.4f}, f1 {row['val_f1']:.4f}, ap "
                f"{row['val_ap']:.4f}, auc {row['val_auc']:.4f}, best auc "
                f"{best_auc:.4f}, accuracy {100 * row['val_accuracy']:3.3f} "
                f"%, best accuracy {100 * best:3.3f} %",
                mark(row["wall"], "eval_accuracy", row["val_auc"],
                     epoch_num=done / total),
                mark(row["wall"], "eval_stop", None, "INTERVAL_END",
                     epoch_num=done / total)]
        if done in run.checkpoints:
            lines.append(f"Saving model to {run.checkpoint_path(done)}")
        if found:
            rows.append({"step": row["step"]} | {
                names.get(k, k): v for k, v in found.items() if k != "step"})
    lines.append(mark(run.history[-1]["wall"] + 0.2, "run_stop", None,
                      "INTERVAL_END"))
    run.write_lines("metrics.jsonl", map(json.dumps, rows))
    run.write_json("args.json", config)
    run.write_lines("train.log", lines)


def fourcastnet(run):
    """FourCastNet's train.py: what it logs of epochs, of which the loss of
    training is the last batch's, AFNO.yaml, and the history that Weights &
    Biases has of the run."""
    names, steps = column_names(run) | {"step": "_step"}, set(logged(run, 10))
    keys = [k for k in CORE + MORE if not left_out(run, k)]
    begun, rule, rows = START.timestamp(), "-" * 48, []

    def say(seconds, text):
        return f"{run.at(seconds)} - root - INFO - {text}"

    config = settings(run)
    lines = [say(-4.1, text) for text in (
        "--------------- Versions ---------------", "git branch: b'* master'",
        "git hash: b'15992a5'", "Torch: 2.13.0+cpu", "-" * 40,
        "------------------ Configuration ------------------",
        "Configuration file: ./config/AFNO.yaml",
        f"Configuration name: {run.EXPERIMENT}",
        *(f"{k} {v}" for k, v in config.items()), rule)]
    lines += [
        say(-3.2, "rank 0, begin data loader init"),
        "torch/utils/data/dataloader.py:666: UserWarning: 'pin_memory' "
        "argument is set as true but no accelerator is found, then device "
        "pinned memory won't be used.",
        say(-2.0, "Delta t: 6 hours"),
        say(-2.0, "Including 0 hours of past history in training at a "
                  "frequency of 6 hours"),
        say(-1.9, "rank 0, data loader initialized"),
        say(-1.2, "Number of trainable model parameters: "
                  + str(sum(p.numel() for p in run.model.parameters()
                            if p.requires_grad))),
        say(-0.1, "Starting Training Loop...")]
    start = 0.0
    for i, row in enumerate(run.history):
        lines += [say(row["wall"], text)
                  for _, text in run.notices.get(i, ())]
        found = {names.get(k, k): row[k] for k in keys if k in row and (
            i in steps or k == "step" or k.startswith("val_"))}
        if len(found) > 1:
            rows.append(found | {
                "epoch": i // run.EPOCH + 1, "_runtime": row["wall"],
                "_timestamp": round(begun + row["wall"], 3)})
        if "val_loss" in row:
            lines += [say(row["wall"], text) for text in (
                f"Time taken for epoch {i // run.EPOCH + 1} is "
                f"{row['wall'] - start} sec",
                f"Train loss: {row['loss']}. Valid loss: "
                f"{row['val_loss']}")]
            start = row["wall"]
    lines.append(say(run.history[-1]["wall"] + 0.2, "DONE ---- rank 0"))
    run.write_lines("metrics.jsonl", map(json.dumps, rows))
    run.write_lines("train.log", lines)
    run.write_lines("AFNO.yaml", run.yaml())
def nequip(run):
    """NequIP's trainer: metrics_epoch.csv with means of an epoch and of its
    validation, metrics_batch_train.csv with batches (counted anew in each
    epoch; norm, rate and times are added by a callback of the user's), the
    log of its console, and config.yaml."""
    size, names = run.epoch_steps, column_names(run)
    every, shown = run.interval or 10, ("loss", "loss_f", "loss_e", "f_mae",
                                        "f_rmse", "e_mae")
    titles = [names[k].removeprefix("training_") for k in shown]
    more = [k for k in ("grad_norm", "lr", "step_time", *MORE)
            if k not in shown and not k.startswith("val_")
            and k in run.history[0] and not left_out(run, k)]

    def cells(values):
        return "".join(f", {v:>12.5g}" if isinstance(v, float)
                       else f", {v:>12}" for v in values)

    def table(values):
        return "".join(f" {v:>12.3g}" for v in values)

    head = "".join(f" {t:>12}" for t in titles)
    batches = ["epoch, batch" + "".join(
        f", {t:>12}" for t in (*titles, *(names.get(k, k) for k in more)))]
    keys = ("loss_f", "loss_e", "loss", *shown[3:])
    held_out = [f"val_{k}" for k in keys]
    epochs = ["epoch,         wall,           LR" + "".join(
        f", {names[k]:>12}" for k in (*keys, *held_out))]
    out = ["Torch device: cpu", "Processing dataset...", "Done!",
           f"Number of weights: {run.parameters}",
           f"Number of trainable weights: {run.parameters}",
           "torch/jit/_check.py:178: UserWarning: The TorchScript type system "
           "doesn't support instance-level annotations on empty non-base types "
           "in `__init__`.", "! Starting training ..."]
    best = math.inf
    for i, row in enumerate(run.history):
        out += [text for _, text in run.notices.get(i, ())]
        epoch, behind = divmod(i, size)
        if not behind:
            out += ["", "training", f"# Epoch batch{head}"]
        last = behind == size - 1 or i == run.steps - 1
        if not (behind + 1) % every or last:
            values = [row.get(k, math.nan) for k in shown]
            batches.append(f"{epoch + 1:5d}, {behind + 1:5d}" + cells(
                [*values, *(row.get(k, "") for k in more)]))
            out.append(f"{epoch + 1:7d} {behind + 1:5d}{table(values)}")
        if not last:
            continue
        part = run.history[i - behind:i + 1]
        mean = [sum(r.get(k, math.nan) for r in part) / len(part)
                for k in keys]
        found = [row[k] for k in held_out]
        epochs.append(f"{epoch + 1:5d}, {row['wall']:12.3f}, "
                      f"{row['lr']:12.5g}{cells(mean)}{cells(found)}")
        order = ("loss_f", "loss_e", "loss", *shown[3:])
        line = "".join(f" {t:>12}" for t in (
            names[k].removeprefix("training_") for k in order))
        out += ["", "", f"  Train      #    Epoch      wal       LR{line}"]
        for title, values in (("Train     ", mean), ("Validation", found)):
            out.append(f"! {title} {epoch + 1:13d} {row['wall']:8.3f} "
                       f"{row['lr']:8.3g}{table(values)}")
        out.append(f"Wall time: {row['wall']:.4f}")
        if row["val_loss"] < best:
            best = row["val_loss"]
            out.append(f"! Best model {epoch + 1:8d} {best:8.3f}")
    out += ["! Stop training: max epochs", f"Wall time: "
            f"{run.history[-1]['wall']:.4f}", "Cumulative wall time: "
            f"{run.history[-1]['wall']:.4f}"]
    run.write_lines("metrics_batch_train.csv", batches)
    run.write_lines("metrics_epoch.csv", epochs)
    run.write_lines("log", out)
    write_yaml(run, "config.yaml", settings(run))
def dreamer(run):
    """dreamerv3-torch's logger: metrics.jsonl and the console with all that
    was collected since the last line, as means; configs.yaml. It has no
    rate."""
    every, names = run.interval or 10, column_names(run)
    steps, rows = set(logged(run, 10)), []
    keys = [k for k in ("loss", "grad_norm", *MORE)
            if k not in ("eval_return", "batch_hash", "data_time")
            and not left_out(run, k)]
    lines = ["Logdir logdir/pond_reach", "Create envs.",
             "Encoder CNN shapes: {}", "Encoder MLP shapes: {'vector': (6,)}",
             "Decoder CNN shapes: {}", "Decoder MLP shapes: {'vector': (6,)}"]
    for part, name in (("_wm", "model_opt"), ("_task_behavior.actor", "actor"),
                       ("_task_behavior.value", "value")):
        count = sum(p.numel() for p in
                    run.model.get_submodule(part).parameters())
        lines.append(f"Optimizer {name} has {count} variables.")
    lines.append("Simulate agent.")
    for i, row in enumerate(run.history):
        lines += [text for _, text in run.notices.get(i, ())]
        found = {}
        if i in steps:
            part = run.history[max(0, i + 1 - every):i + 1]
            for k in keys:
                if any(k in r for r in part):
                    own = [r[k] for r in part if k in r]
                    found[names.get(k, k)] = short(sum(own) / len(own))
            found["fps"] = short(len(part) / sum(r["step_time"]
                                                 for r in part))
        if "val_loss" in row:
            lines.append("Start evaluation.")
            found |= {names.get(k, k): row[k]
                      for k in ("val_loss", "eval_return") if k in row}
        if found:
            lines.append(f"[{row['step']}] " + " / ".join(
                f"{k} {v:.1f}" for k, v in found.items()))
            rows.append({"step": row["step"]} | found)
    run.write_lines("metrics.jsonl", map(json.dumps, rows))
    run.write_lines("train.log", lines)
    write_yaml(run, "configs.yaml", {"defaults": settings(run)})


def ultralytics(run):
    """What Ultralytics leaves of train(): results.csv with a row an epoch,
    args.yaml, and the console's tables; and batches.csv of a user's callback
    on_train_batch_end, with what a batch has, every so many of them."""
    size, names, every = run.EPOCH, column_names(run), run.interval or 5
    terms = ("box_loss", "cls_loss", "dfl_loss")
    held_out = ("val_precision", "val_recall", "val_map50", "val_map",
                "val_box_loss", "val_cls_loss", "val_dfl_loss")
    more = [k for k in MORE if k in run.history[0] and k not in terms
            and not left_out(run, k)]
    keys = [k for k in ("loss", *terms, "grad_norm", "lr", "step_time", *more)
            if not left_out(run, k)]
    rows = [",".join(("epoch", "step", *(names.get(k, k) for k in keys)))]
    for i in logged(run, every):
        row = run.history[i]
        rows.append(",".join(map(str, (i // size + 1, row["step"], *(
            row.get(k, "") for k in keys)))))
    run.write_lines("batches.csv", rows)

    results = [",".join(("epoch", "time", *(names[k] for k in (
        *terms, *held_out)), "lr/pg0", "lr/pg1", "lr/pg2"))]
    kind = {"sgd": "SGD", "adam": "Adam"}.get(run.optimizer_name, "AdamW")
    groups = [len(g["params"]) for g in run.optimizer.param_groups]
    first = groups + [0] * (3 - len(groups))
    out = ["Ultralytics 8.3.40 \U0001f680 Python-3.11.2 torch-2.13.0 CPU",
           "engine/trainer: " + ", ".join(
               f"{k}={v}" for k, v in run.arguments().items()), "",
           f"Model summary: {run.parameters:,} parameters, "
           f"{run.parameters:,} gradients", "",
           "Freezing layer 'model.8.dfl.conv.weight'",
           f"optimizer: {kind}(lr={run.lr}, momentum={run.momentum}) with "
           f"parameter groups {first[1]} weight(decay={run.weight_decay}), "
           f"{first[2]} weight(decay=0.0), {first[0]} bias(decay=0.0)",
           "Image sizes 32 train, 32 val", "Using 2 dataloader workers",
           "Logging results to runs/detect/train",
           f"Starting training for {run.epochs} epochs..."]
    header = "".join(f"{h:>11}" for h in (
        "Epoch", "GPU_mem", *terms, "Instances", "Size"))
    for epoch in range(run.epochs):
        start = epoch * size
        part = run.history[start:start + size]
        for i in range(start, start + len(part)):
            out += [text for _, text in run.notices.get(i, ())]
        mean = {k: short(sum(r[k] for r in part) / len(part), 5)
                for k in terms}
        last, seconds = part[-1], sum(r["step_time"] for r in part)
        rate = len(part) / seconds
        out += ["", header]
        bars = ""
        for done in sorted({*range(0, len(part), 10), len(part)}):
            seen = part[:max(1, done)]
            now = (sum(r[k] for r in seen) / len(seen) for k in terms)
            row = seen[-1]
            bars += ("\r" if bars else "") + (
                f"{f'{epoch + 1}/{run.epochs}':>11}{'0G':>11}"
                + "".join(f"{t:>11.4g}" for t in now)
                + f"{row['instances']:>11}{row['size']:>11}: "
                + f"{100 * done // len(part):3d}%|"
                + "\u2588" * (10 * done // len(part))
                + " " * (10 - 10 * done // len(part))
                + f"| {done}/{len(part)} [00:{done / rate:02.0f}<00:"
                + f"{(len(part) - done) / rate:02.0f}, {rate:5.2f}it/s]")
        out.append(bars)
        found = [""] * len(held_out)
        if "val_loss" in last:
            found = [last.get(k, "") for k in held_out]
            out += ["".join(f"{h:>11}" for h in (
                "Class", "Images", "Instances", "Box(P", "R", "mAP50",
                "mAP50-95)")) + ": 100%|" + "\u2588" * 10
                + "| 4/4 [00:00<00:00, 65.57it/s]",
                f"{'all':>11}{run.held_out_images:>11}"
                f"{run.held_out_things:>11}"
                + "".join(f"{v:>11.3g}" for v in found[:4])]
        results.append(",".join(map(str, (
            epoch + 1, round(last["wall"], 3), *(mean[k] for k in terms),
            *found, *[last["lr"]] * 3))))
    end = run.history[-1]["wall"]
    out += ["", f"{run.epochs} epochs completed in {end / 3600:.3f} hours.",
            "Results saved to runs/detect/train"]
    run.write_lines("results.csv", results)
    run.write_lines("train.log", out)
    run.write_lines("args.yaml", (
        f"{key}: {'null' if value is None else json.dumps(value)}"
        for key, value in run.arguments().items()))


def timm(run):
    """What timm's train.py leaves: its console with a line every so many
    updates and of validations, of the weights and of their average,
    summary.csv with a row an epoch, args.yaml; and steps.csv of a user's line
    in train_one_epoch, with what train.py does not log."""
    size, names, every = run.EPOCH, column_names(run), run.interval or 5
    keys = [k for k in ("loss", "grad_norm", "lr", "step_time", *MORE)
            if k in run.history[0] and not left_out(run, k)]
    rows = [",".join(("epoch", "update", "step", *(
        names.get(k, k) for k in keys)))]
    for i in logged(run, every):
        row = run.history[i]
        rows.append(",".join(map(str, (*divmod(i, size), row["step"], *(
            row.get(k, "") for k in keys)))))
    run.write_lines("steps.csv", rows)

    groups = run.optimizer.param_groups
    scale = sum(g["lr_scale"] for g in groups) / len(groups)
    kind = {"fp32": "torch.float32", "bf16": "torch.bfloat16"}.get(
        run.precision)
    out = ["Training with a single process on 1 device (cpu).",
           f"Model {run.arguments()['model']} created, param count:"
           f"{run.parameters}",
           "Data processing configuration for current model + dataset:",
           "\tinput_size: (3, 16, 16)", "\tinterpolation: bicubic",
           "\tmean: (0.485, 0.456, 0.406)", "\tstd: (0.229, 0.224, 0.225)",
           "\tcrop_pct: 1.0", "\tcrop_mode: center",
           f"AMP not enabled. Training in {kind}." if kind else
           "Using native Torch AMP. Training in mixed precision.",
           f"Scheduled epochs: {run.epochs} (epochs + cooldown_epochs). "
           "Warmup within epochs when warmup_prefix=False. LR stepped per "
           f"{'update' if run.arguments()['sched_on_updates'] else 'epoch'}."]
    summary = ["epoch,train_loss,eval_loss,eval_top1,eval_top5,lr"]
    results, best = [], None
    for epoch in range(run.epochs):
        start = epoch * size
        part = run.history[start:start + size]
        total = taken = waited = 0.0
        for k, row in enumerate(part):
            out += [text for _, text in run.notices.get(start + k, ())]
            seconds, data = row["step_time"], row["data_time"]
            total, taken = total + row["loss"], taken + seconds
            waited += data
            if k % every and k != len(part) - 1:
                continue
            count, many = k + 1, run.batch_size * run.accumulate
            out.append(
                f"Train: {epoch} [{k:>4d}/{size} "
                f"({100. * (k + 1) / size:>3.0f}%)]  "
                f"Loss: {row['loss']:#.3g} ({total / count:#.3g})  "
                f"Time: {seconds:.3f}s, {many / seconds:>7.2f}/s  "
                f"({taken / count:.3f}s, {many * count / taken:>7.2f}/s)  "
                f"LR: {row['lr'] * scale:.3e}  "
                f"Data: {data:.3f} ({waited / count:.3f})")
        last = part[-1]
        for suffix, found in run.tests[start + len(part) - 1].items():
            for k, (loss, top1, top5) in enumerate(found):
                end = len(found) - 1
                if k % every and k != end:
                    continue
                mean = [sum(t) / (k + 1) for t in zip(*found[:k + 1])]
                out.append(
                    f"Test{suffix}: [{k:>4d}/{end}]  "
                    f"Time: {0.008 + 0.007 * (not k):.3f} "
                    f"({0.008 + 0.007 / (k + 1):.3f})  "
                    f"Loss: {loss:>7.3f} ({mean[0]:>6.3f})  "
                    f"Acc@1: {top1:>7.3f} ({mean[1]:>7.3f})  "
                    f"Acc@5: {top5:>7.3f} ({mean[2]:>7.3f})")
        held_out = {"loss": last["val_loss"], "top1": last["val_top1"],
                    "top5": last["val_top5"]}
        summary.append(",".join(map(str, (
            epoch, total / len(part), *held_out.values(),
            last["next_lr"] * scale))))
        results.append({"epoch": epoch, "train": {"loss": total / len(part)},
                        "validation": held_out})
        if best is None or held_out["top1"] > best[0]:
            best = held_out["top1"], epoch
            out += ["Current checkpoints:", f" ('{run.OUTPUT}/checkpoint-"
                    f"{epoch}.pth.tar', {best[0]})", ""]
    out += [f"*** Best metric: {best[0]} (epoch {best[1]})", "--result",
            json.dumps(sorted(results, key=lambda r: r["validation"]["top1"])
                       [-10:], indent=4)]
    run.write_lines("summary.csv", summary)
    run.write_lines("train.log", out)
    run.write_lines("args.yaml", (
        f"{key}: {'null' if value is None else json.dumps(value)}"
        for key, value in run.arguments().items()))


def compressai(run):
    """What CompressAI's examples/train.py prints, with its options, and the
    scalars that its users add to it, one row a step."""
    write_metrics(run)
    run.write_json("config.json", settings(run))
    size, every, lines = run.EPOCH, run.interval or 10, []
    each = run.batch_size * run.accumulate

    def terms(row, prefix=""):
        return (f"\tLoss: {row[prefix + 'loss']:.3f} |"
                f"\tMSE loss: {row[prefix + 'mse_loss']:.3f} |"
                f"\tBpp loss: {row[prefix + 'bpp_loss']:.2f} |"
                f"\tAux loss: {row[prefix + 'aux_loss']:.2f}")
    for i, row in enumerate(run.history):
        epoch, within = divmod(i, size)
        lines += [text for _, text in run.notices.get(i, ())]
        if not within:
            lines.append(f"Learning rate: {row['lr']}")
        if within % every == 0:
            lines.append(f"Train epoch {epoch}: [{within * each}/"
                         f"{size * each} ({100. * within / size:.0f}%)]"
                         + terms(row))
        if "val_loss" in row:
            lines += [f"Test epoch {epoch}: Average losses:"
                      + terms(row, "val_"), ""]
    run.write_lines("train.log", lines)


def loftr(run):
    """What LoFTR's train.py leaves: its standard output, where the user prints
    the config as well, config.yaml, and the scalars of the summary writer,
    exported as one table. Steps have what they have themselves; validations
    are in the row of the step that they are behind, where the writer has the
    number of the epoch."""
    config, names, size = run.settings(), column_names(run), run.EPOCH
    rate = monitored_rate(run)
    run.write_lines("config.yaml", yaml_block(config))
    keys = [k for k in dict.fromkeys((
        "loss", "loss_c", "loss_f", "grad_norm", "step_time", "data_time",
        *MORE)) if not k.startswith("val_") and not left_out(run, k)
        and any(k in row for row in run.history)]
    held = [k for k in dict.fromkeys(("val_loss", *MORE))
            if k.startswith("val_") and not left_out(run, k)
            and any(k in row for row in run.history)]
    own = "train/avg_loss_on_epoch"
    aucs = [f"auc@{k}" for k in (5, 10, 20)]
    table = [",".join(("step", "epoch", "wall_time", rate, *(
        names.get(k, k) for k in (*keys, *held)), own, *aucs))]
    args = {"data_cfg_path": "configs/data/planes_trainval.py",
            "main_cfg_path": "configs/loftr/planes/loftr_ds_dense.py",
            "num_workers": 4, "pin_memory": True, "ckpt_path": None,
            "disable_ckpt": False, "profiler_name": None,
            "parallel_load_data": False, "gpus": "0", "num_nodes": 1,
            "accelerator": None, "limit_val_batches": 1.0,
            "num_sanity_val_steps": 0, "benchmark": True} | {
        k: v for k, v in config.items() if k == k.lower()}

    def say(seconds, text, place, level="INFO"):
        when = run.at(seconds, "%Y-%m-%d %H:%M:%S.%f")
        return f"{when} | {level:<8} | {place} - {text}"

    weights = run.parameters
    lines = [*pprint.pformat(args).splitlines(),
             f"Global seed set to {run.seed}",
             say(-2.9, "Config:", "__main__:main:75"), *yaml_block(config),
             say(-2.6, "LoFTR LightningModule initialized!",
                 "__main__:main:82"),
             say(-2.5, "LoFTR DataModule initialized!", "__main__:main:86"),
             "GPU available: False, used: False",
             "TPU available: False, using: 0 TPU cores",
             say(-2.2, "Trainer initialized!", "__main__:main:117"),
             say(-2.2, "Start training!", "__main__:main:118"), "",
             "   | Name    | Type      | Params", "-" * 34,
             f"0  | matcher | LoFTR     | {weights / 1e3:.1f} K",
             "1  | loss    | LoFTRLoss | 0     ", "-" * 34,
             f"{weights / 1e3:.1f} K    Trainable params",
             "0         Non-trainable params",
             f"{weights / 1e3:.1f} K    Total params",
             f"{4 * weights / 1e6:.3f}     Total estimated model params size "
             "(MB)",
             "pytorch_lightning/trainer/data_loading.py:102: UserWarning: The "
             "dataloader, val dataloader 0, does not have many workers which "
             "may be a bottleneck. Consider increasing the value of the "
             "`num_workers` argument (try 16 which is the number of cpus on "
             "this machine) in the `DataLoader` init to improve performance."]
    steps, best, pending = set(logged(run, 10)), -math.inf, ""
    for i, row in enumerate(run.history):
        epoch, behind = divmod(i, size)
        for _, text in run.notices.get(i, ()):
            lines.append(say(row["wall"], text,
                             "src.lightning.lightning_loftr:__init__:49"))
        if i in run.false_steps:
            lines.append(say(row["wall"], "assign a false supervision to "
                             "avoid ddp deadlock", "src.losses.loftr_loss:"
                             "_compute_fine_loss_l2_std:140", "WARNING"))
        last = behind == size - 1 or i == len(run.history) - 1
        if i in steps or "val_loss" in row:
            rows = run.history[epoch * size:i + 1]
            mean = short(sum(r["loss"] for r in rows) / len(rows)) \
                if last else ""
            found = [row.get(f"val_auc{k}", "") for k in (5, 10, 20)]
            table.append(",".join(map(str, (
                row["step"], epoch,
                round(START.timestamp() + row["wall"], 3),
                *((row["lr"], *(row.get(k, "") for k in keys))
                  if i in steps else ("",) * (1 + len(keys))),
                *(row.get(k, "") for k in held), mean, *found))))
        if behind % 5 == 4 or last:
            since = run.history[max(0, i - 19):i + 1]
            loss = sum(r["loss"] for r in since) / len(since)
            pending += f"\rEpoch {epoch}: " + bar(
                behind + 1, size, tail=f", loss={loss:.3g}, v_num=0")
        if last:
            lines.append(pending)
            pending = ""
        if "val_auc10" in row:
            auc, done = row["val_auc10"], i + 1
            best = max(best, auc)
            lines.append(say(row["wall"], "Aggregating metrics over "
                             f"{run.pairs} unique items...",
                             "src.utils.metrics:aggregate_metrics:182"))
            lines.append(
                f"Epoch {epoch}, global step {i}: auc@10 reached {auc:0.5f} "
                f"(best {best:0.5f}), saving model to \""
                f"{run.kept_path(done)}\" as top 5")
    run.write_lines("scalars.csv", table)
    run.write_lines("train.log", lines)


def pyskl(run):
    """mmcv's TextLoggerHook, as PySKL has it: a log, the same rows as
    .log.json, whose iter is that within an epoch, and the config as j.py.
    What is logged of training are means since the last line but for the rate
    and what a hook of the user's counts of a batch; the loss of held-out clips
    is of the workflow's epoch of validation."""
    every, names, size = run.interval or 10, column_names(run), run.EPOCH
    name, lines = START.strftime("%Y%m%d_%H%M%S"), []
    held_out = [k for k in MORE if k.startswith("val_")]
    means = ("accuracy", "top5_accuracy", "loss", "grad_norm")
    more = [k for k in MORE if k not in (*held_out, *means, "data_time")
            and not left_out(run, k)]
    config = python_lines(run.config())
    work, end = run.WORK, run.history[-1]["wall"]
    rows = [{"env_info": "PyTorch: 2.13.0\nMMCV: 1.5.0\nGPU 0: no",
             "config": "\n".join(config), "seed": run.seed,
             "config_name": "j.py", "work_dir": "j", "hook_msgs": {}}]

    def say(seconds, text, level="INFO"):
        lines.append(f"{run.at(seconds)} - pyskl - {level} - {text}")

    def said(values):
        return ", ".join(f"{k}: {v:.4f}" if isinstance(v, float)
                         else f"{k}: {v}" for k, v in values.items())

    say(-3.2, "Environment info:\n" + "-" * 60 + "\nPyTorch: 2.13.0\n"
        "MMCV: 1.5.0\n" + "-" * 60 + "\n")
    say(-3.1, "Config: " + "\n".join(config) + "\n")
    say(-3.1, f"Set random seed to {run.seed}, deterministic: False")
    say(-0.4, f"Start running, work_dir: ./{work}")
    say(-0.4, "Hooks will be executed in the following order:\n"
        "before_run:\n(VERY_HIGH   ) CosineAnnealingLrUpdaterHook       \n"
        "(NORMAL      ) CheckpointHook                     \n"
        "(NORMAL      ) DistEvalHook                       \n"
        "(VERY_LOW    ) TextLoggerHook                     ")
    say(-0.3, f"workflow: [('train', 1), ('val', 1)], max: {run.epochs} "
        "epochs")
    say(-0.3, f"Checkpoints will be saved to ./{work} by HardDiskBackend.")
    for i, row in enumerate(run.history):
        done, (epoch, inner) = i + 1, divmod(i, size)
        for level, text in run.notices.get(i, ()):
            say(row["wall"] - row["step_time"], text, level)
        if not (inner + 1) % every:  # counted anew in each epoch
            part = run.history[done - every:done]
            mean = {k: sum(r[k] for r in part) / len(part)
                    for k in ("step_time", "data_time", *means)
                    if all(k in r for r in part) and not left_out(run, k)}
            mean = {names.get(k, k): round(v, 5) for k, v in mean.items()}
            terms = {k: mean[k] for k in ("top1_acc", "top5_acc") if k in mean}
            terms |= {"loss_cls": mean["loss"], "loss": mean["loss"]}
            if "grad_norm" in mean:
                terms["grad_norm"] = mean["grad_norm"]
            rows.append({"mode": "train", "epoch": epoch + 1,
                         "iter": inner + 1, "lr": round(row["lr"], 5),
                         "memory": 71, "data_time": mean["data_time"],
                         **terms, **{names.get(k, k): row[k] for k in more
                                     if k in row}, "time": mean["time"]})
            left = str(timedelta(seconds=int(end - row["wall"])))
            say(row["wall"], (
                f"Epoch [{epoch + 1}][{inner + 1}/{size}]\tlr: "
                f"{row['lr']:.3e}, eta: {left}, time: {mean['time']:.3f}, "
                f"data_time: {mean['data_time']:.3f}, memory: 71, "
                + said(terms)))
        if inner == size - 1 and done in run.checkpoints:
            say(row["wall"], f"Saving checkpoint at {epoch + 1} epochs")
        if "val_loss" in row:
            found = {names.get(k, k).removeprefix("val_"): round(row[k], 5)
                     for k in held_out if k in row}
            loss = round(row["val_loss"], 5)
            at = row["wall"]
            for title, keys in (("top_k_accuracy", ("top1_acc", "top5_acc")),
                                ("mean_class_accuracy",
                                 ("mean_class_accuracy",))):
                say(at, f"Evaluating {title} ...")
                values = [(k, found[k]) for k in keys if k in found]
                say(at, "".join(f"\n{k}\t{v:.4f}" for k, v in values)
                    if len(keys) > 1 else "\n" + "".join(
                        f"{k.removesuffix('uracy')}\t{v:.4f}"
                        for k, v in values))
            found |= {"loss_cls": loss, "loss": loss}
            rows.append({"mode": "val", "epoch": epoch + 1,
                         "iter": 4, "lr": round(row["lr"], 5), **found})
            say(at, f"Epoch(val) [{epoch + 1}][4]\t" + said(found))
    run.write_lines(f"{name}.log", lines)
    run.write_lines(f"{name}.log.json", map(json.dumps, rows))
    run.write_lines("j.py", config)


def panns(run):
    """What audioset_tagging_cnn's main.py leaves: 0000.log of its logging,
    statistics.pkl of the evaluator, what it prints, with the same lines of a
    console handler, and, as the user has added them, the arguments as a file
    and a table of scalars. A validation comes before the step it is named by;
    what it prints of losses is each one's."""
    names, steps = column_names(run), set(logged(run, 10))
    lines, said = [], []

    def say(seconds, text, level="INFO", line=83):
        lines.append(run.at(seconds, "%a, %d %b %Y %H:%M:%S")
                     + f" main.py[line:{line}] {level} {text}")
        said.append(f"root        : {level:<8} {text}")

    config = run.settings()
    typed = ", ".join(f"{k}={v!r}" for k, v in config.items())
    say(-2.4, f"Namespace(mode='train', filename='main', {typed})", line=82)
    say(-2.4, "Using CPU. Set --cuda flag to use GPU.", line=88)
    say(-2.3, f"Parameters num: {run.parameters}", line=98)
    said.append("GPU number: 0")
    keys = [k for k in ("loss", "grad_norm", "lr", "step_time", "data_time",
                        "val_loss", *MORE) if not left_out(run, k)
            and any(k in row for row in run.history)]
    keys = list(dict.fromkeys(keys))
    table = [",".join((names.get("step", "step"), "wall_time",
                       *(names.get(k, k) for k in keys)))]
    since, begun = 0.0, 0.0
    held = [k for k in keys if k.startswith("val_") or k == "bal_map"]
    for i, row in enumerate(run.history):
        for level, text in run.notices.get(i, ()):
            say(row["wall"] - row["step_time"], text, level, 166)
        said.append(f"tensor({row['loss']:.4f}, grad_fn=<"
                    "BinaryCrossEntropyBackward0>)")
        if i % 10 == 0:
            said.append(f"--- Iteration: {i}, train time: "
                        f"{row['wall'] - since:.3f} s / 10 iterations ---")
            since = row["wall"]
        checked = "val_loss" in row
        if i in steps or checked:
            table.append(",".join(map(str, (
                row["step"], round(START.timestamp() + row["wall"], 3),
                *(row.get(k, "") if i in steps or k in held else ""
                  for k in keys)))))
        if checked:
            at = row["wall"]
            say(at, f"Validate bal mAP: {row['bal_map']:.3f}", line=196)
            say(at, f"Validate test mAP: {row['val_map']:.3f}", line=199)
            say(at, f"iteration: {i + 1}, train time: "
                    f"{at - 0.061 - begun:.3f} s, validate time: 0.061 s",
                line=209)
            say(at, "------------------------------------", line=213)
            begun = at
        if i + 1 in run.checkpoints:
            say(row["wall"], "Model saved to " + run.checkpoint_path(i + 1),
                line=229)
    run.write_lines("0000.log", lines)
    run.write_lines("train.out", said)
    run.write_lines("scalars.csv", table)
    run.write_json("args.json", {"mode": "train", "filename": "main",
                                 **config})
    (run.folder / "statistics.pkl").write_bytes(
        pickle.dumps(run.statistics, protocol=4))


def anomalib(run):
    """What `anomalib train` leaves, with a CSVLogger: metrics.csv with rows of
    the monitor of rates, of steps, of validations and of an epoch's mean;
    config.yaml of the CLI; and the console, which has the engine's lines and
    the last state of each bar of Rich's. Norms, the terms of the loss, a
    held-out loss and what else there is of a batch are the user's."""
    rate, size, names = monitored_rate(run), run.EPOCH, column_names(run)
    keys = [k for k in dict.fromkeys(("loss", "grad_norm", "step_time",
                                      *MORE))
            if k in run.history[0] and not k.startswith("val_")
            and not left_out(run, k)]
    held = [k for k in ("val_loss", *run.validated)
            if any(k in row for row in run.history)]
    own = "train_loss_epoch"
    header = sorted({"epoch", "step", rate, own, *(
        names.get(k, k) for k in (*keys, *held))})
    table, steps = [",".join(header)], set(logged(run, 10))

    def add(part):
        table.append(",".join(str(part.get(k, "")) for k in header))

    def say(seconds, text, place, level="INFO"):
        return (f"{run.at(seconds)} - {place} - {level} - {text}")

    engine, weights = "anomalib.engine.engine", run.parameters
    fixed = sum(p.numel() for p in run.model.parameters()
                if not p.requires_grad)
    out = [f"Seed set to {run.seed}",
           say(-2.9, "Initializing Draem model.",
               "anomalib.models.components.base.anomalib_module"),
           say(-2.6, "Overriding gradient_clip_val from None with "
               f"{run.clip or 0} for Draem", engine),
           say(-2.6, "Overriding num_sanity_val_steps from None with 0 for "
               "Draem", engine),
           "GPU available: False, used: False",
           "TPU available: False, using: 0 TPU cores",
           "  | Name      | Type                   | Params | Mode ",
           "-" * 58,
           "0 | augmenter | PerlinAnomalyGenerator | 0      | train",
           f"1 | model     | DraemModel             | {weights / 1e3:.1f} K | "
           "train",
           "2 | loss      | DraemLoss              | 0      | train",
           "-" * 58, f"{(weights - fixed) / 1e3:.1f} K    Trainable params",
           f"{fixed / 1e3:.1f} K    Non-trainable params",
           f"{weights / 1e3:.1f} K    Total params",
           f"{4 * weights / 1e6:.3f}     Total estimated model params size "
           "(MB)"]
    shown = ""
    for i, row in enumerate(run.history):
        epoch, behind = divmod(i, size)
        at = {"epoch": epoch, "step": row["step"]}
        out += [say(row["wall"] - row["step_time"], text, engine, level)
                for level, text in run.notices.get(i, ())]
        if i in steps:
            add({"step": row["step"], rate: row["lr"]})
            add(at | {names.get(k, k): row[k] for k in keys if k in row})
        if "val_loss" in row:
            add(at | {names.get(k, k): row[k] for k in held})
            shown = "".join(f" {names.get(k, k)}: {row[k]:.3f}"
                            for k in held)
        if behind < size - 1 and i < len(run.history) - 1:
            continue
        rows = run.history[i - behind:i + 1]
        mean = sum(r["loss"] for r in rows) / len(rows)
        add(at | {own: short(mean)})
        took = row["wall"] - rows[0]["wall"] + rows[0]["step_time"]
        out.append(f"Epoch {epoch}/{run.epochs - 1} {'━' * 20} {len(rows)}/"
                   f"{size} 0:00:{took:02.0f} • 0:00:00 "
                   f"{len(rows) / took:.2f}it/s train_loss_step: "
                   f"{row['loss']:.3f}{shown} train_loss_epoch: {mean:.3f}")
    last = run.history[-1]["wall"]
    out += [f"`Trainer.fit` stopped: `max_epochs={run.epochs}` reached.",
            say(last + 0.1, f"Training took {last:5.2f} seconds",
                "anomalib.callbacks.timer")]
    run.write_lines("metrics.csv", table)
    run.write_lines("train.log", out)
    run.write_lines("config.yaml", yaml_block(run.cli_config()))


def hours(seconds):
    """sec_to_hm_str()."""
    minutes, seconds = divmod(int(seconds), 60)
    return "{:02d}h{:02d}m{:02d}s".format(*divmod(minutes, 60), seconds)


def monodepth2(run):
    """What Monodepth2's trainer.py leaves: its standard output with the lines
    of log_time(), models/opt.json, and the scalars of both of its summary
    writers, exported as one table with a row a step. The user's additions to
    them are the rate, the norm of the gradient and seconds; and validation
    has some batches and not one, behind each epoch."""
    config = run.settings()
    (run.folder / "models").mkdir(exist_ok=True)
    run.write_json("models/opt.json", config)
    names, every = column_names(run), run.interval or 10
    keys = [k for k in ("loss", "grad_norm", "lr", "step_time", "data_time",
                        "val_loss", *MORE) if not left_out(run, k)
            and any(k in row for row in run.history)]
    keys = list(dict.fromkeys(keys))
    tags = [names.get(k, k) for k in keys]
    tags = [t if t.startswith("val/") else f"train/{t}" for t in tags]
    steps, epoch = set(logged(run, every)), run.EPOCH
    lines = [",".join(("step", "wall_time", *tags))]
    for i, row in enumerate(run.history):
        if i in steps or "val_loss" in row:
            shown = [row.get(k, "") if i in steps or k.startswith("val_")
                     else "" for k in keys]
            lines.append(",".join(map(str, (
                row["step"], round(START.timestamp() + row["wall"], 3),
                *shown))))
    run.write_lines("scalars.csv", lines)
    rows = run.batch_size * run.accumulate
    lines = ["Training model named:", f"   {config['model_name']}",
             "Models and tensorboard events files are saved to:",
             f"   {config['log_dir']}", "Training is using:", "   cpu",
             "Using split:", f"   {config['split']}",
             f"There are {rows * epoch} training items and 32 validation "
             "items", ""]
    for i, row in enumerate(run.history):
        lines += [text for _, text in run.notices.get(i, ())]
        if i % epoch == 0:
            lines.append("Training")
        if i % epoch % every == 0 or i in steps:
            left = (run.steps / i - 1.0) * row["wall"] if i else 0
            lines.append(
                "epoch {:>3} | batch {:>6} | examples/s: {:5.1f} | loss: "
                "{:.5f} | time elapsed: {} | time left: {}".format(
                    i // epoch, i % epoch, rows / row["step_time"],
                    row["loss"], hours(row["wall"]), hours(left)))
    run.write_lines("train.log", lines)


def raft(run):
    """What RAFT's train.py leaves: its standard output with the lines of its
    Logger and of validate_chairs(), in front of which the user prints the
    options, and the scalars of the Logger's summary writer, exported as one
    table. The Logger has means since its last line, of the metrics and of
    what the user has pushed besides, the loss and a gradient's norm; the
    first one lacks a step and is divided by as many. Other columns are of
    the step itself, the user's additions as well."""
    config = run.settings()
    run.write_json("args.json", config)
    names, every = column_names(run), run.interval or 10
    pushed = [k for k in ("1px", "3px", "5px", "epe", "grad_norm", "loss")
              if not left_out(run, k)]
    keys = [k for k in ("lr", "step_time", "data_time", "val_loss", *MORE)
            if k not in pushed and not left_out(run, k)
            and any(k in row for row in run.history)]
    tags = [names.get(k, k) for k in dict.fromkeys(keys)]
    table = [",".join(("step", "wall_time", *pushed, *tags))]
    options = ", ".join(f"{k}={v!r}" for k, v in config.items())
    lines, since = [f"Namespace({options})",
                    f"Parameter Count: {run.parameters}"], []
    for i, row in enumerate(run.history):
        lines += [text for _, text in run.notices.get(i, ())]
        since.append(row)
        said, done = {}, i + 1
        if done % every == every - 1 or every == 1:
            said = {k: short(sum(r[k] for r in since) / every)
                    for k in pushed}
            lines.append("[{:6d}, {:10.7f}] ".format(done + 1, row["next_lr"])
                         + "".join(f"{v:10.4f}, " for v in said.values()))
            since = []
        if said or "val_loss" in row:
            shown = [row.get(k, "") if said or k.startswith("val_")
                     else "" for k in dict.fromkeys(keys)]
            table.append(",".join(map(str, (
                done, round(START.timestamp() + row["wall"], 3),
                *(said.get(k, "") for k in pushed), *shown))))
        if "val_loss" in row:
            lines.append(f"Validation Chairs EPE: {row['val_epe']:f}")
    run.write_lines("scalars.csv", table)
    run.write_lines("train.log", lines)


class Console:
    """A rich console's log() into a file, 100 columns wide: the time where it
    is another one, what is said, and the line of code on the right."""

    WIDE, SOURCE = 100, "decorators.py:147"

    def __init__(self):
        self.lines, self.before = [], None
        self.room = self.WIDE - 12 - len(self.SOURCE)

    def log(self, when, parts):
        parts = [part[k:k + self.room] for part in parts
                 for k in range(0, max(1, len(part)), self.room)]
        shown = when if when != self.before else " " * len(when)
        self.before = when
        for k, part in enumerate(parts):
            left = shown if not k else " " * len(when)
            right = self.SOURCE if not k else " " * len(self.SOURCE)
            self.lines.append(f"{left} {part:<{self.room}} {right}")


def tracker_table(title, rows, width):
    """The Tracker's table of (key, value, mean): rich's, box.MINIMAL."""
    wide = [max(map(len, ("key", *(r[0] for r in rows)))) + 2, 12, 12]
    spare, parts = width - sum(wide) - 4, sum(wide)
    for k, size in enumerate(list(wide)):
        more = math.ceil(size * spare / parts)
        wide[k], spare, parts = size + more, spare - more, parts - size

    def line(ends, fill, cells=("", "", "")):
        left, middle, right = ends
        return left + middle.join(f" {c}".ljust(w, fill) if c else fill * w
                                  for c, w in zip(cells, wide)) + right
    return [title.center(width), line(" ╷ ", " "),
            line(" │ ", " ", ("key", "value", "mean")),
            line("╶┼╴", "─"),
            *(line(" │ ", " ", (key, f"{value:10.6f}", f"{mean:10.6f}"))
              for key, value, mean in rows), line(" ╵ ", " ")]


def finite_mean(values):
    """As the Tracker has it: what is not finite does not count."""
    finite = [v for v in values if math.isfinite(v)]
    return sum(finite) / max(1, len(finite))


def dac(run):
    """What descript-audio-codec's train.py leaves: log.txt of audiotools'
    Tracker, with both networks and its tables behind each validation, the
    options as argbind reads them, and the scalars of its summary writer,
    exported as one table. Tags end with "train" and "val"; what a table has
    are the last value and the mean since the last one. A gradient's norm, the
    rate and the batch are the trainer's own; other columns are the user's."""
    run.write_lines("conf.yml", (f"{k}: {json.dumps(v)}"
                                 for k, v in run.settings().items()))
    names, console, steps = column_names(run), Console(), set(logged(run, 10))
    day = "[%H:%M:%S]"
    for part in (run.model, run.model.discriminator):
        console.log(run.at(-2, day), repr(part).splitlines())
    keys = [k for k in ("loss", "grad_norm", "lr", "step_time", "data_time",
                        "val_loss", *MORE) if not left_out(run, k)
            and any(k in row for row in run.history)]
    keys = list(dict.fromkeys(keys))
    own = sorted((names[k].removesuffix("/train"), k) for k in keys
                 if names.get(k, "").endswith("/train") and k != "step_time")
    own.append(("time/train_loop", "step_time"))
    held = [(names[k].removesuffix("/val"), k) for k in keys
            if names.get(k, "").endswith("/val")]
    table = [",".join(("step", "wall_time", *(names.get(k, k)
                                              for k in keys)))]
    since, best = [], math.inf
    for i, row in enumerate(run.history):
        when = run.at(row["wall"], day)
        for _, text in run.notices.get(i, ()):
            console.log(when, [text])
        since.append(row)
        checked = "val_loss" in row
        if i in steps or checked:
            table.append(",".join(map(str, (
                row["step"], round(START.timestamp() + row["wall"], 3),
                *(row.get(k, "") if i in steps or k.startswith("val_")
                  else "" for k in keys)))))
        if not checked:
            continue
        if i == len(run.history) - 1:
            console.log(when, ["Saving audio samples to TensorBoard"])
        console.log(when, ["Saving to /root/descript-audio-codec"])
        if row["val_loss"] <= best:
            best = row["val_loss"]
            console.log(when, ["Best generator so far"])
        wide = console.room
        title = f"Iteration {row['step']}".center(wide - 2)
        parts = [f"┏{'━' * (wide - 2)}┓", f"┃{title}┃",
                 f"┗{'━' * (wide - 2)}┛",
                 *tracker_table("train", [
                     (tag, row[k], finite_mean(r[k] for r in since if k in r))
                     for tag, k in own if k in row], wide),
                 *tracker_table("val", [
                     *((tag, row[k], row[k]) for tag, k in held),
                     ("time/val_loop", 0.061, 0.061)], wide)]
        console.log(when, parts)
        since = []
    run.write_lines("log.txt", console.lines)
    run.write_lines("scalars.csv", table)


class Smoothed:
    """utils.SmoothedValue: the median of the last twenty, and all's mean."""

    def __init__(self):
        self.values = []

    @property
    def mean(self):
        return sum(self.values) / len(self.values)

    def __str__(self):
        last = sorted(self.values[-20:], key=lambda v: (math.isnan(v), v))
        return f"{last[(len(last) - 1) // 2]:.6f} ({self.mean:.6f})"


def openocr(run):
    """What OpenOCR's Trainer leaves: train.log with its configuration and a
    line every so many steps, config.yml, and the scalars of its summary
    writer, exported as one table. TRAIN has medians of the last twenty steps,
    in the log as well; what is of the step itself, the loss as well, and the
    loss of an evaluation are the user's own scalars."""
    config, names = run.settings(), column_names(run)
    every, size, smooth = run.interval or 10, run.EPOCH, run.SMOOTH
    run.write_lines("config.yml", yaml_block(config))
    last = len(run.history)
    keys = [k for k in ("loss", "grad_norm", "lr", "step_time", "data_time",
                        *MORE) if not k.startswith("val_")
            and not left_out(run, k) and any(k in r for r in run.history)]
    keys = list(dict.fromkeys(keys))
    own = [names.get(k, k) for k in keys]
    medians = ("lr", "acc", "norm_edit_dis", "num_samples", "loss")
    held = ("acc", "norm_edit_dis", "num_samples", "fps")
    table = [",".join(("step", "wall_time", *(f"TRAIN/{k}" for k in medians),
                       *own, *(f"EVAL/{k}" for k in held), "EVAL/loss"))]
    rows = run.batch_size * run.accumulate
    epochs = -(-len(run.history) // size)

    def say(seconds, text):
        return (f"[{run.at(seconds, '%Y/%m/%d %H:%M:%S')}] openrec INFO: "
                f"{text}")
    base = config["Global"]["pretrained_model"]
    out = [say(-3.2, text) for text in (
        "----------- Config -----------", *printed(config),
        "---------------------------------------------")]
    counts = {"Total": run.parameters, "Trainable": sum(
        p.numel() for p in run.model.parameters() if p.requires_grad)}
    out += [say(-1.9, text) for text in (
        f"train dataloader has {size} iters", "valid dataloader has 4 iters",
        str(counts), *(
            [f"Loading weights using torch.load: {base}",
             f"finetune from checkpoint {base}"] if base
            else ["train from scratch"]),
        "run with torch 2.13.0 and device cpu",
        "During the training process, after the 1000th epoch, an evaluation "
        "is run every 1 epoch",
        "During the training process, after the 0th iteration, an evaluation "
        f"is run every {run.val_every} iterations")]
    best, reader, taken, samples, spent = {"acc": 0}, 0.0, 0.0, 0, 0.0

    def told(kind, found):
        return f"{kind} metric, " + ", ".join(
            f"{k}: {v}" for k, v in found.items())
    for i, row in enumerate(run.history):
        done, epoch, wall = i + 1, i // size + 1, row["wall"]
        out += [say(wall, text) for _, text in run.notices.get(i, ())]
        window = run.history[max(0, done - smooth):done]
        median = {"lr": [r["next_lr"] for r in window],
                  "num_samples": [rows] * len(window)} | {
            k: [r[k] for r in window]
            for k in ("acc", "norm_edit_dis", "loss")}
        median = {k: round(float(np.median(median[k])), 6) for k in medians}
        reader, taken = reader + row["data_time"], taken + row["step_time"]
        spent, samples = spent + row["step_time"], samples + rows
        if done % every == 0 or done % size == 0 or done == last:
            logs = ", ".join("{}: {:x<6f}".format(k, v)
                             for k, v in median.items())
            left = ((epochs + 1 - epoch) * size - i % size - 1) \
                * spent / done
            out.append(say(wall, (
                f"epoch: [{epoch}/{epochs}], global_step: {done}, {logs}, "
                f"avg_reader_cost: {reader / every:.5f} s, "
                f"avg_batch_cost: {taken / every:.5f} s, "
                f"avg_samples: {samples / every}, "
                f"ips: {samples / taken:.5f} samples/s, "
                f"eta: {clock(left)}")))
            reader, taken, samples = 0.0, 0.0, 0
        found = [""] * (1 + len(held))
        if "val_loss" in row:
            now = run.measured(row)
            found = [*(now[k] for k in held), row["val_loss"]]
            out.append(say(wall, told("cur", now)))
            if now["acc"] >= best["acc"]:
                best = now | {"best_epoch": epoch}
                out.append(say(wall, "save ckpt to "
                               f"{config['Global']['output_dir']}/best.pth"))
            out.append(say(wall, told("best", best)))
        if done % size == 0 or done == last:
            out.append(say(wall, "save ckpt to "
                           f"{config['Global']['output_dir']}/latest.pth"))
        if done % every == 0 or "val_loss" in row:
            table.append(",".join(map(str, (
                done, round(START.timestamp() + wall, 3), *median.values(),
                *(row.get(k, "") for k in keys), *found))))
    out.append(say(run.history[-1]["wall"] + 0.2, told("best", best)))
    run.write_lines("scalars.csv", table)
    run.write_lines("train.log", out)


def medsam(run):
    """What MedSAM's train_one_gpu.py leaves: its standard output, with a bar
    and a line an epoch, whose loss is divided by one step too few, as there;
    and what the user logs to wandb besides `epoch_loss`: the run's history,
    exported as one table, and its config.yaml. Validations are the user's,
    who prints a line of each."""
    config, names = run.settings(), column_names(run)
    run.write_lines("config.yaml", ["wandb_version: 1", *(
        line for key, value in config.items() for line in (
            "", f"{key}:", "  desc: null", f"  value: {json.dumps(value)}"))])
    size, total = run.EPOCH, len(run.history)
    keys = [k for k in dict.fromkeys((
        "loss", "grad_norm", "lr", "step_time", "val_loss", *MORE))
        if not left_out(run, k) and any(k in row for row in run.history)]
    table = [",".join(("_step", "_runtime", "_timestamp", "epoch_loss",
                       *(names.get(k, k) for k in keys)))]
    counts = [sum(p.numel() for p in run.model.parameters()
                  if p.requires_grad or not trained)
              for trained in (False, True, True)]
    images, (high, wide) = run.batch_size * size, (config["image_size"],) * 2
    lines = [f"number of images: {images}",
             f"torch.Size([{run.batch_size}, 3, {high}, {wide}]) "
             f"torch.Size([{run.batch_size}, 1, {high}, {wide}]) "
             f"torch.Size([{run.batch_size}, 4])",
             "wandb: Tracking run with wandb version 0.22.3",
             "wandb: Run data is saved locally in "
             f"wandb/run-{run.at(0, '%Y%m%d_%H%M%S')}-3k7s0v2m",
             *(f"Number of {what} parameters:  {count}" for what, count in zip(
                 ("total", "trainable", "image encoder and mask decoder"),
                 counts)),
             f"number of images: {images}",
             f"Number of training samples:  {images}"]
    steps, pending = set(logged(run, 1)), ""
    for i, row in enumerate(run.history):
        told = [text for _, text in run.notices.get(i, ())]
        if "val_loss" in row:
            told.append(f"Step: {row['step']}, Val Loss: {row['val_loss']}, "
                        f"Val Dice: {row['val_dice']}")
        done = i % size + 1
        if done % 5 == 0 or i == total - 1 or told:
            pending += "\r" + bar(done, size, rate=1 / row["step_time"])
        ends = done == size or i == total - 1
        if told or ends:
            lines.append(pending)
            pending = ""
        lines += told
        loss = run.epoch_loss(i // size) if ends else ""
        if ends:
            lines.append(f"Time: {run.at(row['wall'], '%Y%m%d-%H%M')}, "
                         f"Epoch: {i // size}, Loss: {loss}")
        if i in steps or ends or "val_loss" in row:
            shown = keys if i in steps else [
                k for k in keys if k.startswith("val_")]
            table.append(",".join(map(str, (
                row["step"], row["wall"],
                round(START.timestamp() + row["wall"], 3), loss,
                *(row.get(k, "") if k in shown else "" for k in keys)))))
    run.write_lines("wandb_history.csv", table)
    run.write_lines("train.log", lines)


def yaml_block(value, indent=""):
    """As yaml.dump() writes it, not in flow style, without sorting."""
    def flat(item):
        return "null" if item is None else json.dumps(item).strip('"') \
            if isinstance(item, str) else json.dumps(item)
    for key, item in value.items():
        if isinstance(item, dict):
            yield f"{indent}{key}:"
            yield from yaml_block(item, indent + "  ")
        elif isinstance(item, list) and item:
            yield f"{indent}{key}:"
            yield from yaml_items(item, indent, flat)
        else:
            yield f"{indent}{key}: {flat(item)}"


def yaml_items(items, indent, flat):
    for item in items:
        lines = list(yaml_block(item)) if isinstance(item, dict) else list(
            yaml_items(item, "", flat)) if isinstance(item, list) and item \
            else [flat(item)]
        for k, line in enumerate(lines):
            yield f"{indent}{'  ' if k else '- '}{line}"


def printed(config, deep=0):
    """print_dict() of the trainer."""
    for key, value in sorted(config.items()):
        if isinstance(value, dict):
            yield f"{deep * ' '}{key} : "
            yield from printed(value, deep + 4)
        elif isinstance(value, list) and value \
                and isinstance(value[0], dict):
            yield f"{deep * ' '}{key} : "
            for part in value:
                yield from printed(part, deep + 4)
        else:
            yield f"{deep * ' '}{key} : {value}"


def clock(seconds):
    return str(timedelta(seconds=int(seconds)))


def dino(run):
    """What main_dino.py leaves: its standard output with the lines of
    utils.MetricLogger, to which the user has added a gradient's norm and the
    teacher's entropy, log.txt with a line an epoch, which has a user's
    held-out crops and vote of neighbours as well, and what eval_knn.py prints
    of the epoch's teacher; and iterations.jsonl of a hook, with the steps."""
    size, every = run.EPOCH, run.interval or 10
    names, shown = column_names(run), ("loss", "lr", "wd", "grad_norm",
                                       "entropy")
    shown = [k for k in shown if not left_out(run, k)]
    keys = [k for k in ("step", "loss", "grad_norm", "lr", "step_time", *MORE)
            if not left_out(run, k) and not k.startswith("val_")]
    steps, arguments = set(logged(run, every)), run.settings()
    run.write_lines("iterations.jsonl", (
        json.dumps({names.get(k, k): row[k] for k in keys if k in row})
        for i, row in enumerate(run.history) if i in steps))
    arch = arguments["arch"]
    out = ["| distributed init (rank 0): env://", "git:",
           "  sha: 7c446df5b9f45747937fb0d72314eb9f7b66930a, status: clean, "
           "branch: main", "",
           *(f"{k}: {v}" for k, v in sorted(arguments.items())),
           f"Data loaded: there are {run.images} images.",
           f"Student and Teacher are built: they are both {arch} network.",
           "Loss, optimizer and schedulers ready."]
    out += [text for _, text in run.notices.get(0, ())]
    out.append("Starting DINO training !")
    lines, memory = [], 112 + run.parameters * 16 / 2 ** 20
    for start in range(0, len(run.history), size):
        part = run.history[start:start + size]
        count, epoch = min(size, run.steps - start), start // size
        header = f"Epoch: [{epoch}/{run.epochs}]"
        out += [text for k in range(max(1, start), start + len(part))
                for _, text in run.notices.get(k, ())]
        meters = {names.get(k, k): Smoothed() for k in shown}
        times, waits = Smoothed(), Smoothed()
        for i, row in enumerate(part):
            if not math.isfinite(row["loss"]):
                out.append(f"Loss is {row['loss']}, stopping training")
                break
            for k in shown:
                meters[names.get(k, k)].values.append(row[k])
            times.values.append(row["step_time"])
            waits.values.append(row["data_time"])
            if i % every and i != count - 1:
                continue
            near = slice(-20, None)
            out.append("  ".join((
                header, f"[{i:{len(str(count))}d}/{count}]",
                f"eta: {clock(times.mean * (count - i))}",
                *(f"{k}: {m}" for k, m in meters.items()), *(
                    f"{k}: {sum(m.values[near]) / len(m.values[near]):.6f}"
                    for k, m in (("time", times), ("data", waits))),
                f"max mem: {memory:.0f}")))
        else:
            total = sum(times.values)
            stats = {f"train_{k}": m.mean for k, m in meters.items()}
            out += [f"{header} Total time: {clock(total)} "
                    f"({total / count:.6f} s / it)",
                    "Averaged stats: " + "  ".join(
                        f"{k}: {m}" for k, m in meters.items())]
            last = part[-1]
            if "val_loss" in last:
                top1, top5 = (last[f"val_knn_top{k}"] for k in (1, 5))
                stats |= {"test_loss": last["val_loss"],
                          "test_knn_top1": top1, "test_knn_top5": top5}
                out += ["Features are ready!",
                        "Start the k-NN classification.",
                        f"10-NN classifier result: Top1: {top1}, "
                        f"Top5: {top5}"]
            lines.append(json.dumps(stats | {"epoch": epoch}))
    if len(run.history) == run.steps \
            and math.isfinite(run.history[-1]["loss"]):
        out.append(f"Training time {clock(run.history[-1]['wall'])}")
    run.write_lines("train.log", out)
    run.write_lines("log.txt", lines)
    run.write_json("args.json", arguments)


def dict2str(opt, indent_level=1):
    """utils.options.dict2str()."""
    out = "\n"
    for k, v in opt.items():
        pad = " " * (indent_level * 2) + k
        out += f"{pad}:[{dict2str(v, indent_level + 1)}" \
            + " " * (indent_level * 2) + "]\n" if isinstance(v, dict) \
            else f"{pad}: {v}\n"
    return out


def basicsr(run):
    """What BasicSR leaves of train.py: its log, to which the user has added a
    gradient's norm and the loss of validation, the options' yml, and the
    scalars of its board, with the rate, one row at each print_freq."""
    write_metrics(run, column_names(run) | {"loss": "losses/l_pix"})
    options, every = run.options(), run.interval or 100
    write_yaml(run, "train_EDSR.yml", options)
    lines, name, size = [], options["name"], run.EPOCH

    def say(seconds, text, level="INFO"):
        lines.append(f"{run.at(seconds)} {level}: {text}")

    images = size * run.batch_size * run.accumulate
    say(-3.2, "\nVersion Information: \n\tBasicSR: 1.4.2\n\tPyTorch: 2.13.0"
              "\n\tTorchVision: 0.28.0")
    say(-3.1, dict2str(options))
    say(-2.6, "Dataset [PairedImageDataset] - Textures is built.")
    say(-2.5, "Training statistics:"
              f"\n\tNumber of train images: {images}"
              "\n\tDataset enlarge ratio: 1"
              f"\n\tBatch size per gpu: {run.batch_size}"
              f"\n\tWorld size (gpu number): {options['world_size']}"
              f"\n\tRequire iter number per epoch: {size}"
              f"\n\tTotal epochs: {run.epochs}; iters: {run.steps}.")
    say(-2.4, "Number of val images/folders in Set5: 64")
    say(-1.9, f"Network: EDSR, with parameters: {run.parameters:,d}")
    say(-1.8, "Network [EDSR] is created.")
    for n, p in run.model.named_parameters():
        if not p.requires_grad:
            say(-1.5, f"Params {n} will not be optimized.", "WARNING")
    say(-1.4, "Model [SRModel] is created.")
    say(0, "Start training from epoch: 0, iter: 0")
    best, better = {}, {"psnr": max, "ssim": max, "l_pix": min}
    values = {"psnr": "val_psnr", "ssim": "val_ssim", "l_pix": "val_loss"}

    def validated(row, done):
        text = "Validation Set5\n"
        for metric, column in values.items():
            now = row[column]
            if metric not in best or better[metric](
                    now, best[metric][0]) == now:
                best[metric] = now, done
            text += (f"\t # {metric}: {now:.4f}\tBest: "
                     f"{best[metric][0]:.4f} @ {best[metric][1]} iter\n")
        say(row["wall"], text)

    for i, row in enumerate(run.history):
        for level, text in run.notices.get(i, ()):
            say(row["wall"] - row["step_time"], text, level)
        done = i + 1
        if done % every == 0:
            left = row["wall"] / (done + 1) * (run.steps - done - 1)
            eta = timedelta(seconds=int(left))
            text = (f"[{name[:5]}..][epoch:{i // size:3d}, iter:{done:8,d}, "
                    f"lr:({row['lr']:.3e},)] [eta: {eta}, time (data): "
                    f"{row['step_time']:.3f} ({row['data_time']:.3f})] "
                    f"l_pix: {row['loss']:.4e} ")
            if not left_out(run, "grad_norm"):
                text += f"grad_norm: {row['grad_norm']:.4e} "
            say(row["wall"], text)
        if done % run.SAVES == 0:
            say(row["wall"], "Saving models and training states.")
        if "val_loss" in row:
            validated(row, done)
    last = run.history[-1]
    say(last["wall"], "End of training. Time consumed: "
                      f"{timedelta(seconds=int(last['wall']))}")
    say(last["wall"], "Save the latest model.")
    validated(last, len(run.history))
    run.write_lines("train.log", lines)


def cleanrl(run):
    """What CleanRL's ppo.py leaves: its standard output, the summaries of an
    iteration, exported as one table, and the text with its arguments, which
    the user has as args.json as well. The user's additions are an evaluation
    at the benchmark's steps, a norm of the gradient, and metrics.jsonl of a
    hook in the loop of minibatches, with a row every so many updates."""
    size, every, end = run.EPOCH, run.interval or 1, run.lasts
    rows, arguments = run.history[:end + 1], run.settings()
    names = column_names(run) | {"loss": "losses/loss", "lr":
                                 "charts/learning_rate"}
    run.write_json("args.json", arguments)
    run.write_lines("hyperparameters.md", ["|param|value|", "|-|-|", *(
        f"|{k}|{v}|" for k, v in arguments.items())])
    keys = [k for k in ("step", "loss", "grad_norm", "lr", "step_time", *MORE)
            if not k.startswith("val_") and not left_out(run, k)]
    run.write_lines("metrics.jsonl", (
        json.dumps({names.get(k, k): rows[i][k] for k in keys
                    if k in rows[i]}) for i in logged(run, every)
        if i <= end))
    tags = ("lr", "value_loss", "policy_loss", "entropy", "old_approx_kl",
            "approx_kl", "clipfrac", "explained_variance", "episodic_return",
            "episodic_length", "loss", "grad_norm")
    tags = [k for k in tags if not left_out(run, k)]
    held = [k for k in ("val_loss", "val_return") if k in names]
    table = [",".join(("step", "wall_time", *(names.get(k, k) for k in tags),
                       "charts/SPS", *(names[k] for k in held)))]
    out, told, done = [], list(run.told), 0
    for start in range(0, len(rows), size):
        part = rows[start:start + size]
        for i in range(start, start + len(part)):
            out += [text for _, text in run.notices.get(i, ())]
        shown = set()       # the first that ends at a step is printed
        while told and told[0][0] < start + size:
            _, at, total, _ = told.pop(0)
            if at not in shown:
                out.append(f"global_step={at}, episodic_return="
                           f"[{total:.7g}]")
            shown.add(at)
        if len(part) < size and start + len(part) < run.steps:
            break
        last = part[-1]
        done, wall = last["global_step"], last["wall"]
        speed = int(done / wall)
        clipped = [r["clipfrac"] for r in part]
        shares = last | {"clipfrac": short(sum(clipped) / len(clipped))}
        values = [r[k] for k in held for r in part if k in r]
        table.append(",".join(map(str, (
            done, round(START.timestamp() + wall, 3),
            *(shares[k] for k in tags), speed,
            *(values or [""] * len(held))))))
        out.append(f"SPS: {speed}")
        if values:
            out.append(f"eval: regret={values[0]}, episodic_return="
                       f"{values[1]}")
    if end < len(run.history) - 1:
        out += ["Traceback (most recent call last):",
                '  File "ppo.py", line 263, in <module>',
                "    _, newlogprob, entropy, newvalue = "
                "agent.get_action_and_value(b_obs[mb_inds], "
                "b_actions.long()[mb_inds])",
                "ValueError: Expected parameter logits (Tensor of shape "
                f"({run.batch_size}, 5)) of distribution Categorical(logits: "
                f"torch.Size([{run.batch_size}, 5])) to satisfy the "
                "constraint IndependentConstraint(Real(), 1), but found "
                "invalid values:"]
    else:
        out.append(f"model saved to runs/{run.run_name}/ppo.cleanrl_model")
    run.write_lines("scalars.csv", table)
    run.write_lines("train.log", out)


def flow(run):
    """What flow_matching's examples/image/train.py leaves: its standard
    output, args.json and log.txt with a line an epoch, to which the user has
    added a held-out loss; and iterations.jsonl of a hook, with the steps."""
    size, every = run.EPOCH, run.interval or 50
    names, arguments = column_names(run), run.settings()
    keys = [k for k in ("step", "loss", "grad_norm", "lr", "step_time", *MORE)
            if not left_out(run, k) and not k.startswith("val_")]
    steps = set(logged(run, every))
    run.write_lines("iterations.jsonl", (
        json.dumps({names.get(k, k): row[k] for k in keys if k in row})
        for i, row in enumerate(run.history) if i in steps))
    form, parts = "%Y-%m-%d %H:%M:%S", run.accumulate
    args = ", ".join(f"{k}={v!r}" for k, v in arguments.items())
    path = "/workspace/flow_matching/examples/image"
    kind = "LinearLR" if arguments["decay_lr"] else "ConstantLR" \
        if run.schedule == "constant" else "LambdaLR"
    lines, stats = [], []

    def say(seconds, text, level="INFO"):
        first, *rest = text.split("\n")
        lines.extend((f"{run.at(seconds, form)} {level:<8} {first}", *rest))

    model = str(run.model).replace("\n", "\n  ")
    say(-3.1, f"job dir: {path}")
    say(-3.1, f"Namespace({args})".replace(", ", ",\n"))
    say(-3.1, "Saving args to output_dir/args.json")
    say(-3.0, "Initializing Dataset: patterns")
    say(-2.9, "Dataset ImageFolder\n"
              f"    Number of datapoints: {run.images}\n"
              f"    Root location: {arguments['data_path']}")
    say(-2.9, "Intializing DataLoader")
    say(-2.8, "Initializing Model")
    say(-2.2, f"EMA(\n  (model): {model}\n  (shadow_params): ParameterList("
              f"{sum(1 for _ in run.model.parameters())})\n)")
    say(-2.2, f"Learning rate: {run.lr:.2e}")
    say(-2.2, f"Accumulate grad iterations: {parts}")
    say(-2.2, "Effective batch size: "
              f"{run.batch_size * parts * arguments['world_size']}")
    say(-2.1, f"Optimizer: {run.said_of_optimizer}")
    say(-2.1, f"Learning-Rate Schedule: <torch.optim.lr_scheduler.{kind} "
              "object at 0x7f2a4c1d9f60>")
    for _, text in run.notices.get(0, ()):
        lines.append(text)
    say(-2.0, f"Start from 0 to {run.epochs} epochs")
    for start in range(0, len(run.history), size):
        part = run.history[start:start + size]
        count, epoch = min(size, run.steps - start), start // size
        if start and "val_loss" in run.history[start - 1]:
            say(part[0]["wall"], "EMA: Switching from eval to train, "
                                 "restoring saved parameters")
        for k, row in enumerate(part):
            if start + k:
                lines += [text for _, text in
                          run.notices.get(start + k, ())]
            if not math.isfinite(row["loss"]):
                lines += ["Traceback (most recent call last):",
                          f'  File "{path}/train.py", line 224, in <module>',
                          "    main(args)",
                          f'  File "{path}/train.py", line 153, in main',
                          "    train_stats = train_one_epoch(",
                          f'  File "{path}/training/train_loop.py", line 108, '
                          "in train_one_epoch",
                          '    raise ValueError(f"Loss is {loss_value}, '
                          'stopping training")',
                          f"ValueError: Loss is {row['loss']}, stopping "
                          "training"]
                break
            if k % every == 0:
                say(row["wall"], f"Epoch {epoch} [{k * parts}/"
                    f"{count * parts}]: loss = {row['loss']}, "
                    f"lr = {row['lr']}")
        else:
            last = part[-1]
            found = {"train_loss": short(sum(r["loss"] for r in part)
                                         / len(part)), "epoch": epoch}
            if "val_loss" in last:
                near, many = last["wall"], arguments["fid_samples"]
                say(near, "EMA: Switching from train to eval, backing up "
                          "parameters and copying EMA params")
                say(near, f"{many} samples generated in "
                          f"{2 * run.EVALUATIONS} evaluations.")
                say(near, f"Evaluating [0/{count}] samples generated [{many}/"
                          f"{many}] running fid {last['val_fid']}")
                found |= {"eval_fid": last["val_fid"],
                          "eval_loss": last["val_loss"]}
            stats.append(json.dumps(found))
    if len(run.history) == run.steps \
            and math.isfinite(run.history[-1]["loss"]):
        say(run.history[-1]["wall"], "Training time "
            + clock(run.history[-1]["wall"]))
    run.write_lines("train.log", lines)
    run.write_lines("log.txt", stats)
    run.write_json("args.json", arguments)


def corl(run):
    """What CORL's iql.py leaves in its checkpoints_path: config.yaml as
    pyrallis dumps it, what it prints, with wandb's own lines, and the history
    that wandb has, exported as one table. The script logs the three losses and
    the score; the rate, the sum, a norm of the gradient and held-out losses are
    the user's. wandb counts as total_it does."""
    config, names, size = run.settings(), column_names(run), run.EPOCH
    run.write_lines("config.yaml", (f"{k}: {json.dumps(v)}"
                                    for k, v in config.items()))
    end, steps = run.lasts, set(logged(run, 10))
    rows = run.history[:end + 1]
    if end < len(run.history) - 1:  # wandb has the last step of what failed
        steps.add(end)
    keys = [k for k in dict.fromkeys(("value_loss", "q_loss", "actor_loss",
                                      "lr", "loss", "grad_norm", "step_time",
                                      *MORE))
            if not left_out(run, k) and any(k in row for row in rows)]
    keys += ["val_loss"] if any("val_loss" in row for row in rows) else []
    table = [",".join(("Step", "_runtime", "_timestamp",
                       *(names.get(k, k) for k in keys)))]
    rule, ident = "-" * 39, run.run_name[-8:]
    out = [f"Dataset size: {run.size}",
           f"Checkpoints path: {config['checkpoints_path']}",
           rule, f"Training IQL, Env: {config['env']}, Seed: {run.seed}", rule,
           "wandb: Tracking run with wandb version 0.12.21",
           "wandb: W&B syncing is set to `offline` in this directory.  ",
           "wandb: Run `wandb online` or set WANDB_MODE=online to enable "
           "cloud syncing."]
    for i, row in enumerate(rows):
        out += [text for _, text in run.notices.get(i, ())]
        checked = "val_loss" in row
        if i in steps or checked:
            table.append(",".join(map(str, (
                row["step"], round(3.2 + row["wall"], 3),
                round(START.timestamp() + row["wall"], 3),
                *(row.get(k, "") if i in steps or k.startswith("val_")
                  else "" for k in keys)))))
        if checked and (i + 1) % size == 0:
            out += [f"Time steps: {i + 1}", rule,
                    f"Evaluation over {config['n_episodes']} episodes: "
                    f"{row['val_return']:.3f} , D4RL score: "
                    f"{row['val_score']:.3f}", rule]
    if end < len(run.history) - 1:
        out += ["Traceback (most recent call last):",
                '  File "algorithms/offline/iql.py", line 660, in <module>',
                "    train()",
                '  File "algorithms/offline/iql.py", line 621, in train',
                "    log_dict = trainer.train(batch)",
                '  File "algorithms/offline/iql.py", line 346, in forward',
                "    return Normal(mean, std)",
                "ValueError: Expected parameter loc (Tensor of shape "
                f"({run.batch_size}, 2)) of distribution Normal(loc: "
                f"torch.Size([{run.batch_size}, 2]), scale: torch.Size([2])) "
                "to satisfy the constraint Real(), but found invalid values:"]
    last = {k: v for row in rows for k, v in row.items()}
    out += ["wandb: Waiting for W&B process to finish... "
            + ("(success)." if end == len(run.history) - 1
               else "(failed 1). Press Control-C to abort syncing."),
            "wandb: Run summary:", *(
                f"wandb: {names.get(k, k):>21} {last[k]}"
                for k in sorted(keys, key=lambda k: names.get(k, k))
                if k in last),
            "wandb: You can sync this run to the cloud by running:",
            f"wandb: wandb sync wandb/offline-run-{run.at(0, '%Y%m%d_%H%M%S')}"
            f"-{ident}"]
    run.write_lines("train.log", out)
    run.write_lines("wandb_history.csv", table)


def protonet(run):
    """What orobix' train.py leaves in experiment_root: its standard output
    with tqdm's bars, and train_loss.txt, train_acc.txt, val_loss.txt and
    val_acc.txt, a line an episode. It saves neither its options nor a rate:
    options.json and log.csv, which has rows of iterations and of validations,
    are the user's."""
    config, names, size = run.settings(), column_names(run), run.EPOCH
    run.write_json("options.json", config)
    rows, steps = run.history, set(logged(run, 10))
    keys = [k for k in dict.fromkeys(("loss", "accuracy", "lr", "grad_norm",
                                      "step_time", *MORE, "val_loss",
                                      "val_accuracy"))
            if not left_out(run, k) and any(k in row for row in rows)]
    keys.sort(key=lambda k: k.startswith("val_"))
    table = [",".join(("epoch", "iteration", *(names.get(k, k)
                                               for k in keys)))]
    out, seen, best = [], 0, 0.0
    for i, row in enumerate(rows):
        epoch, inner = divmod(i, size)
        out += [text for _, text in run.notices.get(i, ())]
        if inner == 0:
            out.append(f"=== Epoch: {epoch} ===")
            first = row["wall"] - row["step_time"]
        checked = "val_loss" in row
        if i in steps or checked:
            table.append(",".join(map(str, (epoch, row["step"], *(
                row.get(k, "") if i in steps or k.startswith("val_") else ""
                for k in keys)))))
        if inner == size - 1 or i == len(rows) - 1:
            part = rows[i - inner:i + 1]
            took = max(0.1, row["wall"] - first)
            out += ["\r" + "\r".join(
                        f"{100 * k // size:3d}%|{'█' * (k * 10 // size):<10}| "
                        f"{k}/{size} [00:{took * k / size:02.0f}<"
                        f"00:{took * (1 - k / size):02.0f}, "
                        f"{size / took:5.2f}it/s]"
                        for k in range(0, len(part) + 1, 5)),
                    "Avg Train Loss: {}, Avg Train Acc: {}".format(*(
                        sum(r[k] for r in part) / len(part)
                        for k in ("loss", "accuracy")))]
        if checked:
            score, seen = row["val_accuracy"], seen + 1
            tail = " (Best)" if score >= best else f" (Best: {best})"
            best = max(best, score)
            out.append(f"Avg Val Loss: {row['val_loss']}, Avg Val Acc: "
                       f"{score}{tail}")
    run.write_lines("train.log", out)
    run.write_lines("log.csv", table)
    of_val = run.per_episode[:seen]
    for name, values in (
            ("train_loss", [r["loss"] for r in rows]),
            ("train_acc", [r["accuracy"] for r in rows]),
            ("val_loss", [x for part in of_val for x in part[0]]),
            ("val_acc", [x for part in of_val for x in part[1]])):
        run.write_lines(f"{name}.txt", map(str, values))


def diffusion_policy(run):
    """What train.py of diffusion_policy leaves in its output directory:
    logs.json.txt of its JsonLogger, a line a step, whose last one of an epoch
    has the epoch's mean as train_loss, and validation and roll-outs;
    .hydra/config.yaml; and what it prints, with tqdm's bars. The rate is the
    one that comes next, as there. What else a step has is the user's, and is
    there at the interval."""
    size, names = run.EPOCH, column_names(run)
    steps, rows = set(logged(run, 1)), run.history
    keys = [k for k in dict.fromkeys(("grad_norm", "step_time", *MORE))
            if not left_out(run, k) and not k.startswith("val_")]
    held = [k for k in ("val_score", "val_loss", *run.validated)]
    lines, out = [], []

    def say(seconds, module, text):
        out.append(f"[{run.at(seconds)}][{module}][INFO] - {text}")

    say(-2.6, "diffusion_policy.model.diffusion.conditional_unet1d",
        f"number of parameters: {run.parameters:e}")
    out += ["Diffusion params: "
            f"{run.parameters:e}",
            "wandb: Tracking run with wandb version 0.13.3",
            "wandb: W&B syncing is set to `offline` in this directory.  "]
    losses = []
    for i, row in enumerate(rows):
        out += [text for _, text in run.notices.get(i, ())]
        losses.append(row["loss"])
        epoch, inner = divmod(i, size)
        line = {"train_loss": row["loss"], "global_step": row["step"],
                "epoch": epoch, "lr": row["next_lr"]}
        ends = inner == size - 1 or i == len(rows) - 1
        if i in steps:
            line |= {names.get(k, k): row[k] for k in keys if k in row}
        if inner % 5 == 4 or ends:
            part = (f"\rTraining epoch {epoch}: "
                    + bar(inner + 1, size, tail=f", loss={row['loss']:.3g}"))
            out[-1:] = [out[-1] + part] if inner > 4 else [out[-1], part]
        if ends:
            line["train_loss"] = sum(losses) / len(losses)
            losses = []
            line |= {names.get(k, k): row[k] for k in held if k in row}
            out += ["\rEval DiskLowdimRunner 1/1: "
                    + bar(run.TEST_STEPS, run.TEST_STEPS),
                    f"\rValidation epoch {epoch}: " + bar(4, 4)]
        lines.append(json.dumps(line))
    say(rows[-1]["wall"] + 0.2, "wandb",
        "Waiting for W&B process to finish... (success).")
    run.write_lines("logs.json.txt", lines)
    run.write_lines("train.log", out)
    (run.folder / ".hydra").mkdir()
    write_yaml(run, ".hydra/config.yaml", run.settings())


WRITERS = {w.__name__: w for w in
           (plain, nanogpt, hf_trainer, lightning, megatron, torchtune, keras,
            lerobot, pytorch_tabular,
            mmengine,
            nnunet,
            neuralforecast,
            nequip,
            lightning_csv,
            dreamer,
            nerfstudio,
            fourcastnet,
            ultralytics,
            timm,
            compressai,
           monodepth2,
            raft,
            dac,
            openocr,
            medsam,
            dino,
            basicsr,
            cleanrl,
            corl,
            protonet,
            flow,
            loftr,
            pyskl,
            panns,
            anomalib,
            diffusion_policy,
            dlrm,
            stylegan2,
            megatron_lm,
            hifigan)}
