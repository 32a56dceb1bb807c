#!/usr/bin/env bash
# Make both demo pairs from nothing: hours on 2 cores. Stop it at any time; the same command resumes.
# STEPS="01_corpus edit_01_corpus" runs some steps only; each script's head lists its settings.
set -euo pipefail
# shellcheck source=scripts/lib/steps.sh
source "$(dirname "$0")/../lib/steps.sh"
run_steps 01_corpus 02_prepare 03_verifier 04_distill 05_drafter 06_pack \
    edit_01_corpus edit_02_prepare edit_03_verifier edit_04_pack
