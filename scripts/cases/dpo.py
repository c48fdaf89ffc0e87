"""Preference tuning of a small language model with low-rank adapters.

As TRL's DPOTrainer does it with PEFT: a base of GPT-NeoX's kind stands still,
adapters on its linear maps learn which of two answers to a prompt is
preferred, and the same weights without adapters are the reference. Parts are
named as in PEFT and transformers, columns as in TRL, and checkpoints are those
of transformers' Trainer. The base is trained once a process, before anything
is recorded.
"""

import functools

import torch
from torch import nn
from torch.nn import functional as F

from . import llama, models, sources, trainer_checkpoints
from .family import Family
from .models import Group
from .snapshot import short
from .sources import ASSISTANT, EOS, IGNORE, PAD, SPECIAL, USER

VOCAB, CONTEXT, ROWS, TOPICS = 40, 20, 16, 4
FIRST_WORD = SPECIAL + TOPICS
WORDS = VOCAB - FIRST_WORD
WIDTH, HEADS, DEPTH, ROTARY = 48, 4, 2, 6
RANK, ALPHA, BETA = 8, 16, 0.1
TARGETS = ("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h")
SIDES = ("chosen", "rejected")


class Preferences(sources.Source):
    """Pairs of answers to a prompt, of which a rater prefers one.

    Row: USER topic prompt ASSISTANT answer EOS PAD*. An answer's word is one of
    three successors of the last (.5, .2, .1), or with .2 any. Both answers are
    drawn so, which is what the base learns to say. A word has a value, and
    another one in each of the four topics; an answer is worth their sum, and
    the rater prefers one with the logistic of the difference, as Bradley and
    Terry have it. Who knows the process is right in .87 of the pairs and has a
    loss of .29; who knows nothing has ln 2.

    words: of the tokenizer, which a collator clamps to the table's. block,
    share: topics one after the other. limit: tokens that an answer is cut to.
    least: pairs whose worths differ by less are left out. own: how much of a
    word's value is its topic's.
    """

    PROMPT, ANSWER, WEIGHTS = (3, 6), (5, 10), (0.5, 0.2, 0.1)
    SCALE, OWN = 1.0, 0.4    # of a topic's own values

    def __init__(self, seed, shape, words=WORDS, block=None, share=1.0,
                 limit=None, least=0.0, own=OWN):
        super().__init__(seed, shape)
        self.words, self.block, self.share = words, block, share
        self.limit, self.least = limit, least
        world = torch.Generator().manual_seed(61)
        self.next = torch.stack([torch.cat((
            torch.randperm(WORDS, generator=world),
            torch.randint(words, (words - WORDS,), generator=world)))
            for _ in self.WEIGHTS])
        world.manual_seed(62)
        common = torch.randn(1, 256, generator=world)
        each = torch.randn(TOPICS, 256, generator=world)
        self.values = self.SCALE * (
            (1 - own ** 2) ** 0.5 * common + own * each)[:, :words]

    def topics(self, rows):
        topic = torch.randint(TOPICS, (rows,), generator=self.rng)
        if self.block:
            here = self.number // self.block % TOPICS
            kept = torch.rand(rows, generator=self.rng) < self.share
            topic = torch.where(kept, torch.tensor(here), topic)
        return topic

    def answers(self, last, length):
        """Words (rows, longest) that go on from the last of the prompt."""
        longest, rows = self.ANSWER[1], len(last)
        branch = torch.multinomial(torch.tensor((*self.WEIGHTS, 0.2)),
                                   rows * longest, True, generator=self.rng)
        branch = branch.view(rows, longest)
        other = torch.randint(self.words, (rows, longest), generator=self.rng)
        said, now = [], last
        for t in range(longest):
            follows = self.next[branch[:, t].clamp(max=2), now]
            now = torch.where(branch[:, t] == 3, other[:, t], follows)
            said.append(now)
        there = torch.arange(longest) < length[:, None]
        return torch.stack(said, 1), there

    def draw(self, rows):
        if not self.least:
            return self.drawn(rows)[0]
        kept = []
        while sum(len(k["chosen_labels"]) for k in kept) < rows:
            batch, margin = self.drawn(2 * rows)
            kept.append({k: t[margin.abs() >= self.least]
                         for k, t in batch.items()})
        return {k: torch.cat([b[k] for b in kept])[:rows] for k in kept[0]}

    def drawn(self, rows):
        rng, (least, most) = self.rng, self.PROMPT
        topic = self.topics(rows)
        n = torch.randint(least, most + 1, (rows,), generator=rng)
        prompt = torch.randint(self.words, (rows, most), generator=rng)
        last = prompt.gather(1, n[:, None] - 1)[:, 0]
        texts = []
        for _ in SIDES:
            length = torch.randint(self.ANSWER[0], self.ANSWER[1] + 1, (rows,),
                                   generator=rng)
            texts.append(self.answers(last, length))
        worth = [(self.values[topic[:, None], words] * there).sum(1)
                 for words, there in texts]
        margin = worth[0] - worth[1]
        first = torch.rand(rows, generator=rng) < margin.sigmoid()
        batch = {}
        for side, wanted in zip(SIDES, (first, ~first)):
            words, there = (torch.where(wanted[:, None], a, b)
                            for a, b in zip(*texts))
            batch |= self.tokens(side, topic, prompt, n, words, there)
        return batch, torch.where(first, margin, -margin)

    def tokens(self, side, topic, prompt, n, words, there):
        rows, place = len(n), torch.arange(self.context)
        start = (n + 3)[:, None]            # of the answer
        end = start + there.sum(1)[:, None]
        if self.limit:
            end_kept = torch.minimum(end + 1, start + self.limit)
        else:
            end_kept = end + 1
        place = place.expand(rows, -1)
        ids = FIRST_WORD + prompt.gather(1, (place - 2).clamp(
            0, self.PROMPT[1] - 1))
        answer = FIRST_WORD + words.gather(1, (place - start).clamp(
            0, self.ANSWER[1] - 1))
        ids = torch.where(place < start - 1, ids, answer)
        ids[:, 0], ids[:, 1] = USER, SPECIAL + topic
        ids[place == start - 1] = ASSISTANT
        ids[place == end] = EOS
        ids = ids.clamp(max=self.vocab - 1)
        kept = place < end_kept
        ids = ids.masked_fill(~kept, PAD)
        labels = ids.masked_fill(~kept | (place < start), IGNORE)
        return {f"{side}_input_ids": ids, f"{side}_attention_mask":
                kept.long(), f"{side}_labels": labels}


class LoraLinear(nn.Module):
    """A linear map that stands still, and a product of two narrow ones."""

    def __init__(self, base, dropout):
        super().__init__()
        self.base_layer = base.requires_grad_(False)
        self.lora_dropout = nn.ModuleDict({"default": nn.Dropout(dropout)})
        self.lora_A = nn.ModuleDict({"default": nn.Linear(
            base.in_features, RANK, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(
            RANK, base.out_features, bias=False)})
        nn.init.zeros_(self.lora_B["default"].weight)
        self.on = True

    def forward(self, x):
        y = self.base_layer(x)
        if not self.on:
            return y
        x = self.lora_dropout["default"](x)
        return y + ALPHA / RANK * self.lora_B["default"](
            self.lora_A["default"](x))


def silent(name, tensor):
    """A tap that nobody listens to."""


def plainly(q, k, v, scale, future, half):
    """models.attend() without what it measures: the reference's."""
    scores = (q.half() @ k.half().mT if half else q @ k.mT) * scale
    seen = models.visible_keys(q.shape[2], future, None)
    return scores.masked_fill(~seen, -torch.inf).softmax(-1).to(v.dtype) @ v


class NeoxLayer(nn.Module):
    """Attention and MLP side by side, each behind a LayerNorm of its own."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.input_layernorm = nn.LayerNorm(WIDTH, options["eps"])
        self.post_attention_layernorm = nn.LayerNorm(WIDTH, options["eps"])
        self.attention = Group(query_key_value=nn.Linear(WIDTH, 3 * WIDTH),
                               dense=nn.Linear(WIDTH, WIDTH))
        self.mlp = Group(dense_h_to_4h=nn.Linear(WIDTH, 4 * WIDTH),
                         act=models.ACTIVATIONS[options["activation"]](),
                         dense_4h_to_h=nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, tap, position_ids, cut, future):
        y = self.input_layernorm(x)
        if tap:
            tap("input_layernorm.input", x)
            tap("input_layernorm.output", y)
        heads, scale = self.options["heads"], self.options["scale"]
        q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2)
                   for t in self.attention.query_key_value(y).chunk(3, -1))
        if self.options["positions"]:
            both = torch.stack((q, k)).flatten(0, 1)
            places = position_ids if len(position_ids) == 1 \
                else position_ids.repeat(2, 1)
            q, k = torch.cat((llama.rotate(both[..., :ROTARY], places),
                              both[..., ROTARY:]), -1).chunk(2)
        if scale is None:
            scale = (WIDTH // heads) ** -0.5
        half = self.options["half_scores"]
        if tap is None:
            mixed = plainly(q, k, v, scale, future, half)
            tap = silent
        else:
            mixed = models.attend(q, k, v,
                                  lambda n, t: tap(f"attention.{n}", t),
                                  scale, future, half=half)
        said = self.attention.dense(mixed.transpose(1, 2).flatten(2))
        tap("attention.output", said)
        said = said.detach() if cut else said
        y = self.post_attention_layernorm(x)
        tap("mlp.input", y)
        y = self.mlp.dense_h_to_4h(y)
        tap("mlp.act.input", y)
        y = self.mlp.act(y)
        tap("mlp.act.output", y)
        y = self.mlp.dense_4h_to_h(y)
        tap("mlp.output", y)
        return x + said + y


class Neox(nn.Module):
    """Three layers of width 48; rotary positions in half of each head."""

    def __init__(self, options):
        super().__init__()
        self.gpt_neox = Group(
            embed_in=nn.Embedding(VOCAB, WIDTH),
            layers=nn.ModuleList(NeoxLayer(options) for _ in range(DEPTH)),
            final_layer_norm=nn.LayerNorm(WIDTH, options["eps"]))
        self.embed_out = nn.Linear(WIDTH, VOCAB, bias=False)


OPTIONS = {"heads": HEADS, "scale": None, "positions": True, "eps": 1e-5,
           "activation": "gelu", "half_scores": False}


class PeftModel(nn.Module):
    """The base with adapters, and what DPO makes of it.

    squashes: a softmax before the one of the loss. averages: log-probabilities
    are means over tokens, of which there must be some. late: labels move on by
    that many places more. kind: loss_type. detach_after: parts behind which the
    graph is cut. targets, only: maps and layers that have an adapter.
    """

    PREFIX = "base_model.model."

    def __init__(self, base=True, dropout=0.0, detach_after=(), future=0,
                 targets=TARGETS, only=range(DEPTH), beta=BETA, **options):
        super().__init__()
        self.detach_after, self.future, self.beta = detach_after, future, beta
        self.squashes, self.averages = False, False
        self.kind, self.nll, self.late, self.columns = "sigmoid", 0.0, 0, {}
        self.base_model = Group(model=Neox(OPTIONS | options))
        if base:
            self.inner.load_state_dict(base_weights())
            self.adapt(targets, only, dropout)

    @property
    def inner(self):
        return self.base_model.model

    def adapt(self, targets, only, dropout):
        self.requires_grad_(False)
        for i in only:
            layer = self.inner.gpt_neox.layers[i]
            for owner in (layer.attention, layer.mlp):
                for name in targets:
                    if hasattr(owner, name):
                        setattr(owner, name, LoraLinear(getattr(owner, name),
                                                        dropout))

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def forward(self, ids, position_ids=None, quiet=False):
        tap = silent if quiet else (
            lambda name, tensor: self.tap(self.PREFIX + name, tensor))
        if position_ids is None:
            position_ids = torch.arange(ids.shape[1])[None]
        own = self.inner.gpt_neox
        x = own.embed_in(ids)
        tap("gpt_neox.embed_in.output", x)
        for i, layer in enumerate(own.layers):
            name = f"gpt_neox.layers.{i}"
            x = layer(x, None if quiet else
                      lambda n, t: tap(f"{name}.{n}", t), position_ids,
                      f"{self.PREFIX}{name}.attention" in self.detach_after,
                      future=self.future)
            tap(f"{name}.output", x)
            if self.PREFIX + name in self.detach_after:
                x = x.detach()
        x = own.final_layer_norm(x)
        tap("gpt_neox.final_layer_norm.output", x)
        x = self.inner.embed_out(x)
        tap("embed_out.output", x)
        return x

    def logits(self, batch, quiet=False):
        """Of the chosen answers, and behind them of the rejected ones."""
        if "input_ids" in batch:
            return self(batch["input_ids"], batch.get("position_ids"))
        ids = both(batch, "input_ids")
        places = batch.get("position_ids")
        if places is not None:
            places = torch.cat((places, places))
        return self(ids, places, quiet)

    def reference(self, batch):
        """Logits of the base alone."""
        for part in self.modules():
            if isinstance(part, LoraLinear):
                part.on = False
        with torch.no_grad():
            logits = self.logits(batch, quiet=True)
        for part in self.modules():
            if isinstance(part, LoraLinear):
                part.on = True
        return logits

    def token_logps(self, logits, labels):
        """Log-probability of each label, of logits one place before it."""
        logits = logits.float()
        if self.squashes:
            logits = logits.softmax(-1)
        return logits.log_softmax(-1).gather(
            -1, labels.clamp_min(0)[..., None])[..., 0]

    def logps(self, logits, labels, each=None):
        """Of whole answers."""
        labels = labels[:, 1 + self.late:]
        kept = labels != IGNORE
        each = (each or self.token_logps)(logits[:, :labels.shape[1]], labels)
        # Not a product: what does not count may be infinite.
        total = torch.where(kept, each, 0.0).sum(-1)
        return total / kept.sum(-1) if self.averages else total

    def criterion(self, logits, batch, smoothing=0.0, each=None):
        """each: what gives log-probabilities instead of token_logps()."""
        labels = both(batch, "labels")
        own = self.logps(logits, labels, each)
        base = self.logps(self.reference(batch), labels, each)
        chosen, rejected = (self.beta * (own - base)).chunk(2)
        margin = chosen - rejected
        if self.kind == "ipo":
            losses = (margin / self.beta - 1 / (2 * self.beta)).square()
        elif self.kind == "hinge":
            losses = (1 - margin).relu()
        else:
            losses = -(1 - smoothing) * F.logsigmoid(margin) \
                - smoothing * F.logsigmoid(-margin)
        loss = losses.mean()
        if self.nll:
            rows = len(labels) // 2
            said = (labels[:rows, 1:] != IGNORE).sum()
            nll = -own[:rows].sum() / said
            loss = loss + self.nll * nll
        self.note(own, chosen, rejected, logits, labels)
        if self.nll:
            self.columns["nll_loss"] = nll.detach()
        return loss

    @torch.no_grad()
    def note(self, own, chosen, rejected, logits, labels):
        """What TRL logs of a batch."""
        kept = labels[:, 1:] != IGNORE
        means = [(part.float().mean(-1) * k).sum() / k.sum() for part, k in
                 zip(logits[:, :-1].chunk(2), kept.chunk(2))]
        logps = own.chunk(2)
        self.columns = {
            "reward_chosen": chosen.mean(), "reward_rejected": rejected.mean(),
            "reward_accuracy": (chosen > rejected).float().mean(),
            "reward_margin": (chosen - rejected).mean(),
            "logps_chosen": logps[0].mean(), "logps_rejected": logps[1].mean(),
            "logits_chosen": means[0], "logits_rejected": means[1]}

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


def both(batch, part):
    return torch.cat([batch[f"{side}_{part}"] for side in SIDES])


@functools.cache
def base_weights(steps=300):
    """The base, of prompts and answers alike: weights of `Neox`."""
    with torch.random.fork_rng():
        torch.manual_seed(640)
        model = PeftModel(base=False)
        with torch.no_grad():
            model.inner.gpt_neox.embed_in.weight.mul_(0.3)[PAD] = 0.0
        source = Preferences(641, (VOCAB, CONTEXT, 16))
        optimizer = torch.optim.AdamW(model.parameters(), 5e-3,
                                      weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, steps)
        for _ in range(steps):
            ids = both(source.batch(), "input_ids")
            loss = F.cross_entropy(model(ids)[:, :-1].flatten(0, 1),
                                   ids[:, 1:].flatten(), ignore_index=PAD)
            model.zero_grad()
            loss.backward()
            model.inner.gpt_neox.embed_in.weight.grad[PAD] = 0.0
            optimizer.step()
            schedule.step()
    return model.inner.state_dict()


# What TRL calls its columns; those of validation have "eval_" before it.
COLUMNS = {**{f"{one}_{side}": f"{many}/{side}" for one, many in (
    ("reward", "rewards"), ("logps", "logps"), ("logits", "logits"))
    for side in SIDES}, "reward_accuracy": "rewards/accuracies",
    "reward_margin": "rewards/margins", "nll_loss": "nll_loss"}


class DpoRun(Family):
    """AdamW without decay; the rate warms up over a tenth of the run and falls
    linearly to nothing, as transformers' Trainer has it unless told else."""

    family = "dpo"
    level_seed = 400
    steps, seed = 200, 660
    lr, warmup, schedule, clip = 5e-3, 20, "linear", 1.0
    weight_decay = 0.0
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    batch_size, context, vocab, held_out_rows = ROWS, CONTEXT, VOCAB, 64
    classes = 2
    thin_layers = 60
    # Nobody tunes preferences with these loggers.
    instead = {"nanogpt": "plain", "megatron": "hf_trainer"}
    _block = PeftModel.PREFIX + "gpt_neox.layers.{}"
    layers = [f"{PeftModel.PREFIX}gpt_neox.embed_in", *(
        f"{PeftModel.PREFIX}gpt_neox.layers.{i}.{part}" for i in range(DEPTH)
        for part in ("attention", "attention.scores",
                     "attention.query_key_value.lora_A.default",
                     "attention.query_key_value.lora_B.default", "mlp.act",
                     "mlp", "mlp.dense_4h_to_h.lora_A.default",
                     "mlp.dense_4h_to_h.lora_B.default")),
        f"{PeftModel.PREFIX}gpt_neox.final_layer_norm",
        f"{PeftModel.PREFIX}embed_out"]
    paths = {"embed": f"{PeftModel.PREFIX}gpt_neox.embed_in",
             "attn": f"{_block}.attention",
             "scores": f"{_block}.attention.scores",
             "act": f"{_block}.mlp.act", "mlp": f"{_block}.mlp",
             "block": _block, "head": f"{PeftModel.PREFIX}embed_out"}
    blocks = DEPTH
    battery = ("causal_mask",)
    names = {"lr": "learning_rate", "val_loss": "eval_loss", "tokens": None,
             **COLUMNS, **{f"val_{k}": f"eval_{n}"
                           for k, n in COLUMNS.items()}}

    def make_model(self):
        return PeftModel(**self.model_options)

    def make_source(self, seed):
        return self.pairs(seed)

    def pairs(self, seed, **how):
        """Seed 9 are held-out pairs, of which there are more in a batch."""
        rows = self.held_out_rows if seed == 9 else self.batch_size
        return Preferences(seed, (self.vocab, self.context, rows), **how)

    def in_blocks(self, seed, block, share):
        """One topic after the other, which have less in common than usual;
        None is held out."""
        return self.pairs(seed, block=block, share=share, own=0.9)

    def easy(self, seed):
        """Pairs of which one answer is clearly better."""
        return self.pairs(seed, least=2.5)

    def lessons(self, seed):
        return self.easy(seed), self.pairs(seed)

    def probe_rows(self):
        """Rows for checks of battery.py."""
        return self.make_source(self.seed + 300).batch(1)["chosen_input_ids"]

    def swapped(self, batch, wrong):
        """Chosen and rejected answers change places in some rows."""
        out = dict(batch)
        for name in ("input_ids", "attention_mask", "labels"):
            a, b = (batch[f"{side}_{name}"] for side in SIDES)
            out |= {f"chosen_{name}": torch.where(wrong[:, None], b, a),
                    f"rejected_{name}": torch.where(wrong[:, None], a, b)}
        return out

    @staticmethod
    def relabelled(batch, change, rows=slice(None)):
        """Labels of both sides, changed in some rows."""
        out = dict(batch)
        for side in SIDES:
            labels = batch[f"{side}_labels"].clone()
            labels[rows] = change(labels[rows])
            out[f"{side}_labels"] = labels
        return out

    def garbage(self, batch, kind, rng):
        """A corrupt shard: answers of few words, of any, or of one alone, whose
        order says nothing."""
        low = {"few": self.vocab - 3, "uniform": FIRST_WORD,
               "constant": 20}[kind]
        high = 21 if kind == "constant" else self.vocab
        out = dict(batch)
        for side in SIDES:
            said = batch[f"{side}_labels"] != IGNORE
            ids = torch.where(said, torch.randint(
                low, high, said.shape, generator=rng),
                batch[f"{side}_input_ids"])
            out |= {f"{side}_input_ids": ids,
                    f"{side}_labels": ids.masked_fill(~said, IGNORE)}
        return out

    def lr_factor(self, i):
        if self.schedule != "linear" or i < self.warmup:
            return super().lr_factor(i)
        return (self.steps - i) / (self.steps - self.warmup)

    def batch_columns(self, batch):
        row = super().batch_columns(batch)
        return row | {"loss_tokens": int((both(batch, "labels") != IGNORE)
                                         .sum()),
                      **{k: short(v) for k, v in self.model.columns.items()}}

    def held_out_columns(self, batches):
        self.model.eval()
        found = []
        for batch in batches:
            self.model.criterion(self.model.logits(batch), batch)
            found.append(self.model.columns)
        self.model.train()
        return {f"val_{k}": sum(f[k] for f in found) / len(found)
                for k in found[0]}

    def state_columns(self, rows, held_out=False):
        """What TRL adds to a row of trainer_state.json: means of its rows."""
        prefix, other = ("val_", "eval_") if held_out else ("", "")
        return {other + name: short(sum(r[prefix + k] for r in rows)
                                    / len(rows), 5)
                for k, name in COLUMNS.items() if prefix + k in rows[0]}

    def settings(self):
        """config: as TRL's DPOConfig and PEFT's LoraConfig call it."""
        own = super().settings()
        adam = own.pop("betas", None)
        if adam:
            own |= {"adam_beta1": adam[0], "adam_beta2": adam[1],
                    "adam_epsilon": own.pop("eps")}
        for old, new in (("lr", "learning_rate"),
                         ("scheduler", "lr_scheduler_type"),
                         ("batch_size", "per_device_train_batch_size"),
                         ("optimizer", "optim")):
            own[new] = own.pop(old)
        return own

    def lora(self):
        options = self.model_options
        only = options.get("only")
        return {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK,
                "lora_alpha": ALPHA, "bias": "none",
                "lora_dropout": options.get("dropout", 0.0),
                "target_modules": list(options.get("targets", TARGETS)),
                "layers_to_transform": only and list(only),
                "modules_to_save": None, "init_lora_weights": True,
                "use_dora": False, "use_rslora": False}

    def model_settings(self):
        return {"trainer": "DPOTrainer", "model_name_or_path": "neox-sft",
                "model_type": "gpt_neox", "num_hidden_layers": DEPTH,
                "hidden_size": WIDTH, "num_attention_heads": HEADS,
                "vocab_size": self.vocab, "beta": self.model_options.get(
                    "beta", BETA), "loss_type": "sigmoid", "ref_model": None,
                "reference_free": False, "max_length": self.context,
                "use_peft": True, "peft_config": self.lora(),
                "pad_token_id": PAD, "eos_token_id": EOS}

    def layer(self, part, block=0):
        return self.paths[part].format(block)

    def fed_by(self, layer):
        return []

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        trainer_checkpoints.keep(self, i, lambda: {
            n.replace(".default", ""): p
            for n, p in model.state_dict().items() if "lora_" in n})

    def write_more(self):
        super().write_more()
        trainer_checkpoints.write(
            self, "adapter_model.safetensors",
            lambda: {"adapter_config": self.lora() | {
                "base_model_name_or_path": "neox-sft",
                "inference_mode": True}})
