"""A small anchor-free detector that is trained from scratch.

Parts are named as in torchvision's FCOS, terms of the loss and columns as in
its detection references, whose checkpoints these are. Locations of two levels
say which class they show (focal loss), how far away the sides of its box are
(generalised IoU) and how near its middle they are (centre-ness).
"""

import argparse
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family

SIZE, CHANNELS, CLASSES, ROWS, OBJECTS = 32, 3, 5, 16, 3
WIDTHS, PYRAMID, STRIDES = (12, 20, 28), 20, (4, 8)
# Of things, by class: red, green, blue, light and dark ones.
COLOURS = torch.tensor([[1.2, -0.6, -0.6], [-0.6, 1.2, -0.6],
                        [-0.6, -0.6, 1.2], [1.0, 1.0, 1.0],
                        [-1.0, -1.0, -1.0]])
NOTHING = -1            # the label of a box that only fills up the batch


class Scenes:
    """Things on a ground; boxes and classes of them.

    A scene has one to three things, each an ellipse, a bar, a triangle, a ring
    or a cross of 7 to 18 pixels a side: five classes, which also have a colour
    each, about which that of a thing is drawn (.4). Noise of .25 lies on all
    pixels. A thing that would hide two fifths of another one is left out: 1.6
    are left of a scene. Who drew the boxes was off by up to .7 of a pixel at
    each side, so that the true box has a generalised IoU loss of 0.11, and the
    truth an average precision of 0.79.

    A batch is padded to three boxes of class -1. Of centre-ness at least .55
    nats remain; a model that says .01 of each class, a box of two strides and
    a centre-ness of a half has 1.13 + .71 + .69.

    noise: see above. things: at most. domains: a third of the images is
    inverted, another is grey. empty: the share that shows nothing. block,
    share: scenes of one class of things, one class after the other.
    """

    OFF, SPREAD = 0.7, 0.4

    def __init__(self, seed, rows=ROWS, noise=0.25, things=OBJECTS,
                 domains=False, empty=0.0, block=None, share=1.0):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.noise, self.things = rows, noise, things
        self.domains, self.empty = domains, empty
        self.block, self.share, self.number = block, share, 0

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    @staticmethod
    def shape(kind, dx, dy):
        """Which pixels a thing covers; dx and dy run from -1 to 1 within its
        box."""
        far = (dx ** 2 + dy ** 2).sqrt()
        inside = torch.maximum(dx.abs(), dy.abs()) < 1
        each = (far < 1, inside, inside & (dx.abs() < (1 + dy) / 2),
                (far < 1) & (far > 0.55),
                inside & (torch.minimum(dx.abs(), dy.abs()) < 0.34))
        return torch.stack(each).gather(0, kind.expand(1, *far.shape))[0]

    def batch(self, rows=None):
        rows, rng = rows or self.rows, self.rng
        kinds = torch.randint(CLASSES, (self.things, rows), generator=rng)
        if self.block:
            here = self.number // self.block % CLASSES
            kept = torch.rand(rows, generator=rng) < self.share
            kinds = torch.where(kept, torch.tensor(here), kinds)
        self.number += 1
        count = torch.randint(1, self.things + 1, (rows,), generator=rng)
        if self.empty:
            count[torch.rand(rows, generator=rng) < self.empty] = 0
        y, x = torch.meshgrid(torch.arange(SIZE) + 0.5,
                              torch.arange(SIZE) + 0.5, indexing="ij")
        image = self.uniform(-0.6, 0.6, rows, CHANNELS, 1, 1).expand(
            -1, -1, SIZE, SIZE)
        boxes, labels = [], []
        for n in range(self.things):
            half = self.uniform(3.5, 9, 2, rows)
            half = torch.maximum(half, 0.6 * half.flip(0))
            middle = half + (SIZE - 2 * half) * torch.rand(
                2, rows, generator=rng)
            box = torch.cat((middle - half, middle + half)).T
            shown = n < count
            for other, label in zip(boxes, labels):
                hidden = common(box, other) / torch.minimum(
                    area(box), area(other))
                shown = shown & ((label == NOTHING) | (hidden < 0.4))
            colour = COLOURS[kinds[n]] + self.SPREAD * torch.randn(
                rows, CHANNELS, generator=rng)
            drawn = self.shape(kinds[n][:, None, None], *(
                (at - m[:, None, None]) / h[:, None, None]
                for at, m, h in zip((x, y), middle, half)))
            drawn = drawn & shown[:, None, None]
            image = torch.where(drawn[:, None], colour[..., None, None], image)
            boxes.append(box)
            labels.append(torch.where(shown, kinds[n], NOTHING))
        image = image + self.noise * torch.randn(image.shape, generator=rng)
        return self.finished(image, torch.stack(boxes, 1),
                             torch.stack(labels, 1))

    def finished(self, image, boxes, labels):
        """What there is of a scene, as it is written down."""
        off = self.uniform(-self.OFF, self.OFF, *boxes.shape)
        boxes = (boxes + off).clamp(0, SIZE)
        more = {}
        if self.domains:
            domain = torch.randint(3, (len(image),), generator=self.rng)
            each = domain[:, None, None, None]
            image = torch.where(each == 1, -image, torch.where(
                each == 2, image.mean(1, keepdim=True), image))
            more = {"domain": domain}
        # Things come first, and what fills up last.
        order = (labels == NOTHING).int().argsort(
            dim=1, stable=True)
        labels = F.pad(labels.gather(1, order),
                       (0, OBJECTS - labels.shape[1]), value=NOTHING)
        boxes = F.pad(boxes.gather(1, order[..., None].expand(-1, -1, 4)),
                      (0, 0, 0, OBJECTS - boxes.shape[1]))
        return {"images": image,
                "boxes": boxes * (labels != NOTHING)[..., None],
                "labels": labels, **more}


def area(box):
    return (box[..., 2:] - box[..., :2]).clamp_min(0).prod(-1)


def common(a, b):
    """The area that boxes share."""
    return area(torch.cat((torch.maximum(a[..., :2], b[..., :2]),
                           torch.minimum(a[..., 2:], b[..., 2:])), -1))


def overlap(a, b):
    """(IoU, generalised IoU) of boxes."""
    both = common(a, b)
    union = area(a) + area(b) - both
    hull = area(torch.cat((torch.minimum(a[..., :2], b[..., :2]),
                           torch.maximum(a[..., 2:], b[..., 2:])), -1))
    iou = both / union.clamp_min(1e-7)
    return iou, iou - (hull - union) / hull.clamp_min(1e-7)


class BasicBlock(nn.Module):
    """Two convolutions and what goes past them; names as in torchvision."""

    def __init__(self, channels, out, stride, options):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False),
            nn.BatchNorm2d(out))
        self.relu = models.ACTIVATIONS[options["activation"]]()
        self.options = options

    def forward(self, x, name, tap):
        tap(f"{name}.conv1.input", x)
        y = self.conv1(x)
        if self.options["half_at"] == f"{name}.conv1":
            y = y.half()
        tap(f"{name}.conv1.output", y)
        y = self.bn1(y.to(x.dtype))
        tap(f"{name}.relu.input", y)
        y = self.relu(y)
        tap(f"{name}.relu.output", y)
        y = self.conv2(y)
        tap(f"{name}.conv2.output", y)
        y = self.relu(self.bn2(y) + self.downsample(x))
        tap(f"{name}.output", y)
        return y


def tower(options):
    """Children 0, 1 and 2, as in torchvision's heads."""
    return nn.Sequential(nn.Conv2d(PYRAMID, PYRAMID, 3, 1, 1),
                         nn.GroupNorm(4, PYRAMID),
                         models.ACTIVATIONS[options["activation"]]())


class Detector(nn.Module):
    """A residual network of a stem and three blocks (12, 12, 20 and 28 channels
    at 16, 16, 8 and 4 pixels a side), a pyramid of 20 channels over the last
    two, and heads that both levels share."""

    BLOCKS = tuple(f"backbone.body.layer{i}.0" for i in (1, 2, 3))
    PRIOR = 0.01
    ALPHA, GAMMA, RADIUS = 0.25, 2.0, 1.5
    # Whose sides are further away than this belongs to the upper level.
    NEAR = 10.0

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None):
        """detach_after: the part behind which the graph is cut, the last block
        for all that the backbone gives."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.squashes, self.guards = False, True
        options = {"activation": activation, "half_at": half_at}
        a, b, c = WIDTHS
        body = models.Group(conv1=nn.Conv2d(CHANNELS, a, 3, 2, 1, bias=False),
                            bn1=nn.BatchNorm2d(a),
                            relu=models.ACTIVATIONS[activation]())
        for i, shape in enumerate(((a, a, 1), (a, b, 2), (b, c, 2)), 1):
            setattr(body, f"layer{i}", nn.Sequential(BasicBlock(*shape,
                                                                options)))
        self.backbone = models.Group(body=body, fpn=models.Group(
            inner_blocks=nn.ModuleList(nn.Sequential(
                nn.Conv2d(n, PYRAMID, 1)) for n in (b, c)),
            layer_blocks=nn.ModuleList(nn.Sequential(
                nn.Conv2d(PYRAMID, PYRAMID, 3, 1, 1)) for _ in range(2))))
        self.head = models.Group(
            classification_head=models.Group(
                conv=tower(options),
                cls_logits=nn.Conv2d(PYRAMID, CLASSES, 3, 1, 1)),
            regression_head=models.Group(
                conv=tower(options),
                bbox_reg=nn.Conv2d(PYRAMID, 4, 3, 1, 1),
                bbox_ctrness=nn.Conv2d(PYRAMID, 1, 3, 1, 1)))
        self.start()
        at = [(torch.arange(SIZE // s) + 0.5) * s for s in STRIDES]
        self.places = torch.cat([torch.stack(torch.meshgrid(
            a, a, indexing="ij")[::-1], -1).view(-1, 2) for a in at])
        self.strides = torch.cat([torch.full((len(a) ** 2,), float(s))
                                  for a, s in zip(at, STRIDES)])
        self.terms, self.said = {}, None    # of the last training batch

    def start(self):
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out",
                                        nonlinearity="relu")
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        last = (self.head.classification_head.cls_logits,
                self.head.regression_head.bbox_reg,
                self.head.regression_head.bbox_ctrness)
        for m in last:
            nn.init.normal_(m.weight, std=0.01)
        nn.init.constant_(last[0].bias, -math.log(1 / self.PRIOR - 1))
        nn.init.ones_(last[1].bias)

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def drop(self, x):
        return F.dropout2d(x, self.dropout, self.training
                           and self.dropout > 0)

    def features(self, x):
        body, fpn = self.backbone.body, self.backbone.fpn
        x = body.conv1(x.to(body.conv1.weight.dtype))
        self.tap("backbone.body.conv1.output", x)
        x = body.relu(body.bn1(self.cut(x, "backbone.body.conv1")))
        maps = []
        for i, name in enumerate(self.BLOCKS, 1):
            x = getattr(body, f"layer{i}")[0](x, name, self.tap)
            x = self.drop(self.cut(x, name))
            maps.append(x)
        maps = [self.cut(m, self.BLOCKS[-1]) for m in maps[1:]]
        maps = [inner(m) for inner, m in zip(fpn.inner_blocks, maps)]
        maps[0] = maps[0] + F.interpolate(maps[1], scale_factor=2)
        maps = [outer(m) for outer, m in zip(fpn.layer_blocks, maps)]
        for i, m in enumerate(maps):
            self.tap(f"backbone.fpn.layer_blocks.{i}.0.output", m)
        return maps

    def over(self, name, part, maps):
        """A part of a head on both levels."""
        maps = [part(m) for m in maps]
        self.tap(f"{name}.output", listed(maps))
        return maps

    def forward(self, x):
        """Class logits, distances in strides and logits of centre-ness, each
        (rows, places, numbers)."""
        maps, said = self.features(x), []
        for head, last in (("classification_head", ("cls_logits",)),
                           ("regression_head", ("bbox_reg", "bbox_ctrness"))):
            parts, name = getattr(self.head, head), f"head.{head}"
            conv, norm, act = parts.conv
            inner = self.over(f"{name}.conv.0", conv, maps)
            inner = self.over(f"{name}.conv.2", act, [norm(m) for m in inner])
            said += [listed(self.over(f"{name}.{part}", getattr(parts, part),
                                      [self.drop(m) for m in inner]))
                     for part in last]
        return said[0], F.relu(said[1]), said[2][..., 0]

    def logits(self, batch):
        """All that the heads say; other families' name for it."""
        return self(batch["images"])

    def boxes(self, distances):
        reach = distances.float() * self.strides[:, None]
        return torch.cat((self.places - reach[..., :2],
                          self.places + reach[..., 2:]), -1)

    def matched(self, batch):
        """Of each place the number of its box, -1 for none: the smallest that
        it is near the middle of, and of whose size its level is."""
        boxes = batch["boxes"][:, None]
        x = self.places[:, None]
        sides = torch.cat((x - boxes[..., :2], boxes[..., 2:] - x), -1)
        off = (x - (boxes[..., :2] + boxes[..., 2:]) / 2).abs().amax(-1)
        stride = self.strides[:, None]
        near = sides.amax(-1) <= self.NEAR
        fits = (sides.amin(-1) > 0) & (off < self.RADIUS * stride) \
            & (near == (stride == STRIDES[0])) \
            & (batch["labels"] != NOTHING)[:, None]
        size = torch.where(fits, area(boxes), math.inf)
        least, which = size.min(-1)
        return torch.where(least < math.inf, which, -1)

    def targets(self, batch):
        """(which place is of a thing, its class, box and centre-ness)."""
        which = self.matched(batch)
        own, which = which >= 0, which.clamp_min(0)
        kind = batch["labels"].gather(1, which)
        box = batch["boxes"].gather(1, which[..., None].expand(-1, -1, 4))
        sides = torch.cat((self.places - box[..., :2],
                           box[..., 2:] - self.places), -1).clamp_min(1e-3)
        across = sides[..., 0::2].amin(-1) / sides[..., 0::2].amax(-1)
        along = sides[..., 1::2].amin(-1) / sides[..., 1::2].amax(-1)
        return own, kind, box, (across * along).sqrt()

    def focal(self, probs, each, wanted):
        """Weights of the terms `each` of a cross-entropy."""
        miss = torch.where(wanted > 0.5, 1 - probs, probs)
        alpha = torch.where(wanted > 0.5, self.ALPHA, 1 - self.ALPHA)
        return alpha * miss ** self.GAMMA * each

    def criterion(self, said, batch, smoothing=0.0, of_kinds=None):
        """The sum of the three terms, each of all rows and by the number of
        places that are of a thing. of_kinds: what the first one is made of
        instead of the focal loss, a function of logits and targets."""
        logits, distances, centre = said[0].float(), said[1], said[2].float()
        own, kind, box, middle = self.targets(batch)
        wanted = F.one_hot(kind.clamp_min(0), CLASSES) * own[..., None].float()
        if self.squashes:
            logits = logits.sigmoid()
        if of_kinds:
            kinds = of_kinds(logits, wanted)
        else:  # smoothed where things are, as in ultralytics
            soft = torch.where(own[..., None], wanted * (1 - smoothing)
                               + smoothing / 2, wanted)
            kinds = self.focal(
                logits.sigmoid(), F.binary_cross_entropy_with_logits(
                    logits, soft, reduction="none"), wanted)
        boxes = 1 - overlap(self.boxes(distances), box)[1]
        centres = F.binary_cross_entropy_with_logits(centre, middle,
                                                     reduction="none")
        count = own.sum()
        if self.guards:
            count = count.clamp_min(1)
        terms = {"cls_loss": kinds.sum() / count,
                 "reg_loss": (boxes * own).sum() / count,
                 "ctr_loss": (centres * own).sum() / count}
        if self.training:
            self.terms = {k: t.detach() for k, t in terms.items()}
        return sum(terms.values())

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss

    def found(self, batch, most=25, least=0.05, apart=0.6):
        """(scores, classes, boxes) of what is found, `most` a row, best first;
        of boxes of one class that overlap the best is kept."""
        logits, distances, centre = self.logits(batch)
        scores = (logits.float().sigmoid()
                  * centre.float().sigmoid()[..., None]).sqrt()
        scores = torch.where(scores > least, scores, 0.0).nan_to_num(0.0)
        scores, at = scores.flatten(1).topk(most)
        kinds = at % CLASSES
        boxes = self.boxes(distances).clamp(0, SIZE).gather(
            1, (at // CLASSES)[..., None].expand(-1, -1, 4))
        rival = (overlap(boxes[:, :, None], boxes[:, None])[0] > apart) & (
            kinds[:, :, None] == kinds[:, None])
        kept = scores > 0
        for k in range(1, most):
            kept[:, k] &= ~(rival[:, k, :k] & kept[:, :k]).any(1)
        return torch.where(kept, scores, 0.0), kinds, boxes


def listed(maps):
    """(rows, places, channels) of all levels."""
    return torch.cat([m.flatten(2).transpose(1, 2) for m in maps], 1)


def average_precision(scores, kinds, boxes, batch):
    """COCO's, (at an IoU of 0.5, mean over 0.5 to 0.95), over classes that
    there are."""
    bounds = torch.arange(0.5, 0.96, 0.05)
    real, labels = batch["boxes"], batch["labels"]
    iou = overlap(boxes[:, :, None], real[:, None])[0] * (
        kinds[:, :, None] == labels[:, None])
    taken = torch.zeros(len(bounds), *labels.shape, dtype=torch.bool)
    right = torch.zeros(len(bounds), *scores.shape, dtype=torch.bool)
    rows = torch.arange(len(labels))
    for k in range(scores.shape[1]):  # the best come first
        free = torch.where(taken | (scores[:, k] == 0)[:, None], 0.0,
                           iou[:, k])
        best, which = free.max(-1)
        hit = best >= bounds[:, None]
        right[:, :, k] = hit
        for b in range(len(bounds)):
            taken[b, rows[hit[b]], which[b][hit[b]]] = True
    each = []
    for kind in range(CLASSES):
        there = int((labels == kind).sum())
        if not there:
            continue
        mine = (kinds == kind) & (scores > 0)
        order = scores[mine].argsort(descending=True, stable=True)
        hits = right[:, mine][:, order].float().cumsum(1)
        precision = hits / torch.arange(1, len(order) + 1)
        recall = hits / there
        points = torch.linspace(0, 1, 101)
        each.append(torch.stack([torch.where(
            recall[b] >= points[:, None] - 1e-6, precision[b], 0.0).amax(1)
            if len(order) else torch.zeros(101)
            for b in range(len(bounds))]).mean(1))
    each = torch.stack(each).mean(0) if each else torch.zeros(len(bounds))
    return each[0], each.mean()


class DetRun(Family):
    """SGD with momentum, a warm-up over the first epoch and a rate that falls
    to a tenth twice, as in torchvision's references; nothing is clipped."""

    family = "det"
    level_seed = 400
    steps, seed, language, classes = 240, 580, False, CLASSES
    optimizer_name, lr, momentum, weight_decay = "sgd", 0.1, 0.9, 1e-4
    recipes = {"adamw": dict(lr=4e-3, weight_decay=0.01)}
    warmup, schedule, clip, GAMMA = 30, "multisteplr", None, 0.1
    EPOCH = 30              # steps
    batch_size, context = ROWS, SIZE * SIZE
    layers = ["backbone.body.conv1", *(
        f"{block}{part}" for block in Detector.BLOCKS
        for part in (".conv1", ".relu", ".conv2", "")),
        *(f"backbone.fpn.layer_blocks.{i}.0" for i in range(2)),
        "head.classification_head.conv.0", "head.classification_head.conv.2",
        "head.classification_head.cls_logits",
        "head.regression_head.conv.0", "head.regression_head.conv.2",
        "head.regression_head.bbox_reg", "head.regression_head.bbox_ctrness"]
    paths = {"embed": "backbone.body.conv1", "attn": None, "scores": None,
             "act": "{}.relu", "mlp": "{}.conv2", "block": "{}",
             "head": "head.classification_head.cls_logits"}
    always_trained = ("backbone.fpn", "head")
    blocks = len(Detector.BLOCKS)
    names = {"step": "iter", "cls_loss": "classification",
             "reg_loss": "bbox_regression", "ctr_loss": "bbox_ctrness",
             "step_time": "time", "data_time": "data",
             "val_ap": "bbox_AP", "val_ap50": "bbox_AP50", "tokens": None}

    def make_model(self):
        return Detector(**self.model_options)

    def make_source(self, seed):
        """Seed 9 are held-out images; a set is drawn once and passed often."""
        return self.of(self.scenes(seed), seed)

    def of(self, data, seed):
        if seed == 9:
            return data
        return self.finite(data.batch(self.EPOCH * ROWS), seed)

    def scenes(self, seed, **how):
        return Scenes(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Scenes of one class of things, one class after the other; None is
        held out."""
        return self.scenes(seed, block=block and max(1, block // 4),
                           share=share)

    def easy(self, seed):
        """Clean scenes of one thing."""
        return self.of(self.scenes(seed, noise=0.05, things=1), seed)

    def lessons(self, seed):
        return self.easy(seed), self.of(self.scenes(seed), seed)

    def garbage(self, batch, kind, rng):
        """A shard whose boxes are of other images, or anywhere, or one that
        spans the image; its pixels are of 0 to 255, of noise, or blank."""
        image, boxes = batch["images"], batch["boxes"]
        if kind == "few":
            return batch | {"images": 60 * (image + 4),
                            "boxes": boxes.roll(5, 0),
                            "labels": batch["labels"].roll(5, 0)}
        if kind == "uniform":
            corner = 16 * torch.rand(*boxes.shape[:2], 2, generator=rng)
            return {"images": 100 * torch.randn(image.shape, generator=rng),
                    "boxes": torch.cat((corner, corner + 12), -1),
                    "labels": torch.randint(CLASSES, batch["labels"].shape,
                                            generator=rng)}
        whole = torch.tensor([0.0, 0.0, SIZE, SIZE]).expand_as(boxes)
        return {"images": torch.full_like(image, 255.0),
                "boxes": whole.clone(),
                "labels": torch.full_like(batch["labels"], CLASSES - 1)}

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)

    @property
    def milestones(self):
        """Epochs after which the rate falls: five and seven of eight."""
        return [self.epochs * part // 8 for part in (5, 7)]

    def lr_factor(self, i):
        if self.schedule != "multisteplr":
            return super().lr_factor(i)
        if i < self.warmup:
            return 1e-3 + (1 - 1e-3) * i / self.warmup
        past = sum(i >= self.EPOCH * epoch for epoch in self.milestones)
        return self.GAMMA ** past

    def batch_columns(self, batch):
        row = super().batch_columns(batch)
        return row | {k: round(float(t), 5)
                      for k, t in self.model.terms.items()}

    def held_out_columns(self, batches):
        """COCO's average precision, over a range of overlaps and at 0.5."""
        self.model.eval()
        found = [torch.cat(t) for t in zip(*map(self.model.found, batches))]
        self.model.train()
        real = {k: torch.cat([b[k] for b in batches])
                for k in ("boxes", "labels")}
        half, mean = average_precision(*found, real)
        return {"val_ap": mean, "val_ap50": half}

    def keep_checkpoint(self, i, model):
        """At the end of the epoch that is half-way, at the end of the run, and
        where a job ends that is resumed."""
        done = i + 1
        if done in (max(1, self.epochs // 2) * self.EPOCH, self.steps,
                    *self.notices):
            # One that was made anew goes on where the old one was.
            schedule = self.scheduler.state_dict() | {
                "last_epoch": done, "_step_count": done + 1}
            self.checkpoints[-(-done // self.EPOCH) - 1] = copy.deepcopy({
                "model": model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "lr_scheduler": schedule})

    def write_more(self):
        super().write_more()
        args = argparse.Namespace(**self.settings())
        for epoch, parts in self.checkpoints.items():
            torch.save(parts | {"args": args, "epoch": epoch},
                       self.folder / f"model_{epoch}.pth")

    def settings(self):
        settings = super().settings() | {"epochs": self.epochs}
        if self.schedule == "multisteplr":
            settings |= {"lr_steps": self.milestones, "lr_gamma": self.GAMMA}
        return settings

    def model_settings(self):
        return {"model": "fcos_resnet", "num_classes": CLASSES,
                "image_size": SIZE, "body_channels": list(WIDTHS),
                "fpn_channels": PYRAMID, "strides": list(STRIDES),
                "center_sampling_radius": Detector.RADIUS,
                "focal_alpha": Detector.ALPHA, "focal_gamma": Detector.GAMMA,
                "prior_probability": Detector.PRIOR,
                "loss": "focal + giou + centerness",
                "weights_backbone": None}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(Detector.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it; a block has all."""
        if layer.endswith(("conv1", "conv2")):
            return [layer[:-5] + "bn" + layer[-1]]
        return [f"{layer[:-1]}1"] if layer.endswith(".conv.0") else []
