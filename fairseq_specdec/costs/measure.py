"""Times the parts of a pass on this processor, with the native library's own code."""

import ctypes
import functools
import platform
import time
from collections.abc import Callable
from typing import Any

import torch

from fairseq_specdec.engine.native.library import Library
from fairseq_specdec.engine.native.linear import NativeLinear
from fairseq_specdec.engine.native.pointers import pointer
from fairseq_specdec.engine.native.structures import RunCall, Shape
from fairseq_specdec.engine.number_formats import PACKED

from .figures import FORMATS, Figures

ROWS = (*range(1, 21), 24, 25, 26, 32, 40, 48, 64)
SIZES = (1 << 18, 1 << 20, 1 << 22, 1 << 24, 24 << 20, 96 << 20)

# The layer that is timed: its weights stay in every second-level cache.
_WIDTH, _HEADS, _SOURCE, _PREFIX = 256, 4, 24, 16
_FEW, _MANY = 1, 9  # rows of the passes whose difference is a row's time
_TRIES = 5


def measure(library: Library) -> Figures:
    """The figures of this processor with the instructions of a library; in about 0.5 s."""
    # Numbers that are no halves, unless they are to be stored so.
    values = {name: 0.5 if name == "halves" else 0.1 for name in FORMATS}
    weights = {name: torch.full((_WIDTH, _WIDTH), value) for name, value in values.items()}
    matrices = {
        name: NativeLinear(library, weights[name], None, name if name in PACKED else "fp32")
        for name in FORMATS
    }
    seconds = {
        name: _rising({rows: matrix.seconds(rows, _TRIES) for rows in ROWS})
        for name, matrix in matrices.items()
    }
    size = _WIDTH * _WIDTH
    products = {name: tuple(seconds[name][rows] / rows / size for rows in ROWS) for name in FORMATS}
    between, starts = {}, []
    for name in FORMATS:
        few, many = _layer_seconds(library, matrices[name])
        count = _LAYER_PRODUCTS
        row = (many - few - count * (seconds[name][_MANY] - seconds[name][_FEW])) / (_MANY - _FEW)
        between[name] = max(row / _WIDTH, 1e-12)
        starts.append(few - count * seconds[name][_FEW] - row * _FEW)
    sizes, reads = _reads()
    reads = (*reads[:-1], _product_read(library))
    start = sorted(starts)[len(starts) // 2]  # each the difference of longer times
    return Figures(processor(), ROWS, products, sizes, reads, between, max(start, 1e-7))


def _rising(seconds: dict[int, float]) -> dict[int, float]:
    """By rows, none longer than with more rows: what took longer was disturbed in all its tries."""
    least, rising = float("inf"), {}
    for rows in sorted(seconds, reverse=True):
        least = rising[rows] = min(least, seconds[rows])
    return rising


# q, k, v, out, cross query, cross out, fc1 and fc2, each [C, C].
_LAYER_PRODUCTS = 8


def _layer_seconds(library: Library, matrix: NativeLinear) -> tuple[float, float]:
    """The least seconds of passes over ``_FEW`` and ``_MANY`` rows through a decoder layer, all of
    whose products are of one matrix."""
    width, number_format = _WIDTH, matrix.number_format
    number = float(matrix.unpacked()[0, 0]) if matrix.exact else 0.1
    wide = torch.full((3 * width, width), number)
    qkv = NativeLinear(library, wide, None, number_format)
    pair = NativeLinear(library, wide[: 2 * width], None, number_format)
    stack, session = ctypes.c_void_p(), ctypes.c_void_p()
    shape = Shape(1, width, width, _HEADS, 1, 1, 0, 1, 0, width, width)
    library.call("specdec_stack_new", ctypes.byref(shape), ctypes.byref(stack))
    try:
        for part, each in enumerate((qkv, matrix, matrix, pair, matrix, matrix, matrix)):
            library.call("specdec_stack_matrix", stack, 0, part, each.pointer)
        ones = torch.ones(width)
        for norm in range(3):
            library.call(
                "specdec_stack_norm", stack, 0, norm, width, pointer(ones), pointer(ones), 1e-5
            )
        library.call("specdec_stack_finish", stack)
        library.call("specdec_session_new", stack, ctypes.byref(session))
        try:
            states = torch.ones(1, _SOURCE, width)
            library.call(
                "specdec_session_open", session, 1, _SOURCE, width, pointer(states), None,
                _PREFIX + _MANY,
            )  # fmt: skip
            return _passes(library, session, _FEW), _passes(library, session, _MANY)
        finally:
            library.free("specdec_session_free", session)
    finally:
        library.free("specdec_stack_free", stack)


def _passes(library: Library, session: ctypes.c_void_p, rows: int) -> float:
    x = torch.ones(1, rows, _WIDTH)
    slots = torch.arange(_PREFIX, _PREFIX + rows).unsqueeze(0)
    features = torch.empty(1, rows, _WIDTH)
    read = (ctypes.c_int32 * 1)()
    call = RunCall(
        1, rows, _PREFIX + rows, _WIDTH, pointer(x), pointer(slots, torch.long), None, None, None,
        rows, 0, read, pointer(features), None,
    )  # fmt: skip

    def run() -> None:
        library.call("specdec_session_run", session, ctypes.byref(call))

    return min(_timed(run) for _ in range(4 * _TRIES))


def _timed(run: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    started = clock()
    run()
    return clock() - started


def _reads() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(bytes, seconds to read a byte of so many), by a search that finds nothing.

    In the thread's own time: the longest search takes 8 ms, and on a busy machine hardly one of
    these passes without an interruption.
    """
    buffer = b"\2" * SIZES[-1]
    reads: list[float] = []
    for size in SIZES:
        search = functools.partial(buffer.find, b"\1", 0, size)
        tries = 3 if size > SIZES[-2] else 10
        times = [_timed(search, time.thread_time) for _ in range(tries)]
        reads.append(min(times) / size)
    return tuple(map(float, SIZES)), tuple(reads)


def _product_read(library: Library) -> float:
    """Seconds to read a byte of memory as a product with one row reads it: on an Emerald Rapids it
    takes four fifths of the search's."""
    matrix = NativeLinear(library, torch.full((SIZES[-1] // 4 // 1024, 1024), 0.1), None, "fp32")
    row = torch.ones(1, matrix.width)
    return min(_timed(lambda: matrix(row), time.thread_time) for _ in range(4)) / matrix.nbytes


def processor() -> str:
    """Its name, where the system has it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            facts: dict[str, str] = {}
            for line in stream:
                name, _, value = line.partition(":")
                facts.setdefault(name.strip(), value.strip())
        parts = [facts.get(name, "") for name in ("model name", "cpu family", "model")]
        return " ".join(filter(None, parts)) or platform.machine()
    except OSError:
        return platform.processor() or platform.machine()
