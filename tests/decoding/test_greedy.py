"""The loop's book-keeping: what an iteration adds, counts, cuts, traces, and who leaves."""

import copy
from collections import Counter

import pytest
import torch
from scripted_drafter import ScriptedDrafter
from toy_strategies import flags, stock, tokens
from toy_translation import (
    EOS,
    PAD,
    WORDS,
    make_sample,
    make_task,
    sentences,
    toy_drafter,
    toy_model,
)

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.decoding.greedy import emitted_sizes
from fairseq_specdec.decoding.pace import Planner
from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter
from fairseq_specdec.engine.native.library import load

SENTENCES = sentences(8, seed=7)
BACKENDS = ["torch"] + ["native"] * (load() is not None)


@pytest.fixture(scope="module")
def expected():
    return tokens(stock([toy_model()], make_sample(SENTENCES), flags()))


def make(
    drafter=None, args=None, always_draft=True, keep_trace=True, backend="torch", rule=None,
    model=None, planning=None,
):  # fmt: skip
    words = make_task().tgt_dict
    return build_generator(
        [model or toy_model()], words, words, args or flags(),
        decoding_settings(strategy="greedy", backend=backend),
        overrides=Overrides(
            drafter, rule, always_draft=always_draft, keep_trace=keep_trace, planning=planning
        ),
    )  # fmt: skip


def block_drafter(model):
    return NarBlockDrafter(copy.deepcopy(model), DraftOptions(4, PAD, EOS))


def decode(generator, prefix=None, chosen=SENTENCES):
    ranked = generator.generate(generator.models, make_sample(chosen), prefix_tokens=prefix)
    return [hypotheses[0] for hypotheses in ranked]


def figures(stats):
    """The counters, without times."""
    return {name: value for name, value in vars(stats).items() if type(value) is int}


def judged(part, output):
    """(draft tokens that were compared, accepted ones): up to the first wrong one, or the end."""
    compared = min(len(part.draft), part.accepted + 1, len(output) - part.position)
    return compared, part.accepted


def check_trace(parts, output, live, longest):
    """The iterations of one sentence, whose rounds had so many ``live`` rows and took ``longest``
    seconds at most."""
    position = 0
    for number, part in enumerate(parts):
        assert part.position == position and part.rows == live[number]
        right = 0
        for drafted, true in zip(part.draft, output[position:]):
            if drafted != true:
                break
            right += 1
        assert part.accepted == right
        assert part.emitted == output[position : position + len(part.emitted)]
        # The verifier's choices, of which the last one is the bonus token.
        assert part.choices == part.emitted
        assert len(part.emitted) == min(right + 1, len(output) - position)
        whole, drafting, verifying = part.ms, part.drafter_ms, part.verifier_ms
        assert drafting >= 0 and verifying > 0 and whole >= 0.99 * (drafting + verifying)
        assert whole <= 1000 * longest
        position += len(part.emitted)
    assert position == len(output)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["noisy", "sometimes", "empty", "junk behind", "past the end"])
def test_counts_and_traces_are_of_what_was_done(kind, backend, expected):
    generator = make(ScriptedDrafter(expected, kind, WORDS, 3), backend=backend)
    outputs = decode(generator)
    assert tokens(outputs) == expected
    rounds = [one["iterations"] for one in outputs]
    longest = max(map(len, rounds))
    live = [sum(len(parts) > number for parts in rounds) for number in range(longest)]
    for one, output in zip(outputs, expected):
        assert one["steps"] == len(one["iterations"])
        check_trace(one["iterations"], output, live, generator.stats.total_seconds)
        # Callers may write to them.
        assert not one["tokens"].is_inference() and not one["positional_scores"].is_inference()
    parts = [part for some in rounds for part in some]
    drafted = sum(len(part.draft) for part in parts)
    assert figures(generator.stats) == {
        "sentences": len(SENTENCES),
        "iterations": len(parts),
        "emitted": sum(map(len, expected)),
        "accepted": sum(part.accepted for part in parts),
        "drafted": drafted,
        "scored": drafted + len(parts),
        "undrafted": sum(not part.draft for part in parts),
        "draft_steps": 0,
        "windows": 0,
        "unverified": 0,
        "rollbacks": sum(part.accepted < min(len(part.draft), len(part.emitted)) for part in parts),
    }
    assert generator.stats.judged == Counter(
        judged(part, output) for one, output in zip(outputs, expected) for part in one["iterations"]
    )
    assert (drafted > 0) == (kind != "empty")
    assert len(set(live)) == 1 if kind == "past the end" else len(set(live)) > 1
    untraced = make(ScriptedDrafter(expected, kind, WORDS, 3), keep_trace=False, backend=backend)
    again = decode(untraced)
    assert tokens(again) == expected and figures(untraced.stats) == figures(generator.stats)
    assert [one["steps"] for one in again] == [one["steps"] for one in outputs]
    assert all(len(one["iterations"]) == 0 for one in again)


PREFIX = torch.tensor([[5, 6, PAD], [7, PAD, PAD], [PAD, PAD, PAD], [8, 9, 10]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trace_begins_with_the_prefix_which_no_figure_counts_as_drafted(backend):
    chosen = SENTENCES[:4]
    expected = tokens(stock([toy_model()], make_sample(chosen), flags(), PREFIX))
    generator = make(ScriptedDrafter(expected, "noisy", WORDS, 3), backend=backend)
    outputs, drafts = decode(generator, PREFIX, chosen), []
    assert tokens(outputs) == expected
    for one, wanted in zip(outputs, PREFIX.tolist()):
        first, *others = one["iterations"]
        wanted = [token for token in wanted if token != PAD]
        assert first.draft == wanted and first.accepted == len(wanted)
        assert first.choices == one["tokens"].tolist()[: len(wanted) + 1]
        emitted = [token for part in one["iterations"] for token in part.emitted]
        assert emitted == one["tokens"].tolist()
        drafts += [(len(part.draft), part.accepted) for part in others]
    stats = generator.stats
    assert (stats.drafted, stats.accepted) == tuple(map(sum, zip(*drafts))) and stats.drafted > 0
    assert stats.scored == stats.iterations + stats.drafted + 6
    assert stats.iterations == sum(one["steps"] for one in outputs) == len(drafts) + 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_learnt_of_drafts_from_a_prefix(backend):
    planning = Planner(4, column=0.01, share=0.01, measured=False)
    generator = make(
        block_drafter(toy_drafter()), backend=backend, always_draft=False, planning=planning
    )
    generator.parts()
    before = planning.accepted, planning.stopped, planning.rested
    ends = torch.full((len(SENTENCES), 1), EOS)
    assert tokens(decode(generator, ends)) == [[EOS]] * len(SENTENCES)
    assert (planning.accepted, planning.stopped, planning.rested) == before
    assert figures(generator.stats)["undrafted"] == generator.stats.iterations == len(SENTENCES)
    decode(generator)
    assert (planning.accepted, planning.stopped, planning.rested) != before


@pytest.mark.parametrize("backend", BACKENDS)
def test_iterations_go_one_by_one_or_in_one_call(backend, expected):
    generator = make(keep_trace=False, backend=backend)
    sample = make_sample(SENTENCES)
    with generator.batch(generator.models, sample) as batch:
        for done in range(2):
            assert batch.live and batch.rows.lengths_cpu == [done] * len(SENTENCES)
            batch.iterate()
        batch.iterate(2)
        at_once = batch.rows.longest - 2
        while batch.live:
            assert batch.rows.lengths.tolist() == batch.rows.lengths_cpu
            assert len(batch.rows.origin) == len(batch.rows.lengths_cpu)
            batch.iterate(100)
        assert batch.rows.lengths_cpu == []
        assert tokens([one for (one,) in batch.finished]) == expected
    assert at_once == (2 if backend == "native" else 1)


@pytest.mark.parametrize("beam, most", [(1, None), (1, 2), (3, 1)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_sentences_are_handed_out_as_they_end(backend, beam, most):
    generator = make(args=flags(beam=beam, max_len_b=60), keep_trace=False, backend=backend)
    sample = make_sample(SENTENCES)
    expected = generator.generate(generator.models, sample)
    left, ended = [], {}
    with generator.batch(generator.models, sample) as batch:
        for sentence, hypotheses in batch.results(most):
            left.append(sum(one is None for one in batch.finished))
            assert sentence not in ended and hypotheses is batch.finished[sentence]
            ended[sentence] = hypotheses
    assert sorted(ended) == list(range(len(SENTENCES)))
    outputs = [[one["tokens"].tolist() for one in ended[row]] for row in sorted(ended)]
    assert outputs == [[one["tokens"].tolist() for one in row] for row in expected]
    assert left[-1] == 0 < left[0]


@pytest.mark.parametrize("kind", ["empty", "perfect"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sentence_without_a_possible_token_is_named(backend, kind):
    """Row 0 has left when row 1 is asked for a token that is impossible."""
    args = flags(unkpen=float("inf"))
    prefix = torch.tensor([[EOS, PAD, PAD], [5, 6, 3]])
    drafter = ScriptedDrafter([[EOS], [5, 6, 3, 7]], kind, WORDS, 4)
    with pytest.raises(ValueError, match="no possible token at position 2 of sentence 1 in"):
        decode(make(drafter, args, backend=backend), prefix, SENTENCES[:2])


def test_an_end_behind_the_bonus_token_is_none():
    emitted = torch.tensor([[5, EOS, EOS], [5, 6, EOS], [EOS, 6, 7]])
    sizes, done = emitted_sizes(emitted, torch.tensor([0, 1, 2]), EOS)
    assert sizes.tolist() == [1, 2, 1] and done.tolist() == [False, False, True]
