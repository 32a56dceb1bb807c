"""Random input until the time is over: the generators' seeds, their time and their counts."""

import os
import pathlib
import random
import time
from collections import Counter

import pytest

MINUTES = float(os.environ.get("SPECDEC_FUZZ_MINUTES") or 15)
SEED = int(os.environ.get("SPECDEC_FUZZ_SEED") or time.time())
# A file for the seed of the case that runs: what ends the process tells no other.
LAST = os.environ.get("SPECDEC_FUZZ_LAST")
_COUNTS = {}


class Fuzz:
    """One fuzzer's share of the time.

    Attributes:
        counts: of each outcome, how often; printed at the end of the run.
    """

    def __init__(self, name, seconds):
        self.counts = _COUNTS.setdefault(name, Counter())
        self._name, self._seconds = name, seconds

    def seeds(self):
        """Numbers to seed a case with, until the time is over; a failing test shows its own."""
        end, seed = time.monotonic() + self._seconds, SEED
        while time.monotonic() < end:
            self.counts["cases"] += 1
            if LAST:
                pathlib.Path(LAST).write_text(f"{self._name}: SPECDEC_FUZZ_SEED={seed}")
            yield seed
            seed += 1

    @staticmethod
    def random(seed):
        return random.Random(seed)


@pytest.fixture
def fuzz(request):
    """The test's ``Fuzz``; the fuzzers that were chosen share the minutes equally."""
    chosen = sum("fuzz" in getattr(item, "fixturenames", ()) for item in request.session.items)
    return Fuzz(request.node.name, MINUTES * 60 / chosen)


def pytest_collection_modifyitems(items):
    for item in items:
        if "fuzz" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.fuzz)
            item.add_marker(pytest.mark.timeout(MINUTES * 60 + 300))


def pytest_terminal_summary(terminalreporter):
    for name, counts in _COUNTS.items():
        counted = ", ".join(f"{what} {count}" for what, count in counts.items())
        terminalreporter.write_line(f"{name}: {counted} (SPECDEC_FUZZ_SEED={SEED})")
