"""Drafters asked as the decoding loop asks them: ragged rows, rejected drafts, rows that leave."""

import torch
from toy_hypotheses import by_column, rows_of
from toy_translation import EOS, ids, make_sample, pad_to, sentences, translate

SOURCES = sentences(12, seed=21)
TARGETS = [ids(translate(s)) for s in SOURCES]


def net_input_of(row):
    return make_sample([SOURCES[row]])["net_input"]


def reading(model):
    """What an attached drafter reads of its verifier: the encoder output for ``open``, and the
    states behind every position of the targets."""
    previous = pad_to([[EOS] + target for target in TARGETS], left=False)
    net_input = make_sample(SOURCES)["net_input"]
    like = model.decoder.output_projection.weight.detach()
    return model.encoder.read(**net_input, prev_output_tokens=previous, like=like)[:2]


@torch.no_grad()
def walk(session, judge, states=None, rounds=5):
    """Propose and move on.

    As in the loop, a row moves on by some of the drafted tokens and one more token; what was
    drafted right is in the targets.

    Args:
        session: opened on ``SOURCES``.
        judge: (row, accepted tokens) -> the draft to expect.
        states: those of ``reading``, of which the session is shown the rows'.

    Returns:
        The drafts, a list for each proposal and row.
    """
    generator = torch.Generator().manual_seed(4)
    rows, done, drafts = list(range(len(SOURCES))), [0] * len(SOURCES), []
    for _ in range(rounds):
        draft = session.propose(rows_of([TARGETS[row][:n] for row, n in zip(rows, done)]))
        ahead = []
        for row, tokens, size, have in zip(rows, draft.tokens.tolist(), draft.sizes.tolist(), done):
            drafts.append(tokens[:size])
            assert drafts[-1] == judge(row, TARGETS[row][:have]), (row, have)
            right = [mine == text for mine, text in zip(drafts[-1], TARGETS[row][have:])]
            right = [*right, False].index(False)
            ahead.append(have + int(torch.randint(0, right + 1, (1,), generator=generator)) + 1)
        keep = [i for i, row in enumerate(rows) if ahead[i] < len(TARGETS[row])]
        session.keep(torch.tensor(keep, dtype=torch.long), keep)
        rows, done = [rows[i] for i in keep], [ahead[i] for i in keep]
        if not rows:
            break
        if states is not None:
            session.verifier.states = by_column(states)[rows]
    return drafts
