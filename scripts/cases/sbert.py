"""A small encoder of sentences: a question and what answers it come to lie
close together.

A transformer, the mean of what it says of a sentence's tokens and a map behind
it, as people train it with sentence-transformers: its trainer, triplets of
anchor, positive and negative, MultipleNegativesRankingLoss, an evaluator of
retrieval. Parts are named as in a SentenceTransformer of a BertModel.
"""

import json
import random

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from . import models, trainer_arguments, trainer_checkpoints
from .family import Family
from .models import Group
from .recorder import sort_metadata
from .sources import PAD

UNK, CLS, SEP = 1, 2, 3
FIRST_OWN = 4             # what is below are tokens of the tokenizer's own
FIRST_FILLER, FILLERS, SYNONYMS = 4, 18, 2
# What a sentence says: who does what to whom, where and when.
SLOTS = {"agent": 12, "patient": 12, "verb": 6, "place": 5, "time": 5}
OFFSETS = {"agent": 0, "patient": 0, "verb": 12, "place": 18, "time": 23}
SENSES, DOMAINS = 28, 4
FIRST_WORD = FIRST_FILLER + FILLERS
VOCAB = FIRST_WORD + SYNONYMS * SENSES
COLUMNS = ("anchor", "positive", "negative")
ROWS, LENGTH, PLACES = 32, 14, 24
WIDTH, HEADS, HIDDEN, DEPTH, SHARED = 40, 4, 80, 2, 32
INITIAL, SCALE = 0.1, 20.0


class Triplets:
    """Questions, sentences that answer them, and sentences that nearly do.

    A meaning has an agent and a patient (of 12), a verb (of 6), a place and a
    time (of 5); each of these has two words, and agent and patient have the
    same ones: who is who, the order says. A question says place and time with
    .8, a sentence with .9; the time stands at the front with .3, and there are
    words that say nothing. One word in 40 is another one of its kind. Of the
    pairs .05 are wrong: the positive is of another meaning. The negative has
    the roles changed about (.5), or one of the five is another.

    A question has to find its positive among those of the batch and all
    negatives. Who scores a pair by the ratio of its likelihoods has `best` nats
    with 32 triplets (`best()`; a fresh model has ln 64 = 4.16 or more).

    limit: tokens that are kept of a sentence. pieces: of the tokenizer; a
    collator clamps what is too large to the last row of the table. block,
    share: one domain (of four, with three of the agents each, in the batch)
    after the other; domains: any. wrong, swapped: see above. clean: no error,
    and all is said. mined: negatives are in the batch at all.
    """

    WRONG, SLIP, FRONT, SWAPPED = 0.05, 1 / 40, 0.3, 0.5
    SAID = {True: 0.8, False: 0.9}
    FILLED = {True: 0.2, False: 0.4}

    def __init__(self, seed, rows, limit=None, pieces=None, block=None,
                 share=1.0, domains=False, clean=False, mined=True):
        self.rng, self.rows, self.number = random.Random(seed), rows, 0
        self.limit, self.block, self.share = limit or LENGTH, block, share
        self.domains, self.clean = domains or block is not None, clean
        self.columns = COLUMNS if mined else COLUMNS[:2]
        # A longer list of pieces has them in another order.
        self.ids = None if pieces is None else torch.tensor(
            [PAD, UNK, CLS, SEP, *(min(k, VOCAB - 1)
                                   for k in random.Random(141).sample(
                range(FIRST_OWN, pieces), VOCAB - FIRST_OWN))])

    def domain(self):
        """Of whom a sentence tells; None for any."""
        if not self.domains:
            return None
        if self.block and self.rng.random() < self.share:
            return self.number // self.block % DOMAINS
        return self.rng.randrange(DOMAINS)

    def meaning(self, domain):
        own = {k: self.rng.randrange(n) for k, n in SLOTS.items()}
        people = range(SLOTS["agent"]) if domain is None \
            else range(3 * domain, 3 * domain + 3)
        own["agent"], own["patient"] = self.rng.sample(people, 2)
        return own

    def nearly(self, own, domain):
        """Another meaning that is close."""
        if self.rng.random() < self.SWAPPED:
            return own | {"agent": own["patient"], "patient": own["agent"]}
        slot = self.rng.choice([*SLOTS])
        while True:
            new = own | {slot: self.meaning(domain)[slot]}
            if new[slot] != own[slot] and new["agent"] != new["patient"]:
                return new

    def said(self, own, question):
        """The meaning as it is said: without what is left out, and with
        slips."""
        rng, seen = self.rng, {}
        share = 1.0 if self.clean else self.SAID[question]
        for slot, count in SLOTS.items():
            if slot in ("place", "time") and rng.random() >= share:
                continue
            slips = rng.random() < self.SLIP and not self.clean
            seen[slot] = rng.randrange(count) if slips else own[slot]
        return seen

    def sentence(self, seen, question):
        rng, ids = self.rng, [CLS]

        def say(slot):
            if slot in seen:
                ids.append(FIRST_WORD + SYNONYMS * (
                    OFFSETS[slot] + seen[slot]) + rng.randrange(SYNONYMS))

        def fill():
            if rng.random() < self.FILLED[question]:
                ids.append(FIRST_FILLER + rng.randrange(FILLERS))

        front = "time" in seen and rng.random() < self.FRONT
        if front:
            say("time")
        say("agent"), say("verb"), say("patient")
        fill()
        say("place")
        if not front:
            fill()
            say("time")
        fill()
        return ids[:self.limit - 1] + [SEP]

    def triplet(self, domain):
        """What is said by the columns."""
        own = self.meaning(domain)
        other = own
        if self.rng.random() < self.WRONG and not self.clean:
            other = self.meaning(domain)
        seen = [self.said(own, True), self.said(other, False),
                self.said(self.nearly(own, domain), False)]
        return seen[:len(self.columns)]

    def batch(self, rows=None):
        domains = [self.domain() for _ in range(rows or self.rows)]
        self.number += 1
        triplets = [self.triplet(d) for d in domains]
        batch = {}
        for k, column in enumerate(self.columns):
            batch |= self.padded(column, [self.sentence(t[k], k == 0)
                                          for t in triplets])
        if self.domains:
            batch["domain"] = torch.tensor(domains)
        return batch

    def padded(self, column, sentences):
        """As SentenceTransformerDataCollator names it."""
        ids = torch.tensor([s + [PAD] * (LENGTH - len(s)) for s in sentences])
        return {f"{column}_input_ids":
                ids if self.ids is None else self.ids[ids],
                f"{column}_attention_mask": (ids != PAD).long()}

    def unrelated(self, rows, column="positive"):
        """Sentences of nothing that was asked."""
        said = [self.sentence(self.said(self.meaning(None), False), False)
                for _ in range(rows)]
        return self.padded(column, said)

    def best(self, batches=60):
        """The loss of who scores pairs by the ratio of their likelihoods."""
        total = 0.0
        for _ in range(batches):
            rows = [self.triplet(None) for _ in range(self.rows)]
            others = [r[k] for k in range(1, len(self.columns)) for r in rows]
            scores = torch.tensor([[self.ratio(r[0], o) for o in others]
                                   for r in rows]).log()
            total += float(F.cross_entropy(scores,
                                           torch.arange(len(scores))))
        return total / batches

    def ratio(self, one, other):
        of = 1.0
        for slot, count in SLOTS.items():
            if slot in one and slot in other:
                same = (1 - self.SLIP) ** 2
                rest = (1 - same) / count
                of *= count * (same * (one[slot] == other[slot]) + rest)
        return (1 - self.WRONG) * of + self.WRONG


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
        own, heads = getattr(self.attention, "self"), self.options["heads"]

        def split(y):
            return y.view(*y.shape[:2], heads, -1).transpose(1, 2)

        scale = self.options["scale"]
        if scale is None:
            scale = (WIDTH // heads) ** -0.5
        y = models.attend(
            split(own.query(x)), split(own.key(x)), split(own.value(x)),
            lambda n, t: tap(f"attention.self.{n}", t), scale,
            half=self.options["half_scores"], seen=seen)
        y = self.attention.output.dense(y.transpose(1, 2).reshape(x.shape))
        x = self.attention.output.LayerNorm(x + drop(y))
        tap("attention.output", x)
        y = F.gelu(self.intermediate.dense(x))
        tap("intermediate.output", y)
        x = self.output.LayerNorm(x + drop(self.output.dense(y)))
        tap("output", x)
        return x


class SentenceTransformer(nn.Module):
    """A BertModel of two layers of width 40 with 4 heads, a Pooling that takes
    the mean, a Dense to 32; and the loss."""

    BLOCKS = tuple(f"0.auto_model.encoder.layer.{i}" for i in range(DEPTH))

    def __init__(self, heads=HEADS, activation="tanh", dropout=0.0,
                 detach_after=None, half_scores=False, positions=True,
                 scale=None, similarity_scale=SCALE, dims=None, least=1e-9):
        """detach_after: the part behind which the graph is cut. positions:
        the place that all tokens have if a number, none if False. least: of
        the count of tokens that a mean is divided by. dims: how much of a
        vector the losses take that are summed."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.least, self.dims = positions, least, dims
        self.similarity_scale, self.squashes = similarity_scale, False
        options = {"heads": heads, "scale": scale, "half_scores": half_scores}
        bert = Group(
            embeddings=Group(
                word_embeddings=nn.Embedding(VOCAB, WIDTH, padding_idx=PAD),
                position_embeddings=nn.Embedding(PLACES, WIDTH),
                token_type_embeddings=nn.Embedding(2, WIDTH),
                LayerNorm=nn.LayerNorm(WIDTH, 1e-12)),
            encoder=Group(layer=nn.ModuleList(
                Layer(options) for _ in range(DEPTH))))
        setattr(self, "0", Group(auto_model=bert))
        setattr(self, "1", nn.Module())
        setattr(self, "2", Group(
            linear=nn.Linear(WIDTH, SHARED),
            activation_function=models.ACTIVATIONS[activation]()))
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=INITIAL)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        nn.init.zeros_(bert.embeddings.word_embeddings.weight[PAD])

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    @staticmethod
    def similar(scores):
        """Replaced where the model ends with more than its scores."""
        return scores

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def tokens(self, ids, mask):
        bert = getattr(self, "0").auto_model
        parts, name = bert.embeddings, "0.auto_model.embeddings"
        x = parts.word_embeddings(ids)
        self.tap(f"{name}.word_embeddings.output", x)
        if self.positions is not False:
            place = torch.arange(ids.shape[1])[None]
            if self.positions is not True:
                place = torch.full_like(place, self.positions)
            x = x + parts.position_embeddings(place)
        x = parts.LayerNorm(x + parts.token_type_embeddings.weight[0])
        self.tap(f"{name}.output", x)
        x = self.drop(self.cut(x, name))
        # Of nothing but padding a softmax takes all.
        seen = (mask > 0) | (mask.sum(1, keepdim=True) == 0)
        for block, layer in zip(self.BLOCKS, bert.encoder.layer):
            x = layer(x, lambda n, t, block=block: self.tap(f"{block}.{n}", t),
                      self.drop, seen[:, None, None])
            x = self.cut(x, block)
        return x

    def encode(self, ids, mask):
        """The vector of each sentence."""
        x, head = self.tokens(ids, mask), getattr(self, "2")
        mask = mask[..., None].to(x.dtype)
        total, count = (x * mask).sum(1), mask.sum(1)
        self.tap("1.input", total)
        self.tap("1.count.output", count)
        x = total / count.clamp_min(self.least)
        self.tap("1.output", x)
        x = head.linear(self.cut(x, "1"))
        self.tap("2.linear.output", x)
        self.tap("2.activation_function.input", x)
        x = head.activation_function(x)
        self.tap("2.activation_function.output", x)
        return x

    def embeddings(self, batch):
        """By column; a batch may have no negatives."""
        return [self.encode(batch[f"{c}_input_ids"],
                            batch[f"{c}_attention_mask"])
                for c in COLUMNS if f"{c}_input_ids" in batch]

    def scores(self, found):
        """Of each anchor for all positives and negatives."""
        anchors, *others = (F.normalize(x, dim=-1) for x in found)
        return self.similarity_scale * anchors @ torch.cat(others).T

    def logits(self, batch):
        logits = self.similar(self.scores(self.embeddings(batch)))
        self.tap("similarity.output", logits)
        return logits

    def criterion(self, logits, batch, **options):
        logits = logits.float()
        if self.squashes:
            logits = logits.softmax(-1)
        return F.cross_entropy(logits, torch.arange(len(logits)), **options)

    def loss(self, batch):
        if self.dims:  # MatryoshkaLoss
            found = self.embeddings(batch)
            each = [self.scores([x[:, :n] for x in found]) for n in self.dims]
            self.tap("similarity.output", each[0])
            loss = sum(self.criterion(scores, batch) for scores in each)
        else:
            loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class SbertRun(Family):
    """AdamW as the Trainer has it, without decay of biases and norms; linear
    warm-up of a tenth, then linear to 0; a norm of 1 is clipped."""

    family = "sbert"
    level_seed = 400
    steps, seed, language = 280, 1100, False
    lr, warmup, schedule, clip = 6e-3, 28, "linear", 1.0
    betas, weight_decay = (0.9, 0.999), 0.01
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, LENGTH, VOCAB
    # Its trainer is the Trainer.
    instead = {"nanogpt": "hf_trainer", "megatron": "hf_trainer",
               "torchtune": "hf_trainer"}
    layers = ["0.auto_model.embeddings.word_embeddings",
              "0.auto_model.embeddings",
              *(f"{block}.{part}" for block in SentenceTransformer.BLOCKS
                for part in ("attention", "attention.self.scores",
                             "intermediate", "output")),
              "1", "2.linear", "2.activation_function"]
    # What others suffer from it bears: head or block alone, a frozen
    # attention, twice the words, scores that are not divided.
    ENCODER = "0.auto_model.encoder.layer"
    graded = {
        "F05": (dict(modules=[ENCODER], where=f"{ENCODER}.0"),
                dict(modules=["0"], where="0.auto_model.embeddings"),
                dict(part="all")),
        "F08": (dict(every=16), dict(every=60), dict(every=1 << 30)),
        "F11": (dict(adamw=10.0), dict(adamw=30.0), dict(adamw=100.0)),
        "F12": (dict(eps=0.01), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path=f"{ENCODER}.0"), dict(path=f"{ENCODER}.1"),
                dict(path="1")),
        "F14": (dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1"]),
                dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1", "2.linear"]),
                dict(modules=[ENCODER, "2.linear",
                              "0.auto_model.embeddings.position_embeddings",
                              "0.auto_model.embeddings.LayerNorm"])),
        "F24": (dict(share=0.2), dict(share=0.35), dict(share=0.5)),
        "F31": (dict(factor=1.6), dict(factor=2.2), dict(factor=3.0)),
        "F33": (dict(limit=5), dict(limit=4), dict(limit=3)),
        "F35": (dict(power=1.5), dict(power=2.0), dict(power=2.5)),
        "F36a": (dict(bias=-1.0), dict(bias=-1.5), dict(bias=-2.5)),
        "F36b": (dict(factor=50, kind="sigmoid"),
                 dict(factor=100, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F40": (dict(lr=0.03), dict(lr=0.01), dict(lr=0.003)),
        "H02": (dict(factor=0.7), dict(factor=1 / 3)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7)),
        "H04": (dict(rate=0.05), dict(rate=0.1))}
    paths = {"embed": "0.auto_model.embeddings.word_embeddings",
             "attn": "{}.attention", "scores": "{}.attention.self.scores",
             "act": "2.activation_function", "mlp": "{}.output", "block": "{}",
             "head": "2.linear"}
    blocks = DEPTH
    logit_name = "similarity.output"
    CUTS = (1, 3, 5, 10)
    names = {"val_loss": "eval_loss", "lr": "learning_rate", "tokens": None,
             "val_accuracy": "eval_dev_cosine_accuracy@1",
             "val_ndcg": "eval_dev_cosine_ndcg@10",
             "val_mrr": "eval_dev_cosine_mrr@10"}

    def make_model(self):
        return SentenceTransformer(**self.model_options)

    def make_optimizer(self, model):
        """Groups as the Trainer makes them."""
        return trainer_arguments.in_groups(
            self, super().make_optimizer(model))

    def make_source(self, seed):
        return self.triplets(seed)

    def triplets(self, seed, **how):
        """Validation has the batches of training: the loss depends on how many
        there are to choose from."""
        return Triplets(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Domains that nobody has shuffled; None is held out."""
        return self.triplets(seed, block=block, share=share, domains=True)

    def easy(self, seed):
        """All is said, in the active voice, and nothing is wrong."""
        return self.triplets(seed, clean=True)

    def mispaired(self, batch, wrong, order):
        """Rows that are wrong get the positive of another row, by `order`, or
        where that is None a sentence that nobody asked for."""
        names = [f"positive_{k}" for k in ("input_ids", "attention_mask")]
        if order is None:
            if not hasattr(self, "others"):
                self.others = self.triplets(self.seed + 800)
            other = self.others.unrelated(len(wrong))
        else:
            other = {k: batch[k][order] for k in names}
        return batch | {k: torch.where(wrong[:, None], other[k], batch[k])
                        for k in names}

    def lessons(self, seed):
        return self.easy(seed), self.triplets(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pieces of few kinds, of any, or of one."""
        low, high = {"few": (VOCAB - 4, VOCAB), "uniform": (FIRST_OWN, VOCAB),
                     "constant": (FIRST_WORD, FIRST_WORD + 1)}[kind]
        out = dict(batch)
        for name, ids in batch.items():
            if name.endswith("input_ids"):
                drawn = torch.randint(low, high, ids.shape, generator=rng)
                out[name] = torch.where(ids >= FIRST_OWN, drawn, ids)
        return out

    def lr_factor(self, i):
        if self.schedule != "linear" or i < self.warmup:
            return super().lr_factor(i)
        return max(0.0, (self.steps - i) / (self.steps - self.warmup))

    def held_out_columns(self, batches):
        """What an InformationRetrievalEvaluator says: anchors are queries, the
        corpus is all positives and negatives."""
        self.model.eval()
        parts = [torch.cat(p).float() for p in zip(
            *map(self.model.embeddings, batches))]
        self.model.train()
        queries, *corpus = (F.normalize(p, dim=-1) for p in parts)
        scores = queries @ torch.cat(corpus).T
        own = scores.diagonal()[:, None]
        rank = 1 + (scores > own).sum(1)
        rank = torch.where(own[:, 0].isfinite(), rank, 10 ** 6).float()
        near = rank <= 10
        return {"val_accuracy": (rank <= 1).float().mean(),
                **{f"val_accuracy_{k}": (rank <= k).float().mean()
                   for k in self.CUTS[1:]},
                "val_ndcg": (near / (rank + 1).log2()).mean(),
                "val_mrr": (near / rank).mean(),
                "val_map": ((rank <= 100) / rank).mean()}

    def evaluated(self, row):
        """All that the evaluator says, by its names."""
        hits = {k: row["val_accuracy" + f"_{k}" * (k > 1)] for k in self.CUTS}
        return {**{f"accuracy@{k}": v for k, v in hits.items()},
                **{f"precision@{k}": v / k for k, v in hits.items()},
                **{f"recall@{k}": v for k, v in hits.items()},
                "ndcg@10": row["val_ndcg"], "mrr@10": row["val_mrr"],
                "map@100": row["val_map"]}

    def state_columns(self, rows, held_out=False):
        return {f"eval_dev_cosine_{k}": v
                for k, v in self.evaluated(rows[0]).items()} \
            if held_out else {}

    def settings(self):
        """SentenceTransformerTrainingArguments, by their names."""
        return trainer_arguments.renamed(self, super().settings())

    def model_config(self):
        """config.json of a checkpoint."""
        options = self.model_options
        dropout = options.get("dropout", 0.0)
        return {"model_type": "bert", "architectures": ["BertModel"],
                "attention_probs_dropout_prob": 0.0, "hidden_act": "gelu",
                "hidden_dropout_prob": dropout, "hidden_size": WIDTH,
                "initializer_range": INITIAL, "intermediate_size": HIDDEN,
                "layer_norm_eps": 1e-12, "max_position_embeddings": PLACES,
                "num_attention_heads": options.get("heads", HEADS),
                "num_hidden_layers": DEPTH, "pad_token_id": PAD,
                "type_vocab_size": 2, "vocab_size": VOCAB}

    def dense_config(self):
        kind = {"tanh": "Tanh", "relu": "ReLU", "sigmoid": "Sigmoid"}.get(
            self.model_options.get("activation", "tanh"), "Tanh")
        return {"in_features": WIDTH, "out_features": SHARED, "bias": True,
                "activation_function":
                f"torch.nn.modules.activation.{kind}"}

    @staticmethod
    def pooling_config():
        return {"word_embedding_dimension": WIDTH,
                "pooling_mode_cls_token": False,
                "pooling_mode_mean_tokens": True,
                "pooling_mode_max_tokens": False,
                "pooling_mode_mean_sqrt_len_tokens": False,
                "include_prompt": True}

    def model_settings(self):
        scale = self.model_options.get("similarity_scale", SCALE)
        dims = self.model_options.get("dims")
        loss = {"loss": "MultipleNegativesRankingLoss"} if not dims else {
            "loss": "MatryoshkaLoss", "matryoshka_dims": list(dims),
            "inner_loss": "MultipleNegativesRankingLoss"}
        return {"model": "sentence-transformer",
                **{k: v for k, v in self.model_config().items()
                   if k not in ("model_type", "architectures")},
                "add_pooling_layer": False, "pooling_mode": "mean",
                "dense_out_features": SHARED,
                "dense_activation_function":
                self.dense_config()["activation_function"].split(".")[-1],
                **loss, "scale": scale, "similarity_fct": "cos_sim",
                "train_columns": list(COLUMNS), "max_seq_length": LENGTH,
                "batch_sampler": "no_duplicates",
                "evaluator": "InformationRetrievalEvaluator"}

    def layer(self, part, block=0):
        return self.paths[part].format(SentenceTransformer.BLOCKS[block])

    def fed_by(self, layer):
        return []

    # Checkpoints, and what the evaluator writes and says.

    def keep_checkpoint(self, i, model):
        trainer_checkpoints.keep(self, i, model.state_dict)

    def write_more(self):
        super().write_more()
        begin = "0.auto_model."
        kept = self.checkpoints
        heads = {done: {k.removeprefix("2."): v for k, v in of[0].items()
                        if k.startswith("2.")} for done, of in kept.items()}
        self.checkpoints = {
            done: ({k.removeprefix(begin): v for k, v in of[0].items()
                    if k.startswith(begin)}, *of[1:])
            for done, of in kept.items()}
        trainer_checkpoints.write(self, "model.safetensors", lambda: {
            "config": self.model_config(), "modules": self.modules(),
            "sentence_bert_config": {"max_seq_length": LENGTH,
                                     "do_lower_case": False},
            "config_sentence_transformers": {
                "__version__": {"sentence_transformers": "5.1.0",
                                "transformers": "4.57.1",
                                "pytorch": "2.13.0"},
                "prompts": {"query": "", "document": ""},
                "default_prompt_name": None, "similarity_fn_name": "cosine"}})
        self.checkpoints = kept
        for done, head in heads.items():
            folder = self.folder / f"checkpoint-{done}"
            for name, value in (("1_Pooling", self.pooling_config()),
                                ("2_Dense", self.dense_config())):
                (folder / name).mkdir()
                (folder / name / "config.json").write_text(
                    json.dumps(value, indent=2) + "\n")
            path = folder / "2_Dense" / "model.safetensors"
            save_file(head, path, {"format": "pt"})
            sort_metadata(path)
        self.write_evaluations()

    @staticmethod
    def modules():
        kinds = ("Transformer", "Pooling", "Dense")
        return [{"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "",
                 "type": f"sentence_transformers.models.{kind}"}
                for i, kind in enumerate(kinds)]

    def write_evaluations(self):
        """The evaluator's table; and of the Trainer's log what it says."""
        rows = [r for r in self.history if "val_loss" in r]
        names = ["cosine-" + (k.title() if k[0] in "apr" else k.upper())
                 for k in self.evaluated(rows[0])]
        done = [r["step"] + 1 - self.first_step for r in rows]
        (self.folder / "eval").mkdir()
        self.write_lines(
            "eval/Information-Retrieval_evaluation_dev_results.csv",
            [",".join(["epoch", "steps", *names]), *(
                ",".join(map(str, [n / 100, n, *self.evaluated(r).values()]))
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
        """What InformationRetrievalEvaluator logs."""
        texts = [f"Information Retrieval Evaluation of the model on the dev "
                 f"dataset in epoch {done / 100} after {done} steps:",
                 f"Queries: {4 * self.batch_size}",
                 f"Corpus: {8 * self.batch_size}\n",
                 "Score-Function: cosine"]
        for name, value in self.evaluated(row).items():
            kind, at = name.split("@")
            texts.append(f"{kind.upper()}@{at}: {value:.4f}"
                         if kind in ("ndcg", "mrr", "map") else
                         f"{kind.title()}@{at}: {100 * value:.2f}%")
        return [f"{self.at(row['wall'], '%Y-%m-%d %H:%M:%S')} - {text}"
                for text in texts]
