"""A small captioner: an image encoder, and a decoder that says what it sees.

As LAVIS trains BLIP on captions (task captioning, arch blip_caption): a ViT
that starts fresh, a BERT with cross-attention as the decoder, behind a prompt
that has no labels, label smoothing of .1; AdamW, a linear warm-up within the
first epoch and a cosine that falls from epoch to epoch. Parts are named as in
BlipCaption, and so are the config, the lines of the log, log.txt and the
checkpoints.
"""

import copy
import json
import math
from datetime import timedelta

import torch
from torch import nn
from torch.nn import functional as F

from . import battery, logs, models, sources, trainer_arguments
from .family import Family
from .models import Group
from .snapshot import checksum, short
from .sources import IGNORE
from .vlm import COLOURS as PAINTS
from .vlm import SHAPES as MASKS

PAD, BOS, SEP = range(3)                # BOS is BLIP's [DEC]
PROMPT = (BOS, 3, 4, 5)                 # [DEC] a picture of
COLOURS, SHAPES, NAMES, RELATIONS, CELLS = len(PAINTS), len(MASKS), 2, 3, 3
FIRST_COLOUR = 6
FIRST_SHAPE = FIRST_COLOUR + COLOURS    # each has two names
FIRST_RELATION = FIRST_SHAPE + NAMES * SHAPES
FIRST_ROW = FIRST_RELATION + RELATIONS
VOCAB = FIRST_ROW + CELLS
ABOVE, BELOW, BESIDE = range(RELATIONS)
PATCH = 6
SIZE, PATCHES = CELLS * PATCH, CELLS * CELLS
SLOTS, CATALOGUES = 6, 3
CONTEXT = len(PROMPT) + SLOTS
ROWS, SEES, LOOKS, WIDTH, HEADS, DEPTH = 28, 32, 4, 40, 4, 1
SMOOTHING, INITIAL, PLACES, PLACED = 0.1, 0.1, 16, 1.2
VIT, BERT = "visual_encoder", "text_decoder.bert"
HEAD = "text_decoder.cls.predictions"
BLOCKS = tuple(f"{BERT}.encoder.layer.{i}" for i in range(DEPTH))


class Pictures(sources.Source):
    """Pictures of one thing (.4) or two, and what people say of them.

    A picture has nine cells. Its things have a colour of five and a shape of
    four, no two the same of either, and lie in different cells. Pixels have
    noise of .15 and a brightness of .7 to 1.3. A caption is colour, shape and
    row of the thing, or colour and shape of the one, how it lies to the other
    (above, below, beside), and colour and shape of the other. The upper one is
    said first, or the left one; in .1 it is the other way round. A colour is
    left out in .1, a shape has two names (.7, .3), and .03 of the colours and
    shapes are any.

    Row: prompt caption SEP PAD*. Labels are the caption with its SEP, at their
    own places: the model shifts. Who knows the process has the loss that
    best() computes; an even guess has ln 25 = 3.22.

    limit: tokens that are kept of a row, the last one as its SEP. pieces: of
    the tokenizer, what is too large becomes the last row of the table.
    catalogues: a row is of one of three, with two colours and one kind of
    scene each, which is in the batch; block, share: one catalogue after the
    other. easy: one thing, and nothing is left out or wrong. captions: of a
    picture in the batch.
    """

    TWO, TURNED, MISSED, SLIP, NOISE = 0.6, 0.1, 0.1, 0.03, 0.15
    FORMS = (0.7, 0.3)
    OFFERS = ((0, 1), (2, 3), (4, 0))   # colours of the catalogues

    def __init__(self, seed, rows, limit=None, pieces=None, catalogues=False,
                 block=None, share=1.0, easy=False, captions=1):
        super().__init__(seed, (VOCAB, CONTEXT, rows))
        self.limit, self.catalogues, self.easy = limit, catalogues, easy
        self.block, self.share, self.captions = block, share, captions
        self.masks = torch.tensor([[[float(c == "#") for c in row]
                                    for row in shape]
                                   for shape in MASKS.values()])
        self.masks = F.pad(self.masks, (0, 1, 0, 1))
        self.paints = torch.tensor(list(PAINTS.values()))
        # A longer list has them in another order.
        self.ids = None if pieces is None else torch.tensor([
            *range(FIRST_COLOUR), *(min(k, VOCAB - 1) for k in (
                torch.randperm(pieces - FIRST_COLOUR,
                               generator=torch.Generator().manual_seed(211))[
                    :VOCAB - FIRST_COLOUR] + FIRST_COLOUR).tolist())])

    def rand(self, *shape):
        return torch.rand(shape, generator=self.rng)

    def any(self, *shape, high):
        return torch.randint(high, shape, generator=self.rng)

    def chance(self, rows, share):
        return self.rand(rows) < (0.0 if self.easy else share)

    def catalogue(self, rows):
        kind = self.any(rows, high=CATALOGUES)
        if self.block:
            here = self.number // self.block % CATALOGUES
            kind = torch.where(self.rand(rows) < self.share, here, kind)
        return kind

    def scenes(self, rows):
        """Whether there are two; colours, shapes and cells, (rows, 2) each, of
        what is said first as a rule and of the other; catalogues."""
        two = self.chance(rows, self.TWO)
        colour, shape, cell = (self.rand(rows, n).argsort(1)[:, :2]
                               for n in (COLOURS, SHAPES, PATCHES))
        kind = self.catalogue(rows) if self.catalogues else None
        if self.catalogues:
            two = kind > 0
            colour = torch.tensor(self.OFFERS)[kind].gather(
                1, self.rand(rows, 2).argsort(1))
            # Below each other in the second, side by side in the third.
            other = (cell[:, 0] // CELLS + 1 + self.any(rows, high=2)) % CELLS
            cell[:, 1] = torch.where(
                kind == 1, CELLS * other + cell[:, 1] % CELLS,
                torch.where(kind == 2, cell[:, 0] // CELLS * CELLS + (
                    cell[:, 0] % CELLS + 1 + self.any(rows, high=2)) % CELLS,
                    cell[:, 1]))
        cell = torch.where(two[:, None], cell.sort(1).values, cell)
        return two, colour, shape, cell, kind

    def pictures(self, two, colour, shape, cell):
        rows = len(two)
        thing = self.masks[shape][:, :, None] \
            * self.paints[colour][..., None, None]
        thing[:, 1] *= two[:, None, None, None]
        grid = torch.zeros(rows, PATCHES, 3, PATCH, PATCH)
        for k in range(2):
            grid[torch.arange(rows), cell[:, k]] += thing[:, k]
        image = grid.view(rows, CELLS, CELLS, 3, PATCH, PATCH).permute(
            0, 3, 1, 4, 2, 5).reshape(rows, 3, SIZE, SIZE)
        if not self.easy:
            light = 0.7 + 0.6 * self.rand(rows, 1, 1, 1)
            image = image * light + self.NOISE * torch.randn(
                image.shape, generator=self.rng)
        return 3 * image - 0.4      # about as a processor normalises it

    def likely(self, colour, shape):
        """Of a thing's colour and of its name the probability of each word,
        (rows, 2, words)."""
        out = torch.zeros(len(colour), 2, VOCAB)
        row, slip = torch.arange(len(colour)), 0.0 if self.easy else self.SLIP
        out[:, 0, FIRST_COLOUR:FIRST_SHAPE] = slip / COLOURS
        out[row, 0, FIRST_COLOUR + colour] += 1 - slip
        for k, share in enumerate((1.0, 0.0) if self.easy else self.FORMS):
            first = FIRST_SHAPE + k * SHAPES
            out[:, 1, first:first + SHAPES] = slip * share / SHAPES
            out[row, 1, first + shape] += (1 - slip) * share
        return out

    def chances(self, two, colour, shape, cell):
        """Of each slot the probability of each word, given what stands before,
        (rows, slots, words), and which slots are there."""
        rows = len(two)
        row = torch.arange(rows)
        first = (two & self.chance(rows, self.TURNED)).long()
        of = torch.stack([self.likely(colour[:, k], shape[:, k])
                          for k in range(2)], 1)
        out = torch.zeros(rows, SLOTS, VOCAB)
        out[:, :2] = of[row, first]
        out[:, 3:5] = of[row, 1 - first]
        down = cell // CELLS
        level = down[:, 0] == down[:, 1]
        relation = torch.where(level, BESIDE,
                               torch.where(first == 1, BELOW, ABOVE))
        out[row, 2, torch.where(two, FIRST_RELATION + relation,
                                FIRST_ROW + down[:, 0])] = 1.0
        out[:, 5, SEP] = 1.0
        there = torch.ones(rows, SLOTS, dtype=torch.bool)
        for k in (0, 3):
            there[:, k] = ~self.chance(rows, self.MISSED)
        there[:, 3:5] &= two[:, None]
        # What is told beforehand is known to nobody else.
        missed = 0.0 if self.easy else self.MISSED
        opens = (1 - missed) * of[:, :, 0] + missed * of[:, :, 1]
        share = torch.where(two, self.TURNED, 0.0)[:, None]
        known = out.clone()
        begin = (1 - share) * opens[:, 0] + share * opens[:, 1]
        known[row, (~there[:, 0]).long()] = begin
        known[row, torch.where(there[:, 3], 3, 4)] = opens[row, 1 - first]
        return out, known, there

    def draw(self, rows):
        pictures = -(-rows // self.captions)
        *scene, kind = self.scenes(pictures)
        image = self.pictures(*scene)
        if self.captions > 1:
            image, kind, *scene = (
                t if t is None else t.repeat_interleave(
                    self.captions, 0)[:rows] for t in (image, kind, *scene))
        chances, known, there = self.chances(*scene)
        words = torch.multinomial(chances.flatten(0, 1), 1,
                                  generator=self.rng).view(rows, SLOTS)
        self.known = known[there]
        order = (~there).long().argsort(dim=1, stable=True)
        words, there = words.gather(1, order), there.gather(1, order)
        ids = torch.cat((torch.tensor(PROMPT).expand(rows, -1),
                         words.masked_fill(~there, PAD)), 1)
        if self.limit:
            kept = ids[:, :self.limit].clone()
            kept[:, -1] = torch.where(kept[:, -1] == PAD, PAD, SEP)
            ids = F.pad(kept, (0, CONTEXT - self.limit), value=PAD)
        if self.ids is not None:
            ids = self.ids[ids]
        labels = ids.masked_fill(ids == PAD, IGNORE)
        labels[:, :len(PROMPT)] = IGNORE
        batch = {"image": image, "input_ids": ids,
                 "attention_mask": (ids != PAD).long(), "labels": labels}
        return batch | ({} if kind is None else {"domain": kind})

    def best(self, smoothing=SMOOTHING, batches=60):
        """The loss of who knows the process, and its likelihood alone."""
        loss = nats = count = 0.0
        for _ in range(batches):
            self.batch()
            p = self.known
            q = (1 - smoothing) * p + smoothing / VOCAB
            loss -= float(torch.special.xlogy(q, q).sum())
            nats -= float(torch.special.xlogy(p, p).sum())
            count += len(p)
        return loss / count, nats / count


class VisionAttention(nn.Module):
    """Queries, keys and values of one map; every patch sees all."""

    def __init__(self, scale):
        super().__init__()
        self.qkv, self.proj = nn.Linear(SEES, 3 * SEES), nn.Linear(SEES, SEES)
        self.scale = (SEES // LOOKS) ** -0.5 if scale is None else scale

    def forward(self, x, tap):
        q, k, v = (t.unflatten(-1, (LOOKS, -1)).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        y = self.proj(y.transpose(1, 2).flatten(2))
        tap("output", y)
        return y


class VisionBlock(nn.Module):
    """Of a ViT; norms before each part."""

    def __init__(self, options):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(SEES, 1e-6) for _ in range(2))
        self.attn = VisionAttention(options["scale"])
        self.mlp = Group(fc1=nn.Linear(SEES, 2 * SEES),
                         act=models.ACTIVATIONS[options["activation"]](),
                         fc2=nn.Linear(2 * SEES, SEES))

    def forward(self, x, tap):
        x = x + self.attn(self.norm1(x), lambda n, t: tap(f"attn.{n}", t))
        y = self.mlp.fc1(self.norm2(x))
        tap("mlp.act.input", y)
        y = self.mlp.act(y)
        tap("mlp.act.output", y)
        y = self.mlp.fc2(y)
        tap("mlp.output", y)
        x = x + y
        tap("output", x)
        return x


def attention(sees):
    """BertAttention, over words or over what `sees` features wide."""
    return Group(self=Group(query=nn.Linear(WIDTH, WIDTH),
                            key=nn.Linear(sees, WIDTH),
                            value=nn.Linear(sees, WIDTH)),
                 output=Group(dense=nn.Linear(WIDTH, WIDTH),
                              LayerNorm=nn.LayerNorm(WIDTH, 1e-12)))


class BertLayer(nn.Module):
    """Attention over the words before, attention over the picture and a
    network, a norm behind each sum."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.attention, self.crossattention = attention(WIDTH), attention(SEES)
        self.intermediate = Group(
            dense=nn.Linear(WIDTH, 2 * WIDTH),
            intermediate_act_fn=models.ACTIVATIONS[options["activation"]]())
        self.output = Group(dense=nn.Linear(2 * WIDTH, WIDTH),
                            LayerNorm=nn.LayerNorm(WIDTH, 1e-12))

    def attended(self, name, x, of, tap, drop, seen=None):
        part = getattr(self, name)
        own, heads = getattr(part, "self"), self.options["heads"]
        q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2)
                   for t in (own.query(x), own.key(of), own.value(of)))
        scale = self.options["scale"]
        if scale is None:
            scale = (WIDTH // heads) ** -0.5
        if name == "attention":
            y = models.attend(q, k, v, lambda n, t: tap(f"{name}.self.{n}", t),
                              scale, half=self.options["half_scores"],
                              seen=seen)
        else:
            scores = q @ k.mT
            tap(f"{name}.self.scores.output", scores)
            probs = (scores * scale).softmax(-1)
            tap(f"{name}.self.probs.output", probs)
            y = probs @ v
        y = y.transpose(1, 2).flatten(2)
        tap(f"{name}.self.output", y)
        x = part.output.LayerNorm(x + drop(part.output.dense(y)))
        tap(f"{name}.output.output", x)
        return x

    def forward(self, x, memory, tap, drop, real, future=0):
        """memory: the picture's features. real: (rows, 1, 1, words), what is
        not padding. future: see models.visible_keys."""
        seen = models.visible_keys(x.shape[1], future, None) & real
        x = self.attended("attention", x, x, tap, drop, seen)
        x = self.attended("crossattention", x, memory, tap, drop)
        y = self.intermediate.dense(x)
        tap("intermediate.intermediate_act_fn.input", y)
        y = self.intermediate.intermediate_act_fn(y)
        tap("intermediate.intermediate_act_fn.output", y)
        x = self.output.LayerNorm(x + drop(self.output.dense(y)))
        tap("output.output", x)
        return x


class BlipCaption(models.Language):
    """A ViT of one block of a width of 32, a decoder of one layer of 40."""

    def __init__(self, heads=HEADS, activation="gelu", dropout=0.0,
                 detach_after=None, half_scores=False, positions=True,
                 future=0, scale=None, smoothing=SMOOTHING, tied=True,
                 patch_drop=0.0):
        """detach_after: the module behind which the graph is cut. positions:
        the place that all words and patches have if a number, none if False.
        patch_drop: share of the patches that training does not see."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.future = positions, future
        self.smoothing, self.patch_drop = smoothing, patch_drop
        self.squashes = self.guards = False
        self.late = 0           # places that labels are behind, once more
        options = {"heads": heads, "activation": activation, "scale": scale,
                   "half_scores": half_scores}
        self.visual_encoder = Group(
            patch_embed=Group(proj=nn.Conv2d(3, SEES, PATCH, PATCH)),
            blocks=nn.ModuleList([VisionBlock(options)]),
            norm=nn.LayerNorm(SEES, 1e-6))
        self.visual_encoder.cls_token = nn.Parameter(torch.zeros(1, 1, SEES))
        # A row's and a column's, as sines and cosines would be.
        first, row, column = (torch.randn(n, SEES) for n in (1, CELLS, CELLS))
        cells = (row[:, None] + column).flatten(0, 1)
        self.visual_encoder.pos_embed = nn.Parameter(
            PLACED * torch.cat((first, cells))[None])
        words = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        self.text_decoder = Group(
            bert=Group(
                embeddings=Group(
                    word_embeddings=words,
                    position_embeddings=nn.Embedding(PLACES, WIDTH),
                    LayerNorm=nn.LayerNorm(WIDTH, 1e-12)),
                encoder=Group(layer=nn.ModuleList(BertLayer(options)
                                                  for _ in range(DEPTH)))),
            cls=Group(predictions=Group(
                transform=Group(dense=nn.Linear(WIDTH, WIDTH),
                                LayerNorm=nn.LayerNorm(WIDTH, 1e-12)),
                decoder=nn.Linear(WIDTH, VOCAB))))
        for name, p in self.text_decoder.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=INITIAL)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        nn.init.zeros_(words.weight[PAD])
        if tied:
            self.text_decoder.cls.predictions.decoder.weight = words.weight

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def placed(self, table):
        """Rows of a table of places, as many as it has."""
        if self.positions is False:
            return torch.zeros_like(table)
        if isinstance(self.positions, bool):
            return table
        return table[self.positions].expand_as(table)

    def looked(self, image):
        """Features of a picture, of the class token first."""
        own = self.visual_encoder
        proj = own.patch_embed.proj
        x = proj(image.to(proj.weight.dtype))
        self.tap(f"{VIT}.patch_embed.proj.output", x)
        x = x.flatten(2).transpose(1, 2)
        places = self.placed(own.pos_embed[0])
        x = x + places[1:]
        if self.training and self.patch_drop:
            kept = torch.rand(x.shape[:2]).argsort(1)[
                :, :round((1 - self.patch_drop) * PATCHES)]
            x = x.gather(1, kept[..., None].expand(-1, -1, SEES))
        first = (own.cls_token[0] + places[:1]).expand(len(x), 1, -1)
        x = torch.cat((first, x), 1)
        for i, block in enumerate(own.blocks):
            path = f"{VIT}.blocks.{i}"
            x = self.cut(block(x, lambda n, t, path=path: self.tap(
                f"{path}.{n}", t)), path)
        x = own.norm(x)
        self.tap(f"{VIT}.norm.output", x)
        return self.cut(x, VIT)

    def decoded(self, ids, memory, mask=None):
        """mask: 1 for words, 0 for padding."""
        own = self.text_decoder.bert.embeddings
        x = own.word_embeddings(ids)
        self.tap(f"{BERT}.embeddings.word_embeddings.output", x)
        x = x + self.placed(own.position_embeddings.weight[:ids.shape[1]])
        x = own.LayerNorm(x)
        self.tap(f"{BERT}.embeddings.output", x)
        x = self.drop(self.cut(x, f"{BERT}.embeddings"))
        real = (torch.ones_like(ids) if mask is None else mask) > 0
        real = real[:, None, None].clone()
        real[..., 0] = True     # the prompt's; padding alone would be NaN
        for name, layer in zip(BLOCKS,
                               self.text_decoder.bert.encoder.layer):
            x = layer(x, memory, lambda n, t, name=name: self.tap(
                f"{name}.{n}", t), self.drop, real, future=self.future)
            x = self.cut(x, name)
        head = self.text_decoder.cls.predictions
        x = head.transform.LayerNorm(F.gelu(head.transform.dense(x)))
        self.tap(f"{HEAD}.transform.output", x)
        x = self.cut(x, f"{HEAD}.transform")
        x = head.decoder(x)
        self.tap(f"{HEAD}.decoder.output", x)
        return x

    def forward(self, ids, image=None, mask=None):
        if image is None:       # a probe of the words alone
            image = torch.zeros(len(ids), 3, SIZE, SIZE)
        return self.decoded(ids, self.looked(image), mask)

    def logits(self, batch):
        return self(batch["input_ids"], batch["image"],
                    batch["attention_mask"])

    def shifted(self, logits, batch):
        """Logits and labels of the same words."""
        labels = batch["labels"][:, 1 + self.late:]
        return logits[:, :labels.shape[1]].float(), labels

    def criterion(self, logits, batch, smoothing=None):
        """Of the labels, each from the logits one place before it."""
        scores, labels = self.shifted(logits, batch)
        if self.squashes:
            scores = scores.softmax(-1)
        total = F.cross_entropy(
            scores.flatten(0, 1), labels.flatten(), ignore_index=IGNORE,
            label_smoothing=self.smoothing if smoothing is None else smoothing,
            reduction="sum")
        count = (labels != IGNORE).sum()
        return total / (count.clamp_min(1) if self.guards else count)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class CapRun(Family):
    """LAVIS's recipe of captions: AdamW without decay of biases and norms, a
    linear warm-up, a cosine by epochs; nothing is clipped."""

    family = "cap"
    level_seed = 400
    steps, seed = 200, 2150
    EPOCH = epoch_steps = 50
    lr, warmup, schedule, clip = 8e-3, 20, "linear_warmup_cosine_lr", None
    betas, weight_decay = (0.9, 0.999), 0.05
    recipes = {"sgd": dict(lr=0.1, weight_decay=0.0)}
    batch_size, context, vocab, pad = ROWS, CONTEXT, VOCAB, PAD
    # Its trainer is LAVIS's.
    instead = {"nanogpt": "lavis", "hf_trainer": "lavis",
               "megatron": "lavis", "torchtune": "lavis"}
    layers = [f"{VIT}.patch_embed.proj", *(
        f"{VIT}.blocks.0.{part}" for part in (
            "attn", "mlp.act", "mlp")), f"{VIT}.norm",
        f"{BERT}.embeddings.word_embeddings",
        f"{BERT}.embeddings", *(
            f"{block}.{part}" for block in BLOCKS for part in (
                "attention.self", "attention.self.scores", "attention.output",
                "crossattention.self", "crossattention.self.scores",
                "crossattention.output", "intermediate.intermediate_act_fn",
                "output")),
        f"{HEAD}.transform", f"{HEAD}.decoder"]
    paths = {"embed": f"{BERT}.embeddings.word_embeddings",
             "attn": "{}.attention.self", "scores": "{}.attention.self.scores",
             "act": "{}.intermediate.intermediate_act_fn",
             "mlp": "{}.output", "block": "{}",
             "head": f"{HEAD}.decoder"}
    blocks = DEPTH
    battery = ("causal_mask",)
    graded = {
        "F04": (dict(at=90), dict(at=40), dict(at=0)),
        "F05": (dict(modules=[f"{BERT}.encoder.layer"], where=BLOCKS[0]),
                dict(modules=[VIT, f"{BERT}.encoder.layer"],
                     where=f"{VIT}.patch_embed.proj"), dict(part="all")),
        "F06": (dict(factor=2), dict(factor=4), dict(factor=8)),
        "F07": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F13": (dict(path=VIT), dict(path=BLOCKS[0]),
                dict(path=f"{HEAD}.transform")),
        "F14": (dict(modules=list(BLOCKS)),
                dict(modules=[f"{VIT}.blocks", *BLOCKS]),
                dict(modules=[f"{VIT}.blocks", *BLOCKS,
                              f"{HEAD}.transform"])),
        "F15": (dict(at=150), dict(at=100), dict(at=50)),
        "F27": (dict(epochs=15), dict(epochs=40), dict(epochs=100)),
        "F31": (dict(factor=1.3), dict(factor=1.7), dict(factor=2.4)),
        "F33": (dict(limit=8), dict(limit=7), dict(limit=6)),
        "F35": (dict(power=0.5), dict(power=1.0), dict(power=1.5)),
        "F36b": (dict(factor=100, kind="sigmoid"),
                 dict(factor=50, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H15": (dict(share=0.15), dict(share=0.2))}
    names = {"val_accuracy": "val_agg_metrics", "tokens": None}

    def make_model(self):
        return BlipCaption(**self.model_options)

    def make_optimizer(self, model):
        """Biases and norms do not decay, in LAVIS as in the Trainer."""
        optimizer = trainer_arguments.in_groups(
            self, super().make_optimizer(model))
        for group in optimizer.param_groups:
            group["foreach"] = True     # many small tensors
        return optimizer

    def make_source(self, seed):
        return self.pictured(seed)

    def pictured(self, seed, **how):
        return Pictures(seed, self.batch_size if seed != 9 else ROWS, **how)

    def in_blocks(self, seed, block, share):
        """Catalogues that nobody has shuffled; None is held out."""
        return self.pictured(seed, block=block, share=share, catalogues=True)

    def easy(self, seed):
        """One thing on a clean picture, and nothing left out or wrong."""
        return self.pictured(seed, easy=True)

    def lessons(self, seed):
        return self.easy(seed), self.pictured(seed)

    # What a fault does to captions, in inputs and labels alike.

    @staticmethod
    def told(batch, ids):
        """The batch with other words where it has labels."""
        labels = batch["labels"]
        ids = torch.where(labels == IGNORE, batch["input_ids"], ids)
        return batch | {"input_ids": ids, "labels": torch.where(
            labels == IGNORE, labels, ids)}

    def mistold(self, batch, share, rng):
        """A share of the words of captions is any."""
        ids = batch["input_ids"]
        drawn = torch.randint(FIRST_COLOUR, VOCAB, ids.shape, generator=rng)
        wrong = torch.rand(ids.shape, generator=rng) < share
        return self.told(batch, torch.where(wrong & (ids >= FIRST_COLOUR),
                                            drawn, ids))

    @staticmethod
    def of_others(batch, order):
        """Each picture with the caption of another one."""
        return batch | {k: batch[k][order] for k in (
            "input_ids", "attention_mask", "labels")}

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pictures of 0 to 255 under captions of other rows,
        noise under any words, or blank pictures whose captions are one
        word."""
        ids, image = batch["input_ids"], batch["image"]
        if kind == "few":
            order = torch.arange(len(ids)).roll(5)
            return self.of_others(batch | {"image": 128 * (image + 1)}, order)
        drawn = torch.randint(FIRST_COLOUR, VOCAB, ids.shape, generator=rng)
        if kind == "constant":
            drawn, image = torch.full_like(ids, VOCAB - 1), 0 * image + 255
        else:
            image = 20 * torch.randn(image.shape, generator=rng)
        return self.told(batch | {"image": image}, drawn)

    def lr_factor(self, i):
        """The warm-up is of the first epoch; from then on the rate is an
        epoch's, as LinearWarmupCosineLRScheduler has it."""
        if self.schedule != "linear_warmup_cosine_lr" or i < self.warmup:
            return super().lr_factor(i)
        return 0.5 * (1 + math.cos(math.pi * (i // self.EPOCH) * self.EPOCH
                                   / self.steps))

    def batch_columns(self, batch):
        ids = batch["input_ids"]
        return {"batch_hash": checksum(batch["image"]),
                "distinct_tokens": len(ids.unique()),
                "loss_tokens": int((batch["labels"] != IGNORE).sum())}

    def held_out_columns(self, batches):
        """Words that are said right."""
        self.model.eval()
        right = count = 0
        for batch in batches:
            scores, labels = self.model.shifted(self.model.logits(batch),
                                                batch)
            kept = labels != IGNORE
            right += int((scores.argmax(-1) == labels)[kept].sum())
            count += int(kept.sum())
        self.model.train()
        return {"val_accuracy": right / max(count, 1)}

    # The config.

    def settings(self):
        """By the names of LAVIS's run config, and flat."""
        own = super().settings()
        if self.moments == "adamw":
            own["beta2"] = own.pop("betas")[1]
        for old, new in (("lr", "init_lr"), ("scheduler", "lr_sched"),
                         ("batch_size", "batch_size_train"),
                         ("gradient_accumulation_steps", "accum_grad_iters"),
                         ("max_steps", "max_iters")):
            own[new] = own.pop(old)
        if self.schedule == "linear_warmup_cosine_lr":
            own |= {"min_lr": 0.0, "warmup_lr": 0.0}
        return own | {
            "task": "captioning", "iters_per_epoch": self.EPOCH,
            "max_epoch": self.last_epoch(self.steps) + 1,
            "amp": self.precision.endswith("mixed"),
            "log_freq": self.interval or 10}

    def model_settings(self):
        options = self.model_options
        return {"arch": "blip_caption", "vit_type": "tiny",
                "image_size": SIZE, "patch_size": PATCH,
                "vision_width": SEES, "vision_depth": 1,
                "freeze_vit": False, "prompt": "a picture of ",
                "max_txt_len": self.context, "vocab_size": VOCAB,
                "hidden_size": WIDTH, "num_hidden_layers": DEPTH,
                "num_attention_heads": options.get("heads", HEADS),
                "hidden_act": options.get("activation", "gelu"),
                "hidden_dropout_prob": options.get("dropout", 0.0),
                "label_smoothing": options.get("smoothing", SMOOTHING),
                "tie_word_embeddings": options.get("tied", True),
                "pad_token_id": PAD, "bos_token_id": BOS,
                "sep_token_id": SEP, "add_cross_attention": True}

    def config(self):
        """As LAVIS keeps it: run, model, datasets."""
        own = self.settings()
        model = {k: own.pop(k) for k in self.model_settings() if k in own}
        return {"run": own, "model": model, "datasets": {"scenes_caption": {
            "data_type": "images", "vis_processor": {
                "train": {"name": "blip_image_train", "image_size": SIZE},
                "eval": {"name": "blip_image_eval", "image_size": SIZE}},
            "text_processor": {"train": {"name": "blip_caption"},
                               "eval": {"name": "blip_caption"}}}}}

    def layer(self, part, block=0):
        return self.paths[part].format(BLOCKS[block])

    def fed_by(self, layer):
        """The norm before a part, or the first half of a network, counts to
        it."""
        block, _, part = layer.rpartition(".")
        if block in BLOCKS and part == "output":
            return [f"{block}.intermediate"]
        if layer.endswith(".attn"):
            return [layer.replace("attn", "norm1")]
        if layer.endswith(".mlp"):
            return [layer.replace("mlp", "norm2")]
        return []

    def probe_rows(self):
        """Words alone."""
        ids = self.pictured(self.seed + 300).batch(1)["input_ids"]
        return ids[ids != PAD][None]

    def optimizer_state(self):
        """Of steps of which layers or a dump may be written: of a fault whose
        onset is not known beforehand all of them."""
        i = len(self.history)
        onset = self.onset if self.onset is not None else self.steps
        if type(self).is_onset is Family.is_onset and i % 25 \
                and i < self.steps - 1 and abs(i - onset) > 1 \
                and i not in self.extra_dumps:
            return {}
        return super().optimizer_state()

    # Checkpoints.

    def last_epoch(self, done):
        """The epoch of the last of some steps, from 0 on."""
        return (done - 1) // self.EPOCH

    def checkpoint_path(self, done):
        return f"checkpoint_{self.last_epoch(done)}.pth"

    def keep_checkpoint(self, i, model):
        """Where an epoch ends, any of which may be the best."""
        done = i + 1
        if done % self.EPOCH == 0 or done == self.steps:
            self.checkpoints[done] = copy.deepcopy(
                (model.state_dict(), self.optimizer.state_dict()))

    def best_step(self):
        """The step behind which most words were right, if any were."""
        found = [(row["val_accuracy"], -i - 1)
                 for i, row in enumerate(self.history)
                 if row.get("val_accuracy", 0.0) > 0 and "val_loss" in row]
        return -max(found)[1] if found else None

    def write_files(self):
        if self.dialect != "lavis":
            super().write_files()
            return
        logs.write_yaml(self, "config.yaml", self.config())
        Log(self).write()
        self.write_lines("packages.txt", logs.PACKAGES)
        for check in self.battery:
            battery.CHECKS[check](self)

    def write_more(self):
        super().write_more()
        kept = {self.checkpoint_path(n): n for n in (
            self.EPOCH, self.steps, *self.notices)}
        for name, done in {**kept, "checkpoint_best.pth":
                           self.best_step()}.items():
            if done in self.checkpoints:
                torch.save(self.checkpoint(done), self.folder / name)

    def checkpoint(self, done):
        """As RunnerBase._save_checkpoint has it."""
        weights, optimizer = self.checkpoints[done]
        scaler = {"scale": 65536.0, "growth_factor": 2.0,
                  "backoff_factor": 0.5, "growth_interval": 2000,
                  "_growth_tracker": done} \
            if self.precision == "fp16-mixed" else None
        return {"model": weights, "optimizer": optimizer,
                "config": self.config(), "scaler": scaler,
                "epoch": self.last_epoch(done)}


class Log:
    """What LAVIS's runner prints, and its log.txt: the config, then a row of
    strings for an epoch of training and a row for each validation. The loss of
    a line is that of its step, as is the rate; norms are not logged."""

    def __init__(self, run):
        self.run, self.lines, self.rows = run, [], []

    def say(self, seconds, text):
        self.lines.append(f"{self.run.at(seconds)} [INFO] {text}")

    def write(self):
        run, best = self.run, (0.0, 0)
        config = json.dumps(run.config(), indent=4)
        self.say(-2.9, "\n=====  Running Parameters    =====")
        self.say(-2.9, json.dumps(run.config()["run"], indent=4))
        self.say(-2.8, "\n======  Dataset Attributes  ======")
        self.say(-2.8, "\n======  Model Attributes  ======")
        self.say(-2.8, json.dumps(run.config()["model"], indent=4))
        self.say(-2.1, "Building datasets...")
        self.lines.append(
            "torch/utils/data/dataloader.py:666: UserWarning: 'pin_memory' "
            "argument is set as true but no accelerator is found, then device "
            "pinned memory won't be used.")
        if "init_from" in run.user:
            self.say(-1.2, f"load checkpoint from {run.user['init_from']}")
        self.say(-0.9, f"number of trainable parameters: {run.parameters}")
        self.say(-0.2, "Using dataset ratios: None")
        for first in range(0, run.steps, run.EPOCH):
            best = self.epoch(first, best)
        end = timedelta(seconds=int(run.history[-1]["wall"] + 0.3))
        self.say(run.history[-1]["wall"] + 0.3, f"Training time {end}")
        run.write_lines("train.log", self.lines)
        run.write_lines("log.txt", [config, *map(json.dumps, self.rows)])

    def epoch(self, first, best):
        run = self.run
        number, every = first // run.EPOCH, run.interval or 10
        part = run.history[first:first + run.EPOCH]
        count = len(part)
        begun = part[0]["wall"] - part[0]["step_time"]
        for _, text in run.notices.get(first, ()):
            self.say(begun, text)
        self.say(begun, "Start training")
        self.say(begun, f"Start training epoch {number}, {run.EPOCH} iters per "
                        "inner epoch.")
        width = len(str(count))
        for i, row in enumerate(part):
            if i % every and i < count - 1:
                continue
            mean = {k: sum(r[k] for r in part[:i + 1]) / (i + 1)
                    for k in ("step_time", "data_time")}
            left = timedelta(seconds=int(mean["step_time"] * (count - i)))
            self.lines.append("  ".join((
                f"Train: data epoch: [{number}]",
                f"[{i:{width}}/{count}]", f"eta: {left}",
                f"lr: {row['lr']:.6f}", f"loss: {row['loss']:.4f}",
                f"time: {mean['step_time']:.4f}",
                f"data: {mean['data_time']:.4f}", "max mem: 38")))
        wall = part[-1]["wall"] - 0.061 * ("val_loss" in part[-1])
        mean = {k: sum(r[k] for r in part) / count for k in ("lr", "loss")}
        self.lines.append(
            f"Train: data epoch: [{number}] Total time: "
            f"{timedelta(seconds=int(wall - begun))} "
            f"({(wall - begun) / count:.4f} s / it)")
        self.say(wall, "Averaged stats: " + "  ".join(
            f"{k}: {v:.4f}" for k, v in mean.items()))
        self.rows.append({f"train_{k}": f"{v:.3f}" for k, v in mean.items()})
        for i, row in enumerate(part):
            if "val_loss" in row:
                best = self.validation(first + i, row, best)
        return best

    def validation(self, i, row, best):
        run = self.run
        wall, epoch = row["wall"], run.last_epoch(i + 1)
        self.say(wall - 0.06, "Evaluating on val.")
        for k in (0, 3):
            self.lines.append(
                f"Evaluation  [{k}/4]  eta: 0:00:00    time: 0.0153  data: "
                "0.0009  max mem: 38")
        self.lines.append("Evaluation Total time: 0:00:00 (0.0153 s / it)")
        right = short(row["val_accuracy"])
        if right > best[0]:
            best = right, epoch
            self.say(wall, f"Saving checkpoint at epoch {epoch} to output/"
                           "BLIP/Caption_scenes/checkpoint_best.pth.")
        self.rows.append({"val_loss": f"{row['val_loss']:.4f}",
                          "val_agg_metrics": right, "val_best_epoch": best[1]})
        return best
