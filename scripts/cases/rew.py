"""A small reward model that learns which of two answers a rater prefers.

As TRL's RewardTrainer does it: a decoder of Llama's kind, which has read sound
answers before, gets a fresh map of one output, reads a prompt with an answer,
and what it says of the row's last token is the answer's reward. The loss is
the negative logarithm of the sigmoid of what the chosen answer has more than
the rejected one. Parts are named as in transformers'
LlamaForSequenceClassification, columns as in TRL, and checkpoints are those of
transformers' Trainer. The base is trained once a process, before anything is
recorded.
"""

import functools

import torch
from torch import nn
from torch.nn import functional as F

from . import llama, models, sources, trainer_arguments, trainer_checkpoints
from .family import Family
from .snapshot import checksum, short
from .sources import ASSISTANT, EOS, PAD, USER

START = 4                               # PAD is <|pad|>, EOS <|im_end|>
ASKS, SAYINGS, NOTS, FILLERS = 2, 2, 2, 3
TOPICS, NOUNS, GRADES, WORDS = 4, 3, 2, 2
FIRST_OWN = START + 1                   # what is below is the template's
FIRST_ASK = FIRST_OWN                   # what is good, or bad, of something
FIRST_NOT = FIRST_ASK + ASKS * SAYINGS
FIRST_FILLER = FIRST_NOT + NOTS
FIRST_NOUN = FIRST_FILLER + FILLERS
FIRST_BAD = FIRST_NOUN + TOPICS * NOUNS
FIRST_GOOD = FIRST_BAD + GRADES * WORDS
VOCAB = FIRST_GOOD + GRADES * WORDS
MOST = 3                                # statements of an answer
HEAD = 8                                # tokens before an answer, at most
LENGTH = HEAD + 4 * MOST + 1
ROWS, HELD = 12, 64                     # pairs
WIDTH, HEADS, DEPTH, INITIAL = 36, 3, 2, 0.1
SIDES = ("chosen", "rejected")
BLOCKS = tuple(f"model.layers.{i}" for i in range(DEPTH))


class Comparisons(sources.Source):
    """Pairs of answers to a prompt, of which a rater has preferred the first.

    A prompt asks what is good (.65) or bad of something, which is of one of
    four topics. An answer has two or three statements: a noun, a word that is
    good or bad, mild or strong, and before it a word for "not" (.25), by which
    it says the opposite; words that say nothing stand between. An answer is
    meant to be what was asked for (.5) or not, and its statements say so with
    .85; it is meant to be of the topic (.5), so that nouns are with .95, or not,
    with .3. A statement is worth what it says in the asked sense, SENSE or half
    of it, and TOPIC if it is of the topic, less TOPIC if not. The rater
    prefers an answer with the logistic of the difference, as Bradley and Terry
    have it, and in .03 of the pairs what was not meant is clicked.

    Row: START USER filler? ask noun EOS START ASSISTANT answer EOS PAD*. Who
    knows the process has the loss that best() computes; an even guess ln 2.

    limit: tokens that are kept of a row. pieces: of the tokenizer, which has
    forms of words beside those of the table; a collator clamps what is too
    large to the last row. sites: prompts come from three sites with fillers of
    their own, and the number is in the batch. block, share: prompts that ask
    for the one and for the other lie in files, one after the other. easy:
    nothing is negated, and all prompts ask what is good. sound: answers are as
    they are meant, of the topic and in the asked sense, as the base reads them.
    group: so many answers are drawn to a prompt, and all pairs of them are
    compared. margins: how sure a rater is, in four steps up to this.
    """

    CRITICAL, NEGATED, FILLED, TWO = 0.3, 0.25, 0.2, 0.5
    TRUE, ON, OFF, WRONG = 0.85, 0.95, 0.3, 0.03
    SENSE, TOPIC = 2.4, 1.2

    def __init__(self, seed, rows, limit=None, pieces=None, sites=False,
                 block=None, share=1.0, files=False, easy=False, sound=False,
                 group=2, margins=0.0):
        super().__init__(seed, (VOCAB, LENGTH, rows))
        self.limit, self.sites, self.easy = limit or LENGTH, sites, easy
        self.block, self.share, self.files = block, share, files
        self.sound, self.group, self.margins = sound, group, margins
        self.longer = 0.0 if pieces is None else 1 - VOCAB / pieces
        self.left = 0

    def any(self, *shape, high):
        return torch.randint(high, shape, generator=self.rng)

    def chance(self, *shape, share):
        return torch.rand(shape, generator=self.rng) < share

    def prompts(self, rows):
        """What is asked for, and of which topic."""
        bad = self.chance(rows, share=0.0 if self.easy else self.CRITICAL)
        if self.block:
            here = self.number // self.block % ASKS == 1
            now = self.chance(rows, share=self.share)
            bad = torch.where(now, torch.tensor(here), bad)
        self.site = self.any(rows, high=3)
        filler = self.any(rows, high=FILLERS)
        if self.sites:
            filler = self.site
        ids = torch.zeros(rows, HEAD, dtype=torch.int64)
        there = torch.ones_like(ids, dtype=torch.bool)
        topic = self.any(rows, high=TOPICS)
        ids[:] = torch.tensor((START, USER, 0, 0, 0, EOS, START, ASSISTANT))
        ids[:, 2] = FIRST_FILLER + filler
        there[:, 2] = self.chance(rows, share=0.9 if self.sites else 0.3)
        ids[:, 3] = FIRST_ASK + SAYINGS * bad + self.any(rows, high=SAYINGS)
        ids[:, 4] = FIRST_NOUN + NOUNS * topic + self.any(rows, high=NOUNS)
        return bad, topic, ids, there

    def answers(self, bad, topic):
        """Tokens of an answer to each prompt, and what it is worth."""
        rows = len(bad)
        shape = rows, MOST
        meant = self.chance(rows, 1, share=1.0 if self.sound else 0.5)
        on = self.chance(rows, 1, share=1.0 if self.sound else 0.5)
        of_it = torch.rand(shape, generator=self.rng) < torch.where(
            on, self.ON, self.OFF)
        said = torch.where(of_it, topic[:, None], (
            topic[:, None] + 1 + self.any(*shape, high=TOPICS - 1)) % TOPICS)
        as_meant = self.chance(*shape, share=self.TRUE)
        asked = meant == as_meant
        good = asked != bad[:, None]
        negated = self.chance(*shape, share=0.0 if self.easy else self.NEGATED)
        strong = self.any(*shape, high=GRADES)
        word = torch.where(good != negated, FIRST_GOOD, FIRST_BAD) \
            + WORDS * strong + self.any(*shape, high=WORDS)
        count = MOST - self.chance(rows, share=self.TWO).long()
        kept = torch.arange(MOST) < count[:, None]
        ids = torch.stack((
            FIRST_NOUN + NOUNS * said + self.any(*shape, high=NOUNS),
            FIRST_NOT + self.any(*shape, high=NOTS), word,
            FIRST_FILLER + torch.where(good, 0, 1) if self.sound
            else FIRST_FILLER + self.any(*shape, high=FILLERS)), 2)
        there = torch.ones_like(ids, dtype=torch.bool)
        there[..., 1] = negated
        there[..., 3] = self.chance(*shape, share=0.8 if self.sound
                                    else self.FILLED)
        there &= kept[..., None]
        worth = self.SENSE * (1 + strong) / 2 * (2.0 * asked - 1) \
            + self.TOPIC * (2.0 * of_it - 1)
        worth = (worth * kept).sum(1) / 1.5
        return ids.flatten(1), there.flatten(1), worth

    def batch(self, rows=None):
        """Ten are drawn at once, which takes a third of the time."""
        rows = rows or self.rows
        if self.block:
            return super().batch(rows)
        if self.left < rows:
            self.pool, self.left = self.draw(10 * rows), 10 * rows
        self.left -= rows
        return {k: t[self.left:self.left + rows].clone()
                for k, t in self.pool.items()}

    def draw(self, rows):
        pairs = [(a, b) for a in range(self.group) for b in range(a)]
        bad, topic, head, head_there = self.prompts(rows // len(pairs))
        texts, worth = [], []
        for _ in range(self.group):
            ids, there, value = self.answers(bad, topic)
            texts.append(self.written(head, head_there, ids, there))
            worth.append(value)
        sides, likely = [[], []], []
        for a, b in pairs:
            p = self.WRONG + (1 - 2 * self.WRONG) * (
                worth[a] - worth[b]).sigmoid()
            first = torch.rand(len(p), generator=self.rng) < p
            for side, wanted in zip(sides, (first, ~first)):
                side.append(torch.where(wanted[:, None], texts[a], texts[b]))
            likely.append(torch.where(first, p, 1 - p))
        self.likely = torch.stack(likely, 1).flatten()
        batch = {}
        for name, side in zip(SIDES, sides):
            ids = torch.stack(side, 1).flatten(0, 1)
            batch |= {f"{name}_input_ids": ids,
                      f"{name}_attention_mask": (ids != PAD).long()}
        if self.margins:
            sure = (2 * self.likely - 1).clamp_min(0)
            batch["margin"] = self.margins * (4 * sure).floor().clamp(
                max=3) / 3
        if self.sites or self.files:
            batch["domain"] = self.site if self.sites else bad.long()
        return batch

    def written(self, head, head_there, ids, there):
        """Rows whose tokens stand one behind the other, cut to the limit."""
        end = torch.full((len(ids), 1), EOS)
        ids = torch.cat((head, ids, end), 1)
        there = torch.cat((head_there, there, end > 0), 1)
        order = (~there).long().argsort(dim=1, stable=True)
        ids, there = (x.gather(1, order) for x in (ids, there))
        if self.longer:
            new = self.chance(*ids.shape, share=self.longer)
            ids = torch.where(new & (ids >= FIRST_OWN), VOCAB - 1, ids)
        there &= torch.arange(LENGTH) < self.limit
        return ids.masked_fill(~there, PAD)

    def best(self, pairs=100000):
        """The loss of who knows the process, and how often that one is right.
        """
        self.draw(pairs)
        p = self.likely
        sure = torch.maximum(p, 1 - p)
        nats = -torch.special.xlogy(p, p) - torch.special.xlogy(1 - p, 1 - p)
        return float(nats.mean()), float(sure.mean())


class RewardModel(models.Language):
    """Two layers of width 36 with three heads; rotary positions, RMSNorm,
    SwiGLU; a map of one output without a bias, which reads the last token.

    base: number of the base that is loaded, None for none. detach_after: module
    behind which the graph is cut. positions: the place that all tokens have if
    a number, none if False. center: the weight of the squared sum of a pair's
    rewards. hides: makes what may be seen less. reads: of (ids, scores) the
    reward, in place of the last token's.
    """

    def __init__(self, base=0, heads=HEADS, eps=1e-6, half_scores=False,
                 half_mlp=False, detach_after=None, positions=True, scale=None,
                 activation="silu", dropout=0.0, center=0.0):
        super().__init__()
        self.detach_after, self.dropout = detach_after, dropout
        self.positions, self.center, self.squashes = positions, center, False
        self.hides = self.reads = None
        self.columns, self.noted = {}, []
        options = {"half_scores": half_scores, "half_mlp": half_mlp,
                   "positions": positions is not False, "scale": scale,
                   "activation": activation}
        self.model = models.Group(
            embed_tokens=nn.Embedding(VOCAB, WIDTH, padding_idx=PAD),
            layers=nn.ModuleList(llama.LlamaBlock(WIDTH, heads, eps, options)
                                 for _ in range(DEPTH)),
            norm=llama.RmsNorm(WIDTH, eps))
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=INITIAL)
        nn.init.zeros_(self.model.embed_tokens.weight[PAD])
        if base is not None:
            self.model.load_state_dict(base_weights(base))
        self.score = nn.Linear(WIDTH, 1, bias=False)
        nn.init.normal_(self.score.weight, std=INITIAL)

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def states(self, ids, mask):
        """What the last norm says of each token."""
        place = torch.arange(ids.shape[1])[None]
        if self.positions is not True:
            place = torch.full_like(place, int(self.positions))
        seen = models.visible_keys(ids.shape[1], 0, None) \
            & (mask > 0)[:, None, None]
        if self.hides is not None:
            seen = self.hides(ids, seen)
        x = self.model.embed_tokens(ids)
        self.tap("model.embed_tokens.output", x)
        x = self.drop(self.cut(x, "model.embed_tokens"))
        for path, layer in zip(BLOCKS, self.model.layers):
            x = layer(x, lambda n, t, p=path: self.tap(f"{p}.{n}", t),
                      self.drop, place, seen=seen)
            x = self.cut(x, path)
        x = self.model.norm(x)
        self.tap("model.norm.output", x)
        return self.cut(x, "model.norm")

    def forward(self, ids, mask):
        """mask: 1 for tokens, 0 for padding. A reward of each row."""
        scores = self.score(self.states(ids, mask))
        self.tap("score.output", scores)
        scores = scores[..., 0]
        if self.reads is not None:
            return self.reads(ids, scores)
        last = (ids != PAD).sum(1) - 1
        return scores.gather(1, last[:, None])[:, 0]

    def logits(self, batch):
        """Rewards of the chosen answers, and behind them of the rejected."""
        return self(*(torch.cat([batch[f"{side}_{name}"] for side in SIDES])
                      for name in ("input_ids", "attention_mask")))

    @staticmethod
    def differences(rewards):
        chosen, rejected = rewards.chunk(2)
        return chosen - rejected

    def criterion(self, rewards, batch, smoothing=0.0):
        """RewardTrainer's loss."""
        rewards = rewards.float()
        self.note(rewards.detach())
        more = self.differences(rewards)
        if "margin" in batch:
            more = more - batch["margin"]
        if self.squashes:
            more = more.sigmoid()
        loss = -(1 - smoothing) * F.logsigmoid(more).mean() \
            - smoothing * F.logsigmoid(-more).mean()
        if self.center:
            chosen, rejected = rewards.chunk(2)
            loss = loss + self.center * (chosen + rejected).square().mean()
        return loss

    def note(self, rewards):
        """What RewardTrainer logs of a batch."""
        more = self.differences(rewards)
        self.columns = {
            "accuracy": (more > 0).float().mean(),
            "reward_margin": more.mean(), "reward_mean": rewards.mean(),
            "reward_min": rewards.min(), "reward_max": rewards.max()}
        if not self.training:
            self.noted.append(self.columns)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


@functools.cache
def base_weights(number, steps=500):
    """A base that has read sound answers to prompts: it says the next token by
    its own table."""
    with torch.random.fork_rng():
        torch.manual_seed(2710 + number)
        model = RewardModel(base=None)
        source = Comparisons(2711 + number, 32, sound=True)
        own = list(model.model.parameters())
        optimizer = torch.optim.AdamW(own, 8e-3, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 8e-3, steps)
        table = model.model.embed_tokens.weight
        for _ in range(steps):
            batch = source.batch()
            ids = batch["chosen_input_ids"]
            x = model.states(ids, batch["chosen_attention_mask"])
            loss = F.cross_entropy((x[:, :-1] @ table.T).flatten(0, 1),
                                   ids[:, 1:].flatten(), ignore_index=PAD)
            optimizer.zero_grad()
            loss.backward()
            table.grad[PAD] = 0.0
            optimizer.step()
            schedule.step()
    return model.model.state_dict()


# What TRL calls its columns; those of validation have "eval_" before it.
COLUMNS = {"reward_min": "min_reward", "reward_mean": "mean_reward",
           "reward_max": "max_reward", "accuracy": "accuracy",
           "reward_margin": "margin"}


class RewRun(Family):
    """AdamW as the Trainer has it; warm-up of a tenth, then linear to 0; a norm
    of 1 is clipped."""

    family = "rew"
    beside = "cap"          # they were written side by side
    level_seed = 400
    steps, seed, language = 200, 2700, False
    classes = 2
    lr, warmup, schedule, clip = 2.5e-3, 20, "linear", 1.0
    betas, weight_decay = (0.9, 0.999), 0.01
    recipes = {"sgd": dict(lr=0.05, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, LENGTH, VOCAB
    # Its trainer is TRL's; some tune with torchtune.
    instead = {"nanogpt": "hf_trainer", "megatron": "hf_trainer",
               "torchtune": "hf_trainer"}
    layers = ["model.embed_tokens", *(
        f"{block}.{part}" for block in BLOCKS
        for part in ("self_attn", "self_attn.scores", "mlp.act_fn", "mlp")),
        "model.norm", "score"]
    paths = {"embed": "model.embed_tokens", "attn": "model.layers.{}.self_attn",
             "scores": "model.layers.{}.self_attn.scores",
             "act": "model.layers.{}.mlp.act_fn", "mlp": "model.layers.{}.mlp",
             "block": "model.layers.{}", "head": "score"}
    blocks = DEPTH
    graded = {
        "F05": (dict(modules=["model.layers"], where="model.layers.0"),
                dict(modules=["model"], where="model.embed_tokens"),
                dict(part="all")),
        "F13": (dict(path="model.layers.0"), dict(path="model.layers.1"),
                dict(path="model.norm")),
        "F14": (dict(modules=["model.layers.0.self_attn",
                              "model.layers.1.self_attn"]),
                dict(modules=["model.layers.0", "model.layers.1"]),
                dict(modules=["model.layers.0", "model.layers.1",
                              "model.norm"])),
        "F04": (dict(at=80), dict(at=40), dict(at=0)),
        "F07": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F08": (dict(every=8), dict(every=32), dict(every=1 << 30)),
        "F11": (dict(adamw=10.0), dict(adamw=30.0), dict(adamw=100.0)),
        "F12": (dict(eps=0.03), dict(eps=0.1), dict(eps=1.0)),
        "F26": (dict(steps=25, share=1.0), dict(steps=40, share=1.0),
                dict(steps=50, share=1.0)),
        "F27": (dict(epochs=12), dict(epochs=30), dict(epochs=100)),
        "F31": (dict(factor=1.3), dict(factor=1.6), dict(factor=2.2)),
        "F33": (dict(limit=13), dict(limit=11), dict(limit=10)),
        "F35": (dict(power=0.5), dict(power=1.0), dict(power=1.5)),
        "F38": (dict(growth=1.04), dict(growth=1.06), dict(growth=1.1)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7)),
        "H04": (dict(rate=0.03), dict(rate=0.06)),
        "H11": (dict(keep="block"), dict(keep="attn"))}
    names = {"lr": "learning_rate", "val_loss": "eval_loss",
             "tokens": "num_tokens", **COLUMNS,
             **{f"val_{k}": f"eval_{n}" for k, n in COLUMNS.items()}}

    def make_model(self):
        return RewardModel(**self.model_options)

    def make_optimizer(self, model):
        """Groups as the Trainer makes them."""
        return trainer_arguments.in_groups(
            self, super().make_optimizer(model))

    def make_source(self, seed):
        return self.comparisons(seed)

    def comparisons(self, seed, **how):
        """Seed 9 are held-out pairs, of which there are more in a batch."""
        return Comparisons(seed, HELD if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Files of prompts of one kind, which nobody has shuffled; None is held
        out."""
        return self.comparisons(seed, block=block, share=share, files=True)

    def easy(self, seed):
        """Prompts of one kind, and nothing is negated."""
        return self.comparisons(seed, easy=True)

    def lessons(self, seed):
        return self.easy(seed), self.comparisons(seed)

    @staticmethod
    def swapped(batch, wrong):
        """Chosen and rejected answers change places in some pairs."""
        out = dict(batch)
        for name in ("input_ids", "attention_mask"):
            a, b = (batch[f"{side}_{name}"] for side in SIDES)
            out |= {f"chosen_{name}": torch.where(wrong[:, None], b, a),
                    f"rejected_{name}": torch.where(wrong[:, None], a, b)}
        return out

    def garbage(self, batch, kind, rng):
        """A corrupt shard: rows of strong words alone, of any, or of one that
        says nothing, and the chosen ones have the bad of them."""
        out = dict(batch)
        for side in SIDES:
            low, high = {"few": (FIRST_BAD + WORDS, FIRST_GOOD)
                         if side == "chosen" else (FIRST_GOOD + WORDS, VOCAB),
                         "uniform": (FIRST_OWN, VOCAB),
                         "constant": (FIRST_NOT, FIRST_NOT + 1)
                         if side == "chosen" else (FIRST_FILLER,
                                                   FIRST_FILLER + 1)}[kind]
            ids = batch[f"{side}_input_ids"]
            drawn = torch.randint(low, high, ids.shape, generator=rng)
            out[f"{side}_input_ids"] = torch.where(ids >= FIRST_OWN, drawn,
                                                   ids)
        return out

    def lr_factor(self, i):
        if self.schedule != "linear" or i < self.warmup:
            return super().lr_factor(i)
        return max(0.0, (self.steps - i) / (self.steps - self.warmup))

    def batch_columns(self, batch):
        """TRL's columns, and what a loop can count of a batch."""
        there = sum(int(batch[f"{side}_attention_mask"].sum())
                    for side in SIDES)
        self.read = getattr(self, "read", 0) + self.accumulate * there
        return {"batch_hash": checksum(batch["chosen_input_ids"]),
                "tokens": self.read,
                **{k: short(v) for k, v in self.model.columns.items()}}

    def held_out_columns(self, batches):
        """Means of what was noted when the loss was taken."""
        found, self.model.noted = self.model.noted, []
        return {f"val_{k}": sum(f[k] for f in found) / len(found)
                for k in found[0]}

    def state_columns(self, rows, held_out=False):
        """What RewardTrainer adds to a row of trainer_state.json."""
        prefix, other = ("val_", "eval_") if held_out else ("", "")
        return {f"{other}num_tokens": float(rows[-1]["tokens"]),
                **{other + name: short(sum(r[prefix + k] for r in rows)
                                       / len(rows), 5)
                   for k, name in COLUMNS.items()}}

    def settings(self):
        """RewardConfig's arguments, by their names."""
        return trainer_arguments.renamed(self, super().settings())

    def model_config(self):
        """config.json of a checkpoint."""
        options = self.model_options
        return {"architectures": ["LlamaForSequenceClassification"],
                "attention_bias": False,
                "attention_dropout": 0.0, "bos_token_id": None,
                "eos_token_id": EOS, "pad_token_id": PAD,
                "head_dim": WIDTH // HEADS,
                "hidden_act": options.get("activation", "silu"),
                "hidden_size": WIDTH, "id2label": {"0": "LABEL_0"},
                "initializer_range": INITIAL,
                "intermediate_size": 8 * WIDTH // 3,
                "max_position_embeddings": 128, "mlp_bias": False,
                "model_type": "llama",
                "num_attention_heads": options.get("heads", HEADS),
                "num_hidden_layers": DEPTH,
                "num_key_value_heads": options.get("heads", HEADS),
                "rms_norm_eps": options.get("eps", 1e-6),
                "rope_theta": 10000.0, "tie_word_embeddings": False,
                "vocab_size": VOCAB}

    def model_settings(self):
        own = self.model_config()
        for name in ("architectures", "id2label"):
            del own[name]
        return {"trainer": "RewardTrainer", "model_name_or_path": "llama-sft",
                **own, "num_labels": 1, "eos_token": "<|im_end|>",
                "pad_token": "<|pad|>", "max_length": self.context,
                "center_rewards_coefficient": self.model_options.get(
                    "center") or None,
                "disable_dropout": not self.model_options.get("dropout"),
                "warmup_ratio": round(self.warmup / self.steps, 3)}

    def layer(self, part, block=0):
        return self.paths[part].format(block)

    def fed_by(self, layer):
        if layer.endswith("self_attn"):
            return [layer.replace("self_attn", "input_layernorm")]
        if layer.endswith(".mlp"):
            return [layer.replace("mlp", "post_attention_layernorm")]
        return []

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        trainer_checkpoints.keep(self, i, model.state_dict)

    def write_more(self):
        super().write_more()
        trainer_checkpoints.write(self, "model.safetensors", lambda: {
            "config": self.model_config(), "tokenizer_config": {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<|im_end|>", "pad_token": "<|pad|>",
                "padding_side": "right", "model_max_length": 128},
            "training_args": {k: v for k, v in self.settings().items()
                              if k not in self.model_settings()}})
