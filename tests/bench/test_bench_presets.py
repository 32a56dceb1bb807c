"""``specdec-bench --preset``: a demo pair's flags, and what the command line adds to them."""

import pytest

from fairseq_specdec.bench import cli, presets, session


def test_a_preset_is_the_command_line_of_a_pair(pair):
    words = presets.flags_of("demo_ende", "my data")
    assert words[words.index("--path") + 1] == "my data/verifier.pt"
    assert "--drafter-path 'my data/drafter.pt'" in next(w for w in words if w.startswith("gad:"))
    with pytest.raises(ValueError, match="--path: .*verifier.pt does not exist"):
        session.read([pair.data, "--preset", "demo_edit"])


def test_flags_of_the_command_line_replace_those_of_a_preset(pair, monkeypatch):
    monkeypatch.setitem(presets.PRESETS, "demo_edit", "--limit 9 --system 'a: --strategy greedy'")
    monkeypatch.setattr(presets, "SHARED", "-s src -t tgt --path {verifier} --cpu --no-memory")
    words = [pair.data, "--preset", "demo_edit", "--limit", "3", "--path", pair.v]
    words += ["--system", "b: --strategy iad"]
    result = cli.main(words, lambda text: None)
    assert result["settings"]["sentences"] == 3
    rows = {row["system"]: row for row in result["runs"][0]["rows"]}
    assert [name for name in rows if not name.startswith("fairseq")] == ["a", "b"]
    assert rows["a"]["ms_per_iteration"] == pytest.approx(rows["a"]["ms_mean"] / rows["a"]["iter"])


def test_exact_is_the_share_of_references(bench):
    result, printed = bench("--system", "a: --strategy greedy")
    assert "exact" in printed
    row = result["runs"][0]["rows"][-1]
    assert row["exact_percent"] in [100 * n / 12 for n in range(13)]
    assert (row["exact_percent"] == 100) == (row["bleu"] > 99.99)
