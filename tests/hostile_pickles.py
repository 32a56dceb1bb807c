"""Pickles written instruction by instruction, and the checkpoint files that hold them: those that
no checkpoint holds, by name. Some do harm where nothing checks them, others name objects and
storages that are never made."""

import io
import pickle
import struct
import zipfile

import torch


def text(value):
    data = value.encode("utf-8", "surrogatepass")
    return pickle.BINUNICODE + struct.pack("<I", len(data)) + data


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
    parts = (each.encode() for each in (module, name))
    shorts = (pickle.SHORT_BINUNICODE + bytes([len(each)]) + each for each in parts)
    return b"".join(shorts) + pickle.STACK_GLOBAL


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


MKDIR = named("posix", "mkdir")
NAMESPACE = named("argparse", "Namespace")


def runs(path):
    """Pickles that make the folder ``path``, or a file of that name."""
    target = text(path)
    get, put = pickle.BINGET + b"\x01", pickle.BINPUT + b"\x01"
    return {
        "REDUCE": ended(call(MKDIR, target)),
        "STACK_GLOBAL": ended(call(dotted("posix", "mkdir"), target), 4),
        "STACK_GLOBAL, dotted, protocol 2": ended(
            pickle.PROTO + b"\x04" + call(dotted("argparse", "_os.mkdir"), target)
        ),
        "GLOBAL, dotted": ended(call(named("argparse", "_os.mkdir"), target), 4),
        "INST": ended(pickle.MARK + target + pickle.INST + b"posix\nmkdir\n"),
        "OBJ": ended(pickle.MARK + MKDIR + target + pickle.OBJ),
        "memo: a listed name replaced": ended(
            NAMESPACE + put + pickle.POP + MKDIR + put + pickle.POP + call(get, target)
        ),
    }


def odd_objects():
    """Objects of listed types, of parts that no checkpoint has; refused, and never made."""
    objects = dtype("O8", ("|", None, None, None, -1, -1, 63))
    made = {
        "a tensor without storage": tensor(plain([1.0])),
        "a tensor of numpy's memory": call(
            named("torch._utils", "_rebuild_device_tensor_from_numpy"), array(),
            named("torch", "int64"), text("cpu"), pickle.NEWFALSE),
        "an OrderedDict with fields": build(
            call(named("collections", "OrderedDict")), dict_of(items=whole(1))),
        "a Namespace that is its class": build(NAMESPACE, dict_of(a=whole(1))),
        "a new ndarray": new(named("numpy", "ndarray"), plain((1000,))),
        "an array of objects": array(of=objects, data=plain([1])),
        "an array of objects, raw": array(of=objects),
        "numbers that claim to be objects": array(
            of=dtype(state=("<", None, None, None, -1, -1, 63)), data=plain([1])),
        "an array of another class": array(kind=named("numpy", "memmap")),
        "an array of negative size": array(shape=(-1,)),
        "an array of overflowing size": array(shape=(2**62, 4)),
        "an array of no dtype": array(of=text("i8")),
        "a number of another size": call(
            named("numpy.core.multiarray", "scalar"), dtype(), bytes_of(bytes(9))),
    }  # fmt: skip
    return {name: ended(part) for name, part in made.items()}


def odd_storages(more=b""):
    """References to storages that are none, or to more than there is.

    Args:
        more: what the layout before torch 1.6 tells beyond the others: None.
    """
    key = (text("storage"), named("torch", "FloatStorage"), text("0"), text("cpu"), whole(4))

    def reference(at, part):
        parts = [*key, more]
        parts[at] = part
        return tensor(tuple_of(*parts) + pickle.BINPERSID)

    made = {
        "a storage of another word": reference(0, text("module")),
        "a storage of a negative size": reference(4, whole(-4)),
        "a storage larger than the file": reference(4, whole(2**40)),
        "a storage that is not there": reference(2, text("1")),
        "a storage that is the pickle": reference(2, text("../data.pkl")),
        "a tensor past its storage": tensor(storage(more=more), offset=1),
        "a tensor of negative steps": tensor(storage(more=more), offset=3, stride=(-1,)),
        "a tensor of overflowing sizes": tensor(
            storage(more=more), size=(2**32, 2**32), stride=(0, 0)),
        "a storage of two types": tuple_of(
            tensor(storage(more=more)), tensor(storage(kind="IntStorage", more=more))),
    }  # fmt: skip
    return {name: ended(part) for name, part in made.items()}
