"""Which target words each source word is likely to become: IBM model 1 (Brown et al. 1993)."""

import numpy as np

from ..io.progress import bar
from .parallel import Pairs

# Pairs of a source and a target token that are in memory at once; each takes some 60 bytes.
CELLS = 1 << 21


def likeliest_translations(
    pairs: Pairs, source_words: int, target_words: int, rounds: int, count: int, fill: int
) -> np.ndarray:
    """t(target word | source word), by expectation maximisation over sentence pairs.

    Every target token comes from one token of its source sentence, or from none (Brown et al.
    1993, section 4.1, equations 13 to 17).

    Returns:
        int32 [source words, count], the likeliest translations of each source word first; ``fill``
        where there are fewer.
    """
    nothing = source_words  # the source of target words that come from no word
    # Of each chunk the pairs of words in it, which of them each cell is (cells of one target token
    # are adjacent), and the cells of each target token.
    counted = []
    for chunk in bar(chunks(pairs), "counting", unit="chunk"):
        keys, sizes = [], []
        for source, target in chunk:
            sources = np.append(source, nothing).astype(np.int64) * target_words
            keys.append((target[:, None] + sources).ravel())
            sizes += [len(sources)] * len(target)
        distinct, cells = np.unique(np.concatenate(keys), return_inverse=True)
        counted.append((distinct, cells.astype(np.int32), np.array(sizes)))
    table = np.unique(np.concatenate([distinct for distinct, _, _ in counted]))
    sources, targets = np.divmod(table, target_words)
    chances = np.ones(len(table), dtype=np.float32)
    for number in range(rounds):
        sums = np.zeros(len(table))
        for distinct, cells, sizes in bar(counted, f"round {number + 1}", unit="chunk"):
            entries = np.searchsorted(table, distinct)
            shares = chances[entries][cells]
            shares /= np.repeat(np.add.reduceat(shares, np.cumsum(sizes) - sizes), sizes)
            sums[entries] += np.bincount(cells, shares, minlength=len(entries))
        totals = np.bincount(sources, sums, minlength=nothing + 1)
        chances = (sums / totals[sources]).astype(np.float32)

    order = np.lexsort((targets, -chances, sources))
    ordered = sources[order]
    ranks = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    best = (ranks < count) & (ordered < nothing)
    likeliest = np.full((nothing, count), fill, dtype=np.int32)
    likeliest[ordered[best], ranks[best]] = targets[order][best]
    return likeliest


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
