#!/usr/bin/env bash
# Train the drafters. See ../lib/translation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/ende_small/settings.sh
source "$(dirname "$0")/settings.sh"
train_step drafter
