"""An encoder and a decoder that translate: attention over another sequence.

What the other language models lack is here: two sequences a row with a mask
for the padding of each, labels that are ignored behind the end, norms behind
the residual sum as in the first transformer, which needs its warm-up, and a
rate that falls with the root of the step. Names are fairseq's.
"""

import math

import torch
from torch import nn

from . import models, sources
from .family import Family

PAD, BOS, EOS, TAG = 0, 1, 2, 3     # TAG: the language to translate into
WORDS = 24                          # ids from 4 on, in both languages
LONGEST = 10


class Translation(sources.Source):
    """Sentences of 4 to 10 words and their translation, word by word.

    Words are drawn with weights 1 / (k + 3). A word of which the id is
    divisible by four changes places with the next one, unless that is such a
    word too. The other language has two registers, each a permutation of its
    words; a sentence begins in either, and changes with 0.1 at each word. One
    word in 33 is a slip: any word. The source is TAG words EOS, the input of
    the decoder BOS words, the labels words EOS, each with PAD behind, which
    labels ignore.

    Knowing all, 0.32 nats a word are the register's and 0.23 the slips', the
    beginning's 0.69: 0.53 nats a label. A fresh model has ln 28 = 3.33.

    limit: labels that are kept of a row (None is all). size: words of the
    tokenizer, which a collator clamps to the table's. width: labels that a
    row is padded to. blocks: (steps, share) of one domain in three after the
    other; shuffled: whether there are domains at all.
    """

    WEIGHTS_FROM, CHANGE, SLIP, DOMAINS = 3, 0.1, 0.03, 3

    def __init__(self, seed, shape, words=WORDS, limit=None, width=None,
                 domains=False, block=None, share=1.0, slip=None,
                 length=None):
        super().__init__(seed, shape)
        self.words, self.limit, self.width = words, limit, width
        self.domains, self.block, self.share = domains, block, share
        self.slip = self.SLIP if slip is None else slip
        self.longest = length or LONGEST
        language = torch.Generator().manual_seed(4)
        self.lexicon = torch.stack([torch.randperm(words, generator=language)
                                    for _ in range(2)])

    def sentences(self, rows):
        """Words of the source and of the target, (rows, LONGEST) each, how
        many of them count, and the domain."""
        weights = 1 / (torch.arange(self.words) + float(self.WEIGHTS_FROM))
        words = torch.multinomial(weights, rows * LONGEST, True,
                                  generator=self.rng).view(rows, LONGEST)
        domain = torch.randint(self.DOMAINS, (rows,), generator=self.rng)
        if self.block:
            here = self.number // self.block % self.DOMAINS
            kept = torch.rand(rows, generator=self.rng) < self.share
            domain = torch.where(kept, torch.tensor(here), domain)
        if self.domains:  # each has a third of the words
            words = words // self.DOMAINS * self.DOMAINS + domain[:, None]
            words = words.clamp(max=self.words - 1)
        length = torch.randint(4, self.longest + 1, (rows, 1),
                               generator=self.rng)
        drawn = torch.rand(2, rows, LONGEST, generator=self.rng)
        changes = drawn[0] < self.CHANGE
        changes[:, 0] = drawn[0, :, 0] < 0.5
        register = changes.cumsum(1) % 2
        said = self.lexicon[register, self.reordered(words, length)]
        slips = torch.randint(self.words, said.shape, generator=self.rng)
        said = torch.where(drawn[1] < self.slip, slips, said)
        return words, said, length, domain

    @staticmethod
    def reordered(words, length):
        verb = words % 4 == 0
        place = torch.arange(LONGEST)
        moves = verb[:, :-1] & ~verb[:, 1:] & (place[1:] < length)
        order = place.repeat(len(words), 1)
        order[:, :-1] += moves.long()
        order[:, 1:] -= moves.long()
        return words.gather(1, order)

    def draw(self, rows):
        words, said, length, domain = self.sentences(rows)
        last = min(self.vocab, self.words + 4) - 1

        def row(first, ids, width, end):
            out = torch.full((rows, width), PAD)
            kept = torch.arange(LONGEST) < length
            out[:, 1:LONGEST + 1] = torch.where(
                kept, (ids + 4).clamp(max=last), PAD)
            out[:, 0] = first
            if end:
                out.scatter_(1, length + 1, EOS)
            return out

        width = max(self.width or 0, LONGEST + 2)
        source = row(TAG, words, LONGEST + 2, True)
        target = row(BOS, said, width, True)
        labels = target[:, 1:].masked_fill(target[:, 1:] == PAD,
                                           sources.IGNORE)
        inputs = target[:, :-1].masked_fill(target[:, :-1] == EOS, PAD)
        if self.limit:
            labels, inputs = labels[:, :self.limit], inputs[:, :self.limit]
        batch = {"input_ids": source, "attention_mask": (source != PAD).long(),
                 "decoder_input_ids": inputs.clone(), "labels": labels.clone()}
        return batch | {"domain": domain} if self.domains else batch


def sinusoids(position_ids, width):
    """Sines and cosines of each place, (rows, steps, width)."""
    rate = 1e4 ** (-torch.arange(width // 2) / (width // 2))
    angle = position_ids[..., None].float() * rate
    return torch.cat((angle.sin(), angle.cos()), -1)


class MultiheadAttention(nn.Module):
    def __init__(self, width, options):
        super().__init__()
        self.heads, self.options = options["heads"], options
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(width, width))
            nn.init.xavier_uniform_(getattr(self, name).weight)

    def forward(self, x, memory, tap, seen, half=False):
        def split(y):
            return y.view(*y.shape[:2], self.heads, -1).transpose(1, 2)

        scale = self.options["scale"]
        if scale is None:
            scale = (x.shape[-1] // self.heads) ** -0.5
        mixed = models.attend(split(self.q_proj(x)),
                              split(self.k_proj(memory)),
                              split(self.v_proj(memory)), tap, scale,
                              half=half, seen=seen)
        out = self.out_proj(mixed.transpose(1, 2).reshape(x.shape))
        tap("output", out)
        return out


class Layer(nn.Module):
    """Of the encoder, or with `memory` of the decoder; the norm comes behind
    the sum."""

    def __init__(self, width, options, crosses):
        super().__init__()
        self.options, self.crosses = options, crosses
        self.self_attn = MultiheadAttention(width, options)
        self.self_attn_layer_norm = nn.LayerNorm(width)
        if crosses:
            self.encoder_attn = MultiheadAttention(width, options)
            self.encoder_attn_layer_norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)
        self.final_layer_norm = nn.LayerNorm(width)
        self.activation_fn = models.ACTIVATIONS[options["activation"]]()

    def forward(self, x, tap, drop, hidden, future=0, memory=None):
        """hidden: the places of padding in the encoder's rows; future: see
        models.visible_keys, None in the encoder."""
        def part(name):
            return lambda n, t: tap(f"{name}.{n}", t)

        seen = models.visible_keys(x.shape[1], future, None)
        if not self.crosses:
            seen = seen & ~hidden
        y = self.self_attn(x, x, part("self_attn"), seen)
        x = self.self_attn_layer_norm(x + drop(y))
        if self.crosses:
            y = self.encoder_attn(x, memory, part("encoder_attn"), ~hidden,
                                  self.options["half_scores"])
            x = self.encoder_attn_layer_norm(x + drop(y))
        y = self.fc1(x)
        tap("activation_fn.input", y)
        y = self.activation_fn(y)
        tap("activation_fn.output", y)
        y = self.fc2(y)
        tap("fc2.output", y)
        x = self.final_layer_norm(x + drop(y))
        tap("output", x)
        return x


class Half(nn.Module):
    """Encoder or decoder: a table and two layers."""

    def __init__(self, vocab, width, options, crosses):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, width, padding_idx=PAD)
        nn.init.normal_(self.embed_tokens.weight, std=width ** -0.5)
        nn.init.zeros_(self.embed_tokens.weight[PAD])
        self.layers = nn.ModuleList(Layer(width, options, crosses)
                                    for _ in range(2))


class Seq2Seq(models.Language):
    """Two layers each of width 52 with 4 heads, no weights tied."""

    def __init__(self, vocab=WORDS + 4, width=52, heads=4, activation="relu",
                 dropout=0.0, detach_after=None, half_scores=False,
                 positions=True, future=0, scale=None, memory_shift=0):
        """detach_after -1 cuts behind both tables, "encoder" behind it.
        half_scores: those over the source are in fp16. memory_shift: places
        by which the encoder's output is moved against its mask."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.future = positions, future
        self.memory_shift, self.scale = memory_shift, math.sqrt(width)
        options = {"heads": heads, "activation": activation, "scale": scale,
                   "half_scores": half_scores}
        self.encoder = Half(vocab, width, options, False)
        self.decoder = Half(vocab, width, options, True)
        self.output_projection = nn.Linear(width, vocab, bias=False)
        nn.init.normal_(self.output_projection.weight, std=width ** -0.5)

    def embedded(self, name, ids, position_ids):
        x = self.get_submodule(name).embed_tokens(ids) * self.scale
        if self.positions:
            x = x + sinusoids(position_ids[:, :ids.shape[1]],
                              x.shape[-1]).to(x.dtype)
        self.tap(f"{name}.embed_tokens.output", x)
        if self.detach_after == -1:
            x = x.detach()
        return self.drop(x)

    def forward(self, ids, inputs, seen, position_ids=None):
        """seen: 1 for the source's tokens, 0 for its padding."""
        hidden = seen[:, None, None] == 0
        if position_ids is None:
            position_ids = torch.arange(max(ids.shape[1],
                                            inputs.shape[1]))[None]
        x = self.embedded("encoder", ids, position_ids)
        for i, layer in enumerate(self.encoder.layers):
            x = layer(x, self.part(f"encoder.layers.{i}"), self.drop, hidden,
                      future=None)
        if self.detach_after == "encoder":
            x = x.detach()
        memory = x.roll(self.memory_shift, 1) if self.memory_shift else x
        x = self.embedded("decoder", inputs, position_ids)
        for i, layer in enumerate(self.decoder.layers):
            x = layer(x, self.part(f"decoder.layers.{i}"), self.drop, hidden,
                      future=self.future, memory=memory)
            if self.detach_after == i:
                x = x.detach()
        x = self.output_projection(x)
        self.tap("output_projection.output", x)
        return x

    def part(self, path):
        return lambda name, tensor: self.tap(f"{path}.{name}", tensor)

    def logits(self, batch):
        inputs = batch.get("decoder_input_ids")
        if inputs is None:  # transformers' models shift labels themselves
            inputs = batch["labels"].roll(1, 1)
            inputs = inputs.masked_fill((inputs < 0) | (inputs == EOS), PAD)
            inputs[:, 0] = BOS
        return self(batch["input_ids"], inputs, batch["attention_mask"],
                    batch.get("position_ids"))


class S2sRun(Family):
    """Adam as in the first transformer: betas .9 and .98, an epsilon of 1e-9,
    the rate falls with the root of the step behind a warm-up of 40."""

    family = "s2s"
    level_seed = 400
    steps, seed = 270, 120
    optimizer_name, lr, warmup, schedule = "adam", 5e-3, 40, "inverse_sqrt"
    betas, eps, weight_decay, clip = (0.9, 0.98), 1e-9, 0.0, 8.0
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    PEAK = 40               # the step from which the rate falls
    batch_size, context, vocab = 28, LONGEST + 1, WORDS + 4
    layers = ["encoder.embed_tokens", "decoder.embed_tokens", *(
        f"encoder.layers.{i}.{part}" for i in range(2)
        for part in ("self_attn", "self_attn.scores", "activation_fn",
                     "fc2")), *(
        f"decoder.layers.{i}.{part}" for i in range(2)
        for part in ("self_attn", "self_attn.scores", "encoder_attn",
                     "encoder_attn.scores", "activation_fn", "fc2")),
        "output_projection"]
    paths = {"embed": "encoder.embed_tokens",
             "attn": "decoder.layers.{}.self_attn",
             "scores": "decoder.layers.{}.self_attn.scores",
             "act": "decoder.layers.{}.activation_fn",
             "mlp": "decoder.layers.{}.fc2", "block": "decoder.layers.{}",
             "head": "output_projection"}
    blocks = 2
    names = {"step": "num_updates", "loss": "nll_loss", "grad_norm": "gnorm",
             "val_loss": "dev_loss", "step_time": "iter_time",
             "tokens": "num_tokens"}

    def make_model(self):
        return Seq2Seq(**self.model_options)

    def make_source(self, seed):
        return self.sentences(seed)

    def sentences(self, seed, **how):
        return Translation(seed, (self.vocab, self.context, self.batch_size),
                           **how)

    def in_blocks(self, seed, block, share):
        """Domains that nobody has shuffled."""
        return self.sentences(seed, domains=True, block=block, share=share)

    def garbage(self, batch, kind, rng):
        """A corrupt batch: of few words, of any, or of one alone."""
        low = {"few": self.vocab - 4, "uniform": 4, "constant": 7}[kind]
        high = 8 if kind == "constant" else self.vocab

        def words(ids):
            drawn = torch.randint(low, high, ids.shape, generator=rng)
            return torch.where(ids > TAG, drawn, ids)

        labels = words(batch["labels"])
        inputs = labels.roll(1, 1).masked_fill(
            batch["decoder_input_ids"] <= TAG, PAD)
        inputs[:, 0] = BOS
        return batch | {"input_ids": words(batch["input_ids"]),
                        "decoder_input_ids": inputs, "labels": labels}

    def lr_factor(self, i):
        if self.schedule != "inverse_sqrt" or i < self.warmup:
            return super().lr_factor(i)
        return math.sqrt(self.PEAK / max(self.PEAK, i + 1))

    def model_settings(self):
        return {"model": "transformer", "encoder_layers": 2,
                "decoder_layers": 2, "encoder_embed_dim": 52,
                "encoder_ffn_embed_dim": 104,
                "encoder_attention_heads": self.model_options.get("heads", 4),
                "encoder_normalize_before": False, "vocab_size": self.vocab,
                "max_source_positions": 64, "max_target_positions": 64,
                "share_all_embeddings": False, "label_smoothing": 0.0}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path.format(block)

    def fed_by(self, layer):
        """The norm behind counts to what it is behind; scores have none."""
        if layer.endswith("_attn"):
            return [f"{layer}_layer_norm"]
        if layer.endswith(".fc2"):
            path = layer.removesuffix("fc2")
            return [f"{path}fc1", f"{path}final_layer_norm"]
        return []
