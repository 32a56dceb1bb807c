"""One batch on its way through the loop: draft, verify, accept, roll back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from fairseq_specdec.drafters import Draft

from .hypotheses import Iteration, hypothesis

if TYPE_CHECKING:
    from .generator import SpeculativeGenerator

Lap = Tuple[float, float, float]


def emitted_sizes(emitted: Tensor, counts: Tensor, eos: int) -> Tuple[Tensor, Tensor]:
    """How many tokens an iteration adds; </s> accepted inside a draft ends the sentence there.

    Args:
        emitted: long [B, K+1], accepted tokens, the verifier's own token, then anything.
        counts: long [B], accepted tokens.
        eos: </s>.

    Returns:
        (long [B], 1 .. K+1; bool [B], whether the sentence ended).
    """
    columns = torch.arange(emitted.size(1), device=emitted.device)
    ends = (emitted == eos) & (columns <= counts.unsqueeze(1))
    done = ends.any(1)
    return torch.where(done, ends.long().argmax(1) + 1, counts + 1), done


def unsound(models: List[Any]) -> str:
    """Where an ensemble holds NaN or infinity, or what else to look at."""
    for number, model in enumerate(models, start=1):
        for name, parameter in model.named_parameters():
            if not bool(torch.isfinite(parameter).all()):
                return (
                    f"model {number} of {len(models)} holds NaN or infinity in {name}: the "
                    "checkpoint is damaged, or its training diverged"
                )
    return "is the checkpoint sound, and does it decode without --fp16?"


class Batch:
    """The live rows of one batch. Rows that reach </s> leave it.

    Attributes:
        host_lengths: tokens of each live row; empty when all are finished.
        finished: the hypothesis of each sentence, None while it is live.
        traces: iterations of each live row so far, if the generator keeps them.
    """

    def __init__(
        self,
        owner: SpeculativeGenerator,
        net_input: Dict[str, Any],
        prefix: Optional[Tensor],
        bos_token: Optional[int],
    ) -> None:
        self.owner = owner
        self.stats = owner.stats
        src_tokens = net_input["src_tokens"]
        rows, source_width = src_tokens.shape
        stopwatch = self.stats.stopwatch
        stopwatch.on(src_tokens.device)
        self.max_len = owner.length_limit(source_width)
        with stopwatch("encoder"):
            encoder_outs = owner.verifier.encode(net_input)
        self.budget = owner.draft_budget()
        with stopwatch("verifier"):
            owner.verifier.start(encoder_outs, self.max_len, 32)
        owner.drafter.start(net_input, self.max_len, encoder_outs[0])
        self.prefix = prefix
        eos = owner.policy.eos
        # Columns: start symbol, tokens; blocks may be written past the limit, so grow on demand.
        self.tokens = src_tokens.new_full((rows, self.max_len + 3), owner.policy.pad)
        self.tokens[:, 0] = eos if bos_token is None else bos_token
        self.scores = torch.zeros(rows, self.max_len + 3, device=src_tokens.device)
        self.lengths = src_tokens.new_zeros(rows)
        self.host_lengths = [0] * rows
        self.origin = list(range(rows))
        self.rounds = [0] * rows
        self.traces: List[List[Iteration]] = [[] for _ in range(rows)]
        self.finished: List[Any] = [None] * rows

    def _draft(self) -> Draft:
        """What the drafter proposes, within the budget."""
        most = self.budget.most(len(self.host_lengths))
        drafter = self.owner.drafter
        if most == 0:
            drafter.stand_by(self.lengths, self.host_lengths)
            return Draft(self.tokens[:, :0], torch.zeros_like(self.lengths))
        drafter.most = most
        draft = drafter.propose(self.tokens, self.lengths, self.host_lengths)
        return draft if most is None else draft.cut(most)

    def _room(self, width: int) -> None:
        """Let a block of ``width`` tokens be written behind the longest row."""
        missing = max(self.host_lengths) + 1 + width - self.tokens.size(1)
        if missing > 0:
            pad = self.owner.policy.pad
            self.tokens = nn.functional.pad(self.tokens, (0, missing), value=pad)
            self.scores = nn.functional.pad(self.scores, (0, missing))

    def iterate(self) -> None:
        """One iteration for every live row; one host-device synchronisation."""
        with self.owner.without_gradients():
            self._iterate()

    def _iterate(self) -> None:
        owner, stats = self.owner, self.stats
        before = stats.stopwatch.lap() if owner.keep_trace else None
        with stats.stopwatch("drafter"):
            draft = self._draft()
        # A draft may reach the length limit, not pass it: there only </s> can follow.
        drafted = draft.tokens[:, : self.max_len - min(self.host_lengths)]
        width = drafted.size(1)
        lengths = torch.minimum(draft.lengths, self.max_len - self.lengths).clamp(max=width)
        self._room(width + 1)

        with stats.stopwatch("verifier"):
            last = self.tokens.gather(1, self.lengths.unsqueeze(1))
            block = torch.cat([last, drafted], 1)
            log_probs = owner.verifier.score(block, self.lengths, self.host_lengths)
            columns = torch.arange(width + 1, device=block.device)
            at = (self.lengths + 1).unsqueeze(1) + columns
            if owner.policy.no_repeat_ngram_size > 0 and width > 0:
                self.tokens.scatter_(1, at[:, :-1], drafted)
            owner.policy.apply(
                log_probs,
                self.lengths,
                min(self.host_lengths),
                max(self.host_lengths),
                self.max_len,
                self.prefix,
                self.tokens,
            )
            # topk(2), not argmax: ties go where stock's topk(2 * beam) sends them.
            best = log_probs.topk(2, dim=-1).indices[..., 0]
            draft_log_probs = None if draft.log_probs is None else draft.log_probs[:, :width]
            counts, next_token = owner.rule.accept(
                drafted, lengths, log_probs, best, draft_log_probs
            )

            emitted = torch.cat([drafted, next_token.unsqueeze(1)], 1)
            emitted = torch.where(columns == counts.unsqueeze(1), next_token.unsqueeze(1), emitted)
            size, done = emitted_sizes(emitted, counts, owner.policy.eos)
            # Columns behind the emitted ones are overwritten by later iterations.
            self.tokens.scatter_(1, at, emitted)
            own = log_probs.gather(2, emitted.unsqueeze(2)).squeeze(2)
            self.scores.scatter_(1, at - 1, own)
            self.lengths = self.lengths + size
            if owner.drafter.read_layers:
                owner.drafter.observe(owner.verifier.states(), size)
            # Neither NaN nor -inf is a token's log-probability.
            broken = (~(own > float("-inf")) & (columns < size.unsqueeze(1))).any(1)
            facts = torch.stack(
                [size, done.long(), torch.minimum(counts, size), lengths, broken.long()], 1
            )
            if owner.keep_trace:
                facts = torch.cat([facts, drafted, emitted, best], 1)
            host = facts.tolist()
        self._account(host, width, draft.steps, before)

    def _account(
        self, host: List[List[int]], width: int, steps: int, before: Optional[Lap]
    ) -> None:
        """Book the iteration, and let finished rows leave."""
        owner, stats = self.owner, self.stats
        seconds = (0.0, 0.0, 0.0)
        if before is not None:
            now = stats.stopwatch.lap()
            seconds = (now[0] - before[0], now[1] - before[1], now[2] - before[2])
        keep = []
        tried = kept = cut = 0
        for row, (size, done, accepted, proposed, broken, *trace) in enumerate(host):
            if broken:
                self._refuse(row, size)
            self.rounds[row] += 1
            position = self.host_lengths[row]
            self.host_lengths[row] += size
            stats.emitted += size
            stats.accepted += accepted
            tried += int(proposed > 0)
            kept += accepted
            stats.drafted += proposed
            # A row that emitted no more than it accepted ended inside its draft.
            rolled_back = int(accepted < min(proposed, size))
            stats.rollbacks += rolled_back
            cut += rolled_back
            if owner.keep_trace:
                draft, emitted = trace[:proposed], trace[width : width + size]
                best = trace[2 * width + 1 :][:size]
                self.traces[row].append(
                    Iteration(draft, accepted, emitted, best, position, steps, len(host), seconds)
                )
            if done:
                self._finish(row)
            else:
                keep.append(row)
        stats.iterations += len(host)
        self.budget.learn(tried, kept, cut)
        if not keep:
            self.host_lengths = []
            stats.stopwatch.settle()
        elif len(keep) < len(host):
            owner.verifier.commit(self.lengths, self.host_lengths)
            self._prune(keep)
        else:
            owner.verifier.commit(self.lengths, list(self.host_lengths))

    def _refuse(self, row: int, size: int) -> None:
        """Stop at a token that is none, among the ``size`` that a row emitted just now."""
        start = self.host_lengths[row]
        scores = self.scores[row, start : start + size].tolist()
        at = next(i for i, score in enumerate(scores) if not score > float("-inf"))
        where = f"at position {start + at} of sentence {self.origin[row]} in the batch"
        if scores[at] != scores[at]:
            raise ValueError(
                f"--path: the verifier's output is no number {where} (NaN, or infinity before the "
                f"softmax); {unsound(self.owner.verifier.models)}"
            )
        raise ValueError(
            f"--path: the verifier left no possible token {where}; does --no-repeat-ngram-size "
            "forbid them all, or --unkpen or it the one that --prefix-size demands?"
        )

    def _finish(self, row: int) -> None:
        length = self.host_lengths[row]
        with torch.inference_mode(False):  # whoever gets it may do with its tensors what they like
            self.finished[self.origin[row]] = hypothesis(
                self.tokens[row, 1 : length + 1].clone(),
                self.scores[row, :length].clone(),
                self.rounds[row],
                self.owner.normalize_scores,
                self.owner.len_penalty,
                self.traces[row],
            )

    def _prune(self, keep: List[int]) -> None:
        index = torch.tensor(keep, device=self.tokens.device)
        self.tokens = self.tokens.index_select(0, index)
        self.scores = self.scores.index_select(0, index)
        self.lengths = self.lengths.index_select(0, index)
        if self.prefix is not None:
            self.prefix = self.prefix.index_select(0, index)
        self.owner.verifier.prune(index, keep)
        self.owner.drafter.prune(index, keep)
        for name in ("host_lengths", "origin", "rounds", "traces"):
            values = getattr(self, name)
            setattr(self, name, [values[row] for row in keep])
