#!/usr/bin/env bash
# Image super-resolution with blockwise decoding: pictures, base model, heads, table and picture.
# Stop it at any time; the same command resumes. PROFILE=smoke takes minutes. STEPS runs some steps only.
set -euo pipefail
# shellcheck source=scripts/lib/steps.sh
source "$(dirname "$0")/../lib/steps.sh"
run_steps 01_images 02_base 03_heads 04_decode
