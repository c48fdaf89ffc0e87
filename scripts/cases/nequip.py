"""A potential of atoms, as NequIP trains it; to be written."""

from .family import Family


class NequipRun(Family):
    """Not written yet."""

    family = "nequip"
