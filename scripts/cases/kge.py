"""Embeddings of a knowledge graph, as PyKEEN trains them; to be written."""

from .family import Family


class KgeRun(Family):
    """Not written yet."""

    family = "kge"
