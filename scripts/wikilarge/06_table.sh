#!/usr/bin/env bash
# Measure speed, and print the paper's table with our figures beside it. See ../lib/simplification.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/wikilarge/settings.sh
source "$(dirname "$0")/settings.sh"
table_step
