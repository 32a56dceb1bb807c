#!/usr/bin/env bash
# Fetch, clean, learn subwords, binarise; the test set and its references. See ../lib/simplification.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/wikilarge/settings.sh
source "$(dirname "$0")/settings.sh"
prepare_step
