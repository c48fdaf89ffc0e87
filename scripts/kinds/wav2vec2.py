"""wav2vec 2.0 as fairseq pretrains it: hidden spans are told apart.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import json
import math
import random

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, place


class TransposeLast(nn.Module):
    def forward(self, x):
        return x.transpose(-2, -1)


class ConvFeatureExtractionModel(nn.Module):
    def __init__(self, dim, layers):
        super().__init__()
        self.conv_layers, inner = nn.ModuleList(), 1
        for i, (kernel, stride) in enumerate(layers):
            conv = nn.Conv1d(inner, dim, kernel, stride=stride, bias=False)
            nn.init.kaiming_normal_(conv.weight)
            norm = [nn.GroupNorm(dim, dim)] if i == 0 else []
            self.conv_layers.append(nn.Sequential(
                conv, nn.Dropout(0.0), *norm, nn.GELU()))
            inner = dim

    def forward(self, x):
        x = x.unsqueeze(1)
        for conv in self.conv_layers:
            x = conv(x)
        return x


class MultiheadAttention(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.k_proj, self.v_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.q_proj, self.out_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        cut = lambda y: y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)
        q, k, v = (cut(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj))
        part = (q @ k.transpose(2, 3) * q.shape[-1] ** -0.5).softmax(-1)
        return self.out_proj((part @ v).transpose(1, 2).reshape(x.shape))


class TransformerSentenceEncoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.self_attn = MultiheadAttention(dim)
        self.self_attn_layer_norm = nn.LayerNorm(dim)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.final_layer_norm = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.self_attn_layer_norm(x + self.self_attn(x))
        return self.final_layer_norm(x + self.fc2(F.gelu(self.fc1(x))))


class TransformerEncoder(nn.Module):
    def __init__(self, dim, layers=2, layerdrop=0.0):
        super().__init__()
        conv = nn.Conv1d(dim, dim, 7, padding=3, groups=4)
        nn.init.normal_(conv.weight, std=math.sqrt(4 / (7 * dim)))
        nn.init.zeros_(conv.bias)
        self.pos_conv = nn.Sequential(
            nn.utils.weight_norm(conv, name="weight", dim=2), nn.Identity(),
            nn.GELU())
        self.layers = nn.ModuleList(
            TransformerSentenceEncoderLayer(dim) for _ in range(layers))
        self.layer_norm, self.layerdrop = nn.LayerNorm(dim), layerdrop
        for module in self.layers.modules():  # init_bert_params
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def forward(self, x):
        x = x + self.pos_conv(x.transpose(1, 2)).transpose(1, 2)
        x = self.layer_norm(x)
        for layer in self.layers:
            if not self.training or random.random() > self.layerdrop:
                x = layer(x)
        return x


class GumbelVectorQuantizer(nn.Module):
    def __init__(self, dim, count, groups, out, temp):
        super().__init__()
        self.groups, self.count, self.temp = groups, count, temp[0]
        self.limits = temp
        self.vars = nn.Parameter(
            torch.rand(1, groups * count, out // groups))
        self.weight_proj = nn.Linear(dim, groups * count)
        nn.init.normal_(self.weight_proj.weight, mean=0, std=1)
        nn.init.zeros_(self.weight_proj.bias)

    def set_num_updates(self, n):
        most, least, decay = self.limits
        self.temp = max(most * decay ** n, least)

    def forward(self, x):
        rows, steps, _ = x.shape
        x = self.weight_proj(x.reshape(rows * steps, -1))
        x = x.view(-1, self.groups, self.count)
        hard = F.one_hot(x.argmax(-1), self.count).float()
        many = lambda p: (-(p * (p + 1e-7).log()).sum(-1)).exp().sum()
        code, prob = many(hard.mean(0)), many(x.softmax(-1).mean(0))
        if self.training:
            hard = F.gumbel_softmax(x, tau=self.temp, hard=True)
        words = self.vars.view(self.groups, self.count, -1)
        out = torch.einsum("ngc,gcd->ngd", hard, words)
        return out.reshape(rows, steps, -1), code, prob


class Wav2Vec2Model(nn.Module):
    LAYERS = ((8, 4), (4, 2), (2, 2))

    def __init__(self, dim=32, final=16, grad_mult=0.1, layerdrop=0.0):
        super().__init__()
        self.grad_mult = grad_mult
        self.mask_emb = nn.Parameter(torch.rand(dim))
        self.feature_extractor = ConvFeatureExtractionModel(24, self.LAYERS)
        self.post_extract_proj = nn.Linear(24, dim)
        self.quantizer = GumbelVectorQuantizer(24, 8, 2, final,
                                               (2.0, 0.5, 0.99))
        self.project_q = nn.Linear(final, final)
        self.encoder = TransformerEncoder(dim, layerdrop=layerdrop)
        self.layer_norm = nn.LayerNorm(24)
        self.final_proj = nn.Linear(dim, final)

    def forward(self, source, mask, negatives=10, detach=False):
        """Logits of what is right (first) and of others, and the rest."""
        with torch.set_grad_enabled(self.grad_mult > 0
                                    and torch.is_grad_enabled()):
            x = self.feature_extractor(source)
            if 0 < self.grad_mult < 1 and x.requires_grad:
                x = x * self.grad_mult + (x * (1 - self.grad_mult)).detach()
        pen = (x ** 2).mean()
        x = self.layer_norm(x.transpose(1, 2))
        rows, steps, _ = x.shape
        y = x[mask].view(rows, -1, x.shape[-1])
        x = self.post_extract_proj(x)
        x = torch.where(mask[..., None], self.mask_emb, x)
        x = self.encoder(x)
        if detach:
            x = x.detach()
        y, code, prob = self.quantizer(y)
        y = self.project_q(y)
        count = y.shape[1]
        others = torch.randint(count - 1, (rows, count, negatives))
        others += (others >= torch.arange(count)[None, :, None]).long()
        at = torch.arange(rows)[:, None, None]
        targets = torch.cat([y[:, :, None], y[at, others]], 2)
        x = self.final_proj(x[mask].view(rows, count, -1))
        logits = F.cosine_similarity(x[:, :, None], targets, dim=-1) / 0.1
        same = (targets[:, :, 1:] == y[:, :, None]).all(-1)
        logits = torch.cat([logits[..., :1], logits[..., 1:].masked_fill(
            same, -math.inf)], 2)
        return logits.view(-1, negatives + 1), code, prob, pen


def speech(rows, frames=32, phones=10):
    """Waves of phones of some frames each, one likely after another."""
    after = torch.randperm(phones)
    tones = 0.08 + 0.25 * torch.arange(phones) / phones
    out = []
    for _ in range(rows):
        phone, freq = random.randrange(phones), []
        while len(freq) < frames * 16 + 16:
            freq += [float(tones[phone])] * (16 * random.randint(5, 8))
            phone = int(after[phone]) if random.random() < 0.9 \
                else random.randrange(phones)
        phase = torch.tensor(freq[:frames * 16 + 12]).cumsum(0)
        wave = torch.sin(2 * math.pi * phase) + 0.1 * torch.randn(len(phase))
        out.append((wave - wave.mean()) / wave.std())
    return torch.stack(out)


def spans(rows, steps, count=4, length=3):
    """Masks with as many frames in each row."""
    mask = torch.zeros(rows, steps, dtype=torch.bool)
    for i in range(rows):
        for at in torch.randperm(steps // (length + 1))[:count].tolist():
            mask[i, at * (length + 1):at * (length + 1) + length] = True
    return mask


@kind(frozenq="", fp16="", layerdrop="",
      collapse="loss-sign-flipped representation-collapse",
      rate="lr-too-high exploding-gradient", detach="detached-graph",
      schedule="lr-zero-from-scheduler")
def wav2vec2(run):
    """wav2vec 2.0 pretraining of fairseq, its JSON lines and checkpoints.

    Odd and sound: `frozenq` never trains its quantiser (BEST-RQ), `fp16`
    skips its first steps until the loss scale fits, `layerdrop` leaves out
    half of the layers in each step.
    """
    place(run, "checkpoints")
    epochs, per_epoch, rate = 5, 40, 5e-3
    drop = 0.5 if run.has("layerdrop") else 0.0
    mult = 0.1
    train, held = speech(320), speech(48)
    model = Wav2Vec2Model(grad_mult=mult, layerdrop=drop)
    model.quantizer.requires_grad_(not run.has("frozenq"))
    steps = model.feature_extractor(held[:1]).shape[-1]
    masks = spans(48, steps)
    optimizer = torch.optim.Adam(model.parameters(), run.rate(rate, 60),
                                 betas=(0.9, 0.98), eps=1e-6)
    fp16 = run.has("fp16")
    cfg = {"common": {"fp16": fp16, "log_format": "json", "log_interval": 5,
                      "seed": 1, "fp16_init_scale": 2 ** 17},
           "task": {"_name": "audio_pretraining", "data": "manifests",
                    "sample_rate": 16000, "normalize": True},
           "criterion": {"_name": "wav2vec", "infonce": True,
                         "log_keys": ["prob_perplexity", "code_perplexity",
                                      "temp"], "loss_weights": [0.1, 1.0]},
           "optimization": {"max_update": epochs * per_epoch, "lr": [rate],
                            "clip_norm": 0.0, "update_freq": [1]},
           "optimizer": {"_name": "adam", "adam_betas": "(0.9,0.98)",
                         "adam_eps": 1e-06, "weight_decay": 0.0},
           "lr_scheduler": {"_name": "polynomial_decay",
                            "warmup_updates": 20},
           "model": {"_name": "wav2vec2", "quantize_targets": True,
                     "final_dim": 16, "encoder_layerdrop": drop,
                     "latent_temp": [2.0, 0.5, 0.99], "latent_vars": 8,
                     "freeze_quantizer": run.has("frozenq"),
                     "feature_grad_mult": mult, "num_negatives": 10,
                     "mask_prob": 0.4, "mask_length": 3,
                     "encoder_layers": 2, "encoder_embed_dim": 32}}

    def log(where, text):
        run.say(f"[{run.stamp()},{int(run.clock * 1000) % 1000:03d}]"
                f"[{where}][INFO] - {text}", file="hydra_train.log")

    def losses(x, mask):
        logits, code, prob, pen = model(x, mask, detach=run.has("detach"))
        target = torch.zeros(len(logits), dtype=torch.long)
        size = len(logits)
        many = (16 - prob) / 16
        if run.has("collapse"):
            many = -many
        parts = [F.cross_entropy(logits, target, reduction="sum"),
                 0.1 * many * size, 1.0 * pen * size]
        if run.has("collapse"):
            parts[1] = 20 * parts[1]
        right = (logits.detach().argmax(1) == 0).float().mean().item()
        bits = [p.item() / size / math.log(2) for p in parts]
        return sum(parts), size, {
            "loss": sum(bits), "ntokens": size, "nsentences": len(x),
            "prob_perplexity": prob.item(), "code_perplexity": code.item(),
            "temp": model.quantizer.temp, "loss_0": bits[0],
            "loss_1": bits[1], "loss_2": bits[2], "accuracy": right}

    def words(rows, before=""):
        mean = {k: sum(r[k] for r in rows) / len(rows) for k in rows[0]}
        form = {"accuracy": lambda v: f"{v:.5f}".rstrip("0")}
        short = lambda v: f"{v:.3f}".rstrip("0").rstrip(".")
        return {before + k: form.get(k, short)(v) for k, v in mean.items()}

    def save(name, epoch, updates, found):
        keep(run, f"checkpoints/{name}.pt", {
            "args": None, "cfg": cfg, "model": model.state_dict(),
            "criterion": {}, "optimizer_history": [
                {"criterion_name": "Wav2vecCriterion",
                 "optimizer_name": "FP16Optimizer" if fp16
                 else "FairseqAdam",
                 "lr_scheduler_state": {"best": found},
                 "num_updates": updates}],
            "task_state": {}, "extra_state": {
                "metrics": {}, "previous_training_time": updates * 0.3,
                "train_iterator": {"version": 2, "epoch": epoch,
                                   "iterations_in_epoch": 0,
                                   "shuffle": True}, "val_loss": found},
            "last_optimizer_state": optimizer.state_dict()})

    def validate():
        model.eval()
        with torch.no_grad():
            row = losses(held, masks)[2]
        model.train()
        return row

    log("fairseq_cli.train", json.dumps(cfg))
    log("fairseq_cli.train", "task: AudioPretrainingTask")
    log("fairseq_cli.train", "model: Wav2Vec2Model")
    log("fairseq_cli.train", "num. shared model params: "
        f"{sum(p.numel() for p in model.parameters()):,}")
    save("checkpoint0", 0, 0, None)
    updates, scale, good, best, began = 0, 2.0 ** 17, 0, math.inf, run.clock
    for epoch in range(1, epochs + 1):
        log("fairseq.trainer", f"begin training epoch {epoch}")
        rows, whole = [], []
        order = torch.randperm(320)
        for k in range(per_epoch):
            x = train[order[8 * k:8 * k + 8]]
            model.quantizer.set_num_updates(updates)
            left = 1 - updates / (epochs * per_epoch)
            if run.has("schedule"):  # counts epochs, is called each update
                left = max(0.0, 1 - 5 * updates / (epochs * per_epoch))
            warm = min(1.0, (updates + 1) / 20)
            lr = rate * min(warm, left)
            for group in optimizer.param_groups:
                group["lr"] = run.rate(lr, 60)
            optimizer.zero_grad()
            loss, size, row = losses(x, spans(8, steps))
            run.tick(0.3)
            if fp16:  # gradients are halves on their way to the optimizer
                (loss * scale).backward()
                some = [p for p in model.parameters() if p.grad is not None]
                for p in some:
                    p.grad = p.grad.half().float() / scale
                if not all(p.grad.isfinite().all() for p in some):
                    scale, good = scale / 2, 0
                    log("fairseq.trainer", "NOTE: gradient overflow detected,"
                        " ignoring gradient, setting loss scale to: "
                        f"{scale}")
                    continue
                good += 1
                if good % 64 == 0:
                    scale *= 2
            else:
                loss.backward()
            for p in model.parameters():
                if p.grad is not None:
                    p.grad /= size
            norm = nn.utils.clip_grad_norm_(model.parameters(), math.inf)
            optimizer.step()
            updates += 1
            rows.append(row)
            whole.append(row)
            if updates % 5 == 0:
                more = {"loss_scale": f"{scale:g}"} if fp16 else {}
                log("train_inner", json.dumps(
                    {"epoch": epoch,
                     "update": round(epoch - 1 + (k + 1) / per_epoch, 3),
                     **words(rows), "wps": f"{size * 3.3:.1f}", "ups": "3.3",
                     "wpb": f"{size:g}", "bsz": "8",
                     "num_updates": str(updates), "lr": f"{lr:g}",
                     "gnorm": f"{norm.item():.3f}", **more,
                     "train_wall": "1",
                     "wall": f"{run.clock - began:.0f}"}))
                rows = []
        log("fairseq_cli.train", 'begin validation on "valid" subset')
        row = validate()
        best = min(best, row["loss"])
        log("valid", json.dumps(
            {"epoch": epoch, **words([row], "valid_"),
             "valid_num_updates": str(updates),
             "valid_best_loss": f"{best:.3f}"}))
        if epoch in (epochs // 2, epochs):
            save(f"checkpoint{epoch}", epoch, updates, row["loss"])
        if row["loss"] == best:
            save("checkpoint_best", epoch, updates, row["loss"])
        log("fairseq_cli.train", f"end of epoch {epoch} (average epoch stats "
            "below)")
        log("train", json.dumps(
            {"epoch": epoch, **words(whole, "train_"),
             "train_num_updates": str(updates), "train_lr": f"{lr:g}",
             "train_wall": f"{run.clock - began:.0f}"}))
    log("fairseq_cli.train",
        f"done training in {run.clock - began:.1f} seconds")
    return {k: validate()[k] for k in ("loss_0", "accuracy",
                                       "code_perplexity")}
