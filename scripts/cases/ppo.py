"""A policy that is improved in small steps, as CleanRL's ppo.py trains it.

Boats are steered home in a vectorised task of the benchmark's own. The loop
is CleanRL's: rollouts of all environments, generalized advantages, epochs of
minibatches with the clipped surrogate, the clipped value loss and a bonus of
entropy, Adam with an epsilon of 1e-5, norms clipped at .5, and a rate that is
annealed an iteration. Parts, scalars, lines and files are named as there.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import logs
from .family import Family
from .snapshot import short

ENVS, STEPS, PARTS, EPOCHS = 160, 16, 5, 2  # PARTS minibatches an epoch
ROWS, LONGEST, EDGE = ENVS * STEPS // PARTS, 24, 1.6
ACTIONS, KINDS = 5, 4
SHARES = (0.4, 0.3, 0.2, 0.1)               # of boats of each kind
GAMMA, LAMBDA, SCALE = 0.9, 0.9, 0.2
CLIP, ENTROPY, VALUE = 0.2, 0.01, 0.5
THRUSTS = torch.tensor([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1.0]])
# How a boat's rudder turns what it is told: as it is, the other way along x,
# with axes swapped, the other way along both.
RUDDERS = torch.tensor([[[1, 0], [0, 1]], [[-1, 0], [0, 1]],
                        [[0, 1], [1, 0]], [[-1, 0], [0, -1.0]]])
OBS = 7 + KINDS
LAYERS = [f"{net}.{k}" for net in ("critic", "actor") for k in range(5)]
ACTS = {"tanh": nn.Tanh, "relu": nn.ReLU, "sigmoid": nn.Sigmoid,
        "none": nn.Identity}


class Basin:
    """Boats in a square basin; a state is (rows, 8): place, speed, where the
    current comes from, steps done, kind, whether there is a current.

    A step earns 1 less the squared distance from the middle and .05 for the
    engine, with an error of .1 that nobody can foresee; who drifts over the
    edge ends there, everyone after 24 steps. To go home is learned first, in
    the kinds that are common, then the rarer kinds' rudders, then to brake
    and to hold against the current.
    """

    def __init__(self, rng, share=None, kind=None, calm=False, gusts=None):
        """share, kind: in that share of new boats they are of one kind.
        calm: no current; if 2, and of the first kind alone. gusts: of each
        site."""
        self.rng, self.share, self.kind = rng, share, kind
        self.calm, self.gusts = calm, gusts

    def rand(self, *size):
        return torch.rand(*size, generator=self.rng)

    def randn(self, *size):
        return torch.randn(*size, generator=self.rng)

    def fresh(self, rows):
        kind = torch.multinomial(torch.tensor(SHARES), rows, True,
                                 generator=self.rng)
        if self.kind is not None:
            own = self.rand(rows) < self.share
            kind = torch.where(own, self.kind, kind)
        if self.calm == 2:
            kind = torch.zeros_like(kind)
        place = 2 * self.rand(rows, 2) - 1
        speed = 0.1 * self.randn(rows, 2)
        wind = 2 * math.pi * self.rand(rows, 1)
        return torch.cat((place, speed, wind, torch.zeros(rows, 1),
                          kind[:, None].float(), torch.full(
                              (rows, 1), float(not self.calm))), 1)

    def seen(self, state):
        place, speed, wind, done, kind, _ = state.split(
            (2, 2, 1, 1, 1, 1), 1)
        return torch.cat((place, 3 * speed, wind.sin(), wind.cos(),
                          done / LONGEST - 0.5, F.one_hot(
                              kind[:, 0].long(), KINDS).float()), 1)

    def step(self, state, action, site=None):
        """(state, reward, done): of the boats as they then are."""
        place, speed, wind, count, kind, flows = state.split(
            (2, 2, 1, 1, 1, 1), 1)
        push = (RUDDERS[kind[:, 0].long()]
                @ THRUSTS[action][..., None])[..., 0]
        flow = torch.cat((wind.cos(), wind.sin()), 1) * flows
        gust = 0.03 if self.gusts is None else self.gusts[site][:, None]
        speed = 0.6 * speed + 0.12 * push + 0.03 * flow \
            + gust * self.randn(len(state), 2)
        place, count = place + speed, count + 1
        wind = wind + 0.1 * self.randn(len(state), 1)
        out = (place.abs() > EDGE).any(1)
        reward = 1 - place.square().sum(1).clamp(max=2.0) \
            - 0.05 * (action > 0) + 0.1 * self.randn(len(state))
        reward = torch.where(out, -1.0, reward)
        return torch.cat((place, speed, wind, count, kind, flows), 1), \
            reward, out | (count[:, 0] >= LONGEST)


class Rollouts:
    """Minibatches of the last rollout of whoever acts, and then of another.

    obs, actions, logprobs, advantages, returns, values: as CleanRL's b_obs
    and so on; rewards, dones: of the same steps. A batch has `rows`, a
    rollout `parts` times as many, and comes `epochs` times, in another order
    each time. With seed 9 it is what is held out: boats at the start.

    policy: returns the agent that acts. block, share: in that share new boats
    are of one kind, for so many minibatches. calm, sites: as of Basin, with
    each batch's `domain`. every: iterations of which a rollout is used.
    carries: what of GAE does not stop where an episode ends, or ["all"] if it
    stops everywhere else. scale: of rewards. frozen: from that batch on one
    environment hangs, done at once. late: steps by which actions are. report:
    is told of each rollout.
    """

    def __init__(self, seed, policy, rows=ROWS, steps=STEPS, parts=PARTS,
                 epochs=EPOCHS, gamma=GAMMA, lam=LAMBDA, block=None,
                 share=1.0, calm=False, sites=False, every=1, carries=(),
                 scale=SCALE, frozen=None, late=0,
                 report=None):
        self.rng = torch.Generator().manual_seed(seed)
        self.policy, self.rows, self.steps = policy, rows, steps
        self.parts, self.epochs, self.gamma = parts, epochs, gamma
        self.lam, self.block, self.every = lam, block, every
        self.carries, self.scale, self.frozen = carries, scale, frozen
        self.late, self.report = late, report
        self.held_out, self.number, self.turn = seed == 9, 0, 0
        self.basin = Basin(self.rng, share, calm=calm, gusts=torch.tensor(
            (0.015, 0.03, 0.06)) if sites else None)
        self.sites, self.state, self.queue = sites, None, []
        self.episodes, self.stats = [], {}

    @property
    def envs(self):
        return max(1, self.rows * self.parts // self.steps)

    def batch(self, rows=None):
        if self.held_out:
            state = self.basin.fresh(64)
            return {"obs": self.basin.seen(state), "state": state}
        if rows and rows != self.rows:
            self.rows, self.state, self.queue = rows, None, []
        if not self.queue:
            if self.turn % self.every == 0:
                self.roll()
            self.turn += 1
            size = self.envs * self.steps
            for _ in range(self.epochs):
                order = torch.randperm(size, generator=self.rng)
                self.queue += list(order.split(self.rows))[:self.parts]
        self.number += 1
        picked = self.queue.pop(0)
        return {k: t[picked].clone() for k, t in self.data.items()}

    @torch.no_grad()
    def roll(self):
        agent, basin, count = self.policy(), self.basin, self.envs
        agent.eval()
        if self.block:
            basin.kind = self.number // self.block % KINDS
        if self.state is None:
            self.state = basin.fresh(count)
            self.done = torch.zeros(count)
            self.sums = torch.zeros(count)
            self.site = torch.arange(count) % 3
            self.waiting = [torch.zeros(count, dtype=torch.int64)] * self.late
        kept = {k: [] for k in ("obs", "actions", "logprobs", "values",
                                "rewards", "dones")}
        self.episodes, hangs = [], self.frozen is not None \
            and self.number >= self.frozen
        for t in range(self.steps):
            obs = basin.seen(self.state)
            if hangs:
                obs[0] = 0.0
            action, logprob, value = agent.acts(obs)
            self.waiting.append(action)
            state, reward, done = basin.step(
                self.state, self.waiting.pop(0), self.site)
            self.sums += reward
            if hangs:
                reward[0], done[0] = 0.0, True
            for name, x in (("obs", obs), ("actions", action),
                            ("logprobs", logprob), ("values", value),
                            ("rewards", self.scale * reward),
                            ("dones", self.done)):
                kept[name].append(x)
            over = done.nonzero()[:, 0]
            self.episodes += [(count * (t + 1), float(self.sums[k]),
                               int(state[k, 5])) for k in over]
            self.sums[over] = 0.0
            self.state = torch.where(done[:, None], basin.fresh(count), state)
            self.done = done.float()
        data = {k: torch.stack(v) for k, v in kept.items()}
        last = basin.seen(self.state)
        if hangs:
            last[0] = 0.0
        data |= self.estimated(data, agent.acts(last)[2])
        agent.train()
        if self.sites:
            data["domain"] = self.site.expand(self.steps, -1)
        each = data["advantages"]
        self.data = {k: t.flatten(0, 1) for k, t in data.items()}
        if self.frozen is not None:     # what a user divides by
            self.data |= {"adv_mean": each.mean(0).expand(
                self.steps, -1).flatten(), "adv_std": each.std(0).expand(
                    self.steps, -1).flatten()}
        truth, said = self.data["returns"], self.data["values"]
        done = self.episodes or [(0, math.nan, math.nan)]
        self.stats = {
            "explained_variance": 1 - float(
                (truth - said).var() / truth.var().clamp_min(1e-12)),
            "episodic_return": sum(e[1] for e in done) / len(done),
            "episodic_length": sum(e[2] for e in done) / len(done)}
        if self.report:
            self.report(self)

    def estimated(self, data, value):
        """Generalized advantages, from the last step to the first."""
        out, later, over = [], 0.0, self.done
        for t in reversed(range(self.steps)):
            goes = over if self.carries == ["all"] else 1 - over
            ahead = value * (1.0 if "values" in self.carries else goes)
            delta = data["rewards"][t] + self.gamma * ahead \
                - data["values"][t]
            later = delta + self.gamma * self.lam * later * (
                1.0 if "advantages" in self.carries else goes)
            out.append(later)
            value, over = data["values"][t], data["dones"][t]
        advantages = torch.stack(out[::-1])
        return {"advantages": advantages,
                "returns": advantages + data["values"]}


def layer_init(layer, std=math.sqrt(2)):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    """An actor and a critic of two hidden layers each."""

    def __init__(self, activation="tanh", width=64, detach_after=(),
                 half_at=None, clip_coef=CLIP, ent_coef=ENTROPY,
                 vf_coef=VALUE, norm_adv=True, clip_vloss=True,
                 per_env=False):
        """detach_after: layers behind which the graph is cut. half_at: whose
        output is in half precision. per_env: advantages are normalized by
        environment, and not by minibatch, without an epsilon."""
        super().__init__()
        self.detach_after = (detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)
        self.half_at, self.clip_coef, self.ent_coef = (half_at, clip_coef,
                                                       ent_coef)
        self.vf_coef, self.norm_adv, self.clip_vloss = (vf_coef, norm_adv,
                                                        clip_vloss)
        self.per_env, self.terms = per_env, {}
        self.squashes, self.keeps, self.maps, self.returns = (False, None,
                                                              None, [])
        act = ACTS[activation]

        def network(out, std):
            return nn.Sequential(
                layer_init(nn.Linear(OBS, width)), act(),
                layer_init(nn.Linear(width, width)), act(),
                layer_init(nn.Linear(width, out), std))
        self.critic, self.actor = network(1, 1.0), network(ACTIONS, 0.01)

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def run(self, net, x):
        for k, layer in enumerate(getattr(self, net)):
            name = f"{net}.{k}"
            self.tap(f"{name}.input", x)
            x = layer(x.to(layer.weight.dtype)
                      if isinstance(layer, nn.Linear) else x)
            if name == self.half_at:
                x = x.half()
            self.tap(f"{name}.output", x)
            if name in self.detach_after:
                x = x.detach()
        return x.float()

    def logits(self, batch):
        logits = self.run("actor", batch["obs"])
        return logits if self.maps is None else self.maps(logits)

    @torch.no_grad()
    def acts(self, obs):
        """An action, how likely it was, and the state's value."""
        scores = self.log_probs(self.logits({"obs": obs}))[0]
        # Categorical would raise; what is logged by then says enough.
        scores = scores.nan_to_num(-1.0, 0.0, -1e4)
        action = torch.multinomial(scores.exp().clamp_min(1e-30), 1)
        return action[:, 0], scores.gather(1, action)[:, 0], \
            self.run("critic", obs)[:, 0]

    def log_probs(self, logits):
        """keeps: probabilities below it were set to zero."""
        if self.squashes:
            logits = logits.softmax(-1)
        scores = logits.log_softmax(-1)
        if self.keeps is None:
            return scores, -(scores.exp() * scores).sum(-1)
        probs = scores.exp()
        probs = probs * (probs >= self.keeps)
        self.tap("loss.probs.output", probs)
        scores = probs.log()
        self.tap("loss.nll.input", probs)
        self.tap("loss.nll.output", -scores)
        return scores, -(probs * scores).sum(-1)

    def criterion(self, logits, batch):
        scores, entropy = self.log_probs(logits)
        ratio_log = scores.gather(1, batch["actions"][:, None])[:, 0] \
            - batch["logprobs"]
        ratio = ratio_log.exp()
        self.tap("loss.ratio.output", ratio)
        gain = batch["advantages"]
        if self.per_env:
            self.tap("normalize.input", gain)
            self.tap("normalize.std.output", batch["adv_std"])
            gain = (gain - batch["adv_mean"]) / batch["adv_std"]
            self.tap("normalize.output", gain)
        elif self.norm_adv:
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        near = ratio.clamp(1 - self.clip_coef, 1 + self.clip_coef)
        policy = torch.maximum(-gain * ratio, -gain * near).mean()
        value = self.run("critic", batch["obs"])[:, 0]
        error = (value - batch["returns"]).square()
        if self.clip_vloss:
            kept = batch["values"] + (value - batch["values"]).clamp(
                -self.clip_coef, self.clip_coef)
            error = torch.maximum(error, (kept - batch["returns"]).square())
        worth, entropy = 0.5 * error.mean(), entropy.mean()
        with torch.no_grad():
            self.terms = {
                "value_loss": worth.detach(), "policy_loss": policy.detach(),
                "entropy": entropy.detach(), "old_approx_kl":
                (-ratio_log).mean(), "approx_kl":
                ((ratio - 1) - ratio_log).mean(), "clipfrac":
                ((ratio - 1).abs() > self.clip_coef).float().mean()}
        return policy - self.ent_coef * entropy + self.vf_coef * worth

    def loss(self, batch):
        if "state" in batch:
            return self.regret(batch["state"])
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss

    def regret(self, state):
        """The part that is missed of what an episode can have at most: boats
        are steered from there as in training, always in the same weather."""
        basin = Basin(torch.Generator().manual_seed(5))
        total, there = torch.zeros(len(state)), torch.ones(len(state))
        rng = torch.Generator().manual_seed(6)
        for _ in range(LONGEST):
            scores = self.logits({"obs": basin.seen(state)})
            action = torch.multinomial(
                scores.softmax(-1).nan_to_num(0.2).clamp_min(1e-30), 1,
                generator=rng)[:, 0]
            state, reward, done = basin.step(state, action)
            total += there * reward
            there = there * ~done
        self.returns.append(float(total.mean()))
        return 1 - total.mean() / LONGEST


def planned(ahead=4, boats=256):
    """The regret of who knows the task and looks some steps ahead."""
    basin = Basin(torch.Generator().manual_seed(5))
    state = Basin(torch.Generator().manual_seed(9)).fresh(boats)
    plans = torch.cartesian_prod(*[torch.arange(ACTIONS)] * ahead)
    total, there = torch.zeros(boats), torch.ones(boats)
    for _ in range(LONGEST):
        quiet = Basin(torch.Generator().manual_seed(1))
        quiet.randn = lambda *size: torch.zeros(*size)
        now = state.repeat_interleave(len(plans), 0)
        worth = torch.zeros(len(now))
        for k in range(ahead):
            now, reward, _ = quiet.step(now, plans[:, k].repeat(boats))
            worth += reward
        # What is left of it goes on for a while.
        for _ in range(3):
            now, reward, _ = quiet.step(now, torch.zeros(
                len(now), dtype=torch.int64))
            worth += reward
        best = worth.view(boats, -1).argmax(1)
        state, reward, done = basin.step(state, plans[best, 0])
        total += there * reward
        there = there * ~done
    return 1 - float(total.mean()) / LONGEST


# What feeds the activations.
BEFORE_ACT = ("actor.0", "actor.2", "critic.0", "critic.2")


class PpoRun(Family):
    """Adam at a rate that is annealed to nothing, an iteration of two epochs
    of five minibatches after the other; norms are clipped at .5."""

    family = "ppo"
    level_seed = 400
    steps, seed, language = 250, 3300, False
    optimizer_name, lr, weight_decay, eps = "adam", 1.8e-2, 0.0, 1e-5
    warmup, schedule, clip = 0, "anneal", 0.5
    recipes = {"sgd": dict(lr=1.0, weight_decay=0.0)}
    base = {"lr": 1e-2, "weight_decay": 0.0}
    batch_size, context, classes = ROWS, OBS, ACTIONS
    epoch_steps = 50    # of Lightning, which validates behind each
    source_options = {}
    # Its users have what the script prints and its summaries.
    instead = {"nanogpt": "cleanrl", "hf_trainer": "cleanrl",
               "megatron": "cleanrl", "torchtune": "cleanrl"}
    graded = {
        "F01": (dict(factor=7), dict(factor=20), dict(factor=100)),
        "F02": (dict(lr=10.0), dict(lr=100.0), dict(lr=1000.0)),
        "F03": (dict(factor=10), dict(factor=100), dict(factor=1000)),
        "F04": (dict(at=80), dict(at=40), dict(at=0)),
        "F05": (dict(modules=["critic.0", "critic.2"], where="critic.0"),
                dict(modules=["actor"], where="actor.0"), dict(part="all")),
        "F07": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F10": (dict(adamw=1e-4), dict(adamw=1e-5), dict(adamw=1e-6)),
        "F11": (dict(adam=0.001), dict(adam=0.004), dict(adam=0.02)),
        "F12": (dict(eps=0.02), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path="actor.1"), dict(path="actor.3"),
                dict(path="actor.3", more=["critic.3"])),
        "F14": (dict(modules=["actor.2"]), dict(modules=["actor.4"]),
                dict(modules=["actor.2", "actor.4", "critic.2"])),
        "F24": (dict(share=0.3), dict(share=0.5), dict(share=0.7)),
        "F26": (dict(steps=20, share=0.9), dict(steps=30, share=1.0),
                dict(steps=60, share=1.0)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=26),
                dict(part="head", bit=30)),
        "F36a": (dict(bias=-0.55), dict(bias=-1.0), dict(bias=-5.0)),
        "F36b": (dict(factor=60, kind="sigmoid"),
                 dict(factor=100, kind="tanh"),
                 dict(factor=600, kind="sigmoid")),
        "F39a": (dict(at=150, keep=0.05), dict(at=100, keep=0.1),
                 dict(at=50, keep=0.15)),
        "F42a": (dict(part="actions"), dict(part="shuffle"),
                 dict(part="init")),
        "H02": (dict(factor=0.85), dict(factor=0.7)),
        "H03": (dict(rows=400), dict(rows=320)),
        "H10": (dict(steps=110), dict(steps=140)),
        "H11": (dict(steps=120, keep="block"), dict(steps=160, keep="head"))}
    layers = LAYERS
    paths = {"embed": ("actor.0",) * 2, "attn": (None,) * 2,
             "scores": (None,) * 2, "act": ("actor.1", "actor.3"),
             "mlp": ("actor.0", "actor.2"), "block": ("actor.0", "actor.2"),
             "head": ("actor.4",) * 2}
    blocks, always_trained = 2, ("critic",)
    names = {"val_loss": "eval/regret", "val_return": "eval/episodic_return",
             "tokens": None,
             **{k: f"losses/{k}" for k in (
                 "value_loss", "policy_loss", "entropy", "old_approx_kl",
                 "approx_kl", "clipfrac", "explained_variance")},
             **{k: f"charts/{k}" for k in ("episodic_return",
                                           "episodic_length")}}

    def make_model(self):
        self.agent = Agent(**self.model_options)
        return self.agent

    def lr_factor(self, i):
        """By iterations, as where the loop sets the rate."""
        if self.schedule != "anneal":
            return super().lr_factor(i)
        ramp = min(1.0, (i + 1) / self.warmup) if self.warmup else 1.0
        return ramp * (1 - (i // self.EPOCH) / self.iterations)

    @property
    def EPOCH(self):
        """Updates of an iteration."""
        how = self.source_options
        return how.get("epochs", EPOCHS) * how.get("parts", PARTS)

    @property
    def iterations(self):
        return -(-self.steps // self.EPOCH)

    # Data.

    def make_source(self, seed):
        return self.boats(seed)

    def boats(self, seed, **how):
        other = seed == self.seed + 700     # of another rank

        def policy():
            own = vars(self)
            return (own.get("other") if other else None) \
                or own.get("model") or self.agent
        if seed not in (7, 9) and not other:
            how["report"] = self.rolled
        how = self.source_options | how
        # Accumulated minibatches are smaller parts of a rollout.
        how["parts"] = how.get("parts", PARTS) * self.accumulate
        return Rollouts(seed, policy, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Boats of one kind after those of another; None is held out."""
        return self.boats(seed, block=block, share=share)

    def easy(self, seed):
        """One kind of boats, and no current."""
        return self.boats(seed, calm=2)

    def lessons(self, seed):
        """First without a current."""
        return self.boats(seed, calm=1), self.boats(seed)

    @staticmethod
    def garbage(batch, kind, rng):
        """A corrupt buffer: observations that nobody scaled, noise, or one
        number, and the returns that go with them."""
        x = batch["obs"]
        return batch | {
            "obs": {"few": 50.0 * x, "uniform": 20 * torch.randn(
                x.shape, generator=rng), "constant": torch.full_like(
                    x, 30.0)}[kind],
            "returns": batch["returns"] + 100.0}

    @staticmethod
    def of_rows(batch, order, wrong=None):
        """Advantages and returns of other rows, of those that are wrong."""
        return batch | {k: batch[k][order] if wrong is None else torch.where(
            wrong, batch[k][order], batch[k])
            for k in ("advantages", "returns")}

    # What is logged.

    def train(self):
        self.told, self.stats, self.global_step = [], {}, 0
        super().train()

    def rolled(self, source):
        """Of each episode that ended: step, global_step, return, length."""
        at = len(self.history)
        self.told += [(at, self.global_step + e[0], *e[1:])
                      for e in source.episodes]
        self.global_step += source.envs * source.steps
        self.stats = source.stats | {"global_step": self.global_step}

    def batch_columns(self, batch):
        terms = {k: short(v) for k, v in self.model.terms.items()}
        return super().batch_columns(batch) | terms | {
            k: v if k == "global_step" else short(v)
            for k, v in self.stats.items()}

    def held_out_columns(self, batches):
        kept, self.model.returns = self.model.returns, []
        return {"val_return": sum(kept) / len(kept)}

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        """The last one, and the one that a run is resumed from."""
        done = i + 1
        if done in {self.steps, *self.notices}:
            self.checkpoints[done] = copy.deepcopy({
                "agent": model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "iteration": -(-done // self.EPOCH),
                "global_step": self.global_step})

    @property
    def run_name(self):
        return f"Basin-v0__ppo__{self.seed}__1767603600"

    def checkpoint_path(self, done):
        return f"runs/{self.run_name}/checkpoint" \
            + (".pt" if done == self.steps else f"_{done // self.EPOCH}.pt")

    def write_more(self):
        super().write_more()
        folder = self.folder / "runs" / self.run_name
        for done, state in self.checkpoints.items():
            if done - 1 > self.lasts:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(state, self.folder / self.checkpoint_path(done))
            if done == self.steps:
                torch.save(state["agent"], folder / "ppo.cleanrl_model")

    # What the user typed.

    def settings(self):
        optimizer = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "adam_betas": list(self.betas), "adam_eps": self.eps}
        how, own = self.source_options, self.model_options
        parts, steps = how.get("parts", PARTS), how.get("steps", STEPS)
        size = self.batch_size * parts * self.accumulate
        return {
            "exp_name": "ppo", "seed": self.seed,
            "torch_deterministic": True, "cuda": False, "track": False,
            "capture_video": False, "save_model": True,
            "env_id": "Basin-v0",
            "total_timesteps": size * self.iterations,
            "learning_rate": self.lr, "num_envs": size // steps,
            "num_steps": steps, "anneal_lr": self.schedule == "anneal",
            **({} if self.schedule in ("anneal", "constant")
               else {"lr_schedule": self.schedule}),
            "gamma": how.get("gamma", GAMMA),
            "gae_lambda": how.get("lam", LAMBDA),
            "reward_scale": how.get("scale", SCALE), "num_minibatches": parts,
            "update_epochs": how.get("epochs", EPOCHS),
            "norm_adv": own.get("norm_adv", True),
            "clip_coef": own.get("clip_coef", CLIP),
            "clip_vloss": own.get("clip_vloss", True),
            "ent_coef": own.get("ent_coef", ENTROPY),
            "vf_coef": own.get("vf_coef", VALUE),
            "max_grad_norm": self.clip or 0.0, "target_kl": None,
            "optimizer": self.optimizer_name, **optimizer,
            "weight_decay": self.weight_decay, "warmup_updates": self.warmup,
            "accumulate_minibatches": self.accumulate,
            "activation": own.get("activation", "tanh"),
            "precision": self.precision, "world_size": 1,
            "batch_size": size, "minibatch_size": self.batch_size,
            "num_iterations": self.iterations, **self.user}

    def model_settings(self):
        return {}

    def layer(self, part, block=0):
        return self.paths[part][block]

    def fed_by(self, layer):
        return []

    # How it ends.

    @property
    def lasts(self):
        """The last step that there is: with CleanRL's loop the one whose loss
        is no number, as Categorical refuses the next logits."""
        if self.dialect == "cleanrl":
            for i, row in enumerate(self.history):
                if not math.isfinite(row["loss"]):
                    return i
        return len(self.history) - 1

    def write(self, folder):
        """Nothing is left of what would have been behind its end."""
        end = self.lasts
        if end < len(self.history) - 1:
            self.layer_rows = [r for r in self.layer_rows if r["step"] <= end]
            self.dumps = {k: d for k, d in self.dumps.items() if k <= end}
        super().write(folder)

    def write_files(self):
        super().write_files()
        self.write_lines("packages.txt", (
            *logs.PACKAGES, "gymnasium==0.29.1", "tensorboard==2.20.0",
            "tyro==0.9.35"))
