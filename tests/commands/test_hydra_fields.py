"""Errors of fairseq-hydra-train name settings as they were written."""

import pytest

import fairseq_specdec.criterions
import fairseq_specdec.models  # noqa: F401 - both register what a YAML may name
from fairseq_specdec.commands.hydra_fields import with_fields

YAML = """
model:
  _name: spec_drafter_tiny
  num_cuts: 4
  encoder:
    embed_dim: 64
criterion:
  _name: glancing_block_loss
"""


@pytest.fixture
def words(tmp_path):
    (tmp_path / "drafter.yaml").write_text(YAML, encoding="utf-8")
    return ["--config-dir", str(tmp_path), "--config-name", "drafter"]


@pytest.mark.parametrize(
    "text, expected",
    [
        # of the file, as it stands there
        ("--num-cuts is 4: use --num-cuts 1, or", "model.num_cuts is 4: use model.num_cuts=1, or"),
        ("--encoder-embed-dim is 64", "model.encoder.embed_dim is 64"),
        # of no file: where it belongs
        ("--decoder-embed-dim 32", "model.decoder_embed_dim=32"),
        ("--attach-to a/b.pt: no such file", "model.attach_to=a/b.pt: no such file"),
        ("--glancing-start 2.0: must be", "criterion.glancing_start=2.0: must be"),
        ("give --max-update, or leave", "give optimization.max_update, or leave"),
        ("--ddp-backend pytorch_ddp", "distributed_training.ddp_backend pytorch_ddp"),
        ("use --arch attached_drafter_base", "use model._name attached_drafter_base"),
        # no settings
        ("torchrun --nproc_per_node 2 a--b", "torchrun --nproc_per_node 2 a--b"),
    ],
)
def test_flags_become_fields(text, expected, words):
    assert with_fields(text, words) == expected


@pytest.mark.parametrize("plus", ["", "+", "++"])
def test_fields_of_the_command_line_are_named_as_there(plus, words):
    given = [*words, f"{plus}model.decoder.embed_dim=32", "common.seed=1"]
    assert with_fields("--decoder-embed-dim", given) == "model.decoder.embed_dim"


@pytest.mark.parametrize("text", [None, "- a list", "a: [", "\x00"])
def test_without_a_readable_file_fields_are_those_declared(text, tmp_path):
    if text is not None:
        (tmp_path / "odd.yaml").write_text(text, encoding="utf-8")
    words = [f"--config-dir={tmp_path}", "--config-name=odd.yaml"]
    assert with_fields("--max-update 0", words) == "optimization.max_update=0"
    assert with_fields("--block-size 0", words) == "--block-size 0"  # of no known model
