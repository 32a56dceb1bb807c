"""The recipes for error correction: their corpora, stages, scores and mistakes."""

import sys

import pytest
from gec_corpus import corrected, to_characters, to_m2, write
from gec_scores import segment
from m2 import parse, score

GOLD = (
    "S He go home .\nA 1 2|||V|||went||goes|||R|||-|||0\nA 3 3|||ADV|||yesterday|||R|||-|||0\n"
    "A 1 2|||V|||goes|||R|||-|||1\n\nS Fine .\nA -1 -1|||noop|||-NONE-|||R|||-|||0\n\n"
)


def test_corrections_are_applied_and_found_again():
    first, second = parse(GOLD)
    assert corrected(first) == "He went home yesterday ." and corrected(second) == "Fine ."
    pairs = [("He go to home .", "He went home now ."), ("a b", "a b"), ("a", "a b")]
    gold = parse("\n".join(map(to_m2, pairs)))
    counts = score([target for _, target in pairs], gold)
    assert counts.correct == counts.proposed == counts.gold == 3
    assert to_characters("我 去ABC 12") == "我 去 ABC 12"


def test_training_text_and_gold_of_corpora(tmp_path):
    (tmp_path / "a.m2").write_text(GOLD, encoding="utf-8")
    (tmp_path / "b.src").write_text("one  two\n\nthree\n")
    (tmp_path / "b.tgt").write_text("one\ntwo\nthree\n")
    write(f"{tmp_path}/train", [f"{tmp_path}/a.m2", f"{tmp_path}/b"])
    assert (tmp_path / "train.src").read_text() == "He go home .\nFine .\none two\nthree\n"
    assert (tmp_path / "train.tgt").read_text().splitlines()[0] == "He went home yesterday ."
    for name, count in (("a.m2", 2), ("b", 3)):
        gold = tmp_path / "gold.m2"
        write(f"{tmp_path}/test", [f"{tmp_path}/{name}"], gold)
        sentences = parse(gold.read_text())
        sources = (tmp_path / "test.src").read_text().splitlines()
        assert [" ".join(one.source) for one in sentences] == sources and len(sources) == count
    assert (tmp_path / "gold.m2").read_text() != GOLD
    (tmp_path / "b.tgt").write_text("one\n")
    with pytest.raises(ValueError, match="3 lines of .src, 1 of .tgt"):
        write(f"{tmp_path}/train", [f"{tmp_path}/b"])


def test_a_segmenter_answers_line_by_line():
    command = f"{sys.executable} -c 'import sys; [print(*line.strip()) for line in sys.stdin]'"
    assert segment(command, ["ab", "", "c"]) == ["a b", "", "c"]
    for bad in (f"{sys.executable} -c 'print(1)'", "/nowhere"):
        with pytest.raises(ValueError, match="SEGMENTER"):
            segment(bad, ["a", "b"])
