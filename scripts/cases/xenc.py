"""A cross-encoder that ranks passages; to be written."""

from .family import Family


class XencRun(Family):
    """Not written yet."""

    family = "xenc"
