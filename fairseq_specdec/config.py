"""``SpecDecConfig``: the flags of all strategies, which become flags of fairseq's command lines."""

import argparse
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.tasks.translation import TranslationConfig

from .decoding.strategies import FIELDS, OWN_FLAGS, STRATEGIES, CommonFlags
from .io.flag_values import flag


def _strategies() -> str:
    """Every strategy and what it is, for the help of ``--strategy``."""
    names: dict[int, list[str]] = {}
    for name, each in STRATEGIES.items():
        names.setdefault(id(each), []).append(name)
    return ", ".join(f"{' or '.join(same)} ({STRATEGIES[same[0]].help})" for same in names.values())


def _fields() -> Iterator[tuple[str, Any, Any]]:
    """Name, type and field of every flag. The help of a strategy's own flag begins with the
    strategies that read it."""
    yield "strategy", str, flag("greedy", f"decoding strategy: {_strategies()}")
    for field in (*dataclasses.fields(CommonFlags), *FIELDS.values()):
        readers = ", ".join(OWN_FLAGS.get(field.name, ()))
        text = (readers and f"{readers}: ") + field.metadata["help"]
        metadata = {**field.metadata, "help": text}
        yield field.name, field.type, dataclasses.field(default=field.default, metadata=metadata)


# How to decode: what is added to the flags of every task.
SpecDecConfig: Any = dataclasses.make_dataclass(
    "SpecDecConfig", _fields(), bases=(FairseqDataclass,), namespace={"__module__": __name__}
)


@dataclass
class TranslationSpecDecConfig(SpecDecConfig, TranslationConfig):  # type: ignore[misc]
    """fairseq's translation task, and how to decode it."""


OWN_FIELDS = tuple(each for each in dataclasses.fields(SpecDecConfig) if each.name != "_name")
"""The fields of this project."""


def decoding_settings(**changes: Any) -> argparse.Namespace:
    """Every field at its default, with changes: flags for those who come without a command line."""
    fields = dataclasses.asdict(SpecDecConfig())
    unknown = sorted(set(changes) - set(fields))
    if unknown:
        raise TypeError(f"no such decoding setting: {', '.join(unknown)}")
    return argparse.Namespace(**dict(fields, **changes))
