"""Every strategy's trace tells what happened: its tokens, verdicts, places, times."""

import pytest
import torch
from toy_strategies import flags, make_generator
from toy_translation import assert_diverse, make_sample, make_task, sentences

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.stats import Stopwatch
from fairseq_specdec.decoding.strategies import STRATEGIES
from fairseq_specdec.trace.recorder import TraceBuilder, settings_of

LOOSE = {"top_beta": 8, "tau": 9.0}
RELAXED = {
    "gad++": LOOSE,
    "specdec": LOOSE,
    "specdec-heads": LOOSE,
    "bild": {"alpha_fb": 0.3, "alpha_rb": 6.0},
    "bild-early-exit": {"alpha_fb": 0.2, "alpha_rb": 4.0},
}
SAMPLED = {"sampling": True, "temperature": 1.5}


def decode(strategy, keep_trace=True, **generation):
    """(traces, generator) of 12 sentences in one batch."""
    args, settings = flags(max_len_b=20, **generation), RELAXED.get(strategy, {})
    overrides = Overrides(keep_trace=keep_trace)
    generator = make_generator(strategy, args, overrides=overrides, **settings)
    sample = make_sample(sentences(12, seed=5))
    torch.manual_seed(3)
    hypotheses = generator.generate(generator.models, sample)
    if STRATEGIES[strategy].needs_drafter:
        settings = {**settings, "drafter_path": __file__}
    facts = settings_of(decoding_settings(strategy=strategy, **settings), args, generator)
    words = make_task().tgt_dict
    builder = TraceBuilder(strategy, facts, words, words)
    sources = sample["net_input"]["src_tokens"].tolist()
    traces = [
        builder.sentence(i, source, hypothesis)
        for i, (source, (hypothesis,)) in enumerate(zip(sources, hypotheses))
    ]
    return traces, generator


def check(traces, lossless):
    """What all traces keep; the verdicts that were seen."""
    seen = set()
    for trace in traces:
        output = []
        for part in trace.iterations:
            assert part.position == len(output)
            output += part.emitted
            assert len(part.choices) == (0 if part.agreed else len(part.emitted))
            assert not lossless or part.choices == part.emitted
            for i, choice in enumerate(part.choices):
                if i < part.accepted:
                    assert (part.verdicts[i] == "own") == (part.draft[i] == choice)
                elif part.own is not None:
                    assert part.own == choice
            assert part.ms >= part.drafter_ms + part.verifier_ms - 1e-3 > 0
            assert 1 <= part.rows <= len(traces)
            seen |= set(part.verdicts)
        assert output == trace.output
        assert output[-1] == "</s>"
    live = [sum(len(t.iterations) > n for t in traces) for n in range(99)]
    for trace in traces:
        assert [part.rows for part in trace.iterations] == live[: len(trace.iterations)]
    assert len(set(live)) >= 3, "no row left the batch before the others"
    return seen


def most_drafted(drafter):
    return getattr(getattr(drafter, "options", drafter), "block_size", None)


@pytest.mark.parametrize("strategy", [name for name, s in STRATEGIES.items() if s.verifies])
def test_a_trace_agrees_with_its_output(strategy):
    traces, generator = decode(strategy)
    assert_diverse([t.output for t in traces])
    seen = check(traces, strategy not in RELAXED)
    if strategy in ("greedy", "none", "given"):
        assert seen == set()
    elif strategy in RELAXED:
        assert {"own", "relaxed"} <= seen
    else:
        assert {"own", "rejected"} <= seen <= {"own", "rejected", "unseen"}
    small = strategy in ("sps", "bild", "bild-early-exit")
    for trace in traces:
        assert all(part.steps >= len(part.draft) for part in trace.iterations if small)
        assert any(part.steps for part in trace.iterations) == small
        assert trace.settings.get("block_size") == most_drafted(generator.drafter)
        assert ("tau" in trace.settings) == (strategy in ("gad++", "specdec", "specdec-heads"))
        assert ("alpha_rb" in trace.settings) == strategy.startswith("bild")
    stats = generator.stats
    ended = [part.agreed for t in traces for part in t.iterations if part.agreed]
    assert len(ended) == stats.unverified and bool(ended) == strategy.startswith("bild")
    unseen = sum(map(len, ended))
    assert sum(t.accepted for t in traces) == stats.accepted - unseen
    assert sum(t.drafted for t in traces) == stats.drafted - unseen
    assert sum(len(t.iterations) for t in traces) == stats.iterations


@pytest.mark.parametrize("strategy", ["sps", "greedy", "bild"])
def test_sampling(strategy):
    traces, _ = decode(strategy, **SAMPLED)
    seen, sampled_own = set(), 0
    for trace in traces:
        assert sum((part.emitted for part in trace.iterations), []) == trace.output
        assert trace.settings["sampling"] is True and trace.settings["temperature"] == 1.5
        for part in trace.iterations:
            seen |= set(part.verdicts)
            sampled_own += part.own is not None and part.own != part.choices[-1]
    assert sampled_own > 0
    assert ("drawn" in seen) == (strategy == "sps")
    assert "relaxed" not in seen or strategy == "bild"


def test_off_it_costs_nothing(monkeypatch):
    def forbidden(self):
        raise AssertionError("the clock was read")

    monkeypatch.setattr(Stopwatch, "lap", forbidden)
    traces, _ = decode("gad", keep_trace=False)
    assert all(trace.iterations == [] for trace in traces)
