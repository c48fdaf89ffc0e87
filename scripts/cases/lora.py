"""A classifier of texts that is fine-tuned with LoRA.

As transformers' Trainer does it with PEFT: a small RoBERTa that has read plain
texts stands still, adapters on its linear maps and a fresh classification head
learn of what a review's verdict is and whether it is good or bad. Parts are
named as in PEFT around a RobertaForSequenceClassification, and checkpoints are
adapters as the Trainer keeps them. The base is trained once a process, before
anything is recorded.
"""

import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources, trainer_arguments, trainer_checkpoints
from .family import Family
from .models import Group
from .xenc import HIDDEN, WIDTH, Layer

BOS, PAD, EOS, UNK, MASK = range(5)
FIRST_OWN = 5             # what is below are tokens of the tokenizer's own
SITES, FILLERS, JOINTS, DEGREES, TOPICS, NOUNS, WORDS = 3, 4, 2, 2, 4, 4, 4
FIRST_SITE = FIRST_OWN
FIRST_FILLER = FIRST_SITE + SITES
FIRST_JOINT = FIRST_FILLER + FILLERS
FIRST_DEGREE = FIRST_JOINT + JOINTS
FIRST_BAD = FIRST_DEGREE + DEGREES
FIRST_GOOD = FIRST_BAD + WORDS
FIRST_NOUN = FIRST_GOOD + WORDS
VOCAB = FIRST_NOUN + TOPICS * NOUNS
CLASSES = 2 * TOPICS
LENGTH, PLACES = 12, 16   # tokens of a text, rows of the table of places
ROWS, HELD, DEPTH, HEADS = 32, 64, 2, 4
RANK, ALPHA = 8, 16
TARGETS = ("query", "value", "output.dense")
PREFIX = "base_model.model."
ROBERTA = f"{PREFIX}roberta"
ENCODER = f"{ROBERTA}.encoder.layer"
BLOCKS = tuple(f"{ENCODER}.{i}" for i in range(DEPTH))
# PEFT trains a copy of what is to be saved beside the adapters.
HEAD = f"{PREFIX}classifier.modules_to_save.default"
POOLING = f"{ROBERTA}.pooling"
# Deviations of the base's weights at the start, as those of `xenc`.
INITIAL, WIDE, LOOKS = 0.1, 0.5, 0.3


class Reviews(sources.Source):
    """Texts of one clause (.3) or two, and what the last one says.

    A clause is a noun, which belongs to one of four topics, and a word, good or
    bad, before which an adverb of degree (.3) may stand. Two clauses are joined
    by a word, and have different topics. The label is the last one's topic and
    polarity, eight classes; in .05 of the texts its polarity is the other one
    (what is meant is not what is said), in .03 any label. A text comes from one
    of three sites, whose token it begins with and each of which has more of
    some topics. Words that say nothing may stand before a clause (.3).

    Row: BOS site text EOS PAD*. An even guess has ln 8 = 2.08, who knows the
    sites alone 1.93, who knows which topics and polarities are in a text, and
    not which are the last clause's, .97, who knows the process .356 (`best()`).

    limit: tokens that are kept of a text. pieces: of the tokenizer, which has
    forms of words beside those of the table; a collator clamps what is too
    large to the last row. block, share: files of one topic each, one after the
    other. sites: the number of the site is in the batch, and each has fillers
    of its own. easy: one clause. stop: words that are left out. tagged: texts
    have tags in place of a label, which topics are in them and which
    polarities.
    """

    SHARES = ((0.4, 0.3, 0.2, 0.1), (0.1, 0.4, 0.1, 0.4), (0.2, 0.1, 0.5, 0.2))
    TWO, SAID, FILLED, TURNED, ANY = 0.7, 0.3, 0.3, 0.05, 0.03

    def __init__(self, seed, rows, limit=None, pieces=None, block=None,
                 share=1.0, sites=False, files=False, easy=False, stop=(),
                 tagged=False):
        super().__init__(seed, (VOCAB, LENGTH, rows))
        self.limit, self.block, self.share = limit or LENGTH, block, share
        self.sites, self.files, self.easy = sites, files, easy
        self.tagged, self.stop = tagged, torch.tensor(stop, dtype=torch.int64)
        # A longer list of pieces has forms of words that the short one lacks.
        self.longer = 0.0 if pieces is None else 1 - VOCAB / pieces

    def any(self, *shape, high):
        return torch.randint(high, shape, generator=self.rng)

    def chance(self, *shape, share):
        return torch.rand(shape, generator=self.rng) < share

    def draw(self, rows):
        site = self.any(rows, high=SITES)
        topic = torch.multinomial(torch.tensor(self.SHARES)[site], 1,
                                  generator=self.rng)[:, 0]
        if self.block:
            here = self.number // self.block % TOPICS
            topic = torch.where(self.chance(rows, share=self.share), here,
                                topic)
        first = (topic + 1 + self.any(rows, high=TOPICS - 1)) % TOPICS
        good = self.any(rows, 2, high=2)
        topics = torch.stack((first, topic), 1)
        batch = self.written(site, topics, good)
        if self.tagged:
            two = self.two[:, None]
            has = F.one_hot(topics, TOPICS), F.one_hot(good, 2)
            has = torch.cat([x[:, 1] | (x[:, 0] * two) for x in has], 1)
            return batch | {"tags": has.float()}
        last = good[:, 1]
        last = last ^ self.chance(rows, share=self.TURNED).long()
        label = torch.where(self.chance(rows, share=self.ANY),
                            self.any(rows, high=CLASSES), 2 * topic + last)
        batch["labels"] = label
        if self.files or self.sites:
            batch["domain"] = topic if self.files else site
        return batch

    def written(self, site, topics, good):
        """The tokens of rows, given what each of two clauses is to say."""
        rows = len(site)
        noun = FIRST_NOUN + NOUNS * topics + self.any(rows, 2, high=NOUNS)
        word = torch.where(good > 0, FIRST_GOOD, FIRST_BAD) \
            + self.any(rows, 2, high=WORDS)
        filler = self.any(rows, 2, high=FILLERS)
        if self.sites:
            filler = (filler // 2 + site[:, None]) % FILLERS
        filler = filler + FIRST_FILLER
        joint = FIRST_JOINT + self.any(rows, 1, high=JOINTS)
        degree = FIRST_DEGREE + self.any(rows, 2, high=DEGREES)
        start, end = (torch.full((rows, 1), k) for k in (BOS, EOS))
        parts = torch.stack((filler, noun, degree, word), 2)
        ids = torch.cat((start, FIRST_SITE + site[:, None],
                         parts[:, 0], joint, parts[:, 1], end), 1)
        there = torch.ones_like(ids, dtype=torch.bool)
        two = self.chance(rows, share=0.0 if self.easy else self.TWO)
        for at in (2, 7):
            there[:, at] = self.chance(rows, share=self.FILLED)
            there[:, at + 2] = self.chance(rows, share=self.SAID)
        there[:, 2:7] &= two[:, None]
        self.two = two.long()
        there &= ~torch.isin(ids, self.stop)
        order = (~there).long().argsort(dim=1, stable=True)
        ids, there = (x.gather(1, order) for x in (ids, there))
        return self.cut(ids, there)

    def cut(self, ids, there):
        """What is too long loses its end, but for EOS."""
        size = there.sum(1, keepdim=True).clamp(max=self.limit)
        place = torch.arange(ids.shape[1])
        there = place < size
        ids = torch.where(place == size - 1, EOS, ids)
        if self.longer:
            new = self.chance(*ids.shape, share=self.longer)
            ids = torch.where(new & (ids >= FIRST_FILLER), VOCAB - 1, ids)
        return {"input_ids": ids.masked_fill(~there, PAD),
                "attention_mask": there.long()}

    def best(self):
        """The loss of who knows the process."""
        p = torch.full((CLASSES,), self.ANY / CLASSES)
        p[0] += 1 - self.TURNED - self.ANY
        p[1] += self.TURNED
        return float(-torch.special.xlogy(p, p).sum())


class LoraLinear(nn.Module):
    """A linear map that stands still, and a product of two narrow ones.

    first: "pissa" if the two begin as the map's main directions, of which the
    map has the rest. keeps: a matrix that what the adapter gets goes through.
    """

    def __init__(self, base, rank, scaling, dropout, first=True):
        super().__init__()
        self.base_layer, self.scaling = base.requires_grad_(False), scaling
        self.dropout, self.keeps = dropout, None
        self.lora_A = nn.ModuleDict({"default": nn.Linear(
            base.in_features, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(
            rank, base.out_features, bias=False)})
        nn.init.zeros_(self.lora_B["default"].weight)
        if first == "pissa":
            self.split(rank)

    @torch.no_grad()
    def split(self, rank):
        u, s, v = torch.linalg.svd(self.base_layer.weight)
        size = (s[:rank] / self.scaling).sqrt()
        a, b = (part["default"].weight for part in (self.lora_A, self.lora_B))
        a.copy_(size[:, None] * v[:rank])
        b.copy_(u[:, :rank] * size)
        self.base_layer.weight -= self.scaling * b @ a

    def forward(self, x):
        y = self.base_layer(x)
        if self.keeps is not None:
            x = x @ self.keeps
        if self.dropout:
            x = F.dropout(x, self.dropout, self.training)
        return y + self.scaling * self.lora_B["default"](
            self.lora_A["default"](x))


class Roberta(nn.Module):
    """Two layers of width 40 with four heads, norms behind the sums."""

    def __init__(self, options):
        super().__init__()
        self.embeddings = Group(
            word_embeddings=nn.Embedding(VOCAB, WIDTH, padding_idx=PAD),
            position_embeddings=nn.Embedding(PLACES, WIDTH, padding_idx=PAD),
            token_type_embeddings=nn.Embedding(1, WIDTH),
            LayerNorm=nn.LayerNorm(WIDTH, 1e-12))
        self.encoder = Group(layer=nn.ModuleList(
            Layer(options) for _ in range(DEPTH)))
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=WIDE if "word_embed" in name else LOOKS
                                if "query" in name or "key" in name
                                else INITIAL)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        for table in (self.embeddings.word_embeddings,
                      self.embeddings.position_embeddings):
            nn.init.zeros_(table.weight[PAD])


def fresh_head(outputs):
    """RobertaClassificationHead."""
    head = Group(dense=nn.Linear(WIDTH, WIDTH),
                 out_proj=nn.Linear(WIDTH, outputs))
    for part in (head.dense, head.out_proj):
        nn.init.normal_(part.weight, std=INITIAL)
        nn.init.zeros_(part.bias)
    return head


class PeftModel(nn.Module):
    """The base with adapters and a head; and the loss.

    base: number of the base that is loaded, None for none, without adapters
    then. activation: of the head, tanh if not given. detach_after: the part
    behind which the graph is cut. positions: the place that all tokens have if
    a number, none if False. pooling: "first" token, or "mean" of the words that
    are none of the tokenizer's own. targets, only: maps and layers that have an
    adapter. abstains: the head has one output more, which is no class.
    """

    def __init__(self, base=0, heads=HEADS, activation=None, dropout=0.0,
                 detach_after=None, half_scores=False, positions=True,
                 scale=None, pooling="first", rank=RANK, targets=TARGETS,
                 only=None, first=True, rslora=False, abstains=False):
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.pooling = positions, pooling
        self.act = models.ACTIVATIONS[activation or "tanh"]()
        options = {"heads": heads, "scale": scale, "half_scores": half_scores,
                   "act": models.ACTIVATIONS["gelu"]()}
        roberta = Roberta(options)
        self.base_model = Group(model=Group(roberta=roberta))
        if base is None:
            return
        roberta.load_state_dict(base_weights(base))
        roberta.requires_grad_(False)
        scaling = ALPHA / (math.sqrt(rank) if rslora else rank)
        for i in range(DEPTH) if only is None else only:
            for name, part in list(roberta.encoder.layer[i].named_modules()):
                if not any(f".{name}".endswith(f".{t}") for t in targets):
                    continue
                owner, _, own = name.rpartition(".")
                setattr(roberta.encoder.layer[i].get_submodule(owner), own,
                        LoraLinear(part, rank, scaling, dropout, first))
        head = fresh_head(CLASSES + abstains)
        original = fresh_head(CLASSES + abstains)
        original.load_state_dict(head.state_dict())
        self.base_model.model.classifier = Group(
            original_module=original.requires_grad_(False),
            modules_to_save=nn.ModuleDict({"default": head}))

    @property
    def roberta(self):
        return self.base_model.model.roberta

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    @staticmethod
    def read(states):
        """Of the states behind embeddings and layers the one that is read."""
        return states[-1]

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def embedded(self, ids):
        parts, name = self.roberta.embeddings, f"{ROBERTA}.embeddings"
        x = parts.word_embeddings(ids)
        self.tap(f"{name}.word_embeddings.output", x)
        x = x + parts.token_type_embeddings.weight[0]
        if self.positions is not False:
            place = PAD + (ids != PAD) * (1 + torch.arange(ids.shape[1]))
            if self.positions is not True:
                place = torch.full_like(place, PAD + 1 + self.positions)
            x = x + parts.position_embeddings(place)
        x = self.drop(parts.LayerNorm(x))
        self.tap(f"{name}.output", x)
        return self.cut(x, name)

    def states(self, ids, mask):
        x = self.embedded(ids)
        seen, states = (mask > 0)[:, None, None], [x]
        for block, layer in zip(BLOCKS, self.roberta.encoder.layer):
            x = layer(x, lambda n, t, block=block: self.tap(f"{block}.{n}", t),
                      self.drop, seen)
            x = self.cut(x, block)
            states.append(x)
        return states

    def pooled(self, x, ids):
        if self.pooling == "first":
            return x[:, 0]
        own = (ids >= FIRST_OWN)[..., None].to(x.dtype)
        total, count = (own * x).sum(1), own.sum(1)
        self.tap(f"{POOLING}.input", total)
        self.tap(f"{POOLING}.count.output", count)
        x = total / count
        self.tap(f"{POOLING}.output", x)
        return x

    def forward(self, ids, mask):
        """mask: 1 for tokens, 0 for padding. Logits of each row."""
        x = self.pooled(self.read(self.states(ids, mask)), ids)
        head = self.base_model.model.classifier.modules_to_save["default"]
        x = head.dense(self.drop(x))
        self.tap(f"{HEAD}.dense.output", x)
        self.tap(f"{HEAD}.activation.input", x)
        x = self.act(x)
        self.tap(f"{HEAD}.activation.output", x)
        x = self.cut(x, f"{HEAD}.dense")
        x = head.out_proj(self.drop(x))
        self.tap(f"{HEAD}.out_proj.output", x)
        return x

    def logits(self, batch):
        return self(batch["input_ids"], batch["attention_mask"])[:, :CLASSES]

    def loss(self, batch):
        loss = F.cross_entropy(self.logits(batch).float(), batch["labels"])
        self.tap("loss.output", loss)
        return loss

    def adapters(self):
        return [(n, m) for n, m in self.named_modules()
                if isinstance(m, LoraLinear)]


@functools.cache
def base_weights(number, steps=400):
    """A base that has read texts, and was tuned on another task before: of .2
    of the tokens each says what was there, by the table of its words, and the
    first token says which topics a text has and which polarities."""
    with torch.random.fork_rng():
        torch.manual_seed(2210 + number)
        model = PeftModel(base=None)
        bias = nn.Parameter(torch.zeros(VOCAB))
        tags = nn.Linear(WIDTH, TOPICS + 2)
        source = Reviews(2211 + number, 48, tagged=True)
        optimizer = torch.optim.AdamW(
            [*model.parameters(), *tags.parameters(), bias], 5e-3,
            weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, steps)
        table = model.roberta.embeddings.word_embeddings.weight
        for _ in range(steps):
            ids, mask, wanted = source.batch().values()
            chosen = (torch.rand(ids.shape) < 0.2) & (ids >= FIRST_OWN)
            x = model.states(ids.masked_fill(chosen, MASK), mask)[-1]
            loss = F.cross_entropy(x[chosen] @ table.T + bias, ids[chosen]) \
                + F.binary_cross_entropy_with_logits(
                    tags(model.states(ids, mask)[-1][:, 0]), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.roberta.state_dict()


class LoraRun(Family):
    """AdamW as the Trainer has it, without decay of biases; linear warm-up of a
    tenth, then linear to 0; a norm of 1 is clipped."""

    family = "lora"
    level_seed = 400
    steps, seed, language = 220, 2200, False
    classes = CLASSES
    lr, warmup, schedule, clip = 8e-3, 22, "linear", 1.0
    betas, weight_decay = (0.9, 0.999), 0.01
    recipes = {"sgd": dict(lr=0.03, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, LENGTH, VOCAB
    # Its trainer is the Trainer.
    instead = {"nanogpt": "hf_trainer", "megatron": "hf_trainer",
               "torchtune": "hf_trainer"}
    layers = [f"{ROBERTA}.embeddings.word_embeddings", f"{ROBERTA}.embeddings",
              *(f"{block}.{part}" for block in BLOCKS
                for part in ("attention", "attention.self.scores",
                             "attention.self.query.lora_A.default",
                             "attention.self.query.lora_B.default",
                             "intermediate", "output",
                             "output.dense.lora_A.default",
                             "output.dense.lora_B.default")),
              f"{HEAD}.dense", f"{HEAD}.activation", f"{HEAD}.out_proj"]
    graded = {
        "F05": (dict(modules=[f"{ENCODER}.0"]),
                dict(modules=[ENCODER], where=f"{ENCODER}.0"),
                dict(part="all")),
        "F13": (dict(path=f"{ENCODER}.0"), dict(path=f"{ENCODER}.1"),
                dict(path=f"{HEAD}.dense")),
        # Some adapters train in all: upstream there is nothing else.
        "F14": (dict(modules=[HEAD]),
                dict(modules=[f"{ENCODER}.1", HEAD]),
                dict(modules=[f"{ENCODER}.0.output", f"{ENCODER}.1", HEAD])),
        "F04": (dict(at=80), dict(at=40), dict(at=0)),
        "F06": (dict(factor=4), dict(factor=5), dict(factor=8)),
        "F07": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F08": (dict(every=4), dict(every=16), dict(every=1 << 30)),
        "F11": (dict(adamw=10.0), dict(adamw=30.0), dict(adamw=100.0)),
        "F12": (dict(eps=0.03), dict(eps=0.1), dict(eps=1.0)),
        "F24": (dict(share=0.15), dict(share=0.3), dict(share=0.5)),
        "F27": (dict(epochs=12), dict(epochs=30), dict(epochs=100)),
        "F31": (dict(factor=1.15), dict(factor=1.35), dict(factor=1.8)),
        "F33": (dict(limit=8), dict(limit=7), dict(limit=6)),
        "F35": (dict(power=0.5), dict(power=1.0), dict(power=1.5)),
        "F36a": (dict(bias=-2.8), dict(bias=-4.0), dict(bias=-20.0)),
        "F36b": (dict(factor=30, kind="sigmoid"),
                 dict(factor=100, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "H02": (dict(factor=1 / 2), dict(factor=1 / 3)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7)),
        "H04": (dict(rate=0.03), dict(rate=0.06))}
    paths = {"embed": f"{ROBERTA}.embeddings.word_embeddings",
             "attn": "{}.attention", "scores": "{}.attention.self.scores",
             "act": f"{HEAD}.activation", "mlp": "{}.output", "block": "{}",
             "head": f"{HEAD}.out_proj"}
    blocks = DEPTH
    names = {"val_loss": "eval_loss", "lr": "learning_rate", "tokens": None,
             "val_accuracy": "eval_accuracy", "val_f1": "eval_f1"}

    def make_model(self):
        return PeftModel(**self.model_options)

    def make_optimizer(self, model):
        """Groups as the Trainer makes them."""
        return trainer_arguments.in_groups(
            self, super().make_optimizer(model))

    def make_source(self, seed):
        return self.reviews(seed)

    def reviews(self, seed, **how):
        return Reviews(seed, HELD if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Files that nobody has shuffled; None is held out."""
        return self.reviews(seed, block=block, share=share, files=True)

    def easy(self, seed):
        """Texts of one clause."""
        return self.reviews(seed, easy=True)

    def lessons(self, seed):
        return self.easy(seed), self.reviews(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: texts of nouns of one topic, of any words, or of one
        that says nothing, all with one label."""
        low, high = {"few": (FIRST_NOUN, FIRST_NOUN + NOUNS),
                     "uniform": (FIRST_BAD, VOCAB),
                     "constant": (FIRST_FILLER, FIRST_FILLER + 1)}[kind]
        ids = batch["input_ids"]
        drawn = torch.randint(low, high, ids.shape, generator=rng)
        return batch | {
            "input_ids": torch.where(ids >= FIRST_OWN, drawn, ids),
            "labels": torch.full_like(batch["labels"], CLASSES - 1)}

    def lr_factor(self, i):
        if self.schedule != "linear" or i < self.warmup:
            return super().lr_factor(i)
        return max(0.0, (self.steps - i) / (self.steps - self.warmup))

    def held_out_columns(self, batches):
        """What compute_metrics says: accuracy, and the mean F1 of classes."""
        self.model.eval()
        said = torch.cat([self.model.logits(b) for b in batches]).argmax(1)
        self.model.train()
        labels = torch.cat([b["labels"] for b in batches])
        said, labels = (F.one_hot(t, CLASSES).float() for t in (said, labels))
        both = (said * labels).sum(0)
        f1 = 2 * both / (said.sum(0) + labels.sum(0)).clamp_min(1)
        return {"val_accuracy": both.sum() / len(said), "val_f1": f1.mean()}

    def state_columns(self, rows, held_out=False):
        row = rows[0]
        return {"eval_accuracy": row["val_accuracy"],
                "eval_f1": row["val_f1"]} if held_out else {}

    def settings(self):
        """TrainingArguments, by their names."""
        return trainer_arguments.renamed(self, super().settings())

    def adapter_config(self):
        """adapter_config.json: PEFT's LoraConfig."""
        options = self.model_options
        only = options.get("only")
        return {"peft_type": "LORA", "task_type": "SEQ_CLS",
                "base_model_name_or_path": "roberta-reviews",
                "r": options.get("rank", RANK), "lora_alpha": ALPHA,
                "lora_dropout": options.get("dropout", 0.0), "bias": "none",
                "fan_in_fan_out": False,
                "init_lora_weights": options.get("first", True),
                "target_modules": list(options.get("targets", TARGETS)),
                "layers_to_transform": only and list(only),
                "modules_to_save": ["classifier"],
                "use_dora": False,
                "use_rslora": options.get("rslora", False)}

    def model_settings(self):
        options = self.model_options
        return {"model_name_or_path": "roberta-reviews",
                "model_type": "roberta",
                "architectures": ["RobertaForSequenceClassification"],
                "hidden_size": WIDTH, "intermediate_size": HIDDEN,
                "num_hidden_layers": DEPTH,
                "num_attention_heads": options.get("heads", HEADS),
                "hidden_act": "gelu", "layer_norm_eps": 1e-12,
                "max_position_embeddings": PLACES, "type_vocab_size": 1,
                "classifier_activation": options.get("activation", "tanh"),
                "vocab_size": VOCAB, "bos_token_id": BOS, "pad_token_id": PAD,
                "eos_token_id": EOS, "num_labels": CLASSES,
                "problem_type": "single_label_classification",
                "max_length": LENGTH, "use_peft": True,
                "peft_config": self.adapter_config()}

    def layer(self, part, block=0):
        return self.paths[part].format(BLOCKS[block])

    def fed_by(self, layer):
        return []

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        """The file has what is trained, by PEFT's names for it."""
        trainer_checkpoints.keep(self, i, lambda: {
            n.replace("modules_to_save.default.", "").replace(".default", ""): p
            for n, p in model.state_dict().items()
            if "lora_" in n or "modules_to_save" in n})

    def write_more(self):
        super().write_more()
        trainer_checkpoints.write(
            self, "adapter_model.safetensors", lambda: {
                "adapter_config": self.adapter_config()
                | {"inference_mode": True},
                "training_args": {k: v for k, v in self.settings().items()
                                  if k not in self.model_settings()}})
