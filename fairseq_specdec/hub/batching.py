"""Texts to batches of sentences, and the translations of sentences to those of texts."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError

from .results import Alternative, Translation
from .sentences import Split, copied, fitting, sentences_of
from .text import TextCodec

Prefix = str | Sequence[str | None] | None
"""What the output of one text begins with; of several a list with one for each, None for none."""
Draft = str | Translation | Sequence[str | Translation | None] | None
"""As ``Prefix``, what the output is expected to be like."""

# Marian's code of the target language, before the text.
_CODE = re.compile(r"\s*>>[^\s<>]+<<\s*")


class Parts(NamedTuple):
    """A text as it is decoded."""

    copied: list[str]  # what is before each sentence, and after the last
    sentences: list[str]  # what is decoded; the text itself where it is decoded as one
    rows: list[list[int]]  # their token ids; [] for one without a visible character
    error: str | None = None  # why nothing is decoded
    prefix: Sequence[int] = ()  # token ids that the first sentence's output begins with
    drafts: Sequence[list[int]] = ()  # of each sentence: what its output is expected to be like


def check(name: str, value: object, *allowed: object) -> None:
    """Refuse a choice that is not among those allowed."""
    if value not in allowed:
        raise UsageError(f"{name} {value!r}", f"choose {' or '.join(map(str, allowed))}")


def listed(texts: str | Iterable[str]) -> list[str]:
    """The texts, or one text, in a list. Raises TypeError: one is no string."""
    strings = [texts] if isinstance(texts, str) else list(texts)
    for i, text in enumerate(strings):
        if not isinstance(text, str):
            raise TypeError(f"texts[{i}]: expected a string, got {type(text).__name__}")
    return strings


def parts_of(codec: TextCodec, text: str, limit: int, split: Split) -> Parts:
    """The sentences of a text, of up to ``limit`` tokens where it can be divided."""
    rows: dict[str, list[int]] = {}
    match = _CODE.match(text) if split else None
    code = match.group() if match else ""

    def fits(sentence: str) -> bool:
        rows[sentence] = codec.encode(code + sentence)
        return not split or len(rows[sentence]) <= limit

    rest = text[len(code) :]
    parts = fitting(sentences_of(rest, codec.languages[0], split), fits)
    encoded = [rows[sentence] for sentence in parts[1::2]]
    sentences = [text] if parts[1:2] == [rest] else parts[1::2]
    return Parts(copied(parts, *codec.languages), sentences, encoded)


def one_each(name: str, given: Any, texts: int) -> Sequence[Any]:
    """The prefixes or drafts of so many texts. Raises UsageError: there are not as many."""
    each = [given] if isinstance(given, (str, Translation)) else given or [None] * texts
    if len(each) != texts:
        problem = f"{len(each)} for {texts} texts"
        raise UsageError(name, problem, "give a list with one for each, or None")
    return each


def drafts_of(
    codec: TextCodec, draft: str | Translation | None, sentences: int, split: Split
) -> list[list[int]]:
    """Token ids that the output of each of so many sentences is expected to be like: of as many
    sentences of a draft, or else of all of it."""
    if not draft:
        return [[] for _ in range(sentences)]
    if isinstance(draft, Translation):
        known = [each.tokens for each in draft.sentences or (draft,)]
        known = known if len(known) == sentences else [draft.tokens] * sentences
        return [list(map(codec.tgt_dict.index, tokens)) for tokens in known]
    parts = sentences_of(draft, codec.languages[1], split)[1::2]
    texts = parts if len(parts) == sentences else [draft] * sentences
    return [codec.encode_target(text) for text in texts]


def forced(codec: TextCodec, prefix: Prefix, texts: int) -> list[list[int]]:
    """Token ids that the output of each of so many texts begins with. Raises UsageError: there are
    not as many prefixes, or a word of one is not in the target dictionary."""
    given = one_each("prefix", prefix, texts)
    words = codec.tgt_dict
    rows: list[list[int]] = []
    no_words = {words.unk(), words.pad(), words.eos()}
    for text in given:
        rows.append(codec.encode_target(text) if text else [])
        if text and not no_words.isdisjoint(rows[-1]):
            wrong = [word for word in text.split() if no_words & set(codec.encode_target(word))]
            problem = f"{', '.join(wrong) or 'it'} is not in the target dictionary"
            raise UsageError(f"prefix {text!r}", problem, "use other words")
    return rows


def by_length(lengths: Sequence[int], batch_size: int, max_tokens: int) -> list[list[int]]:
    """The sentences of each batch, of similar length, longest first, so that memory fails early if
    it must. ``lengths``: tokens of each sentence; those of 0 are in no batch. ``max_tokens``: of a
    batch, padding included; a longer sentence goes alone."""
    batches: list[list[int]] = []
    for i in sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i]):
        last = batches[-1] if batches else []
        fits = last and lengths[last[0]] * (len(last) + 1) <= max_tokens
        if fits and len(last) < batch_size:
            last.append(i)
        else:
            batches.append([i])
    return batches


def joined(parts: Parts, found: Sequence[Translation]) -> Translation:
    """The translation of a text. ``found``: those of its sentences."""
    if parts.copied == ["", ""]:
        return found[0]
    best = _in_turns(parts.copied, found)
    others = zip(*(each.alternatives for each in found))
    return Translation(
        *best[:3],
        iterations=sum(each.iterations for each in found),
        accepted=[n for each in found for n in each.accepted],
        drafted=[n for each in found for n in each.drafted],
        unknown=sum(each.unknown for each in found),
        alternatives=tuple(_in_turns(parts.copied, ranked) for ranked in others),
        scores=best.scores,
        sentences=tuple(found),
        error=parts.error,
    )


def _in_turns(copied: list[str], found: Sequence[Translation | Alternative]) -> Alternative:
    """What is copied and what was decoded, one after the other."""
    text = copied[0] + "".join(each.text + after for each, after in zip(found, copied[1:]))
    total = sum(each.score * len(each.scores) for each in found)
    scores = tuple(score for each in found for score in each.scores)
    tokens = [token for each in found for token in each.tokens]
    return Alternative(text, tokens, total / max(1, len(scores)), scores)
