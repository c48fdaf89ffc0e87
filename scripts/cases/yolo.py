"""A one-stage detector without anchors, as Ultralytics trains it; to be written."""

from .family import Family


class YoloRun(Family):
    """Not written yet."""

    family = "yolo"
