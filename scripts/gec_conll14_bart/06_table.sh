#!/usr/bin/env bash
# Measure speed, and print the paper's rows with our figures beside them.
# See ../lib/gec.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/gec_conll14_bart/settings.sh
source "$(dirname "$0")/settings.sh"
table_step
