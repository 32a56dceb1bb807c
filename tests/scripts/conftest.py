"""The demo's scripts, importable and runnable as its steps run them."""

import os
import pathlib
import subprocess
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
for folder in (REPO / "scripts" / "demo", REPO / "scripts" / "lib"):
    sys.path.insert(0, str(folder))


@pytest.fixture
def run_step(tmp_path):
    """Run a step of scripts/demo in a work folder of its own; the finished process."""

    def run(step, check=True, **settings):
        environment = dict(
            os.environ,
            WORK=str(tmp_path / "work"),
            PYTHON=sys.executable,
            THREADS="1",
            OMP_NUM_THREADS="1",
            CUDA_VISIBLE_DEVICES="",
        )
        environment.update({name: str(value) for name, value in settings.items()})
        done = subprocess.run(
            ["bash", str(REPO / "scripts" / "demo" / f"{step}.sh")],
            cwd=str(tmp_path),
            env=environment,
            capture_output=True,
            text=True,
        )
        assert not check or done.returncode == 0, done.stderr[-4000:]
        return done

    return run
