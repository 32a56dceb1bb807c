#!/usr/bin/env bash
# Train the verifiers and what sits on them. See ../lib/translation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/wmt14_ende/settings.sh
source "$(dirname "$0")/settings.sh"
train_step train
