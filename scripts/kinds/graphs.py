"""Graphs and pairs: node classes, links, contrastive and triplet embeddings, ratings, two views of a picture."""

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import grad_norm, kind, learn, mlp
from kinds.data import batches, blobs, graph, pictures


@kind(labels="label-noise", rate="lr-too-high exploding-gradient")
def gnn(run):
    """A graph network that classifies nodes, printed as PyTorch Geometric's examples are."""
    adjacency, x, y = graph()
    part = torch.randperm(300).split([180, 60, 60])
    said = y[torch.randperm(300)] if run.has("labels") else y
    first, second = nn.Linear(32, 32), nn.Linear(32, 5)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], run.rate(0.01, 1000), weight_decay=5e-4)
    for epoch in range(1, 121):
        hidden = F.dropout(F.relu(adjacency @ first(x)), 0.5)
        loss = learn(F.cross_entropy((adjacency @ second(hidden))[part[0]], said[part[0]]), optimizer)
        with torch.no_grad():
            right = ((adjacency @ second(F.relu(adjacency @ first(x)))).argmax(1) == said).float()
        train, val, test = (float(right[p].mean()) for p in part)
        run.say(f"Epoch: {epoch:03d}, Loss: {loss:.4f}, Train: {train:.4f}, Val: {val:.4f}, Test: {test:.4f}")


@kind(shuffle="label-noise label-pairing-mismatch")
def graph_regression(run):
    """A graph network of whole graphs with a mean error, an epoch a line."""
    graphs = [graph(24, 4, 8) for _ in range(160)]
    inputs = torch.stack([a @ x for a, x, _ in graphs])
    goal = inputs.pow(2).mean((1, 2)) * 10
    goal = (goal - goal.mean()) / goal.std()
    goal = goal[torch.randperm(160)] if run.has("shuffle") else goal
    lift, head = mlp(8, 64, 64), mlp(64, 64, 1)
    optimizer = torch.optim.Adam([*lift.parameters(), *head.parameters()], 1e-3)
    predict = lambda rows: head(lift(inputs[rows]).mean(1)).squeeze(1)
    held = torch.arange(128, 160)
    for epoch in range(1, 81):
        losses = [learn(F.mse_loss(predict(rows), goal[rows]), optimizer) for rows in batches(128, 32)]
        with torch.no_grad():
            mae = float((predict(held) - goal[held]).abs().mean())
            val = float(F.mse_loss(predict(held), goal[held]))
        run.row("log.csv", epoch=epoch, train_mse=sum(losses) / 4, val_mse=val, val_mae=mae, lr=1e-3)


@kind()
def triplet(run):
    """Embeddings by triplets with a margin, a plain print of every epoch."""
    x, y = blobs(600, 8, 16)
    model = mlp(16, 64, 64, 16)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    run.say("triplet margin 0.5, adam lr 0.001, 600 samples of 8 classes")
    for epoch in range(40):
        losses, active = [], []
        for rows in batches(600, 60):
            e = F.normalize(model(x[rows]), dim=1)
            far = torch.cdist(e, e)
            same = y[rows][:, None] == y[rows][None]
            positive, negative = (far * same).max(1).values, (far + 10 * same).min(1).values
            gap = positive - negative
            loss = F.relu(gap + 0.5)
            losses.append(learn(loss.mean(), optimizer))
            active.append(float((loss > 0).float().mean()))
        run.say(f"epoch {epoch} loss {sum(losses) / 10:.4f} active {sum(active) / 10:.3f} "
                f"grad_norm {grad_norm(model):.3f}")


@kind(temperature="representation-collapse regularisation-too-strong")
def simclr(run):
    """Contrastive pairs of two views, with top-1 of the batch, as SimCLR's scripts log them."""
    data = pictures(512, 12)[0].flatten(1)
    model = mlp(144, 128, 64, 32)
    heat = 50.0 if run.has("temperature") else 0.2
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, weight_decay=1e-6)
    run.settings(arch="mlp", batch_size=64, lr=1e-3, temperature=heat, n_views=2, epochs=30)
    goal, step = torch.arange(128).roll(64), 0
    for epoch in range(30):
        for rows in batches(512, 64):
            views = torch.cat([data[rows] + 0.4 * torch.randn(64, 144) for _ in range(2)])
            e = F.normalize(model(views), dim=1)
            logits = (e @ e.T / heat).masked_fill(torch.eye(128).bool(), -1e4)
            loss = learn(F.cross_entropy(logits, goal), optimizer)
            if step % 4 == 0:
                top = logits.topk(5).indices == goal[:, None]
                run.record(step=step, epoch=epoch, loss=loss, learning_rate=1e-3,
                           **{"acc/top1": float(top[:, 0].float().mean()) * 100,
                              "acc/top5": float(top.any(1).float().mean()) * 100})
            step += 1


@kind(split="overfitting")
def recommender(run):
    """Matrix factorisation of ratings with its RMSE, the loop of many notebooks."""
    users, items = 0.8 * torch.randn(120, 4), 0.8 * torch.randn(150, 4)
    u, i = torch.randint(120, (6000,)), torch.randint(150, (6000,))
    stars = (3.5 + (users[u] * items[i]).sum(1) + 0.4 * torch.randn(6000)).clamp(1, 5)
    count = 600 if run.has("split") else 5000
    train, held = torch.arange(count), torch.arange(5000, 6000)
    tables = nn.ModuleList([nn.Embedding(120, 16), nn.Embedding(150, 16)])
    bias = nn.Parameter(torch.tensor(3.5))
    for t in tables:
        nn.init.normal_(t.weight, std=0.3)
    optimizer = torch.optim.Adam([*tables.parameters(), bias], 3e-3, weight_decay=0 if run.has("split") else 2e-4)
    guess = lambda rows: bias + (tables[0](u[rows]) * tables[1](i[rows])).sum(1)
    for epoch in range(1, 41):
        order = train[torch.randperm(count)]
        losses = [learn(F.mse_loss(guess(rows), stars[rows]), optimizer) for rows in order.split(128)]
        with torch.no_grad():
            val = float(F.mse_loss(guess(held), stars[held]))
        loss = sum(losses) / len(losses)
        run.say(f"Epoch {epoch}/40 - train_loss: {loss:.4f} - train_rmse: {loss ** 0.5:.4f} - "
                f"val_loss: {val:.4f} - val_rmse: {val ** 0.5:.4f}")


@kind()
def link_prediction(run):
    """Links of a graph, with AUC of held-out ones."""
    adjacency, x, _ = graph(250, 5, 32)
    edges = (adjacency.triu(1) > 0).nonzero()
    edges = edges[torch.randperm(len(edges))]
    count = len(edges) * 4 // 5
    train, held = edges[:count], edges[count:]
    graph_in = torch.eye(250)
    graph_in[train[:, 0], train[:, 1]] = graph_in[train[:, 1], train[:, 0]] = 1
    graph_in = graph_in / graph_in.sum(1, keepdim=True)
    first, second = nn.Linear(32, 64), nn.Linear(64, 32)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], 0.005)
    score = lambda z, pairs: (z[pairs[:, 0]] * z[pairs[:, 1]]).sum(1)
    for epoch in range(1, 101):
        z = graph_in @ second(F.relu(graph_in @ first(x)))
        false = torch.randint(250, (count, 2))
        said = torch.cat([torch.ones(count), torch.zeros(count)])
        loss = learn(F.binary_cross_entropy_with_logits(torch.cat([score(z, train), score(z, false)]), said), optimizer)
        with torch.no_grad():
            true, false = score(z, held), score(z, torch.randint(250, (len(held), 2)))
            auc = float((true[:, None] > false[None]).float().mean())
        if epoch % 2 == 0:
            run.say(f"Epoch: {epoch:03d}, Loss: {loss:.4f}, Val AUC: {auc:.4f}")
