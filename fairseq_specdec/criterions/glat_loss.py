"""The criterion name that the authors' drafter checkpoints hold: fairseq looks it up on loading."""

from dataclasses import dataclass, field
from typing import Any

from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass

from fairseq_specdec.errors import UsageError


@dataclass
class GlatLossConfig(FairseqDataclass):
    """The settings of the authors' criterion."""

    label_smoothing: float = field(default=0.0, metadata={"help": "kept from training, ignored"})
    mse_lambda: float = field(default=10.0, metadata={"help": "kept from training, ignored"})


@register_criterion("glat_loss", dataclass=GlatLossConfig)
class GlatLoss(FairseqCriterion):
    """A name to load checkpoints by; training here is ``glancing_block_loss``."""

    def __init__(self, task: Any, label_smoothing: float = 0.0, mse_lambda: float = 10.0) -> None:
        super().__init__(task)
        raise UsageError(
            "--criterion glat_loss",
            "the name is known for loading the authors' drafters only",
            "train with --criterion glancing_block_loss and --arch spec_drafter_base",
        )
