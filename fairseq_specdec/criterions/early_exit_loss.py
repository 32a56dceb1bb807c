"""``--criterion early_exit_loss``: trains a decoder and the exits after its layers."""

from dataclasses import dataclass
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II
from torch import Tensor

from fairseq_specdec.errors import UsageError

from ..io.flag_values import Range, flag
from ..training.target_nll import target_nll
from .base import BITS, SummedCriterion


@dataclass
class EarlyExitLossConfig(FairseqDataclass):
    """Settings of the averaged loss."""

    label_smoothing: float = flag(
        0.0, "epsilon for label smoothing, 0 means no label smoothing", Range(0, 1, below=True)
    )
    # fairseq's own --sentence-avg; without a help text it adds no flag
    sentence_avg: bool = II("optimization.sentence_avg")


def loss_weights(exits: int, layers: int) -> list[float]:
    """Of the losses after each of so many exits, and after the last of the layers."""
    if exits == 1:
        return [0.5, 0.5]
    depths = range(layers - exits, layers + 1)
    return [depth / sum(depths) for depth in depths]


@register_criterion("early_exit_loss", dataclass=EarlyExitLossConfig)
class EarlyExitLoss(SummedCriterion):
    """A mean of the losses L_i after decoder layer i, which share a head.

    Of one exit, (L_n + L_-1) / 2: Kim et al. 2023, section 7.2.1. Of several exits, from
    ``--exit-every-layer``, the sum of i / (n + ... + L) L_i, as CALM is trained (Schuster et al.
    2022; Kim et al., 7.2.1). L_i is the (label-smoothed) negative log-likelihood.

    Logged, in base 2 as fairseq does: ``loss``, the mean; ``nll_loss`` and ``ppl`` of the whole
    decoder, ``exit_nll_loss`` of the first exit; and ``agreement``, the percentage of the target
    positions at which both have the same best token.
    """

    figures = (
        ("loss", "loss", "sample_size", BITS, 3),
        ("nll_loss", "nll_loss", "ntokens", BITS, 3),
        ("exit_nll_loss", "exit_nll_loss", "ntokens", BITS, 3),
        ("agreement", "n_equal", "ntokens", 100.0, 2),
    )

    def __init__(self, cfg: EarlyExitLossConfig, task: Any):
        super().__init__(cfg, task)

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, Any, dict[str, Any]]:
        """Loss of a batch. ``reduce``: sum the loss; else return it for each target token, [N].
        Returns the summed loss (nats, fp32), what to divide it by, and sums for the log."""
        logits, extra = model(**sample["net_input"])
        if "exit_logits" not in extra:
            raise UsageError(
                "--criterion early_exit_loss trains models with an early exit only",
                "use --arch early_exit_transformer",
            )
        target = sample["target"]
        learnt = target.ne(self.padding_idx)
        gold = target[learnt]
        outputs = [each[learnt] for each in (*extra["exit_logits"], logits)]
        full, early = outputs[-1], outputs[0]
        weights = loss_weights(len(outputs) - 1, len(extra["inner_states"]) - 1)
        parts = [target_nll(each, gold, self.cfg.label_smoothing) for each in outputs]
        loss = torch.stack([w * part for w, (part, _) in zip(weights, parts)]).sum(0)
        nll, exit_nll = parts[-1][1], parts[0][1]
        sample_size = target.size(0) if self.cfg.sentence_avg else sample["ntokens"]
        # on the CPU, max() finds the index several times faster than argmax() does
        equal = full.detach().max(-1).indices.eq(early.detach().max(-1).indices)
        sums = {"nll_loss": nll.sum(), "exit_nll_loss": exit_nll.sum(), "n_equal": equal.sum()}
        return self.outcome(loss, sample_size, sample, reduce, **sums)
