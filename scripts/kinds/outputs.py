"""What stands beside a trainer's loop: its folders and checkpoints, the recorder."""

import torch

import culprit_recorder


def keep(run, name, value):
    """A file of torch.save."""
    path = run.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)


def place(run, *folders):
    for folder in folders:
        (run.folder / folder).mkdir(parents=True, exist_ok=True)


def watch(run, model, optimizer, **config):
    """The recorder as a user puts it into the loop."""
    return culprit_recorder.watch(
        model, optimizer, dir=str(run.folder), every=25, free_seconds=60.0,
        config=config, max_dump_bytes=2 << 20)


def watched(run, model, optimizer, **options):
    """What a user puts beside the loop; short runs are sampled in full."""
    return culprit_recorder.watch(model, optimizer, dir=str(run.folder),
                                  free_seconds=60.0, **options)
