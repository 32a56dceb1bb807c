#!/usr/bin/env bash
# Fine-tune the teacher, the large model, on the original corpus. See ../lib/summarisation.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/xsum/settings.sh
source "$(dirname "$0")/settings.sh"
train_step teacher
