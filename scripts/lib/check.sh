#!/usr/bin/env bash
# Usage: bash scripts/lib/check.sh
#
# ruff, mypy and shellcheck over the whole repository; phrases that are no plain English; the
# tables of benchmarks/RESULTS.md.
#
# Settings, from the environment:
#   PYTHON  interpreter that has ruff and mypy (python)
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=${PYTHON:-python}
"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" scripts/lib/plain_english.py
"$python" benchmarks/result_tables.py --check
"$python" -m mypy
find scripts -name '*.sh' -exec shellcheck .ci/run scripts/run {} +
