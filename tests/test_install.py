"""The package as fairseq finds it: ``--user-dir`` as a path, a folder or a bare name."""

import os
import pathlib
import shutil
import subprocess
import sys

import fairseq
import pytest

import fairseq_specdec

PACKAGE = pathlib.Path(fairseq_specdec.__path__[0]).resolve()
USER_DIR = """
import argparse, sys
if sys.argv[2:]:
    import fairseq_specdec.tasks
from fairseq import utils
for _ in range(2):
    utils.import_user_module(argparse.Namespace(user_dir=sys.argv[1]))
import fairseq_specdec
from fairseq.tasks import TASK_REGISTRY
assert "translation_specdec" in TASK_REGISTRY
print(fairseq_specdec.__path__[0])
"""


def run(*arguments, python, path=PACKAGE.parent, cwd):
    """Run ``USER_DIR``; its stdout."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(path))
    done = subprocess.run(
        [str(python), "-c", USER_DIR, *map(str, arguments)], cwd=str(cwd), env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip()


@pytest.mark.parametrize(
    "user_dir, cwd, here",
    [
        ("fairseq_specdec", PACKAGE.parent, []),
        ("fairseq_specdec", PACKAGE.parent, ["imported first"]),
        (PACKAGE, "/", []),
    ],
)
def test_user_dir_as_a_path(warm_python, user_dir, cwd, here):
    printed = run(user_dir, *here, python=warm_python.python, cwd=cwd)
    assert pathlib.Path(printed).resolve() == PACKAGE


@pytest.mark.slow
def test_user_dir_as_the_bare_name_from_any_folder(tmp_path):
    """Where fairseq and the package lie side by side, as in site-packages."""
    site = tmp_path / "site"
    shutil.copytree(PACKAGE, site / "fairseq_specdec")
    unused = shutil.ignore_patterns("examples", "__pycache__")
    # Copied, not linked: fairseq looks for the bare name in its own folder's parent.
    shutil.copytree(fairseq.__path__[0], site / "fairseq", ignore=unused)
    printed = run("fairseq_specdec", python=sys.executable, path=site, cwd=tmp_path)
    assert os.path.samefile(printed, site / "fairseq_specdec")
