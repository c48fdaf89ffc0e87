"""Dumps of a pair: tensors in execution order with a step or token."""

import json

import torch


class Tape:
    """Collects what is handed to `tap`, in files by step or token."""

    def __init__(self):
        self.files = [({}, {})]  # (metadata, name -> tensor)

    def at(self, **place):
        """What follows belongs to a step or token."""
        if not self.files[-1][1]:
            self.files.pop()
        self.files.append(({k: str(v) for k, v in place.items()}, {}))

    def __call__(self, name, tensor):
        tensors = self.files[-1][1]
        if name in tensors:
            raise ValueError(f"{name} is tapped twice")
        tensors[name] = tensor.detach().contiguous().clone()

    def under(self, prefix):
        return lambda name, tensor: self(f"{prefix}.{name}", tensor)

    def weights(self, weights):
        for name, tensor in weights.items():
            self(name, tensor)

    def kept(self, keep):
        """A tape of what `keep(place, name)` holds of."""
        out = Tape()
        out.files = []
        for place, tensors in self.files:
            some = {n: t for n, t in tensors.items() if keep(place, n)}
            if some:
                out.files.append((place, some))
        return out

    def names(self):
        """(place, name) in order."""
        return [(place, name) for place, tensors in self.files
                for name in tensors]

    def write(self, folder):
        from safetensors.torch import save_file
        folder.mkdir(parents=True)
        for place, tensors in self.files:
            at = "".join(f"-{k}{int(v):03}" for k, v in place.items())
            save_file(tensors, str(folder / f"dump{at}.safetensors"),
                      {**place, "order": json.dumps(list(tensors),
                                                    separators=(",", ":"))})


def apart(a, b):
    """|a - b| / |b| of two tensors of equal size; None where there is none."""
    if a.numel() != b.numel():
        return None
    a, b = a.double().flatten(), b.double().flatten()
    same = torch.isfinite(a) & torch.isfinite(b)
    size = float(b[same].norm())
    return float((a - b)[same].norm()) / size if size else None
