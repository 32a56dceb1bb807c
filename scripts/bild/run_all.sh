#!/usr/bin/env bash
# Big Little Decoder beside a trained verifier: small model, prediction alignment, early exit, decoding.
# Stop it at any time; the same command resumes. PROFILE=smoke takes minutes. STEPS runs some steps only.
set -euo pipefail
# shellcheck source=scripts/lib/steps.sh
source "$(dirname "$0")/../lib/steps.sh"
run_steps 01_small 02_calibrate 03_align 04_early_exit 05_decode
