"""PPO of RLlib: result.json, progress.csv, checkpoints of a policy.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import csv
import json
import math
import pickle

import numpy as np
import torch
from torch import nn

from kinds.base import kind


def normc(std):
    """Rows of one length, as RLlib begins."""
    def fill(weight):
        with torch.no_grad():
            weight.normal_()
            weight.mul_(std / weight.pow(2).sum(1, keepdim=True).sqrt())
    return fill


class SlimFC(nn.Module):
    def __init__(self, inner, outer, std=1.0, act=None):
        super().__init__()
        linear = nn.Linear(inner, outer)
        normc(std)(linear.weight)
        nn.init.zeros_(linear.bias)
        self._model = nn.Sequential(linear, *([act()] if act else []))

    def forward(self, x):
        return self._model(x)


class FullyConnectedNetwork(nn.Module):
    def __init__(self, inner=2, actions=3, wide=32, share=False):
        super().__init__()
        hidden = lambda: nn.Sequential(
            SlimFC(inner, wide, 1.0, nn.Tanh), SlimFC(wide, wide, 1.0, nn.Tanh))
        self._logits = SlimFC(wide, actions, 0.01)
        self._hidden_layers = hidden()
        self.share = share
        if not share:
            self._value_branch_separate = hidden()
        self._value_branch = SlimFC(wide, 1, 0.01)

    def forward(self, x):
        seen = self._hidden_layers(x)
        apart = seen if self.share else self._value_branch_separate(x)
        return self._logits(seen), self._value_branch(apart).squeeze(1)


class Carts:
    """Carts on a line that are pushed left, not or right, to the origin."""

    def __init__(self, count, length=40):
        self.count, self.length = count, length
        self.state = torch.empty(count, 2).uniform_(-1.5, 1.5)
        self.age = torch.randint(length, (count,)) if length <= 40 else \
            torch.zeros(count, dtype=torch.long)
        self.sums = torch.zeros(count)

    def step(self, action):
        """Rewards, who is done, and the returns and lengths of those."""
        x, v = self.state.unbind(1)
        v = (v + 0.3 * (action - 1)).clamp(-2, 2)
        x = (x + 0.15 * v).clamp(-2, 2)
        reward = -(x ** 2 + 0.1 * v ** 2)
        self.state = torch.stack([x, v], 1)
        self.age += 1
        self.sums += reward
        done = self.age >= self.length
        ended = self.sums[done].tolist()
        lengths = self.age[done].tolist()
        self.state[done] = torch.empty(int(done.sum()), 2).uniform_(-1.5, 1.5)
        self.age[done], self.sums[done] = 0, 0.0
        return reward, done, ended, lengths


def flat(row, before=""):
    """The columns of progress.csv: nested keys with strokes, lists whole."""
    out = {}
    for key, value in row.items():
        if isinstance(value, dict) and value:
            out.update(flat(value, f"{before}{key}/"))
        elif not isinstance(value, dict):
            out[before + key] = value
    return out


@kind(late="", scaled="", annealed="",
      rate="lr-too-high policy-entropy-lost",
      sign="loss-sign-flipped",
      stale="optimizer-holds-stale-params frozen-parameters",
      pairs="label-pairing-mismatch label-noise")
def rllib(run):
    """PPO of RLlib on carts, a result a training iteration.

    Odd and sound: `late` has episodes of four iterations, so that rewards are
    NaN at first and in gaps, `scaled` has rewards twentyfold with shared
    layers and a value loss of hundreds, `annealed` has no KL term and a rate
    and an entropy coefficient that go to 0 by timesteps.
    """
    total, length, gamma, lam = 40, 160 if run.has("late") else 40, 0.95, 0.95
    scaled, annealed = run.has("scaled"), run.has("annealed")
    envs, fragment, mini, rounds = 8, 40, 80, 4
    base, every = 2e-3, envs * fragment
    kl_coeff, unit = 0.0 if annealed else 0.2, 2.0 if scaled else 0.1
    config = {
        "env": "Cart1D-v0", "framework": "torch", "num_workers": 0,
        "num_envs_per_worker": envs, "rollout_fragment_length": fragment,
        "train_batch_size": every, "sgd_minibatch_size": mini,
        "num_sgd_iter": rounds, "gamma": gamma, "lambda": lam, "lr": base,
        "lr_schedule": [[0, base], [total * every, 0.0]] if annealed else None,
        "kl_coeff": kl_coeff, "kl_target": 0.01, "clip_param": 0.3,
        "vf_clip_param": 1e9, "vf_loss_coeff": 2e-3 if scaled else 0.5,
        "entropy_coeff": 0.02 if annealed else 0.0,
        "entropy_coeff_schedule": [[0, 0.02], [total * every, 0.0]]
        if annealed else None, "grad_clip": 0.5 if annealed else None,
        "env_config": {"horizon": length,
                       "reward_scale": unit},
        "model": {"fcnet_hiddens": [32, 32], "fcnet_activation": "tanh",
                  "vf_share_layers": scaled, "free_log_std": False},
        "use_critic": True, "use_gae": True, "seed": 0,
        "metrics_num_episodes_for_smoothing": 100}
    run.write("params.json", config)
    model = FullyConnectedNetwork(share=scaled)
    optimizer = torch.optim.Adam(model.parameters(), lr=run.rate(base, 400))
    if run.has("stale"):  # a callback puts the warm-started model in
        warm = FullyConnectedNetwork()
        warm.load_state_dict(model.state_dict())
        model = warm
    carts, smooth, episodes, begin = Carts(envs, length), [], 0, run.clock
    columns, trial, updates = None, "a1b2c_00000", 0

    def checkpoint(i):
        folder = run.folder / f"checkpoint_{i:06d}"
        (folder / "policies/default_policy").mkdir(parents=True)
        (folder / "rllib_checkpoint.json").write_text(json.dumps(
            {"type": "Algorithm", "checkpoint_version": "1.1", "format":
             "cloudpickle", "state_file": "algorithm_state.pkl",
             "policy_ids": ["default_policy"], "ray_version": "2.6.3"}))
        state = {
            "weights": {k: v.numpy().copy()
                        for k, v in model.state_dict().items()},
            "global_timestep": i * every, "num_grad_updates": updates,
            "_optimizer_variables": [
                {"state": {k: {n: t.numpy().copy() for n, t in s.items()}
                           for k, s in optimizer.state_dict()["state"].items()},
                 "param_groups": optimizer.state_dict()["param_groups"]}],
            "current_kl_coeff": kl_coeff}
        (folder / "policies/default_policy/policy_state.pkl").write_bytes(
            pickle.dumps(state))
        (folder / "algorithm_state.pkl").write_bytes(pickle.dumps(
            {"algorithm_class": "PPO", "training_iteration": i,
             "counters": {"num_env_steps_sampled": i * every},
             "worker": {"policy_ids": ["default_policy"], "filters":
                        {"default_policy": "NoFilter"}}}))

    checkpoint(0)
    for i in range(1, total + 1):
        share = (i - 1) / total
        if annealed:
            for group in optimizer.param_groups:
                group["lr"] = base * (1 - share)
        entropy_coeff = 0.02 * (1 - share) if annealed else 0.0
        obs, acts, logs, dists, rewards, dones, values = ([] for _ in range(7))
        ended, lengths = [], []
        with torch.no_grad():
            for _ in range(fragment):
                logits, value = model(carts.state)
                action = torch.distributions.Categorical(logits=logits).sample()
                obs.append(carts.state.clone())
                values.append(value)
                dists.append(logits)
                acts.append(action)
                logs.append(logits.log_softmax(1).gather(
                    1, action[:, None])[:, 0])
                reward, done, sums, ages = carts.step(action)
                rewards.append(reward * unit)
                dones.append(done.float())
                ended += [s * unit for s in sums]
                lengths += ages
            after = model(carts.state)[1]
            gains, gain = [None] * fragment, torch.zeros(envs)
            for t in reversed(range(fragment)):
                stay = 1 - dones[t]
                delta = rewards[t] + gamma * stay * after - values[t]
                gain = delta + gamma * lam * stay * gain
                gains[t], after = gain, values[t]
        obs, acts, logs, dists, gain, value = (
            torch.cat(p) for p in (obs, acts, logs, dists, gains, values))
        goals = gain + value
        gain = (gain - gain.mean()) / gain.std().clamp(min=1e-4)
        if run.has("sign"):  # costs are minimised already, says the callback
            gain = -gain
        sums = {}
        for _ in range(rounds):
            order = torch.randperm(every)
            other = torch.randperm(every) if run.has("pairs") else order
            for rows, theirs in zip(order.split(mini), other.split(mini)):
                logits, seen = model(obs[rows])
                log = logits.log_softmax(1)
                old = dists[rows].log_softmax(1)
                ratio = (log.gather(1, acts[rows, None])[:, 0]
                         - logs[rows]).exp()
                kl = (old.exp() * (old - log)).sum(1).mean()
                entropy = -(log.exp() * log).sum(1).mean()
                surrogate = torch.min(gain[theirs] * ratio, gain[theirs]
                                      * ratio.clamp(0.7, 1.3))
                vf = ((seen - goals[rows]) ** 2).clamp(0, 1e9).mean()
                loss = -surrogate.mean() + config["vf_loss_coeff"] * vf \
                    - entropy_coeff * entropy + kl_coeff * kl
                optimizer.zero_grad()
                model.zero_grad()
                loss.backward()
                norm = nn.utils.clip_grad_norm_(
                    model.parameters(), config["grad_clip"] or math.inf)
                optimizer.step()
                updates += 1
                spread = goals[rows].var().clamp(min=1e-8)
                fit = 1 - (goals[rows] - seen).var() / spread
                for key, now in (
                        ("allreduce_latency", 0.0), ("grad_gnorm", norm),
                        ("cur_kl_coeff", kl_coeff),
                        ("cur_lr", optimizer.param_groups[0]["lr"]),
                        ("total_loss", loss),
                        ("policy_loss", -surrogate.mean()),
                        ("vf_loss", vf), ("vf_explained_var", fit.clamp(-1)),
                        ("kl", 0.0 if annealed else kl),
                        ("entropy", entropy),
                        ("entropy_coeff", entropy_coeff)):
                    sums.setdefault(key, []).append(
                        float(now.detach() if torch.is_tensor(now) else now))
        stats = {k: float(np.mean(v)) for k, v in sums.items()}
        if not annealed:
            kl_coeff *= 1.5 if stats["kl"] > 0.02 else \
                0.5 if stats["kl"] < 0.005 else 1.0
        smooth, episodes = (smooth + list(zip(ended, lengths)))[-100:], \
            episodes + len(ended)
        scores = [s for s, _ in (smooth if len(ended) < 100 else
                                 zip(ended, lengths))]
        if run.has("late"):  # metrics_num_episodes_for_smoothing is 1 there
            scores = ended
        of = lambda f: float(f(scores)) if scores else math.nan
        took = run.tick(1.9) and 1.9
        sampler = {
            "episode_reward_max": of(max), "episode_reward_min": of(min),
            "episode_reward_mean": of(np.mean),
            "episode_len_mean": float(np.mean([n for _, n in smooth]))
            if scores else math.nan, "episode_media": {},
            "episodes_this_iter": len(ended), "policy_reward_min": {},
            "policy_reward_max": {}, "policy_reward_mean": {},
            "custom_metrics": {},
            "hist_stats": {"episode_reward": scores,
                           "episode_lengths": [n for _, n in smooth]},
            "sampler_perf": {"mean_raw_obs_processing_ms": 0.41,
                             "mean_inference_ms": 0.83,
                             "mean_action_processing_ms": 0.11,
                             "mean_env_wait_ms": 0.09,
                             "mean_env_render_ms": 0.0},
            "num_faulty_episodes": 0, "connector_metrics": {}}
        counters = {f"num_{who}_steps_{what}": i * every
                    for who in ("env", "agent")
                    for what in ("sampled", "trained")}
        row = {
            "custom_metrics": {}, "episode_media": {},
            "info": {"learner": {"default_policy": {
                "learner_stats": stats, "model": {}, "custom_metrics": {},
                "num_agent_steps_trained": float(mini),
                "num_grad_updates_lifetime": updates - 9.5,
                "diff_num_grad_updates_vs_sampler_policy": 9.5}}, **counters},
            "sampler_results": sampler,
            **{k: v for k, v in sampler.items() if k != "custom_metrics"},
            "num_healthy_workers": 0, "num_in_flight_async_reqs": 0,
            "num_remote_worker_restarts": 0, **counters,
            "num_env_steps_sampled_this_iter": every,
            "num_env_steps_trained_this_iter": every,
            "timesteps_total": i * every, "num_steps_trained_this_iter": every,
            "agent_timesteps_total": i * every,
            "timers": {"training_iteration_time_ms": 1880.2,
                       "load_time_ms": 0.3, "learn_time_ms": 1201.7,
                       "synch_weights_time_ms": 0.02},
            "counters": counters, "done": i == total,
            "episodes_total": episodes, "training_iteration": i,
            "trial_id": trial, "date": run.stamp("%Y-%m-%d_%H-%M-%S"),
            "timestamp": int(run.clock), "time_this_iter_s": took,
            "time_total_s": run.clock - begin, "pid": 4242,
            "hostname": "node-1", "node_ip": "10.0.0.2", "config": config,
            "time_since_restore": run.clock - begin,
            "iterations_since_restore": i,
            "perf": {"cpu_util_percent": 51.3, "ram_util_percent": 22.8}}
        run.say(json.dumps(row), file="result.json")
        told = flat({k: v for k, v in row.items() if k != "config"})
        with open(run.folder / "progress.csv", "a", newline="") as out:
            writer = csv.DictWriter(out, columns or list(told),
                                    extrasaction="ignore")
            if columns is None:
                writer.writeheader()
                columns = list(told)
            writer.writerow(told)
        if i in (total // 2, total):
            checkpoint(i)
    test, gained = Carts(64), torch.zeros(64)
    test.age[:] = 0
    with torch.no_grad():
        for _ in range(40):
            chance = torch.distributions.Categorical(
                logits=model(test.state)[0])
            gained += test.step(chance.sample())[0]
    return {"return": round(gained.mean().item(), 3),
            "entropy": round(stats["entropy"], 3)}
