"""The same point in two pictures, as LoFTR learns to match; to be written."""

from .family import Family


class LoftrRun(Family):
    """Not written yet."""

    family = "loftr"
