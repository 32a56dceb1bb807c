"""Dictionaries of subwords, and input that is not split into them."""

from collections.abc import Iterable, Sequence
from typing import Any

from fairseq_specdec.io.flag_values import flag_of

# fairseq's flag for the file of each kind.
FLAGS = {"subword_nmt": "bpe_codes", "fastbpe": "bpe_codes", "sentencepiece": "sentencepiece_model"}
# A dictionary is of subwords where more than one entry in so many has their mark.
FEW = 100


def marked(symbols: Sequence[str]) -> tuple[str, str] | None:
    """(kind, an entry) of a dictionary's subwords; None where its entries are words."""
    parts = [each for each in symbols if each.endswith("@@") and each != "@@"]
    pieces = [each for each in symbols if each.startswith("\u2581") and each != "\u2581"]
    kind, most = max(("subword_nmt", parts), ("sentencepiece", pieces), key=lambda k: len(k[1]))
    return (kind, most[0]) if len(most) * FEW > len(symbols) else None


def unsplit(words: Any, sentences: Iterable[Any]) -> str | None:
    """What to tell the user of sentences (long [S] each) that were split by no --bpe, whose
    dictionary is ``words``: some of them are unknown, it is of subwords, and none has their mark.
    "" where there is nothing to tell, and None where later sentences have to show it."""
    found = {token for sentence in sentences for token in sentence.tolist()}
    split = any(words[i].startswith("\u2581") or words[i].endswith("@@") for i in found)
    if not split and words.unk() not in found:
        return None
    marks = None if split else marked(words.symbols)
    if marks is None:
        return ""
    (kind, entry), file = marks, getattr(words, "file", "the dictionary")
    text = f"--bpe: missing; {file} is of subwords ({entry!r}), and the input is not split"
    return f"{text} into them: add --bpe {kind} {flag_of(FLAGS[kind])} FILE, or split it first"
