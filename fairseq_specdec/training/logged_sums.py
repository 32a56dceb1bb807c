"""What a criterion needs of a training by several processes."""

from typing import Any

from fairseq import utils
from fairseq.logging import metrics

from fairseq_specdec.errors import UsageError


class LoggedSums:
    """Sums over the logs of all workers, for a criterion's ``reduce_metrics``."""

    def __init__(self, logging_outputs: list[dict[str, Any]]) -> None:
        self.outputs = logging_outputs

    def __contains__(self, key: str) -> bool:
        return any(key in log for log in self.outputs)

    def total(self, key: str) -> float:
        """The sum of ``key``, 0 where no worker logged it."""
        return float(utils.item(sum(log.get(key, 0) for log in self.outputs)))

    def log(self, name: str, amount: str, weight: str, scale: float = 1.0, digits: int = 3) -> None:
        """Log ``name``: the sum ``amount`` by the sum ``weight``, times ``scale``.

        A weight of 0 (nothing of the kind in this batch) leaves the average as it is.
        """
        size = self.total(weight)
        value = scale * self.total(amount) / size if size > 0 else 0.0
        metrics.log_scalar(name, value, size, round=digits)


def log_perplexity() -> None:
    """Log ``ppl``, from ``nll_loss`` in base 2."""
    metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["nll_loss"].avg))


def check_whole(flag: str, ddp_backend: Any) -> None:
    """Refuse to decode in training with a model of which each process has a part only. ``flag``:
    asks for it."""
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
