"""A small image tokenizer: a convolutional autoencoder with a codebook between.

A VQ-VAE as people train one before a generator. Parts are named as in
taming-transformers, columns and the nested config as in latent-diffusion, which
goes on from it; checkpoints are PyTorch Lightning's. There is no discriminator:
in those recipes one begins late, and many tokenizers are trained without.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import lightning_checkpoints, models, sources
from .family import Family

SIZE, CHANNELS, ROWS = 16, 3, 16
WIDTH, TIMES, GROUPS = 10, (1, 2), 5      # `ch`, `ch_mult`
CODES, DEEP, BETA = 64, 8, 0.25
TEXTURES = 4


class Pictures:
    """A thing of one colour before a texture of another, in camera noise.

    Textures are stripes that stand or lean, checks, and a slope from dark to
    light; their phase is drawn, and their colour is one of six. The thing is a
    disk or a box, 3 to 5 pixels from its middle to its edge, of another of the
    six, anywhere. Pixels are within 1 of 0, their variance is .236; noise of .08
    lies on each number. A picture has some 22 bits that can be known, and the 64
    codes of 64 that stand for it can say 384: who knows the process is
    left with the noise alone, which has a mean square of .0064. A decoder that
    says the mean picture has .236.

    block, share: pictures of one texture, one after the other. plain: nothing
    before the texture. domains: a third of the pictures is inverted, another is
    grey.
    """

    NOISE = 0.08

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, plain=False,
                 domains=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share, self.number = rows, block, share, 0
        self.plain, self.domains = plain, domains
        # Colours are the same for all seeds; the seed picks the sample.
        self.colours = torch.tensor((
            (0.9, -0.6, -0.5), (-0.7, 0.8, -0.3), (-0.6, -0.4, 0.9),
            (0.9, 0.8, -0.7), (0.8, 0.7, 0.9), (-0.8, 0.6, 0.7)))

    def uniform(self, low, high, rows):
        draw = torch.rand(rows, 1, 1, generator=self.rng)
        return low + (high - low) * draw

    def textures(self, rows):
        kind = torch.randint(TEXTURES, (rows,), generator=self.rng)
        if self.block:
            here = self.number // self.block % TEXTURES
            kept = torch.rand(rows, generator=self.rng) < self.share
            kind = torch.where(kept, torch.tensor(here), kind)
        self.number += 1
        return kind

    def drawn(self, kind):
        """Textures between -1 and 1, (rows, height, width)."""
        rows = len(kind)
        y, x = torch.arange(SIZE)[:, None], torch.arange(SIZE)[None]
        phase = self.uniform(0, 2 * math.pi, rows)
        waves = torch.stack((
            (2 * math.pi * x / 8 + phase).cos().expand(rows, SIZE, SIZE),
            (2 * math.pi * (x + y) / 8 + phase).cos(),
            (2 * math.pi * x / 8 + phase).cos()
            * (2 * math.pi * y / 8 + phase).cos(),
            ((x * phase.cos() + y * phase.sin())
             - 7.5 * (phase.cos() + phase.sin())) / 8))
        return waves[kind, torch.arange(rows)].clamp(-1, 1)

    def batch(self, rows=None):
        rows, rng = rows or self.rows, self.rng
        first = torch.randint(len(self.colours), (rows,), generator=rng)
        second = (first + torch.randint(1, len(self.colours), (rows,),
                                        generator=rng)) % len(self.colours)
        back, front = (self.colours[c][..., None, None]
                       for c in (first, second))
        texture = 0.5 + 0.5 * self.drawn(self.textures(rows))
        image = back * texture[:, None]
        y, x = torch.arange(SIZE)[:, None], torch.arange(SIZE)[None]
        dy, dx = (at - self.uniform(3, SIZE - 4, rows) for at in (y, x))
        reach = self.uniform(3, 5, rows)
        disk = dy.square() + dx.square() <= reach.square()
        box = torch.maximum(dy.abs(), dx.abs()) <= 0.8 * reach
        round_ = torch.rand(rows, 1, 1, generator=rng) < 0.5
        if not self.plain:
            image = torch.where(torch.where(round_, disk, box)[:, None],
                                front, image)
        image = image + self.NOISE * torch.randn(image.shape, generator=rng)
        return self.seen({"image": image}) if self.domains \
            else {"image": image}

    def seen(self, batch):
        """As three collections have it."""
        x = batch["image"]
        domain = torch.randint(3, (len(x),), generator=self.rng)
        each = domain[:, None, None, None]
        x = torch.where(each == 1, -x, torch.where(
            each == 2, x.mean(1, keepdim=True), x))
        return {"image": x, "domain": domain}


def norm(channels):
    return nn.GroupNorm(GROUPS, channels, eps=1e-6)


class ResnetBlock(nn.Module):
    """Two convolutions, each behind a norm and an activation."""

    def __init__(self, channels, out, options):
        super().__init__()
        self.norm1 = norm(channels)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.norm2 = norm(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        if channels != out:
            self.nin_shortcut = nn.Conv2d(channels, out, 1)
        self.act = models.ACTIVATIONS[options["activation"]]()
        self.options = options

    def forward(self, x, name, tap, drop):
        y = self.norm1(x)
        tap(f"{name}.norm1.output", y)
        y = self.act(y)
        tap(f"{name}.conv1.input", y)
        y = self.conv1(y)
        if self.options["half_at"] == f"{name}.conv1":
            y = y.half()
        tap(f"{name}.conv1.output", y)
        y = self.norm2(y.to(x.dtype))
        tap(f"{name}.act.input", y)
        y = self.act(y)
        tap(f"{name}.act.output", y)
        y = self.conv2(drop(y))
        tap(f"{name}.conv2.output", y)
        if hasattr(self, "nin_shortcut"):
            x = self.nin_shortcut(x)
        x = x + y
        tap(f"{name}.output", x)
        return x


def level(block, **resampler):
    """What taming-transformers has of one resolution."""
    return models.Group(block=nn.ModuleList([block]), **{
        name: models.Group(conv=conv) for name, conv in resampler.items()})


class Quantizer(nn.Module):
    """The nearest code of a table for each place. Places and codes have length
    1, so that a code's length does not decide who uses it.

    What is behind it gets the code; what is before it gets the gradient of the
    code (straight-through). The loss draws codes to their places and, BETA
    times as hard, places to their codes. average: the table is no weight of
    the optimizer, but an average of the places that took a code; restart: a
    code that hardly anybody takes becomes a place of the batch.
    """

    def __init__(self, codes, average, restart):
        super().__init__()
        self.embedding = nn.Embedding(codes, DEEP)
        with torch.no_grad():
            self.embedding.weight.normal_()
            self.embedding.weight.copy_(F.normalize(
                self.embedding.weight, dim=1))
        self.average, self.restart, self.beta = average, restart, BETA
        if average:
            self.embedding.weight.requires_grad_(False)
        if average or restart:
            self.register_buffer("cluster_size", torch.ones(codes))
            self.register_buffer("embed_avg", self.embedding.weight.detach()
                                 .clone())

    def forward(self, z, tap):
        """(what the decoder gets, the loss, the index of each place)."""
        z = z.movedim(1, -1)
        places = F.normalize(z.float(), dim=-1)
        tap("input", places.movedim(-1, 1))
        # A copy, as follow() writes into the table before the way back.
        codes = F.normalize(self.embedding.weight.float() * 1, dim=1)
        index = (places.detach() @ codes.detach().T).argmax(-1)
        found = codes[index]
        tap("embedding.output", found.movedim(-1, 1))
        loss = self.beta * (found.detach() - places).square().mean()
        if not self.average:
            loss = loss + (found - places.detach()).square().mean()
        if self.training and (self.average or self.restart):
            self.follow(places.detach().flatten(0, -2), index.flatten())
        found = places + (found - places).detach()
        tap("output", found.movedim(-1, 1))
        return found.movedim(-1, 1).to(z.dtype), loss, index

    @torch.no_grad()
    def follow(self, places, index):
        taken = F.one_hot(index, len(self.cluster_size)).to(places.dtype)
        self.cluster_size.lerp_(taken.sum(0), 0.05)
        if self.average:
            self.embed_avg.lerp_(taken.T @ places, 0.05)
            self.embedding.weight.copy_(
                F.normalize(self.embed_avg, dim=1).to(
                    self.embedding.weight.dtype))
        if self.restart:
            dead = self.cluster_size < self.restart
            count = int(dead.sum())
            if count:
                new = places[torch.randint(len(places), (count,))]
                self.embedding.weight[dead] = new.to(
                    self.embedding.weight.dtype)
                self.embed_avg[dead] = new
                self.cluster_size[dead] = 1.0


class VQModel(nn.Module):
    """16 and 8 pixels a side, of 10 and 20 channels."""

    BLOCKS = ("encoder.down.0.block.0", "encoder.down.1.block.0",
              "encoder.mid.block_1", "decoder.mid.block_1",
              "decoder.up.1.block.0", "decoder.up.0.block.0")

    def __init__(self, activation="silu", dropout=0.0, detach_after=None,
                 half_at=None, codes=CODES, average=False, restart=0.0,
                 pixel_loss="l2", quant_weight=0.25):
        """detach_after: the part behind which the graph is cut."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.pixel_loss, self.quant_weight = pixel_loss, quant_weight
        options = {"activation": activation, "half_at": half_at}
        wide = [WIDTH * k for k in TIMES]
        top = wide[-1]

        def conv(a, b, stride=1, padding=1):
            return nn.Conv2d(a, b, 3, stride, padding)

        self.encoder = models.Group(
            conv_in=conv(CHANNELS, wide[0]),
            down=nn.ModuleList((
                level(ResnetBlock(wide[0], wide[0], options),
                      downsample=conv(wide[0], wide[0], 2, 0)),
                level(ResnetBlock(wide[0], top, options)))),
            mid=models.Group(block_1=ResnetBlock(top, top, options)),
            norm_out=norm(top), conv_out=conv(top, DEEP))
        self.quant_conv = nn.Conv2d(DEEP, DEEP, 1)
        self.quantize = Quantizer(codes, average, restart)
        self.post_quant_conv = nn.Conv2d(DEEP, DEEP, 1)
        self.decoder = models.Group(
            conv_in=conv(DEEP, top),
            mid=models.Group(block_1=ResnetBlock(top, top, options)),
            up=nn.ModuleList((
                level(ResnetBlock(top, wide[0], options)),
                level(ResnetBlock(top, top, options),
                      upsample=conv(top, top)))),
            norm_out=norm(wide[0]), conv_out=conv(wide[0], CHANNELS))
        self.quant_loss = self.rec_loss = self.index = None

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def part(self, name, x):
        """A map, or a norm and what follows, that is nothing but itself."""
        x = self.get_submodule(name)(x)
        self.tap(f"{name}.output", x)
        return x.detach() if self.detach_after == name else x

    def block(self, name, x):
        x = self.get_submodule(name)(x, name, self.tap, self.drop)
        return x.detach() if name == self.detach_after else x

    def out(self, half, x):
        x = F.silu(self.part(f"{half}.norm_out", x))
        return self.part(f"{half}.conv_out", x)

    def encode(self, x):
        x = self.part("encoder.conv_in", x.to(
            self.encoder.conv_in.weight.dtype))
        for i in range(len(TIMES)):
            x = self.block(f"encoder.down.{i}.block.0", x)
            if i < len(TIMES) - 1:  # pads below and on the right alone
                x = self.part(f"encoder.down.{i}.downsample.conv",
                              F.pad(x, (0, 1, 0, 1)))
        x = self.block("encoder.mid.block_1", x)
        return self.part("quant_conv", self.out("encoder", x))

    def decode(self, x):
        x = self.part("decoder.conv_in", self.part("post_quant_conv", x))
        x = self.block("decoder.mid.block_1", x)
        for i in reversed(range(len(TIMES))):
            x = self.block(f"decoder.up.{i}.block.0", x)
            if i:
                x = self.part(f"decoder.up.{i}.upsample.conv",
                              F.interpolate(x, scale_factor=2))
        return self.out("decoder", x)

    def forward(self, x):
        x, self.quant_loss, index = self.quantize(
            self.encode(x), lambda n, t: self.tap(f"quantize.{n}", t))
        self.index = index.detach()
        if self.detach_after == "quantize":
            x = x.detach()
        return self.decode(x)

    def logits(self, batch):
        """The picture again; the other families' name for what a network
        says."""
        return self(batch["image"])

    def criterion(self, said, batch):
        away = said.float() - batch.get("target", batch["image"])
        rec = away.square().mean() if self.pixel_loss == "l2" \
            else away.abs().mean()
        self.rec_loss = rec.detach()
        self.tap("loss.rec_loss.output", rec)
        self.tap("loss.quant_loss.output", self.quant_loss)
        return rec + self.quant_weight * self.quant_loss

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


def perplexity(index, codes):
    """Of the codes that were taken, and the share of all codes that was."""
    share = index.flatten().bincount(minlength=codes) / index.numel()
    return float((-(share * (share + 1e-10).log()).sum()).exp()), \
        float((share > 0).float().mean())


class VqRun(Family):
    """Adam with a first beta of .5; the rate rises for 20 steps and falls with
    a cosine to a twentieth; nothing is clipped, nothing decays."""

    family = "vq"
    level_seed = 400
    steps, seed, language = 250, 820, False
    optimizer_name, lr, weight_decay = "adam", 4e-3, 0.0
    betas, warmup, schedule, clip = (0.5, 0.9), 20, "warmup_cosine", None
    LOWEST = 0.05           # of the rate, at the end
    recipes = {"sgd": dict(lr=0.2, weight_decay=0.0)}
    batch_size, context = ROWS, SIZE * SIZE
    # Nobody trains tokenizers of images with the others.
    instead = {"nanogpt": "plain", "megatron": "plain",
               "hf_trainer": "lightning", "torchtune": "lightning"}
    layers = ["encoder.conv_in", *(
        f"{block}.{part}" for block in VQModel.BLOCKS[:3]
        for part in ("conv1", "act", "conv2")), "encoder.conv_out",
        "quant_conv", "quantize.embedding", "post_quant_conv",
        "decoder.conv_in", *(
            f"{block}.{part}" for block in VQModel.BLOCKS[3:]
            for part in ("conv1", "act", "conv2")), "decoder.conv_out"]
    paths = {"embed": "encoder.conv_in", "attn": None, "scores": None,
             "act": "{}.act", "mlp": "{}.conv2", "block": "{}",
             "head": "decoder.conv_out"}
    blocks = len(VQModel.BLOCKS)
    columns = {"loss": "train/total_loss", "rec_loss": "train/rec_loss",
             "quant_loss": "train/quant_loss",
             "perplexity": "train/perplexity",
             "cluster_usage": "train/cluster_usage",
             "val_loss": "val/total_loss", "val_rec_loss": "val/rec_loss",
             "val_quant_loss": "val/quant_loss",
             "val_perplexity": "val/perplexity", "val_psnr": "val/psnr",
             "grad_norm": "grad_2.0_norm_total",
             "step_time": "train/batch_time", "data_time": "train/data_time",
             "step": "global_step", "tokens": None}

    @property
    def names(self):
        """A monitor of the rate calls it after the optimizer."""
        kind = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD"}
        return self.columns | {"lr": f"lr-{kind[self.optimizer_name]}"}

    def make_model(self):
        return VQModel(**self.model_options)

    def lr_factor(self, i):
        if self.schedule != "warmup_cosine" or i < self.warmup:
            return super().lr_factor(i)
        done = (i - self.warmup) / (self.steps - 1 - self.warmup)
        return self.LOWEST + (1 - self.LOWEST) * 0.5 * (
            1 + math.cos(math.pi * done))

    def make_source(self, seed):
        return self.pictures(seed)

    def pictures(self, seed, **how):
        return Pictures(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Folders of one texture, one after the other; None is held out."""
        return self.pictures(seed, block=block, share=share)

    def easy(self, seed):
        """Textures with nothing before them."""
        return self.pictures(seed, plain=True)

    def lessons(self, seed):
        return self.easy(seed), self.pictures(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255 that nobody scaled, noise, or
        white pictures of 0 to 255."""
        x = batch["image"]
        return batch | {"image": {
            "few": 127.5 * (x + 1),
            "uniform": 20 * torch.randn(x.shape, generator=rng),
            "constant": torch.full_like(x, 255.0)}[kind]}

    def others(self, rows, rng):
        """Pictures that have nothing to do with anything."""
        return self.pictures(int(torch.randint(1 << 30, (), generator=rng))
                             ).batch(rows)["image"]

    def batch_columns(self, batch):
        model, row = self.model, super().batch_columns(batch)
        many, used = perplexity(model.index, len(
            model.quantize.embedding.weight))
        return row | {"rec_loss": float(f"{float(model.rec_loss):.6g}"),
                      "quant_loss": float(
                          f"{float(model.quant_loss.detach()):.6g}"),
                      "perplexity": round(many, 3),
                      "cluster_usage": round(used, 4)}

    def held_out_columns(self, batches):
        model, parts, index = self.model, [], []
        model.eval()
        for batch in batches:
            said = model.logits(batch).float()
            model.criterion(said, batch)
            away = said - batch.get("target", batch["image"])
            parts.append(torch.stack((model.rec_loss, model.quant_loss,
                                      away.square().mean())))
            index.append(model.index)
        model.train()
        rec, quant, square = torch.stack(parts).mean(0)
        many, _ = perplexity(torch.cat(index), len(
            model.quantize.embedding.weight))
        return {"val_rec_loss": rec, "val_quant_loss": quant,
                "val_perplexity": many,  # pixels go from -1 to 1
                "val_psnr": 10 * torch.log10(4 / square)}

    def settings(self):
        """The config as latent-diffusion nests it."""
        optimizer = {"target": {
            "adam": "torch.optim.Adam", "adamw": "torch.optim.AdamW",
            "sgd": "torch.optim.SGD"}[self.optimizer_name],
            "weight_decay": self.weight_decay}
        optimizer |= {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "betas": list(self.betas), "eps": self.eps}
        schedule = {"target": self.schedule, "warm_up_steps": self.warmup,
                    "max_decay_steps": self.steps}
        if self.schedule == "warmup_cosine":
            schedule |= {"target": "LambdaWarmUpCosineScheduler",
                         "lr_max": 1.0, "lr_min": self.LOWEST}
        return {"model": {
                    "base_learning_rate": self.lr,
                    "target": "ldm.models.autoencoder.VQModel",
                    "params": self.model_settings(),
                    "optimizer_config": optimizer,
                    "scheduler_config": schedule},
                "data": {"batch_size": self.batch_size, "image_size": SIZE},
                "lightning": {"trainer": {
                    "max_steps": self.steps, "precision": self.precision,
                    "accumulate_grad_batches": self.accumulate,
                    "gradient_clip_val": self.clip, "devices": 1},
                    "seed_everything": self.seed},
                **self.user}

    def model_settings(self):
        options = self.model_options
        return {"embed_dim": DEEP, "n_embed": options.get("codes", CODES),
                "codebook_l2_norm": True, "ema_codebook":
                    options.get("average", False),
                "monitor": "val/total_loss",
                "ddconfig": {
                    "double_z": False, "z_channels": DEEP, "resolution": SIZE,
                    "in_channels": CHANNELS, "out_ch": CHANNELS, "ch": WIDTH,
                    "ch_mult": list(TIMES), "num_res_blocks": 1,
                    "attn_resolutions": [],
                    "dropout": options.get("dropout", 0.0)},
                "lossconfig": {
                    "pixel_loss": options.get("pixel_loss", "l2"),
                    "codebook_weight": options.get("quant_weight", 0.25),
                    "commitment_cost": BETA, "disc_weight": 0.0,
                    "perceptual_weight": 0.0}}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(VQModel.BLOCKS[block])

    def fed_by(self, layer):
        """The norm before a map counts to it."""
        path, _, part = layer.rpartition(".")
        return {"conv1": [f"{path}.norm1"], "conv2": [f"{path}.norm2"],
                "conv_out": [f"{path}.norm_out"]}.get(part, [])

    # Checkpoints.

    def checkpoint_path(self, step):
        return f"checkpoints/epoch={(step - 1) // 100}-step={step}.ckpt"

    def keep_checkpoint(self, i, model):
        def schedule(done):
            """One that was made anew goes on where the old one was."""
            own = {k: v for k, v in self.scheduler.state_dict().items()
                   if k != "lr_lambdas"}
            return own | {"last_epoch": done, "_step_count": done + 1}
        lightning_checkpoints.keep(self, i, model, schedule, 100)

    def write_more(self):
        super().write_more()
        lightning_checkpoints.write(self)
