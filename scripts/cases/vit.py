"""A small vision transformer: patches, a class token, attention both ways.

An image holds one textured patch of twelve kinds: four textures, each at the
left, in the middle or at the right. Texture is seen within a patch of the
image, the place only by positions, which are learned. Names of layers are those
of torchvision's VisionTransformer; blocks are dropped at random in training
(stochastic depth), and no batch comes twice.
"""

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family

SIZE, CHANNELS, PATCH = 16, 3, 4
TEXTURES, PLACES = 4, 3
CLASSES = TEXTURES * PLACES
DEPTH, WIDTH, HEADS, HIDDEN = 3, 48, 3, 96


class Textures:
    """A bright window of 6 x 9 pixels with stripes of 4 pixels, in noise.

    Class c has stripes of kind c // 3 (upright, level, falling, rising), and
    the window begins in column 0 to 1, 4 to 6 or 9 to 10, by c % 3, in any
    row. Stripes have one of two phases and in each channel an amplitude
    uniform in 0.8 to 2 around a level of 1.1; noise of 0.4 lies on each
    pixel. So the mean of a pixel is 0.23, its variance 0.79. Of the labels
    one in 25 is drawn anew from all: knowing the process leaves 0.25 nats,
    knowing nothing ln 12 = 2.48.
    """

    NOISE, WRONG, WIDE, HIGH = 0.4, 0.04, 6, 9
    FIRST, COUNT = (0, 4, 9), (2, 3, 2)

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)

    def below(self, count):
        """Integers of [0, count), (rows, 1, 1); count has (rows, 1, 1)."""
        return (torch.rand(count.shape, generator=self.rng) * count).long()

    def images(self, kind):
        rows = len(kind)
        y, x = torch.arange(SIZE)[None, :, None], torch.arange(SIZE)
        place = (kind % PLACES)[:, None, None]
        left = torch.tensor(self.FIRST)[place] + self.below(
            torch.tensor(self.COUNT)[place])
        top = self.below(torch.full((rows, 1, 1), SIZE - self.HIGH + 1))
        inside = ((x >= left) & (x < left + self.WIDE)
                  & (y >= top) & (y < top + self.HIGH))
        across = torch.stack([x + 0 * y, y + 0 * x, x + y, x - y])[:, 0]
        across = across[kind // PLACES] + self.below(
            torch.full((rows, 1, 1), 2))
        wave = torch.where(across % 4 < 2, 1.0, -1.0) * inside
        gain = 0.8 + 1.2 * torch.rand(rows, CHANNELS, 1, 1,
                                      generator=self.rng)
        noise = torch.randn(rows, CHANNELS, SIZE, SIZE, generator=self.rng)
        return (gain * wave[:, None] + 1.1 * inside[:, None]
                + self.NOISE * noise)

    def batch(self, rows=32):
        return self.of(torch.randint(CLASSES, (rows,), generator=self.rng))

    def of(self, kind):
        """Images of these classes, and the labels that they get."""
        images = self.images(kind)
        wrong = torch.rand(len(kind), generator=self.rng) < self.WRONG
        drawn = torch.randint(CLASSES, kind.shape, generator=self.rng)
        return {"images": images, "labels": torch.where(wrong, drawn, kind)}


class ByFolder(sources.ByClass, Textures):
    """The set as its folders lie."""
    classes, rows = CLASSES, 32


class SelfAttention(nn.Module):
    """Queries, keys and values come from one projection."""

    def __init__(self, heads, options):
        super().__init__()
        self.heads, self.options = heads, options
        self.in_proj = nn.Linear(WIDTH, 3 * WIDTH)
        self.out_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, tap):
        rows, steps, width = x.shape
        tap("input", x)
        parts = self.in_proj(x).view(rows, steps, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scale = (width // self.heads) ** -0.5 \
            if self.options["scale"] is None else self.options["scale"]
        mixed = models.attend(q, k, v, tap, scale, future=None,
                              half=self.options["half_scores"])
        x = self.out_proj(mixed.transpose(1, 2).reshape(x.shape))
        tap("output", x)
        return x


class EncoderBlock(nn.Module):
    def __init__(self, heads, options):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.self_attention = SelfAttention(heads, options)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, HIDDEN),
            models.ACTIVATIONS[options["activation"]](),
            nn.Linear(HIDDEN, WIDTH))

    def forward(self, x, tap, drop):
        y = self.self_attention(
            self.ln_1(x), lambda n, t: tap(f"self_attention.{n}", t))
        x = x + drop(y)
        y = self.mlp[0](self.ln_2(x))
        tap("mlp.1.input", y)
        y = self.mlp[1](y)
        tap("mlp.1.output", y)
        y = self.mlp[2](y)
        tap("mlp.output", y)
        x = x + drop(y)
        tap("output", x)
        return x


class Vit(nn.Module):
    """16 patches of 4x4 pixels and a class token, three blocks."""

    BLOCKS = tuple(f"encoder.layers.encoder_layer_{i}" for i in range(DEPTH))

    def __init__(self, activation="gelu", dropout=0.0, detach_after=None,
                 heads=HEADS, scale=None, half_scores=False, positions=None,
                 drop_path=0.1, warming=1.0):
        """detach_after: the part behind which the graph is cut. positions: the
        one place whose position all patches get, or False for none. warming:
        what the temperature of the logits is multiplied by in a step."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.drop_path = positions, drop_path
        self.warming = warming
        options = {"activation": activation, "scale": scale,
                   "half_scores": half_scores}
        self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.conv_proj = nn.Conv2d(CHANNELS, WIDTH, PATCH, PATCH)
        self.encoder = nn.Module()
        self.encoder.pos_embedding = nn.Parameter(
            0.02 * torch.randn(1, 1 + (SIZE // PATCH) ** 2, WIDTH))
        self.encoder.layers = nn.ModuleDict(
            {f"encoder_layer_{i}": EncoderBlock(heads, options)
             for i in range(DEPTH)})
        self.encoder.ln = nn.LayerNorm(WIDTH)
        self.heads = nn.ModuleDict({"head": nn.Linear(WIDTH, CLASSES)})
        for name, p in self.named_parameters():
            if p.dim() == 2 and ".mlp." in name:
                nn.init.xavier_uniform_(p)
        nn.init.normal_(self.heads["head"].weight, std=0.02)
        self.said, self.warmth = None, 1.0

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def dropper(self, depth):
        """Dropout, and the whole branch of some rows, the deeper the more."""
        rate = self.drop_path * depth / (DEPTH - 1)

        def drop(x):
            if not self.training:
                return x
            if self.dropout:
                x = F.dropout(x, self.dropout)
            if rate:
                kept = torch.rand(len(x), 1, 1) >= rate
                x = x * kept.to(x.dtype) / (1 - rate)
            return x
        return drop

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def forward(self, x):
        x = self.conv_proj(x.to(self.conv_proj.weight.dtype))
        self.tap("conv_proj.output", x)
        x = self.cut(x, "conv_proj").flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(len(x), -1, -1), x), 1)
        pos = self.encoder.pos_embedding
        if self.positions is not False:
            x = x + (pos if self.positions is None
                     else pos[:, self.positions:self.positions + 1])
        for depth, (short, block) in enumerate(self.encoder.layers.items()):
            name = f"encoder.layers.{short}"
            x = block(x, lambda n, t, name=name: self.tap(f"{name}.{n}", t),
                      self.dropper(depth))
            x = self.cut(x, name)
        x = self.encoder.ln(x)
        self.tap("encoder.ln.output", x)
        x = self.heads["head"](x[:, 0])
        if self.training:
            self.said = x.detach()
            self.warmth *= self.warming
        x = x / self.warmth
        self.tap("heads.head.output", x)
        return x

    def logits(self, batch):
        return self(batch["images"])

    def loss(self, batch):
        loss = F.cross_entropy(self.logits(batch).float(), batch["labels"])
        self.tap("loss.output", loss)
        return loss


class VitRun(Family):
    """AdamW, a warm-up of 30 steps and a cosine to a hundredth, no weight
    decay worth speaking of, a threshold that clips seldom."""

    family = "vit"
    level_seed = 400
    steps, seed, language, classes = 280, 140, False, CLASSES
    lr, warmup, schedule, clip = 3e-3, 30, "cosine", 3.0
    betas, weight_decay = (0.9, 0.98), 0.05
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    batch_size, context = 32, SIZE * SIZE
    FLOOR = 0.01            # of the rate, at the end
    layers = ["conv_proj", *(
        f"{block}.{part}" for block in Vit.BLOCKS
        for part in ("self_attention", "self_attention.scores", "mlp.1",
                     "mlp")), "encoder.ln", "heads.head"]
    paths = {"embed": "conv_proj", "attn": "{}.self_attention",
             "scores": "{}.self_attention.scores", "act": "{}.mlp.1",
             "mlp": "{}.mlp", "block": "{}", "head": "heads.head"}
    blocks = DEPTH
    names = {"step": "global_step", "loss": "training/loss",
             "val_loss": "validation/loss", "accuracy": "training/top1",
             "val_accuracy": "validation/top1", "grad_norm": "optim/grad_norm",
             "lr": "optim/lr", "step_time": "perf/step_time", "tokens": None}

    def make_model(self):
        return Vit(**self.model_options)

    def make_source(self, seed):
        return Textures(seed)

    def in_blocks(self, seed, block, share):
        """Training data that nobody has shuffled; None is held out."""
        if block is None:
            return Textures(seed)
        return ByFolder(seed, max(1, block // 4), share)

    def lr_factor(self, i):
        factor = super().lr_factor(i)
        if i < self.warmup or self.schedule != "cosine":
            return factor
        return self.FLOOR + (1 - self.FLOOR) * factor

    def batch_columns(self, batch):
        right = (self.model.said.argmax(-1) == batch["labels"]).float().mean()
        return super().batch_columns(batch) | {
            "accuracy": round(float(right), 4)}

    def held_out_columns(self, batches):
        self.model.eval()
        said = torch.cat([self.model.logits(b).argmax(-1) for b in batches])
        self.model.train()
        right = said == torch.cat([b["labels"] for b in batches])
        return {"val_accuracy": right.float().mean()}

    def model_settings(self):
        return {"model": "vit", "image_size": SIZE, "patch_size": PATCH,
                "num_layers": DEPTH,
                "num_heads": self.model_options.get("heads", HEADS),
                "hidden_dim": WIDTH, "mlp_dim": HIDDEN,
                "stochastic_depth_prob": 0.1, "num_classes": CLASSES}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(Vit.BLOCKS[block])

    def fed_by(self, layer):
        block, _, part = layer.rpartition(".")
        return {"self_attention": [f"{block}.ln_1"],
                "mlp": [f"{block}.ln_2"]}.get(part, [])
