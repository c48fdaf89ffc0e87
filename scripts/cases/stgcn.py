"""People told apart by what they do, from skeletons in graphs; to be written."""

from .family import Family


class StgcnRun(Family):
    """Not written yet."""

    family = "stgcn"
