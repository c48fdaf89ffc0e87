"""Checkpoints as Lightning's ModelCheckpoint keeps them: weights, optimizer,
schedulers and the loops' counts in one file."""

import copy

import torch


def keep(run, i, model, schedule, epoch_steps, name="kwargs"):
    """Behind step i, in the middle, at the end and where the run is resumed
    from; schedule(done) is what the scheduler has then, name what the module
    calls its settings."""
    done = i + 1
    if done not in {run.steps // 2, run.steps, *run.notices}:
        return
    epoch, behind = divmod(i, epoch_steps)
    run.checkpoints[done] = copy.deepcopy({
        "epoch": epoch, "global_step": done,
        "pytorch-lightning_version": "2.5.5",
        "state_dict": model.state_dict(),
        "loops": {"fit_loop": {"epoch_loop.batch_progress": {
            "total": {"ready": done, "completed": done},
            "current": {"ready": behind + 1, "completed": behind + 1}}}},
        "callbacks": {}, "optimizer_states": [run.optimizer.state_dict()],
        "lr_schedulers": [schedule(done)], "hparams_name": name})


def write(run):
    """The files, at run.checkpoint_path(step) of the run's folder."""
    for step, state in run.checkpoints.items():
        path = run.folder / run.checkpoint_path(step)
        path.parent.mkdir(exist_ok=True)
        torch.save(state | {"hyper_parameters": run.settings()}, path)
