"""A captioner of images as LAVIS trains BLIP; to be written."""

from .family import Family


class CapRun(Family):
    """Not written yet."""

    family = "cap"
