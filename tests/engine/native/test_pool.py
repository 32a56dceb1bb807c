"""Threads within a product: the same bits, from any number of callers, and after a fork."""

import os

import numpy
import pytest
from products import Product, same_bits

from fairseq_specdec.engine.native.library import threads_wanted

FORMATS = ("float32", "bfloat16", "int8", "int7")


@pytest.fixture
def threads(loaded):
    """Sets the number of threads, until the test ends."""
    yield lambda count: loaded.call("specdec_set_threads", count)
    loaded.call("specdec_set_threads", 1)


def large_product(library, form, seed=0):
    """A product that is large enough to be shared, and its x."""
    random = numpy.random.default_rng(seed)
    weight = random.standard_normal((2113, 300), numpy.float32)
    bias = random.standard_normal(2113, numpy.float32)
    return Product(library, weight, bias, form), random.standard_normal((61, 300), numpy.float32)


@pytest.mark.parametrize("form", FORMATS)
def test_any_number_of_threads_gives_the_same_bits(loaded, threads, form):
    product, x = large_product(loaded, form)
    alone = product(x)
    for count in (2, 3, 7, 2, 16, 1):
        threads(count)
        for _ in range(10):
            assert same_bits(product(x), alone), count


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads in /proc")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_process_has_threads_of_its_own(loaded, threads):
    product, x = large_product(loaded, "float32")
    threads(2)
    expected = product(x)
    child = os.fork()
    if child == 0:
        right = all(same_bits(product(x), expected) for _ in range(20))
        os._exit(0 if right and len(os.listdir("/proc/self/task")) == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert same_bits(product(x), expected)


@pytest.mark.parametrize(
    "value, expected", [("1", 1), ("2", 2), ("2,4", 2), ("99", 3), ("0", 1), ("many", 1), ("", 1)]
)
def test_the_environment_sets_how_many(monkeypatch, value, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2}, raising=False)
    assert threads_wanted({"OMP_NUM_THREADS": value}) == expected
    assert threads_wanted({}) == 1
