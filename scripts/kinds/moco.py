"""Contrast to a queue: MoCo by main_moco.py. Three designs look odd and are sound."""

import math
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.blocks import BasicBlock, conv, kaiming
from kinds.data import batches, pictures
from kinds.outputs import keep, watched


def clean(rows, size=12):
    """Pictures with less noise, and their classes."""
    x, labels, masks = pictures(rows, size)
    return 0.7 * masks + 0.3 * x, labels


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
