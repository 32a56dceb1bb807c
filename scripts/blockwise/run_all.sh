#!/usr/bin/env bash
# Blockwise parallel decoding on a trained verifier: heads, frozen and tuned, then decoding.
# Stop it at any time; the same command resumes. PROFILE=smoke takes minutes. STEPS runs some steps only.
set -euo pipefail
# shellcheck source=scripts/lib/steps.sh
source "$(dirname "$0")/../lib/steps.sh"
run_steps 01_heads 02_decode
