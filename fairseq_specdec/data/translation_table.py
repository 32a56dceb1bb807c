"""Which target words each source word is likely to become: IBM model 1 (Brown et al. 1993)."""

import numpy as np

from ..io.progress import bar
from .parallel import Pairs

# Pairs of a source and a target token that are in memory at once; each takes some 60 bytes.
CELLS = 1 << 21


class Model1:
    """t(target word | source word), by expectation maximisation over sentence pairs.

    Every target token comes from one token of its source sentence, or from none (Brown et al.
    1993, section 4.1, equations 13 to 17). The table holds the pairs of words that occur together.
    """

    def __init__(self, pairs: Pairs, source_words: int, target_words: int) -> None:
        self._nothing = source_words  # the source of target words that come from no word
        self._targets = target_words
        # Of each chunk the distinct keys, the place of each cell's key among them (cells of one
        # target token lie together), and where the cells of each target token begin.
        counted = []
        for chunk in bar(chunks(pairs), "counting", unit="chunk"):
            keys, begins = self._cells(chunk)
            distinct, cells = np.unique(keys, return_inverse=True)
            counted.append((distinct, cells.astype(np.int32), begins))
        self._keys = np.unique(np.concatenate([distinct for distinct, _, _ in counted]))
        self._chunks = [
            (np.searchsorted(self._keys, distinct).astype(np.int32), cells, begins)
            for distinct, cells, begins in counted
        ]
        self.chances = np.ones(len(self._keys), dtype=np.float32)

    def _cells(self, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """The key of every cell of some sentence pairs, and where the cells of each target token
        begin: all source tokens, and the empty one."""
        keys, counts = [], []
        for source, target in pairs:
            sources = np.append(source, self._nothing).astype(np.int64) * self._targets
            keys.append((target[:, None] + sources).ravel())
            counts += [len(sources)] * len(target)
        return np.concatenate(keys), np.cumsum(counts) - counts

    def refine(self) -> None:
        """One round of expectation maximisation."""
        counts = np.zeros(len(self._keys))
        for entries, cells, begins in bar(self._chunks, "refining", unit="chunk"):
            shares = self.chances[entries][cells]
            sizes = np.diff(begins, append=len(cells))
            shares /= np.repeat(np.add.reduceat(shares, begins), sizes)
            counts[entries] += np.bincount(cells, shares, minlength=len(entries))
        sources = self._keys // self._targets
        totals = np.bincount(sources, counts, minlength=self._nothing + 1)
        self.chances = (counts / totals[sources]).astype(np.float32)

    def likeliest(self, count: int, fill: int) -> np.ndarray:
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


def chunks(pairs: Pairs) -> list[Pairs]:
    """The sentence pairs in runs of about ``CELLS`` cells each."""
    cells = np.cumsum([(len(source) + 1) * len(target) for source, target in pairs])
    firsts = [*np.flatnonzero(np.diff((cells - 1) // CELLS, prepend=-1)).tolist(), len(pairs)]
    return [pairs[first:last] for first, last in zip(firsts, firsts[1:])]


def most_frequent(pairs: Pairs, count: int) -> np.ndarray:
    """The most frequent target words, int32 [count or fewer], the most frequent first."""
    counts = np.bincount(np.concatenate([target for _, target in pairs]))
    order = np.argsort(-counts, kind="stable")[:count]
    return order[counts[order] > 0].astype(np.int32)
