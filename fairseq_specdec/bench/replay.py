"""Decoding whose acceptance is replayed: real passes of random models, counts drawn beforehand.

Models of the papers' sizes are not at hand trained. Their cost does not depend on their weights but
on how many tokens each iteration keeps: that is drawn, and everything else (encoders, drafting,
verification of k+1 positions, the rule's own arithmetic, rollback of the caches) is done in full.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from fairseq_specdec.acceptance import AcceptanceRule
from fairseq_specdec.acceptance.base import Acceptance
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.strategies import STRATEGIES, Setup
from fairseq_specdec.drafting import (
    Drafter,
    DraftSession,
    InputCopyDrafter,
    ReadyDrafter,
    Source,
)
from fairseq_specdec.drafting.input_copy import InputCopySession
from fairseq_specdec.engine.backend import TORCH, Backend
from fairseq_specdec.engine.draft_tree import DraftTree
from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.scores import Scores

from . import random_pair, systems
from .replay_flags import Replay as Asked
from .systems import Plan
from .timing import System
from .workload import Workload

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
        words: the target dictionary. Its </s> ends every sentence and stands nowhere else.
    """

    def __init__(self, sizes: Dict[int, List[int]], length: int, words: Any) -> None:
        self.sizes, self.length = sizes, length
        self.eos, self.filler = words.eos(), words.nspecial
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

    def without_eos(self, tokens: Tensor) -> Tensor:
        """The same with an ordinary token in place of every </s>."""
        return tokens.masked_fill(tokens == self.eos, self.filler)

    @property
    def now(self) -> List[int]:
        """Tokens that this iteration emits, row by row; 1 after the end of a row's list."""
        lists = (self.sizes[row] for row in self.rows)
        return [each[self.done - 1] if self.done <= len(each) else 1 for each in lists]


class ReplayedDrafter(Drafter):
    """Another drafter, whose tokens never end the sentence; tells the script how far it is."""

    adaptive = False  # the script decides, and counts every iteration

    def __init__(self, drafter: Drafter, script: Script) -> None:
        self.drafter, self.script = drafter, script
        self.read_layers = drafter.read_layers

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> ReadyDrafter:
        return _Ready(self.drafter.prepare(verifier, backend), self.script)


class _Ready(NamedTuple):
    drafter: ReadyDrafter
    script: Script

    def open(self, source: Source) -> DraftSession:
        return _ReplayedSession(self.drafter.open(source), self.script)


class _ReplayedSession(DraftSession):
    def __init__(self, session: DraftSession, script: Script) -> None:
        self.session, self.script = session, script

    def propose(self, hypotheses: Hypotheses, budget: Optional[int] = None) -> DraftTree:
        self.script.step(hypotheses.lengths_cpu)
        tree = self.session.propose(hypotheses, budget)
        return tree._replace(tokens=self.script.without_eos(tree.tokens))

    def commit(self, sizes: Tensor, hidden_states: Optional[Tensor]) -> None:
        self.session.commit(sizes, hidden_states)

    def select(self, rows: Tensor, rows_cpu: List[int]) -> None:
        self.script.keep(rows_cpu)
        self.session.select(rows, rows_cpu)

    def close(self) -> None:
        self.session.close()


class AlignedCopy(InputCopyDrafter):
    """Input copying that always finds its place: the source from the output's position on.

    The suffix search runs too, and its result is not used: no suffix of a random output occurs.
    """

    def open(self, source: Source) -> DraftSession:
        return _AlignedSession(self, source.net_input["src_tokens"])


class _AlignedSession(InputCopySession):
    def draft(self, row: int, output: Sequence[int]) -> List[int]:
        super().draft(row, output)
        return self.sources[row][len(output) :]


class ReplayedRule(AcceptanceRule):
    """Another rule, whose verdict is computed and then replaced by the script's."""

    def __init__(self, rule: AcceptanceRule, script: Script) -> None:
        self.rule, self.script = rule, script
        self.needs_draft_probabilities = rule.needs_draft_probabilities

    def accept(self, draft: DraftTree, scores: Scores) -> Acceptance:
        self.rule.accept(draft, scores)
        script, sizes = self.script, draft.sizes
        left = [script.length - have - 1 for have in script.have]  # draft tokens before </s>
        planned = [min(size - 1, most) for size, most in zip(script.now, left)]
        both = torch.tensor([planned, left], device=sizes.device)
        counts = torch.minimum(both[0], sizes)
        chosen = script.without_eos(scores.best().gather(1, counts.unsqueeze(1)).squeeze(1))
        return Acceptance(counts, chosen.masked_fill(counts == both[1], script.eos))


class Replay:
    """A generator of this project's whose acceptance follows a script: it was built with a
    ``ReplayedDrafter`` and a ``ReplayedRule`` of that script."""

    def __init__(self, generator: Any, script: Script) -> None:
        self.generator, self.script = generator, script

    def generate(
        self, models: List[Any], sample: Dict[str, Any], prefix_tokens: Optional[Tensor] = None
    ) -> List[List[Dict[str, Any]]]:
        """One hypothesis a sentence, as the generator gives them."""
        self.script.begin(sample["id"].tolist())
        found: List[List[Dict[str, Any]]] = self.generator.generate(models, sample, prefix_tokens)
        return found


def build(plan: Plan, workload: Workload, asked: Asked) -> System:
    """``systems.build`` for a replay: the strategy's drafter and rule, and its script."""

    def load(path: str, *more: Any) -> Any:
        return random_pair.drafter(asked.size, workload.task, asked.seed, asked.block_size)

    settings = decoding_settings(**plan.settings)
    words, models = workload.task.target_dictionary, workload.models(plan.paths)
    strategy, eos = STRATEGIES[settings.strategy], words.eos()
    setup = Setup(settings, models, words, words, load, eos)
    copies = settings.strategy == "iad"
    drafter = AlignedCopy(words.pad(), eos) if copies else strategy.drafter(setup)
    script = Script(dict(enumerate(asked.sizes[settings.strategy])), asked.length, words)
    overrides = Overrides(
        ReplayedDrafter(drafter, script), ReplayedRule(strategy.rule(settings), script)
    )
    # Drafts are not cut at the end, as where it is not known beforehand.
    free = plan._replace(generation={**plan.generation, "min_len": 1, "max_len_b": 200})
    system = systems.build(free, workload, overrides=overrides)
    return dataclasses.replace(system, generator=Replay(system.generator, script))


def faults(system: System, plan: Plan, asked: Asked) -> List[str]:
    """What a row of a replay, measured, did not do that it was to."""
    found, strategy = [], plan.settings.get("strategy")
    wrong = sum(len(output) != asked.length for output in system.tokens.values())
    if wrong:
        found.append(f"{system.name}: {wrong} outputs are of another length")
    if system.stats is not None and strategy in asked.sizes:
        got, tok = system.stats.mean_accepted_tokens, asked.tok(strategy)
        if abs(got - tok) > 0.005 * tok:
            found.append(f"{system.name}: {got:.2f} tokens an iteration, not {tok:.2f}")
    return found
