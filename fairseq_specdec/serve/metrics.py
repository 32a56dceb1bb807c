"""The counters for Prometheus."""

from collections.abc import Iterator

import prometheus_client as prometheus
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

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
    "windows": "Products of the whole vocabulary that each decided several tokens",
}


class Metrics:
    """Counters of one server."""

    def __init__(self, pairs: Pairs) -> None:
        self._services = lambda: {"-".join(each.languages): each for each in pairs.services}
        self._registry = prometheus.CollectorRegistry()
        self._requests = prometheus.Counter(
            "specdec_requests", "Requests", ["path", "status"], registry=self._registry
        )
        self._seconds = prometheus.Histogram(
            "specdec_request_seconds",
            "Time from a request's headers to the end of its answer",
            ["path"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        batches = prometheus.Histogram(
            "specdec_batch_sentences", "Sentences decoded together", ["pair"], buckets=_SENTENCES,
            registry=self._registry,
        )  # fmt: skip
        for pair, service in self._services().items():
            service.scheduler.observe = batches.labels(pair).observe
        self._registry.register(self)
        prometheus.ProcessCollector(registry=self._registry)  # memory, CPU time, open files

    def count(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered. ``path``: of a route, or another's group."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """In Prometheus's format."""
        return prometheus.generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """For prometheus_client: the queues and the counters of decoding, read when asked for."""
        labels = ["pair"]
        gauge, info = GaugeMetricFamily, InfoMetricFamily
        waiting = gauge("specdec_waiting_sentences", "Sentences in the queue", labels=labels)
        expected = gauge("specdec_expected_wait_seconds", "Of a new sentence", labels=labels)
        chosen = info("specdec_decoding", "What was chosen for a model", labels=labels)
        for pair, service in self._services().items():
            facts = service.translator.facts().items()
            chosen.add_metric([pair], {name: fact.partition(":")[0] for name, fact in facts})
            waiting.add_metric([pair], len(service.scheduler.waiting))
            expected.add_metric([pair], service.scheduler.expected_wait())
        yield from (waiting, expected, chosen)
        for name, words in _COUNTERS.items():
            counter = CounterMetricFamily(f"specdec_{name}", words, labels=labels)
            for pair, service in self._services().items():
                counter.add_metric([pair], getattr(service.translator.stats, name))
            yield counter
