"""DP-SGD of Opacus, as in its cifar10.py: samples clipped, noise, epsilon.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import copy
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.data import stripes
from kinds.outputs import keep, watch


def convnet(classes=4):
    """The convnet of the example, small, GroupNorm where batch norm was."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, 1, 1), nn.GroupNorm(4, 8), nn.ReLU(),
        nn.AvgPool2d(2, 2),
        nn.Conv2d(8, 16, 3, 1, 1), nn.GroupNorm(4, 16), nn.ReLU(),
        nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(1),
        nn.Linear(64, classes))


class GradSampleModule(nn.Module):
    def __init__(self, module):
        super().__init__()
        self._module = module

    def forward(self, x):
        return self._module(x)


class RDPAccountant:
    """Epsilon of the sampled Gaussian, over whole orders."""

    ORDERS = range(2, 64)

    def __init__(self):
        self.history, self.spent = [], [0.0] * len(self.ORDERS)

    def step(self, noise, rate):
        if not self.history or self.history[-1][:2] != (noise, rate):
            self.history.append((noise, rate, 0))
            self.once = [self.one(a, noise, rate) for a in self.ORDERS]
        self.history[-1] = (noise, rate, self.history[-1][2] + 1)
        self.spent = [s + o for s, o in zip(self.spent, self.once)]

    @staticmethod
    def one(a, noise, rate):
        terms = [math.lgamma(a + 1) - math.lgamma(k + 1)
                 - math.lgamma(a - k + 1) + (a - k) * math.log(1 - rate)
                 + k * math.log(rate) + (k * k - k) / (2 * noise ** 2)
                 for k in range(a + 1)]
        top = max(terms)
        return (top + math.log(sum(math.exp(t - top) for t in terms))) \
            / (a - 1)

    def get_epsilon(self, delta):
        return min(s - (math.log(delta) + math.log(a)) / (a - 1)
                   + math.log((a - 1) / a)
                   for a, s in zip(self.ORDERS, self.spent))

    def state_dict(self):
        return {"history": self.history, "mechanism": "rdp"}


@kind(tight="", adaclip="", headonly="",
      rate="lr-too-high",
      clip="gradient-clip-too-small lr-too-low",
      pairs="label-pairing-mismatch label-noise",
      stale="optimizer-holds-stale-params frozen-parameters")
def opacus(run):
    """A convnet with GroupNorm under DP-SGD of Opacus.

    Odd and sound: `tight` clips every sample at 0.002 and has a rate of 200,
    `adaclip` moves the bound down to a quantile (AdaClipDPOptimizer),
    `headonly` trains the last layer and the norms over frozen convolutions.
    """
    epochs, rows, size, held = 8, 1024, 64, 256
    (x, y), (tx, ty) = (lambda a, b: ((a[:rows], b[:rows]),
                                      (a[rows:], b[rows:])))(
        *stripes(rows + held))
    x, tx = ((t - 0.5) / 0.2 + 1.6 * torch.randn_like(t) for t in (x, tx))
    if run.has("pairs"):  # DPDataLoader draws the labels once more
        y = y[torch.randperm(rows)]
    bound, lr = (0.002, 200.0) if run.has("tight") else \
        (3.0, 0.6) if run.has("adaclip") else (0.1, 4.0)
    sigma, delta, rate = 0.8, 1e-4, size / rows
    run.settings(
        "args.json", workers=2, epochs=epochs, batch_size=size, lr=lr,
        momentum=0.5, weight_decay=0.0, sigma=sigma, delta=delta,
        max_per_sample_grad_norm=bound, disable_dp=False, secure_rng=False,
        clip_per_layer=False, adaptive_clipping=run.has("adaclip"),
        target_unclipped_quantile=0.5, clipbound_learning_rate=0.2,
        grad_sample_mode="hooks", accountant="rdp", lr_schedule="cos",
        optim="SGD", arch="Convnet", seed=1, freeze=run.has("headonly"))
    net = convnet()
    if run.has("headonly"):  # from public data, 60 plain steps
        px, py = stripes(512)
        own = torch.optim.Adam(net.parameters(), 5e-3)
        for i in range(60):
            at = torch.randint(512, (48,))
            loss = F.cross_entropy(net((px[at] - 0.5) / 0.2), py[at])
            own.zero_grad()
            loss.backward()
            own.step()
        own.zero_grad()
        nn.init.zeros_(net[9].weight)
        nn.init.zeros_(net[9].bias)
        for i in (0, 4):
            net[i].requires_grad_(False)
    model = GradSampleModule(net)
    moved = [n for n, p in model.named_parameters() if p.requires_grad]
    optimizer = torch.optim.SGD([dict(model.named_parameters())[n]
                                 for n in moved],
                                lr=run.rate(lr), momentum=0.5)
    if run.has("stale"):  # ModuleValidator.fix(model) gives a copy
        model = copy.deepcopy(model)
    accountant = RDPAccountant()
    still = ["_module.0", "_module.4"] if run.has("headonly") else []
    rec = watch(run, model, optimizer, max_grad_norm=bound, sigma=sigma,
                freeze=still)

    apart = copy.deepcopy(model)  # gradients of samples, without hooks

    def loss_of(part, rest, one, label):
        out = torch.func.functional_call(apart, {**part, **rest},
                                         (one[None],))
        return F.cross_entropy(out, label[None])

    each = torch.func.vmap(torch.func.grad(loss_of),
                           in_dims=(None, None, 0, 0))

    def test():
        model.eval()
        with torch.no_grad():
            out = model(tx)
        model.train()
        return F.cross_entropy(out, ty).item(), \
            (out.argmax(1) == ty).float().mean().item()

    def save(epoch, best, name="checkpoint.tar"):
        keep(run, name, {
            "epoch": epoch, "arch": "Convnet",
            "state_dict": model.state_dict(), "best_acc1": best,
            "optimizer": optimizer.state_dict(),
            "privacy_accountant_state_dict": accountant.state_dict()})

    best, step = 0.0, 0
    save(0, best, "checkpoint_0.tar")
    for epoch in range(1, epochs + 1):
        for group in optimizer.param_groups:
            group["lr"] = run.rate(lr) * 0.5 \
                * (1 + math.cos(math.pi * (epoch - 1) / (epochs + 1)))
        losses, top1 = [], []
        for i in range(rows // size):
            at = (torch.rand(rows) < rate).nonzero()[:, 0]
            params = dict(model.named_parameters())
            rec.batch(input=x[at], labels=y[at])
            out = model(x[at])
            loss = F.cross_entropy(out, y[at])
            optimizer.zero_grad()
            loss.backward()
            grads = each(
                {n: params[n].detach() for n in moved},
                {n: p.detach() for n, p in params.items()
                 if n not in moved}, x[at], y[at])
            norms = sum(g.flatten(1).pow(2).sum(1)
                        for g in grads.values()).sqrt()
            most = 1e-5 if run.has("clip") else bound
            factor = (most / (norms + 1e-6)).clamp(max=1.0)
            for n in moved:
                summed = torch.einsum("i,i...->...", factor, grads[n])
                noise = sigma * most * torch.randn_like(summed)
                params[n].grad = (summed + noise) / size
            optimizer.step()
            accountant.step(sigma, rate)
            rec.step(loss)
            clipped = (norms > most).float().mean().item()
            if run.has("adaclip"):
                share = 1 - clipped + 0.02 * float(torch.randn(()))
                bound *= math.exp(-0.2 * (share - 0.5))
            losses.append(loss.item())
            top1.append((out.argmax(1) == y[at]).float().mean().item())
            run.tick(0.2)
            step += 1
            if i % 4 == 0:
                eps = accountant.get_epsilon(delta)
                run.say(f"\tTrain Epoch: {epoch} \t"
                        f"Loss: {np.mean(losses):.6f} "
                        f"Acc@1: {np.mean(top1):.6f} "
                        f"(ε = {eps:.2f}, δ = {delta})")
                row = dict(
                    step=step, epoch=epoch, loss=losses[-1], acc1=top1[-1],
                    lr=optimizer.param_groups[0]["lr"], epsilon=eps,
                    delta=delta, expected_batch_size=size,
                    batch_size=len(at), clipped_fraction=clipped,
                    mean_sample_grad_norm=norms.mean().item(),
                    noise_multiplier=sigma)
                if run.has("adaclip"):
                    row["max_grad_norm"] = bound
                run.row("dp_metrics.csv", **row)
        now, acc = test()
        run.say(f"\tTest set:Loss: {now:.6f} Acc@1: {acc:.6f} ")
        best = max(best, acc)
        save(epoch + 1, best)
        if epoch == epochs // 2:
            save(epoch + 1, best, f"checkpoint_{epoch}.tar")
    rec.close()
    return {"loss": round(now, 3), "acc": round(acc, 3),
            "eps": round(accountant.get_epsilon(delta), 2),
            "clipped": round(clipped, 2), "C": round(bound, 3)}
