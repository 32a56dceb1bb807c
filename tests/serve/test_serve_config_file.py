"""Several pairs from one file: what it may say, and a server of two pairs."""

import pathlib
import shutil
import threading

import pytest
from served import TEXTS, serving
from toy_pair import write_pair

from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.serve import cli
from fairseq_specdec.serve.config_file import entries
from fairseq_specdec.serve.flags import pair_parser

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "serving.md"
deepl = pytest.importorskip("deepl")


def test_fields_are_flags(tmp_path):
    """Also those that YAML takes for something other than text."""
    file = tmp_path / "models.yaml"
    file.write_text(
        "- path: a.pt:b.pt\n  source-lang: no\n  max_len_b: 16\n  unnormalized: true\n"
        "- {path: demo_edit, workers: 2, tau: 1e-3, tokenizer: none, realign: no}\n"
    )
    one, two = entries(str(file), pair_parser()).values()
    assert (one.path, one.source_lang, one.max_len_b) == ("a.pt:b.pt", "no", 16)
    assert one.unnormalized is True and not hasattr(two, "realign") and not hasattr(two, "beam")
    assert (two.workers, two.tau, two.tokenizer) == (2, 0.001, "none")


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "expected a list of pairs"),
        ("path: x", "expected a list of pairs"),
        ("- path: [", "is no YAML: while parsing"),
        ("- x", "entry 1: expected fields"),
        ("- path: x\n- pth: y", "entry 2: pth: no such field; there are workers, path"),
        ("- port: 80", "entry 1: port: no such field"),
        ("- path: [a, b]", "entry 1: path: expected one value"),
        ("- path:", "entry 1: path: expected one value"),
        ("- workers: 0", "entry 1: workers 0: must be from 1 to 256"),
        ("- workers: two", "entry 1: workers: invalid int value: 'two'"),
        ("- unnormalized: 1", "entry 1: unnormalized: 1: expected true or false"),
        ("- path: /nowhere.pt", "entry 1: path: no such file: /nowhere.pt"),
        ("- beam: 2\n  nbest: 3\n  path: {pair}", "entry 1: nbest"),
        ("- path: {pair}\n- path: {pair}", "entry 2: src-tgt is there already"),
    ],
)
def test_mistakes_name_file_entry_and_field(pair, tmp_path, text, says):
    file = tmp_path / "models.yaml"
    file.write_text(text.replace("{pair}", str(pair)))
    before = set(threading.enumerate())
    with pytest.raises(SystemExit) as ended:
        cli.cli_main(["--config", str(file), "--port", "0"])
    message = str(ended.value)
    assert f"--config {file}: {says}" in message and "\n" not in message
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize(
    "words, says",
    [
        (["--config", "/nowhere.yaml"], "/nowhere.yaml"),
        (["--config", "x", "--beam", "2"], "--beam: with --config it is a field"),
        (["demo_ende", "--config", "x"], "--config: names the models"),
    ],
)
def test_other_mistakes(words, says):
    with pytest.raises(SystemExit) as ended:
        cli.cli_main([*words, "--port", "0"])
    assert says in str(ended.value)


# ---- two pairs -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two(pair, tmp_path_factory):
    """(client of src-tgt and src-xx, the second pair's folder)."""
    folder = tmp_path_factory.mktemp("other")
    write_pair(folder)
    (folder / "dict.tgt.txt").rename(folder / "dict.xx.txt")
    file = folder / "models.yaml"
    file.write_text(
        f"- path: {pair}\n  device: cpu\n"
        f"- path: {folder}/other.pt\n  target-lang: xx\n  strategy: greedy\n  device: cpu\n"
    )
    with serving("--config", file, device=False) as client:
        yield client, folder


def test_each_pair_has_its_model(two, pair, expected):
    client, folder = two
    hub = SpeculativeTranslator.from_pretrained(
        str(folder / "other.pt"), target_lang="xx", device="cpu", strategy="greedy"
    )
    texts = [each.text for each in hub.translate(TEXTS)]
    own = SpeculativeTranslator.from_pretrained(pair, device="cpu").translate(TEXTS)
    assert client.translate(TEXTS)[1]["translatedText"] == [each.text for each in own] != texts
    for source in ("src", "auto"):
        answer = client.translate(TEXTS, target="XX-yy", source=source)[1]
        assert answer["translatedText"] == texts
    stream = {"q": TEXTS[0], "source": "src", "target": "xx"}
    assert texts[0] in client.ask("/translate/stream", stream)[1]


def test_source_languages_are_detected(tmp_path):
    """Of the pairs that have the target; each text is translated by its pair."""
    texts = {"en": "w1 where is the house w2", "de": "w1 wo ist das Haus w2"}
    write_pair(tmp_path)
    for name in texts:
        shutil.copy(tmp_path / "dict.src.txt", tmp_path / f"dict.{name}.txt")
    line = "- {{path: {}/{}.pt, source-lang: {}, strategy: greedy, device: cpu}}\n"
    lines = (line.format(tmp_path, *each) for each in zip(("verifier", "other"), texts))
    file = tmp_path / "models.yaml"
    file.write_text("".join(lines))
    with serving("--config", file, device=False) as client:
        other = deepl.DeepLClient("any", server_url=client.url.rstrip("/"))
        for language, text in texts.items():
            (found,) = client.ask("/detect", {"q": [text, text]})[1]
            answer = client.translate(text, source="auto")[1]
            named = client.translate(text, source=language)[1]
            assert answer["translatedText"] == named["translatedText"]
            assert answer["detectedLanguage"]["language"] == found["language"] == language
            assert 60 < answer["detectedLanguage"]["confidence"] <= found["confidence"] <= 100
            assert other.translate_text(text, target_lang="TGT").text == named["translatedText"]
        assert client.translate([1], source="auto")[1]["error"].endswith("valid string")


def test_all_pairs_are_listed(two):
    client, _ = two
    assert client.ask("/languages")[1] == [{"code": "src", "name": "src", "targets": ["tgt", "xx"]}]
    other = deepl.DeepLClient("any", server_url=client.url.rstrip("/"))
    assert [each.code for each in other.get_target_languages()] == ["TGT", "XX"]
    assert [each.code for each in other.get_source_languages()] == ["SRC"]
    assert other.translate_text(TEXTS[0], target_lang="XX").detected_source_lang == "SRC"
    metrics = client.ask("/metrics")[1]
    assert all(f'specdec_sentences_total{{pair="src-{to}"}}' in metrics for to in ("tgt", "xx"))
    status, answer, _ = client.translate("w1", target="yy")
    assert status == 400 and answer["error"] == "target 'yy' is not supported; there is tgt, xx"
