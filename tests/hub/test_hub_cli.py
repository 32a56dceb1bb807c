"""``specdec-translate``: a line for each line, whatever they hold."""

import contextlib
import os

import pytest

from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.hub.cli import cli_main

TEXT = "Open the file. Save it.\n\n\u200b\n- Close the window.\r\n" + "w" * 5000 + "\nExit.\n"


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        cli_main(["demo_ende", "--device", "cpu", *map(str, words)])
    return ended.value.code, capsys.readouterr()


def test_each_line_is_translated(capsys, caplog, tmp_path):
    (tmp_path / "in.en").write_text(TEXT, encoding="utf-8", newline="\n")
    words = (tmp_path / "in.en", "--lines", 2, "--strategy", "greedy", "--beam", 2)
    status, printed = run(capsys, *words)
    with SpeculativeTranslator.from_pretrained("demo_ende", strategy="greedy", beam=2) as mine:
        texts = [line.rstrip("\r") for line in TEXT.split("\n")[:-1]]
        expected = [each.text for each in mine.translate(texts, on_error="skip")]
    assert printed.out.split("\n") == [*expected, ""] and expected[1:3] == ["", ""]
    warned = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert status == 1 and len(warned) == 1 and warned[0].startswith("line 5: left empty: ")
    status, printed = run(capsys, *words, "-o", tmp_path / "out.de")
    assert (tmp_path / "out.de").read_text(encoding="utf-8").split("\n") == [*expected, ""]
    assert printed.out == ""


def test_lines_are_decoded_whole_where_asked(capsys, tmp_path):
    (tmp_path / "in").write_text("Save. As.\n")
    outputs = [run(capsys, tmp_path / "in", *words)[1].out for words in ((), ("--no-split",))]
    assert outputs[0] == "Speichern. Wie.\n" and outputs[1] != outputs[0]


def test_mistakes_are_one_line_and_leave_no_file(capsys, tmp_path):
    (tmp_path / "bad").write_bytes(b"Open.\n\xff\n")
    for words, said in (
        ((tmp_path / "bad", "-o", tmp_path / "out"), "bad: is not UTF-8 text (byte 0xff)"),
        ((tmp_path / "none",), "No such file"),
        (("--top-beta", 0, "--strategy", "gad++"), "--top-beta 0: must be 1 or more"),
    ):
        status, _ = run(capsys, *words)
        assert str(status).startswith("specdec-translate: error: ") and said in str(status)
    assert [each.name for each in tmp_path.iterdir()] == ["bad"]
    with pytest.raises(SystemExit):
        cli_main([])
    assert "required: MODEL; see specdec-translate" in capsys.readouterr().err


def test_a_reader_that_leaves_ends_it_quietly(tmp_path):
    (tmp_path / "in").write_text("Open the file.\n")
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as left, contextlib.redirect_stdout(left):
        with pytest.raises(SystemExit) as ended:
            cli_main(["demo_ende", str(tmp_path / "in"), "--device", "cpu"])
    assert ended.value.code == 0
