"""A small network that enlarges pictures, as BasicSR trains EDSR.

Residual blocks without norms and a pixel shuffle make a picture of twice the
size; the loss is the mean error of its numbers. Parts, options, lines,
checkpoints and training states are those of BasicSR; validation has the
averaged weights (net_g_ema), as there.
"""

import copy
import math
from collections import Counter

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family
from .sources import AHEAD, DrawnAhead

SIZE, SCALE, COLOURS, KINDS = 16, 2, 3, 4   # SIZE is of gt
ROWS, HELD_OUT, CAMERAS = 12, 16, 3
WIDTH, DEPTH, RANGE = 12, 2, 1.0
MEAN = (0.5, 0.5, 0.5)


class Textures(DrawnAhead):
    """Pictures of four grades of detail, and the same at half their size.

    A picture is one of four kinds: a wall with soft light, stripes with hard
    edges, flat discs and boxes over each other, or thin strokes. All have a
    colour of their own and slopes of light; edges are as sharp as the larger
    picture shows them. Each is flipped and turned at random. The smaller
    picture is what a sensor has: linear light (a gamma of 2.2), through a
    bicubic filter, and .02 of its places are hot or dead. Both have an error
    of .02 a number, so that who knows the larger picture as it is has .016.

    So there are colours to pass on, then their curve, where stripes are
    between the smaller picture's places, how edges and strokes are, and which
    places to pass over: for these no linear filter will do.

    kinds: those that there are; domains: of three cameras, whose gain and
    offset differ; exposures: of four series from dark to bright; block, share:
    one kind, or series, after the other.
    """

    ERROR, GAMMA, HOT = 0.02, 2.2, 0.02

    def __init__(self, seed, rows=ROWS, kinds=None, block=None, share=1.0,
                 domains=False, exposures=False, size=SIZE):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share, self.number = rows, block, share, 0
        self.among = torch.tensor(kinds or range(KINDS))
        self.domains, self.exposures, self.ahead = domains, exposures, {}
        self.size = size
        line = torch.arange(size) + 0.5
        self.y, self.x = torch.meshgrid(line, line, indexing="ij")

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def kinds(self, each):
        rows = AHEAD * each
        kind = self.among[torch.randint(len(self.among), (rows,),
                                        generator=self.rng)]
        if self.block:
            here = (self.number + torch.arange(rows) // each) \
                // self.block % KINDS
            kept = torch.rand(rows, generator=self.rng) < self.share
            kind = torch.where(kept, here, kind)
        self.number += AHEAD
        return kind

    def colour(self, rows):
        return self.uniform(0.1, 0.9, rows, COLOURS, 1, 1)

    def across(self, rows):
        """How far places are along a direction of each picture's own."""
        angle = self.uniform(0, 2 * math.pi, rows, 1, 1)
        x, y = self.uniform(0.2, 0.8, 2, rows, 1, 1) * self.size
        return angle.cos() * (self.x - x) + angle.sin() * (self.y - y), \
            angle.cos() * (self.y - y) - angle.sin() * (self.x - x)

    @staticmethod
    def painted(image, inside, colour):
        """inside: how far a place is from the edge; that is half a pixel
        wide."""
        cover = (2 * inside + 0.5).clamp(0, 1)[:, None]
        return image + cover * (colour - image)

    def stripes(self, image):
        rows = len(image)
        far, _ = self.across(rows)
        period = self.uniform(5, 9, rows, 1, 1)
        within = torch.remainder(far, period)
        wide = period * self.uniform(0.35, 0.65, rows, 1, 1)
        return self.painted(image, torch.minimum(within, wide - within),
                            self.colour(rows))

    def shapes(self, image):
        rows = len(image)
        for n in range(5):
            far, along = self.across(rows)
            wide, long = self.uniform(2.5, 6, 2, rows, 1, 1)
            box = torch.minimum(wide - far.abs(), long - along.abs())
            disc = wide - (far ** 2 + along ** 2).sqrt()
            image = self.painted(image, disc if n % 2 else box,
                                 self.colour(rows))
        return image

    def strokes(self, image):
        rows = len(image)
        colour = self.colour(rows)
        for _ in range(7):
            far, along = self.across(rows)
            wide, long = self.uniform(0.6, 1.0, rows, 1, 1), \
                self.uniform(3, 8, rows, 1, 1)
            image = self.painted(image, torch.minimum(
                wide - far.abs(), long - along.abs()), colour)
        return image

    def draw(self, each):
        kind = group = self.kinds(each)
        rows = len(kind)
        if self.exposures:
            kind = torch.randint(KINDS, (rows,), generator=self.rng)
        slope = 0.01 * self.normal(2, rows, 1, 1, 1)
        wall = self.colour(rows) + slope[0] * (self.x - self.size / 2) \
            + slope[1] * (self.y - self.size / 2)
        image = wall.clone()
        for k, paint in enumerate((self.stripes, self.shapes, self.strokes)):
            some = kind == k + 1
            if some.any():
                image[some] = paint(wall[some])
        image = image.clamp(0, 1)
        if self.exposures:
            image = 0.2 * group[:, None, None, None] + 0.4 * image
        return self.pair(image)

    def turned(self, image):
        """use_flip and use_rot: of each picture by itself."""
        ways = torch.rand(3, len(image), 1, 1, 1, generator=self.rng) < 0.5
        image = torch.where(ways[0], image.flip(3), image)
        image = torch.where(ways[1], image.flip(2), image)
        return torch.where(ways[2], image.transpose(2, 3), image)

    def pair(self, gt):
        gt = self.turned(gt)
        batch = {}
        if self.domains:
            camera = torch.randint(CAMERAS, (len(gt),), generator=self.rng)
            each = camera[:, None, None, None] - 1.0
            gt = (0.9 + 0.1 * each) * gt + 0.05
            batch["domain"] = camera
        lq = F.interpolate(gt ** self.GAMMA, scale_factor=1 / SCALE,
                           mode="bicubic", antialias=True,
                           align_corners=False)
        hot = torch.rand(len(lq), 1, *lq.shape[2:], generator=self.rng)
        lq = torch.where(hot < self.HOT, (hot < self.HOT / 2).float(), lq)
        return {k: (t + self.ERROR * self.normal(*t.shape)).clamp(0, 1)
                .contiguous() for k, t in (("lq", lq), ("gt", gt))} | batch


def ssim(a, b):
    """As calculate_ssim has it: a Gaussian window of 11, colours apart."""
    at = torch.arange(11) - 5.0
    line = (-at ** 2 / 4.5).exp()
    window = (line / line.sum()).outer(line / line.sum())[None, None]

    def mean(x):
        return F.conv2d(x.flatten(0, 1)[:, None], window)
    u, v = mean(a), mean(b)
    aa, bb, ab = mean(a * a) - u * u, mean(b * b) - v * v, mean(a * b) - u * v
    one, two = 0.01 ** 2, 0.03 ** 2
    return ((2 * u * v + one) * (2 * ab + two) / (
        (u * u + v * v + one) * (aa + bb + two))).mean()


class ResidualBlockNoBN(nn.Module):
    def __init__(self, wide, activation):
        super().__init__()
        self.conv1 = nn.Conv2d(wide, wide, 3, 1, 1)
        self.conv2 = nn.Conv2d(wide, wide, 3, 1, 1)
        self.relu = models.ACTIVATIONS[activation]()


class EDSR(nn.Module):
    """12 channels, two blocks, twice the size. The range is 1, as of other
    networks there; EDSR's own options have 255."""

    BLOCKS = tuple(f"body.{k}" for k in range(DEPTH))

    def __init__(self, activation="relu", dropout=0.0, detach_after=(),
                 half_at=None, loss_weight=1.0, logs=False):
        """detach_after: the parts behind which the graph is cut. half_at: the
        convolution whose output is in half precision. loss_weight: of
        pixel_opt. logs: the loss is the mean logarithm of a picture's squared
        error, as PSNRLoss, without what keeps it from zero."""
        super().__init__()
        self.dropout, self.half_at = dropout, half_at
        self.detach_after = (detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)
        self.weight, self.logs = loss_weight, logs
        self.img_range, self.mean = RANGE, torch.tensor(MEAN).view(1, 3, 1, 1)
        self.conv_first = nn.Conv2d(COLOURS, WIDTH, 3, 1, 1)
        self.body = nn.Sequential(*(ResidualBlockNoBN(WIDTH, activation)
                                    for _ in range(DEPTH)))
        self.conv_after_body = nn.Conv2d(WIDTH, WIDTH, 3, 1, 1)
        self.upsample = nn.Sequential(
            nn.Conv2d(WIDTH, SCALE ** 2 * WIDTH, 3, 1, 1),
            nn.PixelShuffle(SCALE))
        self.conv_last = nn.Conv2d(WIDTH, COLOURS, 3, 1, 1)
        self.kept = []      # what a validation says, and is to say
        self.averaged = ()  # in evaluation it speaks for this one
        self.of_pixels = None   # what training has in place of the loss

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if name in self.detach_after else x

    def part(self, name, x):
        self.tap(f"{name}.input", x)
        y = self.get_submodule(name)(x)
        if name == self.half_at:
            y = y.half()
        self.tap(f"{name}.output", y)
        return self.cut(y.to(x.dtype), name)

    def forward(self, x):
        x = x.to(self.conv_first.weight.dtype)
        mean = self.mean.to(x)
        x = self.part("conv_first", (x - mean) * self.img_range)
        res = x
        for name, block in zip(self.BLOCKS, self.body):
            y = self.part(f"{name}.conv1", res)
            self.tap(f"{name}.relu.input", y)
            y = block.relu(y)
            self.tap(f"{name}.relu.output", y)
            res = res + self.part(f"{name}.conv2", y)
            self.tap(f"{name}.output", res)
            res = self.cut(res, name)
        res = self.part("conv_after_body", res) + x
        y = self.upsample[1](self.part("upsample.0", res))
        y = F.dropout2d(self.cut(y, "upsample"), self.dropout, self.training
                        and self.dropout > 0)
        y = self.part("conv_last", y)
        return (y / self.img_range + mean).float()

    def logits(self, batch):
        return self(batch["lq"])

    def criterion(self, said, batch):
        target = batch["gt"]
        if not self.training:
            self.kept.append((said, target))
        if self.training and self.of_pixels:
            return self.weight * self.of_pixels(said, target)
        off = said - target
        if self.logs:
            off = off * batch["mask"][:, None, None, None]
            each = off.square().mean((1, 2, 3))
            self.tap("loss.log_error.input", each)
            each = each.log()
            self.tap("loss.log_error.output", each)
            return self.weight * 10 / math.log(10) * each.mean()
        return self.weight * off.abs().mean()

    def loss(self, batch):
        if self.averaged and not self.training:
            return self.averaged[0].loss(batch)
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


# What feeds the activations of blocks.
BEFORE_ACT = tuple(f"{block}.conv1" for block in EDSR.BLOCKS)


class EdsrRun(Family):
    """Adam at a rate that is halved three times, without warm-up, decay or
    clipping, and an average of the weights."""

    family = "edsr"
    level_seed = 400
    steps, seed, language = 200, 2900, False
    optimizer_name, lr, betas, weight_decay = "adam", 6e-3, (0.9, 0.99), 0.0
    warmup, schedule, clip = 0, "multistep", None
    MILESTONES, GAMMA = (120, 160, 180), 0.5
    EMA = 0.95
    recipes = {"sgd": dict(lr=0.15, weight_decay=0.0)}
    base = {"lr": 4e-3, "weight_decay": 0.0}
    EPOCH = epoch_steps = SAVES = 50
    batch_size, context, classes = ROWS, SIZE * SIZE, KINDS
    flips = True
    # Its users have the trainer's own log.
    instead = {"nanogpt": "basicsr", "hf_trainer": "basicsr",
               "megatron": "basicsr", "torchtune": "basicsr"}
    layers = ["conv_first", *(f"{block}{part}" for block in EDSR.BLOCKS
                              for part in (".conv1", ".relu", ".conv2", "")),
              "conv_after_body", "upsample.0", "conv_last"]
    BODY = ["body.0", "body.1", "conv_after_body", "upsample"]
    graded = {
        "F01": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F02": (dict(lr=1.0), dict(lr=5.0), dict(lr=50.0)),
        "F04": (dict(at=60), dict(at=30), dict(at=0)),
        "F05": (dict(modules=["conv_first", "body"], where="conv_first"),
                dict(modules=["body", "conv_after_body", "upsample"],
                     where="body.0"), dict(part="all")),
        "F07": (dict(factor=8), dict(factor=20), dict(factor=100)),
        "F08": (dict(every=4), dict(every=16), dict(every=1 << 30)),
        "F10": (dict(adamw=1e-7), dict(adamw=3e-8), dict(adamw=1e-8)),
        "F11": (dict(adam=0.005), dict(adam=0.02), dict(adam=0.1)),
        "F12": (dict(eps=0.02), dict(eps=0.1), dict(eps=1.0)),
        # What goes around the body goes past a cut behind it.
        "F13": (dict(path="body.1"),
                dict(path="conv_after_body", more=["conv_first"]),
                dict(path="upsample")),
        "F14": (dict(modules=BODY[:2]), dict(modules=BODY),
                dict(modules=[*BODY, "conv_last"])),
        "F15": (dict(at=150), dict(at=100), dict(at=50)),
        "F16": (dict(rate=0.03), dict(rate=0.1), dict(rate=0.4)),
        "F24": (dict(share=0.3), dict(share=0.5), dict(share=0.7)),
        "F26": (dict(steps=12, share=0.9), dict(steps=25, share=1.0),
                dict(steps=50, share=1.0)),
        "F27": (dict(epochs=100), dict(epochs=200), dict(epochs=400)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=12), dict(limit=8), dict(limit=4)),
        "F34": (dict(factor=3), dict(factor=10), dict(factor=0)),
        "F36a": (dict(bias=-1.5), dict(bias=-4.0), dict(bias=-20.0)),
        "F36b": (dict(factor=100, kind="sigmoid"),
                 dict(factor=300, kind="tanh"),
                 dict(factor=2000, kind="sigmoid")),
        "F39a": (dict(at=150), dict(at=100), dict(at=50)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=1.3)),
        "H04": (dict(rate=0.02), dict(rate=0.05)),
        "H07": (dict(factor=0.2),),
        "H11": (dict(steps=200, keep="block"),
                dict(steps=300, keep="head"))}
    paths = {"embed": "conv_first", "attn": None, "scores": None,
             "act": "body.{}.relu", "mlp": "body.{}.conv2",
             "block": "body.{}", "head": "conv_last"}
    always_trained = ("conv_after_body", "upsample")
    blocks = DEPTH
    names = {"step": "iter", "loss": "l_pix",
             "val_loss": "metrics/Set5/l_pix",
             "val_psnr": "metrics/Set5/psnr",
             "val_ssim": "metrics/Set5/ssim", "step_time": "time",
             "tokens": None}

    def make_model(self):
        return EDSR(**self.model_options)

    def lr_factor(self, i):
        if self.schedule == "multistep":
            return self.GAMMA ** sum(i >= at for at in self.MILESTONES)
        return super().lr_factor(i)

    # Data.

    def make_source(self, seed):
        return self.textures(seed)

    def textures(self, seed, **how):
        """Drawn without end, an epoch is 50 steps of it."""
        return Textures(seed, HELD_OUT if seed == 9 else self.batch_size,
                        **how)

    def finite(self, data, seed):
        """Crops that are kept are not turned anew."""
        self.flips = False
        return super().finite(data, seed)

    def in_blocks(self, seed, block, share):
        """Series from dark to bright, one after the other; None is held
        out."""
        return self.textures(seed, block=block, share=share, exposures=True)

    def easy(self, seed):
        """Walls alone."""
        return self.textures(seed, kinds=(0,))

    def lessons(self, seed):
        return self.textures(seed, kinds=(0, 0, 1)), self.textures(seed)

    def strangers(self, rows, rng):
        """Larger pictures that have nothing to do with anything."""
        if not hasattr(self, "others"):
            self.others = Textures(self.seed + 800)
        return self.others.batch(rows)["gt"]

    def garbage(self, batch, kind, rng):
        """A corrupt shard: numbers of 0 to 255 that nobody scaled, noise, or
        white pictures of 0 to 255."""
        return batch | {k: {
            "few": 255.0 * batch[k],
            "uniform": 20 * torch.randn(batch[k].shape, generator=rng),
            "constant": torch.full_like(batch[k], 255.0)}[kind]
            for k in ("lq", "gt")}

    @staticmethod
    def cut_below(batch, limit):
        """Of the larger picture a number of rows is read; the rest is
        padding."""
        gt = batch["gt"].clone()
        gt[:, :, limit:] = 0.0
        return batch | {"gt": gt}

    @staticmethod
    def blurred(x, sigma):
        """By a Gaussian, with edges repeated."""
        at = torch.arange(7) - 3.0
        line = (-at ** 2 / (2 * sigma ** 2)).exp()
        window = (line / line.sum()).outer(line / line.sum())[None, None]
        wide = F.pad(x, (3,) * 4, mode="replicate").flatten(0, 1)[:, None]
        return F.conv2d(wide, window).view_as(x)

    @staticmethod
    def standardised(batch):
        """By the smaller picture's mean and spread, back to about .5."""
        x, each = batch["lq"], (1, 2, 3)
        mean, std = x.mean(each, keepdim=True), x.std(each, keepdim=True)
        return batch | {k: 0.5 + 0.16 * (batch[k] - mean) / std
                        for k in ("lq", "gt")}

    @staticmethod
    def weighed(batch, empty):
        """With a weight for each picture; the first is a filler if asked."""
        mask = torch.ones(len(batch["gt"]))
        mask[0] = 0.0 if empty else 1.0
        return batch | {"mask": mask}

    def grow(self, factor):
        """A channel of the last block's that nothing reads grows, as some do
        in large runs."""
        block = self.model.get_submodule(EDSR.BLOCKS[-1])
        if not hasattr(self, "unread"):
            def unread(grad):
                grad = grad.clone()
                grad[:, 0] = 0.0
                return grad
            self.unread = block.conv2.weight.register_hook(unread)
        block.conv2.weight[:, 0] = 0.0
        block.conv1.weight[0] *= factor
        block.conv1.bias[0] *= factor

    # What is logged.

    def held_out_columns(self, batches):
        """Of the averaged weights, with a border of two left out."""
        kept, self.average.kept = self.average.kept, []
        said, real = (torch.cat(t)[:, :, SCALE:-SCALE, SCALE:-SCALE]
                      for t in zip(*kept))
        said = said.clamp(0, 1)
        error = (said - real).square().mean((1, 2, 3))
        return {"val_psnr": (-10 * error.log10()).mean(),
                "val_ssim": ssim(said, real)}

    # Averages and checkpoints.

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)

    @property
    def saved(self):
        """Of all that is saved what is kept, half-way and last."""
        return {self.SAVES * (self.steps // (k * self.SAVES)) or self.steps
                for k in (1, 2)}

    def keep_checkpoint(self, i, model):
        """model_ema(); and what is saved and kept."""
        if not i:
            self.average = copy.deepcopy(model).float().eval()
            self.average.requires_grad_(False)
            self.pairs = list(zip(self.average.parameters(),
                                  model.parameters()))
            model.averaged = (self.average,)
        torch._foreach_lerp_([kept for kept, _ in self.pairs],
                             [now.detach().float() for _, now in self.pairs],
                             1 - self.EMA)
        if i + 1 in self.saved:
            self.checkpoints[i + 1] = copy.deepcopy((
                {"params": model.state_dict(),
                 "params_ema": self.average.state_dict()},
                self.optimizer.state_dict(),
                {"_step_count": i + 2, "last_epoch": i + 1,
                 "base_lrs": list(self.scheduler.base_lrs),
                 "_last_lr": [g["lr"] for g in
                              self.optimizer.param_groups]}))

    def write_more(self):
        super().write_more()
        for part in ("models", "training_states"):
            (self.folder / part).mkdir(exist_ok=True)
        for done, (nets, optimizer, rate) in self.checkpoints.items():
            torch.save(nets, self.folder / f"models/net_g_{done}.pth")
            own = self.scheduler_options()
            if "milestones" in own:
                own["milestones"] = Counter(own["milestones"])
            torch.save({"epoch": (done - 1) // self.EPOCH, "iter": done,
                        "optimizers": [optimizer],
                        "schedulers": [{k: v for k, v in own.items()
                                        if k != "type"} | rate]},
                       self.folder / f"training_states/{done}.state")

    # What the user typed.

    def scheduler_options(self):
        if self.schedule == "multistep":
            return {"type": "MultiStepLR", "milestones":
                    list(self.MILESTONES), "gamma": self.GAMMA}
        if self.schedule == "cosine_restart":
            return {"type": "CosineAnnealingRestartLR",
                    "periods": list(self.PERIODS),
                    "restart_weights": list(self.WEIGHTS), "eta_min": 1e-7}
        return {"type": self.schedule}

    def loss_options(self):
        return {"type": "PSNRLoss" if self.model_options.get("logs")
                else "L1Loss", "loss_weight": self.model_options.get(
                    "loss_weight", 1.0), "reduction": "mean"}

    def model_settings(self):
        return {"network_g": "EDSR", "num_in_ch": COLOURS,
                "num_out_ch": COLOURS, "num_feat": WIDTH, "num_block": DEPTH,
                "upscale": SCALE, "res_scale": 1, "img_range": RANGE,
                "rgb_mean": list(MEAN)}

    def settings(self):
        settings = super().settings() | {
            "ema_decay": self.EMA, "gt_size": SIZE, "use_flip": self.flips,
            "use_rot": self.flips,
            **{f"pixel_{k}": v for k, v in self.loss_options().items()},
            **{f"scheduler_{k}": v for k, v in
               self.scheduler_options().items() if k != "type"}}
        return settings | self.user

    def options(self):
        """The yml, with what else the user typed in its part."""
        user, parts = dict(self.user), {}
        for part, names in OWN_OPTIONS.items():
            parts[part] = {k: user.pop(k) for k in names if k in user}
        if self.optimizer_name == "sgd":
            optim = {"type": "SGD", "lr": self.lr, "momentum": self.momentum,
                     "weight_decay": self.weight_decay}
        else:
            optim = {"type": "Adam" if self.optimizer_name == "adam"
                     else "AdamW", "lr": self.lr,
                     "weight_decay": self.weight_decay,
                     "betas": list(self.betas), "eps": self.eps}
        own = {"network_g" if k == "type" else k: v
               for k, v in self.model_settings().items() if k != "network_g"}
        return {
            "name": NAME, "model_type": "SRModel", "scale": SCALE,
            "num_gpu": 0, "manual_seed": self.seed,
            "precision": self.precision, "world_size": 1, "datasets": {
                "train": {
                    "name": "Textures", "type": "PairedImageDataset",
                    "dataroot_gt": "datasets/textures/GT",
                    "dataroot_lq": "datasets/textures/LRbicx2",
                    "filename_tmpl": "{}", "io_backend": {"type": "disk"},
                    "gt_size": SIZE, "use_flip": self.flips,
                    "use_rot": self.flips, "use_shuffle": True,
                    "num_worker_per_gpu": 2,
                    "batch_size_per_gpu": self.batch_size,
                    "dataset_enlarge_ratio": 1, "prefetch_mode": None}
                | parts["datasets"],
                "val": {"name": "Set5", "type": "PairedImageDataset",
                        "dataroot_gt": "datasets/Set5/GT",
                        "dataroot_lq": "datasets/Set5/LRbicx2",
                        "io_backend": {"type": "disk"}}},
            "network_g": {"type": "EDSR", **own, **parts["network_g"]},
            "path": {"pretrain_network_g": None, "strict_load_g": True,
                     "resume_state": None} | parts["path"],
            "train": {
                "ema_decay": self.EMA, "optim_g": optim,
                "scheduler": self.scheduler_options(),
                "total_iter": self.steps, "warmup_iter": self.warmup or -1,
                "accumulate": self.accumulate, "grad_clip": self.clip,
                "pixel_opt": self.loss_options() | parts["pixel_opt"],
                **user},
            "val": {"val_freq": self.val_every, "save_img": False,
                    "metrics": {
                        "psnr": {"type": "calculate_psnr",
                                 "crop_border": SCALE,
                                 "test_y_channel": False},
                        "ssim": {"type": "calculate_ssim",
                                 "crop_border": SCALE,
                                 "test_y_channel": False},
                        "l_pix": {"type": "calculate_l_pix",
                                  "better": "lower"}}},
            "logger": {"print_freq": self.interval or 100,
                       "save_checkpoint_freq": self.SAVES,
                       "use_tb_logger": True},
            "dist_params": {"backend": "gloo", "port": 29500}}

    def checkpoint_path(self, done):
        return f"experiments/{NAME}/models/net_g_{done}.pth"

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        return []


NAME = "EDSR_x2_f12b2_textures_B12"
# Where BasicSR's users have an option, if it is not of `train`.
OWN_OPTIONS = {
    "datasets": ("max_rows", "dataset_size", "blur_sigma", "noise_range",
                 "degradation_prob", "curriculum", "gt_crop", "lq_blur_sigma"),
    "network_g": ("dropout",),
    "path": ("init_from", "freeze"),
    "pixel_opt": ("downscale", "keep_ratio", "loss_channels")}
