"""Bars: shown where stderr is a terminal, quiet elsewhere, and never on stdout."""

import io
import logging
import sys
import time

import pytest

from fairseq_specdec.io import progress

logger = logging.getLogger("test_progress")


def count(total=40):
    with progress.Counter(total, "line", logger) as counter:
        for _ in range(total):
            counter.add(1)


def walk():
    assert sum(progress.bar(range(40), "walking", unit="step")) == 780


@pytest.mark.parametrize(
    "work, message", [(count, ("40/40", " line")), (walk, ("walking: 100%", "40/40", " step"))]
)
def test_on_a_terminal_a_bar_is_shown(work, message, capfd, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    work()
    shown = terminal.getvalue()
    assert "\r" in shown and all(part in shown for part in message), shown
    assert capfd.readouterr() == ("", "")


def test_without_a_terminal_a_counter_logs_after_5_seconds_and_every_minute(monkeypatch, caplog):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with caplog.at_level("INFO"), progress.Counter(80, "line", logger) as counter:
        for _ in range(40):
            now[0] += 4.0
            counter.add(2)
    assert caplog.messages == [
        "4 of 80 lines, 0.5 per second, about 3 min left",
        "36 of 80 lines, 0.5 per second, about 2 min left",
        "68 of 80 lines, 0.5 per second, about 1 min left",
    ]
