"""A BART of fairseq's own (post-norm, learnt positions, normalised embeddings) verifies and lends
its encoder to a drafter."""

import pytest
from in_process import SHAPE, hypotheses, run_here
from toy_translation import assert_diverse

# As exact as toy_model("layernorm_embedding"), which has the same parts.
pytestmark = pytest.mark.slow
TRAITS = {
    "layernorm_embedding": True, "no_scale_embedding": True, "activation_fn": "gelu",
    "encoder_learned_pos": True, "decoder_learned_pos": True, "decoder_embed_dim": 32,
    "decoder_ffn_embed_dim": 64, "decoder_attention_heads": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def bart(train_here):
    """Checkpoints of a small BART and of a drafter that started from its encoder; the log."""
    shape = dict(SHAPE, decoder_ffn_embed_dim=64, decoder_attention_heads=4, attention_dropout=0.0)
    verifier, _ = train_here(
        task="translation", arch="bart_base", criterion="cross_entropy", max_update=500, lr=2e-3,
        disable_validation=True, keep=True, **shape,
    )  # fmt: skip
    path = verifier / "checkpoint_last.pt"
    drafter, log = train_here(
        task="translation", arch="spec_drafter", criterion="glancing_block_loss", block_size=4,
        max_update=60, disable_validation=True, bidirectional_prefix=True,
        init_encoder_from=path, keep=True, **dict(SHAPE, **TRAITS),
    )  # fmt: skip
    return path, drafter / "checkpoint_last.pt", log


def test_the_drafter_starts_from_barts_encoder(bart):
    log = bart[2]
    assert "copied encoder.embed_tokens" in log
    for part in ("embed_positions", "layernorm_embedding", "layers.0", "layers.1"):
        assert f"encoder.{part}" in log.split("left as initialised")[0]


@pytest.mark.parametrize(
    "strategies, flags",
    [
        (["greedy", "gad"], {"beam": 1, "max_len_b": 14, "min_len": 6, "no_repeat_ngram_size": 3}),
        (["iad", "gad"], {"beam": 4, "max_len_b": 14, "min_len": 5, "no_repeat_ngram_size": 3,
                          "lenpen": 2.0, "prefix_size": 1}),
    ],
    ids=["news", "summaries"],
)  # fmt: skip
def test_bart_decodes_as_stock_does(data, bart, strategies, flags):
    path, drafter, _ = bart
    given = dict(flags, path=path, batch_size=16)
    stock = hypotheses(run_here("generate", data, task="translation", **given)[0])
    assert len(stock) == 100
    assert_diverse([words for words, _, _ in stock.values()])
    for strategy in strategies:
        more = {"drafter_path": drafter, "block_size": 4} if strategy == "gad" else {}
        out, _ = run_here(
            "generate", data, task="translation_specdec", strategy=strategy, **given, **more
        )
        ours = hypotheses(out)
        assert ours.keys() == stock.keys()
        for number, (words, score, _) in stock.items():
            assert ours[number][0] == words, (strategy, number)
            assert ours[number][1] == pytest.approx(score, abs=1e-3)
