"""Optical flow by iterations, as RAFT is trained; to be written."""

from .family import Family


class RaftRun(Family):
    """Not written yet."""

    family = "raft"
