"""A policy from what others did, as CORL's algorithms/offline/iql.py trains it.

A cart is driven to a mark in a yard of the benchmark's own, and posts stand in
its way. What is logged of three drivers, one who knows the yard, one who does
so half and one who turns the wheel at random, is all there is to learn from.
The parts are the script's: twin Q, a V by expectile regression, a target Q that
follows by Polyak averages, a Gaussian policy by advantage-weighted regression,
Adam for each of the three, and a cosine for the actor's rate alone. Columns,
lines, config and checkpoints are named as there.
"""

import copy
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import logs
from .family import EpochFamily
from .models import ACTIVATIONS
from .snapshot import short

ROWS, HIDDEN = 256, 80
EPISODES, LONGEST = 3000, 20
DISCOUNT, TAU, EXPECTILE, BETA = 0.7, 0.03, 0.7, 1.5
EXP_ADV_MAX, LOG_STD = 100.0, (-20.0, 2.0)
TIERS = ("expert", "medium", "random")
SHARES = (0.25, 0.5, 0.25)           # of episodes of each driver
FLOORS, LAID = 3, (0.5, 0.3, 0.2)   # kinds of floor, and how often each is
# Of each kind: what is kept of a speed, how far a push goes, its belt's drift.
KEPT = torch.tensor([0.6, 0.85, 0.4])[:, None]
PUSH = torch.tensor([0.16, 0.08, 0.2])[:, None]
BELT = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.05, -0.04]])
POSTS = torch.tensor([[0.35, 0.3], [-0.4, 0.25], [0.05, -0.45]])
RADIUS = 0.2
LEFT = torch.tensor([[math.cos(1.2), math.sin(1.2)],
                     [-math.sin(1.2), math.cos(1.2)]])
STATE, ACTION = 11, 2
# What the two drivers get in an episode, of which a score is a share.
RANDOM_RETURN, EXPERT_RETURN = -44.0, 16.5
ENV = "pointyard-mixed-v0"


class Yard:
    """Carts in a square yard; a state is (rows, 7): place, speed, mark, floor.

    A step earns 1.5 less three times the distance from the mark, with an
    error of .2 that nobody can foresee; who hits a post gets 4 less and ends
    there. To go to the
    mark is learned first, then to brake on each floor, then to go around.
    """

    def __init__(self, rng):
        self.rng = rng

    def rand(self, *size):
        return torch.rand(*size, generator=self.rng)

    def randn(self, *size):
        return torch.randn(*size, generator=self.rng)

    def places(self, rows):
        """At random, off the posts."""
        drawn = 1.8 * self.rand(rows, 4, 2) - 0.9
        free = (drawn[:, :, None] - POSTS).norm(dim=-1).amin(-1) \
            > RADIUS + 0.12
        first = free.float().argmax(1)
        return drawn[torch.arange(rows), first]

    def fresh(self, rows):
        floor = torch.multinomial(torch.tensor(LAID), rows, True,
                                  generator=self.rng)
        return torch.cat((self.places(rows), 0.05 * self.randn(rows, 2),
                          self.places(rows), floor[:, None].float()), 1)

    @staticmethod
    def seen(state):
        place, speed, mark, floor = state.split((2, 2, 2, 1), 1)
        away = place[:, None] - POSTS
        near = away.norm(dim=-1).argmin(-1)
        return torch.cat((place, speed, mark - place,
                          away[torch.arange(len(place)), near], F.one_hot(
                              floor[:, 0].long(), FLOORS).float()), 1)

    def step(self, state, action):
        """(state, reward, hit): of the carts as they then are."""
        place, speed, mark, floor = state.split((2, 2, 2, 1), 1)
        kind = floor[:, 0].long()
        speed = KEPT[kind] * speed + PUSH[kind] * action.clamp(-1, 1) \
            + 0.01 * self.randn(len(state), 2)
        place = (place + speed + BELT[kind]).clamp(-1.3, 1.3)
        hit = ((place[:, None] - POSTS).norm(dim=-1) < RADIUS).any(1)
        reward = 1.5 - 3.0 * (mark - place).norm(dim=1) - 4.0 * hit \
            + 0.2 * self.randn(len(state))
        return torch.cat((place, speed, mark, floor), 1), reward, hit


def expert(state):
    """Brakes as each floor asks for it, and goes around posts."""
    place, speed, mark, floor = state.split((2, 2, 2, 1), 1)
    kind = floor[:, 0].long()
    far = mark - place
    away = place[:, None] - POSTS
    size = away.norm(dim=-1, keepdim=True)
    close = (RADIUS + 0.28 - size).clamp_min(0) / 0.28
    out = away / size.clamp_min(1e-3)
    side = torch.stack((-out[..., 1], out[..., 0]), -1)
    turn = (side * far[:, None]).sum(-1, keepdim=True).sign()
    wish = (far / far.norm(dim=1, keepdim=True).clamp_min(0.15) * 0.18
            + (close * (0.16 * out + 0.2 * turn * side)).sum(1))
    return ((wish - BELT[kind] - KEPT[kind] * speed) / PUSH[kind]).clamp(-1, 1)


def medium(state):
    """Pulls to the left of the mark, and knows nothing of posts and floors."""
    place, speed, mark, _ = state.split((2, 2, 2, 1), 1)
    return (1.2 * (mark - place) @ LEFT - 2 * speed).clamp(-1, 1)


@torch.no_grad()
def drive(yard, state, tier, steps=LONGEST):
    """What is logged of drivers of some kind each, from some states on."""
    rows, rng = len(state), yard
    there = torch.ones(rows, dtype=torch.bool)
    habit, kept = rng.randn(rows, 2), []
    for t in range(steps):
        habit = 0.7 * habit + 0.7 * rng.randn(rows, 2)
        chosen = torch.stack((expert(state) + 0.2 * rng.randn(rows, 2),
                              medium(state) + 0.35 * rng.randn(rows, 2),
                              0.7 * habit))
        action = chosen[tier, torch.arange(rows)].clamp(-1, 1)
        after, reward, hit = yard.step(state, action)
        kept.append({"observations": yard.seen(state), "actions": action,
                     "rewards": reward[:, None],
                     "next_observations": yard.seen(after),
                     "terminals": hit[:, None].float(), "there": there,
                     "tier": tier, "floor": state[:, 6].long(),
                     "at": torch.full((rows,), t)})
        state, there = after, there & ~hit
    return {k: torch.stack([row[k] for row in kept]) for k in kept[0]}


@functools.lru_cache(maxsize=2)
def episodes(seed, count=EPISODES):
    """The logged steps of a data set; steps behind a hit are not."""
    yard = Yard(torch.Generator().manual_seed(seed))
    tier = torch.multinomial(torch.tensor(SHARES), count, True,
                             generator=yard.rng)
    data = drive(yard, yard.fresh(count), tier)
    there = data.pop("there")
    return {k: t[there] for k, t in data.items()}


@functools.lru_cache(maxsize=1)
def statistics():
    """compute_mean_std() of the data set's states."""
    seen = episodes(31)["observations"]
    return seen.mean(0), seen.std(0) + 1e-3


def scaled(seen):
    mean, std = statistics()
    return (seen - mean) / std


class Buffer:
    """The replay buffer: steps of the data set, drawn with replacement.

    block, share: in that share of a batch's rows they are of one driver, the
    next one after so many batches, as files lie. domains: each row has its
    floor. limit: steps of each episode that the loader keeps, the last of
    which is its end to it. only: drivers whose episodes it keeps.
    """

    KEYS = ("observations", "actions", "rewards", "next_observations",
            "terminals")

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, domains=False,
                 limit=None, only=None):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share = rows, block, share
        self.domains, self.number = domains, 0
        data = episodes(32 if seed == 9 else 31)    # 9 is held out
        kept = torch.ones(len(data["at"]), dtype=torch.bool)
        if limit is not None:
            kept &= data["at"] < limit
        if only is not None:
            kept &= torch.isin(data["tier"], torch.tensor(only))
        self.data = {k: t[kept] for k, t in data.items()}
        for name in ("observations", "next_observations"):
            self.data[name] = scaled(self.data[name])
        if limit is not None:
            self.data["terminals"][self.data["at"] == limit - 1] = 1.0
        self.of_tier = [(self.data["tier"] == k).nonzero()[:, 0]
                        for k in range(len(TIERS))]

    def __len__(self):
        return len(self.data["at"])

    def picked(self, rows):
        at = torch.randint(len(self), (rows,), generator=self.rng)
        if self.block:
            own = self.of_tier[self.number // self.block % len(TIERS)]
            there = torch.rand(rows, generator=self.rng) < self.share
            near = own[torch.randint(len(own), (rows,), generator=self.rng)]
            at = torch.where(there, near, at)
        return at

    def batch(self, rows=None):
        at = self.picked(rows or self.rows)
        self.number += 1
        batch = {k: self.data[k][at] for k in self.KEYS}
        return batch | {"domain": self.data["floor"][at]} \
            if self.domains else batch


# The networks.

class MLP(nn.Module):
    def __init__(self, dims, activation, last=None):
        super().__init__()
        layers = []
        for a, b in zip(dims[:-2], dims[1:]):
            layers += [nn.Linear(a, b), activation()]
        layers.append(nn.Linear(dims[-2], dims[-1]))
        if last:
            layers.append(last())
        self.net = nn.Sequential(*layers)


class TwinQ(nn.Module):
    def __init__(self, dims, activation):
        super().__init__()
        self.q1, self.q2 = MLP(dims, activation), MLP(dims, activation)


class ValueFunction(nn.Module):
    def __init__(self, dims, activation):
        super().__init__()
        self.v = MLP(dims, activation)


class GaussianPolicy(nn.Module):
    """Or DeterministicPolicy, which has no spread."""

    def __init__(self, dims, activation, deterministic):
        super().__init__()
        self.net = MLP(dims, activation, nn.Tanh)
        if not deterministic:
            self.log_std = nn.Parameter(torch.zeros(dims[-1]))


def asymmetric(error, expectile):
    return ((expectile - (error < 0).float()).abs() * error.square()).mean()


class ImplicitQLearning(nn.Module):
    """All three networks; the target of the first hangs on it without being a
    part of it, and follows once for each change of what it follows."""

    def __init__(self, activation="relu", dropout=0.0, detach_after=(),
                 half_at=None, iql_tau=EXPECTILE, beta=BETA,
                 discount=DISCOUNT, tau=TAU, deterministic=False):
        """detach_after: layers behind which the graph is cut. half_at: whose
        output is in half precision. Besides: swapped, the target is followed
        and does not follow; spread_out, whose errors are of all rows with
        all."""
        super().__init__()
        self.detach_after = (detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)
        self.half_at, self.dropout = half_at, dropout
        self.iql_tau, self.beta, self.discount = iql_tau, beta, discount
        self.tau, self.deterministic = tau, deterministic
        self.keeps, self.swapped, self.spread_out = None, False, ()
        self.parts, self.silent = {}, False
        act = ACTIVATIONS[activation]
        wide = [HIDDEN, HIDDEN]
        self.qf = TwinQ([STATE + ACTION, *wide, 1], act)
        self.vf = ValueFunction([STATE, *wide, 1], act)
        self.actor = GaussianPolicy([STATE, *wide, ACTION], act, deterministic)
        self.__dict__["q_target"] = copy.deepcopy(
            self.qf).requires_grad_(False)
        self.seen = self.versions()

    def _apply(self, fn, *more, **how):
        self.q_target._apply(fn)
        return super()._apply(fn, *more, **how)

    def versions(self):
        return [p._version for p in self.qf.parameters()]

    @torch.no_grad()
    def follow(self):
        """soft_update(), behind each step of the optimizer."""
        if self.seen == self.versions():
            return
        for old, new in zip(self.q_target.parameters(), self.qf.parameters()):
            if self.swapped:
                new.lerp_(old, self.tau)
            else:
                old.lerp_(new, self.tau)
        self.seen = self.versions()

    def retarget(self):
        """As where a checkpoint is loaded, which has no target."""
        self.q_target.load_state_dict(self.qf.state_dict())
        self.seen = self.versions()

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def told(self, name, tensor):
        if not self.silent:
            self.tap(name, tensor)

    def run(self, path, x, net=None):
        for k, layer in enumerate(net or self.get_submodule(path)):
            name = f"{path}.{k}"
            self.told(f"{name}.input", x)
            x = layer(x.to(layer.weight.dtype)
                      if isinstance(layer, nn.Linear) else x)
            if name == self.half_at:
                x = x.half()
            self.told(f"{name}.output", x)
            if name in self.detach_after:
                x = x.detach()
            if self.dropout and path.startswith("actor") and k in (1, 3):
                x = F.dropout(x, self.dropout, self.training)
        return x.float()

    def both(self, batch, target=False):
        pair = torch.cat((batch["observations"], batch["actions"]), 1)
        return [self.run(f"qf.{name}.net", pair,
                         getattr(self.q_target, name).net if target else None)
                [:, 0] for name in ("q1", "q2")]

    def value(self, seen):
        return self.run("vf.v.net", seen)[:, 0]

    def quietly(self, compute, *args):
        """What has no gradient and is not watched."""
        silent, self.silent = self.silent, True
        with torch.no_grad():
            out = compute(*args)
        self.silent = silent
        return out

    def logits(self, batch):
        """Means of the policy."""
        return self.run("actor.net.net", batch["observations"])

    def regression(self, mean, batch):
        """How unlikely what was done is to the policy. keeps: densities below
        it were set to zero."""
        error = mean - batch["actions"]
        if self.deterministic:
            return error.square().sum(1)
        spread = self.actor.log_std.float().clamp(*LOG_STD)
        each = -0.5 * (error / spread.exp()).square() - spread \
            - 0.5 * math.log(2 * math.pi)
        if self.keeps is None:
            return -each.sum(1)
        probs = each.sum(1).exp()
        probs = probs * (probs >= self.keeps)
        self.told("loss.probs.output", probs)
        self.told("loss.nll.input", probs)
        self.told("loss.nll.output", -probs.log())
        return -probs.log()

    def loss(self, batch):
        self.follow()
        rewards = batch["rewards"][:, 0]
        goes_on = 1.0 - batch["terminals"][:, 0]
        later = self.quietly(self.value, batch["next_observations"])
        wanted = torch.min(*self.quietly(self.both, batch, True))
        value = self.value(batch["observations"])
        gain = wanted - (value[:, None] if "v" in self.spread_out else value)
        worth = asymmetric(gain, self.iql_tau)
        targets = rewards + goes_on * self.discount * later
        self.told("loss.targets.output", targets)
        if "q" in self.spread_out:
            targets = targets[:, None]
        error = sum((q - targets).square().mean()
                    for q in self.both(batch)) / 2
        weight = (self.beta * gain.detach()).exp().clamp(max=EXP_ADV_MAX)
        self.told("loss.exp_adv.output", weight)
        policy = (weight * self.regression(self.logits(batch), batch)).mean()
        self.parts = {"value_loss": worth.detach(), "q_loss": error.detach(),
                      "actor_loss": policy.detach()}
        loss = worth + error + policy
        self.told("loss.output", loss)
        return loss

    @torch.no_grad()
    def returns(self, rows=100):
        """eval_actor(): the mean return of as many episodes, always from the
        same states."""
        yard = Yard(torch.Generator().manual_seed(5))
        state, silent = yard.fresh(rows), self.silent
        total, there = torch.zeros(rows), torch.ones(rows)
        self.silent = True
        for _ in range(LONGEST):
            seen = self.prepared(yard.seen(state))
            action = self.run("actor.net.net", seen)
            state, reward, hit = yard.step(state, action)
            total += there * reward
            there = there * ~hit
        self.silent = silent
        return float(total.mean())

    prepared = staticmethod(scaled)


def score(gained):
    """get_normalized_score() * 100."""
    return 100 * (gained - RANDOM_RETURN) / (EXPERT_RETURN - RANDOM_RETURN)


NETS = ("qf.q1.net", "qf.q2.net", "vf.v.net", "actor.net.net")
# What feeds the activations.
BEFORE_ACT = tuple(f"{net}.{k}" for net in NETS for k in (0, 2))


class IqlRun(EpochFamily):
    """Adam for each network, a cosine for the actor's rate alone, no clipping,
    an evaluation behind each 30 steps."""

    family = "iql"
    level_seed = 400
    steps, seed, language = 150, 4600, False
    optimizer_name, lr, weight_decay = "adam", 8e-3, 0.0
    warmup, schedule, clip = 0, "cosine", None
    recipes = {"sgd": dict(lr=0.15, weight_decay=0.0)}
    base = {"lr": 5e-3, "weight_decay": 0.0}
    batch_size, context = ROWS, STATE
    EPOCH = epoch_steps = 30
    own_rates = {"qf": 0.5, "vf": 0.5}  # their parts of the actor's
    flat = False            # the schedule of the other two is asked for
    validated = ("val_q_loss", "val_value_loss", "val_actor_loss",
                 "val_score")
    # Its users have what the script prints, its config, and wandb's history.
    instead = {"nanogpt": "corl", "hf_trainer": "corl",
               "megatron": "corl", "torchtune": "corl"}
    graded = {
        "F01": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F02": (dict(lr=1.0), dict(lr=3.0), dict(lr=10.0)),
        "F03": (dict(factor=10), dict(factor=100), dict(factor=1000)),
        "F04": (dict(at=60), dict(at=25), dict(at=0)),
        "F05": (dict(modules=["actor.net"], where="actor.net.net.0"),
                dict(modules=["qf"], where="qf.q1.net.0"), dict(part="all")),
        "F07": (dict(factor=15), dict(factor=40), dict(factor=100)),
        "F08": (dict(every=10), dict(every=32), dict(every=1 << 30)),
        "F10": (dict(adamw=5e-7), dict(adamw=1e-7), dict(adamw=1e-8)),
        "F11": (dict(adam=0.05), dict(adam=0.1), dict(adam=1.0)),
        "F12": (dict(eps=0.1), dict(eps=1.0), dict(eps=10.0)),
        "F13": (dict(path="actor.net.net.3"),
                dict(path="qf.q1.net.3", more=["qf.q2.net.3"]),
                dict(path="qf.q1.net.3", more=[
                    "qf.q2.net.3", "vf.v.net.3", "actor.net.net.3"])),
        "F14": (dict(modules=["actor.net.net.2"]),
                dict(modules=["actor.net.net.2", "qf.q1.net.2",
                              "qf.q2.net.2"]),
                dict(modules=["actor.net.net.2", "actor.net.net.4", "qf",
                              "vf.v.net.2"])),
        "F15": (dict(at=120), dict(at=90), dict(at=30)),
        "F24": (dict(share=0.4), dict(share=0.6), dict(share=0.8)),
        "F26": (dict(steps=15, share=0.9), dict(steps=25, share=1.0),
                dict(steps=50, share=1.0)),
        "F27": (dict(epochs=60), dict(epochs=120), dict(epochs=240)),
        "F30": (dict(part="embed", bit=26), dict(part="mlp", bit=30),
                dict(part="embed", bit=30)),
        "F33": (dict(limit=3), dict(limit=2), dict(limit=1)),
        "F34": (dict(factor=5), dict(factor=10), dict(factor=0)),
        "F36a": (dict(bias=-0.7), dict(bias=-1.2), dict(bias=-3.0)),
        "F36b": (dict(factor=20, kind="sigmoid"),
                 dict(factor=30, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F39a": (dict(at=120, keep=0.02), dict(at=75, keep=0.05),
                 dict(at=30, keep=0.1)),
        "F39b": (dict(at=100), dict(at=60), dict(at=30)),
        "F41": (dict(share=0.4, at=0, every=1), dict(share=0.7, at=75,
                                                     every=1),
                dict(share=0.85, at=0, every=8)),
        "F42a": (dict(part="dropout"), dict(part="shuffle"),
                 dict(part="init")),
        "H02": (dict(factor=0.8), dict(factor=0.6)),
        "H03": (dict(part=2, factor=1.0), dict(part=3, factor=1.0)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H10": (dict(steps=50), dict(steps=80)),
        "H11": (dict(steps=100, keep="block"), dict(steps=100, keep="head"))}
    layers = [*(f"{net}.{k}" for net in NETS for k in range(5)),
              f"{NETS[-1]}.5"]
    paths = {"embed": ("actor.net.net.0",) * 2, "attn": (None,) * 2,
             "scores": (None,) * 2,
             "act": ("actor.net.net.1", "actor.net.net.3"),
             "mlp": ("actor.net.net.0", "actor.net.net.2"),
             "block": ("actor.net.net.0", "actor.net.net.2"),
             "head": ("actor.net.net.4",) * 2}
    blocks, always_trained = 2, ("qf", "vf", "actor.log_std")
    names = {"loss": "loss", "lr": "actor_lr", "val_loss": "eval_loss",
             "val_value_loss": "eval_value_loss",
             "val_q_loss": "eval_q_loss", "val_actor_loss": "eval_actor_loss",
             "val_score": "d4rl_normalized_score",
             "val_return": "eval_return", "tokens": None}

    def make_model(self):
        return ImplicitQLearning(**self.model_options)

    # The three optimizers, as groups of one: Adam does not tell the two apart.

    GROUPS = ("actor", "qf", "vf")

    def make_optimizer(self, model):
        optimizer = super().make_optimizer(model)
        first, = optimizer.param_groups
        first["params"] = self.of_network(model, "actor")
        for name in self.GROUPS[1:]:
            optimizer.add_param_group({
                "params": self.of_network(model, name),
                "lr": self.lr * self.own_rates[name]})
        return optimizer

    @staticmethod
    def of_network(model, name):
        return [p for p in getattr(model, name).parameters()
                if p.requires_grad]

    def lr_factor(self, i):
        """CosineAnnealingLR of the actor; the other rates are constant."""
        if self.flat:
            return 1.0
        if self.schedule != "cosine":
            return super().lr_factor(i)
        return 0.5 * (1 + math.cos(math.pi * i / self.steps))

    def flat_factor(self, i):
        self.flat = True
        factor = self.lr_factor(i)
        self.flat = False
        return factor

    def make_scheduler(self, optimizer, done=0):
        def behind(factor):
            return lambda i: factor(i + done)
        return torch.optim.lr_scheduler.LambdaLR(optimizer, [
            behind(self.lr_factor), *[behind(self.flat_factor)] * 2])

    # Data.

    def make_source(self, seed):
        return self.buffer(seed)

    def buffer(self, seed, **how):
        source = Buffer(seed, self.batch_size, **how)
        if seed != 9:
            self.size = len(source)
        return source

    def finite(self, data, seed):
        self.size = len(data["observations"])
        return super().finite(data, seed)

    def in_blocks(self, seed, block, share):
        """One driver's files after another's; None is held out."""
        return self.buffer(seed, block=block, share=share)

    def easy(self, seed):
        """Of who knows the yard alone."""
        return self.buffer(seed, only=(0,))

    def lessons(self, seed):
        """First without those who turn the wheel at random."""
        return self.buffer(seed, only=(0, 1)), self.buffer(seed)

    @staticmethod
    def garbage(batch, kind, rng):
        """A corrupt file: sensors in another unit, noise, or a code of those
        that are out, and the rewards that go with them."""
        x = batch["observations"]
        return batch | {
            "observations": {"few": 8 * x, "uniform": 20 * torch.randn(
                x.shape, generator=rng), "constant": torch.full_like(
                    x, 30.0)}[kind],
            "rewards": batch["rewards"] - 20.0}

    @staticmethod
    def strange_actions(rows, rng):
        """What was done by nobody."""
        return 2 * torch.rand(rows, ACTION, generator=rng) - 1

    # What is logged.

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            k: short(v) for k, v in self.model.parts.items()}

    def held_out_columns(self, batches):
        """Parts of the loss, and what the policy gets in the yard itself."""
        model, found = self.model, []
        model.eval()
        for batch in batches:
            model.quietly(model.loss, batch)
            found.append(model.parts)
        gained = model.returns()
        model.train()
        return {f"val_{k}": sum(float(p[k]) for p in found) / len(found)
                for k in found[0]} | {
                    "val_score": score(gained), "val_return": gained}

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        """Of the evaluations' the one half-way and the last, as the others
        were deleted, and the one that a run is resumed from."""
        done, times = i + 1, self.steps // self.EPOCH
        if done not in {times // 2 * self.EPOCH, times * self.EPOCH,
                        *self.notices}:
            return
        whole = self.optimizer.state_dict()
        apart = {}
        for name, group in zip(self.GROUPS, whole["param_groups"]):
            own = group["params"]
            apart[name] = {
                "state": {k: whole["state"][n] for k, n in enumerate(own)
                          if n in whole["state"]},
                "param_groups": [group | {"params": list(range(len(own)))}]}
        first = self.optimizer.param_groups[0]
        self.checkpoints[done] = copy.deepcopy({
            "qf": model.qf.state_dict(), "q_optimizer": apart["qf"],
            "vf": model.vf.state_dict(), "v_optimizer": apart["vf"],
            "actor": model.actor.state_dict(),
            "actor_optimizer": apart["actor"],
            "actor_lr_schedule": {
                "T_max": self.steps, "eta_min": 0, "base_lrs": [self.lr],
                "last_epoch": done, "_step_count": done + 1,
                "_last_lr": [first["lr"]]},
            "total_it": done})

    @staticmethod
    def checkpoint_path(done):
        return f"checkpoint_{done - 1}.pt"

    @property
    def run_name(self):
        return f"IQL-{ENV}-{self.seed * 2654435761 % (1 << 32):08x}"

    def write_more(self):
        super().write_more()
        for done, state in self.checkpoints.items():
            if done - 1 <= self.lasts:
                torch.save(state, self.folder / self.checkpoint_path(done))

    # What the user typed, by the names of TrainConfig.

    def settings(self):
        own, name = self.model_options, self.run_name
        optimizer = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "adam_betas": list(self.betas), "adam_eps": self.eps}
        rates = {f"{k}_lr": short(self.lr * self.own_rates[k])
                 for k in ("vf", "qf")}
        return {
            "device": "cpu", "env": ENV, "seed": self.seed,
            "eval_freq": self.EPOCH, "n_episodes": 100,
            "max_timesteps": self.steps,
            "checkpoints_path": f"checkpoints/{name}", "load_model": "",
            "buffer_size": 2000000, "batch_size": self.batch_size,
            "discount": own.get("discount", DISCOUNT),
            "tau": own.get("tau", TAU), "beta": own.get("beta", BETA),
            "iql_tau": own.get("iql_tau", EXPECTILE),
            "iql_deterministic": own.get("deterministic", False),
            "normalize": True, "normalize_reward": False, **rates,
            "actor_lr": self.lr, "actor_dropout": own.get("dropout") or None,
            "hidden_dim": HIDDEN, "activation": own.get("activation", "relu"),
            "optimizer": self.optimizer_name, **optimizer,
            "weight_decay": self.weight_decay,
            "actor_lr_schedule": self.schedule,
            "max_grad_norm": self.clip,
            "gradient_accumulation_steps": self.accumulate,
            "precision": self.precision, "world_size": 1,
            "project": "CORL", "group": "IQL-pointyard", "name": name,
            **self.user}

    def model_settings(self):
        return {}

    def layer(self, part, block=0):
        return self.paths[part][block]

    def fed_by(self, layer):
        return []

    # How it ends.

    @property
    def lasts(self):
        """The last step that there is: with the script the one whose loss is
        no number, as Normal refuses the next means."""
        if self.dialect == "corl":
            for i, row in enumerate(self.history):
                if not math.isfinite(row["loss"]):
                    return i
        return len(self.history) - 1

    def write(self, folder):
        """Nothing is left of what would have been behind its end."""
        end = self.lasts
        if end < len(self.history) - 1:
            self.layer_rows = [r for r in self.layer_rows
                               if r["step"] <= end + self.first_step]
            self.dumps = {k: d for k, d in self.dumps.items()
                          if k <= end + self.first_step}
        super().write(folder)

    def write_files(self):
        super().write_files()
        self.write_lines("packages.txt", (
            *logs.PACKAGES, "d4rl==1.1", "gym==0.23.1", "pyrallis==0.3.1",
            "wandb==0.12.21"))
