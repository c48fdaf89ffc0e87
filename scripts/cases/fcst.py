"""A forecaster of time series; to be written."""

from .family import Family


class FcstRun(Family):
    """Not written yet."""

    family = "fcst"
