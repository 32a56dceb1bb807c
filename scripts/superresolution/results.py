"""Table 2 of blockwise parallel decoding, and the pictures side by side, from decoded pictures."""

import math
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairseq_specdec.io.atomic import replacing, write_json, write_text

COLUMNS = ("regular", "approximate", "fine_tuned", "both")
TITLES = {
    "regular": "Regular", "approximate": "Approximate", "fine_tuned": "Fine Tuned", "both": "Both",
}  # fmt: skip
ACCEPTED = re.compile(r"strategy \S+: .*?([\d.]+) mean accepted tokens")
ZOOM = 4
GAP = 4
CAPTION = 14

Picture = np.ndarray


class Decoded(NamedTuple):
    """What one model made of the test pictures: uint8 pictures by number, and its mean block."""

    inputs: dict[int, Picture]
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
    kinds: dict[str, dict[int, Picture]] = {"S": {}, "T": {}, "H": {}}
    for row in out.read_text(encoding="utf-8").splitlines():
        head, *fields = row.split("\t")
        kind, _, number = head.partition("-")
        if kind in kinds and number.isdecimal():
            kinds[kind][int(number)] = picture_of(fields[-1].split())
    accepted = ACCEPTED.findall(out.with_suffix(".log").read_text(encoding="utf-8"))
    if not kinds["H"] or not accepted:
        raise ValueError(f"{out}: no pictures in it, or no summary in its log")
    return Decoded(kinds["S"], kinds["T"], kinds["H"], float(accepted[-1]))


def psnr(decoded: Decoded) -> float:
    """Mean over the pictures of 10 log10(255^2 / mean squared error), in dB."""
    values = []
    for number, picture in decoded.pictures.items():
        error = picture.astype(float) - decoded.originals[number]
        values.append(10 * math.log10(255**2 / max(float((error**2).mean()), 1e-9)))
    return sum(values) / len(values)


def table(results: dict[str, Decoded]) -> list[dict[str, float | None]]:
    """A row for each k: mean block size and PSNR of each column."""
    greedy = results["regular_1"]
    rows: list[dict[str, float | None]] = []
    for k in sorted({int(name.rsplit("_", 1)[1]) for name in results}):
        row: dict[str, float | None] = {"k": k}
        for column in COLUMNS:
            decoded = results.get(f"{column}_{k}")
            row[column] = decoded and decoded.accepted
            row[f"{column}_psnr"] = decoded and psnr(decoded)
            row[f"{column}_identical"] = decoded and sum(
                bool((picture == greedy.pictures[number]).all())
                for number, picture in decoded.pictures.items()
            ) / len(decoded.pictures)
        rows.append(row)
    return rows


def as_markdown(rows: Sequence[dict[str, float | None]]) -> str:
    """Mean accepted block size, with the PSNR behind it."""
    lines = ["| k | " + " | ".join(TITLES[c] for c in COLUMNS) + " |", "|---" * 5 + "|"]
    for row in rows:
        cells = [
            "" if row[c] is None else f"{row[c]:.2f} ({row[c + '_psnr']:.1f} dB)" for c in COLUMNS
        ]
        lines.append(f"| {row['k']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def enlarged(picture: Picture, side: int) -> Picture:
    """A square picture as large as ``side`` pixels, in squares."""
    return np.kron(picture, np.ones((side // len(picture),) * 2, dtype=np.uint8))


def side_by_side(results: dict[str, Decoded], shown: int) -> "tuple[Picture, list[str]]":
    """The grid of pictures, and the captions of its columns: input, original, greedy, both."""
    first = results["regular_1"]
    numbers = sorted(first.pictures)[:shown]
    side = ZOOM * len(first.originals[numbers[0]])
    columns = [("input", first.inputs), ("original", first.originals), ("k=1", first.pictures)]
    tuned = sorted(int(name[5:]) for name in results if name.startswith("both_"))
    columns += [(f"both k={k}", results[f"both_{k}"].pictures) for k in tuned]
    step = side + GAP
    grid = np.full((CAPTION + step * len(numbers), step * len(columns)), 255, dtype=np.uint8)
    for x, (_, pictures) in enumerate(columns):
        for y, number in enumerate(numbers):
            top = CAPTION + y * step
            cell = enlarged(pictures[number], side)
            grid[top : top + side, x * step : x * step + side] = cell
    return grid, [caption for caption, _ in columns]


def save_png(path: pathlib.Path, grid: Picture, captions: Sequence[str]) -> None:
    """Write the grid with its captions."""
    from PIL import Image, ImageDraw

    image = Image.fromarray(grid)
    pen = ImageDraw.Draw(image)
    for x, caption in enumerate(captions):
        pen.text((x * grid.shape[1] // len(captions), 1), caption, fill=0)
    with replacing(path, "wb", make_folder=True) as stream:
        image.save(stream, format="PNG")


def write(folder: pathlib.Path, name: pathlib.Path, pictures: pathlib.Path, shown: int = 8) -> None:
    """Read a folder of decoded pictures; write the table and the picture.

    Args:
        folder: of COLUMN_k.out and COLUMN_k.log.
        name: of the table, without its suffix.
        shown: rows of pictures.
    """
    names = re.compile(rf"({'|'.join(COLUMNS)})_\d+")
    files = [path for path in sorted(folder.glob("*.out")) if names.fullmatch(path.stem)]
    results = {path.stem: read_decoded(path) for path in files}
    if "regular_1" not in results:
        raise ValueError(f"{folder}: no regular_1.out, the base model's own pictures")
    rows = table(results)
    write_json(name.with_suffix(".json"), rows, make_folder=True)
    write_text(name.with_suffix(".md"), as_markdown(rows))
    save_png(pictures, *side_by_side(results, shown))
    print(as_markdown(rows), end="")
