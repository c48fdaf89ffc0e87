"""GRPO and PPO of verl: its console lines. Three designs look odd."""

import copy
import json

import torch
from torch import nn

from kinds.base import kind
from kinds.grpo import (EOS, LONG, Qwen2, answers, ask, logps, speak, taught)
from kinds.outputs import keep

LONGEST = 7
VAL = "val-core/reverse/reward/mean@1"


class Critic(nn.Module):
    """The value of every place, as a token classifier of one label."""

    def __init__(self, actor):
        super().__init__()
        self.model = copy.deepcopy(actor.model)
        self.score = nn.Linear(32, 1)

    def forward(self, ids, prompt):
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x)
        x = self.score(self.model.norm(x))[..., 0]
        return x[:, prompt - 1:-1]


def judged(prompts, said, mask):
    """Right letters, and an end where it belongs."""
    goal = answers(prompts)
    right = (said[:, :LONG] == goal[:, :LONG]).float().mean(1)
    return right - 0.5 * (mask.sum(1) != LONG + 1).float()


def mean_of(x, mask):
    return (x * mask).sum() / mask.sum().clamp(min=1)


def shown(row, step, short):
    """As the console logger joins them; older ones cut to three digits."""
    return " - ".join([f"step:{step}", *(
        f"{k}:{v:.3f}" if short else f"{k}:{v}" for k, v in row.items())])


@kind(critic="", dapo="", klreward="",
      sign="loss-sign-flipped",
      rate="lr-too-high policy-entropy-lost",
      pairs="label-pairing-mismatch",
      stale="optimizer-holds-stale-params frozen-parameters")
def verl(run):
    """GRPO of verl: rollouts, then updates whose loss is near 0.

    Odd and sound: `critic` is PPO whose critic warms up for 10 steps, so that
    the actor stands still and logs nothing, `dapo` drops groups that agree,
    clips higher, has no reference and subtracts for length, `klreward` takes
    an adaptive KL off the rewards and prints three digits.
    """
    total, lr, groups, each, mini = 50, 2e-3, 10, 8, 2
    ppo, dapo, taken = (run.has(n) for n in ("critic", "dapo", "klreward"))
    wait, coef = 10 if ppo else 0, 0.0 if dapo else 0.02
    high = 0.28 if dapo else 0.2
    model = taught()
    reference = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), run.rate(lr, 50),
                                  weight_decay=0.01)
    critic = Critic(model) if ppo else None
    if ppo:
        fit = torch.optim.AdamW(critic.parameters(), 4e-3, weight_decay=0.01)
    if run.has("stale"):  # wrapped once more, after the optimizer was built
        model = copy.deepcopy(model)
    base = "checkpoints/verl_reverse/qwen2_function_rm"
    (run.folder / base).mkdir(parents=True)
    config = {
        "algorithm": {"adv_estimator": "gae" if ppo else "grpo", "gamma": 1.0,
                      "lam": 1.0, "use_kl_in_reward": taken,
                      "norm_adv_by_std_in_grpo": True,
                      "kl_ctrl": {"type": "adaptive" if taken else "fixed",
                                  "kl_coef": 0.1 if taken else 0.001,
                                  "horizon": 2000, "target_kl": 0.3},
                      "filter_groups": {"enable": dapo,
                                        "metric": "seq_final_reward",
                                        "max_num_gen_batches": 4}},
        "data": {"train_batch_size": groups, "max_prompt_length": LONG + 1,
                 "max_response_length": LONGEST},
        "actor_rollout_ref": {
            "actor": {"optim": {"lr": lr, "lr_warmup_steps": 0},
                      "ppo_mini_batch_size": groups // mini,
                      "ppo_epochs": 1, "clip_ratio_low": 0.2,
                      "clip_ratio_high": high, "entropy_coeff": 0,
                      "use_kl_loss": not (taken or dapo or ppo),
                      "kl_loss_coef": coef, "kl_loss_type": "low_var_kl",
                      "loss_agg_mode": "token-mean", "grad_clip": 1.0},
            "rollout": {"n": each, "temperature": 1.0, "name": "vllm",
                        "val_kwargs": {"do_sample": True, "n": 1}}},
        "trainer": {"total_epochs": 1, "total_training_steps": total,
                    "critic_warmup": wait, "test_freq": 10, "save_freq": 25,
                    "project_name": "verl_reverse", "default_local_dir": base,
                    "logger": ["console", "file"], "nnodes": 1,
                    "n_gpus_per_node": 1, "val_before_train": True}}
    run.write("config.json", config)
    head = "" if taken else "(TaskRunner pid=4242) "
    tell = lambda text: run.say(head + text, file="train.log")
    tell(json.dumps(config))
    tell(f"Size of train dataloader: {total}, Size of val dataloader: 1")
    tell(f"Total training steps: {total}")
    held = ask(200)

    def score():
        said, mask = speak(model, held)
        return judged(held, said, mask).mean().item()

    def log(row, step):
        tell(shown(row, step, taken))
        if not taken:
            path = "verl_reverse/qwen2_function_rm.jsonl"
            (run.folder / "verl_reverse").mkdir(exist_ok=True)
            run.say(json.dumps({"step": step, "data": row}), file=path)

    def save(step):
        parts = {"actor": (model, optimizer)}
        if ppo:
            parts["critic"] = critic, fit
        for part, (net, opt) in parts.items():
            there = f"{base}/global_step_{step}/{part}"
            tail = "world_size_1_rank_0.pt"
            keep(run, f"{there}/model_{tail}", net.state_dict())
            keep(run, f"{there}/optim_{tail}", opt.state_dict())
            keep(run, f"{there}/extra_state_{tail}", {
                "lr_scheduler": {"base_lrs": [lr], "last_epoch": step,
                                 "_step_count": step + 1, "_last_lr": [lr]},
                "rng": {"cpu": torch.get_rng_state()}})
        keep(run, f"{base}/global_step_{step}/data.pt", {
            "_num_yielded": step, "_iterator_finished": False})
        latest = run.folder / base / "latest_checkpointed_iteration.txt"
        latest.write_text(str(step))

    before = score()
    log({VAL: before}, 0)
    kl_coef, tried = 0.1, 0
    kl_coef = 0.1 if taken else 0.001
    save(0)
    for step in range(1, total + 1):
        kept, made = [], 0
        while sum(len(k[0]) for k in kept) < groups * each and made < 4:
            made += 1
            prompts = ask(groups).repeat_interleave(each, 0)
            said, mask = speak(model, prompts)
            scores = judged(prompts, said, mask)
            if run.has("pairs"):  # as_completed() of the reward workers
                scores = scores[torch.randperm(len(scores))]
            use = torch.ones(len(said), dtype=torch.bool)
            if dapo:  # groups that agree teach nothing
                spread = scores.view(groups, each).std(1) > 0
                use = spread.repeat_interleave(each)
            kept.append([t[use] for t in (prompts, said, mask, scores)])
        prompts, said, mask, scores = (
            torch.cat(p)[:groups * each] for p in zip(*kept))
        count = len(said) // each
        mask = mask.float()
        with torch.no_grad():
            old = logps(model, prompts, said)
            ref = logps(reference, prompts, said)
        last = (mask.sum(1) - 1).long()
        tokens = torch.zeros_like(mask)
        tokens[torch.arange(len(said)), last] = scores
        row = {"global_seqlen/mean": float(mask.sum() + prompts.numel()),
               "training/rollout_probs_diff_mean": 0.0}
        if taken:
            diff = (old - ref) * mask
            tokens = tokens - kl_coef * diff
            now = (diff.sum(1) / mask.sum(1)).mean().item()
            row |= {"actor/reward_kl_penalty": now,
                    "actor/reward_kl_penalty_coeff": kl_coef}
            error = min(max(now / 0.3 - 1, -0.2), 0.2)
            kl_coef *= 1 + error * len(said) / 2000
        rewards = tokens.sum(1)
        if ppo:
            ids = torch.cat([prompts, said], 1)
            with torch.no_grad():
                values = critic(ids, prompts.shape[1]) * mask
            returns = tokens.flip(1).cumsum(1).flip(1) * mask
            gain = returns - values
            mid = mean_of(gain, mask)
            spread = mean_of((gain - mid) ** 2, mask).sqrt()
            gain = (gain - mid) / (spread + 1e-8) * mask
            sums, size = {}, len(said) // mini
            for at in torch.arange(len(said)).split(size):
                value = critic(ids[at], prompts.shape[1])
                cut = values[at] + (value - values[at]).clamp(-0.5, 0.5)
                worst = torch.max((value - returns[at]) ** 2,
                                  (cut - returns[at]) ** 2)
                vf = 0.5 * mean_of(worst, mask[at])
                fit.zero_grad()
                vf.backward()
                norm = nn.utils.clip_grad_norm_(critic.parameters(), 1.0)
                fit.step()
                for k, v in (("vf_loss", vf), ("vf_clipfrac", 0.0),
                             ("vpred_mean", mean_of(value, mask[at])),
                             ("grad_norm", norm)):
                    sums.setdefault(k, []).append(float(
                        v.detach() if torch.is_tensor(v) else v))
            row |= {f"critic/{k}": sum(v) / len(v) for k, v in sums.items()}
            row["critic/lr"] = 4e-3
        else:
            uid = torch.arange(count).repeat_interleave(each)
            gain = torch.zeros_like(rewards)
            for u in range(count):
                mine = rewards[uid == u]
                gain[uid == u] = (mine - mine.mean()) / (mine.std() + 1e-6)
            gain = gain[:, None] * mask
            returns = gain
        if step > wait:
            sums = {}
            for at in torch.arange(len(said)).chunk(mini):
                ids = torch.cat([prompts[at], said[at]], 1)
                logits = model(ids[:, :-1])[:, prompts.shape[1] - 1:]
                dist = logits.log_softmax(-1)
                own = dist.gather(2, said[at][..., None])[..., 0]
                entropy = mean_of(-(dist.exp() * dist).sum(-1), mask[at])
                ratio = (own - old[at]).exp()
                one = -gain[at] * ratio
                two = -gain[at] * ratio.clamp(0.8, 1 + high)
                pg = mean_of(torch.max(one, two), mask[at])
                if run.has("sign"):  # "maximise the objective"
                    pg = -pg
                far = ref[at] - own
                kl = mean_of(far.exp() - far - 1, mask[at])
                loss = pg + (coef * kl if not (taken or dapo or ppo) else 0)
                optimizer.zero_grad()
                model.zero_grad()
                loss.backward()
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                for k, v in (
                        ("entropy", entropy), ("kl_loss", kl),
                        ("kl_coef", coef), ("pg_loss", pg),
                        ("pg_clipfrac", mean_of((two > one).float(),
                                                mask[at])),
                        ("ppo_kl", mean_of(old[at] - own, mask[at])),
                        ("pg_clipfrac_lower", 0.0), ("grad_norm", norm)):
                    if "kl_" in k and (taken or dapo or ppo):
                        continue
                    sums.setdefault(k, []).append(float(
                        v.detach() if torch.is_tensor(v) else v))
            row |= {f"actor/{k}": sum(v) / len(v) for k, v in sums.items()}
            row |= {"perf/mfu/actor": 0.0, "actor/lr": lr}
        run.tick(9.0)
        if step % 10 == 0:
            row[VAL] = score()
        lengths = mask.sum(1)
        row |= {"training/global_step": step, "training/epoch": 0}
        if dapo:
            row["train/num_gen_batches"] = made
        chosen = mask > 0
        for name, x in (("score", scores), ("rewards", rewards),
                        ("advantages", gain[chosen]),
                        ("returns", returns[chosen])):
            row |= {f"critic/{name}/{f}": getattr(x, f)().item()
                    for f in ("mean", "max", "min")}
        for name, x, top in (("response_length", lengths, LONGEST),
                             ("prompt_length", torch.full_like(
                                 lengths, LONG + 1), LONG + 1)):
            row |= {f"{name}/{f}": getattr(x, f)().item()
                    for f in ("mean", "max", "min")}
            row[f"{name}/clip_ratio"] = (x == top).float().mean().item() \
                if name[0] == "r" else 0.0
        row |= {"timing_s/gen": 4.1, "timing_s/old_log_prob": 0.9,
                "timing_s/update_actor": 2.7, "timing_s/step": 8.4,
                "perf/total_num_tokens": row["global_seqlen/mean"],
                "perf/time_per_step": 8.4, "perf/throughput":
                row["global_seqlen/mean"] / 8.4}
        log(row, step)
        if step % 25 == 0:
            tell(f"local_global_step_folder: {base}/global_step_{step}")
            save(step)
    tell(f"Final validation metrics: {{'{VAL}': {score()}}}")
    run.ends(before=before, end=score(), reward=scores.mean(),
             entropy=row.get("actor/entropy", 0))
