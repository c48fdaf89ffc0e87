"""DQN of Stable-Baselines3 on a mass that is pushed along a line.

Some of its designs are odd and sound. The kind tells how well its run ended,
measured on what it did not train on.
"""

import copy
import io
import json
import zipfile

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import place
from kinds.sac import Masses

PUSH = torch.tensor([-2.0, 0.0, 2.0])


class QNetwork(nn.Module):
    def __init__(self, wide=48):
        super().__init__()
        self.q_net = nn.Sequential(
            nn.Linear(2, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(),
            nn.Linear(wide, 3))

    def forward(self, x):
        return self.q_net(x)


class DQNPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_net, self.q_net_target = QNetwork(), QNetwork()
        self.q_net_target.load_state_dict(self.q_net.state_dict())


class Logger:
    """HumanOutputFormat and CSVOutputFormat."""

    def __init__(self, run, folder):
        self.run, self.path = run, f"{folder}/progress.csv"
        self.keys, self.rows = [], []

    def dump(self, values):
        shown, tag = {}, None
        for key, value in sorted(values.items()):
            text = f"{value:<8.3g}" if isinstance(value, float) \
                else str(value)
            tag = key[:key.find("/") + 1]
            shown[tag] = ""
            shown["   " + key[len(tag):]] = text
        wide, deep = max(map(len, shown)), max(map(len, shown.values()))
        dashes = "-" * (wide + deep + 7)
        self.run.say(dashes, *(f"| {k:{wide}} | {v:{deep}} |"
                               for k, v in shown.items()), dashes)
        self.keys += sorted(values.keys() - set(self.keys))
        self.rows.append(values)
        lines = [",".join(self.keys)] + [",".join(
            str(r.get(k, "")) for k in self.keys) for r in self.rows]
        (self.run.folder / self.path).write_text("\n".join(lines) + "\n")


class Running:
    """RunningMeanStd of VecNormalize."""

    def __init__(self, width):
        self.mean, self.var = torch.zeros(width), torch.ones(width)
        self.count = 1e-4

    def update(self, x):
        n, gap = len(x), x.mean(0) - self.mean
        total = self.count + n
        squares = self.var * self.count + x.var(0, unbiased=False) * n \
            + gap ** 2 * self.count * n / total
        self.mean = self.mean + gap * n / total
        self.var, self.count = squares / total, total

    def words(self):
        return {"mean": self.mean.tolist(), "std": self.var.sqrt().tolist(),
                "count": self.count}


@torch.no_grad()
def evaluate(policy, see, episodes=16):
    test, gained = Masses(episodes), torch.zeros(episodes)
    for _ in range(Masses.LENGTH):
        act = policy.q_net(see(test.state)).argmax(1)
        test.age[:] = 0
        gained += test.step(PUSH[act][:, None])[1]
    return gained


@kind(vecnorm="", polyak="", continued="",
      rate="lr-too-high exploding-gradient",
      stale="optimizer-holds-stale-params frozen-parameters",
      actions="label-pairing-mismatch label-noise",
      sign="loss-sign-flipped loss-unbounded-below")
def sb3dqn(run):
    """DQN of Stable-Baselines3: tables, progress.csv and evaluations.npz.

    Odd and sound: `vecnorm` has running statistics of what it sees in a file
    that grow with it, `polyak` moves its targets by
    a fiftieth in each step, `continued` learns a second time, so that steps
    begin anew and exploration is 1 again.
    """
    place(run, "logs", "checkpoints")
    total, envs, batch, lr, gamma = 3200, 4, 64, 2e-3, 0.9
    every, tau = (200, 1.0) if not run.has("polyak") else (4, 0.02)
    run.settings(policy="MlpPolicy", env="Mass-v0", n_envs=envs, seed=0,
                 total_timesteps=total, learning_rate=lr, buffer_size=50000,
                 learning_starts=160, batch_size=batch, tau=tau, gamma=gamma,
                 train_freq=2, gradient_steps=1, target_update_interval=every,
                 exploration_fraction=0.5, exploration_initial_eps=1.0,
                 exploration_final_eps=0.05, max_grad_norm=10,
                 normalize=run.has("vecnorm"), eval_freq=200,
                 policy_kwargs={"net_arch": [48, 48]})
    policy = DQNPolicy()
    optimizer = torch.optim.Adam(policy.parameters(), run.rate(lr, 200))
    if run.has("stale"):  # set_parameters() of a start makes new networks
        policy.q_net = QNetwork()
        policy.q_net_target = copy.deepcopy(policy.q_net)
    log = Logger(run, "logs")
    run.say("Using cpu device", "Wrapping the env in a DummyVecEnv.",
            "Logging to ./logs/")
    seen = Running(2)
    norm = run.has("vecnorm")
    see = (lambda s: ((s - seen.mean) / (seen.var + 1e-8).sqrt())
           .clamp(-10, 10)) if norm else lambda s: s
    memory = [torch.zeros(total, w).squeeze(1) for w in (2, 1, 1, 2)]
    stored, begin = 0, run.clock
    evals = {"timesteps": [], "results": [], "ep_lengths": []}
    best, updates = -1e9, 0

    def save(name, steps):
        data = {"policy_class": {":type:": "<class 'abc.ABCMeta'>"},
                "num_timesteps": steps, "_total_timesteps": rounds[-1],
                "learning_rate": lr, "buffer_size": 50000, "gamma": gamma,
                "batch_size": batch, "tau": tau, "n_envs": envs,
                "exploration_rate": eps, "_n_updates": updates,
                "target_update_interval": every, "max_grad_norm": 10}
        with zipfile.ZipFile(run.folder / f"{name}.zip", "w") as out:
            out.writestr("data", json.dumps(data, indent=4))
            for part, value in (
                    ("policy.optimizer.pth", optimizer.state_dict()),
                    ("policy.pth", policy.state_dict())):
                raw = io.BytesIO()
                torch.save(value, raw)
                out.writestr(part, raw.getvalue())
            out.writestr("_stable_baselines3_version", "2.3.2")
            out.writestr("system_info.txt", "- Stable-Baselines3: 2.3.2\n"
                         f"- PyTorch: {torch.__version__}\n")
        if norm:
            run.write(f"{name}_vecnormalize.json", {
                "obs_rms": seen.words(), "norm_obs": True,
                "norm_reward": False, "clip_obs": 10.0})

    rounds = [total // 2] * 2 if run.has("continued") else [total]
    last, loss, eps = {}, [], 1.0
    save("checkpoints/rl_model_0_steps", 0)
    for number, wanted in enumerate(rounds):
        if number:
            run.say("Logging to ./logs/")
            begin = run.clock
        masses, ended, steps, episodes = Masses(envs), [], 0, 0
        masses.age[:] = 0
        while steps < wanted:
            done = steps / wanted
            eps = max(0.05, 1 - 0.95 * done / 0.5)
            state = masses.state.clone()
            if norm:
                seen.update(state)
            with torch.no_grad():
                act = policy.q_net(see(state)).argmax(1)
            wild = torch.rand(envs) < eps
            act = torch.where(wild, torch.randint(3, (envs,)), act)
            after, reward, over = masses.step(PUSH[act][:, None])
            kept = act.roll(1) if run.has("actions") else act
            for store, value in zip(memory, (state, kept, reward, after)):
                store[stored:stored + envs] = value
            stored += envs
            steps += envs
            ended += over
            run.tick(0.005)
            calls = steps // envs
            if steps > 160 and calls % 2 == 0:
                rows = torch.randint(stored, (batch,))
                s, a, r, n = (store[rows] for store in memory)
                s, a, n = see(s), a.long(), see(n)
                with torch.no_grad():
                    goal = r + gamma * policy.q_net_target(n).max(1).values
                q = policy.q_net(s).gather(1, a[:, None])[:, 0]
                found = F.smooth_l1_loss(q, goal)
                if run.has("sign"):  # the gap of CQL, with its sign lost
                    found = found - q.mean()
                optimizer.zero_grad()
                found.backward()
                nn.utils.clip_grad_norm_(policy.parameters(), 10)
                optimizer.step()
                updates += 1
                loss = found.item()
                last = {"train/learning_rate": lr, "train/loss": loss,
                        "train/n_updates": updates}
            if steps % every < envs:
                with torch.no_grad():
                    for slow, fast in zip(policy.q_net_target.parameters(),
                                          policy.q_net.parameters()):
                        slow.mul_(1 - tau).add_(tau * fast)
            if over:
                episodes += envs
                log.dump({
                    "rollout/ep_len_mean": float(Masses.LENGTH),
                    "rollout/ep_rew_mean": float(np.mean(ended[-100:])),
                    "rollout/exploration_rate": float(eps),
                    "time/episodes": episodes,
                    "time/fps": int(steps / (run.clock - begin)),
                    "time/time_elapsed": int(run.clock - begin),
                    "time/total_timesteps": steps, **last})
            if steps % 400 == 0:
                gained = evaluate(policy, see)
                mean, wide = gained.mean().item(), gained.std().item()
                run.say(f"Eval num_timesteps={steps}, episode_reward="
                        f"{mean:.2f} +/- {wide:.2f}",
                        "Episode length: 40.00 +/- 0.00")
                log.dump({"eval/mean_ep_length": 40.0,
                          "eval/mean_reward": mean,
                          "rollout/exploration_rate": float(eps),
                          "time/total_timesteps": steps, **last})
                evals["timesteps"].append(steps)
                evals["results"].append(gained.tolist())
                evals["ep_lengths"].append([40] * 16)
                np.savez(run.folder / "logs/evaluations.npz", **{
                    k: np.array(v) for k, v in evals.items()})
                if mean > best:
                    best = mean
                    run.say("New best mean reward!")
                    save("logs/best_model", steps)
            if steps % (wanted // 2) == 0:
                more = "_again" if number else ""
                save(f"checkpoints/rl_model{more}_{steps}_steps", steps)
    run.ends(reward=evaluate(policy, see, 64).mean(), loss=loss)
