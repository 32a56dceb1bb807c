"""OpenNMT-py's interface."""

import pytest
from served import TEXTS


def test_hypotheses_are_listed_by_rank(client, expected):
    given = [{"src": text, "id": 100} for text in [*TEXTS[:3], " "]]
    status, answer, _ = client.ask("/translator/translate", given)
    assert status == 200 and [len(each) for each in answer] == [4, 4]  # --nbest 2
    best, second = answer
    assert [each["tgt"] for each in best] == [*(one.text for one in expected[:3]), ""]
    others = [one.alternatives[0] for one in expected[:3]]
    assert [each["tgt"] for each in second] == [*(one.text for one in others), ""]
    assert [each["src"] for each in second] == [*TEXTS[:3], " "]
    assert second[0]["pred_score"] == pytest.approx(others[0].score)
    assert second[0]["pred_score"] < best[0]["pred_score"] < 0
    assert {each["n_best"] for each in best + second} == {2}
    assert client.ask("/translator/translate", [{"src": " "}])[1][0][0]["tgt"] == ""


def test_pairs_are_models(client):
    models = client.ask("/translator/models")[1]
    assert models == [{"model_id": 100, "status": "loaded", "name": "src-tgt"}]


@pytest.mark.parametrize(
    "body, words",
    [
        ({"src": "w1"}, "send a list of objects"),
        (["w1"], "send a list of objects"),
        ([], "no text"),
        ([{}], "must be a string"),
        ([{"src": 1}], "must be a string"),
        ([{"src": "w1"}] * 13, "13 texts"),
        ([{"src": "w1", "id": 101}], "id 101: a request is of one model, of 100 to 100"),
        ([{"src": "w1", "id": "100"}], "id '100'"),
        ([{"src": "w1", "id": 100}, {"src": "w1", "id": 7}], "of one model"),
        (b"[", "no JSON"),
    ],
)
def test_what_cannot_be_honoured_is_refused(client, body, words):
    status, answer, _ = client.ask("/translator/translate", body)
    assert status == 400 and words in answer["error"]
