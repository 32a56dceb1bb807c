"""``--criterion early_exit_loss``: trains a decoder and an exit after one of its layers."""

from dataclasses import dataclass
from typing import Any

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


@register_criterion("early_exit_loss", dataclass=EarlyExitLossConfig)
class EarlyExitLoss(SummedCriterion):
    """(L_n + L_-1) / 2, of the losses after decoder layer n and after the last, which share a head
    (Kim et al. 2023, section 7.2.1). Each is the (label-smoothed) negative log-likelihood.

    Logged, in base 2 as fairseq does: ``loss``, the mean; ``nll_loss`` and ``ppl`` of the whole
    decoder, ``exit_nll_loss`` of the exit; and ``agreement``, the percentage of the target
    positions at which both have the same best token.
    """

    figures = (
        ("loss", "loss", "sample_size", BITS, 3),
        ("nll_loss", "nll_loss", "ntokens", BITS, 3),
        ("exit_nll_loss", "exit_nll_loss", "ntokens", BITS, 3),
        ("agreement", "n_equal", "ntokens", 100.0, 2),
    )

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
        full, early = logits[learnt], extra["exit_logits"][learnt]
        full_loss, nll = target_nll(full, gold, self.cfg.label_smoothing)
        early_loss, exit_nll = target_nll(early, gold, self.cfg.label_smoothing)
        loss = (early_loss + full_loss) / 2
        sample_size = target.size(0) if self.cfg.sentence_avg else sample["ntokens"]
        # on the CPU, max() finds the index several times faster than argmax() does
        equal = full.detach().max(-1).indices.eq(early.detach().max(-1).indices)
        sums = {"nll_loss": nll.sum(), "exit_nll_loss": exit_nll.sum(), "n_equal": equal.sum()}
        return self.outcome(loss, sample_size, sample, reduce, **sums)
