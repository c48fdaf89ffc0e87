"""A Learner of fastai: fine_tune, one-cycle, layer groups, history.csv.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.blocks import BasicBlock, conv, kaiming
from kinds.data import stripes
from kinds.outputs import keep, place, watch


class AdaptiveConcatPool2d(nn.Module):
    def __init__(self):
        super().__init__()
        self.ap, self.mp = nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d(1)

    def forward(self, x):
        return torch.cat([self.mp(x), self.ap(x)], 1)


def create_body():
    return kaiming(nn.Sequential(
        conv(1, 8), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
        nn.MaxPool2d(2), nn.Sequential(BasicBlock(8, 8)),
        nn.Sequential(BasicBlock(8, 16, 2))))


def create_head(inner=16, classes=4, hidden=32):
    head = nn.Sequential(
        AdaptiveConcatPool2d(), nn.Flatten(), nn.BatchNorm1d(2 * inner),
        nn.Dropout(0.25), nn.Linear(2 * inner, hidden, bias=False),
        nn.ReLU(inplace=True), nn.BatchNorm1d(hidden), nn.Dropout(0.5),
        nn.Linear(hidden, classes, bias=False))
    for m in head:
        if isinstance(m, nn.Linear):
            nn.init.kaiming_normal_(m.weight)
    return head


def combined_cos(share, start, top, end, pct=0.25):
    cos = lambda a, b, p: b + (a - b) * (1 + math.cos(math.pi * p)) / 2
    if share < pct:
        return cos(start, top, share / pct)
    return cos(top, end, (share - pct) / (1 - pct))


def pretrained(body):
    """What "pretrained" brings: waves of other widths and turns."""
    x, y = stripes(320)
    x = F.interpolate(x, scale_factor=1.25)[..., 1:13, 1:13].flip(2)
    net = nn.Sequential(body, create_head())
    own = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(30):
        at = torch.randint(320, (32,))
        loss = F.cross_entropy(net((x[at] - 0.5) / 0.2), y[at])
        own.zero_grad()
        loss.backward()
        own.step()
    own.zero_grad()


@kind(frozen="", mixup="", sgdr="",
      decay="weight-decay-too-high",
      pairs="label-pairing-mismatch label-noise",
      stale="optimizer-holds-stale-params frozen-parameters",
      softmax="double-softmax")
def fastai(run):
    """A vision_learner of fastai, fine-tuned: head first, then all layers.

    Odd and sound: `frozen` trains the head alone, then nothing is unfrozen,
    `mixup` has MixUp and smoothed labels, so that train_loss stays twice
    valid_loss, `sgdr` restarts its rate four times, each cycle twice as long.
    The plain run too has a history.csv of two fits whose epochs begin at 0.
    """
    rows, size, classes = 384, 32, 4
    x, y = stripes(rows + 160)
    x = (x - x[:rows].mean()) / x[:rows].std() + 1.1 * torch.randn_like(x)
    (x, vx), (y, vy) = (t.split([rows, 160]) for t in (x, y))
    if run.has("pairs"):  # labels of the CSV, files of another listing
        y = y[torch.randperm(rows)]
    body = create_body()
    pretrained(body)
    model = nn.Sequential(body, create_head(classes=classes))
    groups = [body[:4], body[4:], model[1]]
    base, mixup = 1e-2, run.has("mixup")
    smooth = 0.1 if mixup else 0.0
    norms = lambda m: isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d))
    optimizer = torch.optim.AdamW(
        [{"params": list(g.parameters())} for g in groups], lr=base,
        betas=(0.95, 0.99), eps=1e-5,
        weight_decay=30.0 if run.has("decay") else 0.01)
    if run.has("stale"):  # learn.model[1] = create_head(...), after opt
        model[1] = create_head(classes=classes)
    fit_loss = nn.CrossEntropyLoss(label_smoothing=smooth)
    run.settings(
        "learner.json", arch="resnet_tiny", loss_func=
        "LabelSmoothingCrossEntropy()" if mixup else
        "FlattenedLoss of CrossEntropyLoss()", opt_func="Adam", lr=base,
        wd=0.01, train_bn=True, moms=[0.95, 0.85, 0.95], bs=size,
        splitter="default_split", n_groups=3,
        cbs=["TrainEvalCallback", "Recorder", "ProgressCallback",
             "CSVLogger", "SaveModelCallback", *["MixUp"] * mixup])
    place(run, "models")
    still = [f"0.{i}" for i in range(6)] if run.has("frozen") else []
    rec = watch(run, model, optimizer, lr=base, freeze=still)
    columns = ["epoch", "train_loss", "valid_loss", "accuracy", "time"]
    best = math.inf

    def freeze(to):
        """All but the last groups; norms train (train_bn)."""
        for i, group in enumerate(groups):
            for m in group.modules():
                for p in m.parameters(recurse=False):
                    p.requires_grad_(i >= to or norms(m))

    def save(name):
        hypers = [{"wd": g["weight_decay"], "sqr_mom": g["betas"][1],
                   "lr": g["lr"], "mom": g["betas"][0], "eps": g["eps"]}
                  for g in optimizer.param_groups]
        state = [{"grad_avg": s["exp_avg"], "sqr_avg": s["exp_avg_sq"],
                  "step": int(s["step"])}
                 for s in optimizer.state.values()]
        keep(run, f"models/{name}.pth", {
            "model": model.state_dict(),
            "opt": {"state": state, "hypers": hypers}})

    def output(batch):
        out = model(batch)
        return out.softmax(1) if run.has("softmax") else out

    def fit(epochs, at_step, tag):
        """at_step: share of the fit -> rates of the groups and momentum."""
        nonlocal best
        run.say(",".join(columns), file="history.csv")
        wide = [c.ljust(8) for c in columns]
        run.say("  ".join(wide), file="out.log")
        per, mean, seen = rows // size, 0.0, 0
        for epoch in range(epochs):
            model.train()
            for i, at in enumerate(torch.randperm(rows).split(size)):
                rates, mom = at_step((epoch * per + i) / (epochs * per))
                for group, lr in zip(optimizer.param_groups, rates):
                    group["lr"] = lr
                    group["betas"] = (mom, 0.99)
                if mixup:
                    lam = torch.distributions.Beta(0.4, 0.4).sample()
                    lam = torch.maximum(lam, 1 - lam)
                    turn = torch.randperm(size)
                    batch = lam * x[at] + (1 - lam) * x[at][turn]
                    out = output(batch)
                    loss = lam * fit_loss(out, y[at]) \
                        + (1 - lam) * fit_loss(out, y[at][turn])
                else:
                    batch = x[at]
                    loss = fit_loss(output(batch), y[at])
                rec.batch(input=batch, labels=y[at])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                rec.step(loss)
                seen += 1
                mean = 0.98 * mean + 0.02 * loss.item()
            model.eval()
            with torch.no_grad():
                out = output(vx)
                valid = fit_loss(out, vy).item()
                acc = (out.argmax(1) == vy).float().mean().item()
            run.tick(1.2)
            took = "00:01"
            train = mean / (1 - 0.98 ** seen)
            run.say(",".join(map(str, (epoch, train, valid, acc, took))),
                    file="history.csv")
            told = [str(epoch), *(f"{v:.6f}" for v in (train, valid, acc)),
                    took]
            run.say("".join(t + " " * (2 + len(n) - len(t))
                            for t, n in zip(told, wide)), file="out.log")
            if valid < best:
                best = valid
                run.say(f"Better model found at epoch {epoch} with "
                        f"valid_loss value: {valid}.", file="out.log")
                save("model")
        save(tag)
        return valid, acc

    def one_cycle(tops, div=25.0, pct=0.25):
        return lambda share: (
            [combined_cos(share, t / div, t, t / 1e5, pct) for t in tops],
            combined_cos(share, 0.95, 0.85, 0.95, pct))

    def cosines(tops):
        """fit_sgdr(n_cycles=4, cycle_len=1, cycle_mult=2)."""
        def at(share):
            done, long = share * 15, 1
            while done >= long:
                done, long = done - long, long * 2
            return ([t * (1 + math.cos(math.pi * done / long)) / 2
                     for t in tops], 0.95)
        return at

    freeze(2)
    save("stage-0")
    if run.has("frozen"):
        end = fit(12, one_cycle([base] * 3), "stage-1")
    else:
        fit(2, one_cycle([base] * 3, pct=0.99), "stage-1")
        freeze(0)
        top = base / 2
        spread = [top / 10, top / 10 ** 0.5, top]
        if run.has("sgdr"):
            end = fit(15, cosines([2 * s for s in spread]), "stage-2")
        else:
            end = fit(12 if mixup else 10,
                      one_cycle(spread, div=5.0, pct=0.3), "stage-2")
    rec.close()
    with torch.no_grad():
        plain = F.cross_entropy(output(vx), vy).item()
    return {"valid": round(end[0], 3), "plain": round(plain, 3),
            "acc": round(end[1], 3)}
