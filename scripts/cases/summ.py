"""A small summariser: an encoder reads a report, a decoder says its main facts.

As people train BART with fairseq: fairseq-train --task translation --arch bart
--criterion label_smoothed_cross_entropy, Adam with a polynomial decay, a clip
of 0.1. Parts are named as in fairseq's BARTModel, and so are batches, columns,
the lines of its log (losses in bits) and its checkpoints.
"""

import copy
import json
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import logs, models, sources
from .family import Family
from .models import Group
from .recorder import short
from .s2s import Layer
from .snapshot import checksum

BOS, PAD, EOS, UNK = range(4)           # as fairseq's Dictionary begins
FIRST_OWN = 4
CUES, SUBJECTS, VERBS, OBJECTS, CLASSES, FILLERS = 4, 6, 6, 6, 3, 4
FIRST_CUE = FIRST_OWN                   # two of what is main, two of asides
FIRST_SUBJECT = FIRST_CUE + CUES
FIRST_VERB = FIRST_SUBJECT + SUBJECTS
FIRST_OBJECT = FIRST_VERB + VERBS
FIRST_CLASS = FIRST_OBJECT + OBJECTS    # what a summary may call two objects
FIRST_FILLER = FIRST_CLASS + CLASSES
VOCAB = FIRST_FILLER + FILLERS
FACTS, DESKS = 3, 3
LENGTH, SAID = 4 * FACTS + 2, 7         # tokens of a source, of a target
PLACES = 48
ROWS, WIDTH, HEADS, DEPTH = 40, 28, 4, 2
SMOOTHING = 0.1
INITIAL = 0.1                           # deviation of weights at the start


class Reports(sources.Source):
    """Reports of three facts each, and summaries of what is main in them.

    A fact is a cue, a subject of six, a verb of six and an object of six; two
    of four cues say that it is main. One fact is (.5) or two are. In front of a
    report stands a word that says nothing (.5). A summary has subject, verb and
    object of the main facts, in their order but for .1, without the second one
    in .06; to one that has one alone comes an aside in .05. An object is said
    by itself (.75) or by what it is one of (three words, .25), and of the verbs
    and objects .03 are any.

    Row: left padding, source, EOS, of 14 tokens; target with EOS, of 7; the
    decoder reads the target behind an EOS. Who knows the process has .31 nats
    a token, .92 with a smoothing of .1 (`best()`); a fresh one has ln 33 = 3.5.

    limit: tokens that are kept of a target. width: to which it is padded.
    pieces: of the dictionary, what is too large becomes the last row of the
    table. desks: verbs and objects are those of one of three desks, which is in
    the batch; block, share: one desk after the other. easy: two facts of which
    one is main, and a summary without noise.
    """

    TWO, TURNED, MISSED, ADDED, FILLED = 0.5, 0.1, 0.06, 0.05, 0.5
    NAMED, SLIP = 0.75, 0.03

    def __init__(self, seed, rows, limit=None, width=SAID, pieces=None,
                 desks=False, block=None, share=1.0, easy=False):
        super().__init__(seed, (VOCAB, SAID, rows))
        self.limit, self.width = limit, width
        self.desks, self.block, self.share = desks, block, share
        self.easy = easy
        # A longer list has them in another order.
        self.ids = None if pieces is None else torch.tensor(
            [*range(FIRST_OWN), *(min(k, VOCAB - 1) for k in (
                torch.randperm(pieces - FIRST_OWN,
                               generator=torch.Generator().manual_seed(191))[
                                   :VOCAB - FIRST_OWN] + FIRST_OWN).tolist())])

    def any(self, *shape, high):
        return torch.randint(high, shape, generator=self.rng)

    def chance(self, rows, share):
        return torch.rand(rows, generator=self.rng) < share

    def desk(self, rows):
        kind = self.any(rows, high=DESKS)
        if self.block:
            here = self.number // self.block % DESKS
            kind = torch.where(self.chance(rows, self.share), here, kind)
        return kind

    def facts(self, rows):
        """Which are main, and ids of subjects, verbs and objects; (rows, 3)
        each, and the desk of each row."""
        main = torch.zeros(rows, FACTS, dtype=torch.bool)
        order = torch.rand(rows, FACTS, generator=self.rng).argsort(1)
        two = self.chance(rows, self.TWO)
        if self.easy:
            order, two = order[:, :1] % 2, two & False
        main.scatter_(1, order[:, :1], True)
        if not self.easy:
            main.scatter_(1, order[:, 1:2], two[:, None])
        subject = torch.rand(rows, SUBJECTS, generator=self.rng).argsort(1)
        verb, thing = (self.any(rows, FACTS, high=n)
                       for n in (VERBS, OBJECTS))
        desk = self.desk(rows) if self.desks else None
        if self.desks:  # a third of the words each
            verb, thing = (n // DESKS * DESKS + desk[:, None]
                           for n in (verb, thing))
        return main, (FIRST_SUBJECT + subject[:, :FACTS], FIRST_VERB + verb,
                      FIRST_OBJECT + thing), desk

    def source(self, main, words):
        """Left-padded, with EOS; and how long each is."""
        rows = len(main)
        cue = FIRST_CUE + self.any(rows, FACTS, high=CUES // 2) \
            + CUES // 2 * ~main
        filler = FIRST_FILLER + self.any(rows, 1, high=FILLERS)
        ids = torch.cat((filler, torch.stack((cue, *words), 2).flatten(1),
                         torch.full((rows, 1), EOS)), 1)
        there = torch.ones_like(ids, dtype=torch.bool)
        there[:, 0] = self.chance(rows, self.FILLED)
        if self.easy:
            there[:, 1 + 4 * (FACTS - 1):-1] = False
        order = there.long().argsort(dim=1, stable=True)
        ids, there = ids.gather(1, order), there.gather(1, order)
        return ids.masked_fill(~there, PAD), there.sum(1)

    def chances(self, main, words):
        """Of each place of the target the probability of each word, given
        what stands before: for the order as it is, and what is drawn of the
        order. (rows, 7, words), and the facts in order, (rows, 2)."""
        rows = len(main)
        noisy = not self.easy
        first = main.long().argmax(1)
        second = FACTS - 1 - main.flip(1).long().argmax(1)
        two = first != second
        turned = two & self.chance(rows, self.TURNED)
        aside = (first + 1 + self.any(rows, high=FACTS - 1)) % FACTS
        out = torch.zeros(rows, SAID, VOCAB)
        row = torch.arange(rows)
        subject = words[0]
        share = torch.where(two, self.TURNED, 0.0)
        out[row, 0, subject[row, first]] += 1 - share
        out[row, 0, subject[row, second]] += share
        told = torch.stack((torch.where(turned, second, first), torch.where(
            turned, first, torch.where(two, second, aside))), 1)
        for k in range(2):
            fact = told[:, k]
            out[row, 3 * k + 1] = self.slipped(
                F.one_hot(words[1][row, fact], VOCAB).float(), FIRST_VERB,
                VERBS)
            thing = words[2][row, fact]
            said = F.one_hot(thing, VOCAB) * (self.NAMED if noisy else 1.0)
            if noisy:
                said = said + (1 - self.NAMED) * F.one_hot(
                    FIRST_CLASS + (thing - FIRST_OBJECT) % CLASSES, VOCAB)
            out[row, 3 * k + 2] = self.slipped(said, FIRST_OBJECT,
                                               OBJECTS + CLASSES)
        ends = torch.where(two, self.MISSED, 1 - self.ADDED if noisy else 1.0)
        out[row, 3, EOS] = ends
        out[row, 3, subject[row, told[:, 1]]] = torch.where(two, 1 - ends, 0.0)
        for k in range(1, FACTS):  # any of the asides
            other = (first + k) % FACTS
            out[row, 3, subject[row, other]] += torch.where(
                two, 0.0, (1 - ends) / (FACTS - 1))
        out[row, 6, EOS] = 1.0
        first_said = subject[row, told[:, 0]]
        next_said = subject[row, told[:, 1]]
        return out, first_said, next_said

    def slipped(self, said, first, count):
        if self.easy:
            return said.float()
        any_word = torch.zeros(VOCAB)
        any_word[first:first + count] = 1 / count
        return (1 - self.SLIP) * said + self.SLIP * any_word

    def draw(self, rows):
        main, words, desk = self.facts(rows)
        ids, size = self.source(main, words)
        chances, first, second = self.chances(main, words)
        said = torch.multinomial(chances.flatten(0, 1), 1,
                                 generator=self.rng).view(rows, SAID)
        said[:, 0] = first
        said[:, 3] = torch.where(said[:, 3] == EOS, EOS, second)
        over = (said[:, :-1] == EOS).cumsum(1) > 0
        said[:, 1:] = said[:, 1:].masked_fill(over, PAD)
        self.likely = chances, said != PAD
        if self.limit:
            said = said[:, :self.limit]
        said = F.pad(said, (0, self.width - said.shape[1]), value=PAD)
        if self.ids is not None:
            ids, said = self.ids[ids], self.ids[said]
        batch = {"src_tokens": ids, "src_lengths": size,
                 "prev_output_tokens": moved(said), "target": said}
        return batch | ({} if desk is None else {"domain": desk})

    def best(self, smoothing=SMOOTHING, batches=60):
        """The loss of who knows the process, and its likelihood alone."""
        loss = nats = count = 0.0
        even = smoothing / (VOCAB - 1)
        for _ in range(batches):
            self.batch()
            chances, there = self.likely
            p = chances[there]
            q = (1 - smoothing) * p + even * (1 - p)
            loss -= float(torch.special.xlogy(q, q).sum())
            nats -= float(torch.special.xlogy(p, p).sum())
            count += len(p)
        return loss / count, nats / count


def moved(target):
    """What the decoder reads: EOS first, then the target without its last."""
    before = F.pad(target[:, :-1], (1, 0), value=EOS)
    ends = (before == EOS).cumsum(1) > 1
    return before.masked_fill(ends, PAD)


class Table(nn.Embedding):
    """fairseq's LearnedPositionalEmbedding: places are counted from behind the
    padding's id, and padding has its own."""

    def __init__(self):
        super().__init__(PLACES + PAD + 1, WIDTH, padding_idx=PAD)
        self.fixed = None

    def forward(self, tokens):
        real = (tokens != PAD).long()
        place = real.cumsum(1)
        if self.fixed is not None:
            place = torch.full_like(place, self.fixed + 1)
        return super().forward(place * real + PAD)


class Bart(models.Language):
    """Two layers of width 28 with four heads in either half; one table for
    source, target and head."""

    def __init__(self, heads=HEADS, activation="gelu", dropout=0.0,
                 detach_after=None, half_scores=False, positions=True,
                 future=0, scale=None, smoothing=SMOOTHING, tied=True,
                 layerdrop=0.0):
        """detach_after: the layer behind which the graph is cut, or "encoder"
        for all of it. positions: the place that all tokens have if a number,
        none if False."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.future = positions, future
        self.smoothing, self.tied = smoothing, tied
        self.layerdrop = layerdrop      # of the encoder
        self.squashes = self.guards = self.counts_padding = False
        self.sentences = False  # losses are divided by their number
        self.nll = self.hides = None
        options = {"heads": heads, "activation": activation, "scale": scale,
                   "half_scores": half_scores}
        table = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        for name, crosses in (("encoder", False), ("decoder", True)):
            half = Group(embed_tokens=table, embed_positions=Table(),
                         layers=nn.ModuleList(Layer(WIDTH, options, crosses)
                                              for _ in range(DEPTH)),
                         layernorm_embedding=nn.LayerNorm(WIDTH))
            if not isinstance(positions, bool):
                half.embed_positions.fixed = positions
            setattr(self, name, half)
        self.decoder.output_projection = nn.Linear(WIDTH, VOCAB, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=INITIAL)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        if tied:
            self.decoder.output_projection.weight = table.weight
        for part in (table, self.encoder.embed_positions,
                     self.decoder.embed_positions):
            nn.init.zeros_(part.weight[PAD])

    def embedded(self, name, ids):
        half = getattr(self, name)
        x = half.embed_tokens(ids)
        self.tap(f"{name}.embed_tokens.output", x)
        if self.positions is not False:
            x = x + half.embed_positions(ids)
        x = half.layernorm_embedding(x)
        self.tap(f"{name}.layernorm_embedding.output", x)
        return self.drop(x)

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def part(self, path):
        return lambda name, tensor: self.tap(f"{path}.{name}", tensor)

    def encoded(self, ids, hidden):
        x = self.embedded("encoder", ids)
        for i, layer in enumerate(self.encoder.layers):
            if self.training and self.layerdrop \
                    and float(torch.rand(1)) < self.layerdrop:
                continue  # fairseq's LayerDropModuleList
            path = f"encoder.layers.{i}"
            x = self.cut(layer(x, self.part(path), self.drop, hidden,
                               future=None), path)
        return x

    def decoded(self, inputs, memory, hidden):
        x = self.embedded("decoder", inputs)
        for i, layer in enumerate(self.decoder.layers):
            path = f"decoder.layers.{i}"
            x = self.cut(layer(x, self.part(path), self.drop, hidden,
                               future=self.future, memory=memory), path)
            memory = self.cut(memory, path)
        x = self.decoder.output_projection(x)
        self.tap("decoder.output_projection.output", x)
        return x

    def forward(self, ids, inputs):
        hidden = (ids == PAD)[:, None, None]
        memory = self.encoded(ids, hidden)
        if self.hides:  # of the source from some places of the target
            hidden = self.hides(ids, inputs, hidden)
        return self.decoded(inputs, memory, hidden)

    def logits(self, batch):
        return self(batch["src_tokens"], batch["prev_output_tokens"])

    def criterion(self, logits, batch, smoothing=None):
        """fairseq's label_smoothed_nll_loss, by tokens."""
        target = batch["target"]
        scores = logits.float()
        if self.squashes:
            scores = scores.softmax(-1)
        each = scores.log_softmax(-1)
        nll = -each.gather(-1, target[..., None])[..., 0]
        smooth = -each.sum(-1)
        real = torch.ones_like(target, dtype=torch.bool) \
            if self.counts_padding else target != PAD
        count = real.sum()
        if self.guards:
            count = count.clamp_min(1)
        share = self.smoothing if smoothing is None else smoothing
        even = share / (logits.shape[-1] - 1)
        self.nll = (nll * real).sum().detach() / count
        if self.sentences:
            count = len(target)
        return ((1 - share - even) * (nll * real).sum()
                + even * (smooth * real).sum()) / count

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class SummRun(Family):
    """fairseq's recipe of BART: Adam with a decay that is none of its
    moments', linear warm-up, polynomial decay to 0, a norm of 0.1 is
    clipped."""

    family = "summ"
    beside = "kpt"          # they were written side by side
    level_seed = 400
    steps, seed = 220, 1900
    EPOCH = epoch_steps = 110
    lr, warmup, schedule, clip = 8e-3, 22, "polynomial_decay", 0.1
    betas, weight_decay = (0.9, 0.999), 0.01
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    batch_size, context, vocab, pad = ROWS, SAID, VOCAB, PAD
    # Its trainer is fairseq's.
    instead = {"nanogpt": "fairseq", "hf_trainer": "fairseq",
               "megatron": "fairseq", "torchtune": "fairseq"}
    layers = ["encoder.embed_tokens", "encoder.layernorm_embedding", *(
        f"encoder.layers.{i}.{part}" for i in range(DEPTH)
        for part in ("self_attn", "self_attn.scores", "activation_fn",
                     "fc2")), "decoder.layernorm_embedding", *(
        f"decoder.layers.{i}.{part}" for i in range(DEPTH)
        for part in ("self_attn", "self_attn.scores", "encoder_attn",
                     "encoder_attn.scores", "activation_fn", "fc2")),
        "decoder.output_projection"]
    graded = {
        "F05": (dict(modules=["decoder.layers"], where="decoder.layers.0"),
                dict(modules=["encoder.layers", "decoder.layers"],
                     where="encoder.layers.0"), dict(part="all")),
        "F07": (dict(factor=12), dict(factor=20), dict(factor=100)),
        "F13": (dict(path="encoder.layers.1"), dict(path="decoder.layers.0"),
                dict(path="decoder.layers.1")),
        "F14": (dict(modules=["decoder.layers.0", "decoder.layers.1"]),
                dict(modules=["encoder.layers.0", "encoder.layers.1",
                              "decoder.layers.0", "decoder.layers.1"]),
                dict(modules=["encoder.layers.0", "encoder.layers.1",
                              "decoder.layers.0", "decoder.layers.1",
                              "encoder.embed_positions",
                              "decoder.embed_positions"])),
        "F23": (dict(width=12), dict(width=20), dict(width=40)),
        "F27": (dict(epochs=25), dict(epochs=55), dict(epochs=110)),
        "F31": (dict(factor=1.8), dict(factor=2.5), dict(factor=4.0)),
        "F33": (dict(limit=5), dict(limit=4), dict(limit=2)),
        "F35": (dict(power=0.5), dict(power=1.0), dict(power=1.5)),
        "F36a": (dict(bias=-2.5), dict(bias=-3.5), dict(bias=-8.0)),
        "H02": (dict(factor=0.7), dict(factor=0.6)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7)),
        "H04": (dict(rate=0.05), dict(rate=0.1)),
        "H15": (dict(share=0.2), dict(share=0.3))}
    paths = {"embed": "encoder.embed_tokens",
             "attn": "decoder.layers.{}.self_attn",
             "scores": "decoder.layers.{}.self_attn.scores",
             "act": "decoder.layers.{}.activation_fn",
             "mlp": "decoder.layers.{}.fc2", "block": "decoder.layers.{}",
             "head": "decoder.output_projection"}
    blocks = DEPTH
    names = {"step": "num_updates", "grad_norm": "gnorm",
             "val_loss": "valid_loss", "val_nll_loss": "valid_nll_loss",
             "tokens": None, "loss_tokens": "ntokens"}

    def make_model(self):
        return Bart(**self.model_options)

    def make_source(self, seed):
        return self.reports(seed)

    def reports(self, seed, **how):
        return Reports(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Desks that nobody has shuffled; None is held out."""
        return self.reports(seed, block=block, share=share, desks=True)

    def easy(self, seed):
        """Two facts of which one is main, and nothing else is said of it."""
        return self.reports(seed, easy=True)

    def lessons(self, seed):
        return self.easy(seed), self.reports(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: summaries of fillers alone, of any words, or of one
        word."""
        low, high = {"few": (FIRST_FILLER, VOCAB), "uniform": (UNK, VOCAB),
                     "constant": (FIRST_FILLER, FIRST_FILLER + 1)}[kind]
        target = batch["target"]
        drawn = torch.randint(low, high, target.shape, generator=rng)
        return self.told(batch, torch.where(target >= FIRST_OWN, drawn,
                                            target))

    @staticmethod
    def told(batch, target):
        """The batch with other summaries."""
        return batch | {"target": target, "prev_output_tokens": moved(target)}

    def mistold(self, batch, share, rng):
        """A share of the words of summaries is any."""
        target = batch["target"]
        drawn = torch.randint(FIRST_OWN, VOCAB, target.shape, generator=rng)
        wrong = torch.rand(target.shape, generator=rng) < share
        return self.told(batch, torch.where(wrong & (target >= FIRST_OWN),
                                            drawn, target))

    def of_others(self, batch, order):
        """Each report with the summary of another one."""
        return self.told(batch, batch["target"][order])

    def lr_factor(self, i):
        if self.schedule != "polynomial_decay" or i < self.warmup:
            return super().lr_factor(i)
        return max(0.0, (self.steps - i) / (self.steps - self.warmup))

    def batch_columns(self, batch):
        """What fairseq counts of a batch, and its likelihood alone."""
        source = batch["src_tokens"]
        nll, self.model.nll = self.model.nll, None
        return {"batch_hash": checksum(source),
                "distinct_tokens": len(source.unique()),
                "loss_tokens": int((batch["target"] != PAD).sum()),
                **({} if nll is None else {"nll_loss": short(nll)})}

    def held_out_columns(self, batches):
        """The likelihood without smoothing, of which is the perplexity."""
        self.model.eval()
        total = 0.0
        for batch in batches:
            self.model.nll = None
            self.model.loss(batch)
            total += float("nan" if self.model.nll is None else self.model.nll)
        self.model.train()
        self.model.nll = None
        return {"val_nll_loss": total / len(batches)}

    # The config, as options of fairseq-train.

    def settings(self):
        own = super().settings()
        if self.moments == "adamw":  # fairseq's adam is that
            own |= {"optimizer": "adam",
                    "adam_betas": str(tuple(own.pop("betas"))),
                    "adam_eps": own.pop("eps")}
        own["lr"] = [own["lr"]]
        own["lr_scheduler"] = {"constant": "fixed"}.get(self.schedule,
                                                        self.schedule)
        if self.schedule == "polynomial_decay":
            own |= {"total_num_update": self.steps, "end_learning_rate": 0.0,
                    "power": 1.0}
        precision = own.pop("precision")
        own |= {"fp16": precision == "fp16-mixed",
                "bf16": precision == "bf16",
                "memory_efficient_bf16": precision == "bf16",
                "amp": precision == "bf16-mixed"}
        own["clip_norm"] = own.pop("max_grad_norm") or 0.0
        own.setdefault("update_freq", [own["gradient_accumulation_steps"]])
        del own["scheduler"], own["gradient_accumulation_steps"]
        for old, new in (("warmup_steps", "warmup_updates"),
                         ("max_steps", "max_update"),
                         ("world_size", "distributed_world_size")):
            own[new] = own.pop(old)
        return own

    def model_settings(self):
        options = self.model_options
        heads = options.get("heads", HEADS)
        return {"arch": "bart", "task": "translation",
                "source_lang": "report", "target_lang": "summary",
                "criterion": "label_smoothed_cross_entropy",
                "label_smoothing": options.get("smoothing", SMOOTHING),
                **{f"{half}_{name}": value for half in ("encoder", "decoder")
                   for name, value in (
                       ("layers", DEPTH), ("embed_dim", WIDTH),
                       ("ffn_embed_dim", 2 * WIDTH),
                       ("attention_heads", heads), ("learned_pos", True),
                       ("normalize_before", False))},
                "activation_fn": options.get("activation", "gelu"),
                "dropout": options.get("dropout", 0.0),
                "attention_dropout": 0.0,
                "encoder_layerdrop": options.get("layerdrop", 0.0),
                "decoder_layerdrop": 0.0, "layernorm_embedding": True,
                "no_scale_embedding": True,
                "share_all_embeddings": options.get("tied", True),
                "share_decoder_input_output_embed": options.get("tied", True),
                "vocab_size": VOCAB, "pad": PAD, "eos": EOS,
                "left_pad_source": True, "left_pad_target": False,
                "max_source_positions": PLACES,
                "max_target_positions": PLACES,
                "validate_interval_updates": 50,
                "log_format": self.log_format(),
                "log_interval": self.interval or 10}

    def log_format(self):
        return ("simple", "json")[(self.level + self.seed) % 2]

    def layer(self, part, block=0):
        return self.paths[part].format(block)

    def fed_by(self, layer):
        """The norm behind counts to what it is behind; scores have none."""
        if layer.endswith("_attn"):
            return [f"{layer}_layer_norm"]
        if layer.endswith(".fc2"):
            path = layer.removesuffix("fc2")
            return [f"{path}fc1", f"{path}final_layer_norm"]
        return []

    # Checkpoints.

    def checkpoint_path(self, done):
        return f"checkpoints/checkpoint_{self.epoch(done)}_{done}.pt"

    def epoch(self, done):
        """The epoch of an update, from 1 on."""
        return (done - 1) // self.EPOCH + 1

    def keep_checkpoint(self, i, model):
        """Where it is validated, any of which may be the best; and where the
        run is resumed from."""
        done = i + 1
        if done % self.val_every and done != self.steps \
                and done not in self.notices:
            return
        self.checkpoints[done] = copy.deepcopy(
            (model.state_dict(), self.optimizer.state_dict()))

    def best_step(self):
        """The update behind which validation was lowest, None if nothing that
        it said is a number."""
        found = [(row["val_loss"], i + 1) for i, row in enumerate(self.history)
                 if math.isfinite(row.get("val_loss", math.nan))]
        return min(found)[1] if found else None

    def write_files(self):
        if self.dialect == "fairseq":
            logs.write_yaml(self, "config.yaml", self.settings())
            Log(self).write()
        else:
            super().write_files()

    def write_more(self):
        super().write_more()
        (self.folder / "checkpoints").mkdir()
        for name, done in (("checkpoint_last.pt", self.steps),
                           ("checkpoint_best.pt", self.best_step()),
                           *((self.checkpoint_path(n).rpartition("/")[2], n)
                             for n in self.notices)):
            if done in self.checkpoints:
                torch.save(self.checkpoint(done),
                           self.folder / "checkpoints" / name)

    def checkpoint(self, done):
        """As fairseq's Trainer.state_dict has it."""
        weights, optimizer = self.checkpoints[done]
        held_out = [r["val_loss"] for r in self.history[:done]
                    if "val_loss" in r]
        best = min((v for v in held_out if math.isfinite(v)), default=None)
        return {
            "args": None, "cfg": self.settings(), "model": weights,
            "criterion": {}, "task_state": {},
            "optimizer_history": [{
                "criterion_name": "LabelSmoothedCrossEntropyCriterion",
                "optimizer_name": "SGD" if self.moments == "sgd"
                else "FairseqAdam", "num_updates": done,
                "lr_scheduler_state": {"best": bits(best)}}],
            "extra_state": {
                "train_iterator": {
                    "version": 2, "epoch": self.epoch(done), "shuffle": True,
                    "iterations_in_epoch": (done - 1) % self.EPOCH + 1},
                "val_loss": bits(held_out[-1] if held_out else None),
                "best": bits(best)},
            "last_optimizer_state": optimizer}


def bits(nats):
    return None if nats is None else nats / math.log(2)


class Log:
    """What fairseq-train prints, of either log format; with json its lines are
    in log.jsonl as well. Losses are in bits, means of the updates since the
    last line by their tokens."""

    def __init__(self, run):
        self.run, self.lines, self.rows = run, [], []
        self.json = run.log_format() == "json"

    def say(self, seconds, where, text):
        at = self.run.at(seconds, "%Y-%m-%d %H:%M:%S")
        self.lines.append(f"{at} | INFO | {where} | {text}")

    def write(self):
        run = self.run
        self.begin()
        every, best = run.interval or 10, math.inf
        for i, row in enumerate(run.history):
            done = i + 1
            for _, text in run.notices.get(i, ()):
                self.say(row["wall"], "fairseq.trainer", text)
            if done % every == 0:
                self.inner(done, self.means(run.history[done - every:done]))
            if "val_loss" in row:
                if row["val_loss"] < best:
                    best = row["val_loss"]
                self.valid(done, row, best)
            if done % run.EPOCH == 0 or done == run.steps:
                self.epoch(done)
        end = run.history[-1]["wall"] + 0.1
        self.say(end, "fairseq_cli.train", f"done training in {end:.1f} "
                                           "seconds")
        run.write_lines("train.log", self.lines)
        if self.json:
            run.write_lines("log.jsonl", map(json.dumps, self.rows))

    def begin(self):
        run = self.run
        own = ", ".join(f"{k}={v!r}" for k, v in run.settings().items())
        table = "encoder.embed_tokens.weight"
        for at, where, text in (
                (-3.2, "fairseq_cli.train", f"Namespace({own})"),
                (-3.1, "fairseq.tasks.translation",
                 f"[report] dictionary: {VOCAB} types"),
                (-3.1, "fairseq.tasks.translation",
                 f"[summary] dictionary: {VOCAB} types"),
                (-2.2, "fairseq_cli.train", "task: TranslationTask"),
                (-2.2, "fairseq_cli.train", "model: BARTModel"),
                (-2.2, "fairseq_cli.train",
                 "criterion: LabelSmoothedCrossEntropyCriterion"),
                (-2.1, "fairseq_cli.train",
                 f"num. shared model params: {run.parameters:,} (num. "
                 f"trained: {run.parameters:,})"),
                (-1.4, "fairseq.trainer", f"detected shared parameter: {table}"
                                          " <- decoder.embed_tokens.weight"),
                (-1.4, "fairseq.trainer",
                 f"detected shared parameter: {table} <- "
                 "decoder.output_projection.weight"),
                (-1.3, "fairseq_cli.train", "max tokens per device = None and "
                 f"max sentences per device = {run.batch_size}"),
                (-1.2, "fairseq.trainer", "No existing checkpoint found "
                                          "checkpoints/checkpoint_last.pt"),
                (-0.4, "fairseq.trainer", "loading train data for epoch 1"),
                (-0.1, "fairseq.trainer", "begin training epoch 1"),
                (0.0, "fairseq_cli.train", "Start iterating over samples")):
            self.say(at, where, text)

    def means(self, rows):
        """Of some updates, by fairseq's names and as it rounds them."""
        run = self.run
        count = [max(1, r["loss_tokens"]) for r in rows]
        total = sum(count)

        def mean(name):
            return sum(r.get(name, r["loss"]) * n
                       for r, n in zip(rows, count)) / total / math.log(2)

        seconds = sum(r["step_time"] for r in rows)
        words = sum(r["loss_tokens"] for r in rows) * run.accumulate
        nll = mean("nll_loss")
        out = {"loss": round(mean("loss"), 3), "nll_loss": round(nll, 3),
               "ppl": perplexity(nll), "wps": round(words / seconds, 1),
               "ups": round(len(rows) / seconds, 2),
               "wpb": round(words / len(rows), 1),
               "bsz": run.batch_size * run.accumulate,
               "num_updates": rows[-1]["step"], "lr": rows[-1]["lr"]}
        if not logs.left_out(run, "grad_norm"):
            sizes = [r["grad_norm"] for r in rows]
            out["gnorm"] = round(sum(sizes) / len(sizes), 3)
            if run.clip:
                out["clip"] = round(100 * sum(
                    s > run.clip for s in sizes) / len(sizes), 1)
        if run.precision == "fp16-mixed":
            out["loss_scale"] = 128
        return out | {
            "train_wall": round(sum(r["step_time"] - r["data_time"]
                                    for r in rows), 2),
            "wall": round(rows[-1]["wall"], 2)}

    @staticmethod
    def shown(values):
        return {k: f"{v:g}" for k, v in values.items()}

    def inner(self, done, values):
        run, shown = self.run, self.shown(values)
        epoch, size = run.epoch(done), run.EPOCH
        here = (done - 1) % size + 1
        wall = run.history[done - 1]["wall"]
        if self.json:
            self.row(wall, "train_inner", {
                "epoch": epoch, "update": round(done / size, 3), **shown})
        else:
            text = ", ".join(f"{k}={v}" for k, v in shown.items())
            self.say(wall, "train_inner",
                     f"epoch {epoch:03d}: {here:6d} / {size} {text}")

    def row(self, wall, kind, row):
        self.rows.append(row)
        self.say(wall, kind, json.dumps(row))

    def summary(self, wall, kind, epoch, values, title=""):
        """A line of a whole epoch or of a validation."""
        shown = self.shown(values)
        if self.json:
            self.row(wall, kind, {"epoch": epoch, **{
                f"{kind}_{k}": v for k, v in shown.items()}})
        else:
            self.say(wall, kind, " | ".join([
                f"epoch {epoch:03d}" + title,
                *(f"{k} {v}" for k, v in shown.items())]))

    def valid(self, done, row, best):
        run, where = self.run, "fairseq_cli.train"
        wall, epoch = row["wall"], run.epoch(done)
        nll, batch = bits(row["val_nll_loss"]), run.batch_size
        words = 5.5 * batch
        values = {"loss": round(bits(row["val_loss"]), 3),
                  "nll_loss": round(nll, 3), "ppl": perplexity(nll),
                  "wps": round(4 * words / 0.061, 1), "wpb": round(words, 1),
                  "bsz": batch, "num_updates": done}
        if done > run.val_every and math.isfinite(best):
            values["best_loss"] = round(bits(best), 3)
        self.say(wall - 0.061, where, 'begin validation on "valid" subset')
        self.summary(wall, "valid", epoch, values,
                     " | valid on 'valid' subset")
        for name in ("last", *(["best"] if row["val_loss"] == best else [])):
            self.say(wall, "fairseq.checkpoint_utils",
                     f"Saved checkpoint checkpoints/checkpoint_{name}.pt "
                     f"(epoch {epoch} @ {done} updates, score "
                     f"{values['loss']:g}) (writing took 0.01 seconds)")

    def epoch(self, done):
        run = self.run
        epoch, wall = run.epoch(done), run.history[done - 1]["wall"]
        first = (epoch - 1) * run.EPOCH
        self.say(wall, "fairseq_cli.train",
                 f"end of epoch {epoch} (average epoch stats below)")
        self.summary(wall, "train", epoch,
                     self.means(run.history[first:done]))
        if done < run.steps:
            self.say(wall, "fairseq.trainer",
                     f"begin training epoch {epoch + 1}")
            self.say(wall, "fairseq_cli.train",
                     "Start iterating over samples")


def perplexity(nll):
    """utils.get_perplexity, of bits."""
    if not math.isfinite(nll):
        return nll
    return round(2.0 ** nll, 2) if nll < 1000 else math.inf
