"""A tiny GPT that decodes with a preallocated key-value cache, and the faults
that such caches have. `scripts/make-cache-cases` records them."""

import math

import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.proj = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                       torch.nn.Linear(4 * width, width))

    def heads_of(self, x):
        """Queries, keys and values, [rows, heads, places, width / heads]."""
        rows, places, _ = x.shape
        return [y.view(rows, places, self.heads, -1).transpose(1, 2) for y in self.qkv(self.ln_1(x)).chunk(3, -1)]

    def attend(self, x, q, k, v, seen):
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        mixed = scores.masked_fill(~seen, -math.inf).softmax(-1) @ v
        x = x + self.proj(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.ln_2(x))


class GPT(torch.nn.Module):
    def __init__(self, vocab, width, heads, layers, length):
        super().__init__()
        self.tok, self.pos = torch.nn.Embedding(vocab, width), torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, vocab, bias=False)

    def forward(self, input_ids):
        places = torch.arange(input_ids.shape[1])
        x = self.tok(input_ids) + self.pos(places)
        seen = torch.ones(len(places), len(places), dtype=torch.bool).tril()
        for block in self.blocks:
            x = block.attend(x, *block.heads_of(x), seen)
        return self.head(self.ln_f(x))


def text(vocab, rows, length, pick, follow):
    """Each token is nine times in ten the follower of the two before it."""
    ids = torch.randint(vocab, (rows, length), generator=pick)
    for t in range(2, length):
        same = torch.rand(rows, generator=pick) < 0.9
        ids[same, t] = follow[ids[same, t - 1], ids[same, t - 2] % 4]
    return ids


def train(vocab, width, heads, layers, length, steps=300):
    """A trained model and a batch of two rows."""
    torch.manual_seed(45)
    pick = torch.Generator().manual_seed(45)
    follow = torch.randint(vocab, (vocab, 4), generator=pick)
    model = GPT(vocab, width, heads, layers, length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 20)
        ids = text(vocab, 32, length, pick, follow)
        loss = F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"trained to a loss of {loss.item():.3f}")
    return model.eval(), text(vocab, 2, length, pick, follow)


class Decoder:
    """Decoding with a cache of slots, and one `fault` or none:

    position  the position of a decoded token is the length of its input less 1, as for a whole prompt
    append    the length counts the token before its key is written, so that one slot stays zero
    mask      the mask of one query over all keys is causal from the upper left: it sees the first key alone
    block     a block that has become full is handed out again, and cleared, while its request reads it
    rows      rows of the batch are reordered, as a beam search does, and the cache is not
    int8      keys and values are stored in 8 bits with a scale a slot and head: sound
    bf16      keys and values are stored in bfloat16: sound
    """

    def __init__(self, model, fault, block):
        self.model, self.fault, self.size = model, fault, block

    def store(self, x):
        if self.fault == "bf16":
            return x.bfloat16().float()
        if self.fault == "int8":
            scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
            return (x / scale).round().clamp(-127, 127) * scale
        return x

    def step(self, ids, done):
        """Logits of `ids`, of which the first stands behind `done` others."""
        count = ids.shape[1]
        decoding = self.fault if done else None
        first = 0 if decoding == "position" else done
        x = self.model.tok(ids) + self.model.pos(torch.arange(first, first + count))
        slot = done + 1 if decoding == "append" else done
        end = slot + count
        seen = torch.ones(count, end, dtype=torch.bool).tril(end - count)
        if decoding == "mask":
            seen = torch.ones(count, end, dtype=torch.bool).tril()
        for layer, block in enumerate(self.model.blocks):
            q, k, v = block.heads_of(x)
            keys, values = self.cache[layer]
            keys[:, :, slot:end], values[:, :, slot:end] = self.store(k), self.store(v)
            if decoding == "block" and end % self.size == 1 and end > 1:
                keys[:, :, end - 1 - self.size:end - 1] = 0
                values[:, :, end - 1 - self.size:end - 1] = 0
            x = block.attend(x, q, keys[:, :, :end], values[:, :, :end], seen)
        return self.model.head(self.model.ln_f(x))

    def run(self, ids, prompt):
        """Logits [rows, places, vocabulary] and the first layer's keys."""
        rows, length = ids.shape
        block = self.model.blocks[0]
        width = block.proj.in_features // block.heads
        self.cache = [[torch.zeros(rows, block.heads, length + 2, width) for _ in range(2)] for _ in self.model.blocks]
        parts = [self.step(ids[:, :prompt], 0)]
        if self.fault == "rows":
            self.cache = [[t.flip(0) for t in pair] for pair in self.cache]
        for t in range(prompt, length):
            parts.append(self.step(ids[:, t:t + 1], t))
        return torch.cat(parts, 1), self.cache[0][0]
