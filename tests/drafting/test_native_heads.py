"""Blockwise heads in the native library against those in torch."""

import copy

import pytest
import torch
from fairseq.utils import get_activation_fn
from toy_blockwise import toy_blockwise
from toy_hypotheses import open_on, rows_of
from toy_strategies import decode, flags, make_generator
from toy_translation import PAD, make_sample, sentences, toy_model

from fairseq_specdec.decoding.native_chains import NativeChains
from fairseq_specdec.drafting import BlockwiseHeadsDrafter
from fairseq_specdec.drafting.blockwise_heads import native_heads
from fairseq_specdec.drafting.native_block import NativeBlockSession
from fairseq_specdec.engine.backend import NativeBackend, choose_backend
from fairseq_specdec.engine.native.library import load

pytestmark = pytest.mark.skipif(load() is None, reason="the native library is not built")
SOURCES = sentences(16, seed=7)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return toy_blockwise(tmp_path_factory.mktemp("heads"), block_size=4, freeze_base=True)


def drafts(model, backend, size=4, activation=None):
    """What follows random states: before rows leave, after it, and with little room."""
    model = copy.deepcopy(model)
    if activation is not None:
        model.decoder.block_heads.activation = get_activation_fn(activation)
    drafter = BlockwiseHeadsDrafter(model, size, PAD)
    net_input = make_sample(SOURCES)["net_input"]
    encoder_out = model.encoder(net_input["src_tokens"], net_input["src_lengths"])
    session = open_on(drafter, SOURCES, 9, encoder_out=encoder_out, backend=backend)
    assert isinstance(session, NativeBlockSession) == isinstance(backend, NativeBackend)
    rows = len(SOURCES)
    tokens = [session.propose(rows_of([[]] * rows)).tokens.tolist()]
    states = torch.randn(rows, 10, 32, generator=torch.Generator().manual_seed(2))
    session.verifier.states = states
    tokens.append(
        session.propose(rows_of([[5] * (1 + n % 3) for n in range(rows)])).tokens.tolist()
    )
    kept = list(range(1, rows, 2))
    session.keep(torch.tensor(kept), kept)
    session.verifier.states = states[kept]
    for length in (4, 7, 9):
        tokens.append(session.propose(rows_of([[5] * length] * len(kept))).tokens.tolist())
    return tokens


@pytest.mark.parametrize("size", [2, 3, 4])
@torch.no_grad()
def test_the_library_drafts_as_torch(model, size):
    native, plain = (
        drafts(model, choose_backend(n, [toy_model()]), size) for n in ("native", "torch")
    )
    assert native == plain
    assert [len(each[0]) for each in native] == [0, *[size - 1] * 4]
    assert len({tuple(row) for row in native[1]}) > len(SOURCES) // 2


@pytest.mark.parametrize("activation", ["gelu", "tanh"])
@torch.no_grad()
def test_the_heads_have_their_own_activation(model, activation):
    backends = (choose_backend(name, [toy_model()]) for name in ("native", "torch"))
    native, plain = (drafts(model, backend, activation=activation) for backend in backends)
    assert native == plain


@torch.no_grad()
def test_other_activations_are_left_to_torch(model):
    heads = copy.deepcopy(model.decoder)
    backend = choose_backend("native", [toy_model()])
    assert native_heads(heads, backend, 4, PAD) is not None
    heads.block_heads.activation = torch.sin
    assert native_heads(heads, backend, 4, PAD) is None


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("number_format", ["fp32", "bf16", "int8"])
def test_exact_blockwise_drafts_within_a_call(model, number_format, free, monkeypatch):
    calls, speculate = [], NativeChains._speculate

    def counted(chains, *given):
        rounds = speculate(chains, *given)
        calls.append(len(rounds))
        return rounds

    monkeypatch.setattr(NativeChains, "_speculate", counted)
    outputs, sample = {}, make_sample(SOURCES)
    for case in ("none", "blockwise"):
        generator = make_generator(
            case, flags(), [copy.deepcopy(model)], backend="native", verifier_dtype=number_format,
            free_unpacked=free,
        )  # fmt: skip
        outputs[case] = [h["tokens"].tolist() for h in decode(generator, sample)]
    assert outputs["none"] == outputs["blockwise"]
    assert max(calls) > 1
    assert generator.stats.accepted > 0
