"""A sampler of 8x8 pictures: a denoiser that was trained for a moment, its
noise levels and a multi-step method of order 1 or 2 (DPM-Solver++ 2M, as its
paper has it), every step dumped."""

import functools
import math

import torch
from torch.nn import functional as F

SIDE = 8
#: channels, batch, steps
SIZES = {"small": (8, 2, 10), "large": (24, 8, 16)}
LOWEST, HIGHEST = 0.05, 10.0


def pictures(generator, count):
    """Soft discs of unit variance or so."""
    centre = 1.5 + 4 * torch.rand(count, 2, generator=generator)
    axis = torch.arange(float(SIDE))
    y = (axis[None, :, None] - centre[:, :1, None]).square()
    x = (axis[None, None, :] - centre[:, 1:, None]).square()
    return (3 * torch.exp(-(x + y) / 4) - 0.5)[:, None]


def noise_levels(steps):
    """Evenly spaced logarithms, the last step goes to 0.05."""
    return [math.exp(v) for v in torch.linspace(
        math.log(HIGHEST), math.log(LOWEST), steps + 1).tolist()]


def network(cast, ops, x, sigma, tap):
    """What the denoiser predicts from its scaled input."""
    tap("denoiser.input", x)
    batch = x.shape[0]
    for i in (1, 2, 3):
        if i == 2:
            x = x + ops.cast(torch.tensor(math.log(sigma) / 4)) \
                * cast["denoiser.level.weight"][:, None, None]
        patches = F.unfold(x, 3, padding=1).transpose(1, 2)
        y = ops.linear(patches, cast[f"denoiser.conv{i}.weight"].flatten(1),
                       cast[f"denoiser.conv{i}.bias"])
        y = y.transpose(1, 2).reshape(batch, -1, SIDE, SIDE)
        tap(f"denoiser.conv{i}.output", y)
        x = F.silu(y) if i < 3 else y
    return x


def denoise(cast, ops, x, sigma, tap, faults):
    """x without its noise; scaled in and out as EDM does for unit data."""
    scale = 1 / math.sqrt(1 + sigma ** 2)
    y = x if faults.get("scaling") else x * scale
    y = network(cast, ops, y, sigma, tap)
    out = x * scale ** 2 + y * (sigma * scale)
    tap("denoised.output", out)
    return out


@functools.lru_cache(maxsize=None)
@torch.enable_grad()
def trained(size, seed):
    """(weights, noise to start from)."""
    from .arithmetic import Arithmetic
    channels, batch, _ = SIZES[size]
    generator = torch.Generator().manual_seed(seed + 9)

    def draw(*shape):
        fan = torch.Size(shape[1:]).numel()
        return torch.randn(*shape, generator=generator) / fan ** 0.5

    weights = {"denoiser.conv1.weight": draw(channels, 1, 3, 3),
               "denoiser.conv1.bias": torch.zeros(channels),
               "denoiser.level.weight": torch.randn(channels, generator=generator),
               "denoiser.conv2.weight": draw(channels, channels, 3, 3),
               "denoiser.conv2.bias": torch.zeros(channels),
               "denoiser.conv3.weight": draw(1, channels, 3, 3),
               "denoiser.conv3.bias": torch.zeros(1)}
    for w in weights.values():
        w.requires_grad_()
    optimizer = torch.optim.Adam(weights.values(), lr=5e-3)
    ops = Arithmetic()
    for _ in range(150):
        clean = pictures(generator, 32)
        sigma = math.exp(0.5 + 1.3 * float(torch.randn((),
                                                       generator=generator)))
        noisy = clean + sigma * torch.randn(clean.shape, generator=generator)
        out = denoise(weights, ops, noisy, sigma, lambda n, t: None, {})
        weight = (1 + sigma ** 2) / sigma ** 2
        optimizer.zero_grad()
        (weight * (out - clean).square().mean()).backward()
        optimizer.step()
    start = HIGHEST * torch.randn(batch, 1, SIDE, SIDE, generator=generator)
    return {n: w.detach().clone() for n, w in weights.items()}, start


def sample(size, weights, ops, start, tape, order, faults, race=None):
    """Runs the sampler; `race` is a generator that decides what a read which
    is not ordered with a write sees."""
    steps = faults.get("steps", SIZES[size][2])
    cast = {n: ops.cast(w) for n, w in weights.items()}
    x, before, last = ops.cast(start), None, None
    levels = noise_levels(steps)
    buffer = x.clone()
    for i in range(steps):
        tape.at(step=i)
        sigma, to = levels[i], levels[i + 1]
        tape("sigma", torch.tensor([sigma]))
        tape("sampler.x.input", x)
        clean = denoise(cast, ops, x, sigma, tape, faults)
        h = math.log(sigma / to)
        guess = clean
        if order == 2 and before is not None:
            ratio = last / h
            old = before
            if faults.get("history") == "sign":
                ratio = -ratio
            elif faults.get("history") == "stale":
                old = buffer  # what the first step began with
            guess = clean + (clean - old) / (2 * ratio)
        factor = -math.expm1(-h) * (1 + faults.get("coefficient", 0))
        x = x * (to / sigma) + guess * factor
        if race is not None and i >= 1:
            # A neighbour's row is read before or after it is written.
            late = torch.rand(x.shape[0], SIDE, generator=race) < 0.25
            x = torch.where(late[:, None, :, None], x.roll(1, 2), x)
        if i == faults.get("corrupt_at"):
            x = x.clone()
            if faults["corrupt"] == "zero":
                x[:, :, 4:6] = 0
            else:
                x[0, :, :4] = buffer[0, :, :4]
        tape("sampler.x.output", x)
        before, last = clean, h
