"""Every command of README and docs runs: in a sandbox of toy models, small, and exits 0."""

import re
import sys

import pytest
from doc_commands import coverage
from doc_pages import BLOCKS

pytestmark = pytest.mark.slow
RUN = [
    block
    for block in BLOCKS
    if block.language == "python" or block.language == "bash" and coverage(block.text) == "run"
]
# Blocks of a page that go on from one another run in one folder.
ONE_FOLDER = {"docs/training.md", "docs/tutorial.md"}
# README repeats some blocks of the pages.
ALONE = list({block.text: block for block in RUN if block.page not in ONE_FOLDER}.values())


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    from doc_sandbox import Sandbox  # trains the toy models

    made = Sandbox(tmp_path_factory.mktemp("docs") / "site")
    yield made
    made.close()


def run(sandbox, block, folder):
    from doc_sandbox import smaller

    if "demo_" in block.text and not sandbox.has_demos():
        pytest.skip("the demo pairs are not in this checkout")
    if block.language == "python":
        return sandbox.check(block.text, folder, words=(sys.executable, "-c"))
    return sandbox.check(smaller(block.text), folder)


@pytest.mark.parametrize("block", ALONE, ids=str)
def test_a_block_runs(block, sandbox, tmp_path):
    out = run(sandbox, block, sandbox.copy(tmp_path / "site", block.text))
    assert "Traceback" not in out


def run_page(page, sandbox, folder):
    """What a page's blocks print, run from top to bottom."""
    blocks = [block for block in RUN if block.page == page]
    sandbox.copy(folder, "")
    return "".join(run(sandbox, block, folder) for block in blocks)


def test_the_tutorial_runs_from_top_to_bottom(sandbox, tmp_path):
    out = run_page("docs/tutorial.md", sandbox, tmp_path / "site")
    assert "the same\n" in out  # stock and gad
    assert re.search(r"^\| gad ", out, flags=re.M)
    assert (tmp_path / "site" / "both.html").stat().st_size > 10000


def test_a_drafter_of_several_languages_is_trained_from_top_to_bottom(sandbox, tmp_path):
    out = run_page("docs/training.md", sandbox, tmp_path / "site")
    assert "\nH-" in out


def test_what_the_quickstart_measures(sandbox, tmp_path):
    if not sandbox.has_demos():
        pytest.skip("the demo pairs are not in this checkout")
    bench = "specdec-bench data-bin/demo_{0} --preset demo_{0} --limit 4 --json {0}.json"
    command = "; ".join(map(bench.format, ("ende", "edit")))
    out = sandbox.check(command, sandbox.copy(tmp_path / "site", command))
    assert "| gad++ " in out and "| iad --realign " in out and " exact |" in out
