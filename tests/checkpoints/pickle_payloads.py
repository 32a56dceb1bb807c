"""Pickles that do harm where nothing checks them, by name."""

import pickle
import sys

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
    framed,
    named,
    new,
    plain,
    short,
    tensor,
    text,
    tuple_of,
    whole,
)

MKDIR = named("posix", "mkdir")
EXTENSION = {pickle.EXT1: 0xF1, pickle.EXT2: 0xF1F1, pickle.EXT4: 0x7FF1F1F1}  # of posix.mkdir
NAMESPACE = named("argparse", "Namespace")
PARTIAL = named("functools", "partial")
CONFIG = named("omegaconf.dictconfig", "DictConfig")


def extension(code):
    width = {pickle.EXT1: 1, pickle.EXT2: 2, pickle.EXT4: 4}[code]
    return code + EXTENSION[code].to_bytes(width, "little")


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


def resolved(path):
    return call(named("omegaconf.omegaconf", "OmegaConf.create"), text(path))


def runs(path):
    """Pickles that make the folder ``path``, or a file of that name."""
    program = f"__import__('os').mkdir({path!r})"
    target, mode = text(path), whole(0o755)
    get, put = pickle.BINGET + b"\x01", pickle.BINPUT + b"\x01"
    return {
        "REDUCE": ended(call(MKDIR, target)),
        "REDUCE of os.system": ended(call(named("posix", "system"), text(f"mkdir {path}"))),
        "REDUCE of eval": ended(call(named("builtins", "eval"), text(program))),
        "REDUCE of exec": ended(call(named("builtins", "exec"), text(program))),
        "REDUCE of Python 2's eval": ended(call(named("__builtin__", "eval"), text(program))),
        "REDUCE of pickle.loads": ended(
            call(named("_pickle", "loads"), bytes_of(ended(call(MKDIR, target))))
        ),
        "REDUCE within a Namespace": ended(build(new(NAMESPACE), dict_of(lr=call(MKDIR, target)))),
        "REDUCE of np.memmap": ended(
            call(named("numpy", "memmap"), target, text("uint8"), text("w+"), whole(0), plain((1,)))
        ),
        "STACK_GLOBAL": ended(call(dotted("posix", "mkdir"), target), 4),
        "STACK_GLOBAL, dotted": ended(call(dotted("argparse", "_os.mkdir"), target), 4),
        "STACK_GLOBAL, dotted, protocol 2": ended(
            pickle.PROTO + b"\x04" + call(dotted("argparse", "_os.mkdir"), target)
        ),
        "STACK_GLOBAL, method of an allowed class": ended(
            call(dotted("numpy", "ndarray.tofile"), array(), target), 4
        ),
        "STACK_GLOBAL, method of a storage": ended(
            call(dotted("torch", "FloatStorage.from_file"), target, pickle.NEWTRUE, whole(4)), 4
        ),
        "STACK_GLOBAL, in a frame": pickle.PROTO + b"\x04" + framed(
            call(dotted("posix", "mkdir"), target) + pickle.STOP
        ),
        "GLOBAL, dotted": ended(call(named("argparse", "_os.mkdir"), target), 4),
        "INST": ended(pickle.MARK + target + pickle.INST + b"posix\nmkdir\n"),
        "OBJ": ended(pickle.MARK + MKDIR + target + pickle.OBJ),
        "NEWOBJ": ended(partial_of(path)),
        "NEWOBJ_EX": ended(
            PARTIAL + tuple_of(MKDIR, target) + dict_of(mode=mode) + pickle.NEWOBJ_EX
            + pickle.EMPTY_TUPLE + pickle.REDUCE, 4,
        ),
        "EXT1": ended(call(extension(pickle.EXT1), target)),
        "EXT2": ended(call(extension(pickle.EXT2), target)),
        "EXT4": ended(call(extension(pickle.EXT4), target)),
        "BUILD by __setstate__": ended(with_state(path)),
        "getattr": ended(call(
            call(named("builtins", "getattr"), named("posixpath", "os"), text("mkdir")), target)
        ),
        "memo: a name kept and called later": ended(
            MKDIR + put + pickle.POP + call(get, target)
        ),
        "memo: a listed name replaced": ended(
            NAMESPACE + put + pickle.POP + MKDIR + put + pickle.POP + call(get, target)
        ),
        "memo: text references": ended(
            MKDIR + pickle.PUT + b"7\n" + pickle.POP + call(pickle.GET + b"7\n", target)
        ),
        "memo: MEMOIZE": ended(short(path) + pickle.MEMOIZE + pickle.POP
                               + call(MKDIR, pickle.BINGET + b"\x00"), 4),
        "DUP": ended(target + pickle.DUP + pickle.POP + pickle.POP + call(MKDIR, target)),
        "POP_MARK": ended(pickle.MARK + target + pickle.POP_MARK + call(MKDIR, target)),
        "defaultdict of a listed function": ended(
            call(named("collections", "defaultdict"), partial_of(path))
        ),
        "a hook of a tensor": ended(
            tensor(call(MKDIR, target), hooks=ORDERED)
        ),
        "an extension of an odd codec": ended(call(named("codecs", "open"), target, text("w"))),
        "a config's metadata that resolves": ended(config_in_config(path)),
    }  # fmt: skip


def _gone(value):
    """Whether it was there, which it no longer is."""
    there = hasattr(value, "trace")
    if there:
        del value.trace
    return there


def _in_path():
    there = "/trace" in sys.path
    if there:
        sys.path.remove("/trace")
    return there


def changes():
    """(pickle, whether it changed the process, asked once) by name."""
    from argparse import Namespace

    modules = named("sys", "modules")
    item = text("trace") + whole(1)
    slots = tuple_of(pickle.NONE, dict_of(trace=whole(1)))
    append = text("/trace")
    return {
        "BUILD of a class": (ended(build(NAMESPACE, slots)), lambda: _gone(Namespace)),
        "SETITEM on sys.modules": (
            ended(modules + item + pickle.SETITEM), lambda: sys.modules.pop("trace", None)),
        "SETITEMS on sys.modules": (
            ended(modules + pickle.MARK + item + pickle.SETITEMS),
            lambda: sys.modules.pop("trace", None)),
        "APPEND to sys.path": (ended(named("sys", "path") + append + pickle.APPEND), _in_path),
        "APPENDS to sys.path": (
            ended(named("sys", "path") + pickle.MARK + append + pickle.APPENDS), _in_path),
        "ADDITEMS calls add": (
            ended(new(named("pickle_payloads", "Adder")) + pickle.MARK + append + pickle.ADDITEMS,
                  4), lambda: _pop(Adder.seen)),
        "APPENDS calls extend": (
            ended(new(named("pickle_payloads", "Adder")) + pickle.MARK + append + pickle.APPENDS),
            lambda: _pop(Adder.seen)),
        "APPEND calls append": (
            ended(new(named("pickle_payloads", "Adder")) + append + pickle.APPEND),
            lambda: _pop(Adder.seen)),
        "SETITEM calls __setitem__": (
            ended(new(named("pickle_payloads", "Adder")) + item + pickle.SETITEM),
            lambda: _pop(Adder.seen)),
        "BUILD calls __setstate__": (
            ended(build(new(named("pickle_payloads", "Adder")), append)),
            lambda: _pop(Adder.seen)),
        "PERSID": (ended(pickle.PERSID + b"trace\n"), lambda: _pop(Adder.seen)),
        "BINPERSID of text": (ended(text("trace") + pickle.BINPERSID), lambda: _pop(Adder.seen)),
        "BINPERSID of a module": (
            ended(tuple_of(text("module"), text("trace"), text("x"), text("y")) + pickle.BINPERSID),
            lambda: _pop(Adder.seen)),
    }  # fmt: skip


def _pop(seen):
    return bool(seen) and bool(seen.pop())


class Adder:
    """Notes what an unpickler calls of it."""

    seen = []

    def add(self, value):
        self.seen.append(value)

    append = extend = __setstate__ = add

    def __setitem__(self, key, value):
        self.seen.append(value)


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


def deep_key():
    """The hash of nested tuples recurses in C, unchecked: the process ends."""
    nested = pickle.EMPTY_TUPLE + pickle.TUPLE1 * 2_000_000
    return ended(pickle.EMPTY_DICT + nested + pickle.NONE + pickle.SETITEM)
