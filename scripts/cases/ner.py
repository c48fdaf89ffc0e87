"""A small named-entity tagger: which pieces of a sentence are a name, of what.

An encoder of two layers with a linear map on each token, as people train it
with transformers' run_ner.py: the Trainer, tags in BIO, one label a word on its
first piece, seqeval's F1. Parts are named as in
DistilBertForTokenClassification.
"""

import random

import torch
from torch import nn
from torch.nn import functional as F

from . import models, trainer_arguments, trainer_checkpoints
from .family import Family
from .models import Group
from .sources import IGNORE, PAD

UNK, CLS, SEP = 1, 2, 3
TYPES = ("PER", "ORG", "LOC")
TAGS = ("O", *(f"{at}-{kind}" for kind in TYPES for at in "BI"))
OTHER = len(TYPES)              # a name that is no entity: a month, a product
KINDS, TOPICS, SIDES = len(TYPES) + 1, 3, 2
FIRST_CUE = 4
FIRST_FILLER = FIRST_CUE + KINDS * TOPICS * SIDES
FILLERS, HEADS_OF_NAMES, TAILS = 30, 48, 36
FIRST_HEAD = FIRST_FILLER + FILLERS
FIRST_TAIL = FIRST_HEAD + HEADS_OF_NAMES
VOCAB = FIRST_TAIL + TAILS
ROWS, WIDTH_OF_ROW, PLACES = 32, 24, 96
WIDTH, HEADS, HIDDEN, DEPTH = 40, 4, 80, 2
INITIAL = 0.1                   # deviation of weights at the start


class Sentences:
    """Sentences with two or three names each, of which the context says what
    they are.

    A word of a name is a piece of 48 and none, one or two of 36 further pieces
    (.5, .3, .2); a name has one word (.6) or two. A gazetteer has 40 words for
    each of three types and for names that are no entity; .4 of the names' words
    are from that of their kind, the others from any, so that a word alone says
    little, and held-out names (`held_out`) are other words of the same pieces.
    What kind a name is, a cue says: a word that stands before the name (.7) or
    behind it, next to it (.9) or one word off. There are 24 of these, one for
    each kind, side and topic of a sentence (of three). Up to two other words,
    of 30, begin a sentence, and one or two stand behind each name and its cue.

    A word has a label on its first piece (-100 on others, on [CLS], [SEP] and
    padding): O, B- or I- with the type. Of names, .06 have the label of another
    kind. Who knows the process has .093 nats a label, who knows how frequent
    labels are .93; a fresh model begins at ln 7 = 1.95 or a little more.

    limit: tokens that are kept of a sentence. width: tokens that a row is
    padded to. pieces: of the tokenizer; a collator clamps what is too large to
    the last row of the table. sections: names of a sentence are mostly (.8) of
    the kind of its section, which is in the batch; block, share: one section
    after the other. domains: other words are the topic's own, and the topic is
    in the batch. all_pieces: pieces behind the first are labelled as well.
    clean: no wrong labels, and cues stand right before names of one word.
    """

    WRONG, HOME, NEXT, BEHIND, MOSTLY = 0.06, 0.4, 0.9, 0.3, 0.8
    WORDS = 40

    def __init__(self, seed, rows, held_out=False, limit=None,
                 width=WIDTH_OF_ROW, pieces=None, block=None, share=1.0,
                 sections=False, domains=False, all_pieces=False, clean=False):
        self.rng, self.rows, self.number = random.Random(seed), rows, 0
        self.limit, self.width = min(limit or width, width), width
        self.block, self.share, self.sections = block, share, sections
        self.domains = domains
        self.all_pieces, self.clean = all_pieces, clean
        world = random.Random(131)
        gazetteers, known = [], set()
        for _ in range(2 * KINDS):
            words = []
            while len(words) < self.WORDS:
                word = self.word(world)
                if word not in known:
                    known.add(word)
                    words.append(word)
            gazetteers.append(words)
        self.names = gazetteers[KINDS:] if held_out else gazetteers[:KINDS]
        # A longer list of pieces has them in another order.
        self.ids = None if pieces is None else torch.tensor(
            [PAD, UNK, CLS, SEP, *(min(k, VOCAB - 1) for k in world.sample(
                range(FIRST_CUE, pieces), VOCAB - FIRST_CUE))])

    @staticmethod
    def word(rng):
        count = rng.choices((0, 1, 2), (0.5, 0.3, 0.2))[0]
        return (FIRST_HEAD + rng.randrange(HEADS_OF_NAMES),
                *(FIRST_TAIL + rng.randrange(TAILS) for _ in range(count)))

    def section(self):
        """The kind that names of a sentence mostly are; None for any."""
        if not self.sections:
            return None
        if self.block and self.rng.random() < self.share:
            return self.number // self.block % KINDS
        return self.rng.randrange(KINDS)

    def filler(self, topic):
        if self.domains:
            own = FILLERS // TOPICS
            return FIRST_FILLER + own * topic + self.rng.randrange(own)
        return FIRST_FILLER + self.rng.randrange(FILLERS)

    def sentence(self, topic, section):
        """Pieces, labels."""
        rng, ids, labels = self.rng, [CLS], [IGNORE]

        def say(piece, label=0):
            ids.append(piece)
            labels.append(label)

        def others(count):
            for _ in range(count):
                say(self.filler(topic))

        others(rng.randint(0, 2))
        for _ in range(rng.randint(2, 3)):
            kind = rng.randrange(KINDS)
            if section is not None and rng.random() < self.MOSTLY:
                kind = section
            said, wrong = kind, rng.random() < self.WRONG
            if wrong and not self.clean:
                said = (kind + rng.randint(1, KINDS - 1)) % KINDS
            behind = rng.random() < self.BEHIND and not self.clean
            away = int(rng.random() >= self.NEXT and not self.clean)
            cue = FIRST_CUE + (SIDES * topic + behind) * KINDS + kind
            if not behind:
                say(cue)
                others(away)
            for k in range(1 if self.clean else
                           rng.choices((1, 2), (0.6, 0.4))[0]):
                home = kind if rng.random() < self.HOME \
                    else rng.randrange(KINDS)
                word = rng.choice(self.names[home])
                inside = 2 * said + 2 if said != OTHER else 0
                first = inside - 1 if inside and not k else inside
                say(word[0], first)
                for piece in word[1:]:
                    say(piece, inside if self.all_pieces else IGNORE)
            if behind:
                others(away)
                say(cue)
            others(rng.randint(1, 2))
        room = self.limit - 1
        return ids[:room] + [SEP], labels[:room] + [IGNORE]

    def batch(self, rows=None):
        rows = rows or self.rows
        topics = [self.rng.randrange(TOPICS) for _ in range(rows)]
        sections = [self.section() for _ in range(rows)]
        self.number += 1
        batch = self.padded([self.sentence(*of)
                             for of in zip(topics, sections)])
        if not self.sections and not self.domains:
            return batch
        return batch | {"domain": torch.tensor(
            sections if self.sections else topics)}

    def padded(self, sentences):
        """As DataCollatorForTokenClassification does it."""
        def even(rows, value):
            return torch.tensor([r + [value] * (self.width - len(r))
                                 for r in rows])
        ids = even([s[0] for s in sentences], PAD)
        return {"input_ids": ids if self.ids is None else self.ids[ids],
                "attention_mask": (ids != PAD).long(),
                "labels": even([s[1] for s in sentences], IGNORE)}


class Layer(nn.Module):
    """Attention and a network of two maps, a norm behind each sum."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.attention = Group(**{f"{name}_lin": nn.Linear(WIDTH, WIDTH)
                                  for name in ("q", "k", "v", "out")})
        self.sa_layer_norm = nn.LayerNorm(WIDTH, 1e-12)
        self.ffn = Group(
            lin1=nn.Linear(WIDTH, HIDDEN), lin2=nn.Linear(HIDDEN, WIDTH),
            activation=models.ACTIVATIONS[options["activation"]]())
        self.output_layer_norm = nn.LayerNorm(WIDTH, 1e-12)

    def forward(self, x, tap, drop, seen):
        own, heads = self.attention, self.options["heads"]

        def split(y):
            return y.view(*y.shape[:2], heads, -1).transpose(1, 2)

        scale = self.options["scale"]
        if scale is None:
            scale = (WIDTH // heads) ** -0.5
        y = models.attend(
            split(own.q_lin(x)), split(own.k_lin(x)), split(own.v_lin(x)),
            lambda n, t: tap(f"attention.{n}", t), scale,
            half=self.options["half_scores"], seen=seen)
        y = own.out_lin(y.transpose(1, 2).reshape(x.shape))
        tap("attention.output", y)
        x = self.sa_layer_norm(x + drop(y))
        tap("sa_layer_norm.output", x)
        y = self.ffn.lin1(x)
        tap("ffn.activation.input", y)
        y = self.ffn.activation(y)
        tap("ffn.activation.output", y)
        y = self.ffn.lin2(y)
        tap("ffn.output", y)
        x = self.output_layer_norm(x + drop(y))
        tap("output_layer_norm.output", x)
        return x


class DistilBert(models.Language):
    """Two layers of width 40 with 4 heads, and a map to the tags."""

    BLOCKS = tuple(f"distilbert.transformer.layer.{i}" for i in range(DEPTH))

    def __init__(self, heads=HEADS, activation="gelu", dropout=0.0,
                 detach_after=None, half_scores=False, positions=True,
                 scale=None):
        """detach_after: the part behind which the graph is cut. positions:
        the place that all tokens have if a number, none if False."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions = positions
        options = {"heads": heads, "activation": activation, "scale": scale,
                   "half_scores": half_scores}
        self.distilbert = Group(
            embeddings=Group(
                word_embeddings=nn.Embedding(VOCAB, WIDTH, padding_idx=PAD),
                position_embeddings=nn.Embedding(PLACES, WIDTH),
                LayerNorm=nn.LayerNorm(WIDTH, 1e-12)),
            transformer=Group(layer=nn.ModuleList(
                Layer(options) for _ in range(DEPTH))))
        self.classifier = nn.Linear(WIDTH, len(TAGS))
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=INITIAL)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.zeros_(m.bias)
        words = self.distilbert.embeddings.word_embeddings
        nn.init.zeros_(words.weight[PAD])

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def forward(self, ids, seen):
        """seen: 1 for tokens, 0 for padding."""
        parts = self.distilbert.embeddings
        x = parts.word_embeddings(ids)
        self.tap("distilbert.embeddings.word_embeddings.output", x)
        if self.positions is not False:
            place = torch.arange(ids.shape[1])[None]
            if self.positions is not True:
                place = torch.full_like(place, self.positions)
            x = x + parts.position_embeddings(place)
        x = parts.LayerNorm(x)
        self.tap("distilbert.embeddings.output", x)
        x = self.drop(self.cut(x, "distilbert.embeddings"))
        seen = (seen > 0)[:, None, None]
        for name, layer in zip(self.BLOCKS, self.distilbert.transformer.layer):
            x = layer(x, lambda n, t, name=name: self.tap(f"{name}.{n}", t),
                      self.drop, seen)
            x = self.cut(x, name)
        x = self.classifier(self.drop(x))
        self.tap("classifier.output", x)
        return x

    def logits(self, batch):
        return self(batch["input_ids"], batch["attention_mask"])


def entities(tags):
    """(first, behind the last, type) of each entity among the tags of words,
    as conlleval reads them: an I- that goes on nothing begins one."""
    found, begun = [], None
    for at, tag in enumerate([*tags, 0]):
        kind, begins = (tag + 1) // 2, tag % 2
        if begun and (not kind or begins or kind != begun[1]):
            found.append((begun[0], at, begun[1]))
            begun = None
        if kind and not begun:
            begun = at, kind
    return set(found)


def seqeval(labels, said):
    """Precision, recall and F1 of entities, accuracy of words."""
    right = told = there = same = words = 0
    for row, guess in zip(labels, said):
        kept = row != IGNORE
        row, guess = row[kept].tolist(), guess[kept].tolist()
        same += sum(a == b for a, b in zip(row, guess))
        words += len(row)
        wanted, found = entities(row), entities(guess)
        right += len(wanted & found)
        told, there = told + len(found), there + len(wanted)
    precision, recall = right / max(told, 1), right / max(there, 1)
    return {"val_precision": precision, "val_recall": recall,
            "val_f1": 2 * precision * recall / max(precision + recall, 1e-9),
            "val_accuracy": same / max(words, 1)}


class NerRun(Family):
    """AdamW as the Trainer has it, without decay of biases and norms; linear
    warm-up of 28 steps, then linear to 0; a norm of 1 is clipped."""

    family = "ner"
    level_seed = 400
    steps, seed, classes = 300, 960, len(TAGS)
    lr, warmup, schedule, clip = 8e-3, 28, "linear", 1.0
    betas, weight_decay = (0.9, 0.98), 0.01
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, WIDTH_OF_ROW, VOCAB
    head_rate = 1.0         # of the head, in units of all else's
    # Nobody trains taggers with these.
    instead = {"nanogpt": "hf_trainer", "megatron": "hf_trainer",
               "torchtune": "hf_trainer"}
    layers = ["distilbert.embeddings.word_embeddings", "distilbert.embeddings",
              *(f"{block}.{part}" for block in DistilBert.BLOCKS
                for part in ("attention", "attention.scores", "sa_layer_norm",
                             "ffn.activation", "ffn", "output_layer_norm")),
              "classifier"]
    paths = {"embed": "distilbert.embeddings.word_embeddings",
             "attn": "{}.attention", "scores": "{}.attention.scores",
             "act": "{}.ffn.activation", "mlp": "{}.ffn", "block": "{}",
             "head": "classifier"}
    blocks = DEPTH
    names = {"val_loss": "eval_loss", "lr": "learning_rate", "tokens": None,
             **{f"val_{k}": f"eval_{k}" for k in (
                 "precision", "recall", "f1", "accuracy")}}

    def make_model(self):
        return DistilBert(**self.model_options)

    def make_optimizer(self, model):
        """Groups as the Trainer makes them; the head's are its own where it
        has another rate."""
        optimizer = super().make_optimizer(model)
        plain = optimizer.param_groups[0]
        named = [(n, p) for n, p in model.named_parameters()
                 if p.requires_grad]
        if self.moments != "adamw":
            return optimizer
        groups = []
        for head in (False, True) if self.head_rate != 1.0 else (None,):
            for decays in (True, False):
                mine = [p for n, p in named
                        if (p.dim() > 1) == decays
                        and head in (None, n.startswith("classifier"))]
                groups.append(dict(
                    params=mine, weight_decay=plain["weight_decay"] * decays,
                    lr=self.lr * (self.head_rate if head else 1.0)))
        return type(optimizer)([g for g in groups if g["params"]], lr=self.lr,
                               betas=self.betas, eps=self.eps)

    def make_source(self, seed):
        return self.tagged(seed)

    def tagged(self, seed, **how):
        return Sentences(seed, self.batch_size if seed != 9 else 2 * ROWS,
                         held_out=seed == 9, **how)

    def in_blocks(self, seed, block, share):
        """Sections that nobody has shuffled; None is held out."""
        return self.tagged(seed, block=block, share=share, sections=True)

    def easy(self, seed):
        """Names of one word right behind their cue, and no errors."""
        return self.tagged(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.tagged(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pieces and tags of few kinds, of any, or of one."""
        low, high = {"few": (VOCAB - 4, VOCAB), "uniform": (FIRST_CUE, VOCAB),
                     "constant": (FIRST_HEAD, FIRST_HEAD + 1)}[kind]
        first, last = {"few": (4, 7), "uniform": (0, len(TAGS)),
                       "constant": (6, 7)}[kind]
        ids, labels = batch["input_ids"], batch["labels"]
        pieces = torch.randint(low, high, ids.shape, generator=rng)
        tags = torch.randint(first, last, ids.shape, generator=rng)
        return batch | {
            "input_ids": torch.where(ids >= FIRST_CUE, pieces, ids),
            "labels": torch.where(labels != IGNORE, tags, labels)}

    def lr_factor(self, i):
        if self.schedule != "linear" or i < self.warmup:
            return super().lr_factor(i)
        return max(0.0, (self.steps - i) / (self.steps - self.warmup))

    def held_out_columns(self, batches):
        """What compute_metrics gives."""
        self.model.eval()
        said = torch.cat([self.model.logits(b).argmax(-1) for b in batches])
        self.model.train()
        return seqeval(torch.cat([b["labels"] for b in batches]), said)

    def state_columns(self, rows, held_out=False):
        """What compute_metrics adds to a row of trainer_state.json."""
        return {f"eval_{k}": rows[0][f"val_{k}"] for k in (
            "accuracy", "f1", "precision", "recall")} if held_out else {}

    def settings(self):
        """The arguments of run_ner.py, by their names."""
        return trainer_arguments.renamed(self, super().settings())

    def model_config(self):
        """config.json of a checkpoint."""
        options = self.model_options
        return {"model_type": "distilbert",
                "architectures": ["DistilBertForTokenClassification"],
                "activation": options.get("activation", "gelu"),
                "attention_dropout": 0.0,
                "dim": WIDTH, "dropout": options.get("dropout", 0.0),
                "hidden_dim": HIDDEN, "initializer_range": INITIAL,
                "id2label": {str(i): tag for i, tag in enumerate(TAGS)},
                "label2id": {tag: i for i, tag in enumerate(TAGS)},
                "max_position_embeddings": PLACES,
                "n_heads": options.get("heads", HEADS), "n_layers": DEPTH,
                "pad_token_id": PAD, "sinusoidal_pos_embds": False,
                "vocab_size": VOCAB}

    def model_settings(self):
        return {"model": "distilbert", "task_name": "ner",
                **{k: v for k, v in self.model_config().items() if k not in (
                    "model_type", "architectures", "id2label", "label2id")},
                "num_labels": len(TAGS), "label_list": list(TAGS),
                "text_column_name": "tokens", "label_column_name": "ner_tags",
                "max_seq_length": self.context, "pad_to_max_length": True,
                "label_all_tokens": False, "metric": "seqeval"}

    def layer(self, part, block=0):
        return self.paths[part].format(DistilBert.BLOCKS[block])

    # Checkpoints, and the files that run_ner.py writes at the end.

    def keep_checkpoint(self, i, model):
        trainer_checkpoints.keep(self, i, model.state_dict)

    def write_more(self):
        super().write_more()
        trainer_checkpoints.write(self, "model.safetensors", lambda: {
            "config": self.model_config(), "tokenizer_config": {
                "tokenizer_class": "DistilBertTokenizer",
                "model_max_length": PLACES, "do_lower_case": False,
                "pad_token": "[PAD]", "unk_token": "[UNK]",
                "cls_token": "[CLS]", "sep_token": "[SEP]"}})
        if self.dialect == "hf_trainer":
            self.write_results()

    def write_results(self):
        """train_results.json, eval_results.json and all_results.json, and what
        log_metrics prints of them."""
        seconds, last = self.history[-1]["wall"], self.history[-1]
        epoch = self.steps / 100
        losses = [r["loss"] for r in self.history]
        rate = self.steps / seconds
        rows = self.steps * self.batch_size * self.accumulate
        train = {"epoch": epoch, "train_loss": sum(losses) / self.steps,
                 "train_runtime": round(seconds, 4), "train_samples": rows,
                 "train_samples_per_second": round(rows / seconds, 3),
                 "train_steps_per_second": round(rate, 3)}
        held = {"epoch": epoch, **self.state_columns([last], True),
                "eval_loss": last["val_loss"], "eval_runtime": 0.0613,
                "eval_samples": 8 * ROWS,
                "eval_samples_per_second": 1044.0,
                "eval_steps_per_second": 65.25}
        out = []
        for split, values in (("train", train), ("eval", held)):
            self.write_json(f"{split}_results.json", values)
            wide = max(map(len, values))
            shown = {k: f"0:{v // 60:02.0f}:{v % 60:05.2f}"
                     if k.endswith("_runtime") else round(v, 4)
                     for k, v in sorted(values.items())}
            out += [f"***** {split} metrics *****",
                    *(f"  {k:{wide}} = {v!s:>10}" for k, v in shown.items())]
        self.write_json("all_results.json", dict(sorted(
            (train | held).items())))
        with open(self.folder / "train.log", "a", encoding="utf-8") as log:
            log.writelines(line + "\n" for line in out)
