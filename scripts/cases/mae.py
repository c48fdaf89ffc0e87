"""A small masked autoencoder: a quarter of an image's patches tells the rest.

A transformer over the patches that can be seen, and a smaller one over all
places that says the pixels of the hidden ones, as people train it with
transformers' run_mae.py. Parts are named as in its ViTMAEForPreTraining; the
columns, the log and the checkpoints are the Trainer's.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources, trainer_arguments, trainer_checkpoints
from .family import Family
from .models import Group
from .recorder import short

SIZE, CHANNELS, PATCH, ROWS = 15, 3, 3, 32
SIDE = SIZE // PATCH
PATCHES, PIXELS = SIDE ** 2, CHANNELS * PATCH ** 2
MASKED = 0.75
WIDTH, HEADS, HIDDEN, DEPTH = 40, 4, 80, 2
# Those of the decoder.
NARROW, FEW, INNER, SHORT = 32, 4, 64, 1
KINDS, CAMERAS = 4, 3
PARTS = ("attention", "attention.attention.scores", "intermediate.dense",
         "intermediate.intermediate_act_fn", "output.dense")


def patches(x):
    """(rows, channels, height, width) as (rows, patch, pixel), by rows of
    patches; a patch has its pixels first and the channels of each last."""
    x = x.view(len(x), CHANNELS, SIDE, PATCH, SIDE, PATCH)
    return x.permute(0, 2, 4, 3, 5, 1).reshape(len(x), PATCHES, PIXELS)


class Gratings:
    """A tinted wave over a grey slope, in camera noise.

    Of four kinds of wave each has a tint, a direction, a length (21 or 15
    pixels) and a place of its own; its strength is drawn, a normal of mean 1
    and deviation .35, and with its tint it has .35 of the variance of a
    number. A grey brightness has .2, a slope from dark to light in a direction
    that is drawn .1, noise on each number .35. So numbers have a mean of 0 and
    a variance of 1, as a processor leaves them. Given its kind an image is
    Gaussian: who knows the process says of hidden patches what is to be
    expected (`best()`) and is left with .363 where three quarters are hidden,
    who says 0 with 1, and who says the brightness of what is seen with .82.

    `noise`, a number for each patch, says which are hidden: the largest.

    kinds: how many there are. cameras: three of another gain and offset each,
    whose number is in the batch as domain.
    """

    BRIGHT, SLOPE, WAVE, NOISE, SPREAD = 0.2, 0.1, 0.35, 0.35, 0.35
    LENGTHS, LEVEL = (21.0, 15.0), 0.6

    def __init__(self, seed, rows=ROWS, kinds=KINDS, cameras=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.kinds, self.cameras = rows, kinds, cameras
        y, x = torch.meshgrid(*[torch.arange(SIZE) - (SIZE - 1) / 2] * 2,
                              indexing="ij")
        steep = (self.SLOPE / (y.square() + x.square()).mean()) ** 0.5
        grey = torch.stack((torch.full_like(x, self.BRIGHT ** 0.5),
                            steep * y, steep * x))
        self.grey = grey[:, None].expand(-1, CHANNELS, -1, -1)
        waves = []
        for kind in range(KINDS):
            hue = 2 * math.pi * (kind / KINDS
                                 + torch.arange(CHANNELS) / CHANNELS)
            angle = math.pi * (kind % 3) / 3
            along = 2 * math.pi / self.LENGTHS[kind % 2] * (
                math.cos(angle) * x + math.sin(angle) * y)
            waves.append(hue.cos()[:, None, None]
                         * (self.LEVEL + 2 ** 0.5 * along.cos()))
        waves = torch.stack(waves)
        power = (1 + self.SPREAD ** 2) * waves.square().mean()
        self.waves = waves * (self.WAVE / power) ** 0.5

    def batch(self, rows=None):
        return self.of(torch.randint(self.kinds, (rows or self.rows,),
                                     generator=self.rng))

    def drawn(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def of(self, kind):
        """Images of these kinds."""
        rows = len(kind)
        strong = 1 + self.SPREAD * self.drawn(rows, 1, 1, 1)
        x = torch.einsum("rl,lcyx->rcyx", self.drawn(rows, 3), self.grey) \
            + strong * self.waves[kind]
        x = x + self.NOISE ** 0.5 * self.drawn(*x.shape)
        batch = {"pixel_values": x, "noise": torch.rand(
            rows, PATCHES, generator=self.rng)}
        if self.cameras:
            camera = torch.randint(CAMERAS, (rows,), generator=self.rng)
            each = camera[:, None, None, None] - 1.0
            batch["pixel_values"] = (1 + 0.3 * each) * x + 0.4 * each
            batch["domain"] = camera
        return batch

    def expected(self, batch, masked=MASKED):
        """What who knows the process says of all pixels, as patches."""
        said = patches(batch["pixel_values"])
        _, seen, _ = hidden_patches(batch["noise"], masked)
        waves, grey = patches(self.waves[:self.kinds]), patches(self.grey)
        bases = torch.cat((grey[None].expand(len(waves), -1, -1, -1),
                           self.SPREAD * waves[:, None]), 1)
        out = []
        for values, at in zip(said, seen):
            left = (values[at] - waves[:, at]).flatten(1)
            b = bases[:, :, at].flatten(2)
            pull = (b @ left[..., None])[..., 0] / self.NOISE
            inner = torch.eye(b.shape[1]) + b @ b.transpose(1, 2) / self.NOISE
            mean = torch.linalg.solve(inner, pull)
            share = (0.5 * ((pull * mean).sum(1) - torch.logdet(inner)
                            - left.square().sum(1) / self.NOISE)).softmax(0)
            out.append(torch.einsum("k,kpn->pn", share, waves + torch.einsum(
                "kl,klpn->kpn", mean, bases)))
        return torch.stack(out)

    def best(self, batches=30, masked=MASKED):
        """The loss of who knows the process."""
        total = 0.0
        for _ in range(batches):
            batch = self.batch()
            away = (self.expected(batch, masked)
                    - patches(batch["pixel_values"])).square().mean(-1)
            hidden = hidden_patches(batch["noise"], masked)[0]
            total += float((away * hidden).sum() / hidden.sum())
        return total / batches


class SortedGratings(sources.ByClass, Gratings):
    """The set as its folders lie."""
    classes, rows = KINDS, ROWS


class Remasked(sources.Finite):
    """A finite set, of which other patches are hidden each time."""

    def batch(self, rows=None):
        out = super().batch(rows)
        return out | {"noise": torch.rand(out["noise"].shape,
                                          generator=self.rng)}


def hidden_patches(noise, masked):
    """(1 where a patch is hidden, order of the patches by noise, the way
    back), as random_masking() has it."""
    order = noise.argsort(1)
    back = order.argsort(1)
    kept = int(noise.shape[1] * (1 - masked))
    return (back >= kept).float(), order[:, :kept], back


def places(width):
    """Sines and cosines of a place's row and column, the class token's are
    0; as get_2d_sincos_pos_embed()."""
    pace = 1 / 10000 ** (torch.arange(width // 4) / (width / 4))
    at = torch.arange(SIDE).float()[:, None] * pace
    one = torch.cat((at.sin(), at.cos()), 1)
    across = one[None].expand(SIDE, -1, -1)
    down = one[:, None].expand(-1, SIDE, -1)
    grid = torch.cat((across, down), 2).flatten(0, 1)
    return torch.cat((torch.zeros(1, width), grid))[None]


class Layer(nn.Module):
    """Attention and a network of two maps, a norm before each."""

    def __init__(self, name, width, hidden, options):
        super().__init__()
        self.options = options
        self.cut_inside = options["detach_after"] == f"{name}.attention"
        self.attention = Group(
            attention=Group(**{name: nn.Linear(width, width)
                               for name in ("query", "key", "value")}),
            output=Group(dense=nn.Linear(width, width)))
        self.intermediate = Group(
            dense=nn.Linear(width, hidden),
            intermediate_act_fn=models.ACTIVATIONS[options["activation"]]())
        self.output = Group(dense=nn.Linear(hidden, width))
        self.layernorm_before = nn.LayerNorm(width, 1e-12)
        self.layernorm_after = nn.LayerNorm(width, 1e-12)

    def forward(self, x, tap, drop, seen=None):
        own, heads = self.attention.attention, self.options["heads"]

        def split(y):
            return y.view(*y.shape[:2], heads, -1).transpose(1, 2)

        scale = self.options["scale"]
        if scale is None:
            scale = (x.shape[-1] // heads) ** -0.5
        y = self.layernorm_before(x)
        y = models.attend(
            split(own.query(y)), split(own.key(y)), split(own.value(y)),
            lambda n, t: tap(f"attention.attention.{n}", t), scale,
            future=None, half=self.options["half_scores"], seen=seen)
        y = self.attention.output.dense(y.transpose(1, 2).reshape(x.shape))
        tap("attention.output", y)
        x = x + drop(y)
        if self.cut_inside:
            x = x.detach()
        y = self.intermediate.dense(self.layernorm_after(x))
        tap("intermediate.dense.output", y)
        tap("intermediate.intermediate_act_fn.input", y)
        y = self.intermediate.intermediate_act_fn(y)
        tap("intermediate.intermediate_act_fn.output", y)
        y = self.output.dense(y)
        tap("output.dense.output", y)
        x = x + drop(y)
        tap("output", x)
        return x


class MaskedAutoencoder(nn.Module):
    """Two layers of width 40 over the 6 of 25 patches that can be seen and a
    class token, one of width 32 over all; and the loss."""

    BLOCKS = (*(f"vit.encoder.layer.{i}" for i in range(DEPTH)),
              *(f"decoder.decoder_layers.{i}" for i in range(SHORT)))
    EMBED = "vit.embeddings.patch_embeddings.projection"
    HEAD = "decoder.decoder_pred"

    def __init__(self, activation="gelu", dropout=0.0, detach_after=None,
                 heads=HEADS, scale=None, half_scores=False, positions=True,
                 masked=MASKED, norm_pix=False, eps=1e-6, visible=0.0):
        """detach_after: the part behind which the graph is cut. positions:
        the place that all patches have if a number, none if False. eps: of
        the variance of a patch where the loss divides by its root. visible:
        the weight in the loss of a patch that can be seen, None for those
        alone."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.masked = positions, masked
        self.norm_pix, self.eps, self.visible = norm_pix, eps, visible
        options = {"activation": activation, "scale": scale, "heads": heads,
                   "half_scores": half_scores, "detach_after": detach_after}
        encoder, decoder = self.BLOCKS[:DEPTH], self.BLOCKS[DEPTH:]

        def fixed(width):
            return nn.Parameter(places(width), requires_grad=False)

        self.vit = Group(
            embeddings=Group(
                cls_token=nn.Parameter(0.02 * torch.randn(1, 1, WIDTH)),
                position_embeddings=fixed(WIDTH),
                patch_embeddings=Group(projection=nn.Conv2d(
                    CHANNELS, WIDTH, PATCH, PATCH))),
            encoder=Group(layer=nn.ModuleList(
                Layer(name, WIDTH, HIDDEN, options) for name in encoder)),
            layernorm=nn.LayerNorm(WIDTH, 1e-12))
        self.decoder = Group(
            decoder_embed=nn.Linear(WIDTH, NARROW),
            mask_token=nn.Parameter(0.02 * torch.randn(1, 1, NARROW)),
            decoder_pos_embed=fixed(NARROW),
            decoder_layers=nn.ModuleList(
                Layer(name, NARROW, INNER, options) for name in decoder),
            decoder_norm=nn.LayerNorm(NARROW, 1e-12),
            decoder_pred=nn.Linear(NARROW, PIXELS))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
        embed = self.get_submodule(self.EMBED)
        nn.init.xavier_uniform_(embed.weight.data.flatten(1))
        self.hidden = None      # of the last images, 1 where hidden

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def at(self, table):
        """The positions of patches."""
        if self.positions is False:
            return 0.0
        if self.positions is not True:
            at = 1 + self.positions
            return table[:, at:at + 1]
        return table[:, 1:]

    def run(self, x, blocks):
        for name in blocks:
            x = self.get_submodule(name)(
                x, lambda n, t, name=name: self.tap(f"{name}.{n}", t),
                self.drop)
            x = self.cut(x, name)
        return x

    def part(self, name, x):
        x = self.get_submodule(name)(x)
        self.tap(f"{name}.output", x)
        return self.cut(x, name)

    def encode(self, x, kept):
        """The class token and the patches that can be seen."""
        parts = self.vit.embeddings
        x = self.part(self.EMBED, x.to(parts.cls_token.dtype))
        x = x.flatten(2).transpose(1, 2) + self.at(parts.position_embeddings)
        x = x.gather(1, kept[..., None].expand(-1, -1, WIDTH))
        first = parts.cls_token + parts.position_embeddings[:, :1]
        x = self.drop(torch.cat((first.expand(len(x), -1, -1), x), 1))
        return self.part("vit.layernorm", self.run(x, self.BLOCKS[:DEPTH]))

    def decode(self, x, back):
        """The pixels of all patches."""
        parts = self.decoder
        x = self.part("decoder.decoder_embed", x)
        missing = back.shape[1] + 1 - x.shape[1]
        tokens = torch.cat((x[:, 1:], parts.mask_token.expand(
            len(x), missing, -1)), 1)
        tokens = tokens.gather(1, back[..., None].expand(-1, -1, NARROW))
        table = parts.decoder_pos_embed
        x = torch.cat((x[:, :1] + table[:, :1], tokens + self.at(table)), 1)
        x = self.part("decoder.decoder_norm",
                      self.run(x, self.BLOCKS[DEPTH:]))
        return self.part(self.HEAD, x[:, 1:])

    def forward(self, pixel_values, noise):
        self.hidden, kept, back = hidden_patches(noise, self.masked)
        return self.decode(self.encode(pixel_values, kept), back)

    def logits(self, batch):
        """What is said of all pixels, as patches; the other families' name for
        what a network says."""
        return self(batch["pixel_values"], batch["noise"])

    def target(self, batch):
        target = patches(batch.get("target", batch["pixel_values"]))
        if not self.norm_pix:
            return target
        self.tap("normalize.input", target)
        std = (target.var(-1, keepdim=True) + self.eps).sqrt()
        self.tap("normalize.std.output", std[..., 0])
        target = (target - target.mean(-1, keepdim=True)) / std
        self.tap("normalize.output", target)
        return target

    def counted(self):
        """The weight of each patch."""
        if self.visible is None:
            return 1 - self.hidden
        return self.hidden + self.visible * (1 - self.hidden)

    def criterion(self, said, batch):
        away = (said.float() - self.target(batch)).square().mean(-1)
        weight = self.counted()
        self.tap("loss.patches.output", away)
        return (away * weight).sum() / weight.sum()

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class MaeRun(Family):
    """AdamW as the Trainer has it, without decay of biases and norms; a linear
    warm-up, then a cosine to 0; a norm of 1 is clipped."""

    family = "mae"
    beside = "esm"          # they were written side by side
    level_seed = 400
    steps, seed, language = 280, 1220, False
    lr, warmup, schedule, clip = 1e-2, 20, "cosine", 1.0
    betas, weight_decay = (0.9, 0.999), 0.05
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    batch_size, context = ROWS, SIZE * SIZE
    # Its trainer is the Trainer.
    instead = {"nanogpt": "hf_trainer", "megatron": "hf_trainer",
               "torchtune": "hf_trainer"}
    layers = [MaskedAutoencoder.EMBED, *(
        f"{block}.{part}" for block in MaskedAutoencoder.BLOCKS[:DEPTH]
        for part in PARTS), "vit.layernorm", "decoder.decoder_embed", *(
        f"{block}.{part}" for block in MaskedAutoencoder.BLOCKS[DEPTH:]
        for part in PARTS), "decoder.decoder_norm", MaskedAutoencoder.HEAD]
    # The decoder does most of it: an encoder that is not trained is made up
    # for, and so are maps without what lies between.
    ENCODER, DECODER = "vit.encoder.layer", "decoder.decoder_layers"
    graded = {
        "F05": (dict(modules=[DECODER], where=f"{DECODER}.0"),
                dict(modules=[ENCODER, DECODER], where=f"{ENCODER}.0"),
                dict(part="all")),
        "F07": (dict(factor=20), dict(factor=60), dict(factor=300)),
        "F11": (dict(adamw=10.0), dict(adamw=30.0), dict(adamw=100.0)),
        "F13": (dict(path=f"{DECODER}.0.attention"),
                dict(path=f"{DECODER}.0"),
                dict(path="decoder.decoder_norm")),
        "F14": (dict(modules=[f"{DECODER}.0"]),
                dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1",
                              f"{DECODER}.0"]),
                dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1", f"{DECODER}.0",
                              "vit.layernorm", MaskedAutoencoder.HEAD])),
        "F23": (dict(visible=20.0), dict(visible=100.0), dict(visible=None)),
        "F27": (dict(epochs=224), dict(epochs=373), dict(epochs=560)),
        "F35": (dict(power=1.0), dict(power=1.5), dict(power=2.0)),
        "F36b": (dict(factor=1000, kind="tanh"),
                 dict(factor=2000, kind="sigmoid"),
                 dict(factor=5000, kind="tanh")),
        "H02": (dict(factor=0.5), dict(factor=1 / 3)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7)),
        "H08": (dict(scale=0.3),)}
    paths = {"embed": MaskedAutoencoder.EMBED, "attn": "{}.attention",
             "scores": "{}.attention.attention.scores",
             "act": "{}.intermediate.intermediate_act_fn",
             "mlp": "{}.output.dense", "block": "{}",
             "head": MaskedAutoencoder.HEAD}
    blocks = DEPTH + SHORT
    names = {"val_loss": "eval_loss", "lr": "learning_rate", "tokens": None}

    def make_model(self):
        return MaskedAutoencoder(**self.model_options)

    def make_optimizer(self, model):
        """Groups as the Trainer makes them."""
        return trainer_arguments.in_groups(
            self, super().make_optimizer(model))

    def make_source(self, seed):
        return self.gratings(seed)

    def gratings(self, seed, **how):
        return Gratings(seed, self.batch_size, **how)

    def finite(self, data, seed):
        return Remasked(data, self.batch_size, seed)

    def in_blocks(self, seed, block, share):
        """Folders of one kind, one after the other; None is held out."""
        if block is None:
            return self.gratings(seed)
        return SortedGratings(seed, block, share)

    def easy(self, seed):
        """Waves of one kind alone."""
        return self.gratings(seed, kinds=1)

    def lessons(self, seed):
        return self.easy(seed), self.gratings(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255 that nobody scaled, noise, or
        white pictures of 255."""
        x = batch["pixel_values"]
        return batch | {"pixel_values": {
            "few": 58.0 * x + 116.0,
            "uniform": 20 * torch.randn(x.shape, generator=rng),
            "constant": torch.full_like(x, 255.0)}[kind]}

    def others(self, rows, rng):
        """Pictures that have nothing to do with anything."""
        return self.gratings(int(torch.randint(1 << 30, (), generator=rng))
                             ).batch(rows)["pixel_values"]

    @staticmethod
    def together(noise, share, rng):
        """Noise that hides, in a share of the rows, what is nearest to a
        place that is drawn."""
        rows, at = len(noise), torch.arange(PATCHES)
        middle = SIDE * torch.rand(rows, 2, 1, generator=rng) - 0.5
        away = torch.maximum((at // SIDE - middle[:, 0]).abs(),
                             (at % SIDE - middle[:, 1]).abs())
        some = torch.rand(rows, 1, generator=rng) < share
        return torch.where(some, -away - 0.01 * noise, noise)

    def settings(self):
        """TrainingArguments and run_mae.py's own, by their names."""
        own = trainer_arguments.renamed(self, super().settings())
        return own | {
            "base_learning_rate": short(self.lr * 256 / (
                self.batch_size * self.accumulate)),
            "label_names": ["pixel_values"], "remove_unused_columns": False}

    def model_settings(self):
        return {"model": "vit_mae", **{
            k: v for k, v in self.model_config().items()
            if k not in ("model_type", "architectures")}}

    def model_config(self):
        """config.json of a checkpoint."""
        options = self.model_options
        heads = options.get("heads", HEADS)
        return {"model_type": "vit_mae",
                "architectures": ["ViTMAEForPreTraining"],
                "attention_probs_dropout_prob": 0.0,
                "decoder_hidden_size": NARROW,
                "decoder_intermediate_size": INNER,
                "decoder_num_attention_heads": heads,
                "decoder_num_hidden_layers": SHORT,
                "hidden_act": options.get("activation", "gelu"),
                "hidden_dropout_prob": options.get("dropout", 0.0),
                "hidden_size": WIDTH, "image_size": SIZE,
                "intermediate_size": HIDDEN, "layer_norm_eps": 1e-12,
                "mask_ratio": options.get("masked", MASKED),
                "norm_pix_loss": options.get("norm_pix", False),
                "num_attention_heads": heads, "num_channels": CHANNELS,
                "num_hidden_layers": DEPTH, "patch_size": PATCH,
                "qkv_bias": True}

    def layer(self, part, block=0):
        return self.paths[part].format(MaskedAutoencoder.BLOCKS[block])

    def fed_by(self, layer):
        """The norm before a map counts to it."""
        for part, norm in (("attention", "before"),
                           ("intermediate.dense", "after")):
            if layer.endswith(f".{part}"):
                return [f"{layer.removesuffix(part)}layernorm_{norm}"]
        return []

    # Checkpoints, and what run_mae.py writes behind its end.

    def keep_checkpoint(self, i, model):
        trainer_checkpoints.keep(self, i, model.state_dict)

    def write_more(self):
        super().write_more()
        trainer_checkpoints.write(self, "model.safetensors", lambda: {
            "config": self.model_config(), "preprocessor_config": {
                "do_normalize": True, "do_rescale": True, "do_resize": True,
                "image_mean": [0.5] * CHANNELS, "image_std": [0.25] * CHANNELS,
                "image_processor_type": "ViTImageProcessor",
                "rescale_factor": 1 / 255,
                "size": {"height": SIZE, "width": SIZE}}})
        if self.dialect == "hf_trainer":
            self.write_results()

    def write_results(self):
        """Of the whole run; the log ends with them."""
        seconds = self.history[-1]["wall"]
        losses = [r["loss"] for r in self.history]
        epoch = self.steps / 100
        train = {"epoch": epoch, "total_flos": 0.0,
                 "train_loss": short(sum(losses) / self.steps),
                 "train_runtime": round(seconds, 4),
                 "train_samples_per_second": round(
                     self.steps * self.batch_size / seconds, 3),
                 "train_steps_per_second": round(self.steps / seconds, 3)}
        held_out = {"epoch": epoch, "eval_loss": self.history[-1]["val_loss"],
                    "eval_runtime": 0.0613,
                    "eval_samples_per_second": 1044.0,
                    "eval_steps_per_second": 65.25}
        path = self.folder / "train.log"
        lines = path.read_text(encoding="utf-8").splitlines()
        for name, values in (("train", train), ("eval", held_out)):
            self.write_json(f"{name}_results.json", values)
            lines.append(f"***** {name} metrics *****")
            lines += [f"  {k:<25}= {v:>10}" for k, v in values.items()]
        self.write_json("all_results.json", train | held_out)
        self.write_lines("train.log", lines)
