"""New kinds from a few examples, as prototypical networks learn to tell them; to be written."""

from .family import Family


class ProtoRun(Family):
    """Not written yet."""

    family = "proto"
