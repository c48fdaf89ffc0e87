"""A small vision-language model that is tuned on questions about pictures.

As LLaVA does it with Hugging Face's Trainer: a vision tower that stands still,
two maps with a GELU between that bring its features to the width of words, and
a language model that reads them in the place of image tokens and is tuned as
well. The tower is SigLIP's kind, the language model MPT's: positions are biases
of the scores that grow with the distance. Both are trained once a process,
before anything is recorded; the maps between begin anew.
"""

import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources, trainer_checkpoints
from .family import Family
from .models import Group
from .sources import ASSISTANT, EOS, IGNORE, PAD, USER

IMAGE, FIRST_WORD = 4, 5            # the first four are those of sources
COLOURS = {"red": (1.0, 0.1, 0.1), "green": (0.1, 0.9, 0.2),
           "blue": (0.1, 0.2, 1.0), "yellow": (1.0, 0.9, 0.1),
           "white": (1.0, 1.0, 1.0)}
SHAPES = {"square": (".....", ".###.", ".###.", ".###.", "....."),
          "cross": ("..#..", "..#..", "#####", "..#..", "..#.."),
          "ring": (".###.", "#...#", "#...#", "#...#", ".###."),
          "bars": ("#####", ".....", "#####", ".....", "#####")}
ASKING = ("what", "colour", "shape", "is", "it", "which", "row", "how", "many")
QUESTIONS = ("what colour is it", "what shape is it", "which row is it",
             "how many", "what is it")
CELLS, PATCH = 3, 6                 # a row of the grid; pixels
SIZE, IMAGES = CELLS * PATCH, CELLS * CELLS
# Words that answer: of each attribute the first and how many there are.
COUNTS = (len(COLOURS), len(SHAPES), CELLS, CELLS)
FIRSTS = [FIRST_WORD + len(ASKING) + sum(COUNTS[:k]) for k in range(4)]
VOCAB = FIRSTS[3] + COUNTS[3]
ROWS, TURNS, CONTEXT = 16, 3, 36
WIDTH, HEADS, DEPTH, INNER = 40, 4, 2, 80
SEES, LOOKS = 24, 2                 # width and heads of the vision tower


class Conversations(sources.Source):
    """Pictures of one to three things alike, and three questions about each.

    A picture has a colour of five, a shape of four, a row of three in which its
    things lie, anywhere, and their number. Pixels have noise of .25 and a
    brightness of .7 to 1.3. Row: USER image tokens question ASSISTANT answer
    EOS, and twice more without image; then padding. A question is about one of
    the attributes, or about colour and shape, none twice in a row. Annotators
    gave .05 of the words of answers wrongly. Labels are answers and their EOS.

    block, share: all questions of a row are alike, one of the five after the
    other; block 0 has them shuffled. calm: without noise and errors, and the
    number is 1. described: share of the rows that have words in the place of a
    picture. limit: tokens that a row is cut to. names: how many a word of an
    answer has; the tokenizer was given all but one later, and a collator clamps
    them to the last id of the table. cameras: three of them, of which the
    second sees half of the light, the third with twice the noise.
    """

    WRONG, NOISE = 0.05, 0.25

    def __init__(self, seed, shape, calm=False, block=None, share=1.0,
                 described=0.0, limit=None, names=1, turns=TURNS,
                 cameras=False):
        super().__init__(seed, shape)
        self.calm, self.block, self.share = calm, block, share
        self.described, self.limit, self.names = described, limit, names
        self.turns, self.cameras = turns, cameras
        self.masks = torch.zeros(len(SHAPES), PATCH, PATCH)
        for k, rows in enumerate(SHAPES.values()):
            for y, row in enumerate(rows):
                for x, sign in enumerate(row):
                    self.masks[k, y, x] = sign == "#"
        self.paints = torch.tensor(list(COLOURS.values()))

    def rand(self, *shape):
        return torch.rand(shape, generator=self.rng)

    def scenes(self, rows):
        """Colour, shape, row and number less one, (rows, 4)."""
        scene = (self.rand(rows, 4) * torch.tensor(COUNTS)).long()
        if self.calm:
            scene[:, 3] = 0
        return scene

    def cells(self, scene):
        """True where a thing lies, (rows, cells)."""
        there = self.rand(len(scene), CELLS).argsort(1).argsort(1) \
            <= scene[:, 3:]
        here = torch.arange(CELLS) == scene[:, 2:3]
        return (here[..., None] & there[:, None]).flatten(1)

    def pictures(self, scene, cells):
        rows = len(scene)
        thing = self.masks[scene[:, 1], None] \
            * self.paints[scene[:, 0], :, None, None]
        grid = cells[..., None, None, None] * thing[:, None]
        image = grid.view(rows, CELLS, CELLS, 3, PATCH, PATCH).permute(
            0, 3, 1, 4, 2, 5).reshape(rows, 3, SIZE, SIZE)
        if not self.calm:
            light = 0.7 + 0.6 * self.rand(rows, 1, 1, 1)
            noise = self.NOISE * torch.randn(image.shape, generator=self.rng)
            if self.cameras:
                camera = (3 * self.rand(rows, 1, 1, 1)).long()
                light = torch.where(camera == 1, 0.5 * light, light)
                noise = torch.where(camera == 2, 2 * noise, noise)
            image = image * light + noise
        return 2 * image - 0.5      # about as a processor normalises it

    def asked(self, rows):
        """Which questions are put in each row."""
        kind = self.rand(rows, len(QUESTIONS)).argsort(1)[:, :self.turns]
        if self.block is not None:
            one = (self.rand(rows) * len(QUESTIONS)).long()
            if self.block:
                here = self.number // self.block % len(QUESTIONS)
                one = torch.where(self.rand(rows) < self.share,
                                  torch.tensor(here), one)
            kind = one[:, None].expand(-1, self.turns)
        return kind

    def draw(self, rows):
        scene = self.scenes(rows)
        pictures = self.pictures(scene, self.cells(scene))
        kinds = self.asked(rows)
        told = self.rand(rows, 1) < self.described
        # As annotators write it, anew for each question.
        wrong = self.rand(rows, self.turns, 4) < (0 if self.calm
                                                  else self.WRONG)
        count = torch.tensor(COUNTS)
        other = 1 + (self.rand(rows, self.turns, 4) * (count - 1)).long()
        first = torch.tensor(FIRSTS)
        said = first + (scene[:, None] + torch.where(wrong, other, 0)) % count
        ids = torch.full((rows, self.context), PAD)
        labels = torch.full((rows, self.context), IGNORE)
        for row, (blind, known, asked, answers) in enumerate(zip(
                told.tolist(), (first + scene).tolist(), kinds.tolist(),
                said.tolist())):
            text = [USER] + (known if blind[0] else [IMAGE] * IMAGES)
            marks = []
            for k, (kind, words) in enumerate(zip(asked, answers)):
                words = words[:2] if kind == 4 else words[kind:kind + 1]
                text += [USER] * (k > 0) + self.ASKED[kind] + [ASSISTANT]
                marks += range(len(text), len(text) + len(words) + 1)
                text += [*words, EOS]
            size = min(len(text), self.limit or self.context)
            ids[row, :size] = torch.tensor(text[:size])
            marks = [m for m in marks if m < size]
            labels[row, marks] = ids[row, marks]
        if self.names > 1:
            new = (ids >= FIRSTS[0]) & (self.rand(*ids.shape) * self.names >= 1)
            ids = torch.where(new, VOCAB - 1, ids)
            labels = torch.where(labels == IGNORE, IGNORE, ids)
        pictures = pictures * ~told[..., None, None]
        batch = {"pixel_values": pictures, "input_ids": ids,
                 "attention_mask": (ids != PAD).long(), "labels": labels}
        if self.block is not None:
            batch["domain"] = kinds[:, 0].clone()
        return batch

    ASKED = [[FIRST_WORD + ASKING.index(w) for w in q.split()]
             for q in QUESTIONS]


class Either:
    """Batches of the first of two sources, and a share of the second."""

    def __init__(self, kinds, share, seed):
        self.kinds, self.share = kinds, share
        self.rng = torch.Generator().manual_seed(seed)

    def batch(self, rows=None):
        second = float(torch.rand((), generator=self.rng)) < self.share
        return self.kinds[second].batch(rows)


class SelfAttention(nn.Module):
    """Of the tower: every patch sees all."""

    def __init__(self):
        super().__init__()
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(SEES, SEES))

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (LOOKS, -1)).transpose(1, 2)
                   for part in (self.q_proj, self.k_proj, self.v_proj))
        x = F.scaled_dot_product_attention(q, k, v)
        return self.out_proj(x.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer_norm1, self.layer_norm2 = (nn.LayerNorm(SEES)
                                              for _ in range(2))
        self.self_attn = SelfAttention()
        self.mlp = Group(fc1=nn.Linear(SEES, 2 * SEES),
                         fc2=nn.Linear(2 * SEES, SEES))

    def forward(self, x, tap):
        y = self.self_attn(self.layer_norm1(x))
        tap("self_attn.output", y)
        x = x + y
        y = self.mlp.fc2(F.gelu(self.mlp.fc1(self.layer_norm2(x))))
        tap("mlp.output", y)
        return x + y


class VisionModel(nn.Module):
    """Patches with learned places, a block and a norm; no class token."""

    def __init__(self):
        super().__init__()
        self.embeddings = Group(
            patch_embedding=nn.Conv2d(3, SEES, PATCH, PATCH),
            position_embedding=nn.Embedding(IMAGES, SEES))
        nn.init.normal_(self.embeddings.position_embedding.weight, std=0.5)
        self.encoder = Group(layers=nn.ModuleList([EncoderLayer()]))
        self.post_layernorm = nn.LayerNorm(SEES)

    def forward(self, pixels, tap):
        own = self.embeddings
        x = own.patch_embedding(pixels.to(own.patch_embedding.weight.dtype))
        tap("embeddings.patch_embedding.output", x)
        x = x.flatten(2).transpose(1, 2) + own.position_embedding.weight
        x = self.encoder.layers[0](
            x, lambda n, t: tap(f"encoder.layers.0.{n}", t))
        x = self.post_layernorm(x)
        tap("post_layernorm.output", x)
        return x


class Attention(nn.Module):
    """Queries, keys and values of one map; scores lose the distance times a
    slope of each head."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        self.Wqkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.slopes = [2.0 ** -(8 * (h + 1) / HEADS) for h in range(HEADS)]

    def bias(self, steps):
        """(heads, 1, steps): who is further to the right is nearer."""
        if not self.options["positions"]:
            return 0.0
        return torch.tensor(self.slopes)[:, None, None] \
            * torch.arange(1 - steps, 1)

    def forward(self, x, tap, seen):
        tap("input", x)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for t in self.Wqkv(x).chunk(3, -1))
        if self.options["half_scores"]:
            q, k = q.half(), k.half()
        tap("scores.input", torch.stack((q, k), 1))  # rows stay first
        scores = q @ k.mT
        tap("scores.output", scores)
        scale = self.options["scale"]
        if scale is None:
            scale = (WIDTH // HEADS) ** -0.5
        scores = scores * scale + self.bias(x.shape[1])
        probs = scores.masked_fill(~seen, -math.inf).softmax(-1)
        tap("probs.output", probs)
        with torch.no_grad():
            tap("scores.max_logit", scores.masked_fill(~seen, 0).abs().max())
            p = probs.float()
            entropy = -(p * p.clamp_min(1e-30).log()).sum(-1)
            keys = seen.sum(-1).expand(entropy.shape)
            tap("scores.attn_entropy_share",
                (entropy[keys > 1] / keys[keys > 1].log()).mean())
        x = self.out_proj((probs.to(v.dtype) @ v).transpose(1, 2).flatten(2))
        tap("output", x)
        return x


class MptBlock(nn.Module):
    """Norms before each part have no bias, nor has anything else."""

    def __init__(self, options):
        super().__init__()
        self.norm_1, self.norm_2 = (nn.LayerNorm(WIDTH, bias=False)
                                    for _ in range(2))
        self.attn = Attention(options)
        self.ffn = Group(up_proj=nn.Linear(WIDTH, INNER, bias=False),
                         act=models.ACTIVATIONS[options["ffn"]](),
                         down_proj=nn.Linear(INNER, WIDTH, bias=False))

    def forward(self, x, tap, drop, future, kept):
        """kept: (rows, 1, 1, steps), what is not padding."""
        seen = models.visible_keys(x.shape[1], future, None) & kept
        y = self.attn(self.norm_1(x), lambda n, t: tap(f"attn.{n}", t), seen)
        x = x + drop(y)
        y = self.norm_2(x)
        tap("ffn.input", y)
        y = self.ffn.up_proj(y)
        tap("ffn.act.input", y)
        y = self.ffn.act(y)
        tap("ffn.act.output", y)
        y = self.ffn.down_proj(y)
        tap("ffn.output", y)
        x = x + drop(y)
        tap("output", x)
        return x


class Vlm(models.Language):
    """Nine patches of a width of 24, and two blocks of a width of 40."""

    LANGUAGE = "language_model.transformer"

    def __init__(self, base=True, dropout=0.0, detach_after=None,
                 half_scores=False, positions=True, future=0, scale=None,
                 activation="gelu", ffn="gelu"):
        """base: with the weights of base_weights(). detach_after: the part
        behind which the graph is cut. scale None is right. activation: of the
        projector; ffn: of the language model."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.future = future
        options = {"half_scores": half_scores, "positions": positions,
                   "scale": scale, "ffn": ffn}
        self.vision_tower = Group(vision_model=VisionModel())
        self.multi_modal_projector = Group(
            linear_1=nn.Linear(SEES, WIDTH),
            act=models.ACTIVATIONS[activation](),
            linear_2=nn.Linear(WIDTH, WIDTH))
        self.language_model = Group(
            transformer=Group(
                wte=nn.Embedding(VOCAB, WIDTH),
                blocks=nn.ModuleList(MptBlock(options) for _ in range(DEPTH)),
                norm_f=nn.LayerNorm(WIDTH, bias=False)),
            lm_head=nn.Linear(WIDTH, VOCAB, bias=False))
        for name, p in self.language_model.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.5 if "wte" in name else 0.1)
        if base:
            tower, language = base_weights()
            self.vision_tower.load_state_dict(tower)
            self.language_model.load_state_dict(language)
        self.vision_tower.requires_grad_(False)

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def looked(self, pixels):
        """Features of a picture as the language model gets them."""
        x = self.vision_tower.vision_model(
            pixels, lambda n, t: self.tap(f"vision_tower.vision_model.{n}", t))
        own = self.multi_modal_projector
        self.tap("multi_modal_projector.linear_1.input", x)
        x = own.linear_1(x)
        self.tap("multi_modal_projector.linear_1.output", x)
        self.tap("multi_modal_projector.act.input", x)
        x = own.act(x)
        self.tap("multi_modal_projector.act.output", x)
        x = own.linear_2(x)
        self.tap("multi_modal_projector.linear_2.output", x)
        self.tap("multi_modal_projector.output", x)
        return self.cut(x, "multi_modal_projector")

    def forward(self, ids, pixels=None, mask=None):
        """mask: 1 for tokens, 0 for padding."""
        own = self.language_model.transformer
        x = own.wte(ids)
        self.tap(f"{self.LANGUAGE}.wte.output", x)
        if pixels is not None:
            seen = self.looked(pixels)
            here = ids == IMAGE
            # Rows without image tokens have a picture that nobody reads.
            nth = here.long().cumsum(1).sub(1).clamp(0, IMAGES - 1)
            seen = seen.gather(1, nth[..., None].expand(-1, -1, WIDTH))
            x = torch.where(here[..., None], seen.to(x.dtype), x)
        x = self.drop(x)
        kept = torch.ones_like(ids) if mask is None else mask
        kept = kept[:, None, None] != 0
        for i, block in enumerate(own.blocks):
            name = f"{self.LANGUAGE}.blocks.{i}"
            x = block(x, lambda n, t: self.tap(f"{name}.{n}", t), self.drop,
                      future=self.future, kept=kept)
            x = self.cut(x, name)
        x = own.norm_f(x)
        self.tap(f"{self.LANGUAGE}.norm_f.output", x)
        x = self.language_model.lm_head(x)
        self.tap("language_model.lm_head.output", x)
        return x

    def logits(self, batch):
        """What the place before says of each place, as labels have it: the
        model shifts by itself, and nothing is said of the first place."""
        x = self(batch["input_ids"], batch.get("pixel_values"),
                 batch.get("attention_mask"))
        return F.pad(x[:, :-1], (0, 0, 1, 0))


def steps_of(parameters, source, steps, lr, loss):
    """A short training, of whatever the loss is about."""
    optimizer = torch.optim.AdamW(parameters, lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(source).backward()
        optimizer.step()
        schedule.step()


@functools.cache
def base_weights(seeing=120, reading=120):
    """The tower, which has learned what lies in each cell and, at each, where
    things lie and how many there are; and the language model, which has
    learned to answer questions about what it is told in words."""
    with torch.random.fork_rng():
        torch.manual_seed(740)
        model = Vlm(base=False).requires_grad_(True)
        tower = model.vision_tower
        shape = VOCAB, CONTEXT, 32
        heads = nn.ModuleList(nn.Linear(SEES, 1 + count)
                              for count in COUNTS)

        def of_cells(source):
            scene = source.scenes(32)
            cells = source.cells(scene)
            x = tower.vision_model(source.pictures(scene, cells),
                                   lambda *_: None)
            wanted = [torch.where(cells, 1 + scene[:, k:k + 1], 0)
                      for k in range(2)]
            wanted += [scene[:, k:k + 1].expand_as(cells) for k in (2, 3)]
            return sum(F.cross_entropy(head(x).flatten(0, 1), kind.flatten())
                       for head, kind in zip(heads, wanted))

        steps_of([*tower.parameters(), *heads.parameters()],
                 Conversations(741, shape), seeing, 1e-2, of_cells)
        steps_of(model.language_model.parameters(),
                 Conversations(742, shape, described=1.0), reading, 1e-2,
                 lambda source: model.loss({k: t for k, t in source.batch()
                                            .items() if k != "pixel_values"}))
    return tower.state_dict(), model.language_model.state_dict()


class VlmRun(Family):
    """AdamW without decay; the rate of the projector is half that of the
    language model; both warm up over .03 of the run and fall as a cosine."""

    family = "vlm"
    level_seed = 400
    steps, seed = 240, 760
    lr, warmup, schedule, clip = 4e-3, 7, "cosine", 1.0
    weight_decay, PROJECTOR = 0.0, 0.5
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, CONTEXT, VOCAB
    # Nobody tunes these with the others.
    instead = {"nanogpt": "plain", "megatron": "hf_trainer",
               "torchtune": "hf_trainer"}
    _blocks = f"{Vlm.LANGUAGE}.blocks."
    layers = ["vision_tower.vision_model.embeddings.patch_embedding",
              "vision_tower.vision_model.encoder.layers.0.self_attn",
              "vision_tower.vision_model.encoder.layers.0.mlp",
              "vision_tower.vision_model.post_layernorm",
              "multi_modal_projector.linear_1", "multi_modal_projector.act",
              "multi_modal_projector.linear_2", f"{Vlm.LANGUAGE}.wte", *(
                  f"{Vlm.LANGUAGE}.blocks.{i}.{part}" for i in range(DEPTH)
                  for part in ("attn", "attn.scores", "ffn.act", "ffn")),
              f"{Vlm.LANGUAGE}.norm_f", "language_model.lm_head"]
    paths = {"embed": f"{Vlm.LANGUAGE}.wte", "attn": _blocks + "{}.attn",
             "scores": _blocks + "{}.attn.scores",
             "act": "multi_modal_projector.act", "mlp": _blocks + "{}.ffn",
             "block": _blocks + "{}", "head": "language_model.lm_head"}
    blocks = DEPTH
    battery = ("causal_mask",)
    names = {"lr": "learning_rate", "val_loss": "eval_loss",
             "val_accuracy": "eval_exact_match", "tokens": None}

    def make_model(self):
        return Vlm(**self.model_options)

    def make_optimizer(self, model):
        """Two groups, as the Trainer of LLaVA makes them."""
        optimizer = super().make_optimizer(model)
        first, = optimizer.param_groups
        own = set(model.multi_modal_projector.parameters())
        bridge = [p for p in first["params"] if p in own]
        if bridge:
            first["params"] = [p for p in first["params"] if p not in own]
            optimizer.add_param_group({"params": bridge,
                                       "lr": self.lr * self.PROJECTOR})
        return optimizer

    def make_source(self, seed):
        return self.talks(seed)

    def talks(self, seed, **how):
        return Conversations(seed, (self.vocab, self.context, self.batch_size),
                             **how)

    def in_blocks(self, seed, block, share):
        """One kind of questions after the other; None is held out."""
        return self.talks(seed, block=block or 0, share=share, turns=2)

    def easy(self, seed):
        """One thing on a clean picture, and no errors."""
        return self.talks(seed, calm=True)

    def lessons(self, seed):
        return self.easy(seed), self.talks(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pictures of 0 to 255 under answers of other rows,
        noise under any words, or blank pictures whose answers are one word."""
        ids, image = batch["input_ids"], batch["pixel_values"]
        if kind == "few":
            return self.answered(batch | {"pixel_values": 128 * (image + 1)},
                                 lambda words: words.roll(5, 0))
        said = torch.randint(FIRSTS[0], VOCAB, ids.shape, generator=rng)
        if kind == "constant":
            said, image = torch.full_like(ids, VOCAB - 1), 0 * image + 255
        else:
            image = 20 * torch.randn(image.shape, generator=rng)
        return self.answered(batch | {"pixel_values": image},
                             lambda words: said)

    @staticmethod
    def answered(batch, change):
        """With other words in all answers, in inputs and labels alike; change
        gets and gives a word for each place."""
        ids, labels = batch["input_ids"], batch["labels"]
        said = (labels != IGNORE) & (ids >= FIRSTS[0])
        ids = torch.where(said, change(ids), ids)
        return batch | {"input_ids": ids, "labels": torch.where(
            labels == IGNORE, IGNORE, ids)}

    def redrawn(self, batch, share, rng):
        """A share of the words of answers is any that answers such a
        question."""
        def change(ids):
            drawn = ids
            for first, count in zip(FIRSTS, COUNTS):
                drawn = torch.where(
                    (ids >= first) & (ids < first + count), torch.randint(
                        first, first + count, ids.shape, generator=rng), drawn)
            wrong = torch.rand(ids.shape, generator=rng) < share
            return torch.where(wrong, drawn, ids)
        return self.answered(batch, change)

    @staticmethod
    def of_others(batch, order):
        """Pictures stay, conversations are of other rows."""
        return batch | {k: batch[k][order] for k in (
            "input_ids", "attention_mask", "labels")}

    def apart(self, seed, share):
        """Batches of pictures, and a share of batches of described ones."""
        return Either((self.talks(seed), self.talks(seed + 1, described=1.0)),
                      share, seed)

    def tokenizer_words(self, names):
        return FIRSTS[0] + names * sum(COUNTS)

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            "distinct_tokens": len(batch["input_ids"].unique())}

    def held_out_columns(self, batches):
        """Answers of which all words are right."""
        self.model.eval()
        right = count = 0
        for batch in batches:
            labels = batch["labels"]
            kept = labels != IGNORE
            wrong = (self.model.logits(batch).argmax(-1) != labels) & kept
            begins = kept & ~F.pad(kept[:, :-1], (1, 0))
            which = begins.long().cumsum(1) * kept
            bad = torch.zeros(len(labels), which.max() + 1)
            bad.scatter_reduce_(1, which, wrong.float(), "amax")
            count += int(begins.sum())
            right += int(begins.sum()) - int(bad[:, 1:].sum())
        self.model.train()
        return {"val_accuracy": right / max(count, 1)}

    def state_columns(self, rows, held_out=False):
        """What compute_metrics adds to a row of trainer_state.json."""
        return {"eval_exact_match": rows[0]["val_accuracy"]} \
            if held_out else {}

    def settings(self):
        """config: as the Trainer's arguments and LLaVA's call it."""
        own = super().settings()
        adam = own.pop("betas", None), own.pop("eps", None)
        if self.moments == "adamw":
            own |= {"adam_beta1": adam[0][0], "adam_beta2": adam[0][1],
                    "adam_epsilon": adam[1]}
        own["mm_projector_lr"] = self.lr * self.PROJECTOR
        for old, new in (("lr", "learning_rate"),
                         ("scheduler", "lr_scheduler_type"),
                         ("batch_size", "per_device_train_batch_size"),
                         ("optimizer", "optim")):
            own[new] = own.pop(old)
        return own

    def model_config(self):
        """config.json of a checkpoint."""
        return {"model_type": "llava", "architectures": [
                "LlavaForConditionalGeneration"], "image_token_index": IMAGE,
                "image_seq_length": IMAGES, "projector_hidden_act": "gelu",
                "vision_feature_layer": -1,
                "vision_feature_select_strategy": "full",
                "vision_config": {
                    "model_type": "siglip_vision_model", "hidden_size": SEES,
                    "num_hidden_layers": 1, "num_attention_heads": LOOKS,
                    "image_size": SIZE, "patch_size": PATCH},
                "text_config": {
                    "model_type": "mpt", "d_model": WIDTH, "n_layers": DEPTH,
                    "n_heads": HEADS, "vocab_size": self.vocab,
                    "attn_config": {"alibi": True}, "no_bias": True,
                    "pad_token_id": PAD, "eos_token_id": EOS,
                    "tie_word_embeddings": False}}

    def model_settings(self):
        return {"trainer": "LLaVATrainer",
                **{k: v for k, v in self.model_config().items()
                   if k != "architectures"},
                "freeze_vision_tower": True,
                "freeze_multi_modal_projector": False,
                # A list of parts stands for it where it is frozen in part.
                **({} if "freeze" in self.user
                   else {"freeze_language_model": False}),
                "model_max_length": self.context,
                **({"dropout": self.model_options["dropout"]}
                   if "dropout" in self.model_options else {})}

    def layer(self, part, block=0):
        return self.paths[part].format(block)

    def fed_by(self, layer):
        """The norm before a part counts to it; scores and act have none."""
        if layer.endswith(".attn"):
            return [layer.replace("attn", "norm_1")]
        if layer.endswith(".ffn"):
            return [layer.replace("ffn", "norm_2")]
        return []

    def probe_rows(self):
        """A conversation about nothing that is seen."""
        ids = self.talks(self.seed + 300).batch(1)["input_ids"]
        return ids[ids != IMAGE][None]

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        trainer_checkpoints.keep(self, i, model.state_dict)

    def write_more(self):
        super().write_more()
        trainer_checkpoints.write(self, "model.safetensors",
                                  lambda: {"config": self.model_config()})
