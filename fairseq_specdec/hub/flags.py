"""Decoding flags as keyword arguments."""

import argparse
import contextlib
import dataclasses
import difflib
import numbers
from collections.abc import Iterator
from typing import Any

from fairseq.dataclass.configs import GenerationConfig

from fairseq_specdec.config import OWN_FIELDS, decoding_settings
from fairseq_specdec.decoding.builder import check_settings
from fairseq_specdec.errors import UsageError

Flags = dict[str, Any]
"""Decoding flags by field name."""
# fairseq's generation flags that mean something to one call from Python.
GENERATION = (
    "max_len_a", "max_len_b", "min_len", "lenpen", "unkpen", "unnormalized", "temperature",
    "no_repeat_ngram_size", "sampling", "sampling_topk", "sampling_topp", "beam", "nbest",
)  # fmt: skip
OWN = {
    each.name: each
    for each in OWN_FIELDS
    if each.name not in ("strategy", "drafter_path", "trace_path")
}
FIELDS = {**{name: GenerationConfig.__dataclass_fields__[name] for name in GENERATION}, **OWN}
"""Every decoding flag, but ``--strategy``."""
# What CTranslate2 calls them.
ELSEWHERE = {
    "beam_size": "beam", "num_hypotheses": "nbest", "max_decoding_length": "max_len_b",
    "min_decoding_length": "min_len", "length_penalty": "lenpen", "target_prefix": "prefix",
    "sampling_temperature": "temperature", "max_batch_size": "batch_size",
}  # fmt: skip
# Arguments of ``from_pretrained`` by the names of fairseq's flags.
ARGUMENTS = {
    "path": "verifier", "drafter_path": "drafter",
    **{name: name for name in (
        *FIELDS, "data", "source_lang", "target_lang", "tokenizer", "bpe", "bpe_codes", "device",
        "dtype", "strategy", "batch_size", "max_tokens", "learn_vocabulary",
    )},
}  # fmt: skip


def split_flags(
    strategy: str, drafter: str | None, flags: Flags
) -> tuple[argparse.Namespace, argparse.Namespace]:
    """Sort keyword arguments into this project's settings and fairseq's generation flags. Returns
    ``settings`` and ``args`` as ``builder.build_generator`` takes them. Raises TypeError: no such
    flag, or a value of another type. Raises UsageError: a value or combination that cannot be
    honoured."""
    for name, value in flags.items():
        if name not in FIELDS:
            near = difflib.get_close_matches(name, FIELDS, 1)
            near = [ELSEWHERE[name]] if name in ELSEWHERE else near
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(FIELDS))}"
            raise TypeError(f"{name}: no such decoding flag; {hint}")
        kind, optional = kind_of(FIELDS[name])
        wanted = {float: numbers.Real, int: numbers.Integral}.get(kind, kind)
        sound = isinstance(value, wanted) and isinstance(value, bool) is (kind is bool)
        if not sound and not (value is None and optional):
            raise TypeError(f"{name}: expected {kind.__name__}, got {value!r}")
    own = {name: value for name, value in flags.items() if name in OWN}
    settings = decoding_settings(strategy=strategy, drafter_path=drafter, **own)
    check_settings(settings)
    generation = {name: value for name, value in flags.items() if name in GENERATION}
    defaults = dataclasses.asdict(GenerationConfig())
    return settings, argparse.Namespace(**{**defaults, "beam": 1, **generation})


def kind_of(field: Any) -> tuple[type, bool]:
    """The type of a dataclass's field (bool, float, int or str), and whether it may be None."""
    words = str(field.type)
    kind = next((each for each in (bool, float, int) if each.__name__ in words), str)
    return kind, field.default is None or "Optional" in words


@contextlib.contextmanager
def in_python() -> Iterator[None]:
    """Reword the mistakes of what runs inside: ``--top-beta 0`` is ``top_beta 0`` in Python."""
    try:
        yield
    except UsageError as error:
        raise error.original.reworded(ARGUMENTS.get) from error
