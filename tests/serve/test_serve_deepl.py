"""DeepL's interface, also as its own client uses it."""

import urllib.parse

import pytest
from served import TEXTS

deepl = pytest.importorskip("deepl")
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def translator(client, monkeypatch):
    monkeypatch.setattr(deepl.http_client, "max_network_retries", 0)
    return deepl.DeepLClient("any", server_url=client.url.rstrip("/"))


def test_its_own_client_gets_the_hubs_texts(translator, expected):
    translations = translator.translate_text(TEXTS, source_lang="SRC", target_lang="TGT")
    assert [each.text for each in translations] == [each.text for each in expected]
    assert [each.billed_characters for each in translations] == [len(text) for text in TEXTS]
    one = translator.translate_text(TEXTS[0], target_lang="tgt", split_sentences="0")
    assert one.text == expected[0].text and one.detected_source_lang == "SRC"


@pytest.mark.parametrize(
    "asked, split, sentences",
    [(None, True, 3), ("1", True, 3), ("0", False, 0), ("nonewlines", "nonewlines", 2)],
)
def test_its_own_client_chooses_how_to_split(translator, hub, asked, split, sentences):
    text = f"{TEXTS[0]}. {TEXTS[1]}\n\n- {TEXTS[2]}"
    expected = hub.translate(text, split=split)
    given = translator.translate_text(text, target_lang="TGT", split_sentences=asked)
    assert given.text == expected.text and given.billed_characters == len(text)
    assert len(expected.sentences) == sentences


def test_its_own_client_lists_the_languages(translator, client):
    assert [each.code for each in translator.get_source_languages()] == ["SRC"]
    targets = translator.get_target_languages()
    assert [(each.code, each.supports_formality) for each in targets] == [("TGT", False)]
    assert client.ask("/v2/languages?type=both")[0] == 400


def test_its_own_client_shows_usage(translator):
    before = translator.get_usage().character
    translator.translate_text(["w1", "w2 w3"], target_lang="TGT")
    after = translator.get_usage()
    assert after.character.count - before.count == 7 and not after.any_limit_reached


def test_forms_and_blank_texts(client, expected):
    fields = [("text", TEXTS[0]), ("text", " "), ("target_lang", "TGT"), ("formality", "default")]
    body = urllib.parse.urlencode(fields).encode()
    status, answer, _ = client.ask("/v2/translate", body, Content_Type=FORM)
    assert status == 200
    assert [each["text"] for each in answer["translations"]] == [expected[0].text, ""]
    body = urllib.parse.urlencode(fields[:1] + fields[2:]).encode()
    _, answer, _ = client.ask("/v2/translate", body, Content_Type=FORM)
    assert [each["text"] for each in answer["translations"]] == [expected[0].text]
