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
                    0.051 if i else 1.8, 0.002 if i else 1.5,
                    float(loss.detach()),
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
    x = 3 * x - 1.5
    said = y.clone()
    if run.has("labels"):
        said[:384] = y[torch.randperm(384)]
    network = "resnet" if run.has("resnet") else "odenet"
    times, epochs, n, dim = [1.0], 10, 12, 12
    if run.has("times"):
        times, epochs = [0.1, 1.0], 11
    elif run.has("resnet"):
        dim = 8
    file = "experiment1/logs"
    (run.folder / "experiment1").mkdir()
    args = dict(network=network, tol=1e-2, adjoint=run.has("adjoint"),
                downsampling_method="conv", nepochs=epochs, data_aug=False,
                lr=0.01, batch_size=32, test_batch_size=128,
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
        edges = [0.8 * epochs, 0.9 * epochs, 0.95 * epochs]
        if not run.has("boundaries"):
            edges = [n * e for e in edges]
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        rec = watched(run, model, optimizer) if end == times[-1] else None
        forward = backward = took = best = 0.0
        train = torch.arange(384)
        for step in range(epochs * n):
            rate = 0.01 * 0.1 ** sum(step >= int(e) for e in edges)
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


# -- Splats --------------------------------------------------------------------

def turned(q):
    """Rotations of quaternions."""
    w, x, y, z = F.normalize(q, dim=1).unbind(1)
    return torch.stack([
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ], 1).view(-1, 3, 3)


def camera(angle):
    c, s = math.cos(angle), math.sin(angle)
    return torch.tensor([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])


def render(p, view, background, degree=1, size=16):
    """Colours, depth and places on the screen of one orthographic view."""
    at = p["xyz"] @ view.T
    place = at[:, :2] * size / 4 + size / 2
    if place.requires_grad:
        place.retain_grad()
    axes = view @ turned(p["rotation"]) * p["scaling"].exp()[:, None]
    cov = (axes @ axes.mT)[:, :2, :2] * (size / 4) ** 2 + 0.3 * torch.eye(2)
    grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size),
                                      indexing="xy"), -1).view(-1, 2) + 0.5
    off = grid - place[:, None]
    a, b, d = cov[:, 0, 0], cov[:, 0, 1], cov[:, 1, 1]
    det = (a * d - b * b)[:, None]
    u, v = off.unbind(2)
    power = -0.5 * (d[:, None] * u * u - 2 * b[:, None] * u * v
                    + a[:, None] * v * v) / det
    alpha = (p["opacity"].sigmoid() * power.exp()).clamp(max=0.99)
    colour = 0.5 + 0.2821 * p["f_dc"][:, 0]
    if degree:
        colour = colour + 0.4886 * (p["f_rest"] * view[2][:, None]).sum(1)
    order = at[:, 2].argsort()
    alpha, colour = alpha[order], colour[order].clamp(min=0)
    through = torch.cat([torch.ones_like(alpha[:1]),
                         (1 - alpha).cumprod(0)])
    weight = through[:-1] * alpha
    image = (weight.T @ colour + through[-1][:, None] * background)
    depth = (weight * (at[order, 2] + 3)[:, None]).sum(0)
    return image.T.view(3, size, size), depth, place, through[-1]


def ssim(a, b):
    mean = lambda x: F.avg_pool2d(x, 5, 1, 2)
    ma, mb = mean(a), mean(b)
    va, vb = mean(a * a) - ma ** 2, mean(b * b) - mb ** 2
    both = mean(a * b) - ma * mb
    return ((2 * ma * mb + 1e-4) * (2 * both + 9e-4) / (
        (ma ** 2 + mb ** 2 + 1e-4) * (va + vb + 9e-4))).mean()


RATES = {"xyz": 1.6e-2, "f_dc": 2.5e-2, "f_rest": 2.5e-2 / 20,
         "opacity": 5e-2, "scaling": 2e-2, "rotation": 1e-2}


class Gaussians:
    """Parameters that come and go, with their moments in Adam."""

    def __init__(self, points, colours):
        n = len(points)
        far = torch.cdist(points, points) + 9 * torch.eye(n)
        dist = far.topk(3, largest=False).values.pow(2).mean(1).clamp(1e-7)
        turn = torch.zeros(n, 4)
        turn[:, 0] = 1
        first = {"xyz": points, "f_dc": (colours[:, None] - 0.5) / 0.2821,
                 "f_rest": torch.zeros(n, 3, 3),
                 "opacity": torch.full((n, 1), math.log(0.1 / 0.9)),
                 "scaling": dist.sqrt().log()[:, None].repeat(1, 3),
                 "rotation": turn}
        self.p = {k: nn.Parameter(v.clone()) for k, v in first.items()}
        self.optimizer = torch.optim.Adam(
            [{"params": [v], "lr": RATES[k], "name": k}
             for k, v in self.p.items()], lr=0.0, eps=1e-15)
        self.clear()

    def clear(self):
        n = len(self.p["xyz"])
        self.sum, self.count = torch.zeros(n, 1), torch.zeros(n, 1)

    def change(self, new, stale=False):
        """`new(name, tensor, moment)` makes each tensor; moments follow."""
        for group in self.optimizer.param_groups:
            name, old = group["name"], group["params"][0]
            now = nn.Parameter(new(name, self.p[name].detach(), False))
            self.p[name] = now
            if stale:
                continue
            state = self.optimizer.state.pop(old, None)
            group["params"][0] = now
            if state:
                for k in ("exp_avg", "exp_avg_sq"):
                    state[k] = new(name, state[k], True)
                self.optimizer.state[now] = state

    def densify(self, limit, stale):
        grads = (self.sum / self.count).nan_to_num(0.0)[:, 0]
        big = self.p["scaling"].detach().exp().amax(1) > 0.3
        clone, split = (grads >= limit) & ~big, (grads >= limit) & big
        with torch.no_grad():
            sigma = self.p["scaling"].exp()[split].repeat(2, 1)
            moved = (turned(self.p["rotation"][split].repeat(2, 1))
                     @ (sigma * torch.randn_like(sigma))[:, :, None])[:, :, 0]
        fine = ~(self.p["opacity"].detach().sigmoid() < 0.005)[:, 0] & ~split

        def new(name, x, moment):
            more = x[split].repeat(2, *[1] * (x.dim() - 1))
            if moment:
                return torch.cat([x[fine], 0 * x[clone], 0 * more])
            if name == "xyz":
                more = more + moved
            if name == "scaling":
                more = more - math.log(1.6)
            return torch.cat([x[fine], x[clone], more])

        self.change(new, stale)
        self.clear()

    def relocate(self):
        """Dead ones go to where live ones are, and 5 % come."""
        opacity = self.p["opacity"].detach().sigmoid()[:, 0]
        n = len(opacity)
        rows = torch.arange(n)
        dead = opacity < 0.005
        pick = torch.multinomial(opacity, n, replacement=True)
        rows = torch.cat([torch.where(dead, pick, rows), pick[:n // 20]])
        kept = torch.cat([~dead, torch.zeros(n // 20, dtype=bool)])
        self.change(lambda name, x, moment: x[rows] if not moment else
                    x[rows] * kept.view(-1, *[1] * (x.dim() - 1)))
        self.clear()

    def capture(self, degree):
        return (degree, *(self.p[k] for k in (
            "xyz", "f_dc", "f_rest", "scaling", "rotation", "opacity")),
            torch.zeros(len(self.sum)), self.sum, self.count,
            self.optimizer.state_dict(), 1.0)

    def ply(self, path):
        cols = [self.p["xyz"], torch.zeros_like(self.p["xyz"]),
                *(self.p[k].mT.flatten(1) for k in ("f_dc", "f_rest")),
                *(self.p[k] for k in ("opacity", "scaling", "rotation"))]
        names = ["x", "y", "z", "nx", "ny", "nz"]
        names += [f"f_dc_{i}" for i in range(3)]
        names += [f"f_rest_{i}" for i in range(9)] + ["opacity"]
        names += [f"scale_{i}" for i in range(3)]
        names += [f"rot_{i}" for i in range(4)]
        data = torch.cat([c.detach() for c in cols], 1)
        head = "\n".join(["ply", "format binary_little_endian 1.0",
                          f"element vertex {len(data)}",
                          *(f"property float {n}" for n in names),
                          "end_header", ""])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(head.encode() + data.numpy().tobytes())


@kind(mcmc="", background="", resumed="",
      stale="optimizer-holds-stale-params", depth="log-of-zero",
      cameras="label-pairing-mismatch", millimetres="lr-too-high")
def gsplat(run):
    """Gaussian splats by Inria's train.py: points come, go and are reset."""
    true = Gaussians(1.2 * torch.rand(12, 3) - 0.6, torch.rand(12, 3)).p
    true["opacity"].data[:], true["scaling"].data[:] = 3.0, -1.3
    true["f_rest"].data.normal_(0, 0.3)
    angles = [2 * math.pi * i / 10 for i in range(10)]
    views = [camera(a) for a in angles]
    black = torch.zeros(3)
    with torch.no_grad():
        shots = [render(true, v, black) for v in views]
    train, test = [0, 1, 2, 4, 5, 6, 7, 9], [3, 8]
    seen_from = dict(enumerate(views))
    if run.has("cameras"):
        for i, j in zip(train, train[3:] + train[:3]):
            seen_from[i] = views[j]
    some = torch.randint(12, (40,))
    g = Gaussians(true["xyz"].detach()[some] + 0.15 * torch.randn(40, 3),
                  (0.5 + 0.2821 * true["f_dc"].detach()[some, 0]
                   + 0.1 * torch.randn(40, 3)).clamp(0, 1))
    mcmc, open_sky = run.has("mcmc"), run.has("background")
    (run.folder / "cfg_args").write_text(
        "Namespace(sh_degree=1, source_path='/data/toy', model_path="
        "'./output/toy', images='images', depths='', resolution=-1, "
        "white_background=False, train_test_exp=False, "
        "data_device='cuda', eval=True)")
    run.write("cameras.json", [
        {"id": i, "img_name": f"{i:04d}", "width": 16, "height": 16,
         "position": (-3 * v[2]).tolist(), "rotation": v.tolist(),
         "fx": 4.0, "fy": 4.0} for i, v in enumerate(views)])
    flags = " --cap_max 200 --noise_lr 5e2 --opacity_reg 0.01 --scale_reg " \
        "0.01" if mcmc else " --opacity_reset_interval 60 " \
        "--densify_from_iter 20 --densify_until_iter 120"
    flags += " --random_background" if open_sky else ""
    call = "python train.py -s /data/toy -m ./output/toy --eval " \
        f"--iterations 200 --position_lr_init {RATES['xyz']}" \
        f" --densification_interval 20{flags}"
    run.say(call, file="run.sh")
    file, ema, degree, stack = "train.log", 0.0, 0, []

    def psnr(a, b):
        return float(-10 * torch.log10((a - b).pow(2).mean()))

    def begin():
        run.say("Optimizing ./output/toy", "Output folder: ./output/toy",
                "Tensorboard not available: not logging progress "
                f"[{run.stamp('%d/%m %H:%M:%S')}]",
                "Loading Training Cameras", "Loading Test Cameras",
                f"Number of points at initialisation :  40", file=file)

    begin()
    scale = 1000.0 if run.has("millimetres") else 1.0
    for it in range(1, 201):
        if run.has("resumed") and it == 101:
            file, ema = "train_resumed.log", 0.0
            run.say(f"{call} --start_checkpoint ./output/toy/chkpnt100.pth",
                    file="run.sh")
            begin()
        rate = scale * math.exp(math.log(RATES["xyz"]) * (1 - it / 200)
                                + math.log(RATES["xyz"] / 100) * it / 200)
        g.optimizer.param_groups[0]["lr"] = rate
        if it == 100:
            degree = 1
        stack = stack or list(train)
        i = stack.pop(int(torch.randint(len(stack), ())))
        sky = torch.rand(3) if open_sky else black
        image, depth, place, _ = render(g.p, seen_from[i], sky, degree)
        shot = shots[i][0] + shots[i][3].view(1, 16, 16) * sky[:, None, None]
        l1 = (image - shot).abs().mean()
        loss = 0.8 * l1 + 0.2 * (1 - ssim(image, shot))
        if mcmc:
            loss = loss + 0.01 * g.p["opacity"].sigmoid().mean() \
                + 0.01 * g.p["scaling"].exp().mean()
        far = 0.0
        if run.has("depth") and it > 80:
            shown = depth * (depth > 0.3)  # what is seen, elsewhere 0
            far = 0.1 * (shown.log() - shots[i][1].log()).abs().mean()
            loss = loss + far
            far = float(far.detach())
        loss.backward()
        run.tick(0.009)
        with torch.no_grad():
            ema = 0.4 * float(loss.detach()) + 0.6 * ema
            if it % 10 == 0:
                bar = "█" * (it // 20) + " " * (10 - it // 20)
                run.say(f"\rTraining progress: {it // 2:3d}%|{bar}| {it}/200 "
                        f"[00:{it // 100:02d}<00:{(200 - it) // 100:02d}, "
                        f"108.31it/s, Loss={ema:.7f}, Depth Loss={far:.7f}]",
                        file=file)
            if it in (1, 100, 200):
                for name, ids in (("test", test), ("train", train[1:6])):
                    outs = [(render(g.p, seen_from[j], black, degree)[0]
                             .clamp(0, 1), shots[j][0]) for j in ids]
                    l1s = sum(float((a - b).abs().mean()) for a, b in outs)
                    score = sum(psnr(a, b) for a, b in outs) / len(ids)
                    run.say("", f"[ITER {it}] Evaluating {name}: L1 "
                            f"{l1s / len(ids)} PSNR {score}", file=file)
                    if name == "test":
                        end = dict(l1=l1s / len(ids), psnr=score)
                run.say("", f"[ITER {it}] Saving Gaussians", file=file)
                g.ply(run.folder / f"point_cloud/iteration_{it}"
                      / "point_cloud.ply")
            if mcmc and it % 20 == 0 and it < 180:
                if it == 20:
                    g.optimizer.step()
                g.relocate()
            elif not mcmc and it < 120:
                norm = place.grad.norm(dim=1, keepdim=True)
                g.sum, g.count = g.sum + norm, g.count + 1
                if it > 20 and it % 20 == 0:
                    g.densify(3e-4, run.has("stale"))
                if it % 60 == 0:
                    low = math.log(0.01 / 0.99)
                    g.change(lambda name, x, moment: x if name != "opacity"
                             else 0 * x if moment else x.clamp(max=low),
                             run.has("stale"))
        if it < 200:
            g.optimizer.step()
            g.optimizer.zero_grad(set_to_none=True)
        if mcmc:
            with torch.no_grad():
                o = g.p["opacity"].sigmoid()
                g.p["xyz"] += rate * (-100 * (o - 0.005)).sigmoid() \
                    * torch.randn_like(g.p["xyz"])
        if it in (1, 100, 200):
            run.say("", f"[ITER {it}] Saving Checkpoint", file=file)
            keep(run, f"chkpnt{it}.pth", (g.capture(degree), it))
    run.say("", "Training complete.", file=file)
    run.ends(loss=ema, **end, points=len(g.p["xyz"]))


# -- Words ---------------------------------------------------------------------

WORDS, BUCKET, TOPICS = 1500, 4000, 10


class SkipGramModel(nn.Module):
    """Words and their n-grams in one table; the contexts start at 0."""

    def __init__(self, words, dim):
        super().__init__()
        self.u_embeddings = nn.EmbeddingBag(WORDS + BUCKET, dim, mode="mean",
                                            sparse=True)
        self.v_embeddings = nn.Embedding(words, dim, sparse=True)
        nn.init.uniform_(self.u_embeddings.weight, -1 / dim, 1 / dim)
        nn.init.zeros_(self.v_embeddings.weight)

    @staticmethod
    def bag(words):
        return torch.stack([words] + [
            WORDS + words * prime % 7919 % BUCKET for prime in (31, 97)], 1)

    def forward(self, u, v, negative, sign=-1):
        u = self.u_embeddings(self.bag(u))
        score = (u * self.v_embeddings(v)).sum(1).clamp(-10, 10)
        false = torch.einsum("nd,nkd->nk", u, self.v_embeddings(negative))
        false = F.logsigmoid(sign * false.clamp(-10, 10))
        return -(F.logsigmoid(score) + false.sum(1)).mean()


@kind(cumulative="", restarts="", grown="",
      negatives="loss-sign-flipped representation-collapse",
      progress="lr-zero-from-scheduler", zeros="bad-initialization",
      pairs="label-pairing-mismatch label-noise")
def embed(run):
    """Word vectors as fastText trains them, by PyTorch's sparse Adam."""
    dim, epochs, n, lr, rows = 16, 5, 40, 0.02, 384
    often = 1 / (torch.arange(WORDS) + 5.0)

    def topic_pairs(words):
        """Two words of one topic, mostly; which a topic has is id % 10."""
        u = torch.multinomial(often[:words], rows, replacement=True)
        v = torch.multinomial(often[:words // TOPICS * TOPICS].view(-1, TOPICS)
                              .sum(1), rows, replacement=True) * TOPICS
        v = v + torch.where(torch.rand(rows) < 0.9, u % TOPICS,
                            torch.randint(TOPICS, (rows,)))
        return u, v

    words = 1000 if run.has("grown") else WORDS
    model = SkipGramModel(words, dim)
    if run.has("zeros"):
        nn.init.zeros_(model.u_embeddings.weight)
    build = lambda: torch.optim.SparseAdam(list(model.parameters()), lr)
    optimizer, file = build(), "train.log"
    call = f"python skipgram.py -input data/wiki.txt -output wiki -dim {dim} " \
        f"-lr {lr} -epoch {epochs} -neg 5 -bucket {BUCKET} -minn 3 -maxn 6 " \
        f"-thread 1 -b {rows}"
    run.say(call, file="run.sh")
    gensim, cosine = run.has("cumulative"), run.has("restarts")

    def head():
        run.say("Read 0M words", f"Number of words:  {words}",
                "Number of labels: 0", file=file)

    if not gensim:
        head()
    mean, count, total, tokens = 0.0, 0, 0.0, 0
    last = epochs * n
    for step in range(last):
        epoch, i = divmod(step, n)
        at = 1 - step / last
        if run.has("grown"):
            at = 1 - step % 100 / 100
            if step == 100:
                keep(run, "wiki.pt", {
                    "epoch": 2, "state_dict": model.state_dict(),
                    "optimizer": optimizer.state_dict(), "loss": mean / count})
                old, words = model, WORDS
                model = SkipGramModel(words, dim)
                model.u_embeddings.load_state_dict(
                    old.u_embeddings.state_dict())
                model.v_embeddings.weight.data[:1000] = \
                    old.v_embeddings.weight.data
                optimizer, file = build(), "train.update.log"
                run.say(f"{call.replace('wiki.txt', 'news.txt')} -update "
                        "wiki.pt", file="run.sh")
                head()
                mean = count = 0
        if run.has("progress"):  # of the epoch's words, not of all
            at = max(0.0, 1 - step / n)
        if cosine:
            if i == 0:
                optimizer = build()
                run.say("", "", "", f"Iteration: {epoch + 1}", file=file)
            at = 0.5 * (1 + math.cos(math.pi * i / n))
        optimizer.param_groups[0]["lr"] = lr * at
        u, v = topic_pairs(words)
        if run.has("pairs"):
            v = v[torch.randperm(rows)]
        negative = torch.multinomial(often[:words] ** 0.75, rows * 5,
                                     replacement=True).view(rows, 5)
        optimizer.zero_grad()
        loss = model(u, v, negative, 1 if run.has("negatives") else -1)
        loss.backward()
        optimizer.step()
        value = float(loss.detach())
        mean, count, tokens = mean + value, count + 1, tokens + rows // 5
        total += value * rows
        run.tick(0.006)
        if cosine and i % 5 == 4:
            run.say(f"\r{i * 100 // n:3d}%|{'#' * (i // 4):10}| {i}/{n} "
                    f"[00:00<00:00, 158.20it/s] Loss: {mean / count}",
                    file=file)
        elif not gensim and step % 4 == 3:
            done = step % 100 if run.has("grown") else step
            part = done / (100 if run.has("grown") else last)
            rest = int(0.6 * (1 - part))
            run.say(f"\rProgress: {100 * part:5.1f}% words/sec/thread: "
                    f"{12800 + step * 3 % 70:7d} lr: {lr * at:9.6f} avg.loss:"
                    f" {mean / count:9.6f} ETA: {0:3d}h{0:2d}m{rest:2d}s",
                    file=file)
        if gensim and i % 20 == 19:
            stamp = run.stamp("%Y-%m-%d %H:%M:%S,218 : INFO : ")
            run.say(f"{stamp}EPOCH {epoch} - PROGRESS: at {(i + 1) * 2.5:.2f}%"
                    f" examples, 12873 words/s, in_qsize 0, out_qsize 0",
                    *([f"{stamp}EPOCH {epoch}: training on {n * rows // 5} raw"
                       f" words ({n * rows // 6} effective words) took 0.2s, "
                       "10651 effective words/s",
                       f"Loss after epoch {epoch}: {total}"] if i == n - 1
                      else ()), file=file)
        if step in (0, last // 2 - 1, last - 1):
            keep(run, f"wiki.{step + 1:06d}.pt", {
                "epoch": epoch, "state_dict": model.state_dict(),
                "optimizer": optimizer.state_dict(), "loss": value})
    with torch.no_grad():
        e = F.normalize(model.u_embeddings(model.bag(torch.arange(300))))
        vectors = model.u_embeddings(model.bag(torch.arange(words)))
    near = (e @ e.T - 9 * torch.eye(300)).argmax(1) % TOPICS
    right = float((near == torch.arange(300) % TOPICS).float().mean())
    run.say(f"{words} {dim}", *(f"word{i} " + " ".join(
        f"{x:.5g}" for x in row) for i, row in enumerate(vectors.tolist())),
        file="wiki.vec")
    run.ends(loss=value, avg=mean / count, topic=right)


# -- An Evoformer --------------------------------------------------------------

class Linear(nn.Linear):
    """OpenFold's: its biases are 0, the last of a block all 0."""

    def __init__(self, inner, outer, init="default", bias=True):
        super().__init__(inner, outer, bias=bias)
        with torch.no_grad():
            if bias:
                self.bias.fill_(1.0 if init == "gating" else 0.0)
            if init in ("final", "gating"):
                self.weight.fill_(0.0)
            elif init == "glorot":
                nn.init.xavier_uniform_(self.weight)
            else:
                std = ((2.0 if init == "relu" else 1.0) / inner) ** 0.5
                nn.init.trunc_normal_(self.weight, std=std / 0.88, a=-2 * std,
                                      b=2 * std)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.linear_q, self.linear_k, self.linear_v = (
            Linear(width, width, "glorot", bias=False) for _ in range(3))
        self.linear_o = Linear(width, width, "final")
        self.linear_g = Linear(width, width, "gating")

    def forward(self, x, bias):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(-2, -3)
                   for f in (self.linear_q, self.linear_k, self.linear_v))
        a = (q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-1)
        out = (a @ v).transpose(-2, -3).flatten(-2)
        return self.linear_o(out * self.linear_g(x).sigmoid())


class RowAttention(nn.Module):
    def __init__(self, c_m, c_z, heads=2):
        super().__init__()
        self.layer_norm_m, self.layer_norm_z = nn.LayerNorm(c_m), \
            nn.LayerNorm(c_z)
        self.linear_z = Linear(c_z, heads, bias=False)
        self.mha = Attention(c_m, heads)

    def forward(self, m, z, mask):
        bias = self.linear_z(self.layer_norm_z(z)).permute(0, 3, 1, 2)
        bias = bias + 1e9 * (mask - 1)[:, None, None]
        return self.mha(self.layer_norm_m(m), bias[:, None] if m.dim() == 4
                        else bias)


class Transition(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer_norm = nn.LayerNorm(width)
        self.linear_1 = Linear(width, 2 * width, "relu")
        self.linear_2 = Linear(2 * width, width, "final")

    def forward(self, x):
        return self.linear_2(self.linear_1(self.layer_norm(x)).relu())


class OuterProductMean(nn.Module):
    def __init__(self, c_m, c_z, width=4):
        super().__init__()
        self.layer_norm = nn.LayerNorm(c_m)
        self.linear_1, self.linear_2 = Linear(c_m, width), Linear(c_m, width)
        self.linear_out = Linear(width ** 2, c_z, "final")

    def forward(self, m):
        m = self.layer_norm(m)
        a, b = self.linear_1(m), self.linear_2(m)
        return self.linear_out(torch.einsum("bsic,bsjd->bijcd", a, b)
                               .flatten(3) / m.shape[1])


class TriangleMultiplicationOutgoing(nn.Module):
    def __init__(self, c_z):
        super().__init__()
        self.layer_norm_in, self.layer_norm_out = nn.LayerNorm(c_z), \
            nn.LayerNorm(c_z)
        self.linear_a_p, self.linear_b_p = Linear(c_z, c_z), Linear(c_z, c_z)
        self.linear_a_g, self.linear_b_g, self.linear_g = (
            Linear(c_z, c_z, "gating") for _ in range(3))
        self.linear_z = Linear(c_z, c_z, "final")

    def forward(self, z, mask):
        z = self.layer_norm_in(z)
        both = (mask[:, :, None] * mask[:, None])[..., None]
        a = both * self.linear_a_g(z).sigmoid() * self.linear_a_p(z)
        b = both * self.linear_b_g(z).sigmoid() * self.linear_b_p(z)
        x = self.layer_norm_out(torch.einsum("bikc,bjkc->bijc", a, b))
        return self.linear_g(z).sigmoid() * self.linear_z(x)


class EvoformerBlock(nn.Module):
    def __init__(self, c_m, c_z):
        super().__init__()
        self.msa_att_row = RowAttention(c_m, c_z)
        self.core = nn.ModuleDict({
            "msa_transition": Transition(c_m),
            "outer_product_mean": OuterProductMean(c_m, c_z),
            "tri_mul_out": TriangleMultiplicationOutgoing(c_z),
            "pair_transition": Transition(c_z)})

    def forward(self, m, z, mask):
        m = m + self.msa_att_row(m, z, mask)
        m = m + self.core["msa_transition"](m)
        z = z + self.core["outer_product_mean"](m)
        z = z + self.core["tri_mul_out"](z, mask)
        return m, z + self.core["pair_transition"](z)


class StructureModule(nn.Module):
    """The same weights twice; it starts with all in one point."""

    def __init__(self, c_s, c_z):
        super().__init__()
        self.layer_norm_s, self.linear_in = nn.LayerNorm(c_s), \
            Linear(c_s, c_s)
        self.ipa, self.layer_norm_ipa = RowAttention(c_s, c_z), \
            nn.LayerNorm(c_s)
        self.transition = Transition(c_s)
        self.bb_update = nn.ModuleDict({"linear": Linear(c_s, 6, "final")})

    def forward(self, s, z, mask):
        s = self.linear_in(self.layer_norm_s(s))
        rot = torch.eye(3).expand(*s.shape[:2], 3, 3)
        at, frames = torch.zeros(*s.shape[:2], 3), []
        for _ in range(2):
            s = self.layer_norm_ipa(s + self.ipa(s, z, mask))
            s = s + self.transition(s)
            new = self.bb_update["linear"](s)
            q = torch.cat([torch.ones_like(new[..., :1]), new[..., :3]], -1)
            at = at + 10 * (rot @ new[..., 3:, None])[..., 0]
            rot = rot @ turned(q.flatten(0, 1)).view_as(rot)
            frames.append((rot, at))
        return s, frames


TYPES, RESIDUES, BINS = 8, 8, 12


class AlphaFold(nn.Module):
    def __init__(self, c_m=24, c_z=12, c_s=24):
        super().__init__()
        self.input_embedder = nn.ModuleDict({
            "linear_tf_z_i": Linear(TYPES, c_z),
            "linear_tf_z_j": Linear(TYPES, c_z),
            "linear_tf_m": Linear(TYPES, c_m),
            "linear_msa_m": Linear(TYPES + 1, c_m),
            "linear_relpos": Linear(15, c_z)})
        self.recycling_embedder = nn.ModuleDict({
            "linear": Linear(BINS, c_z), "layer_norm_m": nn.LayerNorm(c_m),
            "layer_norm_z": nn.LayerNorm(c_z)})
        self.evoformer = nn.ModuleDict({
            "blocks": nn.ModuleList(EvoformerBlock(c_m, c_z)
                                    for _ in range(1)),
            "linear": Linear(c_m, c_s)})
        self.structure_module = StructureModule(c_s, c_z)
        self.aux_heads = nn.ModuleDict({
            "plddt": nn.Sequential(OrderedDict(
                layer_norm=nn.LayerNorm(c_s), linear_1=Linear(c_s, c_s),
                relu=nn.ReLU(), linear_3=Linear(c_s, 10, "final"))),
            "distogram": Linear(c_z, BINS, "final"),
            "masked_msa": Linear(c_m, TYPES, "final")})
        self.whole = True

    def forward(self, aatype, msa, seq_mask, recycles=0):
        m1, z1, x = None, None, None
        for i in range(recycles + 1):
            with torch.set_grad_enabled(torch.is_grad_enabled()
                                        and i == recycles and self.whole):
                m, z = self.iteration(aatype, msa, seq_mask, m1, z1, x)
            if i < recycles:
                with torch.no_grad():
                    x = self.structure_module(self.evoformer["linear"](
                        m[:, 0]), z, seq_mask)[1][-1][1]
                m1, z1 = m[:, 0].detach(), z.detach()
        s, frames = self.structure_module(self.evoformer["linear"](m[:, 0]),
                                          z, seq_mask)
        return {"frames": frames, "plddt": self.aux_heads["plddt"](s),
                "distogram": self.aux_heads["distogram"](z + z.transpose(
                    1, 2)), "masked_msa": self.aux_heads["masked_msa"](m)}

    def iteration(self, aatype, msa, mask, m1, z1, x):
        e, kind_of = self.input_embedder, F.one_hot(aatype, TYPES).float()
        at = torch.arange(aatype.shape[1])
        apart = (at[:, None] - at).clamp(-7, 7) + 7
        z = e["linear_tf_z_i"](kind_of)[:, :, None] \
            + e["linear_tf_z_j"](kind_of)[:, None] \
            + e["linear_relpos"](F.one_hot(apart, 15).float())
        m = e["linear_tf_m"](kind_of)[:, None] \
            + e["linear_msa_m"](F.one_hot(msa, TYPES + 1).float())
        r = self.recycling_embedder
        x = torch.zeros(*aatype.shape, 3) if x is None else x
        z = z + r["linear"](binned(torch.cdist(x, x)))
        m1 = torch.zeros_like(m[:, 0]) if m1 is None else m1
        z = z + r["layer_norm_z"](torch.zeros_like(z) if z1 is None else z1)
        m = torch.cat([(m[:, 0] + r["layer_norm_m"](m1))[:, None], m[:, 1:]],
                      1)
        for block in self.evoformer["blocks"]:
            m, z = block(m, z, mask)
        return m, z


def binned(d):
    return F.one_hot((d / 2.5).long().clamp(0, BINS - 1), BINS).float()


def fape(rot, at, true_rot, x, mask, clamp, eps):
    local = lambda r, t, p: torch.einsum("bikc,bijk->bijc", r,
                                         p[:, None] - t[:, :, None])
    off = local(rot, at, at) - local(true_rot, x, x)
    d = (off.pow(2).sum(-1) + eps).sqrt()
    both = mask[:, :, None] * mask[:, None]
    return ((d.clamp(max=clamp) / 10) * both).sum() / both.sum()


def chains(rows, shortest=RESIDUES):
    """Sequences; where a residue sits is of its type and of the one before."""
    site, shift = 6 * torch.randn(TYPES, 3), 1.5 * torch.randn(TYPES, 3)
    aatype = torch.randint(TYPES, (rows, RESIDUES))
    x = site[aatype] + shift[aatype.roll(1, 1)]
    x = x + 0.2 * torch.randn(rows, RESIDUES, 3)
    size = torch.randint(shortest, RESIDUES + 1, (rows,))
    mask = (torch.arange(RESIDUES) < size[:, None]).float()
    x = x * mask[..., None]
    q = torch.cat([torch.ones(TYPES, 1), 0.5 * torch.randn(TYPES, 3)], 1)
    return aatype * mask.long(), x, mask, turned(q)[aatype]


@kind(padded="", unclamped="", finetuned="",
      chains="label-pairing-mismatch label-noise", lag="ema-weights-lag",
      detached="detached-graph frozen-parameters",
      roots="division-by-near-zero")
def evoformer(run):
    """A small OpenFold: layers that start at 0, recycling, frames, an EMA."""
    aatype, x, mask, true = chains(320, 5 if run.has("padded") else RESIDUES)
    model = AlphaFold()
    model.whole = not run.has("detached")
    optimizer = torch.optim.Adam(model.parameters(), 0.0, eps=1e-5)
    n, epochs, warm, peak = 10, 9, 16, 1e-2
    ema = {k: v.clone() for k, v in model.state_dict().items()}
    decay = 0.9995 if run.has("lag") else 0.95
    late = run.has("finetuned")
    weights = {"distogram": 0.3, "fape": 1.0, "plddt_loss": 0.01,
               "masked_msa": 0.5, "violation": 0.3 if late else 0.0}
    folder = "lightning_logs/version_%d" % late
    (run.folder / folder).mkdir(parents=True)
    lines = ["config:", "  data:", f"    crop_size: {RESIDUES}",
             "    max_recycling_iters: 1", "    uniform_recycling: true",
             "    clamp_prob: %g" % (0.7 if run.has("unclamped") else 1.0),
             "  ema:", "    decay: 0.95", "  loss:"]
    lines += [f"    {k}:\n      weight: {v}" for k, v in weights.items()]
    lines += [f"learning_rate: {peak}", "eps: 1.0e-05",
              f"warmup_no_steps: {warm}", "gradient_clip_val: 1.0"]
    run.say(*lines, file=f"{folder}/hparams.yaml")
    first = 50 if late else 0
    call = "python3 train_openfold.py mmcif_dir/ alignment_dir/ " \
        "template_mmcif_dir/ out/ 2021-10-10 --seed 4242 --precision 32 " \
        f"--max_epochs {epochs} --train_epoch_len 48"
    call += " --resume_from_ckpt out/epoch=4-step=50.ckpt" if late else ""
    run.say(call, file="train.sh")
    run.say("Global seed set to 4242", "GPU available: False, used: False",
            "TPU available: False, using: 0 TPU cores", "",
            "  | Name  | Type          | Params",
            "----------------------------------------",
            f"0 | model | AlphaFold     | "
            f"{sum(p.numel() for p in model.parameters()) / 1e3:.1f} K",
            "1 | loss  | AlphaFoldLoss | 0", file="out.log")
    if late:
        run.say("Restored all states from the checkpoint at "
                "out/epoch=4-step=50.ckpt", file="out.log")
    names = [*weights, "loss", "unscaled_loss"]
    columns = dict.fromkeys(sorted(
        ["epoch", "step", "lr-Adam", "train/lddt_ca", "val/lddt_ca"]
        + [f"{p}/{k}" for p in ("train", "val") for k in names]
        + [f"train/{k}_epoch" for k in names]), "")

    def losses(out, rows, goal, used, clamp=10.0, hidden=None):
        """The loss of each part, what they make, and lddt_ca."""
        there, frames, is_there = x[goal], true[goal], mask[rows]
        both = is_there[:, :, None] * is_there[:, None]
        rot, at = out["frames"][-1]
        far, d = torch.cdist(there, there), (
            at[:, :, None] - at[:, None]).pow(2).sum(-1).add(1e-6).sqrt()
        parts = {}
        goals = (far / 2.5).long().clamp(max=BINS - 1)
        each = F.cross_entropy(out["distogram"].permute(0, 3, 1, 2), goals,
                               reduction="none")
        parts["distogram"] = (each * both).sum() / both.sum()
        eps = 0.0 if run.has("roots") else 1e-4
        parts["fape"] = sum(fape(r, t, frames, there, is_there, clamp, eps)
                            for r, t in out["frames"]) / len(out["frames"])
        off = (d - far).abs().detach()
        close = both * (far < 15) * (1 - torch.eye(RESIDUES))
        score = sum((off < c).float() for c in (0.5, 1, 2, 4)) / 4
        lddt = (score * close).sum(2) / close.sum(2).clamp(min=1)
        each = F.cross_entropy(out["plddt"].mT, (lddt * 10).long().clamp(
            max=9), reduction="none")
        parts["plddt_loss"] = (each * is_there).sum() / is_there.sum()
        if hidden is None:
            hidden = torch.ones_like(out["masked_msa"][..., 0])
        hidden = hidden * is_there[:, None]
        each = F.cross_entropy(out["masked_msa"].permute(0, 3, 1, 2),
                               aatype[rows][:, None].expand(-1, 3, -1),
                               reduction="none")
        parts["masked_msa"] = (each * hidden).sum() / hidden.sum()
        clash = (2.0 - d).relu() * both * (1 - torch.eye(RESIDUES))
        parts["violation"] = clash.sum() / both.sum()
        total = sum(weights[k] * v for k, v in parts.items() if weights[k]
                    and used(k))
        parts["loss"] = total * RESIDUES ** 0.5
        parts["unscaled_loss"] = total.detach()
        return parts, (lddt * is_there).sum() / is_there.sum()

    def alignment(rows, share=0.25):
        msa = aatype[rows][:, None].repeat(1, 3, 1)
        other = torch.rand(msa.shape) < 0.1
        msa = torch.where(other, torch.randint(TYPES, msa.shape), msa)
        hidden = torch.rand(msa.shape) < share
        return torch.where(hidden, TYPES, msa), hidden.float()

    rec = None
    for step in range(epochs * n):
        epoch, i = divmod(step, n)
        if step == first:
            rec = watched(run, model, optimizer, first_step=first)
        if i == 0:
            order, sums = torch.randperm(256), {}
        rows = order[i * 16:][:16]
        goal = rows.roll(1) if run.has("chains") else rows
        rate = peak * min(1.0, (step + 1) / warm)
        rate *= 0.95 ** max(0, (step - 60) // 6)
        optimizer.param_groups[0]["lr"] = rate
        msa, hidden = alignment(rows)
        clamp = 1e6 if run.has("unclamped") and torch.rand(()) < 0.3 else 10.0
        if rec:
            rec.batch(aatype=aatype[rows], msa=msa, seq_mask=mask[rows],
                      all_atom_positions=x[goal])
        out = model(aatype[rows], msa, mask[rows],
                    int(torch.randint(2, ())))
        parts, lddt = losses(out, rows, goal, lambda k: k != "violation"
                             or step >= first, clamp, hidden)
        optimizer.zero_grad()
        parts["loss"].backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            for k, v in model.state_dict().items():
                ema[k].lerp_(v, 1 - decay)
        if step < first:
            continue
        rec.step(parts["loss"])
        for k, v in parts.items():
            sums[k] = sums.get(k, 0.0) + float(v.detach()) / n
        sums["lddt_ca"] = sums.get("lddt_ca", 0.0) + float(lddt) / n
        row = {"epoch": epoch, "step": step}
        if i % 2 == 1:
            run.row(f"{folder}/metrics.csv", **columns | row | {
                "lr-Adam": rate} | {f"train/{k}": float(v.detach())
                                    for k, v in parts.items()})
        if i < n - 1:
            continue
        now = {k: v.clone() for k, v in model.state_dict().items()}
        model.load_state_dict(ema)
        held = torch.arange(256, 320)
        with torch.no_grad():
            out = model(aatype[held], alignment(held, 0.0)[0], mask[held], 1)
            parts, lddt = losses(out, held, held, lambda k: True)
        model.load_state_dict(now)
        val = {f"val/{k}": float(v) for k, v in parts.items()}
        run.row(f"{folder}/metrics.csv", **columns | row | val | {
            "val/lddt_ca": float(lddt)})
        run.row(f"{folder}/metrics.csv", **columns | row | {
            "train/lddt_ca": sums["lddt_ca"]} | {
            f"train/{k}_epoch": sums[k] for k in names})
        run.say(f"Epoch {epoch}: 100%|##########| {n}/{n} [00:00<00:00, "
                f"27.31it/s, v_num={int(late)}, train/loss={sums['loss']:.3f},"
                f" val/loss={val['val/loss']:.3f}]", file="out.log")
        if epoch in (first // n, 6, epochs - 1):
            keep(run, f"{folder}/checkpoints/epoch={epoch}-step={step + 1}"
                 ".ckpt", {
                     "epoch": epoch, "global_step": step + 1,
                     "pytorch-lightning_version": "1.9.5",
                     "state_dict": {f"model.{k}": v for k, v in now.items()},
                     "loops": {"fit_loop": {"epoch_progress": {
                         "total": {"ready": epoch + 1}}}}, "callbacks": {},
                     "optimizer_states": [optimizer.state_dict()],
                     "lr_schedulers": [{"last_epoch": step + 1,
                                        "max_lr": peak}],
                     "ema": {"params": ema, "decay": 0.95}})
    rec.close()
    run.ends(train=sums["loss"], fape=sums["fape"], val=val["val/loss"],
             val_fape=val["val/fape"], lddt=lddt)
