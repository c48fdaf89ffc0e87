"""A policy from what others did, as implicit Q-learning learns it; to be written."""

from .family import Family


class IqlRun(Family):
    """Not written yet."""

    family = "iql"
