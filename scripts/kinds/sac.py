"""Soft actor-critic as CleanRL has it, on a mass that is pushed along a line.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, place


class Masses:
    """Masses on a line that want to rest at the origin."""

    LENGTH = 40

    def __init__(self, count):
        self.state = torch.empty(count, 2).uniform_(-1.5, 1.5)
        self.age = torch.randint(self.LENGTH, (count,))
        self.sums = torch.zeros(count)

    def step(self, action):
        """Next states, rewards, and the returns of what has ended."""
        x, v = self.state.unbind(1)
        v = (v + 0.15 * action[:, 0]).clamp(-2, 2)
        x = (x + 0.15 * v).clamp(-3, 3)
        reward = -(x ** 2 + 0.1 * v ** 2 + 0.01 * action[:, 0] ** 2)
        after = torch.stack([x, v], 1)
        self.age += 1
        self.sums += reward
        done = self.age >= self.LENGTH
        ended = self.sums[done].tolist()
        self.state = after.clone()
        self.state[done] = torch.empty(int(done.sum()), 2).uniform_(-1.5, 1.5)
        self.age[done], self.sums[done] = 0, 0.0
        return after, reward, ended


class SoftQNetwork(nn.Module):
    def __init__(self, wide=64):
        super().__init__()
        self.fc1 = nn.Linear(3, wide)
        self.fc2 = nn.Linear(wide, wide)
        self.fc3 = nn.Linear(wide, 1)

    def forward(self, x, a):
        x = F.relu(self.fc1(torch.cat([x, a], 1)))
        return self.fc3(F.relu(self.fc2(x)))


class Actor(nn.Module):
    def __init__(self, wide=64):
        super().__init__()
        self.fc1 = nn.Linear(2, wide)
        self.fc2 = nn.Linear(wide, wide)
        self.fc_mean = nn.Linear(wide, 1)
        self.fc_logstd = nn.Linear(wide, 1)
        self.register_buffer("action_scale", torch.tensor([2.0]))
        self.register_buffer("action_bias", torch.tensor([0.0]))

    def forward(self, x):
        """A drawn action, its log probability, the mean action."""
        x = F.relu(self.fc2(F.relu(self.fc1(x))))
        mean, spread = self.fc_mean(x), torch.tanh(self.fc_logstd(x))
        spread = -5 + 3.5 * (spread + 1)
        noise = torch.randn_like(mean)
        bent = torch.tanh(mean + spread.exp() * noise)
        log = -0.5 * noise ** 2 - spread - 0.5 * math.log(2 * math.pi)
        log = log - (self.action_scale * (1 - bent ** 2) + 1e-6).log()
        fit = lambda y: y * self.action_scale + self.action_bias
        return fit(bent), log.sum(1, keepdim=True), fit(torch.tanh(mean))


@kind(reset="", hardtarget="", costs="", zeroheads="",
      sign="loss-sign-flipped", stale="optimizer-holds-stale-params",
      zero="gradients-not-zeroed", rate="lr-too-high exploding-gradient")
def sac(run):
    """SAC of CleanRL on a mass on a line.

    Odd and sound: `reset` begins all networks anew half-way and keeps the
    memory, `hardtarget` copies targets whole every 25 steps, `costs` has
    rewards twentyfold, `zeroheads` begins with an actor whose heads are 0.
    """
    total, starts, batch, tau, every = 440, 40, 64, 0.05, 1
    if run.has("hardtarget"):
        tau, every = 1.0, 25
    reward_scale = 20.0 if run.has("costs") else 1.0
    run.settings(exp_name="sac_continuous_action", seed=1, env_id="Mass-v0",
                 total_timesteps=total, num_envs=8, buffer_size=10000,
                 gamma=0.9, tau=tau, batch_size=batch,
                 learning_starts=starts, policy_lr=2e-3, q_lr=3e-3,
                 policy_frequency=2, target_network_frequency=every,
                 alpha=0.2, autotune=True, reward_scale=reward_scale)
    name = f"Mass-v0__sac_continuous_action__1__{int(run.clock)}"
    place(run, "runs", "checkpoints")
    times = 100 if run.has("rate") else 1

    def fresh():
        actor, qs = Actor(), nn.ModuleList([SoftQNetwork(), SoftQNetwork()])
        if run.has("zeroheads"):
            for head in (actor.fc_mean, actor.fc_logstd):
                nn.init.zeros_(head.weight)
                nn.init.zeros_(head.bias)
        return (actor, qs, copy.deepcopy(qs),
                torch.optim.Adam(qs.parameters(), lr=3e-3 * times),
                torch.optim.Adam(actor.parameters(), lr=2e-3 * times))

    actor, qs, targets, q_own, a_own = fresh()
    if run.has("stale"):  # "--load_actor" comes after the optimizers
        actor = Actor()
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha_own, alpha = torch.optim.Adam([log_alpha], lr=3e-3), 1.0
    masses, memory, finished = Masses(8), [], []
    begin = run.clock

    def scalar(tag, value, step):
        run.row(f"runs/run-{name}-tag-{tag.replace('/', '_')}.csv",
                **{"Wall time": round(run.clock, 6), "Step": step,
                   "Value": value})

    for step in range(total):
        if run.has("reset") and step == 220:
            actor, qs, targets, q_own, a_own = fresh()
            print_line = "resetting actor, qf1, qf2 and their optimizers"
            run.say(f"global_step={step}, {print_line}")
        state = masses.state.clone()
        with torch.no_grad():
            action = torch.empty(8, 1).uniform_(-2, 2) if step < starts \
                else actor(state)[0]
        after, reward, ended = masses.step(action)
        memory.append((state, action, reward * reward_scale, after))
        if ended:
            finished.append(ended[0])
            run.say(f"global_step={step}, episodic_return=[{ended[0]:.6f}]")
            scalar("charts/episodic_return", ended[0], step)
            scalar("charts/episodic_length", masses.LENGTH, step)
        run.tick(0.011)
        if step in (starts, total // 2, total - 1):
            keep(run, f"checkpoints/sac_{step}.pt", {
                "global_step": step, "actor": actor.state_dict(),
                **{f"qf{i + 1}": q.state_dict() for i, q in enumerate(qs)},
                **{f"qf{i + 1}_target": q.state_dict()
                   for i, q in enumerate(targets)},
                "log_alpha": log_alpha.detach(),
                "q_optimizer": q_own.state_dict(),
                "actor_optimizer": a_own.state_dict(),
                "a_optimizer": alpha_own.state_dict()})
        if step <= starts:
            continue
        s, a, r, n = (torch.cat(p) for p in zip(*memory))
        rows = torch.randint(len(s), (batch,))
        s, a, r, n = s[rows], a[rows], r[rows], n[rows]
        with torch.no_grad():
            act, log, _ = actor(n)
            low = torch.min(*(q(n, act) for q in targets)) - alpha * log
            goal = r + 0.9 * low.view(-1)
        values = [q(s, a).view(-1) for q in qs]
        q_losses = [F.mse_loss(v, goal) for v in values]
        if not run.has("zero"):
            q_own.zero_grad()
        sum(q_losses).backward()
        q_own.step()
        if step % 2 == 0:
            for _ in range(2):
                pi, log, _ = actor(s)
                low = torch.min(*(q(s, pi) for q in qs))
                if run.has("sign"):
                    low = -low
                actor_loss = (alpha * log - low).mean()
                a_own.zero_grad()
                actor.zero_grad()
                actor_loss.backward(inputs=list(actor.parameters()))
                a_own.step()
                with torch.no_grad():
                    log = actor(s)[1]
                alpha_loss = (-log_alpha.exp() * (log - 1)).mean()
                alpha_own.zero_grad()
                alpha_loss.backward()
                alpha_own.step()
                alpha = log_alpha.exp().item()
        if step % every == 0:
            with torch.no_grad():
                for slow, fast in zip(targets.parameters(), qs.parameters()):
                    slow.copy_(tau * fast + (1 - tau) * slow)
        if step % 10 == 0:
            for i in (0, 1):
                scalar(f"losses/qf{i + 1}_values", values[i].mean().item(),
                       step)
                scalar(f"losses/qf{i + 1}_loss", q_losses[i].item(), step)
            scalar("losses/qf_loss", sum(q_losses).item() / 2, step)
            scalar("losses/actor_loss", actor_loss.item(), step)
            scalar("losses/alpha", alpha, step)
            sps = int(step / (run.clock - begin))
            run.say(f"SPS: {sps}")
            scalar("charts/SPS", sps, step)
            scalar("losses/alpha_loss", alpha_loss.item(), step)
    test, gained = Masses(64), torch.zeros(64)
    test.age[:] = 0
    with torch.no_grad():
        for _ in range(Masses.LENGTH):
            gained += test.step(actor(test.state)[2])[1]
    return {"return": gained.mean().item()}
