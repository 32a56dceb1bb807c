"""The toy pair as files, made once."""

import pathlib

import pytest
from toy_pair import write_pair

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def demo():
    """The demo pair's folder, where the checkout has it."""
    folder = ROOT / "data-bin" / "demo_ende"
    if not (folder / "verifier.pt").is_file():
        pytest.skip("data-bin/demo_ende is not in this checkout")
    return folder
