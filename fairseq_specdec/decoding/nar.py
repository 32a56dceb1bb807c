"""Decoding without a verifier: blocks of a drafter, one after the other."""

import torch
from torch import Tensor

from fairseq_specdec.drafting.nar_block import NarBlockSession
from fairseq_specdec.drafting.token_choice import unrepeated
from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Rows
from fairseq_specdec.errors import UsageError

from .batch import OpenBatch
from .iteration import Iteration


class NarBatch(OpenBatch):
    """The live rows of one batch. A block of k masks is predicted at once (Ge et al. 2022, equation
    6); its tokens up to </s> are the output, and the next block follows where there is none.

    There are always k masks, so that a row does not depend on the others.

    Attributes:
        rows: the outputs of the live sentences.
    """

    widest = 0

    def begin(self, src_tokens: Tensor, start: int, prefix: Tensor | None) -> None:
        if prefix is not None:
            raise UsageError(
                "--prefix-size",
                "--strategy nar has no verifier to score what outputs must begin with",
                "leave it out, or use --strategy gad",
            )
        drafts = self.drafts
        if not isinstance(drafts, NarBlockSession):
            raise UsageError(
                "--drafter-path",
                f"its encoder has no position for a source of {src_tokens.size(1)} tokens",
                "leave it out, or use --strategy greedy",
            )
        self.block = drafts
        count, options = len(src_tokens), drafts.options
        columns = torch.arange(options.block_size, device=src_tokens.device)
        self.columns = columns.unsqueeze(0)
        self.rows = Rows(count, self.max_len + 3, start, options.pad, src_tokens)
        self.passes = 0  # of the drafter

    def iterate(self, max_iterations: int = 1) -> None:
        """The next block of every live row; one host-device synchronisation. ``max_iterations``:
        not used, as rows may end in any block. Raises ValueError: the drafter gives no number."""
        timer, traced = self.stats.stopwatch, self.parts.options.keep_trace
        before = timer.lap() if traced else (0.0, 0.0, 0.0)
        with timer("drafter"):
            ended = self._emit(*self._predict())
        if traced:
            now = timer.lap()
            ended = ended._replace(seconds=(now[0] - before[0], now[1] - before[1], 0.0))
            self.iterations.append(ended)
        self._leave(ended)

    def _predict(self) -> tuple[Tensor, Tensor]:
        """The likeliest token of each mask after the rows and its log-probability, [B, K]."""
        rows, size = self.rows, self.columns.size(1)
        features, logits = self.block.block(rows, size)
        scores = Scores(logits / self.parts.options.temperature)
        reach = (rows.shortest, rows.longest + size - 1)
        steps = rows.lengths.unsqueeze(1) + self.columns
        scores.edit(self.parts.policy.edits_at(steps, reach, self.limits, None))
        chain = self.block.weights.chain
        if chain is None:
            best = scores.best()
            return best, scores.of(best)
        tokens, chances = chain.judged(features, scores.dense(), rows.last().squeeze(1))
        assert chances is not None
        return tokens, chances.log()

    def _emit(self, tokens: Tensor, log_probs: Tensor) -> Iteration:
        """Add a block up to its first </s> to the hypotheses."""
        rows, eos, last = self.rows, self.parts.policy.eos, tokens.size(1) - 1
        sizes = torch.where(tokens == eos, self.columns, last).amin(1) + 1
        if self.block.options.collapse_repeats:
            order, sizes = unrepeated(tokens, sizes)
            tokens, log_probs = tokens.gather(1, order), log_probs.gather(1, order)
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
        rows.grow(sizes, added, emitted)
        self.passes += 1
        self.stats.iterations += len(read)
        self.stats.emitted += sum(added)
        none = [0] * len(read)
        drafts: list[list[int]] = [[] for _ in read]
        done = Iteration(added, ended, none, bad, none, drafts=drafts, emitted=emitted)
        return done._replace(rows=rows.origin)

    def _leave(self, done: Iteration) -> None:
        """Store the hypotheses that have ended."""
        rows, keep = self.rows, []
        if any(done.broken):
            row = done.broken.index(1)
            raise UsageError(
                "--drafter-path",
                "the drafter's output is no number (NaN or infinity) after position "
                f"{rows.lengths_cpu[row] - done.sizes[row]} of sentence {rows.origin[row]} in the "
                "batch",
                "is the checkpoint sound, and does it decode without --fp16?",
            )
        for row, ended in enumerate(done.done):
            if ended:
                self.end(rows, row, self.passes)
            else:
                keep.append(row)
        if len(keep) == len(done.done):
            return
        kept = rows.keep(keep)
        if keep:
            self.limits = self.limits.select(kept)
            self.drafts.keep(kept, keep)
