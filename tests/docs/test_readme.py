"""README and docs say only what is true: defaults, names, limits, tables."""

import os
import re

import pytest
from doc_commands import FLAG
from doc_pages import README, ROOT, sections, text_of
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_specdec import compat
from fairseq_specdec.config import SpecDecConfig
from fairseq_specdec.decoding.generation_flags import REFUSED
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES

DOCS = ROOT / "docs"


def own_fields(settings):
    """The fields that a config class adds to fairseq's, by flag; those with a help text."""
    inherited = {name for base in settings.__mro__[1:] for name in vars(base).get(
        "__dataclass_fields__", ())}  # fmt: skip
    return {
        "--" + name.replace("_", "-"): field
        for name, field in settings.__dataclass_fields__.items()
        if name not in inherited and field.metadata.get("help")
    }


def flag_table(settings):
    """A table of flags, from what their fields say."""
    lines = ["| flag | what it sets |", "|---|---|"]
    for flag, field in own_fields(settings).items():
        words = re.sub(r"(?<![\w-])(--[a-z][\w-]+)", r"`\1`", field.metadata["help"])
        lines.append(f"| `{flag}` | {words} |")
    return "\n".join(lines)


def test_the_flag_reference_is_that_of_the_code():
    """``SPECDEC_UPDATE=1`` writes it anew."""
    page = DOCS / "decoding.md"
    before, table, after = re.split(r"(?ms)^(\| flag \|.*?)(?=\n\n)", text_of(page))
    made = flag_table(SpecDecConfig)
    if os.environ.get("SPECDEC_UPDATE"):
        page.write_text(before + made + after, encoding="utf-8")
    else:
        assert table == made


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_has_a_section_with_its_flags(strategy):
    found = sections(DOCS / "strategies.md")
    heading = {"none": "greedy", "gad++": "gad++ (specdec)", "specdec": "gad++ (specdec)"}
    text = found[heading.get(strategy, strategy)]
    assert f"--strategy {strategy}" in text or strategy in ("none", "specdec")
    text += found["gad"] if "[gad](#gad)" in text else ""
    listed = set(FLAG.findall(text))
    own = {"--" + n.replace("_", "-") for n, owners in OWN_FLAGS.items() if strategy in owners}
    own |= {"--drafter-path"} if STRATEGIES[strategy].needs_drafter else set()
    assert own <= listed


def test_architectures_exist():
    text = text_of(README) + "".join(text_of(page) for page in DOCS.glob("*.md"))
    named = set(re.findall(r"(?:spec|nar|attached)_drafter_\w+", text))
    named -= {path.stem for path in (ROOT / "configs").glob("*.yaml")} - set(ARCH_MODEL_REGISTRY)
    assert len(named) == 8
    assert named <= set(ARCH_MODEL_REGISTRY)


def test_refused_flags_are_all_named():
    flags = {"--" + name.replace("_", "-") for name in REFUSED} - {"--prefix-allowed-tokens-fn"}
    assert not flags - set(FLAG.findall(sections(DOCS / "decoding.md")["Limits"]))


def test_every_patched_fault_is_documented():
    section = sections(DOCS / "install.md")["What is patched at import"]
    listed = re.findall(r"^\| `(\w+)` \|", section, flags=re.M)
    names = [fix.__name__ for _, fix in compat.FIXES]
    assert sorted(listed) == sorted(name for name in names if not name.startswith("_"))
