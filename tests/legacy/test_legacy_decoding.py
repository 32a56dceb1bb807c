"""A drafter in the authors' layout drafts, and is verified, as in the authors' own loop."""

from argparse import Namespace

import pytest
import torch
from authors_layout import (
    BLOCK,
    UNK,
    authors_checkpoint,
    authors_decode,
    authors_drafter,
    logits_of,
)
from toy_hypotheses import open_on, rows_of
from toy_translation import (
    EOS,
    PAD,
    assert_diverse,
    dictionary,
    ids,
    make_sample,
    sentences,
    toy_model,
    translate,
)

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding import builder
from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter

SOURCES = sentences(16, seed=77)
TARGETS = [ids(translate(s)) for s in SOURCES]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("authors") / "drafter.pt"
    torch.save(authors_checkpoint(authors_drafter()), path)
    return str(path)


def generator_of(checkpoint, limit=200, **settings):
    words = dictionary()
    flags = decoding_settings(drafter_path=checkpoint, **settings)
    args = Namespace(max_len_a=0, max_len_b=limit)
    return builder.build_generator([toy_model()], words, words, args, flags)


def decode(generator, batch):
    result = []
    for i in range(0, len(SOURCES), batch):
        hypotheses = generator.generate([toy_model()], make_sample(SOURCES[i : i + batch]))
        result += [(h[0]["tokens"].tolist()[:-1], h[0]["steps"]) for h in hypotheses]
    return result


@pytest.mark.parametrize("copied", [True, False])
def test_drafts_what_the_plain_pass_predicts(copied):
    model = authors_drafter(copied, updates=40)
    drafter = NarBlockDrafter(model, DraftOptions(BLOCK, PAD, EOS))
    lengths = [min(i % 5, len(t)) for i, t in enumerate(TARGETS)]
    accepted = [list(target[:length]) for target, length in zip(TARGETS, lengths)]
    for known in accepted:
        if len(known) == 3:
            known[1] = UNK  # a real one is a mask like any other
    hypotheses = rows_of(accepted, 30)
    with torch.no_grad():
        draft = open_on(drafter, SOURCES, 28).propose(hypotheses)
        for row, length in enumerate(lengths):
            source = torch.tensor([ids(SOURCES[row])])
            logits = logits_of(model, source, hypotheses.tokens[row : row + 1, 1 : length + 1])
            logits[..., PAD] = float("-inf")
            assert draft.tokens[row].tolist() == logits[0].argmax(-1).tolist(), (row, length)


# As the authors draft.
WHOLE = {"draft_budget": 0, "draft_confidence": 0.0, "drafter_dtype": "same"}


@pytest.mark.parametrize(
    "beta, tau, limit, batch",
    [(1, 0.0, 200, 8), (3, 1.0, 200, 1), (5, 3.0, 200, 8), (1, 0.0, 6, 1), (3, 1.0, 6, 8)],
)
def test_tokens_and_iterations_are_those_of_the_authors_loop(checkpoint, beta, tau, limit, batch):
    """At a limit of 6 most sentences end there, inside a block that goes on behind it."""
    strategy = "gad" if beta == 1 else "gad++"
    flags = dict(WHOLE, **({} if beta == 1 else {"top_beta": beta, "tau": tau}))
    ours = decode(generator_of(checkpoint, limit, strategy=strategy, **flags), batch)
    drafter = authors_drafter()
    theirs = [authors_decode(toy_model(), drafter, s, beta, tau, limit) for s in SOURCES]
    assert ours == theirs
    if limit == 200:
        assert_diverse([tokens for tokens, _ in ours])
        tokens = sum(len(tokens) for tokens, _ in ours)
        iterations = sum(steps for _, steps in ours)
        assert tokens / iterations > 1.2, "nothing worth testing was accepted"
