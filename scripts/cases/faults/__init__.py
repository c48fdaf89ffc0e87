"""The faults by kind; families.py says what a fault is made of."""

import importlib
import pkgutil


def everything():
    """All faults and healthy controls, in the order of their ids."""
    from .. import faults
    names = [f"{faults.__name__}.{m.name}"
             for m in pkgutil.iter_modules(faults.__path__)]
    names.append(faults.__name__.replace("faults", "healthy"))
    found = []
    for name in names:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        found += module.FAULTS
    return sorted(found, key=lambda fault: fault.id)
