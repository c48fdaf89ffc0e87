"""Pictures, scenes, proteins and words by trainers of their fields.

Contrast to a queue, differential equations, spikes, segmentation, splats, an
Evoformer and word vectors. Each has three designs that look odd and are sound.
"""

import json
import math
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

import culprit_recorder
from kinds.base import kind
from kinds.data import batches, pictures


def watched(run, model, optimizer, **options):
    """What a user puts beside the loop; short runs are sampled in full."""
    return culprit_recorder.watch(model, optimizer, dir=str(run.folder),
                                  free_seconds=60.0, **options)


def keep(run, name, value):
    """A file of torch.save."""
    path = run.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)


def clean(rows, size=12):
    """Pictures with less noise, and their classes."""
    x, labels, masks = pictures(rows, size)
    return 0.7 * masks + 0.3 * x, labels


def stripes(rows, size=12):
    """Waves in four directions and their class."""
    labels, at = torch.randint(4, (rows,)), torch.arange(size).float()
    turn = labels * math.pi / 4 + 0.1 * torch.randn(rows)
    along = turn.cos()[:, None, None] * at[:, None] \
        + turn.sin()[:, None, None] * at
    phase = 6.28 * torch.rand(rows, 1, 1)
    x = (1.3 * along + phase).sin() + 0.4 * torch.randn(rows, size, size)
    return (0.5 + 0.2 * x[:, None]).clamp(0, 1), labels


def conv(inner, outer, size=3, stride=1, bias=False):
    return nn.Conv2d(inner, outer, size, stride, size // 2, bias=bias)


class BasicBlock(nn.Module):
    """As in torchvision."""

    def __init__(self, inner, outer, stride=1):
        super().__init__()
        self.conv1, self.bn1 = conv(inner, outer, 3, stride), \
            nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv(outer, outer), nn.BatchNorm2d(outer)
        self.downsample = None if stride == 1 and inner == outer else \
            nn.Sequential(conv(inner, outer, 1, stride),
                          nn.BatchNorm2d(outer))

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(out + (x if self.downsample is None
                                else self.downsample(x)))


def kaiming(model):
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode="fan_out",
                                    nonlinearity="relu")
    return model


# -- Contrast to a queue -------------------------------------------------------

class ResNet(nn.Module):
    def __init__(self, num_classes, width=8):
        super().__init__()
        self.conv1, self.bn1 = conv(3, width), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(BasicBlock(width, width))
        self.layer2 = nn.Sequential(BasicBlock(width, 2 * width, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(2 * width, num_classes)
        kaiming(self)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer2(self.layer1(x))
        return self.fc(self.avgpool(x).flatten(1))


class MoCo(nn.Module):
    """An encoder, its momentum copy and a queue of keys; two devices."""

    def __init__(self, dim, K, m, T):
        super().__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q, self.encoder_k = ResNet(dim), ResNet(dim)
        for q, k in self.pairs():
            k.data.copy_(q.data)
            k.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    def pairs(self):
        return zip(self.encoder_q.parameters(), self.encoder_k.parameters())

    def forward(self, im_q, im_k, unshuffle=True):
        q = F.normalize(torch.cat([self.encoder_q(x)
                                   for x in im_q.chunk(2)]), dim=1)
        with torch.no_grad():
            for p, k in self.pairs():
                k.mul_(self.m).add_(p.data * (1 - self.m))
            order = torch.randperm(len(im_k))
            k = torch.cat([self.encoder_k(x) for x in im_k[order].chunk(2)])
            k = F.normalize(k, dim=1)
            if unshuffle:
                k = k[order.argsort()]
        logits = torch.cat([(q * k).sum(1, keepdim=True),
                            q @ self.queue.clone()], 1) / self.T
        at = int(self.queue_ptr)
        self.queue[:, at:at + len(k)] = k.T
        self.queue_ptr[0] = (at + len(k)) % self.K
        return logits, torch.zeros(len(q), dtype=torch.long)


class Meter:
    """The AverageMeter of PyTorch's ImageNet example."""

    def __init__(self, name, form):
        self.name, self.form, self.sum, self.count = name, form, 0.0, 0

    def update(self, value, n=1):
        self.value, self.sum = value, self.sum + value * n
        self.count += n

    @property
    def mean(self):
        return self.sum / self.count

    def __str__(self):
        return f"{self.name} {self.value:{self.form}} ({self.mean:{self.form}})"


def seen(x):
    """Another view: cropped, mirrored, brighter or darker, with noise."""
    dy, dx = torch.randint(-1, 2, (2,)).tolist()
    x = x.roll((dy, dx), (2, 3))
    x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(3), x)
    bright = 0.8 + 0.4 * torch.rand(len(x), 1, 1, 1)
    return bright * x + 0.05 * torch.randn_like(x)


def many_pictures(rows, size=12):
    """Bars and blocks on grounds that differ, in colour."""
    grey, labels = clean(rows, size)
    ground = F.interpolate(torch.randn(rows, 3, 3, 3), size, mode="bilinear")
    tint = 2 + torch.randn(rows, 3, 1, 1)
    return grey * tint + 0.3 * ground, labels


def found_again(model, x):
    """Share of pictures whose other view is nearest to them."""
    a, b = (F.normalize(model(seen(x)), dim=1) for _ in range(2))
    return float(((a @ b.T).argmax(1) == torch.arange(len(x))).float().mean())


@kind(mcos="", stopconv1="", resumed="",
      unshuffle="label-pairing-mismatch label-noise",
      softmax="double-softmax", zero="gradients-not-zeroed",
      frozen="frozen-parameters")
def moco(run):
    """MoCo by main_moco.py: the loss rises as real keys fill the queue."""
    x, held = many_pictures(640)[0].split(512)
    cos, epochs = run.has("mcos"), 12
    heat, dim, size = 0.1, 32, 256
    model = MoCo(dim, size, 0.99, heat)
    if run.has("stopconv1"):  # a random stem, as MoCo v3 keeps it
        model.encoder_q.conv1.weight.requires_grad = False
    if run.has("frozen"):
        for name, p in model.encoder_q.named_parameters():
            p.requires_grad = name == "fc.bias"
    lr = 0.06
    optimizer = torch.optim.SGD([p for p in model.parameters()
                                 if p.requires_grad], lr, momentum=0.9,
                                weight_decay=1e-4)
    options = f"-a resnet18 --lr {lr} --batch-size 32 --epochs {epochs} -p 4" \
        f" --moco-dim {dim} --moco-k {size} --moco-m 0.99 --moco-t {heat}" \
        " --schedule 8 10"
    options += " --moco-m-cos" if cos else ""
    options += " --stop-grad-conv1" if run.has("stopconv1") else ""
    tail = "--dist-url tcp://localhost:10001 --multiprocessing-distributed " \
        "--world-size 1 --rank 0 data/shapes"
    run.say(f"python main_moco.py {options} \\", f"  {tail}", file="run.sh")
    file = "moco.log"
    rec = watched(run, model, optimizer)

    def begin():
        run.say("Use GPU: 0 for training", "=> creating model 'resnet18'",
                *repr(model).splitlines(), file=file)

    begin()
    for epoch in range(epochs):
        if run.has("resumed") and epoch == 6:
            rec.close()
            file, at = "moco_resume.log", "checkpoint_0005.pth.tar"
            run.say(f"python main_moco.py {options} --resume {at} \\",
                    f"  {tail}", file="run.sh")
            begin()
            run.say(f"=> loading checkpoint '{at}'",
                    f"=> loaded checkpoint '{at}' (epoch 6)", file=file)
            rec = watched(run, model, optimizer, first_step=96)
        rate = lr * 0.1 ** ((epoch >= 8) + (epoch >= 10))
        optimizer.param_groups[0]["lr"] = rate
        meters = [Meter("Time", "6.3f"), Meter("Data", "6.3f"),
                  Meter("Loss", ".4e"), Meter("Acc@1", "6.2f"),
                  Meter("Acc@5", "6.2f")]
        for i, rows in enumerate(batches(512, 32)):
            if cos:  # the copy stands still in the end
                done = (epoch + i / 16) / epochs
                model.m = 1 - 0.5 * (1 + math.cos(math.pi * done)) * 0.01
            im_q, im_k = seen(x[rows]), seen(x[rows])
            rec.batch(im_q=im_q, im_k=im_k)
            output, target = model(im_q, im_k, not run.has("unshuffle"))
            scores = output.softmax(1) if run.has("softmax") else output
            loss = F.cross_entropy(scores, target)
            top = output.topk(5, 1).indices == 0
            for meter, value in zip(meters, (
                    0.051 if i else 1.8, 0.002 if i else 1.5, float(loss.detach()),
                    100 * float(top[:, 0].float().mean()),
                    100 * float(top.any(1).float().mean()))):
                meter.update(value, 32)
            if not run.has("zero"):
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
            if i % 4 == 0:
                run.say(f"Epoch: [{epoch}][{i:2d}/16]\t"
                        + "\t".join(map(str, meters)), file=file)
        if epoch in (0, 5, epochs - 1):
            keep(run, f"checkpoint_{epoch:04d}.pth.tar", {
                "epoch": epoch + 1, "arch": "resnet18",
                "state_dict": OrderedDict(
                    (f"module.{k}", v) for k, v in model.state_dict().items()),
                "optimizer": optimizer.state_dict()})
    rec.close()
    with torch.no_grad():
        run.ends(loss=meters[2].mean, acc1=meters[3].mean,
                 found=found_again(model.encoder_q.eval(), held))


# -- Differential equations ----------------------------------------------------

DOPRI = ((1 / 5,), (3 / 40, 9 / 40), (44 / 45, -56 / 15, 32 / 9),
         (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
         (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
         (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84))
TIMES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1)
ERROR = (35 / 384 - 5179 / 57600, 0, 500 / 1113 - 7571 / 16695,
         125 / 192 - 393 / 640, -2187 / 6784 + 92097 / 339200,
         11 / 84 - 187 / 2100, -1 / 40)


def odeint(f, y, begin, end, tol):
    """Dormand and Prince with steps of its own."""
    t, step, first = begin, (end - begin) / 2, f(begin, y)
    while abs(end - t) > 1e-6:
        step = step if abs(step) < abs(end - t) else end - t
        ks = [first]
        for at, row in zip(TIMES, DOPRI):
            new = y + step * sum(a * k for a, k in zip(row, ks) if a)
            ks.append(f(t + at * step, new))
        with torch.no_grad():
            off = step * sum(e * k for e, k in zip(ERROR, ks) if e)
            limit = tol + tol * torch.maximum(y.abs(), new.abs())
            ratio = float((off / limit).pow(2).mean().sqrt())
        if ratio <= 1 or abs(step) < 0.02 or not math.isfinite(ratio):
            t, y, first = t + step, new, ks[-1]
        step *= min(10.0, max(0.2, 0.9 * max(ratio, 1e-9) ** -0.2)) \
            if math.isfinite(ratio) else 1.0
    return y


class Adjoint(torch.autograd.Function):
    """The gradient by a second equation, backwards in time."""

    @staticmethod
    def forward(ctx, func, end, tol, y, *weights):
        ctx.func, ctx.end, ctx.tol, ctx.weights = func, end, tol, weights
        out = odeint(func, y, 0.0, end, tol)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (y,), n = ctx.saved_tensors, grad.numel()
        size = sum(w.numel() for w in ctx.weights)

        def both(t, state):
            with torch.enable_grad():
                z = state[:n].view_as(y).detach().requires_grad_()
                out = ctx.func(t, z)
                grads = torch.autograd.grad(out, (z, *ctx.weights),
                                            -state[n:2 * n].view_as(y),
                                            allow_unused=True)
            return torch.cat([out.detach().flatten(), *(
                g.flatten() for g in grads)])

        state = torch.cat([y.flatten(), grad.flatten(), torch.zeros(size)])
        state = odeint(both, state, ctx.end, 0.0, ctx.tol)
        parts = state[2 * n:].split([w.numel() for w in ctx.weights])
        return (None, None, None, state[n:2 * n].view_as(y),
                *(p.view_as(w) for p, w in zip(parts, ctx.weights)))


class ConcatConv2d(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self._layer = nn.Conv2d(dim + 1, dim, 3, padding=1)

    def forward(self, t, x):
        return self._layer(torch.cat([torch.full_like(x[:, :1], t), x], 1))


def group_norm(dim):
    return nn.GroupNorm(min(4, dim), dim)


class ODEfunc(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.relu = group_norm(dim), nn.ReLU(inplace=True)
        self.conv1, self.norm2 = ConcatConv2d(dim), group_norm(dim)
        self.conv2, self.norm3 = ConcatConv2d(dim), group_norm(dim)
        self.nfe = 0

    def forward(self, t, x):
        self.nfe += 1
        out = self.conv1(t, self.relu(self.norm1(x)))
        return self.norm3(self.conv2(t, self.relu(self.norm2(out))))


class ODEBlock(nn.Module):
    def __init__(self, odefunc, end=1.0, tol=1e-2, adjoint=False):
        super().__init__()
        self.odefunc, self.end, self.tol = odefunc, end, tol
        self.adjoint, self.graph = adjoint, True

    def forward(self, x):
        if self.adjoint:
            return Adjoint.apply(self.odefunc, self.end, self.tol, x,
                                 *self.odefunc.parameters())
        with torch.set_grad_enabled(self.graph and torch.is_grad_enabled()):
            return odeint(self.odefunc, x, 0.0, self.end, self.tol)


class ResBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1, self.relu = group_norm(dim), nn.ReLU(inplace=True)
        self.conv1, self.norm2 = conv(dim, dim), group_norm(dim)
        self.conv2 = conv(dim, dim)

    def forward(self, x):
        out = self.conv1(self.relu(self.norm1(x)))
        return x + self.conv2(self.relu(self.norm2(out)))


@kind(adjoint="", resnet="", times="",
      labels="label-noise label-pairing-mismatch",
      zero="gradients-not-zeroed", detached="detached-graph frozen-parameters",
      boundaries="lr-zero-from-scheduler lr-too-low")
def neuralode(run):
    """torchdiffeq's odenet_mnist.py: no loss, only accuracies and nfe."""
    x, y = stripes(512, 14)
    said = y.clone()
    if run.has("labels"):
        said[:384] = y[torch.randperm(384)]
    network = "resnet" if run.has("resnet") else "odenet"
    times, epochs, n, dim = [1.0], 11, 12, 8
    if run.has("times"):
        times, epochs = [0.1, 1.0], 9
    file = "experiment1/logs"
    (run.folder / "experiment1").mkdir()
    args = dict(network=network, tol=1e-2, adjoint=run.has("adjoint"),
                downsampling_method="conv", nepochs=epochs, data_aug=False,
                lr=0.02, batch_size=32, test_batch_size=128,
                save="./experiment1", debug=False, gpu=0)
    from argparse import Namespace
    run.say("examples/odenet_shapes.py", repr(Namespace(**args)), file=file)
    for end in times:
        blocks = [ResBlock(dim) for _ in range(6)] if run.has("resnet") else \
            [ODEBlock(ODEfunc(dim), end, adjoint=run.has("adjoint"))]
        model = nn.Sequential(
            nn.Conv2d(1, dim, 3, 1), group_norm(dim), nn.ReLU(inplace=True),
            nn.Conv2d(dim, dim, 4, 2, 1), group_norm(dim),
            nn.ReLU(inplace=True), nn.Conv2d(dim, dim, 4, 2, 1), *blocks,
            group_norm(dim), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(dim, 4))
        ode = None if run.has("resnet") else blocks[0]
        if ode and run.has("detached"):
            ode.graph = False
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        run.say(*repr(model).splitlines(), f"Number of parameters: {count}",
                file=file)
        if run.has("times"):
            run.say(f"Integration time: {end}", file=file)
        edges = [0.5 * epochs, 0.75 * epochs, 0.9 * epochs]
        if not run.has("boundaries"):
            edges = [n * e for e in edges]
        optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
        rec = watched(run, model, optimizer) if end == times[-1] else None
        forward = backward = took = best = 0.0
        train = torch.arange(384)
        for step in range(epochs * n):
            rate = 0.02 * 0.1 ** sum(step >= int(e) for e in edges)
            optimizer.param_groups[0]["lr"] = rate
            if step % n == 0:
                order = train[torch.randperm(384)]
            rows = order[step % n * 32:][:32]
            if not run.has("zero"):
                optimizer.zero_grad()
            if ode:
                ode.odefunc.nfe = 0
            if rec:
                rec.batch(input=x[rows], labels=said[rows])
            loss = F.cross_entropy(model(x[rows]), said[rows])
            there = ode.odefunc.nfe if ode else 0
            loss.backward()
            back = ode.odefunc.nfe - there if ode else 0
            optimizer.step()
            if rec:
                rec.step(loss)
            mix = 0.01 if step else 1.0
            forward += mix * (there - forward)
            backward += mix * (back - backward)
            took += mix * ((0.061 if step else 0.31) - took)
            if step % n == 0:
                with torch.no_grad():
                    right = (model(x).argmax(1) == said).float()
                acc, val = float(right[:384].mean()), float(right[384:].mean())
                run.say(f"Epoch {step // n:04d} | Time 0.061 ({took:.3f}) | "
                        f"NFE-F {forward:.1f} | NFE-B {backward:.1f} | "
                        f"Train Acc {acc:.4f} | Test Acc {val:.4f}", file=file)
                state = {"state_dict": model.state_dict(), "args": args}
                if val > best:
                    best = val
                    keep(run, "experiment1/model.pth", state)
                if end == times[-1] and step // n in (0, epochs // 2,
                                                      epochs - 1):
                    keep(run, f"experiment1/model_{step // n:04d}.pth", state)
        if rec:
            rec.close()
    run.ends(loss=loss.detach(), train=acc, test=val, nfe=forward)


# -- Spikes --------------------------------------------------------------------

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


# -- Segmentation --------------------------------------------------------------

class ConvModule(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv, self.bn = conv(inner, outer), nn.BatchNorm2d(outer)
        self.activate = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.activate(self.bn(self.conv(x)))


class ResNetV1c(nn.Module):
    """Three convolutions in front; what is frozen stays in eval mode."""

    def __init__(self, width=8, frozen_stages=-1, norm_eval=False):
        super().__init__()
        layers = []
        for inner in (3, width, width):
            layers += [conv(inner, width), nn.BatchNorm2d(width),
                       nn.ReLU(inplace=True)]
        self.stem = nn.Sequential(*layers)
        self.layer1 = nn.Sequential(BasicBlock(width, width, 2))
        self.layer2 = nn.Sequential(BasicBlock(width, 2 * width))
        self.layer3 = nn.Sequential(BasicBlock(2 * width, 2 * width))
        self.frozen_stages, self.norm_eval = frozen_stages, norm_eval
        kaiming(self)

    def train(self, mode=True):
        super().train(mode)
        if self.frozen_stages >= 0:
            for part in (self.stem, self.layer1)[:self.frozen_stages + 1]:
                part.eval().requires_grad_(False)
        if self.norm_eval:
            for m in self.modules():
                if isinstance(m, nn.BatchNorm2d):
                    m.eval()
        return self

    def forward(self, x):
        second = self.layer2(self.layer1(self.stem(x)))
        return second, self.layer3(second)


class FCNHead(nn.Module):
    def __init__(self, inner, channels, num_classes, num_convs):
        super().__init__()
        self.conv_seg = nn.Conv2d(channels, num_classes, 1)
        nn.init.normal_(self.conv_seg.weight, std=0.01)
        nn.init.zeros_(self.conv_seg.bias)
        self.dropout = nn.Dropout2d(0.1)
        self.convs = nn.Sequential(*[ConvModule(i, channels) for i in (
            inner, channels)[:num_convs]])

    def forward(self, x):
        return self.conv_seg(self.dropout(self.convs(x)))


class EncoderDecoder(nn.Module):
    def __init__(self, num_classes, **options):
        super().__init__()
        self.backbone = ResNetV1c(**options)
        self.decode_head = FCNHead(16, 16, num_classes, 2)
        self.auxiliary_head = FCNHead(16, 8, num_classes, 1)

    def forward(self, x, size=24):
        aux, deep = self.backbone(x)
        return [F.interpolate(out, size, mode="bilinear") for out in (
            self.decode_head(deep), self.auxiliary_head(aux))]


CONFIG = """crop_size = (24, 24)
data_preprocessor = dict(
    bgr_to_rgb=True,
    mean=[123.675, 116.28, 103.53],
    pad_val=0,
    seg_pad_val=255,
    size=(24, 24),
    std=[58.395, 57.12, 57.375],
    type='SegDataPreProcessor')
dataset_type = 'ShapesDataset'
default_hooks = dict(
    checkpoint=dict(by_epoch=False, interval=100, type='CheckpointHook'),
    logger=dict(interval=10, log_metric_by_epoch=False, type='LoggerHook'),
    param_scheduler=dict(type='ParamSchedulerHook'))
load_from = {load}
log_processor = dict(by_epoch=False)
model = dict(
    auxiliary_head=dict(
        align_corners=False,
        channels=8,
        in_index=2,
        loss_decode=dict(
            loss_weight=0.4, type='CrossEntropyLoss', use_sigmoid=False),
        norm_cfg=dict(requires_grad=True, type='SyncBN'),
        num_classes={classes},
        num_convs=1,
        type='FCNHead'),
    backbone=dict(
        depth=18,
        frozen_stages={frozen},
        norm_eval={norm_eval},
        type='ResNetV1c'),
    decode_head=dict(
        channels=16,
        dropout_ratio=0.1,
        ignore_index=255,
        loss_decode=dict(
            loss_weight=1.0, type='CrossEntropyLoss', use_sigmoid=False),
        num_classes={classes},{sampler}
        type='FCNHead'),
    type='EncoderDecoder')
optim_wrapper = dict(
    clip_grad=None,
    optimizer=dict(lr=0.05, momentum=0.9, type='SGD', weight_decay=0.0005),
    type='OptimWrapper')
param_scheduler = [
    dict(
        begin=0,
        by_epoch=False,
        end=200,
        eta_min=0.0001,
        power=0.9,
        type='PolyLR'),
]
reduce_zero_label = {reduce}
train_cfg = dict(max_iters=200, type='IterBasedTrainLoop', val_interval=50)
train_dataloader = dict(
    batch_size=8,
    sampler=dict(shuffle=True, type='InfiniteSampler'))
work_dir = './work_dirs/fcn_r18'
"""


def scenes(rows):
    """Pictures of regions in colours of their class; 255 at an edge."""
    at = torch.stack(torch.meshgrid(torch.arange(12), torch.arange(12),
                                    indexing="ij"), -1).view(-1, 2).float()
    near = torch.cdist(at, 12 * torch.rand(rows, 5, 2)).argmin(2)
    said = torch.randint(5, (rows, 5)).gather(1, near).view(rows, 12, 12)
    x = torch.randn(5, 3)[said].permute(0, 3, 1, 2)
    x = F.interpolate(x, 24) + 0.7 * torch.randn(rows, 3, 24, 24)
    said = said.repeat_interleave(2, 1).repeat_interleave(2, 2)
    said[:, 0] = 255
    return (x - x.mean()) / x.std(), said


@kind(frozen="", ohem="", reduced="", ignored="loss-mask-all-ignored",
      flip="label-pairing-mismatch label-noise",
      poly="lr-zero-from-scheduler", softmax="double-softmax")
def mmseg(run):
    """Segmentation by MMSegmentation: mmengine's lines, scalars.json."""
    x, y = scenes(384)
    names = ["ground", "grass", "water", "road", "roof"]
    if run.has("reduced"):  # the ground is no class, most pixels are 255
        y, names = torch.where(y == 0, 255, y - (y < 255).long()), names[1:]
    frozen = run.has("frozen")
    model = EncoderDecoder(len(names), frozen_stages=1 if frozen else -1,
                           norm_eval=frozen)
    if frozen:
        taught = EncoderDecoder(len(names))
        teacher = torch.optim.SGD(taught.parameters(), 0.05, momentum=0.9)
        for _ in range(120):
            rows = torch.randint(320, (8,))
            teacher.zero_grad()
            F.cross_entropy(taught(x[rows])[0], y[rows],
                            ignore_index=255).backward()
            teacher.step()
        model.backbone.load_state_dict(taught.backbone.state_dict())
    model.train()
    optimizer = torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad], 0.05,
        momentum=0.9, weight_decay=5e-4)
    last = 40 if run.has("poly") else 200
    when = run.stamp("%Y%m%d_%H%M%S")
    log, data = f"{when}/{when}.log", f"{when}/vis_data"
    (run.folder / data).mkdir(parents=True)
    weights = "pretrained/resnet18_v1c-b5776b93.pth"
    config = CONFIG.format(
        classes=len(names), frozen=1 if frozen else -1, norm_eval=frozen,
        load="None", reduce=run.has("reduced"), sampler="" if
        not run.has("ohem") else "\n        sampler=dict(min_kept=200, "
        "thresh=0.7, type='OHEMPixelSampler'),")
    for file in ("fcn_r18.py", f"{data}/config.py"):
        (run.folder / file).write_text(config)

    def info(*lines):
        run.say(f"{run.stamp('%Y/%m/%d %H:%M:%S')} - mmengine - INFO - "
                + "\n".join(lines), file=log)

    def scalars(**row):
        for file in ("scalars.json", f"{when}.json"):
            run.record(f"{data}/{file}", **row)

    def ce(out, goal):
        if run.has("softmax"):
            out = out.softmax(1)
        each = F.cross_entropy(out, goal, ignore_index=255, reduction="none")
        if run.has("ohem") and out.requires_grad:
            with torch.no_grad():
                p = out.softmax(1).gather(1, goal.clamp(max=len(names) - 1)[
                    :, None])[:, 0]
                p[goal == 255] = 2
                edge = max(float(p.flatten().sort().values[200]), 0.7)
            return (each * (p < edge)).mean()
        return each.sum() / (goal != 255).sum().clamp(min=1)

    def right(out, goal):
        valid = goal != 255
        return 100 * float((out.argmax(1)[valid] == goal[valid])
                           .float().mean()) if valid.any() else 0.0

    info("Config:", config)
    if frozen:
        info(f"Loads checkpoint by local backend from path: {weights}")
    info("Checkpoints will be saved to work_dirs/fcn_r18.")
    window = []
    for i in range(200):
        done = min(i, last) / last
        rate = (0.05 - 1e-4) * (1 - done) ** 0.9 + 1e-4 \
            if not run.has("poly") else 0.05 * (1 - done) ** 0.9
        optimizer.param_groups[0]["lr"] = rate
        rows = torch.randint(320, (8,))
        inputs, goal = x[rows], y[rows]
        for axis in (2, 3):
            turn = (torch.rand(8) < 0.5)[:, None, None]
            inputs = torch.where(turn[..., None], inputs.flip(axis), inputs)
            if not run.has("flip"):
                goal = torch.where(turn, goal.flip(axis - 1), goal)
        if run.has("ignored"):  # maps of 0 and 255, as they were painted
            goal = torch.where(goal > 0, 255, goal)
        out, aux = model(inputs)
        parts = ce(out, goal), 0.4 * ce(aux, goal)
        loss = sum(parts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        window = (window + [[float(p.detach()) for p in (loss, *parts)]])[-10:]
        run.tick(0.031)
        if i % 10 == 9:
            total, decode, second = (sum(c) / len(c) for c in zip(*window))
            row = {"loss": total, "decode.loss_ce": decode,
                   "decode.acc_seg": right(out, goal),
                   "aux.loss_ce": second, "aux.acc_seg": right(aux, goal)}
            left = int((199 - i) * 0.031)
            info(f"Iter(train) [{i + 1:3d}/200]  base_lr: {rate:.4e} "
                 f"lr: {rate:.4e}  eta: 0:00:{left:02d}  time: 0.0308  "
                 "data_time: 0.0021  "
                 + "  ".join(f"{k}: {v:.4f}" for k, v in row.items()))
            scalars(base_lr=rate, lr=rate, data_time=0.0021, **row,
                    time=0.0308, iter=i + 1, step=i + 1)
        if i in (0, 99, 199):
            keep(run, f"iter_{i + 1}.pth", {
                "meta": {"epoch": 0, "iter": i + 1, "cfg": config,
                         "seed": 0, "experiment_name": f"fcn_r18_{when}",
                         "time": run.stamp("%Y%m%d_%H%M%S"),
                         "mmengine_version": "0.10.4",
                         "dataset_meta": {"classes": names}},
                "state_dict": model.state_dict(),
                "message_hub": {"log_scalars": {}, "runtime_info": {
                    "iter": i, "max_iters": 200}, "resumed_keys": {}},
                "optimizer": optimizer.state_dict(),
                "param_schedulers": [{"last_step": i + 1, "end": 200,
                                      "eta_min": 1e-4, "power": 0.9}]})
            (run.folder / "last_checkpoint").write_text(
                f"work_dirs/fcn_r18/iter_{i + 1}.pth")
        if i % 50 == 49:
            model.eval()
            with torch.no_grad():
                said = model(x[320:])[0].argmax(1)
            model.train()
            valid, goal = y[320:] != 255, y[320:]
            table, ious, accs = [], [], []
            for c, name in enumerate(names):
                both = float(((said == c) & (goal == c) & valid).sum())
                there = float(((goal == c) & valid).sum())
                found = float(((said == c) & valid).sum())
                ious.append(100 * both / max(there + found - both, 1))
                accs.append(100 * both / max(there, 1))
                table.append(f"| {name:^6} | {ious[-1]:5.2f} | "
                             f"{accs[-1]:5.2f} |")
            rule = "+--------+-------+-------+"
            info("per class results:")
            info("", rule, "| Class  |  IoU  |  Acc  |", rule, *table, rule)
            row = {"aAcc": round(100 * float((said == goal)[valid].float()
                                             .mean()), 2),
                   "mIoU": round(sum(ious) / len(ious), 2),
                   "mAcc": round(sum(accs) / len(accs), 2)}
            info("Iter(val) [64/64]    "
                 + "  ".join(f"{k}: {v:.4f}" for k, v in row.items())
                 + "  data_time: 0.0014  time: 0.0082")
            scalars(**row, data_time=0.0014, time=0.0082, step=i + 1)
    run.ends(loss=total, **row)
