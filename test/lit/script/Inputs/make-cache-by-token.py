"""Makes cache-by-token: a small decoder decodes eight tokens with its key cache and again without it.

The cached run counts its positions from 0 again once the cache holds five tokens, as a server does that takes the length
of the last chunk for the length of the sequence. Each file holds the output of every layer for one token.

    python make.py FOLDER      (wants torch and safetensors)
"""
import pathlib
import sys

import torch
from safetensors.torch import save_file

WIDTH, HEADS, LAYERS, TOKENS, WRAP = 16, 2, 2, 8, 5


def rotate(x, position):
    """Rotary embedding of x [heads, size] at one position."""
    size = x.shape[-1]
    angle = position / 100.0 ** (torch.arange(0, size, 2) / size)
    even, odd = x[:, 0::2], x[:, 1::2]
    return torch.stack([even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()], -1).flatten(1)


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(32, WIDTH)
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))
        self.out = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.head = torch.nn.Linear(WIDTH, 32)

    def step(self, token, position, cache):
        """One token at a position; the cache of each layer is a list of keys and values that grows."""
        seen, x = {}, self.embed(token)
        for layer in range(LAYERS):
            q, k, v = (part.view(HEADS, -1) for part in self.qkv[layer](x).chunk(3))
            cache[layer].append((rotate(k, position), v))
            keys, values = (torch.stack(part, 1) for part in zip(*cache[layer]))
            weights = torch.softmax((keys @ rotate(q, position).unsqueeze(-1)).squeeze(-1) / 8 ** 0.5, -1)
            x = x + self.out[layer]((weights.unsqueeze(1) @ values).flatten())
            seen[f"blocks.{layer}"] = x
        seen["logits"] = self.head(x)
        return seen


@torch.no_grad()
def main(folder):
    torch.manual_seed(0)
    model, ids = Decoder(), torch.randint(0, 32, (TOKENS,))
    for variant in ("full", "cached"):
        path = pathlib.Path(folder) / variant
        path.mkdir(parents=True, exist_ok=True)
        cache = [[] for _ in range(LAYERS)]
        for i in range(TOKENS):
            position = i % WRAP if variant == "cached" else i
            seen = model.step(ids[i], position, cache)
            save_file({name: value.contiguous() for name, value in seen.items()}, path / f"token{i:04d}.safetensors")


main(sys.argv[1])
