"""Energies of pictures: contrastive divergence, JEM, scores, an RBM.

All runs are sound. The kind returns how well its run ended, on pictures that
it did not train on.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import spectral_norm

from kinds.base import kind
from kinds.outputs import keep, watch

SIDE, CLASSES = 8, 4


class ResBlock(nn.Module):
    def __init__(self, inner, outer, norm):
        super().__init__()
        self.conv1 = norm(nn.Conv2d(inner, outer, 3, padding=1))
        self.conv2 = norm(nn.Conv2d(outer, outer, 3, padding=1))
        self.skip = norm(nn.Conv2d(inner, outer, 1, bias=False))

    def forward(self, x):
        out = self.conv2(F.silu(self.conv1(x)))
        return F.avg_pool2d(F.silu(out + self.skip(x)), 2)


class EBM(nn.Module):
    def __init__(self, norm=spectral_norm, wide=8):
        super().__init__()
        self.conv1 = norm(nn.Conv2d(1, wide, 3, padding=1))
        self.blocks = nn.ModuleList([ResBlock(wide, wide, norm),
                                     ResBlock(wide, 2 * wide, norm)])
        self.linear = nn.Linear(8 * wide, 1)

    def features(self, x):
        x = F.silu(self.conv1(x))
        for block in self.blocks:
            x = block(x)
        return x.flatten(1)

    def forward(self, x):
        return self.linear(self.features(x))


class CCF(EBM):
    """JEM: its energy is the sum of exponents of its classes.

    The head of energies is there for models without classes."""

    def __init__(self):
        super().__init__(lambda m: m, 8)
        del self.linear
        self.energy_output = nn.Linear(64, 1)
        self.class_output = nn.Linear(64, CLASSES)

    def classify(self, x):
        return self.class_output(self.features(x))

    def forward(self, x):
        return self.classify(x).logsumexp(1)


class Score(nn.Module):
    def __init__(self, sigmas, wide=96):
        super().__init__()
        self.register_buffer("sigmas", sigmas)
        self.embed = nn.Embedding(len(sigmas), wide)
        self.gate = nn.Embedding(len(sigmas), wide)
        self.lin1 = nn.Linear(2, wide)
        self.lin2 = nn.Linear(wide, wide)
        self.lin3 = nn.Linear(wide, 2)

    def forward(self, x, y):
        sigma = self.sigmas[y][:, None]
        x = x / (9 + sigma ** 2).sqrt()
        h = F.silu(self.lin1(x) * self.embed(y))
        h = F.silu(self.lin2(h) * self.gate(y)) + h
        return self.lin3(h) / sigma


class RBM(nn.Module):
    def __init__(self, seen, hidden):
        super().__init__()
        self.W = nn.Parameter(0.01 * torch.randn(hidden, seen))
        self.v_bias = nn.Parameter(torch.zeros(seen))
        self.h_bias = nn.Parameter(torch.zeros(hidden))

    def up(self, v):
        return F.linear(v, self.W, self.h_bias).sigmoid()

    def down(self, h):
        return F.linear(h, self.W.T, self.v_bias).sigmoid()

    def free_energy(self, v):
        hidden = F.softplus(F.linear(v, self.W, self.h_bias)).sum(1)
        return -v @ self.v_bias - hidden


def shapes(rows):
    """Two lines each way, a frame or a block, in grey of 0 to 1."""
    y = torch.randint(CLASSES, (rows,))
    x = torch.full((rows, 1, SIDE, SIDE), 0.1)
    for i, c in enumerate(y.tolist()):
        a, b = (2 * torch.randint(0, 2, (2,))).tolist()
        if c == 0:
            x[i, 0, a], x[i, 0, a + 4] = 0.9, 0.9
        elif c == 1:
            x[i, 0, :, a], x[i, 0, :, a + 4] = 0.9, 0.9
        else:
            x[i, 0, a:a + 4, b:b + 4] = 0.9
            if c == 2:
                x[i, 0, a + 1:a + 3, b + 1:b + 3] = 0.1
    return (x + 0.06 * torch.randn_like(x)).clamp(0, 1), y


def auc(low, high):
    return (low.flatten()[:, None] < high.flatten()[None]).float() \
        .mean().item()


def other(x):
    """The same pictures with their points in another order."""
    flat = x.flatten(1)
    order = torch.rand_like(flat).argsort(1)
    return flat.gather(1, order).view_as(x)


def near(x, data):
    """How far from any picture of the data, by point."""
    return torch.cdist(x.flatten(1), data.flatten(1)).min(1).values.mean() \
        .item() / SIDE


def rbm(run):
    """CD-1 by hand; its log is the error of reconstruction alone."""
    model = RBM(SIDE * SIDE, 32)
    data = (shapes(400)[0].flatten(1) > 0.5).float()
    held = (shapes(200)[0].flatten(1) > 0.5).float()
    moved = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
    run.write("params.json", {"hidden": 32, "k": 1, "lr": 0.1, "batch": 20,
                              "momentum": [0.5, 0.9], "weight_cost": 2e-4})
    with torch.no_grad():
        for epoch in range(1, 13):
            error, momentum = 0.0, 0.5 if epoch <= 5 else 0.9
            for v in data[torch.randperm(400)].split(20):
                h = model.up(v)
                v1 = model.down(torch.bernoulli(h))
                h1 = model.up(v1)
                grads = {"W": (h.T @ v - h1.T @ v1) / 20 - 2e-4 * model.W,
                         "v_bias": (v - v1).mean(0),
                         "h_bias": (h - h1).mean(0)}
                for n, p in model.named_parameters():
                    moved[n].mul_(momentum).add_(grads[n], alpha=0.1)
                    p.add_(moved[n])
                error += (v - v1).square().sum().item()
            run.tick(2)
            run.say(f"epoch {epoch:4d} error {error:6.1f}", file="train.log")
            if epoch in (1, 6, 12):
                keep(run, f"rbm_{epoch}.pt", model.state_dict())
        low, high = model.free_energy(held), model.free_energy(
            other(held.view(-1, 1, SIDE, SIDE)).flatten(1))
    return {"error": round(error, 1), "auc": round(auc(low, high), 3)}


def scores(run):
    """Denoising scores with noises from 100 to 0.01, weighted by sigma^2."""
    sigmas = torch.logspace(2, -2, 10)
    model = Score(sigmas)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    turn = torch.arange(6) * math.pi / 3
    modes = 5 * torch.stack([turn.cos(), turn.sin()], 1)
    draw = lambda n: modes[torch.randint(6, (n,))] + 0.2 * torch.randn(n, 2)
    run.say("training:", "  batch_size: 256", "  n_iters: 800",
            "  anneal_power: 2.0", "model:", "  sigma_begin: 100",
            "  sigma_end: 0.01", "  num_classes: 10", "optim:",
            "  lr: 0.005", "  optimizer: Adam", file="config.yml")
    rec = watch(run, model, optimizer, lr=5e-3, max_steps=800)

    def loss_of(x):
        y = torch.randint(10, (len(x),))
        sigma, noise = sigmas[y][:, None], torch.randn_like(x)
        out = model(x + sigma * noise, y)
        goal = -noise / sigma
        return (0.5 * (out - goal).square().sum(1)
                * sigma[:, 0] ** 2).mean(), x + sigma * noise

    for step in range(1, 801):
        loss, x = loss_of(draw(256))
        rec.batch(x=x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rec.step(loss.detach())
        run.tick(0.02)
        with torch.no_grad():
            test = loss_of(draw(256))[0] if step % 10 == 0 else 0
        head = f"INFO - anneal_runner.py - {run.stamp()},000 - "
        if step % 10 == 0:
            run.say(f"{head}step: {step}, loss: {loss.item()}",
                    file="stdout.txt")
            run.say(f"{head}step: {step}, test_loss: {test.item()}",
                    file="stdout.txt")
        if step in (1, 400, 800):
            for name in (f"checkpoint_{step}.pth", "checkpoint.pth"):
                keep(run, name, [model.state_dict(), optimizer.state_dict()])
    rec.close()
    x = 100 * torch.randn(200, 2) + modes[0]
    with torch.no_grad():
        for i, sigma in enumerate(sigmas):
            for _ in range(15):
                a = 0.2 * sigma ** 2
                x = x + a * model(x, torch.full((200,), i)) \
                    + (2 * a).sqrt() * torch.randn_like(x)
    far = torch.cdist(x, modes).min(1)
    return {"loss": round(loss.item(), 3),
            "far": round(far.values.median().item(), 2),
            "modes": len(far.indices.unique())}


@kind(kl="", jem="", dsm="", rbm="")
def ebm(run):
    """Energies of pictures by contrastive divergence with a buffer of chains.

    The loss hovers about 0 and the norm is clipped at nearly every step. Odd
    and sound: `kl` learns through the last step of its chains as well and
    keeps an average (improved contrastive divergence), `jem` is a classifier
    with an idle head, and energies weigh 0.05, `dsm` has scores with
    noises from 100 to 0.01, `rbm` is by hand with the error alone in its log.
    """
    if run.has("rbm"):
        return rbm(run)
    if run.has("dsm"):
        return scores(run)
    kl, jem = run.has("kl"), run.has("jem")
    total, size, chain = 130, 20, 7
    rate, noise = (1.0, 0.01) if jem else (10.0, 0.01)
    lr = 6e-3 if jem else 5e-3
    model = CCF() if jem else EBM(spectral_norm)
    optimizer = torch.optim.Adam(model.parameters(), lr,
                                 betas=(0.9 if jem else 0.0, 0.999))
    data, labels = shapes(512)
    held, truth = shapes(200)
    buffer = torch.rand(96, 1, SIDE, SIDE)
    average = {k: v.clone() for k, v in model.state_dict().items()}
    sign = -1 if jem else 1  # JEM's f is high where data are
    rec = watch(run, model, optimizer, lr=lr, max_steps=total) \
        if not run.fault or jem else None
    args = {"lr": lr, "batch_size": size, "n_steps": chain, "step_lr": rate,
            "noise_scale": noise, "buffer_size": 96, "reinit_freq": 0.05,
            "alpha": 0.1 if jem else 0.03,
            "p_x_weight": 0.05 if jem else 1.0, "clip": 1.0 if jem else 0.01,
            "kl_coeff": 0.1 if kl else 0.0}
    run.write("params.txt" if jem else "args.json", args)

    low = 0.1 if jem else 0.03

    def energy(x):
        return sign * model(x).view(-1)

    def sample(x):
        for _ in range(chain):
            x = (x + noise * torch.randn_like(x)).detach() \
                .requires_grad_(True)
            grad = torch.autograd.grad(energy(x).sum(), x)[0]
            x = (x.detach() - rate * grad.clamp(-low, low)).clamp(0, 1)
        return x.detach(), grad

    def save(step):
        if jem:
            keep(run, f"ckpt_{step // 16}.pt", {
                "model_state_dict": model.state_dict(),
                "replay_buffer": buffer})
        elif kl:
            keep(run, f"model_{step}.pth", {
                "optimizer_state_dict": optimizer.state_dict(),
                "model_state_dict_0": model.state_dict(),
                "ema_model_state_dict_0": average})
        else:
            keep(run, f"checkpoint/{step:05d}.model", model.state_dict())
            keep(run, f"checkpoint/buffer_{step:05d}.pt", buffer)

    save(0)
    for step in range(total):
        if jem:  # the first steps are a warm-up of the rate
            optimizer.param_groups[0]["lr"] = lr * min(1, step / 20)
        rows = torch.randint(512, (size,))
        at = torch.randint(96, (size,))
        fresh = (torch.rand(size, 1, 1, 1) < 0.05).float()
        begun = fresh * torch.rand(size, 1, SIDE, SIDE) \
            + (1 - fresh) * buffer[at]
        model.requires_grad_(False)
        negative, grad = sample(begun)
        model.requires_grad_(True)
        buffer[at] = negative
        true = data[rows] + 0.01 * torch.randn(size, 1, SIDE, SIDE)
        if rec:
            rec.batch(x=true, y=labels[rows])
        pos, neg = energy(true), energy(negative)
        apart = (pos - neg).mean()
        loss = apart + 0.03 * (pos ** 2 + neg ** 2).mean() \
            if not jem else apart + 0.1 * (pos ** 2 + neg ** 2).mean()
        row = {"e_pos": pos.mean().item(), "e_pos_std": pos.std().item(),
               "e_neg": neg.mean().item(), "e_diff": apart.item(),
               "e_neg_std": neg.std().item(),
               "im_grad": grad.abs().mean().item()}
        if kl:
            x = negative.clone().requires_grad_(True)
            move = torch.autograd.grad(energy(x).sum(), x,
                                       create_graph=True)[0]
            x = (negative - rate * move).clamp(0, 1)
            model.requires_grad_(False)
            told = energy(x).mean()
            model.requires_grad_(True)
            gap = torch.cdist(x.flatten(1), buffer.flatten(1)[:100])
            repel = gap.clamp(1e-3).min(1).values.log().mean()
            loss = loss + 0.1 * told - 0.0003 * repel
            row |= {"loss_kl": told.item(), "loss_repel": -repel.item()}
        if jem:
            logits = model.classify(true)
            said = F.cross_entropy(logits, labels[rows])
            hit = (logits.argmax(1) == labels[rows]).float().mean()
            loss = 0.05 * loss + said
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(),
                                        args["clip"])
        optimizer.step()
        if rec:
            rec.step(loss.detach())
        for k, v in model.state_dict().items():
            average[k] = average[k] * 0.95 + v * 0.05
        run.tick(0.2)
        if jem:
            epoch, i = divmod(step, 16)
            if step % 2 == 0:
                a, b = -row["e_pos"], -row["e_neg"]
                run.say(f"P(x) | {epoch}:{i:>d} f(x_p_d)={a:>14.9f} "
                        f"f(x_q)={b:>14.9f} d={a - b:>14.9f}",
                        f"P(y|x) {epoch}:{step:>d} loss={said.item():>14.9f},"
                        f" acc={hit.item():>14.9f}", file="log.txt")
            if i == 15:
                with torch.no_grad():
                    out = model.classify(held)
                right = (out.argmax(1) == truth).float().mean().item()
                run.say(f"Epoch {epoch}: Valid Loss "
                        f"{F.cross_entropy(out, truth).item()}, Valid Acc "
                        f"{right}", file="log.txt")
        elif kl:
            if step % 10 == 0:
                told = {"loss": loss.item(), **row, "epoch": step // 16}
                run.say("".join(f"{k}: {v}  " for k, v in told.items()),
                        file="train.log")
        else:
            run.say(f"loss: {loss.item():.5f}", file="train.log")
            run.row("log.csv", iter=step, loss=loss.item(), **row,
                    grad_norm=norm.item(), step_size=rate, noise=noise)
        if step + 1 in (total // 2, total):
            save(step + 1)
    if rec:
        rec.close()
    with torch.no_grad():
        good = auc(energy(held), energy(other(held)))
        noisy = auc(energy(held), energy(torch.rand_like(held)))
    found = {"loss": round(loss.item(), 3), "diff": round(row["e_diff"], 3),
             "norm": round(norm.item(), 2), "auc": round(good, 3),
             "noise": round(noisy, 3), "near": round(near(buffer, data), 3),
             "held": round(near(held, data), 3),
             "random": round(near(torch.rand_like(held), data), 3)}
    return found | ({"acc": round(right, 3)} if jem else {})
