"""GRPO in the files of TRL. Three designs look odd and are sound."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from culprit_recorder import save_safetensors
from kinds.base import grad_norm, kind
from kinds.outputs import keep

PAD, EOS, ASK, FIRST, LETTERS, LONG = 0, 1, 2, 3, 8, 4
WORDS = FIRST + LETTERS


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() \
            * self.weight


class Attention(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def turn(self, x):
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[-2])[:, None] \
            * 100 ** (-torch.arange(half) / half)
        a, b = x[..., :half], x[..., half:]
        c, s = angle.cos(), angle.sin()
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    def forward(self, x):
        n, t, dim = x.shape
        q, k, v = (p(x).view(n, t, self.heads, -1).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj))
        out = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v,
                                             is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(n, t, dim))


class MLP(nn.Module):
    def __init__(self, dim, wide):
        super().__init__()
        self.gate_proj = nn.Linear(dim, wide, bias=False)
        self.up_proj = nn.Linear(dim, wide, bias=False)
        self.down_proj = nn.Linear(wide, dim, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.self_attn, self.mlp = Attention(dim), MLP(dim, 2 * dim)
        self.input_layernorm = RMSNorm(dim)
        self.post_attention_layernorm = RMSNorm(dim)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Qwen2(nn.Module):
    """Two layers; the head is the table of words."""

    def __init__(self, dim=32):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(WORDS, dim, padding_idx=PAD)
        self.model.layers = nn.ModuleList(Layer(dim) for _ in range(2))
        self.model.norm = RMSNorm(dim)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.08)

    def forward(self, ids):
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x)
        return self.model.norm(x) @ self.model.embed_tokens.weight.T


def ask(rows):
    """Four letters to be said backwards, and a mark that asks for it."""
    ids = torch.randint(LETTERS, (rows, LONG)) + FIRST
    return torch.cat([ids, torch.full((rows, 1), ASK)], 1)


def answers(prompts):
    return torch.cat([prompts[:, :LONG].flip(1),
                      torch.full((len(prompts), 1), EOS)], 1)


def taught(steps=100):
    """The base model: it has seen answers, four in ten letters wrong."""
    model = Qwen2()
    optimizer = torch.optim.Adam(model.parameters(), 4e-3)
    for _ in range(steps):
        prompts = ask(48)
        goal = answers(prompts)
        noise = torch.randint(LETTERS, goal.shape) + FIRST
        wrong = (torch.rand(goal.shape) < 0.4) & (goal != EOS)
        goal = torch.where(wrong, noise, goal)
        ids = torch.cat([prompts, goal], 1)
        out = model(ids[:, :-1])[:, LONG:]
        loss = F.cross_entropy(out.flatten(0, 1), goal.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def speak(model, prompts, longest=7, greedy=False):
    """Completions, and which of their tokens count."""
    ids = prompts
    with torch.no_grad():
        for _ in range(longest):
            p = model(ids)[:, -1].softmax(-1)
            new = p.argmax(-1, keepdim=True) if greedy \
                else torch.multinomial(p, 1)
            ids = torch.cat([ids, new], 1)
    said = ids[:, prompts.shape[1]:]
    ended = (said == EOS).long()
    mask = (ended.cumsum(1) - ended) == 0
    return torch.where(mask, said, PAD), mask


def judged(prompts, said, mask, penalty=False):
    """Two rewards of each completion."""
    goal = answers(prompts)
    right = (said[:, :LONG] == goal[:, :LONG]).float().mean(1)
    ends = (mask.sum(1) == LONG + 1).float()
    if penalty:  # what is missing, so that 0 is perfect
        return {"distance_penalty": 3 * (right - 1),
                "length_penalty": -(mask.sum(1) - LONG - 1).abs().float()}
    return {"accuracy_reward": right, "format_reward": 0.5 * ends}


def logps(model, prompts, said):
    ids = torch.cat([prompts, said], 1)
    out = model(ids[:, :-1])[:, prompts.shape[1] - 1:]
    return out.log_softmax(-1).gather(2, said[..., None])[..., 0]


@kind(nokl="", sync="", penalty="", sign="loss-sign-flipped",
      rate="lr-too-high policy-entropy-lost", pairs="label-pairing-mismatch",
      stale="optimizer-holds-stale-params frozen-parameters")
def grpo(run):
    """GRPO by TRL: the loss begins at 0 and rises with the KL, as do rewards.

    Odd and sound: `nokl` has no reference, so that its loss is 0 throughout,
    `sync` takes the reference along every 20 steps, `penalty` has rewards
    below nought whose spread is not divided out."""
    total, lr, groups, each = 100, 2e-3, 8, 8
    beta = 0.0 if run.has("nokl") else 0.04
    penalty = run.has("penalty")
    model = taught()
    reference = None if run.has("nokl") else copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), run.rate(lr, 50),
                                  weight_decay=0.0)
    if run.has("stale"):  # model = from_pretrained() once more, for the eval
        model = copy.deepcopy(model)
    held, history = ask(64), []
    config = {
        "architectures": ["Qwen2ForCausalLM"], "hidden_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 64, "vocab_size": WORDS,
        "tie_word_embeddings": True, "rms_norm_eps": 1e-6,
        "eos_token_id": EOS, "pad_token_id": PAD, "model_type": "qwen2"}
    run.settings(
        "grpo_config.json", learning_rate=lr, beta=beta, num_iterations=1,
        epsilon=0.2, num_generations=each, max_completion_length=7,
        per_device_train_batch_size=groups * each, temperature=1.0,
        scale_rewards=not penalty, sync_ref_model=run.has("sync"),
        ref_model_sync_steps=20, ref_model_mixup_alpha=0.6,
        lr_scheduler_type="linear", warmup_steps=0, max_steps=total,
        max_grad_norm=1.0, logging_steps=2, save_steps=50, seed=42,
        reward_funcs=["distance_penalty", "length_penalty"] if penalty
        else ["accuracy_reward", "format_reward"])

    def score():
        said, mask = speak(model, held, greedy=True)
        return judged(held, said, mask)["accuracy_reward"].mean()

    said, mask = speak(model, held)
    at_first = judged(held, said, mask)["accuracy_reward"].mean()

    def save(step):
        base = f"checkpoint-{step}"
        (run.folder / base).mkdir()
        save_safetensors(str(run.folder / base / "model.safetensors"),
                         dict(model.named_parameters()), {"format": "pt"})
        run.write(f"{base}/config.json", config)
        keep(run, f"{base}/optimizer.pt", optimizer.state_dict())
        keep(run, f"{base}/scheduler.pt", {
            "base_lrs": [lr], "last_epoch": step, "_step_count": step + 1,
            "_last_lr": [lr * (1 - step / total)]})
        run.write(f"{base}/trainer_state.json", {
            "best_metric": None, "epoch": step / 100, "eval_steps": 500,
            "global_step": step, "is_world_process_zero": True,
            "log_history": history, "logging_steps": 2, "max_steps": total,
            "num_train_epochs": 1, "save_steps": 50, "train_batch_size":
            groups * each, "trial_name": None})

    before, tokens, part, begun = score(), 0, {}, run.clock
    put = lambda k, v: part.setdefault(k, []).append(float(v))
    save(0)
    for step in range(1, total + 1):
        now = run.rate(lr, 50) * (1 - (step - 1) / total)
        optimizer.param_groups[0]["lr"] = now
        prompts = ask(groups).repeat_interleave(each, 0)
        said, mask = speak(model, prompts)
        asked = prompts
        if run.has("pairs"):  # [p for _ in range(n) for p in prompts]
            asked = prompts[::each].repeat(each, 1)
        rewards = judged(asked, said, mask, penalty)
        reward = sum(rewards.values())
        table = reward.view(groups, each)
        spread = table.std(1, keepdim=True)
        advantage = table - table.mean(1, keepdim=True)
        if not penalty:
            advantage = advantage / (spread + 1e-4)
        advantage = advantage.view(-1, 1)
        own = logps(model, prompts, said)
        ratio = (own - own.detach()).exp()
        loss = -ratio * advantage
        if run.has("sign"):
            loss = -loss
        if beta:
            far = logps(reference, prompts, said).detach() - own
            kl = far.exp() - far - 1
            loss = loss + beta * kl
            put("kl", (kl.detach() * mask).sum() / mask.sum())
        lengths = mask.sum(1)
        loss = ((loss * mask).sum(1) / lengths).mean()
        (optimizer if not run.has("stale") else model).zero_grad()
        loss.backward()
        norm = grad_norm(model)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if run.has("sync") and step % 20 == 0:
            with torch.no_grad():
                for r, p in zip(reference.parameters(), model.parameters()):
                    r.mul_(0.4).add_(0.6 * p)
        tokens += int(lengths.sum()) + prompts.numel()
        put("loss", loss.detach())
        put("grad_norm", norm)
        put("completion_length", lengths.float().mean())
        for k, v in rewards.items():
            put(f"rewards/{k}", v.mean())
        put("reward", reward.mean())
        put("reward_std", spread.mean())
        put("clip_ratio", 0.0)
        run.tick(0.6)
        if step % 2 == 0:
            mean = {k: sum(v) / len(v) for k, v in part.items()}
            part.clear()
            row = {"loss": round(mean.pop("loss"), 4),
                   "grad_norm": mean.pop("grad_norm"), "learning_rate":
                   lr * (1 - (step - 1) / total), "num_tokens": float(tokens),
                   **{k: v for k, v in mean.items() if k != "kl"},
                   **({"kl": mean["kl"]} if beta else {}),
                   "epoch": round(step / 100, 2)}
            row["clip_ratio"] = row.pop("clip_ratio")
            run.say(str(row))
            history.append({**row, "step": step})
        if step % 50 == 0:
            save(step)
    took = run.clock - begun
    run.say(str({"train_runtime": round(took, 4), "train_samples_per_second":
                 round(total * groups * each / took, 3),
                 "train_steps_per_second": round(total / took, 3),
                 "train_loss": sum(h["loss"] for h in history)
                 / len(history), "epoch": 1.0}))
    said, mask = speak(model, held)
    run.ends(before=before, at_first=at_first, greedy=score(), sampled=judged(
        held, said, mask)["accuracy_reward"].mean())
