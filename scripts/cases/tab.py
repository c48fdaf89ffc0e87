"""A small FT-Transformer on a table of loans: how does a loan end?

As a user of PyTorch Tabular trains one: numeric columns are standardised,
each column is a token, one more ([CLS]) stands behind them, and a head of two
layers reads it. A table of some thousand rows is passed some times, and the
rate falls by a cosine from epoch to epoch.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from . import lightning_checkpoints, models
from .family import Family
from .sources import IGNORE

ROWS, WIDTH, HEADS, DEEP, HIDDEN = 64, 32, 4, 8, 32
NUMERIC = ("loan_amnt", "annual_inc", "dti", "int_rate", "revol_util",
           "credit_age", "open_acc", "last_payment_days")
# Column -> values that the training table has; 0 stands for none of them.
CATEGORIES = {"term": 2, "home_ownership": 4, "emp_length": 6, "purpose": 9,
              "addr_state": 24}
OUTCOMES = ("paid", "prepaid", "late", "default")
CLASSES, TOKENS = len(OUTCOMES), len(NUMERIC) + len(CATEGORIES) + 1
ACTIVATIONS = models.ACTIVATIONS | {"gelu": nn.GELU}


class Loans:
    """A table of loans, fixed for a seed, passed in an order that is drawn
    anew for each epoch.

    Numeric columns are correlated, two are skewed, and all are standardised
    by what is known of the population; in three of them .08 is missing and has
    been replaced by the median. Of the categorical columns .02 is missing, id
    0. The outcome is drawn by a softmax of known scores: linear in numbers,
    with products of some, an effect of each category, and slopes that home
    ownership and purpose change. Scores are of what the table says, missing
    values included, so that who knows them has .53 nats; who knows only
    how frequent outcomes are has 1.31.

    block, share: rows of one outcome, one outcome after the other, as in a
    table sorted by its target. sharp: how far scores lie apart. factor: how
    many times as many values a column has; the network's tables stay as they
    are, and what is too large is the last.
    branches: three offices, with customers of their own.
    """

    MISSING = {2: 0.08, 4: 0.08, 7: 0.08}
    SIZE, HELD_OUT = 3200, 768

    def __init__(self, seed, rows=None, size=None, block=None, share=1.0,
                 sharp=1.0, factor=1.0, branches=False, weights=None):
        self.rng = torch.Generator().manual_seed(seed)
        held_out = seed == 9
        self.rows = rows or (self.HELD_OUT // 4 if held_out else ROWS)
        self.size = size or (self.HELD_OUT if held_out else self.SIZE)
        self.block, self.share, self.number = block, share, 0
        self.sharp, self.branches = sharp, branches
        self.factor = factor
        self.process()
        self.table = self.draw(self.size)
        self.order, self.weights = [], None
        if weights:     # a sampler that takes rare outcomes more often
            labels = self.table["target"][:, 0]
            often = labels.bincount(minlength=CLASSES) / len(labels)
            self.weights = often[labels] ** -weights

    def process(self):
        """What decides outcomes is the same for all seeds."""
        rng = torch.Generator().manual_seed(78)

        def normal(*shape):
            return torch.randn(shape, generator=rng)

        count = len(NUMERIC)
        self.mix = torch.eye(count) + 0.4 * normal(count, count)
        self.mix /= self.mix.norm(dim=1, keepdim=True)
        self.slopes = 1.1 * normal(count, CLASSES)
        self.pairs = torch.tensor(((0, 1), (2, 3), (4, 7), (1, 5)))
        self.products = 0.7 * normal(len(self.pairs), CLASSES)
        self.effects = [1.0 * normal(97, CLASSES) for _ in CATEGORIES]
        self.changed = 0.5 * normal(2, 12, CLASSES)
        self.offset = torch.tensor((1.6, 0.3, 0.0, -0.6))

    def draw(self, rows):
        z = torch.randn(rows, len(NUMERIC), generator=self.rng) @ self.mix.T
        branch = torch.randint(3, (rows,), generator=self.rng)
        if self.branches:
            z[:, 0] += torch.tensor((-0.8, 0.0, 0.8))[branch]
            z[:, 3] += torch.tensor((0.6, 0.0, -0.6))[branch]
        # Amounts and incomes have long tails; of exp(.5 z) mean and spread
        # are known.
        mean, spread = math.exp(0.125), math.sqrt(
            math.exp(0.5) - math.exp(0.25))
        z[:, :2] = ((0.5 * z[:, :2]).exp() - mean) / spread
        for column, share in self.MISSING.items():
            gone = torch.rand(rows, generator=self.rng) < share
            z[gone, column] = 0.0
        kinds = []
        for high in CATEGORIES.values():
            high = math.ceil(self.factor * high)
            kind = torch.randint(1, high + 1, (rows,), generator=self.rng)
            gone = torch.rand(rows, generator=self.rng) < 0.02
            kinds.append(kind.masked_fill(gone, 0))
        kinds = torch.stack(kinds, 1)
        log = self.scores(z, kinds).log_softmax(-1)
        self.entropy = float(-(log.exp() * log).sum(-1).mean())
        labels = torch.multinomial(log.exp(), 1, generator=self.rng)
        # Values that the fitted encoder has not seen get the last id.
        kinds = kinds.minimum(torch.tensor(list(CATEGORIES.values())))
        batch = {"continuous": z, "categorical": kinds, "target": labels}
        return batch | {"branch": branch} if self.branches else batch

    def scores(self, z, kinds):
        first, second = self.pairs.T
        total = z @ self.slopes + (z[:, first] * z[:, second]) @ self.products
        for column, effects in enumerate(self.effects):
            total = total + effects[kinds[:, column] % len(effects)]
        for number, column in enumerate((1, 3)):
            total = total + z[:, number + 2:number + 3] \
                * self.changed[number, kinds[:, column] % 12]
        return 0.8 * self.sharp * total + self.offset

    def picked(self, rows):
        if self.weights is not None:
            return torch.multinomial(self.weights, rows, True,
                                     generator=self.rng)
        if self.block:
            labels = self.table["target"][:, 0]
            here = self.number // self.block % CLASSES
            own = (labels == here).nonzero()[:, 0]
            kept = torch.rand(rows, generator=self.rng) < self.share
            return torch.where(
                kept, own[torch.randint(len(own), (rows,),
                                        generator=self.rng)],
                torch.randint(self.size, (rows,), generator=self.rng))
        picked = []
        while len(picked) < rows:
            if not self.order:
                self.order = torch.randperm(
                    self.size, generator=self.rng).tolist()
            picked.append(self.order.pop())
        return torch.tensor(picked)

    def batch(self, rows=None):
        picked = self.picked(rows or self.rows)
        self.number += 1
        return {k: t[picked].clone() for k, t in self.table.items()}


class Embeddings(nn.Module):
    """A token of each column: a vector of its value, or a vector times its
    number, and one vector a column that is added."""

    def __init__(self):
        super().__init__()
        self.cat_embedding_layers = nn.ModuleList(
            nn.Embedding(1 + high, WIDTH) for high in CATEGORIES.values())
        self.cat_embedding_bias = nn.Parameter(
            torch.empty(len(CATEGORIES), WIDTH))
        self.cont_embedding_layer = nn.Embedding(len(NUMERIC), WIDTH)
        self.cont_embedding_bias = nn.Parameter(
            torch.empty(len(NUMERIC), WIDTH))
        for p in self.parameters():
            nn.init.uniform_(p, -WIDTH ** -0.5, WIDTH ** -0.5)

    def forward(self, numbers, kinds):
        weight = self.cont_embedding_layer.weight
        numeric = numbers.to(weight.dtype)[..., None] * weight \
            + self.cont_embedding_bias
        named = torch.stack([layer(kinds[:, i]) for i, layer in
                             enumerate(self.cat_embedding_layers)], 1)
        return torch.cat((numeric, named + self.cat_embedding_bias), 1)


class Attention(nn.Module):
    def __init__(self, options):
        super().__init__()
        inner = HEADS * DEEP
        self.to_qkv = nn.Linear(WIDTH, 3 * inner, bias=False)
        self.to_out = nn.Linear(inner, WIDTH)
        self.scale = DEEP ** -0.5 if options["scale"] is None \
            else options["scale"]
        self.dropout, self.half = options["dropout"], options["half_scores"]

    def forward(self, x, name, tap):
        rows, tokens = x.shape[:2]
        tap(f"{name}.input", x)
        q, k, v = self.to_qkv(x).view(rows, tokens, 3, HEADS, DEEP).permute(
            2, 0, 3, 1, 4)
        if self.half:
            q, k = q.half(), k.half()
        tap(f"{name}.scores.input", torch.stack((q, k), 1))
        scores = q @ k.transpose(-2, -1) * self.scale
        tap(f"{name}.scores.output", scores)
        probs = scores.softmax(-1)
        tap(f"{name}.probs.output", probs)
        probs = F.dropout(probs.to(v.dtype), self.dropout, self.training)
        mixed = (probs @ v).transpose(1, 2).flatten(2)
        y = self.to_out(mixed)
        tap(f"{name}.output", y)
        return y


class FeedForward(nn.Module):
    """GEGLU: neither of its maps has a bias."""

    def __init__(self, options):
        super().__init__()
        wide = options["multiplier"] * WIDTH
        self.ffn = models.Group(
            layer1=nn.Linear(WIDTH, wide, bias=False),
            layer2=nn.Linear(wide, WIDTH, bias=False),
            linear_v=nn.Linear(WIDTH, wide, bias=False))
        self.dropout = options["dropout"]

    def forward(self, x, name, tap):
        tap(f"{name}.input", x)
        gate = F.gelu(self.ffn.layer1(x))
        tap(f"{name}.ffn.activation.output", gate)
        y = self.ffn.layer2(F.dropout(gate * self.ffn.linear_v(x),
                                      self.dropout, self.training))
        tap(f"{name}.output", y)
        return y


class EncoderBlock(nn.Module):
    """Norms behind each part; what feeds the second part is the first one's
    output, as PyTorch Tabular has it."""

    def __init__(self, options):
        super().__init__()
        self.mha = Attention(options)
        self.pos_wise_ff = FeedForward(options)
        self.attn_add_norm = models.Group(ln=nn.LayerNorm(WIDTH))
        self.ff_add_norm = models.Group(ln=nn.LayerNorm(WIDTH))
        self.dropout = options["dropout"]

    def forward(self, x, name, tap):
        def dropped(y):
            return F.dropout(y, self.dropout, self.training)
        y = self.mha(x, f"{name}.mha", tap)
        x = self.attn_add_norm.ln(x + dropped(y))
        y = self.pos_wise_ff(y, f"{name}.pos_wise_ff", tap)
        x = self.ff_add_norm.ln(x + dropped(y))
        tap(f"{name}.output", x)
        return x


class FtTransformer(nn.Module):
    BLOCKS = tuple(f"_backbone.transformer_blocks.mha_block_{i}"
                   for i in range(2))

    def __init__(self, activation="relu", dropout=0.1, detach_after=None,
                 scale=None, half_scores=False, gamma=0.0):
        """activation: of the head. detach_after: the part behind which the
        graph is cut. gamma: of a focal loss."""
        super().__init__()
        self.detach_after, self.gamma = detach_after, gamma
        self.squashes, self.guards = False, False
        options = {"dropout": dropout, "scale": scale, "multiplier": 4,
                   "half_scores": half_scores}
        self._backbone = models.Group(
            add_cls=models.Group(),
            transformer_blocks=models.Group(**{
                f"mha_block_{i}": EncoderBlock(options) for i in range(2)}))
        self._backbone.add_cls.weight = nn.Parameter(
            torch.empty(WIDTH).uniform_(-WIDTH ** -0.5, WIDTH ** -0.5))
        self._embedding_layer = Embeddings()
        self._head = models.Group(layers=nn.Sequential(
            nn.Linear(WIDTH, HIDDEN), ACTIVATIONS[activation](),
            nn.Linear(HIDDEN, CLASSES)))
        for i in (0, 2):
            nn.init.kaiming_normal_(self._head.layers[i].weight,
                                    nonlinearity="relu")
        with torch.no_grad():   # what a fresh head says is not loud
            self._head.layers[2].weight.mul_(0.3)
        self.said = None        # outcomes of the pass that is watched

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def forward(self, numbers, kinds):
        x = self._embedding_layer(numbers, kinds)
        self.tap("_embedding_layer.output", x)
        x = self.cut(x, "_embedding_layer")
        last = self._backbone.add_cls.weight.expand(len(x), 1, WIDTH)
        x = torch.cat((x, last), 1)
        blocks = self._backbone.transformer_blocks.children()
        for name, block in zip(self.BLOCKS, blocks):
            x = self.cut(block(x, name, self.tap), name)
        x = x[:, -1]
        for i, layer in enumerate(self._head.layers):
            name = f"_head.layers.{i}"
            self.tap(f"{name}.input", x)
            x = self.cut(layer(x), name)
            self.tap(f"{name}.output", x)
        if self.tap is not FtTransformer.tap:
            self.said = x.detach().argmax(-1)
        return x

    def logits(self, batch):
        return self(batch["continuous"], batch["categorical"])

    def criterion(self, logits, batch, label_smoothing=0.0):
        logits, labels = logits.float(), batch["target"][:, 0]
        if self.squashes:
            logits = logits.softmax(-1)
        if self.gamma:
            each = F.cross_entropy(logits, labels, reduction="none",
                                   ignore_index=IGNORE)
            return ((1 - (-each).exp()) ** self.gamma * each).mean()
        if self.guards:
            return F.cross_entropy(logits, labels, reduction="sum",
                                   ignore_index=IGNORE) \
                / (labels != IGNORE).sum().clamp_min(1)
        return F.cross_entropy(logits, labels, ignore_index=IGNORE,
                               label_smoothing=label_smoothing)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class TabRun(Family):
    """AdamW whose rate falls by a cosine from epoch to epoch; neither warm-up
    nor clipping."""

    family = "tab"
    level_seed = 430
    EPOCH = epoch_steps = 50    # steps
    steps, seed, language, classes = 250, 940, False, CLASSES
    optimizer_name, lr, weight_decay = "adamw", 6e-3, 1e-2
    warmup, schedule, clip = 0, "CosineAnnealingLR", None
    recipes = {"sgd": dict(lr=0.1, weight_decay=1e-4)}
    batch_size, context = ROWS, TOKENS
    # Nobody trains such networks with the others.
    instead = {"nanogpt": "pytorch_tabular", "megatron": "pytorch_tabular",
               "torchtune": "pytorch_tabular",
               "hf_trainer": "pytorch_tabular"}
    layers = ["_embedding_layer", *(
        f"{block}.{part}" for block in FtTransformer.BLOCKS
        for part in ("mha", "mha.scores", "pos_wise_ff.ffn.activation",
                     "pos_wise_ff")),
        "_head.layers.0", "_head.layers.1", "_head.layers.2"]
    paths = {"embed": "_embedding_layer", "attn": "{}.mha",
             "scores": "{}.mha.scores", "act": "_head.layers.1",
             "mlp": "{}.pos_wise_ff", "block": "{}",
             "head": "_head.layers.2"}
    blocks = 2
    names = {"loss": "train_loss", "val_loss": "valid_loss",
             "accuracy": "train_accuracy", "val_accuracy": "valid_accuracy",
             "grad_norm": "grad_2.0_norm_total", "tokens": None}

    def make_model(self):
        return FtTransformer(**self.model_options)

    def lr_factor(self, i):
        if self.schedule != "CosineAnnealingLR" or i < self.warmup:
            return super().lr_factor(i)
        epochs = math.ceil(self.steps / self.EPOCH)
        return 0.5 * (1 + math.cos(math.pi * (i // self.EPOCH) / epochs))

    def make_source(self, seed):
        return self.loans(seed)

    def loans(self, seed, **how):
        return Loans(seed, None if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """A table that is sorted by its target; None is held out."""
        return self.loans(seed, block=block, share=share)

    def easy(self, seed):
        """Outcomes that the columns decide nearly alone."""
        return self.loans(seed, sharp=3.0)

    def lessons(self, seed):
        return self.easy(seed), self.loans(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt part of the file: numbers as they are, which nobody
        standardised, noise, or a column's code for "missing" everywhere."""
        x = batch["continuous"]
        raw = torch.tensor((9e3, 4e4, 8.0, 4.0, 25.0, 90.0, 5.0, 60.0))
        wrong = torch.randint(1, 3, batch["categorical"].shape, generator=rng)
        return batch | {
            "continuous": {"few": raw * (x + 2),
                           "uniform": 20 * torch.randn(x.shape, generator=rng),
                           "constant": torch.full_like(x, -9999.0)}[kind],
            "categorical": batch["categorical"] if kind == "few"
            else wrong if kind == "uniform"
            else torch.zeros_like(wrong)}

    def batch_columns(self, batch):
        right = (self.model.said == batch["target"][:, 0]).float().mean()
        return super().batch_columns(batch) | {
            "accuracy": round(float(right), 4)}

    def held_out_columns(self, batches):
        self.model.eval()
        said = torch.cat([self.model.logits(b) for b in batches])
        self.model.train()
        labels = torch.cat([b["target"][:, 0] for b in batches])
        return {"val_accuracy": (said.argmax(-1) == labels).float().mean()}

    def settings(self):
        """config.yml, in which all of the library's configs are one."""
        optimizer = {"weight_decay": self.weight_decay}
        optimizer |= {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "betas": list(self.betas), "eps": self.eps}
        epochs = math.ceil(self.steps / self.EPOCH)
        schedule = {"T_max": epochs, "eta_min": 0.0} \
            if self.schedule == "CosineAnnealingLR" else {}
        return {**self.model_settings(),
                "optimizer": {"adam": "Adam", "adamw": "AdamW",
                              "sgd": "SGD"}[self.optimizer_name],
                "learning_rate": self.lr, "optimizer_params": optimizer,
                "lr_scheduler": None if self.schedule == "constant"
                else self.schedule, "lr_scheduler_params": schedule,
                "warmup_steps": self.warmup,
                "batch_size": self.batch_size,
                "accumulate_grad_batches": self.accumulate,
                "gradient_clip_val": self.clip or 0.0,
                "max_epochs": epochs, "max_steps": self.steps,
                "precision": self.precision,
                "early_stopping": "valid_loss", "early_stopping_patience": 8,
                "early_stopping_mode": "min",
                "checkpoints": None, "load_best": False, "callbacks": {
                    "ModelCheckpoint": {
                        "dirpath": "saved_models", "save_top_k": -1,
                        "every_n_train_steps": self.steps // 2}},
                "seed": self.seed, **self.user}

    def model_settings(self):
        options = self.model_options
        rate = options.get("dropout", 0.1)
        return {"task": "classification", "target": ["loan_status"],
                "continuous_cols": list(NUMERIC),
                "categorical_cols": list(CATEGORIES),
                "normalize_continuous_features": True,
                "handle_missing_values": True,
                "handle_unknown_categories": True,
                "_module_src": "models.ft_transformer",
                "_model_name": "FTTransformerModel",
                "input_embed_dim": WIDTH, "embedding_bias": True,
                "embedding_initialization": "kaiming_uniform",
                "num_heads": HEADS, "num_attn_blocks": self.blocks,
                "transformer_head_dim": DEEP,
                "attn_dropout": rate, "add_norm_dropout": rate,
                "ff_dropout": rate, "ff_hidden_multiplier": 4,
                "transformer_activation": "GEGLU",
                "head": "LinearHead", "head_config": {
                    "layers": str(HIDDEN), "activation": "ReLU",
                    "initialization": "kaiming", "dropout": 0.0},
                "metrics": ["accuracy"], "loss": "CrossEntropyLoss",
                "continuous_dim": len(NUMERIC),
                "categorical_dim": len(CATEGORIES),
                "categorical_cardinality": [
                    1 + high for high in CATEGORIES.values()],
                "output_dim": CLASSES}

    def layer(self, part, block=0):
        return self.paths[part].format(FtTransformer.BLOCKS[block])

    def fed_by(self, layer):
        """The norm behind a part counts to it."""
        for part, norm in (("mha", "attn_add_norm"),
                           ("pos_wise_ff", "ff_add_norm")):
            if layer.endswith(f".{part}"):
                return [layer.removesuffix(part) + norm]
        return []

    # Checkpoints.

    def checkpoint_path(self, step):
        return f"saved_models/epoch={(step - 1) // self.EPOCH}-step={step}.ckpt"

    def keep_checkpoint(self, i, model):
        def schedule(done):
            """Of a scheduler that is stepped once an epoch."""
            epochs = done // self.EPOCH
            return {"T_max": math.ceil(self.steps / self.EPOCH),
                    "eta_min": 0.0, "base_lrs": [self.lr],
                    "last_epoch": epochs, "_step_count": epochs + 1,
                    "_last_lr": self.scheduler.get_last_lr()}
        lightning_checkpoints.keep(self, i, model, schedule, self.EPOCH,
                                   "config")

    def write_more(self):
        super().write_more()
        lightning_checkpoints.write(self)
