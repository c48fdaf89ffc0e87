"""A student that follows its own average, as DINO trains it; to be written."""

from .family import Family


class DinoRun(Family):
    """Not written yet."""

    family = "dino"
