#!/usr/bin/env bash
# Train the drafters. See ../lib/translation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/iwslt17_deen/settings.sh
source "$(dirname "$0")/settings.sh"
train_step drafter
