"""The recipes for error correction: their corpora, stages, scores and mistakes."""

import json
import re
import sys

import gpt2_subwords
import pytest
import torch
from gec_corpus import corrected, to_characters, to_m2, write, write_bytes
from gec_scores import segment
from scoring.m2 import score
from scoring.m2_file import parse

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


def test_bytes_stand_in_for_the_subwords_of_gpt2(tmp_path):
    write_bytes(tmp_path)
    files = [str(tmp_path / name) for name in ("encoder.json", "vocab.bpe")]
    text = "He go , 我 home ."
    numbers = gpt2_subwords.encode(text, *files, most=100)
    assert gpt2_subwords.decode(numbers, *files) == text
    symbols = {line.split()[0] for line in (tmp_path / "dict.txt").read_text().splitlines()}
    assert set(numbers.split()) < symbols and len(symbols) == 256


def test_a_segmenter_answers_line_by_line():
    command = f"{sys.executable} -c 'import sys; [print(*line.strip()) for line in sys.stdin]'"
    assert segment(command, ["ab", "", "c"]) == ["a b", "", "c"]
    for bad in (f"{sys.executable} -c 'print(1)'", "/nowhere"):
        with pytest.raises(ValueError, match="SEGMENTER"):
            segment(bad, ["a", "b"])


@pytest.mark.slow
def test_from_corpora_to_the_table(run_recipe, tmp_path):
    settings = {"PROFILE": "smoke", "SMOKE_UPDATES": 1, "AVERAGE": 1, "SENTENCES": 1}
    settings.update(MODELS="scratch", LENGTH_FLAGS="--max-len-b 8")
    settings["STEPS"] = "01_prepare 02_train 05_decode 06_table"
    done = run_recipe("gec_nlpcc18", **settings)
    assert re.search(r"Transformer \(IAD\) +\| +\d+\.\d\d \| +29.4 \|", done.stdout)
    assert re.search(r"Transformer \(GAD; not the paper's\) +\| +not run \| +- \|", done.stdout)
    home = tmp_path / "work/gec_nlpcc18.smoke"
    scores = json.loads((home / "src-tgt/decoded/scores.json").read_text())
    assert scores["nlpcc18.iad"]["m2_gold"] > 10
    # What is decoded is what stock fairseq decodes.
    outputs = [
        re.findall(r"^D-.*\t(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        for path in (home / "src-tgt/decoded").glob("nlpcc18.*.out")
        if "beam_5" not in path.name
    ]
    assert len(outputs) == 4 and len(outputs[0]) > 20
    assert all(each == outputs[0] for each in outputs)


@pytest.mark.slow
def test_all_steps_run_and_resume(run_recipe, tmp_path):
    settings = {
        "PROFILE": "smoke",
        "SMOKE_UPDATES": 3,
        "AVERAGE": 2,
        "SENTENCES": 4,
        "MODELS": "all",
    }
    done = run_recipe("gec_conll14", **settings)
    home = tmp_path / "work/gec_conll14.smoke"
    scores = json.loads((home / "src-tgt/decoded/scores.json").read_text())
    assert {"conll13.iad", "conll14.gad++", "conll14_staged.iad"} <= set(scores)
    assert all("m2_f" in one for one in scores.values())
    table = (home / "src-tgt/tables.md").read_text(encoding="utf-8")
    assert "44.91" in table and "M2 F0.5 here" in table and "not run" in table
    assert "66.4" in done.stdout  # the table is printed
    again = run_recipe("gec_conll14", **settings)
    assert again.stderr.count("done before") >= 8


@pytest.mark.slow
def test_a_model_cut_out_of_bart(run_recipe, tmp_path):
    settings = {"PROFILE": "smoke", "SMOKE_UPDATES": 2, "AVERAGE": 1, "SENTENCES": 2}
    done = run_recipe("gec_conll14_bart", **settings)
    assert re.search(r"12\+2 BART-Init \(IAD\) +\| +\d+\.\d\d \| +66.4 \|", done.stdout)
    out = tmp_path / "work/gec_conll14_bart.smoke/src-tgt"
    start = torch.load(str(out / "models/start/model.pt"), weights_only=False)
    assert start["layer_selection"]["decoder_layers"] == [0, 3]
    assert json.loads((out / "decoded/scores.json").read_text())["conll14.iad"]["m2_gold"] > 10
