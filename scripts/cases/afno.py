"""A weather model of Fourier operators, as FourCastNet trains it; to be written."""

from .family import Family


class AfnoRun(Family):
    """Not written yet."""

    family = "afno"
