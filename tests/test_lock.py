"""The gate's lock: whole, pinned, with hashes, and not behind setup.py."""

import pathlib
import re
import runpy
import sys
from unittest import mock

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
ENTRY = re.compile(r"(\S+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)")


def entries(text):
    """Versions by name.

    Raises:
        ValueError: a line that is not pinned, or has no hash.
    """
    versions = {}
    for line in text.replace("\\\n", " ").splitlines():
        line = " ".join(line.split())
        if line and not line.startswith("#"):
            match = ENTRY.fullmatch(line)
            if match is None:
                raise ValueError(line)
            versions[match.group(1)] = match.group(2)
    return versions


def locked(name):
    return entries((ROOT / "requirements" / name).read_text(encoding="utf-8"))


@pytest.fixture
def asked(monkeypatch):
    """What setup.py asks of the gate's Python, and its extra dev."""
    setuptools = pytest.importorskip("setuptools")
    pytest.importorskip("setuptools.command.egg_info")  # it reads the true version_info
    monkeypatch.setattr(sys, "version_info", (3, 11, 0, "final", 0))
    with mock.patch.object(setuptools, "setup") as call:
        runpy.run_path(str(ROOT / "setup.py"))
    given = call.call_args[1]
    return given["install_requires"] + given["extras_require"]["dev"]


def missing(requirements, names):
    """The requirements that the lock does not meet."""
    packaging = pytest.importorskip("packaging.requirements")
    environment = {"python_version": "3.11", "python_full_version": "3.11.7"}
    absent = []
    for text in requirements:
        need = packaging.Requirement(text)
        if need.marker is None or need.marker.evaluate(environment):
            version = names.get(re.sub(r"[-_.]+", "-", need.name).lower())
            if version is None or not need.specifier.contains(version.split("+")[0]):
                absent.append(text)
    return absent


def test_the_lock_meets_setup(asked):
    assert len(asked) > 10
    assert missing(asked, locked("gate.txt")) == []
    assert missing([*asked, "attrs", "pytest<3"], locked("gate.txt")) == ["attrs", "pytest<3"]


def test_the_lock_and_setup_name_one_torch():
    torch = locked("gate.txt")["torch"]
    assert f"torch=={torch}" in (ROOT / "requirements" / "gate.in").read_text(encoding="utf-8")
    installs = (ROOT / "scripts" / "lib" / "environment.sh").read_text(encoding="utf-8")
    assert f"torch=torch=={torch.split('+')[0]}\n" in installs
    assert {"pip", "setuptools", "wheel"} <= set(locked("gate-build.txt"))
    assert set(locked("gate-axe.txt")) == {"axe-playwright-python"}
