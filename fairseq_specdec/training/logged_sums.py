"""Averages over the logs of all workers of a training."""

from typing import Any

from fairseq import utils
from fairseq.logging import metrics


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
