"""A run of some kind: its folder, its fault, its loggers and its label."""

import csv
import inspect
import json
import random
import time
import zlib
from dataclasses import dataclass, field

import numpy as np
import torch

START = 1_760_000_000  # the clock of every run begins here
CASES = {}


class Run:
    """What a kind is trained with: says lines, adds rows, knows its fault."""

    def __init__(self, folder, fault):
        self.folder, self.fault, self.clock = folder, fault, START
        self.columns, self.end = {}, {}

    def has(self, fault):
        return self.fault == fault

    def rate(self, usual, times=100):
        """A learning rate, a hundred times too high where that is the fault."""
        return usual * times if self.has("rate") else usual

    def say(self, *lines, file="train.log"):
        with open(self.folder / file, "a", encoding="utf-8", newline="") as out:
            out.writelines(line + "\n" for line in lines)

    def record(self, file="metrics.jsonl", **row):
        self.say(json.dumps(row), file=file)

    def row(self, file="metrics.csv", **row):
        """A row of a CSV file; its first row names the columns, what later ones lack is empty."""
        new = file not in self.columns
        columns = self.columns.setdefault(file, list(row))
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)

    def write(self, file, value):
        (self.folder / file).write_text(json.dumps(value, indent=2) + "\n")

    def settings(self, file="config.json", **values):
        self.write(file, values)

    def ends(self, **values):
        """What was measured at the end, for the one who records."""
        self.end |= {k: round(float(v), 4) for k, v in values.items()}

    def tick(self, seconds):
        """Moves the clock of the run on; returns its time."""
        self.clock += seconds * random.uniform(0.95, 1.05)
        return round(self.clock, 3)

    def stamp(self, form="%Y-%m-%d %H:%M:%S"):
        return time.strftime(form, time.gmtime(self.clock))


@dataclass
class Case:
    """One run of a kind: healthy, or with a fault and the classes that are right.

    A fault without classes is a design that looks odd and is sound."""
    train: object
    fault: str = ""
    classes: tuple = field(default_factory=tuple)

    @property
    def kind(self):
        return self.train.__name__.replace("_", "-")

    @property
    def name(self):
        return f"{self.kind}-{self.fault}" if self.fault else self.kind

    @property
    def summary(self):
        return " ".join(inspect.getdoc(self.train).split())

    @property
    def root_class(self):
        return self.classes[0] if self.classes else None

    def record(self, folder, seed):
        seed += zlib.crc32(self.kind.encode()) % 10_000
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        run = Run(folder, self.fault)
        return run.end | (self.train(run) or {})

    def expected(self):
        return {"class": self.root_class, "verdict": "diagnosed" if self.classes else "healthy",
                "layer": None, "step": None, "also": list(self.classes[1:]), "note": self.summary,
                "fault": self.fault if self.classes else "healthy", "family": self.kind, "level": 0, "severity": {},
                "dialect": "own", "interval": 1, "dropped": []}


def kind(**faults):
    """Declares a kind: a healthy run, and one for every fault=classes (those that are right, the best first).

    A sound variant has no classes: `name=""`."""
    def declare(train):
        for fault, classes in {"": "", **faults}.items():
            case = Case(train, fault, tuple(classes.split()))
            CASES[case.name] = case
        return train
    return declare


def grad_norm(model):
    return float(torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf")))


def learn(loss, optimizer, zero=True):
    """One step down; returns the loss. Without `zero` gradients of the steps before stay."""
    if zero:
        optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def mlp(*sizes, act=torch.nn.ReLU):
    layers = []
    for inner, outer in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(inner, outer), act()]
    return torch.nn.Sequential(*layers[:-1])
