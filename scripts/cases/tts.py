"""A small FastSpeech 2: phonemes in, a mel spectrogram out, all frames at once.

Parts are named as in the best known implementation of it, which counts the
rate as the Transformer's authors did and whose checkpoints these are. In
training durations and pitch are those of the recording; what the predictors
say of them goes into the loss alone. Who attends to whom is read off the
phonemes and durations, what the loss counts off the lengths of the manifest.
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family
from .snapshot import checksum

PHONES, MELS, ROWS = 36, 20, 16
SHORTEST, LONGEST, DURATION = 6, 16, 8
WIDTH, INNER, HEADS, BINS = 32, 64, 2, 24
PAD = 0


def later(x):
    """Each phoneme's right neighbour, 0 behind the last."""
    return F.pad(x[:, 1:], (0, 1))


class Speech:
    """Read sentences of one speaker, as an aligner has cut them.

    A sentence has 6 to 16 of 36 phonemes, the k-th as frequent as 1 / (k + 6).
    How long a phoneme lasts goes by itself, what follows it, and the end of the
    sentence, with a spread of .15 in the logarithm, and is a whole number of
    frames up to 8. Pitch is a value of the phoneme (a spread of .6), falls over
    the sentence by 2, and has noise of .35. A frame has twenty bands: the
    phoneme's spectrum, at either end some of its neighbours', a formant that
    pitch moves, a swell over the sentence, and noise of .3.

    Knowing the process leaves .24 of a band twice, .12 of pitch and .019 of
    durations: a loss of .62. Who says the mean of each has 2.41.

    phones: how many there are; those that the table lacks become its last one.
    block, share: three books with phonemes of their own, one after the
    other; domains: each sentence of any of them. longest, calm: short
    sentences, without noise and swell. sizes: rows of a batch have about
    one size. width: frames that all are padded to, with a third of phonemes.
    """

    NOISE, DOMAINS = 0.3, 3
    # Of duration, pitch and bands; what the words above say.
    SPREAD, PITCH, FALL, WOBBLE = 0.15, 0.6, 2.0, 0.35

    def __init__(self, seed, rows=ROWS, phones=PHONES, block=None, share=1.0,
                 domains=False, longest=LONGEST, calm=False, sizes=False,
                 width=None):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.phones, self.longest = rows, phones, longest
        self.block, self.share, self.number = block, share, 0
        self.domains, self.calm, self.sizes = domains, calm, sizes
        self.width = width
        # The voice is the same for all seeds; the seed picks the sample.
        world = torch.Generator().manual_seed(29)
        self.long = 0.3 * torch.randn(2, 4 * PHONES + 1, generator=world)
        self.tone = self.PITCH * torch.randn(4 * PHONES + 1, generator=world)
        self.spectra = 0.9 * torch.randn(4 * PHONES + 1, MELS, generator=world)
        self.spectra = (self.spectra + self.spectra.roll(1, 1)) / 2 ** 0.5
        self.spectra[PAD] = 0.0
        self.formant = torch.randint(MELS, (4 * PHONES + 1,), generator=world)

    def phonemes(self, rows):
        """(rows, LONGEST) of 1 to `phones`, and the book of each row."""
        weight = 1 / (torch.arange(self.phones) + 6.0)
        text = torch.multinomial(weight, rows * LONGEST, True,
                                 generator=self.rng).view(rows, LONGEST)
        domain = torch.randint(self.DOMAINS, (rows,), generator=self.rng)
        if self.block:
            here = self.number // self.block % self.DOMAINS
            kept = torch.rand(rows, generator=self.rng) < self.share
            domain = torch.where(kept, torch.tensor(here), domain)
        if self.block or self.domains:  # every third one is a book's
            text = text - text % self.DOMAINS + domain[:, None]
        return 1 + text.clamp(max=self.phones - 1), domain

    def counts(self, rows):
        low, high = SHORTEST, self.longest + 1
        if self.sizes:
            low = int(torch.randint(low, high - 2, (1,), generator=self.rng))
            high = low + 3
        return torch.randint(low, high, (rows,), generator=self.rng)

    def batch(self, rows=None):
        rows, rng = rows or self.rows, self.rng
        text, domain = self.phonemes(rows)
        self.number += 1
        count = self.counts(rows)
        width = int(count.max())
        place = torch.arange(width)
        text = text[:, :width] * (place < count[:, None])
        last = place == count[:, None] - 1
        spread = 0.0 if self.calm else self.SPREAD
        long = 1 + self.long[0][text] + self.long[1][later(text)] \
            + 0.4 * last + spread * torch.randn(text.shape, generator=rng)
        long = long.exp().round().clamp(1, DURATION).long() * (text != PAD)
        done = place / (count[:, None] - 1)
        wobble = 0.0 if self.calm else self.WOBBLE
        pitch = self.tone[text] + self.FALL * (0.5 - done) \
            + wobble * torch.randn(text.shape, generator=rng)
        pitch = pitch * (text != PAD)
        mel = self.mels(text, long, pitch)
        batch = {"texts": text.clamp(max=PHONES), "src_lens": count,
                 "mels": mel, "mel_lens": long.sum(1),
                 "pitches": pitch, "durations": long}
        if self.width:
            batch = {k: t if t.dim() == 1 else padded(
                t, self.width if k == "mels" else self.width // 3)
                for k, t in batch.items()}
        return batch | {"domain": domain} if self.domains else batch

    def mels(self, text, long, pitch):
        """(rows, frames, bands)."""
        total, phone = long.sum(1), places(long)
        frame = torch.arange(phone.shape[1])
        there = frame < total[:, None]
        ends = long.cumsum(1).gather(1, phone)
        of = {"own": text, "next": later(text),
              "before": F.pad(text[:, :-1], (1, 0))}
        spectra = {k: self.spectra[t.gather(1, phone)] for k, t in of.items()}
        into = (frame - ends + long.gather(1, phone) + 0.5) \
            / long.gather(1, phone).clamp_min(1)
        mel = spectra["own"]
        for other, near in (("before", 1 - 3 * into), ("next", 3 * into - 2)):
            near = (0.5 * near.clamp_min(0))[..., None]
            mel = mel * (1 - near) + spectra[other] * near
        tone = pitch.gather(1, phone)[..., None]
        centre = self.formant[of["own"]].gather(1, phone)[..., None]
        away = torch.arange(MELS) - centre - 2 * tone
        mel = mel + 1.2 * torch.exp(-away.square() / 6) + 0.25 * tone
        if not self.calm:
            swell = torch.sin(torch.pi * frame / total[:, None])
            mel = mel + (swell - 0.6)[..., None]
        noise = 0.1 if self.calm else self.NOISE
        mel = mel + noise * torch.randn(mel.shape, generator=self.rng)
        return mel * there[..., None]


def places(long):
    """Which phoneme each frame is of, (rows, frames); the last one behind the
    end."""
    frame = torch.arange(int(long.sum(1).max())).expand(len(long), -1)
    return torch.searchsorted(long.cumsum(1), frame.contiguous(),
                              right=True).clamp(max=long.shape[1] - 1)


def joined(parts):
    """Batches as one, padded to the longest."""
    width = {k: max(p[k].shape[1] for p in parts)
             for k, t in parts[0].items() if t.dim() > 1}
    return {k: torch.cat([padded(p[k], width[k]) if k in width else p[k]
                          for p in parts]) for k in parts[0]}


def padded(t, width):
    return F.pad(t, (0, 0) * (t.dim() - 2) + (0, width - t.shape[1]))


def trimmed(batch):
    """Without what is padding in all rows."""
    texts = int(batch["src_lens"].max())
    frames = int(batch["mel_lens"].max())
    return batch | {k: batch[k][:, :texts]
                    for k in ("texts", "pitches", "durations")} \
        | {"mels": batch["mels"][:, :frames]}


def cut_short(batch, limit):
    """Recordings end at a number of frames; the rest of a text takes none."""
    ends = batch["durations"].cumsum(1).clamp(max=limit)
    return batch | {"mels": batch["mels"][:, :limit],
                    "mel_lens": batch["mel_lens"].clamp(max=limit),
                    "durations": ends - F.pad(ends[:, :-1], (1, 0))}


def spread(batch):
    """Of the pitch of each sentence."""
    count, pitch = batch["src_lens"], batch["pitches"]
    real = batch["texts"] != PAD
    mean = pitch.sum(1) / count
    away = ((pitch - mean[:, None]) * real).square().sum(1)
    return (away / (count - 1)).sqrt()


def standardised(batch):
    """Pitch, each sentence's by itself; nothing guards against a spread of
    zero."""
    pitch, real = batch["pitches"], batch["texts"] != PAD
    mean = pitch.sum(1, keepdim=True) / batch["src_lens"][:, None]
    z = (pitch - mean) / spread(batch)[:, None]
    return torch.where(real, z, 0.0)


def hashes(batch):
    """CRC-32 of the phonemes of each row, without padding."""
    return torch.tensor([checksum(row[:n]) for row, n in zip(
        batch["texts"], batch["src_lens"])])


class FewSentences(sources.Finite):
    """A set of some sentences."""

    def batch(self, rows=None):
        return trimmed(super().batch(rows))


def waves(count, width):
    """The sines and cosines of the Transformer's authors."""
    place = torch.arange(count)[:, None]
    angle = place / 10000 ** (2 * (torch.arange(width) // 2) / width)
    return torch.where(torch.arange(width) % 2 == 0, angle.sin(), angle.cos())


class SelfAttention(nn.Module):
    def __init__(self, options, scale):
        super().__init__()
        self.heads, self.scale = options["heads"], scale
        self.w_qs = nn.Linear(WIDTH, WIDTH)
        self.w_ks = nn.Linear(WIDTH, WIDTH)
        self.w_vs = nn.Linear(WIDTH, WIDTH)
        self.layer_norm = nn.LayerNorm(WIDTH)
        self.fc = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, seen, tap, drop, half):
        tap("input", x)
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for w in (self.w_qs, self.w_ks, self.w_vs))
        scale = (WIDTH // self.heads) ** -0.5 if self.scale is None \
            else self.scale
        y = models.attend(q, k, v, tap, scale, half=half,
                          seen=seen[:, None, None].expand(
                              -1, 1, q.shape[2], -1))
        y = self.fc(y.transpose(1, 2).flatten(2))
        x = self.layer_norm(drop(y) + x)
        tap("output", x)
        return x


class FeedForward(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.w_1 = nn.Conv1d(WIDTH, INNER, 3, padding=1)
        self.w_2 = nn.Conv1d(INNER, WIDTH, 1)
        self.layer_norm = nn.LayerNorm(WIDTH)
        self.act = models.ACTIVATIONS[options["activation"]]()

    def forward(self, x, tap, drop):
        y = self.w_1(x.transpose(1, 2))
        tap("act.input", y.transpose(1, 2))
        y = self.act(y)
        tap("act.output", y.transpose(1, 2))
        y = self.w_2(y).transpose(1, 2)
        x = self.layer_norm(drop(y) + x)
        tap("output", x)
        return x


class FftBlock(nn.Module):
    """Attention and two convolutions over what is there of a row."""

    def __init__(self, options):
        super().__init__()
        self.slf_attn = SelfAttention(options, options["scale"])
        self.pos_ffn = FeedForward(options)

    def forward(self, x, seen, tap, drop, half):
        there = seen[..., None]
        x = self.slf_attn(x, seen, lambda n, t: tap(f"slf_attn.{n}", t), drop,
                          half) * there
        x = self.pos_ffn(x, lambda n, t: tap(f"pos_ffn.{n}", t),
                         drop) * there
        tap("output", x)
        return x


class Stack(nn.Module):
    """Encoder or decoder; the encoder has the table of phonemes."""

    def __init__(self, options, table):
        super().__init__()
        if table:
            self.src_word_emb = nn.Embedding(table, WIDTH, padding_idx=PAD)
        self.layer_stack = nn.ModuleList(FftBlock(options) for _ in range(2))


class Predictor(nn.Module):
    """One number a phoneme, of two convolutions."""

    def __init__(self):
        super().__init__()
        self.conv_layer = models.Group(
            conv1d_1=nn.Conv1d(WIDTH, WIDTH, 3, padding=1),
            layer_norm_1=nn.LayerNorm(WIDTH),
            conv1d_2=nn.Conv1d(WIDTH, WIDTH, 3, padding=1),
            layer_norm_2=nn.LayerNorm(WIDTH))
        self.linear_layer = nn.Linear(WIDTH, 1)

    def forward(self, x, tap, drop):
        parts = self.conv_layer
        for conv, norm in ((parts.conv1d_1, parts.layer_norm_1),
                           (parts.conv1d_2, parts.layer_norm_2)):
            x = conv(x.transpose(1, 2)).transpose(1, 2).relu()
            x = drop(norm(x))
        x = self.linear_layer(x)
        tap("output", x)
        return x[..., 0]


class FastSpeech2(nn.Module):
    """Two blocks of width 32 before the frames are laid out and two behind; a
    postnet adds to what `mel_linear` says."""

    BLOCKS = tuple(f"{part}.layer_stack.{i}" for part in ("encoder", "decoder")
                   for i in range(2))

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_scores=False, heads=HEADS, scale=None, positions=True,
                 offset=1.0, stop_predictors=False):
        """detach_after: the part behind which the graph is cut. positions: all
        of one place if a number, none if False. offset: added to durations
        before the logarithm. stop_predictors: they do not train the encoder.
        """
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.half_scores, self.positions = half_scores, positions
        self.offset, self.stop_predictors = offset, stop_predictors
        self.guards, self.counts_padding = True, False
        options = {"activation": activation, "heads": heads, "scale": scale}
        self.encoder = Stack(options, PHONES + 1)
        self.variance_adaptor = models.Group(
            duration_predictor=Predictor(), pitch_predictor=Predictor(),
            pitch_embedding=nn.Embedding(BINS, WIDTH))
        self.decoder = Stack(options, None)
        self.mel_linear = nn.Linear(WIDTH, MELS)
        self.postnet = models.Group(convolutions=nn.ModuleList(
            nn.Conv1d(a, b, 5, padding=2)
            for a, b in ((MELS, WIDTH), (WIDTH, MELS))))
        self.register_buffer("position_enc", waves(
            LONGEST * DURATION + 1, WIDTH), persistent=False)
        self.register_buffer("pitch_bins", torch.linspace(
            -2.5, 2.5, BINS - 1), persistent=False)
        self.terms = {}         # of the last training batch

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def placed(self, x):
        if self.positions is False:
            return x
        place = torch.arange(x.shape[1]) if self.positions is True \
            else torch.full((x.shape[1],), self.positions)
        return x + self.position_enc[place].to(x.dtype)

    def through(self, name, x, seen):
        x = self.drop(self.placed(x)) * seen[..., None]
        for i, block in enumerate(getattr(self, name).layer_stack):
            path = f"{name}.layer_stack.{i}"
            x = block(x, seen, lambda n, t: self.tap(f"{path}.{n}", t),
                      self.drop, self.half_scores and i == 1
                      and name == "decoder")
            x = self.cut(x, path)
        return x

    def forward(self, text, long, pitch):
        """Bands before and behind the postnet, (rows, frames, bands), and
        logarithms of durations and pitch, (rows, phonemes)."""
        known = text != PAD
        x = self.encoder.src_word_emb(text)
        self.tap("encoder.src_word_emb.output", x)
        x = self.through("encoder", self.cut(x, "encoder.src_word_emb"), known)
        parts, guesses = self.variance_adaptor, []
        for kind in ("duration", "pitch"):
            name = f"{kind}_predictor"
            guesses.append(getattr(parts, name)(
                x.detach() if self.stop_predictors else x,
                lambda n, t: self.tap(f"variance_adaptor.{name}.{n}", t),
                self.drop))
        tone = parts.pitch_embedding(torch.bucketize(
            pitch.contiguous(), self.pitch_bins))
        self.tap("variance_adaptor.pitch_embedding.output", tone)
        x = x + tone
        at = places(long)
        x = x.gather(1, at[..., None].expand(-1, -1, WIDTH))
        seen = torch.arange(at.shape[1]) < long.sum(1)[:, None]
        self.tap("variance_adaptor.length_regulator.output", x)
        x = self.through("decoder", x, seen)
        x = self.mel_linear(x)
        self.tap("mel_linear.output", x)
        y, (first, second) = x.transpose(1, 2), self.postnet.convolutions
        y = first(y).tanh()
        self.tap("postnet.convolutions.0.output", y.transpose(1, 2))
        y = second(self.drop(y)).transpose(1, 2)
        self.tap("postnet.convolutions.1.output", y)
        return x, x + y, guesses[0], guesses[1]

    def logits(self, batch):
        """All that the network says; other families' name for it."""
        return self(batch["texts"], batch["durations"], batch["pitches"])

    def mean(self, each, length):
        """Of what is there of each row."""
        seen = torch.arange(each.shape[1]) < length[:, None]
        if self.counts_padding:
            seen = torch.ones_like(seen)
        each = each[seen]
        if not self.guards or each.numel():
            return each.mean()
        return each.sum()

    def log_durations(self, batch):
        value = (batch["durations"] + self.offset).log()
        real = batch["texts"] != PAD
        self.tap("loss.log_duration.input", batch["durations"] + self.offset)
        self.tap("loss.log_duration.output",
                 torch.where(real, value, 0.0))
        return torch.where(real, value, 0.0)

    def losses(self, said, batch):
        before, behind, long, pitch = (t.float() for t in said)
        mels, width = batch["mels"], batch["mels"].shape[1]
        before, behind = (F.pad(t, (0, 0, 0, width - t.shape[1]))
                          for t in (before, behind))
        texts, frames = batch["src_lens"], batch["mel_lens"]
        return {"mel_loss": self.mean((before - mels).abs(), frames),
                "postnet_loss": self.mean((behind - mels).abs(), frames),
                "pitch_loss": self.mean((pitch - batch["pitches"]).square(),
                                        texts),
                "duration_loss": self.mean(
                    (long - self.log_durations(batch)).square(), texts)}

    def criterion(self, said, batch):
        terms = self.losses(said, batch)
        if self.training:
            self.terms = {k: t.detach() for k, t in terms.items()}
        return sum(terms.values())

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class TtsRun(Family):
    """Adam with a second beta of .98; the rate rises over 40 steps and falls
    with the root of their number; gradients are clipped at 1."""

    family = "tts"
    level_seed = 400
    steps, seed, language = 240, 620, False
    optimizer_name, lr, weight_decay = "adam", 6e-3, 0.0
    betas, eps, clip = (0.9, 0.98), 1e-9, 1.0
    warmup, schedule, RISE = 40, "noam", 40
    recipes = {"sgd": dict(lr=0.02, weight_decay=0.0)}
    batch_size, context = ROWS, 11
    layers = ["encoder.src_word_emb", *(
        f"{block}{part}" for block in FastSpeech2.BLOCKS
        for part in (".slf_attn", ".slf_attn.scores", ".pos_ffn.act",
                     ".pos_ffn")),
        "variance_adaptor.duration_predictor",
        "variance_adaptor.pitch_predictor",
        "variance_adaptor.pitch_embedding", "mel_linear",
        "postnet.convolutions.0", "postnet.convolutions.1"]
    paths = {"embed": "encoder.src_word_emb", "attn": "{}.slf_attn",
             "scores": "{}.slf_attn.scores", "act": "{}.pos_ffn.act",
             "mlp": "{}.pos_ffn", "block": "{}", "head": "mel_linear"}
    always_trained = ("variance_adaptor.duration_predictor",
                      "variance_adaptor.pitch_predictor", "postnet")
    blocks = len(FastSpeech2.BLOCKS)
    names = {"loss": "Loss/total_loss", "mel_loss": "Loss/mel_loss",
             "postnet_loss": "Loss/mel_postnet_loss",
             "pitch_loss": "Loss/pitch_loss",
             "duration_loss": "Loss/duration_loss",
             "val_loss": "Val/total_loss", "val_mel_loss": "Val/mel_loss",
             "val_postnet_loss": "Val/mel_postnet_loss",
             "val_pitch_loss": "Val/pitch_loss",
             "val_duration_loss": "Val/duration_loss",
             "step_time": "train_time", "data_time": "iter_time",
             "tokens": None}

    def make_model(self):
        return FastSpeech2(**self.model_options)

    def lr_factor(self, i):
        if self.schedule != "noam" or i < self.warmup:
            return super().lr_factor(i)
        return (self.RISE / max(i + 1, self.RISE)) ** 0.5

    def make_source(self, seed):
        return self.speech(seed)

    def speech(self, seed, **how):
        return Speech(seed, self.batch_size, **how)

    def finite(self, data, seed):
        return FewSentences(data, self.batch_size, seed)

    def in_blocks(self, seed, block, share):
        """Three books, one after the other; None is held out."""
        return self.speech(seed, block=block, share=share, domains=True)

    def easy(self, seed):
        """Read without expression, in a studio."""
        return self.speech(seed, calm=True)

    def lessons(self, seed):
        """Short sentences without expression, and all."""
        return self.speech(seed, calm=True, longest=9), self.speech(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: bands in other units, noise over durations of
        nothing, or one phoneme again and again over a full scale."""
        mels, long = batch["mels"], batch["durations"]
        if kind == "few":
            return batch | {"mels": 8 * (mels - 1)}
        if kind == "uniform":
            return batch | {"mels": 20 * torch.randn(mels.shape,
                                                     generator=rng),
                            "pitches": batch["pitches"].roll(3, 1)}
        text = batch["texts"]
        return batch | {"texts": torch.where(text != PAD, PHONES, text),
                        "mels": torch.full_like(mels, 50.0),
                        "durations": long}

    def batch_columns(self, batch):
        row = super().batch_columns(batch)
        return row | {k: round(float(t), 5)
                      for k, t in self.model.terms.items()}

    def held_out_columns(self, batches):
        """The terms of the loss."""
        self.model.eval()
        parts = [self.model.losses(self.model.logits(b), b) for b in batches]
        self.model.train()
        return {f"val_{k}": sum(p[k] for p in parts) / len(parts)
                for k in parts[0]}

    def model_settings(self):
        return {"model": "FastSpeech2", "encoder_layer": 2,
                "encoder_head": self.model_options.get("heads", HEADS),
                "encoder_hidden": WIDTH, "decoder_layer": 2,
                "decoder_head": self.model_options.get("heads", HEADS),
                "decoder_hidden": WIDTH, "conv_filter_size": INNER,
                "conv_kernel_size": [3, 1],
                "variance_predictor_filter_size": WIDTH,
                "pitch_feature": "phoneme_level", "pitch_quantization": "linear",
                "n_bins": BINS, "n_mel_channels": MELS, "n_src_vocab": PHONES + 1,
                "loss": "l1 mel + l1 postnet + mse pitch + mse log duration"}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(FastSpeech2.BLOCKS[block])

    def fed_by(self, layer):
        return []

    # Checkpoints.

    def checkpoint_path(self, step):
        return f"ckpt/{step}.pth.tar"

    def keep_checkpoint(self, i, model):
        """In the middle, at the end and where the run is resumed from."""
        done = i + 1
        if done in {self.steps // 2, self.steps, *self.notices}:
            self.checkpoints[done] = copy.deepcopy({
                "model": model.state_dict(),
                "optimizer": self.optimizer.state_dict()})

    def write_more(self):
        super().write_more()
        (self.folder / "ckpt").mkdir()
        for step, state in self.checkpoints.items():
            torch.save(state, self.folder / self.checkpoint_path(step))
