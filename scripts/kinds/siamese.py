"""Metric learning with pytorch-metric-learning, by the loop of its examples.

Some of its designs are odd and sound. The kind tells how well its run ended,
measured on what it did not train on.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, place


class Net(nn.Module):
    """The network of TripletMarginLossMNIST, smaller."""

    def __init__(self, outs=16, frozen=False):
        super().__init__()
        self.frozen = frozen  # a feature extractor that is done
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.dropout1 = nn.Dropout2d(0.1)
        self.dropout2 = nn.Dropout(0.1)
        self.fc1 = nn.Linear(256, outs)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = x.detach() if self.frozen else x
        x = self.dropout1(F.max_pool2d(x, 2))
        return self.fc1(torch.flatten(x, 1))


class ArcFaceLoss(nn.Module):
    """W is drawn from a normal distribution and scaled at run time."""

    def __init__(self, classes, size, margin=11.5, scale=32):
        super().__init__()
        self.W = nn.Parameter(torch.randn(size, classes))
        self.margin, self.scale = margin * 3.1416 / 180, scale

    def forward(self, embeddings, labels):
        cosine = F.normalize(embeddings) @ F.normalize(self.W, dim=0)
        angle = cosine.clamp(-1 + 1e-7, 1 - 1e-7).acos()
        hot = F.one_hot(labels, self.W.shape[1]).bool()
        logits = torch.where(hot, (angle + self.margin).cos(), cosine)
        return F.cross_entropy(self.scale * logits, labels)


def waves(rows, size=12):
    """Waves in eight directions on a ground that slopes, with noise."""
    labels, at = torch.randint(8, (rows,)), torch.arange(size).float()
    turn = labels * math.pi / 8 + 0.05 * torch.randn(rows)
    along = turn.cos()[:, None, None] * at[:, None] \
        + turn.sin()[:, None, None] * at
    x = (1.3 * along + 6.28 * torch.rand(rows, 1, 1)).sin()
    slope = torch.randn(rows, 2) / 6
    ground = slope[:, 0, None, None] * at[:, None] \
        + slope[:, 1, None, None] * at
    x = x + ground + 0.4 * torch.randn(rows, size, size)
    return x[:, None], labels


def triplets(a, labels, b, said, margin, semihard):
    """The gaps of what TripletMarginMiner finds, and how many they are."""
    far = 1 - F.normalize(a) @ F.normalize(b).T
    same = labels[:, None] == said[None]
    own = far.detach() < 1e-6
    gap = far[:, :, None] - far[:, None, :]
    real = (same & ~own)[:, :, None] & ~same[:, None, :]
    real &= gap.detach() > -margin
    if semihard:
        real &= gap.detach() < 0
    return gap[real], int(real.sum())


@torch.no_grad()
def accuracy(model, x, y):
    """What AccuracyCalculator gives for a set that is its own reference."""
    model.eval()
    e = F.normalize(model(x))
    model.train()
    near = (e @ e.T - 9 * torch.eye(len(x))).argsort(1, descending=True)
    right = (y[near] == y[:, None]).float()
    r = ((y[None] == y[:, None]).sum(1) - 1).tolist()
    share = [right[i, :n].mean() for i, n in enumerate(r)]
    return {"precision_at_1": right[:, 0].mean().item(),
            "r_precision": torch.stack(share).mean().item()}


@kind(semihard="", arcface="", memory="",
      sign="loss-sign-flipped representation-collapse",
      rate="lr-too-high representation-collapse",
      pairs="label-pairing-mismatch label-noise",
      detach="detached-graph frozen-parameters")
def siamese(run):
    """Embeddings by triplets, as pytorch-metric-learning's example prints.

    Odd and sound: `semihard` mines ever fewer triplets, `arcface` has a loss
    of tens and a rate for its own weights, `memory` fills a queue of old
    embeddings, with more triplets as it does.
    """
    place(run, "saved_models")
    x, y = waves(768)
    held, said = waves(256)
    margin, lr, epochs, size = 0.2, 2e-3, 8, 48
    semihard = run.has("semihard")
    model = Net(frozen=run.has("detach"))
    optimizer = torch.optim.Adam(model.parameters(), run.rate(lr, 50))
    arc = arc_own = None
    if run.has("arcface"):
        arc = ArcFaceLoss(8, 16)
        arc_own = torch.optim.Adam(arc.parameters(), lr=1e-2)
    run.settings(
        model="Net", embedding_size=16, batch_size=size, lr=lr,
        num_epochs=epochs, distance="CosineSimilarity",
        loss="ArcFaceLoss" if arc else "TripletMarginLoss",
        reducer="ThresholdReducer(low=0)",
        **({"W_optimizer_lr": 1e-2, "margin": 11.5, "scale": 32} if arc
           else {"margin": margin, "miner": "TripletMarginMiner",
                 "type_of_triplets": "semihard" if semihard else "all"}),
        **({"memory_size": 384} if run.has("memory") else {}))

    def save(epoch):
        keep(run, f"saved_models/epoch_{epoch}.pth", {
            "epoch": epoch, "model_state_dict": model.state_dict(),
            "optimizer_state_dict": optimizer.state_dict(),
            **({"loss_state_dict": arc.state_dict(),
                "loss_optimizer_state_dict": arc_own.state_dict()}
               if arc else {})})

    queue, names = torch.zeros(0, 16), torch.zeros(0).long()
    save(0)
    for epoch in range(1, epochs + 1):
        model.train()
        for k, rows in enumerate(torch.randperm(768).split(size)):
            data, labels = x[rows], y[rows]
            if run.has("pairs"):  # the sampler draws labels a second time
                labels = y[torch.randperm(768)[:size]]
            e = model(data)
            mined = None
            if arc:
                loss = arc(e, labels)
            else:
                other, of = e, labels
                if run.has("memory"):
                    other = torch.cat([e, queue])
                    of = torch.cat([labels, names])
                gap, mined = triplets(e, labels, other, of, margin,
                                      semihard)
                if run.has("sign"):  # a similarity where a distance is due
                    gap = -gap
                term = F.relu(gap + margin)
                loss = term.sum() / (term > 0).sum().clamp(min=1)
                if run.has("memory"):
                    queue = torch.cat([e.detach(), queue])[:384]
                    names = torch.cat([labels, names])[:384]
            optimizer.zero_grad()
            if arc:
                arc_own.zero_grad()
            loss.backward()
            optimizer.step()
            if arc:
                arc_own.step()
            run.tick(0.1)
            if k % 4 == 0:
                more = "" if arc else \
                    f", Number of mined triplets = {mined}"
                run.say(f"Epoch {epoch} Iteration {k}: Loss = "
                        f"{loss.item()}{more}")
            step = (epoch - 1) * 16 + k
            row = {"epoch": epoch, "iteration": step, "loss": loss.item()}
            if not arc:
                row |= {"num_triplets": mined,
                        "nonzero_frac": (term > 0).float().mean().item()
                        if len(term) else 0.0}
            row["embedding_norm"] = e.detach().norm(dim=1).mean().item()
            run.row("logs/train.csv", **row)
        found = accuracy(model, held, said)
        run.say("Computing accuracy", "Test set accuracy (Precision@1) = "
                f"{found['precision_at_1']}")
        run.row("logs/test.csv", epoch=epoch, **found)
        if epoch in (epochs // 2, epochs):
            save(epoch)
    run.ends(**found, loss=loss.item())
