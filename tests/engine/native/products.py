"""A packed product of the library beside plain loops over its weights."""

import ctypes
import functools
import os
import pathlib
import platform
import shutil
import subprocess
import tempfile

import numpy
import pytest

from fairseq_specdec.engine.native.variants import VARIANTS

# In the library's numbers; "halves" are float32 weights that half precision holds exactly.
FORMATS = {"float32": 0, "bfloat16": 1, "int8": 2, "halves": 0, "int7": 4}
AFTER = ("store", "relu", "add")
WIDTHS = (1, 2, 3, 7, 16, 31, 32, 33, 63, 64, 65, 100, 127, 128, 200, 257, 300)
ROWS = (*range(1, 30), 47, 88, 131, 300)

ALL_BITS = numpy.array(0x7FFFFFFF, numpy.int32).view(numpy.float32)  # the NaN that rounds to 0


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def unaligned(array):
    """The same numbers, 4 bytes past a cache line."""
    room = numpy.empty(array.size + 32, numpy.float32)
    start = (-(room.ctypes.data // 4)) % 16 + 1
    result = room[start : start + array.size].reshape(array.shape)
    result[:] = array
    return result


@functools.cache
def plain_loops():
    """``reference_multiply``, compiled here."""
    here = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    compiler, source = here.get("CXX", "g++"), pathlib.Path(__file__).parent / "cross/reference.cpp"
    if shutil.which(compiler.split()[0]) is None:
        pytest.skip("no C++ compiler for the plain loops")
    with tempfile.TemporaryDirectory() as folder:
        made = f"{folder}/reference.so"
        flags = next(each.flags for each in VARIANTS if platform.machine() in each.machines)
        command = [*compiler.split(), "-std=c++17", "-O2", "-ffp-contract=off", *flags]
        command += ["-fPIC", "-shared", str(source), "-o", made]
        subprocess.run(command, check=True, env=here)
        return ctypes.CDLL(made).reference_multiply


class Product:
    """One matrix, packed, with its own weights beside it."""

    def __init__(self, library, weight, bias, form):
        if form == "halves":
            with numpy.errstate(over="ignore"):
                weight = unaligned(weight.astype(numpy.float16).astype(numpy.float32))
        self.library, self.weight, self.bias, self.form = library, weight, bias, form
        self.out, self.columns = weight.shape
        self.handle = ctypes.c_void_p()
        library.call(
            "specdec_matrix_new",
            *(self.out, self.columns, pointer(weight), 0, self._bias, FORMATS[form]),
            ctypes.byref(self.handle),
        )

    @property
    def _bias(self):
        return None if self.bias is None else pointer(self.bias)

    def __del__(self):
        self.library.handle.specdec_matrix_free(self.handle)

    def __call__(self, x, y=None, after="store"):
        y = numpy.zeros((len(x), self.out), numpy.float32) if y is None else y
        self.library.call(
            "specdec_matrix_multiply",
            *(self.handle, len(x), pointer(x), x.strides[0] // 4),
            *(pointer(y), y.strides[0] // 4, AFTER.index(after)),
        )
        return y

    def reference(self, x, y=None, after="store"):
        y = numpy.zeros((len(x), self.out), numpy.float32) if y is None else y
        plain_loops()(
            *(self.out, self.columns, pointer(self.weight), self._bias, FORMATS[self.form]),
            *(len(x), pointer(x), x.strides[0] // 4),
            *(pointer(y), y.strides[0] // 4, AFTER.index(after)),
        )
        return y


def random_product(random, library, form, out=None, columns=None):
    out, columns = out or random.choice(WIDTHS), columns or random.choice(WIDTHS)
    weight = unaligned(random.standard_normal((out, columns), numpy.float32))
    bias = unaligned(random.standard_normal(out, numpy.float32)) if random.random() < 0.7 else None
    return Product(library, weight, bias, form)


def strided(random, rows, columns):
    """Random rows, and up to 8 numbers behind each."""
    room = int(random.integers(0, 9))
    return unaligned(random.standard_normal((rows, columns + room), numpy.float32))


def same_bits(a, b):
    return numpy.array_equal(a.view(numpy.int32), b.view(numpy.int32))
