"""The far side of ``peers``: converts for CTranslate2, decodes with it, in a ``child`` process."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List

from fairseq.data import Dictionary

from .usage import peak_resident, until_at_rest

_LOADED: List[Any] = []  # the engine of this process


def convert(checkpoint: str, data: str, source: str, target: str, folder: str) -> None:
    """Write a checkpoint as the engine reads it."""
    from ctranslate2.converters import FairseqConverter

    FairseqConverter(checkpoint, data, source, target).convert(folder)


def load(folder: str, kind: str, cuda: bool, threads: int, generation: Dict[str, Any]) -> Any:
    """Load a model.

    Args:
        folder: the converted model and the dictionaries.
        kind: number format.
        cuda: use the GPU.
        threads: of the CPU, inside a sentence.
        generation: fairseq's generation flags by field name.

    Returns:
        ``version`` of the engine, and ``before``, bytes used before any model was loaded.
    """
    import ctranslate2

    ready = {"version": str(ctranslate2.__version__), "before": peak_resident()}
    words = [Dictionary.load(os.path.join(folder, f"{side}.txt")) for side in ("source", "target")]
    settings = {
        "length_penalty": generation.get("lenpen", 1),
        "max_input_length": 0,
        "min_decoding_length": generation.get("min_len", 1),
        "no_repeat_ngram_size": generation.get("no_repeat_ngram_size", 0),
    }
    translator = ctranslate2.Translator(
        os.path.join(folder, "model"),
        device="cuda" if cuda else "cpu",
        compute_type=kind,
        inter_threads=1,
        intra_threads=threads,
    )
    _LOADED[:] = [*words, translator, settings, cuda]
    return ready


def decode(rows: List[List[int]], limit: int, beam: int) -> Dict[str, Any]:
    """Decode a batch, ``limit`` tokens at most; what makes words of numbers and back is not timed.

    The engine adds </s> itself. It does not tell a GPU's memory.
    """
    source, target, translator, settings, cuda = _LOADED
    batch = [[source[t] for t in row if t != source.eos()] for row in rows]
    started, used = time.perf_counter(), time.process_time()
    found = list(
        translator.translate_batch(batch, beam_size=beam, max_decoding_length=limit, **settings)
    )
    answer = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
    tokens = [[*map(target.index, one.hypotheses[0]), target.eos()] for one in found]
    answer.update(tokens=tokens, peak=None if cuda else peak_resident())
    until_at_rest()  # whoever decodes next shall not pay for threads that spin here
    return answer
