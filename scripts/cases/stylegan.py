"""A generative adversarial network, as StyleGAN2 is trained; to be written."""

from .family import Family


class StyleganRun(Family):
    """Not written yet."""

    family = "stylegan"
