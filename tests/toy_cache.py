"""Trained toys on disk: each is trained once, for all processes of a run and for later runs.

An entry's name is a hash of all that makes it: its settings, the toys' own source, the packages
that its training runs, and the releases of torch, fairseq and Python. So what is found is never out
of date, and old entries are only garbage.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import re
import shutil
import sys

import fairseq
import torch

TESTS = pathlib.Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "fairseq_specdec"
FOLDER = TESTS.parent / ".pytest_cache" / "toys"
EVERYTHING = "fairseq_specdec"
# What trains a model of this project; one of fairseq's is trained by what changes fairseq alone.
TRAINING = ("checkpoints", "criterions", "engine", "io", "models", "training")


def folder():
    """Where the entries lie: ``SPECDEC_TOYS``, or a folder that git ignores."""
    return pathlib.Path(os.environ.get("SPECDEC_TOYS") or FOLDER)


@functools.cache
def sources(*uses):
    """The files that train what uses these modules of the package, and those of the toys."""
    folders = ["."] if EVERYTHING in uses else ["compat", *(TRAINING if uses else ())]
    paths = (path for name in folders for path in (PACKAGE / name).rglob("*.py"))
    return [*sorted(paths), *trainers()]


@functools.cache
def trainers():
    """The files of the tests that train models: those that call ``trained``, and this one."""
    found = re.compile(r"^from toy_cache import .*\btrained\b", re.M)
    paths = sorted(set(TESTS.rglob("*.py")) - set(TESTS.rglob("test_*.py")))
    return [
        pathlib.Path(__file__),
        *(path for path in paths if found.search(path.read_text("utf-8"))),
    ]


def key(settings, uses=(), files=()):
    """The name of an entry.

    Args:
        settings: whatever else makes the toy, with a ``repr`` that says it all.
        uses: modules of the package that its training runs, if any; or ``EVERYTHING``.
        files: other sources that say how it is made.
    """
    made = hashlib.sha256(repr((settings, torch.__version__, fairseq.__version__)).encode())
    made.update(repr(sys.version_info[:2]).encode())
    for path in (*sources(*uses), *map(pathlib.Path, files)):
        made.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return made.hexdigest()[:32]


@contextlib.contextmanager
def _alone(path):
    """Nobody else is in here for the same path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(str(path) + ".lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cached(path, make):
    """The file or folder of an entry; ``make(path)`` makes it where there is none."""
    with _alone(path):
        if not path.exists():
            temporary = path.with_name(f"{path.name}.{os.getpid()}")
            make(temporary)
            os.replace(temporary, path)  # at once or not at all
    return path


def trained(model, teach, *settings, uses=()):
    """The model, trained and in eval mode; the state of torch's random numbers stays as it was.

    Args:
        model: untrained.
        teach: a function of no arguments that trains it.
        settings: what the model and its training depend on, beside the toys' source.
        uses: modules of the package that they run.
    """

    def make(path):
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            teach()
        torch.save(model.state_dict(), path)

    path = cached(folder() / f"{key((type(model).__name__, settings), uses)}.pt", make)
    model.load_state_dict(torch.load(path, map_location="cpu"))
    return model.eval()


def cached_folder(destination, name, make):
    """Fill an empty folder with what ``make(destination)`` puts there, from disk if it is known."""

    def filled(path):
        make(destination)
        shutil.copytree(destination, path)

    path = cached(folder() / name, filled)
    if not any(destination.iterdir()):
        shutil.copytree(path, destination, dirs_exist_ok=True)
    return destination
