"""What Prometheus is told."""

from __future__ import annotations

from typing import Any, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from .service import Service

_SECONDS = tuple(0.005 * 2**i for i in range(13))  # to 20 s
_SENTENCES = (1, 2, 4, 8, 16, 32)


class Metrics:
    """Counters of one server.

    Args:
        service: what it serves.
    """

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "specdec_requests", "Requests", ["path", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "specdec_request_seconds",
            "Time from a request's headers to the end of its answer",
            ["path"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        batches = Histogram(
            "specdec_batch_sentences",
            "Sentences decoded together",
            buckets=_SENTENCES,
            registry=self._registry,
        )
        service.scheduler.observe = batches.observe
        self._registry.register(_State(service))
        ProcessCollector(registry=self._registry)  # memory, CPU time, open files

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered.

        Args:
            path: of a route, or another's group.
            status: of the answer.
            seconds: that it took.
        """
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """In Prometheus's format."""
        return generate_latest(self._registry)


class _State:
    """The queue and the counters of decoding, read when they are asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Any]:
        """As prometheus_client wants it."""
        scheduler, stats = self._service.scheduler, self._service.translator.stats
        yield GaugeMetricFamily(
            "specdec_waiting_sentences", "Sentences in the queue", scheduler.waiting
        )
        yield GaugeMetricFamily(
            "specdec_expected_wait_seconds", "Of a new sentence", scheduler.expected_wait()
        )
        for name in ("sentences", "iterations", "emitted", "drafted", "accepted"):
            words = "Sentences decoded" if name == "sentences" else f"{name.capitalize()} tokens"
            if name == "iterations":
                words = "Passes of the verifier"
            yield CounterMetricFamily(f"specdec_{name}", words, getattr(stats, name))
