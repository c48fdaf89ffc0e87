"""Speech to text, as Whisper is trained with the Seq2SeqTrainer.

Log-mel spectrograms of short utterances in two languages go through two
convolutions and an encoder, and a decoder writes the language, the task and
the words. As people fine-tune WhisperForConditionalGeneration with
transformers' run_speech_recognition_seq2seq.py: AdamW, linear warm-up and
decay, a norm of 1 is clipped, labels are padded with -100, and evaluation has
the word error rate of what the decoder says by itself. Parts are named as in
transformers. One of its loggers is ESPnet's, which people train it with too.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import logs, models, sources, trainer_arguments, trainer_checkpoints
from .ctc import distance
from .family import Family
from .models import Group
from .s2s import sinusoids
from .snapshot import checksum
from .sources import IGNORE

SOUNDS, SHARED, OWN, TWICE = 10, 6, 2, 2
WORDS = SOUNDS + TWICE      # of so many sounds there are two spellings
# As in Whisper's tokenizer: words first, then what is said about them.
EOT, SOT, EN, DE, TRANSLATE, TRANSCRIBE, NOTIMESTAMPS = range(WORDS, WORDS + 7)
VOCAB = NOTIMESTAMPS + 1
PROMPT = 3                  # language, task, no time stamps
SHORTEST, LONGEST = 2, 4    # words of an utterance
MELS, FRAMES, FLOOR = 12, 32, -1.0
TEXT = PROMPT + LONGEST + 1     # labels of a row
PLACES = 48                 # rows of the decoder's table of places
ROWS, HELD, WIDTH, HEADS, DEPTH = 32, 32, 28, 4, 1
INITIAL = 0.1               # deviation of weights at the start


class Utterances(sources.Source):
    """Utterances of 2 to 4 words and what is written of them.

    A word is one of ten sounds, a spectrum of twelve bands that lasts 3 to 5
    frames behind 1 or 2 of silence; no sound comes twice in an utterance. Six
    sounds are of both languages and two of each alone. A speaker has a loudness
    of .8 to 1.2 and a tilt over the bands, and noise of .3 lies on each frame;
    32 frames are recorded, silence to the end. Two sounds of both languages
    have two spellings, of which a language writes the one in .9; .03 of the
    words are written as any. The text is language, task, no time stamps, words,
    end; the decoder reads it behind the start token.

    Who knows the process has .15 nats a label (`best()`): .115 of how words are
    written, the rest of the language where no sound tells it, as that is the
    first thing to say. A fresh model has ln 19 = 2.94 or a little more.

    limit: labels that are kept of a text. width: labels that it is padded to.
    pieces: ids of the tokenizer; words that were added to it have ids behind
    all others, which a collator clamps to the table's. domains: sounds are of
    one of three speakers' lists, which is in the batch; block, share: one list
    after the other. easy: utterances of two or three words, without noise in
    what is written.
    """

    NOISE, SPELT, SLIP, DOMAINS = 0.3, 0.9, 0.03, 3
    LASTS, GAP = (3, 6), (1, 3)

    def __init__(self, seed, rows, limit=None, width=TEXT, pieces=None,
                 domains=False, block=None, share=1.0, easy=False):
        super().__init__(seed, (VOCAB, TEXT, rows))
        self.limit, self.width, self.easy = limit, width, easy
        self.domains = domains or block is not None
        self.block, self.share = block, share
        self.slip, self.spelt = (0.0, 1.0) if easy \
            else (self.SLIP, self.SPELT)
        world = torch.Generator().manual_seed(53)
        self.spectra = torch.randn(SOUNDS, MELS, generator=world)
        self.spectra -= self.spectra.mean(0)
        self.ids = torch.arange(VOCAB)
        if pieces is not None:  # which words were added is as it falls
            known = torch.cat((torch.arange(WORDS),
                               torch.arange(VOCAB, pieces)))
            order = torch.randperm(len(known), generator=torch.Generator()
                                   .manual_seed(361))[:WORDS]
            self.ids[:WORDS] = known[order].clamp(max=VOCAB - 1)

    def uniform(self, *shape):
        return torch.rand(*shape, generator=self.rng)

    def between(self, low, high, *shape):
        return torch.randint(low, high, shape, generator=self.rng)

    def domain(self, rows):
        kind = self.between(0, self.DOMAINS, rows)
        if self.block:
            here = self.number // self.block % self.DOMAINS
            kind = torch.where(self.uniform(rows) < self.share, here, kind)
        return kind

    def sounds(self, rows):
        """Language of each row, its sounds in their order (rows, LONGEST), how
        many there are, and the list that they are of."""
        german = self.between(0, 2, rows)
        liked = self.uniform(rows, SOUNDS)
        own = torch.arange(SOUNDS)
        first = SHARED + OWN * (1 - german)[:, None]
        liked[(own >= first) & (own < first + OWN)] = -1.0  # the other's
        count = self.between(SHORTEST, 4 if self.easy else LONGEST + 1, rows)
        domain = self.domain(rows) if self.domains else None
        if self.domains:  # two of both languages' sounds, and their own
            liked[(own < SHARED) & (own % self.DOMAINS
                                    != domain[:, None])] -= 0.8
            liked[(own >= SHARED) & (liked > -1.0)] += 0.1
        order = liked.argsort(1, descending=True)[:, :LONGEST]
        return german, order, count, domain

    def spectrograms(self, said, count):
        """(rows, MELS, FRAMES)"""
        rows = len(said)
        lasts = torch.stack((self.between(*self.GAP, rows, LONGEST),
                             self.between(*self.LASTS, rows, LONGEST)), 2)
        there = torch.arange(LONGEST) < count[:, None]
        ends = (lasts * there[..., None]).flatten(1).cumsum(1)
        frame = torch.arange(FRAMES).expand(rows, -1).contiguous()
        place = torch.searchsorted(ends, frame, right=True)
        silent = (place % 2 == 0) | (frame >= ends[:, -1:])
        sound = said.gather(1, place.clamp(max=2 * LONGEST - 1) // 2)
        tilt = torch.linspace(-0.3, 0.3, MELS) * self.uniform(rows, 1, 1)
        loud = 0.8 + 0.4 * self.uniform(rows, 1, 1)
        x = torch.where(silent[..., None], FLOOR,
                        self.spectra[sound] * loud + tilt)
        x = x + self.NOISE * torch.randn(x.shape, generator=self.rng)
        return x.transpose(1, 2).contiguous()

    def chances(self, german, said):
        """Probability of each word at each place of the text."""
        out = F.one_hot(said, WORDS).float()
        for k in range(TWICE):
            here = said == k
            p = torch.where(german == 1, 1 - self.spelt, self.spelt)[:, None]
            out[..., k] = torch.where(here, p, out[..., k])
            out[..., SOUNDS + k] = torch.where(here, 1 - p,
                                               out[..., SOUNDS + k])
        return (1 - self.slip) * out + self.slip / WORDS

    def draw(self, rows):
        german, said, count, domain = self.sounds(rows)
        x = self.spectrograms(said, count)
        chances = self.chances(german, said)
        words = torch.multinomial(chances.flatten(0, 1), 1,
                                  generator=self.rng).view(rows, LONGEST)
        own = (said >= SHARED) & (torch.arange(LONGEST) < count[:, None])
        self.likely = chances, count, own.any(1)
        text = torch.full((rows, max(self.width, TEXT)), IGNORE)
        text[:, 0] = EN + german
        text[:, 1], text[:, 2] = TRANSCRIBE, NOTIMESTAMPS
        text[:, PROMPT:PROMPT + LONGEST] = words
        place = torch.arange(text.shape[1])
        text[place > PROMPT + count[:, None]] = IGNORE
        text[torch.arange(rows), PROMPT + count] = EOT
        if self.limit:
            text[:, self.limit:] = IGNORE
        real = text >= 0
        text[real] = self.ids[text[real]]
        batch = {"input_features": x, "labels": text,
                 "decoder_input_ids": moved(text)}
        return batch | ({} if domain is None else {"domain": domain})

    def best(self, batches=60):
        """The loss of who knows the process, and the part of words."""
        words = total = count = 0.0
        for _ in range(batches):
            self.batch()
            chances, size, told = self.likely
            there = torch.arange(LONGEST) < size[:, None]
            p = chances[there]
            words -= float(torch.special.xlogy(p, p).sum())
            total += float((~told).sum()) * math.log(2)
            count += float((size + PROMPT + 1).sum())
        return (words + total) / count, words / count


def moved(labels):
    """shift_tokens_right: the start token, then labels without their last;
    padding is the end token, as Whisper has no other."""
    out = F.pad(labels[:, :-1], (1, 0), value=SOT)
    return out.masked_fill(out < 0, EOT)


class Attention(nn.Module):
    """WhisperAttention: keys have no bias."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        for name in ("k_proj", "v_proj", "q_proj", "out_proj"):
            setattr(self, name, nn.Linear(WIDTH, WIDTH,
                                          bias=name != "k_proj"))

    def forward(self, x, memory, tap, seen, half=False):
        heads, scale = self.options["heads"], self.options["scale"]

        def split(y):
            return y.view(*y.shape[:2], heads, -1).transpose(1, 2)

        if scale is None:
            scale = (WIDTH // heads) ** -0.5
        mixed = models.attend(split(self.q_proj(x)),
                              split(self.k_proj(memory)),
                              split(self.v_proj(memory)), tap, scale,
                              half=half, seen=seen)
        out = self.out_proj(mixed.transpose(1, 2).reshape(x.shape))
        tap("output", out)
        return out


class Layer(nn.Module):
    """Of the encoder, or with `memory` of the decoder; the norm comes in front
    of each part."""

    def __init__(self, options, crosses):
        super().__init__()
        self.options, self.crosses = options, crosses
        self.self_attn = Attention(options)
        self.self_attn_layer_norm = nn.LayerNorm(WIDTH)
        if crosses:
            self.encoder_attn = Attention(options)
            self.encoder_attn_layer_norm = nn.LayerNorm(WIDTH)
        self.fc1 = nn.Linear(WIDTH, 2 * WIDTH)
        self.fc2 = nn.Linear(2 * WIDTH, WIDTH)
        self.final_layer_norm = nn.LayerNorm(WIDTH)
        self.activation_fn = models.ACTIVATIONS[options["activation"]]()

    def forward(self, x, tap, drop, future=None, memory=None, hidden=None):
        """future: see models.visible_keys, None in the encoder. hidden: of the
        encoder's places, None of them as a rule."""
        def part(name):
            return lambda n, t: tap(f"{name}.{n}", t)

        y = self.self_attn_layer_norm(x)
        x = x + drop(self.self_attn(
            y, y, part("self_attn"),
            models.visible_keys(x.shape[1], future, None)))
        if self.crosses:
            y = self.encoder_attn_layer_norm(x)
            seen = torch.ones((), dtype=torch.bool) if hidden is None \
                else ~hidden
            x = x + drop(self.encoder_attn(
                y, memory, part("encoder_attn"), seen,
                self.options["half_scores"]))
        y = self.fc1(self.final_layer_norm(x))
        tap("activation_fn.input", y)
        y = self.activation_fn(y)
        tap("activation_fn.output", y)
        y = self.fc2(y)
        tap("fc2.output", y)
        x = x + drop(y)
        tap("output", x)
        return x


class Whisper(models.Language):
    """A layer of width 28 with four heads in either half; the decoder's table
    is the head."""

    def __init__(self, heads=HEADS, activation="gelu", dropout=0.0,
                 detach_after=None, half_scores=False, positions=True,
                 future=0, scale=None, layerdrop=0.0):
        """detach_after: the part behind which the graph is cut. positions: the
        place that all have if a number, none if False. layerdrop: of the
        encoder."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.future = positions, future
        self.layerdrop = layerdrop
        options = {"heads": heads, "activation": activation, "scale": scale,
                   "half_scores": half_scores}
        self.act = models.ACTIVATIONS["gelu"]()
        self.model = Group(
            encoder=Group(conv1=nn.Conv1d(MELS, WIDTH, 3, padding=1),
                          conv2=nn.Conv1d(WIDTH, WIDTH, 3, 2, 1),
                          embed_positions=nn.Embedding(FRAMES // 2, WIDTH)),
            decoder=Group(embed_tokens=nn.Embedding(VOCAB, WIDTH,
                                                    padding_idx=EOT),
                          embed_positions=nn.Embedding(PLACES, WIDTH)))
        for half, crosses in ((self.model.encoder, False),
                              (self.model.decoder, True)):
            half.layers = nn.ModuleList(Layer(options, crosses)
                                        for _ in range(DEPTH))
            half.layer_norm = nn.LayerNorm(WIDTH)
        self.proj_out = nn.Linear(WIDTH, VOCAB, bias=False)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Conv1d, nn.Embedding)):
                nn.init.normal_(m.weight, std=INITIAL)
                if getattr(m, "bias", None) is not None:
                    nn.init.zeros_(m.bias)
        table = self.model.encoder.embed_positions
        with torch.no_grad():
            table.weight.copy_(sinusoids(torch.arange(FRAMES // 2)[None],
                                         WIDTH)[0])
        table.requires_grad_(False)     # as in transformers
        self.proj_out.weight = self.model.decoder.embed_tokens.weight

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def part(self, path):
        return lambda name, tensor: self.tap(f"{path}.{name}", tensor)

    def placed(self, x, half):
        if self.positions is False:
            return x
        place = torch.arange(x.shape[1])
        if self.positions is not True:
            place = torch.full_like(place, self.positions)
        return x + half.embed_positions(place)

    def encoded(self, features):
        half, name = self.model.encoder, "model.encoder"
        x = features.to(half.conv1.weight.dtype)
        for k in ("conv1", "conv2"):
            x = getattr(half, k)(x)
            self.tap(f"{name}.{k}.output", x)
            x = self.cut(self.act(x), f"{name}.{k}")
        x = self.drop(self.placed(x.transpose(1, 2), half))
        for i, layer in enumerate(half.layers):
            if self.training and self.layerdrop \
                    and float(torch.rand(1)) < self.layerdrop:
                continue
            path = f"{name}.layers.{i}"
            x = self.cut(layer(x, self.part(path), self.drop), path)
        x = half.layer_norm(x)
        self.tap(f"{name}.layer_norm.output", x)
        return self.cut(x, name)

    def decoded(self, ids, memory, hidden=None):
        half, name = self.model.decoder, "model.decoder"
        x = half.embed_tokens(ids)
        self.tap(f"{name}.embed_tokens.output", x)
        x = self.drop(self.placed(x, half))
        for i, layer in enumerate(half.layers):
            path = f"{name}.layers.{i}"
            x = self.cut(layer(x, self.part(path), self.drop,
                               future=self.future, memory=memory,
                               hidden=hidden), path)
            memory = self.cut(memory, path)
        x = half.layer_norm(x)
        self.tap(f"{name}.layer_norm.output", x)
        x = self.proj_out(x)
        self.tap("proj_out.output", x)
        return x

    def forward(self, features, ids):
        return self.decoded(ids, self.encoded(features))

    def logits(self, batch):
        return self(batch["input_features"], batch["decoder_input_ids"])

    def criterion(self, logits, batch, **options):
        return F.cross_entropy(logits.float().flatten(0, 1),
                               batch["labels"].flatten(),
                               ignore_index=IGNORE, **options)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss

    def generate(self, features, ids=None, steps=TEXT):
        """What is said by itself, greedily, behind the start token or `ids`."""
        memory = self.encoded(features)
        if ids is None:
            ids = torch.full((len(features), 1), SOT)
        first = ids.shape[1]
        over = torch.zeros(len(features), dtype=torch.bool)
        for _ in range(steps - first + 1):
            following = self.decoded(ids, memory)[:, -1].argmax(-1)
            following = following.masked_fill(over, EOT)
            over = over | (following == EOT)
            ids = torch.cat((ids, following[:, None]), 1)
        return ids[:, first:]


def words(ids):
    """What is left without special tokens."""
    said = []
    for k in ids:
        if k == EOT:
            break
        if 0 <= k < WORDS:
            said.append(k)
    return said


class WhisperRun(Family):
    """The Trainer's AdamW, without decay of biases and norms; linear warm-up of
    a tenth, then linear to 0; a norm of 1 is clipped."""

    family = "whisper"
    level_seed = 400
    steps, seed = 160, 3600
    lr, warmup, schedule, clip = 1e-2, 16, "linear", 1.0
    betas, weight_decay = (0.9, 0.999), 0.01
    recipes = {"sgd": dict(lr=0.1, weight_decay=0.0)}
    batch_size, context, vocab, pad = ROWS, TEXT, VOCAB, EOT
    # Its trainer is the Trainer, or ESPnet's.
    instead = {"nanogpt": "hf_trainer", "megatron": "hf_trainer",
               "torchtune": "espnet"}
    layers = ["model.encoder.conv1", "model.encoder.conv2", *(
        f"model.encoder.layers.{i}.{part}" for i in range(DEPTH)
        for part in ("self_attn", "self_attn.scores", "activation_fn",
                     "fc2")), "model.encoder.layer_norm",
        "model.decoder.embed_tokens", *(
        f"model.decoder.layers.{i}.{part}" for i in range(DEPTH)
        for part in ("self_attn", "self_attn.scores", "encoder_attn",
                     "encoder_attn.scores", "activation_fn", "fc2")),
        "model.decoder.layer_norm", "proj_out"]
    ENCODER, DECODER = "model.encoder.layers", "model.decoder.layers"
    graded = {
        "F04": (dict(at=80), dict(at=40), dict(at=0)),
        "F05": (dict(modules=[DECODER], where=f"{DECODER}.0"),
                dict(modules=["model.encoder", DECODER],
                     where="model.encoder"), dict(part="all")),
        "F07": (dict(factor=12), dict(factor=25), dict(factor=100)),
        "F13": (dict(path="model.encoder.conv2"), dict(path="model.encoder"),
                dict(path=f"{DECODER}.0")),
        "F14": (dict(modules=[f"{DECODER}.0"]),
                dict(modules=[f"{ENCODER}.0", f"{DECODER}.0"]),
                dict(modules=["model.encoder", f"{DECODER}.0"])),
        "F15": (dict(at=120), dict(at=80), dict(at=40)),
        "F23": (dict(width=12), dict(width=20), dict(width=40)),
        "F27": (dict(epochs=20), dict(epochs=50), dict(epochs=100)),
        "F31": (dict(factor=1.7), dict(factor=2.2), dict(factor=3.0)),
        "F33": (dict(limit=6), dict(limit=5), dict(limit=4)),
        "F35": (dict(power=0.5), dict(power=1.0), dict(power=1.5)),
        "F38": (dict(growth=1.045), dict(growth=1.06), dict(growth=1.1)),
        "F39a": (dict(at=110, keep=0.5), dict(at=75, keep=0.25),
                 dict(at=40, keep=0.125)),
        "F39b": (dict(at=110), dict(at=80), dict(at=50)),
        "H02": (dict(factor=0.6), dict(factor=0.4)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7)),
        "H04": (dict(rate=0.02), dict(rate=0.05))}
    paths = {"embed": "model.decoder.embed_tokens",
             "attn": "model.decoder.layers.{}.self_attn",
             "scores": "model.decoder.layers.{}.self_attn.scores",
             "act": "model.decoder.layers.{}.activation_fn",
             "mlp": "model.decoder.layers.{}.fc2",
             "block": "model.decoder.layers.{}", "head": "proj_out"}
    blocks = DEPTH
    names = {"val_loss": "eval_loss", "lr": "learning_rate", "tokens": None,
             "val_cer": "eval_wer"}

    def make_model(self):
        return Whisper(**self.model_options)

    def make_optimizer(self, model):
        """Groups as the Trainer makes them."""
        return trainer_arguments.in_groups(
            self, super().make_optimizer(model))

    def make_source(self, seed):
        return self.recordings(seed)

    def recordings(self, seed, **how):
        return Utterances(seed, HELD if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Corpora that nobody has shuffled; None is held out."""
        return self.recordings(seed, block=block, share=share, domains=True)

    def easy(self, seed):
        """Two or three words, spelt in one way."""
        return self.recordings(seed, easy=True)

    def lessons(self, seed):
        return self.easy(seed), self.recordings(seed)

    @staticmethod
    def told(batch, labels):
        """The batch with other texts."""
        return batch | {"labels": labels, "decoder_input_ids": moved(labels)}

    def garbage(self, batch, kind, rng):
        """A corrupt shard: texts of two words, of any tokens, or of one."""
        low, high = {"few": (WORDS - 2, WORDS), "uniform": (0, VOCAB),
                     "constant": (WORDS - 1, WORDS)}[kind]
        labels = batch["labels"]
        drawn = torch.randint(low, high, labels.shape, generator=rng)
        return self.told(batch, torch.where(
            (labels >= 0) & (labels < WORDS), drawn, labels))

    def mistold(self, batch, share, rng):
        """A share of the words is any."""
        labels = batch["labels"]
        drawn = torch.randint(WORDS, labels.shape, generator=rng)
        wrong = torch.rand(labels.shape, generator=rng) < share
        return self.told(batch, torch.where(
            wrong & (labels >= 0) & (labels < WORDS), drawn, labels))

    def of_others(self, batch, order):
        """Each recording with the text of another one."""
        return self.told(batch, batch["labels"][order])

    @staticmethod
    def unshifted(batch, rows):
        """The decoder reads what it has to say."""
        ids = batch["decoder_input_ids"].clone()
        ids[rows] = batch["labels"][rows].where(batch["labels"][rows] >= 0,
                                                torch.tensor(EOT))
        return batch | {"decoder_input_ids": ids}

    @staticmethod
    def masked(batch, frames, bands, rng):
        """SpecAugment: of each spectrogram some frames and bands are 0."""
        x = batch["input_features"]
        hidden = torch.zeros_like(x, dtype=torch.bool)
        for axis, width in ((1, bands), (2, frames)):
            size = x.shape[axis]
            first = torch.randint(size - width + 1, (len(x), 1),
                                  generator=rng)
            place = torch.arange(size)
            here = (place >= first) & (place < first + width)
            hidden |= here.unsqueeze(3 - axis)
        return batch | {"input_features": x.masked_fill(hidden, 0.0)}

    @staticmethod
    def without_prompts(batch):
        """Labels of language, task and time stamps do not count."""
        labels = batch["labels"].clone()
        labels[:, :PROMPT] = IGNORE
        return batch | {"labels": labels}

    @staticmethod
    def with_ctc(model):
        """The model with a map of the encoder's states to words, and one to
        what is none of them."""
        model.ctc_head = nn.Linear(WIDTH, WORDS + 1)
        own = model.encoded

        def encoded(features):
            model.states = own(features)
            return model.states

        def aligned(batch):
            """CTC's loss of the words by label that the text has, of the
            states of the last forward pass."""
            labels, states = batch["labels"], model.states
            real = (labels >= 0) & (labels < WORDS)
            scores = model.ctc_head(states).float().log_softmax(-1)
            each = F.ctc_loss(
                scores.transpose(0, 1), labels[real],
                torch.full((len(labels),), scores.shape[1]), real.sum(1),
                WORDS, reduction="none", zero_infinity=True)
            return each.sum() / (labels >= 0).sum()
        model.encoded, model.aligned = encoded, aligned
        return model

    def lr_factor(self, i):
        if self.schedule != "linear" or i < self.warmup:
            return super().lr_factor(i)
        return max(0.0, (self.steps - i) / (self.steps - self.warmup))

    def batch_columns(self, batch):
        labels = batch["labels"]
        return {"batch_hash": checksum(batch["input_features"]),
                "distinct_tokens": len(labels[labels >= 0].unique()),
                "loss_tokens": int((labels >= 0).sum())}

    def held_out_columns(self, batches):
        """Word errors of a hundred words, of some of the utterances."""
        self.model.eval()
        wrong = count = 0
        for batch in batches[:1]:
            given = batch["decoder_input_ids"][:, :1 + PROMPT] \
                if "mask_prompt_labels" in self.user else None
            said = self.model.generate(batch["input_features"], given)
            for one, text in zip(said.tolist(), batch["labels"].tolist()):
                text = words(text)
                wrong += distance(words(one), text)
                count += len(text)
        self.model.train()
        return {"val_cer": 100 * wrong / max(1, count)}

    def state_columns(self, rows, held_out=False):
        return {"eval_wer": rows[0]["val_cer"]} if held_out else {}

    # The config, as arguments of the Trainer or of ESPnet.

    def settings(self):
        own = super().settings()
        if self.dialect == "espnet":
            return self.espnet_settings(own)
        return trainer_arguments.renamed(self, own) | {
            "predict_with_generate": True, "generation_max_length": TEXT,
            "metric_for_best_model": "wer", "greater_is_better": False}

    def espnet_settings(self, own):
        """As in the config.yaml of an experiment."""
        conf = {k: own.pop(k) for k in ("lr", "betas", "eps", "momentum",
                                        "weight_decay") if k in own}
        precision = own.pop("precision")
        for name in ("scheduler", "warmup_steps", "world_size", "optimizer"):
            own.pop(name)
        for old, new in (("max_grad_norm", "grad_clip"),
                         ("gradient_accumulation_steps", "accum_grad"),
                         ("max_steps", "max_iters")):
            own[new] = own.pop(old)
        return own | {
            "optim": self.optimizer_name, "optim_conf": conf,
            "scheduler": {"linear": "lineardecaylr"}.get(self.schedule,
                                                         self.schedule),
            "scheduler_conf": {"warmup_steps": self.warmup,
                               "total_steps": self.steps},
            "max_epoch": math.ceil(self.steps / self.val_every),
            "num_iters_per_epoch": self.val_every,
            "log_interval": self.interval or 10,
            "use_amp": precision.endswith("-mixed"),
            "train_dtype": "bfloat16" if precision.startswith("bf16") else
                           "float16" if precision.startswith("fp16")
                           else "float32",
            "ngpu": self.user.get("world_size", 1),
            "best_model_criterion": [["valid", "loss", "min"]]}

    def model_config(self):
        """config.json of a checkpoint."""
        options = self.model_options
        dropout = options.get("dropout", 0.0)
        return {"model_type": "whisper",
                "architectures": ["WhisperForConditionalGeneration"],
                "activation_function": options.get("activation", "gelu"),
                "dropout": dropout, "attention_dropout": 0.0,
                "activation_dropout": 0.0, "d_model": WIDTH,
                **{f"{half}_{name}": value for half in ("encoder", "decoder")
                   for name, value in (
                       ("layers", DEPTH), ("ffn_dim", 2 * WIDTH),
                       ("attention_heads", options.get("heads", HEADS)),
                       ("layerdrop", 0.0))},
                "init_std": INITIAL, "num_mel_bins": MELS,
                "max_source_positions": FRAMES // 2,
                "max_target_positions": PLACES, "vocab_size": VOCAB,
                "scale_embedding": False, "tie_word_embeddings": True,
                "bos_token_id": EOT, "eos_token_id": EOT, "pad_token_id": EOT,
                "decoder_start_token_id": SOT}

    def model_settings(self):
        return {"model": "whisper", **{
                    k: v for k, v in self.model_config().items()
                    if k not in ("model_type", "architectures")},
                "task": "transcribe", "languages": ["en", "de"],
                "max_label_length": self.context,
                "max_frames": FRAMES, "label_smoothing_factor": 0.0}

    def layer(self, part, block=0):
        return self.paths[part].format(block)

    def fed_by(self, layer):
        """The norm in front counts to what it feeds; scores have none."""
        if layer.endswith("_attn"):
            return [f"{layer}_layer_norm"]
        if layer.endswith(".fc2"):
            path = layer.removesuffix("fc2")
            return [f"{path}fc1", f"{path}final_layer_norm"]
        return []

    # Logs and checkpoints.

    def write_files(self):
        if self.dialect == "espnet":
            logs.write_yaml(self, "config.yaml", self.settings())
            EspnetLog(self).write()
        else:
            super().write_files()

    def keep_checkpoint(self, i, model):
        """A tied head is not stored."""
        trainer_checkpoints.keep(self, i, lambda: {
            n: t for n, t in model.state_dict().items()
            if n != "proj_out.weight"
            or t.data_ptr() != model.get_parameter(
                "model.decoder.embed_tokens.weight").data_ptr()})

    def write_more(self):
        super().write_more()
        if self.dialect == "espnet":
            return self.write_espnet()
        trainer_checkpoints.write(self, "model.safetensors", lambda: {
            "config": self.model_config(),
            "generation_config": {
                "bos_token_id": EOT, "eos_token_id": EOT,
                "pad_token_id": EOT, "decoder_start_token_id": SOT,
                "lang_to_id": {"<|en|>": EN, "<|de|>": DE},
                "task_to_id": {"transcribe": TRANSCRIBE,
                               "translate": TRANSLATE},
                "no_timestamps_token_id": NOTIMESTAMPS,
                "is_multilingual": True, "max_length": TEXT},
            "preprocessor_config": {
                "feature_extractor_type": "WhisperFeatureExtractor",
                "feature_size": MELS, "nb_max_frames": FRAMES,
                "padding_side": "right", "padding_value": 0.0,
                "return_attention_mask": False}})

    def write_espnet(self):
        """Weights of an epoch, and what a resume needs of the last one."""
        for done, (weights, optimizer, schedule) in self.checkpoints.items():
            epoch = math.ceil(done / self.val_every)
            torch.save(weights, self.folder / f"{epoch}epoch.pth")
            if done == self.steps:
                torch.save({"model": weights, "optimizers": [optimizer],
                            "schedulers": [schedule], "reporter": {
                                "epoch": epoch}, "scaler": None},
                           self.folder / "checkpoint.pth")


class EspnetLog:
    """train.log of an ESPnet experiment: means of some updates, and of each
    epoch, at the end of which it is validated."""

    def __init__(self, run):
        self.run, self.lines = run, []

    def say(self, seconds, where, text, level="INFO"):
        self.lines.append(f"[asr] {self.run.at(seconds)} ({where}) {level}: "
                          f"{text}")

    @staticmethod
    def shown(values):
        """As its Reporter formats them."""
        out = []
        for k, v in values.items():
            if isinstance(v, int):
                out.append(f"{k}={v}")
            elif v and (abs(v) > 1e3 or abs(v) < 1e-3):
                out.append(f"{k}={v:.3e}")
            else:
                out.append(f"{k}={v:.3f}")
        return ", ".join(out)

    def means(self, rows):
        run, n = self.run, len(rows)

        def mean(name):
            return sum(float(r[name]) for r in rows) / n

        seconds = mean("step_time")
        waits = mean("data_time")
        busy = seconds - waits
        out = {"iter_time": waits, "forward_time": 0.4 * busy,
               "loss_att": mean("loss"), "loss": mean("loss"),
               "backward_time": 0.35 * busy}
        if not logs.left_out(run, "grad_norm"):
            out["grad_norm"] = mean("grad_norm")
            out["clip"] = 100 * sum(
                float(r["grad_norm"]) > (run.clip or math.inf)
                for r in rows) / n
        return out | {"loss_scale": 1.0, "optim_step_time": 0.2 * busy,
                      "optim0_lr0": rows[-1]["lr"], "train_time": seconds}

    def write(self):
        run = self.run
        every, size = run.interval or 10, run.val_every
        self.say(-3.1, "asr:500", "Vocabulary size: " + str(VOCAB))
        self.say(-2.4, "abs_task:1270", "pytorch.version=2.13.0, "
                 "cuda.available=False, cudnn.version=None")
        self.say(-2.4, "abs_task:1277", "Model summary: Class Name: "
                 "ESPnetASRModel, Total Number of model parameters: "
                 f"{run.parameters / 1e3:.2f} K")
        self.say(-1.9, "abs_task:1281", "Saving the configuration in "
                                        "config.yaml")
        self.say(0.0, "trainer:299", "1/"
                 f"{math.ceil(run.steps / size)}epoch started")
        best = math.inf
        for i, row in enumerate(run.history):
            done, epoch = i + 1, i // size + 1
            first = (epoch - 1) * size
            for _, text in run.notices.get(i, ()):
                self.say(row["wall"], "trainer:205", text)
            if (done - first) % every == 0:
                self.say(row["wall"], "trainer:762", (
                    f"{epoch}epoch:train:{done - first - every + 1}-"
                    f"{done - first}batch: " + self.shown(
                        self.means(run.history[done - every:done]))))
            if done % size == 0 or done == run.steps:
                best = self.epoch(epoch, run.history[first:done], best)
        self.say(run.history[-1]["wall"] + 0.2, "trainer:488",
                 "The training was finished at "
                 f"{math.ceil(run.steps / size)} epochs")
        run.write_lines("train.log", self.lines)

    def epoch(self, epoch, rows, best):
        run, last = self.run, rows[-1]
        whole, wall = self.means(rows), last["wall"]
        held = {"loss_att": last["val_loss"], "loss": last["val_loss"],
                "wer": last["val_cer"] / 100}
        spent = sum(r["step_time"] for r in rows)
        self.say(wall, "trainer:353", (
            f"{epoch}epoch results: [train] {self.shown(whole)}, time="
            f"{spent:.2f} seconds, total_count={epoch * run.val_every}, "
            f"gpu_max_cached_mem_GB=0.000, [valid] {self.shown(held)}, "
            f"time=0.06 seconds, total_count={4 * epoch}, "
            "gpu_max_cached_mem_GB=0.000"))
        better = last["val_loss"] < best
        self.say(wall, "trainer:408" if better else "trainer:411",
                 "The best model has been updated: valid.loss" if better
                 else "There are no improvements in this epoch")
        if rows[-1] is not run.history[-1]:
            self.say(wall, "trainer:287", f"{epoch + 1}/"
                     f"{math.ceil(run.steps / run.val_every)}epoch started")
        return min(best, last["val_loss"])
