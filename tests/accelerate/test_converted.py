"""``specdec-accelerate`` with folders that specdec-convert hf wrote, from plain text alone."""

import json
import os

import pytest
from hf_folders import converted, expected_of, languages_of, spoken
from printed_commands import run_printed

from fairseq_specdec.accelerate import cli
from fairseq_specdec.accelerate.commands import further
from fairseq_specdec.accelerate.measuring import Best, place
from fairseq_specdec.hub import SpeculativeTranslator

BRIEF = (
    "--updates", 6, "--limit", 40, "--eval-sentences", 8, "--measure-sentences", 8,
    "--decode-beam", 1, "--batch-sizes", 1,
)  # fmt: skip


@pytest.fixture
def accelerate(tmp_path, monkeypatch, small_steps):
    """Convert a stored folder and run the command on it; its words end with what is given."""
    monkeypatch.chdir(tmp_path)

    def run(family, *words):
        if not (tmp_path / family).exists():
            converted(family, tmp_path / family)
            for name, count in (("train", 120), ("valid", 20)):
                text = "".join(f"{line}\n" for line in spoken(family, count))
                (tmp_path / f"{name}.{languages_of(family)[0]}").write_text(text, encoding="utf-8")
        given = [family, "--out", "fast", "--cpu", "--trainpref", "train", "--validpref", "valid"]
        cli.cli_main(list(map(str, [*given, *words])))
        return tmp_path / family

    return run


def test_plain_text_alone_makes_a_drafter(accelerate, stopped_in_training, tmp_path):
    """Stopped in training; the same command goes on. Then Python finds the drafter by itself."""
    family = "nllb"
    with stopped_in_training():
        accelerate(family, *BRIEF)
    out = accelerate(family, *BRIEF)
    steps = json.loads((tmp_path / "fast" / "state.json").read_text(encoding="utf-8"))["steps"]
    assert steps["distil"]["counts"]["chosen"] == 40 and steps["distil"]["counts"]["kept"] > 30
    assert steps["train"]["updates"] == 6 and len(steps["train"]["history"]) == 2
    (rows,) = steps["measure"]["rows"].values()
    assert rows["gad"]["identical_percent"] == rows["greedy"]["identical_percent"] == 100

    source, target = languages_of(family)
    facts = expected_of(family)
    given = dict(source_lang=source, target_lang=target, device="cpu")
    drafted = SpeculativeTranslator.from_pretrained(out, draft_budget=0, strategy="gad", **given)
    translations = drafted.translate(facts["sources"])
    assert [each.text for each in translations] == facts["outputs"]
    assert drafted.generator.parts().drafter.model.word_list is not None
    assert sum(sum(each.drafted) for each in translations) > 100
    noted = json.loads((out / "fastest.json").read_text(encoding="utf-8"))["pairs"]
    way = noted[f"{source}-{target}"]["1"]
    assert SpeculativeTranslator.from_pretrained(out, **given).strategy == way
    report = tmp_path / "fast" / "report.html"
    assert run_printed(report) == ["specdec-translate", "specdec-serve"]


def test_one_drafter_for_several_pairs(accelerate, stopping, tmp_path):
    """One text for each source language; the languages of the model, not of a training."""
    with stopping.here():
        accelerate("m2m_100", *BRIEF, "--lang-pairs", "en-de,en-fr")
    job = stopping.jobs[0]
    assert job.pairs == ["en-de", "en-fr"] and "--decoder-langtok" in job.task
    for pair in job.pairs:
        assert (tmp_path / "fast" / "binarised" / f"valid.{pair}.{pair[3:]}.idx").is_file()
        assert (tmp_path / "fast" / "binarised" / f"train.{pair}.en.idx").is_file()
    pieces = (tmp_path / "fast" / "pieces" / "valid.en").read_text(encoding="utf-8")
    assert "\u2581" in pieces and "__en__" not in pieces and "</s>" not in pieces


@pytest.mark.parametrize(
    "family, words, message",
    [
        ("nllb", ("-s", "eng"), "--source-lang eng: none of the .* near it are eng_Latn"),
        ("m2m_100", ("--lang-pairs", "en-de,en-fra"), "--target-lang fra: none .* near it are fr$"),
        ("marian", ("-t", "de"), "--target-lang de: the model's is yy"),
        ("marian", ("--lang-pairs", "xx-yy"), "the verifier has one pair; leave it out"),
    ],
)  # fmt: skip
def test_languages_that_the_model_lacks(accelerate, family, words, message):
    with pytest.raises(SystemExit, match=message):
        accelerate(family, *BRIEF, *words)


@pytest.mark.parametrize(
    "text, message",
    [
        ("\n \n", "train.xx: holds no text; give one sentence a line"),
        (None, "train.xx: no such file; --trainpref and --validpref name texts"),
    ],
)
def test_texts_of_no_use(accelerate, text, message, tmp_path):
    with pytest.raises(SystemExit, match="--limit 0"):
        accelerate("marian", "--limit", 0)
    path = tmp_path / "train.xx"
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit, match=message):
        accelerate("marian", *BRIEF)


def test_a_server_decodes_the_fastest_way(job_of, tmp_path):
    """Not with a drafter that does not pay, though it lies beside the verifier."""
    for way, placed, end in (
        ("gad", "m/drafter.pt", "gad --drafter-path m/drafter.pt"), ("greedy", None, "greedy"),
        ("gad", None, "gad --drafter-path out/drafter.pt"),
    ):  # fmt: skip
        job = job_of(tmp_path)
        job.converted, job.placed, job.out = "m", placed, "out"
        command = f"specdec-serve m -s s -t t --strategy {end}"
        assert further(job, {"s-t": way}) == [("serve", command)]


def test_the_fastest_for_one_sentence_is_noted(job_of, tmp_path):
    """And nothing where batches alone were measured."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "drafter.pt").write_bytes(b"d")
    uses = [(1, 1, "greedy"), (1, 5, "gad"), (8, 1, "gad"), (8, 5, "greedy")]
    for sizes in ((8,), (1, 8)):
        job = job_of(tmp_path / "out", batch_sizes=sizes)
        job.converted = str(tmp_path)
        place(job, [Best("s-t", *use) for use in uses])
        assert (tmp_path / "fastest.json").exists() is (1 in sizes)
    noted = json.loads((tmp_path / "fastest.json").read_text(encoding="utf-8"))
    assert noted["pairs"] == {"s-t": {"1": "greedy", "5": "gad"}}


def test_another_drafter_beside_the_verifier_stays(job_of, tmp_path):
    """One of an earlier run of the same job is replaced."""
    beside, made = tmp_path / "drafter.pt", tmp_path / "out" / "drafter.pt"
    beside.write_bytes(b"theirs")
    made.parent.mkdir()
    job = job_of(made.parent, batch_sizes=(8,))
    job.converted = str(tmp_path)
    for text, kept in ((b"first", b"theirs"), (b"first", b"first"), (b"second", b"second")):
        made.write_bytes(text)
        place(job, [])
        assert job.placed == (None if kept == b"theirs" else os.path.relpath(beside))
        assert beside.read_bytes() == kept
        if kept == b"theirs":
            beside.unlink()
