"""``--criterion blockwise_loss``: trains the heads of a blockwise model."""

import random
from dataclasses import dataclass
from typing import Any, Sequence

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II
from torch import Tensor

from fairseq_specdec.errors import UsageError

from ..io.flag_values import Range, flag
from ..training.target_nll import target_nll
from .base import BITS, SummedCriterion, log_figures


@dataclass
class BlockwiseLossConfig(FairseqDataclass):
    """Settings of the heads' loss."""

    label_smoothing: float = flag(
        0.1, "epsilon for label smoothing, 0 means no label smoothing", Range(0, 1, below=True)
    )
    mean_of_heads: bool = flag(
        False,
        "train with the mean of the k losses, which takes the memory of k outputs; "
        "the default draws one head for each batch, as the paper",
    )
    # fairseq's own --seed; without a help text it adds no flag
    seed: int = II("common.seed")


def draw_head(heads: Sequence[int], seed: int, update: int, part: int) -> int:
    """One head, each as likely: the same in every process of a data-parallel training. ``part``:
    number of the batch within the update (``--update-freq``)."""
    return random.Random(f"{seed}/{update}/{part}").choice(list(heads))


def head_targets(target: Tensor, head: int, pad: int) -> Tensor:
    """What a head learns to predict at each place: long [B, T] to long [B, T].

    Head i predicts the i-th token after those that the state has seen; ``pad`` where the sentence
    has no such token.
    """
    ahead = torch.full_like(target, pad)
    if head <= target.size(1):
        ahead[:, : target.size(1) - head + 1] = target[:, head - 1 :]
    return ahead.masked_fill(target.eq(pad), pad)


@register_criterion("blockwise_loss", dataclass=BlockwiseLossConfig)
class BlockwiseLoss(SummedCriterion):
    """Cross-entropy of the heads: Stern et al. 2018, section 6.

    In training, one head is drawn uniformly for each batch (an unbiased estimate of the mean), or
    all are trained at once. In validation all heads are measured. The data folder decides
    whether the data is original or distilled (6.2).

    Logged: ``loss``, ``nll_loss`` (base 2; mean over the trained heads), ``ppl``,
    ``head_<i>_accuracy`` (percent of head i's tokens) and, in validation, ``accepted``: tokens per
    iteration that exact verification against the reference would emit, the right ones of heads
    2 .. k before the first wrong one, and one of the verifier's own.
    """

    def __init__(self, cfg: BlockwiseLossConfig, task: Any):
        super().__init__(cfg, task)
        self._update, self._part = -1, 0

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Loss of a batch.

        Args:
            reduce: sum the loss; else return it for each place of each trained head, [N].

        Returns:
            The summed loss (nats, fp32), the number of places of the trained head (of the one with
            most, where several are trained), and sums for the log.
        """
        if not hasattr(model, "trained_heads"):
            raise UsageError(
                "--criterion blockwise_loss trains blockwise models only",
                "use --arch blockwise_transformer or another of its architectures",
            )
        target, net_input = sample["target"], sample["net_input"]
        trained = model.trained_heads()
        heads = list(range(1, model.decoder.block_size + 1))
        if model.training:
            trained = heads = self._chosen(trained, model.num_updates)
        gold = [head_targets(target, head, self.padding_idx) for head in heads]
        where = [tokens.ne(self.padding_idx) for tokens in gold]
        logits = model(
            net_input["src_tokens"], net_input["src_lengths"], net_input["prev_output_tokens"],
            heads=heads, where=where,
        )  # fmt: skip
        counts = [chosen.sum() for chosen in where]
        sums: dict[str, Any] = {}
        right = [_correct(*head) for head in zip(logits, gold, where)]
        for head, correct, count in zip(heads, right, counts):
            sums.update({f"n_right_{head}": correct.sum(), f"n_head_{head}": count})
        if not model.training:
            sums.update(_accepted(right, where))
        most = counts[heads.index(trained[0])].float()
        losses, nlls = [], []
        for head in trained:
            i = heads.index(head)
            loss, nll = target_nll(logits[i], gold[i][where[i]], self.cfg.label_smoothing)
            # The mean of the heads' mean losses, each head having places of its own number.
            share = most / (len(trained) * counts[i].clamp(min=1))
            losses.append(loss * share)
            nlls.append((nll.data * share).sum())
        return self.outcome(torch.cat(losses), most, sample, reduce, nll_loss=sum(nlls), **sums)

    def _chosen(self, heads: list[int], update: int) -> list[int]:
        """The heads to train with this batch."""
        if self.cfg.mean_of_heads:
            return heads
        self._part = self._part + 1 if update == self._update else 0
        self._update = update
        return [draw_head(heads, self.cfg.seed, update, self._part)]

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        prefix = "n_head_"
        heads = {int(key[len(prefix) :]) for log in logging_outputs for key in log if prefix in key}
        figures = (
            ("loss", "loss", "sample_size", BITS, 3),
            ("nll_loss", "nll_loss", "sample_size", BITS, 3),
            *((f"head_{head}_accuracy", f"n_right_{head}", f"{prefix}{head}", 100.0, 2)
              for head in sorted(heads)),
            ("accepted", "n_accepted", "n_blocks", 1.0, 3),
        )  # fmt: skip
        log_figures(logging_outputs, figures)


def _correct(logits: Tensor, gold: Tensor, where: Tensor) -> Tensor:
    """Where a head is right: bool [B, T].

    Args:
        logits: [N, V] of the N places of ``where``.
        gold: long [B, T], its targets.
        where: bool [B, T], whether it has a target.
    """
    correct = torch.zeros_like(where)
    correct[where] = logits.data.max(-1).indices.eq(gold[where])
    return correct


def _accepted(right: list[Tensor], where: list[Tensor]) -> dict[str, Any]:
    """Blocks that may start in the batch, and tokens that they would emit.

    Args:
        right: for each head, bool [B, T], whether it is right.
        where: for each head, bool [B, T], whether it has a target.
    """
    # Where head 2 has no target, the verifier's own token was </s>: no block starts there.
    starts = where[min(1, len(where) - 1)]
    kept, emitted = starts, starts.sum()
    for correct in right[1:]:
        kept = kept & correct
        emitted = emitted + kept.sum()
    return {"n_accepted": emitted, "n_blocks": starts.sum()}
