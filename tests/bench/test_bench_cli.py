"""``specdec-bench`` on a trained toy pair, through its command line."""

import json
import os

import pytest
import torch
from sacrebleu.metrics import BLEU

from fairseq_specdec.acceptance import Acceptance, ExactRule
from fairseq_specdec.io.provenance import sha256

IAD = ("--system", "a: --strategy iad")


def gad(pair, *more):
    return " ".join(["gad: --strategy gad --drafter-path", pair.d, *more])


def rows_of(result, run=0):
    return {row["system"]: row for row in result["runs"][run]["rows"]}


def test_lossless_strategies_are_identical_and_every_figure_is_there(bench, pair, tmp_path):
    files = {"--json": tmp_path / "new" / "x.json", "--markdown": tmp_path / "x.md"}
    words = [word for item in files.items() for word in item]
    result, printed = bench(
        "--system", gad(pair, "--draft-confidence 0.05 --draft-budget 0"),
        "--system", "iad: --strategy iad", "--repeats", 3, "--warmup", 1, *words,
    )  # fmt: skip
    rows = rows_of(result)
    five, one, greedy, gad_row, _ = rows.values()
    assert list(rows) == ["fairseq beam 5", "fairseq beam 1", "greedy", "gad", "iad"]
    assert result["warnings"] == []
    facts = result["provenance"]
    assert facts["command"].startswith(f"specdec-bench {pair.data} --path {pair.v}")
    assert facts["checkpoints"] == {p: "sha256:" + sha256(p) for p in (pair.v, pair.d)}
    assert facts["threads"] == 1 and facts["machine"]["cores"] >= 1
    assert gad_row["lossless"] is True and one["lossless"] is None
    assert 0 < gad_row["exact_percent"] <= 100
    assert gad_row["tok"] > 1.3 and gad_row["verifier_calls"] == gad_row["iter"]
    shares = gad_row["acceptance_by_position"]
    assert len(shares) > 1 and all(0 <= share <= 1 for share in shares) and shares[0] > 0
    assert one["acceptance_by_position"] is None and one["verifier_calls"] == one["iter"]
    (line,) = [line for line in printed.split("accepted at")[1].split("\n") if "| gad" in line]
    assert [float(cell.strip("% ")) for cell in line.split("|")[2:-1]] == [
        pytest.approx(100 * share, abs=0.051) for share in shares
    ]
    for base, name in ((five, "beam5"), (one, "beam1"), (greedy, "greedy")):
        speed = base["ms_mean"] / gad_row["ms_mean"]
        assert gad_row[f"speed_{name}"] == pytest.approx(speed) and base[f"speed_{name}"] == 1
    assert five["speed_greedy"] is None
    for name, row in rows.items():
        if row is not five:
            assert row["identical_percent"] == 100 and row["bleu"] == one["bleu"] > 20
        tokens, ms = row["output_tokens"], row["ms_mean"]
        assert row["unsteady_sentences"] == 0
        assert row["iter"] * row["tok"] * 12 == pytest.approx(tokens)
        assert row["iter"] * row["tok_without_eos"] * 12 == pytest.approx(tokens - 12)
        assert row["ms_median"] <= row["ms_p95"] <= row["ms_p99"]
        assert row["tokens_per_second"] == pytest.approx(1000 * tokens / (12 * ms))
        passes = result["runs"][0]["seconds_by_pass"][name]
        mean = 1000 * sum(passes) / len(passes) / 12  # row["ms_mean"] is of the median pass
        assert 0 < row["cpu_ms_mean"] < 1.1 * mean, "one thread"
        if row["strategy"]:
            assert 0.5 * mean < sum(row["ms_by_section"].values()) < 1.01 * mean
    assert json.loads(files["--json"].read_text()) == result
    assert files["--markdown"].read_text() == printed
    assert "tok:none" in printed and "| gad " in printed and "dictionary's own tokens" in printed
    assert sorted(os.listdir(tmp_path)) == ["new", "x.md"], "a temporary file was left"


@pytest.mark.usefixtures("on_torch")
def test_a_broken_lossless_strategy_is_reported_loudly(bench, pair, monkeypatch, caplog):
    honest = ExactRule.accept

    def careless(self, draft, scores):
        counts = honest(self, draft, scores).counts
        # keeps the second draft token whatever the verifier says
        counts = torch.where(counts == 1, draft.sizes.clamp(max=2), counts)
        return Acceptance(counts, scores.best().gather(1, counts.unsqueeze(1)).squeeze(1))

    monkeypatch.setattr(ExactRule, "accept", careless)
    result, printed = bench("--system", gad(pair), "--draft-budget", 0, "--warmup", 0)
    assert rows_of(result)["gad"]["identical_percent"] < 100
    (warning,) = result["warnings"]
    assert "gad is lossless under its settings, yet" in warning and "batch size 1" in warning
    assert f"WARNING: {warning}" in printed and warning in caplog.text


def test_a_row_with_its_own_verifier_is_compared_with_that_one(bench, pair):
    result, _ = bench(
        "--system", f"other: --strategy iad --path {pair.w}", "--warmup", 0,
        "--system", "short: --strategy greedy --max-len-b 3",
    )  # fmt: skip
    rows = rows_of(result)
    assert result["warnings"] == []
    for name, path in (("other", pair.w), ("short", pair.v)):
        assert rows[name]["identical_percent"] == 100
        assert rows[name]["identical_to"] == f"fairseq beam 1 of {path}"
    assert rows["short"]["output_tokens"] <= 4 * 12 < rows["fairseq beam 1"]["output_tokens"]
    assert rows["other"]["bleu"] != rows["fairseq beam 1"]["bleu"]


def test_sampling_is_repeated_by_seed_and_never_called_unsteady(bench, pair):
    system = gad(pair, "--sampling --temperature 3").replace("gad:", "drawn:", 1)
    results = [bench("--system", system, "--repeats", 2, "--warmup", n)[0] for n in (0, 1)]
    rows = [rows_of(result)["drawn"] for result in results]
    assert rows[0]["bleu"] == rows[1]["bleu"] and rows[0]["identical_percent"] < 100
    assert results[0]["warnings"] == [] and rows[0]["lossless"] is False
    assert rows[0]["unsteady_sentences"] > 0


def test_what_is_counted_of_small_models_and_of_a_drafter_alone(bench, pair):
    """Kim et al. 2023, Table 4."""
    bild = f"bild: --strategy bild --drafter-path {pair.w} --alpha-fb 0.5 --alpha-rb 1"
    sps = f"sps: --strategy sps --drafter-path {pair.w} --draft-budget 0 --sampling"
    nar = gad(pair).replace("gad", "nar")
    systems = [word for each in (bild, sps, nar) for word in ("--system", each)]
    result, printed = bench(*systems, "--warmup", 0)
    rows = rows_of(result)
    for name in ("bild", "sps"):
        assert 0 < rows[name]["fallback_percent"] < 100 and rows[name]["rollback_percent"] > 0
    row = rows["nar"]
    assert row["fallback_percent"] is None
    assert row["verifier_calls"] == 0 < row["iter"] and row["accepted_percent"] is None
    assert row["lossless"] is False and row["identical_percent"] < 100


def test_several_batch_sizes_give_a_table_each(bench, pair, tmp_path):
    """Figures of single sentences add up to the rows."""
    words = ["--batch-size", "1,5", "--warmup", 0, "--by-sentence", "--json", tmp_path / "run.json"]
    result, printed = bench("--system", gad(pair), *words)
    assert [run["batch_size"] for run in result["runs"]] == [1, 5]
    assert [len(batch) for batch in result["runs"][1]["sentences"]] == [5, 5, 2]
    for run in (0, 1):
        assert rows_of(result, run)["gad"]["identical_percent"] == 100
    one, five = (rows_of(result, run)["fairseq beam 1"] for run in (0, 1))
    assert five["verifier_calls"] < one["verifier_calls"] and five["iter"] == one["iter"]
    assert five["ms_median"] > five["ms_mean"], "a sentence waits for its batch"
    assert "batch 1," in printed and "batch 5," in printed and result["warnings"] == []
    for run in result["runs"]:
        by_sentence = run["by_sentence"]
        assert sorted(by_sentence["id"]) == list(range(12))
        for row in run["rows"]:
            columns = by_sentence["systems"][row["system"]]
            assert sum(columns["tokens"]) == row["output_tokens"]
            if row["counters"]:
                assert row["tok"] == sum(columns["tokens"]) / sum(columns["iterations"])
            words, wanted = columns["words"], sum(by_sentence["reference_words"])
            matches = [sum(part) for part in columns["matches"]]
            totals = [sum(max(0, count - n) for count in words) for n in range(4)]
            score = BLEU.compute_bleu(matches, totals, sum(words), wanted)
            assert score.score == pytest.approx(row["bleu"])


@pytest.mark.parametrize(
    "words, message",
    [
        (["--system", "a"], "--system 'a': expected 'NAME: FLAGS'"),
        (["--system", "a: --strategy gad"], "--system 'a': --strategy gad: needs --drafter-path"),
        (["--system", "a: --stratgy gad"], "--system 'a': unrecognized arguments: --stratgy"),
        (["--system", "a: --block-size many"], "--system 'a': argument --block-size: invalid"),
        (["--system", "a: --beam 4 --nbest 5"], "--system 'a': --nbest 5"),
        (["--system", "a: --path no.pt"], "--system 'a': --path: no such file: no.pt"),
        ([*IAD, *IAD], "'a': there is another row"),
        (["--trace-path", "x"], "--trace-path: a trace takes time"),
        (["--system", "a: --trace-path x"], "--system 'a': unrecognized arguments: --trace-path"),
        (["--batch-size", "1,0"], "--batch-size 1,0: expected"),
        (["--sampling"], "--sampling"),
        (["--by-sentence"], "--by-sentence: needs --json"),
        (["--block-size", "3"], "--block-size 3: no --system uses it"),
        (["--system", "a: --strategy iad --threads 3"], "unrecognized arguments: --threads 3"),
        (["--sweep", "tau=1"], "--sweep 'tau=1': there are 0 systems"),
        ([*IAD, "--sweep", "block_size"], "expected FLAG=VALUE"),
        ([*IAD, "--sweep", "b: block_size=5"], "no --system 'b'"),
        ([*IAD, "--sweep", "colour=5"], "no decoding flag 'colour'"),
        ([*IAD, "--sweep", "block_size=5", "--sweep", "block-size=6"], "swept already"),
        ([*IAD, "--sweep", "block_size=5,7,5"], "a row of this name too"),
        ([*IAD, "--sweep", "beam=4,0"], "--system 'a beam=0': --beam 0: must be 1 or more"),
        (
            [*IAD, "--sweep", "a:block_size=5", "--system", "a block_size=5: --strategy iad"],
            "--system 'a block_size=5': --sweep makes a row of this name too",
        ),
        ([*IAD, "--sweep", "keep_weights=2"], "expected true or false"),
        ([*IAD, "--sweep", "block_size=5", "--system", "b: --strategy iad"], "2 systems; name one"),
        (["--max-tokens", "9"], "--max-tokens"),
        (["--gen-subset", "none"], "has no split none for src-tgt"),
        (["--system", "x: --strategy gad --drafter-path OTHER"], "no block drafter"),
        (["--system", "b: --strategy blockwise"], "--system 'b': --path holds a"),
    ],
)
def test_mistakes_are_named(bench, pair, words, message):
    with pytest.raises(ValueError) as caught:
        bench(*(word.replace("OTHER", pair.w) for word in words))
    assert message in str(caught.value)
