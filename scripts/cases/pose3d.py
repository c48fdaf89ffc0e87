"""Poses of three dimensions from two, as VideoPose3D trains them; to be written."""

from .family import Family


class Pose3dRun(Family):
    """Not written yet."""

    family = "pose3d"
