#!/usr/bin/env bash
# Let the verifier rewrite the training targets (sequence-level distillation). See settings.sh and
# ../lib/translation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/ende_small/settings.sh
source "$(dirname "$0")/settings.sh"
distill_step
