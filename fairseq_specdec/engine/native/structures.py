"""The structures of the native library's C interface, field by field as in ``src``."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_double, c_float, c_int32, c_int64, c_void_p
from typing import Any, ClassVar, Dict, List, Tuple, Type

Fields = List[Tuple[str, Any]]


class Shape(Structure):
    """``specdec::Shape`` (transformer.h)."""

    _fields_: ClassVar[Fields] = [
        ("layers", ctypes.c_int),
        ("width", ctypes.c_int),
        ("inner", ctypes.c_int),
        ("heads", ctypes.c_int),
        ("decoder", ctypes.c_int),
        ("cross", ctypes.c_int),
        ("joined", ctypes.c_int),
        ("pre_norm", ctypes.c_int),
        ("activation", ctypes.c_int),
        ("source", ctypes.c_int),
        ("features", ctypes.c_int),
    ]


class MatrixParts(Structure):
    """``specdec::MatrixParts`` (product.h)."""

    _fields_: ClassVar[Fields] = [
        ("out", c_int32),
        ("in", c_int32),
        ("format", c_int32),
        ("words_size", c_int64),
        ("words", c_void_p),
        ("outputs", c_int64),
        ("bias", c_void_p),
        ("scales", c_void_p),
        ("offsets", c_void_p),
    ]


class RunCall(Structure):
    """``specdec::RunCall`` (transformer_abi.cpp)."""

    _fields_: ClassVar[Fields] = [
        ("rows", c_int64),
        ("width", c_int64),
        ("upto", c_int64),
        ("size", c_int64),
        ("x", c_void_p),
        ("slots", c_void_p),
        ("allowed", c_void_p),
        ("places", c_void_p),
        ("bias", c_void_p),
        ("wanted", c_int64),
        ("read_count", c_int64),
        ("read", POINTER(c_int32)),
        ("features", c_void_p),
        ("states", c_void_p),
    ]


class Embedding(Structure):
    """``specdec::Embedding`` (verify.h)."""

    _fields_: ClassVar[Fields] = [
        ("tokens", c_void_p),
        ("packed", c_void_p),
        ("positions", c_void_p),
        ("vocabulary", c_int64),
        ("places", c_int64),
        ("width", c_int64),
        ("scale", c_float),
    ]


class Rules(Structure):
    """``specdec::Rules`` (verify.h)."""

    _fields_: ClassVar[Fields] = [
        ("pad", c_int32),
        ("unk", c_int32),
        ("eos", c_int32),
        ("min_len", c_int32),
        ("max_len", c_int32),
        ("unk_penalty", c_float),
        ("temperature", c_float),
        ("top_beta", c_int32),
        ("tau", c_float),
        ("regret_budget", c_double),
        ("prefix", c_void_p),
        ("prefix_width", c_int64),
    ]


class Drafts(Structure):
    """``specdec::Drafts`` (verify.h)."""

    _fields_: ClassVar[Fields] = [
        ("rows", c_int64),
        ("width", c_int64),
        ("tokens", c_void_p),
        ("token_stride", c_int64),
        ("sizes", c_void_p),
    ]


class HypothesesView(Structure):
    """``specdec::Hypotheses`` (verify.h)."""

    _fields_: ClassVar[Fields] = [
        ("tokens", c_void_p),
        ("token_stride", c_int64),
        ("scores", c_void_p),
        ("score_stride", c_int64),
        ("columns", c_int64),
        ("lengths", c_void_p),
        ("spent", c_void_p),
    ]


class Verdict(Structure):
    """``specdec::Verdict`` (verify.h)."""

    _fields_: ClassVar[Fields] = [
        ("facts", c_void_p),
        ("choices", c_void_p),
        ("seconds", c_void_p),
        ("states", c_void_p),
        ("states_per_iteration", c_int64),
    ]


class DraftRequest(Structure):
    """``specdec::DraftRequest`` (block_drafter.h)."""

    _fields_: ClassVar[Fields] = [
        ("masks", c_int64),
        ("first", c_int64),
        ("cached", c_void_p),
        ("states", c_void_p),
        ("state_stride", c_int64),
        ("sizes", c_void_p),
        ("candidates", c_int32),
        ("confidence", c_float),
        ("costs", c_void_p),
        ("token_stride", c_int64),
        ("words", c_void_p),
    ]


class DraftCall(Structure):
    """``specdec::DraftCall`` (transformer_abi.cpp)."""

    _fields_: ClassVar[Fields] = [
        ("embedding", Embedding),
        ("hypotheses", HypothesesView),
        ("request", DraftRequest),
        ("tokens", c_void_p),
        ("sizes", c_void_p),
    ]


class DraftLoop(Structure):
    """``specdec::DraftLoop`` (block_drafter.h)."""

    _fields_: ClassVar[Fields] = [
        ("embedding", Embedding),
        ("request", DraftRequest),
        ("block", c_int64),
        ("max_len", c_int64),
        ("positions", c_int64),
        ("whole", c_int64),
        ("accepted", c_double),
        ("stopped", c_double),
        ("forgets", c_double),
        ("low", c_double),
        ("high", c_double),
        ("cached", c_void_p),
        ("tokens", c_void_p),
        ("sizes", c_void_p),
        ("seconds", c_void_p),
        ("copy", c_void_p),
        ("drafts", c_int64),
    ]


class SourceCopy(Structure):
    """``specdec::SourceCopy`` (source_copy.h)."""

    _fields_: ClassVar[Fields] = [
        ("rows", c_int64),
        ("tokens", c_void_p),
        ("sizes", c_void_p),
        ("max_suffix", c_int64),
        ("realign", c_int64),
        ("begin", c_void_p),
        ("seen", c_void_p),
    ]


class VerifyCall(Structure):
    """``specdec::VerifyCall`` (transformer_abi.cpp)."""

    _fields_: ClassVar[Fields] = [
        ("embedding", Embedding),
        ("rules", Rules),
        ("drafts", Drafts),
        ("hypotheses", HypothesesView),
        ("read_count", c_int64),
        ("read", POINTER(c_int32)),
        ("most", c_int64),
        ("verdict", Verdict),
        ("done", c_int64),
        ("drafter", c_void_p),
        ("draft_session", c_void_p),
        ("loop", POINTER(DraftLoop)),
    ]


class BeamSetup(Structure):
    """``specdec::BeamSetup`` (beam_abi.cpp)."""

    _fields_: ClassVar[Fields] = [
        ("embedding", Embedding),
        ("rules", Rules),
        ("beam", c_int64),
        ("start", c_int64),
    ]


class BeamFacts(Structure):
    """``specdec::BeamFacts`` (beam_abi.cpp)."""

    _fields_: ClassVar[Fields] = [
        ("done", c_int64),
        ("failure", c_int64),
        ("passes", c_int64),
        ("steps", c_int64),
        ("scored", c_int64),
        ("drafted", c_int64),
        ("used", c_int64),
        ("live", c_int64),
        ("depth", c_int64),
        ("ended", c_int64),
        ("draft", c_int64),
    ]


class PrefixFacts(Structure):
    """``specdec::PrefixFacts`` (beam_abi.cpp)."""

    _fields_: ClassVar[Fields] = [("length", c_int64), ("scored", c_int64), ("kept", c_int64)]


STRUCTURES: Dict[str, Type[Structure]] = {
    "Shape": Shape,
    "RunCall": RunCall,
    "Embedding": Embedding,
    "Rules": Rules,
    "Drafts": Drafts,
    "Hypotheses": HypothesesView,
    "Verdict": Verdict,
    "DraftLoop": DraftLoop,
    "DraftRequest": DraftRequest,
    "DraftCall": DraftCall,
    "VerifyCall": VerifyCall,
    "BeamSetup": BeamSetup,
    "BeamFacts": BeamFacts,
    "PrefixFacts": PrefixFacts,
    "MatrixParts": MatrixParts,
    "SourceCopy": SourceCopy,
}
"""All of them, by their names in C++."""
