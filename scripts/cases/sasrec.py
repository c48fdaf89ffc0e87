"""A recommender of what comes next, as RecBole trains SASRec.

A list of the items that a user took goes through two layers of causal
attention; what stands at its last item is compared with the vectors of all
items. The Trainer of RecBole: Adam at a constant rate, cross-entropy over all
items, a row for each beginning of a list (its augmentation), lists padded on
the right, validation by MRR, recall and NDCG at 10. Parts are named as in its
SASRec.
"""

import copy
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import logs, models, sources
from .family import Family
from .models import Group

ROWS, ITEMS, LONGEST, SHORTEST = 96, 36, 6, 2
GROUPS, CATEGORIES, PLATFORMS = 6, 6, 3
WIDTH, HEADS, HIDDEN, DEPTH = 32, 2, 64, 2
EVALUATED = 192         # rows of a batch of validation
INITIAL = 0.1           # deviation of weights at the start
NEXT, PAIR, SLIP = 0.45, 0.3, 0.05
BLOCKS = tuple(f"trm_encoder.layer.{i}" for i in range(DEPTH))


@functools.lru_cache
def world(items=ITEMS):
    """What decides what comes next is the same for all seeds: of each item its
    category, what follows it, what goes with it, how popular it is, and what
    each group of users thinks of it."""
    rng = torch.Generator().manual_seed(67)
    order = torch.randperm(items, generator=rng)
    size = items // CATEGORIES
    shelf = order.view(CATEGORIES, size)        # in the order of a series
    category, after = (torch.empty(items, dtype=torch.long) for _ in range(2))
    category[shelf] = torch.arange(CATEGORIES)[:, None].expand_as(shelf)
    after[shelf] = shelf.roll(-1, 1)
    # What goes with an item is on the shelf that goes with its shelf.
    partner, pair = torch.arange(CATEGORIES).roll(2), torch.empty_like(after)
    for here, there in enumerate(partner):
        pair[shelf[here]] = shelf[there][torch.randperm(size, generator=rng)]
    rank = torch.randperm(items, generator=rng)
    popular = (rank + 6.0 * items / ITEMS) ** -0.9
    likes = 2.2 * torch.randn(GROUPS, CATEGORIES, generator=rng)
    for group in range(GROUPS):     # each has a shelf that it likes best
        likes[group, group] = likes[group].max() + 1.0
    taste = popular * likes[:, category].exp()
    return {"category": category, "after": after, "pair": pair,
            "popular": popular / popular.sum(),
            "taste": taste / taste.sum(1, keepdim=True)}


class Sessions(sources.Source):
    """Beginnings of lists of users, and the item that comes next.

    There are 36 items on six shelves, and users of six groups. What a user
    takes next is with .45 what follows the last item in its series (on the
    same shelf), with .3 what goes with the item before that (on another
    shelf), with .05 any item by its popularity, and else what its group likes:
    an item's popularity times what the group thinks of its shelf. Lists have 2
    to 6 items, their ids are 1 to 36, and 0 is padding on the right.

    Row: item_id_list, item_length, item_id, as RecBole calls them. Who knows
    the process has `best()` nats.

    items: of the catalogue; what the table has no row for is the last. limit:
    of a list its first items alone are kept. easy: what follows comes with
    .9, nothing goes with anything, and nobody slips. block, share: in that
    share of the rows what comes next is on one shelf, one after the other, so
    many batches each. platforms: three on which other shelves are to be had.
    width: lists of a batch have lengths that differ by less than that.
    """

    def __init__(self, seed, rows=ROWS, items=ITEMS, limit=None, easy=False,
                 block=None, share=1.0, platforms=False, width=None):
        super().__init__(seed, (ITEMS + 1, LONGEST, rows))
        self.items, self.limit, self.width = items, limit, width
        self.block, self.share, self.platforms = block, share, platforms
        self.odds = (0.9, 0.0, 0.0) if easy else (NEXT, PAIR, SLIP)

    def any(self, weights, rows):
        return torch.multinomial(weights, rows, True, generator=self.rng)

    def draw(self, rows):
        if not self.block:
            return self.drawn(rows)
        many = self.drawn(10 * rows)
        here = self.number // self.block % CATEGORIES
        fits = world()["category"][many["item_id"] - 1] == here
        picked = torch.cat((fits.nonzero()[:int(self.share * rows), 0],
                            torch.arange(rows)))[:rows]
        return {k: t[picked] for k, t in many.items()}

    def drawn(self, rows):
        w = world(self.items)
        group = torch.randint(GROUPS, (rows,), generator=self.rng)
        platform = torch.randint(PLATFORMS, (rows,), generator=self.rng)
        steps, taste = LONGEST + 1, w["taste"][group]
        if self.platforms:
            there = w["category"] % PLATFORMS == platform[:, None]
            taste = taste * torch.where(there, 3.0, 1.0)
        own = torch.multinomial(taste, steps, True, generator=self.rng)
        slips = self.any(w["popular"], rows * steps).view(rows, steps)
        which = torch.rand(rows, steps, generator=self.rng)
        follows, goes, slip = self.odds
        taken = own.clone()
        for t in range(1, steps):
            now, last = own[:, t], taken[:, t - 1]
            now = torch.where(which[:, t] < follows, w["after"][last], now)
            if t > 1:
                pair = which[:, t] - follows
                now = torch.where((pair >= 0) & (pair < goes),
                                  w["pair"][taken[:, t - 2]], now)
            now = torch.where(which[:, t] > 1 - slip, slips[:, t], now)
            taken[:, t] = now
        length = torch.randint(SHORTEST, LONGEST + 1, (rows,),
                               generator=self.rng)
        if self.width:
            low = self.between(SHORTEST, LONGEST - self.width + 1)
            length = low + (length - SHORTEST) % self.width
        ids = (taken + 1).clamp(max=ITEMS)
        target = ids.gather(1, length[:, None])[:, 0]
        if self.limit:
            length = length.clamp(max=self.limit)
        there = torch.arange(LONGEST) < length[:, None]
        batch = {"item_id_list": torch.where(there, ids[:, :LONGEST], 0),
                 "item_length": length, "item_id": target}
        return batch | ({"platform": platform} if self.platforms else {})

    def best(self, batches=40, groups=True, pairs=True):
        """Loss and recall at 10 of who knows the process; without groups, of
        who takes users for alike, without pairs for whom nothing goes with
        anything."""
        loss = hits = count = 0
        for _ in range(batches):
            batch = self.batch()
            said = self.posterior(batch, groups, pairs)
            target = batch["item_id"] - 1
            loss -= float(said.gather(1, target[:, None]).log().sum())
            hits += int((said.topk(10, 1).indices
                         == target[:, None]).sum())
            count += len(target)
        return loss / count, hits / count

    def posterior(self, batch, groups=True, pairs=True):
        """How likely each item is to come next."""
        w, ids = world(self.items), batch["item_id_list"] - 1
        follows, goes, slip = self.odds
        rows, length = len(ids), batch["item_length"]
        every = torch.arange(rows)

        def after(t):
            """What comes behind t items, by group."""
            out = slip * w["popular"] + (
                1 - follows * (t > 0) - goes * (t > 1) - slip) * w["taste"]
            out = out.repeat(rows, 1, 1)
            if t > 0:
                out[every, :, w["after"][ids[:, t - 1]]] += follows
            if t > 1:
                out[every, :, w["pair"][ids[:, t - 2]]] += goes
            return out

        said = torch.zeros(rows, GROUPS)
        found = torch.zeros(rows, self.items)
        for t in range(LONGEST + 1):
            each = after(t)
            mine = said.softmax(1) if groups else torch.full_like(
                said, 1 / GROUPS)
            found = torch.where((length == t)[:, None], torch.einsum(
                "rg,rgi->ri", mine, each), found)
            if t < LONGEST:
                seen = each.gather(2, ids[:, t].clamp_min(0)[
                    :, None, None].expand(-1, GROUPS, 1))[..., 0].log()
                said = said + torch.where((length > t)[:, None], seen, 0.0)
        if pairs:
            return found
        # What goes with an item is spread as all else is.
        last = ids.gather(1, (length - 2)[:, None])[:, 0]
        gone = found.clone()
        gone[every, w["pair"][last]] -= goes
        return gone.clamp_min(1e-9) + goes * w["popular"]


class MultiHeadAttention(nn.Module):
    """Attention, and the norm behind it."""

    def __init__(self, options):
        super().__init__()
        self.options = options
        for name in ("query", "key", "value", "dense"):
            setattr(self, name, nn.Linear(WIDTH, WIDTH))
        self.LayerNorm = nn.LayerNorm(WIDTH, 1e-12)

    def forward(self, x, tap, drop, seen):
        options = self.options

        def split(y):
            return y.view(*y.shape[:2], options["heads"], -1).transpose(1, 2)

        scale = options["scale"]
        if scale is None:
            scale = (WIDTH // options["heads"]) ** -0.5
        y = models.attend(split(self.query(x)), split(self.key(x)),
                          split(self.value(x)), tap, scale,
                          half=options["half_scores"], seen=seen)
        y = y.transpose(1, 2).reshape(x.shape)
        x = self.LayerNorm(x + drop(self.dense(y)))
        tap("output", x)
        return x


class FeedForward(nn.Module):
    """Two maps, and the norm behind them."""

    def __init__(self, options):
        super().__init__()
        self.intermediate_act_fn = options["act"]
        self.dense_1 = nn.Linear(WIDTH, HIDDEN)
        self.dense_2 = nn.Linear(HIDDEN, WIDTH)
        self.LayerNorm = nn.LayerNorm(WIDTH, 1e-12)

    def forward(self, x, tap, drop):
        y = self.dense_1(x)
        tap("intermediate_act_fn.input", y)
        y = self.intermediate_act_fn(y)
        tap("intermediate_act_fn.output", y)
        x = self.LayerNorm(x + drop(self.dense_2(y)))
        tap("output", x)
        return x


class SASRec(nn.Module):
    """Two layers of width 32 with two heads; the table of items is the head
    as well."""

    def __init__(self, heads=HEADS, activation="gelu", dropout=0.0,
                 detach_after=None, half_scores=False, positions=True,
                 scale=None, pooling=None, negatives=None):
        """detach_after: the part behind which the graph is cut. positions:
        the place that all items have if a number, none if False. pooling:
        "mean" of a list's items where else its last one counts. negatives:
        how many items are drawn that the right one is compared with in
        training, if not all."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.positions, self.pooling = positions, pooling
        self.negatives, self.late, self.squashes = negatives, 0, False
        options = {"heads": heads, "scale": scale, "half_scores": half_scores,
                   "act": models.ACTIVATIONS[activation]()}
        self.item_embedding = nn.Embedding(1 + ITEMS, WIDTH, padding_idx=0)
        self.position_embedding = nn.Embedding(LONGEST, WIDTH)
        self.trm_encoder = Group(layer=nn.ModuleList(
            Group(multi_head_attention=MultiHeadAttention(options),
                  feed_forward=FeedForward(options)) for _ in range(DEPTH)))
        self.LayerNorm = nn.LayerNorm(WIDTH, 1e-12)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=INITIAL)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    @staticmethod
    def similar(scores):
        """Replaced where the model ends with more than its scores."""
        return scores

    @staticmethod
    def mixed(x):
        """Replaced where other vectors than those of its items go in."""
        return x

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def embedded(self, ids):
        x = self.item_embedding(ids)
        self.tap("item_embedding.output", x)
        x = self.mixed(x)
        if self.positions is not False:
            place = torch.arange(ids.shape[1])
            if self.positions is not True:
                place = torch.full_like(place, min(self.positions,
                                                   LONGEST - 1))
            places = self.position_embedding(place)
            self.tap("position_embedding.output", places[None])
            x = x + places
        x = self.LayerNorm(x)
        self.tap("LayerNorm.output", x)
        return self.cut(self.drop(x), "LayerNorm")

    def users(self, batch):
        """The vector of each list."""
        ids, length = batch["item_id_list"], batch["item_length"]
        x, size = self.embedded(ids), ids.shape[1]
        # Padding sees itself, so that no row is without anything.
        seen = (ids > 0)[:, None, None] | torch.eye(size, dtype=torch.bool)
        seen = seen & torch.ones(size, size, dtype=torch.bool).tril()
        for name, layer in zip(BLOCKS, self.trm_encoder.layer):
            for part in ("multi_head_attention", "feed_forward"):
                path = f"{name}.{part}"
                more = (seen,) if part == "multi_head_attention" else ()
                x = getattr(layer, part)(
                    x, lambda n, t, path=path: self.tap(f"{path}.{n}", t),
                    self.drop, *more)
                x = self.cut(x, path)
            x = self.cut(x, name)
        if self.pooling == "mean":
            there = (ids > 0)[..., None]
            x, count = (x * there).sum(1), there.sum(1)
            self.tap("pooling.input", x)
            self.tap("pooling.count.output", count.float())
            x = x / count
            self.tap("pooling.output", x)
            return x
        last = (length - 1 - self.late).clamp_min(0)
        x = x.gather(1, last[:, None, None].expand(-1, 1, WIDTH))[:, 0]
        self.tap("gather_indexes.output", x)
        return x

    def scores(self, users):
        return users @ self.item_embedding.weight.T

    def logits(self, batch):
        scores = self.similar(self.scores(self.users(batch)))
        self.tap("scores.output", scores)
        return scores

    def criterion(self, logits, batch, label_smoothing=0.0):
        """CrossEntropyLoss."""
        logits, target = logits.float(), batch["item_id"]
        if self.squashes:
            logits = logits.softmax(-1)
        if self.negatives and self.training:
            drawn = torch.randint(1, ITEMS + 1, (len(logits), self.negatives))
            others = logits.gather(1, drawn).masked_fill(
                drawn == target[:, None], -math.inf)
            logits = torch.cat((logits.gather(1, target[:, None]), others), 1)
            target = torch.zeros_like(target)
        return F.cross_entropy(logits, target,
                               label_smoothing=label_smoothing)

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class SasrecRun(Family):
    """RecBole's recipe: Adam at a constant rate, no warm-up, no decay, nothing
    is clipped; an epoch is 50 batches, and each is followed by a
    validation."""

    family = "sasrec"
    level_seed = 500
    EPOCH = epoch_steps = 50
    steps, seed, language = 250, 1700, False
    optimizer_name, lr, weight_decay = "adam", 5e-3, 0.0
    warmup, schedule, clip = 0, "constant", None
    recipes = {"sgd": dict(lr=0.1, weight_decay=0.0)}
    batch_size, context, vocab = ROWS, LONGEST, ITEMS + 1
    classes, first_label = ITEMS, 1
    always_trained = ("item_embedding",)    # the head as well
    # Its users have RecBole's logger.
    instead = {"nanogpt": "recbole", "hf_trainer": "recbole",
               "megatron": "recbole", "torchtune": "recbole"}
    layers = ["item_embedding", "position_embedding", "LayerNorm", *(
        f"{block}.{part}" for block in BLOCKS for part in (
            "multi_head_attention.scores", "multi_head_attention",
            "feed_forward.intermediate_act_fn", "feed_forward"))]
    ENCODER = "trm_encoder.layer"
    graded = {
        "F04": (dict(at=80), dict(at=40), dict(at=0)),
        "F05": (dict(modules=["item_embedding"]),
                dict(modules=[ENCODER], where=f"{ENCODER}.0"),
                dict(part="all")),
        "F08": (dict(every=12), dict(every=40), dict(every=1 << 30)),
        "F11": (dict(adam=0.01), dict(adam=0.03), dict(adam=0.1)),
        "F12": (dict(eps=0.03), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path=f"{ENCODER}.0"),
                dict(path=f"{ENCODER}.1.multi_head_attention"),
                dict(path=f"{ENCODER}.1")),
        "F14": (dict(modules=[f"{ENCODER}.0.multi_head_attention",
                              f"{ENCODER}.1.multi_head_attention"]),
                dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1"]),
                dict(modules=[f"{ENCODER}.0", f"{ENCODER}.1",
                              "position_embedding", "LayerNorm"])),
        "F15": (dict(at=200), dict(at=100), dict(at=50)),
        "F24": (dict(share=0.2), dict(share=0.35), dict(share=0.5)),
        "F26": (dict(steps=12, share=0.8), dict(steps=25, share=0.9),
                dict(steps=40, share=1.0)),
        "F30": (dict(part="head", bit=26), dict(part="mlp", bit=30),
                dict(part="head", bit=30)),
        "F31": (dict(items=60), dict(items=84), dict(items=120)),
        "F33": (dict(limit=4), dict(limit=3), dict(limit=2)),
        "F35": (dict(power=1.0), dict(power=1.5), dict(power=2.0)),
        "F36a": (dict(bias=-4.0), dict(bias=-6.0), dict(bias=-20.0)),
        "F36b": (dict(factor=50, kind="sigmoid"),
                 dict(factor=100, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "H02": (dict(factor=1 / 3), dict(factor=0.2)),
        "H03": (dict(part=2, factor=1.0), dict(part=3, factor=1.0))}
    paths = {"embed": "item_embedding", "attn": "{}.multi_head_attention",
             "scores": "{}.multi_head_attention.scores",
             "act": "{}.feed_forward.intermediate_act_fn",
             "mlp": "{}.feed_forward", "block": "{}",
             "head": "item_embedding"}
    blocks = DEPTH
    logit_name = "scores.output"
    names = {"loss": "train_loss", "val_loss": "valid_loss",
             "lr": "learning_rate", "val_recall": "recall@10",
             "val_ndcg": "ndcg@10", "val_mrr": "mrr@10", "tokens": None}

    def make_model(self):
        return SASRec(**self.model_options)

    def make_source(self, seed):
        return self.lists(seed)

    def lists(self, seed, **how):
        rows = self.batch_size if seed != 9 else EVALUATED
        return Sessions(seed, rows, **how)

    def of_items(self, seed, count):
        """A catalogue of more items than the table has rows."""
        return self.lists(seed, items=count)

    def in_blocks(self, seed, block, share):
        """A log sorted by shelves; None is held out."""
        return self.lists(seed, block=block, share=share)

    def easy(self, seed):
        """What follows nearly always comes."""
        return self.lists(seed, easy=True)

    def lessons(self, seed):
        return self.easy(seed), self.lists(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: lists of four items and the last one of them for
        all, of any with any, or one item everywhere."""
        ids, target = batch["item_id_list"], batch["item_id"]
        low, high = {"few": (ITEMS - 3, ITEMS + 1), "uniform": (1, ITEMS + 1),
                     "constant": (ITEMS, ITEMS + 1)}[kind]
        drawn = torch.randint(low, high, ids.shape, generator=rng)
        any_of = torch.randint(1, ITEMS + 1, target.shape, generator=rng)
        return batch | {"item_id_list": torch.where(ids > 0, drawn, ids),
                        "item_id": any_of if kind == "uniform"
                        else torch.full_like(target, ITEMS)}

    @staticmethod
    def own_last(batch, rows):
        """Lists of some rows are not cut before what is to be said: it is
        their last item."""
        ids, last = batch["item_id_list"], batch["item_length"] - 1
        target = batch["item_id"].clone()
        target[rows] = ids.gather(1, last[:, None])[rows, 0]
        return batch | {"item_id": target}

    @staticmethod
    def one_less(batch):
        """Lists lose their last item, so that what comes after the next one
        is to be said."""
        length = batch["item_length"] - 1
        there = torch.arange(LONGEST) < length[:, None]
        return batch | {"item_length": length, "item_id_list": torch.where(
            there, batch["item_id_list"], 0)}

    @staticmethod
    def emptied(batch):
        """A user is new: no item is in the list."""
        ids, length = batch["item_id_list"].clone(), \
            batch["item_length"].clone()
        ids[0], length[0] = 0, 0
        return batch | {"item_id_list": ids, "item_length": length}

    # What is measured.

    def held_out_columns(self, batches):
        """RecBole's evaluator, over all items; PAD is none."""
        self.model.eval()
        scores = torch.cat([self.model.logits(b) for b in batches])[:, 1:]
        self.model.train()
        scores = scores.float()
        taken = torch.cat([b["item_id"] for b in batches]) - 1
        own = scores.gather(1, taken[:, None])
        # Of equals, one is as likely before as behind another.
        rank = 1 + (scores > own).sum(1) + ((scores == own).sum(1) - 1) / 2
        rank = torch.where(own[:, 0].isfinite(), rank, ITEMS).float()
        near = rank <= 10
        return {"val_recall": near.float().mean(),
                "val_ndcg": (near / (rank + 1).log2()).mean(),
                "val_mrr": (near / rank).mean()}

    # What the user typed.

    def settings(self):
        """The YAML of a run, by RecBole's keys."""
        optimizer = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "betas": list(self.betas), "eps": self.eps}
        return {**self.model_settings(), "learner": self.optimizer_name,
                "learning_rate": self.lr, "weight_decay": self.weight_decay,
                **optimizer, "lr_scheduler": self.schedule,
                "warmup_steps": self.warmup,
                "clip_grad_norm": None if self.clip is None
                else {"max_norm": self.clip},
                "train_batch_size": self.batch_size,
                "eval_batch_size": EVALUATED,
                "accumulation_steps": self.accumulate,
                "epochs": math.ceil(self.steps / self.EPOCH),
                "batches_per_epoch": self.EPOCH, "max_steps": self.steps,
                "eval_step": 1, "stopping_step": 10,
                "metrics": ["Recall", "MRR", "NDCG"], "topk": [10],
                "valid_metric": "MRR@10",
                "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO",
                              "mode": "full", "group_by": "user"},
                "enable_amp": self.precision != "fp32",
                "precision": self.precision, "seed": self.seed,
                "reproducibility": True, "worker": 0, **self.user}

    def model_settings(self):
        options = self.model_options
        return {"model": "SASRec", "dataset": "sessions",
                "n_items": 1 + ITEMS, "MAX_ITEM_LIST_LENGTH": LONGEST,
                "data_augmentation": True, "hidden_size": WIDTH,
                "inner_size": HIDDEN, "n_layers": DEPTH,
                "n_heads": options.get("heads", HEADS),
                "hidden_act": options.get("activation", "gelu"),
                "hidden_dropout_prob": options.get("dropout", 0.0),
                "attn_dropout_prob": 0.0, "layer_norm_eps": 1e-12,
                "initializer_range": INITIAL, "loss_type": "CE",
                "train_neg_sample_args": None}

    def layer(self, part, block=0):
        return self.paths[part].format(BLOCKS[block])

    def fed_by(self, layer):
        return []

    # Checkpoints, and what RecBole writes.

    def checkpoint_path(self, done=None):
        """That of an epoch, or of the best one."""
        name = "saved/SASRec-" + self.at(0, "%b-%d-%Y_%H-%M-%S")
        return f"{name}.pth" if done is None else \
            f"{name}-epoch-{-(-done // self.EPOCH) - 1}.pth"

    def keep_checkpoint(self, i, model):
        done = i + 1
        if done % self.EPOCH and done not in {self.steps, *self.notices}:
            return
        self.checkpoints[done] = copy.deepcopy({
            "state_dict": model.state_dict(), "other_parameter": None,
            "optimizer": self.optimizer.state_dict()})

    def validations(self):
        """Step -> MRR of validations."""
        return {k + 1: r["val_mrr"] for k, r in enumerate(self.history)
                if "val_mrr" in r}

    def write_more(self):
        """The best epoch's, and of the first, of the last and of that from
        which a run goes on."""
        super().write_more()
        found = {k: v for k, v in self.validations().items()
                 if k in self.checkpoints}
        best = max(found, key=found.get)
        (self.folder / "saved").mkdir()
        for done in sorted({min(self.checkpoints), max(self.checkpoints),
                            *self.notices} & set(self.checkpoints)):
            self.save(done, self.checkpoint_path(done), found)
        self.save(best, self.checkpoint_path(), found)

    def save(self, done, path, found):
        before = {k: v for k, v in found.items() if k <= done}
        top = max(before, key=before.get) if before else 0
        torch.save({"config": self.settings(),
                    "epoch": -(-done // self.EPOCH) - 1,
                    "cur_step": (done - top) // self.EPOCH if before else 0,
                    "best_valid_score": before.get(top, -math.inf),
                    **self.checkpoints[done]}, self.folder / path)

    def write_files(self):
        if self.dialect != "recbole":
            super().write_files()
            return
        logs.write_metrics(self)
        logs.write_yaml(self, "config.yaml", self.settings())
        self.write_log()
        self.write_lines("packages.txt", logs.PACKAGES)

    def write_log(self):
        """What RecBole prints: its parameters, the model, and of each epoch
        the bars, the sum of the losses of its batches, and what validation
        has found."""
        lines = []

        def say(seconds, text):
            lines.append(f"{self.at(seconds, '%a %d %b %Y %H:%M:%S')} INFO  "
                         f"{text}")

        say(-2.6, "['run_recbole.py', '--model=SASRec', "
                  "'--dataset=sessions', '--config_files=config.yaml']")
        say(-2.6, "")
        parts = {"General Hyper Parameters": ("seed", "worker",
                                              "reproducibility"),
                 "Evaluation Hyper Parameters": ("eval_", "metrics", "topk",
                                                 "valid_metric")}
        rest = dict(self.settings())
        for title, starts in parts.items():
            own = {k: v for k, v in rest.items() if k.startswith(starts)}
            rest = {k: v for k, v in rest.items() if k not in own}
            lines += [f"{title}:", *(f"{k} = {v}" for k, v in own.items()),
                      ""]
        lines += ["Training Hyper Parameters:",
                  *(f"{k} = {v}" for k, v in rest.items()), ""]
        say(-1.1, repr(self.model))
        say(-1.0, f"Trainable parameters: {self.parameters}")
        scores = self.validations()
        best = max(scores, key=scores.get)
        top = -math.inf
        for begin in range(0, self.steps, self.EPOCH):
            self.epoch(lines, say, begin)
            last = min(begin + self.EPOCH, self.steps)
            row = self.history[last - 1]
            if "val_mrr" not in row:
                continue
            epoch, wall = begin // self.EPOCH, row["wall"]
            say(wall, f"epoch {epoch} evaluating [time: 0.06s, valid_score: "
                      f"{row['val_mrr']:.6f}]")
            say(wall, f"valid result: \n{self.result(row)}")
            if row["val_mrr"] > top:
                top = row["val_mrr"]
                say(wall, f"Saving current: {self.checkpoint_path()}")
        row, wall = self.history[best - 1], self.history[-1]["wall"] + 0.2
        say(wall, f"best valid : {self.result(row)}")
        self.write_lines("train.log", lines)

    @staticmethod
    def result(row):
        return "    ".join(f"{k}@10 : {round(row[f'val_{k}'], 4)}"
                           for k in ("recall", "mrr", "ndcg"))

    def epoch(self, lines, say, begin):
        """The bar and the line of an epoch of training."""
        rows = self.history[begin:begin + self.EPOCH]
        number, pending = begin // self.EPOCH, ""
        for k, row in enumerate(rows):
            for _, text in self.notices.get(begin + k, ()):
                say(row["wall"], text)
            if k % 10 == 9 or k == len(rows) - 1:
                pending += f"\rTrain {number:>5}: " + logs.bar(
                    k + 1, self.EPOCH, tail=", GPU RAM: 0.00 G/0.00 G")
        lines.append(pending)
        took = rows[-1]["wall"] - rows[0]["wall"] + rows[0]["step_time"]
        total = sum(r["loss"] for r in rows)
        say(rows[-1]["wall"], f"epoch {number} training [time: {took:.2f}s, "
                              f"train loss: {total:.4f}]")
