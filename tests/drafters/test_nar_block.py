"""The block drafter behind its cache: it drafts what the model's own training pass predicts."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy_translation import EOS, PAD, ids, make_sample, sentences, toy_drafter, translate

from fairseq_specdec.drafters import NarBlockDrafter
from fairseq_specdec.drafters.nar_block import without_repeats
from fairseq_specdec.generation.stats import Stopwatch

SOURCES = sentences(12, seed=21)
TARGETS = [ids(translate(s)) for s in SOURCES]


def slow_draft(model, row, done):
    """One sentence, one cut, no cache: the forward pass that training uses."""
    net_input = make_sample([SOURCES[row]])["net_input"]
    size = model.decoder.block_size
    previous = torch.tensor([[EOS] + TARGETS[row][:done]])
    with torch.no_grad():
        out = model(
            prev_output_tokens=previous,
            cuts=torch.tensor([[done]]),
            targets=torch.full((1, 1, size), 5),
            **net_input,
        )
    logits = out["logits"].clone()
    logits[:, PAD] = float("-inf")
    return logits.argmax(-1).tolist()


@pytest.mark.parametrize("settings", [{}, {"source_copy": True}, {"bidirectional_prefix": True}])
def test_drafts_what_the_training_pass_predicts(settings):
    model = toy_drafter(updates=60, **settings)
    drafter = NarBlockDrafter(model, model.decoder.block_size, PAD, Stopwatch())
    rows = list(range(len(SOURCES)))
    generator = torch.Generator().manual_seed(4)
    done = [0] * len(rows)
    with torch.no_grad():
        drafter.start(make_sample(SOURCES)["net_input"], 60)
        for _ in range(4):
            tokens = torch.full((len(rows), 70), PAD)
            tokens[:, 0] = EOS
            for i, row in enumerate(rows):
                tokens[i, 1 : done[i] + 1] = torch.tensor(TARGETS[row][: done[i]])
            draft = drafter.propose(tokens, torch.tensor(done), done)
            for i, row in enumerate(rows):
                assert draft.tokens[i].tolist() == slow_draft(model, row, done[i]), (row, done[i])
            # Rows move on by different amounts, and finished ones leave.
            moves = torch.randint(1, 5, (len(rows),), generator=generator).tolist()
            ahead = [d + m for d, m in zip(done, moves)]
            keep = [i for i, row in enumerate(rows) if ahead[i] < len(TARGETS[row])]
            drafter.prune(torch.tensor(keep, dtype=torch.long), keep)
            rows, done = [rows[i] for i in keep], [ahead[i] for i in keep]
            if not rows:
                break


@given(st.lists(st.lists(st.integers(4, 6), min_size=5, max_size=5), min_size=1, max_size=4))
def test_repeats_are_dropped_and_order_is_kept(rows):
    tokens, lengths = without_repeats(torch.tensor(rows))
    for row, kept, count in zip(rows, tokens.tolist(), lengths.tolist()):
        expected = [t for i, t in enumerate(row) if i == 0 or t != row[i - 1]]
        assert kept[:count] == expected
