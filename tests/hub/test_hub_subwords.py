"""Which subword model a checkpoint is decoded with, or that it must be named."""

import contextlib
import os
import sys
from argparse import Namespace
from types import ModuleType, SimpleNamespace

import pytest
from fairseq.data import Dictionary
from toy_drafter import dictionary_of

from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.hub.loading import Loaded
from fairseq_specdec.hub.text import choose_codec
from fairseq_specdec.tasks.translation_specdec import TranslationSpecDecTask

CODES = "#version: 0.2\nh a\nu s</w>\n"
SENTENCEPIECE = ["sentencepiece.bpe.model", "sentence.bpe.model", "spm.128k.model", "source.spm"]
CODES_FILES = ["codes", "bpecodes", "code", "bpe.codes", "bpe_codes", "codes.bpe"]


class Processor:
    """Splits every character, as a model of nothing but characters does."""

    def load(self, path):
        self.path = path

    def encode(self, text, **_):
        return list("▁" + text.replace(" ", "▁"))

    Load, Encode = load, encode


@pytest.fixture(autouse=True)
def sentencepiece(monkeypatch):
    """The library's part that fairseq calls, for machines without it."""
    fake = ModuleType("sentencepiece")
    fake.SentencePieceProcessor = Processor
    monkeypatch.setitem(sys.modules, "sentencepiece", fake)


PIECES = dictionary_of("▁H", "▁", "a", "u", "s")
PARTS = dictionary_of("h@@", "aus", "haus")
WORDS = dictionary_of("w1", "w2", "@-@", "@@", "▁")


def codec(folder, words, bpe="auto", bpe_codes=None, saved=None, beside=None, target=None):
    cfg = SimpleNamespace(data=str(folder), source_lang="en", target_lang="de")
    task = SimpleNamespace(cfg=cfg, source_dictionary=words, target_dictionary=target or words)
    verifiers = [str((beside or folder) / "verifier.pt")]
    return choose_codec(Loaded(task, [], saved), verifiers, None, bpe, bpe_codes)


def put(folder, *names, text=CODES):
    for name in names:
        (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", SENTENCEPIECE + CODES_FILES)
def test_a_model_is_found_by_its_usual_names(tmp_path, name):
    put(tmp_path, name)
    pieces = name in SENTENCEPIECE
    made = codec(tmp_path, PIECES if pieces else PARTS)
    assert made.bpe_name == ("sentencepiece" if pieces else "subword_nmt")
    if pieces:
        assert made.bpe.sp.path == str(tmp_path / name)
        assert made.words(made.encode("Haus a")) == ["▁", "<unk>", *"aus", "▁", "a"]
    else:
        assert made.words(made.encode("haus"))[-1] == "<unk>"


def test_the_dictionary_decides_the_kind_and_copies_are_one(tmp_path):
    """Beside the checkpoint, too."""
    (tmp_path / "data").mkdir()
    put(tmp_path, "spm.model", text="other")
    assert codec(tmp_path / "data", PIECES, beside=tmp_path).bpe_name == "sentencepiece"
    put(tmp_path / "data", "sentencepiece.bpe.model", text="other")
    put(tmp_path / "data", "codes")
    for words, kind in ((PIECES, "sentencepiece"), (PARTS, "subword_nmt")):
        assert codec(tmp_path / "data", words, beside=tmp_path).bpe_name == kind


def test_of_several_one_must_be_named(tmp_path):
    put(tmp_path, "a.spm")
    put(tmp_path, "b.spm", text="other")
    with pytest.raises(ValueError, match=r"^--bpe: .*a\.spm, .*b\.spm\); name .*--bpe-codes"):
        codec(tmp_path, PIECES)
    named = codec(tmp_path, PIECES, bpe_codes=str(tmp_path / "b.spm"))
    assert named.bpe_name == "sentencepiece" and named.bpe.sp.path.endswith("b.spm")
    choice = {"bpe": "sentencepiece", "sentencepiece_model": str(tmp_path / "a.spm")}
    assert codec(tmp_path, PIECES, bpe=choice).bpe.sp.path.endswith("a.spm")
    put(tmp_path, "codes")
    assert codec(tmp_path, PIECES, "subword_nmt").bpe_name == "subword_nmt"


@pytest.mark.parametrize("words, shown", [(PIECES, "'▁H'"), (PARTS, "'h@@'")])
def test_subwords_without_their_model_are_refused(tmp_path, words, shown):
    with pytest.raises(ValueError, match=f"^--bpe: .*{shown}.*with --bpe-codes, .*--bpe none"):
        codec(tmp_path, words)
    assert codec(tmp_path, words, bpe=None).bpe is None is codec(tmp_path, WORDS).bpe
    gone = str(tmp_path / "gone")
    put(tmp_path, "codes")
    for choice in ({"bpe_codes": gone}, {"bpe": {"bpe": "subword_nmt", "bpe_codes": gone}}):
        with pytest.raises(ValueError, match="^--bpe 'subword_nmt': .*gone"):
            codec(tmp_path, words, **choice)
    with pytest.raises(ValueError, match="^--bpe-codes: --bpe is 'bytes'"):
        codec(tmp_path, words, bpe="bytes", bpe_codes="codes")


@pytest.mark.parametrize("kind, flag", [("subword_nmt", "bpe_codes"), ("fastbpe", "bpe_codes"),
                                        ("sentencepiece", "sentencepiece_model")])  # fmt: skip
def test_what_a_checkpoint_names_may_have_moved(tmp_path, kind, flag, monkeypatch):
    fast = ModuleType("fastBPE")
    fast.fastBPE = lambda path: None
    monkeypatch.setitem(sys.modules, "fastBPE", fast)
    saved = {"bpe": {"_name": kind, flag: "/gone/file"}}
    with pytest.raises(ValueError, match=f"^--bpe: .*{kind}.*/gone/file.*with --bpe-codes"):
        codec(tmp_path, WORDS, saved=saved)
    put(tmp_path, "spm.model", "codes")
    assert codec(tmp_path, WORDS, saved=saved).bpe_name == kind


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda path: path.symlink_to("/dev/zero"), "is no regular file"),
        (os.mkfifo, "is no regular file"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_text("#version: 0.2\na b c d\n"), "exactly two subword units"),
    ],
    ids=["device", "pipe", "empty", "odd"],
)
def test_a_file_that_is_no_subword_model_is_named(tmp_path, make, message):
    """A device was read without end; what subword-nmt refuses was refused without the file."""
    path = tmp_path / "odd"
    make(path)
    choices = [{"bpe_codes": path}, {"bpe": {"bpe": "subword_nmt", "bpe_codes": str(path)}}]
    if "is " in message:
        choices.append({"bpe": {"bpe": "sentencepiece", "sentencepiece_model": str(path)}})
    for choice in choices:
        with pytest.raises(ValueError, match=rf"^--bpe '\w+': {path}: .*{message}"):
            codec(tmp_path, WORDS, **choice)


OWN, OTHER = ([a + b for a in "abcdefgh" for b in other] for other in ("abcdefgh", "ijklmnopqr"))


def merges(*parts):
    return "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in parts)


@pytest.mark.parametrize(
    "text, source, target, message",
    [
        (merges(*OWN, *OTHER), OWN, OTHER, None),
        (merges(*OWN), OWN + OTHER, None, None),
        (merges(*OWN), OTHER[:19], None, None),
        (merges(*OWN), OTHER, OWN, "is of another model, its merges make 0 of 80 subwords"),
        (merges(*OWN), OWN + OTHER, OTHER, "make 64 of 144 "),
        (merges(*OWN[:40]).rstrip(), OWN, None, "make 40 of 64 .* its end is missing"),
        ("".join(f"{a}@@ 7\n" for a in OWN), OWN, None, "is a dictionary, not BPE codes"),
    ],
    ids=["joint", "apart", "few", "other", "one side", "cut", "dict"],
)
def test_codes_are_those_of_the_dictionary(tmp_path, text, source, target, message):
    """In Python, and in fairseq's commands by ``--bpe-codes``."""
    put(tmp_path, "codes", text=text)
    either = message is None or source is OTHER  # they are the target's
    source, target = (dictionary_of(*(each + "@@" for each in side or source))
                      for side in (source, target))  # fmt: skip
    task = TranslationSpecDecTask(TranslationSpecDecConfig(), source, target)
    flags = Namespace(bpe="subword_nmt", bpe_codes=str(tmp_path / "codes"), bpe_separator="@@")
    for build, sound in (
        (lambda: codec(tmp_path, source, target=target), message is None),
        (lambda: task.build_bpe(flags), either),  # of a command that prints the target alone
    ):
        with contextlib.nullcontext() if sound else pytest.raises(ValueError, match=message):
            assert build() is not None


@pytest.mark.parametrize(
    "text", ["\ufeff" + CODES, "h a 17\nu s</w> 5\n", "\ufeffh a 1\nu s</w> 1\n"],
    ids=["mark", "fastbpe", "both"],
)  # fmt: skip
def test_a_mark_and_counts_change_no_word(tmp_path, text):
    put(tmp_path, "codes", text=text)
    words = dictionary_of("ha@@", "us", "h@@")
    put(tmp_path, "dict.txt", text="\ufeffha@@ 5\nus 4\nh@@ 3\n")
    assert Dictionary.load(str(tmp_path / "dict.txt")).symbols == words.symbols
    made = codec(tmp_path, words)
    assert made.words(made.encode("haus")) == ["ha@@", "us"]
