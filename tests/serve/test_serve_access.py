"""The token, addresses beyond this machine, and counters."""

import logging

import pytest
from served import TEXTS, serving, until

from fairseq_specdec.serve.guard import VARIABLE, token_of

TOKEN = "a-token_of.20-signs!"


@pytest.fixture(scope="module")
def guarded(pair, tmp_path_factory):
    """A server with a token, on all addresses."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(TOKEN + "\n")
    with serving("--path", pair, "--token-file", file, "--host", "0.0.0.0") as client:
        client.url = client.url.replace("0.0.0.0", "127.0.0.1")
        yield client


@pytest.mark.parametrize(
    "headers, fields, status",
    [
        ({}, {}, 403),
        ({"Authorization": f"Bearer {TOKEN}"}, {}, 200),
        ({"Authorization": f"DeepL-Auth-Key {TOKEN}", "Host": "example.org"}, {}, 200),
        ({"Authorization": f"Bearer {TOKEN[:-1]}"}, {"api_key": TOKEN}, 403),
        ({}, {"api_key": TOKEN}, 200),
        ({}, {"api_key": "\ud800"}, 403),
    ],
)
def test_requests_bring_the_token(guarded, headers, fields, status):
    body = {"q": "w1", "source": "src", "target": "tgt", **fields}
    answered, answer, _ = guarded.ask("/translate", body, **headers)
    assert answered == status and ("token is missing or wrong" in str(answer)) == (status == 403)


def test_only_states_are_open(guarded):
    assert [guarded.ask(path)[0] for path in ("/health", "/ready")] == [200, 200]
    closed = ("/v2/languages", "/metrics", f"/metrics?api_key={TOKEN}", "/openapi.json", "/nothing")
    assert [guarded.ask(path)[0] for path in closed] == [403] * 5
    for path, body in (("/languages", None), ("/frontend/settings", None), ("/detect", b"")):
        statuses = [guarded.ask(f"{path}?q=w1{key}", body)[0] for key in ("", f"&api_key={TOKEN}")]
        assert statuses == [403, 200]
    assert guarded.ask("/v2/translate", {"text": ["w1"], "api_key": TOKEN})[0] == 403


def test_addresses_of_requests_are_not_logged(client, caplog, capfd):
    with caplog.at_level(logging.DEBUG):
        for path in ("/translate", "/detect", "/nothing"):
            client.ask(f"{path}?q=w1&source=src&target=tgt&api_key={TOKEN}", b"")
    assert TOKEN not in caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize("text", ["", "fifteen-signs--", "sixteen signs --", "\xe9" * 20])
def test_weak_tokens_are_refused(tmp_path, text, monkeypatch):
    monkeypatch.setenv(VARIABLE, text)
    (tmp_path / "token").write_text(text, encoding="utf-8")
    for file, name in ((None, VARIABLE), (str(tmp_path / "token"), "--token-file .*token")):
        with pytest.raises(ValueError, match=f"{name}: a token is 16 or more"):
            token_of(file)
    monkeypatch.setenv(VARIABLE, TOKEN)
    assert token_of(None) == TOKEN


@pytest.mark.parametrize("mode, warns", [(0o600, False), (0o644, True)])
def test_a_token_file_that_others_can_read_is_warned_of(mode, warns, tmp_path, caplog):
    file = tmp_path / "token"
    file.write_text(TOKEN, encoding="utf-8")
    file.chmod(mode)
    assert token_of(str(file)) == TOKEN and ("use chmod 600" in caplog.text) == warns


def test_an_open_server_is_warned_of(pair, caplog, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with caplog.at_level(logging.WARNING):
        with serving("--path", pair, "--strategy", "greedy", "--host", "0.0.0.0") as client:
            assert client.ask("/languages", Host="example.org")[0] == 200
    assert "--host 0.0.0.0 without a token: whoever reaches it can use it" in caplog.text


def values(client):
    """The metrics by name and labels."""
    text = client.ask("/metrics")[1]
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_counters(client):
    before = values(client)
    assert client.translate(TEXTS[:3])[0] == 200 and client.translate("")[0] == 400
    client.ask("/nothing")
    until(lambda: client.service.scheduler.expected_wait() == 0)  # its batch is counted
    after = values(client)
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    for name, count in {
        'requests_total{path="/translate",status="200"}': 1,
        'requests_total{path="/translate",status="400"}': 1,
        'requests_total{path="other",status="404"}': 1,
        'request_seconds_count{path="/translate"}': 2,
        'sentences_total{pair="src-tgt"}': 3,
        'batch_sentences_sum{pair="src-tgt"}': 3,
    }.items():
        assert grown["specdec_" + name] == count
    for name in ("emitted_total", "iterations_total"):
        assert grown[f'specdec_{name}{{pair="src-tgt"}}'] > 0
    for name in ("waiting_sentences", "expected_wait_seconds"):
        assert after[f'specdec_{name}{{pair="src-tgt"}}'] == 0
    assert not any(text in str(after) for text in TEXTS)
    (chosen,) = (name for name in after if name.startswith("specdec_decoding_info"))
    assert all(f'{name}="' in chosen for name in ("strategy", "backend", "twin", "threads"))
    assert 'strategy="gad"' in chosen and 'pair="src-tgt"' in chosen
