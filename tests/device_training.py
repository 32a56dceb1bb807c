"""Every model and its criterion, and a batch, for a training step on a device."""

import torch
from device_guard import on_device
from device_systems import TASK, model, sample
from device_systems import attached as attached_drafter
from toy_translation import EOS, PAD

from fairseq_specdec.criterions import (
    BlockwiseLoss,
    BlockwiseLossConfig,
    EarlyExitLoss,
    EarlyExitLossConfig,
    GlancingBlockLoss,
    GlancingBlockLossConfig,
)


def glancing(**settings):
    config = GlancingBlockLossConfig(max_update=100, glancing_updates=100, **settings)
    return lambda: GlancingBlockLoss(config, TASK)


def attached():
    drafter = attached_drafter()
    drafter.encoder.attach(model("transformer"))  # on the CPU: the drafter moves it
    return drafter


def block(**settings):
    return lambda: model("spec_drafter_base", 4, 2, block_size=10, num_cuts=2, **settings)


def blockwise(**settings):
    return lambda: model("blockwise_transformer", 2, 2, block_size=4, **settings)


def blockwise_loss(**settings):
    return lambda: BlockwiseLoss(BlockwiseLossConfig(seed=1, **settings), TASK)


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
    "early exit": (
        lambda: model("early_exit_transformer", 2, 2, exit_layer=1),
        lambda: EarlyExitLoss(EarlyExitLossConfig(sentence_avg=False), TASK),
    ),
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
