#!/usr/bin/env bash
# Train the model that is accelerated. See ../lib/simplification.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/wikilarge/settings.sh
source "$(dirname "$0")/settings.sh"
train_step train
