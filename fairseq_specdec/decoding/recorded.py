"""Iterations of greedy decoding as one CUDA graph: draft, pass, constraints, exact acceptance."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft, Layout
from fairseq_specdec.engine.torch_graphs import Inputs, Outputs, Pass, Recordings, bucket


def replay(batch: Any, count: int, size: int | None) -> list[Tensor]:
    """Do so many iterations of a ``greedy.Batch`` on the device.

    Args:
        count: iterations; one, if they draft.
        size: draft tokens of each; 0 for no drafts, None for as many as the drafter makes.

    Returns:
        Of each iteration what ``Batch.verify`` returns; nothing where there is no such graph, or
        constraints are not the same for all iterations.
    """
    rows, policy, rule = batch.rows, batch.parts.policy, batch.parts.rule
    if not rule.lossless or policy.reads_hypotheses or batch.parts.options.keep_trace:
        return []

    def run(key: tuple[Any, ...], draft: Pass | None, inputs: Inputs) -> Outputs | None:
        width = 1 if draft is None else key[1] + 1
        last = rows.longest + count * width - 1
        verifier = batch.session.recordable(width, bucket(last + 1))
        if verifier is None:
            return None
        steps, reach = rows.lengths.unsqueeze(1), (rows.shortest, last)
        edits = policy.edits(steps, reach, batch.limits, batch.prefix)
        if edits.banned is not None or edits.forced is not None:
            return None
        recordings: Recordings
        recordings, verifiers_key, verify = verifier

        def iterations(tokens: Tensor, lengths: Tensor, *given: Tensor) -> Outputs:
            done: list[Outputs] = []
            for step in range(count):
                drafted = () if draft is None else draft(*given)
                log_probs, *states = verify(torch.cat([tokens, *drafted[:1]], 1), lengths + step)
                scores = Scores(log_probs, normalised=True)
                scores.edit(edits)
                tokens = scores.best()
                judged = tokens, scores.of(tokens)
                if drafted:
                    counts, bonus, _ = rule.accept(Draft(drafted[0], drafted[1]), scores)
                    of_rows = (each.unsqueeze(1) for each in (counts, drafted[1], bonus))
                    judged = *judged, *of_rows, *states
                done.append(judged)
            return tuple(torch.cat(each, 1) for each in zip(*done))

        inputs = [(rows.last(), (1,)), (rows.lengths, ()), *inputs]
        return recordings.run(("iterations", count, key, *verifiers_key), iterations, inputs)

    with batch.stats.stopwatch("verifier"):
        outputs = run((), None, []) if size == 0 else batch.drafts.replay(rows, size, run)
    if outputs is None:
        return []
    emitted, own, *of_rows = outputs
    rows.reserve(emitted.size(1))
    layout = Layout.chain(rows, emitted.size(1))
    rows.tokens[:, 1:].scatter_(1, layout.slots, emitted)
    rows.scores.scatter_(1, layout.slots, own)
    if not of_rows:
        rows.advance(count)
        return [each for pair in zip(emitted.split(1, 1), own.split(1, 1)) for each in pair]
    counts, sizes, bonus, *states = of_rows
    for each in states:
        batch.session.sessions[0].keep_states(layout, each)
    rows.advance((counts + 1).squeeze(1), bonus.clone())
    return [emitted, own, counts.expand_as(own), sizes.expand_as(own)]
