"""What a task has decided for its generator, read from the stock generator that it builds."""

from argparse import Namespace
from typing import Any

from fairseq.search import BeamSearch, Sampling
from fairseq.sequence_generator import SequenceGenerator

from fairseq_specdec.errors import UsageError


def decided(stock: Any, args: Namespace, task: str) -> tuple[Namespace, dict[str, Any]]:
    """Read a task's decisions from the stock generator that it builds.

    Returns:
        The generation flags with these decisions instead of those of the command line; end symbol
        and what is not printed, as fairseq's ``extra_gen_cls_kwargs``.

    Raises:
        ValueError: it does what this project's generator does not, by name.
    """
    unknown = _unknown(stock)
    if unknown is not None:
        raise UsageError(
            f"--task {task}",
            f"builds a generator with {unknown}, which speculative decoding does not run",
            "decode with the same task of fairseq",
        )
    blocker = stock.repeat_ngram_blocker
    # Stock cuts a beam down to its vocabulary without a word; the one asked for is refused by name.
    cut = stock.beam_size == stock.vocab_size - 1
    flags = {
        "beam": max(stock.beam_size, getattr(args, "beam", 1)) if cut else stock.beam_size,
        "max_len_a": stock.max_len_a,
        "max_len_b": stock.max_len_b,
        "min_len": stock.min_len,
        "unnormalized": not stock.normalize_scores,
        "lenpen": stock.len_penalty,
        "unkpen": stock.unk_penalty,
        "temperature": stock.temperature,
        "no_repeat_ngram_size": 0 if blocker is None else blocker.no_repeat_ngram_size,
        "sampling": type(stock.search) is Sampling,
    }
    extra = {"eos": stock.eos, "symbols_to_strip_from_output": stock.symbols_to_strip_from_output}
    return Namespace(**{**vars(args), **flags}), extra


def _unknown(stock: Any) -> str | None:
    """The name of what a generator has and this project's does not; None for nothing."""
    if type(stock) is not SequenceGenerator:
        return f"the class {type(stock).__name__}"
    if type(stock.search) not in (BeamSearch, Sampling):
        return f"the search {type(stock.search).__name__}"
    if stock.lm_model is not None:
        return "a language model (--lm-path)"
    if getattr(stock, "token_indices_to_suppress", None) is not None:
        return "suppressed tokens"
    if stock.match_source_len:
        return "--match-source-len"
    if stock.eos == stock.unk:
        return (
            "an end symbol that its dictionary does not have (is --target-lang among the languages "
            "of training?)"
        )
    most = getattr(stock, "max_len", 0)
    if most and most != stock.model.max_decoder_positions():
        return f"the limit max_len={most}"
    return None
