"""A chat model that is fine-tuned; to be written."""

from .family import Family


class SftRun(Family):
    """Not written yet."""

    family = "sft"
