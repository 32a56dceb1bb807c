#!/usr/bin/env bash
# Let the model rewrite the training targets, for the drafter of gad. See ../lib/simplification.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/wikilarge/settings.sh
source "$(dirname "$0")/settings.sh"
distill_step
