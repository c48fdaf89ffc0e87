"""Sound events told from a clip, as PANNs are trained; to be written."""

from .family import Family


class PannsRun(Family):
    """Not written yet."""

    family = "panns"
