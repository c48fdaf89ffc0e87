"""A segmentation of volumes as nnU-Net trains it; to be written."""

from .family import Family


class NnuRun(Family):
    """Not written yet."""

    family = "nnu"
