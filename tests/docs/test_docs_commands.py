"""Every command of README and docs is known: parsed here, run by ``test_docs_run``."""

import re

import pytest
from doc_commands import ELSEWHERE, FLAG, PARSERS, coverage, flags_of, known_flags, unwrapped
from doc_pages import BLOCKS, CONTRIBUTING, FENCE, PAGES, README, ROOT, commands_in, text_of
from worked_example import NEW_FILES, NEW_FLAGS

from fairseq_specdec.decoding.strategies import STRATEGIES

SCRIPTS = [block for block in BLOCKS if block.language == "bash"]
COMMANDS = [
    (str(block), unwrapped(command.words))
    for block in SCRIPTS
    for command in commands_in(block.text)
]
OURS = [(where, words) for where, words in COMMANDS if words[0] in PARSERS]
# What a block may be besides a script: Python that is run too, Sphinx's own directives, diagrams,
# references, and files of the worked example, whose fences name them.
OTHERS = {"python", "text", "{toctree}", "{eval-rst}"}
EXAMPLE = {"python", "diff", "markdown"}
PATH = re.compile(
    r"(?<![\w/.$-])(?:scripts|configs|requirements|tests|fairseq_specdec|benchmarks|data-bin/demo_\w+)"
    r"(?:/[\w./-]+)?"
)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_every_block_is_run_here_or_elsewhere(block):
    if block.language == "bash":
        coverage(block.text)
        return
    language, _, path = block.language.partition(" ")
    if path:
        assert language in EXAMPLE and block.page == "docs/adding_a_strategy.md"
        return
    assert language in OTHERS, "say what the block is: bash or python, which are run"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_command_hides_outside_of_a_block(page):
    assert "```" not in FENCE.sub("", text_of(page))
    hidden = re.findall(r"\n\n    (?:fairseq|specdec)-\w+ .*", text_of(page))
    assert not hidden, "an indented block is run by no test: fence it"


def test_what_runs_elsewhere_is_there():
    used = {
        start
        for block in SCRIPTS
        for command in commands_in(block.text)
        for start in ELSEWHERE
        if " ".join(command.words).startswith(start)
    }
    assert used == set(ELSEWHERE)
    for place in ELSEWHERE.values():
        assert (ROOT / place).is_file()


@pytest.mark.parametrize("where, words", OURS, ids=[f"{w}:{c[0]}" for w, c in OURS])
def test_a_command_parses_as_it_stands(where, words, monkeypatch):
    monkeypatch.chdir(ROOT)
    flags = flags_of(words)
    # argparse takes unambiguous beginnings of flags too; the pages spell them out.
    unknown = {word for word in words if word.startswith("-") and word not in flags}
    assert not unknown


def test_every_program_and_strategy_is_shown():
    shown = {words[0] for _, words in COMMANDS}
    assert set(PARSERS) | {"fairseq-hydra-train"} <= shown
    page = [words for where, words in OURS if where.startswith("docs/strategies")]
    strategies = {w[w.index("--strategy") + 1] for w in page if "--strategy" in w}
    assert strategies | {"none", "specdec"} == set(STRATEGIES)


MISSPELT = {"--drafter-pth"}  # among the commonest mistakes


def test_every_flag_in_the_text_exists(monkeypatch):
    monkeypatch.chdir(ROOT)
    known = known_flags([words for _, words in OURS]) | NEW_FLAGS | MISSPELT
    unknown = {
        flag: page.name for page in PAGES for flag in set(FLAG.findall(text_of(page))) - known
    }
    assert not unknown


def missing(page, path):
    """Whether a path that a page names is not there; the demo pairs may not be made yet."""
    if path in NEW_FILES:
        return False
    pair = re.match(r"data-bin/demo_\w+", path)
    if pair and not (ROOT / pair.group()).exists():
        return False
    return not any((folder / path.rstrip("./")).exists() for folder in (ROOT, page.parent))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_path_exists(page):
    text = text_of(page)
    assert not [path for path in sorted(set(PATH.findall(text))) if missing(page, path)]
    links = re.findall(r"\]\(([^)#:]+)\)", FENCE.sub("", text))
    assert not [link for link in links if not (page.parent / link).exists()]


def test_hydra_configs_exist():
    names = [w[w.index("--config-name") + 1] for _, w in COMMANDS if "--config-name" in w]
    assert names
    assert all((ROOT / "configs" / f"{name}.yaml").is_file() for name in names)


def test_the_index_lists_every_page():
    text = text_of(ROOT / "docs" / "index.md") + text_of(ROOT / "docs" / "api" / "index.md")
    listed = set(re.findall(r"^[\w/]+$", text, flags=re.M))
    for page in PAGES:
        if page not in (README, CONTRIBUTING) and page.name != "index.md":
            name = str(page.relative_to(ROOT / "docs").with_suffix(""))
            assert name in listed or page.stem in listed, f"{name} is in no toctree"


def test_readme_is_short_and_links_every_page():
    text = text_of(README)
    assert len(text.splitlines()) < 130
    linked = set(re.findall(r"\]\((docs/[^)#]+)", text))
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert pages - linked == {"docs/index.md"}
