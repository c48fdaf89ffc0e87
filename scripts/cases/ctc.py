"""A small speech recogniser: frames in, symbols out, no alignment.

Two convolutions make one frame of four, two recurrent layers read both ways,
and the loss sums over all alignments (CTC, class 0 is blank). Names are near
NVIDIA NeMo's, as is the optimizer.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family

FEATURES, PHONES, SYMBOLS = 10, 5, 12
SHORTEST, LONGEST, FRAMES = 3, 8, 104
WIDTH, HIDDEN = 40, 32
BLANK = 0


class Utterances:
    """Symbols as they are spoken.

    A symbol is a pair of five phones, a phone a spectrum of ten bands that
    stands for 3 to 5 frames; 1 to 3 frames of silence come before each symbol.
    A speaker has a loudness of 0.7 to 1.3, and noise of 0.3 lies on each frame.
    An utterance has 3 to 8 symbols of twelve, none twice in a row, and its
    transcript one symbol in 30 that is drawn anew from all. Frames and
    transcripts are padded, with 0 and -100.

    Knowing the process leaves 0.21 nats a symbol, those of the slips; a fresh
    model has 4.4, one that says blank alone 2.8.

    block, share: three lists of four symbols one after the other; domains:
    each utterance of any of them. limit: symbols of a transcript that are kept.
    """

    NOISE, SLIP, DOMAINS = 0.3, 1 / 30, 3
    PHONE, GAP = (3, 6), (1, 4)

    def __init__(self, seed, block=None, share=1.0, domains=False, noise=None,
                 longest=LONGEST, limit=None):
        self.rng = torch.Generator().manual_seed(seed)
        self.block, self.share, self.number = block, share, 0
        self.domains, self.longest, self.limit = domains, longest, limit
        self.noise = self.NOISE if noise is None else noise
        world = torch.Generator().manual_seed(8)
        self.spectra = torch.randn(PHONES + 1, FEATURES, generator=world)
        self.spectra -= self.spectra.mean(0)
        pairs = torch.combinations(torch.arange(PHONES))
        pairs = torch.cat((pairs, pairs.flip(1)))
        self.phones = pairs[torch.randperm(len(pairs), generator=world)
                            [:SYMBOLS]]

    def between(self, low, high, shape):
        return torch.randint(low, high, shape, generator=self.rng)

    def symbols(self, rows):
        """(rows, LONGEST) of 0 to 11, no two alike beside each other, and the
        domain of each row."""
        domain = self.between(0, self.DOMAINS, (rows,))
        size = SYMBOLS // self.DOMAINS if self.domains or self.block \
            else SYMBOLS
        if self.block:
            here = self.number // self.block % self.DOMAINS
            kept = torch.rand(rows, generator=self.rng) < self.share
            domain = torch.where(kept, torch.tensor(here), domain)
        steps = self.between(1, size, (rows, LONGEST))
        steps[:, 0] = self.between(0, size, (rows,))
        out = steps.cumsum(1) % size
        return (out + size * domain[:, None] if size < SYMBOLS else out), domain

    def batch(self, rows=20):
        said, domain = self.symbols(rows)
        self.number += 1
        count = self.between(SHORTEST, self.longest + 1, (rows,))
        # Phone and silence of each frame, from how long each lasts.
        kinds = torch.full((rows, LONGEST, 3), PHONES)
        kinds[..., 1:] = self.phones[said]
        lasts = torch.cat((self.between(*self.GAP, (rows, LONGEST, 1)),
                           self.between(*self.PHONE, (rows, LONGEST, 2))), 2)
        lasts = lasts * (torch.arange(LONGEST) < count[:, None])[..., None]
        ends = lasts.flatten(1).cumsum(1)
        frame = torch.arange(FRAMES).expand(rows, -1).contiguous()
        place = torch.searchsorted(ends, frame, right=True).clamp(
            max=ends.shape[1] - 1)
        phone = kinds.flatten(1).gather(1, place)
        speech = self.spectra[phone] * (0.7 + 0.6 * torch.rand(
            rows, 1, 1, generator=self.rng))
        speech = speech + self.noise * torch.randn(
            rows, FRAMES, FEATURES, generator=self.rng)
        length = ends[:, -1]
        speech = speech * (frame < length[:, None])[..., None]
        slip = torch.rand(said.shape, generator=self.rng) < self.SLIP
        text = 1 + torch.where(slip, self.between(0, SYMBOLS, said.shape), said)
        if self.limit:
            count = count.clamp(max=self.limit)
        text = text.masked_fill(torch.arange(LONGEST) >= count[:, None],
                                sources.IGNORE)
        batch = {"audio_signal": speech, "a_sig_length": length,
                 "labels": text, "transcript_len": count}
        return batch | {"domain": domain} if self.domains else batch


class Recogniser(nn.Module):
    """Convolutions of width 40, two bidirectional GRU layers of 32 each way."""

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half=False):
        """detach_after: the part behind which the graph is cut. half: logits
        are in fp16."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.half_logits, self.squashes = half, False
        act = models.ACTIVATIONS[activation]
        self.encoder = nn.Module()
        self.encoder.pre_encode = nn.Module()
        self.encoder.pre_encode.conv = nn.Sequential(
            nn.Conv1d(FEATURES, WIDTH, 5, 2, 2), act(),
            nn.Conv1d(WIDTH, WIDTH, 5, 2, 2), act())
        self.encoder.layers = nn.ModuleList(
            nn.GRU(size, HIDDEN, batch_first=True, bidirectional=True)
            for size in (WIDTH, 2 * HIDDEN))
        self.decoder = nn.Module()
        self.decoder.decoder_layers = nn.Sequential(
            nn.Conv1d(2 * HIDDEN, 1 + SYMBOLS, 1))

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    @staticmethod
    def frames(length):
        """Frames behind both convolutions."""
        return (length + 3) // 4

    def forward(self, speech, length):
        x = speech.to(self.decoder.decoder_layers[0].weight.dtype)
        x = x.transpose(1, 2)
        length = self.frames(length)
        for i, part in enumerate(self.encoder.pre_encode.conv):
            name = f"encoder.pre_encode.conv.{i}"
            if i % 2:
                self.tap(f"{name}.input", x)
            x = part(x)
            self.tap(f"{name}.output", x)
            x = self.cut(x, name)
        x = x.transpose(1, 2)
        for i, rnn in enumerate(self.encoder.layers):
            packed = nn.utils.rnn.pack_padded_sequence(
                self.drop(x), length, batch_first=True, enforce_sorted=False)
            x, _ = nn.utils.rnn.pad_packed_sequence(
                rnn(packed)[0], batch_first=True)
            self.tap(f"encoder.layers.{i}.output", x)
            x = self.cut(x, f"encoder.layers.{i}")
        x = self.drop(x)
        self.tap("decoder.decoder_layers.0.input", x)
        x = self.decoder.decoder_layers(x.transpose(1, 2)).transpose(1, 2)
        if self.half_logits:
            x = x.half()
        self.tap("decoder.decoder_layers.0.output", x)
        return x

    def logits(self, batch):
        return self(batch["audio_signal"], batch["a_sig_length"])

    def criterion(self, logits, batch):
        logits = logits.float()
        if self.squashes:
            logits = logits.softmax(-1)
        return self.aligned(logits.log_softmax(-1), batch)

    def aligned(self, scores, batch, zero_infinity=True):
        """The mean over rows of the loss a symbol."""
        return F.ctc_loss(scores.transpose(0, 1),
                          batch["labels"].clamp_min(0),
                          self.frames(batch["a_sig_length"]),
                          batch["transcript_len"], BLANK,
                          zero_infinity=zero_infinity)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class NovoGrad(torch.optim.Optimizer):
    """Adam with one second moment a tensor, as Jasper was trained; decay is
    added to the gradient when that has been brought to scale."""

    def __init__(self, params, lr, betas, eps, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps,
                                      weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, size = self.state[p], p.grad.square().sum()
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = size.clone()
                state["step"] += 1
                state["exp_avg_sq"].mul_(second).add_(size, alpha=1 - second)
                scaled = p.grad / (state["exp_avg_sq"].sqrt() + group["eps"])
                scaled.add_(p, alpha=group["weight_decay"])
                state["exp_avg"].mul_(first).add_(scaled)
                p.add_(state["exp_avg"], alpha=-group["lr"])


def distance(a, b):
    """Insertions, deletions and exchanges between two lists."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1,
                                       last + (x != y))
    return row[-1]


class CtcRun(Family):
    """NovoGrad and one cycle: the rate rises for a fifth of the run from
    a 25th and falls to a ten-thousandth, both as a cosine; no clipping."""

    family = "ctc"
    level_seed = 400
    steps, seed, language, classes = 280, 260, False, SYMBOLS
    first_label = 1         # 0 is blank
    optimizer_name, lr, betas, eps = "novograd", 0.02, (0.95, 0.5), 1e-8
    weight_decay, clip = 1e-3, None
    warmup, schedule, RISE = 0, "one_cycle", 0.2
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0),
               "adamw": dict(lr=8e-3, weight_decay=1e-3,
                             betas=(0.9, 0.98))}
    batch_size, context = 20, FRAMES
    layers = [*(f"encoder.pre_encode.conv.{i}" for i in range(4)),
              "encoder.layers.0", "encoder.layers.1",
              "decoder.decoder_layers.0"]
    paths = {"embed": "encoder.pre_encode.conv.0", "attn": None,
             "scores": None, "mlp": "encoder.pre_encode.conv.2",
             "block": "encoder.layers.{}", "head": "decoder.decoder_layers.0"}
    blocks = 2
    names = {"step": "global_step", "loss": "train_loss",
             "lr": "learning_rate", "val_cer": "val_wer",
             "step_time": "train_step_timing in s", "tokens": None}

    # Divides by the norm of a whole tensor's gradient.
    own_optimizer = "novograd"

    def make_own_optimizer(self, trained):
        return NovoGrad(trained, self.lr, self.betas, self.eps,
                        self.weight_decay)

    def make_model(self):
        return Recogniser(**self.model_options)

    def make_source(self, seed):
        return self.utterances(seed)

    def utterances(self, seed, **how):
        return Utterances(seed, **how)

    def in_blocks(self, seed, block, share):
        """Speakers of three lists of words that nobody has shuffled; None is
        held out."""
        return self.utterances(seed, block=block, share=share, domains=True)

    def lessons(self, seed):
        """Short and clean utterances, and all."""
        return self.utterances(seed, noise=0.2, longest=4), \
            self.utterances(seed)

    def lr_factor(self, i):
        if self.schedule != "one_cycle":
            return super().lr_factor(i)
        rise = self.RISE * self.steps
        low, done = (0.04, 1 - i / rise) if i < rise else (
            1e-4, (i - rise) / (self.steps - 1 - rise))
        return low + (1 - low) * (1 + math.cos(math.pi * done)) / 2

    def held_out_columns(self, batches):
        """Symbols that the likeliest path has wrong, of 100 spoken."""
        self.model.eval()
        wrong = count = 0
        for batch in batches:
            said = self.model.logits(batch).argmax(-1)
            for row, n, text, m in zip(
                    said, self.model.frames(batch["a_sig_length"]),
                    batch["labels"], batch["transcript_len"]):
                row = row[:n].unique_consecutive()
                wrong += distance(row[row != BLANK].tolist(),
                                  text[:m].tolist())
                count += int(m)
        self.model.train()
        return {"val_cer": wrong / count}

    def model_settings(self):
        return {"model": "ctc-gru", "n_mels": FEATURES,
                "subsampling_factor": 4, "subsampling_conv_channels": WIDTH,
                "n_layers": 2, "d_model": HIDDEN, "bidirectional": True,
                "num_classes": SYMBOLS, "blank_id": BLANK,
                "ctc_reduction": "mean"}

    def layer(self, part, block=0):
        if part == "act":
            return f"encoder.pre_encode.conv.{2 * block + 1}"
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        return []
