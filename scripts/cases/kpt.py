"""A small pose estimator: where are head, pelvis, hands and feet of a figure?

A residual network, deconvolutions and one heatmap for each keypoint, as people
train it with MMPose. Parts are named as in its TopdownPoseEstimator with
ResNet and HeatmapHead; columns, files and checkpoints are MMEngine's.
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .det import BasicBlock
from .family import Family
from .logs import python_lines
from .recorder import START

SIZE, CHANNELS, ROWS, HEAT = 24, 3, 28, 12
SCALE = (SIZE - 1) / (HEAT - 1)     # pixels of an image to one of a heatmap
WIDTHS, DECONV = (12, 24, 24), 24
KEYPOINTS = ("head", "pelvis", "left_wrist", "right_wrist", "left_ankle",
             "right_ankle")
COUNT = len(KEYPOINTS)
PAIRS = ((2, 3), (4, 5))            # left and right of a figure
MIRRORED = (0, 1, 3, 2, 5, 4)
# COCO's constants of how exactly a keypoint can be told, as they fall here.
SIGMAS = torch.tensor([0.079, 0.107, 0.087, 0.087, 0.089, 0.089])
KINDS, CAMERAS = 4, 3


class Figures:
    """A figure of a trunk, a head and four limbs, drawn in camera noise.

    A figure has a place, a size (.8 to .95), a lean (up to .25 to either side)
    and the angles of its limbs drawn, and clothes of a colour that is drawn
    for trunk, arms and legs each. Hands are light, feet dark. It is seen from
    the front, with a light face, or from behind, with dark hair: which of two
    hands is the left one can be told by the head alone. Its arms hang or are
    raised. So there are four kinds of it. A ground of a grey level and a slope
    that are drawn lies behind, noise of .25 on each number.

    Who marked the keypoints was off by .9 of a pixel to each side, and took
    left for right in .05 of the pictures. A limb cannot be seen with .12; its
    end is not marked then (a weight of 0, at 0, 0). Who knows the figure says
    of each place what is to be expected, see `best()`.

    kinds: how many there are. hidden: see above. cameras: three of another
    gain and offset each, whose number is in the batch as domain. clean:
    neither noise nor mistakes.
    """

    NOISE, JITTER, MISTAKEN, HIDDEN = 0.25, 0.9, 0.05, 0.12
    FACE, HAIR = (1.4, 1.0, 0.6), (-1.2, -1.2, -1.0)
    SKIN, SHOE = (1.4, 1.1, 0.8), (-1.4, -1.4, -1.4)

    def __init__(self, seed, rows=ROWS, kinds=KINDS, hidden=None,
                 cameras=False, clean=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.kinds, self.cameras = rows, kinds, cameras
        self.hidden = self.HIDDEN if hidden is None else hidden
        self.clean = clean

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def batch(self, rows=None):
        return self.of(torch.randint(self.kinds, (rows or self.rows,),
                                     generator=self.rng))

    def pose(self, kind):
        """(neck, keypoints) by rows, x before y; of a figure from behind the
        left is on the left."""
        rows = len(kind)
        size = self.uniform(0.8, 0.95, rows, 1)
        lean = self.uniform(-0.25, 0.25, rows, 1)
        up = torch.cat((lean.sin(), -lean.cos()), 1)
        along = torch.cat((lean.cos(), lean.sin()), 1)
        middle = self.uniform(10.0, 13.0, rows, 2)
        neck, pelvis = middle + 3 * size * up, middle - 3 * size * up
        raised = (kind >= 2).float()[:, None]
        ends = []
        for start, length in ((neck, 5.5), (pelvis, 6.0)):
            for side in (1, -1):    # on the right of the picture, on the left
                angle = self.uniform(0.3, 1.1, rows, 1) + 1.0 * raised \
                    if start is neck else self.uniform(0.15, 0.8, rows, 1)
                ends.append(start + length * size * (
                    side * angle.sin() * along - angle.cos() * up))
        points = torch.stack((neck + 2.6 * size * up, pelvis, *ends), 1)
        behind = (kind % 2 == 1)[:, None, None]
        points = torch.where(behind, points[:, list(MIRRORED)], points)
        return neck, points, size

    def drawn(self, kind, neck, points, size, shown):
        """The picture; `shown` says of which keypoints the limb is seen."""
        rows = len(kind)
        place = torch.arange(SIZE).float()
        grid = torch.stack(torch.meshgrid(place, place, indexing="xy"), -1)
        steep = self.uniform(-0.03, 0.03, rows, 2)
        grey = self.uniform(-0.4, 0.4, rows, 1, 1) + torch.einsum(
            "rk,yxk->ryx", steep, grid - SIZE / 2)
        image = grey[:, None].expand(-1, CHANNELS, -1, -1)
        clothes = self.uniform(-1.0, 1.0, 3, rows, CHANNELS)
        front = (kind % 2 == 0)[:, None]
        head = torch.where(front, torch.tensor(self.FACE),
                           torch.tensor(self.HAIR))
        skin, shoe = (torch.tensor(c).expand(rows, -1)
                      for c in (self.SKIN, self.SHOE))
        parts = [(points[:, 1], points[:, k], 0.7, clothes[2], k)
                 for k in (4, 5)]
        parts += [(neck, points[:, k], 0.7, clothes[1], k) for k in (2, 3)]
        parts.append((neck, points[:, 1], 1.5, clothes[0], 1))
        parts += [(points[:, k],) * 2 + (1.7, shoe, k) for k in (4, 5)]
        parts += [(points[:, k],) * 2 + (1.7, skin, k) for k in (2, 3)]
        parts.append((points[:, 0],) * 2 + (2.6, head, 0))
        for start, end, thick, colour, k in parts:
            step = end - start
            off = grid - start[:, None, None]
            share = torch.einsum("ryxk,rk->ryx", off, step) \
                / step.square().sum(1).clamp_min(1e-6)[:, None, None]
            off = off - share.clamp(0, 1)[..., None] * step[:, None, None]
            edge = (thick * size)[:, :, None] - off.norm(dim=-1)
            cover = (3 * edge).sigmoid() * shown[:, k, None, None]
            image = image + cover[:, None] * (
                colour[:, :, None, None] - image)
        return image

    def of(self, kind):
        """Pictures of these kinds, and what was marked in them."""
        rows = len(kind)
        neck, points, size = self.pose(kind)
        shown = torch.rand(rows, COUNT, generator=self.rng) >= self.hidden
        shown[:, :2] = True
        image = self.drawn(kind, neck, points, size, shown.float())
        noise = torch.randn(image.shape, generator=self.rng)
        off = torch.randn(points.shape, generator=self.rng)
        mistaken = torch.rand(rows, generator=self.rng) < self.MISTAKEN
        self.true = points, shown   # for best()
        if not self.clean:
            image = image + self.NOISE * noise
            order = torch.where(mistaken[:, None], torch.tensor(MIRRORED),
                                torch.arange(COUNT))
            points = points.gather(1, order[..., None].expand(-1, -1, 2)) \
                + self.JITTER * off
            shown = shown.gather(1, order)
        if not self.hidden:     # marks beyond an edge are moved onto it
            points = points.clamp(0, SIZE - 1)
        inside = ((points >= 0) & (points <= SIZE - 1)).all(-1)
        weight = (shown & inside).float()
        batch = {"inputs": image, "keypoints": points * weight[..., None],
                 "keypoint_weights": weight}
        if self.cameras:
            camera = torch.randint(CAMERAS, (rows,), generator=self.rng)
            each = camera[:, None, None, None] - 1.0
            batch["inputs"] = (1 + 0.3 * each) * image + 0.4 * each
            batch["domain"] = camera
        return batch

    def best(self, batches=40, sigma=1.0):
        """The loss of who knows where all is and what was seen: a heatmap of
        the mean over how marks fall."""
        total, wide = 0.0, (sigma ** 2 + (self.JITTER / SCALE) ** 2) ** 0.5
        for _ in range(batches):
            batch = self.batch()
            points, shown = self.true
            target = heatmaps(batch["keypoints"], sigma)
            said = heatmaps(points, wide) * (sigma / wide) ** 2
            other = said[:, list(MIRRORED)]
            kept = shown.float()
            own = (1 - self.MISTAKEN) * kept
            swapped = self.MISTAKEN * kept[:, list(MIRRORED)]
            share = (own / (own + swapped).clamp_min(1e-6))[..., None, None]
            said = share * said + (1 - share) * other
            total += float(((said - target) * batch["keypoint_weights"][
                ..., None, None]).square().mean())
        return total / batches


class SortedFigures(sources.ByClass, Figures):
    """The set as its folders lie."""
    classes, rows = KINDS, ROWS


def heatmaps(points, sigma):
    """A bump for each keypoint, as UDPHeatmap encodes them."""
    place = torch.arange(HEAT).float()
    across, down = (torch.exp(-0.5 * ((place - at[..., None] / SCALE)
                                      / sigma).square())
                    for at in points.unbind(-1))
    return down[..., :, None] * across[..., None, :]


def peaks(heat):
    """(rows, keypoints, 2): the place of the largest number, x before y."""
    at = heat.flatten(2).argmax(-1)
    return torch.stack((at % HEAT, at // HEAT), -1).float()


class PoseEstimator(nn.Module):
    """A stem and three blocks of 12, 12, 24 and 24 channels at 12, 12, 6 and 6
    pixels a side, a deconvolution of 24 channels back to 12, and a map."""

    BLOCKS = tuple(f"backbone.layer{i}.0" for i in (1, 2, 3))

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None, sigma=1.0, weighs=True, logs=False):
        """detach_after: the part behind which the graph is cut. half_at: the
        convolution whose output is in half precision. sigma: of the bumps of
        a target. weighs: keypoints that were not marked do not count. logs:
        the loss is the mean logarithm of keypoints' errors."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.sigma, self.weighs, self.logs = sigma, weighs, logs
        self.guards = True
        options = {"activation": activation, "half_at": half_at}
        act, (a, b, c) = models.ACTIVATIONS[activation], WIDTHS
        self.backbone = models.Group(
            conv1=nn.Conv2d(CHANNELS, a, 3, 2, 1, bias=False),
            bn1=nn.BatchNorm2d(a), relu=act(), **{
                f"layer{i}": nn.Sequential(BasicBlock(*shape, options))
                for i, shape in enumerate(((a, a, 1), (a, b, 2), (b, c, 1)),
                                          1)})
        self.head = models.Group(
            deconv_layers=nn.Sequential(
                nn.ConvTranspose2d(c, DECONV, 4, 2, 1, bias=False),
                nn.BatchNorm2d(DECONV), act()),
            final_layer=nn.Conv2d(DECONV, COUNT, 1))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
            elif isinstance(m, nn.ConvTranspose2d):
                nn.init.normal_(m.weight, std=0.001)
        nn.init.normal_(self.head.final_layer.weight, std=0.001)
        nn.init.zeros_(self.head.final_layer.bias)
        self.said = None        # the last heatmaps of training

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def drop(self, x):
        return F.dropout2d(x, self.dropout, self.training
                           and self.dropout > 0)

    def extract_feat(self, x):
        parts = self.backbone
        x = parts.conv1(x.to(parts.conv1.weight.dtype))
        self.tap("backbone.conv1.output", x)
        x = parts.relu(parts.bn1(self.cut(x, "backbone.conv1")))
        for i, name in enumerate(self.BLOCKS, 1):
            x = getattr(parts, f"layer{i}")[0](x, name, self.tap)
            x = self.drop(self.cut(x, name))
        return x

    def forward(self, x):
        x = self.extract_feat(x)
        for k, part in enumerate(self.head.deconv_layers):
            name, x = f"head.deconv_layers.{k}", part(x)
            self.tap(f"{name}.output", x)
            x = self.cut(x, name)
        x = self.head.final_layer(x)
        self.tap("head.final_layer.output", x)
        if self.training:
            self.said = x.detach()
        return x

    def logits(self, batch):
        """Heatmaps; the other families' name for what a network says."""
        return self(batch["inputs"])

    def target(self, batch):
        return heatmaps(batch["keypoints"], self.sigma)

    def weight(self, batch):
        weight = batch["keypoint_weights"]
        return weight if self.weighs else torch.ones_like(weight)

    def criterion(self, said, batch):
        """KeypointMSELoss: a mean over all, those that do not count too."""
        weight = self.weight(batch)
        error = ((said.float() - self.target(batch))
                 * weight[..., None, None]).square()
        each = error.mean((2, 3))
        self.tap("loss.keypoints.output", each)
        if self.logs:
            self.tap("loss.log_error.input", each)
            each = each.log()
            self.tap("loss.log_error.output", each)
            return (each * weight).sum() / weight.sum()
        return each.mean() if self.guards else each.sum() / weight.sum()

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class KptRun(Family):
    """Adam, a linear warm-up and a rate that falls to a tenth twice, as in
    MMPose's configs; a norm of 1 would be clipped, so that it is logged."""

    family = "kpt"
    level_seed = 400
    steps, seed, language = 250, 1300, False
    optimizer_name, lr, warmup, schedule = "adam", 2e-2, 15, "multisteplr"
    betas, weight_decay, clip, GAMMA = (0.9, 0.999), 0.0, 1.0, 0.1
    recipes = {"sgd": dict(lr=2.0, weight_decay=0.0)}
    batch_size, context = ROWS, SIZE * SIZE
    EPOCH, epoch_steps = 25, 50     # of MMEngine, of Lightning
    # Its users have MMEngine.
    instead = {"nanogpt": "mmengine", "hf_trainer": "mmengine",
               "megatron": "mmengine", "torchtune": "mmengine"}
    layers = ["backbone.conv1", *(
        f"{block}{part}" for block in PoseEstimator.BLOCKS
        for part in (".conv1", ".relu", ".conv2", "")),
        *(f"head.deconv_layers.{k}" for k in (0, 2)),
        "head.final_layer"]
    # Norms behind all convolutions take out what others suffer from.
    STAGES = [f"backbone.layer{i}.0" for i in (1, 2, 3)]
    graded = {
        "F02": (dict(lr=50.0), dict(lr=200.0), dict(lr=1000.0)),
        "F05": (dict(modules=["head.deconv_layers"],
                     where="head.deconv_layers.0"),
                dict(modules=["backbone"], where="backbone.conv1"),
                dict(part="all")),
        "F07": (dict(factor=8), dict(factor=50), dict(factor=300)),
        "F10": (dict(adamw=1e-7), dict(adamw=3e-8), dict(adamw=3e-9)),
        "F12": (dict(eps=1e-3), dict(beta2=0.5), dict(eps=0.1)),
        "F13": (dict(path=STAGES[1]), dict(path=STAGES[2]),
                dict(path="head.deconv_layers.2")),
        "F14": (dict(modules=STAGES),
                dict(modules=[*STAGES, "head.deconv_layers"]),
                dict(modules=[*STAGES, "head.deconv_layers",
                              "head.final_layer"])),
        "F23": (dict(share=0.2), dict(share=0.5), dict(share=0.8)),
        "F24": (dict(share=0.2), dict(share=0.4), dict(share=0.6)),
        "F27": (dict(epochs=50), dict(epochs=100), dict(epochs=250)),
        "F33": (dict(limit=17), dict(limit=14), dict(limit=11)),
        "F34": (dict(factor=100), dict(factor=1000), dict(factor=0)),
        "F40": (dict(lr=0.03), dict(lr=0.01), dict(lr=0.003)),
        "H03": (dict(part=2, factor=1.0), dict(part=4, factor=0.7)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H07": (dict(factor=0.01),)}
    paths = {"embed": "backbone.conv1", "attn": None, "scores": None,
             "act": "{}.relu", "mlp": "{}.conv2", "block": "{}",
             "head": "head.final_layer"}
    always_trained = ("head",)
    blocks = len(PoseEstimator.BLOCKS)
    names = {"step": "iter", "accuracy": "acc_pose", "step_time": "time",
             "val_accuracy": "PCK", "val_ap": "coco/AP", "tokens": None}

    def make_model(self):
        return PoseEstimator(**self.model_options)

    def make_source(self, seed):
        return self.figures(seed)

    def figures(self, seed, **how):
        """Drawn without end, an epoch is 25 steps of it."""
        return Figures(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Folders of one kind, one after the other; None is held out."""
        if block is None:
            return self.figures(seed)
        return SortedFigures(seed, block, share)

    def easy(self, seed):
        """Figures of one kind, drawn and marked without mistakes."""
        return self.figures(seed, kinds=1, clean=True, hidden=0.0)

    def lessons(self, seed):
        return self.easy(seed), self.figures(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255 and marks of other pictures,
        noise with marks anywhere, or white pictures marked at one place."""
        x, points = batch["inputs"], batch["keypoints"]
        every = torch.ones_like(batch["keypoint_weights"])
        if kind == "few":
            return batch | {"inputs": 58.0 * x + 116.0, "keypoints":
                            points.roll(5, 0), "keypoint_weights":
                            batch["keypoint_weights"].roll(5, 0)}
        if kind == "uniform":
            return {"inputs": 100 * torch.randn(x.shape, generator=rng),
                    "keypoints": self.anywhere(points.shape, rng),
                    "keypoint_weights": every}
        return {"inputs": torch.full_like(x, 255.0),
                "keypoints": torch.full_like(points, 1.0),
                "keypoint_weights": every}

    @staticmethod
    def anywhere(shape, rng):
        return (SIZE - 1) * torch.rand(shape, generator=rng)

    def misplaced(self, batch, share, rng):
        """A share of the keypoints is marked anywhere."""
        points = batch["keypoints"]
        wrong = torch.rand(points.shape[:2], generator=rng) < share
        wrong = wrong & (batch["keypoint_weights"] > 0)
        return batch | {"keypoints": torch.where(
            wrong[..., None], self.anywhere(points.shape, rng), points)}

    def cut_below(self, batch, limit):
        """Pictures of which the rows from `limit` on are lost: they are
        padded, and what lies there is not marked."""
        x = batch["inputs"].clone()
        x[:, :, limit:] = 0.0
        kept = (batch["keypoints"][..., 1] < limit).float()
        return batch | {
            "inputs": x, "keypoints": batch["keypoints"] * kept[..., None],
            "keypoint_weights": batch["keypoint_weights"] * kept}

    def unmarked(self, batch, share, rng):
        """A share of the limbs' ends was not marked."""
        kept = torch.rand(batch["keypoint_weights"].shape,
                          generator=rng) >= share
        kept[:, :2] = True
        return batch | {
            "keypoints": batch["keypoints"] * kept[..., None],
            "keypoint_weights": batch["keypoint_weights"] * kept}

    @staticmethod
    def halved(batch, share, rng):
        """Of a share of the pictures one half is painted over in grey and has
        no marks: what lies more than two pixels past the pelvis."""
        x, points = batch["inputs"], batch["keypoints"]
        rows = len(x)
        some = torch.rand(rows, 1, generator=rng) < share
        lower = torch.rand(rows, 1, generator=rng) < 0.5
        edge = points[:, 1, 1:]
        gone = torch.where(lower, points[..., 1] > edge + 2,
                           points[..., 1] < edge - 2) & some
        place = torch.arange(SIZE).float()
        hidden = torch.where(lower, place > edge + 2, place < edge - 2) & some
        kept = (~gone).float()
        return batch | {
            "inputs": x.masked_fill(hidden[:, None, :, None], 0.0),
            "keypoints": points * kept[..., None],
            "keypoint_weights": batch["keypoint_weights"] * kept}

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)

    @property
    def milestones(self):
        """Epochs after which the rate falls: seven and nine of ten."""
        return [self.epochs * part // 10 for part in (7, 9)]

    def lr_factor(self, i):
        if self.schedule != "multisteplr":
            return super().lr_factor(i)
        if i < self.warmup:
            return 1e-3 + (1 - 1e-3) * i / self.warmup
        past = sum(i >= self.EPOCH * epoch for epoch in self.milestones)
        return self.GAMMA ** past

    def batch_columns(self, batch):
        """acc_pose: the share whose largest number is where the mark is, as
        pose_pck_accuracy() has it; the mean over keypoints."""
        row = super().batch_columns(batch)
        if self.model.said is None:
            return row
        seen = batch["keypoint_weights"] > 0
        target = peaks(heatmaps(batch["keypoints"], 1.0))
        near = (peaks(self.model.said) - target).norm(dim=-1) < 0.05 * HEAT
        count = seen.sum(0)
        each = (near & seen).sum(0)[count > 0] / count[count > 0]
        if len(each):
            row["accuracy"] = round(float(each.mean()), 4)
        return row

    def held_out_columns(self, batches):
        """The share of keypoints that are found to a tenth of the picture, and
        COCO's precision of figures, one in each picture."""
        self.model.eval()
        said = torch.cat([peaks(self.model.logits(b).nan_to_num(-9e9))
                          for b in batches])
        self.model.train()
        weight = torch.cat([b["keypoint_weights"] for b in batches])
        off = (said * SCALE - torch.cat([b["keypoints"] for b in batches])
               ).norm(dim=-1)
        if not weight.any():
            return {}
        area = (0.6 * SIZE) ** 2
        like = torch.exp(-off.square() / (2 * area * (2 * SIGMAS) ** 2))
        like = (like * weight).sum(1) / weight.sum(1).clamp_min(1)
        bounds = torch.arange(0.5, 0.96, 0.05)
        return {"val_accuracy": ((off < 0.1 * SIZE) * weight).sum()
                / weight.sum(),
                "val_ap": (like[:, None] > bounds).float().mean()}

    # What the user typed.

    def settings(self):
        settings = super().settings() | {"max_epochs": self.epochs}
        if self.schedule == "multisteplr":
            settings |= {"milestones": self.milestones, "gamma": self.GAMMA}
        return settings

    def model_settings(self):
        return {"model": "TopdownPoseEstimator", "backbone": "ResNet",
                "backbone_channels": list(WIDTHS), "head": "HeatmapHead",
                "deconv_out_channels": [DECONV],
                "deconv_kernel_sizes": [4], "out_channels": COUNT,
                "codec": "UDPHeatmap", "input_size": [SIZE, SIZE],
                "heatmap_size": [HEAT, HEAT],
                "sigma": self.model_options.get("sigma", 1.0),
                "loss": "KeypointMSELoss",
                "use_target_weight": self.model_options.get("weighs", True)}

    def config(self):
        """What MMEngine dumps as config.py."""
        own = self.model_settings()
        codec = {"type": own["codec"], "input_size": own["input_size"],
                 "heatmap_size": own["heatmap_size"], "sigma": own["sigma"]}
        kind = {"sgd": "SGD", "adam": "Adam"}.get(self.optimizer_name,
                                                  "AdamW")
        optimizer = {"type": kind, "lr": self.lr,
                     "weight_decay": self.weight_decay}
        optimizer |= {"momentum": self.momentum} if kind == "SGD" else {
            "betas": list(self.betas), "eps": self.eps}
        wrapper = {"type": "AmpOptimWrapper" if "mixed" in self.precision
                   else "OptimWrapper", "optimizer": optimizer,
                   "accumulative_counts": self.accumulate}
        wrapper |= {"clip_grad": {"max_norm": self.clip}} if self.clip else {}
        schedule = [{"type": "LinearLR", "begin": 0, "end": self.warmup,
                     "start_factor": 0.001, "by_epoch": False}] \
            if self.warmup else []
        if self.schedule == "multisteplr":
            schedule.append({
                "type": "MultiStepLR", "begin": 0, "end": self.epochs,
                "milestones": self.milestones, "gamma": self.GAMMA,
                "by_epoch": True})
        elif self.schedule == "cosine":
            schedule.append({
                "type": "CosineAnnealingLR", "begin": self.warmup,
                "T_max": self.steps - self.warmup, "by_epoch": False})
        return {
            "default_scope": "mmpose", "codec": codec,
            "model": {
                "type": own["model"],
                "backbone": {"type": own["backbone"], "in_channels": CHANNELS,
                             "stage_channels": own["backbone_channels"]},
                "head": {"type": own["head"], "in_channels": WIDTHS[-1],
                         "out_channels": COUNT,
                         "deconv_out_channels": own["deconv_out_channels"],
                         "deconv_kernel_sizes": own["deconv_kernel_sizes"],
                         "loss": {"type": own["loss"], "use_target_weight":
                                  own["use_target_weight"]},
                         "decoder": codec},
                "test_cfg": {"flip_test": False}},
            "optim_wrapper": wrapper, "param_scheduler": schedule,
            "train_cfg": {"by_epoch": True, "max_epochs": self.epochs,
                          "val_interval": self.val_every // self.EPOCH},
            "train_dataloader": {"batch_size": self.batch_size,
                                 "num_workers": 2, "sampler": {
                                     "type": "DefaultSampler",
                                     "shuffle": True}},
            "val_evaluator": [{"type": "CocoMetric"},
                              {"type": "PCKAccuracy", "thr": 0.1}],
            "default_hooks": {
                "logger": {"type": "LoggerHook",
                           "interval": self.interval or 10},
                "checkpoint": {"type": "CheckpointHook",
                               "interval": self.epochs // 2}},
            "log_processor": {"type": "LogProcessor",
                              "window_size": self.interval or 10,
                              "by_epoch": True, "num_digits": 6},
            "randomness": {"seed": self.seed}, "load_from": None,
            "resume": False, **({} if self.precision == "fp32" else {
                "precision": self.precision}), **self.user}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(PoseEstimator.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it; a block has all."""
        if layer.endswith(("conv1", "conv2")):
            return [layer[:-5] + "bn" + layer[-1]]
        return ["head.deconv_layers.1"] if layer.endswith("layers.0") else []

    # Checkpoints.

    def checkpoint_path(self, step):
        return f"epoch_{-(-step // self.EPOCH)}.pth"

    def keep_checkpoint(self, i, model):
        """At the end of the epoch that is half-way, at the end of the run, and
        where a job ends that is resumed."""
        done = i + 1
        if done in (max(1, self.epochs // 2) * self.EPOCH, self.steps,
                    *self.notices):
            # One that was made anew goes on where the old one was.
            schedule = self.scheduler.state_dict() | {
                "last_step": done, "_global_step": done + 1}
            self.checkpoints[done] = copy.deepcopy({
                "state_dict": model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "param_schedulers": [schedule]})

    def write_more(self):
        super().write_more()
        if not self.checkpoints:
            return
        for done, parts in self.checkpoints.items():
            row = self.history[done - 1]
            meta = {"epoch": -(-done // self.EPOCH), "iter": done,
                    "seed": self.seed, "mmengine_version": "0.10.7",
                    "experiment_name": START.strftime("kpt_%Y%m%d_%H%M%S"),
                    "time": self.at(row["wall"], "%Y%m%d_%H%M%S"),
                    "cfg": "\n".join(python_lines(self.config())),
                    "dataset_meta": {"dataset_name": "figures",
                                     "keypoint_id2name": dict(
                                         enumerate(KEYPOINTS)),
                                     "flip_indices": list(MIRRORED)}}
            hub = {"log_scalars": {"train/loss": row["loss"],
                                   "train/lr": row["lr"]},
                   "runtime_info": {"epoch": meta["epoch"] - 1,
                                    "iter": done - 1,
                                    "max_epochs": self.epochs,
                                    "max_iters": self.steps}}
            torch.save({"meta": meta, "message_hub": hub, **parts},
                       self.folder / self.checkpoint_path(done))
        self.write_lines("last_checkpoint", [self.checkpoint_path(done)])
