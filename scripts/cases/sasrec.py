"""A recommender of what comes next, as RecBole trains SASRec; to be written."""

from .family import Family


class SasrecRun(Family):
    """Not written yet."""

    family = "sasrec"
