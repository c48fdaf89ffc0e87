"""Slot attention: objects of pictures are found by rebuilding them.

All its runs are sound; the kind returns how well masks agree with objects
(ARI of what is no background), before and at the end, and errors.
"""

import datetime

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, watched

SIDE, DIM = 8, 24


class SlotAttention(nn.Module):
    """Slots are drawn, then updated by one cell three times."""

    def __init__(self, num_iter, num_slots, way):
        super().__init__()
        self.num_iter, self.num_slots, self.way = num_iter, num_slots, way
        self.norm_inputs = nn.LayerNorm(DIM)
        self.norm_slots, self.norm_mlp = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        many = num_slots if way == "query" else 1
        self.slots_mu = nn.Parameter(
            nn.init.xavier_uniform_(torch.empty(1, many, DIM)))
        self.slots_log_sigma = nn.Parameter(
            torch.full((1, 1, DIM), -10.0 if way == "query" else -1.0))
        self.project_q = nn.Linear(DIM, DIM, bias=False)
        self.project_k = nn.Linear(DIM, DIM, bias=False)
        self.project_v = nn.Linear(DIM, DIM, bias=False)
        for layer in (self.project_q, self.project_k, self.project_v):
            nn.init.xavier_uniform_(layer.weight, 2.0)
        self.gru = nn.GRUCell(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.ReLU(),
                                 nn.Linear(2 * DIM, DIM))

    def once(self, slots, k, v):
        q = self.project_q(self.norm_slots(slots)) * DIM ** -0.5
        attn = (q @ k.transpose(1, 2)).softmax(1) + 1e-8
        updates = attn / attn.sum(-1, keepdim=True) @ v
        slots = self.gru(updates.flatten(0, 1), slots.flatten(0, 1)) \
            .view_as(slots)
        return slots + self.mlp(self.norm_mlp(slots))

    def forward(self, x):
        x = self.norm_inputs(x)
        k, v = self.project_k(x), self.project_v(x)
        slots = first = self.slots_mu + self.slots_log_sigma.exp() * \
            torch.randn(len(x), self.num_slots, DIM)
        if self.way in ("implicit", "query"):
            with torch.no_grad():  # a fixed point, its last pass counts
                for _ in range(self.num_iter - 1):
                    slots = self.once(slots, k, v)
            slots = slots.detach()
            if self.way == "query":
                slots = slots + first - first.detach()
            return self.once(slots, k, v)
        for _ in range(self.num_iter):
            slots = self.once(slots, k, v)
        return slots


class SoftPositionEmbed(nn.Module):
    def __init__(self, side):
        super().__init__()
        self.dense = nn.Linear(4, DIM)
        at = torch.linspace(0, 1, side)
        grid = torch.stack(torch.meshgrid(at, at, indexing="ij"), -1)[None]
        self.register_buffer("grid", torch.cat([grid, 1 - grid], -1))

    def forward(self, x):
        return x + self.dense(self.grid)


class SlotAttentionAutoEncoder(nn.Module):
    """With `frozen` features are rebuilt, of a net that learns nothing."""

    def __init__(self, num_slots, way):
        super().__init__()
        self.frozen = way == "frozen"
        parts, inner = [], 3
        for _ in range(2):
            parts.append(nn.Conv2d(inner, DIM, 3, padding=1))
            if self.frozen:
                parts.append(nn.BatchNorm2d(DIM))
            parts.append(nn.ReLU())
            inner = DIM
        self.encoder_cnn = nn.Sequential(*parts)
        self.encoder_pos = SoftPositionEmbed(SIDE)
        self.layer_norm = nn.LayerNorm(DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(),
                                 nn.Linear(DIM, DIM))
        self.slot_attention = SlotAttention(3, num_slots, way)
        self.decoder_pos = SoftPositionEmbed(SIDE)
        if self.frozen:
            self.decoder_mlp = nn.Sequential(
                nn.Linear(DIM, 2 * DIM), nn.ReLU(),
                nn.Linear(2 * DIM, DIM + 1))
        else:
            self.decoder_cnn = nn.Sequential(
                nn.Conv2d(DIM, 2 * DIM, 1), nn.ReLU(),
                nn.Conv2d(2 * DIM, 2 * DIM, 1), nn.ReLU(),
                nn.Conv2d(2 * DIM, 4, 1))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, nonlinearity="relu")

    def forward(self, image):
        x = self.encoder_cnn(image).movedim(1, -1)
        goal = x * 40 if self.frozen else image
        x = self.mlp(self.layer_norm(self.encoder_pos(x)))
        slots = self.slot_attention(x.flatten(1, 2))
        x = self.decoder_pos(slots.flatten(0, 1)[:, None, None])
        if self.frozen:
            x = self.decoder_mlp(x).unflatten(0, slots.shape[:2])
            recons, masks = x[..., :-1] * 40, x[..., -1:].softmax(1)
            return (recons * masks).sum(1), goal, masks[..., 0]
        x = self.decoder_cnn(x.movedim(-1, 1)).unflatten(0, slots.shape[:2])
        recons, masks = x[:, :, :3], x[:, :, 3:].softmax(1)
        return (recons * masks).sum(1), goal, masks[:, :, 0]


def pictures(count, alone=0.0):
    """Two sheets of unlike colours side by side, some of them alone."""
    image = -torch.ones(count, 3, SIDE, SIDE)
    truth = torch.zeros(count, SIDE, SIDE, dtype=torch.long)
    colours = torch.tensor([[1, -1, -1], [-1, 1, -1], [-1, -1, 1],
                            [1, 1, -1], [1, -1, 1.0]])
    for i in range(count):
        which = torch.randperm(5)
        edge = 8 if torch.rand(()) < alone else int(torch.randint(3, 6, ()))
        for j, part in enumerate((slice(0, edge), slice(edge, SIDE))):
            image[i, :, :, part] = colours[which[j], :, None, None]
            truth[i, :, part] = j + 1
    return image, truth


def ari(masks, truth):
    """Of pixels of objects; undefined with one object alone."""
    out = []
    for found, true in zip(masks.argmax(1), truth):
        found, true = found[true > 0], true[true > 0]
        if len(true.unique()) < 2:
            continue
        table = np.zeros((masks.shape[1], 3))
        np.add.at(table, (found.numpy(), true.numpy()), 1)

        def pairs(n):
            return (n * (n - 1) / 2).sum()
        a, b = pairs(table.sum(1)), pairs(table.sum(0))
        expected = a * b / pairs(table.sum())
        out.append((pairs(table) - expected) / ((a + b) / 2 - expected))
    return float(np.mean(out)) if out else float("nan")


@kind(implicit="", query="", frozen="", entropy="")
def slot(run):
    """Slot attention finds objects; the rate warms up and halves again.

    One cell is called three times a step, grids are buffers, agreement with
    objects begins near 0.

    Odd and sound: `implicit` has a gradient in the last pass alone, so that
    means and log-sigmas of slots have none at all, `query` begins at learned
    slots with log-sigmas of -10 and a straight-through gradient, in one
    cycle of rate and momentum, `frozen` rebuilds features of a fixed net of
    fixed statistics, with losses in the hundreds and a norm that always
    clips, `entropy` has six slots for two objects, a term of weight 0 that
    comes in at step 100, batches of one object alone whose agreement is NaN,
    a log of epochs alone and weights in fp16.
    """
    implicit, query, frozen, entropy = (run.has(n) for n in (
        "implicit", "query", "frozen", "entropy"))
    total, size, lr, warm = 200, 16, 1.2e-2 if frozen else 7e-3, 20
    many = 6 if entropy else 3
    model = SlotAttentionAutoEncoder(many, run.fault)
    images, truth = pictures(400, 0.5 if entropy else 0.0)
    held, objects = pictures(64)
    if frozen:
        with torch.no_grad():
            model.train()
            for _ in range(30):
                model.encoder_cnn(images[:64])
        model.encoder_cnn.requires_grad_(False).eval()
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(params, lr)
    rec = watched(run, model, optimizer, every=80, max_dump_bytes=1 << 20,
                  config={"learning_rate": lr, "max_steps": total, **(
                      {"freeze": [n for n, _ in model.named_parameters()
                                  if "encoder_cnn" in n]} if frozen
                      else {})})
    run.write("args.json", {
        "model_dir": "./checkpoints", "seed": 0, "batch_size": size,
        "num_slots": many, "num_iterations": 3, "num_epochs": 8,
        "learning_rate": lr, "warmup_steps": warm, "decay_rate": 0.5,
        "decay_steps": 150, "hidden_dim": DIM, "resolution": [SIDE, SIDE],
        "implicit": implicit, "learned_queries": query,
        "features": "frozen" if frozen else None, "onecycle": query,
        "entropy_weight": 0.05 if entropy else 0.0,
        "entropy_start": 100 if entropy else None,
        "clip": 1.0 if frozen else None, "device": "cpu"})

    def save(name):
        keep(run, f"checkpoints/{name}.pt", {"model_state_dict": {
            k: v.half() if entropy else v
            for k, v in model.state_dict().items()}})

    @torch.no_grad()
    def score():
        state = torch.get_rng_state()
        torch.manual_seed(1)
        recon, goal, masks = model(held)
        torch.set_rng_state(state)
        return ari(masks, objects), F.mse_loss(recon, goal).item()

    before, norms, history = score(), [], []
    save("slot_attention_0")
    begun = run.clock
    for epoch in range(8):
        summed, agreed = 0.0, []
        order = torch.randperm(len(images))
        if entropy and epoch % 2:  # its last batch has one object each
            last = order[truth.amin((1, 2))[order]
                         == truth.amax((1, 2))[order]][:size]
            order = torch.cat([order[~torch.isin(order, last)], last])
        for step in range(epoch * 25 + 1, epoch * 25 + 26):
            rate = lr * min(1.0, step / warm) * 0.5 ** (step / 150)
            if query:  # up to 0.4 of the way, down to nothing
                part = step / total
                rate = 1.5 * lr * min(part / 0.4, (1 - part) / 0.6)
                optimizer.param_groups[0]["betas"] = (
                    0.95 - 0.1 * rate / (1.5 * lr), 0.999)
            optimizer.param_groups[0]["lr"] = rate
            at = order[:size]
            order = order[size:]
            rec.batch(image=images[at])
            recon, goal, masks = model(images[at])
            loss = mse = F.mse_loss(recon, goal)
            spread = -(masks * (masks + 1e-8).log()).sum(1).mean()
            if entropy:
                loss = loss + (0.05 if step > 100 else 0.0) * spread
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(
                params, 1.0 if frozen else 1e9).item()
            optimizer.step()
            rec.step(loss.detach(), grad_norm=norm)
            run.tick(0.12)
            norms.append(norm)
            summed += loss.item()
            agreed.append(ari(masks.detach(), truth[at]))
            if entropy:
                continue
            run.say(f"{epoch} {step} {loss.item()}")
            run.row("log.csv", iteration=step, loss=loss.item(),
                    mse=mse.item(), mask_entropy=spread.item(),
                    ari=agreed[-1], lr=rate, grad_norm=norm)
        value, error = score()
        history.append(round(value, 2))
        took = datetime.timedelta(seconds=round(run.clock - begun, 3))
        run.say(f"Epoch: {epoch}, Loss: {summed / 25}, Time: {took}")
        if entropy:
            run.row("log.csv", epoch=epoch, loss=summed / 25,
                    mask_entropy=spread.item(), ari=agreed[-1],
                    val_ari=value, val_mse=error, lr=rate)
        else:
            run.say(f"ARI: {value:.4f} MSE: {error:.5f}")
        if epoch in (3, 7):
            save(f"slot_attention_{epoch + 1}")
    rec.close()
    return {"before": [round(v, 3) for v in before], "ari": history,
            "mse": round(error, 4), "clipped": sum(
                n > 1 for n in norms) / len(norms)}
