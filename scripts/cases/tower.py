"""A recommender with two towers; to be written."""

from .family import Family


class TowerRun(Family):
    """Not written yet."""

    family = "tower"
