"""Writes files as torch.save does, without PyTorch.

A tensor is a list of numbers in a storage and a view of it. The names of code
that PyTorch's pickles hold are given to functions of modules that are made up
here, so that Python's own pickler writes them.
"""
import collections, io, pickle, struct, sys, types, zipfile

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


def module(name):
    if "." in name:
        module(name.rsplit(".", 1)[0])
    if name not in sys.modules:
        sys.modules[name] = types.ModuleType(name)
    return sys.modules[name]


def code(path, make=None):
    """Something that pickles as the name of code `path`."""
    where, name = path.rsplit(".", 1)
    thing = make or (lambda *arguments: None)
    thing.__module__, thing.__name__, thing.__qualname__ = where, name, name
    setattr(module(where), name, thing)
    return thing


def klass(path, base=object):
    """A class of that name, whose objects pickle with their attributes."""
    where, name = path.rsplit(".", 1)
    made = type(name, (base,), {"__module__": where})
    setattr(module(where), name, made)
    return made


STORAGES = {"Float": "f", "Double": "d", "Half": "e", "Long": "q", "Int": "i",
            "Short": "h", "Char": "b", "Byte": "B", "Bool": "?",
            "BFloat16": "H", "ComplexFloat": "f", "QInt8": "b"}
TYPES = {name: klass("torch.%sStorage" % name) for name in STORAGES}
UNTYPED = klass("torch.storage.UntypedStorage")
rebuild = {name: code("torch._utils._rebuild_" + name) for name in
           ("tensor", "tensor_v2", "tensor_v3", "parameter", "sparse_tensor",
            "qtensor", "buffer")}


class Storage:
    def __init__(self, kind, numbers=None, data=None, elements=None):
        self.kind = TYPES.get(kind, UNTYPED)
        self.data = data if data is not None else struct.pack(
            "<%d%s" % (len(numbers), STORAGES[kind]), *numbers)
        size = struct.calcsize(STORAGES.get(kind, "B"))
        if kind == "ComplexFloat":
            size *= 2
        self.elements = len(self.data) // size if elements is None else elements


class Call:
    """What the pickle calls, and the arguments."""
    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def tensor(storage, shape, strides=None, offset=0, metadata=None):
    if strides is None:
        strides, step = [], 1
        for size in reversed(shape):
            strides.insert(0, step)
            step *= size
    more = () if metadata is None else (metadata,)
    return Call(rebuild["tensor_v2"], storage, offset, tuple(shape),
                tuple(strides), False, collections.OrderedDict(), *more)


def floats(*numbers, shape=None):
    return tensor(Storage("Float", numbers), shape or [len(numbers)])


class Pickler(pickle._Pickler):
    """Gives storages numbers, as torch.save does."""
    def __init__(self, out, keys, old=False):
        super().__init__(out, protocol=2)
        self.keys, self.old = keys, old

    def persistent_id(self, thing):
        if not isinstance(thing, Storage):
            return None
        key = self.keys.setdefault(id(thing), (str(len(self.keys)), thing))[0]
        out = ("storage", thing.kind, key, "cpu", thing.elements)
        return out + (None,) if self.old else out


def save(path, thing, stem="archive", method=zipfile.ZIP_STORED, leave=(),
         byteorder="little"):
    keys, program = {}, io.BytesIO()
    Pickler(program, keys).dump(thing)
    with zipfile.ZipFile(path, "w", method) as z:
        z.writestr(stem + "/data.pkl", program.getvalue())
        z.writestr(stem + "/byteorder", byteorder)
        for key, storage in keys.values():
            if key not in leave:
                z.writestr("%s/data/%s" % (stem, key), storage.data)
        z.writestr(stem + "/version", "3\n")


def save_old(path, thing):
    keys, out = {}, io.BytesIO()
    for part in (MAGIC, PROTOCOL, {"protocol_version": PROTOCOL,
                                   "little_endian": True, "type_sizes": {}}):
        pickle.dump(part, out, protocol=2)
    Pickler(out, keys, old=True).dump(thing)
    pickle.dump(sorted(key for key, _ in keys.values()), out, protocol=2)
    for key, storage in sorted(keys.values(), key=lambda pair: pair[0]):
        out.write(struct.pack("<q", storage.elements) + storage.data)
    with open(path, "wb") as f:
        f.write(out.getvalue())
