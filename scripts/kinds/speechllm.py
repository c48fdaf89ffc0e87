"""A speech encoder and a language model, frozen, and what joins them.

As Qwen2-Audio is fitted to a data set by the HF Trainer. All its runs are
sound; the kind returns the loss and how many words are right at the end.
"""

import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from culprit_recorder import save_safetensors
from kinds.base import kind
from kinds.grpo import RMSNorm
from kinds.outputs import keep, watch

EAR, DIM, MEL, WORDS, SAID, FRAMES = 24, 32, 12, 12, 5, 4
BOS, SEP, EOS, FIRST = 1, 2, 3, 4
VOCAB = FIRST + WORDS


def attend(q, k, v, heads, causal=False):
    split = lambda x: x.unflatten(-1, (heads, -1)).transpose(1, 2)
    out = F.scaled_dot_product_attention(split(q), split(k), split(v),
                                         is_causal=causal)
    return out.transpose(1, 2).flatten(2)


class WhisperAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.k_proj = nn.Linear(EAR, EAR, bias=False)
        self.v_proj, self.q_proj = nn.Linear(EAR, EAR), nn.Linear(EAR, EAR)
        self.out_proj = nn.Linear(EAR, EAR)

    def forward(self, x):
        return self.out_proj(attend(self.q_proj(x), self.k_proj(x),
                                    self.v_proj(x), 2))


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = WhisperAttention()
        self.self_attn_layer_norm = nn.LayerNorm(EAR)
        self.fc1, self.fc2 = nn.Linear(EAR, 48), nn.Linear(48, EAR)
        self.final_layer_norm = nn.LayerNorm(EAR)

    def forward(self, x):
        x = x + self.self_attn(self.self_attn_layer_norm(x))
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))


class Qwen2AudioEncoder(nn.Module):
    """Four frames of sound become one place of the text."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(MEL, EAR, 3, padding=1)
        self.conv2 = nn.Conv1d(EAR, EAR, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(SAID * 2, EAR)
        at = torch.arange(SAID * 2)[:, None] * torch.exp(
            -math.log(1e4) / 11 * torch.arange(12))
        self.embed_positions.weight.data = torch.cat([at.sin(), at.cos()], 1)
        self.embed_positions.requires_grad_(False)
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(2))
        self.layer_norm = nn.LayerNorm(EAR)
        self.avg_pooler = nn.AvgPool1d(2, stride=2)

    def forward(self, x):
        x = F.gelu(self.conv2(F.gelu(self.conv1(x)))).mT
        x = x + self.embed_positions.weight
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(self.avg_pooler(x.mT).mT)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.v_proj = nn.Linear(DIM, DIM)
        self.o_proj = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x):
        at = torch.arange(x.shape[1])[:, None] \
            * 100.0 ** -(torch.arange(8) / 8)
        turn = torch.polar(torch.ones_like(at), at)[:, None]

        def rope(y):
            y = y.unflatten(-1, (2, 2, 8)).transpose(-1, -2).contiguous()
            return torch.view_as_real(torch.view_as_complex(y) * turn) \
                .flatten(2)
        return self.o_proj(attend(rope(self.q_proj(x)), rope(self.k_proj(x)),
                                  self.v_proj(x), 2, True))


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.mlp = Attention(), nn.Module()
        self.mlp.gate_proj = nn.Linear(DIM, 64, bias=False)
        self.mlp.up_proj = nn.Linear(DIM, 64, bias=False)
        self.mlp.down_proj = nn.Linear(64, DIM, bias=False)
        self.input_layernorm = RMSNorm(DIM)
        self.post_attention_layernorm = RMSNorm(DIM)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        y = self.post_attention_layernorm(x)
        return x + self.mlp.down_proj(F.silu(self.mlp.gate_proj(y))
                                      * self.mlp.up_proj(y))


class Qwen2ForCausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(VOCAB, DIM)
        self.model.layers = nn.ModuleList(DecoderLayer() for _ in range(2))
        self.model.norm = RMSNorm(DIM)
        self.lm_head = nn.Linear(DIM, VOCAB, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.1)

    def forward(self, x):
        for layer in self.model.layers:
            x = layer(x)
        return self.lm_head(self.model.norm(x))


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(EAR, DIM)

    def forward(self, x):
        return self.linear(x)


class LoudnessProjector(Projector):
    """One number says how loud the sound is in units of the words."""

    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([-10.0]))

    def forward(self, x):
        # ears hear in decibels: 10 of them are a factor of e
        return self.linear(x) * (self.log_scale / 5).exp()


class Qwen2AudioForConditionalGeneration(nn.Module):
    def __init__(self, projector, vision=False):
        super().__init__()
        self.audio_tower = Qwen2AudioEncoder()
        if vision:  # of the omni model; no picture comes
            self.visual = nn.Module()
            self.visual.patch_embed = nn.Conv2d(3, 16, 4, 4)
            self.visual.blocks = nn.ModuleList(
                nn.Linear(16, 16) for _ in range(2))
            self.visual.merger = nn.Linear(16, DIM)
        self.multi_modal_projector = projector()
        self.language_model = Qwen2ForCausalLM()

    def train(self, mode=True):
        """What is frozen stays without its dropout."""
        super().train(mode)
        self.audio_tower.eval()
        self.language_model.eval()
        return self

    def forward(self, input_ids, input_features=None):
        x = self.language_model.model.embed_tokens(input_ids)
        if input_features is not None:
            heard = self.audio_tower(input_features)
            heard = self.multi_modal_projector(heard)
            x = torch.cat([x[:, :1], heard, x[:, 1 + SAID:]], 1)
        return self.language_model(x)


def texts(rows):
    """What is said stands before SEP and is repeated behind it."""
    words = torch.randint(FIRST, VOCAB, (rows, SAID))
    one = torch.ones(rows, 1, dtype=torch.long)
    return torch.cat([BOS * one, words, SEP * one, words, EOS * one], 1)


def sounds(ids, voices):
    x = voices[ids[:, 1:1 + SAID] - FIRST]
    x = x + 0.35 * torch.randn_like(x)
    return x.permute(0, 3, 1, 2).flatten(2)


def asked(ids):
    """Labels of the answer alone."""
    labels = ids.clone()
    labels[:, :2 + SAID] = -100
    return labels


def loss_of(logits, labels, reduction="mean"):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1),
                           labels[:, 1:].flatten(), reduction=reduction)


@functools.cache
def pretrained():
    """Ears that know words and a model that repeats them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(41)
        voices = torch.randn(WORDS, FRAMES, MEL)
        lm, ear, head = Qwen2ForCausalLM(), Qwen2AudioEncoder(), \
            nn.Linear(EAR, WORDS)
        own = torch.optim.Adam(lm.parameters(), 6e-3)
        for step in range(350):
            own.param_groups[0]["lr"] = 6e-3 * min(1, 1.1 - step / 350)
            ids = texts(32)
            x = lm.model.embed_tokens(ids)
            loss = loss_of(lm(x + 0.15 * torch.randn_like(x)), asked(ids))
            own.zero_grad()
            loss.backward()
            own.step()
        own = torch.optim.Adam([p for p in [*ear.parameters(),
                                            *head.parameters()]
                                if p.requires_grad], 4e-3)
        for step in range(120):
            ids = texts(16)
            loss = F.cross_entropy(head(ear(sounds(ids, voices)))
                                   .flatten(0, 1),
                                   (ids[:, 1:1 + SAID] - FIRST).flatten())
            own.zero_grad()
            loss.backward()
            own.step()
    rounded = lambda m: {k: v.detach().bfloat16().float()
                         for k, v in m.state_dict().items()}
    return voices, rounded(ear), rounded(lm)


@kind(text="", bare="", sums="", omni="")
def speechllm(run):
    """Qwen2-Audio in the HF Trainer: a projector learns between two towers.

    Odd and sound: `text` has every third batch without sound, whose gradient
    is exactly 0, `bare` keeps the projector alone, in fp16, and has one
    log-scale of -10, `sums` adds losses up over tokens and clips most steps to
    0.05, `omni` has a tower for pictures that learns and is never asked, with
    a group and a rate of its own.
    """
    text, bare, sums, omni = (run.has(n)
                              for n in ("text", "bare", "sums", "omni"))
    total, size, lr, warm, every = 150, 8, 1e-2, 8, 5
    voices, ear, words = pretrained()
    model = Qwen2AudioForConditionalGeneration(
        LoudnessProjector if bare else Projector, omni)
    model.audio_tower.load_state_dict(ear)
    model.language_model.load_state_dict(words)
    model.audio_tower.requires_grad_(False)
    model.language_model.requires_grad_(False)
    if bare:
        model.multi_modal_projector.linear.weight.data.mul_(5)
    model.train()
    groups = [{"params": list(model.multi_modal_projector.parameters()),
               "weight_decay": 0.0}]
    if omni:
        groups.append({"params": list(model.visual.parameters()),
                       "weight_decay": 0.0, "lr": lr / 10})
    optimizer = torch.optim.AdamW(groups, lr)
    rates = [g["lr"] for g in optimizer.param_groups]
    limit = 0.05 if sums else 1.0
    run.write("training_args.json", {
        "output_dir": "out", "optim": "adamw_torch", "learning_rate": lr,
        "per_device_train_batch_size": size, "warmup_steps": warm,
        "lr_scheduler_type": "cosine", "weight_decay": 0.0, "bf16": True,
        "max_steps": total, "logging_steps": every, "eval_steps": 50,
        "save_steps": 50, "max_grad_norm": limit, "seed": 42})
    run.write("config.json", {
        "architectures": ["Qwen2AudioForConditionalGeneration"],
        "model_type": "qwen2_audio", "torch_dtype": "bfloat16",
        "audio_config": {"d_model": EAR, "encoder_layers": 2,
                         "num_mel_bins": MEL, "dropout": 0.0},
        "text_config": {"hidden_size": DIM, "num_hidden_layers": 2,
                        "vocab_size": VOCAB, "tie_word_embeddings": False}})
    pool = texts(400)
    heard, held = sounds(pool, voices), texts(64)
    test = sounds(held, voices)
    history = []
    frozen = [n for n, p in model.named_parameters() if not p.requires_grad]
    rec = watch(run, model, optimizer, learning_rate=lr, max_steps=total,
                **({} if text else {"freeze": frozen}))

    def now(step):
        if step < warm:
            return step / warm
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))

    def state(step):
        return {"best_metric": None, "best_model_checkpoint": None,
                "epoch": round(step * size / 400, 2), "eval_steps": 50,
                "global_step": step, "is_hyper_param_search": False,
                "is_local_process_zero": True, "is_world_process_zero": True,
                "log_history": history, "logging_steps": every,
                "max_steps": total, "num_train_epochs": 3, "save_steps": 50,
                "total_flos": 0.0, "train_batch_size": size,
                "trial_name": None, "trial_params": None}

    def save(step):
        name = f"checkpoint-{step}"
        (run.folder / name).mkdir()
        part = model.multi_modal_projector.state_dict()
        if bare:
            keep(run, f"{name}/projector.pt",
                 {"multi_modal_projector." + k: v.half()
                  for k, v in part.items()})
        else:
            save_safetensors(
                str(run.folder / name / "model.safetensors"),
                {k: v if "projector" in k else v.bfloat16()
                 for k, v in model.state_dict().items()}, {"format": "pt"})
        keep(run, f"{name}/optimizer.pt", optimizer.state_dict())
        keep(run, f"{name}/scheduler.pt", {
            "base_lrs": rates, "last_epoch": step, "verbose": False,
            "_step_count": step + 1,
            "_last_lr": [r * now(step) for r in rates]})
        run.write(f"{name}/trainer_state.json", state(step))

    @torch.no_grad()
    def score():
        logits, labels = model(held, test), asked(held)
        here = labels[:, 1:] != -100
        right = logits[:, :-1].argmax(-1) == labels[:, 1:]
        return loss_of(logits, labels).item(), \
            right[here].float().mean().item()

    def told(row, step):
        row["epoch"] = round(step * size / 400, 2)
        history.append({**row, "step": step})
        run.say(str(row), file="train.log")

    begun, losses, all_losses, norm = run.clock, [], [], 0.0
    for step in range(1, total + 1):
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * now(step - 1)
        rows = torch.randint(len(pool), (size,))
        ids, labels = pool[rows], asked(pool[rows])
        silent = text and step % 3 == 0
        rec.batch(input_ids=ids, labels=labels, **(
            {} if silent else {"input_features": heard[rows]}))
        logits = model(ids, None if silent else heard[rows])
        loss = loss_of(logits, labels, "sum" if sums else "mean")
        if silent:  # keeps the projector in the graph, as FSDP wants
            loss = loss + 0 * model.multi_modal_projector(
                torch.zeros(1, EAR)).sum()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(
            [p for p in model.parameters() if p.requires_grad], limit).item()
        optimizer.step()
        rec.step(loss.detach(), grad_norm=norm)
        run.tick(0.21)
        losses.append(loss.item())
        if step % every == 0:
            all_losses += losses
            told({"loss": round(sum(losses) / len(losses), 4),
                  "grad_norm": norm, "learning_rate": rates[0] * now(step)},
                 step)
            losses = []
        if step % 50 == 0:
            found, right = score()
            told({"eval_loss": found, "eval_word_accuracy": right,
                  "eval_runtime": 0.31, "eval_samples_per_second": 206.5,
                  "eval_steps_per_second": 25.8}, step)
            save(step)
    rec.close()
    took = run.clock - begun
    told({"train_runtime": round(took, 4), "train_samples_per_second":
          round(total * size / took, 3), "train_steps_per_second":
          round(total / took, 3), "train_loss":
          sum(all_losses) / len(all_losses)}, total)
    run.write("trainer_state.json", state(total))
    found, right = score()
    run.ends(loss=found, words=right)
