"""Pickles written instruction by instruction, and the checkpoint files that hold them."""

import io
import pickle
import struct
import zipfile

import torch


def text(value):
    data = value.encode("utf-8", "surrogatepass")
    return pickle.BINUNICODE + struct.pack("<I", len(data)) + data


def short(value):
    """Text as protocol 4 writes it."""
    data = value.encode()
    return pickle.SHORT_BINUNICODE + bytes([len(data)]) + data


def whole(value):
    """An integer of up to 255 bytes."""
    data = pickle.encode_long(value)
    return pickle.LONG1 + bytes([len(data)]) + data


def plain(value):
    """Anything that ``pickle`` writes, as a part of a larger pickle."""
    return pickle.dumps(value, 2)[2:-1]


def tuple_of(*parts):
    return pickle.MARK + b"".join(parts) + pickle.TUPLE


def dict_of(**parts):
    items = b"".join(text(name) + part for name, part in parts.items())
    return pickle.EMPTY_DICT + pickle.MARK + items + pickle.SETITEMS


def named(module, name):
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def dotted(module, name):
    """A name that protocol 4 looks up part by part."""
    return short(module) + short(name) + pickle.STACK_GLOBAL


def call(function, *parts):
    return function + tuple_of(*parts) + pickle.REDUCE


def new(made, *parts):
    return made + tuple_of(*parts) + pickle.NEWOBJ


def build(made, state):
    return made + state + pickle.BUILD


def ended(body, protocol=2):
    return pickle.PROTO + bytes([protocol]) + body + pickle.STOP


ORDERED = call(named("collections", "OrderedDict"))


def storage(kind="FloatStorage", key="0", count=4, more=b""):
    """A reference to the storage of four floats that ``zipped`` and ``legacy`` hold."""
    parts = (text("storage"), named("torch", kind), text(key), text("cpu"), whole(count), more)
    return tuple_of(*parts) + pickle.BINPERSID


def tensor(where, offset=0, size=(4,), stride=(1,), hooks=ORDERED, gradient=pickle.NEWFALSE):
    arguments = (where, whole(offset), plain(size), plain(stride), gradient, hooks)
    return call(named("torch._utils", "_rebuild_tensor_v2"), *arguments)


def bytes_of(data):
    return call(named("_codecs", "encode"), text(data.decode("latin1")), text("latin1"))


def dtype(name="i8", state=("<", None, None, None, -1, -1, 0), version=3):
    made = call(named("numpy", "dtype"), text(name), pickle.NEWFALSE, pickle.NEWTRUE)
    return made if state is None else build(made, plain((version, *state)))


def array(kind=None, data=None, of=None, shape=(1,), fortran=pickle.NEWFALSE):
    """A numpy array: its class, raw data (a part), dtype (a part) and shape."""
    kind = named("numpy", "ndarray") if kind is None else kind
    made = named("numpy.core.multiarray", "_reconstruct")
    made = call(made, kind, plain((0,)), bytes_of(b"b"))
    of, data = of or dtype(), bytes_of(bytes(8)) if data is None else data
    return build(made, tuple_of(whole(1), plain(shape), of, fortran, data))


FLOATS = struct.pack("<4f", 1, 2, 3, 4)


def zipped(pickled, records=(("archive/data/0", FLOATS),)):
    """The layout since torch 1.6."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        target.writestr("archive/data.pkl", pickled)
        target.writestr("archive/version", b"3\n")
        for name, data in records:
            target.writestr(name, data)
    return out.getvalue()


HEADER = (
    torch.serialization.MAGIC_NUMBER,
    torch.serialization.PROTOCOL_VERSION,
    {"protocol_version": 1001, "little_endian": True, "type_sizes": {"int": 4}},
)


def legacy(pickled, keys=(), data=b"", header=()):
    """The layout before torch 1.6: three pickles, the object's, the storages' keys and contents."""
    first = [pickle.dumps(value, 2) for value in HEADER]
    for at, other in dict(header).items():
        first[at] = other
    keys = keys if isinstance(keys, bytes) else pickle.dumps(list(keys), 2)
    return b"".join((*first, pickled, keys, data))
