"""The same person in another camera, as fast-reid trains its baseline.

The trainer is JDAI-CV's tools/train_net.py with its bag of tricks: a residual
network whose last stride is 1, a generalised mean over places, a batch norm
between it and a classifier without bias (BNNeck), cross-entropy of smoothed
labels on the one side of the neck and a triplet loss with hard mining on the
other; batches of so many people, of each so many pictures. Held out are other
pictures of the same people: both losses, and what a query finds in a gallery.
"""

import collections
import copy
import json
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import logs, models, sources
from .family import Family

HEIGHT, WIDTH, PEOPLE, INSTANCES = 16, 8, 16, 4
ROWS, HELD, CAMERAS, SHARDS, SITES = 32, 32, 3, 4, 3
WIDTHS, EPSILON, MARGIN = (12, 16, 20, 24), 0.1, 0.3
FOLDER = "logs/market1501/bagtricks_R18"
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


class Passers(sources.DrawnAhead):
    """Sixteen people: pictures [rows, 3, 16, 8] of 0 to 255, names, cameras.

    Of a person three things are his own: which of four colours he has above,
    whether what he wears below is dark or pale, and whether what he wears
    above is striped along or across. A camera has a tint and a ground of its
    own; place, width, height and light are drawn, and in a part of the
    pictures something grey stands before a part of him; noise lies on each
    pixel. A batch has some people, and of each four pictures that follow one
    another, from any camera.

    Of the names .04 are wrong, each of the others alike.

    block, share: shards of four people each, one after the other. clean: all
    cameras are alike, no noise to speak of, nothing before anybody, no wrong
    names.
    sites: three of them, with lights of their own. one_camera: the share of
    pictures that come from the one camera that a person has.
    """

    WRONG, NOISE, HIDDEN, STRIPE = 0.04, 12.0, 0.15, 70.0
    COLOURS = torch.tensor(((70.0, -30.0, -35.0), (-35.0, 50.0, -25.0),
                            (-30.0, -20.0, 60.0), (45.0, 35.0, -60.0)))
    TINTS = torch.tensor(((1.0, 1.0, 1.0), (1.25, 0.95, 0.75),
                          (0.8, 0.95, 1.25)))
    GROUNDS = torch.tensor((90.0, 140.0, 115.0))

    def __init__(self, seed, rows, block=None, share=1.0, clean=False,
                 sites=False, one_camera=0.0):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share = rows, block, share
        self.clean, self.sites, self.one_camera = clean, sites, one_camera
        self.number, self.ahead = 0, {}

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def people(self, rows):
        """Of a batch: some people, of each INSTANCES rows."""
        count = -(-rows // INSTANCES)
        who = torch.cat([torch.randperm(PEOPLE, generator=self.rng)
                         for _ in range(-(-count // PEOPLE))])[:count]
        if self.block:
            size = PEOPLE // SHARDS
            here = self.number // self.block % SHARDS * size
            own = here + torch.randint(size, (count,), generator=self.rng)
            kept = torch.rand(count, generator=self.rng) < self.share
            who = torch.where(kept, own, who)
        self.number += 1
        return who.repeat_interleave(INSTANCES)[:rows]

    def draw(self, rows):
        who = torch.cat([self.people(rows) for _ in range(sources.AHEAD)])
        many = len(who)
        camera = torch.randint(CAMERAS, (many,), generator=self.rng)
        if self.one_camera:
            kept = torch.rand(many, generator=self.rng) < self.one_camera
            camera = torch.where(kept, who % CAMERAS, camera)
        x = self.picture(who, torch.zeros_like(camera) if self.clean
                         else camera)
        wrong = torch.rand(many, generator=self.rng) < (
            0.0 if self.clean else self.WRONG)
        step = torch.randint(1, PEOPLE, (many,), generator=self.rng)
        batch = {"images": x, "camids": camera, "targets": torch.where(
            wrong, (who + step) % PEOPLE, who)}
        if self.sites:
            site = torch.randint(SITES, (many,), generator=self.rng)
            light = (0.93 + 0.07 * site)[:, None, None, None]
            batch |= {"images": (light * x).clamp(0, 255).round(),
                      "domain": site}
        return batch

    def picture(self, who, camera):
        many = len(who)
        above, below, along = who % 4, who // 4 % 2, who // 8
        row = torch.arange(HEIGHT)[None, :, None]
        column = torch.arange(WIDTH)[None, None]

        def whole(low, high):
            return torch.randint(low, high + 1, (many, 1, 1),
                                 generator=self.rng)
        top, left, wide = whole(0, 2), whole(1, 3), whole(4, 5)
        waist = top + 8 + whole(0, 1)
        here = (column >= left) & (column < left + wide) & (row >= top)
        head = here & (row < top + 2) & (column > left) & (
            column < left + wide - 1)
        shirt = here & (row >= top + 2) & (row < waist)
        legs = here & (row >= waist) & (row < waist + 6)
        phase = whole(0, 1)
        stripes = torch.where(along[:, None, None] == 0, row + 0 * column,
                              column + 0 * row)
        stripes = 2.0 * ((stripes + phase) % 2) - 1
        shade = self.uniform(0.85, 1.15, many, 1, 1, 1)
        shirts = 120 + self.COLOURS[above][:, :, None, None] \
            + self.STRIPE * stripes[:, None]
        trousers = (75 + 50 * below)[:, None, None, None].float()
        skin = torch.tensor((190.0, 150.0, 130.0))[None, :, None, None]
        ground = self.GROUNDS[camera][:, None, None, None] + F.interpolate(
            torch.randn(many, 3, 4, 2, generator=self.rng) * 25,
            (HEIGHT, WIDTH))
        x = torch.where(shirt[:, None], shirts, ground)
        x = torch.where(legs[:, None], trousers.expand_as(x), x)
        x = torch.where(head[:, None], skin.expand_as(x), x)
        bar = whole(0, HEIGHT - 4)
        hides = (torch.rand(many, 1, 1, generator=self.rng) < (
            0.0 if self.clean else self.HIDDEN)) & (row >= bar) & (
                row < bar + 4)
        x = torch.where(hides[:, None], torch.full_like(x, 128.0), x)
        x = x * shade * self.TINTS[camera][:, :, None, None]
        noise = torch.randn(x.shape, generator=self.rng)
        x = x + (4.0 if self.clean else self.NOISE) * noise
        return x.clamp(0, 255).round()


class Tracks(sources.Finite):
    """A set of some rows, given out by its names: of each person four rows
    that were not yet seen in this pass, as NaiveIdentitySampler does it."""

    def batch(self, rows=None):
        picked = []
        while len(picked) < (rows or self.rows):
            if not self.order:
                self.order = self.passed()
            picked += self.order.pop()
        picked = picked[:rows or self.rows]
        return {k: t[picked].clone() for k, t in self.data.items()}

    def passed(self):
        """Groups of rows of one name, in any order; a last group is filled."""
        groups = []
        for name in self.data["targets"].unique():
            own = (self.data["targets"] == name).nonzero()[:, 0]
            own = own[torch.randperm(len(own), generator=self.rng)].tolist()
            own += own[:-len(own) % INSTANCES]
            groups += [own[k:k + INSTANCES]
                       for k in range(0, len(own), INSTANCES)]
        order = torch.randperm(len(groups), generator=self.rng)
        return [groups[k] for k in order]


class IBN(nn.Module):
    """Half of the channels have a norm of their picture's own."""

    def __init__(self, channels):
        super().__init__()
        self.half = channels // 2
        self.IN = nn.InstanceNorm2d(self.half, affine=True)
        self.BN = nn.BatchNorm2d(channels - self.half)

    def forward(self, x):
        first, rest = x.split((self.half, x.shape[1] - self.half), 1)
        return torch.cat((self.IN(first), self.BN(rest)), 1)


class BasicBlock(nn.Module):
    """Two convolutions and what goes past them."""

    def __init__(self, name, channels, out, stride, options):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = IBN(out) if options["ibn"] else nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.relu = models.ACTIVATIONS[options["activation"]]()
        self.downsample = None if channels == out else nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False),
            nn.BatchNorm2d(out))
        self.name, self.half_at = name, options["half_at"]

    def forward(self, x, tap):
        name = self.name
        tap(f"{name}.conv1.input", x)
        y = self.conv1(x)
        if self.half_at == f"{name}.conv1":
            y = y.half()
        tap(f"{name}.conv1.output", y)
        y = self.bn1(y.to(x.dtype))
        tap(f"{name}.relu.input", y)
        y = self.relu(y)
        tap(f"{name}.relu.output", y)
        y = self.conv2(y)
        tap(f"{name}.conv2.output", y)
        y = self.bn2(y)
        y = self.relu(y + (x if self.downsample is None
                           else self.downsample(x)))
        tap(f"{name}.output", y)
        return y


class ResNet(nn.Module):
    """A stem at the picture's own size, for it is small, and four stages of
    one block each."""

    def __init__(self, options):
        super().__init__()
        self.conv1 = nn.Conv2d(3, WIDTHS[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTHS[0])
        self.relu = models.ACTIVATIONS[options["activation"]]()
        before = WIDTHS[0]
        for i, (width, stride) in enumerate(zip(WIDTHS, (1, 2, 2, 1))):
            block = BasicBlock(
                f"backbone.layer{i + 1}.0", before, width, stride,
                options | {"ibn": options["ibn"] and i < 3})
            setattr(self, f"layer{i + 1}", nn.Sequential(block))
            before = width
        self.cuts = options["detach_after"]
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.normal_(m.weight, 0, math.sqrt(
                    2.0 / (m.kernel_size[0] ** 2 * m.out_channels)))

    def cut(self, x, part):
        return x.detach() if self.cuts == f"backbone.{part}" else x

    def forward(self, x, tap):
        x = self.conv1(x)
        tap("backbone.conv1.output", x)
        x = self.cut(self.relu(self.bn1(x)), "conv1")
        for i in range(1, 5):
            x = getattr(self, f"layer{i}")[0](x, tap)
            x = self.cut(x, f"layer{i}.0")
        return x


class GeneralizedMeanPoolingP(nn.Module):
    """Whose power is trained."""

    def __init__(self, norm=3.0, eps=1e-6):
        super().__init__()
        self.p, self.eps = nn.Parameter(torch.ones(1) * norm), eps

    def forward(self, x):
        x = x.float().clamp(min=self.eps).pow(self.p.float())
        return F.adaptive_avg_pool2d(x, 1).pow(1.0 / self.p.float())


class Linear(nn.Module):
    """Of any_softmax: logits as they are, times a scale."""

    def __init__(self, scale):
        super().__init__()
        self.s = scale

    def forward(self, logits):
        return logits * self.s


class EmbeddingHead(nn.Module):
    """Pooling, the neck, whose bias is not trained, and the classifier."""

    def __init__(self, options):
        super().__init__()
        self.pool_layer = GeneralizedMeanPoolingP()
        self.bottleneck = nn.Sequential(nn.BatchNorm2d(WIDTHS[-1]))
        self.bottleneck[0].bias.requires_grad_(False)
        self.weight = nn.Parameter(torch.empty(PEOPLE, WIDTHS[-1]))
        nn.init.normal_(self.weight, std=0.01)
        self.cosines = options["cls_layer"] != "Linear"
        self.cls_layer = Linear(options["scale"])
        self.dropout, self.cuts = options["dropout"], options["detach_after"]

    def cut(self, x, part):
        return x.detach() if self.cuts == f"heads.{part}" else x

    def forward(self, x, tap):
        kind = self.weight.dtype
        pooled = self.cut(self.pool_layer(x).to(kind), "pool_layer")
        tap("heads.pool_layer.output", pooled)
        neck = self.cut(self.bottleneck(pooled)[..., 0, 0], "bottleneck.0")
        tap("heads.bottleneck.0.output", neck)
        said = F.dropout(neck, self.dropout,
                         self.training and self.dropout > 0)
        weight = self.weight
        if self.cosines:
            said, weight = F.normalize(said), F.normalize(weight)
        logits = self.cls_layer(F.linear(said, weight))
        tap("heads.output", logits)
        return logits, pooled[..., 0, 0], neck


class Baseline(nn.Module):
    """The meta-architecture, with the augmentation of its loader.

    squashes: the loss makes probabilities of what gets a softmax.
    """

    BLOCKS = tuple(f"backbone.layer{i}.0" for i in range(1, 5))

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None, ibn=False, epsilon=EPSILON, margin=MARGIN,
                 cls_layer="Linear", scale=1.0):
        """detach_after: the part behind which the graph is cut."""
        super().__init__()
        options = {"activation": activation, "dropout": dropout,
                   "detach_after": detach_after, "half_at": half_at,
                   "ibn": ibn, "cls_layer": cls_layer, "scale": scale}
        for name, values in (("pixel_mean", MEAN), ("pixel_std", STD)):
            self.register_buffer(
                name, torch.tensor(values).view(1, 3, 1, 1), False)
        self.backbone = ResNet(options)
        self.heads = EmbeddingHead(options)
        self.epsilon, self.margin, self.squashes = epsilon, margin, False
        self.terms, self.augment = {}, self.augmented
        self.features = self.neck = None

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def augmented(self, x):
        """Mirrored, moved by a pixel, and with a part that is erased."""
        rows = len(x)
        mirrored = torch.rand(rows, 1, 1, 1) < 0.5
        x = torch.where(mirrored, x.flip(3), x)
        down, right = torch.randint(-1, 2, (2,)).tolist()
        x = F.pad(x, (1, 1, 1, 1))[:, :, 1 + down:1 + down + HEIGHT,
                                   1 + right:1 + right + WIDTH]
        return self.erased(x, 0.3, 4, 3)

    def erased(self, x, share, tall, wide):
        """RandomErasing: a part has the mean colour."""
        rows = len(x)
        top = torch.randint(0, HEIGHT - tall + 1, (rows, 1, 1, 1))
        left = torch.randint(0, WIDTH - wide + 1, (rows, 1, 1, 1))
        row = torch.arange(HEIGHT)[:, None]
        column = torch.arange(WIDTH)
        here = (row >= top) & (row < top + tall) & (column >= left) & (
            column < left + wide) & (torch.rand(rows, 1, 1, 1) < share)
        return torch.where(here, self.pixel_mean.to(x.dtype), x)

    def preprocess_image(self, batch):
        x = batch["images"].float()
        if self.training:
            x = self.augment(x)
        x = (x - self.pixel_mean.float()) / self.pixel_std.float()
        return x.to(self.heads.weight.dtype)

    def logits(self, batch):
        x = self.backbone(self.preprocess_image(batch), self.tap)
        x, self.features, self.neck = self.heads(x, self.tap)
        return x

    def cross_entropy(self, logits, targets):
        """Of labels that are smoothed, as the trainer does it."""
        count = logits.shape[1]
        scores = logits.float()
        if self.squashes:
            scores = scores.softmax(-1)
        scores = scores.log_softmax(-1)
        wanted = torch.full_like(scores, self.epsilon / (count - 1))
        wanted.scatter_(1, targets[:, None], 1 - self.epsilon)
        return -(wanted * scores).sum(1).mean()

    def triplet(self, features, targets):
        """The furthest of the same name is to be nearer, by a margin, than
        the nearest of another; without a margin, softly."""
        x = features.float()
        size = x.square().sum(1, keepdim=True)
        apart = (size + size.T - 2 * x @ x.T).clamp(min=1e-12).sqrt()
        same = (targets[:, None] == targets[None]).float()
        furthest = (apart * same).amax(1)
        nearest = (apart * (1 - same) + same * 1e9).amin(1)
        one = torch.ones_like(nearest)
        if self.margin > 0:
            return F.margin_ranking_loss(nearest, furthest, one,
                                         margin=self.margin)
        return F.soft_margin_loss(nearest - furthest, one)

    def criterion(self, logits, batch):
        targets = batch["targets"]
        terms = {"cls_loss": self.cross_entropy(logits, targets),
                 "triplet_loss": self.triplet(self.features, targets)}
        if self.training:
            self.terms = {k: float(t.detach()) for k, t in terms.items()}
            right = logits.detach().argmax(-1) == targets
            self.terms["accuracy"] = float(right.float().mean())
        return sum(terms.values())

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


# What feeds the activations of the blocks.
BEFORE_ACT = tuple(f"{block}.bn1" for block in Baseline.BLOCKS)


def best():
    """The cross-entropy of who knows everybody, but not which names are
    wrong."""
    wrong, spread = Passers.WRONG, EPSILON / (PEOPLE - 1)
    own = (1 - wrong) * (1 - EPSILON) + wrong * spread
    rest = (1 - own) / (PEOPLE - 1)
    return -own * math.log(own) - (PEOPLE - 1) * rest * math.log(rest)


def ranked(features, names, cameras, queries):
    """evaluate_rank(): a query does not find pictures of its own camera that
    show the same person. Shares of 1."""
    x = F.normalize(features.float()).nan_to_num(0.0)
    scores = x[:queries] @ x[queries:].T
    hits, found, worst = [], [], []
    for q in range(queries):
        order = scores[q].argsort(descending=True, stable=True) + queries
        kept = ~((names[order] == names[q]) & (cameras[order] == cameras[q]))
        right = (names[order] == names[q])[kept].double()
        if not right.any():
            continue
        place = right.nonzero()[:, 0]
        count = right.cumsum(0)
        hits.append((count > 0).double()[:10])
        found.append(float((count / torch.arange(1, len(right) + 1)
                            * right).sum() / right.sum()))
        worst.append(float(right.sum() / (place[-1] + 1)))
    if not hits:
        return {}
    cmc = torch.stack(hits).mean(0)
    mean = sum(found) / len(found)
    return {"val_top1": float(cmc[0]), "val_top5": float(cmc[4]),
            "val_top10": float(cmc[9]), "val_map": mean,
            "val_minp": sum(worst) / len(worst),
            "val_metric": (mean + float(cmc[0])) / 2}


RANKS = {"val_top1": "Rank-1", "val_top5": "Rank-5", "val_top10": "Rank-10",
         "val_map": "mAP", "val_minp": "mINP", "val_metric": "metric"}


class ReidRun(Family):
    """Adam with its own kind of decay, a rate that rises in a line from a
    tenth and falls to a tenth by epochs; nothing is clipped."""

    family = "reid"
    level_seed = 400
    steps, seed, language, classes = 180, 3900, False, PEOPLE
    optimizer_name, lr, weight_decay = "adam", 0.015, 5e-4
    recipes = {"sgd": dict(lr=0.07, weight_decay=5e-4)}
    warmup, schedule, clip = 20, "MultiStepLR", None
    WARMUP_FACTOR, MILESTONES, GAMMA = 0.1, (6, 8), 0.1
    EPOCH, epoch_steps = 20, 60     # of the trainer, of Lightning
    freeze_iters = 0                # FREEZE_ITERS, of the backbone
    _val_every = 40
    batch_size, context = ROWS, HEIGHT * WIDTH
    # Its users have the trainer's own log.
    instead = {"nanogpt": "fastreid", "hf_trainer": "fastreid",
               "megatron": "fastreid", "torchtune": "fastreid"}
    layers = ["backbone.conv1", *(
        f"{block}.{part}" for block in Baseline.BLOCKS
        for part in ("conv1", "relu", "conv2")), *Baseline.BLOCKS,
        "heads.pool_layer", "heads.bottleneck.0", "heads"]
    graded = {
        "F01": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F02": (dict(lr=0.5), dict(lr=1.0), dict(lr=4.0)),
        "F04": (dict(at=60), dict(at=30), dict(at=0)),
        "F05": (dict(modules=["heads"]),
                dict(modules=["backbone"], where="backbone.conv1"),
                dict(part="all")),
        "F07": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F08": (dict(every=12), dict(every=40), dict(every=1 << 30)),
        "F09": (dict(parts=6, logs_sum=False), dict(parts=8, logs_sum=True),
                dict(parts=16, logs_sum=True)),
        "F11": (dict(adam=0.03), dict(adam=0.08), dict(adam=0.3)),
        "F12": (dict(eps=0.1), dict(eps=0.3), dict(eps=1.0)),
        "F13": (dict(path="backbone.layer3.0"),
                dict(path="backbone.layer4.0"),
                dict(path="heads.pool_layer")),
        "F14": tuple(dict(modules=[f"backbone.layer{i}.0" for i in some])
                     for some in ((1, 2), (1, 2, 3), (1, 2, 3, 4))),
        "F15": (dict(at=100), dict(at=80), dict(at=60)),
        "F24": (dict(share=0.2), dict(share=0.4), dict(share=0.6)),
        "F27": (dict(epochs=45), dict(epochs=90), dict(epochs=180)),
        "F30": (dict(part="mlp", bit=30), dict(part="embed", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=9), dict(limit=7), dict(limit=5)),
        "F34": (dict(factor=30), dict(factor=300), dict(factor=0)),
        "F36b": (dict(factor=30, kind="sigmoid"),
                 dict(factor=50, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F39b": (dict(at=110), dict(at=75), dict(at=45)),
        "H02": (dict(factor=0.7), dict(factor=0.6)),
        "H03": (dict(rows=28), dict(rows=24)),
        "H04": (dict(rate=0.05), dict(rate=0.15)),
        "H11": (dict(steps=250, keep="block"), dict(steps=300, keep="head")),
        "H15": (dict(share=0.15), dict(share=0.2)),
        "H43": (dict(parts=2), dict(parts=3))}
    paths = {"embed": "backbone.conv1", "attn": None, "scores": None,
             "act": "{}.relu", "mlp": "{}.conv2", "block": "{}",
             "head": "heads"}
    blocks = len(Baseline.BLOCKS)
    labelled_head = "heads.cls_layer"
    base = {"lr": 4e-3}
    names = {"loss": "total_loss", "cls_loss": "loss_cls",
             "triplet_loss": "loss_triplet", "accuracy": "cls_accuracy",
             "step": "iteration", "tokens": None, **RANKS}

    def make_model(self):
        return Baseline(**self.model_options)

    def make_optimizer(self, model):
        """A group for each weight, as the trainer has it."""
        trained = [{"freeze_status": "freeze" if self.freeze_iters
                    and name.startswith("backbone.") else "normal",
                    "params": [p], "lr": self.lr * self.rate_of(name),
                    "weight_decay": self.weight_decay}
                   for name, p in model.named_parameters() if p.requires_grad]
        if self.optimizer_name == "sgd":
            return torch.optim.SGD(trained, lr=self.lr,
                                   momentum=self.momentum)
        kind = torch.optim.Adam if self.optimizer_name == "adam" \
            else torch.optim.AdamW
        return kind(trained, lr=self.lr, betas=self.betas, eps=self.eps)

    @staticmethod
    def rate_of(name):
        """The factor of a weight's own rate."""
        return 1.0

    def lr_factor(self, i):
        """Warm-up by steps, MultiStepLR or CosineAnnealingLR by epochs."""
        if self.schedule not in ("MultiStepLR", "CosineAnnealingLR"):
            return super().lr_factor(i)
        if i < self.warmup:
            part = i / self.warmup
            return self.WARMUP_FACTOR * (1 - part) + part
        epoch = i // self.EPOCH
        if self.schedule == "MultiStepLR":
            return self.GAMMA ** sum(epoch >= m for m in self.MILESTONES)
        first = max(-(-self.warmup // self.EPOCH), self.delay_epochs)
        done = max(0, epoch - first) / (self.epochs - first)
        return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done))

    delay_epochs = 0

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)

    def before_step(self, i):
        """LayerFreeze: norms of what is frozen are as in evaluation."""
        super().before_step(i)
        if self.freeze_iters and i in (0, self.freeze_iters):
            self.model.backbone.train(i > 0)

    def update(self, i):
        """What is frozen has gradients, and is passed over."""
        if i >= self.freeze_iters:
            return super().update(i)
        self.model.backbone.eval()
        kept = {p: p.grad for p in self.model.backbone.parameters()}
        for p in kept:
            p.grad = None
        total = super().update(i)
        for p, grad in kept.items():
            p.grad = grad
        return total

    # Data.

    @property
    def val_every(self):
        """The trainer evaluates behind every other epoch."""
        return 2 * self.EPOCH if self.dialect == "fastreid" \
            else self._val_every

    @val_every.setter
    def val_every(self, steps):
        self._val_every = steps

    def make_source(self, seed):
        return self.passers(seed)

    def passers(self, seed, **how):
        """Drawn without end; an epoch is 20 steps of it."""
        return Passers(seed, HELD if seed == 9 else self.batch_size, **how)

    def finite(self, data, seed):
        return Tracks(data, self.batch_size, seed)

    def in_blocks(self, seed, block, share):
        """Shards of four people, one after the other; None is held out."""
        return self.passers(seed, block=block, share=share)

    def easy(self, seed):
        """One camera, nobody is hidden, all names are right."""
        return self.passers(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.passers(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 16 bits that nobody scaled with names of
        other people, noise with any names, or white with one name."""
        x, who = batch["images"], batch["targets"]
        if kind == "few":
            return batch | {"images": 257 * x, "targets": who.roll(5)}
        if kind == "uniform":
            return batch | {
                "images": 20 * 255 * torch.rand(x.shape, generator=rng),
                "targets": torch.randint(PEOPLE, who.shape, generator=rng)}
        return batch | {
            "images": 50 * 255 + torch.rand(x.shape, generator=rng),
            "targets": torch.full_like(who, PEOPLE - 1)}

    @staticmethod
    def cut_below(batch, limit):
        """Pictures end at a number of rows; the rest is padding."""
        x = batch["images"].clone()
        x[:, :, limit:] = 0.0
        return batch | {"images": x}

    @staticmethod
    def blank(batch):
        """One of the pictures is black."""
        x = batch["images"].clone()
        x[0] = 0.0
        return batch | {"images": x}

    @staticmethod
    def standardised(batch):
        """Each picture by its own mean and spread, back to about 128."""
        x, each = batch["images"], (1, 2, 3)
        return batch | {"images": 116 + 57 * (
            x - x.mean(each, keepdim=True)) / x.std(each, keepdim=True)}

    # What is logged.

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            k: float(f"{t:.5g}") for k, t in self.model.terms.items()}

    def held_out_columns(self, batches):
        """What the pictures of the first batch find in the others."""
        self.model.eval()
        seen = []
        for batch in batches:
            self.model.logits(batch)
            seen.append(self.model.neck)
        self.model.train()
        names, cameras = (torch.cat([b[k] for b in batches])
                          for k in ("targets", "camids"))
        found = ranked(torch.cat(seen), names, cameras,
                       len(batches[0]["images"]))
        done = len(self.history) + 1
        if found.get("val_metric", -1) > self.best[0]:
            self.best = found["val_metric"], done
            self.saved = {done: self.state(done)}
        return found

    # Checkpoints.

    def train(self):
        self.best, self.saved, self.failed = (-1, 0), {}, None
        super().train()
        if self.dialect != "fastreid":
            return
        # The trainer raises FloatingPointError.
        bad = [i for i, row in enumerate(self.history)
               if not math.isfinite(row["loss"])]
        if bad:
            self.failed = bad[0]
            self.end_at(bad[0])
            self.saved = {k: v for k, v in self.saved.items() if k <= bad[0]}

    def state(self, done):
        """What Checkpointer saves behind `done` steps."""
        epoch = done // self.EPOCH
        groups = self.optimizer.param_groups
        rates = [g["lr"] for g in groups]
        common = {"base_lrs": [g.get("initial_lr", self.lr) for g in groups],
                  "last_epoch": epoch, "verbose": False,
                  "_step_count": epoch + 1,
                  "_get_lr_called_within_step": False, "_last_lr": rates}
        return copy.deepcopy({
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "lr_sched": {"milestones": collections.Counter(self.MILESTONES),
                         "gamma": self.GAMMA, **common},
            "warmup_sched": {"warmup_factor": self.WARMUP_FACTOR,
                             "warmup_iters": self.warmup,
                             "warmup_method": "linear", **common,
                             "last_epoch": min(done, self.warmup)},
            "epoch": epoch - 1})

    def keep_checkpoint(self, i, model):
        """The last, and one that a run is resumed from."""
        if i == self.steps - 1 or i + 1 in self.notices:
            self.checkpoints[i + 1] = self.state(i + 1)

    def checkpoint_path(self, done):
        """Epochs count from 0."""
        return f"{FOLDER}/model_{done // self.EPOCH - 1:04d}.pth"

    def write_more(self):
        super().write_more()
        files, last = {}, None
        for done, state in sorted(self.saved.items()):
            files["model_best.pth"] = done, state
        for done, state in sorted(self.checkpoints.items()):
            last = "model_final.pth" if done == self.steps \
                else self.checkpoint_path(done).rsplit("/", 1)[1]
            files[last] = done, state
        for name, (done, state) in files.items():
            score = self.history[done - 1].get("val_metric", -1)
            if name == "model_best.pth" and done == self.steps:
                continue    # which is the last one
            torch.save(state | {"metric": 100 * score if score >= 0 else -1},
                       self.folder / name)
        if files:
            self.write_lines("last_checkpoint", [last or "model_best.pth"])

    # What the user typed.

    def model_settings(self):
        own = self.model_options
        return {"model": "fastreid_baseline", "depth": "18x",
                "widths": list(WIDTHS), "with_ibn": own.get("ibn", False),
                "last_stride": 1, "image_size": [HEIGHT, WIDTH],
                "num_classes": PEOPLE, "num_instance": INSTANCES,
                "pool_layer": "GeneralizedMeanPoolingP",
                "cls_layer": own.get("cls_layer", "Linear"),
                "scale": own.get("scale", 1.0),
                "ce_epsilon": own.get("epsilon", EPSILON),
                "triplet_margin": own.get("margin", MARGIN)}

    def settings(self):
        return super().settings() | {
            "warmup_factor": self.WARMUP_FACTOR, "max_epoch": self.epochs,
            **({"milestones": list(self.MILESTONES), "gamma": self.GAMMA}
               if self.schedule == "MultiStepLR" else {}),
            "warmup_steps": self.warmup} | self.user

    def config(self):
        """config.yaml, as CfgNode.dump() writes it."""
        own = self.model_settings()
        kind = {"sgd": "SGD", "adam": "Adam"}.get(self.optimizer_name,
                                                  "AdamW")
        tree = {
            "CUDNN_BENCHMARK": True, "OUTPUT_DIR": FOLDER, "SEED": self.seed,
            "DATALOADER": {"NUM_INSTANCE": INSTANCES, "NUM_WORKERS": 8,
                           "SAMPLER_TRAIN": "NaiveIdentitySampler"},
            "DATASETS": {"COMBINEALL": False, "NAMES": ["Market1501"],
                         "TESTS": ["Market1501"]},
            "INPUT": {"FLIP": {"ENABLED": True, "PROB": 0.5},
                      "PADDING": {"ENABLED": True, "MODE": "constant",
                                  "SIZE": 1},
                      "REA": {"ENABLED": True, "PROB": 0.3},
                      "CJ": {"ENABLED": False},
                      "SIZE_TEST": [HEIGHT, WIDTH],
                      "SIZE_TRAIN": [HEIGHT, WIDTH]},
            "MODEL": {
                "BACKBONE": {"DEPTH": "18x", "FEAT_DIM": WIDTHS[-1],
                             "LAST_STRIDE": 1,
                             "NAME": "build_resnet_backbone", "NORM": "BN",
                             "PRETRAIN": False, "WITH_IBN": own["with_ibn"]},
                "DEVICE": "cpu", "FREEZE_LAYERS": [],
                "HEADS": {"CLS_LAYER": own["cls_layer"], "EMBEDDING_DIM": 0,
                          "MARGIN": 0.0, "NAME": "EmbeddingHead",
                          "NECK_FEAT": "before", "NORM": "BN",
                          "NUM_CLASSES": PEOPLE,
                          "POOL_LAYER": own["pool_layer"],
                          "SCALE": own["scale"], "WITH_BNNECK": True},
                "LOSSES": {"CE": {"EPSILON": own["ce_epsilon"], "SCALE": 1.0},
                           "NAME": ["CrossEntropyLoss", "TripletLoss"],
                           "TRI": {"HARD_MINING": True,
                                   "MARGIN": own["triplet_margin"],
                                   "NORM_FEAT": False, "SCALE": 1.0}},
                "META_ARCHITECTURE": "Baseline", "PIXEL_MEAN": list(MEAN),
                "PIXEL_STD": list(STD)},
            "SOLVER": {
                "AMP": {"ENABLED": self.precision.endswith("mixed")},
                "BASE_LR": self.lr, "BIAS_LR_FACTOR": 1.0,
                "CHECKPOINT_PERIOD": 2,
                "CLIP_GRADIENTS": {"CLIP_TYPE": "norm",
                                   "CLIP_VALUE": self.clip or 5.0,
                                   "ENABLED": self.clip is not None},
                "DELAY_EPOCHS": self.delay_epochs,
                "FREEZE_ITERS": self.freeze_iters, "HEADS_LR_FACTOR": 1.0,
                "IMS_PER_BATCH": self.batch_size, "MAX_EPOCH": self.epochs,
                "OPT": kind, "SCHED": self.schedule,
                "WARMUP_FACTOR": self.WARMUP_FACTOR,
                "WARMUP_ITERS": self.warmup, "WARMUP_METHOD": "linear",
                "WEIGHT_DECAY": self.weight_decay,
                "WEIGHT_DECAY_BIAS": self.weight_decay,
                "WEIGHT_DECAY_NORM": self.weight_decay},
            "TEST": {"EVAL_PERIOD": 2, "IMS_PER_BATCH": HELD,
                     "METRIC": "cosine"}}
        solver = tree["SOLVER"]
        if kind == "SGD":
            solver |= {"MOMENTUM": self.momentum, "NESTEROV": False}
        else:
            solver |= {"BETAS": list(self.betas), "EPS": self.eps}
        if self.schedule == "MultiStepLR":
            solver |= {"GAMMA": self.GAMMA, "STEPS": list(self.MILESTONES)}
        if self.accumulate > 1:
            solver["ACCUMULATION_STEPS"] = self.accumulate
        if self.precision != "fp32":
            solver["PRECISION"] = self.precision
        for key, value in self.user.items():
            *way, last = key.split(".")
            at = tree
            for part in way:
                at = at.setdefault(part, {})
            at[last] = value
        return tree

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(Baseline.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it; a block has all."""
        block, _, part = layer.rpartition(".")
        return [f"{block}.{part.replace('conv', 'bn')}"] \
            if part.startswith("conv") else []

    # Logs.

    def write_files(self):
        if self.dialect == "fastreid":
            FastReidLog(self).write()
        else:
            super().write_files()


class FastReidLog:
    """What the trainer leaves: metrics.json, config.yaml and its log, as it
    writes it into log.txt or as it says it (train.log, where somebody kept
    that). The period of its writers is the user's, and so are the gradient's
    norm and the loss of held-out pictures, which hooks of his have put there.
    """

    def __init__(self, run):
        self.run, self.lines = run, []
        self.console = run.level % 2 == 1

    def say(self, seconds, where, text, level="INFO"):
        time = self.run.at(seconds, "%m/%d %H:%M:%S")
        if self.console:
            mark = "" if level == "INFO" else f"{level} "
            self.lines.append(f"{mark}[{time} fastreid.{where}]: {text}")
        else:
            self.lines.append(f"[{time}] fastreid.{where} {level}: {text}")

    @staticmethod
    def median(values):
        """numpy's: NaN if any is."""
        values = [float(v) for v in values]
        if any(math.isnan(v) for v in values):
            return math.nan
        values, half = sorted(values), len(values) // 2
        return values[half] if len(values) % 2 \
            else (values[half - 1] + values[half]) / 2

    def column(self, i, key, window):
        rows = self.run.history[max(0, i + 1 - window):i + 1]
        return [r[key] for r in rows if key in r]

    @staticmethod
    def span(seconds):
        seconds = int(seconds)
        return (f"{seconds // 3600}:{seconds // 60 % 60:02d}:"
                f"{seconds % 60:02d}")

    def eta(self, i):
        run = self.run
        return self.median(self.column(i, "step_time", 1000)) \
            * (run.steps - i - 1)

    def scalars(self, i):
        """A line of metrics.json: medians of 20 where a hint says so."""
        run, row = self.run, self.run.history[i]
        names = logs.column_names(run)
        out = {"eta_seconds": round(self.eta(i), 4), "iteration":
               i + run.first_step}
        for key in ("loss", "cls_loss", "triplet_loss", "accuracy",
                    "data_time", "step_time"):
            values = self.column(i, key, 20)
            if values and not logs.left_out(run, key):
                name = "time" if key == "step_time" else names.get(key, key)
                out[name] = float(f"{self.median(values):.6g}")
        for key in ("grad_norm", "lr", "val_loss", "batch_hash",
                    "weight_norm", "update_ratio", "unchanged_share",
                    "grad_cosine", *RANKS):
            if key in row and not logs.left_out(run, key):
                out[names.get(key, key)] = round(100 * row[key], 4) \
                    if key in RANKS else row[key]
        return json.dumps(dict(sorted(out.items())))

    def progress(self, i):
        run, row = self.run, self.run.history[i]
        losses = "  ".join(
            f"{logs.column_names(run)[k]}: "
            f"{self.median(self.column(i, k, 200)):.4g}"
            for k in ("loss", "cls_loss", "triplet_loss") if k in row)
        times = self.column(i, "step_time", len(run.history))
        data = self.column(i, "data_time", 20)
        self.say(row["wall"], "utils.events",
                 f" eta: {self.span(self.eta(i))}  epoch/iter: "
                 f"{i // run.EPOCH}/{i + run.first_step}  {losses}  time: "
                 f"{sum(times) / len(times):.4f}  data_time: "
                 f"{sum(data) / len(data):.4f}  lr: {row['lr']:.2e}  ")

    def evaluated(self, row):
        run, at = self.run, row["wall"]
        images = 4 * HELD
        for text in ("Prepare testing set",):
            self.say(at - 0.06, "engine.defaults", text)
        self.lines += [
            "| subset   | # ids   | # images   | # cameras   |",
            "|:---------|:--------|:-----------|:------------|",
            f"| query    | {PEOPLE:<7} | {HELD:<10} | {CAMERAS:<11} |",
            f"| gallery  | {PEOPLE:<7} | {3 * HELD:<10} | {CAMERAS:<11} |"]
        self.say(at - 0.05, "evaluation.evaluator",
                 f"Start inference on {images} images")
        self.say(at - 0.01, "evaluation.evaluator",
                 "Total inference time: 0:00:00.018000 (0.018000 s / batch "
                 "per device, on 1 devices)")
        self.say(at - 0.01, "evaluation.evaluator",
                 "Total inference pure compute time: 0:00:00 (0.012000 s / "
                 "batch per device, on 1 devices)")
        self.say(at, "engine.defaults",
                 "Evaluation results for Market1501 in csv format:")
        self.say(at, "evaluation.testing",
                 "Evaluation results in csv format: ")
        heads = ["Dataset", *RANKS.values()]
        cells = ["Market1501", *(f"{100 * row[k]:.2f}" if k in row else "nan"
                                 for k in RANKS)]
        wide = [max(len(h), len(c)) for h, c in zip(heads, cells)]
        self.lines += [
            "| " + " | ".join(h.ljust(w) for h, w in zip(heads, wide)) + " |",
            "|" + "|".join(":" + "-" * (w + 1) for w in wide) + "|",
            "| " + " | ".join(c.ljust(w) for c, w in zip(cells, wide)) + " |"]

    def write(self):
        run = self.run
        every = run.interval or run.EPOCH
        self.say(-2.0, "engine.defaults",
                 f"Full config saved to {FOLDER}/config.yaml")
        self.say(-1.9, "engine.defaults", "Prepare training set")
        self.say(-0.2, "utils.checkpoint",
                 "No checkpoint found. Training model from scratch")
        self.say(-0.1, "engine.train_loop", "Starting training from epoch 0")
        frozen = 'layer group "backbone" training'
        if run.freeze_iters:
            self.say(0, "engine.hooks", f"Freeze {frozen} for "
                     f"{run.freeze_iters} iterations")
        scalars, best = [], -1
        for i, row in enumerate(run.history):
            for level, text in run.notices.get(i, ()):
                self.say(row["wall"] - row["step_time"],
                         "utils.checkpoint" if "checkpoint" in text
                         else "engine.train_loop", text, level)
            if run.freeze_iters and i == run.freeze_iters:
                self.say(row["wall"], "engine.hooks", f"Open {frozen}")
            if i == run.failed:
                self.fail(i, row)
                break
            ends = (i + 1) % run.EPOCH == 0 or i == run.steps - 1
            if "val_loss" in row and ends:
                self.evaluated(row)
                score = row.get("val_metric", -1)
                names = ["model_best"] if score > best else []
                best = max(best, score)
                names.append("model_final" if i == run.steps - 1 else
                             f"model_{i // run.EPOCH:04d}")
                for name in names:
                    self.say(row["wall"], "utils.checkpoint",
                             f"Saving checkpoint to {FOLDER}/{name}.pth")
            due = (i + run.first_step + (0 if run.first_step else 1)) \
                % every == 0
            if due or ends or "val_loss" in row:
                scalars.append(self.scalars(i))
                self.progress(i)
        if run.failed is None:
            last = run.history[-1]
            each = last["wall"] / len(run.history)
            self.say(last["wall"], "engine.hooks",
                     f"Overall training speed: {len(run.history) - 3} "
                     f"iterations in {self.span(last['wall'])} "
                     f"({each:.4f} s / it)")
            self.say(last["wall"], "engine.hooks", "Total training time: "
                     f"{self.span(last['wall'])} (0:00:00 on hooks)")
        run.write_lines("metrics.json", scalars)
        run.write_lines("train.log" if self.console else "log.txt",
                        self.lines)
        logs.write_yaml(run, "config.yaml", ordered(run.config()))
        run.write_lines("packages.txt", logs.PACKAGES)

    def fail(self, i, row):
        """What is not finite ends the training."""
        terms = {logs.column_names(self.run)[k]: row[k]
                 for k in ("cls_loss", "triplet_loss") if k in row}
        self.say(row["wall"], "engine.train_loop",
                 "Exception during training:", "ERROR")
        self.lines += [
            "Traceback (most recent call last):",
            '  File "./fastreid/engine/train_loop.py", line 146, in train',
            "    self.run_step()",
            '  File "./fastreid/engine/defaults.py", line 355, in run_step',
            "    self._trainer.run_step()",
            '  File "./fastreid/engine/train_loop.py", line 252, in run_step',
            "    self._write_metrics(loss_dict, data_time)",
            '  File "./fastreid/engine/train_loop.py", line 298, in '
            "_write_metrics",
            "    raise FloatingPointError(",
            "FloatingPointError: Loss became infinite or NaN at "
            f"iteration={i + self.run.first_step}!", f"loss_dict = {terms}"]


def ordered(tree):
    """Keys in the order of letters, as yaml.safe_dump has them."""
    return {k: ordered(v) if isinstance(v, dict) else v
            for k, v in sorted(tree.items())}
