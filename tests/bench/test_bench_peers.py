"""CTranslate2 in the same run, where it is installed."""

import importlib.util

import pytest

from fairseq_specdec.bench.workload import BenchError

needs_ctranslate2 = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None, reason="needs the extra peers"
)


@needs_ctranslate2
@pytest.mark.parametrize("sizes", ["1,5"])
def test_the_converted_checkpoint_decodes_alike(bench, sizes):
    result, _ = bench("--peers", "--warmup", 0, "--batch-size", sizes)
    for run in result["runs"]:
        rows = {row["system"]: row for row in run["rows"]}
        assert len(rows) == 6
        same = rows["CTranslate2 float32 beam 1"]
        assert same["identical_percent"] == 100 and same["iter"] is None
        beam = rows["CTranslate2 float32 beam 5"]
        assert beam["bleu"] == pytest.approx(rows["fairseq beam 5"]["bleu"], abs=3)
        assert rows["CTranslate2 int8 beam 1"]["bleu"] > 0.8 * same["bleu"]
        assert all(row["ms_mean"] > 0 for row in rows.values())
    assert "ctranslate2" in result["provenance"]["versions"]
    assert result["warnings"] == []


@needs_ctranslate2
@pytest.mark.parametrize(
    "words, message",
    [
        (["--prefix-size", 2], "--prefix-size has no counterpart"),
        (["--temperature", 2], "--temperature has no counterpart"),
    ],
)
def test_flags_without_a_counterpart_are_refused(bench, words, message):
    with pytest.raises(BenchError, match=message):
        bench("--peers", *words)


@needs_ctranslate2
def test_ensembles_are_refused(bench, pair):
    with pytest.raises(BenchError, match="no ensembles"):
        bench("--peers", path=f"{pair.v}:{pair.w}")


def test_peers_that_are_not_installed_are_an_error(bench, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None)
    with pytest.raises(BenchError, match="--peers: needs ctranslate2; install"):
        bench("--peers")
