"""Heatmaps of keypoints; to be written."""

from .family import Family


class KptRun(Family):
    """Not written yet."""

    family = "kpt"
