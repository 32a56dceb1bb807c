"""Super-resolution of small pictures with blockwise decoding (Stern et al. 2018, section 7.2)."""

import pathlib
import re
from typing import Any

import numpy as np
from blockwise.steps import chosen
from launch import Devices
from models import decode
from prepare import SPLITS, binarise
from step import Step

from fairseq_specdec.bench.tables import table
from fairseq_specdec.io.atomic import write_json, write_text

PAIR = ("low", "high")
# Columns of Table 2 by what was trained: decoded exactly, and approximately.
COLUMNS = {"frozen": ("regular", "approximate"), "tuned": ("fine_tuned", "both")}
ACCEPTED = re.compile(r"strategy \S+: .*?([\d.]+) mean accepted tokens")


def pictures(step: Step) -> None:
    """An action: small pictures as sequences of pixels. A work folder belongs to one size."""
    step.need("fairseq-preprocess")
    out = step.path("OUT")
    text, record = out / "text", out / "images.json"
    if step.finished(record, []):
        return
    step.make(out)
    names = ("SIDE", "FACTOR", "PATCHES", "TEST", "SEED")
    step.call("superresolution.images.write", text, *map(step.settings.number, names))
    prefixes = {split: text / split for split in SPLITS}
    joint = ("--joined-dictionary", "--srcdict", text / "dict.txt")
    log = out / "preprocess.log"
    binarise(step, step.path("BIN"), PAIR, prefixes, *joint, log=log, workers="1")
    step.record(record, [], step["BIN"], text)


def decode_all(step: Step) -> None:
    """An action: decode the test faces exactly and approximately; Table 2."""
    step.need("fairseq-generate")
    out, base = step.path("OUT"), step.path("OUT") / "base" / "model.pt"
    systems: list[Any] = [("regular_1", base, "--strategy", "greedy")]
    loose = ["--accept-epsilon", step["EPSILON"]]
    for heads in chosen(step.settings):
        model = out / "heads" / heads.name / "model.pt"
        for column, more in zip(COLUMNS[heads.way], ([], loose)):
            systems.append((f"{column}_{heads.k}", model, "--strategy", "blockwise", *more))
    used = dict.fromkeys(model for _, model, *_ in systems)
    inputs, record = [*used, step.path("BIN") / "test.low-high.low.bin"], out / "provenance.json"
    if step.finished(record, inputs):
        return
    # A picture has exactly so many pixels.
    size, folder = step.settings.number("SIDE") ** 2, out / "decoded"
    length = ["--max-len-a", "0", "--max-len-b", size, "--min-len", size]
    device = ["--cpu"] if Devices(step).cpu else []
    for system in systems:
        shared = {"corpus": step["BIN"], "pair": PAIR, "folder": folder, "device": device}
        decode(step, *system, *length, **shared)
    step.call("superresolution.steps.write_table", folder, out / "table")
    step.record(record, inputs, folder, out / "table.json")


def read_pictures(text: str, kind: str) -> dict[int, np.ndarray]:
    """The pictures of fairseq-generate's lines of a kind, T or H, by number: their pixels; a word
    that is no number is black."""
    found = re.findall(rf"^{kind}-(\d+)\t(?:\S+\t)?(.*)$", text, re.M)
    return {int(number): np.array([float(word) if word.isdecimal() else 0.0
            for word in words.split()]) for number, words in found}  # fmt: skip


def write_table(folder: pathlib.Path, name: pathlib.Path) -> None:
    """Write the mean accepted block size of each k and column, with the PSNR behind it: mean over
    the pictures of 10 log10(255^2 / mean squared error), in dB.

    Args:
        folder: of COLUMN_k.out and COLUMN_k.log; regular_1 is the base model alone.
        name: of the table, without its suffix.
    """
    figures: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.out")):
        column, _, k = path.stem.rpartition("_")
        # fairseq logs to stdout, or to stderr where another package began to log before it.
        text, log = (each.read_text(encoding="utf-8") for each in (path, path.with_suffix(".log")))
        accepted = ACCEPTED.findall(text + log)
        originals, made = read_pictures(text, "T"), read_pictures(text, "H")
        if not made or not accepted:
            raise ValueError(f"{path}: no pictures, or no summary, is in it")
        errors = [max(float(((made[n] - originals[n]) ** 2).mean()), 1e-9) for n in made]
        psnr = float(np.mean(10 * np.log10(255**2 / np.array(errors))))
        figures.setdefault(k, {})[column] = {"accepted": float(accepted[-1]), "psnr": psnr}
    columns, body = [column for both in COLUMNS.values() for column in both], []
    for k in sorted(figures, key=int):
        cells = [figures[k].get(column) for column in columns]
        body.append([k, *(f"{c['accepted']:.2f} ({c['psnr']:.1f} dB)" if c else "" for c in cells)])
    text = table(["k", *(column.replace("_", " ") for column in columns)], body) + "\n"
    write_json(name.with_suffix(".json"), figures, make_folder=True)
    write_text(name.with_suffix(".md"), text)
    print(text, end="")
