"""Calls with flags of their own: what does not depend on a flag is read once."""

import contextlib
import copy
import itertools

import pytest
from fairseq.dataclass.configs import GenerationConfig
from toy_pair import text_of
from toy_strategies import TOYS, attached, small, toy_drafter
from toy_translation import make_task, sentences

from fairseq_specdec.config import SpecDecConfig
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES
from fairseq_specdec.drafting.token_choice import ChainSearch
from fairseq_specdec.engine.native.decoder import NativeDecoder
from fairseq_specdec.engine.native.library import Library
from fairseq_specdec.engine.torch_decoder import TorchDecoder
from fairseq_specdec.engine.torch_layers import Linear
from fairseq_specdec.hub.decoding import SETTLED, Decodings
from fairseq_specdec.hub.flags import GENERATION, OWN
from fairseq_specdec.hub.loading import Loaded
from fairseq_specdec.hub.text import TextCodec
from fairseq_specdec.hub.translator import SpeculativeTranslator

CALLS = 60
FIELDS = {**GenerationConfig.__dataclass_fields__, **SpecDecConfig.__dataclass_fields__}
# max_len_b varies in every call; accept_epsilon wants a vocabulary of numbers.
VARIED = sorted({*OWN, *GENERATION} - SETTLED - {"max_len_b", "accept_epsilon", "vocabulary_list"})
TEXT = text_of(sentences(1, seed=9)[0])


def value_of(name, n):
    """The n-th value of a flag, by its type."""
    field = FIELDS[name]
    if isinstance(field.metadata.get("values"), tuple):
        return field.metadata["values"][n % len(field.metadata["values"])]
    kinds = str(field.type)
    return n % 2 == 0 if "bool" in kinds else 2 + n % 2 if "int" in kinds else 1 / (1 + n)


def choices():
    """(flag, strategy, flags), no two alike: each flag in turn, with a strategy that uses it."""
    for n in itertools.count():
        turn, at = divmod(n, len(VARIED))
        name = VARIED[at]
        able = list(OWN_FLAGS.get(name, STRATEGIES))
        given = {name: value_of(name, turn), "max_len_b": 20 + n}
        if name.startswith("sampling_"):
            given["sampling"] = True
        for other, wanted in (("nbest", "beam"), ("min_block_size", "block_size")):
            if name == other:
                given[wanted] = given[name]
        yield name, able[turn % len(able)], given


@pytest.fixture
def translators(monkeypatch):
    """By strategy, as many as there are verifiers. The drafter of gad has a chain."""
    strategies = "fairseq_specdec.decoding.strategies."
    reads = {"gad.load_drafter": attached, "nar.load_drafter": toy_drafter}
    reads["small_models.load_small_model"] = small
    for name, drafter in reads.items():
        monkeypatch.setattr(strategies + name, lambda *_, made=drafter: copy.deepcopy(made()))
    words, made = make_task().target_dictionary, {}
    for toys in TOYS.values():
        if toys.verifier not in made:
            loaded = Loaded(make_task(), [copy.deepcopy(toys.verifier())], None)
            codec = TextCodec({}, {}, ("src", "tgt"), words, words)
            decodings = Decodings(loaded, codec, __file__, "greedy", {})
            made[toys.verifier] = SpeculativeTranslator(decodings, 4096, "refuse", False)
    return {toys.strategy: made[toys.verifier] for toys in TOYS.values()}


def test_nothing_is_packed_again_for_other_flags(translators, monkeypatch):
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

    def decode(*chosen):
        """Whether the strategy takes these flags."""
        with contextlib.suppress(ValueError):
            translators[chosen[0]].translate(TEXT, strategy=chosen[0], **chosen[1])
            return True

    for strategy, flags in itertools.product(STRATEGIES, ({}, {"beam": 2}, {"sampling": True})):
        decode(strategy, flags)
    accepted = (name for name, *chosen in choices() if decode(*chosen))
    assert set(itertools.islice(accepted, 3 * len(VARIED))) == set(VARIED) and made
    made.clear()
    assert len(list(itertools.islice(accepted, CALLS))) == CALLS
    assert made == []
