"""The block drafter behind its cache: it drafts what the model's own training pass predicts."""

import pytest
import torch
from toy_drafter import make_drafter
from toy_hypotheses import open_drafter, open_on, rows_of, slow_draft, training_pass
from toy_translation import EOS, PAD, toy_attached_drafter, toy_drafter
from walking import SOURCES, net_input_of, reading, walk

from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter
from fairseq_specdec.drafting.base import SilentSession
from fairseq_specdec.drafting.native_block import NativeBlockSession
from fairseq_specdec.drafting.token_choice import likeliest, shortened
from fairseq_specdec.engine.backend import choose_backend
from fairseq_specdec.engine.native.library import load

SPEC = [{}, {"source_copy": True}, {"bidirectional_prefix": True}, {"chain_width": 16}]
ATTACHED = [{}, {"chain_width": 16}, {"decoder_layers": 2, "read_layers": "2"}]


def confident(logits, confidence):
    return shortened(*likeliest(logits, confidence > 0), confidence)


def test_a_draft_ends_before_the_first_token_that_is_too_unlikely():
    sure, torn = [9.0, -9.0, -99.0], [0.0, 0.0, -99.0]  # probabilities of 1 and a half
    logits = torch.tensor([[sure, torn, torn, sure], [torn, torn, torn, sure]])
    for confidence, counts in ((0.0, [4, 4]), (0.4, [2, 1]), (0.2, [4, 2]), (0.9, [1, 0])):
        tokens, lengths = confident(logits, confidence)
        assert lengths.tolist() == counts and tokens.shape == (2, max(counts))
        assert tokens.tolist() == [[0] * max(counts)] * 2
    # As likely as asked for is likely enough.
    even = torch.tensor([[[0.0, 0.0]] * 2])
    assert confident(even, 0.5)[1].tolist() == [1] and confident(even, 0.25)[1].tolist() == [2]
    half = confident(even.half(), 0.25)[1]
    assert half.tolist() == [2] and half.dtype == torch.long


class Likeliest:
    """A sampler that draws the likeliest token of an unchanged distribution."""

    def warp(self, log_probs):
        assert log_probs.dtype == torch.float32
        return log_probs.exp()

    def draw(self, chances):
        return chances.argmax(-1)


def random_input(rows=3, length=7, seed=2):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, 40, (rows, length), generator=generator)
    return {"src_tokens": tokens, "src_lengths": torch.full((rows,), length)}


def random_drafter(**settings):
    torch.manual_seed(3)
    model = make_drafter(**settings).eval()
    for name, parameter in model.named_parameters():
        if "layer_norm" not in name:
            parameter.data.mul_(2.0)  # so that what is attended to matters
    return model


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"decoder_layers": 2, "decoder_learned_pos": True, "max_target_positions": 90},
        {"bidirectional_prefix": True},
        {"source_copy": True},
    ],
    ids=str,
)
# Uneven and even rows; 60 to 76 tokens are where the cache, of 73 slots at first, grows.
@pytest.mark.parametrize(
    "steps",
    [
        [(0, 0, 0), (3, 1, 2), (4, 4, 4), (7, 5, 9), (8, 6, 10), (9, 7, 70), (16, 9, 71)],
        [(60, 60, 60), (69, 69, 69), (70, 70, 70)],
    ],
    ids=["uneven", "even"],
)
@torch.no_grad()
def test_distributions_are_those_of_the_training_pass(settings, steps):
    model, net_input = random_drafter(**settings), random_input()
    words = torch.randint(4, 40, (3, 80), generator=torch.Generator().manual_seed(9)).tolist()
    options = DraftOptions(4, PAD, EOS, temperature=1.5, sampler=Likeliest())
    session = open_drafter(NarBlockDrafter(model, options), net_input, 200)
    for lengths in steps:
        outputs = [row[:length] for row, length in zip(words, lengths)]
        # No columns but those of the longest row.
        draft = session.propose(rows_of(outputs, max(lengths) + 1))
        assert draft.sizes.tolist() == [4, 4, 4] and draft.log_probs.shape == (3, 4, 44)
        for row, output in enumerate(outputs):
            one = {name: value[row : row + 1] for name, value in net_input.items()}
            wanted = (training_pass(model, one, output) / 1.5).log_softmax(-1)
            torch.testing.assert_close(draft.log_probs[row], wanted, atol=1e-4, rtol=1e-4)
            assert draft.tokens[row].tolist() == wanted.argmax(-1).tolist()


@torch.no_grad()
def test_no_more_is_drafted_than_the_loop_can_use():
    session = open_drafter(
        NarBlockDrafter(random_drafter(), DraftOptions(4, PAD, EOS)), random_input(), 50
    )
    for budget, width in ((0, 0), (1, 1), (3, 3), (9, 4), (None, 4)):
        draft = session.propose(rows_of([[5, 6]] * 3), budget)
        assert draft.width == width and draft.sizes.tolist() == [width] * 3


@pytest.mark.parametrize("backend", ["torch", "auto"])
@torch.no_grad()
def test_positions_end_with_a_learned_table(backend):
    backend = choose_backend(backend, [random_drafter()])
    limits = {"max_target_positions": 8, "max_source_positions": 7}
    model = random_drafter(encoder_learned_pos=True, decoder_learned_pos=True, **limits)
    drafter = NarBlockDrafter(model, DraftOptions(4, PAD, EOS))
    session = open_drafter(drafter, random_input(length=7), 50, backend=backend)
    widths = [session.propose(rows_of([[5] * n] * 3)).width for n in (7, 8, 10, 11)]
    assert widths == [4, 3, 1, 0]  # of 8 + 4, one is the start symbol's
    longer = open_drafter(drafter, random_input(length=8), 50, backend=backend)
    assert isinstance(longer, SilentSession)
    copying = NarBlockDrafter(random_drafter(source_copy=True), DraftOptions(4, PAD, EOS))
    assert not open_drafter(copying, random_input(length=80), 50).never_drafts


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize(
    "attached, settings",
    [(False, settings) for settings in SPEC] + [(True, settings) for settings in ATTACHED],
)
def test_drafts_what_the_training_pass_predicts(attached, settings, backend):
    model = (toy_attached_drafter if attached else toy_drafter)(updates=60, **settings)
    drafter = NarBlockDrafter(model, DraftOptions(model.decoder.block_size, PAD, EOS))
    encoder_out, states = reading(model) if attached else ({}, None)
    chosen = choose_backend(backend, [toy_drafter()])
    session = open_on(drafter, SOURCES, 60, encoder_out=encoder_out, backend=chosen)
    native = backend == "auto" and load() is not None
    native = native and not {"source_copy", "bidirectional_prefix"} & settings.keys()
    assert isinstance(session, NativeBlockSession) == native

    def slow(row, seen):
        if "chain_width" in settings:
            return slow_draft(model, net_input_of(row), seen)
        return training_pass(model, net_input_of(row), seen).argmax(-1).tolist()

    assert len(set(map(tuple, walk(session, slow, states)))) > 12
