"""Bergamot's Marian (PyPI ``bergamot``) on the weights that ``marian.Marian`` wrote, for its speed.

Its package needs Python 3.10 or older, so it runs in a process of its own: ``BERGAMOT_PYTHON``
names an interpreter that has it (``python3.10 -m venv DIR; DIR/bin/pip install bergamot==0.4.5``).
That process is this file as a script, so nothing but the standard library is imported here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

PYTHON = os.environ.get("BERGAMOT_PYTHON", "")
_SETTINGS = """\
models: [{folder}/model.npz]
vocabs: [{folder}/vocab.spm, {folder}/vocab.spm]
beam-size: 1
skip-cost: true
normalize: 1.0
word-penalty: 0
max-length-break: 100
mini-batch-words: {words}
workspace: 256
max-length-factor: {steps:.4f}
cpu-threads: 0
quiet: true
quiet-translation: true
ssplit-mode: sentence
gemm-precision: int8shiftAll
"""


class Elsewhere(NamedTuple):
    """What a run in another process took."""

    cpu_ms: float


def _field(number: int, kind: int, value: bytes) -> bytes:
    """A field of a protocol buffer; kind 2 is preceded by its length."""
    key = _varint(number << 3 | kind)
    return key + (_varint(len(value)) + value if kind == 2 else value)


def _varint(number: int) -> bytes:
    low = []
    number &= 2**64 - 1
    while number > 127:
        low.append(number & 127 | 128)
        number >>= 7
    return bytes([*low, number])


def vocabulary(words: Sequence[str]) -> bytes:
    """A SentencePiece model of whole words; the first two are </s> and <unk>."""
    pieces = b""
    for i, word in enumerate(words):
        text = word if i < 2 else "\u2581" + word
        score = 0.0 if i < 2 else -i / len(words)
        kind = (3, 2)[i] if i < 2 else 1  # control, unknown, normal
        piece = _field(1, 2, text.encode()) + _field(2, 5, struct.pack("<f", score))
        pieces += _field(1, 2, piece + _field(3, 0, _varint(kind)))
    numbers = {3: 3, 4: len(words), 40: 1, 41: -1, 42: 0, 43: -1}  # by words; unk, bos, eos, pad
    trainer = b"".join(_field(number, 0, _varint(value)) for number, value in numbers.items())
    normalizer = _field(1, 2, b"identity") + _field(3, 0, _varint(1))
    return pieces + _field(2, 2, trainer) + _field(3, 2, normalizer)


class Bergamot:
    """Translates in int8, without a shortlist.

    Args:
        folder: with Marian's ``model.npz``.
        words: Marian's, in order.
        steps: of the decoder for each word of an input, </s> included.
        tokens: of the largest batch.
    """

    def __init__(self, folder: str, words: Sequence[str], steps: float, tokens: int) -> None:
        (pathlib.Path(folder) / "vocab.spm").write_bytes(vocabulary(words))
        settings = _SETTINGS.format(folder=folder, steps=steps, words=max(tokens, 130))
        self._process = subprocess.Popen(
            [PYTHON, __file__, settings],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def __call__(self, batches: list[list[str]]) -> Any:
        """(what it took, words of each output)."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(batches) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"BERGAMOT_PYTHON: {PYTHON} does not run bergamot; install it there")
        seconds, lengths = json.loads(answer)
        return Elsewhere(1000 * seconds), lengths


def _serve(settings: str) -> None:
    """Answer each line, a list of batches of texts, by CPU seconds and the outputs' words."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # for what the library writes
    # its package asks the network as it is imported
    folders = [pathlib.Path(folder) / "bergamot" for folder in sys.path]
    libraries = [path for folder in folders for path in folder.glob("_bergamot*.so")]
    spec = importlib.util.spec_from_file_location("_bergamot", str(libraries[0]))
    assert spec is not None and spec.loader is not None
    library: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)
    service = library.Service(library.ServiceConfig(numWorkers=1, cacheSize=0, logLevel="off"))
    model = service.modelFromConfig(settings)
    options = library.ResponseOptions(
        qualityScores=False, alignment=False, HTML=False, sentenceMappings=False
    )
    for line in sys.stdin:
        started, lengths = time.process_time(), []
        for batch in json.loads(line):
            done = service.translate(model, library.VectorString(batch), options)
            lengths += [len(each.target.text.split()) for each in done]
        print(json.dumps([time.process_time() - started, lengths]), file=answers, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
