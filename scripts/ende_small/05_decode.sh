#!/usr/bin/env bash
# Decode the test set with each system, and score the text. See ../lib/translation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/ende_small/settings.sh
source "$(dirname "$0")/settings.sh"
decode_step
