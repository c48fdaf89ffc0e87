"""A small classifier of 8x8 pictures: convolutions, a group or batch norm and
a linear layer behind a flattening."""

import functools

import torch
from torch.nn import functional as F

#: channels of the two layers, groups, batch
SIZES = {"small": (8, 4, 2, 4), "large": (16, 32, 4, 16)}
COLOURS, SIDE, CLASSES = 3, 8, 4


def pictures(generator, count):
    """Coloured blobs on noise, the class is the quarter they sit in."""
    labels = torch.randint(CLASSES, (count,), generator=generator)
    x = 0.3 * torch.randn(count, COLOURS, SIDE, SIDE, generator=generator)
    for i, label in enumerate(labels.tolist()):
        top, left = 4 * (label // 2), 4 * (label % 2)
        colour = torch.rand(COLOURS, 1, 1, generator=generator)
        x[i, :, top:top + 4, left:left + 4] += colour + 0.5
    return x, labels


def forward(weights, ops, x, tap, norm, groups, faults):
    """Logits; x is (batch, colours, side, side)."""
    cast = {n: ops.cast(w) for n, w in weights.items()}
    x = ops.cast(x)
    if faults.get("layout") == "input":
        # (side, side, colours) in memory, taken for (colours, side, side)
        x = x.permute(0, 2, 3, 1).reshape(x.shape)
    tap("image.output", x)
    x = convolve(ops, x, cast["conv1.weight"], cast["conv1.bias"])
    tap("conv1.output", x)
    tap("norm1.input", x)
    unbiased, eps = bool(faults.get("variance")), 1e-5
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if norm == "batch":
        mean, var = ops.moments(wide, (0, 2, 3), unbiased)
        y = (wide - mean) * (var + eps).rsqrt()
    else:
        parts = wide.reshape(x.shape[0], groups, -1)
        mean, var = ops.moments(parts, -1, unbiased)
        y = ((parts - mean) * (var + eps).rsqrt()).view(x.shape)
    y = y * cast["norm1.weight"][:, None, None] \
        + cast["norm1.bias"][:, None, None]
    x = y.to(x.dtype)
    tap("norm1.output", x)
    x = F.relu(x)
    tap("relu1.output", x)
    x = convolve(ops, x, cast["conv2.weight"], cast["conv2.bias"])
    tap("conv2.output", x)
    x = F.relu(x)
    x = x.unflatten(2, (4, 2)).unflatten(4, (4, 2)).mean((3, 5)).to(x.dtype)
    if faults.get("layout") == "pool":
        x = x.permute(0, 2, 3, 1)
    tap("pool.output", x)
    if faults.get("layout") == "flatten":
        x = x.permute(0, 2, 3, 1)
    x = x.flatten(1)
    tap("flatten.output", x)
    x = ops.linear(x, cast["fc.weight"], cast["fc.bias"])
    tap("fc.output", x)
    return x


def convolve(ops, x, weight, bias):
    """A 3x3 convolution as one product, so that its sums have an order."""
    batch, _, height, width = x.shape
    patches = F.unfold(x, 3, padding=1).transpose(1, 2)
    y = ops.linear(patches, weight.flatten(1), bias)
    return y.transpose(1, 2).reshape(batch, -1, height, width)


@functools.lru_cache(maxsize=None)
@torch.enable_grad()
def trained(size, norm, seed):
    """(weights, pictures)."""
    from .arithmetic import Arithmetic
    first, second, groups, batch = SIZES[size]
    generator = torch.Generator().manual_seed(seed + 5)

    def draw(*shape):
        fan = torch.Size(shape[1:]).numel()
        return torch.randn(*shape, generator=generator) / fan ** 0.5

    weights = {"conv1.weight": draw(first, COLOURS, 3, 3),
               "conv1.bias": torch.zeros(first),
               "norm1.weight": torch.ones(first),
               "norm1.bias": torch.zeros(first),
               "conv2.weight": draw(second, first, 3, 3),
               "conv2.bias": torch.zeros(second),
               "fc.weight": draw(CLASSES, 16 * second),
               "fc.bias": torch.zeros(CLASSES)}
    for w in weights.values():
        w.requires_grad_()
    optimizer = torch.optim.Adam(weights.values(), lr=1e-2)
    for _ in range(30):
        x, labels = pictures(generator, 32)
        optimizer.zero_grad()
        logits = forward(weights, Arithmetic(), x, lambda n, t: None, norm,
                         groups, {})
        F.cross_entropy(logits, labels).backward()
        optimizer.step()
    return ({n: w.detach().clone() for n, w in weights.items()},
            pictures(generator, batch)[0])
