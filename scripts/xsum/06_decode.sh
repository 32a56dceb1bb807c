#!/usr/bin/env bash
# Decode the test set with each system, and score the text: ROUGE. See ../lib/summarisation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/xsum/settings.sh
source "$(dirname "$0")/settings.sh"
need_rouge
decode_step
