"""Decoding with the drafter alone says what plain passes of it say, and runs no verifier."""

import copy
import functools

import pytest
import torch
from fairseq.modules import LearnedPositionalEmbedding
from toy_hypotheses import slow_draft
from toy_strategies import attached, check, decode, flags
from toy_translation import (
    EOS,
    PAD,
    assert_diverse,
    make_sample,
    make_task,
    sentences,
    toy_drafter,
    toy_model,
)

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import build_generator
from fairseq_specdec.engine.native.library import load

SENTENCES = sentences(9, seed=7)
BACKENDS = ["torch"] + ["native"] * (load() is not None)
MODELS = {
    "leftward": {},
    "copied": {"updates": 60, "source_copy": True},
    "bidirectional": {"bidirectional_prefix": True},
    "chained": {"chain_width": 16},
    # Outputs are longer than the table of positions.
    "short_table": {"decoder_learned_pos": True, "max_target_positions": 9, "updates": 250},
}


def make(drafter, args=None, models=None, **settings):
    words = make_task().tgt_dict
    return build_generator(
        models or [toy_model()], words, words, args or flags(max_len_b=30),
        decoding_settings(strategy="nar", drafter_path=__file__, **settings),
        load=lambda *_: copy.deepcopy(drafter),
    )  # fmt: skip


@torch.no_grad()
def slow_block(model, words, output, limit):
    """(tokens, their log-probabilities) after an output, by the pass of training; a chain takes a
    pass for every token."""
    net_input, chained = make_sample([words])["net_input"], bool(model.decoder.chain)
    block, scores = [], []

    def choose(logits):
        step = len(output) + len(block)
        forbidden = [PAD, EOS] if step == 0 else [PAD]
        if chained:  # its candidates' share
            logits[forbidden] = float("-inf")
        log_probs = logits.log_softmax(-1)
        allowed = log_probs.clone()
        allowed[forbidden] = float("-inf")
        block.append(EOS if step >= limit else int(allowed.argmax()))
        scores.append(float(log_probs[block[-1]]))
        return block[-1]

    if chained:
        slow_draft(model, net_input, output, choose)
        return block, scores
    previous, cut = torch.tensor([[EOS, *output]]), torch.tensor([[len(output)]])
    state = model.decoder.start_source(net_input["src_tokens"])
    features = model.decoder(previous, model.encoder(**net_input), cut, state)
    for logits in model.decoder.output_layer(features)[0, 0]:
        choose(logits)
    return block, scores


@functools.cache
def slow(name, limit, size=4):
    """(tokens, their log-probabilities, blocks) of each sentence."""
    wanted = []
    for words in SENTENCES:
        output, sure, done = [], [], 0
        while not output or output[-1] != EOS:
            block, scores = slow_block(toy_drafter(**MODELS[name]), words, output, limit)
            done += 1
            length = block.index(EOS) + 1 if EOS in block else size
            output += block[:length]
            sure += scores[:length]
        wanted.append((output, sure, done))
    return wanted


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name, limit", [*((name, 30) for name in MODELS), ("leftward", 5)])
def test_a_batch_equals_plain_passes(name, limit, backend):
    """One batch of ours against the sentences, one by one."""
    generator = make(toy_drafter(**MODELS[name]), flags(max_len_b=limit), backend=backend)
    outputs, wanted = decode(generator, make_sample(SENTENCES)), slow(name, limit)
    for ours, (tokens, scores, done) in zip(outputs, wanted):
        assert ours["tokens"].tolist() == tokens
        torch.testing.assert_close(
            ours["positional_scores"], torch.tensor(scores), atol=1e-4, rtol=0
        )
        assert ours["steps"] == done
    stats = generator.stats
    assert stats.iterations == sum(done for *_, done in wanted)
    assert stats.emitted == sum(len(tokens) for tokens, *_ in wanted)
    assert (stats.sentences, stats.drafted, stats.scored) == (len(SENTENCES), 0, 0)
    sizes = {len(tokens) for tokens, *_ in wanted}
    if limit == 5:
        assert max(sizes) == 6
    else:
        assert_diverse([tokens for tokens, *_ in wanted])
        assert len(sizes) > 3, "no row left before the others"


def test_no_verifier_runs():
    """Its weights may be nothing, and its encoder is not asked."""
    broken, sample = copy.deepcopy(toy_model()), make_sample(SENTENCES)
    for parameter in broken.parameters():
        parameter.data.fill_(float("nan"))
    generator = make(toy_drafter(), models=[broken])
    check(decode(generator, sample), decode(make(toy_drafter()), sample))
    times = generator.stats.times()
    assert times["drafter_encoder"] > 0 and times["drafter"] > 0 and times["verifier"] < 1e-3
    assert not generator.rule.lossless


def nan_drafter():
    model = copy.deepcopy(toy_drafter())
    model.decoder.layers[0].fc1.weight.data[0] = float("nan")
    return model


def short_sighted():
    model = copy.deepcopy(toy_drafter(updates=1))
    dim = model.encoder.embed_tokens.embedding_dim
    model.encoder.embed_positions = LearnedPositionalEmbedding(PAD + 1 + 4, dim, PAD)
    return model


REFUSED = [
    (lambda: make(attached()), "--strategy nar: the drafter "),
    (lambda: make(toy_drafter(), models=[toy_model(), toy_model("pre_norm")]), "--path: 2 models"),
    (lambda: make(toy_drafter(), block_size=5), "--block-size 5: "),
    (lambda: make(toy_drafter(), flags(no_repeat_ngram_size=2)), "--no-repeat-ngram-size 2: "),
    (lambda: make(toy_drafter(), flags(beam=2)), "--nbest 2: "),
    (lambda: make(toy_drafter(), flags(sampling=True)), "--sampling: "),
    (lambda: decode(make(toy_drafter()), make_sample([[1]]), torch.tensor([[5]])), "--prefix-siz"),
    (lambda: decode(make(nan_drafter()), make_sample([[1]])), "--drafter-path: the drafter's out"),
    (lambda: decode(make(short_sighted()), make_sample([[1] * 9])), "--drafter-path: its encoder"),
]


@pytest.mark.parametrize("ask, message", REFUSED, ids=[message for _, message in REFUSED])
def test_what_cannot_be_kept_is_refused_by_name(ask, message):
    with pytest.raises(ValueError) as caught:
        ask()
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
