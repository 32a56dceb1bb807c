"""Pickles that do harm where nothing checks them, by name."""

import pickle

from omegaconf import OmegaConf
from pickle_assembly import (
    ORDERED,
    array,
    build,
    bytes_of,
    call,
    dict_of,
    dotted,
    dtype,
    ended,
    named,
    new,
    plain,
    tensor,
    text,
    tuple_of,
    whole,
)

MKDIR = named("posix", "mkdir")
EXTENSION = 0xF1  # of posix.mkdir
NAMESPACE = named("argparse", "Namespace")
PARTIAL = named("functools", "partial")
CONFIG = named("omegaconf.dictconfig", "DictConfig")


def partial_of(path, state=b""):
    return new(PARTIAL, MKDIR, text(path)) + state + pickle.EMPTY_TUPLE + pickle.REDUCE


def with_state(path):
    """``partial.__setstate__`` replaces a harmless function."""
    harmless = new(PARTIAL, named("builtins", "len"))
    state = tuple_of(MKDIR, tuple_of(text(path)), pickle.EMPTY_DICT, pickle.NONE)
    return build(harmless, state) + pickle.EMPTY_TUPLE + pickle.REDUCE


def config_in_config(path):
    """Reading the fields of this metadata resolves an interpolation."""
    inner = OmegaConf.create({"key_type": "${canary:" + path + "}"})
    return build(new(CONFIG), dict_of(_metadata=plain(inner), _content=pickle.EMPTY_DICT))


def runs(path):
    """Pickles that make the folder ``path``, or a file of that name."""
    target, mode = text(path), whole(0o755)
    get, put = pickle.BINGET + b"\x01", pickle.BINPUT + b"\x01"
    return {
        "REDUCE": ended(call(MKDIR, target)),
        "REDUCE within a Namespace": ended(build(new(NAMESPACE), dict_of(lr=call(MKDIR, target)))),
        "REDUCE of np.memmap": ended(
            call(named("numpy", "memmap"), target, text("uint8"), text("w+"), whole(0), plain((1,)))
        ),
        "STACK_GLOBAL": ended(call(dotted("posix", "mkdir"), target), 4),
        "STACK_GLOBAL, dotted, protocol 2": ended(
            pickle.PROTO + b"\x04" + call(dotted("argparse", "_os.mkdir"), target)
        ),
        "STACK_GLOBAL, method of an allowed class": ended(
            call(dotted("numpy", "ndarray.tofile"), array(), target), 4
        ),
        "GLOBAL, dotted": ended(call(named("argparse", "_os.mkdir"), target), 4),
        "INST": ended(pickle.MARK + target + pickle.INST + b"posix\nmkdir\n"),
        "OBJ": ended(pickle.MARK + MKDIR + target + pickle.OBJ),
        "NEWOBJ": ended(partial_of(path)),
        "NEWOBJ_EX": ended(
            PARTIAL + tuple_of(MKDIR, target) + dict_of(mode=mode) + pickle.NEWOBJ_EX
            + pickle.EMPTY_TUPLE + pickle.REDUCE, 4,
        ),
        "EXT1": ended(call(pickle.EXT1 + bytes([EXTENSION]), target)),
        "BUILD by __setstate__": ended(with_state(path)),
        "getattr": ended(call(
            call(named("builtins", "getattr"), named("posixpath", "os"), text("mkdir")), target)
        ),
        "memo: a listed name replaced": ended(
            NAMESPACE + put + pickle.POP + MKDIR + put + pickle.POP + call(get, target)
        ),
        "defaultdict of a listed function": ended(
            call(named("collections", "defaultdict"), partial_of(path))
        ),
        "a hook of a tensor": ended(
            tensor(call(MKDIR, target), hooks=ORDERED)
        ),
        "an extension of an odd codec": ended(call(named("codecs", "open"), target, text("w"))),
        "a config's metadata that resolves": ended(config_in_config(path)),
    }  # fmt: skip


def object_array():
    """An int64 array whose type says that its items are Python objects: flags are 63."""
    return array(of=dtype(state=("<", None, None, None, -1, -1, 63)), data=plain([1]))


def freed_array():
    """A tensor over an array whose memory is then freed."""
    held = array(shape=(20000,), data=bytes_of(b"A" * 160000)) + pickle.BINPUT + b"\x01"
    get = pickle.BINGET + b"\x01"
    over = named("torch._utils", "_rebuild_device_tensor_from_numpy")
    over = call(over, get, named("torch", "int64"), text("cpu"), pickle.NEWFALSE)
    again = tuple_of(whole(1), plain((1,)), dtype(), pickle.NEWFALSE, bytes_of(bytes(8)))
    return ended(dict_of(a=held, t=over, b=build(get, again)))
