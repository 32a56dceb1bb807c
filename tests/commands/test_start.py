"""The console scripts answer --help at once, with the text of the commands' own parsers.

``SPECDEC_UPDATE=1`` writes the texts anew.
"""

import argparse
import contextlib
import functools
import os
import re
import signal
import sys
import time

import pytest
from in_process import PLUGIN

from fairseq_specdec.commands import parsers, start

WIDTH = 96
FAIRSEQ = (
    "All flags of fairseq-generate hold too (fairseq-generate --help), and those of --task "
    "translation_specdec (specdec-flags)."
)
PROGRAMS = sorted(start.MODULES)
# Groups of flags that are not fairseq's, and the usage.
OWN = {
    "specdec-bench": (
        ("Benchmark", "Replay"),
        "specdec-bench DATA --path VERIFIER --system 'NAME: FLAGS' [flags]",
    ),
    "specdec-distill": (
        ("Sequence-level distillation",),
        "specdec-distill DATA --path TEACHER --dest FOLDER [flags]",
    ),
}


def own_help(parser, groups=(), usage=""):
    """The text of --help: of all flags, or of its own groups where the others are fairseq's."""
    wide = functools.partial(argparse.HelpFormatter, width=WIDTH)
    if not groups:
        if parser.formatter_class is argparse.HelpFormatter:
            parser.formatter_class = wide
        return parser.format_help()
    formatter = wide(parser.prog)
    formatter.add_usage(usage, [], [])
    formatter.add_text(parser.description)
    for group in parser._action_groups:
        if group.title in groups:
            formatter.start_section(group.title)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
    formatter.add_text(FAIRSEQ)
    return formatter.format_help()


def made(program, monkeypatch):
    monkeypatch.setenv("COLUMNS", "96")
    parser = parsers.COMMANDS[program]()
    parser.prog = program
    return own_help(parser, *OWN.get(program, ()))


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse words its help otherwise")
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_text_is_that_of_the_parser(program, monkeypatch):
    path = os.path.join(start.FOLDER, f"{program}.txt")
    text = made(program, monkeypatch)
    if os.environ.get("SPECDEC_UPDATE"):
        os.makedirs(start.FOLDER, exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
    with open(path, encoding="utf-8") as stream:
        assert stream.read() == text, "SPECDEC_UPDATE=1 writes it anew"


@pytest.mark.parametrize("program", PROGRAMS)
def test_own_flags_come_first(program):
    with open(os.path.join(start.FOLDER, f"{program}.txt"), encoding="utf-8") as stream:
        text = stream.read()
    assert text.startswith("usage: " + program) and "tensorboard" not in text
    flags = re.findall(r"^  (?:-\w, )?(--[\w-]+)", text, flags=re.M)
    expected = {"specdec-bench": "--system", "specdec-distill": "--dest"}
    assert expected.get(program, flags[0] if flags else "") in (flags or [""])


@pytest.mark.parametrize(
    "words, begins",
    [
        ("bench data --help", "usage: specdec-bench"),
        ("bench data -h", "usage: specdec-bench"),
        ("env --user-dir", f"{PLUGIN}\n"),
    ],
)
def test_some_answers_need_neither_torch_nor_fairseq(run_python, words, begins):
    printed = run_python(
        "import sys\n"
        f"sys.argv = 'specdec-{words}'.split()\n"
        "from fairseq_specdec.commands import start\n"
        f"start.{words.split()[0]}()\n"
        "assert not {'torch', 'fairseq', 'numpy'} & set(sys.modules)"
    )
    assert printed.startswith(begins)


def test_other_words_reach_the_command(monkeypatch):
    came = []
    monkeypatch.setattr("fairseq_specdec.decoding.listed_flags.cli_main", lambda: came.append(1))
    start.start("specdec-flags", ["gad"])
    assert came == [1]


def test_a_subcommand_has_its_own_help(monkeypatch):
    came = []
    monkeypatch.setattr("fairseq_specdec.trace.cli.cli_main", lambda: came.append(time.time()))
    start.start("specdec-trace", ["show", "--help"])
    assert came


def test_every_script_of_setup_is_known():
    with open(os.path.join(os.path.dirname(PLUGIN), "setup.py"), encoding="utf-8") as stream:
        scripts = re.findall(r'"(specdec-[\w-]+) = fairseq_specdec\.([\w.]+):(\w+)"', stream.read())
    assert {name for name, _, _ in scripts} == set(PROGRAMS)
    for name, module, function in scripts:
        assert module == "commands.start" and function == name[len("specdec-") :]
        assert callable(getattr(start, function))


def test_ctrl_c_while_it_loads_is_one_line(monkeypatch, capsys):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(start.importlib, "import_module", interrupted)
    with pytest.raises(SystemExit) as ended:
        start.start("specdec-bench", ["data"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "\nspecdec-bench: stopped (Ctrl-C)\n"


def test_ctrl_c_that_an_import_turns_into_another_error_is_one_line(monkeypatch, capsys):
    """numpy's, which is then half loaded."""

    def interrupted(name):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise AttributeError("module 'numpy._core' has no attribute '_multiarray_umath'")

    monkeypatch.setattr(start.importlib, "import_module", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as ended:
        start.start("specdec-trace", ["show", "x"])
    assert ended.value.code == 130 and "stopped (Ctrl-C)" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before
