"""A GPT as Megatron-LM pretrains it; to be written."""

from .family import Family


class MegatronRun(Family):
    """Not written yet."""

    family = "megatron"
