"""Actions by denoising, as diffusion policies are trained.

The trainer is real-stanford/diffusion_policy's, train.py with
train_diffusion_unet_lowdim_workspace: a U-Net over time takes the noise out of
a window of actions, told by what was seen at its beginning; AdamW, a cosine
with a warm-up, an average of the weights that the roll-outs have. Names of
parameters, options, lines and files are the trainer's; the net has two widths
and one residual block where the trainer has two, and the rate is higher, as a
run is short. The task is the benchmark's own: a disk is brought to a goal
around a post, on either side.
"""

import copy
import functools
import math
import pickle

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import EpochFamily

HORIZON, OBS_STEPS, ACTION_STEPS = 8, 2, 4
OBS, ACTION, ROWS, HELD = 9, 2, 64, 64
DIMS, GROUPS, KERNEL, EMBED = (24, 32), 4, 3, 16
TIMES, INFERENCE = 100, 5
ACTIVATIONS = models.ACTIVATIONS | {"mish": nn.Mish}

# The task.
LONG, DEMOS, LOADS = 24, 600, 3
KEPT = torch.tensor([0.1, 0.5, 0.65])[:, None]  # of a speed, by load
GAIN = torch.tensor([0.9, 0.5, 0.3])[:, None]
RADIUS, NEAR, PACE = 0.08, 0.5, 0.115
TEST_ENVS, LAST = 48, 8


class Table:
    """Disks on a table; a state is (rows, 9): place, speed, post, goal, load.

    What is commanded is a place, after which the disk is drawn by a spring
    that depends on its load. To follow the goal is learned first, then what
    each load asks for, then to go around the post, on one of the two sides.
    """

    def __init__(self, seed):
        self.rng = torch.Generator().manual_seed(seed)

    def randn(self, *size):
        return torch.randn(*size, generator=self.rng)

    def rand(self, *size):
        return torch.rand(*size, generator=self.rng)

    def fresh(self, rows, plain=False):
        """plain: posts are out of the way, and loads are the middle one."""
        angle = 2 * math.pi * self.rand(rows)
        out = torch.stack((angle.cos(), angle.sin()), 1)
        goal = 0.72 * out + 0.07 * self.randn(rows, 2)
        place = -0.72 * out + 0.1 * self.randn(rows, 2)
        post = 0.1 * self.randn(rows, 2)
        load = torch.randint(LOADS, (rows,), generator=self.rng)
        if plain:
            post, load = post + 2 * out.flip(1), torch.ones_like(load)
        return torch.cat((place, 0 * place, post, goal,
                          load[:, None].float()), 1)

    @staticmethod
    def step(state, action):
        """(state, hit)."""
        place, speed, rest = state[:, :2], state[:, 2:4], state[:, 4:]
        load = state[:, 8].long()
        speed = KEPT[load] * speed + GAIN[load] * (
            action - place).clamp(-0.5, 0.5)
        place = (place + speed).clamp(-1.5, 1.5)
        hit = (place - state[:, 4:6]).norm(dim=1) < RADIUS
        return torch.cat((place, speed, rest), 1), hit


def shown(state, way):
    """What an operator commands who passes posts on one side (1 or -1)."""
    place, speed, post, goal = state[:, :8].split(2, 1)
    load = state[:, 8].long()
    far, away = goal - place, place - post
    size = away.norm(dim=1, keepdim=True)
    ahead = far / far.norm(dim=1, keepdim=True).clamp_min(0.2)
    out = away / size.clamp_min(1e-3)
    side = torch.stack((-out[:, 1], out[:, 0]), 1) * way[:, None]
    # Behind the post nothing turns any more.
    facing = (-(out * ahead).sum(1, keepdim=True) + 0.6).clamp(0, 1)
    close = ((NEAR - size) / 0.25).clamp(0, 1) * facing
    wish = (1 - close) * ahead + close * (side + 0.5 * out
                                          * ((0.35 - size) / 0.1).clamp(-1, 1))
    return place + (PACE * wish - KEPT[load] * speed) / GAIN[load]


@functools.lru_cache(maxsize=4)
def demonstrations(seed, plain=False, count=DEMOS):
    """obs [demos, steps, 9], action [demos, steps, 2], side of the goal."""
    table = Table(seed)
    state = table.fresh(count, plain)
    way = (table.rand(count) < 0.5).float() * 2 - 1
    habit, seen, done = 0.0, [], []
    goal = state[:, 6:8]
    for _ in range(LONG):
        habit = 0.6 * habit + 0.03 * table.randn(count, 2)
        action = shown(state, way) + habit
        seen.append(state + 0.004 * table.randn(count, OBS))
        done.append(action)
        state, _ = table.step(state, action)
    side = (torch.atan2(goal[:, 1], goal[:, 0]) / (math.pi / 2)).floor()
    return {"obs": torch.stack(seen, 1), "action": torch.stack(done, 1),
            "side": side.long() % 4}


@functools.lru_cache(maxsize=1)
def limits():
    """(scale, offset) of obs and action, to [-1, 1] as the normalizer's mode
    "limits" has them."""
    found = {}
    for name in ("obs", "action"):
        x = demonstrations(31)[name].flatten(0, 1)
        low, high = x.amin(0), x.amax(0)
        scale = 2 / (high - low)
        found[name] = scale, -1 - scale * low
    return found


def draw_noise(rows, horizon, rng, times=TIMES):
    return {"noise": torch.randn(rows, horizon, ACTION, generator=rng),
            "timesteps": torch.randint(times, (rows,), generator=rng)}


class Windows:
    """SequenceSampler's windows of some demonstrations, drawn with
    replacement, with the noise and the times of a step.

    block, share: that share of a batch has goals on one side, the next one
    after so many batches, as files lie. domains: each row has its load.
    limit: steps of each demonstration that the loader keeps. plain: nothing is
    in the way.
    """

    def __init__(self, seed, rows=ROWS, horizon=HORIZON, block=None, share=1.0,
                 domains=False, limit=LONG, plain=False, times=TIMES):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.horizon, self.times = rows, horizon, times
        self.block, self.share, self.domains = block, share, domains
        self.limit, self.number = limit, 0
        self.data = demonstrations(32 if seed == 9 else 31, plain)
        self.of_side = [(self.data["side"] == k).nonzero()[:, 0]
                        for k in range(4)]

    def picked(self, rows):
        demo = torch.randint(DEMOS, (rows,), generator=self.rng)
        if self.block:
            own = self.of_side[self.number // self.block % 4]
            there = torch.rand(rows, generator=self.rng) < self.share
            near = own[torch.randint(len(own), (rows,), generator=self.rng)]
            demo = torch.where(there, near, demo)
        return demo

    def batch(self, rows=None):
        rows = rows or self.rows
        demo = self.picked(rows)
        self.number += 1
        first, last = 1 - OBS_STEPS, self.limit - self.horizon \
            + ACTION_STEPS - 1
        start = torch.randint(first, max(first, last) + 1, (rows, 1),
                              generator=self.rng)
        at = (start + torch.arange(self.horizon)).clamp(0, self.limit - 1)
        batch = {k: self.data[k][demo[:, None], at] for k in ("obs",
                                                              "action")}
        batch |= draw_noise(rows, self.horizon, self.rng, self.times)
        if self.domains:
            batch["domain"] = batch["obs"][:, 0, 8].round().long()
        return batch


class FewWindows(sources.Finite):
    """A set of some windows; times and noise are new in each pass."""

    def __init__(self, data, rows, seed):
        super().__init__(data, rows, seed)
        self.drawn = torch.Generator().manual_seed(seed + 1)

    def batch(self, rows=None):
        batch = super().batch(rows)
        return batch | draw_noise(*batch["action"].shape[:2], self.drawn)


# The network.

class SinusoidalPosEmb(nn.Module):
    def forward(self, t):
        half = EMBED // 2
        rate = (-math.log(10000) / (half - 1) * torch.arange(half)).exp()
        angle = t[:, None].float() * rate
        return torch.cat((angle.sin(), angle.cos()), -1)


class Conv1dBlock(nn.Module):
    def __init__(self, wide, out, act):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv1d(wide, out, KERNEL, padding=KERNEL // 2),
            nn.GroupNorm(GROUPS, out), act())

    def forward(self, x, name, through):
        x = through(f"{name}.block.0", self.block[0], x)
        return through(f"{name}.block.2", self.block[2], self.block[1](x))


class ConditionalResidualBlock1D(nn.Module):
    def __init__(self, wide, out, cond, act, dropout):
        super().__init__()
        self.blocks = nn.ModuleList([Conv1dBlock(wide, out, act),
                                     Conv1dBlock(out, out, act)])
        self.cond_encoder = nn.Sequential(nn.Mish(),
                                          nn.Linear(cond, 2 * out))
        self.residual_conv = nn.Identity() if wide == out \
            else nn.Conv1d(wide, out, 1)
        self.rate = dropout

    def forward(self, x, cond, name, through):
        y = self.blocks[0](x, f"{name}.blocks.0", through)
        said = through(f"{name}.cond_encoder.1", self.cond_encoder[1],
                       self.cond_encoder[0](cond))
        scale, bias = said[..., None].chunk(2, 1)
        y = scale * y + bias
        if self.training and self.rate:
            y = F.dropout(y, self.rate)
        y = self.blocks[1](y, f"{name}.blocks.1", through)
        return y + self.residual_conv(x)


class Resampled(nn.Module):
    """Downsample1d, or Upsample1d."""

    def __init__(self, wide, up):
        super().__init__()
        self.conv = nn.ConvTranspose1d(wide, wide, 4, 2, 1) if up \
            else nn.Conv1d(wide, wide, 3, 2, 1)


class ConditionalUnet1D(nn.Module):
    """As there, but that a second block at each place is nothing; of two
    widths the skip of the second alone is used, as there."""

    def __init__(self, activation, dropout):
        super().__init__()
        act = ACTIVATIONS[activation]
        one, two = DIMS
        cond = EMBED + OBS_STEPS * OBS

        def block(wide, out):
            return ConditionalResidualBlock1D(wide, out, cond, act, dropout)
        self.diffusion_step_encoder = nn.Sequential(
            SinusoidalPosEmb(), nn.Linear(EMBED, 4 * EMBED), nn.Mish(),
            nn.Linear(4 * EMBED, EMBED))
        self.mid_modules = nn.ModuleList([block(two, two)])
        self.down_modules = nn.ModuleList([
            nn.ModuleList([block(ACTION, one), nn.Identity(),
                           Resampled(one, False)]),
            nn.ModuleList([block(one, two), nn.Identity(),
                           nn.Identity()])])
        self.up_modules = nn.ModuleList([nn.ModuleList([
            block(2 * two, one), nn.Identity(), Resampled(one, True)])])
        self.final_conv = nn.Sequential(Conv1dBlock(one, one, act),
                                        nn.Conv1d(one, ACTION, 1))


class Group(nn.Module):
    """Tensors of the normalizer, which are no weights."""

    def __init__(self, scale, offset):
        super().__init__()
        self.register_buffer("scale", scale.clone())
        self.register_buffer("offset", offset.clone())

    def forward(self, x):
        return x.float() * self.scale.float() + self.offset.float()

    def back(self, x):
        return (x - self.offset.float()) / self.scale.float()


def cumulated(schedule, times):
    """alphas_cumprod of diffusers' DDPMScheduler."""
    if schedule == "linear":
        betas = torch.linspace(1e-4, 0.02 * 100 / times, times)
    elif schedule == "scaled_linear":
        betas = torch.linspace(0.01, (0.02 * 100 / times) ** 0.5, times) ** 2
    else:
        bar = [math.cos((k / times + 0.008) / 1.008 * math.pi / 2) ** 2
               for k in range(times + 1)]
        betas = torch.tensor([min(1 - b / a, 0.999)
                              for a, b in zip(bar, bar[1:])])
    return (1 - betas).cumprod(0)


class DiffusionUnetLowdimPolicy(nn.Module):
    """activation, dropout: of residual blocks. detach_after: the parts behind
    which the graph is cut. half_at: the convolution whose output is in half
    precision. logs: rows weigh by the logarithm of how far the goal is.
    prediction_type, beta_schedule, num_train_timesteps, horizon,
    n_action_steps: the policy's. output_max: what the normalizer makes of the
    largest values."""

    RESIDUAL = ("model.down_modules.0.0", "model.down_modules.1.0",
                "model.mid_modules.0", "model.up_modules.0.0")

    def __init__(self, activation="mish", dropout=0.0, detach_after=(),
                 half_at=None, logs=False, prediction_type="epsilon",
                 beta_schedule="squaredcos_cap_v2", num_train_timesteps=TIMES,
                 horizon=HORIZON, n_action_steps=ACTION_STEPS,
                 output_max=1.0):
        super().__init__()
        self.model = ConditionalUnet1D(activation, dropout)
        self.normalizer = nn.Module()
        self.normalizer.params_dict = nn.ModuleDict({
            k: Group(output_max * a, output_max * b)
            for k, (a, b) in limits().items()})
        self.detach_after = (detach_after,) if isinstance(
            detach_after, str) else tuple(detach_after)
        self.half_at, self.logs = half_at, logs
        self.kind, self.times = prediction_type, num_train_timesteps
        self.kept = cumulated(beta_schedule, num_train_timesteps)
        self.horizon, self.n_action_steps = horizon, n_action_steps
        # What training has instead: how much is kept at each time, and from
        # which step of a window on observations are taken.
        self.own_kept, self.own_first = None, 0
        self.late = 0       # steps by which observations of roll-outs are

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def through(self, name, layer, x):
        self.tap(f"{name}.input", x)
        y = layer(x)
        if name == self.half_at:
            y = y.half()
        self.tap(f"{name}.output", y)
        return self.cut(name, y.to(x.dtype))

    def cut(self, name, x):
        return x.detach() if name in self.detach_after else x

    def part(self, name, layer, x, cond):
        x = layer(x, cond, name, self.through)
        self.tap(f"{name}.output", x)
        return self.cut(name, x)

    def forward(self, sample, timesteps, seen):
        """sample [rows, horizon, 2], seen [rows, numbers]: both normalized."""
        net = self.model
        kind = net.final_conv[1].weight.dtype
        step = net.diffusion_step_encoder[0](timesteps).to(kind)
        for k in (1, 2, 3):
            step = self.through(f"model.diffusion_step_encoder.{k}",
                                net.diffusion_step_encoder[k], step)
        cond = torch.cat((step, seen.to(kind)), -1)
        x, skip = sample.to(kind).mT, None
        for i, (resnet, _, down) in enumerate(net.down_modules):
            name = f"model.down_modules.{i}"
            x = skip = self.part(f"{name}.0", resnet, x, cond)
            if i == 0:
                x = self.through(f"{name}.2.conv", down.conv, x)
        for i, layer in enumerate(net.mid_modules):
            x = self.part(f"model.mid_modules.{i}", layer, x, cond)
        x = torch.cat((x, skip), 1)
        (resnet, _, up), name = net.up_modules[0], "model.up_modules.0"
        x = self.part(f"{name}.0", resnet, x, cond)
        x = self.through(f"{name}.2.conv", up.conv, x)
        x = net.final_conv[0](x, "model.final_conv.0", self.through)
        return self.through("model.final_conv.1", net.final_conv[1], x).mT

    def normalized(self, name, x):
        return self.normalizer.params_dict[name](x)

    def shares(self, batch):
        """Of the actions and of the noise, in what is to be denoised."""
        kept = self.kept if self.own_kept is None or not self.training \
            else self.own_kept
        kept = kept[batch["timesteps"]][:, None, None]
        return kept.sqrt(), (1 - kept).sqrt()

    def logits(self, batch):
        """What is predicted; the other families' name for it."""
        first = self.own_first if self.training else 0
        seen = batch["obs"][:, first:first + OBS_STEPS]
        a, b = self.shares(batch)
        noisy = a * self.normalized("action", batch["action"]) \
            + b * batch["noise"]
        return self(noisy, batch["timesteps"],
                    self.normalized("obs", seen).flatten(1))

    def criterion(self, said, batch):
        action, noise = self.normalized("action", batch["action"]), \
            batch["noise"]
        a, b = self.shares(batch)
        wanted = {"epsilon": noise, "sample": action,
                  "v_prediction": a * noise - b * action}[self.kind]
        error = (said.float() - wanted).square()
        if not self.logs:
            return error.mean()
        last = batch["obs"][:, OBS_STEPS - 1]
        far = (last[:, 6:8] - last[:, :2]).norm(dim=1)
        self.tap("loss.log_distance.input", far)
        weight = 1 - 0.5 * far.log()
        self.tap("loss.log_distance.output", weight)
        return (weight * error.mean((1, 2))).mean()

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss

    # Sampling.

    def of_sample(self, said, x, kept):
        """The actions that a prediction stands for."""
        a, b = kept.sqrt(), (1 - kept).sqrt()
        if self.kind == "sample":
            return said
        return (x - b * said) / a if self.kind == "epsilon" \
            else a * x - b * said

    @torch.no_grad()
    def predict_action(self, obs, rng):
        """action_pred of obs [rows, steps, 9]; scheduler.step() of the DDPM,
        each so many of its times, with clip_sample and fixed_small."""
        seen = self.normalized("obs", obs).flatten(1)
        x = torch.randn(len(obs), self.horizon, ACTION, generator=rng)
        stride = self.times // INFERENCE
        for t in range(self.times - stride, -1, -stride):
            kept = self.kept[t]
            before = self.kept[t - stride] if t else torch.tensor(1.0)
            said = self(x, torch.full((len(x),), t), seen).float()
            clean = self.of_sample(said, x, kept).clamp(-1, 1)
            alpha = kept / before
            x = (before.sqrt() * (1 - alpha) * clean
                 + alpha.sqrt() * (1 - before) * x) / (1 - kept)
            noise = torch.randn(x.shape, generator=rng)
            if t:
                spread = (1 - before) / (1 - kept) * (1 - alpha)
                x = x + spread.clamp_min(1e-20).sqrt() * noise
        return self.normalizer.params_dict["action"].back(x)

    @torch.no_grad()
    def run_envs(self, rows=TEST_ENVS):
        """test/mean_score: how near the goal disks are in the last steps, with
        a fifth less for those that touch the post, always from the same
        states."""
        rng = torch.Generator().manual_seed(77)
        state = Table(5).fresh(rows)
        seen, near = [state] * OBS_STEPS, []
        free = torch.ones(rows, dtype=torch.bool)
        for _ in range(LONG // self.n_action_steps):
            known = seen[:-self.late] or seen[:1] if self.late else seen
            known = (known[:1] + known)[-OBS_STEPS:]
            action = self.predict_action(torch.stack(known, 1),
                                         rng).nan_to_num(0.0)
            for k in range(self.n_action_steps):
                state, hit = Table.step(state, action[:, OBS_STEPS - 1 + k])
                seen.append(state)
                free &= ~hit
                far = (state[:, 6:8] - state[:, :2]).norm(dim=1)
                near.append((1 - (far - 0.1) / 0.7).clamp(0, 1))
        near = torch.stack(near[-LAST:]).mean(0)
        return float((near * (0.8 + 0.2 * free)).mean())


# What feeds the activations of residual blocks.
BEFORE_ACT = tuple(f"{b}.blocks.{k}.block.1"
                   for b in DiffusionUnetLowdimPolicy.RESIDUAL for k in (0, 1))


class DpolicyRun(EpochFamily):
    """AdamW with betas of .95 and .999, warmed up, a cosine, no clipping; an
    epoch is max_train_steps, and has a validation and roll-outs."""

    family = "dpolicy"
    level_seed = 400
    steps, seed, language = 100, 6400, False
    optimizer_name, lr, weight_decay = "adamw", 6e-3, 1e-6
    betas = (0.9, 0.999)
    warmup, schedule, clip = 10, "cosine", None
    recipes = {"sgd": dict(lr=0.05, weight_decay=0.0)}
    base = {"lr": 3e-3, "betas": betas, "weight_decay": 1e-6}
    EPOCH = epoch_steps = 25
    TEST_STEPS = LONG
    batch_size, context = ROWS, HORIZON
    ema_options = {"update_after_step": 0, "inv_gamma": 1.0, "power": 0.75,
                   "min_value": 0.0, "max_value": 0.9999}
    validated = ("val_score", "val_action_mse_error")
    # Its users have what the trainer leaves.
    instead = {"nanogpt": "diffusion_policy", "hf_trainer": "diffusion_policy",
               "megatron": "diffusion_policy", "torchtune": "diffusion_policy"}
    RESIDUAL = DiffusionUnetLowdimPolicy.RESIDUAL
    layers = ["model.diffusion_step_encoder.1",
              "model.diffusion_step_encoder.3", *(
                  f"{b}{part}" for b in RESIDUAL for part in (
                      ".blocks.0.block.0", ".blocks.0.block.2",
                      ".cond_encoder.1", ".blocks.1.block.0",
                      ".blocks.1.block.2", "")),
              "model.down_modules.0.2.conv", "model.up_modules.0.2.conv",
              "model.final_conv.0.block.0", "model.final_conv.1"]
    graded = {
        "F01": (dict(factor=10), dict(factor=30), dict(factor=300)),
        "F02": (dict(lr=3.0), dict(lr=10.0), dict(lr=100.0)),
        "F03": (dict(factor=10), dict(factor=100), dict(factor=1000)),
        "F04": (dict(at=25), dict(at=12), dict(at=0)),
        "F05": (dict(modules=["model.mid_modules", "model.up_modules"],
                     where="model.mid_modules.0.blocks.0.block.0"),
                dict(modules=["model.final_conv"],
                     where="model.final_conv.0.block.0"),
                dict(part="all")),
        "F07": (dict(factor=15), dict(factor=40), dict(factor=150)),
        "F08": (dict(every=10), dict(every=30), dict(every=1 << 30)),
        "F11": (dict(adamw=5.0), dict(adamw=10.0), dict(adamw=50.0)),
        "F12": (dict(eps=0.02), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path="model.mid_modules.0",
                     more=["model.down_modules.1.0"]),
                dict(path="model.up_modules.0.0"),
                dict(path="model.up_modules.0.2.conv")),
        "F14": (dict(modules=["model.down_modules.1", "model.mid_modules",
                              "model.up_modules"]),
                dict(modules=["model.down_modules", "model.mid_modules",
                              "model.up_modules"]),
                dict(modules=["model.down_modules", "model.mid_modules",
                              "model.up_modules", "model.final_conv.0"])),
        "F15": (dict(at=75), dict(at=50), dict(at=25)),
        "F16": (dict(rate=0.1), dict(rate=0.3), dict(rate=1.0)),
        "F24": (dict(share=0.4), dict(share=0.6), dict(share=0.85)),
        "F26": (dict(steps=15, share=1.0), dict(steps=25, share=1.0),
                dict(steps=50, share=1.0)),
        "F27": (dict(epochs=320), dict(epochs=800), dict(epochs=1600)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=12), dict(limit=8), dict(limit=4)),
        "F34": (dict(factor=5), dict(factor=20), dict(factor=0)),
        "F36a": (dict(bias=-2.5), dict(bias=-5.0), dict(bias=-20.0)),
        "F36b": (dict(factor=30, kind="sigmoid"),
                 dict(factor=100, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F38": (dict(growth=1.04), dict(growth=1.07), dict(growth=1.12)),
        "F39a": (dict(at=75), dict(at=50), dict(at=25)),
        "F39b": (dict(at=60), dict(at=45), dict(at=20)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "F41": (dict(share=0.4, at=0, every=1),
                dict(share=0.7, at=50, every=1),
                dict(share=0.85, at=0, every=8)),
        "F43": (dict(kind="unreduced", at=30), dict(kind="skip", at=60),
                dict(kind="init", at=0)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(rows=48), dict(rows=36)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H10": (dict(steps=50), dict(steps=100)),
        "H11": (dict(steps=150, keep="block"), dict(steps=150, keep="head")),
        "H43": (dict(parts=2), dict(parts=3))}
    paths = {"embed": "{}.blocks.0.block.0", "attn": None, "scores": None,
             "act": "{}.blocks.0.block.2", "mlp": "{}.blocks.0.block.0",
             "block": "{}", "head": "model.final_conv.1"}
    always_trained = ("model.final_conv.0",)
    # By depth, and where faults sit.
    BLOCKS = ("model.down_modules.0.0", "model.mid_modules.0",
              "model.up_modules.0.0")
    blocks = len(BLOCKS)
    names = {"loss": "train_loss", "step": "global_step",
             "val_score": "test/mean_score",
             "val_action_mse_error": "train_action_mse_error",
             "tokens": None}
    LATEST = "checkpoints/latest.ckpt"

    def make_model(self):
        return DiffusionUnetLowdimPolicy(**self.model_options)

    # The average of the weights.

    def update(self, i):
        if i == 0:
            self.ema = {k: p.detach().clone()
                        for k, p in self.model.named_parameters()}
        total = super().update(i)
        self.follow(self.ema_decay(i))
        return total

    def ema_decay(self, i):
        own = self.ema_options
        step = max(0, i - own["update_after_step"] - 1)
        value = 1 - (1 + step / own["inv_gamma"]) ** -own["power"]
        return max(own["min_value"], min(value, own["max_value"])) \
            if step else 0.0

    @torch.no_grad()
    def follow(self, decay):
        torch._foreach_lerp_(list(self.ema.values()),
                             list(self.model.parameters()), 1 - decay)

    @torch.no_grad()
    def with_average(self, measure):
        """measure() while the model has the average's weights."""
        named = dict(self.model.named_parameters())
        own = {k: p.detach().clone() for k, p in named.items()}
        for k, p in named.items():
            p.copy_(self.ema[k])
        found = measure()
        for k, p in named.items():
            p.copy_(own[k])
        return found

    # Data.

    def make_source(self, seed):
        return self.windows(seed)

    def windows(self, seed, **how):
        """Those of validation always have all of each demonstration."""
        return Windows(seed, HELD if seed == 9 else self.batch_size,
                       self.model_options.get("horizon", HORIZON),
                       times=self.model_options.get("num_train_timesteps",
                                                    TIMES), **how)

    def in_blocks(self, seed, block, share):
        """Files of one side, one after the other; None is held out."""
        return self.windows(seed, block=block, share=share)

    def easy(self, seed):
        return self.windows(seed, plain=True)

    def lessons(self, seed):
        return self.easy(seed), self.windows(seed)

    def finite(self, data, seed):
        return FewWindows(data, self.batch_size, seed)

    def strangers(self, rows, rng):
        """Actions of windows that are not there."""
        return self.windows(int(torch.randint(1 << 30, (), generator=rng))
                            ).batch(rows)["action"]

    def garbage(self, batch, kind, rng):
        """A corrupt file: millimetres, noise, or a code of lost trackers."""
        return batch | {k: {
            "few": 1000 * batch[k], "uniform": 20 * torch.randn(
                batch[k].shape, generator=rng),
            "constant": torch.full_like(batch[k], -9999.0)}[kind]
            for k in ("obs", "action")}

    @staticmethod
    def arrived(batch):
        """Of one of the rows the disk is where its goal is."""
        obs = batch["obs"].clone()
        obs[0, :, :2] = obs[0, :, 6:8]
        return batch | {"obs": obs}

    @staticmethod
    def blank(batch):
        """Of one of the rows no sensor has said anything."""
        obs = batch["obs"].clone()
        obs[0] = 0.0
        return batch | {"obs": obs}

    @staticmethod
    def standardised(batch):
        """Each window of observations by its own mean and spread."""
        x = batch["obs"]
        return batch | {"obs": (x - x.mean((1, 2), keepdim=True))
                        / x.std((1, 2), keepdim=True)}

    # What is measured.

    def train(self):
        self.sampled = None
        super().train()

    def batch_columns(self, batch):
        """Keeps the first batch, of which actions are sampled."""
        if self.sampled is None:
            self.sampled = {k: batch[k].clone() for k in ("obs", "action")}
        return super().batch_columns(batch)

    def held_out_columns(self, batches):
        self.model.eval()

        def measure():
            policy, rng = self.model, torch.Generator().manual_seed(78)
            found = policy.predict_action(
                self.sampled["obs"][:, :OBS_STEPS], rng)
            return {"val_score": policy.run_envs(), "val_action_mse_error":
                    F.mse_loss(found, self.sampled["action"])}
        found = self.with_average(measure)
        self.model.train()
        self.scores = getattr(self, "scores", {}) | {
            len(self.history) + 1: found["val_score"]}
        return found

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        """Behind the second epoch, the last, and where a run is resumed
        from."""
        done = i + 1
        if done != self.steps and done not in self.notices \
                and done != 2 * self.EPOCH:
            return
        frozen = {k: t for k, t in model.state_dict().items()
                  if k.startswith("normalizer.")}
        self.checkpoints[done] = copy.deepcopy({
            "cfg": self.settings(), "state_dicts": {
                "model": model.state_dict(),
                "ema_model": self.ema | frozen,
                "optimizer": self.optimizer.state_dict()},
            "pickles": {"global_step": pickle.dumps(done),
                        "epoch": pickle.dumps(self.epoch(done) + 1)}})

    def epoch(self, done):
        return (done - 1) // self.EPOCH

    def checkpoint_path(self, done):
        return f"checkpoints/epoch={self.epoch(done):04d}-test_mean_score=" \
            f"{self.scores.get(done, 0.0):.3f}.ckpt"

    def write_more(self):
        super().write_more()
        (self.folder / "checkpoints").mkdir()
        last = max(self.checkpoints, default=None)
        for done, state in self.checkpoints.items():
            torch.save(state, self.folder / (
                self.LATEST if done == last else self.checkpoint_path(done)))

    # What the user typed, as hydra's config has it.

    def model_settings(self):
        return {}

    def settings(self):
        own = self.model_options
        horizon = own.get("horizon", HORIZON)
        done = own.get("n_action_steps", ACTION_STEPS)
        kinds = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD"}
        optimizer = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "betas": list(self.betas), "eps": self.eps}
        unet = {"_target_": "diffusion_policy.model.diffusion."
                            "conditional_unet1d.ConditionalUnet1D",
                "input_dim": ACTION, "local_cond_dim": None,
                "global_cond_dim": OBS * OBS_STEPS,
                "diffusion_step_embed_dim": EMBED, "down_dims": list(DIMS),
                "kernel_size": KERNEL, "n_groups": GROUPS,
                "cond_predict_scale": True}
        scheduler = {
            "_target_": "diffusers.schedulers.scheduling_ddpm.DDPMScheduler",
            "num_train_timesteps": own.get("num_train_timesteps", TIMES),
            "beta_start": 0.0001, "beta_end": 0.02,
            "beta_schedule": own.get("beta_schedule", "squaredcos_cap_v2"),
            "variance_type": "fixed_small", "clip_sample": True,
            "prediction_type": own.get("prediction_type", "epsilon")}
        return {
            "name": "train_diffusion_unet_lowdim",
            "task_name": "disk_lowdim", "exp_name": "default",
            "horizon": horizon, "n_obs_steps": OBS_STEPS,
            "n_action_steps": done, "n_latency_steps": 0,
            "obs_as_local_cond": False, "obs_as_global_cond": True,
            "pred_action_steps_only": False,
            "policy": {"_target_": "diffusion_policy.policy.diffusion_unet_"
                                   "lowdim_policy.DiffusionUnetLowdimPolicy",
                       "model": unet, "noise_scheduler": scheduler,
                       "horizon": horizon, "obs_dim": OBS,
                       "action_dim": ACTION, "n_action_steps": done,
                       "n_obs_steps": OBS_STEPS,
                       "num_inference_steps": INFERENCE,
                       "oa_step_convention": True},
            "ema": {"_target_": "diffusion_policy.model.diffusion.ema_model."
                                "EMAModel", **self.ema_options},
            "dataloader": {"batch_size": self.batch_size, "num_workers": 1,
                           "shuffle": True},
            "val_dataloader": {"batch_size": HELD, "num_workers": 1,
                               "shuffle": False},
            "optimizer": {"_target_": "torch.optim."
                          + kinds[self.optimizer_name], "lr": self.lr,
                          **optimizer, "weight_decay": self.weight_decay},
            "training": {
                "device": "cpu", "seed": self.seed, "resume": True,
                "lr_scheduler": self.schedule,
                "lr_warmup_steps": self.warmup, "num_epochs": self.epochs,
                "gradient_accumulate_every": self.accumulate,
                "max_grad_norm": self.clip, "precision": self.precision,
                "use_ema": True, "rollout_every": 1, "checkpoint_every": 2,
                "val_every": 1, "sample_every": 1,
                "max_train_steps": self.EPOCH, "max_steps": self.steps},
            "task": {"name": "disk_lowdim", "obs_dim": OBS,
                     "action_dim": ACTION, "dataset": {
                         "zarr_path": "data/disk/disk_demos.zarr",
                         "horizon": horizon, "pad_before": OBS_STEPS - 1,
                         "pad_after": done - 1},
                     "env_runner": {"n_test": TEST_ENVS, "max_steps": LONG,
                                    "n_obs_steps": OBS_STEPS,
                                    "n_action_steps": done}},
            "world_size": 1, **self.user}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(self.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it; a block has all."""
        return [layer[:-1] + "1"] if layer.endswith(".block.0") else []
