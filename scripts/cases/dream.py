"""A small DreamerV3: a world model of a boat on a pond, and an actor and a
critic that learn in what it imagines.

As people train it with dreamerv3-torch on a folder of episodes that somebody
has recorded (offline_traindir): parts, columns, the console, configs.yaml and
latest.pt are named as there. The loss that is logged and validated is the
world model's; what actor and critic add goes into the gradient alone.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import Family
from .models import Group
from .recorder import short

ROWS, LENGTH, SENSORS, ACTIONS, KINDS = 32, 6, 6, 5, 4
UNITS, DETER, STOCH, DISCRETE = 40, 40, 6, 6
LATENT = STOCH * DISCRETE
BINS, REACH = 17, 4.0
HORIZON, LIMIT, UNIMIX = 4, 24, 0.01
DISCOUNT, LAMBDA = 0.9, 0.95
WM, TASK = "_wm", "_task_behavior"
RSSM = f"{WM}.dynamics"
ENCODER = f"{WM}.encoder._mlp.layers.Encoder"
DECODER = f"{WM}.heads.decoder._mlp.layers.Decoder"
REWARD = f"{WM}.heads.reward"
CONT = f"{WM}.heads.cont"
HEAD = f"{WM}.heads.decoder._mlp.mean_layer.vector"
PUSH = torch.tensor([(0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0),
                     (0.0, -1.0)])


def symlog(x):
    return x.sign() * x.abs().log1p()


def symexp(x):
    return x.sign() * x.abs().expm1()


class Pond:
    """Boats on a square pond, each on a way of its own.

    A boat has five actions: nothing, or a push along an axis. Its speed keeps
    .7 from step to step, gets .3 of the push and the wind, which is an
    episode's (a normal of .06 in each direction) and which no sensor has; nor
    has any the speed. A buoy lies in one of four quarters, the kind of the
    episode, and a lamp turns by .5, .8 or 1.1 a step, another way in each
    episode. Sensors are the places of boat and buoy and where the lamp points,
    six numbers of a deviation of about 1 under noise of .25. The reward is 1
    less the distance from the buoy, under noise of .1. At the bank a boat runs
    aground with .3, which ends the episode; behind 24 steps it ends as well,
    but that is no end for the critic.

    calm: neither wind nor half of the noise, and a buoy of one kind. boats:
    three, of another offset of the sensors each. limit: steps of an episode.
    """

    NOISE, WIND, GRAIN, AGROUND = 0.25, 0.06, 0.1, 0.3
    RATES = torch.tensor((0.5, 0.8, 1.1))

    def __init__(self, rng, kind, calm=False, boats=False, limit=LIMIT):
        self.rng, self.kind, self.rows = rng, kind, len(kind)
        self.noise = self.NOISE / 2 if calm else self.NOISE
        self.wind_size = 0.0 if calm else self.WIND
        self.limit = limit
        self.boat = torch.randint(3, (self.rows,), generator=rng) \
            if boats else None
        rows = self.rows
        self.place = torch.zeros(rows, 2)
        self.speed, self.wind, self.buoy = (
            torch.zeros(rows, 2) for _ in range(3))
        self.lamp, self.rate = torch.zeros(rows), torch.zeros(rows)
        self.wild = torch.zeros(rows)
        self.age = torch.zeros(rows, dtype=torch.int64)
        self.reset(torch.ones(rows, dtype=torch.bool))

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def uniform(self, *shape):
        return torch.rand(shape, generator=self.rng)

    def reset(self, which):
        rows, column = self.rows, which[:, None]
        corner = torch.stack((self.kind % 2, self.kind // 2), 1) - 0.5
        turned = self.RATES[torch.randint(3, (rows,), generator=self.rng)] \
            * (2 * torch.randint(2, (rows,), generator=self.rng) - 1)
        for name, new in (
                ("place", 1.6 * self.uniform(rows, 2) - 0.8),
                ("speed", torch.zeros(rows, 2)),
                ("wind", self.wind_size * self.normal(rows, 2)),
                ("buoy", corner)):
            setattr(self, name, torch.where(column, new, getattr(self, name)))
        for name, new in (("lamp", 2 * math.pi * self.uniform(rows)),
                          ("rate", turned),
                          ("wild", 0.2 + 0.7 * self.uniform(rows).round()),
                          ("age", torch.zeros(rows, dtype=torch.int64))):
            setattr(self, name, torch.where(which, new, getattr(self, name)))

    def act(self, action):
        """One step; says who has run aground."""
        self.speed = 0.7 * self.speed + 0.3 * PUSH[action] + self.wind
        there = self.place + 0.35 * self.speed
        self.place = there.clamp(-1, 1)
        self.lamp = self.lamp + self.rate
        self.age = self.age + 1
        bank = (there != self.place).any(1)
        return bank & (self.uniform(self.rows) < self.AGROUND)

    def away(self):
        return (self.place - self.buoy).norm(dim=1)

    def true(self):
        """What sensors without noise would say."""
        lamp = torch.stack((self.lamp.cos(), self.lamp.sin()), 1)
        x = torch.cat((2.5 * self.place, 2.5 * self.buoy, lamp), 1)
        if self.boat is not None:
            x = x + 0.6 * (self.boat[:, None] - 1.0)
        return x

    def sensed(self):
        return self.true() + self.noise * self.normal(self.rows, SENSORS)

    def steered(self):
        """What whoever recorded the episodes does: towards the buoy, or, with
        .2 or .9, anything."""
        lead = self.buoy - self.place - 0.5 * self.speed
        axis = lead.abs().argmax(1)
        back = lead.gather(1, axis[:, None])[:, 0] < 0
        any_ = torch.randint(ACTIONS, (self.rows,), generator=self.rng)
        return torch.where(self.uniform(self.rows) < self.wild, any_,
                           1 + 2 * axis + back)


class Replay:
    """Windows of six steps of what 640 boats did in 48 steps each, one
    episode after the other; the first step of a window begins anew. An action
    is the one that has led to its step.

    kinds: of buoys. block, share: so many batches of one kind, then of the
    next. stride: a window has every so many-th step alone. length: steps.
    times: a batch has so many times as many rows.
    """

    STREAMS, STEPS = 640, 48

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, stride=1,
                 length=LENGTH, times=1, **pond):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.times = rows, times
        self.length, self.stride = length, stride
        self.block, self.share, self.number = block, share, 0
        self.kind = torch.arange(self.STREAMS) % KINDS
        if pond.get("calm"):
            self.kind = 0 * self.kind
        pond = Pond(self.rng, self.kind, **pond)
        self.boat = pond.boat
        kept = {k: [] for k in ("vector", "action", "reward", "is_first",
                                "is_terminal", "true")}
        first = torch.ones(self.STREAMS, dtype=torch.bool)
        action = torch.zeros(self.STREAMS, dtype=torch.int64)
        ended = torch.zeros(self.STREAMS, dtype=torch.bool)
        for _ in range(self.STEPS):
            one = F.one_hot(action, ACTIONS).float() * ~first[:, None]
            reward = 1 - pond.away() + pond.GRAIN * pond.normal(self.STREAMS)
            for k, t in (("vector", pond.sensed()), ("action", one),
                         ("reward", reward * ~first),
                         ("is_first", first.float()), ("true", pond.true()),
                         ("is_terminal", ended.float())):
                kept[k].append(t)
            over = ended | (pond.age >= pond.limit)
            action = pond.steered()
            ended = pond.act(action) & ~over
            pond.reset(over)
            first = over
        self.kept = {k: torch.stack(t, 1) for k, t in kept.items()}
        self.true = self.kept.pop("true")

    def batch(self, rows=None):
        rows = self.times * (rows or self.rows)
        stream = torch.randint(self.STREAMS, (rows,), generator=self.rng)
        if self.block:
            here = self.number // self.block % KINDS
            own = torch.rand(rows, generator=self.rng) < self.share
            stream = torch.where(own, stream // KINDS * KINDS + here, stream)
        self.number += 1
        last = self.STEPS - (self.length - 1) * self.stride
        begin = torch.randint(last, (rows, 1), generator=self.rng)
        at = begin + self.stride * torch.arange(self.length)
        batch = {k: t[stream[:, None], at] for k, t in self.kept.items()}
        if self.stride > 1:     # what has begun on the way begins here
            begun = self.kept["is_first"].cumsum(1)[stream[:, None], at]
            batch["is_first"][:, 1:] = (begun[:, 1:] > begun[:, :-1]).float()
        batch["is_first"][:, 0] = 1.0
        if self.boat is not None:
            batch["domain"] = self.boat[stream]
        return batch


def twohot(x):
    """Shares of the two bins beside symlog(x)."""
    at = (symlog(x).clamp(-REACH, REACH) + REACH) * (BINS - 1) / (2 * REACH)
    low = at.nan_to_num().floor().clamp(max=BINS - 2)
    upper = (at - low)[..., None]
    low = low.long()
    return F.one_hot(low, BINS) * (1 - upper) + F.one_hot(low + 1, BINS) * upper


def best(seed=9, draws=64):
    """The loss that who knows the true state of each step has: noise of the
    sensors, entropies of reward and end, and the bits that are free."""
    data, rng = Replay(seed), torch.Generator().manual_seed(1)
    true = data.true[:, :, None]
    decoder = SENSORS * Pond.NOISE ** 2
    away = (true[..., 0, :2] - true[..., 0, 2:4]).norm(dim=-1) / 2.5
    drawn = 1 - away[..., None] + Pond.GRAIN * torch.randn(
        *away.shape, draws, generator=rng)
    share = twohot(drawn).mean(2)
    entropy = -(share * share.clamp_min(1e-9).log()).sum(-1)
    reward = float((entropy * (1 - data.kept["is_first"])).mean())
    bank = (true[..., 0, :2].abs() >= 2.5 - 1e-6).any(-1)
    ends = data.kept["is_terminal"][bank].mean()
    cont = float(-(ends * ends.log() + (1 - ends) * (1 - ends).log())
                 * bank.float().mean())
    return {"vector_loss": decoder, "reward_loss": reward, "cont_loss": cont,
            "free": 0.6, "total": decoder + reward + cont + 0.6}


def dense(prefix, width, depth, wide, act):
    """An MLP's parts by the names that dreamerv3-torch gives them."""
    layers = nn.Sequential()
    for k in range(depth):
        layers.add_module(f"{prefix}_linear{k}",
                          nn.Linear(width, wide, bias=False))
        layers.add_module(f"{prefix}_norm{k}", nn.LayerNorm(wide, 1e-3))
        layers.add_module(f"{prefix}_act{k}", act())
        width = wide
    return layers


def plain(width, wide, act):
    return nn.Sequential(nn.Linear(width, wide, bias=False),
                         nn.LayerNorm(wide, 1e-3), act())


def uniform_mix(logits):
    """Probabilities that are never far from even."""
    probs = logits.float().softmax(-1)
    return torch.add(UNIMIX / probs.shape[-1], probs, alpha=1 - UNIMIX)


def grouped(logits):
    return uniform_mix(logits.unflatten(-1, (STOCH, DISCRETE)))


def divergence(a, b):
    """KL of the one from the other, in nats, over all groups."""
    return (a * (a.log() - b.log())).sum((-2, -1))


def entropy(probs):
    return -(probs * probs.log()).sum(-1)


class Dreamer(nn.Module):
    """World model and task behaviour; see the top of the file."""

    ACTS = (f"{ENCODER}_act0", f"{RSSM}._img_in_layers.2",
            f"{RSSM}._obs_out_layers.2", f"{RSSM}._img_out_layers.2",
            f"{DECODER}_act0", f"{REWARD}.layers.Reward_act0",
            f"{CONT}.layers.Cont_act0", f"{TASK}.actor.layers.Actor_act0",
            f"{TASK}.value.layers.Value_act0")
    # The norms that feed them.
    NORMS = tuple(a.replace("_act0", "_norm0").replace("layers.2", "layers.1")
                  for a in ACTS)

    def __init__(self, activation="silu", dropout=0.0, detach_after=None,
                 half_at=None, free=1.0, entropy=1e-2, hold=1, changes=0):
        """detach_after: the part behind which the graph is cut. half_at: the
        map whose output is in half precision. free: nats of the KL that cost
        nothing. hold: a latent is kept for so many steps. changes: of the
        sensors so many are given as what they have changed by."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.half_at, self.free, self.entropy = half_at, free, entropy
        self.hold, self.changes = hold, changes
        self.observes, self.behaves = 1, True
        self.squashes, self.keeps, self.centred = False, None, None
        act = models.ACTIVATIONS[activation]
        wide, feat = UNITS, LATENT + DETER
        rssm = Group(
            _img_in_layers=plain(LATENT + ACTIONS, wide, act),
            _cell=Group(layers=nn.Sequential()),
            _img_out_layers=plain(DETER, wide, act),
            _obs_out_layers=plain(DETER + wide, wide, act),
            _imgs_stat_layer=nn.Linear(wide, LATENT),
            _obs_stat_layer=nn.Linear(wide, LATENT))
        rssm._cell.layers.add_module("GRU_linear", nn.Linear(
            wide + DETER, 3 * DETER, bias=False))
        rssm._cell.layers.add_module("GRU_norm", nn.LayerNorm(3 * DETER, 1e-3))
        rssm.W = nn.Parameter(torch.zeros(1, DETER))
        heads = nn.ModuleDict({
            "decoder": Group(_mlp=Group(
                layers=dense("Decoder", feat, 2, wide, act),
                mean_layer=nn.ModuleDict({"vector": nn.Linear(wide,
                                                              SENSORS)}))),
            "reward": Group(layers=dense("Reward", feat, 1, wide, act),
                            mean_layer=nn.Linear(wide, BINS)),
            "cont": Group(layers=dense("Cont", feat, 1, wide, act),
                          mean_layer=nn.Linear(wide, 1))})
        self._wm = Group(
            encoder=Group(_mlp=Group(
                layers=dense("Encoder", SENSORS, 2, wide, act))),
            dynamics=rssm, heads=heads)

        def critic():
            return Group(layers=dense("Value", feat, 1, wide, act),
                         mean_layer=nn.Linear(wide, BINS))
        self._task_behavior = Group(
            actor=Group(layers=dense("Actor", feat, 1, wide, act),
                        mean_layer=nn.Linear(wide, ACTIONS)),
            value=critic(), _slow_value=critic())
        self._task_behavior.register_buffer("ema_vals", torch.zeros(2))
        for m in self.modules():
            if isinstance(m, nn.Linear):
                std = (2 / sum(m.weight.shape)) ** 0.5 / 0.87962566
                nn.init.trunc_normal_(m.weight, std=std, a=-2 * std, b=2 * std)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        own = self._task_behavior
        for layer in (heads["reward"].mean_layer, own.value.mean_layer):
            nn.init.zeros_(layer.weight)
        own._slow_value.load_state_dict(own.value.state_dict())
        own._slow_value.requires_grad_(False)
        self.ways = {name: [
            (f"{name}.{k}", "act" in k or k == "2")
            for k, _ in self.get_submodule(name).named_children()]
            for name in (
                f"{WM}.encoder._mlp.layers", f"{RSSM}._img_in_layers",
                f"{RSSM}._obs_out_layers", f"{RSSM}._img_out_layers",
                f"{RSSM}._cell.layers", f"{WM}.heads.decoder._mlp.layers",
                f"{REWARD}.layers", f"{CONT}.layers",
                f"{TASK}.actor.layers", f"{TASK}.value.layers")}
        self.found = {}         # parts of the pass that runs
        self.dice = None        # of held-out data, which is judged alike
        self.parts, self.silent, self.series = {}, False, {}

    def __deepcopy__(self, memo):
        """What was found of parts is not the copy's."""
        self.found = {}
        new = type(self)()
        memo[id(self)] = new
        for key, value in vars(self).items():
            if key != "tap":
                vars(new)[key] = copy.deepcopy(value, memo)
        return new

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    # Parts.

    def say(self, name, x):
        """Taps a part; one that runs step by step has all steps in the end."""
        if self.silent:
            return
        if self.stepwise:
            self.series.setdefault(name, []).append(x)
        else:
            self.tap(name, x)

    def own(self, name):
        """A part as it is in this pass: a fault may put in another."""
        if name not in self.found:
            self.found[name] = self.get_submodule(name)
        return self.found[name]

    def part(self, name, x):
        module = self.own(name)
        x = module(x.to(module.weight.dtype))
        return self.left(name, x)

    def left(self, name, x):
        if self.half_at == name:
            x = x.half()
        self.say(f"{name}.output", x)
        return x.detach() if self.detach_after == name else x

    def through(self, way, x):
        for name, is_act in self.ways[way]:
            module = self.own(name)
            if is_act:
                self.say(f"{name}.input", x)
                x = self.left(name, module(x))
                if self.dropout:
                    x = F.dropout(x, self.dropout, self.training)
            else:
                x = self.left(name, module(x.to(module.weight.dtype)))
        return x

    def draw(self, probs):
        """One of each group; gradients go past it."""
        noise = torch.empty_like(probs).exponential_(generator=self.dice)
        at = (probs.detach() / noise).argmax(-1, keepdim=True)
        one = torch.zeros_like(probs).scatter_(-1, at, 1.0)
        if probs.requires_grad:
            one = one + (probs - probs.detach())
        return one.flatten(-2) if probs.shape[-2:] == (STOCH, DISCRETE) \
            else one

    def cell(self, x, deter):
        y = self.through(f"{RSSM}._cell.layers", torch.cat((x, deter), -1))
        reset, new, update = y.chunk(3, -1)
        new = (reset.sigmoid() * new).tanh()
        update = (update - 1).sigmoid()
        return self.left(f"{RSSM}._cell", update * new + (1 - update) * deter)

    def prior(self, deter):
        return grouped(self.part(f"{RSSM}._imgs_stat_layer", self.through(
            f"{RSSM}._img_out_layers", deter)))

    def imagine(self, stoch, action, deter):
        return self.cell(self.through(f"{RSSM}._img_in_layers", torch.cat(
            (stoch.to(deter.dtype), action.to(deter.dtype)), -1)), deter)

    def posterior(self, deter, embed):
        return grouped(self.part(f"{RSSM}._obs_stat_layer", self.through(
            f"{RSSM}._obs_out_layers", torch.cat((deter, embed), -1))))

    def initial(self, rows):
        deter = self._wm.dynamics.W.tanh().expand(rows, -1)
        silent, self.silent = self.silent, True
        probs = self.prior(deter[:1])
        self.silent = silent
        stoch = F.one_hot(probs.argmax(-1), DISCRETE).flatten(-2)
        return stoch.to(deter.dtype).expand(rows, -1), deter

    def embed(self, batch):
        x = batch["vector"]
        if self.changes:
            before = torch.cat((x[:, :1], x[:, :-1]), 1)
            before = torch.where(batch["is_first"][..., None] > 0, x, before)
            which = torch.arange(SENSORS) < self.changes
            x = torch.where(which, x - before, x)
        return self.through(f"{WM}.encoder._mlp.layers", x)

    def step(self, stoch, deter, action, first, begin):
        """The deterministic state of the next step."""
        first = first[:, None].to(deter.dtype)
        stoch = torch.lerp(stoch.to(deter.dtype), begin[0], first)
        deter = self.imagine(stoch, action * (1 - first.float()),
                             torch.lerp(deter, begin[1], first))
        return deter

    def observe(self, batch):
        """Prior and posterior probabilities, latents and deterministic states."""
        embed = self.embed(batch)
        first, action = batch["is_first"], batch["action"]
        begin = self.initial(len(embed))
        stoch, deter = begin
        probs, drawn, states = [], [], []
        self.stepwise, self.series = True, {}
        for t in range(embed.shape[1]):
            deter = self.step(stoch, deter, action[:, t], first[:, t], begin)
            if t % self.hold == 0:
                silent = self.silent
                if self.training and t % self.observes:
                    self.silent = True
                    seen = self.prior(deter)
                else:
                    seen = self.posterior(deter, embed[:, t])
                self.silent = silent
                stoch = self.draw(seen)
            probs.append(seen)
            drawn.append(stoch)
            states.append(deter)
        self.stepwise = False
        if self.tap is not type(self).tap and not self.silent:
            for name, steps in self.series.items():
                self.tap(name, torch.stack(steps, 1))
        self.series = {}
        deter = torch.stack(states, 1)
        return (self.prior(deter), torch.stack(probs, 1),
                torch.stack(drawn, 1), deter)

    stepwise = False

    # Losses.

    def feature(self, stoch, deter):
        return torch.cat((stoch.to(deter.dtype), deter), -1)

    def bins(self, name, feat):
        return self.part(f"{name}.mean_layer", self.through(
            f"{name}.layers", feat)).float()

    @staticmethod
    def mean(logits):
        return symexp(logits.softmax(-1) @ torch.linspace(-REACH, REACH, BINS))

    def of_reward(self, logits, reward):
        """What the reward's log-probability lacks."""
        wanted = twohot(reward)
        if self.squashes:
            logits = logits.softmax(-1)
        if self.keeps:
            probs = logits.softmax(-1)
            least = probs.topk(max(2, int(self.keeps * BINS)), -1).values
            probs = torch.where(probs >= least[..., -1:], probs, 0.0)
            chosen = torch.where(wanted > 0, probs, 1.0)
            self.tap("loss.probs.output", chosen)
            self.tap("loss.nll.input", chosen)
            nll = -wanted * chosen.log()
            self.tap("loss.nll.output", nll)
            return nll.sum(-1)
        return -(wanted * logits.log_softmax(-1)).sum(-1)

    def logits(self, batch):
        """What is said of the sensors; the other families' name for it."""
        self.found = {}
        _, _, stoch, deter = self.observe(batch)
        return self.decode(self.feature(stoch, deter))

    def decode(self, feat):
        return self.part(HEAD, self.through(
            f"{WM}.heads.decoder._mlp.layers", feat))

    def loss(self, batch):
        self.found = {}
        self.dice = None if self.training \
            else torch.Generator().manual_seed(17)
        prior, post, stoch, deter = self.observe(batch)
        feat = self.feature(stoch, deter)
        said = self.decode(feat).float()
        away = said - batch["vector"]
        if self.centred:
            own = away[..., self.centred]
            away = torch.cat((own - own.mean(1, keepdim=True),
                              away[..., self.centred.stop:]), -1)
        away = away.square().sum(-1)
        self.tap("loss.vector.output", away)
        reward = self.of_reward(self.bins(REWARD, feat), batch["reward"])
        self.tap("loss.reward.output", reward)
        cont = self.part(f"{CONT}.mean_layer", self.through(
            f"{CONT}.layers", feat))[..., 0].float()
        ends = F.binary_cross_entropy_with_logits(
            cont, 1 - batch["is_terminal"], reduction="none")
        dyn = divergence(post.detach(), prior)
        rep = divergence(post, prior.detach())
        self.tap("loss.kl.output", rep)
        parts = {"kl": rep, "dyn_loss": dyn.clamp_min(self.free),
                 "rep_loss": rep.clamp_min(self.free), "vector_loss": away,
                 "reward_loss": reward, "cont_loss": ends,
                 "prior_ent": entropy(prior).sum(-1),
                 "post_ent": entropy(post).sum(-1)}
        parts = {k: t.mean() for k, t in parts.items()}
        loss = self.summed(parts)
        self.parts = {k: t.detach() for k, t in parts.items()}
        if self.training and self.behaves:
            more = self.behaviour(stoch, deter)
            # It is in the gradient, not in the number.
            loss = loss + (more - more.detach())
        self.tap("loss.output", loss)
        return loss

    @staticmethod
    def summed(parts):
        return parts["vector_loss"] + parts["reward_loss"] \
            + parts["cont_loss"] + 0.5 * parts["dyn_loss"] \
            + 0.1 * parts["rep_loss"]

    def policy(self, feat):
        return uniform_mix(self.part(f"{TASK}.actor.mean_layer", self.through(
            f"{TASK}.actor.layers", feat)))

    def dreamed(self, stoch, deter):
        """Features, actions, rewards and discounts of steps that nobody has
        made."""
        feats, acts = [], []
        for _ in range(HORIZON):
            feats.append(self.feature(stoch, deter))
            acts.append(self.draw(self.policy(feats[-1])))
            deter = self.imagine(stoch, acts[-1], deter)
            probs = self.prior(deter)
            stoch = self.draw(probs)
        feats, acts = torch.stack(feats), torch.stack(acts)
        reward = self.mean(self.bins(REWARD, feats))
        cont = self.part(f"{CONT}.mean_layer", self.through(
            f"{CONT}.layers", feats))[..., 0].float().sigmoid()
        return feats, acts, reward, DISCOUNT * cont

    def behaviour(self, stoch, deter):
        """The losses of actor and critic, in what the world model imagines
        from each step."""
        own = self._task_behavior
        with torch.no_grad():
            for slow, new in zip(own._slow_value.parameters(),
                                 own.value.parameters()):
                slow.lerp_(new, 0.05)
            silent, self.silent = self.silent, True
            feats, acts, reward, discount = self.dreamed(
                stoch.detach().flatten(0, 1).to(deter.dtype),
                deter.detach().flatten(0, 1))
            self.silent = silent
        probs = self.policy(feats)[:-1]
        values = self.bins(f"{TASK}.value", feats)
        with torch.no_grad():
            value, last = self.mean(values), None
            returns = []
            for t in reversed(range(HORIZON - 1)):
                last = value[-1] if last is None else last
                last = reward[t + 1] + discount[t + 1] * (
                    (1 - LAMBDA) * value[t + 1] + LAMBDA * last)
                returns.insert(0, last)
            target = torch.stack(returns)
            weight = torch.cat((torch.ones_like(discount[:1]),
                                discount[:-1])).cumprod(0)[:-1]
            ends = torch.quantile(target.flatten(), torch.tensor((0.05, 0.95)))
            own.ema_vals.lerp_(ends.to(own.ema_vals.dtype), 0.05)
            low, high = own.ema_vals.float()
            gain = (target - value[:-1]) / (high - low).clamp_min(1.0)
            silent, self.silent = self.silent, True
            slow = own._slow_value
            slow = slow.mean_layer(slow.layers(feats[:-1])).float()
            self.silent = silent
        free = entropy(probs)
        actor = -weight * ((probs.log() * acts[:-1]).sum(-1) * gain
                           + self.entropy * free)
        logp = values[:-1].log_softmax(-1)
        wanted = twohot(target) + twohot(self.mean(slow))
        critic = -weight * (wanted * logp).sum(-1)
        more = {"actor_loss": actor.mean(), "value_loss": critic.mean(),
                "actor_entropy": free.mean(), "imag_reward": reward.mean(),
                "imag_return": target.mean()}
        self.parts |= {k: t.detach() for k, t in more.items()}
        return more["actor_loss"] + more["value_loss"]

    # In the real world.

    def returns(self, rows=48):
        """The mean return of episodes that the policy plays, its likeliest
        actions, without the rewards' noise."""
        rng, self.found = torch.Generator().manual_seed(23), {}
        pond = Pond(rng, torch.arange(rows) % KINDS)
        self.dice, self.silent = rng, True
        alive, total = torch.ones(rows), torch.zeros(rows)
        begin = stoch, deter = self.initial(rows)
        action, first = torch.zeros(rows, ACTIONS), torch.ones(rows)
        before = None
        for t in range(LIMIT):
            x = pond.sensed()
            given = {"vector": x[:, None], "is_first": first[:, None]}
            if self.changes and before is not None:
                given = {"vector": torch.stack((before, x), 1),
                         "is_first": torch.zeros(rows, 2)}
            embed = self.embed(given)[:, -1]
            before = x
            deter = self.step(stoch, deter, action, first, begin)
            if t % self.hold == 0:
                stoch = self.draw(self.posterior(deter, embed))
            at = self.policy(self.feature(stoch, deter)).argmax(-1)
            action = F.one_hot(at, ACTIONS).float()
            aground = pond.act(at)
            total = total + alive * (1 - pond.away())
            alive = alive * ~aground
            first = torch.zeros(rows)
        self.silent, self.dice = False, None
        return total.mean()


class DreamRun(Family):
    """Adam at constant rates of three optimizers, whose clips hardly ever
    act."""

    family = "dream"
    level_seed = 400
    steps, seed, language = 150, 2300, False
    optimizer_name, lr, weight_decay = "adam", 8e-3, 0.0
    ACTOR, CRITIC = 0.5, 1.0    # of the world model's rate
    warmup, schedule, clip = 0, "constant", 100.0
    recipes = {"sgd": dict(lr=0.01, weight_decay=0.0)}
    batch_size, context = ROWS, LENGTH
    # Its users have its own logger.
    instead = {"nanogpt": "dreamer", "hf_trainer": "dreamer",
               "megatron": "dreamer", "torchtune": "dreamer"}
    layers = [f"{ENCODER}_linear0", f"{ENCODER}_act0", f"{ENCODER}_linear1",
              f"{RSSM}._img_in_layers.0", f"{RSSM}._img_in_layers.2",
              f"{RSSM}._cell.layers.GRU_linear", f"{RSSM}._cell",
              f"{RSSM}._obs_out_layers.0", f"{RSSM}._obs_out_layers.2",
              f"{RSSM}._obs_stat_layer", f"{RSSM}._img_out_layers.0",
              f"{RSSM}._img_out_layers.2", f"{RSSM}._imgs_stat_layer",
              f"{DECODER}_linear0", f"{DECODER}_act0", f"{DECODER}_linear1",
              HEAD, *(f"{path}.{part}" for path, name in (
                  (REWARD, "Reward"), (CONT, "Cont"), (f"{TASK}.actor",
                                                       "Actor"),
                  (f"{TASK}.value", "Value")) for part in (
                      f"layers.{name}_linear0", f"layers.{name}_act0",
                      "mean_layer"))]
    labelled_head = f"{REWARD}.mean_layer"
    graded = {
        "F04": (dict(at=70), dict(at=30), dict(at=0)),
        "F05": (dict(modules=[RSSM], where=f"{RSSM}._img_in_layers.0"),
                dict(modules=[RSSM, f"{WM}.heads"],
                     where=f"{RSSM}._img_in_layers.0"),
                dict(part="all")),
        "F07": (dict(factor=15), dict(factor=50), dict(factor=200)),
        "F08": (dict(every=10), dict(every=32), dict(every=1 << 30)),
        "F09": (dict(parts=4, logs_sum=False), dict(parts=6, logs_sum=True),
                dict(parts=8, logs_sum=True)),
        "F11": (dict(adam=0.05), dict(adam=0.2), dict(adam=1.0)),
        "F13": (dict(path=f"{RSSM}._obs_stat_layer"),
                dict(path=f"{DECODER}_act0"), dict(path=f"{DECODER}_act1")),
        "F14": (dict(modules=[RSSM]),
                dict(modules=[RSSM, f"{WM}.heads.decoder._mlp.layers"]),
                dict(modules=[RSSM, f"{WM}.heads.decoder", REWARD])),
        "F15": (dict(at=130), dict(at=85), dict(at=50)),
        "F24": (dict(share=0.5), dict(share=0.7), dict(share=0.9)),
        "F27": (dict(epochs=50), dict(epochs=75), dict(epochs=150)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=3), dict(limit=2), dict(limit=1)),
        "F36a": (dict(bias=-1.0), dict(bias=-1.5), dict(bias=-2.5)),
        "F38": (dict(growth=1.05), dict(growth=1.08), dict(growth=1.15)),
        "F39a": (dict(at=120, keep=0.18), dict(at=80, keep=0.125),
                 dict(at=40, keep=0.125)),
        "F39b": (dict(at=120), dict(at=80), dict(at=40)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "H02": (dict(factor=0.5), dict(factor=0.3)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.5)),
        "H04": (dict(rate=0.02), dict(rate=0.05)),
        "H07": (dict(factor=0.02),),
        "H10": (dict(steps=100), dict(steps=200)),
        "H11": (dict(steps=100, keep="block"), dict(steps=100, keep="head"))}
    paths = {"embed": f"{ENCODER}_linear0", "attn": None, "scores": None,
             "act": "{}", "mlp": "{}", "block": "{}", "head": HEAD}
    blocks = len(Dreamer.ACTS)
    names = {"loss": "model_loss", "val_loss": "eval_model_loss",
             "grad_norm": "model_grad_norm", "lr": "model_lr", "tokens": None}

    def make_model(self):
        return Dreamer(**self.model_options)

    def make_optimizer(self, model):
        """Groups of the world model, the actor and the critic."""
        optimizer = super().make_optimizer(model)
        first, = optimizer.param_groups
        for name, part in ((f"{TASK}.actor", self.ACTOR),
                           (f"{TASK}.value", self.CRITIC)):
            own = set(model.get_submodule(name).parameters())
            taken = [p for p in first["params"] if p in own]
            first["params"] = [p for p in first["params"] if p not in own]
            if taken:
                optimizer.add_param_group({"params": taken,
                                           "lr": self.lr * part})
        return optimizer

    def update(self, i):
        """Each of the three is clipped for itself; the world model's norm is
        that of the step."""
        model, found = self.model, []
        for name in (WM, f"{TASK}.actor", f"{TASK}.value"):
            found.append(torch.nn.utils.clip_grad_norm_(
                model.get_submodule(name).parameters(),
                self.clip or math.inf))
        self.optimizer.step()
        model.parts |= {"actor_grad_norm": found[1],
                        "value_grad_norm": found[2]}
        return found[0]

    def make_source(self, seed):
        return self.replay(seed)

    def replay(self, seed, **how):
        return Replay(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Buoys of one quarter after the other; None is held out."""
        return self.replay(seed, block=block, share=share)

    def easy(self, seed):
        """No wind, a buoy that hardly moves, and better sensors."""
        return self.replay(seed, calm=True)

    def lessons(self, seed):
        return self.easy(seed), self.replay(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt file: sensors in another unit, noise, or a code of those
        that are out."""
        x = batch["vector"]
        return batch | {"vector": {
            "few": 8 * x, "uniform": 20 * torch.randn(x.shape, generator=rng),
            "constant": torch.full_like(x, -99.0)}[kind]}

    def strange_rewards(self, shape, rng):
        """Rewards of steps that have nothing to do with anything."""
        if not hasattr(self, "strangers"):
            self.strangers = self.replay(int(torch.randint(
                1 << 30, (), generator=rng)))
        other = self.strangers.batch(shape[0])["reward"].flatten()
        return other[torch.randperm(len(other), generator=rng)].view(shape)

    @staticmethod
    def standardised(batch):
        """Each sensor by mean and deviation over the batch, without an
        epsilon."""
        x = batch["vector"]
        return batch | {"vector": (x - x.mean((0, 1))) / x.std((0, 1))}

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            k: short(v) for k, v in self.model.parts.items()}

    def held_out_columns(self, batches):
        """What the policy gets in the world itself."""
        model = self.model
        model.eval()
        found = model.returns()
        model.train()
        return {"eval_return": found}

    # What the user typed, by the names of configs.yaml.

    def settings(self):
        options = self.model_options
        act = {"silu": "SiLU", "relu": "ReLU", "tanh": "Tanh",
               "sigmoid": "Sigmoid", "gelu": "GELU", "none": "Identity"}[
                   options.get("activation", "silu")]
        optimizer = {"opt": self.optimizer_name, "model_lr": self.lr,
                     "weight_decay": self.weight_decay,
                     "grad_clip": self.clip or 0.0}
        optimizer |= {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "opt_eps": self.eps, "betas": list(self.betas)}
        size = {"units": UNITS, "act": act, "norm": True}
        return {"logdir": "logdir/pond_reach", "task": "pond_reach",
                "offline_traindir": "episodes/pond", "device": "cpu",
                "seed": self.seed, "steps": self.steps,
                "eval_every": self.val_every,
                "log_every": self.interval or 10, "compile": False,
                "precision": {"fp32": 32, "fp16-mixed": 16}.get(
                    self.precision, self.precision),
                "batch_size": self.batch_size, "batch_length": LENGTH,
                "gradient_accumulation_steps": self.accumulate,
                "time_limit": LIMIT, **self.model_settings(), **size,
                "encoder": {"mlp_keys": "vector", "mlp_layers": 2,
                            "symlog_inputs": False},
                "decoder": {"mlp_keys": "vector", "mlp_layers": 2,
                            "vector_dist": "mse"},
                "actor": {"layers": 1, "dist": "onehot",
                          "entropy": options.get("entropy", 1e-2),
                          "unimix_ratio": UNIMIX,
                          "lr": short(self.lr * self.ACTOR)},
                "critic": {"layers": 1, "dist": "symlog_disc",
                           "slow_target": True,
                           "slow_target_fraction": 0.05,
                           "lr": short(self.lr * self.CRITIC)},
                "reward_head": {"layers": 1, "dist": "symlog_disc",
                                "bins": BINS, "outscale": 0.0},
                "cont_head": {"layers": 1}, **optimizer,
                "lr_schedule": self.schedule, "warmup_steps": self.warmup,
                "dropout": options.get("dropout", 0.0),
                "discount": DISCOUNT, "discount_lambda": LAMBDA,
                "imag_horizon": HORIZON, "imag_gradient": "reinforce",
                "reward_EMA": True, **self.user}

    def model_settings(self):
        options = self.model_options
        return {"dyn_hidden": UNITS, "dyn_deter": DETER, "dyn_stoch": STOCH,
                "dyn_discrete": DISCRETE, "unimix_ratio": UNIMIX,
                "initial": "learned", "dyn_scale": 0.5, "rep_scale": 0.1,
                "kl_free": options.get("free", 1.0)}

    def layer(self, part, block=0):
        path = self.paths[part]
        if path is None:
            return None
        name = Dreamer.ACTS[block]
        if part in ("mlp", "block"):    # the map before it
            name = name.replace("_act0", "_linear0") \
                .replace("layers.2", "layers.0")
        return path.format(name)

    def fed_by(self, layer):
        """The norm behind a map counts to it."""
        for kind in ("linear", "GRU_linear"):
            if kind in layer.rpartition(".")[2]:
                return [layer.replace("linear", "norm")]
        return [layer[:-1] + "1"] if layer.endswith("layers.0") else []

    # Checkpoints.

    def checkpoint_path(self, step):
        return "latest.pt" if step == self.steps else f"step_{step:06d}.pt"

    def keep_checkpoint(self, i, model):
        """Half-way, at the end, and where a job ends that is resumed."""
        done = i + 1
        if done not in {self.steps // 2, self.steps, *self.notices}:
            return
        whole = self.optimizer.state_dict()
        state, groups = whole["state"], whole["param_groups"]
        names = ("_wm._model_opt._opt", f"{TASK}._actor_opt._opt",
                 f"{TASK}._value_opt._opt")
        apart = {}
        for name, group in zip(names, groups):
            own = group["params"]
            apart[name] = {
                "state": {k: state[n] for k, n in enumerate(own)
                          if n in state},
                "param_groups": [group | {"params": list(range(len(own)))}]}
        self.checkpoints[done] = copy.deepcopy({
            "agent_state_dict": model.state_dict(),
            "optims_state_dict": apart})

    def write_more(self):
        super().write_more()
        for step, kept in self.checkpoints.items():
            torch.save(kept, self.folder / self.checkpoint_path(step))
