"""Replays of tiny random models."""

import pytest
import random_pair
import replay
import torch
from accepted_sizes import constant_acceptance, mean_emitted

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

    def measured(*flags):
        printed = []
        line = ["base", "--cpu", "--threads", 1, "--repeats", 1, *TINY, *flags]
        result = replay.main([str(part) for part in line], printed.append)
        return result, "".join(printed)

    yield measured
    torch.set_num_threads(threads)


def test_sizes_have_the_mean_that_was_asked_for():
    for mean, largest, length in ((8.23, 26, 27), (1.5, 26, 60), (4, 4, 40), (1, 26, 27)):
        shares = constant_acceptance(largest, mean, length, "--x")
        assert mean_emitted(shares, length) == pytest.approx(mean, abs=1e-3)
        assert sum(shares) == pytest.approx(1)
    with pytest.raises(ValueError, match=r"--x 14: .* from 1\.00 to 13\.50"):
        constant_acceptance(26, 14, 27, "--x")


def test_every_row_emits_what_was_drawn(play):
    result, printed = play(*MEAN, "--mean-copied", 4, "--repeats", 2, "--batch-size", "1,4")
    assert result["warnings"] == []
    for run in result["runs"]:
        rows = {row["system"]: row for row in run["rows"]}
        for row in rows.values():
            assert row["output_tokens"] == 6 * 12, "all systems emit equally many tokens"
            assert not {"bleu", "identical_percent", "lossless"} & set(row)
        for name, tok in {"greedy": 1, "gad": 3, "gad++": 3, "iad": 4}.items():
            row = rows[f"{name} (replay)"]
            assert row["counters"]["emitted_tokens"] == 2 * 72
            played = result["replay"]["acceptance"][name]["tok"]
            assert row["tok"] == played == pytest.approx(tok, rel=0.05)
        gad = rows["gad (replay)"]["counters"]
        assert gad["drafted_tokens"] == 5 * gad["iterations"], "whole blocks up to the end"
    assert replay.NOTICE == result["notice"] and replay.NOTICE in printed


@pytest.mark.parametrize(
    "flags, message",
    [
        ([], "--mean-accepted: gad, gad++ and planned need it"),
        (["--mean-accepted", 7], "--mean-accepted 7: .* from 1.00 to 6.00"),
        (["--strategies", "bild", *MEAN], "--strategies bild: choose"),
        (["--strategies", "iad"], "--mean-copied: the iad row needs it"),
        (["--system", "a: --strategy iad", *MEAN], "--system: has no meaning in a replay"),
    ],
)
def test_mistakes_are_named_before_anything_is_built(play, flags, message, monkeypatch):
    monkeypatch.setattr(random_pair, "write", None)
    with pytest.raises(ValueError, match=message.replace("++", r"\+\+")):
        play(*flags)
