"""Recent outputs of each client: drafts of what it sends next."""

from collections import Counter, OrderedDict

from .scheduler import Row

# Tokens that are kept of all clients, each of at most 40 bytes; an entry counts as some more.
_MOST_TOKENS, _ENTRY = 1 << 20, 16
_NEAR = 0.5  # tokens that a near sentence shares, as a part of those of both


class RecentOutputs:
    """The last outputs of each ``context_id``; for one thread. ``most``: outputs of a client."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: OrderedDict[str | None, list[tuple[Row, Row]]] = OrderedDict()  # oldest first
        self._tokens = 0

    def nearest(self, context: str | None, row: Row) -> Row:
        """The output of the kept sentence that shares most tokens with ``row``, the newest of
        several; [] if none is near."""
        tokens, best, found = Counter(row), _NEAR, Row()
        for source, output in reversed(self._kept.get(context, [])):
            near = 2 * (tokens & Counter(source)).total() / (len(row) + len(source))
            if near > best:
                best, found = near, output
        return found

    def keep(self, context: str, row: Row, output: Row) -> None:
        """Keep an output, of token ids without </s>; the oldest ones leave."""
        own = self._kept.setdefault(context, [])
        self._kept.move_to_end(context)
        own.append((row, output))
        self._tokens += len(row) + len(output) + _ENTRY
        while len(own) > self.most or self._tokens > _MOST_TOKENS:
            name = context if len(own) > self.most else next(iter(self._kept))
            self._tokens -= sum(map(len, self._kept[name].pop(0))) + _ENTRY
            if not self._kept[name]:
                del self._kept[name]
