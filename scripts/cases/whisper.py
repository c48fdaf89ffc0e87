"""Speech to text, as Whisper is fine-tuned; to be written."""

from .family import Family


class WhisperRun(Family):
    """Not written yet."""

    family = "whisper"
