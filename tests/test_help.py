"""--help: every flag says what it is by default or that it is required, its range and symbol."""

import dataclasses
import re

import pytest

from fairseq_specdec.commands import parsers
from fairseq_specdec.config import OWN_FIELDS, TranslationSpecDecConfig

# The papers' names of what a flag sets, by strategy.
SYMBOLS = {
    "block_size": ("k", "gamma"),
    "top_beta": ("beta",),
    "tau": ("tau",),
    "alpha_fb": ("alpha_FB",),
    "alpha_rb": ("alpha_RB",),
    "accept_epsilon": ("epsilon",),
    "min_block_size": ("l", "k"),
}
RANGE = re.compile(r"from (\(?-?\d|0 to)|above \d|\d or more|a whole number")
OURS = sorted(name for name in parsers.COMMANDS if name.startswith("specdec-"))


def own_actions(name):
    """Flags and arguments that this project adds to fairseq's."""
    foreign = set()
    if name in ("specdec-bench", "specdec-distill"):
        from fairseq import options
        from fairseq.dataclass.utils import gen_parser_from_dataclass
        from fairseq.tasks.translation import TranslationConfig

        stock = options.get_generation_parser()
        gen_parser_from_dataclass(stock, TranslationConfig())
        foreign = {action.dest for action in stock._actions} - {"limit", "batch_sizes"}
    for action in parsers.actions(parsers.COMMANDS[name]()):
        if action.dest not in foreign | {"help", "version", "command"}:
            yield action


def problem(action):
    text = action.help or ""
    if not text:
        return "has no help"
    if action.option_strings and action.required and "required" not in text:
        return "does not say that it is required"
    if action.option_strings and not action.required and "default" not in text:
        return "does not say its default"
    if action.type in (int, float) and not RANGE.search(text):
        return "does not say its range"
    default = action.default
    if isinstance(default, (int, float)) and not isinstance(default, bool):
        stated = re.search(r"default: ([^),]+)", text)
        if "%(default)s" not in text and (stated is None or float(stated.group(1)) != default):
            return f"says another default than {default}"
    return ""


@pytest.mark.parametrize("name", OURS)
def test_every_flag_shows_its_default_and_its_range(name):
    actions = list(own_actions(name))
    assert len(actions) > 2 or name in ("specdec-env", "specdec-flags", "specdec-costs")
    wrong = {str(action.option_strings or action.dest): problem(action) for action in actions}
    assert {flag: what for flag, what in wrong.items() if what} == {}


def test_help_names_the_papers_symbols():
    fields = TranslationSpecDecConfig.__dataclass_fields__
    for name, symbols in SYMBOLS.items():
        words = re.findall(r"\w+", fields[name].metadata["help"])
        assert set(symbols) <= set(words), name
    assert set(SYMBOLS) <= {field.name for field in OWN_FIELDS}


@pytest.mark.parametrize("name", ["block_size", "top_beta", "tau", "alpha_fb", "alpha_rb"])
def test_the_demo_gives_the_same(name):
    (action,) = [a for a in own_actions("specdec-demo") if a.dest == name]
    metadata = {f.name: f.metadata for f in dataclasses.fields(TranslationSpecDecConfig)}[name]
    assert action.help.startswith(str(metadata["help"]))
