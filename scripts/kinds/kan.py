"""Kolmogorov-Arnold networks: splines on edges, whose grids move.

All its runs are sound; the kind returns the root of the squared error on what
it did not see, in parts of the target's deviation.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, place, watch


class KANLinear(nn.Module):
    """As in efficient-kan."""

    def __init__(self, ins, outs, grid_size=5, spline_order=3,
                 scale_noise=0.1, grid_range=(-1, 1), grid_eps=0.02):
        super().__init__()
        self.grid_size, self.spline_order = grid_size, spline_order
        self.grid_eps = grid_eps
        h = (grid_range[1] - grid_range[0]) / grid_size
        at = torch.arange(-spline_order, grid_size + spline_order + 1)
        self.register_buffer("grid", (at * h + grid_range[0])
                             .expand(ins, -1).contiguous())
        self.base_weight = nn.Parameter(torch.empty(outs, ins))
        self.spline_weight = nn.Parameter(
            torch.empty(outs, ins, grid_size + spline_order))
        self.spline_scaler = nn.Parameter(torch.empty(outs, ins))
        nn.init.kaiming_uniform_(self.base_weight, a=math.sqrt(5))
        nn.init.kaiming_uniform_(self.spline_scaler, a=math.sqrt(5))
        noise = (torch.rand(grid_size + 1, ins, outs) - 0.5) \
            * scale_noise / grid_size
        self.spline_weight.data = self.curve2coeff(
            self.grid.T[spline_order:-spline_order], noise)

    def b_splines(self, x):
        grid, x = self.grid, x[:, :, None]
        bases = ((x >= grid[:, :-1]) & (x < grid[:, 1:])).to(x.dtype)
        for k in range(1, self.spline_order + 1):
            bases = (x - grid[:, :-k - 1]) / (grid[:, k:-1]
                                              - grid[:, :-k - 1]) \
                * bases[:, :, :-1] + (grid[:, k + 1:] - x) \
                / (grid[:, k + 1:] - grid[:, 1:-k]) * bases[:, :, 1:]
        return bases

    def curve2coeff(self, x, y):
        found = torch.linalg.lstsq(self.b_splines(x).transpose(0, 1),
                                   y.transpose(0, 1), driver="gelsd")
        return found.solution.permute(2, 0, 1).contiguous()

    @property
    def scaled(self):
        return self.spline_weight * self.spline_scaler[:, :, None]

    def forward(self, x):
        return F.linear(F.silu(x), self.base_weight) + F.linear(
            self.b_splines(x).flatten(1), self.scaled.flatten(1))

    @torch.no_grad()
    def update_grid(self, x, margin=0.01):
        curve = torch.einsum("bif,oif->bio", self.b_splines(x), self.scaled)
        order = x.sort(0)[0]
        some = torch.linspace(0, len(x) - 1, self.grid_size + 1).long()
        step = (order[-1] - order[0] + 2 * margin) / self.grid_size
        even = torch.arange(self.grid_size + 1)[:, None] * step \
            + order[0] - margin
        grid = self.grid_eps * order[some] + (1 - self.grid_eps) * even
        more = torch.arange(1, self.spline_order + 1)[:, None] * step
        self.grid.copy_(torch.cat([grid[:1] - more.flip(0), grid,
                                   grid[-1:] + more]).T)
        self.spline_weight.copy_(self.curve2coeff(x, curve))
        self.spline_scaler.fill_(1.0)  # is in the curve now

    def entropy(self):
        """How much the edges do, and over how many it is spread."""
        size = self.scaled.abs().mean(-1)
        part = size / size.sum()
        return size.sum(), -(part * (part + 1e-9).log()).sum()


class KAN(nn.Module):
    def __init__(self, sizes, **options):
        super().__init__()
        self.layers = nn.ModuleList(KANLinear(*pair, **options)
                                    for pair in zip(sizes, sizes[1:]))

    def forward(self, x, update_grid=False):
        for layer in self.layers:
            if update_grid:
                layer.update_grid(x)
            x = layer(x)
        return x

    def regularization_loss(self, l1=1.0, entropy=1.0):
        return sum(l1 * a + entropy * b
                   for a, b in (m.entropy() for m in self.layers))


def points(rows, units):
    x = 2 * torch.rand(rows, 2) - 1
    y = (torch.sin(math.pi * x[:, :1]) + x[:, 1:] ** 2).exp()
    return (4000 * (x + 1) if units else x), y


@kind(lbfgs="", sparse="", hertz="", cycle="")
def kan(run):
    """A KAN fits exp(sin(pi x) + y^2); grids follow the data for a while.

    Odd and sound: `lbfgs` is pykan's own fit, whose loss falls towards 1e-6 in
    few steps and whose files have no suffix, `sparse` has entropies far
    above the loss for 80 steps and then none, so that the loss changes its
    scale, `hertz` has grids from 0 to 8000 under inputs in hertz and
    base weights that are 0 and frozen, `cycle` has one cycle of rate and
    momentum, a log that begins at step 40 and each of its rows twice.
    """
    lbfgs, sparse, hertz, cycle = (run.has(n) for n in (
        "lbfgs", "sparse", "hertz", "cycle"))
    total = 60 if lbfgs else 200
    lr = 1.0 if lbfgs else 3e-2
    lamb = 0.02 if sparse else 0.0
    train, test = points(400, hertz), points(200, hertz)
    model = KAN([2, 5, 1])
    if hertz:
        model.layers[0] = KANLinear(2, 5, grid_range=(0, 8000))
        model.layers[0].base_weight.requires_grad_(False).zero_()
    if lbfgs:
        model, train = model.double(), [v.double() for v in train]
        test = [v.double() for v in test]
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.LBFGS(
        learned, lr, history_size=10, line_search_fn="strong_wolfe",
        tolerance_grad=1e-32, tolerance_change=1e-32, max_iter=25) if lbfgs \
        else torch.optim.AdamW(learned, lr, weight_decay=1e-5)
    if cycle:
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, 0.06, total_steps=total)
    elif not lbfgs:
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    run.write("config.json", {
        "width": [2, 5, 1], "grid": 5, "k": 3, "lamb": lamb,
        "lamb_entropy": 2.0, "opt": "LBFGS" if lbfgs else "AdamW", "lr": lr,
        "steps": total, "update_grid": True, "grid_update_num": 10,
        "stop_grid_update_step": 30 if lbfgs else 100,
        "grid_range": [0, 8000] if hertz else [-1, 1], "seed": 1})
    rec = None if lbfgs or cycle else watch(run, model, optimizer, lr=lr)
    scale = float(test[1].std())
    place(run, "model" if lbfgs else "checkpoints")
    results = {"train_loss": [], "test_loss": [], "reg": []}

    def save(step):
        if lbfgs:
            n = len(list((run.folder / "model").glob("*_state")))
            keep(run, f"model/0.{n}_state", model.state_dict())
            run.say("width:", "- [2, 0]", "- [5, 0]", "- [1, 0]", "grid: 5",
                    "k: 3", "base_fun_name: silu", f"state_id: {n}",
                    "round: 0", file=f"model/0.{n}_config.yml")
            return
        keep(run, f"checkpoints/kan_step{step}.pt", {
            "step": step, "model_state_dict": model.state_dict(),
            "optimizer_state_dict": optimizer.state_dict(),
            "loss": results["train_loss"][-1:]})

    @torch.no_grad()
    def error():
        return F.mse_loss(model(test[0]), test[1]).item()

    if lbfgs:
        run.say("checkpoint directory created: ./model",
                "saving model version 0.0")
    save(0)
    last = 30 if lbfgs else 100
    for step in range(total):
        if step % (last // 10) == 0 and 0 < step < last and not (
                hertz or sparse and step > 50):
            with torch.no_grad():
                model(train[0], update_grid=True)
        part = lamb if step < 80 else 0.0
        rows = torch.randint(400, (128,))
        x, y = train if lbfgs or hertz else (train[0][rows], train[1][rows])
        now = optimizer.param_groups[0]["lr"]
        if rec:
            rec.batch(x=x, y=y)

        def closure():
            optimizer.zero_grad()
            mse = F.mse_loss(model(x), y)
            loss = mse + part * model.regularization_loss(1.0, 2.0) \
                if part else mse
            loss.backward()
            closure.loss = loss.item()
            return loss
        if lbfgs:
            optimizer.step(closure)
            closure()
        else:
            closure()
            optimizer.step()
            schedule.step()
        if rec:
            rec.step(closure.loss)
        run.tick(0.03)
        with torch.no_grad():
            reg = model.regularization_loss(1.0, 2.0).item()
        tested = error()
        if lbfgs:
            found = math.sqrt(closure.loss), math.sqrt(tested), reg
            bar = "█" * ((step + 1) // 6)
            with open(run.folder / "train.log", "a", newline="") as out:
                out.write("\r| train_loss: {:.2e} | test_loss: {:.2e} | reg: "
                          "{:.2e} | : ".format(*found)
                          + f"{100 * (step + 1) // total:3}%|{bar:10}| "
                          f"{step + 1}/{total} [00:{step // 20:02}<"
                          f"00:{(total - step) // 20:02}, 19.83it/s]")
        else:
            found = closure.loss, tested, reg
            if not cycle or step >= 40:
                for _ in range(2 if cycle else 1):
                    run.row(step=step, train_loss=found[0],
                            test_loss=found[1], reg=reg, lr=now)
        for name, value in zip(results, found):
            results[name].append(value)
        if step + 1 in (total // 2, total):
            save(step + 1)
    if rec:
        rec.close()
    if lbfgs:
        run.say("", "saving model version 0.2")
        run.write("results.json", results)
    run.ends(error=math.sqrt(error()) / scale,
             last=results["train_loss"][-1])
