"""A small network on graphs: gated convolutions over the bonds of molecules.

The convolution is that of Bresson and Laurent (its maps are called A to E, as
in PyTorch Geometric's GraphGym), the rest is named as in the examples of that
library. Graphs have different sizes; a batch is their disjoint union, one row
an atom, one column of edge_index a bond in one direction, and `batch` says
which graph an atom is of. What is predicted is a property of the molecule.
Checkpoints are PyTorch Lightning's.
"""

import copy
import functools

import torch
from torch import nn
from torch.nn import functional as F

from . import lightning_checkpoints, models, sources
from .family import Family
from .snapshot import checksum

ROWS, SIZES, TYPES, BONDS = 32, (8, 26), 12, 4
WIDTH, DEPTH, NARROW = 40, 4, 20


def together(parts):
    """Batches as one: nodes are numbered on, and so are graphs."""
    nodes = graphs = 0
    moved = []
    for part in parts:
        moved.append(part | {"edge_index": part["edge_index"] + nodes,
                             "batch": part["batch"] + graphs})
        nodes += len(part["x"])
        graphs += len(part["y"])
    return {k: torch.cat([p[k] for p in moved],
                         1 if k == "edge_index" else 0)
            for k in parts[0]}


def taken(batch, picked):
    """The graphs of some numbers, in their order."""
    return together([each_of(batch, g) for g in picked])


def each_of(batch, graph):
    nodes = (batch["batch"] == graph).nonzero()[:, 0]
    ends = batch["edge_index"] - nodes[0]
    own = batch["batch"][batch["edge_index"][1]] == graph
    return {"x": batch["x"][nodes], "edge_index": ends[:, own],
            "edge_attr": batch["edge_attr"][own],
            "y": batch["y"][graph:graph + 1],
            "batch": torch.zeros(len(nodes), dtype=torch.int64)}


def hashes(batch):
    """CRC-32 of the atoms of each molecule."""
    return torch.tensor([checksum(batch["x"][batch["batch"] == g])
                         for g in range(len(batch["y"]))])


def sums(values, place, count):
    return torch.zeros(count, *values.shape[1:]).to(values).index_add(
        0, place, values)


class Molecules:
    """Random molecules and a property of each, in units of its spread.

    A molecule has 8 to 26 atoms: a tree, in which an atom hangs on one of the
    three before it, and with .1 an atom closes a ring of six at most, by a
    bond of a kind of its own. Atoms are of 12 elements drawn with weights
    1 / (k + 2), bonds of three kinds. The property is a sum over atoms: of one
    each (the size, .25 of the variance), of a value of the element (.35), of
    what the elements of atom and neighbours and the kinds of bonds make
    together, in the mean of its bonds (.25), of the square of a mean over its
    neighbours (.07), and noise (.08). Who knows the process has a mean absolute
    error of .226, who counts elements .47, who knows the size alone .65,
    who knows nothing .85.

    types: elements there are; those that the table lacks become its last one.
    block: sizes are as they lie in a sorted file, that many batches of
    each quarter; `share` of a batch is of the quarter, the rest of any size.
    limit: atoms that are kept of a molecule. simple: the last term and the
    noise are left out.
    """

    SHARES, NOISE = (0.25, 0.35, 0.25, 0.07), 0.08

    def __init__(self, seed, rows=ROWS, types=TYPES, sizes=SIZES, block=None,
                 share=1.0, limit=None, simple=False):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.types, self.sizes = rows, types, sizes
        self.block, self.share, self.number = block, share, 0
        self.limit, self.simple = limit, simple
        # The chemistry is the same for all seeds; the seed picks the sample.
        world = torch.Generator().manual_seed(23)
        self.values = torch.randn(3, 64, generator=world)
        usual = 1 / (torch.arange(TYPES) + 2.0)
        self.values -= (self.values[:, :TYPES] @ usual / usual.sum())[:, None]
        self.kinds = torch.tensor([1.0, -1.0, 1.6, 0.5])

    def drawn_sizes(self, rows):
        low, high = self.sizes
        size = torch.randint(low, high + 1, (rows,), generator=self.rng)
        if not self.block:
            return size
        quarter = (high + 1 - low) / 4
        here = self.number // self.block % 4
        inside = low + ((here + torch.rand(rows, generator=self.rng))
                        * quarter).long()
        kept = torch.rand(rows, generator=self.rng) < self.share
        return torch.where(kept, inside, size)

    def batch(self, rows=None):
        graphs, rng = rows or self.rows, self.rng
        size = self.drawn_sizes(graphs)
        self.number += 1
        place = torch.arange(int(size.max()))
        there = place < size[:, None]
        first = size.cumsum(0) - size
        kind = torch.multinomial(1 / (torch.arange(self.types) + 2.0),
                                 there.numel(), True, generator=rng)
        back = 1 + torch.multinomial(torch.tensor([0.65, 0.2, 0.15]),
                                     there.numel(), True, generator=rng)
        back = back.view(there.shape).minimum(place)
        bond = torch.multinomial(torch.tensor([0.7, 0.2, 0.1]),
                                 there.numel(), True, generator=rng)
        ring = (torch.rand(there.shape, generator=rng) < 0.1) & (place > 4)
        at = first[:, None] + place
        tree, closed = there & (place > 0), there & ring
        ends = torch.stack((
            torch.cat(((at - back)[tree], (at - 5)[closed])),
            torch.cat((at[tree], at[closed]))))
        attr = torch.cat((bond.view(there.shape)[tree],
                          torch.full((int(closed.sum()),), BONDS - 1)))
        element = kind.view(there.shape)[there]
        graph = torch.arange(graphs).repeat_interleave(size)
        y = self.property(element, ends, attr, graph, graphs)
        out = {"x": element.clamp(max=TYPES - 1)[:, None],
               "edge_index": torch.cat((ends, ends.flip(0)), 1),
               "edge_attr": attr.repeat(2), "y": y, "batch": graph}
        return self.cut(out, place.expand_as(there)[there])

    def terms(self, element, ends, attr, graph, graphs):
        """(graphs, 4): what the property is a sum of."""
        own, pair, far = self.values[:, element]
        atoms, kind = len(element), self.kinds[attr]

        def heard(of_one, of_other):
            return sums(of_other, ends[0], atoms) + sums(of_one, ends[1],
                                                         atoms)
        ones = torch.ones(len(attr))
        bonds = heard(ones, ones).clamp_min(1)
        near = heard(kind * pair[ends[0]], kind * pair[ends[1]]) / bonds
        far = heard(far[ends[0]], far[ends[1]]) / bonds
        return sums(torch.stack((torch.ones(atoms), own, pair * near,
                                 far.square()), 1), graph, graphs)

    def property(self, *molecules):
        mean, spread = scales()
        shares = torch.tensor(self.SHARES)
        if self.simple:
            shares = shares * torch.tensor([1.0, 1.0, 1.0, 0.0])
        terms = (self.terms(*molecules) - mean) / spread
        noise = torch.randn(len(terms), generator=self.rng)
        return terms @ shares.sqrt() + noise * (
            0.0 if self.simple else self.NOISE) ** 0.5

    def cut(self, batch, place):
        """Without the atoms behind the limit and their bonds."""
        if self.limit is None:
            return batch
        kept = place < self.limit
        number = kept.cumsum(0) - 1
        ends = batch["edge_index"]
        both = kept[ends].all(0)
        return batch | {"x": batch["x"][kept], "batch": batch["batch"][kept],
                        "edge_index": number[ends[:, both]],
                        "edge_attr": batch["edge_attr"][both]}

    together = staticmethod(together)


@functools.cache
def scales():
    """Mean and spread of each term, of many molecules of the usual kind."""
    class Terms(Molecules):
        def property(self, *molecules):
            return self.terms(*molecules)
    terms = Terms(31).batch(6000)["y"]
    return terms.mean(0), terms.std(0)


class FewMolecules(sources.Finite):
    """A set of some molecules."""

    def batch(self, rows=None):
        picked = []
        while len(picked) < (rows or self.rows):
            if not self.order:
                self.order = torch.randperm(len(self.data["y"]),
                                            generator=self.rng).tolist()
            picked.append(self.order.pop())
        return taken(self.data, picked)


class GatedConv(nn.Module):
    """Atoms get the mean of what their neighbours say, weighed by gates of the
    bonds; atoms and bonds have a norm and a way past each."""

    def __init__(self, options, last):
        """Nobody looks at the bonds behind the last one."""
        super().__init__()
        for name in "ABCDE":
            setattr(self, name, nn.Linear(WIDTH, WIDTH))
        act = models.ACTIVATIONS[options["activation"]]
        self.bn_node_x, self.act_fn_x = nn.BatchNorm1d(WIDTH), act()
        self.bn_edge_e = None if last else nn.BatchNorm1d(WIDTH)
        self.act_fn_e = None if last else act()
        self.eps = options["eps"]

    def forward(self, x, ends, e, tap, drop, half):
        source, target = ends
        tap("A.input", x)
        own = self.A(x)
        if half:
            own = own.half()
        tap("A.output", own)
        said, of_bond = self.B(x), self.C(e)
        tap("B.output", said)
        tap("C.output", of_bond)
        bond = of_bond + self.D(x)[target] + self.E(x)[source]
        gate = bond.sigmoid()
        tap("sigma.output", gate)
        total = sums(gate, target, len(x))
        tap("norm.input", total)
        heard = sums(gate * said[source], target, len(x)) / (total + self.eps)
        tap("norm.output", heard)
        y = self.bn_node_x(own.to(x.dtype) + heard)
        tap("act_fn_x.input", y)
        y = self.act_fn_x(y)
        tap("act_fn_x.output", y)
        x = x + drop(y)
        if self.bn_edge_e is not None:
            e = e + drop(self.act_fn_e(self.bn_edge_e(bond)))
        tap("output", x)
        return x, e


class GatedGcn(nn.Module):
    """Four convolutions of width 40; the sum over atoms, normed, goes to the
    head."""

    def __init__(self, activation="relu", dropout=0.0, detach_after=None,
                 half_at=None, eps=1e-6):
        """detach_after: the part behind which the graph is cut."""
        super().__init__()
        self.dropout, self.detach_after = dropout, detach_after
        self.half_at = half_at
        options = {"activation": activation, "eps": eps}
        self.node_emb = nn.Embedding(TYPES, WIDTH)
        self.edge_emb = nn.Embedding(BONDS, WIDTH)
        self.convs = nn.ModuleList(GatedConv(options, i == DEPTH - 1)
                                   for i in range(DEPTH))
        self.bn_graph = nn.BatchNorm1d(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, NARROW), nn.ReLU(),
                                 nn.Linear(NARROW, 1))

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def cut(self, x, name):
        return x.detach() if self.detach_after == name else x

    def forward(self, x, ends, attr, graph, graphs):
        x, e = self.node_emb(x[:, 0]), self.edge_emb(attr)
        self.tap("node_emb.output", x)
        self.tap("edge_emb.output", e)
        x = self.cut(x, "node_emb")
        for i, conv in enumerate(self.convs):
            name = f"convs.{i}"
            x, e = conv(x, ends, e, lambda n, t: self.tap(f"{name}.{n}", t),
                        self.drop, self.half_at == f"{name}.A")
            x, e = self.cut(x, name), self.cut(e, name)
        x = sums(x, graph, graphs)
        self.tap("pool.output", x)
        x = self.bn_graph(x)
        self.tap("bn_graph.output", x)
        x = self.mlp[0](x)
        self.tap("mlp.0.output", x)
        x = self.mlp[2](self.mlp[1](x))
        self.tap("mlp.2.output", x)
        return x[:, 0]

    def logits(self, batch):
        """The property; the other families' name for what a network says."""
        return self(batch["x"], batch["edge_index"], batch["edge_attr"],
                    batch["batch"], len(batch["y"]))

    def criterion(self, said, batch):
        return F.l1_loss(said.float(), batch["y"])

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


class GnnRun(Family):
    """RAdam, which needs no warm-up; the rate halves every 60 steps; nothing
    is clipped, and hardly anything decays."""

    family = "gnn"
    level_seed = 400
    steps, seed, language = 240, 540, False
    optimizer_name, lr, weight_decay = "radam", 2e-2, 1e-5
    warmup, schedule, clip = 0, "step", None
    recipes = {"sgd": dict(lr=0.05, weight_decay=0.0)}
    EVERY, GAMMA = 60, 0.5
    UNIT = 1.4              # of the property, in which its error is reported
    batch_size, context = ROWS, 17
    one_row = False         # a row is an atom, a bond or a molecule
    layers = ["node_emb", "edge_emb", *(
        f"convs.{i}{part}" for i in range(DEPTH)
        for part in (".A", ".B", ".C", ".act_fn_x", "")),
        "bn_graph", "mlp.0", "mlp.2"]
    paths = {"embed": "node_emb", "attn": None, "scores": None,
             "act": "convs.{}.act_fn_x", "mlp": "convs.{}.A",
             "block": "convs.{}", "head": "mlp.2"}
    blocks = DEPTH
    names = {"step": "trainer/global_step", "loss": "train/loss",
             "val_loss": "val/loss", "val_mae": "val/mae", "val_r2": "val/r2",
             "grad_norm": "grad_2.0_norm_total", "lr": "lr-RAdam",
             "step_time": "train/batch_time", "data_time": "train/data_time",
             "num_nodes": "train/num_nodes", "num_edges": "train/num_edges",
             "tokens": None}

    def make_model(self):
        return GatedGcn(**self.model_options)

    def make_optimizer(self, model):
        if self.optimizer_name != "radam":
            return super().make_optimizer(model)
        trained = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.RAdam(trained, lr=self.lr, betas=self.betas,
                                 eps=self.eps, weight_decay=self.weight_decay)

    def lr_factor(self, i):
        if self.schedule != "step" or i < self.warmup:
            return super().lr_factor(i)
        return self.GAMMA ** (i // self.EVERY)

    def make_source(self, seed):
        return self.molecules(seed)

    def molecules(self, seed, **how):
        return Molecules(seed, self.batch_size, **how)

    def finite(self, data, seed):
        return FewMolecules(data, self.batch_size, seed)

    def in_blocks(self, seed, block, share):
        """A file that is sorted by size; None is held out."""
        return self.molecules(seed, block=block and max(1, block // 2),
                              share=share)

    def easy(self, seed):
        return self.molecules(seed, simple=True)

    def lessons(self, seed):
        """Small molecules without what takes two bonds, and all."""
        return self.molecules(seed, simple=True, sizes=(8, 14)), \
            self.molecules(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt shard: properties in other units, bonds between any atoms
        and properties of no molecule, or one element and one huge property."""
        y = batch["y"]
        if kind == "few":
            return batch | {"y": 40 * (y + 2)}
        if kind == "uniform":
            ends = batch["edge_index"]
            return batch | {
                "edge_index": torch.randint(len(batch["x"]), ends.shape,
                                            generator=rng),
                "y": 200 * torch.randn(y.shape, generator=rng)}
        return batch | {"x": torch.full_like(batch["x"], TYPES - 1),
                        "y": torch.full_like(y, 999.0)}

    @staticmethod
    def with_ion(batch):
        """The first molecule is a salt: one of its atoms has no bond."""
        ends = batch["edge_index"] + 1
        return batch | {"x": F.pad(batch["x"], (0, 0, 1, 0), value=3),
                        "edge_index": ends,
                        "batch": F.pad(batch["batch"], (1, 0))}

    def thin(self, name, tensor):
        """Rows of a batch are of no use without all others."""
        return tensor if name.startswith("batch.") \
            else super().thin(name, tensor)

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            "num_nodes": len(batch["x"]),
            "num_edges": batch["edge_index"].shape[1]}

    def held_out_columns(self, batches):
        """The error in the property's own unit, and what it explains."""
        self.model.eval()
        said = torch.cat([self.model.logits(b) for b in batches]).float()
        self.model.train()
        y = torch.cat([b["y"] for b in batches])
        away = (said - y).square().sum() / (y - y.mean()).square().sum()
        return {"val_mae": self.UNIT * (said - y).abs().mean(),
                "val_r2": 1 - away}

    def settings(self):
        settings = super().settings()
        if self.schedule == "step":
            settings |= {"lr_step_size": self.EVERY, "lr_gamma": self.GAMMA}
        return settings

    def model_settings(self):
        return {"model": "GatedGCN", "num_layers": DEPTH,
                "hidden_channels": WIDTH, "num_node_types": TYPES,
                "num_edge_types": BONDS, "residual": True, "norm": "batch",
                "pool": "add", "loss": "l1", "target_std": self.UNIT}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(block)

    def fed_by(self, layer):
        """Vectors behind a map's sum count to the part that they norm."""
        return [layer.replace("act_fn", "bn_node")] \
            if layer.endswith(".act_fn_x") else []

    # Checkpoints.

    def checkpoint_path(self, step):
        return f"checkpoints/epoch={(step - 1) // 100}-step={step}.ckpt"

    def keep_checkpoint(self, i, model):
        """In the middle, at the end and where the run is resumed from."""
        done = i + 1
        if done not in {self.steps // 2, self.steps, *self.notices}:
            return
        self.checkpoints[done] = copy.deepcopy({
            "epoch": i // 100, "global_step": done,
            "pytorch-lightning_version": "2.5.5",
            "state_dict": {f"model.{n}": t
                           for n, t in model.state_dict().items()},
            "optimizer_states": [self.optimizer.state_dict()],
            "lr_schedulers": [{k: v for k, v in
                               self.scheduler.state_dict().items()
                               if k != "lr_lambdas"}],
            "hparams_name": "kwargs"})

    def write_more(self):
        super().write_more()
        lightning_checkpoints.write(self)
