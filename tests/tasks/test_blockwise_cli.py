"""A blockwise model through fairseq's own commands: put heads on a verifier, train, decode."""

import os
import re
import shutil

import pytest
import torch
from attempts import accepted, assert_same, generate
from in_process import PLUGIN, hypotheses

from fairseq_specdec.criterions.blockwise_loss import draw_head

HEADS = {
    "task": "translation", "arch": "blockwise_transformer_tiny", "criterion": "blockwise_loss",
    "block_size": 3, "label_smoothing": 0.0, "dropout": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def blockwise(toy, train_here, tmp_path_factory):
    """(path, log) of heads trained on the frozen toy verifier, whose file is gone by now."""
    base = tmp_path_factory.mktemp("base") / "verifier.pt"
    shutil.copy(toy.v, str(base))
    out, log = train_here(
        init_from=base, freeze_base=True, max_update=150, max_epoch=1, fixed_validation_seed=1,
        best_checkpoint_metric="accepted", maximize_best_checkpoint_metric=True,
        validate_interval_updates=150, keep=True, **HEADS,
    )  # fmt: skip
    base.unlink()
    return str(out / "checkpoint_best.pt"), log


def test_training_reports_every_head(blockwise):
    path, log = blockwise
    assert "--init-from" in log and "its shape and all its weights taken over" in log
    valid = [line for line in log.splitlines() if "valid on 'valid' subset" in line][-1]
    for name in ("head_1_accuracy", "head_2_accuracy", "head_3_accuracy", "accepted"):
        assert name in valid
    assert float(re.search(r"accepted[ |]+([\d.]+)", valid).group(1)) > 1.1
    model = torch.load(path, weights_only=False)["cfg"]["model"]
    assert model.init_from is None and model.freeze_base is True


def test_a_frozen_base_prints_what_the_base_prints(toy, blockwise):
    """With its heads, as stock's verifier, and with another drafter."""
    reference = hypotheses(generate(toy, task="translation")[0])
    assert len(reference) == 100
    heads = {"path": blockwise[0], "strategy": "blockwise", "draft_budget": 0}
    for flags in ({}, {"batch_size": 1, "block_size": 2}):
        out, log = generate(toy, **heads, **flags)
        assert_same(hypotheses(out), reference)
        assert accepted(log) > 1.1
    for flags in (
        {"task": "translation", "user_dir": PLUGIN}, {"strategy": "gad", "drafter_path": toy.d}
    ):  # fmt: skip
        assert_same(hypotheses(generate(toy, path=blockwise[0], **flags)[0]), reference)


def test_approximate_decoding_accepts_more(toy, blockwise):
    exact, among, least = (
        accepted(generate(toy, path=blockwise[0], strategy="blockwise", **flags)[1])
        for flags in ({}, {"accept_top_k": 3}, {"min_block_size": 3})
    )
    assert exact < among < least


def test_two_processes_draw_the_same_heads(toy, tmp_path, fairseq_command):
    """Different heads in the two processes would leave their logs without a common sum."""
    command = [
        toy.data, "--cpu", "--user-dir", PLUGIN, "--task", "translation",
        "--arch", HEADS["arch"], "--criterion", "blockwise_loss", "--block-size", 3,
        "--init-from", toy.v, "--freeze-base", "--optimizer", "adam", "--lr", 1e-3,
        "--batch-size", 8, "--max-update", 5, "--save-dir", tmp_path, "--num-workers", 0,
        "--log-format", "simple", "--log-interval", 1, "--disable-validation",
        "--distributed-world-size", 2, "--distributed-backend", "gloo",
        "--ddp-backend", "pytorch_ddp", "--no-epoch-checkpoints",
    ]  # fmt: skip
    launcher = ("-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone")
    log, _ = fairseq_command("train", *command, launcher=launcher)
    assert "training on 2 devices" in log
    for update in range(1, 6):
        (line,) = [line for line in log.splitlines() if f"num_updates={update}," in line]
        head = draw_head([2, 3], 1, update - 1, 0)  # drawn before the update is counted
        assert re.findall(r"head_(\d)_accuracy=\d", line) == [str(head)]
    model = torch.load(str(tmp_path / "checkpoint_last.pt"), weights_only=False)["model"]
    base = torch.load(toy.v, weights_only=False)["model"]
    # The other one tells device and dtype, and holds what was in memory.
    weights = [name for name in base if not name.endswith("._float_tensor")]
    assert os.path.isfile(toy.v) and all(torch.equal(model[n], base[n]) for n in weights)
    assert model["decoder.block_heads.output.weight"].abs().sum() > 0
