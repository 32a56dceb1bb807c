"""Every check of the project: ``nox -l`` lists the sessions, ``nox -s lint`` runs one.

``nox`` alone runs the tests on every Python that is installed; words after ``--`` go to pytest:
``nox -s tests-3.10 -- tests/acceptance tests/engine``. Each has an environment of its own in .nox;
``nox -R`` uses the one that is there. The other sessions, and ``tests`` with ``--no-venv``, run in
the environment that nox is in: ``pip install -e '.[dev]'``, or that of ``scripts/test.sh``.
"""

import importlib.util
import os
import pathlib
import platform
import shutil
import subprocess
import sys

import nox

nox.needs_version = ">=2024.3.2"
nox.options.sessions = ["tests"]
nox.options.error_on_missing_interpreters = False
nox.options.default_venv_backend = "venv"

ROOT = pathlib.Path(__file__).resolve().parent
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# setup.py chooses the fairseq; this chooses the torch. The first is the oldest of both, the last
# three the newest of their fairseq; "torch" alone is the newest that there is.
TORCH = {
    "3.10": "torch==2.6.0",  # fairseq 0.12.2
    "3.11": "torch==2.13.0",  # ve-fairseq 0.12.3; the gate's
    "3.12": "torch",  # ve-fairseq 0.12.3
    "3.13": "torch",  # fairseq-fixed 0.12.3.1
}
VERSIONS = """
import platform, fairseq, numpy, torch
print("Python", platform.python_version(), "torch", torch.__version__,
      "fairseq", fairseq.__version__, "numpy", numpy.__version__)
"""
LOCK = (
    "uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url"
    " --no-emit-find-links --python-version 3.11 --python-platform x86_64-manylinux_2_28"
)
CPU_TORCH = (
    "--extra-index-url https://download.pytorch.org/whl/cpu --index-strategy unsafe-best-match"
)
# SECURITY.md argues each; pip-audit may know a fault by either name.
EXCEPTED = ("CVE-2025-3000", "PYSEC-2025-194", "CVE-2026-4538", "PYSEC-2026-139")

if shutil.which("pyenv") and "PYENV_VERSION" not in os.environ:
    # pyenv hides all but the chosen version: choose all of them, newest last.
    listed = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True)
    os.environ["PYENV_VERSION"] = ":".join(reversed(listed.stdout.split()))

session_here = nox.session(venv_backend="none")


def python(session, *words, **env):
    """A command of the Python that nox runs on."""
    session.run(sys.executable, *map(str, words), env={**ONE_THREAD, **env})


@nox.session(python=list(TORCH))
def tests(session):
    """All tests but slow ones, as many processes as cores, one thread each."""
    env = dict(ONE_THREAD)
    if session.python:
        torch, options = TORCH[session.python], []
        session.install("--quiet", torch)
        if session.python == "3.13":
            # Building fairseq-fixed apart would download another torch.
            session.install("--quiet", "setuptools", "wheel", "cython", "numpy")
            options = ["--no-build-isolation"]
        session.install("--quiet", *options, torch, "-e", ".[dev]")
        env["CUDA_VISIBLE_DEVICES"] = ""
    session.run("python", "-c", VERSIONS)
    # os.cpu_count heeds no taskset.
    workers = str(len(os.sched_getaffinity(0)))
    options = ("--durations", "10", "-n", workers, "--dist", "worksteal")
    session.run("python", "-m", "pytest", *options, *session.posargs, env=env)


@session_here
def lint(session):
    """ruff, mypy, shellcheck; phrases that are no plain English; tables made from JSON."""
    python(session, "-m", "ruff", "check", ".")
    python(session, "-m", "ruff", "format", "--check", ".")
    python(session, "scripts/lib/plain_english.py")
    python(session, "benchmarks/result_tables.py", "--check")
    python(session, "scripts/lib/papers_page.py", "--check")
    python(session, "-m", "mypy")
    scripts = sorted(map(str, ROOT.glob("scripts/**/*.sh")))
    session.run("shellcheck", ".ci/run", "scripts/run", "benchmarks/gpu.sh", *scripts)


@session_here
def sanitize(session):
    """The native engine's tests with GCC's sanitizers; needs g++."""
    python(session, "tests/engine/native/sanitize.py", *session.posargs)


@session_here
def emulated(session):
    """The engine's tests on AArch64; needs g++-aarch64-linux-gnu, qemu-user and a network."""
    python(session, "tests/engine/native/emulated.py", *session.posargs)


@session_here
def fuzz(session):
    """Random calls, packed files and requests for $MINUTES minutes (15); $SEED repeats a run."""
    given = {"MINUTES": os.environ.get("MINUTES", "15"), "SEED": os.environ.get("SEED", "")}
    env = {f"SPECDEC_FUZZ_{name}": value for name, value in given.items()}
    python(session, "-m", "pytest", "-m", "fuzz", "tests/fuzz", **env)
    python(session, "tests/engine/native/sanitize.py", "--fuzz", **env)


@session_here
def slow(session):
    """The slow tests, or those of the folders after ``--``."""
    python(session, "-m", "pytest", "-m", "slow", *(session.posargs or ["tests"]))


@session_here
def docs(session):
    """The pages as a site, in docs/_build; needs .[docs] and Python 3.11 or newer."""
    if not all(map(importlib.util.find_spec, ("furo", "myst_parser", "sphinx"))):
        session.error("Sphinx is missing; on Python 3.11 or newer: pip install '.[docs]'")
    options = ("-E", "-W", "--keep-going", "-q", "-b", "html")
    python(session, "-m", "sphinx", *options, "docs", "docs/_build/html")


@session_here
def release(session):
    """Wheels with digests and twine's check, in dist; needs .[release,dev].

    This machine's wheel is installed without a compiler on PATH, and decodes; the other's objects
    run under QEMU.
    """
    python(session, "scripts/release/build.py", "release")
    names = {"SPECDEC_WHEEL": platform.machine(), "SPECDEC_AARCH64_WHEEL": "aarch64"}
    env = {name: str(*ROOT.glob(f"dist/*_{machine}.whl")) for name, machine in names.items()}
    tests = ("tests/test_wheel.py", "tests/engine/native/test_cross.py")
    python(session, "-m", "pytest", "-q", *tests, **env)


@session_here
def lock(session):
    """Renew the gate's lock files; needs uv. $LOCK_INDEX says where torch's CPU build is."""
    index = os.environ.get("LOCK_INDEX", CPU_TORCH).split()
    for name, *more in (("gate-build",), ("gate", "setup.py", "--extra", "dev")):
        files = (f"requirements/{name}.in", *more, "-o", f"requirements/{name}.txt")
        session.run(*LOCK.split(), *index, *files)


@session_here
def audit(session):
    """Known faults of what the gate installs; needs pip-audit and its database."""
    excepted = [word for name in EXCEPTED for word in ("--ignore-vuln", name)]
    for name in ("gate", "gate-build"):
        locked = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8").replace("+cpu", "")
        path = pathlib.Path(session.create_tmp()) / f"{name}.txt"
        path.write_text(locked, "utf-8")
        # --strict: what could not be asked about is no pass.
        options = ("--strict", "--disable-pip", "--require-hashes", *excepted)
        session.run("pip-audit", *options, "-r", str(path))
