"""Every strategy's trace tells what happened: its tokens, verdicts, places, times."""

from argparse import Namespace

import pytest
import torch
from toy_blockwise import toy_blockwise
from toy_early_exit import toy_early_exit
from toy_translation import (
    EOS,
    assert_diverse,
    make_sample,
    make_task,
    sentences,
    toy_drafter,
    toy_model,
)

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding import builder
from fairseq_specdec.decoding.stats import Stopwatch
from fairseq_specdec.decoding.strategies import STRATEGIES
from fairseq_specdec.trace.recorder import TraceBuilder, settings_of

RELAXED = {
    "gad++": {"top_beta": 8, "tau": 9.0},
    "specdec": {"top_beta": 8, "tau": 9.0},
    "specdec-heads": {"top_beta": 8, "tau": 9.0},
    "bild": {"alpha_fb": 0.3, "alpha_rb": 6.0},
    "bild-early-exit": {"alpha_fb": 0.2, "alpha_rb": 4.0},
}
SAMPLED = {"sampling": True, "temperature": 1.5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def decode(folder, strategy, keep_trace=True, models=None, flags=None, **settings):
    """(traces, models, generator) of 12 sentences in one batch."""
    words = make_task().tgt_dict
    if models is None:
        models = [toy_model()]
        if strategy in ("blockwise", "specdec-heads"):
            models = [toy_blockwise(folder)]
        elif strategy == "bild-early-exit":
            models = [toy_early_exit()]
    if STRATEGIES[strategy].needs_drafter:
        path = folder / "named"
        path.write_bytes(b"a test loads none")
        settings["drafter_path"] = str(path)
    chosen = decoding_settings(strategy=strategy, **settings)
    args = Namespace(max_len_b=20, **(flags or {}))

    def load(path, src_dict, tgt_dict, read, dtype):
        small = read.__name__ == "load_small_model"
        return toy_model(seed=2, updates=150) if small else toy_drafter()

    generator = builder.build_generator(
        models, words, words, args, chosen, load=load,
        overrides=builder.Overrides(always_draft=True, keep_trace=keep_trace),
    )  # fmt: skip
    sample = make_sample(sentences(12, seed=5))
    torch.manual_seed(3)
    hypotheses = generator.generate(models, sample)
    facts = settings_of(chosen, args, generator)
    trace_builder = TraceBuilder(strategy, facts, words, words)
    sources = sample["net_input"]["src_tokens"].tolist()
    traces = [
        trace_builder.sentence(i, source, hypothesis)
        for i, (source, (hypothesis,)) in enumerate(zip(sources, hypotheses))
    ]
    return traces, models, generator


def stock_log_probs(models, traces):
    """[tokens, V] for each sentence: what stock's decoder says after each part of the output."""
    words = make_task().tgt_dict
    log_probs = []
    for trace in traces:
        sources, outputs = ([words.index(w) for w in ws] for ws in (trace.source, trace.output))
        previous = torch.tensor([[EOS] + outputs[:-1]])
        probabilities = [
            model(torch.tensor([sources]), torch.tensor([len(sources)]), previous)[0][0].softmax(-1)
            for model in models
        ]
        log_probs.append((sum(probabilities) / len(models)).log())
    return log_probs


def check(traces, models, greedy=True):
    words = make_task().tgt_dict
    with torch.no_grad():
        reference = stock_log_probs(models, traces)
    seen = set()
    for trace, log_probs in zip(traces, reference):
        output = []
        for part in trace.iterations:
            assert part.position == len(output)
            output += part.emitted
            assert len(part.choices) == (0 if part.agreed else len(part.emitted))
            for i, choice in enumerate(part.choices):
                row = log_probs[part.position + i].clone()
                row[words.pad()] = float("-inf")
                if part.position + i + 1 <= 20:  # past the length limit only </s> may stand
                    assert words[int(row.argmax())] == choice
                if i < part.accepted:
                    assert (part.verdicts[i] == "own") == (part.draft[i] == choice)
                elif greedy and part.own is not None:
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
def test_a_trace_agrees_with_stock(folder, strategy):
    traces, models, generator = decode(folder, strategy, **RELAXED.get(strategy, {}))
    assert_diverse([t.output for t in traces])
    seen = check(traces, models)
    if strategy in ("greedy", "none"):
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
def test_sampling(folder, strategy):
    traces, _, _ = decode(folder, strategy, flags=SAMPLED)
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


def test_an_ensemble(folder):
    models = [toy_model(), toy_model(seed=2, updates=150)]
    traces, models, _ = decode(folder, "gad", models=models)
    check(traces, models)
    assert traces[0].settings["ensemble"] == 2


def test_off_it_costs_nothing(folder, monkeypatch):
    def forbidden(self):
        raise AssertionError("the clock was read")

    monkeypatch.setattr(Stopwatch, "lap", forbidden)
    traces, _, _ = decode(folder, "gad", keep_trace=False)
    assert all(trace.iterations == [] for trace in traces)
