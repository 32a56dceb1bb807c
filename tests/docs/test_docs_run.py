"""Every command of README and docs runs: in a sandbox of toy models, small, and exits 0."""

import re
import shutil
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
ONE_FOLDER = {"docs/decoding.md", "docs/own_model.md", "docs/training.md"}
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
        return sandbox.check(smaller(block.text), folder, words=(sys.executable, "-c"))
    return sandbox.check(smaller(block.text), folder)


@pytest.mark.parametrize("block", ALONE, ids=str)
def test_a_block_runs(block, sandbox, tmp_path):
    out = run(sandbox, block, sandbox.copy(tmp_path / "site", block.text))
    assert "Traceback" not in out


def run_page(page, sandbox, folder, prepare=None):
    """What a page's blocks print, run from top to bottom.

    Args:
        page: its name.
        sandbox: of which ``folder`` will be a copy.
        folder: to run in.
        prepare: called with the folder beforehand.
    """
    blocks = [block for block in RUN if block.page == page]
    sandbox.copy(folder, "")
    if prepare:
        prepare(folder)
    return "".join(run(sandbox, block, folder) for block in blocks)


def test_the_first_steps_run_from_top_to_bottom(sandbox, tmp_path):
    out = run_page("docs/decoding.md", sandbox, tmp_path / "site")
    assert "the same\n" in out  # stock and gad
    assert re.search(r"^\| gad ", out, flags=re.M)
    assert (tmp_path / "site" / "gad.html").stat().st_size > 10000


def test_a_drafter_of_several_languages_is_trained_from_top_to_bottom(sandbox, tmp_path):
    out = run_page("docs/training.md", sandbox, tmp_path / "site")
    assert "\nH-" in out


def leave_raw_text_only(folder):
    from doc_sandbox import write_raw_text

    for made in ("corpus", "checkpoints", "data-bin/corpus", "data-bin/distilled"):
        shutil.rmtree(str(folder / made))
    (folder / "corpus").mkdir()
    write_raw_text(folder / "corpus")


def test_raw_text_becomes_a_table(sandbox, tmp_path):
    folder = tmp_path / "site"
    out = run_page("docs/own_model.md", sandbox, folder, leave_raw_text_only)
    table = (folder / "table.md").read_text(encoding="utf-8")
    for name in ("fairseq beam 5", "greedy", "gad", "gad, separate", "blockwise", "sps", "bild"):
        assert re.search(rf"^\| {name} ", table, flags=re.M), name
    assert " 100.0% |" in re.search(r"^\| gad, separate .*", out, flags=re.M).group()


def test_what_the_quickstart_measures(sandbox, tmp_path):
    if not sandbox.has_demos():
        pytest.skip("the demo pairs are not in this checkout")
    shared = "--tokenizer moses --remove-bpe --cpu --limit 4 --system 'mine: --strategy"
    shared += " {1}' --json {0}.json"
    bench = f"specdec-bench data-bin/demo_{{0}} {shared}"
    command = "; ".join((
        bench.format("ende", "gad++"),
        bench.format("edit", "iad --edits data-bin/demo_edit/edits.tsv"),
    ))  # fmt: skip
    out = sandbox.check(command, sandbox.copy(tmp_path / "site", command))
    assert out.count("| mine ") >= 2 and " exact |" in out
