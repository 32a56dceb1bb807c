"""The block drafter behind its cache: it drafts what the model's own training pass predicts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from on_gpu import on_gpu
from toy_hypotheses import hypotheses_of, open_on
from toy_translation import (
    EOS,
    PAD,
    ids,
    make_sample,
    pad_to,
    sentences,
    toy_attached_drafter,
    toy_drafter,
    translate,
)

from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter
from fairseq_specdec.drafting.nar_block import likeliest, without_repeats

SOURCES = sentences(12, seed=21)
TARGETS = [ids(translate(s)) for s in SOURCES]


def slow_draft(model, row, done):
    """One sentence, one cut, no cache: the forward pass that training uses.

    With a chain, every token needs a pass of its own, for it is given those drafted before it;
    the masks see none of what stands behind the cut.
    """
    net_input = make_sample([SOURCES[row]])["net_input"]
    size = model.decoder.block_size
    drafted = []
    for j in range(size):
        previous = torch.tensor([[EOS] + TARGETS[row][:done] + drafted])
        with torch.no_grad():
            out = model(
                prev_output_tokens=previous,
                cuts=torch.tensor([[done]]),
                targets=torch.full((1, 1, size), 5),
                **net_input,
            )
        logits = out["logits"][j].clone()
        logits[PAD] = float("-inf")
        drafted.append(int(logits.argmax()))
    return drafted


def reading(model, sources, targets):
    """The verifier's encoder output for ``open``, and its states behind every position."""
    previous = pad_to([[EOS] + t for t in targets], left=False)
    net_input = make_sample(sources)["net_input"]
    like = model.decoder.output_projection.weight.detach()
    return model.encoder.read(**net_input, prev_output_tokens=previous, like=like)[:2]


SPEC = [{}, {"source_copy": True}, {"bidirectional_prefix": True}, {"chain_width": 16}]
ATTACHED = [{}, {"chain_width": 16}, {"decoder_layers": 2, "read_layers": "2"}]


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
            draft = session.propose(hypotheses_of(accepted, 70))
            for i, row in enumerate(rows):
                assert draft.tokens[i].tolist() == slow_draft(model, row, done[i]), (row, done[i])
            # Rows move on by different amounts, and finished ones leave.
            moves = torch.randint(1, 5, (len(rows),), generator=generator).tolist()
            ahead = [min(d + m, len(TARGETS[row])) for d, m, row in zip(done, moves, rows)]
            if attached:
                seen = torch.zeros(len(rows), 5, states.size(2))
                for i, row in enumerate(rows):
                    known = states[row, done[i] : done[i] + 5]
                    seen[i, : known.size(0)] = known
                session.commit(torch.tensor([a - d for a, d in zip(ahead, done)]), seen)
            keep = [i for i, row in enumerate(rows) if ahead[i] < len(TARGETS[row])]
            session.select(torch.tensor(keep, dtype=torch.long), keep)
            rows, done = [rows[i] for i in keep], [ahead[i] for i in keep]
            if not rows:
                break


@pytest.mark.parametrize("settings", [{}, {"chain_width": 16}])
def test_an_unsure_drafter_says_less_and_the_same(settings):
    model = toy_drafter(updates=60, **settings)
    rows = len(SOURCES)
    drafts = []
    for confidence in (0.0, 0.3, 1.0):
        drafter = NarBlockDrafter(model, DraftOptions(4, PAD, EOS, confidence=confidence))
        with torch.no_grad():
            drafts.append(open_on(drafter, SOURCES, 60).propose(hypotheses_of([[]] * rows, 70)))
    whole, sure, none = drafts
    assert whole.sizes.tolist() == [4] * rows
    assert len(set(sure.sizes.tolist())) > 1 and none.sizes.tolist() == [0] * rows
    for row, count in enumerate(sure.sizes.tolist()):
        assert sure.tokens[row, :count].tolist() == whole.tokens[row, :count].tolist()


@given(st.lists(st.lists(st.integers(4, 6), min_size=5, max_size=5), min_size=1, max_size=4))
def test_repeats_are_dropped_and_order_is_kept(rows):
    sizes = [len(rows) % 6, *range(len(rows) - 1)]
    whole = without_repeats(torch.tensor(rows))
    cut = without_repeats(torch.tensor(rows), torch.tensor(sizes))
    for (tokens, lengths), ends in ((whole, [5] * len(rows)), (cut, sizes)):
        for row, kept, count, end in zip(rows, tokens.tolist(), lengths.tolist(), ends):
            expected = [t for i, t in enumerate(row[:end]) if i == 0 or t != row[i - 1]]
            assert kept[:count] == expected


def test_a_draft_ends_before_the_first_token_that_is_too_unlikely():
    sure, torn = [9.0, -9.0, -99.0], [0.0, 0.0, -99.0]  # probabilities of 1 and a half
    logits = torch.tensor([[sure, torn, torn, sure], [torn, torn, torn, sure]])
    for confidence, counts in ((0.0, [4, 4]), (0.4, [2, 1]), (0.2, [4, 2]), (0.9, [1, 0])):
        tokens, lengths = likeliest(logits, confidence)
        assert lengths.tolist() == counts and tokens.shape == (2, max(counts))
        assert tokens.tolist() == [[0] * max(counts)] * 2
        there, lengths = likeliest(on_gpu(logits), confidence)  # where counting would wait
        assert lengths.tolist() == counts and there.shape == (2, 4)
    # As likely as asked for is likely enough.
    even = torch.tensor([[[0.0, 0.0]] * 2])
    assert likeliest(even, 0.5)[1].tolist() == [1] and likeliest(even, 0.25)[1].tolist() == [2]
    half = likeliest(even.half(), 0.25)[1]
    assert half.tolist() == [2] and half.dtype == torch.long


def test_drafts_are_cut_on_the_device_of_their_tokens():
    """ "meta" has shapes and no numbers, and mixes with no other device."""
    there = torch.zeros(2, 4, dtype=torch.long, device="meta")
    found = [*without_repeats(there, there[:, 0]), *likeliest(torch.zeros(2, 4, 9).to("meta"), 0.0)]
    assert {each.device.type for each in found} == {"meta"}
