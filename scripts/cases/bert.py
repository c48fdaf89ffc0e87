"""A small masked language model: an encoder with the norm behind the sum.

Text is masked as for BERT; layers are named as in transformers'
BertForMaskedLM.
"""

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family
from .models import Group

PAD, CLS, SEP, MASK = range(4)
SPECIAL, WORDS, TOPICS, ROLES = 4, 36, 4, 3
SHORTEST, LONGEST, PLACES = 6, 14, 64
WIDTH, HEADS, HIDDEN, DEPTH = 48, 4, 96, 2
INITIAL = 0.1           # deviation of weights at the start


class Pairs(sources.Source):
    """Two sentences of 6 to 14 words a row, of one of four topics.

    A topic has a quarter of the words, those with id % 4 equal to it. Words of
    the first sentence have the roles 0, 1, 2, 0, ... and those of the second 2,
    1, 0, 2, ...; a sentence has one of three manners, which says for each topic
    and role which of its three words it is, in four of five cases, else it is
    any of the three. Row: CLS words SEP words SEP PAD, with token_type_ids 1
    for the second sentence. Of the words 15 % are to be said: of these 80 %
    become MASK, 10 % any word, and 10 % stay; all other labels are ignored.
    Masks are drawn with the text and stay with it.

    Knowing the process leaves 0.45 nats a label, topic and role alone ln 3 =
    1.10, the words' frequencies ln 36 = 3.58; a fresh model has 3.9.

    words: of the tokenizer, which a collator clamps to the table's. block,
    share: topics one after the other. keeps: how often a manner is kept to.
    width: tokens that a row is padded to.
    """

    CHOSEN, MASKED, OTHER = 0.15, 0.8, 0.1

    def __init__(self, seed, shape, words=WORDS, block=None, share=1.0,
                 keeps=0.8, longest=LONGEST, width=None):
        super().__init__(seed, shape)
        self.words, self.block, self.share = words, block, share
        self.keeps, self.longest = keeps, longest
        self.width = width or self.context
        language = torch.Generator().manual_seed(6)
        self.size = words // TOPICS // ROLES
        self.of = torch.stack([torch.randperm(self.size, generator=language)
                               for _ in range(ROLES * TOPICS)]).view(
                                   ROLES, TOPICS, self.size)

    def sentence(self, half, topic):
        """Ids of the words, (rows, longest), and how many count."""
        rows = len(topic)
        manner = torch.randint(self.size, (rows,), generator=self.rng)
        anew = torch.randint(self.size, (self.longest, rows),
                             generator=self.rng)
        kept = torch.rand(self.longest, rows, generator=self.rng) < self.keeps
        out = []
        for t in range(self.longest):
            role = (2 - t if half else t) % ROLES
            now = torch.where(kept[t], self.of[role, topic, manner], anew[t])
            out.append((now * ROLES + role) * TOPICS + topic)
        length = torch.randint(SHORTEST, self.longest + 1, (rows, 1),
                               generator=self.rng)
        return torch.stack(out, 1) + SPECIAL, length

    def draw(self, rows):
        topic = torch.randint(TOPICS, (rows,), generator=self.rng)
        if self.block:
            here = self.number // self.block % TOPICS
            kept = torch.rand(rows, generator=self.rng) < self.share
            topic = torch.where(kept, torch.tensor(here), topic)
        first, n = self.sentence(0, topic)
        second, m = self.sentence(1, topic)
        place = torch.arange(self.width)[None]
        ids = torch.full((rows, self.width), PAD)
        ids[:, 0] = CLS
        within = (place > 0) & (place <= n)
        ids = torch.where(within, first.gather(
            1, (place - 1).clamp(0, self.longest - 1).expand(rows, -1)), ids)
        behind = (place > n + 1) & (place <= n + 1 + m)
        ids = torch.where(behind, second.gather(
            1, (place - n - 2).clamp(0, self.longest - 1)), ids)
        ids = torch.where((place == n + 1) | (place == n + m + 2), SEP, ids)
        ids = ids.clamp(max=self.vocab - 1)
        words = within | behind
        return self.masked(ids, words) | {
            "token_type_ids": ((place > n + 1) & (place <= n + m + 2)).long(),
            "attention_mask": (place <= n + m + 2).long()}

    def masked(self, ids, words):
        drawn = torch.rand(2, *ids.shape, generator=self.rng)
        others = torch.randint(SPECIAL, self.vocab, ids.shape,
                               generator=self.rng)
        chosen = words & (drawn[0] < self.CHOSEN)
        labels = torch.where(chosen, ids, sources.IGNORE)
        seen = torch.where(drawn[1] < self.MASKED, MASK, torch.where(
            drawn[1] < self.MASKED + self.OTHER, others, ids))
        return {"input_ids": torch.where(chosen, seen, ids), "labels": labels}


class Layer(nn.Module):
    """Attention and a network of two layers, a norm behind each sum."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.attention = Group(
            self=Group(query=nn.Linear(WIDTH, WIDTH),
                       key=nn.Linear(WIDTH, WIDTH),
                       value=nn.Linear(WIDTH, WIDTH)),
            output=Group(dense=nn.Linear(WIDTH, WIDTH),
                         LayerNorm=nn.LayerNorm(WIDTH, 1e-12)))
        self.intermediate = Group(
            dense=nn.Linear(WIDTH, HIDDEN),
            intermediate_act_fn=models.ACTIVATIONS[options["activation"]]())
        self.output = Group(dense=nn.Linear(HIDDEN, WIDTH),
                            LayerNorm=nn.LayerNorm(WIDTH, 1e-12))

    def forward(self, x, tap, drop, seen):
        own, out = getattr(self.attention, "self"), self.attention.output
        heads = self.options["heads"]

        def split(y):
            return y.view(*y.shape[:2], heads, -1).transpose(1, 2)

        scale = self.options["scale"]
        if scale is None:
            scale = (WIDTH // heads) ** -0.5
        y = models.attend(
            split(own.query(x)), split(own.key(x)), split(own.value(x)),
            lambda n, t: tap(f"attention.self.{n}", t), scale,
            half=self.options["half_scores"], seen=seen)
        y = y.transpose(1, 2).reshape(x.shape)
        tap("attention.self.output", y)
        x = out.LayerNorm(x + drop(out.dense(y)))
        tap("attention.output.output", x)
        y = self.intermediate.dense(x)
        tap("intermediate.intermediate_act_fn.input", y)
        y = self.intermediate.intermediate_act_fn(y)
        tap("intermediate.intermediate_act_fn.output", y)
        x = self.output.LayerNorm(x + drop(self.output.dense(y)))
        tap("output.output", x)
        return x


class Bert(models.Language):
    """Two layers of width 48 with 4 heads; the head is the table of words and
    a bias."""

    BLOCKS = tuple(f"bert.encoder.layer.{i}" for i in range(DEPTH))

    def __init__(self, vocab=WORDS + SPECIAL, heads=HEADS, activation="gelu",
                 dropout=0.0, detach_after=None, half_scores=False,
                 positions=True, scale=None):
        """detach_after: the part behind which the graph is cut."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions = positions
        options = {"heads": heads, "activation": activation, "scale": scale,
                   "half_scores": half_scores}
        self.bert = Group(
            embeddings=Group(
                word_embeddings=nn.Embedding(vocab, WIDTH, padding_idx=PAD),
                position_embeddings=nn.Embedding(PLACES, WIDTH),
                token_type_embeddings=nn.Embedding(2, WIDTH),
                LayerNorm=nn.LayerNorm(WIDTH, 1e-12)),
            encoder=Group(layer=nn.ModuleList(Layer(options)
                                              for _ in range(DEPTH))))
        self.cls = Group(predictions=Group(
            transform=Group(dense=nn.Linear(WIDTH, WIDTH),
                            LayerNorm=nn.LayerNorm(WIDTH, 1e-12)),
            decoder=nn.Linear(WIDTH, vocab)))
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=INITIAL)
        words = self.bert.embeddings.word_embeddings
        nn.init.zeros_(words.weight[PAD])
        self.cls.predictions.decoder.weight = words.weight
        nn.init.zeros_(self.cls.predictions.decoder.bias)
        self.said = None

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def forward(self, ids, kinds, seen, position_ids=None):
        """seen: 1 for tokens, 0 for padding."""
        parts = self.bert.embeddings
        x = parts.word_embeddings(ids)
        self.tap("bert.embeddings.word_embeddings.output", x)
        x = x + parts.token_type_embeddings(kinds)
        if self.positions:
            if position_ids is None:
                position_ids = torch.arange(ids.shape[1])[None]
            x = x + parts.position_embeddings(position_ids)
        x = parts.LayerNorm(x)
        self.tap("bert.embeddings.output", x)
        x = self.drop(self.cut(x, "bert.embeddings"))
        seen = (seen > 0)[:, None, None]
        for name, layer in zip(self.BLOCKS, self.bert.encoder.layer):
            x = layer(x, lambda n, t, name=name: self.tap(f"{name}.{n}", t),
                      self.drop, seen)
            x = self.cut(x, name)
        head = self.cls.predictions
        x = head.transform.LayerNorm(F.gelu(head.transform.dense(x)))
        self.tap("cls.predictions.transform.output", x)
        x = head.decoder(x)
        self.tap("cls.predictions.decoder.output", x)
        if self.training:
            self.said = x.detach().argmax(-1)
        return x

    def logits(self, batch):
        return self(batch["input_ids"], batch["token_type_ids"],
                    batch["attention_mask"], batch.get("position_ids"))

    def criterion(self, logits, batch):
        return F.cross_entropy(logits.float().flatten(0, 1),
                               batch["labels"].flatten(),
                               ignore_index=sources.IGNORE)


class BertRun(Family):
    """AdamW with a decay of .01, linear warm-up of 30 steps, then linear to
    0; a norm of 1 is clipped."""

    family = "bert"
    level_seed = 400
    steps, seed = 280, 220
    lr, warmup, schedule, clip = 5e-3, 30, "linear", 1.0
    betas, weight_decay = (0.9, 0.98), 0.01
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    batch_size, context, vocab = 40, 2 * LONGEST + 3, WORDS + SPECIAL
    layers = ["bert.embeddings.word_embeddings", "bert.embeddings", *(
        f"{block}.{part}" for block in Bert.BLOCKS
        for part in ("attention.self", "attention.self.scores",
                     "attention.output", "intermediate.intermediate_act_fn",
                     "output")),
        "cls.predictions.transform", "cls.predictions.decoder"]
    paths = {"embed": "bert.embeddings.word_embeddings",
             "attn": "{}.attention.self", "scores": "{}.attention.self.scores",
             "act": "{}.intermediate.intermediate_act_fn",
             "mlp": "{}.output", "block": "{}",
             "head": "cls.predictions.decoder"}
    blocks = DEPTH
    names = {"val_loss": "eval_loss", "val_accuracy": "eval_accuracy",
             "accuracy": "mlm_accuracy", "lr": "learning_rate",
             "tokens": "num_input_tokens_seen",
             "step_time": "train_step_time"}

    def make_model(self):
        return Bert(**self.model_options)

    def make_source(self, seed):
        return self.sentences(seed)

    def sentences(self, seed, **how):
        return Pairs(seed, (self.vocab, self.context, self.batch_size), **how)

    def in_blocks(self, seed, block, share):
        """Topics that nobody has shuffled; None is held out."""
        return self.sentences(seed, block=block, share=share)

    def lessons(self, seed):
        """Short sentences that keep to their manner, and all."""
        return self.sentences(seed, keeps=0.95, longest=8), \
            self.sentences(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt batch: of few words, of any, or of one alone."""
        low = {"few": self.vocab - 4, "uniform": SPECIAL, "constant": 7}[kind]
        high = 8 if kind == "constant" else self.vocab

        def words(ids):
            drawn = torch.randint(low, high, ids.shape, generator=rng)
            return torch.where(ids >= SPECIAL, drawn, ids)

        return batch | {"input_ids": words(batch["input_ids"]),
                        "labels": words(batch["labels"])}

    def lr_factor(self, i):
        if self.schedule != "linear" or i < self.warmup:
            return super().lr_factor(i)
        return (self.steps - 1 - i) / (self.steps - 1 - self.warmup)

    def batch_columns(self, batch):
        kept = batch["labels"] != sources.IGNORE
        right = (self.model.said == batch["labels"])[kept].float().mean()
        row = super().batch_columns(batch)
        return row | ({"accuracy": round(float(right), 4)} if kept.any()
                      else {})

    def held_out_columns(self, batches):
        self.model.eval()
        said = torch.cat([self.model.logits(b).argmax(-1) for b in batches])
        self.model.train()
        labels = torch.cat([b["labels"] for b in batches])
        kept = labels != sources.IGNORE
        return {"val_accuracy": (said == labels)[kept].float().mean()} \
            if kept.any() else {}

    def model_settings(self):
        return {"model": "bert", "num_hidden_layers": DEPTH,
                "hidden_size": WIDTH, "intermediate_size": HIDDEN,
                "num_attention_heads": self.model_options.get("heads", HEADS),
                "hidden_act": self.model_options.get("activation", "gelu"),
                "vocab_size": self.vocab, "type_vocab_size": 2,
                "max_position_embeddings": PLACES, "layer_norm_eps": 1e-12,
                "initializer_range": INITIAL, "mlm_probability": 0.15,
                "max_seq_length": self.context, "pad_to_max_length": True}

    def layer(self, part, block=0):
        return self.paths[part].format(Bert.BLOCKS[block])

    def fed_by(self, layer):
        """The first half of a network counts to the second."""
        block, _, part = layer.rpartition(".")
        return [f"{block}.intermediate"] if block in Bert.BLOCKS \
            and part == "output" else []
