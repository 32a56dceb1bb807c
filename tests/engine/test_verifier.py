"""The verifier's scores of a block against the ensemble's own forward passes."""

import pytest
import torch
from toy_hypotheses import chain_layout
from toy_translation import EOS, make_sample, pad_to, sentences, toy_model

from fairseq_specdec.engine.transformer import Verifier

SENTENCES = sentences(3, seed=11)
OUTPUTS = [[5, 6, 7, 8, 9, 10], [11, 12, 13, 14, 15, 16], [17, 18, 19, 20, 21, 22]]
MODELS = ["post_norm", "pre_norm"]


def expected(models, temperature=1.0, chosen=(0, 1, 2)):
    """[B, 7, V], mean probabilities of the models after 0 .. 6 tokens, as logarithms."""
    net_input = make_sample([SENTENCES[row] for row in chosen])["net_input"]
    previous = pad_to([[EOS, *OUTPUTS[row]] for row in chosen], left=False)
    probabilities = []
    for model in models:
        logits, _ = model(prev_output_tokens=previous, **net_input)
        probabilities.append((logits / temperature).softmax(-1))
    return torch.stack(probabilities).mean(0).log()


def opened(models, chosen=(0, 1, 2), widest=3, max_len=40, **more):
    made = Verifier(models, **more)
    net_input = make_sample([SENTENCES[row] for row in chosen])["net_input"]
    return made.open(made.encode(net_input), max_len, widest)


def block(session, first, width, chosen=(0, 1, 2)):
    """[B, W, V], scores of the tokens ``first`` .. of each row."""
    tokens = torch.tensor([[EOS, *OUTPUTS[row]][first : first + width] for row in chosen])
    lengths = [first] * len(chosen)
    layout = chain_layout(lengths, width)
    return session.score(tokens, layout).log_probs


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("shapes", [MODELS[:1], MODELS])
def test_scores_are_those_of_the_ensemble(shapes, temperature):
    models = [toy_model(shape) for shape in shapes]
    session = opened(models, temperature=temperature)
    wanted = expected(models, temperature)
    torch.testing.assert_close(block(session, 0, 3), wanted[:, :3], atol=1e-4, rtol=0)
    # Two tokens are rolled back.
    torch.testing.assert_close(block(session, 1, 4), wanted[:, 1:5], atol=1e-4, rtol=0)
    session.keep(torch.tensor([0, 2]), 2)
    scores = block(session, 5, 2, chosen=(0, 2))
    torch.testing.assert_close(scores, wanted[[0, 2], 5:7], atol=1e-4, rtol=0)
    session.close()


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
    models = [toy_model(shape) for shape in MODELS]
    session = opened(models, read_layers=(1, 2))
    assert session.sessions[0].states is None
    block(session, 0, 3)
    net_input = make_sample(SENTENCES)["net_input"]
    previous = pad_to([[EOS, *output] for output in OUTPUTS], left=False)
    _, extra = models[0](prev_output_tokens=previous, **net_input)
    inner = [states.transpose(0, 1)[:, :3] for states in extra["inner_states"][1:]]
    states = session.sessions[0].states
    assert session.sessions[1].states is None and not states[:, 0].any()
    torch.testing.assert_close(states[:, 1:4], torch.cat(inner, 2), atol=1e-4, rtol=0)


def test_more_tokens_than_positions_are_refused():
    with pytest.raises(ValueError, match="positions"):
        opened([toy_model("learned")], max_len=64)
