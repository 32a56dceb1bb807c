PYTHON ?= python
SHELL_SCRIPTS = .ci/run $(shell find scripts -name '*.sh')

.PHONY: check test clean

check:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	shellcheck $(SHELL_SCRIPTS)

test:
	$(PYTHON) -m pytest

clean:
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
