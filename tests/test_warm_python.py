"""A warm Python does as a new one would."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def both(warm_python, tmp_path):
    """Run words by a new Python and by a warm one: what each printed and how it exited."""

    def run(*words, text=None, **environment):
        results = []
        for python in (sys.executable, warm_python.python):
            done = subprocess.run(
                [str(python), *words], cwd=str(tmp_path), env=dict(os.environ, **environment),
                input=text, capture_output=True, text=True,
            )  # fmt: skip
            results.append((done.returncode, done.stdout, done.stderr))
        return results

    return run


@pytest.mark.parametrize(
    "code",
    [
        "import os, sys; print(sys.argv, os.getcwd(), os.environ['MARK'], sys.path[0])",
        "import sys; print(__name__, input()); print('x', file=sys.stderr)",
        "import sys; sys.exit(3)",
        "import sys; sys.exit('why')",
        "import sys; sys.exit()",
        "import atexit; atexit.register(print, 'at the end')",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import logging; print(logging.root.handlers, logging.root.level)",
        "import sys; print([n for n in sys.modules if n.startswith(('fairseq_cli', 'fairseq_s'))])",
    ],
)
def test_code_modules_and_files_run_as_in_a_new_python(both, tmp_path, code):
    (tmp_path / "program.py").write_text(code)
    for words in (("-c", code), ("-m", "program"), (str(tmp_path / "program.py"),)):
        new, warm = both(*words, "a", "b c", text="line\n", MARK="1")
        assert warm == (new[0] if new[0] >= 0 else 128 - new[0], *new[1:])


def test_the_path_is_the_callers(both, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "own_module.py").write_text("NAME = 'own'")
    new, warm = both(
        "-c", "import own_module; print(own_module.NAME)", PYTHONPATH=str(tmp_path / "lib")
    )
    assert new == warm and new[:2] == (0, "own\n")
    new, warm = both("-c", "import own_module", PYTHONPATH="")
    assert new[0] == warm[0] == 1
