"""Lottery tickets of torch.nn.utils.prune.

Three designs look odd and are sound."""

import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune as cut

from kinds.base import kind
from kinds.data import batches, stripes
from kinds.outputs import keep, watched


class LeNet5(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(
            nn.Linear(24 * 9, 64), nn.ReLU(), nn.Linear(64, classes))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def weight_init(m):
    if isinstance(m, nn.Conv2d):
        nn.init.xavier_normal_(m.weight)
        nn.init.normal_(m.bias, std=0.1)
    elif isinstance(m, nn.Linear):
        nn.init.xavier_normal_(m.weight)
        nn.init.normal_(m.bias, std=0.1)


def parts(model):
    return [(n, m) for n, m in model.named_modules()
            if isinstance(m, (nn.Conv2d, nn.Linear))]


def nonzeros(model):
    """The table that print_nonzeros writes, and the share that is left."""
    lines, alive, total = [], 0, 0
    for name, m in parts(model):
        for part in ("weight", "bias"):
            p = getattr(m, part)
            kept, count = int(p.count_nonzero()), p.numel()
            alive, total = alive + kept, total + count
            shown = f"{name}.{part}"
            lines.append(
                f"{shown:20} | nonzeros = {kept:7} / {count:7} "
                f"({100 * kept / count:6.2f}%) | total_pruned = "
                f"{count - kept:7} | shape = {tuple(p.shape)}")
    lines.append(f"alive: {alive}, pruned : {total - alive}, total: {total}, "
                 f"Compression rate : {total / max(alive, 1):10.2f}x  ("
                 f"{100 * (total - alive) / total:6.2f}% pruned)")
    return lines, alive / total


def shorten(model, how, amount, last):
    """One more part of what is left becomes 0."""
    if how == "global":
        cut.global_unstructured([(m, "weight") for _, m in parts(model)],
                                cut.L1Unstructured, amount=amount)
        return
    for name, m in parts(model):
        rest = amount / 2 if name == last else amount
        if how == "structured" and name != last:
            cut.ln_structured(m, "weight", rest, n=2, dim=0)
        else:
            cut.l1_unstructured(m, "weight", rest)


@kind(globally="", structured="", rewound="",
      stale="optimizer-holds-stale-params",
      rate="lr-too-high dead-relu exploding-gradient",
      shuffled="label-pairing-mismatch label-noise",
      decay="weight-decay-too-high")
def prune(run):
    """Lottery tickets: trained, cut, set back to their first weights, again.

    Odd and sound: `globally` takes the smallest of all layers, and layers
    end with a few in a hundred, `structured` takes whole rows, and
    `rewound` keeps the trained weights and begins its rate anew."""
    x, y = stripes(768)
    x, held, y, goal = x[:640], x[640:], y[:640], y[640:]
    mean, std = x.mean(), x.std()
    x, held = (x - mean) / std, (held - mean) / std
    x, held = (v + 1.2 * torch.randn_like(v) for v in (x, held))
    if run.has("shuffled"):  # the cache holds pictures of another epoch
        x = x[torch.randperm(640)]
    lr, levels, epochs, amount = 4e-3, 4, 4, 0.4
    how = "global" if run.has("globally") else \
        "structured" if run.has("structured") else "layer"
    if how == "structured":
        amount = 0.2
    anew = run.has("rewound")
    base = "saves/lenet5/stripes"
    model = LeNet5()
    model.apply(weight_init)
    first = copy.deepcopy(model.state_dict())
    names = parts(model)
    for _, m in names:
        cut.identity(m, "weight")
    run.settings("args.json", lr=lr, batch_size=64, start_iter=0,
                 end_iter=epochs, prune_type="lr_rewind" if anew else "lt",
                 prune_method=how, prune_percent=100 * amount,
                 prune_iterations=levels, arch_type="lenet5", seed=1,
                 dataset="stripes", optimizer="adam", lr_schedule="cosine",
                 weight_decay=1e-4)
    rec, step, share, best = None, 0, 1.0, 0.0
    keep(run, f"{base}/initial_state_dict_lt.pth.tar", first)

    def new_optimizer(model):
        decay = 1.0 if run.has("decay") else 1e-4
        return torch.optim.Adam(model.parameters(), run.rate(lr),
                                weight_decay=decay)

    optimizer = new_optimizer(model)
    for level in range(levels):
        if level:
            shorten(model, how, amount, names[-1][0])
            state = model.state_dict()
            if not anew:
                for n, v in first.items():
                    own = n if n in state else n + "_orig"
                    state[own] = v
            if run.has("stale"):  # a fresh network, as original_initialization
                fresh = LeNet5()  # of the script builds one
                for _, m in parts(fresh):
                    cut.identity(m, "weight")
                fresh.load_state_dict(state)
                model = fresh
            else:
                model.load_state_dict(state)
                optimizer = new_optimizer(model)
        with torch.no_grad():
            model(x[:1])  # the masks reach the weights
        if rec:
            rec.close()
        rec = watched(run, model, optimizer, every=40, first_step=step,
                      max_dump_bytes=1 << 20)
        table, share = nonzeros(model)
        run.say("", f"--- Pruning Level [1:{level}/{levels}]: ---", *table)
        best = 0.0
        for epoch in range(epochs):
            for i, rows in enumerate(batches(640, 64)):
                done = (epoch * 10 + i) / (epochs * 10)
                now = run.rate(lr) * (1 - 0.95 * done)
                optimizer.param_groups[0]["lr"] = now
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x[rows]), y[rows])
                loss.backward()
                rec.batch(input=x[rows], labels=y[rows])
                optimizer.step()
                rec.step(loss.detach(), step=step)
                step += 1
                run.tick(0.04)
            with torch.no_grad():
                out = model(held)
            test = float(F.cross_entropy(out, goal))
            accuracy = 100 * float((out.argmax(1) == goal).float().mean())
            if accuracy > best:
                best = accuracy
                keep(run, f"{base}/{level}_model_lt.pth.tar", {
                    "level": level, "epoch": epoch, "best_accuracy": best,
                    "state_dict": model.state_dict(),
                    "optimizer": optimizer.state_dict()})
            run.say(f"Train Epoch: {epoch}/{epochs} Loss: {loss:.6f} Accuracy:"
                    f" {accuracy:.2f}% Best Accuracy: {best:.2f}%")
            run.row("prune_log.csv", level=level, epoch=epoch, step=step,
                    lr=now, train_loss=float(loss.detach()), test_loss=test,
                    accuracy=accuracy, sparsity=round(1 - share, 4))
    rec.close()
    run.write("sparsity.json", {
        n: {"count": m.weight_mask.numel(), "zeros": int(
            (m.weight_mask == 0).sum())} for n, m in parts(model)})
    run.ends(test_loss=test, accuracy=accuracy, alive=share)
