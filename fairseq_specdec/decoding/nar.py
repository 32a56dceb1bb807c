"""Decoding without a verifier: blocks of a drafter, one after the other."""

from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_specdec.drafting.nar_block import NarBlockSession, Revealed
from fairseq_specdec.drafting.token_choice import unrepeated
from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.scores import Edits, Scores
from fairseq_specdec.engine.transfer import to_device
from fairseq_specdec.errors import UsageError

from .batch import OpenBatch
from .iteration import Iteration


class _Block(NamedTuple):
    """What was predicted for K positions of each row."""

    tokens: Tensor  # long [B, K]
    log_probs: Tensor  # float [B, K]
    passes: Tensor  # long [B], of the drafter, that changed the row


class NarBatch(OpenBatch):
    """The live rows of one batch. A block of k masks is predicted at once (Ge et al. 2022, equation
    6); its tokens up to </s> are the output, and the next block follows where there is none.

    With more passes over a block the least confident of its tokens are predicted again, given the
    others: Mask-Predict (Ghazvininejad et al. 2019, section 3), within the block up to </s>. Masks
    always number k, so that a row does not depend on the others.

    Attributes:
        hypotheses: of the live rows.
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
        rows, options = len(src_tokens), drafts.options
        columns = torch.arange(options.block_size, device=src_tokens.device)
        self.columns = columns.unsqueeze(0)
        self.hypotheses = Hypotheses(rows, self.max_len + 3, start, options.pad, src_tokens)
        self.origin = list(range(rows))
        self.passes = [0] * rows  # of each live row

    def iterate(self, max_iterations: int = 1) -> None:
        """The next block of every live row; one host-device synchronisation. ``max_iterations``:
        not used, as rows may end in any block. Raises ValueError: the drafter gives no number."""
        timer, traced = self.stats.stopwatch, self.parts.options.keep_trace
        before = timer.lap() if traced else (0.0, 0.0, 0.0)
        with timer("drafter"):
            ended = self._emit(self._predict())
        if traced:
            now = timer.lap()
            ended = ended._replace(seconds=(now[0] - before[0], now[1] - before[1], 0.0))
            self.iterations.append(ended)
        self._leave(ended)

    def _predict(self) -> _Block:
        """The block after the hypotheses."""
        hypotheses, columns = self.hypotheses, self.columns
        size, asked = columns.size(1), self.block.options.unverified_passes
        reach = (hypotheses.shortest, hypotheses.longest + size - 1)
        steps = hypotheses.lengths.unsqueeze(1) + columns
        edits = self.parts.policy.edits_at(steps, reach, self.limits, None)
        tokens, log_probs = self._choose(edits)
        passes = torch.ones_like(hypotheses.lengths)
        for done in range(1, asked):
            length = self._through_end(tokens).unsqueeze(1)
            hidden = length * (asked - done) // asked
            if not hidden.is_cuda and not bool(hidden.any()):
                break
            passes = passes + (hidden > 0).squeeze(1)
            inside = columns < length
            order = log_probs.masked_fill(~inside, 1.0).sort(dim=1, stable=True).indices
            revealed = inside & (order.argsort(1) >= hidden)
            again = self._choose(edits, (tokens, revealed))
            tokens = torch.where(revealed, tokens, again[0])
            log_probs = torch.where(revealed, log_probs, again[1])
        return _Block(tokens, log_probs, passes)

    def _choose(self, edits: Edits, revealed: Revealed = None) -> tuple[Tensor, Tensor]:
        """The likeliest token of each mask and its log-probability, [B, K]."""
        block, options = self.block, self.parts.options
        features, logits = block.block(self.hypotheses, self.columns.size(1), revealed)
        scores = Scores(logits / options.temperature)
        scores.edit(edits)
        chain = block.weights.chain
        if chain is None:
            best = scores.best()
            return best, scores.of(best)
        before = self.hypotheses.last().squeeze(1)
        log_probs, tokens = chain.rank(features, scores.dense(), before, 1)
        return tokens.squeeze(2), log_probs.squeeze(2)

    def _through_end(self, tokens: Tensor) -> Tensor:
        """Tokens of each row of a block up to its first </s>, long [B]; all where there is none."""
        size, eos = tokens.size(1), self.parts.policy.eos
        first = torch.where(tokens == eos, self.columns, size).amin(1)
        return (first + 1).clamp(max=size)

    def _emit(self, block: _Block) -> Iteration:
        """Add a block to the hypotheses."""
        hypotheses, tokens, log_probs = self.hypotheses, block.tokens, block.log_probs
        sizes = self._through_end(tokens)
        if self.block.options.collapse_repeats:
            order, sizes = unrepeated(tokens, sizes)
            tokens, log_probs = tokens.gather(1, order), log_probs.gather(1, order)
        inside = self.columns < sizes.unsqueeze(1)
        at_end = (inside & (tokens == self.parts.policy.eos)).any(1)
        broken = (inside > (log_probs > float("-inf"))).any(1)
        hypotheses.reserve(tokens.size(1) + 1)
        after = hypotheses.lengths.unsqueeze(1) + self.columns
        hypotheses.write(after + 1, tokens)
        hypotheses.write_scores(after, log_probs)
        hypotheses.lengths = hypotheses.lengths + sizes
        counts = torch.stack([sizes, at_end.long(), broken.long(), block.passes], 1)
        rows = torch.cat([counts, tokens], 1).tolist()
        added, ended, bad, passes = (list(column) for column in zip(*(row[:4] for row in rows)))
        self.passes = [have + more for have, more in zip(self.passes, passes)]
        self.stats.iterations += sum(passes)
        self.stats.emitted += sum(added)
        none = [0] * len(rows)
        drafts: list[list[int]] = [[] for _ in rows]
        emitted = [row[4 : 4 + row[0]] for row in rows]
        done = Iteration(added, ended, none, bad, none, drafts=drafts, emitted=emitted)
        return done._replace(rows=self.origin)

    def _leave(self, done: Iteration) -> None:
        """Store the hypotheses that have ended."""
        hypotheses, keep = self.hypotheses, []
        if any(done.broken):
            row = done.broken.index(1)
            raise UsageError(
                "--drafter-path",
                "the drafter's output is no number (NaN or infinity) after position "
                f"{hypotheses.lengths_cpu[row]} of sentence {self.origin[row]} in the batch",
                "is the checkpoint sound, and does it decode without --fp16?",
            )
        lengths = hypotheses.lengths_cpu
        hypotheses.lengths_cpu = [have + more for have, more in zip(lengths, done.sizes)]
        for row, ended in enumerate(done.done):
            if ended:
                self.end(hypotheses, row, self.origin[row], self.passes[row])
            else:
                keep.append(row)
        if len(keep) == len(done.done):
            return
        if keep:
            rows = to_device(keep, self.device)
            hypotheses.select(rows, keep)
            self.limits = self.limits.select(rows)
            self.drafts.select(rows, keep)
        self.origin = [self.origin[row] for row in keep]
        self.passes = [self.passes[row] for row in keep]
