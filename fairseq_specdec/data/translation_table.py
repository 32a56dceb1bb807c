"""Which target words each source word is likely to become: IBM model 1 (Brown et al. 1993)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .parallel import Pairs

# Pairs of a source and a target token that are in memory at once; each takes some 60 bytes.
CELLS = 1 << 21
_PLACE_BITS = 23  # of a position among a chunk's cells, with room for its last sentence pair


class _Chunk(NamedTuple):
    """Some sentence pairs, as expectation maximisation goes over them."""

    entries: Any  # int32, entries of the table that occur in them
    # int32, for each pair of a source and a target token the position of its entry in ``entries``;
    # those of one target token lie together
    cells: Any
    begins: Any  # int64, where the cells of each target token begin


class Model1:
    """t(target word | source word), by expectation maximisation over sentence pairs.

    Every target token comes from one token of its source sentence, or from none (Brown et al.
    1993, section 4.1, equations 13 to 17). The table holds the pairs of words that occur together.
    """

    def __init__(
        self, pairs: Pairs, source_words: int, target_words: int, step: Callable[[], None]
    ) -> None:
        self._nothing = source_words  # the source of target words that come from no word
        self._targets = target_words
        counted: list[tuple[Any, Any, Any]] = []
        for first, last in chunks(pairs):
            sources, targets, begins = self._cells(pairs, first, last)
            keys = sources.astype(np.int64) * target_words + targets
            counted.append((*_distinct(keys), begins))
            step()
        self._keys = _union([unique for unique, _, _ in counted])
        self._chunks = [
            _Chunk(np.searchsorted(self._keys, unique).astype(np.int32), cells, begins)
            for unique, cells, begins in counted
        ]
        self.chances = np.ones(len(self._keys), dtype=np.float32)

    def _cells(self, pairs: Pairs, first: int, last: int) -> tuple[Any, Any, Any]:
        """Source and target word of every cell of some sentence pairs, and where the cells of each
        target token begin: all source tokens, and the empty one."""
        source, source_sizes = _sentences(pairs.source, pairs.source_ends, first, last)
        target, target_sizes = _sentences(pairs.target, pairs.target_ends, first, last)
        # The empty word follows each source sentence.
        ends = np.cumsum(source_sizes)
        source = np.insert(source, ends, self._nothing)
        widths = source_sizes + 1
        origins = np.repeat(np.cumsum(widths) - widths, target_sizes)  # by target token
        counts = np.repeat(widths, target_sizes)
        begins = np.cumsum(counts) - counts
        places = np.arange(counts.sum()) + np.repeat(origins - begins, counts)
        return source[places], np.repeat(target, counts), begins

    def refine(self, step: Callable[[], None]) -> None:
        """One round of expectation maximisation."""
        counts = np.zeros(len(self._keys))
        for entries, cells, begins in self._chunks:
            shares = self.chances[entries][cells]
            sizes = np.diff(begins, append=len(cells))
            shares /= np.repeat(np.add.reduceat(shares, begins), sizes)
            counts[entries] += np.bincount(cells, shares, minlength=len(entries))
            step()
        sources = self._keys // self._targets
        totals = np.bincount(sources, counts, minlength=self._nothing + 1)
        self.chances = (counts / totals[sources]).astype(np.float32)

    def likeliest(self, count: int, fill: int) -> Any:
        """The likeliest translations of each source word. Returns int32 [source words, count], the
        likeliest first; ``fill`` where there are fewer."""
        sources, targets = np.divmod(self._keys, self._targets)
        order = np.lexsort((targets, -self.chances, sources))
        sources = sources[order]
        ranks = np.arange(len(order)) - np.searchsorted(sources, sources)
        best = (ranks < count) & (sources < self._nothing)
        table = np.full((self._nothing, count), fill, dtype=np.int32)
        table[sources[best], ranks[best]] = targets[order][best]
        return table


def chunks(pairs: Pairs) -> list[tuple[int, int]]:
    """(first, last + 1) of runs of sentence pairs with about ``CELLS`` cells each."""
    cells = (np.diff(pairs.source_ends, prepend=0) + 1) * np.diff(pairs.target_ends, prepend=0)
    numbers = (np.cumsum(cells) - 1) // CELLS
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return list(zip(firsts.tolist(), [*firsts[1:].tolist(), len(cells)]))


def _sentences(tokens: Any, ends: Any, first: int, last: int) -> tuple[Any, Any]:
    """Tokens of some sentences, and how many each has."""
    begin = int(ends[first - 1]) if first else 0
    return tokens[begin : int(ends[last - 1])], np.diff(ends[first:last], prepend=begin)


def _distinct(keys: Any) -> tuple[Any, Any]:
    """The distinct keys, ascending, and for each key the position of its own among them.

    As numpy's ``unique`` with ``return_inverse``, with one sort of whole numbers, which newer
    processors do several times faster than the sort of positions.
    """
    places = np.arange(len(keys))
    joined = np.sort(keys << _PLACE_BITS | places)
    places, keys = joined & ((1 << _PLACE_BITS) - 1), joined >> _PLACE_BITS
    new = np.diff(keys, prepend=-1) != 0
    cells = np.empty(len(keys), dtype=np.int32)
    cells[places] = np.cumsum(new) - 1
    return keys[new], cells


def _union(arrays: list[Any]) -> Any:
    """Ascending numbers that occur in any of the arrays, two at a time: memory for all at once
    would be several times that of the result."""
    while len(arrays) > 1:
        joined = [np.sort(np.concatenate(arrays[i : i + 2])) for i in range(0, len(arrays), 2)]
        # Not numpy's unique, whose hashing is several times slower than a sort.
        arrays = [each[np.diff(each, prepend=-1) != 0] for each in joined]
    return arrays[0]


def most_frequent(target: Any, count: int, words: int) -> Any:
    """The most frequent target words, int32 [count or fewer], the most frequent first."""
    counts = np.bincount(target, minlength=words)
    order = np.argsort(-counts, kind="stable")[:count]
    return order[counts[order] > 0].astype(np.int32)
