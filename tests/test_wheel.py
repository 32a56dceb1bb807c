"""The wheel, unpacked where no compiler is on PATH, decodes natively.

It is built from what is compiled in the checkout; SPECDEC_WHEEL names a finished one to test.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from fairseq_specdec.engine.native import library
from fairseq_specdec.hub import SpeculativeTranslator

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAIR = ROOT / "data-bin" / "demo_ende"
NATIVE = "fairseq_specdec/engine/native"
SENTENCES = 12
# Made by Python, tools and compilers, and the native engine's sources.
LEFT_OUT = re.compile(r"/__pycache__/|/\.|/native/(src/|\w+\.so$)")

DECODE = """
import json, shutil, sys
sys.path.insert(0, sys.argv[1])
import fairseq_specdec
from fairseq_specdec.engine.native import library
from fairseq_specdec.hub import SpeculativeTranslator

pair, given = sys.argv[2], json.load(sys.stdin)
translator = SpeculativeTranslator.from_pretrained(pair, strategy="gad")
loaded = library.load()
print(json.dumps({
    "texts": [str(each) for each in translator.translate(given)],
    "package": fairseq_specdec.__path__[0],
    "library": loaded and loaded.variant,
    "best": library.supported()[-1].name,
    "compilers": [name for name in ("cc", "c++", "gcc", "g++", "clang") if shutil.which(name)],
}))
"""
CONFIG = """
[build]
build_base = {folder}
[egg_info]
egg_base = {folder}
[bdist_wheel]
bdist_dir = {folder}/wheel
dist_dir = {folder}
skip_build = 1
"""


def built_wheel(folder):
    """A wheel of the checkout, with the objects that were compiled in place."""
    pytest.importorskip("setuptools", minversion="70.1", reason="no setuptools that builds wheels")
    config = folder / "setup.cfg"
    config.write_text(CONFIG.format(folder=folder), encoding="utf-8")
    environment = dict(os.environ, DIST_EXTRA_CONFIG=str(config))

    def setup(*words):
        command = [sys.executable, "setup.py", "-q", *words]
        done = subprocess.run(command, cwd=str(ROOT), env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()

    setup("build_py")
    (copied,) = folder.glob("lib*")
    for path in (ROOT / NATIVE).glob("*.so"):
        shutil.copy(path, copied / NATIVE)
    setup("bdist_wheel")
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    given = os.environ.get("SPECDEC_WHEEL")
    return pathlib.Path(given) if given else built_wheel(tmp_path_factory.mktemp("wheel"))


def test_one_wheel_for_every_python(wheel):
    assert re.fullmatch(r"fairseq_specdec-[\w.]+-py3-none-\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith("/METADATA")]
        text = archive.read(metadata).decode()
    paths = (path for path in (ROOT / "fairseq_specdec").rglob("*") if path.is_file())
    here = {str(path.relative_to(ROOT)) for path in paths}
    assert {name for name in here if not LEFT_OUT.search(name)} == {
        name for name in names if not LEFT_OUT.search(name) and ".dist-info/" not in name
    }
    assert not [name for name in names if name.startswith(f"{NATIVE}/src/")]
    assert "file:" not in "".join(re.findall("^Requires-Dist:.*", text, flags=re.M))


@pytest.mark.skipif(
    not library.supported() and "SPECDEC_WHEEL" not in os.environ,
    reason="the native engine is not compiled here",
)
def test_it_decodes_natively_without_a_compiler(wheel, tmp_path, monkeypatch):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    lines = (PAIR / "heldout.en").read_text(encoding="utf-8").splitlines()[:SENTENCES]
    done = subprocess.run(
        [sys.executable, "-I", "-c", DECODE, str(tmp_path), str(PAIR)],
        cwd=str(tmp_path),
        env={"PATH": str(tmp_path), "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)},
        input=json.dumps(lines),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["package"] == str(tmp_path / "fairseq_specdec")
    assert report["library"] == report["best"]
    assert report["compilers"] == []
    monkeypatch.setenv(library.ENVIRONMENT, "off")
    on_torch = SpeculativeTranslator.from_pretrained(str(PAIR), strategy="greedy")
    assert report["texts"] == [str(each) for each in on_torch.translate(lines)]
