#!/usr/bin/env bash
# Measure speed, print the papers' tables with our figures beside theirs, and judge the papers' claims by
# them. See ../lib/translation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/ende_small/settings.sh
source "$(dirname "$0")/settings.sh"
table_step
