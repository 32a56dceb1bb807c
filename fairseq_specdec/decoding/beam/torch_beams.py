"""Beam search on any backend: passes of a verifier's session, and a replay in Python."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fairseq_specdec.engine.scores import forbidden_by_ngrams
from fairseq_specdec.engine.state import Layout, read_back, to_device

from ..batch import OpenBatch
from .lookahead import Lookahead
from .observed import Prefix
from .replay import BeamRules, Ended, Node, Sentence


class TorchBeams:
    """The searches of a batch. An ensemble and n-gram blocking are served here alone.

    Attributes:
        sentences: how far each row of the batch is.

    Args:
        prefix: long [B, P] forced first tokens, padded on the right; or None.
        lookaheads: of each row; none where nothing is drafted.
    """

    def __init__(
        self,
        batch: OpenBatch,
        rules: BeamRules,
        start: int,
        prefix: Tensor | None,
        lookaheads: Sequence[Lookahead],
    ) -> None:
        self.session, self.policy = batch.session, batch.parts.policy
        self.limits, self.device = batch.limits, batch.device
        self.rules = rules
        self.start = start
        self.prefix = prefix
        self.lookaheads = lookaheads
        rows = len(batch.finished)
        forced = [()] * rows
        if prefix is not None:
            forced = prefix.masked_fill(prefix == self.policy.pad, -1).tolist()
        self.sentences = [
            Sentence(rules._replace(max_len=limit), start, row, forced[row])
            for row, limit in enumerate(self.limits.listed(rows))
        ]
        self._open = self.sentences  # that the session has

    def run(self, max_passes: int) -> None:
        """Do passes of the verifier, at most so many, until every sentence is done. Raises
        NoTokenError: a sentence cannot go on."""
        for _ in range(max_passes):
            live = [sentence for sentence in self._open if not sentence.done]
            if not live:
                break
            self._keep(live)
            block = []
            for sentence in live:
                wanted = waiting = sentence.waiting()
                if self.lookaheads and not sentence.inside_prefix:
                    wanted = self.lookaheads[sentence.row].draft(sentence)
                sentence.draft = wanted[len(waiting) :]
                sentence.scored += len(wanted)
                sentence.drafted += len(sentence.draft)
                block.append(wanted)
            self._score(block, live)
            for sentence, nodes in zip(live, block):
                if self.lookaheads:
                    self.lookaheads[sentence.row].learn(sentence, nodes)
                sentence.advance()

    def prefixes(self, row: int, drafted: bool) -> list[Prefix]:
        """The live hypotheses of a sentence, best first; or what its last pass scored though
        nothing waited for it, parents first."""
        nodes = self.sentences[row].draft if drafted else self.sentences[row].live
        return [(node.tokens, node.best is not None, node.slot >= 0) for node in nodes]

    def ended(self, row: int) -> list[Ended]:
        """The hypotheses of a sentence that have ended, in the order in which they did."""
        return self.sentences[row].ended

    def _keep(self, live: list[Sentence]) -> None:
        """Let the sentences leave the session that are done."""
        if len(live) == len(self._open):
            return
        keep = [at for at, sentence in enumerate(self._open) if not sentence.done]
        rows = to_device(keep, self.device)
        self.session.keep(rows, len(keep))
        self.limits = self.limits.select(rows)
        if self.prefix is not None:
            self.prefix = self.prefix.index_select(0, rows)
        self._open = live

    def _score(self, block: Sequence[list[Node]], live: Sequence[Sentence]) -> None:
        """Learn what may follow each of the nodes, some of every sentence."""
        for nodes, sentence in zip(block, live):
            sentence.place(nodes)
        upto = max(sentence.slots for sentence in live) + 1
        width, upto = self.session.sessions[0].padded(max(map(len, block)), upto)
        size, entries, masks = (upto + 7) // 8, [], []
        for nodes, sentence in zip(block, live):
            empty = width - len(nodes)  # these see slot 0, and write where nobody looks
            placed = [(node.token, node.depth, node.slot) for node in nodes]
            entries.append(placed + [(0, 0, sentence.slots)] * empty)
            masks += [node.seen.to_bytes(size, "little") for node in nodes]
            masks += [(1).to_bytes(size, "little")] * empty
        numbers = torch.from_numpy(np.array(entries)).permute(2, 0, 1).contiguous()
        tokens, positions, slots = to_device(numbers, self.device).unbind(0)
        bits = np.unpackbits(np.frombuffer(b"".join(masks), dtype=np.uint8), bitorder="little")
        mask = bits.reshape(len(block), width, -1)[:, :, :upto].astype(bool)
        seen = to_device(torch.from_numpy(mask), self.device)
        scores = self.session.score(tokens, Layout(positions, slots, upto, seen=seen))
        depths = [node.depth for nodes in block for node in nodes]
        listed = self._repeated(block, width) if self.policy.reads_hypotheses else None
        reach = (min(depths), max(depths))
        scores.edit(self.policy.edits_at(positions, reach, self.limits, self.prefix, listed))
        log_probs, best = read_back(*scores.topk(2 * self.rules.beam))
        for row, nodes in enumerate(block):
            for entry, node in enumerate(nodes):
                node.best = (log_probs[row, entry], best[row, entry])

    def _repeated(self, block: Sequence[list[Node]], width: int) -> Tensor:
        """Long [B, W, T], the tokens that would repeat an n-gram after each node."""
        paths = []
        for nodes in block:
            paths += [[self.start, *node.tokens] for node in nodes]
            paths += [[self.start]] * (width - len(nodes))
        longest = max(map(len, paths))
        table = torch.from_numpy(np.array([path + [0] * (longest - len(path)) for path in paths]))
        ends = torch.tensor([[len(path) - 1] for path in paths])
        listed = forbidden_by_ngrams(table, ends, self.policy.no_repeat_ngram_size)
        return to_device(listed.view(len(block), width, longest), self.device)
