"""A drafter gets its list of words, whole or not at all; mistakes are named."""

import pathlib
import shutil

import pytest
import torch
from fairseq.data import Dictionary
from toy_translation import dictionary

from fairseq_specdec.checkpoints.reading import load_model
from fairseq_specdec.data import shortlist
from fairseq_specdec.models.word_list import names_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "data-bin" / "demo_ende"
HERE = ["--gen-subset", "test", "--translations", "5", "--frequent", "9"]

TRANSLATIONS, FREQUENT = names_of(None)
PROGRAM = "python -m fairseq_specdec.data.shortlist"


@pytest.fixture
def run(tmp_path):
    """The command on the demo's held-out pairs; its output file."""

    def command(*words, data=DEMO, drafter=DEMO / "drafter.pt", out=tmp_path / "out.pt"):
        shortlist.cli_main([str(data), "--drafter-path", str(drafter), "--out", str(out), *words])
        return out

    return command


def test_a_drafter_gets_its_list(run):
    before, after = load_model(str(DEMO / "drafter.pt")), load_model(str(run(*HERE)))
    dictionary = Dictionary.load(str(DEMO / "dict.de.txt"))
    table, frequent = (after["model"].pop(name) for name in (TRANSLATIONS, FREQUENT))
    assert table.shape == (len(dictionary), 5) and frequent.shape == (9,)
    assert table.dtype == frequent.dtype == torch.int16
    listed = [dictionary[int(word)] for word in table[dictionary.index("and")]]
    assert listed[0] == "und" and "</s>" in [dictionary[int(word)] for word in frequent]
    absent = [word for word, row in enumerate(table) if (row[1:] == dictionary.pad()).all()]
    assert len(absent) > 1000  # of few sentences; such words stay as they are
    assert all(table[word, 0] == word for word in absent if word != dictionary.pad())
    for name in (TRANSLATIONS, FREQUENT):
        before["model"].pop(name, None)
    assert before["model"].keys() == after["model"].keys()
    assert all(torch.equal(before["model"][name], x) for name, x in after["model"].items())
    record = after["word_list"]
    assert record["pairs"] == 500 and record["translations"] == 5 and record["commit"]
    assert record["command"].startswith(PROGRAM) and len(record["data"]) == 6


def test_the_same_pairs_give_the_same_list(run, tmp_path):
    """Also where they are drawn, and of a drafter that had a list before."""
    some = [*HERE, "--most-pairs", "100"]
    first = load_model(str(run(*some)))
    second = load_model(str(run(*some, drafter=tmp_path / "out.pt", out=tmp_path / "2.pt")))
    assert first["word_list"]["pairs"] == 100
    assert all(torch.equal(x, second["model"][name]) for name, x in first["model"].items())


@pytest.mark.parametrize(
    "words, places, message",
    [
        (["--translations", "1001"], {}, "--translations 1001: must be from 1 to 1000"),
        ([], {}, "has no split 'train'"),
        (HERE, {"drafter": DEMO / "verifier.pt"}, "no block drafter"),
        (HERE, {"data": DEMO / "history"}, "holds no binarised text"),
        (HERE, {"out": DEMO / "history"}, ": is a directory; name a file"),
        (HERE, {"data": "other"}, "--drafter-path: its decoder dictionary has 8312 symbols"),
    ],
)
def test_mistakes(run, tmp_path, monkeypatch, words, places, message):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DEMO, "other", ignore=shutil.ignore_patterns("*.pt", "history"))
    dictionary(8400).save("other/dict.de.txt")
    with pytest.raises(SystemExit) as ended:
        run(*words, **places)
    line = str(ended.value.code)
    assert line.startswith(PROGRAM + ": error: ") and message in line and "\n" not in line
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
