"""What no part should look like, as anomalib trains it; to be written."""

from .family import Family


class AnomalibRun(Family):
    """Not written yet."""

    family = "anomalib"
