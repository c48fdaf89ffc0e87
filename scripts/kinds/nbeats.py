"""N-BEATS and N-HiTS, by neuralforecast and by pytorch-forecasting.

All its runs are sound; the kind returns what held-out windows gave, with
the error of a week ago as 1.
"""

import copy
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, place, watch

AHEAD, PAST, UNITS = 6, 21, 24


def fixed(value):
    return nn.Parameter(torch.as_tensor(value, dtype=torch.float32),
                        requires_grad=False)


class IdentityBasis(nn.Module):
    """Thetas are what was and what comes, with as many knots."""

    def __init__(self, outs=1, knots=AHEAD):
        super().__init__()
        self.outs, self.size = outs, PAST + outs * knots

    def forward(self, theta):
        said = theta[:, PAST:].reshape(len(theta), self.outs, -1)
        if said.shape[2] != AHEAD:
            said = F.interpolate(said, size=AHEAD, mode="linear")
        return theta[:, :PAST], said.mT


class Basis(nn.Module):
    """What is fixed: polynomials, or waves of which one is 0."""

    def __init__(self, back, fore):
        super().__init__()
        self.backcast_basis, self.forecast_basis = fixed(back), fixed(fore)
        self.size = 2 * len(back)

    def forward(self, theta):
        back, fore = theta.chunk(2, 1)
        return back @ self.backcast_basis, \
            (fore @ self.forecast_basis)[..., None]


def trend(degree):
    power = lambda n: np.stack([(np.arange(n) / n) ** i
                                for i in range(degree + 1)])
    return Basis(power(PAST), power(AHEAD))


def seasonality(harmonics=2):
    freq = np.append(0, np.arange(harmonics, harmonics / 2 * AHEAD)
                     / harmonics)[None]
    wave = lambda n, sign: sign * 2 * np.pi * np.arange(n)[:, None] \
        / AHEAD * freq
    both = lambda g: np.concatenate([np.cos(g).T, np.sin(g).T])
    return Basis(both(wave(PAST, -1)), both(wave(AHEAD, 1)))


class Block(nn.Module):
    def __init__(self, basis, pool=1):
        super().__init__()
        if pool > 1:
            self.pooling_layer = nn.MaxPool1d(pool, pool, ceil_mode=True)
        units = [nn.Linear(math.ceil(PAST / pool), UNITS)]
        for _ in range(2):
            units += [nn.Linear(UNITS, UNITS), nn.ReLU()]
        self.layers = nn.Sequential(*units, nn.Linear(UNITS, basis.size))
        self.basis = basis

    def forward(self, x):
        if hasattr(self, "pooling_layer"):
            x = self.pooling_layer(x[:, None])[:, 0]
        return self.basis(self.layers(x))


class NBEATS(nn.Module):
    """Blocks see what those before did not tell."""

    def __init__(self, blocks, quantiles=None):
        super().__init__()
        self.loss = nn.Module()
        if quantiles:
            self.loss.quantiles = fixed(quantiles)
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        rest, said = x.flip(1), x[:, -1:, None]
        for block in self.blocks:
            back, fore = block(rest)
            rest, said = rest - back, said + fore
        return said


class NBEATSBlock(nn.Module):
    """pytorch-forecasting's: thetas of both ways are one layer, or two."""

    def __init__(self, thetas, share):
        super().__init__()
        units = [nn.Linear(PAST, UNITS), nn.ReLU()]
        for _ in range(3):
            units += [nn.Sequential(nn.Dropout(0.0),
                                    nn.Linear(UNITS, UNITS)), nn.ReLU()]
        self.fc = nn.Sequential(*units)
        self.theta_b_fc = nn.Linear(UNITS, thetas, bias=False)
        self.theta_f_fc = self.theta_b_fc if share else nn.Linear(
            UNITS, thetas, bias=False)


class NBEATSTrendBlock(NBEATSBlock):
    def __init__(self, thetas=3):
        super().__init__(thetas, True)
        norm = math.sqrt(AHEAD / thetas)
        back, fore = (torch.stack([torch.as_tensor(
            t, dtype=torch.float32) ** i for i in range(thetas)]) * norm
            for t in (np.linspace(-PAST, 0, PAST) / AHEAD,
                      np.linspace(0, AHEAD, AHEAD) / AHEAD))
        self.register_buffer("T_backcast", back)
        self.register_buffer("T_forecast", fore)

    def forward(self, x):
        x = self.fc(x)
        return self.theta_b_fc(x) @ self.T_backcast, \
            self.theta_f_fc(x) @ self.T_forecast


class NBEATSSeasonalBlock(NBEATSBlock):
    def __init__(self, thetas=6):
        super().__init__(thetas, True)
        freq = torch.linspace(0, AHEAD / 2, thetas // 2)[:, None]
        wave = lambda t: torch.cat([torch.cos(2 * math.pi * freq * t),
                                    torch.sin(2 * math.pi * freq * t)])
        self.register_buffer("S_backcast", wave(
            torch.arange(-PAST, 0) / AHEAD))
        self.register_buffer("S_forecast", wave(
            torch.arange(AHEAD) / AHEAD))

    def forward(self, x):
        x = self.fc(x)
        return self.theta_b_fc(x) @ self.S_backcast, \
            self.theta_f_fc(x) @ self.S_forecast


class NBEATSGenericBlock(NBEATSBlock):
    def __init__(self, thetas=8):
        super().__init__(thetas, False)
        self.backcast_fc = nn.Linear(thetas, PAST)
        self.forecast_fc = nn.Linear(thetas, AHEAD)

    def forward(self, x):
        x = self.fc(x)
        return self.backcast_fc(F.relu(self.theta_b_fc(x))), \
            self.forecast_fc(F.relu(self.theta_f_fc(x)))


class NBeats(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss, self.logging_metrics = nn.Module(), nn.ModuleList()
        self.net_blocks = nn.ModuleList([
            NBEATSTrendBlock(), NBEATSTrendBlock(), NBEATSSeasonalBlock(),
            NBEATSSeasonalBlock(), NBEATSGenericBlock()])

    def forward(self, x):
        said = torch.zeros(len(x), AHEAD)
        for block in self.net_blocks:
            back, fore = block(x)
            x, said = x - back, said + fore
        return said[..., None]


def series(drift=0.0, rows=8, days=170):
    """A week's swing, a slow wave, noise; all above 0."""
    t, out = torch.arange(days), []
    for k in range(rows):
        week = torch.sin(2 * math.pi * (t / 7 + torch.rand(()))) \
            + 0.5 * torch.sin(4 * math.pi * (t / 7 + torch.rand(())))
        slow = torch.sin(t / 17 + k) + drift * t / 40 if drift else 0
        out.append(8 + k % 3 + 1.6 * week + 0.7 * slow
                   + 0.3 * torch.randn(days))
    return torch.stack(out)


def windows(table, first, last):
    cut = table[:, first:last].unfold(1, PAST + AHEAD, 1).flatten(0, 1)
    return cut[:, :PAST], cut[:, PAST:]


def smape(made, goal):
    return 200 * ((made - goal).abs() / (made.abs() + goal.abs())).mean()


def made_of(kind_of):
    """Blocks, quantiles and settings of each run by neuralforecast."""
    ident, hyper = IdentityBasis, dict(
        stack_types=["identity", "trend", "seasonality"], n_blocks=[1, 1, 1],
        n_harmonics=2, n_polynomials=2, shared_weights=False, loss="MAE()",
        scaler_type="standard")
    if kind_of == "nhits":
        # one knot, three knots, all of them
        blocks = [Block(ident(3, k), p) for k, p in ((1, 7), (3, 3), (6, 1))]
        del hyper["n_harmonics"], hyper["n_polynomials"], \
            hyper["shared_weights"]
        return blocks, [0.1, 0.5, 0.9], hyper | dict(
            stack_types=["identity"] * 3, n_pool_kernel_size=[7, 3, 1],
            n_freq_downsample=[6, 2, 1], scaler_type="robust",
            loss="MQLoss(quantiles=[0.1, 0.5, 0.9])", lr_scheduler=
            "OneCycleLR", pooling_mode="MaxPool1d")
    if kind_of == "shared":
        a, b = Block(trend(2)), Block(seasonality())
        return [a] * 3 + [b] * 3, None, hyper | dict(
            stack_types=["trend", "seasonality"], n_blocks=[3, 3],
            shared_weights=True, loss="SMAPE()")
    if kind_of == "idle":
        blocks = [Block(ident())] + [Block(trend(3)) for _ in range(3)] \
            + [Block(seasonality())]
        return blocks, None, hyper | dict(
            n_blocks=[1, 3, 1], n_polynomials=3, loss="MAPE()")
    return [Block(ident()), Block(trend(2)), Block(seasonality())], None, \
        hyper


@kind(shared="", nhits="", idle="", mase="")
def nbeats(run):
    """N-BEATS by neuralforecast under Lightning: epochs of one step.

    What the last block says of the past goes nowhere, bases are parameters
    that are fixed, one of their waves is 0. Odd and sound: `shared` has one
    block three times in a stack and SMAPE up to 200, `nhits` pools and
    interpolates one knot, with quantiles in units of 1e5 and one cycle of
    rate and momentum, `idle` has trends where there are none, for most of
    its blocks, and stops early by MAPE, `mase` is pytorch-forecasting's,
    with thetas of one layer, a loss of the past too and MAPE of 1e7.
    """
    which, folder = run.fault, "lightning_logs/version_0"
    place(run, f"{folder}/checkpoints")
    table = series(0.0 if which == "idle" else 0.5)
    unit = 1e5 if which == "nhits" else 1.0
    table = table * unit
    if which == "mase":
        table[:, ::23] = 0.0  # shops are closed
    x, goal = windows(table, 0, 120)
    held, true = windows(table, 122 - PAST, 170)
    other = which == "mase"
    total, check, size, lr = 150, 10, 48, 4e-3
    patience, every = None, 5
    if which == "idle":
        total, patience, lr = 600, 4, 1e-2
    if which == "nhits":
        lr = 8e-3
    quantiles = None
    if other:
        model, check, every = NBeats(), 15, 5
        hyper = dict(stack_types=["trend", "seasonality", "generic"],
                     num_blocks=[2, 2, 1], num_block_layers=[4, 4, 4],
                     widths=[UNITS] * 3, sharing=[True, True, False],
                     expansion_coefficient_lengths=[3, 6, 8],
                     context_length=PAST, prediction_length=AHEAD,
                     backcast_loss_ratio=0.1, loss="MASE()", log_interval=-1,
                     reduce_on_plateau_patience=1, optimizer="adam")
    else:
        blocks, quantiles, hyper = made_of(which)
        model = NBEATS(blocks, quantiles)
        hyper |= dict(h=AHEAD, input_size=PAST, mlp_units=[[UNITS] * 2] * 2,
                      max_steps=total, num_lr_decays=3, batch_size=32,
                      windows_batch_size=size, val_check_steps=check,
                      early_stop_patience_steps=patience or -1,
                      random_seed=1)
    hyper["learning_rate"] = lr
    live = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(live, lr)
    if which == "nhits":
        plan = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=lr, total_steps=total + 1)
    elif other:
        plan = torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, factor=0.5, patience=1)
    else:
        part = total // 3 if which != "idle" else 10 ** 6
        plan = torch.optim.lr_scheduler.StepLR(optimizer, part, 0.5)
    run.say(*(f"{k}: {v}" for k, v in hyper.items()),
            file=f"{folder}/hparams.yaml")

    def parts(x):
        if other:  # EncoderNormalizer
            return x.mean(1, True), x.std(1, keepdim=True)
        if hyper["scaler_type"] == "robust":
            mid = x.median(1, True).values
            return mid, (x - mid).abs().median(1, True).values
        return x.mean(1, True), x.std(1, keepdim=True)

    def loss_of(x, goal):
        """The loss in units of the series, and what is foretold."""
        add, times = parts(x)
        scaled = (x - add) / times
        made = model(scaled) * times[..., None] + add[..., None]
        if quantiles:
            error, q = goal[..., None] - made, model.loss.quantiles
            return torch.max(q * error, (q - 1) * error).mean(), made[..., 1]
        made = made[..., 0]
        error = (made - goal).abs()
        if other:
            naive = (x[:, 1:] - x[:, :-1]).abs().mean(1)
            return (error.mean(1) / naive).mean(), made
        if which == "shared":
            return smape(made, goal), made
        if which == "idle":
            return (error / goal.abs()).mean(), made
        return error.mean(), made

    def backcast(x):
        """What all blocks together say of the past, against it."""
        add, times = parts(x)
        rest = (x - add) / times
        for block in model.net_blocks:
            rest = rest - block(rest)[0]
        return rest.abs().mean()

    @torch.no_grad()
    def validate():
        model.eval()
        loss, made = loss_of(held, true)
        model.train()
        error = (made - true).abs()
        week = (held[:, -7:][:, :AHEAD] - true).abs().mean()
        return loss.item(), {
            "SMAPE": smape(made, true).item() / 100,
            "MAE": error.mean().item(),
            "RMSE": error.square().mean().sqrt().item(),
            "MAPE": (error / (true.abs() + 1e-8)).mean().item(),
            "week": (error.mean() / week).item()}

    names = ["epoch", "lr-Adam", "ptl/val_loss", "step", "train_loss_epoch",
             "train_loss_step", "valid_loss"]
    if other:
        names = ["epoch", "lr-Adam", "step", "train_loss_epoch",
                 "train_loss_step", "val_MAE", "val_MAPE", "val_RMSE",
                 "val_SMAPE", "val_loss"]
    blank = dict.fromkeys(names, "")

    def row(**values):
        run.row(f"{folder}/metrics.csv", **blank | values)

    rec = None
    if which in ("", "shared", "mase"):
        rec = watch(run, model, optimizer, learning_rate=lr,
                    gradient_clip_val=0.01 if other else None)
    count = sum(p.numel() for p in live)
    stays = sum(p.numel() for p in model.parameters()) - count
    run.say("Seed set to 1", "GPU available: False, used: False",
            "TPU available: False, using: 0 TPU cores", "",
            "  | Name         | Type          | Params | Mode ", "-" * 50,
            "0 | loss         | "
            f"{hyper['loss'].split('(')[0]:<13} | {3 * bool(quantiles)}"
            "      | train",
            f"1 | {'net_blocks' if other else 'blocks':<12} | ModuleList    | "
            f"{count / 1e3:.1f} K  | train", "-" * 50,
            f"{count / 1e3:.1f} K    Trainable params",
            f"{stays}       Non-trainable params")

    def save(name, epoch, step):
        keep(run, f"{folder}/checkpoints/{name}.ckpt", {
            "epoch": epoch, "global_step": step,
            "pytorch-lightning_version": "2.4.0",
            "state_dict": model.state_dict(),
            "loops": {"fit_loop": {"epoch_progress": {
                "total": {"ready": epoch + 1, "completed": epoch}}}},
            "callbacks": {}, "optimizer_states": [optimizer.state_dict()],
            "lr_schedulers": [], "hparams_name": "kwargs",
            "hyper_parameters": hyper})

    best, kept, bad, ended, losses = math.inf, None, 0, False, []
    shown = ""
    for step in range(total):
        epoch = step // check if other else step
        at = torch.randint(len(x), (size,))
        loss = loss_of(x[at], goal[at])[0]
        if rec:
            rec.batch(input=x[at], labels=goal[at])
        if other:
            # weighed as backcast_loss_ratio * AHEAD / PAST
            part = 0.1 * AHEAD / PAST
            loss = loss * (1 - part) + part * backcast(x[at])
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(
            live, 0.01 if other else math.inf).item()
        rate = optimizer.param_groups[0]["lr"]
        optimizer.step()
        if not other:
            plan.step()
        if rec:
            rec.step(loss.detach(), grad_norm=norm)
        run.tick(0.06)
        losses.append(loss.item())
        if (step + 1) % every == 0:
            row(step=step, **{"lr-Adam": rate})
            row(epoch=epoch, step=step, train_loss_step=losses[-1])
        if (step + 1) % check == 0:
            value, found = validate()
            if other:
                row(epoch=epoch, step=step, val_loss=value, **{
                    f"val_{n}": v for n, v in found.items() if n != "week"})
                plan.step(value)
            else:
                row(epoch=epoch, step=step, **{"ptl/val_loss": value,
                                               "valid_loss": value})
            name = "val_loss" if other else "valid_loss"
            shown = f", {name}={value:.3g}"
            bad = 0 if value < best else bad + 1
            if value < best:
                best, kept = value, copy.deepcopy(model.state_dict())
                where = epoch, step
            ended = patience is not None and bad >= patience
        mean = sum(losses[-check:]) / check if other else losses[-1]
        if not other or (step + 1) % check == 0:
            row(epoch=epoch, step=step, train_loss_epoch=mean)
        if (step + 1) % check == 0:
            n = check if other else 1
            run.say(f"Epoch {epoch}: 100%|##########| {n}/{n} [00:00<00:00, "
                    f"16.41it/s, v_num=0, train_loss_step={losses[-1]:.3g}"
                    f"{shown}, train_loss_epoch={mean:.3g}]")
        if step + 1 in (10, 70, total) or ended:
            save(f"epoch={epoch}-step={step + 1}", epoch, step + 1)
        if ended:
            break
    if ended:
        run.say("Monitored metric ptl/val_loss did not improve in the last "
                f"{patience} records. Best score: {best:.3f}. Signaling "
                "Trainer to stop.")
    else:
        run.say(f"`Trainer.fit` stopped: `max_steps={total}` reached.")
    if ended or other:
        model.load_state_dict(kept)
        save("best", *where)
    if rec:
        rec.close()
    value, found = validate()
    return {"steps": step + 1, "loss": float(f"{losses[-1]:.4g}"),
            "valid": float(f"{value:.4g}"), "week": round(found["week"], 3),
            "mape": float(f"{found['MAPE']:.3g}")}
