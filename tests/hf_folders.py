"""The stored model folders of transformers, converted, and what transformers printed with them."""

import json
import pathlib

import pytest

from fairseq_specdec.conversion.hf.convert import convert

STORED = pathlib.Path(__file__).resolve().parent / "fixtures" / "hf"
FAMILIES = ("marian", "m2m_100", "nllb", "mbart25", "mbart50", "bart")
PACKAGES = dict.fromkeys(FAMILIES, "sentencepiece safetensors")
PACKAGES.update(marian="sentencepiece", bart="regex")


def expected_of(family):
    """``languages``, ``sources``, ``ids`` and ``outputs`` of a stored folder."""
    return json.loads((STORED / family / "expected.json").read_text(encoding="utf-8"))


def languages_of(family):
    """Source and target as a converted folder names them."""
    named = {"marian": ("xx", "yy"), "bart": ("source", "target")}
    return named.get(family) or tuple(expected_of(family)["languages"])


def converted(family, out, named=True):
    """Convert a folder to ``out``; what the command prints. ``named``: with its languages."""
    for package in PACKAGES[family].split():
        pytest.importorskip(package)
    languages = expected_of(family)["languages"] if named else (None, None)
    return convert(str(STORED / family), str(out), *languages, True)


def spoken(family, count):
    """So many lines of words of a family's sources."""
    words = [word.strip(".?!") for line in expected_of(family)["sources"] for word in line.split()]
    rows = ([words[(7 * i + 3 * k) % len(words)] for k in range(1 + i % 6)] for i in range(count))
    return [" ".join(row) + "." for row in rows]
