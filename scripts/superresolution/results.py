"""Table 2 of blockwise parallel decoding, from decoded pictures."""

import math
import pathlib
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fairseq_specdec.bench.tables import table
from fairseq_specdec.io.atomic import write_json, write_text

COLUMNS = ("regular", "approximate", "fine_tuned", "both")
ACCEPTED = re.compile(r"strategy \S+: .*?([\d.]+) mean accepted tokens")

Picture = np.ndarray


class Decoded(NamedTuple):
    """What one model made of the test pictures: uint8 pictures by number, and its mean block."""

    originals: dict[int, Picture]
    pictures: dict[int, Picture]
    accepted: float


def picture_of(words: Sequence[str]) -> Picture:
    """Square picture of pixels in raster order; a word that is no number is black."""
    values = [min(int(word), 255) if word.isdecimal() else 0 for word in words]
    side = math.isqrt(len(values))
    if side * side != len(values):
        raise ValueError(f"{len(values)} pixels are no square picture")
    return np.array(values, dtype=np.uint8).reshape(side, side)


def read_decoded(out: pathlib.Path) -> Decoded:
    """Read COLUMN_k.out and the log beside it."""
    kinds: dict[str, dict[int, Picture]] = {"T": {}, "H": {}}
    for row in out.read_text(encoding="utf-8").splitlines():
        head, *fields = row.split("\t")
        kind, _, number = head.partition("-")
        if kind in kinds and number.isdecimal():
            kinds[kind][int(number)] = picture_of(fields[-1].split())
    accepted = ACCEPTED.findall(out.with_suffix(".log").read_text(encoding="utf-8"))
    if not kinds["H"] or not accepted:
        raise ValueError(f"{out}: no pictures in it, or no summary in its log")
    return Decoded(kinds["T"], kinds["H"], float(accepted[-1]))


def psnr(decoded: Decoded) -> float:
    """Mean over the pictures of 10 log10(255^2 / mean squared error), in dB."""
    values = []
    for number, picture in decoded.pictures.items():
        error = picture.astype(float) - decoded.originals[number]
        values.append(10 * math.log10(255**2 / max(float((error**2).mean()), 1e-9)))
    return sum(values) / len(values)


def write(folder: pathlib.Path, name: pathlib.Path) -> None:
    """Write the mean accepted block size of each k and column, with the PSNR behind it.

    Args:
        folder: of COLUMN_k.out and COLUMN_k.log; regular_1 is the base model alone.
        name: of the table, without its suffix.
    """
    figures: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.out")):
        column, _, k = path.stem.rpartition("_")
        if column in COLUMNS:
            decoded = read_decoded(path)
            cell = {"accepted": decoded.accepted, "psnr": psnr(decoded)}
            figures.setdefault(k, {})[column] = cell
    body = []
    for k in sorted(figures, key=int):
        cells = [figures[k].get(column) for column in COLUMNS]
        texts = [f"{c['accepted']:.2f} ({c['psnr']:.1f} dB)" if c else "" for c in cells]
        body.append([k, *texts])
    text = table(["k", *(column.replace("_", " ") for column in COLUMNS)], body) + "\n"
    write_json(name.with_suffix(".json"), figures, make_folder=True)
    write_text(name.with_suffix(".md"), text)
    print(text, end="")
