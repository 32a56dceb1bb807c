#!/usr/bin/env bash
# The papers' translation tables at the scale of one machine, from the corpus to tables and claims.
# Stop it at any time; the same command resumes. PROFILE=smoke takes minutes. STEPS runs some steps only.
set -euo pipefail
# shellcheck source=scripts/lib/steps.sh
source "$(dirname "$0")/../lib/steps.sh"
run_steps 01_prepare 02_distill 03_heads 04_train_drafter 05_decode 06_table
