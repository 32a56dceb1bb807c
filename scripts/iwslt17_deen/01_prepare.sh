#!/usr/bin/env bash
# Fetch, clean, tokenise and binarise the corpus, once for both directions. See ../lib/translation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/iwslt17_deen/settings.sh
source "$(dirname "$0")/settings.sh"
prepare_step
