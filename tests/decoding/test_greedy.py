"""The loop's book-keeping: what an iteration adds, counts, cuts, traces, and who leaves."""

from collections import Counter
from time import perf_counter as clock

import pytest
import torch
from scripted_drafter import ScriptedDrafter
from toy_strategies import check, decode, flags, forced, make_generator, stock, tokens
from toy_translation import PAD, WORDS, make_sample, sentences, toy_model

from fairseq_specdec.decoding import greedy
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.engine.native.library import load

SENTENCES = sentences(8, seed=7)
SAMPLE = make_sample(SENTENCES)
BACKENDS = ["torch"] + ["native"] * (load() is not None)


@pytest.fixture(scope="module")
def expected():
    return tokens(stock([toy_model()], SAMPLE, flags()))


def make(drafter=None, args=None, keep_trace=True, backend="torch"):
    overrides = Overrides(drafter, keep_trace=keep_trace)
    return make_generator("greedy", args, backend=backend, overrides=overrides)


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
    generator, began = make(ScriptedDrafter(expected, kind, WORDS, 3), backend=backend), clock()
    outputs, stats = decode(generator, SAMPLE), generator.stats
    assert tokens(outputs) == expected and stats.total_seconds < clock() - began
    rounds = [one["iterations"] for one in outputs]
    longest = max(map(len, rounds))
    live = [sum(len(parts) > number for parts in rounds) for number in range(longest)]
    for one, output in zip(outputs, expected):
        assert one["steps"] == len(one["iterations"])
        check_trace(one["iterations"], output, live, stats.total_seconds)
        # Callers may write to them.
        assert not one["tokens"].is_inference() and not one["positional_scores"].is_inference()
    parts = [part for some in rounds for part in some]
    drafted = sum(len(part.draft) for part in parts)
    assert figures(stats) == {
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
    assert stats.judged == Counter(
        judged(part, output) for one, output in zip(outputs, expected) for part in one["iterations"]
    )
    shares = [
        sum(right > place for _, right in stats.judged.elements())
        / sum(compared > place for compared, _ in stats.judged.elements())
        for place in range(len(stats.acceptance_by_position))
    ]
    assert stats.acceptance_by_position == shares and (shares == []) == (kind == "empty")
    twice = DecodingStats()
    twice.add(stats)
    twice.add(stats)
    assert figures(twice) == {name: 2 * count for name, count in figures(stats).items()}
    assert twice.acceptance_by_position == shares
    assert twice.total_seconds == pytest.approx(2 * stats.total_seconds)
    assert len(set(live)) == 1 if kind == "past the end" else len(set(live)) > 1
    untraced = make(ScriptedDrafter(expected, kind, WORDS, 3), keep_trace=False, backend=backend)
    again = decode(untraced, SAMPLE)
    assert tokens(again) == expected and figures(untraced.stats) == figures(stats)
    assert [one["steps"] for one in again] == [one["steps"] for one in outputs]
    assert all(len(one["iterations"]) == 0 for one in again)


# Flags, and whether outputs have to begin with prefixes.
AHEAD = {
    "plain": ({}, False),
    "at the limit": ({"max_len_a": 1.0, "max_len_b": 2}, False),
    "not before": ({"min_len": 6, "unkpen": 1.0}, False),
    "no n-gram twice": ({"no_repeat_ngram_size": 2}, False),
    "prefixes": ({}, True),
}


@pytest.mark.parametrize("name", AHEAD)
def test_what_a_gpu_does_between_two_waits_is_what_single_iterations_do(name, monkeypatch):
    """Rows that end on the way go on, and it does not show."""
    changes, prefixed = AHEAD[name]
    given = forced(len(SENTENCES)) if prefixed else None
    single, ahead = (make(args=flags(**changes), keep_trace=False) for _ in range(2))
    expected = decode(single, SAMPLE, given)
    verify, read = greedy.Batch.verify, greedy.read_back
    verified, waits = [], []
    monkeypatch.setattr(greedy.Batch, "runs_ahead", True)
    monkeypatch.setattr(greedy.Batch, "verify", lambda *a: verified.append(1) or verify(*a))
    monkeypatch.setattr(greedy, "read_back", lambda *a: waits.append(1) or read(*a))
    outputs = decode(ahead, SAMPLE, given)
    check(outputs, expected)
    assert [one["steps"] for one in outputs] == [one["steps"] for one in expected]
    assert figures(ahead.stats) == figures(single.stats)
    assert len(waits) <= prefixed + len(verified) / greedy.AHEAD + 1


PREFIX = torch.tensor([[5, 6, PAD], [7, PAD, PAD], [PAD, PAD, PAD], [8, 9, 10]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trace_begins_with_the_prefix_which_no_figure_counts_as_drafted(backend):
    sample = make_sample(SENTENCES[:4])
    expected = tokens(stock([toy_model()], sample, flags(), PREFIX))
    generator = make(ScriptedDrafter(expected, "noisy", WORDS, 3), backend=backend)
    outputs, drafts = decode(generator, sample, PREFIX), []
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


@pytest.mark.parametrize("beam, most", [(1, None), (1, 2), (3, 1)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_sentences_are_handed_out_as_they_end(backend, beam, most):
    generator = make(args=flags(beam=beam, max_len_b=60), keep_trace=False, backend=backend)
    expected = generator.generate(generator.models, SAMPLE)
    left, ended = [], {}
    with generator.batch(generator.models, SAMPLE) as batch:
        for sentence, hypotheses in batch.results(most):
            left.append(sum(one is None for one in batch.finished))
            assert sentence not in ended and hypotheses is batch.finished[sentence]
            ended[sentence] = hypotheses
    assert sorted(ended) == list(range(len(SENTENCES)))
    outputs = [[one["tokens"].tolist() for one in ended[row]] for row in sorted(ended)]
    assert outputs == [[one["tokens"].tolist() for one in row] for row in expected]
    assert left[-1] == 0 < left[0]
