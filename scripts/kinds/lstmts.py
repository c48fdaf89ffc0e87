"""DeepAR of GluonTS under Lightning, on series of many sizes.

Some of its designs are odd and sound. The kind tells how well its run ended,
measured on what it did not train on.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, place, watch

PAST, AHEAD, LAGS = 24, 12, (1, 2, 3, 12)


class StudentTProj(nn.Module):
    """get_args_proj() of StudentTOutput: df, loc, scale."""

    def __init__(self, hidden):
        super().__init__()
        self.proj = nn.ModuleList([nn.Linear(hidden, 1) for _ in range(3)])

    def forward(self, x):
        df, loc, scale = (p(x).squeeze(-1) for p in self.proj)
        return 2 + F.softplus(df), loc, F.softplus(scale) + 1e-6


class FeatureEmbedder(nn.Module):
    def __init__(self, cardinalities, dims):
        super().__init__()
        self._embedders = nn.ModuleList(
            [nn.Embedding(c, d) for c, d in zip(cardinalities, dims)])

    def forward(self, x):
        return torch.cat([e(x[:, i]) for i, e in enumerate(self._embedders)],
                         -1)


class DeepARModel(nn.Module):
    """The static features are there though the data set has none."""

    def __init__(self, hidden=24, scaling=True):
        super().__init__()
        self.scaling = scaling
        self.param_proj = StudentTProj(hidden)
        self.embedder = FeatureEmbedder([1], [1])
        self.rnn = nn.LSTM(len(LAGS) + 5, hidden, num_layers=2,
                           dropout=0.1, batch_first=True)

    def scale_of(self, context, seen):
        if not self.scaling:
            return torch.ones_like(context[:, :1])
        many = seen.sum(1, True)
        mean = (context * seen).abs().sum(1, True) / many.clamp(min=1)
        return mean.clamp(min=1e-10)

    def unroll(self, series, seen, time, leak=False):
        """Parameters for each value after the first of the context."""
        first = max(LAGS)
        scale = self.scale_of(series[:, first:first + PAST],
                              seen[:, first:first + PAST])
        long = series.shape[1]
        ends = range(first + 1, long)
        x = series / scale
        lags = torch.stack([
            torch.stack([x[:, t - lag + leak] for lag in LAGS], -1)
            for t in ends], 1)
        rows = len(series)
        none = torch.zeros(rows, 1)
        static = torch.cat([self.embedder(torch.zeros(rows, 1).long()),
                            none, scale.log()], -1)
        wide = static[:, None].expand(-1, lags.shape[1], -1)
        inputs = torch.cat([lags, wide, time[:, first + 1:long]], -1)
        return self.param_proj(self.rnn(inputs)[0]), scale

    def forward(self, series, seen, time, leak=False):
        return self.unroll(series, seen, time, leak)


class DeepARLightningModule(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.model = DeepARModel(**options)

    def forward(self, past_target, past_observed_values, time_feat, leak=0):
        return self.model(past_target, past_observed_values, time_feat, leak)


def nll(params, scale, target):
    df, loc, wide = params
    dist = torch.distributions.StudentT(df, loc * scale, wide * scale)
    return -dist.log_prob(target)


def demand(count, months):
    """Series of levels of 0.1 to 50 with a year's course, and their time."""
    t = torch.arange(months).float()
    level = torch.exp(torch.empty(count, 1).uniform_(-2.3, 3.9))
    phase = 6.28 * torch.rand(count, 1)
    year = 0.5 * torch.sin(2 * math.pi * t / 12 + phase)
    trend = 0.002 * torch.randn(count, 1) * t
    noise = 0.08 * torch.randn(count, months)
    time = torch.stack([torch.sin(2 * math.pi * t / 12),
                        torch.log10(2 + t)], -1)
    return level * (1 + year + trend + noise).clamp(min=0.05), time


@kind(shares="", missing="", resumed="",
      rate="lr-too-high exploding-gradient",
      scale="input-not-normalized",
      leak="label-shift-missing", sign="loss-sign-flipped loss-unbounded-below")
def lstmts(run):
    """DeepAR of GluonTS: negative log likelihoods of a Student-t.

    Odd and sound: `shares` are of 0.001 so that the loss is below -4, `missing`
    lacks a seventh of the values, which are 0 and masked, `resumed` goes on
    from its checkpoint in a second log folder.
    """
    epochs, per_epoch, size, lr = 8, 20, 32, 8e-3
    series, time = demand(48, 120)
    if run.has("shares"):
        series = series / 4000
    if run.has("scale"):  # scaling=False came with the log transform, gone
        series = series * 100
    seen = torch.ones_like(series)
    if run.has("missing"):
        seen = (torch.rand_like(series) > 0.15).float()
        series = series * seen
    long = max(LAGS) + PAST + AHEAD
    net = DeepARLightningModule(scaling=not run.has("scale"))
    optimizer = torch.optim.Adam(net.parameters(), run.rate(lr, 60),
                                 weight_decay=1e-8)
    version, csv = 0, ""

    def begin():
        nonlocal csv
        base = f"lightning_logs/version_{version}"
        place(run, f"{base}/checkpoints")
        csv = f"{base}/metrics.csv"
        run.say("loss: !!python/object:gluonts.torch.modules.loss."
                "NegativeLogLikelihood", "  beta: 0.0", f"lr: {lr}",
                "model_kwargs:", f"  context_length: {PAST}",
                "  dropout_rate: 0.1", "  hidden_size: 24",
                f"  lags_seq: {list(LAGS)}", "  num_layers: 2",
                f"  prediction_length: {AHEAD}", "  scaling: true",
                "patience: 10", "weight_decay: 1.0e-08",
                file=f"{base}/hparams.yaml")
        return base

    def cut(rows, starts):
        at = starts[:, None] + torch.arange(long)
        return series[rows[:, None], at], seen[rows[:, None], at], time[at]

    def loss_of(x, real, when):
        leak = 1 if run.has("leak") else 0
        params, scale = net(x, real, when, leak)
        first = max(LAGS) + 1
        value = nll(params, scale, x[:, first:])
        if run.has("sign"):
            value = -value
        weight = real[:, first:]
        return (value * weight).sum() / weight.sum().clamp(min=1)

    def save(base, epoch, step):
        keep(run, f"{base}/checkpoints/epoch={epoch}-step={step}.ckpt", {
            "epoch": epoch, "global_step": step,
            "pytorch-lightning_version": "2.1.4",
            "state_dict": net.state_dict(), "loops": {}, "callbacks": {
                "ModelCheckpoint{'monitor': 'train_loss', 'mode': 'min'}":
                {"best_model_score": torch.tensor(best)}},
            "optimizer_states": [optimizer.state_dict()],
            "lr_schedulers": [], "hparams_name": "kwargs",
            "hyper_parameters": {"lr": lr, "weight_decay": 1e-8}})

    everyone = torch.arange(48)
    late = torch.full((48,), 120 - long)
    best, step, first = math.inf, 0, 0
    base = begin()
    run.say("GPU available: False, used: False",
            "  | Name  | Type        | Params", "-" * 35,
            "0 | model | DeepARModel | "
            f"{sum(p.numel() for p in net.parameters()) / 1000:.1f} K",
            "-" * 35)
    rec = watch(run, net, optimizer, learning_rate=lr, context_length=PAST,
                prediction_length=AHEAD, gradient_clip_val=10.0)
    save(base, 0, 0)
    for epoch in range(epochs):
        if run.has("resumed") and epoch == epochs // 2:
            version, base = 1, ""
            base = begin()
            run.say("Restoring states from the checkpoint path at "
                    f"lightning_logs/version_0/checkpoints/epoch={epoch - 1}"
                    f"-step={step}.ckpt", "Restored all states from the "
                    "checkpoint")
        net.train()
        losses = []
        for _ in range(per_epoch):
            rows = torch.randint(48, (size,))
            batch = cut(rows, torch.randint(120 - long - AHEAD, (size,)))
            loss = loss_of(*batch)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(
                net.parameters(), math.inf if run.has("rate") else 10.0)
            optimizer.step()
            rec.batch(past_target=batch[0], past_observed_values=batch[1],
                      time_feat=batch[2])
            rec.step(loss.detach(), step=step, grad_norm=norm)
            losses.append(loss.item())
            step += 1
        net.eval()
        with torch.no_grad():
            val = loss_of(*cut(everyone, late)).item()
        mean = sum(losses) / per_epoch
        row = dict.fromkeys(("epoch", "step", "train_loss", "val_loss"), "")
        run.row(csv, **row | {"epoch": epoch, "step": step - 1,
                              "val_loss": val})
        run.row(csv, **row | {"epoch": epoch, "step": step - 1,
                              "train_loss": mean})
        run.tick(6)
        it = random_rate(run)
        run.say(f"Epoch {epoch}: 100%|##########| {per_epoch}/{per_epoch} "
                f"[00:06<00:00, {it:.2f}it/s, v_num={version}, "
                f"val_loss={val:.3f}, train_loss={mean:.3f}]")
        if mean < best:
            best = mean
            run.say(f"Epoch {epoch}, global step {step}: 'train_loss' reached "
                    f"{mean:.5f} (best {mean:.5f}), saving model to "
                    f"'{base}/checkpoints/epoch={epoch}-step={step}.ckpt' "
                    "as top 1")
        else:
            run.say(f"Epoch {epoch}, global step {step}: 'train_loss' was not "
                    "in top 1")
        if epoch in (epochs // 2 - 1, epochs - 1):
            save(base, epoch, step)
    run.say(f"`Trainer.fit` stopped: `max_epochs={epochs}` reached.")
    rec.close()
    run.ends(val=val, wape=forecast(net, cut(everyone, late)))


def random_rate(run):
    return 20 / 6 * (1 + 0.02 * math.sin(run.clock))


@torch.no_grad()
def forecast(net, batch):
    """The error of forecasts that feed on themselves, against the mean."""
    x, seen, time = (t.clone() for t in batch)
    true, real = x[:, -AHEAD:].clone(), seen[:, -AHEAD:]
    x[:, -AHEAD:] = 0
    for k in range(AHEAD, 0, -1):
        end = x.shape[1] - k + 1
        (_, loc, _), scale = net(x[:, :end], seen[:, :end], time[:, :end])
        x[:, end - 1] = (loc * scale)[:, -1]
    level = net.model.scale_of(true, real) + 1e-9
    if not net.model.scaling:
        level = true.abs().mean(1, True)
    wrong = ((x[:, -AHEAD:] - true).abs() * real) / level
    return (wrong.sum() / real.sum()).item()
