#!/usr/bin/env bash
# Chinese error correction (NLPCC-18), from the corpora to the tables.
# Stop it at any time; the same command resumes. PROFILE=smoke takes minutes. STEPS runs some steps only.
set -euo pipefail
# shellcheck source=scripts/lib/steps.sh
source "$(dirname "$0")/../lib/steps.sh"
run_steps 01_prepare 02_train 03_distill \
    04_train_drafter 05_decode 06_table
