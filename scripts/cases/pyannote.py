"""Who speaks when, as pyannote.audio trains its segmentation; to be written."""

from .family import Family


class PyannoteRun(Family):
    """Not written yet."""

    family = "pyannote"
