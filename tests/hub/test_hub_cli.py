"""``specdec-translate``: a line for each line, whatever they hold."""

import contextlib
import json
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


def test_processes_share_the_work_and_keep_the_order(capsys, tmp_path):
    (tmp_path / "in").write_text("".join(f"Open file {i}.\n" for i in range(11)) + "w" * 5000)
    outputs = [
        run(capsys, tmp_path / "in", "--lines", 2, "--strategy", "greedy", "--workers", workers)
        for workers in (1, 2)
    ]
    assert outputs[0][0] == outputs[1][0] == 1 and outputs[0][1].out == outputs[1][1].out
    assert outputs[0][1].out.count("\n") == 12


def test_lines_of_json(capsys, tmp_path):
    (tmp_path / "in").write_text(f"Exit.\n{'w' * 5000}\n")
    _, printed = run(capsys, tmp_path / "in", "--json", "--beam", 2, "--nbest", 2)
    first, second = map(json.loads, printed.out.splitlines())
    assert first["source"] == "Exit." and first["text"] == "Beenden." and first["score"] < 0
    assert len(first["alternatives"]) == 1 and first["error"] is None and first["iterations"] > 0
    assert second["text"] == "" and "tokens" in second["error"]


def test_what_was_interrupted_goes_on(capsys, tmp_path, monkeypatch):
    lines = ["Open.", "Save.", "Exit.", "Close.", "Open the file."]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    words = (tmp_path / "in", "--lines", 2, "-o", tmp_path / "out")
    assert run(capsys, *words)[0] == 0
    whole = (tmp_path / "out").read_text()
    translate, calls = SpeculativeTranslator.translate, []

    def interrupted(self, texts, **more):
        calls.append(texts)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return translate(self, texts, **more)

    with monkeypatch.context() as patched:
        patched.setattr(SpeculativeTranslator, "translate", interrupted)
        assert run(capsys, *words[:-1], tmp_path / "new", "--resume")[0] != 0
    assert not (tmp_path / "new").exists()
    partial = tmp_path / "new.partial"
    assert partial.read_text() == "".join(whole.splitlines(True)[:2])
    partial.write_text(partial.read_text() + "Bee")  # killed while it wrote
    del calls[:]
    with monkeypatch.context() as patched:
        patched.setattr(
            SpeculativeTranslator, "translate",
            lambda self, texts, **more: calls.extend(texts) or translate(self, texts, **more),
        )  # fmt: skip
        assert run(capsys, *words[:-1], tmp_path / "new", "--resume")[0] == 0
    assert (tmp_path / "new").read_text() == whole and not partial.exists()
    assert calls == lines[2:]
    status, _ = run(capsys, tmp_path / "in", "--resume")
    assert "--resume: continues a file; name it by --output" in status
