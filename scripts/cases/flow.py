"""Flow matching, as facebookresearch/flow_matching trains its pictures; to be written."""

from .family import Family


class FlowRun(Family):
    """Not written yet."""

    family = "flow"
