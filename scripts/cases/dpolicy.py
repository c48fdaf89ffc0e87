"""Actions by denoising, as diffusion policies are trained; to be written."""

from .family import Family


class DpolicyRun(Family):
    """Not written yet."""

    family = "dpolicy"
