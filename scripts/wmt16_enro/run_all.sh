#!/usr/bin/env bash
# WMT16 English-Romanian, both directions, from the corpus to the papers' tables.
# Stop it at any time; the same command resumes. PROFILE=smoke takes minutes. STEPS runs some steps only.
set -euo pipefail
# shellcheck source=scripts/lib/steps.sh
source "$(dirname "$0")/../lib/steps.sh"
run_steps 01_prepare 02_train_teacher 03_distill 04_train 05_train_drafter \
    06_decode 07_table
