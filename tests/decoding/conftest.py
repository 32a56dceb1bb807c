"""The counts of the property tests, at the end of a run."""

from properties_tally import TALLY


def pytest_terminal_summary(terminalreporter):
    if TALLY:
        counts = ", ".join(f"{what} {count}" for what, count in TALLY.items())
        terminalreporter.write_line(f"exactness: {counts}")
