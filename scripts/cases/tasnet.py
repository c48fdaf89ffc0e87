"""A network that parts voices, as Asteroid trains Conv-TasNet: unwritten."""

from .family import Family


class TasnetRun(Family):
    """Not written yet."""

    family = "tasnet"
