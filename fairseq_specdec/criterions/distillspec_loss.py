"""``--criterion distillspec_loss``: trains a small model on its verifier's distributions."""

import argparse
from dataclasses import dataclass
from typing import Any, Callable, Optional

import torch
from fairseq.criterions import register_criterion
from fairseq.data.data_utils import collate_tokens
from fairseq.dataclass import FairseqDataclass
from omegaconf import II
from torch import Tensor

from fairseq_specdec.errors import UsageError

from ..config import decoding_settings
from ..decoding.builder import build_generator
from ..io.flag_values import SHARE, flag
from ..training.initialisation import load_verifier
from ..training.target_nll import target_nll
from .base import SummedCriterion, check_whole, unwrapped


def forward_kl(logits: Tensor, expected: Tensor) -> Tensor:
    """KL(p || q)."""
    anything = expected.new_zeros(len(expected), dtype=torch.long)
    cross_entropy, _ = target_nll(logits, anything, 0.0, expected, 1.0)
    log_p = torch.log_softmax(expected, 1, dtype=torch.float32)
    return cross_entropy + (log_p.exp() * log_p).sum(1)


def reverse_kl(logits: Tensor, expected: Tensor) -> Tensor:
    """KL(q || p)."""
    log_q = torch.log_softmax(logits, 1, dtype=torch.float32)
    log_p = torch.log_softmax(expected, 1, dtype=torch.float32)
    return (log_q.exp() * (log_q - log_p)).sum(1)


def jensen_shannon(logits: Tensor, expected: Tensor) -> Tensor:
    """The mean of KL(p || m) and KL(q || m), where m is the mean of p and q."""
    log_q = torch.log_softmax(logits, 1, dtype=torch.float32)
    log_p = torch.log_softmax(expected, 1, dtype=torch.float32)
    q, p = log_q.exp(), log_p.exp()
    log_m = torch.logaddexp(log_p, log_q) - torch.log(q.new_tensor(2.0))
    return (p * (log_p - log_m) + q * (log_q - log_m)).sum(1) / 2


def total_variation(logits: Tensor, expected: Tensor) -> Tensor:
    """Half of the sum of |p - q|: the chance that speculative sampling rejects a token (Leviathan
    et al. 2023, corollary 3.6)."""
    q = torch.softmax(logits, 1, dtype=torch.float32)
    p = torch.softmax(expected, 1, dtype=torch.float32)
    return (q - p).abs().sum(1) / 2


DIVERGENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "forward-kl": forward_kl,
    "reverse-kl": reverse_kl,
    "jsd": jensen_shannon,
    "tvd": total_variation,
}
"""By ``--divergence``: fp32 [N], in nats (``tvd``: a probability), of logits [N, V], whose softmax
is q and which get the gradient, and those of the verifier [N, V], whose softmax is p."""


@dataclass
class DistillSpecLossConfig(FairseqDataclass):
    """Settings of the loss."""

    verifier: Optional[str] = flag(
        None, "checkpoint of the verifier whose distributions the model learns"
    )
    divergence: str = flag(
        "forward-kl",
        "how far the model is from the verifier: forward-kl, reverse-kl, jsd (Jensen-Shannon) or "
        "tvd (total variation, the share of rejected tokens in speculative sampling)",
        tuple(DIVERGENCES),
    )
    on_policy: float = flag(
        0.0,
        "share of the batches in which the model samples the targets itself; the others keep those "
        "of the data",
        SHARE,
    )
    # fairseq's own --sentence-avg and --ddp-backend; without a help text they add no flags
    sentence_avg: bool = II("optimization.sentence_avg")
    ddp_backend: str = II("distributed_training.ddp_backend")


@register_criterion("distillspec_loss", dataclass=DistillSpecLossConfig)
class DistillSpecLoss(SummedCriterion):
    """The divergence of a small model from its verifier after each token of the targets.

    Zhou et al. 2024 (DistillSpec). The targets are those of the data, a corpus or what
    ``specdec-distill`` made with the verifier; or samples of the model in training, drawn with
    torch's generator, which fairseq seeds at each update.

    Logged: ``loss``, the divergence (nats, or for ``tvd`` a probability); ``accepted_share``,
    percent of the tokens that speculative sampling would keep; ``agreement``, percent of the
    positions at which both have the same best token; ``own_targets``, percent of the sentences
    whose targets the model sampled.
    """

    figures = (
        ("loss", "loss", "sample_size", 1.0, 4),
        ("accepted_share", "n_kept", "ntokens", 100.0, 2),
        ("agreement", "n_equal", "ntokens", 100.0, 2),
        ("own_targets", "n_own", "nsentences", 100.0, 1),
    )

    def __init__(self, cfg: DistillSpecLossConfig, task: Any):
        super().__init__(cfg, task)
        if not cfg.verifier:
            raise UsageError(
                "--criterion distillspec_loss",
                "needs --verifier, the checkpoint of the verifier whose distributions the "
                "model is to learn",
            )
        if cfg.on_policy:
            check_whole("--on-policy", cfg.ddp_backend)
        self.source, self.target = task.source_dictionary, task.target_dictionary
        verifier = load_verifier("--verifier", cfg.verifier, self.source, self.target).eval()
        # In a list: no part of the criterion, whose parameters are trained and saved.
        self._verifier = [verifier.requires_grad_(False)]

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, Any, dict[str, Any]]:
        """Loss of a batch. ``reduce``: sum the loss; else return it for each target token, [N].
        Returns the summed loss (fp32), what to divide it by, and sums for the log."""
        own = model.training and float(torch.rand(())) < self.cfg.on_policy
        if own:
            sample = self.sampled(model, sample)
        net_input, target = sample["net_input"], sample["target"]
        logits, _ = model(**net_input)
        with torch.no_grad():
            like = next(model.parameters())
            verifier = self._verifier[0].to(device=like.device, dtype=like.dtype)
            expected, _ = verifier(**net_input)
        learnt = target.ne(self.padding_idx)
        logits, expected = logits[learnt], expected[learnt]
        loss = DIVERGENCES[self.cfg.divergence](logits, expected)
        sample_size = target.size(0) if self.cfg.sentence_avg else sample["ntokens"]
        with torch.no_grad():
            same = logits.max(1).indices.eq(expected.max(1).indices)
            kept = 1.0 - total_variation(logits, expected)
        sums = {"n_kept": kept.sum(), "n_equal": same.sum(), "n_own": target.size(0) * int(own)}
        return self.outcome(loss, sample_size, sample, reduce, **sums)

    @torch.no_grad()
    def sampled(self, model: Any, sample: dict[str, Any]) -> dict[str, Any]:
        """A batch with the model's own samples as targets."""
        net_input, student = sample["net_input"], unwrapped(model)
        if bool(net_input["prev_output_tokens"][:, 0].ne(self.target.eos()).any()):
            raise UsageError(
                "--on-policy",
                "the outputs of this task begin with another token than </s>, which a sample "
                "would lack",
                "leave it out, and train on what specdec-distill makes",
            )
        # Early in training a sample may never end.
        limit = 2 * net_input["src_tokens"].size(1) + 10
        args = argparse.Namespace(beam=1, max_len_a=0, max_len_b=limit, sampling=True)
        training = student.training
        student.eval()
        generator = build_generator(
            [student], self.source, self.target, args, decoding_settings(strategy="greedy")
        )
        drawn = [ranked[0]["tokens"] for ranked in generator.generate([student], sample)]
        student.train(training)
        pad, eos = self.padding_idx, self.target.eos()
        previous = collate_tokens(drawn, pad, eos, move_eos_to_beginning=True)
        return {
            **sample,
            "net_input": {**net_input, "prev_output_tokens": previous},
            "target": collate_tokens(drawn, pad, eos),
            "ntokens": sum(map(len, drawn)),
        }
