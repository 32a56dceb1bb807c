"""Which target words each source word is likely to become: IBM model 1 (Brown et al. 1993)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .parallel import Pairs

# Pairs of a source and a target token that are in memory at once; each takes some 60 bytes.
CELLS = 1 << 21


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
        # Of each chunk the distinct keys, the place of each cell's key among them (cells of one
        # target token lie together), and where the cells of each target token begin.
        counted = []
        for first, last in chunks(pairs):
            sources, targets, begins = self._cells(pairs, first, last)
            keys = sources.astype(np.int64) * target_words + targets
            distinct, cells = np.unique(keys, return_inverse=True)
            counted.append((distinct, cells.astype(np.int32), begins))
            step()
        self._keys = np.unique(np.concatenate([distinct for distinct, _, _ in counted]))
        self._chunks = [
            (np.searchsorted(self._keys, distinct).astype(np.int32), cells, begins)
            for distinct, cells, begins in counted
        ]
        self.chances = np.ones(len(self._keys), dtype=np.float32)

    def _cells(self, pairs: Pairs, first: int, last: int) -> tuple[Any, Any, Any]:
        """Source and target word of every cell of some sentence pairs, and where the cells of each
        target token begin: all source tokens, and the empty one."""
        source, source_sizes = _sentences(pairs.source, pairs.source_ends, first, last)
        target, target_sizes = _sentences(pairs.target, pairs.target_ends, first, last)
        # The empty word follows each source sentence.
        source = np.insert(source, np.cumsum(source_sizes), self._nothing)
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
    firsts = np.flatnonzero(np.diff((np.cumsum(cells) - 1) // CELLS, prepend=-1))
    return list(zip(firsts.tolist(), [*firsts[1:].tolist(), len(cells)]))


def _sentences(tokens: Any, ends: Any, first: int, last: int) -> tuple[Any, Any]:
    """Tokens of some sentences, and how many each has."""
    begin = int(ends[first - 1]) if first else 0
    return tokens[begin : int(ends[last - 1])], np.diff(ends[first:last], prepend=begin)


def most_frequent(target: Any, count: int, words: int) -> Any:
    """The most frequent target words, int32 [count or fewer], the most frequent first."""
    counts = np.bincount(target, minlength=words)
    order = np.argsort(-counts, kind="stable")[:count]
    return order[counts[order] > 0].astype(np.int32)
