"""SIGHUP: the models are loaded again, and no request is lost or wrong."""

import contextlib
import itertools
import os
import shutil
import threading
import time
from types import SimpleNamespace

import pytest
from served import TEXTS, serving, until
from toy_pair import write_pair

from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.serve import pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pair of its own: the tests replace its verifier."""
    return write_pair(tmp_path_factory.mktemp("reload"))


def replace(folder, name):
    """Put a copy of a checkpoint in the verifier's place, as mv does."""
    shutil.copy(folder / name, folder / "new.pt")
    os.replace(folder / "new.pt", folder / "verifier.pt")


def test_requests_end_with_their_model_and_new_ones_get_the_new(folder, caplog, monkeypatch):
    """Under load; a broken file changes nothing but the log."""
    monkeypatch.setattr(pairs, "time", SimpleNamespace(sleep=lambda s: time.sleep(s / 30)))
    replaced = folder / "verifier.pt"
    shutil.copy(replaced, folder / "first.pt")
    (folder / "broken.pt").write_bytes(replaced.read_bytes()[:3000])
    answers = {}
    for name in ("first.pt", "other.pt"):
        with SpeculativeTranslator.from_pretrained(
            folder / name, data=folder, strategy="greedy", device="cpu"
        ) as hub:
            answers[name] = [each.text for each in hub.translate(TEXTS)]
    assert answers["first.pt"] != answers["other.pt"]
    words = ["--path", replaced, "--strategy", "greedy", "--max-deadline", 30, "--max-wait", 30]
    words += ["--learn-vocabulary", folder / "list"]
    seen, ended = [], threading.Event()

    def load(client):
        for i in itertools.cycle(range(12)):
            status, answer, _ = client.translate(TEXTS[i])
            seen.append((i, status, answer.get("translatedText")))
            if ended.is_set():
                return

    with serving(*words) as client, contextlib.ExitStack() as stack:
        loads = [threading.Thread(target=load, args=(client,)) for _ in range(3)]
        for each in loads:
            each.start()
        stack.callback(lambda: [ended.set(), *(each.join() for each in loads)])
        until(lambda: len(seen) > 24)
        for name in ("other.pt", "broken.pt", "first.pt"):
            replace(folder, name)
            caplog.clear()
            client.server.pairs.reload()
            served = "other.pt" if name == "broken.pt" else name
            assert client.translate(TEXTS)[1]["translatedText"] == answers[served]
            logged = [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]
            assert len(logged) == (name == "broken.pt")
            assert client.service.translator.generator.vocabulary is not None  # learnt before
    for i, status, text in seen:
        assert status == 200 and text in (answers["first.pt"][i], answers["other.pt"][i])
