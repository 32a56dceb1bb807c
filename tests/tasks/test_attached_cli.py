"""An attached drafter from fairseq-train to fairseq-generate."""

import re

import pytest
import torch
from attempts import accepted, generate, words_of


@pytest.fixture(scope="module")
def attached(toy, train_here):
    """(path of a drafter that reads the toy verifier, log of its training)."""
    folder, log = train_here(
        task="translation", arch="attached_drafter_tiny", criterion="glancing_block_loss",
        attach_to=toy.v, encoder_embed_dim=32, encoder_attention_heads=4, decoder_attention_heads=8,
        chain_width=16,
        init_decoder_from=toy.v, encoder_ffn_embed_dim=64, block_size=4, num_cuts=4,
        max_update=250, glancing_start=0.0, glancing_stop=0.0, eval_verifier=toy.v,
        eval_sentences=60, validate_interval_updates=250, dropout=0.0, keep=True,
    )  # fmt: skip
    return str(folder / "checkpoint_last.pt"), log


@pytest.mark.parametrize("flags", [{}, {"batch_size": 1, "block_size": 2}], ids=str)
def test_prints_what_stock_prints_in_fewer_iterations(toy, attached, flags):
    path, log = attached
    stock, _ = generate(toy, task="translation")
    out, log_of_decoding = generate(toy, strategy="gad", drafter_path=path, draft_budget=0, **flags)
    assert words_of(out) == words_of(stock)
    assert accepted(log_of_decoding) > 1.4
    assert float(re.findall(r"accepted_tokens ([\d.]+)", log)[-1]) > 1.4


def test_the_checkpoint_holds_no_verifier(attached):
    state = torch.load(attached[0], weights_only=False)
    assert all(name.startswith("decoder.") for name in state["model"])
    assert state["cfg"]["model"].attach_to is None


def test_another_verifier_is_refused(toy, attached, train_here, attempt):
    """One of another width, and one with fewer layers than the drafter reads."""
    for shape, message in (
        ({"encoder_embed_dim": 16, "decoder_layers": 2}, "16 wide"),
        ({"encoder_embed_dim": 32, "decoder_layers": 1}, "has 1 decoder layers"),
    ):
        folder, _ = train_here(
            task="translation", arch="transformer", criterion="cross_entropy", max_update=1,
            disable_validation=True, encoder_ffn_embed_dim=16, encoder_attention_heads=2,
            encoder_layers=1, share_all_embeddings=True, **shape,
        )  # fmt: skip
        error = attempt(
            path=str(folder / "checkpoint_last.pt"), strategy="gad", drafter_path=attached[0]
        )
        assert message in error and "trained with" in error
