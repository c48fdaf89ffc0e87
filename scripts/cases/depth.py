"""Depth from one camera, as Monodepth2 trains it; to be written."""

from .family import Family


class DepthRun(Family):
    """Not written yet."""

    family = "depth"
