"""What the criterions share: flags checked, sums over all workers logged."""

import math
from typing import Any

from fairseq import utils
from fairseq.criterions import FairseqCriterion
from fairseq.logging import metrics
from torch import Tensor

from fairseq_specdec.errors import UsageError

from ..io.flag_values import check_flags

BITS = 1 / math.log(2)  # of a nat
# What ``reduce_metrics`` logs: a name, two sums of which one divides the other, factor and digits.
Figures = tuple[tuple[str, str, str, float, int], ...]


class SummedCriterion(FairseqCriterion):  # type: ignore[misc]
    """A criterion with a dataclass of flags, whose logs add up over workers."""

    figures: Figures = ()

    def __init__(self, cfg: Any, task: Any):
        super().__init__(task)
        check_flags(cfg, getattr(type(self), "__dataclass"))  # noqa: B009 - registered by fairseq
        self.cfg = cfg

    @staticmethod
    def outcome(
        loss: Tensor, size: Any, sample: dict[str, Any], reduce: bool, **sums: Any
    ) -> tuple[Tensor, Any, dict[str, Any]]:
        """What ``forward`` returns: the loss [N], summed with ``reduce``; what to divide it by; and
        sums for the log."""
        log = {"loss": loss.detach().sum(), "sample_size": size, "ntokens": sample["ntokens"]}
        log.update(nsentences=sample["target"].size(0), **sums)
        return (loss.sum() if reduce else loss), size, log

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        log_figures(logging_outputs, cls.figures)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def log_figures(logging_outputs: list[dict[str, Any]], figures: Figures) -> None:
    """Log each figure whose sum some worker has, and ``ppl`` of ``nll_loss``. A divisor of 0
    (nothing of the kind in this batch) leaves the average as it is."""

    def total(key: str) -> float:
        return float(utils.item(sum(log.get(key, 0) for log in logging_outputs)))

    for name, amount, divisor, scale, digits in figures:
        if any(amount in log for log in logging_outputs):
            size = total(divisor)
            value = scale * total(amount) / size if size > 0 else 0.0
            metrics.log_scalar(name, value, size, round=digits)
        if name == "nll_loss":
            metrics.log_derived("ppl", lambda of: utils.get_perplexity(of["nll_loss"].avg))


def check_whole(flag: str, ddp_backend: Any) -> None:
    """Refuse to decode in training with a model of which each process has a part only. ``flag``:
    by which it decodes."""
    if getattr(ddp_backend, "value", ddp_backend) == "fully_sharded":
        raise UsageError(
            flag,
            "--ddp-backend fully_sharded keeps a part of the model in each process, which "
            "cannot decode alone",
            f"use --ddp-backend pytorch_ddp, or leave out {flag}",
        )


def unwrapped(model: Any) -> Any:
    """The model inside fairseq's data-parallel wrappers."""
    while hasattr(model, "module"):
        model = model.module
    return model
