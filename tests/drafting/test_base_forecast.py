"""A drafter's forecast after any prefix is that of a session that has seen no other prefix."""

import pytest
import torch
from reading import reading
from toy_hypotheses import hypotheses_of, open_on
from toy_strategies import attached, small
from toy_translation import EOS, PAD, WORDS, sentences, toy_drafter

from fairseq_specdec.drafting import AutoregressiveDrafter, DraftOptions, NarBlockDrafter

SOURCES = sentences(3, seed=31)
OPTIONS = DraftOptions(block_size=4, pad=PAD, eos=EOS)


def both_ways():
    return toy_drafter(updates=60, bidirectional_prefix=True)


DRAFTERS = {
    "spec": lambda: NarBlockDrafter(toy_drafter(), OPTIONS),
    "chain": lambda: NarBlockDrafter(toy_drafter(updates=60, chain_width=16), OPTIONS),
    "bidirectional": lambda: NarBlockDrafter(both_ways(), OPTIONS),
    "attached": lambda: NarBlockDrafter(attached(), OPTIONS),
    "autoregressive": lambda: AutoregressiveDrafter(small(), OPTIONS),
}
# So many first tokens are kept of each row's last prefix, then so many new ones follow.
MOVES = [[(0, 1), (0, 3), (0, 2)], [(1, 4), (0, 5), (2, 1)], [(4, 2), (5, 3), (1, 6)]]


class Batch:
    """A session, and the verifier's states for a drafter that reads them."""

    def __init__(self, drafter, outputs):
        self.encoder_out = self.states = None
        if drafter.read_layers:
            self.encoder_out, self.states = reading(drafter.model, SOURCES, outputs)
        self.session = open_on(drafter, SOURCES, 60, encoder_out=self.encoder_out)

    def forecast(self, outputs, kept):
        """After the outputs, each of which keeps so many tokens of the last one."""
        read = None
        if self.states is not None:
            sizes = [len(output) - keep for output, keep in zip(outputs, kept)]
            table = torch.zeros(len(outputs), max(sizes), self.states.size(2))
            for row, (keep, size) in enumerate(zip(kept, sizes)):
                table[row, :size] = self.states[row, keep : keep + size]
            read = table, torch.tensor(sizes)
        return self.session.forecast(hypotheses_of(outputs), kept, read, 3, 6)


def prefixes():
    """(prefixes, tokens kept of the ones before) of three rows, three times."""
    generator = torch.Generator().manual_seed(3)
    outputs = [[] for _ in SOURCES]
    for moves in MOVES:
        kept = [keep for keep, _ in moves]
        fresh = [torch.randint(4, 4 + WORDS, (new,), generator=generator) for _, new in moves]
        outputs = [old[:keep] + new.tolist() for old, keep, new in zip(outputs, kept, fresh)]
        yield outputs, kept


@pytest.mark.parametrize("name", DRAFTERS)
def test_is_that_of_a_new_session(name):
    drafter = DRAFTERS[name]()
    with torch.no_grad():
        seen = None
        for outputs, kept in prefixes():
            fresh = Batch(drafter, outputs)
            if seen is None:
                seen = Batch(drafter, outputs)
            # A verifier's states depend on the prefix: those of the rows' present prefixes.
            seen.states = fresh.states
            ours = seen.forecast(outputs, kept)
            theirs = fresh.forecast(outputs, [0] * len(outputs))
            assert ours.tokens.shape == ours.log_probs.shape == (3, 3, 6)
            assert (ours.log_probs - theirs.log_probs).abs().max() <= 1e-4
            assert (ours.log_probs.diff(dim=2) <= 0).all() and (ours.log_probs <= 0).all()


@pytest.mark.parametrize("name", DRAFTERS)
def test_its_drafter_is_announced(name):
    drafter = DRAFTERS[name]()
    assert drafter.for_beams is drafter.runs_model is True
    assert Batch(drafter, [[5], [6], [7]]).session.forecasts is True


@pytest.mark.parametrize("name", ["spec", "chain", "autoregressive"])
def test_the_likeliest_tokens_are_the_draft(name):
    drafter = DRAFTERS[name]()
    ((outputs, _), *_) = prefixes()
    with torch.no_grad():
        forecast = Batch(drafter, outputs).forecast(outputs, [0] * len(outputs))
        draft = open_on(drafter, SOURCES, 60).propose(hypotheses_of(outputs), 3)
    for row, size in enumerate(draft.sizes.tolist()):
        assert size > 0
        assert draft.tokens[row, :size].tolist() == forecast.tokens[row, :size, 0].tolist()


@pytest.mark.parametrize("name", ["spec", "autoregressive"])
def test_without_room_there_is_none(name):
    drafter = DRAFTERS[name]()
    outputs = [[5] * 60, [6] * 60, [7] * 60]
    with torch.no_grad():
        assert Batch(drafter, outputs).forecast(outputs, [0, 0, 0]) is None
