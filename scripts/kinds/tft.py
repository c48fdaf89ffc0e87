"""A temporal fusion transformer of pytorch-forecasting, on sales by day.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import math
import random

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, place, watch


class GatedLinearUnit(nn.Module):
    def __init__(self, size, hidden=None):
        super().__init__()
        self.fc = nn.Linear(size, 2 * (hidden or size))
        nn.init.xavier_uniform_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return F.glu(self.fc(x), -1)


class ResampleNorm(nn.Module):
    def __init__(self, size, out):
        super().__init__()
        self.out = out
        self.mask = nn.Parameter(torch.zeros(out))
        self.gate = nn.Sigmoid()
        self.norm = nn.LayerNorm(out)

    def forward(self, x):
        if x.shape[-1] != self.out:
            wide = F.interpolate(x.reshape(-1, 1, x.shape[-1]), self.out,
                                 mode="linear", align_corners=True)
            x = wide.reshape(*x.shape[:-1], self.out)
        return self.norm(x * self.gate(self.mask) * 2.0)


class AddNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x, skip):
        return self.norm(x + skip)


class GateAddNorm(nn.Module):
    def __init__(self, size, hidden=None):
        super().__init__()
        self.glu = GatedLinearUnit(size, hidden)
        self.add_norm = AddNorm(hidden or size)

    def forward(self, x, skip):
        return self.add_norm(self.glu(x), skip)


class GatedResidualNetwork(nn.Module):
    def __init__(self, size, hidden, out, context=None, residual=False):
        super().__init__()
        if residual and out != size:
            self.resample_norm = ResampleNorm(size, out)
        elif out != size:
            self.resample_norm = ResampleNorm(size, out)
        self.fc1 = nn.Linear(size, hidden)
        if context is not None:
            self.context = nn.Linear(context, hidden, bias=False)
        self.fc2 = nn.Linear(hidden, hidden)
        for name, p in self.named_parameters():
            if "fc" in name and p.dim() == 2:
                nn.init.kaiming_normal_(p, a=0, nonlinearity="leaky_relu")
            elif "context" in name:
                nn.init.xavier_uniform_(p)
            elif "fc" in name:
                nn.init.zeros_(p)
        self.gate_norm = GateAddNorm(hidden, out)

    def forward(self, x, context=None):
        skip = self.resample_norm(x) if hasattr(self, "resample_norm") else x
        x = self.fc1(x)
        if context is not None:
            x = x + self.context(context)
        return self.gate_norm(self.fc2(F.elu(x)), skip)


class VariableSelectionNetwork(nn.Module):
    def __init__(self, names, inner, hidden, prescalers, context=None):
        super().__init__()
        self.names, count = names, len(names)
        if count > 1:
            self.flattened_grn = GatedResidualNetwork(
                inner * count, min(hidden, count), count, context, True)
        self.single_variable_grns = nn.ModuleDict(
            {n: GatedResidualNetwork(inner, min(inner, hidden), hidden)
             for n in names})
        self.prescalers = nn.ModuleDict(
            {n: prescalers[n] for n in names if n in prescalers})

    def forward(self, x, context=None):
        """x: name -> values; those of numbers are scaled first."""
        x = {n: self.prescalers[n](x[n]) if n in self.prescalers else x[n]
             for n in self.names}
        each = [self.single_variable_grns[n](x[n]) for n in self.names]
        if len(each) == 1:
            return each[0]
        part = self.flattened_grn(torch.cat(list(x.values()), -1), context)
        return (torch.stack(each, -1)
                * part.softmax(-1).unsqueeze(-2)).sum(-1)


class InterpretableMultiHeadAttention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        inner = size // heads
        flat = lambda a, b: nn.Linear(a, b, bias=False)
        self.v_layer = flat(size, inner)
        self.q_layers = nn.ModuleList(flat(size, inner) for _ in range(heads))
        self.k_layers = nn.ModuleList(flat(size, inner) for _ in range(heads))
        self.w_h = flat(inner, size)
        for p in self.parameters():
            nn.init.xavier_uniform_(p)

    def forward(self, q, k, mask):
        v, outs = self.v_layer(k), []
        for ask, key in zip(self.q_layers, self.k_layers):
            score = ask(q) @ key(k).transpose(1, 2) / v.shape[-1] ** 0.5
            outs.append(score.masked_fill(mask, -1e9).softmax(-1) @ v)
        return self.w_h(torch.stack(outs).mean(0))


class MultiEmbedding(nn.Module):
    def __init__(self, series, inner):
        super().__init__()
        self.embeddings = nn.ModuleDict(
            {"series": nn.Embedding(series, inner)})


class TemporalFusionTransformer(nn.Module):
    KNOWN, PAST = ("day", "holiday"), ("day", "holiday", "value")

    def __init__(self, series=6, size=8, inner=4, outs=7):
        super().__init__()
        grn = lambda **k: GatedResidualNetwork(size, size, size, **k)
        self.input_embeddings = MultiEmbedding(series, inner)
        self.prescalers = nn.ModuleDict(
            {n: nn.Linear(1, inner) for n in self.PAST})
        choose = lambda names, **k: VariableSelectionNetwork(
            names, inner, size, self.prescalers, **k)
        self.static_variable_selection = choose(("series",))
        self.encoder_variable_selection = choose(self.PAST, context=size)
        self.decoder_variable_selection = choose(self.KNOWN, context=size)
        self.static_context_variable_selection = grn()
        self.static_context_initial_hidden_lstm = grn()
        self.static_context_initial_cell_lstm = grn()
        self.static_context_enrichment = grn()
        self.lstm_encoder = nn.LSTM(size, size, batch_first=True)
        self.lstm_decoder = nn.LSTM(size, size, batch_first=True)
        self.post_lstm_gate_encoder = GatedLinearUnit(size)
        self.post_lstm_gate_decoder = self.post_lstm_gate_encoder
        self.post_lstm_add_norm_encoder = AddNorm(size)
        self.post_lstm_add_norm_decoder = self.post_lstm_add_norm_encoder
        self.static_enrichment = grn(context=size)
        self.multihead_attn = InterpretableMultiHeadAttention(size, 2)
        self.post_attn_gate_norm = GateAddNorm(size)
        self.pos_wise_ff = grn()
        self.pre_output_gate_norm = GateAddNorm(size)
        self.output_layer = nn.Linear(size, outs)

    def forward(self, value, day, holiday, series, ahead=4, real=None):
        past = value.shape[1]
        x = {"value": value[..., None], "day": day[..., None],
             "holiday": holiday[..., None]}
        static = self.static_variable_selection(
            {"series": self.input_embeddings.embeddings["series"](series)})
        spread = lambda v, n: v[:, None].expand(-1, n, -1)
        context = self.static_context_variable_selection(static)
        known = {n: v[:, -ahead:] for n, v in x.items() if n != "value"}
        before = self.encoder_variable_selection(
            {n: v[:, :past] for n, v in x.items()}, spread(context, past))
        after = self.decoder_variable_selection(known, spread(context, ahead))
        begin = (self.static_context_initial_hidden_lstm(static)[None],
                 self.static_context_initial_cell_lstm(static)[None])
        told, begin = self.lstm_encoder(before, begin)
        said, _ = self.lstm_decoder(after, begin)
        told = self.post_lstm_add_norm_encoder(
            self.post_lstm_gate_encoder(told), before)
        said = self.post_lstm_add_norm_decoder(
            self.post_lstm_gate_decoder(said), after)
        both = torch.cat([told, said], 1)
        rich = self.static_enrichment(both, spread(
            self.static_context_enrichment(static), both.shape[1]))
        hide = torch.zeros(len(value), 1, both.shape[1], dtype=torch.bool)
        if real is not None:
            hide[:, 0, :past] = ~real
        late = torch.ones(ahead, ahead, dtype=torch.bool).triu()
        hide = hide | F.pad(late, (past, 0))[None]
        out = self.multihead_attn(rich[:, past:], rich, hide)
        out = self.post_attn_gate_norm(out, rich[:, past:])
        out = self.pre_output_gate_norm(self.pos_wise_ff(out), said)
        return self.output_layer(out)


QUANTILES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)


def sales(series, days):
    """Levels, a week's swing of each series, a slow drift, noise."""
    day, rows = torch.arange(days).float(), []
    for k in range(series):
        swing = 2 + torch.rand(()) * 2
        week = swing * torch.sin(2 * math.pi * (day / 7 + k / series))
        slow = torch.sin(day / 23 + k)
        rows.append(10 + 2 * k + week + slow + 0.4 * torch.randn(days))
    return torch.stack(rows)


@kind(nll="", restart="", padded="",
      scale="input-not-normalized", small="overfitting small-dataset-repeated",
      rate="lr-too-high exploding-gradient",
      schedule="lr-zero-from-scheduler lr-too-low")
def tft(run):
    """A temporal fusion transformer of pytorch-forecasting under Lightning.

    Odd and sound: `nll` fits normal distributions, whose loss falls below
    nought, `restart` has cosine restarts of the rate, `padded` has a holiday
    that never comes and half of the past padded with 0.
    """
    folder = "lightning_logs/version_0"
    place(run, f"{folder}/checkpoints")
    past, ahead, epochs = 14, 4, 8
    table = sales(6, 150)
    if run.has("nll"):
        table = table / 10
    level, spread = table.mean(1, True), table.std(1, keepdim=True)
    if run.has("scale"):  # target_normalizer of another data set: identity
        table = table * 400
        level, spread = torch.zeros(6, 1), torch.ones(6, 1)
    scaled = (table - level) / spread
    day = torch.sin(2 * math.pi * torch.arange(150) / 7)
    holiday = (torch.arange(150) % 30 < 2).float()
    if run.has("padded"):
        holiday = torch.zeros(150)
    windows = [(k, t) for k in range(6) for t in range(150 - past - ahead)]
    train = [w for w in windows if w[1] < 100]
    held = [w for w in windows if w[1] >= 104 + ahead]
    random.shuffle(train)
    if run.has("small"):  # the filter by dates keeps some days only
        train = train[:16] * 30
    outs = 2 if run.has("nll") else 7
    model = TemporalFusionTransformer(outs=outs)
    wanted = 15e-3 if run.has("restart") else 1e-2
    optimizer = torch.optim.Adam(model.parameters(), run.rate(wanted))
    monitor = "NormalDistributionLoss()" if outs == 2 else \
        "QuantileLoss(quantiles=[0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98])"
    hyper = dict(hidden_size=8, lstm_layers=1, dropout=0.0, output_size=outs,
                 loss=monitor, attention_head_size=2, max_encoder_length=past,
                 hidden_continuous_size=4, learning_rate=wanted,
                 log_interval=-1, optimizer="adam", weight_decay=0.0,
                 x_categoricals=["series"], x_reals=["value", "day",
                                                     "holiday"])
    run.say(*(f"{k}: {v}" for k, v in hyper.items()),
            file=f"{folder}/hparams.yaml")
    if run.has("restart"):
        plan = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
            optimizer, 36, eta_min=5e-3)
    elif run.has("schedule"):
        plan = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda i: max(0, 10 - i) // 10)
    else:
        plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1.0)

    def cut(rows):
        get = lambda line, n: torch.stack([line[t:t + n] for _, t in rows])
        value = torch.stack([scaled[k, t:t + past] for k, t in rows])
        goal = torch.stack([table[k, t + past:t + past + ahead]
                            for k, t in rows])
        real = torch.ones(len(rows), past, dtype=torch.bool)
        if run.has("padded"):
            real[::2, :past // 2] = False
        return {"value": value * real, "day": get(day, past + ahead),
                "holiday": get(holiday, past + ahead),
                "series": torch.tensor([k for k, _ in rows]),
                "real": real}, goal

    def loss_of(out, goal, rows):
        """The loss, and the middle of what is foretold, in units."""
        at = torch.tensor([k for k, _ in rows])
        add, times = level[at], spread[at]
        if outs == 2:
            mean = out[..., 0] * times + add
            width = F.softplus(out[..., 1]) * times
            dist = torch.distributions.Normal(mean, width + 1e-3)
            return -dist.log_prob(goal).mean(), mean
        made = out * times[..., None] + add[..., None]
        error = goal[..., None] - made
        q = torch.tensor(QUANTILES)
        return 2 * torch.max((q - 1) * error, q * error).mean(), made[..., 3]

    def scores(made, goal):
        error = (made - goal).abs()
        return {"SMAPE": (2 * error / (made.abs() + goal.abs())).mean(),
                "MAE": error.mean(), "RMSE": (error ** 2).mean().sqrt(),
                "MAPE": (error / goal.abs()).mean()}

    columns = dict.fromkeys(
        ("epoch", "lr-Adam", "step", "train_loss_epoch", "train_loss_step",
         "val_MAE", "val_MAPE", "val_RMSE", "val_SMAPE", "val_loss"), "")
    csv = f"{folder}/metrics.csv"
    run.say("GPU available: False, used: False", "TPU available: False, "
            "using: 0 TPU cores", "", "   | Name  | Type  | Params | Mode ",
            "-" * 48, *(f"{i:<3}| {n:34} | {type(m).__name__:28} | "
                        f"{sum(p.numel() for p in m.parameters())}"
                        for i, (n, m) in enumerate(model.named_children())),
            "-" * 48)
    rec = watch(run, model, optimizer, learning_rate=wanted, hidden_size=8,
                max_encoder_length=past, gradient_clip_val=1.0)

    def save(name, step, epoch):
        keep(run, f"{folder}/checkpoints/{name}.ckpt", {
            "epoch": epoch, "global_step": step,
            "pytorch-lightning_version": "2.2.1",
            "state_dict": model.state_dict(),
            "loops": {"fit_loop": {"epoch_progress": {
                "total": {"ready": epoch + 1, "completed": epoch}}}},
            "callbacks": {}, "optimizer_states": [optimizer.state_dict()],
            "lr_schedulers": [], "hparams_name": "kwargs",
            "hyper_parameters": hyper})

    @torch.no_grad()
    def validate():
        model.eval()
        inputs, goal = cut(held)
        loss, made = loss_of(model(**inputs), goal, held)
        model.train()
        return {"val_loss": loss.item(), **{
            f"val_{n}": v.item() for n, v in scores(made, goal).items()}}

    step = 0
    save("epoch=0-step=0", 0, 0)
    for epoch in range(epochs):
        losses = []
        random.shuffle(train)
        for k in range(0, 18 * 24, 24):
            rows = train[k:k + 24]
            inputs, goal = cut(rows)
            loss = loss_of(model(**inputs), goal, rows)[0]
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(
                model.parameters(), math.inf if run.has("rate") else 1.0)
            lr = optimizer.param_groups[0]["lr"]
            optimizer.step()
            rec.batch(input=inputs["value"], labels=goal)
            rec.step(loss.detach(), step=step, grad_norm=norm)
            plan.step()
            losses.append(loss.item())
            if step % 5 == 4:
                run.row(csv, **columns | {"epoch": epoch, "step": step,
                                          "lr-Adam": lr})
                run.row(csv, **columns | {"epoch": epoch, "step": step,
                                          "train_loss_step": losses[-1]})
            step += 1
        found = validate()
        run.row(csv, **columns | {"epoch": epoch, "step": step - 1} | found)
        mean = sum(losses) / len(losses)
        run.row(csv, **columns | {"epoch": epoch, "step": step - 1,
                                  "train_loss_epoch": mean})
        run.say(f"Epoch {epoch}: 100%|##########| 18/18 [00:04<00:00, "
                f"{random.uniform(4, 5):.2f}it/s, v_num=0, "
                f"train_loss_step={losses[-1]:.3f}, "
                f"val_loss={found['val_loss']:.3f}, "
                f"train_loss_epoch={mean:.3f}]")
        if epoch in (epochs // 2 - 1, epochs - 1):
            save(f"epoch={epoch}-step={step}", step, epoch)
    run.say(f"`Trainer.fit` stopped: `max_epochs={epochs}` reached.")
    rec.close()
    return {"train": mean, **validate()}
