#!/usr/bin/env bash
# English error correction (BEA-19 restricted data, CoNLL-13, CoNLL-14), from the corpora to the tables.
# Stop it at any time; the same command resumes. PROFILE=smoke takes minutes. STEPS runs some steps only.
set -euo pipefail
# shellcheck source=scripts/lib/steps.sh
source "$(dirname "$0")/../lib/steps.sh"
run_steps 01_prepare 02_noise 03_train 04_finetune \
    05_distill 06_train_drafter 07_decode 08_table
