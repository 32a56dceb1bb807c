"""What a processor takes for the parts of a pass, as numbers that can be kept in a file."""

import json
import math
from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import PathLike, replacing

FORMATS = ("fp32", "halves", "bf16", "int8", "int7")
"""Formats of packed weights that are timed; halves are float32 stored so."""

# Files that were written before int7 was timed have no times of it: int8 takes as long or longer.
_SINCE = {"int7": "int8"}

# A pass reads its weights while it computes: it takes longer than the longer of the two, with this
# exponent from caches (of 2 to 6 that whose largest error over the rows of benchmarks/costs.md is
# least), and with those below from memory, as benchmarks/shapes.md shows: products in 8 bits hardly
# read ahead.
_OVERLAP = 3.0
_OVERLAP_OF_MEMORY = {"int8": 1.0, "int7": 1.0}
_OF_OTHERS = 2.0
_CACHED = 1 << 24  # bytes that a third-level cache holds, though others use it too


class Figures(NamedTuple):
    """Of one processor with one set of instructions.

    Attributes:
        processor: its name, for the reader of the file.
        rows: n, ascending from 1, for which products were timed.
        products: for each of ``FORMATS``, seconds of a multiply-add of a product with n rows whose
            weights are in the second-level cache, for each n of ``rows``.
        sizes: bytes, ascending.
        reads: seconds to read a byte of a buffer of each of these sizes.
        between: for each of ``FORMATS``, seconds of what lies between the products of a layer
            (attention, norms, conversions), for a row and a dimension of the model.
        start: seconds of a pass that do not depend on its rows.
    """

    processor: str
    rows: tuple[int, ...]
    products: dict[str, tuple[float, ...]]
    sizes: tuple[float, ...]
    reads: tuple[float, ...]
    between: dict[str, float]
    start: float

    def multiply(self, number_format: str, rows: float, multiply_adds: float) -> float:
        """Seconds of products of so many multiply-adds per row, without reading their weights."""
        times = [n * each for n, each in zip(self.rows, self.products[number_format])]
        return multiply_adds * _between_points(self.rows, times, rows)

    def read(self, size: float, resident: float) -> float:
        """Seconds to read ``size`` bytes, where a cache has to hold ``resident`` in all."""
        return size * _between_points(self.sizes, self.reads, max(resident, self.sizes[0]), False)

    def overlapped(
        self, computing: float, reading: float, resident: float = 0.0, number_format: str = "fp32"
    ) -> float:
        """Seconds of computing with what is read at the same time.

        Args:
            computing, reading: seconds of each alone.
            resident: bytes that the caches have to hold, as in ``read``.
            number_format: of the weights.
        """
        longer = max(computing, reading)
        if longer == 0:
            return 0.0
        exponents = (_OVERLAP, _OVERLAP_OF_MEMORY.get(number_format, _OF_OTHERS))
        # From caches to memory: from the largest size that a cache holds to the one after it.
        cached = sum(size <= _CACHED for size in self.sizes)
        least, most = (self.sizes[max(0, min(cached, len(self.sizes) - 1) - 1) :] * 2)[:2]
        overlap = _between_points((least, most), exponents, min(max(resident, least), most), False)
        shares = (computing / longer) ** overlap + (reading / longer) ** overlap
        return float(longer * shares ** (1 / overlap))


def _between_points(points: tuple[float, ...], values: Any, at: float, grows: bool = True) -> float:
    """The value at a point, on the line through the two points around it; beyond the last one on
    the line from 0 through that (``grows``), or as there."""
    if at >= points[-1]:
        return float(values[-1] * (at / points[-1] if grows else 1.0))
    after = next(i for i, point in enumerate(points) if point > at)
    if after == 0:
        return float(values[0] * at / points[0])
    share = (at - points[after - 1]) / (points[after] - points[after - 1])
    return float(values[after - 1] + share * (values[after] - values[after - 1]))


def save(figures: Figures, path: PathLike) -> None:
    """Write a file that ``load`` reads, whole or not at all.

    Raises:
        OSError: it names the file.
    """
    with replacing(path, make_folder=True) as stream:
        json.dump(figures._asdict(), stream, indent=1)
        stream.write("\n")


def load(path: PathLike) -> Figures:
    """The figures of a file.

    Raises:
        ValueError: it cannot be read, or is no such file.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            return checked(json.load(stream))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            path, f"no figures of a processor as fairseq_specdec.costs.cli writes them ({reason})"
        ) from None


def checked(given: Any) -> Figures:
    """Figures of parsed JSON.

    Raises:
        ValueError: in words, what is wrong with them.
    """
    if not isinstance(given, dict) or set(given) != set(Figures._fields):
        raise ValueError(f"its keys are not {', '.join(Figures._fields)}")
    if not isinstance(given["processor"], str):
        raise ValueError("processor is no text")
    rows, sizes = _numbers(given, "rows"), _numbers(given, "sizes")
    if rows[0] != 1 or any(int(n) != n for n in rows):
        raise ValueError("rows are not whole numbers from 1")
    for name, points in (("rows", rows), ("sizes", sizes)):
        if list(points) != sorted(set(points)):
            raise ValueError(f"{name} do not ascend")
    reads = _numbers(given, "reads", len(sizes))
    products, between = _of_formats(given, "products"), _of_formats(given, "between")
    return Figures(
        given["processor"],
        tuple(int(n) for n in rows),
        {name: _numbers(products, name, len(rows)) for name in FORMATS},
        sizes,
        reads,
        {name: _number(between[name], name) for name in FORMATS},
        _number(given["start"], "start"),
    )


def _of_formats(given: Any, part: str) -> dict[str, Any]:
    values = given[part]
    known = isinstance(values, dict) and set(values) <= set(FORMATS) <= set(values) | set(_SINCE)
    if not known:
        raise ValueError(f"{part} are not of {', '.join(FORMATS)}")
    return {name: values[name if name in values else _SINCE[name]] for name in FORMATS}


def _numbers(given: Any, name: str, count: int = 0) -> tuple[float, ...]:
    values = given[name]
    if not isinstance(values, list) or not values or (count and len(values) != count):
        raise ValueError(f"{name} is no list of {count or 'some'} numbers")
    return tuple(_number(value, name) for value in values)


def _number(value: Any, name: str) -> float:
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not known or not 0 < value < math.inf:
        raise ValueError(f"{name} holds {str(value)[:20]!r}, which is no positive number")
    return float(value)
