"""``--criterion glancing_block_loss``: trains a drafter on blocks after random prefixes."""

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II
from torch import Tensor

from fairseq_specdec.errors import UsageError

from ..decoding.accepted_tokens import AcceptedTokens
from ..io.flag_values import AT_LEAST_0, AT_LEAST_1, SHARE, Range, check_flags, flag
from ..training.block_noising import block_targets, draw_cuts, fixed_cuts
from ..training.glancing import glancing_ratio
from ..training.logged_sums import LoggedSums, check_whole, log_perplexity, unwrapped
from ..training.target_nll import target_nll


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
    expected_length: float = flag(
        0.0,
        "share of a position's weight taken from the gradient of the block's expected "
        "accepted length instead of --block-loss-decay; for a drafter that is trained already",
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


def expected_length_weights(nll: Tensor, learnt: Tensor) -> Tensor:
    """How much each position's log-probability is worth in accepted tokens.

    With q_j the probability that a drafter gives to the right token at position j, the tokens
    accepted of a block are, in expectation, L = sum over i of q_1 ... q_i. Its derivative by
    log q_j is w_j = sum over i >= j of q_1 ... q_i. So the loss w_j nll_j, with w_j held fixed, has
    the gradient of -L: a position counts by how often it is reached, by how often its token is
    right and by what follows it.

    Args:
        nll: fp32 [N], -log q (nats) of the positions in the loss, in the order of ``learnt``.
        learnt: bool [.., k], which positions those are. A block ends at the first position that is
            not one of them.

    Returns:
        fp32 [N], without gradient, from 0 to k.
    """
    right = torch.zeros(learnt.shape, dtype=torch.float32, device=learnt.device)
    right[learnt] = torch.exp(-nll.detach().float())
    return right.cumprod(-1).flip(-1).cumsum(-1).flip(-1)[learnt]


def _check_shares(cfg: GlancingBlockLossConfig) -> None:
    """Refuse settings out of range and contradictions, by the flag's name."""
    check_flags(cfg, GlancingBlockLossConfig)
    if cfg.expected_length and (cfg.glancing_start or cfg.glancing_stop):
        raise UsageError(
            "--expected-length",
            "a revealed token is not drafted, so the length of the draft is unknown",
            "add --glancing-start 0 --glancing-stop 0",
        )


def _check_task(task: Any) -> None:
    """Refuse settings of the task that a drafter cannot honour, by the flag's name."""
    settings = getattr(task, "cfg", None) or getattr(task, "args", None)
    for name, why in (
        (
            "eval_bleu",
            "a drafter cannot translate alone; leave it out, and use the metric accepted",
        ),
        ("left_pad_target", "a drafter needs targets padded on the right; leave it out"),
    ):
        if getattr(settings, name, False):
            raise UsageError(f"--{name.replace('_', '-')}", why)


@register_criterion("glancing_block_loss", dataclass=GlancingBlockLossConfig)
class GlancingBlockLoss(FairseqCriterion):
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

    def __init__(self, cfg: GlancingBlockLossConfig, task: Any):
        super().__init__(task)
        _check_shares(cfg)
        self.label_smoothing = cfg.label_smoothing
        self.soft_targets = cfg.soft_targets
        self.start, self.stop = cfg.glancing_start, cfg.glancing_stop
        self.total_updates = cfg.glancing_updates or cfg.max_update or 0
        if self.start != self.stop and self.total_updates <= 0:
            raise UsageError(
                "--glancing-updates",
                "the share of revealed tokens goes from --glancing-start to --glancing-stop "
                "over this many updates",
                "give it, or --max-update, or set both shares to the same value",
            )
        self.decay = cfg.block_loss_decay
        self.expected_length = cfg.expected_length
        self.accepted_tokens: Optional[AcceptedTokens] = None
        if cfg.eval_verifier:
            check_whole("--eval-verifier", cfg.ddp_backend)
            self.accepted_tokens = AcceptedTokens(cfg.eval_verifier, cfg.eval_sentences, task)
        _check_task(task)

    def forward(
        self, model: Any, sample: Dict[str, Any], reduce: bool = True
    ) -> Tuple[Tensor, Tensor, Dict[str, Any]]:
        """Loss of a batch. ``reduce``: sum the loss; else return it for each learnt position, [N].
        Returns the summed loss (nats, fp32), the sum of its weights, and sums for the log."""
        target, net_input = sample["target"], sample["net_input"]
        size, num_cuts = self._drafter_shape(model)
        lengths = target.ne(self.padding_idx).sum(1)
        ratio = 0.0
        if model.training:
            cuts = draw_cuts(lengths, num_cuts)
            ratio = glancing_ratio(self.start, self.stop, model.num_updates, self.total_updates)
        else:
            cuts = fixed_cuts(sample["id"], lengths, num_cuts)
        targets = block_targets(target, cuts, size, self.padding_idx)
        output = model(
            net_input["src_tokens"], net_input["src_lengths"], net_input["prev_output_tokens"],
            cuts=cuts, targets=targets, glancing_ratio=ratio, soft_targets=self.soft_targets > 0,
        )  # fmt: skip
        learnt = output["learnt"]
        gold = targets[learnt]
        loss, nll, sample_size = self._weighted_loss(output, gold)
        log = {
            "loss": loss.data.sum(),
            "nll_loss": nll.data.sum(),
            "ntokens": sample["ntokens"],
            "nsentences": target.size(0),
            "sample_size": sample_size.data,
            **self._counts(output["logits"].data, gold, learnt, output["first_correct"]),
        }
        if model.training:
            log["glancing_ratio"] = ratio * cuts.numel()
        log.update(self._decoded(model, sample))
        return (loss.sum() if reduce else loss), sample_size, log

    def _weighted_loss(self, output: Dict[str, Any], gold: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Losses of the learnt positions.

        Args:
            output: of the model.
            gold: long [N], the targets.

        Returns:
            The loss [N] with soft targets and weights, the plain one [N] (nats, fp32), and the sum
            of the weights.
        """
        logits, learnt = output["logits"], output["learnt"]
        expected = output["expected"] if self.soft_targets > 0 else None
        shares = (self.label_smoothing, expected, self.soft_targets)
        loss, nll = target_nll(logits, gold, *shares, overwrite=True)
        if self.decay == 1.0 and self.expected_length == 0.0:
            return loss, nll, learnt.sum().float()
        weights = self._weights(nll, learnt)
        return loss * weights, nll, weights.sum()

    def _weights(self, nll: Tensor, learnt: Tensor) -> Tensor:
        """Of the learnt positions, fp32 [N]; without gradient."""
        steps = torch.arange(learnt.size(-1), device=learnt.device, dtype=torch.float32)
        weights = (self.decay**steps).expand(learnt.shape)[learnt]
        if self.expected_length == 0.0:
            return weights
        length = expected_length_weights(nll, learnt)
        return (1.0 - self.expected_length) * weights + self.expected_length * length

    def _decoded(self, model: Any, sample: Dict[str, Any]) -> Dict[str, Any]:
        """Sums of ``--eval-verifier`` for a batch of validation; {} in training or without it."""
        if self.accepted_tokens is None:
            return {}
        if model.training:
            self.accepted_tokens.restart()
            return {}
        return self.accepted_tokens.measure(unwrapped(model), sample)

    @staticmethod
    def _drafter_shape(model: Any) -> Tuple[int, int]:
        decoder: Any = getattr(model, "decoder", None)
        if not hasattr(decoder, "block_size"):
            raise UsageError(
                "--criterion glancing_block_loss trains drafters only",
                "use --arch spec_drafter_base or another spec_drafter or nar_drafter architecture",
            )
        return decoder.block_size, decoder.num_cuts

    @staticmethod
    @torch.no_grad()
    def _counts(
        logits: Tensor, gold: Tensor, learnt: Tensor, first_correct: Optional[Tensor]
    ) -> Dict[str, Any]:
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

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        sums = LoggedSums(logging_outputs)
        sums.log("loss", "loss", "sample_size", 1 / math.log(2))
        sums.log("nll_loss", "nll_loss", "n_learnt", 1 / math.log(2))
        log_perplexity()
        sums.log("block_accuracy", "n_right", "n_learnt", 100.0, 2)
        sums.log("accepted", "n_accepted", "n_blocks")
        if "n_iterations" in sums:
            sums.log("accepted_tokens", "n_emitted", "n_iterations")
        if "glancing_ratio" in sums:
            sums.log("glancing_ratio", "glancing_ratio", "n_blocks")

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
