"""The block drafter behind its cache: it drafts what the model's own training pass predicts."""

import copy

import pytest
import torch
from on_gpu import on_gpu
from reading import reading
from toy_drafter import make_drafter
from toy_hypotheses import by_column, open_drafter, open_on, rows_of, slow_draft, training_pass
from toy_translation import (
    EOS,
    PAD,
    ids,
    make_sample,
    sentences,
    toy_attached_drafter,
    toy_drafter,
    translate,
)

from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter
from fairseq_specdec.drafting.base import SilentSession
from fairseq_specdec.drafting.native_block import NativeBlockSession
from fairseq_specdec.drafting.token_choice import likeliest, shortened
from fairseq_specdec.engine.backend import choose_backend
from fairseq_specdec.engine.native.library import load

SOURCES = sentences(12, seed=21)
TARGETS = [ids(translate(s)) for s in SOURCES]


def net_input_of(row):
    return make_sample([SOURCES[row]])["net_input"]


SPEC = [{}, {"source_copy": True}, {"bidirectional_prefix": True}, {"chain_width": 16}]
ATTACHED = [{}, {"chain_width": 16}, {"decoder_layers": 2, "read_layers": "2"}]


@pytest.mark.parametrize("settings", [{}, {"chain_width": 16}])
def test_an_unsure_drafter_drafts_less_and_the_same(settings):
    model = toy_drafter(updates=60, **settings)
    rows = len(SOURCES)
    drafts = []
    for confidence in (0.0, 0.3, 1.0):
        drafter = NarBlockDrafter(model, DraftOptions(4, PAD, EOS, confidence=confidence))
        with torch.no_grad():
            drafts.append(open_on(drafter, SOURCES, 60).propose(rows_of([[]] * rows, 70)))
    whole, sure, none = drafts
    assert whole.sizes.tolist() == [4] * rows
    assert len(set(sure.sizes.tolist())) > 1 and none.sizes.tolist() == [0] * rows
    for row, count in enumerate(sure.sizes.tolist()):
        assert sure.tokens[row, :count].tolist() == whole.tokens[row, :count].tolist()


def confident(logits, confidence):
    return shortened(*likeliest(logits, confidence > 0), confidence)


def test_a_draft_ends_before_the_first_token_that_is_too_unlikely():
    sure, torn = [9.0, -9.0, -99.0], [0.0, 0.0, -99.0]  # probabilities of 1 and a half
    logits = torch.tensor([[sure, torn, torn, sure], [torn, torn, torn, sure]])
    for confidence, counts in ((0.0, [4, 4]), (0.4, [2, 1]), (0.2, [4, 2]), (0.9, [1, 0])):
        tokens, lengths = confident(logits, confidence)
        assert lengths.tolist() == counts and tokens.shape == (2, max(counts))
        assert tokens.tolist() == [[0] * max(counts)] * 2
        there, lengths = confident(on_gpu(logits), confidence)  # where counting would wait
        assert lengths.tolist() == counts and there.shape == (2, 4)
    # As likely as asked for is likely enough.
    even = torch.tensor([[[0.0, 0.0]] * 2])
    assert confident(even, 0.5)[1].tolist() == [1] and confident(even, 0.25)[1].tolist() == [2]
    half = confident(even.half(), 0.25)[1]
    assert half.tolist() == [2] and half.dtype == torch.long


def test_drafts_are_cut_on_the_device_of_their_tokens():
    """ "meta" has shapes and no numbers, and mixes with no other device."""
    tensors = confident(torch.zeros(2, 4, 9).to("meta"), 0.0)
    assert {each.device.type for each in tensors} == {"meta"}


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
        [(60, 60, 60), (61, 64, 67), (62, 65, 68), (69, 69, 69)],
        [(60, 60, 60), (69, 69, 69), (70, 70, 70)],
    ],
    ids=["uneven", "full", "even"],
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


def reading_session(rows=1, max_len=60, **options):
    """A session of an attached drafter, its model, and the states of the first sentences."""
    model = toy_attached_drafter(updates=60)
    encoder_out, states = reading(model, SOURCES[:rows], TARGETS[:rows])
    if rows == 1:
        encoder_out = dict(encoder_out, encoder_padding_mask=[])
    drafter = NarBlockDrafter(model, DraftOptions(4, PAD, EOS, **options))
    return open_on(drafter, SOURCES[:rows], max_len, encoder_out=encoder_out), model, states


@pytest.mark.parametrize("rows", [1, 12])
@torch.no_grad()
def test_a_drafter_that_is_asked_late_has_read_what_was_verified(rows):
    session, model, states = reading_session(rows)
    done = [min(1 + row % 3, len(TARGETS[row])) for row in range(rows)]
    nothing = session.propose(rows_of([[]] * rows), budget=0)
    assert nothing.width == 0 and nothing.sizes.tolist() == [0] * rows
    session.verifier.states = by_column(states)
    accepted = [TARGETS[row][: done[row]] for row in range(rows)]
    draft = session.propose(rows_of(accepted))
    for row in range(rows):
        assert draft.tokens[row].tolist() == slow_draft(model, net_input_of(row), accepted[row])


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


@torch.no_grad()
def test_probabilities_of_a_drafter_in_16_bits_have_32():
    drafter = NarBlockDrafter(
        random_drafter(), DraftOptions(4, PAD, EOS, "bf16", sampler=Likeliest())
    )
    sampled = open_drafter(drafter, random_input(), 50)
    before = rows_of([[5], [6, 7], []])
    assert sampled.propose(before).log_probs.dtype == torch.float32


def test_what_the_loop_reads_of_a_drafter():
    model, reads = random_drafter(), toy_attached_drafter(updates=60)
    options = DraftOptions(3, PAD, EOS)
    drafter = NarBlockDrafter(model, options)
    assert (drafter.read_layers, drafter.adaptive, drafter.block_size) == ((), True, 3)
    assert list(NarBlockDrafter(reads, options).read_layers) == list(reads.encoder.read_layers)
    model.decoder.whole_blocks = True
    assert NarBlockDrafter(model, options).adaptive is False


@pytest.mark.parametrize("asked, dtype", [(None, torch.bfloat16), ("fp32", torch.float32)])
@torch.no_grad()
def test_a_drafter_runs_in_its_number_format(asked, dtype):
    verifier = toy_attached_drafter(updates=60)
    model = copy.deepcopy(verifier)
    drafter = NarBlockDrafter(model, DraftOptions(4, PAD, EOS, asked))
    encoder_out, states = reading(verifier, SOURCES, TARGETS)
    like = torch.nn.Linear(1, 1).bfloat16()
    session = open_on(drafter, SOURCES, 60, encoder_out=encoder_out, verifier=like)
    assert {p.dtype for p in model.decoder.parameters()} == {dtype}
    session.propose(rows_of([[]] * len(SOURCES)))
    session.verifier.states = by_column(states)
    draft = session.propose(rows_of([target[:1] for target in TARGETS]))
    slow = [slow_draft(verifier, net_input_of(row), TARGETS[row][:1])[0] for row in range(12)]
    right = sum(map(int.__eq__, draft.tokens[:, 0].tolist(), slow))
    assert right >= 10  # rounding changes few


@pytest.mark.skipif(load() is None, reason="the native library is not built")
@pytest.mark.parametrize("settings", [{}, {"chain_width": 16}])
@torch.no_grad()
def test_the_native_library_drafts_alone(settings):
    model = toy_drafter(updates=60, **settings)
    drafter = NarBlockDrafter(model, DraftOptions(4, PAD, EOS))
    native, plain = (
        open_on(drafter, SOURCES, 60, backend=choose_backend(name, [model]))
        for name in ("native", "torch")
    )
    assert isinstance(native, NativeBlockSession) and not isinstance(plain, NativeBlockSession)
    accepted = rows_of([target[:3] for target in TARGETS])
    drafts = [session.propose(accepted) for session in (native, plain)]
    assert drafts[0].tokens.tolist() == drafts[1].tokens.tolist()


@pytest.mark.skipif(load() is None, reason="the native library is not built")
@pytest.mark.parametrize("settings", ATTACHED)
@torch.no_grad()
def test_the_native_library_reads_states_as_torch_does(settings):
    model = toy_attached_drafter(updates=60, **settings)
    encoder_out, states = reading(model, SOURCES, TARGETS)
    drafts = []
    for name in ("native", "torch"):
        drafter = NarBlockDrafter(model, DraftOptions(4, PAD, EOS))
        backend = choose_backend(name, [toy_drafter()])
        session = open_on(drafter, SOURCES, 60, encoder_out=encoder_out, backend=backend)
        assert isinstance(session, NativeBlockSession) == (name == "native")
        rows = list(range(2, len(SOURCES)))
        session.keep(torch.tensor(rows), rows)
        session.verifier.states = by_column(states)[rows]
        accepted = rows_of([TARGETS[row][: 1 + row % 2] for row in rows])
        drafts.append([session.propose(accepted, size).tokens.tolist() for size in (4, 2)])
    assert drafts[0] == drafts[1]
    assert len({tuple(row) for row in drafts[0][0]}) > 2


@pytest.mark.parametrize(
    "attached, settings",
    [(False, settings) for settings in SPEC] + [(True, settings) for settings in ATTACHED],
)
def test_drafts_what_the_training_pass_predicts(attached, settings):
    make = toy_attached_drafter if attached else toy_drafter
    model = make(updates=60, **settings)
    drafter = NarBlockDrafter(model, DraftOptions(model.decoder.block_size, PAD, EOS))
    rows = list(range(len(SOURCES)))
    generator = torch.Generator().manual_seed(4)
    done = [0] * len(rows)
    encoder_out, states = reading(model, SOURCES, TARGETS) if attached else ({}, None)
    with torch.no_grad():
        session = open_on(drafter, SOURCES, 60, encoder_out=encoder_out)
        for _ in range(4):
            accepted = [TARGETS[row][:size] for row, size in zip(rows, done)]
            draft = session.propose(rows_of(accepted, 70))
            for i, row in enumerate(rows):
                wanted = slow_draft(model, net_input_of(row), TARGETS[row][: done[i]])
                assert draft.tokens[i].tolist() == wanted, (row, done[i])
            # Rows move on by different amounts, and finished ones leave.
            moves = torch.randint(1, 5, (len(rows),), generator=generator).tolist()
            ahead = [min(d + m, len(TARGETS[row])) for d, m, row in zip(done, moves, rows)]
            keep = [i for i, row in enumerate(rows) if ahead[i] < len(TARGETS[row])]
            session.keep(torch.tensor(keep, dtype=torch.long), keep)
            rows, done = [rows[i] for i in keep], [ahead[i] for i in keep]
            if not rows:
                break
            if attached:
                session.verifier.states = by_column(states)[rows]
