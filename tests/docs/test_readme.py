"""README says only what is there: its commands parse, its paths exist, its defaults are true."""

import argparse
import functools
import pathlib
import re
import shlex

import pytest
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_specdec import compat, convert
from fairseq_specdec.bench import quickstart, replay_flags, session
from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.criterions import GlancingBlockLossConfig
from fairseq_specdec.data import distill
from fairseq_specdec.demo import cli as demo_cli
from fairseq_specdec.generation.builder import REFUSED, STRATEGIES
from fairseq_specdec.models.drafter_config import SpecDrafterConfig
from fairseq_specdec.noise import cli as noise_cli
from fairseq_specdec.scoring import cli as scoring_cli
from fairseq_specdec.trace import cli as trace_cli

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PARSERS = {
    "fairseq-preprocess": options.get_preprocessing_parser,
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-interactive": options.get_interactive_generation_parser,
    "specdec-convert": convert.get_parser,
    "specdec-demo": demo_cli.get_parser,
    "specdec-distill": distill.get_parser,
    "specdec-bench": session.get_parser,
    "specdec-noise": noise_cli.get_parser,
    "specdec-trace": trace_cli.get_parser,
}
# Programs whose flags are argparse's alone, not fairseq's.
PLAIN = {"fairseq-preprocess", "specdec-convert", "specdec-demo", "specdec-noise", "specdec-trace"}
DISTILL_MODULE = ["-m", "fairseq_specdec.data.distill"]
# Flags of programs that are not this project's: pip, torchrun, Slurm, hydra.
FOREIGN = {
    "--no-build-isolation", "--standalone", "--nproc_per_node", "--array", "--wrap",
    "--config-dir", "--config-name",
}  # fmt: skip
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
PATH = re.compile(
    r"(?<![\w/.$-])(?:scripts|configs|requirements|tests|fairseq_specdec|data-bin/demo_\w+)"
    r"(?:/[\w./-]+)?"
)


def commands():
    """Word lists of every command in a bash block, launchers taken off."""
    found = []
    for block in re.findall(r"^ *```bash\n(.*?)^ *```", TEXT, flags=re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while words:
                end = words.index("&&") if "&&" in words else len(words)
                found.append(unwrapped(words[:end]))
                words = words[end + 1 :]
    return found


def unwrapped(words):
    if "--wrap" in words:  # sbatch
        return shlex.split(words[words.index("--wrap") + 1])
    if words[0] == "torchrun":
        start = words.index("-m")
        assert words[start : start + 2] == DISTILL_MODULE
        return ["specdec-distill"] + words[start + 2 :]
    return words


OURS = [tuple(words) for words in commands() if words[0] in PARSERS]


@functools.lru_cache(maxsize=None)
def flags_of(words):
    """Parse a command (a tuple) as its program does; return all flags that it may have."""
    replayed = "--replay" in words
    parser = replay_flags.get_parser() if replayed else PARSERS[words[0]]()
    if replayed or words[0] in PLAIN:
        parser.parse_args(list(words[1:]))
    else:
        options.parse_args_and_arch(parser, input_args=list(words[1:]))
    nested = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    parsers = [parser, *(command for choices in nested for command in choices.values())]
    return frozenset(flag for one in parsers for flag in one._option_string_actions)


def known_flags():
    """Every flag that some command in README has."""
    own = set(quickstart.get_parser()._option_string_actions) | {"--train"}  # of quickstart.sh
    own |= set(scoring_cli.get_parser()._option_string_actions)
    return (own | FOREIGN).union(*map(flags_of, OURS))


def missing(path):
    """Whether a path that README names is not there; the demo pairs may not be made yet."""
    pair = re.match(r"data-bin/demo_\w+", path)
    if pair and not (ROOT / pair.group()).exists():
        return False
    return not (ROOT / path.rstrip("./")).exists()


def test_every_program_is_shown():
    shown = {words[0] for words in commands()}
    assert set(PARSERS) | {"fairseq-hydra-train", "bash"} <= shown
    strategies = [w[w.index("--strategy") + 1] for w in OURS if "--strategy" in w]
    assert set(strategies) | {"specdec"} == set(STRATEGIES)


@pytest.mark.parametrize("words", OURS, ids=lambda words: words[0])
def test_a_command_parses_as_it_stands(words, monkeypatch):
    monkeypatch.chdir(ROOT)
    flags = flags_of(words)
    # argparse takes unambiguous beginnings of flags too; README spells them out.
    unknown = {word for word in words if word.startswith("-") and word not in flags}
    assert not unknown


def test_an_unknown_flag_would_be_noticed(monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit):
        flags_of(OURS[0] + ("--no-such-flag",))


def test_every_flag_in_the_text_exists(monkeypatch):
    monkeypatch.chdir(ROOT)
    unknown = set(FLAG.findall(TEXT)) - known_flags()
    assert not unknown


def test_every_path_exists():
    paths = set(PATH.findall(TEXT)) | set(re.findall(r"\]\(([^)#:]+)\)", TEXT))
    assert len(paths) > 20
    assert not [path for path in sorted(paths) if missing(path)]


def test_hydra_configs_exist():
    names = [words[words.index("--config-name") + 1] for words in commands() if
             "--config-name" in words]  # fmt: skip
    assert names
    assert all((ROOT / "configs" / f"{name}.yaml").is_file() for name in names)


@pytest.mark.parametrize(
    "settings", [TranslationSpecDecConfig, SpecDrafterConfig, GlancingBlockLossConfig]
)
def test_tables_tell_every_flag_and_its_default(settings):
    inherited = {name for base in settings.__mro__[1:] for name in vars(base).get(
        "__dataclass_fields__", ())}  # fmt: skip
    rows = [line.split("|")[1:-1] for line in TEXT.splitlines() if line.startswith("| `--")]
    for name, field in settings.__dataclass_fields__.items():
        if name in inherited or not field.metadata.get("help"):
            continue
        flag = "--" + name.replace("_", "-")
        # The decoding table has the default in its last column, the training tables in the second.
        column = -1 if settings is TranslationSpecDecConfig else 1
        found = [
            (FLAG.findall(row[0]), row[column])
            for row in rows
            if flag in FLAG.findall(row[0])
            and (flag != "--block-size" or ("trained for" in row[-1]) == (column == -1))
        ]
        assert len(found) == 1, flag
        flags, default = found[0]
        if isinstance(field.default, (int, float)) and not isinstance(field.default, bool):
            if name == "glancing_updates":  # 0 stands for another flag's value
                assert "--max-update" in default
                continue
            assert float(default.split(",")[flags.index(flag)]) == field.default, flag


def test_architectures_exist():
    named = set(re.findall(r"(?:spec|nar|attached)_drafter_\w+", TEXT)) - {"spec_drafter_toy"}
    assert len(named) == 8
    assert named <= set(ARCH_MODEL_REGISTRY)


def test_refused_flags_are_all_told():
    limits = TEXT.split("## Limits")[1]
    flags = {"--" + name.replace("_", "-") for name in REFUSED} - {"--prefix-allowed-tokens-fn"}
    assert not flags - set(FLAG.findall(limits))


def test_every_mended_fault_is_told():
    section = TEXT.split("## What is mended")[1].split("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \|", section, flags=re.M)
    assert sorted(told) == sorted(fix.__name__ for fix in compat.FIXES)


def test_the_measured_table_has_its_place():
    begin, end = "<!-- quickstart-table -->", "<!-- /quickstart-table -->"
    assert TEXT.count(begin) == TEXT.count(end) == 1
    assert TEXT.index(begin) < TEXT.index(end)
