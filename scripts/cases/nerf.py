"""A radiance field; to be written."""

from .family import Family


class NerfRun(Family):
    """Not written yet."""

    family = "nerf"
