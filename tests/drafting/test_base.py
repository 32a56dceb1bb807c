"""In which number format a drafter's model runs."""

import copy

import pytest
import torch
from toy_translation import toy_drafter, toy_model

from fairseq_specdec.drafting.base import DraftOptions, move_to_verifier
from fairseq_specdec.engine.backend import choose_backend
from fairseq_specdec.engine.devices import NUMBER_FORMATS
from fairseq_specdec.engine.native import library


@pytest.mark.parametrize("asked", ["same", "fp32", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("of_verifier", ["fp32", "int8", "int7"])
def test_a_drafter_is_packed_as_asked_beside_any_verifier(of_verifier, asked):
    if library.load() is None:
        pytest.skip(library.why_not())
    verifier, drafter = toy_model(), copy.deepcopy(toy_drafter())
    native = choose_backend("native", [verifier], of_verifier)
    options = DraftOptions(4, 1, 2, number_format=None if asked == "same" else asked)
    backend = move_to_verifier(drafter, verifier, options, native)
    packed = {"same": of_verifier, "fp16": "fp32"}.get(asked, asked)
    assert backend.number_format == packed
    computed = NUMBER_FORMATS[asked].dtype if asked in ("fp16", "bf16") else torch.float32
    assert {each.dtype for each in drafter.parameters()} == {computed}
