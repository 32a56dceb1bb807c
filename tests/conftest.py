"""Fixtures shared by every test: a tiny corpus, and fairseq's commands as a user runs them."""

import copy
import functools
import os
import pathlib
import random
import signal
import subprocess
import sys

import hypothesis
import pytest
from fairseq.dataclass import utils
from hydra.core.config_store import ConfigStore
from toy_cache import cached_folder, key
from toy_pair import write_pair
from warm_python import WarmPython

import fairseq_specdec.tasks
from fairseq_specdec.decoding import pace
from fairseq_specdec.engine.native import library

PLUGIN = os.path.abspath(fairseq_specdec.__path__[0])
WORDS = [chr(ord("a") + i) * 2 for i in range(16)]

# Toys draft as much as their drafters can, so that drafts are tested, however long passes take.
pace.TIMED, pace._COLUMN, pace._DRAFT = False, 0.0, 0.0

# A loaded machine is no fault of an example's.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts what runs in the background so, and every command under test would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run_fairseq(command, *arguments, cwd=None, env=None, launcher=(), python=sys.executable):
    """Run ``fairseq-<command>`` with this Python, or ``python``, and return (stdout, stderr).

    Training logs to stdout; generation writes its log to stderr.

    Raises:
        AssertionError: the command failed; the message ends with its log.
    """
    environment = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    environment["PYTHON_EXEC"] = str(python)  # what torchrun starts
    environment.update(env or {})
    # fairseq's reader thread may abort a process that stops within an epoch; these all do.
    if command == "train":
        arguments += ("--data-buffer-size", 0)
    elif command == "hydra-train":
        arguments += ("dataset.data_buffer_size=0",)
    module = "fairseq_cli." + command.replace("-", "_")
    done = subprocess.run(
        [str(python), *launcher, "-m", module, *map(str, arguments)],
        cwd=str(cwd) if cwd else None,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (
        f"fairseq-{command} exited {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout, done.stderr


def count(nodes):
    """Registered settings below a node of hydra's store."""
    return sum(map(count, nodes.values())) if isinstance(nodes, dict) else 1


@pytest.fixture(scope="session", autouse=True)
def settings_composed_once():
    """hydra composes settings once for the same words and as many registered settings. It takes a
    third of a second, for every checkpoint that holds an ``argparse.Namespace``, as toys' do."""
    compose, known = utils.compose, {}

    def once(name, overrides, **others):
        if any("${" in line and "." not in line.split("=")[0] for line in overrides):
            return compose(name, overrides=overrides, **others)  # a choice may name the environment
        at = repr((name, overrides, sorted(others.items()), count(ConfigStore.instance().repo)))
        if at not in known:
            known[at] = compose(name, overrides=overrides, **others)
        return copy.deepcopy(known[at])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(utils, "compose", once)
        yield


@pytest.fixture(scope="session")
def warm_python():
    """The server and the programs of ``warm_python.py``."""
    warm = WarmPython()
    yield warm
    warm.close()


@pytest.fixture(scope="session")
def fairseq_command(warm_python):
    """``run_fairseq`` in a fork of a process that has imported fairseq, which takes seconds."""
    return functools.partial(run_fairseq, python=warm_python.python)


@pytest.fixture(scope="session")
def reversal_data(tmp_path_factory, fairseq_command) -> pathlib.Path:
    """A binarised toy corpus, 200/100/100 sentences of 3 to 9 words; the target is reversed."""

    def make(folder):
        write_reversal(folder, fairseq_command)

    folder = tmp_path_factory.mktemp("reversal")
    return cached_folder(folder, key("reversal", files=[__file__]), make) / "bin"


def write_reversal(folder, fairseq_command):
    """Text and, in ``bin``, what fairseq-preprocess makes of it."""
    rng = random.Random(1)
    for split, size in (("train", 200), ("valid", 100), ("test", 100)):
        lines = [rng.choices(WORDS, k=rng.randint(3, 9)) for _ in range(size)]
        for language, step in (("src", 1), ("tgt", -1)):
            text = "".join(" ".join(line[::step]) + "\n" for line in lines)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")
    prefixes = [f"--{n}pref={folder / n}" for n in ("train", "valid", "test")]
    fairseq_command(
        "preprocess", "-s", "src", "-t", "tgt", "--joined-dictionary", *prefixes,
        "--destdir", folder / "bin", "--workers", 1,
    )  # fmt: skip


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """The toy pair as files, made once; who writes beside them has a pair of its own."""
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def with_library():
    """The native library."""
    return library.load() or pytest.skip(library.why_not())


@pytest.fixture
def on_torch(monkeypatch):
    """Without the native library: for tests that watch or break the torch backend."""
    monkeypatch.setenv("FAIRSEQ_SPECDEC_NATIVE", "off")
