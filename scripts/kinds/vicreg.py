"""Pictures without labels: VICReg, and those of its kin without negatives.

All its runs are sound; the kind returns what a linear probe measured.
"""

import __main__
import argparse
import copy
import json
import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.blocks import BasicBlock, conv, kaiming
from kinds.moco import Meter, many_pictures, seen
from kinds.outputs import keep, watch

EMBED, ROWS, SIZE = 24, 384, 32


class ResNet(nn.Module):
    """The backbone, without a layer for classes."""

    def __init__(self, width=8, zero=True):
        super().__init__()
        self.conv1, self.bn1 = conv(3, width), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(BasicBlock(width, width))
        self.layer2 = nn.Sequential(BasicBlock(width, EMBED, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        kaiming(self)
        for m in self.modules():
            if zero and isinstance(m, BasicBlock):
                nn.init.zeros_(m.bn2.weight)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        return self.avgpool(self.layer2(self.layer1(x))).flatten(1)


def mlp(*sizes, last=False, affine=True):
    """Linear, norm and ReLU; the last is bare, or normed without scales."""
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:-1]):
        layers += [nn.Linear(a, b, bias=affine), nn.BatchNorm1d(b),
                   nn.ReLU(inplace=True)]
    layers.append(nn.Linear(*sizes[-2:], bias=last))
    return nn.Sequential(*layers)


def off_diagonal(x):
    return x[~torch.eye(len(x), dtype=torch.bool)]


class VICReg(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args, self.terms = args, {}
        self.backbone = ResNet()
        f = list(map(int, args.mlp.split("-")))
        self.num_features = f[-1]
        self.projector = mlp(EMBED, *f)

    def forward(self, x, y):
        x = self.projector(self.backbone(x))
        y = self.projector(self.backbone(y))
        self.terms = {"repr": F.mse_loss(x, y)}
        std = cov = 0
        for v in (x, y):
            v = v - v.mean(0)
            std = std + F.relu(1 - (v.var(0) + 1e-4).sqrt()).mean() / 2
            c = v.T @ v / (self.args.batch_size - 1)
            cov = cov + off_diagonal(c).square().sum() / self.num_features
        self.terms |= {"std": std, "cov": cov}
        return self.args.sim_coeff * self.terms["repr"] \
            + self.args.std_coeff * std + self.args.cov_coeff * cov


class BarlowTwins(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args, self.terms = args, {}
        self.backbone = ResNet()
        f = list(map(int, args.mlp.split("-")))
        self.projector = mlp(EMBED, *f, affine=False)
        self.bn = nn.BatchNorm1d(f[-1], affine=False)

    def forward(self, x, y):
        x, y = (self.bn(self.projector(self.backbone(v))) for v in (x, y))
        c = x.T @ y / self.args.batch_size
        self.terms = {"on": (c.diagonal() - 1).square().sum(),
                      "off": off_diagonal(c).square().sum()}
        return self.terms["on"] + self.args.lambd * self.terms["off"]


def exclude_bias_and_norm(p):
    return p.ndim == 1


class LARS(torch.optim.Optimizer):
    def __init__(self, params, lr, weight_decay=0, momentum=0.9, eta=0.05,
                 weight_decay_filter=None, lars_adaptation_filter=None):
        super().__init__(params, dict(
            lr=lr, weight_decay=weight_decay, momentum=momentum, eta=eta,
            weight_decay_filter=weight_decay_filter,
            lars_adaptation_filter=lars_adaptation_filter))

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                dp = p.grad
                if dp is None:
                    continue
                if not exclude_bias_and_norm(p):
                    dp = dp.add(p, alpha=g["weight_decay"])
                    norm, update = p.norm(), dp.norm()
                    if norm > 0 and update > 0:
                        dp = dp * (g["eta"] * norm / update)
                mu = self.state[p].setdefault("mu", torch.zeros_like(p))
                mu.mul_(g["momentum"]).add_(dp)
                p.add_(mu, alpha=-g["lr"])


# The filter is kept in param_groups, as a name of the script that was run.
exclude_bias_and_norm.__module__ = "__main__"
__main__.exclude_bias_and_norm = exclude_bias_and_norm


def view(x):
    """As MoCo's, in other colours and on another ground."""
    x = seen(x) * (0.4 + 1.2 * torch.rand(len(x), 3, 1, 1))
    x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.roll(1, 1), x)
    ground = torch.randn(len(x), 3, 3, 3)
    return x + 0.3 * F.interpolate(ground, x.shape[-1], mode="bilinear")


def views(x):
    return view(x), view(x)


def evaluate(run, backbone, x, y):
    """evaluate.py: a linear layer on what the frozen backbone says."""
    (x, test), (y, held) = x.split(ROWS), y.split(ROWS)
    backbone = copy.deepcopy(backbone).eval()
    with torch.no_grad():
        x, test = backbone(x), backbone(test)
    head = nn.Linear(EMBED, 4)
    head.weight.data.normal_(0, 0.01)
    head.bias.data.zero_()
    epochs, best, step = 12, 0.0, 0
    optimizer = torch.optim.SGD(head.parameters(), 0.3, momentum=0.9,
                                weight_decay=1e-6)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    (run.folder / "lincls").mkdir()
    say = lambda row: run.say(row, file="lincls/stats.txt")
    say("evaluate.py --data-dir data/shapes --pretrained exp/resnet50.pth "
        "--exp-dir lincls --lr-head 0.3")
    begun = run.clock
    for epoch in range(epochs):
        for at in torch.randperm(ROWS).split(SIZE):
            loss = F.cross_entropy(head(x[at]), y[at])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.tick(0.02)
            if step % 12 == 0:
                say(json.dumps({
                    "epoch": epoch, "step": step, "lr_backbone": 0,
                    "lr_head": plan.get_last_lr()[0], "loss": loss.item(),
                    "time": int(run.clock - begun)}))
            step += 1
        with torch.no_grad():
            right = 100 * (head(test).argmax(1) == held).float() \
                .mean().item()
        best = max(best, right)
        say(json.dumps({"epoch": epoch, "acc1": right, "acc5": 100.0,
                        "best_acc1": best, "best_acc5": 100.0}))
        plan.step()
    return round(best, 2)


def published(run, x, terms=False, barlow=False):
    """main_vicreg.py and Barlow Twins' main.py: stats.txt by the minute."""
    epochs, warm, steps = 13, 3, ROWS // SIZE
    args = argparse.Namespace(
        data_dir="data/shapes", exp_dir="exp", log_freq_time=3,
        arch="resnet18", mlp="48-48-48", epochs=epochs, batch_size=SIZE,
        base_lr=0.3, wd=1e-6, sim_coeff=25.0, std_coeff=25.0,
        cov_coeff=0.25 if terms else 1.0, num_workers=10, device="cuda",
        world_size=1, rank=0, lambd=0.04, scale_loss=0.024)
    names = ("epochs", "batch_size", "wd") + (("lambd", "scale_loss")
                                              if barlow else (
        "mlp", "base_lr", "sim_coeff", "std_coeff", "cov_coeff"))
    file = "barlowtwins.py" if barlow else "main_vicreg.py"
    line = f"{file} --data-dir data/shapes --exp-dir exp " + " ".join(
        f"--{n.replace('_', '-')} {getattr(args, n)}" for n in names)
    (run.folder / "exp").mkdir()
    say = lambda text: (run.say(text, file="exp/stats.txt"), run.say(text))
    run.say(repr(args))
    say(line)
    model = BarlowTwins(args) if barlow else VICReg(args)
    groups = list(model.parameters())
    if barlow:
        groups = [{"params": [p for p in groups if p.ndim > 1]},
                  {"params": [p for p in groups if p.ndim == 1]}]
    optimizer = LARS(groups, 0, 1e-6,
                     weight_decay_filter=exclude_bias_and_norm,
                     lars_adaptation_filter=exclude_bias_and_norm)

    def rate(step):
        base = args.base_lr * SIZE / 256 if not barlow else SIZE / 256
        if step < warm * steps:
            part = step / (warm * steps)
        else:
            q = 0.5 * (1 + math.cos(math.pi * (step - warm * steps)
                                    / ((epochs - warm) * steps)))
            part = q + 0.002 * (1 - q)
        if barlow:
            optimizer.param_groups[0]["lr"] = base * part * 0.8
            optimizer.param_groups[1]["lr"] = base * part * 0.2
        else:
            optimizer.param_groups[0]["lr"] = base * part
        return optimizer.param_groups[0]["lr"]

    def save(epoch):
        state = dict(epoch=epoch, model={
            f"module.{k}": v for k, v in model.state_dict().items()},
            optimizer=optimizer.state_dict())
        name = {0: "init.pth", epochs // 2: "half.pth"}.get(epoch)
        for file in ("model.pth",) + ((name,) if name else ()):
            keep(run, f"exp/{file}", state)

    save(0)
    begun = last = run.clock
    for epoch in range(epochs):
        if terms and epoch == epochs // 2 - 1:
            args.cov_coeff = 1.0
        for i, at in enumerate(torch.randperm(ROWS).split(SIZE)):
            step = epoch * steps + i
            lr = rate(step)
            optimizer.zero_grad()
            loss = model(*views(x[at]))
            (loss * args.scale_loss if barlow else loss).backward()
            optimizer.step()
            run.tick(0.9)
            if run.clock - last > args.log_freq_time:
                stats = dict(epoch=epoch, step=step)
                if barlow:
                    stats |= dict(
                        lr_weights=lr,
                        lr_biases=optimizer.param_groups[1]["lr"],
                        loss=loss.item() * args.scale_loss)
                else:
                    stats |= dict(loss=loss.item())
                stats |= dict(time=int(run.clock - begun))
                if not barlow:
                    stats |= dict(lr=lr)
                if terms:
                    stats |= {f"{k}_loss": v.item() for k, v in
                              model.terms.items()} | {
                        "cov_coeff": args.cov_coeff}
                say(json.dumps(stats))
                last = run.clock
        save(epoch + 1)
    keep(run, "exp/resnet50.pth", model.backbone.state_dict())
    return model.backbone, {k: round(v.item(), 4)
                            for k, v in model.terms.items()}


class BYOL(nn.Module):
    """The target follows by an average; the predictor is the learner's."""

    def __init__(self):
        super().__init__()
        self.online_encoder = nn.Sequential(ResNet(zero=False),
                                            mlp(EMBED, 48, 24, last=True))
        self.target_encoder = copy.deepcopy(self.online_encoder)
        self.target_encoder.requires_grad_(False)
        self.online_predictor = mlp(24, 48, 24, last=True)

    def forward(self, x, y):
        both = torch.cat([x, y])
        p = F.normalize(self.online_predictor(self.online_encoder(both)))
        with torch.no_grad():
            z = F.normalize(self.target_encoder(both))
        a, b = z.chunk(2)
        return 2 - 2 * (p * torch.cat([b, a])).sum(1).mean()

    @torch.no_grad()
    def follow(self, decay):
        for a, b in zip(self.target_encoder.parameters(),
                        self.online_encoder.parameters()):
            a.mul_(decay).add_(b, alpha=1 - decay)


def byol(run, x):
    """A loss from 2 to nearly 0, and half of the model without gradients."""
    epochs, steps = 12, ROWS // SIZE
    model, total = BYOL(), epochs * steps
    live = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(live, lr=4e-3)
    rec = watch(run, model, optimizer, ema=0.99,
                freeze=["target_encoder"])
    run.settings("config.yaml.json", epochs=epochs, batch_size=SIZE,
                 lr=4e-3, moving_average_decay=0.99, projection_size=24,
                 projection_hidden_size=48)
    keep(run, "byol/init.pt", model.state_dict())
    for epoch in range(epochs):
        losses = []
        for i, at in enumerate(torch.randperm(ROWS).split(SIZE)):
            a, b = views(x[at])
            rec.batch(input=a)
            loss = model(a, b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            tau = 1 - 0.01 * (math.cos(math.pi * (epoch * steps + i)
                                       / total) + 1) / 2
            model.follow(tau)
            rec.step(loss.detach())
            run.tick(0.3)
            losses.append(loss.item())
            run.record("loss.jsonl", step=epoch * steps + i,
                       loss=loss.item(), tau=tau, lr=4e-3)
        with torch.no_grad():
            z = F.normalize(model.target_encoder(x[:256]))
        run.say(f"End of epoch {epoch} loss {sum(losses) / steps:.4f} "
                f"z_std {z.std(0).mean().item():.4f} (1/sqrt(d) 0.2041)")
        if epoch == epochs // 2:
            keep(run, "byol/half.pt", model.state_dict())
    rec.close()
    backbone = model.online_encoder[0]
    keep(run, "byol/model.pt", {
        "online_network_state_dict": model.online_encoder.state_dict(),
        "target_network_state_dict": model.target_encoder.state_dict(),
        "optimizer_state_dict": optimizer.state_dict()})
    return backbone, {"loss": round(losses[-1], 4),
                      "std": round(z.std(0).mean().item(), 4)}


class SimSiam(nn.Module):
    def __init__(self, dim=24, pred_dim=8):
        super().__init__()
        self.encoder = ResNet(zero=False)
        self.encoder.fc = nn.Sequential(
            nn.Linear(EMBED, EMBED, bias=False), nn.BatchNorm1d(EMBED),
            nn.ReLU(inplace=True), nn.Linear(EMBED, dim),
            nn.BatchNorm1d(dim, affine=False))
        self.encoder.fc[3].bias.requires_grad = False
        self.predictor = nn.Sequential(
            nn.Linear(dim, pred_dim, bias=False), nn.BatchNorm1d(pred_dim),
            nn.ReLU(inplace=True), nn.Linear(pred_dim, dim))

    def forward(self, x1, x2):
        z1, z2 = (self.encoder.fc(self.encoder(x)) for x in (x1, x2))
        return self.predictor(z1), self.predictor(z2), z1.detach(), \
            z2.detach()


def simsiam(run, x):
    """main_simsiam.py with fix-pred-lr: the loss goes from 0 to -1."""
    epochs, steps, lr = 12, ROWS // SIZE, 0.12
    model = SimSiam()
    optimizer = torch.optim.SGD([
        {"params": list(model.encoder.parameters()), "fix_lr": False},
        {"params": list(model.predictor.parameters()), "fix_lr": True}],
        lr, momentum=0.9, weight_decay=1e-4)
    run.say("python main_simsiam.py -a resnet18 -b 32 --lr 0.96 --epochs 12 "
            "--fix-pred-lr --dim 24 --pred-dim 8 -p 3 data/shapes",
            file="run.sh")
    run.say("Use GPU: 0 for training", "=> creating model 'resnet18'",
            *repr(model).splitlines())
    criterion = nn.CosineSimilarity(dim=1)

    def save(epoch):
        keep(run, f"checkpoint_{epoch:04d}.pth.tar", {
            "epoch": epoch + 1, "arch": "resnet18", "state_dict": {
                f"module.{k}": v for k, v in model.state_dict().items()},
            "optimizer": optimizer.state_dict()})

    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = lr if group["fix_lr"] else lr * 0.5 * (
                1 + math.cos(math.pi * epoch / epochs))
        meters = [Meter("Time", "6.3f"), Meter("Data", "6.3f"),
                  Meter("Loss", ".4f")]
        for i, at in enumerate(torch.randperm(ROWS).split(SIZE)):
            p1, p2, z1, z2 = model(*views(x[at]))
            loss = -(criterion(p1, z2).mean() + criterion(p2, z1).mean()) / 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.tick(0.2)
            for meter, value in zip(meters, (0.2 if i else 1.9, 0.002 if i
                                             else 1.6, loss.item())):
                meter.update(value, SIZE)
            if i % 3 == 0:
                run.say(f"Epoch: [{epoch}][{i:2d}/{steps}]\t"
                        + "\t".join(map(str, meters)))
        if epoch in (0, epochs // 2, epochs - 1):
            save(epoch)
    with torch.no_grad():
        z = F.normalize(model.encoder.fc(model.encoder(x[:256])))
    return model.encoder, {"loss": round(loss.item(), 4),
                           "std": round(z.std(0).mean().item(), 4)}


@kind(terms="", barlow="", byol="", simsiam="")
def vicreg(run):
    """VICReg by main_vicreg.py, with a linear layer on its backbone after.

    Gains of each block's last norm begin at 0, rates are 0.04 and less. Odd
    and sound: `terms` logs the three terms, with a covariance whose weight is
    a quarter for half of the run, so that the loss rises where it becomes 1,
    `barlow` is a sum over the pairs of features by 0.024, with rates by the
    kind of parameter, `byol` has a target that only follows, `simsiam` a loss
    from 0 to -1, a bias that is fixed and a predictor whose rate stays.
    """
    x, y = many_pictures(ROWS + 256)
    x = x / x.std()
    if run.has("byol"):
        backbone, more = byol(run, x[:ROWS])
    elif run.has("simsiam"):
        backbone, more = simsiam(run, x[:ROWS])
    else:
        backbone, more = published(run, x[:ROWS], run.has("terms"),
                                   run.has("barlow"))
    return {"acc1": evaluate(run, backbone, x, y), **more}
