"""Says at the end of a run how much the property tests have tried."""

from properties_tally import TALLY


def pytest_terminal_summary(terminalreporter):
    for line in TALLY.lines():
        terminalreporter.write_line(line)
