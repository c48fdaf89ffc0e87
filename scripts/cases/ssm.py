"""A small selective state-space language model that is pretrained.

Parts are named as in state-spaces/mamba. Nothing attends: what a token knows of
earlier ones came through a convolution of four tokens or a state that decays.
Checkpoints are those of the Trainer of transformers.
"""

import copy
import json
import math
import random

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family
from .llama import RmsNorm
from .sources import ASSISTANT, EOS, IGNORE, PAD, SPECIAL, USER

VOCAB, CONTEXT, ROWS = 84, 64, 8
WIDTH, DEPTH, EXPAND, STATE, CONV, RANK = 40, 2, 2, 4, 4, 3
INNER = EXPAND * WIDTH
TOPICS = 4
NAME = SPECIAL + TOPICS     # stands before the name of a document
FIRST = NAME + 1            # of the pieces of words


class Documents(sources.Source):
    """Documents one after the other, cut to rows; each row begins with one.

    A document is the mark of its topic, NAME, a name of two pieces that are
    drawn at random, 12 to 28 words and EOS. Of 48 words of one to three pieces
    each has three successors (0.7, 0.2, 0.1), others in each topic; with 0.12
    NAME and the name come between two words. So a model has to keep the topic
    and the name for the whole of a document.

    Knowing the process leaves 0.76 nats a token, how frequent tokens are 3.91;
    a fresh model has ln 84 = 4.43.

    pieces: of the tokenizer, which a collator clamps to the table's. topics:
    of these alone. names: see above. block, share: a topic a row, one after the
    other; without block any.
    """

    WORDS, LENGTH, NAMES = 48, (12, 28), 0.12

    def __init__(self, seed, shape, pieces=VOCAB - FIRST, topics=TOPICS,
                 names=NAMES, domains=False, block=None, share=1.0):
        super().__init__(seed, shape)
        self.pieces, self.topics, self.names = pieces, topics, names
        self.domains, self.block, self.share = domains, block, share
        self.draws = random.Random(seed)    # faster than a tensor a word
        language = torch.Generator().manual_seed(77)
        often = 1 / torch.arange(12.0, 12 + pieces)
        self.words = [(FIRST + torch.multinomial(often, 1 + w % 3, True,
                                                 generator=language)).tolist()
                      for w in range(self.WORDS)]
        self.next = torch.stack([torch.stack([torch.randperm(
            self.WORDS, generator=language) for _ in range(3)], 1)
            for _ in range(TOPICS)]).tolist()

    def successor(self, topic, word):
        branch = bisect(self.draws.random())
        return self.next[topic][word][branch]

    def text(self, topic, word, count, name):
        """Pieces of `count` words behind `word`, names among them."""
        said = []
        for _ in range(count):
            if name and self.draws.random() < self.names:
                said += (NAME, *name)
            word = self.successor(topic, word)
            said += self.words[word]
        return said

    def piece(self):
        return FIRST + self.draws.randrange(self.pieces)

    def document(self, topic):
        name = [self.piece(), self.piece()] if self.names else []
        start = self.draws.randrange(self.WORDS)
        count = self.draws.randint(*self.LENGTH)
        return [SPECIAL + topic, *([NAME] * bool(name)), *name,
                *self.text(topic, start, count, name), EOS]

    def draw(self, rows):
        width, ids, topics = self.context + 1, [], []
        here = self.block and self.number // self.block % TOPICS
        for _ in range(rows):
            topic = self.draws.randrange(self.topics)
            if self.block and self.draws.random() < self.share:
                topic = here
            topics.append(topic)
            row = self.document(topic)
            while len(row) < width:
                row += self.document(
                    topic if self.domains or self.block
                    else self.draws.randrange(self.topics))
            ids.append(row[:width])
        ids = torch.tensor(ids).clamp(max=self.vocab - 1)
        batch = sources.shifted(ids)
        if self.domains or self.block:
            batch["domain"] = torch.tensor(topics)
        return batch


def bisect(x):
    """Which of 0.7, 0.2 and 0.1 x in [0, 1) falls into."""
    return (x >= 0.7) + (x >= 0.9)


class Requests(Documents):
    """One request and its answer a row, padded: USER, the mark of a topic, some
    pieces that nobody can foresee, ASSISTANT, an answer of 6 to 11 words of the
    topic that goes on from the last piece, EOS. Labels are those of answers,
    EOS included. lengths: of requests."""

    def __init__(self, seed, shape, lengths=(14, 30)):
        super().__init__(seed, shape)
        self.lengths = lengths

    def draw(self, rows):
        width = self.context + 1
        ids = torch.full((rows, width), PAD)
        said = torch.zeros(rows, width, dtype=torch.int64)
        for row in range(rows):
            topic = self.draws.randrange(self.topics)
            asked = [self.piece()
                     for _ in range(self.draws.randint(*self.lengths))]
            start = (asked[-1] - FIRST) % self.WORDS
            text = [USER, SPECIAL + topic, *asked, ASSISTANT]
            answer = [*self.text(topic, start, self.draws.randint(6, 11), ()),
                      EOS]
            first, text = len(text), (text + answer)[:width]
            ids[row, :len(text)] = torch.tensor(text)
            said[row, first:len(text)] = 1
        labels = ids[:, 1:].masked_fill(said[:, 1:] == 0, IGNORE)
        return {"input_ids": ids[:, :-1].clone(), "labels": labels,
                "attention_mask": (ids[:, :-1] != PAD).long(),
                "assistant_masks": said[:, :-1].clone()}


class Recurrence(torch.autograd.Function):
    """h = keep h + new, along the first axis; going back by hand takes a third
    of the time."""

    @staticmethod
    def forward(context, keep, new):
        states = new.clone()
        each, kept = states.unbind(), keep.unbind()
        for t in range(1, len(each)):
            each[t].addcmul_(kept[t], each[t - 1])
        context.save_for_backward(keep, states)
        return states

    @staticmethod
    def backward(context, grad):
        keep, states = context.saved_tensors
        grad = grad.clone()
        each, kept = grad.unbind(), keep.unbind()
        for t in range(len(each) - 1, 0, -1):
            each[t - 1].addcmul_(kept[t], each[t])
        return F.pad(grad[1:] * states[:-1], (0,) * 2 * (grad.dim() - 1)
                     + (1, 0)), grad


def selective_scan(u, delta, a, b, c, d):
    """h = exp(delta a) h + delta u b, y = c h + d u, token after token.

    u and delta are (rows, steps, inner), b and c (rows, steps, state), a is
    (inner, state), d (inner); as the kernels do it, in fp32. Also returns how
    large the state is.
    """
    u, delta, b, c = (t.float().transpose(0, 1) for t in (u, delta, b, c))
    keep = torch.exp(delta[..., None] * a)
    new = (delta * u)[..., None] * b[:, :, None]
    states = Recurrence.apply(keep, new)
    y = (states @ c[..., None])[..., 0] + d * u
    return y.transpose(0, 1), states.detach().square().mean().sqrt()


class Mixer(nn.Module):
    """Mamba's: a causal convolution of each channel, and a scan whose step,
    input and output depend on the token; gated."""

    def __init__(self, options):
        super().__init__()
        self.half_at, self.name = options["half_at"], None
        self.in_proj = nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.conv1d = nn.Conv1d(INNER, INNER, CONV, groups=INNER,
                                padding=CONV - 1)
        self.act = models.ACTIVATIONS[options["activation"]]()
        self.x_proj = nn.Linear(INNER, RANK + 2 * STATE, bias=False)
        self.dt_proj = nn.Linear(RANK, INNER)
        self.A_log = nn.Parameter(torch.arange(1.0, STATE + 1).log().repeat(
            INNER, 1))
        self.D = nn.Parameter(torch.ones(INNER))
        self.out_proj = nn.Linear(INNER, WIDTH, bias=False)
        self.delta = self.state = None      # of the last forward pass

    def forward(self, x, tap, future=0):
        """future: tokens that the convolution sees ahead; None is all that
        its padding has."""
        tap("input", x)
        steps = x.shape[1]
        u, gate = self.in_proj(x).chunk(2, -1)
        tap("in_proj.output", u)
        late = CONV - 1 if future is None else future
        u = self.conv1d(u.transpose(1, 2))[..., late:late + steps]
        u = u.transpose(1, 2)
        tap("conv1d.output", u)
        tap("act.input", u)
        u = self.act(u)
        tap("act.output", u)
        step, b, c = self.x_proj(u).split((RANK, STATE, STATE), -1)
        step = self.dt_proj(step)
        tap("dt_proj.output", step)
        delta = F.softplus(step.float())
        y, self.state = selective_scan(u, delta, -self.A_log.float().exp(), b,
                                       c, self.D.float())
        self.delta = delta.detach().mean()
        tap("scan.output", y)
        y = y.to(gate.dtype) * self.act(gate)
        tap("out_proj.input", y)
        y = self.out_proj(y)
        if self.half_at == "out_proj":
            y = y.half()
        tap("out_proj.output", y)
        tap("output", y)
        return y


class Block(nn.Module):
    def __init__(self, eps, options):
        super().__init__()
        self.norm, self.mixer = RmsNorm(WIDTH, eps), Mixer(options)

    def forward(self, x, tap, drop, **seen):
        tap("norm.input", x)
        y = self.norm(x)
        tap("norm.output", y)
        y = self.mixer(y, lambda n, t: tap(f"mixer.{n}", t), **seen)
        return x + drop(y).to(x.dtype)


class Mamba(models.Language):
    """Two layers of width 40 and a state of 4; an untied head."""

    def __init__(self, eps=1e-5, detach_after=None, future=0, half_at=None,
                 activation="silu", dropout=0.0, pad=None):
        """detach_after -1 cuts behind the embedding; half_at: what of the last
        layer is in fp16."""
        super().__init__()
        self.detach_after, self.future, self.dropout = \
            detach_after, future, dropout
        self.backbone = models.Group(
            embedding=nn.Embedding(VOCAB, WIDTH, padding_idx=pad),
            layers=nn.ModuleList(
                Block(eps, {"activation": activation, "half_at":
                            half_at if i == DEPTH - 1 else None})
                for i in range(DEPTH)),
            norm_f=RmsNorm(WIDTH, eps))
        self.lm_head = nn.Linear(WIDTH, VOCAB, bias=False)
        nn.init.normal_(self.backbone.embedding.weight, std=0.1)
        nn.init.normal_(self.lm_head.weight, std=0.02)
        for block in self.backbone.layers:
            self.begin(block.mixer)
        if pad is not None:
            with torch.no_grad():
                self.backbone.embedding.weight[pad] = 0

    @staticmethod
    def begin(mixer):
        """Mamba's rule: steps are from 0.001 to 0.1, evenly in the logarithm;
        what writes to the residual stream is scaled."""
        nn.init.uniform_(mixer.dt_proj.weight, -RANK ** -0.5, RANK ** -0.5)
        low, high = math.log(1e-3), math.log(0.1)
        step = (low + (high - low) * torch.rand(INNER)).exp()
        with torch.no_grad():
            mixer.dt_proj.bias.copy_(step + (-(-step).expm1()).log())
            mixer.out_proj.weight.div_(DEPTH ** 0.5)

    def forward(self, ids, position_ids=None, segments=None):
        x = self.backbone.embedding(ids)
        self.tap("backbone.embedding.output", x)
        if self.detach_after == -1:
            x = x.detach()
        x = self.drop(x)
        for i, block in enumerate(self.backbone.layers):
            name = f"backbone.layers.{i}"
            x = block(x, lambda n, t, name=name: self.tap(f"{name}.{n}", t),
                      self.drop, future=self.future)
            self.tap(f"{name}.output", x)
            if i == self.detach_after:
                x = x.detach()
        x = self.backbone.norm_f(x)
        self.tap("backbone.norm_f.output", x)
        x = self.lm_head(x)
        self.tap("lm_head.output", x)
        return x

    def criterion(self, logits, batch):
        return F.cross_entropy(logits.float().flatten(0, 1),
                               batch["labels"].flatten(),
                               ignore_index=IGNORE)


class SsmRun(Family):
    """AdamW that decays matrices alone; a cosine that ends at a tenth."""

    family = "ssm"
    level_seed = 400
    steps, seed = 220, 460
    lr, warmup, schedule, clip = 1.2e-2, 22, "cosine_with_min_lr", 1.0
    FLOOR = 0.1             # share of the rate at the end
    betas, weight_decay = (0.9, 0.95), 0.1
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, CONTEXT, VOCAB
    layers = ["backbone.embedding", *(
        f"backbone.layers.{i}.mixer{part}" for i in range(DEPTH)
        for part in (".in_proj", ".conv1d", ".act", ".dt_proj", ".out_proj",
                     "")),
        "backbone.norm_f", "lm_head"]
    paths = {"embed": "backbone.embedding", "attn": None, "scores": None,
             "act": "backbone.layers.{}.mixer.act",
             "mlp": "backbone.layers.{}.mixer", "block": "backbone.layers.{}",
             "head": "lm_head"}
    blocks = DEPTH
    battery = ("causal_mask",)
    names = {"step": "train/global_step", "loss": "train/loss",
             "val_loss": "eval/loss", "grad_norm": "train/grad_norm",
             "lr": "train/learning_rate",
             "tokens": "train/num_input_tokens_seen",
             "step_time": "train/step_time", "data_time": "train/data_time",
             "delta_mean": "ssm/delta_mean", "state_rms": "ssm/state_rms"}

    def make_model(self):
        return Mamba(**self.model_options)

    def make_optimizer(self, model):
        """As everywhere, but vectors, A_log and D have no decay."""
        optimizer = super().make_optimizer(model)
        decayed = {p for n, p in model.named_parameters()
                   if p.dim() >= 2 and not n.endswith("A_log")}
        group, = optimizer.param_groups
        others = [p for p in group["params"] if p not in decayed]
        group["params"] = [p for p in group["params"] if p in decayed]
        if others:
            optimizer.add_param_group({"params": others, "weight_decay": 0.0})
        return optimizer

    def make_source(self, seed):
        return self.documents(seed)

    def documents(self, seed, **how):
        return Documents(seed, (self.vocab, self.context, self.batch_size),
                         **how)

    def chats(self, seed, **how):
        return Requests(seed, (self.vocab, self.context, self.batch_size),
                        **how)

    def in_blocks(self, seed, block, share):
        """Topics that nobody has shuffled; None is held out."""
        return self.documents(seed, domains=True, block=block, share=share)

    def lessons(self, seed):
        """Documents of one topic without names, and all."""
        return self.easy(seed), self.documents(seed)

    def easy(self, seed):
        return self.documents(seed, topics=1, names=0)

    def lr_factor(self, i):
        if self.schedule != "cosine_with_min_lr" or i < self.warmup:
            return super().lr_factor(i)
        schedule, self.schedule = self.schedule, "cosine"
        factor = super().lr_factor(i)
        self.schedule = schedule
        return self.FLOOR + (1 - self.FLOOR) * factor

    def batch_columns(self, batch):
        parts = [layer.mixer for layer in self.model.backbone.layers]
        row = super().batch_columns(batch)
        if all(p.state is not None for p in parts):
            row |= {"delta_mean": round(float(
                        sum(p.delta for p in parts) / len(parts)), 5),
                    "state_rms": round(float(
                        max(p.state for p in parts)), 5)}
        return row

    def settings(self):
        settings = super().settings() | {"save_steps": self.steps // 2}
        if self.schedule == "cosine_with_min_lr":
            settings["min_lr_rate"] = self.FLOOR
        return settings

    def model_settings(self):
        return {"model": "mamba", "n_layer": DEPTH, "d_model": WIDTH,
                "d_state": STATE, "d_conv": CONV, "expand": EXPAND,
                "dt_rank": RANK, "vocab_size": self.vocab,
                "seq_len": self.context, "rms_norm": True,
                "norm_eps": self.model_options.get("eps", 1e-5),
                "residual_in_fp32": True, "tie_embeddings": False,
                "eos_token_id": EOS, "pad_token_id": PAD}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        """The norm before a mixer counts to it."""
        return [layer.removesuffix("mixer") + "norm"] \
            if layer.endswith(".mixer") else []

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        """In the middle, at the end and where the run is resumed from."""
        if i + 1 not in {self.steps // 2, self.steps, *self.notices}:
            return
        self.checkpoints[i + 1] = (
            {n: t.clone() for n, t in model.state_dict().items()},
            copy.deepcopy(self.optimizer.state_dict()),
            copy.deepcopy(self.scheduler.state_dict()))

    def write_files(self):
        super().write_files()
        path = self.folder / "trainer_state.json"
        if path.exists():  # it knows how often it saves
            self.write_json(path.name, json.loads(path.read_text()) | {
                "save_steps": self.steps // 2})

    def write_more(self):
        super().write_more()
        for step, (weights, *states) in self.checkpoints.items():
            folder = self.folder / f"checkpoint-{step}"
            folder.mkdir()
            save_file(weights, folder / "model.safetensors",
                      {"format": "pt"})
            for name, state in zip(("optimizer", "scheduler"), states):
                torch.save(state, folder / f"{name}.pt")
            self.write_state(folder, step)

    def write_state(self, folder, step):
        """The Trainer's own log as it was then."""
        path = self.folder / "trainer_state.json"
        if not path.exists():
            return
        state = json.loads(path.read_text())
        state |= {"epoch": state["epoch"] * step / state["global_step"],
                  "global_step": step, "log_history": [
                      row for row in state["log_history"]
                      if row["step"] <= step and "train_runtime" not in row]}
        self.write_json(f"{folder.name}/trainer_state.json", state)
