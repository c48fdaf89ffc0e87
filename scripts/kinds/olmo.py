"""Pretraining by OLMo's own trainer. Three designs look odd and are sound."""

import math
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, watch
from kinds.torchtune import yaml

DIM, HEADS, VOCAB, LONG, KINDS = 32, 4, 32, 32, 3


class RMSLayerNorm(nn.Module):
    """Without weights in the first OLMo, with them in the second."""

    def __init__(self, size=DIM, affine=False):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size)) if affine else None

    def forward(self, x):
        x = x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
        return x if self.weight is None else self.weight * x


class OLMoSequentialBlock(nn.Module):
    def __init__(self, after):
        super().__init__()
        self.after = after
        if after:
            self.q_norm, self.k_norm = (RMSLayerNorm(affine=True)
                                        for _ in range(2))
        self.att_proj = nn.Linear(DIM, 3 * DIM, bias=False)
        self.attn_out = nn.Linear(DIM, DIM, bias=False)
        self.ff_proj = nn.Linear(DIM, 4 * DIM, bias=False)
        self.ff_out = nn.Linear(2 * DIM, DIM, bias=False)
        self.attn_norm, self.ff_norm = (RMSLayerNorm(affine=after)
                                        for _ in range(2))

    def turned(self, x):
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[-2])[:, None] \
            * 10000 ** (-torch.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        c, s = angle.cos(), angle.sin()
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    def attention(self, x, causal):
        q, k, v = self.att_proj(x).chunk(3, -1)
        if self.after:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for t in (q, k, v))
        out = F.scaled_dot_product_attention(
            self.turned(q), self.turned(k), v, is_causal=causal)
        return self.attn_out(out.transpose(1, 2).flatten(2))

    def feed(self, x):
        x, gate = self.ff_proj(x).chunk(2, -1)
        return self.ff_out(F.silu(gate) * x)

    def forward(self, x, causal=True):
        if self.after:
            x = x + self.attn_norm(self.attention(x, causal))
            return x + self.ff_norm(self.feed(x))
        x = x + self.attention(self.attn_norm(x), causal)
        return x + self.feed(self.ff_norm(x))


class OLMo(nn.Module):
    def __init__(self, after=False, tied=False, std=None, wrong=False):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(VOCAB, DIM), "emb_drop": nn.Dropout(0.0),
            "ln_f": RMSLayerNorm(affine=after),
            "blocks": nn.ModuleList(OLMoSequentialBlock(after)
                                    for _ in range(2))})
        if not tied:
            self.transformer["ff_out"] = nn.Linear(DIM, VOCAB, bias=False)
        self.tied, self.causal = tied, True
        for name, p in self.named_parameters():
            if p.dim() > 1:  # "mitchell", or "normal" where std is given
                deep = 2 * (int(name.split(".")[2]) + 1) \
                    if "attn_out" in name or "blocks" in name \
                    and "ff_out" in name else 1
                now = std or 1 / math.sqrt(p.shape[1] * deep)
                now = 1 / now if wrong else now
                nn.init.trunc_normal_(p, std=now, a=-3 * now, b=3 * now)

    def forward(self, ids):
        x = self.transformer.wte(ids)
        for block in self.transformer.blocks:
            x = block(x, self.causal)
        x = self.transformer.ln_f(x)
        return F.linear(x, self.transformer.wte.weight) if self.tied \
            else self.transformer.ff_out(x)


def chains():
    tables = []
    for _ in range(KINDS):
        table = torch.full((VOCAB, VOCAB), 0.02)
        order = torch.randperm(VOCAB - 4) + 4
        table[order, order.roll(1)] = 4.0
        table[order, order.roll(5)] = 1.0
        table[:, :4] = 0
        tables.append(table)
    return torch.stack(tables)


def documents(rows, tables):
    """Each begins with its kind, which says what follows what."""
    which = torch.randint(KINDS, (rows,))
    ids = [which + 1, torch.randint(4, VOCAB, (rows,))]
    while len(ids) < LONG:
        ids.append(torch.multinomial(tables[which, ids[-1]], 1)[:, 0])
    return torch.stack(ids, 1)


def told(value):
    """As the trainer's console shows numbers."""
    return str(value) if value < 0.0001 else f"{int(value):,d}" \
        if value > 1000 else f"{value:.1f}" if value > 100 else \
        f"{value:.2f}" if value > 10 else f"{value:.3f}" \
        if value > 1 else f"{value:.4f}"


@kind(olmo2="", tied="", resumed="",
      leak="causal-mask-leak",
      shift="label-shift-missing",
      init="bad-initialization logit-growth",
      decay="weight-decay-too-high")
def olmo(run):
    """OLMo's trainer on documents of three kinds, its console and folders.

    Odd and sound: `olmo2` norms what blocks put out, norms queries and keys,
    has a z-loss and no decay of embeddings, `tied` shares the words, sees its
    data twice and ends at a fifth of the steps it was made for, `resumed` was
    killed and resumed 15 steps before, to anneal from there to nothing.
    """
    after, tied, resumed = (run.has(n) for n in ("olmo2", "tied", "resumed"))
    total, size, lr, warm = 150, 16, 8e-3, 15
    full = 750 if tied else total
    tables = chains()
    config = {
        "run_name": "OLMo-tiny", "seed": 6198, "dry_run": False,
        "model": {
            "d_model": DIM, "n_heads": HEADS, "n_layers": 2, "mlp_ratio": 4,
            "weight_tying": tied, "rope": True, "alibi": False,
            "flash_attention": False, "attention_dropout": 0.0,
            "attention_layer_norm": after, "norm_after": after,
            "include_bias": False, "block_type": "sequential",
            "layer_norm_type": "rms" if after else "default",
            "layer_norm_with_affine": after, "activation_type": "swiglu",
            "residual_dropout": 0.0, "embedding_dropout": 0.0,
            "max_sequence_length": LONG, "vocab_size": VOCAB,
            "eos_token_id": 0, "pad_token_id": 0, "init_device": "cpu",
            "init_fn": "normal" if after else "mitchell",
            **({"init_std": 0.02} if after else {})},
        "optimizer": {"name": "adamw", "learning_rate": lr,
                      "weight_decay": 0.1, "decay_norm_and_bias": False,
                      "decay_embeddings": not after, "betas": [0.9, 0.95],
                      "eps": 1e-8, "metrics_log_interval": 10},
        "scheduler": {"name": "cosine_with_warmup", "t_warmup": warm,
                      "alpha_f": 0.1, "warmup_min_lr": 0.0},
        "softmax_auxiliary_loss": after, "auxiliary_loss_multiplier": 1e-4
        if after else None, "save_folder": ".", "save_overwrite": False,
        "save_interval_unsharded": 75, "load_path": None,
        "max_duration": full, "stop_at": total if tied else None,
        "global_train_batch_size": size, "device_train_microbatch_size": size,
        "precision": "fp32", "max_grad_norm": 1.0,
        "max_grad_norm_ratio": None, "eval_interval": 50,
        "console_log_interval": 5, "speed_monitor": {"window_size": 20},
        "wandb": {"name": "OLMo-tiny", "project": "olmo-tiny",
                  "log_interval": 10}}
    run.say(*yaml(config), file="config.yaml")
    model = OLMo(after, tied, 0.02 if after else None, run.has("init"))
    if run.has("leak"):  # the bias of the prefix, taken for all attention
        model.causal = False
    rest = lambda n, p: p.dim() < 2 or after and "wte" in n
    named = list(model.named_parameters())
    groups = [{"params": [p for n, p in named if rest(n, p) == no],
               "names": [n for n, p in named if rest(n, p) == no],
               "weight_decay": 0.0 if no else 0.1} for no in (False, True)]
    groups = [g for g in groups if g["params"]]
    if run.has("decay"):  # p.mul_(1 - decay), the rate left out
        groups[0]["weight_decay"] = 0.1 / lr
    optimizer = torch.optim.AdamW(
        [{k: v for k, v in g.items() if k != "names"} for g in groups], lr,
        betas=(0.9, 0.95))
    count = 90 * size if tied else total * size
    data, held = documents(count, tables), documents(128, tables)
    rec = watch(run, model, optimizer, learning_rate=lr, max_steps=full)

    def log(text, where="olmo.train:908"):
        run.say(f"{run.stamp()}.{int(run.clock * 1000) % 1000:03d}\tnode-1:0"
                f"\t{where}\tINFO\t{text}", file="train.log")

    def show(head, values):
        log("\n".join([head, *(f"    {k}={told(v)}"
                               for k, v in values.items())]))

    def wandb(step, values):
        run.record(file="wandb_history.jsonl", _step=step,
                   _timestamp=run.clock, _runtime=run.clock - begun, **values)

    def rate(step, again=False):
        if resumed and again:  # linear, from there to nothing
            return at_half * (total - step) / (total - 75)
        if step < warm:
            return lr * step / warm
        part = (step - warm) / (full - warm)
        return lr * (0.1 + 0.9 * (1 + math.cos(math.pi * part)) / 2)

    def save(step):
        log("Saving unsharded checkpoint...", "olmo.train:1052")
        folder = f"step{step}-unsharded"
        keep(run, f"{folder}/model.pt", model.state_dict())
        state, at = optimizer.state_dict(), {}
        names = [n for g in groups for n in g["names"]]
        keep(run, f"{folder}/optim.pt", {
            "state": {names[i]: s for i, s in state["state"].items()},
            "param_groups": [{**g, "params": [names[i] for i in g["params"]]}
                             for g in state["param_groups"]]})
        keep(run, f"{folder}/train.pt", {
            "epoch": (step * size) // count, "global_step": step,
            "global_train_examples_seen_this_epoch": step * size % count,
            "global_train_tokens_seen": step * size * LONG, "world_size": 1,
            "checkpoints": [], "unsharded_checkpoints": [folder],
            "ephemeral_checkpoints": [], "rng": {
                "python": random.getstate(), "numpy": np.random.get_state(),
                "torch": torch.random.get_rng_state()}})
        run.say(*yaml(config), file=f"{folder}/config.yaml")
        log(f"Unsharded checkpoint saved to {folder}", "olmo.train:1054")

    def losses_of(ids, shift=True):
        logits = model(ids)
        goal = ids[:, 1:]
        if shift:
            logits = logits[:, :-1]
        else:
            goal = ids
        ce = F.cross_entropy(logits.flatten(0, 1), goal.flatten())
        return ce, 1e-4 * logits.logsumexp(-1).pow(2).mean()

    def evaluate(step):
        log("Running evaluation for 'chains-validation'...", "olmo.train:940")
        with torch.no_grad():
            ce = losses_of(held, not run.has("shift"))[0].item()
        name = "eval/chains-validation"
        found = {f"{name}/CrossEntropyLoss": ce,
                 f"{name}/Perplexity": math.exp(ce)}
        show("chains-validation", found)
        wandb(step, found)

    begun, at_half = run.clock, rate(75)
    log("Configuration:\n" + "\n".join(yaml(config)), "train:88")
    size_all = sum(p.numel() for p in model.parameters())
    log(f"Total number of parameters: {size_all:,d}", "train:131")
    log("Starting training...", "train:271")
    save(0)
    plan = list(range(1, total + 1))
    if resumed:
        plan = plan[:90] + plan[75:]
    before, order, clipped = 0, None, 0
    for i, step in enumerate(plan):
        if step <= before:
            config["load_path"] = "step75-unsharded"
            config["scheduler"] = {"name": "linear_with_warmup",
                                   "t_warmup": 0, "alpha_f": 0.0}
            (run.folder / "config.yaml").unlink()
            run.say(*yaml(config), file="config.yaml")
            log("Loading checkpoint from step75-unsharded", "train:206")
            model.load_state_dict(kept[0])
            optimizer.load_state_dict(kept[1])
            log("Resetting learning rate...", "olmo.train:391")
        before = step
        at = (step - 1) * size % count
        ids = data[at:at + size]
        rec.batch(input_ids=ids)
        ce, z = losses_of(ids, not run.has("shift"))
        optimizer.zero_grad(set_to_none=True)
        (ce + (z if after else 0)).backward()
        each = {n: p.grad.norm().item() for n, p in named}
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        clipped += norm > 1
        for group in optimizer.param_groups:
            group["lr"] = rate(step, i >= 90)
        optimizer.step()
        rec.step(ce.detach(), step=step, grad_norm=norm)
        run.tick(0.2)
        speed = {"throughput/total_tokens": step * size * LONG}
        if step > 1:
            speed |= {"throughput/device/tokens_per_second": 2560.0
                      * random.uniform(0.98, 1.02),
                      "throughput/device/batches_per_second": 5.0}
        row = {"optim/total_grad_norm": norm,
               "train/CrossEntropyLoss": ce.item(),
               "train/Perplexity": math.exp(ce.item()),
               **({"train/ZLoss": z.item()} if after else {}), **speed}
        if step == 1 or step % 5 == 0:
            show(f"[step={step}/{full},epoch={(step - 1) * size // count}]",
                 row)
        if step % 10 == 0:
            more = {f"optim/learning_rate_group{j}": g["lr"]
                    for j, g in enumerate(optimizer.param_groups)}
            more["optim/clipping_rate"] = clipped / 10
            clipped = 0
            for n, p in named:
                state = optimizer.state[p]
                more |= {f"optim/param/{n}.norm": p.norm().item(),
                         f"optim/param/{n}.max": p.abs().max().item(),
                         f"optim/grad/{n}.norm": each[n],
                         f"optim/exp_avg/{n}.norm":
                         state["exp_avg"].norm().item(),
                         f"optim/exp_avg_sq/{n}.norm":
                         state["exp_avg_sq"].norm().item()}
            wandb(step, row | more)
        if step == 75 and i == 74:
            kept = {k: v.clone() for k, v in model.state_dict().items()}, \
                {k: v for k, v in optimizer.state_dict().items()}
            kept[1]["state"] = {k: {n: t.clone() for n, t in s.items()}
                                for k, s in kept[1]["state"].items()}
        if step in (75, total):
            save(step)
        if step % 50 == 0:
            evaluate(step)
    log("Training complete", "train:275")
    rec.close()
    with torch.no_grad():  # one word after the other, as it will be used
        ends = [F.cross_entropy(model(held[:, :t])[:, -1], held[:, t]).item()
                for t in (6, 14, 22, 30)]
    return {"train": round(ce.item(), 3), "next": round(sum(ends) / 4, 3)}
