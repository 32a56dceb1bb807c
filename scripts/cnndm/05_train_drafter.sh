#!/usr/bin/env bash
# Train the drafters. See ../lib/summarisation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/cnndm/settings.sh
source "$(dirname "$0")/settings.sh"
train_step drafter
