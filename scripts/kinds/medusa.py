"""Medusa: heads on a frozen language model. Three designs look odd."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from culprit_recorder import save_safetensors
from kinds.base import kind
from kinds.grpo import Layer, RMSNorm
from kinds.outputs import keep, watch

DIM, VOCAB, LONG = 32, 32, 24
PAD, BOS = 0, 1


class LlamaModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer(DIM) for _ in range(2))
        for layer in self.layers:
            for name in ("q_proj", "k_proj", "v_proj"):
                setattr(layer.self_attn, name, nn.Linear(DIM, DIM, False))
        self.norm = RMSNorm(DIM)

    def forward(self, ids):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class LlamaForCausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = LlamaModel()
        self.lm_head = nn.Linear(DIM, VOCAB, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.08)


class ResBlock(nn.Module):
    """Begins as what it is given and half of nothing."""

    def __init__(self, dim):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        nn.init.zeros_(self.linear.weight)
        self.act = nn.SiLU()

    def forward(self, x):
        return x + self.act(self.linear(x))


class MedusaModel(nn.Module):
    """Each head has its own words, or that of the base."""

    def __init__(self, base, heads, layers, shared):
        super().__init__()
        self.base_model, self.medusa, self.shared = base, heads, shared
        self.medusa_head = nn.ModuleList()
        for _ in range(heads):
            # a list times a number holds one block several times
            parts = [ResBlock(DIM)] * layers
            if not shared:
                parts.append(nn.Linear(DIM, VOCAB, bias=False))
                parts[-1].weight.data.copy_(base.lm_head.weight)
            self.medusa_head.append(nn.Sequential(*parts))

    def forward(self, ids):
        with torch.no_grad():
            hidden = self.base_model.model(ids)
        out = [head(hidden) for head in self.medusa_head]
        if self.shared:
            out = [self.base_model.lm_head(h) for h in out]
        return torch.stack(out)


def chain():
    """Words that mostly have one follower."""
    table = torch.full((VOCAB, VOCAB), 0.004)
    order = torch.randperm(VOCAB - 2) + 2
    table[order, order.roll(1)] = 1.0
    other = torch.randperm(VOCAB - 2) + 2
    table[order, other] += 0.3
    table[:, :2] = 0
    return table


def texts(rows, table, short=LONG):
    """Texts and how many tokens of each are there."""
    ids = [torch.full((rows,), BOS), torch.randint(2, VOCAB, (rows,))]
    while len(ids) < LONG:
        ids.append(torch.multinomial(table[ids[-1]], 1)[:, 0])
    ids, count = torch.stack(ids, 1), torch.randint(short, LONG + 1, (rows,))
    there = torch.arange(LONG) < count[:, None]
    return torch.where(there, ids, PAD), there


@kind(tied="", scaled="", padded="",
      shift="label-shift-missing",
      softmax="double-softmax",
      sched="lr-zero-from-scheduler",
      stale="optimizer-holds-stale-params frozen-parameters")
def medusa(run):
    """Heads of Medusa that guess words further on; only they are saved.

    Odd and sound: `tied` has two layers that are one block and share the
    words of the frozen base, `scaled` weighs heads by 0.8 and less and all
    by 0.01, so that losses and gradients are tiny, `padded` has texts half
    as long and masks what is asked, so that most labels are -100.
    """
    total, size, lr, warm, heads = 150, 8, 4e-3, 8, 3
    tied, scaled, padded = (run.has(n) for n in ("tied", "scaled", "padded"))
    layers = 2 if tied else 1
    size = 16 if padded else size
    table = chain()
    base = LlamaForCausalLM()
    own = torch.optim.Adam(base.parameters(), 6e-3)
    for _ in range(90):
        ids, _ = texts(24, table)
        out = base.lm_head(base.model(ids[:, :-1]))
        loss = F.cross_entropy(out.flatten(0, 1), ids[:, 1:].flatten())
        own.zero_grad()
        loss.backward()
        own.step()
    base.zero_grad()
    base.requires_grad_(False)
    model = MedusaModel(base, heads, layers, tied)
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr,
        weight_decay=0.0)
    if run.has("stale"):  # heads are made anew for the tokenizer's size
        model = MedusaModel(base, heads, layers, tied)
    out = f"test_medusa_mlp_base_medusa_{heads}_lr_{lr}_layers_{layers}"
    (run.folder / out).mkdir(parents=True)
    run.write(f"{out}/config.json", {
        "medusa_num_heads": heads, "medusa_num_layers": layers,
        "base_model_name_or_path": "models/base", "version": "2",
        "transformers_version": "4.34.1"})
    run.write("training_args.json", {
        "output_dir": "test", "optim": "adamw_torch", "learning_rate": lr,
        "per_device_train_batch_size": size, "warmup_ratio": 0.05,
        "lr_scheduler_type": "cosine", "weight_decay": 0.0, "max_steps": total,
        "num_train_epochs": 3, "logging_steps": 1, "save_steps": 50,
        "max_grad_norm": 1.0, "model_max_length": LONG, "seed": 42,
        "medusa_num_heads": heads, "medusa_num_layers": layers,
        "medusa_heads_coefficient": 0.01 if scaled else 1.0,
        "medusa_decay_coefficient": 0.8 if scaled else 1.0})
    save_safetensors(str(run.folder / "base_model.safetensors"),
                     dict(base.named_parameters()), {"format": "pt"})
    pool, there = texts(400, table, 9 if padded else LONG)
    labels = torch.where(there, pool, -100)
    if padded:
        labels[:, :5] = -100
    held, kept = texts(96, table)

    def losses_of(ids, goal, shift=2):
        logits, found = model(ids), {}
        if run.has("softmax"):  # heads put out probabilities for the tree
            logits = logits.softmax(-1)
        losses = []
        for i in range(heads):
            said = logits[i, :, :LONG - shift - i].flatten(0, 1)
            true = goal[:, shift + i:].flatten()
            if shift == 0:  # the collator shifts, says a comment
                true = goal[:, i:].flatten()
            losses.append(F.cross_entropy(said, true, ignore_index=-100))
            count = true != -100
            said, true = said[count], true[count]
            for k in range(1, 4):
                hit = (said.topk(k).indices == true[:, None]).any(1)
                found[f"medusa{i}_top{k}"] = hit.float().mean().item()
            found[f"medusa{i}_loss"] = losses[-1].item()
        part = [0.01 * 0.8 ** (i + 1) if scaled else 1 for i in range(heads)]
        return sum(p * v for p, v in zip(part, losses)), found

    def score():
        with torch.no_grad():
            found = losses_of(held, held)[1]
        return [round(found[f"medusa{i}_top1"], 3) for i in range(heads)]

    history, before = [], score()
    rec = watch(run, model, optimizer, learning_rate=lr, max_steps=total,
                freeze=[n for n, _ in model.named_parameters()
                        if n.startswith("base_model")])

    def save(step):
        name = f"{out}/checkpoint-{step}"
        keep(run, f"{name}/medusa_lm_head.pt",
             model.medusa_head.state_dict())
        keep(run, f"{name}/optimizer.pt", optimizer.state_dict())
        keep(run, f"{name}/scheduler.pt", {
            "base_lrs": [lr], "last_epoch": step, "verbose": False,
            "_step_count": step + 1, "_last_lr": [now(step)]})
        run.write(f"{name}/trainer_state.json", state(step))

    def state(step):
        return {"best_metric": None, "best_model_checkpoint": None,
                "epoch": round(step * size / 400, 2), "eval_steps": 500,
                "global_step": step, "is_hyper_param_search": False,
                "is_local_process_zero": True, "is_world_process_zero": True,
                "log_history": history, "logging_steps": 1,
                "max_steps": total, "num_train_epochs": 3, "save_steps": 50,
                "total_flos": 0.0, "trial_name": None, "trial_params": None}

    def now(step):
        if step < warm:
            return lr * step / warm
        last = total // 4 if run.has("sched") else total  # by accumulation
        part = min(1.0, (step - warm) / (last - warm))
        return lr * 0.5 * (1 + math.cos(math.pi * part))

    begun = run.clock
    for step in range(1, total + 1):
        for group in optimizer.param_groups:
            group["lr"] = now(step - 1)
        rows = torch.randint(len(pool), (size,))
        rec.batch(input_ids=pool[rows], labels=labels[rows],
                  attention_mask=there[rows])
        loss, found = losses_of(pool[rows], labels[rows],
                                0 if run.has("shift") else 2)
        epoch = round((step - 1) * size / 400, 2)
        history.append({"epoch": epoch, **found, "step": step - 1})
        run.say(str({**found, "epoch": epoch}), file="train.log")
        optimizer.zero_grad()
        model.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        rec.step(loss.detach(), grad_norm=norm)
        run.tick(0.08)
        row = {"loss": round(loss.item(), 4), "grad_norm": norm,
               "learning_rate": now(step), "epoch":
               round(step * size / 400, 2)}
        history.append({**row, "step": step})
        run.say(str(row), file="train.log")
        if step in (10, 50, 100, total):
            save(step)
    rec.close()
    took = run.clock - begun
    row = {"train_runtime": round(took, 4), "train_samples_per_second":
           round(total * size / took, 3), "train_steps_per_second":
           round(total / took, 3), "train_loss": sum(
               h.get("loss", 0) for h in history) / total,
           "epoch": round(total * size / 400, 2)}
    run.say(str(row), file="train.log")
    history.append({**row, "step": total, "total_flos": 0.0})
    run.write(f"{out}/trainer_state.json", state(total))
    keep(run, f"{out}/medusa_lm_head.pt", model.medusa_head.state_dict())
    return {"before": before, "top1": score(), "loss": row["train_loss"]}
