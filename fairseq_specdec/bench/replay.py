"""Decoding whose acceptance is replayed: real passes of random models, counts drawn beforehand.

Models of the papers' sizes are not at hand trained. Their cost does not depend on their weights but
on how many tokens each iteration keeps: that is drawn, and everything else (encoders, drafting,
verification of k+1 positions, the rule's own arithmetic, rollback of the caches) is done in full.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import torch
from torch import Tensor

from fairseq_specdec.acceptance import AcceptanceRule
from fairseq_specdec.acceptance.base import Acceptance
from fairseq_specdec.drafters import Drafter, InputCopyDrafter
from fairseq_specdec.drafters.base import Draft

NOTICE = (
    "REPLAY: the models have random weights, and how many tokens each iteration keeps is drawn "
    "from a distribution, not found by comparing drafts. Times are real; outputs mean nothing, so "
    "there is no quality to report."
)


class Script:
    """What the next iterations of the live rows emit.

    Args:
        sizes: of each sentence, by its id, the tokens that each iteration emits.
        length: tokens of every sentence, </s> included.
    """

    def __init__(self, sizes: Dict[int, List[int]], length: int) -> None:
        self.sizes = sizes
        self.length = length
        self.rows: List[int] = []
        self.have: List[int] = []
        self.done = 0

    def begin(self, sentences: Sequence[int]) -> None:
        """Begin a batch of these sentences."""
        self.rows = list(sentences)
        self.done = 0

    def keep(self, rows: Sequence[int]) -> None:
        """Only these rows are left."""
        self.rows = [self.rows[row] for row in rows]

    def step(self, have: Sequence[int]) -> None:
        """An iteration begins, the rows having so many tokens."""
        self.have = list(have)
        self.done += 1

    @property
    def now(self) -> List[int]:
        """Tokens that this iteration emits, row by row; 1 behind the end of a row's list."""
        lists = (self.sizes[row] for row in self.rows)
        return [each[self.done - 1] if self.done <= len(each) else 1 for each in lists]


class ReplayedDrafter(Drafter):
    """Another drafter, whose tokens never end the sentence; tells the script how far it is.

    Args:
        drafter: does the work.
        script: followed.
        eos: </s>, which is drafted as ``filler`` instead.
        filler: an ordinary token.
    """

    def __init__(self, drafter: Drafter, script: Script, eos: int, filler: int) -> None:
        self.drafter = drafter
        self.script = script
        self.eos, self.filler = eos, filler
        self.read_layers = drafter.read_layers
        self.adaptive = False  # the script decides, and counts every iteration

    def start(self, net_input: Dict[str, Any], max_len: int, encoder_out: Dict[str, Any]) -> None:
        self.drafter.start(net_input, max_len, encoder_out)

    def propose(self, tokens: Tensor, lengths: Tensor, host_lengths: List[int]) -> Draft:
        self.script.step(host_lengths)
        draft = self.drafter.propose(tokens, lengths, host_lengths)
        harmless = draft.tokens.masked_fill(draft.tokens == self.eos, self.filler)
        return draft._replace(tokens=harmless)

    def observe(self, states: Tensor, sizes: Tensor) -> None:
        self.drafter.observe(states, sizes)

    def prune(self, keep: Tensor, host_keep: List[int]) -> None:
        self.script.keep(host_keep)
        self.drafter.prune(keep, host_keep)

    def refresh(self) -> None:
        self.drafter.refresh()


class AlignedCopy(InputCopyDrafter):
    """Input copying that always finds its place: the source from the output's position on.

    The suffix search runs too, and its result is not used: no suffix of a random output occurs.
    """

    def propose(self, tokens: Tensor, lengths: Tensor, host_lengths: List[int]) -> Draft:
        super().propose(tokens, lengths, host_lengths)
        width = max(0, self.source.size(1) - 1 - min(host_lengths))
        if self.longest is not None:
            width = min(width, self.longest)
        at = (lengths + 1).unsqueeze(1) + torch.arange(width, device=tokens.device)
        left = (self.source_end - 1 - lengths).clamp(min=0, max=width)
        return Draft(self.source.gather(1, at.clamp(max=self.source.size(1) - 1)), left)


class ReplayedRule(AcceptanceRule):
    """Another rule, whose verdict is computed and then replaced by the script's.

    Args:
        rule: judges.
        script: decides.
        eos: ends every sentence at its length, and stands nowhere else.
        filler: stands where the verifier chose </s> before.
    """

    def __init__(self, rule: AcceptanceRule, script: Script, eos: int, filler: int) -> None:
        self.rule = rule
        self.script = script
        self.eos, self.filler = eos, filler
        self.needs_draft_probabilities = rule.needs_draft_probabilities

    def accept(
        self,
        draft: Tensor,
        lengths: Tensor,
        log_probs: Tensor,
        best: Tensor,
        draft_log_probs: Optional[Tensor] = None,
    ) -> Acceptance:
        self.rule.accept(draft, lengths, log_probs, best, draft_log_probs)
        script = self.script
        left = [script.length - have - 1 for have in script.have]  # draft tokens before </s>
        planned = [min(size - 1, most) for size, most in zip(script.now, left)]
        both = torch.tensor([planned, left], device=lengths.device)
        counts = torch.minimum(both[0], lengths)
        chosen = best.gather(1, counts.unsqueeze(1)).squeeze(1)
        chosen = chosen.masked_fill(chosen == self.eos, self.filler)
        return Acceptance(counts, chosen.masked_fill(counts == both[1], self.eos))


class Replay:
    """A generator of this project's whose acceptance follows a script.

    Args:
        generator: from ``build_generator``; its drafter and rule are wrapped.
        script: followed.
        filler: an ordinary token.
    """

    def __init__(self, generator: Any, script: Script, filler: int) -> None:
        eos = generator.policy.eos
        generator.drafter = ReplayedDrafter(generator.drafter, script, eos, filler)
        generator.rule = ReplayedRule(generator.rule, script, eos, filler)
        self.generator = generator
        self.script = script

    def generate(
        self, models: List[Any], sample: Dict[str, Any], prefix_tokens: Optional[Tensor] = None
    ) -> List[List[Dict[str, Any]]]:
        """One hypothesis a sentence, as the generator gives them."""
        self.script.begin(sample["id"].tolist())
        found: List[List[Dict[str, Any]]] = self.generator.generate(models, sample, prefix_tokens)
        return found
