"""Pictures: objects with several losses, masks, a Keras classifier, two tasks, an average of weights."""

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import grad_norm, kind, learn, mlp
from kinds.data import batches, blobs, pictures


def centre_and_size(masks):
    """Boxes of the masks, in parts of the picture."""
    ys, xs = masks[:, 0].amax(2), masks[:, 0].amax(1)
    at = torch.arange(masks.shape[-1]).float()
    mid = lambda m: (m * at).sum(1) / m.sum(1)
    return torch.stack([mid(xs), mid(ys), xs.sum(1), ys.sum(1)], 1) / masks.shape[-1]


@kind(rate="lr-too-high exploding-gradient")
def detection(run):
    """Boxes, classes and objectness with a loss each: results.csv and console of Ultralytics."""
    x, y, masks = pictures(768)
    boxes, x = centre_and_size(masks), x.flatten(1)
    model, base = mlp(144, 128, 128, 8), run.rate(0.01)
    optimizer = torch.optim.SGD(model.parameters(), base, momentum=0.9)
    (run.folder / "args.yaml").write_text(f"task: detect\nmode: train\nepochs: 25\nbatch: 32\nlr0: {base}\nlrf: 0.01\n"
                                          "momentum: 0.9\nwarmup_epochs: 3.0\nbox: 7.5\ncls: 0.5\n")

    def losses(rows):
        out = model(x[rows])
        return (7.5 * F.smooth_l1_loss(out[:, :4], boxes[rows]), 0.5 * F.cross_entropy(out[:, 4:], y[rows]),
                1.5 * (out[:, :4] - boxes[rows]).abs().mean())

    def mean_precision(rows):
        out = model(x[rows])
        near = (out[:, :4] - boxes[rows]).abs().amax(1) < 0.12
        return float((near & (out[:, 4:].argmax(1) == y[rows])).float().mean())

    held = torch.arange(640, 768)
    for epoch in range(1, 26):
        optimizer.param_groups[0]["lr"] = rate = base * (1 - 0.99 * (epoch - 1) / 25)
        sums = torch.zeros(3)
        for rows in batches(640, 32):
            parts = losses(rows)
            learn(sum(parts), optimizer)
            sums += torch.stack(parts).detach() / 20
        with torch.no_grad():
            val, score = torch.stack(losses(held)), mean_precision(held)
        run.say("", "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size",
                f"{f'{epoch}/25':>11}{'0G':>11}" + "".join(f"{v:>11.4g}" for v in sums.tolist()) + f"{32:>11}{12:>11}: "
                "100%|##########| 20/20 [00:01<00:00, 15.1it/s]",
                "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): "
                "100%|##########| 4/4 [00:00<00:00, 20.0it/s]",
                f"{'all':>22}{128:>11}{128:>11}{score:>11.3g}{score:>11.3g}{score:>11.3g}{score * 0.7:>11.3g}")
        names = ("box_loss", "cls_loss", "dfl_loss")
        run.row("results.csv", epoch=epoch, time=round(run.tick(1.4) % 1000, 2),
                **{f"train/{n}": round(v, 5) for n, v in zip(names, sums.tolist())},
                **{"metrics/precision(B)": score, "metrics/recall(B)": score, "metrics/mAP50(B)": score,
                   "metrics/mAP50-95(B)": 0.7 * score},
                **{f"val/{n}": round(v, 5) for n, v in zip(names, val.tolist())},
                **{f"lr/pg{i}": rate for i in range(3)})


def dice(logits, masks):
    p = logits.sigmoid()
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


@kind(sign="loss-sign-flipped loss-unbounded-below", dead="dead-relu")
def segmentation(run):
    """Masks by cross entropy and Dice, Lightning's metrics.csv with its gaps; the dead one begins at a bias of -30."""
    x, _, masks = pictures(320)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
                          nn.Conv2d(16, 1, 1))
    if run.has("dead"):
        nn.init.constant_(model[2].bias, -30.0)
    optimizer, step = torch.optim.Adam(model.parameters(), 1e-3), 0
    weight = -1 if run.has("sign") else 1
    columns = dict.fromkeys(("epoch", "step", "train_loss_step", "train_loss_epoch", "train_dice", "val_loss",
                             "val_dice"), "")
    for epoch in range(20):
        losses = []
        for rows in batches(256, 32):
            logits = model(x[rows])
            overlap = dice(logits, masks[rows])
            loss = learn(F.binary_cross_entropy_with_logits(logits, masks[rows]) + weight * overlap, optimizer)
            losses.append(loss)
            if step % 4 == 3:
                run.row(**columns | {"epoch": epoch, "step": step, "train_loss_step": loss,
                                     "train_dice": 1 - float(overlap.detach())})
            step += 1
        with torch.no_grad():
            logits = model(x[256:])
            overlap = float(dice(logits, masks[256:]))
            val = float(F.binary_cross_entropy_with_logits(logits, masks[256:])) + weight * overlap
        run.row(**columns | {"epoch": epoch, "step": step - 1, "val_loss": val, "val_dice": 1 - overlap})
        run.row(**columns | {"epoch": epoch, "step": step - 1, "train_loss_epoch": sum(losses) / len(losses)})


@kind(labels="label-noise", rate="lr-too-high dead-relu exploding-gradient", small="overfitting")
def keras_classifier(run):
    """A classifier in Keras' words: steps within an epoch on one line, then its evaluation."""
    x, y = blobs(1280, 6, 16, 2.5)
    y = torch.randint(6, (1280,)) if run.has("labels") else y
    count = 60 if run.has("small") else 1024
    model = mlp(16, 128, 128, 6)
    optimizer = torch.optim.Adam(model.parameters(), run.rate(1e-3, 1000))
    right = lambda rows: float((model(x[rows]).argmax(1) == y[rows]).float().mean())
    epochs = 8 if not run.fault else 30
    for epoch in range(1, epochs + 1):
        losses = [learn(F.cross_entropy(model(x[rows]), y[rows]), optimizer) for rows in batches(count, 32)]
        n, held = len(losses), torch.arange(1024, 1280)
        with torch.no_grad():
            acc, val = right(torch.arange(count)), float(F.cross_entropy(model(x[held]), y[held]))
        loss = sum(losses) / n
        run.say(f"Epoch {epoch}/{epochs}", f"\x1b[1m{n}/{n}\x1b[0m "
                "\x1b[32m━━━━━━━━━━━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m0s\x1b[0m 2ms/step - "
                f"accuracy: {acc:.4f} - loss: {loss:.4f} - val_accuracy: {right(held):.4f} - val_loss: {val:.4f}")


@kind(weights="loss-terms-unbalanced")
def multi_task(run):
    """A class and a number from one trunk, each with its own loss; the fault weighs the number a ten-thousandfold."""
    x, y = blobs(2048, 6, 16)
    target = (x[:, :4] ** 2).sum(1) / 5
    trunk, heads = mlp(16, 64, 64), nn.ModuleList([nn.Linear(64, 6), nn.Linear(64, 1)])
    weight = 1e4 if run.has("weights") else 0.5
    optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], 1e-3)
    for step in range(400):
        rows = torch.randint(2048, (64,))
        hidden = F.relu(trunk(x[rows]))
        logits = heads[0](hidden)
        parts = F.cross_entropy(logits, y[rows]), F.mse_loss(heads[1](hidden).squeeze(1), target[rows])
        loss = learn(parts[0] + weight * parts[1], optimizer)
        if step % 5 == 0:
            run.record(step=step, total_loss=loss, class_loss=float(parts[0].detach()), grad_norm=grad_norm(trunk),
                       regression_loss=weight * float(parts[1].detach()), lr=1e-3,
                       class_accuracy=float((logits.argmax(1) == y[rows]).float().mean()))


@kind(lag="ema-weights-lag")
def ema(run):
    """An average of the weights is evaluated; the fault averages over ten times the run."""
    x, y = blobs(1280, 6, 16)
    model, mean = mlp(16, 64, 64, 6), mlp(16, 64, 64, 6)
    mean.load_state_dict(model.state_dict())
    optimizer, decay = torch.optim.Adam(model.parameters(), 1e-3), 0.9998 if run.has("lag") else 0.98
    run.settings(ema_decay=decay, lr=1e-3, batch_size=64, max_steps=400)
    for step in range(400):
        rows = torch.randint(1024, (64,))
        loss = learn(F.cross_entropy(model(x[rows]), y[rows]), optimizer)
        with torch.no_grad():
            for slow, fast in zip(mean.parameters(), model.parameters()):
                slow.lerp_(fast, 1 - decay)
            if step % 10 == 0:
                run.record(step=step, loss=loss, lr=1e-3, val_loss=float(F.cross_entropy(model(x[1024:]), y[1024:])),
                           ema_val_loss=float(F.cross_entropy(mean(x[1024:]), y[1024:])),
                           ema_val_accuracy=float((mean(x[1024:]).argmax(1) == y[1024:]).float().mean()))
