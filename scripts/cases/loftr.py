"""The same point in two pictures, as zju3dv/LoFTR's train.py learns it.

A residual network with a pyramid sees both pictures; places of the coarse map
get sines and cosines of where they are and look at their own picture and at
the other one by turns, with linear attention. What is alike goes through a
softmax along rows and one along columns; around each match a window of the
finer map says where in it the point is. LoFTR's maps are 1/8 and 1/2 of a
picture and its windows 5 wide; here there are two stages of one block, maps of
1/4 and 1/2, and windows of 3. Poses are homographies, whose turn and shift are
compared as LoFTR does with those of cameras. Names of parameters, options,
scalars, lines and files are the trainer's.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import EpochFamily
from .recorder import short
from .sources import AHEAD, DrawnAhead

SIZE, ROWS, HELD_OUT = 24, 12, 12
COARSE, FINE, WINDOW = 4, 2, 3      # pixels of a place, and places a window
GRID = SIZE // COARSE
DIMS, HEADS_C, HEADS_F = (12, 24), 4, 2
THR, TEMPERATURE, PERCENT, PAD_MIN = 0.2, 0.1, 0.15, 16
ALPHA, GAMMA, CORRECT, INF = 0.25, 2.0, 1.0, 1e9
EPI_THR, FOCAL = 5e-4, 2.0 * SIZE  # of a match that counts as right
CANONICAL_BS, WARMUP_RATIO, EXP = 16, 0.1, "planes-ds"
SCENES, SECTORS = 3, 3
FOLDER = f"logs/tb_logs/{EXP}/version_0"


class Planes(DrawnAhead):
    """Pairs of pictures of 0 to 1 of a painted plane, the second from
    elsewhere and otherwise exposed.

    A plane is of one of three scenes: waves; a grid whose like comes again
    every 6 to 9 pixels, with faint waves; spots. The camera goes up to `FAR`
    pixels, turns, nears and tilts. So there are grades: what has a look of its
    own, the same in another light, what looks alike and is told by where it
    is, and parts of a pixel. In half of the pairs a plate is in front in the
    second picture (`covisible0` is 0 behind it), a share is 16 rows high and
    padded (`mask0`, `mask1`). Each pixel has an error of `ERROR`, shifts of
    `H_0to1` one of `LABEL` pixels each way, below which no match can come.

    block, share: so many batches of one scene and one sector of shifts, one
    after the other. plates, light: whether there are any. domains: of three
    cameras, with gains of their own, or one to each of the "scenes". far: how
    far the camera goes. padded, least: the share of padded pairs, and their
    rows.
    """

    FAR, ERROR, LABEL = 4.5, 0.03, 0.2

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, plates=0.5,
                 light=True, domains=False, far=FAR, tilts=True,
                 padded=0.3, least=16):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share = rows, block, share
        self.plates, self.light, self.domains = plates, light, domains
        self.far, self.tilts, self.number, self.ahead = far, tilts, 0, {}
        self.padded, self.least = padded, least
        self.at = grid(SIZE)                    # (2, y, x)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def painted(self, scene):
        """A function of places that says how bright a plane is."""
        rows = len(scene)
        angle = self.uniform(0, 2 * math.pi, rows, 6)
        length = self.uniform(5, 15, rows, 6)
        size = self.normal(rows, 6) * 0.09
        raster = scene == 1
        angle[raster, 1] = angle[raster, 0] + math.pi / 2
        length[raster, 1] = length[raster, 0] = self.uniform(6, 9, rows)[
            raster]
        size[raster] *= 0.35
        size[raster, :2] = 0.17
        size[scene == 2] *= 0.3
        wave = 2 * math.pi / length
        along, across = (wave * f(angle) for f in (torch.cos, torch.sin))
        phase = self.uniform(0, 2 * math.pi, rows, 6)
        spot = self.uniform(-6, SIZE + 6, rows, 2, 12)
        wide = self.uniform(1.2, 3.0, rows, 12)
        weight = 0.3 * self.normal(rows, 12) * (scene == 2)[:, None]
        base = self.uniform(0.35, 0.65, rows, 1)

        def paint(place):       # (rows, 2, y, x)
            x, y = place.flatten(2).unbind(1)
            out = base.expand(-1, x.shape[1]).clone()
            for k in range(6):
                out += size[:, k, None] * (
                    along[:, k, None] * x + across[:, k, None] * y
                    + phase[:, k, None]).sin()
            some = (scene == 2).nonzero()[:, 0]
            far = (place.flatten(2)[some, :, :, None]
                   - spot[some, :, None]).square().sum(1)
            out[some] += (weight[some, None] * (
                -far / (2 * wide[some, None] ** 2)).exp()).sum(-1)
            return out.view(rows, 1, *place.shape[2:])
        return paint

    def homographies(self, each, rows, here, kept):
        """Of places of the first picture to those of the second."""
        size = self.far * self.uniform(0, 1, rows).sqrt()
        turn = self.uniform(0, 1, rows)
        if self.block:
            turn = torch.where(kept, (here + turn) / SECTORS, turn)
        way = 2 * math.pi * turn
        shift = torch.stack((size * way.cos(), size * way.sin()), 1)
        angle = self.tilts * self.uniform(-0.22, 0.22, rows)
        grow = (self.tilts * self.uniform(-0.12, 0.12, rows)).exp()
        out = torch.eye(3).repeat(rows, 1, 1)
        out[:, 0, 0] = out[:, 1, 1] = grow * angle.cos()
        out[:, 0, 1], out[:, 1, 0] = -grow * angle.sin(), grow * angle.sin()
        out[:, 2, :2] = self.tilts * self.uniform(-0.003, 0.003, rows, 2)
        middle = torch.eye(3)
        middle[:2, 2] = (SIZE - 1) / 2
        out[:, :2, 2] = shift
        return middle @ out @ torch.linalg.inv(middle)

    def draw(self, each):
        rows = AHEAD * each
        scene = torch.randint(SCENES, (rows,), generator=self.rng)
        kept, here = torch.zeros(rows, dtype=torch.bool), scene
        if self.block:
            here = (self.number + torch.arange(rows) // each) \
                // self.block % SCENES
            kept = torch.rand(rows, generator=self.rng) < self.share
            scene = torch.where(kept, here, scene)
        plane = self.painted(scene)
        pose = self.homographies(each, rows, here, kept)
        at = self.at.expand(rows, -1, -1, -1)
        first = plane(at)
        second = plane(warped(torch.linalg.inv(pose), at))
        # A plate in front, with a look of its own.
        other = self.painted(torch.zeros(rows, dtype=torch.int64))(at)
        place = self.uniform(5, SIZE - 5, rows, 2)[:, :, None, None]
        half = self.uniform(2.5, 4.5, rows, 2)[:, :, None, None]
        plate = (torch.rand(rows, generator=self.rng) < self.plates)[
            :, None, None]

        def covered(at):
            return ((at - place).abs() < half).all(1) & plate
        second = torch.where(covered(at)[:, None], other, second)
        coarse = grid(GRID) * COARSE
        seen = ~covered(warped(pose, coarse.expand(rows, -1, -1, -1)))
        if self.light:
            gain = self.uniform(0.6, 1.3, rows, 1, 1, 1)
            second = gain * second + self.uniform(-0.15, 0.15, rows, 1, 1, 1)
        pictures, camera = (first, second), None
        if self.domains:
            own = self.domains == "scenes"
            camera = scene if own else torch.randint(
                3, (rows,), generator=self.rng)
            gain = (0.45 if own else 0.2) * (
                camera[:, None, None, None] - 1.0)
            pictures = [(1 + gain) * t + 0.2 * gain for t in pictures]
        pictures = [(t + self.ERROR * self.normal(*t.shape)).clamp(0, 1)
                    for t in pictures]
        short_ = torch.rand(rows, generator=self.rng) < self.padded
        high = torch.where(short_, self.least, SIZE)[:, None]
        there = torch.arange(SIZE) < high               # (rows, y)
        mask = (torch.arange(GRID) * COARSE < high)[:, :, None].expand(
            -1, -1, GRID).float()
        pictures = [t * there[:, None, :, None] for t in pictures]
        told = pose.clone()
        told[:, :2, 2] += self.LABEL * self.normal(rows, 2)
        self.number += AHEAD
        batch = {"image0": pictures[0].contiguous(),
                 "image1": pictures[1].contiguous(), "H_0to1": told,
                 "covisible0": seen.float().contiguous(),
                 "mask0": mask.clone(), "mask1": mask.clone()}
        return batch | ({"domain": camera} if self.domains else {})


def grid(size):
    y, x = torch.meshgrid(torch.arange(float(size)),
                          torch.arange(float(size)), indexing="ij")
    return torch.stack((x, y))


def warped(matrix, place):
    """Places (rows, 2, ...) behind homographies."""
    flat = place.flatten(2)
    there = matrix[:, :, :2] @ flat + matrix[:, :, 2:]
    return (there[:, :2] / there[:, 2:].clamp_min(0.1)).view(place.shape)


def supervision(batch):
    """compute_supervision_coarse(): where each place goes in pixels, and the
    matrix of places that are each other's nearest."""
    pose, mask = batch["H_0to1"].float(), batch["mask0"]
    rows, cells = len(pose), GRID * GRID
    at = (COARSE * grid(GRID)).flatten(1).expand(rows, -1, -1)
    there = warped(pose, at)
    back = warped(torch.linalg.inv(pose), at)

    def nearest(place):
        x, y = (place / COARSE).round().long().unbind(1)
        out = (x < 0) | (x >= GRID) | (y < 0) | (y >= GRID)
        return torch.where(out, 0, x + y * GRID), out
    (one, lost), (two, _) = nearest(there), nearest(back)
    right = (two.gather(1, one) == torch.arange(cells)) & ~lost
    right &= batch["covisible0"].flatten(1) > 0
    return there, one, right


class Block(nn.Module):
    """BasicBlock."""

    def __init__(self, wide, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(wide, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.downsample = None if stride == 1 else nn.Sequential(
            nn.Conv2d(wide, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x, name, through, act):
        y = self.bn1(through(f"{name}.conv1", self.conv1, x))
        y = through(f"{name}.relu", act, y)
        y = self.bn2(through(f"{name}.conv2", self.conv2, y))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class ResNetFPN_4_2(nn.Module):
    def __init__(self):
        super().__init__()
        first, second = DIMS
        self.conv1 = nn.Conv2d(1, first, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(first)
        self.layer1 = nn.Sequential(Block(first, first, 1))
        self.layer2 = nn.Sequential(Block(first, second, 2))
        self.layer2_outconv = nn.Conv2d(second, second, 1, bias=False)
        self.layer1_outconv = nn.Conv2d(first, second, 1, bias=False)
        self.layer1_outconv2 = nn.Sequential(
            nn.Conv2d(second, second, 3, 1, 1, bias=False),
            nn.BatchNorm2d(second), nn.LeakyReLU(),
            nn.Conv2d(second, first, 3, 1, 1, bias=False))
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out",
                                        nonlinearity="relu")

    def forward(self, x, name, through, act):
        def stage(k, x):
            at = f"{name}.layer{k}"
            return through(at, lambda x: getattr(self, f"layer{k}")[0](
                x, f"{at}.0", through, act), x)
        x = self.bn1(through(f"{name}.conv1", self.conv1, x))
        one = stage(1, through(f"{name}.relu", act, x))
        two = stage(2, one)
        coarse = through(f"{name}.layer2_outconv", self.layer2_outconv, two)
        up = F.interpolate(coarse, scale_factor=2.0, mode="bilinear",
                           align_corners=True)
        fine = up + through(f"{name}.layer1_outconv", self.layer1_outconv,
                            one)
        for k in (0, 3):
            fine = through(f"{name}.layer1_outconv2.{k}",
                           self.layer1_outconv2[k], fine)
            if not k:
                fine = self.layer1_outconv2[2](self.layer1_outconv2[1](fine))
        return coarse, fine


class PositionEncodingSine(nn.Module):
    def __init__(self, wide):
        super().__init__()
        x, y = grid(GRID) + 1
        pace = torch.exp(torch.arange(0, wide // 2, 2).float()
                         * (-math.log(10000.0) / (wide // 2)))[:, None, None]
        pe = torch.zeros(wide, GRID, GRID)
        pe[0::4], pe[1::4] = (x * pace).sin(), (x * pace).cos()
        pe[2::4], pe[3::4] = (y * pace).sin(), (y * pace).cos()
        self.register_buffer("pe", pe[None])

    def forward(self, x):
        return x + self.pe.to(x.dtype)


class Layer(nn.Module):
    """LoFTREncoderLayer."""

    def __init__(self, wide, heads):
        super().__init__()
        self.heads = heads
        for part in ("q_proj", "k_proj", "v_proj", "merge"):
            setattr(self, part, nn.Linear(wide, wide, bias=False))
        self.mlp = nn.Sequential(
            nn.Linear(2 * wide, 2 * wide, bias=False), nn.ReLU(),
            nn.Linear(2 * wide, wide, bias=False))
        self.norm1, self.norm2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    @staticmethod
    def linear(q, k, v, mask, other):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        if mask is not None:
            q = q * mask[:, :, None, None]
            k, v = (t * other[:, :, None, None] for t in (k, v))
        long = v.shape[1]
        q, k, v = (t.transpose(1, 2) for t in (q, k, v / long))
        z = 1 / (q @ k.sum(2)[..., None] + 1e-6)
        return (q @ (k.mT @ v) * z * long).transpose(1, 2)

    @staticmethod
    def full(q, k, v, mask, other):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = q @ k.mT
        if mask is not None:
            scores = scores.masked_fill((other < 0.5)[:, None, None], -INF)
        return ((scores / q.shape[3] ** 0.5).softmax(3) @ v).transpose(1, 2)

    def forward(self, x, source, mask, other, name, through, kind, drop):
        rows, _, wide = x.shape

        def part(layer, x):
            return through(f"{name}.{layer}", self.get_submodule(layer), x)
        q, k, v = (part(f"{p}_proj", t).view(rows, -1, self.heads,
                                             wide // self.heads)
                   for p, t in zip("qkv", (x, source, source)))
        y = getattr(self, kind)(q, k, v, mask, other).reshape(x.shape)
        y = part("norm1", part("merge", y))
        for k in range(3):
            y = part(f"mlp.{k}", torch.cat((x, y), 2) if k == 0 else y)
        return x + drop(part("norm2", y))


class LocalFeatureTransformer(nn.Module):
    """Self and cross by turns. Both pictures go through a layer at once where
    they do not see each other's latest."""

    def __init__(self, wide, heads):
        super().__init__()
        self.layers = nn.ModuleList([Layer(wide, heads) for _ in range(2)])

    def forward(self, one, two, mask0, mask1, name, through, kind, drop):
        def quiet(name, layer, x):
            return layer(x)
        own, cross = self.layers
        with_mask = mask0 is not None
        both = torch.cat((mask0, mask1)) if with_mask else None
        x = torch.cat((one, two))
        one, two = own(x, x, both, both, f"{name}.layers.0", through, kind,
                       drop).chunk(2)
        one = cross(one, two, mask0, mask1, f"{name}.layers.1", through, kind,
                    drop)
        two = cross(two, one, mask1, mask0, f"{name}.layers.1", quiet, kind,
                    drop)
        return one, two


class CoarseMatching(nn.Module):
    """A bin of what has no match is a weight where asked."""

    def __init__(self, sinkhorn):
        super().__init__()
        if sinkhorn:
            self.bin_score = nn.Parameter(torch.tensor(1.0))


class FinePreprocess(nn.Module):
    def __init__(self):
        super().__init__()
        fine, coarse = DIMS
        self.down_proj = nn.Linear(coarse, fine)
        self.merge_feat = nn.Linear(2 * fine, fine)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.kaiming_normal_(p, mode="fan_out",
                                        nonlinearity="relu")
        with torch.no_grad():   # else windows are sure of a place at once
            self.merge_feat.weight.mul_(0.3)


class LoFTR(nn.Module):
    def __init__(self, sinkhorn):
        super().__init__()
        fine, coarse = DIMS
        self.backbone = ResNetFPN_4_2()
        self.pos_encoding = PositionEncodingSine(coarse)
        self.loftr_coarse = LocalFeatureTransformer(coarse, HEADS_C)
        self.coarse_matching = CoarseMatching(sinkhorn)
        self.fine_preprocess = FinePreprocess()
        self.loftr_fine = LocalFeatureTransformer(fine, HEADS_F)


def log_optimal_transport(scores, bin_score, iters):
    """SuperGlue's, with a row and a column for what has no match."""
    rows, m, n = scores.shape
    cell = bin_score.expand(rows, 1, 1)
    z = torch.cat((torch.cat((scores, cell.expand(-1, m, 1)), 2),
                   cell.expand(-1, 1, n + 1)), 1)
    norm = -math.log(m + n)
    mu, nu = (torch.full((rows, k + 1), norm) for k in (m, n))
    mu[:, -1], nu[:, -1] = math.log(n) + norm, math.log(m) + norm
    u, v = torch.zeros_like(mu), torch.zeros_like(nu)
    for _ in range(iters):
        u = mu - torch.logsumexp(z + v[:, None], 2)
        v = nu - torch.logsumexp(z + u[:, :, None], 1)
    return z + u[:, :, None] + v[:, None] - norm


class PL_LoFTR(nn.Module):
    def __init__(self, activation="relu", dropout=0.0, detach_after=(),
                 half_at=None, temperature=TEMPERATURE,
                 sinkhorn=0, sparse=False, attention=("linear", "linear"),
                 coarse_type="focal", fine_type="l2_with_std", neg_weight=1.0,
                 beside=0):
        """activation: of the backbone. detach_after: the layers behind which
        the graph is cut. half_at: the convolution whose output is in half
        precision. sinkhorn: iterations of a transport in place of the dual
        softmax. sparse: of it, no matrix but its bins are negatives.
        attention: of coarse and fine maps. beside: fine places by which the
        second picture's windows are off."""
        super().__init__()
        self.matcher = LoFTR(sinkhorn)
        self.act, self.dropout = models.ACTIVATIONS[activation](), dropout
        self.half_at, self.detach_after = half_at, (
            detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)
        self.temperature = temperature
        self.sinkhorn, self.sparse, self.attention = sinkhorn, sparse, \
            attention
        self.coarse_type, self.fine_type = coarse_type, fine_type
        self.neg_weight, self.beside = neg_weight, beside
        self.terms, self.kept, self.alarm = {}, [], False
        self.guards, self.counts_all, self.squashes = None, False, False
        self.keeps, self.similar = None, None
        # What training has instead: a power of spreads that is not detached.
        self.gamed = None

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def through(self, name, layer, x, rows=None):
        self.tap(f"{name}.input", x[:rows])
        y = layer(x)
        if name == self.half_at:
            y = y.half()
        self.tap(f"{name}.output", y[:rows])
        y = y.to(x.dtype)
        return y.detach() if name in self.detach_after else y

    def cut(self, name, *parts):
        return tuple(t.detach() for t in parts) \
            if name in self.detach_after else parts

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout \
            else x

    def logits(self, batch):
        """Scores of places, and maps for what follows."""
        part = self.matcher
        kind = part.backbone.conv1.weight.dtype
        both = [batch[k].to(kind) for k in ("image0", "image1")]
        rows = len(both[0])

        def first(name, layer, x):      # what is tapped is the first picture's
            return self.through(name, layer, x, rows)
        coarse, fine = part.backbone(torch.cat(both), "matcher.backbone",
                                     first, self.act)
        coarse = part.pos_encoding(coarse).flatten(2).mT
        masks = [batch[k].flatten(1).to(kind) for k in ("mask0", "mask1")]
        if self.counts_all:
            masks = [None, None]
        one, two = part.loftr_coarse(
            *coarse.split(rows), *masks, "matcher.loftr_coarse", first,
            self.attention[0], self.drop)
        one, two = self.cut("matcher.loftr_coarse", one, two)
        with torch.autocast("cpu", enabled=False):
            a, b = (t.float() / t.shape[-1] ** 0.5 for t in (one, two))
            scores = a @ b.mT
            if not self.sinkhorn:
                scores = scores / self.temperature
            if self.similar:
                scores = self.similar(scores)
            self.tap("matcher.coarse_matching.sim_matrix.output", scores)
            if masks[0] is not None:
                seen = masks[0][:, :, None] * masks[1][:, None]
                scores = scores.masked_fill(seen < 0.5, -INF)
        return scores, one, two, fine

    def confidence(self, scores):
        """The matrix of confidences, and that with bins, if there are any."""
        if self.sinkhorn:
            whole = log_optimal_transport(
                scores.clamp_min(-1e4), self.matcher.coarse_matching.bin_score,
                self.sinkhorn).exp()
            return whole[:, :-1, :-1], whole
        if self.squashes:
            scores = scores.softmax(2)
        rows, columns = scores.softmax(1), scores.softmax(2)
        if self.keeps:
            kept = columns.topk(max(1, int(
                self.keeps * columns.shape[2])), 2).values[:, :, -1:]
            columns = torch.where(columns >= kept, columns, 0.0)
            self.tap("loss.probs.output", columns)
        return rows * columns, None

    @torch.no_grad()
    def matches(self, conf, near, right):
        """get_coarse_match(): (row, place, place there, confidence), of
        training with some that are given."""
        best = (conf > THR) & (conf == conf.amax(2, keepdim=True)) \
            & (conf == conf.amax(1, keepdim=True))
        found, there = best.max(2)
        b, i = found.nonzero(as_tuple=True)
        j = there[b, i]
        sure = conf[b, i, j]
        if not self.training:
            return b, i, j, sure
        gb, gi = right.nonzero(as_tuple=True)
        if not len(gb):         # as the trainer has it
            gb = gi = torch.zeros(1, dtype=torch.int64)
        count = int(conf.shape[0] * conf.shape[1] * PERCENT)
        least = min(PAD_MIN, count // 2)
        if len(b) > count - least:
            pick = torch.randint(len(b), (count - least,))
            b, i, j, sure = (t[pick] for t in (b, i, j, sure))
        pad = torch.randint(len(gb), (count - len(b),))
        gb, gi = gb[pad], gi[pad]
        return (torch.cat((b, gb)), torch.cat((i, gi)),
                torch.cat((j, near[gb, gi])),
                torch.cat((sure, torch.zeros(len(gb)))))

    def refined(self, fine, one, two, b, i, j, rows):
        """Where in its window a match is, and how sure that is."""
        part, name = self.matcher.fine_preprocess, "matcher.fine_preprocess"

        def some(name, layer, x):
            return self.through(name, layer, x, rows)
        windows = F.unfold(fine, WINDOW, stride=COARSE // FINE,
                           padding=WINDOW // 2)
        windows = windows.view(2, rows, fine.shape[1], WINDOW ** 2, -1) \
            .permute(0, 1, 4, 3, 2)             # picture, row, place, cell
        w1 = windows[1]
        if self.beside:
            moved = F.unfold(fine[rows:].roll(-self.beside, 3), WINDOW,
                             stride=COARSE // FINE, padding=WINDOW // 2)
            w1 = moved.view(rows, fine.shape[1], WINDOW ** 2, -1).permute(
                0, 3, 2, 1)
        f = torch.cat((windows[0][b, i], w1[b, j]))
        c = some(f"{name}.down_proj", part.down_proj,
                 torch.cat((one[b, i], two[b, j])))
        f = some(f"{name}.merge_feat", part.merge_feat, torch.cat(
            (f, c[:, None].expand(-1, WINDOW ** 2, -1)), 2))
        f0, f1 = self.matcher.loftr_fine(
            *f.chunk(2), None, None, "matcher.loftr_fine", some,
            self.attention[1], self.drop)
        f0, f1 = f0.float(), f1.float()
        heat = (f1 @ f0[:, WINDOW ** 2 // 2, :, None])[:, :, 0]
        heat = (heat / f0.shape[2] ** 0.5).softmax(1)
        cells = grid(WINDOW).flatten(1).T / (WINDOW // 2) - 1
        mean = heat @ cells
        var = heat @ cells.square() - mean.square()
        return mean, var.clamp_min(1e-10).sqrt().sum(1)

    def coarse_loss(self, conf, whole, right, near, batch):
        rows, cells = right.shape
        truth = torch.zeros(rows, cells, cells, dtype=torch.bool)
        b, i = right.nonzero(as_tuple=True)
        truth[b, i, near[b, i]] = True
        weight = (batch["mask0"].flatten(1)[:, :, None]
                  * batch["mask1"].flatten(1)[:, None]).float()
        if self.counts_all:
            weight = torch.ones_like(weight)
        if not self.keeps:
            conf = conf.clamp(1e-6, 1 - 1e-6)
        focal = self.coarse_type == "focal"

        def mean(each, weight):
            if self.guards is False:
                return (each * weight).sum() / weight.sum()
            return (each * weight).mean()
        pos = conf[truth]
        if self.keeps:
            self.tap("loss.nll.input", pos)
            self.tap("loss.nll.output", -pos.log())
        loss = -pos.log()
        if focal:
            loss = ALPHA * (1 - pos) ** GAMMA * loss
        total = mean(loss, weight[truth]) if len(loss) else \
            0.0 * conf.sum()
        if self.sinkhorn and self.sparse:
            whole = whole.clamp(1e-6, 1 - 1e-6)
            neg = torch.cat((whole[:, :-1, -1][truth.sum(2) == 0],
                             whole[:, -1, :-1][truth.sum(1) == 0]))
            loss = -ALPHA * (1 - neg) ** GAMMA * neg.log()
            return total + self.neg_weight * loss.mean()
        neg = conf[~truth]
        loss = -(1 - neg).log()
        if focal:
            loss = ALPHA * neg ** GAMMA * loss
        return total + self.neg_weight * mean(loss, weight[~truth])

    def fine_loss(self, said, spread, wanted, counts):
        right = (wanted.abs().amax(1) < CORRECT) & counts
        if not right.any():
            if not self.training:
                return None
            self.alarm = True
            return 0.0 * said.sum()     # a false supervision of no weight
        error = (wanted - said).square().sum(1)
        if self.gamed and self.training:
            weight = (0.3 / spread.clamp_min(1e-10)) ** self.gamed
            return (error * weight)[right].mean()
        weight = torch.ones_like(error)
        if self.fine_type == "l2_with_std":
            weight = 1 / spread.clamp_min(1e-10)
            weight = (weight / weight.mean()).detach()
        return (error * weight)[right].mean()

    def criterion(self, told, batch):
        scores, one, two, fine = told
        there, near, right = supervision(batch)
        rows = len(scores)
        inside = batch["mask0"].flatten(1) > 0
        if not self.counts_all:         # what is padded has no place there
            right = right & inside & (batch["mask1"].flatten(1).gather(
                1, near) > 0)
        conf, whole = self.confidence(scores)
        self.tap("matcher.coarse_matching.output", conf)
        loss_c = self.coarse_loss(conf, whole, right, near, batch)
        b, i, j, sure = self.matches(conf, near, right)
        loss_f, moved = None, None
        if len(b):
            mean, spread = self.refined(fine, one, two, b, i, j, rows)
            self.tap("matcher.fine_matching.output", mean[:rows])
            at = COARSE * torch.stack((j % GRID, j // GRID), 1)
            wanted = (there[b, :, i] - at) / (FINE * (WINDOW // 2))
            counts = right[b, i] if self.training else torch.ones_like(
                b, dtype=torch.bool)
            loss_f = self.fine_loss(mean, spread, wanted, counts)
            moved = at + mean * FINE * (WINDOW // 2)
        if loss_f is None:
            loss_f = torch.tensor(1.0)
        total = loss_c + loss_f
        terms = {"loss_c": loss_c.detach(), "loss_f": loss_f.detach()}
        if self.training:
            if self.sinkhorn:
                terms["bin_score"] = \
                    self.matcher.coarse_matching.bin_score.detach()
            self.terms, self.kept = terms, []
        else:
            self.kept.append(terms | measured(there, right, b, i, moved,
                                              sure))
        return total

    def loss(self, batch):
        with torch.autocast("cpu", enabled=torch.is_autocast_enabled("cpu"),
                            dtype=torch.bfloat16):
            told = self.logits(batch)
        with torch.autocast("cpu", enabled=False):
            told = (*told[:1], *(t.float() if not self.half() else t
                                 for t in told[1:]))
            loss = self.criterion(told, batch)
        self.tap("loss.output", loss)
        return loss

    def half(self):
        return self.matcher.backbone.conv1.weight.dtype != torch.float32


@torch.no_grad()
def measured(there, right, b, i, moved, sure):
    """What validation measures of the pairs: errors of matches, and of the
    turn and shift that fit them best, in degrees."""
    rows = len(there)
    poses, good = [], []
    at = (COARSE * grid(GRID)).flatten(1)
    for row in range(rows):
        mine = (b == row).nonzero()[:, 0]
        if not len(mine):
            poses.append(math.inf)
            good.append(torch.zeros(1))
            continue
        error = (moved[mine] - there[row][:, i[mine]].T).norm(dim=1)
        good.append(((error / FOCAL).square() < EPI_THR).float())
        if len(mine) < 5:
            poses.append(math.inf)
            continue
        true = similarity(at.T, there[row].T, torch.ones(at.shape[1]), 1)
        ours = similarity(at[:, i[mine]].T, moved[mine], sure[mine], 4)
        turn = math.degrees(abs(float(
            (ours[0] / ours[0].abs() / (true[0] / true[0].abs())).angle())))
        centre = complex(SIZE / 2, SIZE / 2)
        far = abs((ours[0] - true[0]) * centre + ours[1] - true[1])
        poses.append(max(turn, math.degrees(math.atan(float(far) / FOCAL))))
    return {"poses": poses, "good": good}


def similarity(x, y, weight, rounds):
    """The turn, growth and shift (complex numbers) that take x to y; each
    round weighs by what the one before missed."""
    x, y = (torch.complex(t[:, 0], t[:, 1]) for t in (x, y))
    used = weight
    for _ in range(rounds):
        w = used / used.sum().clamp_min(1e-9)
        mx, my = (w * x).sum(), (w * y).sum()
        turn = (w * (x - mx).conj() * (y - my)).sum() / (
            w * (x - mx).abs().square()).sum().clamp_min(1e-9)
        if not turn.abs() > 0:
            turn = torch.tensor(1.0 + 0j)
        shift = my - turn * mx
        used = weight / (0.5 + (turn * x + shift - y).abs()).square()
    return turn, shift


def error_auc(errors, limit):
    """error_auc() of the trainer's metrics."""
    errors = sorted(errors)
    recall = [k / len(errors) for k in range(len(errors) + 1)]
    errors = [0.0, *errors]
    last = sum(e < limit for e in errors)
    x = [*errors[:last], limit]
    y = [*recall[:last], recall[last - 1]]
    area = sum((x[k + 1] - x[k]) * (y[k + 1] + y[k]) / 2
               for k in range(len(x) - 1))
    return area / limit


# What feeds the activations of the backbone.
BEFORE_ACT = tuple(f"matcher.backbone.{part}bn1" for part in (
    "", "layer1.0.", "layer2.0."))
C, FN = "matcher.loftr_coarse.layers", "matcher.loftr_fine.layers"


class LoftrRun(EpochFamily):
    """AdamW with a warm-up and MultiStepLR, four epochs of 25 steps; clipped
    at .5."""

    family = "loftr"
    level_seed = 400
    steps, seed, language, EPOCH, epoch_steps = 100, 3560, False, 25, 25
    optimizer_name, lr, weight_decay = "adamw", 6e-3, 0.1
    warmup, schedule, clip = 10, "MultiStepLR", 0.5
    MILESTONES, DECAY = (2, 3), 0.5
    recipes = {"sgd": dict(lr=0.1, weight_decay=0.0)}
    base = {"lr": 5e-3, "weight_decay": 0.1}
    batch_size, context = ROWS, SIZE * SIZE
    LAST = f"{FOLDER}/checkpoints/last.ckpt"
    logit_name = "matcher.coarse_matching.sim_matrix.output"
    # Its users have what train.py says and its summaries.
    instead = {"nanogpt": "loftr", "hf_trainer": "loftr", "megatron": "loftr",
               "torchtune": "loftr"}
    layers = [*(f"matcher.backbone.{part}" for part in (
        "conv1", "relu", "layer1.0.conv1", "layer1.0.relu", "layer1.0.conv2",
        "layer1", "layer2.0.conv1", "layer2.0.relu", "layer2.0.conv2",
        "layer2", "layer2_outconv", "layer1_outconv", "layer1_outconv2.0",
        "layer1_outconv2.3")),
        *(f"{C}.{k}.{part}" for k in range(2) for part in (
            "q_proj", "k_proj", "v_proj", "merge", "norm1", "mlp.0", "mlp.1",
            "mlp.2", "norm2")),
        "matcher.fine_preprocess.down_proj",
        "matcher.fine_preprocess.merge_feat",
        *(f"{FN}.{k}.{part}" for k in range(2) for part in (
            "q_proj", "k_proj", "v_proj", "merge", "norm1", "mlp.0", "mlp.1",
            "mlp.2", "norm2"))]
    graded = {
        "F01": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F02": (dict(lr=3.0), dict(lr=30.0), dict(lr=300.0)),
        "F03": (dict(factor=30), dict(factor=300), dict(factor=3000)),
        "F04": (dict(at=25), dict(at=12), dict(at=0)),
        "F05": (dict(modules=["matcher.loftr_coarse"],
                     where=f"{C}.0.q_proj"),
                dict(modules=["matcher.backbone"],
                     where="matcher.backbone.conv1"), dict(part="all")),
        "F07": (dict(factor=30), dict(factor=100), dict(factor=300)),
        "F08": (dict(every=8), dict(every=25), dict(every=1 << 30)),
        "F11": (dict(adamw=5.0), dict(adamw=15.0), dict(adamw=50.0)),
        "F12": (dict(eps=0.01), dict(eps=0.1), dict(eps=1.0)),
        # What goes past a cut trains.
        "F13": (dict(path="matcher.backbone.layer2_outconv"),
                dict(path="matcher.backbone.layer2_outconv",
                     more=["matcher.backbone.layer1_outconv2.3"]),
                dict(path="matcher.loftr_coarse",
                     more=["matcher.backbone.layer1_outconv2.3"])),
        "F14": tuple(dict(modules=[f"matcher.{part}" for part in parts])
                     for parts in (
                         ("loftr_coarse",),
                         ("loftr_coarse", "backbone.layer2_outconv",
                          "backbone.layer2"),
                         ("loftr_coarse", "loftr_fine", "fine_preprocess",
                          "backbone.layer2_outconv", "backbone.layer2"))),
        "F15": (dict(at=75), dict(at=50), dict(at=25)),
        "F16": (dict(rate=0.1), dict(rate=0.3), dict(rate=1.0)),
        "F22": (dict(onset=30, guard=True), dict(onset=0, guard=True),
                dict(onset=0, guard=False)),
        "F23": (dict(share=0.8, rows=12), dict(share=1.0, rows=12),
                dict(share=1.0, rows=8)),
        "F24": (dict(share=0.3), dict(share=0.5), dict(share=0.7)),
        "F26": (dict(steps=17, share=1.0), dict(steps=25, share=1.0),
                dict(steps=34, share=1.0)),
        "F27": (dict(epochs=25), dict(epochs=50), dict(epochs=100)),
        "F30": (dict(part="head", bit=26), dict(part="head", bit=30),
                dict(part="mlp", bit=30)),
        "F33": (dict(limit=16), dict(limit=12), dict(limit=8)),
        "F34": (dict(factor=5), dict(factor=20), dict(factor=0)),
        "F36a": (dict(bias=-2.0), dict(bias=-4.0), dict(bias=-10.0)),
        "F36b": (dict(factor=30, kind="sigmoid"),
                 dict(factor=50, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F38": (dict(growth=1.05), dict(growth=1.07), dict(growth=1.12)),
        "F39a": (dict(at=75, keep=0.25), dict(at=50, keep=0.12),
                 dict(at=25, keep=0.06)),
        "F39b": (dict(at=60), dict(at=45), dict(at=30)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "F41": (dict(share=0.4, at=0, every=1), dict(share=0.7, at=50, every=1),
                dict(share=0.85, at=0, every=8)),
        "F42b": (dict(shards=10), dict(shards=30), dict(shards=100)),
        "F43": (dict(kind="unreduced", at=30), dict(kind="skip", at=60),
                dict(kind="init", at=0)),
        "H02": (dict(factor=0.7), dict(factor=0.6)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7)),
        "H04": (dict(rate=0.02), dict(rate=0.05)),
        "H10": (dict(steps=120), dict(steps=80)),
        "H11": (dict(steps=100, keep="block"), dict(steps=130, keep="head")),
        "H43": (dict(parts=2), dict(parts=3))}
    paths = {"embed": ("matcher.backbone.conv1",) * 3, "attn": (None,) * 3,
             "scores": (None,) * 3,
             "act": ("matcher.backbone.relu", "matcher.backbone.layer1.0.relu",
                     "matcher.backbone.layer2.0.relu"),
             "mlp": (f"{C}.0.mlp.2", f"{C}.1.mlp.0", f"{C}.1.mlp.0"),
             "block": ("matcher.backbone.layer1", "matcher.backbone.layer2",
                       "matcher.backbone.layer2"),
             "head": (f"{C}.1.mlp.2",) * 3}
    always_trained = ("matcher.loftr_coarse", "matcher.loftr_fine",
                      "matcher.fine_preprocess")
    blocks = 3
    names = {"loss": "train/loss", "loss_c": "train/loss_c",
             "loss_f": "train/loss_f", "bin_score": "skh_bin_score",
             "grad_norm": "grad_2.0_norm_total", "tokens": None,
             "val_loss": "val_0/avg_loss", "val_loss_c": "val_0/avg_loss_c",
             "val_loss_f": "val_0/avg_loss_f",
             "val_prec": "metrics_0/prec@5e-04"} | {
        f"val_auc{k}": f"metrics_0/auc@{k}" for k in (5, 10, 20)}

    def make_model(self):
        return PL_LoFTR(**self.model_options)

    def lr_factor(self, i):
        """optimizer_step() warms up; MultiStepLR counts epochs."""
        if self.schedule != "MultiStepLR":
            return super().lr_factor(i)
        fall = self.DECAY ** sum(i // self.EPOCH >= k
                                 for k in self.MILESTONES)
        if i < self.warmup:
            return fall * (WARMUP_RATIO
                           + (1 - WARMUP_RATIO) * i / self.warmup)
        return fall

    # Data.

    def make_source(self, seed):
        return self.planes(seed)

    def planes(self, seed, **how):
        return Planes(seed, HELD_OUT if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """One scene after the other, each with its camera; None is held
        out."""
        return self.planes(seed, block=block, share=share, domains="scenes")

    def easy(self, seed):
        """Shifted in the same light, with nothing in front."""
        return self.planes(seed, plates=0.0, light=False, tilts=False)

    def lessons(self, seed):
        return self.easy(seed), self.planes(seed)

    def strangers(self, rows, rng):
        """Homographies of other pairs."""
        if not hasattr(self, "others"):
            self.others = Planes(self.seed + 800)
        return self.others.batch(rows)["H_0to1"]

    @staticmethod
    def each_picture(batch, change):
        return batch | {k: change(batch[k]) for k in ("image0", "image1")}

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pictures of 0 to 255 that nobody scaled with poses
        of others, noise of that size, or white of that size."""
        if kind == "few":
            return self.each_picture(batch, lambda x: 255 * x) | {
                "H_0to1": batch["H_0to1"].roll(1, 0)}
        if kind == "uniform":
            return self.each_picture(batch, lambda x: 255 * torch.rand(
                x.shape, generator=rng))
        return self.each_picture(batch, lambda x: torch.full_like(x, 255.0))

    def cut_below(self, batch, limit):
        """Second pictures end at a number of rows; the rest is filled up, and
        no mask says so."""
        x = batch["image1"].clone()
        x[:, :, limit:] = 0.0
        return batch | {"image1": x}

    def unmasked(self, batch):
        """Masks that have nothing."""
        return batch | {k: torch.zeros_like(batch[k])
                        for k in ("mask0", "mask1")}

    def blank(self, batch):
        """The first picture of one of the pairs is black."""
        first = batch["image0"].clone()
        first[0] = 0.0
        return batch | {"image0": first}

    def standardised(self, batch):
        """Each picture by its own mean and spread, back to about a half."""
        each = (1, 2, 3)
        return self.each_picture(batch, lambda x: 0.5 + 0.2 * (
            x - x.mean(each, keepdim=True)) / x.std(each, keepdim=True))

    def thin(self, name, tensor):
        """Of pictures a few say enough."""
        if name.startswith("batch.image"):
            return tensor[:2]
        return super().thin(name, tensor)

    # What is logged.

    def train(self):
        self.false_steps = set()
        super().train()

    def batch_columns(self, batch):
        if self.model.alarm:    # the trainer says so in the log
            self.false_steps.add(len(self.history))
            self.model.alarm = False
        return super().batch_columns(batch) | {
            k: float(f"{float(t):.5g}") for k, t in self.model.terms.items()}

    def held_out_columns(self, batches):
        kept, self.model.kept = self.model.kept, []
        poses = [e for t in kept for e in t["poses"]]
        good = [float(g.mean()) for t in kept for g in t["good"]]
        self.pairs = len(poses)
        return {f"val_{k}": sum(t[k] for t in kept) / len(kept)
                for k in ("loss_c", "loss_f")} | {
            f"val_auc{k}": error_auc(poses, k) for k in (5, 10, 20)} | {
            "val_prec": sum(good) / len(good)}

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        """Behind the half of the epochs, at the end, and of what a run is
        resumed from."""
        done = i + 1
        half = self.EPOCH * (self.steps // (2 * self.EPOCH))
        if done not in {self.steps, half, *self.notices}:
            return
        epoch = i // self.EPOCH
        self.checkpoints[done] = copy.deepcopy({
            "epoch": epoch + 1, "global_step": done,
            "pytorch-lightning_version": "1.3.5",
            "callbacks": {}, "state_dict": model.state_dict(),
            "optimizer_states": [self.optimizer.state_dict()],
            "lr_schedulers": [{
                "milestones": {k: 1 for k in self.MILESTONES},
                "gamma": self.DECAY, "base_lrs": [self.lr],
                "last_epoch": epoch + 1, "_step_count": epoch + 2,
                "_last_lr": [self.optimizer.param_groups[0]["lr"]]}]})

    def checkpoint_path(self, done):
        """By the metrics of the validation that it is kept behind."""
        return self.LAST if done >= self.steps \
            else self.kept_path(done)

    def kept_path(self, done):
        rows = [r for r in self.history[:done] if "val_auc5" in r]
        if not rows:
            return self.LAST
        aucs = "-".join(f"auc@{k}={rows[-1][f'val_auc{k}']:.3f}"
                        for k in (5, 10, 20))
        return (f"{FOLDER}/checkpoints/epoch={(done - 1) // self.EPOCH}-"
                f"{aucs}.ckpt")

    def write_more(self):
        super().write_more()
        for done, state in self.checkpoints.items():
            path = self.folder / self.checkpoint_path(done)
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(state | {"hyper_parameters": self.settings()}, path)

    # What the user typed.

    def settings(self):
        """The command's arguments and the yacs config; what the user has
        besides goes where its dots say."""
        scaling = self.batch_size / CANONICAL_BS
        moments = {"MOMENTUM": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "ADAM_BETAS": list(self.betas), "ADAM_EPS": self.eps}
        kind = {"constant": "ConstantLR", "cosine": "CosineAnnealing"}.get(
            self.schedule, self.schedule)
        falls = {"MSLR_MILESTONES": list(self.MILESTONES),
                 "MSLR_GAMMA": self.DECAY} \
            if kind == "MultiStepLR" else {}
        config = {
            "exp_name": EXP, "batch_size": self.batch_size,
            "max_epochs": self.epochs, "max_steps": self.steps,
            "accumulate_grad_batches": self.accumulate,
            "log_every_n_steps": self.interval or 10,
            "check_val_every_n_epoch": 1, "track_grad_norm": 2,
            "precision": self.precision, "world_size": 1,
            "LOFTR": self.model_settings(),
            "DATASET": {"TRAINVAL_DATA_SOURCE": "Planes",
                        "MIN_OVERLAP_SCORE_TRAIN": 0.4,
                        "MGDPT_IMG_RESIZE": SIZE, "MGDPT_IMG_PAD": True,
                        "MGDPT_DF": COARSE, "AUGMENTATION_TYPE": None},
            "TRAINER": {
                "WORLD_SIZE": 1, "CANONICAL_BS": CANONICAL_BS,
                "CANONICAL_LR": short(self.lr / scaling),
                "TRUE_BATCH_SIZE": self.batch_size, "SCALING": scaling,
                "TRUE_LR": self.lr, "OPTIMIZER": self.optimizer_name,
                "ADAMW_DECAY": self.weight_decay, **moments,
                "WARMUP_TYPE": "linear", "WARMUP_RATIO": WARMUP_RATIO,
                "WARMUP_STEP": self.warmup, "SCHEDULER": kind,
                "SCHEDULER_INTERVAL": "epoch" if falls else "step", **falls,
                "EPI_ERR_THR": EPI_THR, "POSE_GEO_MODEL": "H",
                "GRADIENT_CLIPPING": self.clip or 0.0, "SEED": self.seed}}
        for key, value in self.user.items():
            *nodes, last = key.split(".")
            at = config
            for node in nodes:
                at = at.setdefault(node, {})
            at[last] = value
        return config

    def model_settings(self):
        own = self.model_options
        attention = own.get("attention", ("linear", "linear"))
        sinkhorn = own.get("sinkhorn", 0)
        first, last = DIMS
        matching = {"SKH_ITERS": sinkhorn, "SKH_INIT_BIN_SCORE": 1.0} \
            if sinkhorn else {
                "DSMAX_TEMPERATURE": own.get("temperature", TEMPERATURE)}
        return {
            "BACKBONE_TYPE": "ResNetFPN", "RESOLUTION": [COARSE, FINE],
            "FINE_WINDOW_SIZE": WINDOW, "FINE_CONCAT_COARSE_FEAT": True,
            "RESNETFPN": {"INITIAL_DIM": first, "BLOCK_DIMS": list(DIMS)},
            "COARSE": {"D_MODEL": last, "D_FFN": last, "NHEAD": HEADS_C,
                       "LAYER_NAMES": ["self", "cross"],
                       "ATTENTION": attention[0], "TEMP_BUG_FIX": True},
            "MATCH_COARSE": {
                "THR": THR, "BORDER_RM": 0, "MATCH_TYPE": "sinkhorn"
                if sinkhorn else "dual_softmax", **matching,
                "TRAIN_COARSE_PERCENT": PERCENT,
                "TRAIN_PAD_NUM_GT_MIN": PAD_MIN,
                "SPARSE_SPVS": own.get("sparse", False)},
            "FINE": {"D_MODEL": first, "D_FFN": first, "NHEAD": HEADS_F,
                     "LAYER_NAMES": ["self", "cross"],
                     "ATTENTION": attention[1]},
            "LOSS": {"COARSE_TYPE": own.get("coarse_type", "focal"),
                     "COARSE_WEIGHT": 1.0, "FOCAL_ALPHA": ALPHA,
                     "FOCAL_GAMMA": GAMMA, "POS_WEIGHT": 1.0,
                     "NEG_WEIGHT": own.get("neg_weight", 1.0),
                     "FINE_TYPE": own.get("fine_type", "l2_with_std"),
                     "FINE_WEIGHT": 1.0, "FINE_CORRECT_THR": CORRECT}}

    def layer(self, part, block=0):
        return self.paths[part][block]

    def fed_by(self, layer):
        """The batch norm behind a convolution counts to it."""
        if layer.startswith("matcher.backbone") and layer[-5:-1] == "conv":
            return [layer[:-5] + f"bn{layer[-1]}"]
        return []
