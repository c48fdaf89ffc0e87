"""A reader that finds the span of an answer; to be written."""

from .family import Family


class QaRun(Family):
    """Not written yet."""

    family = "qa"
