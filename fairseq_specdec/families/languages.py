"""The languages of a multilingual task: those that are missing are named."""

from typing import Any

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import flag_of

SIDES = ("source_lang", "target_lang")


def check_languages(flags: Any) -> None:
    """Refuse a task's flags where a language of training is not named."""
    several = hasattr(flags, "langs")
    if not hasattr(flags, "lang_pairs"):
        if several and not flags.langs:
            raise UsageError("--langs", "missing", "name the languages of training, in their order")
        return
    pairs = flags.lang_pairs
    if not pairs:
        raise UsageError("--lang-pairs", "missing", "name the pairs of training, as en-de,en-fr")
    pairs = pairs if isinstance(pairs, str) else ",".join(pairs)
    known = [None, *pairs.replace("-", ",").split(",")]
    for name in SIDES if not several else ():  # with --langs, fairseq looks for the language there
        language = getattr(flags, name, None)
        if language not in known:
            problem = f"in none of --lang-pairs {pairs}"
            raise UsageError(f"{flag_of(name)} {language}", problem, "name a language of training")


def check_direction(flags: Any) -> None:
    """Refuse to decode in no direction: a task of several pairs trains so."""
    for name in SIDES if hasattr(flags, "lang_pairs") else ():
        if getattr(flags, name, None) is None:
            raise UsageError(flag_of(name), "missing", "name the languages to translate between")


def of_task(drafter: Any, flags: Any) -> Any:
    """What drafts for a task's languages."""
    return of_pair(drafter, *[getattr(flags, side, None) for side in SIDES])


def of_pair(drafter: Any, source: str | None, target: str | None) -> Any:
    """What drafts for a pair of languages; another model than a block drafter itself."""
    choose = getattr(drafter, "for_pair", None)
    return drafter if choose is None or None in (source, target) else choose(f"{source}-{target}")
