"""Which errors are a user's, and how they are shown; faults keep their traceback."""

import contextlib
import errno
import logging
import os
import signal
import sys
import types

import pytest
from fairseq_cli.interactive import buffered_read

from fairseq_specdec.commands import in_fairseq, own
from fairseq_specdec.commands.one_line import one_line, raiser, with_flag
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import check_settings


def error_of(call, *arguments):
    try:
        call(*arguments)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def refused():
    """By a raise statement of this package."""
    return error_of(check_settings, decoding_settings(strategy="gadd"))


def fault():
    """Out of an expression in this package, not by a raise statement."""
    return error_of(with_flag, None, ["--path", "a.pt"])


def test_a_raise_statement_of_the_package_is_a_mistake_of_the_user():
    assert raiser(refused()) == "fairseq_specdec"
    assert one_line(refused()).startswith("--strategy gadd: unknown")
    assert "\n" not in one_line(refused())


def test_whatever_else_goes_wrong_is_a_fault():
    for error in (fault(), error_of(int, "x"), error_of(lambda: 1 / 0), error_of(eval, "[][1]")):
        assert raiser(error) != "fairseq_specdec" and one_line(error) is None


def test_files_and_fairseq_decide_where_more_is_known():
    from fairseq.data import Dictionary

    assert "SPECDEC_TRACEBACK=1" in one_line(error_of(open, "/no/file"))
    dictionary = Dictionary()
    dictionary.add_symbol("word")
    error = error_of(dictionary.add_from_file, "/no/dict.txt")
    assert "/no/dict.txt" in one_line(error)


def full(*filename):
    raise OSError(errno.ENOSPC, "No space left on device", *filename)


def test_a_full_disk_is_reported_with_what_was_written():
    words = ["data", "--results-path", "out"]
    assert ": while writing to --results-path out; free some" in one_line(error_of(full), words)
    assert one_line(error_of(full), ["d", "--save-dir", "s"]).count("writing to --save-dir s;") == 1
    assert ": while writing to standard output; free some" in one_line(error_of(full))
    assert "standard output" not in one_line(error_of(full, "named"))


@pytest.mark.parametrize(
    "name, message",
    [
        ("gone", "cannot be read (No such file or directory); name a file of sentences"),
        (".", "cannot be read (Is a directory); name a file of sentences"),
        ("unreadable", "cannot be read (Input/output error); name a file of sentences"),
        ("latin1", "is not UTF-8 text (byte 0xe4); convert it, for example with iconv"),
    ],
)
def test_sentences_that_cannot_be_read(name, message, tmp_path):
    (tmp_path / "latin1").write_bytes(b"w1 w\xe4rt\n")
    (tmp_path / "unreadable").symlink_to("/proc/self/mem")
    path = str(tmp_path / name)
    error = error_of(lambda: list(buffered_read(path, 1)))
    for words in (["data", "--input", path], ["data", f"--input={path}"]):
        assert one_line(error, words).startswith(f"--input {path}: {message}")


def test_standard_input_that_is_not_there(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    error = error_of(lambda: list(buffered_read("-", 1)))
    assert one_line(error, ["data"]).startswith("standard input: is closed; name a file")
    assert one_line(fault(), ["data", "--input", "-"]) is None


def test_the_flag_is_put_before_its_value():
    words = ["data", "--path", "a.pt:b.pt", "--beam", "5"]
    assert with_flag("b.pt: is a folder", words) == "--path b.pt: is a folder"
    assert with_flag("c.pt: is a folder", words) == "c.pt: is a folder"
    assert with_flag("data: no such folder", words) == "data: no such folder"
    assert with_flag("--path: is bad", ["--cpu", "--path", "a.pt"]) == "--path: is bad"


def test_own_commands_end_with_the_line(monkeypatch):
    monkeypatch.delenv("SPECDEC_TRACEBACK", raising=False)
    with pytest.raises(SystemExit, match="^specdec-x: error: --strategy gadd: unknown"):
        with own.reporting("specdec-x", []):
            raise refused()
    with pytest.raises(AttributeError):
        with own.reporting("specdec-x", []):
            with_flag(None, ["--path", "a.pt"])
    monkeypatch.setenv("SPECDEC_TRACEBACK", "1")
    with pytest.raises(ValueError, match="gadd"):
        with own.reporting("specdec-x", []):
            raise refused()


def test_ctrl_c_reports_what_is_saved(capsys):
    with pytest.raises(SystemExit) as ended:
        with own.reporting("specdec-x", [], saved=lambda words: "half is kept"):
            signal.raise_signal(signal.SIGINT)
    assert ended.value.code == own.INTERRUPTED
    assert capsys.readouterr().err.strip() == "specdec-x: stopped (Ctrl-C); half is kept"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's /dev/full")
def test_a_full_disk_under_standard_output_is_one_line(monkeypatch):
    with open("/dev/full", "w") as stream, contextlib.suppress(OSError):
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit, match="^specdec-x: error: .*Errno 28.* standard output"):
            with own.reporting("specdec-x", []):
                stream.write("figures")
        stream.flush()  # went nowhere: Python's own at the end says nothing more


def test_long_jobs_name_the_command_that_goes_on():
    from fairseq_specdec.bench import cli as bench

    assert "nothing is saved" in bench._kept(["d"])
    assert bench._kept(["d", "--json", "a b"]).endswith("specdec-bench d --json 'a b' --resume")
    assert bench._kept(["--json=x", "--resume"]).count("--resume") == 1
    assert own.again("specdec-distill", ["d", "--dest", "o o"]) == "specdec-distill d --dest 'o o'"


# ---- fairseq's commands --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "main, program",
    [
        ({"__file__": "/usr/bin/fairseq-generate"}, "fairseq-generate"),
        ({"__file__": r"/x/fairseq-train-script.py"}, "fairseq-train"),
        ({"__file__": "/site/fairseq_cli/hydra_train.py"}, "fairseq-hydra-train"),
        ({"spec": "fairseq_cli.interactive"}, "fairseq-interactive"),
        ({"__file__": "/home/me/train.py"}, None),
        ({"__file__": "/usr/bin/pytest"}, None),
        ({}, None),
    ],
)
def test_fairseqs_commands_are_known_by_the_main_module(main, program, monkeypatch):
    module = types.ModuleType("__main__")
    module.__spec__ = types.SimpleNamespace(name=main["spec"]) if "spec" in main else None
    if "__file__" in main:
        module.__file__ = main["__file__"]
    monkeypatch.setitem(sys.modules, "__main__", module)
    assert in_fairseq.fairseq_command() == program


def test_a_library_changes_nothing(monkeypatch):
    from fairseq import options

    before = sys.excepthook, options.parse_args_and_arch
    in_fairseq.install()
    assert (sys.excepthook, options.parse_args_and_arch) == before


def shown(error, capsys, monkeypatch, rank=None):
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "2")
    before = []
    hook = in_fairseq.hook_for("fairseq-train", [], lambda *args: before.append(args))
    hook(type(error), error, error.__traceback__)
    return capsys.readouterr().err, bool(before)


def test_the_hook_shows_mistakes_and_leaves_faults(capsys, monkeypatch):
    text, passed = shown(refused(), capsys, monkeypatch)
    assert text.startswith("fairseq-train: error: --strategy gadd") and not passed
    assert shown(fault(), capsys, monkeypatch) == ("", True)
    text, _ = shown(refused(), capsys, monkeypatch, rank="1")
    assert text.startswith("fairseq-train (rank 1): error: ")


def test_the_configuration_is_held_until_decoding_begins():
    class DictConfig(dict):
        pass

    records = []
    source = logging.getLogger("held")
    source.propagate, source.level = False, logging.INFO
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.msg)
    source.addHandler(handler)
    held = in_fairseq.HeldConfig(source)
    source.info(DictConfig(a=1))
    source.info("loading")
    assert records == ["loading"]
    held.release()
    assert records == ["loading", {"a": 1}]
    source.info(DictConfig(a=2))
    assert records[-1] == {"a": 2}


@pytest.mark.parametrize(
    "message, text",
    [
        ("unrecognized arguments: --tau 1", "--tau: is a flag of --task translation_specdec"),
        ("unrecognized arguments: --taus 1", "--taus: no such flag"),
        (
            "argument --task: invalid choice: 'translatoin' (choose from 'a', 'translation')",
            "--task translatoin: unknown; did you mean translation?",
        ),
    ],
)
def test_errors_of_fairseqs_parser(message, text):
    assert in_fairseq.explained(message).startswith(text)
