"""Replays of tiny random models."""

import functools

import pytest
import random_pair
import replay
import torch
from accepted_sizes import constant_acceptance, mean_emitted
from replay import NOTICE

from fairseq_specdec.decoding.builder import Overrides

TINY = ["--vocabulary", 40, "--sentences", 6, "--length", 12, "--block-size", 5, "--warmup", 1]
MEAN = ["--mean-accepted", 3]


@pytest.fixture
def play(monkeypatch):
    """Run the command on tiny models: (its results, what it printed)."""
    threads = torch.get_num_threads()
    widths = {"embed_dim": 64, "ffn_embed_dim": 64, "attention_heads": 2, "layers": 1}
    both = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in widths.items()}
    tiny = random_pair.Size("tiny, 1+1 layers", random_pair.BASE, both, "spec_drafter_tiny")
    monkeypatch.setitem(random_pair.SIZES, "base", tiny)
    monkeypatch.setitem(random_pair.SIZES, "gec", tiny._replace(drafter=None))

    def measured(*words, size="base"):
        printed = []
        line = [size, "--cpu", "--threads", 1, "--repeats", 1, *TINY, *words]
        result = replay.main([str(word) for word in line], printed.append)
        return result, "".join(printed)

    yield measured
    torch.set_num_threads(threads)


def rows_of(result):
    return {row["system"]: row for row in result["runs"][0]["rows"]}


def test_sizes_have_the_mean_that_was_asked_for():
    for mean, largest, length in ((8.23, 26, 27), (1.5, 26, 60), (4, 4, 40), (1, 26, 27)):
        shares = constant_acceptance(largest, mean, length, "--x")
        assert mean_emitted(shares, length) == pytest.approx(mean, abs=1e-3)
        assert sum(shares) == pytest.approx(1)
    with pytest.raises(ValueError, match=r"--x 14: .* from 1\.00 to 13\.50"):
        constant_acceptance(26, 14, 27, "--x")


def test_every_row_emits_what_was_drawn(play):
    result, printed = play(*MEAN, "--mean-copied", 4, "--repeats", 2)
    rows = rows_of(result)
    names = ["greedy", "gad", "gad++", "iad"]
    ours = [f"{name} (replay)" for name in ("greedy", "gad", "gad++", "planned", "iad")]
    assert list(rows) == ["fairseq beam 5", "fairseq beam 1", *ours]
    assert result["warnings"] == []
    for row in rows.values():
        assert row["output_tokens"] == 6 * 12, "all systems emit equally many tokens"
    ours.remove("planned (replay)")
    for name, row, tok in zip(names, ours, (1, 3, 3, 4)):
        counters, played = rows[row]["counters"], result["replay"]["acceptance"][name]
        histogram = {int(size): count for size, count in played["histogram"].items()}
        assert sum(size * count for size, count in histogram.items()) == 72
        assert counters["iterations"] == 2 * sum(histogram.values())
        assert counters["emitted_tokens"] == 2 * 72
        assert rows[row]["tok"] == played["tok"] == pytest.approx(tok, rel=0.05)
    assert result["replay"]["acceptance"]["gad"] == result["replay"]["acceptance"]["gad++"]
    # Whole blocks are drafted up to the end, as where the end is not known beforehand.
    assert rows["gad (replay)"]["counters"]["drafted_tokens"] == 5 * counters_of(rows, "gad")
    assert sum(rows["gad (replay)"]["ms_by_section"].values()) > 0


@pytest.mark.parametrize("mean, drafts", [(4.5, True), (1, False)])
def test_planned_drafts_are_as_long_as_pays(play, mean, drafts):
    words = ["--mean-accepted", mean, "--batch-size", "1,4", "--strategies", "gad,planned"]
    result, _ = play(*words)
    for run in result["runs"]:
        rows = {row["system"]: row for row in run["rows"]}
        whole, planned = (rows[f"{name} (replay)"] for name in ("gad", "planned"))
        assert planned["output_tokens"] == 6 * 12
        drafted, most = (row["counters"]["drafted_tokens"] for row in (planned, whole))
        assert (drafted > most / 2) == drafts
        assert (planned["tok"] > 1.5) == drafts


def counters_of(rows, name):
    return rows[f"{name} (replay)"]["counters"]["iterations"]


def test_each_sentence_follows_its_own_list_at_any_batch_size(play, monkeypatch):
    kept = []

    def write(bench):
        systems = bench.systems[-1], bench.workload.batches(bench.results["runs"][-1]["batch_size"])
        outputs = [systems[0].generator.generate(systems[0].models, batch) for batch in systems[1]]
        kept.append((bench.replay.sizes["gad"], systems[1], outputs))

    monkeypatch.setattr(replay.ReplayBench, "write", write)
    monkeypatch.setattr(replay, "Overrides", functools.partial(Overrides, keep_trace=True))
    play(*MEAN, "--batch-size", "1,4", "--strategies", "gad")
    assert [len(batches) for _, batches, _ in kept] == [6, 2]
    for sizes, batches, outputs in kept:
        for batch, hypotheses in zip(batches, outputs):
            for sentence, (hypothesis,) in zip(batch["id"].tolist(), hypotheses):
                emitted = list(map(len, hypothesis["iterations"].emitted))
                assert emitted == sizes[sentence]
                tokens = hypothesis["tokens"].tolist()
                assert tokens[-1] == 2 and 2 not in tokens[:-1] and 1 not in tokens


def test_everything_is_labelled_a_replay_and_nothing_claims_a_quality(play, caplog):
    result, printed = play(*MEAN)
    assert "random weights" in NOTICE and NOTICE == result["notice"]
    assert NOTICE in caplog.text and NOTICE in printed and "REPLAY: tiny" in printed
    for row in result["runs"][0]["rows"]:
        assert not {"bleu", "identical_percent", "lossless"} & set(row)
    assert "BLEU" not in printed and "identical" not in printed


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "--mean-accepted: gad, gad++ and planned need it"),
        (["--mean-accepted", 7], "--mean-accepted 7: .* from 1.00 to 6.00"),
        (["--mean-copied", 13, *MEAN], "--mean-copied 13: "),
        (["--strategies", "bild", *MEAN], "--strategies bild: choose"),
        (["--strategies", "greedy", *MEAN], "--mean-accepted: gad, gad++ and planned need it, and"),
        (["--strategies", "iad"], "--mean-copied: the iad row needs it"),
        (["--sentences", 0, *MEAN], "--sentences 0: must be 1 or more"),
        (["--system", "a: --strategy iad", *MEAN], "--system: has no meaning in a replay"),
        (["--memory", *MEAN], "--memory: has no meaning in a replay"),
    ],
)
def test_mistakes_are_named_before_anything_is_built(play, words, message, monkeypatch):
    monkeypatch.setattr(random_pair, "write", None)
    with pytest.raises(ValueError, match=message.replace("++", r"\+\+")):
        play(*words)
