"""Pickles of objects, storages and instructions that no checkpoint holds, by name."""

import pickle

from omegaconf import OmegaConf
from pickle_assembly import (
    ORDERED,
    array,
    build,
    bytes_of,
    call,
    dict_of,
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
from pickle_payloads import CONFIG, NAMESPACE


def odd_objects(_):
    """Objects of listed types, of parts that no checkpoint has; refused, and never made."""
    one, no = whole(1), pickle.NEWFALSE
    ordered = named("collections", "OrderedDict")
    memmap = named("numpy", "memmap")
    param = named("torch._utils", "_rebuild_parameter")
    encode = named("_codecs", "encode")
    made = {
        "a tensor that requires an integer": tensor(storage(), gradient=one),
        "a tensor without storage": tensor(plain([1.0])),
        "a tensor of a storage class": tensor(named("torch", "FloatStorage")),
        "a parameter of a list": call(param, plain([1]), no, ORDERED),
        "a parameter with state": call(
            named("torch._utils", "_rebuild_parameter_with_state"), tensor(storage()), no, ORDERED,
            dict_of(grad=one)),
        "a tensor of numpy's memory": call(
            named("torch._utils", "_rebuild_device_tensor_from_numpy"), array(),
            named("torch", "int64"), text("cpu"), no),
        "a tensor of another type": call(
            named("torch._tensor", "_rebuild_from_type_v2"), ordered, ordered, pickle.EMPTY_TUPLE,
            pickle.EMPTY_DICT),
        "a storage, called": call(named("torch", "FloatStorage"), whole(2**30)),
        "a type, called": call(named("__builtin__", "dict"), plain([("a", 1)])),
        "an OrderedDict of arguments": call(ordered, plain([[["a", 1]]])),
        "an OrderedDict with fields": build(call(ordered), dict_of(items=one)),
        "a defaultdict of items": call(
            named("collections", "defaultdict"), named("__builtin__", "dict"), plain({1: 1})),
        "a Namespace without fields": build(new(NAMESPACE), plain([1])),
        "a Namespace that is its class": build(NAMESPACE, dict_of(a=one)),
        "a new ndarray": new(named("numpy", "ndarray"), plain((1000,))),
        "an ndarray, called": call(named("numpy", "ndarray"), plain((1000,))),
        "an array of objects": array(
            of=dtype("O8", ("|", None, None, None, -1, -1, 63)), data=plain([1])),
        "an array of objects, raw": array(
            of=dtype("O8", ("|", None, None, None, -1, -1, 63))),
        "an array of another class": array(kind=memmap),
        "an array larger than its data": array(shape=(1000,)),
        "an array of negative size": array(shape=(-1,)),
        "an array of overflowing size": array(shape=(2**62, 4)),
        "an array of text": array(data=text("12345678")),
        "an array of no dtype": array(of=text("i8")),
        "a number of another size": call(
            named("numpy.core.multiarray", "scalar"), dtype(), bytes_of(bytes(9))),
        "a number of a listed type": call(
            named("numpy._core.multiarray", "scalar"), named("torch", "float32"), bytes_of(b"4")),
        "a size of text": call(named("torch", "Size"), plain(("1",))),
        "a negative device": call(named("torch", "device"), text("cuda"), whole(-1)),
        "a dtype of torch, called": call(named("torch", "float32")),
        "a DictConfig, called": call(CONFIG, plain({"a": 1})),
    }  # fmt: skip
    made["bytes by evil"] = call(encode, text("x"), text("evil"))
    made["bytes of bytes"] = call(encode, bytes_of(b"x"), text("latin1"))
    return {name: ended(part) for name, part in made.items()}


def odd_storages(more=b""):
    """References to storages that are none, or to more than there is.

    Args:
        more: what the layout before torch 1.6 tells beyond the others: None.
    """
    key = (text("storage"), named("torch", "FloatStorage"), text("0"), text("cpu"), whole(4))

    def reference(**other):
        parts = [*key, more]
        for at, part in other.items():
            parts[int(at[1:])] = part
        return ended(tensor(tuple_of(*parts) + pickle.BINPERSID))

    made = {
        "a storage of a number": ended(tensor(whole(1) + pickle.BINPERSID)),
        "a storage of a list": ended(tensor(plain(["storage"]) + pickle.BINPERSID)),
        "a storage of too few words": ended(tensor(tuple_of(*key[:4], more) + pickle.BINPERSID)),
        "a storage of too many words": ended(
            tensor(tuple_of(*key, whole(1), whole(1)) + pickle.BINPERSID)),
        "a storage of another word": reference(_0=text("module")),
        "a storage of a dtype": reference(_1=text("float32")),
        "a storage of a type": reference(_1=named("__builtin__", "long")),
        "a storage of a numbered key": reference(_2=whole(0)),
        "a storage of another place": reference(_3=whole(0)),
        "a storage of a negative size": reference(_4=whole(-4)),
        "a storage of a size in words": reference(_4=text("4")),
        "a storage of another size": reference(_4=whole(3)),
        "a storage larger than the file": reference(_4=whole(2**40)),
        "a storage of an endless size": reference(_4=whole(2**200)),
        "a storage that is not there": reference(_2=text("1")),
        "a storage that is the pickle": reference(_2=text("../data.pkl")),
        "a storage at a path": reference(_2=text("/etc/passwd")),
        "a tensor past its storage": ended(tensor(storage(more=more), offset=1)),
        "a tensor far past its storage": ended(tensor(storage(more=more), offset=2**39, size=(1,))),
        "an empty tensor past its storage": ended(tensor(storage(more=more), offset=5, size=(0,))),
        "a tensor before its storage": ended(tensor(storage(more=more), offset=-1)),
        "a tensor of long steps": ended(tensor(storage(more=more), stride=(2,))),
        "a tensor of negative steps": ended(tensor(storage(more=more), offset=3, stride=(-1,))),
        "a tensor of overflowing steps": ended(tensor(storage(more=more), stride=(2**62,))),
        "a tensor of overflowing sizes": ended(
            tensor(storage(more=more), size=(2**32, 2**32), stride=(0, 0))),
        "a tensor of repeated elements": ended(tensor(storage(more=more), size=(5,), stride=(0,))),
        "a tensor of negative size": ended(tensor(storage(more=more), size=(-1,))),
        "an empty tensor of overflowing sizes": ended(
            tensor(storage(more=more), size=(0, 2**62, 2**62), stride=(1, 1, 1))),
        "a tensor of true size": ended(tensor(storage(more=more), size=(True,))),
        "a tensor of broken size": ended(tensor(storage(more=more), size=(1.0,))),
        "a tensor of fewer steps": ended(tensor(storage(more=more), size=(2, 2))),
        "a tensor of many dimensions": ended(
            tensor(storage(more=more), size=(1,) * 65, stride=(1,) * 65)),
    }  # fmt: skip
    once = tensor(storage(more=more))
    made["a storage of two types"] = ended(
        tuple_of(once, tensor(storage(kind="IntStorage", more=more))))  # fmt: skip
    made["a storage of two sizes"] = ended(tuple_of(once, tensor(storage(count=2, more=more))))
    return made


def odd_pickles(_):
    """Instructions out of place, and lies about lengths."""
    into = {
        "a tensor": tensor(storage()), "an array": array(), "a Namespace": new(NAMESPACE),
        "a tuple": plain((1,)), "text": text("x"), "a config": plain(OmegaConf.create({"a": 1})),
    }  # fmt: skip
    one = whole(1)
    made = {}
    for what, part in into.items():
        made[f"SETITEM on {what}"] = ended(part + one + one + pickle.SETITEM)
        made[f"APPEND to {what}"] = ended(part + one + pickle.APPEND)
        made[f"REDUCE of {what}"] = ended(call(part))
        made[f"NEWOBJ of {what}"] = ended(new(part))
    made.update({
        "SETITEMS of three": ended(plain({}) + pickle.MARK + one * 3 + pickle.SETITEMS),
        "a list for a key": ended(plain({}) + plain([]) + one + pickle.SETITEM),
        "an empty stack": ended(b""),
        "REDUCE of nothing": ended(pickle.REDUCE),
        "BUILD of a dict": ended(build(pickle.EMPTY_DICT, dict_of(a=one))),
        "TUPLE3 of two": ended(one + one + pickle.TUPLE3),
        "TUPLE without a mark": ended(one + pickle.TUPLE),
        "BINGET of nothing": ended(pickle.BINGET + b"\x09"),
        "LONG4, endless": ended(pickle.LONG4 + b"\xff\xff\xff\x7f"),
        "BINUNICODE longer than the file": ended(pickle.BINUNICODE + b"\xff\xff\xff\xff"),
        "BINUNICODE that is none": ended(pickle.BINUNICODE + b"\x01\x00\x00\x00\xff"),
        "BINUNICODE8, endless": ended(pickle.BINUNICODE8 + b"\xff" * 8),
        "FRAME, endless": ended(pickle.FRAME + b"\xff" * 7 + b"\x7f" + pickle.NONE),
        "BYTEARRAY8, endless": ended(pickle.BYTEARRAY8 + b"\xff" * 7 + b"\x7f"),
        "protocol 255": ended(pickle.NONE, 255),
        "no instruction": ended(b"\xff"),
        "a name without end": ended(pickle.GLOBAL + b"argparse"),
        "a name of a megabyte": ended(named("a" * 10**6, "b")),
        "a name that is no ASCII": ended(pickle.GLOBAL + "argparse\nNamesp\xe4ce\n".encode()),
        "no end": pickle.PROTO + b"\x02" + pickle.NONE,
        "a name in two parts": ended(named("argparse.Namespace", "__init__")),
        "a module for a name": ended(named("", "argparse.Namespace")),
    })  # fmt: skip
    return made
