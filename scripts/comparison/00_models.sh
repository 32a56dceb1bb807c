#!/usr/bin/env bash
# Train the models of the table on one verifier: the first step of scripts/blockwise in $BLOCKWISE, and
# the training steps of scripts/bild in $BILD, each with its own settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/comparison/settings.sh
source "$REPO/scripts/comparison/settings.sh"

OUT=$BLOCKWISE STEPS=01_heads bash "$REPO/scripts/blockwise/run_all.sh"
OUT=$BILD STEPS="01_small 02_calibrate 03_align 04_early_exit" bash "$REPO/scripts/bild/run_all.sh"
