"""Calls with flags of their own: what does not depend on a flag is read once."""

import pytest
from toy_pair import text_of
from toy_translation import sentences

from fairseq_specdec.drafting.token_choice import ChainSearch
from fairseq_specdec.engine.native.decoder import NativeDecoder
from fairseq_specdec.engine.native.library import Library
from fairseq_specdec.engine.torch_decoder import TorchDecoder
from fairseq_specdec.engine.torch_layers import Linear
from fairseq_specdec.hub.translator import SpeculativeTranslator

TEXT = text_of(sentences(1, seed=9)[0])
# Flags of a call by strategy: the first value, and others.
VARIED = {
    "greedy": {"beam": (1, 2), "lenpen": (1.0, 0.5), "min_len": (1, 3), "unkpen": (0.0, 1.0),
               "temperature": (1.0, 2.0), "no_repeat_ngram_size": (0, 2), "sampling": (False, True),
               "unnormalized": (False, True)},
    "iad": {"max_suffix": (3, 2), "block_size": (4, 3)},
    "lookup": {"max_suffix": (3, 2), "block_size": (4, 3)},
    "gad": {"block_size": (4, 2), "draft_budget": (0, 2), "draft_confidence": (0.0, 0.3)},
    "gad++": {"tau": (1.0, 2.0), "top_beta": (3, 4)},
    "nar": {"block_size": (4, 3)},
}  # fmt: skip
CALLS = [
    (strategy, name, value)
    for at in (0, 1)
    for strategy, flags in VARIED.items()
    for name, value in ((name, values[at]) for name, values in flags.items())
]


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_nothing_is_packed_again_for_other_flags(pair, monkeypatch, backend):
    made = []
    for kind in (Linear, TorchDecoder, NativeDecoder, ChainSearch):
        original = kind.__init__

        def counted(self, *args, _original=original, **named):
            made.append(type(self).__name__)
            _original(self, *args, **named)

        monkeypatch.setattr(kind, "__init__", counted)
    call = Library.call

    def recorded(self, name, *args):
        if name.endswith(("_new", "_borrow")) and name != "specdec_beams_new":  # one a batch
            made.append(name)
        call(self, name, *args)

    monkeypatch.setattr(Library, "call", recorded)
    translator = SpeculativeTranslator.from_pretrained(pair, device="cpu", backend=backend)
    for n, (strategy, name, value) in enumerate(CALLS):
        if n == len(CALLS) // 2:
            assert made
            made.clear()
        translator.translate(TEXT, strategy=strategy, max_len_b=20 + n, **{name: value})
    assert made == []
