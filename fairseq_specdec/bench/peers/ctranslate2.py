"""CTranslate2: its own converter and ``translate_batch``."""

import os
import shutil
from typing import Any


def convert(checkpoint: str, data: str, source: str, target: str, folder: str, kind: str) -> None:
    """Write a checkpoint as the engine reads it, with both dictionaries beside it."""
    from ctranslate2.converters import FairseqConverter

    FairseqConverter(checkpoint, data, source, target).convert(folder)
    for side, language in (("source", source), ("target", target)):
        words = os.path.join(data, f"dict.{language}.txt")
        shutil.copyfile(words, os.path.join(folder, f"dict.{side}.txt"))


def version() -> str:
    import ctranslate2

    return str(ctranslate2.__version__)


class Model:
    """A translator; it takes and gives words, and adds </s> itself. ``streams``: calls of ``run``
    that decode at the same time."""

    def __init__(
        self,
        folder: str,
        kind: str,
        cuda: bool,
        threads: int,
        generation: dict[str, Any],
        streams: int = 1,
    ) -> None:
        import ctranslate2
        from fairseq.data import Dictionary

        self._source, self._target = (
            Dictionary.load(os.path.join(folder, f"dict.{side}.txt"))
            for side in ("source", "target")
        )
        self._settings = {
            "length_penalty": generation.get("lenpen", 1),
            "max_input_length": 0,
            "min_decoding_length": generation.get("min_len", 1),
            "no_repeat_ngram_size": generation.get("no_repeat_ngram_size", 0),
        }
        self._translator = ctranslate2.Translator(
            folder, device="cuda" if cuda else "cpu", compute_type=kind, inter_threads=streams,
            intra_threads=threads,
        )  # fmt: skip

    def inputs(self, rows: list[list[int]]) -> Any:
        words = self._source
        return [[words[t] for t in row if t != words.eos()] for row in rows]

    def run(self, batch: Any, limit: int, beam: int) -> Any:
        """Decode, ``limit`` tokens at most, and </s>, which the engine counts too."""
        return self._translator.translate_batch(
            batch, beam_size=beam, max_decoding_length=limit + 1, **self._settings
        )

    def tokens(self, results: Any) -> list[list[int]]:
        """The best hypothesis of each row, with </s>."""
        words = self._target
        return [[*map(words.index, one.hypotheses[0]), words.eos()] for one in results]
