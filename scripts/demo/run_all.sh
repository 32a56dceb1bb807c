#!/usr/bin/env bash
# Make both demo pairs from nothing: hours on 2 cores. Stop it at any time; the same command resumes.
# STEPS="01_corpus edit_01_corpus" runs some steps only; each script's head lists its settings.
set -euo pipefail

folder=$(cd "$(dirname "$0")" && pwd)
steps=${STEPS:-01_corpus 02_prepare 03_verifier 04_distill 05_drafter 06_pack \
    edit_01_corpus edit_02_prepare edit_03_verifier edit_04_pack}
for step in $steps; do
    [[ -f $folder/$step.sh ]] || {
        printf 'run_all: STEPS: %s is no step of %s\n' "$step" "$folder" >&2
        exit 1
    }
done
for step in $steps; do
    printf '== %s\n' "$step" >&2
    bash "$folder/$step.sh"
done
