"""A recommender with two towers: which item did this user take?

A network for users and one for items, each of an id's vector, vectors of some
features and two maps; what they say is brought to length 1, and a user's
vector is to lie near that of the item that was taken. Trained as with
Lightning on implicit feedback: a softmax over the items of the batch, whose
scores are corrected for how often an item is in one (logQ), validated by
recall over the whole catalogue.
"""

import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import lightning_checkpoints, models
from .family import Family

ROWS, USERS, ITEMS = 128, 160, 120
DENSE = ("hour_cos", "hour_sin", "recency", "session_length")
# Features of users and of items -> how many values each has.
USER = {"age_group": 6, "country": 5}
ITEM = {"category": 8, "price_bucket": 4}
CATEGORIES = ITEM["category"]
WIDTH, NARROW, HIDDEN, SHARED = 16, 8, 48, 24
TEMPERATURE = 0.1
HIT = -1e9                # score of an item that is the right one as well
CATALOGUE = 1200          # items of which the world knows something
SIDES = ("user", "item")


@functools.lru_cache
def world():
    """What decides tastes is the same for all seeds."""
    rng = torch.Generator().manual_seed(61)

    def normal(*shape):
        return torch.randn(shape, generator=rng)

    def drawn(high, count):
        return torch.randint(high, (count,), generator=rng)

    return {
        "age_group": drawn(USER["age_group"], USERS),
        "country": drawn(USER["country"], USERS),
        "category": drawn(ITEM["category"], CATALOGUE),
        "price_bucket": drawn(ITEM["price_bucket"], CATALOGUE),
        "likes": 1.6 * normal(USER["age_group"], CATEGORIES),
        "pays": 1.0 * normal(USER["country"], ITEM["price_bucket"]),
        "when": 0.9 * normal(USER["age_group"], 3, CATEGORIES),
        "popular": torch.randperm(CATALOGUE, generator=rng),
        "user": normal(USERS, 2),
        "item": 1.7 * normal(CATALOGUE, 2)}


def scores(users, dense, items, hidden):
    """Logarithms, but for a number of each row, of how likely each of the
    first `items` items is taken."""
    w = world()
    category, price = w["category"][:items], w["price_bucket"][:items]
    rank = w["popular"][:items].argsort().argsort()
    total = -0.9 * (rank + 6.0 * items / ITEMS).log()
    total = total + w["likes"][w["age_group"][users]][:, category]
    total = total + w["pays"][w["country"][users]][:, price]
    total = total + torch.einsum(
        "nd,ndc->nc", dense[:, :3], w["when"][w["age_group"][users]])[
            :, category]
    return total + hidden * w["user"][users] @ w["item"][:items].T


def active():
    """How often each user comes."""
    return 1 / (torch.arange(USERS) + 60.0)


def contexts(rows, rng):
    """Hour, recency and length of sessions."""
    angle = 2 * math.pi * torch.rand(rows, generator=rng)
    rest = torch.randn(rows, 2, generator=rng)
    return torch.cat((1.4 * angle.cos()[:, None], 1.4 * angle.sin()[:, None],
                      rest), 1)


@functools.lru_cache
def often(items, hidden):
    """Of each item the share of all that is taken, as counted in a long
    log."""
    rng = torch.Generator().manual_seed(62)
    users = torch.multinomial(active(), 8000, True, generator=rng)
    return scores(users, contexts(8000, rng), items, hidden).softmax(1).mean(0)


class Interactions:
    """A stream of what users took, one item of the catalogue a row.

    Users come with weights 1 / (k + 60); each has an age group and a country,
    each item a category and a price. Of all items the softmax of known scores
    says which is taken: how popular it is (a power of its rank), what the age
    group thinks of the category, what the country pays, what the hour and how
    long ago a user came make of the category, other things in each age group,
    and the product of hidden vectors of user and item that no feature shows.
    One in twenty (SLIP) is taken by accident, as likely as the item is on the
    whole.

    A batch's users have to find their items among those of the batch. Who
    knows the process has `best()` nats.

    items: of the catalogue; what the table has no row for is the last. hidden:
    factor of hidden vectors. slip: see above. block, share: that share of a
    batch is of one category, one category after the other, so many batches
    each. surfaces: three, whose users were here longer or shorter ago.
    """

    SLIP = 0.05

    def __init__(self, seed, rows=ROWS, items=ITEMS, hidden=1.0, slip=SLIP,
                 block=None, share=1.0, surfaces=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.items, self.hidden = rows, items, hidden
        self.slip, self.block, self.share = slip, block, share
        self.surfaces, self.number = surfaces, 0

    def drawn(self, rows):
        """Users, contexts, how likely each item is, and surfaces."""
        users = torch.multinomial(active(), rows, True, generator=self.rng)
        dense = contexts(rows, self.rng)
        surface = torch.randint(3, (rows,), generator=self.rng)
        if self.surfaces:
            dense[:, 2] += torch.tensor((-1.0, 0.0, 1.0))[surface]
        probs = scores(users, dense, self.items, self.hidden).softmax(1)
        probs = (1 - self.slip) * probs \
            + self.slip * often(self.items, self.hidden)
        return users, dense, probs, surface

    def batch(self, rows=None):
        rows = rows or self.rows
        users, dense, probs, surface = self.drawn(rows)
        if self.block:
            here = self.number // self.block % CATEGORIES
            own = torch.arange(rows) < self.share * rows
            fits = world()["category"][:self.items] == here
            probs = torch.where(own[:, None], probs * fits, probs)
        self.number += 1
        taken = torch.multinomial(probs, 1, generator=self.rng)[:, 0]
        batch = {"user_dense": dense, "user_id": users + 1,
                 **{k: world()[k][users] for k in USER},
                 **self.of_items(taken)}
        return batch | {"surface": surface} if self.surfaces else batch

    def of_items(self, taken):
        """What a batch has of items; id 0 stands for unknown ones."""
        return {"item_id": (taken + 1).clamp(max=ITEMS),
                **{k: world()[k][taken] for k in ITEM},
                "item_logq": often(self.items, self.hidden)[taken].log()}

    def strangers(self, rows):
        """Items that have nothing to do with who takes them."""
        return self.of_items(torch.multinomial(
            often(self.items, self.hidden), rows, True, generator=self.rng))

    def best(self, batches=60):
        """Loss and recall at 10 of who knows the process."""
        loss, hits = 0.0, 0.0
        for _ in range(batches):
            _, _, probs, _ = self.drawn(self.rows)
            taken = torch.multinomial(probs, 1, generator=self.rng)[:, 0]
            logits = (probs / often(self.items, self.hidden)).log()[:, taken]
            same = taken[:, None] == taken
            logits = logits.masked_fill(
                same & ~torch.eye(self.rows, dtype=torch.bool), HIT)
            loss += float(F.cross_entropy(logits, torch.arange(self.rows)))
            near = probs.topk(10, 1).indices == taken[:, None]
            hits += float(near.any(1).float().mean())
        return loss / batches, hits / batches


class Tower(nn.Module):
    """Vectors of an id and of features, and two maps."""

    def __init__(self, side, count, features, dense, options):
        super().__init__()
        self.side, self.options = side, options
        self.embedding = nn.Embedding(1 + count, WIDTH)
        self.features = nn.ModuleDict({name: nn.Embedding(size, NARROW)
                                       for name, size in features.items()})
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH + NARROW * len(features) + dense, HIDDEN),
            models.ACTIVATIONS[options["activation"]](),
            nn.Linear(HIDDEN, SHARED))
        for table in (self.embedding, *self.features.values()):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, batch, owner):
        name = f"{self.side}_tower"
        parts = [self.embedding(batch[f"{self.side}_id"])]
        owner.tap(f"{name}.embedding.output", parts[0])
        parts[0] = owner.cut(parts[0], f"{name}.embedding")
        features = torch.cat([table(batch[k])
                              for k, table in self.features.items()], 1)
        owner.tap(f"{name}.features.output", features)
        parts.append(owner.cut(features, f"{name}.features"))
        if self.side == "user":
            parts.append(batch["user_dense"].to(features.dtype))
        x = torch.cat(parts, 1)
        for i, layer in enumerate(self.mlp):
            path = f"{name}.mlp.{i}"
            owner.tap(f"{path}.input", x)
            if self.options["half_at"] == path:
                x = F.linear(*(t.half() for t in (x, layer.weight,
                                                  layer.bias)))
                owner.tap(f"{path}.output", x)
                x = x.to(layer.weight.dtype)
            else:
                x = layer(x)
                owner.tap(f"{path}.output", x)
            x = owner.cut(x, path)
            if i == 1:
                x = F.dropout(x, self.options["dropout"], self.training)
        # A norm of float16 would overflow before anything else does.
        x = F.normalize(x.float(), dim=1)
        owner.tap(f"{name}.output", x)
        return owner.cut(x, name)


class TwoTowers(nn.Module):
    """Both towers, and the temperature, which is learned if the user says
    so."""

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None, temperature=TEMPERATURE, learned=False,
                 hits=False):
        """detach_after: the parts behind which the graph is cut. hits: other
        rows with the same item stay among the wrong ones."""
        super().__init__()
        self.detach_after = (detach_after,) \
            if isinstance(detach_after, str) else detach_after or ()
        self.squashes, self.hits, self.learned = False, hits, learned
        options = {"activation": activation, "dropout": dropout,
                   "half_at": half_at}
        self.user_tower = Tower("user", USERS, USER, len(DENSE), options)
        self.item_tower = Tower("item", ITEMS, ITEM, 0, options)
        if learned:
            self.log_temperature = nn.Parameter(
                torch.tensor(temperature).log())
        else:
            self.register_buffer("temperature", torch.tensor(temperature))
        self.right = None   # of the pass that is watched

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    @staticmethod
    def similar(scores):
        """Replaced where the model ends with more than its scores."""
        return scores

    def cut(self, x, name):
        return x.detach() if name in self.detach_after else x

    def sharpness(self):
        return (-self.log_temperature).exp() if self.learned \
            else 1 / self.temperature

    def scores(self, users, items):
        return self.similar(self.sharpness() * users @ items.T)

    def vectors(self, batch):
        return self.user_tower(batch, self), self.item_tower(batch, self)

    def corrected(self, scores, batch):
        """As a candidate is drawn the more often, the more its score counts
        in a sum; and who took the same as another row is not wrong there."""
        logits = scores.float() - batch["item_logq"]
        if self.hits:
            return logits
        same = batch["item_id"][:, None] == batch["item_id"]
        own = torch.eye(len(same), dtype=torch.bool)
        return logits.masked_fill(same & ~own, HIT)

    def logits(self, batch):
        scores = self.scores(*self.vectors(batch))
        self.tap("scores.output", scores)
        logits = self.corrected(scores, batch)
        if self.tap is not TwoTowers.tap:
            self.right = (logits.detach().argmax(1) == torch.arange(
                len(logits))).float().mean()
        return logits

    def criterion(self, logits, batch, label_smoothing=0.0):
        if self.squashes:
            logits = logits.softmax(-1)
        right = torch.arange(len(logits))
        if not label_smoothing:
            return F.cross_entropy(logits, right)
        log = logits.log_softmax(-1)
        there = logits > HIT / 2    # nothing is given to what is left out
        even = -(log * there).sum(-1) / there.sum(-1)
        return ((1 - label_smoothing) * -log[right, right]
                + label_smoothing * even).mean()

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss

    def mixed_loss(self, batch, count, rng):
        """The loss where to the batch's items `count` of the catalogue are
        added, each with the same share; the correction is of both."""
        users, items = self.vectors(batch)
        scores = self.scores(users, items)
        self.tap("scores.output", scores)
        log, rows = batch["item_logq"], len(users)
        more = torch.randint(ITEMS, (count,), generator=rng)
        found = self.item_tower(self.of_catalogue(more), self)
        taken = often(ITEMS, 1.0)

        def mixed(share):
            return ((rows * share + count / ITEMS) / (rows + count)).log()
        logits = self.corrected(scores, batch) + log - mixed(log.exp())
        extra = self.scores(users, found).float() - mixed(taken[more])
        extra = extra.masked_fill(
            batch["item_id"][:, None] == more + 1, HIT)
        self.right = (logits.detach().argmax(1) == torch.arange(
            rows)).float().mean()
        return self.criterion(torch.cat((logits, extra), 1), batch)

    @staticmethod
    def of_catalogue(items):
        return {"item_id": items + 1, **{k: world()[k][items] for k in ITEM}}

    def catalogue(self):
        """Vectors of all items that the table has."""
        return self.item_tower(self.of_catalogue(torch.arange(ITEMS)), self)


class TowerRun(Family):
    """Adam with a little of its own decay, whose rate falls by a fifth after
    each epoch; no warm-up."""

    family = "tower"
    level_seed = 450
    EPOCH = epoch_steps = 50    # limit_train_batches of a stream
    steps, seed, language = 250, 1600, False
    optimizer_name, lr, weight_decay = "adam", 2e-2, 1e-6
    warmup, schedule, clip, GAMMA = 0, "ExponentialLR", 1.0, 0.8
    recipes = {"sgd": dict(lr=1.0, weight_decay=0.0)}
    batch_size, context = ROWS, 1
    # Its users have Lightning's CSVLogger.
    instead = {"nanogpt": "lightning_csv", "hf_trainer": "lightning_csv",
               "megatron": "lightning_csv", "torchtune": "lightning_csv"}
    layers = [f"{side}_tower.{part}" for side in SIDES for part in (
        "embedding", "features", "mlp.0", "mlp.1", "mlp.2")]
    graded = {
        "F02": (dict(lr=20.0), dict(lr=100.0), dict(lr=1000.0)),
        "F05": (dict(modules=["user_tower.embedding"]),
                dict(modules=["item_tower"], where="item_tower.embedding"),
                dict(part="all")),
        "F07": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F11": (dict(adam=0.01), dict(adam=0.03), dict(adam=0.1)),
        "F12": (dict(eps=0.01), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path="user_tower.embedding"),
                dict(path="user_tower.mlp.0"), dict(path="item_tower")),
        "F14": (dict(modules=["user_tower.embedding"]),
                dict(modules=["item_tower"]),
                dict(modules=["user_tower.embedding", "user_tower.mlp",
                              "item_tower"])),
        "F24": (dict(share=0.2), dict(share=0.35), dict(share=0.5)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F31": (dict(items=180), dict(items=240), dict(items=360)),
        "F34": (dict(factor=20), dict(factor=60), dict(factor=0)),
        "F36a": (dict(bias=-0.5), dict(bias=-1.5), dict(bias=-3.0)),
        "F36b": (dict(factor=50, kind="sigmoid"), dict(factor=50, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "H02": (dict(factor=1 / 3), dict(factor=0.2)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7))}
    paths = {"embed": "user_tower.embedding", "attn": None, "scores": None,
             "act": "{}_tower.mlp.1", "mlp": "{}_tower.mlp.0",
             "block": "{}_tower", "head": "item_tower.mlp.2"}
    blocks = 2
    always_trained = ("user_tower.mlp.2",)
    logit_name = "scores.output"
    CUTS = (1, 10, 50)
    names = {"loss": "train_loss_step", "accuracy": "train_acc_step",
             "val_recall": "val_recall@10", "val_ndcg": "val_ndcg@10",
             "grad_norm": "grad_2.0_norm_total", "tokens": None}

    def make_model(self):
        return TwoTowers(**self.model_options)

    def make_optimizer(self, model):
        """A learned temperature has a rate of its own."""
        optimizer = super().make_optimizer(model)
        if self.model_options.get("learned"):
            group = optimizer.param_groups[0]
            group["params"] = [p for p in group["params"] if p.dim()]
            optimizer.add_param_group({
                "params": [model.log_temperature],
                "lr": self.user["temperature_lr"], "weight_decay": 0.0})
        return optimizer

    def lr_factor(self, i):
        if self.schedule != "ExponentialLR" or i < self.warmup:
            return super().lr_factor(i)
        return self.GAMMA ** (i // self.EPOCH)

    def make_source(self, seed):
        return self.interactions(seed)

    def interactions(self, seed, **how):
        """Validation has the batches of training: the loss depends on how many
        there are to choose from."""
        return Interactions(seed, self.batch_size, **how)

    def of_items(self, seed, count):
        """A catalogue of more items than the table has rows."""
        return self.interactions(seed, items=count)

    def in_blocks(self, seed, block, share):
        """A log sorted by category; None is held out."""
        return self.interactions(seed, block=block, share=share)

    def easy(self, seed):
        """What features do not show decides nothing, and nobody slips."""
        return self.interactions(seed, hidden=0.0, slip=0.0)

    def lessons(self, seed):
        return self.easy(seed), self.interactions(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: numbers that nobody scaled, numbers and ids of
        anything, or one item everywhere, with a code for "missing"."""
        x = batch["user_dense"]
        if kind == "few":
            return batch | {"user_dense": 40 * (x + 2)}
        if kind == "uniform":
            def any_of(high, low=0):
                return torch.randint(low, high, (len(x),), generator=rng)
            return batch | {
                "user_dense": 20 * torch.randn(x.shape, generator=rng),
                "user_id": any_of(USERS + 1, 1),
                "item_id": any_of(ITEMS + 1, 1),
                **{k: any_of(n) for k, n in (USER | ITEM).items()}}
        return batch | {
            "user_dense": torch.full_like(x, -999.0),
            **{k: torch.zeros_like(batch[k])
               for k in ("user_id", *USER, *ITEM)}}

    def mispaired(self, batch, wrong, order):
        """Rows that are wrong get the item of another row, by `order`, or
        where that is None one that nobody asked for."""
        if order is None:
            if not hasattr(self, "others"):
                self.others = self.interactions(self.seed + 800)
            other = self.others.strangers(len(wrong))
        else:
            other = {k: batch[k][order]
                     for k in ("item_id", *ITEM, "item_logq")}
        return batch | {k: torch.where(wrong, t, batch[k])
                        for k, t in other.items()}

    # What is measured.

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            "accuracy": round(float(self.model.right), 4)}

    def held_out_columns(self, batches):
        """Of the whole catalogue, without correction, as it is served."""
        model = self.model
        model.eval()
        users = torch.cat([model.user_tower(b, model) for b in batches])
        found = model.scores(users, model.catalogue()).float()
        model.train()
        taken = torch.cat([b["item_id"] for b in batches]) - 1
        own = found.gather(1, taken.clamp_min(0)[:, None])
        # Of equals, one is as likely before as behind another.
        rank = 1 + (found > own).sum(1) + ((found == own).sum(1) - 1) / 2
        rank = torch.where(own[:, 0].isfinite(), rank, ITEMS).float()
        near = rank <= 10
        return {"val_recall": near.float().mean(),
                "val_ndcg": (near / (rank + 1).log2()).mean(),
                "val_mrr": (1 / rank).mean()}

    # What the user typed.

    def settings(self):
        """hparams.yaml: what the module was called with."""
        kind = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}[
            self.optimizer_name]
        optimizer = {"momentum": self.momentum} if kind == "SGD" else {
            "betas": list(self.betas), "eps": self.eps}
        schedule = {"lr_scheduler": self.schedule}
        if self.schedule == "ExponentialLR":
            schedule |= {"lr_gamma": self.GAMMA, "lr_interval": "epoch"}
        return {**self.model_settings(), "optimizer": kind, "lr": self.lr,
                "weight_decay": self.weight_decay, **optimizer, **schedule,
                "warmup_steps": self.warmup, "batch_size": self.batch_size,
                "max_steps": self.steps, "limit_train_batches": self.EPOCH,
                "val_check_interval": self.val_every,
                "limit_val_batches": 4,
                "accumulate_grad_batches": self.accumulate,
                "gradient_clip_val": self.clip or 0.0,
                "precision": self.precision, "seed": self.seed, **self.user}

    def model_settings(self):
        options = self.model_options
        return {"model": "two_tower", "num_users": 1 + USERS,
                "num_items": 1 + ITEMS, "user_features": dict(USER),
                "item_features": dict(ITEM), "user_dense": list(DENSE),
                "embedding_dim": WIDTH, "feature_dim": NARROW,
                "mlp_dims": [HIDDEN, SHARED],
                "activation": "relu", "dropout": options.get("dropout", 0.0),
                "normalize": True,
                "temperature": options.get("temperature", TEMPERATURE),
                "learn_temperature": options.get("learned", False),
                "loss": "in_batch_softmax", "logq_correction": True,
                "remove_accidental_hits": not options.get("hits", False),
                "metrics": ["recall@10", "ndcg@10", "mrr"]}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(SIDES[block])

    def fed_by(self, layer):
        return []

    # Checkpoints.

    def checkpoint_path(self, step):
        return f"checkpoints/epoch={(step - 1) // self.EPOCH}-step={step}.ckpt"

    def keep_checkpoint(self, i, model):
        def schedule(done):
            """Of a scheduler that is stepped once an epoch."""
            epochs = done // self.EPOCH
            groups = self.optimizer.param_groups
            return {"gamma": self.GAMMA,
                    "base_lrs": [g["initial_lr"] for g in groups],
                    "last_epoch": epochs, "_step_count": epochs + 1,
                    "_last_lr": [g["lr"] for g in groups]}
        lightning_checkpoints.keep(self, i, model, schedule, self.EPOCH)

    def write_more(self):
        super().write_more()
        lightning_checkpoints.write(self)
