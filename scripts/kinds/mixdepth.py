"""A deep transformer of parts that begin at nothing and drop out of it.

All its runs are sound; the kind returns its loss on texts it did not see and
the least that can be had there.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, watch

DIM, HEADS, DEPTH, VOCAB, LONG = 32, 4, 4, 24, 20


class Attention(nn.Module):
    """Of angles, as Swin v2 has it; masked heads count as 0."""

    def __init__(self, scale):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.logit_scale = nn.Parameter(
            torch.full((HEADS, 1, 1), math.log(scale)))
        self.proj = nn.Linear(DIM, DIM)
        self.register_buffer("head_mask", torch.ones(HEADS))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)) \
            .permute(2, 0, 3, 1, 4)
        scale = self.logit_scale.clamp(max=math.log(100.0)).exp()
        x = F.scaled_dot_product_attention(
            F.normalize(q, dim=-1) * scale, F.normalize(k, dim=-1), v,
            is_causal=True, scale=1.0)
        x = x * self.head_mask[:, None, None]
        return self.proj(x.transpose(1, 2).flatten(2))


class LayerScale(nn.Module):
    def __init__(self, init=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((DIM,), init))

    def forward(self, x):
        return x * self.gamma


class ReZero(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x * self.gate


class Block(nn.Module):
    """With a chance of its own to be left out for a text."""

    def __init__(self, drop, rezero, scale):
        super().__init__()
        self.drop = drop
        self.norm1, self.attn = nn.LayerNorm(DIM), Attention(scale)
        self.ls1 = ReZero() if rezero else LayerScale()
        self.norm2 = nn.LayerNorm(DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 64), nn.GELU(),
                                 nn.Linear(64, DIM))
        self.ls2 = ReZero()

    def path(self, x):
        if not self.training or not self.drop:
            return x
        stays = torch.rand(len(x), 1, 1) >= self.drop
        return x * stays / (1 - self.drop)

    def forward(self, x):
        x = x + self.path(self.ls1(self.attn(self.norm1(x))))
        return x + self.path(self.ls2(self.mlp(self.norm2(x))))


class Exit(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.proj = nn.LayerNorm(DIM), nn.Linear(DIM, DIM)

    def forward(self, x):
        return self.proj(self.norm(x))


class MixDepth(nn.Module):
    def __init__(self, drop=0.1, layerdrop=0.0, rezero=False, scale=10.0):
        super().__init__()
        self.layerdrop = layerdrop
        self.tok_embed = nn.Embedding(VOCAB, DIM)
        self.pos_embed = nn.Parameter(0.05 * torch.randn(1, LONG, DIM))
        self.blocks = nn.ModuleList(
            Block(drop * i / (DEPTH - 1), rezero, scale)
            for i in range(DEPTH))
        self.exits = nn.ModuleList(Exit() for _ in range(DEPTH - 1))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.trunc_normal_(m.weight, std=0.05)
                if getattr(m, "bias", None) is not None:
                    nn.init.zeros_(m.bias)
        self.head.weight = self.tok_embed.weight

    def forward(self, ids):
        x = self.tok_embed(ids) + self.pos_embed[:, :ids.shape[1]]
        out = []
        for i, block in enumerate(self.blocks):
            if not self.training or torch.rand(()) >= self.layerdrop:
                x = block(x)
            if i < DEPTH - 1:
                out.append(self.head(self.exits[i](x)))
        return out + [self.head(self.norm(x))]


def texts(rows, table):
    """Each word follows from the two before it."""
    ids = [torch.randint(VOCAB, (rows,)) for _ in range(2)]
    while len(ids) < LONG + 1:
        next_ = table[(ids[-1] + 3 * (ids[-2] % 2)) % VOCAB]
        luck = torch.rand(rows) < 0.1
        ids.append(torch.where(luck, torch.randint(VOCAB, (rows,)), next_))
    return torch.stack(ids, 1)


@kind(rezero="", pruned="", hot="", layerwise="")
def mixdepth(run):
    """Words of a transformer with stochastic depth, early exits and gates.

    Branches begin at 1e-5 or 0, weights of exits fall to 0 by the middle, so
    that their gradients are exactly 0 there and the loss changes its scale.

    Odd and sound: `rezero` has one gate of 0 a branch and one layer in seven
    left out at a time, `pruned` masks half of the heads at step 60, `hot` has
    temperatures of attention above their clamp of 100 from the start, so that
    they get no gradient, `layerwise` has a rate of 0.6 of the next for each
    layer, 0 for the place embeddings, one cycle of rate and momentum and a
    clipping norm that always acts.
    """
    rezero, pruned, hot, layerwise = (run.has(n) for n in (
        "rezero", "pruned", "hot", "layerwise"))
    total, size, lr, half = 160, 16, 8e-3, 80
    clip = 0.05 if layerwise else 10.0
    table = torch.randperm(VOCAB)
    model = MixDepth(layerdrop=0.15 if rezero else 0.0, rezero=rezero,
                     scale=110.0 if hot else 10.0)
    if layerwise:
        groups = {}
        for name, p in model.named_parameters():
            at = int(name.split(".")[1]) if "blocks" in name else DEPTH
            rate = 0.0 if "pos_embed" in name else \
                2 * lr * 0.6 ** (DEPTH - at)
            groups.setdefault((at, rate), []).append(p)
        groups = [{"params": ps, "lr": rate, "name": f"layer{at}"}
                  for (at, rate), ps in sorted(groups.items())]
    else:
        flat, more = [], []
        for name, p in model.named_parameters():
            still = p.dim() < 2 or "logit_scale" in name
            (flat if still else more).append(p)
        groups = [{"params": more, "weight_decay": 0.05},
                  {"params": flat, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr, (0.9, 0.98))
    rates = [g["lr"] for g in optimizer.param_groups]
    run.write("config.json", {
        "model": {"dim": DIM, "depth": DEPTH, "heads": HEADS,
                  "vocab_size": VOCAB, "drop_path": 0.1,
                  "layerdrop": model.layerdrop, "layer_scale_init": None
                  if rezero else 1e-5, "rezero": True, "qk_norm": True,
                  "tie_embeddings": True, "max_logit_scale": 100.0},
        "train": {"lr": lr, "steps": total, "batch_size": size,
                  "optimizer": "adamw", "weight_decay": 0.05,
                  "exit_weight": 0.3, "exit_steps": half,
                  "grad_clip": clip, "schedule": "onecycle" if layerwise
                  else "cosine", "layer_decay": 0.6 if layerwise else 1.0}})
    data, held = texts(500, table), texts(96, table)
    rec = watch(run, model, optimizer, lr=lr)

    def ce(logits, ids):
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    def scales():
        return torch.stack([b.attn.logit_scale.detach().exp()
                            for b in model.blocks])

    def save(step):
        keep(run, f"checkpoints/step_{step:06d}.pt", {
            "step": step, "model": model.state_dict(),
            "optimizer": optimizer.state_dict()})

    @torch.no_grad()
    def score():
        model.eval()
        out = [ce(o, held).item() for o in model(held[:, :-1])]
        model.train()
        return out

    def now(step):
        warm = 0.3 * total if layerwise else 10
        up = min(1.0, (step + 1) / warm)
        down = max(0.0, (step - warm) / (total - warm))
        return up * 0.5 * (1 + math.cos(math.pi * down))

    save(0)
    for step in range(total):
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * now(step)
            if layerwise:
                group["betas"] = (0.95 - 0.1 * now(step), 0.98)
        if pruned and step == 60:
            for block in model.blocks:
                block.attn.head_mask[HEADS // 2:] = 0
        ids = data[torch.randint(len(data), (size,))]
        rec.batch(input_ids=ids[:, :-1], labels=ids[:, 1:])
        outs = model(ids[:, :-1])
        losses = [ce(o, ids) for o in outs]
        weight = 0.3 * max(0.0, 1 - step / half)
        loss = losses[-1] + weight * sum(losses[:-1])
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip).item()
        optimizer.step()
        rec.step(loss.detach(), grad_norm=norm)
        run.tick(0.06)
        row = {"step": step, "loss": round(loss.item(), 5),
               **{f"loss_exit{i}": round(v.item(), 5)
                  for i, v in enumerate(losses[:-1])},
               "loss_final": round(losses[-1].item(), 5),
               "exit_weight": round(weight, 4), "grad_norm": round(norm, 5),
               "lr": max(rates) * now(step), "logit_scale": round(
                   min(100.0, scales().max().item()), 4)}
        if step % 40 == 39:
            row |= {f"val_loss_exit{i}": round(v, 5)
                    for i, v in enumerate(score())}
        run.record("train_log.jsonl", **row)
        if step + 1 in (total // 2, total):
            save(step + 1)
    rec.close()
    least = -(0.9 + 0.1 / VOCAB) * math.log(0.9 + 0.1 / VOCAB) \
        - 0.1 * (1 - 1 / VOCAB) * math.log(0.1 / VOCAB)
    out = score()
    run.ends(loss=out[-1], exit0=out[0], least=least,
             scale=scales().max())
