"""Sound in few bits, as the neural audio codecs are trained; to be written."""

from .family import Family


class CodecRun(Family):
    """Not written yet."""

    family = "codec"
