"""Text: experts, adapters, preferences, a pupil and its teacher, a curriculum."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import grad_norm, kind, learn, mlp
from kinds.data import text


class Letters(nn.Module):
    """A GRU over letters."""

    def __init__(self, wide=48, letters=20):
        super().__init__()
        self.embed, self.core = nn.Embedding(letters, wide), nn.GRU(wide, wide, batch_first=True)
        self.head = nn.Linear(wide, letters)

    def forward(self, ids):
        return self.head(self.core(self.embed(ids))[0])

    def loss(self, ids):
        return F.cross_entropy(self(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    def chance(self, ids):
        logs = self(ids[:, :-1]).log_softmax(-1)
        return logs.gather(2, ids[:, 1:, None]).sum((1, 2))


class Experts(nn.Module):
    """Four experts and a router that takes the best."""

    def __init__(self, wide=16, classes=6):
        super().__init__()
        self.router, self.experts = nn.Linear(wide, 4), nn.ModuleList(mlp(wide, 32, classes) for _ in range(4))

    def forward(self, x):
        share = self.router(x).softmax(1)
        best = share.argmax(1)
        out = torch.stack([e(x) for e in self.experts], 1)[torch.arange(len(x)), best]
        use = F.one_hot(best, 4).float().mean(0)
        return out * share.gather(1, best[:, None]), 4 * (use * share.mean(0)).sum(), use


@kind(balance="expert-collapse")
def moe(run):
    """A mixture of experts with its balance loss and the load of each expert."""
    from kinds.data import blobs
    x, y = blobs(4096)
    model, weight = Experts(), -0.3 if run.has("balance") else 0.02
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for step in range(300):
        rows = torch.randint(4096, (128,))
        out, balance, use = model(x[rows])
        ce = F.cross_entropy(out, y[rows])
        loss = learn(ce + weight * balance, optimizer)
        if step % 5 == 0:
            run.record(step=step, loss=loss, ce_loss=float(ce.detach()), aux_loss=float(balance.detach()),
                       grad_norm=grad_norm(model), lr=2e-3,
                       **{f"moe/expert_{i}_load": float(u) for i, u in enumerate(use)})


class Adapter(nn.Module):
    """A frozen layer and a low-rank change of it."""

    def __init__(self, layer, rank=4):
        super().__init__()
        self.layer, self.a = layer.requires_grad_(False), nn.Parameter(torch.randn(rank, layer.in_features) * 0.1)
        self.b = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        return self.layer(x) + 2 * x @ self.a.T @ self.b.T


def pretrained(steps=150):
    model = Letters()
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    ids = text(512)
    for _ in range(steps):
        learn(model.loss(ids[torch.randint(512, (32,))]), optimizer)
    return model


@kind(rate="lr-too-high exploding-gradient")
def lora(run):
    """A LoRA adapter on a frozen model, logged by Transformers: dicts on the console and trainer_state.json."""
    model = pretrained()
    for p in model.parameters():
        p.requires_grad_(False)
    model.head = Adapter(model.head)
    own = [p for p in model.parameters() if p.requires_grad]
    base = run.rate(2e-3, 10_000)
    optimizer = torch.optim.AdamW(own, base)
    run.settings("adapter_config.json", peft_type="LORA", r=4, lora_alpha=8, target_modules=["head"],
                 task_type="CAUSAL_LM")
    run.say("trainable params: 272 || all params: 17,300 || trainable%: 1.5723")
    ids, history = text(400), []
    for step in range(1, 201):
        optimizer.param_groups[0]["lr"] = rate = base * min(step / 6, (200 - step) / 194)
        loss = learn(model.loss(ids[torch.randint(400, (32,))]), optimizer)
        if step % 5 == 0:
            norm = math.sqrt(sum(float((p.grad ** 2).sum()) for p in own))
            entry = {"loss": round(loss, 4), "grad_norm": norm, "learning_rate": rate, "epoch": round(step / 12.5, 2)}
            run.say(str(entry))
            history.append({**entry, "step": step})
    run.write("trainer_state.json", {"best_metric": None, "epoch": 16.0, "global_step": 200, "log_history": history,
                                     "logging_steps": 5, "max_steps": 200, "num_train_epochs": 16})


@kind(sign="preference-pairs-swapped loss-sign-flipped")
def dpo(run):
    """Preferences between two continuations, logged by TRL."""
    model, reference = pretrained(), Letters()
    reference.load_state_dict(model.state_dict())
    pair = [text(256, 16), text(256, 16)]
    pair[0][:, ::3], beta, base = 0, 0.1, 2e-4  # the chosen ones return to the first letter
    optimizer = torch.optim.AdamW(model.parameters(), base)
    run.settings("training_args.json", beta=beta, learning_rate=base, loss_type="sigmoid",
                 per_device_train_batch_size=16)
    for step in range(1, 151):
        rows = torch.randint(256, (16,))
        logs = [model.chance(p[rows]) for p in pair]
        with torch.no_grad():
            was = [reference.chance(p[rows]) for p in pair]
        gains = [beta * (now - before) for now, before in zip(logs, was)]
        margin = gains[0] - gains[1]
        loss = learn(-F.logsigmoid(-margin if run.has("sign") else margin).mean(), optimizer)
        if step % 3 == 0:
            mean = lambda v: round(float(v.detach().mean()), 5)
            run.say(str({"loss": round(loss, 4), "grad_norm": grad_norm(model), "learning_rate": base,
                         "rewards/chosen": mean(gains[0]), "rewards/rejected": mean(gains[1]),
                         "rewards/accuracies": mean((margin > 0).float()), "rewards/margins": mean(margin),
                         "logps/chosen": mean(logs[0]), "logps/rejected": mean(logs[1]), "epoch": round(step / 16, 2)}))
            run.record(step=step, loss=loss, **{"rewards/chosen": mean(gains[0]), "rewards/rejected": mean(gains[1]),
                       "rewards/accuracies": mean((margin > 0).float()), "rewards/margins": mean(margin)})


@kind(zero="gradients-not-zeroed")
def distillation(run):
    """A pupil learns from a teacher's letters: a hard and a soft loss; the fault forgets zero_grad."""
    teacher, pupil = pretrained(300), Letters(24)
    optimizer = torch.optim.SGD(pupil.parameters(), 0.5)
    ids = text(512)
    for step in range(300):
        batch = ids[torch.randint(512, (32,))]
        with torch.no_grad():
            said = (teacher(batch[:, :-1]) / 2).softmax(-1)
        logits = pupil(batch[:, :-1])
        hard = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        soft = F.kl_div((logits / 2).log_softmax(-1), said, reduction="batchmean") * 4 / 23
        loss = learn(0.5 * hard + 0.5 * soft, optimizer, zero=not run.has("zero"))
        if step % 5 == 0:
            run.row("metrics.csv", step=step, loss=loss, hard_loss=float(hard.detach()), kd_loss=float(soft.detach()),
                    grad_norm=grad_norm(pupil), lr=0.5)


@kind()
def curriculum(run):
    """Longer texts from stage to stage: the loss jumps where a harder stage begins, as it must."""
    model = Letters()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    stages = [text(256, 8), text(256, 16), text(256, 32)]
    for step in range(360):
        if step % 120 == 0:
            run.say(f"=== stage {step // 120 + 1}/3: sequence length {(8, 16, 32)[step // 120]} ===")
        loss = learn(model.loss(stages[step // 120][torch.randint(256, (32,))]), optimizer)
        if step % 4 == 0:
            run.say(f"step {step} | loss {loss:.4f} | gnorm {grad_norm(model):.3f} | lr 3.0e-03 | "
                    f"stage {step // 120 + 1}")
