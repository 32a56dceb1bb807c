"""The code of docs/adding_a_strategy.md works: in a copy of the repository, with its own tests."""

import os
import re
import subprocess

import pytest
import toy_cache
from doc_pages import blocks_of, commands_in
from worked_example import NEW_FILES, NEW_FLAGS, PAGE, PARTS, changed_copy

# The new strategy against stock fairseq, greedy, and on a toy; less than what the page tells to
# run, which takes minutes.
SHARED = "test_drafters or changes_a_bit or of_every_drafter or flags_are_read or alone"
FEWEST = {"drafter": 6, "shared": 25, "pages": 10}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return changed_copy(tmp_path_factory.mktemp("example") / "repository")


@pytest.fixture(scope="module")
def run(copy, warm_python):
    """Run a Python module in the copy, which is imported instead of this checkout."""

    def run(*words):
        environment = dict(
            os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(copy), SPECDEC_UPDATE="1"
        )
        environment.update(PYTHONDONTWRITEBYTECODE="1", SPECDEC_TOYS=str(toy_cache.folder()))
        done = subprocess.run(
            [str(warm_python.python), "-m", *words], cwd=str(copy), env=environment,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        return done.stdout

    return run


@pytest.fixture(scope="module")
def passed(run):
    """How many tests of the copy passed; none may fail."""

    def passed(*words):
        out = run("pytest", "-q", "-p", "no:cacheprovider", *words)
        return int(re.findall(r"(\d+) passed", out)[-1])

    return passed


def test_the_page_adds_a_drafter_a_strategy_and_a_test():
    assert {path.split("/")[0] for path in NEW_FILES} == {"fairseq_specdec", "tests"}
    assert len(NEW_FILES) == 3 and NEW_FLAGS == {"--repeat-match"}
    assert len(PARTS) == 6


def test_the_drafter_drafts_what_the_page_describes(passed):
    assert passed("tests/drafting/test_repeat.py") >= FEWEST["drafter"]


@pytest.mark.slow
def test_the_strategy_equals_greedy(passed):
    files = [f"tests/decoding/test_{name}.py" for name in ("strategies", "builder", "parity")]
    assert passed(*files, "-k", f"has_a_row or repeat and ({SHARED})") >= FEWEST["shared"]


@pytest.mark.slow
def test_the_pages_name_the_strategy_and_its_flags(passed):
    files = ["tests/docs/test_readme.py", "tests/docs/test_docs_commands.py"]
    chosen = "flag or repeat or strategy or index"
    assert passed(*files, "-k", chosen) >= FEWEST["pages"]


def test_the_code_is_in_the_style_of_the_repository(run):
    pytest.importorskip("ruff")
    code = sorted({part.path for part in PARTS if part.path.endswith(".py")})
    run("ruff", "check", "--no-cache", *code)
    run("ruff", "format", "--no-cache", "--check", *code)


def test_the_page_names_the_tests_that_it_adds():
    commands = [c for b in blocks_of(PAGE) if b.language == "bash" for c in commands_in(b.text)]
    assert all(command.words[:3] == ("python", "-m", "pytest") for command in commands)
    named = {word for command in commands for word in command.words}
    assert {path for path in NEW_FILES if path.startswith("tests/")} <= named
