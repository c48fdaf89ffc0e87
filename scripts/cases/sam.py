"""Masks from prompts, as segment-anything is fine-tuned for medical pictures; to be written."""

from .family import Family


class SamRun(Family):
    """Not written yet."""

    family = "sam"
