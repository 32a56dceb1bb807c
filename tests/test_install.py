"""The package as it is installed and as fairseq finds it."""

import base64
import hashlib
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import zipfile

import pytest

import fairseq_specdec

PACKAGE = pathlib.Path(fairseq_specdec.__path__[0]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[1]
WHEEL = ROOT / "requirements" / "wheels" / "omegaconf-2.0.6.post1-py3-none-any.whl"

USER_DIR = """
import argparse, sys
{before}
from fairseq import utils
for _ in range(2):
    utils.import_user_module(argparse.Namespace(user_dir=sys.argv[1]))
import fairseq_specdec
from fairseq.tasks import TASK_REGISTRY
assert "translation_specdec" in TASK_REGISTRY
print(fairseq_specdec.__path__[0])
"""
BEFORE = {"user-dir alone": "", "imported first": "import fairseq_specdec.tasks"}


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """A folder that has fairseq and a copy of the package side by side, as site-packages has."""
    import fairseq

    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(PACKAGE, folder / "fairseq_specdec")
    unused = shutil.ignore_patterns("examples", "__pycache__")
    # Copied, not linked: fairseq looks for the bare name in its own folder's parent.
    shutil.copytree(fairseq.__path__[0], folder / "fairseq", ignore=unused)
    return folder


def test_importing_registers_everything_and_prints_nothing(run_python):
    code = (
        "import fairseq_specdec.tasks, sys, pathlib\n"
        "for room in ('tasks', 'models', 'criterions'):\n"
        "    for path in pathlib.Path(fairseq_specdec.__path__[0], room).glob('*.py'):\n"
        "        name = path.stem\n"
        "        full = 'fairseq_specdec.' + room + ('' if name == '__init__' else '.' + name)\n"
        "        assert full in sys.modules, full\n"
    )
    assert run_python(code) == ""


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE.keys())
def test_user_dir_as_a_path_from_a_checkout(run_python, before):
    printed = run_python(USER_DIR.format(before=before), "fairseq_specdec", cwd=PACKAGE.parent)
    assert pathlib.Path(printed.strip()).resolve() == PACKAGE


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE.keys())
def test_user_dir_as_the_installed_folder(run_python, before):
    printed = run_python(USER_DIR.format(before=before), PACKAGE)
    assert pathlib.Path(printed.strip()).resolve() == PACKAGE


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE.keys())
def test_user_dir_as_the_bare_name_from_any_folder(run_python, site, before):
    printed = run_python(USER_DIR.format(before=before), "fairseq_specdec", path=site)
    assert os.path.samefile(printed.strip(), site / "fairseq_specdec")


def test_a_wheel_holds_every_file(tmp_path):
    """All but the native engine's sources; what is compiled from them is tests/engine/native's."""
    source = tmp_path / "source"
    source.mkdir()
    shutil.copytree(ROOT / "fairseq_specdec", source / "fairseq_specdec")
    shutil.copy(ROOT / "setup.py", source)
    pytest.importorskip("setuptools", minversion="61")
    built = tmp_path / "build"
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(built)],
        cwd=str(source),
        check=True,
        capture_output=True,
    )
    files = (p for p in (ROOT / "fairseq_specdec").rglob("*") if p.is_file())
    made = re.compile(r"/__pycache__/|/\.|/native/(src/|\w+\.so$)")  # by Python, tools, compilers
    here = {str(p.relative_to(ROOT)) for p in files if not made.search(str(p.relative_to(ROOT)))}
    assert here == {str(p.relative_to(built)) for p in built.rglob("*") if p.is_file()}


def test_version_is_stated_once():
    version = runpy.run_path(str(ROOT / "fairseq_specdec" / "version.py"))["__version__"]
    assert fairseq_specdec.__version__ == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_omegaconf_wheel_is_whole_and_readable_by_pip():
    requirements = pytest.importorskip("packaging.requirements")
    with zipfile.ZipFile(WHEEL) as wheel:
        record = "omegaconf-2.0.6.post1.dist-info/RECORD"
        listed = dict(
            line.split(",")[:2] for line in wheel.read(record).decode().splitlines() if line
        )
        assert set(listed) == set(wheel.namelist())
        for name, digest in listed.items():
            if name != record:
                hashed = hashlib.sha256(wheel.read(name)).digest()
                assert digest == "sha256=" + base64.urlsafe_b64encode(hashed).decode().rstrip("=")
        metadata = wheel.read(record.replace("RECORD", "METADATA")).decode()
    needs = [ln.split(": ", 1)[1] for ln in metadata.splitlines() if ln.startswith("Requires-Dist")]
    assert needs
    for need in needs:
        requirements.Requirement(need)  # refuses what pip refuses
