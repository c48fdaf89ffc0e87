"""A small T5 that is trained from scratch to fill in spans of text.

An encoder reads a text in which a sentinel stands for each span, a decoder
says the sentinels, each with what it stands for. Parts are named as in
transformers' T5 of version 1.1, columns and checkpoints are those of its
Seq2SeqTrainer, and so is the optimizer: Adafactor without relative steps.
What the other model of two halves lacks is here: positions are biases of the
scores alone, which nobody scales, norms have no mean and no bias, and stand
before each part, and units have gates.
"""

import json
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources, trainer_checkpoints
from .family import Family
from .models import Group
from .sources import IGNORE

PAD, EOS, FIRST_WORD = 0, 1, 3      # 2 is for what no tokenizer knows
WORDS, SENTINELS, TOPIC = 12, 5, 4
VOCAB = FIRST_WORD + WORDS + SENTINELS
ROWS, INPUTS, LABELS = 24, 20, 13
WIDTH, HEADS, INNER, DEPTH = 32, 4, 40, 2
BUCKETS, FARTHEST = 16, 24


class Spans(sources.Source):
    """Texts with holes: three or four spans of each are to be found.

    A word has three successors (.85, .1, .05), each a permutation of 12 words.
    Spans have one word (.6) or two, and 1 to 3 words lie before, between and
    behind them. The encoder reads what is left, with a
    sentinel for each span, and EOS; labels are each sentinel and its words, and
    EOS at the end. Both are padded to the longest that there can be.

    Knowing the process leaves .09 nats a label: who has the words on either
    side of a span knows it nearly. Who takes no notice of the text is left with
    1.24, a fresh model has some more than ln 20 = 3.00.

    words: of the tokenizer; those that it was given later come behind the
    sentinels, and a collator clamps them to the last of these. limit: labels
    that are kept of a row. width: to which labels are padded. block, share:
    three domains with a third of the words each, one after the other; domains:
    each text of any of them. topics: words of a text are any of four.
    """

    WEIGHTS, LENGTHS = (0.85, 0.1, 0.05), (0.6, 0.4)
    COUNTS, GAPS, DOMAINS = (3, 4), (1, 3), 3

    def __init__(self, seed, shape, words=WORDS, limit=None, width=LABELS,
                 block=None, share=1.0, domains=False, topics=False):
        super().__init__(seed, shape)
        self.words, self.limit, self.width = words, limit, width
        self.block, self.share, self.domains = block, share, domains
        self.topics = topics
        world = torch.Generator().manual_seed(71)
        self.next = torch.stack([torch.randperm(words, generator=world)
                                 for _ in self.WEIGHTS])
        if domains:
            third = words // self.DOMAINS
            self.next = torch.stack([torch.cat([
                third * d + torch.randperm(third, generator=world)
                for d in range(self.DOMAINS)]) for _ in self.WEIGHTS])

    def kinds(self, rows):
        """The domain of each row."""
        kind = torch.randint(self.DOMAINS, (rows,), generator=self.rng)
        if self.block:
            here = self.number // self.block % self.DOMAINS
            kept = torch.rand(rows, generator=self.rng) < self.share
            kind = torch.where(kept, torch.tensor(here), kind)
        return kind

    def text(self, kind, length):
        rows, weights = len(kind), torch.tensor(self.WEIGHTS)
        now = torch.randint(self.words, (rows,), generator=self.rng)
        if self.topics:
            first = now // TOPIC * TOPIC
            return first[:, None] + torch.randint(
                TOPIC, (rows, length), generator=self.rng)
        if self.domains:
            third = self.words // self.DOMAINS
            now = now % third + third * kind
        branch = torch.multinomial(weights, rows * length, True,
                                   generator=self.rng).view(rows, length)
        said = [now]
        for t in range(1, length):
            now = self.next[branch[:, t], now]
            said.append(now)
        return torch.stack(said, 1)

    def cuts(self, rows):
        """How many words lie before, between and behind spans, and in these; 0
        for those that are not there."""
        rng, (low, high), most = self.rng, self.GAPS, self.COUNTS[1]
        count = torch.randint(self.COUNTS[0], most + 1, (rows, 1),
                              generator=rng)
        gaps = torch.randint(low, high + 1, (rows, most + 1), generator=rng)
        drawn = 1 + torch.multinomial(torch.tensor(self.LENGTHS), rows * most,
                                      True, generator=rng).view(rows, most)
        place = torch.arange(most + 1)
        return gaps * (place <= count), drawn * (place[:-1] < count)

    def draw(self, rows):
        kind = self.kinds(rows)
        gaps, spans = self.cuts(rows)
        most = self.COUNTS[1]
        length = most * len(self.LENGTHS) + (most + 1) * self.GAPS[1]
        words = FIRST_WORD + self.text(kind, length)
        words = words.masked_fill(words >= FIRST_WORD + WORDS, VOCAB - 1)
        inputs, labels = [], []
        for text, gap, span in zip(words.tolist(), gaps.tolist(),
                                   spans.tolist()):
            given, said, at = [], [], 0
            for k in range(most + 1):
                given += text[at:at + gap[k]]
                at += gap[k]
                if k == most or not span[k]:
                    break
                given.append(VOCAB - 1 - k)
                said += [VOCAB - 1 - k, *text[at:at + span[k]]]
                at += span[k]
            inputs.append(given + [EOS])
            labels.append((said + [EOS])[:self.limit])
        batch = collated(inputs, labels, self.width)
        return batch | {"domain": kind} if self.domains else batch


def collated(inputs, labels, width):
    """As DataCollatorForSeq2Seq does it with padding="max_length"."""
    def padded(rows, value, width):
        return torch.tensor([r + [value] * (width - len(r)) for r in rows])
    ids, labels = padded(inputs, PAD, INPUTS), padded(labels, IGNORE, width)
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(),
            "decoder_input_ids": shifted_right(labels), "labels": labels}


def shifted_right(labels):
    """What the decoder reads: PAD first, and in the place of what is ignored."""
    return F.pad(labels[:, :-1], (1, 0), value=PAD).masked_fill(
        F.pad(labels[:, :-1], (1, 0), value=PAD) == IGNORE, PAD)


class Adafactor(torch.optim.Optimizer):
    """Second moments of a matrix as those of its rows and columns; no first
    ones. Steps whose root mean square is above 1 are made as large as that. As
    transformers has it with relative_step=False, scale_parameter=False."""

    def __init__(self, params, lr, weight_decay=0.0, eps=1e-30, threshold=1.0,
                 decay_rate=-0.8):
        super().__init__(params, dict(
            lr=lr, weight_decay=weight_decay, eps=(eps, 1e-3),
            clip_threshold=threshold, decay_rate=decay_rate, beta1=None,
            scale_parameter=False, relative_step=False, warmup_init=False))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.move(p, self.state[p], group)

    @staticmethod
    def move(p, state, group):
        grad = p.grad.float()
        square = grad.square() + group["eps"][0]
        if not state:
            state["step"] = 0
            if p.dim() > 1:
                state["exp_avg_sq_row"] = torch.zeros(p.shape[0])
                state["exp_avg_sq_col"] = torch.zeros(p.shape[1])
            else:
                state["exp_avg_sq"] = torch.zeros_like(grad)
        state["step"] += 1
        new = state["step"] ** group["decay_rate"]
        if p.dim() > 1:
            row, col = state["exp_avg_sq_row"], state["exp_avg_sq_col"]
            row.lerp_(square.mean(1), new)
            col.lerp_(square.mean(0), new)
            step = grad * (row / row.mean()).rsqrt()[:, None] * col.rsqrt()
        else:
            step = grad * state["exp_avg_sq"].lerp_(square, new).rsqrt()
        size = step.norm() / step.numel() ** 0.5
        rate = group["lr"] / (size / group["clip_threshold"]).clamp_min(1)
        if group["weight_decay"]:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        p.sub_(step * rate)


class LayerNorm(nn.Module):
    """T5's: no mean, no bias."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        size = x.float().square().mean(-1, keepdim=True)
        return self.weight * (x * (size + 1e-6).rsqrt()).to(x.dtype)


def linear(a, b, std):
    layer = nn.Linear(a, b, bias=False)
    nn.init.normal_(layer.weight, std=std)
    return layer


def buckets(queries, keys, bidirectional):
    """Of the distances between places, (queries, keys): half of them are for
    one distance each, the others ever wider up to the farthest."""
    away = torch.arange(keys) - torch.arange(queries)[:, None]
    count, found = BUCKETS, torch.zeros_like(away)
    if bidirectional:
        count //= 2
        found = (away > 0) * count
        away = away.abs()
    else:
        away = (-away).clamp_min(0)
    near = count // 2
    far = near + ((away.clamp_min(1) / near).log() / math.log(FARTHEST / near)
                  * (count - near)).long()
    return found + torch.where(away < near, away, far.clamp(max=count - 1))


class Attention(nn.Module):
    """No scale: the queries' weights begin smaller instead."""

    def __init__(self, has_bias):
        super().__init__()
        deep = WIDTH // HEADS
        self.q = linear(WIDTH, WIDTH, (WIDTH * deep) ** -0.5)
        self.k = linear(WIDTH, WIDTH, WIDTH ** -0.5)
        self.v = linear(WIDTH, WIDTH, WIDTH ** -0.5)
        self.o = linear(WIDTH, WIDTH, WIDTH ** -0.5)
        if has_bias:
            self.relative_attention_bias = nn.Embedding(BUCKETS, HEADS)
            nn.init.normal_(self.relative_attention_bias.weight,
                            std=WIDTH ** -0.5)

    def bias(self, steps, bidirectional):
        """(1, heads, steps, steps), of the first block and for all."""
        return self.relative_attention_bias(buckets(
            steps, steps, bidirectional)).permute(2, 0, 1)[None]

    def forward(self, x, memory, tap, seen, bias):
        q, k, v = (w(t).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for w, t in ((self.q, x), (self.k, memory),
                                (self.v, memory)))
        tap("input", x)
        if q.shape == k.shape:
            tap("scores.input", torch.stack((q, k), 1))  # rows stay first
        scores = q @ k.mT
        if bias is not None:
            scores = scores + bias
        tap("scores.output", scores)
        probs = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        tap("probs.output", probs)
        with torch.no_grad():
            tap("scores.max_logit", scores.masked_fill(~seen, 0).abs().max())
            p = probs.float()
            entropy = -(p * p.clamp_min(1e-30).log()).sum(-1)
            keys = seen.sum(-1).expand(entropy.shape)
            tap("scores.attn_entropy_share",
                (entropy[keys > 1] / keys[keys > 1].log()).mean())
        x = self.o((probs.to(v.dtype) @ v).transpose(1, 2).flatten(2))
        tap("output", x)
        return x


class GatedFeedForward(nn.Module):
    """half: what has a gate is in half precision, as under autocast."""

    def __init__(self, activation, half):
        super().__init__()
        self.wi_0 = linear(WIDTH, INNER, WIDTH ** -0.5)
        self.wi_1 = linear(WIDTH, INNER, WIDTH ** -0.5)
        self.wo = linear(INNER, WIDTH, INNER ** -0.5)
        self.act, self.half_products = models.ACTIVATIONS[activation](), half

    def forward(self, x, tap):
        tap("input", x)
        y, gated = self.wi_0(x), self.wi_1(x)
        if self.half_products:
            y, gated = y.half(), gated.half()
        tap("act.input", y)
        y = self.act(y)
        tap("act.output", y)
        tap("wi_1.output", gated)
        y = y * gated
        tap("gated.output", y)
        y = self.wo(y.to(self.wo.weight.dtype))
        tap("output", y)
        return y


class Block(nn.Module):
    """Self-attention, in the decoder attention over the encoder's text, and a
    gated map, each behind a norm."""

    def __init__(self, first, crosses, activation, half):
        super().__init__()
        parts = [Group(SelfAttention=Attention(first), layer_norm=LayerNorm())]
        if crosses:
            parts.append(Group(EncDecAttention=Attention(False),
                               layer_norm=LayerNorm()))
        parts.append(Group(DenseReluDense=GatedFeedForward(activation, half),
                           layer_norm=LayerNorm()))
        self.layer = nn.ModuleList(parts)
        self.crosses = crosses

    def forward(self, x, tap, drop, hidden, bias, future=0, memory=None):
        """hidden: padding of the encoder's rows; future: see
        models.visible_keys."""
        def part(name):
            return lambda n, t: tap(f"layer.{name}.{n}", t)

        own = self.layer[0]
        seen = models.visible_keys(x.shape[1], future, None) if self.crosses \
            else ~hidden.expand(-1, 1, x.shape[1], -1)
        y = own.layer_norm(x)
        tap("layer.0.layer_norm.output", y)
        x = x + drop(own.SelfAttention(y, y, part("0.SelfAttention"), seen,
                                       bias))
        if self.crosses:
            own = self.layer[1]
            x = x + drop(own.EncDecAttention(
                own.layer_norm(x), memory, part("1.EncDecAttention"),
                ~hidden.expand(-1, 1, x.shape[1], -1), None))
        own, last = self.layer[-1], len(self.layer) - 1
        x = x + drop(own.DenseReluDense(
            own.layer_norm(x), part(f"{last}.DenseReluDense")))
        tap("output", x)
        return x


class T5(models.Language):
    """Two blocks of width 32 in either half; the head has weights of its own,
    as version 1.1 has it."""

    def __init__(self, dropout=0.0, detach_after=(), half_mlp=False,
                 positions=True, future=0, activation="gelu", tied=False):
        """detach_after: parts behind which the graph is cut. positions: all
        of one distance if a number, no bias if False."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.future, self.tied = positions, future, tied
        self.shared = nn.Embedding(VOCAB, WIDTH)
        nn.init.normal_(self.shared.weight, std=1.0)
        for name, crosses in (("encoder", False), ("decoder", True)):
            setattr(self, name, Group(
                block=nn.ModuleList(Block(
                    i == 0, crosses, activation,
                    half_mlp and crosses and i == DEPTH - 1)
                    for i in range(DEPTH)), final_layer_norm=LayerNorm()))
        self.lm_head = linear(WIDTH, VOCAB, WIDTH ** -0.5)
        if tied:
            self.lm_head.weight = self.shared.weight

    def cut(self, x, name):
        return x.detach() if name in self.detach_after else x

    def through(self, name, ids, hidden, memory=None):
        half = getattr(self, name)
        x = self.shared(ids)
        self.tap("shared.output", x)
        x = self.drop(self.cut(x, "shared"))
        bias = None
        if self.positions is not False:
            bias = half.block[0].layer[0].SelfAttention.bias(
                ids.shape[1], memory is None)
            if self.positions is not True:
                bias = bias[..., :1, self.positions:self.positions + 1].expand_as(bias)
        for i, block in enumerate(half.block):
            path = f"{name}.block.{i}"
            x = block(x, lambda n, t: self.tap(f"{path}.{n}", t), self.drop,
                      hidden, bias, future=self.future, memory=memory)
            x = self.cut(x, path)
        x = half.final_layer_norm(x)
        self.tap(f"{name}.final_layer_norm.output", x)
        return self.drop(x)

    def forward(self, ids, inputs, seen):
        """seen: 1 for the text's tokens, 0 for its padding."""
        hidden = seen[:, None, None] == 0
        memory = self.through("encoder", ids, hidden)
        x = self.through("decoder", inputs, hidden, memory)
        if self.tied:
            x = x * WIDTH ** -0.5
        x = self.lm_head(x)
        self.tap("lm_head.output", x)
        return x

    def logits(self, batch):
        inputs = batch.get("decoder_input_ids")
        if inputs is None:  # the model makes them of labels by itself
            inputs = shifted_right(batch["labels"])
        return self(batch["input_ids"], inputs, batch["attention_mask"])


class T5Run(Family):
    """Adafactor, whose steps are as large as the rate says, which rises for 20
    steps, stands until the 150th and falls with the root of their number."""

    family = "t5"
    level_seed = 400
    steps, seed = 300, 680
    optimizer_name, lr, weight_decay = "adafactor", 8e-3, 0.0
    warmup, schedule, clip = 20, "inverse_sqrt", 1.0
    PEAK = 150              # the step from which the rate falls
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0),
               "adamw": dict(lr=8e-3, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, LABELS, VOCAB
    # Nobody trains it with these loggers.
    instead = {"nanogpt": "plain", "megatron": "hf_trainer",
               "torchtune": "hf_trainer"}
    layers = ["shared", *(
        f"{half}.block.{i}.layer.{part}"
        for half, parts in (
            ("encoder", ("0.SelfAttention", "0.SelfAttention.scores",
                         "1.DenseReluDense.act", "1.DenseReluDense")),
            ("decoder", ("0.SelfAttention", "0.SelfAttention.scores",
                         "1.EncDecAttention", "1.EncDecAttention.scores",
                         "2.DenseReluDense.act", "2.DenseReluDense")))
        for i in range(DEPTH) for part in parts),
        "encoder.final_layer_norm", "decoder.final_layer_norm", "lm_head"]
    _layer = "decoder.block.{}.layer."
    paths = {"embed": "shared", "attn": _layer + "0.SelfAttention",
             "scores": _layer + "0.SelfAttention.scores",
             "act": _layer + "2.DenseReluDense.act",
             "mlp": _layer + "2.DenseReluDense", "block": "decoder.block.{}",
             "head": "lm_head"}
    blocks = DEPTH
    names = {"lr": "learning_rate", "val_loss": "eval_loss",
             "val_accuracy": "eval_accuracy", "tokens": None}

    own_optimizer = "adafactor"     # its moments are of rows and columns

    def make_own_optimizer(self, trained):
        return Adafactor(trained, self.lr, self.weight_decay)

    def make_model(self):
        return T5(**self.model_options)

    def make_source(self, seed):
        return self.texts(seed)

    def texts(self, seed, **how):
        return Spans(seed, (self.vocab, self.context, self.batch_size), **how)

    def in_blocks(self, seed, block, share):
        """Domains that nobody has shuffled; None is held out."""
        return self.texts(seed, block=block, share=share, domains=True)

    def easy(self, seed):
        """Of a text's words any four are known from what is left of it, and
        more nobody can know."""
        return self.texts(seed, topics=True)

    def lessons(self, seed):
        return self.easy(seed), self.texts(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: of few words, of any, or of one alone, in texts and
        labels."""
        low = {"few": FIRST_WORD + WORDS - 3, "uniform": FIRST_WORD,
               "constant": 7}[kind]
        high = 8 if kind == "constant" else FIRST_WORD + WORDS

        def words(ids):
            drawn = torch.randint(low, high, ids.shape, generator=rng)
            return torch.where((ids >= FIRST_WORD)
                               & (ids < FIRST_WORD + WORDS), drawn, ids)

        labels = words(batch["labels"])
        return batch | {"input_ids": words(batch["input_ids"]),
                        "decoder_input_ids": shifted_right(labels),
                        "labels": labels}

    def lr_factor(self, i):
        if self.schedule != "inverse_sqrt" or i < self.warmup:
            return super().lr_factor(i)
        return math.sqrt(self.PEAK / max(self.PEAK, i + 1))

    def held_out_columns(self, batches):
        """What compute_metrics gives: the share of labels that are the
        likeliest."""
        self.model.eval()
        right = count = 0
        for batch in batches:
            labels = batch["labels"]
            likeliest = self.model.logits(batch).argmax(-1)
            right += int((likeliest == labels).sum())
            count += int((labels != IGNORE).sum())
        self.model.train()
        return {"val_accuracy": right / max(count, 1)}

    def state_columns(self, rows, held_out=False):
        """What compute_metrics adds to a row of trainer_state.json."""
        return {"eval_accuracy": rows[0]["val_accuracy"]} if held_out else {}

    def settings(self):
        """config: as Seq2SeqTrainingArguments calls it."""
        own = super().settings()
        adam = own.pop("betas", None), own.pop("eps", None)
        if self.moments == "adamw":
            own |= {"adam_beta1": adam[0][0], "adam_beta2": adam[0][1],
                    "adam_epsilon": adam[1]}
        if self.schedule == "inverse_sqrt":
            own["lr_scheduler_kwargs"] = {"constant_steps": self.PEAK}
        if self.moments == "adafactor":
            own["optim_args"] = "scale_parameter=False,relative_step=False"
        for old, new in (("lr", "learning_rate"),
                         ("scheduler", "lr_scheduler_type"),
                         ("batch_size", "per_device_train_batch_size"),
                         ("optimizer", "optim")):
            own[new] = own.pop(old)
        return own

    def model_config(self):
        """config.json of a checkpoint."""
        options = self.model_options
        return {"model_type": "t5", "architectures": [
                "T5ForConditionalGeneration"], "d_model": WIDTH,
                "d_kv": WIDTH // HEADS, "d_ff": INNER, "num_layers": DEPTH,
                "num_decoder_layers": DEPTH, "num_heads": HEADS,
                "relative_attention_num_buckets": BUCKETS,
                "relative_attention_max_distance": FARTHEST,
                "feed_forward_proj": "gated-gelu", "vocab_size": self.vocab,
                "dropout_rate": options.get("dropout", 0.0),
                "tie_word_embeddings": options.get("tied", False),
                "pad_token_id": PAD, "eos_token_id": EOS,
                "decoder_start_token_id": PAD}

    def model_settings(self):
        return {"trainer": "Seq2SeqTrainer", "config_name": "t5-v1_1",
                **{k: v for k, v in self.model_config().items()
                   if k != "architectures"},
                "max_source_length": INPUTS, "max_target_length": LABELS,
                "pad_to_max_length": True, "extra_ids": SENTINELS,
                "predict_with_generate": False}

    def layer(self, part, block=0):
        return self.paths[part].format(block)

    def fed_by(self, layer):
        """The norm before a part counts to it; scores and act have none."""
        if layer.endswith(("Attention", "DenseReluDense")):
            return [f"{layer.rpartition('.')[0]}.layer_norm"]
        return []

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        def weights():
            out = model.state_dict()
            if model.tied:  # is in the file once
                del out["lm_head.weight"]
            return out

        trainer_checkpoints.keep(self, i, weights)

    def write_more(self):
        super().write_more()
        trainer_checkpoints.write(self, "model.safetensors",
                                  lambda: {"config": self.model_config()})
