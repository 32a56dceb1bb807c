"""Pickles of objects and storages that no checkpoint holds, by name."""

import pickle

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
from pickle_payloads import NAMESPACE


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
