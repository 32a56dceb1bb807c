#!/usr/bin/env bash
# Decode the validation and the test set with each system, and score the text.
# See ../lib/gec.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/gec_conll14/settings.sh
source "$(dirname "$0")/settings.sh"
decode_step
