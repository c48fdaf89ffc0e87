"""A small reader: where in a passage the answer to a question stands, or that
it has none.

An encoder of two layers with a map to two scores a token, as people fine-tune
it with transformers' run_qa.py on SQuAD v2: the Trainer, cross-entropy over
places for the first and the last token of the answer, CLS for both where there
is none, exact match and F1. Parts are named as in BertForQuestionAnswering.
"""

import collections
import math
import random

import torch
from torch import nn
from torch.nn import functional as F

from . import models, trainer_arguments, trainer_checkpoints
from .bert import Layer as BertLayer
from .family import Family
from .models import Group
from .snapshot import checksum
from .sources import IGNORE, PAD

UNK, CLS, SEP, WHICH = range(1, 5)
# Of each group of nouns, and what they are called, in one word or two.
NOUNS = ("king", "queen", "bishop", "port", "castle", "abbey", "river",
         "lake", "bridge")
VERBS = ("built", "sold", "lost", "named", "won", "moved")
NAMES = ("anna", "bruno", "clara", "david", "essen", "fiume", "genoa", "izmir",
         "aller", "bode", "drava", "elbe")
MORE_NAMES = ("adler", "brandt", "conrad", "east", "west", "north", "upper",
              "middle", "lower")
FILLERS = ("later", "then", "again", "also", "twice", "once")
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "which", *NOUNS, *VERBS,
         *NAMES, *MORE_NAMES, *FILLERS)
GROUPS = 3
FIRST_NOUN = WHICH + 1
FIRST_VERB = FIRST_NOUN + len(NOUNS)
FIRST_NAME = FIRST_VERB + len(VERBS)
FIRST_MORE = FIRST_NAME + len(NAMES)
FIRST_FILLER = FIRST_MORE + len(MORE_NAMES)
VOCAB = FIRST_FILLER + len(FILLERS)
TOPICS = 3
FACTS = 3
LENGTH, PLACES = 20, 48
LONGEST, BEST = 4, 20           # max_answer_length, n_best_size
ROWS, WIDTH, HEADS, HIDDEN, DEPTH = 48, 36, 2, 72, 2
INITIAL = 0.15                  # deviation of weights at the start
NAMED = ("start_positions", "end_positions")


class Passages:
    """Questions with a passage of three facts each.

    A fact is a verb of six and what it was done to, a noun of nine and its
    name, of one word or two (.5), as in "built castle essen" and "sold king
    anna adler". The names of a group of three nouns are four words, with three
    more that go on with them. Another word may stand before the passage, and
    behind a name of one word (.5 each). A question has a noun and a verb. Of
    the questions .3 have no answer, as their noun is in no fact. In .2 of the
    passages a second fact has the noun as well, and the verb alone says which.

    Row: CLS question SEP passage SEP PAD. The answer is the noun with its name;
    labels are the places of its first and its last word, 0 for both where there
    is none. The last word of a name of two is left out in .15; .05 of what has
    an answer is labelled with another fact, .04 with none, and .04 of what has
    none with a fact.

    Who knows the process has .41 nats (`best()`), who does not read the
    question about 1.4; a fresh model has ln 20 = 3.00 or a little more.

    limit: tokens that are kept of a row, of its passage; an answer that is cut
    off is none. width: tokens that it is padded to. pieces: ids of the
    tokenizer, which a collator clamps to the table's. domains: a passage is of
    one of three topics, which has nouns of its own and its own share of
    questions without an answer, and which is in the batch; block, share: one
    topic after the other. easy: two facts, each of another noun and with a name
    of one word. without: the share of questions that have no answer.
    """

    WITHOUT, TWICE, FILL, LONG = 0.3, 0.2, 0.5, 0.5
    WRONG, MISSED, INVENTED, SHORT = 0.05, 0.04, 0.04, 0.15
    OF_TOPICS = (0.05, 0.3, 0.55)

    def __init__(self, seed, rows, limit=None, width=LENGTH, pieces=None,
                 domains=False, block=None, share=1.0, easy=False,
                 without=WITHOUT):
        self.rng, self.rows, self.number = random.Random(seed), rows, 0
        self.limit, self.width = min(limit or width, width), width
        self.domains = domains or block is not None
        self.block, self.share = block, share
        self.easy, self.without = easy, without
        # A longer list of ids has them in another order.
        self.ids = None if pieces is None else torch.tensor(
            [*range(FIRST_NOUN), *(min(k, VOCAB - 1) for k in random.Random(
                161).sample(range(FIRST_NOUN, pieces), VOCAB - FIRST_NOUN))])

    def topic(self):
        if self.block and self.rng.random() < self.share:
            return self.number // self.block % TOPICS
        return self.rng.randrange(TOPICS)

    def row(self, topic):
        """ids, where the passage begins, first, last, nats of these two."""
        rng, facts = self.rng, 2 if self.easy else FACTS
        nouns = range(len(NOUNS)) if topic is None \
            else range(topic, len(NOUNS), TOPICS)
        here = rng.sample(nouns, facts)
        verbs = [rng.randrange(len(VERBS)) for _ in here]
        right = rng.randrange(facts)
        noun, verb = here[right], verbs[right]
        if not self.easy and rng.random() < self.TWICE:
            other = (right + rng.randint(1, facts - 1)) % facts
            here[other] = noun
            verbs[other] = (verb + rng.randint(1, len(VERBS) - 1)) % len(VERBS)
        if rng.random() < (self.without if topic is None
                           else self.OF_TOPICS[topic]):
            right = None
            noun = rng.choice([n for n in range(len(NOUNS)) if n not in here])
        ids = [CLS, WHICH, FIRST_NOUN + noun, FIRST_VERB + verb, SEP]
        begins, spans = len(ids), []

        def fill():
            if rng.random() < self.FILL:
                ids.append(FIRST_FILLER + rng.randrange(len(FILLERS)))

        fill()
        for v, n in zip(verbs, here):
            count = 2 + (not self.easy and rng.random() < self.LONG)
            ids.append(FIRST_VERB + v)
            spans.append((len(ids), count))
            ids += [FIRST_NOUN + n, FIRST_NAME + self.of_group(n, NAMES),
                    FIRST_MORE + self.of_group(n, MORE_NAMES)][:count]
            if count == 2:
                fill()
        first, last, nats = self.labelled(spans, right)
        room = self.limit - 1
        if last >= room:
            first = last = 0
        return ids[:room] + [SEP], begins, first, last, nats

    def of_group(self, noun, words):
        """One of the words that go with a noun."""
        size = len(words) // GROUPS
        group = noun // (len(NOUNS) // GROUPS)
        return group * size + self.rng.randrange(size)

    def labelled(self, spans, right):
        """What an annotator marks: first, last, nats of each."""
        rng, facts = self.rng, len(spans)
        chances = dict.fromkeys((None, *range(facts)))
        if right is None:
            chances = {k: self.INVENTED / facts for k in chances}
            chances[None] = 1 - self.INVENTED
        else:
            chances = {k: self.WRONG / (facts - 1) for k in chances}
            chances[None] = self.MISSED
            chances[right] = 1 - self.MISSED - self.WRONG
        said, = rng.choices(list(chances), list(chances.values()))
        begins = ends = -math.log(chances[said])
        if said is None:
            return 0, 0, (begins, ends)
        first, count = spans[said]
        last = first + count - 1
        if count > 2:
            cut = rng.random() < self.SHORT
            last -= cut
            ends -= math.log(self.SHORT if cut else 1 - self.SHORT)
        return first, last, (begins, ends)

    def batch(self, rows=None):
        topics = [self.topic() if self.domains else None
                  for _ in range(rows or self.rows)]
        drawn = [self.row(topic) for topic in topics]
        self.number += 1
        self.nats = [sum(of[-1]) / 2 for of in drawn]
        ids = torch.tensor([of[0] + [PAD] * (self.width - len(of[0]))
                            for of in drawn])
        seen = (ids != PAD).long()
        begins = torch.tensor([of[1] for of in drawn])[:, None]
        batch = {"input_ids": ids if self.ids is None else self.ids[ids],
                 "token_type_ids":
                     seen * (torch.arange(self.width) >= begins),
                 "attention_mask": seen,
                 "start_positions": torch.tensor([of[2] for of in drawn]),
                 "end_positions": torch.tensor([of[3] for of in drawn])}
        return batch | ({"domain": torch.tensor(topics)}
                        if self.domains else {})

    def best(self, batches=200):
        """The loss of who knows the process."""
        nats = []
        for _ in range(batches):
            self.batch()
            nats += self.nats
        return sum(nats) / len(nats)


class Layer(BertLayer):
    """BERT's, of this width."""

    def __init__(self, options):
        nn.Module.__init__(self)
        scale = options["scale"]
        if scale is None:
            scale = (WIDTH // options["heads"]) ** -0.5
        self.options = options | {"scale": scale}
        self.attention = Group(
            self=Group(**{name: nn.Linear(WIDTH, WIDTH)
                          for name in ("query", "key", "value")}),
            output=Group(dense=nn.Linear(WIDTH, WIDTH),
                         LayerNorm=nn.LayerNorm(WIDTH, 1e-12)))
        self.intermediate = Group(
            dense=nn.Linear(WIDTH, HIDDEN),
            intermediate_act_fn=models.ACTIVATIONS[options["activation"]]())
        self.output = Group(dense=nn.Linear(HIDDEN, WIDTH),
                            LayerNorm=nn.LayerNorm(WIDTH, 1e-12))


class Reader(models.Language):
    """Two layers of width 36 with 2 heads, and two scores a token."""

    BLOCKS = tuple(f"bert.encoder.layer.{i}" for i in range(DEPTH))
    squashes = guards = False

    def __init__(self, heads=HEADS, activation="gelu", dropout=0.0,
                 detach_after=None, half_scores=False, positions=True,
                 scale=None):
        """detach_after: the part behind which the graph is cut, the embeddings,
        a layer, or what is behind its attention. positions: the place that all
        tokens have if a number, none if False."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions = positions
        options = {"heads": heads, "activation": activation, "scale": scale,
                   "half_scores": half_scores}
        self.bert = Group(
            embeddings=Group(
                word_embeddings=nn.Embedding(VOCAB, WIDTH, padding_idx=PAD),
                position_embeddings=nn.Embedding(PLACES, WIDTH),
                token_type_embeddings=nn.Embedding(2, WIDTH),
                LayerNorm=nn.LayerNorm(WIDTH, 1e-12)),
            encoder=Group(layer=nn.ModuleList(Layer(options)
                                              for _ in range(DEPTH))))
        self.qa_outputs = nn.Linear(WIDTH, 2)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=INITIAL)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.zeros_(m.bias)
        nn.init.zeros_(self.bert.embeddings.word_embeddings.weight[PAD])
        if str(detach_after).endswith(".attention.output"):
            self.get_submodule(f"{detach_after}.LayerNorm") \
                .register_forward_hook(lambda module, args, x: x.detach())

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def forward(self, ids, kinds, seen):
        """kinds: 1 for the passage; seen: 1 for tokens, 0 for padding."""
        parts = self.bert.embeddings
        x = parts.word_embeddings(ids)
        self.tap("bert.embeddings.word_embeddings.output", x)
        x = x + parts.token_type_embeddings(kinds)
        if self.positions is not False:
            place = torch.arange(ids.shape[1])[None]
            if self.positions is not True:
                place = torch.full_like(place, self.positions)
            x = x + parts.position_embeddings(place)
        x = parts.LayerNorm(x)
        self.tap("bert.embeddings.output", x)
        x = self.drop(self.cut(x, "bert.embeddings"))
        seen = (seen > 0)[:, None, None]
        for name, layer in zip(self.BLOCKS, self.bert.encoder.layer):
            x = layer(x, lambda n, t, name=name: self.tap(f"{name}.{n}", t),
                      self.drop, seen)
            x = self.cut(x, name)
        x = self.qa_outputs(x)
        self.tap("qa_outputs.output", x)
        return x

    def logits(self, batch):
        """(rows, places, 2)"""
        return self(batch["input_ids"], batch["token_type_ids"],
                    batch["attention_mask"])

    @staticmethod
    def labels(batch):
        """(rows, 2); what lies behind the row is ignored."""
        places = torch.stack([batch[name] for name in NAMED], 1)
        return torch.where(places < batch["input_ids"].shape[1], places,
                           IGNORE)

    def criterion(self, logits, batch, **options):
        """Of the first place and of the last, the mean of both."""
        scores, labels = logits.float(), self.labels(batch)
        if self.squashes:
            scores = scores.softmax(1)
        if self.guards:
            options["reduction"] = "sum"
        each = [F.cross_entropy(scores[..., k], labels[:, k],
                                ignore_index=IGNORE, **options)
                for k in range(2)]
        if self.guards:
            each = [loss / (labels[:, k] != IGNORE).sum().clamp_min(1)
                    for k, loss in enumerate(each)]
        return (each[0] + each[1]) / 2

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


def answers(logits, batch):
    """What postprocess_qa_predictions makes of the scores: the first and the
    last place of each answer, 0 where it has none, and how much more the score
    of none is."""
    begins, ends = logits[..., 0].float(), logits[..., 1].float()
    within = (batch["token_type_ids"] > 0) & (batch["input_ids"] != SEP)
    place = torch.arange(begins.shape[1])
    long = place[None] - place[:, None]
    fits = (long >= 0) & (long < LONGEST) & within[:, :, None] \
        & within[:, None]
    pairs = begins[:, :, None] + ends[:, None]
    score, at = pairs.masked_fill(~fits, -math.inf).flatten(1).max(1)
    none = begins[:, 0] + ends[:, 0]
    found = torch.stack((at // len(place), at % len(place)), 1)
    return torch.where((none > score)[:, None], 0, found), none - score


def text(ids, span):
    """The words of a span, none for CLS."""
    first, last = span
    return [] if not first else [k for k in ids[first:last + 1]]


def squad(batches, spans):
    """Exact match and F1, of all and of those that have an answer, in per
    cent."""
    scores = []
    for batch, found in zip(batches, spans):
        wanted = Reader.labels(batch).tolist()
        for ids, right, said in zip(batch["input_ids"].tolist(), wanted,
                                    found.tolist()):
            gold, guess = text(ids, right), text(ids, said)
            same = sum((collections.Counter(gold)
                        & collections.Counter(guess)).values())
            f1 = float(gold == guess) if not gold or not guess \
                else 2 * same / (len(gold) + len(guess))
            scores.append((bool(gold), gold == guess, f1))

    def mean(column, rows):
        return 100 * sum(r[column] for r in rows) / max(1, len(rows))

    has = [r for r in scores if r[0]]
    none = [r for r in scores if not r[0]]
    return {"val_exact": mean(1, scores), "val_f1": mean(2, scores),
            "val_has_ans_exact": mean(1, has), "val_has_ans_f1": mean(2, has),
            "val_no_ans_exact": mean(1, none)}


class QaRun(Family):
    """AdamW as the Trainer has it, without decay of biases and norms; linear
    warm-up of a tenth, then linear to 0; a norm of 1 is clipped."""

    family = "qa"
    level_seed = 400
    steps, seed = 300, 1260
    lr, warmup, schedule, clip = 6e-3, 30, "linear", 1.0
    betas, weight_decay = (0.9, 0.98), 0.01
    recipes = {"sgd": dict(lr=0.05, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, LENGTH, VOCAB
    # Its trainer is the Trainer.
    instead = {"nanogpt": "hf_trainer", "megatron": "hf_trainer",
               "torchtune": "hf_trainer"}
    layers = ["bert.embeddings.word_embeddings", "bert.embeddings", *(
        f"{block}.{part}" for block in Reader.BLOCKS
        for part in ("attention.self", "attention.self.scores",
                     "attention.output", "intermediate.intermediate_act_fn",
                     "output")), "qa_outputs"]
    paths = {"embed": "bert.embeddings.word_embeddings",
             "attn": "{}.attention.self", "scores": "{}.attention.self.scores",
             "act": "{}.intermediate.intermediate_act_fn",
             "mlp": "{}.output", "block": "{}", "head": "qa_outputs"}
    blocks = DEPTH
    ENCODER = "bert.encoder.layer"
    graded = {
        "F04": (dict(at=80), dict(at=40), dict(at=0)),
        "F05": (dict(modules=[ENCODER], where=f"{ENCODER}.0"),
                dict(modules=["bert"], where="bert.embeddings"),
                dict(part="all")),
        "F06": (dict(factor=3), dict(factor=4), dict(factor=6)),
        "F07": (dict(factor=10), dict(factor=20), dict(factor=100)),
        "F08": (dict(every=16), dict(every=60), dict(every=1 << 30)),
        "F11": (dict(adamw=5.0), dict(adamw=10.0), dict(adamw=50.0)),
        "F12": (dict(eps=0.03), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path=f"{ENCODER}.0"),
                dict(path=f"{ENCODER}.1.attention.output"),
                dict(path=f"{ENCODER}.1")),
        "F14": (dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1"]),
                dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1", "qa_outputs"]),
                dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1", "qa_outputs",
                              "bert.embeddings.word_embeddings"])),
        "F24": (dict(share=0.2), dict(share=0.35), dict(share=0.5)),
        "F26": (dict(steps=20, share=1.0), dict(steps=35, share=1.0),
                dict(steps=50, share=1.0)),
        "F27": (dict(epochs=12), dict(epochs=30), dict(epochs=100)),
        "F31": (dict(factor=1.4), dict(factor=1.6), dict(factor=2.2)),
        "F33": (dict(limit=16), dict(limit=14), dict(limit=11)),
        "F35": (dict(power=0.3), dict(power=0.5), dict(power=1.0)),
        "F36b": (dict(factor=80, kind="sigmoid"), dict(factor=100, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F39a": (dict(at=150, keep=0.15), dict(at=100, keep=0.1),
                 dict(at=50, keep=0.05)),
        "H02": (dict(factor=0.5), dict(factor=0.3)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7)),
        "H04": (dict(rate=0.05), dict(rate=0.1))}
    # As squad_v2's metric names them.
    SQUAD = {"val_exact": "eval_exact", "val_f1": "eval_f1",
             "val_has_ans_exact": "eval_HasAns_exact",
             "val_has_ans_f1": "eval_HasAns_f1",
             "val_no_ans_exact": "eval_NoAns_exact"}
    names = {"val_loss": "eval_loss", "lr": "learning_rate",
             "tokens": "num_input_tokens_seen", **SQUAD}

    def make_model(self):
        return Reader(**self.model_options)

    def make_optimizer(self, model):
        """Groups as the Trainer makes them."""
        return trainer_arguments.in_groups(
            self, super().make_optimizer(model))

    def make_source(self, seed):
        return self.passages(seed)

    def passages(self, seed, **how):
        return Passages(seed, self.batch_size if seed != 9 else 2 * ROWS,
                        **how)

    def in_blocks(self, seed, block, share):
        """Articles by topic that nobody has shuffled; None is held out."""
        return self.passages(seed, block=block, share=share, domains=True)

    def easy(self, seed):
        """Two facts, told apart by their nouns alone."""
        return self.passages(seed, easy=True)

    def lessons(self, seed):
        return self.easy(seed), self.passages(seed)

    def redrawn(self, batch, wrong, rng):
        """Some rows have a span of their passage for an answer that has
        nothing to do with the question, or none."""
        rows = len(wrong)
        begins = (batch["token_type_ids"] > 0).int().argmax(1)
        room = batch["attention_mask"].sum(1) - 1 - begins
        first = begins + (torch.rand(rows, generator=rng) * room).long()
        last = torch.minimum(
            first + torch.randint(3, (rows,), generator=rng),
            begins + room - 1)
        none = torch.rand(rows, generator=rng) < Passages.WITHOUT
        return batch | {name: torch.where(
            wrong, torch.where(none, 0, place), batch[name])
            for name, place in zip(NAMED, (first, last))}

    @staticmethod
    def answered_as(batch, order):
        """Rows have the answers of others."""
        return batch | {name: batch[name][order] for name in NAMED}

    @staticmethod
    def beyond(batch):
        """Answers lie behind the end of their rows."""
        return batch | {name: torch.full_like(
            batch[name], batch["input_ids"].shape[1]) for name in NAMED}

    def garbage(self, batch, kind, rng):
        """A corrupt shard: words and answers of few kinds, of any, or of
        one."""
        ids, seen = batch["input_ids"], batch["attention_mask"].sum(1)
        low, high = {"few": (VOCAB - 4, VOCAB), "uniform": (FIRST_NOUN, VOCAB),
                     "constant": (FIRST_NAME, FIRST_NAME + 1)}[kind]
        drawn = torch.randint(low, high, ids.shape, generator=rng)
        at = {"few": torch.randint(4, (len(ids),), generator=rng) + 1,
              "uniform": (torch.rand(len(ids), generator=rng)
                          * (seen - 1)).long(),
              "constant": seen - 1}[kind]
        return batch | {"input_ids": torch.where(ids >= FIRST_NOUN, drawn,
                                                 ids)} | dict.fromkeys(
            NAMED, at)

    def lr_factor(self, i):
        if self.schedule != "linear" or i < self.warmup:
            return super().lr_factor(i)
        return max(0.0, (self.steps - i) / (self.steps - self.warmup))

    def batch_columns(self, batch):
        ids = batch["input_ids"]
        return {"batch_hash": checksum(ids),
                "distinct_tokens": len(ids.unique()),
                "loss_tokens": int((Reader.labels(batch) != IGNORE).sum())}

    def held_out_columns(self, batches):
        """What compute_metrics gives."""
        self.model.eval()
        said = [answers(self.model.logits(b), b) for b in batches]
        self.model.train()
        self.predicted = list(zip(batches, *zip(*said)))
        return squad(batches, [spans for spans, _ in said])

    def state_columns(self, rows, held_out=False):
        """What the metric adds to a row of trainer_state.json."""
        if not held_out:
            return {}
        own = {new: rows[0][old] for old, new in self.SQUAD.items()}
        own["eval_NoAns_f1"] = own["eval_NoAns_exact"]
        has = sum(int((batch["start_positions"] > 0).sum())
                  for batch, *_ in self.predicted)
        total = sum(len(batch["input_ids"]) for batch, *_ in self.predicted)
        return dict(sorted((own | {
            "eval_HasAns_total": has, "eval_NoAns_total": total - has,
            "eval_total": total}).items()))

    def settings(self):
        """The arguments of run_qa.py, by their names."""
        return trainer_arguments.renamed(self, super().settings())

    def model_config(self):
        """config.json of a checkpoint."""
        options = self.model_options
        return {"model_type": "bert",
                "architectures": ["BertForQuestionAnswering"],
                "attention_probs_dropout_prob": 0.0,
                "hidden_act": options.get("activation", "gelu"),
                "hidden_dropout_prob": options.get("dropout", 0.0),
                "hidden_size": WIDTH, "initializer_range": INITIAL,
                "intermediate_size": HIDDEN, "layer_norm_eps": 1e-12,
                "max_position_embeddings": PLACES,
                "num_attention_heads": options.get("heads", HEADS),
                "num_hidden_layers": DEPTH, "pad_token_id": PAD,
                "position_embedding_type": "absolute", "type_vocab_size": 2,
                "vocab_size": VOCAB}

    def model_settings(self):
        return {"model": "bert", **{
                    k: v for k, v in self.model_config().items()
                    if k not in ("model_type", "architectures")},
                "dataset_name": "squad_v2", "version_2_with_negative": True,
                "max_seq_length": self.context,
                "pad_to_max_length": True, "n_best_size": BEST,
                "max_answer_length": LONGEST,
                "null_score_diff_threshold": 0.0}

    def layer(self, part, block=0):
        return self.paths[part].format(Reader.BLOCKS[block])

    def fed_by(self, layer):
        """The first half of a network counts to the second."""
        block, _, part = layer.rpartition(".")
        return [f"{block}.intermediate"] if block in Reader.BLOCKS \
            and part == "output" else []

    # Checkpoints, and the files that run_qa.py writes at the end.

    def keep_checkpoint(self, i, model):
        trainer_checkpoints.keep(self, i, model.state_dict)

    def write_more(self):
        super().write_more()
        trainer_checkpoints.write(self, "model.safetensors", lambda: {
            "config": self.model_config(), "tokenizer_config": {
                "tokenizer_class": "BertTokenizer",
                "model_max_length": PLACES, "do_lower_case": True,
                "pad_token": "[PAD]", "unk_token": "[UNK]",
                "cls_token": "[CLS]", "sep_token": "[SEP]"}})
        if self.dialect == "hf_trainer":
            self.write_predictions()
            self.write_results()

    def write_predictions(self):
        """What is said of each question, and by how much more that there is
        no answer."""
        said, odds = {}, {}
        for batch, spans, more in self.predicted:
            for ids, (first, last), odd in zip(batch["input_ids"].tolist(),
                                               spans.tolist(), more.tolist()):
                name = f"{checksum(torch.tensor(ids)):08x}{len(said):04x}"
                said[name] = " ".join(WORDS[k] for k in ids[first:last + 1]) \
                    if first else ""
                odds[name] = round(odd, 4)
        self.write_json("eval_predictions.json", said)
        self.write_json("eval_null_odds.json", odds)

    def write_results(self):
        """train_results.json, eval_results.json and all_results.json, and what
        log_metrics prints of them."""
        last, epoch = self.history[-1], self.steps / 100
        seconds, rows = last["wall"], self.batch_size * self.accumulate
        train = {"epoch": epoch,
                 "train_loss": sum(r["loss"] for r in self.history)
                 / self.steps, "train_runtime": round(seconds, 4),
                 "train_samples": self.steps * rows,
                 "train_samples_per_second":
                     round(self.steps * rows / seconds, 3),
                 "train_steps_per_second": round(self.steps / seconds, 3)}
        held_out = {"epoch": epoch, **self.state_columns([last], True),
                    "eval_loss": last["val_loss"], "eval_runtime": 0.0613,
                    "eval_samples": 8 * ROWS,
                    "eval_samples_per_second": 1044.0,
                    "eval_steps_per_second": 65.25}
        out = []
        for split, values in (("train", train), ("eval", held_out)):
            self.write_json(f"{split}_results.json", values)
            wide = max(map(len, values))
            shown = {k: f"0:{v // 60:02.0f}:{v % 60:05.2f}"
                     if k.endswith("_runtime") else round(v, 4)
                     for k, v in sorted(values.items())}
            out += [f"***** {split} metrics *****",
                    *(f"  {k:{wide}} = {v!s:>10}" for k, v in shown.items())]
        self.write_json("all_results.json", dict(sorted(
            (train | held_out).items())))
        with open(self.folder / "train.log", "a", encoding="utf-8") as log:
            log.writelines(line + "\n" for line in out)
