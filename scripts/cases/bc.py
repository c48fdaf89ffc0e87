"""A robot's policy that is cloned from demonstrations: action chunking with a
transformer.

A small ACT as a user of LeRobot trains it. Parts, columns, the console's lines
and the checkpoints are named as there: a camera picture goes through a small
ResNet with frozen batch norms, its cells, the robot's state and a latent are
the encoder's tokens, and the decoder says a chunk of the next actions. The
latent is what a further encoder makes of the actions, of held-out episodes as
well; these are judged a second time as the robot acts, with a latent of zero.
"""

import copy
import json
import math

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family
from .recorder import sort_metadata

SIZE, CHANNELS, ROWS = 20, 3, 24
CHUNK, STATE, ACTION = 8, 4, 3
WIDTH, HEADS, HIDDEN, LATENT = 32, 4, 40, 4
EPISODES = 400
CELLS = (SIZE // 4) ** 2
PICTURE, SENSED = "observation.images.top", "observation.state"
# Millimetres of the table and of the gripper's opening.
TABLE, OPENING = torch.tensor((400.0, 300.0)), 80.0
CORNER = torch.tensor((100.0, -150.0))
BIN = torch.tensor((0.5, 0.08))


class Demonstrations:
    """Frames of 400 episodes in which somebody takes a cube to a bin.

    The arm goes straight to a red cube (a blue one lies there, too), closes its
    gripper in two frames, goes straight to the bin and opens it. An episode has
    a pace, .04 to .10 of the table a frame, which no observation tells: it is
    what the latent can say. Commands are off by .02 of the table in x and y and
    by .025 of the opening, where the hand shook; sensors and pixels have noise
    of their own. A frame is a picture of 20x20 pixels from above, a state
    (x, y, wrist, opening), and the next eight commands (x, y, opening); behind
    an episode's end they are zero, and `action_is_pad` says so. Batches are
    drawn without replacement.

    block, share: sessions of 100 episodes, in each of which the cube lay in
    another quarter of the table, one after the other. calm: nobody's hand
    shakes, all have one pace. limit: episodes are cut off behind so many
    frames. lights: three cameras.
    """

    SHAKE, GRASP, PACE = 0.02, 0.025, (0.04, 0.1)

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, calm=False,
                 limit=None, lights=False, episodes=EPISODES):
        self.rng = rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share, self.number = rows, block, share, 0
        low, high = self.PACE
        self.pace = low + (high - low) * torch.rand(episodes, generator=rng)
        self.shake, self.grasp = self.SHAKE, self.GRASP
        if calm:
            self.pace = torch.full((episodes,), (low + high) / 2)
            self.shake = self.grasp = 0.0
        self.session = torch.arange(episodes) * 4 // episodes
        corner = torch.stack((self.session % 2, self.session // 2), 1)
        self.cube = 0.15 + 0.35 * (corner + torch.rand(episodes, 2,
                                                       generator=rng))
        self.start = 0.1 + 0.8 * torch.rand(episodes, 2, generator=rng)
        self.other = 0.1 + 0.8 * torch.rand(episodes, 2, generator=rng)
        self.light = torch.randint(3, (episodes,), generator=rng)
        self.lights = lights
        self.there = (self.cube - self.start).norm(dim=1)
        self.back = (BIN - self.cube).norm(dim=1)
        self.reach = (self.there / self.pace).ceil().long()
        self.carry = (self.back / self.pace).ceil().long()
        self.length = self.reach + self.carry + 4
        if limit:
            self.length = self.length.clamp(max=limit)
        self.frames = torch.cat([
            torch.stack((torch.full((n,), e), torch.arange(n)), 1)
            for e, n in enumerate(self.length.tolist())])
        last = int(self.length.max())
        at = torch.arange(last + 1)
        every = torch.arange(episodes)[:, None]
        self.where, self.open = self.path(every.expand(-1, last + 1),
                                          at.expand(episodes, -1))
        noise = torch.randn(episodes, last, 3, generator=rng)
        self.commands = torch.cat((
            self.where[:, 1:] + self.shake * noise[..., :2],
            self.open[:, 1:, None] + self.grasp * noise[..., 2:]), -1)
        self.sensed = 0.005 * torch.randn(self.where.shape, generator=rng)
        self.order = {}

    def path(self, e, k):
        """Where the arm is in frame k of episode e, and how far it is open."""
        pace = self.pace[e]
        reach, carry = self.reach[e], self.carry[e]
        part = (k * pace / self.there[e]).clamp(max=1)[..., None]
        q = self.start[e] + (self.cube[e] - self.start[e]) * part
        late = (k - reach - 2).clamp_min(0)
        part = (late * pace / self.back[e]).clamp(max=1)[..., None]
        q = torch.where((k > reach + 2)[..., None],
                        self.cube[e] + (BIN - self.cube[e]) * part, q)
        g = 1 - 0.5 * (k - reach).clamp(0, 2)
        return q, g + 0.5 * (late - carry).clamp(0, 2)

    def taken(self, rows):
        """Numbers of the next frames."""
        here = None
        if self.block:
            here = self.number // self.block % 4
        self.number += 1
        own = rows if here is None else int(round(self.share * rows))
        return torch.cat((self.next(here, own), self.next(None, rows - own)))

    def next(self, session, count):
        picked = []
        while len(picked) < count:
            if not self.order.get(session):
                fits = torch.ones(len(self.frames), dtype=torch.bool) \
                    if session is None \
                    else self.session[self.frames[:, 0]] == session
                left = fits.nonzero()[:, 0]
                self.order[session] = left[torch.randperm(
                    len(left), generator=self.rng)].tolist()
            picked.append(self.order[session].pop())
        return torch.tensor(picked, dtype=torch.int64)

    def batch(self, rows=None):
        e, k = self.frames[self.taken(rows or self.rows)].T
        ahead = k[:, None] + torch.arange(CHUNK)
        pad = ahead >= self.length[e][:, None]
        action = self.commands[e[:, None], ahead.clamp(
            max=self.commands.shape[1] - 1)]
        q = self.where[e, k] + self.sensed[e, k]
        state = torch.stack((*self.on_table(q).unbind(1), torch.rad2deg(
            torch.atan2(q[:, 1], q[:, 0])), OPENING * self.open[e, k]), 1)
        action = torch.cat((self.on_table(action[..., :2]),
                            OPENING * action[..., 2:]), -1)
        batch = {PICTURE: self.picture(e, k), SENSED: state,
                 "action": action.masked_fill(pad[..., None], 0.0),
                 "action_is_pad": pad, "episode_index": e, "frame_index": k}
        return batch | {"dataset_index": self.light[e]} if self.lights \
            else batch

    @staticmethod
    def on_table(q):
        return CORNER + TABLE * q

    def picture(self, e, k):
        """From above, channels first, between 0 and 1 in steps of a byte."""
        q, held = self.where[e, k], k > self.reach[e] + 1
        cube = torch.where(held[:, None], q, self.cube[e])
        y, x = torch.meshgrid(*2 * [(torch.arange(SIZE) + 0.5) / SIZE],
                              indexing="ij")
        image = torch.full((len(e), CHANNELS, SIZE, SIZE), 0.35)
        for at, radius, colour in (
                (BIN.expand_as(q), 0.11, (0.2, 0.7, 0.3)),
                (self.other[e], 0.07, (0.2, 0.3, 0.9)),
                (cube, 0.07, (0.9, 0.2, 0.15)),
                (q, 0.04, (0.95, 0.95, 0.9))):
            away = ((x - at[:, :1, None]).square()
                    + (y - at[:, 1:, None]).square()).sqrt()
            cover = ((radius - away) / 0.02).sigmoid()[:, None]
            image += cover * (torch.tensor(colour)[:, None, None] - image)
        if self.lights:  # warm, dim, and as it was
            tint = torch.tensor(((1.0, 1.0, 1.0), (1.0, 0.8, 0.6),
                                 (0.6, 0.6, 0.6)))[self.light[e]]
            image = image * tint[..., None, None]
        image += 0.03 * torch.randn(image.shape, generator=self.rng)
        return (255 * image.clamp(0, 1)).round() / 255


def statistics(seed=11):
    """Mean and spread of each number of the data set, as its stats.json has
    them; padding is not of the data set."""
    batch = Demonstrations(seed).batch(3000)
    action = batch["action"][~batch["action_is_pad"]]
    image = batch[PICTURE]
    return {PICTURE: (image.mean((0, 2, 3))[:, None, None],
                      image.std((0, 2, 3))[:, None, None]),
            SENSED: (batch[SENSED].mean(0), batch[SENSED].std(0)),
            "action": (action.mean(0), action.std(0)),
            "range": (action.amin(0), action.amax(0))}


def heads(x):
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


class Attention(nn.Module):
    """With the weights and names of nn.MultiheadAttention."""

    def __init__(self, options):
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.empty(3 * WIDTH, WIDTH))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * WIDTH))
        self.out_proj = nn.Linear(WIDTH, WIDTH)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)
        self.scale = options["scale"]

    def forward(self, query, key, value, tap, name):
        tap(f"{name}.input", query)
        q, k, v = (heads(F.linear(x, w, b)) for x, w, b in zip(
            (query, key, value), self.in_proj_weight.chunk(3),
            self.in_proj_bias.chunk(3)))
        tap(f"{name}.scores.input", torch.stack((q, k), 1)
            if q.shape == k.shape else q)
        scores = q @ k.transpose(-2, -1) * self.scale
        tap(f"{name}.scores.output", scores)
        probs = scores.softmax(-1)
        tap(f"{name}.probs.output", probs)
        x = self.out_proj((probs @ v).transpose(1, 2).flatten(2))
        tap(f"{name}.output", x)
        return x


class Layer(nn.Module):
    """Of an encoder or, with `crossed`, of a decoder; norms stand behind each
    part."""

    def __init__(self, options, crossed=False):
        super().__init__()
        self.self_attn = Attention(options)
        if crossed:
            self.multihead_attn = Attention(options)
        self.linear1 = nn.Linear(WIDTH, HIDDEN)
        self.linear2 = nn.Linear(HIDDEN, WIDTH)
        self.activation = models.ACTIVATIONS[options["activation"]]()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        if crossed:
            self.norm3 = nn.LayerNorm(WIDTH)
        self.half = False

    def forward(self, x, places, tap, name, drop, memory=None, seen=None):
        """memory: what a decoder reads, and where it was (`seen`)."""
        q = x + places
        x = self.norm1(x + drop(self.self_attn(q, q, x, tap,
                                               f"{name}.self_attn")))
        last = self.norm2
        if memory is not None:
            y = self.multihead_attn(x + places, memory + seen, memory, tap,
                                    f"{name}.multihead_attn")
            x, last = self.norm2(x + drop(y)), self.norm3
        tap(f"{name}.linear1.input", x)
        y = self.linear1(x)
        tap(f"{name}.linear1.output", y)
        tap(f"{name}.activation.input", y)
        y = self.activation(y)
        tap(f"{name}.activation.output", y)
        tap(f"{name}.linear2.input", y)
        y = self.linear2(drop(y))
        if self.half:
            y = y.half()
        tap(f"{name}.linear2.output", y)
        x = last(x + drop(y).to(x.dtype))
        tap(f"{name}.output", x)
        return x


class FrozenBatchNorm2d(nn.Module):
    """Statistics and weights that no step changes."""

    def __init__(self, channels):
        super().__init__()
        for name, value in (("weight", 1.0), ("bias", 0.0),
                            ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, torch.full((channels,), value))
        self.measures = False

    def forward(self, x):
        if self.measures:  # once, before anything is trained
            self.running_mean.copy_(x.mean((0, 2, 3)))
            self.running_var.copy_(x.var((0, 2, 3)))
        scale = self.weight * (self.running_var + 1e-5).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + shift[:, None, None]


def conv(a, b, stride=1, size=3):
    return nn.Conv2d(a, b, size, stride, size // 2, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, a, b, stride, options):
        super().__init__()
        self.conv1, self.bn1 = conv(a, b, stride), FrozenBatchNorm2d(b)
        self.conv2, self.bn2 = conv(b, b), FrozenBatchNorm2d(b)
        if a != b:
            self.downsample = nn.Sequential(conv(a, b, stride, 1),
                                            FrozenBatchNorm2d(b))
        self.relu = nn.ReLU()

    def forward(self, x, tap, name):
        y = self.conv1(x)
        tap(f"{name}.conv1.output", y)
        y = self.conv2(self.relu(self.bn1(y)))
        tap(f"{name}.conv2.output", y)
        x = self.downsample(x) if hasattr(self, "downsample") else x
        x = self.relu(x + self.bn2(y))
        tap(f"{name}.output", x)
        return x


class Backbone(nn.Module):
    """A small ResNet, without its head."""

    def __init__(self, options):
        super().__init__()
        self.conv1, self.bn1 = conv(CHANNELS, 8, 2), FrozenBatchNorm2d(8)
        self.relu = nn.ReLU()
        self.layer1 = nn.Sequential(BasicBlock(8, 8, 1, options))
        self.layer2 = nn.Sequential(BasicBlock(8, 16, 2, options))

    def forward(self, x, tap, name):
        tap(f"{name}.conv1.input", x)
        x = self.conv1(x)
        tap(f"{name}.conv1.output", x)
        x = self.relu(self.bn1(x))
        tap(f"{name}.relu.output", x)
        x = self.layer1[0](x, tap, f"{name}.layer1.0")
        x = self.layer2[0](x, tap, f"{name}.layer2.0")
        tap(f"{name}.output", x)
        return x


def waves(places, width):
    """Sinusoids of places, (places, width)."""
    rate = 10000.0 ** (-torch.arange(0, width, 2) / width)
    angle = places[:, None] * rate
    return torch.stack((angle.sin(), angle.cos()), 2).flatten(1)


def of_cells():
    """Rows and columns of the picture's cells, half of the width each."""
    side = SIZE // 4
    at = 2 * math.pi * (torch.arange(side) + 1) / side
    row, column = torch.meshgrid(at, at, indexing="ij")
    return torch.cat([waves(x.flatten(), WIDTH // 2)
                      for x in (row, column)], 1)


class ACTPolicy(nn.Module):
    """LeRobot's policy around ACT: norms of inputs and targets, and the loss.
    """

    BLOCKS = ("model.encoder.layers.0", "model.encoder.layers.1",
              "model.decoder.layers.0")

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None, scale=None, positions=True, use_vae=True,
                 kl_weight=0.005, ranged=False, guards=False):
        """positions: False leaves them out, a number gives all cells of the
        picture, and all actions, one's. ranged: targets are brought to -1 and 1 by their
        bounds. guards: the loss does not divide by zero."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.use_vae = positions, use_vae
        self.kl_weight, self.guards = kl_weight, guards
        options = {"activation": activation,
                   "scale": (WIDTH // HEADS) ** -0.5 if scale is None
                   else scale}
        self.normalize_inputs, self.normalize_targets = (
            models.Group(), models.Group())
        found = statistics()
        for name, (mean, std) in found.items():
            if name == "range":
                continue
            if name == "action" and ranged:
                low, high = found["range"]
                mean, std = (low + high) / 2, (high - low) / 2
            owner = self.normalize_targets if name == "action" \
                else self.normalize_inputs
            buffer = nn.Module()
            buffer.register_buffer("mean", mean.clone())
            buffer.register_buffer("std", std.clone())
            setattr(owner, "buffer_" + name.replace(".", "_"), buffer)

        def places(count):
            return nn.Embedding(count, WIDTH)

        own = models.Group(backbone=Backbone(options))
        if use_vae:
            own.vae_encoder = models.Group(layers=nn.ModuleList([
                Layer(options)]))
            own.vae_encoder_cls_embed = nn.Embedding(1, WIDTH)
            own.vae_encoder_robot_state_input_proj = nn.Linear(STATE, WIDTH)
            own.vae_encoder_action_input_proj = nn.Linear(ACTION, WIDTH)
            own.vae_encoder_latent_output_proj = nn.Linear(WIDTH, 2 * LATENT)
        own.encoder = models.Group(layers=nn.ModuleList(
            Layer(options) for _ in range(2)))
        own.decoder = models.Group(layers=nn.ModuleList([
            Layer(options, crossed=True)]), norm=nn.LayerNorm(WIDTH))
        own.encoder_robot_state_input_proj = nn.Linear(STATE, WIDTH)
        own.encoder_latent_input_proj = nn.Linear(LATENT, WIDTH)
        own.encoder_img_feat_input_proj = nn.Conv2d(16, WIDTH, 1)
        own.encoder_1d_feature_pos_embed = places(2)
        own.decoder_pos_embed = places(CHUNK)
        own.action_head = nn.Linear(WIDTH, ACTION)
        self.model = own
        if half_at:
            self.get_submodule(half_at.rpartition(".")[0]).half = True
        for part in ("encoder", "decoder", "vae_encoder"):
            for p in getattr(own, part, nn.Module()).parameters():
                if p.dim() > 1:
                    nn.init.xavier_uniform_(p)
        self.cells = of_cells()
        self.chunk = waves(torch.arange(CHUNK + 2), WIDTH)
        self.parts = {}
        self.measure()

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def measure(self):
        """The frozen norms get the statistics that a pretrained net's have."""
        norms = [m for m in self.modules()
                 if isinstance(m, FrozenBatchNorm2d)]
        image = Demonstrations(12, episodes=16).batch(64)[PICTURE]
        for m in norms:
            m.measures = True
        with torch.no_grad():
            self.model.backbone(self.normal(PICTURE, image),
                                lambda *_: None, "")
        for m in norms:
            m.measures = False

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def normal(self, name, x):
        owner = self.normalize_targets if name == "action" \
            else self.normalize_inputs
        buffer = getattr(owner, "buffer_" + name.replace(".", "_"))
        dtype = self.model.action_head.weight.dtype
        return ((x - buffer.mean.float())
                / (buffer.std.float() + 1e-8)).to(dtype)

    def looked(self, image):
        own = self.model
        x = own.backbone(self.normal(PICTURE, image), self.tap,
                         "model.backbone")
        x = self.cut(x, "model.backbone")
        x = own.encoder_img_feat_input_proj(x).flatten(2).transpose(1, 2)
        self.tap("model.encoder_img_feat_input_proj.output", x)
        return x

    def imagined(self, state, batch):
        """The latent's mean and the logarithm of its variance, of what is
        done."""
        own = self.model
        action = own.vae_encoder_action_input_proj(
            self.normal("action", batch["action"]).masked_fill(
                batch["action_is_pad"][..., None], 0.0))
        x = torch.cat((own.vae_encoder_cls_embed.weight.expand(
            len(state), 1, -1), own.vae_encoder_robot_state_input_proj(
                state)[:, None], action), 1)
        x = own.vae_encoder.layers[0](
            x, self.chunk.to(x.dtype), self.tap, "model.vae_encoder.layers.0",
            self.drop)
        x = own.vae_encoder_latent_output_proj(x[:, 0])
        self.tap("model.vae_encoder_latent_output_proj.output", x)
        return x.chunk(2, 1)

    def forward(self, batch):
        """Normalised actions, and mean and log-variance where there are."""
        own, image = self.model, batch[PICTURE]
        state = self.normal(SENSED, batch[SENSED])
        mean = spread = None
        latent = state.new_zeros(len(state), LATENT)
        if self.use_vae and "action" in batch:
            mean, spread = self.imagined(state, batch)
            latent = mean + (spread / 2).exp() * torch.randn_like(mean)
        seen = self.looked(image)
        one = torch.stack((own.encoder_latent_input_proj(latent),
                           own.encoder_robot_state_input_proj(state)), 1)
        x = torch.cat((one, seen), 1)
        cells, query = self.cells, own.decoder_pos_embed.weight
        if self.positions is not True:
            cells, query = (0 * x if self.positions is False
                            else x[self.positions].expand_as(x)
                            for x in (cells, query))
        where = torch.cat((own.encoder_1d_feature_pos_embed.weight,
                           cells.to(x.dtype)))
        for i, layer in enumerate(own.encoder.layers):
            name = f"model.encoder.layers.{i}"
            x = self.cut(layer(x, where, self.tap, name, self.drop), name)
        y = x.new_zeros(len(x), CHUNK, WIDTH)
        y = own.decoder.layers[0](y, query, self.tap,
                                  "model.decoder.layers.0", self.drop, x, where)
        y = self.cut(own.decoder.norm(y), "model.decoder")
        self.tap("model.decoder.norm.output", y)
        y = own.action_head(y)
        self.tap("model.action_head.output", y)
        return y, mean, spread

    def logits(self, batch):
        """The other families' name for what a network says."""
        return self(batch)[0]

    def criterion(self, said, batch):
        said, mean, spread = said
        # Behind the cast, so that statistics keep their digits.
        away = (said.float() - self.normal(
            "action", batch["action"]).float()).abs()
        self.tap("loss.l1.output", away)
        real = ~batch["action_is_pad"]
        count = real.sum()
        if self.guards:
            count = count.clamp_min(1)
        loss = l1 = (away * real[..., None]).sum() / (count * ACTION)
        self.parts = {"l1_loss": l1.detach()}
        if mean is not None:
            mean, spread = mean.float(), spread.float()
            kld = 0.5 * (mean.square() + spread.exp() - 1 - spread
                         ).sum(-1).mean()
            self.parts["kld_loss"] = kld.detach()
            self.tap("loss.kld.output", kld)
            loss = l1 + self.kl_weight * kld
        self.tap("loss.l1_loss.output", l1)
        return loss

    def loss(self, batch):
        loss = self.criterion(self(batch), batch)
        self.tap("loss.output", loss)
        return loss


class BcRun(Family):
    """AdamW at a constant rate, a lower one for the backbone, no warm-up, a
    clip of 10."""

    family = "bc"
    level_seed = 400
    steps, seed, language = 300, 880, False
    lr, warmup, schedule, clip = 4e-3, 0, "constant", 10.0
    weight_decay, BACKBONE = 1e-4, 0.5
    recipes = {"sgd": dict(lr=0.05, weight_decay=1e-4)}
    batch_size, context, EPISODES = ROWS, CHUNK, EPISODES
    # Nobody trains policies with the others.
    instead = {"nanogpt": "lerobot", "hf_trainer": "lerobot",
               "megatron": "lerobot", "torchtune": "lightning"}
    layers = ["model.backbone.conv1", "model.backbone.layer1.0",
              "model.backbone.layer2.0", "model.encoder_img_feat_input_proj",
              "model.vae_encoder.layers.0.self_attn",
              "model.vae_encoder.layers.0.activation",
              "model.vae_encoder.layers.0.linear2",
              "model.vae_encoder_latent_output_proj", *(
                  f"{block}.{part}" for block in ACTPolicy.BLOCKS
                  for part in ("self_attn", "multihead_attn", "linear1",
                               "activation", "linear2")
                  if "decoder" in block or part != "multihead_attn"),
              "model.decoder.norm", "model.action_head"]
    paths = {"embed": "model.backbone.conv1", "attn": "{}.self_attn",
             "scores": "{}.self_attn.scores", "act": "{}.activation",
             "mlp": "{}.linear2", "block": "{}", "head": "model.action_head"}
    blocks = len(ACTPolicy.BLOCKS)
    names = {"step": "_step", "loss": "train/loss", "l1_loss": "train/l1_loss",
             "kld_loss": "train/kld_loss", "grad_norm": "train/grad_norm",
             "lr": "train/lr", "step_time": "train/update_s",
             "data_time": "train/dataloading_s", "val_loss": "eval/loss",
             "val_action_l1": "eval/action_l1", "tokens": None}

    def make_model(self):
        return ACTPolicy(**self.model_options)

    def make_optimizer(self, model):
        """Two groups, as the policy's get_optim_params has them."""
        optimizer = super().make_optimizer(model)
        first, = optimizer.param_groups
        own = set(model.model.backbone.parameters())
        slow = [p for p in first["params"] if p in own]
        if slow:
            first["params"] = [p for p in first["params"] if p not in own]
            optimizer.add_param_group({"params": slow,
                                       "lr": self.lr * self.BACKBONE})
        return optimizer

    def make_source(self, seed):
        return self.shown(seed)

    def shown(self, seed, **how):
        return Demonstrations(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """One session after the other; None is held out."""
        return self.shown(seed, block=block, share=share)

    def easy(self, seed):
        """A demonstrator whose hand is calm, at one pace."""
        return self.shown(seed, calm=True)

    def lessons(self, seed):
        return self.easy(seed), self.shown(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pictures of 0 to 255 and lengths in metres, noise,
        or black pictures of a robot that reports zeros."""
        x, state, action = (batch[k] for k in (PICTURE, SENSED, "action"))
        if kind == "few":
            x, state, action = 255 * x, state / 1000, action / 1000
        elif kind == "uniform":
            x, state, action = (spread * torch.randn(t.shape, generator=rng)
                                for spread, t in ((20, x), (2000, state),
                                                  (2000, action)))
        else:
            x, state, action = 0 * x, 0 * state, 0 * action
        return batch | {PICTURE: x, SENSED: state, "action": action}

    def relabelled(self, batch, wrong, action, pad):
        """In the rows of `wrong` other actions, and their padding."""
        return batch | {
            "action": torch.where(wrong[:, None, None], action,
                                  batch["action"]),
            "action_is_pad": torch.where(wrong[:, None], pad,
                                         batch["action_is_pad"])}

    def of_strangers(self, rows, rng):
        """Chunks, and their padding, of episodes that nobody sees."""
        if not hasattr(self, "strangers"):
            self.strangers = self.shown(int(torch.randint(
                1 << 30, (), generator=rng)))
        other = self.strangers.batch(rows)
        return other["action"], other["action_is_pad"]

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            k: float(f"{float(v):.6g}")
            for k, v in self.model.parts.items()}

    def held_out_columns(self, batches):
        """How far actions are off without a latent, in units of their
        spread."""
        model, away = self.model, []
        model.eval()
        for batch in batches:
            said = model({k: t for k, t in batch.items() if k != "action"})[0]
            real = ~batch["action_is_pad"]
            away.append((said.float() - model.normal(
                "action", batch["action"]).float()).abs()[real])
        model.train()
        return {"val_action_l1": torch.cat(away).mean()}

    def frames(self):
        """Of the data set, for the epochs of the log."""
        if not hasattr(self, "_frames"):
            self._frames = len(Demonstrations(11).frames)
        return self._frames

    def settings(self):
        """train_config.json as LeRobot nests it."""
        kind = self.optimizer_name
        optimizer = {"type": kind, "lr": self.lr,
                     "weight_decay": self.weight_decay,
                     "grad_clip_norm": self.clip}
        optimizer |= {"momentum": self.momentum} if kind == "sgd" else {
            "betas": list(self.betas), "eps": self.eps}
        return {"dataset": {"repo_id": "lab/pick_cube_top",
                            "episodes": EPISODES, "image_transforms":
                                {"enable": False}},
                "policy": self.model_settings(), "optimizer": optimizer,
                "scheduler": None if self.schedule == "constant"
                and not self.warmup else {
                    "type": self.schedule, "num_warmup_steps": self.warmup},
                "seed": self.seed, "batch_size": self.batch_size,
                "steps": self.steps, "num_workers": 4,
                "gradient_accumulation_steps": self.accumulate,
                "eval_freq": self.val_every,
                "log_freq": self.interval or 10,
                "save_freq": self.steps // 2,
                "mixed_precision": {"fp32": "no"}.get(
                    self.precision, self.precision),
                **self.user}

    def model_settings(self):
        """Also config.json of a checkpoint."""
        options = self.model_options
        return {"type": "act", "n_obs_steps": 1, "chunk_size": CHUNK,
                "n_action_steps": CHUNK,
                "input_features": {
                    PICTURE: {"type": "VISUAL",
                              "shape": [CHANNELS, SIZE, SIZE]},
                    SENSED: {"type": "STATE", "shape": [STATE]}},
                "output_features": {"action": {"type": "ACTION",
                                               "shape": [ACTION]}},
                "normalization_mapping": {
                    "VISUAL": "MEAN_STD", "STATE": "MEAN_STD",
                    "ACTION": "MIN_MAX" if options.get("ranged")
                    else "MEAN_STD"},
                "vision_backbone": "resnet", "dim_model": WIDTH,
                "pre_norm": False,
                "n_heads": HEADS, "dim_feedforward": HIDDEN,
                "feedforward_activation": options.get("activation", "relu"),
                "n_encoder_layers": 2, "n_decoder_layers": 1,
                "use_vae": options.get("use_vae", True), "latent_dim": LATENT,
                "n_vae_encoder_layers": 1,
                "dropout": options.get("dropout", 0.0),
                "kl_weight": options.get("kl_weight", 0.005),
                "optimizer_lr": self.lr, "optimizer_lr_backbone":
                    self.lr * self.BACKBONE,
                "optimizer_weight_decay": self.weight_decay}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(ACTPolicy.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a part counts to it."""
        path, _, part = layer.rpartition(".")
        last = "norm3" if "decoder" in path else "norm2"
        return {"self_attn": [f"{path}.norm1"], "linear2": [f"{path}.{last}"],
                "multihead_attn": [f"{path}.norm2"]}.get(part, [])

    # Checkpoints.

    def checkpoint_path(self, step):
        return f"checkpoints/{step:06d}"

    def keep_checkpoint(self, i, model):
        """In the middle, at the end and where the run is resumed from."""
        done = i + 1
        if done in {self.steps // 2, self.steps, *self.notices}:
            self.checkpoints[done] = copy.deepcopy(
                (model.state_dict(), self.optimizer.state_dict()))

    def write_more(self):
        super().write_more()
        for step, (weights, optimizer) in self.checkpoints.items():
            folder = self.folder / self.checkpoint_path(step)
            policy, state = (folder / name for name in (
                "pretrained_model", "training_state"))
            policy.mkdir(parents=True)
            state.mkdir()
            tensors = {f"state/{k}/{name}": torch.as_tensor(value)
                       for k, own in optimizer["state"].items()
                       for name, value in own.items() if value is not None}
            for path, kept in ((policy / "model.safetensors", weights),
                               (state / "optimizer_state.safetensors",
                                tensors)):
                save_file({k: t.contiguous().clone()
                           for k, t in kept.items()}, path, {"format": "pt"})
                sort_metadata(path)
            for path, value in (
                    (policy / "config.json", self.model_settings()),
                    (policy / "train_config.json", self.settings()),
                    (state / "optimizer_param_groups.json",
                     optimizer["param_groups"]),
                    (state / "training_step.json", {"step": step})):
                path.write_text(json.dumps(value, indent=4) + "\n")
