"""A drafter that uses its verifier's vocabulary tables drafts as with the same ones of its own."""

import contextlib
import copy
from types import SimpleNamespace

import pytest
import torch
from pairwise import half
from toy_strategies import check, decode, flags, make_generator, stock
from toy_translation import EOS, PAD, make_sample, sentences, toy_attached_drafter, toy_model

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.drafter_file import check_reading
from fairseq_specdec.decoding.strategies.gad import check_rounding
from fairseq_specdec.drafting import DraftOptions, NarBlockDrafter
from fairseq_specdec.models.verifier_tables import TABLES, VerifierTable

NEEDS_WEIGHTS = pytest.raises(ValueError, match="--keep-weights")


def with_and_without(shape):
    """(verifier, a drafter that has its tables as its own, the same that uses the verifier's)."""
    verifier = copy.deepcopy(toy_model(shape))
    owner = copy.deepcopy(toy_attached_drafter("post_norm", 4, 80, chain_width=16))
    for name in TABLES:
        setattr(owner.decoder, name, copy.deepcopy(getattr(verifier.decoder, name)))
    user = copy.deepcopy(owner)
    for name in TABLES:
        setattr(user.decoder, name, VerifierTable(PAD, user.decoder.embed_dim))
    return verifier, owner, user


@pytest.mark.parametrize(
    "backend, frees, number_format",
    [
        *half(["native"], [False, True], [None, "bf16", "int8"]),
        *half(["torch"], [False, True], [None, "bf16"]),
    ],
)
def test_drafts_are_those_of_a_drafter_with_the_same_tables(backend, frees, number_format):
    verifier, *drafters = with_and_without("post_norm")
    sample, drafts = make_sample(sentences(6, seed=3)), []
    for model in drafters:
        models = [copy.deepcopy(verifier)]
        drafter = NarBlockDrafter(model, DraftOptions(4, PAD, EOS, number_format))
        generator = make_generator(
            "greedy", models=models, backend=backend, free_unpacked=frees,
            overrides=Overrides(drafter, keep_trace=True),
        )  # fmt: skip
        outputs = decode(generator, sample)
        check(outputs, stock([copy.deepcopy(verifier)], sample, flags()))
        drafts.append([each["iterations"].drafts for each in outputs])
    assert drafts[0] == drafts[1]
    assert len({token for one in drafts[0] for draft in one for token in draft}) > 5


def test_a_verifier_of_other_words_is_refused():
    _, _, user = with_and_without("post_norm")
    verifier = copy.deepcopy(toy_model("post_norm"))
    verifier.decoder.output_projection = torch.nn.Linear(32, 5, bias=False)
    with pytest.raises(ValueError, match="5 words 32 wide in decoder.output_projection"):
        check_reading(user, verifier, "--drafter-path d.pt")


def test_a_rounded_projection_needs_its_weights_kept():
    """A chain reads it; tied tables stay exact."""
    verifier, _, user = with_and_without("post_norm")
    for tied, raises in ((True, contextlib.nullcontext()), (False, NEEDS_WEIGHTS)):
        verifier.decoder.share_input_output_embed = tied
        settings = SimpleNamespace(verifier_dtype="int8", keep_weights=False, drafter_path="d.pt")
        with raises:
            check_rounding(SimpleNamespace(models=[verifier], settings=settings), user)
