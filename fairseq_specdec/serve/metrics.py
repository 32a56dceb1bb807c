"""The counters for Prometheus."""

from collections.abc import Iterator
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from .pairs import Pairs

_SECONDS = tuple(0.005 * 2**i for i in range(13))  # to 20 s
_SENTENCES = (1, 2, 4, 8, 16, 32)
# Of ``DecodingStats``.
_COUNTERS = {
    "sentences": "Sentences decoded",
    "iterations": "Passes of the verifier",
    "emitted": "Emitted tokens",
    "drafted": "Drafted tokens",
    "accepted": "Accepted tokens",
}


class Metrics:
    """Counters of one server."""

    def __init__(self, pairs: Pairs) -> None:
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
            "specdec_batch_sentences", "Sentences decoded together", ["pair"], buckets=_SENTENCES,
            registry=self._registry,
        )  # fmt: skip
        for service in pairs.services:
            service.scheduler.observe = batches.labels("-".join(service.languages)).observe
        self._registry.register(_State(pairs))
        ProcessCollector(registry=self._registry)  # memory, CPU time, open files

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered. ``path``: of a route, or another's group."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """In Prometheus's format."""
        return generate_latest(self._registry)


class _State:
    """The queues and the counters of decoding, read when they are asked for."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs

    def collect(self) -> Iterator[Any]:
        """As prometheus_client wants it."""
        waiting = GaugeMetricFamily(
            "specdec_waiting_sentences", "Sentences in the queue", labels=["pair"]
        )
        expected = GaugeMetricFamily(
            "specdec_expected_wait_seconds", "Of a new sentence", labels=["pair"]
        )
        counters = {
            name: CounterMetricFamily(f"specdec_{name}", words, labels=["pair"])
            for name, words in _COUNTERS.items()
        }
        for service in self._pairs.services:
            pair, scheduler = ["-".join(service.languages)], service.scheduler
            waiting.add_metric(pair, scheduler.waiting)
            expected.add_metric(pair, scheduler.expected_wait())
            for name, counter in counters.items():
                counter.add_metric(pair, getattr(service.translator.stats, name))
        yield from (waiting, expected, *counters.values())
