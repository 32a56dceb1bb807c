"""Beam search on any backend: passes of a verifier's session, and a replay in Python."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fairseq_specdec.engine.scores import forbidden_by_ngrams
from fairseq_specdec.engine.state import Layout, read_back, to_device

from .replay import Hypothesis, Node, Sentence
from .search import BeamBatch


class TorchBeams(BeamBatch):
    """Serves ensembles and n-gram blocking, too."""

    sentences: list[Sentence]

    def open(self) -> None:
        rows, pad = len(self.finished), self.parts.policy.pad
        forced = [()] * rows
        if self.prefix is not None:
            forced = self.prefix.masked_fill(self.prefix == pad, -1).tolist()
        self.sentences = [
            Sentence(self.rules._replace(max_len=limit), self.start, row, forced[row])
            for row, limit in enumerate(self.limits.listed(rows))
        ]
        self._open = self.sentences  # that the session has

    def run(self, max_passes: int) -> None:
        for _ in range(max_passes):
            live = [sentence for sentence in self._open if not sentence.done]
            if not live:
                break
            self._keep(live)
            self._score([sentence.waiting() for sentence in live], live)
            for sentence in live:
                sentence.advance()

    def hypotheses(self, row: int, ended: bool) -> list[Hypothesis]:
        sentence = self.sentences[row]
        return sentence.ended if ended else [Hypothesis(node.tokens, []) for node in sentence.live]

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
            sentence.scored += len(nodes)
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
        policy = self.parts.policy
        listed = self._repeated(block, width) if policy.reads_hypotheses else None
        reach = (min(depths), max(depths))
        scores.edit(policy.edits(positions, reach, self.limits, self.prefix, listed))
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
        listed = forbidden_by_ngrams(table, ends, self.parts.policy.no_repeat_ngram_size)
        return to_device(listed.view(len(block), width, longest), self.device)
