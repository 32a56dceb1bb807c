"""The scores of corrections, by this project's M2, the official one, and ERRANT."""

import json
import sys

import pytest
from gec_scores import main, read_outputs
from recipe_parts import OFFICIAL, SYSTEM
from scoring import errant
from scoring.m2_file import parse


@pytest.fixture
def gold(tmp_path):
    (tmp_path / "gold.m2").write_text(OFFICIAL)
    (tmp_path / "system.txt").write_text("\n".join(SYSTEM) + "\n")
    return tmp_path / "gold.m2"


def run(gold, *words):
    main([str(gold), *map(str, words), "--json", str(gold.parent / "scores.json")])
    return json.loads((gold.parent / "scores.json").read_text())


def test_text_and_the_output_of_fairseq_generate_score_alike(gold, tmp_path):
    lines = [
        f"S-{n}\tx\nH-{n}\t-0.5\ty\nD-{n}\t-0.5\t{text}\nP-{n}\t-0.5"
        for n, text in enumerate(SYSTEM)
    ]
    (tmp_path / "iad.out").write_text("\n".join(reversed(lines)) + "\nGenerate test\n")
    scores = run(gold, tmp_path / "system.txt", tmp_path / "iad.out")
    assert scores["iad"] == scores["system"]
    assert scores["iad"]["m2_f"] == pytest.approx(80) and scores["iad"]["m2_correct"] == 4
    (tmp_path / "hole.out").write_text("D-0\t0\ta\nD-2\t0\tb\n")
    with pytest.raises(ValueError, match="no output of sentence 1"):
        read_outputs(tmp_path / "hole.out")


def test_mistakes_are_named(gold, tmp_path):
    (tmp_path / "short.txt").write_text("a\n")
    (tmp_path / "empty.m2").write_text("")
    (tmp_path / "latin.m2").write_bytes(b"S caf\xe9\n")
    for words, why in (
        ([gold, tmp_path / "short.txt"], "short.txt: 1 outputs for 3 sentences"),
        ([tmp_path / "empty.m2", tmp_path / "system.txt"], "holds no sentence"),
        ([tmp_path / "latin.m2", tmp_path / "system.txt"], "latin.m2: is not UTF-8"),
        ([gold, tmp_path / "latin.m2"], "latin.m2: is not UTF-8"),
        ([tmp_path / "none.m2", tmp_path / "system.txt"], "No such file"),
    ):
        with pytest.raises(SystemExit, match=f"gec_scores: error: .*{why}"):
            run(*words)


@pytest.mark.parametrize("name", ["errant", "spacy"])
def test_without_errant_the_remedy_is_named(gold, tmp_path, monkeypatch, name):
    if name == "spacy":
        monkeypatch.setitem(sys.modules, "errant", sys)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SystemExit, match=rf"ERRANT needs {name}: .*scripts/requirements/gec.txt"):
        run(gold, tmp_path / "system.txt", "--metric", "errant")


def test_the_table_of_errant_is_read():
    head = "\n=== Span-Based Correction ===\nTP\tFP\tFN\tPrec\tRec\tF0.5\n"
    table = head + "4\t1\t3\t0.8\t0.5714\t0.7407\n==="
    assert errant.read_table(table) == (4, 5, 7)
    assert errant.read_table(table).f() == pytest.approx(0.7407, abs=1e-4)
    with pytest.raises(ValueError, match="printed no table"):
        errant.read_table("Traceback")


@pytest.mark.slow
def test_errant_itself(tmp_path):
    pytest.importorskip("errant")
    sources = ["The cat sat at mat .", "He go home yesterday .", "Fine ."]
    right = ["The cat sat on the mat .", "He went home yesterday .", "Fine ."]
    plain = parse("".join(f"S {source}\n\n" for source in sources))
    gold = tmp_path / "gold.m2"
    gold.write_text(errant.annotate(plain, right, errant.annotator()))
    half = [right[0], sources[1], "Fine !"]
    for name, lines in (("right", right), ("half", half), ("same", sources)):
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    names = [tmp_path / f"{name}.txt" for name in ("right", "half", "same")]
    counts = {
        name: {key.replace("errant_", ""): value for key, value in one.items()}
        for name, one in run(gold, *names, "--metric", "errant").items()
    }
    edits = counts["right"]["gold"]
    assert counts["right"]["correct"] == counts["right"]["proposed"] == edits >= 2
    assert counts["right"]["f"] == 100 and counts["right"]["versions"]["errant"]
    # go stays, and a full stop that was right is changed.
    assert counts["half"]["correct"] == edits - 1 and counts["half"]["proposed"] == edits
    assert counts["same"]["proposed"] == 0 and counts["same"]["recall"] == 0
