"""A small interatomic potential: energy and forces of clusters of atoms.

A network passes messages along pairs of atoms within a cutoff, in scalars and
vectors; a cluster's energy is the sum over its atoms, and forces are its
negative gradient, so that training differentiates twice. Parts are named as in
NequIP; columns, config, log and checkpoints are its trainer's.
"""

import copy
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models, sources
from .family import Family
from .recorder import short

ROWS, ATOMS, TYPES, KINDS, DOMAINS = 12, 6, 3, 4, 3
MANY = 16               # kinds, where there are more elements
WIDTH, LAYERS, BASIS, INNER, NARROW = 16, 2, 8, 64, 8
R_MAX, POWER = 5.0, 6               # of the cutoff
FUNC = "model.func"
SYMBOLS = ("H", "C", "O", "N", "F", "S", "P", "Cl", "Br", "I")


@functools.cache
def world():
    """What the elements are like: (radii, wells, atomic energies, strength of
    the three-body term), the same for all seeds."""
    rng = torch.Generator().manual_seed(29)
    count = len(SYMBOLS)
    radii = 0.62 + 0.28 * torch.rand(count, generator=rng)
    wells = 0.5 + 1.0 * torch.rand(count, generator=rng)
    alone = 1.2 * torch.randn(count, generator=rng)
    bent = 0.25 + 0.75 * torch.rand(count, generator=rng)
    radii[:3] = torch.tensor((0.62, 0.80, 0.94))
    wells[:3] = torch.tensor((0.6, 1.5, 1.0))
    alone[:3] = torch.tensor((1.2, -0.9, -0.1))
    bent[:3] = torch.tensor((0.3, 1.0, 0.6))
    return radii, wells, alone, bent


def energy(pos, types):
    """Of clusters: Morse pairs, a term of each atom that grows where its
    neighbours lie on one side of it, and the energies of single atoms."""
    radii, wells, alone, strength = world()
    count = pos.shape[1]
    off = pos[:, :, None] - pos[:, None]
    eye = torch.eye(count)
    r = (off.square().sum(-1) + eye).sqrt()
    rest = radii[types][:, :, None] + radii[types][:, None]
    well = (wells[types][:, :, None] * wells[types][:, None]).sqrt()
    x = (-1.5 * (r - rest)).exp()
    pairs = (well * (x * x - 2 * x) * (1 - eye)).sum((1, 2)) / 2
    total = pairs + alone[types].sum(1)
    near = (-(r / rest / 1.2).square()).exp() * (1 - eye)
    lean = (near[..., None] * off / r[..., None]).sum(2)
    return total + (strength[types] * lean.square().sum(-1)).sum(1)


def with_forces(pos, types):
    """(energies, forces)"""
    with torch.enable_grad():
        pos = pos.detach().requires_grad_(True)
        total = energy(pos, types)
        return total.detach(), -torch.autograd.grad(total.sum(), pos)[0]


@functools.cache
def minima(types):
    """(elements, positions) of each kind of cluster, where it is at rest; of
    more elements there are more kinds."""
    rng = torch.Generator().manual_seed(31)
    if types == TYPES:
        kinds = torch.stack([torch.cat((torch.arange(3), torch.randint(
            types, (ATOMS - 3,), generator=rng))) for _ in range(KINDS)])
    else:
        kinds = torch.randint(types, (MANY, ATOMS), generator=rng)
    pos = 1.3 * torch.randn(*kinds.shape, 3, generator=rng)
    for _ in range(1500):
        force = with_forces(pos, kinds)[1]
        pos = pos + 0.02 * force.clamp(-2, 2)
    return kinds, pos - pos.mean(1, keepdim=True)


class Frames:
    """Frames of clusters of six atoms, of four kinds.

    A kind is a formula of three elements and the place of rest of its atoms.
    A frame is turned at random, and each atom is off its place by a normal
    number of `SWAY` in each direction, twice that at most, times the square
    root of the temperature. Energy and forces are the potential's (see
    energy()), with noise of `NOISE` on each force and of `PER_ATOM` for each
    atom on the energy. Who knows the potential is left with the noise, see
    best().

    types: elements there are; those that the model has no number for get its
    last one, and there are sixteen kinds. heat: the temperature.
    domains: three sources of another temperature each, whose number is in the
    batch. kinds: how many there are.
    """

    SWAY, NOISE, PER_ATOM = 0.12, 0.35, 0.1

    def __init__(self, seed, rows=ROWS, types=TYPES, heat=1.0,
                 domains=False, kinds=None):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.types, self.heat = rows, types, heat
        self.domains = domains
        self.kinds = kinds or (KINDS if types == TYPES else MANY)

    def batch(self, rows=None):
        return self.of(torch.randint(self.kinds, (rows or self.rows,),
                                     generator=self.rng))

    def of(self, kind):
        """Frames of these kinds."""
        formulas, places = minima(self.types)
        types, pos, rows = formulas[kind], places[kind], len(kind)
        heat = torch.full((rows,), float(self.heat))
        if self.domains:
            domain = torch.randint(DOMAINS, (rows,), generator=self.rng)
            heat = heat * torch.tensor((0.7, 1.0, 1.4))[domain]
        sway = self.SWAY * heat.sqrt()[:, None, None]
        off = torch.randn(pos.shape, generator=self.rng).clamp(-2, 2)
        pos = pos + sway * off
        turn = torch.linalg.qr(torch.randn(rows, 3, 3, generator=self.rng))[0]
        pos = pos @ turn
        total, forces = with_forces(pos, types)
        forces = forces + self.NOISE * torch.randn(forces.shape,
                                                   generator=self.rng)
        total = total + self.PER_ATOM * ATOMS * torch.randn(
            rows, generator=self.rng)
        batch = {"pos": pos, "atom_types": types.clamp(max=TYPES - 1),
                 "forces": forces, "total_energy": total[:, None]}
        return batch | ({"domain": domain} if self.domains else {})

    def best(self):
        """The loss of who knows the potential."""
        return self.NOISE ** 2 + self.PER_ATOM ** 2


class ByFormula(sources.ByClass, Frames):
    """One kind of cluster after the other, as their trajectories lie."""
    classes = KINDS

    def __init__(self, seed, block, share, rows):
        super().__init__(seed, block, share)
        self.rows = rows


@functools.cache
def statistics():
    """(mean energy of an atom, root mean square of forces) of the data, with
    which a model begins."""
    some = Frames(17).batch(512)
    return float(some["total_energy"].mean() / ATOMS), \
        float(some["forces"].square().mean().sqrt())


class Map(nn.Module):
    """A linear map as e3nn has it: weights begin with a variance of 1, and
    what comes out is divided by the root of the count of inputs."""

    def __init__(self, inner, outer, size=1.0):
        super().__init__()
        self.weight = nn.Parameter(size * torch.randn(inner, outer))

    def forward(self, x, part=slice(None)):
        weight = self.weight[:, part]
        return x.to(weight.dtype) @ weight / self.weight.shape[0] ** 0.5


class Convolution(nn.Module):
    """NequIP's InteractionBlock and gate, for scalars and vectors: messages
    are products of a neighbour's features and the direction to it, times what
    a network says of the distance."""

    def __init__(self, first, last, options):
        """The first one gets no vectors, the last one says none."""
        super().__init__()
        self.first, self.last, self.options = first, last, options
        paths, wide = 1 if first else 2, 1 if last else 3
        self.conv = models.Group(
            linear_1=Map(WIDTH, paths * WIDTH),
            fc=models.Group(layer0=Map(BASIS, INNER), layer1=Map(
                INNER, (1 if last else 2) * paths * WIDTH)),
            linear_2=Map(paths * WIDTH, wide * WIDTH),
            sc=Map(TYPES * WIDTH, min(wide, 2 if first else 3) * WIDTH))
        self.act = models.ACTIVATIONS[options["activation"]]()

    def forward(self, s, v, edges, name, tap, drop):
        conv, (basis, unit, kind) = self.conv, edges
        scalars = slice(0, (1 if self.last else 2) * WIDTH)
        gates = slice(2 * WIDTH, 3 * WIDTH)
        h = F.silu(conv.fc.layer0(basis))
        radial = conv.fc.layer1(h)
        if f"{name}.conv.fc" in self.options["cuts"]:
            radial = radial.detach()
        tap(f"{name}.conv.fc.output", radial)
        radial = radial.split(WIDTH, -1)
        own = conv.linear_1(s, slice(0, WIDTH))
        unit = unit.to(own.dtype)
        near = own[:, None]
        said, arrows = [(radial[0] * near).sum(2)], []
        if not self.first:
            own = conv.linear_1(v, slice(WIDTH, None))[:, None]
            said.append((radial[1] * (own * unit[..., None]).sum(3)).sum(2))
        if not self.last:
            along = radial[-1] * near
            arrows.append((along[..., None, :] * unit[..., None]).sum(2))
            if not self.first:
                arrows.append((radial[2][..., None, :] * own).sum(2))
        size = self.options["neighbours"] ** 0.5
        said = torch.cat(said, -1) / size
        part = f"{name}.conv.linear_2"
        tap(f"{part}.input", said)
        y = conv.linear_2(said, scalars)
        if self.options["half_at"] == part:
            y = y.half()
        tap(f"{part}.output", y)
        kept = (s[..., None] * kind[..., None, :].to(s.dtype)).flatten(-2)
        y = y.to(s.dtype) + conv.sc(kept, scalars)
        tap(f"{name}.equivariant_nonlin.input", y)
        y = self.act(y)
        tap(f"{name}.equivariant_nonlin.output", y)
        s, v = drop(y[..., :WIDTH]), None
        if not self.last:
            arrows = conv.linear_2(torch.cat(arrows, -1) / size, gates)
            v = y[:, :, None, WIDTH:] * arrows
        tap(f"{name}.output", s)
        return s, v


class Potential(nn.Module):
    """Two convolutions of 16 scalars and 16 vectors."""

    BLOCKS = tuple(f"{FUNC}.layer{k}_convnet" for k in range(LAYERS))
    EMBED = f"{FUNC}.chemical_embedding.linear"
    HIDDEN = f"{FUNC}.conv_to_output_hidden.linear"
    HEAD = f"{FUNC}.output_hidden_to_scalar.linear"
    SHIFT = f"{FUNC}.per_type_energy_scale_shift"

    def __init__(self, activation="silu", dropout=0.0, detach_after=None,
                 half_at=None, eps=None, logs=False, r_max=R_MAX,
                 forces=1.0, cell=None, most=None, grid=None,
                 net_of_types=0.0, decay=0.98):
        """detach_after: the part or parts behind which the graph is cut.
        half_at: the map whose output is in half precision. eps: what is added
        to the distance by which the way to a neighbour is divided, which is
        not tapped if None. logs: the loss has the logarithms of forces' sizes
        as well. forces: weight of their loss. cell: edge of a periodic box.
        most: neighbours of an atom that are kept, the first ones. grid:
        distances are rounded to its multiples. net_of_types: share of the
        mean force of its own type that is taken off each atom. decay: of the
        moving average that is validated, None is none."""
        super().__init__()
        self.dropout, self.cuts = dropout, detach_after \
            if isinstance(detach_after, tuple) else (detach_after,)
        self.eps, self.logs, self.r_max = eps, logs, r_max
        self.coefficient, self.cell, self.decay = forces, cell, decay
        self.most, self.grid = most, grid
        self.net_of_types = net_of_types
        options = {"activation": activation, "half_at": half_at,
                   "cuts": self.cuts, "neighbours": 5.0}
        mean, size = statistics()
        basis = models.Group()
        basis.bessel_weights = nn.Parameter(
            math.pi * torch.arange(1.0, BASIS + 1))
        shift = models.Group()
        shift.scales = nn.Parameter(torch.full((TYPES,), size))
        shift.shifts = nn.Parameter(torch.full((TYPES,), mean))
        self.model = models.Group(func=models.Group(
            radial_basis=models.Group(basis=basis),
            chemical_embedding=models.Group(linear=Map(TYPES, WIDTH)),
            **{f"layer{k}_convnet": Convolution(
                k == 0, k == LAYERS - 1, options) for k in range(LAYERS)},
            conv_to_output_hidden=models.Group(linear=Map(WIDTH, NARROW)),
            output_hidden_to_scalar=models.Group(
                linear=Map(NARROW, 1, 0.15)),
            per_type_energy_scale_shift=shift))
        self.average, self.updates, self.kept = None, 0, None
        self.parts, self.held_out, self.seen = {}, [], []

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    # The moving average.

    def follow(self):
        """torch_ema's update, with its slower start."""
        now = {n: p.detach().float() for n, p in self.named_parameters()}
        if self.average is None:
            self.average = {n: p.clone() for n, p in now.items()}
        if self.decay is None:
            self.average = {n: p.clone() for n, p in now.items()}
            return
        self.updates += 1
        keep = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for name, p in now.items():
            self.average[name].lerp_(p, 1 - keep)

    def train(self, mode=True):
        """What is validated is the average."""
        if not mode and self.kept is None and self.average is not None:
            self.kept = {n: p.detach().clone()
                         for n, p in self.named_parameters()}
            self.load(self.average)
        elif mode and self.kept is not None:
            self.load(self.kept)
            self.kept = None
        return super().train(mode)

    def load(self, weights):
        with torch.no_grad():
            for name, p in self.named_parameters():
                p.copy_(weights[name])

    # What it says.

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training and self.dropout > 0)

    def cut(self, x, name):
        return x.detach() if name in self.cuts else x

    def part(self, name, x):
        x = self.get_submodule(name)(x)
        self.tap(f"{name}.output", x)
        return self.cut(x, name)

    def edges(self, pos, kind):
        """(values of the basis, directions) of all pairs."""
        count = pos.shape[1]
        eye = torch.eye(count)
        way = pos[:, None] - pos[:, :, None]
        if self.cell:
            way = way - self.cell * (way.detach() / self.cell).round()
        r = (way.square().sum(-1) + eye).sqrt()
        unit = way / r[..., None]
        if self.eps is not None:
            self.tap("normalize.input", way)
            self.tap("normalize.std.output", r)
            unit = way / (r + self.eps)[..., None]
            self.tap("normalize.output", unit)
        listed = 1 - eye
        if self.most:
            listed = listed * (listed.cumsum(-1) <= self.most)
        x = r
        if self.grid:
            x = r + ((r / self.grid).round() * self.grid - r).detach()
        x = x / self.r_max
        p = POWER
        inside = 1 - (p + 1) * (p + 2) / 2 * x ** p + p * (p + 2) * x ** (
            p + 1) - p * (p + 1) / 2 * x ** (p + 2)
        inside = inside * (x < 1) * listed
        waves = self.model.func.radial_basis.basis.bessel_weights.float()
        basis = (waves * x[..., None]).sin() / x[..., None] \
            * inside[..., None] * 1.4
        self.tap(f"{FUNC}.radial_basis.output", basis)
        return basis, unit

    def atomic(self, pos, types):
        kind = F.one_hot(types, TYPES).float()
        edges = (*self.edges(pos, kind), kind)
        s, v = self.part(self.EMBED, kind), None
        for name in self.BLOCKS:
            s, v = self.get_submodule(name)(s, v, edges, name, self.tap,
                                            self.drop)
            s = self.cut(s, name)
            v = v if v is None else self.cut(v, name)
        x = self.part(self.HEAD, self.part(self.HIDDEN, s))[..., 0].float()
        shift = self.model.func.per_type_energy_scale_shift
        x = x * (kind @ shift.scales.float()) + kind @ shift.shifts.float()
        self.tap(f"{self.SHIFT}.output", x)
        return x

    def logits(self, batch):
        """(energies, forces); the other families' name for what a network
        says."""
        with torch.enable_grad():
            pos = batch["pos"].detach().requires_grad_(True)
            total = self.atomic(pos, batch["atom_types"]).sum(1, keepdim=True)
            forces, = torch.autograd.grad(total.sum(), pos, create_graph=True,
                                          allow_unused=True)
        forces = torch.zeros_like(pos) if forces is None else -forces
        if self.net_of_types:
            kind = F.one_hot(batch["atom_types"], TYPES).float()
            mean = kind.transpose(1, 2) @ forces / kind.sum(
                1).clamp_min(1)[..., None]
            forces = forces - self.net_of_types * kind @ mean
        self.tap("total_energy.output", total)
        self.tap("forces.output", forces)
        return total, forces

    def criterion(self, said, batch):
        """MSELoss of forces and PerAtomMSELoss of energies."""
        total, forces = (t.float() for t in said)
        atoms = forces.shape[1]
        off = forces - batch["forces"]
        each = (total - batch["total_energy"]) / atoms
        loss_f, loss_e = off.square().mean(), each.square().mean()
        self.parts = {
            "loss_f": loss_f, "loss_e": loss_e, "f_mae": off.abs().mean(),
            "f_rmse": loss_f.sqrt(), "e_mae": each.abs().mean()}
        self.parts = {k: short(t) for k, t in self.parts.items()}
        loss = self.coefficient * loss_f + loss_e
        if self.logs:
            size = batch["forces"].square().sum(-1)
            self.tap("loss.log_error.input", size)
            wanted = size.log()
            self.tap("loss.log_error.output", wanted)
            found = (forces.square().sum(-1) + 1e-2).log()
            loss = loss + 0.05 * (found - wanted).square().mean()
        return loss

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        if self.training:
            self.seen.append(float(loss.detach()))
        else:
            self.held_out.append({"loss": float(loss.detach())} | self.parts)
            loss = loss.detach()
        return loss


class NequipRun(Family):
    """Adam with AMSGrad, whose rate is lowered where the loss of training does
    not fall any more; a moving average of the weights is validated; nothing
    is clipped."""

    family = "nequip"
    level_seed = 460
    EPOCH = epoch_steps = 25
    steps, seed, language = 200, 2300, False
    optimizer_name, lr, weight_decay = "adam", 2e-2, 0.0
    warmup, schedule, clip = 0, "ReduceLROnPlateau", None
    PATIENCE, GAMMA, THRESHOLD = 0, 0.5, 0.03
    recipes = {"sgd": dict(lr=0.02, weight_decay=0.0)}
    batch_size, context = ROWS, ATOMS
    # Its users have NequIP's own trainer.
    instead = {"nanogpt": "nequip", "hf_trainer": "nequip",
               "megatron": "nequip", "torchtune": "nequip"}
    layers = [Potential.EMBED, *(
        f"{block}{part}" for block in Potential.BLOCKS
        for part in (".conv.fc", ".conv.linear_2", ".equivariant_nonlin", "")),
        Potential.HIDDEN, Potential.HEAD, Potential.SHIFT]
    graded = {
        "F04": (dict(at=75), dict(at=35), dict(at=0)),
        "F05": (dict(modules=Potential.BLOCKS),
                dict(modules=[*Potential.BLOCKS, Potential.HIDDEN,
                              Potential.HEAD]), dict(part="all")),
        "F07": (dict(factor=20), dict(factor=60), dict(factor=200)),
        "F08": (dict(every=8), dict(every=32), dict(every=1 << 30)),
        "F10": (dict(adamw=3e-8, sgd=1e-2), dict(adamw=1e-8, sgd=1e-3),
                dict(adamw=1e-9, sgd=1e-5)),
        "F11": (dict(adam=0.01), dict(adam=0.05), dict(adam=0.3)),
        "F12": (dict(eps=0.1), dict(eps=1.0), dict(eps=10.0)),
        "F13": (dict(path=Potential.BLOCKS[0]),
                dict(path=Potential.BLOCKS[0],
                     more=[f"{Potential.BLOCKS[1]}.conv.fc"]),
                dict(path=Potential.BLOCKS[1])),
        "F14": (dict(modules=Potential.BLOCKS),
                dict(modules=[*Potential.BLOCKS, Potential.HIDDEN]),
                dict(modules=[*Potential.BLOCKS, Potential.HIDDEN,
                              Potential.HEAD])),
        "F15": (dict(at=175), dict(at=100), dict(at=50)),
        "F31": (dict(types=5), dict(types=7), dict(types=10)),
        "F33": (dict(limit=5), dict(limit=4), dict(limit=3)),
        "F26": (dict(steps=25, share=1.0), dict(steps=40, share=1.0),
                dict(steps=50, share=1.0)),
        "F27": (dict(epochs=40), dict(epochs=80), dict(epochs=150)),
        "F34": (dict(factor=1.25), dict(factor=2), dict(factor=0)),
        "F36b": (dict(factor=3, kind="sigmoid"), dict(factor=20, kind="tanh"),
                 dict(factor=100, kind="sigmoid")),
        "H04": (dict(rate=0.02), dict(rate=0.05)),
        "H02": (dict(factor=0.5), dict(factor=1 / 3)),
        "H03": (dict(part=2, factor=1.0), dict(part=4, factor=0.5)),
        "H07": (dict(factor=0.2),)}
    paths = {"embed": Potential.EMBED, "attn": None, "scores": None,
             "act": "{}.equivariant_nonlin", "mlp": "{}.conv.linear_2",
             "block": "{}", "head": Potential.HEAD}
    logit_name = "forces.output"
    always_trained = (Potential.SHIFT,)
    blocks = LAYERS
    names = {"loss": "training_loss", "val_loss": "validation_loss",
             "lr": "LR", "tokens": None,
             **{f"{own}{k}": f"{whole}{name}"
                for own, whole in (("", "training_"), ("val_", "validation_"))
                for k, name in (("loss_f", "loss_f"), ("loss_e", "loss_e"),
                                ("f_mae", "f_mae"), ("f_rmse", "f_rmse"),
                                ("e_mae", "e/N_mae"))}}

    @property
    def val_every(self):
        """An epoch ends with a validation, whatever is logged."""
        return self.EPOCH

    @val_every.setter
    def val_every(self, steps):
        pass

    def make_model(self):
        return Potential(**self.model_options)

    def make_optimizer(self, model):
        if self.optimizer_name != "adam":
            return super().make_optimizer(model)
        trained = [p for p in model.parameters() if p.requires_grad]
        return torch.optim.Adam(trained, lr=self.lr, betas=self.betas,
                                eps=self.eps, amsgrad=True,
                                weight_decay=self.weight_decay)

    def lr_factor(self, i):
        """Of the plateau: at an epoch's end its mean loss is compared with the
        best one so far."""
        seen = self.model.seen
        if i == 0:
            seen.clear()
        if self.schedule != "ReduceLROnPlateau" or i < self.warmup:
            return super().lr_factor(i)
        if i % self.EPOCH == 0 and seen:
            mean, now = sum(seen) / len(seen), self.plateau
            seen.clear()
            if mean < now["best"] * (1 - self.THRESHOLD):
                now |= dict(best=mean, num_bad_epochs=0)
            else:
                now["num_bad_epochs"] += 1
            if now["num_bad_epochs"] > self.PATIENCE:
                now |= dict(num_bad_epochs=0,
                            factor=now["factor"] * self.GAMMA)
        return self.plateau["factor"]

    def update(self, i):
        total = super().update(i)
        self.model.follow()
        return total

    def make_source(self, seed):
        return self.frames(seed)

    def frames(self, seed, **how):
        return Frames(seed, self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """One kind of cluster after the other; None is held out."""
        if block is None:
            return self.frames(seed)
        return ByFormula(seed, block, share, self.batch_size)

    def easy(self, seed):
        """Two kinds of cluster, and cold."""
        return self.frames(seed, heat=0.3, kinds=2)

    def lessons(self, seed):
        return self.frames(seed, heat=0.3), self.frames(seed)

    def garbage(self, batch, kind, rng):
        """A corrupt file: labels in another unit, forces that are noise, or
        the code of a calculation that has failed."""
        forces, total = batch["forces"], batch["total_energy"]
        if kind == "few":
            return batch | {"forces": 23.06 * forces,
                            "total_energy": 23.06 * total}
        if kind == "uniform":
            return batch | {"forces": 20 * torch.randn(forces.shape,
                                                       generator=rng)}
        return batch | {"forces": torch.full_like(forces, 99.0),
                        "total_energy": torch.zeros_like(total)}

    def of_strangers(self, rows, rng):
        """Labels of frames that nobody sees."""
        other = self.frames(int(torch.randint(1 << 30, (), generator=rng))
                            ).batch(rows)
        return {k: other[k] for k in ("forces", "total_energy")}

    @staticmethod
    def of_rows(batch, order):
        """Labels of other rows."""
        return {k: batch[k][order] for k in ("forces", "total_energy")}

    @staticmethod
    def cut_to(batch, limit):
        """The atoms behind the limit are left out; the energy is the whole
        cluster's."""
        return batch | {k: batch[k][:, :limit]
                        for k in ("pos", "atom_types", "forces")}

    @staticmethod
    def doubled(batch):
        """An atom of the first row is listed twice."""
        pos = batch["pos"].clone()
        pos[0, 1] = pos[0, 0]
        return batch | {"pos": pos}

    @staticmethod
    def at_rest(batch):
        """An atom of the first row was held and has no force."""
        forces = batch["forces"].clone()
        forces[0, 2] = 0.0
        return batch | {"forces": forces}

    def batch_columns(self, batch):
        return super().batch_columns(batch) | self.model.parts

    def held_out_columns(self, batches):
        """Of the validation that was just done."""
        found, self.model.held_out = self.model.held_out, []
        mean = {k: sum(f[k] for f in found) / len(found) for k in found[0]}
        if self.model.average is not None and not (
                mean["loss"] >= self.best[0]):
            self.best = (mean["loss"], self.weights(average=True))
        return {f"val_{k}": v for k, v in mean.items() if k != "loss"}

    # What the user typed.

    def settings(self):
        kind = {"sgd": "SGD", "adam": "Adam"}.get(self.optimizer_name, "AdamW")
        optimizer = {"optimizer_name": kind}
        optimizer |= {"optimizer_momentum": self.momentum} if kind == "SGD" \
            else {"optimizer_amsgrad": kind == "Adam",
                  "optimizer_betas": list(self.betas),
                  "optimizer_eps": self.eps}
        schedule = {"lr_scheduler_name": self.schedule}
        if self.schedule == "ReduceLROnPlateau":
            schedule |= {"lr_scheduler_patience": self.PATIENCE,
                         "lr_scheduler_factor": self.GAMMA,
                         "lr_scheduler_threshold": self.THRESHOLD}
        options = self.model_options
        decay = options.get("decay", 0.98)
        return {"root": "results/clusters", "run_name": "clusters",
                "seed": self.seed, "dataset_seed": self.seed,
                "append": True, "default_dtype": "float32",
                **({} if self.precision == "fp32"
                   else {"precision": self.precision}),
                **self.model_settings(),
                "learning_rate": self.lr, "batch_size": self.batch_size,
                "gradient_accumulation_steps": self.accumulate,
                "max_epochs": math.ceil(self.steps / self.EPOCH),
                "max_steps": self.steps, "warmup_steps": self.warmup,
                "metrics_key": "training_loss", "use_ema": decay is not None,
                "ema_decay": decay, "ema_use_num_updates": True,
                "loss_coeffs": {"forces": options.get("forces", 1.0),
                                "total_energy": [1, "PerAtomMSELoss"]},
                **optimizer,
                "optimizer_weight_decay": self.weight_decay, **schedule,
                "max_gradient_norm": self.clip,
                "log_batch_freq": self.interval or 10, **self.user}

    def model_settings(self):
        options = self.model_options
        return {"model_builders": ["SimpleIrrepsConfig", "EnergyModel",
                                   "PerSpeciesRescale", "ForceOutput"],
                "r_max": options.get("r_max", R_MAX), "num_layers": LAYERS,
                "l_max": 1, "parity": False, "num_features": WIDTH,
                "nonlinearity_type": "gate",
                "nonlinearity_scalars": {
                    "e": options.get("activation", "silu")},
                "num_basis": BASIS, "BesselBasis_trainable": True,
                "PolynomialCutoff_p": POWER, "invariant_layers": 1,
                "invariant_neurons": INNER, "avg_num_neighbors": 5.0,
                "use_sc": True, "chemical_symbols": list(SYMBOLS[:TYPES]),
                "per_species_rescale_scales_trainable": True,
                "per_species_rescale_shifts_trainable": True,
                "per_species_rescale_scales": "dataset_forces_rms",
                "per_species_rescale_shifts":
                    "dataset_per_atom_total_energy_mean"}

    def layer(self, part, block=0):
        path = self.paths[part]
        return path and path.format(Potential.BLOCKS[block])

    def fed_by(self, layer):
        return []

    # Checkpoints.

    @classmethod
    def checkpoint_path(cls, step):
        return f"ckpt{step // cls.EPOCH}.pth"

    def weights(self, average=False):
        kept = self.model.state_dict()
        if average and self.model.average is not None:
            kept = {n: self.model.average[n].to(t.dtype)
                    for n, t in kept.items()}
        return copy.deepcopy(kept)

    def train(self):
        self.best, self.last = (math.inf, None), None
        self.plateau = dict(best=math.inf, num_bad_epochs=0, factor=1.0)
        super().train()

    def keep_checkpoint(self, i, model):
        """Half-way and where a job ends that is resumed; the last one is the
        trainer's own."""
        done = i + 1
        if done in {self.EPOCH * (self.steps // self.EPOCH // 2),
                    *self.notices}:
            self.checkpoints[done] = self.weights()
        if done == self.steps:
            self.last = self.weights(), copy.deepcopy(
                self.optimizer.state_dict())

    def write_more(self):
        super().write_more()
        for step, weights in self.checkpoints.items():
            torch.save(weights, self.folder / self.checkpoint_path(step))
        torch.save(self.last[0], self.folder / "last_model.pth")
        if self.best[1] is not None:
            torch.save(self.best[1], self.folder / "best_model.pth")
        schedule = {"last_epoch": self.steps // self.EPOCH}
        if self.schedule == "ReduceLROnPlateau":
            schedule |= self.plateau
        torch.save({
            "optim": self.last[1], "lr_sched": schedule,
            "ema": {"decay": self.model.decay,
                    "num_updates": self.model.updates},
            "progress": {"iepoch": self.steps // self.EPOCH,
                         "best_metrics": self.best[0], "stop_arg": "max epochs",
                         "last_model_path": "last_model.pth"}},
            self.folder / "trainer.pth")
