"""The few words that a drafter chooses among, which the source sentence determines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fairseq_specdec.errors import UsageError

_NAME = re.compile(r"(?:word_list|word_lists\.(?P<pair>[^.]+))\.(?:translations|frequent)")
# Those of more than this are no short lists: they would only take memory.
MOST_TRANSLATIONS = 1000
_DTYPES = (torch.int16, torch.int32, torch.int64)


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
    ) -> dict[str | None, WordList]:
        """The lists of a checkpoint by pair of languages; None is that of a drafter of one pair.

        Args:
            weights: of the checkpoint.
            source, target: dictionaries.
            prefix: of the drafter's names in ``weights``.

        Raises:
            UsageError: tensors that are no list of these dictionaries.
        """
        matches = [_NAME.fullmatch(name.removeprefix(prefix)) for name in weights]
        pairs = dict.fromkeys(match["pair"] for match in matches if match)
        found = {pair: cls._read(weights, source, target, prefix, pair) for pair in pairs}
        return {pair: each for pair, each in found.items() if each is not None}

    @classmethod
    def _read(
        cls, weights: Mapping[str, Any], source: Any, target: Any, prefix: str, pair: str | None
    ) -> WordList | None:
        names = names_of(pair)
        translations, frequent = (weights.get(prefix + name) for name in names)
        if translations is None and frequent is None:
            return None
        _check(names[0], translations, 2, len(target))
        _check(names[1], frequent, 1, len(target))
        rows, columns = translations.shape
        if rows != len(source) or columns > MOST_TRANSLATIONS:
            raise _refused(
                f"{names[0]} is {rows} x {columns} for a source dictionary of {len(source)} "
                f"symbols and at most {MOST_TRANSLATIONS} translations"
            )
        if bool((frequent == target.pad()).all()):
            raise _refused(f"{names[1]} names no word")
        translations = translations.clone()
        translations[source.pad()] = target.pad()  # a sentence's padding depends on its batch
        return cls(translations, frequent.clone(), len(target), target.pad())

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
    folder = "word_list" if pair is None else f"word_lists.{pair}"
    return f"{folder}.translations", f"{folder}.frequent"


def _refused(problem: str) -> UsageError:
    return UsageError(
        "", problem, "make the list again with python -m fairseq_specdec.data.shortlist"
    )


def _check(name: str, tensor: Any, dimensions: int, words: int) -> None:
    """Refuse what is no table of target words."""
    if not isinstance(tensor, Tensor):
        raise _refused(f"{name} is missing or no tensor")
    if tensor.dtype not in _DTYPES or tensor.dim() != dimensions or tensor.numel() == 0:
        kind = str(tensor.dtype).replace("torch.", "")
        raise _refused(
            f"{name} is {kind} of shape {list(tensor.shape)}, not whole numbers in {dimensions} "
            "dimensions"
        )
    least, most = int(tensor.min()), int(tensor.max())
    if least < 0 or most >= words:
        wrong = least if least < 0 else most
        raise _refused(
            f"{name} holds {wrong}, no index of the target dictionary of {words} symbols"
        )


def tensors_of(
    translations: Any, frequent: Any, words: int, pair: str | None = None
) -> dict[str, Tensor]:
    """What a checkpoint holds of a list, in the smallest whole numbers that it needs.

    Args:
        translations: int array [source words, N].
        frequent: int array [F].
        pair: of languages, as in :func:`names_of`.
    """
    dtype = torch.int16 if words <= torch.iinfo(torch.int16).max else torch.int32
    tables = torch.as_tensor(translations), torch.as_tensor(frequent)
    return {name: table.to(dtype) for name, table in zip(names_of(pair), tables)}
