"""Several tasks on one trunk: LibMTL's trainer, and plain programs.

All its runs are sound; the kind returns what its last test measured.
"""

import copy
import math
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.blocks import BasicBlock, conv, kaiming
from kinds.outputs import keep, watch

WIDE, LUX = 12, 20.0
TASKS = {"shape": (["Acc"], [1]), "place": (["MAE_px"], [0]),
         "light": (["MAE_lx"], [0])}
OUTS = {"shape": 4, "place": 2, "light": 1, "flag": 1}


def scenes(rows, size=12):
    """Shapes somewhere, in more or less light; flags are rare."""
    shape = torch.randint(4, (rows,))
    light = 0.6 + 0.8 * torch.rand(rows)
    x, place = torch.zeros(rows, 1, size, size), torch.zeros(rows, 2)
    for i, label in enumerate(shape.tolist()):
        high, wide = ((5, 5), (6, 2), (2, 6), (3, 3))[label]
        y, z = torch.randint(0, size - 5, (2,)).tolist()
        x[i, 0, y:y + high, z:z + wide] = light[i]
        place[i] = torch.tensor([y + high / 2, z + wide / 2])
    x = x + 0.12 * torch.randn_like(x)
    return x, {"shape": shape, "place": place, "light": LUX * light[:, None],
               "flag": (torch.rand(rows, 1) < 0.04).float()}


class Encoder(nn.Module):
    """The stem and two blocks of a small ResNet."""

    def __init__(self, width=WIDE):
        super().__init__()
        self.conv1, self.bn1 = conv(1, width), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(BasicBlock(width, width))
        self.layer2 = nn.Sequential(BasicBlock(width, width, 2))
        self.avgpool = nn.AdaptiveAvgPool2d(3)
        kaiming(self)

    def forward(self, x):
        x = self.layer1(self.relu(self.bn1(self.conv1(x))))
        return self.avgpool(self.layer2(x)).flatten(1)


class MMoE(nn.Module):
    """Experts for all, and a gate for each task."""

    def __init__(self, tasks, experts=3, size=144):
        super().__init__()
        self.experts_shared = nn.ModuleList(Encoder(8)
                                            for _ in range(experts))
        self.gate_specific = nn.ModuleDict({t: nn.Sequential(
            nn.Linear(size, experts), nn.Softmax(-1)) for t in tasks})

    def forward(self, x):
        reps = torch.stack([e(x) for e in self.experts_shared])
        return {t: torch.einsum("ij,jik->ik", g(x.flatten(1)), reps)
                for t, g in self.gate_specific.items()}


class Scaled(nn.Linear):
    """Its answer comes in pixels or lux."""

    def __init__(self, size, outs, scale, shift):
        super().__init__(size, outs)
        self.scale, self.shift = scale, shift

    def forward(self, x):
        return super().forward(x) * self.scale + self.shift


def decoder(task, size):
    if task == "place":
        return Scaled(size, 2, 3.0, 6.0)
    if task == "light":
        return Scaled(size, 1, LUX / 4, LUX)
    return nn.Linear(size, OUTS[task])


class MTLmodel(nn.Module):
    def __init__(self, tasks, arch="HPS", scales=None):
        super().__init__()
        size = 9 * (8 if arch == "MMoE" else WIDE)
        self.decoders = nn.ModuleDict({t: decoder(t, size) for t in tasks})
        self.encoder = MMoE(tasks) if arch == "MMoE" else Encoder()
        if scales is not None:
            self.loss_scale = nn.Parameter(torch.tensor(
                [scales] * len(tasks)))

    def forward(self, x, task=None):
        rep, out = self.encoder(x), {}
        for t, head in self.decoders.items():
            if task in (None, t):
                out[t] = head(rep[t] if isinstance(rep, dict) else rep)
        return out


def loss_of(task, said, true):
    if task == "shape":
        return F.cross_entropy(said, true)
    if task == "flag":
        return F.binary_cross_entropy_with_logits(said, true)
    return F.l1_loss(said, true)


def area(said, true):
    """The area below the ROC; it needs both kinds."""
    yes, no = said[true > 0.5], said[true < 0.5]
    if not len(yes) or not len(no):
        return math.nan
    return (yes[:, None] > no[None]).float().mean().item()


def score(task, said, true):
    if task == "shape":
        return (said.argmax(1) == true).float().mean().item()
    if task == "flag":
        return area(said, true)
    return (said - true).abs().mean().item()


def better(base, new, weight):
    """count_improvement() of LibMTL."""
    total = 0
    for t, sign in weight.items():
        b, n = np.array(base[t]), np.array(new[t])
        total += ((-1) ** np.array(sign) * (b - n) / b).mean()
    return total / len(base)


def libmtl(run, weighting, arch, multi, lr, idle=False, rec=None):
    """LibMTL's Trainer.train(), and what it prints."""
    info = dict(TASKS)
    if idle:
        info["flag"] = (["AUC"], [1])
    tasks, say = list(info), lambda *lines: run.say(*lines)
    epochs, size, rows = (6, 16, 384) if multi else (12, 32, 384)
    bar = "=" * 40
    say(bar, "General Configuration:", f"\tWighting: {weighting}",
        f"\tArchitecture: {arch}", "\tRep_Grad: False",
        f"\tMulti_Input: {multi}", "\tSeed: 0", "\tDevice: cuda:0")
    if weighting == "GradNorm":
        say("GradNorm Configuration:", "\talpha: 1.5")
    if arch == "MMoE":
        say("MMoE Configuration:", "\timg_size: (1, 12, 12)",
            "\tnum_experts: [3]")
    say("Optimizer Configuration:", "\toptim: adam", f"\tlr: {lr}",
        "\tweight_decay: 1e-05", "Scheduler Configuration:",
        "\tscheduler: step", f"\tstep_size: {epochs * 2 // 3}", "\tgamma: 0.5")
    model = MTLmodel(tasks, arch, {"UW": -0.5, "GradNorm": 1.0}.get(
        weighting))
    count = sum(p.numel() for p in model.parameters())
    say(bar, f"Total Params: {count}", f"Trainable Params: {count}",
        "Non-trainable Params: 0")
    optimizer = torch.optim.Adam(model.parameters(), lr, weight_decay=1e-5)
    plan = torch.optim.lr_scheduler.StepLR(optimizer, epochs * 2 // 3,
                                           0.5)
    average = copy.deepcopy(model) if idle else None
    if rec:
        rec = watch(run, model, optimizer, lr=lr, weighting=weighting)
    many = {t: rows // (2 ** i if multi else 1)
            for i, t in enumerate(tasks)}
    data = {t: scenes(many[t]) for t in tasks} if multi else \
        dict.fromkeys(tasks, scenes(rows))
    test, held = scenes(256)
    say(bar, "LOG FORMAT | " + "".join(
        f"{t}_LOSS " + "".join(m + " " for m in info[t][0]) + "| "
        for t in tasks) + "TIME")

    def endless(t):
        while True:
            yield from torch.randperm(many[t]).split(size)

    streams = {t: endless(t) for t in tasks}
    shared = list(model.encoder.parameters())
    first, best, base = None, (-1e2, 0, 0), None

    def show(found, seconds):
        return "".join(f"{l:.4f} " + "".join(f"{v:.4f} " for v in vs)
                       + "| " for l, vs in found.values()) \
            + f"Time: {seconds:.4f}"

    keep(run, "checkpoints/epoch_0.pt", model.state_dict())
    for epoch in range(epochs):
        model.train()
        begun = run.clock
        sums = {t: [] for t in tasks}
        for i in range(rows // size):
            losses = []
            at = {t: next(streams[t]) for t in tasks} if multi else \
                dict.fromkeys(tasks, next(streams["shape"]))
            if not multi:
                x = data["shape"][0][at["shape"]]
                if rec:
                    rec.batch(input=x, labels=data["shape"][1]["shape"][
                        at["shape"]])
                said = model(x)
            for t in tasks:
                if multi:
                    x = data[t][0][at[t]]
                    if rec:
                        rec.batch(input=x)
                    said = model(x, t)
                true = data[t][1][t][at[t]]
                losses.append(loss_of(t, said[t], true))
                sums[t].append((losses[-1].item(),
                                score(t, said[t].detach(), true)))
            losses = torch.stack(losses)
            optimizer.zero_grad(set_to_none=False)
            if weighting == "UW":
                total = (losses / (2 * model.loss_scale.exp())
                         + model.loss_scale / 2).sum()
                total.backward()
            elif weighting == "GradNorm" and epoch >= 1:
                scale = len(tasks) * F.softmax(model.loss_scale, -1)
                grads = []
                for l in losses:
                    l.backward(retain_graph=True)
                    grads.append(torch.cat([p.grad.flatten()
                                            for p in shared]).clone())
                    model.encoder.zero_grad(set_to_none=False)
                grads = torch.stack(grads)
                norms = torch.norm(scale[:, None] * grads, dim=-1)
                part = losses.detach() / torch.tensor(first)
                goal = norms.mean(0) * (part / part.mean()) ** 1.5
                (norms - goal.detach()).abs().sum(0).backward()
                new = (scale.detach()[:, None] * grads).sum(0)
                for p, g in zip(shared, new.split(
                        [p.numel() for p in shared])):
                    p.grad.copy_(g.view_as(p))
                total = (scale.detach() * losses.detach()).sum()
            else:
                weight = torch.ones(len(tasks))
                if idle:
                    weight[-1] = 0.0
                total = (losses * weight).sum()
                total.backward()
            optimizer.step()
            if rec:
                rec.step(total.detach())
            if average is not None:
                with torch.no_grad():
                    for a, b in zip(average.state_dict().values(),
                                    model.state_dict().values()):
                        a.copy_(b if not a.is_floating_point() else
                                0.95 * a + 0.05 * b)
            run.tick(0.11)
        means = {t: (np.mean([l for l, _ in v]), [np.mean(
            [s for _, s in v])]) for t, v in sums.items()}
        if first is None:
            first = [float(l) for l, _ in means.values()]
        took, begun = run.clock - begun, run.clock
        model.eval()
        with torch.no_grad():
            said = model(test)
        run.tick(0.3)
        found = {t: (loss_of(t, said[t], held[t]).item(),
                     [score(t, said[t], held[t])]) for t in tasks}
        say(f"Epoch: {epoch:04d} | TRAIN: {show(means, took)} | "
            f"TEST: {show(found, run.clock - begun)}")
        now = {t: v for t, (_, v) in found.items()}
        base = base or now
        gain = better(base, now, {t: info[t][1] for t in tasks})
        plan.step()
        if gain > best[0] or not epoch:
            best = gain, epoch, now
            keep(run, "checkpoints/best.pt", model.state_dict())
            say(f"Save Model {epoch} to checkpoints/best.pt")
        if epoch + 1 in (epochs // 2, epochs):
            keep(run, f"checkpoints/epoch_{epoch + 1}.pt", (
                {k: v.half() if v.is_floating_point() else v
                 for k, v in average.state_dict().items()}
                if idle else model.state_dict()))
    say(bar, f"Best Result: Epoch {best[1]}, result {best[2]}", bar)
    if rec:
        rec.close()
    return {k[0]: round(v[0], 3) for k, v in zip(
        (info[t][0] for t in tasks), now.values())}


def measured(run, model, test, held, tasks, **more):
    model.eval()
    with torch.no_grad():
        said = model(test)
    model.train()
    return {f"{t}_{TASKS[t][0][0]}": round(score(t, said[t], held[t]), 4)
            for t in tasks} | more


def rare(run):
    """Lux is known for each fourth batch alone; log_vars of its own rate."""
    epochs, size, rows = 11, 32, 416
    model = MTLmodel(list(TASKS))
    model.log_vars = nn.Parameter(torch.zeros(3))
    head = [p for n, p in model.named_parameters() if n != "log_vars"]
    optimizer = torch.optim.Adam([
        {"params": head, "lr": 1e-2}, {"params": [model.log_vars],
                                       "lr": 4e-2, "weight_decay": 0.0}])
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, epochs * rows // size, 1e-5)
    rec = watch(run, model, optimizer, lr=1e-2, light_every=4)
    run.settings("args.json", epochs=epochs, batch_size=size, lr=1e-2,
                 lr_log_vars=4e-2, light_every=4, tasks=list(TASKS))
    (x, y), (test, held), step = scenes(rows), scenes(256), 0
    for epoch in range(epochs):
        for at in torch.randperm(rows).split(size):
            known = step % 4 == 0
            rec.batch(input=x[at], labels=y["shape"][at])
            rep = model.encoder(x[at])
            row, total = {"step": step}, 0.0
            for i, t in enumerate(TASKS):
                if t == "light" and not known:
                    row |= {f"loss_{t}": "", TASKS[t][0][0]: ""}
                    continue
                said = model.decoders[t](rep)
                loss = loss_of(t, said, y[t][at])
                total = total + (-model.log_vars[i]).exp() * loss \
                    + model.log_vars[i]
                row |= {f"loss_{t}": round(loss.item(), 5), TASKS[t][0][0]:
                        round(score(t, said.detach(), y[t][at]), 4)}
            optimizer.zero_grad(set_to_none=True)
            total.backward()
            norm = nn.utils.clip_grad_norm_(head, 50.0).item()
            optimizer.step()
            plan.step()
            rec.step(total.detach(), grad_norm=norm)
            run.tick(0.07)
            run.row(**row, loss=round(total.item(), 5), **{
                f"log_var_{t}": round(v, 5) for t, v in zip(
                    TASKS, model.log_vars.tolist())}, grad_norm=norm,
                lr=plan.get_last_lr()[0])
            if step in (0, 71):
                keep(run, f"checkpoints/step{step:04d}.pt", {
                    "step": step, "model": model.state_dict(),
                    "optimizer": optimizer.state_dict()})
            step += 1
        found = measured(run, model, test, held, TASKS, epoch=epoch,
                         step=step)
        run.row("val.csv", **found)
    rec.close()
    keep(run, "checkpoints/last.pt", {
        "step": step, "model": model.state_dict(),
        "optimizer": optimizer.state_dict()})
    return found


def added(run):
    """PCGrad; at half a third task comes in, whose head stood still."""
    total, size, rows, late = 150, 32, 416, 75
    model = MTLmodel(list(TASKS))
    parts = {"trunk": model.encoder, **{f"head_{t}": model.decoders[t]
                                        for t in TASKS}}
    trunk = torch.optim.SGD(model.encoder.parameters(), 0.02, momentum=0.9,
                            nesterov=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(trunk, 0.06, total)
    heads = torch.optim.Adam([
        {"params": list(model.decoders[t].parameters()), "name": t,
         "lr": 0.0 if t == "light" else 4e-3} for t in TASKS])
    rec = watch(run, model, [trunk, heads], stages=[0, late])
    run.settings("args.json", iterations=total, batch_size=size,
                 surgery="pcgrad", stages=[
                     {"from": 0, "tasks": ["shape", "place"]},
                     {"from": late, "tasks": list(TASKS)}])
    (x, y), (test, held) = scenes(rows), scenes(256)
    shared, order = list(model.encoder.parameters()), []
    tasks, conflicts = ["shape", "place"], 0

    def save(step):
        for name, part in parts.items():
            keep(run, f"ckpt/{step:06d}/{name}.pt", part.state_dict())
        keep(run, f"ckpt/{step:06d}/optimizer_trunk.pt", trunk.state_dict())

    save(0)
    run.say("[stage 1] tasks: shape place")
    for step in range(total):
        if step == late:
            tasks = list(TASKS)
            heads.param_groups[-1]["lr"] = 1e-2
            run.say(f"[stage 2] it {step}: adding task light")
        if not len(order):
            order = list(torch.randperm(rows).split(size))
        at = order.pop()
        rec.batch(input=x[at], labels=y["shape"][at])
        heads.zero_grad()
        rep, grads, losses = model.encoder(x[at]), [], {}
        for t in tasks:
            loss = loss_of(t, model.decoders[t](rep), y[t][at])
            trunk.zero_grad()
            loss.backward(retain_graph=True)
            grads.append(torch.cat([p.grad.flatten() for p in shared]))
            losses[t] = loss.item()
        new = [g.clone() for g in grads]
        for i, g in enumerate(new):
            for j in random.sample(range(len(grads)), len(grads)):
                dot = torch.dot(g, grads[j])
                if dot < 0:
                    conflicts += 1
                    g -= dot * grads[j] / grads[j].norm() ** 2
        for p, g in zip(shared, sum(new).split([p.numel()
                                                for p in shared])):
            p.grad = g.view_as(p).clone()
        norm = nn.utils.clip_grad_norm_(shared, 1.0).item()
        trunk.step()
        heads.step()
        rec.step(torch.tensor(sum(losses.values())), grad_norm=norm)
        run.record("train.jsonl", it=step, loss=sum(losses.values()), **{
            f"loss/{t}": losses.get(t) for t in TASKS}, grad_norm=norm,
            conflicts=conflicts, lr_trunk=plan.get_last_lr()[0],
            momentum=trunk.param_groups[0]["momentum"],
            lr_light=heads.param_groups[-1]["lr"])
        plan.step()
        run.tick(0.12)
        if step % 25 == 24:
            found = measured(run, model, test, held, TASKS)
            mean = np.mean([v if "Acc" not in k else 1 - v for k, v in
                            found.items() if k.split("_")[0] in tasks])
            run.record("val.jsonl", it=step, **found, mean_error=mean)
            run.say(f"[val] it {step + 1}/{total} " + " ".join(
                f"{k} {v:.4f}" for k, v in found.items())
                + f" mean_error {mean:.4f}")
        if step + 1 in (late, total):
            save(step + 1)
    rec.close()
    return found


@kind(gradnorm="", mmoe="", rare="", added="")
def mtl(run):
    """Tasks in other units on one trunk, by LibMTL and by plain programs.

    Odd and sound: `gradnorm` has sets of other sizes, losses of 1, 3 and 5
    and loss_scale without gradient in the first epoch, `mmoe` an idle tower
    and gate whose loss has weight 0 and an AUC that is often NaN, and keeps
    halves of an average, `rare` knows one task in every fourth batch alone,
    whose head has no gradient else, `added` begins a task at half, whose head
    stood still, with the momentum in one cycle and files for each part.
    """
    if run.has("rare"):
        return rare(run)
    if run.has("added"):
        return added(run)
    if run.has("gradnorm"):
        return libmtl(run, "GradNorm", "HPS", True, 1e-2)
    if run.has("mmoe"):
        return libmtl(run, "EW", "MMoE", False, 1e-2, idle=True)
    return libmtl(run, "UW", "HPS", False, 1e-2, rec=True)
