#!/usr/bin/env bash
# Let the teacher rewrite the training targets (sequence-level distillation). See ../lib/translation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/wmt16_enro/settings.sh
source "$(dirname "$0")/settings.sh"
distill_step
