"""One training step of every model and criterion as on a GPU."""

from argparse import Namespace

import pytest
import torch
from device_guard import DeviceGuard, on_device
from device_systems import EOS, PAD, model, sample
from device_systems import attached as attached_drafter
from toy_translation import make_task

from fairseq_specdec.criterions import (
    BlockwiseLoss,
    BlockwiseLossConfig,
    EarlyExitLoss,
    EarlyExitLossConfig,
    GlancingBlockLoss,
    GlancingBlockLossConfig,
)

pytestmark = pytest.mark.skipif(
    not hasattr(torch.Tensor, "untyped_storage"), reason="needs the modes of torch 2"
)


def task():
    words = make_task().target_dictionary
    return Namespace(target_dictionary=words, source_dictionary=words, cfg=Namespace())


def glancing(**settings):
    config = GlancingBlockLossConfig(max_update=100, glancing_updates=100, **settings)
    return lambda: GlancingBlockLoss(config, task())


def attached():
    drafter = attached_drafter()
    drafter.encoder.attach(model("transformer"))  # on the CPU: the drafter moves it
    return drafter


def block(**settings):
    return lambda: model("spec_drafter_base", 4, 2, block_size=10, num_cuts=2, **settings)


def blockwise(**settings):
    return lambda: model("blockwise_transformer", 2, 2, block_size=4, **settings)


def blockwise_loss(**settings):
    return lambda: BlockwiseLoss(BlockwiseLossConfig(seed=1, **settings), task())


def early_exit_loss():
    return EarlyExitLoss(EarlyExitLossConfig(sentence_avg=False), task())


CASES = {
    "block drafter": (block(), glancing()),
    "source copy, decay": (block(source_copy=True), glancing(block_loss_decay=0.85)),
    "bidirectional": (
        lambda: model("nar_drafter_base", 2, 2, block_size=10, bidirectional_prefix=True),
        glancing(),
    ),
    "attached": (attached, glancing(glancing_start=0.0, glancing_stop=0.0)),
    "attached, soft targets": (attached, glancing(soft_targets=0.5)),
    "blockwise": (blockwise(), blockwise_loss()),
    "blockwise, all heads": (blockwise(), blockwise_loss(mean_of_heads=True)),
    "early exit": (lambda: model("early_exit_transformer", 2, 2, exit_layer=1), early_exit_loss),
}


def batch():
    """Four sentences of different lengths, and their targets."""
    made = sample(4)
    target = torch.full((4, 12), PAD)
    for row in range(4):
        target[row, : 12 - row] = torch.arange(4, 16 - row)
        target[row, 11 - row] = EOS
    previous = torch.full_like(target, EOS)
    previous[:, 1:] = target[:, :-1]
    made["net_input"]["prev_output_tokens"] = previous.masked_fill(target.eq(PAD), PAD)
    made.update(target=target, ntokens=int(target.ne(PAD).sum()))
    return on_device(made)


@pytest.mark.parametrize("half", [False, True], ids=["fp32", "fp16"])
@pytest.mark.parametrize("case", CASES)
def test_a_step(case, half):
    torch.manual_seed(0)
    make, criterion = CASES[case]
    with DeviceGuard() as guard:
        trained, judge, given = make(), criterion(), batch()
        (trained.half() if half else trained).to("cuda").train()
        trained.set_num_updates(3)
        for _ in range(2):  # the first one moves tables and the verifier
            trained.zero_grad()
            guard.clear()
            loss, _, log = judge(trained, given)
            (loss * (128.0 if half else 1.0)).backward()
        waits = dict(guard.waits)
        assert loss.is_cuda and bool(torch.isfinite(loss))
        missing = [
            name for name, p in trained.named_parameters() if p.requires_grad and p.grad is None
        ]
        assert not missing, "data-parallel training would wait for these gradients"
        assert all(p.grad.is_cuda for p in trained.parameters() if p.grad is not None)
        assert all(x.is_cuda for x in log.values() if isinstance(x, torch.Tensor))
        most = OF_ALL_HEADS if case == "blockwise, all heads" else MOST_WAITS
        assert sum(waits.values()) <= most, (sum(waits.values()), waits)


# Of a step: choosing places by a mask, and asking for padding, in fairseq's layers too.
MOST_WAITS, OF_ALL_HEADS = 15, 23
