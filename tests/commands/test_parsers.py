"""bash completes the flags, values and files of every command, by what shtab prints."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from fairseq_specdec.commands import parsers

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What bash does when TAB is typed, without a terminal.
TAB = r"""
source "$1"; shift
complete_of=$(complete -p "$1" | sed 's/.*-F \([^ ]*\) .*/\1/')
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMPREPLY=()
"$complete_of" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """The script for all commands."""
    shtab = pytest.importorskip("shtab")
    path = tmp_path_factory.mktemp("completion") / "specdec.bash"
    scripts = [shtab.complete(parsers.completed(name), "bash") for name in parsers.COMMANDS]
    path.write_text("\n".join(scripts), encoding="utf-8")
    return path


@pytest.fixture
def tab(written, tmp_path):
    """The words that bash offers for the last of a line."""

    def offered(*words):
        done = subprocess.run(
            ["bash", "-c", TAB, "bash", str(written), *words],
            cwd=str(tmp_path), capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.split()

    return offered


@pytest.mark.parametrize(
    "words, wanted, unwanted",
    [
        ("specdec-bench --re", "--repeats --resume --remove-bpe", "--limit"),
        ("specdec-bench --strategy ga", "gad gad++", "greedy"),
        ("specdec-distill --max-length-r", "--max-length-ratio", ""),
        ("specdec-distill --on-length-limit ", "drop keep", ""),
        ("specdec-demo --strategies ", "greedy gad++ bild blockwise", "--port"),
        ("specdec-demo --alpha-", "--alpha-fb --alpha-rb", "--tau"),
        ("specdec-convert ", "drafter hf pack", ""),
        ("specdec-convert drafter --to ", "authors project", ""),
        ("specdec-trace ", "show html", ""),
        ("specdec-trace html --ti", "--title", "--color"),
        ("specdec-trace show --color ", "auto always never", ""),
        ("fairseq-generate --drafter-", "--drafter-path --drafter-dtype", ""),
        ("fairseq-interactive --drafter-dtype ", "same bf16", ""),
    ],
)
def test_flags_and_values(tab, words, wanted, unwanted):
    offered = tab(*words.split(" "))
    assert set(wanted.split()) <= set(offered) and not set(unwanted.split()) & set(offered), offered


def test_files_and_folders(tab, tmp_path):
    (tmp_path / "model.pt").touch()
    (tmp_path / "models").mkdir()
    assert tab("fairseq-generate", "--drafter-path", "mo") == ["model.pt", "models"]
    assert tab("specdec-bench", "--json", "model.") == ["model.pt"]
    assert tab("specdec-convert", "drafter", "mo") == ["model.pt", "models"]
    assert tab("specdec-distill", "--dest", "mo") == ["models"]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_shtab_s_own_command_prints_a_script(shell):
    pytest.importorskip("shtab")
    command = [sys.executable, "-m", "shtab", "--shell", shell]
    command.append("fairseq_specdec.commands.parsers.specdec_trace")
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "--title" in printed and "specdec-trace" in printed and "specdec-bench" not in printed
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=printed, text=True, check=True)
    assert not hasattr(parsers, "specdec_brew")


def test_starting_a_command_does_not_import_it(run_python):
    run_python(
        "import sys, fairseq_specdec.trace.cli, fairseq_specdec.bench.cli\n"
        "assert not {'shtab', 'fairseq_specdec.commands.parsers'} & set(sys.modules)"
    )
