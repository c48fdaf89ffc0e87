"""A network that enlarges pictures, as BasicSR trains EDSR; to be written."""

from .family import Family


class EdsrRun(Family):
    """Not written yet."""

    family = "edsr"
