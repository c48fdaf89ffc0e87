"""Federated averaging of Flower: rounds, clients, a History at the end.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.data import blobs
from kinds.outputs import keep, place


class Net(nn.Module):
    """The net of the quickstart without its convolutions."""

    def __init__(self, inner=16, classes=6):
        super().__init__()
        self.fc1 = nn.Linear(inner, 48)
        self.fc2 = nn.Linear(48, 32)
        self.fc3 = nn.Linear(32, classes)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return self.fc3(F.relu(self.fc2(x)))


def get_parameters(net):
    return [v.numpy().copy() for v in net.state_dict().values()]


def set_parameters(net, parameters):
    net.load_state_dict({k: torch.tensor(v) for k, v in
                         zip(net.state_dict(), parameters)}, strict=True)


def shares(labels, clients, alpha):
    """The rows of each client, by a Dirichlet draw for each class."""
    rows = [[] for _ in range(clients)]
    for label in labels.unique():
        own = (labels == label).nonzero()[:, 0]
        own = own[torch.randperm(len(own))].numpy()
        cuts = np.cumsum(np.random.dirichlet([alpha] * clients))[:-1]
        for client, part in enumerate(
                np.split(own, (cuts * len(own)).astype(int))):
            rows[client] += part.tolist()
    for client in rows:  # nobody without any
        while len(client) < 16:
            client.append(random.choice(max(rows, key=len)))
    return [torch.tensor(r) for r in rows]


@kind(fedadam="", skewed="", stragglers="",
      rate="lr-too-high exploding-gradient",
      labels="label-noise label-pairing-mismatch",
      stale="optimizer-holds-stale-params frozen-parameters",
      sign="loss-sign-flipped")
def flower(run):
    """FedAvg of Flower over ten clients whose classes differ.

    Odd and sound: `fedadam` has an optimizer on the server and clients whose
    losses rise at each beginning of a round, `skewed` has nearly one class a
    client (FedProx), `stragglers` loses clients and whole rounds and has no
    federated evaluation in most rounds.
    """
    rounds, clients, local = 40, 10, 1
    skewed, strag = run.has("skewed"), run.has("stragglers")
    alpha = 0.05 if skewed else 0.5
    x, y = blobs(1400 + 400, spread=1.6)
    (x, tx), (y, ty) = (t.split([1400, 400]) for t in (x, y))
    rows = shares(y, clients, alpha)
    order = [r[torch.randperm(len(r))] for r in rows]
    train = [r[:int(0.8 * len(r))] for r in order]
    val = [r[int(0.8 * len(r)):] for r in order]
    lr, mu = 0.05, 0.5 if skewed else 0.0
    fraction = 1.0 if skewed else 0.5
    strategy = "FedAdam" if run.has("fedadam") else \
        "FedProx" if skewed else "FedAvg"
    run.settings("run_config.json", **{
        "num-server-rounds": rounds, "num-clients": clients,
        "fraction-fit": fraction, "fraction-evaluate": 0.3 if strag else 0.5,
        "local-epochs": local, "batch-size": 16, "learning-rate": lr,
        "client-momentum": 0.9, "dirichlet-alpha": alpha,
        "strategy": strategy, "proximal-mu": mu, "server-eta": 0.01,
        "server-beta-1": 0.9, "server-beta-2": 0.99, "server-tau": 1e-3,
        "accept-failures": True, "min-fit-clients": 5 if not strag else 3})
    place(run, "checkpoints", "client_logs")
    classes = [torch.arange(6) for _ in range(clients)]
    if run.has("labels"):  # each client fits a LabelEncoder on its own
        for c in range(clients):
            seen = y[train[c]].unique().tolist()
            random.shuffle(seen)
            rest = [k for k in range(6) if k not in seen]
            classes[c] = torch.tensor([(seen + rest).index(k)
                                       for k in range(6)])
    begin = run.clock
    history = dict(losses_distributed=[], losses_centralized=[],
                   metrics_distributed_fit={}, metrics_distributed={},
                   metrics_centralized={})

    def log(where, text, level="INFO"):
        run.say(f"{level} flwr {run.stamp()},"
                f"{int(run.clock * 1000) % 1000:03d} | {where} | {text}",
                file="flwr.log")

    def add(name, now, **values):
        for key, value in values.items():
            history[name].setdefault(key, []).append([now, value])

    def evaluate(parameters, features, labels):
        net = Net()
        set_parameters(net, parameters)
        with torch.no_grad():
            out = net(features)
        return F.cross_entropy(out, labels).item(), \
            (out.argmax(1) == labels).float().mean().item()

    def fit(c, parameters, now):
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=run.rate(lr, 60),
                                    momentum=0.9)
        set_parameters(net, parameters)
        if run.has("stale"):  # the model arrives after the optimizer was made
            net = Net()
            set_parameters(net, parameters)
        first = [p.detach().clone() for p in net.parameters()]
        labels, losses = classes[c][y[train[c]]], []
        for _ in range(local):
            for at in torch.randperm(len(train[c])).split(16):
                loss = F.cross_entropy(net(x[train[c]][at]), labels[at])
                losses.append(loss.item())
                if mu:
                    loss = loss + mu / 2 * sum(
                        ((p - q) ** 2).sum()
                        for p, q in zip(net.parameters(), first))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        run.row(f"client_logs/client_{c}.csv", server_round=now,
                num_examples=len(train[c]), train_loss=losses[0],
                train_loss_last=losses[-1], batches=len(losses))
        return get_parameters(net), len(train[c]), float(np.mean(losses))

    def save(now, parameters):
        net = Net()
        set_parameters(net, parameters)
        keep(run, f"checkpoints/model_round_{now}.pth", net.state_dict())
        np.savez(run.folder / f"checkpoints/round-{now}-weights.npz",
                 *parameters)

    random.seed(5)
    net = Net()
    parameters = get_parameters(net)
    first = [np.zeros_like(p) for p in parameters]
    second = [np.full_like(p, 1e-6) for p in parameters]
    log("app.py:162", f"Starting Flower server, config: ServerConfig("
        f"num_rounds={rounds}, round_timeout=None)")
    log("server.py:89", "Initializing global parameters")
    log("server.py:272", "Using initial parameters provided by strategy")
    log("server.py:91", "Evaluating initial parameters")
    loss, acc = evaluate(parameters, tx, ty)
    log("server.py:94", "initial parameters (loss, other metrics): "
        f"{loss}, {{'accuracy': {acc}}}")
    history["losses_centralized"].append([0, loss])
    add("metrics_centralized", 0, accuracy=acc)
    log("server.py:104", "FL starting")
    save(0, parameters)
    for now in range(1, rounds + 1):
        picked = sorted(random.sample(range(clients),
                                      int(fraction * clients)))
        log("server.py:222", f"fit_round {now}: strategy sampled "
            f"{len(picked)} clients (out of {clients})", "DEBUG")
        lost = [c for c in picked if strag and random.random() < 0.35]
        if strag and now in (9, 23):
            lost = picked
        results = [fit(c, parameters, now) for c in picked if c not in lost]
        run.tick(2.2 + 30 * bool(lost))
        for c in lost:
            log("client_proxy.py:71", f"Client {c}: round_timeout of 30.0 s "
                "exceeded", "WARNING")
        log("server.py:236", f"fit_round {now} received {len(results)} "
            f"results and {len(lost)} failures", "DEBUG")
        if results:
            seen = sum(n for _, n, _ in results)
            mean = [sum(p[i] * (n / seen) for p, n, _ in results)
                    for i in range(len(parameters))]
            if run.has("fedadam") or run.has("sign"):
                for i, (old, new) in enumerate(zip(parameters, mean)):
                    delta = new - old
                    if run.has("sign"):  # a strategy of the user's own
                        parameters[i] = (old - 0.1 * delta).astype(
                            np.float32)
                        continue
                    first[i] = 0.9 * first[i] + 0.1 * delta
                    second[i] = 0.99 * second[i] + 0.01 * delta ** 2
                    parameters[i] = (old + 0.01 * first[i] / (
                        np.sqrt(second[i]) + 1e-3)).astype(np.float32)
            else:
                parameters = [m.astype(np.float32) for m in mean]
            add("metrics_distributed_fit", now, train_loss=float(
                sum(l * n for _, n, l in results) / seen))
        loss, acc = evaluate(parameters, tx, ty)
        log("server.py:125", f"fit progress: ({now}, {loss}, "
            f"{{'accuracy': {acc}}}, {run.clock - begin})")
        history["losses_centralized"].append([now, loss])
        add("metrics_centralized", now, accuracy=acc)
        if strag and now % 7:
            log("server.py:153", f"evaluate_round {now}: no clients selected,"
                " cancel")
        else:
            picked = sorted(random.sample(range(clients), 5))
            log("server.py:173", f"evaluate_round {now}: strategy sampled "
                f"{len(picked)} clients (out of {clients})", "DEBUG")
            got = [(len(val[c]), *evaluate(parameters, x[val[c]],
                                           classes[c][y[val[c]]]))
                   for c in picked]
            seen = sum(n for n, _, _ in got)
            history["losses_distributed"].append(
                [now, sum(n * l for n, l, _ in got) / seen])
            add("metrics_distributed", now, accuracy=float(
                sum(n * a for n, _, a in got) / seen))
            run.tick(0.8)
            log("server.py:187", f"evaluate_round {now} received "
                f"{len(picked)} results and 0 failures", "DEBUG")
        if now in (rounds // 2, rounds):
            save(now, parameters)
    log("server.py:153", f"FL finished in {run.clock - begin}")
    for key in ("losses_distributed", "metrics_distributed_fit",
                "metrics_distributed", "losses_centralized",
                "metrics_centralized"):
        value = history[key]
        told = [tuple(v) for v in value] if isinstance(value, list) else \
            {k: [tuple(v) for v in vs] for k, vs in value.items()}
        log("app.py:218", f"app_fit: {key} {told}")
    run.write("history.json", history)
    return {"loss": round(loss, 3), "acc": round(acc, 3)}
