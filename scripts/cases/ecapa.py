"""A network of speakers' voices, as SpeechBrain trains ECAPA-TDNN; to be written."""

from .family import Family


class EcapaRun(Family):
    """Not written yet."""

    family = "ecapa"
