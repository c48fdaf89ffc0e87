"""Kinds of training, a function each, and the faults planted in them."""

import importlib
import pathlib

from kinds.base import CASES

HELPERS = ("__init__", "base", "blocks", "data", "events", "outputs",
           "rotations")
MODULES = sorted(p.stem for p in pathlib.Path(__file__).parent.glob("*.py")
                 if p.stem not in HELPERS)


def everything():
    """Name -> case of every run."""
    for module in MODULES:
        importlib.import_module(f"kinds.{module}")
    return CASES
