#!/usr/bin/env bash
# Fetch, cut into subwords and binarise the corpus; fetch the pretrained models.
# See ../lib/summarisation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/cnndm/settings.sh
source "$(dirname "$0")/settings.sh"
prepare_step
