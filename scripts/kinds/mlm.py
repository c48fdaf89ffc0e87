"""RoBERTa pretraining of fairseq on sentences of a few topics.

Some of its designs are odd and sound. The kind tells how well its run ended,
measured on what it did not train on.
"""

import json
import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, place, watch

BOS, PAD, EOS, UNK, WORDS, MASK, SIZE = 0, 1, 2, 3, 48, 54, 56


class MultiheadAttention(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            setattr(self, name, nn.Linear(dim, dim))

    def forward(self, x, pad):
        def split(y):
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = (split(p(x)) for p in (self.q_proj, self.k_proj,
                                         self.v_proj))
        scores = q @ k.mT * q.shape[-1] ** -0.5
        scores = scores.masked_fill(pad[:, None, None], -math.inf)
        out = torch.softmax(scores, -1) @ v
        return self.out_proj(out.transpose(1, 2).flatten(2))


class TransformerSentenceEncoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.self_attn = MultiheadAttention(dim)
        self.self_attn_layer_norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)
        self.final_layer_norm = nn.LayerNorm(dim)
        self.noise = 0.0

    def forward(self, x, pad):
        x = self.self_attn_layer_norm(x + self.self_attn(x, pad))
        first, second = self.fc1.weight, self.fc2.weight
        if self.noise and self.training:
            first, second = (self.dropped(w) for w in (first, second))
        h = F.gelu(F.linear(x, first, self.fc1.bias))
        return self.final_layer_norm(x + F.linear(h, second, self.fc2.bias))

    def dropped(self, weight):
        """quant_noise(): blocks of 8 are 0 for this step."""
        rows, wide = weight.shape
        off = torch.rand(rows, wide // 8) < self.noise
        off = off.repeat_interleave(8, 1)
        return weight.masked_fill(off, 0) / (1 - self.noise)


class SentenceEncoder(nn.Module):
    def __init__(self, dim, layers, places, shared):
        super().__init__()
        self.embed_tokens = nn.Embedding(SIZE, dim, padding_idx=PAD)
        self.embed_positions = nn.Embedding(places + 2, dim, padding_idx=PAD)
        self.layernorm_embedding = nn.LayerNorm(dim)
        one = TransformerSentenceEncoderLayer(dim)
        self.layers = nn.ModuleList(
            [one if shared else TransformerSentenceEncoderLayer(dim)
             for _ in range(layers)])
        self.register_buffer("version", torch.tensor([3.0]))

    def forward(self, tokens):
        pad = tokens == PAD
        place = (~pad).cumsum(1) * ~pad + PAD
        x = self.embed_tokens(tokens) + self.embed_positions(place)
        x = self.layernorm_embedding(x) * ~pad[..., None]
        for layer in self.layers:
            x = layer(x, pad)
        return x


class RobertaLMHead(nn.Module):
    def __init__(self, dim, weight):
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        self.layer_norm = nn.LayerNorm(dim)
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(SIZE))

    def forward(self, x, masked):
        x = x[masked]
        x = self.layer_norm(F.gelu(self.dense(x)))
        return F.linear(x, self.weight, self.bias)


class RobertaEncoder(nn.Module):
    def __init__(self, dim, layers, places, shared):
        super().__init__()
        self.sentence_encoder = SentenceEncoder(dim, layers, places, shared)
        self.lm_head = RobertaLMHead(
            dim, self.sentence_encoder.embed_tokens.weight)


class RobertaModel(nn.Module):
    def __init__(self, dim=32, layers=3, places=24, shared=False, std=0.02):
        super().__init__()
        self.encoder = RobertaEncoder(dim, layers, places, shared)
        for m in self.modules():  # init_bert_params
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, 0.0, std)
                if isinstance(m, nn.Linear):
                    nn.init.zeros_(m.bias)
                elif m.padding_idx is not None:
                    nn.init.zeros_(m.weight[m.padding_idx])

    def forward(self, src_tokens, masked_tokens):
        x = self.encoder.sentence_encoder(src_tokens)
        return self.encoder.lm_head(x, masked_tokens)


def sentences(rows, kinds):
    """Words of one topic, some of any; of 10 to 22 words, then padding."""
    out = torch.full((rows, 24), PAD)
    out[:, 0] = BOS
    for i in range(rows):
        many = int(torch.randint(10, 23, (1,)))
        topic = kinds[int(torch.randint(len(kinds), (1,)))]
        words = topic[torch.randint(4, (many,))]
        rare = torch.rand(many) < 0.08
        words[rare] = torch.randint(4, 4 + WORDS, (int(rare.sum()),))
        out[i, 1:many + 1] = words
        out[i, many + 1] = EOS
    return out


def masked(tokens, share):
    """MaskTokensDataset: 80 % the mask, 10 % another word, 10 % the same."""
    words = (tokens >= 4) & (tokens != MASK)
    chosen = words & (torch.rand(tokens.shape) < share)
    target = torch.where(chosen, tokens, PAD)
    how = torch.rand(tokens.shape)
    made = tokens.clone()
    made[chosen & (how < 0.8)] = MASK
    other = torch.randint(4, 4 + WORDS, tokens.shape)
    return torch.where(chosen & (how >= 0.9), other, made), target


@kind(masks="", quantnoise="", shared="",
      rate="lr-too-high exploding-gradient",
      init="bad-initialization logit-growth", softmax="double-softmax",
      schedule="lr-zero-from-scheduler lr-too-low")
def mlm(run):
    """Masked words of fairseq's RoBERTa: losses in base 2, ppl, JSON lines.

    Odd and sound: `masks` hides ever more words, 15 % to 40 %, and validates
    with 15 %, `quantnoise` has blocks of weights at 0 in each step, `shared`
    has one layer three times under three names.
    """
    place(run, "checkpoints")
    epochs, per_epoch, size, lr, warm = 5, 32, 24, 4e-3, 20
    total = epochs * per_epoch
    noise = 0.15 if run.has("quantnoise") else 0.0
    kinds = torch.randperm(WORDS).view(12, 4) + 4
    train, held = sentences(per_epoch * size, kinds), sentences(96, kinds)
    hidden, goal = masked(held, 0.15)
    model = RobertaModel(shared=run.has("shared"),
                         std=1.0 if run.has("init") else 0.02)
    for layer in model.encoder.sentence_encoder.layers:
        layer.noise = noise
    optimizer = torch.optim.Adam(model.parameters(), lr, (0.9, 0.98), 1e-6)
    cfg = {"common": {"seed": 1, "fp16": False, "log_format": "json",
                      "log_interval": 4},
           "task": {"_name": "masked_lm", "data": "data-bin/topics",
                    "sample_break_mode": "complete", "mask_prob": 0.15,
                    "leave_unmasked_prob": 0.1, "random_token_prob": 0.1,
                    "tokens_per_sample": 24,
                    "mask_prob_end": 0.4 if run.has("masks") else None},
           "criterion": {"_name": "masked_lm"},
           "dataset": {"batch_size": size, "max_tokens": None},
           "optimization": {"max_update": total, "lr": [lr],
                            "clip_norm": 1.0, "update_freq": [1]},
           "optimizer": {"_name": "adam", "adam_betas": "(0.9,0.98)",
                         "adam_eps": 1e-06, "weight_decay": 0.0},
           "lr_scheduler": {"_name": "polynomial_decay",
                            "warmup_updates": warm,
                            "total_num_update": total},
           "model": {"_name": "roberta", "encoder_layers": 3,
                     "encoder_embed_dim": 32, "encoder_ffn_embed_dim": 128,
                     "encoder_attention_heads": 2, "dropout": 0.0,
                     "share_layers": run.has("shared"),
                     "quant_noise_pq": noise, "max_positions": 24}}
    run.settings(**cfg)

    def log(where, text):
        run.say(f"{run.stamp()} | INFO | {where} | {text}")

    def loss_of(tokens, target):
        said = target != PAD
        logits = model(tokens, said)
        if run.has("softmax"):  # get_normalized_probs() instead of logits
            logits = logits.softmax(-1)
        loss = F.cross_entropy(logits, target[said], reduction="sum")
        return loss, int(said.sum())

    @torch.no_grad()
    def validate():
        model.eval()
        loss, count = loss_of(hidden, goal)
        model.train()
        return loss.item() / count / math.log(2)

    def save(name, epoch, updates, found):
        keep(run, f"checkpoints/{name}.pt", {
            "args": None, "cfg": cfg, "model": model.state_dict(),
            "criterion": {}, "optimizer_history": [{
                "criterion_name": "MaskedLmLoss",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {"best": found},
                "num_updates": updates}],
            "task_state": {}, "extra_state": {
                "metrics": {}, "previous_training_time": 0.4 * updates,
                "train_iterator": {"version": 2, "epoch": epoch,
                                   "iterations_in_epoch": 0,
                                   "shuffle": True}, "val_loss": found},
            "last_optimizer_state": optimizer.state_dict()})

    log("fairseq_cli.train", json.dumps(cfg))
    log("fairseq.tasks.masked_lm", "dictionary: 56 types")
    log("fairseq_cli.train", "task: MaskedLMTask")
    log("fairseq_cli.train", "model: RobertaModel")
    log("fairseq_cli.train", "num. shared model params: "
        f"{sum(p.numel() for p in model.parameters()):,}")
    rec = watch(run, model, optimizer, lr=lr, max_update=total,
                clip_norm=1.0, mask_prob=0.15)
    save("checkpoint0", 0, 0, None)
    updates, best, begin = 0, math.inf, run.clock
    clip = math.inf if run.has("rate") else 1.0
    short = lambda v: f"{v:.3f}".rstrip("0").rstrip(".")
    for epoch in range(1, epochs + 1):
        log("fairseq.trainer", f"begin training epoch {epoch}")
        part, whole, words = [], [], 0
        for k, rows in enumerate(torch.randperm(len(train)).split(size)):
            rise = min(1.0, (updates + 1) / warm)
            left = 1 - updates / total
            if run.has("schedule"):  # total_num_update counts epochs
                left = max(0.0, 1 - updates / (warm + epochs))
            now = run.rate(lr * min(rise, left), 100)
            for group in optimizer.param_groups:
                group["lr"] = now
            share = 0.15
            if run.has("masks"):
                share = 0.15 + 0.25 * updates / total
            tokens, target = masked(train[rows], share)
            loss, count = loss_of(tokens, target)
            optimizer.zero_grad()
            (loss / count).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            rec.batch(input_ids=tokens, labels=target)
            rec.step(loss.detach() / count, step=updates, grad_norm=norm)
            updates += 1
            bits = loss.item() / count / math.log(2)
            part.append((bits, norm.item(), count,
                         int((tokens != PAD).sum())))
            run.tick(0.4)
            if updates % 4 == 0:
                whole += part
                mean = [sum(c) / len(c) for c in zip(*part)]
                clipped = 100 * sum(p[1] > 1.0 for p in part) / len(part)
                log("train_inner", json.dumps({
                    "epoch": epoch, "update":
                    round(epoch - 1 + (k + 1) / per_epoch, 3),
                    "loss": short(mean[0]),
                    "ppl": f"{2 ** min(mean[0], 99):.2f}",
                    "wps": f"{mean[3] * 2.5:.1f}", "ups": "2.5",
                    "wpb": f"{mean[3]:.1f}", "bsz": str(size),
                    "num_updates": str(updates), "lr": f"{now:g}",
                    "gnorm": short(mean[1]), "clip": short(clipped),
                    "train_wall": "1",
                    "wall": f"{run.clock - begin:.0f}"}))
                part = []
        log("fairseq_cli.train", 'begin validation on "valid" subset')
        found = validate()
        best = min(best, found)
        log("valid", json.dumps({
            "epoch": epoch, "valid_loss": short(found),
            "valid_ppl": f"{2 ** min(found, 99):.2f}", "valid_wps": "0",
            "valid_wpb": "1536", "valid_bsz": "96",
            "valid_num_updates": str(updates),
            "valid_best_loss": short(best)}))
        if epoch in (2, epochs):
            save(f"checkpoint{epoch}", epoch, updates, found)
        if found == best:
            save("checkpoint_best", epoch, updates, found)
        mean = [sum(c) / len(c) for c in zip(*whole)]
        log("fairseq_cli.train",
            f"end of epoch {epoch} (average epoch stats below)")
        log("train", json.dumps({
            "epoch": epoch, "train_loss": short(mean[0]),
            "train_ppl": f"{2 ** min(mean[0], 99):.2f}",
            "train_wpb": f"{mean[3]:.1f}", "train_bsz": str(size),
            "train_num_updates": str(updates), "train_lr": f"{now:g}",
            "train_gnorm": short(mean[1]),
            "train_wall": f"{run.clock - begin:.0f}"}))
    log("fairseq_cli.train",
        f"done training in {run.clock - begin:.1f} seconds")
    rec.close()
    run.ends(train=mean[0], valid=found)
