"""Rotations of points and frames."""

import torch
from torch.nn import functional as F


def turned(q):
    """Rotations of quaternions."""
    w, x, y, z = F.normalize(q, dim=1).unbind(1)
    return torch.stack([
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ], 1).view(-1, 3, 3)
