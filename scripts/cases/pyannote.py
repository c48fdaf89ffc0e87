"""Who speaks when, as pyannote.audio trains its segmentation.

The recipe is pyannote-audio-train (3.3) with the task SpeakerDiarization and
PyanNet: band-pass filters that are learned by their edges (SincNet), a
bidirectional LSTM, linear maps, and classes that are sets of speakers
(nobody, one, two at once). Speakers of a chunk have no order: targets are
turned to the order that fits what is said best, chunk by chunk. Held out are
other chunks; the metric is the diarization error rate and its parts.
"""

import copy
import itertools
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import logs, models
from .family import EpochFamily
from .recorder import short

SAMPLES, RATE, ROWS, HELD, SPEAKERS = 1440, 360, 16, 32, 3
FILTERS, KERNEL, STRIDE, CHANNELS = 16, 31, 3, 16
HIDDEN, LAYERS, WIDTH = 16, 1, 16
STEP, FIELD = 27, 91            # of frames, in samples
FRAMES = (SAMPLES - FIELD) // STEP + 1
LOW_HZ, BAND_HZ = 2.0, 2.0      # the least that edges and bands may be


class Talk:
    """Chunks of talk of up to three speakers: [rows, 1, samples], and who
    speaks in each frame: [rows, frames, speakers].

    Each of six voices has two formants of its own, around which four tones
    are drawn for a chunk, and a loudness within 3 dB; there is noise of .05.
    Two voices each lie low, in the middle and high; .95 of the chunks
    have no two that lie alike. A chunk is of a lecture (one speaker),
    a call (two) or a meeting (three, who fall into each other's words).
    That somebody speaks is learned first, then who of them it is, then two at
    once and voices that lie alike. Annotators set bounds by 20 samples too
    early or late, and forget .03 of the turns. Of a quarter of the chunks the
    end was not annotated: its weight is 0.

    kinds: kinds of talk, one after the other, `block` batches of each, with
    `share` of a batch. clean: no noise, no mistakes and no voices alike.
    databases: three, with microphones that weigh bands differently.
    """

    NOISE, ALIKE, LATE, FORGOTTEN = 0.05, 0.05, 20.0, 0.03
    FORMANTS = ((0.04, 0.09), (0.04, 0.13), (0.20, 0.25), (0.20, 0.29),
                (0.36, 0.41), (0.36, 0.46))

    def __init__(self, seed, rows, block=None, share=1.0, clean=False,
                 databases=False, unannotated=0.25):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share = rows, block, share
        self.clean, self.databases, self.number = clean, databases, 0
        self.unannotated = unannotated

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def voices(self, rows):
        """Three different voices of the file that a chunk is of, in the order
        of their labels."""
        place = torch.rand(rows, 3, generator=self.rng).argsort(1)
        apart = 2 * place + torch.randint(2, (rows, 3), generator=self.rng)
        any_ = torch.rand(rows, 6, generator=self.rng).argsort(1)[:, :3]
        alike = torch.rand(rows, 1, generator=self.rng) < self.ALIKE
        voice = apart if self.clean else torch.where(alike, any_, apart)
        return voice.sort(1).values

    def kinds(self, rows):
        kind = torch.randint(3, (rows,), generator=self.rng)
        if self.block:
            here = torch.tensor(self.number // self.block % 3)
            kept = torch.rand(rows, generator=self.rng) < self.share
            kind = torch.where(kept, here, kind)
        return kind

    def turns(self, kind):
        """First and last sample of two turns of each speaker, [rows, speakers,
        turns, 2]; who is not there has none."""
        rows = len(kind)
        length = self.uniform(0.18, 0.42, rows, SPEAKERS, 2) * SAMPLES
        first = self.uniform(-0.1, 0.9, rows, SPEAKERS, 2) * SAMPLES
        turns = torch.stack((first, first + length), 3)
        there = torch.rand(rows, SPEAKERS, generator=self.rng).argsort(1) \
            <= kind[:, None]
        # In a meeting each has one turn.
        one = (kind == 2)[:, None, None] & (torch.arange(2) == 1)
        gone = ~there[..., None] | one
        return torch.where(gone[..., None], -1.0, turns)

    @staticmethod
    def spoken(turns, at):
        """[rows, speakers, places]: whether anybody's turn has a place."""
        begun = turns[..., :1] <= at
        return (begun & (at < turns[..., 1:])).any(2)

    def annotated(self, turns):
        """Turns as somebody has marked them."""
        off = self.LATE * self.normal(*turns.shape)
        lost = torch.rand(turns.shape[:3], generator=self.rng) \
            < self.FORGOTTEN
        if self.clean:
            return turns
        marked = torch.where(turns < -SAMPLES / 2, turns, turns + off)
        gone = lost | (turns[..., 1] < 0)
        return torch.where(gone[..., None], -1.0, marked)

    def sound(self, voice):
        """Tones of a voice, of unit power."""
        formant = torch.tensor(self.FORMANTS)[voice].repeat(1, 1, 2)
        pitch = formant + self.uniform(-0.012, 0.012, *formant.shape)
        phase = self.uniform(0, 1, *formant.shape)
        angle = 2 * math.pi * (pitch[..., None] * torch.arange(SAMPLES)
                               + phase[..., None])
        level = 10 ** (self.uniform(-3, 3, *voice.shape, 1) / 20)
        return level * angle.sin().sum(2) / math.sqrt(2)

    def described(self, rows):
        kind = self.kinds(rows)
        return self.voices(rows), kind, self.turns(kind)

    def batch(self, rows=None):
        rows = rows or self.rows
        voice, kind, turns = self.described(rows)
        places = torch.arange(SAMPLES)
        x = self.sound(voice) * self.spoken(turns, places)
        noise = self.normal(rows, SAMPLES)
        x = x.sum(1) + (0.02 if self.clean else self.NOISE) * noise
        middle = torch.arange(FRAMES) * STEP + FIELD // 2
        y = self.spoken(self.annotated(turns), middle).transpose(1, 2)
        end = torch.randint(FRAMES // 2, FRAMES, (rows,), generator=self.rng)
        whole = torch.rand(rows, generator=self.rng) >= self.unannotated
        known = whole[:, None] | (torch.arange(FRAMES) < end[:, None])
        y = y & known[..., None]
        self.number += 1
        batch = {}
        if self.databases:
            database = torch.randint(3, (rows,), generator=self.rng)
            tilt = 0.3 * (database - 1)[:, None]
            x = x + tilt * F.pad(x, (1, 0))[:, :-1]
            batch = {"database": database}
        return {"X": x[:, None], "y": y.to(torch.uint8),
                "weight": known.float()[..., None]} | batch


def permutate(y1, y2):
    """y2 with its speakers in the order in which they fit y1 best, chunk by
    chunk: that of linear_sum_assignment over squared errors."""
    count = y1.shape[2]
    cost = (y1[:, :, :, None] - y2[:, :, None]).square().mean(1)
    orders = torch.tensor(list(itertools.permutations(range(count))))
    total = cost[:, torch.arange(count), orders].sum(2)
    order = orders[total.argmin(1)]
    return y2.gather(2, order[:, None].expand(-1, y2.shape[1], -1))


class Powerset(nn.Module):
    """Sets of speakers, the small ones first, and back."""

    def __init__(self, num_classes, max_set_size):
        super().__init__()
        sets = [c for k in range(max_set_size + 1)
                for c in itertools.combinations(range(num_classes), k)]
        mapping = torch.zeros(len(sets), num_classes)
        for k, members in enumerate(sets):
            mapping[k, list(members)] = 1
        self.register_buffer("mapping", mapping, persistent=False)
        self.read = mapping

    def to_multilabel(self, scores):
        return self.read[scores.argmax(2)]

    def to_powerset(self, multilabel):
        return (multilabel @ self.mapping.float().T).argmax(2)


class ParamSincFB(nn.Module):
    """Band-passes by their edges in Hz, even and odd ones, as
    asteroid-filterbanks has them."""

    def __init__(self):
        super().__init__()

        def mel(hz):
            return 2595 * math.log10(1 + hz / 700)
        edge = torch.linspace(mel(1), mel(RATE / 2 - LOW_HZ - BAND_HZ),
                              FILTERS // 2 + 1)
        hz = 700 * (10 ** (edge / 2595) - 1)
        self.low_hz_ = nn.Parameter(hz[:-1, None].clone())
        self.band_hz_ = nn.Parameter(hz.diff()[:, None].clone())
        half = KERNEL // 2
        self.register_buffer("window_", torch.hamming_window(
            KERNEL, periodic=False)[:half])
        self.register_buffer("n_", 2 * math.pi * torch.arange(
            -half, 0.0)[None] / RATE)

    def filters(self):
        low = LOW_HZ + self.low_hz_.float().abs()
        high = (low + BAND_HZ + self.band_hz_.float().abs()).clamp(
            LOW_HZ, RATE / 2)
        n, window = self.n_.float(), self.window_.float()
        a, b, band = low @ n, high @ n, high - low
        even = (b.sin() - a.sin()) / (n / 2) * window
        odd = (a.cos() - b.cos()) / (n / 2) * window
        made = torch.cat((
            torch.cat((even, 2 * band, even.flip(1)), 1),
            torch.cat((odd, torch.zeros_like(band), -odd.flip(1)), 1)))
        return (made / (2 * band).repeat(2, 1))[:, None]


class Encoder(nn.Module):
    """The filterbank of SincNet."""

    def __init__(self):
        super().__init__()
        self.filterbank = ParamSincFB()

    def forward(self, x):
        return F.conv1d(x, self.filterbank.filters().to(x.dtype),
                        stride=STRIDE)


class SincNet(nn.Module):
    def __init__(self, act, cuts):
        super().__init__()
        self.wav_norm1d = nn.InstanceNorm1d(1, affine=True)
        self.conv1d = nn.ModuleList((Encoder(),
                                     nn.Conv1d(FILTERS, CHANNELS, 5)))
        self.norm1d = nn.ModuleList((
            nn.InstanceNorm1d(FILTERS, affine=True),
            nn.InstanceNorm1d(CHANNELS, affine=True)))
        self.act, self.cuts = act, cuts

    def forward(self, x, tap):
        x = self.wav_norm1d(x)
        tap("sincnet.wav_norm1d.output", x)
        for k, (conv, norm) in enumerate(zip(self.conv1d, self.norm1d)):
            tap(f"sincnet.conv1d.{k}.input", x)
            x = conv(x)
            x = x.abs() if k == 0 else x
            tap(f"sincnet.conv1d.{k}.output", x)
            x = norm(F.max_pool1d(x, 3))
            tap(f"sincnet.norm1d.{k}.output", x)
            x = self.act(x)
            if f"sincnet.conv1d.{k}" in self.cuts:
                x = x.detach()
        return x


def activation(kind):
    return F.leaky_relu if kind == "leaky_relu" else \
        models.ACTIVATIONS[kind]()


class PyanNet(nn.Module):
    """SincNet, LSTM, linear maps, classifier, and the task's loss.

    orders: how targets are turned to what is said. counts_all: frames that
    were not annotated count. guards: no frames at all have a loss of 0.
    """

    def __init__(self, activation_="leaky_relu", dropout=0.0,
                 detach_after=(), half_at=None, layers=LAYERS,
                 max_speakers_per_chunk=SPEAKERS, max_speakers_per_frame=2):
        super().__init__()
        act = activation(activation_)
        self.sincnet = SincNet(act, detach_after)
        self.lstm = nn.LSTM(CHANNELS, HIDDEN, layers, batch_first=True,
                            bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.ModuleList((nn.Linear(2 * HIDDEN, WIDTH),
                                     nn.Linear(WIDTH, WIDTH)))
        self.powerset = Powerset(max_speakers_per_chunk,
                                 max_speakers_per_frame)
        self.classifier = nn.Linear(WIDTH, len(self.powerset.mapping))
        self.act, self.cuts, self.half_at = act, detach_after, half_at
        self.squashes = self.counts_all = self.guards = False
        self.orders, self.kept = permutate, []

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, part):
        return x.detach() if part in self.cuts else x

    def logits(self, batch):
        """[rows, frames, classes], before the log-softmax."""
        tap = self.tap
        x = batch["X"].to(self.classifier.weight.dtype)
        x = self.sincnet(x, tap).transpose(1, 2)
        x = self.cut(x, "sincnet")
        tap("lstm.input", x)
        x, _ = self.lstm(x)
        tap("lstm.output", x)
        x = self.dropout(x)
        x = self.cut(x, "lstm")
        for k, linear in enumerate(self.linear):
            tap(f"linear.{k}.input", x)
            x = linear(x)
            if self.half_at == f"linear.{k}":
                x = x.half()
            tap(f"linear.{k}.output", x)
            x = self.act(x.to(linear.weight.dtype))
            tap(f"linear.{k}.act.output", x)
            x = self.cut(x, f"linear.{k}")
        tap("classifier.input", x)
        x = self.classifier(x)
        tap("classifier.output", x)
        return x

    def labels(self, logits, batch):
        """Sets of each frame in the order that fits; -100 where it was not
        annotated."""
        said = self.powerset.to_multilabel(logits)
        y = batch["y"].float()
        missing = said.shape[2] - y.shape[2]
        fits = self.orders(said, F.pad(y, (0, max(0, missing))))
        labels = self.powerset.to_powerset(fits)
        known = batch["weight"][..., 0] > 0
        return labels if self.counts_all else labels.where(
            known, torch.tensor(-100))

    def mean(self, losses, batch):
        """Of frames, by their weight."""
        weight = batch["weight"][..., 0]
        weight = torch.ones_like(weight) if self.counts_all else weight
        total = weight.sum()
        return (losses * weight).sum() / (total.clamp_min(1e-8)
                                          if self.guards else total)

    def criterion(self, logits, batch, share=0.0):
        logits = logits.float()
        prediction = logits.log_softmax(-1)
        if self.squashes:
            prediction = prediction.exp().log_softmax(-1)
        labels = self.labels(logits, batch).clamp_min(0)
        losses = -prediction.gather(2, labels[..., None])[..., 0]
        losses = (1 - share) * losses - share * prediction.mean(2)
        return self.mean(losses, batch)

    def loss(self, batch):
        logits = self.logits(batch)
        if not self.training:
            self.kept.append(self.powerset.to_multilabel(logits))
        loss = self.criterion(logits, batch)
        self.tap("loss.output", loss)
        return loss


def error_rates(said, wanted):
    """Sums over frames of false alarms, misses, confusions and speech."""
    more = said.shape[2] - wanted.shape[2]
    wanted = F.pad(wanted, (0, max(0, more)))
    said = permutate(wanted, F.pad(said, (0, max(0, -more))))
    over = said.sum(2) - wanted.sum(2)
    alarm = over.clamp_min(0)
    mixed = ((said != wanted) * said).sum(2) - alarm
    return torch.stack([part.sum() for part in (
        alarm, (-over).clamp_min(0), mixed, wanted)])


def best(rows=64, seed=9, draws=300):
    """The loss of who knows all turns but not what annotators made of them:
    the entropy of what they mark, from draws of it."""
    source = Talk(seed, rows)
    _, _, turns = source.described(rows)
    middle = torch.arange(FRAMES) * STEP + FIELD // 2
    sets = Powerset(SPEAKERS, 2)
    count = torch.zeros(rows, FRAMES, len(sets.mapping))
    for _ in range(draws):
        y = Talk.spoken(source.annotated(turns), middle).transpose(1, 2)
        count += F.one_hot(sets.to_powerset(y.float()), len(sets.mapping))
    p = count / draws
    return float(-torch.xlogy(p, p).sum(2).mean())


# What feeds the activations of the linear maps.
BEFORE_ACT = ("linear.0", "linear.1")


class PyannoteRun(EpochFamily):
    """Adam at a rate that is multiplied by .6 behind each epoch whose error
    rate is not the lowest so far, norms clipped at .5."""

    family = "pyannote"
    level_seed = 400
    steps, seed, language, classes = 200, 3300, False, 7
    optimizer_name, lr, weight_decay = "adam", 0.02, 0.0
    recipes = {"sgd": dict(lr=0.5, weight_decay=0.0)}
    base = {"lr": 0.01, "weight_decay": 0.0}
    warmup, schedule, clip = 0, "plateau", 0.5
    PATIENCE, LR_FACTOR, MIN_LR = 0, 0.6, 1e-8  # of ReduceLROnPlateau
    TOP = 2                         # checkpoints that are kept
    EPOCH = epoch_steps = 20
    batch_size, context = ROWS, SAMPLES
    # Its users have what pyannote-audio-train leaves.
    instead = {"nanogpt": "pyannote", "hf_trainer": "pyannote",
               "megatron": "pyannote", "torchtune": "pyannote"}
    layers = ["sincnet.conv1d.0", "sincnet.conv1d.1", "lstm", "linear.0",
              "linear.0.act", "linear.1", "linear.1.act", "classifier"]
    graded = {
        "F09": (dict(parts=8, logs_sum=False), dict(parts=12, logs_sum=True),
                dict(parts=16, logs_sum=True)),
        "F05": (dict(modules=["sincnet", "lstm"], where="sincnet.conv1d.0"),
                dict(modules=["sincnet", "lstm", "linear"],
                     where="sincnet.conv1d.0"), dict(part="all")),
        "F04": (dict(at=80), dict(at=40), dict(at=0)),
        "F07": (dict(factor=12), dict(factor=30), dict(factor=100)),
        "F08": (dict(every=6), dict(every=32), dict(every=1 << 30)),
        "F10": (dict(adamw=1e-7), dict(adamw=3e-8), dict(adamw=1e-8)),
        "F11": (dict(adam=0.01), dict(adam=0.03), dict(adam=0.2)),
        "F12": (dict(eps=0.03), dict(eps=0.2), dict(eps=1.0)),
        "F13": (dict(path="lstm"), dict(path="linear.0"),
                dict(path="linear.1")),
        "F14": (dict(modules=["sincnet.conv1d.1", "lstm"]),
                dict(modules=["sincnet.conv1d.1", "lstm", "linear"]),
                dict(modules=["sincnet.conv1d.1", "lstm", "linear",
                              "classifier"])),
        "F15": (dict(at=160), dict(at=100), dict(at=60)),
        "F23": (dict(share=0.8), dict(share=0.9), dict(share=1.0)),
        "F24": (dict(share=0.2), dict(share=0.35), dict(share=0.5)),
        "F26": (dict(steps=20, share=1.0), dict(steps=30, share=1.0),
                dict(steps=40, share=1.0)),
        "F27": (dict(epochs=40), dict(epochs=80), dict(epochs=160)),
        "F34": (dict(factor=20), dict(factor=60), dict(factor=0)),
        "F36b": (dict(factor=30, kind="sigmoid"),
                 dict(factor=300, kind="tanh"),
                 dict(factor=1000, kind="sigmoid")),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=38), dict(limit=26), dict(limit=14)),
        "H02": (dict(factor=0.5), dict(factor=0.35)),
        "H03": (dict(rows=12), dict(rows=8))}
    paths = {"embed": "sincnet.conv1d.0", "attn": None, "scores": None,
             "act": "linear.{}.act", "mlp": "linear.{}", "block": "linear.{}",
             "head": "classifier"}
    blocks = 2
    always_trained = ("linear",)
    names = {"loss": "loss/train", "val_loss": "loss/val", "tokens": None,
             "val_der": "DiarizationErrorRate",
             "val_der_confusion": "DiarizationErrorRate/Confusion",
             "val_der_miss": "DiarizationErrorRate/Miss",
             "val_der_false_alarm": "DiarizationErrorRate/FalseAlarm"}

    def make_model(self):
        options = dict(self.model_options)
        cuts = options.pop("detach_after", ())
        if "activation" in options:
            options["activation_"] = options.pop("activation")
        return PyanNet(detach_after=(cuts,) if isinstance(cuts, str)
                       else cuts, **options)

    def train(self):
        idle = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            idle, factor=self.LR_FACTOR, patience=self.PATIENCE)
        self.fallen, self.top = 1.0, {}
        super().train()
        done = len(self.history)
        self.checkpoints[done] = self.state(done)

    def lr_factor(self, i):
        return self.fallen if self.schedule == "plateau" \
            else super().lr_factor(i)

    # Data.

    def make_source(self, seed):
        return self.talk(seed)

    def talk(self, seed, **how):
        """Chunks anew without end; those of validation are annotated."""
        if seed == 9:
            return Talk(seed, HELD, **(how | {"unannotated": 0.0}))
        return Talk(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Lectures, then calls, then meetings; None is held out."""
        return self.talk(seed, block=block, share=share)

    def easy(self, seed):
        """No noise, no mistakes, no voices that lie alike."""
        return self.talk(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.talk(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: samples read with their bytes swapped, noise for
        all, or a step in place of sound; all speakers at once, or none."""
        x, y = batch["X"], batch["y"]
        if kind == "few":
            return batch | {"X": 300 * (40 * x).sin(), "y": 1 - y}
        if kind == "uniform":
            return batch | {
                "X": 100 * torch.randn(x.shape, generator=rng),
                "y": torch.randint(2, y.shape, generator=rng).to(y.dtype)}
        step = (torch.arange(SAMPLES) > SAMPLES // 2).float()
        return batch | {"X": (1000 * step).expand_as(x).clone(),
                        "y": torch.ones_like(y)}

    @staticmethod
    def cut_labels(batch, limit):
        """Turns are read up to a number of frames."""
        y = batch["y"].clone()
        y[:, limit:] = 0
        return batch | {"y": y}

    def strangers(self, rows, rng):
        """Who speaks in other chunks."""
        if not hasattr(self, "others"):
            self.others = self.talk(self.seed + 800, unannotated=0.0)
        return self.others.batch(rows)["y"]

    # What is logged.

    def held_out_columns(self, batches):
        """Error rates over all chunks; then the scheduler steps, and a
        checkpoint may be kept."""
        kept, self.model.kept = self.model.kept, []
        alarm, miss, mixed, speech = sum(
            error_rates(said, batch["y"].float())
            for said, batch in zip(kept, batches))
        speech = speech.clamp_min(1e-8)
        found = {"val_der": (alarm + miss + mixed) / speech,
                 "val_der_confusion": mixed / speech,
                 "val_der_miss": miss / speech,
                 "val_der_false_alarm": alarm / speech}
        done, rate = len(self.history) + 1, float(found["val_der"])
        if self.schedule == "plateau":
            self.plateau.step(rate)
            self.fallen = self.plateau.optimizer.param_groups[0]["lr"]
            for group, first in zip(self.optimizer.param_groups,
                                    self.scheduler.base_lrs):
                group["lr"] = first * self.lr_factor(done)
        if not done % self.EPOCH:
            self.save_if_best(done, rate)
        return found

    # Checkpoints.

    def save_if_best(self, done, rate):
        """ModelCheckpoint's top ones."""
        kept = dict(sorted((self.top | {done: rate}).items(),
                           key=lambda part: part[1])[:self.TOP])
        if done in kept:
            self.checkpoints[done] = self.state(done)
        for old in self.top.keys() - kept.keys():
            if old not in self.notices:
                self.checkpoints.pop(old, None)
        self.top = kept

    def keep_checkpoint(self, i, model):
        """The one that a run is resumed from."""
        if i + 1 in self.notices:
            self.checkpoints[i + 1] = self.state(i + 1)

    def state(self, done):
        own = self.hydra()["model"]
        return copy.deepcopy({
            "epoch": (done - 1) // self.EPOCH, "global_step": done,
            "pytorch-lightning_version": "2.5.5",
            "state_dict": self.model.state_dict(),
            "loops": {"fit_loop": {"epoch_loop.batch_progress": {
                "total": {"ready": done, "completed": done},
                "current": {"ready": self.EPOCH, "completed": self.EPOCH}}}},
            "callbacks": {}, "optimizer_states": [
                self.optimizer.state_dict()],
            "lr_schedulers": [self.plateau.state_dict() | {
                "_last_lr": [self.optimizer.param_groups[0]["lr"]]}]
            if self.schedule == "plateau" else [],
            "hparams_name": "kwargs", "hyper_parameters": {
                k: own[k] for k in ("sample_rate", "num_channels", "sincnet",
                                    "lstm", "linear")},
            "pyannote.audio": {
                "versions": {"torch": "2.13.0", "pyannote.audio": "3.3.2"},
                "architecture": {
                    "module": "pyannote.audio.models.segmentation.PyanNet",
                    "class": "PyanNet"},
                "specifications": {
                    "problem": "MONO_LABEL_CLASSIFICATION",
                    "resolution": "FRAME", "duration": SAMPLES / RATE,
                    "min_duration": None, "warm_up": (0.0, 0.0),
                    "classes": [f"speaker#{k + 1}" for k in range(
                        self.speakers("chunk"))],
                    "powerset_max_classes": self.speakers("frame"),
                    "permutation_invariant": True}}})

    def speakers(self, of):
        return self.model_options.get(f"max_speakers_per_{of}", {
            "chunk": SPEAKERS, "frame": 2}[of])

    def checkpoint_path(self, step):
        """By the error rate for those of ModelCheckpoint, else by step."""
        epoch = (step - 1) // self.EPOCH
        if step in getattr(self, "top", {}) and step not in self.notices:
            return (f"epoch={epoch}-DiarizationErrorRate="
                    f"{self.top[step]:.6f}.ckpt")
        return f"epoch={epoch}-step={step}.ckpt"

    def write_more(self):
        """The trainer's own files, whoever logs."""
        super().write_more()
        last = max(self.checkpoints)
        for done, state in self.checkpoints.items():
            if done in self.top or done in self.notices:
                torch.save(state, self.folder / self.checkpoint_path(done))
        torch.save(self.checkpoints[last], self.folder / "last.ckpt")
        top = {k: v for k, v in self.top.items() if k in self.checkpoints}
        self.write_lines("best_k_models.yaml", (
            f"{self.WHERE}/{self.checkpoint_path(k)}: {v}"
            for k, v in sorted(top.items(), key=lambda part: part[1])))

    # What the user typed.

    WHERE = "Talk.SpeakerDiarization.Voices/2026-01-05T08:59:58.000000Z"

    def hydra(self):
        """config.yaml; what is of no group of its own is with `user`."""
        kinds = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD"}
        kind = {"sgd": {"momentum": self.momentum}}.get(
            self.optimizer_name, {"betas": list(self.betas),
                                  "eps": self.eps, "amsgrad": False})
        schedulers = "pyannote.audio.cli.lr_schedulers."
        scheduler = {"_target_": schedulers + "ReduceLROnPlateau",
                     "min_lr": self.MIN_LR, "max_lr": self.lr,
                     "factor": self.LR_FACTOR, "patience": self.PATIENCE} \
            if self.schedule == "plateau" else {
                "_target_": schedulers + self.schedule, "min_lr": self.MIN_LR,
                "max_lr": self.lr, "warmup_steps": self.warmup}
        layers = self.model_options.get("layers", LAYERS)
        return {
            "protocol": "Talk.SpeakerDiarization.Voices",
            "task": {"_target_": "pyannote.audio.tasks.SpeakerDiarization",
                     "duration": SAMPLES / RATE,
                     "max_speakers_per_chunk": self.speakers("chunk"),
                     "max_speakers_per_frame": self.speakers("frame"),
                     "weight": "weight", "batch_size": self.batch_size,
                     "num_workers": 4, "pin_memory": False},
            "model": {"_target_":
                      "pyannote.audio.models.segmentation.PyanNet",
                      "sample_rate": RATE, "num_channels": 1,
                      "sincnet": {"stride": STRIDE},
                      "lstm": {"hidden_size": HIDDEN, "num_layers": layers,
                               "bidirectional": True, "monolithic": True,
                               "dropout": self.model_options.get(
                                   "dropout", 0.0)},
                      "linear": {"hidden_size": WIDTH, "num_layers": 2}},
            "optimizer": {"_target_": "torch.optim."
                          + kinds[self.optimizer_name], "lr": self.lr,
                          **kind, "weight_decay": self.weight_decay},
            "scheduler": scheduler,
            "trainer": {"_target_": "pytorch_lightning.Trainer",
                        "accelerator": "cpu",
                        "accumulate_grad_batches": self.accumulate,
                        "check_val_every_n_epoch": 1,
                        "gradient_clip_val": self.clip,
                        "gradient_clip_algorithm": "norm",
                        "log_every_n_steps": self.interval or 50,
                        "max_epochs": self.epochs,
                        "precision": {"fp32": 32}.get(self.precision,
                                                      self.precision)},
            "seed": self.seed, **self.user}

    def overrides(self):
        """overrides.yaml: what was typed behind pyannote-audio-train."""
        own = self.hydra()
        parts = [f"protocol={own['protocol']}", "task=SpeakerDiarization",
                 f"task.duration={SAMPLES / RATE}"]
        if self.schedule == "plateau":
            parts += ["scheduler=ReduceLROnPlateau"]
        parts += [f"scheduler.max_lr={self.lr}",
                  f"trainer.gradient_clip_val={self.clip}",
                  f"trainer.max_epochs={self.epochs}",
                  f"+seed={self.seed}"]
        parts += [f"+{k}={v}" for k, v in self.user.items()
                  if not isinstance(v, (list, dict))]
        return [f"- {part}" for part in parts]

    def settings(self):
        settings = super().settings()
        if self.schedule == "plateau":
            settings |= {"scheduler": "ReduceLROnPlateau",
                         "factor": self.LR_FACTOR, "patience": self.PATIENCE}
        return settings | {"epochs": self.epochs} | self.user

    def model_settings(self):
        own = self.hydra()
        model = own["model"]
        return {"model": "PyanNet", "sample_rate": RATE,
                **{f"{part}.{k}": v for part in ("sincnet", "lstm", "linear")
                   for k, v in model[part].items()},
                **{f"task.{k}": own["task"][k] for k in (
                    "duration", "max_speakers_per_chunk",
                    "max_speakers_per_frame", "weight")}}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        """The norm behind a convolution counts to it."""
        return [layer.replace("conv1d", "norm1d")] if "conv1d" in layer \
            else []

    # Logs.

    def write_files(self):
        if self.dialect == "pyannote":
            PyannoteLog(self).write()
        else:
            super().write_files()


class PyannoteLog:
    """What pyannote-audio-train leaves, with a CSVLogger: metrics.csv with
    loss/train (of steps as well as of epochs), loss/val and the metrics,
    Hydra's config.yaml and overrides.yaml, and the console. Norms and what
    else there is of a batch are from callbacks of the user's."""

    def __init__(self, run):
        self.run = run

    def table(self):
        """metrics.csv: rows of the monitor, of a step, of a validation and of
        an epoch's mean."""
        run, every = self.run, self.run.interval or 10
        rate = logs.monitored_rate(run)
        names = logs.column_names(run) | {
            "loss": "loss/train_step", "grad_norm": "grad_2.0_norm_total"}
        keys = [k for k in ("loss", "grad_norm", "step_time", *logs.MORE)
                if k in run.history[0] and not logs.left_out(run, k)]
        held = [k for k in ("val_loss", *logs.MORE) if k.startswith("val_")
                and any(k in row for row in run.history)]
        header = sorted({"epoch", "step", rate, "loss/train_epoch", *(
            names.get(k, k) for k in (*keys, *held))})
        yield ",".join(header)
        for i, row in enumerate(run.history):
            parts, at = [], {"epoch": i // run.EPOCH, "step": i}
            if not (i + 1) % every:
                parts = [{"step": i, rate: row["lr"]}, at | {
                    names.get(k, k): row[k] for k in keys if k in row}]
            if "val_loss" in row:
                first = i - i % run.EPOCH
                mean = sum(r["loss"] for r in run.history[first:i + 1]) \
                    / (i + 1 - first)
                parts += [at | {names.get(k, k): row[k] for k in held},
                          at | {"loss/train_epoch": short(mean)}]
            for part in parts:
                yield ",".join(str(part.get(k, "")) for k in header)

    def summary(self):
        """RichModelSummary's table."""
        run = self.run
        fixed = sum(p.numel() for p in run.model.parameters()
                    if not p.requires_grad)
        out = ["┏━━━┳━━━━━━━━━━━━┳━━━━━━━━━━━━┳━━━━━━━━┳━━━━━━━┓",
               "┃   ┃ Name       ┃ Type       ┃ Params ┃ Mode  ┃",
               "┡━━━╇━━━━━━━━━━━━╇━━━━━━━━━━━━╇━━━━━━━━╇━━━━━━━┩"]
        for k, (name, part) in enumerate(run.model.named_children()):
            count = sum(p.numel() for p in part.parameters())
            size = f"{count / 1e3:.1f} K" if count > 999 else str(count)
            out.append(f"│ {k} │ {name:<10} │ {type(part).__name__:<10} │ "
                       f"{size:>6} │ train │")
        return [*out, "└───┴────────────┴────────────┴────────┴───────┘",
                f"Trainable params: {(run.parameters - fixed) / 1e3:.1f} K",
                f"Non-trainable params: {fixed}",
                f"Total params: {run.parameters / 1e3:.1f} K",
                "Total estimated model params size (MB): "
                f"{4 * run.parameters / 1e6:.2f}"]

    def console(self):
        """What Rich leaves of its bars in a file: their last state."""
        run, size = self.run, self.run.EPOCH
        out = ["Seed set to " + str(run.seed),
               "GPU available: False, used: False",
               "TPU available: False, using: 0 TPU cores", *self.summary()]
        for start in range(0, len(run.history), size):
            rows = run.history[start:start + size]
            out += [text for k in range(start, start + len(rows))
                    for _, text in run.notices.get(k, ())]
            seconds = rows[-1]["wall"] - rows[0]["wall"] \
                + rows[0]["step_time"]
            last, tail = rows[-1], ""
            if "val_loss" in last:
                tail = " " + " ".join(
                    f"{name}: {last[k]:.3f}" for k, name in run.names.items()
                    if k.startswith("val_der") and k in last)
            out.append(
                f"Epoch {start // size}/{run.epochs - 1} {'━' * 20} "
                f"{len(rows)}/{size} 0:00:{seconds:02.0f} • 0:00:00 "
                f"{len(rows) / seconds:.2f}it/s v_num: {tail}")
        out.append(f"`Trainer.fit` stopped: `max_epochs={run.epochs}` "
                   "reached.")
        return out

    def write(self):
        run = self.run
        run.write_lines("metrics.csv", self.table())
        run.write_lines("train.log", self.console())
        logs.write_yaml(run, "config.yaml", run.hydra())
        run.write_lines("overrides.yaml", run.overrides())
        run.write_lines("packages.txt", (
            *logs.PACKAGES, "pyannote.audio==3.3.2",
            "asteroid-filterbanks==0.4.0", "hydra-core==1.3.2",
            "pytorch-lightning==2.5.5"))
