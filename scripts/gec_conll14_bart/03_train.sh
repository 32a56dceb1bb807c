#!/usr/bin/env bash
# Cut the 12+2 model out of BART, and pretrain it on synthetic errors.
# See ../lib/gec.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/gec_conll14_bart/settings.sh
source "$(dirname "$0")/settings.sh"
start_step
train_step train
