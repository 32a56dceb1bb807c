#!/usr/bin/env bash
# Let the teacher rewrite the training summaries (sequence-level distillation). See ../lib/summarisation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/xsum/settings.sh
source "$(dirname "$0")/settings.sh"
distill_step
