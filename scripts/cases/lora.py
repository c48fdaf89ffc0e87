"""A classifier of texts that is fine-tuned with LoRA; to be written."""

from .family import Family


class LoraRun(Family):
    """Not written yet."""

    family = "lora"
