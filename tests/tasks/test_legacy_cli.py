"""A drafter in the authors' layout through fairseq-generate, under either task name."""

from argparse import Namespace

import pytest
import torch
from attempts import assert_same
from authors_layout import to_authors
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from in_process import hypotheses, run_here

from fairseq_specdec.conversion import cli as convert
from fairseq_specdec.models.legacy_drafter import LegacyDrafter


@pytest.fixture(scope="module")
def released(toy, tmp_path_factory):
    """An untrained drafter over the toy dictionaries, as the authors' scripts would save it."""
    words = TranslationTask.load_dictionary(f"{toy.data}/dict.src.txt")
    settings = {
        "arch": "block", "task": "translation_lev_modified", "criterion": "glat_loss",
        "optimizer": "adam", "lr_scheduler": "inverse_sqrt", "lr": [0.003], "data": "data",
        "noise": "block_mask", "start_p": 0.5, "minus_p": 0.2, "total_up": 4000, "block_size": 4,
        "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 16, "encoder_attention_heads": 2,
        "encoder_layers": 2, "decoder_layers": 2, "encoder_learned_pos": True,
        "decoder_learned_pos": True, "activation_fn": "gelu", "share_all_embeddings": True,
        "src_embedding_copy": True, "max_source_positions": 64, "max_target_positions": 64,
    }  # fmt: skip
    args = Namespace(**settings)
    ARCH_CONFIG_REGISTRY["block"](args)
    torch.manual_seed(1)
    model = LegacyDrafter.build_model(args, TranslationTask(TranslationConfig(), words, words))
    state = {
        "args": Namespace(**settings),
        "model": to_authors(model.state_dict()),
        "optimizer_history": [],
        "extra_state": {},
        "last_optimizer_state": None,
    }
    folder = tmp_path_factory.mktemp("released")
    torch.save(state, folder / "drafter.pt")
    convert.cli_main([str(folder / "drafter.pt"), str(folder / "converted.pt")])
    return folder


@pytest.mark.parametrize(
    "task, file",
    [("translation_specdec", "drafter.pt"), ("translation_lev_modified", "converted.pt")],
)
def test_prints_what_stock_prints(toy, released, task, file):
    flags = {"path": toy.v, "batch_size": 16, "beam": 1, "max_len_b": 20}
    reference, _ = run_here("generate", toy.data, task="translation", **flags)
    drafter = {"strategy": "gad", "drafter_path": released / file}
    ours, log = run_here("generate", toy.data, task=task, **drafter, **flags)
    assert_same(hypotheses(ours), hypotheses(reference))
    assert "strategy gad: 100 sentences" in log


def test_swapped_paths_are_noticed(toy, released):
    with pytest.raises(ValueError, match="swapped"):
        run_here(
            "generate", toy.data, task="translation_specdec", strategy="gad",
            path=released / "drafter.pt", drafter_path=toy.v,
        )  # fmt: skip
