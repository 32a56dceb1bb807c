"""``specdec-serve --bench``: the whole of it, on the toy pair."""

import json

import pytest
from served import TEXTS

from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.serve import cli
from fairseq_specdec.serve.bench.figures import loads_of
from fairseq_specdec.serve.bench.load import Bound
from fairseq_specdec.serve.bench.run import Measured, Texts, texts_of


@pytest.fixture
def texts(tmp_path):
    file = tmp_path / "texts"
    file.write_text("\n".join([*TEXTS[:4], " ", *TEXTS[4:]]) + "\n", encoding="utf-8")
    return file


def test_texts_are_those_of_the_file(pair, texts, tmp_path, expected):
    hub = SpeculativeTranslator.from_pretrained(pair, device="cpu", beam=2, nbest=2)
    read = texts_of(str(texts), hub)
    assert read == Texts(TEXTS, [each.text for each in expected], ("src", "tgt"))
    (tmp_path / "none").write_text(" \n")
    with pytest.raises(ValueError, match="--bench .*none: holds no text"):
        texts_of(str(tmp_path / "none"), hub)


def test_a_server_is_measured(client, expected):
    texts = Texts(TEXTS, [each.text for each in expected], ("src", "tgt"))
    measured = Measured(client.port, texts, Bound(20, 60))
    rows = [measured.fill(), *map(measured.load, loads_of("2,50%"))]
    assert [each["load"] for each in rows] == ["32 clients", "2 clients", "50%"]
    for each in rows:
        assert each["answered"] == each["requests"] == 20 and each["other_texts"] == 0
        assert 0 < each["latency"]["50"] <= each["latency"]["99"] <= each["seconds"]
    assert measured.capacity == rows[0]["per_second"]


@pytest.mark.parametrize(
    "words, says",
    [
        (["--bench", "/nowhere"], "/nowhere"),
        (["--bench", "x", "--bench-loads", "y"], "--bench-loads y: expected"),
        (["--bench", "x", "--bench-requests", "0"], "--bench-requests 0: must be from 1 to"),
        (["--bench", "x", "--bench-seconds", "0"], "--bench-seconds 0.0: must be from above 0"),
        (["--bench", "x", "--bench-plot", "x.pdf"], "--bench-plot x.pdf: expected a name that"),
        (["--bench", "x", "--bench-plot", "/no/x.png"], "--bench-plot /no/x.png: its folder"),
        (
            ["--bench", "x", "--bench-plot", "x.svg", "--bench-loads", "1"],
            "--bench-plot: draws sha",
        ),
        (["--bench", "x", "--host", "0.0.0.0"], "--host: --bench asks 127.0.0.1"),
        (["--bench", "x", "--port", "80"], "--port: --bench asks 127.0.0.1"),
    ],
)
def test_mistakes_with_bench_are_one_line(pair, words, says):
    with pytest.raises(SystemExit) as ended:
        cli.cli_main(["--path", str(pair), *words])
    assert says in str(ended.value) and "\n" not in str(ended.value)


def bench(pair, texts, tmp_path, capfd, *words):
    """Rows of ``--bench``."""
    file = tmp_path / "report.json"
    common = ["--path", str(pair), "--device", "cpu", "--bench", str(texts)]
    cli.cli_main([*common, "--bench-requests", "20", "--bench-json", str(file), *words])
    report = json.loads(file.read_text())
    assert report["provenance"]["command"].startswith("specdec-serve --path")
    assert capfd.readouterr().out.count("\n| ") == len(report["rows"]) + 1
    return report["rows"]


@pytest.mark.slow
def test_the_command_measures_a_process_of_its_own(pair, texts, tmp_path, capfd):
    rows = bench(pair, texts, tmp_path, capfd, "--bench-loads", "2,80%")
    assert [each["load"] for each in rows] == ["32 clients", "2 clients", "80%"]
    for each in rows:
        assert each["answered"] == each["requests"] == 20 and each["other_texts"] == 0
        assert each["cpu_per_answer"] >= 0 and each["resident"][0] > 1e8
