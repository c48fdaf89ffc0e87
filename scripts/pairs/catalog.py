"""The pairs: which fault, in which model, and what should be told of it.

`expand()` gives Pair objects. Each can run the right program and the faulty
one in a dtype; what is expected was written down beside the fault, before any
comparison. Where the fault moves the first tensor that it touches by less than
three times what the dtype itself moves it by, measured against float64, nobody
can tell from these values: the label says `decidable` false, with both
figures, and then silence is right as well as the right answer.
"""

import dataclasses

import torch

from . import convnet, decoding, sampler, transformer
from .arithmetic import Arithmetic
from .dump import Tape, apart

DTYPES = ("fp32", "fp16", "bf16")
SIZES = ("small", "large")
SEEDS = (0, 1)
UNDECIDED = 3.0

A, B = "blocks.1", "model.layers.1"


@dataclasses.dataclass(frozen=True)
class Fault:
    """`first` is the tensor that differs first, `at` its step or token
    beyond the first; kinds and classes that are right answers, the best
    first. A class of "" means that no class need be told."""

    name: str
    model: str  # gpt, llama, conv-group, conv-batch, cache-gpt, ...
    setting: dict
    first: str
    kinds: tuple
    classes: tuple
    at: int | None = None
    seeds: tuple = SEEDS
    sizes: tuple = SIZES
    noise: bool = False
    verdict: str = "different"



F44 = [
    Fault("formulation_scale", "gpt", {"scale": True},
          f"{A}.attn.scores.output", ("scale",), ("attention-scale-missing",)),
    Fault("formulation_scale", "llama", {"scale": True},
          f"{B}.self_attn.scores.output", ("scale",),
          ("attention-scale-missing",)),
    Fault("formulation_transpose", "gpt",
          {"weights": ("transpose", f"{A}.attn.proj.weight")},
          f"{A}.attn.proj.weight", ("axis-permutation",),
          ("weight-transposed",)),
    Fault("formulation_transpose", "llama",
          {"weights": ("transpose", f"{B}.self_attn.v_proj.weight")},
          f"{B}.self_attn.v_proj.weight", ("axis-permutation",),
          ("weight-transposed",)),
    Fault("formulation_layout", "conv-group", {"layout": "flatten"},
          "flatten.output", ("interleave", "axis-permutation"),
          ("channel-order-mismatch",), seeds=(0,)),
    Fault("formulation_layout", "conv-batch", {"layout": "pool"},
          "pool.output", ("axis-permutation",), ("channel-order-mismatch",),
          seeds=(1,)),
    Fault("formulation_layout", "conv-group", {"layout": "input"},
          "image.output", ("reshape-for-transpose",),
          ("channel-order-mismatch",), seeds=(1,)),
    Fault("formulation_variance", "gpt", {"variance": True},
          f"{A}.ln_1.output", ("scale",), ("variance-estimator-mismatch",)),
    Fault("formulation_variance", "conv-group", {"variance": True},
          "norm1.output", ("scale",), ("variance-estimator-mismatch",)),
    Fault("formulation_variance", "conv-batch", {"variance": True},
          "norm1.output", ("scale",), ("variance-estimator-mismatch",)),
    Fault("formulation_epsilon", "gpt", {"epsilon": 1e-3},
          f"{A}.ln_1.output", ("epsilon", "row-factor"),
          ("norm-epsilon-mismatch",)),
    Fault("formulation_epsilon", "llama", {"epsilon": 1e-3},
          f"{B}.input_layernorm.output", ("epsilon", "row-factor"),
          ("norm-epsilon-mismatch",)),
    Fault("formulation_gelu", "gpt", {"activation": "tanh"},
          f"{A}.mlp.act.output", ("activation",),
          ("activation-variant-mismatch",)),
    Fault("formulation_gelu", "llama", {"activation": "gelu"},
          f"{B}.mlp.act.output", ("activation",),
          ("activation-variant-mismatch",)),
    Fault("formulation_rope", "llama", {"rope": "rotation"},
          f"{B}.self_attn.q_rope.output", ("rotary-interleave",),
          ("rope-layout-permutation-missing",)),
    Fault("formulation_rope", "llama",
          {"weights": ("interleave", f"{B}.self_attn.k_proj.weight",
                       f"{B}.self_attn.q_proj.weight")},
          f"{B}.self_attn.q_proj.weight", ("rotary-interleave",),
          ("rope-layout-permutation-missing",)),
    Fault("formulation_qkv", "gpt", {"qkv": "kqv"}, f"{A}.attn.q.output",
          ("other-tensor", "slice-order"), ("axis-permutation",)),
    Fault("formulation_qkv", "llama", {"qkv": "heads"},
          f"{B}.self_attn.q.output", ("slice-order", "other-tensor"),
          ("axis-permutation",)),
    Fault("formulation_qkv", "gpt-fused", {"weights": ("kqv", A)},
          f"{A}.attn.qkv.weight", ("slice-order",), ("axis-permutation",)),
    Fault("formulation_residual", "gpt", {"residual": "attention"},
          f"{A}.middle.output", ("missing-term",), ("bias-missing",)),
    Fault("formulation_residual", "llama", {"residual": "mlp"},
          f"{B}.output", ("missing-term",), ("bias-missing",)),
    Fault("formulation_weight", "llama",
          {"weights": ("fresh", f"{B}.mlp.up_proj.weight")},
          f"{B}.mlp.up_proj.weight", ("not-loaded",),
          ("weights-missing-or-extra",)),
    Fault("formulation_weight", "gpt", {"weights": ("drop", f"{A}.mlp.0.bias")},
          f"{A}.mlp.act.input", ("axis-offset",),
          ("bias-missing", "weights-missing-or-extra")),
    Fault("formulation_position", "gpt", {"position": 1}, "embed.output",
          ("position-shift",), ("off-by-one-position",)),
    Fault("formulation_position", "llama", {"position": 1},
          "model.layers.0.self_attn.q_rope.output", ("rotation",),
          ("off-by-one-position",)),
]

K = "model.layers.0.self_attn"
G = "blocks.0.attn"
F45 = [
    Fault("kv_stale_position", "cache-gpt", {"stale": "frozen"},
          "embed.output", ("position-shift",), ("kv-cache-stale-position",),
          at=1),
    Fault("kv_stale_position", "cache-llama", {"stale": "frozen"},
          f"{K}.q_rope.output", ("rotation",), ("kv-cache-stale-position",),
          at=1),
    Fault("kv_append", "cache-gpt", {"append": 1}, f"{G}.k_cache",
          ("shift",), ("kv-cache-append-index",)),
    Fault("kv_append", "cache-llama", {"append": -1}, f"{K}.k_cache",
          ("shift",), ("kv-cache-append-index",)),
    Fault("kv_mask", "cache-gpt", {"mask": "later"}, f"{G}.probs.output",
          ("mask",), ("causal-mask-leak",)),
    Fault("kv_mask", "cache-llama", {"mask": "first"}, f"{K}.probs.output",
          ("mask",), ("",)),
    Fault("kv_block_reset", "cache-gpt", {"reset": "first"}, f"{G}.k_cache",
          ("zero-block",), ("kv-block-reset",), at=2),
    Fault("kv_block_reset", "cache-llama", {"reset": "second"},
          f"{K}.k_cache", ("zero-block",), ("kv-block-reset",), at=2),
    Fault("kv_rows", "cache-gpt", {"rows": "flip"}, f"{G}.k_cache",
          ("row-order", "flip"), ("context-contamination",), at=2),
    Fault("kv_rows", "cache-llama", {"rows": "roll"}, f"{K}.k_cache",
          ("row-order", "shift", "flip"), ("context-contamination",), at=2),
]

F46 = [
    Fault("sampler_scaling", "sampler-2", {"scaling": True},
          "denoiser.input", ("scale",), ("input-scaling-missing",)),
    Fault("sampler_history", "sampler-2", {"history": "sign"},
          "sampler.x.output", ("order-two",), ("multistep-history-bug",),
          at=1, seeds=(0,)),
    Fault("sampler_history", "sampler-2", {"history": "stale"},
          "sampler.x.output", ("order-two",), ("multistep-history-bug",),
          at=1, seeds=(1,)),
    Fault("sampler_coefficient", "sampler-1", {"coefficient": 0.03},
          "sampler.x.output", ("gradual",), ("accumulating-step-error",)),
    Fault("sampler_corruption", "sampler-2",
          {"corrupt": "buffer", "corrupt_at": 5}, "sampler.x.output",
          ("sudden",), ("state-corrupted-at-step",), at=5, seeds=(0,)),
    Fault("sampler_corruption", "sampler-1",
          {"corrupt": "zero", "corrupt_at": 6}, "sampler.x.output",
          ("sudden",), ("state-corrupted-at-step",), at=6, seeds=(1,)),
    # Ours differs from the reference as the reference does from itself.
    Fault("sampler_race", "sampler-2", {"race": True}, "", ("every-run",),
          ("race-in-state",), noise=True, verdict="within-noise|different"),
]

#: Right runs, and what looks like a fault and is none. `ours` is the order of
#: summation; "same" has the reference run once more.
CONTROLS = [
    Fault(f"control_{name}", model, setting, "", kinds, ("",), verdict=verdict)
    for model in ("gpt", "llama", "conv-group", "conv-batch", "cache-gpt",
                  "cache-llama", "sampler-1", "sampler-2")
    for name, setting, verdict, kinds in (
        ("same", {"ours": "native"}, "same", ()),
        # 16 bits may round both orders to the same.
        ("order", {}, "within-noise|same", ()),
        ("cast", {"ref_dtype": "fp32"}, "within-noise", ()),
        ("tf32", {"ours": "tf32"}, "within-noise", ("precision",)))
] + [
    Fault("control_int8", "cache-llama", {"int8": True}, f"{K}.k_cache",
          ("quantized",), ("",)),
]


class Pair:
    """One fault in one dtype, size and seed."""

    def __init__(self, fault, dtype, size, seed):
        self.fault, self.dtype, self.size, self.seed = \
            fault, dtype, size, seed
        self.name = "-".join((fault.name, fault.model, *self.variant(),
                              dtype, size, str(seed)))

    def variant(self):
        """What tells faults of one name and model apart."""
        kind = self.fault.setting.get("weights", ("",))[0] \
            or self.fault.setting.get("layout", "")
        return (kind,) if kind else ()

    def run(self, dtype, order, faulty, lap=0):
        """The tape of one run."""
        with torch.no_grad():
            return self._run(dtype, order,
                             self.fault.setting if faulty else {}, lap)

    def _run(self, dtype, order, setting, lap):
        torch.manual_seed(0)
        tape, ops = Tape(), Arithmetic(dtype, order)
        family, _, option = self.fault.model.partition("-")
        if family in ("gpt", "llama"):
            weights, ids = transformer.trained(family, self.size, self.seed)
            used = changed(weights, setting.get("weights"), self.seed)
            tape.weights(_cast(fused(used) if option else used, ops))
            if option:
                used = split(changed(fused(weights), setting.get("weights"),
                                     self.seed))
                tape = Tape()
                tape.weights(_cast(fused(used), ops))
            transformer.Port(family, self.size, used, ops, setting)(ids, tape)
        elif family == "conv":
            weights, x = convnet.trained(self.size, option, self.seed)
            tape.weights(_cast(weights, ops))
            convnet.forward(weights, ops, x, tape, option,
                            convnet.SIZES[self.size][2], setting)
        elif family == "cache":
            weights, _ = transformer.trained(option, self.size, self.seed)
            tape.weights(_cast(weights, ops))
            batch, length = (transformer.SIZES[self.size][3],
                             sum(decoding.LENGTHS[self.size]))
            vocabulary = next(iter(weights.values())).shape[0]
            ids = torch.randint(vocabulary, (batch, length),
                                generator=torch.Generator().manual_seed(
                                    self.seed))
            if "ours" not in setting and order == "native":
                decoding.full(option, self.size, weights, ops, ids, tape)
            else:
                decoding.cached(option, self.size, weights, ops, ids, tape,
                                setting)
        else:
            weights, start = sampler.trained(self.size, self.seed)
            tape.weights(_cast(weights, ops))
            race = torch.Generator().manual_seed(7 * self.seed + lap) \
                if self.fault.noise else None
            sampler.sample(self.size, weights, ops, start, tape, int(option),
                           setting, race)
        return tape

    def tapes(self):
        """(ref, ours, second run of ref or None)."""
        setting = self.fault.setting
        order = setting.get("ours", "parts")
        if self.fault.name == "control_same":
            return (self.run(self.dtype, "native", False),
                    self.run(self.dtype, "native", False), None)
        ref = self.run(setting.get("ref_dtype", self.dtype), "native", False)
        ours = self.run(self.dtype, order, True, lap=2)
        again = self.run(self.dtype, "native", False, lap=1) \
            if self.fault.noise else None
        return ref, ours, again

    def label(self, ref):
        """What should be told. `ref` is the tape of the reference."""
        fault = self.fault
        label = {"fault": fault.name, "model": fault.model,
                 "dtype": self.dtype, "size": self.size, "seed": self.seed,
                 "verdict": fault.verdict, "first": fault.first or None,
                 "at": None, "kinds": list(fault.kinds),
                 "classes": list(fault.classes), "noise": fault.noise,
                 "decidable": True}
        if not fault.first:
            return label
        places = [p for p, n in ref.names() if n == fault.first]
        place = places[fault.at or 0] if places else {}
        label["at"] = next(map(int, place.values()), None)
        if not places or fault.noise:
            return label
        if fault.name == "control_int8" and self.dtype == "bf16":
            # The grid is as fine as the format, near the largest values.
            label["verdict"] = "different|within-noise"
        if fault.name == "control_int8":
            return label
        exact, wrong = (self.tensor(self.run("fp64", order, faulty), place)
                        for order, faulty in (("native", False),
                                              ("parts", True)))
        effect = apart(wrong, exact)
        rounding = apart(self.tensor(ref, place), exact)
        if effect is not None and effect < UNDECIDED * rounding:
            label["decidable"] = False
            label["reason"] = (
                f"the fault moves {fault.first} by {effect:.2g} of its size, "
                f"{self.dtype} alone moves it by {rounding:.2g}")
        return label

    def tensor(self, tape, place):
        return next(tensors[self.fault.first] for p, tensors in tape.files
                    if p == place and self.fault.first in tensors)


def _cast(weights, ops):
    return {n: ops.cast(w) for n, w in weights.items()}


def changed(weights, change, seed):
    """A copy of the weights with a fault in some."""
    out = dict(weights)
    if not change:
        return out
    what, *names = change
    for name in names:
        w = out.get(name)
        if what == "transpose":
            out[name] = w.T.contiguous()
        elif what == "fresh":
            out[name] = 0.02 * torch.randn(
                w.shape, generator=torch.Generator().manual_seed(seed + 99))
        elif what == "drop":
            del out[name]
        elif what == "interleave":
            # Rows of each head from halves to neighbouring pairs.
            heads = {16: 2, 96: 4}[w.shape[0]]
            out[name] = w.view(heads, 2, -1, w.shape[1]).transpose(1, 2) \
                .reshape(w.shape).contiguous()
        elif what == "kqv" and f"{name}.attn.qkv.weight" in out:
            q, k, v = out[f"{name}.attn.qkv.weight"].chunk(3)
            out[f"{name}.attn.qkv.weight"] = torch.cat((k, q, v))
    return out


def fused(weights):
    """q, k and v of the GPT as one weight, as GPT-2's checkpoints have it."""
    out = {}
    for name, w in weights.items():
        head, _, last = name.rpartition(".attn.")
        if last == "q.weight":
            out[f"{head}.attn.qkv.weight"] = torch.cat(
                [weights[f"{head}.attn.{p}.weight"] for p in "qkv"])
        elif last not in ("k.weight", "v.weight"):
            out[name] = w
    return out


def split(weights):
    out = {}
    for name, w in weights.items():
        if name.endswith(".qkv.weight"):
            head = name.removesuffix("qkv.weight")
            for part, rows in zip("qkv", w.chunk(3)):
                out[f"{head}{part}.weight"] = rows
        else:
            out[name] = w
    return out


def expand():
    """All pairs in order."""
    for fault in (*F44, *F45, *F46, *CONTROLS):
        for dtype in DTYPES:
            # These are about float32 and what it is cast to.
            if fault.name == "control_cast" and dtype == "fp32" or \
                    fault.name == "control_tf32" and dtype != "fp32":
                continue
            for size in fault.sizes:
                for seed in fault.seeds:
                    yield Pair(fault, dtype, size, seed)
