"""The matrix of Pythons, torches and fairseqs: ``nox`` runs the tests on each that is installed.

``nox -l`` lists the sessions. ``nox -s tests-3.10`` runs one; words after ``--`` go to pytest:
``nox -s tests-3.10 -- tests/acceptance tests/engine``. Each has an environment of its own in
.nox, made by ``python -m venv`` and pip of its Python; ``nox -R`` uses the one that is there.
"""

import os
import shutil
import subprocess

import nox

nox.needs_version = ">=2023.4.22"
nox.options.error_on_missing_interpreters = False
nox.options.default_venv_backend = "venv"

# setup.py chooses the fairseq; this chooses the torch. The first is the oldest of both, the last
# three the newest of their fairseq; "torch" alone is the newest that there is.
TORCH = {
    "3.10": "torch==2.6.0",  # fairseq 0.12.2
    "3.11": "torch==2.13.0",  # ve-fairseq 0.12.3; the gate's
    "3.12": "torch",  # ve-fairseq 0.12.3
    "3.13": "torch",  # fairseq-fixed 0.12.3.1
}

if shutil.which("pyenv") and "PYENV_VERSION" not in os.environ:
    # pyenv hides all but the chosen version: choose all of them, newest last.
    listed = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True)
    os.environ["PYENV_VERSION"] = ":".join(reversed(listed.stdout.split()))

VERSIONS = """
import platform, fairseq, numpy, torch
print("Python", platform.python_version(), "torch", torch.__version__,
      "fairseq", fairseq.__version__, "numpy", numpy.__version__)
"""


@nox.session(python=list(TORCH))
def tests(session: nox.Session) -> None:
    """The unit and integration tests, as many processes as cores, one thread each."""
    torch = TORCH[str(session.python)]
    session.install("--quiet", torch)
    if session.python == "3.13":
        # Building fairseq-fixed apart would download another torch.
        session.install("--quiet", "setuptools", "wheel", "cython", "numpy")
        session.install("--quiet", "--no-build-isolation", torch, "-e", ".[dev]")
    else:
        session.install("--quiet", torch, "-e", ".[dev]")
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    session.run("python", "-c", VERSIONS)
    # nproc heeds OMP_NUM_THREADS, and taskset, which os.cpu_count does not.
    workers = str(len(os.sched_getaffinity(0)))
    spread = ("-n", workers, "--dist", "worksteal")
    session.run("python", "-m", "pytest", *spread, *session.posargs, env=threads)
