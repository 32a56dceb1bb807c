"""The parts of a generator whose acceptance follows a script: drafter, rule, generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_specdec.acceptance import Acceptance, AcceptanceRule
from fairseq_specdec.drafting import Drafter, DraftSession, Source
from fairseq_specdec.engine.backend import TORCH, Backend
from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft, Rows


class Script:
    """What the iterations of the live rows emit.

    Args:
        sizes: of each sentence, by its id, the tokens that each iteration emits at most.
        length: tokens of every sentence, </s> included.
        symbols: the target dictionary; its </s> ends every sentence and occurs nowhere else.
    """

    def __init__(self, sizes: dict[int, list[int]], length: int, symbols: Any) -> None:
        self.sizes, self.length = sizes, length
        self.eos, self.filler = symbols.eos(), symbols.nspecial
        self.begin([])

    def begin(self, sentences: Sequence[int]) -> None:
        """Begin a batch of these sentences."""
        self.rows = list(sentences)
        self.have = [0] * len(self.rows)
        self.done = 0

    def without_eos(self, tokens: Tensor) -> Tensor:
        """The same with an ordinary token instead of every </s>."""
        return tokens.masked_fill(tokens == self.eos, self.filler)

    @property
    def left(self) -> list[int]:
        """Tokens of each live row before </s>."""
        return [self.length - have - 1 for have in self.have]

    @property
    def right(self) -> list[int]:
        """Leading draft tokens of each live row that are right in this iteration."""
        return [(self.sizes[row][self.done : self.done + 1] or [1])[0] - 1 for row in self.rows]

    def advance(self, counts: Sequence[int]) -> None:
        """End an iteration that emitted so many tokens of the live rows; complete rows leave."""
        have = [have + count for have, count in zip(self.have, counts)]
        live = [i for i, tokens in enumerate(have) if tokens < self.length]
        self.rows, self.have = [self.rows[i] for i in live], [have[i] for i in live]
        self.done += 1


class ReplayedDrafter(Drafter):
    """Another drafter, whose tokens never end the sentence.

    Args:
        drafter: what drafts.
        script: whose </s> it avoids.
        plans: drafts are as long as pays; whole blocks otherwise.
    """

    def __init__(self, drafter: Drafter, script: Script, plans: bool) -> None:
        self.drafter, self.script = drafter, script
        self.adaptive = plans
        self.read_layers, self.runs_model = drafter.read_layers, drafter.runs_model
        self.block_size = drafter.block_size

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> ReplayedDrafter:
        return ReplayedDrafter(self.drafter.prepare(verifier, backend), self.script, self.adaptive)

    def open(self, source: Source) -> DraftSession:
        return _ReplayedSession(self.drafter.open(source), self.script)


class _ReplayedSession(DraftSession):
    def __init__(self, session: DraftSession, script: Script) -> None:
        self.session, self.script = session, script

    def propose(
        self, rows: Rows, budget: int | None = None, costs: Sequence[float] | None = None
    ) -> Draft:
        # Without costs: the confidence of random weights would end every draft.
        draft = self.session.propose(rows, budget)
        return draft._replace(tokens=self.script.without_eos(draft.tokens))

    def keep(self, rows: Tensor, kept: list[int]) -> None:
        self.session.keep(rows, kept)

    def close(self) -> None:
        self.session.close()


class ReplayedRule(AcceptanceRule):
    """Another rule, whose verdict is computed and then replaced by the script's."""

    def __init__(self, rule: AcceptanceRule, script: Script) -> None:
        self.rule, self.script = rule, script
        self.needs_draft_probabilities = rule.needs_draft_probabilities
        self.draft_independent = rule.draft_independent

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        self.rule.accept(draft, scores)
        script, sizes = self.script, draft.sizes
        left = script.left
        right = [min(pair) for pair in zip(script.right, left)]
        both = torch.tensor([right, left], device=sizes.device)
        counts = torch.minimum(both[0], sizes)
        script.advance([count + 1 for count in counts.tolist()])
        chosen = script.without_eos(scores.best().gather(1, counts.unsqueeze(1)).squeeze(1))
        return Acceptance(counts, chosen.masked_fill(counts == both[1], script.eos))


class ReplayedGenerator:
    """A generator of this project's whose acceptance follows a script: it was built with a
    ``ReplayedDrafter`` and a ``ReplayedRule`` of that script."""

    def __init__(self, generator: Any, script: Script) -> None:
        self.generator, self.script = generator, script

    def generate(
        self, models: list[Any], sample: dict[str, Any], prefix_tokens: Tensor | None = None
    ) -> list[list[dict[str, Any]]]:
        """One hypothesis per sentence, as the generator gives them."""
        self.script.begin(sample["id"].tolist())
        generator: Any = self.generator
        return generator.generate(models, sample, prefix_tokens)
