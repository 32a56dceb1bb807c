"""The demo pair."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def demo():
    """The demo pair's folder, where the checkout has it."""
    folder = ROOT / "data-bin" / "demo_ende"
    if not (folder / "verifier.pt").is_file():
        pytest.skip("data-bin/demo_ende is not in this checkout")
    return folder
