"""setup.py and the native engine: with a compiler, with an old one, without any."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

from fairseq_specdec.engine.native import library
from fairseq_specdec.engine.native.variants import PROBE, VARIANTS, is_sealed

ROOT = pathlib.Path(__file__).resolve().parents[3]
LOST = "no C++17 compiler: --backend native is not built; decoding runs on torch"


@pytest.fixture
def checkout(tmp_path):
    """What setup.py reads, apart from the checkout that it would write into."""
    folder = tmp_path / "checkout"
    native = folder / "fairseq_specdec" / "engine" / "native"
    native.parent.mkdir(parents=True)
    names = "setup.py MANIFEST.in README.md requirements fairseq_specdec/version.py"
    for name in names.split():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(str(ROOT / name), str(folder / name))
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(str(library.FOLDER), str(native), ignore=ignored)
    for package in (native.parents[1], native.parent):
        (package / "__init__.py").write_text("")
    return folder


def run_setup(checkout, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, "setup.py", *arguments], cwd=str(checkout), text=True,
        env=dict(os.environ, **environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def objects(checkout):
    return sorted(path.name for path in checkout.glob("fairseq_specdec/engine/native/*.so"))


def fake_compiler(folder, refused):
    """A compiler that writes nothing of use, and does not know the flags ``refused``."""
    path = folder / "c++"
    path.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *{refused}*) echo "bad value" >&2; exit 1;; esac\n'
        'while [ $# -gt 0 ]; do [ "$1" = -o ] && echo object > "$2"; shift; done\n'
    )
    path.chmod(0o755)
    return {"CC": str(path), "CXX": str(path)}


@pytest.mark.skipif(VARIANTS[0] not in library.supported(), reason="flags of x86-64")
def test_variants_that_the_compiler_does_not_know_are_left_out(checkout):
    compiler = fake_compiler(checkout, "x86-64-v4")
    output = run_setup(checkout, "build_ext", "--inplace", **compiler)
    assert "not built, for want of a newer compiler: " in output and LOST not in output
    known = [each.file for each in VARIANTS if "-march=x86-64-v3" in each.flags]
    assert objects(checkout) == sorted([PROBE, *known])
    for name in objects(checkout):
        assert is_sealed(checkout / "fairseq_specdec" / "engine" / "native" / name)


@pytest.mark.parametrize("there", [True, False])
def test_without_a_compiler_that_works_one_line_names_what_is_lost(there, checkout):
    compiler = fake_compiler(checkout, "std") if there else {"CC": "/no/cc", "CXX": "/no/c++"}
    output = run_setup(checkout, "build_ext", "--inplace", **compiler)
    assert output.count(LOST) == 1 and objects(checkout) == []


def test_the_source_distribution_has_every_source(checkout):
    run_setup(checkout, "-q", "sdist", "--dist-dir", "out")
    (path,) = (checkout / "out").iterdir()
    with tarfile.open(str(path)) as archive:
        packed = {pathlib.PurePath(name).name for name in archive.getnames()}
    sources = {each.name for each in (library.FOLDER / "src").iterdir()}
    assert len(sources) > 10 and sources <= packed
