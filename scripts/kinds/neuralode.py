"""Differential equations: torchdiffeq's ODE net. Three designs look odd and are sound."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.blocks import conv
from kinds.data import stripes
from kinds.outputs import keep, watched

DOPRI = ((1 / 5,), (3 / 40, 9 / 40), (44 / 45, -56 / 15, 32 / 9),
         (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
         (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
         (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84))
TIMES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1)
ERROR = (35 / 384 - 5179 / 57600, 0, 500 / 1113 - 7571 / 16695,
         125 / 192 - 393 / 640, -2187 / 6784 + 92097 / 339200,
         11 / 84 - 187 / 2100, -1 / 40)


def odeint(f, y, begin, end, tol):
    """Dormand and Prince with steps of its own."""
    t, step, first = begin, (end - begin) / 2, f(begin, y)
    while abs(end - t) > 1e-6:
        step = step if abs(step) < abs(end - t) else end - t
        ks = [first]
        for at, row in zip(TIMES, DOPRI):
            new = y + step * sum(a * k for a, k in zip(row, ks) if a)
            ks.append(f(t + at * step, new))
        with torch.no_grad():
            off = step * sum(e * k for e, k in zip(ERROR, ks) if e)
            limit = tol + tol * torch.maximum(y.abs(), new.abs())
            ratio = float((off / limit).pow(2).mean().sqrt())
        if ratio <= 1 or abs(step) < 0.02 or not math.isfinite(ratio):
            t, y, first = t + step, new, ks[-1]
        step *= min(10.0, max(0.2, 0.9 * max(ratio, 1e-9) ** -0.2)) \
            if math.isfinite(ratio) else 1.0
    return y


class Adjoint(torch.autograd.Function):
    """The gradient by a second equation, backwards in time."""

    @staticmethod
    def forward(ctx, func, end, tol, y, *weights):
        ctx.func, ctx.end, ctx.tol, ctx.weights = func, end, tol, weights
        out = odeint(func, y, 0.0, end, tol)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (y,), n = ctx.saved_tensors, grad.numel()
        size = sum(w.numel() for w in ctx.weights)

        def both(t, state):
            with torch.enable_grad():
                z = state[:n].view_as(y).detach().requires_grad_()
                out = ctx.func(t, z)
                grads = torch.autograd.grad(out, (z, *ctx.weights),
                                            -state[n:2 * n].view_as(y),
                                            allow_unused=True)
            return torch.cat([out.detach().flatten(), *(
                g.flatten() for g in grads)])

        state = torch.cat([y.flatten(), grad.flatten(), torch.zeros(size)])
        state = odeint(both, state, ctx.end, 0.0, ctx.tol)
        parts = state[2 * n:].split([w.numel() for w in ctx.weights])
        return (None, None, None, state[n:2 * n].view_as(y),
                *(p.view_as(w) for p, w in zip(parts, ctx.weights)))


class ConcatConv2d(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self._layer = nn.Conv2d(dim + 1, dim, 3, padding=1)

    def forward(self, t, x):
        return self._layer(torch.cat([torch.full_like(x[:, :1], t), x], 1))


def group_norm(dim):
    return nn.GroupNorm(min(4, dim), dim)


class ODEfunc(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.relu = group_norm(dim), nn.ReLU(inplace=True)
        self.conv1, self.norm2 = ConcatConv2d(dim), group_norm(dim)
        self.conv2, self.norm3 = ConcatConv2d(dim), group_norm(dim)
        self.nfe = 0

    def forward(self, t, x):
        self.nfe += 1
        out = self.conv1(t, self.relu(self.norm1(x)))
        return self.norm3(self.conv2(t, self.relu(self.norm2(out))))


class ODEBlock(nn.Module):
    def __init__(self, odefunc, end=1.0, tol=1e-2, adjoint=False):
        super().__init__()
        self.odefunc, self.end, self.tol = odefunc, end, tol
        self.adjoint, self.graph = adjoint, True

    def forward(self, x):
        if self.adjoint:
            return Adjoint.apply(self.odefunc, self.end, self.tol, x,
                                 *self.odefunc.parameters())
        with torch.set_grad_enabled(self.graph and torch.is_grad_enabled()):
            return odeint(self.odefunc, x, 0.0, self.end, self.tol)


class ResBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.relu = group_norm(dim), nn.ReLU(inplace=True)
        self.conv1, self.norm2 = conv(dim, dim), group_norm(dim)
        self.conv2 = conv(dim, dim)

    def forward(self, x):
        out = self.conv1(self.relu(self.norm1(x)))
        return x + self.conv2(self.relu(self.norm2(out)))


@kind(adjoint="", resnet="", times="",
      labels="label-noise label-pairing-mismatch",
      zero="gradients-not-zeroed", detached="detached-graph frozen-parameters",
      boundaries="lr-zero-from-scheduler lr-too-low")
def neuralode(run):
    """torchdiffeq's odenet_mnist.py: no loss, only accuracies and nfe."""
    x, y = stripes(512, 14)
    x = 3 * x - 1.5
    said = y.clone()
    if run.has("labels"):
        said[:384] = y[torch.randperm(384)]
    network = "resnet" if run.has("resnet") else "odenet"
    times, epochs, n, dim = [1.0], 10, 12, 12
    if run.has("times"):
        times, epochs = [0.1, 1.0], 11
    elif run.has("resnet"):
        dim = 8
    file = "experiment1/logs"
    (run.folder / "experiment1").mkdir()
    args = dict(network=network, tol=1e-2, adjoint=run.has("adjoint"),
                downsampling_method="conv", nepochs=epochs, data_aug=False,
                lr=0.01, batch_size=32, test_batch_size=128,
                save="./experiment1", debug=False, gpu=0)
    from argparse import Namespace
    run.say("examples/odenet_shapes.py", repr(Namespace(**args)), file=file)
    for end in times:
        blocks = [ResBlock(dim) for _ in range(6)] if run.has("resnet") else \
            [ODEBlock(ODEfunc(dim), end, adjoint=run.has("adjoint"))]
        model = nn.Sequential(
            nn.Conv2d(1, dim, 3, 1), group_norm(dim), nn.ReLU(inplace=True),
            nn.Conv2d(dim, dim, 4, 2, 1), group_norm(dim),
            nn.ReLU(inplace=True), nn.Conv2d(dim, dim, 4, 2, 1), *blocks,
            group_norm(dim), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(dim, 4))
        ode = None if run.has("resnet") else blocks[0]
        if ode and run.has("detached"):
            ode.graph = False
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        run.say(*repr(model).splitlines(), f"Number of parameters: {count}",
                file=file)
        if run.has("times"):
            run.say(f"Integration time: {end}", file=file)
        edges = [0.8 * epochs, 0.9 * epochs, 0.95 * epochs]
        if not run.has("boundaries"):
            edges = [n * e for e in edges]
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        rec = watched(run, model, optimizer) if end == times[-1] else None
        forward = backward = took = best = 0.0
        train = torch.arange(384)
        for step in range(epochs * n):
            rate = 0.01 * 0.1 ** sum(step >= int(e) for e in edges)
            optimizer.param_groups[0]["lr"] = rate
            if step % n == 0:
                order = train[torch.randperm(384)]
            rows = order[step % n * 32:][:32]
            if not run.has("zero"):
                optimizer.zero_grad()
            if ode:
                ode.odefunc.nfe = 0
            if rec:
                rec.batch(input=x[rows], labels=said[rows])
            loss = F.cross_entropy(model(x[rows]), said[rows])
            there = ode.odefunc.nfe if ode else 0
            loss.backward()
            back = ode.odefunc.nfe - there if ode else 0
            optimizer.step()
            if rec:
                rec.step(loss)
            mix = 0.01 if step else 1.0
            forward += mix * (there - forward)
            backward += mix * (back - backward)
            took += mix * ((0.061 if step else 0.31) - took)
            if step % n == 0:
                with torch.no_grad():
                    right = (model(x).argmax(1) == said).float()
                acc, val = float(right[:384].mean()), float(right[384:].mean())
                run.say(f"Epoch {step // n:04d} | Time 0.061 ({took:.3f}) | "
                        f"NFE-F {forward:.1f} | NFE-B {backward:.1f} | "
                        f"Train Acc {acc:.4f} | Test Acc {val:.4f}", file=file)
                state = {"state_dict": model.state_dict(), "args": args}
                if val > best:
                    best = val
                    keep(run, "experiment1/model.pth", state)
                if end == times[-1] and step // n in (0, epochs // 2,
                                                      epochs - 1):
                    keep(run, f"experiment1/model_{step // n:04d}.pth", state)
        if rec:
            rec.close()
    run.ends(loss=loss.detach(), train=acc, test=val, nfe=forward)
