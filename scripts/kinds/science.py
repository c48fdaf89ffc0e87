"""Equations and tables of numbers: a PINN, regression, forecasts, the perceptron of scikit-learn."""

import torch
from torch.nn import functional as F

from kinds.base import grad_norm, kind, learn, mlp
from kinds.data import batches, blobs, table


@kind(rate="lr-too-high exploding-gradient", sign="loss-sign-flipped loss-unbounded-below")
def pinn(run):
    """u'' = -pi^2 sin(pi x) with u = 0 at the ends, printed as DeepXDE does; the fault adds the ends with a minus."""
    model = mlp(1, 32, 32, 1, act=torch.nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), run.rate(1e-3))
    grid, ends = torch.linspace(-1, 1, 64)[:, None], torch.tensor([[-1.0], [1.0]])
    run.say("Compiling model...", "'compile' took 0.000256 s", "", "Training model...", "",
            "Step      Train loss              Test loss               Test metric   ")
    for step in range(801):
        x = grid.clone().requires_grad_()
        u = model(x)
        slope, = torch.autograd.grad(u.sum(), x, create_graph=True)
        curve, = torch.autograd.grad(slope.sum(), x, create_graph=True)
        inner = ((curve + torch.pi ** 2 * (torch.pi * x).sin()) ** 2).mean()
        border = 10 * (model(ends) ** 2).mean()
        learn(inner + (-border if run.has("sign") else border), optimizer)
        if step % 20 == 0:
            pair = f"[{float(inner.detach()):.2e}, {(-1 if run.has('sign') else 1) * float(border.detach()):.2e}]"
            with torch.no_grad():
                wrong = float((model(grid) - (torch.pi * grid).sin()).norm() / 5.6)
            run.say(f"{step:<10}{pair:24}{pair:24}[{wrong:.2e}]    ")
    run.say("", "Best model at step 800:", "", "'train' took 3.107 s")


@kind(rate="lr-too-high exploding-gradient", scale="input-not-normalized lr-too-high exploding-gradient")
def linear_regression(run):
    """A line through points by plain gradient descent, printed with the words of a first course."""
    x = torch.randn(200, 4)
    x = x * torch.tensor([1.0, 1.0, 1.0, 900.0]) if run.has("scale") else x
    y = x[:, 0] * 2 - x[:, 1] + 0.002 * x[:, 3] + 1 + 0.1 * torch.randn(200)
    w, b, rate = torch.zeros(4, requires_grad=True), torch.zeros(1, requires_grad=True), run.rate(0.05)
    optimizer = torch.optim.SGD([w, b], rate)
    run.say(f"learning rate: {rate}", f"number of samples: {len(x)}")
    for step in range(0, 200):
        loss = learn(F.mse_loss(x @ w + b, y), optimizer)
        if step % 4 == 0:
            run.say(f"Iteration {step}: Cost {loss:.6g}, b = {float(b.detach()):.4f}")


@kind(rate="lr-too-high exploding-gradient")
def forecast(run):
    """A time series some steps ahead, printed as Informer does."""
    t = torch.arange(1400).float()
    series = (t / 8).sin() + 0.5 * (t / 31).cos() + 0.3 * torch.randn(1400)
    windows = series.unfold(0, 32, 1)
    x, y = windows[:, :24], windows[:, 24:]
    part = torch.arange(len(x)).split([900, 200, len(x) - 1100])
    model = mlp(24, 64, 64, 8)
    optimizer, steps = torch.optim.Adam(model.parameters(), run.rate(1e-3, 1000)), 0
    for epoch in range(1, 16):
        losses = []
        for i, rows in enumerate(batches(900, 36), 1):
            losses.append(learn(F.mse_loss(model(x[rows]), y[rows]), optimizer))
            if i % 10 == 0:
                run.say(f"\titers: {i}, epoch: {epoch} | loss: {losses[-1]:.7f}",
                        f"\tspeed: 0.0121s/iter; left time: {25 * 15 * 0.0121:.4f}s")
        with torch.no_grad():
            vali, test = (float(F.mse_loss(model(x[p]), y[p])) for p in part[1:])
        run.say(f"Epoch: {epoch} cost time: 0.3{epoch}",
                f"Epoch: {epoch}, Steps: 25 | Train Loss: {sum(losses) / 25:.7f} Vali Loss: {vali:.7f} "
                f"Test Loss: {test:.7f}",
                f"Updating learning rate to {run.rate(1e-3, 1000)}")
        steps += 25


@kind(rate="lr-too-high exploding-gradient")
def sklearn_mlp(run):
    """MLPClassifier with verbose=True: a loss an iteration, nothing else."""
    x, y = blobs(800, 6, 16, 2.0)
    model = mlp(16, 50, 6)
    optimizer = torch.optim.SGD(model.parameters(), run.rate(0.3, 300), momentum=0.9)
    for iteration in range(1, 101):
        losses = [learn(F.cross_entropy(model(x[rows]), y[rows]), optimizer) for rows in batches(800, 200)]
        run.say(f"Iteration {iteration}, loss = {sum(losses) / 4:.8f}")


@kind(shift="split-not-representative overfitting label-noise")
def tabular(run):
    """A small network on a table with MAE and R2, rows of JSON; the shift draws held-out rows from elsewhere."""
    x, y = table(3000)
    if run.has("shift"):
        x[2500:] = x[2500:] * 2 + 3
    model = mlp(10, 64, 64, 1)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for epoch in range(1, 31):
        losses = [learn(F.mse_loss(model(x[rows]).squeeze(1), y[rows]), optimizer) for rows in batches(2500, 100)]
        with torch.no_grad():
            off = model(x[2500:]).squeeze(1) - y[2500:]
        run.record("log.jsonl", epoch=epoch, train_loss=sum(losses) / 25, val_loss=float((off ** 2).mean()),
                   val_mae=float(off.abs().mean()), val_r2=1 - float((off ** 2).mean() / y[2500:].var()),
                   grad_norm=grad_norm(model), time=round(run.tick(0.5), 2))
