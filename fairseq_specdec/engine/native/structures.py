"""The structures of the native library's C interface: names and fields are those of ``src``.
``library`` compares their sizes with those of an object before it uses that."""

from ctypes import POINTER, Structure, c_float, c_int, c_int32, c_int64, c_void_p
from typing import Any


def _fields(*runs: tuple[str, Any]) -> list[tuple[str, Any]]:
    """Fields, those of one type next to each other by their names in a string."""
    return [(name, kind) for names, kind in runs for name in names.split()]


class Shape(Structure):
    _fields_ = _fields(
        ("layers width inner heads decoder cross pre_norm activation source features", c_int)
    )


class MatrixParts(Structure):
    _fields_ = _fields(
        ("out in format", c_int32), ("words_size", c_int64), ("words", c_void_p),
        ("outputs", c_int64), ("bias scales offsets", c_void_p),
    )  # fmt: skip


class RunCall(Structure):
    _fields_ = _fields(
        ("rows width upto size", c_int64), ("x slots allowed places", c_void_p),
        ("wanted read_count", c_int64), ("read", POINTER(c_int32)), ("features states", c_void_p),
    )  # fmt: skip


class Embedding(Structure):
    _fields_ = _fields(
        ("tokens packed positions", c_void_p), ("vocabulary places width", c_int64),
        ("scale", c_float),
    )  # fmt: skip


class Rules(Structure):
    _fields_ = _fields(
        ("pad unk eos min_len max_len", c_int32), ("unk_penalty temperature", c_float),
        ("top_beta", c_int32), ("tau", c_float),
        ("prefix", c_void_p), ("prefix_width", c_int64), ("limits", c_void_p),
    )  # fmt: skip


class Drafts(Structure):
    _fields_ = _fields(("rows width", c_int64), ("tokens sizes", c_void_p))


class Hypotheses(Structure):
    _fields_ = _fields(("columns", c_int64), ("tokens scores lengths", c_void_p))


class StepOutputs(Structure):
    _fields_ = _fields(
        ("outcomes drafts choices seconds states", c_void_p), ("state_stride", c_int64)
    )


class Drafting(Structure):
    _fields_ = _fields(
        ("drafter session copy", c_void_p), ("embedding", Embedding), ("block positions", c_int64),
        ("states", c_void_p), ("state_stride", c_int64), ("candidates", c_int32),
        ("confidence", c_float), ("costs", c_void_p), ("steps", c_int64),
    )  # fmt: skip


class SourceCopy(Structure):
    _fields_ = _fields(
        ("rows", c_int64), ("origin tokens ends", c_void_p), ("max_suffix times", c_int64),
    )  # fmt: skip


class VerifyCall(Structure):
    _fields_ = _fields(
        ("embedding", Embedding), ("rules", Rules), ("drafts", Drafts), ("hypotheses", Hypotheses),
        ("read_count", c_int64), ("read", POINTER(c_int32)),
        ("max_iterations", c_int64), ("outputs", StepOutputs), ("drafting", POINTER(Drafting)),
        ("done windows window", c_int64),
    )  # fmt: skip


class BeamSetup(Structure):
    _fields_ = _fields(("embedding", Embedding), ("rules", Rules), ("beam start", c_int64))


class BeamFacts(Structure):
    _fields_ = _fields(("done failure passes steps scored drafted used live depth ended", c_int64))


STRUCTURES: dict[str, type[Structure]] = {
    each.__name__: each for each in vars().copy().values()
    if isinstance(each, type) and issubclass(each, Structure) and each is not Structure
}  # fmt: skip
"""All of them, by their names in C++."""
