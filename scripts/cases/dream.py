"""A world model with actor and critic, as Dreamer trains them; to be written."""

from .family import Family


class DreamRun(Family):
    """Not written yet."""

    family = "dream"
