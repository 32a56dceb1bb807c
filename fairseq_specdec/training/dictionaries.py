"""A stand-in for a task that has dictionaries only."""

from typing import Any

from fairseq.data import Dictionary


class Dictionaries:
    """The part of a task that building a model needs."""

    def __init__(self, source: Dictionary, target: Dictionary) -> None:
        self.source_dictionary = self.src_dict = source
        self.target_dictionary = self.tgt_dict = target


def placeholders(weights: Any) -> tuple[Dictionary | None, Dictionary | None]:
    """Dictionaries of the sizes that a checkpoint's weights say, for source and target; one where
    they are equal, which embeddings that are shared need. None of a side without words."""
    tables = [weights.get(f"{side}.embed_tokens.weight") for side in ("encoder", "decoder")]
    source, target = (None if each is None else placeholder(each.size(0)) for each in tables)
    same = source is not None and target is not None and len(source) == len(target)
    return source, source if same else target


def placeholder(size: int) -> Dictionary:
    """A dictionary of ``size`` symbols whose names mean nothing, fairseq's own included."""
    made = Dictionary()
    for number in range(size - len(made)):
        made.add_symbol(f"symbol{number}")
    return made
