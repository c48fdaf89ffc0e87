"""Quantisation-aware training by torchvision's references, in eager mode.

Three designs look odd and are sound."""

import argparse
import copy
import warnings

import torch
from torch import nn
from torch.ao import quantization as tq
from torch.nn import functional as F

from kinds.base import kind
from kinds.blocks import conv, kaiming
from kinds.data import batches, stripes
from kinds.outputs import keep, watched


class QuantizableBasicBlock(nn.Module):
    def __init__(self, inner, outer, stride=1):
        super().__init__()
        self.conv1, self.bn1 = conv(inner, outer, 3, stride), \
            nn.BatchNorm2d(outer)
        self.relu = nn.ReLU()
        self.conv2, self.bn2 = conv(outer, outer), nn.BatchNorm2d(outer)
        self.downsample = None if stride == 1 and inner == outer else \
            nn.Sequential(conv(inner, outer, 1, stride),
                          nn.BatchNorm2d(outer))
        self.add_relu = nn.quantized.FloatFunctional()

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.add_relu.add_relu(
            out, x if self.downsample is None else self.downsample(x))


class QuantizableResNet(nn.Module):
    def __init__(self, classes=4, width=8):
        super().__init__()
        self.conv1, self.bn1 = conv(1, width), nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.layer1 = nn.Sequential(
            QuantizableBasicBlock(width, 2 * width, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(2 * width, classes)
        self.quant, self.dequant = tq.QuantStub(), tq.DeQuantStub()
        kaiming(self)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(self.quant(x))))
        x = self.avgpool(self.layer1(x)).flatten(1)
        return self.dequant(self.fc(x))

    def fuse_model(self):
        tq.fuse_modules_qat(self, ["conv1", "bn1", "relu"], inplace=True)
        for block in self.layer1:
            tq.fuse_modules_qat(block, [["conv1", "bn1", "relu"],
                                        ["conv2", "bn2"]], inplace=True)
            tq.fuse_modules_qat(block.downsample, ["0", "1"], inplace=True)


class Smoothed:
    """SmoothedValue of torchvision's references."""

    def __init__(self, form="{median:.4f} ({mean:.4f})"):
        self.last, self.sum, self.count, self.form = [], 0.0, 0, form

    def update(self, value, n=1):
        self.last = (self.last + [value])[-20:]
        self.sum, self.count = self.sum + n * value, self.count + n

    @property
    def mean(self):
        return self.sum / self.count

    def __str__(self):
        return self.form.format(
            median=sorted(self.last)[(len(self.last) - 1) // 2],
            mean=self.mean, value=self.last[-1],
            avg=sum(self.last) / len(self.last))


def rows_of(meters):
    return "  ".join(f"{k}: {v}" for k, v in meters.items())


def configured(run):
    """What of the two kinds of numbers is made, and how finely."""
    if run.has("lowbit"):  # 15 values a weight, as in int4
        weight = tq.FakeQuantize.with_args(
            observer=tq.MinMaxObserver, quant_min=-8, quant_max=7,
            dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
        act = tq.FakeQuantize.with_args(
            observer=tq.MovingAverageMinMaxObserver, quant_min=0,
            quant_max=255, reduce_range=False)
        return tq.QConfig(activation=act, weight=weight)
    backend = "fbgemm" if run.has("perchannel") else "qnnpack"
    return tq.get_default_qat_qconfig(backend, version=0)


@kind(perchannel="", lowbit="", late="", rate="lr-too-high",
      flip="label-pairing-mismatch label-noise",
      zero="gradients-not-zeroed",
      stale="optimizer-holds-stale-params frozen-parameters")
def qat(run):
    """Quantisation-aware training by torchvision: observers, then frozen.

    After half of the epochs observers and BatchNorms stand still. Odd and
    sound: `perchannel` has a scale a channel, `lowbit` has weights of 15
    values, `late` does not quantise in its first epochs."""
    warnings.filterwarnings("ignore", module="torch.ao")
    x, y = stripes(640)
    mean, std = x.mean(), x.std()
    x = (x - mean) / std
    x = x + 1.2 * torch.randn_like(x)
    x, held, y, goal = x[:512], x[512:], y[:512], y[512:]
    model, lr, epochs, size = QuantizableResNet(), 0.05, 8, 32
    teacher = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for rows in batches(512, size):  # the weights that a user begins with
        teacher.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        teacher.step()
    if run.has("flip"):  # labels of a shuffled list of files
        y = y[torch.randperm(512)]
    backend = "fbgemm" if run.has("perchannel") else "qnnpack"
    model.fuse_model()
    model.qconfig = configured(run)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tq.prepare_qat(model.train(), inplace=True)
    optimizer = torch.optim.SGD(model.parameters(), run.rate(lr),
                                momentum=0.9, weight_decay=1e-4)
    if run.has("stale"):  # sync-bn: convert_sync_batchnorm makes a new one
        model = copy.deepcopy(model)
    args = argparse.Namespace(
        data_path="/data/stripes", model="resnet_tiny", backend=backend,
        device="cpu", batch_size=size, eval_batch_size=128, epochs=epochs,
        num_observer_update_epochs=4, num_batch_norm_update_epochs=3,
        num_calibration_batches=32, workers=4, lr=lr, momentum=0.9,
        weight_decay=1e-4, lr_step_size=5, lr_gamma=0.1, print_freq=4,
        output_dir=".", resume="", start_epoch=0, weights="./pretrained.pth",
        fake_quant_start_epoch=3 if run.has("late") else 0)
    run.say(str(args), "Loading data", "Loading training data", "Took 0.41",
            "Loading validation data", "Creating data loaders",
            "Creating model resnet_tiny")

    def save(epoch, name):
        keep(run, name, {
            "model": model.state_dict(), "optimizer": optimizer.state_dict(),
            "lr_scheduler": {"step_size": 5, "gamma": 0.1, "base_lrs": [lr],
                             "last_epoch": epoch + 1}, "epoch": epoch,
            "args": args})

    def evaluate(suffix):
        with torch.no_grad():
            out = model(held)
        loss = float(F.cross_entropy(out, goal))
        right = 100 * float((out.argmax(1) == goal).float().mean())
        run.say(f"Test: {suffix}  [0/1]  eta: 0:00:00  loss: {loss:.4f} "
                f"({loss:.4f})  acc1: {right:.4f} ({right:.4f})  acc5: "
                "100.0000 (100.0000)  time: 0.0412  data: 0.0133",
                f"Test: {suffix} Total time: 0:00:00",
                f"Test: {suffix} Acc@1 {right:.3f} Acc@5 100.000")
        return loss, right

    model.apply(tq.enable_observer)
    model.apply(tq.enable_fake_quant)
    if run.has("late"):
        model.apply(tq.disable_fake_quant)
    save(-1, "model_start.pth")
    rec = watched(run, model, optimizer, every=40, max_dump_bytes=1 << 20,
                  max_ring_bytes=0)
    step = 0
    for epoch in range(epochs):
        model.train()
        if epoch > 3:  # freeze_bn_stats outlives train() by these alone
            model.apply(torch.nn.intrinsic.qat.freeze_bn_stats)
        if run.has("late") and epoch == 3:
            run.say("Enabling fake quantization, epoch = 3")
            model.apply(tq.enable_fake_quant)
        run.say(f"Starting training for epoch {epoch}")
        now = run.rate(lr) * 0.1 ** (epoch >= 5)
        optimizer.param_groups[0]["lr"] = now
        meters = {"lr": Smoothed("{value}"), "img/s": Smoothed("{value}"),
                  "loss": Smoothed(), "acc1": Smoothed(), "acc5": Smoothed()}
        spent, waited = Smoothed("{avg:.4f}"), Smoothed("{avg:.4f}")
        for i, rows in enumerate(batches(512, size)):
            out = model(x[rows])
            loss = F.cross_entropy(out, y[rows])
            if not run.has("zero"):
                (model if run.has("stale") else optimizer).zero_grad()
            loss.backward()
            rec.batch(input=x[rows], labels=y[rows])
            optimizer.step()
            rec.step(loss.detach(), step=step)
            step += 1
            began = run.clock
            run.tick(0.06)
            seconds = run.clock - began
            right = 100 * float((out.argmax(1) == y[rows]).float().mean())
            for k, v in zip(meters, (now, size / seconds,
                                     float(loss.detach()), right, 100.0)):
                meters[k].update(v, 1 if k in ("lr", "img/s") else size)
            spent.update(seconds)
            waited.update(0.002)
            if i % 4 == 0 or i == 15:
                left = int(spent.mean * (16 - i))
                run.say(f"Epoch: [{epoch}]  [{i:2d}/16]  eta: 0:00:{left:02d}"
                        f"  {rows_of(meters)}  time: {spent}  data: {waited}")
        run.say(f"Epoch: [{epoch}] Total time: 0:00:01")
        model.eval()
        with torch.no_grad():
            if epoch >= 4:
                run.say("Disabling observer for subseq epochs, epoch =  "
                        f"{epoch}")
                model.apply(tq.disable_observer)
            if epoch >= 3:
                run.say(f"Freezing BN for subseq epochs, epoch =  {epoch}")
                model.apply(torch.nn.intrinsic.qat.freeze_bn_stats)
        run.say("Evaluate QAT model")
        loss, right = evaluate("QAT")
        if epoch in (0, 3, 7):
            save(epoch, f"model_{epoch}.pth")
        run.say(f"Saving models after epoch  {epoch}")
    run.say("Training time 0:00:09")
    rec.close()
    run.ends(test_loss=loss, acc1=right)
