#!/usr/bin/env bash
# Fine-tune what was pretrained on real corrections, in two stages.
# See ../lib/gec.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/gec_conll14_bart/settings.sh
source "$(dirname "$0")/settings.sh"
train_step finetune
