#!/usr/bin/env bash
# Decode the test set with each system, and score the text: SARI and BLEU. See ../lib/simplification.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/wikilarge/settings.sh
source "$(dirname "$0")/settings.sh"
decode_step
