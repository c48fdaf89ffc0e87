"""TabNet of pytorch-tabnet on a table with rows that are hard to part.

Some of its designs are odd and sound. The kind tells how well its run ended,
measured on what it did not train on.
"""

import datetime
import io
import json
import math
import zipfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import place, watch


def sparsemax(x):
    """Euclidean projection on the simplex: most entries become exactly 0."""
    z = x.sort(1, descending=True).values
    k = torch.arange(1, x.shape[1] + 1).float()
    run = z.cumsum(1) - 1
    size = (1 + k * z > run + 1).sum(1, keepdim=True)
    return (x - run.gather(1, size - 1) / size).clamp(min=0)


def glorot(layer, inner, outer, glu=False):
    gain = math.sqrt((inner + outer) / math.sqrt(inner if glu else 4 * inner))
    nn.init.xavier_normal_(layer.weight, gain=gain)


class GBN(nn.Module):
    def __init__(self, dim, virtual, momentum=0.02):
        super().__init__()
        self.virtual = virtual
        self.bn = nn.BatchNorm1d(dim, momentum=momentum)

    def forward(self, x):
        parts = x.chunk(math.ceil(len(x) / self.virtual), 0)
        return torch.cat([self.bn(p) for p in parts])


class GLU_Layer(nn.Module):
    def __init__(self, inner, outer, virtual, fc=None):
        super().__init__()
        self.fc = fc or nn.Linear(inner, 2 * outer, bias=False)
        self.outer = outer
        glorot(self.fc, inner, 2 * outer, glu=True)
        self.bn = GBN(2 * outer, virtual)

    def forward(self, x):
        x = self.bn(self.fc(x))
        return x[:, :self.outer] * torch.sigmoid(x[:, self.outer:])


class GLU_Block(nn.Module):
    def __init__(self, inner, outer, virtual, first=False, shared=None):
        super().__init__()
        self.first, self.shared_layers = first, shared
        self.glu_layers = nn.ModuleList(
            [GLU_Layer(inner if i == 0 else outer, outer, virtual,
                       shared[i] if shared else None) for i in range(2)])

    def forward(self, x):
        layers = list(self.glu_layers)
        if self.first:
            x = layers.pop(0)(x)
        for layer in layers:
            x = (x + layer(x)) * math.sqrt(0.5)
        return x


class FeatTransformer(nn.Module):
    def __init__(self, inner, outer, shared, virtual):
        super().__init__()
        self.shared = GLU_Block(inner, outer, virtual, True, shared)
        self.specifics = GLU_Block(outer, outer, virtual)

    def forward(self, x):
        return self.specifics(self.shared(x))


class AttentiveTransformer(nn.Module):
    def __init__(self, inner, outer, virtual):
        super().__init__()
        self.fc = nn.Linear(inner, outer, bias=False)
        glorot(self.fc, inner, outer)
        self.bn = GBN(outer, virtual)

    def forward(self, prior, x):
        return sparsemax(self.bn(self.fc(x)) * prior)


class TabNetEncoder(nn.Module):
    def __init__(self, dim, n_d, n_a, steps, gamma, virtual):
        super().__init__()
        self.n_d, self.gamma = n_d, gamma
        self.initial_bn = nn.BatchNorm1d(dim, momentum=0.01)
        both = n_d + n_a
        shared = nn.ModuleList([nn.Linear(dim, 2 * both, bias=False),
                                nn.Linear(both, 2 * both, bias=False)])
        self.initial_splitter = FeatTransformer(dim, both, shared, virtual)
        self.feat_transformers = nn.ModuleList(
            [FeatTransformer(dim, both, shared, virtual)
             for _ in range(steps)])
        self.att_transformers = nn.ModuleList(
            [AttentiveTransformer(n_a, dim, virtual) for _ in range(steps)])

    def forward(self, x):
        x = self.initial_bn(x)
        prior, sparse, outs = torch.ones_like(x), 0, []
        att = self.initial_splitter(x)[:, self.n_d:]
        for attend, feat in zip(self.att_transformers,
                                self.feat_transformers):
            mask = attend(prior, att)
            sparse = sparse + (mask * (mask + 1e-15).log()).sum(1).mean()
            prior = (self.gamma - mask) * prior
            out = feat(mask * x)
            outs.append(F.relu(out[:, :self.n_d]))
            att = out[:, self.n_d:]
        return outs, sparse / len(outs)


class TabNetNoEmbeddings(nn.Module):
    """Has a norm of its own that nothing calls, as the library has."""

    def __init__(self, dim, outs, n_d, n_a, steps, gamma, virtual):
        super().__init__()
        self.initial_bn = nn.BatchNorm1d(dim, momentum=0.01)
        self.encoder = TabNetEncoder(dim, n_d, n_a, steps, gamma, virtual)
        self.final_mapping = nn.Linear(n_d, outs, bias=False)
        glorot(self.final_mapping, n_d, outs)

    def forward(self, x):
        outs, sparse = self.encoder(x)
        return self.final_mapping(torch.stack(outs).sum(0)), sparse


class EmbeddingGenerator(nn.Module):
    """One categorical column, the last, becomes two numbers."""

    def __init__(self, cats, size=2):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(cats, size)])

    def forward(self, x):
        return torch.cat([x[:, :-1], self.embeddings[0](x[:, -1].long())], 1)


class TabNet(nn.Module):
    def __init__(self, dim, outs, cats, virtual=64, n_d=8, n_a=8, steps=3,
                 gamma=1.3, soft=False):
        super().__init__()
        self.soft = soft
        self.embedder = EmbeddingGenerator(cats)
        self.tabnet = TabNetNoEmbeddings(dim + 1, outs, n_d, n_a, steps,
                                         gamma, virtual)

    def forward(self, x):
        out, sparse = self.tabnet(self.embedder(x))
        return (out.softmax(1) if self.soft else out), sparse


def incomes(rows, rare=False):
    """Twelve columns and a category; some have nothing to do with it."""
    x = torch.randn(rows, 12)
    scale = torch.tensor([1, 1, 40, 1, 1000, 1, 1, 0.01, 1, 1, 1, 1.0])
    cat = torch.randint(6, (rows,))
    score = 1.5 * x[:, 0] - x[:, 2] + x[:, 4] * x[:, 7] \
        + torch.tensor([-1.5, -1, 0, 0, 1, 1.5])[cat]
    edge = score.quantile(0.92) if rare else 0.0
    noise = 0.5 * torch.randn(rows)
    y = (score + noise > edge).long()
    return torch.cat([x * scale + 3 * scale, cat[:, None].float()], 1), y


def auc(score, y):
    a, b = score[y == 1], score[y == 0]
    gap = a[:, None] - b[None]
    return float(((gap > 0).float() + 0.5 * (gap == 0)).mean())


@kind(constant="", onecycle="", balanced="",
      rate="lr-too-high exploding-gradient",
      labels="label-pairing-mismatch label-noise", softmax="double-softmax",
      schedule="lr-zero-from-scheduler lr-too-low")
def tabnet(run):
    """TabNetClassifier of pytorch-tabnet, its epoch lines and zip files.

    Odd and sound: `constant` has two columns that never change, `onecycle`
    a rate that rises and falls to 0 by batches, `balanced` draws the rare
    class as often as the other, so that the loss of training is no measure of
    that of validation, which has one in twelve.
    """
    place(run, "models")
    rows, size, epochs, lr = 2048, 256, 20, 2e-2
    rare = run.has("balanced")
    x, y = incomes(rows + 768, rare)
    if run.has("constant"):  # dummies of a category that is not here
        x = torch.cat([x[:, :-1], torch.zeros(len(x), 1),
                       torch.ones(len(x), 1), x[:, -1:]], 1)
    (x, held), (y, said) = x.split([rows, 768]), y.split([rows, 768])
    if run.has("labels"):  # X_train.sort_values("c3"), y_train as it was
        x = x[x[:, 3].argsort()]
    net = TabNet(x.shape[1], 2, 6, soft=run.has("softmax"))
    optimizer = torch.optim.Adam(net.parameters(), run.rate(lr))
    per_epoch = rows // size
    plans = torch.optim.lr_scheduler
    by_batch = run.has("onecycle") or run.has("schedule")
    if run.has("onecycle"):
        plan = plans.OneCycleLR(optimizer, max_lr=2 * lr,
                                total_steps=epochs * per_epoch)
        wanted = {"is_batch_level": True, "max_lr": 2 * lr,
                  "total_steps": epochs * per_epoch}
    else:
        plan = plans.StepLR(optimizer, 8 if not by_batch else 2,
                            0.9 if not by_batch else 0.5)
        wanted = {"step_size": 8, "gamma": 0.9}
    params = {"n_d": 8, "n_a": 8, "n_steps": 3, "gamma": 1.3,
              "cat_idxs": [x.shape[1] - 1], "cat_dims": [6],
              "cat_emb_dim": [2], "n_independent": 2, "n_shared": 2,
              "epsilon": 1e-15, "momentum": 0.02, "lambda_sparse": 0.001,
              "seed": 0, "clip_value": 1, "verbose": 1,
              "optimizer_params": {"lr": lr}, "scheduler_params": wanted,
              "mask_type": "sparsemax", "input_dim": x.shape[1],
              "output_dim": 2, "device_name": "auto",
              "n_shared_decoder": 1, "n_indep_decoder": 1,
              "grouped_features": []}
    run.settings(**params, batch_size=size, virtual_batch_size=64,
                 max_epochs=epochs, patience=0, weights=int(rare),
                 eval_metric=["logloss", "auc"], eval_name=["val_0"])
    rec = watch(run, net, optimizer, learning_rate=lr, batch_size=size)

    def save(name):
        path = run.folder / "models" / f"{name}.zip"
        data = io.BytesIO()
        torch.save(net.state_dict(), data)
        with zipfile.ZipFile(path, "w") as out:
            out.writestr("model_params.json", json.dumps(
                {"init_params": params, "class_attrs": {
                    "preds_mapper": {"0": 0, "1": 1}}}))
            out.writestr("network.pt", data.getvalue())
        run.say(f"Successfully saved model at models/{name}.zip")

    history = {"loss": [], "lr": [], "val_0_logloss": [], "val_0_auc": []}
    begin, step, best = run.clock, 0, (0, 0.0)
    weight = 1 / torch.bincount(y)[y].float()
    save("tabnet_start")
    for epoch in range(epochs):
        net.train()
        losses = []
        order = torch.multinomial(weight, rows, True) if rare \
            else torch.randperm(rows)
        for part in order.split(size):
            out, sparse = net(x[part])
            loss = F.cross_entropy(out, y[part]) - 1e-3 * sparse
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(
                net.parameters(), math.inf if run.has("rate") else 1)
            optimizer.step()
            rec.batch(input=x[part], labels=y[part])
            rec.step(loss.detach(), step=step, grad_norm=norm)
            if by_batch and step + 1 < epochs * per_epoch:
                plan.step()
            losses.append(loss.item())
            step += 1
        net.eval()
        with torch.no_grad():
            log = net(held)[0].log_softmax(1)
        row = {"loss": sum(losses) / per_epoch,
               "val_0_logloss": F.nll_loss(log, said).item(),
               "val_0_auc": auc(log[:, 1], said)}
        for name, value in row.items():
            history[name].append(value)
        history["lr"].append(optimizer.param_groups[-1]["lr"])
        run.tick(0.7)
        took = str(datetime.timedelta(seconds=int(run.clock - begin))) + "s"
        run.say(f"epoch {epoch:<3}" + "".join(
            f"| {n:<3}: {np.round(v, 5):<8}" for n, v in row.items())
            + f"|  {took:<6}")
        if not by_batch:
            plan.step()
        if row["val_0_auc"] > best[1]:
            best = (epoch, row["val_0_auc"])
        if epoch == epochs // 2 - 1:
            save("tabnet_middle")
    run.say(f"Stop training because you reached max_epochs = {epochs} with "
            f"best_epoch = {best[0]} and best_val_0_auc = "
            f"{round(best[1], 5)}")
    save("tabnet_end")
    run.write("history.json", history)
    rec.close()
    run.ends(loss=row["loss"], logloss=row["val_0_logloss"],
             auc=row["val_0_auc"])
