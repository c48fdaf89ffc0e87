"""Policies: REINFORCE, DQN and PPO on a pole that wants to be balanced."""

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import grad_norm, kind, learn, mlp


class Poles:
    """Many poles on carts at once, the equations of CartPole."""

    def __init__(self, count):
        self.state, self.age = torch.empty(count, 4).uniform_(-0.05, 0.05), torch.zeros(count)
        self.finished = []

    def step(self, action):
        x, v, angle, spin = self.state.unbind(1)
        force = action.float() * 20 - 10
        push = (force + 0.05 * spin ** 2 * angle.sin()) / 1.1
        turn = (9.8 * angle.sin() - angle.cos() * push) / (0.5 * (4 / 3 - 0.1 * angle.cos() ** 2 / 1.1))
        move = push - 0.05 * turn * angle.cos() / 1.1
        self.state = torch.stack([x + 0.02 * v, v + 0.02 * move, angle + 0.02 * spin, spin + 0.02 * turn], 1)
        self.age += 1
        fallen = (self.state[:, 0].abs() > 2.4) | (self.state[:, 2].abs() > 0.2095)
        done = fallen | (self.age >= 200)
        self.finished += self.age[done].tolist()
        after = self.state.clone()
        self.state[done] = torch.empty(int(done.sum()), 4).uniform_(-0.05, 0.05)
        self.age[done] = 0
        return after, fallen.float(), done.float()


def mean_return(poles, last=20):
    recent = poles.finished[-last:]
    return sum(recent) / max(1, len(recent))


@kind(sign="loss-sign-flipped", rate="lr-too-high policy-entropy-lost")
def reinforce(run):
    """REINFORCE, printed as the example of PyTorch does: returns and no loss."""
    policy, poles = mlp(4, 64, 2), Poles(1)
    optimizer = torch.optim.Adam(policy.parameters(), run.rate(1e-2))
    average = 10.0
    for episode in range(1, 181):
        logs, done = [], 0
        while not done:
            choice = torch.distributions.Categorical(logits=policy(poles.state))
            action = choice.sample()
            logs.append(choice.log_prob(action))
            _, _, done = poles.step(action)
        back = torch.tensor([(1 - 0.99 ** (len(logs) - i)) / 0.01 for i in range(len(logs))])
        back = (back - back.mean()) / (back.std() + 1e-6)
        loss = (torch.cat(logs) * back).sum()
        learn(loss if run.has("sign") else -loss, optimizer)
        average += 0.05 * (len(logs) - average)
        if episode % 5 == 0:
            run.say(f"Episode {episode}\tLast reward: {len(logs):.2f}\tAverage reward: {average:.2f}")


@kind()
def dqn(run):
    """DQN with a target network, logged as CleanRL does."""
    q, target, poles = mlp(4, 64, 2), mlp(4, 64, 2), Poles(1)
    optimizer = torch.optim.Adam(q.parameters(), 1e-3)
    run.settings(exp_name="dqn", learning_rate=1e-3, gamma=0.99, target_network_frequency=200,
                 batch_size=64, buffer_size=10000, total_timesteps=6000, start_e=1.0, end_e=0.05)
    memory, told = [], 0
    for step in range(6000):
        explore = torch.rand(()) < max(0.05, 1 - step / 3000)
        before = poles.state.clone()
        action = torch.randint(2, (1,)) if explore else q(before).argmax(1)
        after, fallen, _ = poles.step(action)
        memory.append((before, action, after, fallen))
        while told < len(poles.finished):
            run.say(f"global_step={step}, episodic_return=[{poles.finished[told]}]")
            told += 1
        if step < 500 or step % 4:
            continue
        picked = [memory[i] for i in torch.randint(len(memory), (64,))]
        s, a, n, f = (torch.cat(part) for part in zip(*picked))
        with torch.no_grad():
            goal = 1 + 0.99 * (1 - f) * target(n).max(1).values
        values = q(s).gather(1, a[:, None]).squeeze(1)
        loss = learn(F.mse_loss(values, goal), optimizer)
        if step % 200 == 0:
            target.load_state_dict(q.state_dict())
        if step % 40 == 0:
            run.record(step=step, **{"losses/td_loss": loss, "losses/q_values": float(values.mean()),
                                     "charts/SPS": 900 + step % 37, "charts/episodic_return": mean_return(poles, 1)})


def table(groups):
    """The box that Stable-Baselines3 prints of a rollout."""
    rows = []
    for group, values in groups.items():
        rows.append((f"{group}/", ""))
        rows += [(f"   {k}", f"{v:.3g}" if isinstance(v, float) else str(v)) for k, v in values.items()]
    wide, right = max(len(k) for k, _ in rows), max(len(v) for _, v in rows)
    line = "-" * (wide + right + 7)
    return [line, *(f"| {k:{wide}} | {v:{right}} |" for k, v in rows), line]


@kind(rate="lr-too-high policy-entropy-lost", sign="loss-sign-flipped")
def ppo(run):
    """PPO, logged as Stable-Baselines3 does: boxes on the console and progress.csv."""
    body, poles, rate = nn.ModuleDict({"pi": mlp(4, 64, 2), "v": mlp(4, 64, 1)}), Poles(16), run.rate(1e-3, 1000)
    optimizer = torch.optim.Adam(body.parameters(), rate)
    run.say("Using cpu device", "Wrapping the env with a `Monitor` wrapper")
    for iteration in range(1, 41):
        seen = [[], [], [], []]
        with torch.no_grad():
            for _ in range(64):
                state = poles.state.clone()
                action = torch.distributions.Categorical(logits=body["pi"](state)).sample()
                after, fallen, done = poles.step(action)
                for part, value in zip(seen, (state, action, fallen, done)):
                    part.append(value)
            values = [body["v"](s).squeeze(1) for s in (*seen[0], after)]
            gains, gain = [], torch.zeros(16)
            for i in reversed(range(64)):
                delta = 1 + 0.99 * values[i + 1] * (1 - seen[2][i]) - values[i]
                gain = delta + 0.95 * 0.99 * (1 - seen[3][i]) * gain
                gains.insert(0, gain)
        s, a = torch.cat(seen[0]), torch.cat(seen[1])
        gain, goal = torch.cat(gains), torch.cat(gains) + torch.cat(values[:-1])
        old = torch.distributions.Categorical(logits=body["pi"](s)).log_prob(a).detach()
        explained = 1 - float((goal - torch.cat(values[:-1])).var() / goal.var())
        for _ in range(4):
            for rows in torch.randperm(1024).split(256):
                now = torch.distributions.Categorical(logits=body["pi"](s[rows]))
                change = now.log_prob(a[rows]) - old[rows]
                g = (gain[rows] - gain[rows].mean()) / (gain[rows].std() + 1e-8)
                g = -g if run.has("sign") else g
                policy = -torch.min(change.exp() * g, change.exp().clamp(0.8, 1.2) * g).mean()
                value = F.mse_loss(body["v"](s[rows]).squeeze(1), goal[rows])
                loss = learn(policy + 0.5 * value - 0.01 * now.entropy().mean(), optimizer)
        groups = {"rollout": {"ep_len_mean": mean_return(poles), "ep_rew_mean": mean_return(poles)},
                  "time": {"fps": 1450 + iteration % 7, "iterations": iteration, "time_elapsed": iteration,
                           "total_timesteps": 1024 * iteration},
                  "train": {"approx_kl": float((change.exp() - 1 - change).mean()), "clip_range": 0.2,
                            "clip_fraction": float(((change.exp() - 1).abs() > 0.2).float().mean()),
                            "entropy_loss": -float(now.entropy().mean()), "explained_variance": explained,
                            "learning_rate": rate, "loss": loss, "n_updates": 4 * iteration,
                            "policy_gradient_loss": float(policy), "value_loss": float(value)}}
        run.say(*table(groups))
        run.row("progress.csv", **{f"{g}/{k}": v for g, part in groups.items() for k, v in part.items()})
    run.say(f"grad norm at the end: {grad_norm(body):.3f}")
