"""The chain: teacher-forced in training, from the left in decoding, and the two agree."""

import torch
from toy_drafter import make_drafter

from fairseq_specdec.drafting.token_choice import ChainSearch, shortened
from fairseq_specdec.models.chain_head import ChainHead


def by_steps(chain, features, previous):
    """The equations of the class, a step at a time, over whole blocks."""
    state, states = features.new_zeros(len(features), chain.width), []
    for j in range(features.size(1)):
        past = chain.of_past(torch.cat([previous[:, j], state], -1))
        state = torch.tanh(chain.of_mask(features[:, j]) + past)
        states.append(state)
    return features + chain.out(torch.stack(states, 1))


def test_equals_its_equations_up_to_where_each_block_is_asked_for():
    torch.manual_seed(0)
    chain, lengths = ChainHead(8, 5), torch.tensor([2, 4, 1, 4, 3])
    torch.nn.init.normal_(chain.out.weight)
    features, previous = torch.randn(5, 4, 8, requires_grad=True), torch.randn(5, 4, 8)
    asked = torch.arange(4) < lengths[:, None]
    given = [features, *chain.parameters()]
    results = []
    for chained in (chain(features, previous, lengths), by_steps(chain, features, previous)):
        weights = torch.randn(chained.shape, generator=torch.Generator().manual_seed(1))
        loss = (chained * weights)[asked].sum()
        results.append((chained[asked], torch.autograd.grad(loss, given)))
    (output, gradients), (expected, wanted) = results
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(gradients, wanted)
    assert torch.equal(chain(features, previous, lengths)[~asked], features[~asked])
    torch.testing.assert_close(
        chain(features, previous), by_steps(chain, features, previous), atol=1e-6, rtol=1e-5
    )


def searched(decoder, features, logits, previous, confidence=0.0, candidates=(1000, 1000)):
    with torch.no_grad():
        chosen = ChainSearch(decoder, candidates).judged(features, logits, previous, confidence > 0)
    tokens, lengths = shortened(*chosen, confidence)
    return tokens.tolist(), lengths.tolist()


def test_the_search_picks_what_the_training_pass_scores_best():
    torch.manual_seed(0)
    decoder = make_drafter(chain_width=6).decoder.eval()
    torch.nn.init.normal_(decoder.chain.out.weight, std=3.0)
    features = torch.randn(5, 4, decoder.embed_dim)
    previous = torch.randint(4, 20, (5,))
    with torch.no_grad():
        logits = decoder.output_layer(features)
        # The plain way: teacher-force what was chosen so far, and look at every word.
        tokens = previous.unsqueeze(1)
        chances = []
        for j in range(4):
            embedded = torch.zeros_like(features)
            embedded[:, : j + 1] = decoder.embed_scale * decoder.embed_tokens(tokens)
            scores = decoder.output_layer(decoder.chain(features, embedded))[:, j]
            chances.append(scores.softmax(-1).amax(-1))
            tokens = torch.cat([tokens, scores.argmax(-1, keepdim=True)], 1)
        _, judged = ChainSearch(decoder, (1000, 1000)).judged(features, logits, previous)
    each, chosen, alone = torch.stack(chances, 1), tokens[:, 1:].tolist(), logits.argmax(-1)
    torch.testing.assert_close(judged, each, atol=1e-4, rtol=0)
    given = decoder, features, logits, previous
    assert searched(*given) == (chosen, [4] * 5) != (alone.tolist(), [4] * 5)
    counts = (each.cumprod(1) >= 0.5).sum(1).tolist()
    assert counts != (each >= 0.5).sum(1).tolist()  # alone, some are sure again
    sure = [row[: max(counts)] for row in chosen]
    assert 0 < sum(counts) < 20 and searched(*given, 0.5) == (sure, counts)
    assert searched(*given, 1.0) == ([[]] * 5, [0] * 5)
    # A sole candidate has probability 1, which is not below 1. One row alone has more of them.
    assert searched(*given, 1.0, (1, 1)) == (alone.tolist(), [4] * 5)
    first = features[:1], logits[:1], previous[:1]
    assert searched(decoder, *first, candidates=(1000, 1))[0] == chosen[:1]
    assert searched(*given, candidates=(1000, 1))[0] == alone.tolist()


def test_some_blocks_are_trained_without_it():
    torch.manual_seed(0)
    decoder = make_drafter(chain_width=6, chain_dropout=0.5).decoder
    torch.nn.init.normal_(decoder.chain.out.weight)
    features = torch.randn(20, 3, 4, decoder.embed_dim)
    previous, cuts = torch.randint(4, 20, (20, 9)), torch.randint(0, 5, (20, 3))
    given = (features, previous, cuts, torch.full((20, 3), 4))
    same = decoder.train().follow_chain(*given).eq(features).flatten(2).all(-1)
    assert 0.2 < same.float().mean() < 0.8
    assert not decoder.eval().follow_chain(*given).eq(features).any()
