"""Checkpoints as the Hugging Face Trainer keeps them: a folder with weights, optimizer, scheduler and its state."""

import copy
import json

import torch
from safetensors.torch import save_file

from . import logs
from .recorder import sort_metadata


def keep(run, i, weights):
    """Behind step i, in the middle, at the end and where the run is resumed
    from; weights() are what the file holds."""
    done = i + 1
    if done not in {run.steps // 2, run.steps, *run.notices}:
        return
    # A scheduler that was made anew goes on where the old one was.
    schedule = run.scheduler.state_dict() | {
        "last_epoch": done, "_step_count": done + 1,
        "lr_lambdas": [{} for _ in run.optimizer.param_groups]}
    run.checkpoints[done] = copy.deepcopy(
        (weights(), run.optimizer.state_dict(), schedule))


def write(run, name, more):
    """The folders; name is that of the weights' file, more() are the JSON
    documents beside the trainer's own."""
    for done, (weights, optimizer, schedule) in run.checkpoints.items():
        folder = run.folder / f"checkpoint-{done}"
        folder.mkdir()
        path = folder / name
        save_file(dict(weights), path, {"format": "pt"})
        sort_metadata(path)
        torch.save(optimizer, folder / "optimizer.pt")
        torch.save(schedule, folder / "scheduler.pt")
        documents = {"trainer_state": logs.trainer_state(run, done), **more()}
        for title, value in documents.items():
            (folder / f"{title}.json").write_text(
                json.dumps(value, indent=2) + "\n")
