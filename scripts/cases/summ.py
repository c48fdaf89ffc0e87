"""A summariser; to be written."""

from .family import Family


class SummRun(Family):
    """Not written yet."""

    family = "summ"
