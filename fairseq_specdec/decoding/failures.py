"""Why a sentence cannot be decoded, in words."""

from typing import Any, NoReturn

from fairseq_specdec.engine.memory import not_finite
from fairseq_specdec.errors import UsageError


def refuse_sentence(models: list[Any], broken: bool, position: int, sentence: int) -> NoReturn:
    """Raise for a sentence that no token continues.

    Args:
        models: the ensemble.
        broken: the verifier's output is NaN; else constraints leave no token.
        position: tokens of the output before it.
        sentence: its row in the batch.
    """
    where = f"at position {position} of sentence {sentence} in the batch"
    if broken:
        raise UsageError(
            "--path",
            f"the verifier's output is no number {where} (NaN, or infinity before the softmax)",
            unsound(models),
        )
    raise UsageError(
        "--path",
        f"the verifier left no possible token {where}",
        "does --no-repeat-ngram-size forbid them all, or --unkpen or it the one that "
        "--prefix-size demands?",
    )


def unsound(models: list[Any]) -> str:
    """Where an ensemble holds NaN or infinity, or what else to look at."""
    for number, model in enumerate(models, start=1):
        name = not_finite(model)
        if name is not None:
            return (
                f"model {number} of {len(models)} holds NaN or infinity in {name}: the "
                "checkpoint is damaged, or its training diverged"
            )
    return "is the checkpoint sound, and does it decode without --fp16?"
