#!/usr/bin/env bash
# Every strategy on one verifier in one table: train what is missing, then measure. Hours on 2 cores.
# Stop it at any time; the same command resumes. PROFILE=smoke takes minutes. STEPS runs some steps only.
set -euo pipefail
# shellcheck source=scripts/lib/steps.sh
source "$(dirname "$0")/../lib/steps.sh"
run_steps 00_models 01_table
