"""README and docs say only what is true: defaults, names, limits, tables."""

import os
import re

import pytest
from doc_commands import FLAG
from doc_pages import README, ROOT, sections, text_of
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_specdec import compat
from fairseq_specdec.checkpoints import patches
from fairseq_specdec.config import SpecDecConfig
from fairseq_specdec.criterions import DistillSpecLossConfig, GlancingBlockLossConfig
from fairseq_specdec.decoding.generation_flags import REFUSED
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES
from fairseq_specdec.models.drafter_config import SpecDrafterConfig

DOCS = ROOT / "docs"
PAGE_OF = {
    "none": "greedy",
    "gad++": "gad_plus_plus",
    "specdec": "gad_plus_plus",
    "specdec-heads": "blockwise",
}


def own_fields(settings):
    """The fields that a config class adds to fairseq's, by flag; those with a help text."""
    inherited = {name for base in settings.__mro__[1:] for name in vars(base).get(
        "__dataclass_fields__", ())}  # fmt: skip
    return {
        "--" + name.replace("_", "-"): field
        for name, field in settings.__dataclass_fields__.items()
        if name not in inherited and field.metadata.get("help")
    }


def rows_of(text):
    """(flags, cells) of every table row that begins with a flag."""
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `--")]
    return [(FLAG.findall(row[0]), [cell.strip() for cell in row]) for row in rows]


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@pytest.mark.parametrize(
    "settings, page, column",
    [
        (SpecDrafterConfig, DOCS / "training.md", 1),
        (GlancingBlockLossConfig, DOCS / "training.md", 1),
        (DistillSpecLossConfig, DOCS / "training.md", 1),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_tables_list_every_flag_and_its_default(settings, page, column):
    rows = rows_of(text_of(page))
    for flag, field in own_fields(settings).items():
        cells_of_flag = [(flags, cells[column]) for flags, cells in rows if flag in flags]
        assert len(cells_of_flag) == 1, flag
        flags, default = cells_of_flag[0]
        if is_number(field.default):
            if flag == "--glancing-updates":  # 0 stands for another flag's value
                assert "--max-update" in default
                continue
            assert float(default.split(",")[flags.index(flag)]) == field.default, flag


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
def test_every_strategy_has_a_page_with_its_flags(strategy):
    text = text_of(DOCS / "strategies" / f"{PAGE_OF.get(strategy, strategy.replace('-', '_'))}.md")
    for part in ("**When.**", "**Limits.**", "$$", "```bash", f"--strategy {strategy}"):
        assert part in text or strategy in ("none", "specdec")
    listed = {flag for flags, _ in rows_of(text) for flag in flags}
    linked = rows_of(text_of(DOCS / "strategies" / "gad.md")) if "[gad](gad.md)" in text else []
    listed |= {flag for flags, _ in linked for flag in flags}
    own = {"--" + n.replace("_", "-") for n, owners in OWN_FLAGS.items() if strategy in owners}
    own |= {"--drafter-path"} if STRATEGIES[strategy].needs_drafter else set()
    assert own <= listed
    fields = own_fields(SpecDecConfig)
    for (flag, *_), cells in rows_of(text):
        default = fields[flag].default
        if is_number(default):
            assert float(cells[1]) == default, flag


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
    section = sections(DOCS / "compatibility.md")["What is patched at import"]
    listed = re.findall(r"^\| `(\w+)` \|", section, flags=re.M)
    fixes = (*compat.FIXES, patches.check_checkpoints)
    assert sorted(listed) == sorted(fix.__name__ for fix in fixes)


def test_the_measured_table_has_its_place():
    text = text_of(DOCS / "benchmarks.md")
    begin, end = "<!-- quickstart-table -->", "<!-- /quickstart-table -->"
    assert text.count(begin) == text.count(end) == 1
    assert text.index(begin) < text.index(end)
