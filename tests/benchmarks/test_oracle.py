"""The oracle of Kim et al. 2023, Figure 2, against whole forward passes of single sentences."""

import oracle
import pytest
import torch
from slow_bild import whole
from toy_strategies import small
from toy_translation import EOS, PAD, dictionary, make_sample, sentences, toy_model

SOURCES = sentences(10, seed=7)
LIMIT = 20


def corrected(source, threshold):
    """One sentence without cache or batch: its tokens, and how many were the big model's."""
    models, out, replaced = [whole(small()), whole(toy_model())], [EOS], 0
    while len(out) <= LIMIT and (len(out) == 1 or out[-1] != EOS):
        ours, theirs = (model(source, out)[-1].log_softmax(-1) for model in models)
        ours[PAD] = theirs[PAD] = float("-inf")
        token = int(ours.argmax())
        if theirs[token].exp() < threshold:
            token, replaced = int(theirs.argmax()), replaced + 1
        out.append(token)
    return out[1:], replaced


@pytest.mark.parametrize("threshold", [0.0, 0.05, 0.5, 1.1])
def test_a_batch_is_corrected_as_each_sentence_alone(threshold):
    alone = [corrected(source, threshold) for source in SOURCES]
    net_input = make_sample(SOURCES)["net_input"]
    with torch.inference_mode():
        tokens, chosen, replaced = oracle.correct(
            small(), toy_model(), net_input, threshold, LIMIT, dictionary()
        )
    assert tokens == [out[:-1] if out[-1] == EOS else out for out, _ in alone]
    assert chosen == sum(len(out) for out, _ in alone)
    assert replaced == sum(n for _, n in alone)
    assert {0.0: replaced == 0, 1.1: replaced == chosen}.get(threshold, True)
