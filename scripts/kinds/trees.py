"""Trees and folders of runs: boosting as three libraries log it, folds, a sweep, a random search."""

import numpy as np
import torch
from torch.nn import functional as F

from kinds.base import grad_norm, kind, learn, mlp
from kinds.data import batches, blobs, table


def stump(x, residual):
    """The best split of one feature, by squared error: (feature, threshold, left, right)."""
    best = (np.inf,)
    for feature in range(x.shape[1]):
        for cut in np.quantile(x[:, feature], np.linspace(0.1, 0.9, 9)):
            left = x[:, feature] < cut
            a, b = residual[left].mean(), residual[~left].mean()
            error = ((residual - np.where(left, a, b)) ** 2).sum()
            best = min(best, (error, feature, cut, a, b))
    return best[1:]


def boosting(x, y, count, rounds=100, rate=0.3):
    """Log losses of training and held-out rows, round by round."""
    score = np.zeros(len(x))
    for _ in range(rounds):
        p = 1 / (1 + np.exp(-score))
        feature, cut, a, b = stump(x[:count], (y - p)[:count])
        score += rate * 4 * np.where(x[:, feature] < cut, a, b)
        p = np.clip(1 / (1 + np.exp(-score)), 1e-7, 1 - 1e-7)
        loss = -(y * np.log(p) + (1 - y) * np.log(1 - p))
        yield loss[:count].mean(), loss[count:].mean()


def halves(run, width=8):
    x, y = (v.numpy() for v in table(1500, width))
    y = (y > 0).astype(float)
    return x, np.random.permutation(y) if run.has("labels") else y


@kind(labels="label-noise overfitting")
def xgboost(run):
    """Boosted trees in XGBoost's lines."""
    for i, (train, held) in enumerate(boosting(*halves(run), 1000)):
        run.say(f"[{i}]\tvalidation_0-logloss:{train:.5f}\tvalidation_1-logloss:{held:.5f}")


@kind(small="overfitting")
def lightgbm(run):
    """Boosted trees in LightGBM's lines; the fault has 60 rows and steps of 1."""
    run.say("[LightGBM] [Info] Number of positive: 512, number of negative: 488", "[LightGBM] [Info] Total Bins 2040",
            "Training until validation scores don't improve for 200 rounds")
    small = run.has("small")
    for i, (train, held) in enumerate(boosting(*halves(run), 60 if small else 1000, 100, 1.0 if small else 0.2), 1):
        run.say(f"[{i}]\ttraining's binary_logloss: {train:.6f}\tvalid_1's binary_logloss: {held:.6f}")


@kind()
def catboost(run):
    """Boosted trees in CatBoost's lines."""
    best = (9.0, 0)
    for i, (train, held) in enumerate(boosting(*halves(run), 1000)):
        best = min(best, (held, i))
        run.say(f"{i}:\tlearn: {train:.7f}\ttest: {held:.7f}\tbest: {best[0]:.7f} ({best[1]})\t"
                f"total: {2 * i}ms\tremaining: {200 - 2 * i}ms")


def classifier(x, y, rate, epochs):
    """Rows of a small classifier, an epoch each; validation is the last fifth."""
    count = len(x) * 4 // 5
    model = mlp(x.shape[1], 64, 6)
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9)
    for epoch in range(epochs):
        losses = [learn(F.cross_entropy(model(x[rows]), y[rows]), optimizer) for rows in batches(count, 64)]
        with torch.no_grad():
            out = model(x[count:])
            yield {"epoch": epoch, "train_loss": sum(losses) / len(losses),
                   "val_loss": float(F.cross_entropy(out, y[count:])),
                   "val_acc": float((out.argmax(1) == y[count:]).float().mean()),
                   "grad_norm": grad_norm(model), "lr": rate}


@kind()
def kfold(run):
    """Five folds, a folder and a CSV file each."""
    x, y = blobs(900, 6, 16, 1.8)
    for fold in range(5):
        rows = torch.arange(900).roll(180 * fold)
        for row in classifier(x[rows], y[rows], 0.02, 8):
            run.row(f"fold_{fold}/metrics.csv", **row)


@kind(labels="label-noise overfitting")
def kfold_log(run):
    """Five folds in one log, each from epoch 1 on again."""
    x, y = blobs(900, 6, 16)
    y = y[torch.randperm(900)] if run.has("labels") else y
    for fold in range(5):
        run.say(f"===== Fold {fold + 1}/5 =====")
        rows = torch.arange(900).roll(180 * fold)
        for row in classifier(x[rows], y[rows], 0.02, 15):
            run.say(f"Epoch {row['epoch'] + 1}/15 train_loss: {row['train_loss']:.4f} val_loss: {row['val_loss']:.4f} "
                    f"val_acc: {row['val_acc']:.4f}")
        run.say(f"Fold {fold + 1} val_acc: {row['val_acc']:.4f}")


@kind(rate="lr-too-high exploding-gradient")
def sweep(run):
    """Four rates side by side, a folder each; the fault is an arm a thousand times too high."""
    x, y = blobs(1200, 6, 16)
    for rate in (0.01, 0.02, 0.05, 20.0 if run.has("rate") else 0.1):
        (run.folder / f"lr_{rate}").mkdir()
        run.settings(f"lr_{rate}/config.json", lr=rate, momentum=0.9, batch_size=64, epochs=25)
        for row in classifier(x, y, rate, 25):
            run.record(f"lr_{rate}/metrics.jsonl", **row)


@kind()
def trials(run):
    """A random search that prints trial after trial in one log, as Optuna does."""
    x, y = blobs(900, 6, 16)
    best = (9.0, 0)
    for trial in range(8):
        rate = 10 ** float(torch.empty(1).uniform_(-3, -1))
        for row in classifier(x, y, rate, 10):
            run.say(f"trial {trial} epoch {row['epoch']}: train_loss={row['train_loss']:.4f} "
                    f"val_loss={row['val_loss']:.4f}")
        best = min(best, (row["val_loss"], trial))
        run.tick(9)
        run.say(f"[I {run.stamp()},123] Trial {trial} finished with value: {row['val_loss']} and parameters: "
                f"{{'lr': {rate}}}. Best is trial {best[1]} with value: {best[0]}.")
