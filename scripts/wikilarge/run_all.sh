#!/usr/bin/env bash
# WikiLarge, simplification, from the corpus to the papers' tables.
# Stop it at any time; the same command resumes. PROFILE=smoke takes minutes. STEPS runs some steps only.
set -euo pipefail
# shellcheck source=scripts/lib/steps.sh
source "$(dirname "$0")/../lib/steps.sh"
run_steps 01_prepare 02_train 03_distill 04_train_drafter 05_decode 06_table
