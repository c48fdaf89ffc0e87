"""Lines of text that are read from pictures, as PaddleOCR trains its recogniser; to be written."""

from .family import Family


class OcrRun(Family):
    """Not written yet."""

    family = "ocr"
