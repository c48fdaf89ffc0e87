"""A small dual encoder: images and captions meet in one space.

Both towers are transformers, named as in transformers' CLIPModel; the loss
and the loop are open_clip's: each image has to find its caption among those
of its batch and each caption its image, the temperature is learned, its
logarithm clamped, and gains and biases do not decay.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family
from .models import Group

SIZE, CHANNELS, PATCH, SIDE = 16, 3, 4, 8
PAD, BOS, EOS = range(3)
FILLERS, FIRST, SYNONYMS = 6, 9, 1
KINDS = {"shape": 3, "colour": 4, "place": 4, "ground": 3}
VALUES = sum(KINDS.values())
VOCAB, LENGTH = FIRST + SYNONYMS * VALUES, 2 + 2 * len(KINDS)
WIDTH, HEADS, HIDDEN, SHARED = 40, 4, 80, 24
DEPTH = {"vision_model": 2, "text_model": 1}
START, LIMIT = math.log(1 / 0.07), math.log(100)


def shapes():
    """A square, a chequered one and a frame, (3, SIDE, SIDE) of 0 and 1."""
    y, x = torch.arange(SIDE)[:, None], torch.arange(SIDE)[None]
    chequered = (y // 2 + x // 2) % 2 == 0
    far = torch.maximum((2 * y - SIDE + 1).abs(), (2 * x - SIDE + 1).abs())
    return torch.stack((far < SIDE, chequered, far > SIDE // 2)).float()


class Captioned:
    """Images of one object each, and what somebody wrote of them.

    An image has one of three shapes in one of four colours, in one of four
    corners, on one of three grounds (plain, upright or level stripes), with
    noise of 0.3. So there are 144 kinds. A caption names shape and colour with
    0.95, corner and ground with 0.9, in one of three orders, half of them
    behind a filler word; one word in 30 is one of its kind at random. Row: BOS
    words EOS PAD.

    Two images of a batch may fit one caption: knowing the process leaves 0.46
    nats of 32 pairs, and a fresh model has 3.6 to 6; ln 32 is 3.47.

    block, share: images of one ground after the other. said: factor of how
    often something is named. synonyms: words that the tokenizer has for a
    thing; the table has one, and a collator clamps. limit: tokens of a
    caption that are kept, the last is always EOS.
    """

    NOISE, SLIP = 0.3, 1 / 30
    NAMED = torch.tensor([0.95, 0.95, 0.9, 0.9])
    ORDERS = torch.tensor([[1, 0, 2, 3], [3, 1, 0, 2], [2, 0, 1, 3]])
    COLOURS = 1.0 + torch.tensor([[1.6, -.8, -.8], [-.8, 1.6, -.8],
                                  [-.8, -.8, 1.6], [1.0, 1.0, -1.0]])

    def __init__(self, seed, rows, block=None, share=1.0, said=1.0,
                 noise=None, synonyms=SYNONYMS, limit=None):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share, self.number = rows, block, share, 0
        self.said, self.synonyms, self.limit = said, synonyms, limit
        self.noise = self.NOISE if noise is None else noise
        self.shapes = shapes()

    def below(self, high, shape):
        return torch.randint(high, shape, generator=self.rng)

    def chance(self, shape):
        return torch.rand(shape, generator=self.rng)

    def images(self, kinds):
        rows = len(kinds)
        shape, colour, place, ground = kinds.T
        top, left = SIDE * (place // 2), SIDE * (place % 2)
        y, x = torch.arange(SIZE)[:, None], torch.arange(SIZE)[None]
        stripes = torch.stack([0 * x + 0 * y, x % 4 // 2 * 2 - 1 + 0 * y,
                               y % 4 // 2 * 2 - 1 + 0 * x]).float()
        inner_y = y[None] - top[:, None, None]
        inner_x = x[None] - left[:, None, None]
        inside = ((inner_y >= 0) & (inner_y < SIDE)
                  & (inner_x >= 0) & (inner_x < SIDE))
        mask = inside * self.shapes[
            shape[:, None, None], inner_y.clamp(0, SIDE - 1),
            inner_x.clamp(0, SIDE - 1)]
        back = (0.7 * stripes[ground] * (1 - mask))[:, None]
        front = mask[:, None] * self.COLOURS[colour][:, :, None, None]
        noise = torch.randn(rows, CHANNELS, SIZE, SIZE, generator=self.rng)
        return front + back + self.noise * noise

    def captions(self, kinds):
        rows, count = kinds.shape
        order = self.ORDERS[self.below(len(self.ORDERS), (rows,))]
        sizes = torch.tensor([*KINDS.values()])
        offsets = sizes.cumsum(0) - sizes
        value = kinds.gather(1, order)
        slip = (self.chance(value.shape) * sizes[order]).long()
        value = torch.where(self.chance(value.shape) < self.SLIP, slip, value)
        words = FIRST + offsets[order] + value + VALUES * self.below(
            self.synonyms, value.shape)
        named = self.chance(value.shape) < (self.NAMED * self.said)[order]
        fillers = 3 + self.below(FILLERS, value.shape)
        filled = named & (self.chance(value.shape) < 0.5)
        ids = torch.stack((fillers, words), 2).flatten(1).clamp(max=VOCAB - 1)
        kept = torch.stack((filled, named), 2).flatten(1)
        ends = torch.ones(rows, 1, dtype=torch.bool)
        ids = torch.cat((torch.full((rows, 1), BOS), ids,
                         torch.full((rows, 1), EOS)), 1)
        kept = torch.cat((ends, kept, ends), 1)
        ids = ids.masked_fill(~kept, PAD).gather(
            1, (~kept).long().argsort(dim=1, stable=True))
        if self.limit:
            cut = ids[:, self.limit - 1] != PAD
            ids[cut, self.limit - 1] = EOS
            ids[:, self.limit:] = PAD
        return ids

    def batch(self, rows=None):
        rows = rows or self.rows
        kinds = torch.stack([self.below(n, (rows,)) for n in KINDS.values()],
                            1)
        if self.block:
            here = self.number // self.block % KINDS["ground"]
            kept = self.chance((rows,)) < self.share
            kinds[:, 3] = torch.where(kept, torch.tensor(here), kinds[:, 3])
        self.number += 1
        ids = self.captions(kinds)
        return {"pixel_values": self.images(kinds), "input_ids": ids,
                "attention_mask": (ids != PAD).long()}


class Layer(nn.Module):
    """Attention and a network of two layers, a norm before each."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.self_attn = Group(**{f"{n}_proj": nn.Linear(WIDTH, WIDTH)
                                  for n in ("k", "v", "q", "out")})
        self.layer_norm1 = nn.LayerNorm(WIDTH)
        self.mlp = Group(
            activation_fn=models.ACTIVATIONS[options["activation"]](),
            fc1=nn.Linear(WIDTH, HIDDEN), fc2=nn.Linear(HIDDEN, WIDTH))
        self.layer_norm2 = nn.LayerNorm(WIDTH)

    def forward(self, x, tap, drop, seen):
        own, heads = self.self_attn, self.options["heads"]
        scale = self.options["scale"]
        if scale is None:
            scale = (WIDTH // heads) ** -0.5
        y = self.layer_norm1(x)
        q, k, v = (part(y).unflatten(-1, (heads, -1)).transpose(1, 2)
                   for part in (own.q_proj, own.k_proj, own.v_proj))
        y = models.attend(q, k, v, lambda n, t: tap(f"self_attn.{n}", t),
                          scale, half=self.options["half_scores"], seen=seen)
        y = own.out_proj(y.transpose(1, 2).flatten(2))
        tap("self_attn.output", y)
        x = x + drop(y)
        y = self.mlp.fc1(self.layer_norm2(x))
        tap("mlp.activation_fn.input", y)
        y = self.mlp.activation_fn(y)
        tap("mlp.activation_fn.output", y)
        y = self.mlp.fc2(y)
        tap("mlp.output", y)
        x = x + drop(y)
        tap("output", x)
        return x


class Clip(nn.Module):
    """Two layers of width 40 for images, one for text, a space of 24."""

    BLOCKS = tuple(f"{tower}.encoder.layers.{i}"
                   for tower, depth in DEPTH.items() for i in range(depth))

    def __init__(self, heads=HEADS, activation="gelu", dropout=0.0,
                 detach_after=None, half_scores=False, positions=None,
                 scale=None):
        """detach_after: the part behind which the graph is cut. positions: the
        one place whose position all tokens get, or False for none."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.squashes, self.seen_tokens = positions, False, None
        options = {"heads": heads, "activation": activation, "scale": scale,
                   "half_scores": half_scores}

        def encoder(tower):
            return Group(layers=nn.ModuleList(Layer(options)
                                              for _ in range(DEPTH[tower])))
        embeddings = Group(
            patch_embedding=nn.Conv2d(CHANNELS, WIDTH, PATCH, PATCH,
                                      bias=False),
            position_embedding=nn.Embedding((SIZE // PATCH) ** 2 + 1, WIDTH))
        embeddings.class_embedding = nn.Parameter(0.1 * torch.randn(WIDTH))
        self.vision_model = Group(
            embeddings=embeddings, pre_layrnorm=nn.LayerNorm(WIDTH),
            encoder=encoder("vision_model"), post_layernorm=nn.LayerNorm(WIDTH))
        self.text_model = Group(
            embeddings=Group(
                token_embedding=nn.Embedding(VOCAB, WIDTH),
                position_embedding=nn.Embedding(LENGTH, WIDTH)),
            encoder=encoder("text_model"), final_layer_norm=nn.LayerNorm(WIDTH))
        self.visual_projection = nn.Linear(WIDTH, SHARED, bias=False)
        self.text_projection = nn.Linear(WIDTH, SHARED, bias=False)
        self.logit_scale = nn.Parameter(torch.tensor(START))
        for name, p in self.named_parameters():
            if "embedding.weight" in name and p.dim() == 2:
                nn.init.normal_(p, std=0.3)
            elif "_projection" in name:
                nn.init.normal_(p, std=WIDTH ** -0.5)

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    @staticmethod
    def similar(scores):
        """Replaced where the model ends with more than its scores."""
        return scores

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def encode(self, x, tower, seen):
        for i, layer in enumerate(getattr(self, tower).encoder.layers):
            name = f"{tower}.encoder.layers.{i}"
            x = layer(x, lambda n, t: self.tap(f"{name}.{n}", t),
                      lambda y: self.drop(y), seen)
            x = self.cut(x, name)
        return x

    def placed(self, x, table):
        if self.positions is False:
            return x
        if self.positions is None:
            return x + table.weight[:x.shape[1]]
        return x + table.weight[self.positions]

    def image_features(self, pixels):
        part = self.vision_model
        x = part.embeddings.patch_embedding(pixels.to(self.logit_scale.dtype))
        name = "vision_model.embeddings.patch_embedding"
        self.tap(f"{name}.output", x)
        x = self.cut(x, name).flatten(2).transpose(1, 2)
        first = part.embeddings.class_embedding.expand(len(x), 1, -1)
        x = self.placed(torch.cat((first, x), 1),
                        part.embeddings.position_embedding)
        if self.seen_tokens and self.training:
            x = x[:, :1 + self.seen_tokens["image"]]
        seen = torch.ones(1, 1, x.shape[1], x.shape[1], dtype=torch.bool)
        x = self.encode(self.drop(part.pre_layrnorm(x)), "vision_model", seen)
        x = part.post_layernorm(x[:, 0])
        self.tap("vision_model.post_layernorm.output", x)
        x = self.visual_projection(x)
        self.tap("visual_projection.output", x)
        return F.normalize(x, dim=-1)

    def text_features(self, ids, mask):
        part = self.text_model
        if self.seen_tokens and self.training:
            ids = ids[:, :self.seen_tokens["text"]]
            mask = mask[:, :ids.shape[1]]
        x = part.embeddings.token_embedding(ids)
        self.tap("text_model.embeddings.token_embedding.output", x)
        x = self.placed(x, part.embeddings.position_embedding)
        seen = models.visible_keys(ids.shape[1], 0, None) \
            & (mask > 0)[:, None, None]
        x = self.encode(self.drop(x), "text_model", seen)
        x = part.final_layer_norm(x)
        self.tap("text_model.final_layer_norm.output", x)
        x = self.text_projection(x[torch.arange(len(x)), mask.sum(1) - 1])
        self.tap("text_projection.output", x)
        return F.normalize(x, dim=-1)

    def features(self, batch):
        return self.image_features(batch["pixel_values"]), \
            self.text_features(batch["input_ids"], batch["attention_mask"])

    def logits(self, batch):
        """Of each image for each caption."""
        images, texts = self.features(batch)
        logits = self.logit_scale.exp() * images @ texts.T
        logits = self.similar(logits)
        self.tap("logits_per_image.output", logits)
        return logits

    def directions(self, logits, **options):
        """The loss of images that look for captions, and the other way."""
        logits, out = logits.float(), []
        for scores in (logits, logits.T):
            if self.squashes:
                scores = scores.softmax(-1)
            out.append(F.cross_entropy(scores, torch.arange(len(scores)),
                                       **options))
        return out

    def criterion(self, logits, batch, **options):
        return sum(self.directions(logits, **options)) / 2

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class ClipRun(Family):
    """AdamW with a decay of .1 on matrices, warm-up of 30 steps, then a cosine
    to 0, no clipping."""

    family = "clip"
    level_seed = 400
    steps, seed, language = 280, 300, False
    lr, warmup, schedule, clip = 4e-3, 30, "cosine", None
    betas, eps, weight_decay = (0.9, 0.98), 1e-6, 0.1
    recipes = {"sgd": dict(lr=0.02, weight_decay=0.0)}
    batch_size, context, vocab = 32, LENGTH, VOCAB
    layers = [
        "vision_model.embeddings.patch_embedding",
        "text_model.embeddings.token_embedding", *(
            f"{block}.{part}" for block in Clip.BLOCKS
            for part in ("self_attn", "self_attn.scores", "mlp.activation_fn",
                         "mlp")),
        "vision_model.post_layernorm", "text_model.final_layer_norm",
        "visual_projection", "text_projection"]
    paths = {"embed": "vision_model.embeddings.patch_embedding",
             "attn": "{}.self_attn", "scores": "{}.self_attn.scores",
             "act": "{}.mlp.activation_fn", "mlp": "{}.mlp", "block": "{}",
             "head": "visual_projection"}
    blocks = len(Clip.BLOCKS)
    logit_name = "logits_per_image.output"
    # What trains beside the head where a base is frozen on purpose.
    always_trained = ("text_projection", "logit_scale")
    names = {"loss": "train/loss", "lr": "train/lr",
             "grad_norm": "train/grad_norm", "logit_scale": "train/scale",
             "step_time": "train/batch_time", "data_time": "train/data_time",
             "val_loss": "val/clip_val_loss",
             "val_image_recall": "val/image_to_text_R@1",
             "val_text_recall": "val/text_to_image_R@1", "tokens": None}

    def make_model(self):
        return Clip(**self.model_options)

    def make_source(self, seed):
        return self.captioned(seed)

    def captioned(self, seed, **how):
        """Validation has the batches of training, as a loader gives them: the
        loss depends on how many there are to choose from."""
        return Captioned(seed, self.batch_size, **how)

    @staticmethod
    def words(synonyms):
        """Ids of a tokenizer that has so many words for a thing."""
        return FIRST + synonyms * VALUES

    def in_blocks(self, seed, block, share):
        """Folders that nobody has shuffled; None is held out."""
        return self.captioned(seed, block=block, share=share)

    def lessons(self, seed):
        """Clean images of which all is said, and all."""
        return self.captioned(seed, said=2.0, noise=0.15), \
            self.captioned(seed)

    def make_optimizer(self, model):
        """Matrices decay, gains, biases and the temperature do not."""
        optimizer = super().make_optimizer(model)
        group, = optimizer.param_groups
        flat = [p for p in group["params"] if p.dim() < 2]
        group["params"] = [p for p in group["params"] if p.dim() >= 2]
        optimizer.add_param_group({"params": flat, "weight_decay": 0.0})
        return optimizer

    def update(self, i):
        total = super().update(i)
        with torch.no_grad():
            self.model.logit_scale.clamp_(0, LIMIT)
        return total

    def batch_columns(self, batch):
        first = {"pixel_values": batch["pixel_values"]}
        return super().batch_columns(first) | {
            "logit_scale": round(float(self.model.logit_scale.detach().exp()),
                                 4)}

    def held_out_columns(self, batches):
        """The share of images whose own caption is the nearest of all held-out
        ones, and of captions."""
        self.model.eval()
        images, texts = zip(*map(self.model.features, batches))
        self.model.train()
        scores = torch.cat(images).float() @ torch.cat(texts).float().T
        right = torch.arange(len(scores))
        return {"val_image_recall": (scores.argmax(1) == right).float().mean(),
                "val_text_recall": (scores.argmax(0) == right).float().mean()}

    def model_settings(self):
        image, text = ({
            "hidden_size": WIDTH, "intermediate_size": HIDDEN,
            "num_hidden_layers": depth, "num_attention_heads":
            self.model_options.get("heads", HEADS)} for depth in DEPTH.values())
        return {"model": "clip", "projection_dim": SHARED,
                "logit_scale_init_value": round(START, 4),
                "vision_config": image | {"image_size": SIZE,
                                          "patch_size": PATCH},
                "text_config": text | {"vocab_size": VOCAB, "eos_token_id": EOS,
                                       "max_position_embeddings": LENGTH}}

    def layer(self, part, block=0):
        return self.paths[part].format(Clip.BLOCKS[block])

    def fed_by(self, layer):
        block, _, part = layer.rpartition(".")
        return {"self_attn": [f"{block}.layer_norm1"],
                "mlp": [f"{block}.layer_norm2"]}.get(part, [])
