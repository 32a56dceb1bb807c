"""The pages' commands, paths and links: parsed by the programs' own parsers, not run."""

import argparse
import functools
import re
import shlex

import pytest
from fairseq import options
from flag_reference import MODULES, parser_of
from pages import FENCE, PAGES, ROOT, blocks_of, commands_in

from fairseq_specdec.decoding.builder import check_settings

FAIRSEQS = {
    "fairseq-preprocess": options.get_preprocessing_parser,
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-interactive": options.get_interactive_generation_parser,
}
OF_FAIRSEQ = {*FAIRSEQS, "specdec-bench", "specdec-distill"} - {"fairseq-preprocess"}
OTHER_NAMES = {"specdec-demo": "specdec-serve"}
PATH = re.compile(
    r"(?<![\w/.$-])(?:scripts|configs|requirements|tests|fairseq_specdec|benchmarks|examples)"
    r"/[\w./-]+"
)
DRAFTERS = ("glancing_block_loss", "blockwise_loss")


def unwrapped(words):
    """A command without its launcher (Slurm, torchrun, python -m)."""
    if words[0] == "sbatch":
        return tuple(shlex.split(words[words.index("--wrap") + 1]))
    if words[0] in ("torchrun", "python") and "-m" in words:
        return words[words.index("-m") + 1 :]
    return words


COMMANDS = [
    (page.name, unwrapped(words))
    for page in PAGES
    for language, text in blocks_of(page)
    for words in commands_in(text if language == "bash" else "")
    if unwrapped(words)[0] in {*FAIRSEQS, *MODULES, *OTHER_NAMES}
]


@functools.cache
def parsed(words):
    """(arguments as the program reads them, every flag that the program has)."""
    program = OTHER_NAMES.get(words[0], words[0])
    # The example's strategy would stay registered in this process.
    given = ["fairseq_specdec" if word == "examples/repeat" else word for word in words[1:]]
    parser = FAIRSEQS[program]() if program in FAIRSEQS else parser_of(program)
    if program in OF_FAIRSEQ:
        args = options.parse_args_and_arch(parser, input_args=given)
    else:
        args = parser.parse_args(given)
    nested = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    parsers = [parser, *(inner for choices in nested for inner in choices.values())]
    return args, {flag for each in parsers for flag in each._option_string_actions}


@pytest.mark.parametrize("page, words", COMMANDS)
def test_a_command_parses(page, words, monkeypatch):
    monkeypatch.chdir(ROOT)
    args, flags = parsed(words)
    # argparse also takes unambiguous beginnings of flags; the pages spell them out.
    assert not {word for word in words if word.startswith("--") and word not in flags}
    if getattr(args, "strategy", "repeat") != "repeat" and "generate" in words[0]:
        args.drafter_path = args.drafter_path and __file__
        check_settings(args)
    if getattr(args, "criterion", None) in DRAFTERS:
        assert args.best_checkpoint_metric.startswith("accepted")
        assert args.maximize_best_checkpoint_metric


def anchors(page):
    """What links to the headings of a page are called."""
    headings = re.findall(r"^#+ (.*)", FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_path_and_link_exists(page):
    text = page.read_text(encoding="utf-8")
    paths = {path.rstrip("./") for path in PATH.findall(text)}
    assert not [path for path in sorted(paths) if not (ROOT / path).exists()]
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", FENCE.sub("", text)):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        # The headings of flags.md are made when the pages are built.
        assert not anchor or target == "flags.md" or anchor in anchors(linked), f"{target}#{anchor}"
