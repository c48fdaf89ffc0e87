"""Small data sets that have something to learn, drawn anew for every run."""

import math

import torch


def blobs(rows, classes=6, width=16, spread=1.2):
    """Points around centres; returns inputs and labels."""
    centres = 1.5 * torch.randn(classes, width)
    labels = torch.randint(classes, (rows,))
    return centres[labels] + spread * torch.randn(rows, width), labels


def batches(rows, size):
    """Index tensors of one epoch in a new order."""
    return torch.randperm(rows).split(size)


def pictures(rows, size=12, classes=4):
    """Grey pictures of bars and blocks with noise, their class and the mask of the shape."""
    labels = torch.randint(classes, (rows,))
    masks = torch.zeros(rows, 1, size, size)
    for i, label in enumerate(labels.tolist()):
        y, x = torch.randint(1, size - 5, (2,)).tolist()
        high, wide = ((4, 4), (4, 1), (1, 4), (2, 2))[label]
        masks[i, 0, y:y + high, x:x + wide] = 1
    return masks + 0.25 * torch.randn_like(masks), labels, masks


def stripes(rows, size=12):
    """Waves in four directions and their class."""
    labels, at = torch.randint(4, (rows,)), torch.arange(size).float()
    turn = labels * math.pi / 4 + 0.1 * torch.randn(rows)
    along = turn.cos()[:, None, None] * at[:, None] \
        + turn.sin()[:, None, None] * at
    phase = 6.28 * torch.rand(rows, 1, 1)
    x = (1.3 * along + phase).sin() + 0.4 * torch.randn(rows, size, size)
    return (0.5 + 0.2 * x[:, None]).clamp(0, 1), labels


def text(rows, length=24, letters=20):
    """Sequences of a Markov chain with three likely successors a letter."""
    chain = torch.full((letters, letters), 0.02)
    for letter in range(letters):
        chain[letter, torch.randperm(letters)[:3]] = torch.tensor([6.0, 3.0, 1.0])
    out = [torch.randint(letters, (rows,))]
    for _ in range(length - 1):
        out.append(torch.multinomial(chain[out[-1]], 1).squeeze(1))
    return torch.stack(out, 1)


def table(rows, width=10, noise=0.3):
    """Features with different scales of use, and a target of some of them."""
    x = torch.randn(rows, width)
    y = x[:, 0] * 2 - x[:, 1] + (x[:, 2] * x[:, 3]) + torch.sin(2 * x[:, 4])
    return x, y + noise * torch.randn(rows)


def graph(nodes=300, classes=5, width=32, homophily=0.85):
    """A normalised adjacency, features and labels of a graph whose neighbours are alike."""
    labels = torch.randint(classes, (nodes,))
    same = labels[:, None] == labels[None]
    chance = torch.where(same, homophily * 12 * classes / nodes / classes, (1 - homophily) * 4 / nodes)
    edges = (torch.rand(nodes, nodes) < chance).float().triu(1)
    adjacency = edges + edges.T + torch.eye(nodes)
    degree = adjacency.sum(1).rsqrt()
    features = torch.randn(classes, width)[labels] * 0.5 + torch.randn(nodes, width)
    return degree[:, None] * adjacency * degree[None], features, labels
