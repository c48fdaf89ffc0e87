"""DARTS: a search for operations, whose strengths are outside of the model.

All its runs are sound; the kind returns its accuracy on pictures that
neither weights nor strengths learned from.
"""

import math
import random
from collections import namedtuple

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, watched

Genotype = namedtuple("Genotype", "normal normal_concat reduce reduce_concat")
PRIMITIVES = ["none", "max_pool_3x3", "skip_connect", "sep_conv_3x3"]
CLASSES, SIDE, NODES = 6, 8, 2
FOUND = Genotype(
    [("sep_conv_3x3", 0), ("skip_connect", 1), ("dil_conv_3x3", 0),
     ("sep_conv_3x3", 2)], range(2, 4),
    [("max_pool_3x3", 0), ("sep_conv_3x3", 1), ("skip_connect", 2),
     ("max_pool_3x3", 0)], range(2, 4))


class ReLUConvBN(nn.Module):
    def __init__(self, inner, outer, affine):
        super().__init__()
        self.op = nn.Sequential(
            nn.ReLU(), nn.Conv2d(inner, outer, 1, bias=False),
            nn.BatchNorm2d(outer, affine=affine))

    def forward(self, x):
        return self.op(x)


class DilConv(nn.Module):
    def __init__(self, size, stride, affine):
        super().__init__()
        self.op = nn.Sequential(
            nn.ReLU(), nn.Conv2d(size, size, 3, stride, 2, 2, size,
                                 bias=False),
            nn.Conv2d(size, size, 1, bias=False),
            nn.BatchNorm2d(size, affine=affine))

    def forward(self, x):
        return self.op(x)


class SepConv(nn.Module):
    def __init__(self, size, stride, affine):
        super().__init__()
        parts = []
        for step in (stride, 1):
            parts += [nn.ReLU(), nn.Conv2d(size, size, 3, step, 1, 1, size,
                                           bias=False),
                      nn.Conv2d(size, size, 1, bias=False),
                      nn.BatchNorm2d(size, affine=affine)]
        self.op = nn.Sequential(*parts)

    def forward(self, x):
        return self.op(x)


class Identity(nn.Module):
    def forward(self, x):
        return x


class Zero(nn.Module):
    def __init__(self, stride):
        super().__init__()
        self.stride = stride

    def forward(self, x):
        return x[:, :, ::self.stride, ::self.stride].mul(0.0)


class FactorizedReduce(nn.Module):
    def __init__(self, inner, outer, affine):
        super().__init__()
        self.relu = nn.ReLU()
        self.conv_1 = nn.Conv2d(inner, outer // 2, 1, 2, bias=False)
        self.conv_2 = nn.Conv2d(inner, outer // 2, 1, 2, bias=False)
        self.bn = nn.BatchNorm2d(outer, affine=affine)

    def forward(self, x):
        x = self.relu(x)
        return self.bn(torch.cat([self.conv_1(x),
                                  self.conv_2(x[:, :, 1:, 1:])], 1))


def operation(name, size, stride, affine):
    if name == "none":
        return Zero(stride)
    if name == "max_pool_3x3":
        return nn.MaxPool2d(3, stride, 1)
    if name == "avg_pool_3x3":
        return nn.AvgPool2d(3, stride, 1, count_include_pad=False)
    if name == "skip_connect":
        return Identity() if stride == 1 else \
            FactorizedReduce(size, size, affine)
    made = SepConv if name.startswith("sep") else DilConv
    return made(size, stride, affine)


class MixedOp(nn.Module):
    """All operations at once; with k > 1 on a k-th of the channels."""

    def __init__(self, size, stride, k):
        super().__init__()
        self._ops, self.k = nn.ModuleList(), k
        if k > 1:
            self.mp = nn.MaxPool2d(2, 2)
        for name in PRIMITIVES:
            op = operation(name, size // k, stride, False)
            if "pool" in name:
                op = nn.Sequential(op, nn.BatchNorm2d(size // k,
                                                      affine=False))
            self._ops.append(op)

    def mix(self, x, weights):
        if (weights == 0).any():  # one is drawn, the others are not asked
            best = int(weights.argmax())
            return weights[best] * self._ops[best](x)
        return sum(w * op(x) for w, op in zip(weights, self._ops))

    def forward(self, x, weights):
        if self.k == 1:
            return self.mix(x, weights)
        size = x.shape[1] // self.k
        some, rest = x[:, :size], x[:, size:]
        some = self.mix(some, weights)
        if some.shape[2] != rest.shape[2]:
            rest = self.mp(rest)
        x = torch.cat([some, rest], 1)
        return x.unflatten(1, (self.k, -1)).transpose(1, 2).flatten(1, 2)


class Cell(nn.Module):
    def __init__(self, before, inner, size, reduction, reduced, k):
        super().__init__()
        self.reduction = reduction
        self.preprocess0 = (FactorizedReduce if reduced else ReLUConvBN)(
            before, size, False)
        self.preprocess1 = ReLUConvBN(inner, size, False)
        self._ops, self._bns = nn.ModuleList(), nn.ModuleList()
        for i in range(NODES):
            for j in range(2 + i):
                stride = 2 if reduction and j < 2 else 1
                self._ops.append(MixedOp(size, stride, k))

    def forward(self, s0, s1, weights, betas):
        states, at = [self.preprocess0(s0), self.preprocess1(s1)], 0
        for _ in range(NODES):
            many = len(states)
            share = torch.ones(many) if betas is None else \
                betas[at:at + many].softmax(-1)
            states.append(sum(
                share[j] * self._ops[at + j](h, weights[at + j])
                for j, h in enumerate(states)))
            at += many
        return torch.cat(states[-NODES:], 1)


class Network(nn.Module):
    """Strengths are plain tensors: no state dict has them."""

    def __init__(self, size, layers, way, k=1):
        super().__init__()
        self.way, self.tau = way, 10.0
        many = sum(2 + i for i in range(NODES))
        self.stem = nn.Sequential(
            nn.Conv2d(3, 3 * size, 3, padding=1, bias=False),
            nn.BatchNorm2d(3 * size))
        before = inner = 3 * size
        self.cells, reduced = nn.ModuleList(), False
        for i in range(layers):
            reduction = i in (layers // 3, 2 * layers // 3)
            size *= 2 if reduction else 1
            self.cells.append(Cell(before, inner, size, reduction, reduced,
                                   k))
            before, inner, reduced = inner, NODES * size, reduction
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(inner, CLASSES)
        shapes = [(many, len(PRIMITIVES))] * 2 + ([(many,)] * 2
                                                  if k > 1 else [])
        self._arch = [(1e-3 * torch.randn(s)).requires_grad_()
                      for s in shapes]

    def arch_parameters(self):
        return self._arch

    def strengths(self, alphas):
        if self.way == "fair":
            return alphas.sigmoid()
        if self.way != "gdas":
            return alphas.softmax(-1)
        alphas = alphas[:, 1:].log_softmax(-1)  # nothing is never drawn
        if self.training:
            drawn = F.gumbel_softmax(alphas, self.tau, hard=True)
        else:
            drawn = F.one_hot(alphas.argmax(-1), alphas.shape[1]).float()
        return F.pad(drawn, (1, 0))

    def forward(self, x):
        s0 = s1 = self.stem(x)
        for cell in self.cells:
            at = int(cell.reduction)
            betas = self._arch[2 + at] if len(self._arch) > 2 else None
            s0, s1 = s1, cell(s0, s1, self.strengths(self._arch[at]), betas)
        return self.classifier(self.global_pooling(s1).flatten(1)), None

    def genotype(self):
        def best(alphas):
            gene, at = [], 0
            part = alphas.detach().softmax(-1)[:, 1:]
            for i in range(NODES):
                own = part[at:at + 2 + i]
                for j in own.max(1).values.argsort(descending=True)[:2]:
                    gene.append((PRIMITIVES[1 + int(own[j].argmax())],
                                 int(j)))
                at += 2 + i
            return gene
        return Genotype(best(self._arch[0]), range(2, 2 + NODES),
                        best(self._arch[1]), range(2, 2 + NODES))


class FixedCell(nn.Module):
    """What the search found; paths of it are dropped for a picture."""

    def __init__(self, before, inner, size, reduction, reduced):
        super().__init__()
        gene = FOUND.reduce if reduction else FOUND.normal
        self.preprocess0 = (FactorizedReduce if reduced else ReLUConvBN)(
            before, size, True)
        self.preprocess1 = ReLUConvBN(inner, size, True)
        self._indices = [j for _, j in gene]
        self._ops = nn.ModuleList(
            operation(name, size, 2 if reduction and j < 2 else 1, True)
            for name, j in gene)

    def forward(self, s0, s1, drop):
        states = [self.preprocess0(s0), self.preprocess1(s1)]
        for i in range(0, len(self._ops), 2):
            total = 0
            for op, j in zip(self._ops[i:i + 2], self._indices[i:i + 2]):
                h = op(states[j])
                if self.training and drop and not isinstance(op, Identity):
                    stays = torch.rand(len(h), 1, 1, 1) >= drop
                    h = h / (1 - drop) * stays
                total = total + h
            states.append(total)
        return torch.cat(states[-NODES:], 1)


class AuxiliaryHead(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.features = nn.Sequential(
            nn.ReLU(inplace=False), nn.AvgPool2d(2),
            nn.Conv2d(size, 16, 1, bias=False), nn.BatchNorm2d(16),
            nn.ReLU(), nn.Conv2d(16, 24, 1, bias=False), nn.BatchNorm2d(24),
            nn.ReLU())
        self.classifier = nn.Linear(24, CLASSES)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class NetworkCIFAR(nn.Module):
    """Asks its other head in training alone."""

    def __init__(self, size, layers):
        super().__init__()
        self._auxiliary, self.drop_path_prob = True, 0.0
        self.stem = nn.Sequential(
            nn.Conv2d(3, 3 * size, 3, padding=1, bias=False),
            nn.BatchNorm2d(3 * size))
        before = inner = 3 * size
        self.cells, reduced = nn.ModuleList(), False
        for i in range(layers):
            reduction = i in (layers // 3, 2 * layers // 3)
            size *= 2 if reduction else 1
            self.cells.append(FixedCell(before, inner, size, reduction,
                                        reduced))
            before, inner, reduced = inner, NODES * size, reduction
            if i == 2 * layers // 3:
                self.auxiliary_head = AuxiliaryHead(inner)
        self.at = 2 * layers // 3
        self.global_pooling = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(inner, CLASSES)

    def forward(self, x):
        s0, s1, other = *[self.stem(x)] * 2, None
        for i, cell in enumerate(self.cells):
            s0, s1 = s1, cell(s0, s1, self.drop_path_prob)
            if i == self.at and self.training:
                other = self.auxiliary_head(s1)
        return self.classifier(self.global_pooling(s1).flatten(1)), other


def pictures(count):
    """Waves of three directions and two lengths, in noise."""
    y = torch.randint(CLASSES, (count,))
    turn = (y % 3) * math.pi / 3 + 0.15 * torch.randn(count)
    often = 1.0 + 0.9 * (y // 3) + 0.05 * torch.randn(count)
    at = torch.arange(SIDE).float()
    wave = (at[None, :, None] * turn.cos()[:, None, None]
            + at[None, None, :] * turn.sin()[:, None, None])
    wave = (wave * often[:, None, None] + 6.3 * torch.rand(count, 1, 1)).sin()
    colour = 0.6 + 0.6 * torch.rand(count, 3, 1, 1)
    return wave[:, None] * colour + 0.4 * torch.randn(count, 3, SIDE, SIDE), y


def hits(logits, y, k):
    return 100.0 * (logits.topk(k).indices == y[:, None]).any(1) \
        .float().mean().item()


class Mean:
    def __init__(self):
        self.total = self.count = 0

    def update(self, value, n):
        self.total, self.count = self.total + value * n, self.count + n

    @property
    def avg(self):
        return self.total / max(1, self.count)


@kind(eval="", pcdarts="", gdas="", fair="")
def darts(run):
    """train_search.py of quark0/darts: SGD for weights, Adam for strengths.

    Strengths are in no optimizer of the weights and in no checkpoint, each
    step has a second pass on other pictures, norms are without weights, one
    operation of four is nothing.

    Odd and sound: `eval` is train.py, whose second head is asked in training
    alone and whose paths are dropped more and more, so that accuracy of
    training stays behind, `pcdarts` lets a quarter of channels pass and its
    strengths rest for half of all epochs, `gdas` draws one operation an
    edge, so that the others have no gradient at a step, `fair` adds a loss
    below 0 that grows, logs once an epoch and keeps weights in half
    precision and strengths in a file of their own.
    """
    fixed, part, gdas, fair = (run.has(n) for n in (
        "eval", "pcdarts", "gdas", "fair"))
    way = "gdas" if gdas else "fair" if fair else "darts"
    epochs, size, layers, rows = 16 if gdas else 13, 4, 3, 16
    lr, least, often = 0.1, 0.0 if fixed else 0.001, 1000 if fair else 4
    clip, mix = 5.0, 10.0 if fair else 0.0
    if fixed:
        model = NetworkCIFAR(size, layers)
    else:
        model = Network(2 * size if part else size, layers, way,
                        4 if part else 1)
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.9,
                                weight_decay=3e-4)
    slow = 1e-1 if gdas else 6e-3
    arch = None if fixed else torch.optim.Adam(
        model.arch_parameters(), slow, (0.5, 0.999), weight_decay=1e-3)
    x, y = pictures(256)
    vx, vy = pictures(192)
    half = 160 if fixed else 128
    rec = watched(run, model, optimizer, every=50, max_dump_bytes=1 << 20,
                  config={"learning_rate": lr, "epochs": epochs})

    def say(text):
        run.say(run.stamp("%m/%d %I:%M:%S %p ") + text, file="log.txt")

    def save(name):
        keep(run, name, {k: v.half() if fair and v.is_floating_point()
                         else v for k, v in model.state_dict().items()})
        if fair:
            keep(run, name.replace("weights", "arch"), [
                a.detach().clone() for a in model.arch_parameters()])

    args = {"arch_learning_rate": slow, "arch_weight_decay": 0.001,
            "batch_size": rows, "cutout": False, "cutout_length": 16,
            "data": "../data", "drop_path_prob": 0.2 if fixed else 0.3,
            "epochs": epochs, "gpu": 0, "grad_clip": clip,
            "init_channels": size, "layers": layers, "learning_rate": lr,
            "learning_rate_min": least, "model_path": "saved_models",
            "momentum": 0.9, "report_freq": often, "save":
            "eval-EXP" if fixed else "search-EXP", "seed": 2,
            "train_portion": 0.5, "unrolled": False, "weight_decay": 0.0003}
    if fixed:
        args |= {"arch": "FOUND", "auxiliary": True, "auxiliary_weight": 0.4}
    if fair:
        args |= {"aux_loss_weight": mix, "single_level": False}
    if gdas:
        args |= {"tau_max": 10, "tau_min": 0.1}
    say("gpu device = 0")
    say("args = Namespace(%s)" % ", ".join(
        f"{k}={v!r}" for k, v in sorted(args.items())))
    many = sum(p.numel() for n, p in model.named_parameters()
               if "auxiliary" not in n)
    say(f"param size = {many / 1e6:f}MB")

    def learn_strengths():
        rows_ = torch.randint(half, 256, (rows,))
        loss = F.cross_entropy(model(x[rows_])[0], y[rows_])
        other = 0.0
        if fair:
            other = -sum(F.mse_loss(a.sigmoid(), torch.full_like(a, 0.5))
                         for a in model.arch_parameters())
        arch.zero_grad()
        (loss + mix * other).backward()
        nn.utils.clip_grad_norm_(model.arch_parameters(), 10.0)
        arch.step()
        return float(other) if other == 0 else other.item()

    save("weights_000.pt")
    accuracy = trained = 0.0
    norms, other = [], 0.0
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = least + (lr - least) * 0.5 * (
                1 + math.cos(math.pi * epoch / epochs))
        say(f"epoch {epoch} lr {optimizer.param_groups[0]['lr']:e}")
        if fixed:
            model.drop_path_prob = 0.2 * epoch / epochs
        else:
            model.tau = 10.0 - 9.9 * epoch / (epochs - 1)
            say(f"genotype = {model.genotype()}")
        means = [Mean() for _ in range(3)]
        order = random.sample(range(half), half)
        model.train()
        for step in range(half // rows):
            at = order[step * rows:(step + 1) * rows]
            if not fixed and (not part or epoch >= epochs // 2):
                other = learn_strengths()
            optimizer.zero_grad()
            rec.batch(input=x[at], target=y[at])
            logits, second = model(x[at])
            loss = F.cross_entropy(logits, y[at])
            if fixed:
                loss = loss + 0.4 * F.cross_entropy(second, y[at])
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), clip).item()
            optimizer.step()
            rec.step(loss.detach(), grad_norm=norm)
            norms.append(norm)
            run.tick(0.3)
            for mean, value in zip(means, (loss.item(), hits(logits, y[at], 1),
                                           hits(logits, y[at], 5))):
                mean.update(value, rows)
            if step % often == 0:
                say(f"train {step:03d} {means[0].avg:e} {means[1].avg:f} "
                    f"{means[2].avg:f}")
        trained = means[1].avg
        say(f"train_acc {trained:f}")
        if fair:
            say(f"aux_loss {other:f}")
        means = [Mean() for _ in range(3)]
        model.eval()
        with torch.no_grad():
            for step in range(0, len(vx), 32):
                logits, goal = model(vx[step:step + 32])[0], \
                    vy[step:step + 32]
                for mean, value in zip(means, (
                        F.cross_entropy(logits, goal).item(),
                        hits(logits, goal, 1), hits(logits, goal, 5))):
                    mean.update(value, len(goal))
                if step // 32 % often == 0:
                    say(f"valid {step // 32:03d} {means[0].avg:e} "
                        f"{means[1].avg:f} {means[2].avg:f}")
        accuracy = means[1].avg
        say(f"valid_acc {accuracy:f}")
        run.tick(1.0)
        save("weights.pt")
        if epoch + 1 in (epochs // 2, epochs):
            save(f"weights_{epoch + 1:03d}.pt")
    rec.close()
    spread = 0 if fixed else max(a.detach().std().item()
                                 for a in model.arch_parameters())
    return {"train_acc": round(trained, 1), "valid_acc": round(accuracy, 1),
            "valid_loss": round(means[0].avg, 3), "alphas": round(spread, 3),
            "aux": round(other, 4), "clipped":
            round(sum(n > clip for n in norms) / len(norms), 2)}
