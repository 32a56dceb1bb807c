"""``--criterion glancing_block_loss``: trains a drafter on blocks after random prefixes."""

from dataclasses import dataclass
from typing import Any, Optional

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II
from torch import Tensor

from fairseq_specdec.errors import UsageError

from ..io.flag_values import AT_LEAST_0, AT_LEAST_1, SHARE, Range, flag
from ..training.block_noising import block_targets, draw_cuts, fixed_cuts
from ..training.glancing import glancing_ratio
from ..training.target_nll import target_nll
from .accepted_tokens import AcceptedTokens
from .base import BITS, SummedCriterion, check_whole, unwrapped


@dataclass
class GlancingBlockLossConfig(FairseqDataclass):
    """Settings of the drafter's loss."""

    label_smoothing: float = flag(
        0.1, "epsilon for label smoothing, 0 means no label smoothing", Range(0, 1, below=True)
    )
    glancing_start: float = flag(
        0.5, "share of wrongly drafted tokens revealed at the start of training", SHARE
    )
    glancing_stop: float = flag(
        0.3, "share of wrongly drafted tokens revealed from --glancing-updates on", SHARE
    )
    glancing_updates: int = flag(
        0, "updates over which the share goes from start to stop; 0 means --max-update", AT_LEAST_0
    )
    block_loss_decay: float = flag(
        1.0,
        "weight position j of a block by this to the power j: a drafted token counts "
        "only if all before it are accepted (1 weights all equally, as the papers)",
        Range(0, 1, above=True),
    )
    soft_targets: float = flag(
        0.0,
        "share of the loss taken against the verifier's own distribution instead of "
        "the target token (attached drafters only)",
        SHARE,
    )
    eval_verifier: Optional[str] = flag(
        None,
        "checkpoint of a verifier: validation decodes with it and the drafter, and "
        "logs accepted_tokens, mean accepted tokens (Tok.) under exact verification; usable as "
        "--best-checkpoint-metric accepted_tokens --maximize-best-checkpoint-metric",
    )
    eval_sentences: int = flag(
        100, "how many validation sentences --eval-verifier decodes", AT_LEAST_1
    )
    # fairseq's own --max-update and --ddp-backend; without a help text they add no flags
    max_update: int = II("optimization.max_update")
    ddp_backend: str = II("distributed_training.ddp_backend")


@register_criterion("glancing_block_loss", dataclass=GlancingBlockLossConfig)
class GlancingBlockLoss(SummedCriterion):
    """Cross-entropy on blocks of masks, with glancing.

    Ge et al. 2022, section 3.2.1; Xia et al. 2023, section 3.1; Qian et al. 2021.

    In training, cuts are random and glancing reveals some targets. In validation, cuts are fixed
    and nothing is revealed, so that figures compare across epochs and runs. In both, the loss is
    over hidden block positions that have a target, and never over the prefix.

    Logged: ``loss``, ``nll_loss`` (base 2), ``ppl``, ``block_accuracy`` (percent of the positions
    in the loss), ``accepted`` (tokens per block that exact verification against the reference would
    emit: the right ones before the first wrong one, and one of the verifier's own; always from a
    draft in which nothing is revealed) and, in training, ``glancing_ratio``. With
    ``--eval-verifier``, validation also logs ``accepted_tokens``.
    """

    figures = (
        ("loss", "loss", "sample_size", BITS, 3),
        ("nll_loss", "nll_loss", "n_learnt", BITS, 3),
        ("block_accuracy", "n_right", "n_learnt", 100.0, 2),
        ("accepted", "n_accepted", "n_blocks", 1.0, 3),
        ("accepted_tokens", "n_emitted", "n_iterations", 1.0, 3),
        ("glancing_ratio", "glancing_ratio", "n_blocks", 1.0, 3),
    )

    def __init__(self, cfg: GlancingBlockLossConfig, task: Any):
        super().__init__(cfg, task)
        self.total_updates = cfg.glancing_updates or cfg.max_update or 0
        settings = getattr(task, "cfg", None) or getattr(task, "args", None)
        for refused, *words in (
            (cfg.glancing_start != cfg.glancing_stop and self.total_updates <= 0,
             "--glancing-updates",
             "the share of revealed tokens goes from --glancing-start to --glancing-stop "
             "over this many updates",
             "give it, or --max-update, or set both shares to the same value"),
            (getattr(settings, "eval_bleu", False),
             "--eval-bleu", "a drafter cannot translate alone",
             "leave it out, and use the metric accepted"),
            (getattr(settings, "left_pad_target", False),
             "--left-pad-target", "a drafter needs targets padded on the right", "leave it out"),
        ):  # fmt: skip
            if refused:
                raise UsageError(*words)
        self.accepted_tokens: Optional[AcceptedTokens] = None
        if cfg.eval_verifier:
            check_whole("--eval-verifier", cfg.ddp_backend)
            self.accepted_tokens = AcceptedTokens(cfg.eval_verifier, cfg.eval_sentences, task)

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Loss of a batch. ``reduce``: sum the loss; else return it for each learnt position, [N].
        Returns the summed loss (nats, fp32), the sum of its weights, and sums for the log."""
        decoder: Any = getattr(model, "decoder", None)
        if not hasattr(decoder, "block_size"):
            raise UsageError(
                "--criterion glancing_block_loss trains drafters only",
                "use --arch spec_drafter_base or another spec_drafter or nar_drafter architecture",
            )
        cfg, target, net_input = self.cfg, sample["target"], sample["net_input"]
        lengths = target.ne(self.padding_idx).sum(1)
        sums: dict[str, Any] = {}
        ratio = 0.0
        if model.training:
            cuts = draw_cuts(lengths, decoder.num_cuts)
            shares = cfg.glancing_start, cfg.glancing_stop
            ratio = glancing_ratio(*shares, model.num_updates, self.total_updates)
            sums["glancing_ratio"] = ratio * cuts.numel()
        else:
            cuts = fixed_cuts(sample["id"], lengths, decoder.num_cuts)
        targets = block_targets(target, cuts, decoder.block_size, self.padding_idx)
        output = model(
            net_input["src_tokens"], net_input["src_lengths"], net_input["prev_output_tokens"],
            cuts=cuts, targets=targets, glancing_ratio=ratio, soft_targets=cfg.soft_targets > 0,
        )  # fmt: skip
        learnt, logits = output["learnt"], output["logits"]
        gold = targets[learnt]
        expected = output["expected"] if cfg.soft_targets > 0 else None
        sums.update(_counts(logits.data, gold, learnt, output["first_correct"]))
        loss, nll = target_nll(
            logits, gold, cfg.label_smoothing, expected, cfg.soft_targets, overwrite=True
        )
        steps = torch.arange(learnt.size(-1), device=learnt.device, dtype=torch.float32)
        weights: Tensor = (cfg.block_loss_decay**steps).expand(learnt.shape)[learnt]
        sums["nll_loss"] = nll.sum()
        if self.accepted_tokens is not None and model.training:
            self.accepted_tokens.restart()
        elif self.accepted_tokens is not None:
            sums.update(self.accepted_tokens.measure(unwrapped(model), sample))
        return self.outcome(loss * weights, weights.sum(), sample, reduce, **sums)


@torch.no_grad()
def _counts(
    logits: Tensor, gold: Tensor, learnt: Tensor, first_correct: Optional[Tensor]
) -> dict[str, Any]:
    """What is right in the batch, and what would be accepted."""
    right = logits.max(-1).indices.eq(gold)  # much faster on the CPU than argmax()
    if first_correct is None:  # nothing was revealed: this pass is the draft
        first_correct = torch.zeros_like(learnt)
        first_correct[learnt] = right
    blocks = first_correct.size(0) * first_correct.size(1)
    return {
        "n_right": right.sum(),
        "n_learnt": learnt.sum(),
        "n_accepted": first_correct.long().cumprod(-1).sum() + blocks,
        "n_blocks": blocks,
    }
