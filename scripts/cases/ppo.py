"""A policy that is improved in small steps, as CleanRL's PPO trains it; to be written."""

from .family import Family


class PpoRun(Family):
    """Not written yet."""

    family = "ppo"
