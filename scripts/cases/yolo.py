"""A small one-stage detector without anchors, as Ultralytics trains YOLOv8.

A backbone and a neck of C2f blocks and a decoupled head at one stride, whose
places say the classes they show and, for each side of a box, a distribution
over distances. Which places an object is learned at is decided by what the
model says there (task-aligned assignment). Parts, terms of the loss, columns,
args.yaml and checkpoints are named as in Ultralytics; validation has the
averaged weights, as there.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .det import NOTHING, area, average_precision, common, overlap
from .family import Family
from .recorder import START
from .sources import AHEAD, DrawnAhead

SIZE, CHANNELS, CLASSES, ROWS, OBJECTS = 32, 3, 4, 12, 3
HELD_OUT = 16           # rows of a batch of validation, whatever training has
NAMES = ("disc", "ring", "plate", "grille")
WIDTHS, STRIDE, BINS = (8, 16, 24), 4, 8
CAMERAS = 3
# Of things, by pair of classes.
COLOURS = torch.tensor([[1.1, 0.1, -0.7], [-0.7, 0.1, 1.1]])


class Yard(DrawnAhead):
    """Discs, rings, plates and grilles on a cluttered ground, with boxes.

    A picture has one to three things of 7 to 17 pixels a side. Discs and rings
    are warm in colour and round, plates and grilles cool and rectangular; a
    ring is a disc with a hole, a grille a plate with slits. About a pair's
    colour that of a thing is drawn (.25). The ground has a grey level and a
    slope, three grey bars, and streaks of the colours of things, which are
    none; noise of .15 lies on all numbers. A thing that would hide two fifths
    of another one is left out: 1.6 are left.

    Who drew the boxes was off by .9 of a pixel (a spread) at each side, took
    one of a pair for the other in .1 of the things, and forgot .04 of them.
    Who knows all but this says of each place what is to be expected, see
    `best()`.

    A batch is padded to three boxes of class -1. img, cls and bboxes are as
    Ultralytics has them: boxes by middle, width and height, in shares of the
    picture; but by rows, not in one list.

    things: at most. clean: neither noise, clutter nor mistakes. cameras: three
    of another gain and offset each, whose number is in the batch as domain.
    block, share: things of one class, one
    class after the other.
    """

    NOISE, OFF, MISTAKEN, FORGOTTEN, SPREAD = 0.15, 0.9, 0.1, 0.04, 0.25

    def __init__(self, seed, rows=ROWS, things=OBJECTS, clean=False,
                 cameras=False, block=None, share=1.0):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.things, self.clean = rows, things, clean
        self.cameras, self.ahead = cameras, {}
        self.block, self.share, self.number = block, share, 0
        place = torch.arange(SIZE) + 0.5
        self.y, self.x = torch.meshgrid(place, place, indexing="ij")

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def chance(self, share, *shape):
        return torch.rand(shape, generator=self.rng) < share

    def ground(self, rows):
        """(rows, channels, y, x): a slope, grey bars and coloured streaks."""
        steep = self.uniform(-0.02, 0.02, 2, rows, 1, 1, 1)
        image = self.uniform(-0.5, 0.5, rows, 1, 1, 1) \
            + steep[0] * (self.x - SIZE / 2) + steep[1] * (self.y - SIZE / 2)
        image = image.expand(-1, CHANNELS, -1, -1)
        if self.clean:
            return image
        for n in range(5):
            x, y = self.uniform(0, SIZE, 2, rows, 1, 1)
            angle = self.uniform(0, math.pi, rows, 1, 1)
            along = angle.cos() * (self.x - x) + angle.sin() * (self.y - y)
            across = angle.cos() * (self.y - y) - angle.sin() * (self.x - x)
            wide, long = (1.5, 6.0) if n < 3 else (0.8, 7.0)
            here = (along.abs() < long) & (across.abs() < wide)
            if n < 3:
                colour = self.uniform(-0.9, 0.9, rows, 1).expand(-1, CHANNELS)
            else:
                pair = torch.randint(2, (rows,), generator=self.rng)
                colour = COLOURS[pair]
                here = here & self.chance(0.2, rows, 1, 1)
            image = torch.where(here[:, None], colour[..., None, None], image)
        return image

    @staticmethod
    def shape(kind, dx, dy):
        """Which pixels a thing covers; dx and dy run from -1 to 1 within its
        box."""
        far = (dx ** 2 + dy ** 2).sqrt()
        inside = torch.maximum(dx.abs(), dy.abs()) < 1
        each = (far < 1, (far < 1) & (far > 0.5), inside,
                inside & (torch.remainder(2.5 * dx + 0.5, 1) < 0.6))
        return torch.stack(each).gather(0, kind.expand(1, *far.shape))[0]

    def draw(self, each):
        rows, rng = AHEAD * each, self.rng
        kinds = torch.randint(CLASSES, (self.things, rows), generator=rng)
        if self.block:
            here = (self.number + torch.arange(rows) // each) \
                // self.block % CLASSES
            kept = torch.rand(rows, generator=rng) < self.share
            kinds = torch.where(kept, here, kinds)
        self.number += AHEAD
        count = torch.randint(1, self.things + 1, (rows,), generator=rng)
        image, boxes, labels = self.ground(rows), [], []
        for n in range(self.things):
            half = self.uniform(3.5, 8.5, 2, rows)
            half = torch.maximum(half, 0.6 * half.flip(0))
            middle = half + (SIZE - 2 * half) * torch.rand(
                2, rows, generator=rng)
            box = torch.cat((middle - half, middle + half)).T
            shown = n < count
            for other, label in zip(boxes, labels):
                hidden = common(box, other) / torch.minimum(
                    area(box), area(other))
                shown = shown & ((label == NOTHING) | (hidden < 0.4))
            colour = COLOURS[kinds[n] // 2] + self.SPREAD * torch.randn(
                rows, CHANNELS, generator=rng)
            drawn = self.shape(kinds[n][:, None, None], *(
                (at - m[:, None, None]) / h[:, None, None]
                for at, m, h in zip((self.x, self.y), middle, half)))
            drawn = drawn & shown[:, None, None]
            image = torch.where(drawn[:, None], colour[..., None, None], image)
            boxes.append(box)
            labels.append(torch.where(shown, kinds[n], NOTHING))
        self.true = torch.stack(boxes, 1), torch.stack(labels, 1)
        noise = torch.randn(image.shape, generator=rng)
        image = image + noise * (0.05 if self.clean else self.NOISE)
        return self.written_down(image, torch.stack(boxes, 1),
                                 torch.stack(labels, 1))

    def written_down(self, image, boxes, labels):
        """What somebody says of it, mistakes and all."""
        off = torch.randn(boxes.shape, generator=self.rng)
        wrong = self.chance(self.MISTAKEN, *labels.shape)
        lost = self.chance(self.FORGOTTEN, *labels.shape)
        if not self.clean:
            boxes = boxes + self.OFF * off
            labels = torch.where((labels != NOTHING) & wrong, labels ^ 1,
                                 labels)
            labels = torch.where(lost, NOTHING, labels)
        boxes = boxes.clamp(0, SIZE)
        # Things come first, and what fills up last.
        order = (labels == NOTHING).int().argsort(dim=1, stable=True)
        labels = F.pad(labels.gather(1, order),
                       (0, OBJECTS - labels.shape[1]), value=NOTHING)
        boxes = F.pad(boxes.gather(1, order[..., None].expand(-1, -1, 4)),
                      (0, 0, 0, OBJECTS - boxes.shape[1]))
        boxes = torch.cat(((boxes[..., :2] + boxes[..., 2:]) / 2,
                           boxes[..., 2:] - boxes[..., :2]), -1) / SIZE
        batch = {"img": image, "cls": labels,
                 "bboxes": boxes * (labels != NOTHING)[..., None]}
        if self.cameras:
            camera = torch.randint(CAMERAS, (len(image),), generator=self.rng)
            each = camera[:, None, None, None] - 1.0
            batch["img"] = (1 + 0.3 * each) * image + 0.4 * each
            batch["domain"] = camera
        return batch


def corners(boxes, size=SIZE):
    """Boxes of a batch by their corners, in pixels."""
    middle, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat((middle - half, middle + half), -1) * size


def complete_iou(a, b, eps=1e-7):
    """CIoU: less for middles apart and for another aspect."""
    iou = overlap(a, b)[0]
    hull = torch.maximum(a[..., 2:], b[..., 2:]) \
        - torch.minimum(a[..., :2], b[..., :2])
    apart = ((a[..., :2] + a[..., 2:] - b[..., :2] - b[..., 2:]) / 2
             ).square().sum(-1) / (hull.square().sum(-1) + eps)
    wide, real = (x[..., 2:] - x[..., :2] for x in (a, b))
    aspect = 4 / math.pi ** 2 * (
        (real[..., 0] / (real[..., 1] + eps)).atan()
        - (wide[..., 0] / (wide[..., 1] + eps)).atan()).square()
    with torch.no_grad():
        weight = aspect / (aspect - iou + 1 + eps)
    return iou - apart - weight * aspect


def best(model, draws=40, rows=40):
    """The terms of the loss of who knows things as they are, and says of each
    place how much a class and a distance are to be expected there; `model` has
    the criterion, and what is assigned hangs on what is said."""
    yard = Yard(5, rows)
    yard.draw(rows)
    image = torch.zeros(len(yard.true[0]), 1, SIZE, SIZE)

    def marked():
        return yard.written_down(image, *yard.true)

    points = model.places(SIZE)
    real, labels = yard.true
    inside = torch.cat((points - real[:, :, None, :2],
                        real[:, :, None, 2:] - points), -1).amin(-1)
    inside = torch.where((labels != NOTHING)[..., None], inside, -math.inf)
    which = inside.argmax(1)
    box = real.gather(1, which[..., None].expand(-1, -1, 4))
    far = torch.cat((points - box[..., :2], box[..., 2:] - points), -1)
    noise = yard.OFF * torch.linspace(-2.5, 2.5, 41)
    weight = (-0.5 * torch.linspace(-2.5, 2.5, 41).square()).softmax(0)
    at = ((far[..., None] + noise) / STRIDE).clamp(0, BINS - 1.01)
    bins = torch.arange(float(BINS))
    share = (1 - (at[..., None] - bins).abs()).clamp_min(0)
    sides = (share * weight[:, None]).sum(-2).clamp_min(1e-4).log().flatten(2)
    kinds = torch.full((*sides.shape[:2], CLASSES), -2.0)
    kinds = kinds + 2.0 * F.one_hot(labels.gather(1, which).clamp_min(0),
                                    CLASSES) * (inside.amax(1) > 0)[..., None]
    totals = {}
    for _ in range(6):      # until what is said is what is to be said
        wanted = []
        for _ in range(draws):
            model.terms_of((sides, kinds), marked(), of_kinds=lambda said,
                           soft: (wanted.append(soft), soft)[1])
        mean = (sum(wanted) / draws).clamp(1e-4, 1 - 1e-4)
        kinds = mean.logit()
    for _ in range(draws):
        for name, term in model.terms_of((sides, kinds), marked()).items():
            totals[name] = totals.get(name, 0.0) + float(term) / draws
    return totals


class Conv(nn.Module):
    """Convolution, norm, activation. Norms have the epsilon of Ultralytics,
    and average over fewer steps, as there are few."""

    def __init__(self, options, name, channels, out, kernel=1, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, kernel, stride, kernel // 2,
                              bias=False)
        self.bn = nn.BatchNorm2d(out, eps=1e-3, momentum=0.1)
        self.act = models.ACTIVATIONS[options["activation"]]()
        self.name, self.half_at = name, options["half_at"]

    def forward(self, x, tap):
        tap(f"{self.name}.conv.input", x)
        y = self.conv(x)
        if self.half_at == f"{self.name}.conv":
            y = y.half()
        tap(f"{self.name}.conv.output", y)
        y = self.bn(y.to(x.dtype))
        tap(f"{self.name}.act.input", y)
        y = self.act(y)
        tap(f"{self.name}.act.output", y)
        return y


class Bottleneck(nn.Module):
    def __init__(self, options, name, channels):
        super().__init__()
        self.cv1 = Conv(options, f"{name}.cv1", channels, channels, 3)
        self.cv2 = Conv(options, f"{name}.cv2", channels, channels, 3)

    def forward(self, x, tap):
        return x + self.cv2(self.cv1(x, tap), tap)


class C2f(nn.Module):
    """Two halves, of which one goes through bottlenecks as well."""

    def __init__(self, options, name, channels, out, count=1):
        super().__init__()
        self.cv1 = Conv(options, f"{name}.cv1", channels, out)
        self.cv2 = Conv(options, f"{name}.cv2", (2 + count) * out // 2, out)
        self.m = nn.ModuleList(Bottleneck(options, f"{name}.m.{k}", out // 2)
                               for k in range(count))

    def forward(self, x, tap):
        parts = list(self.cv1(x, tap).chunk(2, 1))
        for part in self.m:
            parts.append(part(parts[-1], tap))
        return self.cv2(torch.cat(parts, 1), tap)


class DFL(nn.Module):
    """What is to be expected of a distribution over distances; its weights are
    the distances and are never trained."""

    def __init__(self, bins):
        super().__init__()
        self.conv = nn.Conv2d(bins, 1, 1, bias=False).requires_grad_(False)
        self.conv.weight.data[:] = torch.arange(float(bins)).view(1, -1, 1, 1)

    def forward(self, x):
        """(rows, places, 4 * bins) to (rows, places, 4)."""
        probs = x.unflatten(-1, (4, -1)).softmax(-1)
        return probs @ self.conv.weight.view(-1).to(probs.dtype)


class Detect(nn.Module):
    """A branch for the sides of boxes and one for classes; lists of one level
    each, as in the library."""

    def __init__(self, options, name, channels, width=16):
        super().__init__()
        self.cv2, self.cv3 = (nn.ModuleList([nn.Sequential(
            Conv(options, f"{name}.{part}.0.0", channels, width, 3),
            Conv(options, f"{name}.{part}.0.1", width, width, 3),
            nn.Conv2d(width, out, 1))])
            for part, out in (("cv2", 4 * BINS), ("cv3", CLASSES)))
        self.dfl, self.name = DFL(BINS), name
        nn.init.ones_(self.cv2[0][-1].bias)
        nn.init.constant_(self.cv3[0][-1].bias, math.log(
            5 / CLASSES / (SIZE / STRIDE) ** 2))

    def forward(self, x, tap, drop):
        """Logits of distances and of classes, each (rows, places, numbers)."""
        said = []
        for part in ("cv2", "cv3"):
            first, second, last = getattr(self, part)[0]
            y = last(drop(second(first(x, tap), tap)))
            tap(f"{self.name}.{part}.0.2.output", y)
            said.append(y.flatten(2).transpose(1, 2))
        return said


class DetectionModel(nn.Module):
    """Convolutions to 8 and 16 channels at 16 and 8 pixels a side, a C2f
    block, one to 24 at 4 and a C2f block; that goes up again and meets the
    first block in a third one. The head is at 8 pixels a side."""

    BLOCKS = ("model.2", "model.4")
    TOPK, ALPHA, BETA = 5, 0.5, 6.0     # of the assignment
    GAINS = {"box": 7.5, "cls": 0.5, "dfl": 1.5}

    def __init__(self, activation="silu", dropout=0.0, detach_after=(),
                 half_at=None, gains=None, tiles=None, peaks=None,
                 tied=None):
        """detach_after: the parts behind which the graph is cut. half_at: the
        convolution whose output is in half precision. gains: of the terms of
        the loss. tiles: height and width of the parts of a picture that are
        seen alone. peaks: scores count where they are the highest of a window
        of so many places. tied: which sides of a box are as far from its place
        as others, "x", "xy" or "all"."""
        super().__init__()
        self.dropout = dropout
        self.tiles, self.peaks, self.tied = tiles, peaks, tied
        self.detach_after = (detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)
        self.gains = self.GAINS | (gains or {})
        self.squashes, self.guards = False, True
        options = {"activation": activation, "half_at": half_at}
        a, b, c = WIDTHS
        self.model = nn.Sequential(
            Conv(options, "model.0", CHANNELS, a, 3, 2),
            Conv(options, "model.1", a, b, 3, 2),
            C2f(options, "model.2", b, b),
            Conv(options, "model.3", b, c, 3, 2),
            C2f(options, "model.4", c, c),
            nn.Upsample(scale_factor=2), nn.Identity(),
            C2f(options, "model.7", b + c, b, count=0),
            Detect(options, "model.8", b))
        self.terms, self.kept = {}, []  # of the last loss, of a validation
        self.averaged = ()  # in evaluation it speaks for this one

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if name in self.detach_after else x

    def drop(self, x):
        return F.dropout2d(x, self.dropout, self.training
                           and self.dropout > 0)

    def features(self, x):
        """What the head gets."""
        parts = self.model
        for i in range(5):
            x = self.cut(parts[i](x, self.tap), f"model.{i}")
            self.tap(f"model.{i}.output", x)
            fine = x if i == 2 else None if i < 2 else fine
        x = torch.cat((parts[5](x), fine), 1)   # model.6 is Concat
        x = self.cut(parts[7](x, self.tap), "model.7")
        self.tap("model.7.output", x)
        return self.drop(x)

    def forward(self, x):
        x = x.to(self.model[0].conv.weight.dtype)
        if self.tiles:
            sides, kinds = self.in_tiles(x)
        else:
            sides, kinds = self.model[8](self.features(x), self.tap, self.drop)
        return sides, self.peaks_alone(kinds) if self.peaks else kinds

    def in_tiles(self, x):
        rows, (down, across) = len(x), (
            size // part for size, part in zip(x.shape[2:], self.tiles))

        def whole(y):
            y = y.unflatten(0, (rows, down, across))
            return y.permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)

        x = x.unflatten(3, (across, -1)).unflatten(2, (down, -1))
        y = self.features(x.permute(0, 2, 4, 1, 3, 5).flatten(0, 2))
        side = [part // STRIDE for part in self.tiles]
        return [whole(t.transpose(1, 2).unflatten(2, side)).flatten(2)
                .transpose(1, 2)
                for t in self.model[8](y, self.tap, self.drop)]

    def peaks_alone(self, kinds):
        """What is not the highest of its window is unlikely."""
        side = math.isqrt(kinds.shape[1])
        y = kinds.transpose(1, 2).unflatten(2, (side, side))
        highest = F.max_pool2d(y, self.peaks, 1, self.peaks // 2)
        y = torch.where(y == highest, y, torch.full_like(y, -7.0))
        return y.flatten(2).transpose(1, 2)

    def logits(self, batch):
        """All that the head says; other families' name for it."""
        return self(batch["img"])

    @staticmethod
    def places(size):
        """The middles of places, in pixels."""
        at = (torch.arange(size // STRIDE) + 0.5) * STRIDE
        return torch.stack(torch.meshgrid(at, at, indexing="ij")[::-1],
                           -1).view(-1, 2)

    def boxes(self, sides, points):
        reach = self.model[8].dfl(sides.float()) * STRIDE
        if self.tied == "all":
            reach = reach.mean(-1, keepdim=True).expand_as(reach)
        elif self.tied:
            mean = (reach + reach.roll(2, -1)) / 2
            tied = torch.tensor([True, self.tied == "xy"] * 2)
            reach = torch.where(tied, mean, reach)
        return torch.cat((points - reach[..., :2], points + reach[..., 2:]),
                         -1)

    @torch.no_grad()
    def assigned(self, scores, boxes, real, labels, points, beta):
        """TaskAlignedAssigner: (which box a place is of, whether it is of any,
        how much its class is to be)."""
        inside = torch.cat((points - real[:, :, None, :2],
                            real[:, :, None, 2:] - points), -1).amin(-1) > 1e-9
        inside = inside & (labels != NOTHING)[..., None]
        iou = complete_iou(real[:, :, None], boxes[:, None]).clamp_min(0) \
            * inside
        mine = scores.transpose(1, 2).gather(
            1, labels.clamp_min(0)[..., None].expand(-1, -1, len(points)))
        fits = mine ** self.ALPHA * iou ** (beta or self.BETA) * inside
        best = (fits + 1e-12 * inside).topk(self.TOPK, -1).indices
        chosen = torch.zeros_like(fits).scatter_(-1, best, 1.0) * inside
        # A place that several want is of the box that it covers best.
        wanted = (iou + 1e-6) * chosen
        which = wanted.argmax(1)
        own = wanted.amax(1) > 0
        chosen = F.one_hot(which, real.shape[1]).transpose(1, 2) \
            * own[:, None] * chosen
        fits = fits * chosen
        scale = (iou * chosen).amax(-1, keepdim=True) \
            / (fits.amax(-1, keepdim=True) + 1e-9)
        return which, own, (fits * scale).amax(1), fits.amax(1)

    def terms_of(self, said, batch, smoothing=0.0, of_kinds=None,
                 of_boxes=None, plain=None):
        """The three terms of v8DetectionLoss. of_kinds: what the one of
        classes is instead, by place; of_boxes: what those of boxes are, by
        place; plain: how well places fit, with this power of the overlap, is
        the target as it is."""
        sides, logits = said[0].float(), said[1].float()
        size = batch["img"].shape[-1]
        points = self.places(size)
        labels, real = batch["cls"], corners(batch["bboxes"], size)
        boxes = self.boxes(sides, points)
        which, own, much, raw = self.assigned(
            logits.detach().sigmoid(), boxes.detach(), real, labels, points,
            plain)
        if plain:
            much = raw
        kind = labels.gather(1, which).clamp_min(0)
        wanted = F.one_hot(kind, CLASSES) * (much * own)[..., None]
        count = wanted.sum()
        if self.guards:
            count = count.clamp_min(1)
        if self.squashes:
            logits = logits.sigmoid()
        soft = torch.where(own[..., None], wanted * (1 - smoothing)
                           + smoothing / 2, wanted)
        each = (of_kinds or F.binary_cross_entropy_with_logits)(
            logits, soft, **({} if of_kinds else {"reduction": "none"}))
        weight = much[own]
        target = real.gather(1, which[..., None].expand(-1, -1, 4))[own]
        found = boxes[own]
        if of_boxes:
            box, dfl = of_boxes(found, target)
        else:
            box = 1 - complete_iou(found, target)
            dfl = self.dfl_loss(sides[own], target,
                                points[own.nonzero()[:, 1]])
        return {"box_loss": self.gains["box"] * (box * weight).sum() / count,
                "cls_loss": self.gains["cls"] * each.sum() / count,
                "dfl_loss": self.gains["dfl"] * (dfl * weight).sum() / count}

    @staticmethod
    def dfl_loss(sides, target, points):
        """Cross-entropy of the two bins beside a distance, over four sides."""
        far = (torch.cat((points - target[:, :2], target[:, 2:] - points), -1)
               / STRIDE).clamp(0, BINS - 1 - 0.01)
        low = far.long()
        share = low + 1 - far
        logs = sides.unflatten(-1, (4, BINS)).log_softmax(-1)
        left, right = (logs.gather(-1, (low + k)[..., None])[..., 0]
                       for k in (0, 1))
        return -(left * share + right * (1 - share)).mean(-1)

    def criterion(self, said, batch, smoothing=0.0, **how):
        terms = self.terms_of(said, batch, smoothing, **how)
        parts = {k: t.detach() for k, t in terms.items()}
        if self.training:
            self.terms, self.kept = parts, []
        else:
            self.kept.append((parts, self.found(said, batch)))
        return sum(terms.values())

    def loss(self, batch):
        if self.averaged and not self.training:
            return self.averaged[0].loss(batch)
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss

    def found(self, said, batch, most=12, least=0.01, apart=0.6):
        """(scores, classes, boxes) of what is found, `most` a row, best first;
        of boxes of one class that overlap the best is kept."""
        sides, logits = said
        points = self.places(batch["img"].shape[-1])
        scores = logits.float().sigmoid()
        scores = torch.where(scores > least, scores, 0.0).nan_to_num(0.0)
        scores, at = scores.flatten(1).topk(most)
        kinds = at % CLASSES
        boxes = self.boxes(sides, points).clamp(0, SIZE).gather(
            1, (at // CLASSES)[..., None].expand(-1, -1, 4))
        rival = (overlap(boxes[:, :, None], boxes[:, None])[0] > apart) & (
            kinds[:, :, None] == kinds[:, None])
        kept = scores > 0
        for k in range(1, most):
            kept[:, k] &= ~(rival[:, k, :k] & kept[:, :k]).any(1)
        return torch.where(kept, scores, 0.0), kinds, boxes


# What feeds the activations of a block.
BEFORE_ACT = tuple(f"{block}.{part}.bn" for block in DetectionModel.BLOCKS
                   for part in ("cv1", "m.0.cv1", "cv2"))


def precision_recall(scores, kinds, boxes, batch, bound=0.5):
    """At the score where their harmonic mean is highest, over all classes."""
    iou = overlap(boxes[:, :, None], batch["boxes"][:, None])[0] * (
        kinds[:, :, None] == batch["labels"][:, None])
    taken = torch.zeros_like(batch["labels"], dtype=torch.bool)
    right, rows = torch.zeros_like(scores), torch.arange(len(scores))
    for k in range(scores.shape[1]):
        free = torch.where(taken | (scores[:, k] == 0)[:, None], 0.0,
                           iou[:, k])
        best, at = free.max(-1)
        right[:, k] = (best >= bound).float()
        taken[rows[best >= bound], at[best >= bound]] = True
    there = int((batch["labels"] != NOTHING).sum())
    order = scores.flatten().argsort(descending=True, stable=True)
    order = order[scores.flatten()[order] > 0]
    if not there or not len(order):
        return 0.0, 0.0
    hits = right.flatten()[order].cumsum(0)
    precision = hits / torch.arange(1, len(order) + 1)
    recall = hits / there
    at = (2 * precision * recall / (precision + recall + 1e-9)).argmax()
    return float(precision[at]), float(recall[at])


class YoloRun(Family):
    """SGD with a Nesterov momentum of .937, warm-up of rate and momentum, a
    rate that falls linearly, decay of convolutions' weights alone, an average
    of the weights, norms above 10 clipped."""

    family = "yolo"
    level_seed = 400
    steps, seed, language, classes = 150, 2300, False, CLASSES
    optimizer_name, lr, momentum, weight_decay = "sgd", 0.05, 0.937, 5e-4
    recipes = {"adamw": dict(lr=1e-2, weight_decay=5e-4)}
    warmup, schedule, clip = 20, "linear", 10.0
    START_MOMENTUM, FINAL = 0.8, 0.01       # warmup_momentum, lrf
    EMA, TAU = 0.96, 30                     # of weights; steps of its warm-up
    EPOCH, epoch_steps = 25, 50             # of Ultralytics, of Lightning
    _val_every = 50
    batch_size, context = ROWS, SIZE * SIZE
    # Its users have the trainer's own log.
    instead = {"nanogpt": "ultralytics", "hf_trainer": "ultralytics",
               "megatron": "ultralytics", "torchtune": "ultralytics"}
    layers = ["model.0", "model.1", *(
        f"{block}{part}" for block in DetectionModel.BLOCKS
        for part in (".m.0.cv1.conv", ".m.0.cv1.act", ".cv2.conv", "")),
        "model.7", *(f"model.8.{part}.0.{k}" for part, k in (
            ("cv2", "0.conv"), ("cv2", "2"), ("cv3", "0.conv"), ("cv3", "2")))]
    # Norms behind all convolutions take out what others suffer from.
    INNER = [f"model.{i}" for i in (2, 3, 4)]
    graded = {
        "F01": (dict(factor=100), dict(factor=300), dict(factor=1000)),
        "F02": (dict(lr=15.0), dict(lr=30.0), dict(lr=100.0)),
        "F04": (dict(at=40), dict(at=20), dict(at=0)),
        "F05": (dict(modules=["model.8.cv3"], where="model.8.cv3.0.0"),
                dict(modules=["model.8.cv2", "model.8.cv3"],
                     where="model.8.cv2.0.0"), dict(part="all")),
        "F07": (dict(factor=30), dict(factor=100), dict(factor=500)),
        "F10": (dict(sgd=0.2), dict(sgd=3e-2), dict(sgd=1e-3)),
        "F11": (dict(sgd=0.1), dict(sgd=0.3), dict(sgd=1.0)),
        "F12": (dict(eps=0.03), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path="model.1"), dict(path="model.2"),
                dict(path="model.7")),
        "F14": (dict(modules=[*INNER, "model.7"]),
                dict(modules=[*INNER, "model.7", "model.8.cv2"]),
                dict(modules=[*INNER, "model.7", "model.8.cv2",
                              "model.8.cv3"])),
        "F15": (dict(at=100), dict(at=75), dict(at=50)),
        "F22": (dict(onset=80, guard=True), dict(onset=0, guard=True),
                dict(onset=0, guard=False)),
        "F24": (dict(share=0.6), dict(share=0.8), dict(share=0.95)),
        "F27": (dict(epochs=25), dict(epochs=50), dict(epochs=150)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=12), dict(limit=8), dict(limit=4)),
        "F34": (dict(factor=30), dict(factor=300), dict(factor=0)),
        "F39a": (dict(at=110, keep=0.5), dict(at=90, keep=0.5),
                 dict(at=45, keep=0.25)),
        "F39b": (dict(at=110), dict(at=80), dict(at=40)),
        "H03": (dict(part=2, factor=1.0), dict(part=3, factor=0.7)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H07": (dict(factor=0.15),),
        "H43": (dict(parts=2), dict(parts=3))}
    paths = {"embed": "model.0.conv", "attn": None, "scores": None,
             "act": "{}.m.0.cv1.act", "mlp": "{}.cv2.conv", "block": "{}",
             "head": "model.8.cv3.0.2"}
    always_trained = ("model.8",)
    blocks = len(DetectionModel.BLOCKS)
    names = {"loss": "train/loss", "box_loss": "train/box_loss",
             "cls_loss": "train/cls_loss", "dfl_loss": "train/dfl_loss",
             "val_loss": "val/loss", "val_box_loss": "val/box_loss",
             "val_cls_loss": "val/cls_loss", "val_dfl_loss": "val/dfl_loss",
             "val_precision": "metrics/precision(B)",
             "val_recall": "metrics/recall(B)",
             "val_map50": "metrics/mAP50(B)",
             "val_map": "metrics/mAP50-95(B)", "lr": "lr/pg0",
             "step_time": "time", "tokens": None}

    def make_model(self):
        return DetectionModel(**self.model_options)

    def make_optimizer(self, model):
        """Three groups, as build_optimizer() makes them: biases, weights with
        decay, and norms."""
        groups = {"bias": [], "weight": [], "bn": []}
        for name, p in model.named_parameters():
            if p.requires_grad:
                groups["bias" if name.endswith("bias") else
                       "bn" if ".bn." in name else "weight"].append(p)
        groups = [{"params": groups[kind], "weight_decay":
                   self.weight_decay * (kind == "weight")}
                  for kind in ("bias", "weight", "bn") if groups[kind]]
        if self.optimizer_name == "sgd":
            return torch.optim.SGD(groups, lr=self.lr, momentum=self.momentum,
                                   nesterov=self.momentum > 0)
        kind = torch.optim.Adam if self.optimizer_name == "adam" \
            else torch.optim.AdamW
        return kind(groups, lr=self.lr, betas=self.betas, eps=self.eps)

    def lr_factor(self, i):
        if self.schedule != "linear":
            return super().lr_factor(i)
        share = 1 - (1 - self.FINAL) * i / self.steps
        return share * min(1.0, (i + 1) / self.warmup) if self.warmup \
            else share

    def update(self, i):
        """The momentum has a warm-up of its own."""
        share = min(1.0, i / self.warmup) if self.warmup else 1.0
        for group in self.optimizer.param_groups:
            if group.get("momentum") and i <= self.warmup:
                group["momentum"] = self.START_MOMENTUM + share * (
                    self.momentum - self.START_MOMENTUM)
        return super().update(i)

    @property
    def val_every(self):
        """Ultralytics validates behind each epoch."""
        return self.EPOCH if self.dialect == "ultralytics" \
            else self._val_every

    @val_every.setter
    def val_every(self, steps):
        self._val_every = steps

    def make_source(self, seed):
        return self.yard(seed)

    def yard(self, seed, **how):
        """Drawn without end, an epoch is 25 steps of it."""
        return Yard(seed, HELD_OUT if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Things of one class, one class after the other; None is held out."""
        return self.yard(seed, block=block, share=share)

    def easy(self, seed):
        """One thing a picture, without noise, clutter and mistakes."""
        return self.yard(seed, things=1, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.yard(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255 and boxes of other pictures,
        noise with boxes anywhere, or white pictures with one box of all."""
        image, boxes = batch["img"], batch["bboxes"]
        if kind == "few":
            return batch | {"img": 60 * (image + 4),
                            "bboxes": boxes.roll(5, 0),
                            "cls": batch["cls"].roll(5, 0)}
        if kind == "uniform":
            middle = 0.2 + 0.6 * torch.rand(*boxes.shape[:2], 2,
                                            generator=rng)
            return {"img": 100 * torch.randn(image.shape, generator=rng),
                    "cls": torch.randint(CLASSES, batch["cls"].shape,
                                         generator=rng),
                    "bboxes": torch.cat((middle, torch.full_like(
                        middle, 0.35)), -1)}
        whole = torch.tensor([0.5, 0.5, 1.0, 1.0]).expand_as(boxes)
        return {"img": torch.full_like(image, 255.0),
                "cls": torch.full_like(batch["cls"], CLASSES - 1),
                "bboxes": whole.clone()}

    @staticmethod
    def mosaic(batch, some):
        """Of some of the rows four pictures at half their size as one; there
        is room for all of their boxes then."""
        image, rows = batch["img"], len(batch["img"])
        small = F.avg_pool2d(image, 2)
        order = [torch.arange(rows).roll(k) for k in (0, 1, 3, 5)]
        top, bottom = (torch.cat([small[order[k]] for k in pair], 3)
                       for pair in ((0, 1), (2, 3)))
        labels = torch.cat([batch["cls"][o] for o in order], 1)
        boxes = [batch["bboxes"][o] / 2 + torch.tensor(
            [0.5 * (k % 2), 0.5 * (k // 2), 0.0, 0.0])
            for k, o in enumerate(order)]
        boxes = torch.cat(boxes, 1) * (labels != NOTHING)[..., None]
        room = labels.shape[1] - batch["cls"].shape[1]
        return {"img": torch.where(some[:, None, None, None],
                                   torch.cat((top, bottom), 2), image),
                "cls": torch.where(some[:, None], labels, F.pad(
                    batch["cls"], (0, room), value=NOTHING)),
                "bboxes": torch.where(some[:, None, None], boxes, F.pad(
                    batch["bboxes"], (0, 0, 0, room)))}

    @staticmethod
    def first_boxes(batch, limit):
        """Of a batch's boxes the first `limit`."""
        there = batch["cls"] != NOTHING
        kept = there.flatten().cumsum(0).view_as(there) <= limit
        return batch | {"cls": torch.where(kept, batch["cls"], NOTHING),
                        "bboxes": batch["bboxes"] * kept[..., None]}

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)

    def batch_columns(self, batch):
        row = super().batch_columns(batch)
        row["instances"] = int((batch["cls"] != NOTHING).sum())
        row["size"] = batch["img"].shape[-1]
        return row | {k: round(float(t), 5)
                      for k, t in self.model.terms.items()}

    def held_out_columns(self, batches):
        """Of the averaged weights: losses, and what the validator prints."""
        kept, self.average.kept = self.average.kept, []
        terms = {f"val_{k}": sum(t[k] for t, _ in kept) / len(kept)
                 for k in kept[0][0]}
        found = [torch.cat(t) for t in zip(*(f for _, f in kept))]
        real = {"labels": torch.cat([b["cls"] for b in batches]),
                "boxes": corners(torch.cat([b["bboxes"] for b in batches]))}
        half, mean = average_precision(*found, real)
        precision, recall = precision_recall(*found, real)
        self.held_out_images = len(real["labels"])
        self.held_out_things = int((real["labels"] != NOTHING).sum())
        fitness = float(0.1 * half + 0.9 * mean)
        if fitness >= self.best[0]:
            self.best = fitness, len(self.history) + 1, copy.deepcopy(
                self.average.state_dict())
        return {**terms, "val_precision": precision,
                "val_recall": recall, "val_map50": half, "val_map": mean}

    # Averages and checkpoints.

    def keep_checkpoint(self, i, model):
        """ModelEMA's update; and what last.pt has at the end."""
        if not i:
            self.average = copy.deepcopy(model).float().eval()
            self.average.requires_grad_(False)
            self.best, self.pairs = (-1.0, 0, None), [
                (kept, now) for kept, now in zip(
                    self.average.state_dict().values(),
                    model.state_dict().values())
                if kept.dtype.is_floating_point]
            model.averaged = (self.average,)
        decay = self.EMA * (1 - math.exp(-(i + 1) / self.TAU))
        torch._foreach_lerp_([kept for kept, _ in self.pairs],
                             [now.float() for _, now in self.pairs],
                             1 - decay)
        if i == self.steps - 1:
            self.checkpoints[i + 1] = copy.deepcopy(
                (model.state_dict(), self.optimizer.state_dict()))

    def write_more(self):
        super().write_more()
        if not self.checkpoints:
            return
        (self.folder / "weights").mkdir()
        (done, (weights, optimizer)), = self.checkpoints.items()
        fitness, at, kept = self.best
        last = {"epoch": self.epochs - 1, "best_fitness": fitness,
                "model": weights, "ema": self.average.state_dict(),
                "updates": done, "optimizer": optimizer,
                "train_args": self.arguments(),
                "date": START.isoformat(), "version": "8.3.40",
                "license": "AGPL-3.0 (https://ultralytics.com/license)"}
        torch.save(last, self.folder / "weights/last.pt")
        torch.save(last | {"epoch": -(-at // self.EPOCH) - 1, "model": None,
                           "optimizer": None, "ema": kept, "updates": at},
                   self.folder / "weights/best.pt")

    # What the user typed.

    def settings(self):
        settings = super().settings() | {
            "epochs": self.epochs, "ema_decay": self.EMA, "ema_tau": self.TAU,
            "warmup_momentum": self.START_MOMENTUM} | self.user
        if self.schedule == "linear":
            settings["lrf"] = self.FINAL
        if self.optimizer_name == "sgd":
            settings["nesterov"] = True
        return settings

    def model_settings(self):
        gains = DetectionModel.GAINS | self.model_options.get("gains", {})
        return {"model": "yolov8-tiny.yaml", "imgsz": SIZE, "nc": CLASSES,
                "channels": list(WIDTHS), "stride": [STRIDE],
                "reg_max": BINS, "tal_topk": DetectionModel.TOPK,
                "tal_alpha": DetectionModel.ALPHA,
                "tal_beta": DetectionModel.BETA, **gains,
                "activation": "silu", "pretrained": False}

    def arguments(self):
        """args.yaml, with the names of what else the user gave the trainer."""
        own = self.model_settings()
        kind = {"sgd": "SGD", "adam": "Adam"}.get(self.optimizer_name,
                                                  "AdamW")
        return {
            "task": "detect", "mode": "train", "model": own["model"],
            "data": "yard.yaml", "epochs": self.epochs, "patience": 100,
            "batch": self.batch_size, "imgsz": SIZE, "save": True,
            "save_period": -1, "cache": False, "device": "cpu", "workers": 2,
            "project": None, "name": "train", "exist_ok": False,
            "pretrained": False, "optimizer": kind, "seed": self.seed,
            "deterministic": True, "single_cls": False, "rect": False,
            "cos_lr": self.schedule == "cosine", "close_mosaic": 0,
            "resume": None, "amp": self.precision != "fp32",
            "fraction": 1.0, "freeze": None, "multi_scale": 0.0,
            "dropout": 0.0, "val": True, "split": "val", "conf": None,
            "iou": 0.6, "max_det": 12, "plots": False, "lr0": self.lr,
            "lrf": self.FINAL if self.schedule == "linear" else None,
            "lr_schedule": self.schedule,
            "momentum": self.momentum if kind == "SGD" else self.betas[0],
            "adam_beta2": None if kind == "SGD" else self.betas[1],
            "adam_eps": None if kind == "SGD" else self.eps,
            "weight_decay": self.weight_decay,
            "warmup_epochs": self.warmup / self.EPOCH,
            "warmup_momentum": self.START_MOMENTUM, "warmup_bias_lr": 0.0,
            "box": own["box"], "cls": own["cls"], "dfl": own["dfl"],
            "nbs": self.accumulate * self.batch_size,
            "accumulate": self.accumulate, "max_grad_norm": self.clip,
            "ema_decay": self.EMA, "ema_tau": self.TAU,
            "precision": self.precision, "hsv_h": 0.0, "hsv_s": 0.0,
            "hsv_v": 0.0, "degrees": 0.0, "translate": 0.0, "scale": 0.0,
            "shear": 0.0, "perspective": 0.0, "flipud": 0.0, "fliplr": 0.0,
            "mosaic": 0.0, "mixup": 0.0, "copy_paste": 0.0, "erasing": 0.0,
            "save_dir": "runs/detect/train", "max_steps": self.steps,
            "world_size": 1, **self.user}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(DetectionModel.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it; a block has all."""
        return [layer[:-4] + "bn"] if layer.endswith(".conv") else []
