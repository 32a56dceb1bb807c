"""Whatever reads a file names it where it holds something else, in one line."""

import re
import shutil

import pytest
from hf_folders import STORED
from in_process import refused
from pairwise import half
from toy_pair import write_pair

from fairseq_specdec.conversion.hf.convert import convert
from fairseq_specdec.hub import SpeculativeTranslator

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 9\n"
PAGE = b"\n<!DOCTYPE html>\n<html>Sign in"
DAMAGES = {
    "pointer": (lambda data: POINTER, "is a Git LFS pointer; run git lfs pull"),
    "page": (lambda data: PAGE, "is a web page, not .*; download it again"),
    "empty": (lambda data: b"", "is empty"),
    "truncated": (lambda data: data[: len(data) // 2], ""),
}
# The folder, the file, and what is passed to read it, with the folder's path instead of {}.
READ = [
    ("toy", "verifier.pt", {}),
    ("toy", "drafter.pt", {"strategy": "gad"}),
    ("toy", "dict.tgt.txt", {}),
    ("toy", "codes", {"bpe": "auto"}),
    ("toy", "pieces.model", {"bpe_codes": "{}/pieces.model", "bpe": "auto"}),
    *(("nllb", name, None) for name in ("model.safetensors", "sentencepiece.bpe.model")),
    *(("marian", name, None) for name in ("pytorch_model.bin", "source.spm", "config.json")),
]
COMMANDS = ["--path verifier.pt", "--path other.pt:verifier.pt",
            "--path other.pt --bpe subword_nmt --bpe-codes codes",
            "--path other.pt --bpe sentencepiece --sentencepiece-model pieces.model"]  # fmt: skip


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The toy pair, with files of every kind beside it."""
    for package in ("safetensors", "sentencepiece"):
        pytest.importorskip(package)
    folder = write_pair(tmp_path_factory.mktemp("pair"))
    (folder / "codes").write_text("#version: 0.2\nw 1</w>\nw 2</w>\n", encoding="utf-8")
    shutil.copy(STORED / "nllb" / "sentencepiece.bpe.model", folder / "pieces.model")
    return folder


def damage_file(path, damage):
    """Returns what is said of it."""
    change, message = DAMAGES[damage]
    path.write_bytes(change(path.read_bytes()))
    return message


@pytest.mark.parametrize("damage, read", half([*DAMAGES], READ))
def test_the_file_is_named(pair, tmp_path, read, damage):
    where, name, given = read
    folder = shutil.copytree(pair if where == "toy" else STORED / where, tmp_path / "model")
    message = damage_file(folder / name, damage)
    with pytest.raises(ValueError, match=rf"^.*{folder / name}\b.*{message}.*\Z"):
        if given is None:
            convert(str(folder), str(tmp_path / "out"), None, None, True)
        else:
            more = {key: value.format(folder) for key, value in given.items()}
            more = {"bpe": None, "device": "cpu", "strategy": "greedy", **more}
            SpeculativeTranslator.from_pretrained(folder, **more).translate("w1 w2")


@pytest.mark.parametrize("damage, flags", [*zip(DAMAGES, COMMANDS)])
def test_a_command_of_fairseq_names_the_file(pair, tmp_path, monkeypatch, flags, damage):
    monkeypatch.chdir(shutil.copytree(pair, tmp_path / "model"))
    name = re.findall(r"verifier\.pt|codes$|pieces\.model", flags)[0]
    message = damage_file(tmp_path / "model" / name, damage)
    given = [".", "--task", "translation_specdec", "-s", "src", "-t", "tgt", "--cpu"]
    given += ["--input", "test.src-tgt.src", *flags.split()]
    line = refused("fairseq-interactive", given)
    said = rf"fairseq-interactive: error: (--[\w-]+ )?{name}: .*{message}"
    assert re.match(said, line) and "\n" not in line, line
