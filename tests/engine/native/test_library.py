"""Finding, checking and loading the native engine: what is wrong ends in a line, no crash."""

import ctypes
import logging
import shutil
import threading
from typing import ClassVar

import pytest

from fairseq_specdec.engine.native import library, structures
from fairseq_specdec.engine.native.variants import PROBE, SEAL_SIZE, VARIANTS, seal
from fairseq_specdec.version import __version__


@pytest.fixture
def folder(built, tmp_path, monkeypatch):
    """A copy of the probe and of all objects, in which ``load`` looks as a new process would."""
    for name in (PROBE, *(each.file for each in VARIANTS)):
        if (library.FOLDER / name).exists():
            shutil.copy(str(library.FOLDER / name), str(tmp_path))
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    monkeypatch.setattr(library, "loaded", {})
    monkeypatch.delenv(library.ENVIRONMENT, raising=False)
    return tmp_path


def usable(folder):
    """The objects that are there and that the processor runs, worst first."""
    names = [each.file for each in library.supported(folder)]
    return [folder / name for name in names if (folder / name).exists()]


def test_the_best_supported_variant_is_loaded_once_for_all_threads(folder, monkeypatch):
    counts, answers = [], []
    monkeypatch.setattr(library, "threads_wanted", lambda environment: 5)
    monkeypatch.setattr(library.Library, "set_threads", lambda self, count: counts.append(count))
    threads = [threading.Thread(target=lambda: answers.append(library.load())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and len(set(map(id, answers))) == 1 and library.why_not() == ""
    assert f"_{answers[0].variant}.so" == usable(folder)[-1].name and counts == [5]


def test_a_variant_by_name_or_none(folder, monkeypatch):
    for path in usable(folder):
        monkeypatch.setenv(library.ENVIRONMENT, path.name[1:-3])
        assert library.load().variant == path.name[1:-3]
    monkeypatch.setenv(library.ENVIRONMENT, "off")
    assert library.load() is None and library.why_not() == "FAIRSEQ_SPECDEC_NATIVE is off"
    missing = usable(folder)[0]
    missing.unlink()
    library.loaded.clear()
    for name, problem in (
        ("sse2", r"^FAIRSEQ_SPECDEC_NATIVE=sse2: choose off or one of x86"),
        (missing.name[1:-3], "is not built, or not for this processor"),
    ):
        monkeypatch.setenv(library.ENVIRONMENT, name)
        with pytest.raises(ValueError, match=problem):
            library.load()


def test_nothing_built(folder, monkeypatch):
    for path in folder.glob("*.so"):
        path.unlink()
    assert library.load() is None and library.why_not() == library.not_built(folder)
    assert "install fairseq_specdec again" in library.why_not()  # no checkout
    monkeypatch.setenv(library.ENVIRONMENT, VARIANTS[0].name)
    with pytest.raises(ValueError, match="it was not built"):
        library.load()


def test_objects_that_the_probe_does_not_allow_are_left_alone(folder, monkeypatch):
    """However good they are: their first instruction might be one that the processor lacks."""
    first = library.supported(folder)[0]
    monkeypatch.setattr(library, "supported", lambda folder: [first])
    for path in folder.glob("_*.so"):
        if path.name not in (first.file, PROBE):
            path.write_bytes(b"must not be opened")
    assert library.load().variant == first.name
    library.loaded.clear()
    monkeypatch.setattr(library, "supported", lambda folder: [])
    monkeypatch.setattr(library, "Library", None)
    assert library.load() is None and "suits this processor" in library.why_not()


def one_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def text(path):
    path.write_text("no object\n")
    seal(path)


def as_folder(path):
    path.unlink()
    path.mkdir()


SPOILED = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:9999]),
    "one bit": one_bit,
    "stripped": lambda path: path.write_bytes(path.read_bytes()[:-SEAL_SIZE]),
    "text": text,
    "foreign": lambda path: shutil.copy(str(path.with_name(PROBE)), str(path)),
    "folder": as_folder,
}


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("kind", SPOILED)
def test_a_spoiled_object_is_one_warning_and_the_next_is_taken(kind, every, folder, caplog):
    caplog.set_level(logging.WARNING)
    paths = usable(folder)
    spoiled = paths if every else paths[-1:]
    for path in spoiled:
        SPOILED[kind](path)
    found, messages = library.load(), [record.getMessage() for record in caplog.records]
    assert len(messages) == len(spoiled)
    for path, message in zip(reversed(spoiled), messages):
        assert str(path) in message and message.endswith(library.REMEDY) and "\n" not in message
    rest = paths[: -len(spoiled)]
    assert found is None if not rest else f"_{found.variant}.so" == rest[-1].name
    assert rest or library.why_not() in messages[-1]


@pytest.mark.parametrize("kind", [kind for kind in SPOILED if kind != "foreign"])
def test_a_spoiled_probe_allows_nothing(kind, folder, caplog):
    SPOILED[kind](folder / PROBE)
    assert library.load() is None and len(caplog.records) == 1


def test_objects_of_another_release_are_refused(folder, monkeypatch):
    class Grown(structures.BeamFacts):
        _fields_: ClassVar = [("more", ctypes.c_int64)]

    others = [dict(structures.STRUCTURES, **{name: Grown}) for name in ("BeamFacts", "Unknown")]
    for changed, version, problem in (
        (structures.STRUCTURES, "99.1", "the package is 99.1"),
        (others[0], __version__, "has other structures than this package: BeamFacts;"),
        (others[1], __version__, "has other structures than this package: Unknown;"),
    ):
        library.loaded.clear()
        monkeypatch.setattr(library, "STRUCTURES", changed)
        monkeypatch.setattr(library, "__version__", version)
        assert library.load() is None and problem in library.why_not()


def test_objects_older_than_their_sources_are_refused(folder):
    """Where there are sources: a wheel has none."""
    assert library.load() is not None
    library.loaded.clear()
    (folder / "src").mkdir()
    (folder / "src" / "engine.cpp").write_text("int changed;")
    assert library.load() is None and "is older than its sources" in library.why_not()
