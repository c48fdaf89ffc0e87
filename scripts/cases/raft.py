"""Optical flow by iterations, as princeton-vl/RAFT's train.py trains it.

Two residual encoders see the frames, one with instance norms for both of
them, one with batch norms for the first; all pairs of their features are a
volume of correlations, of which a recurrent block looks up what lies around
where it thinks that each place has gone, and moves it on, some times. What it
says is made larger by convex combinations, and all of it is in the loss. The
encoders have two stages of one block where RAFT's have three of two, and their
first convolution alone has a stride, so a place is 2 pixels wide, not 8. Names
of parameters, options, scalars, lines and files are the trainer's.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family
from .sources import AHEAD, DrawnAhead

HEIGHT, WIDTH, ROWS, HELD_OUT, STRIDE = 16, 16, 12, 8, 2
ITERS, GAMMA, MAX_FLOW = 3, 0.8, 400.0
LEVELS, RADIUS = 2, 2   # of the volume: its pyramid, and how far one looks
STAGES, FEATURES, HIDDEN, CONTEXT = (12, 16), 32, 12, 12
CORR, FLOW, MOTION, HEAD = 20, 8, 16, 24
METRICS = ("epe", "1px", "3px", "5px")
NAME = "raft-chairs"
WAVES, SECTORS = 4, 3


class Chairs(DrawnAhead):
    """Pairs of frames of 0 to 255: a ground with some waves and a thing before
    it, a disc or a plate with waves of its own.

    The ground moves by up to `FAR` pixels, turns and grows a little; a thing
    moves by up to `OWN` each way otherwise, in front of it. So there are three
    grades: one flow for all, how it changes over the frame, and a thing with
    its edges. What goes behind a thing or out of the frame has no match; each
    pixel of a frame has an error of `ERROR`, each of the flow one of `LABEL`,
    below which no L1 can come.

    things: how many there are. affine: whether the ground turns. block,
    share: so many batches whose ground goes into one of three sectors, one
    after the other. domains: of three cameras, with gains and offsets of
    their own. far: how far the ground goes.
    """

    FAR, OWN, ERROR, LABEL = 3.0, 2.0, 4.0, 0.05

    def __init__(self, seed, rows=ROWS, things=1, affine=True, block=None,
                 share=1.0, domains=False, far=FAR):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.things, self.affine = rows, things, affine
        self.block, self.share, self.domains = block, share, domains
        self.far, self.number, self.ahead = far, 0, {}
        y, x = torch.meshgrid(torch.arange(float(HEIGHT)),
                              torch.arange(float(WIDTH)), indexing="ij")
        self.at = torch.stack((x, y))           # (2, y, x)
        self.middle = torch.tensor(((WIDTH - 1) / 2, (HEIGHT - 1) / 2))

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def painted(self, rows):
        """A function of places that says the colours of a plane."""
        angle = self.uniform(0, 2 * math.pi, rows, WAVES, 1, 1)
        size = 2 * math.pi / self.uniform(5, 14, rows, WAVES, 1, 1)
        along, across = size * angle.cos(), size * angle.sin()
        phase = self.uniform(0, 2 * math.pi, rows, WAVES, 1, 1)
        colour = 22 * self.normal(rows, 3, WAVES)
        base = self.uniform(80, 175, rows, 3, 1, 1)

        def paint(place):       # (rows, 2, y, x)
            wave = (along * place[:, :1] + across * place[:, 1:] + phase).sin()
            return base + (colour @ wave.flatten(2)).view(
                rows, 3, HEIGHT, WIDTH)
        return paint

    def ways(self, each, rows):
        """How far the ground goes; in blocks of one sector, if asked."""
        size = self.far * self.uniform(0, 1, rows).sqrt()
        turn = self.uniform(0, 1, rows)
        if self.block:
            here = (self.number + torch.arange(rows) // each) \
                // self.block % SECTORS
            kept = torch.rand(rows, generator=self.rng) < self.share
            turn = torch.where(kept, (here + turn) / SECTORS, turn)
            size = torch.where(kept, self.far * (0.6 + 0.4 * size / self.far),
                               size)
        angle = 2 * math.pi * turn
        return torch.stack((size * angle.cos(), size * angle.sin()), 1)

    def draw(self, each):
        rows = AHEAD * each
        ground, way = self.painted(rows), self.ways(each, rows)
        middle = self.middle[:, None, None]
        turn, grow = (self.affine * self.uniform(-0.06, 0.06, rows)
                      for _ in range(2))
        # Rows of the matrix that moves a place about the middle.
        matrix = torch.stack((1 + grow, -turn, turn, 1 + grow), 1).view(
            rows, 2, 2)
        shift = way[:, :, None, None]

        def moved(matrix, place):
            return (matrix @ place.flatten(2)).view(rows, 2, HEIGHT, WIDTH)
        here = (self.at - middle).expand(rows, -1, -1, -1)
        flow = moved(matrix, here) + shift - here
        before = moved(torch.linalg.inv(matrix), here - shift) + middle
        first = ground(self.at.expand(rows, -1, -1, -1))
        second = ground(before)
        for _ in range(self.things):
            paint = self.painted(rows)
            own = way + self.OWN * self.uniform(-1, 1, rows, 2)
            own = own[:, :, None, None]
            place = self.uniform(3, WIDTH - 3, rows, 2)[:, :, None, None]
            size = self.uniform(2.5, 4.5, rows, 1, 1)
            disc = torch.rand(rows, 1, 1, generator=self.rng) < 0.5

            def covered(at):
                off = at - place
                return torch.where(disc, off.norm(dim=1) < size,
                                   off.abs().amax(1) < size)[:, None]
            at = self.at.expand(rows, -1, -1, -1)
            seen, then = covered(at), covered(at - own)
            first = torch.where(seen, paint(at), first)
            flow = torch.where(seen, own, flow)
            second = torch.where(then, paint(at - own), second)
        frames = first, second
        if self.domains:
            camera = torch.randint(3, (rows,), generator=self.rng)
            gain = 0.07 * (camera[:, None, None, None] - 1.0)
            frames = [(1 + gain) * t + 100 * gain for t in frames]
        self.number += AHEAD
        frames = [(t + self.ERROR * self.normal(*t.shape)).clamp(0, 255)
                  for t in frames]
        batch = {"image1": frames[0].contiguous(),
                 "image2": frames[1].contiguous(),
                 "flow": flow + self.LABEL * self.normal(*flow.shape),
                 "valid": torch.ones(rows, HEIGHT, WIDTH)}
        return batch | ({"domain": camera} if self.domains else {})


def kaiming(model):
    """As the trainer's encoders begin; here the update block does as well, as
    a run is short."""
    for part in model.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out",
                                    nonlinearity="relu")


class ResidualBlock(nn.Module):
    def __init__(self, wide, out, norm):
        super().__init__()
        self.conv1 = nn.Conv2d(wide, out, 3, 1, 1)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1)
        self.norm1, self.norm2 = norm(out), norm(out)
        self.downsample = None
        if wide != out:
            self.norm3 = norm(out)
            self.downsample = nn.Sequential(
                nn.Conv2d(wide, out, 1), self.norm3)

    def forward(self, x, name, through, act):
        y = self.norm1(through(f"{name}.conv1", self.conv1, x))
        y = through(f"{name}.relu", act, y)
        y = act(self.norm2(through(f"{name}.conv2", self.conv2, y)))
        return act(y + (self.downsample(x) if self.downsample else x))


class BasicEncoder(nn.Module):
    """One block a stage, where RAFT has two."""

    def __init__(self, out, norm):
        super().__init__()
        first, second = STAGES
        self.conv1 = nn.Conv2d(3, first, 7, 2, 3)
        self.norm1 = norm(first)
        self.layer1 = nn.Sequential(ResidualBlock(first, first, norm))
        self.layer2 = nn.Sequential(ResidualBlock(first, second, norm))
        self.conv2 = nn.Conv2d(second, out, 1)
        kaiming(self)
        with torch.no_grad():   # what is behind ReLUs has a mean: not this
            w = self.conv2.weight
            w.sub_(w.mean(1, keepdim=True)).mul_(1.5)

    def forward(self, x, name, through, act, drop):
        x = act(self.norm1(through(f"{name}.conv1", self.conv1, x)))
        for k in (1, 2):
            at = f"{name}.layer{k}"
            x = through(at, lambda x: getattr(self, f"layer{k}")[0](
                x, f"{at}.0", through, act), x)
        return drop(through(f"{name}.conv2", self.conv2, x))


class BasicMotionEncoder(nn.Module):
    def __init__(self, planes):
        super().__init__()
        self.convc1 = nn.Conv2d(planes, CORR, 1)
        self.convc2 = nn.Conv2d(CORR, CORR, 3, padding=1)
        self.convf1 = nn.Conv2d(2, FLOW, 7, padding=3)
        self.convf2 = nn.Conv2d(FLOW, FLOW, 3, padding=1)
        self.conv = nn.Conv2d(CORR + FLOW, MOTION - 2, 3, padding=1)

    def forward(self, flow, corr, name, through, act):
        def part(layer, x):
            x = through(f"{name}.{layer}", getattr(self, layer), x)
            return through(f"{name}.{layer.replace('conv', 'relu')}", act, x)
        cor = part("convc2", part("convc1", corr))
        flo = part("convf2", part("convf1", flow))
        return torch.cat((part("conv", torch.cat((cor, flo), 1)), flow), 1)


class SepConvGRU(nn.Module):
    def __init__(self):
        super().__init__()
        wide = HIDDEN + CONTEXT + MOTION
        for k, size in ((1, (1, 5)), (2, (5, 1))):
            for gate in "zrq":
                setattr(self, f"conv{gate}{k}", nn.Conv2d(
                    wide, HIDDEN, size, padding=tuple(n // 2 for n in size)))

    def forward(self, h, x, name, through):
        for k in (1, 2):
            def gate(kind, x):
                layer = f"conv{kind}{k}"
                return through(f"{name}.{layer}", getattr(self, layer), x)
            both = torch.cat((h, x), 1)
            z, r = gate("z", both).sigmoid(), gate("r", both).sigmoid()
            q = gate("q", torch.cat((r * h, x), 1)).tanh()
            h = (1 - z) * h + z * q
        return h


class FlowHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(HIDDEN, HEAD, 3, padding=1)
        self.conv2 = nn.Conv2d(HEAD, 2, 3, padding=1)

    def forward(self, x, name, through, act):
        x = through(f"{name}.conv1", self.conv1, x)
        x = through(f"{name}.relu", act, x)
        return through(f"{name}.conv2", self.conv2, x)


class BasicUpdateBlock(nn.Module):
    def __init__(self, planes):
        super().__init__()
        self.encoder = BasicMotionEncoder(planes)
        self.gru, self.flow_head = SepConvGRU(), FlowHead()
        self.mask = nn.Sequential(
            nn.Conv2d(HIDDEN, HEAD, 3, padding=1), nn.ReLU(),
            nn.Conv2d(HEAD, STRIDE ** 2 * 9, 1))
        kaiming(self)
        with torch.no_grad():   # else what is said first is far off
            self.flow_head.conv2.weight.mul_(0.1)

    def forward(self, net, inp, corr, flow, name, through, act):
        motion = self.encoder(flow, corr, f"{name}.encoder", through, act)
        net = self.gru(net, torch.cat((inp, motion), 1), f"{name}.gru",
                       through)
        delta = self.flow_head(net, f"{name}.flow_head", through, act)
        mask = net
        for k, part in enumerate(self.mask):
            mask = through(f"{name}.mask.{k}", part, mask)
        return net, 0.25 * mask, delta


def coords_grid(rows, high, wide):
    y, x = torch.meshgrid(torch.arange(float(high)),
                          torch.arange(float(wide)), indexing="ij")
    return torch.stack((x, y)).expand(rows, -1, -1, -1)


class CorrBlock:
    """All pairs of two maps, and a pyramid of them over the second."""

    def __init__(self, one, two, levels, radius, scale=True):
        rows, width, high, wide = one.shape
        volume = one.flatten(2).mT @ two.flatten(2)
        if scale:
            volume = volume / math.sqrt(width)
        volume = volume.view(-1, 1, high, wide)
        self.radius, self.pyramid = radius, [volume]
        for _ in range(levels - 1):
            volume = F.avg_pool2d(volume, 2)
            self.pyramid.append(volume)
        near = torch.arange(-radius, radius + 1.0)
        self.near = torch.stack(torch.meshgrid(near, near, indexing="ij"), -1)

    def __call__(self, coords):
        rows, _, high, wide = coords.shape
        coords = coords.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2)
        # A place that is NaN is nowhere, for grid_sample; its volume is NaN.
        coords = coords.nan_to_num(0.0, 1e4, -1e4).clamp(-1e4, 1e4)
        out = []
        for k, volume in enumerate(self.pyramid):
            places = coords / 2 ** k + self.near
            size = places.new_tensor([volume.shape[-1] - 1.0,
                                      volume.shape[-2] - 1.0])
            found = F.grid_sample(volume, 2 * places / size - 1,
                                  align_corners=True)
            out.append(found.view(rows, high, wide, -1))
        return torch.cat(out, -1).permute(0, 3, 1, 2).contiguous()


class RAFT(nn.Module):
    ACTS = tuple(f"update_block.{part}" for part in (
        "encoder.reluc1", "encoder.reluc2", "encoder.reluf1",
        "encoder.reluf2", "encoder.relu", "flow_head.relu"))

    def __init__(self, activation="relu", dropout=0.0, detach_after=(),
                 half_at=None, gamma=GAMMA, iters=ITERS, max_flow=MAX_FLOW,
                 levels=LEVELS, radius=RADIUS, upscale=STRIDE, logs=False):
        """activation: of the update block. detach_after: the layers behind
        which the graph is cut. half_at: the convolution whose output is in
        half precision. iters, gamma, max_flow: of the sequence's loss. levels,
        radius: of what is looked up. upscale: what flows are multiplied by
        when they are made larger. logs: the loss has logarithms of how long
        flows are."""
        super().__init__()
        instance, batch = nn.InstanceNorm2d, nn.BatchNorm2d
        self.fnet = BasicEncoder(FEATURES, instance)
        self.cnet = BasicEncoder(HIDDEN + CONTEXT, batch)
        self.update_block = BasicUpdateBlock(levels * (2 * radius + 1) ** 2)
        self.act, self.dropout = models.ACTIVATIONS[activation](), dropout
        self.half_at, self.detach_after = half_at, (
            detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)
        self.gamma, self.iters, self.max_flow = gamma, iters, max_flow
        self.levels, self.radius, self.upscale = levels, radius, upscale
        self.logs, self.terms, self.kept = logs, {}, []
        self.guards, self.counts_all, self.frozen_bn = None, False, False
        # What training has instead: weights of the predictions, and where
        # the volume is looked up.
        self.weights, self.looks = None, None

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def train(self, mode=True):
        """freeze_bn() follows each train(), if asked."""
        super().train(mode)
        if self.frozen_bn:
            for part in self.modules():
                if isinstance(part, nn.BatchNorm2d):
                    part.eval()
        return self

    def through(self, name, layer, x, rows=None):
        self.tap(f"{name}.input", x[:rows])
        y = layer(x)
        if name == self.half_at:
            y = y.half()
        self.tap(f"{name}.output", y[:rows])
        y = y.to(x.dtype)
        return y.detach() if name in self.detach_after else y

    def drop(self, x):
        return F.dropout2d(x, self.dropout, self.training) if self.dropout \
            else x

    def upsample_flow(self, flow, mask):
        rows, _, high, wide = flow.shape
        mask = mask.view(rows, 1, 9, STRIDE, STRIDE, high, wide).softmax(2)
        near = F.unfold(self.upscale * flow, 3, padding=1)
        near = near.view(rows, 2, 9, 1, 1, high, wide)
        up = (mask * near).sum(2).permute(0, 1, 4, 2, 5, 3)
        return up.reshape(rows, 2, STRIDE * high, STRIDE * wide)

    def logits(self, batch):
        """The flow after each iteration; as many again when it is tested."""
        kind = self.fnet.conv1.weight.dtype
        both = [(2 * (batch[k] / 255.0) - 1.0).to(kind)
                for k in ("image1", "image2")]
        rows = len(both[0])

        def first(name, layer, x):      # what is tapped is the first frame's
            return self.through(name, layer, x, rows)
        maps = self.fnet(torch.cat(both), "fnet", first, F.relu, self.drop)
        with torch.autocast("cpu", enabled=False):
            one, two = maps.float().split(rows)
            volume = CorrBlock(one, two, self.levels, self.radius)
            self.tap("corr.output", volume.pyramid[0].view(
                rows, -1, *one.shape[2:]))
        own = self.cnet(both[0], "cnet", self.through, F.relu, self.drop)
        net, inp = own.split((HIDDEN, CONTEXT), 1)
        net, inp = net.tanh(), inp.relu()
        start = coords_grid(rows, *one.shape[2:])
        at, said = start, []
        for k in range(self.iters if self.training else 2 * self.iters):
            at = at.detach()
            with torch.autocast("cpu", enabled=False):
                corr = volume(at if self.looks is None else self.looks(at))
            net, mask, delta = self.update_block(
                net, inp, corr.to(kind), (at - start).to(kind),
                "update_block", self.through, self.act)
            at = at + delta.float()
            said.append(self.upsample_flow(at - start, mask.float()))
        return said

    def criterion(self, said, batch):
        """sequence_loss(): of a test the first predictions, as of training,
        and the metrics of the last one."""
        flow, valid = batch["flow"].float(), batch["valid"]
        size = flow.square().sum(1).sqrt()
        valid = (valid >= 0.5) & (
            size < (self.max_flow if self.training else MAX_FLOW))
        if self.counts_all:
            valid = torch.ones_like(valid)
        count, total = self.iters, 0.0
        for k in range(count):
            weight = self.gamma ** (count - k - 1)
            if self.weights and self.training:
                weight = self.weights[k]
            error = valid[:, None] * (said[k] - flow).abs()
            total = total + weight * (
                error.mean() if self.guards is not False
                else error.sum() / (2 * valid.sum()))
        if self.logs:
            self.tap("loss.log_size.input", size)
            long = size.log()
            self.tap("loss.log_size.output", long)
            ours = (said[count - 1].square().sum(1) + 1e-2).sqrt().log()
            total = total + 0.3 * (valid * (ours - long).abs()).mean()
        with torch.no_grad():
            epe = (said[-1] - flow).square().sum(1).sqrt()
            if self.training:   # validate_chairs() minds no mask
                epe = epe[valid]
            terms = {"epe": epe.mean()} | {
                f"{k}px": (epe < k).float().mean() for k in (1, 3, 5)}
        if self.training:
            self.terms, self.kept = terms, []
        else:
            self.kept.append(terms)
        return total

    def loss(self, batch):
        with torch.autocast("cpu", enabled=torch.is_autocast_enabled("cpu"),
                            dtype=torch.bfloat16):
            said = self.logits(batch)
        with torch.autocast("cpu", enabled=False):
            loss = self.criterion(said, batch)
        self.tap("loss.output", loss)
        return loss


# What feeds the activations of the update block.
BEFORE_ACT = tuple(f"update_block.{part}" for part in (
    "encoder.convc1", "encoder.convc2", "encoder.convf1", "encoder.convf2",
    "encoder.conv", "flow_head.conv1"))


class RaftRun(Family):
    """AdamW with OneCycleLR, whose rate rises for a twentieth of the run and
    falls in a line to nothing; clipped at 1."""

    family = "raft"
    level_seed = 400
    steps, seed, language = 100, 3120, False
    optimizer_name, lr, weight_decay = "adamw", 4e-3, 1e-4
    warmup, schedule, clip = 5, "onecycle", 1.0
    PCT_START, SPARE = 0.05, 5      # the trainer has 100 steps to spare
    recipes = {"sgd": dict(lr=0.02, weight_decay=0.0)}
    base = {"lr": 3e-3, "weight_decay": 1e-4}
    epoch_steps = 50        # of Lightning, behind a validation
    batch_size, context = ROWS, HEIGHT * WIDTH
    # Its users have what the trainer prints and its summaries.
    instead = {"nanogpt": "raft", "hf_trainer": "raft", "megatron": "raft",
               "torchtune": "raft"}
    layers = [*(f"{net}.{part}" for net in ("fnet", "cnet") for part in (
        "conv1", "layer1.0.conv1", "layer1.0.relu", "layer1.0.conv2",
        "layer1", "layer2.0.conv1", "layer2.0.relu", "layer2.0.conv2",
        "layer2", "conv2")),
        *(f"update_block.encoder.{kind}{part}" for part in (
            "c1", "c2", "f1", "f2", "") for kind in ("conv", "relu")),
        *(f"update_block.gru.conv{gate}{k}" for k in (1, 2)
          for gate in "zrq"),
        "update_block.flow_head.conv1", "update_block.flow_head.relu",
        "update_block.flow_head.conv2",
        *(f"update_block.mask.{k}" for k in range(3))]
    graded = {
        "F01": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F02": (dict(lr=3.0), dict(lr=30.0), dict(lr=300.0)),
        "F03": (dict(factor=30), dict(factor=300), dict(factor=3000)),
        "F04": (dict(at=25), dict(at=12), dict(at=0)),
        "F05": (dict(modules=["update_block"],
                     where="update_block.encoder.convc1"),
                dict(modules=["fnet", "update_block"], where="fnet.conv1"),
                dict(part="all")),
        "F07": (dict(factor=30), dict(factor=100), dict(factor=300)),
        "F08": (dict(every=15), dict(every=40), dict(every=1 << 30)),
        "F11": (dict(adamw=10.0), dict(adamw=20.0), dict(adamw=50.0)),
        "F12": (dict(eps=0.01), dict(eps=0.1), dict(eps=1.0)),
        # What goes past a cut trains.
        "F13": (dict(path="fnet.conv2"),
                dict(path="update_block.encoder.relu"),
                dict(path="update_block.encoder.relu", more=["cnet.conv2"])),
        "F14": tuple(dict(modules=[f"update_block{part}" for part in parts])
                     for parts in ((".encoder",), (".encoder", ".gru"),
                                   ("",))),
        "F15": (dict(at=60), dict(at=40), dict(at=20)),
        "F16": (dict(rate=0.1), dict(rate=0.3), dict(rate=1.0)),
        "F22": (dict(onset=30, guard=True), dict(onset=0, guard=True),
                dict(onset=0, guard=False)),
        "F23": (dict(share=0.3), dict(share=0.6), dict(share=0.9)),
        "F24": (dict(share=0.3), dict(share=0.5), dict(share=0.7)),
        "F26": (dict(steps=12, share=1.0), dict(steps=20, share=1.0),
                dict(steps=34, share=1.0)),
        "F27": (dict(epochs=25), dict(epochs=50), dict(epochs=100)),
        "F30": (dict(part="head", bit=26), dict(part="head", bit=30),
                dict(part="mlp", bit=30)),
        "F33": (dict(limit=13), dict(limit=10), dict(limit=7)),
        "F34": (dict(factor=3), dict(factor=10), dict(factor=0)),
        "F36a": (dict(bias=-2.0), dict(bias=-4.0), dict(bias=-10.0)),
        "F36b": (dict(factor=30, kind="sigmoid"),
                 dict(factor=50, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F38": (dict(growth=1.05), dict(growth=1.07), dict(growth=1.12)),
        "F39a": (dict(at=75), dict(at=50), dict(at=25)),
        "F39b": (dict(at=60), dict(at=45), dict(at=30)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "F41": (dict(share=0.4, at=0, every=1), dict(share=0.7, at=50, every=1),
                dict(share=0.85, at=0, every=8)),
        "F42b": (dict(shards=10), dict(shards=30), dict(shards=100)),
        "F43": (dict(kind="unreduced", at=30), dict(kind="skip", at=60),
                dict(kind="init", at=0)),
        "H02": (dict(factor=0.7), dict(factor=0.6)),
        "H03": (dict(part=2, factor=1.0), dict(part=3, factor=1.0)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H10": (dict(steps=150), dict(steps=90)),
        "H11": (dict(steps=70, keep="block"), dict(steps=100, keep="head")),
        "H43": (dict(parts=2), dict(parts=3))}
    paths = {"embed": ("fnet.conv1",) * 3, "attn": (None,) * 3,
             "scores": (None,) * 3,
             "act": ("update_block.encoder.reluc1",
                     "update_block.encoder.relu",
                     "update_block.flow_head.relu"),
             "mlp": ("update_block.encoder.convc1",
                     "update_block.encoder.conv",
                     "update_block.flow_head.conv1"),
             "block": ("fnet.layer1", "fnet.layer2", "cnet.layer2"),
             "head": ("update_block.flow_head.conv2",) * 3}
    always_trained = ("update_block",)
    blocks = 3
    names = {"val_loss": "val/loss", "tokens": None, "val_epe": "chairs"} | {
        f"val_{k}px": f"chairs-{k}px" for k in (1, 3, 5)}

    def make_model(self):
        return RAFT(**self.model_options)

    def lr_factor(self, i):
        """OneCycleLR: from a 25th up, then down, both in lines."""
        if self.schedule != "onecycle":
            return super().lr_factor(i)
        total = self.steps + self.SPARE
        top = self.PCT_START * total - 1
        if i <= top:
            return 0.04 + 0.96 * i / top
        done = min(1.0, (i - top) / (total - 1 - top))
        return 1 + done * (0.04 / 1e4 - 1)

    # Data.

    def make_source(self, seed):
        return self.chairs(seed)

    def chairs(self, seed, **how):
        return Chairs(seed, HELD_OUT if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Grounds that go into one sector after the other; None is held
        out."""
        return self.chairs(seed, block=block, share=share)

    def easy(self, seed):
        """A ground that is shifted, and nothing before it."""
        return self.chairs(seed, things=0, affine=False)

    def lessons(self, seed):
        return self.chairs(seed, things=0), self.chairs(seed)

    def strangers(self, rows, rng):
        """Flows of pairs that have nothing to do with these."""
        if not hasattr(self, "others"):
            self.others = Chairs(self.seed + 800)
        return self.others.batch(rows)["flow"]

    @staticmethod
    def each_frame(batch, change):
        return batch | {k: change(batch[k]) for k in ("image1", "image2")}

    def garbage(self, batch, kind, rng):
        """A corrupt shard: flows in units of 1/64 of a pixel that nobody
        divided, noise in frames and flows, or white frames with flows that
        were never written."""
        flow = batch["flow"]
        if kind == "few":
            return batch | {"flow": 64.0 * flow}
        if kind == "uniform":
            return self.each_frame(batch, lambda x: 255 * torch.rand(
                x.shape, generator=rng)) | {
                    "flow": 100 * torch.randn(flow.shape, generator=rng)}
        return self.each_frame(batch, lambda x: torch.full_like(
            x, 255.0)) | {"flow": torch.full_like(flow, 250.0)}

    def cut_below(self, batch, limit):
        """Frames end at a number of rows; the rest is padding."""
        def cut(x):
            x = x.clone()
            x[:, :, limit:] = 0.0
            return x
        return self.each_frame(batch, cut)

    def sparse(self, batch, share, rng):
        """A share of the pixels has no flow, as of a lidar's: 0, not valid."""
        valid = torch.rand(batch["valid"].shape, generator=rng) >= share
        valid = valid.float()
        return batch | {"flow": batch["flow"] * valid[:, None],
                        "valid": valid}

    def blank(self, batch):
        """The first frame of one of the pairs is black."""
        first = batch["image1"].clone()
        first[0] = 0.0
        return batch | {"image1": first}

    def parked(self, batch):
        """Nothing moves in one of the pairs."""
        flow, second = batch["flow"].clone(), batch["image2"].clone()
        flow[0], second[0] = 0.0, batch["image1"][0]
        return batch | {"flow": flow, "image2": second}

    def standardised(self, batch):
        """Each frame by its own mean and spread, back to about 128."""
        each = (1, 2, 3)
        return self.each_frame(batch, lambda x: 128 + 50 * (
            x - x.mean(each, keepdim=True)) / x.std(each, keepdim=True))

    def thin(self, name, tensor):
        """Of frames a few say enough."""
        if name.startswith(("batch.image", "batch.flow", "batch.valid")):
            return tensor[:2]
        return super().thin(name, tensor)

    # What is logged.

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            k: float(f"{float(t):.5g}") for k, t in self.model.terms.items()}

    def held_out_columns(self, batches):
        kept, self.model.kept = self.model.kept, []
        return {f"val_{k}": sum(t[k] for t in kept) / len(kept)
                for k in kept[0]}

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        """Weights alone: of a validation half-way, of the one that a run is
        resumed from, and last."""
        done = i + 1
        half = self.val_every * (self.steps // (2 * self.val_every))
        if done in {self.steps, half, *self.notices}:
            self.checkpoints[done] = copy.deepcopy({
                f"module.{k}": t for k, t in model.state_dict().items()})

    @staticmethod
    def checkpoint_path(done):
        return f"checkpoints/{done}_{NAME}.pth"

    def write_more(self):
        super().write_more()
        (self.folder / "checkpoints").mkdir(exist_ok=True)
        for done, state in self.checkpoints.items():
            path = self.checkpoint_path(done) if done < self.steps \
                else f"checkpoints/{NAME}.pth"
            torch.save(state, self.folder / path)

    # What the user typed.

    def settings(self):
        """The trainer's options, and what the user has besides."""
        optimizer = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "betas": list(self.betas), "epsilon": self.eps}
        schedule = {"scheduler": "OneCycleLR", "pct_start": self.PCT_START} \
            if self.schedule == "onecycle" else {
                "scheduler": self.schedule, "warmup_steps": self.warmup}
        return {
            "name": NAME, "stage": "chairs", "restore_ckpt": None,
            "small": False, "validation": ["chairs"], "lr": self.lr,
            "num_steps": self.steps, "batch_size": self.batch_size,
            "image_size": [HEIGHT, WIDTH], "gpus": [0],
            "mixed_precision": self.precision != "fp32",
            **self.model_settings(), "wdecay": self.weight_decay,
            "clip": self.clip or 0.0, "add_noise": False,
            "optimizer": self.optimizer_name, **optimizer, **schedule,
            "accumulate_steps": self.accumulate,
            "precision": self.precision, "sum_freq": self.interval or 10,
            "val_freq": self.val_every, "seed": self.seed, "world_size": 1,
            **self.user}

    def model_settings(self):
        own = self.model_options
        return {"iters": own.get("iters", ITERS),
                "dropout": own.get("dropout", 0.0),
                "gamma": own.get("gamma", GAMMA),
                "max_flow": own.get("max_flow", MAX_FLOW),
                "corr_levels": own.get("levels", LEVELS),
                "corr_radius": own.get("radius", RADIUS),
                "alternate_corr": False}

    def layer(self, part, block=0):
        return self.paths[part][block]

    def fed_by(self, layer):
        """The batch norm behind a convolution counts to it."""
        if not layer.startswith("cnet") or layer[-5:-1] != "conv" \
                or layer == "cnet.conv2":
            return []
        return [layer[:-5] + f"norm{layer[-1]}"]
