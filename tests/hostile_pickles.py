"""Pickles that no checkpoint holds, by name: some do harm where nothing checks them, others name
objects and storages that are never made; and sound ones. Tests and fuzzers share them."""

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
    storage,
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


def freed_array():
    """A tensor over an array whose memory is then freed."""
    held = array(shape=(20000,), data=bytes_of(b"A" * 160000)) + pickle.BINPUT + b"\x01"
    get = pickle.BINGET + b"\x01"
    over = named("torch._utils", "_rebuild_device_tensor_from_numpy")
    over = call(over, get, named("torch", "int64"), text("cpu"), pickle.NEWFALSE)
    again = tuple_of(whole(1), plain((1,)), dtype(), pickle.NEWFALSE, bytes_of(bytes(8)))
    return dict_of(a=held, t=over, b=build(get, again))


def odd_objects(more=b""):
    """Objects of listed types, of parts that no checkpoint has; refused, and never made."""
    one, no = whole(1), pickle.NEWFALSE
    ordered = named("collections", "OrderedDict")
    memmap = named("numpy", "memmap")
    param = named("torch._utils", "_rebuild_parameter")
    encode = named("_codecs", "encode")
    made = {
        "a tensor that requires an integer": tensor(storage(), gradient=one),
        "a tensor without storage": tensor(plain([1.0])),
        "a parameter of a list": call(param, plain([1]), no, ORDERED),
        "a parameter with state": call(
            named("torch._utils", "_rebuild_parameter_with_state"), tensor(storage()), no, ORDERED,
            dict_of(grad=one)),
        "a tensor of numpy's memory": call(
            named("torch._utils", "_rebuild_device_tensor_from_numpy"), array(),
            named("torch", "int64"), text("cpu"), no),
        "an OrderedDict of arguments": call(ordered, plain([[["a", 1]]])),
        "an OrderedDict with fields": build(call(ordered), dict_of(items=one)),
        "a defaultdict of items": call(
            named("collections", "defaultdict"), named("__builtin__", "dict"), plain({1: 1})),
        "a Namespace without fields": build(new(NAMESPACE), plain([1])),
        "a Namespace that is its class": build(NAMESPACE, dict_of(a=one)),
        "a new ndarray": new(named("numpy", "ndarray"), plain((1000,))),
        "an array of objects": array(
            of=dtype("O8", ("|", None, None, None, -1, -1, 63)), data=plain([1])),
        "numbers that claim to be objects": array(
            of=dtype(state=("<", None, None, None, -1, -1, 63)), data=plain([1])),
        "a tensor over memory that is freed": freed_array(),
        "an array of objects, raw": array(
            of=dtype("O8", ("|", None, None, None, -1, -1, 63))),
        "an array of another class": array(kind=memmap),
        "an array of negative size": array(shape=(-1,)),
        "an array of overflowing size": array(shape=(2**62, 4)),
        "an array of no dtype": array(of=text("i8")),
        "a number of another size": call(
            named("numpy.core.multiarray", "scalar"), dtype(), bytes_of(bytes(9))),
        "a number of a listed type": call(
            named("numpy._core.multiarray", "scalar"), named("torch", "float32"), bytes_of(b"4")),
        "a dtype of torch, called": call(named("torch", "float32")),
        "bytes by evil": call(encode, text("x"), text("evil")),
        "bytes of bytes": call(encode, bytes_of(b"x"), text("latin1")),
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
        return ended(tensor(tuple_of(*parts) + pickle.BINPERSID))

    made = {
        "a storage of a number": ended(tensor(whole(1) + pickle.BINPERSID)),
        "a storage of another word": reference(0, text("module")),
        "a storage of a negative size": reference(4, whole(-4)),
        "a storage larger than the file": reference(4, whole(2**40)),
        "a storage that is not there": reference(2, text("1")),
        "a storage that is the pickle": reference(2, text("../data.pkl")),
        "a tensor past its storage": ended(tensor(storage(more=more), offset=1)),
        "an empty tensor past its storage": ended(tensor(storage(more=more), offset=5, size=(0,))),
        "a tensor of long steps": ended(tensor(storage(more=more), stride=(2,))),
        "a tensor of negative steps": ended(tensor(storage(more=more), offset=3, stride=(-1,))),
        "a tensor of overflowing sizes": ended(
            tensor(storage(more=more), size=(2**32, 2**32), stride=(0, 0))),
        "a tensor of repeated elements": ended(tensor(storage(more=more), size=(5,), stride=(0,))),
        "a tensor of negative size": ended(tensor(storage(more=more), size=(-1,))),
    }  # fmt: skip
    once = tensor(storage(more=more))
    made["a storage of two types"] = ended(
        tuple_of(once, tensor(storage(kind="IntStorage", more=more))))  # fmt: skip
    made["a storage of two sizes"] = ended(tuple_of(once, tensor(storage(count=2, more=more))))
    return made


def sound(more=b""):
    """What checkpoints hold, and what a reader must not follow for ever."""
    weight, get, put = tensor(storage(more=more)), pickle.BINGET + b"\x01", pickle.BINPUT + b"\x01"
    once = call(named("torch._utils", "_rebuild_parameter"), weight, pickle.NEWTRUE, ORDERED)
    args = build(new(NAMESPACE), dict_of(lr=plain([0.1, 2**70, None, True]), text=text("caf\xe9")))
    meter = build(new(named("fairseq.meters", "AverageMeter")), dict_of(sum=whole(3)))
    config = plain(OmegaConf.create({"task": {"a": [1, "b"]}, "model": {"d": None}}))
    parts = {
        "a parameter": once,
        "an array": array(),
        "a meter": meter,
        "what is deep": pickle.NONE + pickle.TUPLE1 * 3000,
        "what is doubled": pickle.EMPTY_TUPLE + (put + get + pickle.TUPLE2) * 8,
        "a list in itself": pickle.EMPTY_LIST + put + get + pickle.APPEND,
        "a size": call(named("torch", "Size"), plain((1, 2))),
        "a device": call(named("torch", "device"), text("cuda"), whole(0)),
        "a number format": named("torch", "float16"),
        "a defaultdict": call(named("collections", "defaultdict"), named("__builtin__", "dict")),
    }
    made = {name: dict_of(args=args, cfg=pickle.NONE, model=dict_of(w=weight), extra_state=part)
            for name, part in parts.items()}  # fmt: skip
    made["settings"] = dict_of(args=pickle.NONE, cfg=config, model=dict_of(w=weight))
    return {name: ended(part) for name, part in made.items()}
