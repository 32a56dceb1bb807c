"""The prefixes of one sentence whose next tokens a beam search looks at."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np

Best = tuple[np.ndarray, np.ndarray]
"""Log-probabilities float32 [k] of the likeliest next tokens, falling, and the tokens, long [k]."""


class Node:
    """A prefix of outputs: its last token, and the node of the tokens before.

    Attributes:
        token: the start symbol for the root.
        parent: None for the root.
        depth: tokens after the start symbol; the place of ``token`` in the position table.
        score: the prefix's log-probability; known once it was live.
        slot: where the caches hold the token's keys and values; -1 before it is scored.
        seen: the slots of the prefix, itself included, as bits.
        best: what may follow; None before it is scored.
        children: the nodes that follow it and are not dropped, by token.
    """

    __slots__ = ("best", "children", "depth", "parent", "score", "seen", "slot", "token")

    def __init__(self, token: int, parent: Node | None) -> None:
        self.token = token
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.score = 0.0
        self.slot = -1
        self.seen = 0
        self.best: Best | None = None
        self.children: dict[int, Node] = {}

    def path(self) -> list[Node]:
        """The nodes after the root, up to this one."""
        nodes = []
        node: Node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def child(self, token: int) -> Node:
        """The node of this prefix and one token more, made if it is not there."""
        child = self.children.get(token)
        if child is None:
            child = self.children[token] = Node(token, self)
        return child


class PrefixTree:
    """Prefixes and the cache slots that they take. All slots of a sentence lie in one row of the
    caches; those of dropped nodes are used again, so that nothing is moved."""

    def __init__(self, start: int) -> None:
        self.root = Node(start, None)
        self._free: list[int] = []
        self._slots = 0  # taken or free

    @property
    def slots(self) -> int:
        """Slots of the row that were ever taken."""
        return self._slots

    def place(self, nodes: Sequence[Node]) -> None:
        """Give slots to nodes that have none; parents come before their children."""
        for node in nodes:
            if self._free:
                node.slot = heapq.heappop(self._free)
            else:
                node.slot = self._slots
                self._slots += 1
            before = 0 if node.parent is None else node.parent.seen
            node.seen = before | 1 << node.slot

    def follow(self, old: Sequence[Node], new: Sequence[Node]) -> None:
        """Drop what does not lead from ``old`` live nodes to ``new`` ones or follow those. ``old``:
        the live nodes until now. ``new``: some of their children."""
        kept = set(map(id, new))
        for node in old:
            for child in list(node.children.values()):
                if id(child) not in kept:
                    self._drop(child)
            self._release(node)

    def _drop(self, top: Node) -> None:
        """Forget a node and all that follow it."""
        assert top.parent is not None
        del top.parent.children[top.token]
        for node in _below(top):
            self._give(node)

    def _release(self, node: Node | None) -> None:
        """Forget a node that nothing follows, and those before it that then lead nowhere."""
        while node is not None and not node.children and node.parent is not None:
            self._give(node)
            del node.parent.children[node.token]
            node = node.parent

    def _give(self, node: Node) -> None:
        if node.slot >= 0:
            heapq.heappush(self._free, node.slot)
            node.slot = -1


def _below(top: Node) -> Iterator[Node]:
    waiting = [top]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(node.children.values())


def visible(rows: Sequence[Sequence[Node]], width: int, upto: int) -> np.ndarray:
    """What the tokens of a block may attend to.

    Args:
        rows: the placed nodes of each sentence.
        width: W, of which a sentence fills the first entries.
        upto: T, more than every slot.

    Returns:
        bool [B, W, T]; an empty entry sees slot 0.
    """
    size = (upto + 7) // 8
    empty = (1).to_bytes(size, "little")
    packed = b"".join(
        b"".join(node.seen.to_bytes(size, "little") for node in nodes)
        + empty * (width - len(nodes))
        for nodes in rows
    )
    bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8), bitorder="little")
    return bits.reshape(len(rows), width, 8 * size)[:, :, :upto].astype(bool)
