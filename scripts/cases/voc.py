"""A GAN vocoder; to be written."""

from .family import Family


class VocRun(Family):
    """Not written yet."""

    family = "voc"
