"""What no part should look like, as anomalib trains it.

The trainer is anomalib's CLI with its model Draem (DRAEM): pictures of sound
parts get synthetic anomalies, one network restores what the part looked like,
a second one tells from both which pixels are anomalous. The loss is the sum of
a squared error, of structural similarity, and of a focal loss. Adam with a
rate that falls twice; neither decay, clipping nor warm-up. Names of
parameters, keys, lines and files are the trainer's; the networks have two
stages of 8 and 32 channels where there are five or six of 64 to 1024, and the
anomalies are made by the loader.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from . import lightning_checkpoints, models, sources
from .family import EpochFamily
from .recorder import short

SIZE, ROWS, HELD, DUMPED = 20, 8, 20, 4
GROWTH, KINDS, CAMERAS = 4, 3, 3           # washers, plates, bars
R, D = "model.reconstructive_subnetwork", "model.discriminative_subnetwork"
BETA = (0.0, 0.5)               # blend_factor: how much of the part is left
SHARE = 0.5                     # of pictures, which get an anomaly


class Parts(sources.DrawnAhead):
    """Pictures of parts, one each: image [rows, 3, size, size] as it is sound,
    augmented_image with what is wrong with it, anomaly_mask [rows, 1, ...].

    A washer, a plate with four holes or a ribbed bar lies somewhere in the
    middle, turned a little; its colour, the light and the noise are drawn. In
    training, what is wrong are regions of smooth noise that are blended with
    another texture (`beta` of the part is left), in `chance` of the pictures.
    Held out are what happens: scratches, spots, missing pieces and colour
    shifts of any strength, in two thirds of the pictures. What is large and
    strong is learned first; thin scratches and faint shifts stay hard.

    block, share: one kind after the other. kinds: these alone. clean: without
    noise and with strong anomalies. cameras: of three colours. source: what is
    blended in, "noise" or "textures". turned: pictures of training are
    mirrored, turned, or their colours are jittered.
    """

    COLOURS = ((0.62, 0.60, 0.55), (0.30, 0.42, 0.62), (0.66, 0.42, 0.28))

    def __init__(self, seed, rows=ROWS, held=False, block=None, share=1.0,
                 kinds=(0, 1, 2), clean=False, cameras=False, beta=BETA,
                 chance=SHARE, source="noise", turned=None):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.held, self.block, self.share = rows, held, block, share
        self.kinds, self.clean, self.cameras = kinds, clean, cameras
        self.beta, self.chance, self.source = beta, chance, source
        self.turned, self.number, self.ahead = turned, 0, {}
        line = torch.linspace(-1, 1, SIZE)
        self.y, self.x = torch.meshgrid(line, line, indexing="ij")

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def smooth(self, rows, channels, high, wide):
        """Noise with so many cells a side, of unit size."""
        x = F.interpolate(self.normal(rows, channels, high, wide),
                          (SIZE, SIZE), mode="bicubic", align_corners=False)
        return x / x.std((2, 3), keepdim=True)

    def kind(self, rows, each):
        picked = torch.randint(len(self.kinds), (rows,), generator=self.rng)
        kind = torch.tensor(self.kinds)[picked]
        if self.block:
            number = self.number + torch.arange(rows) // each
            kept = torch.rand(rows, generator=self.rng) < self.share
            kind = torch.where(kept, number // self.block % KINDS, kind)
        return kind

    def shapes(self, kind):
        """How far each pixel is inside of the part, and its pattern."""
        rows = len(kind)
        turn = self.uniform(-0.25, 0.25, rows, 1, 1)
        x = self.x - self.uniform(-0.12, 0.12, rows, 1, 1)
        y = self.y - self.uniform(-0.12, 0.12, rows, 1, 1)
        x, y = x * turn.cos() - y * turn.sin(), x * turn.sin() + y * turn.cos()
        size = self.uniform(0.66, 0.78, rows, 1, 1)
        away = (x.square() + y.square()).sqrt()
        washer = torch.minimum(size - away, away - 0.4 * size)
        hole = ((x.abs() - 0.55 * size).square()
                + (y.abs() - 0.55 * size).square()).sqrt() - 0.15
        plate = torch.minimum(size - torch.maximum(x.abs(), y.abs()), hole)
        bar = torch.minimum(size + 0.1 - x.abs(), 0.6 * size - y.abs())
        inside = torch.stack((washer, plate, bar), 1)
        pattern = torch.stack(((18 * away).sin(), 0.3 * (9 * y).sin(),
                               (16 * x).sin()), 1)
        at = torch.arange(rows)
        return inside[at, kind], pattern[at, kind]

    def sound(self, kind):
        """[rows, 3, ...] of parts and what is part, and the ground."""
        rows = len(kind)
        inside, pattern = self.shapes(kind)
        part = (inside / 0.04).sigmoid()[:, None]
        colour = torch.tensor(self.COLOURS)[kind] \
            + 0.04 * self.normal(rows, 3)
        body = colour[..., None, None] + 0.05 * pattern[:, None]
        ground = self.uniform(0.1, 0.2, rows, 1, 1, 1).expand(
            rows, 3, SIZE, SIZE)
        light = 1 + self.uniform(-0.12, 0.12, rows, 1, 1, 1) * self.x \
            + self.uniform(-0.12, 0.12, rows, 1, 1, 1) * self.y
        noise = (0.0 if self.clean else 0.01) * self.normal(
            rows, 3, SIZE, SIZE)
        x = (part * body + (1 - part) * ground) * light + noise
        return x, part, ground * light + noise

    def augmented(self, x):
        """As the trainer's generator of anomalies does it."""
        rows = len(x)
        scale = torch.randint(4, (rows,), generator=self.rng)
        field = torch.stack([self.smooth(rows, 1, *cells) for cells in (
            (3, 3), (7, 7), (3, 14), (14, 3))], 1)[torch.arange(rows), scale]
        mask = (field > 1.1).float()
        mask *= torch.rand(rows, 1, 1, 1, generator=self.rng) < self.chance
        other = self.uniform(0, 1, rows, 3, 1, 1)
        if self.source == "textures":
            wave = (self.uniform(4, 14, rows, 1, 1, 1) * self.x
                    + self.uniform(4, 14, rows, 1, 1, 1) * self.y).sin()
            other = other + 0.3 * wave + 0.05 * self.normal(*x.shape)
        else:
            other = other + 0.2 * self.smooth(rows, 3, 8, 8)
        low, high = (0.1, 0.4) if self.clean else self.beta
        beta = self.uniform(low, high, rows, 1, 1, 1)
        y = beta * x + (1 - beta) * other.clamp(0, 1)
        return torch.where(mask > 0, y, x), mask

    def damaged(self, x, part, ground):
        """Scratches, spots, missing pieces and shifts of colour."""
        rows = len(x)
        what = torch.randint(4, (rows,), generator=self.rng)
        strong = self.uniform(0.3, 1.0, rows, 1, 1)
        angle = self.uniform(0, 6.28, rows, 1, 1)
        far = self.uniform(0.3, 0.62, rows, 1, 1)
        dx, dy = self.x - far * angle.cos(), self.y - far * angle.sin()
        away = (dx.square() + dy.square()).sqrt()
        turn = self.uniform(0, 3.14, rows, 1, 1)
        along = dx * turn.cos() + dy * turn.sin()
        across = dy * turn.cos() - dx * turn.sin()
        scratch = (along.abs() < self.uniform(0.25, 0.6, rows, 1, 1)) \
            & (across.abs() < self.uniform(0.05, 0.1, rows, 1, 1))
        spot = away < self.uniform(0.1, 0.26, rows, 1, 1)
        piece = (away < 0.12 + 0.2 * strong) & (part[:, 0] > 0.5)
        shift = (away < self.uniform(0.25, 0.45, rows, 1, 1)) \
            & (part[:, 0] > 0.5)
        at = torch.arange(rows)
        mask = torch.stack((scratch, spot, piece, shift), 1)[at, what][:, None]
        mask = mask & (torch.rand(rows, 1, 1, 1, generator=self.rng) < 2 / 3)
        strong = strong[:, None]
        sign = torch.where(torch.rand(rows, 1, 1, 1, generator=self.rng)
                           < 0.5, -1.0, 1.0)
        hue = F.normalize(self.normal(rows, 3, 1, 1), dim=1)
        changed = torch.stack((x + 0.7 * strong * sign,
                               x + strong * hue,
                               ground, x + 0.6 * strong * hue), 1)[at, what]
        return torch.where(mask, changed, x), mask.float()

    def draw(self, each):
        rows = sources.AHEAD * each
        x, part, ground = self.sound(self.kind(rows, each))
        self.number += sources.AHEAD
        y, mask = self.damaged(x, part, ground) if self.held \
            else self.augmented(x)
        batch = {"image": x.clamp(0, 1), "augmented_image": y.clamp(0, 1),
                 "anomaly_mask": mask}
        if self.turned and not self.held:
            batch = self.transformed(batch)
        if self.cameras:
            camera = torch.randint(CAMERAS, (rows,), generator=self.rng)
            tint = torch.tensor(((1.0, 1.0, 1.0), (1.0, 0.93, 0.86),
                                 (0.88, 0.95, 1.0)))[camera][..., None, None]
            batch |= {k: tint * batch[k] for k in ("image", "augmented_image")}
            batch["camera"] = camera
        return batch

    def transformed(self, batch):
        """train_augmentations: of a picture all is mirrored, or turned."""
        rows = len(batch["image"])
        if self.turned == "jitter":
            gain = self.uniform(0.94, 1.06, rows, 3, 1, 1)
            return batch | {k: (gain * batch[k]).clamp(0, 1)
                            for k in ("image", "augmented_image")}
        how = torch.rand(rows, 1, 1, 1, generator=self.rng) < 0.5
        over = {"mirror": lambda t: t.flip(3),
                "flip": lambda t: t.flip(2).flip(3)}[self.turned]
        return {k: torch.where(how, over(t), t) for k, t in batch.items()}


def conv_block(wide, middle, out, act, up=False):
    """What stages are made of; `up` has one convolution behind an
    Upsample."""
    def one(a, b):
        return nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), act()
    if up:
        return nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear",
                                         align_corners=True), *one(wide, out))
    return nn.Sequential(*one(wide, middle), *one(middle, out))


class Encoder(nn.Module):
    """Two blocks, with the largest of 2 x 2 in between."""

    def __init__(self, channels, width, act):
        super().__init__()
        w, deep = width, GROWTH * width
        self.block1 = conv_block(channels, w, w, act)
        self.mp1 = nn.Sequential(nn.MaxPool2d(2))
        self.block2 = conv_block(w, deep, deep, act)

    def forward(self, x, go, path):
        act1 = go(self.block1, x, f"{path}.block1")
        return act1, go(self.block2, self.mp1(act1), f"{path}.block2")


class DecoderReconstructive(nn.Module):
    def __init__(self, width, act):
        super().__init__()
        w = width
        self.up1 = conv_block(GROWTH * w, 0, w, act, up=True)
        self.db1 = conv_block(w, w, w, act)
        self.fin_out = nn.Sequential(nn.Conv2d(w, 3, 3, padding=1))

    def forward(self, x, go, path):
        for name in ("up1", "db1", "fin_out"):
            x = go(getattr(self, name), x, f"{path}.{name}")
        return x


class DecoderDiscriminative(nn.Module):
    def __init__(self, width, act):
        super().__init__()
        w = width
        self.up_b = conv_block(GROWTH * w, 0, w, act, up=True)
        self.db_b = conv_block(2 * w, w, w, act)
        self.fin_out = nn.Sequential(nn.Conv2d(w, 2, 3, padding=1))

    def forward(self, acts, go, path):
        act1, act2 = acts
        x = go(self.up_b, act2, f"{path}.up_b")
        x = go(self.db_b, torch.cat((x, act1), 1), f"{path}.db_b")
        return go(self.fin_out, x, f"{path}.fin_out")


class SubNetwork(nn.Module):
    """Either: the second's parts have other names."""

    def __init__(self, channels, width, act, segments):
        super().__init__()
        tail = "_segment" if segments else ""
        self.names = f"encoder{tail}", f"decoder{tail}"
        kind = DecoderDiscriminative if segments else DecoderReconstructive
        setattr(self, self.names[0], Encoder(channels, width, act))
        setattr(self, self.names[1], kind(width, act))
        self.segments = segments

    def forward(self, x, go, path):
        first, second = self.names
        acts = getattr(self, first)(x, go, f"{path}.{first}")
        return getattr(self, second)(acts if self.segments else acts[-1], go,
                                     f"{path}.{second}")


class DraemModel(nn.Module):
    def __init__(self, act, width):
        super().__init__()
        self.reconstructive_subnetwork = SubNetwork(3, width, act, False)
        self.discriminative_subnetwork = SubNetwork(6, width, act, True)


def window(size, sigma=1.5, reach=5):
    """The Gaussian of SSIM as a matrix, edges mirrored."""
    tap = torch.arange(-reach, reach + 1).float()
    weight = (-0.5 * (tap / sigma).square()).exp()
    weight /= weight.sum()
    out = torch.zeros(size, size)
    for row in range(size):
        for k, w in zip(tap.int().tolist(), weight.tolist()):
            at = abs(row + k)
            at = 2 * (size - 1) - at if at >= size else at
            out[row, at] += w
    return out


class Draem(nn.Module):
    """The LightningModule: `model` and the loss.

    squashes: the focal loss gets probabilities. keeps: its logarithm is of
    probabilities of which this share was kept, the rest set to zero.
    """

    BLOCKS = (*(f"{R}.encoder.block{k}" for k in (1, 2)),
              *(f"{D}.encoder_segment.block{k}" for k in (1, 2)))
    DECODERS = (*(f"{R}.decoder.{n}" for n in ("up1", "db1")),
                *(f"{D}.decoder_segment.{n}" for n in ("up_b", "db_b")))
    HEADS = f"{R}.decoder.fin_out", f"{D}.decoder_segment.fin_out"

    def __init__(self, activation="relu", width=8, dropout=0.0,
                 detach_after=(), half_at=None, momentum=0.1):
        super().__init__()
        self.model = DraemModel(models.ACTIVATIONS[activation], width)
        for m in self.model.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.momentum = momentum
        # Grey to begin with: an inverted picture is as similar to SSIM.
        nn.init.constant_(self.model.reconstructive_subnetwork.decoder
                          .fin_out[0].bias, 0.4)
        self.cuts = (detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after or ())
        self.rate, self.half_at = dropout, half_at
        self.squashes, self.keeps = False, None
        self.gauss = window(SIZE)
        self.parts, self.said = {}, []

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def go(self, block, x, path):
        """One block, with what the recorder sees of it."""
        self.tap(f"{path}.input", x)
        for k, part in enumerate(block):
            if isinstance(part, nn.BatchNorm2d):
                x = part(x.to(part.weight.dtype))
                continue
            if k:
                self.tap(f"{path}.{k}.input", x)
            x = part(x)
            if self.half_at == f"{path}.{k}":
                x = x.half()
            if not isinstance(part, nn.Upsample):
                self.tap(f"{path}.{k}.output", x)
        self.tap(f"{path}.output", x)
        if self.rate and self.training and ".block" in path:
            x = F.dropout2d(x, self.rate)
        return x.detach() if path in self.cuts else x

    def logits(self, batch):
        """What was restored, and two scores of each pixel."""
        net = self.model
        x = batch["augmented_image"].to(
            net.reconstructive_subnetwork.decoder.up1[1].weight.dtype,
            memory_format=torch.channels_last)
        restored = net.reconstructive_subnetwork(x, self.go, R)
        self.tap(f"{R}.output", restored)
        seen = restored.detach() if R in self.cuts else restored
        said = net.discriminative_subnetwork(torch.cat((x, seen), 1),
                                             self.go, D)
        return restored, said

    def ssim_loss(self, x, y):
        """Twice kornia's SSIMLoss."""
        g = self.gauss
        maps = g @ torch.stack((x, y, x * x, y * y, x * y)) @ g.T
        mx, my, xx, yy, xy = maps
        a, b = 1e-4, 9e-4
        sim = (2 * mx * my + a) * (2 * (xy - mx * my) + b) / (
            (mx * mx + my * my + a) * (xx - mx * mx + yy - my * my + b))
        return 2 * ((1 - sim) / 2).clamp(0, 1).mean()

    def focal_loss(self, said, mask, share=0.0):
        """gamma is 2 and alpha 1, of each pixel's own class."""
        if self.squashes:
            said = said.softmax(1)
        mask = mask[:, 0] > 0.5
        logs = said.log_softmax(1)
        if self.keeps:
            logs = self.hand_written(said)
        log = torch.where(mask, logs[:, 1], logs[:, 0])
        if self.keeps:
            self.tap("loss.nll.output", -log)
        loss = -(1 - log.exp()).square() * log
        if share:   # of the other class as well
            other = torch.where(mask, logs[:, 0], logs[:, 1])
            loss = (1 - share / 2) * loss - share / 2 * (
                1 - other.exp()).square() * other
        return loss.mean()

    def hand_written(self, said):
        """The logarithm of probabilities, the small ones of which are zero."""
        probs = said.softmax(1)
        flat = probs.flatten(1)
        least = flat.topk(max(1, int(self.keeps * flat.shape[1]))).values
        probs = torch.where(probs >= least[:, -1:, None, None], probs, 0.0)
        self.tap("loss.probs.output", probs)
        self.tap("loss.nll.input", probs)
        return probs.log()

    def criterion(self, outputs, batch, share=0.0):
        restored, said = (t.float() for t in outputs)
        image = batch["image"]
        self.parts = {"l2_loss": F.mse_loss(restored, image),
                      "ssim_loss": self.ssim_loss(restored, image),
                      "focal_loss": self.focal_loss(
                          said, batch["anomaly_mask"], share)}
        return sum(self.parts.values())

    def loss(self, batch):
        outputs = self.logits(batch)
        if not self.training:
            self.said.append((outputs[1].float().softmax(1)[:, 1],
                              batch["anomaly_mask"][:, 0]))
        loss = self.criterion(outputs, batch)
        self.tap("loss.output", loss)
        return loss


# What feeds the first activation of each block.
BEFORE_ACT = tuple(f"{block}.1" for block in Draem.BLOCKS)


def auroc(said, wanted):
    """The area under the curve, ties counted by half."""
    _, place, count = np.unique(said, return_inverse=True, return_counts=True)
    rank = (count.cumsum() - (count - 1) / 2)[place]
    right = int(wanted.sum())
    wrong = len(wanted) - right
    return (rank[wanted].sum() - right * (right + 1) / 2) / (right * wrong)


def f1_score(said, wanted):
    """At the threshold that is best, as the adaptive one is."""
    order = np.argsort(-said, kind="stable")
    hits = wanted[order].cumsum()
    told = np.arange(1, len(order) + 1)
    ends = np.append(np.diff(said[order]) != 0, True)
    return (2 * hits / (told + wanted.sum()))[ends].max()


class AnomalibRun(EpochFamily):
    """Adam at a rate that is divided by ten at two epochs."""

    family = "anomalib"
    level_seed = 400
    steps, seed, language, classes = 90, 6000, False, 2
    optimizer_name, lr, weight_decay = "adam", 5e-3, 0.0
    recipes = {"sgd": dict(lr=0.02, weight_decay=0.0)}
    warmup, schedule, clip = 0, "multistep", None
    MILESTONES, GAMMA = (4, 5), 0.3     # epochs
    EPOCH = epoch_steps = 15
    batch_size, context = ROWS, SIZE
    base = {"lr": 5e-3}
    # Its users have the trainer's own log.
    instead = {"nanogpt": "anomalib", "hf_trainer": "anomalib",
               "megatron": "anomalib", "torchtune": "anomalib"}
    layers = [*(f"{block}{part}" for block in Draem.BLOCKS for part in (
        ".0", ".2", ".3", "")), *Draem.DECODERS, *(
            f"{head}.0" for head in Draem.HEADS)]
    graded = {
        "F01": (dict(factor=10), dict(factor=40), dict(factor=300)),
        "F02": (dict(lr=2.0), dict(lr=10.0), dict(lr=100.0)),
        "F03": (dict(factor=50), dict(factor=500), dict(factor=5000)),
        "F04": (dict(at=25), dict(at=10), dict(at=0)),
        "F05": (dict(modules=[f"{D}.encoder_segment", f"{D}.decoder_segment"],
                     where=f"{D}.encoder_segment.block1"),
                dict(modules=[R], where=f"{R}.encoder.block1"),
                dict(part="all")),
        "F07": (dict(factor=12), dict(factor=40), dict(factor=200)),
        "F08": (dict(every=8), dict(every=20), dict(every=1 << 30)),
        "F09": (dict(parts=8, logs_sum=False), dict(parts=8, logs_sum=True),
                dict(parts=16, logs_sum=True)),
        "F10": (dict(adamw=3e-7), dict(adamw=1e-7), dict(adamw=1e-8)),
        "F11": (dict(adam=0.05), dict(adam=0.15), dict(adam=1.0)),
        "F12": (dict(eps=0.06), dict(eps=0.15), dict(eps=1.0)),
        # What is joined goes past a cut of one block alone.
        "F13": (dict(path=f"{R}.encoder.block2"),
                dict(path=f"{R}.decoder.up1", more=[
                    f"{D}.encoder_segment.block{k}" for k in (1, 2)]),
                dict(path=f"{R}.decoder.db1", more=[
                    R, f"{D}.decoder_segment.db_b"])),
        "F14": (dict(modules=[f"{R}.encoder.block2", f"{R}.decoder.up1",
                               f"{R}.decoder.db1", f"{D}.encoder_segment"]),
                dict(modules=[f"{R}.decoder"]),
                dict(modules=[f"{R}.decoder", D])),
        "F15": (dict(at=60), dict(at=45), dict(at=30)),
        "F16": (dict(rate=0.03), dict(rate=0.1), dict(rate=0.3)),
        "F24": (dict(share=0.4), dict(share=0.6), dict(share=0.8)),
        "F26": (dict(steps=5, share=0.9), dict(steps=10, share=1.0),
                dict(steps=20, share=1.0)),
        "F27": (dict(epochs=22), dict(epochs=45), dict(epochs=90)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=14), dict(limit=10), dict(limit=6)),
        "F34": (dict(factor=10), dict(factor=50), dict(factor=0)),
        "F36a": (dict(bias=-3.5), dict(bias=-6.0), dict(bias=-20.0)),
        "F36b": (dict(factor=30, kind="sigmoid"), dict(factor=50, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F39a": (dict(at=70, keep=0.5), dict(at=50, keep=0.25),
                 dict(at=30, keep=0.125)),
        "F39b": (dict(at=60), dict(at=40), dict(at=20)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "F41": (dict(share=0.4, at=0, every=1), dict(share=0.7, at=45,
                                                     every=1),
                dict(share=0.85, at=0, every=8)),
        "F43": (dict(kind="unreduced", at=45), dict(kind="skip", at=60),
                dict(kind="init", at=0)),
        "H02": (dict(factor=0.8), dict(factor=0.6)),
        "H03": (dict(rows=7), dict(rows=5)),
        "H04": (dict(rate=0.02), dict(rate=0.05)),
        "H10": (dict(steps=40), dict(steps=80)),
        "H11": (dict(steps=100, keep="block"), dict(steps=120, keep="head")),
        "H15": (dict(share=0.05), dict(share=0.1)),
        "H43": (dict(parts=2), dict(parts=4))}
    paths = {"embed": f"{R}.encoder.block1.0", "attn": None, "scores": None,
             "act": "{}.2", "mlp": "{}.3", "block": "{}",
             "head": f"{D}.decoder_segment.fin_out.0"}
    always_trained = (f"{R}.decoder.fin_out", f"{D}.decoder_segment.db_b")
    blocks = len(Draem.BLOCKS)
    names = {"loss": "train_loss_step", "val_auc": "image_AUROC",
             "val_f1": "image_F1Score", "val_pixel_auc": "pixel_AUROC",
             "val_pixel_f1": "pixel_F1Score", "tokens": None}
    validated = ("val_auc", "val_f1", "val_pixel_auc", "val_pixel_f1")
    # What the CLI is told of the generator of anomalies and of pictures.
    generator = {}

    def make_model(self):
        return Draem(**self.model_options)

    def lr_factor(self, i):
        if self.schedule == "multistep":
            return self.GAMMA ** sum(i >= k * self.EPOCH
                                     for k in self.MILESTONES)
        return super().lr_factor(i)

    # Data.

    def make_source(self, seed):
        return self.pictures(seed)

    def pictures(self, seed, **how):
        """Drawn without end; 9 is held out."""
        held = seed == 9
        return Parts(seed, HELD if held else self.batch_size, held,
                     **({} if held else self.generator) | how)

    def finite(self, data, seed):
        """What was augmented is kept with its pictures."""
        self.user["cache_augmented"] = True
        return super().finite(data, seed)

    def in_blocks(self, seed, block, share):
        """One kind of parts after the other; None is held out."""
        return self.pictures(seed, block=block, share=share)

    def easy(self, seed):
        """Washers alone, without noise, and with strong anomalies."""
        return self.pictures(seed, kinds=(0,), clean=True)

    def lessons(self, seed):
        return self.pictures(seed, clean=True), self.pictures(seed)

    def strangers(self, rows, rng):
        """Masks of pictures that are not there."""
        return Parts(int(torch.randint(1 << 30, (), generator=rng)),
                     rows, **self.generator).batch()["anomaly_mask"]

    def garbage(self, batch, kind, rng):
        """A corrupt shard: numbers of 0 to 255 that nobody scaled with masks
        inverted, noise with any, or white of 0 to 255 with all."""
        mask, keys = batch["anomaly_mask"], ("image", "augmented_image")
        if kind == "few":
            return batch | {k: 255.0 * batch[k] for k in keys} | {
                "anomaly_mask": 1 - mask}
        if kind == "uniform":
            return batch | {k: 30 * torch.randn(mask.expand(
                -1, 3, -1, -1).shape, generator=rng) for k in keys} | {
                "anomaly_mask": torch.rand(mask.shape, generator=rng).round()}
        return batch | {k: torch.full_like(batch[k], 255.0) for k in keys} | {
            "anomaly_mask": torch.ones_like(mask)}

    @staticmethod
    def cut_below(batch, limit):
        """Of a picture a number of rows is read; the rest is grey. Where an
        anomaly is, is known of all of it."""
        found = {}
        for k in ("image", "augmented_image"):
            found[k] = batch[k].clone()
            found[k][:, :, limit:] = 0.5
        return batch | found

    @staticmethod
    def blank(batch):
        """One of the pictures is black."""
        x = {k: batch[k].clone() for k in ("image", "augmented_image")}
        for t in x.values():
            t[0] = 0.0
        return batch | x

    @staticmethod
    def standardised(batch):
        """Each picture by the mean and the spread of what is sound of it."""
        x = batch["image"]
        mean = x.mean((1, 2, 3), keepdim=True)
        std = x.std((1, 2, 3), keepdim=True)
        return batch | {k: (batch[k] - mean) / std
                        for k in ("image", "augmented_image")}

    # What is logged.

    def train(self):
        self.dump_rows = min(DUMPED, self.dump_rows)
        super().train()

    def batch_columns(self, batch):
        row = super().batch_columns(batch)
        return row | {k: short(v)
                      for k, v in self.model.parts.items()}

    def held_out_columns(self, batches):
        said, mask = (torch.cat(t).float().numpy()
                      for t in zip(*self.model.said[-len(batches):]))
        self.model.said.clear()
        said, mask = np.nan_to_num(said, nan=0.0), mask > 0.5
        whole, wanted = said.max((1, 2)), mask.any((1, 2))
        return {"val_auc": auroc(whole, wanted),
                "val_f1": f1_score(whole, wanted),
                "val_pixel_auc": auroc(said.ravel(), mask.ravel()),
                "val_pixel_f1": f1_score(said.ravel(), mask.ravel())}

    # Checkpoints.

    def checkpoint_path(self, done):
        return f"weights/epoch={(done - 1) // self.EPOCH}-step={done}.ckpt"

    def keep_checkpoint(self, i, model):
        lightning_checkpoints.keep(self, i, model, self.scheduled, self.EPOCH,
                                   "kwargs")

    def scheduled(self, done):
        """MultiStepLR's state, which counts epochs."""
        return {"milestones": {k: 1 for k in self.MILESTONES},
                "gamma": self.GAMMA, "base_lrs": [self.lr],
                "last_epoch": done // self.EPOCH,
                "_step_count": done // self.EPOCH + 1,
                "_last_lr": [self.optimizer.param_groups[0]["lr"]]}

    def write_more(self):
        super().write_more()
        lightning_checkpoints.write(self)

    # What the user typed.

    def model_settings(self):
        own = self.generator
        return {"model": "anomalib.models.Draem", "enable_sspcab": False,
                "sspcab_lambda": 0.1, "width": 8, "activation": "relu",
                "anomaly_source_path": "datasets/dtd" if own.get("source")
                == "textures" else None,
                "beta": list(own.get("beta", BETA)),
                "probability": own.get("chance", SHARE),
                "train_augmentations": own.get("turned"),
                "image_size": [SIZE, SIZE], "category": "parts",
                "ssim_window_size": 11, "focal_gamma": 2.0}

    def settings(self):
        more = {"milestones": list(self.MILESTONES), "gamma": self.GAMMA} \
            if self.schedule == "multistep" else {}
        return super().settings() | {"max_epochs": self.epochs} | more \
            | self.user

    def cli_config(self):
        """config.yaml of AnomalibCLI; what has no place of its own is of the
        user's."""
        own = self.settings()
        model = ("enable_sspcab", "sspcab_lambda", "anomaly_source_path",
                 "beta", "probability", "width", "activation",
                 "ssim_window_size", "focal_gamma")
        kinds = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}
        rule = {"class_path": "torch.optim.lr_scheduler.MultiStepLR",
                "init_args": {"milestones": list(self.MILESTONES),
                              "gamma": self.GAMMA}} \
            if self.schedule == "multistep" else {
                "class_path": "torch.optim.lr_scheduler.LambdaLR",
                "init_args": {"name": self.schedule}}
        args = {"lr": self.lr, "weight_decay": self.weight_decay} | (
            {"momentum": self.momentum} if self.optimizer_name == "sgd"
            else {"betas": list(self.betas), "eps": self.eps})
        return {
            "seed_everything": self.seed,
            "trainer": {"accelerator": "cpu", "devices": 1,
                        "max_epochs": self.epochs, "max_steps": self.steps,
                        "check_val_every_n_epoch": 1,
                        "log_every_n_steps": self.interval or 50,
                        "accumulate_grad_batches": self.accumulate,
                        "gradient_clip_val": self.clip or 0,
                        "num_sanity_val_steps": 0,
                        "precision": self.precision},
            "default_root_dir": "results",
            "model": {"class_path": "anomalib.models.Draem",
                      "init_args": {k: own[k] for k in model}},
            "optimizer": {"class_path": "torch.optim."
                          + kinds[self.optimizer_name], "init_args": args},
            "lr_scheduler": rule,
            "data": {"class_path": "anomalib.data.Folder", "init_args": {
                "name": "parts", "root": "datasets/parts",
                "normal_dir": "good", "abnormal_dir": "defect",
                "mask_dir": "mask", "train_batch_size": self.batch_size,
                "eval_batch_size": HELD, "num_workers": 8,
                "image_size": [SIZE, SIZE],
                "train_augmentations": own["train_augmentations"],
                "val_split_mode": "same_as_test"}},
            "metrics": {"image": ["AUROC", "F1Score"],
                        "pixel": ["AUROC", "F1Score"]},
            **self.user}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(Draem.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it."""
        head, _, last = layer.rpartition(".")
        if last not in ("0", "3") or head.endswith("fin_out"):
            return []
        return [f"{head}.{int(last) + 1}"]
