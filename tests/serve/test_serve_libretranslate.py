"""LibreTranslate's interface, also as its own client uses it."""

import json
import urllib.parse

import pytest
from served import TEXTS

deep_translator = pytest.importorskip("deep_translator")
libretranslatepy = pytest.importorskip("libretranslatepy")
FORM = "application/x-www-form-urlencoded"


def test_its_own_client_gets_the_hubs_texts(client, expected):
    api = libretranslatepy.LibreTranslateAPI(client.url, api_key="any")
    assert api.languages() == [{"code": "src", "name": "src", "targets": ["tgt"]}]
    texts = [api.translate(text, "src", "tgt") for text in TEXTS[:4]]
    assert texts == [each.text for each in expected[:4]] and all(texts)


def test_query_strings_are_read(client, expected):
    """As deep-translator sends them; fields of the body come first."""
    api = deep_translator.LibreTranslator("en", "de", api_key="any", custom_url=client.url)
    api.source, api.target = "src", "tgt"  # it takes languages of a list only
    assert api.translate_batch(TEXTS[:2]) == [each.text for each in expected[:2]]
    query = urllib.parse.urlencode({"q": TEXTS[0], "source": "src", "target": "tgt"})
    stream = client.ask(f"/translate/stream?{query}", b"")[1]
    assert json.dumps(expected[0].text, ensure_ascii=False) in stream
    answer = client.ask(f"/translate?{query}", {"q": TEXTS[2]})[1]
    assert answer["translatedText"] == expected[2].text


def test_languages_and_settings_of_one_pair(client):
    api = libretranslatepy.LibreTranslateAPI(client.url)
    assert api.detect("w1") == [{"confidence": 100, "language": "src"}]
    settings = client.ask("/frontend/settings")[1]
    assert settings["charLimit"] == 400 and settings["keyRequired"] is settings["apiKeys"] is False
    assert settings["language"]["target"] == {"code": "tgt", "name": "tgt"}
    assert {"frontendTimeout", "suggestions", "supportedFilesFormat"} < set(settings)


def test_a_list_is_answered_by_a_list(client, expected):
    status, answer, headers = client.translate([TEXTS[0], " ", *TEXTS[1:6]])
    texts = [each.text for each in expected[:6]]
    assert status == 200 and answer == {"translatedText": [texts[0], "", *texts[1:]]}
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
    assert headers["Access-Control-Allow-Origin"] is None and headers["Server"] is None


def test_lists_of_alternatives_and_detected_languages(client, expected):
    """One for each text; of one text that is no list they are none either."""
    others = [[each.text for each in one.alternatives] for one in expected[:2]]
    known = {"confidence": 100, "language": "src"}
    _, answer, _ = client.translate(TEXTS[0], source="auto", alternatives=1)
    text = {"translatedText": expected[0].text}
    assert all(others) and answer == {**text, "alternatives": others[0], "detectedLanguage": known}
    _, answer, _ = client.translate(TEXTS[:2], source="auto", alternatives="1")
    assert answer["alternatives"] == others and answer["detectedLanguage"] == [known, known]


def test_paragraphs_are_split_into_sentences(client, hub):
    text = f"{TEXTS[0]}. {TEXTS[1]}.\r\n\r\n  * {TEXTS[2]}\n---\n"
    whole = hub.translate(text)
    a, b, c = whole.sentences
    assert whole.text == f"{a} {b}\r\n\r\n  * {c}\n---\n"
    _, answer, _ = client.translate([text, "\u200b", "\ufeff\n"], alternatives=1)
    assert answer["translatedText"] == [whole.text, "", ""]
    x, y, z = (each.alternatives[0] for each in whole.sentences)
    assert answer["alternatives"] == [[f"{x} {y}\r\n\r\n  * {z}\n---\n"], [], []]


@pytest.mark.parametrize("kind", [FORM, "multipart/form-data; boundary=xx"])
def test_forms_are_read(client, kind):
    """The same field several times is a list."""
    texts = [TEXTS[0] + " \u00e9", TEXTS[1]]
    fields = [("source", "src"), ("target", "tgt"), *(("q", text) for text in texts)]
    part = '--xx\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    body = "".join(part.format(*each) for each in fields) + "--xx--\r\n"
    body = urllib.parse.urlencode(fields) if kind == FORM else body
    status, answer, _ = client.ask("/translate", body.encode(), Content_Type=kind)
    assert (status, answer) == client.translate(texts)[:2] and status == 200
