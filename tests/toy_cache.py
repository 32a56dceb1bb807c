"""Trained toys on disk: each is trained once, for all processes of a run and for later runs.

An entry's name is a hash of all that makes it: its settings, the toys' own source, the modules of
the package that its training runs, and the releases of torch, fairseq and Python. So what is found
is never out of date, and old entries are only garbage. A damaged entry is made again.
"""

import contextlib
import fcntl
import functools
import hashlib
import io
import os
import pathlib
import re
import sys
import zipfile

import fairseq
import torch
from import_graph import arrows, modules_of

TESTS = pathlib.Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "fairseq_specdec"
FOLDER = TESTS.parent / ".pytest_cache" / "toys"
# Changes fairseq as it is imported, so any training may run it.
ALWAYS = "fairseq_specdec.compat"
EVERYTHING = "fairseq_specdec"


def folder():
    """Where the entries lie: ``SPECDEC_TOYS``, or a folder that git ignores."""
    return pathlib.Path(os.environ.get("SPECDEC_TOYS") or FOLDER)


@functools.cache
def _graph():
    modules = modules_of(PACKAGE)
    return modules, arrows(modules)


@functools.cache
def sources(*uses):
    """The files of these modules of the package, of what they import, and of the toys, sorted."""
    modules, imports = _graph()
    names, left = set(), list(modules) if EVERYTHING in uses else [ALWAYS, *uses]
    while left:
        name = left.pop()
        # The package's own __init__ imports all of it, whatever is asked for.
        if name not in names and name != PACKAGE.name:
            names.add(name)
            left += imports[name]
    return sorted([*(modules[name] for name in names), *trainers()])


@functools.cache
def trainers():
    """The files of the tests that train models: those that call ``trained``, and this one."""
    paths = [pathlib.Path(__file__).resolve()]
    for path in set(TESTS.rglob("*.py")) - set(TESTS.rglob("test_*.py")):
        if re.search(r"^from toy_cache import .*\btrained\b", path.read_text("utf-8"), re.M):
            paths.append(path)
    return paths


def key(settings, uses=(), files=()):
    """The name of an entry.

    Args:
        settings: whatever else makes the toy, with a ``repr`` that says it all.
        uses: modules of the package that its training runs; or ``EVERYTHING``.
        files: other sources that say how it is made.
    """
    made = hashlib.sha256(repr((settings, torch.__version__, fairseq.__version__)).encode())
    made.update(repr(sys.version_info[:2]).encode())
    for path in (*sources(*uses), *map(pathlib.Path, files)):
        made.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return made.hexdigest()[:32]


def write_whole(path, content):
    """Write bytes under their SHA-256, at once or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_bytes(hashlib.sha256(content).digest() + content)
    os.replace(str(temporary), str(path))


def read_whole(path):
    """What ``write_whole`` wrote; None where there is no such file, or another content."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    digest, content = content[:32], content[32:]
    return content if hashlib.sha256(content).digest() == digest else None


@contextlib.contextmanager
def _alone(path):
    """Nobody else is in here for the same path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(str(path) + ".lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cached(name, make, home=None):
    """The bytes of an entry; ``make()`` gives them where it is absent or damaged.

    Args:
        home: the folder; that of the toys by default.
    """
    path = (home or folder()) / name
    with _alone(path):
        content = read_whole(path)
        if content is None:
            content = make()
            write_whole(path, content)
        return content


def trained(model, teach, *settings, uses=()):
    """The model, trained and in eval mode; the state of torch's random numbers stays as it was.

    Args:
        model: untrained.
        teach: a function of no arguments that trains it.
        settings: what the model and its training depend on, beside the toys' source.
        uses: modules of the package that they run.
    """

    def make():
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            teach()
        stream = io.BytesIO()
        torch.save(model.state_dict(), stream)
        return stream.getvalue()

    content = cached(f"{key((type(model).__name__, settings), uses)}.pt", make)
    model.load_state_dict(torch.load(io.BytesIO(content), map_location="cpu"))
    return model.eval()


def cached_folder(destination, name, make):
    """Fill an empty folder with what ``make(destination)`` puts there, from disk if it is known."""

    def packed():
        make(destination)
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive:
            for path in sorted(destination.rglob("*")):
                if path.is_file():
                    archive.write(str(path), str(path.relative_to(destination)))
        return stream.getvalue()

    content = cached(f"{name}.zip", packed)
    if not any(destination.iterdir()):
        zipfile.ZipFile(io.BytesIO(content)).extractall(str(destination))
    return destination
