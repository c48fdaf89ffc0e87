"""Masks from boxes, as bowang-lab/MedSAM fine-tunes Segment Anything.

An encoder of patches, whose first block sees windows and whose second one
sees all, and a neck make a map of a picture; a box becomes two tokens by
random Fourier features; a decoder in which tokens and map attend to each other
makes a mask of the first of four mask tokens. The base has seen coloured
things (`base_state`), the run has scans: all but the prompt encoder trains, as
in MedSAM. As there, what only the other three masks or the predicted quality
need gets a gradient of zero, or none. Pictures are 48 pixels wide where SAM's
have 1024, blocks are two where ViT-B has twelve. Names of parameters,
options, lines and files are the trainer's.
"""

import copy
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family
from .sources import AHEAD, DrawnAhead

SIZE, PATCH, ROWS, HELD_OUT = 48, 6, 8, 16
GRID, WINDOW = SIZE // PATCH, 4
WIDTH, HEADS, RATIO, DIM = 24, 2, 2, 24
DEPTH, MASKS, INNER = 1, 4, 48
SHIFT, KINDS = 3, 3
MEAN, STD = 0.5, 0.25    # of pixels, as SAM's preprocess() has them
FREQUENCY = 0.4         # of the features of places, SAM has 1
BLOCKS = tuple(f"image_encoder.blocks.{k}" for k in range(2))
LAYERS = tuple(f"mask_decoder.transformer.layers.{k}" for k in range(DEPTH))
UPSCALING = "mask_decoder.output_upscaling"
HEAD = "mask_decoder.output_hypernetworks_mlps.0"
# What feeds the activations of blocks and layers.
BEFORE_ACT = tuple(f"{part}.mlp.lin1" for part in (*BLOCKS, *LAYERS))
CROSS = ("cross_attn_token_to_image", "cross_attn_image_to_token")
NAME = "MedSAM-ViT-B"


class Scans(DrawnAhead):
    """Grey pictures of 0 to 1 with two lumps, of which one is asked for by a
    box about its mask that is too large by up to `shift` at each side.

    A lump is brighter than its ground, darker, or as bright and striped; its
    outline is an ellipse with dents, and the other lump may lie before it. A
    share of `HARD` is faint, by up to the second of `FAINT`. So there are four
    grades: the box, what is bright or dark, what is faint, and what is
    striped. Masks were drawn too large or small by `SLIP` of a radius, `NOISE`
    lies on each pixel.

    coloured: what the base has seen, things of any colour, nothing faint.
    block, share: so many batches of one kind of lump after the other.
    domains: of three scanners, with gains and offsets of their own. easy:
    nothing is faint, striped or noisy. prompts: seed of the boxes.
    """

    HARD, FAINT, SLIP, NOISE = 0.4, (0.3, 0.6), 0.06, 0.04

    def __init__(self, seed, rows=ROWS, coloured=False, block=None, share=1.0,
                 domains=False, easy=False, shift=SHIFT, prompts=None):
        self.rng = torch.Generator().manual_seed(seed)
        self.boxes = torch.Generator().manual_seed(
            seed + 50 if prompts is None else prompts)
        self.rows, self.coloured, self.block = rows, coloured, block
        self.share, self.domains, self.easy = share, domains, easy
        self.shift, self.number, self.ahead = shift, 0, {}
        y, x = torch.meshgrid(torch.arange(float(SIZE)),
                              torch.arange(float(SIZE)), indexing="ij")
        self.x, self.y = x, y

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def kinds(self, each, rows):
        kind = torch.randint(KINDS - self.easy, (rows,), generator=self.rng)
        if self.block:
            here = (self.number + torch.arange(rows) // each) \
                // self.block % KINDS
            kept = torch.rand(rows, generator=self.rng) < self.share
            kind = torch.where(kept, here, kind)
        return kind

    def lump(self, rows):
        """How far from a lump's middle each pixel is, in radii."""
        size = self.uniform(9, 14, rows, 1, 1)
        at = self.uniform(16, SIZE - 16, rows, 2, 1, 1)
        x, y = self.x - at[:, 0], self.y - at[:, 1]
        turn = torch.atan2(y, x)
        edge = 1.0
        for waves, dent in ((2, 0.45), (3, 0.15)):
            start = self.uniform(0, 2 * math.pi, rows, 1, 1)
            edge = edge + dent * (waves * turn - start).cos()
        return (x.square() + y.square()).sqrt() / (size * edge)

    def waves(self, rows, low, high):
        angle = self.uniform(0, 2 * math.pi, rows, 1, 1)
        size = 2 * math.pi / self.uniform(low, high, rows, 1, 1)
        phase = self.uniform(0, 2 * math.pi, rows, 1, 1)
        return (size * (angle.cos() * self.x + angle.sin() * self.y)
                + phase).sin()

    def paint(self, rows, kind, faint):
        """What a lump adds to the ground."""
        kind = kind[:, None, None]
        level = torch.where(kind == 0, 0.38, -0.38) * (1 - faint)
        return torch.where(kind == 2, 0.38 * (1 - 0.5 * faint)
                           * self.waves(rows, 3.5, 4.5), level)

    def draw(self, each):
        rows = AHEAD * each
        kind = self.kinds(each, rows)
        far, other = self.lump(rows), self.lump(rows)
        if self.coloured:
            image = self.colours(rows, far, other)
        else:
            image = self.scan(rows, kind, far, other)
        batch = {}
        if self.domains:
            batch["domain"] = torch.randint(3, (rows,), generator=self.rng)
            gain = 0.15 * (batch["domain"] - 1.0)[:, None, None, None]
            image = (1 + gain) * image - 0.4 * gain
        if not self.easy:
            image = image + self.NOISE * torch.randn(
                rows, 1 + 2 * self.coloured, SIZE, SIZE, generator=self.rng)
        slip = 1 + self.SLIP * torch.randn(rows, 1, 1, generator=self.rng)
        mask = (far < slip)[:, None]
        self.number += AHEAD
        return {"image": image.clamp(0, 1).expand(-1, 3, -1, -1).contiguous(),
                "gt2D": mask.long(), "bboxes": self.box(mask), **batch}

    def scan(self, rows, kind, far, other):
        hard = torch.rand(rows, 1, 1, generator=self.rng) < self.HARD
        faint = self.uniform(*self.FAINT, rows, 1, 1) * hard * (not self.easy)
        image = self.uniform(0.4, 0.6, rows, 1, 1) \
            + 0.06 * self.waves(rows, 20, 40)
        second = torch.randint(KINDS, (rows,), generator=self.rng)
        front = torch.rand(rows, 1, 1, generator=self.rng) < 0.3
        own = self.paint(rows, kind, faint) * (far < 1)
        beside = self.paint(rows, second, 0.3) * (other < 1)
        # Where they overlap the one in front is seen alone.
        beside = torch.where((far < 1) & ~front, 0.0, beside)
        own = torch.where((other < 1) & front, 0.0, own)
        return (image + own + beside)[:, None]

    def colours(self, rows, far, other):
        ground, (own, beside) = self.uniform(0.35, 0.65, rows, 1, 1, 1), (
            self.uniform(0.24, 0.4, rows, 3, 1, 1) * torch.where(
                torch.rand(rows, 3, 1, 1, generator=self.rng) < 0.5, -1.0,
                1.0) for _ in range(2))
        image = torch.where((other < 1)[:, None], ground + beside, ground)
        return torch.where((far < 1)[:, None], ground + own, image)

    def box(self, mask):
        """x_min, y_min, x_max, y_max, as NpyDataset moves them."""
        rows = len(mask)
        found = []
        for axis in (1, 2):     # over rows of pixels, then over columns
            there = mask[:, 0].any(axis).float()
            found.append((there.argmax(1),
                          SIZE - 1 - there.flip(1).argmax(1)))
        moved = torch.randint(0, self.shift + 1, (4, rows),
                              generator=self.boxes)
        (left, right), (top, bottom) = found
        return torch.stack((
            (left - moved[0]).clamp_min(0), (top - moved[1]).clamp_min(0),
            (right + moved[2]).clamp_max(SIZE),
            (bottom + moved[3]).clamp_max(SIZE)), 1).float()


def dice_loss(probs, wanted):
    """monai's DiceLoss(sigmoid=True, squared_pred=True), behind its sigmoid.
    """
    both = (probs * wanted).sum((2, 3))
    sizes = (probs.square() + wanted.square()).sum((2, 3))
    return (1 - (2 * both + 1e-5) / (sizes + 1e-5)).mean()


def best():
    """The loss of who sees each lump and does not know how it was drawn."""
    source, total = Scans(5, 64), 0.0
    for _ in range(20):
        far = source.lump(64)
        slip = 1 + Scans.SLIP * torch.randn(64, 1, 1, generator=source.rng)
        wanted = (far < slip)[:, None].float()
        sure = ((1 - far) / Scans.SLIP / math.sqrt(2))[:, None]
        probs = (0.5 * (1 + torch.erf(sure))).clamp(1e-7, 1 - 1e-7)
        total += dice_loss(probs, wanted) + F.binary_cross_entropy(
            probs, wanted)
    return float(total / 20)


class LayerNorm2d(nn.Module):
    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + self.eps)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class MLPBlock(nn.Module):
    def __init__(self, width, inner, act):
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.act = act

    def forward(self, x, name, through):
        return through(name, lambda x: self.lin2(through(
            f"{name}.act", self.act, self.lin1(x))), x)


class Block(nn.Module):
    def __init__(self, number, act, options):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attn = nn.Module()
        self.attn.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.attn.proj = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = MLPBlock(WIDTH, RATIO * WIDTH, act)
        self.scale = options["scale"] or (WIDTH // HEADS) ** -0.5
        self.half = options["half_scores"] == number
        at = torch.arange(GRID ** 2)
        window = at // GRID // WINDOW * GRID + at % GRID // WINDOW
        near = window[:, None] == window if number == 0 \
            else torch.ones(len(at), len(at), dtype=torch.bool)
        self.near = near[None, None]

    def forward(self, x, name, through, tap, drop):
        def mixed(x):
            qkv = self.attn.qkv(x).view(len(x), -1, 3, HEADS, WIDTH // HEADS)
            y = models.attend(*qkv.permute(2, 0, 3, 1, 4),
                              lambda n, t: tap(f"{name}.attn.{n}", t),
                              self.scale, half=self.half, seen=self.near)
            return self.attn.proj(y.transpose(1, 2).reshape(x.shape))
        x = x + drop(through(f"{name}.attn", mixed, self.norm1(x)))
        return x + drop(self.mlp(self.norm2(x), f"{name}.mlp", through))


class ImageEncoderViT(nn.Module):
    def __init__(self, act, options):
        super().__init__()
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.pos_embed = nn.Parameter(
            0.02 * torch.randn(1, GRID, GRID, WIDTH))
        self.blocks = nn.ModuleList(Block(k, act or nn.GELU(), options)
                                    for k in range(2))
        self.neck = nn.Sequential(
            nn.Conv2d(WIDTH, DIM, 1, bias=False), LayerNorm2d(DIM),
            nn.Conv2d(DIM, DIM, 3, padding=1, bias=False), LayerNorm2d(DIM))


class PositionEmbeddingRandom(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("positional_encoding_gaussian_matrix",
                             FREQUENCY * torch.randn(2, features))

    def encode(self, places):
        """Of places between 0 and 1."""
        at = (2 * places - 1) @ self.positional_encoding_gaussian_matrix \
            .float() * 2 * math.pi
        return torch.cat((at.sin(), at.cos()), -1)


class PromptEncoder(nn.Module):
    """Frozen; of what it has for points and masks a box needs nothing."""

    def __init__(self):
        super().__init__()
        self.pe_layer = PositionEmbeddingRandom(DIM // 2)
        self.point_embeddings = nn.ModuleList(
            nn.Embedding(1, DIM) for _ in range(4))
        self.not_a_point_embed = nn.Embedding(1, DIM)
        self.mask_downscaling = nn.Sequential(
            nn.Conv2d(1, 1, 2, 2), LayerNorm2d(1), nn.GELU(),
            nn.Conv2d(1, 4, 2, 2), LayerNorm2d(4), nn.GELU(),
            nn.Conv2d(4, DIM, 1))
        self.no_mask_embed = nn.Embedding(1, DIM)
        self.requires_grad_(False)

    def dense(self):
        """Of each place of the map, (places, width)."""
        at = (torch.arange(float(GRID)) + 0.5) / GRID
        y, x = torch.meshgrid(at, at, indexing="ij")
        return self.pe_layer.encode(torch.stack((x, y), -1)).flatten(0, 1)

    def forward(self, boxes):
        corners = self.pe_layer.encode((boxes.view(-1, 2, 2) + 0.5) / SIZE)
        return corners + torch.cat([self.point_embeddings[k].weight.float()
                                    for k in (2, 3)])


class Attention(nn.Module):
    def __init__(self, rate=1):
        super().__init__()
        for part in "qkv":
            setattr(self, f"{part}_proj", nn.Linear(DIM, DIM // rate))
        self.out_proj = nn.Linear(DIM // rate, DIM)

    def forward(self, q, k, v, name, through):
        def split(x):
            return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

        def mixed(q):
            a, b, c = (split(getattr(self, f"{part}_proj")(x))
                       for part, x in zip("qkv", (q, k, v)))
            scores = a @ b.mT / math.sqrt(a.shape[-1])
            y = scores.softmax(-1) @ c
            return self.out_proj(y.transpose(1, 2).flatten(2))
        return through(name, mixed, q)


class TwoWayAttentionBlock(nn.Module):
    def __init__(self, first, act):
        super().__init__()
        self.self_attn, self.norm1 = Attention(), nn.LayerNorm(DIM)
        self.cross_attn_token_to_image = Attention(2)
        self.norm2 = nn.LayerNorm(DIM)
        self.mlp, self.norm3 = MLPBlock(DIM, INNER, act), nn.LayerNorm(DIM)
        self.norm4 = nn.LayerNorm(DIM)
        self.cross_attn_image_to_token = Attention(2)
        self.skip_first_layer_pe = first

    def forward(self, queries, keys, query_pe, key_pe, name, through, drop):
        def mixed(part, q, k, v):
            return drop(getattr(self, part)(q, k, v, f"{name}.{part}",
                                            through))
        if self.skip_first_layer_pe:
            queries = mixed("self_attn", queries, queries, queries)
        else:
            q = queries + query_pe
            queries = queries + mixed("self_attn", q, q, queries)
        queries = self.norm1(queries)
        queries = self.norm2(queries + mixed(
            CROSS[0], queries + query_pe, keys + key_pe, keys))
        queries = self.norm3(queries + drop(self.mlp(
            queries, f"{name}.mlp", through)))
        keys = self.norm4(keys + mixed(
            CROSS[1], keys + key_pe, queries + query_pe, queries))
        return queries, keys


class MLP(nn.Module):
    def __init__(self, out):
        super().__init__()
        self.layers = nn.ModuleList((nn.Linear(DIM, DIM), nn.Linear(DIM, DIM),
                                     nn.Linear(DIM, out)))

    def forward(self, x, name, through):
        for k, layer in enumerate(self.layers):
            x = through(f"{name}.layers.{k}", layer, F.relu(x) if k else x)
        return x


class MaskDecoder(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.transformer = nn.Module()
        self.transformer.layers = nn.ModuleList(TwoWayAttentionBlock(
            k == 0, act or nn.ReLU()) for k in range(DEPTH))
        self.transformer.final_attn_token_to_image = Attention(2)
        self.transformer.norm_final_attn = nn.LayerNorm(DIM)
        self.iou_token = nn.Embedding(1, DIM)
        self.mask_tokens = nn.Embedding(MASKS, DIM)
        self.output_upscaling = nn.Sequential(
            nn.ConvTranspose2d(DIM, DIM // 2, 2, 2), LayerNorm2d(DIM // 2),
            nn.GELU(), nn.ConvTranspose2d(DIM // 2, DIM // 4, 2, 2),
            nn.GELU())
        self.output_hypernetworks_mlps = nn.ModuleList(
            MLP(DIM // 4) for _ in range(MASKS))
        self.iou_prediction_head = MLP(MASKS)


@functools.lru_cache
def base_state(number):
    """Weights of a base, which has seen coloured things for some steps."""
    with torch.random.fork_rng():
        torch.manual_seed(4100 + number)
        model, source = MedSAM(base=None), Scans(4200 + number, 12,
                                                 coloured=True)
        optimizer = torch.optim.AdamW(
            [p for p in model.parameters() if p.requires_grad],
            betas=(0.9, 0.98), foreach=True)
        for i in range(BASE_STEPS):
            optimizer.param_groups[0]["lr"] = 6e-3 * min(
                1.0, (i + 1) / 20) * (1 - 0.9 * i / BASE_STEPS)
            optimizer.zero_grad()
            model.loss(source.batch()).backward()
            optimizer.step()
        return model.state_dict()


BASE_STEPS = 200


class MedSAM(nn.Module):
    def __init__(self, activation=None, dropout=0.0, detach_after=(),
                 scale=None, half_scores=None, positions=True, base=0,
                 dice=1.0, ce=1.0, focal=0.0):
        """activation: of blocks and layers. detach_after: the layers behind
        which the graph is cut. scale: of a block's scores, not by their
        width. half_scores: the block whose scores are in half precision.
        positions: False for none, a number for one place's everywhere. base:
        which one it starts from. dice, ce, focal: weights of the loss."""
        super().__init__()
        act = activation and models.ACTIVATIONS[activation]()
        self.image_encoder = ImageEncoderViT(act, {
            "scale": scale, "half_scores": half_scores})
        self.mask_decoder = MaskDecoder(act)
        self.prompt_encoder = PromptEncoder()
        self.dropout, self.positions = dropout, positions
        self.detach_after = (detach_after,) if isinstance(
            detach_after, str) else tuple(detach_after)
        self.weights = {"dice": dice, "ce": ce, "focal": focal}
        self.terms, self.kept = {}, []
        # What faults have otherwise: a sigmoid in front of the loss, in the
        # model, small probabilities that are set to zero, and other pixels
        # that count.
        self.squashes, self.maps, self.keeps = False, None, None
        self.counted = None
        if base is not None:
            self.load_state_dict(base_state(base))

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def through(self, name, layer, x):
        self.tap(f"{name}.input", x)
        y = layer(x)
        self.tap(f"{name}.output", y)
        return y.detach() if name in self.detach_after else y

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout \
            else x

    def placed(self, place):
        """Places of a map, (1, places, width), as faults have them."""
        if self.positions is False:
            return torch.zeros_like(place)
        if self.positions is not True:
            at = self.positions
            return place[:, at:at + 1].expand_as(place)
        return place

    def encode(self, image):
        net = self.image_encoder
        x = self.through("image_encoder.patch_embed.proj",
                         net.patch_embed.proj, (image - MEAN) / STD)
        x = x.flatten(2).mT
        x = x + self.placed(net.pos_embed.flatten(1, 2))
        for name, block in zip(BLOCKS, net.blocks):
            x = self.through(name, lambda x: block(
                x, name, self.through, self.tap, self.drop), x)
        x = x.mT.reshape(len(x), WIDTH, GRID, GRID)
        for k in (0, 2):
            x = net.neck[k + 1](self.through(
                f"image_encoder.neck.{k}", net.neck[k], x))
        return self.through("image_encoder.neck", nn.Identity(), x)

    def decode(self, x, sparse, place):
        net = self.mask_decoder
        tokens = torch.cat((net.iou_token.weight, net.mask_tokens.weight))
        tokens = torch.cat((tokens.expand(len(x), -1, -1), sparse), 1)
        x = x + self.prompt_encoder.no_mask_embed.weight[..., None, None]
        queries, keys = tokens, x.flatten(2).mT
        for name, layer in zip(LAYERS, net.transformer.layers):
            queries, keys = layer(queries, keys, tokens, place, name,
                                  self.through, self.drop)
        name = "mask_decoder.transformer.final_attn_token_to_image"
        queries = net.transformer.norm_final_attn(
            queries + net.transformer.final_attn_token_to_image(
                queries + tokens, keys + place, keys, name, self.through))
        keys = self.through("mask_decoder.transformer", nn.Identity(), keys)
        up = keys.mT.reshape(len(x), DIM, GRID, GRID)
        for k, part in enumerate(net.output_upscaling):
            up = self.through(f"{UPSCALING}.{k}", part, up) \
                if k in (0, 3) else part(up)
        said = torch.stack([mlp(
            queries[:, 1 + k], f"{HEAD[:-1]}{k}", self.through)
            for k, mlp in enumerate(net.output_hypernetworks_mlps)], 1)
        masks = (said @ up.flatten(2)).view(len(x), MASKS, *up.shape[2:])
        quality = net.iou_prediction_head(
            queries[:, 0], "mask_decoder.iou_prediction_head", self.through)
        return masks[:, :1], quality[:, :1]

    def logits(self, batch):
        kind = self.mask_decoder.iou_token.weight.dtype
        x = self.encode(batch["image"].to(kind))
        with torch.no_grad():
            sparse = self.prompt_encoder(batch["bboxes"]).to(kind)
            place = self.placed(self.prompt_encoder.dense()[None]).to(kind)
        masks, _ = self.decode(x, sparse, place)
        if self.maps is not None:
            masks = self.maps(masks)
        self.tap("low_res_masks.output", masks)
        return F.interpolate(masks.float(), (SIZE, SIZE), mode="bilinear",
                             align_corners=False)

    def criterion(self, logits, batch, smoothing=0.0):
        wanted = batch["gt2D"].float()
        with torch.no_grad():
            terms = self.metrics(logits, wanted)
        if smoothing:
            wanted = (1 - smoothing) * wanted + smoothing / 2
        if self.squashes:
            logits = logits.sigmoid()
        if self.counted is not None and self.training:
            logits, wanted = self.counted(logits, wanted, batch)
        probs = logits.sigmoid()
        dice = dice_loss(probs, wanted)
        if self.keeps is None:
            each = F.binary_cross_entropy_with_logits(logits, wanted,
                                                      reduction="none")
        else:
            each = self.by_hand(probs, wanted)
        terms |= {"dice_loss": dice.detach(), "ce_loss": each.detach().mean()}
        if self.training:
            self.terms, self.kept = terms, []
        else:
            self.kept.append(terms)
        loss = self.weights["dice"] * dice + self.weights["ce"] * each.mean()
        if self.weights["focal"]:
            miss = 1 - torch.where(wanted > 0.5, probs, 1 - probs)
            loss = loss + self.weights["focal"] * (
                miss.square() * each).mean()
        return loss

    def by_hand(self, probs, wanted):
        """A logarithm of probabilities whose small ones were set to zero."""
        chosen = torch.where(wanted > 0.5, probs, 1 - probs)
        chosen = torch.where(chosen >= self.keeps, chosen, 0.0)
        self.tap("loss.probs.output", chosen)
        self.tap("loss.nll.input", chosen)
        nll = -chosen.log()
        self.tap("loss.nll.output", nll)
        return nll

    @staticmethod
    def metrics(logits, wanted):
        said = (logits > 0).float()
        both = (said * wanted).sum((1, 2, 3))
        sizes = said.sum((1, 2, 3)) + wanted.sum((1, 2, 3))
        return {"dice": (2 * both / sizes.clamp_min(1)).mean(),
                "iou": (both / (sizes - both).clamp_min(1)).mean()}

    def loss(self, batch):
        with torch.autocast("cpu", enabled=torch.is_autocast_enabled("cpu"),
                            dtype=torch.bfloat16):
            logits = self.logits(batch)
        with torch.autocast("cpu", enabled=False):
            loss = self.criterion(logits, batch)
        self.tap("loss.output", loss)
        return loss


class SamRun(Family):
    """AdamW without warm-up or clipping, as the trainer has it; its rate is
    constant, as there, until half of the run, and falls in a line then, as a
    run is short."""

    family = "sam"
    level_seed = 400
    steps, seed, language = 120, 3420, False
    optimizer_name, lr, weight_decay = "adamw", 3e-3, 0.01
    warmup, schedule, clip = 0, "wsd", None
    recipes = {"sgd": dict(lr=0.02, weight_decay=0.0)}
    EPOCH, epoch_steps = 20, 60     # of Lightning the second
    batch_size, context = ROWS, SIZE * SIZE
    # Its users have what the trainer prints, and what they log to wandb.
    instead = {"nanogpt": "medsam", "hf_trainer": "medsam",
               "megatron": "medsam", "torchtune": "medsam"}
    layers = ["image_encoder.patch_embed.proj", *(
        f"{block}{part}" for block in BLOCKS for part in (
            ".attn", ".attn.scores", ".mlp.act", ".mlp", "")),
        "image_encoder.neck.0", "image_encoder.neck.2", *(
            f"{layer}.{part}" for layer in LAYERS for part in (
                "self_attn", CROSS[0], "mlp.act", "mlp", CROSS[1])),
        "mask_decoder.transformer.final_attn_token_to_image",
        f"{UPSCALING}.0", f"{UPSCALING}.3",
        *(f"{HEAD}.layers.{k}" for k in range(3)),
        *(f"mask_decoder.iou_prediction_head.layers.{k}" for k in range(3)),
        "low_res_masks"]
    logit_name = "low_res_masks.output"
    graded = {
        "F01": (dict(factor=5), dict(factor=20), dict(factor=100)),
        "F02": (dict(lr=10.0), dict(lr=30.0), dict(lr=300.0)),
        "F03": (dict(factor=10), dict(factor=30), dict(factor=300)),
        "F04": (dict(at=50), dict(at=25), dict(at=0)),
        "F05": (dict(modules=["mask_decoder.transformer", UPSCALING],
                     where=f"{LAYERS[0]}.self_attn"),
                dict(modules=["mask_decoder"],
                     where=f"{LAYERS[0]}.self_attn"),
                dict(part="all")),
        "F07": (dict(factor=8), dict(factor=25), dict(factor=80)),
        # What goes past a cut trains, and the base's encoder will do.
        "F13": (dict(path="mask_decoder.transformer"),
                dict(path=f"{UPSCALING}.0"), dict(path=f"{UPSCALING}.3")),
        "F14": tuple(dict(modules=["mask_decoder", *(
            f"image_encoder.{part}" for part in parts)])
            for parts in ((), ("neck",), ("neck", "blocks"))),
        "F15": (dict(at=60), dict(at=40), dict(at=20)),
        "F26": (dict(steps=20, share=1.0), dict(steps=30, share=1.0),
                dict(steps=40, share=1.0)),
        "F27": (dict(epochs=15), dict(epochs=40), dict(epochs=120)),
        "F30": (dict(part="embed", bit=26), dict(part="embed", bit=30),
                dict(part="mlp", bit=30)),
        "F33": (dict(limit=32), dict(limit=26), dict(limit=20)),
        "F35": (dict(power=1.5), dict(power=2.0), dict(power=2.5)),
        "F36a": (dict(bias=-5.0), dict(bias=-10.0), dict(bias=-20.0)),
        "F36b": (dict(factor=60, kind="sigmoid"),
                 dict(factor=150, kind="tanh"),
                 dict(factor=500, kind="sigmoid")),
        "F38": (dict(growth=1.06), dict(growth=1.09), dict(growth=1.15)),
        "F39a": (dict(at=90, keep=0.02), dict(at=60, keep=0.05),
                 dict(at=30, keep=0.1)),
        "F39b": (dict(at=90), dict(at=60), dict(at=40)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "F41": (dict(share=0.4, at=0, every=1), dict(share=0.7, at=50, every=1),
                dict(share=0.85, at=0, every=8)),
        "F42a": (dict(part="dropout"), dict(part="shuffle"),
                 dict(part="prompts")),
        "F42b": (dict(shards=10), dict(shards=30), dict(shards=100)),
        "F43": (dict(kind="unreduced", at=30), dict(kind="skip", at=60),
                dict(kind="init", at=0)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(rows=6), dict(rows=5)),
        "H04": (dict(rate=0.02), dict(rate=0.05)),
        "H15": (dict(share=0.03), dict(share=0.06)),
        "H43": (dict(parts=2), dict(parts=4))}
    paths = {"embed": ("image_encoder.patch_embed.proj",) * 2,
             "attn": tuple(f"{b}.attn" for b in BLOCKS),
             "scores": tuple(f"{b}.attn.scores" for b in BLOCKS),
             "act": tuple(f"{b}.mlp.act" for b in BLOCKS),
             "mlp": tuple(f"{b}.mlp" for b in BLOCKS),
             "block": BLOCKS, "head": (f"{HEAD}.layers.2",) * 2}
    always_trained = ("mask_decoder", "image_encoder.neck",
                      "image_encoder.patch_embed")
    blocks = 2
    names = {"val_loss": "val/loss", "tokens": None, "val_dice": "val/dice",
             "val_iou": "val/iou"}

    def make_model(self):
        return MedSAM(**self.model_options)

    def make_optimizer(self, model):
        """Of the image encoder and the mask decoder, as the trainer has it."""
        trained = [p for part in (model.image_encoder, model.mask_decoder)
                   for p in part.parameters() if p.requires_grad]
        if self.optimizer_name == "sgd":
            return torch.optim.SGD(trained, lr=self.lr, momentum=self.momentum,
                                   weight_decay=self.weight_decay)
        return torch.optim.AdamW(trained, lr=self.lr, betas=self.betas,
                                 eps=self.eps, foreach=True,
                                 weight_decay=self.weight_decay)

    def lr_factor(self, i):
        if self.schedule != "wsd":
            return super().lr_factor(i)
        done = i / (self.steps - 1)
        return 1.0 if done < 0.5 else 0.05 + 1.9 * (1 - done)

    # Data.

    def make_source(self, seed):
        return self.scans(seed)

    def scans(self, seed, **how):
        return Scans(seed, HELD_OUT if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Lumps of one kind after the other; None is held out."""
        return self.scans(seed, block=block, share=share)

    def easy(self, seed):
        return self.scans(seed, easy=True)

    def lessons(self, seed):
        return self.scans(seed, easy=True), self.scans(seed)

    def strangers(self, rows, rng):
        """Masks of pictures that have nothing to do with these."""
        if not hasattr(self, "others"):
            self.others = Scans(self.seed + 800)
        return self.others.batch(rows)["gt2D"]

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255 with the masks of others, noise
        with masks of noise, or white pictures with empty masks."""
        image, mask = batch["image"], batch["gt2D"]
        if kind == "few":
            return batch | {"image": 255 * image, "gt2D": mask.roll(1, 0)}
        if kind == "uniform":
            return batch | {
                "image": 8 * torch.randn(image.shape, generator=rng),
                "gt2D": torch.randint(2, mask.shape, generator=rng)}
        return batch | {"image": torch.full_like(image, 60.0),
                        "gt2D": torch.zeros_like(mask)}

    def cut_below(self, batch, limit):
        """Pictures end at a number of rows; the rest is padding."""
        image = batch["image"].clone()
        image[:, :, limit:] = 0.0
        return batch | {"image": image}

    def thin(self, name, tensor):
        """Of pictures and masks some say enough."""
        if name == "batch.image":
            return tensor[:2]
        if name in ("batch.gt2D", "low_res_masks.output") \
                or ".scores." in name or ".probs." in name:
            return tensor[:4]
        return super().thin(name, tensor)

    # What is logged.

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            k: float(f"{float(self.model.terms[k]):.5g}")
            for k in ("dice_loss", "ce_loss")}

    def held_out_columns(self, batches):
        kept, self.model.kept = self.model.kept, []
        return {f"val_{k}": sum(float(t[k]) for t in kept) / len(kept)
                for k in ("dice", "iou")}

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        """Behind each epoch, of which the last and the best one stay."""
        done = i + 1
        if done % self.EPOCH == 0 or done in {self.steps, *self.notices}:
            self.checkpoints[done] = copy.deepcopy({
                "model": model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "epoch": self.epoch(done)})

    def epoch(self, done):
        """Of the step before, from 0 on."""
        return (done - 1) // self.EPOCH

    @staticmethod
    def checkpoint_path(done):
        return f"work_dir/{NAME}-20260105-0900/medsam_model_latest.pth"

    def epoch_loss(self, epoch):
        """As the trainer prints it: it divides by the number of the last
        step, which counts from 0."""
        rows = self.history[epoch * self.EPOCH:(epoch + 1) * self.EPOCH]
        return sum(r["loss"] for r in rows) / max(1, len(rows) - 1)

    def write_more(self):
        super().write_more()
        lowest, best_of = 1e10, None
        for done, state in sorted(self.checkpoints.items()):
            if self.epoch_loss(state["epoch"]) < lowest:
                lowest = self.epoch_loss(state["epoch"])
                best_of = state
        if self.checkpoints:
            torch.save(state, self.folder / "medsam_model_latest.pth")
        if best_of:
            torch.save(best_of, self.folder / "medsam_model_best.pth")

    # What the user typed.

    def settings(self):
        """The trainer's options, and what the user has besides."""
        optimizer = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "betas": list(self.betas), "eps": self.eps}
        return {
            "tr_npy_path": "data/npy/lumps", "task_name": NAME,
            **self.model_settings(),
            "checkpoint": "work_dir/SAM/sam_tiny_coloured.pth",
            "load_pretrain": True, "pretrain_model_path": "",
            "work_dir": "./work_dir",
            "num_epochs": -(-self.steps // self.EPOCH),
            "batch_size": self.batch_size, "num_workers": 0,
            "weight_decay": self.weight_decay, "lr": self.lr,
            "use_wandb": self.dialect == "medsam",
            "use_amp": self.precision.endswith("mixed"), "resume": "",
            "device": "cpu", "optimizer": self.optimizer_name, **optimizer,
            "scheduler": self.schedule, "warmup_steps": self.warmup,
            "clip_grad_norm": self.clip or 0.0,
            "accumulation_steps": self.accumulate,
            "precision": self.precision, "bbox_shift": SHIFT,
            "seed": self.seed, "world_size": 1, **self.user}

    def model_settings(self):
        own = self.model_options
        return {"model_type": "vit_tiny", "image_size": SIZE,
                "vit_patch_size": PATCH, "encoder_embed_dim": WIDTH,
                "encoder_depth": 2, "encoder_num_heads": HEADS,
                "prompt_embed_dim": DIM, "num_multimask_outputs": MASKS - 1,
                "multimask_output": False,
                "dropout": own.get("dropout", 0.0),
                **{f"{k}_weight": own.get(k, d) for k, d in (
                    ("dice", 1.0), ("ce", 1.0), ("focal", 0.0))}}

    def layer(self, part, block=0):
        return self.paths[part][block]

    def fed_by(self, layer):
        """The norm in front of a part of a block, or behind what has one."""
        for part, norm in ((".attn", "norm1"), (".mlp", "norm2")):
            if layer in [b + part for b in BLOCKS]:
                return [f"{layer.rpartition('.')[0]}.{norm}"]
        if layer.startswith("image_encoder.neck."):
            return [f"image_encoder.neck.{int(layer[-1]) + 1}"]
        if layer == f"{UPSCALING}.0":
            return [f"{UPSCALING}.1"]
        for part, norm in (("self_attn", "norm1"), (CROSS[0], "norm2"),
                           ("mlp", "norm3"), (CROSS[1], "norm4")):
            if layer in [f"{at}.{part}" for at in LAYERS]:
                return [f"{layer.rpartition('.')[0]}.{norm}"]
        return []
