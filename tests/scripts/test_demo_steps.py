"""The demo's steps as a user runs them, on a tiny text: results, resumption, provenance, errors."""

import json
import random

import pytest
from demo import corpus as demo_corpus
from recipe_parts import NAMES, REPO


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def test_splits_depend_on_the_sentences_alone_and_share_no_near_duplicate():
    pairs = [(f"Line {chr(97 + n % 26) * (n + 3)} has some words here.", "x") for n in range(90)]
    twin = ("LINE " + "a" * 3 + " has some words, here!", "y")
    splits = demo_corpus.split([*pairs, twin])
    assert splits == demo_corpus.split([*pairs[::-1], twin])
    sizes = {name: len(part) for name, part in splits.items()}
    assert sizes == {"train": 82, "valid": 4, "test": 4}
    keys = [demo_corpus.near_key(pair[0]) for part in splits.values() for pair in part]
    assert len(keys) == len(set(keys)) == 90
    with pytest.raises(ValueError, match="only 10 usable sentences"):
        demo_corpus.split(pairs[:10])


def test_clean_english_is_whole_sentences(tmp_path):
    good = ["It was a long summer in the north.", '"Is this what you mean?"']
    bad = ["too short.", "no capital begins this one here.", "It has no end at all", "A {b} c d e."]
    (tmp_path / "in").write_text("\n".join([*good, *bad, good[0]]) + "\n")
    demo_corpus.write_clean(tmp_path / "in", tmp_path / "out")
    assert lines(tmp_path / "out") == good


@pytest.mark.slow
def test_both_pairs_are_made_from_nothing(run_step, own_text, tmp_path, fairseq_command):
    """Every step with two updates of training, then stock fairseq decodes what was packed."""
    words = "summer letter about winter garden during little window without".split()
    rng = random.Random(3)
    clean = [f"The {' '.join(rng.choices(words, k=9))} {a} and {b}." for a in NAMES for b in NAMES]
    (tmp_path / "clean.en").write_text("\n".join(clean) + "\n", encoding="utf-8")
    (tmp_path / "sets").write_text("letter\tleter\nsummer\tsumer\n", encoding="utf-8")
    packed = tmp_path / "packed"
    settings = dict(
        own_text,
        EDIT_EN_FILE=tmp_path / "clean.en",
        CONFUSION_SETS=tmp_path / "sets",
        EDIT_MERGES=60,
        UPDATES=2,
        VERIFIER_UPDATES=2,
        VERIFIER_SAVE_EVERY=1,
        LIMIT=20,
        DISTILL_FLAGS="--on-length-limit keep",  # so little training teaches no </s>
        DRAFTER_UPDATES=2,
        EDIT_UPDATES=2,
        SAVE_EVERY=1,
        DRAFTER_SAVE_EVERY=1,
        AVERAGE=2,
        DEST=packed / "demo_ende",
        EDIT_DEST=packed / "demo_edit",
    )
    run_step(**settings)
    for pair, first, second in (("ende", "en", "de"), ("edit", "src", "tgt")):
        folder = packed / f"demo_{pair}"
        assert (folder / "codes").is_file()
        assert len(lines(folder / f"heldout.{first}")) == 5
        record = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        assert str(tmp_path) not in json.dumps(record)
        out, _ = fairseq_command(
            "generate", folder, "--cpu", "-s", first, "-t", second, "--beam", 1,
            "--path", folder / "verifier.pt", "--max-len-b", 10, "--num-workers", 0,
            "--user-dir", REPO / "fairseq_specdec",
        )  # fmt: skip
        assert sum(line.startswith("H-") for line in out.splitlines()) == 5
    work = tmp_path / "work"
    source, target = lines(work / "edit/train.src"), lines(work / "edit/train.tgt")
    assert set(target) < set(clean)
    assert 0.5 < sum(a != b for a, b in zip(source, target)) / len(source) < 1
    assert any("leter" in line for line in source)
    assert lines(work / "bin/edit/dict.src.txt") == lines(work / "bin/edit/dict.tgt.txt")
    assert sum(f.stat().st_size for f in packed.rglob("*.pt")) > 1_000_000
    again = run_step(**settings)
    assert again.stderr.count("done before") == 11


def test_texts_of_different_length_are_refused(run_step, own_text):
    german = own_text["DE_FILE"]
    german.write_text(german.read_text(encoding="utf-8") + "Noch einer.\n", encoding="utf-8")
    done = run_step("01_corpus", check=False, **own_text)
    assert done.returncode != 0
    assert "300 lines" in done.stderr and "301" in done.stderr
