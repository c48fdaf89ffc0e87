"""Lines of text that are read from pictures, as Topdu/OpenOCR trains SVTR.

A stem of two convolutions makes patches of 4 x 4 pixels, to which places are
added; three stages mix them, the first one with its neighbours alone, and
halve their rows until a single one is left; a map says of each column which
character it is, or none, and the loss sums over all alignments (CTC, class 0
is blank). A stage has one block where SVTR-T has three or six. Names of
parameters, options, lines and files are the trainer's.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .ctc import distance
from .family import Family
from .sources import AHEAD, DrawnAhead

HIGH, WIDE, ROWS, HELD_OUT = 16, 48, 24, 32
DIGITS, LETTERS = "012347", "OIAEHX"
CHARACTERS = DIGITS + LETTERS
KINDS, EACH = 2, len(DIGITS)
SHORTEST, LONGEST, MOST = 3, 5, 8   # MOST is max_text_length
DIMS, HEADS, MIXERS = (24, 32, 48), (2, 2, 3), ("Local", "Global", "Global")
WINDOW, OUT, FRAMES, RATIO = (3, 5), 40, 12, 2
GRIDS = ((4, 12), (2, 12), (1, 12))     # of patches, by stages
BLOCKS = tuple(f"encoder.blocks{k}.0" for k in (1, 2, 3))
MIDDLE = ("blocks1", "blocks2", "blocks3", "sub_sample1", "sub_sample2")
STEM = tuple(f"encoder.patch_embed.proj.{k}" for k in (0, 1))
# What feeds the activations of stem and blocks.
BEFORE_ACT = (*(f"{part}.norm" for part in STEM),
              *(f"{block}.mlp.fc1" for block in BLOCKS))
METRICS = ("acc", "norm_edit_dis")
OUTPUT = "./output/rec/lines/svtr_tiny"
EPS = 1e-5              # of RecMetric

# Seven rows of five dots; 0 and O are one, as are 1 and I.
GLYPHS = {
    "0": "01110 10001 10001 10001 10001 10001 01110",
    "1": "00100 01100 00100 00100 00100 00100 01110",
    "2": "01110 10001 00001 00110 01000 10000 11111",
    "3": "11110 00001 00001 01110 00001 00001 11110",
    "4": "00010 00110 01010 10010 11111 00010 00010",
    "7": "11111 00001 00010 00100 01000 01000 01000",
    "A": "00100 01010 10001 10001 11111 10001 10001",
    "E": "11111 10000 10000 11110 10000 10000 11111",
    "H": "10001 10001 10001 11111 10001 10001 10001",
    "X": "10001 10001 01010 00100 01010 10001 10001"}
SAME = {"O": "0", "I": "1"}


def dots():
    return torch.stack([torch.tensor(
        [[float(dot) for dot in row]
         for row in GLYPHS[SAME.get(c, c)].split()]) for c in CHARACTERS])


class Lines(DrawnAhead):
    """Pictures of a line of three to five characters, in three colours.

    A line has digits or letters; six each, of which two look alike in both,
    so that what they are is said by the others of the line. A line is plain
    or bold and fills its picture, as the trainer does not keep its aspect; a
    share of `HARD` is slanted, too high or low, and fainter by up to the
    second of `FAINT`; `NOISE` lies on each pixel. So there are three grades:
    what is upright, what is slanted and faint, and what depends on the line.
    Of characters a share of `SMUDGE` is a blot, of which nobody can tell more
    than the kind, and a share of `SLIP` was typed anew from those of its
    kind.

    block, share: so many batches of one kind of line after the other.
    domains: of three cameras, with gains and offsets of their own. limit:
    characters of a transcript that are kept. longest: the longest line.
    clean: nothing is slanted, faint, a blot or a slip. together: lines of
    batches are about equally long.
    """

    HARD, FAINT, NOISE = 0.3, (0.0, 0.5), 0.05
    SMUDGE, SLIP = 0.04, 0.02
    TALL, LONG = 9, 40      # of the canvas, in dots

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, domains=False,
                 limit=None, longest=LONGEST, clean=False, together=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share = rows, block, share
        self.domains, self.limit, self.longest = domains, limit, longest
        self.clean, self.together = clean, together
        self.number, self.ahead, self.glyphs = 0, {}, dots()

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def between(self, low, high, *shape):
        return torch.randint(low, high + 1, shape, generator=self.rng)

    def some(self, share, *shape):
        return torch.rand(shape, generator=self.rng) < share

    def kinds(self, each, rows):
        kind = self.between(0, KINDS - 1, rows)
        if self.block:
            here = (self.number + torch.arange(rows) // each) \
                // self.block % KINDS
            kind = torch.where(self.some(self.share, rows), here, kind)
        return kind

    def canvas(self, said, count, blot):
        """Ink of 0 to 1, (rows, y, x), and where a line ends."""
        rows = len(said)
        gaps = self.between(1, 2, rows, LONGEST) + 5
        starts = 1 + F.pad(gaps[:, :-1], (1, 0)).cumsum(1)
        ink = self.glyphs[said]
        ink = torch.where(blot[..., None, None], 0.6, ink)
        ink = ink * (torch.arange(LONGEST) < count[:, None])[..., None, None]
        y = 1 + torch.arange(7)[:, None]
        at = y * self.LONG + starts[..., None, None] + torch.arange(5)
        flat = torch.zeros(rows, self.TALL * self.LONG)
        flat.scatter_add_(1, at.flatten(1), ink.flatten(1))
        ends = starts.gather(1, count[:, None] - 1)[:, 0] + 5
        return flat.view(rows, self.TALL, self.LONG), ends

    def draw(self, each):
        rows = AHEAD * each
        hard = self.some(self.HARD * (not self.clean), rows, 1, 1).float()
        kind = self.kinds(each, rows)
        count = self.between(SHORTEST, self.longest, rows)
        if self.together:
            count = count.sort().values.view(AHEAD, each)[torch.randperm(
                AHEAD, generator=self.rng)].flatten()
        said = kind[:, None] * EACH + self.between(0, EACH - 1, rows, LONGEST)
        blot = self.some(
            self.SMUDGE * (not self.clean), rows, LONGEST)
        ink, ends = self.canvas(said, count, blot)
        bold = self.some(0.4, rows, 1, 1)
        ink = torch.where(bold, torch.maximum(ink, F.pad(ink, (1, -1))), ink)
        # Of each pixel the place on the canvas.
        tall = self.uniform(1.45, 1.85, rows, 1, 1)
        broad = (WIDE - self.uniform(0, 4, rows, 1, 1)) \
            / (ends[:, None, None] + 1)
        slant = hard * self.uniform(-0.4, 0.4, rows, 1, 1)
        low = 0.5 * (HIGH - 1) + hard * self.uniform(-1.5, 1.5, rows, 1, 1)
        left = self.uniform(0, 1, rows, 1, 1) * (
            WIDE - broad * (ends[:, None, None] + 1))
        y = (torch.arange(float(HIGH))[:, None] - low) / tall
        x = (torch.arange(float(WIDE)) - left) / broad + slant * y
        place = torch.stack((2 * x / (self.LONG - 1) - 1,
                             (2 * y / (self.TALL - 1)).expand_as(x)), -1)
        ink = F.grid_sample(ink[:, None], place, align_corners=True)
        paper = self.uniform(0.6, 1.0, rows, 3, 1, 1)
        depth = 0.9 - hard[..., None] * self.uniform(*self.FAINT,
                                                     rows, 1, 1, 1)
        image = paper * (1 - depth * ink)
        camera = self.between(0, 2, rows)
        if self.domains:
            gain = 0.12 * (camera - 1.0)[:, None, None, None]
            image = (1 + gain) * image - 0.5 * gain
        image = image + self.NOISE * torch.randn(
            image.shape, generator=self.rng)
        slip = self.some(
            self.SLIP * (not self.clean), rows, LONGEST)
        text = torch.where(slip, kind[:, None] * EACH + self.between(
            0, EACH - 1, rows, LONGEST), said)
        if self.limit:
            count = count.clamp(max=self.limit)
        text = (1 + text) * (torch.arange(LONGEST) < count[:, None])
        self.number += AHEAD
        batch = {"image": (image.clamp(0, 1) - 0.5) / 0.5,
                 "label": F.pad(text, (0, MOST - LONGEST)), "length": count}
        return batch | ({"domain": camera} if self.domains else {})


def best():
    """What is left to who can read, nats a line."""
    wrong = Lines.SLIP * (EACH - 1) / EACH
    slips = -(1 - wrong) * math.log(1 - wrong) \
        - wrong * math.log(Lines.SLIP / EACH)
    each = (1 - Lines.SMUDGE) * slips + Lines.SMUDGE * math.log(EACH)
    lengths = range(SHORTEST, LONGEST + 1)
    alike = Lines.SMUDGE + (1 - Lines.SMUDGE) * len(SAME) / EACH
    return sum(n * each + alike ** n * math.log(KINDS)
               for n in lengths) / len(lengths)


class ConvBNLayer(nn.Module):
    def __init__(self, wide, out, act):
        super().__init__()
        self.conv = nn.Conv2d(wide, out, 3, 2, 1, bias=False)
        self.norm, self.act = nn.BatchNorm2d(out), act()

    def forward(self, x, name, through):
        x = self.norm(through(f"{name}.conv", self.conv, x))
        return through(f"{name}.act", self.act, x)


class Block(nn.Module):
    """With norms in front, which the trainer's config calls prenorm False."""

    def __init__(self, stage, act, options):
        super().__init__()
        dim = DIMS[stage]
        self.heads, self.options = HEADS[stage], options
        self.half = options["half_scores"] == stage
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.mixer = nn.Module()
        self.mixer.qkv = nn.Linear(dim, 3 * dim)
        self.mixer.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.Module()
        self.mlp.fc1 = nn.Linear(dim, RATIO * dim)
        self.mlp.act = act()
        self.mlp.fc2 = nn.Linear(RATIO * dim, dim)
        y, x = torch.meshgrid(*map(torch.arange, GRIDS[stage]),
                              indexing="ij")
        near = torch.ones(y.numel(), y.numel(), dtype=torch.bool)
        if MIXERS[stage] == "Local":
            for at, size in zip((y.flatten(), x.flatten()), WINDOW):
                near &= (at[:, None] - at).abs() <= size // 2
        self.near = near

    def forward(self, x, name, through, tap, drop):
        rows, steps, dim = x.shape
        width = dim // self.heads
        scale = self.options["scale"] or width ** -0.5
        qkv = self.mixer.qkv(self.norm1(x)).view(rows, steps, 3, self.heads,
                                                 width)
        y = models.attend(*qkv.permute(2, 0, 3, 1, 4),
                          lambda n, t: tap(f"{name}.mixer.{n}", t), scale,
                          half=self.half, seen=self.near[None, None])
        y = through(f"{name}.mixer", self.mixer.proj,
                    y.transpose(1, 2).reshape(x.shape))
        x = x + drop(y)
        y = through(f"{name}.mlp.act", self.mlp.act,
                    self.mlp.fc1(self.norm2(x)))
        return through(f"{name}.mlp", self.mlp.fc2, drop(y)) + x


class SVTRNet(nn.Module):
    def __init__(self, act, options):
        super().__init__()
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.ModuleList((
            ConvBNLayer(3, DIMS[0] // 2, act),
            ConvBNLayer(DIMS[0] // 2, DIMS[0], act)))
        self.pos_embed = nn.Parameter(torch.zeros(
            1, math.prod(GRIDS[0]), DIMS[0]))
        for k in range(3):
            setattr(self, f"blocks{k + 1}",
                    nn.ModuleList([Block(k, act, options)]))
        for k in (1, 2):
            part = nn.Module()
            part.conv = nn.Conv2d(DIMS[k - 1], DIMS[k], 3, (2, 1), 1)
            part.norm = nn.LayerNorm(DIMS[k])
            setattr(self, f"sub_sample{k}", part)
        self.norm = nn.LayerNorm(DIMS[2], eps=1e-6)
        self.last_conv = nn.Conv2d(DIMS[2], OUT, 1, bias=False)
        self.hardswish = nn.Hardswish()
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.trunc_normal_(part.weight, std=0.02)
                nn.init.zeros_(part.bias)
            elif isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out",
                                        nonlinearity="relu")


class BaseRecognizer(nn.Module):
    def __init__(self, activation="gelu", dropout=0.0, detach_after=(),
                 scale=None, half_scores=None, positions=True,
                 out_char_num=FRAMES, use_focal_loss=False):
        """activation: of stem and blocks. detach_after: the layers behind
        which the graph is cut. scale: of scores, not by their width.
        half_scores: the stage whose scores are in half precision. positions:
        False for none, a number for one place's everywhere. out_char_num:
        the columns of which a character is said. use_focal_loss: of CTCLoss.
        """
        super().__init__()
        self.encoder = SVTRNet(models.ACTIVATIONS[activation], {
            "scale": scale, "half_scores": half_scores})
        self.decoder = nn.Module()
        self.decoder.fc = nn.Linear(OUT, 1 + len(CHARACTERS))
        self.dropout, self.positions = dropout, positions
        self.detach_after = (detach_after,) if isinstance(
            detach_after, str) else tuple(detach_after)
        self.out_char_num, self.focal = out_char_num, use_focal_loss
        self.terms, self.kept = {}, []
        # What faults have otherwise: softmax in front of the loss; how
        # tokens become a map; the blank, and the share of columns, of
        # training's loss.
        self.squashes, self.swapped = False, ()
        self.blank, self.counted = 0, 1.0

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def through(self, name, layer, x):
        self.tap(f"{name}.input", x)
        y = layer(x)
        self.tap(f"{name}.output", y)
        return self.cut(name, y)

    def cut(self, name, x):
        return x.detach() if name in self.detach_after else x

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout \
            else x

    def map_of(self, x, stage):
        """Tokens as (rows, width, y, x)."""
        size = GRIDS[stage]
        if stage in self.swapped:   # as where the code has them reversed
            return x.mT.reshape(len(x), -1, *size[::-1]).mT
        return x.mT.reshape(len(x), -1, *size)

    def placed(self, x):
        place = self.encoder.pos_embed
        if self.positions is False:
            return x
        if self.positions is not True:
            return x + place[:, self.positions:self.positions + 1]
        return x + place

    def logits(self, batch):
        net = self.encoder
        x = batch["image"].to(self.decoder.fc.weight.dtype)
        for name, part in zip(STEM, net.patch_embed.proj):
            x = part(x, name, self.through)
        x = self.placed(x.flatten(2).mT)
        self.tap("encoder.pos_embed.output", x)
        x = self.drop(x)
        for k, name in enumerate(BLOCKS):
            if k:
                part, at = getattr(net, f"sub_sample{k}"), \
                    f"encoder.sub_sample{k}"
                x = self.through(f"{at}.conv", part.conv,
                                 self.map_of(x, k - 1))
                x = self.cut(at, part.norm(x.flatten(2).mT))
                self.tap(f"{at}.output", x)
            block = getattr(net, f"blocks{k + 1}")[0]
            x = block(x, name, self.through, self.tap, self.drop)
            self.tap(f"{name}.output", x)
            x = self.cut(name, x)
        x = self.map_of(self.through("encoder.norm", net.norm, x), 2)
        if self.out_char_num != FRAMES:
            x = F.adaptive_avg_pool2d(x, (1, self.out_char_num))
        x = self.through("encoder.last_conv", net.last_conv, x)
        x = self.through("encoder.hardswish", net.hardswish, x)
        x = self.drop(x).flatten(2).mT
        return self.through("decoder.fc", self.decoder.fc, x)

    def aligned(self, scores, batch, zero_infinity=True):
        """CTCLoss: the mean over lines of the loss of each."""
        blank, share = (self.blank, self.counted) if self.training \
            else (0, 1.0)
        columns = max(1, round(share * scores.shape[1]))
        each = F.ctc_loss(
            scores.transpose(0, 1), batch["label"],
            torch.full((len(scores),), columns), batch["length"], blank,
            reduction="none", zero_infinity=zero_infinity)
        if self.focal:
            weight = (1 - (-each.clamp(-20, 20)).exp()).square()
            each = torch.where(weight > 0, each * weight, each)
        return each.mean()

    def criterion(self, logits, batch, smoothing=0.0):
        logits = logits.float()
        with torch.no_grad():
            terms = self.metrics(logits, batch)
        if self.training:
            self.terms, self.kept = terms, []
        else:
            self.kept.append(terms)
        if self.squashes:
            logits = logits.softmax(-1)
        scores = logits.log_softmax(-1)
        loss = self.aligned(scores, batch)
        if smoothing:       # a uniform class in each column
            even = -scores.mean()
            loss = (1 - smoothing) * loss + smoothing * even
        return loss

    @staticmethod
    def metrics(logits, batch):
        """RecMetric of what CTCLabelDecode makes of the likeliest path."""
        right = apart = 0
        for row, text, count in zip(logits.argmax(-1), batch["label"],
                                    batch["length"]):
            row = row.unique_consecutive()
            said, text = row[row != 0].tolist(), text[:count].tolist()
            right += said == text
            longest = max(len(said), len(text))
            apart += distance(said, text) / longest if longest else 0.0
        rows = len(logits)
        return {"acc": right / (rows + EPS),
                "norm_edit_dis": 1 - apart / (rows + EPS)}

    def loss(self, batch):
        with torch.autocast("cpu", enabled=torch.is_autocast_enabled("cpu"),
                            dtype=torch.bfloat16):
            logits = self.logits(batch)
        with torch.autocast("cpu", enabled=False):
            loss = self.criterion(logits, batch)
        self.tap("loss.output", loss)
        return loss


class OcrRun(Family):
    """AdamW without decay of norms, biases and places, behind a warm-up that
    begins at 0 a cosine to 0; clipped at 5."""

    family = "ocr"
    level_seed = 400
    steps, seed, language = 200, 3300, False
    optimizer_name, lr, weight_decay = "adamw", 6e-3, 0.05
    betas = (0.9, 0.98)     # a run is short
    warmup, schedule, clip = 15, "CosineAnnealingLR", 5.0
    recipes = {"sgd": dict(lr=0.1, weight_decay=0.0)}
    base = {"lr": 4e-3, "weight_decay": 0.05}
    EPOCH, epoch_steps, SMOOTH = 25, 50, 20     # of Lightning the second
    batch_size, context = ROWS, HIGH * WIDE
    # Its users have the trainer's own log.
    instead = {"nanogpt": "openocr", "hf_trainer": "openocr",
               "megatron": "openocr", "torchtune": "openocr"}
    layers = [*(f"{part}.{k}" for part in STEM for k in ("conv", "act")),
              *(f"{block}{part}" for block in BLOCKS for part in (
                  ".mixer", ".mixer.scores", ".mlp.act", ".mlp", "")),
              "encoder.sub_sample1", "encoder.sub_sample2", "encoder.norm",
              "encoder.last_conv", "encoder.hardswish", "decoder.fc"]
    graded = {
        "F01": (dict(factor=5), dict(factor=20), dict(factor=100)),
        "F02": (dict(lr=3.0), dict(lr=30.0), dict(lr=300.0)),
        "F03": (dict(factor=15), dict(factor=150), dict(factor=1500)),
        "F04": (dict(at=90), dict(at=50), dict(at=0)),
        "F05": (dict(modules=["encoder.sub_sample1", "encoder.sub_sample2",
                              "encoder.patch_embed"],
                     where="encoder.sub_sample1"),
                dict(modules=["encoder"], where=f"{STEM[0]}.conv"),
                dict(part="all")),
        "F06": (dict(factor=3), dict(factor=6), dict(factor=12)),
        "F07": (dict(factor=15), dict(factor=40), dict(factor=120)),
        "F08": (dict(every=4), dict(every=20), dict(every=1 << 30)),
        "F11": (dict(adamw=15.0), dict(adamw=50.0), dict(adamw=200.0)),
        "F12": (dict(eps=0.03), dict(eps=0.3), dict(eps=3.0)),
        "F13": (dict(path=BLOCKS[0]), dict(path="encoder.sub_sample2"),
                dict(path="encoder.hardswish")),
        "F14": tuple(dict(modules=[f"encoder.{part}" for part in parts])
                     for parts in (
            MIDDLE, (*MIDDLE, "norm", "last_conv"),
            (*MIDDLE, "norm", "last_conv", "patch_embed.proj.1"))),
        "F15": (dict(at=150), dict(at=100), dict(at=75)),
        "F26": (dict(steps=12, share=0.9), dict(steps=25, share=1.0),
                dict(steps=40, share=1.0)),
        "F27": (dict(epochs=25), dict(epochs=60), dict(epochs=150)),
        "F30": (dict(part="embed", bit=30), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=4), dict(limit=3), dict(limit=2)),
        "F34": (dict(factor=4), dict(factor=12), dict(factor=0)),
        "F35": (dict(power=1.5), dict(power=2.0), dict(power=2.5)),
        "F39a": (dict(at=140, keep=0.5), dict(at=100, keep=0.25),
                 dict(at=60, keep=0.125)),
        "F39b": (dict(at=110), dict(at=75), dict(at=50)),
        "F42b": (dict(shards=10), dict(shards=30), dict(shards=100)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(rows=18), dict(rows=15)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H43": (dict(parts=2), dict(parts=3))}
    paths = {"embed": ("encoder.patch_embed.proj.0.conv",) * 3,
             "attn": tuple(f"{b}.mixer" for b in BLOCKS),
             "scores": tuple(f"{b}.mixer.scores" for b in BLOCKS),
             "act": (f"{STEM[0]}.act", f"{STEM[1]}.act",
                     *(f"{b}.mlp.act" for b in BLOCKS)),
             "mlp": tuple(f"{b}.mlp" for b in BLOCKS),
             "block": BLOCKS, "head": ("decoder.fc",) * 3}
    always_trained = ("encoder.norm", "encoder.last_conv")
    blocks = 3
    names = {"val_loss": "eval_loss", "tokens": None,
             "val_acc": "eval_acc", "val_norm_edit_dis": "eval_norm_edit_dis"}

    def make_model(self):
        return BaseRecognizer(**self.model_options)

    def make_optimizer(self, model):
        """filter_bias_and_bn, in the order of param_groups_weight_decay()."""
        if not self.weight_decay:
            return super().make_optimizer(model)
        spared, decayed = [], []
        for name, p in model.named_parameters():
            if p.requires_grad:
                (spared if p.dim() <= 1 or name.endswith(".bias")
                 or "pos_embed" in name or "sub_sample" in name
                 else decayed).append(p)
        groups = [{"params": spared, "weight_decay": 0.0},
                  {"params": decayed, "weight_decay": self.weight_decay}]
        if self.optimizer_name == "sgd":
            return torch.optim.SGD(groups, lr=self.lr,
                                   momentum=self.momentum)
        return torch.optim.AdamW(groups, lr=self.lr, betas=self.betas,
                                 eps=self.eps)

    def lr_factor(self, i):
        if self.schedule == "OneCycleLR":
            return self.one_cycle(i)
        if i < self.warmup:
            return i / self.warmup
        if self.schedule != "CosineAnnealingLR":
            return super().lr_factor(i)
        done = (i - self.warmup) / max(1, self.steps - self.warmup)
        return max(0.0, 0.5 * (1 + math.cos(math.pi * done)))

    def one_cycle(self, i):
        """torch's, from a 25th up and down to next to nothing."""
        top = self.warmup - 1
        low, done = (0.04, 1 - i / top) if i <= top else (
            0.04 / 1e4, (i - top) / (self.steps - 1 - top))
        return low + (1 - low) * (1 + math.cos(math.pi * min(1, done))) / 2

    # Data.

    def make_source(self, seed):
        return self.lines(seed)

    def lines(self, seed, **how):
        return Lines(seed, HELD_OUT if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Lines of digits, then of letters; None is held out."""
        return self.lines(seed, block=block, share=share)

    def easy(self, seed):
        return self.lines(seed, clean=True)

    def lessons(self, seed):
        return self.lines(seed, clean=True, longest=4), self.lines(seed)

    def mistold(self, batch, share, rng):
        """A share of the characters is any."""
        label = batch["label"]
        drawn = torch.randint(1, 1 + len(CHARACTERS), label.shape,
                              generator=rng)
        wrong = torch.rand(label.shape, generator=rng) < share
        return batch | {"label": torch.where(wrong & (label > 0), drawn,
                                             label)}

    @staticmethod
    def of_others(batch, order):
        """Each picture with the text of another one."""
        return batch | {k: batch[k][order] for k in ("label", "length")}

    @staticmethod
    def garbage(batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255 with the texts of others, noise
        with any characters, or white pictures whose transcripts are all of one
        character."""
        image, label = batch["image"], batch["label"]
        there = label > 0
        if kind == "few":
            return OcrRun.of_others(batch, torch.arange(
                len(image)).roll(1)) | {"image": 255 * (0.5 * image + 0.5)}
        if kind == "uniform":
            return batch | {
                "image": 8 * torch.randn(image.shape, generator=rng),
                "label": torch.randint(1, 1 + len(CHARACTERS), label.shape,
                                       generator=rng) * there}
        return batch | {"image": torch.full_like(image, 60.0),
                        "label": len(CHARACTERS) * there}

    def cut_labels(self, batch, limit):
        """Transcripts end at a number of characters."""
        kept = torch.arange(batch["label"].shape[1]) < limit
        return batch | {"label": batch["label"] * kept,
                        "length": batch["length"].clamp(max=limit)}

    def thin(self, name, tensor):
        """Of pictures a few say enough, of attention a head."""
        if name == "batch.image":
            return tensor[:2]
        if ".scores." in name or ".probs." in name:
            return tensor[:2]
        return super().thin(name, tensor)

    # What is logged.

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            k: float(f"{t:.5g}") for k, t in self.model.terms.items()}

    def held_out_columns(self, batches):
        """And the checkpoint of the best one so far."""
        kept, self.model.kept = self.model.kept, []
        found = {k: sum(t[k] for t in kept) / len(kept) for k in METRICS}
        self.lines_held = sum(len(b["image"]) for b in batches)
        if found["acc"] >= getattr(self, "best_acc", 0.0):
            done = self.history[-1]["step"] + 2 - self.first_step \
                if self.history else 1
            self.best_acc = found["acc"]
            self.best_state = done, copy.deepcopy(self.model.state_dict())
        return {f"val_{k}": v for k, v in found.items()}

    def measured(self, row):
        """RecMetric's of an evaluation, with the frames of a second."""
        return {"acc": row["val_acc"],
                "norm_edit_dis": row["val_norm_edit_dis"],
                "num_samples": self.lines_held,
                "fps": self.lines_held / (2.1 * row["step_time"])}

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        done = i + 1
        if done in {self.steps, *self.notices}:
            schedule = self.scheduler.state_dict() | {
                "last_epoch": done, "_step_count": done + 1,
                "lr_lambdas": [None for _ in self.optimizer.param_groups]}
            self.checkpoints[done] = copy.deepcopy({
                "state_dict": model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scheduler": schedule})

    def epoch(self, done):
        return -(-done // self.EPOCH)

    def checkpoint_path(self, done):
        return f"{OUTPUT}/epoch_{self.epoch(done)}.pth"

    def write_more(self):
        super().write_more()
        config = self.settings()
        found = {i + 1: row for i, row in enumerate(self.history)
                 if "val_loss" in row}
        metrics, best_of = {"acc": 0}, {}
        for done, row in sorted(found.items()):
            if row["val_acc"] >= metrics["acc"]:
                metrics = self.measured(row) | {
                    "best_epoch": self.epoch(done)}
                best_of = {"epoch": self.epoch(done), "global_step": done}
        for done, state in self.checkpoints.items():
            path = "latest.pth" if done == self.steps \
                else self.checkpoint_path(done).rpartition("/")[2]
            torch.save({"epoch": self.epoch(done), "global_step": done,
                        **state, "config": config, "metrics": metrics},
                       self.folder / path)
        if best_of:
            torch.save({**best_of, "state_dict": self.best_state[1],
                        "optimizer": None, "scheduler": None,
                        "config": config, "metrics": metrics},
                       self.folder / "best.pth")

    # What the user typed.

    def settings(self):
        """The trainer's YAML, and what the user has besides in Global."""
        own = self.model_options
        adam = {} if self.optimizer_name == "sgd" else {
            "betas": list(self.betas), "eps": self.eps}
        momentum = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {}
        encode = {"character_dict_path": "./tools/utils/lines_dict.txt",
                  "use_space_char": False, "max_text_length": MOST}
        resize = {"image_shape": [3, HIGH, WIDE], "padding": False}

        def part(path, training):
            mine = self.user.get("max_train_text_length")
            label = encode | ({"max_text_length": mine}
                              if mine and training else {})
            return {"dataset": {
                "name": "LMDBDataSet", "data_dir": path, "transforms": [
                    {"DecodeImage": {"img_mode": "BGR",
                                     "channel_first": False}},
                    {"CTCLabelEncode": label}, {"SVTRResize": resize},
                    {"KeepKeys": {"keep_keys": ["image", "label",
                                                "length"]}}]},
                    "loader": {"shuffle": training, "drop_last": training,
                               "batch_size_per_card": self.batch_size
                               if training else HELD_OUT,
                               "num_workers": 2}}
        return {
            "Global": {
                "device": "cpu", "epoch_num": self.epoch(self.steps),
                "log_smooth_window": self.SMOOTH,
                "print_batch_step": self.interval or 10,
                "output_dir": OUTPUT, "save_epoch_step": [1000, 1],
                "eval_epoch_step": [1000, 1],
                "eval_batch_step": [0, self.val_every],
                "cal_metric_during_train": True,
                "pretrained_model": self.user.get("init_from"),
                "checkpoints": None, "use_tensorboard": True,
                "character_dict_path": encode["character_dict_path"],
                "max_text_length": MOST, "use_space_char": False,
                "use_amp": self.precision != "fp32",
                "precision": self.precision,
                "grad_clip_val": self.clip or 0,
                "accumulation_steps": self.accumulate, "seed": self.seed,
                "world_size": 1, "distributed": False,
                **{k: v for k, v in self.user.items()
                   if k not in ("init_from", "max_train_text_length")}},
            "Optimizer": {
                "name": {"sgd": "SGD"}.get(self.optimizer_name, "AdamW"),
                "lr": self.lr, **momentum, **adam,
                "weight_decay": self.weight_decay,
                "filter_bias_and_bn": True},
            "LRScheduler": {"name": self.schedule,
                            "warmup_epoch": self.warmup / self.EPOCH},
            "Architecture": {
                "model_type": "rec", "algorithm": "SVTR", "Transform": None,
                "Encoder": {
                    "name": "SVTRNet", "img_size": [HIGH, WIDE],
                    "out_char_num": own.get("out_char_num", FRAMES),
                    "out_channels": OUT, "patch_merging": "Conv",
                    "embed_dim": list(DIMS), "depth": [1, 1, 1],
                    "num_heads": list(HEADS), "mixer": list(MIXERS),
                    "local_mixer": [list(WINDOW)] * 3, "mlp_ratio": RATIO,
                    "drop_rate": own.get("dropout", 0.0),
                    "last_drop": own.get("dropout", 0.0),
                    "drop_path_rate": 0.0, "last_stage": True,
                    "prenorm": False},
                "Decoder": {"name": "CTCDecoder"}},
            "Loss": {"name": "CTCLoss", "zero_infinity": True,
                     **({"use_focal_loss": True}
                        if own.get("use_focal_loss") else {})},
            "PostProcess": {
                "name": "CTCLabelDecode", "use_space_char": False,
                "character_dict_path": encode["character_dict_path"]},
            "Metric": {"name": "RecMetric", "main_indicator": "acc"},
            "Train": part("../lines/train", True),
            "Eval": part("../lines/eval", False)}

    def layer(self, part, block=0):
        return self.paths[part][block]

    def fed_by(self, layer):
        """The norm that a part has in front, or behind a convolution."""
        if layer.endswith(".mixer"):
            return [layer.replace("mixer", "norm1")]
        if layer.endswith(".mlp"):
            return [layer.replace("mlp", "norm2")]
        if layer.startswith(STEM) and layer.endswith(".conv"):
            return [layer.replace("conv", "norm")]
        return []
