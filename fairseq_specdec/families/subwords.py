"""Dictionaries of subwords, and input that is not split into them."""

from typing import Any, Iterable, Optional, Sequence, Tuple

from fairseq_specdec.io.flag_values import flag_of

# fairseq's flag for the file of each kind.
FLAGS = {"subword_nmt": "bpe_codes", "fastbpe": "bpe_codes", "sentencepiece": "sentencepiece_model"}
# A dictionary is of subwords where more than one entry in so many has their mark.
FEW = 100


def marked(symbols: Sequence[str]) -> Optional[Tuple[str, str]]:
    """(kind, an entry) of a dictionary's subwords; None where its entries are words."""
    parts = [each for each in symbols if each.endswith("@@") and each != "@@"]
    pieces = [each for each in symbols if each.startswith("\u2581") and each != "\u2581"]
    kind, most = max(("subword_nmt", parts), ("sentencepiece", pieces), key=lambda k: len(k[1]))
    return (kind, most[0]) if len(most) * FEW > len(symbols) else None


class UnsplitInput:
    """Looks for input of whole words where a dictionary (None: there is none) is of subwords."""

    def __init__(self, dictionary: Any) -> None:
        self._dictionary = dictionary
        self._marks = None if dictionary is None else marked(dictionary.symbols)

    def look(self, sentences: Iterable[Any]) -> Optional[str]:
        """What to tell the user of sentences (long [S] each), once: words of them are unknown, and
        no word so far has the mark of a subword."""
        if self._marks is None:
            return None
        (kind, entry), words = self._marks, self._dictionary
        found = {token for sentence in sentences for token in sentence.tolist()}
        split = any(words[i].startswith("\u2581") or words[i].endswith("@@") for i in found)
        if not split and words.unk() not in found:
            return None
        self._marks = None
        file = getattr(words, "file", "the dictionary")
        text = f"--bpe: missing; {file} is of subwords ({entry!r}), and the input is not split"
        remedy = f"add --bpe {kind} {flag_of(FLAGS[kind])} FILE, or split it first"
        return None if split else f"{text} into them: {remedy}"
