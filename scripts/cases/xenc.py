"""A small cross-encoder that says whether a passage answers a question.

Question and passage are read together by one BERT of the size that MiniLM is
here, and its first token becomes one logit, as people train a reranker with
sentence-transformers: CrossEncoderTrainer, pairs with a label, several mined
negatives to each positive, BinaryCrossEntropyLoss with a pos_weight that makes
up for their number, an evaluator that ranks. Parts are named as in a
CrossEncoder of a BertForSequenceClassification.
"""

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources, trainer_arguments, trainer_checkpoints
from .family import Family
from .models import Group
from .sources import PAD

UNK, CLS, SEP = 1, 2, 3
FIRST_OWN = 4             # what is below are tokens of the tokenizer's own
FILLERS, VALUES, SITES, ENTITIES, ATTRIBUTES = 8, 8, 3, 4, 4
FIRST_SITE = FIRST_OWN
FIRST_FILLER = FIRST_SITE + SITES
FIRST_VALUE = FIRST_FILLER + FILLERS
FIRST_ENTITY = FIRST_VALUE + VALUES
FIRST_ATTRIBUTE = FIRST_ENTITY + ENTITIES
VOCAB = FIRST_ATTRIBUTE + ATTRIBUTES
NEGATIVES = 4             # mined for each positive
GROUP = 1 + NEGATIVES
# What of the question a passage has: both words in the fact that it is about,
# both in the one that it mentions, or in the first one of them, or neither.
KINDS = ("about", "mentioned", "entity", "attribute", "neither")
ROWS, QUESTIONS, LENGTH, PLACES = 64, 20, 14, 24
WIDTH, HEADS, HIDDEN, DEPTH = 40, 4, 80, 2
# Deviations of weights at the start. Words differ much and a token looks at few
# others, or 300 steps would not do.
INITIAL, WORDS, LOOKS = 0.1, 0.5, 0.3


class Pairs(sources.Source):
    """Questions with passages, and whether these were marked as an answer.

    A question asks for an attribute of an entity (of four each). A passage
    comes from one of three sites, whose token it begins with, and states two
    facts: an entity, its attribute, a value. It is about the first and mentions
    the second. Words that say nothing stand before them and behind. Of passages
    that are marked .93 are about what is asked for; of mined negatives, four to
    each, .05 are (nobody marked them), .2 mention it, .25 each are about the
    entity alone or the attribute alone, and .25 about neither. Positives come
    from the first site more often.

    Row: CLS question SEP passage SEP PAD. With a weight of 4 on positives a
    constant has 1.11 nats, who knows the sites 1.05, who knows what is asked
    for is in the passage, and not where, .61; who knows the process has .345
    (`best()`).

    grouped: rows are questions of five, the positive first, in order, as an
    evaluator has them; else each is drawn by itself, as behind a shuffle.
    limit: tokens that are kept of a row. pieces: of the tokenizer; a collator
    clamps what is too large to the last row of the table. block, share: files
    of one kind of row each, one after the other. files, sites: the number of
    either is in the batch. clean: no passage mentions what is asked for.
    taught: the share of labels that are a teacher's probabilities. eased: the
    share of mined negatives that are drawn at random at first, and over how
    many batches.
    """

    MARKED = (0.93, 0.02, 0.02, 0.02, 0.01)
    MINED = (0.05, 0.2, 0.25, 0.25, 0.25)
    EASY = (0.05, 0.0, 0.05, 0.05, 0.85)
    CLEAN = ((0.97, 0.0, 0.01, 0.01, 0.01), (0.03, 0.0, 0.25, 0.25, 0.47))
    FROM = ((0.25, 0.35, 0.4), (0.5, 0.3, 0.2))
    FILLED = 0.3

    def __init__(self, seed, rows, grouped=False, limit=None, pieces=None,
                 block=None, share=1.0, files=False, sites=False, clean=False,
                 taught=0.0, eased=None):
        super().__init__(seed, (VOCAB, LENGTH, rows))
        self.grouped, self.limit = grouped, limit or LENGTH
        self.block, self.share, self.files = block, share, files
        self.sites, self.taught, self.eased = sites, taught, eased
        self.table = torch.tensor(self.CLEAN[::-1] if clean
                                  else (self.MINED, self.MARKED))
        # A longer list of pieces has them in another order.
        self.ids = None if pieces is None else torch.tensor(
            [PAD, UNK, CLS, SEP, *(min(k, VOCAB - 1) for k in (
                torch.randperm(pieces - FIRST_OWN,
                               generator=torch.Generator().manual_seed(161))[
                                   :VOCAB - FIRST_OWN] + FIRST_OWN).tolist())])

    def any(self, *shape, high):
        return torch.randint(high, shape, generator=self.rng)

    def chance(self, rows, share):
        return torch.rand(rows, generator=self.rng) < share

    def distinct(self, rows, high):
        """Three numbers that differ, (rows, 3)."""
        return torch.rand(rows, high, generator=self.rng).argsort(1)[:, :3]

    def drawn(self, table):
        """A number of each row's distribution."""
        return torch.multinomial(table, 1, generator=self.rng)[:, 0]

    def kinds(self, rows):
        """Labels, and what the passages have of what is asked for."""
        label = torch.arange(rows) % GROUP == 0 if self.grouped \
            else self.chance(rows, 1 / GROUP)
        label = label.long()
        if self.files:
            return self.filed(label)
        table = self.table
        if self.eased:
            share, batches = self.eased
            left = share * max(0.0, 1 - self.number / batches)
            table = torch.stack((torch.lerp(
                table[0], torch.tensor(self.EASY), left), table[1]))
        return label, self.drawn(table[label])

    def filed(self, label):
        """A file of positives, four of negatives: of each kind one, with what
        nobody marked among the first."""
        kind = self.drawn(self.table[label])
        file = torch.where(label > 0, 0, kind.clamp_min(1))
        if self.block:
            here = self.number // self.block % len(KINDS)
            now = self.chance(len(label), self.share)
            file = torch.where(now, here, file)
            label = (file == 0).long()
            kind = torch.where(label > 0, self.drawn(self.table[label]), file)
        self.file = file
        return label, kind

    def draw(self, rows):
        label, kind = self.kinds(rows)
        site = self.drawn(torch.tensor(self.FROM)[label])
        entity, attribute = (self.distinct(rows, n)
                             for n in (ENTITIES, ATTRIBUTES))
        if self.grouped:  # of one question
            first = torch.arange(rows) // GROUP * GROUP
            entity, attribute = (torch.where(
                x == x[first, :1], x[:, :1], x).scatter(1, torch.zeros(
                    rows, 1, dtype=torch.int64), x[first, :1])
                for x in (entity, attribute))
        asked = entity[:, :1], attribute[:, :1]
        # By kind, which of the three entities and attributes are in the
        # passage's two facts; the first are asked for.
        of_entity = torch.tensor(((0, 1), (1, 0), (0, 1), (1, 2), (1, 2)))
        of_attribute = torch.tensor(((0, 1), (1, 0), (1, 2), (0, 1), (1, 2)))
        entity = entity.gather(1, of_entity[kind])
        attribute = attribute.gather(1, of_attribute[kind])
        batch = self.written(*asked, site, entity, attribute)
        labels = label.float()
        if self.taught:
            labels = torch.where(self.chance(rows, self.taught),
                                 self.teacher()[kind, site], labels)
        batch["labels"] = labels
        if self.files or self.sites:
            batch["domain"] = self.file if self.files else site
        return batch

    def written(self, entity, attribute, site, entities, attributes):
        """The tokens of rows, given what is asked for and what is stated."""
        rows = len(site)
        filler = self.any(rows, 2, high=FILLERS)
        if self.sites:  # each has words of its own
            filler = (filler // 2 + 3 * site[:, None]) % FILLERS
        filler = filler + FIRST_FILLER
        entity, entities = entity + FIRST_ENTITY, entities + FIRST_ENTITY
        attribute = attribute + FIRST_ATTRIBUTE
        attributes = attributes + FIRST_ATTRIBUTE
        value = self.any(rows, 2, high=VALUES) + FIRST_VALUE
        start, end = (torch.full((rows, 1), k) for k in (CLS, SEP))
        ids = torch.cat((
            start, attribute, entity, end, FIRST_SITE + site[:, None],
            filler[:, :1], entities[:, :1], attributes[:, :1], value[:, :1],
            entities[:, 1:], attributes[:, 1:], value[:, 1:], filler[:, 1:],
            end), 1)
        there = torch.ones_like(ids, dtype=torch.bool)
        for place in (5, 12):
            there[:, place] = self.chance(rows, self.FILLED)
        kind = (torch.arange(ids.shape[1]) > 3).long().expand_as(ids)
        order = (~there).long().argsort(dim=1, stable=True)
        ids, kind, there = (x.gather(1, order) for x in (ids, kind, there))
        return self.cut(ids, kind, there)

    def cut(self, ids, kind, there):
        """What is too long loses its end, but for the last SEP."""
        size = there.sum(1, keepdim=True).clamp(max=self.limit)
        place = torch.arange(ids.shape[1])
        there = place < size
        ids = torch.where(place == size - 1, SEP, ids).masked_fill(~there, PAD)
        return {"input_ids": ids if self.ids is None else self.ids[ids],
                "token_type_ids": kind * there, "attention_mask": there.long()}

    def likelihoods(self):
        """Of kind and site, (label, kind, site)."""
        return self.table[:, :, None] * torch.tensor(self.FROM)[:, None]

    def teacher(self):
        """The probability of a mark, given kind and site."""
        weighed = self.likelihoods() * torch.tensor(
            (NEGATIVES / GROUP, 1 / GROUP))[:, None, None]
        return weighed[1] / weighed.sum(0)

    def best(self, merged=(), weight=float(NEGATIVES)):
        """The loss of who knows the process; merged: lists of kinds that one
        cannot tell apart."""
        weighed = self.likelihoods() * torch.tensor(
            (NEGATIVES / GROUP, weight / GROUP))[:, None, None]
        groups = [*merged, *([k] for k in range(len(KINDS))
                             if k not in sum(map(list, merged), []))]
        total = 0.0
        for group in groups:
            off, on = weighed[:, list(group)].sum(1)
            total += float((torch.special.xlogy(on, (on + off) / on)
                            + torch.special.xlogy(off, (on + off) / off)
                            ).nan_to_num().sum())
        return total


class Layer(nn.Module):
    """Attention and a network of two maps, a norm behind each sum."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.attention = Group(
            self=Group(**{name: nn.Linear(WIDTH, WIDTH)
                          for name in ("query", "key", "value")}),
            output=Group(dense=nn.Linear(WIDTH, WIDTH),
                         LayerNorm=nn.LayerNorm(WIDTH, 1e-12)))
        self.intermediate = Group(dense=nn.Linear(WIDTH, HIDDEN))
        self.output = Group(dense=nn.Linear(HIDDEN, WIDTH),
                            LayerNorm=nn.LayerNorm(WIDTH, 1e-12))

    def forward(self, x, tap, drop, seen):
        own, options = getattr(self.attention, "self"), self.options

        def split(y):
            return y.view(*y.shape[:2], options["heads"], -1).transpose(1, 2)

        scale = options["scale"]
        if scale is None:
            scale = (WIDTH // options["heads"]) ** -0.5
        y = models.attend(
            split(own.query(x)), split(own.key(x)), split(own.value(x)),
            lambda n, t: tap(f"attention.self.{n}", t), scale,
            half=options["half_scores"], seen=seen)
        y = self.attention.output.dense(y.transpose(1, 2).reshape(x.shape))
        x = self.attention.output.LayerNorm(x + drop(y))
        tap("attention.output", x)
        y = self.intermediate.dense(x)
        tap("intermediate.dense.output", y)
        y = options["act"](y)
        tap("intermediate.output", y)
        x = self.output.LayerNorm(x + drop(self.output.dense(y)))
        tap("output", x)
        return x


class CrossEncoder(nn.Module):
    """A BertForSequenceClassification of two layers of width 40 with 4 heads,
    one logit; and the loss."""

    BERT = "model.bert"
    BLOCKS = tuple(f"model.bert.encoder.layer.{i}" for i in range(DEPTH))
    POOLER, HEAD = "model.bert.pooler", "model.classifier"

    def __init__(self, heads=HEADS, activation=None, dropout=0.0,
                 detach_after=None, half_scores=False, positions=True,
                 scale=None, pos_weight=float(NEGATIVES), counted=False):
        """activation: of layers and pooler, GELU and tanh if not given.
        detach_after: the part behind which the graph is cut. positions: the
        place that all tokens have if a number, none if False. counted:
        positives weigh what a batch has of negatives to each."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.pos_weight = positions, pos_weight
        self.counted, self.squashes = counted, False
        options = {"heads": heads, "scale": scale, "half_scores": half_scores,
                   "act": models.ACTIVATIONS[activation or "gelu"]()}
        self.act = models.ACTIVATIONS[activation or "tanh"]()
        self.model = Group(
            bert=Group(
                embeddings=Group(
                    word_embeddings=nn.Embedding(VOCAB, WIDTH,
                                                 padding_idx=PAD),
                    position_embeddings=nn.Embedding(PLACES, WIDTH),
                    token_type_embeddings=nn.Embedding(2, WIDTH),
                    LayerNorm=nn.LayerNorm(WIDTH, 1e-12)),
                encoder=Group(layer=nn.ModuleList(
                    Layer(options) for _ in range(DEPTH))),
                pooler=Group(dense=nn.Linear(WIDTH, WIDTH))),
            classifier=nn.Linear(WIDTH, 1))
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=WORDS if "word_embed" in name else LOOKS
                                if "query" in name or "key" in name
                                else INITIAL)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        nn.init.zeros_(self.model.bert.embeddings.word_embeddings.weight[PAD])

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    @staticmethod
    def visible(block, seen, types):
        """What a block's tokens see; replaced where it is less."""
        return seen

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def embedded(self, ids, types):
        parts, name = self.model.bert.embeddings, f"{self.BERT}.embeddings"
        x = parts.word_embeddings(ids)
        self.tap(f"{name}.word_embeddings.output", x)
        x = x + parts.token_type_embeddings(types)
        if self.positions is not False:
            place = torch.arange(ids.shape[1])[None]
            if self.positions is not True:
                place = torch.full_like(place, self.positions)
            x = x + parts.position_embeddings(place)
        x = self.drop(parts.LayerNorm(x))
        self.tap(f"{name}.output", x)
        return self.cut(x, name)

    def pooled(self, x):
        """What becomes of the first token."""
        self.tap(f"{self.POOLER}.input", x)
        x = self.model.bert.pooler.dense(x)
        self.tap(f"{self.POOLER}.dense.output", x)
        x = self.act(x)
        self.tap(f"{self.POOLER}.output", x)
        return self.cut(x, self.POOLER)

    def forward(self, ids, types, mask):
        """mask: 1 for tokens, 0 for padding. A logit of each row."""
        x = self.embedded(ids, types)
        seen = (mask > 0)[:, None, None]
        for block, layer in zip(self.BLOCKS, self.model.bert.encoder.layer):
            x = layer(x, lambda n, t, block=block: self.tap(f"{block}.{n}", t),
                      self.drop, self.visible(block, seen, types))
            x = self.cut(x, block)
        x = self.model.classifier(self.drop(self.pooled(x[:, 0])))
        self.tap(f"{self.HEAD}.output", x)
        return x[:, 0]

    def logits(self, batch):
        return self(batch["input_ids"], batch["token_type_ids"],
                    batch["attention_mask"])

    def criterion(self, logits, batch, smoothing=0.0):
        """BinaryCrossEntropyLoss."""
        logits, labels = logits.float(), batch["labels"]
        if self.squashes:
            logits = logits.sigmoid()
        weight = torch.tensor(self.pos_weight)
        if self.counted:
            positives = labels.sum()
            weight = (len(labels) - positives) / positives
            self.tap("loss.positives.output", positives)
            self.tap("loss.pos_weight.output", weight)
        labels = (1 - smoothing) * labels + smoothing / 2
        return F.binary_cross_entropy_with_logits(logits, labels,
                                                  pos_weight=weight)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class XencRun(Family):
    """AdamW as the Trainer has it, without decay of biases and norms; linear
    warm-up of a tenth, then linear to 0; a norm of 1 is clipped."""

    family = "xenc"
    beside = "qa"           # they were written side by side
    level_seed = 400
    steps, seed, language = 280, 1300, False
    classes = 2
    lr, warmup, schedule, clip = 5e-3, 28, "linear", 1.0
    betas, weight_decay = (0.9, 0.999), 0.01
    recipes = {"sgd": dict(lr=0.1, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, LENGTH, VOCAB
    # Its trainer is the Trainer.
    instead = {"nanogpt": "hf_trainer", "megatron": "hf_trainer",
               "torchtune": "hf_trainer"}
    layers = ["model.bert.embeddings.word_embeddings", "model.bert.embeddings",
              *(f"{block}.{part}" for block in CrossEncoder.BLOCKS
                for part in ("attention", "attention.self.scores",
                             "intermediate", "output")),
              CrossEncoder.POOLER, CrossEncoder.HEAD]
    ENCODER = "model.bert.encoder.layer"
    graded = {
        "F05": (dict(modules=[ENCODER], where=f"{ENCODER}.0"),
                dict(modules=["model.bert"],
                     where="model.bert.embeddings.word_embeddings"),
                dict(part="all")),
        "F07": (dict(factor=15), dict(factor=50), dict(factor=200)),
        "F11": (dict(adamw=10.0), dict(adamw=30.0), dict(adamw=100.0)),
        "F12": (dict(eps=0.03), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path=f"{ENCODER}.0"), dict(path=f"{ENCODER}.1"),
                dict(path=CrossEncoder.POOLER)),
        "F14": (dict(modules=[f"{ENCODER}.0.attention",
                              f"{ENCODER}.1.attention"]),
                dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1"]),
                dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1",
                              CrossEncoder.POOLER])),
        "F27": (dict(epochs=12), dict(epochs=30), dict(epochs=100)),
        "F31": (dict(factor=1.8), dict(factor=2.5), dict(factor=4.0)),
        "F33": (dict(limit=7), dict(limit=6), dict(limit=5)),
        "F35": (dict(power=0.5), dict(power=1.0), dict(power=1.5)),
        "F36a": (dict(bias=-2.5), dict(bias=-3.5), dict(bias=-8.0)),
        "F36b": (dict(factor=30, kind="sigmoid"),
                 dict(factor=100, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "H02": (dict(factor=1 / 3), dict(factor=1 / 6)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7)),
        "H04": (dict(rate=0.02), dict(rate=0.05))}
    paths = {"embed": "model.bert.embeddings.word_embeddings",
             "attn": "{}.attention", "scores": "{}.attention.self.scores",
             "act": "{}.intermediate", "mlp": "{}.output", "block": "{}",
             "head": CrossEncoder.HEAD}
    blocks = DEPTH
    names = {"val_loss": "eval_loss", "lr": "learning_rate", "tokens": None,
             "val_ndcg": "eval_dev_ndcg@10", "val_mrr": "eval_dev_mrr@10"}

    def make_model(self):
        return CrossEncoder(**self.model_options)

    def make_optimizer(self, model):
        """Groups as the Trainer makes them."""
        return trainer_arguments.in_groups(
            self, super().make_optimizer(model))

    def make_source(self, seed):
        return self.pairs(seed)

    def pairs(self, seed, **how):
        """Held out are whole questions, in order."""
        if seed == 9:
            return Pairs(seed, QUESTIONS * GROUP, grouped=True, **how)
        return Pairs(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Files that nobody has shuffled; None is held out."""
        return self.pairs(seed, block=block, share=share, files=True)

    def easy(self, seed):
        """No passage mentions what it is not about, and fewer marks are
        wrong."""
        return self.pairs(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.pairs(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: passages of attributes alone, of any words of facts,
        or of one that says nothing, all marked as answers."""
        low, high = {"few": (FIRST_ATTRIBUTE, VOCAB),
                     "uniform": (FIRST_ENTITY, VOCAB),
                     "constant": (FIRST_FILLER, FIRST_FILLER + 1)}[kind]
        ids = batch["input_ids"]
        drawn = torch.randint(low, high, ids.shape, generator=rng)
        spoiled = (ids >= FIRST_OWN) & (batch["token_type_ids"] > 0)
        return batch | {"input_ids": torch.where(spoiled, drawn, ids),
                        "labels": torch.ones_like(batch["labels"])}

    def lr_factor(self, i):
        if self.schedule != "linear" or i < self.warmup:
            return super().lr_factor(i)
        return max(0.0, (self.steps - i) / (self.steps - self.warmup))

    def held_out_columns(self, batches):
        """What a CrossEncoderRerankingEvaluator says: of each question the
        positive is sought among its mined negatives."""
        self.model.eval()
        scores = torch.cat([self.model.logits(b) for b in batches]).float()
        self.model.train()
        scores = scores.view(-1, GROUP)
        own = scores[:, :1]
        rank = 1 + (scores[:, 1:] >= own).sum(1)
        rank = torch.where(own[:, 0].isfinite(), rank, GROUP).float()
        return {"val_ndcg": (1 / (rank + 1).log2()).mean(),
                "val_mrr": (1 / rank).mean(), "val_map": (1 / rank).mean()}

    def state_columns(self, rows, held_out=False):
        row = rows[0]
        return {"eval_dev_map": row["val_map"],
                "eval_dev_mrr@10": row["val_mrr"],
                "eval_dev_ndcg@10": row["val_ndcg"]} if held_out else {}

    def settings(self):
        """CrossEncoderTrainingArguments, by their names."""
        return trainer_arguments.renamed(self, super().settings())

    def model_config(self):
        """config.json of a checkpoint."""
        options = self.model_options
        return {"model_type": "bert",
                "architectures": ["BertForSequenceClassification"],
                "attention_probs_dropout_prob": 0.0,
                "classifier_dropout": None,
                "hidden_act": options.get("activation", "gelu"),
                "pooler_act": options.get("activation", "tanh"),
                "hidden_dropout_prob": options.get("dropout", 0.0),
                "hidden_size": WIDTH, "id2label": {"0": "LABEL_0"},
                "initializer_range": INITIAL, "intermediate_size": HIDDEN,
                "layer_norm_eps": 1e-12, "max_position_embeddings": PLACES,
                "num_attention_heads": options.get("heads", HEADS),
                "num_hidden_layers": DEPTH, "pad_token_id": PAD,
                "position_embedding_type": "absolute",
                "sentence_transformers": {
                    "activation_fn": "torch.nn.modules.activation.Sigmoid",
                    "version": "5.1.0"},
                "type_vocab_size": 2, "vocab_size": VOCAB}

    def model_settings(self):
        weight = self.model_options.get("pos_weight", float(NEGATIVES))
        return {"model": "cross-encoder",
                **{k: v for k, v in self.model_config().items()
                   if k not in ("model_type", "architectures", "id2label",
                                "sentence_transformers")},
                "num_labels": 1, "max_length": LENGTH,
                "loss": "BinaryCrossEntropyLoss", "pos_weight": weight,
                "train_columns": ["query", "passage", "label"],
                "num_hard_negatives": NEGATIVES,
                "evaluator": "CrossEncoderRerankingEvaluator"}

    def layer(self, part, block=0):
        return self.paths[part].format(CrossEncoder.BLOCKS[block])

    def fed_by(self, layer):
        return []

    # Checkpoints, and what the evaluator writes and says.

    def keep_checkpoint(self, i, model):
        """The file has the transformer's own names."""
        trainer_checkpoints.keep(self, i, lambda: {
            k.removeprefix("model."): v
            for k, v in model.state_dict().items()})

    def write_more(self):
        super().write_more()
        trainer_checkpoints.write(self, "model.safetensors", lambda: {
            "config": self.model_config(), "tokenizer_config": {
                "tokenizer_class": "BertTokenizer", "model_max_length": LENGTH,
                "cls_token": "[CLS]", "pad_token": "[PAD]",
                "sep_token": "[SEP]", "unk_token": "[UNK]"}})
        self.write_evaluations()

    def write_evaluations(self):
        """The evaluator's table; and of the Trainer's log what it says."""
        rows = [r for r in self.history if "val_loss" in r]
        done = [r["step"] + 1 - self.first_step for r in rows]
        (self.folder / "eval").mkdir()
        self.write_lines(
            "eval/CrossEncoderRerankingEvaluator_dev_results_@10.csv",
            ["epoch,steps,MAP,MRR@10,NDCG@10", *(
                ",".join(map(str, [n / 100, n, r["val_map"], r["val_mrr"],
                                   r["val_ndcg"]]))
                for n, r in zip(done, rows))])
        if self.dialect != "hf_trainer":
            return
        path, out, at = self.folder / "train.log", [], 0
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("{'eval_loss'"):
                out += self.said(rows[at], done[at])
                at += 1
            out.append(line)
        self.write_lines("train.log", out)

    def said(self, row, done):
        """What CrossEncoderRerankingEvaluator logs."""
        count = 4 * QUESTIONS
        texts = [f"CrossEncoderRerankingEvaluator: Evaluating the model on the "
                 f"dev dataset in epoch {done / 100} after {done} steps:",
                 f"Queries: {count}\tPositives: Min 1.0, Mean 1.0, Max 1.0\t"
                 f"Negatives: Min {NEGATIVES:.1f}, Mean {NEGATIVES:.1f}, Max "
                 f"{NEGATIVES:.1f}",
                 f"MAP:     {100 * row['val_map']:.2f}",
                 f"MRR@10:  {100 * row['val_mrr']:.2f}",
                 f"NDCG@10: {100 * row['val_ndcg']:.2f}"]
        return [f"{self.at(row['wall'], '%Y-%m-%d %H:%M:%S')} - {text}"
                for text in texts]
