"""The few words that a drafter chooses among, which the source sentence determines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fairseq_specdec.errors import UsageError

TRANSLATIONS, FREQUENT = "word_list.translations", "word_list.frequent"
"""Names of its two tensors in a drafter's checkpoint."""
OF_PAIR = "word_lists.{pair}.{tensor}"
"""Names of those of a drafter for several pairs of languages, as ``en-de``."""
_NAME_OF_PAIR = re.compile(r"word_lists\.([^.]+)\.(?:translations|frequent)")

# Those of more than this are no short lists: they would only take memory.
MOST_TRANSLATIONS = 1000
# Words of a sentence beside the frequent ones, for each translation that a source word has: the
# demo pair's sentences have 211 words, with 20 translations and 100 frequent words.
_OF_SENTENCE = 5.5
_DTYPES = (torch.int16, torch.int32, torch.int64)
_REMEDY = "make the list again with python -m fairseq_specdec.data.shortlist"


class Lists(NamedTuple):
    """The words of each sentence of a batch."""

    sizes: Tensor  # long [B], 1 or more
    ids: Tensor  # long [sum of sizes], the rows' lists one after the other, ascending in each row


class WordList(nn.Module):
    """Likely translations of every source word, and frequent target words.

    The list of a sentence is the union of the translations of its words and the frequent words.
    What a drafter drafts is verified over all words, so a list costs accepted tokens where it
    lacks the right word, and never changes the output of a lossless rule.

    Args:
        translations: int [source words, N], target words; the padding index where there are fewer.
        frequent: int [F], target words.
        words: V, of the target dictionary.
        pad: its padding index, in no list.
    """

    translations: Tensor
    frequent: Tensor

    def __init__(self, translations: Tensor, frequent: Tensor, words: int, pad: int) -> None:
        super().__init__()
        self.register_buffer("translations", translations)
        self.register_buffer("frequent", frequent)
        self.words = words
        self.pad = pad

    @classmethod
    def find(
        cls, weights: Mapping[str, Any], source: Any, target: Any, prefix: str = ""
    ) -> WordList | None:
        """The list of a checkpoint; None where it has none."""
        return cls._find(weights, source, target, prefix, (TRANSLATIONS, FREQUENT))

    @classmethod
    def find_pairs(
        cls, weights: Mapping[str, Any], source: Any, target: Any, prefix: str = ""
    ) -> dict[str, WordList]:
        """The lists of a checkpoint by pair of languages; {} where it has none.

        Args, Raises: as of :meth:`find`.
        """
        by_pair = {}
        for name in weights:
            own = name[len(prefix) :] if name.startswith(prefix) else ""
            match = _NAME_OF_PAIR.fullmatch(own)
            if match is not None and match.group(1) not in by_pair:
                names = names_of(match.group(1))
                by_pair[match.group(1)] = cls._find(weights, source, target, prefix, names)
        return {pair: each for pair, each in by_pair.items() if each is not None}

    @classmethod
    def _find(
        cls,
        weights: Mapping[str, Any],
        source: Any,
        target: Any,
        prefix: str,
        names: tuple[str, str],
    ) -> WordList | None:
        """The list of two tensors, by their names."""
        both = [weights.get(prefix + name) for name in names]
        if both == [None, None]:
            return None
        translations, frequent = both
        words = len(target)
        _check(names[0], translations, 2, words)
        _check(names[1], frequent, 1, words)
        assert translations is not None and frequent is not None
        rows, columns = translations.shape
        if rows != len(source) or columns > MOST_TRANSLATIONS:
            raise UsageError(
                "",
                f"{names[0]} is {rows} x {columns} for a source dictionary of {len(source)} "
                f"symbols and at most {MOST_TRANSLATIONS} translations",
                _REMEDY,
            )
        if bool((frequent == target.pad()).all()):
            raise UsageError("", f"{names[1]} names no word", _REMEDY)
        translations = translations.clone()
        translations[source.pad()] = target.pad()  # a sentence's padding depends on its batch
        return cls(translations, frequent.clone(), words, target.pad())

    def of(self, src_tokens: Tensor) -> Lists:
        """The lists of a batch's sentences (``src_tokens``: long [B, S])."""
        rows = src_tokens.size(0)
        listed = torch.zeros(rows, self.words, dtype=torch.bool, device=src_tokens.device)
        listed[:, self.frequent.long()] = True
        listed.scatter_(1, self.translations[src_tokens].view(rows, -1).long(), True)
        listed[:, self.pad] = False
        return Lists(listed.sum(1), listed.nonzero()[:, 1])


def names_of(pair: str | None) -> tuple[str, str]:
    """The names of a list's two tensors in a drafter's checkpoint. ``pair``: of languages, as
    ``en-de``; None for the list of a drafter of one pair."""
    if pair is None:
        return TRANSLATIONS, FREQUENT
    both = [OF_PAIR.format(pair=pair, tensor=tensor) for tensor in ("translations", "frequent")]
    return both[0], both[1]


def _check(name: str, tensor: Any, dimensions: int, words: int) -> None:
    """Refuse what is no table of target words."""
    if not isinstance(tensor, Tensor):
        raise UsageError("", f"{name} is missing or no tensor", _REMEDY)
    if tensor.dtype not in _DTYPES or tensor.dim() != dimensions or tensor.numel() == 0:
        raise UsageError(
            "",
            f"{name} is {str(tensor.dtype).replace('torch.', '')} of shape "
            f"{list(tensor.shape)}, not whole numbers in {dimensions} dimensions",
            _REMEDY,
        )
    least, most = int(tensor.min()), int(tensor.max())
    if least < 0 or most >= words:
        raise UsageError(
            "",
            f"{name} holds {least if least < 0 else most}, no index of the target dictionary "
            f"of {words} symbols",
            _REMEDY,
        )


def tensors_of(
    translations: Any, frequent: Any, words: int, pair: str | None = None
) -> dict[str, Tensor]:
    """What a checkpoint holds of a list, in the smallest whole numbers that it needs.

    Args:
        translations: int array [source words, N].
        frequent: int array [F].
        pair: of languages, as of :func:`names_of`.
    """
    names = names_of(pair)
    dtype = torch.int16 if words <= torch.iinfo(torch.int16).max else torch.int32
    return {
        names[0]: torch.as_tensor(translations).to(dtype),
        names[1]: torch.as_tensor(frequent).to(dtype),
    }
