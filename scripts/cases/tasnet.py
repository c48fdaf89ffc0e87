"""A network that parts two voices, as Asteroid trains Conv-TasNet.

The recipe is egs/librimix/ConvTasNet/train.py: filters of its own in place of
a spectrum, masks from a stack of dilated convolutions with global layer norms,
and the scale-invariant ratio of signal to distortion in negative decibels, of
whichever order of the two outputs is better. Held out are other mixtures; the
metric is how much better than the mixture an output is (SI-SDRi).
"""

import copy
import json
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import logs, models
from .family import EpochFamily
from .recorder import short

SAMPLES, RATE, ROWS, HELD = 192, 8000, 8, 16
FILTERS, KERNEL, STRIDE = 24, 16, 8
BLOCKS, REPEATS, BOTTLENECK, HIDDEN, SKIP = 2, 2, 16, 32, 16
VOICES, PLACES, EPS = 5, 3, 1e-8


class Mixtures:
    """Mixtures of two voices and what they are made of: [rows, samples],
    [rows, 2, samples].

    Two of five voices are sung, sums of harmonics of a pitch that is drawn
    within a sixth of the voice's own, three whispered, noise in a band of
    their own. Each has a loudness that swells and fades with its syllables.
    One of the two high bands is mixed with one of the three other voices, up
    to 4 dB apart, with noise of .25: where the bands are is learned first,
    then what of a high pitch's harmonics lies within. Who knows voices, pitch
    and syllables of a mixture has its posterior mean, see best().

    block, share: thirds of the pairs, one after the other.
    clean: pairs whose bands are apart, without noise. places: three of them,
    with microphones that weigh bands differently.
    """

    NOISE, SUNG = 0.25, 2
    PITCH = (1 / 34, 1 / 15)                # in cycles a sample
    LOUD = ((1.0, 0.8, 0.5, 0.3, 0.2, 0.1), (1.0, 0.7, 0.5, 0.2))
    BANDS = ((0.02, 0.10), (0.22, 0.36), (0.30, 0.44))
    PAIRS = ((3, 0), (4, 0), (3, 1), (4, 1), (3, 2), (4, 2))
    APART = ((4, 0), (4, 2))

    def __init__(self, seed, rows, block=None, share=1.0, clean=False,
                 places=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share = rows, block, share
        self.clean, self.places, self.number = clean, places, 0

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def pairs(self, rows):
        known = torch.tensor(self.APART if self.clean else self.PAIRS)
        pick = torch.randint(len(known), (rows,), generator=self.rng)
        if self.block:
            size = len(known) // 3
            here = self.number // self.block % 3 * size
            own = here + torch.randint(size, (rows,), generator=self.rng)
            kept = torch.rand(rows, generator=self.rng) < self.share
            pick = torch.where(kept, own, pick)
        pair = known[pick]
        turned = torch.rand(rows, 1, generator=self.rng) < 0.5
        return torch.where(turned, pair.flip(1), pair)

    def spectra(self, voice):
        """What a voice is of: amplitudes of the harmonics of a pitch, and of
        whole cycles in a segment."""
        song = voice.clamp(max=self.SUNG - 1)
        pitch = torch.tensor(self.PITCH)[song] \
            * self.uniform(0.85, 1.17, len(voice))
        most = max(map(len, self.LOUD))
        loud = torch.tensor([part + (0.0,) * (most - len(part))
                             for part in self.LOUD])[song]
        band = torch.tensor(self.BANDS)[(voice - self.SUNG).clamp_min(0)]
        whole = torch.arange(SAMPLES // 2 + 1) / SAMPLES
        within = ((whole >= band[:, :1]) & (whole < band[:, 1:])).float()
        own = (voice < self.SUNG)[:, None]
        sung = pitch[:, None] * torch.arange(1, most + 1)
        return (sung, own * loud / loud.norm(dim=1, keepdim=True),
                ~own * within / within.norm(dim=1, keepdim=True))

    def syllables(self, count):
        at = torch.arange(SAMPLES)
        beat = self.uniform(1 / 200, 1 / 80, count, 1)
        phase = self.uniform(0, 1, count, 1)
        swell = 0.5 - 0.5 * (2 * math.pi * (beat * at + phase)).cos()
        return 0.15 + 1.3 * swell

    def described(self, rows):
        """Of each source what who knows all knows."""
        voice = self.pairs(rows).flatten()
        level = 10 ** (self.uniform(-2, 2, len(voice), 1) / 20)
        return *self.spectra(voice), level * self.syllables(len(voice))

    def batch(self, rows=None):
        rows = rows or self.rows
        cycles, sung, whispered, loud = self.described(rows)
        angle = 2 * math.pi * cycles[..., None] * torch.arange(SAMPLES)
        a, b = self.normal(2, *sung.shape, 1)
        x = ((a * angle.cos() + b * angle.sin()) * sung[..., None]).sum(1)
        a, b = self.normal(2, *whispered.shape)
        x = x + torch.fft.irfft(torch.complex(a, b) * whispered,
                                norm="forward") / 2
        sources = (loud * x).view(rows, 2, SAMPLES)
        noise = self.normal(rows, SAMPLES)
        self.number += 1
        batch = {}
        if self.places:
            place = torch.randint(PLACES, (rows,), generator=self.rng)
            tilt = 0.35 * (place - 1)[:, None, None]
            sources = sources + tilt * F.pad(sources, (1, 0))[..., :-1]
            batch = {"domain": place}
        mixture = sources.sum(1) + (0.0 if self.clean else self.NOISE) * noise
        return {"mixture": mixture, "sources": sources} | batch


def pairwise_neg_sisdr(estimates, sources, eps=EPS, kind="sisdr"):
    """[rows, estimates, sources]; eps: of the logarithm."""
    sources = sources - sources.mean(2, keepdim=True)
    estimates = estimates - estimates.mean(2, keepdim=True)
    wanted, said = sources[:, None], estimates[:, :, None]
    own = wanted.expand(-1, sources.shape[1], -1, -1)
    if kind != "snr":
        dot = (said * wanted).sum(3, keepdim=True)
        own = dot * wanted / (wanted.square().sum(3, keepdim=True) + EPS)
    error = said - (own if kind == "sisdr" else wanted)
    ratio = own.square().sum(3) / (error.square().sum(3) + EPS)
    return -10 * torch.log10(ratio + eps)


class GlobLN(nn.Module):
    """Global layer norm: over channels and frames of a row."""

    def __init__(self, channels):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        spread = x.var((1, 2), unbiased=False, keepdim=True)
        x = (x - x.mean((1, 2), keepdim=True)) / (spread + EPS).sqrt()
        return self.gamma[:, None] * x + self.beta[:, None]


class Filterbank(nn.Module):
    """FreeFB: filters that are learned, each of unit scale at the start."""

    def __init__(self):
        super().__init__()
        self._filters = nn.Parameter(torch.ones(FILTERS, 1, KERNEL))
        for p in self.parameters():
            nn.init.xavier_normal_(p)


class Encoder(nn.Module):
    def __init__(self, stride):
        super().__init__()
        self.filterbank, self.stride = Filterbank(), stride

    def forward(self, x):
        return F.conv1d(x[:, None], self.filterbank._filters,
                        stride=self.stride)


class Decoder(Encoder):
    def forward(self, x):
        return F.conv_transpose1d(x, self.filterbank._filters,
                                  stride=self.stride)


class Conv1DBlock(nn.Module):
    """Pointwise, depth-wise by its dilation, and out to the next block and to
    the masks."""

    def __init__(self, options, name, dilation):
        super().__init__()

        def act():
            kind = options["activation"]
            return nn.PReLU() if kind == "prelu" else \
                models.ACTIVATIONS[kind]()
        self.shared_block = nn.Sequential(
            nn.Conv1d(BOTTLENECK, HIDDEN, 1), act(), GlobLN(HIDDEN),
            nn.Conv1d(HIDDEN, HIDDEN, 3, padding=dilation, dilation=dilation,
                      groups=HIDDEN), act(), GlobLN(HIDDEN))
        self.res_conv = nn.Conv1d(HIDDEN, BOTTLENECK, 1)
        self.skip_conv = nn.Conv1d(HIDDEN, SKIP, 1)
        self.dropout = nn.Dropout(options["dropout"])
        self.name, self.half_at = name, options["half_at"]

    def forward(self, x, tap):
        for k, part in enumerate(self.shared_block):
            tap(f"{self.name}.shared_block.{k}.input", x)
            x = part(x)
            tap(f"{self.name}.shared_block.{k}.output", x)
        x = self.dropout(x)
        tap(f"{self.name}.res_conv.input", x)
        y = self.res_conv(x)
        if self.half_at == f"{self.name}.res_conv":
            y = y.half()
        tap(f"{self.name}.res_conv.output", y)
        skip = self.skip_conv(x)
        tap(f"{self.name}.skip_conv.output", skip)
        return y.to(x.dtype), skip


class TDConvNet(nn.Module):
    """Masks of the two voices. The last block's way to a next one leads
    nowhere, as there: it has no gradient."""

    def __init__(self, options, name):
        super().__init__()
        self.bottleneck = nn.Sequential(GlobLN(FILTERS),
                                        nn.Conv1d(FILTERS, BOTTLENECK, 1))
        self.TCN = nn.ModuleList(
            Conv1DBlock(options, f"{name}.TCN.{k}", 2 ** (k % BLOCKS))
            for k in range(BLOCKS * REPEATS))
        self.mask_net = nn.Sequential(nn.PReLU(),
                                      nn.Conv1d(SKIP, 2 * FILTERS, 1))
        self.mask_act = options["mask_act"]
        self.name, self.cuts = name, options["detach_after"]

    def cut(self, x, part):
        return x.detach() if f"{self.name}.{part}" == self.cuts else x

    def forward(self, x, tap):
        x = self.bottleneck(x)
        tap(f"{self.name}.bottleneck.output", x)
        x, skips = self.cut(x, "bottleneck"), 0.0
        for k, block in enumerate(self.TCN):
            y, skip = block(x, tap)
            x, skips = x + y, skips + skip
            tap(f"{self.name}.TCN.{k}.output", x)
            x, skips = (self.cut(part, f"TCN.{k}") for part in (x, skips))
        tap(f"{self.name}.mask_net.0.input", skips)
        score = self.mask_net(skips)
        tap(f"{self.name}.mask_net.1.output", score)
        score = score.view(len(score), 2, FILTERS, -1)
        return score.softmax(1) if self.mask_act == "softmax" else \
            score.sigmoid() if self.mask_act == "sigmoid" else score.relu()


class ConvTasNet(nn.Module):
    """The network and the loss of its System.

    of_masks: what is done with masks. each: how pairs of outputs and voices
    are compared. chosen: how the order of a row is.
    """

    def __init__(self, activation="prelu", dropout=0.0, detach_after=None,
                 half_at=None, mask_act="relu", stride=STRIDE, log_eps=EPS):
        """detach_after: the part behind which the graph is cut. log_eps: what
        is added before the logarithm."""
        super().__init__()
        options = {"activation": activation, "dropout": dropout,
                   "half_at": half_at, "mask_act": mask_act,
                   "detach_after": detach_after}
        self.encoder = Encoder(stride)
        self.masker = TDConvNet(options, "masker")
        self.decoder = Decoder(stride)
        self.cuts, self.log_eps = detach_after, log_eps
        self.of_masks, self.kept = lambda masks: masks, []

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def separated(self, batch):
        """Estimates, [rows, 2, samples]."""
        wave = batch["mixture"].to(self.encoder.filterbank._filters.dtype)
        x = self.encoder(wave)
        self.tap("encoder.filterbank.output", x)
        if self.cuts == "encoder":
            x = x.detach()
        masks = self.of_masks(self.masker(x, self.tap))
        self.tap("masker.output", masks)
        if self.cuts == "masker":
            masks = masks.detach()
        y = (masks * x[:, None]).flatten(0, 1)
        y = self.decoder(y)[:, 0].view(len(x), 2, -1)
        self.tap("decoder.filterbank.output", y)
        return F.pad(y, (0, wave.shape[1] - y.shape[2]))

    def pairwise(self, estimates, sources, kind="sisdr"):
        return pairwise_neg_sisdr(estimates.float(), sources, self.log_eps,
                                  kind)

    @staticmethod
    def orders(pairs):
        """Losses of both orders, [rows, orders, voices]."""
        return torch.stack((
            pairs.diagonal(dim1=1, dim2=2),
            pairs.flip(2).diagonal(dim1=1, dim2=2)), 1)

    def criterion(self, estimates, batch):
        """PITLossWrapper: the better order of each row."""
        pairs = self.pairwise(estimates, batch["sources"])
        if not self.training:
            self.kept.append(pairs)
        found = self.orders(pairs).mean(2).min(1).values
        self.tap("loss.each.output", found)
        return found.mean()

    def loss(self, batch):
        loss = self.criterion(self.separated(batch), batch)
        self.tap("loss.output", loss)
        return loss


def best(rows=64, seed=9):
    """The loss of who knows voices, pitches and syllables of a mixture, and
    estimates the mean of each source given it (Wiener)."""
    source = Mixtures(seed, rows)
    again = Mixtures(seed, rows)
    cycles, sung, whispered, loud = again.described(rows)
    batch = source.batch()
    lag = torch.arange(SAMPLES)
    gap = (lag[:, None] - lag[None]).abs()
    whole = torch.arange(SAMPLES // 2 + 1).expand(len(sung), -1) / SAMPLES
    spread = (torch.cat((sung, whispered), 1).double().square()[..., None] * (
        2 * math.pi * torch.cat((cycles, whole), 1).double()[..., None]
        * lag).cos()).sum(1)
    cover = spread[:, gap] * loud.double()[:, :, None] \
        * loud.double()[:, None]
    cover = cover.view(rows, 2, SAMPLES, SAMPLES)
    total = cover.sum(1) + source.NOISE ** 2 * torch.eye(
        SAMPLES, dtype=torch.double)
    found = torch.linalg.solve(total, batch["mixture"].double())
    said = (cover @ found[:, None, :, None])[..., 0]
    each = pairwise_neg_sisdr(said, batch["sources"].double())
    return float(each.diagonal(dim1=1, dim2=2).mean()), float(
        pairwise_neg_sisdr(batch["mixture"].double()[:, None].expand(
            -1, 2, -1), batch["sources"].double())[:, 0].mean())


# What feeds the activations of the blocks.
BEFORE_ACT = tuple(f"masker.TCN.{k}.shared_block.{part}"
                   for k in range(BLOCKS * REPEATS) for part in (0, 3))


class TasnetRun(EpochFamily):
    """Adam at a rate that is halved where validation has not fallen for six
    epochs, norms clipped at 5, early stopping."""

    family = "tasnet"
    level_seed = 400
    steps, seed, language, classes = 120, 2900, False, VOICES
    optimizer_name, lr, weight_decay = "adam", 0.012, 0.0
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    base = {"lr": 0.01, "weight_decay": 0.0}
    warmup, schedule, clip = 0, "plateau", 5.0
    PATIENCE, LR_FACTOR = 5, 0.5       # of ReduceLROnPlateau
    TOP = 2                         # checkpoints that are kept
    EPOCH = epoch_steps = 10
    batch_size, context = ROWS, SAMPLES
    # Its users have what the recipe leaves.
    instead = {"nanogpt": "asteroid", "hf_trainer": "asteroid",
               "megatron": "asteroid", "torchtune": "asteroid"}
    layers = ["encoder.filterbank", "masker.bottleneck", *(
        f"masker.TCN.{k}.{part}" for k in range(BLOCKS * REPEATS)
        for part in ("shared_block.0", "shared_block.1", "shared_block.3",
                     "shared_block.4", "skip_conv",
                     *(("res_conv",) if k < BLOCKS * REPEATS - 1 else ()))),
        "masker.mask_net.1", "decoder.filterbank"]
    graded = {
        "F01": (dict(factor=100), dict(factor=1000), dict(factor=10000)),
        "F02": (dict(lr=20.0), dict(lr=100.0), dict(lr=1000.0)),
        "F04": (dict(at=12), dict(at=6), dict(at=0)),
        "F05": (dict(modules=["masker"],
                     where="masker.bottleneck"),
                dict(modules=["masker", "decoder"],
                     where="masker.bottleneck"), dict(part="all")),
        "F07": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F08": (dict(every=8), dict(every=32), dict(every=1 << 30)),
        "F09": (dict(parts=8, logs_sum=False), dict(parts=12, logs_sum=True),
                dict(parts=16, logs_sum=True)),
        "F11": (dict(adam=0.5), dict(adam=2.0), dict(adam=10.0)),
        "F12": (dict(eps=1.0), dict(eps=4.0), dict(eps=15.0)),
        "F13": (dict(path="encoder"), dict(path="masker.TCN.3"),
                dict(path="masker")),
        "F14": (dict(modules=["masker.TCN", "masker.mask_net"]),
                dict(modules=["masker.TCN", "masker.mask_net", "decoder"]),
                dict(modules=["masker", "decoder"])),
        "F15": (dict(at=90), dict(at=60), dict(at=30)),
        "F27": (dict(epochs=40), dict(epochs=60), dict(epochs=120)),
        "F26": (dict(steps=20, share=1.0), dict(steps=30, share=1.0),
                dict(steps=40, share=1.0)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F33": (dict(limit=150), dict(limit=110), dict(limit=70)),
        "F36a": (dict(bias=-4.0), dict(bias=-8.0), dict(bias=-20.0)),
        "F36b": (dict(factor=100, kind="sigmoid"),
                 dict(factor=100, kind="tanh"),
                 dict(factor=1000, kind="sigmoid")),
        "F39a": (dict(at=90), dict(at=60), dict(at=30)),
        "F39b": (dict(at=80), dict(at=60), dict(at=40)),
        "F41": (dict(share=0.4, at=0, every=1),
                dict(share=0.7, at=60, every=1),
                dict(share=0.85, at=0, every=8)),
        "H02": (dict(factor=0.6), dict(factor=0.4)),
        "H03": (dict(rows=7), dict(rows=6)),
        "H04": (dict(rate=0.02), dict(rate=0.05)),
        "H11": (dict(steps=200, keep="block"), dict(steps=250, keep="head")),
        "H43": (dict(parts=2), dict(parts=4))}
    paths = {"embed": "encoder.filterbank", "attn": None, "scores": None,
             "act": "masker.TCN.{}.shared_block.1",
             "mlp": "masker.TCN.{}.shared_block.0", "block": "masker.TCN.{}",
             "head": "masker.mask_net.1"}
    blocks = BLOCKS * REPEATS
    always_trained = ("encoder", "decoder")
    names = {"loss": "loss", "tokens": None}

    def make_model(self):
        return ConvTasNet(**self.model_options)

    def train(self):
        idle = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        self.plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
            idle, factor=self.LR_FACTOR, patience=self.PATIENCE)
        self.fallen, self.top, self.scores = 1.0, {}, {}
        super().train()

    def lr_factor(self, i):
        return self.fallen if self.schedule == "plateau" \
            else super().lr_factor(i)

    # Data.

    def make_source(self, seed):
        return self.mixtures(seed)

    def mixtures(self, seed, **how):
        """Mixed anew without end; an epoch is 10 steps of it."""
        return Mixtures(seed, HELD if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """Lists of two pairs, one after the other; None is held out."""
        return self.mixtures(seed, block=block, share=share)

    def easy(self, seed):
        """Pairs that bands tell apart, without noise."""
        return self.mixtures(seed, clean=True)

    def lessons(self, seed):
        return self.easy(seed), self.mixtures(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: samples read with their bytes swapped, noise for
        all, or a step in place of sound."""
        x = batch["mixture"]
        y = batch["sources"].roll(3, 0).flip(2)
        if kind == "few":
            return batch | {"mixture": 300 * (40 * x).sin(), "sources": y}
        if kind == "uniform":
            return batch | {
                "mixture": 100 * torch.randn(x.shape, generator=rng),
                "sources": torch.randn(y.shape, generator=rng)}
        step = (torch.arange(SAMPLES) > SAMPLES // 2).float()
        return batch | {"mixture": (1000 * step).expand_as(x).clone(),
                        "sources": y}

    @staticmethod
    def cut_short(batch, limit):
        """Sources end at a number of samples; the rest is padding."""
        sources = batch["sources"].clone()
        sources[..., limit:] = 0.0
        return batch | {"sources": sources}

    @staticmethod
    def silenced(batch):
        """The second voice of one mixture has nothing in it."""
        sources = batch["sources"].clone()
        sources[0, 1] = 0.0
        return batch | {"sources": sources}

    def strangers(self, rows, rng):
        """Voices of other mixtures."""
        if not hasattr(self, "others"):
            self.others = self.mixtures(self.seed + 800)
        return self.others.batch(rows)["sources"]

    # What is logged.

    def held_out_columns(self, batches):
        """SI-SDR and by how much it is above the mixture's, as get_metrics()
        has them; then the scheduler steps, and a checkpoint may be kept."""
        kept, self.model.kept = self.model.kept, []
        each, gain = [], []
        for batch, pairs in zip(batches, kept):
            wave, sources = batch["mixture"].float(), batch["sources"]
            ours = -self.model.orders(pairs).mean(2).min(1).values
            before = -pairwise_neg_sisdr(
                wave[:, None].expand(-1, 2, -1), sources)[:, 0].mean(1)
            each.append(ours.mean())
            gain.append((ours - before).mean())
        loss = -float(sum(each) / len(each))
        found = {"si_sdr": short(sum(each) / len(each)),
                 "si_sdr_imp": short(sum(gain) / len(gain))}
        done = len(self.history) + 1
        if self.schedule == "plateau":
            self.plateau.step(loss)
            self.fallen = self.plateau.optimizer.param_groups[0]["lr"]
            for group, rate in zip(self.optimizer.param_groups,
                                   self.scheduler.base_lrs):
                group["lr"] = rate * self.lr_factor(done)
        if not done % self.EPOCH:
            self.save_if_best(done, loss, found)
        return {"val_si_sdr_imp": found["si_sdr_imp"]}

    # Checkpoints.

    def save_if_best(self, done, loss, found):
        """ModelCheckpoint's top ones; a loss that is NaN counts as inf."""
        loss = math.inf if math.isnan(loss) else loss
        kept = dict(sorted((self.top | {done: loss}).items(),
                           key=lambda part: part[1])[:self.TOP])
        if done in kept:
            self.scores[done] = found
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
        model = {f"model.{k}": t for k, t in self.model.state_dict().items()}
        return copy.deepcopy({
            "epoch": (done - 1) // self.EPOCH, "global_step": done,
            "pytorch-lightning_version": "2.5.5", "state_dict": model,
            "loops": {"fit_loop": {"epoch_loop.batch_progress": {
                "total": {"ready": done, "completed": done},
                "current": {"ready": self.EPOCH, "completed": self.EPOCH}}}},
            "callbacks": {}, "optimizer_states": [
                self.optimizer.state_dict()],
            "lr_schedulers": [self.plateau.state_dict() | {
                "_last_lr": [self.optimizer.param_groups[0]["lr"]]}]
            if self.schedule == "plateau" else [],
            "hparams_name": "kwargs", "training_config": self.conf()})

    def checkpoint_path(self, step):
        return f"checkpoints/epoch={(step - 1) // self.EPOCH}-step={step}.ckpt"

    def write(self, folder):
        """EarlyStopping ends a run whose val_loss is not finite."""
        bad = [k for k, row in enumerate(self.history)
               if not math.isfinite(row.get("val_loss", 0.0))]
        if self.dialect == "asteroid" and bad:
            self.end_at(bad[0], bad[0] + 1)
        super().write(folder)

    def write_more(self):
        """The recipe's own files, whoever logs, and what eval.py says of the
        best model."""
        super().write_more()
        (self.folder / "checkpoints").mkdir()
        for done, state in self.checkpoints.items():
            torch.save(state, self.folder / self.checkpoint_path(done))
        top = {k: v for k, v in self.top.items() if k in self.checkpoints}
        if not top:
            return
        self.write_json("best_k_models.json", {
            f"exp/train_convtasnet/{self.checkpoint_path(k)}": v
            for k, v in top.items()})
        best = min(top, key=top.get)
        model = {k.removeprefix("model."): t for k, t
                 in self.checkpoints[best]["state_dict"].items()}
        own = self.conf()
        torch.save({
            "model_name": "ConvTasNet", "state_dict": model,
            "model_args": own["filterbank"] | {
                "fb_name": "FreeFB", "sample_rate": RATE, "in_chan": FILTERS,
                "out_chan": FILTERS, "conv_kernel_size": 3,
                "norm_type": "gLN", "causal": False,
                "encoder_activation": None, **own["masknet"]},
            "infos": {"software_versions": {
                "torch_version": "2.13.0",
                "pytorch_lightning_version": "2.5.5",
                "asteroid_version": "0.7.1dev"}},
            "dataset": "Libri2Mix", "task": "sep_noisy", "licenses": []},
            self.folder / "best_model.pth")
        self.write_json("final_metrics.json", self.scores[best])

    # What the user typed.

    def conf(self):
        """conf.yml; what is not of the recipe is with `training`."""
        kind = {"sgd": {"momentum": self.momentum}}.get(
            self.optimizer_name, {"betas": list(self.betas),
                                  "eps": self.eps})
        plateau = self.schedule == "plateau"
        more = {} if plateau else {"scheduler": self.schedule,
                                   "warmup_steps": self.warmup}
        options = self.model_options
        return {
            "data": {"n_src": 2, "sample_rate": RATE,
                     "segment": SAMPLES / RATE, "task": "sep_noisy",
                     "train_dir": "data/wav8k/min/train-100",
                     "valid_dir": "data/wav8k/min/dev"},
            "filterbank": {"kernel_size": KERNEL, "n_filters": FILTERS,
                           "stride": options.get("stride", STRIDE)},
            "main_args": {"exp_dir": "exp/train_convtasnet", "help": None},
            "masknet": {"bn_chan": BOTTLENECK, "hid_chan": HIDDEN,
                        "mask_act": options.get("mask_act", "relu"),
                        "n_blocks": BLOCKS, "n_repeats": REPEATS, "n_src": 2,
                        "skip_chan": SKIP},
            "optim": {**kind, "lr": self.lr, "optimizer": self.optimizer_name,
                      "weight_decay": self.weight_decay},
            "training": {
                "accumulate_grad_batches": self.accumulate,
                "batch_size": self.batch_size, "early_stop": True,
                "epochs": self.epochs, "gradient_clip_val": self.clip,
                "half_lr": plateau, "num_workers": 4,
                "precision": self.precision, "seed": self.seed,
                **more, **self.user}}

    def settings(self):
        settings = super().settings()
        if self.schedule == "plateau":
            settings |= {"scheduler": "ReduceLROnPlateau",
                         "factor": self.LR_FACTOR, "patience": self.PATIENCE}
        return settings | {"epochs": self.epochs} | self.user

    def model_settings(self):
        own = self.conf()
        return {"model": "ConvTasNet", **own["filterbank"], **own["masknet"],
                "norm_type": "gLN", "task": own["data"]["task"],
                "sample_rate": RATE, "segment": SAMPLES / RATE}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        """The activation and the norm behind a convolution count to it."""
        name, _, part = layer.rpartition(".")
        if name.endswith("shared_block") and part in "03":
            return [f"{name}.{int(part) + k}" for k in (1, 2)]
        return []

    # Logs.

    def write_files(self):
        if self.dialect == "asteroid":
            AsteroidLog(self).write()
        else:
            super().write_files()


class AsteroidLog:
    """What the recipe leaves: metrics.csv of Lightning's CSVLogger with loss,
    val_loss and hp_metric of System, conf.yml and the console. Rate, norm and
    what else there is of a batch are from callbacks of the user's."""

    WHERE = "exp/train_convtasnet"

    def __init__(self, run):
        self.run, self.lines = run, []

    def table(self):
        """metrics.csv: rows of the monitor, of a step, of a validation."""
        run, every = self.run, self.run.interval or 10
        rate = logs.monitored_rate(run)
        names = logs.column_names(run) | {
            "grad_norm": "grad_2.0_norm_total"}
        keys = [k for k in ("loss", "grad_norm", "step_time", *logs.MORE)
                if k in run.history[0] and not logs.left_out(run, k)]
        held = [k for k in ("val_loss", *logs.MORE) if k.startswith("val_")
                and any(k in row for row in run.history)]
        header = sorted({"epoch", "step", "hp_metric", rate, *(
            names.get(k, k) for k in (*keys, *held))})
        yield ",".join(header)
        for i, row in enumerate(run.history):
            parts = []
            at = {"epoch": i // run.EPOCH, "step": i}
            if not (i + 1) % every:
                parts = [{"step": i, rate: row["lr"]}, at | {
                    names.get(k, k): row[k] for k in keys if k in row}]
            if "val_loss" in row:
                parts += [at | {names.get(k, k): row[k] for k in held},
                          {"step": i + 1, "hp_metric": row["val_loss"]}]
            for part in parts:
                yield ",".join(str(part.get(k, "")) for k in header)

    def summary(self):
        """ModelSummary's table."""
        run = self.run
        fixed = sum(p.numel() for p in run.model.parameters()
                    if not p.requires_grad)
        rule = "-" * 54
        return ["", "  | Name      | Type           | Params | Mode ", rule,
                f"0 | model     | ConvTasNet     | "
                f"{run.parameters / 1e3:.1f} K  | train",
                "1 | loss_func | PITLossWrapper | 0      | train", rule,
                f"{(run.parameters - fixed) / 1e3:.1f} K     "
                "Trainable params",
                f"{fixed / 1e3:.1f} K     Non-trainable params",
                f"{run.parameters / 1e3:.1f} K     Total params",
                f"{4 * run.parameters / 1e6:.3f}     Total estimated model "
                "params size (MB)"]

    def console(self):
        run, size = self.run, self.run.EPOCH
        out = [*json.dumps(run.conf(), indent=1).replace('"', "'")
               .splitlines(), "GPU available: False, used: False",
               "TPU available: False, using: 0 TPU cores", *self.summary()]
        last, seen, top = math.inf, None, {}    # best, latest, kept
        for start in range(0, len(run.history), size):
            rows = run.history[start:start + size]
            epoch, done = start // size, start + len(rows)
            out += [text for k in range(start, done)
                    for _, text in run.notices.get(k, ())]
            line, val = "", rows[-1].get("val_loss")
            for k in range(4, len(rows), 5):
                line += f"\rEpoch {epoch}: " + logs.bar(
                    k + 1, size, tail=", v_num=0" + (
                        "" if seen is None else f", val_loss={seen:.3f}"))
            out.append(line)
            if val is None:
                continue
            seen = val
            if not math.isfinite(val):
                out.append(f"Monitored metric val_loss = {val} is not finite."
                           f" Previous best value was {last:.3f}. Signaling "
                           "Trainer to stop.")
            elif val < last:
                out.append("Metric val_loss improved" + (
                    "" if last == math.inf else
                    f" by {last - val:.3f} >= min_delta = 0.0")
                    + f". New best score: {val:.3f}")
                last = val
            score = math.inf if math.isnan(val) else val
            best = sorted((*top.items(), (done, score)),
                          key=lambda part: part[1])[:run.TOP]
            head = f"Epoch {epoch}, global step {done}: 'val_loss' "
            if done in dict(best):
                path = f"{self.WHERE}/{run.checkpoint_path(done)}"
                out.append(f"{head}reached {score:.5f} (best "
                           f"{best[0][1]:.5f}), saving model to '{path}' as "
                           f"top {run.TOP}")
            else:
                out.append(f"{head}was not in top {run.TOP}")
            top = dict(best)
        if math.isfinite(rows[-1].get("val_loss", 0.0)):
            out.append(f"`Trainer.fit` stopped: `max_epochs={run.epochs}` "
                       "reached.")
        return out

    def write(self):
        run = self.run
        run.write_lines("metrics.csv", self.table())
        run.write_lines("train.log", self.console())
        logs.write_yaml(run, "conf.yml", run.conf())
        run.write_lines("packages.txt", (*logs.PACKAGES, "asteroid==0.7.1.dev0",
                                         "pytorch-lightning==2.5.5"))
