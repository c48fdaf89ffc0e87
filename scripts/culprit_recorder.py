"""Records a PyTorch training run in a form that `culprit` reads.

One file, the standard library and torch (1.13 and later). Copy it beside the
training script:

    import culprit_recorder
    rec = culprit_recorder.watch(model, optimizer, dir="run")
    for batch in loader:
        rec.batch(**batch)          # optional: input_ids, labels, ...
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        rec.step(loss)              # once for each optimizer.step()
    rec.close()

Then `culprit diagnose run`. Checks on request, on the model as it is:

    culprit_recorder.battery(model, batch, dir="run", loss_fn=loss_fn)

What is written, what it costs and what it cannot see: docs/recorder.md.

How it works. Most steps are only counted: the loss, the gradient norm and what
the loop knows anyway go into a queue that is read one step later, so that a
GPU never waits. Every `every` steps one step is sampled: hooks are put on the
modules before it and taken off after it, so other steps run without hooks.
Where memory allows it, a ring keeps the batches and weights of the last two
steps; when the loss turns non-finite or jumps, the forward passes of both are
run once more from there and dumped. The recorder measures its own time and
samples less often when it exceeds `max_overhead` of the step time.
"""

import atexit
import contextlib
import copy
import inspect
import json
import math
import os
import platform
import random
import sys
import time
import weakref
import zlib

import torch

__version__ = "1.1"

# -- Files --------------------------------------------------------------------

SAFE_TYPES = {"float64": "F64", "float32": "F32", "float16": "F16",
              "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
              "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
              "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0",
              "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
              "uint64": "U64", "uint32": "U32", "uint16": "U16",
              "uint8": "U8", "bool": "BOOL"}


def raw_bytes(tensor):
    """The elements of a CPU tensor in order, little-endian, without NumPy."""
    flat = tensor.detach().contiguous().reshape(-1)
    if flat.numel() == 0:
        return b""
    flat = flat.view(torch.uint8) if flat.dtype != torch.uint8 else flat
    # A buffer over the tensor's memory: tolist() would take 50 times as long.
    import ctypes
    return ctypes.string_at(flat.data_ptr(), flat.numel())


def save_safetensors(path, tensors, metadata):
    """Writes {name: tensor}; `order` in the metadata keeps the dict's order.

    Tensors of a dtype that the format does not know become float32. The file
    appears whole: it is written beside its place and moved there.
    """
    header = {"__metadata__": dict(sorted(
        [(k, str(v)) for k, v in metadata.items()]
        + [("order", json.dumps(list(tensors)))]))}
    parts, at = [], 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu()
        kind = SAFE_TYPES.get(str(tensor.dtype).replace("torch.", ""))
        if kind is None:
            tensor, kind = tensor.float(), "F32"
        data = raw_bytes(tensor)
        header[name] = {"dtype": kind, "shape": list(tensor.shape),
                        "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    part = path + ".part"
    with open(part, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for data in parts:
            out.write(data)
    os.replace(part, path)
    return at + len(text) + 8


def short(value, digits=6):
    """A number of few digits for a line of JSON; None stays None."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    value = float(value)
    return float("%.*g" % (digits, value)) if math.isfinite(value) else value


class Lines:
    """A file of JSON objects, one a line. Lines go out whole, at the latest
    half a second after they came."""

    def __init__(self, path):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self.path, self.held, self.last = path, [], 0.0
        # A run that was killed may have left half a line; ours begins anew.
        try:
            with open(path, "rb+") as old:
                old.seek(0, os.SEEK_END)
                if old.tell():
                    old.seek(-1, os.SEEK_END)
                    if old.read(1) != b"\n":
                        old.write(b"\n")
        except OSError:
            pass

    def write(self, row):
        row = {k: v for k, v in row.items() if v is not None}
        self.held.append(json.dumps(row) + "\n")
        now = time.monotonic()
        if now - self.last > 0.5:
            self.flush(now)

    def flush(self, now=None):
        if self.held:
            with open(self.path, "ab", buffering=0) as out:
                out.write("".join(self.held).encode("utf-8"))
        self.held, self.last = [], now or time.monotonic()


def file_crc(path):
    """CRC-32 of a file's bytes; None where there is no such file."""
    try:
        with open(path, "rb") as file:
            return zlib.crc32(file.read())
    except OSError:
        return None


class Folder:
    """The names of the recorder's files in a folder that others write to.

    A file that somebody else wrote is never touched: what would be its name is
    then recorder.NAME, or recorder.2.NAME and so on. Which files are ours is
    kept in recorder.json, those written whole with the CRC-32 of what we wrote
    last: one that was changed since is somebody else's. Files of lines that
    are ours are appended to, by a run that is resumed as by one begun anew.
    """

    def __init__(self, dir, suffix=""):
        self.dir, self.ours = str(dir), {}
        for name in self.names("recorder%s.json" % suffix):
            self.state = name
            if not os.path.exists(self.at(name)):
                break
            found = self.of_recorder(self.at(name))
            if found is not None:
                for line in found.get("files", (
                        "metrics%s.jsonl" % suffix, "layers%s.jsonl" % suffix,
                        "recorder%s.log" % suffix)):
                    known, _, crc = str(line).partition(" ")
                    self.ours[known] = int(crc, 16) if crc else None
                break

    def at(self, name):
        return os.path.join(self.dir, name)

    @staticmethod
    def names(name):
        yield name
        yield "recorder." + name
        for i in range(2, 1000):
            yield "recorder.%d.%s" % (i, name)

    @staticmethod
    def of_recorder(path):
        """What a recorder.json of ours says; None where it is not ours."""
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)["recorder"]
            return found if "version" in found and "every" in found else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def lines(self, name):
        """The path of a file that lines are appended to."""
        for own in self.names(name):
            if own in self.ours or not os.path.exists(self.at(own)):
                self.ours[own] = None
                return self.at(own)

    def write(self, name, text):
        """Writes a file whole, in place of what we wrote there before."""
        data = text.encode("utf-8")
        for own in self.names(name):
            there = file_crc(self.at(own))
            if there is None and os.path.exists(self.at(own)):
                continue
            if there is None or there == self.ours.get(own):
                replace_file(self.at(own), data)
                self.ours[own] = zlib.crc32(data)
                return self.at(own)

    def write_state(self, value):
        value["files"] = [n if c is None else "%s %08x" % (n, c)
                          for n, c in sorted(self.ours.items())]
        replace_file(self.at(self.state), json_text({"recorder": value}))


def json_text(value):
    return json.dumps(value, indent=1, default=str) + "\n"


def replace_file(path, data):
    part = path + ".part"
    with open(part, "wb") as out:
        out.write(data if isinstance(data, bytes) else data.encode("utf-8"))
    os.replace(part, path)


# -- Names and numbers --------------------------------------------------------

WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def plain_name(name):
    """A module path without what DDP, FSDP and torch.compile add to it."""
    parts = [p for p in name.split(".") if p not in WRAPPERS]
    while len(parts) > 1 and parts[0] == "module":
        parts = parts[1:]
    return ".".join(parts)


def unwrapped(model):
    """The user's module below DDP, DataParallel, FSDP and torch.compile."""
    while True:
        children = model._modules
        for name in ("_orig_mod", "_fsdp_wrapped_module", "module"):
            inner = children.get(name)
            if inner is not None and (name != "module" or len(children) == 1):
                model = inner
                break
        else:
            return model


def is_sharded(model):
    """Whether parameters are spread over ranks (FSDP 1, or DTensor)."""
    if any(type(m).__name__ == "FullyShardedDataParallel"
           for m in model.modules()):
        return True
    return any(hasattr(p, "to_local") for p in model.parameters())


def is_compiled(module):
    return (type(module).__name__ == "OptimizedModule"
            or getattr(module, "_compiled_call_impl", None) is not None)


def local(tensor):
    """The part of a tensor on this rank, dense and without its graph."""
    tensor = tensor.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    if tensor.is_sparse:
        tensor = tensor.coalesce().values()
    return tensor


def norm_of(tensor, order=2):
    """A norm as a 0-d tensor; sums of half precision are kept in float32."""
    if tensor.dtype in (torch.float32, torch.float64):
        return torch.linalg.vector_norm(tensor, order)
    if not tensor.is_floating_point() or tensor.element_size() == 1:
        tensor = tensor.float()
    return torch.linalg.vector_norm(tensor, order, dtype=torch.float32)


def largest(tensor):
    """The largest magnitude; NaN where there is one."""
    try:
        low, high = torch.aminmax(tensor)
        return torch.maximum(-low, high)
    except RuntimeError:    # half precision on the CPU, before torch 2
        return norm_of(tensor, math.inf)


def norms_of(tensors):
    """Norms of many tensors, in few kernels where they are of one kind."""
    if (tensors and hasattr(torch, "_foreach_norm") and all(
            t.dtype == torch.float32 and t.numel()
            and t.device == tensors[0].device for t in tensors)):
        return list(torch._foreach_norm(tensors))
    return [norm_of(t) if t.numel() else t.new_zeros((), dtype=torch.float32)
            for t in tensors]


def spread(tensor, most):
    """At most about `most` elements, evenly spread, as a flat view."""
    flat = tensor.reshape(-1)
    stride = -(-flat.numel() // most)
    # An odd stride meets every column of a matrix of even width.
    return flat if stride <= 1 else flat[::stride + 1 - stride % 2]


def first_tensor(value):
    """The tensor that a module's output is about: its logits or hidden state,
    else the first that is found."""
    if torch.is_tensor(value):
        return value
    if isinstance(value, dict) or hasattr(value, "keys"):
        for key in ("logits", "last_hidden_state"):
            try:
                if torch.is_tensor(value[key]):
                    return value[key]
            except (KeyError, TypeError):
                pass
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            found = first_tensor(item)
            if found is not None:
                return found
    logits = getattr(value, "logits", None)
    return logits if torch.is_tensor(logits) else None


def checksum(tensor):
    """CRC-32 of a tensor's bytes."""
    return zlib.crc32(raw_bytes(tensor.detach().cpu()))


BATCH_NAMES = {"targets": "labels", "target": "labels", "y": "labels",
               "label": "labels", "tokens": "input_ids", "ids": "input_ids",
               "idx": "input_ids", "token_ids": "input_ids",
               "inputs": "input", "x": "input", "pixel_values": "input",
               "images": "input", "mask": "attention_mask"}


def batch_names(batch, detached=True):
    """The tensors of a batch under the names that culprit knows."""
    out = {}
    for name, value in batch.items():
        if not torch.is_tensor(value):
            continue
        name = BATCH_NAMES.get(name, name)
        if name in ("input", "input_ids") and value.dim():
            # Whole numbers are tokens, others are data.
            name = "input" if value.is_floating_point() or (
                value.dim() > 2 and name == "input") else "input_ids"
        out.setdefault(name, value.detach() if detached else value)
    return out


def input_of(batch):
    """What of a batch goes into the model: token ids, else data."""
    first = batch.get("input_ids")
    return batch.get("input") if first is None else first


def rng_state():
    """All generators that torch and the loop may draw from."""
    state = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        state["numpy"] = numpy.random.get_state()
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_rng_state(state):
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        sys.modules["numpy"].random.set_state(state["numpy"])
    if "cuda" in state:
        torch.cuda.set_rng_state_all(state["cuda"])


def autocast_state():
    """(device type, enabled, dtype) of autocast on CUDA and the CPU, now."""
    try:
        return [(kind, torch.is_autocast_enabled(kind),
                 torch.get_autocast_dtype(kind)) for kind in ("cuda", "cpu")]
    except (AttributeError, TypeError):  # before torch 2.4
        return [("cuda", torch.is_autocast_enabled(),
                 torch.get_autocast_gpu_dtype()),
                ("cpu", torch.is_autocast_cpu_enabled(),
                 torch.get_autocast_cpu_dtype())]


def world():
    """(rank, size) of this process."""
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    # Before init_process_group the launcher's words count.
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1


# -- One forward and backward pass, watched -----------------------------------

LIMITS = {"sigmoid": (0, 1), "tanh": (-1, 1), "hardsigmoid": (0, 1),
          "hardtanh": (-1, 1), "softsign": (-1, 1)}
ACTIVATIONS = set(LIMITS) | {"relu", "relu_", "gelu", "silu", "leaky_relu",
                             "elu", "mish", "hardswish", "selu", "relu6"}
MOST_ELEMENTS = 1 << 18     # for means over an activation


def cut(tensor, row, rows, most, square=False):
    """A copy of what of a tensor fits into `most` bytes: the row `row` of the
    batch, and of it the part that holds the first non-finite element, else
    the beginning. A square one (attention) stays square, from its corner."""
    if tensor.numel() * tensor.element_size() <= min(most, 1 << 14):
        return tensor.clone()
    if tensor.dim() > 1 and rows > 1 and tensor.shape[0] % rows == 0:
        step = tensor.shape[0] // rows
        tensor = tensor[row * step:(row + 1) * step]
    room = max(1, most // tensor.element_size())
    if tensor.numel() <= room:
        return tensor.clone()
    at = [0] * tensor.dim()
    if tensor.is_floating_point() and not square:
        bad = (~torch.isfinite(tensor.reshape(-1))).nonzero()
        if len(bad):
            flat = int(bad[0])
            for d in reversed(range(tensor.dim())):
                flat, at[d] = divmod(flat, tensor.shape[d])
    last = tensor.dim() - 2 if square else tensor.dim()
    for d in range(last):
        inner = tensor.numel() // tensor.shape[d]
        keep = min(tensor.shape[d], max(1, room // inner))
        tensor = tensor.narrow(d, min(at[d], tensor.shape[d] - keep), keep)
        if tensor.numel() <= room:
            break
    if square and tensor.numel() > room:
        side = max(2, math.isqrt(room) if hasattr(math, "isqrt")
                   else int(room ** 0.5))
        tensor = tensor[..., :side, :side]
    return tensor.clone()


class Ops(torch.overrides.TorchFunctionMode):
    """Sees the functions that a forward pass calls: attention scores and
    activations that are no modules and, in a replay, the first operation that
    makes something non-finite of finite inputs."""

    # These put infinities there on purpose, for a softmax to take away.
    MASKS = {"masked_fill", "masked_fill_", "where", "full", "full_like",
             "triu", "tril", "fill_", "__setitem__", "tensor"}

    def __init__(self, watch, every_op=False):
        super().__init__()
        self.watch, self.every_op, self.first = watch, every_op, {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if self.watch.busy:     # one of our own
            return out
        name = getattr(func, "__name__", "")
        self.watch.busy = True
        try:
            if name in ("softmax", "scaled_dot_product_attention") or \
                    name in ACTIVATIONS:
                self.watch.function(name, args, kwargs, out)
            if self.every_op and torch.is_tensor(out) \
                    and out.is_floating_point():
                self.check(name, args, out)
        except Exception as error:  # a measurement never stops a run
            self.watch.note("%s: %r" % (name, error))
        self.watch.busy = False
        return out

    def check(self, name, args, out):
        for kind, is_bad in (("NaN", torch.isnan), ("Inf", torch.isinf)):
            if kind in self.first or not bool(is_bad(out).any()):
                continue
            clean = all(bool(torch.isfinite(a).all()) for a in args
                        if torch.is_tensor(a) and a.is_floating_point())
            if kind == "Inf" and (name in self.MASKS or not clean):
                continue
            path, name = self.watch.path(), name.strip("_")
            self.first[kind] = (path, name, clean)
            given = next((a for a in args if torch.is_tensor(a)
                          and a.is_floating_point()), None)
            if clean and given is not None and given is not out:
                self.watch.hold(join(path, name + ".input"), given)
                self.watch.hold(join(path, name + ".output"), out)


class Watch:
    """The hooks of one sampled step, put on and taken off by the recorder.

    After the forward pass: `stats` by layer (0-d tensors on the device), and
    `kept`, thinned tensors by name in execution order. After the backward
    pass `grads`, the same of the gradients, in the order they were computed.
    """

    def __init__(self, model, most, note, dump=True, every_op=False):
        self.model, self.most, self.note = model, most, note
        self.dump, self.every_op = dump, every_op
        self.handles, self.stack, self.mode = [], [], None
        self.names = {}
        compiled = []
        for name, module in model.named_modules():
            if any(name.startswith(c) for c in compiled):
                continue
            if is_compiled(module):
                compiled.append(name + "." if name else "")
            if module is not model:
                self.names[module] = plain_name(name)
        self.compiled = compiled
        self.begin()

    def begin(self):
        self.stats, self.held, self.grads, self.kept = {}, {}, {}, {}
        self.seconds, self.rows, self.logits, self.bad = 0.0, 1, None, None
        self.calls, self.done, self.busy = {}, False, False
        self.stack, self.row, self.looked_up = [], 0, {}

    def install(self):
        if is_compiled(self.model):
            return
        for module in self.names:
            if type(module).__name__ in ("ModuleList", "ModuleDict"):
                continue
            self.handles.append(module.register_forward_pre_hook(
                Hook(self.enter)))
            self.handles.append(module.register_forward_hook(
                Hook(self.leave)))

    def remove(self):
        for handle in self.handles:
            handle.remove()
        self.handles = []
        self.close_mode()

    def open_mode(self):
        self.close_mode()
        if not is_compiled(self.model):
            self.mode = Ops(self, self.every_op)
            self.mode.__enter__()

    def close_mode(self):
        if self.mode is not None:
            mode, self.mode = self.mode, None
            self.last_mode = mode
            mode.__exit__(None, None, None)

    def path(self):
        return self.stack[-1] if self.stack else ""

    def enter(self, module, args):
        if self.done:       # a checkpointed forward pass, once more
            return
        name = self.names.get(module, "")
        self.stack.append(name)
        given = first_tensor(args)
        if given is not None and (torch.is_grad_enabled() or self.every_op):
            if isinstance(module, torch.nn.Embedding):
                self.looked_up[module] = (given.data_ptr(),
                                          tuple(given.shape))
            self.hold(name + ".input", given)

    def leave(self, module, args, out):
        if self.done:
            return
        begin = time.perf_counter()
        name = self.names.get(module, "")
        while self.stack and self.stack.pop() != name:
            pass
        self.busy = True
        try:
            made = first_tensor(out)
            if (torch.is_grad_enabled() or self.every_op) \
                    and made is not None and made.is_floating_point():
                kind = type(module).__name__.lower()
                self.output(name, made, LIMITS.get(kind))
        except Exception as error:
            self.note("%s: %r" % (name, error))
        self.busy = False
        self.seconds += time.perf_counter() - begin

    def function(self, name, args, kwargs, out):
        begin = time.perf_counter()
        if name in ACTIVATIONS:
            # nn.ReLU and the like are seen by their own hook.
            path = self.path()
            if not any(path.endswith(n) for n in self.leaves()):
                self.output(join(path, name.rstrip("_")), out,
                            LIMITS.get(name))
        elif torch.is_grad_enabled() or self.every_op:
            with torch.no_grad():
                self.attention(name, args, kwargs, out)
        self.seconds += time.perf_counter() - begin

    def leaves(self):
        if not hasattr(self, "own"):
            self.own = {n for m, n in self.names.items()
                        if type(m).__name__.lower() in ACTIVATIONS}
        return self.own & {self.path()}

    def output(self, name, tensor, limits):
        x = local(tensor)
        if x.numel() == 0:
            return
        some = spread(x, MOST_ELEMENTS)
        n = math.sqrt(some.numel())
        row = {"act_rms": norm_of(some) / n,
               "act_max": largest(x),
               "act_mean": some.mean(dtype=torch.float32),
               "zero_frac": 1 - torch.count_nonzero(some) / some.numel(),
               "nonfinite": None}
        # NaN and infinity pass through the largest magnitude; asking costs
        # nothing on the CPU, a look at every element is cheap elsewhere.
        if x.device.type != "cpu" or not math.isfinite(row["act_max"]):
            row["nonfinite"] = x.numel() - torch.isfinite(x).sum()
        else:
            row["nonfinite"] = torch.zeros(())
        if limits:
            edge = 0.01 * (limits[1] - limits[0])
            row["saturated_frac"] = (
                (some < limits[0] + edge) | (some > limits[1] - edge)
            ).float().mean()
        if name not in self.stats:
            row["dtype"] = str(x.dtype).replace("torch.", "")
            self.stats[name] = row
        self.hold(name + ".output", tensor)
        if tensor.requires_grad and torch.is_grad_enabled():
            tensor.register_hook(unsaved(
                lambda grad: self.backward(name, grad)))

    def hold(self, name, tensor, square=False):
        if not self.dump:
            return
        count = self.calls[name] = self.calls.get(name, -1) + 1
        if count < 8:
            key = name if count == 0 else "%s.%d" % (name, count)
            x = local(tensor)
            self.held[key] = (x, x._version, square)

    def backward(self, name, grad):
        begin = time.perf_counter()
        grad = local(grad)
        if name in self.grads or not self.dump:
            return
        if grad.dim() > 1 and self.rows > 1 and grad.shape[0] == self.rows:
            # A sum is not finite where an element is not, and is much cheaper.
            if grad.device.type == "cpu" and math.isfinite(grad.sum()):
                grad = grad[:1]
            else:
                bad = (~torch.isfinite(grad)).flatten(1).any(1)
                grad = grad.index_select(0, bad.int().argmax().view(1))
        self.grads[name] = cut_plain(grad, self.most)
        self.seconds += time.perf_counter() - begin

    def attention(self, name, args, kwargs, out):
        """max_logit and attn_entropy_share of a softmax over keys."""
        if name == "softmax":
            scores = args[0] if args else kwargs.get("input")
            axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if scores is None or scores.dim() < 3 or axis not in (
                    -1, scores.dim() - 1) or scores.shape[-1] < 2:
                return
            if scores.dim() == 3 and scores.shape[-1] != scores.shape[-2]:
                return  # a router or the model's own output
            scores, probs = scores[:1].float(), out[:1].float()
            # A mask is an infinity or a large number; NaN is no mask.
            seen = ~((scores < -1e4) & ~(probs > 0))
        else:
            scores, seen, probs = self.scores_of(*args, **kwargs)
            if scores is None:
                return
        keys = seen.sum(-1)
        entropy = -(probs * probs.clamp_min(1e-30).log()).sum(-1)
        many = keys > 1
        share = torch.where(many, entropy / keys.clamp_min(2).log(),
                            torch.zeros_like(entropy))
        layer = join(self.path(), "scores")
        if layer in self.stats:
            return
        self.stats[layer] = {
            "attn_entropy_share": share.sum() / many.sum(),
            "max_logit": scores.masked_fill(~seen, 0).abs().max()}
        square = scores.shape[-1] == scores.shape[-2]
        scores = scores.masked_fill(~seen & (scores < -1e4), 0)
        self.hold(layer + ".output", scores, square)
        self.hold(join(self.path(), "probs.output"), probs, square)

    @staticmethod
    def scores_of(query, key, value, attn_mask=None, dropout_p=0.0,
                  is_causal=False, scale=None, **_):
        """What fused attention does not give out, of the first row and as many
        heads as stay below 16 million scores."""
        q, k = query[:1].detach(), key[:1].detach()
        if q.dim() < 3 or k.shape[-2] < 2 or not torch.is_tensor(q):
            return None, None, None
        if q.dim() == 4:
            heads = max(1, (1 << 24) // (q.shape[-2] * k.shape[-2]))
            q = q[:, :heads]
            if k.shape[1] != q.shape[1]:
                k = k[:, :1].expand(-1, q.shape[1], -1, -1) \
                    if heads < key.shape[1] or q.shape[1] % k.shape[1] else \
                    k.repeat_interleave(q.shape[1] // k.shape[1], 1)
        size = q.shape[-1] ** -0.5 if scale is None else scale
        scores = (q.float() @ k.float().transpose(-1, -2)) * size
        seen = torch.ones_like(scores, dtype=torch.bool)
        if is_causal:
            seen = seen.tril()
        if attn_mask is not None:
            mask = attn_mask[:1] if attn_mask.dim() == scores.dim() \
                else attn_mask
            if mask.dim() == 4 and mask.shape[1] > 1:
                mask = mask[:, :scores.shape[1]]
            if mask.dtype == torch.bool:
                seen = seen & mask
            else:
                scores = scores + mask.float()
                seen = seen & (mask > -1e4)
        probs = scores.masked_fill(~seen, -math.inf).softmax(-1)
        return scores, seen, probs

    def finish(self, logits=None, rows=1):
        """After the forward pass: picks the row to keep and thins. Reads the
        counts of non-finite elements, so a GPU is waited for here."""
        self.rows, self.done = rows, True
        self.close_mode()
        if logits is not None:
            self.logits = logits.detach()
            if not any(k.endswith("head.output") for k in self.held):
                self.hold("head.output", logits)
        names = [n for n, s in self.stats.items() if "nonfinite" in s]
        if names:
            counts = torch.stack([self.stats[n]["nonfinite"].float()
                                  for n in names]).tolist()
            self.bad = next((n for n, c in zip(names, counts) if c), None)
        row = 0
        if self.bad is not None:
            row = self.bad_row(self.held.get(self.bad + ".output"))
        self.row = row
        for key, (tensor, version, square) in self.held.items():
            if tensor._version != version:
                continue    # changed in place since; not what it was
            self.kept[key] = cut(tensor, row, rows, self.most, square)
        self.held = {}

    def bad_row(self, held):
        if held is None or held[0].dim() < 2 or self.rows < 2 \
                or held[0].shape[0] % self.rows:
            return 0
        bad = ~torch.isfinite(held[0])
        first = bad.flatten(1).any(1).int().argmax()
        return int(first) // (held[0].shape[0] // self.rows)

    def numbers(self):
        """The statistics as numbers, with one read of the device."""
        keys, values = [], []
        for layer, row in self.stats.items():
            for key, value in row.items():
                if torch.is_tensor(value):
                    keys.append((layer, key))
                    values.append(value.float().reshape(()))
        found = torch.stack(values).tolist() if values else []
        out = {layer: {"dtype": row["dtype"]} if "dtype" in row else {}
               for layer, row in self.stats.items()}
        for (layer, key), value in zip(keys, found):
            out[layer][key] = int(value) if key == "nonfinite" else value
        return out


def cut_plain(tensor, most):
    """A copy of the first rows of a tensor that fit into `most` bytes."""
    room = max(1, most // tensor.element_size())
    for d in range(tensor.dim()):
        if tensor.numel() <= room:
            break
        inner = tensor.numel() // tensor.shape[d]
        tensor = tensor.narrow(d, 0, max(1, room // inner))
    return tensor.clone()


def join(path, name):
    return path + "." + name if path else name


def nothing(*args, **kwargs):
    """What a hook becomes in a copy of the model."""


def give_nothing():
    return nothing


is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling",
                       lambda: False)


def unsaved(hook):
    """A hook of a tensor that torch.save leaves behind without a warning."""
    hook.__torch_unserializable__ = True
    return hook


class Hook:
    """A hook that stays behind when the model is copied or saved whole."""

    def __init__(self, call):
        self.call, self.__name__ = call, "culprit_recorder"

    def __call__(self, *args, **kwargs):
        # A compiler that traces the model must not trace the recorder.
        if is_compiling():
            return None
        return self.call(*args, **kwargs)

    def __deepcopy__(self, memo):
        return nothing

    def __reduce__(self):
        return give_nothing, ()


# -- The forward passes of a step ---------------------------------------------

def with_graph(value, most=4):
    """The first tensors in a model's output that a gradient can come to."""
    found, todo = [], [value]
    for _ in range(64):
        if not todo or len(found) == most:
            break
        value = todo.pop(0)
        if torch.is_tensor(value):
            if value.requires_grad:
                found.append(value)
        elif isinstance(value, dict):
            todo[:0] = list(value.values())
        elif isinstance(value, (list, tuple)):
            todo[:0] = value[:64]
        elif hasattr(value, "__dict__"):
            todo[:0] = list(vars(value).values())
    return found


class Passes:
    """The forward passes of a step, each a dict, and which of them the step
    trains on: those to whose output a gradient came back. What a policy did in
    its world, and what was looked at without an update, is none of them.

    In the first COUNTED steps the backward passes are told apart by the
    .grad of some parameters: where a pass finds gradients of the same step
    there, it adds to them.
    """

    KEPT, COUNTED = 8, 2

    def __init__(self, gradients=None):
        """`gradients()` gives the .grad of some parameters; None: nothing is
        counted."""
        self.gradients = gradients
        self.counts = [] if gradients else [0] * self.COUNTED
        self.begin()

    def begin(self):
        self.kept, self.number, self.last = [], 0, None
        self.fresh, self.trained = [], 0
        self.backward, self.state = [], None

    def add(self, call):
        """A forward pass. The first ones are kept, and always the last."""
        self.number += 1
        call.update(number=self.number, used=False)
        self.last = call
        self.keep(call)

    def keep(self, call):
        """In place of the latest that was not trained on, if there is one."""
        if any(c is call for c in self.kept):
            return
        if len(self.kept) == self.KEPT:
            idle = [i for i, c in enumerate(self.kept) if not c["used"]]
            del self.kept[idle[-1] if idle else -1]
        self.kept.append(call)
        self.kept.sort(key=lambda c: c["number"])

    def came_back(self, call, grad, counted=True):
        """A gradient has come to the output of a pass."""
        if call["used"]:
            return
        call["used"] = True
        self.fresh.append(call)
        self.keep(call)
        if counted and len(self.counts) < self.COUNTED:
            self.count(call, grad)

    def take(self):
        """The passes trained on that were not taken before, in order."""
        calls, self.fresh = sorted(self.fresh, key=lambda c: c["number"]), []
        self.trained += len(calls)
        return calls

    def calls(self):
        """What is kept of the passes trained on; of all where none is known
        to be."""
        return [c for c in self.kept if c["used"]] or self.kept

    def alone(self):
        """Whether the last pass is the only one trained on."""
        if self.trained + len(self.fresh) == 0:
            return self.number == 1
        return self.trained + len(self.fresh) == 1 and self.last["used"]

    def count(self, call, grad):
        grads = self.gradients()
        state = [None if g is None else (g.data_ptr(), g._version)
                 for g in grads]
        adds = any(g is not None and bool(g.any()) for g in grads)
        if self.backward and state == self.state:
            self.backward[-1].append(call)  # two passes, one way back
        elif adds:
            self.backward.append([call])
        else:       # they were zeroed: what came before is gone
            self.backward = [[call]]
        self.state = state
        given = first_tensor(list(call["args"])
                             + list(call["kwargs"].values()))
        call["shape"] = None if given is None or not given.dim() else (
            given.dim(), given.shape[0])
        call["sign"] = 0 if grad.numel() < 2 else \
            1 if bool((grad >= 0).all()) else -1 if bool((grad <= 0).all()) \
            else 0

    def end_step(self):
        """Counts the backward passes of the step: 0 where it is not sure that
        they are parts of one batch. True when the last step is counted."""
        if len(self.counts) >= self.COUNTED:
            return False
        groups = self.backward
        calls = [c for group in groups for c in group]
        shapes, signs = {c["shape"] for c in calls}, {c["sign"] for c in calls}
        # A discriminator is pushed up by all of one pass, down by the other.
        alike = len({len(group) for group in groups}) == 1 \
            and len(shapes) == 1 and None not in shapes \
            and not {1, -1} <= signs
        self.counts.append(len(groups) if alike else 0)
        return len(self.counts) == self.COUNTED

    def accumulated(self):
        """Backward passes a step that add to the same gradients, or None."""
        counts = set(self.counts)
        return counts.pop() if len(self.counts) == self.COUNTED \
            and len(counts) == 1 and max(counts) > 1 else None


# -- What the modules tell of a model -----------------------------------------

def is_stack(blocks):
    """Whether modules are the repeated blocks of a deep model: of one class
    and with attention, or several with normalisation or recurrence. Experts
    and heads are not."""
    blocks = list(blocks)
    if not blocks or len({type(b) for b in blocks}) > 1 \
            or not blocks[0]._modules:
        return False
    kinds = [type(m).__name__.lower() for m in blocks[0].modules()]
    if any("attention" in k or "attn" in k for k in kinds):
        return True
    return len(blocks) > 1 and any(
        "norm" in k or k in ("lstm", "gru", "rnn") for k in kinds)


def depth_of(model):
    """How many repeated blocks a model has: the length of its outermost
    ModuleList of such. None where there is none, where there are some of
    several lengths, and where blocks hold blocks (the stages of a pyramid)."""
    lists = [(name + ".", m) for name, m in model.named_modules()
             if isinstance(m, torch.nn.ModuleList)]
    stacks = [(name, m) for name, m in lists if is_stack(m)]
    outer = [(name, m) for name, m in stacks if not any(
        name != other and name.startswith(other) for other, _ in lists)]
    if any(name != other and name.startswith(other)
           for name, _ in stacks for other, _ in outer):
        return None
    lengths = {len(m) for _, m in outer}
    return lengths.pop() if len(lengths) == 1 else None


# -- Gradient clipping, whose result is the norm before it --------------------

RECORDERS = []
CLIPS = [(torch.nn.utils, "clip_grad_norm_"),
         (torch.nn.utils.clip_grad, "clip_grad_norm_")]
ORIGINAL = {}


def clip_grad_norm_(parameters, max_norm, *args, **kwargs):
    """torch's, and the recorders learn of the norm before clipping."""
    if torch.is_tensor(parameters):
        parameters = [parameters]
    parameters = list(parameters)
    watching = [r for r in RECORDERS
                if not r.napping and r.owns(parameters)]
    for recorder in watching:
        recorder.before_clip()
    total = ORIGINAL["clip_grad_norm_"](parameters, max_norm, *args, **kwargs)
    for recorder in watching:
        recorder.after_clip(max_norm, total)
    return total


def patch_clipping(on):
    for place, name in CLIPS:
        if on and name not in ORIGINAL:
            ORIGINAL[name] = getattr(place, name)
        if name in ORIGINAL:
            setattr(place, name, clip_grad_norm_ if on else ORIGINAL[name])


# -- The recorder -------------------------------------------------------------


def safely(method):
    """A measurement that fails is noted and never stops the run."""
    def call(self, *args, **kwargs):
        if self.closed or self.busy or self.napping:
            return None
        begin = time.perf_counter()
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self.note("%s: %r" % (method.__name__, error))
            return None
        finally:
            self.own += time.perf_counter() - begin
    call.__name__, call.__doc__ = method.__name__, method.__doc__
    return call


class Recorder:
    """See `watch`. One object a rank; its methods never raise."""

    def __init__(self, model, optimizer=None, dir="run", every=25,
                 max_overhead=0.02, scaler=None, config=None, first_step=0,
                 max_dump_bytes=256 << 20, max_tensor_bytes=128 << 10,
                 max_ring_bytes=512 << 20, max_onsets=3, dump_every=None,
                 dumps=True, free_seconds=1.0):
        self.model, self.inner = model, unwrapped(model)
        self.optimizers = [] if optimizer is None else list(optimizer) \
            if isinstance(optimizer, (list, tuple)) else [optimizer]
        self.dir, self.scaler, self.dumps = str(dir), scaler, dumps
        self.free_seconds = free_seconds
        self.every = self.interval = max(1, int(every))
        self.max_overhead, self.dump_every = max_overhead, dump_every
        self.max_dump_bytes, self.most = max_dump_bytes, max_tensor_bytes
        self.max_ring_bytes, self.max_onsets = max_ring_bytes, max_onsets
        self.rank, self.size = world()
        self.suffix = ".rank%d" % self.rank if self.size > 1 else ""
        self.folder = Folder(self.dir, self.suffix)
        self.k, self.last_step = first_step, None
        self.closed = self.busy = False
        self.own = self.own_total = self.onset_seconds = 0.0
        self.notes, self.changes, self.written = {}, [], []
        self.dump_bytes, self.skipped = 0, 0
        self.user_config = config
        self.sharded = is_sharded(model)
        self.device = next((p.device for p in model.parameters()),
                           torch.device("cpu"))
        self.refresh()
        os.makedirs(self.dir, exist_ok=True)
        self.metrics = Lines(self.folder.lines(self.file("metrics%s.jsonl")))
        self.layers = Lines(self.folder.lines(self.file("layers%s.jsonl")))
        self.log = None
        self.pending, self.history = None, {"loss": [], "grad_norm": []}
        self.onsets, self.nonfinite_seen = [], False
        self.clean_dump = self.shadow = None
        self.plain_times, self.plain_own, self.sampled_own = [], [], []
        self.ring, self.ring_seconds = [], []
        weights = sum(p.numel() * p.element_size() for p in self.parameters)
        late = self.device.type == "cuda"
        self.ring_depth = 3 if late else 2
        # Its replays would need the other ranks.
        self.ring_weights = (dumps and not self.sharded
                             and weights * self.ring_depth <= max_ring_bytes)
        self.every_norm = True
        self.began = self.ended = time.perf_counter()
        self.state = rng_digests()
        self.precision = None
        self.settings, self.size_found = {}, {}
        self.passes = Passes(None if self.sharded or any(
            "lbfgs" in type(o).__name__.lower() for o in self.optimizers)
            else self.some_gradients)
        self.new_step()
        self.sample_next = True
        self.prev_grads = None
        self.target, self.handles = self.hook_target(), []
        self.attach()
        self.write_manifest()
        self.write_config()
        self.write_state()
        self.arm()
        self.ended = time.perf_counter()

    def file(self, name):
        return name % self.suffix

    def some_gradients(self):
        """The .grad of the first, a middle and the last trained parameter."""
        some = [p for p in self.parameters if p.requires_grad]
        some = [some[i] for i in sorted({0, len(some) // 2, len(some) - 1})] \
            if some else []
        return [None if p.grad is None or p.grad.is_sparse else p.grad
                for p in some]

    def note(self, text):
        """What could not be measured, once each."""
        if len(self.notes) < 50:
            self.notes[text] = self.notes.get(text, 0) + 1

    def change(self, text):
        self.changes.append("step %d: %s" % (self.k, text))
        self.write_state()

    def refresh(self):
        """The parameters as the model has them now."""
        self.named = {plain_name(n): p
                      for n, p in self.inner.named_parameters()}
        self.parameters = list(self.named.values())
        self.ids = {id(p) for p in self.parameters}
        self.paths = {}
        for name in self.named:
            self.paths[name] = name.rpartition(".")[0] or name

    def owns(self, parameters):
        return any(id(p) in self.ids for p in parameters[:64])

    def hook_target(self):
        """Whose forward pass is watched: outside of what is compiled."""
        module = self.model
        while module is not self.inner:
            if is_compiled(module):
                return module
            module = next(module._modules[n] for n in
                          ("_orig_mod", "_fsdp_wrapped_module", "module")
                          if module._modules.get(n) is not None)
        if is_compiled(module):
            self.note("activations: not measured, the model is compiled in "
                      "place; torch.compile(model) leaves its outside visible")
            return None
        return module

    def attach(self):
        if self.target is not None:
            if is_compiled(self.target):
                self.note("activations inside the compiled model: not "
                          "measured; record some steps without torch.compile")
            try:
                self.handles.append(self.target.register_forward_pre_hook(
                    Hook(self.before_forward), with_kwargs=True))
            except TypeError:   # before torch 2.0
                self.handles.append(self.target.register_forward_pre_hook(
                    Hook(self.before_forward)))
            self.handles.append(self.target.register_forward_hook(
                Hook(self.after_forward)))
        for optimizer in self.optimizers:
            if hasattr(optimizer, "register_step_pre_hook"):
                self.handles.append(optimizer.register_step_pre_hook(
                    Hook(self.before_update)))
            else:
                self.handles.append(StepWrapper(optimizer, self.before_update))
        RECORDERS.append(self)
        patch_clipping(True)
        atexit.register(self.close)

    # Around a step.

    def new_step(self):
        self.passes.begin()
        self.given_batch, self.given = None, 0
        self.crc, self.covered, self.ids_seen = None, [], 0
        self.rows_seen = set()
        self.total = self.norms = self.cosines = None
        self.before, self.weights_dump = None, {}
        self.grads_dump, self.lr = {}, None
        self.clip_seen = self.updated = self.validated = False
        self.data_time = None
        self.own = 0.0

    def arm(self):
        """Puts the hooks of a sampled step on, or leaves them off."""
        self.sampled, self.watching = self.sample_next, None
        self.sample_next = False
        if self.sampled:
            self.last_sample = self.k
            self.refresh()
            if self.target is not None:
                self.watching = Watch(self.inner, self.most, self.note,
                                      self.dumps)
                if not is_compiled(self.target):
                    self.watching.install()

    def started(self):
        """The data of the step are there."""
        if self.data_time is None:
            self.data_time = time.perf_counter() - self.ended

    @safely
    def batch(self, **tensors):
        """The tensors of the batch: input_ids, labels, attention_mask, ...

        Tensors on the CPU cost no synchronisation: call it before `.to()`.
        """
        self.started()
        self.given_batch = batch_names(tensors)
        if not self.given:
            self.crc, self.covered, self.ids_seen = None, [], 0
            self.rows_seen = set()
        self.given += 1
        self.cover(input_of(batch_names(tensors, detached=False)))

    @safely
    def before_forward(self, module, args, kwargs=None):
        if not torch.is_grad_enabled():
            self.validated = True
            return
        passes = self.passes
        if passes.number == 0:
            self.started()
        elif passes.fresh:
            self.cover_passes()
        call = {"args": args, "kwargs": kwargs or {}, "rng": None,
                "autocast": passes.kept[0]["autocast"] if passes.kept
                else autocast_state()}
        if self.ring_weights:
            call["rng"] = torch.get_rng_state()
            if self.device.type == "cuda":
                call["cuda"] = torch.cuda.get_rng_state(self.device)
        passes.add(call)
        if self.precision is None:
            self.precision = self.precision_of(call["autocast"])
        if self.watching is not None:
            self.watching.begin()
            if not is_compiled(self.target):
                self.watching.open_mode()

    @safely
    def after_forward(self, module, args, out):
        call = self.passes.last
        if call is None or not torch.is_grad_enabled():
            return
        # The hook holds the inputs as long as the output's graph is there.
        back = unsaved(lambda grad: self.came_back(call, grad))
        for tensor in [out] if torch.is_tensor(out) and out.requires_grad \
                else with_graph(out):
            tensor.register_hook(back)
        if self.watching is None or self.watching.done:
            return
        rows = first_tensor(list(call["args"])
                            + list(call["kwargs"].values()))
        rows = rows.shape[0] if rows is not None and rows.dim() else 1
        self.watching.finish(first_tensor(out), rows)

    @safely
    def came_back(self, call, grad):
        self.passes.came_back(call, grad, not self.updated)

    def cover_passes(self):
        """The inputs of the passes that were trained on since."""
        for call in self.passes.take():
            if not self.given:
                self.cover(input_of(self.call_tensors(call, detached=False)))

    def cover(self, tensor):
        """Continues the CRC-32 of the step's inputs, the batch_hash of the
        contract: over each one once, as a closure may want the same batch many
        times."""
        if tensor is None:
            return
        if not tensor.is_floating_point():
            self.ids_seen += tensor.numel()
        if tensor.dim():
            self.rows_seen.add(tensor.shape[0])
        if not (self.sampled or (tensor.device.type == "cpu"
                                 and self.count_batch)):
            return
        version = tensor._version
        if any(v == version and seen() is tensor for seen, v in self.covered):
            return
        if len(self.covered) < 64:
            self.covered.append((weakref.ref(tensor), version))
        data = raw_bytes(spread(tensor.detach(), 1 << 24).cpu())
        if self.crc is None:
            self.crc = zlib.crc32(data)
            self.crcs = {self.crc}
            return
        if len(data) <= 1 << 20:    # another tensor with the same batch?
            own = zlib.crc32(data)
            if own in self.crcs:
                return
            self.crcs.add(own)
        self.crc = zlib.crc32(data, self.crc)

    def precision_of(self, autocast):
        for kind, on, dtype in autocast:
            if on and kind == self.device.type:
                return {"torch.bfloat16": "bf16", "torch.float16": "fp16"}.get(
                    str(dtype), str(dtype))
        kinds = {str(p.dtype) for p in self.parameters}
        one = kinds.pop() if len(kinds) == 1 else "mixed"
        return {"torch.float32": "fp32", "torch.bfloat16": "bf16",
                "torch.float16": "fp16", "torch.float64": "fp64"}.get(one, one)

    # Gradients and the update.

    @safely
    def before_clip(self):
        if self.sampled and self.norms is None:
            self.measure_gradients()

    @safely
    def after_clip(self, limit, total):
        self.clip_seen = True
        self.settings.setdefault("max_grad_norm", short(limit))
        if torch.is_tensor(total) and not hasattr(total, "to_local"):
            self.total = total.detach()

    def measure_gradients(self):
        """Norms a parameter, and cosines with the step before."""
        names = [n for n, p in self.named.items() if p.grad is not None]
        grads = [local(self.named[n].grad) for n in names]
        self.norms = dict(zip(names, norms_of(grads)))
        if not self.sampled:
            return
        self.cosines = {}
        for name, grad in zip(names, grads):
            old = (self.prev_grads or {}).get(name)
            if old is not None:
                new = spread(grad, 1 << 16).float()
                self.cosines[name] = torch.stack(
                    ((new * old).sum(), (new * new).sum(), (old * old).sum()))
        if self.dumps:
            self.grads_dump = {n: cut_plain(g, self.most)
                               for n, g in zip(names, grads)}

    @safely
    def before_update(self, *_):
        if self.updated:
            return      # the second of several optimizers
        self.updated = True
        if self.optimizers:
            self.lr = self.optimizers[0].param_groups[0].get("lr")
            if torch.is_tensor(self.lr):
                self.lr = self.lr.detach().clone()
        if self.sampled or (self.every_norm and self.total is None):
            if self.norms is None:
                self.measure_gradients()
            if self.total is None and not self.sharded and self.norms:
                self.total = torch.stack(
                    [n.float() for n in self.norms.values()]).norm()
        if self.sampled:
            self.before = {n: spread(local(p), 1 << 20).clone()
                           for n, p in self.named.items()}
            if self.dumps:
                self.weights_dump = {n: cut_plain(local(p), self.most)
                                     for n, p in self.named.items()}
        self.prev_grads = None
        if self.k + 1 == self.next_sample():
            self.prev_grads = {
                n: spread(local(p.grad), 1 << 16).float().clone()
                for n, p in self.named.items()
                # The rows of a sparse gradient are others each step.
                if p.grad is not None and not p.grad.is_sparse}
        if self.ring_weights:
            self.push_ring()
        elif (self.device.type == "cpu" and self.dumps and self.may_dump()
              and not self.nonfinite_seen and self.scaler is None
              and self.total is not None
              and not math.isfinite(float(self.total))):
            # Weights are still those of this step: dumped on the spot.
            self.dump_onset_now("gradient norm = %s" % float(self.total))

    def push_ring(self):
        begin = time.perf_counter()
        if len(self.ring) >= self.ring_depth:
            entry = self.ring.pop(0)
            for old, p in zip(entry["weights"], self.parameters):
                old.copy_(p.detach())
        else:
            entry = {"weights": [p.detach().clone()
                                 for p in self.parameters]}
        entry.update(step=self.k, calls=self.passes.calls(),
                     batch=self.batch_tensors(),
                     grads={n: p.grad for n, p in self.named.items()
                            if p.grad is not None} if
                     self.device.type == "cpu" else {})
        self.ring.append(entry)
        self.ring_seconds.append(time.perf_counter() - begin)

    def next_sample(self):
        last = self.last_sample if self.last_sample is not None else self.k
        return last + self.interval

    last_sample, awake = None, 0

    def batch_tensors(self):
        """The batch of the last pass that was trained on, by culprit's
        names."""
        if self.given_batch is not None:
            return self.given_batch
        calls = self.passes.calls()
        return self.call_tensors(calls[-1]) if calls else {}

    forward_names = None

    def call_tensors(self, call, detached=True):
        if self.forward_names is None:
            try:
                self.forward_names = list(inspect.signature(
                    self.inner.forward).parameters)
            except (TypeError, ValueError):
                self.forward_names = []
        names, named = self.forward_names, {}
        for i, value in enumerate(call["args"]):
            if isinstance(value, dict) or hasattr(value, "keys"):
                named.update(value)
            else:
                named[names[i] if i < len(names) else "input%d" % i] = value
        named.update(call["kwargs"])
        out = batch_names(named, detached)
        # The first tensor is the input, whatever the argument is called.
        if out and "input_ids" not in out and "input" not in out:
            first = next(iter(out))
            value = out.pop(first)
            key = "input" if value.is_floating_point() else "input_ids"
            out = dict([(key, value)] + list(out.items()))
        return out

    # The step.

    def step(self, loss=None, step=None, grad_norm=None, **extra):
        """Once after each optimizer.step(), with the loss of the step.

        `grad_norm` is the norm before clipping, if the loop has it; other
        numbers are written under their names. Tensors are not waited for.
        """
        if self.closed:
            return
        if self.napping:
            self.k = self.k + 1 if step is None else int(step) + 1
            self.napping -= 1
            self.tokens += self.step_tokens
            if not self.napping:
                self.sample_next = self.k >= self.next_sample()
                self.arm()
                self.ended = time.perf_counter()
            return
        arrived = time.perf_counter()
        if step is not None:
            self.k = int(step)
        inside, self.own = self.own, 0.0
        if self.watching is not None:
            inside += self.watching.seconds
        wall = arrived - self.ended
        self.step_row(loss, grad_norm, extra, wall - inside)
        sampled = self.sampled
        self.next_turn()
        self.own = 0.0
        cost = inside + time.perf_counter() - arrived - self.turn_onset
        self.own_total += cost
        if not self.validated_last:
            if sampled:
                # The first one pays for what is loaded and compiled once.
                if self.k - 1 != self.first_k:
                    self.sampled_own.append((cost, wall - inside))
            else:
                self.plain_times.append(wall - inside)
                self.plain_own.append(cost)
        for times in (self.plain_times, self.plain_own, self.sampled_own,
                      self.ring_seconds):
            del times[:-64]
        if self.nap and not self.sampled:
            # Awake for the sampled step and the one before it.
            self.napping = max(0, min(self.nap,
                                      self.next_sample() - self.k - 1))
        self.ended = time.perf_counter()

    turn_onset, validated_last = 0.0, False
    nap = napping = 0

    @safely
    def step_row(self, loss, grad_norm, extra, seconds):
        self.turn_onset = 0.0
        row, queue = {"step": self.k}, {}

        def put(name, value):
            if value is None:
                return
            if torch.is_tensor(value):
                if value.numel() == 1:
                    queue[name] = local(value).reshape(()).float()
            else:
                row[name] = value
        put("loss", loss)
        if self.scaler is not None:
            put("loss_scale", getattr(self.scaler, "_scale", None))
        if self.lr is None and self.optimizers:     # the step was skipped
            self.lr = self.optimizers[0].param_groups[0].get("lr")
        put("lr", self.lr)
        put("grad_norm", grad_norm if grad_norm is not None else self.total)
        if self.optimizers and not self.updated:
            self.skipped += 1
        if self.skipped:
            row["skipped_steps"] = self.skipped
        if not self.validated:
            row["step_time"] = short(seconds)
            row["data_time"] = short(self.data_time)
        for name, value in extra.items():
            put(name, value)
        batch = self.batch_tensors()
        self.batch_columns(batch, put)
        if self.device.type == "cuda":
            row["memory_allocated"] = torch.cuda.memory_allocated(self.device)
        if self.k == self.first_k and batch:
            self.fill_settings(batch)
        if self.passes.end_step() and self.passes.accumulated():
            self.settings.setdefault("gradient_accumulation_steps",
                                     self.passes.accumulated())
            self.write_config()
        self.read_pending()
        self.pending = (row, queue, self.copy_out(queue))
        dump = None
        if self.sampled:
            totals, dump = self.finish_sample(loss, batch, grad_norm)
            row.update(totals)
        if self.device.type != "cuda":
            self.look(row, queue, dump)
        elif dump is not None:
            self.late_dump = dump

    late_dump = None

    @property
    def first_k(self):
        if self._first_k is None:
            self._first_k = self.k
        return self._first_k

    _first_k = None

    def batch_columns(self, batch, put):
        passes = self.passes
        self.cover_passes()
        first = input_of(batch)
        if first is None:
            return
        if not self.given and not passes.trained:   # the last one, by guess
            self.cover(first)
            self.ids_seen *= passes.number
        put("batch_hash", self.crc)
        if self.crc is not None and not first.is_floating_point():
            put("distinct_tokens", distinct(first))
        labels = batch.get("labels")
        if labels is not None and not labels.is_floating_point() \
                and "input_ids" in batch and (self.count_batch
                                              or self.sampled):
            put("loss_tokens", (labels != -100).sum())
        if "input_ids" in batch:
            # Who gives a batch once may train on it in several parts.
            self.step_tokens = self.ids_seen * max(1, (
                passes.trained or passes.number) // self.given
                if self.given else 1)
            self.tokens += self.step_tokens
            put("tokens", self.tokens)

    tokens, step_tokens, count_batch = 0, 0, True

    def copy_out(self, queue):
        """Starts the way of the step's scalars to the host."""
        if not queue or self.device.type != "cuda":
            return None
        packed = torch.stack([v.to(self.device) for v in queue.values()])
        host = torch.empty(packed.shape, dtype=packed.dtype, pin_memory=True)
        host.copy_(packed, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        return host, event

    def read_pending(self):
        """Writes the line of the step before, whose scalars have come."""
        if self.pending is None:
            return
        row, queue, moved = self.pending
        self.pending = None
        if moved is not None:
            host, event = moved
            event.synchronize()     # of a step ago: hardly ever a wait
            self.look(row, dict(zip(queue, host.tolist())), self.late_dump)
            self.late_dump = None
        row.pop("onset", None)
        if row:
            self.metrics.write({k: short(v) if k not in (
                "step", "batch_hash", "tokens", "memory_allocated") else v
                for k, v in row.items()})
            self.last_step = row["step"]

    def look(self, row, queue, dump):
        """The step's numbers are here: is it an onset?"""
        for name, value in queue.items():
            row[name] = float(value)
        for name in ("loss_tokens",):
            if name in row:
                row[name] = int(row[name])
        why = self.onset_of(row)
        if why:
            row["onset"] = True
            begin = time.perf_counter()
            self.dump_onset(row["step"], why, dump)
            self.turn_onset += time.perf_counter() - begin
            self.onset_seconds += self.turn_onset
            self.flush()
        elif dump is not None:
            self.clean_dump = dump
            if self.first_dump or (
                    self.dump_every and row["step"] >= self.dump_next):
                self.first_dump = False
                self.dump_next = row["step"] + (self.dump_every or 0)
                self.write_dump(dump)

    first_dump, dump_next = True, 0

    # A sampled step.

    def finish_sample(self, loss, batch, grad_norm):
        """Writes the rows of layers.jsonl. Returns the sums for metrics.jsonl
        and the dump of the step, which is kept until the next one."""
        watch = self.watching
        if watch is not None:
            watch.remove()
        stats = watch.numbers() if watch is not None else {}
        if self.norms is None and any(p.grad is not None
                                      for p in self.parameters):
            self.measure_gradients()    # a scaler skipped the update
        found = self.weight_numbers()
        layers = in_order(list(stats), self.paths.values())
        # The user's norm is from before clipping; ours may not be.
        own = math.sqrt(sum(f["grad"] ** 2 for f in found.values()
                            if f.get("grad") is not None))
        scale = 1.0
        if grad_norm is not None and not self.clip_seen and own > 0 \
                and math.isfinite(own):
            given = float(grad_norm)
            if given > 1.001 * own:
                scale = given / own
        sums = Sums()
        for layer in layers:
            row = dict(stats.get(layer, {}))
            part = Sums()
            for name, path in self.paths.items():
                if path == layer and name in found:
                    part.add(found[name])
                    sums.add(found[name])
            row.update(part.row(scale))
            if watch is not None and layer in watch.grads and not bool(
                    torch.isfinite(watch.grads[layer]).all()):
                row["nonfinite_grad_output"] = 1
            nonfinite, dtype = row.pop("nonfinite", None), row.pop("dtype",
                                                                    None)
            out = {"step": self.k, "layer": layer}
            out.update({k: short(v, 5) for k, v in row.items()
                        if v is not None})
            out["nonfinite"], out["dtype"] = nonfinite, dtype
            self.layers.write(out)
        dump = None
        if self.dumps:
            dump = {"step": self.k, "batch": dict(batch),
                    "weights": self.weights_dump, "grads": self.grads_dump,
                    "kept": watch.kept if watch is not None else {},
                    "grad_outputs": watch.grads if watch is not None else {},
                    "row": watch.row if watch is not None else 0,
                    "names": watch.names if watch is not None else {},
                    "loss": loss if self.passes.alone() else None,
                    "logits": watch.logits if watch is not None else None}
            dump["pair"] = self.logit_pair(dump)
            dump.pop("logits")
            dump["state"] = self.state_dump()
        totals = sums.row(1.0)
        return {"weight_norm": totals.get("weight_norm"),
                "update_ratio": totals.get("update_ratio"),
                "unchanged_share": totals.get("unchanged_frac"),
                "grad_cosine": totals.get("grad_cos")}, dump

    def weight_numbers(self):
        """Of each parameter what its layer's row is summed from, with one read
        of the device."""
        keys, values = [], []

        def put(name, key, value):
            keys.append((name, key))
            values.append(value.reshape(-1).float())
        found = {}
        for name, p in self.named.items():
            weight = local(p)
            if weight.numel() == 0:
                continue
            found[name] = {"count": weight.numel()}
            put(name, "weight", norm_of(weight))
            if self.norms and name in self.norms:
                put(name, "grad", self.norms[name])
            if self.cosines and name in self.cosines:
                put(name, "cosine", self.cosines[name])
            before = (self.before or {}).get(name)
            if before is not None:
                now = spread(weight, 1 << 20)
                put(name, "moved", norm_of(now.float() - before.float()))
                put(name, "same", (now == before).sum())
                found[name]["seen"] = now.numel()
            state = self.state_of(p)
            for key in ("exp_avg", "exp_avg_sq"):
                if torch.is_tensor(state.get(key)) and state[key].numel():
                    put(name, key, norm_of(local(state[key])))
            count = state.get("step")
            if torch.is_tensor(count):
                put(name, "count_step", count)
            elif count is not None:
                found[name]["count_step"] = float(count)
        if values:
            sizes = [v.numel() for v in values]
            flat = torch.cat([v.to(self.device) for v in values]).tolist()
            at = 0
            for (name, key), size in zip(keys, sizes):
                part = flat[at:at + size]
                found[name][key] = part[0] if size == 1 else part
                at += size
        return found

    def state_of(self, p):
        for optimizer in self.optimizers:
            if p in optimizer.state:
                return optimizer.state[p]
        return {}

    def state_dump(self):
        out = {}
        for name, p in self.named.items():
            state = self.state_of(p)
            for key in ("exp_avg", "exp_avg_sq"):
                if torch.is_tensor(state.get(key)):
                    out[name + "." + key] = cut_plain(local(state[key]),
                                                      self.most)
        return out

    def logit_pair(self, dump):
        """Logits with the ids and labels of the same rows and positions, where
        the whole of them is too large for the dump."""
        logits, batch = dump["logits"], dump["batch"]
        ids = batch.get("input_ids")
        if logits is None or ids is None or logits.dim() != 3 \
                or ids.shape != logits.shape[:2]:
            return None
        room = 32 * self.most // logits.element_size()
        rows, length, width = logits.shape
        if rows * length * width <= room:
            name = next((k for k in dump["kept"] if k.endswith("head.output")),
                        "head.output")
            dump["kept"][name] = logits.clone()
            return None
        if width > room:
            return None
        some = max(1, min(rows, room // (length * width)))
        most = length if length * width <= room else room // width
        first = dump["row"] if some == 1 else 0
        out = {"batch." + k: batch[k][first:first + some, :most].clone()
               for k in ("input_ids", "labels")
               if k in batch and batch[k].shape == ids.shape}
        out["head.output"] = logits[first:first + some, :most].clone()
        return out

    # Onsets.

    def onset_of(self, row):
        """Why the step is one to look at, or None."""
        loss, norm = row.get("loss"), row.get("grad_norm")
        why = None
        updated = self.updated or self.device.type == "cuda"
        for name, value in (("loss", loss), ("gradient norm", norm)):
            if value is None:
                continue
            # A scaler finds such gradients and skips the step, as it should.
            if not math.isfinite(value) and (name == "loss" or (
                    updated and self.scaler is None)):
                if not self.nonfinite_seen:
                    why = why or "%s = %s" % (name, value)
                self.nonfinite_seen = True
        for name, value, factor in (("loss", loss, 0),
                                    ("grad_norm", norm, 10)):
            past = self.history[name]
            if value is None or not math.isfinite(value):
                continue
            if len(past) >= 16:
                middle = median(past)
                wide = 1.4826 * median([abs(x - middle) for x in past])
                high = factor * middle if factor else \
                    middle + max(8 * wide, 0.5 * abs(middle))
                if value > high and (not self.onsets or row["step"]
                                     > self.onsets[-1] + 100):
                    why = why or "%s jumps to %.4g from about %.4g" % (
                        name, value, middle)
            past.append(value)
            del past[:-32]
        return why

    def may_dump(self):
        return len(self.onsets) < self.max_onsets

    def dump_onset(self, step, why, dump):
        """Dumps the step and the one before it."""
        if not self.may_dump() or step in self.onsets:
            return
        self.onsets.append(step)
        self.say("step %d: %s" % (step, why))
        if not self.dumps:
            return
        if self.clean_dump is not None:
            self.write_dump(self.clean_dump)
        entries = [e for e in self.ring if e["step"] in (step - 1, step)]
        if step == self.k and not self.updated and not (
                entries and entries[-1]["step"] == step):
            # The update was skipped: the weights are still those.
            entries.append({"step": step, "calls": self.passes.calls(),
                            "weights": None, "batch": self.batch_tensors(),
                            "grads": {
                                n: p.grad for n, p in self.named.items()
                                if p.grad is not None}})
        for entry in entries:
            again = self.replay(entry["calls"], entry["weights"],
                                entry["step"] == step)
            if dump is not None and entry["step"] == step:
                # Sampled, so it is there; the operation is not yet known.
                if again is not None and again["bad"] is not None:
                    dump.update({k: again[k] for k in (
                        "kept", "row", "first")})
                continue
            if again is not None:
                again.update(step=entry["step"], batch=entry["batch"],
                             grads={n: cut_plain(local(g), self.most)
                                    for n, g in entry["grads"].items()}
                             if entry["step"] == step else {})
                again["pair"] = self.logit_pair(again)
                if entry["step"] == step:
                    dump = again
                elif again["bad"] is None:
                    self.write_dump(again)
                else:   # it was finite then: the model is not what it was
                    self.note("step before the onset: run again it is not "
                              "finite, so it was not dumped")
        if dump is None:    # nothing to run again: the batch at least
            batch = self.batch_tensors()
            dump = {"step": step, "batch": batch, "kept": {}, "row": 0,
                    "weights": {}, "grads": {}} if step == self.k else None
        if dump is not None:
            self.name_birth(dump)
            self.write_dump(dump)

    def dump_onset_now(self, why):
        """The same from within optimizer.step(), without a ring."""
        self.onsets.append(self.k)
        self.nonfinite_seen = True
        self.say("step %d: %s" % (self.k, why))
        if self.clean_dump is not None:
            self.write_dump(self.clean_dump)
        begin = time.perf_counter()
        again = self.replay(self.passes.calls(), None, True)
        dump = again or {"kept": {}, "row": 0, "weights": {}}
        if self.norms is None:
            self.measure_gradients()
        dump.update(step=self.k, batch=self.batch_tensors(),
                    grads={n: cut_plain(local(p.grad), self.most)
                           for n, p in self.named.items()
                           if p.grad is not None})
        if again is not None:
            dump["pair"] = self.logit_pair(dump)
        self.name_birth(dump)
        self.write_dump(dump)
        self.flush()
        spent = time.perf_counter() - begin
        self.onset_seconds += spent
        self.own -= spent

    def replay(self, calls, weights, every_op):
        """Runs forward passes once more as they were, with these weights.
        Returns what the one that went bad, else the last, left behind."""
        if not calls or self.sharded or any(
                not c["args"] and not c["kwargs"] for c in calls):
            return None
        state, own = rng_state(), None
        watch, error = None, None
        buffers = [(b, b.detach().clone()) for b in self.inner.buffers()]
        if weights is not None:
            own = [p.detach().clone() for p in self.parameters]
            for p, old in zip(self.parameters, weights):
                p.data.copy_(old)
        thinned = {n: cut_plain(local(p), self.most)
                   for n, p in self.named.items()}
        for handle in (self.watching,) if self.watching is not None else ():
            handle.remove()
        self.busy = True
        try:
            for call in calls:
                watch = Watch(self.inner, self.most, self.note, True, every_op)
                watch.install()
                if call["rng"] is not None:
                    torch.set_rng_state(call["rng"])
                if "cuda" in call:
                    torch.cuda.set_rng_state(call["cuda"], self.device)
                with contextlib.ExitStack() as stack:
                    stack.enter_context(torch.no_grad())
                    for kind, on, dtype in call["autocast"]:
                        if on:
                            stack.enter_context(torch.autocast(
                                kind, dtype=dtype))
                    stack.callback(watch.remove)
                    watch.begin()
                    watch.every_op = True
                    watch.open_mode()
                    watch.mode.every_op = every_op
                    out = self.inner(*call["args"], **call["kwargs"])
                    rows = first_tensor(list(call["args"])
                                        + list(call["kwargs"].values()))
                    watch.finish(first_tensor(out), rows.shape[0]
                                 if rows is not None and rows.dim() else 1)
                if watch.bad is not None:
                    break
        except Exception as caught:
            error = caught
        finally:
            self.busy = False
            if own is not None:
                for p, old in zip(self.parameters, own):
                    p.data.copy_(old)
            for b, old in buffers:
                b.data.copy_(old)
            set_rng_state(state)
        if error is not None or watch is None:
            self.note("the onset could not be run again: %r" % (error,))
            return None
        return {"kept": watch.kept, "row": watch.row, "weights": thinned,
                "logits": watch.logits, "stats": watch.numbers(),
                "first": watch.last_mode.first, "names": watch.names,
                "bad": watch.bad}

    def name_birth(self, dump):
        """Logs the first module whose inputs are finite and whose output is
        not, and the first such gradient on the way back."""
        def finite(t):
            return not t.is_floating_point() or bool(torch.isfinite(t).all())
        kinds = {n: type(m).__name__ for m, n in dump.get("names", {}).items()}
        kept, at = dump["kept"], "step %d: " % dump["step"]
        for name, tensor in kept.items():
            layer, _, role = name.rpartition(".output")
            if finite(tensor) or not layer:
                continue
            given = kept.get(layer + ".input")
            clean = given is not None and finite(given)
            self.say(at + "forward: the output of %s%s is the first that is "
                     "not finite%s" % (
                         layer, " (%s)" % kinds[layer] if layer in kinds
                         else "", ", its input is, up to %.4g"
                         % float(given.float().abs().max()) if clean else ""))
            break
        for kind, (path, function, clean) in dump.get("first", {}).items():
            self.say(at + "forward: %s first made %s in %s%s" % (
                function, kind, path or "the model",
                " of finite inputs" if clean else ""))
        order = list(dump.get("grad_outputs", {}).items()) or [
            (n, g) for n, g in reversed(list(dump["grads"].items()))]
        before = None
        for name, grad in order:
            if not finite(grad):
                self.say(at + "backward: the gradient of %s is the first that "
                         "is not finite%s" % (
                             name, ", that of %s before it is" % before
                             if before else ""))
                break
            before = name

    def write_dump(self, dump):
        """One safetensors file in the order of execution; within the limits
        of a dump and of all dumps."""
        step = dump["step"]
        if step in self.written:
            return
        begin = time.perf_counter()
        out = {"batch." + n: t for n, t in dump["batch"].items()}
        out = {n: cut_plain(t, 8 * self.most) for n, t in out.items()}
        out.update(dump["weights"])
        out.update(dump["kept"])
        if torch.is_tensor(dump.get("loss")):
            out["loss.output"] = local(dump["loss"]).reshape(1)
        elif dump.get("loss") is not None:
            out["loss.output"] = torch.tensor([float(dump["loss"])])
        grads = dict(dump["grads"])
        for layer, grad in dump.get("grad_outputs", {}).items():
            out[layer + ".grad_output"] = grad
            for name in [n for n in grads if self.paths.get(n) == layer]:
                out[grad_name(name)] = grads.pop(name)
        for name in reversed(list(grads)):
            out[grad_name(name)] = grads[name]
        out.update(dump.get("state", {}))
        onset = step in self.onsets or step + 1 in self.onsets
        room = self.max_dump_bytes // 8
        size = weigh(out)
        most = self.most
        while size > room and most > 256:
            most //= 2
            out = {n: t if n.startswith("batch.") else cut_plain(t, most)
                   for n, t in out.items()}
            size = weigh(out)
        left = (self.max_dump_bytes if onset else self.max_dump_bytes // 2) \
            - self.dump_bytes
        if size > left:
            self.note("dump of step %d: left out, max_dump_bytes is reached"
                      % step)
            return
        info = {"step": step, "row": dump["row"]}
        if self.size > 1:
            info["rank"] = self.rank
        path = os.path.join(self.dir, "dumps", "step%06d" % step)
        self.dump_bytes += save_safetensors(
            path + self.suffix + ".safetensors", out, info)
        if dump.get("pair") and weigh(dump["pair"]) < left - size:
            info["variant"] = "head"
            self.dump_bytes += save_safetensors(
                path + ".head" + self.suffix + ".safetensors", dump["pair"],
                info)
        self.written.append(step)
        self.turn_onset += time.perf_counter() - begin

    # Keeping the cost down.

    @safely
    def next_turn(self):
        self.validated_last = self.validated
        self.awake += 1
        if self.plain_times and (self.sampled or self.awake % 16 == 0):
            self.adapt()
        for entry in self.ring:
            entry["grads"] = {}
        self.k += 1
        sampled = self.sampled
        self.new_step()
        self.sample_next = self.k >= self.next_sample()
        self.arm()
        if sampled:
            self.write_state()

    def adapt(self):
        """Measures less where the limit asks for it."""
        if len(self.plain_times) < 8 or self.own_total < self.free_seconds:
            return
        usual = median(self.plain_times)
        budget = self.max_overhead * usual
        plain = median(self.plain_own) if self.plain_own else 0.0
        if plain / (self.nap + 1) > 0.5 * budget:
            if self.ring_weights and median(self.ring_seconds or [0]) \
                    > 0.1 * budget:
                self.ring_weights, self.ring = False, []
                self.change("no copies of weights and batches are kept")
            elif self.count_batch:
                self.count_batch = False
                self.change("batches are counted at sampled steps only")
            elif self.every_norm and not self.clip_seen:
                self.every_norm = False
                self.change("gradient norms at sampled steps only")
            else:
                self.nap = min(1000, math.ceil(plain / (0.4 * budget)) - 1)
                self.change("one step in %d is looked at" % (self.nap + 1))
            if not self.nap:
                self.plain_own = []
            plain /= self.nap + 1
        costs = [cost + max(0.0, wall - usual)
                 for cost, wall in self.sampled_own[-4:]]
        if costs:
            left = max(budget - plain, 0.3 * budget, 1e-9)
            wanted = min(100000, max(self.every,
                                     math.ceil(median(costs) / left)))
            if wanted > 1.25 * self.interval or wanted < 0.7 * self.interval:
                self.interval = wanted
                self.change("a step is sampled every %d steps" % wanted)

    def overhead(self):
        """Share of the time since the beginning that went to the recorder,
        without what it wrote at onsets."""
        passed = time.perf_counter() - self.began - self.onset_seconds
        return self.own_total / passed if passed > 0 else 0.0

    # What else is written.

    def validation(self, loss, step=None):
        """The loss on held-out data, after the step it belongs to."""
        if self.closed:
            return
        self.validated = True
        loss = short(loss)
        if self.napping:
            self.read_pending()
        if self.pending is not None and step in (None,
                                                 self.pending[0]["step"]):
            self.pending[0]["val_loss"] = loss
        else:
            at = max(0, self.k - 1)
            self.metrics.write({"step": at if step is None else int(step),
                                "val_loss": loss})

    def say(self, text):
        """A line of recorder.log."""
        if self.log is None:
            self.log = open(self.folder.lines(self.file("recorder%s.log")),
                            "a", encoding="utf-8")
        self.log.write(time.strftime("%Y-%m-%d %H:%M:%S ") + "INFO "
                       + "culprit_recorder: " + text + "\n")
        self.log.flush()

    def flush(self):
        self.metrics.flush()
        self.layers.flush()

    def write_state(self):
        """recorder.json: what the recorder did and could not do."""
        share = self.overhead()
        usual = median(self.plain_times) if self.plain_times else None
        self.folder.write_state({
            "version": __version__, "steps": self.k, "every": self.every,
            "sampled_every": self.interval,
            "max_overhead": self.max_overhead,
            "own_share": short(share, 3),
            "own_seconds": short(self.own_total, 4),
            "onset_seconds": short(self.onset_seconds, 4),
            "usual_step_seconds": short(usual, 4),
            "own_seconds_a_step": short(
                median(self.plain_own) if self.plain_own else None, 3),
            "own_seconds_a_sample": short(
                median([c for c, _ in self.sampled_own])
                if self.sampled_own else None, 3),
            "looks_at_one_step_in": self.nap + 1,
            "weights_ring": self.ring_depth if self.ring_weights else 0,
            "norm_before_clipping": "read from clip_grad_norm_"
            if self.clip_seen_ever() else "read in optimizer.step",
            "compiled": is_compiled(self.model), "sharded": self.sharded,
            "dump_bytes": self.dump_bytes, "dumped_steps": self.written,
            "onsets": self.onsets, "changes": self.changes,
            "not_measured": sorted(self.notes)})

    def clip_seen_ever(self):
        return "max_grad_norm" in self.settings

    def write_manifest(self):
        """manifest.json and packages.txt: what a repeated run must share."""
        backends = torch.backends
        found = {
            "python": platform.python_version(), "torch": torch.__version__,
            "system": platform.platform(), "machine": platform.machine(),
            "torch_cuda": torch.version.cuda,
            "threads": torch.get_num_threads(),
            "torch_seed": torch.initial_seed(), "rng_state_crc": self.state,
            "deterministic_algorithms":
                torch.are_deterministic_algorithms_enabled(),
            "cudnn_deterministic": backends.cudnn.deterministic,
            "cudnn_benchmark": backends.cudnn.benchmark,
            "matmul_tf32": backends.cuda.matmul.allow_tf32,
            "cudnn_tf32": backends.cudnn.allow_tf32,
            "environment": {k: os.environ[k] for k in (
                "PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG", "OMP_NUM_THREADS",
                "NCCL_ALGO", "NCCL_PROTO", "TORCH_LOGS",
                "PYTORCH_CUDA_ALLOC_CONF") if k in os.environ},
            "parameters": sum(p.numel() for p in self.parameters),
            "parameters_without_gradient": [
                n for n, p in self.named.items() if not p.requires_grad][:200],
        }
        if torch.cuda.is_available():
            found["devices"] = [torch.cuda.get_device_name(i)
                                for i in range(torch.cuda.device_count())]
        self.folder.write(self.file("manifest%s.json"),
                          json_text({"manifest": found}))
        if self.rank:
            return
        try:
            from importlib import metadata
            names = sorted({"%s==%s" % (d.metadata["Name"], d.version)
                            for d in metadata.distributions()
                            if d.metadata["Name"]}, key=str.lower)
            self.folder.write("packages.txt",
                              "".join(n + "\n" for n in names))
        except Exception as error:
            self.note("packages: %r" % (error,))

    def write_config(self):
        """config.json, or recorder.config.json beside one of the user's: what
        the user set, as far as it can be seen; what `watch(config=...)` says
        comes first."""
        if self.rank:
            return
        found = {}
        own = getattr(self.inner, "config", None)
        if hasattr(own, "to_dict"):     # Transformers
            own = own.to_dict()
            for name, keys in MODEL_SETTINGS.items():
                for key in keys:
                    if isinstance(own.get(key), (int, float, str, bool)):
                        found.setdefault(name, own[key])
        size = dict(self.model_size(), **self.size_found)
        found.update({k: v for k, v in size.items() if k not in found})
        for optimizer in self.optimizers[:1]:
            groups = optimizer.param_groups
            found["optimizer"] = type(optimizer).__name__
            first = groups[0]
            found["lr"] = first.get("initial_lr", first.get("lr"))
            found["weight_decay"] = max((g.get("weight_decay") or 0)
                                        for g in groups)
            for key in ("betas", "eps", "momentum", "amsgrad", "nesterov"):
                if first.get(key) is not None:
                    found[key] = first[key]
        found = {k: list(v) if isinstance(v, tuple) else
                 float(v) if torch.is_tensor(v) else v
                 for k, v in found.items()}
        if torch.initial_seed() < 1 << 32:  # larger ones nobody types in
            found["seed"] = torch.initial_seed()
        found["world_size"] = self.size
        found["precision"] = self.precision
        found.update(self.settings)
        user = self.user_config
        if user is not None and not isinstance(user, dict):
            user = user.to_dict() if hasattr(user, "to_dict") else vars(user)
        found.update(user or {})
        self.config_text = json_text({k: v for k, v in found.items()
                                      if v is not None})
        self.config_path = self.folder.write("config.json", self.config_text)

    config_text = config_path = None

    def model_size(self):
        found = {"n_layer": depth_of(self.inner)}
        seen, shared = set(), False
        for module in self.inner.modules():
            for p in module._parameters.values():
                shared = shared or (p is not None and id(p) in seen)
                seen.add(id(p))
        if shared:
            found["tie_weights"] = True
        return found

    def fill_settings(self, batch):
        """What the first batch and step told."""
        if len(self.rows_seen) == 1:
            self.settings.setdefault("batch_size", min(self.rows_seen))
        logits = getattr(self.watching, "logits", None)
        shape = None if logits is None or not logits.dim() \
            else tuple(logits.shape)
        rows = self.vocabulary(batch, shape)
        classes = classes_of(shape, batch.get("labels"))
        # As wide as the vocabulary, and a label for each token: a language
        # model, whatever its output is padded to.
        if classes and not (rows and classes >= rows and
                            batch["labels"].shape[1:]):
            self.settings.setdefault("num_labels" if "input_ids" in batch
                                     else "num_classes", classes)
        self.write_config()

    def vocabulary(self, batch, shape):
        """Finds vocab_size and d_model, the shape of the table of tokens: as
        many rows as the output is wide, or looked up by the ids of the batch.
        Tables of users, of categories and of positions are none."""
        tables = [m for m in self.inner.modules()
                  if isinstance(m, torch.nn.Embedding)]
        widths = {shape[-1]} if shape else {
            m.out_features for m in self.inner.modules()
            if isinstance(m, torch.nn.Linear)}
        found = [m for m in tables if m.num_embeddings in widths]
        ids, last = batch.get("input_ids"), self.passes.last
        if not found and last is not None and ids is not None \
                and ids.dim() == 2 and ids.shape[1] > 1:
            given = self.call_tensors(last).get("input_ids", ids)
            rows = int(ids.max())
            looked_up = getattr(self.watching, "looked_up", {})
            found = [m for m in tables if m.num_embeddings > rows and
                     looked_up.get(m) == (given.data_ptr(), tuple(ids.shape))]
        if not found:
            return None
        table = max(found, key=lambda m: m.num_embeddings)
        self.size_found = {"vocab_size": table.num_embeddings,
                           "d_model": table.embedding_dim}
        return table.num_embeddings

    def close(self):
        """Writes what is still held, takes the hooks off."""
        if self.closed:
            return
        try:
            self.read_pending()
            # A trainer may have put the model's own config.json there since.
            if self.config_text is not None and file_crc(self.config_path) \
                    != zlib.crc32(self.config_text.encode("utf-8")):
                self.folder.write("config.json", self.config_text)
            if self.clean_dump is not None:
                self.write_dump(self.clean_dump)
            if self.watching is not None:
                self.watching.remove()
            self.write_state()
            self.flush()
        except Exception as error:
            print("culprit_recorder: %r" % (error,), file=sys.stderr)
        self.closed = True
        for handle in self.handles:
            handle.remove()
        if self in RECORDERS:
            RECORDERS.remove(self)
        if not RECORDERS:
            patch_clipping(False)
        if self.log is not None:
            self.log.close()
        atexit.unregister(self.close)
        self.ring, self.pending, self.clean_dump = [], None, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


MODEL_SETTINGS = {
    "vocab_size": ("vocab_size",), "n_layer": ("num_hidden_layers", "n_layer",
                                               "num_layers"),
    "n_head": ("num_attention_heads", "n_head"),
    "d_model": ("hidden_size", "n_embd", "d_model"),
    "context": ("max_position_embeddings", "n_positions"),
    "eos_token_id": ("eos_token_id",), "bos_token_id": ("bos_token_id",),
    "pad_token_id": ("pad_token_id",),
    "tie_word_embeddings": ("tie_word_embeddings",),
    "hidden_act": ("hidden_act", "activation_function"),
    "is_encoder_decoder": ("is_encoder_decoder",),
    "model_type": ("model_type",)}


def classes_of(shape, labels):
    """How many classes an output of this shape has: the axis that it has more
    than its integer labels. None where the labels are not such."""
    if labels is None or shape is None or labels.is_floating_point() \
            or len(shape) != labels.dim() + 1 or not labels.numel():
        return None
    rest = tuple(labels.shape)
    axis = len(shape) - 1 if rest == shape[:-1] else \
        1 if rest == shape[:1] + shape[2:] else None
    if axis is None or shape[axis] < 2:
        return None
    return shape[axis] if int(labels.max()) < shape[axis] else None


class Sums:
    """The numbers of a layer, or of the model, from those of parameters."""

    def __init__(self):
        self.count = self.seen = 0
        self.sums, self.steps = {}, []

    def add(self, found):
        self.count += found["count"]
        size = found["count"]
        for key in ("weight", "grad", "exp_avg", "exp_avg_sq"):
            if key in found:
                self.plus(key, found[key] ** 2)
        if "moved" in found:
            # Of a sample of the elements, taken for all of them.
            share = size / found["seen"]
            self.plus("moved", found["moved"] ** 2 * share)
            self.plus("same", found["same"] * share)
            self.plus("same_of", size)
        for i, value in enumerate(found.get("cosine", ())):
            self.plus("cosine%d" % i, value)
        if "count_step" in found:
            self.steps.append(found["count_step"])

    def plus(self, key, value):
        self.sums[key] = self.sums.get(key, 0.0) + value

    def row(self, scale):
        s = {k: v if k in ("same", "same_of") or k.startswith("cosine")
             else math.sqrt(v) if v >= 0 else v for k, v in self.sums.items()}
        out, root = {}, math.sqrt(self.count) if self.count else 1.0
        if "grad" in s:
            out["grad_norm"] = s["grad"] * scale
        size = s.get("cosine1", 0.0) * s.get("cosine2", 0.0)
        if size > 0 and math.isfinite(size):
            out["grad_cos"] = s["cosine0"] / math.sqrt(size)
        if "weight" in s:
            out["weight_norm"] = s["weight"]
            out["weight_rms"] = s["weight"] / root
        if "moved" in s:
            if s["weight"] > 0:
                out["update_ratio"] = s["moved"] / s["weight"]
            out["update_rms"] = s["moved"] / root
            out["unchanged_frac"] = s["same"] / s["same_of"]
        if self.steps:
            out["optimizer_state_step"] = min(self.steps)
        for key in ("exp_avg", "exp_avg_sq"):
            if key in s:
                out[key + "_rms"] = s[key] / root
        return out


class StepWrapper:
    """optimizer.register_step_pre_hook for torch before 2.0."""

    def __init__(self, optimizer, hook):
        self.optimizer, self.step = optimizer, optimizer.step
        original = optimizer.step

        def step(*args, **kwargs):
            hook(optimizer)
            return original(*args, **kwargs)
        step.__wrapped__ = original
        if hasattr(original, "_with_counter"):
            step._with_counter = original._with_counter
        optimizer.step = self.mine = step

    def remove(self):
        # A scheduler may have wrapped it since; then it stays, without effect.
        if self.optimizer.__dict__.get("step") is self.mine:
            self.optimizer.step = self.step


def in_order(executed, registered):
    """Layers in the order of execution; one whose weight is used without a
    call comes after the one that was registered before it."""
    out, before = list(executed), None
    for layer in dict.fromkeys(registered):
        if layer not in out:
            out.insert(out.index(before) + 1 if before else 0, layer)
        before = layer
    return out


def distinct(ids):
    """How many different whole numbers a tensor holds."""
    flat = ids.detach().reshape(-1)
    if flat.numel() and int(flat.min()) >= 0 and int(flat.max()) < 1 << 20:
        return int(torch.count_nonzero(torch.bincount(flat)))
    return len(torch.unique(flat))


def grad_name(name):
    return (name[:-len(".weight")] if name.endswith(".weight") else name) \
        + ".grad"


def weigh(tensors):
    return sum(t.numel() * t.element_size() for t in tensors.values())


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else \
        (values[middle - 1] + values[middle]) / 2


def rng_digests():
    """A short digest of every generator, to compare two runs by."""
    out = {}
    for name, state in rng_state().items():
        if name == "torch":
            out[name] = checksum(state)
        elif name == "cuda":
            out[name] = [checksum(s) for s in state]
        else:
            out[name] = zlib.crc32(repr(state).encode())
    return out


def watch(model, optimizer=None, dir="run", **options):
    """Begins to record a run into the folder `dir`; returns its Recorder.

    model, optimizer  As they are trained: wrapped, compiled, one optimizer or
                      a list. Call it after wrapping and before training.
    every             Steps between two sampled steps, at least (25).
    max_overhead      Share of the step time that the recorder may take (0.02),
    free_seconds      once it has taken this much in all (1 s), so that a short
                      run is recorded in full.
    scaler            The GradScaler, if there is one.
    config            A dict or object with settings to keep in config.json;
                      `freeze`: [names] declares what is frozen on purpose.
    first_step        Number of the first step (0).
    dumps             False writes no tensors at all.
    dump_every        Steps between two dumps without an onset (none).
    max_dump_bytes    Limit of all dumps together (256 MiB).
    max_tensor_bytes  Limit of one tensor in a dump (128 KiB).
    max_ring_bytes    Limit of the weights kept for an onset (512 MiB).
    max_onsets        Onsets that are dumped (3).
    """
    return Recorder(model, optimizer, dir, **options)


# -- The battery: checks on request -------------------------------------------

@contextlib.contextmanager
def restored(model, optimizer=None, train=None):
    """Leaves weights, buffers, gradients, modes, the optimizer and all random
    generators as they were."""
    weights = {k: v.detach().clone() if torch.is_tensor(v) else v
               for k, v in model.state_dict().items()}
    grads = [(p, p.grad) for p in model.parameters()]
    modes = [(m, m.training) for m in model.modules()]
    state = copy.deepcopy(optimizer.state_dict()) if optimizer else None
    rng = rng_state()
    for p, _ in grads:
        p.grad = None
    if train is not None:
        model.train(train)
    try:
        yield
    finally:
        with torch.no_grad():
            model.load_state_dict(weights)
        for p, grad in grads:
            p.grad = grad
        for module, mode in modes:
            module.training = mode
        if optimizer:
            optimizer.load_state_dict(state)
        set_rng_state(rng)


@contextlib.contextmanager
def without_dropout(model):
    """Train mode, but nothing is dropped."""
    old = []
    for module in model.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            old.append((module, "p", module.p))
            module.p = 0.0
        elif isinstance(getattr(module, "dropout", None), float):
            old.append((module, "dropout", module.dropout))
            module.dropout = 0.0
    try:
        yield
    finally:
        for module, name, value in old:
            setattr(module, name, value)


def tensors_of(batch):
    if torch.is_tensor(batch):
        return {"input" if batch.is_floating_point() else "input_ids": batch}
    if isinstance(batch, (list, tuple)):
        first = batch[0]
        names = ["input" if first.is_floating_point() else "input_ids",
                 "labels"]
        return dict(zip(names, batch))
    return batch_names(dict(batch))


def call_model(model, batch, forward=None, **options):
    """The model's output for a batch: model(**batch) where its forward takes
    input_ids by name, else model(first tensor)."""
    if forward is not None:
        return forward(model, batch)
    try:
        names = inspect.signature(unwrapped(model).forward).parameters
    except (TypeError, ValueError):
        names = {}
    if "input_ids" in names and "input_ids" in batch:
        given = {k: v for k, v in batch.items()
                 if k in names and k != "labels"}
        given.update({k: v for k, v in options.items() if k in names or any(
            p.kind == p.VAR_KEYWORD for p in names.values())})
        return model(**given)
    return model(batch["input_ids"] if "input_ids" in batch
                 else batch["input"])


def logits_of(model, batch, forward=None):
    out = first_tensor(call_model(model, batch, forward))
    if out is None:
        raise ValueError("the model's output holds no logits: give "
                         "forward=lambda model, batch: logits")
    return out


def loss_of(model, batch, loss_fn, forward=None):
    """The loss of a batch: of `loss_fn(model, batch)`, of a model that gives
    its loss, else the cross-entropy against the labels as they are."""
    if loss_fn is not None:
        return loss_fn(model, batch)
    names = inspect.signature(unwrapped(model).forward).parameters
    if "labels" in names and "labels" in batch and forward is None:
        out = model(**{k: v for k, v in batch.items() if k in names})
        loss = out["loss"] if isinstance(out, dict) else getattr(
            out, "loss", out[0] if isinstance(out, tuple) else None)
        if loss is not None:
            return loss
    logits = logits_of(model, batch, forward)
    labels = batch["labels"]
    if logits.dtype != torch.float64:
        logits = logits.float()
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels.reshape(-1),
        ignore_index=-100)


def probe_file(dir, name, tensors, **info):
    probe, _, variant = name.partition(".")
    variant = variant.partition(".")[0]
    info = dict({"probe": probe}, **info)
    if variant:
        info["variant"] = variant
    path = os.path.join(str(dir), "battery", name + ".safetensors")
    save_safetensors(path, {"battery.%s.%s" % (probe, n): t
                            for n, t in tensors.items()}, info)
    return path


def fewer_columns(logits, most=256):
    """Logits of evenly spread tokens where the vocabulary is larger."""
    width = logits.shape[-1]
    if width <= most:
        return logits
    pick = torch.arange(most, device=logits.device) * (width - 1) // (most - 1)
    return logits.index_select(-1, pick)


def check_overfit(model, batch, dir="run", loss_fn=None, forward=None,
                  optimizer_factory=None, steps=200, lr=1e-3):
    """Trains on one batch again and again, without dropout and weight decay:
    battery/metrics.jsonl. A healthy model learns it by heart."""
    batch = tensors_of(batch)
    path = os.path.join(str(dir), "battery", "metrics.jsonl")
    if os.path.exists(path):
        os.remove(path)
    lines = Lines(path)
    with restored(model, train=True), without_dropout(model):
        some = [p for p in model.parameters() if p.requires_grad]
        optimizer = optimizer_factory(some) if optimizer_factory else \
            torch.optim.AdamW(some, lr=lr)
        for group in optimizer.param_groups:
            if "weight_decay" in group:
                group["weight_decay"] = 0.0
        for i in range(steps):
            optimizer.zero_grad()
            loss = loss_of(model, batch, loss_fn, forward)
            loss.backward()
            norms = norms_of([local(p.grad) for p in some
                              if p.grad is not None])
            norm = float(torch.stack(norms).norm()) if norms else 0.0
            optimizer.step()
            value = float(loss.detach())
            lines.write({"step": i, "overfit_loss": short(value),
                         "overfit_grad_norm": short(norm)})
            if not math.isfinite(value):
                break
    lines.flush()
    return path


def check_causal_mask(model, batch, dir="run", forward=None):
    """Logits of one row, and of the row with all tokens from position j on
    changed, for three j: what comes before j must not move."""
    batch = tensors_of(batch)
    ids = batch["input_ids"][:1].clone()
    length = ids.shape[1]
    vocab = int(batch["input_ids"].max()) + 1
    paths = []
    with restored(model, train=False), torch.no_grad():
        for i, at in enumerate(sorted({max(1, length // 4),
                                       max(1, length // 2),
                                       max(1, 3 * length // 4)})):
            changed = ids.clone()
            # The token after each one, within the tokens that occur.
            changed[:, at:] = (changed[:, at:] + 1) % max(2, vocab)
            for variant, row in (("base", ids), ("changed", changed)):
                part = {k: v[:1] for k, v in batch.items()
                        if k != "labels" and v.dim()}
                part["input_ids"] = row
                logits = fewer_columns(logits_of(model, part, forward))
                name = "causal_mask.%s" % variant + (
                    ".step%d" % i if i else "")
                paths.append(probe_file(
                    dir, name, {"input_ids": row.long(), "logits": logits},
                    step=i, position=at))
    return paths


def first_keys(past):
    """The keys of the first layer of a cache of Transformers, of any age."""
    layers = getattr(past, "layers", None)
    if layers:
        return getattr(layers[0], "keys", None)
    keys = getattr(past, "key_cache", None)
    if keys:
        return keys[0]
    return past[0][0] if isinstance(past, (list, tuple)) else None


def cached_logits(model, ids, prompt):
    """Logits position by position with the model's own cache, as generate()
    takes them, and the first layer's keys; for models that take
    past_key_values and use_cache."""
    out = model(input_ids=ids[:, :prompt], use_cache=True)
    parts = [out.logits]
    for t in range(prompt, ids.shape[1]):
        out = model(input_ids=ids[:, t:t + 1], use_cache=True,
                    past_key_values=out.past_key_values)
        parts.append(out.logits)
    return torch.cat(parts, 1), first_keys(out.past_key_values)


def keys_by_place(keys, places):
    """[rows, heads, places, width] as [rows, places, some of heads x width];
    a cache that is longer is cut, one that is shorter filled with zeros."""
    if keys.dim() == 4:
        keys = keys.transpose(1, 2).flatten(2)
    keys = fewer_columns(keys[:, :places], 64)
    out = keys.new_zeros(keys.shape[0], places, keys.shape[2])
    out[:, :keys.shape[1]] = keys
    return out


def check_cache(model, batch, dir="run", cached_forward=None, forward=None,
                rows=2, prompt=None):
    """Logits of the same ids in one pass, with a cache, and with a cache each
    row alone.

    `cached_forward(model, ids, prompt_length)` gives the logits [B, T, V], or
    these and the keys [B, heads, T, D] (or [B, T, D]) that the first layer's
    cache holds at the end; models of Transformers need none. The keys tell a
    wrong position from a wrong place in the cache and from a wrong mask.
    """
    batch = tensors_of(batch)
    ids = batch["input_ids"][:rows]
    length = ids.shape[1]
    prompt = prompt or max(1, length // 2)
    if cached_forward is None:
        names = inspect.signature(unwrapped(model).forward).parameters
        if "past_key_values" not in names:
            raise ValueError("the model takes no past_key_values: give "
                             "cached_forward=lambda model, ids, prompt: logits")
        cached_forward = cached_logits

    def both(made):
        return made if isinstance(made, tuple) else (made, None)
    paths = []
    with restored(model, train=False), torch.no_grad():
        full = logits_of(model, {"input_ids": ids}, forward)
        made, keys = both(cached_forward(model, ids, prompt))
        # With all of the ids as prompt nothing is decoded.
        whole = both(cached_forward(model, ids, length))[1] \
            if keys is not None else None
        found = [("full", full, whole), ("cached", made, keys)]
        if len(ids) > 1:    # rows that are right alone take each other's cache
            alone = [both(cached_forward(model, ids[i:i + 1], prompt))
                     for i in range(len(ids))]
            found.append(("alone", torch.cat([a[0] for a in alone]),
                          None if keys is None
                          else torch.cat([a[1] for a in alone])))
        for variant, logits, own in found:
            tensors = {"input_ids": ids.long(), "logits": fewer_columns(logits),
                       "prompt_length": torch.tensor([prompt])}
            if whole is not None:
                tensors["keys"] = keys_by_place(own, length)
            paths.append(probe_file(dir, "kv_cache." + variant, tensors,
                                    step=0))
    return paths


def check_batch(model, batch, dir="run", batched_forward=None, forward=None,
                rows=4, pad=None, most=128):
    """Logits of prompts of several lengths, each alone and all as the rows of
    one padded batch: padded on the right, on the left, and both again with
    another token as padding, which must not matter.

    `batched_forward(model, ids, mask)` gives the logits [B, T, V] as the
    serving code computes them; without it the model gets attention_mask, and
    position_ids that count from each row's first token, as far as it takes
    them. A model that takes no mask is padded on the right only.
    """
    batch = tensors_of(batch)
    ids = batch["input_ids"][:rows, :most]
    rows, length = ids.shape
    if rows < 2 or length < 4:
        raise ValueError("two rows of four tokens at least")
    lengths = [length - i * max(1, length // (2 * rows)) for i in range(rows)]
    pad = 0 if pad is None else pad
    other = next((int(i) for i in ids.reshape(-1) if int(i) != pad), pad)
    sides = ("right", "left")
    if batched_forward is None:
        names = inspect.signature(unwrapped(model).forward).parameters
        if forward is None and "attention_mask" not in names:
            sides = ("right",)

        def batched_forward(model, ids, mask):
            places = (mask.long().cumsum(1) - 1).clamp(min=0)
            return logits_of(model, {"input_ids": ids, "attention_mask": mask,
                                     "position_ids": places}, forward)

    def padded(side, token):
        """Logits of each row's own tokens, from place 0 on."""
        full = torch.full_like(ids, token)
        mask = torch.zeros_like(ids)
        spans = [slice(0, n) if side == "right" else slice(length - n, length)
                 for n in lengths]
        for i, (n, span) in enumerate(zip(lengths, spans)):
            full[i, span], mask[i, span] = ids[i, :n], 1
        logits = fewer_columns(batched_forward(model, full, mask))
        out = torch.zeros_like(logits)
        for i, (n, span) in enumerate(zip(lengths, spans)):
            out[i, :n] = logits[i, span]
        return out
    paths = []
    with restored(model, train=False), torch.no_grad():
        single = None
        for i, n in enumerate(lengths):
            row = fewer_columns(batched_forward(
                model, ids[i:i + 1, :n], torch.ones_like(ids[i:i + 1, :n])))
            if single is None:
                single = row.new_zeros(rows, length, row.shape[-1])
            single[i, :n] = row[0]
        found = {"single": single}
        for side in sides:
            found[side] = padded(side, pad)
            found[side + "_other"] = padded(side, other)
        for variant, logits in found.items():
            paths.append(probe_file(dir, "batch_rows." + variant, {
                "input_ids": ids.long(), "logits": logits,
                "lengths": torch.tensor(lengths)}, step=0))
    return paths


class InDouble(torch.overrides.TorchFunctionMode):
    """Leaves float64 as it is where the code asks for float32: a loss in
    float32 is too coarse for differences."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        def wide(x):
            return torch.float64 if x is torch.float32 else x
        if func is torch.Tensor.float:
            return args[0].double()
        return func(*[wide(a) for a in args],
                    **{k: wide(v) for k, v in (kwargs or {}).items()})


def check_gradient(model, batch, dir="run", loss_fn=None, forward=None,
                   parameters=24, elements=4, seconds=60.0):
    """The gradient that backward() gives against central differences, in
    float64 on a copy, for several step sizes."""
    begin = time.perf_counter()
    batch = tensors_of(batch)
    rng = rng_state()
    own = copy.deepcopy(unwrapped(model)).double()
    own.eval()
    batch = {k: v[:2].double() if v.is_floating_point() else v[:2]
             for k, v in batch.items()}
    sizes = [1e-2, 1e-3, 1e-4, 1e-5, 1e-6]
    out = {"step_sizes": torch.tensor(sizes, dtype=torch.float64)}

    def loss():
        set_rng_state(rng)
        with InDouble():
            return loss_of(own, batch, loss_fn, forward)
    try:
        own.zero_grad()
        loss().backward()
        named = [(n, p) for n, p in own.named_parameters() if p.requires_grad]
        stride = max(1, -(-len(named) // parameters))
        pick = torch.Generator().manual_seed(0)
        for name, p in named[::stride]:
            grad = p.grad if p.grad is not None else torch.zeros_like(p)
            flat = grad.detach().reshape(-1)
            # The largest ones, and as many by lot.
            large = flat.abs().topk(min(elements // 2, flat.numel())).indices
            lot = torch.randint(flat.numel(), (elements - len(large),),
                                generator=pick).to(large.device)
            at = torch.cat([large, lot])
            numeric = torch.zeros(len(sizes), len(at), dtype=torch.float64)
            with torch.no_grad():
                values = p.data.view(-1)
                for h, size in enumerate(sizes):
                    for j, i in enumerate(at.tolist()):
                        keep = float(values[i])
                        h_of = size * max(1.0, abs(keep))
                        values[i] = keep + h_of
                        up, high = float(loss()), float(values[i])
                        values[i] = keep - h_of
                        down, low = float(loss()), float(values[i])
                        values[i] = keep
                        numeric[h, j] = (up - down) / (high - low)
            out[plain_name(name) + ".analytic"] = flat[at].double().cpu()
            out[plain_name(name) + ".numeric"] = numeric
            if time.perf_counter() - begin > seconds:
                break
    finally:
        set_rng_state(rng)
    return probe_file(dir, "gradient", out)


def heads(tensors, count=8):
    """The first elements of every tensor, in one vector."""
    parts = [t.detach().reshape(-1)[:count].float().cpu() for t in tensors]
    return torch.cat(parts) if parts else torch.zeros(0)


def check_determinism(model, batch, dir="run", loss_fn=None, forward=None,
                      optimizer_factory=None, model_factory=None,
                      batch_factory=None, steps=4, seed=1234, lr=1e-3):
    """Trains some steps twice from one seed and keeps what the two share.

    `model_factory()` builds a new model and `batch_factory()` gives an
    iterable of batches; without them the two begin with the weights and the
    batch given.
    """
    paths = []
    for variant in ("first", "second"):
        with restored(model, train=True):
            torch.manual_seed(seed)
            random.seed(seed)
            numpy = sys.modules.get("numpy")
            if numpy is not None and hasattr(numpy, "random"):
                numpy.random.seed(seed)
            own = model_factory() if model_factory else model
            batches = iter(batch_factory()) if batch_factory else None
            some = [p for p in own.parameters() if p.requires_grad]
            optimizer = optimizer_factory(some) if optimizer_factory else \
                torch.optim.AdamW(some, lr=lr)
            out, losses = {"init": heads(own.parameters())}, []
            for i in range(steps):
                this = tensors_of(next(batches)) if batches else \
                    tensors_of(batch)
                if i == 0:
                    out["batch"] = next(iter(this.values()))
                    with torch.no_grad():
                        keep = rng_state()
                        out["forward"] = fewer_columns(
                            logits_of(own, this, forward)[:4])
                        set_rng_state(keep)
                optimizer.zero_grad()
                loss = loss_of(own, this, loss_fn, forward)
                loss.backward()
                if i == 0:
                    out["gradient"] = heads(p.grad for p in some
                                            if p.grad is not None)
                optimizer.step()
                if i == 0:
                    out["update"] = heads(own.parameters())
                losses.append(float(loss.detach()))
            out["loss"] = torch.tensor(losses, dtype=torch.float64)
        paths.append(probe_file(dir, "determinism." + variant, out))
    return paths


def check_template(template, dir="run"):
    """Token ids of one conversation as training and as serving render it.

    `template` is {"train": ids, "serve": ids} with texts under train_text and
    serve_text if there are any, or (tokenizer, messages): then the ids of
    apply_chat_template against those of its text, tokenized as a server that
    adds special tokens does it.
    """
    if not isinstance(template, dict):
        tokenizer, messages = template
        text = tokenizer.apply_chat_template(messages, tokenize=False,
                                             add_generation_prompt=True)
        ids = tokenizer.apply_chat_template(messages, tokenize=True,
                                            add_generation_prompt=True)
        template = {"train": ids["input_ids"] if hasattr(ids, "keys") else ids,
                    "serve": tokenizer(text)["input_ids"],
                    "train_text": text, "serve_text": text}
    paths = []
    for variant in ("train", "serve"):
        ids = template[variant]
        ids = ids() if callable(ids) else ids
        ids = torch.as_tensor(ids, dtype=torch.int64).reshape(-1)
        paths.append(probe_file(dir, "template." + variant, {"ids": ids},
                                text=template.get(variant + "_text", "")))
    return paths


def battery(model, batch=None, dir="run", loss_fn=None, forward=None,
            optimizer_factory=None, cached_forward=None, template=None,
            model_factory=None, batch_factory=None, steps=200, only=None,
            batched_forward=None):
    """Runs the checks that can be run and returns {name: paths or why not}.

    model, batch   The batch is a dict with input_ids (or input) and labels, a
                   pair of the two, or a tensor.
    loss_fn        loss_fn(model, batch) -> loss, as in training.
    forward        forward(model, batch) -> logits, where model(input_ids) or
                   model(**batch).logits does not do.
    only           Names of the checks to run: overfit, causal_mask, cache,
                   batch, gradient, determinism, template.
    The others are those of the checks. Each leaves the model as it was.
    """
    common = {"dir": dir, "forward": forward}
    train = dict(common, loss_fn=loss_fn, optimizer_factory=optimizer_factory)
    checks = {
        "causal_mask": lambda: check_causal_mask(model, batch, **common),
        "cache": lambda: check_cache(model, batch,
                                     cached_forward=cached_forward, **common),
        "batch": lambda: check_batch(model, batch,
                                     batched_forward=batched_forward,
                                     **common),
        "gradient": lambda: check_gradient(model, batch, loss_fn=loss_fn,
                                           **common),
        "determinism": lambda: check_determinism(
            model, batch, model_factory=model_factory,
            batch_factory=batch_factory, **train),
        "overfit": lambda: check_overfit(model, batch, steps=steps, **train),
        "template": lambda: check_template(template, dir)}
    results = {}
    for name, check in checks.items():
        if only is not None and name not in only:
            continue
        if name == "template" and template is None:
            results[name] = "not run: give template="
            continue
        if name == "causal_mask" and "input_ids" not in tensors_of(batch):
            results[name] = "not run: the batch has no input_ids"
            continue
        try:
            results[name] = check()
        except Exception as error:
            results[name] = "not run: %s: %s" % (type(error).__name__, error)
    return results


# -- Self-test ----------------------------------------------------------------

class TinyBlock(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.proj = torch.nn.Linear(width, width)
        self.ln_2 = torch.nn.LayerNorm(width)
        self.fc = torch.nn.Linear(width, 4 * width)
        self.act = torch.nn.GELU()
        self.out = torch.nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x, past=None, real=None):
        rows, steps, width = x.shape
        q, k, v = [y.view(rows, steps, self.heads, -1).transpose(1, 2)
                   for y in self.qkv(self.ln_1(x)).chunk(3, -1)]
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        keys = k.shape[2]
        seen = torch.ones(steps, keys, dtype=torch.bool,
                          device=x.device).tril(keys - steps)
        if real is not None:    # no real token sees padding
            seen = seen & real.bool()[:, None, None, :] | torch.eye(
                keys, dtype=torch.bool, device=x.device)
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        mixed = scores.masked_fill(~seen, -math.inf).softmax(-1) @ v
        x = x + self.proj(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.out(self.act(self.fc(self.ln_2(x)))), (k, v)


class Tiny(torch.nn.Module):
    """A GPT of two layers whose data is a walk over a permutation."""

    VOCAB, LENGTH = 32, 16

    def __init__(self, width=32):
        super().__init__()
        self.tok = torch.nn.Embedding(self.VOCAB, width)
        self.pos = torch.nn.Embedding(self.LENGTH, width)
        self.blocks = torch.nn.ModuleList(
            TinyBlock(width, 2) for _ in range(2))
        self.ln_f = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, self.VOCAB, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                torch.nn.init.normal_(p, std=0.05)

    def forward(self, input_ids, past=None, attention_mask=None,
                position_ids=None):
        at = past[0][0].shape[2] if past else 0
        places = torch.arange(
            at, at + input_ids.shape[1], device=input_ids.device) \
            if position_ids is None else position_ids
        x, kept = self.tok(input_ids) + self.pos(places), []
        for i, block in enumerate(self.blocks):
            x, own = block(x, past[i] if past else None, attention_mask)
            kept.append(own)
        logits = self.head(self.ln_f(x))
        return logits if past is None else (logits, kept)

    def cached(self, ids, prompt):
        empty = [[torch.zeros(len(ids), 2, 0, 16)] * 2 for _ in self.blocks]
        logits, past = self(ids[:, :prompt], empty)
        parts = [logits]
        for t in range(prompt, ids.shape[1]):
            logits, past = self(ids[:, t:t + 1], past)
            parts.append(logits)
        return torch.cat(parts, 1), past[0][0]

    @staticmethod
    def batches(rows=8, seed=1):
        pick = torch.Generator().manual_seed(seed)
        follow = torch.randperm(Tiny.VOCAB, generator=pick)
        while True:
            ids = torch.randint(Tiny.VOCAB, (rows, Tiny.LENGTH + 1),
                                generator=pick)
            for t in range(Tiny.LENGTH):
                same = torch.rand(rows, generator=pick) < 0.9
                ids[same, t + 1] = follow[ids[same, t]]
            yield {"input_ids": ids[:, :-1].clone(),
                   "labels": ids[:, 1:].clone()}


def self_test(dir, steps=60):
    """Trains a tiny model, records it, runs the battery."""
    torch.set_num_threads(1)    # the tensors are too small for more
    torch.manual_seed(7)
    model = Tiny()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    batches = Tiny.batches()
    with watch(model, optimizer, dir=dir, every=10, free_seconds=60.0,
               config={"max_steps": steps}) as rec:
        for i in range(steps):
            batch = next(batches)
            rec.batch(**batch)
            loss = loss_of(model, batch, None)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            rec.step(loss)
    for group in optimizer.param_groups:
        assert group["lr"] == 3e-3
    before = {k: v.clone() for k, v in model.state_dict().items()}
    results = battery(
        model, next(batches), dir=dir, steps=100,
        cached_forward=lambda m, ids, prompt: m.cached(ids, prompt),
        optimizer_factory=lambda p: torch.optim.AdamW(p, lr=3e-3),
        model_factory=Tiny, batch_factory=Tiny.batches,
        template={"train": [1, 5, 9, 2], "serve": [1, 5, 9, 2]})
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    for name, result in results.items():
        print("%-12s %s" % (name, result if isinstance(result, str) and
                            result.startswith("not run") else "written"))
    if rec.notes:
        print("not measured:", "; ".join(rec.notes))
    return all(not str(r).startswith("not run") for r in results.values())


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--self-test":
        sys.exit(0 if self_test(sys.argv[2]) else 1)
    print(__doc__)
    print("usage: python culprit_recorder.py --self-test DIR")
    sys.exit(2 if len(sys.argv) > 1 and sys.argv[1] not in ("-h", "--help")
             else 0)
