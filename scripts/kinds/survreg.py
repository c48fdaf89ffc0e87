"""Survival: who dies first, of patients that mostly left the study before.

All its runs are sound; the kind returns the concordance index on patients it
did not see and that of the true risk.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.events import Events
from kinds.outputs import keep

WIDTH, BINS = 12, 15


class DeepSurv(nn.Module):
    """Norms without weights, a last layer without bias: only order counts."""

    def __init__(self, outs=1, causes=1, late=False):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.BatchNorm1d(WIDTH, affine=False),
            nn.Linear(WIDTH, 32), nn.SELU(),
            nn.BatchNorm1d(32, affine=False), nn.Dropout(0.05),
            nn.Linear(32, 16, bias=False), nn.SELU(),
            nn.BatchNorm1d(16, affine=False))
        self.heads = nn.ModuleList(nn.Linear(16, outs, bias=False)
                                   for _ in range(causes))
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=m.in_features ** -0.5)
        for head in self.heads:
            nn.init.zeros_(head.weight)
        if late:  # the share of those that die in a bin, from the table
            self.register_buffer("base_logit", torch.zeros(outs))

    def forward(self, x):
        x = self.encoder(x)
        out = torch.stack([head(x) for head in self.heads])
        return out + getattr(self, "base_logit", 0)


def patients(rows, weights, censored):
    """Times in days; units of the columns are those of a clinic."""
    x = torch.randn(rows, WIDTH)
    risk = x @ weights + 0.6 * x[:, 0] * x[:, 1]
    time = -torch.rand(rows).log() * (-risk).exp()
    leave = -torch.rand(rows).log() * time.quantile(1 - censored) * 0.7
    dead = (time <= leave).float()
    units = 10.0 ** (torch.arange(WIDTH) % 7 - 3)
    return x * units + 5 * units, 400 * torch.minimum(time, leave), dead, risk


def concordance(risk, time, dead):
    """NaN where no pair can be compared."""
    pairs = (time[:, None] < time[None]) & (dead[:, None] > 0)
    if not pairs.any():
        return math.nan
    apart = risk[:, None] - risk[None]
    right = (apart > 0).float() + 0.5 * (apart == 0).float()
    return right[pairs].mean().item()


def cox(risk, time, dead, total=False):
    """Each death against all that were there; the risk sets are by order."""
    order = time.argsort(descending=True)
    risk, dead = risk[order], dead[order]
    terms = (risk.logcumsumexp(0) - risk) * dead
    return terms.sum() if total else terms.sum() / dead.sum().clamp(min=1)


def bins_of(time, cuts):
    return torch.searchsorted(cuts, time).clamp(max=BINS - 1)


def hazards_loss(logits, time, dead, cuts):
    """Summed over the bins in which somebody was there."""
    at = bins_of(time, cuts)[:, None]
    there = (torch.arange(BINS) <= at).float()
    died = (torch.arange(BINS) == at).float() * dead[:, None]
    loss = F.binary_cross_entropy_with_logits(logits, died, reduction="none")
    return (loss * there).sum(1).mean()


@kind(hazards="", summed="", rare="", causes="")
def survreg(run):
    """Cox's partial likelihood in a loop of one's own with tensorboardX.

    Odd and sound: `hazards` has a logit for each of 15 spans of time, masks
    that are mostly 0 and a first guess that is a buffer, its files are parts,
    `summed` adds losses up over batches that grow twice, of epochs that get
    shorter, with momentum SGD, and keeps the average of weights alone,
    `rare` has 96 of 100 censored and tiny batches, so that many losses and
    gradients are exactly 0 and concordances NaN, `causes` has a head for a
    second cause that nobody here dies of, whose term is 0.
    """
    hazards, summed, rare, causes = (run.has(n) for n in (
        "hazards", "summed", "rare", "causes"))
    epochs, lr = 10, 2e-2 if hazards else 1e-2
    rows = 2400 if rare else 1200
    censored = 0.96 if rare else 0.7
    weights = 0.6 * torch.randn(WIDTH)
    x, time, dead, _ = patients(rows, weights, censored)
    vx, vtime, vdead, vtrue = patients(1500, weights, 0.6)
    cuts = time[dead > 0].quantile(torch.linspace(0, 1, BINS + 1)[1:-1])
    model = DeepSurv(BINS if hazards else 1, 2 if causes else 1, hazards)
    if hazards:
        at = bins_of(time, cuts)
        died = torch.stack([((at == k) * dead).sum() for k in range(BINS)])
        there = torch.stack([(at >= k).sum() for k in range(BINS)])
        rate = (died / there).clamp(1e-4, 1 - 1e-4)
        model.base_logit.copy_(rate.logit())
    parts = [{"params": model.encoder.parameters(), "weight_decay": 1e-3},
             {"params": model.heads.parameters(), "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(parts, 4e-4, momentum=0.9) if summed else \
        torch.optim.Adam(parts, 4e-3 if rare else lr)
    lr = optimizer.param_groups[0]["lr"]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    average = torch.optim.swa_utils.AveragedModel(model) if summed else None
    loss_name = "nnet_survival" if hazards else "cox_breslow"
    run.say(f"optimizer: {'sgd' if summed else 'adam'}", f"lr: {lr}",
            f"loss: {loss_name}", f"reduction: {'sum' if summed else 'mean'}",
            f"epochs: {epochs}", "batch_norm: {affine: false}",
            "output_bias: false", f"n_train: {rows}",
            f"events: {int(dead.sum())}", file="config.yaml")
    events = Events(run, "runs/Oct09_08-53-20_node-1")
    run.say(f"train: {rows} patients, {int(dead.sum())} events "
            f"({100 * dead.mean():.1f} %), median follow-up "
            f"{time.median():.0f} d")

    def risk_of(net, x):
        out = net(x)
        return -(1 - out[0].sigmoid()).log().cumsum(1).sum(1) if hazards \
            else out[0, :, 0]

    def loss_of(out, time, dead):
        if hazards:
            return hazards_loss(out[0], time, dead, cuts)
        loss = cox(out[0, :, 0], time, dead, summed)
        if causes:  # nobody dies of it here: a sum of nothing
            loss = loss + cox(out[1, :, 0], time, 0 * dead)
        return loss

    def save(epoch):
        name = f"checkpoints/epoch_{epoch:02d}"
        if summed:
            keep(run, name + "_swa.pth", average.state_dict())
        elif hazards:
            keep(run, name + "/encoder.pth", model.encoder.state_dict())
            keep(run, name + "/heads.pth", {
                **model.heads.state_dict(), "base_logit": model.base_logit})
            keep(run, name + "/optimizer.pth", optimizer.state_dict())
        else:
            keep(run, name + ".pth", {
                "epoch": epoch, "state_dict": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": schedule.state_dict()})

    @torch.no_grad()
    def validate():
        net = copy.deepcopy(average if summed and average.n_averaged > 0
                            else model)
        if summed and average.n_averaged > 0:  # as update_bn does
            for m in net.modules():
                if isinstance(m, nn.BatchNorm1d):
                    m.reset_running_stats()
                    m.momentum = None
            net.train()
            net(x)
        net.eval()
        loss = loss_of(net(vx), vtime, vdead).item()
        return loss, concordance(risk_of(net, vx), vtime, vdead)

    model.train()
    done = 0
    save(0)
    loss, index = validate()
    events.scalars(0, **{"val/loss": loss, "val/c_index": index})
    for epoch in range(epochs):
        size = 16 if rare else 64
        if summed:
            size = (32, 64, 128)[min(2, epoch // 3)]
        order = torch.randperm(rows)
        if rare:
            order = order[:16 * 20]
        total = count = 0
        for at in order.split(size):
            if len(at) < 8:
                continue
            at = at[time[at].argsort(descending=True)]
            out = model(x[at])
            loss = loss_of(out, time[at], dead[at])
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(
                model.parameters(), 40.0 if summed else 5.0).item()
            optimizer.step()
            run.tick(0.03)
            total, count = total + loss.item(), count + 1
            with torch.no_grad():
                index = concordance(risk_of(model, x[at]), time[at],
                                    dead[at])
            events.scalars(done, **{
                "train/loss": loss.item(), "train/c_index": index,
                "train/grad_norm": norm, "train/events": dead[at].sum(),
                "train/risk_set": float(len(at))})
            done += 1
        if summed and epoch >= 4:
            average.update_parameters(model)
        loss, index = validate()
        events.scalars(done, **{
            "val/loss": loss, "val/c_index": index,
            "lr": optimizer.param_groups[0]["lr"], "epoch": float(epoch)})
        run.say(f"[{run.stamp()}] epoch {epoch + 1:2d}/{epochs} "
                f"({count} batches) train_loss {total / count:.4f} "
                f"val_loss {loss:.4f} val_c_index {index:.4f}")
        schedule.step()
        if epoch + 1 in (epochs // 2, epochs):
            save(epoch + 1)
    run.ends(index=index, true=concordance(vtrue, vtime, vdead), steps=done)
