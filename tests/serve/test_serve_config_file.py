"""Several pairs from one file: what it may say, and a server of two pairs."""

import shutil
import threading

import pytest
from served import TEXTS, serving
from toy_pair import write_pair

from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.serve import cli

deepl = pytest.importorskip("deepl")


def test_fields_are_flags(tmp_path):
    """Also those that YAML takes for something other than text."""
    file = tmp_path / "models.yaml"
    file.write_text(
        "- {path: a.pt, source-lang: no, max_len_b: 16, unnormalized: true, keep_weights: no,"
        " tau: 1e-3}"
    )
    ((_, one),) = cli.pairs_of(cli.get_parser().parse_args(["--config", str(file)]))
    assert (one.path, one.source_lang, one.max_len_b, one.tau) == ("a.pt", "no", 16, 0.001)
    assert one.unnormalized is True
    assert not hasattr(one, "keep_weights") and not hasattr(one, "beam")


@pytest.mark.parametrize(
    "text, says",
    [
        ("- path: [", "is no YAML: while parsing"),
        ("- path: x\n- pth: y", "entry 2: unrecognized arguments: pth=y"),
        ("- path: [a, b]", "entry 1: path: expected one value"),
        ("- unnormalized: 1", "entry 1: unnormalized: ignored explicit argument"),
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


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """(client of en-tgt, de-tgt and en-xx, the folder of their models)."""
    folder = write_pair(tmp_path_factory.mktemp("several"))
    for copy, side in (("en", "src"), ("de", "src"), ("xx", "tgt")):
        shutil.copy(folder / f"dict.{side}.txt", folder / f"dict.{copy}.txt")
    line = "- {{path: {}/{}.pt, source-lang: {}, target-lang: {}, strategy: greedy, device: cpu}}\n"
    pairs = ("verifier", "en", "tgt"), ("other", "de", "tgt"), ("other", "en", "xx")
    file = folder / "models.yaml"
    file.write_text("".join(line.format(folder, *each) for each in pairs))
    with serving("--config", file, device=False) as client:
        yield client, folder


def test_each_pair_has_its_model(several):
    client, folder = several
    texts = []
    for name in ("verifier", "other"):
        where = {"source_lang": "en", "target_lang": "tgt", "device": "cpu", "strategy": "greedy"}
        hub = SpeculativeTranslator.from_pretrained(str(folder / f"{name}.pt"), **where)
        texts.append([each.text for each in hub.translate(TEXTS)])
    assert client.translate(TEXTS, source="en")[1]["translatedText"] == texts[0] != texts[1]
    for fields in ({"source": "de"}, {"source": "en", "target": "XX-yy"}, {"target": "xx"}):
        fields = {"source": "auto", **fields}
        assert client.translate(TEXTS, **fields)[1]["translatedText"] == texts[1]
    stream = {"q": TEXTS[0], "source": "de", "target": "tgt"}
    assert texts[1][0] in client.ask("/translate/stream", stream)[1]


def test_source_languages_are_detected(several):
    """Of the pairs that have the target; each text is translated by its pair."""
    client, _ = several
    other = deepl.DeepLClient("any", server_url=client.url.rstrip("/"))
    for language, text in (("en", "w1 where is the house w2"), ("de", "w1 wo ist das Haus w2")):
        (found,) = client.ask("/detect", {"q": [text, text]})[1]
        answer = client.translate(text, source="auto")[1]
        named = client.translate(text, source=language)[1]
        assert answer["translatedText"] == named["translatedText"]
        assert answer["detectedLanguage"]["language"] == found["language"] == language
        assert 60 < answer["detectedLanguage"]["confidence"] <= found["confidence"] <= 100
        assert other.translate_text(text, target_lang="TGT").text == named["translatedText"]


def test_all_pairs_are_listed(several):
    client, _ = several
    targets = {each["code"]: each["targets"] for each in client.ask("/languages")[1]}
    assert targets == {"en": ["tgt", "xx"], "de": ["tgt"]}
    other = deepl.DeepLClient("any", server_url=client.url.rstrip("/"))
    assert [each.code for each in other.get_target_languages()] == ["TGT", "XX"]
    assert [each.code for each in other.get_source_languages()] == ["EN", "DE"]
    metrics = client.ask("/metrics")[1]
    for pair in ("en-tgt", "de-tgt", "en-xx"):
        assert f'specdec_sentences_total{{pair="{pair}"}}' in metrics
    status, answer, _ = client.translate("w1", target="yy")
    assert status == 400 and answer["error"] == "target 'yy' is not supported; there is tgt, xx"
