"""``--no-repeat-ngram-size`` without fairseq's CUDA extension."""

from typing import Any

from .patch import fixes


@fixes("fairseq.ngram_repeat_block.NGramRepeatBlock._no_repeat_ngram")
def block_ngrams_on_cpu(
    original: Any, block: Any, tokens: Any, lprobs: Any, bsz: int, beam_size: int, step: int
) -> Any:
    """Let ``--no-repeat-ngram-size`` block n-grams everywhere.

    Fault: without the compiled CUDA extension (on every CPU), stock compares past n-grams with the
    last columns of the whole output buffer, which are padding, so that the flag does nothing.
    Versions: 0.10 to today's main. With the extension the flag works as documented. A generator
    in TorchScript is compiled from stock's code, and keeps the fault.
    """
    # Imported late: compat must be importable before anything else of the package.
    from fairseq_specdec.engine.scores import ban, forbidden_by_ngrams

    last = tokens.new_full((tokens.size(0), 1), step)
    ban(lprobs.unsqueeze(1), forbidden_by_ngrams(tokens, last, block.no_repeat_ngram_size))
    return lprobs
