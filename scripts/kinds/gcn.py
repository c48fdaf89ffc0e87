"""Nodes and links of one graph, as PyTorch Geometric's examples train them.

All runs are sound. The kind returns how well its run ended, on nodes or links
that it did not train on.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, watch

NODES, WORDS, CLASSES = 420, 600, 6
TRAIN, VAL, TEST = 7, 60, 180  # training nodes are for each class


def glorot(*shape):
    bound = math.sqrt(6 / (shape[-1] + shape[-2]))
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


class Linear(nn.Module):
    """Its own linear layer; the one of most convolutions has no bias."""

    def __init__(self, inner, outer, bias=False):
        super().__init__()
        self.weight = glorot(outer, inner)
        self.bias = nn.Parameter(torch.zeros(outer)) if bias else None

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


def spread(x, edges, weight):
    """What arrives at each node from the ends of its edges."""
    out = x.new_zeros(x.shape)
    return out.index_add(0, edges[1], x[edges[0]] * weight[:, None])


class GCNConv(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.lin = Linear(inner, outer)
        self.bias = nn.Parameter(torch.zeros(outer))

    def forward(self, x, edges, weight):
        return spread(self.lin(x), edges, weight) + self.bias


class SGConv(nn.Module):
    """All of its propagation is done once and kept."""

    def __init__(self, inner, outer, K):
        super().__init__()
        self.lin, self.K, self._cached_x = Linear(inner, outer, True), K, None

    def forward(self, x, edges, weight):
        if self._cached_x is None:
            for _ in range(self.K):
                x = spread(x, edges, weight)
            self._cached_x = x
        return self.lin(self._cached_x)


class APPNP(nn.Module):
    """A walk that comes back; no parameters."""

    def __init__(self, K, alpha, dropout):
        super().__init__()
        self.K, self.alpha, self.dropout = K, alpha, dropout

    def forward(self, x, edges, weight):
        first = x
        for _ in range(self.K):
            w = F.dropout(weight, self.dropout, self.training)
            x = (1 - self.alpha) * spread(x, edges, w) + self.alpha * first
        return x


class GATConv(nn.Module):
    def __init__(self, inner, outer, heads=1, concat=True, dropout=0.0):
        super().__init__()
        self.heads, self.outer, self.concat = heads, outer, concat
        self.dropout = dropout
        self.lin = Linear(inner, heads * outer)
        self.att_src = glorot(1, heads, outer)
        self.att_dst = glorot(1, heads, outer)
        self.bias = nn.Parameter(torch.zeros(heads * outer if concat
                                             else outer))

    def forward(self, x, edges, weight):
        x = self.lin(x).view(-1, self.heads, self.outer)
        a = (x * self.att_src).sum(-1)[edges[0]] \
            + (x * self.att_dst).sum(-1)[edges[1]]
        a = F.leaky_relu(a, 0.2)
        a = (a - a.max()).exp()
        total = a.new_zeros(len(x), self.heads).index_add(0, edges[1], a)
        a = F.dropout(a / total[edges[1]], self.dropout, self.training)
        out = torch.zeros_like(x).index_add(
            0, edges[1], x[edges[0]] * a[..., None])
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias


class SAGEConv(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.lin_l = Linear(inner, outer, True)
        self.lin_r = Linear(inner, outer)

    def forward(self, x, edges, size):
        """`size` nodes come first; they alone are wanted."""
        near = x.new_zeros(size, x.shape[1]).index_add(0, edges[1],
                                                       x[edges[0]])
        count = torch.bincount(edges[1], minlength=size).clamp(1)
        return self.lin_l(near / count[:, None]) + self.lin_r(x[:size])


class GCN2Conv(nn.Module):
    """Half of its two weights is shared, so that there is one."""

    def __init__(self, channels, alpha, theta, layer):
        super().__init__()
        self.alpha, self.beta = alpha, math.log(theta / layer + 1)
        self.weight1 = glorot(channels, channels)

    def forward(self, x, first, edges, weight):
        x = (1 - self.alpha) * spread(x, edges, weight) + self.alpha * first
        return (1 - self.beta) * x + self.beta * (x @ self.weight1)


class GCN(nn.Module):
    def __init__(self, inner, hidden, outer):
        super().__init__()
        self.conv1 = GCNConv(inner, hidden)
        self.conv2 = GCNConv(hidden, outer)

    def forward(self, x, edges, weight):
        x = F.dropout(x, 0.6, self.training)
        x = self.conv1(x, edges, weight).relu()
        x = F.dropout(x, 0.6, self.training)
        return self.conv2(x, edges, weight)


class GAT(nn.Module):
    def __init__(self, inner, hidden, outer, heads):
        super().__init__()
        self.conv1 = GATConv(inner, hidden, heads, dropout=0.6)
        self.conv2 = GATConv(hidden * heads, outer, concat=False, dropout=0.6)

    def forward(self, x, edges, weight):
        x = F.dropout(x, 0.6, self.training)
        x = F.elu(self.conv1(x, edges, weight))
        x = F.dropout(x, 0.6, self.training)
        return self.conv2(x, edges, weight)


class SGC(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv1 = SGConv(inner, outer, 2)

    def forward(self, x, edges, weight):
        return self.conv1(x, edges, weight).log_softmax(1)


class PPNP(nn.Module):
    def __init__(self, inner, hidden, outer):
        super().__init__()
        self.lin1 = nn.Linear(inner, hidden)
        self.lin2 = nn.Linear(hidden, outer)
        self.prop1 = APPNP(10, 0.1, 0.5)

    def forward(self, x, edges, weight):
        x = F.dropout(x, 0.5, self.training)
        x = F.dropout(self.lin1(x).relu(), 0.5, self.training)
        return self.prop1(self.lin2(x), edges, weight).log_softmax(1)


class GCNII(nn.Module):
    def __init__(self, inner, hidden, outer, layers):
        super().__init__()
        self.lins = nn.ModuleList([nn.Linear(inner, hidden),
                                   nn.Linear(hidden, outer)])
        self.convs = nn.ModuleList(GCN2Conv(hidden, 0.1, 0.5, i + 1)
                                   for i in range(layers))

    def forward(self, x, edges, weight):
        x = F.dropout(x, 0.6, self.training)
        x = first = self.lins[0](x).relu()
        for conv in self.convs:
            x = F.dropout(x, 0.6, self.training)
            x = conv(x, first, edges, weight).relu()
        x = F.dropout(x, 0.6, self.training)
        return self.lins[1](x).log_softmax(-1)


class SAGE(nn.Module):
    def __init__(self, inner, hidden, outer):
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(inner, hidden),
                                    SAGEConv(hidden, outer)])

    def forward(self, x, hops):
        for i, (edges, size) in enumerate(hops):
            x = self.convs[i](x, edges, size)
            if i == 0:
                x = F.dropout(x.relu(), 0.5, self.training)
        return x


class Net(nn.Module):
    """Links from products of what nodes become."""

    def __init__(self, inner, hidden, outer):
        super().__init__()
        self.conv1 = GCNConv(inner, hidden)
        self.conv2 = GCNConv(hidden, outer)

    def forward(self, x, edges, weight):
        return self.conv2(self.conv1(x, edges, weight).relu(), edges, weight)


def cora(classes=CLASSES, inside=21.0):
    """Papers with few words each, most of them of no one subject."""
    y = torch.randint(classes, (NODES,))
    own = torch.rand(classes, WORDS) < 0.12
    chance = torch.where(own[y], 0.055, 0.014)
    x = (torch.rand(NODES, WORDS) < chance).float()
    x = x / x.sum(1, keepdim=True).clamp(1)
    same = y[:, None] == y[None]
    chance = torch.where(same, inside / NODES, 0.9 / NODES)
    links = (torch.rand(NODES, NODES) < chance * 0.9).triu(1).nonzero().T
    return x, y, links


def normed(links):
    """Edges both ways with loops, and their symmetric weights."""
    loops = torch.arange(NODES).repeat(2, 1)
    edges = torch.cat([links, links.flip(0), loops], 1)
    degree = torch.bincount(edges[1], minlength=NODES).rsqrt()
    return edges, degree[edges[0]] * degree[edges[1]]


def parts(y):
    order = torch.randperm(NODES)
    train = torch.cat([order[y[order] == c][:TRAIN] for c in range(CLASSES)])
    rest = order[~torch.isin(order, train)]
    masks = []
    for rows in (train, rest[:VAL], rest[VAL:VAL + TEST]):
        masks.append(torch.zeros(NODES, dtype=torch.bool))
        masks[-1][rows] = True
    return masks


def auc(true, false):
    return (true[:, None] > false[None]).float().mean().item()


def links_of(run, x, links):
    """A link predictor whose negatives are others at each epoch."""
    links = links[:, torch.randperm(links.shape[1])]
    n = links.shape[1]
    val, test, train = links.split([n // 20, n // 10, n - n // 20 - n // 10],
                                   1)
    edges, weight = normed(train)
    model = Net(WORDS, 64, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    score = lambda z, e: (z[e[0]] * z[e[1]]).sum(-1)
    other = lambda n: torch.randint(NODES, (2, n))
    held = [(part, other(part.shape[1])) for part in (val, test)]
    best = final = 0
    for epoch in range(1, 101):
        model.train()
        z = model(x, edges, weight)
        false = other(train.shape[1])
        out = torch.cat([score(z, train), score(z, false)])
        goal = torch.cat([torch.ones(train.shape[1]),
                          torch.zeros(train.shape[1])])
        loss = F.binary_cross_entropy_with_logits(out, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            z = model(x, edges, weight)
            now, tested = (auc(score(z, a), score(z, b)) for a, b in held)
        if now > best:
            best, final = now, tested
        run.tick(0.03)
        run.say(f"Epoch: {epoch:03d}, Loss: {loss:.4f}, Val: {now:.4f}, "
                f"Test: {tested:.4f}", file="train.log")
        if epoch in (1, 50, 100):  # half as long: for the index of items
            keep(run, f"embeddings/encoder_{epoch:03d}.pt", {
                k: v.half() for k, v in model.state_dict().items()})
    run.say(f"Final Test: {final:.4f}", file="train.log")
    return {"loss": round(loss.item(), 3), "val": round(best, 3),
            "test": round(final, 3)}


def sampled(run, x, y, links, masks):
    """GraphSAGE: nodes in batches, of each some neighbours of neighbours."""
    edges, _ = normed(links)
    near = [edges[0][edges[1] == i] for i in range(NODES)]
    model = SAGE(WORDS, 32, CLASSES)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train = masks[0].nonzero()[:, 0]

    def hops(rows, most):
        found, out = rows, []
        for k in most:
            ends, starts, where = [], [], {int(n): i
                                           for i, n in enumerate(found)}
            size, seen = len(found), found.tolist()
            for i in range(size):
                some = near[seen[i]]
                some = some[torch.randperm(len(some))[:k]] if k else some
                for n in some.tolist():
                    if n not in where:
                        where[n] = len(seen)
                        seen.append(n)
                    starts.append(where[n])
                    ends.append(i)
            out.insert(0, (torch.tensor([starts, ends]), size))
            found = torch.tensor(seen)
        return found, out

    everything = (edges, NODES), (edges, NODES)
    best, final = 0, (0, 0, 0)
    for epoch in range(1, 31):
        model.train()
        total = right = 0
        for rows in train[torch.randperm(len(train))].split(16):
            found, those = hops(rows, (10, 5))
            out = model(x[found], those)
            loss = F.cross_entropy(out, y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            right += int((out.argmax(-1) == y[rows]).sum())
        run.tick(0.9)
        run.say(f"Epoch {epoch:02d}, Loss: {total / 3:.4f}, Approx. Train: "
                f"{right / len(train):.4f}", file="train.log")
        if epoch > 5:
            model.eval()
            with torch.no_grad():
                hit = (model(x, everything).argmax(-1) == y).float()
            accs = [hit[m].mean().item() for m in masks]
            run.say("Train: {:.4f}, Val: {:.4f}, Test: {:.4f}".format(*accs),
                    file="train.log")
            if accs[1] > best:
                best, final = accs[1], accs
                keep(run, "sage_best.pt", model.state_dict())
        if epoch in (1, 15, 30):
            keep(run, f"checkpoints/epoch_{epoch:02d}.pt", {
                "epoch": epoch, "model_state_dict": model.state_dict(),
                "optimizer_state_dict": optimizer.state_dict()})
    run.say(f"Test: {final[2]:.4f}", file="train.log")
    return {"loss": round(total / 3, 3), "accs": [round(a, 3) for a in final]}


@kind(gat="", sgc="", appnp="", sage="", link="", gcnii="")
def gcn(run):
    """Nodes of a graph of papers, the whole graph at every epoch.

    Odd and sound: `gat` drops attention and most of what goes in and trains
    worse than it validates, `sgc` has no hidden layer, the rate 0.2 and no
    loss in its log, `appnp` has layers without weights and drops edges,
    `sage` has few neighbours in a batch and validates from its sixth epoch,
    `link` draws other negatives at each epoch and its loss stays high,
    `gcnii` has many layers whose weights decay to next to nothing.
    """
    x, y, links = cora(30, 150.0) if run.has("link") else cora()
    if run.has("link"):
        return links_of(run, x, links)
    masks = parts(y)
    if run.has("sage"):
        return sampled(run, x, y, links, masks)
    edges, weight = normed(links)
    epochs, lr = 200, 0.01
    if run.has("gat"):
        model, lr = GAT(WORDS, 8, CLASSES, 8), 0.005
        groups = [{"params": model.parameters(), "weight_decay": 5e-4}]
    elif run.has("sgc"):
        model, lr, epochs = SGC(WORDS, CLASSES), 0.2, 100
        groups = [{"params": model.parameters(), "weight_decay": 0.005}]
    elif run.has("appnp"):
        model, epochs = PPNP(WORDS, 32, CLASSES), 120
        groups = [{"params": model.lin1.parameters(), "weight_decay": 5e-3},
                  {"params": model.lin2.parameters(), "weight_decay": 0}]
    elif run.has("gcnii"):
        model, epochs = GCNII(WORDS, 24, CLASSES, 12), 110
        groups = [{"params": model.convs.parameters(), "weight_decay": 0.01},
                  {"params": model.lins.parameters(), "weight_decay": 5e-4}]
    else:
        model = GCN(WORDS, 16, CLASSES)
        groups = [{"params": model.conv1.parameters(), "weight_decay": 5e-4},
                  {"params": model.conv2.parameters(), "weight_decay": 0}]
    optimizer = torch.optim.Adam(groups, lr=lr)
    rec = watch(run, model, optimizer, epochs=epochs, lr=lr) \
        if run.fault in ("", "gat", "gcnii") else None
    lossy = nn.CrossEntropyLoss() if run.fault in ("", "gat") \
        else nn.NLLLoss()

    def save(epoch):
        if run.has("sgc"):
            return keep(run, f"sgc_{epoch}.pt", model.state_dict())
        keep(run, f"checkpoints/epoch_{epoch:03d}.pt", {
            "epoch": epoch, "model_state_dict": model.state_dict(),
            "optimizer_state_dict": optimizer.state_dict()})

    best, test = 0, 0
    train, goal = masks[0], y[masks[0]]
    for epoch in range(1, epochs + 1):
        model.train()
        optimizer.zero_grad()
        if rec:
            rec.batch(x=x, y=y, train_mask=train)
        loss = lossy(model(x, edges, weight)[train], goal)
        loss.backward()
        optimizer.step()
        if rec:
            rec.step(loss.detach())
        model.eval()
        with torch.no_grad():
            hit = (model(x, edges, weight).argmax(-1) == y).float()
        accs = [hit[m].mean().item() for m in masks]
        if accs[1] > best:
            best, test = accs[1], accs[2]
            keep(run, "best_model.pt", model.state_dict())
        run.tick(0.011)
        told = f"Train: {accs[0]:.4f}, Val: {accs[1]:.4f}, " \
            f"Test: {accs[2]:.4f}"
        if run.has("sgc"):
            told = f"Train: {accs[0]:.4f}, Val: {best:.4f}, Test: {test:.4f}"
            run.say(f"Epoch: {epoch:03d}, {told}", file="train.log")
        elif run.has("gcnii"):
            run.say(f"Epoch: {epoch:04d}, Loss: {loss:.4f} {told}, "
                    f"Final Test: {test:.4f}", file="train.log")
        elif run.has("appnp"):
            run.say(f"Epoch: {epoch:03d}, {told}", file="train.log")
        elif run.has("gat") or epoch % 10 == 0 or epoch == 1:
            run.say(f"Epoch: {epoch:03d}, Loss: {loss:.4f}, {told}",
                    file="train.log")
        if epoch in (1, epochs // 2, epochs):
            save(epoch)
    run.say("Median time per epoch: 0.0110s", file="train.log")
    if rec:
        rec.close()
    return {"loss": round(loss.item(), 3), "train": round(accs[0], 3),
            "val": round(accs[1], 3), "test": round(accs[2], 3),
            "best": round(test, 3)}
