"""Decoding without a verifier: blocks of a drafter, one after the other."""

import torch
from torch import Tensor

from fairseq_specdec.drafting.nar_block import NarBlockSession
from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft
from fairseq_specdec.errors import UsageError

from .batch import DOUBTFUL
from .greedy import Batch
from .iteration import Iteration


class NarBatch(Batch):
    """The live rows of one batch. A block of k masks is predicted at once (Ge et al. 2022, equation
    6); its tokens up to </s> are the output, and the next block follows where there is none.

    There are always k masks, so that a row does not depend on the others.
    """

    widest = 0

    def begin(self, src_tokens: Tensor, start: int, prefix: Tensor | None) -> None:
        if prefix is not None:
            raise UsageError(
                "--prefix-size",
                "--strategy nar has no verifier to score what outputs must begin with",
                "leave it out, or use --strategy gad",
            )
        if not isinstance(self.drafts, NarBlockSession):
            raise UsageError(
                "--drafter-path",
                f"its encoder has no position for a source of {src_tokens.size(1)} tokens",
                "leave it out, or use --strategy greedy",
            )
        super().begin(src_tokens, start, None)
        self.block = self.drafts
        columns = torch.arange(self.block.options.block_size, device=src_tokens.device)
        self.columns = columns.unsqueeze(0)

    def step(self, draft: Draft | None) -> Iteration:
        """The next block of every live row; one host-device synchronisation."""
        with self.stats.stopwatch("drafter"):
            return self._emit(*self._predict())

    def _predict(self) -> tuple[Tensor, Tensor]:
        """The likeliest token of each mask after the rows and its log-probability, [B, K]."""
        rows, size = self.rows, self.columns.size(1)
        features, logits = self.block.block(rows, size)
        scores = Scores(logits / self.parts.options.temperature)
        reach = (rows.shortest, rows.longest + size - 1)
        steps = rows.lengths.unsqueeze(1) + self.columns
        scores.edit(self.parts.policy.edits(steps, reach, self.limits, None))
        chain = self.block.weights.chain
        if chain is None:
            best = scores.best()
            return best, scores.of(best)
        tokens, chances = chain.judged(features, scores.log_probs, rows.last().squeeze(1))
        assert chances is not None
        return tokens, chances.log()

    def _emit(self, tokens: Tensor, log_probs: Tensor) -> Iteration:
        """Add a block up to its first </s> to the hypotheses."""
        rows, eos, last = self.rows, self.parts.policy.eos, tokens.size(1) - 1
        sizes = torch.where(tokens == eos, self.columns, last).amin(1) + 1
        inside = self.columns < sizes.unsqueeze(1)
        at_end = (inside & (tokens == eos)).any(1)
        broken = (inside > (log_probs > float("-inf"))).any(1)
        rows.reserve(tokens.size(1) + 1)
        after = rows.lengths.unsqueeze(1) + self.columns
        rows.tokens.scatter_(1, after + 1, tokens)
        rows.scores.scatter_(1, after, log_probs)
        counts = torch.stack([sizes, at_end.long(), broken.long()], 1)
        read = torch.cat([counts, tokens], 1).tolist()
        added, ended, bad = (list(column) for column in zip(*(row[:3] for row in read)))
        emitted = [row[3 : 3 + row[0]] for row in read]
        rows.advance(sizes)
        rows.grow(added, emitted)
        none = [0] * len(read)
        drafts: list[list[int]] = [[] for _ in read]
        return Iteration(added, ended, none, bad, none, drafts=drafts, emitted=emitted)

    def _count(self, done: Iteration) -> None:
        self.stats.iterations += len(done.sizes)
        self.stats.emitted += sum(done.sizes)

    def _refuse(self, done: Iteration) -> None:
        row, rows = list(done.broken).index(1), self.rows
        position = rows.lengths_cpu[row] - done.sizes[row]
        raise UsageError(
            "--drafter-path",
            f"the drafter's output is no number (NaN or infinity) after position {position} of "
            f"sentence {rows.origin[row]} in the batch",
            DOUBTFUL,
        )
