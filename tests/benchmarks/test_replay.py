"""A replay of tiny random models."""

import pytest
import random_pair
import replay
from in_process import one_thread
from toy_translation import both


def test_every_row_emits_what_was_drawn(monkeypatch):
    shape = both(embed_dim=64, ffn_embed_dim=64, attention_heads=2, layers=1)
    tiny = random_pair.Size("tiny, 1+1 layers", random_pair.BASE, shape, "spec_drafter_tiny")
    monkeypatch.setitem(random_pair.SIZES, "base", tiny)
    flags = "base --cpu --threads 1 --vocabulary 40 --sentences 6 --length 12 --block-size 5"
    flags += " --warmup 1 --repeats 2 --mean-accepted 3 --batch-size 1,4"
    with one_thread():
        result = replay.main(flags.split(), lambda text: None)
    assert result["warnings"] == [] and result["notice"] == replay.NOTICE
    for run in result["runs"]:
        rows = {row["system"]: row for row in run["rows"]}
        for row in rows.values():
            assert row["output_tokens"] == 6 * 12, "all systems emit equally many tokens"
            assert not {"bleu", "identical_percent", "lossless"} & set(row)
        for name, tok in {"greedy": 1, "gad": 3, "gad++": 3}.items():
            row = rows[f"{name} (replay)"]
            assert row["counters"]["emitted_tokens"] == 2 * 72
            played = result["replay"]["acceptance"][name]["tok"]
            assert row["tok"] == played == pytest.approx(tok, rel=0.05)
        gad = rows["gad (replay)"]["counters"]
        assert gad["drafted_tokens"] == 5 * gad["iterations"], "whole blocks up to the end"
