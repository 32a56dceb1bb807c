#!/usr/bin/env bash
# Train the drafter on the distilled corpus.
# See ../lib/gec.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/gec_nlpcc18/settings.sh
source "$(dirname "$0")/settings.sh"
train_step drafter
