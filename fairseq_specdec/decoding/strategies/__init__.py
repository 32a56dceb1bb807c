"""One entry for each system of the papers: its drafter, its rule and its flags."""

import dataclasses
from typing import Any

from .base import CommonFlags, Setup, Strategy
from .blockwise import BLOCKWISE, BLOCKWISE_RELAXED
from .gad import GAD, GAD_RELAXED
from .greedy import GREEDY
from .iad import GIVEN, IAD
from .lookup import LOOKUP
from .nar import NAR
from .small_models import BILD, BILD_EARLY_EXIT, SPS

STRATEGIES: dict[str, Strategy] = {
    "greedy": GREEDY,
    "none": GREEDY,
    "iad": IAD,
    "given": GIVEN,
    "lookup": LOOKUP,
    "gad": GAD,
    "gad++": GAD_RELAXED,
    "specdec": GAD_RELAXED,
    "nar": NAR,
    "sps": SPS,
    "blockwise": BLOCKWISE,
    "specdec-heads": BLOCKWISE_RELAXED,
    "bild": BILD,
    "bild-early-exit": BILD_EARLY_EXIT,
}


# Flags of some strategies only, and which those are. Another strategy refuses them, unless they are
# at their default. --block-size is missing: models that are trained under this task have a flag of
# that name too.
OWN_FLAGS: dict[str, tuple[str, ...]] = {}
FIELDS: dict[str, dataclasses.Field[Any]] = {}  # of the same flags


def _own(name: str, strategy: Strategy) -> None:
    for flags in strategy.flags:
        for field in dataclasses.fields(flags):
            OWN_FLAGS[field.name] = (*OWN_FLAGS.get(field.name, ()), name)
            FIELDS[field.name] = field


def register(name: str, strategy: Strategy) -> None:
    """Add a strategy of a ``--user-dir``.

    Raises:
        ValueError: the name is taken, or a flag is new. The command line is composed before a
            ``--user-dir`` is imported, so a strategy with new flags must be a file of this package.
    """
    new = {field.name for flags in strategy.flags for field in dataclasses.fields(flags)}
    if name in STRATEGIES or new - set(FIELDS):
        raise ValueError(f"strategy {name}: the name is taken, or a flag is new")
    STRATEGIES[name] = strategy
    _own(name, strategy)


for _name, _strategy in STRATEGIES.items():
    _own(_name, _strategy)

__all__ = ["FIELDS", "OWN_FLAGS", "STRATEGIES", "CommonFlags", "Setup", "Strategy", "register"]
