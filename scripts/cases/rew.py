"""A reward model as TRL trains it; to be written."""

from .family import Family


class RewRun(Family):
    """Not written yet."""

    family = "rew"
