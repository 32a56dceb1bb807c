"""Several strategies ready to decode, on one verifier in memory."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fairseq_specdec.decoding.builder import rule_of
from fairseq_specdec.decoding.strategies import BLOCK_DRAFTED, OWN_FLAGS, STRATEGIES
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub import SpeculativeTranslator, loading
from fairseq_specdec.hub.choices import Choice, choose_codec
from fairseq_specdec.hub.decoding import Decodings, checked

from .stock import StockTranslator, stock_translator

EXAMPLES = 3
# Characters of an example: long enough to see blocks, short enough for one line.
EXAMPLE_LENGTHS = (50, 120)


class Pair(NamedTuple):
    """What decodes, by the flags."""

    path: str  # a checkpoint, several joined by a colon, a folder or a demo pair's name
    # block drafter's checkpoint (default: ``drafter.pt`` in the folder, if it is there)
    drafter: str | None = None
    small: str | None = None  # small model's checkpoint
    data: str | None = None  # folder of the dictionaries (default: looked for)
    # source_lang, target_lang: languages (default: the checkpoint's)
    source_lang: str | None = None
    target_lang: str | None = None
    # tokenizer, bpe, bpe_codes: as in ``SpeculativeTranslator.from_pretrained``
    tokenizer: Choice = "auto"
    bpe: Choice = "auto"
    bpe_codes: str | None = None
    # device, dtype: where and in which number format
    device: Any = None
    dtype: str = "fp32"


Translators = dict[str, SpeculativeTranslator]


class Racers(NamedTuple):
    """Strategies on one verifier."""

    translators: Translators  # by strategy, beam 1
    languages: tuple[str, str]
    examples: list[str]  # sentences to try
    wide: list[str]  # the strategies that can have a beam
    make: Callable[[int], Translators]  # their translators at a beam
    stock: Callable[[int], StockTranslator]  # fairseq's own translation at a beam
    verifier: str

    def at(self, beam: int) -> Translators:
        """The translators at a beam, ready to be timed."""
        return self.make(beam) if beam > 1 else self.translators


def warmed(translators: Translators, examples: list[str]) -> Translators:
    """After a first decoding, which takes longer."""
    for translator in translators.values():
        translator.translate(examples[:1] or ["."])
    return translators


def _drafter_of(name: str, pair: Pair, beside: str | None) -> str | None:
    """The strategy's ``--drafter-path``."""
    if not STRATEGIES[name].needs_drafter:
        return None
    block = name in BLOCK_DRAFTED
    flag, path = ("--drafter-path", beside) if block else ("--small-path", pair.small)
    if path is None:
        kind = "block drafter" if block else "small Transformer"
        raise UsageError(
            f"--strategies {name}",
            f"needs a {kind}",
            f"name its checkpoint with {flag}, or leave {name} out",
        )
    if not os.path.isfile(path):
        raise UsageError(f"{flag} {path}", "no such file")
    return path


def drafts(name: str) -> bool:
    """Whether a strategy makes drafts."""
    return STRATEGIES[name] is not STRATEGIES["greedy"]


def own_flags(name: str, flags: dict[str, Any]) -> dict[str, Any]:
    """Those of the decoding flags that a strategy uses."""
    kept = {}
    for flag, value in flags.items():
        owners = OWN_FLAGS.get(flag, [other for other in STRATEGIES if drafts(other)])
        if value is not None and name in owners:
            kept[flag] = value
    return kept


def default_strategies(pair: Pair, beside: str | None, joined: bool) -> list[str]:
    """The strategies that the given files allow."""
    names = ["greedy"]
    if beside is not None:
        names += ["gad", "gad++"]
    if pair.small is not None:
        names += ["sps", "bild"]
    return names if len(names) > 1 or not joined else [*names, "iad"]


def load_racers(pair: Pair, names: list[str] | None, flags: dict[str, Any]) -> Racers:
    """Load the verifier once, each drafter once, and make a translator of every strategy.
    ``flags``: decoding flags by field name; each goes to the strategies that use it; None is left
    out."""
    for name in names or ():
        if name not in STRATEGIES:
            raise UsageError(
                f"--strategies {name}", "unknown", f"choose of {', '.join(STRATEGIES)}"
            )
    device = loading.chosen_device(pair.device)
    dtype = loading.chosen_dtype(pair.dtype, device)
    place = loading.find(pair.path, pair.drafter, pair.data, "gad")
    for name in names or ():  # all that needs no model, before any is loaded
        checked(name, *_flags(name, pair, place, flags))
    loaded = loading.load(place.verifiers, place.data, (pair.source_lang, pair.target_lang))
    source, target = loaded.dictionaries
    if names is None:
        joined = source.symbols == target.symbols
        names = default_strategies(pair, place.drafter, joined)
    codec = choose_codec(loaded, place, pair.tokenizer, pair.bpe, pair.bpe_codes)
    for model in loaded.models:
        model.to(device=device, dtype=dtype)
    decodings = Decodings(loaded, codec, lambda name: None, batch_size=1, freeing=False)

    def make(chosen: Sequence[str], beam: int) -> Translators:
        return {
            name: SpeculativeTranslator(
                decodings, name, *_flags(name, pair, place, flags, beam), 1, "refuse"
            )
            for name in dict.fromkeys(chosen)
        }

    cfg = loaded.task.cfg
    examples = _examples(cfg.data, cfg.source_lang)
    wide = [
        name
        for name in names
        if rule_of(checked(name, *_flags(name, pair, place, flags))[0], None).lossless
    ]

    @functools.lru_cache(maxsize=1)  # each holds packed weights
    def at(beam: int) -> Translators:
        return warmed(make(wide, beam), examples)

    translators, wide = make(names, 1), list(dict.fromkeys(wide))

    @functools.cache
    def stock(beam: int) -> StockTranslator:
        decoding = decodings.of_call("greedy", ("greedy", {}), {})
        return stock_translator(decodings, decoding, beam)

    languages = (cfg.source_lang, cfg.target_lang)
    return Racers(translators, languages, examples, wide, at, stock, pair.path)


def _flags(
    name: str, pair: Pair, place: loading.Place, flags: dict[str, Any], beam: int = 1
) -> tuple[str | None, dict[str, Any]]:
    """(drafter's checkpoint, decoding flags) of a strategy."""
    return _drafter_of(name, pair, place.drafter), {**own_flags(name, flags), "beam": beam}


def _examples(folder: str, language: str) -> list[str]:
    """The first fitting sentences of the demo pair's held-out text; [] without such a file."""
    path = os.path.join(folder, f"heldout.{language}")
    if not os.path.isfile(path):
        return []
    shortest, longest = EXAMPLE_LENGTHS
    with open(path, encoding="utf-8", errors="replace") as lines:
        fitting = (line.strip() for line in lines if shortest <= len(line.strip()) <= longest)
        return list(itertools.islice(fitting, EXAMPLES))
