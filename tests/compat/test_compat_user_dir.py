"""The package as ``--user-dir``: by any path to it, under its own name, and once."""

import os
import pathlib
import shutil
import subprocess
import sys
from types import SimpleNamespace

import fairseq
import pytest
from fairseq import utils

import fairseq_specdec

PACKAGE = pathlib.Path(os.path.abspath(fairseq_specdec.__path__[0]))
COLD = """
import sys
sys.path[:0] = sys.argv[2:]
from types import SimpleNamespace
from fairseq import utils
for _ in range(2):
    utils.import_user_module(SimpleNamespace(user_dir=sys.argv[1]))
from fairseq.tasks import TASK_REGISTRY
print("registered", "translation_specdec" in TASK_REGISTRY)
"""


@pytest.mark.parametrize("name", ["fairseq_specdec", "plug"])
def test_a_link_to_the_imported_package_is_the_package(name, tmp_path, monkeypatch):
    (tmp_path / name).symlink_to(PACKAGE)
    before = list(sys.path)
    for folder in (tmp_path / name, f"{tmp_path}/./{name}/", PACKAGE):
        utils.import_user_module(SimpleNamespace(user_dir=str(folder)))
    monkeypatch.chdir(tmp_path)
    utils.import_user_module(SimpleNamespace(user_dir=name))
    assert sys.path == before, "nothing was imported"


def test_the_clone_of_the_same_name_is_the_package(tmp_path, warm_python):
    """Met first, with the clone on the path, as pip install -e leaves it; and met again."""
    clone = tmp_path / "fairseq_specdec"
    clone.mkdir()
    (clone / "fairseq_specdec").symlink_to(PACKAGE)
    utils.import_user_module(SimpleNamespace(user_dir=str(clone)))
    code, out, error = in_a_fresh_process(clone, warm_python.python, clone)
    assert (code, out) == (0, "registered True\n"), error


def test_another_copy_is_named_with_the_remedy(tmp_path):
    (tmp_path / "fairseq_specdec").mkdir()
    with pytest.raises(ImportError, match="another copy .* imported already; give") as error:
        utils.import_user_module(SimpleNamespace(user_dir=str(tmp_path / "fairseq_specdec")))
    assert str(PACKAGE) in str(error.value)


def test_other_user_dirs_and_none_go_to_fairseq(tmp_path):
    utils.import_user_module(SimpleNamespace())
    utils.import_user_module(SimpleNamespace(user_dir=None))
    with pytest.raises(FileNotFoundError):
        utils.import_user_module(SimpleNamespace(user_dir=str(tmp_path / "nowhere")))
    mine = tmp_path / "somebody_elses_plugin"
    mine.mkdir()
    (mine / "__init__.py").write_text("LOADED = True\n")
    utils.import_user_module(SimpleNamespace(user_dir=str(mine)))
    assert sys.modules.pop("somebody_elses_plugin").LOADED
    sys.path.remove(str(tmp_path))


def in_a_fresh_process(folder, python, *path, name=None):
    """(exit status, standard output, error) of fairseq that meets the folder first, by a name."""
    done = subprocess.run(
        [str(python), "-c", COLD, *map(str, (name or folder, *path))],
        cwd=str(folder.parent), env=dict(os.environ, PYTHONPATH=""), capture_output=True, text=True,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_another_name_is_refused_in_one_line(tmp_path, warm_python):
    folder = tmp_path / "plug"
    folder.symlink_to(PACKAGE)
    code, _, error = in_a_fresh_process(folder, warm_python.python)
    last = error.strip().splitlines()[-1]
    assert code == 1 and last == (
        f"ImportError: --user-dir {folder}: the plugin works under its own name only; "
        "call the folder, or the link to it, fairseq_specdec"
    )


@pytest.mark.slow
def test_the_bare_name_from_any_folder(tmp_path):
    """Where fairseq and the package lie side by side, as in site-packages."""
    site = tmp_path / "site"
    shutil.copytree(PACKAGE, site / "fairseq_specdec")
    # Copied, not linked: fairseq looks for the bare name in its own folder's parent.
    unused = shutil.ignore_patterns("examples", "__pycache__")
    shutil.copytree(fairseq.__path__[0], site / "fairseq", ignore=unused)
    done = in_a_fresh_process(site, sys.executable, site, name="fairseq_specdec")
    assert done[:2] == (0, "registered True\n"), done[2]
