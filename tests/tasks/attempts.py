"""Commands that must end with an error, damaged files, and two commands that must say the same."""

import pytest
from in_process import run_here


@pytest.fixture
def attempt(toy, monkeypatch):
    """Decode; returns the error's text. Decoding itself must not be reached."""
    from fairseq_specdec.decoding.generator import SpeculativeGenerator

    def reached(*args, **kwargs):
        raise AssertionError("decoding began")

    monkeypatch.setattr(SpeculativeGenerator, "generate", reached)

    def run(data=toy.data, log=None, command="generate", **flags):
        given = {"task": "translation_specdec", "path": toy.v, "beam": 1, "batch_size": 16}
        given.update(flags)
        with pytest.raises(Exception) as caught:
            run_here(command, data, log=log, **given)
        assert not isinstance(caught.value, (AssertionError, KeyError, TypeError)), caught.value
        return str(caught.value)

    return run


def cut_in_half(path, folder):
    half = folder / "half.pt"
    with open(path, "rb") as file:
        content = file.read()
    half.write_bytes(content[: len(content) // 2])
    return str(half)


def assert_same(ours, reference):
    assert len(reference) == 100
    assert ours.keys() == reference.keys()
    for number, (words, score, scores) in reference.items():
        mine = ours[number]
        assert mine[0] == words, f"sentence {number}"
        assert mine[1] == pytest.approx(score, abs=1e-3)
        assert mine[2] == pytest.approx(scores, abs=1e-3)
