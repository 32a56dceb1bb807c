"""The demo's steps as a user runs them, on a tiny text: results, resumption, provenance, errors."""

import json
import random
import shutil

import pytest
from recipe_parts import NAMES, NOUNS, REPO


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def prepared(run_step, own_text, tmp_path):
    """A work folder after the first two steps."""
    run_step("01_corpus", **own_text)
    run_step("02_prepare", **own_text)
    return tmp_path / "work"


@pytest.mark.slow
def test_text_becomes_a_binarised_corpus_in_steps_that_resume(
    prepared, run_step, own_text, tmp_path
):
    assert len(lines(prepared / "ende/test.en")) == len(lines(prepared / "ende/test.de")) > 0
    held = lines(prepared / "heldout/heldout.en")
    assert len(held) == 5
    assert not set(held) & set(lines(prepared / "ende/train.en"))
    # As fairseq's --tokenizer moses writes it: escaped, commas apart.
    assert " , " in lines(prepared / "prepared/test.tok.en")[0]
    assert len(lines(prepared / "prepared/codes")) == 61
    binarised = prepared / "bin/ende"
    assert lines(binarised / "dict.en.txt") == lines(binarised / "dict.de.txt")

    record = json.loads((binarised / "provenance.json").read_text(encoding="utf-8"))
    assert record["step"] == "02_prepare"
    assert any("learn-bpe -s 60" in command for command in record["commands"])
    assert str(tmp_path) not in json.dumps(record)
    assert len(record["outputs"]["$WORK/prepared/codes"]["sha256"]) == 64

    kept = ("prepared/codes", "prepared/test.bpe.en", "bin/ende/train.en-de.en.bin")
    before = [(prepared / name).stat().st_mtime_ns for name in kept]
    done = run_step("02_prepare", **own_text)
    assert "done before" in done.stderr

    # A kill in the middle of a file leaves its partial name and no record.
    bpe = prepared / "prepared/test.bpe.de"
    content = bpe.read_bytes()
    (binarised / "provenance.json").unlink()
    bpe.rename(prepared / "prepared/test.bpe.de.partial")
    run_step("02_prepare", **own_text)
    assert bpe.read_bytes() == content
    assert (binarised / "provenance.json").is_file()
    assert [(prepared / name).stat().st_mtime_ns for name in kept] == before


def test_results_of_other_inputs_are_not_passed_off(run_step, own_text, tmp_path):
    run_step("01_corpus", **own_text)
    english = own_text["EN_FILE"]
    english.write_text(english.read_text(encoding="utf-8").replace("Anna", "Anne"), "utf-8")
    done = run_step("01_corpus", check=False, **own_text)
    assert done.returncode != 0
    assert "own.en" in done.stderr and "delete the folder" in done.stderr


@pytest.mark.slow
def test_the_editing_corpus_has_errors_and_one_dictionary(run_step, own_text, tmp_path):
    work = tmp_path / "work"
    rng = random.Random(2)
    clean = [
        f"{rng.choice(NAMES)} wrote a letter on the {rng.choice(NOUNS)[0]} about {first} and "
        f"{second} during the summer."
        for first in NAMES
        for second in NAMES
        if first != second
    ]
    (tmp_path / "clean.en").write_text("\n".join(clean) + "\n", encoding="utf-8")
    (tmp_path / "wrong.txt").write_text("leter->letter\nsumer->summer\n", encoding="utf-8")
    settings = dict(
        own_text, EDIT_EN_FILE=tmp_path / "clean.en", MISSPELLINGS=tmp_path / "wrong.txt"
    )
    run_step("01_corpus", **settings)
    run_step("edit_01_corpus", **settings)
    source, target = lines(work / "edit/train.src"), lines(work / "edit/train.tgt")
    assert len(source) == len(target) and set(target) < set(clean)
    assert 0.5 < sum(a != b for a, b in zip(source, target)) / len(source) < 1
    assert any("leter" in line for line in source)
    held = lines(work / "edit_heldout/heldout.tgt")
    assert len(held) == len(lines(work / "edit_heldout/heldout.src")) == 5
    assert set(held) <= set(lines(own_text["EN_FILE"]))
    run_step("edit_02_prepare", EDIT_MERGES=60, **own_text)
    assert lines(work / "bin/edit/dict.src.txt") == lines(work / "bin/edit/dict.tgt.txt")


@pytest.mark.slow
def test_both_pairs_are_made_from_nothing(run_step, own_text, tmp_path, fairseq_command):
    """Every step with two updates of training, then stock fairseq decodes what was packed."""
    words = "summer letter about winter garden during little window without".split()
    rng = random.Random(3)
    clean = [f"The {' '.join(rng.choices(words, k=9))} {a} and {b}." for a in NAMES for b in NAMES]
    (tmp_path / "clean.en").write_text("\n".join(clean) + "\n", encoding="utf-8")
    (tmp_path / "wrong.txt").write_text("leter->letter\n", encoding="utf-8")
    packed = tmp_path / "packed"
    settings = dict(
        own_text,
        EDIT_EN_FILE=tmp_path / "clean.en",
        MISSPELLINGS=tmp_path / "wrong.txt",
        EDIT_MERGES=60,
        UPDATES=2,
        VERIFIER_UPDATES=2,
        VERIFIER_SAVE_EVERY=1,
        LIMIT=20,
        DISTILL_FLAGS="--on-length-limit keep",  # so little training teaches no </s>
        DRAFTER_UPDATES=2,
        EDIT_UPDATES=2,
        EDIT_LIMIT=20,
        EDITS_FLAGS="--least 1 --share 0.1",
        SAVE_EVERY=1,
        AVERAGE=2,
        DEST=packed / "demo_ende",
        EDIT_DEST=packed / "demo_edit",
    )
    done = run_step(**settings)
    assert "the packed pairs" in done.stderr
    for pair, first, second in (("ende", "en", "de"), ("edit", "src", "tgt")):
        folder = packed / f"demo_{pair}"
        assert (folder / "LICENSE.md").is_file() and (folder / "codes").is_file()
        assert len(lines(folder / f"heldout.{first}")) == 5
        record = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        assert str(tmp_path) not in json.dumps(record)
        out, _ = fairseq_command(
            "generate", folder, "--cpu", "-s", first, "-t", second, "--beam", 1,
            "--path", folder / "verifier.pt", "--max-len-b", 10, "--num-workers", 0,
            "--user-dir", REPO / "fairseq_specdec",
        )  # fmt: skip
        assert sum(line.startswith("H-") for line in out.splitlines()) == 5
    assert len(lines(packed / "demo_edit/edits.tsv")) > 1
    assert sum(f.stat().st_size for f in packed.rglob("*.pt")) > 1_000_000
    again = run_step(**settings)
    assert again.stderr.count("done before") == 13


def test_a_machine_without_apt_gets_a_remedy(run_step, tmp_path):
    """Only Python and the tools of any Unix are on PATH."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "basename", "nproc", "mkdir", "env", "uname"):
        (tools / name).symlink_to(shutil.which(name))
    done = run_step("01_corpus", check=False, PATH=tools)
    assert done.returncode != 0
    assert "apt-get" in done.stderr and "EN_FILE" in done.stderr
    assert "Traceback" not in done.stderr


def test_texts_of_different_length_are_refused(run_step, own_text):
    german = own_text["DE_FILE"]
    german.write_text(german.read_text(encoding="utf-8") + "Noch einer.\n", encoding="utf-8")
    done = run_step("01_corpus", check=False, **own_text)
    assert done.returncode != 0
    assert "300 lines" in done.stderr and "301" in done.stderr
