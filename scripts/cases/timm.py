"""A picture classifier, as timm's train.py trains it; to be written."""

from .family import Family


class TimmRun(Family):
    """Not written yet."""

    family = "timm"
