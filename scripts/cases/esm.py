"""A small language model of proteins: what residue stands where one is masked.

An encoder of two layers, as people train ESM-2 with transformers' run_mlm.py:
the Trainer, a collator that masks anew, accuracy of what is masked, perplexity
at the end. Parts are named as in EsmForMaskedLM; places are learned, as
position_embedding_type "absolute" has it.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources, trainer_arguments, trainer_checkpoints
from .family import Family
from .models import Group
from .sources import IGNORE

CLS, PAD, EOS, UNK = range(4)
RESIDUES = "LAGVSERTIDPKQNFYMHWC"       # as ESM's alphabet has them
FIRST, KINDS = 4, len(RESIDUES)
VOCAB, MASK = 33, 32                    # between them are X, B, U, ., - ...
GROUPS, COLUMNS, TAIL = 6, 24, 4
# Columns that lie together in the fold: two strands that run against each
# other, and turns of a helix.
CONTACTS = (*((i, COLUMNS - 1 - i) for i in (1, 3, 5, 7, 9)),
            (0, 4), (2, 6), (17, 21), (19, 23))
PAIRED = {column for pair in CONTACTS for column in pair}
ROWS, LENGTH, PLACES = 32, COLUMNS + TAIL + 2, 34
WIDTH, HEADS, HIDDEN, DEPTH = 40, 2, 80, 2
INITIAL = 0.1           # deviation of weights at the start


class Proteins(sources.Source):
    """Sequences of six families of one fold.

    A domain has 24 columns; up to four residues of any kind stand behind it.
    Six columns are conserved: a family has one residue there with .75. The
    other 18 are nine contacts, one of which is the second of a pair: five of
    two strands, which are 5 to 21 columns apart, and four of helices, which
    are 4 apart. The first residue of a contact is one of five with .5, by
    family and column; the second one is its partner in .9 of cases, by a table
    of partners that all share. All else is drawn from the 20 residues by their
    frequency, from .13 to .02.

    Row: CLS residues EOS PAD. Of the residues 15 % are to be said: of these
    80 % become MASK, 10 % any residue, and 10 % stay. Masks are drawn with the
    sequence and stay with it.

    Who knows the process has 1.03 nats a label (`best()`), who knows all but
    the contacts 2.21, who knows how frequent residues are 2.87; a fresh model
    has 3.5 to 3.8 (ln 33 = 3.50).

    limit: tokens that are kept of a row. width: tokens that it is padded to.
    pieces: ids of the tokenizer, which a collator clamps to the table's.
    domains: the family is in the batch; block, share: one family after the
    other. clean: two families whose contacts are always kept. chosen: the share
    that is to be said, or (first, last, batches) where it changes. span: of
    residues in a row that are chosen together. hidden: how often what lies in
    contact with a chosen residue is masked as well. crossed: share of the rows
    that go on, behind some column, as another row does.
    """

    CHOSEN, MASKED, STAYS = 0.15, 0.8, 0.1
    KEPT, CONSERVED, TYPICAL, FEW = 0.9, 0.75, 0.5, 5

    def __init__(self, seed, rows, limit=None, width=LENGTH, pieces=None,
                 domains=False, block=None, share=1.0, clean=False,
                 chosen=CHOSEN, span=1, hidden=0.0, crossed=0.0):
        super().__init__(seed, (VOCAB, LENGTH, rows))
        self.limit, self.width, self.span = limit, width, span
        self.domains = domains or block is not None
        self.block, self.share = block, share
        self.groups, self.kept = (2, 1.0) if clean else (GROUPS, self.KEPT)
        self.chosen = chosen if isinstance(chosen, tuple) \
            else (chosen, chosen, 1)
        self.hidden, self.crossed = hidden, crossed
        world = torch.Generator().manual_seed(151)
        frequent = 1 / (torch.arange(KINDS) + 4.0)
        self.frequent = frequent / frequent.sum()
        some, others = torch.randperm(KINDS, generator=world).view(2, -1)
        self.partner = torch.empty(KINDS, dtype=torch.int64)
        self.partner[some], self.partner[others] = others, some
        self.profile = torch.stack([torch.stack([
            self.column(column in PAIRED, world) for column in range(COLUMNS)])
            for _ in range(GROUPS)])
        # A longer list of ids has them in another order, MASK at its end.
        self.ids = None if pieces is None else torch.tensor(
            [CLS, PAD, EOS, UNK, *(min(k, MASK) for k in (
                torch.randperm(pieces - FIRST - 1, generator=world)[:KINDS]
                + FIRST).tolist()), *range(FIRST + KINDS, VOCAB)])

    def column(self, paired, world):
        """How frequent residues are in a column of a family."""
        few = self.FEW if paired else 1
        share = self.TYPICAL if paired else self.CONSERVED
        own = torch.zeros(KINDS)
        own[torch.randperm(KINDS, generator=world)[:few]] = 1 / few
        return share * own + (1 - share) * self.frequent

    def group(self, rows):
        """The family of each row."""
        group = torch.randint(self.groups, (rows,), generator=self.rng)
        if self.block:
            here = self.number // self.block % self.groups
            kept = torch.rand(rows, generator=self.rng) < self.share
            group = torch.where(kept, torch.tensor(here), group)
        return group

    def domain(self, group):
        drawn = torch.multinomial(
            self.profile[group].flatten(0, 1), 1,
            generator=self.rng).view(len(group), COLUMNS)
        for one, other in CONTACTS:
            kept = torch.rand(len(group), generator=self.rng) < self.kept
            drawn[:, other] = torch.where(kept, self.partner[drawn[:, one]],
                                          drawn[:, other])
        return drawn

    def draw(self, rows):
        group = self.group(rows)
        tail = torch.multinomial(self.frequent.repeat(rows, 1), TAIL, True,
                                 generator=self.rng)
        size = COLUMNS + torch.randint(TAIL + 1, (rows, 1),
                                       generator=self.rng)
        if self.limit:
            size = size.clamp(max=self.limit - 2)
        place = torch.arange(self.width)[None]
        ids = F.pad(torch.cat((self.domain(group), tail), 1) + FIRST,
                    (1, self.width - LENGTH + 1), value=PAD)
        ids = torch.where(place > size + 1, PAD, ids)
        ids[:, 0] = CLS
        ids = torch.where(place == size + 1, EOS, ids)
        if self.crossed:
            cut = torch.randint(8, 17, (rows, 1), generator=self.rng)
            some = torch.rand(rows, 1, generator=self.rng) < self.crossed
            ids = torch.where(some & (place > cut), ids.roll(1, 0), ids)
        batch = self.masked(ids) | {"attention_mask": (ids != PAD).long()}
        if self.ids is not None:
            batch["input_ids"] = self.ids[batch["input_ids"]]
            labels = batch["labels"]
            batch["labels"] = torch.where(
                labels == IGNORE, labels, self.ids[labels.clamp_min(0)])
        return batch | ({"domain": group} if self.domains else {})

    def masked(self, ids):
        """As DataCollatorForLanguageModeling does it."""
        first, last, batches = self.chosen
        share = first + (last - first) * min(1.0, self.number / batches)
        drawn = torch.rand(2, *ids.shape, generator=self.rng)
        others = torch.randint(FIRST, FIRST + KINDS, ids.shape,
                               generator=self.rng)
        begins = drawn[0] < 1 - (1 - share) ** (1 / self.span)
        chosen = begins.clone()
        for k in range(1, self.span):
            chosen[:, k:] |= begins[:, :-k]
        chosen &= ids >= FIRST
        seen = torch.where(drawn[1] < self.MASKED, MASK, torch.where(
            drawn[1] < 1 - self.STAYS, others, ids))
        seen = torch.where(chosen, seen, ids)
        if self.hidden:
            beside = torch.zeros_like(chosen)
            for one, other in CONTACTS:
                beside[:, one + 1] = chosen[:, other + 1]
                beside[:, other + 1] = chosen[:, one + 1]
            hidden = torch.rand(ids.shape, generator=self.rng) < self.hidden
            seen = torch.where(beside & hidden & ~chosen & (ids >= FIRST),
                               MASK, seen)
        return {"input_ids": seen, "labels": torch.where(chosen, ids, IGNORE)}

    def best(self, batches=40, contacts=True):
        """The loss of who knows the process; without contacts, of who takes
        the two residues of each for independent."""
        total = count = 0
        for _ in range(batches):
            batch = self.batch()
            said = self.posterior(batch["input_ids"][:, 1:-1], contacts)
            labels = batch["labels"][:, 1:-1]
            kept = labels != IGNORE
            total -= float(said[kept].gather(
                1, labels[kept][:, None] - FIRST).log().sum())
            count += int(kept.sum())
        return total / count

    def posterior(self, ids, contacts=True):
        """What stands at each place, if its label were asked for."""
        even = 1 / KINDS
        hidden = (ids == MASK)[..., None]
        here = F.one_hot((ids - FIRST).clamp(0, KINDS - 1), KINDS).float()
        wrong = self.CHOSEN * (1 - self.MASKED - self.STAYS)
        # Of a residue that is seen, and of one that is known to be chosen.
        near = torch.where(hidden, 1.0, (1 - wrong) * here + wrong * even)
        own = torch.where(hidden, 1.0, (here + even) / 2)
        move = F.one_hot(self.partner, KINDS).float()
        out = (self.frequent * own)[:, None].repeat(1, GROUPS, 1, 1)
        group = torch.zeros(len(ids), GROUPS)
        for one, other in CONTACTS:
            p = self.profile[:, one, :, None] * (
                self.kept * move + (1 - self.kept)
                * self.profile[:, other, None])
            if not contacts:
                p = p.sum(2, keepdim=True) * p.sum(1, keepdim=True)
            to = torch.einsum("fab,rb->rfa", p, near[:, other])
            group += (to * near[:, None, one]).sum(-1).log()
            out[:, :, one] = to * own[:, None, one]
            out[:, :, other] = torch.einsum(
                "fab,ra->rfb", p, near[:, one]) * own[:, None, other]
        for column in set(range(COLUMNS)) - PAIRED:
            p = self.profile[:, column]
            group += (near[:, column] @ p.T).log()
            out[:, :, column] = p * own[:, None, column]
        out = out / out.sum(-1, keepdim=True)
        return torch.einsum("rf,rfck->rck", group.softmax(1), out)


class Layer(nn.Module):
    """Attention and a network of two maps, a norm before each."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.attention = Group(
            self=Group(**{name: nn.Linear(WIDTH, WIDTH)
                          for name in ("query", "key", "value")}),
            output=Group(dense=nn.Linear(WIDTH, WIDTH)),
            LayerNorm=nn.LayerNorm(WIDTH, 1e-5))
        self.intermediate = Group(dense=nn.Linear(WIDTH, HIDDEN))
        self.output = Group(dense=nn.Linear(HIDDEN, WIDTH))
        self.LayerNorm = nn.LayerNorm(WIDTH, 1e-5)

    def forward(self, x, tap, drop, seen, bias):
        """bias: what is added to the scores, None for nothing."""
        own, options = getattr(self.attention, "self"), self.options

        def split(y):
            return y.view(*y.shape[:2], options["heads"], -1).transpose(1, 2)

        scale = options["scale"]
        if scale is None:
            scale = (WIDTH // options["heads"]) ** -0.5
        y = self.attention.LayerNorm(x)
        q, k, v = (split(part(y)) for part in (own.query, own.key, own.value))
        if bias is not None:
            # As two more channels of a head each: scores are q k alone.
            wide = (q.shape[0], q.shape[1], *bias.shape)
            q = torch.cat((q, bias.to(q.dtype).expand(wide) / scale), -1)
            k = torch.cat((k, torch.eye(len(bias), dtype=k.dtype).expand(
                wide)), -1)
        y = models.attend(q, k, v, lambda n, t: tap(f"attention.self.{n}", t),
                          scale, half=options["half_scores"], seen=seen)
        y = y.transpose(1, 2).reshape(x.shape)
        tap("attention.self.output", y)
        x = x + drop(self.attention.output.dense(y))
        tap("attention.output", x)
        y = self.intermediate.dense(self.LayerNorm(x))
        tap("intermediate.dense.output", y)
        y = options["act"](y)
        tap("intermediate.output", y)
        x = x + drop(self.output.dense(y))
        tap("output.output", x)
        return x


class LmHead(nn.Module):
    """A map, a norm, and the table of tokens with a bias."""

    def __init__(self, act):
        super().__init__()
        self.act = act
        self.dense = nn.Linear(WIDTH, WIDTH)
        self.layer_norm = nn.LayerNorm(WIDTH, 1e-5)
        self.decoder = nn.Linear(WIDTH, VOCAB, bias=False)
        self.bias = nn.Parameter(torch.zeros(VOCAB))

    def forward(self, x, tap):
        x = self.dense(x)
        tap("lm_head.dense.output", x)
        x = self.act(x)
        tap("lm_head.layer_norm.input", x)
        x = self.layer_norm(x)
        tap("lm_head.layer_norm.output", x)
        return self.decoder(x) + self.bias


class Esm(models.Language):
    """Two layers of width 40 with 2 heads; the head is tied to the table. As
    in the library there is a head for contacts, which no loss trains."""

    BLOCKS = tuple(f"esm.encoder.layer.{i}" for i in range(DEPTH))
    # Of the embeddings that a mask takes away in training, on average.
    MASKED_SHARE = Proteins.CHOSEN * Proteins.MASKED

    def __init__(self, heads=HEADS, activation="gelu", dropout=0.0,
                 detach_after=None, half_scores=False, positions=True,
                 scale=None):
        """detach_after: the part behind which the graph is cut. positions:
        the place that all tokens have if a number, none if False."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.bias = positions, None
        options = {"heads": heads, "scale": scale, "half_scores": half_scores,
                   "act": models.ACTIVATIONS[activation]()}
        self.esm = Group(
            embeddings=Group(
                word_embeddings=nn.Embedding(VOCAB, WIDTH, padding_idx=PAD),
                position_embeddings=nn.Embedding(PLACES, WIDTH,
                                                 padding_idx=PAD)),
            encoder=Group(
                layer=nn.ModuleList(Layer(options) for _ in range(DEPTH)),
                emb_layer_norm_after=nn.LayerNorm(WIDTH, 1e-5)),
            contact_head=Group(regression=nn.Linear(DEPTH * HEADS, 1)))
        self.lm_head = LmHead(options["act"])
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=INITIAL)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        parts = self.esm.embeddings
        nn.init.zeros_(parts.word_embeddings.weight[PAD])
        nn.init.zeros_(parts.position_embeddings.weight[PAD])
        self.lm_head.decoder.weight = parts.word_embeddings.weight

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def embedded(self, ids, mask):
        """Masked tokens are zero, and what is left is as large as ever."""
        parts, name = self.esm.embeddings, "esm.embeddings"
        x = parts.word_embeddings(ids)
        self.tap(f"{name}.word_embeddings.output", x)
        masked = ids == MASK
        x = x.masked_fill(masked[..., None], 0.0)
        left = 1 - masked.sum(1) / mask.sum(1)
        self.tap(f"{name}.unmasked_share.output", left)
        x = (x * (1 - self.MASKED_SHARE) / left[:, None, None]).to(x.dtype)
        if self.positions is not False:
            place = mask.cumsum(1) * mask + PAD
            if self.positions is not True:
                place = torch.full_like(place, self.positions)
            x = x + parts.position_embeddings(place)
        x = x * mask[..., None]
        self.tap(f"{name}.output", x)
        return self.cut(x, name)

    def forward(self, ids, mask):
        """mask: 1 for tokens, 0 for padding."""
        x = self.embedded(ids, mask)
        seen = (mask > 0)[:, None, None]
        for name, layer in zip(self.BLOCKS, self.esm.encoder.layer):
            x = layer(x, lambda n, t, name=name: self.tap(f"{name}.{n}", t),
                      self.drop, seen, self.bias)
            x = self.cut(x, name)
        x = self.esm.encoder.emb_layer_norm_after(x)
        self.tap("esm.encoder.emb_layer_norm_after.output", x)
        x = self.cut(x, "esm.encoder.emb_layer_norm_after")
        x = self.lm_head(x, self.tap)
        self.tap("lm_head.output", x)
        return x

    def logits(self, batch):
        return self(batch["input_ids"], batch["attention_mask"])


class EsmRun(Family):
    """AdamW as the Trainer has it, without decay of biases and norms; linear
    warm-up of a tenth, then linear to 0; a norm of 1 is clipped."""

    family = "esm"
    level_seed = 400
    steps, seed = 240, 1180
    classes, first_label = KINDS, FIRST
    lr, warmup, schedule, clip = 6e-3, 24, "linear", 1.0
    betas, weight_decay = (0.9, 0.98), 0.01
    recipes = {"sgd": dict(lr=0.05, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, LENGTH, VOCAB
    always_trained = ("esm.embeddings.word_embeddings",)  # the head's table
    # Its trainer is the Trainer.
    instead = {"nanogpt": "hf_trainer", "megatron": "hf_trainer",
               "torchtune": "hf_trainer"}
    layers = ["esm.embeddings.word_embeddings", "esm.embeddings", *(
        f"{block}.{part}" for block in Esm.BLOCKS
        for part in ("attention", "attention.self.scores", "intermediate",
                     "output")),
        "esm.encoder.emb_layer_norm_after", "lm_head.layer_norm", "lm_head"]
    ENCODER = "esm.encoder.layer"
    graded = {
        "F05": (dict(modules=[f"{ENCODER}.0.attention",
                              f"{ENCODER}.1.attention"]),
                dict(modules=[ENCODER], where=f"{ENCODER}.0"),
                dict(part="all")),
        "F06": (dict(factor=1.5), dict(factor=2), dict(factor=3)),
        "F07": (dict(factor=15), dict(factor=30), dict(factor=100)),
        "F08": (dict(every=20), dict(every=32), dict(every=1 << 30)),
        "F13": (dict(path=f"{ENCODER}.0"), dict(path=f"{ENCODER}.1"),
                dict(path="esm.encoder.emb_layer_norm_after")),
        "F14": (dict(modules=[f"{ENCODER}.0.attention",
                              f"{ENCODER}.1.attention"]),
                dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1"]),
                dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1",
                              "esm.embeddings.position_embeddings",
                              "lm_head.dense"])),
        "F23": (dict(pad=True, prompt=False, width=48),
                dict(pad=False, prompt=True, width=LENGTH),
                dict(pad=True, prompt=True, width=48)),
        "F31": (dict(factor=1.3), dict(factor=1.6), dict(factor=2.2)),
        "F33": (dict(limit=22), dict(limit=18), dict(limit=12)),
        "F27": (dict(epochs=12), dict(epochs=30), dict(epochs=100)),
        "F35": (dict(power=0.0), dict(power=0.5), dict(power=1.0)),
        "F36a": (dict(bias=-1.5), dict(bias=-2.5), dict(bias=-5.0)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.8)),
        "H04": (dict(rate=0.05), dict(rate=0.1))}
    paths = {"embed": "esm.embeddings.word_embeddings",
             "attn": "{}.attention", "scores": "{}.attention.self.scores",
             "act": "{}.intermediate", "mlp": "{}.output", "block": "{}",
             "head": "lm_head"}
    blocks = DEPTH
    names = {"val_loss": "eval_loss", "val_accuracy": "eval_accuracy",
             "lr": "learning_rate", "tokens": "num_input_tokens_seen"}

    def make_model(self):
        return Esm(**self.model_options)

    def make_optimizer(self, model):
        """Groups as the Trainer makes them."""
        return trainer_arguments.in_groups(
            self, super().make_optimizer(model))

    def make_source(self, seed):
        return self.proteins(seed)

    def proteins(self, seed, **how):
        return Proteins(seed, self.batch_size if seed != 9 else 2 * ROWS,
                        **how)

    def in_blocks(self, seed, block, share):
        """Families that nobody has shuffled; None is held out."""
        return self.proteins(seed, block=block, share=share, domains=True)

    def easy(self, seed):
        """Two families whose contacts are always kept."""
        return self.proteins(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.proteins(seed)

    def uncovered(self, batch, pad, residues):
        """Labels that no mask hides: padding, what is seen, or both."""
        ids, labels = batch["input_ids"], batch["labels"]
        added = (labels == IGNORE) & torch.where(ids == PAD, pad, residues)
        return batch | {"labels": torch.where(added, ids, labels)}

    def masked_whole(self, batch):
        """Of the first row no token is left, not even CLS and EOS."""
        ids = batch["input_ids"].clone()
        ids[0] = torch.where(batch["attention_mask"][0] > 0, MASK, ids[0])
        return batch | {"input_ids": ids}

    def garbage(self, batch, kind, rng):
        """A corrupt shard: residues of few kinds, of any, or of one."""
        low, high = {"few": (FIRST + KINDS - 4, FIRST + KINDS),
                     "uniform": (FIRST, FIRST + KINDS),
                     "constant": (FIRST + KINDS - 1, FIRST + KINDS)}[kind]

        def anew(ids):
            drawn = torch.randint(low, high, ids.shape, generator=rng)
            return torch.where((ids >= FIRST) & (ids < MASK), drawn, ids)

        return batch | {k: anew(batch[k]) for k in ("input_ids", "labels")}

    def lr_factor(self, i):
        if self.schedule != "linear" or i < self.warmup:
            return super().lr_factor(i)
        return max(0.0, (self.steps - i) / (self.steps - self.warmup))

    def held_out_columns(self, batches):
        """What compute_metrics of run_mlm.py gives."""
        self.model.eval()
        said = torch.cat([self.model.logits(b).argmax(-1).flatten()
                          for b in batches])
        self.model.train()
        labels = torch.cat([b["labels"].flatten() for b in batches])
        kept = labels != IGNORE
        return {"val_accuracy": (said == labels)[kept].float().sum()
                / max(1, int(kept.sum()))}

    def state_columns(self, rows, held_out=False):
        return {"eval_accuracy": rows[0]["val_accuracy"]} if held_out else {}

    def settings(self):
        """The arguments of run_mlm.py, by their names."""
        return trainer_arguments.renamed(self, super().settings())

    def model_config(self):
        """config.json of a checkpoint."""
        options = self.model_options
        return {"model_type": "esm", "architectures": ["EsmForMaskedLM"],
                "attention_probs_dropout_prob": 0.0,
                "emb_layer_norm_before": False,
                "hidden_act": options.get("activation", "gelu"),
                "hidden_dropout_prob": options.get("dropout", 0.0),
                "hidden_size": WIDTH, "initializer_range": INITIAL,
                "intermediate_size": HIDDEN, "layer_norm_eps": 1e-5,
                "mask_token_id": MASK, "max_position_embeddings": PLACES,
                "num_attention_heads": options.get("heads", HEADS),
                "num_hidden_layers": DEPTH, "pad_token_id": PAD,
                "position_embedding_type": "absolute",
                "tie_word_embeddings": True, "token_dropout": True,
                "vocab_size": VOCAB}

    def model_settings(self):
        return {"model": "esm", **{
                    k: v for k, v in self.model_config().items()
                    if k not in ("model_type", "architectures")},
                "mlm_probability": Proteins.CHOSEN,
                "max_seq_length": self.context, "line_by_line": True,
                "pad_to_max_length": True}

    def layer(self, part, block=0):
        return self.paths[part].format(Esm.BLOCKS[block])

    def fed_by(self, layer):
        """A block's second norm has the block's own name."""
        block, _, part = layer.rpartition(".")
        return [f"{block}.LayerNorm"] if part == "intermediate" else []

    # Checkpoints, and the files that run_mlm.py writes at the end.

    @staticmethod
    def weights(model):
        """What is tied is in the file once."""
        return {k: v for k, v in model.state_dict().items()
                if k != "lm_head.decoder.weight"}

    def keep_checkpoint(self, i, model):
        trainer_checkpoints.keep(self, i, lambda: self.weights(model))

    def write_more(self):
        super().write_more()
        trainer_checkpoints.write(self, "model.safetensors", lambda: {
            "config": self.model_config(), "tokenizer_config": {
                "tokenizer_class": "EsmTokenizer",
                "model_max_length": PLACES - 2, "cls_token": "<cls>",
                "pad_token": "<pad>", "eos_token": "<eos>",
                "unk_token": "<unk>", "mask_token": "<mask>"}})
        if self.dialect == "hf_trainer":
            self.write_results()

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
        held_out = {"epoch": epoch, "eval_accuracy": last["val_accuracy"],
                    "eval_loss": last["val_loss"], "eval_runtime": 0.0613,
                    "eval_samples": 8 * ROWS,
                    "eval_samples_per_second": 1044.0,
                    "eval_steps_per_second": 65.25,
                    "perplexity": math.exp(min(last["val_loss"], 700.0))}
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
