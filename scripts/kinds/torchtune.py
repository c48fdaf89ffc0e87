"""LoRA of torchtune on a small Llama: recipe, disk logger, adapters.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, place, watch

VOCAB, LENGTH, DIM, HEADS, RANK, ALPHA = 48, 32, 48, 4, 8, 16


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() \
            * self.scale


class LoRALinear(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(nn.Linear(inner, outer, False).weight
                                   .detach())
        self.lora_a = nn.Linear(inner, RANK, False)
        self.lora_b = nn.Linear(RANK, outer, False)
        nn.init.kaiming_uniform_(self.lora_a.weight, a=math.sqrt(5))
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, x):
        return F.linear(x, self.weight) \
            + ALPHA / RANK * self.lora_b(self.lora_a(x))


def turned(x, at):
    """Rotary positions, those of each packed sample."""
    half = x.shape[-1] // 2
    angle = at[:, None, :, None] * 10000 ** (-torch.arange(half) / half)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * angle.cos() - b * angle.sin(),
                        b * angle.cos() + a * angle.sin()], -1).flatten(-2)


class MultiHeadAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj = LoRALinear(DIM, DIM), \
            nn.Linear(DIM, DIM, False)
        self.v_proj, self.output_proj = LoRALinear(DIM, DIM), \
            nn.Linear(DIM, DIM, False)

    def forward(self, x, mask, at):
        split = lambda t: t.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        q, k, v = (split(p(x)) for p in (self.q_proj, self.k_proj,
                                         self.v_proj))
        out = F.scaled_dot_product_attention(
            turned(q, at), turned(k, at), v, attn_mask=mask[:, None])
        return self.output_proj(out.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = LoRALinear(DIM, 2 * DIM)
        self.w2 = LoRALinear(2 * DIM, DIM)
        self.w3 = LoRALinear(DIM, 2 * DIM)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TransformerSelfAttentionLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.mlp = MultiHeadAttention(), FeedForward()
        self.sa_norm, self.mlp_norm = RMSNorm(DIM), RMSNorm(DIM)

    def forward(self, x, mask, at):
        x = x + self.attn(self.sa_norm(x), mask, at)
        return x + self.mlp(self.mlp_norm(x))


class TransformerDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(TransformerSelfAttentionLayer()
                                    for _ in range(2))
        self.norm = RMSNorm(DIM)
        self.output = nn.Linear(DIM, VOCAB, False)

    def forward(self, tokens, mask, input_pos):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x, mask, input_pos)
        return self.output(self.norm(x))


def chain():
    table = torch.full((VOCAB, VOCAB), 0.01)
    for token in range(4, VOCAB):
        table[token, torch.randperm(VOCAB - 4)[:3] + 4] = \
            torch.tensor([8.0, 3.0, 1.0])
    table[:, :4] = 0
    return table


def samples(count, table, short=6, long=14):
    """Texts of a chain: a start, tokens, an end."""
    out = []
    tokens = torch.randint(4, VOCAB, (count,))
    walk = [tokens]
    for _ in range(long):
        tokens = torch.multinomial(table[tokens], 1)[:, 0]
        walk.append(tokens)
    for row in torch.stack(walk, 1):
        n = int(torch.randint(short, long, ()))
        out.append(torch.cat([torch.tensor([1]), row[:n],
                              torch.tensor([2])]))
    return out


def packed(texts, prompt=0):
    """Packs of LENGTH: tokens, labels, input_pos, and the blocks."""
    packs, now = [], []
    for text in [*texts, None]:
        if text is None or sum(map(len, now)) + len(text) > LENGTH:
            pad = LENGTH - sum(map(len, now))
            labels = [torch.cat([torch.full((prompt,), -100), t[prompt:]])
                      for t in now]
            packs.append((
                torch.cat([*now, torch.zeros(pad, dtype=torch.long)]),
                torch.cat([*labels, torch.full((pad,), -100)]),
                torch.cat([torch.arange(len(t)) for t in now]
                          + [torch.arange(pad) % LENGTH]),
                torch.cat([torch.full((len(t),), i)
                           for i, t in enumerate(now)]
                          + [torch.full((pad,), len(now))])))
            now = []
        if text is not None:
            now.append(text)
    return [torch.stack(p) for p in zip(*packs)]


def padded(texts, prompt):
    """A row a text, padded to LENGTH."""
    return [torch.cat(parts) for parts in
            zip(*(packed([t], prompt) for t in texts))]


def yaml(value, deep=0):
    lines = []
    for key, item in value.items():
        if isinstance(item, dict):
            lines += [f"{'  ' * deep}{key}:", *yaml(item, deep + 1)]
        elif isinstance(item, list):
            lines += [f"{'  ' * deep}{key}:",
                      *(f"{'  ' * deep}- {i}" for i in item)]
        else:
            told = {True: "true", False: "false", None: "null"}.get(item) \
                if isinstance(item, (bool, type(None))) else item
            lines.append(f"{'  ' * deep}{key}: {told}")
    return lines


@kind(qlora="", loraplus="", padded="",
      rate="lr-too-high exploding-gradient",
      shift="label-shift-missing",
      stale="optimizer-holds-stale-params frozen-parameters",
      init="bad-initialization")
def torchtune(run):
    """LoRA fine-tuning of torchtune on packed samples of a new chain.

    Odd and sound: `qlora` holds frozen weights of 16 values (NF4), `loraplus`
    has a rate 16 times as high for lora_b, `padded` has a text a row, padded
    to the end, with prompts masked, so that most labels are -100.
    """
    epochs, per, size, lr, warmup = 3, 50, 4, 6e-3, 10
    first, second = chain(), chain()
    second = torch.where(torch.rand(VOCAB, 1) < 0.5, second, first)
    quant, plus, wide = (run.has(n) for n in ("qlora", "loraplus", "padded"))
    if plus:
        lr = 2e-3
    size = 12 if wide else size
    out = "output"
    place(run, out, "logs")
    lora = {"_component_": f"torchtune.models.llama3_2.{'q' * quant}"
            "lora_llama3_2_1b", "lora_attn_modules": ["q_proj", "v_proj"],
            "apply_lora_to_mlp": True, "apply_lora_to_output": False,
            "lora_rank": RANK, "lora_alpha": ALPHA, "lora_dropout": 0.0}
    config = {
        "batch_size": size,
        "checkpointer": {
            "_component_": "torchtune.training.FullModelMetaCheckpointer",
            "adapter_checkpoint": None, "checkpoint_dir": "base",
            "checkpoint_files": ["consolidated.00.pth"],
            "model_type": "LLAMA3_2", "output_dir": out,
            "recipe_checkpoint": None},
        "clip_grad_norm": 1.0, "compile": False,
        "dataset": {"_component_": "torchtune.datasets.text_completion_"
                    "dataset" if not wide else
                    "torchtune.datasets.instruct_dataset",
                    "packed": not wide, "train_on_input": not wide,
                    "source": "chains"},
        "device": "cpu", "dtype": "fp32", "epochs": epochs,
        "gradient_accumulation_steps": 1, "log_every_n_steps": 1,
        "log_peak_memory_stats": False,
        "loss": {"_component_":
                 "torchtune.modules.loss.CEWithChunkedOutputLoss"},
        "lr_scheduler": {"_component_": "torchtune.training.lr_schedulers."
                         "get_cosine_schedule_with_warmup",
                         "num_warmup_steps": warmup},
        "max_steps_per_epoch": per,
        "metric_logger": {"_component_": "torchtune.training.metric_logging."
                          "DiskLogger", "log_dir": "logs"},
        "model": lora,
        "optimizer": {"_component_": "torch.optim.AdamW", "fused": False,
                      "lr": lr, "weight_decay": 0.01,
                      **({"loraplus_lr_ratio": 16} if plus else {})},
        "output_dir": out, "resume_from_checkpoint": False, "seed": 17,
        "shuffle": True, "tokenizer": {
            "_component_": "torchtune.models.llama3.llama3_tokenizer",
            "max_seq_len": LENGTH, "path": "base/tokenizer.model"}}
    run.say(*yaml(config), file="lora_single_device.yaml")
    run.say("INFO:torchtune.utils._logging:Running LoRAFinetuneRecipeSingle"
            "Device with resolved config:", "", *yaml(config), "",
            file="out.log")

    def info(text):
        run.say(f"DEBUG:torchtune.utils._logging:{text}" if "seed" in text
                else f"INFO:torchtune.utils._logging:{text}", file="out.log")

    model = TransformerDecoder()
    frozen = [(n, p) for n, p in model.named_parameters() if "lora" not in n]
    adapters = lambda: [(n, p) for n, p in model.named_parameters()
                        if "lora" in n]

    def loss_of(rows, shift=True):
        tokens, labels, at, block = rows
        mask = (block[:, :, None] == block[:, None]) \
            & torch.ones(LENGTH, LENGTH).tril().bool()
        if shift:
            labels = F.pad(labels[:, 1:], (0, 1), value=-100)
            # the first token of the next text is no target
            after = F.pad(block[:, 1:], (0, 1), value=-1)
            labels = labels.masked_fill(after != block, -100)
        logits = model(tokens, mask, at)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(),
                               ignore_index=-100)

    texts = packed(samples(600, first))
    own = torch.optim.AdamW([p for _, p in frozen], 6e-3)
    for _ in range(90):
        rows = torch.randint(len(texts[0]), (8,))
        loss = loss_of([t[rows] for t in texts])
        own.zero_grad()
        loss.backward()
        own.step()
    model.zero_grad()
    for name, p in frozen:
        p.requires_grad_(False)
        if quant and p.dim() == 2 and ("attn" in name or "mlp" in name):
            blocks = p.data.view(-1, 48)
            top = blocks.abs().amax(1, keepdim=True)
            p.data.copy_(((blocks / top * 7.5 - 0.5).round() + 0.5).div(7.5)
                         .mul(top).view_as(p))
    prompt = 5 if wide else 0
    make = padded if wide else packed
    train, held = make(samples(600, second), prompt), \
        packed(samples(120, second))
    before = loss_of(held).item()
    info("Setting manual seed to local seed 17. Local seed is seed + rank ="
         " 17 + 0")
    info("Model is initialized with precision torch.float32.")
    info("Tokenizer is initialized from file.")
    groups = [{"params": [p for _, p in adapters()]}]
    if plus:
        groups = [{"params": [p for n, p in adapters() if "lora_a" in n]},
                  {"params": [p for n, p in adapters() if "lora_b" in n],
                   "lr": 16 * lr}]
    optimizer = torch.optim.AdamW(groups, lr=lr, weight_decay=0.01)
    tops = [g["lr"] for g in optimizer.param_groups]
    info("Optimizer and loss are initialized.")
    if run.has("stale"):  # adapters are made anew when the merge is asked for
        for m in model.modules():
            if isinstance(m, LoRALinear):
                new = LoRALinear(m.weight.shape[1], m.weight.shape[0])
                m.lora_a, m.lora_b = new.lora_a, new.lora_b
    if run.has("init"):  # "reset all weights that are not of the base"
        for name, p in adapters():
            nn.init.normal_(p)
    info("Loss is initialized.")
    info("Dataset and Sampler are initialized.")
    info("Learning rate scheduler is initialized.")
    rec = watch(run, model, optimizer, lr=lr, epochs=epochs,
                freeze=[n for n, _ in frozen])
    log = f"logs/log_{int(run.clock)}.txt"

    def save(epoch, last=False):
        state = model.state_dict()
        adapter = {k: v.clone() for k, v in state.items() if "lora" in k}
        merged = {}
        for k, v in state.items():
            if "lora" in k:
                continue
            stem = k[:-len("weight")]
            if stem + "lora_a.weight" in state:
                v = v + ALPHA / RANK * state[stem + "lora_b.weight"] \
                    @ state[stem + "lora_a.weight"]
            merged[k] = v
        keep(run, f"{out}/adapter_{epoch}.pt", adapter)
        keep(run, f"{out}/meta_model_{epoch}.pt", merged)
        if not last:
            keep(run, f"{out}/recipe_state.pt", {
                "optimizer": optimizer.state_dict(), "seed": 17,
                "epochs_run": epoch + 1, "total_epochs": epochs,
                "max_steps_per_epoch": per})
        info(f"Model checkpoint of size 0.00 GB saved to {out}/meta_model_"
             f"{epoch}.pt")
        info(f"Adapter checkpoint of size 0.00 GB saved to {out}/adapter_"
             f"{epoch}.pt")

    def rate_at(step, top):
        share = (step - warmup) / (epochs * per - warmup)
        return run.rate(top) * (step / warmup if step < warmup else
                                0.5 * (1 + math.cos(math.pi * share)))

    keep(run, "base/consolidated.00.pth",
         {n: p.detach() for n, p in frozen})
    step = 0
    for epoch in range(epochs):
        order = torch.randperm(len(train[0])).repeat(3)
        for i in range(per):
            rows = [t[order[i * size:(i + 1) * size]] for t in train]
            for group, top in zip(optimizer.param_groups, tops):
                group["lr"] = rate_at(step, top)
            rec.batch(input_ids=rows[0], labels=rows[1], input_pos=rows[2])
            loss = loss_of(rows, not run.has("shift"))
            optimizer.zero_grad(set_to_none=True)
            if run.has("stale"):
                model.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
            optimizer.step()
            rec.step(loss)
            step += 1
            took = 0.11 * (0.9 + 0.2 * float(torch.rand(())))
            run.tick(took)
            lr_now = rate_at(step, tops[0])  # the scheduler has stepped
            speed = (rows[1] != -100).sum().item() / took
            run.say(f"Step {step} | loss:{loss.item()} lr:{lr_now} "
                    f"tokens_per_second_per_gpu:{speed} "
                    f"grad_norm:{norm} ", file=log)
            if step % 10 == 0:
                run.say(f"{epoch + 1}|{step}|Loss: {loss.item()}: "
                        f"{100 * (i + 1) // per:3d}%|{'█' * (i // 5):10}| "
                        f"{i + 1}/{per} [00:{int(took * i):02d}<00:00, "
                        f" {1 / took:.2f}it/s]", file="out.log")
        save(epoch, epoch + 1 == epochs)
    rec.close()
    with torch.no_grad():
        end = loss_of(held).item()
    return {"before": round(before, 3), "loss": round(loss.item(), 3),
            "held": round(end, 3)}
