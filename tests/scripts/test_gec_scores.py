"""The scores of corrections, of text and of what fairseq-generate wrote."""

import json

import pytest
from gec_scores import main, read_outputs
from recipe_parts import OFFICIAL, SYSTEM


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
        f"S-{n}\tx\nT-{n}\tz\nH-{n}\t-0.5\t{text}\nD-{n}\t-0.5\t{text}\nP-{n}\t-0.5"
        for n, text in enumerate(SYSTEM)
    ]
    (tmp_path / "iad.out").write_text("\n".join(reversed(lines)) + "\nGenerate test\n")
    scores = run(gold, tmp_path / "system.txt", tmp_path / "iad.out")
    assert scores["iad"] == scores["system"]
    assert scores["iad"]["m2_f"] == pytest.approx(80) and scores["iad"]["m2_correct"] == 4
    (tmp_path / "hole.out").write_text("T-0\tz\nT-1\tz\nH-0\t0\ta\n")
    with pytest.raises(ValueError, match="hole.out: holds no sentence, or not all"):
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
