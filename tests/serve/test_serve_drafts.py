"""Drafts that clients send, and recent outputs of theirs: answers stay as they are."""

import json

import pytest
from served import TEXTS, serving, until

from fairseq_specdec.serve import recent


@pytest.fixture(scope="module")
def drafting(pair):
    """A server that keeps two outputs of each client, and drafts all that it can."""
    words = ("--strategy", "iad", "--draft-budget", 0, "--recent-outputs", 2, "--max-texts", 12)
    with serving("--path", pair, "--max-characters", 400, *words) as client:
        yield client


def passes(client, **fields):
    """(verifier passes of a request, its answer)."""
    stats, path = client.service.translator.stats, fields.pop("path", "/translate")
    before = stats.iterations
    status, answer, _ = client.ask(path, {"source": "src", "target": "tgt", **fields})
    until(lambda: client.service.scheduler.expected_wait() == 0)  # its batches are counted
    assert status == 200
    return stats.iterations - before, answer


def test_right_drafts_are_verified_in_one_pass_each(drafting):
    _, answer = passes(drafting, q=TEXTS)
    texts = answer["translatedText"]
    assert passes(drafting, q=TEXTS, draft=texts) == (len(TEXTS), answer)
    for draft in ([*texts[:2], None, *texts[3:]], texts[::-1]):
        assert passes(drafting, q=TEXTS, draft=draft)[1] == answer
    whole, lines = "\n".join(texts[:3]), "\n".join(TEXTS[:3])
    assert passes(drafting, q=lines, draft=whole) == (3, {"translatedText": whole})
    streamed = passes(drafting, q=lines, draft=whole, path="/translate/stream")
    assert streamed[0] == 3 and json.dumps({"translatedText": whole}) in streamed[1]
    deepl = {"text": TEXTS[0], "target_lang": "tgt", "draft": texts[0], "path": "/v2/translate"}
    assert passes(drafting, **deepl)[0] == 1


@pytest.mark.parametrize(
    "draft, message",
    [
        ("w1", "draft: 1 for 2 texts"),
        (5, "draft 5: Input should be a valid string"),
        (["w1", 5], "draft ['w1', 5]: Input should be a valid string"),
        (["w1", "w" * 401], "a text has 401 characters"),
    ],
)
def test_drafts_that_fit_no_text_are_refused(drafting, draft, message):
    status, answer, _ = drafting.translate(TEXTS[:2], draft=draft)
    assert status == 400 and f"Invalid request: {message}" in answer["error"]


def test_the_nearest_output_of_a_client_is_its_draft(drafting):
    first, answer = passes(drafting, q=TEXTS[0], context_id="a")
    assert first > 1 and passes(drafting, q=TEXTS[0], context_id="b") == (first, answer)
    for path in ("/translate", "/translate/stream"):
        assert passes(drafting, q=TEXTS[0], context_id="a", path=path)[0] == 1
    passes(drafting, q=TEXTS[1], context_id="c", path="/translate/stream")
    assert passes(drafting, q=TEXTS[1], context_id="c")[0] == 1
    passes(drafting, q=TEXTS[2:4], context_id="b")
    assert passes(drafting, q=TEXTS[0], context_id="b") == (first, answer)  # it left


def test_what_is_kept_is_bounded(monkeypatch):
    kept = recent.RecentOutputs(2)
    monkeypatch.setattr(recent, "_MOST_TOKENS", 59)
    for number, context in enumerate("aaabc"):
        kept.keep(context, [5, 6, number], [number])
    found = [kept.nearest(context, [5, 6, 9]) for context in "abcd"]
    assert found == [[], [3], [4], []]  # each counts 20
    assert kept.nearest("c", [5, 8, 9]) == []
