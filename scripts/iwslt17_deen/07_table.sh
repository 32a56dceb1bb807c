#!/usr/bin/env bash
# Measure speed, and print the papers' tables with our figures beside theirs. See ../lib/translation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/iwslt17_deen/settings.sh
source "$(dirname "$0")/settings.sh"
table_step
