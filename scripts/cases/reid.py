"""The same person in another camera, as fast-reid trains its baseline; to be written."""

from .family import Family


class ReidRun(Family):
    """Not written yet."""

    family = "reid"
