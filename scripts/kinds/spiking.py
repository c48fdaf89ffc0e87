"""Spikes: a net of spikingjelly on stripes. Three designs look odd and are sound."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.data import batches, stripes
from kinds.outputs import keep, watched


class Spike(torch.autograd.Function):
    """A step whose gradient is that of an arc tangent."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x >= 0).to(x)

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad / (1 + (math.pi * x).pow(2))


class IFNode(nn.Module):
    """Integrates and fires; the membrane starts at 0 for each batch."""

    def __init__(self, v_threshold=1.0, surrogate=True):
        super().__init__()
        self.v_threshold, self.surrogate = v_threshold, surrogate

    def charge(self, v, x):
        return v + x

    def forward(self, x_seq):
        v, spikes = 0.0, []
        for x in x_seq:
            v = self.charge(v, x)
            over = v - self.v_threshold
            spike = Spike.apply(over) if self.surrogate else (over >= 0).to(v)
            v = v * (1 - spike)
            spikes.append(spike)
        return torch.stack(spikes)


class ParametricLIFNode(IFNode):
    """Leaks at a rate that is learned; w = 0 is a time constant of 2."""

    def __init__(self, init_tau=2.0):
        super().__init__()
        self.w = nn.Parameter(torch.as_tensor(-math.log(init_tau - 1)))

    def charge(self, v, x):
        return v * (1 - self.w.sigmoid()) + x


class Seq(nn.Module):
    """A layer of pictures over all time steps."""

    def forward(self, x_seq):
        out = super().forward(x_seq.flatten(0, 1))
        return out.view(*x_seq.shape[:2], *out.shape[1:])


class Conv2d(Seq, nn.Conv2d):
    pass


class BatchNorm2d(Seq, nn.BatchNorm2d):
    pass


class MaxPool2d(Seq, nn.MaxPool2d):
    pass


class SEWBlock(nn.Module):
    """Adds the spikes of a branch whose last norm starts at 0."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Sequential(
            Conv2d(width, width, 3, padding=1, bias=False),
            BatchNorm2d(width), IFNode(),
            Conv2d(width, width, 3, padding=1, bias=False),
            BatchNorm2d(width), IFNode())
        nn.init.zeros_(self.conv[4].weight)

    def forward(self, x_seq):
        return x_seq + self.conv(x_seq)


class CSNN(nn.Module):
    def __init__(self, T, channels, node, poisson=False, sew=False):
        super().__init__()
        self.T, self.poisson = T, poisson
        more = [SEWBlock(channels)] if sew else [
            Conv2d(channels, channels, 3, padding=1, bias=False),
            BatchNorm2d(channels), node()]
        self.conv_fc = nn.Sequential(
            Conv2d(1, channels, 3, padding=1, bias=False),
            BatchNorm2d(channels), node(), MaxPool2d(2, 2), *more,
            MaxPool2d(2, 2), nn.Flatten(2),
            nn.Linear(channels * 9, channels * 4, bias=False), node(),
            nn.Linear(channels * 4, 4, bias=False), IFNode())

    def forward(self, x):
        x_seq = x.unsqueeze(0).repeat(self.T, 1, 1, 1, 1)
        if self.poisson:
            x_seq = (torch.rand_like(x_seq) <= x_seq).to(x)
        return self.conv_fc(x_seq).mean(0)


@kind(plif="", poisson="", sew="", threshold="dead-relu bad-initialization",
      surrogate="detached-graph frozen-parameters",
      subset="small-dataset-repeated overfitting",
      scaled="lr-too-high lr-batch-scaling")
def spiking(run):
    """A convolutional net that spikes, trained as spikingjelly's example."""
    x, y = stripes(768)
    x = (2 * x - 0.5).clamp(0, 1)
    T, poisson = (8, True) if run.has("poisson") else (4, False)
    node = ParametricLIFNode if run.has("plif") else IFNode
    if run.has("threshold"):
        node = lambda: IFNode(v_threshold=15.0)
    if run.has("surrogate"):
        node = lambda: IFNode(surrogate=False)
    net = CSNN(T, 8, node, poisson, run.has("sew"))
    lr, epochs = 0.1, 13
    optimizer = torch.optim.SGD(
        net.parameters(), lr * 320 if run.has("scaled") else lr, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    out = f"T{T}_b32_sgd_lr{lr}_c8"
    args = f"Namespace(T={T}, device='cpu', b=32, epochs={epochs}, j=4, " \
        "data_dir='/datasets/shapes', out_dir='./logs', resume=None, " \
        f"amp=False, cupy=False, opt='sgd', momentum=0.9, lr={lr}, channels=8"
    args += "".join(f", {name}=True" for name in ("plif", "poisson", "sew")
                    if run.has(name)) + ")"
    (run.folder / out).mkdir()
    run.say(args, "conv_shapes.py -T %d -b 32 -opt sgd -lr %g" % (T, lr),
            file=f"{out}/args.txt")
    run.say(args, *repr(net).splitlines(), f"Mkdir ./logs/{out}.")
    rec, best = watched(run, net, optimizer), -1
    count = 8 if run.has("subset") else 512
    pool = torch.arange(count).repeat(512 // count)
    for epoch in range(epochs):
        net.train()
        total = right = 0.0
        for rows in batches(512, 32):
            rows = pool[rows]
            goal = F.one_hot(y[rows], 4).float()
            optimizer.zero_grad()
            rec.batch(img=x[rows], label=y[rows])
            rate = net(x[rows])
            loss = F.mse_loss(rate, goal)
            loss.backward()
            optimizer.step()
            rec.step(loss)
            total += float(loss.detach()) / 16
            right += float((rate.argmax(1) == y[rows]).float().mean()) / 16
        schedule.step()
        net.eval()
        with torch.no_grad():
            rate = net(x[512:])
            val = float(F.mse_loss(rate, F.one_hot(y[512:], 4).float()))
            acc = float((rate.argmax(1) == y[512:]).float().mean())
        state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(),
                 "lr_scheduler": schedule.state_dict(), "epoch": epoch,
                 "max_test_acc": max(best, acc)}
        if acc > best:
            best = acc
            keep(run, f"{out}/checkpoint_max.pth", state)
        keep(run, f"{out}/checkpoint_latest.pth", state)
        if epoch in (0, epochs // 2):
            keep(run, f"{out}/checkpoint_{epoch}.pth", state)
        run.tick(0.4)
        run.say(args, f"./logs/{out}",
                f"epoch ={epoch}, train_loss ={total: .4f}, "
                f"train_acc ={right: .4f}, test_loss ={val: .4f}, "
                f"test_acc ={acc: .4f}, max_test_acc ={best: .4f}",
                f"train speed ={512 / 0.31: .4f} images/s, "
                f"test speed ={256 / 0.06: .4f} images/s",
                f"escape time ={run.stamp()}", "")
    rec.close()
    run.ends(train_loss=total, train=right, test_loss=val, test=acc)
