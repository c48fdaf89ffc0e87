"""A click model as DLRM's script trains it; to be written."""

from .family import Family


class DlrmRun(Family):
    """Not written yet."""

    family = "dlrm"
