"""Packed products against plain loops and float64, over random shapes, formats and strides."""

import ctypes

import numpy
import pytest
from products import AFTER, ALL_BITS, FORMATS, ROWS, Product, random_product, same_bits, strided


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", range(20))
def test_kernels_have_the_bits_of_plain_loops(loaded, form, seed):
    random = numpy.random.default_rng(seed)
    product = random_product(random, loaded, form)
    x = strided(random, random.choice(ROWS), product.columns)
    y = strided(random, len(x), product.out)
    after = random.choice(AFTER)
    expected = y.copy()
    product.reference(x, expected, after)
    assert not same_bits(y, expected)
    product(x, y, after)
    assert same_bits(y, expected)  # with what lies behind the rows


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("out, columns", [(257, 100), (64, 513)])
def test_a_row_has_the_same_bits_at_every_number_of_rows(loaded, form, out, columns):
    random = numpy.random.default_rng(out)
    product = random_product(random, loaded, form, out, columns)
    x = random.standard_normal((300, columns), numpy.float32)
    alone = numpy.concatenate([product(x[i : i + 1]) for i in range(len(x))])
    for rows in ROWS:
        first = int(random.integers(0, len(x) - rows + 1))
        assert same_bits(product(x[first : first + rows]), alone[first : first + rows]), rows


STEPS = {"float32": 0.0, "halves": 0.0, "bfloat16": 2.0**-8, "int8": 1 / 127, "int7": 1 / 63}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("seed", range(4))
def test_products_are_as_near_to_float64_as_their_steps(loaded, form, seed):
    """Each factor is off by half a step at most: of itself, or of the row's largest."""
    random = numpy.random.default_rng(seed)
    product = random_product(random, loaded, form, None if STEPS[form] == 0 else 100)
    x = random.standard_normal((int(random.choice(ROWS)), product.columns), numpy.float32)
    w, bias = product.weight.astype(float), 0.0 if product.bias is None else product.bias
    size_x, size_w = numpy.abs(x).astype(float), numpy.abs(w)
    # Every fused multiply-add rounds once (Higham 2002, section 3.1).
    bound = product.columns * 2.0**-24 * 1.01 * (size_x @ size_w.T + numpy.abs(bias))
    if form.startswith("int"):
        size_x = numpy.broadcast_to(size_x.max(1, keepdims=True), x.shape)
        size_w = numpy.broadcast_to(size_w.max(1, keepdims=True), w.shape)
    off_x, off_w = size_x * STEPS[form] / 2, size_w * STEPS[form] / 2
    bound = bound + 1.001 * (off_x @ (numpy.abs(w) + off_w).T + numpy.abs(x) @ off_w.T)
    error = numpy.abs(product(x) - (x.astype(float) @ w.T + bias))
    assert (error <= bound).all()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("bad", [numpy.nan, ALL_BITS, numpy.inf, -numpy.inf])
@pytest.mark.parametrize("rows", [1, 30])
def test_what_is_not_finite_reaches_the_output(loaded, form, bad, rows):
    random = numpy.random.default_rng(rows)
    weight = random.standard_normal((50, 70), numpy.float32)
    x = random.standard_normal((rows, 70), numpy.float32)
    clean = Product(loaded, weight, None, form)(x)
    x[-1, 13] = bad
    result = Product(loaded, weight, None, form)(x)
    assert not numpy.isfinite(result[-1]).any() and same_bits(result[:-1], clean[:-1])
    x[-1, 13] = 1.0
    clean = Product(loaded, weight, None, form)(x)
    weight[17, 69] = bad
    result = Product(loaded, weight, None, form)(x)
    others = numpy.arange(50) != 17
    assert not numpy.isfinite(result[:, 17]).any()
    assert same_bits(result[:, others], clean[:, others])
    x[:] = bad
    assert numpy.isnan(Product(loaded, weight, None, form)(x, after="relu")).any()


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_left_of_the_product_before(loaded, form):
    """The rest of a word that a row does not fill: NaN from before must not be in it."""
    weight = numpy.ones((5, 8), numpy.float32)
    x = numpy.full((3, 8), numpy.nan, numpy.float32)
    Product(loaded, weight, None, form)(x)
    for columns in range(1, 8):
        ones = numpy.ones((5, columns), numpy.float32)
        assert numpy.allclose(Product(loaded, ones, None, form)(ones[:3]), columns)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-38, 1e-31, 1e30])
def test_rows_and_weights_of_extreme_size(loaded, form, size):
    random = numpy.random.default_rng(3)
    weight = random.standard_normal((33, 65), numpy.float32)
    weight[5] *= numpy.float32(min(size, 1e4) if form == "halves" else size)
    x = random.standard_normal((13, 65), numpy.float32)
    x[4] *= numpy.float32(size)
    product = Product(loaded, weight, None, form)
    result, expected = product(x), product.reference(x)
    assert numpy.isfinite(expected[0, :5]).all()
    # bfloat16 instructions take subnormal numbers for zero
    numpy.testing.assert_allclose(result, expected, rtol=0, atol=1e-36, equal_nan=True)


@pytest.mark.parametrize(
    "odd", [0, 2.0**-24 * 1.5, 2.0**-25, 65504 * 1.001, 1 + 2.0**-11, numpy.nan]
)
def test_one_weight_that_no_half_holds_keeps_all_in_float32(loaded, odd):
    """0 is held: these weights are halves, subnormal ones among them, and negative zeros."""
    weight = numpy.tile(numpy.float32([2.0**-24, -0.0, 65504, -1, 2.0**-14, 3]), (40, 5))
    weight[33, 17] = odd
    x = numpy.random.default_rng(2).standard_normal((9, 30), numpy.float32)
    product = Product(loaded, weight, None, "float32")
    assert same_bits(product(x), product.reference(x))


def test_a_missing_column_leaves_negative_zero(loaded):
    """Halves lie in pairs of columns; the partner of the last one adds nothing, not even a zero."""
    weight, bias = numpy.ones((40, 3), numpy.float32), numpy.full(40, -0.0, numpy.float32)
    result = Product(loaded, weight, bias, "halves")(numpy.full((5, 3), -0.0, numpy.float32))
    assert (result == 0).all() and numpy.signbit(result).all()


def test_exact_halves_round_to_even(loaded):
    """127 sets the scale to 1, so that these numbers lie between two of int8's."""
    weight = numpy.zeros((6, 6), numpy.float32)
    numpy.fill_diagonal(weight, 127)
    x = numpy.array([[127, 0.5, 1.5, 2.5, -0.5, -1.5]], numpy.float32)
    expected = numpy.array([[127, 0, 2, 2, 0, -2]], numpy.float32) * 127
    assert numpy.array_equal(Product(loaded, weight, None, "int8")(x), expected)


@pytest.mark.parametrize("form, most", [("int8", 127), ("int7", 63)])
@pytest.mark.parametrize("rows", [1, 2, 3, 9])
def test_sums_of_bytes_do_not_saturate(loaded, form, most, rows):
    """The largest numbers everywhere, of either sign, at the largest width that is allowed."""
    columns = 65536
    for sign in (1, -1):
        weight = numpy.full((3, columns), most, numpy.float32)
        x = numpy.full((rows, columns), 127 * sign, numpy.float32)
        result = Product(loaded, weight, None, form)(x)
        assert (result == numpy.float32(127 * most * columns * sign)).all()
    with pytest.raises(ValueError, match="matrix"):
        Product(loaded, numpy.zeros((1, columns + 1), numpy.float32), None, form)


def test_too_little_memory_is_an_exception(loaded):
    handle = ctypes.c_void_p()
    with pytest.raises(MemoryError):
        loaded.call(
            "specdec_matrix_new", *(2**31 - 64, 2**31 - 64, None, 0, None, 0), ctypes.byref(handle)
        )
    assert not handle
