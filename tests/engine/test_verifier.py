"""The verifier's sessions; test_parity.py compares its scores with fairseq's."""

import pytest
import torch
from toy_hypotheses import chain_layout
from toy_translation import make_sample, sentences, toy_model

from fairseq_specdec.engine.state import Draft
from fairseq_specdec.engine.transformer import Verifier

SENTENCES = sentences(3, seed=11)
OUTPUTS = [[5, 6, 7], [11, 12, 13], [17, 18, 19]]


def opened(models, max_len=40, **more):
    made = Verifier(models, **more)
    return made.open(made.encode(make_sample(SENTENCES)["net_input"]), max_len, 3)


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def test_a_cache_grows_without_losing_anything():
    """It doubles: else every iteration past the first guess would copy all of it. Its buffers serve
    the next batch."""
    verifier, scores, capacities = Verifier([toy_model()]), [], []
    encoded = verifier.encode(make_sample(SENTENCES)["net_input"])
    tokens = torch.randint(4, 20, (3, 80), generator=torch.Generator().manual_seed(1))
    for widest in (2, 40):
        session = verifier.open(encoded, 90, widest)
        cache = session.sessions[0].cache
        capacities.append(cache.capacity)
        for first in range(0, 80, 5):
            layout = chain_layout([first] * 3, 5)
            scores.append(session.score(tokens[:, first : first + 5], layout).log_probs)
        capacities.append(cache.capacity)
        session.close()
    torch.testing.assert_close(scores[:16], scores[16:], atol=1e-5, rtol=0)
    assert capacities[0] < 80 and capacities[1:] == [2 * capacities[0]] * 3


def test_hidden_states_are_of_the_layers_of_the_first_model():
    models, previous = list(map(toy_model, ("post_norm", "pre_norm"))), torch.tensor(OUTPUTS)
    session = opened(models, read_layers=(1, 2))
    assert session.sessions[0].states is None
    session.score(previous, chain_layout([0] * 3, 3))
    net_input = make_sample(SENTENCES)["net_input"]
    _, extra = models[0](prev_output_tokens=previous, **net_input)
    inner = [states.transpose(0, 1) for states in extra["inner_states"][1:]]
    states = session.sessions[0].states
    assert session.sessions[1].states is None and not states[:, 0].any()
    torch.testing.assert_close(states[:, 1:4], torch.cat(inner, 2), atol=1e-4, rtol=0)


def test_more_tokens_than_positions_are_refused():
    with pytest.raises(ValueError, match="positions"):
        opened([toy_model("learned")], max_len=64)


def test_a_token_that_sees_everything_needs_no_mask():
    """And only such a one: a mask costs an operation in every layer."""
    for lengths, width, alone in (([3, 3], 1, True), ([3, 3], 2, False), ([3, 2], 1, False)):
        layout = chain_layout(lengths, width)
        assert (layout.mask() is None) == alone and layout.in_order


def test_a_draft_keeps_its_first_tokens():
    draft = Draft(torch.arange(12).view(3, 4), torch.tensor([4, 1, 3]), torch.randn(3, 4, 7))
    for most, room, sizes in (
        (9, None, [4, 1, 3]), (2, None, [2, 1, 2]), (0, None, [0, 0, 0]), (9, [3, 0, 5], [3, 0, 3]),
        (2, [3, 0, 1], [2, 0, 1]),
    ):  # fmt: skip
        limited = draft.limited(most, room and torch.tensor(room))
        assert limited.sizes.tolist() == sizes and limited.width == min(most, 4)
        assert torch.equal(limited.tokens, draft.tokens[:, :most])
        assert torch.equal(limited.log_probs, draft.log_probs[:, :most])
