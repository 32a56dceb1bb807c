"""transformers: ``generate`` of its own model class.

Prompt lookup is left out: it looks in the output so far, not in the source, and ends at once where
decoding starts with </s>, as fairseq's does (4.57: "assisted decoding" asks whether the last token
ends the sentence).
"""

import os
from typing import Any

from . import hugging_face


def convert(checkpoint: str, data: str, source: str, target: str, folder: str, kind: str) -> None:
    hugging_face.convert(checkpoint, hugging_face.dictionary_size(data, source), folder)


def version() -> str:
    import transformers

    return str(transformers.__version__)


def padded(rows: list[list[int]]) -> tuple[Any, Any]:
    """Tokens and mask, long [rows][longest], padded on the right with 1."""
    import torch

    longest = max(map(len, rows))
    tokens = torch.tensor([row + [1] * (longest - len(row)) for row in rows])
    return tokens, (tokens != 1).long()


def until_end(row: list[int]) -> list[int]:
    """A row up to its first </s>, which is added where there is none."""
    return [*row[: row.index(2)], 2] if 2 in row else [*row, 2]


class Model:
    """A model that ``generate`` decodes."""

    def __init__(
        self, folder: str, kind: str, cuda: bool, threads: int, generation: dict[str, Any]
    ) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        import torch
        from transformers import AutoModelForSeq2SeqLM

        torch.set_num_threads(threads)
        self._device = "cuda" if cuda else "cpu"
        self._model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval().to(self._device)
        self._settings = {
            "length_penalty": generation.get("lenpen", 1),
            "min_new_tokens": generation.get("min_len", 1),
            "no_repeat_ngram_size": generation.get("no_repeat_ngram_size", 0),
            "do_sample": False,
        }

    def inputs(self, rows: list[list[int]]) -> Any:
        return [each.to(self._device) for each in padded(rows)]

    def run(self, inputs: Any, limit: int, beam: int) -> Any:
        """Decode, ``limit`` tokens and </s> at most."""
        import torch

        tokens, mask = inputs
        with torch.inference_mode():
            return self._model.generate(
                input_ids=tokens, attention_mask=mask, num_beams=beam, early_stopping=beam > 1,
                max_new_tokens=limit + 1, **self._settings,
            )  # fmt: skip

    def tokens(self, ids: Any) -> list[list[int]]:
        return [until_end(row[1:]) for row in ids.tolist()]
