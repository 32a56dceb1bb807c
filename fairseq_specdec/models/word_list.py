"""The few words that a drafter chooses among, which the source sentence determines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_specdec.errors import UsageError

_NAME = re.compile(r"(?:word_list|word_lists\.(?P<pair>[^.]+))\.(?:translations|frequent)")
# Those of more than this are no short lists: they would only take memory.
MOST_TRANSLATIONS = 1000
_DTYPES = (torch.int16, torch.int32, torch.int64)


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
        names = [name[len(prefix) :] for name in weights if name.startswith(prefix)]
        pairs = dict.fromkeys(match["pair"] for match in map(_NAME.fullmatch, names) if match)
        return {pair: cls._read(weights, source, target, prefix, pair) for pair in pairs}

    @classmethod
    def _read(
        cls, weights: Mapping[str, Any], source: Any, target: Any, prefix: str, pair: str | None
    ) -> WordList:
        words, pad = len(target), target.pad()
        tables = []
        for dimensions, name in zip((2, 1), names_of(pair)):
            table = weights.get(prefix + name)
            if not isinstance(table, Tensor):
                raise _refused(f"{name} is missing or no tensor")
            if table.dtype not in _DTYPES or table.dim() != dimensions or not table.numel():
                shape = f"{table.dtype} of shape {list(table.shape)}"
                raise _refused(f"{name} is {shape}, not whole numbers in {dimensions} dimensions")
            least, most = map(int, table.aminmax())
            if least < 0 or most >= words:
                wrong = least if least < 0 else most
                raise _refused(f"{name} holds {wrong}, no index of the {words} target symbols")
            tables.append(table.clone())
        translations, frequent = tables
        rows, columns = translations.shape
        if rows != len(source) or columns > MOST_TRANSLATIONS:
            raise _refused(
                f"{names_of(pair)[0]} is {rows} x {columns} for a source dictionary of "
                f"{len(source)} symbols and at most {MOST_TRANSLATIONS} translations"
            )
        if bool((frequent == pad).all()):
            raise _refused(f"{names_of(pair)[1]} names no word")
        translations[source.pad()] = pad  # a sentence's padding depends on its batch
        return cls(translations, frequent, words, pad)

    def of(self, src_tokens: Tensor) -> tuple[Tensor, Tensor]:
        """The lists of a batch's sentences (``src_tokens``: long [B, S]): their sizes, long [B], 1
        or more; and one after the other, ascending, long [sum of sizes]."""
        rows = src_tokens.size(0)
        listed = torch.zeros(rows, self.words, dtype=torch.bool, device=src_tokens.device)
        listed[:, self.frequent.long()] = True
        listed.scatter_(1, self.translations[src_tokens].view(rows, -1).long(), True)
        listed[:, self.pad] = False
        return listed.sum(1), listed.nonzero()[:, 1]


def names_of(pair: str | None) -> tuple[str, str]:
    """The names of a list's two tensors in a drafter's checkpoint. ``pair``: of languages, as
    ``en-de``; None for the list of a drafter of one pair."""
    folder = "word_list" if pair is None else f"word_lists.{pair}"
    return f"{folder}.translations", f"{folder}.frequent"


def _refused(problem: str) -> UsageError:
    return UsageError(
        "", problem, "make the list again with python -m fairseq_specdec.data.shortlist"
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
