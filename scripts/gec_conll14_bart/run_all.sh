#!/usr/bin/env bash
# English error correction with the 12+2 model cut out of BART, from the corpora to the rows of the table.
# Stop it at any time; the same command resumes. PROFILE=smoke takes minutes. STEPS runs some steps only.
set -euo pipefail
# shellcheck source=scripts/lib/steps.sh
source "$(dirname "$0")/../lib/steps.sh"
run_steps 01_prepare 02_noise 03_train 04_finetune 05_decode 06_table
