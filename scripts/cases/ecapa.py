"""A network of speakers' voices, as SpeechBrain trains ECAPA-TDNN.

The recipe is VoxCeleb's train_speaker_embeddings.py: log-mel features that
are centred by sentence, a batch and a distorted copy of it as one, blocks of
Res2Net with squeeze and excitation, statistics pooled by attention, and a
classifier of cosines whose loss asks for a margin of the angle. Held out are
other sentences of the same speakers: loss, ErrorRate, and the equal error
rate of pairs.
"""

import copy
import json
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import logs, models
from .family import Family
from .recorder import START, save_tensors

FRAMES, MELS, ROWS, HELD = 28, 16, 16, 32
SPEAKERS, SHARDS, CORPORA = 12, 4, 3
CHANNELS, WIDE, SCALE, SQUEEZE, ATTENTION, LIN = 24, 32, 4, 6, 12, 16
MARGIN, SHARP = 0.2, 30.0
PHONE = 4               # frames of one


class Utterances:
    """Sentences of 12 speakers: [rows, frames, mels], relative lengths, names.

    A sentence is a silence of 1 to 6 frames and then phones of 4, each two
    formants that glide; it takes 20 to 28 frames, and 0 fills up. A speaker
    is one of three tracts, which stretch where formants are, one of two
    voices, which breathe in a half of the bands, and of two accents, whose
    formants glide up or down: what is heard in the mean of a frame's
    neighbours, in the spread of a band, and in what follows what. The room
    tilts and lifts all frames of a recording, which centring takes out; noise
    of .3 lies on each place.

    Of the names .04 are wrong, each of the others alike, so that nobody has
    an ErrorRate below .04.

    block, share: shards of three speakers each, one after the other. clean:
    no noise to speak of and no wrong names. corpora: three of them, with
    microphones that weigh bands differently.
    """

    WRONG, NOISE, GLIDE = 0.04, 0.3, 5.0

    def __init__(self, seed, rows, block=None, share=1.0, clean=False,
                 corpora=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share = rows, block, share
        self.clean, self.corpora, self.number = clean, corpora, 0
        self.phones = torch.tensor((
            (2.5, 6.0), (3.5, 9.5), (4.5, 7.5), (2.5, 10.0), (5.5, 9.0)))
        self.tracts = torch.tensor((0.78, 1.0, 1.25))

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def speakers(self, rows):
        who = torch.randint(SPEAKERS, (rows,), generator=self.rng)
        if self.block:
            size = SPEAKERS // SHARDS
            here = self.number // self.block % SHARDS * size
            own = here + torch.randint(size, (rows,), generator=self.rng)
            kept = torch.rand(rows, generator=self.rng) < self.share
            who = torch.where(kept, own, who)
        self.number += 1
        return who

    def batch(self, rows=None):
        rows = rows or self.rows
        who = self.speakers(rows)
        time = torch.arange(FRAMES)[None]
        begin = torch.randint(1, 7, (rows, 1), generator=self.rng)
        long = torch.randint(20, FRAMES + 1, (rows, 1), generator=self.rng)
        long[0] = FRAMES    # a batch is as wide as its longest
        said = torch.randint(len(self.phones), (rows, FRAMES // PHONE + 1),
                             generator=self.rng)
        at = (time - begin).clamp_min(0)
        phone = said.gather(1, at // PHONE)
        heard = ((time >= begin) & (time < long)).float()[..., None]
        part = (at % PHONE + 0.5) / PHONE - 0.5
        tract, voice, accent = who % 3, who // 3 % 2, who // 6
        way = (2.0 * accent - 1)[:, None] * part * self.GLIDE
        place = (self.phones[phone] + way[..., None]) \
            * self.tracts[tract][:, None, None]
        bands = torch.arange(float(MELS))
        x = (2.2 * (-0.5 * (bands[:, None] - place[:, :, None])
                    .square()).exp()).sum(-1)
        half = (torch.arange(MELS) * 2 // MELS == voice[:, None])[:, None]
        breath = torch.randn(x.shape, generator=self.rng)
        x = x * self.uniform(0.8, 1.2, rows, 1, 1) + 1.2 * breath * half
        noise = torch.randn(x.shape, generator=self.rng)
        room = self.uniform(-1, 1, rows, 1, 1) + torch.linspace(
            -1, 1, MELS) * self.uniform(-1, 1, rows, 1, 1)
        x = heard * x + room + (0.1 if self.clean else self.NOISE) * noise
        x = x * (time < long)[..., None]
        wrong = torch.rand(rows, generator=self.rng) < (
            0.0 if self.clean else self.WRONG)
        step = torch.randint(1, SPEAKERS, (rows,), generator=self.rng)
        batch = {"feats": x, "lens": (long[:, 0] / FRAMES).float(),
                 "spkid": torch.where(wrong, (who + step) % SPEAKERS, who)}
        if self.corpora:
            corpus = torch.randint(CORPORA, (rows,), generator=self.rng)
            gain = 1 + 0.25 * (corpus - 1)[:, None, None] * torch.linspace(
                -1, 1, MELS)
            batch |= {"feats": gain * x, "domain": corpus}
        return batch


def mask_of(lens, frames):
    """length_to_mask(), [rows, 1, frames]."""
    return (torch.arange(frames) < (lens * frames).round()[:, None])[:, None]


class Wrapped(nn.Module):
    """SpeechBrain's convolutions are modules around torch's."""

    def __init__(self, channels, out, kernel=1, dilation=1):
        super().__init__()
        self.conv = nn.Conv1d(
            channels, out, kernel, dilation=dilation,
            padding=(kernel - 1) * dilation // 2)

    def forward(self, x):
        return self.conv(x)


class WrappedNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x):
        return self.norm(x)


class TDNNBlock(nn.Module):
    """Convolution, activation, norm."""

    def __init__(self, options, name, channels, out, kernel=1, dilation=1):
        super().__init__()
        self.conv = Wrapped(channels, out, kernel, dilation)
        self.activation = models.ACTIVATIONS[options["activation"]]()
        self.norm = WrappedNorm(out)
        self.dropout = nn.Dropout1d(options["dropout"])
        self.name, self.half_at = name, options["half_at"]

    def forward(self, x, tap):
        tap(f"{self.name}.conv.input", x)
        y = self.conv(x)
        if self.half_at == f"{self.name}.conv":
            y = y.half()
        tap(f"{self.name}.conv.output", y)
        y = y.to(x.dtype)
        tap(f"{self.name}.activation.input", y)
        y = self.activation(y)
        tap(f"{self.name}.activation.output", y)
        y = self.norm(y)
        return self.dropout(y) if self.dropout.p else y


class Res2NetBlock(nn.Module):
    """Channels in parts, of which each hears the one before it."""

    def __init__(self, options, name, channels, dilation):
        super().__init__()
        each = channels // SCALE
        self.blocks = nn.ModuleList(TDNNBlock(
            options, f"{name}.blocks.{i}", each, each, 3, dilation)
            for i in range(SCALE - 1))

    def forward(self, x, tap):
        first, *parts = x.chunk(SCALE, 1)
        out, y = [first], 0.0
        for part, block in zip(parts, self.blocks):
            y = block(part + y, tap)
            out.append(y)
        return torch.cat(out, 1)


class SEBlock(nn.Module):
    def __init__(self, name, channels, squeeze):
        super().__init__()
        self.conv1 = Wrapped(channels, squeeze)
        self.conv2 = Wrapped(squeeze, channels)
        self.name = name

    def forward(self, x, mask, tap):
        s = (x * mask).sum(2, keepdim=True) / mask.sum(2, keepdim=True)
        s = self.conv2(self.conv1(s).relu())
        tap(f"{self.name}.conv2.output", s)
        return s.sigmoid() * x


class SERes2NetBlock(nn.Module):
    def __init__(self, options, name, channels, dilation):
        super().__init__()
        self.tdnn1 = TDNNBlock(options, f"{name}.tdnn1", channels, channels)
        # Only the outer ones have the activation that is given.
        inner = options | {"activation": "relu", "dropout": 0.0}
        self.res2net_block = Res2NetBlock(inner, f"{name}.res2net_block",
                                          channels, dilation)
        self.tdnn2 = TDNNBlock(options, f"{name}.tdnn2", channels, channels)
        self.se_block = SEBlock(f"{name}.se_block", channels, SQUEEZE)
        self.name = name

    def forward(self, x, mask, tap):
        y = self.tdnn2(self.res2net_block(self.tdnn1(x, tap), tap), tap)
        y = self.se_block(y, mask, tap) + x
        tap(f"{self.name}.output", y)
        return y


def statistics(x, weight):
    mean = (weight * x).sum(2)
    spread = (weight * (x - mean[..., None]).square()).sum(2)
    return mean, spread.clamp_min(1e-12 if x.dtype == torch.float32
                                  else 1e-4).sqrt()


class AttentiveStatisticsPooling(nn.Module):
    """Mean and spread over frames, which attention weighs by channel.

    temperature: what scores are divided by."""

    def __init__(self, options, name, channels):
        super().__init__()
        self.tdnn = TDNNBlock(options | {"activation": "relu", "dropout": 0.0},
                              f"{name}.tdnn", 3 * channels, ATTENTION)
        self.conv = Wrapped(ATTENTION, channels)
        self.name, self.temperature = name, options["temperature"]

    def forward(self, x, mask, tap):
        even = mask.to(x.dtype) / mask.sum(2, keepdim=True)
        context = [s[..., None].expand_as(x) for s in statistics(x, even)]
        scores = self.conv(self.tdnn(torch.cat((x, *context), 1), tap).tanh())
        tap(f"{self.name}.conv.output", scores)
        scores = (scores / self.temperature).masked_fill(~mask, -math.inf)
        return torch.cat(statistics(x, scores.softmax(2)), 1)[..., None]


class ECAPA_TDNN(nn.Module):
    """The embedding model; one block fewer than in the paper."""

    def __init__(self, options, name):
        super().__init__()
        self.blocks = nn.ModuleList([TDNNBlock(
            options, f"{name}.blocks.0", MELS, CHANNELS, 5)])
        self.blocks.extend(SERes2NetBlock(
            options, f"{name}.blocks.{i}", CHANNELS, i + 1) for i in (1, 2))
        self.mfa = TDNNBlock(options, f"{name}.mfa", 2 * CHANNELS, WIDE)
        self.asp = AttentiveStatisticsPooling(options, f"{name}.asp", WIDE)
        self.asp_bn = WrappedNorm(2 * WIDE)
        self.fc = Wrapped(2 * WIDE, LIN)
        self.name, self.cuts = name, options["detach_after"]

    def cut(self, x, part):
        return x.detach() if f"{self.name}.{part}" == self.cuts else x

    def forward(self, x, mask, tap):
        x = x.transpose(1, 2)
        x = self.blocks[0](x, tap)
        tap(f"{self.name}.blocks.0.output", x)
        x, parts = self.cut(x, "blocks.0"), []
        for i in (1, 2):
            x = self.cut(self.blocks[i](x, mask, tap), f"blocks.{i}")
            parts.append(x)
        x = self.cut(self.mfa(torch.cat(parts, 1), tap), "mfa")
        tap(f"{self.name}.mfa.output", x)
        x = self.cut(self.asp(x, mask, tap), "asp")
        tap(f"{self.name}.asp.output", x)
        x = self.fc(self.asp_bn(x))
        tap(f"{self.name}.fc.output", x)
        return self.cut(x, "fc")[..., 0]


class Classifier(nn.Module):
    """Cosines with a vector for each speaker."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList()
        self.weight = nn.Parameter(torch.empty(SPEAKERS, LIN))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x):
        return F.linear(F.normalize(x), F.normalize(self.weight))


class SpeakerModel(nn.Module):
    """The modules of the brain, and what it computes with them.

    squashes: the loss makes probabilities of what gets a softmax. copies: how
    many distorted ones of a training batch go behind it.
    """

    INNER = ("embedding_model.blocks.1", "embedding_model.blocks.2")

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None, temperature=1.0, margin=MARGIN,
                 scale=SHARP, copies=1, bands=1, chunks=1):
        """detach_after: the part behind which the graph is cut."""
        super().__init__()
        options = {"activation": activation, "dropout": dropout,
                   "temperature": temperature,
                   "half_at": half_at, "detach_after": detach_after}
        self.embedding_model = ECAPA_TDNN(options, "embedding_model")
        self.classifier = Classifier()
        self.margin, self.scale, self.squashes = margin, scale, False
        self.copies, self.bands, self.chunks = copies, bands, chunks
        self.keeps_original = True
        self.distort = self.distorted

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    @staticmethod
    def hidden(x, axis, most):
        """Of each row a run of up to `most` places along an axis is 0."""
        size = x.shape[axis]
        wide = torch.rand(len(x), 1) * (most + 1)
        first = torch.rand(len(x), 1) * (size - wide)
        place = torch.arange(size)
        here = (place >= first) & (place < first + wide)
        return x.masked_fill(here.unsqueeze(3 - axis), 0.0)

    def distorted(self, x):
        """Noise of a level that is drawn, another speed, bands and chunks
        that are dropped."""
        rows, frames, bands = x.shape
        pace = 0.9 + 0.2 * torch.rand(rows, 1)
        at = (torch.arange(frames) * pace).round().long() \
            .clamp(max=frames - 1)
        x = x.gather(1, at[..., None].expand(-1, -1, bands))
        x = x + 0.4 * torch.rand(rows, 1, 1) * torch.randn(x.shape)
        for _ in range(self.bands):
            x = self.hidden(x, 2, 2)
        for _ in range(self.chunks):
            x = self.hidden(x, 1, 4)
        return x

    def centred(self, x, mask):
        """InputNormalization by sentence; what fills up is not counted."""
        mask = mask.transpose(1, 2)
        mean = (x * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)
        return x - mean

    def embedded(self, batch):
        kind = self.classifier.weight.dtype
        x, lens = batch["feats"].float(), batch["lens"]
        if self.training and self.copies:
            parts = [self.distort(x) for _ in range(self.copies)]
            if self.keeps_original:
                parts.insert(0, x)
            x, lens = torch.cat(parts), lens.repeat(len(parts))
        mask = mask_of(lens, x.shape[1])
        x = self.centred(x, mask)
        self.tap("mean_var_norm.output", x)
        return self.embedding_model(x.to(kind), mask, self.tap)

    def logits(self, batch):
        """Cosines of a batch, and behind it those of its copies."""
        x = self.classifier(self.embedded(batch))
        self.tap("classifier.output", x)
        return x

    def margined(self, cosine, labels, margin=None):
        """AdditiveAngularMargin."""
        margin = self.margin if margin is None else margin
        cosine = cosine.float().clamp(-1 + 1e-7, 1 - 1e-7)
        sine = (1 - cosine.square()).sqrt()
        phi = cosine * math.cos(margin) - sine * math.sin(margin)
        phi = torch.where(cosine > math.cos(math.pi - margin), phi,
                          cosine - math.sin(math.pi - margin) * margin)
        own = F.one_hot(labels, cosine.shape[1]).to(cosine.dtype)
        return self.scale * (own * phi + (1 - own) * cosine)

    @staticmethod
    def labels(cosine, batch):
        return batch["spkid"].repeat(len(cosine) // len(batch["spkid"]))

    def criterion(self, cosine, batch, share=0.0, margin=None):
        """LogSoftmaxWrapper; `share` smooths labels."""
        labels = self.labels(cosine, batch)
        scores = self.margined(cosine, labels, margin)
        if self.squashes:
            scores = scores.softmax(-1)
        return F.cross_entropy(scores, labels, label_smoothing=share)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


# What feeds the activations of the blocks.
BEFORE_ACT = tuple(f"{block}.{part}.conv.conv" for block in SpeakerModel.INNER
                   for part in ("tdnn1", "tdnn2")) + (
    "embedding_model.mfa.conv.conv",)


def equal_error_rate(embeddings, labels):
    """Of all pairs of sentences, by their cosine."""
    x = F.normalize(embeddings.float())
    first, second = torch.triu_indices(len(x), len(x), 1)
    scores = (x[first] * x[second]).sum(1).nan_to_num(-1.0)
    same = labels[first] == labels[second]
    order = scores.argsort(descending=True, stable=True)
    hits = same[order].double().cumsum(0)
    false = (~same[order]).double().cumsum(0)
    missed = 1 - hits / hits[-1].clamp_min(1)
    wrong = false / false[-1].clamp_min(1)
    at = (missed - wrong).abs().argmin()
    return float((missed[at] + wrong[at]) / 2)


def best():
    """The loss and the error rate of who knows the speakers, and has any
    cosines that he likes with theirs and the others' vectors."""
    model, wrong = SpeakerModel(), Utterances.WRONG
    own = torch.linspace(-1, 1, 401)[:, None].expand(-1, 401).flatten()
    rest = torch.linspace(-1, 1, 401)[None].expand(401, -1).flatten()
    cosine = torch.cat((own[:, None], rest[:, None].expand(
        -1, SPEAKERS - 1)), 1)
    right, other = (F.cross_entropy(model.margined(cosine, labels), labels,
                                    reduction="none")
                    for labels in (torch.zeros(len(own)).long(),
                                   torch.ones(len(own)).long()))
    return float(((1 - wrong) * right + wrong * other).min()), wrong


class EcapaRun(Family):
    """Adam with a small decay of its own kind, a rate that goes up and down
    three times as CyclicLRScheduler does it, norms above 5 clipped."""

    family = "ecapa"
    level_seed = 400
    steps, seed, language, classes = 120, 2700, False, SPEAKERS
    optimizer_name, lr, weight_decay = "adam", 0.025, 2e-6
    recipes = {"sgd": dict(lr=0.05, weight_decay=2e-6)}
    warmup, schedule, clip = 0, "cyclic", 5.0
    STEP_SIZE, BASE_LR, mode = 20, 1e-8, "triangular"
    EPOCH, epoch_steps = 20, 60     # of SpeechBrain, of Lightning
    _val_every = 40
    batch_size, context = ROWS, FRAMES
    # Its users have the trainer's own log.
    instead = {"nanogpt": "speechbrain", "hf_trainer": "speechbrain",
               "megatron": "speechbrain", "torchtune": "speechbrain"}
    layers = ["embedding_model.blocks.0.conv", *(
        f"{block}.{part}" for block in SpeakerModel.INNER
        for part in ("tdnn1.conv", "tdnn1.activation",
                     "res2net_block.blocks.0.conv", "tdnn2.conv",
                     "se_block.conv2")),
        "embedding_model.mfa.conv", "embedding_model.mfa.activation",
        "embedding_model.asp.conv", "embedding_model.fc", "classifier"]
    graded = {
        "F01": (dict(factor=20), dict(factor=100), dict(factor=1000)),
        "F02": (dict(lr=5.0), dict(lr=20.0), dict(lr=100.0)),
        "F04": (dict(at=60), dict(at=25), dict(at=0)),
        "F05": (dict(modules=["embedding_model.blocks"],
                     where="embedding_model.blocks.0"),
                dict(modules=["embedding_model.blocks",
                              "embedding_model.mfa"],
                     where="embedding_model.blocks.0"),
                dict(part="all")),
        "F07": (dict(factor=4), dict(factor=12), dict(factor=100)),
        "F08": (dict(every=8), dict(every=32), dict(every=1 << 30)),
        "F09": (dict(parts=8, logs_sum=False), dict(parts=12, logs_sum=True),
                dict(parts=16, logs_sum=True)),
        "F11": (dict(adam=0.03), dict(adam=0.1), dict(adam=0.5)),
        "F12": (dict(beta2=0.5), dict(eps=0.4), dict(eps=1.0)),
        "F13": (dict(path="embedding_model.blocks.1"),
                dict(path="embedding_model.mfa"),
                dict(path="embedding_model.fc")),
        "F14": (dict(modules=["embedding_model.blocks.1",
                              "embedding_model.blocks.2"]),
                dict(modules=["embedding_model.blocks.1",
                              "embedding_model.blocks.2",
                              "embedding_model.mfa"]),
                dict(modules=["embedding_model.blocks.1",
                              "embedding_model.blocks.2",
                              "embedding_model.mfa", "embedding_model.asp",
                              "embedding_model.fc"])),
        "F15": (dict(at=90), dict(at=70), dict(at=50)),
        "F27": (dict(epochs=20), dict(epochs=40), dict(epochs=120)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=14), dict(limit=10), dict(limit=7)),
        "F34": (dict(factor=30), dict(factor=300), dict(factor=0)),
        "F39a": (dict(at=90, keep=0.5), dict(at=60, keep=0.25),
                 dict(at=30, keep=0.125)),
        "F39b": (dict(at=75), dict(at=55), dict(at=30)),
        "F41": (dict(share=0.4, at=0, every=1),
                dict(share=0.7, at=70, every=1),
                dict(share=0.85, at=0, every=8)),
        "F43": (dict(kind="unreduced", at=60), dict(kind="skip", at=110),
                dict(kind="init", at=0)),
        "H11": (dict(steps=250, keep="block"), dict(steps=250, keep="head")),
        "H02": (dict(factor=0.6), dict(factor=0.45)),
        "H03": (dict(rows=14), dict(rows=13)),
        "H04": (dict(rate=0.03), dict(rate=0.1)),
        "H43": (dict(parts=2), dict(parts=3))}
    paths = {"embed": "embedding_model.blocks.0.conv", "attn": None,
             "scores": None, "act": "{}.tdnn1.activation",
             "mlp": "{}.tdnn2.conv", "block": "{}", "head": "classifier"}
    blocks = len(SpeakerModel.INNER)
    base = {"lr": 8e-3}
    always_trained = ("embedding_model.mfa", "embedding_model.asp",
                      "embedding_model.asp_bn", "embedding_model.fc")
    names = {"loss": "train_loss", "val_loss": "valid_loss",
             "val_error_rate": "valid_ErrorRate", "val_eer": "valid_EER",
             "tokens": None}

    def make_model(self):
        return SpeakerModel(**self.model_options)

    def lr_factor(self, i):
        """The scheduler counts a batch before it is used."""
        if self.schedule != "cyclic":
            return super().lr_factor(i)
        done, size = i + 1, self.STEP_SIZE
        cycle = math.floor(1 + done / (2 * size))
        part = 1 - abs(done / size - 2 * cycle + 1)
        if self.mode == "triangular2":
            part /= 2 ** (cycle - 1)
        low = self.BASE_LR / self.lr
        return low + (1 - low) * max(0.0, part)

    @property
    def val_every(self):
        """SpeechBrain validates behind each epoch."""
        return self.EPOCH if self.dialect == "speechbrain" \
            else self._val_every

    @val_every.setter
    def val_every(self, steps):
        self._val_every = steps

    def make_source(self, seed):
        return self.recordings(seed)

    def recordings(self, seed, **how):
        """Drawn without end; an epoch is 20 steps of it."""
        return Utterances(seed, HELD if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Shards of three speakers, one after the other; None is held out."""
        return self.recordings(seed, block=block, share=share)

    def easy(self, seed):
        """Recordings of a studio, and no wrong names."""
        return self.recordings(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.recordings(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: energies of which nobody took the logarithm, noise
        with any names, or sound at its limit of one speaker."""
        x, who = batch["feats"], batch["spkid"]
        if kind == "few":
            return batch | {"feats": (2 * x).exp(), "spkid": who.roll(5)}
        if kind == "uniform":
            return batch | {
                "feats": 50 * torch.randn(x.shape, generator=rng),
                "spkid": torch.randint(SPEAKERS, who.shape, generator=rng)}
        return batch | {"feats": 100 + torch.randn(x.shape, generator=rng),
                        "spkid": torch.full_like(who, SPEAKERS - 1)}

    @staticmethod
    def first_frames(batch, limit):
        """Of each recording no more than its first frames."""
        return batch | {"feats": batch["feats"][:, :limit].contiguous(),
                        "lens": torch.ones_like(batch["lens"])}

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)

    def held_out_columns(self, batches):
        """ErrorRate, and the equal error rate of pairs."""
        self.model.eval()
        seen = [self.model.embedded(b) for b in batches]
        said = [self.model.classifier(x).argmax(-1) for x in seen]
        self.model.train()
        labels = torch.cat([b["spkid"] for b in batches])
        error = float((torch.cat(said) != labels).float().mean())
        if error <= self.best[0]:
            self.best = error, len(self.history) + 1
            self.kept["best"] = self.states()
        return {"val_error_rate": error,
                "val_eer": equal_error_rate(torch.cat(seen), labels)}

    # Checkpoints.

    def train(self):
        self.best, self.kept = (math.inf, 0), {}
        super().train()

    def states(self):
        return copy.deepcopy({
            "embedding_model": self.model.embedding_model.state_dict(),
            "classifier": self.model.classifier.state_dict(),
            "optimizer": self.optimizer.state_dict()})

    def keep_checkpoint(self, i, model):
        """The last one is kept, and the one with the least errors."""
        if i == self.steps - 1 or i + 1 in self.notices:
            self.checkpoints[i + 1] = self.states()

    def checkpoint_path(self, step):
        """As its Checkpointer names them, by the second; those of the same
        one are numbered."""
        def second(done):
            return int(0.0275 * done)
        before = [done for done in range(self.EPOCH, step, self.EPOCH)
                  if second(done) == second(step)]
        return f"{self.FOLDER}/save/CKPT+" + self.at(
            second(step), "%Y-%m-%d+%H-%M-%S") + f"+{len(before):02}"

    FOLDER = "results/ecapa_augment/1986"

    def write_more(self):
        super().write_more()
        kept = dict(self.checkpoints)
        if "best" in self.kept:
            kept.setdefault(self.best[1], self.kept["best"])
        for done, states in sorted(kept.items()):
            name = self.checkpoint_path(done).rsplit("/", 1)[1]
            folder = self.folder / "save" / name
            folder.mkdir(parents=True)
            for part, state in states.items():
                torch.save(state, folder / f"{part}.ckpt")
            torch.save({"count": 0, "glob_mean": torch.zeros(1),
                        "glob_std": torch.zeros(1), "spk_dict_mean": {},
                        "spk_dict_std": {}, "spk_dict_count": {}},
                       folder / "normalizer.ckpt")
            torch.save({"losses": [], "clr_iterations": done},
                       folder / "lr_annealing.ckpt")
            (folder / "counter.ckpt").write_text(
                str(-(-done // self.EPOCH)))
            row = self.history[done - 1]
            (folder / "CKPT.yaml").write_text(
                "# yamllint disable\n" + (
                    f"ErrorRate: {row['val_error_rate']}\n"
                    if "val_error_rate" in row else "")
                + f"end-of-epoch: {str(done % self.EPOCH == 0).lower()}\n"
                f"unixtime: {START.timestamp() + row['wall']}\n")

    # What the user typed.

    def settings(self):
        settings = super().settings()
        settings |= {"number_of_epochs": self.epochs} | self.user
        if self.schedule == "cyclic":
            settings |= {"base_lr": self.BASE_LR, "max_lr": self.lr,
                         "step_size": self.STEP_SIZE, "mode": self.mode}
        return settings

    def model_settings(self):
        options = self.model_options
        return {"model": "ecapa_tdnn", "n_mels": MELS,
                "channels": [CHANNELS] * 3 + [WIDE],
                "kernel_sizes": [5, 3, 3, 1], "dilations": [1, 2, 3, 1],
                "attention_channels": ATTENTION, "res2net_scale": SCALE,
                "se_channels": SQUEEZE, "lin_neurons": LIN,
                "out_n_neurons": SPEAKERS, "activation": "relu",
                "dropout": options.get("dropout", 0.0),
                "margin": options.get("margin", MARGIN),
                "scale": options.get("scale", SHARP)}

    def hyperparams(self):
        """hyperparams.yaml, as the trainer resolves it."""
        own = self.model_settings()
        kind = {"sgd": "SGD", "adam": "Adam"}.get(self.optimizer_name,
                                                  "AdamW")
        optimizer = {"lr": self.lr, "weight_decay": self.weight_decay}
        optimizer |= {"momentum": self.momentum} if kind == "SGD" else {
            "betas": list(self.betas), "eps": self.eps}
        cyclic = self.schedule == "cyclic"
        lines = ["# Generated 2026-01-05 from:",
                 "# hparams/train_ecapa_tdnn.yaml", "# yamllint disable"]

        def say(values, indent=""):
            for key, value in values.items():
                text = json.dumps(value) if not isinstance(value, bool) \
                    else str(value)
                lines.append(f"{indent}{key}: {text}")

        def new(key, kind, values):
            lines.append(f"{key}: {kind}")
            say(values, "  ")

        say({"seed": self.seed})
        lines.append(f"__set_seed: !apply:torch.manual_seed [{self.seed}]")
        say({"output_folder": self.FOLDER,
             "save_folder": f"{self.FOLDER}/save",
             "train_log": f"{self.FOLDER}/train_log.txt",
             "train_annotation": f"{self.FOLDER}/save/train.csv",
             "valid_annotation": f"{self.FOLDER}/save/dev.csv",
             "split_ratio": [90, 10], "skip_prep": False,
             "ckpt_interval_minutes": 15,
             "number_of_epochs": self.epochs,
             "batch_size": self.batch_size, "lr": self.lr})
        if cyclic:
            say({"base_lr": self.BASE_LR, "max_lr": self.lr,
                 "step_size": self.STEP_SIZE})
        say({"sample_rate": 16000, "sentence_len": FRAMES / 100,
             "shuffle": True, "random_chunk": True,
             "max_grad_norm": self.clip if self.clip is not None else -1.0,
             "grad_accumulation_factor": self.accumulate,
             "precision": self.precision, "nonfinite_patience": self.steps,
             "n_mels": MELS, "out_n_neurons": SPEAKERS, **self.user})
        new("embedding_model",
            "&id001 !new:speechbrain.lobes.models.ECAPA_TDNN.ECAPA_TDNN", {
                "input_size": MELS, **{k: own[k] for k in (
                    "channels", "kernel_sizes", "dilations",
                    "attention_channels", "res2net_scale", "se_channels",
                    "lin_neurons", "dropout")}})
        new("classifier",
            "&id002 !new:speechbrain.lobes.models.ECAPA_TDNN.Classifier",
            {"input_size": LIN, "out_neurons": SPEAKERS})
        new("epoch_counter",
            "&id004 !new:speechbrain.utils.epoch_loop.EpochCounter",
            {"limit": self.epochs})
        new("wav_augment", "!new:speechbrain.augment.augmenter.Augmenter", {
            "parallel_augment": True,
            "concat_original": self.user.get("concat_original", True),
            "min_augmentations": 4, "max_augmentations": 4,
            "augment_prob": 1.0})
        new("mean_var_norm", "&id003 "
            "!new:speechbrain.processing.features.InputNormalization",
            {"norm_type": self.user.get("norm_type", "sentence"),
             "std_norm": self.user.get("std_norm", False)})
        lines.extend((
            "modules:", "  embedding_model: *id001",
            "  classifier: *id002", "  mean_var_norm: *id003",
            "compute_cost: !new:speechbrain.nnet.losses.LogSoftmaxWrapper",
            "  loss_fn: !new:speechbrain.nnet.losses.AdditiveAngularMargin"))
        say({"margin": own["margin"], "scale": own["scale"]}, "    ")
        new("opt_class", f"!name:torch.optim.{kind}", optimizer)
        if cyclic:
            new("lr_annealing", "&id005 "
                "!new:speechbrain.nnet.schedulers.CyclicLRScheduler",
                {"base_lr": self.BASE_LR, "max_lr": self.lr,
                 "step_size": self.STEP_SIZE, "mode": self.mode})
        else:
            new("lr_annealing", "&id005 !new:custom_schedulers.ByStep",
                {"name": self.schedule, "lr": self.lr,
                 "warmup_steps": self.warmup})
        new("train_logger",
            "!new:speechbrain.utils.train_logger.FileTrainLogger",
            {"save_file": f"{self.FOLDER}/train_log.txt"})
        lines.extend((
            "error_stats: !name:speechbrain.utils.metric_stats.MetricStats",
            "  metric: !name:speechbrain.nnet.losses.classification_error",
            "    reduction: batch",
            "checkpointer: "
            "!new:speechbrain.utils.checkpoints.Checkpointer",
            f"  checkpoints_dir: {self.FOLDER}/save", "  recoverables:",
            "    embedding_model: *id001", "    classifier: *id002",
            "    normalizer: *id003", "    counter: *id004",
            "    lr_annealing: *id005"))
        return lines

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(SpeakerModel.INNER[block])

    def fed_by(self, layer):
        """The norm behind a convolution counts to it."""
        part = layer.removesuffix(".conv")
        return [f"{part}.norm"] if part != layer \
            and part != "embedding_model.asp" else []

    # Logs.

    def write_files(self):
        if self.dialect == "speechbrain":
            SpeechBrainLog(self).write()
        else:
            super().write_files()


class SpeechBrainLog:
    """What SpeechBrain leaves: train_log.txt with a line an epoch, log.txt
    with all that was said, hyperparams.yaml, env.log; and metrics.jsonl of a
    user's on_fit_batch_end(), with what a batch has, every so many of them."""

    def __init__(self, run):
        self.run, self.lines = run, []

    def say(self, seconds, where, text, level="INFO"):
        self.lines.append(f"{self.run.at(seconds)} - {where} - {level} - "
                          f"{text}")

    @staticmethod
    def stats(values, dataset=None):
        """As FileTrainLogger formats them."""
        out = []
        for key, value in values.items():
            if isinstance(value, float) and 1.0 < value < 100.0:
                value = f"{value:.2f}"
            elif isinstance(value, float):
                value = f"{value:.2e}"
            out.append((f"{dataset} {key}" if dataset else key)
                       + f": {value}")
        return ", ".join(out)

    @staticmethod
    def average(losses):
        """update_average(): losses that are not finite are passed over."""
        mean = 0.0
        for i, loss in enumerate(losses):
            if math.isfinite(loss):
                mean += (loss - mean) / (i + 1)
        return mean

    def write(self):
        run = self.run
        names, every = logs.column_names(run), run.interval or 1
        keys = [k for k in ("step", "loss", "grad_norm", "lr", "step_time",
                            *logs.MORE) if not k.startswith("val_")
                and not logs.left_out(run, k)]
        run.write_lines("metrics.jsonl", (
            json.dumps({names.get(k, k): row[k] for k in keys if k in row})
            for row in (run.history[i] for i in logs.logged(run, every))))
        self.say(-3.4, "speechbrain.utils.quirks",
                 "Applied quirks (see `speechbrain.utils.quirks`): "
                 "[allow_tf32, disable_jit_profiling]")
        self.say(-3.3, "speechbrain.core", "Beginning experiment!")
        self.say(-3.3, "speechbrain.core",
                 f"Experiment folder: {run.FOLDER}")
        self.say(-2.9, "voxceleb_prepare",
                 "Skipping preparation, completed in previous run.")
        for key in ("max_grad_norm", "grad_accumulation_factor", "precision",
                    "ckpt_interval_minutes", "nonfinite_patience"):
            self.say(-2.2, "speechbrain.core",
                     f"Info: {key} arg from hparam file is used")
        self.say(-2.1, "speechbrain.core", "Gradscaler enabled: `False`")
        trained = sum(p.numel() for p in run.model.parameters()
                      if p.requires_grad)
        self.say(-2.1, "speechbrain.core",
                 f"SpeakerBrain Model Statistics:\n* Total Number of "
                 f"Trainable Parameters: {trained / 1e3:.1f}k\n* Total Number "
                 f"of Parameters: {run.parameters / 1e3:.1f}k\n* Trainable "
                 f"Parameters represent {100 * trained / run.parameters:.4f}% "
                 "of the total size.")
        self.say(-0.1, "speechbrain.utils.checkpoints",
                 "Would load a checkpoint here, but none found yet.")
        table = []
        for epoch in range(run.epochs):
            start = epoch * run.EPOCH
            part = run.history[start:start + run.EPOCH]
            self.say(part[0]["wall"] - part[0]["step_time"],
                     "speechbrain.utils.epoch_loop",
                     f"Going into epoch {epoch + 1}")
            for i, row in enumerate(part, start):
                for level, text in run.notices.get(i, ()):
                    self.say(row["wall"], "speechbrain.utils.checkpoints",
                             text, level)
                if not math.isfinite(row["loss"]):
                    self.say(row["wall"], "speechbrain.core",
                             f"Loss is {row['loss']}.", "WARNING")
                    self.say(row["wall"], "speechbrain.core",
                             "Patience not yet exhausted.", "WARNING")
            last = part[-1]
            text = self.stats({"epoch": epoch + 1, "lr": float(last["lr"])})
            text += " - " + self.stats({"loss": self.average(
                r["loss"] for r in part)}, "train")
            if "val_loss" in last:
                text += " - " + self.stats({
                    "loss": self.average([last["val_loss"]]),
                    "ErrorRate": float(last["val_error_rate"]),
                    "EER": float(last["val_eer"])}, "valid")
            table.append(text)
            self.say(last["wall"], "speechbrain.utils.train_logger", text)
            self.say(last["wall"], "speechbrain.utils.checkpoints",
                     "Saved an end-of-epoch checkpoint in "
                     + run.checkpoint_path(start + len(part)))
        run.write_lines("train_log.txt", table)
        run.write_lines("log.txt", self.lines)
        run.write_lines("hyperparams.yaml", run.hyperparams())
        run.write_lines("env.log", (
            "SpeechBrain system description",
            "==============================", "Python version:",
            "3.11.2 (main) [GCC 12.2.0]", "==============================",
            "Installed Python packages:", *logs.PACKAGES,
            "speechbrain==1.0.2", "hyperpyyaml==1.2.2",
            "==============================", "Git revision:", "4b32a9e",
            "==============================", "CUDA not available"))
        run.write_lines("packages.txt", logs.PACKAGES)
