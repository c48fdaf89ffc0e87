"""What the model families of the fault cases have in common; families.py says
what a fault may rely on."""

import torch

from . import battery, logs, sources
from .recorder import Run

# Classes whose cases keep their battery when they are thinned.
PROBED = ("causal-mask-leak", "label-shift-missing",
          "position-encoding-missing")


class Family(Run):
    """Defaults of the families; see families.py."""

    full_columns = True
    interval, dialect = 1, "plain"
    dumped = ("batch.*",)
    dump_first = dump_last = False
    dump_steps, dump_rows = (0, -1), 4
    user = {}
    graded = {}             # fault id -> severities that are this family's own
    keeps_layers = True     # layers.jsonl is written
    thin_layers = 50        # layers_every of a thin case, at least
    battery = ()
    language = True
    level_seed = 0          # added to the seed by severity
    own_optimizer = None    # name of one that make_own_optimizer() makes
    beside = None           # the family whose loggers and intervals it has
    base = {"lr": 2e-3}     # of AdamW, for what a run starts from
    names = {}              # column -> name in metrics, None leaves it out
    instead = {}            # logger -> the one that its users have instead
    recipes = {"sgd": dict(lr=0.2, weight_decay=0.0)}

    @property
    def moments(self):
        """The optimizer by what it keeps: SGD, the family's own, or Adam of
        either kind."""
        name = self.optimizer_name
        return name if name in ("sgd", self.own_optimizer) else "adamw"

    def setup(self):
        """The fault's; runs before anything else."""

    def make_optimizer(self, model):
        trained = [p for p in model.parameters() if p.requires_grad]
        if self.optimizer_name == self.own_optimizer:
            return self.make_own_optimizer(trained)
        if self.optimizer_name == "sgd":
            return torch.optim.SGD(trained, lr=self.lr, momentum=self.momentum,
                                   weight_decay=self.weight_decay)
        kind = torch.optim.Adam if self.optimizer_name == "adam" \
            else torch.optim.AdamW
        return kind(trained, lr=self.lr, betas=self.betas, eps=self.eps,
                    weight_decay=self.weight_decay)

    def finite(self, data, seed):
        """A source of the rows of `data` alone, a batch of all of them."""
        return sources.Finite(data, self.batch_size, seed)

    def thin_out(self):
        """Halves what a case takes; its detectors still see what they need."""
        self.layers_every = max(self.thin_layers, self.layers_every)
        if self.root_class not in PROBED:
            self.battery = ()
        if len(self.dump_steps) > 4:
            return  # a fault that shows over the steps needs them all
        if self.language:
            self.dump_rows = min(4, self.dump_rows)
        if len(self.dump_steps) == 4:
            self.dump_steps = (0, -1)

    def train(self):
        dumps = {s % self.steps: self.dumped for s in self.dump_steps}
        self.extra_dumps = dumps | self.extra_dumps
        self.checkpoints = {}   # of the steps at which the family keeps one
        super().train()

    def thin(self, name, tensor):
        if name.startswith("batch.") and name != "batch.row_hash":
            return tensor[:self.dump_rows]
        return tensor

    def settings(self):
        """config.json: what the user set. The fault is never in here unless
        the user typed it."""
        adam = {"betas": list(self.betas), "eps": self.eps}
        return {
            **self.model_settings(), "optimizer": self.optimizer_name,
            "lr": self.lr, "weight_decay": self.weight_decay,
            **({"momentum": self.momentum} if self.optimizer_name == "sgd"
               else adam),
            "scheduler": self.schedule, "warmup_steps": self.warmup,
            "max_steps": self.steps, "max_grad_norm": self.clip,
            "batch_size": self.batch_size,
            "gradient_accumulation_steps": self.accumulate,
            "precision": self.precision, "seed": self.seed, "world_size": 1,
            **self.user}

    def write_files(self):
        logs.WRITERS[self.dialect](self)
        self.write_lines("packages.txt", logs.PACKAGES)
        for check in self.battery:
            battery.CHECKS[check](self)

    def expected(self):
        return super().expected() | {
            "fault": self.id, "family": self.family, "level": self.level,
            "severity": self.severity, "dialect": self.dialect,
            "interval": self.interval, "dropped": list(self.dropped)}

    def end_at(self, last, done=None):
        """Keeps what a trainer leaves that stops behind step last, with the
        checkpoints of as many steps as done."""
        done = last if done is None else done
        self.history = self.history[:last + 1]
        self.layer_rows = [r for r in self.layer_rows if r["step"] <= last]
        self.dumps = {k: v for k, v in self.dumps.items() if k <= last}
        self.checkpoints = {k: v for k, v in self.checkpoints.items()
                            if k <= done}

    def write(self, folder):
        super().write(folder)
        if "layers" in self.dropped or not self.keeps_layers:
            (folder / "layers.jsonl").unlink()


class EpochFamily(Family):
    """One that is validated behind each epoch of EPOCH steps."""

    @property
    def val_every(self):
        """Behind each epoch, whoever logs."""
        return self.EPOCH

    @val_every.setter
    def val_every(self, steps):
        pass

    @property
    def epochs(self):
        return -(-self.steps // self.EPOCH)
