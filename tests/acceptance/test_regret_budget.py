"""The regret budget against a slow version, and as a promise about whole outputs."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from judging import judge
from toy_strategies import decode, make_generator
from toy_translation import assert_diverse, make_sample, sentences, toy_model

from fairseq_specdec.acceptance import TopBetaRule


def random_blocks(seed, width, blocks=3, rows=3, vocabulary=6):
    """Blocks of one batch: (draft, sizes, log-probabilities) each."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(blocks):
        scores = torch.randn(rows, width + 1, vocabulary, generator=generator).log_softmax(-1)
        rank = torch.randint(0, 3, (rows, width, 1), generator=generator)
        draft = scores[:, :-1].argsort(-1, descending=True).gather(2, rank).squeeze(2)
        yield draft, torch.randint(0, width + 1, (rows,), generator=generator), scores


@given(
    st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 1.5, 4.0, math.inf]), st.integers(1, 4)
)  # fmt: skip
def test_counts_equal_those_of_the_definition(seed, budget, width):
    """Rows leave between the blocks; each keeps what it has spent."""
    rule = TopBetaRule(3, 2.0, budget).open(3, torch.device("cpu"))
    spent, rows = [0.0, 0.0, 0.0], [0, 1, 2]
    for draft, sizes, scores in random_blocks(seed, width=width):
        verdict = judge(rule, draft[rows], sizes[rows], scores[rows])
        allowed = judge(TopBetaRule(3, 2.0), draft[rows], sizes[rows], scores[rows]).counts
        for at, row in enumerate(rows):
            count = 0
            while count < int(allowed[at]):
                entry = scores[row, count]
                regret = float(entry.max() - entry[draft[row, count]])
                if spent[row] + regret > budget:
                    break
                spent[row] += regret
                count += 1
            assert int(verdict.counts[at]) == count
            assert int(verdict.next_token[at]) == int(scores[row, count].argmax())
        if len(rows) == 3:
            rows = [2, 0]
            rule.select(torch.tensor(rows))


def test_a_forbidden_token_is_kept_at_no_budget():
    scores = torch.zeros(1, 2, 6)
    scores[0, 0, 3] = -math.inf
    rule = TopBetaRule(6, math.inf, math.inf).open(1, torch.device("cpu"))
    assert judge(rule, torch.tensor([[3]]), torch.tensor([1]), scores).counts.tolist() == [0]


def regret_of(source, tokens):
    """Nats that an output gives up against the verifier's choices, by one pass of stock fairseq."""
    model, previous = toy_model(), torch.cat([tokens[-1:], tokens[:-1]]).unsqueeze(0)
    with torch.no_grad():
        net_output = model(prev_output_tokens=previous, **make_sample([source])["net_input"])
    scores = model.get_normalized_probs(net_output, log_probs=True)[0].double()
    own = scores.gather(1, tokens.unsqueeze(1)).squeeze(1)
    return float((scores.amax(1) - own).sum())


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_no_output_gives_up_more_than_its_budget(backend):
    """Its drafter is followed nearly everywhere."""
    sources, most, accepted = sentences(24, seed=7), [], []
    for budget in (0.0, 0.7, 3.0, None):
        generator = make_generator(
            "gad++", lossless=False, top_beta=9, tau=9.0, regret_budget=budget, backend=backend
        )
        outputs = [h["tokens"] for h in decode(generator, make_sample(sources))]
        assert_diverse([output.tolist() for output in outputs])
        most.append(max(map(regret_of, sources, outputs)))
        accepted.append(generator.stats.accepted)
    assert most[0] <= 1e-4 < most[1] <= 0.7 + 1e-4 and most[2] <= 3 + 1e-4
    # The budget decides something: without it sentences give up more.
    assert most[3] > 3.1 and max(accepted) == accepted[3]
