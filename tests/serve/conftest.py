"""The toy pair, served."""

import pytest
from served import TEXTS, serving

from fairseq_specdec.hub import SpeculativeTranslator


@pytest.fixture(scope="session")
def client(pair):
    """Of a server of the toy pair, with small limits."""
    with serving(
        "--path", pair, "--nbest", 2, "--beam", 2, "--max-body", 4096, "--max-characters", 400,
        "--max-texts", 12, "--max-arrival", 0.5,
    ) as client:  # fmt: skip
        yield client


@pytest.fixture(scope="session")
def hub(pair):
    return SpeculativeTranslator.from_pretrained(pair, device="cpu", beam=2, nbest=2)


@pytest.fixture(scope="session")
def expected(hub):
    """What the hub translates of ``TEXTS``."""
    return hub.translate(TEXTS)
