"""A learned image codec, as CompressAI's example trains it; to be written."""

from .family import Family


class CompressRun(Family):
    """Not written yet."""

    family = "compress"
