"""A verifier that drafts for itself, against Algorithm 1 of Kim et al. without cache or batch."""

import pytest
from slow_bild import INFINITY, THRESHOLDS, big_little, first_layers, whole
from slow_bild import check as check_slow
from toy_early_exit import toy_early_exit
from toy_strategies import flags, make_generator, stock
from toy_strategies import tokens as tokens_of
from toy_translation import assert_diverse, make_sample, sentences, toy_model

from fairseq_specdec.engine.eager.encoder import EncoderWeights
from fairseq_specdec.engine.torch_decoder import KVCache
from fairseq_specdec.engine.transformer import Transformer

SENTENCES = sentences(10, seed=7)
LONG = max(SENTENCES, key=len)


def generator_of(model, alpha_fb, alpha_rb, size=None):
    given = {"alpha_fb": alpha_fb, "alpha_rb": alpha_rb, "block_size": size}
    return make_generator("bild-early-exit", models=[model], **given)


def check(model, alpha_fb, alpha_rb, size=None, chosen=SENTENCES):
    """Ours equals the slow one, in tokens and in steps; returns both."""
    slow = [
        big_little(first_layers(model), whole(model), s, alpha_fb, alpha_rb, size or 10)
        for s in chosen
    ]
    return check_slow(generator_of(model, alpha_fb, alpha_rb, size), slow, make_sample(chosen))


@pytest.mark.parametrize("alpha_fb, alpha_rb", THRESHOLDS)
def test_equals_algorithm_1(alpha_fb, alpha_rb):
    model = toy_early_exit()
    tokens, stats = check(model, alpha_fb, alpha_rb)
    assert_diverse(tokens)
    if alpha_rb == 0 or alpha_fb == 1:
        assert tokens == greedy(model)
    if alpha_fb == 1:
        assert stats.drafted == 0
    if (alpha_fb, alpha_rb) == (0.6, 0.2):
        assert 0 < stats.rollback_share < stats.fallback_share < 0.6


def greedy(model):
    return tokens_of(stock([model], make_sample(SENTENCES), flags()))


@pytest.mark.parametrize(
    "shape, exit_layer",
    [
        ("pre_norm", 2),
        pytest.param("layernorm_embedding", 1, marks=pytest.mark.slow),
        pytest.param("narrow_output", 2, marks=pytest.mark.slow),
        pytest.param("quant_noise", 1, marks=pytest.mark.slow),
    ],
)
def test_equals_algorithm_1_for_every_shape(shape, exit_layer):
    _, stats = check(toy_early_exit(shape, exit_layer, updates=120), 0.3, 2.0)
    assert stats.accepted > 0


@pytest.mark.parametrize("size", [1, 3])
def test_equals_algorithm_1_sentence_by_sentence(size):
    for sentence in SENTENCES[:4]:
        check(toy_early_exit(), 0.5, 1.0, size, [sentence])


@pytest.mark.usefixtures("on_torch")
def test_drafts_with_the_verifiers_own_weights_and_encodes_once(monkeypatch):
    model = toy_early_exit()
    encoded, opened = [], []
    encode, begin = EncoderWeights.__call__, Transformer.open

    def counted(self, *given):
        encoded.append(encode(self, *given))
        return encoded[-1]

    def watched(self, encoder_out, max_len, widest):
        session = begin(self, encoder_out, max_len, widest)
        opened.append((self, encoder_out, session.cache.layers))
        return session

    monkeypatch.setattr(Transformer, "open", watched)
    generator = generator_of(model, 0.6, 2.0)
    monkeypatch.setattr(EncoderWeights, "__call__", counted)
    generator.generate([model], make_sample(SENTENCES))
    encoded = [out for out in encoded if out["encoder_out"][0].size(1) == len(SENTENCES)]
    assert len(encoded) == 1  # beside a short source, by which the encoder is judged
    (whole_model, _, _), (small, _, layers) = opened
    assert all(source is encoded[0] for _, source, _ in opened)
    assert whole_model.embedding.decoder is model.decoder
    assert small.encode is None
    assert small.embedding.decoder.output_projection is model.decoder.output_projection
    assert layers == 1


@pytest.mark.usefixtures("on_torch")
def test_upper_layers_hold_what_the_whole_decoder_computes(monkeypatch):
    """Keys and values of accepted drafts come from a pass through all layers (7.2.2)."""
    model = toy_early_exit()
    written = []
    write = KVCache.write
    monkeypatch.setattr(
        KVCache,
        "write",
        lambda self, layer, entries: (
            written.append((self.layers, layer)) or write(self, layer, entries)
        ),
    )
    generator = generator_of(model, 0.0, INFINITY)
    (hypothesis,) = generator.generate([model], make_sample([LONG]))[0]
    layers = len(model.decoder.layers)
    drafting = [layer for owner, layer in written if owner == 1]
    verifying = [layer for owner, layer in written if owner == layers]
    assert set(drafting) == {0} and len(drafting) > len(verifying) / layers
    assert verifying == list(range(layers)) * (len(verifying) // layers)
    assert len(hypothesis["tokens"]) > 5


def test_a_model_without_exit_is_refused():
    with pytest.raises(ValueError, match="--path.*early_exit_transformer"):
        generator_of(toy_model(), 0.6, 2.0)
