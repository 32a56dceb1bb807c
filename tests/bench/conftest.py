"""A toy pair on disk: data, a trained verifier, another one, and a trained drafter."""

from types import SimpleNamespace

import pytest
from in_process import one_thread
from toy_pair import write_pair

from fairseq_specdec.bench import cli


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """Paths: data, v (verifier), w (another verifier) and d (drafter); 12 test sentences."""
    folder = write_pair(tmp_path_factory.mktemp("pair"))
    for side in ("src", "tgt"):
        path = folder / f"test.src-tgt.{side}"
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:12]))
    names = {"v": "verifier", "w": "other", "d": "drafter"}
    return SimpleNamespace(
        data=str(folder), **{key: str(folder / f"{name}.pt") for key, name in names.items()}
    )


@pytest.fixture
def bench(pair):
    """Run the command in this process on the toy pair: (its results, what it printed)."""

    def run(*words, path=pair.v):
        printed = []
        line = [pair.data, "--path", path, "-s", "src", "-t", "tgt", "--cpu", "--threads", "1"]
        line += ["--dataset-impl", "raw"]
        with one_thread():
            result = cli.main([*line, *map(str, words)], printed.append)
        return result, "".join(printed)

    return run
