"""A small chat model that is fine-tuned on conversations.

As TRL's SFTTrainer does it with assistant_only_loss: a decoder of Qwen2's kind
begins as a base that has read plain text, gets rows for the tokens of a chat
template, and learns to answer. Parts are named as in transformers'
Qwen2ForCausalLM, columns as in TRL, and checkpoints are those of transformers'
Trainer. The base is trained once a process, before anything is recorded.
"""

import functools

import torch
from torch import nn
from torch.nn import functional as F

from . import llama, models, sources, trainer_arguments, trainer_checkpoints
from .family import Family
from .snapshot import checksum, short
from .sources import ASSISTANT, EOS, IGNORE, PAD, USER

START = 4                               # PAD is <|endoftext|>, EOS <|im_end|>
TEMPLATE = (EOS, USER, ASSISTANT, START)    # new to the base
TASKS, SAYINGS, OPENERS, FILLERS, WORDS = 4, 2, 3, 2, 10
FIRST_TASK = START + 1                  # each has two words
FIRST_OPENER = FIRST_TASK + TASKS * SAYINGS
FIRST_FILLER = FIRST_OPENER + OPENERS
FIRST_WORD = FIRST_FILLER + FILLERS
FIRST_FOREIGN = FIRST_WORD + WORDS      # what words are in another language
VOCAB = FIRST_FOREIGN + WORDS
SAY, BACKWARDS, TRANSLATE, LAST = range(TASKS)
MOST, TURNS = 3, 2                      # words of a question, turns of a row
SLOTS = 9 + 2 * MOST                    # tokens of a turn
CONTEXT = TURNS * SLOTS
ROWS, WIDTH, HEADS, GROUPS, HIDDEN, DEPTH = 32, 40, 2, 1, 80, 2
THETA, INITIAL = 10000.0, 0.1           # rotary base, deviation of weights


class Chats(sources.Source):
    """Conversations of one question (.5) or two, with their answers.

    A question has a task, said in one of two words, and two or three different
    words of ten. Its answer is the words again, the words backwards, each of
    them in another language (one of two words for it, .75 and .25), or the last
    of them; .03 of its words are any. A question that begins with a polite word
    (.3) is answered with an opener before it, one of three (.5, .3, .2).

    Row: by turn START USER question EOS START ASSISTANT answer EOS; PAD*.
    Labels are the tokens of answers with their EOS, at their own places: the
    model shifts. Who knows the process has the loss that best() computes, .32;
    an even guess has ln 38 = 3.64.

    limit: tokens that are kept of a row. pieces: of the tokenizer, what is too
    large becomes the last row of the table. domains: a row has one task, which
    is in the batch; block, share: one task after the other. easy: one question
    of two words, to be said again or the last of them, without noise. whole:
    all real tokens are labels. plain: texts of tasks and words alone, without a
    template. two: share of rows with two questions.
    """

    TWO, POLITE, SLIP = 0.5, 0.3, 0.03
    OPENING, FORMS = (0.5, 0.3, 0.2), (0.75, 0.25)

    def __init__(self, seed, rows, limit=None, pieces=None, domains=False,
                 block=None, share=1.0, easy=False, whole=False,
                 plain=False, two=TWO):
        super().__init__(seed, (VOCAB, CONTEXT, rows))
        self.limit, self.domains, self.easy = limit, domains, easy
        self.block, self.share = block, share
        self.whole, self.plain = whole, plain
        self.two = 0.0 if easy else two
        world = torch.Generator().manual_seed(201)
        self.foreign = torch.stack([torch.randperm(WORDS, generator=world)
                                    for _ in self.FORMS])
        self.ids = None if pieces is None else torch.tensor([
            *range(FIRST_TASK), *(min(k, VOCAB - 1) for k in (
                torch.randperm(pieces - FIRST_TASK,
                               generator=torch.Generator().manual_seed(202))[
                    :VOCAB - FIRST_TASK] + FIRST_TASK).tolist())])

    def any(self, *shape, high):
        return torch.randint(high, shape, generator=self.rng)

    def chance(self, rows, share):
        return torch.rand(rows, generator=self.rng) < share

    def kind(self, rows):
        """Task of a row, if it has one."""
        kind = self.any(rows, high=TASKS)
        if self.block:
            here = self.number // self.block % TASKS
            kind = torch.where(self.chance(rows, self.share), here, kind)
        return kind

    def drawn(self, rows, shares):
        return torch.multinomial(torch.tensor(shares), rows, True,
                                 generator=self.rng)

    def answer(self, task, words, count):
        """Word numbers (rows, MOST) from 0 on, foreign ones from WORDS on; how
        many there are; and the entropy of each."""
        rows, place = len(task), torch.arange(MOST)
        back = (count[:, None] - 1 - place).clamp_min(0)
        said = torch.where((task == BACKWARDS)[:, None],
                           words.gather(1, back), words)
        form = self.drawn(rows * MOST, self.FORMS).view(rows, MOST)
        translated = (task == TRANSLATE)[:, None]
        said = torch.where(translated, WORDS + self.foreign[form, words], said)
        last = words.gather(1, count[:, None] - 1)
        said = torch.where((task == LAST)[:, None], last, said)
        size = torch.where(task == LAST, 1, count)
        slip = 0.0 if self.easy else self.SLIP
        wrong = self.chance((rows, MOST), slip)
        other = self.any(rows, MOST, high=2 * WORDS)
        said = torch.where(wrong, other, said)
        nats = [self.entropy(shares, slip) for shares in ((1.0,), self.FORMS)]
        return said, size, torch.where(translated, nats[1], nats[0])

    @staticmethod
    def entropy(shares, slip):
        p = torch.full((2 * WORDS,), slip / (2 * WORDS))
        p[:len(shares)] += (1 - slip) * torch.tensor(shares)
        return float(-torch.special.xlogy(p, p).sum())

    def turn(self, rows, kind):
        """Slots of a question and its answer: ids, which are there, which are
        the answer's, and the entropy of each."""
        task = kind if kind is not None else self.any(rows, high=TASKS)
        if self.easy:
            task = torch.where(task < TRANSLATE, SAY, LAST)
        polite = self.chance(rows, self.POLITE)
        count = 2 + self.any(rows, high=1 if self.easy else MOST - 1)
        words = torch.rand(rows, WORDS, generator=self.rng).argsort(1)[:, :MOST]
        said, size, nats = self.answer(task, words, count)
        ids = torch.zeros(rows, SLOTS, dtype=torch.int64)
        there = torch.ones_like(ids, dtype=torch.bool)
        ids[:, 0], ids[:, 1] = START, USER
        ids[:, 2] = FIRST_FILLER + self.any(rows, high=FILLERS)
        there[:, 2] = polite
        ids[:, 3] = FIRST_TASK + SAYINGS * task + self.any(rows, high=SAYINGS)
        ids[:, 4:4 + MOST] = FIRST_WORD + words
        there[:, 4:4 + MOST] = torch.arange(MOST) < count[:, None]
        at = 4 + MOST
        ids[:, at], ids[:, at + 1], ids[:, at + 2] = EOS, START, ASSISTANT
        ids[:, at + 3] = FIRST_OPENER + self.drawn(rows, self.OPENING)
        there[:, at + 3] = polite
        ids[:, at + 4:-1] = FIRST_WORD + said
        there[:, at + 4:-1] = torch.arange(MOST) < size[:, None]
        ids[:, -1] = EOS
        spoken = torch.zeros_like(there)
        spoken[:, at + 3:] = True
        each = torch.zeros(ids.shape)
        p = torch.tensor(self.OPENING)
        each[:, at + 3] = float(-torch.special.xlogy(p, p).sum())
        each[:, at + 4:-1] = nats
        return ids, there, spoken, each

    def conversations(self, rows):
        """ids, which are answers, how long each is, and its task if any."""
        kind = self.kind(rows) if self.domains else None
        parts = [self.turn(rows, kind) for _ in range(TURNS)]
        parts[1][1][:] &= self.chance(rows, self.two)[:, None]
        ids, there, spoken, nats = (torch.cat(p, 1) for p in zip(*parts))
        if self.plain:
            there &= ids >= FIRST_TASK
        order = (~there).long().argsort(dim=1, stable=True)
        ids, there, spoken, nats = (t.gather(1, order) for t in (
            ids, there, spoken, nats))
        spoken &= there
        self.likely = nats[spoken]
        if self.ids is not None:
            ids = self.ids[ids]
        return ids.masked_fill(~there, PAD), spoken, there.sum(1), kind

    def draw(self, rows):
        ids, spoken, size, kind = self.conversations(rows)
        if self.limit:
            gone = torch.arange(CONTEXT) >= self.limit
            ids, spoken = ids.masked_fill(gone, PAD), spoken & ~gone
            size = size.clamp_max(self.limit)
        if self.whole:
            spoken = ids != PAD
        batch = {"input_ids": ids, "attention_mask": (
            torch.arange(CONTEXT) < size[:, None]).long(),
            "labels": ids.masked_fill(~spoken, IGNORE)}
        return batch | ({} if kind is None else {"domain": kind})

    def best(self, batches=60):
        """The loss of who knows the process."""
        found = []
        for _ in range(batches):
            self.batch()
            found.append(self.likely)
        return float(torch.cat(found).mean())


class ByLength(sources.Source):
    """The batches of a source in groups of some, whose rows are sorted by
    length within a group."""

    def __init__(self, chats, batches):
        super().__init__(chats.rng.initial_seed(), (VOCAB, CONTEXT, chats.rows))
        self.chats, self.batches, self.pool = chats, batches, []

    def draw(self, rows):
        if not self.pool:
            whole = self.chats.batch(self.batches * rows)
            order = whole["attention_mask"].sum(1).argsort()
            self.pool = [{k: t[order[k0:k0 + rows]] for k, t in whole.items()}
                         for k0 in (rows * torch.randperm(
                             self.batches, generator=self.rng)).tolist()]
        return self.pool.pop()


class Packed(sources.Source):
    """Conversations one after the other in full rows, of which the last is cut
    off, as TRL packs them ("wrapped"). eos, reset and separate are as those of
    sources.Packed, and so are the names."""

    def __init__(self, chats, width, rows, eos, reset, separate):
        super().__init__(0, (VOCAB, width, rows))
        self.chats, self.pool = chats, []
        self.eos, self.reset, self.separate = eos, reset, separate

    def next(self):
        if not self.pool:
            batch = self.chats.batch()
            size = batch["attention_mask"].sum(1) - int(not self.eos)
            self.pool = [(ids[:n], labels[:n]) for ids, labels, n in zip(
                batch["input_ids"], batch["labels"], size.tolist())]
        return self.pool.pop()

    def draw(self, rows):
        width, bounds, parts = self.context, [0], []
        for row in range(rows):
            at, own = 0, []
            while at < width:
                ids, labels = (t[:width - at] for t in self.next())
                place = torch.arange(len(ids)) + (0 if self.reset else at)
                own.append(torch.stack((ids, labels, place, torch.full_like(
                    ids, len(own)))))
                at += len(ids)
                bounds.append(row * width + at)
            parts.append(torch.cat(own, 1))
        ids, labels, places, segments = torch.stack(parts, 1)
        batch = {"input_ids": ids, "labels": labels, "position_ids": places,
                 "cu_seqlens": torch.tensor(bounds)}
        return batch | ({"segments": segments} if self.separate else {})


class Qwen2Attention(nn.Module):
    """Grouped queries, with biases on what goes in."""

    def __init__(self, heads, groups):
        super().__init__()
        self.heads, self.groups = heads, groups
        wide = WIDTH // heads * groups
        self.q_proj = nn.Linear(WIDTH, WIDTH)
        self.k_proj = nn.Linear(WIDTH, wide)
        self.v_proj = nn.Linear(WIDTH, wide)
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x, tap, position_ids, seen, options):
        q, k, v = (proj(x).unflatten(-1, (count, -1)).transpose(1, 2)
                   for proj, count in ((self.q_proj, self.heads),
                                       (self.k_proj, self.groups),
                                       (self.v_proj, self.groups)))
        if options["positions"]:
            q, k = (llama.rotate(t, position_ids, THETA) for t in (q, k))
        k, v = (t.repeat_interleave(self.heads // self.groups, 1)
                for t in (k, v))
        scale = options["scale"]
        if scale is None:
            scale = (WIDTH // self.heads) ** -0.5
        mixed = models.attend(q, k, v, tap, scale, seen=seen,
                              half=options["half_scores"])
        y = self.o_proj(mixed.transpose(1, 2).flatten(2))
        tap("output", y)
        return y


class Qwen2MLP(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.gate_proj = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up_proj = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down_proj = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.act_fn = models.ACTIVATIONS[activation]()

    def forward(self, x, tap, half):
        tap("input", x)
        gate, up = self.gate_proj(x), self.up_proj(x)
        if half:
            gate, up = gate.half(), up.half()
        tap("act_fn.input", gate)
        gate = self.act_fn(gate)
        tap("act_fn.output", gate)
        tap("up_proj.output", up)
        y = gate * up
        tap("gated.output", y)
        y = self.down_proj(y.to(self.down_proj.weight.dtype))
        tap("output", y)
        return y


class Qwen2DecoderLayer(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.options = options
        self.self_attn = Qwen2Attention(options["heads"], options["groups"])
        self.mlp = Qwen2MLP(options["activation"])
        self.input_layernorm = llama.RmsNorm(WIDTH, options["eps"])
        self.post_attention_layernorm = llama.RmsNorm(WIDTH, options["eps"])

    def forward(self, x, tap, drop, position_ids, visible, future):
        seen = visible(future)
        tap("input_layernorm.input", x)
        y = self.input_layernorm(x)
        tap("input_layernorm.output", y)
        x = x + drop(self.self_attn(
            y, lambda n, t: tap(f"self_attn.{n}", t), position_ids, seen,
            self.options))
        y = self.post_attention_layernorm(x)
        return x + drop(self.mlp(y, lambda n, t: tap(f"mlp.{n}", t),
                                 self.options["half_mlp"]))


class Qwen2(models.Language):
    """Two layers of width 40, two heads on one group; rotary positions,
    RMSNorm, SwiGLU, a head that is the table.

    base: number of the base that is loaded, None for none. detach_after: module
    behind which the graph is cut. hides: makes what may be seen less.
    """

    def __init__(self, base=0, heads=HEADS, groups=GROUPS, eps=1e-6, tied=True,
                 half_scores=False, half_mlp=False, detach_after=None,
                 positions=True, future=0, scale=None, activation="silu",
                 dropout=0.0, pad=None):
        super().__init__()
        self.detach_after, self.future, self.dropout = \
            detach_after, future, dropout
        self.squashes, self.guards, self.late = False, False, 0
        self.hides = self.changes = None
        self.columns, self.neftune = {}, 0.0
        options = {"heads": heads, "groups": groups, "eps": eps,
                   "half_scores": half_scores, "half_mlp": half_mlp,
                   "positions": positions, "scale": scale,
                   "activation": activation}
        self.model = models.Group(
            embed_tokens=nn.Embedding(VOCAB, WIDTH, padding_idx=pad),
            layers=nn.ModuleList(Qwen2DecoderLayer(options)
                                 for _ in range(DEPTH)),
            norm=llama.RmsNorm(WIDTH, eps))
        self.lm_head = nn.Linear(WIDTH, VOCAB, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=INITIAL)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        self.lm_head.weight = self.model.embed_tokens.weight
        if base is not None:
            self.load(base)
        if not tied:
            self.lm_head.weight = nn.Parameter(
                self.lm_head.weight.detach().clone())
        if pad is not None:
            with torch.no_grad():
                self.model.embed_tokens.weight[pad] = 0

    def load(self, base):
        """All but the rows of the template's tokens, which are new: they begin
        near the mean of the others, as resize_token_embeddings has it."""
        table = self.model.embed_tokens.weight
        new = list(TEMPLATE)
        fresh = table.detach()[new].clone()
        self.load_state_dict(base_weights(base))
        with torch.no_grad():
            table[new] = table.mean(0) + fresh

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def forward(self, ids, position_ids=None, attention_mask=None,
                segments=None):
        rows, steps = ids.shape
        if position_ids is None:
            position_ids = torch.arange(steps)[None]

        @functools.cache
        def visible(future):
            seen = models.visible_keys(steps, future, segments)
            if attention_mask is not None and segments is None:
                seen = seen & (attention_mask[:, None, None] > 0)
            return seen if self.hides is None else self.hides(ids, seen)

        x = self.model.embed_tokens(ids)
        self.tap("model.embed_tokens.output", x)
        x = self.cut(x, "model.embed_tokens")
        if self.neftune and self.training:
            reach = self.neftune / (steps * WIDTH) ** 0.5
            x = x + torch.empty_like(x).uniform_(-reach, reach)
        x = self.drop(x)
        for i, layer in enumerate(self.model.layers):
            path = f"model.layers.{i}"
            x = layer(x, lambda n, t, p=path: self.tap(f"{p}.{n}", t),
                      self.drop, position_ids, visible, future=self.future)
            if self.changes:
                x = self.changes(i, x)
            x = self.cut(x, path)
        x = self.model.norm(x)
        self.tap("model.norm.output", x)
        x = self.cut(x, "model.norm")
        x = self.lm_head(x)
        self.tap("lm_head.output", x)
        return x

    def logits(self, batch):
        return self(batch["input_ids"], batch.get("position_ids"),
                    batch.get("attention_mask"), batch.get("segments"))

    def criterion(self, logits, batch, smoothing=0.0):
        """Of the labels, each from the logits one place before it."""
        labels = batch["labels"][:, 1 + self.late:]
        scores = logits[:, :labels.shape[1]].float()
        self.note(scores, labels, logits, batch)
        if self.squashes:
            scores = scores.softmax(-1)
        total = F.cross_entropy(
            scores.flatten(0, 1), labels.flatten(), ignore_index=IGNORE,
            label_smoothing=smoothing, reduction="sum")
        count = (labels != IGNORE).sum()
        return total / (count.clamp_min(1) if self.guards else count)

    @torch.no_grad()
    def note(self, scores, labels, logits, batch):
        """What SFTTrainer logs of a batch: how many labels are the likeliest
        token, and the entropy of what is predicted at all real places."""
        real = labels != IGNORE
        right = ((scores.argmax(-1) == labels) & real).sum() \
            / real.sum().clamp_min(1)
        each = logits.float().log_softmax(-1)
        nats = -(each.exp() * each).sum(-1)
        there = batch.get("attention_mask")
        self.columns = {
            "accuracy": right, "entropy": nats.mean() if there is None
            else (nats * there).sum() / there.sum()}

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


@functools.cache
def base_weights(number, steps=250):
    """A base that has read texts: words of both languages, one after the other
    by a chain, with repetitions."""
    with torch.random.fork_rng():
        torch.manual_seed(2040 + number)
        model = Qwen2(base=None)
        source = Chats(2041 + number, 32, plain=True)
        optimizer = torch.optim.AdamW(model.parameters(), 8e-3,
                                      weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 8e-3, steps)
        for _ in range(steps):
            batch = source.batch()["input_ids"][:, :16]
            loss = F.cross_entropy(model(batch)[:, :-1].flatten(0, 1),
                                   batch[:, 1:].flatten(), ignore_index=PAD)
            model.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.state_dict()


# What TRL calls its columns; those of validation have "eval_" before it.
COLUMNS = {"accuracy": "mean_token_accuracy", "entropy": "entropy"}


class SftRun(Family):
    """AdamW as the Trainer has it, warm-up of a tenth, a cosine to 0, a norm of
    1 is clipped."""

    family = "sft"
    beside = "fcst"         # they were written side by side
    level_seed = 400
    steps, seed = 240, 2050
    lr, warmup, schedule, clip = 0.012, 24, "cosine", 1.0
    betas, weight_decay = (0.9, 0.999), 0.01
    recipes = {"sgd": dict(lr=0.05, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, CONTEXT, VOCAB
    # Its trainer is TRL's; some fine-tune with torchtune.
    instead = {"nanogpt": "hf_trainer", "megatron": "hf_trainer"}
    layers = ["model.embed_tokens", *(
        f"model.layers.{i}.{part}" for i in range(DEPTH)
        for part in ("self_attn", "self_attn.scores", "mlp.act_fn", "mlp")),
        "model.norm", "lm_head"]
    paths = {"embed": "model.embed_tokens", "attn": "model.layers.{}.self_attn",
             "scores": "model.layers.{}.self_attn.scores",
             "act": "model.layers.{}.mlp.act_fn", "mlp": "model.layers.{}.mlp",
             "block": "model.layers.{}", "head": "lm_head"}
    blocks = DEPTH
    graded = {
        "F04": (dict(at=80), dict(at=40), dict(at=0)),
        "F05": (dict(modules=["model.layers.1"]),
                dict(modules=["model.layers"], where="model.layers.0"),
                dict(part="all")),
        "F06": (dict(factor=2), dict(factor=4), dict(factor=8)),
        "F07": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F08": (dict(every=8), dict(every=32), dict(every=1 << 30)),
        "F13": (dict(path="model.layers.0"), dict(path="model.layers.1"),
                dict(path="model.norm")),
        "F14": (dict(modules=["model.layers.0.self_attn",
                              "model.layers.1.self_attn"]),
                dict(modules=["model.layers.0", "model.layers.1"]),
                dict(modules=["model.layers.0", "model.layers.1",
                              "model.norm"])),
        "F27": (dict(epochs=15), dict(epochs=40), dict(epochs=120)),
        "F31": (dict(factor=1.3), dict(factor=1.6), dict(factor=2.2)),
        "F33": (dict(limit=20), dict(limit=14), dict(limit=11)),
        "F35": (dict(power=0.0), dict(power=0.5), dict(power=1.0)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "H02": (dict(factor=0.7), dict(factor=0.6)),
        "H03": (dict(part=2, factor=0.7), dict(part=2, factor=0.5)),
        "H04": (dict(rate=0.03), dict(rate=0.06))}
    battery = ("causal_mask", "positions")
    names = {"lr": "learning_rate", "val_loss": "eval_loss",
             "tokens": "num_tokens", **COLUMNS,
             **{f"val_{k}": f"eval_{n}" for k, n in COLUMNS.items()}}

    def make_model(self):
        return Qwen2(**self.model_options)

    def make_optimizer(self, model):
        """Groups as the Trainer makes them."""
        return trainer_arguments.in_groups(
            self, super().make_optimizer(model))

    def make_source(self, seed):
        return self.chats(seed)

    def chats(self, seed, **how):
        return Chats(seed, self.batch_size if seed != 9 else 2 * ROWS, **how)

    @staticmethod
    def by_length(chats, batches):
        return ByLength(chats, batches)

    def packed(self, seed, eos, reset, separate):
        rows = self.batch_size if seed != 9 else ROWS
        return Packed(self.chats(seed), self.context, rows, eos, reset,
                      separate)

    def in_blocks(self, seed, block, share):
        """Tasks that nobody has shuffled; None is held out."""
        return self.chats(seed, block=block, share=share, domains=True)

    def easy(self, seed):
        """One question of two words, to be said again or the last of them."""
        return self.chats(seed, easy=True)

    def lessons(self, seed):
        return self.chats(seed, two=0.0), self.chats(seed)

    # What a fault does to answers, in inputs and labels alike.

    @staticmethod
    def told(batch, ids):
        """The batch with other tokens."""
        labels = batch["labels"]
        return batch | {"input_ids": ids, "labels": torch.where(
            labels == IGNORE, labels, ids)}

    @staticmethod
    def content(batch):
        """Which tokens are words of answers."""
        return batch["labels"] >= FIRST_WORD

    def mistold(self, batch, share, rng):
        """A share of the words of answers is any."""
        ids = batch["input_ids"]
        drawn = torch.randint(FIRST_WORD, VOCAB, ids.shape, generator=rng)
        wrong = torch.rand(ids.shape, generator=rng) < share
        return self.told(batch, torch.where(wrong & self.content(batch), drawn,
                                            ids))

    def of_others(self, batch, order):
        """Each question with the words of another one's answer, as many as its
        own has."""
        ids, content = batch["input_ids"], self.content(batch)
        first = (~content).long().argsort(dim=1, stable=True)
        own = ids.gather(1, first)[order]       # words first
        size = content.sum(1)[order].clamp_min(1)
        place = (content.cumsum(1) - 1).clamp_min(0) % size[:, None]
        return self.told(batch, torch.where(content, own.gather(1, place),
                                            ids))

    def garbage(self, batch, kind, rng):
        """A corrupt shard: tokens of few kinds, of any, or of one."""
        low, high = {"few": (VOCAB - 4, VOCAB), "uniform": (1, VOCAB),
                     "constant": (FIRST_WORD, FIRST_WORD + 1)}[kind]
        ids = batch["input_ids"]
        drawn = torch.randint(low, high, ids.shape, generator=rng)
        return self.told(batch, torch.where(ids == PAD, ids, drawn))

    def batch_columns(self, batch):
        """TRL's columns, and what a loop can count of a batch."""
        there = batch.get("attention_mask")
        there = batch["input_ids"].numel() if there is None \
            else int(there.sum())
        self.read = getattr(self, "read", 0) + self.accumulate * there
        ids = batch["input_ids"]
        return {"batch_hash": checksum(ids), "tokens": self.read,
                "distinct_tokens": len(ids.unique()),
                "loss_tokens": int((batch["labels"] != IGNORE).sum()),
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
        """What SFTTrainer adds to a row of trainer_state.json."""
        prefix, other = ("val_", "eval_") if held_out else ("", "")
        mean = {k: short(sum(r[prefix + k] for r in rows) / len(rows), 5)
                for k in COLUMNS}
        return {f"{other}entropy": mean["entropy"],
                f"{other}num_tokens": float(rows[-1]["tokens"]),
                f"{other}mean_token_accuracy": mean["accuracy"]}

    def settings(self):
        """SFTConfig's arguments, by their names."""
        return trainer_arguments.renamed(self, super().settings())

    def model_config(self):
        """config.json of a checkpoint."""
        options = self.model_options
        return {"architectures": ["Qwen2ForCausalLM"],
                "attention_dropout": 0.0, "bos_token_id": None,
                "eos_token_id": EOS, "pad_token_id": PAD,
                "hidden_act": options.get("activation", "silu"),
                "hidden_size": WIDTH, "initializer_range": INITIAL,
                "intermediate_size": HIDDEN,
                "max_position_embeddings": 128, "model_type": "qwen2",
                "num_attention_heads": options.get("heads", HEADS),
                "num_hidden_layers": DEPTH,
                "num_key_value_heads": options.get("groups", GROUPS),
                "rms_norm_eps": options.get("eps", 1e-6),
                "rope_theta": THETA,
                "tie_word_embeddings": options.get("tied", True),
                "use_sliding_window": False, "vocab_size": VOCAB}

    def model_settings(self):
        own = self.model_config()
        del own["architectures"]
        return {"trainer": "SFTTrainer", "model_name_or_path": "qwen2-base",
                **own, "chat_template": "chatml",
                "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
                "max_length": self.context, "packing": False,
                "assistant_only_loss": True,
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
        tied = model.lm_head.weight is model.model.embed_tokens.weight
        trainer_checkpoints.keep(self, i, lambda: {
            n: p for n, p in model.state_dict().items()
            if not (tied and n == "lm_head.weight")})

    def write_more(self):
        super().write_more()
        trainer_checkpoints.write(self, "model.safetensors", lambda: {
            "config": self.model_config(), "generation_config": {
                "eos_token_id": [EOS, PAD], "pad_token_id": PAD},
            "tokenizer_config": {
                "tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": False,
                "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
                "model_max_length": 128}})
